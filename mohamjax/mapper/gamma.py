"""A genetic algorithm per layer in the manner of GAMMA, on our cost model and map space.

GAMMA (Kao and Krishna, ICCAD 2020) minimises one number with a population of mappings: parents are the best 40 %, 5 %
survive as they are, and children come of a crossover that exchanges the tiling of one dimension, an exchange of two
loops of a level, new tile sizes, and another dimension that runs in parallel, with the rates of its code (.57, .47, .53
three times, .1). Its genes are MAESTRO's: clusters with a parallel dimension each, tiles of any size, a remainder where
one does not divide its bound. Here they are those of `mapping.space`, so that levels are the template's, tiles divide
their bounds, and clusters are neither born nor killed. A child that breaks a limit, a fanout or a capacity costs
infinitely much.

Axes: P population, F primes, S slots, A archive.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.mapper.mapping_operators import select, swap_loops
from mohamjax.mapper.medea import Growth, grown
from mohamjax.mapper.problems import MapperContext, objectives
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MappingGenes, MapSpace, nest, own_space, respects, sample
from mohamjax.runtime.struct import take

Archive = emo.Archive[MappingGenes]


@dataclasses.dataclass(frozen=True)
class GammaConfig:
    """Sizes and rates of the search, those of GAMMA's code; static.

    Attributes:
        population: P.
        generations: after the first population.
        elite: share that survives as it is.
        parents: share of the best from which parents are drawn.
        crossover: rate of the exchange of a dimension's tiling.
        reorder: rate of the exchange of two loops of a level.
        tile: rate of each of three new tile sizes.
        parallel: rate of another parallel dimension.
        archive: A, most non-dominated mappings remembered.
    """

    population: int = 100
    generations: int = 100
    elite: float = 0.05
    parents: float = 0.4
    crossover: float = 0.57
    reorder: float = 0.47
    tile: float = 0.53
    parallel: float = 0.1
    archive: int = 256


def exchange_tiling(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace) -> MappingGenes:
    """One parent with the slots that the primes of a random dimension have in the other; the key is consumed."""
    used = jnp.any((space.dim[:, None] == jnp.arange(space.limit.shape[1])) & (space.prime > 1)[:, None], axis=0)
    dim = jnp.argmax(jnp.where(used, jax.random.uniform(key, used.shape), -1))
    return dataclasses.replace(a, slot=jnp.where(space.dim == dim, b.slot, a.slot))


def resize_tile(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Another random size for the loop over one dimension in one slot; the outermost level makes up for it.

    Every prime that stands in the slot or outermost goes to either by a fair coin. Key is consumed.
    """
    slot_key, coin_key = jax.random.split(key)
    open_ = space.limit > 1  # [S, D]
    open_ &= (jnp.arange(open_.shape[0]) != space.outermost)[:, None]
    draw = jnp.where(open_, jax.random.uniform(slot_key, open_.shape), -1)
    slot, dim = jnp.unravel_index(jnp.argmax(draw), open_.shape)
    here = (space.dim == dim) & (space.prime > 1) & ((genes.slot == slot) | (genes.slot == space.outermost))
    here &= jnp.any(open_)
    coin = jax.random.bernoulli(coin_key, shape=here.shape)
    target = jnp.where(coin, slot, space.outermost)
    return dataclasses.replace(genes, slot=jnp.where(here, target, genes.slot).astype(jnp.int32))


def change_parallel(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Another dimension along one axis of a level: its loops go outermost, a new one fills the fanout.

    The key is consumed.
    """
    slot_key, dim_key = jax.random.split(key)
    levels = space.capacity.shape[0]
    wide = jnp.any(space.limit > 1, axis=1) & (space.fanout > 1) & (jnp.arange(space.limit.shape[0]) >= levels)
    slot = jnp.argmax(jnp.where(wide, jax.random.uniform(slot_key, wide.shape), -1)).astype(jnp.int32)
    cleared = jnp.where((genes.slot == slot) & jnp.any(wide), space.outermost, genes.slot).astype(jnp.int32)
    state = nest(cleared, space)
    there = jnp.any((space.dim[:, None] == jnp.arange(space.limit.shape[1])) & (space.prime > 1)[:, None], axis=0)
    can = (space.limit[slot] > 1) & there
    dim = jnp.argmax(jnp.where(can, jax.random.uniform(dim_key, can.shape), -1))
    source = (state.slot < levels) & jnp.any(can) & jnp.any(wide)
    growth = Growth(dim, slot, source, space.fanout[slot])
    return dataclasses.replace(genes, slot=grown(state, growth, space, longest=6, checked=False).slot)


def _child(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace, config: GammaConfig) -> MappingGenes:
    coins, cross_key, order_key, parallel_key, *tile_keys = jax.random.split(key, 7)
    own = own_space(a, space)
    draws = jax.random.uniform(coins, (6,))
    genes = select(draws[0] < config.crossover, exchange_tiling(cross_key, a, b, own), a)
    genes = select(draws[1] < config.reorder, swap_loops(order_key, genes, own), genes)
    for draw, tile_key in zip(draws[2:5], tile_keys, strict=True):
        genes = select(draw < config.tile, resize_tile(tile_key, genes, own), genes)
    return select(draws[5] < config.parallel, change_parallel(parallel_key, genes, own), genes)


def gamma_search(
    key: Array, context: MapperContext, weights: Array, config: GammaConfig, *, max_children: int
) -> tuple[Archive, MappingGenes, Array]:
    """Searches one problem; as `hybrid.hybrid_search`, with other sizes."""
    space, size = context.space, config.population
    elite, best = max(1, round(config.elite * size)), max(2, round(config.parents * size))
    fits = jax.vmap(respects, (0, None))

    def judged(genes: MappingGenes) -> tuple[Array, Array]:
        values = objectives(genes, context, max_children=max_children)
        values = jnp.where(fits(genes, space)[:, None], values, jnp.inf)
        return values, jnp.where(jnp.isfinite(values[:, 0]), values @ weights, jnp.inf)

    genes = jax.vmap(sample, (0, None))(jax.random.split(jax.random.fold_in(key, 0), size), space)
    values, cost = judged(genes)
    archive = emo.archive_init(config.archive, take(genes, 0), 3, space.capacity.dtype)
    archive = emo.archive_update(archive, genes, values)

    def generation(number: Array, carry: tuple[MappingGenes, Array, Archive]) -> tuple[MappingGenes, Array, Archive]:
        genes, cost, archive = carry
        order = jnp.argsort(cost, stable=True)
        genes, cost = take(genes, order), cost[order]
        pair_key, child_key = jax.random.split(jax.random.fold_in(key, number))
        count = size - elite
        dad, mom = jax.random.randint(pair_key, (2, count), 0, best)
        born = jax.vmap(_child, (0, 0, 0, None, None))(
            jax.random.split(child_key, count), take(genes, dad), take(genes, mom), space, config
        )
        values, new = judged(born)
        archive = emo.archive_update(archive, born, values)
        genes = jax.tree.map(lambda a, b: jnp.concatenate([a[:elite], b]), genes, born)
        return genes, jnp.concatenate([cost[:elite], new]), archive

    carry = genes, cost, archive
    genes, cost, archive = jax.lax.fori_loop(1, config.generations + 1, generation, carry)
    spent = jnp.int32(size + config.generations * (size - elite))
    return archive, take(genes, jnp.argmin(cost)), spent


@functools.partial(jax.jit, static_argnames=("config", "max_children"))
def gamma_block(
    keys: Array, context: MapperContext, weights: Array, *, config: GammaConfig, max_children: int
) -> tuple[Archive, MappingGenes, Array]:
    """`gamma_search` of B problems side by side: keys `[B]`, a context with leading axes `[B]` but the technology's."""

    def one(key: Array, space: MapSpace, template):
        own = MapperContext(space=space, template=template, technology=context.technology)
        return gamma_search(key, own, weights, config, max_children=max_children)

    return jax.vmap(one)(keys, context.space, context.template)
