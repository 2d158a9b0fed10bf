"""The front of evaluated designs, and the designs on it to look at first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.utilisation import layer_use, layers_that_fill_no_template, told_of_idle, told_of_unfilled

ROLES = ("fastest", "most frugal", "smallest", "knee")
"""Roles of the designs to look at first on a front over latency, energy and area."""

WINDOW = 10.0
"""A design with a role takes at most this many times the least latency: few would build a slower one."""


def landmarks(
    objectives: npt.ArrayLike,
    measures: Sequence[str] = DEFAULT,
    offset: npt.ArrayLike = 0.0,
    window: float = WINDOW,
) -> dict[str, int]:
    """Rows of the designs with the least of each objective, and of the knee (nearest to the ideal on log axes).

    Args:
        objectives: `[N, M]` float, N >= 1.
        measures: names of the objectives.
        offset: `[M]` float, added to the objectives before logarithms are taken (`measures.offsets`).
        window: designs that take more than this many times the least latency have no role; with inf all may have one,
            and also where latency is no objective.

    Returns:
        Row of each role (`ROLES`, or those of the measures and `knee`), -1 for a knee without finite rows; one row may
        have several roles.
    """
    values, inside = np.asarray(objectives, float) + np.asarray(offset), slice(None)
    if "latency" in measures:
        latency = values[:, list(measures).index("latency")]
        if np.isfinite(latency).any():
            inside = np.flatnonzero(latency <= window * np.nanmin(latency))
    rows = np.arange(len(values))[inside]
    found = [int(rows[i]) if i >= 0 else -1 for i in emo.landmark_rows(values[inside])]
    return dict(zip([*(measure_named(name).role for name in measures), ROLES[-1]], found, strict=True))


def non_dominated(evaluated: Evaluated) -> Evaluated:
    """The finite, mutually non-dominated designs with distinct objectives, by rising first objective (latency)."""
    return evaluated.take(front_index(evaluated.objectives))


def front_index(objectives: np.ndarray) -> np.ndarray:
    """Rows of the finite, mutually non-dominated, distinct objectives among `[N, M]`, by rising first objective."""
    finite = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    return finite[emo.distinct_front(objectives[finite])]


def told_of_little_use(front: Evaluated) -> list[str]:
    """Sentences that name layers with a low utilisation: whatever their mapping, and in every design of a front.

    Args:
        front: designs with their reports.
    """
    unfilled = layers_that_fill_no_template(front, front.tables)
    use = layer_use(front.application, front.tables, front.designs, front.reports)
    told = (told_of_unfilled(unfilled), told_of_idle(front.application, use, unfilled))
    return [line for line in told if line]
