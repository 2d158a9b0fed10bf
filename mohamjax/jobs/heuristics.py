"""Simple schedulers: baselines that a search has to beat (G#, Table 5), and a bound-aware one of our own.

Each gives the accelerator of every job and an order; the evaluation then shares the bandwidth. The schedulers
themselves know only no-stall durations, as published, unless stated otherwise. They are plain Python and NumPy, because
each runs only once.

Axes: N jobs, A accelerators.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mohamjax.jobs.table import JobTable


class Plan(NamedTuple):
    """One schedule.

    Attributes:
        accelerator: `[N]` int32.
        order: `[N]` int32, all jobs by priority.
    """

    accelerator: np.ndarray
    order: np.ndarray

    @property
    def priority(self) -> np.ndarray:
        """`[N]` float64 in [0, 1), priorities that decode to the order."""
        places = np.empty(len(self.order))
        places[self.order] = np.arange(len(self.order))
        return (places + 0.5) / max(len(self.order), 1)


def _order(duration: np.ndarray, rule: str, rng: np.random.Generator) -> np.ndarray:
    """Jobs by a rule: as they come; by rising mean duration on the accelerators that can run them; at random."""
    if rule == "FCFS":
        return np.arange(len(duration))
    if rule == "SJF":
        return np.argsort(mean_durations(duration), kind="stable")
    return rng.permutation(len(duration))


def mean_durations(duration: np.ndarray) -> np.ndarray:
    """Mean `[N]` of the finite entries of each row."""
    finite = np.isfinite(duration)
    return np.where(finite, duration, 0).sum(axis=1) / finite.sum(axis=1)


def _eft(duration: np.ndarray, order: np.ndarray, stall: np.ndarray | None = None) -> np.ndarray:
    """Accelerators `[N]`: each job, in order, goes where it ends first; `stall` `[N, A]`, if given, counts too."""
    free = np.zeros(duration.shape[1])
    chosen = np.zeros(len(duration), np.int32)
    for j in order:
        ends = free + duration[j]
        # With stalls: the least growth of the whole schedule first, then the earliest end on the accelerator.
        grows = ends if stall is None else np.maximum(ends, free.max()) + stall[j]
        chosen[j] = np.lexsort((ends, grows))[0]
        free[chosen[j]] += duration[j, chosen[j]]
    return chosen


def list_schedule(table: JobTable, prioritise: str, select: str, rng: np.random.Generator | None = None) -> Plan:
    """Schedules by a priority rule and a rule for accelerators (Table 5).

    - `OLB`: the next job goes to the accelerator that is free first, regardless of its duration there;
    - `MET`: every job goes to an accelerator that runs it fastest; among equally fast ones to that with the least work
      (otherwise a homogeneous platform would use a single core);
    - `RR`: accelerators in turn;
    - `random`: any accelerator.

    A job only goes where it can run.

    Args:
        table: the jobs.
        prioritise: `FCFS`, `SJF` or `random`.
        select: `OLB`, `MET`, `RR` or `random`.
        rng: generator for the random rules; default seeded with 0.
    """
    duration = table.duration
    rng = np.random.default_rng(0) if rng is None else rng
    order = _order(duration, prioritise, rng)
    free = np.zeros(duration.shape[1])
    chosen = np.zeros(len(duration), np.int32)
    for turn, j in enumerate(order):
        able = np.flatnonzero(np.isfinite(duration[j]))
        if select == "OLB":
            pick = able[np.argmin(free[able])]
        elif select == "MET":
            fastest = able[duration[j, able] == duration[j, able].min()]
            pick = fastest[np.argmin(free[fastest])]
        elif select == "RR":
            pick = next(a for a in itertools.islice(itertools.cycle(range(len(free))), turn, None) if a in able)
        else:
            pick = rng.choice(able)
        chosen[j] = pick
        free[pick] += duration[j, pick]
    return Plan(chosen, order.astype(np.int32))


def heft(table: JobTable) -> Plan:
    """Heterogeneous earliest finish time, as published (Topcuoglu et al., 2002), for jobs without dependencies.

    The upward rank of a job without successors is its mean cost. Jobs by falling rank go to the accelerator where they
    end first. (HEFT's insertion into gaps is not needed: without dependencies there are no gaps.)
    """
    order = np.argsort(-mean_durations(table.duration), kind="stable")
    return Plan(_eft(table.duration, order), order.astype(np.int32))


def _best(duration: np.ndarray) -> np.ndarray:
    return duration.min(axis=1)


def lpt_eft(table: JobTable, *, stalls: bool = False) -> Plan:
    """Longest processing time first, earliest finish time: jobs by falling best latency, each where it ends first.

    Args:
        table: the jobs.
        stalls: our variant: count the time by which a job stalls all others because it asks for more than the
            bandwidth (see `bounds`), both in the order and in the choice.
    """
    duration = table.duration
    order = np.argsort(-_best(duration), kind="stable")
    if not stalls:
        return Plan(_eft(duration, order), order.astype(np.int32))
    stall = _stalls(table)
    order = np.argsort(-_best(duration + stall), kind="stable")
    return Plan(_eft(duration, order, stall), order.astype(np.int32))


def _stalls(table: JobTable) -> np.ndarray:
    """`[N, A]`, time by which a job exceeds its duration even with all the bandwidth."""
    able = np.isfinite(table.duration)
    alone = np.where(able, table.bytes, 0.0) / table.bandwidth[0]
    return np.maximum(alone - np.where(able, table.duration, 0.0), 0.0)


_LISTS = {
    f"{prioritise}-{select}": (prioritise, select)
    for prioritise in ("FCFS", "SJF", "random")
    for select in ("OLB", "MET", "RR", "random")
}

HEURISTICS = (*_LISTS, "HEFT", "LPT-EFT", "LPT-stall")
"""Names of all heuristics."""


def run_heuristic(name: str, table: JobTable, seed: int = 0) -> Plan:
    """The plan of a heuristic.

    Args:
        name: one of `HEURISTICS`.
        table: the jobs.
        seed: seed of the random rules.

    Raises:
        ValueError: there is no heuristic of that name.
    """
    if name in _LISTS:
        return list_schedule(table, *_LISTS[name], np.random.default_rng(seed))
    others: dict[str, Callable[[], Plan]] = {
        "HEFT": lambda: heft(table),
        "LPT-EFT": lambda: lpt_eft(table),
        "LPT-stall": lambda: lpt_eft(table, stalls=True),
    }
    if name not in others:
        raise ValueError(f"heuristic is {name!r}, expected one of {', '.join(HEURISTICS)}")
    return others[name]()
