"""Exact hypervolume for one to three objectives."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_floats, as_objectives, narrowed, precision
from mohamjax.emo.wide import profiles
from mohamjax.runtime.blocks import pairwise_sum
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import is_traced


def hypervolume(front: ArrayLike, reference: ArrayLike) -> jax.Array:
    """Volume of the region that the rows dominate, up to a reference point; all objectives minimised.

    Rows that are not strictly below the reference in every objective add 0; so rows of +inf or NaN may serve as
    padding. Dominated and duplicate rows add 0 by definition; an empty front has 0. A row at -inf makes the volume
    infinite, a NaN in the reference makes it NaN. The rows are sorted by their last objective, and each adds its
    exclusive volume over the profile of those before it: only positive terms, summed pairwise, so float32 keeps about
    six digits. For three objectives work is O(N^2), and memory O(N) on a CPU; for two work is O(N log N). Jitted; N and
    M are static. Vmappable.

    Args:
        front: `[N, M]` floats, M = 1, 2 or 3; an empty front may have shape `[0]`.
        reference: `[M]` floats.

    Returns:
        `[]`, dtype of the front; the default one for a front of the host where the reference is traced.

    Raises:
        ValueError: If M is not 1, 2 or 3 or the reference has another M.

    Examples:
        >>> float(hypervolume(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.array([3.0, 3.0])))
        3.0
    """
    # Derivatives by the reference are taken after the context has ended: then all is in the default precision.
    with contextlib.nullcontext() if is_traced(reference) else precision(front):
        # An empty list has no columns: it counts as a front with as many objectives as the reference.
        rows, point = as_floats(front), as_floats(reference)
        f = as_objectives(rows.reshape(0, *point.shape) if rows.shape == (0,) else rows)
        point = point.astype(f.dtype)
        if f.shape[1] > 3:
            raise ValueError(f"front: the hypervolume is exact for 1 to 3 objectives, got {f.shape[1]}")
        if point.shape != f.shape[1:]:
            raise ValueError(f"reference: expected shape {f.shape[1:]}, got {point.shape}")
        found = _hypervolume(f, point)
    return narrowed(found, front)


@jax.jit
def _hypervolume(f: jax.Array, reference: jax.Array) -> jax.Array:
    n, m = f.shape
    if n == 0:
        return jnp.where(jnp.any(jnp.isnan(reference)), jnp.nan, jnp.zeros((), f.dtype))
    inside = jnp.all(f < reference, axis=1)
    extent = reference - f
    unbounded = jnp.any(inside & jnp.any(jnp.isinf(extent), axis=1))
    # Rows that add nothing are moved to the reference, and all rows are if the volume is infinite anyway.
    extent = jnp.where((inside & ~unbounded)[:, None], extent, 0)
    volume = (_length, _area, _volume)[m - 1](extent)
    return jnp.where(jnp.any(jnp.isnan(reference)), jnp.nan, jnp.where(unbounded, jnp.inf, volume))


def _length(extent: jax.Array) -> jax.Array:
    return jnp.max(extent[:, 0])


def _area(extent: jax.Array) -> jax.Array:
    order = jnp.argsort(-extent[:, 1])
    width, height = extent[order, 0], extent[order, 1]
    covered = jnp.concatenate([jnp.zeros(1, width.dtype), lax.cummax(width)[:-1]])
    return pairwise_sum(height * jnp.maximum(width - covered, 0))


_MOST_AT_ONCE = 8192  # most rows of which all pairs are held in memory


def _volume(extent: jax.Array) -> jax.Array:
    """Rows by falling third extent; `profile` is the height covered so far per strip of the first axis."""
    strips = jnp.sort(extent[:, 0])
    widths = jnp.diff(strips, prepend=jnp.zeros(1, strips.dtype))
    order = jnp.argsort(-extent[:, 2])
    rows = extent[order]
    areas = by_platform(strips, widths, rows, cpu=_areas, wide=_areas_at_once if len(rows) <= _MOST_AT_ONCE else _areas)
    return pairwise_sum(areas * rows[:, 2])


def _areas(strips: jax.Array, widths: jax.Array, rows: jax.Array) -> jax.Array:
    """Area `[N]` that each row `[N, 3]` adds to the area covered by the rows before it."""
    # A row covers the strips that end at or before its own extent.
    reach = jnp.searchsorted(strips, rows[:, 0], side="right").astype(jnp.int32)
    strip = jnp.arange(strips.shape[0], dtype=jnp.int32)

    def add(profile: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        height, end = row
        raised = jnp.where(strip < end, jnp.maximum(profile, height), profile)
        return raised, jnp.sum(widths * (raised - profile))

    return lax.scan(add, jnp.zeros_like(widths), (rows[:, 1], reach))[1]


def _areas_at_once(strips: jax.Array, widths: jax.Array, rows: jax.Array) -> jax.Array:
    """The same as `_areas`, in a few wide steps."""
    reach = jnp.sum(strips <= rows[:, :1], axis=1, dtype=jnp.int32)
    before, after = profiles(rows[:, 1], reach)
    return jnp.sum(widths * (after - before), axis=1)
