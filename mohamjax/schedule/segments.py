"""The flow of a schedule, on the host: the rates of every job between one event and the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Segment(NamedTuple):
    """A span of time in which a job runs at one rate below full speed.

    Attributes:
        start: [time units].
        end: [time units].
        rate: below 1; the job advances by `rate * (end - start)` of its duration.
        resource: index of the resource that limits it (the first of several).
    """

    start: float
    end: float
    rate: float
    resource: int


class Flow(NamedTuple):
    """How fast jobs run between the events of a timeline, for E events.

    Attributes:
        time: `[E]` float, the events: all starts and ends, rising [time units].
        rate: `[E - 1, J]` float, rate of each job between one event and the next, 0 where it does not run.
        limit: `[E - 1, J]` int, index of the resource that slows the job, -1 where none does.
        through: `[E - 1, R]` float, traffic through each resource [bytes per time unit].
    """

    time: np.ndarray
    rate: np.ndarray
    limit: np.ndarray
    through: np.ndarray


def flow(
    start: ArrayLike,
    end: ArrayLike,
    duration: ArrayLike,
    bytes: ArrayLike,
    accelerator: ArrayLike,
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: ArrayLike,
) -> Flow:
    """Rates between the events of one finished schedule, on the host.

    Jobs run from start to end without a pause, so that the times alone tell which jobs share a resource.

    Args:
        start: `[J]`, from the timeline of the schedule.
        end: `[J]`, from the timeline of the schedule.
        duration: `[J]`, as simulated.
        bytes: `[J]`, as simulated.
        accelerator: `[J]`, as simulated.
        resources_of_accelerator: per accelerator the indices of its resources, shared and private alike.
        resource_bandwidth: `[R]` [bytes per time unit].

    Returns:
        The flow. Events closer together than rounding can tell are one event.

    Raises:
        ValueError: some job never ends.
    """
    bandwidth = np.asarray(resource_bandwidth, float)
    uses = np.zeros((np.size(duration), len(bandwidth)), bool)
    for job, where in enumerate(np.asarray(accelerator, int)):
        uses[job, list(resources_of_accelerator[where])] = True
    return flow_of_asks(start, end, duration, uses * np.asarray(bytes, float)[:, None], uses, bandwidth)


def flow_of_asks(
    start: ArrayLike, end: ArrayLike, duration: ArrayLike, amount: np.ndarray, binds: np.ndarray, bandwidth: np.ndarray
) -> Flow:
    """As `flow`, where jobs ask resources for amounts of their own (`fluid.Asks`).

    Args:
        start: `[J]`, from the timeline of the schedule.
        end: `[J]`, from the timeline of the schedule.
        duration: `[J]`, as simulated.
        amount: `[J, R]` float, as simulated.
        binds: `[J, R]` bool, as simulated.
        bandwidth: `[R]` float.
    """
    dtype = np.asarray(end).dtype
    eps = np.finfo(dtype if np.issubdtype(dtype, np.floating) else np.float64).eps
    first, last = np.asarray(start, float), np.asarray(end, float)
    length = np.asarray(duration, float)[:, None]
    if not np.all(np.isfinite(last)):
        raise ValueError("the schedule has jobs that never end")

    time = np.unique(np.concatenate([first, last]))
    apart = np.diff(time, prepend=-np.inf) > 8 * eps * (time[-1] if time.size else 0.0)
    time = time[apart]
    middle = (time[:-1] + time[1:]) / 2
    running = (first[None, :] < middle[:, None]) & (middle[:, None] < last[None, :])

    demand = np.divide(amount, length, out=np.zeros_like(amount), where=length > 0)
    asked = running @ demand
    short = asked > bandwidth * (1 + 8 * eps)
    grant = np.where(short, bandwidth / np.where(short, asked, 1.0), 1.0)  # [E - 1, R]
    rate = running.astype(float)
    limit = np.full(running.shape, -1)
    for resource in range(len(bandwidth)):
        lower = running & binds[None, :, resource] & (grant[:, resource, None] < rate)
        limit[lower] = resource
        rate = np.where(lower, grant[:, resource, None], rate)
    return Flow(time=time, rate=rate, limit=limit, through=rate @ demand)


def by_resource(seen: Flow, amount: ArrayLike) -> np.ndarray:
    """`[R, J]` float, an amount of each job, added up over the time in which each resource slows the job.

    Args:
        seen: from `flow`.
        amount: amount of each job between one event and the next, of a shape that broadcasts to `[E - 1, J]`: the time
            between them, or the time lost.
    """
    return np.stack(
        [np.where(seen.limit == resource, amount, 0.0).sum(axis=0) for resource in range(seen.through.shape[1])]
    )


def segments(
    start: ArrayLike,
    end: ArrayLike,
    duration: ArrayLike,
    bytes: ArrayLike,
    accelerator: ArrayLike,
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: ArrayLike,
) -> list[list[Segment]]:
    """The slowed segments of every job of one finished schedule, for a Gantt chart.

    Arguments as for `flow`.

    Returns:
        Per job its slowed segments in time order; adjacent ones of equal rate and resource are joined.
    """
    return slowed(flow(start, end, duration, bytes, accelerator, resources_of_accelerator, resource_bandwidth))


def slowed(seen: Flow) -> list[list[Segment]]:
    """The slowed segments of every job of one finished schedule, for a Gantt chart.

    Args:
        seen: from `flow`.

    Returns:
        Per job its slowed segments in time order; adjacent ones of equal rate and resource are joined.
    """
    result: list[list[Segment]] = [[] for _ in range(seen.rate.shape[1])]
    for span, job in np.argwhere(seen.limit >= 0):
        piece = Segment(
            float(seen.time[span]),
            float(seen.time[span + 1]),
            float(seen.rate[span, job]),
            int(seen.limit[span, job]),
        )
        before = result[job][-1] if result[job] else None
        if before and before.end == piece.start and before[2:] == piece[2:]:
            piece = before._replace(end=piece.end)
            result[job].pop()
        result[job].append(piece)
    return result
