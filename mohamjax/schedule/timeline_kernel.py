"""The loop of the fluid model as one kernel: the state of a few schedules stays in a GPU's registers for all steps.

As array operations, every step of `schedule.timeline` writes the state of all schedules to memory and reads it again:
an estimated two fifths of the memory traffic of a generation of islands. Here a warp takes `LANES` schedules through
all their steps, and each step writes only the job that it ended. The steps are those of `timeline.step`; sums over
accelerators may be in another order, so that times can differ in the last digit.

The kernel is written in Pallas and compiled by Triton, for NVIDIA GPUs from compute capability 8.0 on.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from mohamjax.runtime.blocks import power_of_two
from mohamjax.schedule.timeline import Fixed, Means, State, Steps, Stored, initial, none_left, step

LANES = 16
"""Schedules per warp; the state of twice as many does not fit its registers."""


def larger_of(one: jax.Array, other: jax.typing.ArrayLike) -> jax.Array:
    """The larger of two arrays, element by element; NaN where either is NaN."""
    # Not `jnp.maximum`, which ignores NaN in Triton.
    return jnp.where((one >= other) | (one != one), one, other)


def _take(flat: Stored, index: jax.Array) -> jax.Array:
    return triton.load(flat.at[index])


def _count(words: jax.Array) -> jax.Array:
    # As signed integers: Triton counts the bits of no others.
    return jnp.sum(lax.population_count(lax.bitcast_convert_type(words, jnp.int32)), axis=0)


def _contended(_: State, asking: jax.Array, slowdown: jax.Array, fixed: Fixed) -> jax.Array:
    for uses, bandwidth in zip(fixed.uses, fixed.shared, strict=True):
        congestion = jnp.sum(uses * asking, axis=0) / bandwidth
        slowdown = larger_of(slowdown, uses * congestion[None, :])
    return slowdown


def _first(
    left: jax.Array, ids: jax.Array, values: tuple[jax.Array, ...], others: tuple[int, ...]
) -> tuple[jax.Array, ...]:
    left = jnp.where(left < jnp.inf, left, jnp.inf)  # NaN becomes infinite too
    least = jnp.min(left, axis=0)
    ends = least < jnp.inf
    winner = jnp.where(ends, jnp.argmin(left, axis=0).astype(jnp.int32), -1)
    own = ids == winner[None, :]

    def of_winner(value: jax.Array, other: int) -> jax.Array:
        return jnp.where(
            ends, jnp.sum(jnp.where(own, value, jnp.zeros_like(value)), axis=0), jnp.asarray(other, value.dtype)
        )

    return least, winner, *(of_winner(value, other) for value, other in zip(values, others, strict=True))


_REGISTERS = Means(larger=larger_of, take=_take, count=_count, contended=_contended, first=_first)


def _kernel(*refs: Stored, jobs: int, words: int, resources: int, shared_bits: bool) -> None:
    """All steps of the `LANES` schedules of one program instance."""
    fields = len(State._fields)
    records, bits, uses, shared, inverse_private, *given = refs[: 5 + fields]
    ended, starts, ends, *final = refs[5 + fields :]
    begin = pl.program_id(0) * LANES
    lanes = pl.ds(begin, LANES)
    lane = begin + jnp.arange(LANES, dtype=jnp.int32)
    fixed = Fixed(
        records=records,
        base=lane * jobs,
        bits=bits,
        bits_base=jnp.zeros_like(lane) if shared_bits else lane * (jobs * words),
        uses=tuple(uses[:, r, lanes] for r in range(resources)),
        shared=tuple(shared[r, lanes] for r in range(resources)),
        inverse_private=inverse_private[:, lanes],
        jobs=jobs,
        words=words,
    )

    def one(i: jax.Array, state: State) -> State:
        state, (job, start, end) = step(state, fixed, _REGISTERS)
        ended[i, lanes], starts[i, lanes], ends[i, lanes] = job, start, end
        return state

    state = lax.fori_loop(0, jobs, one, State(*(ref[..., lanes] for ref in given)))
    for ref, value in zip(final, state, strict=True):
        ref[..., lanes] = value


def run(first: jax.Array, fixed: Fixed, *, interpret: bool = False) -> Steps:
    """All steps of B schedules, in place of `timeline.scan`.

    Args:
        first: `[A, B]` i32, first place of every accelerator, J where there is none.
        fixed: the schedules, in single precision.
        interpret: run as array operations, on any platform: for tests.
    """
    accelerators, lanes = first.shape
    jobs, words = fixed.jobs, fixed.words
    resources = fixed.uses.shape[1]
    shared_bits = fixed.bits.size == jobs * words  # one set for all schedules serves the padding too
    # Triton's array sizes are powers of two; nothing runs on the accelerators that are added.
    rows, columns = power_of_two(accelerators) - accelerators, -lanes % LANES
    wide = power_of_two(words) - words
    bits = jnp.pad(fixed.bits.reshape(-1, words), ((0, 0), (0, wide))).reshape(-1)
    if not shared_bits:
        bits = jnp.pad(bits, (0, columns * jobs * (words + wide)))

    def padded(value: jax.Array, fill: float = 0, by: int = 0) -> jax.Array:
        """Adds `by` rows, and columns up to whole warps."""
        more = ((0, by), *[(0, 0)] * (value.ndim - 2), (0, columns))[-value.ndim :]
        return jnp.pad(value, more, constant_values=fill)

    state = initial(first, fixed)
    # The state of an accelerator without jobs.
    none = {"following": jobs, "job": 0, "remaining": 0, "demand": 0, "pending": none_left(jobs), "started": 0}
    given = State(
        time=padded(state.time),
        done=padded(state.done, by=wide),
        **{name: padded(getattr(state, name), fill, rows) for name, fill in none.items()},
    )
    dtype, total = state.time.dtype, lanes + columns
    operands = (
        jnp.pad(fixed.records, (0, columns * jobs * 4)),
        bits,
        padded(fixed.uses.astype(dtype), by=rows),
        padded(fixed.shared, jnp.inf),
        padded(fixed.inverse_private, by=rows),
        *given,
    )
    shaped = functools.partial(_shaped, like=operands[0])
    shapes = [shaped((jobs, total), kind) for kind in (jnp.int32, dtype, dtype)]
    shapes += [shaped(leaf.shape, leaf.dtype) for leaf in given]
    ended, starts, ends, *final = pl.pallas_call(
        functools.partial(_kernel, jobs=jobs, words=words + wide, resources=resources, shared_bits=shared_bits),
        out_shape=shapes,
        grid=(total // LANES,),
        compiler_params=triton.CompilerParams(num_warps=1, num_stages=1),
        interpret=interpret,
        name="timeline",
    )(*operands)
    state = State(*final)
    state = State(
        time=state.time[:lanes],
        done=state.done[:words, :lanes],
        **{name: getattr(state, name)[:accelerators, :lanes] for name in none},
    )
    return Steps(state=state, ended=ended[:, :lanes], starts=starts[:, :lanes], ends=ends[:, :lanes])


def _shaped(shape: tuple[int, ...], dtype: jax.typing.DTypeLike, like: jax.Array) -> jax.ShapeDtypeStruct:
    """Shape of a kernel's output, marked inside `jax.shard_map` as different from device to device if `like` is."""
    kind = jax.typeof(like)
    mark = "manual_axis_type" if hasattr(kind, "manual_axis_type") else "vma"  # older JAX has the latter
    return jax.ShapeDtypeStruct(shape, dtype, **{mark: getattr(kind, mark)})
