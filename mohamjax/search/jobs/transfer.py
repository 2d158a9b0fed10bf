"""Knowledge transfer of G# (Section 4.3): the schedule of one batch, by rank, as a start for another.

Jobs are ranked by their mean no-stall latency over the accelerators, the longest first. What is kept of a schedule is
the accelerator and the priority of every rank; a new batch of as many jobs takes them over rank by rank.

Axes: N jobs, A accelerators.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mohamjax.schedule.job_table import JobTable
from mohamjax.search.jobs.heuristics import Plan, mean_durations

__all__ = ["RankedSchedule", "apply_ranked", "ranked_schedule"]


class RankedSchedule(NamedTuple):
    """A schedule of ranks.

    Attributes:
        accelerator: `[N]` int32, where the job of each rank runs.
        place: `[N]` int32, its place in the order of all jobs.
    """

    accelerator: np.ndarray
    place: np.ndarray


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
