"""`mohamjax validate`: files of every format are recognised and checked, by the readers that the commands use."""

import copy
import dataclasses

import fuzz_documents
import pytest
from test_bad_documents import written
from test_schemas import SOUND
from workload_models import info, model, node, weight

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_template, template_to_yaml
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
     ("job-table/1", "schedules", "schedules[0]"), ("mappings/1", None, "sets[0].mappings[0]")],
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


@pytest.mark.parametrize(
    ("name", "format"),
    [("it.json", "design-arrays/1"), ("tech.yaml", "sram"), ("it.csv", "technology/1"), ("it.yaml", "onnx"),
     ("m.onnx", "scenario"), ("simba", "template/1"), ("45nm", "technology/1"), ("ar-vr", "scenario"),
     ("S4", "platform")],
)  # fmt: skip
def test_a_file_of_another_format_than_the_one_that_is_named_is_refused(name, format, tmp_path, monkeypatch, capsys):
    """A name of something packaged is no file, and the ending tells some formats apart."""
    sound(tmp_path, "designs/1")
    sound(tmp_path, "sram")
    sound(tmp_path, "technology/1").rename(tmp_path / "tech.yaml")
    sound(tmp_path, "scenario")
    monkeypatch.chdir(tmp_path)
    assert main(["validate", "--as", format, name]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("mohamjax: ") == 1 and "Traceback" not in told.err


def test_an_ending_in_capitals_that_no_command_reads_is_refused(tmp_path):
    path = sound(tmp_path, "design-arrays/1").rename(tmp_path / "IT.NPZ")
    with pytest.raises(InputError, match=r"ends in .NPZ; call it IT.npz"):
        validate_file(path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"nominal": "none"}, "nominal: no model is called 'none'"),
        ({"models": [{"name": "a"}, {"name": "a"}]}, "two application models are called 'a'"),
        ({"models": [{"name": "a", "weight": 1}, {"name": "b", "weight": 1e9}]}, "are too far apart"),
        ({"models": [{"name": "a", "scenario": "m.onnx", "networks": ["none"]}]}, "models[0].networks[0]: no network"),
    ],
)
def test_models_are_checked_as_a_search_checks_them(changes, complaint, tmp_path):
    document = {"models": [{"name": "a", "networks": ["[n-p]*t", "*"]}], **changes}
    path = written(tmp_path, document, "it.yaml")
    with pytest.raises(InputError) as error:
        validate_file(path, "robust/1")
    assert complaint in str(error.value)


def test_names_of_networks_are_looked_up_where_the_scenario_is_given(tmp_path, capsys):
    path = written(tmp_path, {"models": [{"name": "a", "networks": ["[l-n]*", "*x[]a]", "[!"]}]}, "it.yaml")
    assert main(["validate", "--as", "robust/1", str(path)]) == 0
    told = "1 application model (names of the networks of no scenario not looked up), valid\n"
    assert capsys.readouterr().out.endswith(told)
    model = ["--workload", str(tmp_path / "m.onnx")]
    assert main(["validate", "--as", "robust/1", str(path), *model]) == 2
    assert "models[0].networks[1]: no network of m is called '*x[]a]'" in capsys.readouterr().err
    path = written(tmp_path, {"models": [{"name": "a", "networks": ["[l-n]*"]}]}, "it.yaml")
    assert main(["validate", "--as", "robust/1", str(path), *model]) == 0
    assert capsys.readouterr().out.endswith("1 application model, valid\n")


def test_a_job_table_without_schedules_is_valid_but_not_without_jobs(tmp_path):
    document = {key: value for key, value in SOUND["job-table/1"].items() if key != "schedules"}
    assert str(validate_file(written(tmp_path, document))).endswith("and no schedule, valid")
    for empty in ({}, {"schedules": [{"order": [], "accelerator": []}]}):
        with pytest.raises(InputError, match="jobs: there are no jobs; give at least one"):
            validate_file(written(tmp_path, {**document, "jobs": [], **empty}))


def test_files_without_entries_and_answers_are_refused(tmp_path):
    with pytest.raises(InputError, match="holds no loop nests"):
        validate_file(written(tmp_path, {"format": "mappings/1", "sets": []}))
    answer = {"format": "fluid-schedule/1", "cases": [{"name": "a", "start": [0], "end": [1], "makespan": 1}]}
    with pytest.raises(InputError, match="is the answer of an evaluation"):
        validate_file(written(tmp_path, answer))


def test_what_a_file_needs_beside_itself_can_be_given(tmp_path, capsys):
    document = copy.deepcopy(SOUND["mappings/1"])
    own = load_template(document["sets"][0]["template"])
    template = tmp_path / "own.yaml"
    template.write_text(template_to_yaml(dataclasses.replace(own, name="own")))
    document["sets"][0]["template"] = "own"
    path = str(written(tmp_path, document))
    assert main(["validate", path]) == 2
    assert "; or give the file of yours as --templates" in capsys.readouterr().err
    assert main(["validate", path, "--templates", f"{template},"]) == 0  # a comma at the end names nothing
    assert main(["validate", path, "--templates", ","]) == 2
    assert "--templates: names no template" in capsys.readouterr().err
    graph = [node("MatMul", "x w", "y", "fc"), node("Foo", "y", "z", "foo")]
    free = model(graph, [info("x", ("a", 4))], ["z"], [weight("w", (4, 6))])
    (tmp_path / "free.onnx").write_bytes(free.SerializeToString())
    assert main(["validate", str(tmp_path / "free.onnx"), "--skip-unknown", "--shape", "x=2,4"]) == 0


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
