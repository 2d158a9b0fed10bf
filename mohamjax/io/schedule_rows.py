"""What the readers of schedules share: checks of predecessors and orders, and rows of results."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable, Sequence

import numpy as np

from mohamjax.io.entries import Place, waiting
from mohamjax.io.forms import MOST_ASKED
from mohamjax.schedule.fluid import REASONS
from mohamjax.schedule.segments import Segment


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


def broken_row(name: int | str, reason: str) -> dict[str, object]:
    """The row of a schedule that breaks a rule."""
    return {"name": name, "makespan": None, "reason": reason}


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


def power_of_two(least: int, value: int) -> int:
    """The next power of two of a value, or a least one: few sizes of arrays keep the number of programs small."""
    return max(least, 1 << max(0, value - 1).bit_length())
