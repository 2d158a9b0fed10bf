"""One design as figures, reports and traces show it: what runs where and when, how fast, and its energy and area."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TypedDict

import jax
import numpy as np

from mohamjax.hardware import Technology
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.explain import area_parts, energy_parts, level_sizes, shared_resources
from mohamjax.schedule.roofline import COMPUTE, Roof, binding, intensities, roof
from mohamjax.schedule.segments import Flow, flow, slowed
from mohamjax.schedule.utilisation import layer_use

ENERGY_PARTS = ("MACs", "buffers", "on-chip networks", "DRAM", "network-on-package", "leakage")
"""The parts into which energy is split; leakage where the technology counts it."""


def energy_part_names(technology: Technology) -> tuple[str, ...]:
    """Names of the parts of energy that designs have with a technology."""
    return ENERGY_PARTS if technology.static_share is not None else ENERGY_PARTS[:-1]


_CYCLES_PER_S = round(1 / CYCLE_S)


@dataclasses.dataclass(frozen=True)
class Slowdown:
    """A span of time in which a layer is slowed.

    Attributes:
        start_s: [s].
        end_s: [s].
        rate: share of its full speed, below 1.
        cause: what limits it: `memory interface`, `DRAM`, `link` or `mesh link`.
    """

    start_s: float
    end_s: float
    rate: float
    cause: str


@dataclasses.dataclass(frozen=True)
class LayerBar:
    """A layer in the schedule.

    Attributes:
        name: the layer.
        network: index of its network.
        chiplet: index of its chiplet.
        start_s: [s].
        end_s: [s].
        slowed: when bandwidth slows it.
        mapping: indices of its loop nest in the tables: (unique layer, template, mapping).
        alone_s: time that it would take without any off-chip limit [s].
        offchip_bytes: bytes that it moves from and to memory.
        energy_J: energy, including the package's [J].
        intensity: its MACs per byte moved [MACs/byte].
        reached: its MACs per cycle while it runs.
        bound: what binds it: a shared resource, a buffer, the MACs or its mapping (`schedule.roofline`).
    """

    name: str
    network: int
    chiplet: int
    start_s: float
    end_s: float
    slowed: tuple[Slowdown, ...] = ()
    mapping: tuple[int, int, int] = (0, 0, 0)
    alone_s: float = 0.0
    offchip_bytes: float = 0.0
    energy_J: float = 0.0
    intensity: float = 0.0
    reached: float = 0.0
    bound: str = COMPUTE


@dataclasses.dataclass(frozen=True)
class ChipletView:
    """A chiplet for figures.

    Attributes:
        template: name of its template.
        interface: index of its memory interface.
        hops: hops to that interface.
        area_mm2: (part, mm^2): MACs, every level from the innermost on, the package's share.
        energy_J: (part, J), with the parts of `energy_part_names`.
        roof: the roof that bounds the speed of its layers.
        levels: (name, words per instance or None where unlimited, fanout along X and Y), innermost first.
    """

    template: str
    interface: int
    hops: int
    area_mm2: tuple[tuple[str, float], ...]
    energy_J: tuple[tuple[str, float], ...]
    roof: Roof
    levels: tuple[tuple[str, int | None, tuple[int, int]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Traffic through a shared resource: a memory interface, the DRAM, or a link.

    Attributes:
        name: such as `interface 0` or `link of chiplet 2`.
        bandwidth: [bytes/s], inf where it is unlimited.
        steps: (start [s], bytes/s) of each step, rising in time; the last one is the end, with no traffic.
    """

    name: str
    bandwidth: float
    steps: tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True)
class DesignView:
    """One design as its figures need it.

    Attributes:
        design_id: its name.
        objectives: latency [s], energy [J], area [mm^2].
        networks: names.
        templates: names of all templates that the search had; each has its colour.
        chiplets: in the order of the mesh.
        bars: one per layer, in the order of the application.
        traffic: traffic through every resource that a chiplet of the design uses.
    """

    design_id: str
    objectives: tuple[float, float, float]
    networks: tuple[str, ...]
    templates: tuple[str, ...]
    chiplets: tuple[ChipletView, ...]
    bars: tuple[LayerBar, ...]
    traffic: tuple[Traffic, ...] = ()

    @property
    def roof_decades(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Exponents of ten between which the rooflines of all chiplets are drawn: intensities, then MACs per cycle."""
        roofs = [chip.roof for chip in self.chiplets]
        ridges = [roof.ridge for roof in roofs if roof.ridge > 0]
        return (
            _decades([*(bar.intensity for bar in self.bars), *ridges]),
            _decades([*(bar.reached for bar in self.bars), *(roof.peak for roof in roofs)]),
        )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Exponents of the closest powers of ten below and above all positive values, with a little room."""
    logs = [math.log10(value) for value in values if value > 0]
    return math.floor(min(logs) - 0.05), math.ceil(max(logs) + 0.05)


# ---------------------------------------------------------------- from arrays
# `report` is the `DesignReport` of one design with NumPy leaves.


def _flow(
    evaluated: Evaluated, report: DesignReport, tile: np.ndarray
) -> tuple[Flow, list[str], list[list[int]], np.ndarray]:
    """The flow of the schedule; names of the resources, resources of each tile, and bandwidths [bytes per cycle]."""
    names, uses, bandwidth = shared_resources(evaluated.package, report.chiplets)
    timeline, real = report.timeline, slice(len(tile))
    times = timeline.start[real], timeline.end[real], report.duration[real]
    seen = flow(*times, report.offchip_bytes[real], tile, uses, bandwidth)
    return seen, names, uses, np.asarray(bandwidth, float)


def _slowdowns(seen: Flow, names: Sequence[str]) -> list[tuple[Slowdown, ...]]:
    """When and why each layer is slowed."""

    def cause(resource: int) -> str:
        kinds = {"interface": "memory interface", "mesh link": "mesh link"}
        return next((kind for start, kind in kinds.items() if names[resource].startswith(start)), names[resource])

    return [
        tuple(Slowdown(s.start * CYCLE_S, s.end * CYCLE_S, s.rate, cause(s.resource)) for s in one)
        for one in slowed(seen)
    ]


def _traffic(
    seen: Flow, names: Sequence[str], uses: Sequence[Sequence[int]], bandwidth: np.ndarray, standing: Sequence[int]
) -> tuple[Traffic, ...]:
    """Traffic through each resource that the chiplets on the tiles `standing` use."""
    found = []
    for r, name in enumerate(names):
        users = [k for k, tile in enumerate(standing) if r in uses[tile]]
        if not users:
            continue
        if names.count(name) > 1:
            name = f"{name} of chiplet {users[0]}" if len(users) == 1 else f"{name} {r}"
        rate = np.append(seen.through[:, r], 0.0)
        # At events that change nothing here, sums of the same demands may still differ by rounding.
        level = np.round(rate / max(rate.max(), np.finfo(float).tiny), 12)
        new = np.append(True, np.diff(level) != 0)
        new[-1] = True
        steps = zip((seen.time[new] * CYCLE_S).tolist(), (rate[new] * _CYCLES_PER_S).tolist(), strict=True)
        found.append(Traffic(name, float(bandwidth[r]) * _CYCLES_PER_S, tuple(steps)))
    return tuple(found)


def _area_parts(evaluated: Evaluated, report: DesignReport, tile: np.intp, template: int) -> list[tuple[str, float]]:
    parts = area_parts(report, evaluated.templates[template], evaluated.package, int(tile))
    return [(name, um2 * 1e-6) for name, um2 in parts.items() if um2 > 0]


def _levels(
    evaluated: Evaluated, report: DesignReport, tile: np.intp, template: int
) -> tuple[tuple[str, int | None, tuple[int, int]], ...]:
    sizes = level_sizes(report.chiplets, evaluated.templates[template], int(tile))
    return tuple((own["name"], own["capacity_words"], (own["fanout"][0], own["fanout"][1])) for own in sizes)


def _energy_parts(evaluated: Evaluated, design: Design, report: DesignReport, unique: np.ndarray) -> np.ndarray:
    """`[L, parts]` float, J of every layer by part but leakage, which is a chiplet's."""
    parts = energy_parts(design, report, evaluated.tables, unique)
    real = np.arange(len(unique))
    outermost = np.asarray(report.chiplets.machine.level_mask).sum(axis=1)[design.assignment[real]] - 1
    dram = parts["levels"][real, outermost]
    buffers = parts["levels"].sum(axis=1) - dram
    return np.stack([parts["mac"], buffers, parts["networks"].sum(axis=1), dram, parts["package"]], axis=1) * 1e-12


def design_view(evaluated: Evaluated, index: int, design_id: object = None) -> DesignView:
    """What the figures show of one design.

    Args:
        evaluated: designs with reports.
        index: row of the design.
        design_id: its name; default the index.

    Raises:
        ValueError: its schedule never ends.
    """
    design, report = jax.tree.map(lambda leaf: np.asarray(leaf)[index], (evaluated.designs, evaluated.reports))
    application = evaluated.application
    layers = len(application.layers)
    tile = design.assignment[:layers]
    standing = np.flatnonzero(design.template >= 0)
    chiplet_of_tile = {int(t): k for k, t in enumerate(standing)}
    unique = np.asarray(application.unique_of_layer)
    energies, parts = _energy_parts(evaluated, design, report, unique), energy_part_names(evaluated.technology)
    seen, names, uses, bandwidth = _flow(evaluated, report, tile)
    chiplets = []
    for t in standing:
        kind = int(design.template[t])
        spent = [*energies[tile == t].sum(axis=0), report.static_energy[t] * 1e-12][: len(parts)]
        chiplets.append(
            ChipletView(
                template=evaluated.templates[kind].name,
                interface=int(report.chiplets.interface[t]),
                hops=int(report.chiplets.hops[t]),
                area_mm2=tuple(_area_parts(evaluated, report, t, kind)),
                energy_J=tuple((name, float(x)) for name, x in zip(parts, spent, strict=True)),
                levels=_levels(evaluated, report, t, kind),
                roof=roof(float(report.chiplets.machine.mac_instances[t]), uses[t], names, bandwidth),
            )
        )
    start, end = report.timeline.start * CYCLE_S, report.timeline.end * CYCLE_S
    slowdowns = _slowdowns(seen, names)
    use = layer_use(application, evaluated.tables, design, report)
    bound = binding(design, evaluated.tables, evaluated.templates, unique, use, seen, names)
    intensity = intensities(use.macs, report.offchip_bytes[:layers])
    bars = [
        LayerBar(
            name=layer.name,
            network=network,
            chiplet=chiplet_of_tile[int(tile[i])],
            start_s=float(start[i]),
            end_s=float(end[i]),
            slowed=slowdowns[i],
            mapping=(int(unique[i]), int(design.template[tile[i]]), int(design.mapping[i])),
            alone_s=float(report.duration[i]) * CYCLE_S,
            offchip_bytes=float(report.offchip_bytes[i]),
            energy_J=float(energies[i].sum()),
            intensity=float(intensity[i]),
            reached=float(use.macs_per_cycle[i]),
            bound=bound.of(i),
        )
        for i, (layer, network) in enumerate(zip(application.layers, application.network_of_layer, strict=True))
    ]
    latency, energy, area = (float(x) for x in report.objectives)
    return DesignView(
        design_id=str(index if design_id is None else design_id),
        objectives=(latency, energy, area),
        networks=tuple(network.name for network in application.networks),
        templates=tuple(template.name for template in evaluated.templates),
        chiplets=tuple(chiplets),
        bars=tuple(bars),
        traffic=_traffic(seen, names, uses, bandwidth, standing.tolist()),
    )


class TimetableRow(TypedDict):
    """A layer of a schedule: where and when it runs, and what it takes.

    Attributes:
        network: name of its network.
        layer: its name.
        chiplet: number of its chiplet, in the order of the mesh.
        template: template of that chiplet.
        start_s: [s].
        end_s: [s].
        energy_J: energy, including the package's [J].
        offchip_bytes: bytes read from and written to memory.
    """

    network: str
    layer: str
    chiplet: int
    template: str
    start_s: float
    end_s: float
    energy_J: float
    offchip_bytes: float


def timetable(front: Evaluated, row: int) -> list[TimetableRow]:
    """The schedule of one design, layer by layer, by rising start.

    Args:
        front: designs with their reports.
        row: row of the design.

    Raises:
        ValueError: its schedule never ends.
    """
    view = design_view(front, row)
    rows: list[TimetableRow] = [
        {
            "network": view.networks[bar.network],
            "layer": bar.name,
            "chiplet": bar.chiplet,
            "template": view.chiplets[bar.chiplet].template,
            "start_s": bar.start_s,
            "end_s": bar.end_s,
            "energy_J": bar.energy_J,
            "offchip_bytes": bar.offchip_bytes,
        }
        for bar in view.bars
    ]
    return sorted(rows, key=lambda own: own["start_s"])
