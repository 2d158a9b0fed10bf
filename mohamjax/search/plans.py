"""Plans: few genes that describe hardware, and the list scheduler that makes a design of them.

A plan states which chiplets there are, how large each may be, and how its mappings weigh time against energy;
everything else follows. On every chiplet each layer has the best mapping that fits the chiplet as it stands, in each
capacity and each fanout. Layers are taken by upward rank (HEFT: Topcuoglu, Hariri, Wu, 2002), or with deadlines by the
latest start that keeps them, and go to the chiplet of least finish time x energy^thrift. A chiplet then shrinks to what
its layers use, so no layer of a decoded design has a better mapping, under its chiplet's weight, that would fit.

The best mapping that fits a chiplet is found by sets of bits (`problem.plan_tables`).

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

from mohamjax.problem.plan_tables import LEAST, THRIFT, WEIGHTS, WORD, PlanTables
from mohamjax.problem.space import Genetics
from mohamjax.runtime.blocks import side_by_side_argsort
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.programs import jit_o0_plain_loops
from mohamjax.runtime.struct import record
from mohamjax.schedule import Design


@record
class Plan:
    """The genes of a plan.

    Attributes:
        template: `[S]` int32, template on each tile, -1 where the tile is empty.
        size: `[S, C]` int32 in 0..R-1, threshold of each component that mappings on the tile must not exceed, except
            for layers that fit no chiplet. Or `LEAST`, until the plan is `sized`: the least size that holds all layers
            on the template that the tile will have.
        weight: `[S]` int32 in 0..W-1, index of the weight of the score by which the tile's layers choose mappings.
        thrift: `[]` int32 in 0..K-1, index of the exponent of energy when layers are placed.
    """

    template: jax.Array
    size: jax.Array
    weight: jax.Array
    thrift: jax.Array


@record
class Planned:
    """An individual: a plan, and the design made from it."""

    plan: Plan
    design: Design


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
        place = jnp.where(word != 0, lowest + WORD * b, place)
    found = place >= 0
    unique = jnp.arange(place.shape[1])
    best = tables.ranked[template[:, None], weight[:, None], jnp.maximum(place, 0), unique]
    return jnp.where(found, best, tables.smallest[template]), found


def sized(plan: Plan, tables: PlanTables) -> Plan:
    """The plan with every `LEAST` replaced by the least size of the tile's template."""
    least = tables.library[jnp.maximum(plan.template, 0), -2]
    return dataclasses.replace(plan, size=jnp.where(plan.size == LEAST, least, plan.size))


def decode(plans: Plan, genetics: Genetics, tables: PlanTables) -> Planned:
    """The designs of plans, and the plans with the sizes that their chiplets have in the designs.

    Args:
        plans: plans `[N, ...]` under which every layer has a chiplet that may run it (`plan_operators.completed`).
        genetics: the problem.
        tables: sets of mappings.

    Returns:
        Valid designs `[N, ...]`, and their plans, without chiplets that run nothing and with sizes as small as the
        layers allowed before mappings were chosen again for these chiplets.
    """
    one = functools.partial(jax.vmap, in_axes=(0, None, None))
    mapping, times, costs = one(_durations)(plans, genetics, tables)
    order = by_upward_rank(times, genetics.kinds.of_layer, genetics)
    assignment = placed(order, times, costs, genetics.kinds.of_layer, genetics)
    return jax.vmap(_settled, in_axes=(0, 0, 0, 0, None, None))(plans, mapping, order, assignment, genetics, tables)


def _durations(plan: Plan, genetics: Genetics, tables: PlanTables) -> tuple[jax.Array, jax.Array, jax.Array]:
    """For one plan, the best fitting mappings `[S, U]`, and the durations and energy costs of kinds of layers `[Q, S]`.

    Durations [cycles] are infinite where a layer may not run. Costs are thrift x log energy.
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
    """One plan and its design: chiplets shrink to what their layers use, and layers take the best mapping that fits."""
    template = jnp.maximum(plan.template, 0)
    real = genetics.real

    def design_on(mapping: jax.Array) -> Design:
        of_layer = jnp.where(real, mapping[assignment, genetics.unique], 0)
        return Design(order=order, assignment=assignment, mapping=of_layer, template=plan.template)

    size = used_sizes(design_on(mapping), genetics, tables)
    used = size[:, 0] >= 0
    size = jnp.where(used[:, None], size, plan.size)
    # Where a chiplet grew, its other layers may do better on it.
    design = design_on(fitting(template, size, plan.weight, tables)[0])
    design = dataclasses.replace(design, template=jnp.where(used | (genetics.on_tile >= 0), plan.template, -1))
    return Planned(plan=dataclasses.replace(plan, template=design.template, size=size), design=design)


def plan_of(design: Design, genetics: Genetics, tables: PlanTables) -> Planned:
    """An individual of a design that no plan made: the plan has its chiplets with their sizes, and middle weights.

    Args:
        design: a valid design; it stays as it is.
        genetics: the problem.
        tables: sets of mappings.
    """
    size = used_sizes(design, genetics, tables)
    middle = jnp.full(design.template.shape, len(WEIGHTS) // 2, jnp.int32)
    plan = Plan(template=design.template, size=jnp.maximum(size, 0), weight=middle, thrift=jnp.int32(len(THRIFT) // 2))
    return Planned(plan=plan, design=design)


@jit_o0_plain_loops
def plans_of(designs: Design, genetics: Genetics, tables: PlanTables) -> Planned:
    """`plan_of` of each design `[N, ...]`; jitted."""
    return jax.vmap(plan_of, in_axes=(0, None, None))(designs, genetics, tables)


def refit(design: Design, weight: jax.typing.ArrayLike, genetics: Genetics, tables: PlanTables) -> Design:
    """The design with every layer on the best mapping that fits its chiplet as it stands; nothing else changes.

    Where a component has more values than thresholds (`PlanTables`), a chiplet may grow by less than one threshold.

    Args:
        design: a valid design.
        weight: `[]` or `[S]` int32 in 0..W-1, weight of the score by which mappings are chosen.
        genetics: the problem.
        tables: sets of mappings.
    """
    size = jnp.maximum(used_sizes(design, genetics, tables), 0)
    weights = jnp.broadcast_to(jnp.asarray(weight, jnp.int32), design.template.shape)
    best, _ = fitting(jnp.maximum(design.template, 0), size, weights, tables)
    real = genetics.real
    mapping = jnp.where(real, best[design.assignment, genetics.unique], design.mapping)
    return dataclasses.replace(design, mapping=mapping)


def used_sizes(design: Design, genetics: Genetics, tables: PlanTables) -> jax.Array:
    """`[S, C]` int32, the least size of each chiplet that holds its layers' mappings; -1 where it has no layers."""
    tiles = design.template.shape[0]
    real = genetics.real
    need = tables.need[jnp.maximum(design.template, 0)[design.assignment], design.mapping, genetics.unique]
    owner = jnp.where(real, design.assignment, tiles)
    return jnp.full((tiles, need.shape[1]), -1, jnp.int32).at[owner].max(need, mode="drop")


# Loops over layers have plans on the last axis, for which XLA makes faster code than for a batch axis in front.


def by_upward_rank(times: jax.Array, rows: jax.Array, genetics: Genetics) -> jax.Array:
    """`[N, L]` int32, layers by falling longest remaining path of mean durations; padded ones last.

    With deadlines (`Genetics.urgency`), by the latest start that keeps them: deadline minus remaining path. The layers
    of several application models (`Genetics.model`) come one model after the other.

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

    # Layers are numbered in a topological order; the stable sort keeps it where rounding makes ranks equal.
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
    """`[N, L]` int32, tile of each layer: placed in order, each where log finish time + cost is least.

    All chiplets are free at the start of every application model (`Genetics.model`). A layer that may run nowhere, and
    those that wait for it, get tile 0 and take no time from others.

    Args:
        order: `[N, L]` int32, from `by_upward_rank`.
        times: `[N, Q, S]` float, inf where a layer may not run.
        costs: `[N, Q, S]` float, finite.
        rows: `[L]` int32, row of `times` of each layer.
        genetics: the problem.
    """
    (plans, layers), tiles = order.shape, times.shape[2]
    index, lane = jnp.arange(layers, dtype=jnp.int32), jnp.arange(plans, dtype=jnp.int32)
    tile_of = jnp.broadcast_to(jnp.arange(tiles, dtype=jnp.int32)[:, None], (tiles, plans))
    # The extra last end stays 0, for padded predecessors.
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
    # Rows of `times` and `costs` in the order of placement; indices are in bounds.
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

    Uses one reduction per array: on a CPU, a reduction over several arrays at once is not vectorised.
    """
    best = jnp.min(score, axis=0)
    first = jnp.min(jnp.where(score == best, tile_of, score.shape[0]), axis=0)
    tile = jnp.where(best < jnp.inf, first, score.shape[0])
    return tile, jnp.min(jnp.where(tile_of == tile, finish, jnp.inf), axis=0)


def _least_at_once(score: jax.Array, finish: jax.Array, tile_of: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As `_least_of_columns`, in one reduction, which is a single kernel on an accelerator."""
    never = jnp.asarray(jnp.inf, score.dtype)

    def better(a: tuple[jax.Array, ...], b: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        less = (b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return tuple(jnp.where(less, y, x) for x, y in zip(a, b, strict=True))

    best, tile, least = jax.lax.reduce(
        (score, tile_of, finish), (never, jnp.int32(score.shape[0]), never), better, (0,)
    )
    return jnp.where(best < jnp.inf, tile, score.shape[0]), least
