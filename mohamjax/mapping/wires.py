"""Wires of mappings on arrays larger than they need: a chiplet is as large as its most demanding layer.

How far words travel below a level depends on the width and the height of the whole array, not only on the part that a
mapping uses. Few widths, heights and ways to spread loops over children occur, so the hops are counted on the host,
once for every way and every size, and looked up in the evaluation.

Axes: U unique layers, T templates, M mappings, L levels, N levels with wires, K columns (a level, width and height);
where ways are counted, B ways to spread loops over E children of one level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.dims import DIMS, RELEVANT, WINDOWS, C, G, N, O, W
from mohamjax.hardware import TemplateArrays
from mohamjax.mapping.tables import MappingTables
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.struct import record
from mohamjax.workload import WorkloadShape

EVERY_SIZE = 16
"""Axes of templates with up to this many children are counted at every size."""

_UNCOUNTED = 1  # column of all arrays that were not counted


@record
class ArraySizes:
    """Sizes of the arrays that chiplets may have, and the columns of their wires.

    Attributes:
        level: `[T, N]` int32, levels whose networks cost energy; 0 in padding.
        width: `[T, N, H]` float, numbers of children along X that a chiplet may have there, rising; inf in padding.
        height: `[T, N, V]` float, the same along Y.
        start: `[T, N]` int32, column of the smallest width and height, at least 2; 0 in padding.
        step: `[T, N]` int32, columns from one width to the next.
    """

    level: jax.Array
    width: jax.Array
    height: jax.Array
    start: jax.Array
    step: jax.Array


@record
class Wires:
    """Words times hops of every mapping on every array that a chiplet may have.

    Attributes:
        sizes: the arrays.
        hops: `[U, T, M, K]` float, words times hops over all instances of the level; column 0, for padding, holds 0,
            and column 1, for arrays that were not counted, inf.
    """

    sizes: ArraySizes
    hops: jax.Array


def hop_columns(sizes: ArraySizes, fanout: jax.Array) -> jax.Array:
    """Columns of `Wires.hops` for a chiplet: `[N]` int32, one for each level with wires.

    Args:
        sizes: those of the chiplet's template, without the T axis.
        fanout: `[L, 2]` float, the chiplet's, NumPy or JAX. A level whose width and height `wires` did not count gets
            the column whose hops are infinite.
    """
    own = fanout[sizes.level]
    known = [(values, own[:, axis, None]) for axis, values in enumerate((sizes.width, sizes.height))]
    x, y = ((values < size).sum(axis=1) for values, size in known)
    counted, other = ((values == size).any(axis=1) for values, size in known)
    counted = counted & other | (sizes.start == 0)
    return counted * (sizes.start + x * sizes.step + y) + ~counted * _UNCOUNTED


def least_hops(wires: Wires, levels: int) -> np.ndarray:
    """Fewest words times hops of every mapping on any of the arrays, `[U, T, M, levels]`; 0 where wires are free."""
    sizes, hops = jax.tree.map(np.asarray, (wires.sizes, wires.hops))
    out = np.zeros((*hops.shape[:3], levels), hops.dtype)
    for t, n in zip(*np.nonzero(sizes.start), strict=True):
        start, step = sizes.start[t, n], sizes.step[t, n]
        columns = step * np.isfinite(sizes.width[t, n]).sum()
        out[:, t, :, sizes.level[t, n]] = hops[:, t, :, start : start + columns].min(axis=-1)
    return out


def _patterns(
    spatial: np.ndarray, order: np.ndarray, child: np.ndarray, stride: np.ndarray, dilation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Ways to spread loops over the children of one level.

    Args:
        spatial: `[E, 2, D]` factors of each of E mappings.
        order: `[E, 2, D]` their order.
        child: `[E, D]` extents of a child's tile.
        stride: `[E, 2]`.
        dilation: `[E, 2]`.

    Returns:
        Distinct ways `[B, 36]`: (dimension, factor) of the loops along X and Y, innermost first, those of factor 1 as
        (0, 1) at the end; then how far a step along P, R, Q, S moves the inputs, in units common to the two of a
        window. Also the index of each mapping's way, `[E]`.
    """
    factor = np.take_along_axis(spatial, order, axis=2)
    idle = factor == 1
    loops = np.stack([np.where(idle, 0, order), factor], axis=3)
    loops = np.take_along_axis(loops, np.argsort(idle, axis=2, kind="stable")[..., None], axis=2)
    spread = spatial.prod(axis=1)
    shifts = np.ones((len(spatial), 4), np.int64)
    for a, (out, tap) in enumerate(WINDOWS):
        both = (spread[:, out] > 1) & (spread[:, tap] > 1)  # one of them alone never makes two children coincide
        steps = np.stack([child[:, out] * stride[:, a], child[:, tap] * dilation[:, a]], axis=1)
        steps //= np.gcd(*steps.T)[:, None]
        shifts[:, 2 * a : 2 * a + 2] = np.where(both[:, None], steps, 1)
    rows = np.concatenate([loops.reshape(len(loops), -1), shifts], axis=1)
    first, which = _distinct(rows)
    return rows[first], which


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct rows of a contiguous array `[n, ...]`, and for each row which of these it equals, `[n]`."""
    whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).reshape(-1)  # compared as one value per row
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _groups(ways: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Children along X and Y `[B, 2]` of B ways, and per data space the group of each child, `[3, B, E]`.

    Children that hold the same tile share the number of a group, from 0 on; -1 stands for no child. Children are in the
    order of `mapping.children`. Two hold the same tile if they stand at the same offset (section 4 of
    docs/concepts/cost-model.md).
    """
    loops, shifts = ways[:, :-4].reshape(len(ways), -1, 2), ways[:, -4:, None]
    along = loops[..., 1].reshape(len(ways), 2, -1).prod(axis=2)
    count = along.prod(axis=1)
    child = np.arange(count.max())
    there = child < count[:, None]
    way, rest = np.arange(len(ways)), np.broadcast_to(child, there.shape)
    index, spread = np.zeros((len(ways), len(DIMS), len(child)), np.int64), np.ones((len(ways), len(DIMS)), np.int64)
    for d, factor in np.moveaxis(loops, 1, 0).swapaxes(1, 2):
        if np.any(factor > 1):
            rest, digit = np.divmod(rest, factor[:, None])
            index[way, d] += spread[way, d, None] * digit
            spread[way, d] *= factor
    windows = [index[:, p] * shifts[:, 2 * a] + index[:, r] * shifts[:, 2 * a + 1] for a, (p, r) in enumerate(WINDOWS)]
    offsets = [
        [index[:, d] for d in RELEVANT[W]],
        [index[:, G], index[:, N], index[:, C], *windows],
        [index[:, d] for d in RELEVANT[O]],
    ]
    groups = []
    for offset in offsets:
        number = np.zeros(there.shape, np.int64)
        for row in offset:
            number = number * (np.where(there, row, 0).max(axis=1, keepdims=True) + 1) + row
        groups.append(_numbered(np.where(there, number, -1)))
    return along, np.stack(groups)


def _numbered(values: np.ndarray) -> np.ndarray:
    """Distinct values of each row `[B, E]`, none below -1, numbered in rising order from 0; -1 stays -1."""
    order = np.argsort(values, axis=1, kind="stable")
    rising = np.take_along_axis(values, order, axis=1)
    steps = np.diff(rising, axis=1, prepend=-1) > 0
    out = np.empty_like(values)
    np.put_along_axis(out, order, np.cumsum(steps, axis=1) - 1, axis=1)
    return out


def _hops(groups: np.ndarray, across: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Hops of one word for every group, summed, on meshes of H numbers of columns and V of rows: `[B, H, V]`.

    Counted as in `children.sorted_groups`: the last column, and in each column the way from between the middle rows up
    to the group's first row and down to its last.

    Args:
        groups: `[B, E]` the group of each child, -1 where there is none.
        across: `[B, H]` numbers of columns.
        along: `[B, V]` numbers of rows.
    """
    way, child = np.nonzero(groups >= 0)
    row, column = np.divmod(child, across[way].T)  # on each mesh
    count, width, height = groups.max() + 1, column.max() + 1, row.max() + 1
    mesh = way * across.shape[1] + np.arange(across.shape[1])[:, None]
    cell = ((mesh * count + groups[way, child]) * width + column).reshape(-1)
    order = np.argsort(cell, kind="stable")  # within a column of a group, by rising row
    cell, place = cell[order], (mesh * height + row).reshape(-1)[order]
    edge = np.flatnonzero(np.diff(cell)) + 1
    first, last = np.append(0, edge), np.append(edge - 1, len(cell) - 1)
    farthest = np.zeros((*across.shape, count), np.int64)
    farthest.reshape(-1)[cell[last] // width] = cell[last] % width  # cells rise, so that the last column stays
    found = farthest.sum(axis=2)[..., None].astype(float)
    middle = (along[:, None, :] - 1) / 2 - np.arange(height)[:, None]  # [B, height, V]
    for ends, away in ((first, middle), (last, -middle)):
        held = np.bincount(place[ends], minlength=across.size * height).reshape(*across.shape, height)
        found = found + held @ np.maximum(away, 0)
    return found


def _counted(ways: np.ndarray, widths: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Hops of one word for every group, summed: `[B, 3, H, V]` for B ways and the three data spaces."""
    out = np.zeros((len(ways), 3, len(widths), len(heights)))
    children = ways[:, 1:-4:2].prod(axis=1)
    rising = np.argsort(children, kind="stable")
    at = int(np.searchsorted(children[rising], 2))  # a single child is not on a network
    while at < len(ways):
        # Blocks of ways with similar numbers of children, as long as their arrays stay small.
        room = _BLOCK // (len(widths) * children[rising[at]])
        largest = children[rising[min(at + room, len(ways) - 1)]]
        block = rising[at : at + max(1, _BLOCK // (len(widths) * largest))]
        own, groups = _groups(ways[block])
        # Ways, and data spaces of one way, often have equal groups, which are counted once.
        rows = np.concatenate([np.tile(own, (3, 1)), groups.reshape(-1, groups.shape[2])], axis=1)
        first, which = _distinct(rows)
        columns, lengths = (np.maximum(sizes, rows[first, axis, None]) for axis, sizes in enumerate((widths, heights)))
        hops = _hops(rows[first, 2:], columns, lengths)
        out[block] = np.moveaxis(hops[which].reshape(3, len(block), *hops.shape[1:]), 0, 1)
        at += len(block)
    return out


_BLOCK = 1 << 16
"""Most children times numbers of columns of ways that are counted at once."""

_KEPT = 1 << 13
"""Most ways whose hops are kept, of 6 kB each."""

_known: dict[tuple[bytes, bytes, bytes], np.ndarray] = {}


def _hops_of_ways(ways: np.ndarray, widths: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """`_counted`, kept for axes of up to 16 sizes: the same mappings are counted several times."""
    if max(len(widths), len(heights)) > EVERY_SIZE:
        return _counted(ways, widths, heights)
    axes = widths.tobytes(), heights.tobytes()
    keys = [(*axes, way.tobytes()) for way in ways]
    found = [_known.get(key) for key in keys]
    new = [i for i, hops in enumerate(found) if hops is None]
    if new:
        counted = _counted(ways[new], widths, heights)
        if len(_known) + len(new) > _KEPT:
            _known.clear()
        for i, hops in zip(new, counted, strict=True):
            found[i] = hops
            if len(_known) < _KEPT:
                _known[keys[i]] = hops.copy()  # a view would keep the whole array
    return np.stack([hops for hops in found if hops is not None])


def axis_sizes(largest: int, used: np.ndarray) -> np.ndarray:
    """Numbers of children along an axis of the arrays whose wires are counted, rising.

    If few are possible, all of them: sizes then follow from the template alone. Else those that occur, and the largest.
    """
    if largest <= EVERY_SIZE:
        return np.arange(1, largest + 1)
    return np.unique([*used[used > 0], largest]).astype(np.int64)


def _padded(count: int) -> int:
    """A number of sizes or columns, rounded up by at most an eighth."""
    step = max(1, power_of_two(count) // 16)
    return step * -(-count // step)


def wires(
    layers: Sequence[WorkloadShape],
    templates: TemplateArrays,
    tables: MappingTables,
    given: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> Wires:
    """Counts the wires of all mappings of Pareto tables on all arrays that chiplets with them may have.

    Axes of up to 16 children are counted at every size: the shapes of the result then follow from the templates and the
    shape of the tables, and all tables of one problem share one program. Longer axes are counted at the lengths that
    mappings of the template use, at the template's largest, and at those that a user states; the number of lengths is
    padded, and programs are compiled anew where it changes by more than an eighth. Every chiplet that is as large as
    its mappings need is counted; the wires of any other have infinite hops (`hop_columns`). On the host.

    Args:
        layers: shapes of the U unique layers.
        templates: templates, leading axis `[T]`.
        tables: Pareto tables `[U, T, M, ...]`.
        given: templates `[n]` of chiplets, and fanouts `[n, L, 2]` that a user states for them; -1 where not stated.

    Returns:
        `Wires`, NumPy arrays in the float dtype of the tables.
    """
    machine = jax.tree.map(np.asarray, templates.machine)
    nest = jax.tree.map(np.asarray, tables.mapping)
    dtype = np.asarray(tables.cycles).dtype
    exists = tables.exists
    stride, dilation = (np.asarray([getattr(x, name) for x in layers], np.int64) for name in ("stride", "dilation"))
    costly = (machine.hop_energy > 0) | np.asarray(templates.wired)
    costly &= machine.level_mask & (machine.fanout.prod(axis=2) > 1)

    widths: dict[tuple[int, int], list[np.ndarray]] = {}
    columns: dict[tuple[int, int], tuple[tuple[np.ndarray, ...], np.ndarray]] = {}
    for t in range(costly.shape[0]):
        at = np.nonzero(exists[:, t])
        spatial, order, temporal = (
            getattr(nest, name)[:, t][at].astype(np.int64) for name in ("spatial", "spatial_order", "temporal")
        )
        tiles = np.cumprod(spatial.prod(axis=1) * temporal, axis=1)
        fanout, words = (np.asarray(x)[:, t][at].astype(float) for x in (tables.fanout, tables.delivered))
        for level in map(int, np.flatnonzero(costly[t])):
            said = np.zeros((0, 2)) if given is None else np.asarray(given[1])[np.asarray(given[0]) == t][:, level]
            used = np.concatenate([fanout[:, level], said])
            axes = [axis_sizes(int(machine.fanout[t, level, axis]), used[:, axis]) for axis in range(2)]
            widths[t, level] = axes
            if not len(at[0]):
                continue  # the template runs none of the layers
            child = tiles[:, level - 1] if level else np.ones_like(tiles[:, 0])
            ways, which = _patterns(spatial[:, :, level], order[:, :, level], child, stride[at[0]], dilation[at[0]])
            of_ways = _hops_of_ways(ways, *axes).reshape(len(ways), 3, -1)
            columns[t, level] = at, np.einsum("ev,evk->ek", words[:, level], of_ways[which])

    shape = len(costly), max(1, *costly.sum(axis=1))
    room = [max([1, *(len(axes[axis]) for axes in widths.values())]) for axis in range(2)]
    total = np.full(len(costly), 1 + _UNCOUNTED, np.int32)  # column 0 is for padding
    level, start, step = (np.zeros(shape, np.int32) for _ in range(3))
    width, height = (np.full((*shape, _padded(n)), np.inf, dtype) for n in room)
    filled = np.zeros(len(costly), np.int32)
    for (t, own), (across, along) in widths.items():
        n = filled[t]
        level[t, n], start[t, n], step[t, n] = own, total[t], len(along)
        width[t, n, : len(across)], height[t, n, : len(along)] = across, along
        filled[t] += 1
        total[t] += len(across) * len(along)
    hops = np.zeros((*exists.shape, _padded(int(max(total)))), dtype)
    hops[..., _UNCOUNTED] = np.inf
    for (t, own), ((unique, entry), counted) in columns.items():
        first = start[t, list(level[t]).index(own)]
        hops[unique, t, entry, first : first + counted.shape[1]] = counted
    sizes: Any = ArraySizes(level=level, width=width, height=height, start=start, step=step)  # pyright: ignore[reportArgumentType]
    return Wires(sizes=sizes, hops=hops)  # pyright: ignore[reportArgumentType]
