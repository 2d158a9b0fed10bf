"""Schedules over a table of costs, format `job-table/1` (`io.schedules`): read, evaluated, and written."""

from __future__ import annotations

import math
from collections import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET

from mohamjax.errors import InputError
from mohamjax.forms import read_form, refuse_misspelt
from mohamjax.io.entries import Entry, Place, entries_of, without_entries
from mohamjax.io.formats import JOB_TABLE_FORMAT
from mohamjax.io.forms import JobForm, JobTableForm, OrderForm
from mohamjax.io.schedule_rows import (
    broken_row,
    check_deadlock,
    read_predecessors,
    refuse_instant_traffic,
    slowed_rows,
    unfinished,
    unlimited,
)
from mohamjax.jobs.table import JobTable, evaluate_table
from mohamjax.reader import suggestion
from mohamjax.schedule.fluid import DONE
from mohamjax.schedule.segments import segments


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
        refuse_instant_traffic(at.at("duration").entry, duration[j], traffic[j])
    return JobTable(
        jobs=tuple(jobs),
        accelerators=tuple(row.name for row in form.accelerators),
        duration=duration,
        bytes=traffic,
        energy=None if silent else energy,
        predecessors=read_predecessors(
            [row.predecessors for row in form.jobs],
            jobs,
            [top.at(f"jobs[{j}].predecessors") for j in range(len(jobs))],
        ),
        resources=tuple(resources),
        bandwidth=tuple(unlimited(row.bandwidth) for row in form.resources),
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
        check_deadlock(at.at("order"), order, assignment, table.predecessors, table.jobs)
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


def table_entries(document: abc.Mapping[str, object], file: object) -> tuple[JobTable, list[Entry[Placed]]]:
    """The table of a document and the schedules over it; raises InputError if the document has no schedules."""
    table = read_job_table(document, file)
    if document.get("schedules") is None:
        raise Place(file, "schedules").error("is missing", "add the schedules to evaluate")
    return table, table_schedules(document, table, file)


def evaluate_job_table(
    document: abc.Mapping[str, object], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, object], dict[str, object]]:
    """Evaluates a document; see `io.schedules.SCHEDULE_READERS`."""
    table, entries = table_entries(document, file)
    good = [(name, *one) for name, one in entries if not isinstance(one, InputError)]
    sound: list[dict[str, object]] = []
    if good:
        names, orders, assignments = zip(*good, strict=True)
        objectives, found = evaluate_table(
            table, np.array(orders), np.array(assignments), float32=float32, timelines=timelines
        )
        for i, name in enumerate(names):
            if objectives.reason[i] != DONE:
                sound.append(broken_row(name, unfinished(int(objectives.reason[i]), float32)) | {"energy_J": None})
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
                    "slowed": slowed_rows(seen, table.resources),
                }
            sound.append(row)
    each = iter(sound)
    rows = [
        broken_row(name, one.reason) | {"energy_J": None} if isinstance(one, InputError) else next(each)
        for name, one in entries
    ]
    result = {"format": JOB_TABLE_FORMAT, "time_unit": table.time_unit, "schedules": rows}
    return result, {"schedules": len(rows), "jobs": len(good) * len(table.jobs)}
