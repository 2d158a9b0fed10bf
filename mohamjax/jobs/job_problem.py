"""The job scheduling problem of G#: encoding, decoding, objectives.

Axes: I islands (problems or seeds side by side), P schedules, J jobs (padded), A accelerators (padded), M objectives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.jobs.shared_link import PRIORITY_LEVELS, link_ends, link_fits, link_makespan
from mohamjax.jobs.table import JobTable, check_some_jobs
from mohamjax.runtime.struct import record
from mohamjax.schedule.fluid import padded_jobs

OBJECTIVES = ("makespan", "energy", "edp", "unsatisfied", "tardiness", "mean-end", "lateness", "missed")
"""Names of the objectives, see `evaluate`."""

TIMES = frozenset(("makespan", "tardiness", "mean-end", "lateness"))
"""Objectives that are times, in the unit of the table; `edp` is an energy times one."""

COUNTS = frozenset(("unsatisfied", "missed"))
"""Objectives that are numbers of jobs, or shares of them, and take few values."""


@record
class JobGenes:
    """One schedule: both genomes of G# (Section 4.2.2).

    Attributes:
        accelerator: `[J]` int32, where each job runs; always one that can run it.
        priority: `[J]` float in [0, 1); among the jobs of an accelerator the smallest runs first.
    """

    accelerator: jax.Array
    priority: jax.Array


@record
class JobProblem:
    """Jobs and accelerators of a scheduling problem, as padded arrays.

    Attributes:
        duration: `[J, A]` float, no-stall time [time units]; +inf where a job cannot run.
        demand: `[J, A]` float, bytes per time unit that a running job asks for.
        energy: `[J, A]` float [J].
        bandwidth: `[]` float, shared by all accelerators [bytes per time unit].
        informed: `[J, A]` float, running sums of probabilities of the accelerators, inverse to the job's cost there.
            The cost is its share of the accelerators' time plus its stall: the time by which it exceeds its duration
            even with all the bandwidth, which slows all jobs beside it (see `bounds`).
        choices: `[J, A]` int32, accelerators that can run the job, in rising order, then padding.
        count: `[J]` int32, number of accelerators that can run the job.
        accelerators: `[]` int32, number of accelerators without padding.
        mask: `[J]` bool, false for padded jobs.
        weight: `[J]` float, importance of each job.
        deadline: `[J]` float [time units], +inf for none.
        target: `[J]` int32, place at which the job should end among all, from 0.
    """

    duration: jax.Array
    demand: jax.Array
    energy: jax.Array
    bandwidth: jax.Array
    informed: jax.Array
    choices: jax.Array
    count: jax.Array
    accelerators: jax.Array
    mask: jax.Array
    weight: jax.Array
    deadline: jax.Array
    target: jax.Array


def check_size(jobs: int, accelerators: int) -> None:
    """Checks that the closed form of a shared link can take so many jobs and accelerators.

    Raises:
        InputError: there are too many.
    """
    if not link_fits(padded_jobs(jobs), accelerators):
        raise InputError(
            f"{jobs} jobs on {accelerators} accelerators are too many at once",
            item="jobs",
            remedy="schedule batches of at most 1024 jobs on at most 63 accelerators",
        )


def job_problem(
    table: JobTable,
    *,
    jobs: int | None = None,
    accelerators: int | None = None,
    weight: Sequence[float] | np.ndarray | None = None,
    deadline: Sequence[float] | np.ndarray | None = None,
    target: Sequence[int] | np.ndarray | None = None,
    dtype: jax.typing.DTypeLike = jnp.float32,
) -> JobProblem:
    """Arrays of a job table, for search.

    Args:
        table: N independent jobs on accelerators that all share one resource and nothing else.
        jobs: J, at least N (the default).
        accelerators: A, at least the table's (the default).
        weight: `[N]`, default 1 each.
        deadline: `[N]` [time units], default none.
        target: `[N]`, a permutation: place at which each job should end (G#, Section 5.7); default the table's order.
        dtype: float dtype.

    Raises:
        InputError: there are no jobs or too many jobs or accelerators, jobs depend on each other, a job runs nowhere or
            moves bytes in no time, there is not exactly one resource that all accelerators use, another array does not
            have N entries, or `target` is not a permutation.
        ValueError: `jobs` or `accelerators` is too small.
    """
    check_some_jobs(table)
    count, cores = table.duration.shape
    if any(table.predecessors):
        first = next(i for i, before in enumerate(table.predecessors) if before)
        raise InputError(
            "has predecessors; G# schedules independent jobs",
            item=f"job {table.jobs[first]}",
            remedy="leave the dependencies out or search a design",
        )
    if len(table.bandwidth) != 1 or any(tuple(mine) != (0,) for mine in table.resources_of_accelerator):
        raise InputError(
            "G# takes one bandwidth that all accelerators share",
            item="resources",
            remedy="give one resource and let every accelerator use it",
        )
    if np.any((table.duration == 0) & (table.bytes > 0)):
        first = int(np.argwhere((table.duration == 0) & (table.bytes > 0))[0, 0])
        raise InputError(
            "moves bytes in no time", item=f"job {table.jobs[first]}", remedy="give it a duration, or no bytes"
        )
    stuck = np.flatnonzero(~np.isfinite(table.duration).any(axis=1))
    if stuck.size:
        raise InputError(
            "no accelerator can run it",
            item=f"job {table.jobs[stuck[0]]}",
            remedy="give it a finite duration on one, or leave it out",
        )
    wide, deep = cores if accelerators is None else accelerators, count if jobs is None else jobs
    if wide < cores or deep < count:
        raise ValueError(f"{count} jobs on {cores} accelerators do not fit {deep} on {wide}")

    check_size(deep, wide)

    def vector(values, default: float, name: str) -> jax.Array:
        filled = np.full(count, default) if values is None else np.asarray(values, float)
        if filled.shape != (count,):
            told = f"is of the shape {filled.shape}"
            raise InputError(told, argument=name, remedy=f"give one number for each of {count} jobs")
        return jnp.asarray(np.pad(filled, (0, deep - count), constant_values=default), dtype)

    can = np.zeros((deep, wide), bool)
    can[:count, :cores] = np.isfinite(table.duration)
    can[count:, :cores] = True

    def grid(values: np.ndarray | None, default: float) -> jax.Array:
        filled = np.full((deep, wide), default)
        if values is not None:
            filled[:count, :cores] = np.where(np.isfinite(table.duration), values, default)
        return jnp.asarray(filled, dtype)

    with np.errstate(invalid="ignore", divide="ignore"):
        demand = np.where(table.duration > 0, table.bytes / table.duration, 0.0)
    length = np.where(can[:count, :cores], table.duration, 0.0)
    stall = np.maximum(np.where(can[:count, :cores], table.bytes, 0.0) / table.bandwidth[0] - length, 0.0)
    cheap = np.zeros((deep, wide))
    cheap[count:, :cores] = 1.0
    cheap[:count, :cores] = can[:count, :cores] / np.maximum(length / cores + stall, 1e-6 * max(length.max(), 1e-30))
    informed = np.cumsum(cheap / cheap.sum(axis=1, keepdims=True), axis=1)
    places = np.arange(count) if target is None else np.asarray(target, int)
    if places.ndim != 1 or sorted(places.tolist()) != list(range(count)):
        told = "is not an order of the jobs"
        raise InputError(told, argument="target", remedy=f"give each place from 0 to {count - 1} once")
    return JobProblem(
        duration=jnp.where(jnp.asarray(can), grid(table.duration, 0.0), jnp.inf).astype(dtype),
        demand=grid(demand, 0.0),
        energy=grid(table.energy, 0.0),
        bandwidth=jnp.asarray(table.bandwidth[0], dtype),
        informed=jnp.asarray(informed, dtype),
        choices=jnp.asarray(np.argsort(~can, axis=1, kind="stable"), jnp.int32),
        count=jnp.asarray(can.sum(axis=1), jnp.int32),
        accelerators=jnp.int32(cores),
        mask=jnp.arange(deep) < count,
        weight=vector(weight, 1.0, "weight"),
        deadline=vector(deadline, np.inf, "deadline"),
        target=jnp.asarray(np.concatenate([places, np.arange(count, deep)]), jnp.int32),
    )


def decode(unit: jax.Array, problem: JobProblem) -> JobGenes:
    """The schedule that a point of the unit cube encodes, for all optimisers (G#, Section 4.4).

    Args:
        unit: `[..., 2 J]` float; the first half chooses among the accelerators that can run each job, the second half
            holds the priorities. Values outside [0, 1) are clipped.
        problem: the problem.

    Returns:
        Genes `[..., J]`.
    """
    assign, priority = jnp.split(jnp.clip(unit, 0, 1 - 2.0**-17), 2, axis=-1)
    pick = jnp.minimum((assign * problem.count).astype(jnp.int32), problem.count - 1)
    accelerator = jnp.take_along_axis(problem.choices, pick.reshape(-1, pick.shape[-1]).T, axis=1).T
    return JobGenes(
        accelerator=accelerator.reshape(pick.shape),
        priority=jnp.floor(priority * PRIORITY_LEVELS) / PRIORITY_LEVELS,
    )


def informed_accelerator(unit: jax.Array, problem: JobProblem) -> jax.Array:
    """An accelerator for each job, `[J]` int32, drawn by `JobProblem.informed` from uniform numbers `[J]`."""
    # Rounding of the running sums may pick an accelerator that does not exist or cannot run the job.
    pick = jnp.minimum(jnp.sum(problem.informed <= unit[:, None], axis=1), problem.duration.shape[1] - 1)
    able = jnp.take_along_axis(problem.duration, pick[:, None], axis=1)
    return jnp.where(jnp.isfinite(able[:, 0]), pick, problem.choices[:, 0]).astype(jnp.int32)


def _finish_place(end: jax.Array, mask: jax.Array) -> jax.Array:
    """`[P, J]` int32: number of jobs that end before each job, ties by number."""
    order = jnp.argsort(jnp.where(mask, end, jnp.inf), axis=-1, stable=True)
    return jnp.argsort(order, axis=-1).astype(jnp.int32)


def evaluate(genes: JobGenes, problem: JobProblem, objectives: Sequence[str] = ("makespan",)) -> jax.Array:
    """Objectives of P schedules; pure, callers jit and vmap over problems.

    - `makespan`: the latest end [time units];
    - `energy`: sum over the jobs [J];
    - `edp`: energy times makespan;
    - `unsatisfied`: 1 - SAT (Section 5.7): the share of jobs whose place among all ends is at least A away from their
      target, where A is the number of accelerators. (The paper defines SAT by a figure, from the two orders and the two
      numbers; this is our reading of it.)
    - `tardiness`: sum over the jobs of weight times the time by which they miss their deadline;
    - `mean-end`: weighted mean of the ends [time units], for tenants with priorities;
    - `lateness`: the largest difference of end and deadline [time units], negative if all are early, 0 without any
      deadline;
    - `missed`: number of jobs that end after their deadline.

    Args:
        genes: `[P, J]`.
        problem: the problem.
        objectives: names in `OBJECTIVES`, static.

    Returns:
        `[P, M]` float, smaller is better.
    """
    arguments = (
        genes.accelerator,
        genes.priority,
        problem.duration,
        problem.demand,
        problem.bandwidth,
        problem.mask,
    )
    energy = jnp.sum(
        jnp.where(problem.mask, problem.energy[jnp.arange(problem.mask.shape[0]), genes.accelerator], 0.0), axis=-1
    )
    if {"unsatisfied", "tardiness", "mean-end", "lateness", "missed"} & set(objectives):
        end = link_ends(*arguments)
        makespan = jnp.max(end, axis=-1)
        late = jnp.where(problem.mask, problem.weight * jnp.maximum(end - problem.deadline, 0.0), 0.0)
        away = jnp.abs(_finish_place(end, problem.mask) - problem.target) >= problem.accelerators
        due = problem.mask & jnp.isfinite(problem.deadline)
        latest = jnp.max(jnp.where(due, end - jnp.where(due, problem.deadline, 0.0), -jnp.inf), axis=-1)
        share = problem.weight / jnp.sum(jnp.where(problem.mask, problem.weight, 0.0))
        values = {
            "unsatisfied": jnp.sum(away & problem.mask, axis=-1) / jnp.sum(problem.mask),
            "tardiness": jnp.sum(late, axis=-1),
            "mean-end": jnp.sum(jnp.where(problem.mask, share * end, 0.0), axis=-1),
            "lateness": jnp.where(jnp.any(due), latest, 0.0),
            "missed": jnp.sum(due & (end > problem.deadline), axis=-1),
        }
    else:
        makespan, values = link_makespan(*arguments), {}
    values |= {"makespan": makespan, "energy": energy, "edp": energy * makespan}
    return jnp.stack([values[name].astype(makespan.dtype) for name in objectives], axis=-1)


@functools.cache
def objective_names(text: str) -> tuple[str, ...]:
    """Objectives from a comma-separated list.

    Raises:
        InputError: the list is empty, a name is unknown, or a name occurs twice.
    """
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    check_objectives(names)
    return names


def check_objectives(names: tuple[str, ...]) -> None:
    """Checks that objectives are a tuple of distinct names.

    Raises:
        InputError: they are none, a name is unknown, or a name occurs twice.
    """
    if not isinstance(names, tuple):
        told = f"are of type {type(names).__name__}"
        raise InputError(told, argument="objectives", remedy="give a tuple of names")
    unknown = [name for name in names if name not in OBJECTIVES]
    if not names or unknown or len(set(names)) < len(names):
        what = f"{unknown[0]!r} is not known" if unknown else "one is named twice" if names else "none is named"
        raise InputError(what, item="objective", remedy=f"name {', '.join(OBJECTIVES)}; several separated by commas")
