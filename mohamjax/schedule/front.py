"""The front of evaluated designs, and the designs of it that one looks at first."""

from __future__ import annotations

from typing import Any

import numpy as np

from mohamjax import emo
from mohamjax.schedule.evaluated import Evaluated

__all__ = ["ROLES", "front_index", "landmarks", "non_dominated"]


ROLES = ("fastest", "most frugal", "smallest", "knee")
"""Designs of a front that one looks at first."""


def landmarks(objectives: Any) -> dict[str, int]:
    """Rows of the fastest, the most frugal and the smallest design and of the knee (nearest to ideal on log axes).

    Args:
        objectives: `[N, 3]` float, N >= 1.

    Returns:
        Row of each of `ROLES`; one row may have several.
    """
    values = emo.with_spare_rows(np.asarray(objectives, float))
    rows = [*(int(i) for i in emo.extremes(values)), int(emo.knee_point(emo.positive(values), log=True))]
    return dict(zip(ROLES, rows, strict=True))


def non_dominated(evaluated: Evaluated) -> Evaluated:
    """The finite, mutually non-dominated designs with distinct objectives, by rising latency."""
    return evaluated.take(front_index(evaluated.objectives))


def front_index(objectives: np.ndarray) -> np.ndarray:
    """Rows of the finite, mutually non-dominated, distinct objectives among `[N, 3]`, by rising latency."""
    order = np.lexsort(objectives.T[::-1])
    keep: list[int] = []
    for i in order:
        row = objectives[i]
        if np.isfinite(row).all() and not any(np.all(objectives[k] <= row) for k in keep):
            keep.append(int(i))
    return np.asarray(keep, int)
