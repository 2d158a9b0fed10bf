"""Exclusive hypervolume of rows, estimated along directions, for survival and archives.

A ray starts at the reference point in each of D directions. For each row it ends where it leaves the region that the
row dominates. The row with the longest ray holds the direction; the volume beyond the second longest ray is the row's
own. Directions are the same in every program, so a holder can only be replaced by a row that reaches further. The
estimate is one pass over all pairs of rows and directions, without a loop over rows, and the compiler cannot reorder
its additions.

Source: Deng and Zhang, "Approximating hypervolume and hypervolume contributions using polar coordinate", 2019; Shang,
Ishibuchi and Ni, "R2-based hypervolume contribution approximation", 2020.

Axes: N rows, M objectives, D directions.
"""

from __future__ import annotations

import functools
import statistics

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo._arrays import positive
from mohamjax.runtime.blocks import in_fitting_blocks, steady_sum

DIRECTIONS = 1024
"""Directions of survival: enough for populations of some hundreds, and few enough to cost little."""

PAIRS = 1 << 19  # rows times directions of a block on a CPU: what its caches hold
_WIDE_PAIRS = 1 << 27  # the same on an accelerator
_FLAT = 1e-4  # least component of a direction: a ray parallel to a wall would never leave


@functools.cache
def inverse_directions(count: int, objectives: int) -> np.ndarray:
    """`[D, M]` float64, reciprocal components of unit vectors spread evenly over the positive orthant.

    Normally distributed components come from an additive recurrence of low discrepancy (Roberts, 2018), so that any
    first part of the directions is spread evenly too.
    """
    root = 2.0
    for _ in range(64):
        root = (1 + root) ** (1 / (objectives + 1))
    steps = root ** -np.arange(1.0, objectives + 1)
    share = (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0
    normal = np.vectorize(statistics.NormalDist().inv_cdf)(0.5 + np.clip(share, 1e-9, 1 - 1e-9) / 2)
    return 1 / np.maximum(normal / np.linalg.norm(normal, axis=1, keepdims=True), _FLAT)


def depth(values: jax.Array, box: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Depth of rows in a box, `[N, M]`: 0 at its reference point or beyond, 1 at its ideal point or better.

    Args:
        values: `[N, M]` floats, minimised; +inf counts as the reference point.
        box: ideal and reference point, `[M]` each, the latter larger.
    """
    ideal, reference = (jnp.asarray(point, values.dtype) for point in box)
    return jnp.clip((reference - values) / (reference - ideal), 0, 1)


def holders(inside: jax.Array, directions: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The row that reaches furthest in each direction.

    Args:
        inside: `[N, M]` floats from 0 to 1, from `depth`; rows that do not count are 0.
        directions: static, D.

    Returns:
        `row` `[D]` int32, the first of the rows that reach furthest, N where no row reaches beyond 0; `reach` `[D]`,
        its reach; `second` `[D]`, the largest reach of the other rows.
    """
    rows, objectives = inside.shape
    inverse = jnp.asarray(inverse_directions(directions, objectives), inside.dtype)
    place = jnp.arange(rows, dtype=jnp.int32)

    def held(inverse: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        columns = [inside[:, None, k] * inverse[:, k] for k in range(objectives)]
        rays = functools.reduce(jnp.minimum, columns)  # [N, D]
        longest = jnp.max(rays, axis=0, initial=0)
        first = jnp.min(jnp.where(rays == longest, place[:, None], rows), axis=0, initial=rows)
        second = jnp.max(jnp.where(place[:, None] == first, 0, rays), axis=0, initial=0)
        return jnp.where(longest > 0, first, rows), longest, second

    most, wide = (max(1, pairs // max(rows, 1)) for pairs in (PAIRS, _WIDE_PAIRS))
    return in_fitting_blocks(held, inverse, most, wide)


def exclusive_volume(inside: jax.Array, directions: int = DIRECTIONS) -> jax.Array:
    """Estimated share of the box that each row alone dominates, `[N]`, up to a factor common to all rows.

    A direction adds the part of its ray that is the row's own, times the row's reach to the power M - 1: to first order
    the difference of the M-th powers, without an addition that compilers might contract. Equal rows have no volume of
    their own.

    Args:
        inside: see `holders`.
        directions: static, D.
    """
    row, reach, second = holders(inside, directions)
    power = inside.shape[1] - 1
    own = (reach - second) * reach**power
    # All directions of a row write the same sum, so the order of writing does not matter.
    sums = steady_sum(jnp.where(row[:, None] == row, own, 0))
    return jnp.zeros(inside.shape[0], inside.dtype).at[row].set(sums, mode="drop")


def least_product(objectives: jax.Array, alive: jax.Array, exponents: jax.Array | None) -> jax.Array:
    """`[N]` bool: the row with the least product of powers of its objectives; none without exponents.

    Args:
        objectives: `[N, M]` floats, not negative.
        alive: `[N]` bool, rows that count.
        exponents: `[M]` float; None for no row.
    """
    if exponents is None:
        return jnp.zeros(alive.shape, bool)
    logarithms = jnp.sum(exponents * jnp.log(positive(objectives)), axis=1)
    return alive & (jnp.arange(len(alive)) == jnp.argmin(jnp.where(alive, logarithms, jnp.inf)))


def guarded(values: jax.Array, alive: jax.Array, corners: jax.Array | None, capacity: int) -> jax.Array:
    """`[N]` bool: rows that a full archive keeps regardless of crowding, at most half of its slots.

    Args:
        values: `[N, M]` floats, objectives on the axes of crowding (`_arrays.measured`).
        alive: `[N]` bool, rows that count.
        corners: `[2, M]`, ideal and reference point; None guards nothing.
        capacity: static, slots of the archive.
    """
    # The ends of the front stay as well, and some row must be able to leave.
    directions = min(DIRECTIONS, capacity // 2, capacity - 2 * values.shape[1])
    if corners is None or directions <= 0:
        return jnp.zeros(alive.shape, bool)
    inside = jnp.where(alive[:, None], depth(values, (corners[0], corners[1])), 0)
    row, _, _ = holders(inside, directions)
    return jnp.zeros(alive.shape, bool).at[row].set(True, mode="drop")
