"""Optimisers of nevergrad on the encoding of G# (Section 4.4), as the paper used them; they need the extra `baselines`.

A schedule is a point of the unit cube (`job_problem.decode`). The optimiser proposes one population at a time, which is
evaluated in one call; the (1+1)-ES proposes one point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.jobs.config import JobSearchConfig
from mohamjax.jobs.job_problem import JobGenes, JobProblem, decode, evaluate

_NEVERGRAD = {
    "DE": "DE",
    "(1+1)-ES": "OnePlusOne",
    "CMA-ES": "CMA",
    "PSO": "PSO",
    "TBPSA": "TBPSA",
    "CLHS": "CauchyLHSSearch",
    "Halton": "HaltonSearch",
    "Hammersley": "HammersleySearch",
    "portfolio": "Portfolio",
}

_PRINTED: dict[str, Callable[[Any], Any]] = {
    "CMA-ES-printed": lambda known: known.ParametrizedCMA(scale=8),
    "PSO-printed": lambda known: known.ConfPSO(omega=1.6, phip=0.8, phig=0.8),
    "TBPSA-printed": lambda known: known.ParametrizedTBPSA(naive=False, initial_popsize=50),
    "portfolio-printed": lambda known: known.ConfPortfolio(optimizers=(known.ParametrizedCMA(scale=8), "DE")),
}
"""Methods for which Table 5 prints settings that differ from the library's: PSO with weights of .8 and a momentum of
1.6, TBPSA with 50 initial points, and a portfolio of CMA-ES and DE alone, which take equally many turns regardless of
their results (passive). nevergrad takes TBPSA's 50 as the points kept of four times as many, so that 200 points come
first; and this PSO differs from the library's also in its transform, which is the identity and not the arctangent.
DE's weights of .8 and CMA-ES's elite group of 50 % are the library's defaults; for the other methods nothing is
printed.

The spread of CMA-ES's first points is not printed either. The library's default is .04 of the range around its middle,
so that of four cores two get no job, and 10,000 points in 200 dimensions do not widen it. Here it is a fifth of the
range."""

_ONE_BY_ONE = ("(1+1)-ES",)
"""Methods that are told each point before they make the next one. An evolution strategy with one parent and one child
learns from each child; a whole population from one parent would change its step as often at once."""

LIBRARY_METHODS = (*_NEVERGRAD, *_PRINTED)
"""Methods of Table 5 that run through nevergrad, with its default settings or with the printed ones."""


@functools.partial(jax.jit, static_argnames="objectives")
def _measure(points: jax.Array, problem: JobProblem, *, objectives: tuple[str, ...]) -> jax.Array:
    """First objective `[P]` of points `[P, 2 J]` of the unit cube."""
    return evaluate(decode(points, problem), problem, objectives)[:, 0]


def library_search(
    method: str, problem: JobProblem, config: JobSearchConfig, target: float = -np.inf
) -> tuple[JobGenes, list[tuple[int, float]]]:
    """Searches one problem for one objective.

    Args:
        method: one of `LIBRARY_METHODS`.
        problem: the problem.
        config: sizes, one objective and the seed.
        target: lower bound of the objective; the population that reaches it, in single precision, is the last.

    Returns:
        Genes `[1, J]` of the best schedule, and (evaluations, best value) after every population.
    """
    import nevergrad  # pyright: ignore[reportMissingImports]

    size = 2 * problem.mask.shape[0]
    space = nevergrad.p.Array(init=np.full(size, 0.5), lower=0.0, upper=1.0)
    space.random_state = np.random.RandomState(config.seed)
    known = nevergrad.optimizers
    make = _PRINTED[method](known) if method in _PRINTED else known.registry[_NEVERGRAD[method]]
    workers = 1 if method in _ONE_BY_ONE else config.population
    optimiser = make(parametrization=space, budget=config.evaluations, num_workers=workers)
    best, value, history = np.full(size, 0.5), np.inf, []
    for step in range(config.generations + 1):
        for _ in range(config.population // workers):
            asked = [optimiser.ask() for _ in range(workers)]
            points = np.stack([one.value for one in asked])
            found = np.asarray(_measure(jnp.asarray(points, jnp.float32), problem, objectives=config.objectives), float)
            for one, loss in zip(asked, found, strict=True):
                optimiser.tell(one, loss)
            if found.min() < value:
                best, value = points[int(found.argmin())], float(found.min())
        history.append((config.population * (step + 1), value))
        if value <= np.float32(target):
            break
    return decode(jnp.asarray(best[None], jnp.float32), problem), history
