"""Optimisers of nevergrad on the encoding of G# (Section 4.4), as the paper used them; extra `baselines`.

A schedule is a point of the unit cube (`job_problem.decode`). The optimiser is asked for a population at a time, which
is evaluated in one call.
"""

from __future__ import annotations

import functools

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

LIBRARY_METHODS = tuple(_NEVERGRAD)
"""Methods of Table 5 that run through nevergrad with its own settings."""


@functools.partial(jax.jit, static_argnames="objectives")
def _measure(points: jax.Array, problem: JobProblem, *, objectives: tuple[str, ...]) -> jax.Array:
    """`[P]`, the first objective of points of the unit cube `[P, 2 J]`."""
    return evaluate(decode(points, problem), problem, objectives)[:, 0]


def library_search(
    method: str, problem: JobProblem, config: JobSearchConfig
) -> tuple[JobGenes, list[tuple[int, float]]]:
    """Searches one problem for one objective.

    Args:
        method: of `LIBRARY_METHODS`.
        problem: the problem.
        config: sizes, one objective and the seed.

    Returns:
        Genes `[1, J]` of the best schedule, and (evaluations, best value) after every population.
    """
    import nevergrad  # pyright: ignore[reportMissingImports]

    size = 2 * problem.mask.shape[0]
    space = nevergrad.p.Array(init=np.full(size, 0.5), lower=0.0, upper=1.0)
    space.random_state = np.random.RandomState(config.seed)
    optimiser = nevergrad.optimizers.registry[_NEVERGRAD[method]](
        parametrization=space, budget=config.evaluations, num_workers=config.population
    )
    best, value, history = np.full(size, 0.5), np.inf, []
    for step in range(config.generations + 1):
        asked = [optimiser.ask() for _ in range(config.population)]
        points = np.stack([one.value for one in asked])
        found = np.asarray(_measure(jnp.asarray(points, jnp.float32), problem, objectives=config.objectives), float)
        for one, loss in zip(asked, found, strict=True):
            optimiser.tell(one, loss)
        if found.min() < value:
            best, value = points[int(found.argmin())], float(found.min())
        history.append((config.population * (step + 1), value))
    return decode(jnp.asarray(best[None], jnp.float32), problem), history
