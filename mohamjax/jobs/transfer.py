"""Knowledge transfer of G# (Section 4.3): the schedule of one batch, by rank, as a start for another.

Jobs are ranked by their mean no-stall latency over the accelerators, the longest first. What is kept of a schedule is
the accelerator and the priority of every rank; a new batch of as many jobs takes them over rank by rank.

Axes: N jobs, A accelerators.
"""

from __future__ import annotations

import dataclasses
import time
from collections import abc
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mohamjax.errors import InputError
from mohamjax.jobs.config import JobGoals, JobSearchConfig
from mohamjax.jobs.heuristics import Plan, mean_durations
from mohamjax.jobs.scheduler import JobFront, JobSchedule, evaluate_plans
from mohamjax.jobs.table import JobTable


class RankedSchedule(NamedTuple):
    """A schedule of ranks.

    Attributes:
        accelerator: `[N]` int32, where the job of each rank runs.
        place: `[N]` int32, its place in the order of all jobs.
    """

    accelerator: np.ndarray
    place: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Transfer:
    """A schedule of ranks, and where it comes from.

    Attributes:
        ranked: the schedule.
        accelerators: A names, of the accelerators that its numbers mean.
        batch: the jobs that it was learnt on, in words.
        method: that found it.
        objectives: what it reached there, by name.
        time_unit: of these, "cycles" or "s".
    """

    ranked: RankedSchedule
    accelerators: tuple[str, ...]
    batch: str
    method: str
    objectives: abc.Mapping[str, float]
    time_unit: str


def _by_rank(table: JobTable) -> np.ndarray:
    """`[N]`, jobs by falling mean latency, ties by number."""
    return np.argsort(-mean_durations(table.duration), kind="stable")


def ranked_schedule(table: JobTable, plan: Plan) -> RankedSchedule:
    """What is kept of a plan of this table."""
    jobs = _by_rank(table)
    place = np.empty(len(jobs), np.int32)
    place[plan.order] = np.arange(len(jobs))
    return RankedSchedule(plan.accelerator[jobs], place[jobs])


def apply_ranked(table: JobTable, kept: RankedSchedule) -> Plan:
    """A plan of another table by a kept schedule.

    Where a job cannot run on the accelerator of its rank, it goes where it is fastest.

    Args:
        table: as many jobs and accelerators as the schedule was kept for.
        kept: the schedule of ranks.

    Raises:
        ValueError: the numbers of jobs differ, or an accelerator does not exist.
    """
    count, cores = table.duration.shape
    if len(kept.place) != count or (count and kept.accelerator.max() >= cores):
        raise ValueError(
            f"the kept schedule is of {len(kept.place)} jobs; the table has {count} on {cores} accelerators"
        )
    jobs = _by_rank(table)
    accelerator = np.empty(count, np.int32)
    accelerator[jobs] = kept.accelerator
    able = np.isfinite(table.duration[np.arange(count), accelerator])
    accelerator = np.where(able, accelerator, table.duration.argmin(axis=1)).astype(np.int32)
    return Plan(accelerator, jobs[np.argsort(kept.place)].astype(np.int32))


def transfer_of(table: JobTable, schedule: JobSchedule, batch: str, objectives: Sequence[str]) -> Transfer:
    """What is kept of a schedule, with where it comes from.

    Args:
        table: the jobs that it schedules.
        schedule: any method's.
        batch: the jobs, in words.
        objectives: names of the values that are kept.
    """
    return Transfer(
        ranked=ranked_schedule(table, schedule.plan),
        accelerators=table.accelerators,
        batch=batch,
        method=schedule.method,
        objectives={name: schedule.objectives[name] for name in objectives},
        time_unit=table.time_unit,
    )


def direct_transfer(
    table: JobTable, transfer: Transfer, config: JobSearchConfig | None = None, goals: JobGoals | None = None
) -> JobFront:
    """What a kept schedule reaches on another table without any search (the paper's transfer after 0 epochs).

    Args:
        table: as many jobs and accelerators as the schedule was kept for (`check_transfer`).
        transfer: what was kept.
        config: its first objective is the one of the history; the rest is not read.
        goals: weights, deadlines and targets of the jobs.

    Returns:
        The one schedule, as the method `transfer`; its history is one evaluation.
    """
    began = time.perf_counter()
    plan = apply_ranked(table, transfer.ranked)
    (values,) = evaluate_plans(table, [plan], goals)
    history = ((1, values[(config or JobSearchConfig()).objectives[0]]),)
    return JobFront("transfer", (JobSchedule("transfer", plan, values, 1, time.perf_counter() - began, history),))


def check_transfer(transfer: Transfer, jobs: int, accelerators: int, file: object = None) -> None:
    """Complains about a kept schedule of another size.

    Args:
        transfer: what was kept.
        jobs: of the batch that it is for.
        accelerators: of the platform that it is for.
        file: where it came from.

    Raises:
        InputError: the numbers of accelerators or of jobs differ.
    """
    for what, kept, there in (
        ("accelerators", len(transfer.accelerators), accelerators),
        ("jobs", len(transfer.ranked.place), jobs),
    ):
        if kept != there:
            raise InputError(
                f"was learnt on {kept} {what}, and there are {there}",
                file=file,
                remedy=f"take {kept} {what}, or learn on {there}",
            )
