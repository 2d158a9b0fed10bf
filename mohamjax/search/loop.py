"""The one generation loop of all searches: NSGA-II over islands that evolve side by side.

Axes: I islands (independent problems or seeds), P population, M objectives. A problem supplies pure functions;
the loop does selection, immigration and survival, and vmaps over pairs and islands. Python owns only the loop over
generations (`run`); the step that it calls is one jitted function `state -> state, metrics`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from mohamjax import emo

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = [
    "MAX_POPULATION",
    "Metrics",
    "Population",
    "Problem",
    "SearchState",
    "breed",
    "enter",
    "generations",
    "select",
    "start",
]

MAX_POPULATION = 2**20
"""Individuals of a generation; far more than pay off, and few enough for arrays of them."""

Genes = Any
Context = Any
Rates = Any


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is searched: pure functions, hashable so that a step compiles once per problem.

    Attributes:
        sample: `(key, context) -> genes`, one random individual; the key is consumed.
        vary: `(key, parent_a, parent_b, context, rates) -> (child_a, child_b)`, one pair; the key is consumed.
        evaluate: `(genes [I, P, ...], context [I, ...]) -> objectives [I, P, M]`, smaller is better, +inf where
            an individual has no result, and as `emo.constrained` has it where it breaks a limit: such individuals
            may live on, but never enter the archive.
        observe: `(archive objectives [I, A, M], context) -> [I]`, a figure of merit of the archive (hypervolume) that
            `Metrics` reports for every generation; None reports NaN.
        fitness: `(objectives [I, P, M], context) -> [I, P, F]`, what selection and survival minimise in the place of
            the objectives: their logarithms, or one of them. None takes the objectives themselves.
        log_archive: a full archive is thinned by the crowding of the logarithms; objectives must be positive.
        shared_context: the context has no islands axis: all islands search the same problem.
        distinct: of individuals that are equal in all objectives only the oldest takes part in survival; the others
            remain only where there are too few.
    """

    sample: Callable[[jax.Array, Context], Genes]
    vary: Callable[[jax.Array, Genes, Genes, Context, Rates], tuple[Genes, Genes]]
    evaluate: Callable[[Genes, Context], jax.Array]
    observe: Callable[[jax.Array, Context], jax.Array] | None = None
    fitness: Callable[[jax.Array, Context], jax.Array] | None = None
    log_archive: bool = False
    shared_context: bool = False
    distinct: bool = False

    @property
    def context_axis(self) -> int | None:
        """Axis of the islands in the context."""
        return None if self.shared_context else 0

    def judge(self, objectives: jax.Array, context: Context) -> jax.Array:
        """What selection minimises, `[I, P, F]`, from objectives `[I, P, M]`."""
        return objectives if self.fitness is None else self.fitness(objectives, context)


@dataclass(frozen=True)
class Population:
    """Evaluated individuals of all islands.

    Attributes:
        genes: pytree of `[I, P, ...]`.
        objectives: `[I, P, M]` float, smaller is better.
        rank: `[I, P]` int32, non-dominated front of each individual, 0 is best.
        crowding: `[I, P]` float, crowding distance within its front.
    """

    genes: Genes
    objectives: jax.Array
    rank: jax.Array
    crowding: jax.Array


@dataclass(frozen=True)
class SearchState:
    """All that a search carries from one generation to the next; a checkpoint holds exactly this.

    Attributes:
        key: typed key of the whole search; generation g draws from `fold_in(key, g)`, so that a resumed search
            repeats itself.
        generation: `[]` int32, generations done; -1 before the first population is evaluated, and less where further
            individuals are to be evaluated before that (`breed`).
        population: the survivors.
        archive: `emo.Archive` with a leading `[I]` axis: every non-dominated design seen.
    """

    key: jax.Array
    generation: jax.Array
    population: Population
    archive: emo.Archive


@dataclass(frozen=True)
class Metrics:
    """What one generation reports to the host.

    Attributes:
        stability: `[I]` float, largest finite crowding distance of the first front (stop rule).
        front_size: `[I]` int32, members of the archive.
        best: `[I, M]` float, smallest value of each objective in the archive.
        merit: `[I]` float, what `Problem.observe` says of the archive.
    """

    stability: jax.Array
    front_size: jax.Array
    best: jax.Array
    merit: jax.Array


def _survivors(genes: Genes, objectives: jax.Array, fitness: jax.Array, size: int) -> Population:
    """NSGA-II survival on every island."""
    index, rank, crowding = jax.vmap(functools.partial(emo.survive, n=size))(fitness)
    take = jax.vmap(lambda leaf, i: leaf[i])
    return Population(
        genes=jax.tree.map(lambda leaf: take(leaf, index), genes),
        objectives=take(objectives, index),
        rank=rank,
        crowding=crowding,
    )


def _repeated(objectives: jax.Array) -> jax.Array:
    """`[N]` bool: rows of `[N, M]` that equal an earlier one."""
    equal = jnp.all(objectives[:, None] == objectives[None], axis=-1)
    return jnp.any(jnp.tril(equal, -1), axis=1)


def _sample(key: jax.Array, problem: Problem, context: Context, islands: int, count: int) -> Genes:
    """`count` random individuals per island; the key is consumed."""
    keys = jax.random.split(key, (islands, count))
    sample = jax.vmap(problem.sample, in_axes=(0, None))
    return jax.vmap(sample, in_axes=(0, problem.context_axis))(keys, context)


def start(
    key: jax.Array,
    context: Context,
    seeds: Genes | None = None,
    *,
    problem: Problem,
    islands: int,
    population: int,
    archive: int,
) -> SearchState:
    """Draws the first population: seeds first, random individuals for the rest.

    Nothing is evaluated here: the first call of `generations` does that instead of breeding, so that the evaluation is
    compiled once and not twice. Not jitted; wrap it. `problem`, `islands`, `population` and `archive` are static.

    Args:
        key: typed key of the whole search.
        context: arrays that the problem's functions read.
        seeds: genes `[I, K, ...]` with K <= population, or None.
        problem: what is searched.
        islands: I.
        population: P.
        archive: capacity of each island's archive.

    Returns:
        The state before the first generation, objectives +inf.
    """
    seeded = 0 if seeds is None else jax.tree.leaves(seeds)[0].shape[1]
    genes = _sample(jax.random.fold_in(key, 2**31 - 1), problem, context, islands, population - seeded)
    if seeds is not None:
        genes = jax.tree.map(lambda s, g: jnp.concatenate([s, g], axis=1), seeds, genes)
    shape = jax.eval_shape(problem.evaluate, genes, context)
    example = jax.tree.map(lambda leaf: leaf[0, 0], genes)
    empty = emo.archive_init(archive, example, shape.shape[-1], shape.dtype)
    return SearchState(
        key=key,
        generation=jnp.int32(-1),
        population=Population(
            genes=genes,
            objectives=jnp.full(shape.shape, jnp.inf, shape.dtype),
            rank=jnp.zeros(shape.shape[:2], jnp.int32),
            crowding=jnp.zeros(shape.shape[:2], shape.dtype),
        ),
        archive=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (islands, *leaf.shape)), empty),
    )


def breed(
    state: SearchState,
    context: Context,
    rates: Rates,
    newcomers: Genes | None = None,
    *,
    problem: Problem,
    immigrants: int,
) -> Genes:
    """The individuals that a generation evaluates, `[I, P + immigrants, ...]`: offspring of tournament winners.

    Up to generation 0 `newcomers` `[I, P, ...]` take the place of offspring, by default the state's own population,
    which has not been evaluated then.
    """
    parents = state.population
    islands, size = parents.rank.shape
    key = jax.random.fold_in(state.key, state.generation + 1)
    select_key, vary_key, immigrant_key = jax.random.split(key, 3)

    pairs = (size + 1) // 2
    chosen = jax.vmap(functools.partial(emo.tournament, count=2 * pairs))(
        jax.random.split(select_key, islands), parents.rank, parents.crowding
    )
    take = jax.vmap(lambda leaf, i: leaf[i])
    mother = jax.tree.map(lambda leaf: take(leaf, chosen[:, :pairs]), parents.genes)
    father = jax.tree.map(lambda leaf: take(leaf, chosen[:, pairs:]), parents.genes)
    vary = jax.vmap(problem.vary, in_axes=(0, 0, 0, None, None))
    children = jax.vmap(vary, in_axes=(0, 0, 0, problem.context_axis, None))(
        jax.random.split(vary_key, (islands, pairs)), mother, father, context, rates
    )
    offspring = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1)[:, :size], *children)
    unborn = state.generation < 0
    newcomers = parents.genes if newcomers is None else newcomers
    offspring = jax.tree.map(lambda given, bred: jnp.where(unborn, given, bred), newcomers, offspring)
    if immigrants:
        random = _sample(immigrant_key, problem, context, islands, immigrants)
        offspring = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), offspring, random)
    return offspring


def select(
    state: SearchState, offspring: Genes, objectives: jax.Array, context: Context, *, problem: Problem
) -> tuple[SearchState, Metrics]:
    """Survival of parents and evaluated offspring `[I, N, M]`, and the archive's update."""
    parents = state.population
    islands, size = parents.rank.shape
    merged = jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), parents.genes, offspring)
    merged_objectives = jnp.concatenate([parents.objectives, objectives], axis=1)
    if problem.distinct:
        merged_objectives = jnp.where(jax.vmap(_repeated)(merged_objectives)[..., None], jnp.inf, merged_objectives)
    fitness = problem.judge(merged_objectives, context)
    population = _survivors(merged, merged_objectives, fitness, size)
    archive = enter(state.archive, offspring, objectives, problem)
    stable = jax.vmap(emo.stability)(problem.judge(population.objectives, context), population.rank)
    metrics = Metrics(
        # Infinite as long as nothing is feasible: then the search has not settled.
        stability=jnp.where(jnp.any(emo.feasible(population.objectives), axis=1), stable, jnp.inf),
        front_size=jnp.sum(archive.valid, axis=1),
        best=jnp.min(archive.objectives, axis=1),
        merit=jnp.full(islands, jnp.nan) if problem.observe is None else problem.observe(archive.objectives, context),
    )
    metrics = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), metrics, _no_metrics(archive, ()))
    state = SearchState(key=state.key, generation=state.generation + 1, population=population, archive=archive)
    return state, metrics


def _no_metrics(archive: emo.Archive, lead: tuple[int, ...]) -> Metrics:
    """Zeros in the place of metrics, with leading axes; `archive` has an islands axis."""
    islands, _, objectives = archive.objectives.shape
    zeros = functools.partial(jnp.zeros, dtype=archive.objectives.dtype)
    return Metrics(
        stability=zeros((*lead, islands)),
        front_size=jnp.zeros((*lead, islands), jnp.int32),
        best=zeros((*lead, islands, objectives)),
        merit=zeros((*lead, islands)),
    )


def enter(archive: emo.Archive, genes: Genes, objectives: jax.Array, problem: Problem) -> emo.Archive:
    """Archives of all islands with individuals `[I, P, ...]` entered; infeasible ones stay out."""
    found = jnp.where(emo.feasible(objectives)[..., None], objectives, jnp.inf)
    return jax.vmap(functools.partial(emo.archive_update, log_crowding=problem.log_archive))(archive, genes, found)


@functools.partial(jax.jit, static_argnames=("problem", "immigrants", "chunk"))
def generations(
    state: SearchState,
    context: Context,
    rates: Rates,
    count: jax.typing.ArrayLike,
    newcomers: Genes | None = None,
    *,
    problem: Problem,
    immigrants: int,
    chunk: int,
) -> tuple[SearchState, Metrics]:
    """`count` generations in one call; jitted, recompiles per problem, shapes, `immigrants` and `chunk`.

    A generation is tournament, variation, immigrants, evaluation, survival and archive on every island: parents,
    offspring (as many as parents) and `immigrants` random individuals compete for survival (MOHaM, Section V-B; DESIGN
    section 7).

    Args:
        state: from `start` or an earlier call.
        context: arrays that the problem's functions read.
        rates: operator probabilities, traced.
        count: `[]` int, generations to do, at most `chunk`; traced.
        newcomers: genes `[I, P, ...]` that are evaluated up to generation 0 in the place of offspring; default the
            state's own population.
        problem: what is searched.
        immigrants: random individuals per generation.
        chunk: most generations of a call.

    Returns:
        The state, and the metrics of the generations `[chunk, I, ...]`, of which the first `count` mean something.
    """

    def step(state: SearchState) -> tuple[SearchState, Metrics]:
        offspring = breed(state, context, rates, newcomers, problem=problem, immigrants=immigrants)
        return select(state, offspring, problem.evaluate(offspring, context), context, problem=problem)

    def one(i: jax.Array, carry: tuple[SearchState, Metrics]) -> tuple[SearchState, Metrics]:
        state, record = carry
        state, metrics = step(state)
        return state, jax.tree.map(lambda rows, row: rows.at[i].set(row), record, metrics)

    # The record's shapes are written down, not asked of `step`: that would trace it twice, which takes seconds.
    return jax.lax.fori_loop(0, count, one, (state, _no_metrics(state.archive, (chunk,))))
