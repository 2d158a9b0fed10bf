"""The loop of the fluid model: many schedules side by side, and in each of them one job ends per step.

The state of a schedule is one waiting or running job (the head) per accelerator. A step finds how fast the heads run,
ends the job that ends first, releases the jobs that waited for it, and makes the next job of its accelerator the head.
`scan` takes the steps as array operations; `schedule.timeline_kernel` takes the same steps in a GPU's registers.
`Means` are the operations that differ between the two.

Axes: B schedules, J jobs (padded), W words of 32 bits of predecessors, A accelerators (padded), R shared resources.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.runtime.blocks import varying

Stored: TypeAlias = Any
"""An array; in a kernel a reference to one, whose class differs between versions of JAX, or a tuple of its rows."""


class Fixed(NamedTuple):
    """What stays the same in all steps; the trailing axis B counts schedules.

    In a kernel `records` and `bits` are references, and `uses` and `shared` tuples of R arrays.
    """

    records: Stored  # [B * J * 4] following place, job, duration, demand for each place of the order
    base: jax.Array  # [B] i32, where the records of a schedule begin
    bits: Stored  # [J * W] or [B * J * W] u32, the predecessor bits
    bits_base: jax.Array  # [B] i32, where the bits of a schedule begin
    uses: Stored  # [A, R, B] 0 or 1, or bool
    shared: Stored  # [R, B] bandwidth; +inf where there is none (see inverse_private)
    inverse_private: jax.Array  # [A, B] 1 / bandwidth; +inf where some resource of the accelerator has none
    jobs: int
    words: int


class State(NamedTuple):
    """The head of every accelerator (the job that it runs or waits to run), and the jobs that have ended."""

    time: jax.Array  # [B]
    following: jax.Array  # [A, B] i32, place in the order of the job after the head; J where there is none
    job: jax.Array  # [A, B] i32, the head; undefined where no job is left
    remaining: jax.Array  # [A, B] remaining time at full rate
    demand: jax.Array  # [A, B] bytes per time unit at full rate
    pending: jax.Array  # [A, B] i32, predecessors of the head that have not ended; more than J where no job is left
    started: jax.Array  # [A, B] when the head first ran
    done: jax.Array  # [W, B] u32, jobs that have ended


def none_left(jobs: int) -> int:
    """`State.pending` where no job is left: even if each of the J steps takes one off, it stays above J."""
    return 2 * jobs + 1


class Steps(NamedTuple):
    """The jobs that the steps ended, and the state after the last step."""

    state: State
    ended: jax.Array  # [J, B] i32, the job that each step ended; J if none could
    starts: jax.Array  # [J, B] its start
    ends: jax.Array  # [J, B] its end


class Means(NamedTuple):
    """The operations of a step that differ between array code and a kernel."""

    larger: Callable[[jax.Array, jax.typing.ArrayLike], jax.Array]
    """The larger of two numbers; NaN where either is NaN, so that a job without an end never ends."""
    take: Callable[[Stored, jax.Array], jax.Array]
    """Elements of a flat array at indices within it."""
    count: Callable[[jax.Array], jax.Array]
    """Number of bits set, over the leading axis."""
    contended: Callable[[State, jax.Array, jax.Array, Fixed], jax.Array]
    """Slowdown `[A, B]` with shared resources, from the state, what heads ask for `[A, B]` and the slowdown without."""
    first: Callable[[jax.Array, jax.Array, tuple[jax.Array, ...], tuple[int, ...]], tuple[jax.Array, ...]]
    """Least of times `[A, B]`, its id and its entries of `values`; -1 and `others` where no time is finite."""


def _take(flat: jax.Array, index: jax.Array) -> jax.Array:
    return flat.at[index].get(mode="promise_in_bounds")


def reduced(operator, start, operand):
    """`lax.reduce` over the leading axis of a tuple of arrays.

    Written out for XLA's CPU compiler, which does not fuse such a reduction into its users, so that it is computed
    once. Unlike `jnp.min` and `jnp.sum`, it is also not handed to a library that is slow on short axes.

    Args:
        operator: of two tuples of scalars.
        start: a tuple of scalars, the neutral element of the operator.
        operand: a tuple of arrays `[n, ...]`.
    """
    return lax.reduce(
        operand, tuple(jnp.asarray(s, x.dtype) for s, x in zip(start, operand, strict=True)), operator, (0,)
    )


def set_bits(words: jax.Array) -> jax.Array:
    """Number of bits set, over the leading axis."""
    ones = lax.population_count(words).astype(jnp.int32)
    return reduced(lambda a, b: (a[0] + b[0],), (0,), (ones,))[0]


def _fetch(place: jax.Array, done: jax.Array, fixed: Fixed, means: Means):
    """The job at a place: its following place, index, duration, demand and number of pending predecessors.

    Args:
        place: `[..., B]` i32, J where no job is left.
        done: `[W, ..., B]` u32.
        fixed: the schedules.
        means: the operations to read and count with.

    Returns:
        Five arrays `[..., B]`.
    """
    flat = (1,) * (place.ndim - 1) + (-1,)
    record = (jnp.minimum(place, fixed.jobs - 1) + fixed.base.reshape(flat)) * 4
    following = means.take(fixed.records, record).astype(jnp.int32)
    job = means.take(fixed.records, record + 1).astype(jnp.int32)
    word = jnp.arange(fixed.words, dtype=jnp.int32).reshape((fixed.words,) + (1,) * place.ndim)
    before = means.take(fixed.bits, (job * fixed.words + fixed.bits_base.reshape(flat))[None] + word)
    pending = jnp.where(place < fixed.jobs, means.count(before & ~done), none_left(fixed.jobs))
    return following, job, means.take(fixed.records, record + 2), means.take(fixed.records, record + 3), pending


def initial(place: jax.Array, fixed: Fixed) -> State:
    """The state before the first step.

    Args:
        place: `[A, B]` i32, the first place of every accelerator, J where it has none.
        fixed: the schedules.
    """
    lanes = place.shape[-1]
    done = jnp.zeros((fixed.words, lanes), jnp.uint32)
    following, job, duration, demand, pending = _fetch(place, done[:, None, :], fixed, ARRAYS)
    state = State(
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
    """`value` where a resource is used, else 0 (a product, so that NaN and infinity give the same everywhere)."""
    return uses.astype(value.dtype) * value


def step(state: State, fixed: Fixed, means: Means) -> tuple[State, tuple[jax.Array, jax.Array, jax.Array]]:
    """Runs until the next job ends, ends it, and puts the next job of its accelerator at the head.

    Args:
        state: the state before the step.
        fixed: the schedules.
        means: the operations of a step.

    Returns:
        The state, and the job that ended (J if none could) with its start and end, `[B]` each.
    """
    accelerators, lanes = state.job.shape
    ids = jnp.broadcast_to(jnp.arange(accelerators, dtype=jnp.int32)[:, None], (accelerators, lanes))

    # How fast each head runs.
    running = state.pending == 0
    asking = jnp.where(running, state.demand, 0.0)
    alone = means.larger(jnp.where(state.demand > 0, state.demand * fixed.inverse_private, 1.0), 1.0)
    slowdown = means.contended(state, asking, alone, fixed)

    # Which head ends first; none (-1) once all jobs have ended or in a deadlock: then nothing changes any more.
    left = jnp.where(running, state.remaining * slowdown, jnp.inf)
    elapsed, winner, place, ended, start = means.first(
        left, ids, (state.following, state.job, state.started), (fixed.jobs, 0, 0)
    )
    ends = elapsed < jnp.inf
    elapsed = jnp.where(ends, elapsed, 0.0)
    time = state.time + elapsed
    remaining = means.larger(state.remaining - jnp.where(running, elapsed[None, :] / slowdown, 0.0), 0.0)

    # The jobs that its end releases.
    word, shift = ended >> 5, (ended & 31).astype(jnp.uint32)
    bit = jnp.where(ends, jnp.left_shift(jnp.uint32(1), shift), jnp.uint32(0))
    mine = jnp.arange(fixed.words, dtype=jnp.int32)[:, None] == word[None, :]
    done = state.done | jnp.where(mine, bit[None, :], jnp.uint32(0))
    awaited = means.take(fixed.bits, state.job * fixed.words + (word + fixed.bits_base)[None, :])
    pending = state.pending - ((awaited & bit[None, :]) != 0).astype(jnp.int32)

    # The next job of its accelerator.
    following, job, duration, demand, awaits = _fetch(place, done, fixed, means)
    ending = ids == winner[None, :]
    after = State(
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


def _contended(_: State, asking: jax.Array, slowdown: jax.Array, fixed: Fixed) -> jax.Array:
    accelerators, resources, _ = fixed.uses.shape
    # The sum is written out, and divided here, so that the compiler keeps it instead of computing it again for each
    # accelerator.
    asked = functools.reduce(jnp.add, [_used(fixed.uses[a], asking[a][None, :]) for a in range(accelerators)])
    congestion = asked / fixed.shared
    for r in range(resources):
        slowdown = jnp.maximum(slowdown, _used(fixed.uses[:, r], congestion[r][None, :]))
    return slowdown


def _first(
    left: jax.Array, ids: jax.Array, values: tuple[jax.Array, ...], others: tuple[int, ...]
) -> tuple[jax.Array, ...]:
    def earlier(a, b):
        less = b[0] < a[0]
        return tuple(jnp.where(less, y, x) for x, y in zip(a, b, strict=True))

    return reduced(earlier, (jnp.inf, -1, *others), (left, ids, *values))


ARRAYS = Means(larger=jnp.maximum, take=_take, count=set_bits, contended=_contended, first=_first)
"""Array operations."""


def _first_smooth(
    left: jax.Array, ids: jax.Array, values: tuple[jax.Array, ...], others: tuple[int, ...]
) -> tuple[jax.Array, ...]:
    left = jnp.where(left < jnp.inf, left, jnp.inf)
    at = jnp.argmin(left, axis=0)[None]
    least = jnp.take_along_axis(left, at, axis=0)[0]
    chosen = (
        (jnp.take_along_axis(x, at, axis=0)[0], other) for x, other in ((ids, -1), *zip(values, others, strict=True))
    )
    return least, *(jnp.where(least < jnp.inf, x, other) for x, other in chosen)


def with_asks(rate: jax.Array, binds: jax.Array, bandwidth: jax.Array) -> Means:
    """Array operations for one schedule (B = 1) whose jobs ask resources for amounts of their own.

    Args:
        rate: `[J, R]` float, what each job asks of each resource at full rate [bytes per time unit].
        binds: `[J, R]` bool, whether the resource slows the job.
        bandwidth: `[R]` float > 0.
    """

    def contended(state: State, _asking: jax.Array, slowdown: jax.Array, _fixed: Fixed) -> jax.Array:
        running = (state.pending == 0)[..., None]
        asked = jnp.sum(jnp.where(running, rate[state.job], 0.0), axis=0)  # [B, R]
        slowed = jnp.max(jnp.where(binds[state.job], asked / bandwidth, 0.0), axis=-1, initial=0.0)
        return jnp.maximum(slowdown, slowed)

    return ARRAYS._replace(contended=contended)


SMOOTH = ARRAYS._replace(first=_first_smooth)
"""Array operations with derivatives in JAX: a general `lax.reduce` has no derivative where only some operands vary."""


def scan(first: jax.Array, fixed: Fixed, unroll: int = 1, means: Means = ARRAYS) -> Steps:
    """All steps of B schedules.

    Args:
        first: `[A, B]` i32, first place of every accelerator, J where there is none.
        fixed: the schedules.
        unroll: steps per iteration of the loop.
        means: the operations of a step.
    """
    state, (ended, starts, ends) = lax.scan(
        lambda state, _: step(state, fixed, means), initial(first, fixed), None, length=fixed.jobs, unroll=unroll
    )
    return Steps(state=state, ended=ended, starts=starts, ends=ends)
