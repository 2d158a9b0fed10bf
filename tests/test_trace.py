"""Traces as Perfetto reads them: by its rules, and with its trace processor where that is installed."""

import collections
import csv
import io
import json
import shutil
import subprocess

import numpy as np
import pytest
from toy_designs import toy_designs

from mohamjax.io import write_design_trace
from mohamjax.io.trace import TraceRow, chrome_trace, microseconds
from mohamjax.schedule.view import design_view


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


@pytest.fixture
def trace(evaluated, tmp_path):
    path = tmp_path / "trace.json"
    write_design_trace(path, evaluated, ["x", "y", "z"])
    return path


def imported(document):
    """What Perfetto reads from a trace (google/perfetto, src/trace_processor/importers/json, common/slice_tracker.cc).

    Times are multiplied by 1,000 and truncated. Events are sorted by time, and equal times keep their order. A thread
    without a number gets that of its process; thread names are looked up by number only. A complete event needs `dur`,
    and is dropped if it begins in an open one and ends after it. Each process, name and argument has one counter.

    Returns:
        Slices by (process, track) as (start, end, name, depth), values by (process, counter), and dropped events.
    """
    processes, threads, owner = {}, {}, {}
    slices, counters, dropped = collections.defaultdict(list), collections.defaultdict(list), []
    stacks = collections.defaultdict(list)
    assert isinstance(document["traceEvents"], list)

    def ns(value):
        assert type(value) in (int, float)
        return int(value * 1000.0)

    for event in sorted(document["traceEvents"], key=lambda event: ns(event.get("ts", 0))):
        phase, pid = event["ph"], event["pid"]
        tid = event.get("tid", pid)
        assert type(pid) is int and type(tid) is int and pid > 0 and tid > 0  # 0 is the idle process
        assert owner.setdefault(tid, pid) == pid, "one number for threads of two processes"
        if phase == "M":
            assert "ts" not in event
            if event["name"] == "process_name":
                processes[pid] = event["args"]["name"]
            elif event["name"] == "thread_name":
                threads[tid] = event["args"]["name"]
            else:
                assert event["name"] in ("process_sort_index", "thread_sort_index")
                assert type(event["args"]["sort_index"]) is int
            continue
        start = ns(event["ts"])
        assert start >= 0 and isinstance(event["name"], str) and event["name"]
        if phase == "C":
            for key, value in event["args"].items():
                assert isinstance(value, int | float)
                counters[pid, f"{event['name']} {key}"].append((start, value))
            continue
        assert phase == "X" and isinstance(event["cat"], str)
        assert tid != pid, "would be the main thread"
        end = start + ns(event["dur"])
        stack = stacks[tid]
        while stack and stack[-1] <= start and not (stack[-1] == start == end):
            stack.pop()
        if end < start or (stack and start < stack[-1] < end):
            dropped.append(event)
            continue
        slices[pid, tid].append((start, end, event["name"], len(stack)))
        stack.append(end)
    named = {(processes[pid], threads[tid]): rows for (pid, tid), rows in slices.items()}
    assert len(named) == len(slices)
    return named, {(processes[pid], name): rows for (pid, name), rows in counters.items()}, dropped


def wanted(evaluated):
    """Names and views of the designs in the trace."""
    for k, name in enumerate("xyz"):
        yield name, design_view(evaluated, k)


def test_perfetto_finds_every_slice_track_and_counter(evaluated, trace):
    slices, counters, dropped = imported(json.loads(trace.read_text()))
    assert not dropped
    for name, view in wanted(evaluated):
        mine = {track: rows for (process, track), rows in slices.items() if process.startswith(f"design {name}:")}
        for k, chiplet in enumerate(view.chiplets):
            rows = mine[f"chiplet {k}: {chiplet.template}, interface {chiplet.interface}"]
            bars = [bar for bar in view.bars if bar.chiplet == k]
            layers = [(start, end, text) for start, end, text, depth in rows if depth == 0]
            assert sorted(layers) == sorted((round(b.start_s * 1e9), round(b.end_s * 1e9), b.name) for b in bars)
            slow = [row for row in rows if row[3] == 1]
            assert len(slow) == sum(len(bar.slowed) for bar in bars) and len(layers) + len(slow) == len(rows)
            assert all(text.startswith("slowed by ") for _, _, text, _ in slow)
        assert any(row[3] == 1 for rows in mine.values() for row in rows)
        resources = {track.rsplit(" (", 1)[0] for track in mine if not track.startswith("chiplet")}
        assert {text.split(" ")[0] for text in resources} == {"interface", "DRAM", "link"}
        own = {text: rows for (process, text), rows in counters.items() if process.startswith(f"design {name}:")}
        assert set(own) == {f"{traffic.name} bandwidth GB/s" for traffic in view.traffic}
        for traffic in view.traffic:
            found = own[f"{traffic.name} bandwidth GB/s"]
            np.testing.assert_allclose([value for _, value in found], [rate / 1e9 for _, rate in traffic.steps])
            assert [at for at, _ in found] == [round(at * 1e9) for at, _ in traffic.steps]


def test_traces_of_jobs_keep_the_same_rules():
    rows = [
        TraceRow("npu1", "conv", "resnet", 0.1003, 7.7777, [(0.1003, 3.3331, 0.5, "a"), (3.3331, 7.7777, 0.25, "b")]),
        TraceRow("npu0", "fc", "bert", 0.7, 7.7777),
        TraceRow("npu1", "last", "bert", 7.7777, 9.1),
    ]
    for unit in ("us", "ms", "s"):
        slices, counters, dropped = imported(chrome_trace(rows, time_unit=unit))
        assert not dropped and not counters and {track for _, track in slices} == {"npu0", "npu1"}
        assert [depth for *_, depth in slices["package", "npu1"]] == [0, 1, 1, 0]


def test_times_survive_that_their_fractions_are_cut_off():
    rng = np.random.default_rng(0)
    for ns in [*range(5000), *(int(x) for x in np.exp(rng.uniform(8, 34, 20_000)))]:
        assert int(microseconds(ns) * 1000.0) == ns
        assert microseconds(ns) == pytest.approx(ns / 1000, rel=4e-16)


def query(shell, trace, sql, folder):
    """Rows that Perfetto's trace processor returns for a query."""
    (folder / "query.sql").write_text(sql)
    done = subprocess.run(
        [shell, "-q", "query.sql", str(trace)], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_the_trace_processor_of_perfetto_agrees(evaluated, trace, tmp_path):
    shell = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if shell is None:
        pytest.skip("Perfetto's trace_processor_shell is not on the PATH")
    slices, counters, _ = imported(json.loads(trace.read_text()))
    found = query(
        shell, trace,
        "select process.name as process, thread.name as track, count(*) as n from slice join thread_track on "
        "slice.track_id = thread_track.id join thread using (utid) join process using (upid) group by 1, 2;",
        tmp_path,
    )  # fmt: skip
    assert {(row["process"], row["track"]): int(row["n"]) for row in found} == {k: len(v) for k, v in slices.items()}
    found = query(
        shell, trace,
        "select process.name as process, t.name as counter, count(*) as n from counter join process_counter_track t on "
        "counter.track_id = t.id join process using (upid) group by 1, 2;",
        tmp_path,
    )  # fmt: skip
    assert {(row["process"], row["counter"]): int(row["n"]) for row in found} == {
        k: len(v) for k, v in counters.items()
    }
    errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0;"
    assert not query(shell, trace, errors, tmp_path)
