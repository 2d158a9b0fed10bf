"""NSGA-II as `init`, `ask` and `tell` of one population (Deb et al., 2002).

These are pure functions of a state: callers jit them, and vmap them over islands, problems or seeds. Nothing here
evaluates: the caller evaluates the candidates that it asks for, and tells their objectives. `evolve` loops over `ask`,
evaluation and `tell`.

Axes: P population, N candidates, M objectives, F numbers that selection minimises.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_objectives
from mohamjax.emo.archive import Archive, Genes, archive_init, archive_update
from mohamjax.emo.ranking import feasible, survive, tournament
from mohamjax.emo.wide import repeated
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record, take

Draft = TypeVar("Draft")
"""Individuals as `sample` and `vary` make them, which `grow` completes; genes if there is no `grow`."""

State = TypeVar("State")
Record = TypeVar("Record")

_FIRST = 2**31 - 1
"""Number folded into the key for the first population; no generation has it."""

_PAIRWISE = 1024
"""Rows up to which a CPU compares all pairs faster than it sorts."""


@record
class NSGA2State(Generic[Genes]):
    """A population, and the key and number that the next generation is drawn from.

    Attributes:
        key: typed key; generation g draws from `fold_in(key, g)` if `ask` is given no key.
        generation: `[]` int32, number of calls of `tell` so far.
        genes: pytree of `[P, ...]`, the survivors.
        objectives: `[P, M]` float, +inf for individuals that were not evaluated.
        rank: `[P]` int32, non-dominated front of each individual, 0 is best.
        crowding: `[P]` float, crowding distance within the front, or the measure that replaces it (`survive`).
    """

    key: jax.Array
    generation: jax.Array
    genes: Genes
    objectives: jax.Array
    rank: jax.Array
    crowding: jax.Array


@dataclasses.dataclass(frozen=True)
class NSGA2(Generic[Draft, Genes]):
    """NSGA-II over genes of any kind.

    Attributes:
        sample: `(key, **context) -> draft`, one random individual.
        vary: `(key, a, b, **context) -> (draft, draft)`, the children of one pair of genes: crossover and mutation.
        population: P, survivors.
        objectives: M, all minimised.
        immigrants: random individuals among the candidates of every generation.
        dtype: dtype of the objectives.
        fitness: `(objectives [N, M], **context) -> [N, F]`, values that selection and survival minimise instead of the
            objectives, such as their logarithms, or one of them. None takes the objectives themselves.
        distinct: among individuals that are equal in all objectives and keep every limit, only the oldest competes for
            survival; the others survive only if there are too few individuals.
        grow: `(drafts [N, ...], **context) -> genes [N, ...]`, completes the drafts of `sample` and `vary`. It is
            called once for all candidates, so that a program contains it once. None: drafts are genes.
        box: `(**context) -> (ideal [M], reference [M])`, in units of the objectives; their `fitness` must be finite.
            Within the first front, the volume that a row adds to the hypervolume in the box decides before its crowding
            (`survive`). None: only crowding decides.

    `context` stands for keyword arguments of `init`, `ask` and `tell`: arrays that `sample`, `vary`, `grow`, `fitness`
    and `box` read, such as rates of operators. They are arguments, so that new values do not recompile anything.
    Objectives under constraints are those of `emo.constrained`.

    Examples:
        >>> def sphere(x):  # two centres, 0 and 1
        ...     return jnp.stack([jnp.sum(x**2, axis=-1), jnp.sum((x - 1) ** 2, axis=-1)], axis=-1)
        >>> def vary(key, a, b):
        ...     step = 0.1 * jax.random.normal(key, a.shape)
        ...     return (a + b) / 2 + step, (a + b) / 2 - step
        >>> search = NSGA2(sample=lambda key: jax.random.uniform(key, (3,)), vary=vary, population=16)
        >>> state = search.init(jax.random.key(0))
        >>> state = search.tell(state, state.genes, sphere(state.genes))  # seeds are told so too
        >>> @jax.jit
        ... def generation(state):
        ...     candidates = search.ask(state)
        ...     return search.tell(state, candidates, sphere(candidates))
        >>> for _ in range(20):
        ...     state = generation(state)
        >>> int(state.generation), int(jnp.sum(state.rank == 0))
        (21, 16)
    """

    sample: Callable[..., Draft]
    vary: Callable[..., tuple[Draft, Draft]]
    population: int = 100
    objectives: int = 2
    immigrants: int = 0
    dtype: jax.typing.DTypeLike = jnp.float32
    fitness: Callable[..., jax.Array] | None = None
    distinct: bool = False
    grow: Callable[..., Genes] | None = None
    box: Callable[..., tuple[jax.Array, jax.Array]] | None = None

    def __post_init__(self) -> None:
        """Checks the sizes; raises ValueError."""
        for name, least in (("population", 2), ("objectives", 1), ("immigrants", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected {least} or more, got {getattr(self, name)}")

    def init(self, key: jax.Array, seeds: Genes | None = None, **context: object) -> NSGA2State[Genes]:
        """A first population, not evaluated: `tell` its objectives, or those of others, before the first `ask`.

        Args:
            key: typed key of the whole search.
            seeds: genes `[K, ...]` that take the first places, K <= P; the other individuals are random. More seeds,
                and seeds already evaluated, enter by `tell`.
            context: for `sample` and `grow`.

        Raises:
            ValueError: there are more seeds than places, or their genes are of another kind, at trace time.
        """
        return self._state(key, seeds, self._random(self._first_keys(key), context))

    def opening(
        self, key: jax.Array, seeds: Genes | None = None, draw: jax.Array | None = None, **context: object
    ) -> tuple[NSGA2State[Genes], Genes]:
        """The state of `init` and the candidates of `first`, with all random individuals drawn in one batch.

        Args:
            key: typed key of the whole search.
            seeds: see `init`.
            draw: the key that `first` takes.
            context: for `sample` and `grow`.
        """
        keys = [self._first_keys(key)]
        if self.immigrants:
            draw = jax.random.fold_in(key, jnp.int32(0)) if draw is None else draw
            keys.append(jax.random.split(jax.random.split(draw, 3)[2], self.immigrants))
        drawn = self._random(jnp.concatenate(keys), context)
        state = self._state(key, seeds, take(drawn, slice(0, self.population)))
        late = take(drawn, slice(self.population, None))
        return state, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.genes, late)

    def _first_keys(self, key: jax.Array) -> jax.Array:
        """Keys of the first population `[P]`."""
        return jax.random.split(jax.random.fold_in(key, _FIRST), self.population)

    def _state(self, key: jax.Array, seeds: Genes | None, genes: Genes) -> NSGA2State[Genes]:
        """The state of random genes `[P, ...]`, with seeds in the first places."""
        size = self.population
        if seeds is not None:
            number = _rows(seeds, genes, "seeds")
            if number > size:
                raise ValueError(f"seeds: expected {size} at most, got {number}; tell those that are more")
            genes = jax.tree.map(lambda own, drawn: jnp.concatenate([own, drawn[: size - number]]), seeds, genes)
        return self._blank(key, genes)

    def _blank(self, key: jax.Array, genes: Genes) -> NSGA2State[Genes]:
        """The state of a population that was not evaluated."""
        size = self.population
        return NSGA2State(
            key=key,
            generation=jnp.int32(0),
            genes=genes,
            objectives=jnp.full((size, self.objectives), jnp.inf, self.dtype),
            rank=jnp.zeros(size, jnp.int32),
            crowding=jnp.zeros(size, self.dtype),
        )

    def ask(self, state: NSGA2State[Genes], key: jax.Array | None = None, **context: object) -> Genes:
        """Candidates `[P + immigrants, ...]`: children of tournament winners, then random individuals.

        Args:
            state: the population.
            key: typed key, consumed; default derived from the state.
            context: for `sample`, `vary` and `grow`.

        Raises:
            ValueError: the state has another population size, at trace time.
        """
        size = self.population
        if state.rank.shape != (size,):
            raise ValueError(f"state: expected a population of {size}, got rank of shape {state.rank.shape}")
        select_key, vary_key, random_key = self._keys(state, key)
        pairs = (size + 1) // 2
        # Split once more, as code for several populations would, so that a seed keeps its results.
        (select_key,) = jax.random.split(select_key, 1)
        chosen = tournament(select_key, state.rank, state.crowding, 2 * pairs)
        mother, father = take(state.genes, chosen[:pairs]), take(state.genes, chosen[pairs:])
        vary = functools.partial(self.vary, **context)
        children = jax.vmap(vary)(jax.random.split(vary_key, pairs), mother, father)
        drafts = jax.tree.map(lambda a, b: jnp.concatenate([a, b])[:size], *children)
        if self.immigrants:
            late = self._drafts(jax.random.split(random_key, self.immigrants), context)
            drafts = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), drafts, late)
        return self._grown(drafts, context)

    def first(self, state: NSGA2State[Genes], key: jax.Array | None = None, **context: object) -> Genes:
        """Candidates of the first generation `[P + immigrants, ...]`: the first population, then random individuals.

        Args:
            state: from `init`.
            key: typed key, consumed; default derived from the state.
            context: for `sample` and `grow`.
        """
        if not self.immigrants:
            return state.genes
        late = self._random(jax.random.split(self._keys(state, key)[2], self.immigrants), context)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.genes, late)

    def tell(
        self, state: NSGA2State[Genes], candidates: Genes, objectives: ArrayLike, **context: object
    ) -> NSGA2State[Genes]:
        """The state after survival among the population and any number of evaluated individuals.

        Args:
            state: the population.
            candidates: genes `[N, ...]`: those of `ask`, seeds, or any others.
            objectives: `[N, M]`, minimised; NaN counts as +inf.
            context: for `fitness` and `box`.

        Raises:
            ValueError: the shapes do not fit, or the genes differ in kind from those of the population, at trace time.
        """
        found = self._checked(state, candidates, objectives)
        merged = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.genes, candidates)
        values = jnp.concatenate([state.objectives, found])
        if self.distinct:
            few = values.shape[0] <= _PAIRWISE
            again = by_platform(values, cpu=repeated_few if few else repeated, wide=repeated)
            # The objectives of individuals that break limits are their violation, so equal ones may be quite different.
            values = jnp.where((again & feasible(values))[:, None], jnp.inf, values)
        corners = None
        if self.box is not None:
            best, worst = self.judge(jnp.stack(self.box(**context)).astype(values.dtype), **context)
            corners = best, worst
        index, rank, crowding = survive(self.judge(values, **context), self.population, box=corners)
        return NSGA2State(
            key=state.key,
            generation=state.generation + 1,
            genes=take(merged, index),
            objectives=values[index],
            rank=rank,
            crowding=crowding.astype(state.crowding.dtype),
        )

    def judge(self, objectives: jax.Array, **context: object) -> jax.Array:
        """Values `[N, F]` that selection minimises, from objectives `[N, M]`."""
        return objectives if self.fitness is None else self.fitness(objectives, **context)

    def _checked(self, state: NSGA2State[Genes], candidates: Genes, objectives: ArrayLike) -> jax.Array:
        """The objectives in the state's dtype, NaN as +inf; raises ValueError at trace time if shapes do not fit."""
        number = _rows(candidates, state.genes, "candidates")
        found = as_objectives(objectives).astype(state.objectives.dtype)
        if found.shape != (number, self.objectives):
            raise ValueError(f"objectives: expected shape ({number}, {self.objectives}), got {found.shape}")
        return found

    def _keys(self, state: NSGA2State[Genes], key: jax.Array | None) -> jax.Array:
        """Keys `[3]` for tournaments, variation and random individuals."""
        key = jax.random.fold_in(state.key, state.generation) if key is None else key
        return jax.random.split(key, 3)

    def _drafts(self, keys: jax.Array, context: dict[str, object]) -> Draft:
        """Drafts of random individuals `[N, ...]`, from `sample`."""
        return jax.vmap(functools.partial(self.sample, **context))(keys)

    def _grown(self, drafts: Draft, context: dict[str, object]) -> Genes:
        """The genes of drafts `[N, ...]`."""
        return cast(Genes, drafts) if self.grow is None else self.grow(drafts, **context)

    def _random(self, keys: jax.Array, context: dict[str, object]) -> Genes:
        """Random individuals `[N, ...]`, one per key."""
        return self._grown(self._drafts(keys, context), context)


def _rows(genes: Genes, like: Genes, name: str) -> int:
    """Number N of individuals `[N, ...]`; raises ValueError if their kind is not that of `like` `[P, ...]`."""
    if jax.tree.structure(genes) != jax.tree.structure(like):
        raise ValueError(f"{name}: expected {jax.tree.structure(like)}, got {jax.tree.structure(genes)}")
    rows = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(genes)}
    for (path, leaf), own in zip(jax.tree_util.tree_leaves_with_path(genes), jax.tree.leaves(like), strict=True):
        item = f"{name}{jax.tree_util.keystr(path)}"
        if len(rows) > 1 or jnp.ndim(leaf) != own.ndim or jnp.shape(leaf)[1:] != own.shape[1:]:
            expected = ", ".join(["N", *map(str, own.shape[1:])])
            raise ValueError(f"{item}: expected shape [{expected}], N being one number, got {jnp.shape(leaf)}")
        if jnp.result_type(leaf) != own.dtype:
            raise ValueError(f"{item}: expected {own.dtype}, got {jnp.result_type(leaf)}")
    return rows.pop()[0]


def repeated_few(objectives: jax.Array) -> jax.Array:
    """`[N]` bool: rows of `[N, M]` that equal an earlier one, by comparing all pairs."""
    equal = jnp.all(objectives[:, None] == objectives[None], axis=-1)
    return jnp.any(jnp.tril(equal, -1), axis=1)


@record
class ArchivedState(Generic[Genes]):
    """A population, and the front of all individuals told.

    Attributes:
        population: the survivors.
        archive: every non-dominated individual told so far, up to its capacity.
    """

    population: NSGA2State[Genes]
    archive: Archive[Genes]


@dataclasses.dataclass(frozen=True)
class Archived(Generic[Draft, Genes]):
    """A search that keeps, beside its population, an archive of the front of all individuals told.

    An individual that breaks a limit (`emo.constrained`) may survive in the population, but never enters the archive.
    The archive uses the box of the search.

    Attributes:
        search: the NSGA-II.
        capacity: C, most individuals in the archive.
        log_crowding: a full archive is thinned by the crowding of the logarithms; objectives must not be negative.
        exponents: `context -> [M]`, exponents of a product whose least row stays in a full archive; None for none.
    """

    search: NSGA2[Draft, Genes]
    capacity: int
    log_crowding: bool = False
    exponents: Callable[..., jax.Array] | None = None

    def init(self, key: jax.Array, seeds: Genes | None = None, **context: object) -> ArchivedState[Genes]:
        """The population of `NSGA2.init`, and an empty archive."""
        return self._around(self.search.init(key, seeds, **context))

    def _around(self, population: NSGA2State[Genes]) -> ArchivedState[Genes]:
        """The population with an empty archive."""
        example = take(population.genes, 0)
        archive = archive_init(self.capacity, example, self.search.objectives, population.objectives.dtype)
        return ArchivedState(population=population, archive=archive)

    def opening(
        self, key: jax.Array, seeds: Genes | None = None, draw: jax.Array | None = None, **context: object
    ) -> tuple[ArchivedState[Genes], Genes]:
        """The population and the candidates of `NSGA2.opening`, and an empty archive."""
        population, candidates = self.search.opening(key, seeds, draw, **context)
        return self._around(population), candidates

    def first(self, state: ArchivedState[Genes], key: jax.Array | None = None, **context: object) -> Genes:
        """The candidates of `NSGA2.first`."""
        return self.search.first(state.population, key, **context)

    def ask(self, state: ArchivedState[Genes], key: jax.Array | None = None, **context: object) -> Genes:
        """The candidates of `NSGA2.ask`."""
        return self.search.ask(state.population, key, **context)

    def tell(
        self, state: ArchivedState[Genes], candidates: Genes, objectives: ArrayLike, **context: object
    ) -> ArchivedState[Genes]:
        """The population of `NSGA2.tell`; non-dominated candidates that keep every limit enter the archive."""
        population = self.search.tell(state.population, candidates, objectives, **context)
        values = jnp.asarray(objectives)
        found = jnp.where(feasible(values)[:, None], values, jnp.inf)
        box = None if self.search.box is None else self.search.box(**context)
        powers = None if self.exponents is None else self.exponents(**context)
        archive = archive_update(
            state.archive, candidates, found, log_crowding=self.log_crowding, box=box, exponents=powers
        )
        return ArchivedState(population=population, archive=archive)


def _nothing(state: object) -> Any:
    """Records nothing of a state."""


def _never(record: object) -> Any:
    """Never ends a search."""
    return False


_Carried: TypeAlias = tuple[jax.Array, jax.Array, tuple[State, Genes, Record]]
"""Number of generations done, whether that is enough, and the result of `evolve` so far."""


def evolve(
    state: State,
    candidates: Genes,
    count: jax.typing.ArrayLike,
    *,
    evaluate: Callable[[Genes], jax.Array],
    tell: Callable[[State, Genes, jax.Array], State],
    ask: Callable[[State], Genes],
    observe: Callable[[State], Record] = _nothing,
    enough: Callable[[Record], jax.Array] = _never,
    most: int,
) -> tuple[State, Genes, Record]:
    """Generations without the host: each evaluates the candidates, tells their objectives and asks for the next ones.

    Candidates to evaluate are carried from one generation to the next, and from call to call. So the first candidates
    are free, seeds for instance, and everything is traced once. Not jitted itself.

    Args:
        state: state of a search; with a leading axis if `tell` and `ask` are vmapped.
        candidates: genes to evaluate first.
        count: `[]` int, generations, at most `most`; traced.
        evaluate: returns the objectives of candidates.
        tell: e.g. `NSGA2.tell`.
        ask: e.g. `NSGA2.ask`; it must return as many candidates as `candidates`.
        observe: returns the record of the state after each generation; by default nothing.
        enough: returns `[]` bool from the record of a generation: whether it is the last one; by default never.
        most: static, rows of the record.

    Returns:
        The state, the candidates to evaluate next, and the record `[most, ...]`; only its first `count` rows are
        meaningful, or those up to the generation that was enough.

    Examples:
        >>> from mohamjax.emo import NSGA2, evolve
        >>> search = NSGA2(
        ...     sample=lambda key: jax.random.uniform(key, (3,)),
        ...     vary=lambda key, a, b: ((a + b) / 2, a + 0.1 * jax.random.normal(key, a.shape)),
        ...     population=8,
        ...     objectives=1,
        ... )
        >>> state = search.init(jax.random.key(0))
        >>> state, waiting, best = jax.jit(
        ...     lambda state: evolve(
        ...         state, state.genes, 20, evaluate=lambda x: jnp.sum(x**2, axis=-1, keepdims=True),
        ...         tell=search.tell, ask=search.ask, observe=lambda state: jnp.min(state.objectives), most=20,
        ...     )
        ... )(state)
        >>> best.shape, bool((jnp.diff(best) <= 0).all()), int(state.generation)
        ((20,), True, 20)
    """

    def going(carry: _Carried[State, Genes, Record]) -> jax.Array:
        number, over, _ = carry
        return (number < count) & ~over

    def generation(carry: _Carried[State, Genes, Record]) -> _Carried[State, Genes, Record]:
        number, _, (state, candidates, record) = carry
        state = tell(state, candidates, evaluate(candidates))
        seen = observe(state)
        record = jax.tree.map(lambda rows, row: rows.at[number].set(row), record, seen)
        return number + 1, jnp.asarray(enough(seen)), (state, ask(state), record)

    # The shapes of the record come from `observe` alone; tracing a whole generation once more would take seconds.
    rows = jax.eval_shape(observe, state)
    record = jax.tree.map(lambda row: jnp.zeros((most, *row.shape), row.dtype), rows)
    begun = jnp.int32(0), jnp.asarray(False), (state, candidates, record)
    return jax.lax.while_loop(going, generation, begun)[2]
