"""MOHaM: how a generation of designs is varied and evaluated (MOHaM, Sections V-B and V-C).

Makes the `Problem` that the generation loop of `emo.loop` runs, from the operators of `search.operators` and
`search.plan_operators` and the evaluation of `schedule.design`.

Individuals of a search of plans begin as drafts, which hold what is drawn for each of them separately. The costly rest,
decoding plans and changing single layers of parents, is done for all individuals of a generation at once, in one place
of its program.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

import jax
import jax.custom_batching
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.emo.loop import Problem
from mohamjax.problem.resolved import LIMIT_TOLERANCE
from mohamjax.problem.space import DesignSpace, Genetics
from mohamjax.runtime.blocks import DESIGNS, in_blocks, in_fitting_blocks
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record, select, take
from mohamjax.schedule import Chiplets, Design, TenantReport, report
from mohamjax.schedule.chiplet_measures import extremes
from mohamjax.schedule.ensemble import model_reports, over_models
from mohamjax.schedule.measures import DEFAULT, Kind, kinds_of, measured
from mohamjax.schedule.own_measures import Limit, excess_over
from mohamjax.schedule.tenants import tenant_excess
from mohamjax.search import instances, operators
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.instances import Instances, placed
from mohamjax.search.plan_operators import (
    PlanRates,
    adjusting_share,
    adjustment,
    completed,
    crossover,
    drawn_plan,
    mutated,
)
from mohamjax.search.plans import Plan, Planned, decode, sized

_ADJUSTED = 32  # designs that a CPU adjusts at a time: by default, 7 of 256 are adjusted

# ---------------------------------------------------------------- variation in a search of layers


Layered = TypeVar("Layered", Design, Instances)
"""An individual of a search of layers."""

_MOVES: dict[str, Any] = {"layers": operators, "instances": instances}
"""The module of operators for each kind of genes; their functions have the same names."""


def _vary(
    key: jax.Array,
    a: Layered,
    b: Layered,
    space: DesignSpace,
    rates: Rates,
    *,
    genes: str,
    per_layer: bool,
    projects: bool,
) -> tuple[Layered, Layered]:
    """The two children of a pair: crossovers, then the mutations of each child, each with its probability."""
    genetics, moves = space.genetics, _MOVES[genes]
    cross_key, mutate_key = jax.random.split(key)
    crossovers = (
        (moves.scheduling_crossover, rates.scheduling_crossover),
        (moves.mapping_crossover, rates.mapping_crossover),
        (moves.sa_crossover, rates.sa_crossover),
    )
    for subkey, (operator, rate) in zip(jax.random.split(cross_key, len(crossovers)), crossovers, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        crossed = operator(use_key, a, b, genetics)
        a, b = select(jax.random.bernoulli(coin_key, rate), crossed, (a, b))
    # Both children in one batch, so that the mutations are compiled once.
    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), a, b)
    mutate = functools.partial(_mutate, genetics=genetics, rates=rates, genes=genes, per_layer=per_layer)
    both = jax.vmap(mutate)(jax.random.split(mutate_key), both)
    if projects:
        both = jax.vmap(functools.partial(moves.conform, genetics=genetics))(both)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))
    return first, second


def _mutate(
    key: jax.Array, design: Layered, genetics: Genetics, rates: Rates, *, genes: str, per_layer: bool
) -> Layered:
    """All mutations of one individual, each with its probability."""
    moves = _MOVES[genes]
    once = [
        (moves.splitting_mutation, rates.splitting_mutation),
        (moves.merging_mutation, rates.merging_mutation),
        (moves.template_mutation, rates.template_mutation),
        (moves.position_mutation, rates.position_mutation),
        (moves.opening_mutation, rates.opening_mutation),
        (moves.resizing_mutation, rates.resizing_mutation),
    ]
    if not per_layer:
        once += [
            (moves.scheduling_mutation, rates.scheduling_mutation),
            (moves.mapping_mutation, rates.mapping_mutation),
            (moves.assignment_mutation, rates.assignment_mutation),
        ]
    once_key, swap_key, mapping_key, tile_key = jax.random.split(key, 4)
    for subkey, (operator, rate) in zip(jax.random.split(once_key, len(once)), once, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        changed = operator(use_key, design, genetics)
        design = select(jax.random.bernoulli(coin_key, rate), changed, design)
    if per_layer:

        def of_layer(rate: jax.typing.ArrayLike) -> jax.Array:
            return jnp.where(jnp.asarray(rate) > 0, jnp.maximum(rate, rates.least_layers / genetics.layers), 0.0)

        design = _swaps(swap_key, design, genetics, of_layer(rates.scheduling_mutation), genes)
        coin_key, use_key = jax.random.split(mapping_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.mapping_mutation), design.order.shape)
        design = moves.mapping_mutation(use_key, design, genetics, chosen)
        coin_key, use_key = jax.random.split(tile_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.assignment_mutation), design.order.shape)
        design = moves.assignment_mutation(use_key, design, genetics, chosen)
    return design


def _swaps(key: jax.Array, design: Layered, genetics: Genetics, rate: jax.typing.ArrayLike, genes: str) -> Layered:
    """Scheduling mutation at a rate per layer: draws layers, and makes as many swaps one after the other."""
    count_key, swap_key = jax.random.split(key)
    drawn = jax.random.bernoulli(count_key, rate, design.order.shape)
    number = jnp.sum(drawn & genetics.real)

    def swap(i: jax.Array, current: Layered) -> Layered:
        return _MOVES[genes].scheduling_mutation(jax.random.fold_in(swap_key, i), current, genetics)

    return jax.lax.fori_loop(0, number, swap, design)


# ---------------------------------------------------------------- variation in a search of plans


@record
class Draft:
    """An individual that is yet to be grown.

    Attributes:
        plan: a plan, not completed.
        parent: individual whose single layers change, where `adjusts`.
        key: typed key of these changes.
        adjusts: `[]` bool, whether the individual becomes the changed parent, instead of the decoded plan.
    """

    plan: Plan
    parent: Planned
    key: jax.Array
    adjusts: jax.Array


def draft_plan(key: jax.Array, space: DesignSpace) -> Draft:
    """The draft of a random individual; the key is consumed."""
    plan = drawn_plan(key, space.genetics, space.plans)
    zeros = jnp.zeros_like(space.genetics.unique)
    design = Design(order=zeros, assignment=zeros, mapping=zeros, template=plan.template)
    return Draft(plan=plan, parent=Planned(plan=plan, design=design), key=key, adjusts=jnp.bool_(False))


def vary_plans(key: jax.Array, a: Planned, b: Planned, space: DesignSpace, rates: PlanRates) -> tuple[Draft, Draft]:
    """Drafts of the two children of a pair: new plans by crossover and mutation, or parents that are to be adjusted.

    Args:
        key: typed key, consumed.
        a: a parent.
        b: the other parent.
        space: the problem.
        rates: how often plans change.
    """
    genetics, tables = space.genetics, space.plans
    cross_key, child_key = jax.random.split(key)
    # Both children in one batch, so that the rest is compiled once.
    parents = jax.tree.map(lambda *x: jnp.stack(x), a, b)
    plans = jax.tree.map(lambda *x: jnp.stack(x), *crossover(cross_key, a.plan, b.plan, rates.crossover))

    def child(key: jax.Array, parent: Planned, plan: Plan) -> Draft:
        coin_key, mutate_key, adjust_key = jax.random.split(key, 3)
        return Draft(
            plan=mutated(mutate_key, plan, tables, rates),
            parent=parent,
            key=adjust_key,
            adjusts=jax.random.bernoulli(coin_key, adjusting_share(rates, genetics)),
        )

    both = jax.vmap(child)(jax.random.split(child_key), parents, plans)
    return take(both, 0), take(both, 1)


def grow_plans(drafts: Draft, space: DesignSpace, rates: PlanRates | None = None) -> Planned:
    """Individuals `[N, ...]` from drafts: decoded plans, or parents with single layers changed.

    Args:
        drafts: `[N, ...]`.
        space: the problem.
        rates: how often layers change; None for random individuals, none of which `adjusts`.
    """
    if rates is None:
        return in_fitting_blocks(lambda plans: _decoded(plans, space), drafts.plan, DESIGNS)
    return by_platform(drafts, space, rates, cpu=_grown_in_blocks, wide=_grown_at_once)


def _decoded(plans: Plan, space: DesignSpace) -> Planned:
    genetics = space.genetics
    whole = jax.vmap(lambda plan: sized(completed(plan, genetics), space.plans))(plans)
    return decode(whole, genetics, space.plans)


def _adjusted(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    def one(draft: Draft) -> Planned:
        return adjustment(draft.key, draft.parent, space.genetics, space.plans, rates)

    return jax.vmap(one)(drafts)


def _chosen(drafts: Draft, adjusted: Planned, decoded: Planned) -> Planned:
    def where(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(drafts.adjusts.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(where, adjusted, decoded)


def _grown_at_once(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    return _chosen(drafts, _adjusted(drafts, space, rates), _decoded(drafts.plan, space))


@jax.custom_batching.sequential_vmap
def _grown_in_blocks(drafts: Draft, space: DesignSpace, rates: PlanRates) -> Planned:
    """As `_grown_at_once`, in blocks: drafts that adjust come first, and a block of these alone decodes no plans.

    Islands are grown one after the other: side by side, every block would have to do both.
    """

    def decoded(drafts: Draft) -> Planned:
        def skip(drafts: Draft) -> Planned:
            return drafts.parent

        return jax.lax.cond(jnp.all(drafts.adjusts), skip, lambda drafts: _decoded(drafts.plan, space), drafts)

    order = jnp.argsort(~drafts.adjusts, stable=True)
    drafts = take(drafts, order)
    number = drafts.adjusts.shape[0]
    width = min(_ADJUSTED, number)

    def adjust(carry: tuple[jax.Array, Planned]) -> tuple[jax.Array, Planned]:
        done, kept = carry
        first = jnp.minimum(done, number - width)
        made = _adjusted(take(drafts, first + jnp.arange(width)), space, rates)
        put = functools.partial(jax.lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
        return done + width, jax.tree.map(put, kept, made)

    some = jnp.sum(drafts.adjusts, dtype=jnp.int32)
    _, adjusted = jax.lax.while_loop(lambda carry: carry[0] < some, adjust, (jnp.int32(0), drafts.parent))
    whole = _chosen(drafts, adjusted, in_blocks(decoded, drafts, DESIGNS))
    return take(whole, jnp.argsort(order))


# ---------------------------------------------------------------- the problem that the loop searches


def log_hypervolume(objectives: jax.Array, space: DesignSpace) -> jax.Array:
    """Share of the box between the ideal and reference points that a front dominates, on log axes.

    Args:
        objectives: `[N, M]` float, with the offsets of `schedule.measures`; rows of +inf are ignored.
        space: gives the two points.

    Returns:
        `[]` float in [0, 1].
    """
    low, high = jnp.log(space.ideal), jnp.log(space.reference)
    scaled = (jnp.log(emo.positive(objectives)) - low) / (high - low)
    return emo.hypervolume(jnp.maximum(scaled, 0.0), jnp.ones(space.reference.shape, scaled.dtype))


def violation(
    objectives: jax.Array,
    design: Design,
    space: DesignSpace,
    users: TenantReport | None = None,
    chiplets: Chiplets | None = None,
) -> jax.Array:
    """By how much a design breaks the user's limits, `[]` float, 0 where it keeps them all.

    The sum of the logarithms of the factors by which limits are exceeded, and of the number of chiplets too few or too
    many. An excess that single precision cannot tell from none (a hundred-thousandth) does not count.

    Args:
        objectives: `[3]` float; `[A, 3]` for several application models, each of which must keep the limits.
        design: the design.
        space: the problem.
        users: what the users of the networks get, for limits on that (`schedule.tenants.tenant_excess`).
        chiplets: of the design, for limits on each (`schedule.chiplet_measures`).
    """
    reached = jnp.append(objectives, objectives[..., 1:2] / objectives[..., :1], axis=-1)
    reached = reached if reached.ndim == 1 else jnp.max(reached, axis=0)
    over = jnp.maximum(jnp.log(reached / space.limits) - LIMIT_TOLERANCE, 0.0)
    counts = jnp.zeros(space.most.shape, jnp.int32).at[design.template].add(design.template >= 0)
    counts = counts.at[-1].set(jnp.sum(design.template >= 0))
    wrong = jnp.maximum(counts - space.most, 0) + jnp.maximum(space.least - counts, 0)
    excess = jnp.sum(over) + jnp.sum(wrong).astype(over.dtype)
    if chiplets is not None and space.chiplet_limits is not None:
        most, least = space.chiplet_limits
        largest, smallest = map(jnp.asarray, extremes(chiplets))
        factors = jnp.stack([largest / most, least / smallest])
        excess += jnp.sum(jnp.maximum(jnp.log(factors) - LIMIT_TOLERANCE, 0.0))
    if users is None or space.tenant_limits is None or space.evaluation.tenants is None:
        return excess
    return excess + jnp.sum(tenant_excess(users, space.evaluation.tenants, space.tenant_limits, LIMIT_TOLERANCE))


def _fitness(objectives: jax.Array, space: DesignSpace, *, scalar: bool, log: bool) -> jax.Array:
    """What selection minimises, `[..., M]`, or `[..., 1]` if `scalar`: see `MohamConfig.objective` and `scale`."""
    if scalar:
        values = jnp.sum(space.weights * jnp.log(emo.positive(objectives)), axis=-1, keepdims=True)
    else:
        values = jnp.log(emo.positive(objectives)) if log else objectives
    # Where a limit is broken, the objectives hold the penalty.
    return jnp.where(emo.feasible(objectives)[..., None], values, objectives[..., : values.shape[-1]])


def _box(space: DesignSpace) -> tuple[jax.Array, jax.Array]:
    """Ideal and reference point of the box in which the search's hypervolume is measured."""
    return space.ideal, space.reference


def _exponents(space: DesignSpace) -> jax.Array:
    """Exponents of the objectives in the product that the search minimises."""
    return space.weights


def designs_of(genes: Any) -> Design:
    """The designs of individuals of any kind of genes; for any leading axes."""
    if isinstance(genes, Instances):
        return placed(genes)
    return genes.design if isinstance(genes, Planned) else genes


def _sample_layers(key: jax.Array, space: DesignSpace, *, genes: str, projects: bool) -> Design | Instances:
    """A random individual of a search of layers."""
    moves = _MOVES[genes]
    drawn = moves.sample(key, space.genetics, space.genetics.on_tile.shape[0])
    return moves.conform(drawn, space.genetics) if projects else drawn


@functools.cache
def _problem(
    genes: str,
    per_layer: bool,
    scalar: bool,
    log: bool,
    projects: bool,
    kinds: tuple[Kind, ...],
    survival: str,
    limits: tuple[Limit, ...],
) -> Problem:
    by_volume = survival == "hypervolume"

    def evaluate_one(individual: Design | Instances | Planned, space: DesignSpace) -> jax.Array:
        design = designs_of(individual)
        if space.models is not None:
            reports = model_reports(design, space.evaluation, space.models)
            each, chips = reports.objectives, take(reports.chiplets, 0)
            return emo.constrained(over_models(each, space.models), violation(each, design, space, None, chips))
        found = report(design, space.evaluation)
        values = found.objectives
        if kinds != DEFAULT:
            assert space.measures is not None
            own = space.measures
            values = measured(found, kinds, own.network, space.evaluation.network, offset=own.offset)
        excess = violation(found.objectives, design, space, found.tenants, found.chiplets)
        return emo.constrained(values, excess + excess_over(limits, found, LIMIT_TOLERANCE) if limits else excess)

    def evaluate(individuals: Design | Instances | Planned, space: DesignSpace) -> jax.Array:
        return in_fitting_blocks(jax.vmap(lambda one: evaluate_one(one, space)), individuals, DESIGNS)

    moved = "layers" if genes == "plans" else genes
    layers = Problem(
        sample=functools.partial(_sample_layers, genes=moved, projects=projects),
        vary=functools.partial(_vary, genes=moved, per_layer=per_layer, projects=projects),
        evaluate=evaluate,
        observe=log_hypervolume,
        fitness=functools.partial(_fitness, scalar=scalar, log=log) if scalar or log else None,
        log_archive=log,
        box=_box if by_volume and not scalar else None,
        exponents=_exponents if scalar else None,
        distinct=by_volume,
    )
    if genes != "plans":
        return layers
    return dataclasses.replace(layers, sample=draft_plan, vary=vary_plans, grow=grow_plans)


def genetic_problem(config: MohamConfig, projects: bool = False) -> Problem:
    """The co-optimisation as a `Problem` of the generation loop; equal settings share one, and so compile once.

    Args:
        config: settings.
        projects: project designs onto the requirements after variation (`ResolvedRequirements.projects`); plans keep
            them anyway.
    """
    scalar, log = config.objective != "front", config.scale == "log"
    kinds = kinds_of(config.objectives)
    rest = kinds, config.survival, config.limits
    if config.genes == "plans":
        return _problem("plans", False, scalar, log, False, *rest)
    return _problem(config.genes, config.rate_unit == "layer", scalar, log, projects, *rest)
