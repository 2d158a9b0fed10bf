"""Messages on files that are broken, of another kind than their name says, or missing: a full sentence each."""

import csv
import json

import pytest

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_technology
from mohamjax.io import read_designs

ROW = {"order": [0, 1], "accelerator": [0, 0]}

TABLE = {
    "format": "job-table/1",
    "resources": [{"name": "memory", "bandwidth": 4}],
    "accelerators": [{"name": "a", "resources": [0]}],
    "jobs": [{"name": "one", "duration": [4], "bytes": 4}, {"name": "two", "duration": [4], "bytes": 4}],
    "schedules": [{"name": "first", **ROW}],
}
HEAD = {key: value for key, value in TABLE.items() if key != "schedules"}

CUT = [  # a line, the column of its fault, and the message
    ('{"name": "third", "order": [0, 1', 33, "Expecting ',' delimiter"),
    ('{"name": "thi', 10, "Unterminated string"),
    ('{"name": "a\tb"}', 12, "Invalid control character"),
    ('{"name": "a"} {"name": "b"}', 15, "Extra data"),
]


def jsonl(path, *lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def said(capsys, *command):
    """The standard error of a command that is refused."""
    assert main([str(word) for word in command]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(("line", "column", "told"), CUT)
def test_a_line_that_is_cut_off_is_told_with_its_place(tmp_path, line, column, told):
    path = jsonl(tmp_path / "many.jsonl", HEAD, {"name": "first", **ROW}, line, {"name": "last", **ROW})
    reason = f"line 3, column {column}: is not valid JSON: {told}; mend or make the file again; it may be cut off"
    mj.evaluate_files(path, tmp_path / "rows.csv", float32=True)
    rows = list(csv.DictReader(open(tmp_path / "rows.csv", newline="")))  # noqa: SIM115
    assert [row["valid"] for row in rows] == ["1", "0", "1"] and rows[1]["reason"] == reason
    with pytest.raises(InputError) as error:  # the file is read as a whole
        mj.read_schedules(path)
    assert str(error.value) == f"{path}: {reason}"


def test_a_design_that_is_cut_off_is_told_with_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = {
        "format": "designs/1", "networks": ["net"], "templates": ["simba"], "mappings": [],
        "layers": [{"network": 0, "type": "fc", "bounds": {"K": 2, "C": 2}, "predecessors": []}],
    }  # fmt: skip
    own = read_designs(jsonl(tmp_path / "many.jsonl", head, {"chiplets": []}, '{"chiplets": [{"templ'))
    told = "line 3, column 16: is not valid JSON: Unterminated string; mend or make the file again; it may be cut off"
    assert own.reasons[1] == told and own.reasons[0] != told


@pytest.mark.parametrize("name", ["many.txt", "many.json", "many"])
@pytest.mark.parametrize("kind", ["designs", "schedules", "mappings"])
def test_json_lines_of_another_name_are_known_as_such(tmp_path, capsys, name, kind):
    path = jsonl(tmp_path / name, HEAD, {"name": "first", **ROW})
    told = said(capsys, "evaluate", kind, path)
    assert "is a JSON lines file, one object a line, not one JSON document; call it .jsonl" in told
    assert "`evaluate designs` and `evaluate schedules` take them" in told and "takes them as samples" in told


def test_json_lines_are_no_loop_nests(tmp_path, capsys):
    path = jsonl(tmp_path / "s.jsonl", {"id": "one"}, {"id": "two"})
    told = said(capsys, "evaluate", "mappings", path)
    assert (
        "is a JSON lines file" in told and "call it" not in told and "`evaluate mappings` takes them as samples" in told
    )


def test_a_document_with_something_behind_it_is_not_taken_for_json_lines(tmp_path, capsys):
    path = tmp_path / "two.json"
    path.write_text('{\n "format": "designs/1"\n}\n{"more": 1}\n')
    assert "line 4, column 1: is not valid JSON: Extra data" in said(capsys, "evaluate", "designs", path)


@pytest.mark.parametrize("kind", ["designs", "schedules", "mappings"])
def test_csv_is_known_as_such(tmp_path, capsys, kind):
    (tmp_path / "front.csv").write_text("design_id,latency_s\n0,1\n")
    told = said(capsys, "evaluate", kind, tmp_path / "front.csv")
    assert "front.csv: is CSV, and not JSON; give the `designs.json` beside a `front.csv`" in told


@pytest.mark.parametrize("kind", ["designs", "schedules"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_result_of_an_ending_that_nobody_writes_is_refused(tmp_path, capsys, kind, number):
    path, out = tmp_path / "jobs.json", tmp_path / "x.xlsx"
    path.write_text(json.dumps(TABLE))
    told = said(capsys, "evaluate", kind, *[path] * number, "--out", out)
    assert "--out: cannot be written as .xlsx here; name a file that ends in ." in told and not out.exists()
    with pytest.raises(InputError, match=r"argument `out`: cannot be written as .xlsx here"):
        mj.evaluate_files(path, out)
    assert not out.exists()


def test_a_table_of_srams_that_is_missing_is_told_with_who_asks_for_it(tmp_path):
    path, table = tmp_path / "mine.yaml", tmp_path / "nope.csv"
    path.write_text("sram: nope.csv\n")
    with pytest.raises(InputError) as error:
        load_technology(path)
    assert str(error.value) == f"{path}: sram: {table}: no such file; check the path"
    table.write_text("nothing\n")
    with pytest.raises(InputError) as error:
        load_technology(path)
    assert str(error.value).startswith(f"{path}: sram: {table}: ")


def test_files_of_a_folder_that_are_passed_over_are_named(tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "jobs.json").write_text(json.dumps(TABLE))
    command = ["evaluate", "schedules", str(folder), "--float32", "--out", str(tmp_path / "rows.csv")]
    (folder / "a.txt").write_text("")
    assert main(command) == 0
    assert f"1 file in folders held something else and was passed over: {folder / 'a.txt'}\n" in capsys.readouterr().err
    for name in "bcdef":
        (folder / f"{name}.json").write_text("{}")
    assert main(command) == 0
    named = ", ".join(str(folder / f"{name}.json") for name in "bcde")
    assert (
        f"6 files in folders held something else and were passed over: {named} and 2 more\n" in capsys.readouterr().err
    )


def test_other_versions_of_our_formats_and_files_without_entries_are_told(tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"format": "designs/2", "designs": []}))
    jsonl(folder / "b.jsonl", HEAD)
    (folder / "c.json").write_text(json.dumps(TABLE))
    (folder / "d.json").write_text(json.dumps({**TABLE, "schedules": []}))
    out = tmp_path / "rows.csv"
    assert main(["evaluate", "schedules", str(folder), "--float32", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert f"{folder / 'a.json'}: format: unknown format 'designs/2'; give a file of format designs/1" in told
    for name in ("b.jsonl", "d.json"):
        assert f"{folder / name}: holds no designs or schedules, so it has no row" in told
    assert "2 rows, 1 valid" in told and "passed over" not in told


CASE = {
    "name": "case", "duration": [4], "bytes": [16], "predecessors": [[]], "accelerator": [0], "order": [0],
    "resource_bandwidth": [4], "resources_of_accelerator": [[0]],
}  # fmt: skip


@pytest.mark.parametrize(
    "given", [TABLE, {"format": "fluid-schedule/1", "cases": [CASE]}], ids=lambda own: own["format"]
)
def test_an_answer_is_not_taken_for_an_input(tmp_path, capsys, given):
    path, out = tmp_path / "given.json", tmp_path / "rows.csv"
    path.write_text(json.dumps(given))
    assert main(["evaluate", "schedules", str(path), "--out", str(tmp_path / "told.json")]) == 0
    told = said(capsys, "evaluate", "schedules", tmp_path / "told.json")
    assert "told.json: is the answer of an evaluation, and holds no schedules to evaluate" in told
    assert main(["evaluate", "schedules", str(tmp_path), "--float32", "--out", str(out)]) == 0
    assert "told.json: is the answer of an evaluation, so it has no row" in capsys.readouterr().err
    assert [row["file"] for row in csv.DictReader(out.read_text().splitlines())] == [str(path)]


NAMED = [{"name": name, "duration": 4, "bytes": 4} for name in ("load", "conv", "pool")]


@pytest.mark.parametrize(
    ("before", "schedule", "told"),
    [
        ({}, {"order": ["load", "conv", "load"]}, "job 'load' stands at places 0 and 2; list every job exactly once"),
        ({1: ["load"]}, {"order": [1, 2, 0]}, "job 'conv' stands before its predecessor 'load', so that jobs "),
        ({2: ["pool"]}, {}, "jobs[2].predecessors: job 'pool' waits for itself; remove one of these"),
        ({0: ["conv"], 1: ["load"]}, {}, "jobs[0].predecessors: jobs 'load', 'conv' wait for each other"),
    ],
)
def test_jobs_that_have_names_are_told_by_them(tmp_path, capsys, before, schedule, told):
    jobs = [{**job, "predecessors": before.get(j, [])} for j, job in enumerate(NAMED)]
    own = {"name": "first", "order": [0, 1, 2], "accelerator": [0, 0, 0], **schedule}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({**TABLE, "jobs": jobs, "schedules": [own]}))
    main(["evaluate", "schedules", str(path)])
    assert told in capsys.readouterr().err


def test_a_job_that_moves_bytes_in_no_time_gets_a_remedy_that_makes_sense(tmp_path, capsys):
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({**TABLE, "jobs": [{"name": "load", "duration": 0, "bytes": 292}, NAMED[1]]}))
    told = said(capsys, "evaluate", "schedules", path)
    assert "is 0, but the job moves 292 bytes; write how long the job takes when nothing slows it, or 0 bytes" in told
