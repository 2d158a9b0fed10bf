"""The price of robustness: packages for several application models beside those for one, model by model.

Fronts of three objectives are compared on a plane: how little latency times energy a package of some area can have. The
price is the ratio of two such curves, as its geometric mean over the areas (on a log axis) that both fronts reach.

Axes: N designs.
"""

from __future__ import annotations

import dataclasses

import numpy as np

ALL = "all models"
"""In the place of a model: the objectives over all of them."""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How robust packages and those made for the nominal model alone serve one model.

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
        """What robust packages have of the latency times energy of nominal ones; NaN where there is nothing to say."""
        return price(self.robust, self.nominal)

    @property
    def runs(self) -> tuple[int, int]:
        """Robust and nominal packages that the model runs on."""
        robust, nominal = (int(np.isfinite(x).all(axis=1).sum()) for x in (self.robust, self.nominal))
        return robust, nominal


def staircase(objectives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Areas, rising, and the least latency times energy of designs up to each of them, falling.

    Args:
        objectives: `[N, 3]` float; rows that are not finite do not count.

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

    From the least area that both reach to the largest at which one still gains; NaN where a front is empty.

    Args:
        paid: `[N, 3]` float.
        asked: `[K, 3]` float.

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
