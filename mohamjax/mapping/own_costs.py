"""Costs of loop nests, each on its own minimal hardware: the loop-nest model behind `mj.evaluate_mappings`."""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core as jax_core
from numpy.typing import ArrayLike

from mohamjax.errors import InputError, wrong_type
from mohamjax.hardware import (
    Technology,
    Template,
    TemplateArrays,
    as_technology,
    as_template,
    default_technology,
    fits,
    load_technology,
    named_templates,
    packaged_technologies,
    template_arrays,
)
from mohamjax.mapping.children import MAX_CHILDREN, room_for, table_room
from mohamjax.mapping.cost import REASONS, offchip_bytes
from mohamjax.mapping.nest import Array, LayerArrays, Mapping, leading_axes
from mohamjax.mapping.padding import MOST_PADDED
from mohamjax.mapping.space import layer_arrays
from mohamjax.mapping.tables import need_children, on_own_hardware
from mohamjax.reader import count_asked, whole
from mohamjax.runtime.blocks import in_blocks
from mohamjax.runtime.struct import Rows, cast, record, take, with_values
from mohamjax.workload import Layer, UniqueLayer, WorkloadShape


@record
class MappingCosts(Rows):
    """Costs of mappings, each on its own minimal hardware; leaves have the leading axes of the mappings.

    Attributes:
        valid: `[]` bool, whether the factors multiply to the layer's bounds or to padded ones, the mapping fits the
            template's largest sizes, and its wires could be counted.
        padded: `[]` bool, whether they multiply to padded bounds, up to a third above the layer's (`mapping.padding`);
            all the work of the larger problem is then counted.
        objectives: `[3]` float, latency [cycles, no off-chip limit], energy [pJ], area [um^2]; +inf where not valid.
        cycles: `[]` float, with the limits of the template's own off-chip memory.
        offchip_bytes: `[]` float, read from and written to the off-chip level.
        capacity: `[L]` float, words per instance of each level of the minimal hardware; inf where unlimited.
        fanout: `[L, 2]` float, children along X and Y of each level.
        reason: `[]` int32, 0, or the index into `mapping.REASONS` of why the template is too small; -1 where the
            factors multiply to neither, -2 to -4 where the arrays are no loop nest, -5 where `max_children` leaves no
            room to count the wires. `mapping.told_reason` turns it into a sentence.
    """

    valid: jax.Array
    padded: jax.Array
    objectives: jax.Array
    cycles: jax.Array
    offchip_bytes: jax.Array
    capacity: jax.Array
    fanout: jax.Array
    reason: jax.Array

    _axes = 0

    def _first(self) -> Any:
        return self.valid


_TOLD = {
    "valid": "valid",
    "mac_instances": "more MACs run side by side than the template has",
    "mac_x": "more MACs run side by side along X than the template has",
    "mac_y": "more MACs run side by side along Y than the template has",
    "capacity": "a level does not hold the words that the nest keeps there",
    "instances": "more instances of a level run side by side than the template has",
    "x_expansion": "more instances of a level run side by side along X than the template has",
    "y_expansion": "more instances of a level run side by side along Y than the template has",
    "own_fanout": "a level spreads loops over more children along X or Y than it has",
}


_UNCOUNTED = -5

_UNFIT = {
    -1: "the factors of a dimension multiply neither to the layer's bound nor to a padded one",
    -2: "a factor is below 1",
    -3: "the order of a level's loops is no permutation of the dimensions",
    -4: "a level that the template does not have has loops",
    _UNCOUNTED: "the wires are not counted, because `max_children` is smaller than this mapping needs",
}
"""Messages for nests that do not fit the layer or the levels, by the codes of `_unfit`, and for wires uncounted."""


def told_reason(reason: int | ArrayLike) -> str:
    """A sentence for a code of `MappingCosts.reason`.

    Args:
        reason: the code of one mapping.

    Returns:
        The sentence, without a full stop.

    Raises:
        ValueError: there is no such code.

    Examples:
        >>> told_reason(REASONS.index("capacity"))
        'a level does not hold the words that the nest keeps there'
    """
    code = int(np.asarray(reason))
    if code in _UNFIT:
        return _UNFIT[code]
    if not 0 <= code < len(REASONS):
        raise ValueError(f"reason: expected a code from {min(_UNFIT)} to {len(REASONS) - 1}, got {code}")
    return ", and ".join(_TOLD[part] for part in REASONS[code].split("+"))


def _unfit(layer: LayerArrays, nests: Mapping, level_mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Codes of `_UNFIT` of nests that do not fit the layer, else 0; and which nests cover a padded bound. `[B]` each.

    The batch is the last axis. The mapper's own nests are sound by construction, so `evaluate_batch` does not check.
    """
    factors = jnp.prod(nests.temporal, axis=0) * jnp.prod(nests.spatial, axis=(0, 1))
    # Integer products wrap around beyond 2^31 and could equal a bound by chance; the product in float cannot.
    size = jnp.prod(nests.temporal.astype(float), axis=0) * jnp.prod(nests.spatial.astype(float), axis=(0, 1))
    bounds = jnp.asarray(layer.bounds)[:, None]
    whole = (factors >= bounds) & (factors <= bounds * MOST_PADDED) & (size <= bounds * (MOST_PADDED + 0.01))
    nested = jnp.concatenate([nests.temporal[None], nests.spatial])  # [3, L, D, B]
    orders = jnp.concatenate([nests.order[None], nests.spatial_order]).astype(jnp.int32)  # 1 << 7 is beyond int8
    # D powers of two below 2^D add up to 2^D - 1 only if each is there once.
    dims = orders.shape[2]
    bits = jnp.where((orders >= 0) & (orders < dims), 1 << jnp.clip(orders, 0, dims - 1), 0)
    permuted = jnp.all(jnp.sum(bits, axis=2) == (1 << dims) - 1, axis=(0, 1))
    beyond = jnp.any((nested > 1) & ~level_mask[:, None, None], axis=(0, 1, 2))
    faults = ((jnp.any(nested < 1, axis=(0, 1, 2)), -2), (~permuted, -3), (~jnp.all(whole, axis=0), -1), (beyond, -4))
    code = jnp.select([fault for fault, _ in faults], [jnp.int32(number) for _, number in faults], jnp.int32(0))
    return code, jnp.any(factors > bounds, axis=0)


def evaluate_mappings(
    mappings: Mapping,
    layer: Layer | UniqueLayer | WorkloadShape | LayerArrays,
    template: str | os.PathLike[str] | Template | TemplateArrays,
    *,
    technology: Technology | str | os.PathLike[str] | None = None,
    max_children: int | None = None,
    block_size: int = 1024,
) -> MappingCosts:
    """Costs of loop nests of one layer on one template: the loop-nest model, jitted.

    Composes with `jit` and `vmap`, also over a technology. Compiles once per combination of shapes, `max_children` and
    `block_size`, for any layer and template. The template's dataflow constraints are not checked.

    Args:
        mappings: one loop nest, or many with a leading axis `[B]`, e.g. `tables.mapping[u, t]`.
        layer: the layer, its shape, or its arrays.
        template: name, file, `Template`, or arrays of one template; levels may be padded.
        technology: energy and area tables, or a name or file; default the packaged ones.
        max_children: static, children per level that the tables for wires have room for. 0 compiles a third faster and
            suits mappings that never run P along a level's children together with R, or Q with S, on templates of free
            sizes. Mappings that need more are not valid. By default what concrete mappings need; enough for any level
            of the template where mappings are traced; `MAX_CHILDREN` where arrays of the template are traced.
        block_size: static, mappings evaluated at once, at least 1.

    Returns:
        `MappingCosts`; where `.valid` is false, `mapping.told_reason(costs.reason)` says why.

    Raises:
        ValueError: a shape or dtype is wrong, at trace time.
        InputError: the template does not run the layer's type, mappings or layer are of another type, or
            `max_children` or `block_size` is no whole number of that size.

    Examples:
        >>> nests = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping)  # of layer 0 on template 0
        >>> costs = mj.evaluate_mappings(nests, problem.application.unique_layers[0], "simba")
        >>> costs.objectives.shape, bool(jnp.all(costs.valid))
        ((16, 3), True)
    """
    if not isinstance(mappings, Mapping):
        remedy = "give a Mapping: of a table, of mapping_from_dict, or of struct.stack, which makes one of several"
        raise wrong_type(mappings, "mappings", remedy)
    if not isinstance(layer, Layer | UniqueLayer | WorkloadShape | LayerArrays):
        raise wrong_type(layer, "layer", "give a layer of an application, such as problem.application.layers[0]")
    block_size = count_asked(block_size, "block_size", "give 1 mapping or more, a whole number")
    if max_children is not None and ((asked := whole(max_children)) is None or asked < 0):
        raise InputError(f"is {max_children!r:.40}", argument="max_children", remedy="give 0 or more, a whole number")
    named = _named(technology)
    technology = _packaged(named) if named else as_technology(technology)
    if isinstance(template, str) and template in named_templates():
        template = _packaged_template(template)
    elif not isinstance(template, TemplateArrays):
        template = as_template(template)
    if isinstance(template, Template) and isinstance(layer, Layer | UniqueLayer):
        reason = fits(template, layer.type, layer.shape)
        if reason is not None:
            raise InputError(reason, item="evaluate_mappings", remedy="take another template")
    levels = np.shape(mappings.temporal)[-2] if np.ndim(mappings.temporal) >= 2 else 0
    if isinstance(template, Template):
        if len(template.levels) > levels:
            raise ValueError(
                f"mappings.temporal: expected {len(template.levels)} levels or more, got shape "
                f"{np.shape(mappings.temporal)}"
            )
        if named and _hashable(template):
            arrays = _packaged_arrays(template, named, levels, jnp.result_type(float))
        else:
            arrays = _arrays(template, technology, levels)
    else:
        arrays = template
    if isinstance(layer, Layer | UniqueLayer):
        layer = layer.shape
    if isinstance(layer, WorkloadShape):
        layer.check()
        layer = layer_arrays(layer)
    if np.ndim(arrays.component) != 1:
        raise ValueError(f"template: expected arrays of one template, got a leading axis: {np.shape(arrays.component)}")
    lead = leading_axes(layer, mappings, arrays.machine.keep.shape)
    if len(lead) > 1 or np.ndim(layer.bounds) > 1:
        raise ValueError(f"mappings, layer: expected many mappings of one layer, got leading axes {lead}; use jax.vmap")
    if max_children is None:
        max_children = _room(mappings.spatial, template, arrays)
    dtype = arrays.machine.capacity.dtype
    technology = _packaged_as(named, dtype, jnp.result_type(float)) if named else cast(technology, dtype)
    rows = mappings if lead else jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], mappings)
    if lead == (0,):  # one row is computed and dropped again
        rows = jax.tree.map(lambda leaf: jnp.ones((1, *leaf.shape[1:]), leaf.dtype), rows)
        return take(_costs(rows, layer, arrays, technology, max_children=0, block_size=block_size), slice(0))
    costs = _costs(rows, layer, arrays, technology, max_children=max_children, block_size=block_size)
    return costs if lead else jax.tree.map(lambda leaf: leaf[0], costs)


def _named(technology: Technology | str | os.PathLike[str] | None) -> str:
    """Name of a packaged technology that is asked for; empty for any other."""
    if technology is None:
        return default_technology()
    return technology if isinstance(technology, str) and technology in packaged_technologies() else ""


# What is packaged stays as it is, so that it is read and made into arrays once. The arrays have values.
@functools.lru_cache(maxsize=16)
def _packaged(technology: str) -> Technology:
    return load_technology(technology)


@functools.lru_cache(maxsize=16)
def _packaged_as(technology: str, dtype: np.dtype, precision: np.dtype) -> Technology:
    """A packaged technology in another dtype; see `_packaged_arrays`."""
    del precision
    with with_values():
        return cast(_packaged(technology), dtype)


@functools.lru_cache(maxsize=16)
def _packaged_template(name: str) -> Template:
    return as_template(name)


@functools.lru_cache(maxsize=64)
def _packaged_arrays(template: Template, technology: str, levels: int, precision: np.dtype) -> TemplateArrays:
    """Arrays of a template in a packaged technology; `precision` tells computations in JAX's x64 mode apart."""
    del precision
    with with_values():
        return _arrays(template, _packaged(technology), levels)


def _hashable(template: Template) -> bool:
    """Whether a template may be a key: not one of somebody's own with lists in it."""
    try:
        hash(template)
    except TypeError:
        return False
    return True


def _arrays(template: Template, technology: Technology, levels: int) -> TemplateArrays:
    """Arrays of one template, without a leading axis."""
    return jax.tree.map(lambda leaf: leaf[0], template_arrays([template], technology, levels=levels))


def _room(spatial: Array, template: Template | TemplateArrays, arrays: TemplateArrays) -> int:
    """`max_children` for mappings with these factors on a template, which `arrays` describe.

    Traced factors may use all children of any level. Where the template itself is only known by traced arrays, it is
    `MAX_CHILDREN`.
    """
    if isinstance(template, Template):  # its arrays are traced inside a program, also where it is known
        most, sized = max(math.prod(level.fanout) for level in template.levels), template.sizes == "fixed"
    elif isinstance(arrays.machine.fanout, jax_core.Tracer) or isinstance(arrays.sized, jax_core.Tracer):
        return MAX_CHILDREN
    else:
        most, sized = np.prod(np.asarray(arrays.machine.fanout), axis=-1).max(), bool(np.any(arrays.sized))
    if isinstance(spatial, jax_core.Tracer):
        return table_room(most)
    double = arrays.machine.capacity.dtype == jnp.float64
    if not (sized or need_children(np.asarray(spatial) > 1, double=double).any()):
        return 0
    return room_for(spatial, most)


@functools.partial(jax.jit, static_argnames=("max_children", "block_size"))
def _costs(
    mappings: Mapping,
    layer: LayerArrays,
    template: TemplateArrays,
    technology: Technology,
    *,
    max_children: int,
    block_size: int,
) -> MappingCosts:
    def block(nests: Mapping) -> MappingCosts:
        last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), nests)
        own = on_own_hardware(layer, last, template, technology, max_children=max_children)
        unfit, padded = _unfit(layer, last, template.machine.level_mask)
        machine = own.machine
        # Wires that the tables have no room for are nan, not a guess; where they are free, their hops do not matter.
        uncounted = jnp.any(jnp.isnan(own.counts.hops) & (machine.hop_energy > 0)[:, None], axis=(0, 1))
        reason = jnp.where(unfit == 0, own.reason, unfit)
        reason = jnp.where((reason == 0) & uncounted, _UNCOUNTED, reason)
        valid = reason == 0
        costs: dict[str, Any] = {
            "valid": valid,
            "padded": (unfit == 0) & padded,
            "objectives": jnp.where(valid, jnp.stack([own.cycles.onchip, own.energy.total, own.area]), jnp.inf),
            "cycles": own.cycles.total,
            "offchip_bytes": offchip_bytes(own.counts, machine),
            "capacity": own.capacity,
            "fanout": own.fanout,
            "reason": reason,
        }
        return MappingCosts(**jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), costs))

    return in_blocks(block, mappings, block_size)
