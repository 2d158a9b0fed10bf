"""Searches on `emo.NSGA2`: whole ones of one population, and generations of islands that evolve side by side.

Axes: I islands, P population, N candidates, A archive, M objectives. A problem supplies pure functions of one
population; the program vmaps `ask` and `tell` over the islands around an evaluation of all their candidates at once.
Python owns only the loop over calls (`search.generations`).
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.emo.archive import Genes
from mohamjax.emo.nsga2 import Draft
from mohamjax.runtime.kept_programs import kept_jit
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import record, take

MAX_POPULATION = 2**20
"""Individuals of a generation; far more than pay off, and few enough for arrays of them."""

Context = TypeVar("Context")
"""A pytree of arrays: the data of one problem."""

Rates = TypeVar("Rates")
"""A pytree of arrays: probabilities of the operators."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the search of one population; static.

    Attributes:
        population: P, individuals that survive a generation.
        immigrants: random individuals among the candidates of a generation; N - P.
        archive: A, non-dominated individuals that are remembered.
    """

    population: int
    immigrants: int
    archive: int


@dataclasses.dataclass(frozen=True)
class Problem(Generic[Draft, Genes, Context, Rates]):
    """What is searched: pure functions of one population, hashable so that a program compiles once per problem.

    Attributes:
        sample: `(key, context) -> draft`, one random individual; the key is consumed.
        vary: `(key, parent_a, parent_b, context, rates) -> (draft_a, draft_b)`, one pair; the key is consumed.
        evaluate: `(genes [N, ...], context) -> objectives [N, M]`, smaller is better, +inf where an individual has no
            result, and those of `emo.constrained` where it breaks a limit.
        observe: `(archive objectives [A, M], context) -> []`, a figure of merit of the archive (hypervolume) that
            `Metrics` reports for every generation; None reports NaN.
        fitness: `(objectives [N, M], context) -> [N, F]`, see `emo.NSGA2`.
        log_archive: see `log_crowding` of `emo.Archived`.
        distinct: see `emo.NSGA2`.
        grow: `(drafts [N, ...], context, rates) -> genes [N, ...]`, completes what `sample` and `vary` begin, for all
            candidates at once; `rates` is None where `sample` made all drafts. None: drafts are genes.
        box: `context -> (ideal [M], reference [M])`, see `emo.NSGA2`.
    """

    sample: Callable[[jax.Array, Context], Draft]
    vary: Callable[[jax.Array, Genes, Genes, Context, Rates], tuple[Draft, Draft]]
    evaluate: Callable[[Genes, Context], jax.Array]
    observe: Callable[[jax.Array, Context], jax.Array] | None = None
    fitness: Callable[[jax.Array, Context], jax.Array] | None = None
    log_archive: bool = False
    distinct: bool = False
    grow: Callable[[Draft, Context, Rates | None], Genes] | None = None
    box: Callable[[Context], tuple[jax.Array, jax.Array]] | None = None

    def random(self, keys: jax.Array, context: Context) -> Genes:
        """Random individuals `[N, ...]`, one for each of the keys `[N]`, which are consumed."""
        drafts = jax.vmap(lambda key: self.sample(key, context))(keys)
        return cast(Genes, drafts) if self.grow is None else self.grow(drafts, context, None)

    def search(self, sizes: Sizes, objectives: int, dtype: jax.typing.DTypeLike) -> emo.Archived[Draft, Genes]:
        """NSGA-II of these functions, with `context` for its context, and `rates` beside it for `ask`.

        Args:
            sizes: of the search.
            objectives: M.
            dtype: of the objectives.
        """
        fitness, grow, box = self.fitness, self.grow, self.box
        search: emo.NSGA2[Draft, Genes] = emo.NSGA2(
            sample=lambda key, context, rates=None: self.sample(key, context),
            vary=lambda key, a, b, context, rates: self.vary(key, a, b, context, rates),
            population=sizes.population,
            objectives=objectives,
            immigrants=sizes.immigrants,
            dtype=dtype,
            fitness=None if fitness is None else lambda values, context: fitness(values, context),
            distinct=self.distinct,
            grow=None if grow is None else lambda drafts, context, rates=None: grow(drafts, context, rates),
            box=None if box is None else lambda context: box(context),
        )
        return emo.Archived(search, sizes.archive, self.log_archive)

    def search_in(self, key: jax.Array, context: Context, sizes: Sizes) -> emo.Archived[Draft, Genes]:
        """The search of a problem, whose evaluation tells number and dtype of the objectives.

        Args:
            key: typed key; only its kind matters.
            context: the data of the problem.
            sizes: of the search.
        """
        genes = jax.eval_shape(lambda: self.random(key[None], context))
        values = jax.eval_shape(self.evaluate, genes, context)
        return self.search(sizes, values.shape[1], values.dtype)


@record
class SearchState(Generic[Genes]):
    """All that a search carries from one generation to the next; a checkpoint holds exactly this.

    Attributes:
        population: `emo.NSGA2State` with a leading `[I]`: the survivors, and a key for each island. The random numbers
            of generation 0 are those of the first population.
        archive: `emo.Archive` with a leading `[I]`: every non-dominated design seen.
        candidates: pytree of `[I, N, ...]`, genes that wait for their evaluation.
    """

    population: emo.NSGA2State[Genes]
    archive: emo.Archive[Genes]
    candidates: Genes


@record
class Metrics:
    """What one generation reports to the host.

    Attributes:
        stability: `[I]` float, largest finite crowding distance of the first front (stop rule).
        front_size: `[I]` int32, members of the archive.
        best: `[I, M]` float, smallest value of each objective in the archive.
        merit: `[I]` float, the result of `Problem.observe`.
    """

    stability: jax.Array
    front_size: jax.Array
    best: jax.Array
    merit: jax.Array


@dataclasses.dataclass(frozen=True)
class Spread:
    """How `jax.shard_map` has spread a search over devices, for a program inside it; static.

    Attributes:
        axis: of the mesh.
        devices: number of devices along it.
        islands: whether each device has islands of its own; if not, all have the only island, and each evaluates a
            part of its candidates.
    """

    axis: str
    devices: int
    islands: bool


def island_keys(key: jax.Array, islands: int) -> jax.Array:
    """Keys `[I]` of islands: the first searches as it would alone."""
    others = [jax.random.fold_in(key, 2**31 - 1 - i) for i in range(1, islands)]
    return jnp.stack([key, *others])


def evolved(
    key: jax.Array,
    context: Context,
    seeds: Genes | None,
    rates: Rates,
    *,
    problem: Problem[Draft, Genes, Context, Rates],
    sizes: Sizes,
    generations: int,
    target: jax.Array | None = None,
) -> tuple[emo.ArchivedState[Genes], jax.Array]:
    """A whole search of one population that reports nothing before its end. Not jitted; callers vmap.

    Args:
        key: typed key, consumed.
        context: arrays that the problem's functions read.
        seeds: genes `[K, ...]`, K <= P, of the first population, or None.
        rates: operator probabilities.
        problem: what is searched.
        sizes: of the search.
        generations: G, after the first population.
        target: `[]`, a least first objective beyond which there is nothing to find: the generation that reaches it is
            the last one. None: all are bred.

    Returns:
        The state, and the least of every objective in the archive after each generation `[G + 1, M]`; rows after the
        generation that reaches the target mean nothing.
    """
    search = problem.search_in(key, context, sizes)
    stop = {} if target is None else {"enough": lambda best: best[0] <= target}
    state, candidates = search.opening(key, seeds, context=context)
    state, _, best = emo.evolve(
        state,
        candidates,
        generations + 1,
        evaluate=lambda genes: problem.evaluate(genes, context),
        tell=functools.partial(search.tell, context=context),
        ask=functools.partial(search.ask, context=context, rates=rates),
        observe=lambda state: jnp.min(state.archive.objectives, axis=0),
        most=generations + 1,
        **stop,
    )
    return state, best


def start(
    key: jax.Array,
    context: Context,
    number: jax.typing.ArrayLike = 0,
    *,
    problem: Problem[Draft, Genes, Context, Rates],
    islands: int,
    sizes: Sizes,
) -> SearchState[Genes]:
    """The state before the first generation; its random candidates wait to be evaluated. Not jitted.

    Args:
        key: typed key of the whole search.
        context: arrays that the problem's functions read.
        number: `[]` int32, from which the immigrants among the candidates are drawn; 0 for the first population.
        problem: what is searched.
        islands: I.
        sizes: of each island.
    """
    search = problem.search_in(key, context, sizes)

    def one(key: jax.Array) -> SearchState[Genes]:
        state, candidates = search.opening(key, draw=jax.random.fold_in(key, number), context=context)
        return SearchState(population=state.population, archive=state.archive, candidates=candidates)

    return jax.vmap(one)(island_keys(key, islands))


@dataclasses.dataclass(frozen=True)
class Course(Generic[Draft, Genes, Context, Rates]):
    """What the calls of a search have in common; static.

    Attributes:
        problem: what is searched.
        chunk: most generations of a call.
        migration: generations from one migration to the next; 0 for none.
        spread: how the search is spread over devices where it runs inside `jax.shard_map` (`search.spread`).
    """

    problem: Problem[Draft, Genes, Context, Rates]
    chunk: int
    migration: int = 0
    spread: Spread | None = None


@functools.partial(kept_jit, static_argnames=("course",))
def generations(
    state: SearchState[Genes],
    context: Context,
    rates: Rates,
    count: jax.typing.ArrayLike,
    counted: jax.typing.ArrayLike = True,
    *,
    course: Course[Draft, Genes, Context, Rates],
) -> tuple[SearchState[Genes], Metrics]:
    """`count` generations in one call; jitted, recompiles per course and shapes.

    A generation evaluates the candidates that wait, lets them compete with the population for survival, enters them
    into the archive, and asks for the next ones: offspring (as many as parents) and random immigrants (MOHaM, Section
    V-B; docs/concepts/designs.md). Seeds, and others that are to be evaluated in any case, are put in the place of the
    candidates. The islands are a ring: every `migration` generations the best of every island, in the order of
    survival, take the places of the random immigrants of the next island, and compete there with its candidates.

    Args:
        state: from `start` or an earlier call.
        context: arrays that the problem's functions read.
        rates: operator probabilities, traced.
        count: `[]` int, generations to do, at most `course.chunk`; traced.
        counted: `[]` bool, whether they count as generations; if not, random numbers go on as if there had been none.
        course: what is searched, and how.

    Returns:
        The state, and the metrics of the generations `[chunk, I, ...]`, of which the first `count` mean something.
    """
    problem, migration, spread = course.problem, course.migration, course.spread
    size = state.population.rank.shape[1]
    sizes = Sizes(
        population=size,
        immigrants=jax.tree.leaves(state.candidates)[0].shape[1] - size,
        archive=state.archive.valid.shape[1],
    )
    search = problem.search(sizes, state.archive.objectives.shape[-1], state.archive.objectives.dtype)

    def tell(own: emo.ArchivedState[Genes], candidates: Genes, objectives: jax.Array) -> emo.ArchivedState[Genes]:
        told = jax.vmap(functools.partial(search.tell, context=context))(own, candidates, objectives)
        number = jnp.where(counted, told.population.generation, own.population.generation)
        return dataclasses.replace(told, population=dataclasses.replace(told.population, generation=number))

    breed = jax.vmap(functools.partial(search.ask, context=context, rates=rates))
    alone = state.population.rank.shape[0] == 1 and not (spread and spread.islands and spread.devices > 1)

    def ask(own: emo.ArchivedState[Genes]) -> Genes:
        candidates = breed(own)
        if not migration or alone:
            return candidates
        done = own.population.generation[0]  # that of all islands
        due = (done > 0) & (done % migration == 0)
        return jax.lax.cond(due, lambda own, c: _migrated(own.population, c, spread), lambda _, c: c, own, candidates)

    evaluate = jax.vmap(lambda genes: problem.evaluate(genes, context))
    if spread is not None and not spread.islands:
        evaluate = functools.partial(_evaluated_together, evaluate=evaluate, spread=spread)
    own, candidates, record = emo.evolve(
        emo.ArchivedState(population=state.population, archive=state.archive),
        state.candidates,
        count,
        evaluate=evaluate,
        tell=tell,
        ask=ask,
        observe=jax.vmap(functools.partial(_metrics, problem=problem, context=context)),
        most=course.chunk,
    )
    return SearchState(population=own.population, archive=own.archive, candidates=candidates), record


light_generations = jit_o1_plain_loops(inspect.unwrap(generations), static_argnames=("course",))
"""`generations`, compiled in two fifths of the time and slower by up to two thirds: for all but long searches."""


def _migrated(population: emo.NSGA2State[Genes], candidates: Genes, spread: Spread | None) -> Genes:
    """Candidates `[I, N, ...]` whose immigrants, or whose last one, are replaced by the best of the island before."""
    size, total = population.rank.shape[1], jax.tree.leaves(candidates)[0].shape[1]
    count = max(1, total - size)

    def best(population: emo.NSGA2State[Genes]) -> Genes:
        return take(population.genes, jnp.lexsort((-population.crowding, population.rank))[:count])

    def from_before(leaf: jax.Array) -> jax.Array:
        if spread is None:
            return jnp.roll(leaf, 1, axis=0)
        ring = [(i, (i + 1) % spread.devices) for i in range(spread.devices)]
        return jnp.concatenate([jax.lax.ppermute(leaf[-1:], spread.axis, ring), leaf[:-1]])

    coming = jax.tree.map(from_before, jax.vmap(best)(population))
    return jax.tree.map(lambda own, new: own.at[:, total - count :].set(new), candidates, coming)


def _evaluated_together(genes: Genes, *, evaluate: Callable[[Genes], jax.Array], spread: Spread) -> jax.Array:
    """Objectives `[1, N, M]` of candidates: every device has all of them and evaluates a part."""
    total = jax.tree.leaves(genes)[0].shape[1]
    width = -(-total // spread.devices)
    rows = jnp.minimum(jax.lax.axis_index(spread.axis) * width + jnp.arange(width), total - 1)
    own = evaluate(jax.tree.map(lambda leaf: leaf[:, rows], genes))
    return jax.lax.all_gather(own, spread.axis, axis=1, tiled=True)[:, :total]


def _metrics(
    state: emo.ArchivedState[Genes], *, problem: Problem[Draft, Genes, Context, Rates], context: Context
) -> Metrics:
    """The metrics of one island."""
    population, archive = state.population, state.archive
    objectives = population.objectives
    fitness = objectives if problem.fitness is None else problem.fitness(objectives, context)
    # Infinite as long as nothing is feasible: then the search has not settled.
    settled = jnp.where(jnp.any(emo.feasible(objectives)), emo.stability(fitness, population.rank), jnp.inf)
    merit = jnp.nan if problem.observe is None else problem.observe(archive.objectives, context)
    dtype = archive.objectives.dtype
    return Metrics(
        stability=settled.astype(dtype),
        front_size=emo.archive_size(archive),
        best=jnp.min(archive.objectives, axis=0),
        merit=jnp.asarray(merit, dtype),
    )
