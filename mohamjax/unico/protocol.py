"""How methods are compared: distance to the ideal, hypervolume difference, ratios of means, paired sign tests.

These are reports in double precision on the host. One set of axes serves all methods, networks and seeds of a table, so
that distances are comparable; it is stored with the results.
Source: UNICO, Section 4 (min-Euclidean-distance, hypervolume difference). Its Tables 1 to 3 imply that distances are
taken from the minima on one common min-max scale, and that the headline factors are ratios of means.

Axes: N rows (hardware points), M objectives: latency, power, area.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from mohamjax import emo

REFERENCE = 1.1  # reference point of the hypervolume on every axis


@dataclasses.dataclass(frozen=True)
class Axes:
    """Common min-max axes.

    Attributes:
        low: least value of every objective: the ideal.
        high: largest value of every objective.
        log: whether distances are taken of logarithms.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    log: bool = False

    @classmethod
    def of(cls, rows: npt.ArrayLike, *, log: bool = False) -> Axes:
        """Axes of a union of rows: all feasible ones of every method, network and seed of a table.

        Args:
            rows: `[N, M]`, at least one; positive where the axes are logarithmic.
            log: whether distances are taken of logarithms.

        Raises:
            ValueError: If there is no row, or one is not finite or has no logarithm.
        """
        values = np.asarray(rows, float)
        if values.ndim != 2 or not len(values):
            raise ValueError(f"rows: expected shape [N >= 1, M], got {values.shape}")
        if not np.isfinite(values).all() or (log and (values <= 0).any()):
            raise ValueError(
                "rows: expected finite values, above 0 where axes are logarithmic; leave out the infeasible"
            )
        return cls(tuple(values.min(axis=0).tolist()), tuple(values.max(axis=0).tolist()), log)

    def scaled(self, rows: npt.ArrayLike) -> np.ndarray:
        """Rows `[..., M]` on the axes: 0 at the ideal, 1 at the largest; 0 on an axis without span."""
        values, low, high = (np.asarray(part, float) for part in (rows, self.low, self.high))
        if self.log:
            values, low, high = np.log(values), np.log(low), np.log(high)
        span = high - low
        return np.where(span > 0, (values - low) / np.where(span > 0, span, 1), 0)


def distance_to_ideal(rows: npt.ArrayLike, axes: Axes) -> np.ndarray:
    """Euclidean distance `[...]` of rows `[..., M]` from the ideal on common axes."""
    return np.linalg.norm(axes.scaled(rows), axis=-1)


def nearest_to_ideal(rows: npt.ArrayLike, axes: Axes) -> int:
    """Row of the least distance, the one design that represents a front; ties go to the first row.

    Args:
        rows: `[N, M]`, at least one.
        axes: common axes.
    """
    return int(np.argmin(distance_to_ideal(rows, axes)))


def hypervolume(rows: npt.ArrayLike, axes: Axes) -> float:
    """Hypervolume of rows `[N, M]`, M at most 3, up to the point 1.1 of common axes; 0 without rows."""
    values = np.asarray(rows, float).reshape(-1, len(axes.low))
    return float(emo.hypervolume(emo.with_spare_rows(axes.scaled(values)), np.full(len(axes.low), REFERENCE)))


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
