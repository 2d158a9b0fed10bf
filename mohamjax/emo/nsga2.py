"""NSGA-II as `init`, `ask` and `tell` of one population (Deb et al., 2002).

Pure functions of a state: callers jit them, and vmap them over islands, problems or seeds. Nothing here evaluates: what
is asked for is evaluated by the caller, in whatever way, and told. `evolve` makes a loop of the three.

Axes: P population, N candidates, M objectives, F numbers that selection minimises.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_objectives
from mohamjax.emo.archive import Archive, archive_init, archive_update
from mohamjax.emo.feasibility import feasible
from mohamjax.emo.ranking import survive, tournament
from mohamjax.emo.wide import repeated
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record, take

Genes = Any
State = Any

_FIRST = 2**31 - 1
"""What the key is folded with for the first population: no generation has this number."""

_PAIRWISE = 1024
"""Rows up to which a processor compares all pairs faster than it sorts."""


@record
class NSGA2State:
    """A population, and what the next generation is drawn from.

    Attributes:
        key: typed key; generation g draws from `fold_in(key, g)` where `ask` is given no key.
        generation: `[]` int32, how often something was told.
        genes: pytree of `[P, ...]`, the survivors.
        objectives: `[P, M]` float, +inf as long as not so many were told.
        rank: `[P]` int32, non-dominated front of each, 0 is best.
        crowding: `[P]` float, crowding distance within the front, or what stands in its place (`survive`).
    """

    key: jax.Array
    generation: jax.Array
    genes: Genes
    objectives: jax.Array
    rank: jax.Array
    crowding: jax.Array


@dataclasses.dataclass(frozen=True)
class NSGA2:
    """NSGA-II over genes of any kind.

    Attributes:
        sample: `(key, **context) -> draft`, one random individual.
        vary: `(key, a, b, **context) -> (draft, draft)`, the children of one pair of genes: crossover and mutation.
        population: P, survivors.
        objectives: M, all minimised.
        immigrants: random individuals among the candidates of every generation.
        dtype: of the objectives.
        fitness: `(objectives [N, M], **context) -> [N, F]`, what selection and survival minimise in the place of the
            objectives: their logarithms, or one of them. None takes the objectives themselves.
        distinct: of individuals that are equal in all objectives, and keep every limit, only the oldest takes part in
            survival; the others remain only where there are too few.
        grow: `(drafts [N, ...], **context) -> genes [N, ...]`, what `sample` and `vary` leave to do. It is called once
            for all candidates, so that a program holds it once, whatever made them. None: drafts are genes.
        box: `(**context) -> (ideal [M], reference [M])`, in units of the objectives, of which `fitness` is finite:
            within the first front, what a row adds to the hypervolume in it decides before its crowding (`survive`).
            None: crowding alone.

    `context` is what the caller hands to `init`, `ask` and `tell` by name, for arrays that `sample`, `vary`,
    `grow`, `fitness` and `box` read, rates of operators among them: arguments, so that a change of their values
    compiles nothing anew.
    Objectives under constraints are those of `emo.constrained`.

    Examples:
        >>> def sphere(x):  # two centres, 0 and 1
        ...     return jnp.stack([jnp.sum(x**2, axis=-1), jnp.sum((x - 1) ** 2, axis=-1)], axis=-1)
        >>> def vary(key, a, b):
        ...     step = 0.1 * jax.random.normal(key, a.shape)
        ...     return (a + b) / 2 + step, (a + b) / 2 - step
        >>> search = NSGA2(sample=lambda key: jax.random.uniform(key, (3,)), vary=vary, population=16)
        >>> state = search.init(jax.random.key(0))
        >>> state = search.tell(state, state.genes, sphere(state.genes))  # seeds are told likewise
        >>> @jax.jit
        ... def generation(state):
        ...     candidates = search.ask(state)
        ...     return search.tell(state, candidates, sphere(candidates))
        >>> for _ in range(20):
        ...     state = generation(state)
        >>> int(state.generation), int(jnp.sum(state.rank == 0))
        (21, 16)
    """

    sample: Callable[..., Genes]
    vary: Callable[..., tuple[Genes, Genes]]
    population: int = 100
    objectives: int = 2
    immigrants: int = 0
    dtype: Any = jnp.float32
    fitness: Callable[..., jax.Array] | None = None
    distinct: bool = False
    grow: Callable[..., Genes] | None = None
    box: Callable[..., tuple[jax.Array, jax.Array]] | None = None

    def __post_init__(self) -> None:
        """Checks the sizes; raises ValueError."""
        for name, least in (("population", 2), ("objectives", 1), ("immigrants", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected {least} or more, got {getattr(self, name)}")

    def init(self, key: jax.Array, seeds: Genes | None = None, **context: Any) -> NSGA2State:
        """A first population that nobody has evaluated: tell it, or anything else, before the first `ask`.

        Args:
            key: typed key of the whole search.
            seeds: genes `[K, ...]` that take the first places, K <= P, the others being random. More than that, and
                what is evaluated already, is simply told.
            context: for `sample`.

        Raises:
            ValueError: there are more seeds than places, or they are other genes, at trace time.
        """
        return self._state(key, seeds, self._random(self._first_keys(key), context))

    def opening(
        self, key: jax.Array, seeds: Genes | None = None, draw: jax.Array | None = None, **context: Any
    ) -> tuple[NSGA2State, Genes]:
        """`init` and `first` of it, all random individuals in one batch: the same state, and the first candidates.

        Args:
            key: as for `init`.
            seeds: as for `init`.
            draw: the key that `first` takes.
            context: as for `init`.
        """
        blank = self._blank(key, None)
        keys = [self._first_keys(key)]
        if self.immigrants:
            keys.append(jax.random.split(self._keys(blank, draw)[2], self.immigrants))
        drawn = self._random(jnp.concatenate(keys), context)
        state = self._state(key, seeds, take(drawn, slice(0, self.population)))
        late = take(drawn, slice(self.population, None))
        return state, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.genes, late)

    def _first_keys(self, key: jax.Array) -> jax.Array:
        """Keys of the first population `[P]`."""
        return jax.random.split(jax.random.fold_in(key, _FIRST), self.population)

    def _state(self, key: jax.Array, seeds: Genes | None, genes: Genes) -> NSGA2State:
        """The state of random genes `[P, ...]`, seeds in the first places."""
        size = self.population
        if seeds is not None:
            number = _rows(seeds, genes, "seeds")
            if number > size:
                raise ValueError(f"seeds: expected {size} at most, got {number}; tell those that are more")
            genes = jax.tree.map(lambda own, drawn: jnp.concatenate([own, drawn[: size - number]]), seeds, genes)
        return self._blank(key, genes)

    def _blank(self, key: jax.Array, genes: Genes) -> NSGA2State:
        """The state of a population that nobody has evaluated."""
        size = self.population
        return NSGA2State(
            key=key,
            generation=jnp.int32(0),
            genes=genes,
            objectives=jnp.full((size, self.objectives), jnp.inf, self.dtype),
            rank=jnp.zeros(size, jnp.int32),
            crowding=jnp.zeros(size, self.dtype),
        )

    def ask(self, state: NSGA2State, key: jax.Array | None = None, **context: Any) -> Genes:
        """Candidates `[P + immigrants, ...]`: children of tournament winners, then random individuals.

        Args:
            state: the population.
            key: typed key, consumed; default one that follows from the state.
            context: for `sample` and `vary`.

        Raises:
            ValueError: the state is of another population size, at trace time.
        """
        size = self.population
        if state.rank.shape != (size,):
            raise ValueError(f"state: expected a population of {size}, got rank of shape {state.rank.shape}")
        select_key, vary_key, random_key = self._keys(state, key)
        pairs = (size + 1) // 2
        # One population of one: searches that vmapped over several drew so, and a seed goes on finding what it found.
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

    def first(self, state: NSGA2State, key: jax.Array | None = None, **context: Any) -> Genes:
        """Candidates of the first generation `[P + immigrants, ...]`: the first population, then random individuals.

        Args:
            state: of `init`.
            key: as for `ask`.
            context: for `sample`.
        """
        if not self.immigrants:
            return state.genes
        late = self._random(jax.random.split(self._keys(state, key)[2], self.immigrants), context)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), state.genes, late)

    def tell(self, state: NSGA2State, candidates: Genes, objectives: ArrayLike, **context: Any) -> NSGA2State:
        """The state after survival among the population and any number of evaluated individuals.

        Args:
            state: the population.
            candidates: genes `[N, ...]`: those of `ask`, seeds, or someone else's.
            objectives: `[N, M]`, minimised; NaN counts as +inf.
            context: for `fitness`.

        Raises:
            ValueError: the shapes do not fit, or the genes are others than the population's, at trace time.
        """
        found = self._checked(state, candidates, objectives)
        merged = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.genes, candidates)
        values = jnp.concatenate([state.objectives, found])
        if self.distinct:
            few = values.shape[0] <= _PAIRWISE
            again = by_platform(values, cpu=_repeated if few else repeated, wide=repeated)
            # What breaks limits has its violation for objectives: equal ones may be quite different.
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

    def judge(self, objectives: jax.Array, **context: Any) -> jax.Array:
        """What selection minimises, `[N, F]`, of objectives `[N, M]`."""
        return objectives if self.fitness is None else self.fitness(objectives, **context)

    def _checked(self, state: NSGA2State, candidates: Genes, objectives: ArrayLike) -> jax.Array:
        """The objectives in the state's dtype, NaN as +inf; complains at trace time."""
        number = _rows(candidates, state.genes, "candidates")
        found = as_objectives(objectives).astype(state.objectives.dtype)
        if found.shape != (number, self.objectives):
            raise ValueError(f"objectives: expected shape ({number}, {self.objectives}), got {found.shape}")
        return found

    def _keys(self, state: NSGA2State, key: jax.Array | None) -> jax.Array:
        """Keys of tournaments, of variation and of random individuals."""
        key = jax.random.fold_in(state.key, state.generation) if key is None else key
        return jax.random.split(key, 3)

    def _drafts(self, keys: jax.Array, context: dict[str, Any]) -> Any:
        """Random individuals `[N, ...]` as `sample` leaves them."""
        return jax.vmap(functools.partial(self.sample, **context))(keys)

    def _grown(self, drafts: Any, context: dict[str, Any]) -> Genes:
        """The genes of drafts `[N, ...]`."""
        return drafts if self.grow is None else self.grow(drafts, **context)

    def _random(self, keys: jax.Array, context: dict[str, Any]) -> Genes:
        """Random individuals `[N, ...]`, one for each of the keys."""
        return self._grown(self._drafts(keys, context), context)


def _rows(genes: Genes, like: Genes, name: str) -> int:
    """Number of individuals `[N, ...]`; complains where they are not of the kind of `like` `[P, ...]`."""
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


def _repeated(objectives: jax.Array) -> jax.Array:
    """`[N]` bool: rows of `[N, M]` that equal an earlier one."""
    equal = jnp.all(objectives[:, None] == objectives[None], axis=-1)
    return jnp.any(jnp.tril(equal, -1), axis=1)


@record
class ArchivedState:
    """A population, and the front of all that was told.

    Attributes:
        population: the survivors.
        archive: every non-dominated individual told so far, up to its capacity.
    """

    population: NSGA2State
    archive: Archive


@dataclasses.dataclass(frozen=True)
class Archived:
    """A search that remembers the front of all it was told, beside its population; otherwise as the search.

    What breaks a limit (`emo.constrained`) may live on in the population, but never enters the archive. The
    search's box is the archive's as well.

    Attributes:
        search: the search.
        capacity: C, individuals that the archive holds.
        log_crowding: a full archive is thinned by the crowding of the logarithms; objectives must be positive.
    """

    search: NSGA2
    capacity: int
    log_crowding: bool = False

    def init(self, key: jax.Array, seeds: Genes | None = None, **context: Any) -> ArchivedState:
        """As `NSGA2.init`; the archive is empty."""
        return self._around(self.search.init(key, seeds, **context))

    def _around(self, population: NSGA2State) -> ArchivedState:
        """The population beside an empty archive."""
        example = take(population.genes, 0)
        archive = archive_init(self.capacity, example, self.search.objectives, population.objectives.dtype)
        return ArchivedState(population=population, archive=archive)

    def opening(
        self, key: jax.Array, seeds: Genes | None = None, draw: jax.Array | None = None, **context: Any
    ) -> tuple[ArchivedState, Genes]:
        """As `NSGA2.opening`; the archive is empty."""
        population, candidates = self.search.opening(key, seeds, draw, **context)
        return self._around(population), candidates

    def first(self, state: ArchivedState, key: jax.Array | None = None, **context: Any) -> Genes:
        """As `NSGA2.first`."""
        return self.search.first(state.population, key, **context)

    def ask(self, state: ArchivedState, key: jax.Array | None = None, **context: Any) -> Genes:
        """As `NSGA2.ask`."""
        return self.search.ask(state.population, key, **context)

    def tell(self, state: ArchivedState, candidates: Genes, objectives: ArrayLike, **context: Any) -> ArchivedState:
        """As `NSGA2.tell`; non-dominated candidates that keep every limit enter the archive."""
        population = self.search.tell(state.population, candidates, objectives, **context)
        values = jnp.asarray(objectives)
        found = jnp.where(feasible(values)[:, None], values, jnp.inf)
        box = None if self.search.box is None else self.search.box(**context)
        archive = archive_update(state.archive, candidates, found, log_crowding=self.log_crowding, box=box)
        return ArchivedState(population=population, archive=archive)


def evolve(
    state: State,
    candidates: Genes,
    count: jax.typing.ArrayLike,
    *,
    evaluate: Callable[[Genes], jax.Array],
    tell: Callable[[State, Genes, jax.Array], State],
    ask: Callable[[State], Genes],
    observe: Callable[[State], Any] = lambda state: None,
    most: int,
) -> tuple[State, Genes, Any]:
    """Generations without the host: candidates are evaluated and told, and the next ones asked for.

    The candidates that wait for their evaluation are carried from one generation to the next, and from call to call.
    So the first ones may be anyone's, seeds among them, and everything is traced once. Not jitted itself.

    Args:
        state: of a search; with a leading axis where `tell` and `ask` are vmapped.
        candidates: genes that wait.
        count: `[]` int, generations, at most `most`; traced.
        evaluate: objectives of candidates.
        tell: the search's, e.g. `NSGA2.tell`.
        ask: the search's; as many candidates as there are waiting.
        observe: what is recorded of the state after each generation.
        most: static, rows of the record.

    Returns:
        The state, the candidates that wait now, and the record `[most, ...]`, of which the first `count` rows mean
        something.

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

    def generation(i: jax.Array, carry: tuple[State, Genes, Any]) -> tuple[State, Genes, Any]:
        state, candidates, record = carry
        state = tell(state, candidates, evaluate(candidates))
        record = jax.tree.map(lambda rows, row: rows.at[i].set(row), record, observe(state))
        return state, ask(state), record

    # What is recorded is asked of `observe` alone: to trace a whole generation once more would take seconds.
    rows = jax.eval_shape(observe, state)
    record = jax.tree.map(lambda row: jnp.zeros((most, *row.shape), row.dtype), rows)
    return jax.lax.fori_loop(0, count, generation, (state, candidates, record))
