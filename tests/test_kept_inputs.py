"""No result replaces a file that it is made from, however that file is named."""

import argparse
import json
import os
import pathlib
import shutil

import pytest

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.cli.outputs import keep_inputs_of, keep_outputs_apart
from mohamjax.errors import InputError
from mohamjax.hardware import load_template, template_to_yaml
from mohamjax.io import find_inputs, keep_inputs

EXAMPLES = pathlib.Path(__file__).parent.parent / "docs/examples"

TABLE = {
    "format": "job-table/1",
    "resources": [{"name": "memory", "bandwidth": 4}],
    "accelerators": [{"name": "a", "resources": [0]}],
    "jobs": [{"name": "one", "duration": [4], "bytes": 4}],
    "schedules": [{"name": "first", "order": [0], "accelerator": [0]}],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with inputs of several commands, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    rows = [{**TABLE, "schedules": []}, *TABLE["schedules"]]
    pathlib.Path("jobs.json").write_text(json.dumps(TABLE))
    pathlib.Path("many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pathlib.Path("fold/below").mkdir(parents=True)
    shutil.copy("many.jsonl", "fold/below/a.jsonl")
    for path in EXAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, path.name)
    pathlib.Path("mine.json").write_text('{"format": "mappings/1"}')
    pathlib.Path("s.jsonl").write_text("{}\n")
    pathlib.Path("full").mkdir()
    pathlib.Path("full/arch.yaml").write_text("architecture: {}\n")
    os.symlink("jobs.json", "linked.json")
    os.link("jobs.json", "hard.json")
    return tmp_path


COMMANDS = [
    "evaluate designs many.jsonl --out many.jsonl",
    "evaluate designs many.jsonl --resume --out many.jsonl",
    "evaluate schedules jobs.json --out jobs.json",
    "evaluate schedules jobs.json --out ./fold/../jobs.json",
    "evaluate schedules jobs.json --out linked.json",
    "evaluate schedules linked.json --out jobs.json",
    "evaluate schedules jobs.json --out hard.json",
    "evaluate designs jobs.json --trace jobs.json",
    "evaluate designs jobs.json --periods 2 --periods-out jobs.json",
    "evaluate designs fold --out fold/below/a.jsonl",
    "evaluate schedules . --out fold/below/a.jsonl",
    "evaluate mappings mine.json --out mine.json",
    "evaluate mappings --architectures jobs.json --samples s.jsonl --out s.jsonl",
    "evaluate mappings --architectures jobs.json --samples s.jsonl --out jobs.json",
    "evaluate mappings --timeloop full --out full/arch.yaml",
    "convert costs costs.csv --bandwidth 16 --out costs.csv",
    "convert costs costs.csv --bandwidth 16 --schedule cost_schedule.csv --out cost_schedule.csv",
    "convert layers layers.csv --workload net.onnx --out layers.csv",
    "convert layers layers.csv --workload net.onnx --out net.onnx",
    "convert allocation allocation.yaml --workload net.onnx --out allocation.yaml",
    "map net.onnx --templates simba,mine.json --out mine.json",
    "workload net.onnx --csv net.onnx",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_replaces_what_it_reads(folder, capsys, command):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "which the result would replace; name another file for the result" in line
    *_, option, out = command.split()
    assert line.startswith(f"mohamjax: {out}: {option}: is also ")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("search run/config.yaml --out run", "config.yaml"),
        ("search linked.yaml --robust run/robust.yaml --out ./run", "config.yaml"),
        ("search net.onnx --inject run/designs.npz --bulk --out run", "designs.npz"),
        ("search net.onnx --require run/config.yaml --dry-run --out run", "config.yaml"),
        ("codesign run/config.yaml --out run", "config.yaml"),
        ("schedule --jobs run/job_table.json --out run", "job_table.json"),
        ("templates export run/arch.yaml --out run", "arch.yaml"),
        ("templates export simba --technology run/constraints.yaml --out run", "constraints.yaml"),
    ],
)
def test_no_command_replaces_what_it_reads_in_the_folder_that_it_writes(folder, capsys, command, name):
    pathlib.Path("run").mkdir()
    for own in ("config.yaml", "robust.yaml", "designs.npz", "job_table.json"):
        pathlib.Path("run", own).write_text("name: mine\n")
    os.symlink("run/config.yaml", "linked.yaml")
    pathlib.Path("run/arch.yaml").write_text(template_to_yaml(load_template("simba")))
    pathlib.Path("run/constraints.yaml").write_text("name: mine\n")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mohamjax: {command.split()[-1]}/{name}: --out: is also the input ")
    assert line.endswith("which the result would replace; name another folder for the results")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command",
    [
        "evaluate designs jobs.json --out same --trace same",
        "evaluate designs jobs.json --trace same --periods 2 --periods-out ./same",
        "map edge --out same --nests same",
        "map edge --nests same --figure same",
    ],
)
def test_no_file_takes_two_results(folder, capsys, command):
    assert main(command.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is the file of --" in line and line.endswith(", too; name a file of its own for each")
    assert not pathlib.Path("same").exists()


def test_a_device_takes_two_results():
    keep_outputs_apart(argparse.Namespace(out=os.devnull, trace=os.devnull, nests="-", csv="-"))


def test_the_folder_of_a_search_may_have_the_name_of_its_scenario(folder):
    """What the command names is a packaged scenario here, not the folder."""
    pathlib.Path("edge").mkdir()
    for name in ("config.yaml", "front.csv", "designs.json"):
        pathlib.Path("edge", name).write_text("x")
    keep_inputs_of(argparse.Namespace(verb="search", workload=["edge"], out="edge"))


@pytest.mark.parametrize(
    ("command", "item", "what"),
    [
        ("evaluate designs jobs.json --trace -", "--trace", "a file"),
        ("evaluate designs jobs.json --periods 2 --periods-out -", "--periods-out", "a file"),
        ("evaluate designs jobs.json --timeloop -", "--timeloop", "a folder"),
        ("report full --out -", "--out", "a file"),
        ("templates export simba --out -", "--out", "a folder"),
        ("search net.onnx --budget tiny --out -", "--out", "a folder"),
    ],
)
def test_what_is_no_text_does_not_go_to_standard_output(folder, capsys, command, item, what):
    assert main(command.split()) == 2
    assert f"mohamjax: {item}: cannot go to standard output; name {what}\n" in capsys.readouterr().err
    assert not pathlib.Path("-").exists()


@pytest.mark.parametrize(
    ("paths", "out"),
    [("jobs.json", "jobs.json"), (["many.jsonl", "jobs.json"], "hard.json"), ("fold", "fold/below/a.jsonl")],
)
def test_no_function_replaces_what_it_reads(folder, paths, out):
    before = pathlib.Path(out).read_bytes()
    with pytest.raises(InputError, match=r"argument `out`: is also .* which the result would replace"):
        mj.evaluate_files(paths, out)
    assert pathlib.Path(out).read_bytes() == before and not pathlib.Path(f"{out}.journal").exists()


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.npz"])
def test_a_table_in_the_folder_that_it_is_made_of_is_written_and_resumed(folder, capsys, name):
    command = ["evaluate", "schedules", "fold", "--float32", "--out", f"fold/{name}"]
    assert main(command) == 0
    before = pathlib.Path("fold", name).read_bytes()
    for again in (["--resume"], []):
        assert main([*command, *again]) == 0 and pathlib.Path("fold", name).read_bytes() == before
        assert "1 row" in capsys.readouterr().err


def test_a_table_that_was_stopped_before_its_first_row_is_no_input(folder):
    """An empty file of JSON lines is an unreadable input, unless its journal shows that it is a table of ours."""
    pathlib.Path("fold/rows.jsonl").write_text("")
    assert len(find_inputs("fold").files) == 2
    pathlib.Path("fold/rows.jsonl.journal").write_text("")
    assert [path.name for path in find_inputs("fold").files] == ["a.jsonl"]


def test_what_is_no_file_is_never_replaced(folder):
    for out in (None, "-", "new.json", "fold", os.devnull, "a\0b", "x" * 5000):
        keep_inputs(out, ["jobs.json", "fold", ".", "nowhere", "x" * 5000, "a\0b", os.devnull])


def test_results_beside_those_of_a_search_may_be_written_again(folder):
    pathlib.Path("run").mkdir()
    for name in ("config.yaml", "front.csv", "rows.csv", "report.html"):
        pathlib.Path("run", name).write_text("x")
    for name in ("rows.csv", "report.html"):
        keep_inputs(f"run/{name}", ["run"])
    with pytest.raises(InputError, match="is also a file that is read from the folder run"):
        keep_inputs("run/front.csv", ["run"])
