"""Notable designs of a front: the knee and the extremes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import Array, as_objectives, as_ordered, check_shape, library_of, positive, precision


def knee_point(front: ArrayLike, *, log: bool = False) -> jax.Array:
    """Row of a front that is nearest to its ideal point.

    Every objective is scaled to [0, 1] between its smallest and largest value in the front, after the logarithm if
    `log`; an objective without span counts as 0. The ideal point is then the origin, and the distance is Euclidean.
    Ties go to the first row. Rows with an objective that is not finite (with `log`: not finite and positive) do not
    take part. Jitted; N, M and `log` are static. Vmappable.

    Args:
        front: `[N, M]` floats, minimised.
        log: Static. Scale the logarithms, for objectives that span decades.

    Returns:
        `[]` int32; -1 if no row takes part.
    """
    with precision(front):
        return _knee_point(as_objectives(front), log)


@functools.partial(jax.jit, static_argnames="log")
def _knee_point(f: jax.Array, log: bool) -> jax.Array:
    return _knee(f, log).astype(jnp.int32)


def _knee(f: Array, log: bool) -> Array:
    """The row of the knee, or -1."""
    x = library_of(f)
    if f.shape[0] == 0:
        return x.asarray(-1)
    taken = x.all(x.isfinite(f) & (f > 0) if log else x.isfinite(f), axis=1)
    # Halved, so that the difference of two finite values is finite.
    scaled = x.log(x.where(taken[:, None], f, 1)) if log else f / 2
    ideal = x.min(x.where(taken[:, None], scaled, x.inf), axis=0)
    span = x.max(x.where(taken[:, None], scaled, -x.inf), axis=0) - ideal
    share = x.where(span > 0, (scaled - ideal) / x.where(span > 0, span, 1), 0)
    distance = x.where(taken, x.sum(share**2, axis=1), x.inf)
    return x.where(x.any(taken), x.argmin(distance), -1)


def extremes(front: ArrayLike) -> jax.Array:
    """Row with the smallest value of each objective; ties go to the first row. Jitted, vmappable.

    Args:
        front: `[N, M]` floats, minimised, N >= 1; NaN counts as +inf.

    Returns:
        `[M]` int32.

    Raises:
        ValueError: If the front is empty.
    """
    with precision(front):
        f = as_ordered(front)
        if f.shape[0] == 0:
            raise ValueError("front: an empty front has no extremes")
        return _extremes(f)


@jax.jit
def _extremes(f: jax.Array) -> jax.Array:
    return jnp.argmin(f, axis=0).astype(jnp.int32)


def landmark_rows(front: ArrayLike) -> list[int]:
    """The rows of `extremes` and that of `knee_point` on logarithms, without compiling anything.

    Args:
        front: `[N, M]` floats, minimised, N >= 1, not negative; a cost of 0 counts as a tiny one (`positive`).

    Returns:
        M + 1 rows: those with the least value of each objective, then the knee, -1 if no row is finite.

    Raises:
        ValueError: If the front is empty, does not have two axes, or has no objective.
    """
    values = np.asarray(front)
    check_shape(values)
    if not len(values):
        raise ValueError("front: an empty front has no landmarks")
    values = np.where(np.isnan(values), np.inf, values)
    with np.errstate(invalid="ignore"):  # if no row takes part
        knee = _knee(positive(values), True)
    return [*values.argmin(axis=0).tolist(), int(knee)]
