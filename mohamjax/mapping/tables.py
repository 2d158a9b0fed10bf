"""Pareto tables: for every unique layer on every template, the mappings that the scheduler chooses from.

Axes: U unique layers, T templates, M mappings (padded), L levels, D dimensions, V data spaces.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from mohamjax.hardware import Technology, TemplateArrays, resize
from mohamjax.mapping.cost import (
    area,
    count_accesses,
    cycles,
    energy,
    minimal_hardware,
    offchip_bytes,
    validity,
)
from mohamjax.mapping.nest import LayerArrays, Mapping

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = ["MappingTables", "tabulate"]

_BLOCK = 128


@dataclass(frozen=True)
class MappingTables:
    """Pareto-optimal mappings and all that a design's evaluation needs of them.

    Entries at or beyond `count` are padding: their objectives are +inf, everything else is 0. The loop-nest model is
    not called again once the tables exist: energy at other buffer sizes follows from the block accesses.

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
        hops: `[U, T, M, L]` float, words times hops on the network below each level, over all its instances, on the
            mapping's own minimal array: a layer on a larger chiplet is laid out in a corner of its arrays.
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
    hops: jax.Array
    mac_energy: jax.Array
    capacity: jax.Array
    fanout: jax.Array


@jax.jit
def tabulate(
    layers: LayerArrays,
    templates: TemplateArrays,
    technology: Technology,
    mapping: Mapping,
    count: jax.Array,
) -> MappingTables:
    """Evaluates sets of mappings on their own minimal hardware (DESIGN section 4).

    Jitted; recompiles per (U, T, M, L). The float dtype is that of `templates`. A mapping that is invalid under its
    template's maximum sizes keeps its place with objectives of +inf.

    Args:
        layers: unique layers, leading axis `[U]`.
        templates: templates, leading axis `[T]`.
        technology: energy and area tables.
        mapping: mappings, leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries that exist.

    Returns:
        The tables, `[U, T, M, ...]`.
    """
    shape = mapping.temporal.shape[:3]
    which = jnp.indices(shape).reshape(3, -1)
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), mapping)

    def one(item: tuple[jax.Array, jax.Array, Mapping]) -> dict[str, jax.Array]:
        u, t, nest = item
        layer, template = (jax.tree.map(lambda x, i=i: x[i], tree) for tree, i in ((layers, u), (templates, t)))
        return _entry(layer, template, nest, technology)

    # Blocks bound the memory: the wires of one mapping need a table over all children of a level.
    values = jax.lax.map(one, (which[0], which[1], flat), batch_size=_BLOCK)
    values = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), values)
    exists = jnp.arange(values["cycles"].shape[-1]) < count[..., None]

    def masked(name: str, leaf: jax.Array) -> jax.Array:
        mask = exists.reshape(exists.shape + (1,) * (leaf.ndim - exists.ndim))
        return jnp.where(mask, leaf, jnp.inf if name == "objectives" else 0.0)

    return MappingTables(mapping=mapping, count=count, **{name: masked(name, leaf) for name, leaf in values.items()})


def _entry(
    layer: LayerArrays, template: TemplateArrays, mapping: Mapping, technology: Technology
) -> dict[str, jax.Array]:
    """All columns of the tables for one mapping."""
    largest = template.machine
    # Wires are counted on the array that the mapping uses; nothing else in the counts depends on the fanout.
    used = jnp.prod(mapping.spatial.astype(largest.fanout.dtype), axis=2).T
    counts = count_accesses(layer, mapping, dataclasses.replace(largest, fanout=used))
    reason, _ = validity(counts, mapping, largest, own_fanout=True)
    capacity, fanout = minimal_hardware(counts, mapping, largest.block_words, template.granularity, largest.capacity)
    machine = resize(template, technology, capacity, fanout)
    spent = energy(counts, machine)
    onchip = cycles(counts, machine).onchip
    objectives = jnp.stack([onchip, spent.total, area(machine)])
    block = machine.block_words[:, None]
    blocks = functools.partial(_blocks, block=block, instances=counts.instances_used)
    outermost = machine.level_mask & ~jnp.append(machine.level_mask[1:], False)
    words = jnp.stack([counts.reads, counts.updates], axis=-1) * counts.instances_used[:, None, None]
    return {
        "objectives": jnp.where(reason == 0, objectives, jnp.inf),
        "cycles": onchip,
        "offchip_bytes": offchip_bytes(counts, machine),
        "offchip_words": jnp.sum(jnp.where(outermost[:, None, None], words, 0.0), axis=0),
        "block_reads": blocks((counts.reads,)),
        "block_writes": blocks((counts.fills, counts.updates)),
        "hops": jnp.sum(counts.hops, axis=1) * counts.instances_used,
        "mac_energy": spent.mac,
        "capacity": jnp.where(jnp.isfinite(capacity), capacity, 0.0),
        "fanout": fanout,
    }


def _blocks(words: tuple[jax.Array, ...], block: jax.Array, instances: jax.Array) -> jax.Array:
    """Physical accesses of each level over all instances: words per data space, rounded up to blocks."""
    return sum(jnp.sum(jnp.ceil(w / block), axis=1) for w in words) * instances
