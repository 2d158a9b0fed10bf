"""The fluid model: start and end of every job of one schedule under shared bandwidth.

Accelerators run their jobs one at a time in priority order, each as soon as the accelerator is free and all
predecessors of the job have ended. A running job asks `bytes / duration` of every resource of its accelerator.
Where the running jobs together ask a resource for more than its bandwidth, it grants each the same fraction of
its wish; a job's rate is the smallest of its grants (1 at most) and rates change only when a job starts or ends.
The grant binds a job whatever it asks: one without traffic is slowed by a resource that others fill (so the
reference cases have it). This is the temporal dilation of MOHaM taken exactly; with one resource it is the
bandwidth allocator of G# (Algorithm 1).

The evaluation exploits that exactly one job ends per step: a loop of J steps, J static, whose state is one waiting
or running job (the head) per accelerator. Jobs that end together take several steps, all but the first of
length zero. Times are continuous in the durations and the bandwidths, so that rounding never flips a decision.

Axes: J jobs (padded), W = ceil(J / 32) words of 32 bits, A accelerators (padded), R shared resources (padded).
Any time unit, the same for durations and bandwidths (bytes per time unit).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import custom_batching, lax
from numpy.typing import ArrayLike

from mohamjax.blocks import in_blocks, varying
from mohamjax.platforms import by_platform
from mohamjax.struct import record

__all__ = [
    "DEADLOCK",
    "DONE",
    "ENDLESS",
    "REASONS",
    "UNPLACED",
    "Completion",
    "Timeline",
    "completion",
    "padded_jobs",
    "predecessor_bits",
    "simulate",
    "split_resources",
]

DONE, UNPLACED, DEADLOCK, ENDLESS = range(4)

REASONS = (
    "every job ended",
    "a job has no accelerator, or the order leaves a job out",
    "the order makes accelerators wait for each other",
    "a job never ends: its bandwidth is zero or its duration not finite",
)
"""What the reason codes DONE, UNPLACED, DEADLOCK and ENDLESS mean, by code."""


@record
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


@record
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


def padded_jobs(jobs: int) -> int:
    """Jobs after padding to whole words of predecessor bits, at least one: numbers near each other share a program."""
    return 32 * max(1, -(-jobs // 32))


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


def split_resources(
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: ArrayLike,
    accelerators: int | None = None,
    resources: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tells resources that accelerators share from those that one has for itself.

    Args:
        resources_of_accelerator: per accelerator the indices of its resources.
        resource_bandwidth: bandwidth of each resource [bytes per time unit].
        accelerators: A, at least the number of accelerators (the default) and 1.
        resources: R, at least the number of shared resources (the default) and 1.

    Returns:
        `shared_uses` `[A, R]` bool, `shared_bandwidth` `[R]` and `private_bandwidth` `[A]` float64, for `simulate`.

    Raises:
        ValueError: A or R is too small.
    """
    bandwidth = np.asarray(resource_bandwidth, float)
    users = np.zeros(len(bandwidth), int)
    for mine in resources_of_accelerator:
        users[list(set(mine))] += 1
    shared = np.flatnonzero(users > 1)
    rows = max(1, len(resources_of_accelerator)) if accelerators is None else accelerators
    columns = max(1, len(shared)) if resources is None else resources
    if rows < len(resources_of_accelerator) or columns < len(shared):
        raise ValueError(
            f"{len(resources_of_accelerator)} accelerators with {len(shared)} shared resources "
            f"do not fit {rows} by {columns}"
        )
    uses = np.zeros((rows, columns), bool)
    private = np.full(rows, np.inf)
    for a, mine in enumerate(resources_of_accelerator):
        uses[a, : len(shared)] = np.isin(shared, list(mine))
        private[a] = min((bandwidth[r] for r in mine if users[r] == 1), default=np.inf)
    padded = np.full(columns, np.inf)
    padded[: len(shared)] = bandwidth[shared]
    return uses, padded, private


_RUN = 32  # places that an accelerator compares with each other at once
_UNROLL = 8  # steps that it takes as one


class _Fixed(NamedTuple):
    """What stays the same during the schedules; the trailing axis B counts them."""

    records: jax.Array  # [B * J * 4] following place, job, duration, demand for each place of the order
    base: jax.Array  # [B] i32, where the records of a schedule begin
    bits: jax.Array  # [W * J] or [B * W * J] u32, the predecessor bits
    bits_base: jax.Array  # [B] i32, where the bits of a schedule begin
    uses: jax.Array  # [A, R, B] 0 or 1, or bool
    shared: jax.Array  # [R, B] bandwidth; +inf where there is none (see inverse_private)
    inverse_private: jax.Array  # [A, B] 1 / bandwidth; +inf where some resource of the accelerator has none
    jobs: int
    words: int


class _State(NamedTuple):
    """The head of every accelerator, that is the job that it runs or waits to run."""

    time: jax.Array  # [B]
    following: jax.Array  # [A, B] i32, place in the order of the job after the head; J where there is none
    job: jax.Array  # [A, B] i32, the head; undefined where no job is left
    remaining: jax.Array  # [A, B] remaining time at full rate
    demand: jax.Array  # [A, B] bytes per time unit at full rate
    pending: jax.Array  # [A, B] i32, predecessors of the head that have not ended; J + 1 where no job is left
    started: jax.Array  # [A, B] when the head first ran
    done: jax.Array  # [W, B] u32, jobs that have ended


class _Outcome(NamedTuple):
    start: jax.Array  # [B, J]
    end: jax.Array  # [B, J]
    makespan: jax.Array  # [B]
    reason: jax.Array  # [B] i32


def _take(flat: jax.Array, index: jax.Array) -> jax.Array:
    return flat.at[index].get(mode="promise_in_bounds")


def _reduce(operator, start, operand):
    """`lax.reduce` over the leading axis of a tuple of arrays.

    Written out because XLA's CPU compiler neither fuses such a reduction into what uses it (and so computes it
    once) nor, unlike `jnp.min` and `jnp.sum`, hands it to a library that is slow on short axes.
    """
    return lax.reduce(
        operand, tuple(jnp.asarray(s, x.dtype) for s, x in zip(start, operand, strict=True)), operator, (0,)
    )


def _count(words: jax.Array) -> jax.Array:
    """Number of bits set, over the leading axis."""
    ones = lax.population_count(words).astype(jnp.int32)
    return _reduce(lambda a, b: (a[0] + b[0],), (0,), (ones,))[0]


def _link(accelerator_at: jax.Array, accelerators: int) -> tuple[jax.Array, jax.Array]:
    """First place of every accelerator and the following place of every place, by one walk backward.

    Args:
        accelerator_at: `[J, B]` i32, accelerator of the job at each place of the order, -1 for none.
        accelerators: A.

    Returns:
        `[A, B]` and `[J, B]` i32, J where there is none.
    """
    places, lanes = accelerator_at.shape
    ids = jnp.arange(accelerators, dtype=jnp.int32)[:, None]

    def step(first, at):
        place, accelerator = at
        mine = ids == accelerator[None, :]
        seen = jnp.where(mine, first, places)
        (following,) = _reduce(lambda a, b: (jnp.minimum(a[0], b[0]),), (places,), (seen,))
        return jnp.where(mine, place, first), following

    first = varying(jnp.full((accelerators, lanes), places, jnp.int32), accelerator_at)
    return lax.scan(step, first, (jnp.arange(places, dtype=jnp.int32), accelerator_at), reverse=True)


def _link_at_once(accelerator_at: jax.Array, accelerators: int) -> tuple[jax.Array, jax.Array]:
    """As `_link`, in a few wide steps: places of a run are compared with each other, runs by their first places."""
    places, lanes = accelerator_at.shape
    at = jnp.pad(accelerator_at, ((0, -places % _RUN), (0, 0)), constant_values=-1).reshape(-1, _RUN, lanes)
    runs = at.shape[0]
    number = jnp.arange(runs * _RUN, dtype=jnp.int32).reshape(runs, _RUN, 1)
    ids = jnp.arange(accelerators, dtype=jnp.int32)[None, None, :, None]
    mine = at[:, :, None, :] == ids  # [runs, RUN, A, B]
    first = jnp.min(jnp.where(mine, number[:, :, None], places), axis=1)  # [runs, A, B]
    later = jnp.triu(jnp.ones((runs, runs), bool), 1)[:, :, None, None]
    after = jnp.min(jnp.where(later, first[None], places), axis=1)
    later = jnp.triu(jnp.ones((_RUN, _RUN), bool), 1)[None, :, :, None]
    within = jnp.where(later & (at[:, :, None] == at[:, None]), number[:, None], places)
    beyond = jnp.min(jnp.where(mine, after[:, None], places), axis=2)
    following = jnp.minimum(jnp.min(within, axis=2), beyond)
    # A place of no accelerator comes before none.
    following = jnp.where((at >= 0) & (at < accelerators), following, places)
    return jnp.min(first, axis=0), following.reshape(-1, lanes)[:places]


def _fetch(place: jax.Array, done: jax.Array, fixed: _Fixed):
    """The job at a place: its following place, index, duration, demand and number of pending predecessors.

    Args:
        place: `[..., B]` i32, J where no job is left.
        done: `[W, ..., B]` u32.
        fixed: the schedules.

    Returns:
        Five arrays `[..., B]`.
    """
    flat = (1,) * (place.ndim - 1) + (-1,)
    record = (jnp.minimum(place, fixed.jobs - 1) + fixed.base.reshape(flat)) * 4
    following = _take(fixed.records, record).astype(jnp.int32)
    job = _take(fixed.records, record + 1).astype(jnp.int32)
    word = jnp.arange(fixed.words, dtype=jnp.int32).reshape((fixed.words,) + (1,) * place.ndim)
    before = _take(fixed.bits, (job * fixed.words + fixed.bits_base.reshape(flat))[None] + word)
    pending = jnp.where(place < fixed.jobs, _count(before & ~done), fixed.jobs + 1)
    return following, job, _take(fixed.records, record + 2), _take(fixed.records, record + 3), pending


def _initial(place: jax.Array, fixed: _Fixed) -> _State:
    lanes = place.shape[-1]
    done = jnp.zeros((fixed.words, lanes), jnp.uint32)
    following, job, duration, demand, pending = _fetch(place, done[:, None, :], fixed)
    state = _State(
        time=jnp.zeros((lanes,), duration.dtype),
        following=following,
        job=job,
        remaining=duration,
        demand=demand,
        pending=pending,
        started=jnp.zeros(place.shape, duration.dtype),
        done=done,
    )
    return varying(state, place, fixed)


def _used(uses: jax.Array, value: jax.Array) -> jax.Array:
    """`value` where a resource is used, else 0 (a product, so that NaN and infinity are what they are everywhere)."""
    return uses.astype(value.dtype) * value


def _step(state: _State, fixed: _Fixed) -> tuple[_State, tuple[jax.Array, jax.Array, jax.Array]]:
    """Runs until the next job ends, ends it, and puts the next job of its accelerator at the head.

    Returns:
        The state, and the job that ended (J if none could) with its start and end, `[B]` each.
    """
    accelerators, resources, lanes = fixed.uses.shape
    ids = jnp.broadcast_to(jnp.arange(accelerators, dtype=jnp.int32)[:, None], (accelerators, lanes))

    # Who runs how fast. The sum is written out, and divided, so that the compiler keeps it and does not compute
    # it again for each accelerator.
    running = state.pending == 0
    asking = jnp.where(running, state.demand, 0.0)
    asked = functools.reduce(jnp.add, [_used(fixed.uses[a], asking[a][None, :]) for a in range(accelerators)])
    congestion = asked / fixed.shared
    slowdown = jnp.maximum(jnp.where(state.demand > 0, state.demand * fixed.inverse_private, 1.0), 1.0)
    for r in range(resources):
        slowdown = jnp.maximum(slowdown, _used(fixed.uses[:, r], congestion[r][None, :]))

    # Who ends first; nobody (-1) once all is done or in a deadlock: then nothing changes any more.
    def earlier(a, b):
        less = b[0] < a[0]
        return tuple(jnp.where(less, y, x) for x, y in zip(a, b, strict=True))

    left = jnp.where(running, state.remaining * slowdown, jnp.inf)
    elapsed, winner, place, ended, start = _reduce(
        earlier, (jnp.inf, -1, fixed.jobs, 0, 0), (left, ids, state.following, state.job, state.started)
    )
    ends = elapsed < jnp.inf
    elapsed = jnp.where(ends, elapsed, 0.0)
    time = state.time + elapsed
    remaining = jnp.maximum(state.remaining - jnp.where(running, elapsed[None, :] / slowdown, 0.0), 0.0)

    # What its end releases.
    word, shift = ended >> 5, (ended & 31).astype(jnp.uint32)
    bit = jnp.where(ends, jnp.left_shift(jnp.uint32(1), shift), jnp.uint32(0))
    mine = jnp.arange(fixed.words, dtype=jnp.int32)[:, None] == word[None, :]
    done = state.done | jnp.where(mine, bit[None, :], jnp.uint32(0))
    awaited = _take(fixed.bits, state.job * fixed.words + (word + fixed.bits_base)[None, :])
    pending = state.pending - ((awaited & bit[None, :]) != 0).astype(jnp.int32)

    # What comes next on its accelerator.
    following, job, duration, demand, awaits = _fetch(place, done, fixed)
    ending = ids == winner[None, :]
    after = _State(
        time=time,
        following=jnp.where(ending, following[None, :], state.following),
        job=jnp.where(ending, job[None, :], state.job),
        remaining=jnp.where(ending, duration[None, :], remaining),
        demand=jnp.where(ending, demand[None, :], state.demand),
        pending=jnp.where(ending, awaits[None, :], pending),
        # A head starts at the event that makes it ready; until then it carries the time of the last event.
        started=jnp.where(running & ~ending, state.started, time[None, :]),
        done=done,
    )
    return after, (jnp.where(ends, ended, fixed.jobs), start, time)


def _block(
    arguments: tuple[jax.Array, ...], link: Callable[..., Any] = _link, unroll: int = 1, compact: bool = False
) -> _Outcome:
    """Simulates B schedules side by side; the arguments of `simulate` with a leading axis of B or 1 each.

    What accelerators use is kept as bytes where it must be `compact`: a processor multiplies by numbers faster.
    """
    duration, traffic, bits, accelerator, order, uses, shared, private, mask = arguments
    dtype = duration.dtype
    uses = uses.astype(bool)
    lanes = max(x.shape[0] for x in arguments)
    words = bits.shape[2]
    accelerators, jobs = uses.shape[1], order.shape[1]

    def whole(x):
        return jnp.broadcast_to(x, (lanes, *x.shape[1:]))

    def ordered(x):
        return jnp.take_along_axis(whole(x), whole(order), axis=1, mode="promise_in_bounds")

    first, following = link(ordered(jnp.where(mask, accelerator, -1)).T, accelerators)
    at_full = jnp.where(duration > 0, traffic.astype(dtype) / duration, 0.0)
    records = jnp.stack(
        [following.T.astype(dtype), whole(order).astype(dtype), ordered(duration), ordered(at_full)], axis=-1
    )
    lane = jnp.arange(lanes, dtype=jnp.int32)
    has_all = (private > 0) & jnp.all(~uses | (shared > 0)[:, None, :], axis=2)
    fixed = _Fixed(
        records=records.reshape(-1),
        base=lane * jobs,
        bits=bits.reshape(-1),
        bits_base=lane * (jobs * words) if bits.shape[0] > 1 else jnp.zeros_like(lane),
        uses=jnp.moveaxis(whole(uses if compact else uses.astype(dtype)), 0, -1),
        shared=whole(jnp.where(shared > 0, shared, jnp.inf)).T.astype(dtype),
        inverse_private=whole(jnp.where(has_all, 1.0 / private, jnp.inf)).T.astype(dtype),
        jobs=jobs,
        words=words,
    )
    state, (ended, starts, ends) = lax.scan(
        lambda state, _: _step(state, fixed), _initial(first, fixed), None, length=jobs, unroll=unroll
    )

    never = whole(jnp.where(mask, jnp.inf, 0.0).astype(dtype))
    end = never.at[lane[None, :], ended].set(ends, mode="drop")
    running = state.pending == 0
    start = never.at[lane[None, :], jnp.where(running, state.job, jobs)].set(state.started, mode="drop")
    start = start.at[lane[None, :], ended].set(starts, mode="drop")
    all_ended = _count(state.done) == jnp.sum(mask, axis=1, dtype=jnp.int32)
    placed = jnp.all(~mask | ((accelerator >= 0) & (accelerator < accelerators)), axis=1)
    waiting = jnp.any(state.pending <= jobs, axis=0)
    stuck = jnp.where(jnp.any(running, axis=0), ENDLESS, jnp.where(placed & waiting, DEADLOCK, UNPLACED))
    return _Outcome(
        start=start,
        end=end,
        makespan=jnp.where(all_ended, state.time, jnp.inf),
        reason=jnp.where(all_ended, DONE, stuck).astype(jnp.int32),
    )


def _blocks(arguments: tuple[jax.Array, ...]) -> _Outcome:
    """Simulates B schedules in blocks whose state stays in the processor's cache."""
    lanes = max(x.shape[0] for x in arguments)
    # Arrays of 8 KiB: larger ones leave the first cache, and XLA splits the work on them among threads, which
    # costs more than it saves (measured by experiments/bench_fluid.py).
    most = max(32, 8192 // (arguments[0].dtype.itemsize * arguments[5].shape[1]))

    def one(varying: list[jax.Array]) -> _Outcome:
        rest = iter(varying)
        return _block(tuple(next(rest) if x.shape[0] > 1 else x for x in arguments))

    return in_blocks(one, [x for x in arguments if x.shape[0] > 1], most) if lanes > most else _block(arguments)


@custom_batching.custom_vmap
def _population(*arguments: jax.Array) -> _Outcome:
    """Simulates B schedules; vmapping it makes a longer population, not a deeper array.

    One schedule is a population of one. That way a caller's `jax.vmap(simulate)` meets code whose trailing axis
    is the population, which compiles to several times faster loops on a CPU than XLA's own batching does.
    """
    wide = functools.partial(_block, link=_link_at_once, unroll=_UNROLL, compact=True)
    return by_platform(arguments, cpu=_blocks, wide=wide, both=True)


@_population.def_vmap
def _(axis_size, in_batched, *arguments):
    lanes = max(x.shape[1 if batched else 0] for x, batched in zip(arguments, in_batched, strict=True))

    def flat(x, batched):
        if not batched and x.shape[0] == 1:
            return x  # shared by all
        x = x if batched else x[None]
        return jnp.broadcast_to(x, (axis_size, lanes, *x.shape[2:])).reshape(axis_size * lanes, *x.shape[2:])

    outcome = _population(*map(flat, arguments, in_batched))
    unflat = jax.tree.map(lambda x: x.reshape(axis_size, lanes, *x.shape[1:]), outcome)
    return unflat, jax.tree.map(lambda _: True, outcome)


def _run(*arguments: jax.Array) -> _Outcome:
    dtype = jnp.asarray(arguments[0]).dtype
    if dtype not in (jnp.float32, jnp.float64):  # records hold indices as floats, and times need the digits
        raise ValueError(f"duration is {dtype}, expected float32 or float64")
    return jax.tree.map(lambda x: x[0], _population(*(jnp.asarray(x)[None] for x in arguments)))


def _check_arguments(**given: ArrayLike) -> None:
    """Complains about arguments of `simulate` that do not fit each other."""
    if np.ndim(given["duration"]) != 1:
        shape = np.shape(given["duration"])
        remedy = "; this takes one schedule: jax.vmap(simulate) takes many" if len(shape) > 1 else ""
        raise ValueError(f"duration: expected shape [J], got {shape}{remedy}")
    jobs = np.shape(given["duration"])[0]
    accelerators, resources = (np.shape(given[name]) for name in ("private_bandwidth", "shared_bandwidth"))
    expected = {
        "bytes": (jobs,),
        "predecessor_bits": (jobs, max(1, -(-jobs // 32))),
        "accelerator": (jobs,),
        "order": (jobs,),
        "shared_uses": (*accelerators[:1], *resources[:1]),
        "shared_bandwidth": resources[:1],
        "private_bandwidth": accelerators[:1],
        "job_mask": (jobs,),
    }
    for name, shape in expected.items():
        if np.shape(given[name]) != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {np.shape(given[name])}")
    kinds = {
        "duration": jnp.floating,
        "predecessor_bits": jnp.unsignedinteger,
        "accelerator": jnp.integer,
        "order": jnp.integer,
        "job_mask": jnp.bool_,
    }
    for name, kind in kinds.items():
        if not jnp.issubdtype(jnp.result_type(given[name]), kind):
            raise ValueError(f"{name}: expected {kind.__name__} numbers, got {jnp.result_type(given[name])}")


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
        shared_bandwidth: `[R]` float, +inf for a resource that never limits (or is padding), 0 for one that
            lets nothing pass.
        private_bandwidth: `[A]` float, the least bandwidth among the resources that the accelerator has for
            itself; +inf where there is none (or the accelerator is padding).
        job_mask: `[J]` bool, false for padded jobs, which take no time on no accelerator.

    Returns:
        The timeline. A schedule that cannot end has an infinite makespan and says why in `reason`; where the
        order is topological and every job is on an accelerator with bandwidth, every job ends.

    Raises:
        ValueError: a shape does not fit the others, or a dtype is wrong, at trace time.

    Example:
        Two jobs of 4 time units on two accelerators; each asks for 2 bytes per time unit of a memory that has 3.

        >>> timeline = jax.jit(simulate)(
        ...     duration=jnp.array([4.0, 4.0]),
        ...     bytes=jnp.array([8.0, 8.0]),
        ...     predecessor_bits=jnp.zeros((2, 1), jnp.uint32),
        ...     accelerator=jnp.array([0, 1]),
        ...     order=jnp.array([0, 1]),
        ...     shared_uses=jnp.ones((2, 1)),
        ...     shared_bandwidth=jnp.array([3.0]),
        ...     private_bandwidth=jnp.array([jnp.inf, jnp.inf]),
        ...     job_mask=jnp.array([True, True]),
        ... )
        >>> print(f"{timeline.makespan:.3f}")
        5.333
    """
    _check_arguments(
        duration=duration,
        bytes=bytes,
        predecessor_bits=predecessor_bits,
        accelerator=accelerator,
        order=order,
        shared_uses=shared_uses,
        shared_bandwidth=shared_bandwidth,
        private_bandwidth=private_bandwidth,
        job_mask=job_mask,
    )
    start, end, makespan, reason = _run(
        duration,
        bytes,
        predecessor_bits,
        accelerator,
        order,
        shared_uses,
        shared_bandwidth,
        private_bandwidth,
        job_mask,
    )
    lost = jnp.maximum(end - start - jnp.where(job_mask, duration, 0.0), 0.0)
    return Timeline(start=start, end=end, stall=jnp.where(end < jnp.inf, lost, end), makespan=makespan, reason=reason)


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
    _, end, makespan, reason = _run(
        duration,
        bytes,
        predecessor_bits,
        accelerator,
        order,
        shared_uses,
        shared_bandwidth,
        private_bandwidth,
        job_mask,
    )
    return Completion(end=end, makespan=makespan, reason=reason)
