"""NSGA-II as `init`, `ask` and `tell` of one population (Deb et al., 2002).

Pure functions of a state: callers jit them, and vmap them over islands, problems or seeds. Nothing here evaluates: what
is asked for is evaluated by the caller, in whatever way, and told.

Axes: P population, N candidates, M objectives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import chex
import jax
import jax.numpy as jnp

from mohamjax.emo._arrays import as_objectives
from mohamjax.emo.ranking import survive, tournament

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    State = dataclasses.dataclass
else:
    State = functools.partial(chex.dataclass, mappable_dataclass=False)

__all__ = ["NSGA2", "NSGA2State"]

Genes = Any


@State(frozen=True)
class NSGA2State:
    """A population, and what the next generation is drawn from.

    Attributes:
        key: typed key; generation g draws from `fold_in(key, g)` where `ask` is given no key.
        generation: `[]` int32, how often something was told.
        genes: pytree of `[P, ...]`, the survivors.
        objectives: `[P, M]` float, +inf as long as not so many were told.
        rank: `[P]` int32, non-dominated front of each, 0 is best.
        crowding: `[P]` float, crowding distance within the front.
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
        sample: `(key, **context) -> genes`, one random individual.
        vary: `(key, a, b, **context) -> (child, child)`, the children of one pair: crossover and mutation.
        population: P, survivors.
        objectives: M, all minimised.
        immigrants: random individuals among the candidates of every generation.
        dtype: of the objectives.

    `context` is what the caller hands to `init` and `ask` by name, for arrays that `sample` and `vary` read: arguments,
    so that a change of their values compiles nothing anew.

    Example:
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

    def __post_init__(self) -> None:
        """Checks the sizes; raises ValueError."""
        for name, least in (("population", 2), ("objectives", 1), ("immigrants", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected {least} or more, got {getattr(self, name)}")

    def init(self, key: jax.Array, **context: Any) -> NSGA2State:
        """A random population that nobody has evaluated: tell it, or anything else, before the first `ask`.

        Args:
            key: typed key of the whole search.
            context: for `sample`.
        """
        size = self.population
        own, sample_key = jax.random.split(key)
        return NSGA2State(
            key=own,
            generation=jnp.int32(0),
            genes=self._random(sample_key, size, context),
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
        """
        key = jax.random.fold_in(state.key, state.generation) if key is None else key
        select_key, vary_key, random_key = jax.random.split(key, 3)
        size = self.population
        pairs = (size + 1) // 2
        chosen = tournament(select_key, state.rank, state.crowding, 2 * pairs)
        mother, father = (
            jax.tree.map(lambda leaf, i=i: leaf[i], state.genes) for i in (chosen[:pairs], chosen[pairs:])
        )
        vary = functools.partial(self.vary, **context)
        children = jax.vmap(vary)(jax.random.split(vary_key, pairs), mother, father)
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b])[:size], *children)
        if not self.immigrants:
            return both
        random = self._random(random_key, self.immigrants, context)
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), both, random)

    def tell(self, state: NSGA2State, candidates: Genes, objectives: chex.ArrayTree) -> NSGA2State:
        """The state after survival among the population and any number of evaluated individuals.

        Args:
            state: the population.
            candidates: genes `[N, ...]`: those of `ask`, seeds, or someone else's.
            objectives: `[N, M]`, minimised; NaN counts as +inf.

        Raises:
            ValueError: the shapes do not fit, at trace time.
        """
        found = as_objectives(objectives).astype(state.objectives.dtype)
        number = jax.tree.leaves(candidates)[0].shape[0]
        if found.shape != (number, self.objectives):
            raise ValueError(f"objectives: expected shape ({number}, {self.objectives}), got {found.shape}")
        merged = jax.tree.map(lambda old, new: jnp.concatenate([old, new]), state.genes, candidates)
        values = jnp.concatenate([state.objectives, found])
        index, rank, crowding = survive(values, self.population)
        return NSGA2State(
            key=state.key,
            generation=state.generation + 1,
            genes=jax.tree.map(lambda leaf: leaf[index], merged),
            objectives=values[index],
            rank=rank,
            crowding=crowding,
        )

    def _random(self, key: jax.Array, count: int, context: dict[str, Any]) -> Genes:
        """Random individuals `[count, ...]`."""
        return jax.vmap(functools.partial(self.sample, **context))(jax.random.split(key, count))
