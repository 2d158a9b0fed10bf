"""Job tables: costs of every job on every accelerator, and the evaluation of many schedules over one table.

This is the view of the scheduler (G#): it does not know layers, mappings or packages, only durations, bytes and
energies per job and accelerator, dependencies, and the bandwidths that the accelerators share.

Axes: N jobs, J jobs padded, A accelerators, R shared resources, P schedules.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.struct import record, shown_briefly
from mohamjax.schedule.fluid import (
    Jobs,
    Resources,
    Timeline,
    padded_jobs,
    predecessor_bits,
    split_resources,
    timeline_of,
)


@shown_briefly
@dataclasses.dataclass(frozen=True, eq=False)
class JobTable:
    """Jobs, accelerators and the resources between accelerators and memory.

    Attributes:
        jobs: names of the N jobs.
        accelerators: names of the A accelerators.
        duration: `[N, A]` float64 of at least 0, no-stall time of a job on an accelerator [time units]; +inf where it
            cannot run. Like the other arrays, it may be given as lists of numbers.
        bytes: `[N, A]` float64, finite and at least 0, off-chip traffic of the job [bytes]; ignored where it cannot
            run.
        energy: `[N, A]` float64, finite and at least 0 [J], ignored where the job cannot run; None where energies are
            not known.
        predecessors: for each job the indices of the jobs that must have ended before it starts.
        resources: names of the R resources.
        bandwidth: of each resource [bytes per time unit], +inf for unlimited.
        resources_of_accelerator: for each accelerator the indices of the resources that all its traffic passes.
        time_unit: "cycles" or "s".
        tenants: tenant of each job, "" for none; None if no job has one.
        weight: importance of each job, or None for 1 each.
        deadline: deadline of each job [time units], +inf for none; None if no job has one.
        target: place at which each job should end, a permutation, or None for the order of the table.
    """

    jobs: tuple[str, ...]
    accelerators: tuple[str, ...]
    duration: np.ndarray
    bytes: np.ndarray
    energy: np.ndarray | None
    predecessors: tuple[tuple[int, ...], ...]
    resources: tuple[str, ...]
    bandwidth: tuple[float, ...]
    resources_of_accelerator: tuple[tuple[int, ...], ...]
    time_unit: str = "cycles"
    tenants: tuple[str, ...] | None = None
    weight: tuple[float, ...] | None = None
    deadline: tuple[float, ...] | None = None
    target: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Makes arrays of the numbers, checks them, and that the shapes agree; raises ValueError."""
        shape = (len(self.jobs), len(self.accelerators))
        for name in ("duration", "bytes", "energy"):
            given = getattr(self, name)
            if given is None and name == "energy":
                continue
            try:
                array = np.asarray(given, float)
            except (TypeError, ValueError):
                remedy = "give a number for each job on each accelerator"
                raise InputError("is no array of numbers", argument=name, remedy=remedy) from None
            if array.shape != shape:
                raise ValueError(f"{name} has the shape {array.shape}, expected {shape} (jobs, accelerators)")
            object.__setattr__(self, name, array)
        self._check_numbers()
        for name in ("tenants", "weight", "deadline", "target"):
            given = getattr(self, name)
            if given is not None and len(given) != shape[0]:
                raise ValueError(f"{name} has {len(given)} entries, expected one for each of {shape[0]} jobs")
        if len(self.predecessors) != shape[0]:
            raise ValueError(
                f"predecessors has {len(self.predecessors)} entries, expected one for each of {shape[0]} jobs"
            )
        if len(self.resources_of_accelerator) != shape[1]:
            raise ValueError(
                f"resources_of_accelerator has {len(self.resources_of_accelerator)} entries, "
                f"expected one for each of {shape[1]} accelerators"
            )
        if len(self.bandwidth) != len(self.resources):
            raise ValueError(f"bandwidth has {len(self.bandwidth)} entries, expected {len(self.resources)}")
        for name, bandwidth in zip(self.resources, self.bandwidth, strict=True):
            if not bandwidth > 0:
                raise InputError(
                    f"has the bandwidth {bandwidth}", item=f"resource {name}", remedy="give a number above 0"
                )
        if self.time_unit not in ("cycles", "s"):
            raise ValueError(f"time_unit is {self.time_unit!r}, expected 'cycles' or 's'")

    def _check_numbers(self) -> None:
        """Raises InputError for a number that a job cannot have, with the job and the accelerator."""
        cannot_run = np.isposinf(self.duration)
        for name in ("duration", "bytes", "energy"):
            array = getattr(self, name)
            if array is None:
                continue
            good = (array >= 0) & np.isfinite(array) | cannot_run
            if not good.all():
                j, a = np.argwhere(~good)[0]
                where = f"job {self.jobs[j]} on {self.accelerators[a]}"
                beside = ", or inf where it cannot run" if name == "duration" else ""
                remedy = f"give a finite number of at least 0{beside}"
                raise InputError(f"has the {name} {array[j, a]:g}", item=where, remedy=remedy)


def check_some_jobs(table: JobTable) -> None:
    """Checks that a table has jobs to schedule.

    Raises:
        InputError: it has none.
    """
    if not table.jobs:
        raise InputError("there are none to schedule", item="jobs", remedy="give at least one")


@record
class JobArrays:
    """A job table as padded arrays, for tracing; made by `job_arrays`.

    Attributes:
        duration: `[J, A]` float [time units], +inf where a job cannot run, 0 for padded jobs.
        bytes: `[J, A]` float.
        energy: `[J, A]` float [J]; 0 where the table has none.
        predecessor_bits: `[J, W]` uint32, predecessors of each job as a bit mask.
        shared_uses: `[A, R]` bool, true where an accelerator uses a shared resource.
        shared_bandwidth: `[R]` float [bytes per time unit].
        private_bandwidth: `[A]` float [bytes per time unit].
        job_mask: `[J]` bool, false for padded jobs.
    """

    duration: jax.Array
    bytes: jax.Array
    energy: jax.Array
    predecessor_bits: jax.Array
    shared_uses: jax.Array
    shared_bandwidth: jax.Array
    private_bandwidth: jax.Array
    job_mask: jax.Array


class JobObjectives(NamedTuple):
    """Objectives of a schedule.

    Attributes:
        makespan: `[]` float, the latest end [time units]; +inf unless every job ends.
        energy: `[]` float, sum over the jobs [J].
        reason: `[]` int32, 0 if every job ends, else why not, see `fluid.REASONS`.
    """

    makespan: jax.Array
    energy: jax.Array
    reason: jax.Array


def job_arrays(table: JobTable, jobs: int | None = None, dtype: jax.typing.DTypeLike = jnp.float32) -> JobArrays:
    """Arrays of a table.

    Args:
        table: the table.
        jobs: J, at least the number of jobs; default the next multiple of 32, so that tables of nearly equal size
            share one compiled program.
        dtype: float dtype.

    Raises:
        ValueError: `jobs` is too small.
    """
    count = len(table.jobs)
    padded = padded_jobs(count) if jobs is None else jobs
    bits = predecessor_bits(table.predecessors, padded)
    uses, shared, private = split_resources(table.resources_of_accelerator, table.bandwidth)

    def pad(array: np.ndarray) -> jax.Array:
        return jnp.asarray(np.pad(array, [(0, padded - count), (0, 0)]), dtype)

    can_run = np.isfinite(table.duration)
    return JobArrays(
        duration=pad(np.where(can_run, table.duration, np.inf)),
        bytes=pad(np.where(can_run, table.bytes, 0.0)),
        energy=pad(np.where(can_run, 0.0 if table.energy is None else table.energy, 0.0)),
        predecessor_bits=jnp.asarray(bits),
        shared_uses=jnp.asarray(uses),
        shared_bandwidth=jnp.asarray(shared, dtype),
        private_bandwidth=jnp.asarray(private, dtype),
        job_mask=jnp.arange(padded) < count,
    )


def _on(values: jax.Array, accelerator: jax.Array) -> jax.Array:
    """Entries `[J]` of a `[J, A]` table, those of each job's accelerator."""
    return jnp.take_along_axis(values, accelerator[:, None], axis=1)[:, 0]


def _scheduled(order: jax.Array, accelerator: jax.Array, arrays: JobArrays) -> tuple[Jobs, Resources]:
    """A schedule as input of the fluid model."""
    jobs = Jobs(
        duration=_on(arrays.duration, accelerator),
        bytes=_on(arrays.bytes, accelerator),
        predecessor_bits=arrays.predecessor_bits,
        accelerator=accelerator,
        order=order,
        job_mask=arrays.job_mask,
    )
    return jobs, Resources(arrays.shared_uses, arrays.shared_bandwidth, arrays.private_bandwidth)


def _energy(accelerator: jax.Array, arrays: JobArrays) -> jax.Array:
    return jnp.sum(jnp.where(arrays.job_mask, _on(arrays.energy, accelerator), 0.0))


def job_timeline(order: jax.Array, accelerator: jax.Array, arrays: JobArrays) -> Timeline:
    """Start and end of every job of one schedule; pure, callers vmap and jit.

    Args:
        order: `[J]` int32, permutation of all jobs by priority, with padded jobs anywhere.
        accelerator: `[J]` int32 in 0..A-1, where each job runs (any for padded jobs).
        arrays: the table.

    Returns:
        The timeline, which never ends if a job is on an accelerator that cannot run it.
    """
    return timeline_of(*_scheduled(order, accelerator, arrays))


@functools.cache
def _compiled(timelines: bool, devices: Devices | None = None):
    def one(order, accelerator, arrays):
        timeline = job_timeline(order, accelerator, arrays)
        objectives = JobObjectives(timeline.makespan, _energy(accelerator, arrays), timeline.reason)
        return objectives, timeline if timelines else None

    def many(schedules, arrays):
        order, accelerator = schedules
        return jax.vmap(one, in_axes=(0, 0, None))(order, accelerator, arrays)

    return jax.jit(many) if devices is None else devices.over(many)


def evaluate_table(
    table: JobTable,
    order: np.ndarray,
    accelerator: np.ndarray,
    *,
    float32: bool = False,
    timelines: bool = False,
    devices: Devices | None = None,
) -> tuple[JobObjectives, Timeline | None]:
    """Evaluates many schedules over one table in one compiled call.

    Recompiles per number of schedules, accelerators and shared resources, per number of jobs in steps of 32, and per
    precision.

    Args:
        table: the table.
        order: `[P, N]` int, all jobs by priority.
        accelerator: `[P, N]` int, where each job runs.
        float32: single instead of double precision.
        timelines: also return start and end of each job.
        devices: devices that share the schedules; their number divides P.

    Returns:
        Objectives `[P]` and, if asked for, timelines `[P, N]`, as NumPy arrays.
    """
    count = len(table.jobs)
    with jax.enable_x64(not float32):
        arrays = job_arrays(table, dtype=jnp.float32 if float32 else jnp.float64)
        padded = arrays.job_mask.shape[0]
        order = np.asarray(order, np.int32).reshape(-1, count)
        rest = np.broadcast_to(np.arange(count, padded, dtype=np.int32), (len(order), padded - count))
        where = np.pad(np.asarray(accelerator, np.int32).reshape(-1, count), [(0, 0), (0, padded - count)])
        schedules = jnp.asarray(np.concatenate([order, rest], axis=1)), jnp.asarray(where)
        objectives, found = _compiled(timelines, devices)(schedules, arrays)
        objectives, found = jax.tree.map(np.asarray, (objectives, found))
    if found is not None:
        found = dataclasses.replace(
            found, start=found.start[:, :count], end=found.end[:, :count], stall=found.stall[:, :count]
        )
    return objectives, found
