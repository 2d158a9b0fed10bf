"""Bounds along the whole front: the least energy of any design up to some area and latency.

`scenario_bounds` gives one number per objective. Here the bounds of one objective depend on the others: a surface
(least energy over area and latency) and its three curves, one for each pair of objectives. The part of a box that they
do not exclude bounds the hypervolume of every front over the same tables: a certified gap for the search's own.

The bounds hold for every design over the Pareto tables that has at most N chiplets, each as large as its layers need.
Let such a design have latency T, energy E and area A, and let layer l run by mapping c on one of its chiplets. Write d
for the cycles that c takes with its interface to itself, b for its bytes off-chip, s for the least area of a chiplet
(with its share of the package) that runs c, and e for the least energy of l by c on any chiplet
(`bounds.least_costs`). Then

1. *Room.* s + r <= A, where r is 0 if c's template runs every layer, else the largest of the least s of the
   layers that it does not run: these need a chiplet of another template. No A is below `bounds.least_area`.
2. *Path.* The d of the layers on any path of the graph add up to at most T. So every d is at most T minus the least
   durations of the other layers on the longest path through l.
3. *Work.* A chiplet runs one layer at a time: the sum of all d is at most n T, where n <= N chiplets run something and
   n times the least s is at most A.
4. *Area-work.* The d of the layers of chiplet k add up to at most T, and each of their s is at most the area of k.
   Hence the sum of d s over the layers of k is at most T times its area, and over all layers at most T A.
5. *Traffic.* The sum of all b is at most B T, where B is the bandwidth of the interfaces that n chiplets use, or that
   of the DRAM if less. Where others may stand idle, n chiplets use at most n of a larger package's interfaces.
6. *Energy.* The sum of all e is at most E.

Every d >= 0 is at most the time between start and end of its layer in the fluid model, which only slows layers down.
Give 2 to 5 prices of 0 or more: x for one path of each network, then v, y and z. The priced right sides add up to at
least the priced left sides. These are sums over layers, where each term is at least its minimum over the mappings that
have room (Lagrangian relaxation; any prices give a bound):

    E + (sum of x + v n + y A + z B) T >= sum over layers of min over c of (e + x d [l on its path] + v d + y d s + z b)

The same inequality without E and e bounds T alone. The bounds fall as A or T rises, since then a right side grows and
the minima are over more mappings; a value at the upper end of a cell therefore holds in the whole cell.

Axes: U unique layers, C mappings of a layer on all templates by rising room, L layers, W networks, X prices, J cells of
area, K cells of latency. Cycles, pJ and um^2 inside, seconds, J and mm^2 outside. Host-side NumPy in double precision.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import abc
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.hardware import PackageParameters, package_tables
from mohamjax.mapping import MappingTables, Wires
from mohamjax.schedule.bounds import (
    ChipletSizes,
    dram_bandwidth,
    fewest_hops,
    isolated_cycles,
    layer_copies,
    least_area,
    least_costs,
    most_interfaces,
    valid_mappings,
)
from mohamjax.schedule.design import CYCLE_S, OBJECTIVES
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel

_CELLS = 128
"""Cells along each axis, and the most breakpoints of mappings that are added to their edges."""

_ROUNDING = 1e-9
"""All costs are lowered by this share, so that rounding in an evaluation cannot cross a step of a bound."""

_PATH_PRICES, _SHARED_PRICES, _TRAFFIC_PRICES = 16, 10, 3
"""Number of prices tried for paths, for work and area-work each, and for traffic, besides the price 0."""


# ---------------------------------------------------------------- what bounds are


@dataclasses.dataclass(frozen=True)
class Staircase:
    """A falling step function: designs whose first objective is below `at[k + 1]` have a second of at least `least[k]`.

    Attributes:
        at: `[K]` float, rising; no design is below the first.
        least: `[K]` float, falling.
    """

    at: np.ndarray
    least: np.ndarray

    def __call__(self, first: npt.ArrayLike) -> np.ndarray:
        """Least second objective of designs with the given first one; inf where there are no such designs."""
        k = np.searchsorted(self.at, np.asarray(first, float), side="right") - 1
        return np.where(k < 0, np.inf, self.least[np.maximum(k, 0)])

    def inverse(self, second: npt.ArrayLike) -> np.ndarray:
        """Least first objective of designs with the given second one; inf where there are no such designs.

        A design with second objective y is in no cell k with `least[k]` > y; as `least` falls, these cells come first.
        """
        k = np.searchsorted(-self.least, -np.asarray(second, float), side="left")
        return np.where(k == len(self.at), np.inf, self.at[np.minimum(k, len(self.at) - 1)])

    def to_list(self) -> list[list[float]]:
        """The steps as pairs, for files."""
        return np.stack([self.at, self.least], axis=1).tolist()

    @classmethod
    def from_list(cls, pairs: Sequence[Sequence[float]]) -> Staircase:
        """The staircase that `to_list` wrote.

        Raises:
            ValueError: the pairs are no falling staircase of finite numbers of 0 or more.
        """
        try:
            rows = np.asarray(pairs, float)
        except OverflowError:
            rows = np.empty((0, 2))
        if rows.ndim != 2 or rows.shape[1] != 2 or not len(rows) or not (np.isfinite(rows) & (rows >= 0)).all():
            raise ValueError("a staircase is pairs of finite numbers that are not negative")
        if (np.diff(rows[:, 0]) <= 0).any() or (np.diff(rows[:, 1]) > 0).any():
            raise ValueError("a staircase rises in its first column and falls in its second")
        return cls(at=rows[:, 0], least=rows[:, 1])


_LARGEST = sys.float_info.max

_CURVES = {
    "latency_of_area": ("area_mm2", "latency_s"),
    "energy_of_area": ("area_mm2", "energy_J"),
    "energy_of_latency": ("latency_s", "energy_J"),
}


@dataclasses.dataclass(frozen=True)
class FrontCurves:
    """One curve for each pair of objectives; `Staircase.inverse` reads it in the other direction.

    Attributes:
        latency_of_area: least latency [s] of designs up to an area [mm^2].
        energy_of_area: least energy [J] of designs up to an area [mm^2].
        energy_of_latency: least energy [J] of designs up to a latency [s].
    """

    latency_of_area: Staircase
    energy_of_area: Staircase
    energy_of_latency: Staircase

    def to_dict(self) -> dict[str, object]:
        """For files: the names of both columns, and the steps, of each curve."""
        return {
            name: {"columns": list(columns), "steps": getattr(self, name).to_list()}
            for name, columns in _CURVES.items()
        }

    @classmethod
    def from_dict(cls, data: abc.Mapping[str, object]) -> FrontCurves:
        """The curves that `to_dict` wrote.

        Raises:
            ValueError: a curve is missing, is no staircase, or has other columns.
        """
        curves: dict[str, Staircase] = {}
        for name, columns in _CURVES.items():
            row = data.get(name)
            if not isinstance(row, abc.Mapping) or list(row.get("columns", ())) != list(columns):
                raise ValueError(f"{name} has no columns {' and '.join(columns)}")
            curves[name] = Staircase.from_list(row.get("steps", ()))
        return cls(**curves)


@dataclasses.dataclass(frozen=True)
class FrontBounds:
    """Least energy over area and latency, in cells that end where the next begins; the last ones have no end.

    A design of area below `area_mm2[j + 1]` and latency below `latency_s[k + 1]` has latency `least_latency_s[j]` or
    more and energy `least_energy_J[j, k]` or more, inf where there is no such design. No design has an area or latency
    below the first cell.

    Attributes:
        area_mm2: `[J]` float, where cells begin, rising [mm^2].
        latency_s: `[K]` float, where cells begin, rising [s].
        least_latency_s: `[J]` float, falling [s].
        least_energy_J: `[J, K]` float, falling along both axes [J].
    """

    area_mm2: np.ndarray
    latency_s: np.ndarray
    least_latency_s: np.ndarray
    least_energy_J: np.ndarray

    def excludes(self, objectives: npt.ArrayLike) -> np.ndarray:
        """Which points `[..., 3]` (latency [s], energy [J], area [mm^2]) no design reaches, `[...]` bool."""
        latency, energy, area = np.moveaxis(np.asarray(objectives, float), -1, 0)
        j = np.searchsorted(self.area_mm2, area, side="right") - 1
        k = np.searchsorted(self.latency_s, latency, side="right") - 1
        outside = (j < 0) | (k < 0)
        j, k = np.maximum(j, 0), np.maximum(k, 0)
        return outside | (latency < self.least_latency_s[j]) | (energy < self.least_energy_J[j, k])

    @classmethod
    def reached(cls, objectives: npt.ArrayLike) -> FrontBounds:
        """The surface that designs reach, in the same form as bounds, so that a front can be compared with them.

        Args:
            objectives: `[N, 3]` float, N >= 1: latency [s], energy [J], area [mm^2], finite.
        """
        latency, energy, area = np.asarray(objectives, float).T
        at_area, at_latency = np.unique(area), np.unique(latency)
        least = np.full((len(at_area), len(at_latency)), np.inf)
        np.minimum.at(least, (np.searchsorted(at_area, area), np.searchsorted(at_latency, latency)), energy)
        fastest = np.full(len(at_area), np.inf)
        np.minimum.at(fastest, np.searchsorted(at_area, area), latency)
        return cls(
            area_mm2=at_area,
            latency_s=at_latency,
            least_latency_s=np.minimum.accumulate(fastest),
            least_energy_J=np.minimum.accumulate(np.minimum.accumulate(least, axis=0), axis=1),
        )

    @property
    def curves(self) -> FrontCurves:
        """The bounds of each pair of objectives; the third one is in its last cell, which has no upper end."""
        feasible = np.isfinite(self.least_energy_J[-1])
        return FrontCurves(
            latency_of_area=_staircase(self.area_mm2, self.least_latency_s),
            energy_of_area=_staircase(self.area_mm2, self.least_energy_J[:, -1]),
            energy_of_latency=_staircase(self.latency_s[feasible], self.least_energy_J[-1, feasible]),
        )

    def hypervolume(self, ideal: npt.ArrayLike, reference: npt.ArrayLike) -> float:
        """Upper bound of the hypervolume of every front, measured as in the search: in a box, on log axes.

        A point is dominated only if a design is at or below it in all three objectives. That design's area and latency
        lie in the point's cell (j, k) or in an earlier one, so its latency and energy, and hence the point's, are at
        least `least_latency_s[j]` and `least_energy_J[j, k]`. The volume of all points that satisfy this is the most
        that a front can dominate. Designs beyond the ideal point are moved onto its planes, where they dominate the
        same part of the box.

        Args:
            ideal: `[3]` float, the box's lower corner: latency [s], energy [J], area [mm^2].
            reference: `[3]` float, its upper corner.

        Returns:
            Share of the box, in [0, 1].
        """
        low, high = (np.log(np.asarray(x, float)) for x in (ideal, reference))

        def place(values: np.ndarray, objective: int) -> np.ndarray:
            with np.errstate(divide="ignore"):
                scaled = (np.log(values) - low[objective]) / (high[objective] - low[objective])
            return np.clip(scaled, 0.0, 1.0)

        depth = np.diff(place(np.append(self.area_mm2, np.inf), 2))
        edges = np.append(self.latency_s, np.inf)
        start = np.maximum(edges[:-1], self.least_latency_s[:, None])
        width = np.maximum(place(edges[1:], 0) - place(start, 0), 0.0)
        height = 1.0 - place(self.least_energy_J, 1)
        return float(depth @ (width * height).sum(axis=1))


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The share that a front reaches of the hypervolume that the bounds allow.

    Attributes:
        curves: bounds that no design is below.
        hypervolume: share of the box that the front dominates, on log axes.
        most: largest share of the box that any front can dominate, on log axes.
        ideal: lower corner of the box: latency [s], energy [J], area [mm^2].
        reference: its upper corner.
    """

    curves: FrontCurves
    hypervolume: float
    most: float
    ideal: tuple[float, float, float]
    reference: tuple[float, float, float]

    @property
    def share(self) -> float:
        """Hypervolume of the front divided by its bound, 1 where there is nothing to dominate."""
        return self.hypervolume / self.most if self.most > 0 else 1.0

    def out_of_reach(self, most: Sequence[float]) -> str | None:
        """A sentence on why no design over the mappings stays within limits; None where the bounds do not exclude it.

        Args:
            most: `[3]`, upper limits of latency [s], energy [J] and area [mm^2]; inf where there is none.
        """
        limits: dict[str, float] = dict(zip(OBJECTIVES, most, strict=True))
        for name, (given, bounded) in _CURVES.items():
            curve: Staircase = getattr(self.curves, name)
            for first, second, bound in ((given, bounded, curve), (bounded, given, curve.inverse)):
                least = float(bound(min(limits[first], _LARGEST)))
                if least <= limits[second]:
                    continue
                within = "" if math.isinf(limits[first]) else f" within {_told(first, limits[first])}"
                if math.isinf(least):
                    return f"no design over the mappings found stays{within}"
                return f"no design over the mappings found takes less than {_told(second, least)}{within}"
        return None

    def to_dict(self) -> dict[str, object]:
        """The contents of `bounds.json`."""
        return {
            "hypervolume": self.hypervolume,
            "hypervolume_bound": self.most,
            "share": self.share,
            "box": {"columns": list(OBJECTIVES), "ideal": list(self.ideal), "reference": list(self.reference)},
            "curves": self.curves.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: abc.Mapping[str, object]) -> Certificate:
        """The certificate that `to_dict` wrote.

        Raises:
            ValueError: the data are no certificate.
        """
        box, curves = data.get("box"), data.get("curves")
        if not isinstance(box, abc.Mapping) or not isinstance(curves, abc.Mapping):
            raise ValueError("box or curves are missing")

        def numbers(count: int, *values: object) -> list[float]:
            # NumPy has no integers beyond 64 bits.
            found = [float(x) for x in values if isinstance(x, int | float) and abs(x) <= _LARGEST]
            if len(values) != count or len(found) != count:
                raise ValueError("box or hypervolumes are no numbers")
            return found

        found, most = numbers(2, data.get("hypervolume"), data.get("hypervolume_bound"))
        a, b, c = numbers(3, *(box.get("ideal") or ()))
        x, y, z = numbers(3, *(box.get("reference") or ()))
        return cls(FrontCurves.from_dict(curves), found, most, ideal=(a, b, c), reference=(x, y, z))


_SHOWN = {"latency_s": (1e3, "ms"), "energy_J": (1e3, "mJ"), "area_mm2": (1.0, "mm^2")}


def _told(column: str, value: float) -> str:
    factor, unit = _SHOWN[column]
    return f"{value * factor:.4g} {unit}"


def certify(
    bounds: FrontBounds, objectives: npt.ArrayLike, ideal: Sequence[float], reference: Sequence[float]
) -> Certificate:
    """Compares a front with its bounds.

    Args:
        bounds: bounds over the tables of the front.
        objectives: `[N, 3]` float, N >= 1 designs: latency [s], energy [J], area [mm^2].
        ideal: `[3]` float, lower corner of the box (`FrontBounds.hypervolume`).
        reference: `[3]` float, its upper corner.
    """
    a, b = ((float(x), float(y), float(z)) for x, y, z in (ideal, reference))
    return Certificate(
        curves=bounds.curves,
        hypervolume=FrontBounds.reached(objectives).hypervolume(a, b),
        most=bounds.hypervolume(a, b),
        ideal=a,
        reference=b,
    )


def _staircase(at: np.ndarray, least: np.ndarray) -> Staircase:
    """The staircase without steps of zero height."""
    kept = np.append(True, np.diff(least) < 0)
    return Staircase(at=at[kept], least=least[kept])


# ---------------------------------------------------------------- what they are made of


@dataclasses.dataclass(frozen=True)
class _Mappings:
    """The mappings of each unique layer that no other mapping dominates in these five columns, by rising room.

    Attributes:
        room: `[U, C]` float, least area of a package that runs the mapping [um^2]; rising along C, inf in padding.
        duration: `[U, C]` float, d [cycles].
        energy: `[U, C]` float, e [pJ].
        chip: `[U, C]` float, s [um^2].
        traffic: `[U, C]` float, b [bytes].
    """

    room: np.ndarray
    duration: np.ndarray
    energy: np.ndarray
    chip: np.ndarray
    traffic: np.ndarray

    def last(self, room: np.ndarray) -> np.ndarray:
        """`[U, J]` int, the last mapping whose room is below each area `[J]`; earlier ones need less."""
        return np.stack([np.searchsorted(own, room, side="left") - 1 for own in self.room])


def _least(value: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Smallest of values `[..., U, C]` over the mappings up to `last` `[U, J]`: `[..., U, J]`."""
    return _at(np.minimum.accumulate(value, axis=-1), last)


def _cheapest(value: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Indices along C, `[U, J]`, at which values `[U, C]` reach `_least`."""
    least = np.minimum.accumulate(value, axis=1)
    return _at(np.maximum.accumulate(np.where(value <= least, np.arange(value.shape[1]), 0), axis=1), last)


def _at(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Values `[..., U, C]` at indices `[U, J]` along C: `[..., U, J]`."""
    return values[..., np.arange(len(index))[:, None], index]


def _mappings(setup: Setup, tables: MappingTables, wires: Wires, hops: float, sizes: ChipletSizes | None) -> _Mappings:
    """The mappings with their least costs, lowered by `_ROUNDING`."""
    package = setup.package
    energy, chip = least_costs(setup, tables, wires, hops, sizes)
    chip = chip + package.router_area + package.transceiver_area
    valid = valid_mappings(tables)
    # Least area of the most demanding layer that a template does not run, on any other template.
    cheapest = chip.min(axis=(1, 2))
    room = chip + np.where(valid.any(axis=2), 0.0, cheapest[:, None]).max(axis=0)[:, None]
    room = np.maximum(room, least_area(chip.min(axis=2), 0.0))
    columns = (room, isolated_cycles(tables, package), energy, chip, np.asarray(tables.offchip_bytes, np.float64))
    kept = []
    for u in range(len(chip)):
        rows = np.stack([column[u][valid[u]] for column in columns]) * (1 - _ROUNDING)
        rows = rows[:, np.lexsort(rows[::-1])]
        # Sorted by rising room, so the first of equal mappings stays. No bound would choose a dominated mapping.
        undercuts = np.logical_and.reduce([row[:, None] <= row for row in rows])
        kept.append(rows[:, ~np.triu(undercuts, 1).any(axis=0)])
    most = max(rows.shape[1] for rows in kept)
    padding = np.asarray([np.inf, 0.0, 0.0, 0.0, 0.0])[:, None]
    padded = np.stack([np.hstack([rows, np.tile(padding, most - rows.shape[1])]) for rows in kept], axis=1)
    return _Mappings(*padded)


@dataclasses.dataclass(frozen=True)
class _Limits:
    """Upper limits for the designs of each cell of area.

    Attributes:
        area: `[J]` float, where cells end [um^2]; the last one is inf.
        last: `[U, J]` int, the last mapping of each layer that has room.
        chiplets: `[J]` float, number of chiplets.
        bandwidth: `[J]` float, of the interfaces that as many chiplets use, or of the DRAM if less [bytes per cycle].
    """

    area: np.ndarray
    last: np.ndarray
    chiplets: np.ndarray
    bandwidth: np.ndarray


def _limits(area: np.ndarray, mappings: _Mappings, package: PackageParameters, most: int, idle: bool) -> _Limits:
    least_chip = mappings.chip[np.isfinite(mappings.room)].min()
    interfaces = most_interfaces(jax.device_get(package_tables(package)), most, idle)
    room = area / least_chip if least_chip > 0 else np.full(area.shape, np.inf)
    chiplets = np.clip(np.floor(np.minimum(room, most)), 1, most)
    bandwidth = np.minimum(interfaces[chiplets.astype(int) - 1] * package.interface_bandwidth, dram_bandwidth(package))
    return _Limits(area=area, last=mappings.last(area), chiplets=chiplets, bandwidth=bandwidth)


class _Paths:
    """Longest paths through the layers of an application, for rows of durations."""

    def __init__(self, application: ApplicationModel) -> None:
        self.unique = np.asarray(application.unique_of_layer)
        self.network = np.asarray(application.network_of_layer)
        self.predecessors = [list(layer.predecessors) for layer in application.layers]
        self.shape = len(application.networks), len(application.unique_layers)
        self.copies = layer_copies(application)

    def until(self, duration: np.ndarray) -> np.ndarray:
        """`[J, L]` longest path that ends with each layer, for durations `[J, L]`; layers are in topological order."""
        end = duration.copy()
        for i, before in enumerate(self.predecessors):
            if before:
                end[:, i] += end[:, before].max(axis=1)
        return end

    def others(self, duration: np.ndarray) -> np.ndarray:
        """`[J, L]` longest path through each layer without the layer itself, for durations `[J, U]`."""
        duration = duration[:, self.unique]
        after = np.zeros_like(duration)  # longest path after each layer
        for i in reversed(range(len(self.predecessors))):
            for p in self.predecessors[i]:
                after[:, p] = np.maximum(after[:, p], after[:, i] + duration[:, i])
        return self.until(duration) - duration + after

    def longest(self, duration: np.ndarray) -> np.ndarray:
        """`[J, W, U]` float, number of each unique layer on a longest path of each network, for durations `[J, U]`."""
        rows = np.arange(len(duration))
        end = self.until(duration[:, self.unique])
        on = np.zeros(end.shape, bool)
        for n in np.unique(self.network):
            own = np.flatnonzero(self.network == n)
            on[rows, own[end[:, own].argmax(axis=1)]] = True
        count = np.zeros((len(duration), *self.shape))
        for i in reversed(range(len(self.predecessors))):
            count[:, self.network[i], self.unique[i]] += on[:, i]
            if self.predecessors[i]:
                before = np.asarray(self.predecessors[i])
                chosen = before[end[:, before].argmax(axis=1)]
                on[rows[on[:, i]], chosen[on[:, i]]] = True
        return count


# ---------------------------------------------------------------- the bounds


def _spread(low: float, high: float, count: int) -> np.ndarray:
    return np.geomspace(low, max(high, low), count)


def _slopes(cost: np.ndarray, mappings: _Mappings, count: int) -> np.ndarray:
    """Up to `count` prices of a cost `[U, C]` at which mappings trade it for energy: quantiles over all lower hulls."""
    found = []
    for own, energy, room in zip(cost, mappings.energy, mappings.room, strict=True):
        exists = np.isfinite(room)
        x, y = own[exists], energy[exists]
        here = int(np.lexsort((y, x))[0])
        while True:  # along the lower hull, from the least cost to the least energy
            ahead = np.flatnonzero((x > x[here]) & (y < y[here]))
            if not len(ahead):
                break
            slope = (y[here] - y[ahead]) / (x[ahead] - x[here])
            found.append(float(slope.max()))
            here = int(ahead[slope.argmax()])
    if not found:
        return np.ones(1)
    return np.unique(np.quantile(found, np.linspace(0, 1, count)))


def _least_latency(mappings: _Mappings, limits: _Limits, paths: _Paths, on_path: np.ndarray) -> np.ndarray:
    """`[J]` least latency [cycles] up to the end of each cell of area, by Lagrangian relaxation without energy.

    The price of a path is 1 or 0. For given other prices, and for any number of networks whose paths have price 1, the
    best choice is the networks with the largest gains.
    """
    duration, chip, traffic = mappings.duration, mappings.chip, mappings.traffic
    fastest = _least(duration, limits.last)
    best = paths.until(fastest.T[:, paths.unique]).max(axis=1)
    ends = limits.area[np.isfinite(limits.area)]
    works = _spread(0.1 / limits.chiplets.max(), 10.0, _SHARED_PRICES)
    areas = _spread(0.03 / ends[-1], 30 / ends[0], 3 * _SHARED_PRICES) if len(ends) else np.zeros(0)
    moves = _spread(0.1, 10.0, 2 * _TRAFFIC_PRICES + 1) / limits.bandwidth.max()
    moves = moves[moves > 0]  # unlimited bandwidth has no price
    shared = [(v, 0.0, 0.0) for v in works] + [(0.0, y, 0.0) for y in areas] + [(0.0, 0.0, z) for z in moves]
    shared += [(v, 0.0, z) for v in works[::3] for z in moves[::2]] + [(0.0, y, z) for y in areas for z in moves[::2]]
    for v, y, z in shared:
        cost = v * duration + y * duration * chip + z * traffic
        free, priced = (_least(x, limits.last) for x in (cost, cost + duration))
        gain = np.einsum("jwu,uj->wj", on_path, priced - free)
        gain = np.vstack([np.zeros_like(gain[:1]), np.cumsum(np.sort(gain, axis=0)[::-1], axis=0)])
        most = _priced(limits, v, y, z) + np.arange(len(gain))[:, None]
        best = np.maximum(best, ((paths.copies @ free + gain) / most).max(axis=0))
    return best


def _priced(limits: _Limits, v: float, y: float, z: float) -> np.ndarray:
    """`[J]` priced right sides of work, area-work and traffic per cycle; an unlimited area may only have price 0."""
    return v * limits.chiplets + (y * limits.area if y else 0.0) + (z * limits.bandwidth if z else 0.0)


def _shared_prices(mappings: _Mappings) -> Iterator[tuple[float, float, float]]:
    """Prices of work [pJ/cycle], area-work [pJ/(cycle um^2)] and traffic [pJ/byte] to try with the energy."""
    work = _slopes(mappings.duration, mappings, _SHARED_PRICES)
    area = _slopes(mappings.duration * mappings.chip, mappings, _SHARED_PRICES)
    traffic = _slopes(mappings.traffic, mappings, _TRAFFIC_PRICES)
    yield 0.0, 0.0, 0.0
    yield from ((float(v), 0.0, 0.0) for v in work)
    yield from ((0.0, float(y), 0.0) for y in area)
    yield from ((0.0, float(y), float(z)) for y in (0.0, *area[::3]) for z in traffic)


def _relaxed_energy(
    mappings: _Mappings, limits: _Limits, paths: _Paths, on_paths: Sequence[np.ndarray], latency: np.ndarray
) -> np.ndarray:
    """`[J, K]` least energy [pJ] by Lagrangian relaxation, at the ends of the cells of area and latency `[K]` [cycles].

    For given shared prices the terms of the networks' paths are independent, so each path takes its own best price.
    """
    own = np.append(0.0, _slopes(mappings.duration, mappings, _PATH_PRICES))
    best = np.repeat((paths.copies @ _least(mappings.energy, limits.last))[:, None], len(latency), axis=1)
    finite = np.isfinite(latency)
    time = latency[finite]
    for v, y, z in _shared_prices(mappings):
        cost = mappings.energy + v * mappings.duration + y * mappings.duration * mappings.chip + z * mappings.traffic
        least = _least(cost + own[:, None, None] * mappings.duration, limits.last)
        total = (paths.copies @ least[0])[:, None] - _priced(limits, v, y, z)[:, None] * time
        for n in range(paths.shape[0]):
            gains = np.zeros(total.shape)
            for on_path in on_paths:
                gain = np.einsum("ju,xuj->xj", on_path[:, n], least - least[0])
                for price, row in zip(own[1:], gain[1:], strict=True):
                    np.maximum(gains, row[:, None] - price * time, out=gains)
            total += gains
        best[:, finite] = np.maximum(best[:, finite], total)
    return best


def _fitting_energy(
    mappings: _Mappings, limits: _Limits, paths: _Paths, fastest: np.ndarray, latency: np.ndarray
) -> np.ndarray:
    """`[J, K]` least energy [pJ] if every layer takes the most frugal mapping with room and time (1 and 2 above).

    Args:
        mappings: the mappings.
        limits: limits of the cells of area.
        paths: paths of the application.
        fastest: `[U, J]` least durations [cycles].
        latency: `[K]`, where cells of latency end [cycles].
    """
    others = paths.others(fastest.T)
    out = np.zeros((len(limits.area), len(latency)))
    rows = np.arange(len(limits.area))[:, None]
    for u in range(paths.shape[1]):
        order = np.argsort(mappings.duration[u], kind="stable")
        energy = np.where(mappings.room[u, order] < limits.area[:, None], mappings.energy[u, order], np.inf)
        least = np.hstack([np.full((len(energy), 1), np.inf), np.minimum.accumulate(energy, axis=1)])
        # Copies with equal longest paths around them are counted together.
        around, copies = np.unique(others[:, paths.unique == u], axis=1, return_counts=True)
        for wait, number in zip(around.T, copies, strict=True):
            index = np.searchsorted(mappings.duration[u, order], latency - wait[:, None], side="left")
            out += number * least[rows, index]
    return out


def cell_edges(own: np.ndarray, low: float, high: float, cells: int) -> np.ndarray:
    """Where cells begin, `[K]` rising: evenly on a log axis, and also at the breakpoints `own` if these are few."""
    own = np.unique(own[(own > low) & (own < high)])
    start = low if low > 0 else 1e-9 * high  # a log axis has no 0
    spread = _spread(start, high, cells)[low <= 0 :] if start > 0 else np.zeros(0)
    spread = np.append(low, spread[low > 0 :])
    return np.unique(np.concatenate([spread, own if len(own) <= cells else own[:0]]))


def front_bounds(
    setup: Setup,
    tables: MappingTables,
    wires: Wires,
    max_chiplets: int | None = None,
    sizes: ChipletSizes | None = None,
    *,
    idle: bool = False,
    cells: int = _CELLS,
) -> FrontBounds:
    """Bounds for every design over these tables whose chiplets are as large as their layers need; proof above.

    Args:
        setup: networks and hardware.
        tables: Pareto tables `[U, T, M, ...]`; in double precision for bounds that hold in double precision.
        wires: wires of their mappings.
        max_chiplets: most chiplets of a design; default as many as the package has tiles.
        sizes: further sizes that chiplets may have, such as those that layers of other networks need.
        idle: whether chiplets may stand on the package without running a layer, as fixed ones may.
        cells: cells along area and latency, at least 2; up to as many again where the tables have few breakpoints.
    """
    package = setup.package
    most = package.max_tiles if max_chiplets is None else max_chiplets
    hops = fewest_hops(jax.device_get(package_tables(package)), most)
    mappings = _mappings(setup, tables, wires, hops, sizes)
    paths = _Paths(setup.application)

    exists = np.isfinite(mappings.room)
    smallest = float(mappings.room[:, 0].max())
    largest = max(float(mappings.room[exists].max()), most * float(mappings.chip[exists].max()))
    area = cell_edges(mappings.room[exists], smallest, largest, cells)
    limits = _limits(np.append(area[1:], np.inf), mappings, package, most, idle)

    fastest = _least(mappings.duration, limits.last)
    frugal = _at(mappings.duration, _cheapest(mappings.energy, limits.last))
    on_paths = [paths.longest(durations.T) for durations in (fastest, frugal)]
    least_latency = _falling(_least_latency(mappings, limits, paths, on_paths[0]), 0)

    serial = float((paths.copies @ frugal).max())
    waits = paths.others(fastest.T[-1:])[0]
    breaks = [mappings.duration[u][exists[u]] + wait for u, wait in zip(paths.unique, waits, strict=True)]
    latency = cell_edges(np.concatenate(breaks), float(least_latency[-1]), serial, cells)
    ends = np.append(latency[1:], np.inf)
    energy = np.maximum(
        _relaxed_energy(mappings, limits, paths, on_paths, ends),
        _fitting_energy(mappings, limits, paths, fastest, ends),
    )
    energy[ends <= least_latency[:, None]] = np.inf
    return FrontBounds(
        area_mm2=area * 1e-6,
        latency_s=latency * CYCLE_S,
        least_latency_s=least_latency * CYCLE_S,
        least_energy_J=_falling(_falling(energy, 0), 1) * 1e-12,
    )


def _falling(values: np.ndarray, axis: int) -> np.ndarray:
    """Bounds of later cells hold for earlier ones too, since they cover the designs of these."""
    return np.flip(np.maximum.accumulate(np.flip(values, axis), axis=axis), axis)
