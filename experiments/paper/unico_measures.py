"""How methods are compared: hypervolume difference, cost to reach a value, ratios of means, paired sign tests.

These are reports in double precision on the host. Source: UNICO, Section 4; its Tables 1 to 3 imply that the headline
factors are ratios of means.

Axes: N rows (hardware points), M objectives: latency, power, area.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from mohamjax.unico.axes import Axes, hypervolume


def hypervolume_difference(front: npt.ArrayLike, reference: npt.ArrayLike, axes: Axes) -> float:
    """1 - HV(front) / HV(reference) up to the point 1.1 of common axes: 0 equals the reference, 1 is the worst.

    Args:
        front: `[N, M]`, M at most 3; may be empty.
        reference: `[N, M]`, union of the fronts of all methods and seeds.
        axes: axes of the reference, usually logarithmic.

    Raises:
        ValueError: If the reference has no hypervolume.
    """
    whole = hypervolume(reference, axes)
    if not whole > 0:
        raise ValueError("reference: its hypervolume is 0; no row is below the reference point")
    return 1 - hypervolume(front, axes) / whole


def cost_to_reach(costs: npt.ArrayLike, values: npt.ArrayLike, target: float) -> float:
    """Least cost at which a run reaches a value, such as another method's final distance.

    Args:
        costs: `[T]`, ascending.
        values: `[T]`, value at each cost, minimised; the best so far counts.
        target: value to reach.

    Returns:
        The cost, or inf if the run never reaches the value.
    """
    reached = np.asarray(values, float) <= target
    return float(np.asarray(costs, float)[np.argmax(reached)]) if reached.any() else float("inf")


def ratio_of_means(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Mean of `theirs` over mean of `ours`, both over networks: the factor by which ours are better."""
    return float(np.mean(np.asarray(theirs, float)) / np.mean(np.asarray(ours, float)))


def mean_of_ratios(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Mean over networks of `theirs / ours`; a single small value of `ours` can dominate it."""
    return float(np.mean(np.asarray(theirs, float) / np.asarray(ours, float)))


@dataclasses.dataclass(frozen=True)
class SignTest:
    """Paired comparison of two methods over seeds, smaller is better.

    Attributes:
        wins: pairs in which the first is smaller.
        losses: pairs in which the second is smaller.
        ties: pairs of equal values, which the test leaves out.
        p: two-sided p-value: probability of a count at least as uneven if neither is better.
        median: median of first minus second.
    """

    wins: int
    losses: int
    ties: int
    p: float
    median: float


def sign_test(first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray) -> SignTest:
    """Exact paired sign test.

    Args:
        first: `[seeds]`, values of one method, minimised; inf where it found nothing.
        second: `[seeds]`, values of the other method under the same seeds.

    Raises:
        ValueError: If the lengths differ, there is no pair or a value is NaN.
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.shape != b.shape or a.ndim != 1 or not len(a) or np.isnan([a, b]).any():
        raise ValueError(f"expected pairs of one length, at least one, without NaN, got {a.shape} and {b.shape}")
    wins, losses = int((a < b).sum()), int((a > b).sum())
    p = float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    with np.errstate(invalid="ignore"):
        difference = np.where(a == b, 0, a - b)
    return SignTest(wins, losses, len(a) - wins - losses, p, float(np.median(difference)))
