"""Baselines of the co-optimiser over the same evaluation: random search, textbook NSGA-II, list schedules alone."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.emo.loop import Problem
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.struct import select, take
from mohamjax.schedule import Design
from mohamjax.search import operators
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.moham import genetic_problem, log_hypervolume


def random_search(
    key: jax.Array, space: DesignSpace, config: MohamConfig, evaluations: int
) -> tuple[emo.Archive, jax.Array]:
    """Draws designs as the co-optimiser draws its first population without seeds, and archives the best.

    Compiles anew on every call.

    Args:
        key: typed key, consumed.
        space: the problem.
        config: sizes; a batch has `config.population` designs on each of `config.islands` islands.
        evaluations: designs to evaluate on every island, rounded up to whole batches.

    Returns:
        The archives `[I, A, ...]`, and the hypervolume (`moham.log_hypervolume`) after every batch `[batches, I]`.
    """
    problem = genetic_problem(config)
    batches = -(-evaluations // config.population)

    @jax.jit
    def search(key: jax.Array, space: DesignSpace) -> tuple[emo.Archive, jax.Array]:
        def batch(archive: emo.Archive, key: jax.Array) -> tuple[emo.Archive, jax.Array]:
            keys = jax.random.split(key, (config.islands, config.population))
            genes = jax.vmap(lambda own: problem.random(own, space))(keys)
            return _entered(archive, genes, problem, space)

        example = jax.eval_shape(lambda k: take(problem.random(k[None], space), 0), key)
        return jax.lax.scan(batch, _empty(config, example), jax.random.split(key, batches))

    return search(key, space)


def archive_of(
    designs: Design, space: DesignSpace, config: MohamConfig, valid: jax.Array | None = None
) -> tuple[emo.Archive, jax.Array]:
    """Archives given designs and measures the hypervolume: what list schedules alone are worth.

    Compiles anew on every call.

    Args:
        designs: `[K, ...]`.
        space: the problem.
        config: sizes.
        valid: `[K]` bool, designs that count; default all.

    Returns:
        The archive `[1, A, ...]` and the hypervolume `[1]`.
    """
    problem = genetic_problem(config)
    example = jax.tree.map(lambda leaf: leaf[0], designs)
    empty = _empty(dataclasses.replace(config, islands=1, migration=0), example)

    @jax.jit
    def entered(designs: Design, space: DesignSpace, valid: jax.Array) -> tuple[emo.Archive, jax.Array]:
        return _entered(empty, jax.tree.map(lambda leaf: leaf[None], designs), problem, space, valid[None])

    everything = jnp.ones(designs.template.shape[0], bool)
    return entered(designs, space, everything if valid is None else valid)


def _empty(config: MohamConfig, example: Design) -> emo.Archive:
    """Empty archives `[I, A, ...]`."""
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), example)
    archive = emo.archive_init(config.archive, blank, len(config.objectives))
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.islands, *leaf.shape)), archive)


def _entered(
    archive: emo.Archive, genes: Design, problem: Problem, space: DesignSpace, valid: jax.Array | None = None
) -> tuple[emo.Archive, jax.Array]:
    """The archives after designs `[I, P, ...]` have entered, and their hypervolumes `[I]`."""
    objectives = jax.vmap(lambda genes: problem.evaluate(genes, space))(genes)
    found = jnp.where(emo.feasible(objectives)[..., None], objectives, jnp.inf)
    if valid is not None:
        found = jnp.where(valid[..., None], found, jnp.inf)
    box = None if problem.box is None else problem.box(space)
    enter = functools.partial(emo.archive_update, log_crowding=problem.log_archive, box=box)
    archive = jax.vmap(enter)(archive, genes, found)
    return archive, jax.vmap(lambda front: log_hypervolume(front, space))(archive.objectives)


_CROSSOVER = 0.9  # Deb's usual rate


def _reset(
    key: jax.Array, genes: jax.Array, low: int, high: jax.typing.ArrayLike, number: jax.typing.ArrayLike
) -> jax.Array:
    """Redraws each gene with probability 1 / `number` (of genes in use), uniformly from `low` to below `high`."""
    coin_key, value_key = jax.random.split(key)
    hit = jax.random.bernoulli(coin_key, 1.0 / number, genes.shape)
    span = jnp.maximum(jnp.asarray(high) - low, 1)
    drawn = low + (jax.random.uniform(value_key, genes.shape) * span).astype(genes.dtype)
    return jnp.where(hit, drawn, genes)


def _plain_vary(key: jax.Array, a: Design, b: Design, space: DesignSpace, rates: Rates) -> tuple[Design, Design]:
    """Two children by one-point crossover of every genome, random resets, and a repair that makes them designs.

    The order is crossed as in MOHaM (the one-point crossover of permutations that keeps them topological) and reset as
    a whole. Layers without a chiplet that runs them go to a random one that does. A child that cannot be repaired this
    way, or has too many chiplets, is replaced by its parent. `rates` are not used.
    """
    genetics = space.genetics
    order_key, cut_key, coin_key, first_key, second_key = jax.random.split(key, 5)
    layer_key, tile_key = jax.random.split(cut_key)
    layers, tiles = genetics.layers, a.template.shape[0]
    early = jnp.arange(a.order.shape[0]) < jax.random.randint(layer_key, (), 1, jnp.maximum(layers, 2))
    west = jnp.arange(tiles) < jax.random.randint(tile_key, (), 1, tiles)
    ordered = operators.scheduling_crossover(order_key, a, b, genetics)
    crosses = jax.random.bernoulli(coin_key, _CROSSOVER)

    def child(key: jax.Array, own: Design, other: Design, order: jax.Array) -> Design:
        order_key, pick_key, tile_key, mapping_key, template_key, repair_key = jax.random.split(key, 6)
        mixed = Design(
            order=order,
            assignment=jnp.where(early, own.assignment, other.assignment),
            mapping=jnp.where(early, own.mapping, other.mapping),
            template=jnp.where(west, own.template, other.template),
        )
        mixed = select(crosses, mixed, own)
        fresh = genetics.orders[jax.random.randint(pick_key, (), 0, genetics.orders.shape[0])]
        mixed = Design(
            order=jnp.where(jax.random.bernoulli(order_key, 1.0 / layers), fresh, mixed.order),
            assignment=_reset(tile_key, mixed.assignment, 0, tiles, layers),
            mapping=_reset(mapping_key, mixed.mapping, 0, genetics.count.max(), layers),
            template=_reset(template_key, mixed.template, -1, genetics.count.shape[1], tiles),
        )
        return operators.repaired(repair_key, mixed, own, genetics)

    return (
        child(first_key, a, b, ordered[0].order),
        child(second_key, b, a, ordered[1].order),
    )


@functools.cache
def plain_problem(config: MohamConfig) -> Problem:
    """The co-optimisation with NSGA-II's textbook variation instead of MOHaM's operators, for the generation loop."""
    return dataclasses.replace(genetic_problem(config), vary=_plain_vary)
