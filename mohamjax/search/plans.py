"""Plans: few genes that move hardware, and the list scheduler that makes a design of them.

A plan says which chiplets there are, how large each may be, and whether it works for speed or for thrift; everything
else follows. On every chiplet each layer has the best mapping that fits the chiplet as it stands, every capacity and
every fanout for itself; layers are taken by upward rank (HEFT: Topcuoglu, Hariri, Wu, 2002), or where lateness is
searched by the latest start that keeps their deadline, and go to the chiplet of least finish time x energy^thrift. A
chiplet then shrinks to what its layers use, so that no layer of a decoded design has a better mapping, under its
chiplet's weight, that would fit.

Whether a mapping fits is a bit. For every template, weight, size component and threshold there is a set of mappings,
ordered by their score under the weight: the best mapping that fits a chiplet is the lowest bit of an intersection.

Axes: L layers (padded), Q kinds of layers, S tiles, U unique layers, T templates, M mappings of a Pareto set, C
components of a size (the capacities and fanouts that differ between mappings), R thresholds of a component, W weights,
H sizes in the library, K exponents of energy, B words of 32 bits, N plans. Functions are for one plan, callers vmap;
but `decode` takes many.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.blocks import side_by_side_argsort
from mohamjax.mapping import MappingTables
from mohamjax.platforms import by_platform
from mohamjax.schedule import Design
from mohamjax.search.operators import Genetics
from mohamjax.search.seeds import size_caps
from mohamjax.struct import put, record

__all__ = [
    "LEAST",
    "THRIFT",
    "WEIGHTS",
    "Plan",
    "PlanTables",
    "Planned",
    "by_upward_rank",
    "decode",
    "fitting",
    "mapping_scores",
    "placed",
    "plan_of",
    "plan_tables",
    "refit",
    "sized",
    "used_sizes",
]

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Exponents of time in the score time^w x energy^(1 - w) by which mappings are chosen, W of them."""

THRIFT = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""Exponents of energy when a layer is placed, K of them."""

LEAST = -1
"""A size to be found once the templates stand (`sized`)."""

_THRESHOLDS = 64
_CAPS = 24
_WORD = 32
_TRIED = 512


@record
class Plan:
    """The genes of a plan.

    Attributes:
        template: `[S]` int32, template on each tile, -1 where the tile is empty.
        size: `[S, C]` int32 in 0..R-1, threshold of each component that mappings on the tile must not pass. Layers
            that fit no chiplet may pass it. `LEAST` in a plan that is not completed yet: the least size that holds all
            layers, of whichever template will stand there.
        weight: `[S]` int32 in 0..W-1, by which score the tile's layers choose their mappings.
        thrift: `[]` int32 in 0..K-1, exponent of energy when layers are placed.
    """

    template: jax.Array
    size: jax.Array
    weight: jax.Array
    thrift: jax.Array


@record
class Planned:
    """An individual: the plan, and the design that came of it."""

    plan: Plan
    design: Design


@record
class PlanTables:
    """What decoding reads of the Pareto tables.

    Attributes:
        fits: `[T, W, C, R, B, U]` uint32, sets of mappings: bit p of the words is the p-th best mapping by the weight's
            score, set where it does not pass the threshold.
        ranked: `[T, W, M, U]` int32, mappings by falling score.
        smallest: `[T, U]` int32, the mapping of least area: what a layer takes where nothing fits.
        time: `[T, M, U]` float, cycles alone on a memory interface; inf in padding.
        log_energy: `[T, M, U]` float, logarithm of the energy on the mapping's own hardware; inf in padding.
        need: `[T, M, U, C]` int32, least threshold of each component that the mapping does not pass.
        library: `[T, H, C]` int32, sizes to start from: of chiplets that run every layer on its best mapping under a
            cap on area and a weight, then the least and the largest.
        thrift: `[K]` float, `THRIFT`.
    """

    fits: jax.Array
    ranked: jax.Array
    smallest: jax.Array
    time: jax.Array
    log_energy: jax.Array
    need: jax.Array
    library: jax.Array
    thrift: jax.Array


# ---------------------------------------------------------------- tables, on the host


def plan_tables(tables: MappingTables, duration: np.ndarray, like: MappingTables | None = None) -> PlanTables:
    """Sorts mappings by score and by what hardware they need.

    Args:
        tables: Pareto tables `[U, T, M, ...]`.
        duration: `[U, T, M]` float, cycles of each entry alone on its memory interface.
        like: tables whose components and thresholds count: those that a search began with, where `tables` have grown
            since. A size then means the same over both. Default `tables`.

    Returns:
        The tables in single precision.
    """
    count = np.asarray(tables.count)
    entries = np.shape(tables.cycles)[2]
    valid = np.arange(entries) < count[..., None]
    need = _needs(tables, tables if like is None else like)
    objectives = np.asarray(tables.objectives, np.float64)
    area = np.where(valid, objectives[..., 2], np.inf)
    time = np.where(valid, duration, np.inf)
    scores = mapping_scores(duration, np.where(valid, objectives[..., 1], np.inf))
    ranked = np.stack([np.lexsort((area, score), axis=-1) for score in scores], axis=2)  # [U, T, W, M]
    single = np.float32

    def last(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(values, 0, -1)

    return PlanTables(
        fits=put(_sets(need, ranked, valid)),
        ranked=put(last(ranked).astype(np.int32)),
        smallest=put(last(area.argmin(axis=2)).astype(np.int32)),
        time=put(last(time).astype(single)),
        log_energy=put(last(scores[0]).astype(single)),  # the weight 0 knows nothing else
        need=put(np.moveaxis(need, 0, 2)),
        library=put(_library(need, scores, area)),
        thrift=put(THRIFT, single),
    )


def mapping_scores(time: np.ndarray, energy: np.ndarray) -> list[np.ndarray]:
    """Logarithms of time^w x energy^(1 - w), an array for each of `WEIGHTS`; inf where the energy is, as in padding.

    What takes no time or no energy counts as if it took the least that a number can say.
    """
    real = np.isfinite(energy)
    least = np.finfo(np.float64).tiny
    log_time, log_energy = (np.log(np.maximum(np.where(real, x, 1.0), least, dtype=np.float64)) for x in (time, energy))
    return [np.where(real, w * log_time + (1 - w) * log_energy, np.inf) for w in WEIGHTS]


def _needs(tables: MappingTables, like: MappingTables) -> np.ndarray:
    """`[U, T, M, C]` int32, see `PlanTables.need`; thresholds are values that occur in `like`, at most R of them."""

    def columns(tables: MappingTables) -> np.ndarray:
        capacity, fanout = np.asarray(tables.capacity), np.asarray(tables.fanout)
        return np.concatenate([capacity, fanout.reshape(*capacity.shape[:3], -1)], axis=-1)

    values, known = columns(tables), columns(like)
    exists = np.arange(known.shape[2]) < np.asarray(like.count)[..., None]
    of_template: list[list[tuple[int, np.ndarray]]] = []
    for t in range(values.shape[1]):
        seen = [np.unique(column) for column in known[:, t][exists[:, t]].T]
        of_template.append([(column, own) for column, own in enumerate(seen) if len(own) > 1])
    # The number of components depends on the templates rather than on what the mapper found.
    room = max(8, 4 * -(-max(map(len, of_template)) // 4))
    need = np.zeros((*values.shape[:3], room), np.int32)
    for t, own in enumerate(of_template):
        for c, (column, seen) in enumerate(own):
            if len(seen) > _THRESHOLDS:
                seen = seen[np.linspace(0, len(seen) - 1, _THRESHOLDS).round().astype(int)]
            need[:, t, :, c] = np.minimum(np.searchsorted(seen, values[:, t, :, column]), _THRESHOLDS - 1)
    return need


def _sets(need: np.ndarray, ranked: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """`PlanTables.fits` from needs `[U, T, M, C]`, rankings `[U, T, W, M]` and the entries that exist `[U, T, M]`."""
    unique, templates, entries, room = need.shape
    words = -(-entries // _WORD)
    sets = np.zeros((templates, ranked.shape[2], room, _THRESHOLDS, words, unique), np.uint32)
    u, t = np.indices((unique, templates))
    for w in range(ranked.shape[2]):
        for place in range(entries):
            mapping = ranked[:, :, w, place]
            there = valid[u, t, mapping]
            bit = np.where(there, np.uint32(1) << np.uint32(place % _WORD), 0).astype(np.uint32)
            for c in range(room):
                sets[t, w, c, need[u, t, mapping, c], place // _WORD, u] |= bit
    # What does not pass a threshold does not pass a higher one.
    return np.bitwise_or.accumulate(sets, axis=3)


def _library(need: np.ndarray, scores: list[np.ndarray], area: np.ndarray) -> np.ndarray:
    """`[T, H, C]` int32: per cap and weight the least size on which all layers have their best mapping under the cap.

    Caps are spread evenly on a log axis, from the least hardware that any layer needs at all to the largest mapping.
    The last two sizes are the least that is known to hold all layers (`_least_sizes`), and the largest.
    """
    least = area.min(axis=2)
    runs = np.isfinite(least)
    low, high = np.where(runs, least, np.inf).min(axis=1).max(), area[np.isfinite(area)].max()
    rows = []
    for cap in size_caps(area[np.isfinite(area)], low, high, _CAPS):
        for score in scores:
            allowed = np.where(area <= cap, score, np.inf)
            best = np.take_along_axis(need, allowed.argmin(axis=2)[..., None, None], axis=2)[:, :, 0]
            rows.append(np.where(np.isfinite(allowed.min(axis=2))[..., None], best, 0).max(axis=0))
    largest = np.where(np.isfinite(area)[..., None], need, 0).max(axis=(0, 2))
    return np.stack([*rows, _least_sizes(need, area), largest], axis=1)


def _least_sizes(need: np.ndarray, area: np.ndarray) -> np.ndarray:
    """`[T, C]` int32: of each template the hardware of that mapping of least area on which all its layers fit.

    No chiplet of the template can be smaller than the least area of its most demanding layer; where that layer's
    smallest mapping holds the others, this is it. 0 where no mapping tried does: layers then take their smallest
    mappings, and the chiplet grows.
    """
    exists = np.isfinite(area)
    sizes = np.zeros((need.shape[1], need.shape[3]), np.int32)
    for t in range(need.shape[1]):
        layers = exists[:, t].any(axis=1)
        if not layers.any():
            continue
        own = np.where(exists[layers, t, :, None], need[layers, t], _THRESHOLDS)  # [U, M, C]
        candidates = own[exists[layers, t]]
        candidates = candidates[np.argsort(area[layers, t][exists[layers, t]], kind="stable")]
        # A layer needs of every component what the least demanding of its mappings needs.
        possible = candidates[(candidates >= own.min(axis=1).max(axis=0)).all(axis=1)]
        for size in possible[:_TRIED]:
            if (own <= size).all(axis=2).any(axis=1).all():
                sizes[t] = size
                break
    return sizes


# ---------------------------------------------------------------- decoding


def fitting(template: jax.Array, size: jax.Array, weight: jax.Array, tables: PlanTables) -> tuple[jax.Array, jax.Array]:
    """The best mapping of every unique layer on every tile among those that fit.

    Args:
        template: `[S]` int32, at least 0.
        size: `[S, C]` int32, thresholds.
        weight: `[S]` int32.
        tables: sets of mappings.

    Returns:
        `[S, U]` int32 mappings, the smallest where none fits, and `[S, U]` bool, whether one does.
    """
    component = jnp.arange(size.shape[1])
    sets = tables.fits[template[:, None], weight[:, None], component, size]  # [S, C, B, U]
    both = jnp.bitwise_and.reduce(sets, axis=1)
    place = jnp.full(both[:, 0].shape, -1, jnp.int32)
    for b in reversed(range(both.shape[1])):
        word = both[:, b]
        lowest = jax.lax.population_count((word & (~word + 1)) - 1).astype(jnp.int32)
        place = jnp.where(word != 0, lowest + _WORD * b, place)
    found = place >= 0
    unique = jnp.arange(place.shape[1])
    best = tables.ranked[template[:, None], weight[:, None], jnp.maximum(place, 0), unique]
    return jnp.where(found, best, tables.smallest[template]), found


def sized(plan: Plan, tables: PlanTables) -> Plan:
    """The plan with the size of its template in the place of every `LEAST`."""
    least = tables.library[jnp.maximum(plan.template, 0), -2]
    return dataclasses.replace(plan, size=jnp.where(plan.size == LEAST, least, plan.size))


def decode(plans: Plan, genetics: Genetics, tables: PlanTables) -> Planned:
    """The designs that plans mean, and the plans with the sizes that their chiplets came to have.

    Args:
        plans: plans `[N, ...]` under which every layer has a chiplet that may run it (`plan_operators.completed`).
        genetics: the problem.
        tables: sets of mappings.

    Returns:
        Valid designs `[N, ...]`, and the plans without chiplets that run nothing, each size as small as the layers
        leave it.
    """
    one = functools.partial(jax.vmap, in_axes=(0, None, None))
    mapping, times, costs = one(_durations)(plans, genetics, tables)
    order = by_upward_rank(times, genetics.kinds.of_layer, genetics)
    assignment = placed(order, times, costs, genetics.kinds.of_layer, genetics)
    return jax.vmap(_settled, in_axes=(0, 0, 0, 0, None, None))(plans, mapping, order, assignment, genetics, tables)


def _durations(plan: Plan, genetics: Genetics, tables: PlanTables) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of one plan the best fitting mappings `[S, U]`; of all kinds of layers durations and costs of energy, `[Q, S]`.

    Durations are infinite where a layer may not run.
    """
    kinds = genetics.kinds
    template = jnp.maximum(plan.template, 0)
    mapping, found = fitting(template, plan.size, plan.weight, tables)
    unique = jnp.arange(mapping.shape[1])
    time, energy = (column[template[:, None], mapping, unique] for column in (tables.time, tables.log_energy))
    tiles = jnp.arange(template.shape[0], dtype=jnp.int32)
    runs = jnp.where(plan.template >= 0, kinds.able[:, template], False)
    runs &= (kinds.pin < 0)[:, None] | (kinds.pin[:, None] == tiles)
    fits = runs & found.T[kinds.unique]
    # A layer that fits nowhere goes where it can run at all, and the chiplet grows.
    possible = jnp.where(jnp.any(fits, axis=1, keepdims=True), fits, runs)
    times = jnp.where(possible, time.T[kinds.unique], jnp.inf)
    costs = energy.T[kinds.unique] * tables.thrift[plan.thrift]
    return mapping, times, jnp.where(jnp.isfinite(times), costs, 0.0)


def _settled(
    plan: Plan, mapping: jax.Array, order: jax.Array, assignment: jax.Array, genetics: Genetics, tables: PlanTables
) -> Planned:
    """One plan and its design, chiplets shrunk to what their layers use, and layers on the best that fits them."""
    template = jnp.maximum(plan.template, 0)
    real = jnp.arange(order.shape[0]) < genetics.layers

    def design_on(mapping: jax.Array) -> Design:
        of_layer = jnp.where(real, mapping[assignment, genetics.unique], 0)
        return Design(order=order, assignment=assignment, mapping=of_layer, template=plan.template)

    size = used_sizes(design_on(mapping), genetics, tables)
    used = size[:, 0] >= 0
    size = jnp.where(used[:, None], size, plan.size)
    # Where a chiplet grew, its other layers may do better on it.
    design = design_on(fitting(template, size, plan.weight, tables)[0])
    design = dataclasses.replace(design, template=jnp.where(used | (genetics.site >= 0), plan.template, -1))
    return Planned(plan=dataclasses.replace(plan, template=design.template, size=size), design=design)


def plan_of(design: Design, genetics: Genetics, tables: PlanTables) -> Planned:
    """A plan for a design that came from elsewhere: its chiplets with their sizes, middling weights.

    Args:
        design: a valid design; it stays as it is.
        genetics: the problem.
        tables: sets of mappings.
    """
    size = used_sizes(design, genetics, tables)
    middle = jnp.full(design.template.shape, len(WEIGHTS) // 2, jnp.int32)
    plan = Plan(template=design.template, size=jnp.maximum(size, 0), weight=middle, thrift=jnp.int32(len(THRIFT) // 2))
    return Planned(plan=plan, design=design)


def refit(design: Design, weight: jax.typing.ArrayLike, genetics: Genetics, tables: PlanTables) -> Design:
    """The design with every layer on the best mapping that fits its chiplet as it stands; nothing else changes.

    Where a component has more values than thresholds (`PlanTables`), a chiplet may grow by less than the next one.

    Args:
        design: a valid design.
        weight: `[]` or `[S]` int32 in 0..W-1, by which score mappings are chosen.
        genetics: the problem.
        tables: sets of mappings.
    """
    size = jnp.maximum(used_sizes(design, genetics, tables), 0)
    weights = jnp.broadcast_to(jnp.asarray(weight, jnp.int32), design.template.shape)
    best, _ = fitting(jnp.maximum(design.template, 0), size, weights, tables)
    real = jnp.arange(design.order.shape[0]) < genetics.layers
    mapping = jnp.where(real, best[design.assignment, genetics.unique], design.mapping)
    return dataclasses.replace(design, mapping=mapping)


def used_sizes(design: Design, genetics: Genetics, tables: PlanTables) -> jax.Array:
    """`[S, C]` int32, the least size of each chiplet that its layers' mappings do not pass, -1 where it has none."""
    tiles = design.template.shape[0]
    real = jnp.arange(design.order.shape[0]) < genetics.layers
    need = tables.need[jnp.maximum(design.template, 0)[design.assignment], design.mapping, genetics.unique]
    owner = jnp.where(real, design.assignment, tiles)
    return jnp.full((tiles, need.shape[1]), -1, jnp.int32).at[owner].max(need, mode="drop")


# Loops over layers keep plans on the last axis: XLA makes faster code of it than of a batch axis in front.


def by_upward_rank(times: jax.Array, rows: jax.Array, genetics: Genetics) -> jax.Array:
    """`[N, L]` int32, layers by falling longest remaining path of mean durations; padded ones last.

    With deadlines (`Genetics.urgency`) by the latest start that keeps them: deadline less remaining path. Where there
    are several application models (`Genetics.model`), the layers of one come after those of another.

    Args:
        times: `[N, Q, S]` float, inf where a layer may not run.
        rows: `[L]` int32, row of `times` of each layer.
        genetics: the problem.
    """
    possible = jnp.isfinite(times)
    mean = jnp.sum(jnp.where(possible, times, 0.0), axis=2) / jnp.maximum(jnp.sum(possible, axis=2), 1)
    layers = jnp.arange(rows.shape[0], dtype=jnp.int32)

    def longest(rank: jax.Array, at: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        layer, after, mean = at
        rest = jnp.max(jnp.where((after >= 0)[:, None], rank[after], 0.0), axis=0, initial=0.0)
        return jax.lax.dynamic_update_index_in_dim(rank, mean + rest, layer, 0), None

    # Layers are numbered in a topological order; equal ranks (time lost in rounding) keep it, as the sort is stable.
    mean = mean.T[rows]
    rank, _ = jax.lax.scan(longest, jnp.zeros_like(mean), (layers, genetics.successors, mean), reverse=True)
    last = 1.0
    if genetics.urgency is not None:
        rank, last = rank + genetics.urgency[:, None], jnp.inf
    order = side_by_side_argsort(jnp.where((layers < genetics.layers)[:, None], -rank, last)).T
    if genetics.model is None:
        return order
    return jnp.take_along_axis(order, jnp.argsort(genetics.model[order], axis=1, stable=True), axis=1)


def placed(order: jax.Array, times: jax.Array, costs: jax.Array, rows: jax.Array, genetics: Genetics) -> jax.Array:
    """`[N, L]` int32, tile of each layer: in order, each where log finish time + cost is least.

    Every application model finds all chiplets free (`Genetics.model`). A layer that may run nowhere has tile 0, and so
    have those that wait for it; they take no time from others.

    Args:
        order: `[N, L]` int32, of `by_upward_rank`.
        times: `[N, Q, S]` float, inf where a layer may not run.
        costs: `[N, Q, S]` float, finite.
        rows: `[L]` int32, row of `times` of each layer.
        genetics: the problem.
    """
    (plans, layers), tiles = order.shape, times.shape[2]
    index, lane = jnp.arange(layers, dtype=jnp.int32), jnp.arange(plans, dtype=jnp.int32)
    tile_of = jnp.broadcast_to(jnp.arange(tiles, dtype=jnp.int32)[:, None], (tiles, plans))
    # The last end is 0, for padding.
    before = jnp.where(genetics.predecessors >= 0, genetics.predecessors, layers)

    def put(
        carry: tuple[jax.Array, jax.Array], at: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        free, end = carry  # [S, N], [L + 1, N]
        layer, times, costs, *begins = at
        if begins:
            free = jnp.where(begins[0], 0.0, free)
        finish = jnp.maximum(free, jnp.max(end[before[layer].T, lane], axis=0)) + times
        tile, least = by_platform(jnp.log(finish) + costs, finish, tile_of, cpu=_least_of_columns, wide=_least_at_once)
        free = jnp.where(tile_of == tile, least, free)
        return (free, end.at[layer, lane].set(least, unique_indices=True)), tile

    start = jnp.zeros((tiles, plans), times.dtype), jnp.zeros((layers + 1, plans), times.dtype)
    # Rows in order; indices are what they say.
    own = rows[order]
    taken = [x.at[lane[:, None], own].get(mode="promise_in_bounds") for x in (times, costs)]
    ordered = [order.T, *(jnp.moveaxis(x, 0, -1) for x in taken)]
    if genetics.model is not None:
        ordered.append(jnp.diff(genetics.model, prepend=genetics.model[:1]) != 0)
    _, tile = jax.lax.scan(put, start, tuple(ordered))
    chosen = jnp.zeros_like(order).at[lane[:, None], order].set(tile.T, unique_indices=True)
    return jnp.where((index < genetics.layers) & (chosen < tiles), chosen, 0)


def _least_of_columns(score: jax.Array, finish: jax.Array, tile_of: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Per column of `[S, N]`, without NaN, the first tile of least score and its finish; S and inf where all are inf.

    One number after the other: a processor does not take several numbers side by side in one reduction.
    """
    best = jnp.min(score, axis=0)
    first = jnp.min(jnp.where(score == best, tile_of, score.shape[0]), axis=0)
    tile = jnp.where(best < jnp.inf, first, score.shape[0])
    return tile, jnp.min(jnp.where(tile_of == tile, finish, jnp.inf), axis=0)


def _least_at_once(score: jax.Array, finish: jax.Array, tile_of: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `_least_of_columns`, in one reduction, which is one kernel."""
    never = jnp.asarray(jnp.inf, score.dtype)

    def better(a: tuple[jax.Array, ...], b: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        less = (b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return tuple(jnp.where(less, y, x) for x, y in zip(a, b, strict=True))

    best, tile, least = jax.lax.reduce(
        (score, tile_of, finish), (never, jnp.int32(score.shape[0]), never), better, (0,)
    )
    return jnp.where(best < jnp.inf, tile, score.shape[0]), least
