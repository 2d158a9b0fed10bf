"""Knowledge transfer of G# (Section 4.3): what a file keeps of a schedule, and what it is worth on another batch."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.job_transfer import read_transfer, write_transfer
from mohamjax.jobs import STARTED, JobSearchConfig, check_transfer, direct_transfer, run_method, transfer_of
from mohamjax.jobs.job_problem import OBJECTIVES
from mohamjax.jobs.table import JobTable
from mohamjax.plot.jobs import job_convergence

# All tests have equal numbers of jobs, accelerators, schedules and generations, and the genetic method that compiles
# fastest: they share one compiled search.
CONFIG = JobSearchConfig(population=4, generations=1)
JOBS = 24


def two_kinds(seed):
    """Table of twelve long jobs, fast on the first accelerator, mixed with twelve short ones, fast on the second.

    Elsewhere a single job takes longer than all twelve long ones in a row, whose sum is the best makespan (returned).
    """
    rng = np.random.default_rng(seed)
    long, short = rng.integers(100, 121, 12), rng.integers(10, 31, 12)
    rows = [(time, 5000.0, 5000.0, 5000.0) for time in long] + [(2000.0, time, 2000.0, 2000.0) for time in short]
    table = JobTable(
        jobs=tuple(f"j{i}" for i in range(JOBS)),
        accelerators=("first", "second", "third", "fourth"),
        duration=np.asarray(rows, float)[rng.permutation(JOBS)],
        bytes=np.zeros((JOBS, 4)),
        energy=None,
        predecessors=((),) * JOBS,
        resources=("link",),
        bandwidth=(1.0,),
        resources_of_accelerator=((0,),) * 4,
    )
    return table, float(long.sum())


@pytest.fixture(scope="module")
def learnt():
    table, _ = two_kinds(0)
    return transfer_of(table, run_method("FCFS-MET", table).best, "24 jobs", ("makespan",))


def test_what_is_written_is_read_again(learnt, tmp_path):
    write_transfer(tmp_path / "transfer.json", learnt)
    found = read_transfer(tmp_path / "transfer.json")
    for name in ("accelerator", "place"):
        ours, theirs = getattr(found.ranked, name), getattr(learnt.ranked, name)
        assert ours.dtype == theirs.dtype and ours.tolist() == theirs.tolist()
    for name in ("accelerators", "batch", "method", "objectives", "time_unit"):
        assert getattr(found, name) == getattr(learnt, name)
    assert learnt.ranked.accelerator.tolist() == [0] * 12 + [1] * 12
    assert [path.name for path in tmp_path.iterdir()] == ["transfer.json"]


def test_every_objective_may_be_learnt(learnt, tmp_path):
    """Its file is then read again."""
    learnt = dataclasses.replace(learnt, objectives=dict.fromkeys(OBJECTIVES, 1.5))
    write_transfer(tmp_path / "transfer.json", learnt)
    assert read_transfer(tmp_path / "transfer.json").objectives == learnt.objectives


@pytest.mark.slow
def test_a_transfer_is_worth_what_it_learnt_and_starts_a_search(learnt):
    table, best = two_kinds(1)  # other times in another order
    direct = direct_transfer(table, learnt).best
    assert direct.objectives["makespan"] == best
    assert (direct.method, direct.evaluations, direct.history) == ("transfer", 1, ((1, best),))
    alone = run_method("standard-ga", table, CONFIG).best
    started = run_method("standard-ga", table, CONFIG, given=[direct.plan]).best
    assert started.history == ((4, best), (8, best)) and started.objectives["makespan"] == best
    assert alone.history[0][1] > 2 * best
    # Of more schedules than the population takes, the first ones count.
    many = run_method("standard-ga", table, CONFIG, given=[direct.plan] * 9).best
    assert many.objectives["makespan"] == best
    # Methods that do not search from schedules ignore them.
    values = [run_method("random-random", table, given=given).best.objectives for given in ([], [direct.plan])]
    assert values[0] == values[1] and values[0]["makespan"] > best
    printed = {"gsharp-printed", "gsharp-released", "standard-ga-printed"}
    assert {"gsharp", "gsharp-unseeded", "gsharp-paper", "standard-ga"} | printed == set(STARTED)


def test_another_size_is_refused(learnt):
    check_transfer(learnt, JOBS, 4)
    with pytest.raises(InputError, match=r"f.json: was learnt on 4 accelerators, and there are 3; take 4 "):
        check_transfer(learnt, JOBS, 3, "f.json")
    with pytest.raises(InputError, match=r"was learnt on 24 jobs, and there are 9; take 24 jobs"):
        check_transfer(learnt, 9, 4)


DOCUMENT = {
    "format": "job-transfer/1",
    "mohamjax": "0.1.0",
    "learnt": {"batch": "3 jobs", "method": "HEFT", "time_unit": "s", "objectives": {"makespan": 2.5}},
    "accelerators": ["a", "b"],
    "accelerator": [0, 1, 0],
    "place": [2, 0, 1],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "job-transfer/9"}, "format: unknown format 'job-transfer/9'; give a file of format job-transfer/1"),
        ({"place": None}, "place: is empty (null); write a value, `place: ...`"),
        ({"place": [2, 0, 2]}, "place: is no order of jobs"),
        ({"place": [3, 0, 1]}, "place[0]: is 3; write an integer from 0 to 2"),
        ({"place": [0, 1, 2.0]}, "place[2]: 2.0 is not whole"),
        ({"place": ["0", 1, 2]}, "place[0]: expected a whole number, found text '0'"),
        ({"place": [], "accelerator": []}, "place: is no order of jobs"),
        ({"place": "012"}, "place: expected a list"),
        ({"accelerator": [0, 1]}, "accelerator: has 2 entries; give one per rank, 3"),
        ({"accelerator": [0, 1, 2]}, "accelerator[2]: is 2; write an integer from 0 to 1"),
        ({"accelerator": [0, True, 1]}, "accelerator[1]: expected a whole number, found true/false True"),
        ({"accelerator": [0, -1, 1]}, "accelerator[1]: -1 is too small"),
        ({"accelerators": []}, "accelerators: is empty; write the name of every accelerator"),
        ({"accelerators": ["a", 2]}, "accelerators[1]: expected text"),
        ({"places": [1]}, "places: unknown key 'places'; did you mean 'place'?"),
        ({"learnt": None}, "learnt: is empty (null)"),
        (
            {"learnt": {**DOCUMENT["learnt"], "time_unit": "h"}},
            "learnt.time_unit: unknown value 'h'; write cycles, or s",
        ),
        ({"learnt": {**DOCUMENT["learnt"], "method": 3}}, "learnt.method: expected text"),
        (
            {"learnt": {**DOCUMENT["learnt"], "objectives": {"makespan": None}}},
            "learnt.objectives.makespan: is empty (null)",
        ),
        ({"learnt": {**DOCUMENT["learnt"], "objectives": {"speed": 1}}}, "learnt.objectives.speed: unknown key"),
    ],
)
def test_files_that_break_the_format(change, said, tmp_path):
    path = tmp_path / "transfer.json"
    path.write_text(json.dumps(DOCUMENT))
    assert read_transfer(path).ranked.place.tolist() == [2, 0, 1]
    path.write_text(json.dumps(DOCUMENT | change))
    with pytest.raises(InputError) as caught:
        read_transfer(path)
    assert f"{path}: {said}" in str(caught.value) and "\n" not in str(caught.value)


def test_a_method_of_one_point_can_be_seen():
    figure = job_convergence({"transfer": [(1, 9.0)], "gsharp": [(4, 8.0), (8, 7.0)]}, bound=None, label="makespan",
                             unit="cycles", title="x")  # fmt: skip
    assert [line.get_marker() for line in figure.axes[0].lines] == ["o", "None"]


@pytest.mark.slow
def test_from_one_batch_to_the_next_on_the_command_line(tmp_path, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    command = ["schedule", "--pool", "language", "--sample", str(JOBS), "--bandwidth", "1"]
    on = [*command, "--platform", "S2", "--no-figures", "--json"]
    assert main([*on, "--seed", "1", "--method", "LPT-stall", "--out", str(first)]) == 0
    (kept,) = json.loads(capsys.readouterr().out)["schedules"]
    file = str(first / "transfer.json")
    assert read_transfer(file).objectives == {"makespan": kept["makespan"]}
    # On its own batch a kept schedule has the same makespan.
    assert main([*on, "--seed", "1", "--method", "LPT-stall", "--transfer", file]) == 0
    one, two = json.loads(capsys.readouterr().out)["schedules"]
    assert {one["method"], two["method"]} == {"transfer", "LPT-stall"} and one["makespan"] == two["makespan"]
    # On the next batch it is a row of its own, and the search starts from it.
    methods = ["--method", "standard-ga,random-random", "--population", "4", "--generations", "1"]
    assert main([*on, "--seed", "2", *methods, "--transfer", file, "--out", str(second)]) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert summary["transfer"]["starts"] == ["standard-ga"] and "starts standard-ga\n" in printed.err
    values = {row["method"]: row["makespan"] for row in summary["schedules"]}
    assert values["standard-ga"] <= values["transfer"] < values["random-random"]
    with open(second / "history.csv") as stream:
        history = {(row["method"], row["evaluations"]): float(row["makespan"]) for row in csv.DictReader(stream)}
    assert history["transfer", "1"] == values["transfer"]
    assert history["standard-ga", "4"] <= values["transfer"] * (1 + 1e-6)
    assert f"transfer: {file}\n" in (second / "config.yaml").read_text()
    # Accelerators of other kinds are named; another number of accelerators or of jobs is refused.
    methods = ["--method", "HEFT", "--transfer", file]
    assert main([*command, "--platform", "S1", *methods]) == 0
    assert "learnt on other accelerators: 0 HB 32x64" in capsys.readouterr().err
    assert main([*command, "--platform", "S4", *methods]) == 2
    assert "learnt on 4 accelerators, and there are 8" in capsys.readouterr().err
    assert main([*command, "--platform", "S2", "--sample", "9", *methods]) == 2
    assert "learnt on 24 jobs, and there are 9" in capsys.readouterr().err
    assert main(["schedule", "--jobs", str(second / "job_table.json"), "--method", "HEFT", "--transfer", file]) == 0
    assert "transfer: makespan" in capsys.readouterr().err
