"""Schedules with stated costs, format `fluid-schedule/1` (`io.schedules`): read, simulated, and written."""

from __future__ import annotations

import dataclasses
import functools
from collections import abc
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.forms import read_form
from mohamjax.io.entries import Entry, Place, entries_of, without_entries
from mohamjax.io.formats import FLUID_FORMAT
from mohamjax.io.forms import CaseForm, FluidForm
from mohamjax.io.schedule_rows import (
    answered,
    check_deadlock,
    makespans,
    read_predecessors,
    refuse_instant_traffic,
    simulated,
    slowed_rows,
    unlimited,
)
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.devices import Devices
from mohamjax.schedule.fluid import Timeline, predecessor_bits, simulate, split_resources
from mohamjax.schedule.segments import segments


@dataclasses.dataclass(frozen=True)
class Case:
    """One schedule with stated costs: J jobs, A accelerators, R resources.

    Attributes:
        duration: `[J]` float.
        bytes: `[J]` float.
        predecessors: per job.
        accelerator: `[J]` int32.
        order: `[J]` int32, all jobs by priority.
        resources: R names.
        bandwidth: `[R]` float.
        resources_of_accelerator: per accelerator.
    """

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


def _case(form: CaseForm, at: Place) -> Case:
    count, uses = len(form.duration), form.resources_of_accelerator
    for key, stated, length in (("jobs", form.jobs, count), ("accelerators", form.accelerators, len(uses))):
        if stated not in (None, length):
            raise at.at(key).error(f"is {stated}, but {length} are listed", "correct the number or the lists")
    bandwidth = [unlimited(rate) for rate in form.resource_bandwidth]
    names = [str(i) for i in range(len(bandwidth))] if form.resource_names is None else form.resource_names
    at.at("resource_names").check_length(names, len(bandwidth), "resource")
    at.at("resource_names").check_names(names, "")
    for key in ("bytes", "predecessors", "accelerator", "order"):
        at.at(key).check_length(getattr(form, key), count, "job")
    duration, traffic = np.array(form.duration, float), np.array(form.bytes, float)
    refuse_instant_traffic(at.at("duration").entry, duration, traffic)
    predecessors = read_predecessors(form.predecessors, count, [at.at(f"predecessors[{i}]") for i in range(count)])
    accelerator = at.at("accelerator").numbers(form.accelerator, len(uses), "accelerator")
    order = at.at("order").numbers(form.order, count, "job")
    at.at("order").check_order(order, range(count))
    check_deadlock(at.at("order"), order, accelerator, predecessors, range(count))
    return Case(
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


def read_case(value: object, at: Place) -> Case:
    """Reads one case of a `fluid-schedule/1` document at a place in a file; raises InputError."""
    return _case(at.form(value, CaseForm), at)


def fluid_cases(document: abc.Mapping[str, object], file: object) -> Iterator[Entry[Case]]:
    """The cases of a `fluid-schedule/1` document, each with its name; a broken one is its error."""
    read_form(without_entries(document, "cases"), FluidForm, file=file)
    return entries_of(document, "cases", file, read_case)


def simulate_cases(
    cases: Sequence[Case], block: int, *, float32: bool = False, devices: Devices | None = None
) -> tuple[np.ndarray, list[str]]:
    """Makespans of cases and why a case never ends, computed in blocks of one size over the devices.

    Returns:
        `[n]` float, NaN for a case that never ends, and n reasons, empty for the others.
    """
    return makespans(_timelines(cases, float32, block, devices), float32)


_simulate_cases = jax.jit(lambda cases: jax.vmap(simulate)(*cases))


def stacked_cases(cases: Sequence[Case], jobs: int, dtype: npt.DTypeLike) -> list[np.ndarray]:
    """The arguments of `simulate`, in its order, with a leading axis of cases, padded to a common size."""
    accelerators = power_of_two(max(len(case.resources_of_accelerator) for case in cases))
    resources = power_of_two(max(case.shared for case in cases))
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


def _timelines(
    cases: Sequence[Case], float32: bool, block: int | None = None, devices: Devices | None = None
) -> list[Timeline]:
    """Timelines of cases, see `simulated`, in blocks of one size if that is given."""
    program = _simulate_cases if devices is None else devices.over(_simulate_cases)

    def simulate(own: Sequence[Case], jobs: int, dtype: npt.DTypeLike) -> Timeline:
        return program(tuple(map(jnp.asarray, stacked_cases(own, jobs, dtype))))

    return simulated(
        cases, lambda case: len(case.duration), simulate, lambda own, _: block or len(own), float32=float32
    )


def evaluate_fluid(
    document: abc.Mapping[str, object], file: object, float32: bool, timelines: bool
) -> tuple[dict[str, object], dict[str, object]]:
    """Evaluates a document; see `io.schedules.SCHEDULE_READERS`."""
    entries = list(fluid_cases(document, file))
    cases = [case for _, case in entries if isinstance(case, Case)]
    rows = answered(entries, _timelines(cases, float32), functools.partial(_answer, timelines=timelines), float32)
    return {"format": FLUID_FORMAT, "cases": rows}, {
        "schedules": len(rows),
        "jobs": sum(len(c.duration) for c in cases),
    }


def _answer(case: Case, timeline: Timeline, timelines: bool) -> dict[str, object]:
    count = len(case.duration)
    start, end = np.asarray(timeline.start[:count]), np.asarray(timeline.end[:count])
    row: dict[str, object] = {"start": start.tolist(), "end": end.tolist(), "makespan": float(timeline.makespan)}
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
        row |= {"stall": timeline.stall[:count].tolist(), "slowed": slowed_rows(seen, case.resources)}
    return row
