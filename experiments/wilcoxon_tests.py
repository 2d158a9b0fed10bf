"""Tests of samples and effect sizes: Wilcoxon's two tests, Holm's correction, Vargha and Delaney's A12."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import mannwhitneyu, wilcoxon


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction of several p values."""
    order = np.argsort(p)
    out, worst = [0.0] * len(p), 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, p[i] * (len(p) - place)))
        out[i] = worst
    return out


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sided p of our seeds against others by Wilcoxon's rank-sum test; against one value by signed ranks.

    Exact where no values are equal; with ties a bit too small.
    """
    if len(theirs) > 1:
        return float(mannwhitneyu(ours, theirs, method="exact").pvalue)
    return float(wilcoxon(np.asarray(ours) - theirs[0], method="exact").pvalue)


def rank_sum(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[float]:
    """`p_value` of every pair of samples, of several values each, after Holm's correction over all."""
    return holm([p_value(a, b) for a, b in pairs])


def signed_rank(differences: Sequence[npt.ArrayLike]) -> list[float]:
    """Two-sided p of Wilcoxon's signed-rank test for every array of paired differences, after Holm over all.

    Pairs without a difference are left out; where none has one, p is 1.
    """
    kept = [np.asarray(gap, float)[np.asarray(gap, float) != 0] for gap in differences]
    return holm([float(wilcoxon(gap).pvalue) if len(gap) else 1.0 for gap in kept])


def a12(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Vargha and Delaney's effect size: how often a value of the first is larger than one of the second, ties half."""
    a, b = np.asarray(first)[:, None], np.asarray(second)[None]
    return float(((a > b) + 0.5 * (a == b)).mean())
