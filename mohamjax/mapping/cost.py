"""The loop-nest cost model: what one layer costs on one machine under one mapping, by Timeloop's rules.

Axes: L levels, innermost first, padded at the outer end; D loop dimensions (`workload.DIMS`); V data spaces
(weights, inputs, outputs); Q children of a level.

Every function is written for one mapping and indexes leading axes only, so that the same code also takes arrays
with one trailing batch axis (`[L, D, B]`, size 1 where shared), the layout that keeps a batch contiguous and that
`evaluate_batch` uses. `jax.vmap` works too. Nothing branches on a layer, a template or a size: one compilation
serves every problem of the same padded shape. Nothing here is jitted; callers jit once, at the top.

The rules are those of Timeloop 3.0.3 for dense tensors and perfect factors (docs/concepts/cost-model.md
has the sections named below). Counts are sums and products of positive terms only, since float32 holds no exact
difference of large counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.blocks import in_blocks
from mohamjax.hardware.machine import DATA_SPACES, Machine
from mohamjax.mapping.children import (
    ALL,
    MAX_CHILDREN,
    RELEVANT,
    C,
    G,
    I,
    K,
    N,
    O,
    P,
    Q,
    R,
    S,
    W,
    are_relevant,
    by_slot,
    exact_divide,
    group_counts,
    hop_sums,
    product_over,
    widest,
    windows,
)
from mohamjax.mapping.links import input_share, link_traffic, mac_traffic
from mohamjax.mapping.nest import LayerArrays, Mapping
from mohamjax.workload.layer import DIMS

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = [
    "MAX_CHILDREN",
    "REASONS",
    "AccessCounts",
    "CycleCounts",
    "EnergyBreakdown",
    "Evaluation",
    "area",
    "count_accesses",
    "cycles",
    "energy",
    "evaluate_batch",
    "map_blocks",
    "minimal_hardware",
    "offchip_bytes",
    "plausible",
    "validity",
]

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
"""Names of the codes that `validity` returns; a level that fails its capacity and its mesh has a code of both."""


@dataclass(frozen=True)
class AccessCounts:
    """Word counts of one mapping, per instance of a level and over the whole layer. Padded levels hold zeros.

    Attributes:
        tile: `[L, V]` float, words stored per instance, 0 where bypassed.
        partition: `[L, V]` float, words of the tensor that one instance ever owns, 0 where bypassed.
        reads: `[L, V]` float, words read.
        fills: `[L, V]` float, words written from the parent level.
        updates: `[L, V]` float, words written from the child level (outputs only).
        delivered: `[L, V]` float, words delivered to one child.
        ingress: `[L, V]` float, words that enter the network below the level, before any bypass.
        network: `[L, V]` float, likewise with bypasses: a level below which a data space is bypassed serves the
            children of the bypassed level.
        hops: `[L, V]` float, sum over those words of the wire hops they take; 0 without `wires`, nan where the
            level uses more children than the table holds.
        link_transfers: `[L, V]` float, words that the level's children hand to a neighbour.
        instances_used: `[L]` float.
        expansion: `[L, 2]` float, instances used along X and Y.
        fanout_used: `[L, 2]` float, children used along X and Y under one instance.
        mac_expansion: `[2]` float, MACs used along X and Y.
        macs: `[]` float, multiply-accumulates of the mapping: product of all factors.
        compute_cycles: `[]` float, cycles without bandwidth limits: product of the temporal factors.
    """

    tile: jax.Array
    partition: jax.Array
    reads: jax.Array
    fills: jax.Array
    updates: jax.Array
    delivered: jax.Array
    ingress: jax.Array
    network: jax.Array
    hops: jax.Array
    link_transfers: jax.Array
    instances_used: jax.Array
    expansion: jax.Array
    fanout_used: jax.Array
    mac_expansion: jax.Array
    macs: jax.Array
    compute_cycles: jax.Array


@dataclass(frozen=True)
class CycleCounts:
    """Cycles of one mapping.

    Attributes:
        total: `[]` float, with every bandwidth limit of the machine.
        onchip: `[]` float, without the limits of the off-chip memory.
        per_level: `[L]` float, the bound that each level sets; 0 for padding.
        slowdown: `[L]` float in (0, 1], granted over needed bandwidth.
    """

    total: jax.Array
    onchip: jax.Array
    per_level: jax.Array
    slowdown: jax.Array


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


def outermost(machine: Machine):
    """`[L]` bool: the outermost existing level, the off-chip memory."""
    following = jnp.concatenate([machine.level_mask[1:], jnp.zeros_like(machine.level_mask[:1])])
    return machine.level_mask & ~following


def kept(mapping: Mapping, machine: Machine):
    """`[L, V]` bool: data spaces stored at each level. The off-chip memory always keeps all, padding none."""
    return (mapping.keep | outermost(machine)[:, None]) & machine.level_mask[:, None]


def _input_window(layer: LayerArrays, extents):
    """Input extents along the two spatial axes for extents `[D, ...]`."""
    stride, dilation = layer.stride.astype(extents.dtype), layer.dilation.astype(extents.dtype)
    return tuple(
        (extents[out] - 1) * stride[a] + (extents[tap] - 1) * dilation[a] + 1
        for a, (out, tap) in enumerate(((P, R), (Q, S)))
    )


def _box(layer: LayerArrays, extents):
    """Words of each data space for extents `[D, ...]` (section 1)."""
    h, w = _input_window(layer, extents)
    return (
        product_over(extents, RELEVANT[W]),
        product_over(extents, (G, N, C)) * h * w,
        product_over(extents, RELEVANT[O]),
    )


def _repeats(order, bounds):
    """Loops of one level that repeat a delivery of weights or outputs (sections 3, 12).

    For these a loop is either stationary or moves the tile to words that it did not hold. The innermost run of
    irrelevant loops is free; every loop from the first relevant one outwards repeats the whole delivery.

    Args:
        order: `[D, ...]` dimension of each slot.
        bounds: `[D, ...]` loop bound of each slot.

    Returns:
        For weights and outputs, `[2, ...]`: whether a relevant loop of bound above 1 is there, and the product of the
        irrelevant bounds outside the first.
    """
    started = jnp.zeros((2, *bounds[0].shape), bool)
    repeats = jnp.ones(started.shape, bounds.dtype)
    for dim, bound in zip(order, bounds, strict=True):
        relevant = are_relevant(dim, (W, O))
        repeats = jnp.where(started & ~relevant, repeats * bound, repeats)
        started = started | (relevant & (bound > 1))
    return started, repeats


def _input_loops(layer: LayerArrays, order, union):
    """How the loops of one level move the inputs: (shift, axis) of each slot, `[D, ...]` (section 3).

    Axis 0 is that of P and R, 1 that of Q and S, 2 any other on which the tile moves, by whole tiles; -1 is for K.
    """
    on_first, on_second = (order == P) | (order == R), (order == Q) | (order == S)
    axis = jnp.where(on_first, 0, jnp.where(on_second, 1, jnp.where(order == K, -1, 2)))
    shift = jnp.where(order == K, 0, jnp.ones(order.shape, union.dtype))
    steps = {P: layer.stride[0], Q: layer.stride[1], R: layer.dilation[0], S: layer.dilation[1]}
    for d, step in steps.items():
        shift = jnp.where(order == d, union[d] * step.astype(union.dtype), shift)
    return shift, axis


def _input_deliveries(loops, h, w, rest):
    """Words of the inputs delivered to one child of each level: `[L, ...]` (section 3).

    Let F be the child's tile, s_k the shift of the k-th loop and S_k = s_1 + ... + s_{k-1}. A step of loop k
    costs c(s_1) if s_k - S_k equals s_1 and F otherwise, where c(t) is the number of words of the tile shifted by
    t that the tile does not hold; loop 1 always costs c(s_1). All shifts are non-negative and each lies on one
    axis, so equality needs all relevant loops so far on one axis, on which s_k = S_k + s_1 holds as numbers. It
    changes the cost only on the two axes on which windows slide; on any other axis the tile moves by whole tiles.

    The scan runs over all loops of the nest, innermost first, for all levels at once. State: the words after the
    first delivery, c(s_1), S_k + s_1, and the axis (-2 no loop yet, -1 none that moves the tile, 0 or 1 the
    sliding axis, 2 when no later loop can match).

    Args:
        loops: (bound, shift, axis) of each slot, `[D, L, ...]`.
        h: `[L, ...]` extent of the child's tile along the first spatial axis.
        w: `[L, ...]` along the second.
        rest: `[L, ...]` product of its other extents.
    """
    levels = h.shape[0]
    full, per_row, per_column = rest * h * w, rest * w, rest * h
    index = jnp.arange(levels).reshape((levels,) + (1,) * (h.ndim - 1))

    def loop(state, xs):
        words, first_cost, target, axis = state
        (bound, shift, on), level = xs
        active = (index <= level) & (bound > 1)
        first = axis == -2
        sliding = jnp.where(on == 0, per_row * jnp.minimum(h, shift), per_column * jnp.minimum(w, shift))
        start_cost = jnp.where(on >= 0, jnp.where(on == 2, full, sliding), 0)
        same = (on == -1) | (on == axis)
        match = (shift == target) & (axis != 2) & same
        cost = jnp.where(first, start_cost, jnp.where(match, first_cost, full))
        turned = jnp.where(axis < 0, on, jnp.where(same, axis, 2))
        return (
            jnp.where(active, words * bound + (bound - 1) * cost, words),
            jnp.where(active & first, start_cost, first_cost),
            jnp.where(active, jnp.where(first, shift + shift, target + shift), target),
            jnp.where(active, turned, axis),
        ), None

    zero = jnp.zeros_like(full)
    start = (zero, zero, zero, jnp.full(full.shape, -2, jnp.int32))
    flat = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape((-1, *x.shape[2:])), loops)
    (words, *_), _ = lax.scan(loop, start, (flat, jnp.arange(levels * len(DIMS)) // len(DIMS)))
    return full + words


def count_accesses(
    layer: LayerArrays,
    mapping: Mapping,
    machine: Machine,
    *,
    links: bool = False,
    wires: bool = True,
    max_children: int = MAX_CHILDREN,
    grid: bool = False,
) -> AccessCounts:
    """Count the words that every level stores, reads, fills and updates (sections 1 and 3 to 8).

    Args:
        layer: Loop bounds, strides, dilations.
        mapping: Loop nest whose factors multiply to the bounds.
        machine: Only its levels and fanouts (for the wires) matter here.
        links: Static. Count words that neighbours hand on (Timeloop's default, off in the search).
        wires: Static. Count hops; without it `hops` is 0 and wires cost nothing.
        max_children: Static. Children per level that the tables for wires and links have room for. 0 compiles no
            table (a third of the compile time): hops are then nan where P runs along a level's children together with
            R, or Q with S, and where the machine's mesh is wider than the level uses and has several rows.
        grid: Static. Compile a faster way, too, for wires on meshes wider than their level uses. Not worth it where
            every mapping is counted on an array of its own size.

    Returns:
        `AccessCounts` in the float dtype of the machine.
    """
    dtype = machine.capacity.dtype
    batch = jnp.broadcast_shapes(
        mapping.temporal.shape[2:], layer.bounds.shape[1:], machine.capacity.shape[1:], mapping.keep.shape[2:]
    )
    levels = mapping.temporal.shape[0]
    shape = (levels, *batch)
    layer = jax.tree.map(lambda x: x[:, None], layer)

    # From here on arrays over (dimension or data space, level). What follows from one level alone is computed for
    # all levels at once; what accumulates over levels is scanned, outwards or inwards. Both keep XLA from computing
    # a long product anew for each of its readers.
    temporal = jnp.broadcast_to(jnp.moveaxis(mapping.temporal, 1, 0).astype(dtype), (len(DIMS), *shape))
    order = jnp.broadcast_to(jnp.moveaxis(mapping.order, 1, 0), temporal.shape)
    spatial = jnp.moveaxis(mapping.spatial, 2, 1).astype(dtype)
    spread = spatial[0] * spatial[1]
    child = jnp.moveaxis(
        lax.scan(
            lambda child, factor: (child * factor, child),
            jnp.ones((len(DIMS), *batch), dtype),
            jnp.moveaxis(spread * temporal, 1, 0),
        )[1],
        0,
        1,
    )
    union = child * spread
    size, union_size, child_size = ([*_box(layer, e)] for e in (union * temporal, union, child))
    axes = windows(layer, child, spread)
    groups = group_counts(spread, axes)
    used = [jnp.broadcast_to(product_over(spatial[axis]), shape) for axis in range(2)]

    bounds = by_slot(order, temporal)
    repeats = [*zip(*_repeats(order, bounds), strict=True)]
    relevant = [product_over(temporal, RELEVANT[v]) for v in (W, O)]
    irrelevant = [product_over(temporal, [d for d in ALL if d not in RELEVANT[v]]) for v in (W, O)]
    h, w = _input_window(layer, child)
    window = (h, w, product_over(child, (G, N, C)))
    loops = (bounds, *_input_loops(layer, order, union))
    inputs = _input_deliveries(loops, *window)

    spatial_order = jnp.moveaxis(mapping.spatial_order, 2, 1)
    fanout = jnp.moveaxis(machine.fanout, 1, 0)
    if wires:
        per_word = jnp.broadcast_to(hop_sums(spatial_order, spatial, fanout, axes, max_children, grid), (3, *shape))
    else:
        per_word = jnp.zeros((3, *shape), dtype)
    if links:
        given: dict[str, Any] = widest(
            {
                "loops": loops,
                "window": window,
                "order": spatial_order,
                "spatial": spatial,
                "fanout": fanout,
                "axes": axes,
                "delivered": inputs,
                "groups": groups[I],
                "hops": per_word[I],
            }
        )
        exact = link_traffic(**given, size=max_children)
        traffic = jax.tree.map(lambda x: x.astype(dtype), exact)
        share = traffic.share
    else:
        traffic = exact = None
        share = input_share(inputs, spread, axes, max_children)

    def deliveries(outer, level):
        """Words delivered to one child; `outer` is the state of the next outer level."""
        moved = [a * b for a, b in zip(outer["relevant"], level["relevant"], strict=True)]
        still = [a * b for a, b in zip(outer["irrelevant"], level["irrelevant"], strict=True)]
        repeated = [
            jnp.where(started, repeats * above, visits)
            for (started, repeats), above, visits in zip(
                level["repeats"], outer["irrelevant"], outer["visits"], strict=True
            )
        ]
        # Every MAC takes one word of each data space per cycle, however often it is the same.
        visits = [jnp.where(level["is_first"], s, v) for s, v in zip(still, repeated, strict=True)]
        weights, outputs = (level["child_size"][v] * m * n for v, m, n in zip((W, O), moved, visits, strict=True))
        delivered = [weights, jnp.where(level["is_first"], weights, level["inputs"]), outputs]
        partition = [
            jnp.where(outer["children"] > 1, _whole_share(part, size, union), part)
            for part, size, union in zip(outer["partition"], level["size"], outer["union_size"], strict=True)
        ]
        state = {
            "relevant": moved,
            "irrelevant": still,
            "visits": repeated,
            "partition": partition,
            "union_size": level["union_size"],
            "children": level["used"][0] * level["used"][1],
            "share": [weights, level["share"]],
            "expansion": [a * b for a, b in zip(outer["expansion"], level["used"], strict=True)],
        }
        out = {
            "expansion": outer["expansion"],
            "delivered": delivered,
            "again": visits[1] - 1,
            "partition": partition,
            "share": [*outer["share"], partition[O] * (outer["visits"][1] - 1)],
        }
        return state, out

    one = jnp.ones(batch, dtype)
    whole = [jnp.broadcast_to(x[-1], batch) for x in size]
    start = {
        "relevant": [one, one],
        "irrelevant": [one, one],
        "visits": [one, one],
        "partition": whole,
        "union_size": whole,
        "children": one,
        "share": whole[:O],
        "expansion": [one, one],
    }
    xs = {
        "relevant": relevant,
        "irrelevant": irrelevant,
        "repeats": repeats,
        "child_size": child_size,
        "size": size,
        "union_size": union_size,
        "inputs": inputs,
        "share": share,
        "used": used,
        "is_first": jnp.arange(levels) == 0,
    }
    nest, outer = lax.scan(deliveries, start, xs, reverse=True)
    macs = None
    if links:
        moved, still, repeated = (jnp.stack(nest[name]) for name in ("relevant", "irrelevant", "visits"))
        level = (spatial_order[:, :, 0], spatial[:, :, 0], fanout[:, 0], jax.tree.map(lambda x: x[0], axes))
        served = [jnp.stack([x[W][0], x[O][0]]) for x in (groups, per_word)]
        given = widest([moved, still, repeated, *level, *served])
        macs = jax.tree.map(lambda x: x.astype(dtype), mac_traffic(*given, size=max_children))
        outer["again"] = outer["again"].at[0].set(macs.again)

    def accesses(inner, level):
        """What a level reads and writes; `inner` is the state of the next inner level.

        A level below which a data space is bypassed serves the children of the bypassed level; its own groups
        still share reads. An output word comes back as often as those children are served again.
        """
        ingress = [d * g for d, g in zip(level["delivered"], level["groups"], strict=True)]
        passed = [s * g for s, g in zip(inner["served"], level["groups"], strict=True)]
        if macs is not None:
            for v, words in zip((W, O), macs.ingress, strict=True):
                ingress[v] = jnp.where(level["is_first"], words, ingress[v])
            ingress[I] = level["traffic"].ingress
            children = level["used"][0] * level["used"][1]
            passed[I] = inner["served"][I] * children / level["traffic"].weighted * ingress[I]
        served = [jnp.where(inner["keep"][v], ingress[v], passed[v]) for v in (W, I, O)]
        again = jnp.where(inner["keep"][O], level["again"], inner["again"])
        reads = jnp.stack([served[W], served[I], level["partition"][O] * again])
        updates = jnp.stack([jnp.zeros_like(again), jnp.zeros_like(again), served[O]])
        keep, hops = level["keep"], (level["per_word"], level["delivered"])
        out = {
            "tile": jnp.where(keep, jnp.stack(level["size"]), 0),
            "partition": jnp.where(keep, jnp.stack(level["partition"]), 0),
            "reads": jnp.where(keep, reads, 0),
            "fills": jnp.where(keep & ~level["top"], jnp.stack(level["share"]), 0),
            "updates": jnp.where(keep, updates, 0),
            "delivered": jnp.where(level["real"], jnp.stack(level["delivered"]), 0),
            "ingress": jnp.where(level["real"], jnp.stack(ingress), 0),
            "network": jnp.where(level["real"], jnp.stack(served), 0),
            "expansion": jnp.where(level["real"], jnp.stack(level["expansion"]), 0),
            "fanout_used": jnp.stack(level["used"]),
            "hops": jnp.where(level["real"], jnp.stack([h * d for h, d in zip(*hops, strict=True)]), 0),
        }
        return {"served": served, "again": again, "keep": jnp.broadcast_to(keep, updates.shape)}, out

    xs = {
        **outer,
        "groups": groups,
        "size": size,
        "used": used,
        "keep": kept(mapping, machine),
        "top": outermost(machine),
        "real": machine.level_mask,
        "traffic": traffic,
        "per_word": [*per_word],
        "is_first": jnp.arange(levels) == 0,
    }
    start = {"served": [one] * 3, "again": one, "keep": jnp.ones((len(DATA_SPACES), *batch), bool)}
    _, tables = lax.scan(accesses, start, xs)

    instances_used = tables["expansion"][:, 0] * tables["expansion"][:, 1]
    hops = tables.pop("hops")
    transfers = jnp.zeros_like(hops)
    if traffic is not None and exact is not None and macs is not None:
        # Neighbours exchange what the next inner level stores, or the MACs have: its reads and fills grow.
        stored = tables["tile"][:, I] > 0
        inside = jnp.concatenate([jnp.ones_like(stored[:1]), stored[:-1]])
        handed = jnp.where(inside & machine.level_mask, traffic.link_transfers, 0)
        peer, share = (jnp.concatenate([x[1:], jnp.zeros_like(x[:1])]) for x in (widest(handed), exact.share))
        peer = peer / widest(jnp.maximum(instances_used, 1))
        reads = jnp.where(stored, _round(tables["reads"][:, I] + peer.astype(dtype)), 0)
        fills = jnp.where(stored & ~outermost(machine), _floor(share + peer).astype(dtype), 0)
        tables["reads"] = tables["reads"].at[:, I].set(reads)
        tables["fills"] = tables["fills"].at[:, I].set(fills)
        tables["reads"] = tables["reads"].at[:, O].set(_round(tables["reads"][:, O]))
        hops = hops.at[:, I].set(jnp.where(machine.level_mask, traffic.hops, 0))
        transfers = transfers.at[:, I].set(handed)
        for v, crossed, words in zip((W, O), macs.hops, macs.link_transfers, strict=True):
            hops, transfers = hops.at[0, v].set(crossed), transfers.at[0, v].set(words)
    compute_cycles = nest["relevant"][0] * nest["irrelevant"][0]
    return AccessCounts(
        **tables,
        hops=hops,
        link_transfers=transfers,
        instances_used=instances_used,
        mac_expansion=jnp.stack(nest["expansion"]),
        macs=compute_cycles * nest["expansion"][0] * nest["expansion"][1],
        compute_cycles=compute_cycles,
    )


def _whole_share(part, size, union):
    """Whole part of part * size / union (section 5)."""
    exact_part, exact_size, exact_union = widest((part, size, union))
    return _floor(exact_divide(exact_part * exact_size, exact_union)).astype(part.dtype)


def _round(x):
    """Nearest whole number, halves up."""
    return jnp.floor(x + 0.5)


def _floor(x):
    """Floor that forgives the rounding of single precision below an integer."""
    return jnp.floor(x * (1 + 3e-7)) if x.dtype == jnp.float32 else jnp.floor(x)


def minimal_hardware(counts: AccessCounts, mapping: Mapping, block_words, granularity, capacity_max):
    """The smallest sizes of each level that the mapping needs (docs/concepts/hardware.md).

    Args:
        counts: From `count_accesses`.
        mapping: Its fanout is the one used.
        block_words: `[L]` float, words of a row.
        granularity: `[L]` float, rows that a capacity is rounded up to; 0 leaves it as it is.
        capacity_max: `[L]` float, the template's maximum, words; inf stays inf (off-chip memory, padding).

    Returns:
        `(capacity [L] words, fanout [L, 2])`, floats. A level that stores nothing keeps one granule.
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
    bandwidth = widest(machine.bandwidth)
    slowdown = jnp.ones_like(reads[:, W])
    # Per data space divided first, then added in this order: what double precision makes of it decides the ceil.
    for direction, words in enumerate((reads, writes)):
        shares = exact_divide(words, compute)
        need = shares[:, W] + shares[:, I] + shares[:, O]
        limit = bandwidth[:, direction]
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
    writes = jnp.ceil(counts.fills / block) + jnp.ceil(counts.updates / block)
    level = (jnp.ceil(counts.reads / block) * read + writes * write) * counts.instances_used[:, None]
    network = jnp.sum(counts.hops + counts.link_transfers, axis=1) * machine.hop_energy * counts.instances_used
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
    """Bytes that the off-chip memory reads and is sent, all data spaces, `[]`: (reads + updates) * word bits / 8."""
    words = jnp.sum(counts.reads + counts.updates, axis=1)
    return jnp.sum(jnp.where(outermost(machine), words * machine.word_bits / 8, 0), axis=0)


def plausible(layer: LayerArrays, counts: AccessCounts, cycles: CycleCounts, machine: Machine):
    """Two checks that every reported result of a valid mapping must pass: `[]` bool.

    The MACs counted are those of the layer, and no more run per cycle than there are.
    """
    macs = product_over(layer.bounds.astype(counts.macs.dtype))
    most = cycles.total * machine.mac_instances
    slack = 1 + 1e-5 if macs.dtype == jnp.float32 else 1
    return (counts.macs <= macs * slack) & (macs <= counts.macs * slack) & (counts.macs <= most * slack)


def map_blocks(function, arrays, shared=(), *, block_size: int = 128):
    """Apply a function of this module's layout to a batch, in blocks that stay in the processor's cache.

    Args:
        function: `function(arrays, shared)`, indexing leading axes only; it sees the batch as the last axis.
        arrays: Pytree whose leaves have a leading batch axis N.
        shared: Pytree whose leaves have none; the function sees them with a last axis of size 1.
        block_size: Static. Mappings per block at most.

    Returns:
        The function's pytree with a leading batch axis N.
    """
    shared = jax.tree.map(lambda x: jnp.asarray(x)[..., None], shared)

    def one(chunk):
        block = jax.tree.leaves(chunk)[0].shape[0]
        result = function(jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), chunk), shared)
        return jax.tree.map(lambda x: jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], block)), -1, 0), result)

    return in_blocks(one, jax.tree.map(jnp.asarray, arrays), max(block_size, 1))


def evaluate_batch(
    layers: LayerArrays,
    mappings: Mapping,
    machines: Machine,
    *,
    links: bool = False,
    wires: bool = True,
    own_fanout: bool = False,
    max_children: int = MAX_CHILDREN,
    block_size: int = 128,
) -> Evaluation:
    """Evaluate many mappings: counts, cycles, energy, validity. Jit it with the keywords static.

    Args:
        layers: One layer, or a leading batch axis N on every leaf.
        mappings: Leading batch axis N.
        machines: One machine, or a leading batch axis N on every leaf.
        links: As in `count_accesses`.
        wires: As in `count_accesses`.
        own_fanout: As in `validity`.
        max_children: As in `count_accesses`.
        block_size: As in `map_blocks`.

    Returns:
        `Evaluation` with a leading batch axis N.
    """
    arrays: dict[str, Any] = {"mapping": mappings}
    shared: dict[str, Any] = {}
    (arrays if jnp.ndim(layers.bounds) > 1 else shared)["layer"] = layers
    (arrays if jnp.ndim(machines.capacity) > 1 else shared)["machine"] = machines

    def evaluate(arrays, shared):
        given = {**arrays, **shared}
        layer, mapping, machine = given["layer"], given["mapping"], given["machine"]
        counts = count_accesses(layer, mapping, machine, links=links, wires=wires, max_children=max_children, grid=True)
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

    return map_blocks(evaluate, arrays, shared, block_size=block_size)
