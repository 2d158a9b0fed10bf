"""The front of evaluated designs, and the designs of it that one looks at first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.measures import DEFAULT, measure_named

ROLES = ("fastest", "most frugal", "smallest", "knee")
"""Designs of a front over latency, energy and area that one looks at first."""


def landmarks(
    objectives: npt.ArrayLike, measures: Sequence[str] = DEFAULT, offset: npt.ArrayLike = 0.0
) -> dict[str, int]:
    """Rows of the designs that have least of each objective, and of the knee (nearest to ideal on log axes).

    Args:
        objectives: `[N, M]` float, N >= 1.
        measures: names of the objectives.
        offset: `[M]` float, with which they have a logarithm (`measures.offsets`).

    Returns:
        Row of each role (`ROLES`, or those of the measures and `knee`); one row may have several.
    """
    rows = emo.landmark_rows(np.asarray(objectives, float) + np.asarray(offset))
    return dict(zip([*(measure_named(name).role for name in measures), ROLES[-1]], rows, strict=True))


def non_dominated(evaluated: Evaluated) -> Evaluated:
    """The finite, mutually non-dominated designs with distinct objectives, by the first of them (latency) upward."""
    return evaluated.take(front_index(evaluated.objectives))


def front_index(objectives: np.ndarray) -> np.ndarray:
    """Rows of the finite, mutually non-dominated, distinct objectives among `[N, M]`, by the first of them upward."""
    finite = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    return finite[emo.distinct_front(objectives[finite])]
