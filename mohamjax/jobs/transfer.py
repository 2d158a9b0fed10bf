"""Knowledge transfer of G# (Section 4.3): the schedule of one batch, by rank, as a start for another.

Jobs are ranked by their mean no-stall latency over the accelerators, the longest first. A ranked schedule keeps the
accelerator and the place of every rank; a new batch of as many jobs takes them over rank by rank.

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
    """A schedule by rank of the jobs.

    Attributes:
        accelerator: `[N]` int32, where the job of each rank runs.
        place: `[N]` int32, place of the job of each rank in the order of all jobs.
    """

    accelerator: np.ndarray
    place: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Transfer:
    """A ranked schedule and its origin.

    Attributes:
        ranked: the schedule.
        accelerators: names of the A accelerators that the schedule refers to by number.
        batch: description of the jobs that the schedule was found for.
        method: method that found the schedule.
        objectives: its objectives on these jobs, by name.
        time_unit: time unit of the objectives, "cycles" or "s".
    """

    ranked: RankedSchedule
    accelerators: tuple[str, ...]
    batch: str
    method: str
    objectives: abc.Mapping[str, float]
    time_unit: str


def _by_rank(table: JobTable) -> np.ndarray:
    """Jobs `[N]` by falling mean latency, ties by number."""
    return np.argsort(-mean_durations(table.duration), kind="stable")


def ranked_schedule(table: JobTable, plan: Plan) -> RankedSchedule:
    """The ranked schedule of a plan for this table."""
    jobs = _by_rank(table)
    place = np.empty(len(jobs), np.int32)
    place[plan.order] = np.arange(len(jobs))
    return RankedSchedule(plan.accelerator[jobs], place[jobs])


def apply_ranked(table: JobTable, kept: RankedSchedule) -> Plan:
    """The plan that a ranked schedule gives for another table.

    A job that cannot run on the accelerator of its rank goes where it is fastest.

    Args:
        table: a table with as many jobs as the schedule, and with the accelerators that it uses.
        kept: the ranked schedule.

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
    """The ranked form of a schedule, with its origin.

    Args:
        table: the jobs that are scheduled.
        schedule: a schedule of any method.
        batch: description of the jobs.
        objectives: names of the objectives to keep.
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
    """Applies a kept schedule to another table without any search (the paper's transfer after 0 epochs).

    Args:
        table: a table with as many jobs and accelerators as the schedule was kept for (`check_transfer`).
        transfer: the kept schedule.
        config: only its first objective is read, for the history.
        goals: weights, deadlines and targets of the jobs.

    Returns:
        The one schedule, with the method name `transfer`; its history is one evaluation.
    """
    began = time.perf_counter()
    plan = apply_ranked(table, transfer.ranked)
    (values,) = evaluate_plans(table, [plan], goals)
    history = ((1, values[(config or JobSearchConfig()).objectives[0]]),)
    return JobFront("transfer", (JobSchedule("transfer", plan, values, 1, time.perf_counter() - began, history),))


def check_transfer(transfer: Transfer, jobs: int, accelerators: int, file: object = None) -> None:
    """Checks that a kept schedule fits a batch and a platform.

    Args:
        transfer: the kept schedule.
        jobs: number of jobs of the batch.
        accelerators: number of accelerators of the platform.
        file: file that the schedule was read from, for the message.

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
