"""Timeloop's hybrid search on our cost model: a random tiling, then its loop orders one after the other.

Each of several lanes, the threads of `timeloop-mapper`, draws a tiling (factors in time and space at every level) and
walks through the orders of its temporal loops, those of the innermost level first. Loops of bound 1 have no place in an
order, and prescribed orders are left alone. A lane ends once a number of mappings in a row, the victory condition, has
not been better than the best that it knows. Where more evaluations are asked for, it begins anew.

Tilings come from `mapping.space.sample`: they are valid, where Timeloop draws from all factorisations and throws most
of them away. Axes: T lanes, C mappings of a lane in a step, L levels, D dimensions, A archive.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.mapper.problems import MapperContext, objectives
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MappingGenes, MapSpace, own_space, sample, slot_factors
from mohamjax.runtime.struct import record, take

Archive = emo.Archive[MappingGenes]


@dataclasses.dataclass(frozen=True)
class HybridConfig:
    """Sizes of the search; static.

    Attributes:
        victory: mappings in a row that are no better than the best of their lane, after which a lane ends.
        threads: lanes.
        evaluations: mappings to evaluate, by lanes that begin anew where they have ended; 0 ends each once.
        most: mappings of a lane after which it ends in any case.
        archive: most non-dominated mappings remembered.
        chunk: mappings of a lane that are evaluated at once.
    """

    victory: int = 500
    threads: int = 6
    evaluations: int = 0
    most: int = 20000
    archive: int = 256
    chunk: int = 32


@record
class _Lane:
    """What a lane carries from step to step.

    Attributes:
        genes: its tiling; orders are those of the first mapping.
        first: `[]` int32, number of the next order.
        orders: `[]` int32, how many orders the tiling has, at most 2^30.
        best: `[]` float, least cost since it began.
        since: `[]` int32, mappings since that.
        spent: `[]` int32, mappings evaluated since it began.
        draws: `[]` int32, tilings drawn so far.
    """

    genes: MappingGenes
    first: Array
    orders: Array
    best: Array
    since: Array
    spent: Array
    draws: Array


def loop_order(number: Array, genes: MappingGenes, space: MapSpace) -> MappingGenes:
    """One of the loop orders of a tiling, by its number in mixed radix: the innermost level changes fastest.

    Args:
        number: `[]` int32, below `loop_orders`.
        genes: the tiling.
        space: the problem.
    """
    moving = _moving(genes, space)  # [L, D] by dimension

    def level(number: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        moves, order = x
        # Digits of the factorial number system: how many of the moving loops left stand before the one taken.
        place = jnp.arange(moves.shape[0])
        rank = jnp.zeros(moves.shape[0], jnp.int32)
        left = moves
        for k in range(moves.shape[0]):
            count = jnp.sum(left, dtype=jnp.int32)
            number, digit = jnp.divmod(number, jnp.maximum(count, 1))
            pick = left & (jnp.cumsum(left) == digit + 1)
            rank = jnp.where(pick, k, rank)
            left &= ~pick
        # Loops that do not move keep their places in the order; the moving ones share out the other places.
        at = jnp.argsort(order)  # place of each dimension
        free = jnp.any((at[:, None] == place) & moves[:, None], axis=0)  # [D] places
        nth = jnp.cumsum(free) - 1
        mover = jnp.argmax((rank == nth[:, None]) & moves, axis=1)
        return number, jnp.where(free, mover, order).astype(jnp.int32)

    _, orders = jax.lax.scan(level, number, (moving, genes.order))
    return dataclasses.replace(genes, order=orders)


def loop_orders(genes: MappingGenes, space: MapSpace) -> Array:
    """How many orders the temporal loops of a tiling have, `[]` int32; at most 2^30 is said."""
    count = jnp.sum(_moving(genes, space), axis=1)
    logs = jnp.sum(jax.lax.lgamma(count.astype(jnp.float32) + 1))
    return jnp.where(logs > 20, 2**30, jnp.round(jnp.exp(jnp.minimum(logs, 20))).astype(jnp.int32))


def _moving(genes: MappingGenes, space: MapSpace) -> Array:
    """Temporal loops above 1 in levels that prescribe no order, `[L, D]` bool by dimension."""
    levels = genes.order.shape[0]
    factors = slot_factors(genes.slot, own_space(genes, space))[:levels]
    free = jnp.all(jnp.asarray(space.constraints.order) < 0, axis=1)
    free &= jnp.arange(levels) > 0  # at level 0 no order matters
    return (factors > 1) & free[:, None]


def hybrid_search(
    key: Array, context: MapperContext, weights: Array, config: HybridConfig, *, max_children: int
) -> tuple[Archive, MappingGenes, Array]:
    """Searches one problem. Not jitted; callers jit and vmap.

    Args:
        key: typed key, consumed.
        context: the problem.
        weights: `[3]` float, exponents of latency, energy and area in the cost.
        config: sizes.
        max_children: static, see `objectives`.

    Returns:
        An archive of all mappings evaluated, the one of least cost, and how many were evaluated `[]` int32.
    """
    space, lanes, chunk = context.space, config.threads, config.chunk
    numbers = jnp.arange(lanes)

    def drawn(number: Array, draws: Array) -> MappingGenes:
        return sample(jax.random.fold_in(jax.random.fold_in(key, number), draws), space)

    genes = jax.vmap(drawn)(numbers, jnp.zeros(lanes, jnp.int32))
    zero = jnp.zeros(lanes, jnp.int32)
    dtype = space.capacity.dtype
    lane = _Lane(
        genes=genes, first=zero, orders=jax.vmap(loop_orders, (0, None))(genes, space), draws=zero,
        best=jnp.full(lanes, jnp.inf, dtype), since=zero, spent=zero,
    )  # fmt: skip
    archive = emo.archive_init(config.archive, take(genes, 0), 3, dtype)
    limit = config.evaluations or lanes * config.most

    def ended(lane: _Lane) -> Array:
        return (lane.since >= config.victory) | (lane.spent >= config.most)

    def going(carry: tuple[_Lane, Archive, MappingGenes, Array, Array]) -> Array:
        lane, _, _, _, spent = carry
        return (spent < limit) & (jnp.any(~ended(lane)) | (config.evaluations > 0))

    def step(
        carry: tuple[_Lane, Archive, MappingGenes, Array, Array],
    ) -> tuple[_Lane, Archive, MappingGenes, Array, Array]:
        lane, archive, best, least, spent = carry
        if config.evaluations:
            over = ended(lane)
            lane = dataclasses.replace(
                lane,
                first=jnp.where(over, lane.orders, lane.first),
                best=jnp.where(over, jnp.inf, lane.best),
                since=jnp.where(over, 0, lane.since),
                spent=jnp.where(over, 0, lane.spent),
            )
        lane = _refreshed(lane, numbers, drawn, space)
        number = lane.first[:, None] + jnp.arange(chunk)
        exists = (number < lane.orders[:, None]) & ~ended(lane)[:, None]
        tried = jax.vmap(jax.vmap(loop_order, (0, None, None)), (0, 0, None))(number, lane.genes, space)
        tried = jax.tree.map(lambda leaf: leaf.reshape(lanes * chunk, *leaf.shape[2:]), tried)
        values = objectives(tried, context, max_children=max_children)
        cost = jnp.where(exists, (values @ weights).reshape(lanes, chunk), jnp.inf)
        lane, exists = _told(lane, cost, exists, config.victory)
        values = jnp.where(exists.reshape(-1, 1), values, jnp.inf)
        archive = emo.archive_update(archive, tried, values)
        flat = jnp.where(exists, cost, jnp.inf).ravel()
        at = jnp.argmin(flat)
        best = jax.tree.map(lambda new, old: jnp.where(flat[at] < least, new[at], old), tried, best)
        return lane, archive, best, jnp.minimum(least, flat[at]), spent + jnp.sum(exists, dtype=jnp.int32)

    carry = lane, archive, take(genes, 0), jnp.asarray(jnp.inf, dtype), jnp.int32(0)
    _, archive, best, _, spent = jax.lax.while_loop(going, step, carry)
    return archive, best, spent


def _refreshed(lane: _Lane, numbers: Array, drawn, space: MapSpace) -> _Lane:
    """Lanes with another tiling where all orders of the last one have been tried."""
    done = lane.first >= lane.orders
    draws = lane.draws + done
    fresh = jax.vmap(drawn)(numbers, draws)
    genes = jax.tree.map(lambda a, b: jnp.where(done.reshape(-1, *[1] * (a.ndim - 1)), a, b), fresh, lane.genes)
    orders = jax.vmap(loop_orders, (0, None))(genes, space)
    return dataclasses.replace(lane, genes=genes, orders=orders, draws=draws, first=jnp.where(done, 0, lane.first))


def _told(lane: _Lane, cost: Array, exists: Array, victory: int) -> tuple[_Lane, Array]:
    """Lanes after mappings in their order, and which of these `[T, C]` were evaluated before the lane's end."""

    def one(carry: tuple[Array, Array], x: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        best, since = carry
        cost, exists = x
        counts = exists & (since < victory)
        better = counts & (cost < best)
        since = jnp.where(better, 0, since + counts)
        return (jnp.where(better, cost, best), since), counts

    (best, since), counts = jax.lax.scan(one, (lane.best, lane.since), (cost.T, exists.T))
    lane = dataclasses.replace(
        lane, best=best, since=since, spent=lane.spent + jnp.sum(counts, axis=0, dtype=jnp.int32),
        first=lane.first + jnp.sum(exists, axis=1, dtype=jnp.int32),
    )  # fmt: skip
    return lane, counts.T


@functools.partial(jax.jit, static_argnames=("config", "max_children"))
def hybrid_block(
    keys: Array, context: MapperContext, weights: Array, *, config: HybridConfig, max_children: int
) -> tuple[Archive, MappingGenes, Array]:
    """`hybrid_search` of B problems side by side: keys `[B]`, a context with leading axes `[B]` but the technology's."""

    def one(key: Array, space: MapSpace, template):
        own = MapperContext(space=space, template=template, technology=context.technology)
        return hybrid_search(key, own, weights, config, max_children=max_children)

    return jax.vmap(one)(keys, context.space, context.template)
