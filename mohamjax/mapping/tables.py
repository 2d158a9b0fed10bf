"""Pareto tables: for every unique layer on every template, the mappings that the scheduler chooses from.

Axes: U unique layers, T templates, M mappings (padded), L levels, D dimensions, V data spaces.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from mohamjax.blocks import in_blocks
from mohamjax.hardware import Machine, Technology, TemplateArrays, resize
from mohamjax.mapping.cost import (
    MAX_CHILDREN,
    AccessCounts,
    CycleCounts,
    EnergyBreakdown,
    area,
    count_accesses,
    cycles,
    energy,
    minimal_hardware,
    offchip_bytes,
    outermost,
    validity,
)
from mohamjax.mapping.nest import LayerArrays, Mapping

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = ["MappingTables", "OwnHardware", "on_own_hardware", "tabulate"]

_BLOCK = 128


@dataclass(frozen=True)
class MappingTables:
    """Pareto-optimal mappings and all that a design's evaluation needs of them.

    Entries at or beyond `count` are padding: their objectives are +inf, everything else is 0. The loop-nest model is
    not called again once the tables exist: energy at other sizes follows from the block accesses and, for the wires,
    from the words delivered (`wires.Wires`).

    Attributes:
        mapping: `Mapping` with leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries of each set; 0 where the template cannot run the layer.
        objectives: `[U, T, M, 3]` float, latency [cycles, no off-chip limit], energy [pJ] and area [um^2] of the
            mapping's own minimal hardware.
        cycles: `[U, T, M]` float, cycles without any off-chip limit.
        offchip_bytes: `[U, T, M]` float, bytes read from and written to the off-chip level.
        offchip_words: `[U, T, M, V, 2]` float, words read from and written to it per data space.
        block_reads: `[U, T, M, L]` float, block reads of a level over all its instances and data spaces.
        block_writes: `[U, T, M, L]` float, block fills and updates, likewise.
        delivered: `[U, T, M, L, V]` float, words that a group of children of each level receives, over all its
            instances.
        mac_energy: `[U, T, M]` float, pJ.
        capacity: `[U, T, M, L]` float, words per instance of the minimal hardware.
        fanout: `[U, T, M, L, 2]` float, fanout X and Y of the minimal hardware.
    """

    mapping: Mapping
    count: jax.Array
    objectives: jax.Array
    cycles: jax.Array
    offchip_bytes: jax.Array
    offchip_words: jax.Array
    block_reads: jax.Array
    block_writes: jax.Array
    delivered: jax.Array
    mac_energy: jax.Array
    capacity: jax.Array
    fanout: jax.Array


@dataclass(frozen=True)
class OwnHardware:
    """One layer's mappings, each on hardware of its own; the batch is the last axis.

    Attributes:
        counts: words that they move.
        machine: the hardware that they are counted on.
        reason: `[B]` int32, 0 where the mapping fits the template at its largest sizes, else as `validity` says.
        capacity: `[L, B]` float, words per instance of the minimal hardware; inf where unlimited.
        fanout: `[L, 2, B]` float, its fanout.
        cycles: time.
        energy: energy.
        area: `[B]` float, um^2.
    """

    counts: AccessCounts
    machine: Machine
    reason: jax.Array
    capacity: jax.Array
    fanout: jax.Array
    cycles: CycleCounts
    energy: EnergyBreakdown
    area: jax.Array


def on_own_hardware(
    layer: LayerArrays,
    mapping: Mapping,
    template: TemplateArrays,
    technology: Technology,
    *,
    fixed: bool = False,
    max_children: int = MAX_CHILDREN,
) -> OwnHardware:
    """Costs of mappings of one layer on one template, each on its own minimal hardware (DESIGN section 4).

    Not jitted. The batch is the last axis of every leaf of `mapping` and of the result, the layout of the cost model.

    Args:
        layer: one layer, no batch axis.
        mapping: B loop nests, batch last.
        template: one template at its largest sizes, no batch axis.
        technology: energy and area tables.
        fixed: static. Evaluate on the template at its largest sizes instead: one machine that exists.
        max_children: static, as in `count_accesses`.
    """
    wide = jax.tree.map(lambda x: jnp.asarray(x)[..., None], template)
    layer = jax.tree.map(lambda x: jnp.asarray(x)[..., None], layer)
    largest = wide.machine
    # Wires are counted on the array that the mapping uses; nothing else in the counts depends on the fanout.
    used = jnp.moveaxis(jnp.prod(mapping.spatial.astype(largest.fanout.dtype), axis=2), 0, 1)
    counted_on = largest if fixed else dataclasses.replace(largest, fanout=used)
    counts = count_accesses(layer, mapping, counted_on, max_children=max_children)
    reason, _ = validity(counts, mapping, largest, own_fanout=True)
    sizes = minimal_hardware(counts, mapping, largest.block_words, wide.granularity, largest.capacity)
    machine = largest
    if not fixed:
        machine = jax.vmap(resize, in_axes=(None, None, -1, -1), out_axes=-1)(template, technology, *sizes)
    return OwnHardware(
        counts=counts,
        machine=machine,
        reason=reason,
        capacity=sizes[0],
        fanout=sizes[1],
        cycles=cycles(counts, machine),
        energy=energy(counts, machine),
        area=jnp.broadcast_to(area(machine), reason.shape),
    )


@functools.partial(jax.jit, static_argnames=("fixed", "max_children"))
def tabulate(
    layers: LayerArrays,
    templates: TemplateArrays,
    technology: Technology,
    mapping: Mapping,
    count: jax.Array,
    *,
    fixed: bool = False,
    max_children: int = MAX_CHILDREN,
) -> MappingTables:
    """Evaluates sets of mappings on their own minimal hardware (DESIGN section 4).

    Jitted; recompiles per (U, T, M, L), `fixed` and `max_children`. The float dtype is that of `templates`. A mapping
    that is invalid under its template's maximum sizes keeps its place with objectives of +inf.

    Args:
        layers: unique layers, leading axis `[U]`.
        templates: templates, leading axis `[T]`.
        technology: energy and area tables.
        mapping: mappings, leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries that exist.
        fixed: as in `on_own_hardware`; objectives and `cycles` then count the off-chip limits too.
        max_children: as in `count_accesses`.

    Returns:
        The tables, `[U, T, M, ...]`.
    """
    shape = mapping.temporal.shape[:3]
    which = jnp.indices(shape[:2]).reshape(2, -1)
    sets = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), mapping)

    def one(item: tuple[jax.Array, jax.Array, Mapping]) -> dict[str, jax.Array]:
        u, t, nests = item
        layer, template = (jax.tree.map(lambda x, i=i: x[i], tree) for tree, i in ((layers, u), (templates, t)))
        nests = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), nests)
        own = on_own_hardware(layer, nests, template, technology, fixed=fixed, max_children=max_children)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), _columns(own, fixed))

    # Blocks bound the memory: the wires of one mapping may need a table over all children of a level.
    values = in_blocks(jax.vmap(one), (which[0], which[1], sets), max(1, _BLOCK // max(1, shape[2])))
    values = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[2:]), values)
    exists = jnp.arange(shape[2]) < count[..., None]

    def masked(name: str, leaf: jax.Array) -> jax.Array:
        mask = exists.reshape(exists.shape + (1,) * (leaf.ndim - exists.ndim))
        return jnp.where(mask, leaf, jnp.inf if name == "objectives" else 0.0)

    return MappingTables(mapping=mapping, count=count, **{name: masked(name, leaf) for name, leaf in values.items()})


def _columns(own: OwnHardware, fixed: bool) -> dict[str, jax.Array]:
    """All columns of the tables, batch last."""
    counts, machine = own.counts, own.machine
    time = own.cycles.total if fixed else own.cycles.onchip
    block = machine.block_words[:, None]

    def blocks(*words: jax.Array) -> jax.Array:
        """Physical accesses of each level over all instances: words per data space, rounded up to blocks."""
        return sum(jnp.sum(jnp.ceil(w / block), axis=1) for w in words) * counts.instances_used

    words = jnp.stack([counts.reads, counts.updates], axis=2) * counts.instances_used[:, None, None]
    objectives = jnp.stack([time, own.energy.total, own.area])
    return {
        "objectives": jnp.where(own.reason == 0, objectives, jnp.inf),
        "cycles": time,
        "offchip_bytes": offchip_bytes(counts, machine),
        "offchip_words": jnp.sum(jnp.where(outermost(machine)[:, None, None], words, 0.0), axis=0),
        "block_reads": blocks(counts.reads),
        "block_writes": blocks(counts.fills, counts.updates),
        "delivered": counts.delivered * counts.instances_used[:, None],
        "mac_energy": own.energy.mac,
        "capacity": jnp.where(jnp.isfinite(own.capacity), own.capacity, 0.0),
        "fanout": own.fanout,
    }
