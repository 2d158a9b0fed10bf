"""Timelines in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

__all__ = ["TIME_UNITS", "TraceRow", "chrome_trace"]

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
    scale = TIME_UNITS[time_unit]
    thread: dict[str, int] = {}
    events: list[dict[str, Any]] = []

    def event(name: str, category: str, chiplet: str, start: float, end: float, details: dict[str, Any]) -> None:
        events.append(
            {
                "name": name,
                "cat": category,
                "ph": "X",
                "ts": start * scale,
                "dur": (end - start) * scale,
                "pid": 0,
                "tid": thread.setdefault(chiplet, len(thread)),
                "args": details,
            }
        )

    for row in rows:
        lost = sum((end - start) * (1 - rate) for start, end, rate, _ in row.slowed)
        details = {"network": row.network, "stall_us": lost * scale}
        event(row.layer, row.network, row.chiplet, row.start, row.end, details)
        for start, end, rate, resource in row.slowed:
            event(f"slowed by {resource}", "slowed", row.chiplet, start, end, {"rate": rate})

    names = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "package"}}]
    for chiplet, number in thread.items():
        names.append({"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": chiplet}})
        names.append({"name": "thread_sort_index", "ph": "M", "pid": 0, "tid": number, "args": {"sort_index": number}})
    return {"traceEvents": [*names, *events], "displayTimeUnit": "ns" if scale < 1 else "ms"}
