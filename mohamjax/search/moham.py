"""MOHaM: co-optimisation of the chiplets, their places and the schedule (MOHaM, Sections V-B and V-C).

The generation loop of `search.loop` over the operators of `search.operators` and the evaluation of `schedule.design`;
the arrays of a problem are built in `search.context`, the first individuals in `search.seeding`.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.blocks import DESIGNS, in_fitting_blocks
from mohamjax.devices import Devices, gathered
from mohamjax.programs import brief_jit
from mohamjax.schedule import Design, TenantReport, report
from mohamjax.schedule.ensemble import model_reports, over_models
from mohamjax.schedule.measures import DEFAULT, kinds_of, measured
from mohamjax.schedule.tenants import tenant_excess
from mohamjax.search import operators
from mohamjax.search.batches import (
    archived,
    as_candidates,
    decode_all,
    entered,
    opening,
    program_of,
    random_candidates,
    sizes_of,
)
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.context import MohamContext
from mohamjax.search.loop import Metrics, Problem, SearchState, start
from mohamjax.search.operators import Genetics
from mohamjax.search.plan_operators import PlanRates
from mohamjax.search.plan_variation import draft_plan, grow_plans, vary_plans
from mohamjax.search.plans import Planned, plan_of
from mohamjax.search.remap import Remapper
from mohamjax.struct import take

__all__ = [
    "LIMIT_TOLERANCE",
    "Progress",
    "design_problem",
    "designs_of",
    "log_hypervolume",
    "run",
    "state_like",
    "violation",
]

# ---------------------------------------------------------------- the problem that the loop searches


def _vary(
    key: jax.Array,
    a: Design,
    b: Design,
    context: MohamContext,
    rates: Rates,
    *,
    per_layer: bool,
    projects: bool,
) -> tuple[Design, Design]:
    """Crossovers of a pair, then the mutations of each child, each with its probability."""
    genetics = context.genetics
    cross_key, mutate_key = jax.random.split(key)
    crossovers = (
        (operators.scheduling_crossover, rates.scheduling_crossover),
        (operators.mapping_crossover, rates.mapping_crossover),
        (operators.sa_crossover, rates.sa_crossover),
    )
    for subkey, (operator, rate) in zip(jax.random.split(cross_key, len(crossovers)), crossovers, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        crossed = operator(use_key, a, b, genetics)
        happens = jax.random.bernoulli(coin_key, rate)
        a, b = jax.tree.map(lambda new, old, h=happens: jnp.where(h, new, old), crossed, (a, b))
    # Both children as one batch, so that the mutations are compiled once.
    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), a, b)
    mutate = functools.partial(_mutate, genetics=genetics, rates=rates, per_layer=per_layer)
    both = jax.vmap(mutate)(jax.random.split(mutate_key), both)
    if projects:
        both = jax.vmap(functools.partial(operators.conform, genetics=genetics))(both)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))
    return first, second


def _mutate(key: jax.Array, design: Design, genetics: Genetics, rates: Rates, per_layer: bool) -> Design:
    """All mutations of one individual, each with its probability."""
    once = [
        (operators.splitting_mutation, rates.splitting_mutation),
        (operators.merging_mutation, rates.merging_mutation),
        (operators.template_mutation, rates.template_mutation),
        (operators.position_mutation, rates.position_mutation),
        (operators.opening_mutation, rates.opening_mutation),
        (operators.resizing_mutation, rates.resizing_mutation),
    ]
    if not per_layer:
        once += [
            (operators.scheduling_mutation, rates.scheduling_mutation),
            (operators.mapping_mutation, rates.mapping_mutation),
            (operators.assignment_mutation, rates.assignment_mutation),
        ]
    once_key, swap_key, mapping_key, tile_key = jax.random.split(key, 4)
    for subkey, (operator, rate) in zip(jax.random.split(once_key, len(once)), once, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        changed = operator(use_key, design, genetics)
        happens = jax.random.bernoulli(coin_key, rate)
        design = jax.tree.map(lambda new, old, h=happens: jnp.where(h, new, old), changed, design)
    if per_layer:

        def of_layer(rate: jax.typing.ArrayLike) -> jax.Array:
            return jnp.where(jnp.asarray(rate) > 0, jnp.maximum(rate, rates.least_layers / genetics.layers), 0.0)

        design = _swaps(swap_key, design, genetics, of_layer(rates.scheduling_mutation))
        coin_key, use_key = jax.random.split(mapping_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.mapping_mutation), design.order.shape)
        design = operators.mapping_mutation(use_key, design, genetics, chosen)
        coin_key, use_key = jax.random.split(tile_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.assignment_mutation), design.order.shape)
        design = operators.assignment_mutation(use_key, design, genetics, chosen)
    return design


def _swaps(key: jax.Array, design: Design, genetics: Genetics, rate: jax.typing.ArrayLike) -> Design:
    """Scheduling mutation at a rate per layer: as many swaps one after the other as layers were drawn."""
    count_key, swap_key = jax.random.split(key)
    drawn = jax.random.bernoulli(count_key, rate, design.order.shape)
    number = jnp.sum(drawn & (jnp.arange(drawn.shape[0]) < genetics.layers))

    def swap(i: jax.Array, current: Design) -> Design:
        return operators.scheduling_mutation(jax.random.fold_in(swap_key, i), current, genetics)

    return jax.lax.fori_loop(0, number, swap, design)


def log_hypervolume(objectives: jax.Array, context: MohamContext) -> jax.Array:
    """Share of the box between ideal and reference point that a front dominates, on log axes.

    Args:
        objectives: `[N, M]` float, with the offsets of `schedule.measures`; rows of +inf are ignored.
        context: gives the two points.

    Returns:
        `[]` float in [0, 1].
    """
    low, high = jnp.log(context.ideal), jnp.log(context.reference)
    scaled = (jnp.log(emo.positive(objectives)) - low) / (high - low)
    return emo.hypervolume(jnp.maximum(scaled, 0.0), jnp.ones(context.reference.shape, scaled.dtype))


LIMIT_TOLERANCE = 1e-5
"""Relative excess over a limit that single precision leaves open; the final front is filtered in double precision."""


def violation(
    objectives: jax.Array, design: Design, context: MohamContext, users: TenantReport | None = None
) -> jax.Array:
    """By how much a design breaks the user's limits, `[]` float, 0 where it keeps them all.

    Sum of the logarithms of the factors by which limits are exceeded, and of the chiplets too few or too many. What
    single precision cannot tell from the limit (a hundred-thousandth) is not beyond it. `users` is what the users of
    the networks get, for limits on that (`schedule.tenants.tenant_excess`). Where `objectives` are those of several
    application models, `[A, 3]`, every one has to keep the limits.
    """
    reached = jnp.append(objectives, objectives[..., 1:2] / objectives[..., :1], axis=-1)
    reached = reached if reached.ndim == 1 else jnp.max(reached, axis=0)
    over = jnp.maximum(jnp.log(reached / context.limits) - LIMIT_TOLERANCE, 0.0)
    counts = jnp.zeros(context.most.shape, jnp.int32).at[design.template].add(design.template >= 0)
    counts = counts.at[-1].set(jnp.sum(design.template >= 0))
    wrong = jnp.maximum(counts - context.most, 0) + jnp.maximum(context.least - counts, 0)
    excess = jnp.sum(over) + jnp.sum(wrong).astype(over.dtype)
    if users is None or context.tenant_limits is None or context.bench.tenants is None:
        return excess
    return excess + jnp.sum(tenant_excess(users, context.bench.tenants, context.tenant_limits, LIMIT_TOLERANCE))


def _fitness(objectives: jax.Array, context: MohamContext, *, scalar: bool, log: bool) -> jax.Array:
    """What selection minimises of objectives `[..., M]`: see `MohamConfig.objective` and `scale`."""
    if scalar:
        values = jnp.sum(context.weights * jnp.log(emo.positive(objectives)), axis=-1, keepdims=True)
    else:
        values = jnp.log(emo.positive(objectives)) if log else objectives
    # Where a limit is broken the objectives are the penalty.
    return jnp.where(emo.feasible(objectives)[..., None], values, objectives[..., : values.shape[-1]])


def _box(context: MohamContext) -> tuple[jax.Array, jax.Array]:
    """The box that the search's hypervolume is measured in."""
    return context.ideal, context.reference


def designs_of(genes: Any) -> Design:
    """The designs of individuals, whatever they are searched as."""
    return genes.design if isinstance(genes, Planned) else genes


def _sample_layers(key: jax.Array, context: MohamContext, *, tiles: int, projects: bool) -> Design:
    """A random individual of a search of layers."""
    design = operators.sample(key, context.genetics, tiles)
    return operators.conform(design, context.genetics) if projects else design


@functools.cache
def _problem(
    genes: str,
    tiles: int,
    per_layer: bool,
    scalar: bool,
    log: bool,
    projects: bool,
    kinds: tuple[str, ...],
    by_volume: bool,
) -> Problem:
    def evaluate_one(individual: Design | Planned, context: MohamContext) -> jax.Array:
        design = designs_of(individual)
        if context.models is not None:
            each = model_reports(design, context.bench, context.models).objectives
            return emo.constrained(over_models(each, context.models), violation(each, design, context))
        found = report(design, context.bench)
        values = found.objectives
        if kinds != DEFAULT:
            assert context.measures is not None
            values = measured(found, kinds, context.measures.network, context.bench.network) + context.measures.offset
        return emo.constrained(values, violation(found.objectives, design, context, found.tenants))

    def evaluate(individuals: Design | Planned, context: MohamContext) -> jax.Array:
        return in_fitting_blocks(jax.vmap(lambda one: evaluate_one(one, context)), individuals, DESIGNS)

    layers = genes == "layers"
    return Problem(
        sample=functools.partial(_sample_layers, tiles=tiles, projects=projects) if layers else draft_plan,
        vary=functools.partial(_vary, per_layer=per_layer, projects=projects) if layers else vary_plans,
        evaluate=evaluate,
        observe=log_hypervolume,
        fitness=functools.partial(_fitness, scalar=scalar, log=log) if scalar or log else None,
        log_archive=log,
        grow=None if layers else grow_plans,
        box=_box if by_volume else None,
        distinct=by_volume,
    )


def design_problem(config: MohamConfig, projects: bool = False) -> Problem:
    """The co-optimisation as a `Problem` of the generation loop; equal settings share one, and so a compile.

    Args:
        config: settings.
        projects: project designs onto the requirements after variation (`Site.projects`); plans keep them anyway.
    """
    scalar, log = config.objective != "front", config.scale == "log"
    kinds = kinds_of(config.objectives)
    by_volume = config.survival == "hypervolume" and not scalar
    if config.genes == "plans":
        return _problem("plans", 0, False, scalar, log, False, kinds, by_volume)
    return _problem("layers", config.tiles, config.rate_unit == "layer", scalar, log, projects, kinds, by_volume)


# ---------------------------------------------------------------- running


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the search tells between calls of the jitted step.

    Attributes:
        generation: generations done.
        evaluations: designs evaluated so far.
        fresh_evaluations: those of this process (a resumed search has done others before).
        seconds: since the search started, compile time apart.
        step_s: seconds of the last call of the step, without those of mapping again before it.
        rounds_s: seconds that the rounds of mapping again that are left may take, if they take as long as the last
            one; 0 before the first.
        compile_s: seconds spent in compiling.
        hypervolume: of the archive, in [0, 1] on log axes, per generation of the last call.
        front_size: designs in the archive, likewise.
        stability: largest finite crowding distance of the first front, likewise.
        best: `[M]`, smallest objectives so far, without their offsets.
    """

    generation: int
    evaluations: int
    fresh_evaluations: int
    seconds: float
    step_s: float
    rounds_s: float
    compile_s: float
    hypervolume: tuple[float, ...]
    front_size: tuple[int, ...]
    stability: tuple[float, ...]
    best: tuple[float, ...]


def run(
    key: jax.Array,
    context: MohamContext,
    config: MohamConfig,
    *,
    rates: Rates | PlanRates | None = None,
    seeds: Design | None = None,
    resume: SearchState | None = None,
    history: Sequence[abc.Mapping[str, Any]] = (),
    announce: Callable[[str], None] = lambda _: None,
    projects: bool = False,
    problem: Problem | None = None,
    remapper: Remapper | None = None,
    devices: Devices | None = None,
) -> Iterator[tuple[SearchState, Progress]]:
    """Searches, yielding the state after every few generations; generation 0 is the first population.

    The caller may stop at any yield and has a complete state. One compile serves all generations, seeds and rates,
    and every problem of the same sizes (padded layers, unique layers, templates, widest fan-in and fan-out).
    Yields nothing where a resumed search has nothing left to do.

    Args:
        key: typed key of the whole search.
        context: the problem.
        config: settings.
        rates: operator probabilities, of the kind that the genes need; default `PlanRates()` or `Rates()`.
        seeds: first individuals `[K, ...]`, any number: all are evaluated, and the first population is what survives.
        resume: a state to go on from instead of a first population.
        history: rows of the generations before it, whose `stability` the stop rule looks back on.
        announce: called with a line before each compile.
        projects: as in `design_problem`.
        problem: what is searched instead of `design_problem(config, projects)`, for instance with other operators.
        remapper: maps layers again when its schedule says so, on chiplets of the front; the plans of the archive are
            then decoded and evaluated anew. Only where `config.genes` are plans. The search ends when the remapper
            does.
        devices: on which the search is spread, see `search.spread`; None for the one that JAX takes by itself.

    Yields:
        The state, which lies on the devices (`Devices.whole` fetches it), and what to report.
    """
    if rates is None:
        rates = PlanRates() if config.genes == "plans" else Rates()
    rates = jax.tree.map(np.float32, rates)
    problem = design_problem(config, projects) if problem is None else problem
    if seeds is not None and config.genes == "plans":
        seeds = _planned(seeds, context)
    began = time.perf_counter()
    batches = 1 if seeds is None else -(-jax.tree.leaves(seeds)[0].shape[0] // config.population)
    if resume is None:
        announce("drawing the first population")
        state = opening(key, context, np.int32(0), **sizes_of(config, problem))
    else:
        state = resume
    announce(f"compiling the generation of {config.population} designs")
    # No generations: this compiles, or finds the program of an earlier search of the same shapes.
    program = program_of(config, problem, devices)
    jax.block_until_ready(program(state, context, rates, np.int32(0), np.bool_(True)))
    compile_s = time.perf_counter() - began
    per_generation = config.islands * (config.population + config.immigrant_count)
    again = -(-config.archive // config.population)  # batches of a round's evaluations
    rounds_before = 0 if remapper is None else remapper.rounds
    begun = told = int(state.population.generation[0])  # populations, the first one included
    if resume is None:
        if seeds is not None:
            # The first population is what survives of all that was given; the last batch waits for its evaluation.
            *before, last = _batches(key, seeds, context, config, problem)
            for batch in before:
                state = entered(state, batch, context, rates, program)
            state = dataclasses.replace(state, candidates=last)
        begun -= batches - 1
    end = config.generations if remapper is None else remapper.end
    volumes = {int(row["generation"]): float(row["hypervolume"]) for row in history}
    round_s = 0.0  # what the last round of mapping again took
    settled = [float(row["stability"]) for row in history if row["generation"] > 0]

    def settled_down() -> bool:
        return config.stop == "stability" and emo.should_stop(settled, config.window, config.delta)

    def advance(before: SearchState, count: int) -> tuple[SearchState, Metrics]:
        state, metrics = program(before, context, rates, np.int32(count), np.bool_(True))
        return state, _best_island(jax.tree.map(lambda leaf: leaf[:count], jax.device_get(gathered(metrics, devices))))

    while told <= end and not settled_down():
        # Calls end at multiples of their length, so that a resumed search makes the same ones.
        count = min(config.chunk - (told - 1) % config.chunk, end + 1 - told)
        if remapper is not None:
            tick = time.perf_counter()
            done = told - 1
            if remapper.due(done):
                if remapper.settled(volumes):
                    break
                announce(f"mapping again on chiplets of the front, round {remapper.rounds + 1}")
                state = gathered(state, devices)
                context = remapper.grown(state, context)
                drawn = random_candidates(state.population.key[0], context, config, problem)
                for batch in _decoded_again(state, context):
                    candidates = as_candidates(batch, drawn, population=config.population)
                    state = entered(state, candidates, context, rates, program)
                jax.block_until_ready(state)
                round_s = time.perf_counter() - tick
            count = min(count, remapper.until_next(done))
        tick = time.perf_counter()
        previous = state
        state, metrics = advance(previous, count)
        for n, value in enumerate(metrics.stability, start=1):
            if told + n > 1:  # generation 0 is no step
                settled.append(float(value))
            if n < count and settled_down():
                # The rule holds within the call: the same generations again, up to the one that it names.
                count = n
                state, metrics = advance(previous, count)
                break
        told += count
        volumes[told - 1] = float(metrics.merit[-1])
        rounds = 0 if remapper is None else remapper.rounds
        best = metrics.best[-1]
        if context.measures is not None:
            best = best - np.asarray(context.measures.offset)
        yield (
            state,
            Progress(
                generation=told - 1,
                evaluations=(told + batches - 1 + rounds * again) * per_generation,
                fresh_evaluations=(told - begun + (rounds - rounds_before) * again) * per_generation,
                seconds=time.perf_counter() - began - compile_s,
                step_s=time.perf_counter() - tick,
                rounds_s=0.0 if remapper is None else round_s * (len(remapper.schedule) - rounds),
                compile_s=compile_s,
                hypervolume=tuple(float(x) for x in metrics.merit),
                front_size=tuple(int(x) for x in metrics.front_size),
                stability=tuple(float(x) for x in metrics.stability),
                best=tuple(float(x) for x in best),
            ),
        )


def _decoded_again(state: SearchState, context: MohamContext) -> list[Planned]:
    """The plans of the archives, decoded over tables that have grown, as batches `[I, P, ...]`."""
    return [decode_all(batch.plan, context) for batch in archived(state)]


@brief_jit
def _planned(designs: Design, context: MohamContext) -> Planned:
    """Designs `[K, ...]` with a plan for each."""
    return jax.vmap(plan_of, in_axes=(0, None, None))(designs, context.genetics, context.plans)


def _batches(key: jax.Array, seeds: Any, context: MohamContext, config: MohamConfig, problem: Problem) -> Iterator[Any]:
    """Seeds `[K, ...]` as candidates `[I, N, ...]` of every island, the last filled up with random designs.

    The last batch is that of generation 0; the immigrants of those before have the numbers before it.
    """
    size = config.population
    total = -(-jax.tree.leaves(seeds)[0].shape[0] // size)
    for i in range(total):
        rows = take(seeds, slice(i * size, (i + 1) * size))
        shared = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.islands, *leaf.shape)), rows)
        yield as_candidates(shared, random_candidates(key, context, config, problem, i - total + 1), population=size)


def _best_island(metrics: Metrics) -> Metrics:
    """One island's worth from `[n, I]`: the best hypervolume and its front, the last to settle, the best objectives."""
    best = np.argmax(metrics.merit, axis=1)
    row = np.arange(len(best))
    values: dict[str, Any] = {
        "stability": np.max(metrics.stability, axis=1),
        "front_size": np.asarray(metrics.front_size)[row, best],
        "best": np.min(metrics.best, axis=1),
        "merit": np.asarray(metrics.merit)[row, best],
    }
    return Metrics(**values)


def state_like(context: MohamContext, config: MohamConfig) -> SearchState:
    """Shapes and dtypes of the search's state, for reading a checkpoint back."""
    first = functools.partial(start, **sizes_of(config, design_problem(config)))
    return jax.eval_shape(first, jax.random.key(0), context, np.int32(0))
