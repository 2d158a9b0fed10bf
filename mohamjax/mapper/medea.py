"""MEDEA's operators as its paper prints them, and as its released code has them (MEDEA paper, Section IV).

The mapper's own operators (`mapping_operators`) move few primes at a time and never leave the map space. These do what
the paper says: a fill mutation takes the largest factor that Equation 1 allows, a parallelising mutation visits every
level and axis, a random mutation exchanges two loops of a level and two loops of a dimension between levels, and a
random mapping replaces a mapping that is no longer valid. The two forms differ as follows.

| | `medea`: the text | `medea-released`: the code |
| --- | --- | --- |
| order of the mutations | random, fill, parallelise | fill, parallelise, random |
| random mutation | both exchanges | one of the two, by a fair coin |
| fill | one dimension, a factor that fits all buffers | all dimensions of a level of one data space, unchecked |
| parallelise | any dimension, a factor that fits all buffers | loops that are there, and one along Y; unchecked |
| replaced if invalid | after the random mutation | at the end |

A template's constraints and fanouts hold in either form; the released code does not enforce them after variation. A
temporal loop takes at most eight primes of a dimension at a time, a spatial one six. Axes are those of `mapping.space`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import RELEVANCE
from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.mapping_operators import Draft, crossover, depth, few, fill_level, swap_loops
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import (
    MappingGenes,
    MapSpace,
    Nest,
    nest,
    overflows,
    own_space,
    random_orders,
    respects,
    sample,
    sampled_keep,
    slot_factors,
    slot_level,
)
from mohamjax.runtime.draws import Draws
from mohamjax.runtime.struct import select

_LONGEST = 8  # primes of one dimension that a temporal loop takes at once: 256 factors to choose from
_ACROSS = 6  # the same for a spatial loop


def _subsets(primes: int) -> np.ndarray:
    """`[2 ** primes, primes]` bool, all subsets of the primes; those of the first primes come first."""
    return (np.arange(1 << primes)[:, None] >> np.arange(primes)) % 2 == 1


class Growth(NamedTuple):
    """How a loop grows: the loop over a dimension in a slot, which primes may move there, and the largest factor."""

    dim: Array  # [] int
    target: Array  # [] int
    source: Array  # [F] bool
    most: Array | float  # [] float


def grown(state: Nest, growth: Growth, space: MapSpace, *, longest: int, checked: bool) -> Nest:
    """A nest whose loop over one dimension in one slot has grown as far as it can.

    It grows by the largest factor that divides what the dimension has in the loops given, is at most `most` and, if
    `checked`, overflows no buffer. The primes come from the outermost loops first: MEDEA's factor compensation.

    Args:
        state: the nest before.
        growth: which loop, from which primes, and how far.
        space: the problem, of one choice of bounds.
        longest: static; most primes that move.
        checked: static; whether buffers have to hold the result.
    """
    dim, target, source, most = growth
    here = source & (space.dim == dim) & (space.prime > 1) & (state.slot != target)
    outward = jnp.where(here, depth(state.slot, space), jnp.iinfo(jnp.int32).max)
    subsets = _subsets(min(longest, here.shape[0]))
    index = jax.lax.top_k(-outward, subsets.shape[1])[1]
    prime = jnp.where(here[index], space.prime[index], 1).astype(space.capacity.dtype)
    factor = jnp.prod(jnp.where(subsets, prime, 1), axis=1)  # [2 ** longest]
    room = space.limit[target, dim].astype(factor.dtype) / state.factors[target, dim].astype(factor.dtype)
    can = factor <= jnp.minimum(most, room)
    if checked:
        level = jnp.arange(state.extents.shape[0])
        to, own = slot_level(target, space), slot_level(state.slot[index], space)
        change = jnp.where((level >= to) & (level < own[:, None]), prime[:, None], 1.0)  # [longest, L]
        change = jnp.where((level >= own[:, None]) & (level < to), 1 / prime[:, None], change)
        change = jnp.prod(jnp.where(subsets[:, :, None], change, 1), axis=1)  # [2 ** longest, L]
        column = jnp.round(state.extents[:, dim] * change)
        mine = jnp.arange(state.extents.shape[1]) == dim
        can &= ~jnp.any(overflows(jnp.where(mine, column[..., None], state.extents), space), axis=-1)
    chosen = jnp.asarray(subsets)[jnp.argmax(jnp.where(can, factor, 0))] & here[index]
    moved = jnp.any((jnp.arange(here.shape[0])[:, None] == index) & chosen, axis=-1)
    return nest(jnp.where(moved, target, state.slot).astype(jnp.int32), space)


def fill(key: Array, genes: MappingGenes, space: MapSpace, *, released: bool = False) -> MappingGenes:
    """Bottom-up fill mutation (MEDEA, Section IV-B2): a loop grows by the factor that inverts Equation 1.

    A storing level is drawn, inner ones more likely. As printed, one of the dimensions of its data spaces is drawn, and
    its temporal loop there grows by the largest factor that fits this level and all buffers around it. As released, the
    level must keep exactly one data space, and the loops over all its dimensions grow in turn, each by at most
    capacity / words held before.

    Args:
        key: consumed.
        genes: the parent.
        space: the problem.
        released: static; which form.
    """
    levels, dims = genes.order.shape
    draws = Draws(key, 1 + dims)
    space = own_space(genes, space)
    keep = jnp.asarray(space.constraints.keep)
    relevant = jnp.any(keep[:, :, None] & RELEVANCE, axis=1)  # [L, D]
    mine = (space.dim[:, None] == jnp.arange(dims)) & (space.prime > 1)[:, None]  # [F, D]
    open_ = jnp.any((space.limit[:levels] > 1) & relevant & jnp.any(mine, axis=0), axis=-1)
    open_ &= jnp.arange(levels) < space.outermost
    if released:
        open_ &= jnp.sum(keep, axis=1) == 1
    level = fill_level(draws, open_)
    # Spatial loops stay: filling a buffer must not idle the array.
    source = (genes.slot < levels) & (genes.slot > level) & jnp.any(open_)
    state = nest(genes.slot, space)
    if not released:
        candidate = mine & source[:, None] & relevant[level] & (space.limit[level] > state.factors[level])
        dim = jnp.argmax(jnp.where(jnp.any(candidate, axis=0), draws.uniform(dims), -1))
        growth = Growth(dim, level, source & relevant[level, dim], jnp.inf)
        state = grown(state, growth, space, longest=_LONGEST, checked=True)
        return dataclasses.replace(genes, slot=state.slot)

    words = jnp.prod(jnp.where(relevant[level], state.extents[level], 1))
    needed = jnp.floor(space.capacity[level] / words)

    def step(state: Nest, dim: Array) -> tuple[Nest, None]:
        growth = Growth(dim, level, source & relevant[level, dim], needed)
        return grown(state, growth, space, longest=_LONGEST, checked=False), None

    state, _ = jax.lax.scan(step, state, jnp.arange(dims))
    return dataclasses.replace(genes, slot=state.slot)


def parallelise(key: Array, genes: MappingGenes, space: MapSpace, *, released: bool = False) -> MappingGenes:
    """Parallelising mutation (MEDEA, Section IV-B3): at every level and along X and Y, a loop grows up to the fanout.

    As printed, the loop's dimension is drawn among those that the template lets run there and that have temporal loops
    left, and the loop grows by the largest factor that fits the remaining fanout and the buffers. As released, only
    existing loops grow, without regard to the buffers; where no loop runs along Y, the largest temporal loop of the
    level that fits the fanout moves there.

    Args:
        key: consumed.
        genes: the parent.
        space: the problem.
        released: static; which form.
    """
    space = own_space(genes, space)
    levels, dims = genes.order.shape
    temporal = (space.dim[:, None] == jnp.arange(dims)) & (space.prime > 1)[:, None]  # [F, D]
    draws = jax.random.uniform(key, (2 * levels, dims))

    def step(state: Nest, x: tuple[Array, Array]) -> tuple[Nest, None]:
        target, draw = x
        product = jnp.prod(state.factors[target].astype(space.fanout.dtype))
        left = jnp.floor(space.fanout[target] / product)
        small = temporal & (state.slot < levels)[:, None]
        small &= (state.factors[target] * space.prime[:, None] <= space.limit[target]) & (space.prime <= left)[:, None]
        can = jnp.any(small, axis=0)
        if released:
            can &= state.factors[target] > 1
        dim = jnp.argmax(jnp.where(can, draw, -1))
        source = (state.slot < levels) & jnp.any(can)
        growth = Growth(dim, target, source, left)
        state = grown(state, growth, space, longest=_ACROSS, checked=not released)
        return (_turned(state, target, space) if released else state), None

    targets = levels + jnp.arange(2 * levels)
    state, _ = jax.lax.scan(step, nest(genes.slot, space), (targets.astype(jnp.int32), draws))
    return dataclasses.replace(genes, slot=state.slot)


def _turned(state: Nest, target: Array, space: MapSpace) -> Nest:
    """The nest whose largest temporal loop that fits runs along Y, if `target` is a Y slot and holds no loop yet."""
    levels = space.capacity.shape[0]
    level, factors = target % levels, state.factors[target % levels]
    fits = (factors > 1) & (factors <= jnp.minimum(space.fanout[target], space.limit[target]))
    free = (target >= 2 * levels) & (jnp.prod(state.factors[target]) == 1) & jnp.any(fits)
    dim = jnp.argmax(jnp.where(fits, factors, 0))
    turns = (state.slot == level) & (space.dim == dim) & (space.prime > 1) & free
    return nest(jnp.where(turns, target, state.slot).astype(jnp.int32), space)


def exchange(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Exchanges two temporal loops of one dimension between two levels (MEDEA, Section IV-B1).

    The pair is drawn among those whose factors differ and that the template's limits allow. The buffers may overflow.
    The key is consumed.
    """
    space = own_space(genes, space)
    levels = genes.order.shape[0]
    factors, limit = slot_factors(genes.slot, space)[:levels], jnp.asarray(space.limit)[:levels]  # [L, D]
    takes = factors[:, None] <= limit  # the loop of level i at level j, [L, L, D]
    there = jnp.arange(levels) <= space.outermost
    can = takes & jnp.swapaxes(takes, 0, 1) & (factors[:, None] != factors)
    can &= (there[:, None] & there)[..., None]
    draw = jnp.where(can, jax.random.uniform(key, can.shape), -1)
    one, two, dim = jnp.unravel_index(jnp.argmax(draw), can.shape)
    own = (space.dim == dim) & (space.prime > 1) & jnp.any(can)
    slot = jnp.where(own & (genes.slot == one), two, jnp.where(own & (genes.slot == two), one, genes.slot))
    return dataclasses.replace(genes, slot=slot.astype(jnp.int32))


def mutate(key: Array, genes: MappingGenes, space: MapSpace, *, released: bool = False) -> MappingGenes:
    """Random mutation (MEDEA, Section IV-B1): two loops of a level, and two loops of a dimension, change places.

    Args:
        key: consumed.
        genes: the parent.
        space: the problem.
        released: static; only one of the two, by a fair coin.

    Returns:
        Genes whose tiles may exceed a buffer; constraints and fanouts hold.
    """
    swap_key, exchange_key, coin_key = jax.random.split(key, 3)
    if not released:
        return exchange(exchange_key, swap_loops(swap_key, genes, space), space)
    coin = jax.random.bernoulli(coin_key)
    return select(coin, swap_loops(swap_key, genes, space), exchange(exchange_key, genes, space))


STEPS: tuple[str, ...] = ("random", "fill", "parallelise")
"""Steps of `grow` that are drawn for a child, in the order of their keys."""


def vary(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace, rates: MapperRates) -> tuple[Draft, Draft]:
    """Two children of two parents: crossover without mending; mutations are drawn, and left to `grow`.

    The key is consumed. The steps of the drafts are `STEPS`.
    """
    coin_key, cross_key, child_key = jax.random.split(key, 3)
    crossed = crossover(cross_key, a, b, space, mend=False)
    pair = select(jax.random.bernoulli(coin_key, rates.crossover), crossed, (a, b))

    def draft(key: Array, genes: MappingGenes) -> Draft:
        coins, *keys = jax.random.split(key, 1 + len(STEPS))
        chances = [jnp.asarray(rate, jnp.float32) for rate in (rates.random, rates.fill, rates.parallelise)]
        return Draft(
            genes=genes, keys=jnp.stack(keys), wanted=jax.random.uniform(coins, (len(STEPS),)) < jnp.stack(chances)
        )

    one, two = jax.random.split(child_key)
    return draft(one, pair[0]), draft(two, pair[1])


def grow(drafts: Draft, space: MapSpace, *, released: bool = False) -> MappingGenes:
    """The genes of drafts `[N, ...]`, mutated where wanted; random mappings replace invalid ones.

    Args:
        drafts: from `vary`, or random ones, which want nothing and are valid.
        space: the problem.
        released: static; which form.
    """
    keys, wanted = drafts.keys, drafts.wanted

    def mutated(genes: MappingGenes) -> MappingGenes:
        random = functools.partial(mutate, released=released)
        return select(wanted[:, 0], jax.vmap(random, in_axes=(0, 0, None))(keys[:, 0], genes, space), genes)

    def filled(genes: MappingGenes) -> MappingGenes:
        for i, operator in enumerate((fill, parallelise), 1):
            operator = functools.partial(operator, released=released)
            cover, slot = few(operator, keys[:, i], wanted[:, i], genes, space)
            genes = dataclasses.replace(genes, cover=cover, slot=slot)
        return genes

    steps = (filled, mutated, functools.partial(_replaced, keys[:, 0], space=space))
    for step in steps if released else (*steps[1:], filled):
        drafts = dataclasses.replace(drafts, genes=step(drafts.genes))
    return drafts.genes


_FRESH = 16  # numbers from here on, folded into a key, give no key that its `split` gives


def _replaced(keys: Array, genes: MappingGenes, *, space: MapSpace) -> MappingGenes:
    """The genes `[N, ...]` with random mappings in the place of invalid ones."""
    invalid = ~jax.vmap(respects, in_axes=(0, None))(genes, space)
    fresh = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, _FRESH)
    cover, slot = few(lambda key, _, space: sample(key, space), fresh, invalid, genes, space)
    # `few` returns no bypasses and orders. Bypasses are those under which `sample` filled the buffers; orders are free.
    keep = jax.vmap(lambda key: sampled_keep(key, space)[1])(fresh)
    orders = jax.vmap(lambda key: random_orders(jax.random.fold_in(key, _FRESH + 2), space))(fresh)
    old = genes.order, genes.spatial_order, genes.keep
    order, spatial_order, keep = select(invalid, (*orders, keep), old)
    return MappingGenes(cover=cover, slot=slot, order=order, spatial_order=spatial_order, keep=keep)
