"""The loop-nest cost model: what one layer costs on one machine under one mapping, by Timeloop's rules.

Axes: L levels, innermost first, padded at the outer end; D loop dimensions (`workload.DIMS`); V data spaces
(weights, inputs, outputs).

Every function is written for one mapping and indexes leading axes only, so that the same code also takes arrays
with one trailing batch axis (`[L, D, B]`, size 1 where shared), the layout that keeps a batch contiguous and that
`evaluate_batch` uses. `jax.vmap` works too. Nothing branches on a layer, a template or a size: one compilation
serves every problem of the same padded shape. Nothing here is jitted; callers jit once, at the top.

The rules are those of Timeloop 3.0.3 for dense tensors and perfect factors (docs/concepts/cost-model.md
has the sections named below). `mapping.accesses` counts words; this module derives cycles, energy, area and whether the
mapping fits.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import I, O, W
from mohamjax.hardware.arrays import Machine
from mohamjax.mapping.accesses import DEFAULT_COUNTING, AccessCounts, Counting, count_accesses, outermost
from mohamjax.mapping.children import exact_divide, product_over, widest
from mohamjax.mapping.nest import LayerArrays, Mapping, leading_axes
from mohamjax.runtime.blocks import WIDE, in_blocks, in_fitting_blocks
from mohamjax.runtime.struct import record

BLOCK = 128
"""Mappings per block on a processor."""

_WIDE = 1 << 16
"""Mappings per block on an accelerator: with twice as many, an H200 takes a tenth longer."""

REASONS = (
    "valid",
    "mac_instances",
    "mac_x",
    "mac_y",
    "capacity",
    "instances",
    "x_expansion",
    "y_expansion",
    "capacity+instances",
    "capacity+x_expansion",
    "capacity+y_expansion",
    "own_fanout",
)
"""Names of the codes that `validity` returns; a level that fails both its capacity and its mesh has a combined code."""


@record
class CycleCounts:
    """Cycles of one mapping.

    Attributes:
        total: `[]` float, with every bandwidth limit of the machine.
        onchip: `[]` float, without the limits of the off-chip memory.
        per_level: `[L]` float, the bound that each level sets; 0 for padding.
        slowdown: `[L]` float in (0, 1], ratio of granted to needed bandwidth.
    """

    total: jax.Array
    onchip: jax.Array
    per_level: jax.Array
    slowdown: jax.Array


@record
class EnergyBreakdown:
    """Energy of one mapping in pJ, all instances.

    Attributes:
        total: `[]` float, sum of the rest.
        mac: `[]` float.
        level: `[L, V]` float, accesses.
        network: `[L]` float, wires below the level.
    """

    total: jax.Array
    mac: jax.Array
    level: jax.Array
    network: jax.Array


@record
class Evaluation:
    """All results of `evaluate_batch`; a leading batch axis on every leaf.

    Attributes:
        counts: `AccessCounts`.
        cycles: `CycleCounts`.
        energy: `EnergyBreakdown`.
        reason: int32, index into `REASONS`.
        level: int32, the level that failed; -1 for none and for the MACs.
        plausible: bool, see `plausible`.
    """

    counts: AccessCounts
    cycles: CycleCounts
    energy: EnergyBreakdown
    reason: jax.Array
    level: jax.Array
    plausible: jax.Array


def minimal_hardware(counts: AccessCounts, mapping: Mapping, block_words, granularity, capacity_max):
    """The smallest sizes of each level that the mapping needs (docs/concepts/hardware.md).

    Args:
        counts: From `count_accesses`.
        mapping: The mapping that was counted; its fanout is taken from the counts.
        block_words: `[L]` float, words of a row.
        granularity: `[L]` float, rows that a capacity is rounded up to; 0 leaves it as it is.
        capacity_max: `[L]` float, the template's maximum, words; inf stays inf (off-chip memory, padding).

    Returns:
        `(capacity [L] words, fanout [L, 2])`, floats. A level in which nothing is stored has the smallest capacity.
    """
    used = jnp.maximum(jnp.sum(counts.tile, axis=1), 1)
    rows = jnp.maximum(granularity, 1)
    rounded = jnp.ceil(jnp.ceil(used / block_words) / rows) * rows * block_words
    capacity = jnp.minimum(jnp.where(granularity > 0, rounded, used), capacity_max)
    return jnp.where(jnp.isinf(capacity_max), jnp.inf, capacity), counts.fanout_used


def cycles(counts: AccessCounts, machine: Machine) -> CycleCounts:
    """Cycles under the bandwidth of every level: perfect overlap, no start-up (section 10).

    Args:
        counts: From `count_accesses`.
        machine: Its bandwidths, words per cycle and instance.

    Returns:
        `CycleCounts`, in the float dtype of the counts.
    """
    dtype = counts.compute_cycles.dtype
    compute, reads, writes = widest((counts.compute_cycles, counts.reads, counts.fills + counts.updates))
    bandwidth, shared = widest((machine.bandwidth, machine.shared_bandwidth))
    slowdown = jnp.ones_like(reads[:, W])
    # Divide per data space first, then add in this order: rounding in double precision decides the ceil.
    shares = [exact_divide(words, compute) for words in (reads, writes)]
    read, write = (share[:, W] + share[:, I] + share[:, O] for share in shares)
    ports = [(read, bandwidth[:, 0]), (write, bandwidth[:, 1])]
    if shared is not None:
        ports.append((read + write, shared))
    for need, limit in ports:
        slowdown = jnp.minimum(slowdown, jnp.where(limit < need, limit / jnp.maximum(need, limit), 1))
    per_level = jnp.where(machine.level_mask, jnp.ceil(exact_divide(compute, slowdown)), 0)
    onchip = jnp.where(outermost(machine), 0, per_level)
    result = CycleCounts(
        total=jnp.maximum(jnp.max(per_level, axis=0), compute),
        onchip=jnp.maximum(jnp.max(onchip, axis=0), compute),
        per_level=per_level,
        slowdown=slowdown,
    )
    return jax.tree.map(lambda x: x.astype(dtype), result)


def energy(counts: AccessCounts, machine: Machine) -> EnergyBreakdown:
    """Energy of MACs, block accesses and wires, all instances, in pJ (section 9).

    Args:
        counts: From `count_accesses`.
        machine: Its access, hop and MAC energies and block sizes; the sizes may be any that hold the mapping.

    Returns:
        `EnergyBreakdown`.
    """
    block = machine.block_words[:, None]
    read, write = machine.access_energy[:, 0][:, None], machine.access_energy[:, 1][:, None]
    fills, updates = jnp.ceil(counts.fills / block), jnp.ceil(counts.updates / block)
    if machine.update_energy is None:
        written = (fills + updates) * write
    else:
        written = fills * write + updates * machine.update_energy[:, None]
    level = (jnp.ceil(counts.reads / block) * read + written) * counts.instances_used[:, None]
    # Hops are NaN where the tables had no room for the children, which does not matter if wires cost nothing.
    hops = jnp.where(machine.hop_energy > 0, jnp.sum(counts.hops + counts.link_transfers, axis=1), 0)
    network = hops * machine.hop_energy * counts.instances_used
    mac = counts.macs * machine.mac_energy
    total = mac + jnp.sum(level, axis=(0, 1)) + jnp.sum(network, axis=0)
    return EnergyBreakdown(total=total, mac=mac, level=level, network=network)


def area(machine: Machine):
    """Area of all instances of all levels and of the MACs, um^2, `[]`."""
    instances = jnp.where(machine.level_mask, machine.instances, 0)
    return jnp.sum(machine.area * instances, axis=0) + machine.mac_area * machine.mac_instances


def validity(counts: AccessCounts, mapping: Mapping, machine: Machine, *, own_fanout: bool = False):
    """First reason why a mapping does not fit a machine: MACs, then levels from the innermost (section 2).

    Args:
        counts: From `count_accesses`.
        mapping: The mapping.
        machine: Its capacities, meshes and instances.
        own_fanout: Static. Also require that each level stays within its own fanout, which Timeloop does not
            check; the search does, so that merged hardware always exists.

    Returns:
        `(reason, level)`, int32: an index into `REASONS` and the level that failed (-1: none, or the MACs).
    """
    x, y = counts.mac_expansion

    def code(*tests):
        return jnp.select([test for test, _ in tests], [jnp.int32(c) for _, c in tests], jnp.int32(0))

    macs = code(
        (x * y > machine.mac_instances, REASONS.index("mac_instances")),
        (x > machine.mac_mesh[0], REASONS.index("mac_x")),
        (y > machine.mac_mesh[1], REASONS.index("mac_y")),
    )
    full = jnp.sum(counts.tile, axis=1) > machine.capacity
    mesh = code(
        (counts.instances_used > machine.instances, 1),
        (counts.expansion[:, 0] > machine.mesh[:, 0], 2),
        (counts.expansion[:, 1] > machine.mesh[:, 1], 3),
    )
    first = REASONS.index("capacity")
    levels = jnp.where(full, first + jnp.where(mesh > 0, mesh + 3, 0), jnp.where(mesh > 0, mesh + first, 0))
    if own_fanout:
        wide = jnp.any(counts.fanout_used > machine.fanout, axis=1)
        levels = jnp.where((levels == 0) & wide, REASONS.index("own_fanout"), levels)
    levels = jnp.where(machine.level_mask, levels, 0)
    reason, level = macs, jnp.full_like(macs, -1)
    for i in range(levels.shape[0]):
        here = (reason == 0) & (levels[i] > 0)
        reason, level = jnp.where(here, levels[i], reason), jnp.where(here, i, level)
    return reason.astype(jnp.int32), level.astype(jnp.int32)


def offchip_bytes(counts: AccessCounts, machine: Machine):
    """Bytes read from and sent to the off-chip memory, all data spaces, `[]`: (reads + updates) * word bits / 8."""
    words = jnp.sum(counts.reads + counts.updates, axis=1)
    return jnp.sum(jnp.where(outermost(machine), words * machine.word_bits / 8, 0), axis=0)


def plausible(layer: LayerArrays, counts: AccessCounts, cycles: CycleCounts, machine: Machine):
    """Two checks that every reported result of a valid mapping must pass: `[]` bool.

    The counted MACs are those of the layer, and no more run per cycle than the machine has.
    """
    macs = product_over(layer.bounds.astype(counts.macs.dtype))
    most = cycles.total * machine.mac_instances
    slack = 1 + 1e-5 if macs.dtype == jnp.float32 else 1
    return (counts.macs <= macs * slack) & (macs <= counts.macs * slack) & (counts.macs <= most * slack)


def map_blocks(function, arrays, shared=(), *, block_size: int | None = None, wide: int = WIDE):
    """Apply a function of this module's layout to a batch, in blocks that suit the platform.

    On a processor a block stays in the cache. On an accelerator it fills the device, within the limit of its memory.

    Args:
        function: `function(arrays, shared)`, indexing leading axes only; it sees the batch as the last axis.
        arrays: Pytree whose leaves have a leading batch axis N.
        shared: Pytree whose leaves have no batch axis; the function sees them with a last axis of size 1.
        block_size: Static. Most mappings per block; default 128 on a processor and `wide` elsewhere.
        wide: Static. Most mappings per block on an accelerator.

    Returns:
        The function's pytree with a leading batch axis N.
    """
    shared = jax.tree.map(lambda x: jnp.asarray(x)[..., None], shared)

    def one(chunk):
        block = jax.tree.leaves(chunk)[0].shape[0]
        result = function(jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), chunk), shared)
        return jax.tree.map(lambda x: jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], block)), -1, 0), result)

    arrays = jax.tree.map(jnp.asarray, arrays)
    if block_size is not None:
        return in_blocks(one, arrays, max(block_size, 1))
    return in_fitting_blocks(one, arrays, BLOCK, wide)


def evaluate_batch(
    layers: LayerArrays,
    mappings: Mapping,
    machines: Machine,
    counting: Counting = DEFAULT_COUNTING,
    *,
    own_fanout: bool = False,
    block_size: int | None = None,
) -> Evaluation:
    """Evaluate many mappings: counts, cycles, energy, validity. Jit it with `counting` and the keywords static.

    Args:
        layers: One layer, or a leading batch axis N on every leaf.
        mappings: Leading batch axis N.
        machines: One machine, or a leading batch axis N on every leaf.
        counting: What is counted; the faster way for wires on wide meshes (`grid`) is compiled in any case.
        own_fanout: Each level must stay within its own fanout, see `validity`.
        block_size: Most mappings per block, see `map_blocks`; on an accelerator 2^16 by default, 2^10 with links.

    Returns:
        `Evaluation` with a leading batch axis N.

    Raises:
        ValueError: a shape or dtype is wrong, at trace time.
    """
    if len(leading_axes(layers, mappings, np.shape(machines.keep)[-2:])) != 1:
        raise ValueError(f"mappings: expected one leading axis, got temporal factors {np.shape(mappings.temporal)}")
    counting = dataclasses.replace(counting, grid=True)
    arrays: dict[str, object] = {"mapping": mappings}
    shared: dict[str, object] = {}
    (arrays if jnp.ndim(layers.bounds) > 1 else shared)["layer"] = layers
    (arrays if jnp.ndim(machines.capacity) > 1 else shared)["machine"] = machines

    def evaluate(arrays, shared):
        given = {**arrays, **shared}
        layer, mapping, machine = given["layer"], given["mapping"], given["machine"]
        counts = count_accesses(layer, mapping, machine, counting)
        reason, level = validity(counts, mapping, machine, own_fanout=own_fanout)
        time = cycles(counts, machine)
        return Evaluation(
            counts=counts,
            cycles=time,
            energy=energy(counts, machine),
            reason=reason,
            level=level,
            plausible=plausible(layer, counts, time, machine),
        )

    # With links every mapping needs a table of pairs of children.
    wide = _WIDE >> 6 if counting.links else _WIDE
    return map_blocks(evaluate, arrays, shared, block_size=block_size, wide=wide)
