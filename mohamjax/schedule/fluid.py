"""The fluid model: start and end of every job of one schedule under shared bandwidth.

Accelerators run their jobs one at a time in priority order, each as soon as the accelerator is free and all
predecessors of the job have ended. A running job asks `bytes / duration` of every resource of its accelerator.
Where the running jobs together ask a resource for more than its bandwidth, it grants each the same fraction of
its wish; a job's rate is the smallest of its grants (1 at most) and rates change only when a job starts or ends.
This is the temporal dilation of MOHaM (Section IV) taken exactly; with one resource it is the bandwidth allocator
of G# (Algorithm 1).

The evaluation exploits that exactly one job ends per step: a loop of J steps, J static, whose state is one waiting
or running job (the head) per accelerator. Jobs that end together take several steps, all but the first of
length zero. Times are continuous in the durations and the bandwidths, so that rounding never flips a decision.

Axes: J jobs (padded), W = ceil(J / 32) words of 32 bits, A accelerators (padded), R shared resources (padded).
Any time unit, the same for durations and bandwidths (bytes per time unit).
"""

from collections.abc import Sequence
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "DEADLOCK",
    "DONE",
    "ENDLESS",
    "REASONS",
    "UNPLACED",
    "Completion",
    "Flow",
    "Segment",
    "Timeline",
    "completion",
    "flow",
    "predecessor_bits",
    "segments",
    "simulate",
]

DONE, UNPLACED, DEADLOCK, ENDLESS = range(4)

REASONS = (
    "every job ended",
    "a job has no accelerator, or the order leaves a job out",
    "the order makes accelerators wait for each other",
    "a job never ends: its bandwidth is zero or its duration not finite",
)
"""What the reason codes DONE, UNPLACED, DEADLOCK and ENDLESS mean, by code."""


@chex.dataclass(frozen=True)
class Completion:
    """When each job of a schedule ends.

    Attributes:
        end: `[J]` float, end of each job [time units]; 0 for a padded job, +inf for a job that never ends.
        makespan: `[]` float, the latest end; +inf unless every job ended.
        reason: `[]` int32, 0 (`DONE`) or why not every job ended, see `REASONS`.
    """

    end: jax.Array
    makespan: jax.Array
    reason: jax.Array

    @property
    def ok(self) -> jax.Array:
        """`[]` bool, whether every job ended."""
        return self.reason == DONE


@chex.dataclass(frozen=True)
class Timeline:
    """When each job of a schedule starts and ends.

    Attributes:
        start: `[J]` float, when each job first runs [time units]: exactly the latest end among its predecessors
            and the job before it on its accelerator; 0 for a padded job, +inf for a job that never starts.
        end: `[J]` float, end of each job [time units]; 0 for a padded job, +inf for a job that never ends.
        stall: `[J]` float, time lost to shared bandwidth, end - start - duration [time units].
        makespan: `[]` float, the latest end; +inf unless every job ended.
        reason: `[]` int32, 0 (`DONE`) or why not every job ended, see `REASONS`.
    """

    start: jax.Array
    end: jax.Array
    stall: jax.Array
    makespan: jax.Array
    reason: jax.Array

    @property
    def ok(self) -> jax.Array:
        """`[]` bool, whether every job ended."""
        return self.reason == DONE


def predecessor_bits(predecessors: Sequence[Sequence[int]], padded_jobs: int | None = None) -> np.ndarray:
    """Packs predecessor lists into bit masks.

    Args:
        predecessors: per job the indices of the jobs that must have ended before it starts.
        padded_jobs: J, at least the number of jobs (the default).

    Returns:
        `[J, ceil(J / 32)]` uint32; bit p % 32 of word p // 32 in row j says that p is a predecessor of j.

    Raises:
        ValueError: a predecessor is no job, or `padded_jobs` is too small.
    """
    jobs = len(predecessors)
    padded = jobs if padded_jobs is None else padded_jobs
    if padded < jobs:
        raise ValueError(f"padded_jobs is {padded}, but there are {jobs} jobs")
    bits = np.zeros((padded, max(1, -(-padded // 32))), np.uint32)
    for job, before in enumerate(predecessors):
        for p in before:
            if not 0 <= p < jobs:
                raise ValueError(f"predecessor {p} of job {job} is not one of the {jobs} jobs")
            bits[job, p // 32] |= np.uint32(1 << (p % 32))
    return bits


class _Fixed(NamedTuple):
    """What stays the same during one schedule."""

    duration: jax.Array  # [J]
    demand: jax.Array  # [J] bytes per time unit while the job runs at full rate
    bits: jax.Array  # [J, W]
    job_at: jax.Array  # [J] i32, job at each place of the order
    following: jax.Array  # [J] i32, next place of the order on the same accelerator; J where there is none
    uses: jax.Array  # [A, R] 0 or 1
    inverse_shared: jax.Array  # [R] 1 / bandwidth; 0 where there is none (see inverse_private)
    inverse_private: jax.Array  # [A] 1 / bandwidth; inf where some resource of the accelerator has none


class _State(NamedTuple):
    """The head of every accelerator: the job that it runs or waits to run."""

    time: jax.Array  # []
    place: jax.Array  # [A] i32, place of the head in the order; J where no job is left
    job: jax.Array  # [A] i32, the head; undefined where no job is left
    remaining: jax.Array  # [A] remaining time at full rate
    demand: jax.Array  # [A]
    slowdown: jax.Array  # [A] by the private resource alone, at least 1
    pending: jax.Array  # [A] i32, predecessors of the head that have not ended; more than J where no job is left
    started: jax.Array  # [A] when the head first ran
    done: jax.Array  # [W] u32, jobs that have ended


def _private_slowdown(demand: jax.Array, inverse_private: jax.Array) -> jax.Array:
    """How much longer a job takes because of the bandwidth that its accelerator has for itself, at least 1."""
    return jnp.where(demand > 0, jnp.maximum(demand * inverse_private, 1.0), 1.0)


def _bit(job: jax.Array, words: int) -> jax.Array:
    """`[W]` u32 with the bit of one job set."""
    bit = jnp.left_shift(jnp.uint32(1), (job & 31).astype(jnp.uint32))
    return jnp.where(jnp.arange(words, dtype=jnp.int32) == job >> 5, bit, jnp.uint32(0))


def _count(words: jax.Array) -> jax.Array:
    return jnp.sum(lax.population_count(words).astype(jnp.int32), axis=-1)


def _link(accelerator_at: jax.Array, accelerators: int) -> tuple[jax.Array, jax.Array]:
    """First place of every accelerator and the following place of every place, by one walk backward."""
    places = accelerator_at.shape[0]
    ids = jnp.arange(accelerators, dtype=jnp.int32)

    def step(first, at):
        place, accelerator = at
        mine = ids == accelerator
        return jnp.where(mine, place, first), jnp.min(jnp.where(mine, first, places))

    first = jnp.full((accelerators,), places, jnp.int32)
    return lax.scan(step, first, (jnp.arange(places, dtype=jnp.int32), accelerator_at), reverse=True)


def _initial(place: jax.Array, fixed: _Fixed) -> _State:
    jobs, words = fixed.bits.shape
    has_job = place < jobs
    job = fixed.job_at[jnp.minimum(place, jobs - 1)]
    demand = fixed.demand[job]
    return _State(
        time=jnp.zeros((), fixed.duration.dtype),
        place=place,
        job=job,
        remaining=fixed.duration[job],
        demand=demand,
        slowdown=_private_slowdown(demand, fixed.inverse_private),
        pending=jnp.where(has_job, _count(fixed.bits[job]), jobs + 1),
        started=jnp.zeros(place.shape, fixed.duration.dtype),
        done=jnp.zeros((words,), jnp.uint32),
    )


def _step(state: _State, fixed: _Fixed) -> tuple[_State, tuple[jax.Array, jax.Array, jax.Array]]:
    """Runs until the next job ends, ends it, and puts the next job of its accelerator at the head.

    Returns:
        The state, and the job that ended (J if none could) with its start and end.
    """
    jobs, words = fixed.bits.shape
    accelerators = state.place.shape[0]
    ids = jnp.arange(accelerators, dtype=jnp.int32)

    running = state.pending == 0
    asked = jnp.sum(jnp.where(running, state.demand, 0.0)[:, None] * fixed.uses, axis=0)
    congestion = jnp.maximum(asked * fixed.inverse_shared, 1.0)
    slowdown = jnp.maximum(state.slowdown, jnp.max(fixed.uses * congestion[None, :], axis=1))
    left = jnp.where(running, state.remaining * slowdown, jnp.inf)
    elapsed = jnp.min(left)
    ends = elapsed < jnp.inf  # false once all is done, or in a deadlock: then nothing changes any more
    winner = jnp.min(jnp.where(left == elapsed, ids, accelerators))
    ending = (ids == winner) & ends
    elapsed = jnp.where(ends, elapsed, 0.0)
    time = state.time + elapsed
    remaining = jnp.maximum(state.remaining - jnp.where(running, elapsed / slowdown, 0.0), 0.0)

    place = jnp.maximum(jnp.max(jnp.where(ending, state.place, -1)), 0)
    ended = fixed.job_at[place]
    ended_bit = jnp.where(ends, _bit(ended, words), jnp.uint32(0))
    done = state.done | ended_bit
    released = (fixed.bits[state.job, ended >> 5] >> (ended & 31).astype(jnp.uint32)) & 1
    pending = state.pending - jnp.where(ends, released.astype(jnp.int32), 0)

    following = fixed.following[place]
    job = fixed.job_at[jnp.minimum(following, jobs - 1)]
    demand = fixed.demand[job]
    job_pending = jnp.where(following < jobs, _count(fixed.bits[job] & ~done), jobs + 1)
    start = jnp.max(jnp.where(ending, state.started, 0.0))
    pending = jnp.where(ending, job_pending, pending)
    after = _State(
        time=time,
        place=jnp.where(ending, following, state.place),
        job=jnp.where(ending, job, state.job),
        remaining=jnp.where(ending, fixed.duration[job], remaining),
        demand=jnp.where(ending, demand, state.demand),
        slowdown=jnp.where(ending, _private_slowdown(demand, fixed.inverse_private), state.slowdown),
        pending=pending,
        # A head starts at the event that makes it ready; until then it carries the time of the last event.
        started=jnp.where(running & ~ending, state.started, time),
        done=done,
    )
    return after, (jnp.where(ends, ended, jobs), start, time)


def _run(
    duration, bytes_, predecessor_bits, accelerator, order, shared_uses, shared_bandwidth, private_bandwidth, job_mask
) -> Timeline:
    dtype = duration.dtype
    jobs = duration.shape[0]
    accelerators = shared_uses.shape[0]
    first, following = _link(jnp.where(job_mask, accelerator, -1)[order], accelerators)
    uses = shared_uses.astype(dtype)
    has_shared = shared_bandwidth > 0
    has_all = (private_bandwidth > 0) & jnp.all((uses == 0) | has_shared[None, :], axis=1)
    fixed = _Fixed(
        duration=duration,
        demand=jnp.where(duration > 0, bytes_ / duration, 0.0),
        bits=predecessor_bits,
        job_at=order,
        following=following,
        uses=uses,
        inverse_shared=jnp.where(has_shared, 1.0 / shared_bandwidth, 0.0).astype(dtype),
        inverse_private=jnp.where(has_all, 1.0 / private_bandwidth, jnp.inf).astype(dtype),
    )
    state, (ended, starts, ends) = lax.scan(
        lambda state, _: _step(state, fixed), _initial(first, fixed), None, length=jobs
    )
    never = jnp.where(job_mask, jnp.inf, 0.0).astype(dtype)
    # Jobs that run or have run are the only ones with a start; of those at the heads not all have ended.
    at_head = jnp.where(state.pending == 0, state.job, jobs)
    start = never.at[at_head].set(state.started, mode="drop").at[ended].set(starts, mode="drop")
    end = never.at[ended].set(ends, mode="drop")
    all_ended = jnp.all(end < jnp.inf)
    linked = jnp.zeros((jobs,), bool).at[order].set(True, mode="drop")
    placed = jnp.all(~job_mask | (linked & (accelerator >= 0) & (accelerator < accelerators)))
    stuck = jnp.where(jnp.any(state.pending == 0), ENDLESS, jnp.where(placed, DEADLOCK, UNPLACED))
    return Timeline(
        start=start,
        end=end,
        stall=jnp.where(jnp.isfinite(end), jnp.maximum(end - start - jnp.where(job_mask, duration, 0.0), 0.0), end),
        makespan=jnp.where(all_ended, state.time, jnp.inf),
        reason=jnp.where(all_ended, DONE, stuck).astype(jnp.int32),
    )


def simulate(
    duration: jax.Array,
    bytes: jax.Array,
    predecessor_bits: jax.Array,
    accelerator: jax.Array,
    order: jax.Array,
    shared_uses: jax.Array,
    shared_bandwidth: jax.Array,
    private_bandwidth: jax.Array,
    job_mask: jax.Array,
) -> Timeline:
    """Start and end of every job of one schedule.

    Pure and traceable; the caller vmaps and jits. Recompiles with the padded sizes J, A, R and the dtype only.

    Args:
        duration: `[J]` float >= 0, time of each job when nothing slows it; sets the dtype of the result.
        bytes: `[J]` float >= 0, off-chip traffic of each job, spread evenly over its duration (a job without
            duration has none).
        predecessor_bits: `[J, W]` uint32, see `predecessor_bits`. Predecessors are real jobs.
        accelerator: `[J]` int32, where each job runs.
        order: `[J]` int32, all jobs by priority, padded ones anywhere: a permutation of 0..J-1.
        shared_uses: `[A, R]` bool or 0/1 float, which accelerator uses which shared resource.
        shared_bandwidth: `[R]` float, +inf for a resource that never limits (or is padding).
        private_bandwidth: `[A]` float, the least bandwidth among the resources that the accelerator has for
            itself; +inf where there is none (or the accelerator is padding).
        job_mask: `[J]` bool, false for padded jobs, which take no time on no accelerator.

    Returns:
        The timeline. A schedule that cannot end has an infinite makespan and says why in `reason`; where the
        order is topological and every job is on an accelerator with bandwidth, every job ends.
    """
    return _run(
        duration, bytes, predecessor_bits, accelerator, order, shared_uses, shared_bandwidth, private_bandwidth, job_mask
    )


def completion(
    duration: jax.Array,
    bytes: jax.Array,
    predecessor_bits: jax.Array,
    accelerator: jax.Array,
    order: jax.Array,
    shared_uses: jax.Array,
    shared_bandwidth: jax.Array,
    private_bandwidth: jax.Array,
    job_mask: jax.Array,
) -> Completion:
    """End of every job of one schedule: `simulate` without the starts, for a search that needs no more.

    Arguments as for `simulate`.
    """
    timeline = _run(
        duration, bytes, predecessor_bits, accelerator, order, shared_uses, shared_bandwidth, private_bandwidth, job_mask
    )
    return Completion(end=timeline.end, makespan=timeline.makespan, reason=timeline.reason)


class Segment(NamedTuple):
    """A stretch of time in which a job runs slowed at one rate.

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
    """What runs how fast between two events of a timeline, for E events.

    Attributes:
        time: `[E]` float, the events: all starts and ends, rising [time units].
        rate: `[E - 1, J]` float, rate of each job between one event and the next, 0 where it does not run.
        limit: `[E - 1, J]` int, index of the resource that slows the job, -1 where none does.
        through: `[E - 1, R]` float, what flows through each resource [bytes per time unit].
    """

    time: np.ndarray
    rate: np.ndarray
    limit: np.ndarray
    through: np.ndarray


def flow(
    start: Sequence[float] | np.ndarray,
    end: Sequence[float] | np.ndarray,
    duration: Sequence[float] | np.ndarray,
    bytes: Sequence[float] | np.ndarray,
    accelerator: Sequence[int] | np.ndarray,
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: Sequence[float] | np.ndarray,
) -> Flow:
    """Rates between the events of one finished schedule, on the host.

    A job runs from its start to its end without pause, so that the times alone say who shares what.

    Args:
        start: `[J]`, from the timeline of the schedule.
        end: `[J]`, likewise.
        duration: `[J]`, as simulated.
        bytes: `[J]`, as simulated.
        accelerator: `[J]`, as simulated.
        resources_of_accelerator: per accelerator the indices of its resources, shared and private alike.
        resource_bandwidth: `[R]` [bytes per time unit].

    Returns:
        The flow. Events closer together than rounding can tell are one event.
    """
    dtype = np.asarray(end).dtype
    eps = np.finfo(dtype if np.issubdtype(dtype, np.floating) else np.float64).eps
    first, last = np.asarray(start, float), np.asarray(end, float)
    length, carried = np.asarray(duration, float), np.asarray(bytes, float)
    bandwidth = np.asarray(resource_bandwidth, float)
    if not np.all(np.isfinite(last)):
        raise ValueError("the schedule has jobs that never end")

    time = np.unique(np.concatenate([first, last]))
    apart = np.diff(time, prepend=-np.inf) > 8 * eps * (time[-1] if time.size else 0.0)
    time = time[apart]
    middle = (time[:-1] + time[1:]) / 2
    running = (first[None, :] < middle[:, None]) & (middle[:, None] < last[None, :])

    uses = np.zeros((len(first), len(bandwidth)), bool)
    for job, where in enumerate(np.asarray(accelerator, int)):
        uses[job, list(resources_of_accelerator[where])] = True
    demand = np.divide(carried, length, out=np.zeros_like(carried), where=length > 0)
    asked = (running * demand) @ uses
    short = asked > bandwidth * (1 + 8 * eps)
    grant = np.where(short, bandwidth / np.where(short, asked, 1.0), 1.0)  # [E - 1, R]
    rate = running.astype(float)
    limit = np.full(running.shape, -1)
    for resource in range(len(bandwidth)):
        lower = running & uses[None, :, resource] & (grant[:, resource, None] < rate)
        limit[lower] = resource
        rate = np.where(lower, grant[:, resource, None], rate)
    return Flow(time=time, rate=rate, limit=limit, through=(rate * demand) @ uses)


def segments(
    start: Sequence[float] | np.ndarray,
    end: Sequence[float] | np.ndarray,
    duration: Sequence[float] | np.ndarray,
    bytes: Sequence[float] | np.ndarray,
    accelerator: Sequence[int] | np.ndarray,
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: Sequence[float] | np.ndarray,
) -> list[list[Segment]]:
    """The slowed segments of every job of one finished schedule, for a Gantt chart.

    Arguments as for `flow`.

    Returns:
        Per job its slowed segments in time order; adjacent ones of equal rate and resource are joined.
    """
    seen = flow(start, end, duration, bytes, accelerator, resources_of_accelerator, resource_bandwidth)
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
