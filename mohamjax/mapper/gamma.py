"""A genetic algorithm per layer in the manner of GAMMA, on our cost model and map space.

GAMMA (Kao and Krishna, ICCAD 2020) minimises one number with a population of mappings. Parents are the best 40 %, and
5 % survive unchanged. Operators exchange the tiling of one dimension between parents, swap two loops of a level, draw
new tile sizes, and change the parallel dimension, at the rates of its code (.57, .47, .53 three times, .1). GAMMA's
genes are MAESTRO's: clusters with one parallel dimension each, and tiles of any size, with a remainder where one does
not divide its bound. Here they are those of `mapping.space`: levels are the template's, tiles divide their bounds, and
clusters are neither added nor removed. A child that breaks a limit, a fanout or a capacity has infinite cost.

Axes: B problems of a block, P population, N candidates, F primes, S slots.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.mapper.mapping_operators import swap_loops
from mohamjax.mapper.medea import Growth, grown
from mohamjax.mapper.problems import MapperContext
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MappingGenes, MapSpace, nest, own_space, respects, sample
from mohamjax.runtime.checks import check_whole
from mohamjax.runtime.platforms import product
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import record, select, take

Archive = emo.Archive[MappingGenes]
Evaluate = Callable[[MappingGenes], Array]


@dataclasses.dataclass(frozen=True)
class GammaConfig:
    """Sizes and rates of the search, those of GAMMA's code; static.

    Attributes:
        population: P.
        generations: generations after the first population.
        elite: share that survives unchanged.
        parents: share of the population, its best, from which parents are drawn.
        crossover: rate of the exchange of a dimension's tiling.
        reorder: rate of the exchange of two loops of a level.
        tile: rate of each of three new tile sizes.
        parallel: rate of changes of the parallel dimension.
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

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        check_whole(self, "settings of gamma", {"population": 2, "generations": 0, "archive": 6})
        for name in ("elite", "parents", "crossover", "reorder", "tile", "parallel"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)!r}", item="settings of gamma", remedy="use 0 to 1")
        if _born(self) < 1:
            remedy = "use less, so that a generation has new mappings"
            raise InputError(f"elite is {self.elite!r}", item="settings of gamma", remedy=remedy)


def exchange_tiling(key: Array, a: MappingGenes, b: MappingGenes, space: MapSpace) -> MappingGenes:
    """The first parent, with the second's slots for the primes of a random dimension; the key is consumed."""
    used = jnp.any((space.dim[:, None] == jnp.arange(space.limit.shape[1])) & (space.prime > 1)[:, None], axis=0)
    dim = jnp.argmax(jnp.where(used, jax.random.uniform(key, used.shape), -1))
    return dataclasses.replace(a, slot=jnp.where(space.dim == dim, b.slot, a.slot))


def resize_tile(key: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """Another random size for the loop over one dimension in one slot; the outermost level makes up for it.

    Each prime of the dimension in that slot or outermost goes to either by a fair coin. The key is consumed.
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
    """Changes the dimension along one axis of a level: its loops go outermost, and a new one fills the fanout.

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


@record
class GammaState:
    """A population of one problem.

    Attributes:
        key: typed key; generation g draws from `fold_in(key, g)`.
        genes: `[P, ...]`, the elites first.
        cost: `[P]` float, +inf where invalid or not evaluated yet.
        archive: of all mappings evaluated.
        generation: `[]` int32, generations told so far.
    """

    key: Array
    genes: MappingGenes
    cost: Array
    archive: Archive
    generation: Array


def _born(config: GammaConfig) -> int:
    """N, mappings that a generation evaluates: all but the elites."""
    return config.population - max(1, round(config.elite * config.population))


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def start(keys: Array, space: MapSpace, *, config: GammaConfig) -> tuple[GammaState, MappingGenes]:
    """States of a block of problems, `[B]`, and their first, random mappings, `[B, N, ...]`."""

    def one(key: Array, space: MapSpace) -> tuple[GammaState, MappingGenes]:
        genes = jax.vmap(sample, (0, None))(jax.random.split(jax.random.fold_in(key, 0), _born(config)), space)
        dtype = space.capacity.dtype
        state = GammaState(
            key=key,
            genes=take(genes, jnp.arange(config.population) % _born(config)),
            cost=jnp.full(config.population, jnp.inf, dtype),
            archive=emo.archive_init(config.archive, take(genes, 0), 3, dtype),
            generation=jnp.int32(0),
        )
        return state, genes

    return jax.vmap(one)(keys, space)


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def ask(state: GammaState, space: MapSpace, *, config: GammaConfig) -> MappingGenes:
    """Children of the best of each population, `[B, N, ...]`."""
    best, count = max(2, round(config.parents * config.population)), _born(config)

    def one(state: GammaState, space: MapSpace) -> MappingGenes:
        parents = take(state.genes, jnp.argsort(state.cost, stable=True)[:best])
        pair_key, child_key = jax.random.split(jax.random.fold_in(state.key, state.generation))
        dad, mom = jax.random.randint(pair_key, (2, count), 0, best)
        keys = jax.random.split(child_key, count)
        return jax.vmap(_child, (0, 0, 0, None, None))(keys, take(parents, dad), take(parents, mom), space, config)

    return jax.vmap(one)(state, space)


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def tell(
    state: GammaState, genes: MappingGenes, values: Array, space: MapSpace, weights: Array, *, config: GammaConfig
) -> GammaState:
    """The states after candidates `[B, N, ...]` with logarithms of latency, energy and area `[B, N, 3]`."""
    elite = config.population - _born(config)

    def one(state: GammaState, genes: MappingGenes, values: Array, space: MapSpace) -> GammaState:
        values = jnp.where(jax.vmap(respects, (0, None))(genes, space)[:, None], values, jnp.inf)
        cost = jnp.where(jnp.isfinite(values[:, 0]), product(values, weights), jnp.inf)
        order = jnp.argsort(state.cost, stable=True)[:elite]
        kept = take(state.genes, order)
        return GammaState(
            key=state.key,
            genes=jax.tree.map(lambda a, b: jnp.concatenate([a, b]), kept, genes),
            cost=jnp.concatenate([state.cost[order], cost]),
            archive=emo.archive_update(state.archive, genes, values),
            generation=state.generation + 1,
        )

    return jax.vmap(one)(state, genes, values, space)


def gamma_block(
    keys: Array, context: MapperContext, weights: Array, evaluate: Evaluate, config: GammaConfig
) -> tuple[Archive, MappingGenes, np.ndarray]:
    """Searches B problems side by side, generation by generation.

    Args:
        keys: `[B]` typed keys, consumed.
        context: the problems; leaves have leading axis `[B]`, except those of the technology.
        weights: `[3]` float, exponents of latency, energy and area in the cost.
        evaluate: genes `[B, N, ...]` to logarithms of latency, energy and area `[B, N, 3]`.
        config: sizes.

    Returns:
        Archives `[B, ...]` of all mappings evaluated, the mappings of least cost `[B, ...]`, and evaluations `[B]`.
    """
    static = dataclasses.replace(config, generations=0)  # programs serve any number of them
    state, genes = start(keys, context.space, config=static)
    for generation in range(config.generations + 1):
        if generation:
            genes = ask(state, context.space, config=static)
        state = tell(state, genes, evaluate(genes), context.space, weights, config=static)
    state = jax.device_get(state)
    rows = np.arange(len(state.cost))
    best = take(state.genes, (rows, np.argmin(state.cost, axis=1)))
    return state.archive, best, np.full(len(rows), _born(config) * (config.generations + 1))
