"""MOHaM: co-optimisation of the chiplets, their places and the schedule (MOHaM, Sections V-B and V-C).

From an application model, templates and Pareto tables of mappings to an archive of non-dominated designs. Arrays are
built once on the host (`build_context`); the search itself is the generation loop of `search.loop` over the operators
of `search.operators` and the evaluation of `schedule.design`.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, Template
from mohamjax.mapping import MappingTables, area
from mohamjax.schedule import Design, Workbench, alone, evaluate, workbench
from mohamjax.search import operators
from mohamjax.search.loop import Problem, SearchState, generations, start
from mohamjax.search.operators import Genetics
from mohamjax.search.seeds import ListScheduler
from mohamjax.workload import ApplicationModel

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = [
    "PAPER_RATES",
    "MohamConfig",
    "MohamContext",
    "Progress",
    "Rates",
    "build_context",
    "design_problem",
    "mapping_transform",
    "run",
    "seed_designs",
    "state_like",
]


@dataclass(frozen=True)
class Rates:
    """Probabilities of the operators, all traced: a sweep over them does not recompile.

    Crossovers apply once per pair and the other operators once per individual, except that with
    `MohamConfig.rate_unit = "layer"` scheduling, mapping and assignment mutation apply with their probability to
    every layer. The defaults were chosen on `ar-vr` with experiments/compare_search.py: a factor of two in any of
    them changes little, leaving out the resizing mutation a lot.
    """

    scheduling_crossover: jax.typing.ArrayLike = 0.3
    mapping_crossover: jax.typing.ArrayLike = 0.2
    sa_crossover: jax.typing.ArrayLike = 0.4
    scheduling_mutation: jax.typing.ArrayLike = 0.005
    mapping_mutation: jax.typing.ArrayLike = 0.005
    assignment_mutation: jax.typing.ArrayLike = 0.003
    opening_mutation: jax.typing.ArrayLike = 0.05
    splitting_mutation: jax.typing.ArrayLike = 0.15
    merging_mutation: jax.typing.ArrayLike = 0.15
    position_mutation: jax.typing.ArrayLike = 0.1
    template_mutation: jax.typing.ArrayLike = 0.15
    resizing_mutation: jax.typing.ArrayLike = 0.7


PAPER_RATES = Rates(
    scheduling_crossover=0.103,
    mapping_crossover=0.047,
    sa_crossover=0.045,
    scheduling_mutation=0.052,
    mapping_mutation=0.048,
    assignment_mutation=0.025,
    opening_mutation=0.0,
    splitting_mutation=0.039,
    merging_mutation=0.042,
    position_mutation=0.027,
    template_mutation=0.041,
    resizing_mutation=0.0,
)
"""MOHaM, Table 4."""


@dataclasses.dataclass(frozen=True)
class MohamConfig:
    """Sizes and settings of a search; static, so that a change recompiles.

    Attributes:
        population: individuals per generation.
        generations: most generations.
        immigrants: random individuals added to each generation, as a share of the population.
        tiles: tiles of the package, S.
        max_chiplets: most chiplets of a design.
        archive: most designs kept; beyond it the front is thinned by crowding.
        rate_unit: `layer` or `individual`: what the scheduling, mapping and assignment mutation rates count.
        seeded: start from list schedules on homogeneous and mixed packages.
        stop: `generations`, or `stability` for Roudenko and Schoenauer's rule as well.
        window: generations that the rule looks back on.
        delta: its threshold.
        orders: random topological orders that random individuals draw from.
        chunk: generations of one call of the jitted step; progress is reported between calls.
    """

    population: int = 200
    generations: int = 150
    immigrants: float = 0.1
    tiles: int = 16
    max_chiplets: int = 16
    archive: int = 512
    rate_unit: str = "layer"
    seeded: bool = True
    stop: str = "generations"
    window: int = 40
    delta: float = 0.02
    orders: int = 512
    chunk: int = 5

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        for name, low in (("population", 4), ("generations", 0), ("max_chiplets", 1), ("archive", 8)):
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} is {getattr(self, name)}", item="search settings", remedy=f"use {low} or more"
                )
        if self.max_chiplets > self.tiles:
            raise InputError(
                f"max_chiplets {self.max_chiplets} exceeds the {self.tiles} tiles of the package",
                item="search settings",
                remedy="lower it or give the package more tiles",
            )
        if self.rate_unit not in ("layer", "individual"):
            raise InputError(
                f"rate_unit is {self.rate_unit!r}", item="search settings", remedy="use layer or individual"
            )
        if self.stop not in ("generations", "stability"):
            raise InputError(f"stop is {self.stop!r}", item="search settings", remedy="use generations or stability")

    @property
    def immigrant_count(self) -> int:
        """Random individuals added to each generation."""
        return round(self.immigrants * self.population)


@dataclass(frozen=True)
class MohamContext:
    """The problem as arrays.

    Attributes:
        genetics: what the operators read.
        bench: what the evaluation reads.
        reference: `[3]` float, reference point of the hypervolume, in objective units.
        ideal: `[3]` float, a point that no design can pass, which scales the hypervolume to [0, 1].
    """

    genetics: Genetics
    bench: Workbench
    reference: jax.Array
    ideal: jax.Array


# ---------------------------------------------------------------- building the problem


def _padded(rows: Sequence[Sequence[int]], length: int) -> np.ndarray:
    """Ragged rows as `[length, longest]` int32, padded with -1."""
    width = max([1, *(len(row) for row in rows)])
    out = np.full((length, width), -1, np.int32)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


@functools.partial(jax.jit, static_argnames=("count",))
def random_orders(key: jax.Array, predecessors: jax.Array, layers: jax.Array, *, count: int) -> jax.Array:
    """Random topological orders by Kahn's algorithm with random priorities.

    Args:
        key: typed key, consumed.
        predecessors: `[L, A]` int32, padded with -1.
        layers: `[]` int32, layers that exist; padded ones come last.
        count: R, static.

    Returns:
        `[R, L]` int32.
    """
    total = predecessors.shape[0]
    exists = predecessors >= 0

    def one(key: jax.Array) -> jax.Array:
        priority = jax.random.uniform(key, (total,)) - 2.0 * (jnp.arange(total) >= layers)

        def take(place: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            order, done = carry
            ready = ~done & jnp.all(done[predecessors] | ~exists, axis=1)
            layer = jnp.argmax(jnp.where(ready, priority, -jnp.inf)).astype(jnp.int32)
            return order.at[place].set(layer), done.at[layer].set(True)

        order, _ = jax.lax.fori_loop(0, total, take, (jnp.zeros(total, jnp.int32), jnp.zeros(total, bool)))
        return order

    return jax.lax.map(one, jax.random.split(key, count), batch_size=64)


def mapping_transform(objectives: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The most similar mapping on another template, for every mapping (DESIGN section 7).

    Objectives are scaled to [0, 1] within each (unique layer, template) set; the transform of a mapping is the
    nearest point of the target's set (Euclidean).

    Args:
        objectives: `[U, T, M, 3]` float.
        count: `[U, T]` int, entries of each set.

    Returns:
        `[U, T, M, T]` int32; 0 where either side is empty.
    """
    unique, templates, size, _ = objectives.shape
    valid = np.arange(size) < count[..., None]
    low = np.min(np.where(valid[..., None], objectives, np.inf), axis=2, keepdims=True)
    high = np.max(np.where(valid[..., None], objectives, -np.inf), axis=2, keepdims=True)
    span = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        scaled = np.where(valid[..., None], (objectives - low) / span, 0.0)
    out = np.zeros((unique, templates, size, templates), np.int32)
    for target in range(templates):
        gap = np.sum((scaled[:, :, :, None, :] - scaled[:, target][:, None, None, :, :]) ** 2, axis=-1)
        gap = np.where(valid[:, target][:, None, None, :], gap, np.inf)
        out[..., target] = np.where(count[:, target][:, None, None] > 0, np.argmin(gap, axis=-1), 0)
    return out


def build_context(
    key: jax.Array,
    application: ApplicationModel,
    templates: Sequence[Template],
    technology: Technology,
    tables: MappingTables,
    package: PackageParameters,
    config: MohamConfig,
) -> MohamContext:
    """Builds the arrays of one search.

    Args:
        key: typed key, consumed (random orders).
        application: networks.
        templates: T templates, in the order of the tables.
        technology: energy and area tables.
        tables: Pareto tables.
        package: package parameters.
        config: settings.

    Raises:
        InputError: no template runs some layer.
    """
    bench = workbench(application, templates, technology, tables, package)
    count = np.asarray(tables.count)
    for layer, u in zip(application.layers, application.unique_of_layer, strict=True):
        if not (count[u] > 0).any():
            raise InputError(
                f"no template has a mapping for this layer (type {layer.type})",
                item=layer.name,
                remedy="add a template that runs it, or enlarge its buffers",
            )
    total = bench.unique.shape[0]
    predecessors = [layer.predecessors for layer in application.layers]
    successors: list[list[int]] = [[] for _ in predecessors]
    for layer, needs in enumerate(predecessors):
        for p in needs:
            successors[p].append(layer)
    needs = jnp.asarray(_padded(predecessors, total))
    layers = jnp.int32(len(predecessors))
    ideal, reference = _span(application, tables, bench, package, config)
    genetics = Genetics(
        layers=layers,
        unique=bench.unique,
        predecessors=needs,
        successors=jnp.asarray(_padded(successors, total)),
        count=jnp.asarray(tables.count),
        transform=jnp.asarray(mapping_transform(np.asarray(tables.objectives), count)),
        cover=jnp.asarray(_cover(count[list(application.unique_of_layer)] > 0, config)),
        rules=jnp.asarray(np.stack(list_scheduler(application, tables, package).rules())),
        orders=random_orders(key, needs, layers, count=config.orders),
        max_chiplets=jnp.int32(config.max_chiplets),
    )
    return MohamContext(genetics=genetics, bench=bench, reference=jnp.asarray(reference), ideal=jnp.asarray(ideal))


def _cover(able: np.ndarray, config: MohamConfig) -> np.ndarray:
    """Few templates that together run every layer (greedy), `[S]` int32, -1 after the last.

    Args:
        able: `[layers, T]` bool, every row with a template.
        config: gives S and the largest number of chiplets.
    """
    lonely, chosen = np.ones(len(able), bool), []
    while lonely.any():
        chosen.append(int(np.argmax(able[lonely].sum(axis=0))))
        lonely &= ~able[:, chosen[-1]]
    if len(chosen) > config.max_chiplets:
        raise InputError(
            f"it takes {len(chosen)} chiplets to run every layer, at most {config.max_chiplets} are allowed",
            item="--max-chiplets",
            remedy=f"allow {len(chosen)} or add a template that runs more layer types",
        )
    return np.asarray(chosen + [-1] * (config.tiles - len(chosen)), np.int32)


def _span(
    application: ApplicationModel,
    tables: MappingTables,
    bench: Workbench,
    package: PackageParameters,
    config: MohamConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """Ideal and reference point of the hypervolume: they depend on the tables and the package alone, not on a run.

    Ideal: every layer on its fastest mapping, the layers spread evenly over all chiplets; every layer on its most
    frugal mapping; one chiplet of the smallest hardware that some layer needs at least. Reference: every layer on its
    slowest mapping, one after the other; on its dearest; as many of the largest chiplets as there may be.
    """
    valid = np.arange(tables.cycles.shape[2]) < np.asarray(tables.count)[..., None]
    duration = alone(tables, package)
    objectives = np.asarray(tables.objectives, np.float64)
    u = np.asarray(application.unique_of_layer)

    def total(values: np.ndarray, worst: bool) -> np.ndarray:
        masked = np.where(valid, values, -np.inf if worst else np.inf)
        return masked.max(axis=(1, 2))[u] if worst else masked.min(axis=(1, 2))[u]

    full = jax.vmap(area)(bench.templates.machine)
    ideal = [
        total(np.asarray(tables.cycles), False).sum() / config.max_chiplets * 1e-9,
        total(objectives[..., 1], False).sum() * 1e-12,
        total(objectives[..., 2], False).max() * 1e-6,
    ]
    hops = float(np.max(np.asarray(bench.package.tables.hops)[: config.max_chiplets + 1]))
    noc = total(np.asarray(tables.offchip_bytes), True).sum() * 8 * package.hop_energy * hops
    tile = package.router_area + package.transceiver_area
    reference = [
        total(duration, True).sum() * 1e-9,
        # On a chiplet larger than its mapping needs a layer costs more than in the tables.
        (total(objectives[..., 1], True).sum() * 2 + noc) * 1e-12,
        (float(jnp.max(full)) + tile) * config.max_chiplets * 1e-6,
    ]
    # A problem with a single design has no span of its own.
    reference = [max(worst, 1.1 * best) for worst, best in zip(reference, ideal, strict=True)]
    dtype = np.asarray(tables.cycles).dtype
    return np.asarray(ideal, dtype), np.asarray(reference, dtype)


def list_scheduler(application: ApplicationModel, tables: MappingTables, package: PackageParameters) -> ListScheduler:
    """List scheduling over the application and its tables."""
    return ListScheduler(
        unique=np.asarray(application.unique_of_layer),
        predecessors=[layer.predecessors for layer in application.layers],
        count=np.asarray(tables.count),
        objectives=np.asarray(tables.objectives, np.float64),
        duration=alone(tables, package),
    )


def seed_designs(
    application: ApplicationModel,
    tables: MappingTables,
    package: PackageParameters,
    config: MohamConfig,
    total_layers: int,
) -> Design | None:
    """List schedules over homogeneous and mixed packages under several choices of mappings.

    Many are made; at most half a population is kept, those that NSGA-II's survival prefers by their estimates.

    Returns:
        `Design` with a leading `[K]` axis, or None where the settings switch seeds off.
    """
    if not config.seeded:
        return None
    plans = list_scheduler(application, tables, package).plans(config.max_chiplets)
    if not plans:
        return None
    estimates = np.stack([plan.estimate for plan in plans])
    kept, _, _ = emo.survive(estimates, min(len(plans), config.population // 2))
    designs = []
    layers = len(application.layers)
    for i in np.sort(np.asarray(kept)):
        plan = plans[i]
        template = np.full(config.tiles, -1, np.int32)
        used = np.unique(plan.tile)
        template[used] = np.asarray(plan.package, np.int32)[used]
        pad = total_layers - layers
        designs.append(
            Design(
                order=jnp.asarray(np.concatenate([plan.order, np.arange(layers, total_layers)]), jnp.int32),
                assignment=jnp.asarray(np.pad(plan.tile, (0, pad))),
                mapping=jnp.asarray(np.pad(plan.mapping, (0, pad))),
                template=jnp.asarray(template),
            )
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *designs)


# ---------------------------------------------------------------- the problem that the loop searches


def _vary(
    key: jax.Array,
    a: Design,
    b: Design,
    context: MohamContext,
    rates: Rates,
    *,
    per_layer: bool,
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
        design = _swaps(swap_key, design, genetics, rates.scheduling_mutation)
        coin_key, use_key = jax.random.split(mapping_key)
        chosen = jax.random.bernoulli(coin_key, rates.mapping_mutation, design.order.shape)
        design = operators.mapping_mutation(use_key, design, genetics, chosen)
        coin_key, use_key = jax.random.split(tile_key)
        chosen = jax.random.bernoulli(coin_key, rates.assignment_mutation, design.order.shape)
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
        objectives: `[N, 3]` float; rows of +inf are ignored.
        context: gives the two points.

    Returns:
        `[]` float in [0, 1].
    """
    scaled = jnp.log(objectives / context.ideal) / jnp.log(context.reference / context.ideal)
    return emo.hypervolume(jnp.maximum(scaled, 0.0), jnp.ones(3, scaled.dtype))


@functools.cache
def design_problem(tiles: int, per_layer: bool) -> Problem:
    """The co-optimisation as a `Problem` of the generation loop; cached, so that equal settings share a compile."""

    def sample(key: jax.Array, context: MohamContext) -> Design:
        return operators.sample(key, context.genetics, tiles)

    def evaluate_all(designs: Design, context: MohamContext) -> jax.Array:
        one = functools.partial(evaluate, bench=context.bench)
        return jax.vmap(jax.vmap(one))(designs)

    def observe(objectives: jax.Array, context: MohamContext) -> jax.Array:
        return jax.vmap(functools.partial(log_hypervolume, context=context))(objectives)

    return Problem(
        sample=sample,
        vary=functools.partial(_vary, per_layer=per_layer),
        evaluate=evaluate_all,
        observe=observe,
        shared_context=True,
    )


# ---------------------------------------------------------------- running


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the search tells between calls of the jitted step.

    Attributes:
        generation: generations done.
        evaluations: designs evaluated so far.
        fresh_evaluations: those of this process (a resumed search has done others before).
        seconds: since the search started, compile time apart.
        step_s: seconds of the last call of the step.
        compile_s: seconds spent in compiling.
        hypervolume: of the archive, in [0, 1] on log axes, per generation of the last call.
        front_size: designs in the archive, likewise.
        stability: largest finite crowding distance of the first front, likewise.
        best: `[3]`, smallest objectives so far.
    """

    generation: int
    evaluations: int
    fresh_evaluations: int
    seconds: float
    step_s: float
    compile_s: float
    hypervolume: tuple[float, ...]
    front_size: tuple[int, ...]
    stability: tuple[float, ...]
    best: tuple[float, float, float]


def run(
    key: jax.Array,
    context: MohamContext,
    config: MohamConfig,
    *,
    rates: Rates | None = None,
    seeds: Design | None = None,
    resume: SearchState | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    announce: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[SearchState, Progress]]:
    """Searches, yielding the state after every few generations; generation 0 is the first population.

    The caller may stop at any yield and has a complete state. One compile serves all generations, seeds and rates,
    and every problem of the same sizes (padded layers, unique layers, templates, widest fan-in and fan-out).
    Yields nothing where a resumed search has nothing left to do.

    Args:
        key: typed key of the whole search.
        context: the problem.
        config: settings.
        rates: operator probabilities; default `Rates()`.
        seeds: first individuals `[K, ...]`.
        resume: a state to go on from instead of a first population.
        history: rows of the generations before it, whose `stability` the stop rule looks back on.
        announce: called with a line before each compile.

    Yields:
        The state and what to report.
    """
    rates = jax.tree.map(jnp.float32, Rates() if rates is None else rates)
    problem = design_problem(config.tiles, config.rate_unit == "layer")
    fixed = {"problem": problem, "immigrants": config.immigrant_count, "chunk": config.chunk}
    began = time.perf_counter()
    if resume is None:
        announce("drawing the first population")
        island = None if seeds is None else jax.tree.map(lambda leaf: leaf[None], seeds)
        state = _first(key, context, island, problem=problem, population=config.population, archive=config.archive)
    else:
        state = resume
    announce(f"compiling the generation of {config.population} designs")
    # No generations: this compiles, or finds the program of an earlier search of the same shapes.
    jax.block_until_ready(generations(state, context, rates, jnp.int32(0), **fixed))
    compile_s = time.perf_counter() - began
    per_generation = config.population + config.immigrant_count
    done = before = int(state.generation)
    settled = [float(row["stability"]) for row in history if row["generation"] > 0]

    def settled_down() -> bool:
        return config.stop == "stability" and emo.should_stop(settled, config.window, config.delta)

    while done < config.generations and not settled_down():
        # Calls end at multiples of their length, so that a resumed search makes the same ones.
        count = min(config.chunk - done % config.chunk, config.generations - done)
        tick = time.perf_counter()
        state, metrics = generations(state, context, rates, jnp.int32(count), **fixed)
        metrics = jax.tree.map(lambda leaf, n=count: leaf[:n, 0], jax.device_get(metrics))
        done += count
        settled.extend(float(x) for x in metrics.stability[max(0, count - done) :])  # generation 0 is no step
        best = metrics.best[-1]
        yield (
            state,
            Progress(
                generation=done,
                evaluations=(done + 1) * per_generation,
                fresh_evaluations=(done - before) * per_generation,
                seconds=time.perf_counter() - began - compile_s,
                step_s=time.perf_counter() - tick,
                compile_s=compile_s,
                hypervolume=tuple(float(x) for x in metrics.merit),
                front_size=tuple(int(x) for x in metrics.front_size),
                stability=tuple(float(x) for x in metrics.stability),
                best=(float(best[0]), float(best[1]), float(best[2])),
            ),
        )


@functools.partial(jax.jit, static_argnames=("problem", "population", "archive"))
def _first(
    key: jax.Array,
    context: MohamContext,
    seeds: Design | None,
    *,
    problem: Problem,
    population: int,
    archive: int,
) -> SearchState:
    """The state before the first generation of one island; seeds `[1, K, ...]`."""
    return start(key, context, seeds, problem=problem, islands=1, population=population, archive=archive)


def state_like(context: MohamContext, config: MohamConfig) -> SearchState:
    """Shapes and dtypes of the search's state, for reading a checkpoint back."""
    problem = design_problem(config.tiles, config.rate_unit == "layer")
    first = functools.partial(_first, problem=problem, population=config.population, archive=config.archive)
    return jax.eval_shape(first, jax.random.key(0), context, None)
