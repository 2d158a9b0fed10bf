"""Independent jobs behind one shared bandwidth: the fluid model in closed form, for whole populations.

With one resource every running job is slowed alike (G#, Algorithm 1: shares are proportional to demands, so that all
grants are the same fraction). Hence all cores share a clock: *work time* v, in which every job takes its no-stall
duration and every core runs its jobs back to back. One unit of work time lasts max(1, D(v) / bandwidth), where D(v) is
the total demand of the jobs that run at v. The makespan is the integral of that up to the end of the longest core. Ends
in work time are prefix sums, and D changes by a known step at each end, so that two sorts and a few scans replace a
simulation event by event.

This equals `fluid.simulate` for jobs without predecessors where one resource serves all accelerators, and only there.

Axes: B schedules, J jobs (padded), A accelerators. Internally B is the trailing axis, which compiles to fast loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.runtime.blocks import in_blocks, power_of_two
from mohamjax.runtime.platforms import by_platform

_PRIORITY_BITS = 16
PRIORITY_LEVELS = 2**_PRIORITY_BITS
"""Priorities in [0, 1] are compared in this many equal steps; within a step the lower job number goes first."""


_LANES = 256  # schedules of a block on a CPU


def _level(priority: jax.Array) -> jax.Array:
    return jnp.clip(priority * float(PRIORITY_LEVELS), 0, PRIORITY_LEVELS - 1).astype(jnp.int32)


def link_fits(jobs: int, accelerators: int) -> bool:
    """Whether so many jobs and accelerators, padding included, fit the closed form, as 1024 on 63 or 2048 on 31 do."""
    return (jobs - 1).bit_length() + accelerators.bit_length() + _PRIORITY_BITS <= 32


def priority_order(priority: jax.typing.ArrayLike) -> jax.Array:
    """Jobs by rising priority value, in the order in which `link_makespan` runs them: `[..., J]` int32 permutation."""
    return jnp.argsort(_level(jnp.asarray(priority)), axis=-1, stable=True).astype(jnp.int32)


def _sorted(operands: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Sorts arrays `[J, B]` along J, a power of two, by the first of them: Batcher's bitonic network.

    Every stage is a few element-wise operations along the population. On a CPU XLA's own sort of several operands calls
    a comparator per pair and takes five times as long (`experiments/gsharp_speed.py` measures both).
    """
    size = operands[0].shape[0]
    row = jnp.arange(size, dtype=jnp.int32)
    stages = [(2 << b, 1 << d) for b in range(size.bit_length() - 1) for d in reversed(range(b + 1))]

    def stage(operands: tuple[jax.Array, ...], now: jax.Array) -> tuple[tuple[jax.Array, ...], None]:
        block, distance = now
        other = tuple(x.at[row ^ distance].get(mode="promise_in_bounds") for x in operands)
        keeps_smaller = (((row & distance) == 0) == ((row & block) == 0))[:, None]
        swap = jnp.where(keeps_smaller, other[0] < operands[0], other[0] > operands[0])
        return tuple(jnp.where(swap, o, x) for o, x in zip(other, operands, strict=True)), None

    return lax.scan(stage, operands, jnp.asarray(stages, jnp.int32))[0]


def _shift(x: jax.Array, by: int, fill: jax.typing.ArrayLike) -> jax.Array:
    """Rows moved down by `by`; the first ones are `fill`."""
    return jnp.concatenate([jnp.full((by, *x.shape[1:]), fill, x.dtype), x[:-by]])


def _by_core(accelerator: jax.Array, priority: jax.Array, accelerators: int, mask: jax.Array):
    """Jobs by core, then priority: `core` and `job`, `[J, B]` int32; padded jobs come last, as jobs of core A.

    Core, priority and job are packed into one word, since sorting single integers is many times faster.
    """
    jobs = accelerator.shape[1]
    job_bits = (jobs - 1).bit_length()
    if not link_fits(jobs, accelerators):
        raise ValueError(f"{jobs} jobs on {accelerators} accelerators do not fit {32 - _PRIORITY_BITS} bits together")
    core = jnp.where(mask, accelerator, accelerators).astype(jnp.uint32)
    job = jnp.arange(jobs, dtype=jnp.uint32)
    level = _level(priority).astype(jnp.uint32)
    word = (core << (job_bits + _PRIORITY_BITS)) | (level << job_bits) | job
    word = lax.sort(word, dimension=1, is_stable=False).T
    core = (word >> (job_bits + _PRIORITY_BITS)).astype(jnp.int32)
    return core, (word & ((1 << job_bits) - 1)).astype(jnp.int32)


def _difference(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The difference as a rounded number and what rounding left out, which add up to it exactly (Knuth's TwoSum)."""
    rounded = a - b
    virtual = rounded - a
    return rounded, (a - (rounded - virtual)) - (b + virtual)


def _added(one: tuple[jax.Array, jax.Array], other: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """The sum of two numbers that are each a pair of a float and its rest: twice the precision of one float."""
    total, rest = _difference(one[0], -other[0])
    rest = rest + (one[1] + other[1])
    rounded = total + rest
    return rounded, rest - (rounded - total)


def _events(accelerator, priority, duration, demand, mask):
    """End in work time, the exact step of D there as a pair of floats, and the job; `[J, B]` in `_by_core`'s order."""
    jobs, accelerators = duration.shape
    core, job = _by_core(accelerator, priority, accelerators, mask)
    at = (job, jnp.minimum(core, accelerators - 1))
    real = core < accelerators
    length, asked = jnp.where(real, duration[at], 0), jnp.where(real, demand[at], 0)
    end, by = length, 1
    while by < jobs:
        # Rows of a core are contiguous: two rows belong to one core only if all rows between them do.
        end = end + jnp.where(core == _shift(core, by, -1), _shift(end, by, 0), 0)
        by *= 2
    first = core != _shift(core, 1, -1)
    last = jnp.concatenate([first[1:], jnp.ones_like(first[:1])])
    following = jnp.concatenate([asked[1:], jnp.zeros_like(asked[:1])])
    return end, _difference(jnp.where(last, 0, following), asked), job


def _elapsed(end: jax.Array, step: tuple[jax.Array, jax.Array], bandwidth: jax.typing.ArrayLike) -> jax.Array:
    """Real time between each end and the one before it, `[J, B]`; the inputs are sorted by end.

    D before an end is what the steps from there on take away, as D is 0 after the last end. It is summed with twice the
    precision: a job of large demand that has ended must leave no error beside the small demands that follow.
    """
    asked = -lax.associative_scan(_added, step, reverse=True)[0]  # total demand in the stretch before each end
    stretch = end - _shift(end, 1, 0)
    slow = jnp.maximum(jnp.where(asked > 0, asked / bandwidth, 0), 1)
    # After an infinite end a stretch is inf - inf and counts as 0; the makespan is infinite already.
    return jnp.where(stretch > 0, stretch * slow, 0)


def _padded(*arrays: jax.Array) -> tuple[jax.Array, ...]:
    """The arrays with rows of zeros appended up to the next power of two."""
    more = power_of_two(arrays[0].shape[0], 2) - arrays[0].shape[0]
    return tuple(jnp.pad(x, [(0, more), (0, 0)]) for x in arrays)


def _cached(run: Callable[[jax.Array, jax.Array], jax.Array], accelerator: jax.Array, priority: jax.Array):
    """Runs `run` on blocks of schedules one after another, which fit a CPU's cache; `[B, ...]`.

    In a loop over several blocks, XLA's CPU compiler also runs each step on one thread: steps as short as these take
    longer to run and to compile if they are split among threads.
    """
    return in_blocks(lambda block: run(*block), (accelerator, priority), _LANES)


def _population(run: Callable[[jax.Array, jax.Array], jax.Array], accelerator: jax.Array, priority: jax.Array):
    return by_platform(accelerator, priority, cpu=functools.partial(_cached, run), wide=run, both=True)


def link_makespan(
    accelerator: jax.Array,
    priority: jax.Array,
    duration: jax.Array,
    demand: jax.Array,
    bandwidth: jax.typing.ArrayLike,
    mask: jax.Array,
) -> jax.Array:
    """Makespan of B schedules of one job table. Pure; the caller jits, and vmaps over tables.

    Args:
        accelerator: `[B, J]` int32 in 0..A-1, where each job runs.
        priority: `[B, J]` float in [0, 1]; among the jobs of an accelerator, smaller values run earlier.
        duration: `[J, A]` float, no-stall time of each job; +inf where it cannot run.
        demand: `[J, A]` float >= 0, bytes per time unit that a job asks for.
        bandwidth: `[]` float > 0, bytes per time unit, shared by all accelerators; +inf for no limit.
        mask: `[J]` bool, false for padded jobs.

    Returns:
        `[B]` float; +inf if a job is on an accelerator that cannot run it.

    Raises:
        ValueError: too many jobs and accelerators for a word of 32 bits (1024 jobs on 63 accelerators fit).
    """

    def run(accelerator: jax.Array, priority: jax.Array) -> jax.Array:
        end, step, _ = _events(accelerator, priority, duration, demand, mask)
        # Padding is sorted to the front, at time 0, and changes nothing.
        end, *step = _sorted(_padded(end, *step))
        return jnp.sum(_elapsed(end, (step[0], step[1]), bandwidth), axis=0)

    return _population(run, accelerator, priority)


def link_ends(
    accelerator: jax.Array,
    priority: jax.Array,
    duration: jax.Array,
    demand: jax.Array,
    bandwidth: jax.typing.ArrayLike,
    mask: jax.Array,
) -> jax.Array:
    """End of every job `[B, J]`: 0 for padded jobs, +inf from a job that cannot run on; see `link_makespan`."""

    def run(accelerator: jax.Array, priority: jax.Array) -> jax.Array:
        lanes, jobs = accelerator.shape
        end, step, job = _events(accelerator, priority, duration, demand, mask)
        end, *step, job = _sorted(_padded(end, *step, job + 1))  # job + 1, so that padding is 0
        real = jnp.cumsum(_elapsed(end, (step[0], step[1]), bandwidth), axis=0)
        out = jnp.zeros((lanes, jobs), real.dtype)
        out = out.at[jnp.arange(lanes)[None, :], jnp.where(job > 0, job - 1, jobs)].set(
            jnp.where(jnp.isfinite(end), real, jnp.inf), mode="drop"
        )
        return jnp.where(mask, out, 0)

    return _population(run, accelerator, priority)
