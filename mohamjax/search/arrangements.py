"""Ways to arrange chiplets on the places of a package, distinguished by the resources that chiplets then share.

Axes: S tiles, R arrangements of up to K chiplets, G groups of places, C resources.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import numpy as np

from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.struct import put, record
from mohamjax.schedule.design import Package

_MOST = 4096
"""Number of arrangements up to which all are tried; on the default package, nine chiplets have no more."""

_DRAWN = 1024
"""Random arrangements tried for more chiplets, beside exchanges of two; over twice as many are cut to this number."""

_LEAST = 16
"""Chiplets that tables have room for at least, so that searches of the default package share their programs. In larger
packages the programs follow the largest design, and may be compiled at the end of a search."""

_SIZES = 6, 9
"""Designs of up to so many chiplets have tables of their own, as larger tables would be mostly padding for them."""


@record
class Arrangements:
    """Ways to divide up to K chiplets among the places of a package; the first axis is the number of chiplets, 0 to K.

    The k-th chiplet stands on the k-th tile that is not empty. The first arrangement leaves all where they are.

    Attributes:
        group: `[K + 1, R, K]` int32, group of places that each chiplet goes to; -1 for missing chiplets.
        kind: `[K + 1, R]` int32 in 0..R-1, class of an arrangement: all of a class have the same latency.
        there: `[K + 1, R]` bool, the arrangement exists.
        place_group: `[K + 1, K]` int32, group of each place: places of a group use the same resources.
        load: `[K + 1, G, C]` float, cycles for which a byte of a chiplet of the group keeps each resource busy; 0 for
            resources that the group does not use.
    """

    group: jax.Array
    kind: jax.Array
    there: jax.Array
    place_group: jax.Array
    load: jax.Array


def arrangements(package: Package, chips: int | None = None) -> tuple[Arrangements, ...]:
    """The arrangements of a package, in tables for few, more and all chiplets (`_SIZES`), computed on the host.

    All arrangements where there are at most 4,096 (up to nine chiplets on the default package). For more chiplets the
    present one, exchanges of two chiplets, and random ones, the same in every search.

    Args:
        package: the package.
        chips: most chiplets of the designs at hand, rounded up to a power of two, at least 16; tables grow with its
            square. Default as many as there are tiles.
    """
    tables: Any = jax.device_get(package.tables)
    tiles = np.shape(tables.interface_of)[1]
    if chips is not None:
        tiles = min(tiles, power_of_two(chips, _LEAST))
    wide = np.asarray(jax.device_get(package.interface_bandwidth), float)
    trunks = tables.trunks
    bandwidth = wide if trunks is None else np.append(wide, np.full(trunks.shape[2], float(package.link_bandwidth)))
    known = []
    for n in range(1, tiles + 1):
        uses = tables.interface_of[n, :n, None] == np.arange(len(wide))
        uses = uses if trunks is None else np.concatenate([uses, trunks[n, :n]], axis=1)
        own, group = np.unique(uses, axis=0, return_inverse=True)
        rows = _divisions(group.reshape(-1), np.random.default_rng(n))
        known.append((rows, _classes(rows, own, bandwidth), own / bandwidth))
    sizes = sorted({min(size, tiles) for size in (*_SIZES, tiles)})
    return tuple(_padded(known[:size], len(bandwidth)) for size in sizes)


def _padded(known: list[tuple[np.ndarray, ...]], resources: int) -> Arrangements:
    """One table from divisions `[rows, n]`, their classes `[rows]` and loads `[groups, C]` of n = 1 to K chiplets."""
    chips = len(known)
    most, groups = max(len(rows) for rows, *_ in known), max(len(load) for *_, load in known)
    group, kind = np.full((chips + 1, most, chips), -1, np.int32), np.zeros((chips + 1, most), np.int32)
    there, loads = np.zeros((chips + 1, most), bool), np.zeros((chips + 1, groups, resources))
    for n, (rows, of, load) in enumerate(known, start=1):
        group[n, : len(rows), :n], kind[n, : len(rows)], there[n, : len(rows)] = rows, of, True
        loads[n, : len(load)] = load
    return Arrangements(
        group=put(group), kind=put(kind), there=put(there), place_group=put(group[:, 0]), load=put(loads, np.float32)
    )


def _divisions(group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """`[rows, n]` int, groups of n chiplets: `group` first, then all its other permutations, or a sample of them."""
    sizes = np.bincount(group)
    number = math.factorial(len(group)) // math.prod(math.factorial(int(size)) for size in sizes)
    if number <= _MOST:
        rows = np.zeros((1, 0), int)
        for _ in group:  # repeats each row for every group that has a place left
            left = sizes - np.stack([(rows == g).sum(axis=1) for g in range(len(sizes))], axis=1)
            row, following = np.nonzero(left)
            rows = np.concatenate([rows[row], following[:, None]], axis=1)
    else:
        exchanges = [_swapped(group, i, j) for i, j in itertools.combinations(range(len(group)), 2)]
        drawn = [rng.permutation(group) for _ in range(_DRAWN)]
        rows = np.unique(np.stack([*exchanges, *drawn]), axis=0)
        rows = rows[np.sort(rng.permutation(len(rows))[:_DRAWN])] if len(rows) > 2 * _DRAWN else rows
    return np.concatenate([group[None], rows[(rows != group).any(axis=1)]])


def _swapped(group: np.ndarray, i: int, j: int) -> np.ndarray:
    out = group.copy()
    out[[i, j]] = group[[j, i]]
    return out


def _classes(rows: np.ndarray, uses: np.ndarray, bandwidth: np.ndarray) -> np.ndarray:
    """`[rows]` int, the class of each arrangement: which sets of chiplets share resources of which bandwidth.

    Args:
        rows: `[rows, n]`, group of each chiplet.
        uses: `[G, C]` bool.
        bandwidth: `[C]` float.
    """
    # Sets of chiplets on a resource, as bits, are numbered by their place among all sets, as there may be more chiplets
    # than an integer has bits. Resources of equal bandwidth are interchangeable.
    bits = np.packbits(np.moveaxis(uses[rows], 1, 2), axis=2)
    sets = np.unique(bits.reshape(-1, bits.shape[2]), axis=0, return_inverse=True)[1].reshape(bits.shape[:2])
    same = [np.sort(sets[:, bandwidth == width], axis=1) for width in np.unique(bandwidth)]
    return np.unique(np.concatenate(same, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
