"""How many words every level stores, reads, fills and updates: the counts of the loop-nest cost model.

Axes: L levels, innermost first, padded at the outer end; D loop dimensions (`workload.DIMS`); V data spaces
(weights, inputs, outputs). `mapping.cost` states the layout and the rules. Counts are sums and products of positive
terms only, since float32 holds no exact difference of large counts.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mohamjax.dims import ALL, DATA_SPACES, DIMS, RELEVANT, C, G, I, K, N, O, P, Q, R, S, W, input_window, tensor_words
from mohamjax.hardware.arrays import Machine
from mohamjax.mapping.children import (
    MAX_CHILDREN,
    Windows,
    are_relevant,
    by_slot,
    group_counts,
    hop_sums,
    lenient_floor,
    product_over,
    round_up_halves,
    widest,
    windows,
)
from mohamjax.mapping.links import Children, InputTraffic, MacSteps, MacTraffic, input_share, link_traffic, mac_traffic
from mohamjax.mapping.nest import LayerArrays, Mapping
from mohamjax.mapping.walks import Delivery, Inside, Level, Outside, Served, Table, access, deliver
from mohamjax.runtime.platforms import short_scan
from mohamjax.runtime.struct import record


@record
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
        network: `[L, V]` float, words that enter that network after bypasses: where the next inner level bypasses a
            data space, this level serves the children of that one.
        hops: `[L, V]` float, sum over the words of `ingress` of the wire hops that they take; 0 without `wires`, nan
            where the level uses more children than the table holds.
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


def outermost(machine: Machine):
    """`[L]` bool: the outermost existing level, the off-chip memory."""
    following = jnp.concatenate([machine.level_mask[1:], jnp.zeros_like(machine.level_mask[:1])])
    return machine.level_mask & ~following


def kept(mapping: Mapping, machine: Machine):
    """`[L, V]` bool: data spaces stored at each level. The off-chip memory always keeps all, padding none."""
    return (mapping.keep | outermost(machine)[:, None]) & machine.level_mask[:, None]


def _steps(layer: LayerArrays, extents):
    """Strides and dilations in the dtype of extents."""
    return layer.stride.astype(extents.dtype), layer.dilation.astype(extents.dtype)


def _repeats(order, bounds):
    """Loops of one level that repeat a delivery of weights or outputs (section 3).

    For these data spaces a loop either leaves the tile in place or moves it to words that it did not hold. The
    innermost run of irrelevant loops is free; every loop from the first relevant one outwards repeats the delivery.

    Args:
        order: `[D, ...]` dimension of each slot.
        bounds: `[D, ...]` loop bound of each slot.

    Returns:
        For weights and outputs, `[2, ...]`: whether there is a relevant loop of bound above 1, and the product of the
        irrelevant bounds outside the first such loop.
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

    Axis 0 is that of P and R, 1 that of Q and S, 2 any other, along which the tile moves as a whole; K has axis -1.
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
    axis, so equality needs all relevant loops so far to be on one axis, with s_k = S_k + s_1 as numbers. It
    changes the cost only on the two axes on which windows slide; on any other axis the tile moves by whole tiles.

    The scan runs over all loops of the nest, innermost first, for all levels at once. Its state is the words delivered
    after the first tile, c(s_1), S_k + s_1, and the axis: -2 before any loop, -1 while no loop has moved the tile, 0 or
    1 for the sliding axis, 2 once no later loop can match.

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
    (words, *_), _ = short_scan(loop, start, (flat, jnp.arange(levels * len(DIMS)) // len(DIMS)))
    return full + words


@dataclasses.dataclass(frozen=True)
class Counting:
    """What is counted, and with which tables; static.

    Attributes:
        links: count words that neighbours hand on (Timeloop's default, off in the search).
        first_fills: fill outputs as Timeloop did before version 3.0, which counted the first visit of an output word as
            a fill too: the partition is not subtracted.
        wires: count hops; without it `hops` is 0 and wires cost nothing.
        max_children: children per level that the tables for wires and links have room for. 0 compiles no table, which
            saves a third of the compile time; hops are then nan where P runs along a level's children together with R,
            or Q with S, and where the machine's mesh is wider than the level uses and has several rows.
        grid: also compile a faster way to count wires on meshes that are wider than their level uses. This does not pay
            where every mapping is counted on an array of its own size.
    """

    links: bool = False
    first_fills: bool = False
    wires: bool = True
    max_children: int = MAX_CHILDREN
    grid: bool = False


DEFAULT_COUNTING = Counting()


def count_accesses(
    layer: LayerArrays, mapping: Mapping, machine: Machine, counting: Counting = DEFAULT_COUNTING
) -> AccessCounts:
    """Count the words that every level stores, reads, fills and updates (sections 1 and 3 to 8).

    Args:
        layer: Loop bounds, strides, dilations.
        mapping: Loop nest whose factors multiply to the bounds.
        machine: Only its levels and fanouts (for the wires) matter here.
        counting: Static. What is counted.

    Returns:
        `AccessCounts` in the float dtype of the machine.
    """
    dtype = machine.capacity.dtype
    batch = jnp.broadcast_shapes(
        mapping.temporal.shape[2:], layer.bounds.shape[1:], machine.capacity.shape[1:], mapping.keep.shape[2:]
    )
    levels = mapping.temporal.shape[0]
    layer = jax.tree.map(lambda x: x[:, None], layer)
    nest = _nest(layer, mapping, dtype, (levels, *batch))
    moves = _moves(layer, nest)
    children, per_word = _children(mapping, machine, nest, counting)
    if counting.links:
        exact = link_traffic(*widest((moves.loops, moves.window, children, moves.inputs)), size=counting.max_children)
        traffic = jax.tree.map(lambda x: x.astype(dtype), exact)
        share = traffic.share
    else:
        traffic = exact = None
        share = input_share(moves.inputs, nest.spread, nest.axes, counting.max_children)

    one = jnp.ones(batch, dtype)
    outside, delivery = _deliveries(nest, moves, share, one)
    macs = None
    if counting.links:
        exact_macs = mac_traffic(*widest(_mac_steps(outside, children, nest, per_word)), size=counting.max_children)
        macs = jax.tree.map(lambda x: x.astype(dtype), exact_macs)
        delivery = delivery._replace(again=delivery.again.at[0].set(macs.again))

    served = Served(
        delivery=delivery,
        groups=nest.groups,
        size=nest.size,
        used=nest.used,
        keep=kept(mapping, machine),
        top=outermost(machine),
        real=machine.level_mask,
        traffic=traffic,
        per_word=[*per_word],
        is_first=jnp.arange(levels) == 0,
    )
    inside = Inside(served=[one] * 3, again=one, keep=jnp.ones((len(DATA_SPACES), *batch), bool))
    _, table = short_scan(functools.partial(access, macs=macs), inside, served)

    instances_used = table.expansion[:, 0] * table.expansion[:, 1]
    transfers = jnp.zeros_like(table.hops)
    if traffic is not None and exact is not None and macs is not None:
        table, transfers = _with_links(table, machine, instances_used, traffic, exact.share, macs)
    if counting.first_fills:
        first = jnp.where(outermost(machine), 0, table.partition[:, O])
        table = table._replace(fills=table.fills.at[:, O].add(first))
    compute_cycles = outside.relevant[0] * outside.irrelevant[0]
    return AccessCounts(
        **table._asdict(),
        link_transfers=transfers,
        instances_used=instances_used,
        mac_expansion=jnp.stack(outside.expansion),
        macs=compute_cycles * outside.expansion[0] * outside.expansion[1],
        compute_cycles=compute_cycles,
    )


class _Nest(NamedTuple):
    """The loop nest, over (dimension or data space, level); sections 1 and 4.

    Quantities of one level are computed for all levels at once; those that accumulate over levels are scanned, outwards
    or inwards. Both keep XLA from computing a long product anew for each of its readers.

    Attributes:
        temporal: `[D, L, ...]` float, temporal factors.
        order: `[D, L, ...]` int32, their order.
        spatial: `[2, D, L, ...]` float, factors along X and Y.
        spread: `[D, L, ...]` float, children along each dimension.
        child: `[D, L, ...]` float, extents of one child's tile.
        union: `[D, L, ...]` float, extents of the tiles of all children together.
        size: words of each data space in the level's own tile, `[L, ...]` each.
        union_size: words of each data space in the tiles of its children together.
        child_size: words of each data space in one child's tile.
        axes: overlap of the input windows of the children.
        groups: groups of children that share each data space, `[L, ...]` each.
        used: children along X and Y, `[L, ...]` each.
    """

    temporal: jax.Array
    order: jax.Array
    spatial: jax.Array
    spread: jax.Array
    child: jax.Array
    union: jax.Array
    size: list[jax.Array]
    union_size: list[jax.Array]
    child_size: list[jax.Array]
    axes: tuple[Windows, Windows]
    groups: tuple[jax.Array, jax.Array, jax.Array]
    used: list[jax.Array]


def _nest(layer: LayerArrays, mapping: Mapping, dtype: jnp.dtype, shape: tuple[int, ...]) -> _Nest:
    """The loop nest of a mapping.

    Args:
        layer: the layer, with a level axis of size 1.
        mapping: the mapping.
        dtype: float dtype of the result.
        shape: (L, batch).
    """
    temporal = jnp.broadcast_to(jnp.moveaxis(mapping.temporal, 1, 0).astype(dtype), (len(DIMS), *shape))
    order = jnp.broadcast_to(jnp.moveaxis(mapping.order, 1, 0), temporal.shape)
    spatial = jnp.moveaxis(mapping.spatial, 2, 1).astype(dtype)
    spread = spatial[0] * spatial[1]
    child = jnp.moveaxis(
        short_scan(
            lambda child, factor: (child * factor, child),
            jnp.ones((len(DIMS), *shape[1:]), dtype),
            jnp.moveaxis(spread * temporal, 1, 0),
        )[1],
        0,
        1,
    )
    union = child * spread
    size, union_size, child_size = ([*tensor_words(e, *_steps(layer, e))] for e in (union * temporal, union, child))
    axes = windows(layer, child, spread)
    return _Nest(
        temporal=temporal,
        order=order,
        spatial=spatial,
        spread=spread,
        child=child,
        union=union,
        size=size,
        union_size=union_size,
        child_size=child_size,
        axes=axes,
        groups=group_counts(spread, axes),
        used=[jnp.broadcast_to(product_over(spatial[axis]), shape) for axis in range(2)],
    )


class _Moves(NamedTuple):
    """How the temporal loops of every level move the tiles (section 3).

    Attributes:
        repeats: for weights and outputs, the result of `_repeats`.
        relevant: for weights and outputs, product of the temporal factors that move them.
        irrelevant: for weights and outputs, product of the temporal factors that do not move them.
        loops: (bound, shift, axis) of each slot, as they move the inputs, `[D, L, ...]`.
        window: `[L, ...]` each, extents of a child's input tile along the two sliding axes, and the product of the
            others.
        inputs: `[L, ...]` float, words of the inputs delivered to one child.
    """

    repeats: list[tuple[jax.Array, jax.Array]]
    relevant: list[jax.Array]
    irrelevant: list[jax.Array]
    loops: tuple[jax.Array, jax.Array, jax.Array]
    window: tuple[jax.Array, jax.Array, jax.Array]
    inputs: jax.Array


def _moves(layer: LayerArrays, nest: _Nest) -> _Moves:
    bounds = by_slot(nest.order, nest.temporal)
    repeats = [*zip(*_repeats(nest.order, bounds), strict=True)]
    relevant = [product_over(nest.temporal, RELEVANT[v]) for v in (W, O)]
    irrelevant = [product_over(nest.temporal, [d for d in ALL if d not in RELEVANT[v]]) for v in (W, O)]
    h, w = input_window(nest.child, *_steps(layer, nest.child))
    window = (h, w, product_over(nest.child, (G, N, C)))
    loops = (bounds, *_input_loops(layer, nest.order, nest.union))
    return _Moves(repeats, relevant, irrelevant, loops, window, inputs=_input_deliveries(loops, *window))


def _children(mapping: Mapping, machine: Machine, nest: _Nest, counting: Counting) -> tuple[Children, jax.Array]:
    """The children of every level, as the inputs group them, and hops per word of each data space, `[V, L, ...]`."""
    shape = nest.temporal.shape[1:]
    order = jnp.moveaxis(mapping.spatial_order, 2, 1)
    fanout = jnp.moveaxis(machine.fanout, 1, 0)
    if counting.wires:
        hops = hop_sums(order, nest.spatial, fanout, nest.axes, counting.max_children, counting.grid)
        per_word = jnp.broadcast_to(hops, (3, *shape))
    else:
        per_word = jnp.zeros((3, *shape), nest.temporal.dtype)
    return Children(order, nest.spatial, fanout, nest.axes, nest.groups[I], per_word[I]), per_word


def _deliveries(nest: _Nest, moves: _Moves, share: jax.Array, one: jax.Array) -> tuple[Outside, Delivery]:
    """Walks inwards: returns the state outside the MACs, and what every level delivers (sections 3 and 5).

    Args:
        nest: the loop nest.
        moves: how its temporal loops move the tiles.
        share: `[L, ...]`, words of the inputs that one child does not get from another.
        one: ones, one for each mapping of the batch.
    """
    levels = nest.temporal.shape[1]
    whole = [jnp.broadcast_to(x[-1], one.shape) for x in nest.size]
    outside = Outside(
        relevant=[one, one],
        irrelevant=[one, one],
        visits=[one, one],
        partition=whole,
        union_size=whole,
        children=one,
        share=whole[:O],
        expansion=[one, one],
    )
    own = Level(
        relevant=moves.relevant,
        irrelevant=moves.irrelevant,
        repeats=moves.repeats,
        child_size=nest.child_size,
        size=nest.size,
        union_size=nest.union_size,
        inputs=moves.inputs,
        share=share,
        used=nest.used,
        is_first=jnp.arange(levels) == 0,
    )
    return short_scan(deliver, outside, own, reverse=True)


def _mac_steps(outside: Outside, children: Children, nest: _Nest, per_word: jax.Array) -> tuple[MacSteps, Children]:
    """Arguments of `mac_traffic`: the steps of the whole nest, and the MACs as children of level 0."""
    steps = MacSteps(*(jnp.stack(part) for part in (outside.relevant, outside.irrelevant, outside.visits)))
    order, spatial, fanout = children.order[:, :, 0], children.spatial[:, :, 0], children.fanout[:, 0]
    axes = jax.tree.map(lambda x: x[0], children.axes)
    groups, hops = (jnp.stack([x[W][0], x[O][0]]) for x in (nest.groups, per_word))
    return steps, Children(order, spatial, fanout, axes, groups, hops)


def _with_links(
    table: Table,
    machine: Machine,
    instances_used: jax.Array,
    traffic: InputTraffic,
    exact_share: jax.Array,
    macs: MacTraffic,
) -> tuple[Table, jax.Array]:
    """The table with links accounted for, and the words handed on `[L, V]` (section 6).

    Neighbours exchange words that the next inner level stores, whose reads and fills grow, or that MACs hold.

    Args:
        table: result of the walk outwards.
        machine: the machine.
        instances_used: `[L, ...]`, of every level.
        traffic: from `link_traffic`, in the dtype of the table.
        exact_share: its `share` before rounding to that dtype.
        macs: from `mac_traffic`.
    """
    dtype = table.reads.dtype
    stored = table.tile[:, I] > 0
    below = jnp.concatenate([jnp.ones_like(stored[:1]), stored[:-1]])
    handed = jnp.where(below & machine.level_mask, traffic.link_transfers, 0)
    peer, share = (jnp.concatenate([x[1:], jnp.zeros_like(x[:1])]) for x in (widest(handed), exact_share))
    peer = peer / widest(jnp.maximum(instances_used, 1))
    reads = jnp.where(stored, round_up_halves(table.reads[:, I] + peer.astype(dtype)), 0)
    fills = jnp.where(stored & ~outermost(machine), lenient_floor(share + peer).astype(dtype), 0)
    reads = table.reads.at[:, I].set(reads)
    reads = reads.at[:, O].set(round_up_halves(reads[:, O]))
    fills = table.fills.at[:, I].set(fills)
    hops = table.hops.at[:, I].set(jnp.where(machine.level_mask, traffic.hops, 0))
    transfers = jnp.zeros_like(table.hops).at[:, I].set(handed)
    for v, crossed, words in zip((W, O), macs.hops, macs.link_transfers, strict=True):
        hops, transfers = hops.at[0, v].set(crossed), transfers.at[0, v].set(words)
    return table._replace(reads=reads, fills=fills, hops=hops), transfers
