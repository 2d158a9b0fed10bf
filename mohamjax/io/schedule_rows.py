"""What the readers of schedules share: checks of predecessors and orders, simulation in blocks, and rows of results."""

from __future__ import annotations

import math
from collections import abc
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.errors import InputError
from mohamjax.io.entries import Entry, Place, waiting
from mohamjax.io.forms import MOST_ASKED
from mohamjax.runtime.blocks import power_of_two
from mohamjax.schedule.fluid import DONE, REASONS, Timeline
from mohamjax.schedule.segments import Segment

T = TypeVar("T")


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


def read_predecessors(
    rows: Sequence[Sequence[int | str]], names: abc.Mapping[str, int] | int, places: Sequence[Place]
) -> tuple[tuple[int, ...], ...]:
    """Predecessors of each job as numbers; raises InputError for jobs that do not exist and for cycles."""
    result = tuple(tuple(place.numbers(row, names, "job")) for row, place in zip(rows, places, strict=True))
    cycle = _cycle(result)
    if cycle:
        labels = range(names) if isinstance(names, int) else list(names)
        raise places[cycle[0]].error(waiting(cycle, labels), "remove one of these predecessors")
    return result


def check_deadlock(
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


def refuse_instant_traffic(place_of: Callable[[int], Place], duration: np.ndarray, traffic: np.ndarray) -> None:
    """Raises InputError if a job moves more bytes than its duration allows for.

    Args:
        place_of: the place of each duration, by its index.
        duration: `[J]` or `[A]` float.
        traffic: float of the same shape, bytes.
    """
    instant = np.flatnonzero((traffic > 0) & (traffic > MOST_ASKED * duration))
    if instant.size:
        job = int(instant[0])
        raise place_of(job).error(
            f"is {duration[job]:g}, but the job moves {traffic[job]:g} bytes",
            "write how long the job takes when nothing slows it, or 0 bytes",
        )


def unlimited(rate: float | None) -> float:
    """A bandwidth as a number: files write null where nothing limits."""
    return math.inf if rate is None else rate


def simulated(
    cases: Sequence[T],
    jobs_of: Callable[[T], int],
    simulate: Callable[[list[T], int, npt.DTypeLike], Timeline],
    width_of: Callable[[list[T], int], int],
    *,
    float32: bool,
) -> list[Timeline]:
    """Timelines of cases with NumPy leaves, padded jobs included: cases of about equal size run side by side.

    Few sizes keep the number of programs small, and padding costs little for short schedules. A case whose numbers are
    too large for single precision never ends.

    Args:
        cases: the cases.
        jobs_of: the number of jobs of a case.
        simulate: simulates cases, padded to a number of jobs, in a float dtype; the result has a leading axis of cases.
        width_of: how many of these cases, padded to a number of jobs, run side by side; the last block is filled up.
        float32: compute in single precision.
    """
    buckets: dict[int, list[int]] = {}
    for i, case in enumerate(cases):
        buckets.setdefault(power_of_two(jobs_of(case), 64), []).append(i)
    found: dict[int, Timeline] = {}
    for jobs, members in sorted(buckets.items()):
        width = width_of([cases[i] for i in members], jobs)
        for first in range(0, len(members), width):
            own = [members[min(k, len(members) - 1)] for k in range(first, first + width)]
            with jax.enable_x64(not float32), np.errstate(over="ignore"):
                rows = simulate([cases[i] for i in own], jobs, np.float32 if float32 else np.float64)
            rows = jax.tree.map(np.asarray, rows)
            found |= {i: jax.tree.map(lambda x, row=row: x[row], rows) for row, i in enumerate(own)}
    return [found[i] for i in range(len(cases))]


def makespans(found: Sequence[Timeline], float32: bool) -> tuple[np.ndarray, list[str]]:
    """`[n]` float, NaN for a schedule that never ends, and n reasons, empty for the others."""
    ended = [int(one.reason) == DONE for one in found]
    makespan = np.array([float(one.makespan) if ok else np.nan for one, ok in zip(found, ended, strict=True)])
    told = ["" if ok else unfinished(int(one.reason), float32) for one, ok in zip(found, ended, strict=True)]
    return makespan, told


def broken_row(name: int | str, reason: str) -> dict[str, object]:
    """The row of a schedule that breaks a rule."""
    return {"name": name, "makespan": None, "reason": reason}


def answered(
    entries: Sequence[Entry[T]],
    found: Sequence[Timeline],
    answer: Callable[[T, Timeline], dict[str, object]],
    float32: bool,
) -> list[dict[str, object]]:
    """The rows of a file's schedules: what `answer` says of those that end, and the reason for all others.

    Args:
        entries: all entries of the file.
        found: a timeline for each entry that is no error, in their order.
        answer: the row of a schedule without its name.
        float32: whether they were simulated in single precision.
    """
    each, rows = iter(found), []
    for name, case in entries:
        if isinstance(case, InputError):
            rows.append(broken_row(name, case.reason))
        elif int((timeline := next(each)).reason) == DONE:
            rows.append({"name": name, **answer(case, timeline)})
        else:
            rows.append(broken_row(name, unfinished(int(timeline.reason), float32)))
    return rows


def unfinished(reason: int, float32: bool) -> str:
    """Why a schedule never ends, by its index into `REASONS`, and what to do about it."""
    remedy = "compute in double precision" if float32 else "write numbers that lie closer together"
    return f"{REASONS[reason]}; {remedy}"


def slowed_rows(found: Sequence[Sequence[Segment]], resources: Sequence[str]) -> list[list[dict[str, object]]]:
    """The slowed segments of every job, with the name of the resource that slows it."""
    return [
        [{"start": s.start, "end": s.end, "rate": s.rate, "resource": resources[s.resource]} for s in one]
        for one in found
    ]
