"""Schedules in files, and their evaluation by the fluid model.

Format `fluid-schedule/1` (JSON): `cases`, each one schedule with its costs written out:

- `name`; `duration`, `bytes`, `predecessors`, `accelerator` (index), one entry per job; `order`, all jobs by priority;
- `resource_bandwidth`, bytes per time unit; `resources_of_accelerator`, a list of resource indices per accelerator;
- optional: `resource_names`; `jobs` and `accelerators`, their numbers. Other keys are left alone.

The result is `{"format": "fluid-schedule/1", "cases": [{"name", "start", "end", "makespan"}]}`.

Format `job-table/1` (JSON): costs per job and accelerator, and any number of schedules over them:

- `time_unit`: `"cycles"` (the default) or `"s"`; bandwidths are in bytes per time unit;
- `resources`: list of `{"name", "bandwidth"}`; null is unlimited;
- `accelerators`: list of `{"name", "resources"}`, the resources that its off-chip traffic passes;
- `jobs`: list of `{"name", "duration", "bytes", "energy_J", "predecessors"}`. The three costs are lists with an entry
  per accelerator, or one number for all of them. A `duration` of null means that the job cannot run there; `energy_J`
  is left out of all jobs or of none; `predecessors` may be left out;
- `schedules`: list of `{"name", "order", "accelerator"}`: all jobs by priority, and for each job, in the order of
  `jobs`, where it runs.

Jobs, accelerators and resources are referred to by name or by 0-based number. The result is
`{"format": "job-table/1", "time_unit", "schedules": [{"name", "makespan", "energy_J"}]}`, with timelines also `start`
and `end` of each job.

With timelines, both results have `stall` (time lost to shared bandwidth) and `slowed` (per job a list of
`{"start", "end", "rate", "resource"}`) for every schedule.

Times are in the time unit of the input. What breaks a rule (a job ordered twice, a dependency that the order cannot
keep, a bandwidth of zero, ...) is an error that names schedule and item; nothing is written then.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import pathlib
import sys
from collections import abc
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.files import check_format, dump_json, read_json, write_text
from mohamjax.schedule.fluid import DONE, REASONS, Timeline, predecessor_bits, simulate, split_resources
from mohamjax.schedule.job_table import JobTable, evaluate_table
from mohamjax.schedule.segments import Segment, segments

__all__ = [
    "FLUID_FORMAT",
    "JOB_TABLE_FORMAT",
    "SCHEDULE_READERS",
    "ScheduleFile",
    "TableSchedules",
    "evaluate_schedules",
    "read_case",
    "read_job_table",
    "schedule_arrays",
    "simulate_cases",
]

FLUID_FORMAT = "fluid-schedule/1"
JOB_TABLE_FORMAT = "job-table/1"


# ---------------------------------------------------------------- reading


class _Item:
    """A place in a file: gets values out of it with complaints that name it."""

    def __init__(self, value: Any, file: object, path: str) -> None:
        self.value, self.file, self.path = value, file, path

    def error(self, message: str, remedy: str) -> InputError:
        return InputError(message, file=self.file, item=self.path, remedy=remedy)

    def key(self, name: str, default: Any = ...) -> _Item:
        if not isinstance(self.value, abc.Mapping):
            raise self.error(f"is {_kind(self.value)}, not an object", "write an object with named keys")
        if name not in self.value and default is ...:
            raise self.error(f"the key {name!r} is missing", "add it")
        return _Item(self.value.get(name, default), self.file, f"{self.path}, {name}" if self.path else name)

    def entries(self, length: int | None = None, of: str = "job") -> list[_Item]:
        if not isinstance(self.value, list):
            raise self.error(f"is {_kind(self.value)}, not a list", "write a list")
        if length is not None and len(self.value) != length:
            raise self.error(f"has {len(self.value)} entries", f"give one for each {of}, {length}")
        return [_Item(value, self.file, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.error(f"is {_kind(self.value)}, not a name", "write a text that is not empty")
        return self.value

    def number(self, *, positive: bool = False, unlimited: bool = False) -> float:
        if unlimited and self.value is None:
            return math.inf
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.error(f"is {_kind(self.value)}, not a number", "write a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value) and not (unlimited and value == math.inf):
            raise self.error(f"is {value}", "write a finite number")
        if value < 0 or (positive and value == 0):
            raise self.error(f"is {value:g}", f"write a number {'above' if positive else 'of at least'} 0")
        return value

    def index(self, names: abc.Mapping[str, int], what: str) -> int:
        """The number of a job, accelerator or resource that is referred to by name or number."""
        if isinstance(self.value, str):
            if self.value not in names:
                raise self.error(f"there is no {what} {self.value!r}", f"name one of the {len(names)} {what}s")
            return names[self.value]
        return self.number_below(len(names), what)

    def number_below(self, count: int, what: str) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.error(f"is {_kind(self.value)}, not the number of {_article(what)}", "write an integer")
        if not 0 <= self.value < count:
            raise self.error(f"there is no {what} {self.value}", f"the {count} {what}s are numbered from 0")
        return self.value


def _article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return kinds.get(type(value), "a number")


def _permutation(item: _Item, jobs: Sequence[int]) -> None:
    """Refuses an order that is not all jobs, each once."""
    seen: dict[int, int] = {}
    for place, job in enumerate(jobs):
        if job in seen:
            raise item.error(
                f"job {job} stands at places {seen[job]} and {place}", "list every job exactly once, by priority"
            )
        seen[job] = place


def _cycle(before: Sequence[Sequence[int]]) -> list[int]:
    """A cycle of jobs that wait for each other, each for the next; empty where there is none."""
    count = [len(set(b)) for b in before]
    after: list[list[int]] = [[] for _ in before]
    for job, waits in enumerate(before):
        for p in set(waits):
            after[p].append(job)
    free = [job for job, n in enumerate(count) if n == 0]
    left = set(range(len(before)))
    while free:
        job = free.pop()
        left.discard(job)
        for follower in after[job]:
            count[follower] -= 1
            if count[follower] == 0:
                free.append(follower)
    if not left:
        return []
    path = [min(left)]
    while True:
        following = next(p for p in before[path[-1]] if p in left)
        if following in path:
            return path[path.index(following) :]
        path.append(following)


def _predecessors(items: Sequence[_Item], names: abc.Mapping[str, int] | None = None) -> tuple[tuple[int, ...], ...]:
    """Predecessor lists, checked: jobs that exist, no cycle."""
    jobs = len(items)
    result = tuple(
        tuple(
            entry.number_below(jobs, "job") if names is None else entry.index(names, "job") for entry in item.entries()
        )
        for item in items
    )
    cycle = _cycle(result)
    if cycle:
        raise items[cycle[0]].error(
            f"jobs {', '.join(map(str, cycle))} wait for each other", "remove one of these predecessors"
        )
    return result


def _check_order(
    item: _Item, order: Sequence[int], accelerator: Sequence[int], predecessors: Sequence[Sequence[int]]
) -> None:
    """Refuses an order in which jobs wait for each other: accelerators run theirs in this order and no other."""
    place = {job: i for i, job in enumerate(order)}
    late = [(job, p) for job in order for p in predecessors[job] if place[p] > place[job]]
    if not late:
        return  # topological: whatever runs first in the order can always run
    waits = [list(p) for p in predecessors]
    last: dict[int, int] = {}
    for job in order:
        if accelerator[job] in last:
            waits[job].append(last[accelerator[job]])
        last[accelerator[job]] = job
    cycle = _cycle(waits)
    if cycle:
        job, p = next(pair for pair in late if pair[0] in cycle or pair[1] in cycle)
        raise item.error(
            f"job {job} stands before its predecessor {p}, so that jobs {', '.join(map(str, cycle))} wait for each "
            "other",
            "order every job after its predecessors",
        )


# ---------------------------------------------------------------- fluid-schedule/1


@dataclasses.dataclass(frozen=True)
class _Case:
    """One schedule with its costs written out."""

    name: str
    duration: np.ndarray
    bytes: np.ndarray
    predecessors: tuple[tuple[int, ...], ...]
    accelerator: np.ndarray
    order: np.ndarray
    resources: tuple[str, ...]
    bandwidth: np.ndarray
    resources_of_accelerator: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def shared(self) -> int:
        """Number of resources that several accelerators use."""
        uses, _, _ = split_resources(self.resources_of_accelerator, self.bandwidth)
        return int(np.sum(uses.any(axis=0)))


def _case(item: _Item) -> _Case:
    name = item.key("name").text()
    item = _Item(item.value, item.file, f"case {name}")
    durations = item.key("duration").entries()
    count = len(durations)
    for what, length in (("jobs", count), ("accelerators", len(item.key("resources_of_accelerator").entries()))):
        stated = item.key(what, length)
        if isinstance(stated.value, bool) or stated.value != length:
            raise stated.error(f"is {stated.value!r}, but {length} are listed", "correct the number or the lists")
    bandwidth = [entry.number(positive=True, unlimited=True) for entry in item.key("resource_bandwidth").entries()]
    names = [e.text() for e in item.key("resource_names", [str(i) for i in range(len(bandwidth))]).entries()]
    if len(names) != len(bandwidth):
        raise item.key("resource_names").error(
            f"has {len(names)} entries", f"give one for each resource, {len(bandwidth)}"
        )
    if len(set(names)) < len(names):
        raise item.key("resource_names").error("two resources share a name", "give every one its own name")
    uses = tuple(
        tuple(entry.number_below(len(bandwidth), "resource") for entry in mine.entries())
        for mine in item.key("resources_of_accelerator").entries()
    )
    duration = np.array([entry.number() for entry in durations], float)
    traffic = np.array([entry.number() for entry in item.key("bytes").entries(count)], float)
    _refuse_instant_traffic(item.key("duration"), duration, traffic)
    predecessors = _predecessors(item.key("predecessors").entries(count))
    accelerator = [entry.number_below(len(uses), "accelerator") for entry in item.key("accelerator").entries(count)]
    order_item = item.key("order")
    order = [entry.number_below(count, "job") for entry in order_item.entries(count)]
    _permutation(order_item, order)
    _check_order(order_item, order, accelerator, predecessors)
    return _Case(
        name=name,
        duration=duration,
        bytes=traffic,
        predecessors=predecessors,
        accelerator=np.array(accelerator, np.int32),
        order=np.array(order, np.int32),
        resources=tuple(names),
        bandwidth=np.array(bandwidth, float),
        resources_of_accelerator=uses,
    )


def read_case(value: Any, file: object, name: str) -> _Case:
    """One case of a `fluid-schedule/1` document, called `name` where it does not say how; raises InputError."""
    return _case(_Item({"name": name, **value} if isinstance(value, dict) else value, file, f"case {name}"))


def simulate_cases(cases: Sequence[_Case], block: int, *, float32: bool = False) -> tuple[np.ndarray, list[str]]:
    """Makespans of cases `[n]`, and why each that does not end does not; in blocks of one size, the last filled up."""
    makespan, told = np.full(len(cases), np.nan), [""] * len(cases)
    buckets: dict[int, list[int]] = {}
    for i, case in enumerate(cases):
        buckets.setdefault(_power_of_two(64, len(case.duration)), []).append(i)
    for jobs, members in buckets.items():
        for first in range(0, len(members), block):
            own = [members[min(k, len(members) - 1)] for k in range(first, first + block)]
            with jax.enable_x64(not float32), np.errstate(over="ignore"):
                found = _bucket([cases[i] for i in own], jobs, np.float32 if float32 else np.float64)
            for row, i in enumerate(own):
                if found.reason[row] == DONE:
                    makespan[i] = found.makespan[row]
                else:
                    told[i] = REASONS[int(found.reason[row])]
    return makespan, told


def _cases(document: abc.Mapping[str, Any], file: object) -> list[_Case]:
    """The cases of a `fluid-schedule/1` document, of different names."""
    items = _Item(document, file, "").key("cases").entries()
    _names(items)
    return [_case(item) for item in items]


def _refuse_instant_traffic(item: _Item, duration: np.ndarray, traffic: np.ndarray) -> None:
    instant = np.flatnonzero((duration == 0) & (traffic > 0))
    if instant.size:
        job = int(instant[0])
        raise _Item(None, item.file, f"{item.path}[{job}]").error(
            f"is 0, but the job moves {traffic[job]:g} bytes", "write a duration above 0"
        )


def _power_of_two(least: int, value: int) -> int:
    return max(least, 1 << max(0, value - 1).bit_length())


_simulate_cases = jax.jit(jax.vmap(simulate))


def _stacked(cases: Sequence[_Case], jobs: int, dtype: Any) -> list[np.ndarray]:
    """The arguments of `simulate`, in its order, with a leading axis of cases, padded to a common size."""
    accelerators = _power_of_two(1, max(len(case.resources_of_accelerator) for case in cases))
    resources = _power_of_two(1, max(case.shared for case in cases))
    columns: list[tuple[np.ndarray, ...]] = []
    for case in cases:
        count = len(case.duration)
        uses, shared, private = split_resources(case.resources_of_accelerator, case.bandwidth, accelerators, resources)
        more = (0, jobs - count)
        columns.append(
            (
                np.pad(case.duration, more).astype(dtype),
                np.pad(case.bytes, more).astype(dtype),
                predecessor_bits(case.predecessors, jobs),
                np.pad(case.accelerator, more, constant_values=-1),
                np.concatenate([case.order, np.arange(count, jobs, dtype=np.int32)]),
                uses,
                shared.astype(dtype),
                private.astype(dtype),
                np.arange(jobs) < count,
            )
        )
    return [np.stack(column) for column in zip(*columns, strict=True)]


def _bucket(cases: Sequence[_Case], jobs: int, dtype: Any) -> Timeline:
    """Simulates cases of about equal size in one padded batch; the result has NumPy leaves."""
    return jax.tree.map(np.asarray, _simulate_cases(*map(jnp.asarray, _stacked(cases, jobs, dtype))))


def _slowed(found: Sequence[Sequence[Segment]], resources: Sequence[str]) -> list[list[dict[str, Any]]]:
    return [
        [{"start": s.start, "end": s.end, "rate": s.rate, "resource": resources[s.resource]} for s in one]
        for one in found
    ]


def _unfinished(reason: int, item: str, file: object, float32: bool) -> InputError:
    remedy = "compute in double precision" if float32 else "write smaller numbers"
    return InputError(REASONS[reason], file=file, item=item, remedy=remedy)


def _evaluate_fluid(
    document: abc.Mapping[str, Any], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    cases = _cases(document, file)
    rows: list[dict[str, Any]] = [{} for _ in cases]
    buckets: dict[int, list[int]] = {}
    for i, case in enumerate(cases):
        # Few sizes, so that few programs are compiled: short schedules are cheap, whatever they are padded to.
        buckets.setdefault(_power_of_two(64, len(case.duration)), []).append(i)
    for jobs, members in sorted(buckets.items()):
        # What is too large for single precision becomes infinite, never ends, and is refused below.
        with jax.enable_x64(not float32), np.errstate(over="ignore"):
            found = _bucket([cases[i] for i in members], jobs, np.float32 if float32 else np.float64)
        for row, i in enumerate(members):
            case, count = cases[i], len(cases[i].duration)
            if found.reason[row] != DONE:
                raise _unfinished(int(found.reason[row]), f"case {case.name}", file, float32)
            start, end = found.start[row, :count], found.end[row, :count]
            rows[i] = {
                "name": case.name,
                "start": start.tolist(),
                "end": end.tolist(),
                "makespan": float(found.makespan[row]),
            }
            if timelines:
                seen = segments(
                    start,
                    end,
                    case.duration,
                    case.bytes,
                    case.accelerator,
                    case.resources_of_accelerator,
                    case.bandwidth,
                )
                rows[i] |= {"stall": found.stall[row, :count].tolist(), "slowed": _slowed(seen, case.resources)}
    jobs = sum(len(case.duration) for case in cases)
    return {"format": FLUID_FORMAT, "cases": rows}, {"schedules": len(cases), "jobs": jobs}


# ---------------------------------------------------------------- job-table/1


def _names(items: Sequence[_Item]) -> dict[str, int]:
    result: dict[str, int] = {}
    for i, item in enumerate(items):
        name = item.key("name").text()
        if name in result:
            raise item.error(f"{name!r} is also the name of number {result[name]}", "give every one its own name")
        result[name] = i
    return result


def _costs(item: _Item, accelerators: int, *, nullable: bool = False) -> list[float]:
    """One number per accelerator; +inf where null says that the job cannot run."""
    listed = isinstance(item.value, list)
    entries = item.entries(accelerators, "accelerator") if listed else [item] * accelerators
    return [math.inf if nullable and entry.value is None else entry.number() for entry in entries]


def read_job_table(document: abc.Mapping[str, Any], file: object) -> JobTable:
    """The table of a `job-table/1` document.

    Raises:
        InputError: something in it breaks the format; the error names the item.
    """
    top = _Item(document, file, "")
    unit = top.key("time_unit", "cycles")
    if unit.value not in ("cycles", "s"):
        raise unit.error(f"is {unit.value!r}", "write 'cycles' or 's'")
    resource_items = top.key("resources").entries()
    resources = _names(resource_items)
    bandwidth = [item.key("bandwidth").number(positive=True, unlimited=True) for item in resource_items]
    accelerator_items = top.key("accelerators").entries()
    accelerators = _names(accelerator_items)
    if not accelerators:
        raise top.key("accelerators").error("is empty", "list at least one accelerator")
    uses = tuple(
        tuple(entry.index(resources, "resource") for entry in item.key("resources").entries())
        for item in accelerator_items
    )
    job_items = top.key("jobs").entries()
    jobs = _names(job_items)
    shape = (len(jobs), len(accelerators))
    duration = np.zeros(shape)
    traffic = np.zeros(shape)
    with_energy = [item for item in job_items if "energy_J" in item.value]
    if with_energy and len(with_energy) < len(job_items):
        missing = next(item for item in job_items if "energy_J" not in item.value)
        raise missing.error("the key 'energy_J' is missing", "give the energy of all jobs or of none")
    energy = np.zeros(shape) if with_energy else None
    for j, item in enumerate(job_items):
        duration[j] = _costs(item.key("duration"), shape[1], nullable=True)
        if not np.isfinite(duration[j]).any():
            raise item.key("duration").error("the job cannot run anywhere", "give a duration for some accelerator")
        can_run = np.isfinite(duration[j])
        for key, costs in (("bytes", traffic), ("energy_J", energy)):
            if costs is not None:
                costs[j] = _costs(item.key(key), shape[1], nullable=True)
                if not np.isfinite(costs[j][can_run]).all():
                    raise item.key(key).error("is null where the job has a duration", "write a number")
                costs[j][~can_run] = 0.0
        _refuse_instant_traffic(item.key("duration"), duration[j], traffic[j])
    return JobTable(
        jobs=tuple(jobs),
        accelerators=tuple(accelerators),
        duration=duration,
        bytes=traffic,
        energy=energy,
        predecessors=_predecessors([item.key("predecessors", []) for item in job_items], jobs),
        resources=tuple(resources),
        bandwidth=tuple(bandwidth),
        resources_of_accelerator=uses,
        time_unit=unit.value,
    )


class TableSchedules:
    """Reads schedules over one job table.

    Args:
        table: the table.
        file: where they come from, for complaints.
    """

    def __init__(self, table: JobTable, file: object) -> None:
        self.table, self.file = table, file
        self._jobs = {name: i for i, name in enumerate(table.jobs)}
        self._accelerators = {name: i for i, name in enumerate(table.accelerators)}
        edges = [(p, j) for j, before in enumerate(table.predecessors) for p in before]
        self._before, self._after = np.asarray(edges, int).reshape(-1, 2).T

    def read(self, value: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Order and accelerator of all jobs, `[N]` int each; raises InputError where the schedule breaks a rule."""
        return self._sound(value) or self._step_by_step(value, name)

    def _sound(self, value: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """A schedule of numbers whose order is topological; None for any other, sound or not."""
        rows = [value.get(key) for key in ("order", "accelerator")] if isinstance(value, dict) else [None]
        count = len(self.table.jobs)
        if any(not isinstance(row, list) or len(row) != count or set(map(type, row)) != {int} for row in rows):
            return None
        try:
            order, where = (np.asarray(row, np.int32) for row in rows)
        except OverflowError:
            return None
        if where.min() < 0 or where.max() >= len(self._accelerators) or (np.sort(order) != np.arange(count)).any():
            return None
        place = np.argsort(order)
        late = (place[self._before] >= place[self._after]).any()
        return None if late or not np.isfinite(self.table.duration[np.arange(count), where]).all() else (order, where)

    def _step_by_step(self, value: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
        item, table, jobs = _Item(value, self.file, f"schedule {name}"), self.table, self._jobs
        where = item.key("accelerator").entries(len(jobs))
        assignment = [entry.index(self._accelerators, "accelerator") for entry in where]
        for j, a in enumerate(assignment):
            if not math.isfinite(table.duration[j, a]):
                able = [n for n, d in zip(table.accelerators, table.duration[j], strict=True) if math.isfinite(d)]
                raise where[j].error(
                    f"job {table.jobs[j]!r} cannot run on {table.accelerators[a]!r}", f"choose {' or '.join(able)}"
                )
        order_item = item.key("order")
        order = [entry.index(jobs, "job") for entry in order_item.entries(len(jobs))]
        _permutation(order_item, order)
        _check_order(order_item, order, assignment, table.predecessors)
        return np.asarray(order, np.int32), np.asarray(assignment, np.int32)


def _table_schedules(document: abc.Mapping[str, Any], table: JobTable, file: object) -> tuple[list[str], list, list]:
    """Names, orders and assignments of the schedules over a table, checked."""
    items = _Item(document, file, "").key("schedules").entries()
    names, reader = list(_names(items)), TableSchedules(table, file)
    found = [reader.read(item.value, name) for name, item in zip(names, items, strict=True)]
    return names, [order for order, _ in found], [where for _, where in found]


def _evaluate_job_table(
    document: abc.Mapping[str, Any], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    table = read_job_table(document, file)
    names, orders, assignments = _table_schedules(document, table, file)
    rows: list[dict[str, Any]] = []
    if names:
        objectives, found = evaluate_table(
            table, np.array(orders), np.array(assignments), float32=float32, timelines=timelines
        )
        for i, name in enumerate(names):
            if objectives.reason[i] != DONE:
                raise _unfinished(int(objectives.reason[i]), f"schedule {name}", file, float32)
            energy = None if table.energy is None else float(objectives.energy[i])
            row: dict[str, Any] = {"name": name, "makespan": float(objectives.makespan[i]), "energy_J": energy}
            if found is not None:
                on = (np.arange(len(table.jobs)), assignments[i])
                seen = segments(
                    found.start[i],
                    found.end[i],
                    table.duration[on],
                    table.bytes[on],
                    assignments[i],
                    table.resources_of_accelerator,
                    table.bandwidth,
                )
                row |= {
                    "start": found.start[i].tolist(),
                    "end": found.end[i].tolist(),
                    "stall": found.stall[i].tolist(),
                    "slowed": _slowed(seen, table.resources),
                }
            rows.append(row)
    result = {"format": JOB_TABLE_FORMAT, "time_unit": table.time_unit, "schedules": rows}
    return result, {"schedules": len(rows), "jobs": len(rows) * len(table.jobs)}


# ---------------------------------------------------------------- schedules as arrays


@dataclasses.dataclass(frozen=True)
class ScheduleFile:
    """Schedules of a `fluid-schedule/1` or `job-table/1` file as arrays, checked but not simulated.

    Attributes:
        names: N names, in input order.
        arguments: the arguments of `simulate` by name, with a leading axis `[N]`, padded to a common size; NumPy arrays
            in double precision.
        jobs: jobs of each schedule; the rest of the arrays is padding.
        table: the job table, where the file has one.
    """

    names: tuple[str, ...]
    arguments: dict[str, np.ndarray]
    jobs: tuple[int, ...]
    table: JobTable | None = None

    def __len__(self) -> int:
        """Number of schedules."""
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """The arguments of `simulate` for one schedule, by its place."""
        return {name: values[index] for name, values in self.arguments.items()}


def schedule_arrays(document: abc.Mapping[str, Any], file: object) -> ScheduleFile:
    """The schedules of a `fluid-schedule/1` or `job-table/1` document.

    Raises:
        InputError: it breaks its format, or holds no schedules.
    """
    table = None
    if document["format"] == FLUID_FORMAT:
        cases = _cases(document, file)
    else:
        table = read_job_table(document, file)
        cases = []
        for name, order, where in zip(*_table_schedules(document, table, file), strict=True):
            on = np.arange(len(table.jobs)), np.asarray(where, int)
            cases.append(
                _Case(
                    name=name,
                    duration=table.duration[on],
                    bytes=table.bytes[on],
                    predecessors=table.predecessors,
                    accelerator=np.asarray(where, np.int32),
                    order=np.asarray(order, np.int32),
                    resources=table.resources,
                    bandwidth=np.asarray(table.bandwidth, float),
                    resources_of_accelerator=table.resources_of_accelerator,
                )
            )
    if not cases:
        raise InputError("holds no schedules", file=file, remedy="give at least one")
    jobs = tuple(len(case.duration) for case in cases)
    columns = _stacked(cases, 32 * max(1, -(-max(jobs) // 32)), np.float64)
    names = list(inspect.signature(simulate).parameters)
    return ScheduleFile(
        names=tuple(case.name for case in cases),
        arguments=dict(zip(names, columns, strict=True)),
        jobs=jobs,
        table=table,
    )


# ---------------------------------------------------------------- dispatch

SCHEDULE_READERS: dict[
    str, Callable[[abc.Mapping[str, Any], object, bool, bool], tuple[dict[str, Any], dict[str, Any]]]
] = {
    FLUID_FORMAT: _evaluate_fluid,
    JOB_TABLE_FORMAT: _evaluate_job_table,
}
"""Per format, what evaluates a document: (document, file, float32, timelines) -> (result, summary)."""


def evaluate_schedules(
    path: str | pathlib.Path,
    out: str | pathlib.Path | None = None,
    *,
    float32: bool = False,
    timelines: bool = False,
) -> dict[str, Any]:
    """Evaluates the schedules of a file, in double precision unless told otherwise.

    Args:
        path: a JSON file of one of the formats in `SCHEDULE_READERS`.
        out: where the result goes (JSON, written atomically); standard output for None and `-`.
        float32: compute in single precision.
        timelines: also write when and by what each job is slowed (and when it runs, for job tables).

    Returns:
        A summary: `format`, `schedules`, `jobs` (numbers), `precision`.

    Raises:
        InputError: the file cannot be read, is of no known format, or breaks its format; or `out` cannot be written.
    """
    document = read_json(path)
    name = check_format(document, SCHEDULE_READERS, path)
    result, counts = SCHEDULE_READERS[name](document, path, float32, timelines)
    text = dump_json(result)
    if out is None or str(out) == "-":
        sys.stdout.write(text)
    else:
        write_text(out, text)
    return {"format": name, **counts, "precision": "float32" if float32 else "float64"}
