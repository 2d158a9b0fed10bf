"""MEDEA's variation of mappings: level crossover, random, fill and parallelising mutation (MEDEA, Section IV); padding.

Every operator maps legal genes to legal genes: constraints, fanouts and capacities hold afterwards, so no child has to
be discarded. Each operator has its own probability, which is traced.

Axes are those of `mapping.space`: A bounds, F primes, S slots, L levels, D dimensions. All but `grow` and
`all_neighbours` are for one individual or pair.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import RELEVANCE
from mohamjax.mapper.config import MapperRates
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import (
    MappingGenes,
    MapSpace,
    Nest,
    admits,
    covering,
    evict,
    extents,
    keeping,
    move,
    nest,
    overflows,
    own_space,
    room,
    sample,
    slot_factors,
    slot_level,
    tile_words,
)
from mohamjax.runtime.blocks import first_true, short_argsort
from mohamjax.runtime.draws import Draws
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record, select, take

_FILL_RATE = 3.5
_MORE = 1.5
_MOST = 5
_LONGEST = 8  # primes of one dimension that find a new slot when it is padded
# Passes that a mutation needs for a whole population. By default it changes a fifth, in one pass; padding changes half
# as many, in passes half as wide.
_PASSES = 4
# On an accelerator all problems wait for any that needs a second pass, so passes are wide enough that hardly one in
# hundreds of populations does (about four standard deviations above the mean number drawn).
_WIDE_PASSES = 2.75
_WIDE_PAD_PASSES = 4.4
_Mutation = Callable[[Array, MappingGenes, MapSpace], MappingGenes]


def depth(slot: Array, space: MapSpace) -> Array:
    """Place of a slot in the nest, from the outermost loops inwards: temporal, Y, X of each level; 0 is outermost."""
    levels = space.capacity.shape[0]
    axis = slot // levels
    return 3 * (levels - 1 - slot % levels) + jnp.where(axis == 0, 0, 3 - axis)


def _level_first(slot: Array, level: Array, space: MapSpace) -> Array:
    """Rearranges the slots of equal primes: those of `level` first, the others from the outermost inwards."""
    slots = space.limit.shape[0]
    key = jnp.where(slot_level(slot, space) == level, 0, 1 + depth(slot, space))
    return slot[short_argsort(jnp.asarray(space.group * (slots + 2) + key))]


def crossover(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace, *, mend: bool = True):
    """Level crossover with factor compensation (MEDEA, Section IV-A).

    The parents exchange one whole level below the outermost, drawn among those that the template leaves any freedom:
    temporal and spatial factors, loop orders, and which data spaces it stores. Primes that a factor loses go to the
    outermost temporal loop of its dimension; those that it gains come from the other loops of its dimension, from the
    outermost inwards, skipping the changed level. Because factors are primes in slots, this always succeeds; if a
    buffer then overflows, primes are evicted from it to the outermost level. Where the parents cover different bounds
    of a dimension, each child keeps its own, whose primes leave the changed level for the outermost.

    Args:
        key: consumed.
        a: one parent.
        b: the other.
        space: the problem.
        mend: static; whether primes are evicted from a buffer that overflows. If not, as in the paper, a child may be
            invalid.

    Returns:
        Two children: each parent with the other's level.
    """
    level_key, evict_key = jax.random.split(key)
    evict_keys = jax.random.split(evict_key)
    levels = space.capacity.shape[0]
    dims = jnp.arange(space.limit.shape[1])
    of_first, of_second = (covering(parent.cover, space) for parent in (a, b))
    mine = (space.dim[:, None] == dims) & (of_first.prime > 1)[:, None]
    same = a.cover == b.cover
    alike = jnp.any((space.dim[:, None] == dims) & same, axis=-1)  # [F]
    free = jnp.any((space.limit > 1) & jnp.any(mine, axis=0), axis=-1).reshape(3, levels).any(axis=0)
    free &= jnp.arange(levels) < space.outermost
    draw = jax.random.uniform(level_key, (levels,))
    level = jnp.argmax(jnp.where(free, draw, -1))

    def child(key: Array, own: MappingGenes, other: MappingGenes, covers: MapSpace, others: MapSpace) -> MappingGenes:
        have, get = _level_first(own.slot, level, covers), _level_first(other.slot, level, others)
        slot = jnp.where(slot_level(have, space) == level, space.outermost, have)
        slot = jnp.where((slot_level(get, space) == level) & alike, get, slot)
        row = (jnp.arange(levels) == level)[:, None]
        keep = None if own.keep is None or other.keep is None else jnp.where(row, other.keep, own.keep)
        return MappingGenes(
            cover=own.cover,
            slot=evict(key, slot, keeping(keep, covers)) if mend else slot,
            order=jnp.where(row, other.order, own.order),
            spatial_order=jnp.where(row, other.spatial_order, own.spatial_order),
            keep=keep,
        )

    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), a, b)
    covers = dataclasses.replace(
        space,
        prime=jnp.stack([of_first.prime, of_second.prime]),
        group=jnp.stack([of_first.group, of_second.group]),
    )
    axes = jax.tree.map(lambda leaf: None, space)
    axes = dataclasses.replace(axes, prime=0, group=0)
    swapped = dataclasses.replace(covers, prime=covers.prime[::-1], group=covers.group[::-1])
    exchanged = jax.tree.map(lambda leaf: leaf[::-1], both)
    children = jax.vmap(child, in_axes=(0, 0, 0, axes, axes))(evict_keys, both, exchanged, covers, swapped)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], children) for i in range(2))
    return select(jnp.any(free), (first, second), (a, b))


def swap_loops(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Exchanges two temporal loops of one level, drawn among pairs of bounds above 1; the key is consumed."""
    return _swap_loops(Draws(key, sum(genes.order.shape)), genes, own_space(genes, space))


def _swap_loops(draws: Draws, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """`swap_loops` for a mapping that covers the bounds of `space`; takes L + D draws."""
    levels, dims = genes.order.shape
    at = (genes.slot == jnp.arange(levels)[:, None]) & (space.prime > 1)  # temporal loops: slot = level
    dim_used = jnp.any(at[:, :, None] & (space.dim[:, None] == jnp.arange(dims)), axis=1)  # [L, D]
    loops = jnp.take_along_axis(dim_used, genes.order, axis=1)
    loops &= space.constraints.order < 0  # prescribed positions stay
    can = jnp.sum(loops, axis=1) > 1
    level = jnp.argmax(jnp.where(can, draws.uniform(levels), -1))
    draw = jnp.where(loops[level], draws.uniform(dims), -1)
    first, place = jnp.argmax(draw), jnp.arange(dims)
    second = jnp.argmax(jnp.where(place == first, -2, draw))
    row = genes.order[level]
    row = jnp.where(place == first, row[second], jnp.where(place == second, row[first], row))
    here = (jnp.arange(levels) == level) & can
    return dataclasses.replace(genes, order=jnp.where(here[:, None], row, genes.order))


def _move_factor(draws: Draws, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Moves one prime to another slot, drawn among those that have room for it; takes F + S draws."""
    index = jnp.argmax(jnp.where(space.prime > 1, draws.uniform(*space.prime.shape), -1))
    can = admits(nest(genes.slot, space), index, space)
    target = jnp.argmax(jnp.where(can, draws.uniform(*can.shape), -1)).astype(jnp.int32)
    here = (jnp.arange(genes.slot.shape[0]) == index) & jnp.any(can)
    return dataclasses.replace(genes, slot=jnp.where(here, target, genes.slot))


def mutate(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Random mutation (MEDEA, Section IV-B1): a fair coin between two kinds of change.

    Either two temporal loops of one level change places, or one prime factor moves to another slot with room for it.
    The key is consumed.
    """
    draws = Draws(key, 1 + sum(genes.order.shape) + len(space.dim) + len(space.limit))
    space = own_space(genes, space)
    swapped, moved = _swap_loops(draws, genes, space), _move_factor(draws, genes, space)
    return select(draws.happens(0.5), swapped, moved)


def _visit(draws: Draws, candidate: Array, prime: Array) -> tuple[Array, Array]:
    """Draws a few of the candidates: indices `[T]`, and whether each is one of the few.

    By a fair coin they come in random order or with the largest primes first: 7 before 2 for a fanout of 16.

    Their number is drawn too: 1 + floor(Exp), with `_MORE` as the mean of the exponential. Taking all that fit, as the
    released code does, changes good parents too much (measured by experiments/bench_mapper.py). Takes F + 2 draws.
    """
    draw = draws.uniform(*candidate.shape)
    draw = jnp.where(candidate, jnp.where(draws.happens(0.5), draw + prime, draw), -1)
    index = jax.lax.top_k(draw, min(_MOST, candidate.shape[0]))[1]
    count = 1 + jnp.floor(_MORE * draws.exponential()).astype(jnp.int32)
    return index, candidate[index] & (jnp.arange(index.shape[0]) < count)


def fill_level(draws: Draws, open_: Array) -> Array:
    """Draws one of the open levels `[L]`, inner ones more likely: of n, number floor(n Exp(3.5)); `[]` int32."""
    count = jnp.sum(open_)
    draw = draws.exponential() / _FILL_RATE
    rank = jnp.minimum((draw * count).astype(jnp.int32), count - 1)
    return jnp.argmax(jnp.cumsum(open_) == rank + 1).astype(jnp.int32)


def fill(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Bottom-up fill mutation (MEDEA, Section IV-B2).

    A storing level that may have temporal loops is drawn, inner ones more likely: index floor(n Exp(3.5)) of n. A
    dimension of the data spaces that it keeps is drawn too, and the level's loop over it grows by primes of that
    dimension's temporal loops outside, as long as tiles fit this level and every buffer between. The key is consumed.
    """
    levels, dims = genes.order.shape
    draws = Draws(key, 3 + dims + len(genes.slot))
    space = own_space(genes, space)
    relevant = jnp.any(space.constraints.keep[:, :, None] & RELEVANCE, axis=1)  # [L, D]
    mine = (space.dim[:, None] == jnp.arange(dims)) & (space.prime > 1)[:, None]  # [F, D]
    open_ = jnp.any((space.limit[:levels] > 1) & relevant & jnp.any(mine, axis=0), axis=-1)
    open_ &= jnp.arange(levels) < space.outermost
    level = fill_level(draws, open_)

    # Spatial factors stay: filling a buffer must not idle the array.
    outside = (genes.slot < levels) & (genes.slot > level) & jnp.any(open_)
    candidate = mine & outside[:, None] & relevant[level] & (space.limit[level] > 1)
    dim = jnp.argmax(jnp.where(jnp.any(candidate, axis=0), draws.uniform(dims), -1))
    index, chosen = _visit(draws, candidate[:, dim], space.prime)

    def step(state: Nest, x: tuple[Array, Array]) -> tuple[Nest, None]:
        index, chosen = x
        factor = state.factors[level, dim] * space.prime[index]
        return move(state, index, level, chosen & (factor <= space.limit[level, dim]), space), None

    state, _ = jax.lax.scan(step, nest(genes.slot, space), (index, chosen))
    return dataclasses.replace(genes, slot=state.slot)


def parallelise(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Parallelising mutation (MEDEA, Section IV-B3).

    Temporal primes move, in random order or the largest first, into X and Y loops of any level whose constraint and
    remaining fanout allow it, as long as tiles fit the buffers. The key is consumed.
    """
    levels, dims = genes.order.shape
    primes = len(genes.slot)
    draws = Draws(key, 2 + primes + 2 * levels * min(_MOST, primes))
    space = own_space(genes, space)
    wide = jnp.any((space.limit[levels:] > 1) & (space.fanout[levels:, None] > 1), axis=0)  # [D]
    candidate = (genes.slot < levels) & (space.prime > 1)
    candidate &= jnp.any((space.dim[:, None] == jnp.arange(dims)) & wide, axis=-1)
    index, chosen = _visit(draws, candidate, space.prime)
    scores = draws.uniform(len(index), 2 * levels)

    def step(state: Nest, x: tuple[Array, Array, Array]) -> tuple[Nest, None]:
        index, chosen, score = x
        can = room(state, index, space)[levels:] & chosen
        target = (levels + jnp.argmax(jnp.where(can, score, -1))).astype(jnp.int32)
        return move(state, index, target, jnp.any(can), space), None

    state, _ = jax.lax.scan(step, nest(genes.slot, space), (index, chosen, scores))
    return dataclasses.replace(genes, slot=state.slot)


def bypass(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Bypass mutation: switches whether a level stores one data space that it may bypass.

    Nothing changes where the level would overflow, or without a gene for bypasses. The key is consumed.
    """
    free = space.constraints.may_bypass
    if genes.keep is None or free is None:
        return genes
    draw = jnp.where(free, jax.random.uniform(key, free.shape), -1)
    flips = (draw == jnp.max(draw)) & free
    keep = jnp.where(flips, ~genes.keep, genes.keep)
    changed = dataclasses.replace(genes, keep=keep)
    own = own_space(changed, space)
    fits = ~jnp.any(overflows(extents(genes.slot, own), own))
    return dataclasses.replace(genes, keep=jnp.where(fits, keep, genes.keep))


def pad(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Padding mutation: one dimension covers another of its bounds.

    Its new primes are dealt to the slots (`_dealt`), by a fair coin the largest or the smallest first. Where no
    dimension has a choice nothing changes. The key is consumed.
    """
    slots, dims = space.limit.shape
    draws = Draws(key, slots + dims + 3)
    open_ = space.choices > 1
    dim = jnp.argmax(jnp.where(open_, draws.uniform(dims), -1))
    choices = jnp.asarray(space.choices)[dim]
    step = 1 + draws.below(jnp.maximum(choices - 1, 1))
    taste = draws.gumbel(slots) + jnp.where(draws.happens(0.5), _arrays_first(space), 0.0)
    largest = draws.happens(0.5)
    changed = _dealt(genes, dim, (genes.cover[dim] + step) % jnp.maximum(choices, 1), largest, taste, space)
    return select(jnp.any(open_), changed, genes)


def _arrays_first(space: MapSpace) -> Array:
    """`[S]` float, a taste that puts spatial slots before all others, since padding serves to fill arrays."""
    slots = jnp.arange(space.limit.shape[0])
    return jnp.where(slots >= space.capacity.shape[0], 8.0, 0.0)


def _dealt(
    genes: MappingGenes, dim: Array, cover: Array, largest: Array, taste: Array, space: MapSpace
) -> MappingGenes:
    """The mapping with one dimension's bound replaced by another, whose primes are dealt to the slots.

    Each prime goes to the slot where most of the old factor is left to fill, with `taste` added. Primes that find no
    room stay at the outermost level.

    Args:
        genes: the mapping.
        dim: `[]` int, the dimension.
        cover: `[]` int, which of its bounds it covers from now on.
        largest: `[]` bool, whether its largest prime comes first; the smallest otherwise.
        taste: `[S]` float, preference for slots, added to the base-2 logarithm of what is left to fill.
        space: the problem.
    """
    covers = jnp.where(jnp.arange(genes.cover.shape[0]) == dim, cover, genes.cover).astype(jnp.int32)
    space = keeping(genes.keep, space)
    old, space = slot_factors(genes.slot, covering(genes.cover, space))[:, dim], covering(covers, space)
    here = (space.dim == dim) & (space.prime > 1)
    rank = jnp.where(here, jnp.where(largest, space.prime, -space.prime), jnp.iinfo(jnp.int32).min)
    index = jax.lax.top_k(rank, min(_LONGEST, len(space.dim)))[1]

    def deal(state: Nest, index: Array) -> tuple[Nest, None]:
        left = jnp.log2(old.astype(taste.dtype)) - jnp.log2(state.factors[:, dim].astype(taste.dtype))
        can = room(state, index, space) & (jnp.arange(len(old)) != space.outermost)
        target = jnp.argmax(jnp.where(can, left + taste, -jnp.inf)).astype(jnp.int32)
        return move(state, index, target, here[index] & can[target], space), None

    state, _ = jax.lax.scan(deal, nest(jnp.where(here, space.outermost, genes.slot), space), index)
    return dataclasses.replace(genes, cover=covers, slot=state.slot)


@record
class Draft:
    """An individual, and the steps that `grow` has yet to apply to it.

    Attributes:
        genes: the genes so far; tiles may exceed a buffer.
        keys: `[K]` typed keys of the K steps of `grow`; of steps that are not wanted, arbitrary ones.
        wanted: `[K]` bool, which of the steps are drawn for it.
    """

    genes: MappingGenes
    keys: Array
    wanted: Array


STEPS: tuple[str, ...] = ("mend", "random", "bypass", "pad", "fill", "parallelise")
"""Steps of `grow`, in their order: the mending after crossover, and the mutations."""


def vary(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace, rates: MapperRates) -> tuple[Draft, Draft]:
    """Two children of two parents: crossover, and the mutations that are drawn for each; the key is consumed."""
    steps = len(STEPS)
    draw_key, cross_key, *keys = jax.random.split(key, 2 + 2 * steps)
    draws = Draws(draw_key, 1 + 2 * steps)
    crossed = crossover(cross_key, a, b, space, mend=False)
    one, two = select(draws.happens(rates.crossover), crossed, (a, b))
    chances = 1.0, rates.random, rates.bypass, rates.pad, rates.fill, rates.parallelise
    wanted = draws.happens(jnp.stack([jnp.asarray(chance, float) for chance in chances]), 2, steps)
    return (
        Draft(genes=one, keys=jnp.stack(keys[:steps]), wanted=wanted[0]),
        Draft(genes=two, keys=jnp.stack(keys[steps:]), wanted=wanted[1]),
    )


def random_draft(key: Array, space: MapSpace, steps: int = len(STEPS)) -> Draft:
    """A random individual with none of its steps to apply; the key is consumed."""
    return Draft(genes=sample(key, space), keys=jnp.stack([key] * steps), wanted=jnp.zeros(steps, bool))


def mended(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """The mapping with primes evicted from buffers that its tiles exceed; the key is consumed."""
    return dataclasses.replace(genes, slot=evict(key, genes.slot, own_space(genes, space)))


def grow(drafts: Draft, space: MapSpace) -> MappingGenes:
    """The genes of drafts `[N, ...]`, in their order: mended where tiles exceed a buffer, then mutated where wanted.

    Steps that few individuals need are applied to those alone (`few`), the random and bypass mutation to all.
    """
    genes = drafts.genes
    keys, wanted = (dict(zip(STEPS, jnp.moveaxis(leaf, 1, 0), strict=True)) for leaf in (drafts.keys, drafts.wanted))

    def large(genes: MappingGenes) -> Array:
        own = own_space(genes, space)
        return jnp.any(overflows(extents(genes.slot, own), own))

    def some(operator: _Mutation, step: str, rows: Array, genes: MappingGenes) -> MappingGenes:
        passes = (2 * _PASSES, _WIDE_PAD_PASSES) if operator is pad else (_PASSES, _WIDE_PASSES)
        forms = [functools.partial(few, operator, passes=count) for count in passes]
        cover, slot = by_platform(keys[step], rows, genes, space, cpu=forms[0], wide=forms[1])
        return dataclasses.replace(genes, cover=cover, slot=slot)

    def all_(operator: _Mutation, step: str, genes: MappingGenes) -> MappingGenes:
        changed = jax.vmap(operator, in_axes=(0, 0, None))(keys[step], genes, space)
        return select(wanted[step], changed, genes)

    genes = some(mended, "mend", wanted["mend"] & jax.vmap(large)(genes), genes)
    genes = all_(mutate, "random", genes)
    if genes.keep is not None:
        genes = all_(bypass, "bypass", genes)
    if space.prime.ndim > 1:  # some layer has a choice of bounds
        genes = some(pad, "pad", wanted["pad"], genes)
    genes = some(fill, "fill", wanted["fill"], genes)
    return some(parallelise, "parallelise", wanted["parallelise"], genes)


def _all(operator: _Mutation, keys: Array, wanted: Array, genes: MappingGenes, space: MapSpace) -> tuple[Array, Array]:
    """Bounds covered `[N, D]` and slots `[N, F]` after a mutation, where wanted, that changes nothing else."""
    changed = jax.vmap(operator, in_axes=(0, 0, None))(keys, genes, space)
    return select(wanted, (changed.cover, changed.slot), (genes.cover, genes.slot))


def few(
    operator: _Mutation, keys: Array, wanted: Array, genes: MappingGenes, space: MapSpace, *, passes: float = _PASSES
) -> tuple[Array, Array]:
    """`_all`, applied to wanted rows alone, a few at a time: results that are discarded take as long as others.

    `keys` are the first argument of the operator: typed keys of a mutation, or numbers of steps.
    """
    number = wanted.shape[0]
    width = 8 * math.ceil(number / passes / 8)
    if width >= number:
        return _all(operator, keys, wanted, genes, space)
    rank = jnp.cumsum(wanted, dtype=jnp.int32)  # from 1
    place = first_true(jnp.asarray(wanted), number + width)

    def step(carry: tuple[Array, tuple[Array, Array]]) -> tuple[Array, tuple[Array, Array]]:
        first, kept = carry
        rows = jnp.minimum(jax.lax.dynamic_slice(place, (first,), (width,)), number - 1)
        changed = jax.vmap(operator, in_axes=(0, 0, None))(keys[rows], take(genes, rows), space)
        own = rank - 1 - first
        here = wanted & (own >= 0) & (own < width)
        mine = take((changed.cover, changed.slot), jnp.clip(own, 0, width - 1))
        return first + width, select(here, mine, kept)

    start = jnp.int32(0), (genes.cover, genes.slot)
    return jax.lax.while_loop(lambda carry: carry[0] < rank[-1], step, start)[1]


def _loop_orders(genes: MappingGenes, space: MapSpace) -> tuple[Array, Array]:
    """All orders, temporal, X and Y, `[S, D]`, and which of their positions a template prescribes, `[S, D]` bool."""
    orders = jnp.concatenate([genes.order[None], genes.spatial_order])
    slots, dims = orders.shape[0] * orders.shape[1], orders.shape[2]
    prescribed = space.constraints.order >= 0
    prescribed = jnp.concatenate([prescribed, jnp.zeros((slots - prescribed.shape[0], dims), bool)])
    return orders.reshape(slots, dims), prescribed


# Loops that a step makes the innermost ones of a slot: a single one, or all that do not move the weights (outputs).
_INWARD = np.concatenate([np.eye(RELEVANCE.shape[1], dtype=bool), ~RELEVANCE[[0, 2]]])


def neighbours(genes: MappingGenes, space: MapSpace, *, pads: Array | bool = True) -> Array:
    """Which steps lead from a mapping to another, `[F * S + F * F + S * (D + 2) + D * A * 2 + L * V]` bool.

    A step moves one prime factor to another slot; exchanges two of them; makes one loop, or all loops that do not move
    the weights (the outputs), the innermost of their slot, which decides reuse; lets one dimension cover another of its
    bounds (if there is a choice, with an axis A of `space.prime`); or switches whether a level stores a data space (the
    last L * V, if mappings have genes for it). Of equal primes in one slot only the first takes part. After an exchange
    a buffer may overflow. `neighbour` says which number is which step. Without `pads`, no step changes bounds.
    """
    primes, slots = space.dim.shape[0], space.limit.shape[0]
    others = _covers(genes, space) & pads
    space = own_space(genes, space)
    state = nest(genes.slot, space)
    index = jnp.arange(primes)
    move_ = jax.vmap(admits, in_axes=(None, 0, None))(state, index, space)
    alike = (space.group[:, None] == space.group) & (genes.slot[:, None] == genes.slot)
    first = ~jnp.any(jnp.tril(alike, -1), axis=1) & (space.prime > 1)

    # Prime i arrives where j was: does it fit there once j has left?
    prime, dim, slot = space.prime, space.dim, genes.slot
    factor = state.factors[slot[None, :], dim[:, None]] // jnp.where(dim[:, None] == dim, prime, 1)
    fits = factor * prime[:, None] <= space.limit[slot[None, :], dim[:, None]]
    width = jnp.round(jnp.prod(state.factors.astype(space.fanout.dtype), axis=1)[slot] / prime)
    fits &= width * prime[:, None] <= space.fanout[slot]
    swap = fits & fits.T & (slot[:, None] != slot) & (space.group[:, None] != space.group)
    swap &= first[:, None] & first & (index[:, None] < index)

    orders, prescribed = _loop_orders(genes, space)
    loops = jnp.take_along_axis(state.factors > 1, orders, axis=1) & ~prescribed  # by position
    chosen = jnp.moveaxis(jnp.asarray(_INWARD)[:, orders], 0, 1) & loops[:, None]  # [S, D + 2, D]
    outside = jnp.cumsum(loops[:, None] & ~chosen, axis=-1) > 0
    inward = jnp.any(chosen & outside, axis=-1)
    inward &= (jnp.arange(slots) > 0)[:, None]  # at level 0 no order matters
    steps = (move_ & first[:, None]).ravel(), swap.ravel(), inward.ravel(), others.ravel()
    return jnp.concatenate([*steps, *_flips(genes, space)])


def _flips(genes: MappingGenes, space: MapSpace) -> list[Array]:
    """`[L * V]` bool in a list: data spaces that a level may bypass, or has room to store; empty without such genes."""
    free = space.constraints.may_bypass
    if genes.keep is None or free is None:
        return []
    extent = extents(genes.slot, space)
    words = tile_words(extent, space)  # [L, V]
    used = jnp.sum(jnp.where(genes.keep, words, 0), axis=-1, keepdims=True)
    return [jnp.ravel(free & (genes.keep | (used + words <= space.capacity[:, None])))]


def _covers(genes: MappingGenes, space: MapSpace) -> Array:
    """`[D, A, 2]` bool, which bounds a dimension may cover instead; twice, for either order of dealing its primes."""
    bounds = space.prime.shape[0] if space.prime.ndim > 1 else 0
    number = jnp.arange(bounds)
    can = (number < jnp.asarray(space.choices)[:, None]) & (number != genes.cover[:, None])
    return jnp.broadcast_to(can[..., None], (*can.shape, 2))


def neighbour(genes: MappingGenes, step: Array, space: MapSpace) -> MappingGenes:
    """The mapping one step away.

    Steps are numbered kind after kind. Prime `i` moves to slot `s`: i * S + s. Primes `i` and `j` change places:
    i * F + j. Loops `k` become innermost in slot `s`: s * (D + 2) + k, where `k` is a dimension, D for all loops that
    do not move the weights, or D + 1 for all that do not move the outputs. Dimension `d` covers its bound `a`:
    (d * A + a) * 2 if its primes are dealt to arrays first and the smallest first, one more for the largest first.
    Level `l` switches whether it stores data space `v`: l * V + v.
    """
    stepped = _flipped(step, _rearranged(step, genes, space), space)
    if space.prime.ndim == 1:
        return stepped
    return select(_pads(step, space), _covered(step, genes, space), stepped)


def all_neighbours(genes: MappingGenes, steps: Array, space: MapSpace) -> MappingGenes:
    """`neighbour` for mappings `[N, ...]` and `steps` `[N]`; faster where few of the steps pad."""
    stepped = jax.vmap(_rearranged, in_axes=(0, 0, None))(steps, genes, space)
    stepped = jax.vmap(_flipped, in_axes=(0, 0, None))(steps, stepped, space)
    if space.prime.ndim == 1:
        return stepped
    cover, slot = by_platform(
        steps, _pads(steps, space), stepped, space,
        cpu=functools.partial(few, _covered, passes=2 * _PASSES), wide=functools.partial(_all, _covered),
    )  # fmt: skip
    return dataclasses.replace(stepped, cover=cover, slot=slot)


def _first_pad(space: MapSpace) -> int:
    """Number of the first step that pads: those before are moves, exchanges and turns (`neighbour`)."""
    primes, slots = space.dim.shape[0], space.limit.shape[0]
    return primes * slots + primes * primes + slots * len(_INWARD)


def _first_flip(space: MapSpace) -> int:
    """Number of the first step that changes what a level stores: those that pad come before."""
    bounds = space.prime.shape[0] if space.prime.ndim > 1 else 0
    return _first_pad(space) + space.limit.shape[1] * bounds * 2


def _pads(step: Array, space: MapSpace) -> Array:
    return (step >= _first_pad(space)) & (step < _first_flip(space))


def _flipped(step: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """The mapping after a step that changes what a level stores; unchanged by any other."""
    if genes.keep is None:
        return genes
    number = jnp.arange(genes.keep.size).reshape(genes.keep.shape)
    return dataclasses.replace(genes, keep=genes.keep ^ (number == step - _first_flip(space)))


def _covered(step: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """The mapping after a step that pads; meaningless for any other step."""
    last = _first_flip(space) - 1
    number, largest = jnp.divmod(jnp.clip(step, _first_pad(space), last) - _first_pad(space), 2)
    dim, cover = jnp.divmod(number, space.prime.shape[0])
    return _dealt(genes, dim, cover, largest == 1, _arrays_first(space), space)


def _rearranged(step: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """The mapping after a move, an exchange or a turn of loops; unchanged by any other step."""
    primes, (slots, dims) = space.dim.shape[0], space.limit.shape
    levels, kinds = space.capacity.shape[0], len(_INWARD)
    index, moves, swaps = jnp.arange(primes), primes * slots, primes * primes
    is_move, is_turn = step < moves, (step >= moves + swaps) & (step < _first_pad(space))
    i, j = jnp.divmod(jnp.clip(step - moves, 0, swaps - 1), primes)
    slot = genes.slot
    exchanged = jnp.where(index == i, slot[j], jnp.where(index == j, slot[i], slot))
    moved = jnp.where(index == step // slots, step % slots, slot)
    slot = jnp.where(is_move, moved, jnp.where(is_turn, slot, exchanged))

    orders, prescribed = _loop_orders(genes, space)
    row, kind = jnp.divmod(jnp.clip(step - moves - swaps, 0, slots * kinds - 1), kinds)
    rank = jnp.where(jnp.asarray(_INWARD)[kind, orders[row]], 1, 2)
    turned = orders[row][short_argsort(jnp.where(prescribed[row], 0, rank))]
    orders = jnp.where(((jnp.arange(slots) == row) & is_turn)[:, None], turned, orders).reshape(3, levels, dims)
    return dataclasses.replace(genes, slot=slot.astype(jnp.int32), order=orders[0], spatial_order=orders[1:])
