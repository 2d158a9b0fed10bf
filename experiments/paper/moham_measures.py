"""Measures of fronts over latency, energy and area, all minimised: quality against a reference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def _beaten(points: Array, by: Array) -> Array:
    """`[N]` bool, which rows of `[N, M]` some row of `[K, M]` dominates."""
    least: Array = np.all(by[None] <= points[:, None], axis=2)
    less: Array = np.any(by[None] < points[:, None], axis=2)
    return np.any(least & less, axis=1)


def non_dominated(points: Array) -> Array:
    """The distinct rows of `[N, M]` that no other row dominates."""
    points = np.unique(points, axis=0)
    keep = np.ones(len(points), bool)
    for i in range(0, len(points), 256):
        block = points[i : i + 256]
        keep[i : i + 256] = ~_beaten(block, points)
    return points[keep]


def dominated_share(points: Array, by: Array) -> float:
    """Share of the rows `[N, M]` that some row of `by` `[K, M]` dominates (MOHaM, Section VI-B6)."""
    return float(np.mean(_beaten(points, by)))


def scaled(points: Array, ideal: Array, reference: Array) -> Array:
    """Objectives on log axes, 0 at the ideal point and 1 at the reference point of a search's box."""
    return np.log(points / ideal) / np.log(reference / ideal)


def igd_plus(front: Array, reference: Array) -> float:
    """IGD+ of a front `[N, M]` against a reference front `[K, M]`, on scaled axes (Ishibuchi et al., 2015)."""
    gap = np.maximum(front[None] - reference[:, None], 0.0)
    return float(np.sqrt((gap**2).sum(axis=2)).min(axis=1).mean())


def additive_epsilon(front: Array, reference: Array) -> float:
    """The least amount to take off a front so that it weakly dominates the reference (Zitzler et al., 2003)."""
    return float((front[None] - reference[:, None]).max(axis=2).min(axis=1).max())


def median(values: Sequence[float]) -> str:
    """Median, and the quartiles where there are several values."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.4g}" if len(values) == 1 else f"{middle:.4g} ({low:.4g} to {high:.4g})"
