"""The content of a report as plain data: fronts, bounds, convergence, provenance, and some designs in detail.

Numbers are as short as the page allows: about six digits, and whole nanoseconds for the times of a schedule. Whole
numbers of the front and of the convergence keep all their digits.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Iterable, Sequence
from typing import TypedDict

import jax
import numpy as np
import yaml

from mohamjax.hardware.package import interface_positions, mesh_columns
from mohamjax.mapping import loop_nest
from mohamjax.page.charts import Objective
from mohamjax.schedule import CYCLE_S, ROLES, Certificate, Evaluated, Staircase, by_type, landmarks, layer_use
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.roofline import Roof
from mohamjax.schedule.view import ENERGY_PARTS, DesignView, design_view, energy_part_names
from mohamjax.version import __version__

REPORT_FORMAT = "report/1"

_PROJECTIONS = ((0, 1), (0, 2), (1, 2))
"""Objectives on the two axes of each projection."""

_CURVES = {
    (0, 1): ("energy_of_latency", False),
    (0, 2): ("latency_of_area", True),
    (1, 2): ("energy_of_area", True),
}
"""The curve of the bounds in each projection, and whether its axes are swapped there."""

_OF_TYPES = ("busy_s", "macs_per_cycle", "utilisation", "compute", "buffers", "offchip")
"""Values that the page shows for each type of layer."""

_ROOM = 3.0
"""Bounds are drawn this factor beyond the front."""


Part = dict[str, object]
"""JSON-able data that `page.js` reads."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What one search found, in memory.

    Attributes:
        name: a unique name.
        title: scenario, budget and seed.
        kind: `search` or `codesign`.
        front: a row per design: `design_id` as text, latency, energy, area, the columns of `measures`, and others for
            the table.
        history: rows of the convergence with `evaluations` and `hypervolume`.
        config: the settings of the search; plain data.
        facts: (label, value) pairs beside the settings, such as the date.
        certificate: bounds of the front, or None.
        evaluated: designs with reports; None if no design can be shown in detail.
        place: index in `evaluated` by `design_id`; designs without one cannot be shown in detail.
        workload: names the networks; only results with equal workloads are compared.
        measures: names of the objectives of the front.
        offsets: added to the objectives before their logarithms are taken.
        roles: rows by role, beside those of the landmarks.
        opens: row on which the page opens if this result is the first; None for its knee.
    """

    name: str
    title: str
    kind: str
    front: Sequence[abc.Mapping[str, object]]
    history: Sequence[abc.Mapping[str, float]] = ()
    config: abc.Mapping[str, object] = dataclasses.field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()
    certificate: Certificate | None = None
    evaluated: Evaluated | None = None
    place: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    workload: str = ""
    measures: Sequence[str] = DEFAULT
    offsets: Sequence[float] = (0.0, 0.0, 0.0)
    roles: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    opens: int | None = None

    @property
    def objectives(self) -> np.ndarray:
        """`[N, M]` float, the objectives of the front."""
        return self.over(self.measures)

    def over(self, measures: Sequence[str]) -> np.ndarray:
        """Returns `[N, M]` float, these measures of the designs; the rows of the front must have their columns."""
        columns = [measure_named(name).column for name in measures]
        return np.asarray([[row[column] for column in columns] for row in self.front], float)


class Contents(TypedDict):
    """The content of the page, as JSON in the format `report/1`.

    Attributes:
        format: the format.
        mohamjax: version of the package.
        cycle_s: seconds of a clock cycle.
        objectives: objectives of the fronts.
        results: one part for each result.
    """

    format: str
    mohamjax: str
    cycle_s: float
    objectives: list[Objective]
    results: list[Part]


def contents(results: Sequence[Result], *, most: int, always: Iterable[tuple[str, str]] = ()) -> Contents:
    """Returns all that the page shows.

    Args:
        results: one or more results.
        most: number of designs shown in detail (schedule, shares, mappings), over all results; the others are only on
            the front and in the table. It is divided among the results; each takes its landmarks, then the designs
            that are farthest apart.
        always: (name of the result, `design_id`) of designs that are shown in detail in any case.
    """
    wanted = {(name, design) for name, design in always}
    # Fronts over different objectives are compared by latency, energy and area, which all have.
    kinds = {tuple(result.measures) for result in results}
    measures = kinds.pop() if len(kinds) == 1 else DEFAULT
    rows = []
    left, waiting = most, sorted(results, key=lambda result: len(result.front))
    quota = {}
    for k, result in enumerate(waiting):
        quota[result.name] = min(len(result.front), left // (len(waiting) - k))
        left -= quota[result.name]
    for result in results:
        named = [i for i, row in enumerate(result.front) if (result.name, row["design_id"]) in wanted]
        named += result.roles.values()
        offset = result.offsets if tuple(result.measures) == measures else 0.0
        chosen = spread(result.over(measures), quota[result.name], measures, offset)
        roles = landmarks(result.over(measures), measures, offset)
        opens = roles[ROLES[-1]] if result.opens is None else result.opens
        named_rows: Part = {"roles": {**result.roles, **roles}, "opens": opens}
        rows.append(_result(result, sorted({*chosen, *named}), measures) | named_rows)
    least = np.concatenate([result.over(measures) for result in results]).min(axis=0)
    told = [
        Objective(column=kind.column, label=kind.label, log=kind.log or bool(low > 0))
        for kind, low in zip(map(measure_named, measures), least, strict=True)
    ]
    parts = _jointly(results, rows, measures)
    return {"format": REPORT_FORMAT, "mohamjax": __version__, "cycle_s": CYCLE_S, "objectives": told, "results": parts}


def spread(
    objectives: np.ndarray, count: int, measures: Sequence[str] = DEFAULT, offset: Sequence[float] | float = 0.0
) -> list[int]:
    """Returns rows that represent a front: its landmarks, then repeatedly the row farthest from those chosen.

    Args:
        objectives: `[N, M]` float; distances are taken on log axes.
        count: number of rows; all rows if there are no more.
        measures: names of the objectives.
        offset: `[M]` float, added to the objectives before their logarithms are taken.
    """
    if count >= len(objectives):
        return list(range(len(objectives)))
    values = np.log(np.maximum(objectives + offset, np.finfo(float).tiny))
    low, high = values.min(axis=0), values.max(axis=0)
    values = (values - low) / np.where(high > low, high - low, 1.0)
    chosen = list(dict.fromkeys(landmarks(objectives, measures, offset).values()))[:count]
    distance = np.full(len(values), np.inf)
    for row in chosen:
        distance = np.minimum(distance, np.linalg.norm(values - values[row], axis=1))
    distance[chosen] = -1.0  # no row is taken twice, even where designs are equal
    while len(chosen) < count:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(values - values[chosen[-1]], axis=1))
        distance[chosen[-1]] = -1.0
    return chosen


def _jointly(results: Sequence[Result], rows: list[Part], measures: Sequence[str]) -> list[Part]:
    """Adds how many designs of each result are not dominated by another result with the same workload."""
    values = [result.over(measures) for result in results]
    for k, row in enumerate(rows):
        others = [v for i, v in enumerate(values) if i != k and results[i].workload == results[k].workload]
        row["undominated"] = int((~_dominated(values[k], np.concatenate(others))).sum()) if others else None
    return rows


def _dominated(own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns `[N]` bool: which rows of `own` are dominated by a row of `others`."""
    return np.asarray([bool(((others <= row).all(axis=1) & (others < row).any(axis=1)).any()) for row in own], bool)


def _digits(values: Iterable[float] | np.ndarray, digits: int = 6) -> list[float]:
    """Rounds numbers to so many significant digits."""
    return [float(f"{float(value):.{digits}g}") for value in values]


def _result(result: Result, chosen: Sequence[int], measures: Sequence[str]) -> Part:
    columns = list(dict.fromkeys(key for row in result.front for key in row if key != "design_id"))
    designs = _Details(result)
    whole = {}
    for i in chosen:
        design = str(result.front[i]["design_id"])
        if design in result.place:
            whole[str(i)] = designs.add(result.place[design], design)
    certificate = result.certificate
    bounded = tuple(measures) == DEFAULT
    return {
        "name": result.name,
        "title": result.title,
        "kind": result.kind,
        "facts": [[str(what), str(value)] for what, value in (*_certified(certificate), *result.facts)],
        "config": yaml.safe_dump(dict(result.config), sort_keys=False, allow_unicode=True) if result.config else "",
        "ids": [str(row["design_id"]) for row in result.front],
        "columns": {name: _column([row.get(name) for row in result.front]) for name in columns},
        "history": {
            "evaluations": [_shown(row["evaluations"]) for row in result.history],
            "hypervolume": _digits(row["hypervolume"] for row in result.history),
        },
        "bounds": _bounds(certificate, result.over(DEFAULT)) if certificate is not None and bounded else [],
        **designs.shared(),
        "designs": whole,
    }


def _certified(certificate: Certificate | None) -> list[tuple[str, str]]:
    if certificate is None:
        return []
    share = f"{100 * certificate.share:.1f} % ({certificate.hypervolume:.4g} of at most {certificate.most:.4g})"
    return [
        ("hypervolume of what is possible", share),
        ("certified gap", f"at most {100 * (1 - certificate.share):.1f} %, with the mappings found"),
    ]


def _shown(value: float) -> float:
    """Returns an integer as it is, and any other number with seven digits."""
    if float(value).is_integer() and abs(value) < 2**53:
        return int(value)
    return _digits([value], 7)[0]


def _column(values: Sequence[object]) -> list[object]:
    """Returns a column of the table: numbers if all values are numbers, else texts."""
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values):
        return list(map(_shown, numbers))
    return ["" if value is None else str(value) for value in values]


def _bounds(certificate: Certificate, objectives: np.ndarray) -> list[Part]:
    """Returns the three curves as corners of staircases, cut off at a factor `_ROOM` beyond the front."""
    low, high = objectives.min(axis=0) / _ROOM, objectives.max(axis=0) * _ROOM
    curves = []
    for axes in _PROJECTIONS:
        name, swapped = _CURVES[axes]
        first, second = reversed(axes) if swapped else axes
        x, y = _corners(getattr(certificate.curves, name), high[second], high[first])
        inside = (x <= high[first]) & (y <= high[second])
        x, y = np.maximum(x[inside], low[first]), np.maximum(y[inside], low[second])
        curves.append({"x": _digits(y if swapped else x), "y": _digits(x if swapped else y)})
    return curves


def _corners(curve: Staircase, top: float, right: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y of the corners of a falling staircase that starts at `top` and goes on to `right`."""
    x = np.append(np.repeat(curve.at, 2), max(right, curve.at[-1]))
    y = np.concatenate([[max(top, curve.least[0])], np.repeat(curve.least, 2)])
    return x, y


def _roof(roof: Roof) -> Part:
    """Returns a roof as plain data; its bandwidth is None if it is unlimited."""
    bandwidth = _digits([roof.bandwidth])[0] if np.isfinite(roof.bandwidth) else None
    return {"peak": roof.peak, "bandwidth": bandwidth, "resource": roof.resource}


class _Details:
    """The designs of one result that are shown in detail; `shared` holds their loop nests and layers once."""

    def __init__(self, result: Result):
        self.evaluated = result.evaluated
        self.nests: dict[tuple[int, int, int], int] = {}
        self.moved: list[tuple[float, float, float]] = []

    def add(self, index: int, design: str) -> Part:
        """Returns one design, and records the loop nests that it uses."""
        evaluated = self.evaluated
        assert evaluated is not None
        genes, report = jax.tree.map(lambda leaf: np.asarray(leaf)[index], (evaluated.designs, evaluated.reports))
        use = layer_use(evaluated.application, evaluated.tables, genes, report)
        types = by_type(evaluated.application, use)
        return self._told(design_view(evaluated, index, design)) | {
            "macs_per_cycle": _digits(use.macs_per_cycle, 4),
            "utilisation": _digits(use.utilisation, 4),
            "types": [[row["type"], row["layers"], *_digits(row[key] for key in _OF_TYPES)] for row in types],
        }

    def _told(self, view: DesignView) -> Part:
        start, end = (np.rint([getattr(bar, key) * 1e9 for bar in view.bars]) for key in ("start_s", "end_s"))
        kinds = {name: k for k, name in enumerate(view.templates)}
        nests = []
        for bar in view.bars:
            if bar.mapping not in self.nests:
                self.nests[bar.mapping] = len(self.nests)
                self.moved.append((bar.alone_s, bar.offchip_bytes, bar.intensity))
            nests.append(self.nests[bar.mapping])
        return {
            "floor": self._floor(len(view.chiplets)),
            "roof_decades": view.roof_decades,
            "chiplets": [
                {
                    "template": kinds[chip.template],
                    "interface": chip.interface,
                    "hops": chip.hops,
                    "area": [[name, *_digits([mm2])] for name, mm2 in chip.area_mm2],
                    "energy": _digits(joule for _, joule in chip.energy_J),
                    "levels": [[words, *fanout] for _, words, fanout in chip.levels],
                    "roof": _roof(chip.roof),
                }
                for chip in view.chiplets
            ],
            "chiplet": [bar.chiplet for bar in view.bars],
            "nest": nests,
            "start_ns": [int(t) for t in start],
            "length_ns": [int(t) for t in end - start],
            "energy_J": _digits((bar.energy_J for bar in view.bars), 4),
            "bound": [bar.bound for bar in view.bars],
            "slowed": [
                [layer, round(s.start_s * 1e9), round((s.end_s - s.start_s) * 1e9), float(f"{s.rate:.3g}"), s.cause]
                for layer, bar in enumerate(view.bars)
                for s in bar.slowed
            ],
            "traffic": [
                {
                    "name": resource.name,
                    "bandwidth": resource.bandwidth if np.isfinite(resource.bandwidth) else None,
                    "from_ns": [round(time * 1e9) for time, _ in resource.steps],
                    "rate": _digits((rate for _, rate in resource.steps), 4),
                }
                for resource in view.traffic
            ],
        }

    def _floor(self, chiplets: int) -> Part:
        """Returns the places of chiplets and interfaces on the mesh, `[x, y]` each."""
        assert self.evaluated is not None
        columns = mesh_columns(chiplets)
        return {
            "columns": columns,
            "chiplets": [[k % columns, k // columns] for k in range(chiplets)],
            "interfaces": [list(place) for place in interface_positions(self.evaluated.package, chiplets)],
        }

    def shared(self) -> Part:
        """Returns what the designs have in common: networks, templates, layers, and the loop nests recorded so far."""
        if self.evaluated is None:
            return {"networks": [], "templates": [], "parts": list(ENERGY_PARTS), "layers": [], "nests": []}
        application, templates = self.evaluated.application, self.evaluated.templates
        mapping = self.evaluated.tables.mapping
        nests = []
        for (u, t, m), numbers in zip(self.nests, self.moved, strict=True):
            nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf[at]), mapping)
            text = loop_nest(nest, templates[t].level_names, application.unique_layers[u].shape.bounds)
            told = zip(("alone_s", "bytes", "intensity"), _digits(numbers), strict=True)
            nests.append({"template": t, "text": text, **dict(told)})
        return {
            "networks": [network.name for network in application.networks],
            "templates": [
                {
                    "name": template.name,
                    "levels": list(template.level_names),
                    "bits": [level.word_bits for level in template.levels],
                }
                for template in templates
            ],
            "parts": list(energy_part_names(self.evaluated.technology)),
            "layers": [
                {
                    "name": layer.name,
                    "network": network,
                    "type": layer.type,
                    "shape": str(layer.shape),
                    "macs": layer.shape.macs,
                }
                for layer, network in zip(application.layers, application.network_of_layer, strict=True)
            ],
            "nests": nests,
        }
