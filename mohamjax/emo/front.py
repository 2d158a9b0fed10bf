"""Fronts for reports and tables: their rows, few rows with most of a front's hypervolume, its knee and extremes.

`distinct_front` and `volume_subset` run on the host, where a front may have any number of rows; searches rank padded
rows (`emo.ranking`).
"""

from __future__ import annotations

import functools
from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import Array, as_objectives, as_ordered, check_shape, library_of, positive, precision


def distinct_front(objectives: np.ndarray) -> np.ndarray:
    """Rows that no other row dominates; of equal rows the first.

    Args:
        objectives: `[N, M]` float, without NaN.

    Returns:
        `[K]` int, row indices by rising first objective, then second, and so on.
    """
    order = np.lexsort(objectives.T[::-1])  # rows that dominate a row come before it
    keep = np.zeros(len(order), int)
    found = np.empty((len(order), objectives.shape[1]), objectives.dtype)  # kept rows, without gaps
    count = 0
    for i in order:
        row = objectives[i]
        if not (found[:count] <= row).all(axis=1).any():
            keep[count], found[count] = i, row
            count += 1
    return keep[:count]


_ONE_BY_ONE = 4096  # most excess rows that leave one by one; ten times as many would take a minute


def volume_subset(front: np.ndarray, reference: np.ndarray, most: int, keep: Collection[int] = ()) -> np.ndarray:
    """Rows of a front that hold nearly all of its hypervolume.

    The row whose own volume is least leaves, one after another (greedy reduction: Bradstreet, Barone and While, 2006).
    From much larger fronts several rows leave at a time. Reduction by crowding distance alone loses ten times as much
    volume.

    Args:
        front: `[N, M]` float, M of 2 or more, mutually non-dominated, all minimised.
        reference: `[M]` float, the reference point; rows that are not below it have no volume.
        most: largest number of rows that stay.
        keep: rows that stay in any case, at most `most`.

    Returns:
        `[K]` int, row indices, ascending; all rows if there are at most `most`.

    Raises:
        ValueError: `keep` has more than `most` rows.
    """
    if len(set(keep)) > most:
        raise ValueError(f"most: {len(set(keep))} rows are to stay, more than {most}")
    rows = np.arange(len(front))
    held = np.isin(rows, list(keep))
    while (excess := len(rows) - most) > 0:
        from moocore import hv_contributions  # takes a quarter of a second to import, and few searches need it

        own = np.where(held[rows], np.inf, hv_contributions(front[rows], ref=reference))
        rows = np.delete(rows, np.argsort(own, kind="stable")[: 1 + excess // _ONE_BY_ONE])
    return rows


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
