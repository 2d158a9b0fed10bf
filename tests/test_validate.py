"""`mohamjax validate`: files of every format are recognised and checked, by the readers that the commands use."""

import copy

import fuzz_documents
import pytest
from test_bad_documents import written
from test_schemas import SOUND

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.validation import FORMATS, format_of, validate_file

IN_YAML = ("template/1", "technology/1", "package", "requirements/1", "robust/1", "scenario", "platform")
OTHER = {"design-arrays/1": ("arrays", "npz"), "jobs": ("jobs", "csv"), "sram": ("sram", "csv")}


def sound(folder, name):
    """The path of a sound file of a format, with what it needs beside it."""
    if name in SOUND:
        return written(folder, SOUND[name], f"it.{'yaml' if name in IN_YAML else 'json'}")
    if name == "onnx":
        return written(folder, {}).with_name("m.onnx")
    reader, ending = OTHER[name]
    path = written(folder, {}).with_name(f"it.{ending}")
    path.write_bytes(fuzz_documents.sound(reader))
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_sound_files_of_every_format_are_recognised_and_valid(name, tmp_path):
    path = sound(tmp_path, name)
    assert format_of(path) == name
    checked = validate_file(path)
    assert (checked.path, checked.format, checked.broken) == (path, name, ())
    assert validate_file(path, name) == checked
    assert str(checked).startswith(f"{path}: {name}, ")


@pytest.mark.parametrize("name", [name for name in SOUND if name in IN_YAML])
def test_the_format_need_not_be_stated(name, tmp_path):
    document = {key: value for key, value in SOUND[name].items() if key != "format"}
    assert format_of(written(tmp_path, document, "it.yaml")) == name


@pytest.mark.parametrize(
    ("name", "entries", "broken"),
    [("designs/1", "designs", "design first"), ("fluid-schedule/1", "cases", "cases[0]"),
     ("job-table/1", "schedules", "schedules[0]"), ("mappings/1", None, "")],
)  # fmt: skip
def test_a_broken_entry_does_not_hide_the_others(name, entries, broken, tmp_path):
    document = copy.deepcopy(SOUND[name])
    rows = document["sets"][0]["mappings"] if entries is None else document[entries]
    rows.append(copy.deepcopy(rows[0]))
    rows[0] = {key: "first" for key in ("design_id", "name") if key in rows[0]}
    checked = validate_file(written(tmp_path, document))
    assert len(checked.broken) == 1
    assert broken in checked.broken[0]
    assert str(checked).endswith("1 not valid")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"format": "designs/2"}, "format: unknown format 'designs/2'; did you mean 'designs/1'?"),
        ({"name": "x"}, "its keys could be those of template/1 or technology/1 or scenario or platform; state"),
        ({"colour": 1}, "its keys are those of no format; state the format"),
        ([1], "holds a list at its top; begin with `format`"),
    ],
)
def test_what_is_not_recognised_is_said(document, complaint, tmp_path):
    path = written(tmp_path, document)
    with pytest.raises(InputError) as error:
        format_of(path)
    assert str(error.value).startswith(f"{path}: {complaint}")


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match=r"`format`: unknown format 'designs'; did you mean 'designs/1'"):
        validate_file("x.json", "designs")


def test_the_verb(tmp_path, capsys):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    good, bad = sound(tmp_path / "a", "package"), written(tmp_path / "b", {"max_tile": 3}, "it.yaml")
    assert main(["validate", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: package, package of up to 16 tiles, valid\n"
    assert main(["validate", "--as", "package", str(bad), str(good), str(tmp_path / "none.json")]) == 2
    told = capsys.readouterr()
    assert told.out.count("\n") == 1
    errors = [line for line in told.err.splitlines() if line.startswith("mohamjax: ")]
    assert errors[0] == f"mohamjax: {bad}: max_tile: unknown key 'max_tile'; did you mean 'max_tiles'?"
    assert len(errors) == 2
    assert main(["validate", str(good), "--as", "packages"]) == 2
    assert "--as: unknown format 'packages'; did you mean 'package'?" in capsys.readouterr().err


def test_the_verb_names_broken_entries_and_writes_its_lines_to_a_file(tmp_path, capsys):
    rows = [{**SOUND["fluid-schedule/1"]["cases"][0], "name": f"c{i}", "order": [0, 0, 1]} for i in range(25)]
    path = written(tmp_path, {**SOUND["fluid-schedule/1"], "cases": rows})
    assert main(["validate", str(path), "--out", str(tmp_path / "told.txt")]) == 2
    told = capsys.readouterr()
    assert told.err.count("cases[") == 20
    assert "5 more are not valid" in told.err
    assert (tmp_path / "told.txt").read_text() == f"{path}: fluid-schedule/1, 25 schedules, 25 not valid\n"


def test_results_are_checked_by_their_folder(tmp_path, capsys):
    path = sound(tmp_path, "designs/1").rename(tmp_path / "designs.json")
    assert main(["validate", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{path}: designs/1, 2 designs, valid\n"


@pytest.mark.parametrize("cut", range(1, 700, 97))
def test_a_file_that_is_cut_off_is_one_line(cut, tmp_path, capsys):
    path = sound(tmp_path, "designs/1")
    path.write_bytes(path.read_bytes()[:-cut])
    assert main(["validate", str(path)]) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert sum(line.startswith("mohamjax: ") for line in told.splitlines()) == 1
