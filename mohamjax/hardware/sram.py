"""SRAM figures over size: curves through the rows of a table, looked up inside jit.

Axes: A read-write ports (1, 2); W widths; K knots of a curve, padded. A *curve* is one quantity of the memories of one
width and port count over their row counts: straight lines on logarithmic axes between *knots*. Every row of the table
is a knot. CACTI optimises the organisation of each memory anew, and its figures jump where that changes. A table with
close rows on both sides of a jump keeps the jump: halfway between them two knots share one row count, each with the
figures of its own side, so that every size takes those of the nearer row (`sram_curves`).
"""

from __future__ import annotations

import math
from collections import abc
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.runtime.blocks import varying
from mohamjax.runtime.platforms import short_scan

COSTS = ("read energy [pJ]", "write energy [pJ]", "area [um^2]")
"""Quantities of `SramCurves.costs`; energies per access."""

STANDBY = ("leakage [mW]", "access time [ns]", "cycle time [ns]")
"""Quantities of `SramCurves.standby`; leakage is that of the whole memory."""

_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Widths [bits] that every technology has curves for, so that the arrays of all have the same shapes."""

_KNOTS = 192
"""Fewest knots of a curve with its padding: enough for all packaged tables, so that these have the same shapes."""

_LAST = 30.0
"""Base-2 logarithm of the row count at which curves end."""

# How the Accelergy CACTI plug-in scales sizes below CACTI's range (component tables, `clamped` = 1): exponents of the
# row ratio of all quantities, and the rule of the energies for the width ratio.
_SMALL_ROWS = np.array([0.78, 0.78, 1.0, 1.0, 0.0, 0.0])
_WIDER = np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
_SMALL_WIDTH_SLOPE = 0.7

# Rows this close have a jump between them where a figure changes by this much more than size explains.
_NEAR = math.log2(1.04)
_JUMP = math.log2(1.01)
_STEEPEST = 1.2


class SramCurves(NamedTuple):
    """A table as arrays, NumPy float64.

    Attributes:
        costs: `[A, W, K, 3]`, base-2 logarithms of `COSTS` at the knots; NaN for a port count without rows.
        standby: `[A, W, K, 3]`, base-2 logarithms of `STANDBY` at the knots; NaN also where the table has none.
        rows: `[A, W, K]`, base-2 logarithms of the knots' row counts, rising from 0 to 30, inf in padding.
        widths: `[W]`, widths in bits, rising.
    """

    costs: np.ndarray
    standby: np.ndarray
    rows: np.ndarray
    widths: np.ndarray


class _Curve(NamedTuple):
    """Knots `[n]` (log2 rows, not falling) and the logarithms of all quantities there, `[n, 6]`."""

    x: np.ndarray
    y: np.ndarray


def sram_curves(rows: np.ndarray) -> SramCurves:
    """Makes the curves of a table on any grid of sizes; they pass through every row.

    Along the rows, curves are straight between the knots on logarithmic axes. Two neighbouring rows at most 4 % apart
    have a jump between them if a figure falls by over 1 %, or rises by over 1 % more than (row ratio)^1.2; each half
    then takes the figures of its own row. Below the smallest row count the rule of the Accelergy CACTI plug-in holds
    (energy * row_ratio^0.78, area and leakage linear, times constant); above the largest the slope of the last octave
    continues.

    Along the widths, figures are straight between neighbouring curves on logarithmic axes, also for common widths that
    a table lacks. Below the smallest width, energy is multiplied by (0.7 width_ratio + 0.3), area and leakage are
    linear; a wider memory counts as several of the widest side by side. Where only the other port count has rows of
    such widths, its ratio between the widths is used instead.

    Args:
        rows: `[R, 9]` float, columns as `technology.read_sram_rows` gives them.
    """
    widths = np.union1d(_WIDTHS, rows[:, 0])
    tabled: list[dict[float, _Curve]] = [{}, {}]
    for ports in (1, 2):
        of_port = rows[rows[:, 2] == ports]
        for width in np.unique(of_port[:, 0]):
            part = of_port[of_port[:, 0] == width]
            part = part[np.argsort(part[:, 1])]
            tabled[ports - 1][math.log2(width)] = _along_rows(np.log2(part[:, 1]), np.log2(part[:, 3:]))
    curves = [
        [_at_width(math.log2(width), own, tabled[1 - a]) for width in widths] if own else []
        for a, own in enumerate(tabled)
    ]
    longest = max(len(curve.x) for column in curves for curve in column)
    knots = max(_KNOTS, 32 * math.ceil((longest + 1) / 32))  # the last one is padding
    shape = (2, len(widths), knots)
    x, y = np.full(shape, np.inf), np.full((*shape, 6), np.nan)
    for a, column in enumerate(curves):
        for j, curve in enumerate(column):
            n = len(curve.x)
            x[a, j, :n], y[a, j, :n], y[a, j, n:] = curve.x, curve.y, curve.y[-1]
    return SramCurves(costs=y[..., :3], standby=y[..., 3:], rows=x, widths=widths)


def _along_rows(x: np.ndarray, y: np.ndarray) -> _Curve:
    """The curve of `[n]` log2 rows and `[n, 6]` log2 figures, with its jumps, continued outside the table."""
    for k, known in enumerate(np.isfinite(y).T):
        if known.any() and not known.all():  # rows that lack this figure take it from the curve of those that have it
            y = y.copy()
            y[~known, k] = _values(_along_rows(x[known], y[known]), x[~known])[:, k]
    step, change = np.diff(x)[:, None], np.diff(y, axis=0)
    with np.errstate(invalid="ignore"):
        leaps = np.any((change < -_JUMP) | (change > _STEEPEST * step + _JUMP), axis=1) & (step[:, 0] <= _NEAR)
    at = np.flatnonzero(leaps)
    middle = (x[at] + x[at + 1]) / 2
    slope = _SMALL_ROWS
    back = max(x[-1] - 1, x[0])
    if back < x[-1]:
        slope = (y[-1] - _values(_Curve(x, y), np.array([back]))[0]) / (x[-1] - back)
    x_end, y_end = [], []
    if x[-1] < _LAST:
        x_end, y_end = [_LAST], [y[-1] + (_LAST - x[-1]) * slope]
    if x[0] > 0:
        x, y, at = np.r_[0.0, x], np.concatenate([[y[0] - x[0] * _SMALL_ROWS], y]), at + 1
    knots = np.insert(x, np.repeat(at + 1, 2), np.repeat(middle, 2))
    figures = np.insert(y, np.repeat(at + 1, 2), y[np.stack([at, at + 1], axis=1).ravel()], axis=0)
    return _Curve(np.r_[knots, x_end], np.concatenate([figures, np.reshape(y_end, (-1, y.shape[1]))]))


def _values(curve: _Curve, x: np.ndarray) -> np.ndarray:
    """Log2 figures `[m, 6]` at log2 rows `[m]` within the curve; at a jump, those of the larger side."""
    i = np.clip(np.searchsorted(curve.x, x, side="right") - 1, 0, len(curve.x) - 2)
    t = ((x - curve.x[i]) / (curve.x[i + 1] - curve.x[i]))[:, None]
    return (1 - t) * curve.y[i] + t * curve.y[i + 1]


def _mixed(terms: Sequence[tuple[float, _Curve]], offset: np.ndarray) -> _Curve:
    """The weighted sum of curves and an offset, at all their knots."""
    if len(terms) == 1 and terms[0][0] == 1:
        return _Curve(terms[0][1].x, terms[0][1].y + offset)
    x = np.unique(np.concatenate([curve.x for _, curve in terms]))
    return _Curve(x, offset + sum(weight * _values(curve, x) for weight, curve in terms))


def _at_width(x: float, own: abc.Mapping[float, _Curve], other: abc.Mapping[float, _Curve]) -> _Curve:
    """The curve at log2 width `x` from those of this and of the other port count."""
    widths, reach = sorted(own), sorted(other)
    if widths[0] <= x <= widths[-1]:
        return _mixed(_between(x, widths, own), np.zeros(6))
    edge = widths[0] if x < widths[0] else widths[-1]
    if reach and reach[0] <= x <= reach[-1] and reach[0] <= edge <= reach[-1]:
        back = [(-weight, curve) for weight, curve in _between(edge, reach, other)]
        return _mixed([(1.0, own[edge]), *_between(x, reach, other), *back], np.zeros(6))
    if x > edge:
        return _mixed([(1.0, own[edge])], (x - edge) * _WIDER)
    energy = math.log2(_SMALL_WIDTH_SLOPE * 2.0 ** (x - edge) + 1 - _SMALL_WIDTH_SLOPE)
    return _mixed([(1.0, own[edge])], np.array([energy, energy, x - edge, x - edge, 0.0, 0.0]))


def _between(x: float, widths: list[float], curves: abc.Mapping[float, _Curve]) -> list[tuple[float, _Curve]]:
    """The neighbouring curves with the weights of linear interpolation."""
    high = min(w for w in widths if w >= x)
    low = max(w for w in widths if w <= x)
    if high == low:
        return [(1.0, curves[low])]
    t = (x - low) / (high - low)
    return [(1 - t, curves[low]), (t, curves[high])]


def sram_lookup(
    curves: tuple[jax.Array | np.ndarray, jax.Array | np.ndarray, jax.Array | np.ndarray],
    rows: jax.Array,
    width: jax.Array,
    ports: jax.Array,
    *,
    wider: float,
    energies: int = 0,
) -> jax.Array:
    """Looks up the figures of memories of any size on the curves.

    Below the narrowest curve, figures continue as between the two narrowest ones, energies in a straight line of the
    width. So these follow the rule of the Accelergy CACTI plug-in from the width that it starts at (32 bits in the
    packaged tables, whose rows of 8 and 16 bits are made by it), and fall at most as it says from the narrowest curve.

    Pure and jittable; `rows`, `width` and `ports` have the same shape.

    Args:
        curves: figures `[A, W, K, Q]`, see `SramCurves`, its `rows` `[A, W, K]` and its `widths` `[W]`; all float.
        rows: `[...]` float, from 1.
        width: `[...]` float, bits.
        ports: `[...]` int, 1 or 2.
        wider: static, exponent of the width by which the figures grow above the widest curve: 1 for what several
            memories side by side add up to, 0 for times.
        energies: static, how many of the Q quantities, from the first on, are energies.

    Returns:
        `[..., Q]` float, base-2 logarithms.
    """
    figures, knots, widths = map(jnp.asarray, curves)
    count, last = widths.shape[0], knots.shape[-1] - 1
    within = jnp.minimum(width, widths[-1])
    beyond = wider * jnp.log2(jnp.maximum(width / widths[-1], 1))[..., None]
    j = jnp.sum(within[..., None] >= widths[1:-1], axis=-1, dtype=jnp.int32)
    v = (jnp.log2(within / widths[j]) / jnp.log2(widths[j + 1] / widths[j]))[..., None]
    x = jnp.log2(jnp.minimum(rows, 2.0 ** (_LAST - 1)))
    flat, table = knots.reshape(-1), figures.reshape(-1, figures.shape[-1])
    column = jnp.clip(ports - 1, 0, 1) * count + j
    start = jnp.stack([column, column + 1]) * (last + 1)  # of the neighbouring widths' curves
    steps = jnp.asarray([1 << bit for bit in reversed(range(last.bit_length()))], jnp.int32)

    def halve(at: jax.Array, step: jax.Array) -> tuple[jax.Array, None]:
        # Padding is infinite, so that the last knot is never passed.
        ahead = jnp.minimum(at + step, start + last)
        return jnp.where(flat[ahead] <= x, ahead, at), None

    at, _ = short_scan(halve, varying(start, x), steps)
    left = flat[at]
    u = ((x - left) / (flat[at + 1] - left))[..., None]
    low, high = (1 - u) * table[at] + u * table[at + 1]
    found = low + v * (high - low) + beyond
    if not energies:
        return found
    slope = (jnp.exp2(high - low) - 1) / (widths[1] / widths[0] - 1)
    share = jnp.minimum(width / widths[0], 1)[..., None]
    narrow = low + jnp.log2(1 + jnp.clip(slope, 0, _SMALL_WIDTH_SLOPE) * (share - 1))
    return jnp.where((share < 1) & (jnp.arange(found.shape[-1]) < energies), narrow, found)
