"""Many given loop nests at once: which of them lie in a map space."""

from __future__ import annotations

from typing import Any

import numpy as np

from mohamjax.dims import ALL, tensor_words
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import MapSpace

__all__ = ["lie_in"]


def lie_in(nests: Mapping, space: MapSpace) -> np.ndarray:
    """Which loop nests keep the bounds, the constraints, the fanouts and the capacities of a problem.

    The conditions are those of `encode`, which says of a single nest what is wrong with it. On the host.

    Args:
        nests: leading axis `[n]`, padded to the levels of the space.
        space: one problem.

    Returns:
        `[n]` bool.
    """
    own: Any = space
    levels, dims = own.constraints.temporal_max.shape
    temporal, spatial = np.asarray(nests.temporal), np.asarray(nests.spatial)
    order, spatial_order = np.asarray(nests.order), np.asarray(nests.spatial_order)
    factors = np.concatenate([temporal[:, None], spatial], axis=1).astype(float)  # [n, 3, L, D]
    orders = np.concatenate([order[:, None], spatial_order], axis=1)
    everything = (1, 2, 3)
    good = (factors >= 1).all(axis=everything)
    good &= (factors.prod(axis=(1, 2)) == np.asarray(own.layer.bounds)).all(axis=1)
    good &= (np.sort(orders, axis=-1) == np.arange(dims)).all(axis=everything)
    good &= (np.asarray(nests.keep) == np.asarray(own.constraints.keep)).all(axis=(1, 2))
    good &= (factors <= np.asarray(own.limit).reshape(3, levels, dims)).all(axis=everything)
    good &= (factors.prod(axis=3) <= np.asarray(own.fanout).reshape(3, levels)).all(axis=(1, 2))
    good &= _ordered(order, temporal > 1, np.asarray(own.constraints.order))

    extent = np.cumprod(factors.prod(axis=1), axis=1)  # [n, L, D]
    stride, dilation = np.asarray(own.layer.stride, float), np.asarray(own.layer.dilation, float)
    words = np.stack(tensor_words([extent[..., d] for d in ALL], stride, dilation), axis=-1)
    used = np.where(own.constraints.keep, words, 0).sum(axis=-1)
    return good & (used <= np.asarray(own.capacity)).all(axis=1)


def _ordered(order: np.ndarray, loops: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Whether the loops above 1 stand as the template prescribes: those it names first, as it names them; `[n]` bool.

    Args:
        order: `[n, L, D]`, permutations.
        loops: `[n, L, D]` bool, by dimension, the loop is above 1.
        named: `[L, D]`, dimensions innermost first, -1 where free.
    """
    levels, dims = named.shape
    wanted = np.full((levels, dims), -1)
    for level, place in zip(*np.nonzero(named >= 0), strict=True):
        wanted[level, named[level, place]] = place
    order = np.clip(order, 0, dims - 1)
    at = np.take_along_axis(np.broadcast_to(wanted, order.shape), order, axis=2)
    at = np.where(at >= 0, at, dims + np.arange(dims))
    at = np.where(np.take_along_axis(loops, order, axis=2), at, -1)
    rising = at >= np.maximum.accumulate(at, axis=2)
    return np.asarray((rising | (at < 0)).all(axis=(1, 2)))
