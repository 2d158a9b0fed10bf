"""Timelines in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show.

`chrome_trace` takes rows of jobs; `design_trace` takes whole designs: a process per design, in it a track per chiplet
with its layers, a track per shared resource (memory interface, DRAM, link) that says when it is busy and when it is
full, and a counter per resource with its bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mohamjax.schedule.view import DesignView, Traffic

__all__ = ["TIME_UNITS", "TraceRow", "chrome_trace", "design_trace"]

TIME_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3, "cycles": 1e-3}
"""Microseconds, the unit of the format, per unit of time; a cycle is a nanosecond (1 GHz)."""


class TraceRow(NamedTuple):
    """One layer or job on the timeline.

    Attributes:
        chiplet: name of the chiplet or accelerator that runs it; one row of the picture each.
        layer: name of the layer or job.
        network: name of the network or tenant that it belongs to; the viewer colours and filters by it.
        start: [time unit].
        end: [time unit].
        slowed: slowed segments, each `(start, end, rate, name of the resource that limits it)`.
    """

    chiplet: str
    layer: str
    network: str
    start: float
    end: float
    slowed: Sequence[tuple[float, float, float, str]] = ()


class _Trace:
    """A trace in the making: events of one process after the other.

    Args:
        scale: microseconds, the unit of the format, per unit of time.
    """

    def __init__(self, scale: float):
        self.scale = scale
        self.names: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def process(self, pid: int, name: str) -> None:
        """Names a process; they are shown by rising number."""
        self._name("process_name", pid, {"name": name})
        self._name("process_sort_index", pid, {"sort_index": pid})

    def thread(self, pid: int, tid: int, name: str) -> None:
        """Names a track of a process; they are shown by rising number."""
        self._name("thread_name", pid, {"name": name}, tid)
        self._name("thread_sort_index", pid, {"sort_index": tid}, tid)

    def _name(self, kind: str, pid: int, said: dict[str, Any], tid: int | None = None) -> None:
        where = {"pid": pid} if tid is None else {"pid": pid, "tid": tid}
        self.names.append({"name": kind, "ph": "M", **where, "args": said})

    def slice(
        self, pid: int, tid: int, name: str, category: str, start: float, end: float, details: dict[str, Any]
    ) -> None:
        """A complete event; those of a track nest or follow one another."""
        begin = start * self.scale
        times = {"ts": begin, "dur": end * self.scale - begin}
        self.events.append({"name": name, "cat": category, "ph": "X", **times, "pid": pid, "tid": tid, "args": details})

    def counter(self, pid: int, name: str, time: float, value: float, unit: str) -> None:
        """From a time on a counter has a value."""
        self.events.append({"name": name, "ph": "C", "ts": time * self.scale, "pid": pid, "args": {unit: value}})

    def document(self) -> dict[str, Any]:
        """The trace in the object form."""
        return {"traceEvents": [*self.names, *self.events], "displayTimeUnit": "ns" if self.scale < 1 else "ms"}


def chrome_trace(rows: Iterable[TraceRow], *, time_unit: str = "s") -> dict[str, Any]:
    """Builds a trace: one thread per chiplet, one complete event per layer, slowed segments nested in it.

    Args:
        rows: what runs when; chiplets appear in the order in which they are first named.
        time_unit: one of `TIME_UNITS`.

    Returns:
        A JSON object in the Trace Event Format (object form): complete events (`ph` X, microseconds) and the
        metadata events that name process and threads.

    Raises:
        ValueError: the time unit is unknown.
    """
    if time_unit not in TIME_UNITS:
        raise ValueError(f"time_unit is {time_unit!r}, not one of {', '.join(TIME_UNITS)}")
    trace = _Trace(TIME_UNITS[time_unit])
    trace.process(0, "package")
    thread: dict[str, int] = {}
    for row in rows:
        if row.chiplet not in thread:
            trace.thread(0, thread.setdefault(row.chiplet, len(thread)), row.chiplet)
        lost = sum((end - start) * (1 - rate) for start, end, rate, _ in row.slowed)
        details = {"network": row.network, "stall_us": lost * trace.scale}
        trace.slice(0, thread[row.chiplet], row.layer, row.network, row.start, row.end, details)
        for start, end, rate, resource in row.slowed:
            trace.slice(0, thread[row.chiplet], f"slowed by {resource}", "slowed", start, end, {"rate": rate})
    return trace.document()


def design_trace(views: Iterable[DesignView]) -> dict[str, Any]:
    """Builds a trace of designs, which Perfetto opens.

    Args:
        views: the designs.

    Returns:
        A JSON object in the Trace Event Format (object form), times in microseconds. A process per design has a thread
        per chiplet (complete events per layer, slowed segments nested in them) and one per resource of
        `DesignView.traffic` (complete events `busy` and `full`), all named and in this order; counters (`ph` C, in
        GB/s) say what flows through each resource.
    """
    trace = _Trace(TIME_UNITS["s"])
    for pid, view in enumerate(views, start=1):
        latency, energy, area = view.objectives
        trace.process(pid, f"design {view.design_id}: {latency:.4g} s, {energy:.4g} J, {area:.4g} mm^2")
        for k, chiplet in enumerate(view.chiplets):
            trace.thread(pid, k + 1, f"chiplet {k}: {chiplet.template}, interface {chiplet.interface}")
        for bar in view.bars:
            network = view.networks[bar.network]
            details = {
                "network": network,
                "stall_us": sum((s.end_s - s.start_s) * (1 - s.rate) for s in bar.slowed) * trace.scale,
                "alone_us": bar.alone_s * trace.scale,
                "offchip_bytes": bar.offchip_bytes,
                "energy_J": bar.energy_J,
            }
            trace.slice(pid, bar.chiplet + 1, bar.name, network, bar.start_s, bar.end_s, details)
            for s in bar.slowed:
                where = pid, bar.chiplet + 1, f"slowed by {s.cause}", "slowed"
                trace.slice(*where, max(s.start_s, bar.start_s), min(s.end_s, bar.end_s), {"rate": s.rate})
        for k, resource in enumerate(view.traffic):
            _resource(trace, pid, len(view.chiplets) + k + 1, resource)
    return trace.document()


def _resource(trace: _Trace, pid: int, tid: int, resource: Traffic) -> None:
    """Track and counter of a resource."""
    limit = f"{resource.bandwidth / 1e9:g} GB/s" if math.isfinite(resource.bandwidth) else "unlimited"
    trace.thread(pid, tid, f"{resource.name} ({limit})")
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
