"""The price of robustness: packages for several application models compared with those for one, model by model.

Fronts of three objectives are compared on a plane: the least latency times energy of a package up to some area. The
price is the ratio of two such curves: its geometric mean over the areas (on a log axis) that both fronts reach.

Axes: N designs.
"""

from __future__ import annotations

import dataclasses

import numpy as np

ALL = "all models"
"""Stands for a model's name where objectives are over all models."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How robust packages, and those made for the nominal model alone, serve one model.

    Attributes:
        model: its name.
        role: `nominal`, `searched`, `held out`, or `all` for the objectives over all searched models.
        robust: `[N, 3]` float, latency [s], energy [J], area [mm^2]; inf where the model does not run.
        nominal: `[K, 3]` float, the same objectives of nominal packages; K is 0 where there is no nominal front.
    """

    model: str
    role: str
    robust: np.ndarray
    nominal: np.ndarray

    @property
    def price(self) -> float:
        """Latency times energy of robust packages over that of nominal ones (`price`); NaN where a front is empty."""
        return price(self.robust, self.nominal)

    @property
    def runs(self) -> tuple[int, int]:
        """Numbers of robust and of nominal packages that the model runs on."""
        robust, nominal = (int(np.isfinite(x).all(axis=1).sum()) for x in (self.robust, self.nominal))
        return robust, nominal


def staircase(objectives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Areas, rising, and the least latency times energy of designs up to each of them, falling.

    Args:
        objectives: `[N, 3]` float; rows that are not finite are ignored.

    Examples:
        >>> staircase(np.array([[2.0, 2.0, 3.0], [1.0, 1.0, 5.0], [3.0, 3.0, 4.0]]))
        (array([3., 5.]), array([4., 1.]))
    """
    known = objectives[np.isfinite(objectives).all(axis=1)]
    area, product = known[:, 2], known[:, 0] * known[:, 1]
    order = np.lexsort((product, area))
    area, product = area[order], product[order]
    better = product < np.minimum.accumulate(np.append(np.inf, product[:-1]))
    return area[better], product[better]


def price(paid: np.ndarray, asked: np.ndarray) -> float:
    """Latency times energy of one front over that of another at equal area, the geometric mean over log areas.

    Areas range from the least that both reach to the largest at which either still gains; NaN where a front is empty.

    Args:
        paid: `[N, 3]` float, objectives of the one front.
        asked: `[K, 3]` float, objectives of the other.

    Examples:
        >>> price(np.array([[2.0, 2.0, 1.0]]), np.array([[1.0, 1.0, 1.0]]))
        4.0
    """
    (x, y), (u, v) = staircase(paid), staircase(asked)
    if not (len(x) and len(u)):
        return float("nan")
    low, high = max(x[0], u[0]), max(x[-1], u[-1])
    steps = np.unique(np.clip(np.concatenate([x, u]), low, high))
    ratio = np.log(y[np.searchsorted(x, steps, "right") - 1]) - np.log(v[np.searchsorted(u, steps, "right") - 1])
    widths = np.diff(np.log(steps))
    if not widths.sum() > 0:
        return float(np.exp(ratio[0]))
    return float(np.exp(np.sum(ratio[:-1] * widths) / widths.sum()))
