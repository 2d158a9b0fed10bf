"""One (unique layer, template) problem of the layer mapper as arrays, and what a mapping of it costs."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.hardware import Machine, Technology, Template, TemplateArrays, fits, template_arrays
from mohamjax.mapping.children import MAX_CHILDREN, table_room
from mohamjax.mapping.padding import ALTERNATIVES, padded_bounds
from mohamjax.mapping.space import MappingGenes, MapSpace, constraints, decode, map_space, prime_factors
from mohamjax.mapping.tables import need_children, on_own_hardware
from mohamjax.runtime.struct import cast, record
from mohamjax.workload import DIMS, UniqueLayer

_PRIME_STEP = 32  # factor slots come in multiples of this, so that scenarios share a compile


@record
class MapperContext:
    """One (unique layer, template) problem as arrays.

    Attributes:
        space: its map space.
        template: the template at its largest sizes.
        technology: energy and area tables.
    """

    space: MapSpace
    template: TemplateArrays
    technology: Technology


def children_room(spaces: Sequence[MapSpace]) -> int:
    """`max_children` of the cost model for mappings of these spaces: 0 where none can need it (`need_children`)."""
    along = [(np.asarray(space.limit) > 1).reshape(3, -1, len(DIMS))[1:] for space in spaces]
    double = any(np.asarray(space.capacity).dtype == np.float64 for space in spaces)
    if not any(np.any(need_children(slots, double=double)) for slots in along):
        return 0
    return table_room(max(np.prod(np.asarray(space.fanout).reshape(3, -1)[1:], axis=0).max() for space in spaces))


def map_spaces(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], arrays: TemplateArrays, *, padding: bool = True
) -> dict[tuple[int, int], MapSpace]:
    """Map spaces of all pairs of layers and templates that can run them, of equal shapes, by (layer, template).

    Args:
        layers: unique layers.
        templates: T templates.
        arrays: the templates, `[T, ...]` NumPy leaves.
        padding: whether mappings may cover larger bounds, see `MapperConfig`.
    """
    levels, primes = arrays.component.shape[1], prime_slots(layers)
    machines = [jax.tree.map(lambda leaf, t=t: leaf[t], arrays.machine) for t in range(len(templates))]
    bypasses = any(template.bypasses for template in templates)
    return {
        (u, t): pair_space(layer, template, machines[t], (levels, primes, bypasses), padding=padding)
        for u, layer in enumerate(layers)
        for t, template in enumerate(templates)
        if fits(template, layer.type, layer.shape) is None
    }


def largest_children_room(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], technology: Technology, levels: int
) -> int:
    """`children_room` over all pairs of layers and templates that can run them, as `LayerMapper` finds it."""
    arrays = jax.device_get(template_arrays(templates, technology, levels))
    return children_room(list(map_spaces(layers, templates, arrays).values()))


def objectives(
    genes: MappingGenes,
    context: MapperContext,
    *,
    fixed: bool = False,
    max_children: int = MAX_CHILDREN,
    linear: bool = False,
) -> jax.Array:
    """Base-2 logarithms of latency [cycles], energy [pJ] and area [um^2] of a population of one problem.

    Latency is free of off-chip limits; energy and area are those of the mapping's own minimal hardware
    (docs/concepts/mapper.md). On templates of fixed sizes, wires count on the part of the arrays that the mapping uses;
    the tables count them on the whole arrays. Logarithms change no rank, but spread crowding evenly over objectives
    that span decades; a cost of 0 counts as the smallest normal number.

    Args:
        genes: leading axis `[P]`.
        context: one problem.
        fixed: static, see `MapperConfig`; the objectives are then latency with off-chip limits, energy, and their
            product.
        max_children: static, from `children_room`.
        linear: static; the values themselves, not their logarithms.

    Returns:
        `[P, 3]` float, +inf where the mapping is invalid.
    """
    mapping = jax.vmap(decode, in_axes=(0, None), out_axes=-1)(genes, context.space)
    own = on_own_hardware(
        context.space.layer, mapping, context.template, context.technology,
        fixed=fixed, whole=False, max_children=max_children,
    )  # fmt: skip
    time = own.cycles.total if fixed else own.cycles.onchip
    parts = time, own.energy.total, time * own.energy.total if linear and fixed else own.area
    if not linear:
        time, energy, area = (jnp.log2(emo.positive(x)) for x in parts)
        parts = time, energy, time + energy if fixed else area
    values = jnp.stack(parts, axis=-1)
    return jnp.where((own.reason == 0)[:, None], values, jnp.inf)


def context(
    layer: UniqueLayer,
    template: Template,
    technology: Technology,
    *,
    levels: int | None = None,
    dtype: jax.typing.DTypeLike = jnp.float32,
    padding: bool = True,
) -> MapperContext:
    """One problem, as `objectives` takes it, for callers that evaluate or enumerate mappings themselves.

    Args:
        layer: the layer.
        template: a template that runs it.
        technology: energy and area tables.
        levels: L; default the number of levels of the template.
        dtype: float dtype of the evaluation.
        padding: whether mappings may cover larger bounds, see `MapperConfig`.

    Raises:
        InputError: the template does not run layers of this type.
    """
    arrays = template_arrays([template], technology, levels=levels, dtype=dtype)
    arrays = jax.device_get(jax.tree.map(lambda leaf: leaf[0], arrays))
    deep, primes = arrays.component.shape[0], prime_slots([layer])
    space = pair_space(layer, template, arrays.machine, (deep, primes, template.bypasses), padding=padding)
    return MapperContext(
        space=jax.tree.map(jnp.asarray, space),
        template=jax.tree.map(jnp.asarray, arrays),
        technology=cast(technology, dtype),
    )


def prime_slots(layers: Sequence[UniqueLayer]) -> int:
    """F, the number of factor slots that the layers need, rounded up to a multiple of `_PRIME_STEP`."""
    longest = max([1, *(sum(len(prime_factors(bound)) for bound in layer.shape.bounds) for layer in layers)])
    return _slots(longest)


def _slots(factors: int) -> int:
    return _PRIME_STEP * -(-factors // _PRIME_STEP)


def pair_space(
    layer: UniqueLayer, template: Template, machine: Machine, form: tuple[int, int, bool], *, padding: bool
) -> MapSpace:
    """The map space of one problem, NumPy arrays.

    Args:
        layer: the layer.
        template: the template.
        machine: the template at its largest sizes, padded to L.
        form: (L, F from `prime_slots`, whether mappings have a gene for bypasses: `Constraints.may_bypass`).
        padding: whether mappings may cover larger bounds, which depend on the layer and the template alone.
    """
    levels, primes, bypasses = form
    limits = constraints(template, layer.type, layer.shape, levels, bypasses=bypasses)
    if not padding:
        return map_space(layer.shape, limits, machine, primes)
    own = _slots(sum(len(prime_factors(bound)) for bound in layer.shape.bounds))
    bounds = padded_bounds(layer.shape.bounds, limits, machine, own)
    return map_space(layer.shape, limits, machine, primes, bounds, ALTERNATIVES)
