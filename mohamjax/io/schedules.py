"""Schedules in files, and their evaluation by the fluid model.

Format `fluid-schedule/1` (JSON): `cases`, each one schedule with explicit costs:

- `name`; `duration`, `bytes`, `predecessors`, `accelerator` (index), one entry per job; `order`, all jobs by priority;
- `resource_bandwidth`, bytes per time unit; `resources_of_accelerator`, a list of resource indices per accelerator;
- optional: `resource_names`; `jobs` and `accelerators`, how many there are. Other keys are ignored.

The result is `{"format": "fluid-schedule/1", "cases": [{"name", "start", "end", "makespan"}]}`.

Format `job-table/1` (JSON): costs per job and accelerator, and any number of schedules over them:

- `time_unit`: `"cycles"` (the default) or `"s"`; bandwidths are in bytes per time unit;
- `resources`: list of `{"name", "bandwidth"}`; null is unlimited;
- `accelerators`: list of `{"name", "resources"}`, the resources that the accelerator's off-chip traffic passes;
- `jobs`: list of `{"name", "duration", "bytes", "energy_J", "predecessors"}`. The three costs are lists with an entry
  per accelerator, or one number for all of them. A `duration` of null means that the job cannot run there. Either all
  jobs have `energy_J` or none; `predecessors` may be left out. Optional, for G#: `tenant` (a name), `weight` (default
  1), `deadline` (time units; null: none) and `target`, the place at which the job should end (for all jobs or none);
- `schedules`: list of `{"name", "order", "accelerator"}`: `order` lists all jobs by priority; `accelerator` says where
  each job runs, as a list in the order of `jobs` (not of `order`) or as a mapping from job to accelerator.

Jobs, accelerators and resources are referred to by name or 0-based number. The result is
`{"format": "job-table/1", "time_unit", "schedules": [{"name", "makespan", "energy_J"}]}`, with timelines also `start`
and `end` of each job.

With timelines, both results have `stall` (time lost to shared bandwidth) and `slowed` (per job a list of
`{"start", "end", "rate", "resource"}`) for every schedule.

Times are in the time unit of the input. A schedule that breaks a rule (a job ordered twice, a dependency that the order
cannot keep, ...) becomes a row with a makespan of null and a `reason` that names the place of the error; the others are
evaluated. If a file cannot be read, or its table breaks a rule, that is an error, and nothing is written.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import pathlib
import sys
from collections import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from msgspec import UNSET

from mohamjax.errors import InputError
from mohamjax.forms import read_form, refuse_misspelt
from mohamjax.io.documents import read_document
from mohamjax.io.entries import Entry, Place, entries_of, sound_entries, waiting, without_entries
from mohamjax.io.files import check_format, rows_text
from mohamjax.io.formats import ENTRIES, FLUID_FORMAT, JOB_TABLE_FORMAT
from mohamjax.io.forms import MOST_ASKED, CaseForm, FluidForm, JobForm, JobTableForm, OrderForm
from mohamjax.io.inputs import keep_inputs
from mohamjax.io.result_stream import write_instead
from mohamjax.jobs.table import JobTable, evaluate_table
from mohamjax.reader import suggestion
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule.fluid import DONE, REASONS, Timeline, predecessor_bits, simulate, split_resources
from mohamjax.schedule.segments import Segment, segments

# ---------------------------------------------------------------- reading


def _cycle(before: Sequence[Sequence[int]]) -> list[int]:
    """A cycle of jobs, each of which waits for the next one; empty if there is none."""
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


def _predecessors(
    rows: Sequence[Sequence[int | str]], names: abc.Mapping[str, int] | int, places: Sequence[Place]
) -> tuple[tuple[int, ...], ...]:
    """Predecessors of each job as numbers; raises InputError for jobs that do not exist and for cycles."""
    result = tuple(tuple(place.numbers(row, names, "job")) for row, place in zip(rows, places, strict=True))
    cycle = _cycle(result)
    if cycle:
        labels = range(names) if isinstance(names, int) else list(names)
        raise places[cycle[0]].error(waiting(cycle, labels), "remove one of these predecessors")
    return result


def _check_order(
    item: Place,
    order: Sequence[int],
    accelerator: Sequence[int],
    predecessors: Sequence[Sequence[int]],
    labels: Sequence[int | str],
) -> None:
    """Raises InputError if jobs would wait for each other, as each accelerator runs its jobs strictly in this order."""
    place = {job: i for i, job in enumerate(order)}
    late = [(job, p) for job in order for p in predecessors[job] if place[p] > place[job]]
    if not late:
        return  # the order is topological
    waits = [list(p) for p in predecessors]
    last: dict[int, int] = {}
    for job in order:
        if accelerator[job] in last:
            waits[job].append(last[accelerator[job]])
        last[accelerator[job]] = job
    cycle = _cycle(waits)
    if cycle:
        job, p = next(pair for pair in late if pair[0] in cycle or pair[1] in cycle)
        told = f"job {labels[job]!r} stands before its predecessor {labels[p]!r}, so that {waiting(cycle, labels)}"
        raise item.error(told, "order every job after its predecessors")


# ---------------------------------------------------------------- fluid-schedule/1


@dataclasses.dataclass(frozen=True)
class _Case:
    """One schedule with explicit costs."""

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


def _case(form: CaseForm, at: Place) -> _Case:
    count, uses = len(form.duration), form.resources_of_accelerator
    for key, stated, length in (("jobs", form.jobs, count), ("accelerators", form.accelerators, len(uses))):
        if stated not in (None, length):
            raise at.at(key).error(f"is {stated}, but {length} are listed", "correct the number or the lists")
    bandwidth = [math.inf if b is None else b for b in form.resource_bandwidth]
    names = [str(i) for i in range(len(bandwidth))] if form.resource_names is None else form.resource_names
    at.at("resource_names").check_length(names, len(bandwidth), "resource")
    at.at("resource_names").check_names(names, "")
    for key in ("bytes", "predecessors", "accelerator", "order"):
        at.at(key).check_length(getattr(form, key), count, "job")
    duration, traffic = np.array(form.duration, float), np.array(form.bytes, float)
    _refuse_instant_traffic(at.at("duration"), duration, traffic)
    predecessors = _predecessors(form.predecessors, count, [at.at(f"predecessors[{i}]") for i in range(count)])
    accelerator = at.at("accelerator").numbers(form.accelerator, len(uses), "accelerator")
    order = at.at("order").numbers(form.order, count, "job")
    at.at("order").check_order(order, range(count))
    _check_order(at.at("order"), order, accelerator, predecessors, range(count))
    return _Case(
        duration=duration,
        bytes=traffic,
        predecessors=predecessors,
        accelerator=np.array(accelerator, np.int32),
        order=np.array(order, np.int32),
        resources=tuple(names),
        bandwidth=np.array(bandwidth, float),
        resources_of_accelerator=tuple(
            tuple(at.at(f"resources_of_accelerator[{i}]").numbers(own, len(bandwidth), "resource"))
            for i, own in enumerate(uses)
        ),
    )


def _broken(name: int | str, reason: str) -> dict[str, object]:
    return {"name": name, "makespan": None, "reason": reason}


def read_case(value: object, at: Place) -> _Case:
    """Reads one case of a `fluid-schedule/1` document at a place in a file; raises InputError."""
    return _case(at.form(value, CaseForm), at)


def simulate_cases(
    cases: Sequence[_Case], block: int, *, float32: bool = False, devices: Devices | None = None
) -> tuple[np.ndarray, list[str]]:
    """Makespans of cases and why a case never ends, computed in blocks of one size over the devices.

    Returns:
        `[n]` float, NaN for a case that never ends, and n reasons, empty for the others.
    """
    makespan, told = np.full(len(cases), np.nan), [""] * len(cases)
    buckets: dict[int, list[int]] = {}
    for i, case in enumerate(cases):
        buckets.setdefault(_power_of_two(64, len(case.duration)), []).append(i)
    for jobs, members in buckets.items():
        for first in range(0, len(members), block):
            own = [members[min(k, len(members) - 1)] for k in range(first, first + block)]
            with jax.enable_x64(not float32), np.errstate(over="ignore"):
                found = _bucket([cases[i] for i in own], jobs, np.float32 if float32 else np.float64, devices)
            for row, i in enumerate(own):
                if found.reason[row] == DONE:
                    makespan[i] = found.makespan[row]
                else:
                    told[i] = unfinished(int(found.reason[row]), float32)
    return makespan, told


def _cases(document: abc.Mapping[str, object], file: object) -> Iterator[Entry[_Case]]:
    """The cases of a `fluid-schedule/1` document, each with its name; a broken one is its error."""
    read_form(without_entries(document, "cases"), FluidForm, file=file)
    return entries_of(document, "cases", file, read_case)


def _refuse_instant_traffic(at: Place, duration: np.ndarray, traffic: np.ndarray) -> None:
    instant = np.flatnonzero((traffic > 0) & (traffic > MOST_ASKED * duration))
    if instant.size:
        job = int(instant[0])
        raise Place(at.file, f"{at.path}[{job}]").error(
            f"is {duration[job]:g}, but the job moves {traffic[job]:g} bytes",
            "write how long the job takes when nothing slows it, or 0 bytes",
        )


def _power_of_two(least: int, value: int) -> int:
    return max(least, 1 << max(0, value - 1).bit_length())


_simulate_cases = jax.jit(lambda cases: jax.vmap(simulate)(*cases))


def _stacked(cases: Sequence[_Case], jobs: int, dtype: npt.DTypeLike) -> list[np.ndarray]:
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


def _bucket(cases: Sequence[_Case], jobs: int, dtype: npt.DTypeLike, devices: Devices | None = None) -> Timeline:
    """Simulates cases of about equal size in one padded batch; the result has NumPy leaves."""
    program = _simulate_cases if devices is None else devices.over(_simulate_cases)
    return jax.tree.map(np.asarray, program(tuple(map(jnp.asarray, _stacked(cases, jobs, dtype)))))


def _slowed(found: Sequence[Sequence[Segment]], resources: Sequence[str]) -> list[list[dict[str, object]]]:
    return [
        [{"start": s.start, "end": s.end, "rate": s.rate, "resource": resources[s.resource]} for s in one]
        for one in found
    ]


def unfinished(reason: int, float32: bool) -> str:
    """Why a schedule never ends, by its index into `REASONS`, and what to do about it."""
    remedy = "compute in double precision" if float32 else "write numbers that lie closer together"
    return f"{REASONS[reason]}; {remedy}"


def _evaluate_fluid(
    document: abc.Mapping[str, object], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, object], dict[str, object]]:
    rows: list[dict[str, object]] = []
    names: list[int | str] = []
    cases: dict[int, _Case] = {}
    for i, (name, case) in enumerate(_cases(document, file)):
        names.append(name)
        rows.append({} if isinstance(case, _Case) else _broken(name, case.reason))
        if isinstance(case, _Case):
            cases[i] = case
    buckets: dict[int, list[int]] = {}
    for i, case in cases.items():
        # Few sizes keep the number of compiled programs small; padding costs little for short schedules.
        buckets.setdefault(_power_of_two(64, len(case.duration)), []).append(i)
    for jobs, members in sorted(buckets.items()):
        # Numbers too large for single precision become infinite; such a schedule never ends, which is reported below.
        with jax.enable_x64(not float32), np.errstate(over="ignore"):
            found = _bucket([cases[i] for i in members], jobs, np.float32 if float32 else np.float64)
        for row, i in enumerate(members):
            case, count = cases[i], len(cases[i].duration)
            if found.reason[row] != DONE:
                rows[i] = _broken(names[i], unfinished(int(found.reason[row]), float32))
                continue
            start, end = found.start[row, :count], found.end[row, :count]
            rows[i] = {
                "name": names[i],
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
    jobs = sum(len(case.duration) for case in cases.values())
    return {"format": FLUID_FORMAT, "cases": rows}, {"schedules": len(rows), "jobs": jobs}


# ---------------------------------------------------------------- job-table/1


def _costs(costs: Any, accelerators: int, at: Place) -> list[float]:
    """One number per accelerator; +inf for null, where the job cannot run."""
    listed = costs if isinstance(costs, list) else [costs] * accelerators
    at.check_length(listed, accelerators, "accelerator")
    return [math.inf if cost is None else cost for cost in listed]


def _numbered(names: abc.Iterable[str]) -> dict[str, int]:
    return {name: i for i, name in enumerate(names)}


def read_job_table(document: abc.Mapping[str, object], file: object) -> JobTable:
    """The table of a `job-table/1` document; its schedules are not looked at.

    Raises:
        InputError: the table breaks the format; the error names the item.
    """
    return _table(read_form(without_entries(document, "schedules"), JobTableForm, file=file), Place(file))


def _table(form: JobTableForm, top: Place) -> JobTable:
    if not form.jobs:
        raise top.at("jobs").error("there are no jobs", "give at least one")
    for key in ("resources", "accelerators", "jobs"):
        top.at(key).check_names([row.name for row in getattr(form, key)])
    resources, jobs = _numbered(row.name for row in form.resources), _numbered(row.name for row in form.jobs)
    uses = tuple(
        tuple(top.at(f"accelerators[{a}].resources").numbers(row.resources, resources, "resource"))
        for a, row in enumerate(form.accelerators)
    )
    shape = (len(jobs), len(form.accelerators))
    duration, traffic, energy = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    silent = [j for j, row in enumerate(form.jobs) if row.energy_J is UNSET]
    if silent and len(silent) < len(jobs):
        told = "is missing, and other jobs have it"
        raise top.at(f"jobs[{silent[0]}].energy_J").error(told, "give the energy of all jobs or of none")
    for j, row in enumerate(form.jobs):
        at = top.at(f"jobs[{j}]")
        duration[j] = _costs(row.duration, shape[1], at.at("duration"))
        can_run = np.isfinite(duration[j])
        if not can_run.any():
            raise at.at("duration").error("the job cannot run anywhere", "give a duration for some accelerator")
        for key, costs in (("bytes", traffic), ("energy_J", energy)):
            if getattr(row, key) is not UNSET:
                costs[j] = _costs(getattr(row, key), shape[1], at.at(key))
                if not np.isfinite(costs[j][can_run]).all():
                    raise at.at(key).error("is null where the job has a duration", "write a number")
                costs[j][~can_run] = 0.0
        _refuse_instant_traffic(at.at("duration"), duration[j], traffic[j])
    return JobTable(
        jobs=tuple(jobs),
        accelerators=tuple(row.name for row in form.accelerators),
        duration=duration,
        bytes=traffic,
        energy=None if silent else energy,
        predecessors=_predecessors(
            [row.predecessors for row in form.jobs],
            jobs,
            [top.at(f"jobs[{j}].predecessors") for j in range(len(jobs))],
        ),
        resources=tuple(resources),
        bandwidth=tuple(math.inf if row.bandwidth is None else row.bandwidth for row in form.resources),
        resources_of_accelerator=uses,
        time_unit=form.time_unit,
        **_goals(form.jobs, top),
    )


def _goals(rows: abc.Sequence[JobForm], top: Place) -> dict[str, Any]:
    """Tenants, weights, deadlines and targets for `JobTable`; None for each that no job states."""

    def given(key: str, silent: object) -> tuple[Any, ...] | None:
        values = [getattr(row, key) for row in rows]
        return None if all(value is None for value in values) else tuple(silent if v is None else v for v in values)

    weight, target = given("weight", 1.0), given("target", -1)
    if weight is not None and not sum(weight) > 0:
        raise top.at("jobs[0].weight").error("all weights are 0", "give some job a weight above 0")
    if target is not None and sorted(target) != list(range(len(rows))):
        raise top.at("jobs[0].target").error("the targets are no places", "number the jobs from 0, each number once")
    return {
        "tenants": given("tenant", ""),
        "weight": weight,
        "deadline": given("deadline", math.inf),
        "target": target,
    }


class TableSchedules:
    """Reads schedules over one job table.

    Args:
        table: the table.
    """

    def __init__(self, table: JobTable) -> None:
        self.table = table
        self._jobs = _numbered(table.jobs)
        self._accelerators = _numbered(table.accelerators)
        edges = [(p, j) for j, before in enumerate(table.predecessors) for p in before]
        self._before, self._after = np.asarray(edges, int).reshape(-1, 2).T

    def read(self, value: object, at: Place) -> tuple[np.ndarray, np.ndarray]:
        """Order and accelerator of all jobs, `[N]` int each; raises InputError if the schedule breaks a rule.

        Args:
            value: the schedule as plain JSON data.
            at: its place, for error messages.
        """
        refuse_misspelt(value, OrderForm, file=at.file, where=at.path)
        sound = self._sound(value)
        return self._checked(value, at) if sound is None else sound

    def _sound(self, value: object) -> tuple[np.ndarray, np.ndarray] | None:
        """Fast path: a valid schedule of numbers whose order is topological; None for any other, valid or not."""
        if not isinstance(value, dict):
            return None
        rows = [value.get(key) for key in ("order", "accelerator")]
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

    def _checked(self, value: object, at: Place) -> tuple[np.ndarray, np.ndarray]:
        """Like `read`, for any schedule, with full error messages."""
        form, table, jobs = at.form(value, OrderForm), self.table, self._jobs
        own = at.at("accelerator")
        keys, named = self._assigned(form.accelerator, own)
        own.check_length(named, len(jobs), "job")
        at.at("order").check_length(form.order, len(jobs), "job")
        assignment = own.numbers(named, self._accelerators, "accelerator", keys)
        for j, a in enumerate(assignment):
            if not math.isfinite(table.duration[j, a]):
                able = [n for n, d in zip(table.accelerators, table.duration[j], strict=True) if math.isfinite(d)]
                told = f"job {table.jobs[j]!r} cannot run on {table.accelerators[a]!r}"
                raise own.entry(keys[j]).error(told, f"choose {' or '.join(able)}")
        order = at.at("order").numbers(form.order, jobs, "job")
        at.at("order").check_order(order, table.jobs)
        _check_order(at.at("order"), order, assignment, table.predecessors, table.jobs)
        return np.asarray(order, np.int32), np.asarray(assignment, np.int32)

    def _assigned(
        self, given: Sequence[int | str] | abc.Mapping[str, int | str], at: Place
    ) -> tuple[Sequence[int | str], Sequence[int | str]]:
        """Keys of the entries of a schedule's `accelerator`, and these entries, in the order of the jobs."""
        if not isinstance(given, abc.Mapping):
            return range(len(given)), given
        for name in given:
            if name not in self._jobs:
                raise at.at(name).error(f"there is no job {name!r}", suggestion(name, list(self._jobs), "the jobs are"))
        lost = next((name for name in self._jobs if name not in given), None)
        if lost is not None:
            raise at.error(f"does not say where job {lost!r} runs", "name an accelerator for every job")
        return list(self._jobs), [given[name] for name in self._jobs]


Placed: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Order and accelerator of all jobs, `[N]` int each."""


def table_schedules(document: abc.Mapping[str, object], table: JobTable, file: object) -> list[Entry[Placed]]:
    """The schedules of a `job-table/1` document over its table: name, and the checked schedule or its error."""
    if document.get("schedules") is None:
        return []
    return list(entries_of(document, "schedules", file, TableSchedules(table).read))


def _table_entries(document: abc.Mapping[str, object], file: object) -> tuple[JobTable, list[Entry[Placed]]]:
    """The table of a document and the schedules over it; raises InputError if the document has no schedules."""
    table = read_job_table(document, file)
    if document.get("schedules") is None:
        raise Place(file, "schedules").error("is missing", "add the schedules to evaluate")
    return table, table_schedules(document, table, file)


def _evaluate_job_table(
    document: abc.Mapping[str, object], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, object], dict[str, object]]:
    table, entries = _table_entries(document, file)
    good = [(name, *one) for name, one in entries if not isinstance(one, InputError)]
    sound: list[dict[str, object]] = []
    if good:
        names, orders, assignments = zip(*good, strict=True)
        objectives, found = evaluate_table(
            table, np.array(orders), np.array(assignments), float32=float32, timelines=timelines
        )
        for i, name in enumerate(names):
            if objectives.reason[i] != DONE:
                sound.append(_broken(name, unfinished(int(objectives.reason[i]), float32)) | {"energy_J": None})
                continue
            energy = None if table.energy is None else float(objectives.energy[i])
            row: dict[str, object] = {"name": name, "makespan": float(objectives.makespan[i]), "energy_J": energy}
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
            sound.append(row)
    each = iter(sound)
    rows = [
        _broken(name, one.reason) | {"energy_J": None} if isinstance(one, InputError) else next(each)
        for name, one in entries
    ]
    result = {"format": JOB_TABLE_FORMAT, "time_unit": table.time_unit, "schedules": rows}
    return result, {"schedules": len(rows), "jobs": len(good) * len(table.jobs)}


# ---------------------------------------------------------------- schedules as arrays


@shown_briefly
@dataclasses.dataclass(frozen=True)
class ScheduleFile:
    """Schedules of a `fluid-schedule/1` or `job-table/1` file as arrays, checked but not simulated.

    Attributes:
        names: N names, in input order.
        arguments: arguments of `simulate` by name, `[N, ...]` NumPy arrays, floats as float64, padded to a common size.
        jobs: number of jobs of each schedule; the rest of the arrays is padding.
        table: the job table, if the file has one.
    """

    names: tuple[str, ...]
    arguments: dict[str, np.ndarray]
    jobs: tuple[int, ...]
    table: JobTable | None = None

    def __len__(self) -> int:
        """Number of schedules."""
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """The arguments of `simulate` for the schedule at an index."""
        return {name: values[index] for name, values in self.arguments.items()}


def schedule_arrays(document: abc.Mapping[str, object], file: object) -> ScheduleFile:
    """The schedules of a `fluid-schedule/1` or `job-table/1` document.

    Raises:
        InputError: the document breaks its format, or holds no schedules.
    """
    table = None
    if document["format"] == FLUID_FORMAT:
        names, cases = sound_entries(_cases(document, file))
    else:
        table, entries = _table_entries(document, file)
        names, placed = sound_entries(entries)
        cases = []
        for order, where in placed:
            on = np.arange(len(table.jobs)), np.asarray(where, int)
            cases.append(
                _Case(
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
    parameters = list(inspect.signature(simulate).parameters)
    return ScheduleFile(
        names=tuple(names),
        arguments=dict(zip(parameters, columns, strict=True)),
        jobs=jobs,
        table=table,
    )


# ---------------------------------------------------------------- dispatch

SCHEDULE_READERS: dict[
    str, Callable[[abc.Mapping[str, object], object, bool, bool], tuple[dict[str, object], dict[str, object]]]
] = {
    FLUID_FORMAT: _evaluate_fluid,
    JOB_TABLE_FORMAT: _evaluate_job_table,
}
"""The function that evaluates documents of each format: (document, file, float32, timelines) -> (result, summary)."""


def evaluate_schedules(
    path: str | pathlib.Path,
    out: str | pathlib.Path | None = None,
    *,
    float32: bool = False,
    timelines: bool = False,
    ending: str = "json",
    complain: Callable[[str], None] | None = None,
    document: dict[str, Any] | None = None,
) -> dict[str, object]:
    """Evaluates the schedules of a file, in double precision by default.

    A broken schedule becomes a row with the reason.

    Args:
        path: a JSON or JSON lines file in one of the formats of `SCHEDULE_READERS`.
        out: file for the result, written atomically; standard output for None and `-`.
        float32: compute in single precision.
        timelines: also write when and by what each job is slowed (and when it runs, for job tables).
        ending: `json`; `jsonl`, a line per schedule; or `csv`, which has no times of jobs.
        complain: called with one line for every broken schedule.
        document: the result of `read_document` for the file; read here by default.

    Returns:
        A summary: `format`, number of `schedules`, number of `jobs` of valid schedules, `precision`, and `broken`, the
        number of broken schedules, if there are any.

    Raises:
        InputError: the file cannot be read, has an unknown format or breaks its format, or `out` is that file or
            cannot be written.
    """
    keep_inputs(out, [path])
    content: dict[str, Any] = read_document(path) if document is None else document
    name = check_format(content, SCHEDULE_READERS, path)
    result, counts = SCHEDULE_READERS[name](content, path, float32, timelines)
    rows: Any = result[ENTRIES[name]]
    broken = [row["reason"] for row in rows if "reason" in row]
    columns: list[str] = []
    if ending == "csv":
        more = [column for column in ("energy_J", "reason") if any(column in row for row in rows)]
        columns = ["name", "makespan", *more]
        rows = [{column: row.get(column) for column in columns} for row in rows]
    head = {key: value for key, value in result.items() if key != ENTRIES[name]}
    text = rows_text(rows, ending, head, ENTRIES[name], columns)
    if out is None or str(out) == "-":
        sys.stdout.write(text)
    else:
        write_instead(out, text)
    if complain is not None:
        for reason in broken:
            complain(f"{path}: {reason}")
    counts |= {"broken": len(broken)} if broken else {}
    return {"format": name, **counts, "precision": "float32" if float32 else "float64"}
