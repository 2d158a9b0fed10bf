"""All hardware points that a search has measured, as columns on the host.

Axes: n rows, A axes of the space, B generations of the full budget.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mohamjax import emo
from mohamjax.mapping.space import MappingGenes
from mohamjax.unico.axes import Axes, hypervolume, nearest_to_ideal
from mohamjax.unico.bracket import Measured
from mohamjax.unico.space import HardwareSpace

OBJECTIVES = ("latency_s", "power_W", "area_mm2")
"""Objectives of hardware fronts."""

_COLUMNS = {
    "index": np.int64,
    "batch": np.int64,
    "latency_s": np.float64,
    "energy_J": np.float64,
    "power_W": np.float64,
    "area_mm2": np.float64,
    "robustness": np.float64,
    "delta": np.float64,
    "samples": np.int64,
    "generations": np.int64,
    "accepted": np.bool_,
}


@dataclasses.dataclass(frozen=True)
class History:
    """Rows in the order in which they were measured.

    Attributes:
        columns: by name, `[n]`: `index` of the point, its `batch`, `latency_s`, `energy_J` (without leakage),
            `power_W`, `area_mm2`, `robustness` and `delta` (NaN without samples), `samples`, `generations`, and
            `accepted`, whether the row trains the surrogate.
        predicted: `[n, 2, 3]` float64, mean and standard deviation of the logarithms of `OBJECTIVES` that the surrogate
            predicted before the point was measured; NaN where there was no surrogate.
        curves: `[n, 2, B]` float64, latency [s] and power [W] after each generation; inf beyond the last one.
        genes: mappings of the layers, leading axes `[n, U]`.
    """

    columns: dict[str, np.ndarray]
    predicted: np.ndarray
    curves: np.ndarray
    genes: MappingGenes

    def __len__(self) -> int:
        """Rows."""
        return len(self.predicted)

    def __getitem__(self, name: str) -> np.ndarray:
        """A column."""
        return self.columns[name]

    @classmethod
    def empty(cls, rows: int, generations: int, genes: MappingGenes) -> History:
        """A history of `rows` rows of zeros.

        Args:
            rows: n.
            generations: B.
            genes: at least one row of genes, leading axis of rows; only shapes and dtypes are used.
        """
        return cls(
            columns={name: np.zeros(rows, dtype) for name, dtype in _COLUMNS.items()},
            predicted=np.zeros((rows, 2, len(OBJECTIVES))),
            curves=np.zeros((rows, 2, generations)),
            genes=jax.tree.map(lambda leaf: np.zeros((rows, *leaf.shape[1:]), leaf.dtype), genes),
        )

    def append(
        self, found: Measured, curves: tuple[np.ndarray, np.ndarray], predicted: np.ndarray, batch: int
    ) -> History:
        """The history with a batch of new rows, none of them accepted yet."""
        number = len(found.index)
        own = {"batch": np.full(number, batch), "accepted": np.zeros(number, bool)}
        new = own | {name: getattr(found, name) for name in _COLUMNS if name not in own}
        return History(
            columns={
                name: np.concatenate([self.columns[name], np.asarray(new[name], dtype)])
                for name, dtype in _COLUMNS.items()
            },
            predicted=np.concatenate([self.predicted, predicted]),
            curves=np.concatenate([self.curves, np.stack(curves, axis=1)]),
            genes=jax.tree.map(lambda a, b: np.concatenate([a, np.asarray(b)]), self.genes, found.genes),
        )

    @property
    def first(self) -> np.ndarray:
        """`[n]` bool, true for the first row of each point; later rows are of points that were finished."""
        out = np.zeros(len(self), bool)
        out[np.unique(self.columns["index"], return_index=True)[1]] = True
        return out

    def renewed(self, batch: int) -> History:
        """The history in which the rows of a batch of finished points replace their earlier rows for the surrogate."""
        index, accepted = self.columns["index"], self.columns["accepted"].copy()
        for i in np.flatnonzero(self.columns["batch"] == batch):
            earlier = np.flatnonzero(index[:i] == index[i])
            accepted[i] = accepted[earlier].any()
            accepted[earlier] = False
        return self.accept(accepted)

    def expected(self) -> np.ndarray:
        """`[n, 3]` float64, `OBJECTIVES` that stopped points would be expected to reach with the full budget.

        Latency and power of a point stopped after b generations are multiplied by the geometric mean, over the points
        of full budget, of their value at the end over their value after b generations.
        """
        generations, values = self.columns["generations"], self.objectives
        full = np.flatnonzero(generations == self.curves.shape[2])
        for b in np.unique(generations):
            then, end = self.curves[full][:, :, b - 1], self.curves[full][:, :, -1]
            there = np.isfinite(then).all(axis=1) & np.isfinite(end).all(axis=1)
            if there.any():
                gain = np.exp(np.mean(np.log(end[there]) - np.log(then[there]), axis=0))
                values[generations == b, :2] *= gain
        return values

    def accept(self, accepted: np.ndarray) -> History:
        """The history with another column `accepted`."""
        return dataclasses.replace(self, columns={**self.columns, "accepted": np.asarray(accepted, bool)})

    @property
    def objectives(self) -> np.ndarray:
        """`[n, 3]` float64, `OBJECTIVES`."""
        return np.stack([self.columns[name] for name in OBJECTIVES], axis=1)

    @property
    def valid(self) -> np.ndarray:
        """`[n]` bool, rows with a valid mapping of every layer."""
        return np.asarray(np.isfinite(self.objectives).all(axis=1))

    def within(self, cap: float | None) -> np.ndarray:
        """`[n]` bool, valid rows within the limit on power [W]."""
        return self.valid & (self.columns["power_W"] <= (np.inf if cap is None else cap))

    def front(self, cap: float | None) -> np.ndarray:
        """Indices of the non-dominated rows within the limit on power [W], by rising latency."""
        rows = np.flatnonzero(self.within(cap))
        return rows[emo.distinct_front(self.objectives[rows])]

    def costs(self) -> np.ndarray:
        """`[n]` int64, generations, summed over hardware points, spent up to the end of each row's batch."""
        batch, own = self.columns["batch"], self.columns["generations"]
        ends = np.cumsum(np.bincount(batch, weights=own, minlength=int(batch.max(initial=-1)) + 1))
        return ends[batch].astype(np.int64)


def worth_finishing(history: History, cap: float | None, *, aimed: bool) -> list[int]:
    """Rows of the front by the hypervolume that each adds, largest first (logarithmic min-max axes, up to 1.1).

    Args:
        history: rows so far.
        cap: limit on power [W], or None.
        aimed: whether the rows nearest to the ideal, on linear and on logarithmic axes, come before all others.
    """
    rows = history.front(cap)
    if not len(rows):
        return []
    values, within = history.objectives[rows], history.objectives[history.within(cap)]
    linear, logarithmic = (Axes.of(within, log=log) for log in (False, True))
    left = [hypervolume(np.delete(values, i, axis=0), logarithmic) for i in range(len(rows))]
    nearest = [nearest_to_ideal(values, axes) for axes in (linear, logarithmic)] if aimed else []
    return [int(rows[i]) for i in dict.fromkeys([*nearest, *np.argsort(left, kind="stable")])]


def unico_fit(space: HardwareSpace, digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Power [W] and area [mm^2] of points `[N, A]` of digits, from a fit to 18 configurations of UNICO's cloud table.

    The fit is by non-negative relative least squares; the median error is 1.6 % in power and 3.5 % in area. Power
    hardly depends on the mapping there, so R has only its latency part.

    Raises:
        ValueError: the space has no axes of these names.
    """
    names = [axis.name for axis in space.axes]
    if not {"pe_x", "pe_y", "local_bytes", "shared_bytes", "noc_bits"} <= set(names):
        raise ValueError(f"space: the fit is for unico-edge and unico-cloud, got {space.name}")

    def column(name: str) -> np.ndarray:
        a = names.index(name)
        return np.asarray(space.axes[a].values, float)[digits[:, a]]

    pes = column("pe_x") * column("pe_y")
    local, shared, noc = column("local_bytes") / 1024, column("shared_bytes") / 2**20, column("noc_bits")
    power = 12.03 * pes + 1.07 * pes * local + 7.46 * shared + 0.0807 * noc + 0.26
    area = 0.0511 * pes + 0.0199 * pes * local + 0.233 * shared + 0.00164 * pes * noc + 0.138
    return power * 1e-3, area
