"""Genetic algorithms whose children replace their parents: G# as in its text and in its release, and a standard one.

The other genetic methods run on the shared loop, where the best of parents and children survive. Here, as in the
papers, a generation consists of children and a few elites: a schedule that is not among the elites is lost, however
good it is. There is one objective.

Axes: P schedules, J jobs, G generations, K seeds.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypeAlias

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.emo.loop import Problem
from mohamjax.jobs.genetic import JobRates
from mohamjax.jobs.job_problem import TIMES, JobGenes, JobProblem
from mohamjax.runtime.struct import select, take
from mohamjax.schedule.design import CYCLE_S

Carried: TypeAlias = tuple[JobGenes, jax.Array, JobGenes, jax.Array]
"""Genes and values of a generation, the best schedule so far and its value."""

DRAWS = ("even", "roulette", "tournament")


@dataclasses.dataclass(frozen=True)
class Succession:
    """How a generation follows from the one before; static.

    Attributes:
        elites: share of the population, its best, that survives unchanged; at least one schedule unless it is 0.
        parents: share of the population, its best, that parents are drawn from.
        draw: how parents are drawn, with replacement: `even`, uniformly; `roulette`, with weights of `step` plus the
            difference from the worst value among the parents; `tournament`, the better of two uniform draws.
        step: weight of the worst parent under `roulette`, in the unit of the objective, above 0. The release adds 1 to
            makespans in cycles; `measured` gives the number for other units and objectives.
    """

    elites: float = 0.05
    parents: float = 0.1
    draw: str = "even"
    step: float = 1.0

    def __post_init__(self) -> None:
        """Checks the values; raises ValueError."""
        if self.draw not in DRAWS:
            raise ValueError(f"draw is {self.draw!r}, expected one of {', '.join(DRAWS)}")
        if not (0 <= self.elites < 1 and 0 < self.parents <= 1):
            raise ValueError(f"elites {self.elites:g} and parents {self.parents:g} are no shares of a population")
        if not 0 < self.step < math.inf:
            raise ValueError(f"step is {self.step:g}, expected a number above 0")

    def measured(self, objective: str, time_unit: str) -> Succession:
        """The succession for an objective of a table: its `step` is 1 where the table is in cycles, as in the release.

        Where the table is in seconds, the step is one cycle in seconds (at 1 GHz) for times, and one joule times one
        cycle for `edp`, so that a search does not depend on the unit of time, except for rounding. Energies, shares
        and numbers of jobs have the same unit in every table, and their step is 1 of it: 1 J, 1 (all jobs) for
        `unsatisfied`, 1 job for `missed`.

        Args:
            objective: a name of `job_problem.OBJECTIVES`.
            time_unit: "cycles" or "s", see `table.JobTable`.
        """
        in_seconds = self.draw == "roulette" and time_unit == "s" and objective in (*TIMES, "edp")
        return dataclasses.replace(self, step=self.step * CYCLE_S) if in_seconds else self


PRINTED = Succession()
"""G#'s text: parents are the schedules of the highest fitness (Sections 3.4 and 4.2.1), drawn uniformly. The elite
ratio was tuned and is not printed (Section 4.2.4), so both shares are those of the release."""

RELEASED = Succession(draw="roulette")
"""G#'s release: 5 % elites, parents from the best 10 % by roulette."""

TEXTBOOK = Succession(elites=0.0, parents=1.0, draw="tournament")
"""A standard genetic algorithm: no elites, binary tournaments. Table 5 prints only its two rates."""


def draw_parents(key: jax.Array, values: jax.Array, succession: Succession, number: int) -> jax.Array:
    """`[number]` int32, places of parents among P schedules sorted by rising `values`; the key is consumed."""
    pool = max(2, round(succession.parents * len(values)))
    if succession.draw == "even":
        return jax.random.randint(key, (number,), 0, pool)
    if succession.draw == "tournament":
        return jnp.min(jax.random.randint(key, (2, number), 0, pool), axis=0)
    share = jnp.cumsum(values[pool - 1] - values[:pool] + succession.step)
    drawn = jax.random.uniform(key, (number,)) * share[-1]
    return jnp.minimum(jnp.searchsorted(share, drawn, side="right"), pool - 1)


def succeed(
    key: jax.Array,
    genes: JobGenes,
    values: jax.Array,
    context: JobProblem,
    rates: JobRates,
    *,
    problem: Problem,
    succession: Succession,
) -> JobGenes:
    """The next generation: elites first, then children of pairs of parents. Not jitted; callers vmap.

    Args:
        key: typed key, consumed.
        genes: `[P, J]`.
        values: `[P]` float, minimised.
        context: the jobs and accelerators.
        rates: probabilities of the operators.
        problem: its `vary` makes two children from two parents.
        succession: static.

    Returns:
        Genes `[P, J]`.
    """
    size = len(values)
    elites = max(1, round(succession.elites * size)) if succession.elites else 0
    pairs = -(-(size - elites) // 2)
    order = jnp.argsort(values)
    ranked = take(genes, order)
    draw_key, vary_key = jax.random.split(key)
    chosen = draw_parents(draw_key, values[order], succession, 2 * pairs).reshape(2, pairs)
    one, two = jax.vmap(lambda key, a, b: problem.vary(key, a, b, context, rates))(
        jax.random.split(vary_key, pairs), take(ranked, chosen[0]), take(ranked, chosen[1])
    )
    return jax.tree.map(lambda best, a, b: jnp.concatenate([best[:elites], a, b])[:size], ranked, one, two)


def generational(
    key: jax.Array,
    context: JobProblem,
    seeds: JobGenes | None,
    rates: JobRates,
    *,
    problem: Problem,
    succession: Succession,
    sizes: tuple[int, int],
    target: jax.Array | None = None,
) -> tuple[emo.Archive[JobGenes], jax.Array]:
    """Runs a whole search. Not jitted; callers vmap.

    As in the release, elites are evaluated again in every generation, so that G generations after the first population
    cost `P (G + 1)` evaluations.

    Args:
        key: typed key, consumed.
        context: the jobs and accelerators.
        seeds: genes `[K, J]`, K <= P, that replace the first random schedules of the population, or None.
        rates: probabilities of the operators.
        problem: sampling, variation and evaluation, for one objective.
        succession: static.
        sizes: P and G, static.
        target: `[]`, see `emo.loop.evolved`.

    Returns:
        The best schedule of all generations as an archive of one slot, and the least value up to each generation,
        `[G + 1, 1]`; rows after the generation that reaches the target are meaningless.
    """
    size, generations = sizes
    first = problem.random(jax.random.split(jax.random.fold_in(key, 0), size), context)
    if seeds is not None:
        first = jax.tree.map(lambda own, given: own.at[: len(given)].set(given), first, seeds)

    def evaluated(genes: JobGenes, best: JobGenes, least: jax.Array) -> Carried:
        values = problem.evaluate(genes, context)[:, 0]
        place = jnp.argmin(values)
        better = values[place] < least
        best = select(better, take(genes, place), best)
        return genes, values, best, jnp.where(better, values[place], least)

    least_there_is = -jnp.inf if target is None else target

    def going(state: tuple[jax.Array, Carried, jax.Array]) -> jax.Array:
        number, (*_, least), _ = state
        return (number <= generations) & (least > least_there_is)

    def generation(state: tuple[jax.Array, Carried, jax.Array]) -> tuple[jax.Array, Carried, jax.Array]:
        number, (genes, values, best, least), history = state
        own = jax.random.fold_in(key, number)
        genes = succeed(own, genes, values, context, rates, problem=problem, succession=succession)
        carried = evaluated(genes, best, least)
        return number + 1, carried, history.at[number].set(carried[3])

    begun = evaluated(first, take(first, 0), jnp.asarray(jnp.inf, context.duration.dtype))
    history = jnp.full(generations + 1, begun[3])
    _, (_, _, best, least), history = jax.lax.while_loop(going, generation, (jnp.int32(1), begun, history))
    archive = emo.Archive(
        genes=jax.tree.map(lambda leaf: leaf[None], best),
        objectives=least[None, None],
        valid=jnp.ones(1, bool),
        thinned=jnp.int32(0),
    )
    return archive, history[:, None]
