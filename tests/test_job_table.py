"""Job tables, and schedules in files: numbers, and messages about bad input."""

import copy
import csv
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import plain_fluid
import pytest
import scipy.optimize
from conftest import reference

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.files import read_json, write_text
from mohamjax.io.job_tables import read_job_table
from mohamjax.io.schedules import SCHEDULE_READERS, evaluate_schedules
from mohamjax.io.trace import TraceRow, chrome_trace
from mohamjax.jobs import job_bound
from mohamjax.jobs.table import JobTable, evaluate_table, job_arrays, job_timeline
from mohamjax.schedule.fluid import DEADLOCK, DONE, ENDLESS

# ---------------------------------------------------------------- tables


def _table(seed=0, jobs=45, accelerators=5):
    random = np.random.default_rng(seed)
    duration = random.integers(10, 1000, (jobs, accelerators)).astype(float)
    duration[random.random(duration.shape) < 0.2] = np.inf
    duration[:, 0] = 500.0
    return JobTable(
        jobs=tuple(f"job{j}" for j in range(jobs)),
        accelerators=tuple(f"npu{a}" for a in range(accelerators)),
        duration=duration,
        bytes=random.integers(0, 4000, duration.shape).astype(float),
        energy=random.random(duration.shape),
        predecessors=tuple(tuple(random.choice(j, min(j, 2), replace=False).tolist()) for j in range(jobs)),
        resources=("dram", "west", "east", "link0"),
        bandwidth=(6.0, 3.0, 3.0, 2.0),
        resources_of_accelerator=((0, 1, 3), (0, 1), (0, 2), (0, 2), ()),
    )


def _schedules(table, count, seed=1):
    random = np.random.default_rng(seed)
    able = [np.flatnonzero(np.isfinite(row)) for row in table.duration]
    order = np.tile(np.arange(len(table.jobs)), (count, 1))
    return order, np.array([[random.choice(a) for a in able] for _ in range(count)])


@pytest.mark.slow
@pytest.mark.parametrize(("float32", "tolerance"), [(False, 1e-12), (True, 1e-5)])
def test_many_schedules_over_one_table(float32, tolerance):
    table = _table()
    order, accelerator = _schedules(table, 70)
    objectives, timelines = evaluate_table(table, order, accelerator, float32=float32, timelines=True)
    assert objectives.makespan.dtype == (np.float32 if float32 else np.float64)
    assert (objectives.reason == DONE).all()
    jobs = np.arange(len(table.jobs))
    for i in (0, 33, 69):
        on = (jobs, accelerator[i])
        plain = plain_fluid.simulate(
            table.duration[on],
            table.bytes[on],
            table.predecessors,
            accelerator[i],
            order[i],
            table.resources_of_accelerator,
            table.bandwidth,
            number=float,
        )
        np.testing.assert_allclose(objectives.makespan[i], plain.makespan, rtol=tolerance)
        np.testing.assert_allclose(objectives.energy[i], table.energy[on].sum(), rtol=tolerance)
        np.testing.assert_allclose(timelines.start[i], plain.start, rtol=tolerance)
        np.testing.assert_allclose(timelines.end[i], plain.end, rtol=tolerance)


@pytest.mark.slow
def test_traced_timelines_do_not_depend_on_padding():
    table = _table()
    order, accelerator = _schedules(table, 1)
    _, expected = evaluate_table(table, order, accelerator, float32=True, timelines=True)
    for padded in (45, 80):
        arrays = job_arrays(table, padded)
        more = padded - len(table.jobs)
        found = jax.jit(job_timeline)(
            jnp.asarray(np.concatenate([order[0], np.arange(45, padded)]), jnp.int32),
            jnp.asarray(np.pad(accelerator[0], (0, more)), jnp.int32),
            arrays,
        )
        assert found.makespan == expected.makespan[0]
        np.testing.assert_array_equal(found.end[:45], expected.end[0])


def test_schedules_that_cannot_run_are_infinite():
    table = _table()
    order, accelerator = _schedules(table, 3)
    job, where = np.argwhere(np.isinf(table.duration))[0]
    accelerator[1, job] = where
    order[2] = order[2][::-1]
    accelerator[2] = 0
    objectives, _ = evaluate_table(table, order, accelerator)
    assert objectives.reason.tolist() == [DONE, ENDLESS, DEADLOCK]
    assert np.isinf(objectives.makespan).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bytes": np.zeros((2, 2))}, "bytes has the shape"),
        ({"predecessors": ()}, "predecessors has 0 entries"),
        ({"resources_of_accelerator": ()}, "resources_of_accelerator has 0 entries"),
        ({"bandwidth": (1.0,)}, "bandwidth has 1 entries"),
        ({"time_unit": "ms"}, "time_unit is 'ms'"),
        ({"resources": ("s",), "bandwidth": (0.0,)}, r"resource s: has the bandwidth 0\.0; give a number above 0"),
        ({"resources": ("s",), "bandwidth": (np.nan,)}, "resource s: has the bandwidth nan"),
    ],
)
def test_tables_that_do_not_fit_together(change, message):
    table = _table()
    with pytest.raises(ValueError, match=message):
        JobTable(**({field: getattr(table, field) for field in table.__dataclass_fields__} | change))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("duration", -5.0, "has the duration -5; give a finite number of at least 0, or inf where it cannot run"),
        ("duration", np.nan, "has the duration nan"),
        ("duration", -np.inf, "has the duration -inf"),
        ("bytes", -1.0, "has the bytes -1; give a finite number of at least 0"),
        ("bytes", np.nan, "has the bytes nan"),
        ("bytes", np.inf, "has the bytes inf"),
        ("energy", np.nan, "has the energy nan"),
        ("energy", -1e-9, "has the energy -1e-09"),
    ],
)
def test_numbers_that_no_job_has(field, value, message):
    table = _table()
    j, a = next(zip(*np.nonzero(np.isfinite(table.duration[3:, 1:])), strict=True))
    given = getattr(table, field).copy()
    given[3 + j, 1 + a] = value
    with pytest.raises(InputError) as error:
        dataclasses.replace(table, **{field: given})
    assert str(error.value).startswith(f"job job{3 + j} on npu{1 + a}: {message}")


def test_where_a_job_cannot_run_its_bytes_and_energy_do_not_matter():
    table = _table()
    free = {name: np.where(np.isinf(table.duration), np.nan, getattr(table, name)) for name in ("bytes", "energy")}
    order, accelerator = _schedules(table, 3)
    own, other = (evaluate_table(one, order, accelerator)[0] for one in (table, dataclasses.replace(table, **free)))
    np.testing.assert_array_equal(own.makespan, other.makespan)
    np.testing.assert_array_equal(own.energy, other.energy)


def test_a_table_of_lists_of_whole_numbers():
    parts = {"resources": ("bus",), "bandwidth": (2.0,), "resources_of_accelerator": ((0,), (0,))}
    numbers = [[1, 2], [2, 1], [3, 3]]
    table = JobTable(("a", "b", "c"), ("x", "y"), numbers, numbers, None, ((),) * 3, **parts)
    assert table.duration.dtype == table.bytes.dtype == np.float64 and table.energy is None
    assert mj.schedule_jobs(table, "LPT-EFT").best.objectives["makespan"] == 3
    for wrong in ("abc", [["fast", 1]], [[1, 2], [3]], {}):
        with pytest.raises(InputError, match="argument `bytes`: is no array of numbers"):
            JobTable(("a", "b", "c"), ("x", "y"), numbers, wrong, None, ((),) * 3, **parts)


@pytest.mark.parametrize("given", [{"a": 1}, None, 3])
def test_what_is_no_table_is_refused(given):
    told = f"argument `table`: is of the type {type(given).__name__}; give a JobTable, or the path of a job-table/1"
    with pytest.raises(InputError, match=told):
        mj.schedule_jobs(given)


# ---------------------------------------------------------------- bounds


def _lone(duration, carried, bandwidth):
    """A table of independent jobs behind one bandwidth."""
    jobs, cores = np.shape(duration)
    names = tuple(f"job{j}" for j in range(jobs)), tuple(f"npu{a}" for a in range(cores))
    return JobTable(*names, duration, carried, None, ((),) * jobs, ("bus",), (bandwidth,), ((0,),) * cores)


def test_a_bound_where_the_solver_fails(monkeypatch):
    """Then it is the longest job's time or all bytes over the bandwidth, each job's at their least."""
    table = _lone([[1.0, np.inf], [2.0, 6.0], [1.0, 1.0]], [[40.0, 0.0], [9.0, 3.0], [5.0, 7.0]], 4.0)
    solved = job_bound(table)
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_, **__: scipy.optimize.OptimizeResult(status=4))
    failed = job_bound(table)
    assert failed == (10.0, 12.0, 12.0) and failed.longest == solved.longest
    assert failed.assignment <= solved.assignment * (1 + 1e-9) and failed.stalls <= solved.stalls * (1 + 1e-9)


@pytest.mark.parametrize("duration", [[[1.0, 1e18]], [[1.0, 1e18], [1e18, 2.0], [1e-3, 1e3]]])
def test_bounds_of_durations_that_lie_far_apart(duration):
    table = _lone(duration, np.ones(np.shape(duration)), 0.25)
    bound = job_bound(table)
    order, where = np.arange(len(duration))[None], np.argmin(duration, axis=1)[None]
    makespan = evaluate_table(table, order, where)[0].makespan[0]
    assert 4.0 * len(duration) <= bound.best <= makespan * (1 + 1e-9)


def test_bounds_over_all_numbers_that_files_may_hold():
    """Durations and bytes over thirty orders of magnitude, on which the solver may fail."""
    random, jobs, cores = np.random.default_rng(1), 8, 3
    for span in ((-12, 12), (0, 18), (-9, -3)) * 8:
        numbers = 10 ** random.uniform(*span, (jobs, cores)), 10 ** random.uniform(-3, 15, (jobs, cores))
        table = _lone(*numbers, float(10 ** random.uniform(-5, 15)))
        bound = job_bound(table)
        assert np.isfinite(bound).all() and bound.best > 0 and bound.assignment <= bound.stalls
        order, where = np.tile(np.arange(jobs), (32, 1)), random.integers(cores, size=(32, jobs))
        assert bound.best <= evaluate_table(table, order, where)[0].makespan.min() * (1 + 1e-9)


# ---------------------------------------------------------------- files


def _write(tmp_path, document, name="in.json"):
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize(("float32", "tolerance"), [(False, 1e-6), (True, 1e-4)])
def test_reference_cases_from_file(tmp_path, float32, tolerance):
    source = reference("schedule/cases.json")
    summary = evaluate_schedules(source, tmp_path / "out.json", float32=float32)
    expected = json.loads(source.read_text())["cases"]
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["format"] == "fluid-schedule/1"
    assert summary == {
        "format": "fluid-schedule/1",
        "schedules": len(expected),
        "jobs": sum(case["jobs"] for case in expected),
        "precision": "float32" if float32 else "float64",
    }
    for mine, case in zip(found["cases"], expected, strict=True):
        assert set(mine) == {"name", "start", "end", "makespan"}
        assert mine["name"] == case["name"]
        for key in ("start", "end", "makespan"):
            np.testing.assert_allclose(mine[key], case[key], rtol=tolerance)
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


_CASE = {
    "name": "a",
    "duration": [10, 4, 1],
    "bytes": [30, 12, 0],
    "predecessors": [[], [], [1]],
    "accelerator": [0, 1, 1],
    "order": [0, 1, 2],
    "resource_names": ["link", "interface"],
    "resource_bandwidth": [100, 4],
    "resources_of_accelerator": [[0, 1], [1]],
}


def fluid():
    return {"format": "fluid-schedule/1", "cases": [_CASE]}


_TABLE = {
    "format": "job-table/1",
    "time_unit": "cycles",
    "resources": [{"name": "link", "bandwidth": None}, {"name": "interface", "bandwidth": 4}],
    "accelerators": [{"name": "big", "resources": ["link", "interface"]}, {"name": "small", "resources": [1]}],
    "jobs": [
        {"name": "conv", "duration": [10, 20], "bytes": 30, "energy_J": [1, 2]},
        {"name": "fc", "duration": [None, 4], "bytes": [None, 12], "energy_J": [None, 0.5]},
        {"name": "end", "duration": 1, "bytes": 0, "energy_J": 0.25, "predecessors": ["fc"]},
    ],
    "schedules": [
        {"name": "one", "order": ["conv", "fc", "end"], "accelerator": ["big", "small", "small"]},
        {"name": "two", "order": [1, 2, 0], "accelerator": [1, 1, 0]},
    ],
}


def test_timelines_of_cases(tmp_path, capsys):
    path = _write(tmp_path, {"format": "fluid-schedule/1", "cases": [_CASE]})
    evaluate_schedules(path, timelines=True)
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    # 10 and 4 time units ask 3 each of 4: both at 2/3 until the second ends at 6
    assert case["start"] == [0, 0, 6] and case["end"] == [12, 6, 7]
    assert case["stall"] == [2, 2, 0]
    piece = {"start": 0, "end": 6, "rate": pytest.approx(2 / 3), "resource": "interface"}
    assert case["slowed"] == [[piece], [piece], []]


def test_job_table(tmp_path, capsys):
    path = _write(tmp_path, _TABLE)
    summary = evaluate_schedules(path, "-")
    result = json.loads(capsys.readouterr().out)
    assert summary["schedules"] == 2 and summary["jobs"] == 6
    assert result == {
        "format": "job-table/1",
        "time_unit": "cycles",
        "schedules": [
            {"name": "one", "makespan": 12, "energy_J": 1.75},
            {"name": "two", "makespan": 24, "energy_J": 2.75},
        ],
    }
    evaluate_schedules(path, "-", timelines=True)
    one, two = json.loads(capsys.readouterr().out)["schedules"]
    assert one["start"] == [0, 0, 6] and one["end"] == [12, 6, 7] and one["stall"] == [2, 2, 0]
    assert one["slowed"][0][0]["resource"] == "interface"
    assert two["start"] == [4, 0, 4] and two["end"] == [24, 4, 5]


@pytest.mark.parametrize("numbers", [False, True])
def test_accelerators_stand_in_the_order_of_the_jobs_or_under_their_names(tmp_path, capsys, numbers):
    """The order of a schedule does not move them."""
    listed = [0, 1, 1] if numbers else ["big", "small", "small"]
    same = [
        {"order": order, "accelerator": where, "note": "mine"}
        for order in (["fc", "conv", "end"], ["conv", "fc", "end"])
        for where in (listed, dict(zip(("end", "fc", "conv"), reversed(listed), strict=True)))
    ]
    path = _write(tmp_path, _TABLE | {"schedules": same})
    evaluate_schedules(path, "-", timelines=True)
    rows = json.loads(capsys.readouterr().out)["schedules"]
    assert [row["start"] for row in rows] == [rows[0]["start"]] * 4
    assert [(row["makespan"], row["energy_J"]) for row in rows] == [(12, 1.75)] * 4


def test_what_rounding_leaves_is_no_stall(tmp_path, capsys):
    """Ends are sums, whose differences are off in the last places: that is no time lost to bandwidth."""
    jobs = [{"name": str(j), "duration": 0.1 + 0.01 * j, "bytes": 0} for j in range(30)]
    table = {"format": "job-table/1", "time_unit": "s", "resources": [], "jobs": jobs}
    table |= {"accelerators": [{"name": "a", "resources": []}]}
    path = _write(tmp_path, table | {"schedules": [{"order": list(range(30)), "accelerator": [0] * 30}]})
    evaluate_schedules(path, "-", timelines=True)
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    off = np.subtract(row["end"], row["start"]) - [job["duration"] for job in jobs]
    assert (off > 0).any() and np.abs(off).max() < 1e-14  # there is something to round
    assert row["stall"] == [0.0] * 30


def test_job_table_without_energy(tmp_path, capsys):
    document = copy.deepcopy(_TABLE)
    for job in document["jobs"]:
        del job["energy_J"]
    evaluate_schedules(_write(tmp_path, document))
    assert [row["energy_J"] for row in json.loads(capsys.readouterr().out)["schedules"]] == [None, None]
    assert read_job_table(document, "x").energy is None


def _changed(document, path, value):
    """A copy with one entry replaced, added or (by `del`) removed."""
    document = copy.deepcopy(document)
    *way, last = path
    inner = document
    for key in way:
        inner = inner[key]
    if value is del_:
        del inner[last]
    else:
        inner[last] = value
    return document


del_ = object()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["duration"], del_, ["cases[0].duration", "is missing"]),
        (["name"], ["a"], ["cases[0]", "is neither a whole number nor a text"]),
        (["duration", 1], -4, ["cases[0].duration[1]", "-4 is too small"]),
        (["duration", 1], float("nan"), ["duration[1]", "found nan"]),
        (["duration", 1], float("inf"), ["duration[1]", "finite"]),
        (["duration", 1], "4", ["duration[1]", "found text '4'"]),
        (["duration", 1], None, ["duration[1]", "found nothing"]),
        (["duration", 1], True, ["duration[1]", "found true/false True"]),
        (["duration", 1], 10**400, ["the integer 1000000000...", "401 digits", "more than the 250 allowed"]),
        (["duration", 1], 0, ["duration[1]", "moves 12 bytes"]),
        (["bytes", 0], -1, ["bytes[0]", "-1 is too small"]),
        (["bytes"], [1, 2], ["bytes", "2 entries", "each job, 3"]),
        (["predecessors", 0], [7], ["predecessors[0]", "no job 7"]),
        (["predecessors", 0], [0], ["predecessors[0]", "job 0 waits for itself"]),
        (["predecessors", 1], [2], ["predecessors[1]", "jobs 1, 2 wait"]),
        (["accelerator", 0], 2, ["accelerator[0]", "no accelerator 2"]),
        (["accelerator", 0], 0.5, ["accelerator[0]", "0.5 is not whole"]),
        (["order"], [0, 2, 1], ["order", "job 2 stands before its predecessor 1"]),
        (["order"], [0, 1, 1], ["order", "job 1 stands at places 1 and 2"]),
        (["order"], [0, 1], ["order", "2 entries"]),
        (["order"], [0, 1, 3], ["order[2]", "no job 3"]),
        (["order"], {}, ["order", "expected a list, found mapping"]),
        (["resource_bandwidth", 1], 0, ["resource_bandwidth[1]", "of at least 1e-06"]),
        (["resource_names"], ["x"], ["resource_names", "each resource, 2"]),
        (["resources_of_accelerator", 0], [5], ["resources_of_accelerator[0]", "no resource 5"]),
        (["jobs"], 4, ["jobs", "is 4, but 3"]),
    ],
)
def test_bad_cases(tmp_path, path, value, words):
    document = {"format": "fluid-schedule/1", "cases": [_changed(_CASE, path, value)]}
    _refused(tmp_path, document, words)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["schedules", 0, "order"], ["fc", "conv"], ["schedules[0].order", "2 entries"]),
        (["schedules", 0, "order"], ["fc", "conv", "conv"], ["schedules[0].order", "places 1 and 2"]),
        (["schedules", 0, "order"], ["end", "fc", "conv"], ["schedules[0].order", "before its predecessor"]),
        (["schedules", 0, "order", 0], "pool", ["schedules[0].order[0]", "no job 'pool'"]),
        (["schedules", 0, "accelerator", 0], "huge", ["schedules[0].accelerator[0]", "no accelerator 'huge'"]),
        (["schedules", 0, "accelerator", 1], "big", ["accelerator[1]", "'fc' cannot run on 'big'", "small"]),
        (["schedules", 1, "name"], "one", ["schedules[1]", "also that of the entry at place 0"]),
        (["schedules", 0, "acelerator"], [], ["schedules[0].acelerator", "did you mean 'accelerator'?"]),
        (["schedules", 0, "accelerator"], {}, ["schedules[0].accelerator", "where job 'conv' runs"]),
        (["schedules", 0, "accelerator"], {"pool": 1}, ["schedules[0].accelerator.pool", "no job 'pool'"]),
        (
            ["schedules", 0, "accelerator"],
            {"end": "big", "fc": "big", "conv": "big"},
            ["schedules[0].accelerator.fc", "'fc' cannot run on 'big'"],
        ),
        (
            ["schedules", 0, "accelerator"],
            {"end": "huge", "fc": "small", "conv": "big"},
            ["schedules[0].accelerator.end", "no accelerator 'huge'"],
        ),
        (["jobs", 2, "predecessors"], ["end"], ["jobs[2]", "job 'end' waits for itself"]),
        (["jobs", 2, "predecessors"], ["pool"], ["jobs[2]", "no job 'pool'"]),
        (["jobs", 1, "energy_J"], del_, ["jobs[1]", "energy_J", "is missing"]),
        (["jobs", 1, "name"], "conv", ["jobs[1]", "also the name"]),
        (["jobs", 1, "duration"], [None, None], ["jobs[1].duration", "cannot run anywhere"]),
        (["jobs", 1, "duration"], [1, 2, 3], ["jobs[1].duration", "each accelerator, 2"]),
        (["jobs", 1, "duration", 1], -1, ["jobs[1].duration[1]", "-1 is too small"]),
        (["jobs", 0, "bytes"], [None, 3], ["jobs[0].bytes", "null"]),
        (["jobs", 0], [], ["jobs[0]", "expected a mapping"]),
        (["resources", 1, "bandwidth"], -4, ["resources[1].bandwidth", "-4 is too small"]),
        (["accelerators"], [], ["accelerators", "is empty"]),
        (["accelerators", 0, "resources"], ["bus"], ["no resource 'bus'"]),
        (["time_unit"], "h", ["time_unit", "'h'"]),
        (["time_unit"], "ms", ["time_unit", "'ms'; write cycles, or s for seconds, and give all times"]),
        (["time_unit"], "cycle", ["time_unit", "did you mean 'cycles'?"]),
        (["schedules"], del_, ["schedules", "is missing"]),
    ],
)
def test_bad_tables(tmp_path, path, value, words):
    _refused(tmp_path, _changed(_TABLE, path, value), words)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", ["is empty"]),
        ('{"format": "fluid-schedule/1", "cases": [', ["line 1", "not valid JSON"]),
        ("<html></html>", ["not valid JSON"]),
        ("[]", ["no JSON object"]),
        ("{}", ["format", "missing", "fluid-schedule/1", "job-table/1"]),
        ('{"format": "fluid-schedule/9"}', ["unknown format 'fluid-schedule/9'", *SCHEDULE_READERS]),
        ('{"format": 1}', ["unknown format 1"]),
        ('{"format": "job-table/1", "format": "job-table/1"}', ["'format' is written twice"]),
        ('{"format": "fluid-schedule/1"}', ["cases", "is missing"]),
        ("[" * 100_000, ["nested too deeply"]),
        ("[" * 101 + "]" * 101, ["nested too deeply"]),
        ('{"format": "fluid-schedule/1", "cases": [{"name": "\\ud800"}]}', ["a lone surrogate"]),
        ('{"format": "fluid-schedule/1", "\\uD800": 1}', ["a lone surrogate"]),
        ('{"format": ' + "9" * 5000 + "}", ["the integer 9999999999... has 5,000 digits"]),
        ('{"format": "' + "x" * 10**6 + '"}', ["unknown format 'xxx", " ... "]),
    ],
)
def test_bad_files(tmp_path, document, words):
    _refused(tmp_path, document, words)


def _refused(tmp_path, document, words):
    """Asserts that a file is refused, or its one broken entry reported, in the words that refuse its arrays."""
    path, told = _write(tmp_path, document), []
    try:
        evaluate_schedules(path, tmp_path / "out.json", complain=told.append)
    except InputError as error:
        assert error.remedy and not told and not (tmp_path / "out.json").exists()
        message = str(error)
    else:
        (message,) = told
        with pytest.raises(InputError) as caught:
            mj.read_schedules(path)
        assert str(caught.value) == message and caught.value.remedy
    assert message.startswith(str(path)) and "\n" not in message
    assert len(message) < 2000
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("document", "path", "value", "limit"),
    [
        (_TABLE, ["jobs", 0, "duration"], [1e308, 20], "1e+18"),
        (_TABLE, ["jobs", 0, "duration"], 1e308, "1e+18"),
        (_TABLE, ["jobs", 0, "bytes"], 1e200, "1e+18"),
        (_TABLE, ["jobs", 0, "energy_J"], 1e200, "1000000000"),
        (_TABLE, ["jobs", 0, "deadline"], 1e200, "1e+18"),
        (_TABLE, ["jobs", 0, "weight"], 1e200, "1000000000"),
        (_TABLE, ["resources", 1, "bandwidth"], 1e-300, "of at least 1e-06"),
        (_TABLE, ["jobs", 0, "duration"], [1e-300, 20], "write how long the job takes when nothing slows it"),
        (fluid(), ["cases", 0, "duration", 0], 1e308, "1e+18"),
        (fluid(), ["cases", 0, "bytes", 0], 1e200, "1e+18"),
        (fluid(), ["cases", 0, "resource_bandwidth", 0], 1e-300, "of at least 1e-06"),
    ],
)
def test_numbers_that_no_machine_has_are_refused_with_their_limit(tmp_path, document, path, value, limit):
    _refused(tmp_path, _changed(document, path, value), [limit])


@pytest.mark.parametrize("float32", [False, True])
def test_the_largest_numbers_that_are_read_give_finite_ones(tmp_path, float32):
    document = _changed(_TABLE, ["resources", 1, "bandwidth"], 1e-6)
    for job in document["jobs"]:
        job |= {"duration": 1e18, "bytes": 1e18, "energy_J": 1e9}
    path = _write(tmp_path, document)
    assert "broken" not in evaluate_schedules(path, tmp_path / "out.json", float32=float32)
    rows = json.loads((tmp_path / "out.json").read_text())["schedules"]
    assert all(1e24 < row["makespan"] < 4e24 and row["energy_J"] == pytest.approx(3e9) for row in rows)


def test_a_broken_schedule_is_a_row_and_the_others_go_on(tmp_path, capsys):
    """As in a table of many files, the reason names the place and the remedy."""
    bad = {"name": "bad", "order": ["conv", "fc", "end"], "accelerator": ["big", "big", "small"]}
    short, nameless = {"name": "short", "order": ["conv"]}, {"order": [0, 1, 2], "accelerator": [0, 1, 1]}
    first, second = _TABLE["schedules"]
    table = _TABLE | {"schedules": [first, bad, short, nameless, 7, second, first, nameless | {"name": 8}]}
    path, out = _write(tmp_path, table), tmp_path / "out.json"
    assert main(["evaluate", "schedules", str(path), "--timelines", "--out", str(out)]) == 0
    rows = json.loads(out.read_text())["schedules"]
    assert [row["name"] for row in rows] == ["one", "bad", "short", 3, 4, "two", "one", 8]
    assert [row["makespan"] for row in rows] == [12, None, None, 12, None, 24, None, 12]
    assert "its identifier one is also that of the entry at place 0" in rows[6]["reason"]
    reason = "schedules[1].accelerator[1]: job 'fc' cannot run on 'big'; choose small"
    assert rows[1] == {"name": "bad", "makespan": None, "energy_J": None, "reason": reason}
    told = capsys.readouterr().err
    assert f"warning: {path}: {reason}" in told and '"broken": 4' in told
    assert main(["evaluate", "schedules", str(path), "--strict", "--out", str(out)]) == 2
    assert main(["evaluate", "schedules", str(path), str(path), "--out", str(tmp_path / "rows.csv")]) == 0
    with open(tmp_path / "rows.csv", newline="") as stream:
        found = list(csv.DictReader(stream))
    assert [row["valid"] for row in found] == [str(int(row["makespan"] is not None)) for row in rows] * 2
    assert [row["design_id"] for row in found] == [str(row["name"]) for row in rows] * 2
    assert [row["makespan"] for row in found if row["valid"] == "1"] == ["12.0", "12.0", "24.0", "12.0"] * 2
    assert found[1]["reason"] == "schedule bad.accelerator[1]: job 'fc' cannot run on 'big'; choose small"


def test_a_broken_case_is_a_row_and_the_others_go_on(tmp_path, capsys):
    document = {"format": "fluid-schedule/1", "cases": [_CASE, _CASE | {"name": "b", "order": [0, 1]}]}
    out = tmp_path / "out.json"
    assert main(["evaluate", "schedules", str(_write(tmp_path, document)), "--out", str(out)]) == 0
    good, bad = json.loads(out.read_text())["cases"]
    assert good["makespan"] == 12 and bad["makespan"] is None and "give one for each job, 3" in bad["reason"]
    assert "cases[1].order: has 2 entries" in capsys.readouterr().err


def test_files_that_cannot_be_read_or_written(tmp_path):
    for path, words in (
        (tmp_path / "none.json", "no such file"),
        (tmp_path, "is a folder"),
        (_write(tmp_path, "").with_name("latin.json"), "UTF-8"),
    ):
        if path.name == "latin.json":
            path.write_bytes(b'{"a": "\xe9"}')
        with pytest.raises(InputError, match=words):
            read_json(path)
    for path in (tmp_path / "no" / "folder.json", tmp_path):
        with pytest.raises(InputError, match="cannot be written"):
            write_text(path, "x")
    before = sorted(tmp_path.iterdir())
    write_text(tmp_path / "latin.json", "whole")
    assert (tmp_path / "latin.json").read_text() == "whole"
    assert sorted(tmp_path.iterdir()) == before
    link = tmp_path / "link.json"
    link.symlink_to("latin.json")
    write_text(link, '{"format": "x/1"}')
    assert link.is_symlink() and read_json(tmp_path / "latin.json") == {"format": "x/1"}
    write_text("/dev/null", "gone")


# ---------------------------------------------------------------- traces


def test_chrome_trace():
    rows = [
        TraceRow("npu1", "conv", "resnet", 0.0, 2e-3, [(0.0, 1e-3, 0.5, "interface")]),
        TraceRow("npu0", "fc", "bert", 1e-3, 2e-3),
    ]
    trace = json.loads(json.dumps(chrome_trace(rows, time_unit="s"), allow_nan=False))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert [(names[e["tid"]], e["name"], e["ts"], e["dur"]) for e in events] == [
        ("npu1", "conv", 0, 2000),
        ("npu1", "slowed by interface", 0, 1000),
        ("npu0", "fc", 1000, 1000),
    ]
    assert events[0]["args"] == {"network": "resnet", "stall_us": 500}
    late = rows[1]._replace(start=1e3, end=3e3)
    (cycles,) = [e for e in chrome_trace([late], time_unit="cycles")["traceEvents"] if e["ph"] == "X"]
    assert cycles["dur"] == 2
    with pytest.raises(ValueError, match="time_unit"):
        chrome_trace(rows, time_unit="h")
