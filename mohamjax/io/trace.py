"""Timelines in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

`chrome_trace` takes rows of jobs. `design_trace` takes whole designs and makes a process for each, with a track per
chiplet with its layers, a track per shared resource (memory interface, DRAM, link) that shows when it is busy and when
it is full, and a counter per resource with its bandwidth.

These traces follow rules of Perfetto's importer (src/trace_processor/importers/json) that go beyond the format. It
truncates `ts` and `dur` to whole nanoseconds and drops events that do not nest after that, so times here are whole
nanoseconds. It identifies threads by their numbers alone and takes a thread with the number of its process as the main
thread, so the numbers of all processes and threads here are distinct, and none is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mohamjax.schedule.view import DesignView, Traffic

TIME_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3, "cycles": 1e-3}
"""Microseconds, the unit of the format, per time unit; a cycle is a nanosecond (1 GHz)."""


class TraceRow(NamedTuple):
    """One layer or job on the timeline.

    Attributes:
        chiplet: name of the chiplet or accelerator that runs it; each is one track.
        layer: name of the layer or job.
        network: name of the network or tenant that it belongs to; the viewer colours and filters by it.
        start: [time unit].
        end: [time unit].
        slowed: slowed segments, each `(start, end, rate, name of the resource that limits it)`.
        stall: time that is lost to limited bandwidth [time unit]; default what the slowed segments lose.
    """

    chiplet: str
    layer: str
    network: str
    start: float
    end: float
    slowed: Sequence[tuple[float, float, float, str]] = ()
    stall: float | None = None


class _Trace:
    """Builds a trace, one process after the other.

    Args:
        scale: microseconds, the unit of the format, per time unit.
        processes: number of processes, which are numbered from 1; threads have the numbers after them.
    """

    def __init__(self, scale: float, processes: int):
        self.scale = scale
        self.threads = processes
        self.names: list[dict[str, object]] = []
        self.events: list[dict[str, object]] = []

    def process(self, pid: int, name: str) -> None:
        """Names a process; processes are shown by rising number."""
        self._name("process_name", pid, {"name": name})
        self._name("process_sort_index", pid, {"sort_index": pid})

    def thread(self, pid: int, name: str) -> int:
        """Adds a named track to a process and returns its number; tracks are shown by rising number."""
        self.threads += 1
        self._name("thread_name", pid, {"name": name}, self.threads)
        self._name("thread_sort_index", pid, {"sort_index": self.threads}, self.threads)
        return self.threads

    def _name(self, kind: str, pid: int, said: dict[str, object], tid: int | None = None) -> None:
        where = {"pid": pid} if tid is None else {"pid": pid, "tid": tid}
        self.names.append({"name": kind, "ph": "M", **where, "args": said})

    def slice(
        self, pid: int, tid: int, name: str, category: str, start: float, end: float, details: dict[str, object]
    ) -> None:
        """Adds a complete event; the events of a track must nest or follow one another."""
        begin, until = self._ns(start), self._ns(end)
        times = {"ts": microseconds(begin), "dur": microseconds(until - begin)}
        self.events.append({"name": name, "cat": category, "ph": "X", **times, "pid": pid, "tid": tid, "args": details})

    def counter(self, pid: int, name: str, time: float, value: float, unit: str) -> None:
        """Sets a counter to a value from a time on."""
        at = microseconds(self._ns(time))
        self.events.append({"name": name, "ph": "C", "ts": at, "pid": pid, "args": {unit: value}})

    def _ns(self, time: float) -> int:
        return round(time * self.scale * 1000)

    def document(self) -> dict[str, object]:
        """The trace in the object form."""
        return {"traceEvents": [*self.names, *self.events], "displayTimeUnit": "ns" if self.scale < 1 else "ms"}


def microseconds(ns: int) -> float:
    """Nanoseconds as microseconds, rounded such that truncating `1000 * value` gives the nanoseconds again."""
    value = ns / 1000
    return value if int(value * 1000.0) >= ns else math.nextafter(value, math.inf)


def chrome_trace(rows: Iterable[TraceRow], *, time_unit: str = "s") -> dict[str, object]:
    """Builds a trace: one thread per chiplet, one complete event per layer, slowed segments nested in it.

    Args:
        rows: layers or jobs; chiplets appear in the order in which they are first named.
        time_unit: one of `TIME_UNITS`.

    Returns:
        A JSON object in the Trace Event Format (object form): complete events (`ph` X, microseconds), and metadata
        events that name the process and its threads.

    Raises:
        ValueError: the time unit is unknown.
    """
    if time_unit not in TIME_UNITS:
        raise ValueError(f"time_unit is {time_unit!r}, not one of {', '.join(TIME_UNITS)}")
    trace = _Trace(TIME_UNITS[time_unit], 1)
    trace.process(1, "package")
    thread: dict[str, int] = {}
    for row in rows:
        if row.chiplet not in thread:
            thread[row.chiplet] = trace.thread(1, row.chiplet)
        lost = row.stall
        if lost is None:
            lost = sum((end - start) * (1 - rate) for start, end, rate, _ in row.slowed)
        details = {"network": row.network, "stall_us": lost * trace.scale}
        trace.slice(1, thread[row.chiplet], row.layer, row.network, row.start, row.end, details)
        for start, end, rate, resource in row.slowed:
            trace.slice(1, thread[row.chiplet], f"slowed by {resource}", "slowed", start, end, {"rate": rate})
    return trace.document()


def design_trace(views: Sequence[DesignView]) -> dict[str, object]:
    """Builds a trace of designs, which Perfetto opens.

    Args:
        views: the designs.

    Returns:
        A JSON object in the Trace Event Format (object form), times in microseconds. Each design is a process with a
        thread per chiplet (a complete event per layer, slowed segments nested in it) and then one per resource of
        `DesignView.traffic` (complete events `busy` and `full`), all of them named; counters (`ph` C, in GB/s) show the
        traffic of each resource.
    """
    trace = _Trace(TIME_UNITS["s"], len(views))
    for pid, view in enumerate(views, start=1):
        latency, energy, area = view.objectives
        trace.process(pid, f"design {view.design_id}: {latency:.4g} s, {energy:.4g} J, {area:.4g} mm^2")
        track = [
            trace.thread(pid, f"chiplet {k}: {chiplet.template}, interface {chiplet.interface}")
            for k, chiplet in enumerate(view.chiplets)
        ]
        for bar in view.bars:
            network = view.networks[bar.network]
            details = {
                "network": network,
                "stall_us": sum((s.end_s - s.start_s) * (1 - s.rate) for s in bar.slowed) * trace.scale,
                "alone_us": bar.alone_s * trace.scale,
                "offchip_bytes": bar.offchip_bytes,
                "energy_J": bar.energy_J,
            }
            trace.slice(pid, track[bar.chiplet], bar.name, network, bar.start_s, bar.end_s, details)
            for s in bar.slowed:
                where = pid, track[bar.chiplet], f"slowed by {s.cause}", "slowed"
                trace.slice(*where, max(s.start_s, bar.start_s), min(s.end_s, bar.end_s), {"rate": s.rate})
        for resource in view.traffic:
            _resource(trace, pid, resource)
    return trace.document()


def _resource(trace: _Trace, pid: int, resource: Traffic) -> None:
    """Adds the track and the counter of a resource."""
    limit = f"{resource.bandwidth / 1e9:g} GB/s" if math.isfinite(resource.bandwidth) else "unlimited"
    tid = trace.thread(pid, f"{resource.name} ({limit})")
    spans: list[tuple[str, float, float, float]] = []
    for (start, rate), (end, _) in zip(resource.steps, resource.steps[1:], strict=False):
        state = "full" if rate >= resource.bandwidth * (1 - 1e-9) else "busy" if rate > 0 else ""
        if spans and spans[-1][0] == state:
            _, since, _, moved = spans.pop()
            spans.append((state, since, end, moved + rate * (end - start)))
        else:
            spans.append((state, start, end, rate * (end - start)))
    for state, start, end, moved in spans:
        if state:
            trace.slice(pid, tid, state, "traffic", start, end, {"bytes": moved})
    for time, rate in resource.steps:
        trace.counter(pid, f"{resource.name} bandwidth", time, rate / 1e9, "GB/s")
