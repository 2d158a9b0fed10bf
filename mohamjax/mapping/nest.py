"""The loop-nest encoding: one layer on one machine as integer arrays of fixed shape.

Axes: L levels, innermost first, padded at the outer end; D loop dimensions (`workload.DIMS`); V data spaces.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import jax
import numpy as np

from mohamjax.dims import DIMS
from mohamjax.runtime.checks import check_arrays
from mohamjax.runtime.struct import record

if TYPE_CHECKING:
    from mohamjax.workload import WorkloadShape

Array = jax.Array | np.ndarray
"""An array field: NumPy on the host, else JAX."""


@record
class LayerArrays:
    """A workload shape as arrays.

    Attributes:
        bounds: `[D]` int32, loop bounds in the order of `workload.DIMS`.
        stride: `[2]` int32, along the first (P, R) and second (Q, S) axis.
        dilation: `[2]` int32, along the first and second axis.
    """

    bounds: Array
    stride: Array
    dilation: Array


@record
class Mapping:
    """A loop nest. A dimension's factors, over all levels, multiply to its bound or to a larger, padded one.

    The spatial loops of a level run over its children and lie inside its temporal loops; all X loops lie inside
    all Y loops. The factors of a padded level are 1.

    Attributes:
        temporal: `[L, D]` int32, temporal factors.
        order: `[L, D]` int32, a permutation of the dimensions per level: `order[l, 0]` is the innermost loop.
        spatial: `[2, L, D]` int32, factors along X (index 0) and Y (index 1).
        spatial_order: `[2, L, D]` int32, permutations like those of `order`, for the X and the Y loops.
        keep: `[L, V]` bool, data spaces stored at the level; the others bypass it.
    """

    temporal: Array
    order: Array
    spatial: Array
    spatial_order: Array
    keep: Array

    @property
    def spatial_x(self) -> Array:
        """`[L, D]`, the factors along X, behind any leading axes."""
        return self.spatial[..., 0, :, :]

    @property
    def spatial_y(self) -> Array:
        """`[L, D]`, the factors along Y, behind any leading axes."""
        return self.spatial[..., 1, :, :]


def leading_axes(layer: LayerArrays, mapping: Mapping, kept: tuple[int, ...]) -> tuple[int, ...]:
    """Checks shapes and dtypes of a layer and its mappings; returns the leading axes of the mappings.

    Args:
        layer: no leading axis, or those of the mappings.
        mapping: all fields have the same leading axes.
        kept: (L, V), numbers of levels and data spaces of the machine.

    Raises:
        ValueError: a shape or dtype is wrong; under `jit` at trace time.
    """
    dims = len(DIMS)
    lead, own = np.shape(mapping.temporal)[:-2], np.shape(layer.bounds)[:-1]
    nest = (kept[0], dims)
    shapes = {"temporal": nest, "order": nest, "spatial": (2, *nest), "spatial_order": (2, *nest), "keep": kept}
    check_arrays(
        "mappings.",
        {name: getattr(mapping, name) for name in shapes},
        {name: (*lead, *shape) for name, shape in shapes.items()},
        {name: bool if name == "keep" else int for name in shapes},
        "; all fields have the same leading axes",
    )
    axes = own if own in ((), lead) else lead
    shapes = {"bounds": (*axes, dims), "stride": (*axes, 2), "dilation": (*axes, 2)}
    check_arrays("layer.", {name: getattr(layer, name) for name in shapes}, shapes, dict.fromkeys(shapes, int))
    return lead


def covered(mapping: Mapping) -> np.ndarray:
    """Bounds that mappings cover, `[..., D]` int64: those of their layer, or padded ones. On the host."""
    temporal, spatial = np.asarray(mapping.temporal, np.int64), np.asarray(mapping.spatial, np.int64)
    return temporal.prod(axis=-2) * spatial.prod(axis=(-3, -2))


def padded(mapping: Mapping, bounds: np.ndarray) -> np.ndarray:
    """Padded bounds that mappings cover, `[..., D]` int64; 1 where they cover the layer's own. On the host.

    Args:
        mapping: leading axes `[...]`.
        bounds: `[..., D]` int, loop bounds of each mapping's layer.
    """
    cover = covered(mapping)
    return np.where(cover == bounds, 1, cover)


def padded_shape(shape: WorkloadShape, mapping: Mapping) -> WorkloadShape:
    """A layer's shape with the bounds that one mapping of it covers: the problem that the mapping computes."""
    return dataclasses.replace(shape, **dict(zip(DIMS, covered(mapping).tolist(), strict=True)))


def padded_names(row: np.ndarray) -> dict[str, int]:
    """The padded bounds in one row of `padded`, by the letters of their dimensions."""
    return {DIMS[d]: int(bound) for d, bound in enumerate(row) if bound > 1}


def pad_mapping(mapping: Mapping, levels: int) -> Mapping:
    """A loop nest, padded with levels of loops of bound 1 outside its outermost level.

    Args:
        mapping: NumPy arrays without a batch axis, of at most `levels` levels.
        levels: L of the result.
    """
    missing = levels - len(mapping.keep)
    unit = np.arange(np.shape(mapping.temporal)[-1])

    def filled(leaf: Array, axis: int, fill: object) -> np.ndarray:
        leaf = np.asarray(leaf)
        shape = (*leaf.shape[:axis], missing, *leaf.shape[axis + 1 :])
        return np.concatenate([leaf, np.broadcast_to(np.asarray(fill, leaf.dtype), shape)], axis=axis)

    return Mapping(
        temporal=filled(mapping.temporal, 0, 1),
        order=filled(mapping.order, 0, unit),
        spatial=filled(mapping.spatial, 1, 1),
        spatial_order=filled(mapping.spatial_order, 1, unit),
        keep=filled(mapping.keep, 0, False),
    )
