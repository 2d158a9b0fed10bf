"""When to stop: the stability rule of Roudenko and Schoenauer.

Source: "A steady performance stopping criterion for Pareto-based evolutionary algorithms", 2004.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_objectives, narrowed, precision
from mohamjax.emo.ranking import crowding_distance


def stability(objectives: ArrayLike, rank: ArrayLike) -> jax.Array:
    """Largest finite crowding distance of the first front; 0 if it has none.

    The extremes of a front have infinite distance and do not count. Jitted; N and M are static. Vmappable.

    Args:
        objectives: `[N, M]` floats, minimised.
        rank: `[N]` integers from `non_dominated_rank`.

    Returns:
        `[]`, dtype of the objectives.
    """
    with precision(objectives):
        found = _stability(as_objectives(objectives), jnp.asarray(rank))
    return narrowed(found, objectives)


@jax.jit
def _stability(f: jax.Array, rank: jax.Array) -> jax.Array:
    crowding = crowding_distance(f, rank)
    return jnp.max(crowding, initial=0, where=(rank == 0) & jnp.isfinite(crowding))


def should_stop(history: Sequence[float], window: int = 40, delta: float = 0.02) -> bool:
    """Whether the search has settled: the last `window` values of `stability` hardly vary.

    True once at least `window` generations are done and the population standard deviation of the last
    `window` values is below `delta`. Runs on the host. A value that is not finite never lets the search stop.

    Args:
        history: One value of `stability` per generation, oldest first.
        window: L of the paper.
        delta: Threshold below which the standard deviation must be.

    Raises:
        ValueError: If `window` is not positive.
    """
    if window < 1:
        raise ValueError(f"window: expected at least 1 generation, got {window}")
    if len(history) < window:
        return False
    last = np.asarray(history[-window:], np.float64)
    return bool(np.all(np.isfinite(last)) and np.std(last) < delta)
