"""The front of evaluated designs, and the designs of it that one looks at first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.utilisation import LOW, layer_use, layers_of_little_use
from mohamjax.text import plural

ROLES = ("fastest", "most frugal", "smallest", "knee")
"""Designs of a front over latency, energy and area that one looks at first."""

WINDOW = 10.0
"""Designs that one looks at first take at most so many times the least latency: few would build a slower one."""


def landmarks(
    objectives: npt.ArrayLike,
    measures: Sequence[str] = DEFAULT,
    offset: npt.ArrayLike = 0.0,
    window: float = WINDOW,
) -> dict[str, int]:
    """Rows of the designs that have least of each objective, and of the knee (nearest to ideal on log axes).

    Args:
        objectives: `[N, M]` float, N >= 1.
        measures: names of the objectives.
        offset: `[M]` float, with which they have a logarithm (`measures.offsets`).
        window: designs that take more than so many times the least latency have no role; inf lets all in. Where latency
            is no objective, all are in.

    Returns:
        Row of each role (`ROLES`, or those of the measures and `knee`); one row may have several.
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
    """The finite, mutually non-dominated designs with distinct objectives, by the first of them (latency) upward."""
    return evaluated.take(front_index(evaluated.objectives))


def front_index(objectives: np.ndarray) -> np.ndarray:
    """Rows of the finite, mutually non-dominated, distinct objectives among `[N, M]`, by the first of them upward."""
    finite = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    return finite[emo.distinct_front(objectives[finite])]


def told_of_little_use(front: Evaluated) -> str:
    """A sentence that names the layers of little use of a front; empty where there are none.

    Args:
        front: designs with their reports.
    """
    use = layer_use(front.application, front.tables, front.designs, front.reports)
    idle = layers_of_little_use(front.application, use)
    if not idle:
        return ""
    few = f"{', '.join(idle[:3])}{', ...' if len(idle) > 3 else ''}"
    return f"{plural(len(idle), 'layer')} below {LOW:.0%} of the MACs of the chiplet in every design: {few}"
