"""The loop-nest cost model: what one layer costs on one machine under one mapping, by Timeloop's rules.

Axes: L levels, innermost first, padded at the outer end; D loop dimensions (`workload.DIMS`); V data spaces
(weights, inputs, outputs); Q children of a level.

Every function is written for one mapping and indexes leading axes only, so that the same code also takes arrays
with one trailing batch axis (`[L, D, B]`, size 1 where shared), the layout that keeps a batch contiguous and that
`evaluate_batch` uses. `jax.vmap` works too. Nothing branches on a layer, a template or a size: one compilation
serves every problem of the same padded shape. Nothing here is jitted; callers jit once, at the top.

The rules are those of Timeloop 3.0.3 for dense tensors and perfect factors (`semantics.md` of the reference data
gives the sections named below). Counts are sums and products of positive terms only, since float32 holds no exact
difference of large counts.
"""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.hardware.machine import DATA_SPACES, Machine
from mohamjax.mapping.nest import LayerArrays, Mapping
from mohamjax.workload.layer import DIMS

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
    "validity",
]

G, N, K, C, P, Q, R, S = range(len(DIMS))
W, I, O = range(len(DATA_SPACES))
RELEVANT = ((G, K, C, R, S), (G, N, C, P, Q, R, S), (G, N, K, P, Q))
"""Per data space the dimensions that move it."""
_RELEVANT_BITS = tuple(sum(1 << d for d in dims) for dims in RELEVANT)

MAX_CHILDREN = 256
"""Default size of the table over the children of a level from which wires are counted."""

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


@chex.dataclass(frozen=True)
class AccessCounts:
    """Word counts of one mapping, per instance of a level and over the whole layer. Padded levels hold zeros.

    Attributes:
        tile: `[L, V]` float, words stored per instance, 0 where bypassed.
        partition: `[L, V]` float, words of the tensor that one instance ever owns, 0 where bypassed.
        reads: `[L, V]` float, words read.
        fills: `[L, V]` float, words written from the parent level.
        updates: `[L, V]` float, words written from the child level (outputs only).
        ingress: `[L, V]` float, words that enter the network below the level, before any bypass.
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

    tile: chex.Array
    partition: chex.Array
    reads: chex.Array
    fills: chex.Array
    updates: chex.Array
    ingress: chex.Array
    hops: chex.Array
    link_transfers: chex.Array
    instances_used: chex.Array
    expansion: chex.Array
    fanout_used: chex.Array
    mac_expansion: chex.Array
    macs: chex.Array
    compute_cycles: chex.Array


@chex.dataclass(frozen=True)
class CycleCounts:
    """Cycles of one mapping.

    Attributes:
        total: `[]` float, with every bandwidth limit of the machine.
        onchip: `[]` float, without the limits of the off-chip memory.
        per_level: `[L]` float, the bound that each level sets; 0 for padding.
        slowdown: `[L]` float in (0, 1], granted over needed bandwidth.
    """

    total: chex.Array
    onchip: chex.Array
    per_level: chex.Array
    slowdown: chex.Array


@chex.dataclass(frozen=True)
class EnergyBreakdown:
    """Energy of one mapping in pJ, all instances.

    Attributes:
        total: `[]` float, sum of the rest.
        mac: `[]` float.
        level: `[L, V]` float, accesses.
        network: `[L]` float, wires below the level.
    """

    total: chex.Array
    mac: chex.Array
    level: chex.Array
    network: chex.Array


@chex.dataclass(frozen=True)
class Evaluation:
    """All results of `evaluate_batch`; a leading batch axis on every leaf.

    Attributes:
        counts: `AccessCounts`.
        cycles: `CycleCounts`.
        energy: `EnergyBreakdown`.
        reason: int32, index into `REASONS`.
        level: int32, the level that failed; -1 for none and for the MACs.
    """

    counts: AccessCounts
    cycles: CycleCounts
    energy: EnergyBreakdown
    reason: chex.Array
    level: chex.Array


def _product(factors):
    """Product of a sequence of arrays."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _outward(values, combine):
    """Running combination of `values[0..i]` over the leading axis, as a list; levels are few, so unrolled."""
    out = [values[0]]
    for i in range(1, values.shape[0]):
        out.append(combine(out[-1], values[i]))
    return out


def _above(values):
    """`[L, ...]`: product over the levels above each level (1 for the last)."""
    out = [jnp.ones_like(values[0])]
    for i in range(values.shape[0] - 1, 0, -1):
        out.append(out[-1] * values[i])
    return jnp.stack(out[::-1])


def outermost(machine: Machine):
    """`[L]` bool: the outermost existing level, the off-chip memory."""
    following = jnp.concatenate([machine.level_mask[1:], jnp.zeros_like(machine.level_mask[:1])])
    return machine.level_mask & ~following


def kept(mapping: Mapping, machine: Machine):
    """`[L, V]` bool: data spaces stored at each level. The off-chip memory always keeps all, padding none."""
    return (mapping.keep | outermost(machine)[:, None]) & machine.level_mask[:, None]


def _box(layer: LayerArrays, extents):
    """Words of each data space for extents `[L, D, ...]`: `[L, V, ...]` (section 1)."""
    e = [extents[:, d] for d in range(len(DIMS))]
    h, w = _input_window(layer, extents)
    weights = e[G] * e[K] * e[C] * e[R] * e[S]
    inputs = e[G] * e[N] * e[C] * h * w
    outputs = e[G] * e[N] * e[K] * e[P] * e[Q]
    return jnp.stack([weights, inputs, outputs], axis=1)


def _input_window(layer: LayerArrays, extents):
    """Input extents along the two spatial axes for extents `[L, D, ...]`: two `[L, ...]` arrays."""
    stride, dilation = layer.stride.astype(extents.dtype), layer.dilation.astype(extents.dtype)
    return tuple(
        (extents[:, out] - 1) * stride[a] + (extents[:, tap] - 1) * dilation[a] + 1
        for a, (out, tap) in enumerate(((P, R), (Q, S)))
    )


def _by_slot(order, values):
    """Values `[L, D, ...]` per dimension -> list over slots (innermost first) of `[L, ...]`, by `order`."""
    slots = []
    for j in range(len(DIMS)):
        chosen = jnp.broadcast_to(values[:, 0], jnp.broadcast_shapes(values[:, 0].shape, order[:, j].shape))
        for d in range(1, len(DIMS)):
            chosen = jnp.where(order[:, j] == d, values[:, d], chosen)
        slots.append(chosen)
    return slots


def _visits(order, bounds, space):
    """How often each word is delivered to one child: `[L, ...]` (sections 3, 12).

    For weights and outputs a loop is either stationary or moves the tile to words that it did not hold. The
    innermost run of irrelevant loops is free; every loop from the first relevant one outwards repeats the whole
    delivery. So words delivered = tile * (all relevant bounds) * (irrelevant bounds outside the first relevant).
    """
    levels = order.shape[0]
    started = jnp.zeros(jnp.broadcast_shapes(order[:, 0].shape, bounds[0].shape), bool)
    inside, everything = jnp.ones_like(bounds[0]), jnp.ones_like(bounds[0])
    for j, bound in enumerate(bounds):
        relevant = ((_RELEVANT_BITS[space] >> order[:, j]) & 1) == 1
        repeat = jnp.where(relevant, 1, bound)
        everything = everything * repeat
        inside = inside * jnp.where(started, repeat, 1)
        started = started | (relevant & (bound > 1))
    out = [jnp.ones_like(inside[0])]
    above = jnp.ones_like(inside[0])
    for i in range(levels - 1, -1, -1):
        out.append(jnp.where(started[i], inside[i] * above, out[-1]))
        above = above * everything[i]
    return jnp.stack(out[:0:-1])


def _input_deliveries(layer: LayerArrays, order, bounds, child, union):
    """Words of the inputs delivered to one child of each level: `[L, ...]` (section 3).

    Let F be the child's tile, s_k the shift of the k-th loop and S_k = s_1 + ... + s_{k-1}. A step of loop k
    costs c(s_1) if s_k - S_k equals s_1 and F otherwise, where c(t) is the number of words of the tile shifted by
    t that the tile does not hold; loop 1 always costs c(s_1). All shifts are non-negative and each lies on one
    axis, so equality needs all relevant loops so far on one axis, on which s_k = S_k + s_1 holds as numbers; it
    changes the cost only on the two axes on which windows slide. `axis` holds the one axis: -1 none yet, 2 when
    no later loop can match.
    """
    levels, dtype = order.shape[0], union.dtype
    h, w = _input_window(layer, child)
    rest = child[:, G] * child[:, N] * child[:, C]
    full = rest * h * w
    shape = jnp.broadcast_shapes(full.shape, bounds[0].shape)
    coefficient = {P: layer.stride[0], Q: layer.stride[1], R: layer.dilation[0], S: layer.dilation[1]}

    shifts, axes = [], []
    for j in range(len(DIMS)):
        dim = order[:, j]
        shift = jnp.where(dim == K, 0, jnp.ones(shape, dtype))
        for d, value in coefficient.items():
            shift = jnp.where(dim == d, union[:, d] * value.astype(dtype), shift)
        shifts.append(shift)
        on_first, on_second = (dim == P) | (dim == R), (dim == Q) | (dim == S)
        axes.append(jnp.where(on_first, 0, jnp.where(on_second, 1, jnp.where(dim == K, -1, 2))))
    loops = (
        jnp.stack([jnp.broadcast_to(b, shape) for b in bounds], axis=1),
        jnp.stack(shifts, axis=1),
        jnp.stack([jnp.broadcast_to(a, shape) for a in axes], axis=1),
        jnp.arange(levels),
    )
    slot = jnp.arange(levels).reshape((levels,) + (1,) * (len(shape) - 1))

    def level(state, xs):
        bound, shift, on, index = xs
        reached = slot <= index
        words, first_cost, first_shift, moved, axis, started = state
        for j in range(len(DIMS)):
            n, s, a = bound[j], shift[j], on[j]
            active = reached & (n > 1)
            first = active & ~started
            new = jnp.where(
                a == 0,
                rest * w * jnp.minimum(h, s),
                jnp.where(a == 1, rest * h * jnp.minimum(w, s), jnp.where(a == 2, full, 0)),
            )
            first_cost = jnp.where(first, new, first_cost)
            same_axis = (a == -1) | (a == axis)
            match = first | ((axis != 2) & same_axis & (s == moved + first_shift))
            first_shift = jnp.where(first, s, first_shift)
            cost = jnp.where(match, first_cost, full)
            words = jnp.where(active, words * n + (n - 1) * cost, words)
            relevant = active & (a != -1)
            axis = jnp.where(relevant, jnp.where((axis == -1) | (axis == a), a, 2), axis)
            moved = jnp.where(active, moved + s, moved)
            started = started | active
        return (words, first_cost, first_shift, moved, axis, started), None

    zero = jnp.zeros(shape, dtype)
    start = (zero, zero, zero, zero, jnp.full(shape, -1, jnp.int32), jnp.zeros(shape, bool))
    (words, *_), _ = lax.scan(level, start, loops)
    return full + words


def _gcd(a, b):
    """Greatest common divisor of positive integer arrays; as many steps as the worst element needs."""
    return lax.while_loop(
        lambda pair: jnp.any(pair[1] > 0),
        lambda pair: (
            jnp.where(pair[1] > 0, pair[1], pair[0]),
            jnp.where(pair[1] > 0, pair[0] % jnp.maximum(pair[1], 1), 0),
        ),
        (a, b),
    )[0]


def _window_classes(layer: LayerArrays, child, spatial):
    """How the children of each level overlap along the two spatial axes of the inputs (section 4).

    Children (p, r) along P and R stand at offset p*a + r*b. Two coincide iff they differ by a multiple of
    (b/g, -a/g), g = gcd(a, b), so that the children fall into chains, one per distinct offset.

    Returns:
        Two axes, each a tuple of `[L, ...]` arrays: children along P (Q), along R (S), and the steps b/g and a/g.
    """
    axes = []
    for a, (out, tap) in enumerate(((P, R), (Q, S))):
        n_out, n_tap = spatial[:, out], spatial[:, tap]
        step_out = child[:, out].astype(jnp.int32) * layer.stride[a]
        step_tap = child[:, tap].astype(jnp.int32) * layer.dilation[a]
        both = (n_out > 1) & (n_tap > 1)
        shape = jnp.broadcast_shapes(both.shape, step_out.shape)
        common = _gcd(jnp.where(both, step_out, 1) * jnp.ones(shape, jnp.int32), jnp.where(both, step_tap, 0))
        chain_out = jnp.where(both, step_tap // common, 1).astype(spatial.dtype)
        chain_tap = jnp.where(both, step_out // common, 1).astype(spatial.dtype)
        axes.append((n_out, n_tap, chain_out, chain_tap))
    return axes


def _chains(axis, length):
    """Number of places where `length` children follow each other in a chain."""
    n_out, n_tap, chain_out, chain_tap = axis
    steps = length - 1
    return jnp.maximum(n_out - steps * chain_out, 0) * jnp.maximum(n_tap - steps * chain_tap, 0)


def _groups(spatial, windows):
    """Number of distinct tiles among the children of each level: `[L, V, ...]` (section 4)."""
    weights = _product([spatial[:, d] for d in RELEVANT[W]])
    outputs = _product([spatial[:, d] for d in RELEVANT[O]])
    inputs = _product([spatial[:, d] for d in (G, N, C)])
    for axis in windows:
        inputs = inputs * (_chains(axis, 1) - _chains(axis, 2))
    return jnp.stack([weights, inputs, outputs], axis=1)


def _indices(mapping: Mapping, spatial, size):
    """Index along each dimension of the first `size` children of each level: `[size, L, D, ...]`.

    Children are numbered x + y*(children along X), the first loop of an axis fastest. Where a dimension runs
    along both axes, its X part is the fast one, since X loops lie inside Y loops.
    """
    dims = range(len(DIMS))
    along_x = _product([spatial[0][:, d] for d in dims])[:, None]
    index = jnp.zeros((), spatial.dtype)
    for axis in range(2):
        order, bound = mapping.spatial_order[axis], spatial[axis]
        rank = jnp.stack([_rank(order, d) for d in dims], axis=1)
        stride = jnp.stack(
            [_product([jnp.where(rank[:, o] < rank[:, d], bound[:, o], 1) for o in dims]) for d in dims], axis=1
        )
        stride = stride if axis == 0 else stride * along_x
        child = jnp.arange(size, dtype=spatial.dtype).reshape((size,) + (1,) * stride.ndim)
        over = _quotient(child, stride)
        digit = over - bound * _quotient(over, bound)
        index = digit if axis == 0 else index + spatial[0] * digit
    return index


def _rank(order, dim):
    """Position of dimension `dim` in each level's `order`."""
    return sum(jnp.where(order[:, j] == dim, j, 0) for j in range(len(DIMS)))


def _labels(index, spatial, windows):
    """Number of the group of equal tiles that each child belongs to, per data space: `[size, L, V, ...]`."""
    used = spatial[0] * spatial[1]
    labels = []
    for space in range(len(DATA_SPACES)):
        label = jnp.zeros((), index.dtype)
        for d in RELEVANT[space] if space != I else (G, N, C):
            label = label * used[:, d] + index[:, :, d]
        if space == I:
            for (out, tap), (n_out, n_tap, chain_out, chain_tap) in zip(((P, R), (Q, S)), windows, strict=True):
                first, second = index[:, :, out], index[:, :, tap]
                back = jnp.minimum(_quotient(first, chain_out), _quotient(n_tap - 1 - second, chain_tap))
                label = label * n_out + first - back * chain_out
                label = label * n_tap + second + back * chain_tap
        labels.append(label)
    return jnp.stack(jnp.broadcast_arrays(*labels), axis=2)


def _hop_sums(mapping: Mapping, machine: Machine, spatial, windows, size):
    """Hops summed over the groups of each level's children: `[L, V, ...]` (section 4).

    The children are laid out row by row on a mesh of max(fanout X, used X) columns, the words enter at column 0
    between the middle rows. A group costs its last column plus, in each column that it has members in, the way
    up to its first and down to its last row.
    """
    dtype = spatial.dtype
    used = jnp.prod(spatial, axis=2)
    columns, rows = jnp.maximum(machine.fanout[:, 0], used[0]), jnp.maximum(machine.fanout[:, 1], used[1])
    middle = ((rows - 1) / 2)[:, None]
    count = (used[0] * used[1])[:, None]
    labels = _labels(_indices(mapping, spatial, size), spatial, windows)
    child = jnp.arange(size, dtype=dtype).reshape((size,) + (1,) * (labels.ndim - 1))
    shape = jnp.broadcast_shapes(labels.shape, columns[:, None].shape)
    row = jnp.broadcast_to(_quotient(child, columns[:, None]), shape)
    column = jnp.broadcast_to(child, shape) - row * columns[:, None]
    label = jnp.where(child < count, labels, jnp.inf)
    label, column, row = lax.sort((jnp.broadcast_to(label, shape), column, row), dimension=0, num_keys=3)
    exists = label < jnp.inf
    edge = jnp.ones_like(exists[:1])
    new_group = label[1:] != label[:-1]
    new_run = new_group | (column[1:] != column[:-1])
    last_of_group = jnp.concatenate([new_group, edge])
    first_of_run, last_of_run = jnp.concatenate([edge, new_run]), jnp.concatenate([new_run, edge])
    hops = (
        jnp.where(last_of_group, column, 0)
        + jnp.where(first_of_run, jnp.maximum(middle - row, 0), 0)
        + jnp.where(last_of_run, jnp.maximum(row - middle, 0), 0)
    )
    total = jnp.sum(jnp.where(exists, hops, 0), axis=0)
    total = jnp.where(count <= size, total, jnp.nan)
    return jnp.where(count > 1, total, 0)


def count_accesses(
    layer: LayerArrays,
    mapping: Mapping,
    machine: Machine,
    *,
    links: bool = False,
    wires: bool = True,
    max_children: int = MAX_CHILDREN,
) -> AccessCounts:
    """Count the words that every level stores, reads, fills and updates (sections 1 and 3 to 8).

    Args:
        layer: Loop bounds, strides, dilations.
        mapping: Loop nest whose factors multiply to the bounds.
        machine: Only its levels, `keep` of the off-chip memory and fanout (for the wires) matter here.
        links: Static. Count words that neighbours hand on (Timeloop's default, off in the search).
        wires: Static. Count hops; without it `hops` is 0 and wires cost nothing.
        max_children: Static. Children per level that the table for the wires has room for.

    Returns:
        `AccessCounts` in the float dtype of the machine.
    """
    dtype = machine.capacity.dtype
    temporal, spatial = mapping.temporal.astype(dtype), mapping.spatial.astype(dtype)
    spread = spatial[0] * spatial[1]
    factors = temporal * spread
    tiles = _outward(factors, jnp.multiply)
    child = jnp.stack([jnp.ones_like(tiles[0]), *tiles[:-1]])
    union = child * spread
    extent = jnp.stack(tiles)
    size, child_size, union_size = (_box(layer, e) for e in (extent, child, union))

    dims = range(len(DIMS))
    fanout_used = jnp.stack([_product([spatial[a][:, d] for d in dims]) for a in range(2)], axis=1)
    children = fanout_used[:, 0] * fanout_used[:, 1]
    per_level = _product([temporal[:, d] for d in dims])
    compute_cycles = _product(list(per_level))
    expansion = jnp.stack([_above(fanout_used[:, a]) for a in range(2)], axis=1)
    instances_used = expansion[:, 0] * expansion[:, 1]

    # Words delivered to one child; every MAC takes one word of each data space per cycle.
    bounds = _by_slot(mapping.order, temporal)
    visits = {v: _visits(mapping.order, bounds, v) for v in (W, O)}
    relevant_above = {}
    for v in (W, O):
        here = _product([temporal[:, d] for d in RELEVANT[v]])
        relevant_above[v] = here * _above(here)
    delivered = jnp.stack(
        [
            child_size[:, W] * relevant_above[W] * visits[W],
            _input_deliveries(layer, mapping.order, bounds, child, union),
            child_size[:, O] * relevant_above[O] * visits[O],
        ],
        axis=1,
    )
    delivered = jnp.concatenate([jnp.broadcast_to(compute_cycles, delivered[:1].shape), delivered[1:]])

    windows = _window_classes(layer, child, spread)
    groups = _groups(spread, windows)

    # Owned share of the tensor, outwards in.
    partition = [size[-1]]
    for i in range(size.shape[0] - 2, -1, -1):
        divided = _floor(_exact_divide(partition[-1] * size[i], union_size[i + 1]))
        partition.append(jnp.where(children[i + 1] > 1, divided, partition[-1]))
    partition = jnp.stack(partition[::-1])

    # A level below which a data space is bypassed serves the children of the bypassed level; its own groups
    # still share reads. An output word is visited as often as those children are served.
    keep, top = kept(mapping, machine), outermost(machine)[:, None]
    ingress = delivered * groups
    irrelevant = _product([temporal[:, d] for d in dims if d not in RELEVANT[O]])
    visits_out = jnp.concatenate([_product(list(irrelevant))[None], visits[O][1:]])
    served, revisits = [ingress[0]], [visits_out[0]]
    for i in range(1, size.shape[0]):
        bypassed = ~keep[i - 1]
        served.append(jnp.where(bypassed, served[-1] * groups[i], ingress[i]))
        revisits.append(jnp.where(bypassed[O], revisits[-1], visits_out[i]))
    served, revisits = jnp.stack(served), jnp.stack(revisits)

    owned = partition[:, O]
    reads = jnp.stack([served[:, W], served[:, I], owned * (revisits - 1)], axis=1)
    share, visits_above = (jnp.concatenate([x[1:], x[-1:]]) for x in (delivered, visits_out))
    fills = jnp.stack([share[:, W], share[:, I], owned * (visits_above - 1)], axis=1)
    updates = jnp.stack([jnp.zeros_like(served[:, W])] * 2 + [served[:, O]], axis=1)

    real = machine.level_mask[:, None]
    if wires:
        hops = _hop_sums(mapping, machine, spatial, windows, max_children) * delivered
    else:
        hops = jnp.zeros_like(delivered)
    zero = jnp.zeros((), dtype)
    return AccessCounts(
        tile=jnp.where(keep, size, zero),
        partition=jnp.where(keep, partition, zero),
        reads=jnp.where(keep, reads, zero),
        fills=jnp.where(keep & ~top, fills, zero),
        updates=jnp.where(keep, updates, zero),
        ingress=jnp.where(real, ingress, zero),
        hops=jnp.where(real, hops, zero),
        link_transfers=jnp.zeros_like(hops),
        instances_used=jnp.where(machine.level_mask, instances_used, zero),
        expansion=jnp.where(real, expansion, zero),
        fanout_used=fanout_used,
        mac_expansion=fanout_used[0] * expansion[0],
        macs=compute_cycles * children[0] * instances_used[0],
        compute_cycles=compute_cycles,
    )


def _quotient(a, b):
    """Whole part of a / b for small whole numbers; half a unit keeps it clear of the rounding."""
    return jnp.floor((a + 0.5) / b)


def _exact_divide(a, b):
    """a / b for a >= 0, correctly rounded: XLA turns a division by a broadcast value into a multiplication."""
    return a / jnp.where(a < 0, 1, b)


def _floor(x):
    """Floor that forgives the rounding of single precision below an integer."""
    return jnp.floor(x * (1 + 3e-7)) if x.dtype == jnp.float32 else jnp.floor(x)


def minimal_hardware(counts: AccessCounts, mapping: Mapping, block_words, granularity, capacity_max):
    """The smallest sizes of each level that the mapping needs (DESIGN section 4).

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
        `CycleCounts`.
    """
    compute = counts.compute_cycles
    slowdown = jnp.ones_like(counts.instances_used)
    # Per data space divided first, then added in this order: what double precision makes of it decides the ceil.
    for direction, words in enumerate((counts.reads, counts.fills + counts.updates)):
        shares = _exact_divide(words, compute)
        need = shares[:, W] + shares[:, I] + shares[:, O]
        limit = machine.bandwidth[:, direction]
        slowdown = jnp.minimum(slowdown, jnp.where(limit < need, limit / jnp.maximum(need, limit), 1))
    per_level = jnp.where(machine.level_mask, jnp.ceil(_exact_divide(compute, slowdown)), 0)
    onchip = jnp.where(outermost(machine), 0, per_level)
    return CycleCounts(
        total=jnp.maximum(jnp.max(per_level, axis=0), compute),
        onchip=jnp.maximum(jnp.max(onchip, axis=0), compute),
        per_level=per_level,
        slowdown=slowdown,
    )


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
    levels = jnp.where(machine.level_mask, machine.area * machine.instances, 0)
    return jnp.sum(levels, axis=0) + machine.mac_area * machine.mac_instances


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


def map_blocks(function, arrays, shared=(), *, block_size: int = 1024):
    """Apply a function of this module's layout to a batch, in blocks that stay in the processor's cache.

    Args:
        function: `function(arrays, shared)`, indexing leading axes only; it sees the batch as the last axis.
        arrays: Pytree whose leaves have a leading batch axis N.
        shared: Pytree whose leaves have none; the function sees them with a last axis of size 1.
        block_size: Static. Mappings per block; the last block is padded with copies of the last mapping.

    Returns:
        The function's pytree with a leading batch axis N.
    """
    count = jax.tree.leaves(arrays)[0].shape[0]
    block = max(min(block_size, count), 1)
    blocks = -(-count // block)
    shared = jax.tree.map(lambda x: jnp.asarray(x)[..., None], shared)

    def split(x):
        x = jnp.asarray(x)
        padding = [(0, blocks * block - count)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(x, padding, mode="edge").reshape((blocks, block, *x.shape[1:]))

    def one(chunk):
        result = function(jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), chunk), shared)
        return jax.tree.map(lambda x: jnp.moveaxis(jnp.broadcast_to(x, (*x.shape[:-1], block)), -1, 0), result)

    result = lax.map(one, jax.tree.map(split, arrays))
    return jax.tree.map(lambda x: x.reshape((blocks * block, *x.shape[2:]))[:count], result)


def evaluate_batch(
    layers: LayerArrays,
    mappings: Mapping,
    machines: Machine,
    *,
    links: bool = False,
    wires: bool = True,
    own_fanout: bool = False,
    max_children: int = MAX_CHILDREN,
    block_size: int = 1024,
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
    arrays, shared = {"mapping": mappings}, {}
    (arrays if jnp.ndim(layers.bounds) > 1 else shared)["layer"] = layers
    (arrays if jnp.ndim(machines.capacity) > 1 else shared)["machine"] = machines

    def evaluate(arrays, shared):
        given = {**arrays, **shared}
        layer, mapping, machine = given["layer"], given["mapping"], given["machine"]
        counts = count_accesses(layer, mapping, machine, links=links, wires=wires, max_children=max_children)
        reason, level = validity(counts, mapping, machine, own_fanout=own_fanout)
        return Evaluation(
            counts=counts, cycles=cycles(counts, machine), energy=energy(counts, machine), reason=reason, level=level
        )

    return map_blocks(evaluate, arrays, shared, block_size=block_size)
