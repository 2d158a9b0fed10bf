"""Constraints in a search that only ranks vectors: a row that breaks a limit is worse than all feasible rows.

This is Deb's constrained dominance: feasible rows come before infeasible ones, and infeasible rows are ordered by
violation. All objectives of an infeasible row become one number that grows with its violation, so that plain dominance
gives this order.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_floats

PENALTY = 1e30
"""Smallest objective of an infeasible row; feasible objectives must stay below it."""

_MOST = 1e7  # larger violations count as equal; PENALTY times this is still a finite float32


def constrained(objectives: ArrayLike, violation: ArrayLike) -> jax.Array:
    """Objectives under constraints.

    Args:
        objectives: `[..., M]` floats below `PENALTY`, minimised; infinite where there is no result.
        violation: `[...]` floats, 0 or less where every limit is kept, else the amount by which limits are broken; NaN
            counts as the largest amount.

    Returns:
        `[..., M]` floats: the objectives where feasible, and `PENALTY` times one plus the violation elsewhere. An
        objective of +inf stays, and so does NaN, which counts as +inf.
    """
    objectives, violation = as_floats(objectives), as_floats(violation)
    penalty = PENALTY * (1 + jnp.minimum(jnp.where(jnp.isnan(violation), _MOST, violation), _MOST))
    broken = ~(violation <= 0)[..., None] & jnp.isfinite(objectives)
    return jnp.where(broken, penalty[..., None].astype(objectives.dtype), objectives)


def feasible(objectives: ArrayLike) -> jax.Array:
    """Rows that keep every limit, `[...]` bool, from the objectives `[..., M]` of `constrained`."""
    return jnp.all(jnp.asarray(objectives) < PENALTY, axis=-1)
