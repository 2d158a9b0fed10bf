"""How fronts are measured on common axes: distance to the ideal and hypervolume.

These are reports in double precision on the host. One set of axes serves all methods, networks and seeds of a table, so
that distances are comparable; it is stored with the results.
Source: UNICO, Section 4 (min-Euclidean-distance, hypervolume difference). Its Tables 1 to 3 imply that distances are
taken from the minima on one common min-max scale.

Axes: N rows (hardware points), M objectives: latency, power, area.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

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
