"""Designs of a front that one looks at first: the knee and the extremes."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_objectives, precision

__all__ = ["extremes", "knee_point"]


def knee_point(front: ArrayLike, *, log: bool = False) -> jax.Array:
    """Row of a front that is nearest to its ideal point.

    Every objective is scaled to [0, 1] between its smallest and largest value in the front (an objective
    without span counts 0), after the logarithm if `log`; the ideal point is then the origin, and the distance
    Euclidean.
    Ties: the first row. Rows with an objective that is not finite (with `log`: not finite and positive) do
    not take part. Jitted; N, M and `log` are static. Vmappable.

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
    if f.shape[0] == 0:
        return jnp.int32(-1)
    taken = jnp.all(jnp.isfinite(f) & (f > 0) if log else jnp.isfinite(f), axis=1)
    # Halved, so that the difference of two finite values is finite.
    scaled = jnp.log(jnp.where(taken[:, None], f, 1)) if log else f / 2
    ideal = jnp.min(jnp.where(taken[:, None], scaled, jnp.inf), axis=0)
    span = jnp.max(jnp.where(taken[:, None], scaled, -jnp.inf), axis=0) - ideal
    share = jnp.where(span > 0, (scaled - ideal) / jnp.where(span > 0, span, 1), 0)
    distance = jnp.where(taken, jnp.sum(share**2, axis=1), jnp.inf)
    return jnp.where(jnp.any(taken), jnp.argmin(distance), -1).astype(jnp.int32)


def extremes(front: ArrayLike) -> jax.Array:
    """Row with the smallest value of every objective; ties: the first row. Jitted, vmappable.

    Args:
        front: `[N, M]` floats, minimised, N >= 1; NaN counts as +inf.

    Returns:
        `[M]` int32.

    Raises:
        ValueError: If the front is empty.
    """
    with precision(front):
        f = as_objectives(front)
        if f.shape[0] == 0:
            raise ValueError("front: an empty front has no extremes")
        return _extremes(f)


@jax.jit
def _extremes(f: jax.Array) -> jax.Array:
    return jnp.argmin(f, axis=0).astype(jnp.int32)
