"""Timeloop's hybrid search on our cost model: a random tiling, then its loop orders one after the other.

Each of several lanes, the threads of `timeloop-mapper`, draws a tiling (factors in time and space at every level) and
walks through the orders of its temporal loops, those of the innermost level first. Loops of bound 1 have no place in an
order, and prescribed orders are left alone. A lane ends when a number of consecutive mappings, the victory condition,
has not improved on its best. If more evaluations are asked for, it starts again.

Tilings come from `mapping.space.sample` and are valid, while Timeloop draws from all factorisations and discards most
of them. Axes: B problems of a block, T lanes, C mappings of a lane in a step, L levels, D dimensions.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.mapper.gamma import Evaluate
from mohamjax.mapper.problems import MapperContext
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MappingGenes, MapSpace, own_space, sample, slot_factors
from mohamjax.runtime.checks import check_whole
from mohamjax.runtime.platforms import product
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import record, select, take

Archive = emo.Archive[MappingGenes]


@dataclasses.dataclass(frozen=True)
class HybridConfig:
    """Sizes of the search; static.

    Attributes:
        victory: a lane ends after this many consecutive mappings that are no better than its best.
        threads: number of lanes.
        evaluations: least number of mappings to evaluate, by restarting lanes that have ended; 0: each runs once.
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

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        least = {"victory": 1, "threads": 1, "evaluations": 0, "most": 1, "archive": 6, "chunk": 1}
        check_whole(self, "settings of hybrid", least)


@record
class _Lane:
    """What a lane carries from step to step.

    Attributes:
        genes: its tiling, with the orders of its first mapping.
        first: `[]` int32, number of the next order.
        orders: `[]` int32, how many orders the tiling has, at most 2^30.
        best: `[]` float, least cost since it began.
        since: `[]` int32, mappings since that one.
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
        # Loops that do not move keep their places in the order; the moving ones take the other places.
        at = jnp.argsort(order)  # place of each dimension
        free = jnp.any((at[:, None] == place) & moves[:, None], axis=0)  # [D] places
        nth = jnp.cumsum(free) - 1
        mover = jnp.argmax((rank == nth[:, None]) & moves, axis=1)
        return number, jnp.where(free, mover, order).astype(jnp.int32)

    _, orders = jax.lax.scan(level, number, (moving, genes.order))
    return dataclasses.replace(genes, order=orders)


def loop_orders(genes: MappingGenes, space: MapSpace) -> Array:
    """Number of orders of the temporal loops of a tiling, `[]` int32, or 2^30 if it is larger."""
    count = jnp.sum(_moving(genes, space), axis=1)
    logs = jnp.sum(jax.lax.lgamma(count.astype(jnp.float32) + 1))
    return jnp.where(logs > 20, 2**30, jnp.round(jnp.exp(jnp.minimum(logs, 20))).astype(jnp.int32))


def _moving(genes: MappingGenes, space: MapSpace) -> Array:
    """Temporal loops of bound above 1 whose places no template prescribes, `[L, D]` bool by dimension."""
    levels = genes.order.shape[0]
    factors = slot_factors(genes.slot, own_space(genes, space))[:levels]
    prescribed = jnp.asarray(space.constraints.order)
    named = jnp.any(prescribed[:, :, None] == jnp.arange(prescribed.shape[1]), axis=1)
    outside = jnp.arange(levels) > 0  # at level 0 no order matters
    return (factors > 1) & ~named & outside[:, None]


@record
class HybridState:
    """The lanes of one problem.

    Attributes:
        key: typed key; lane n draws its k-th tiling from `fold_in(fold_in(key, n), k)`.
        lanes: `[T, ...]`.
        archive: of all mappings evaluated.
        best: the mapping of least cost.
        least: `[]` float, its cost.
        spent: `[]` int32, mappings evaluated.
    """

    key: Array
    lanes: _Lane
    archive: Archive
    best: MappingGenes
    least: Array
    spent: Array


def _ended(lane: _Lane, config: HybridConfig) -> Array:
    return (lane.since >= config.victory) | (lane.spent >= config.most)


def _numbers(lane: _Lane, config: HybridConfig) -> tuple[Array, Array]:
    """Numbers of the next orders `[T, C]`, and which of them are evaluated."""
    number = lane.first[:, None] + jnp.arange(config.chunk)
    return number, (number < lane.orders[:, None]) & ~_ended(lane, config)[:, None]


def _drawn(key: Array, draws: Array, space: MapSpace) -> MappingGenes:
    """A tiling for every lane, `[T, ...]`; `draws` `[T]` numbers the draw within each lane."""
    keys = jax.vmap(lambda n, k: jax.random.fold_in(jax.random.fold_in(key, n), k))(jnp.arange(draws.shape[0]), draws)
    return jax.vmap(sample, (0, None))(keys, space)


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def start(keys: Array, space: MapSpace, *, config: HybridConfig) -> HybridState:
    """States of a block of problems, `[B]`."""

    def one(key: Array, space: MapSpace) -> HybridState:
        zero, dtype = jnp.zeros(config.threads, jnp.int32), space.capacity.dtype
        genes = _drawn(key, zero, space)
        lanes = _Lane(
            genes=genes, first=zero, orders=jax.vmap(loop_orders, (0, None))(genes, space), draws=zero,
            best=jnp.full(config.threads, jnp.inf, dtype), since=zero, spent=zero,
        )  # fmt: skip
        archive = emo.archive_init(config.archive, take(genes, 0), 3, dtype)
        return HybridState(
            key=key, lanes=lanes, archive=archive, best=take(genes, 0), least=jnp.asarray(jnp.inf, dtype),
            spent=jnp.int32(0),
        )  # fmt: skip

    return jax.vmap(one)(keys, space)


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def ask(state: HybridState, space: MapSpace, *, config: HybridConfig) -> tuple[HybridState, MappingGenes]:
    """The states with tilings that have orders left, and the next mappings of all lanes `[B, T * C, ...]`."""

    def one(state: HybridState, space: MapSpace) -> tuple[HybridState, MappingGenes]:
        lane = state.lanes
        if config.evaluations:  # lanes that have ended start again
            over = _ended(lane, config)
            lane = dataclasses.replace(
                lane,
                first=jnp.where(over, lane.orders, lane.first),
                best=jnp.where(over, jnp.inf, lane.best),
                since=jnp.where(over, 0, lane.since),
                spent=jnp.where(over, 0, lane.spent),
            )
        lane = _refreshed(lane, state.key, space)
        number, _ = _numbers(lane, config)
        tried = jax.vmap(jax.vmap(loop_order, (0, None, None)), (0, 0, None))(number, lane.genes, space)
        tried = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tried)
        return dataclasses.replace(state, lanes=lane), tried

    return jax.vmap(one)(state, space)


@functools.partial(jit_o1_plain_loops, static_argnames=("config",))
def tell(
    state: HybridState, tried: MappingGenes, values: Array, weights: Array, limit: Array, *, config: HybridConfig
) -> tuple[HybridState, Array]:
    """The states after mappings with logarithms of objectives `[B, T * C, 3]`, and whether any lane goes on, `[B]`."""

    def one(state: HybridState, tried: MappingGenes, values: Array) -> tuple[HybridState, Array]:
        _, exists = _numbers(state.lanes, config)
        exists &= state.spent < limit
        cost = jnp.where(exists, product(values, weights).reshape(exists.shape), jnp.inf)
        lane, exists = _told(state.lanes, cost, exists, config.victory)
        values = jnp.where(exists.reshape(-1, 1), values, jnp.inf)
        flat = jnp.where(exists, cost, jnp.inf).ravel()
        at = jnp.argmin(flat)
        better = flat[at] < state.least
        told = HybridState(
            key=state.key,
            lanes=lane,
            archive=emo.archive_update(state.archive, tried, values),
            best=select(better, take(tried, at), state.best),
            least=jnp.minimum(state.least, flat[at]),
            spent=state.spent + jnp.sum(exists, dtype=jnp.int32),
        )
        return told, jnp.any(~_ended(lane, config))

    return jax.vmap(one)(state, tried, values)


def hybrid_block(
    keys: Array, context: MapperContext, weights: Array, evaluate: Evaluate, config: HybridConfig
) -> tuple[Archive, MappingGenes, np.ndarray]:
    """Searches B problems side by side until all lanes have ended; arguments and results as in `gamma.gamma_block`."""
    limit = jnp.int32(config.evaluations or 2**31 - 1)  # per problem: the others of a block go on
    static = dataclasses.replace(config, evaluations=min(config.evaluations, 1))  # programs serve any number of them
    state, going = start(keys, context.space, config=static), True
    while going:
        state, tried = ask(state, context.space, config=static)
        state, open_ = tell(state, tried, evaluate(tried), weights, limit, config=static)
        more = np.asarray(state.spent) < config.evaluations if config.evaluations else np.asarray(open_)
        going = bool(np.any(more))
    archive, best, spent = jax.device_get((state.archive, state.best, state.spent))
    return archive, best, spent


def _refreshed(lane: _Lane, key: Array, space: MapSpace) -> _Lane:
    """Lanes with another tiling where all orders of the last one have been tried."""
    done = lane.first >= lane.orders
    draws = lane.draws + done
    fresh = _drawn(key, draws, space)
    genes = select(done, fresh, lane.genes)
    orders = jax.vmap(loop_orders, (0, None))(genes, space)
    return dataclasses.replace(lane, genes=genes, orders=orders, draws=draws, first=jnp.where(done, 0, lane.first))


def _told(lane: _Lane, cost: Array, exists: Array, victory: int) -> tuple[_Lane, Array]:
    """Lanes after their mappings in order, and which of these `[T, C]` came before the lane's end."""

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
