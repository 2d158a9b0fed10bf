"""Searches on `emo.NSGA2`: whole searches of one population, and generations of islands that evolve in parallel.

Axes: I islands, P population, N candidates, A archive, M objectives. A problem supplies pure functions of one
population; the program vmaps `ask` and `tell` over the islands and evaluates the candidates of all islands at once.
Only the loop over calls is in Python (`search.generations`).
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
from mohamjax.runtime.programs import jit_o0_plain_loops, jit_o1_plain_loops
from mohamjax.runtime.struct import record, take

MAX_POPULATION = 2**20
"""Limit on the individuals of a generation: far more than are useful, few enough for arrays of them."""

Context = TypeVar("Context")
"""A pytree of arrays: the data of one problem."""

Rates = TypeVar("Rates")
"""A pytree of arrays: probabilities of the operators."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of the search of one population; static.

    Attributes:
        population: P, individuals that survive a generation.
        immigrants: N - P, random individuals among the candidates of a generation.
        archive: A, capacity for non-dominated individuals.
    """

    population: int
    immigrants: int
    archive: int


@dataclasses.dataclass(frozen=True)
class Problem(Generic[Draft, Genes, Context, Rates]):
    """A search problem as pure functions of one population; hashable, so that a program compiles once per problem.

    Attributes:
        sample: `(key, context) -> draft`, one random individual; the key is consumed.
        vary: `(key, parent_a, parent_b, context, rates) -> (draft_a, draft_b)`, one pair; the key is consumed.
        evaluate: `(genes [N, ...], context) -> objectives [N, M]`, smaller is better; +inf for an individual without
            result, and the values of `emo.constrained` for one that breaks a limit.
        observe: `(archive objectives [A, M], context) -> []`, a figure of merit of the archive (hypervolume) that
            `Metrics` reports for every generation; None reports NaN.
        fitness: `(objectives [N, M], context) -> [N, F]`, see `emo.NSGA2`.
        log_archive: see `log_crowding` of `emo.Archived`.
        distinct: see `emo.NSGA2`.
        grow: `(drafts [N, ...], context, rates) -> genes [N, ...]`, completes the drafts of `sample` and `vary` for all
            candidates at once; `rates` is None if `sample` made all drafts. None: drafts are genes.
        box: `context -> (ideal [M], reference [M])`, see `emo.NSGA2`.
        exponents: `context -> [M]`, see `emo.Archived`.
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
    exponents: Callable[[Context], jax.Array] | None = None

    def random(self, keys: jax.Array, context: Context) -> Genes:
        """Random individuals `[N, ...]`, one per key of `[N]`; the keys are consumed."""
        drafts = jax.vmap(lambda key: self.sample(key, context))(keys)
        return cast(Genes, drafts) if self.grow is None else self.grow(drafts, context, None)

    def search(self, sizes: Sizes, objectives: int, dtype: jax.typing.DTypeLike) -> emo.Archived[Draft, Genes]:
        """NSGA-II with these functions; its context is `context=`, for `ask` also `rates=`.

        Args:
            sizes: sizes of the search.
            objectives: M.
            dtype: dtype of the objectives.
        """
        fitness, grow, box, exponents = self.fitness, self.grow, self.box, self.exponents
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
        powers = None if exponents is None else lambda context, rates=None: exponents(context)
        return emo.Archived(search, sizes.archive, self.log_archive, powers)

    def search_in(self, key: jax.Array, context: Context, sizes: Sizes) -> emo.Archived[Draft, Genes]:
        """The NSGA-II of `search`, with number and dtype of the objectives taken from `evaluate`.

        Args:
            key: typed key; only its kind matters.
            context: the data of the problem.
            sizes: sizes of the search.
        """
        genes = jax.eval_shape(lambda: self.random(key[None], context))
        values = jax.eval_shape(self.evaluate, genes, context)
        return self.search(sizes, values.shape[1], values.dtype)


@record
class SearchState(Generic[Genes]):
    """State of a search between generations; a checkpoint holds exactly this.

    Attributes:
        population: `emo.NSGA2State` with a leading axis `[I]`: the survivors, and a key for each island. The random
            numbers of generation 0 are those of the first population.
        archive: `emo.Archive` with a leading axis `[I]`: every non-dominated design seen, up to its capacity.
        candidates: pytree of `[I, N, ...]`, genes to be evaluated next.
    """

    population: emo.NSGA2State[Genes]
    archive: emo.Archive[Genes]
    candidates: Genes


@record
class Metrics:
    """Metrics that one generation reports to the host.

    Attributes:
        stability: `[I]` float, largest finite crowding distance of the first front (stop rule).
        front_size: `[I]` int32, number of members of the archive.
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
        axis: name of the mesh axis.
        devices: number of devices along this axis.
        islands: whether each device has its own islands; if not, every device holds the only island and evaluates a
            part of its candidates.
    """

    axis: str
    devices: int
    islands: bool


def island_keys(key: jax.Array, islands: int) -> jax.Array:
    """Keys `[I]` of islands; the first is `key` itself, so that the first island draws as a search of one island."""
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
    """Runs a whole search of one population, which reports only at its end. Not jitted; callers vmap.

    Args:
        key: typed key, consumed.
        context: arrays that the problem's functions read.
        seeds: genes `[K, ...]`, K <= P, for the first population, or None.
        rates: operator probabilities.
        problem: the search problem.
        sizes: sizes of the search.
        generations: G, generations after the first population.
        target: `[]`, lower bound of the first objective: the generation that reaches it is the last one. None: all
            generations are run.

    Returns:
        The state, and the least value of every objective in the archive after each generation, `[G + 1, M]`; rows after
        the generation that reaches the target are meaningless.
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
    """The state before the first generation, with random candidates to evaluate. Not jitted.

    Args:
        key: typed key of the whole search.
        context: arrays that the problem's functions read.
        number: `[]` int32, folded into the key to draw the immigrants among the candidates; 0 for the first population.
        problem: the search problem.
        islands: I.
        sizes: sizes of each island.
    """
    search = problem.search_in(key, context, sizes)

    def one(key: jax.Array) -> SearchState[Genes]:
        state, candidates = search.opening(key, draw=jax.random.fold_in(key, number), context=context)
        return SearchState(population=state.population, archive=state.archive, candidates=candidates)

    return jax.vmap(one)(island_keys(key, islands))


@dataclasses.dataclass(frozen=True)
class Course(Generic[Draft, Genes, Context, Rates]):
    """Arguments common to all calls of a search; static.

    Attributes:
        problem: the search problem.
        chunk: most generations of a call.
        migration: generations from one migration to the next; 0 for no migration.
        spread: how the search is spread over devices if it runs inside `jax.shard_map` (`search.generations`).
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
    """Runs `count` generations in one call; jitted, recompiles per course and shapes.

    A generation evaluates the waiting candidates, lets them compete with the population for survival, enters them into
    the archive, and asks for the next candidates: offspring (as many as parents) and random immigrants (MOHaM, Section
    V-B; docs/concepts/designs.md). To evaluate seeds or other given individuals, replace the candidates by them. The
    islands form a ring: every `migration` generations the best of every island, in the order of survival, replace the
    random immigrants of the next island and compete there with its candidates.

    Args:
        state: from `start` or an earlier call.
        context: arrays that the problem's functions read.
        rates: operator probabilities, traced.
        count: `[]` int, generations to run, at most `course.chunk`; traced.
        counted: `[]` bool, whether they count as generations; if not, random numbers go on as if they had not been run.
        course: the problem and static settings.

    Returns:
        The state, and the metrics of the generations, `[chunk, I, ...]`; only the first `count` rows are meaningful.
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
        done = own.population.generation[0]  # the same in all islands
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
"""`generations` that compiles in two fifths of the time and takes up to five thirds as long to run."""

lightest_generations = jit_o0_plain_loops(inspect.unwrap(generations), static_argnames=("course",))
"""`generations` that compiles in half the time of `light_generations` and takes up to five times as long to run."""


def _migrated(population: emo.NSGA2State[Genes], candidates: Genes, spread: Spread | None) -> Genes:
    """Candidates `[I, N, ...]`; the best of the previous island replace the immigrants, or the last one without any.

    No more come than the population has.
    """
    size, total = population.rank.shape[1], jax.tree.leaves(candidates)[0].shape[1]
    count = min(size, max(1, total - size))

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
    """Objectives `[1, N, M]` of candidates; every device holds all candidates and evaluates a part."""
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
    # Infinite while no individual is feasible, because the search has not settled then.
    settled = jnp.where(jnp.any(emo.feasible(objectives)), emo.stability(fitness, population.rank), jnp.inf)
    merit = jnp.nan if problem.observe is None else problem.observe(archive.objectives, context)
    dtype = archive.objectives.dtype
    return Metrics(
        stability=settled.astype(dtype),
        front_size=emo.archive_size(archive),
        best=jnp.min(archive.objectives, axis=0),
        merit=jnp.asarray(merit, dtype),
    )
