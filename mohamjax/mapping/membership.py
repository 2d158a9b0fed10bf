"""Tests which of many given loop nests lie in their map spaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mohamjax.dims import ALL, tensor_words
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import MapSpace, keeps_as_allowed, prescribed_places, stack_spaces
from mohamjax.runtime.struct import take

BLOCK = 4096  # nests tested at once; each takes about ten kilobytes


def lie_in(
    nests: Mapping, spaces: Sequence[MapSpace], which: np.ndarray, padded: np.ndarray | None = None
) -> np.ndarray:
    """Which loop nests respect the bounds, constraints, fanouts and capacities of their problems.

    The conditions are those of `encode`, which also tells what is wrong with a nest. On the host.

    Args:
        nests: leading axis `[n]`, padded to the levels of the spaces.
        spaces: map spaces of the problems, equally padded; at least one.
        which: `[n]` int, the problem of each nest.
        padded: `[n, D]` int, larger bounds that a nest states, which it may cover as well; 1 where it states none.

    Returns:
        `[n]` bool.
    """
    padded = np.ones((len(which), nests.temporal.shape[-1]), int) if padded is None else padded
    stacked = stack_spaces(spaces)
    good = np.zeros(len(which), bool)
    for first in range(0, len(which), BLOCK):
        rows = slice(first, first + BLOCK)
        good[rows] = _each(take(nests, rows), take(stacked, which[rows]), padded[rows])
    return good


def _each(nests: Mapping, own: MapSpace, padded: np.ndarray) -> np.ndarray:
    """Whether each nest `[n]` lies in its own map space `[n, ...]`."""
    levels, dims = own.constraints.temporal_max.shape[1:]
    temporal, spatial = np.asarray(nests.temporal), np.asarray(nests.spatial)
    order, spatial_order = np.asarray(nests.order), np.asarray(nests.spatial_order)
    factors = np.concatenate([temporal[:, None], spatial], axis=1).astype(float)  # [n, 3, L, D]
    orders = np.concatenate([order[:, None], spatial_order], axis=1)
    everything = (1, 2, 3)
    good = (factors >= 1).all(axis=everything)
    cover = factors.prod(axis=(1, 2))
    known = (cover[:, None] == own.bounds).any(axis=1)
    good &= (known | (cover == padded) & (padded > own.layer.bounds)).all(axis=1)
    good &= (np.sort(orders, axis=-1) == np.arange(dims)).all(axis=everything)
    good &= keeps_as_allowed(nests.keep, own.constraints).all(axis=(1, 2))
    limit = np.concatenate([own.constraints.temporal_max[:, None], own.constraints.spatial_max], axis=1)
    good &= (factors <= limit).all(axis=everything)
    good &= (factors.prod(axis=3) <= own.fanout.reshape(-1, 3, levels)).all(axis=(1, 2))
    good &= ordered(order, temporal > 1, np.asarray(own.constraints.order))

    extent = np.cumprod(factors.prod(axis=1), axis=1)  # [n, L, D]
    stride, dilation = (step.T[..., None].astype(float) for step in (own.layer.stride, own.layer.dilation))
    words = np.stack(tensor_words([extent[..., d] for d in ALL], stride, dilation), axis=-1)
    used = np.where(nests.keep, words, 0).sum(axis=-1)
    return good & (used <= own.capacity).all(axis=1)


def ordered(order: np.ndarray, loops: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Whether loops of bound above 1 follow the prescribed order, with the prescribed ones innermost; `[n]` bool.

    Args:
        order: `[n, L, D]`, permutations.
        loops: `[n, L, D]` bool, by dimension, whether the loop's bound is above 1.
        named: `[n, L, D]`, prescribed dimensions, innermost first; -1 where free.
    """
    dims = named.shape[-1]
    order = np.clip(order, 0, dims - 1)
    at = np.take_along_axis(prescribed_places(named), order, axis=2)
    at = np.where(at < dims, at, dims + np.arange(dims))
    at = np.where(np.take_along_axis(loops, order, axis=2), at, -1)
    rising = at >= np.maximum.accumulate(at, axis=2)
    return np.asarray((rising | (at < 0)).all(axis=(1, 2)))
