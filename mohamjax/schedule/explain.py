"""How the latency, the energy and the area of one design are made up, as data and as text.

Every part is computed from the design's report on the host; the parts of each objective add up to it. Time is broken
down twice: along the critical chain (the layers that, one after the other without a gap, make up the latency) and per
chiplet, into computing, on-chip limits, stalls, waiting for predecessors and idling after its last layer.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NotRequired, TypedDict

import jax
import numpy as np

from mohamjax.hardware import PackageParameters, Template, mesh_routes
from mohamjax.hardware.package import mesh_columns
from mohamjax.mapping import Mapping, MappingTables
from mohamjax.mapping.nest import padded, padded_names
from mohamjax.schedule.design import CYCLE_S, Chiplets, Design, DesignReport
from mohamjax.schedule.fluid import Timeline
from mohamjax.schedule.partial_sums import PartialSums, partial_sum_bytes, partial_sums
from mohamjax.schedule.roofline import Binding, binding
from mohamjax.schedule.segments import Flow, by_resource, flow
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.utilisation import LayerUse, TypeUse, by_type, layer_use
from mohamjax.text import plural, table
from mohamjax.workload import ApplicationModel

_SHOWN = 10
"""Number of layers that the text lists, those that take longest."""


class Busy(TypedDict):
    """Time in which layers run, by cause [s]; `stalled_s` by the resource that limits them."""

    compute_s: float
    onchip_limits_s: float
    stalled_s: dict[str, float]


class ChipletTime(Busy):
    """The time of a chiplet [s], which adds up to the latency: its layers run, wait for predecessors, or have ended."""

    waiting_s: float
    idle_s: float


class NetworkPart(TypedDict):
    """What a network takes: end of its last layer [s], energy without leakage [J], layers, and when they run."""

    name: str
    latency_s: float
    energy_J: float
    layers: int
    busy_s: Busy


class ChainLayer(TypedDict):
    """A layer of the critical chain, by index and name, the index of its chiplet, start and end [s]."""

    layer: int
    name: str
    chiplet: int
    start_s: float
    end_s: float


class CriticalChain(Busy):
    """Layers that, one after the other without a gap, make up the latency.

    `bound_s` says what binds them (as `bound` of a layer does) and for how long, the longest first; it adds up to the
    latency. It counts all the time in which a resource slows a layer, `stalled_s` only the time that the layer loses.
    """

    layers: list[ChainLayer]
    bound_s: dict[str, float]


class LayerPart(TypedDict):
    """A layer: index, name, type, index of its chiplet, the time in which it runs [s], and its use of the chiplet then.

    `bound` is what binds it for most of that time: a shared resource, a buffer, `MACs`, or `mapping` where that leaves
    at least half of the MACs idle (`roofline.binding`).
    `padded` gives, by dimension, the bounds that its mapping covers where they differ from the layer's own;
    `partial_sum_bytes` is the part of `offchip_bytes` that is partial sums. Either may be absent.
    """

    layer: int
    name: str
    type: str
    chiplet: int
    busy_s: float
    macs_per_cycle: float
    utilisation: float
    offchip_bytes: float
    bound: str
    padded: NotRequired[dict[str, int]]
    partial_sum_bytes: NotRequired[float]


class LevelPart(TypedDict):
    """A level of a chiplet: name, words per instance (None: unlimited), children of an instance along X and Y."""

    name: str
    capacity_words: int | None
    fanout: list[int]


class ChipletPart(TypedDict):
    """A chiplet: where it stands, how large it is, number of layers, and time, energy and area by part.

    `place` is its column and row on the mesh, counted from the north-west corner; `macs` are its multiply-accumulate
    units; `levels` go from the innermost to the last one on the chip.
    """

    template: str
    place: list[int]
    macs: int
    levels: list[LevelPart]
    interface: int
    hops: int
    layers: int
    time: ChipletTime
    energy_J: dict[str, float]
    area_mm2: dict[str, float]


class ResourcePart(TypedDict):
    """A shared resource: bandwidth (None: unlimited), bytes, and the share of the latency in which it is full."""

    name: str
    bytes_per_cycle: float | None
    bytes: float
    full: float


class Explanation(TypedDict):
    """The result of `explain_design`; JSON-able.

    Attributes:
        latency_s: [s].
        energy_J: [J].
        area_mm2: [mm^2].
        networks: in the order of the application.
        critical_chain: its times add up to the latency.
        layer_types: those that take longest first.
        layers: in the order of the application.
        chiplets: in the order of the mesh.
        resources: memory interfaces, the DRAM, and mesh links where these contend.
        partial_sums: those that pass off-chip, where there are any.
    """

    latency_s: float
    energy_J: float
    area_mm2: float
    networks: list[NetworkPart]
    critical_chain: CriticalChain
    layer_types: list[TypeUse]
    layers: list[LayerPart]
    chiplets: list[ChipletPart]
    resources: list[ResourcePart]
    partial_sums: NotRequired[PartialSums]


def shared_resources(package: PackageParameters, chips: Chiplets) -> tuple[list[str], list[list[int]], list[float]]:
    """The resources that off-chip traffic passes: memory interfaces, the DRAM, a link per tile, mesh links.

    Args:
        package: package parameters.
        chips: the `Chiplets` of one design, NumPy leaves.

    Returns:
        Names of the resources, the resources of each tile, and bandwidths [bytes per cycle]. Tiles' own links are all
        named `link`; mesh links, where they contend, are named after the routers that they join.
    """
    count, tiles = package.max_interfaces, len(chips.interface)
    names = [*(f"interface {i}" for i in range(count)), "DRAM", *["link"] * tiles]
    uses = [[int(r), count, count + 1 + k] for k, r in enumerate(chips.interface)]
    rest = [package.dram_bandwidth, *[package.link_bandwidth] * tiles]
    bandwidth = [package.interface_bandwidth] * count + (rest if package.links_contend else [np.inf] * (tiles + 1))
    if package.contention == "mesh":
        standing = np.flatnonzero(chips.occupied)
        routes = mesh_routes(package, len(standing))
        # Links near the interfaces first: of several equally full ones, the first is reported as limiting a layer.
        deep = sorted((depth, link) for route in routes for depth, link in enumerate(route))
        number = {link: len(names) + k for k, link in enumerate(dict.fromkeys(link for _, link in deep))}
        for tile, route in zip(standing, routes, strict=True):
            uses[tile] += [number[link] for link in route]
        names += [f"mesh link ({a},{b})-({c},{d})" for (a, b), (c, d) in number]
        bandwidth += [package.link_bandwidth] * len(number)
    return names, uses, bandwidth


def energy_parts(
    design: Design, report: DesignReport, tables: MappingTables, unique: np.ndarray
) -> dict[str, np.ndarray]:
    """Energy of every layer by part [pJ], as `schedule.design` adds it up.

    Args:
        design: one design, NumPy leaves.
        report: its report, NumPy leaves.
        tables: Pareto tables, NumPy leaves.
        unique: `[n]` unique layer of each of the n layers that exist.

    Returns:
        `mac` `[n]`, `levels` `[n, V]` (the outermost existing one is the off-chip memory), `networks` `[n, V]` (wires
        below each level) and `package` `[n]`.
    """
    real = len(unique)
    tile = np.asarray(design.assignment[:real])
    at = unique, np.maximum(design.template, 0)[tile], np.asarray(design.mapping[:real])
    machine = report.chiplets.machine
    read, write = np.moveaxis(np.asarray(machine.access_energy)[tile], -1, 0)
    return {
        "mac": np.asarray(tables.macs[at]) * np.asarray(machine.mac_energy)[tile],
        "levels": np.asarray(tables.block_reads[at]) * read + np.asarray(tables.block_writes[at]) * write,
        "networks": np.asarray(report.wire_energy[:real]),
        "package": np.asarray(report.nop_energy[:real]),
    }


def level_sizes(chips: Chiplets, template: Template, tile: int) -> list[LevelPart]:
    """The levels of one chiplet as it is built, from the innermost to the off-chip memory; plain data.

    Args:
        chips: the `Chiplets` of one design, NumPy leaves.
        template: the chiplet's template.
        tile: the tile that it is on.
    """
    return [
        {
            "name": level.name,
            "capacity_words": None if level.capacity_words is None else int(chips.capacity[tile, v]),
            "fanout": [int(x) for x in chips.fanout[tile, v]],
        }
        for v, level in enumerate(template.levels)
    ]


def area_parts(report: DesignReport, template: Template, package: PackageParameters, tile: int) -> dict[str, float]:
    """Area of one chiplet by part, um^2: MACs, every level from the innermost on, its share of the package.

    Args:
        report: report of the design, NumPy leaves.
        template: the chiplet's template.
        package: package parameters.
        tile: the tile that it is on.
    """
    machine = report.chiplets.machine
    parts = {"MACs": float(machine.mac_area[tile] * machine.mac_instances[tile])}
    for v, level in enumerate(template.levels):
        parts[level.name] = float(machine.area[tile, v] * machine.instances[tile, v])
    parts["router, transceiver"] = package.router_area + package.transceiver_area
    return parts


def _critical_chain(
    order: Sequence[int], tile: np.ndarray, timeline: Timeline, application: ApplicationModel
) -> list[int]:
    """Layers from the start to the latest end, each beginning when the one before it ends."""
    end, start = np.asarray(timeline.end), np.asarray(timeline.start)
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for layer in order:
        if int(tile[layer]) in last:
            before[layer] = last[int(tile[layer])]
        last[int(tile[layer])] = layer
    chain = [int(np.argmax(end[: len(tile)]))]
    while True:
        layer = chain[-1]
        waited = [*application.layers[layer].predecessors, *([before[layer]] if layer in before else [])]
        if not waited or start[layer] <= 0:
            return chain[::-1]
        chain.append(max(waited, key=lambda p: end[p]))


@dataclasses.dataclass(frozen=True)
class _Parts:
    """One design, and what its parts are computed from; n layers exist.

    Attributes:
        setup: networks and hardware.
        design: the chromosome, NumPy leaves.
        report: its report, NumPy leaves.
        tile: `[n]` int, where each layer runs.
        start: `[n]` float [cycles].
        end: `[n]` float [cycles].
        use: how each layer uses its chiplet.
        stalled: by resource `[n]` float, cycles that layers lose to it.
        energy: from `energy_parts`.
        bound: what binds the layers.
        spilled: `[n]` float, bytes of partial sums that pass off-chip.
    """

    setup: Setup
    design: Design
    report: DesignReport
    tile: np.ndarray
    start: np.ndarray
    end: np.ndarray
    use: LayerUse
    stalled: dict[str, np.ndarray]
    energy: dict[str, np.ndarray]
    bound: Binding
    spilled: np.ndarray

    @functools.cached_property
    def standing(self) -> list[int]:
        """Tiles with a chiplet, in the order of the mesh."""
        return np.flatnonzero(np.asarray(self.design.template) >= 0).tolist()

    @functools.cached_property
    def names(self) -> list[str]:
        """Every layer as network/layer."""
        application = self.setup.application
        owners = [application.networks[n].name for n in application.network_of_layer]
        return [f"{owner}/{layer.name}" for owner, layer in zip(owners, application.layers, strict=True)]

    def chiplet(self, layer: int) -> int:
        """Index of a layer's chiplet, in the order of the mesh."""
        return self.standing.index(int(self.tile[layer]))

    def busy(self, members: np.ndarray) -> Busy:
        """Time in which some layers run, by cause."""
        alone, compute = self.use.alone, self.use.compute
        return {
            "compute_s": float(compute[members].sum()) * CYCLE_S,
            "onchip_limits_s": float((alone - compute)[members].sum()) * CYCLE_S,
            "stalled_s": {
                name: float(row[members].sum()) * CYCLE_S for name, row in self.stalled.items() if row[members].any()
            },
        }

    def networks(self) -> list[NetworkPart]:
        """What every network takes."""
        energy = self.energy
        per_layer = energy["mac"] + energy["levels"].sum(1) + energy["networks"].sum(1) + energy["package"]
        owner = np.asarray(self.setup.application.network_of_layer)
        return [
            {
                "name": network.name,
                "latency_s": float(self.end[owner == n].max()) * CYCLE_S,
                "energy_J": float(per_layer[owner == n].sum()) * 1e-12,
                "layers": len(network.layers),
                "busy_s": self.busy(owner == n),
            }
            for n, network in enumerate(self.setup.application.networks)
        ]

    def critical_chain(self) -> CriticalChain:
        """The layers that make up the latency."""
        order = [int(i) for i in self.design.order if i < len(self.tile)]
        chain = _critical_chain(order, self.tile, self.report.timeline, self.setup.application)
        return {
            "layers": [
                {
                    "layer": i,
                    "name": self.names[i],
                    "chiplet": self.chiplet(i),
                    "start_s": float(self.start[i]) * CYCLE_S,
                    "end_s": float(self.end[i]) * CYCLE_S,
                }
                for i in chain
            ],
            **self.busy(np.asarray(chain)),
            "bound_s": self.bound.seconds(chain),
        }

    def layers(self, nests: Mapping) -> list[LayerPart]:
        """Every layer; `nests` are their loop nests, with a leading axis of n."""
        kinds = self.setup.application.layers
        bounds = np.array([layer.shape.bounds for layer in kinds])
        rows: list[LayerPart] = []
        for i, covers in enumerate(padded(nests, bounds)):
            row: LayerPart = {
                "layer": i,
                "name": self.names[i],
                "type": kinds[i].type,
                "chiplet": self.chiplet(i),
                "busy_s": float(self.use.busy[i]) * CYCLE_S,
                "macs_per_cycle": float(self.use.macs_per_cycle[i]),
                "utilisation": float(self.use.utilisation[i]),
                "offchip_bytes": float(self.report.offchip_bytes[i]),
                "bound": self.bound.of(i),
            }
            if beyond := padded_names(covers):
                row["padded"] = beyond
            if self.spilled[i] > 0:
                row["partial_sum_bytes"] = float(self.spilled[i])
            rows.append(row)
        return rows

    def chiplets(self) -> list[ChipletPart]:
        """Every chiplet."""
        return [self._chiplet(tile) for tile in self.standing]

    def _chiplet(self, tile: int) -> ChipletPart:
        mine = self.tile == tile
        template = self.setup.templates[int(self.design.template[tile])]
        static = float(self.report.static_energy[tile])
        spent = {"MACs": float(self.energy["mac"][mine].sum()) * 1e-12}
        for v, level in enumerate(template.levels):
            spent[level.name] = float(self.energy["levels"][mine, v].sum()) * 1e-12
        spent["networks"] = float(self.energy["networks"][mine].sum()) * 1e-12
        spent["package"] = float(self.energy["package"][mine].sum()) * 1e-12
        if static:
            spent["static"] = static * 1e-12
        final = float(self.end[mine].max(initial=0.0))  # a fixed chiplet may run nothing
        areas = area_parts(self.report, template, self.setup.package, tile)
        row, column = divmod(self.standing.index(tile), mesh_columns(len(self.standing)))
        return {
            "template": template.name,
            "place": [column, row],
            "macs": int(self.report.chiplets.machine.mac_instances[tile]),
            "levels": level_sizes(self.report.chiplets, template, tile)[:-1],
            "interface": int(self.report.chiplets.interface[tile]),
            "hops": int(self.report.chiplets.hops[tile]),
            "layers": int(mine.sum()),
            "time": {
                **self.busy(mine),
                "waiting_s": (final - float((self.end - self.start)[mine].sum())) * CYCLE_S,
                "idle_s": (float(self.end.max()) - final) * CYCLE_S,
            },
            "energy_J": spent,
            "area_mm2": {name: area * 1e-6 for name, area in areas.items()},
        }


def _stalled(seen: Flow, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Cycles `[n]` that layers lose to each resource; resources of the same name are added up."""
    stalled = {name: np.zeros(seen.rate.shape[1]) for name in names}
    for name, lost in zip(names, by_resource(seen, (1 - seen.rate) * np.diff(seen.time)[:, None]), strict=True):
        stalled[name] += lost
    return stalled


def explain_design(design: Design, report: DesignReport, tables: MappingTables, setup: Setup) -> Explanation:
    """Explains one valid design.

    Args:
        design: the chromosome, NumPy leaves without a leading axis.
        report: its report, NumPy leaves without a leading axis.
        tables: the Pareto tables that it was evaluated with, NumPy leaves.
        setup: networks and hardware.
    """
    application = setup.application
    layers = len(application.layers)
    unique = np.asarray(application.unique_of_layer)
    tile = np.asarray(design.assignment[:layers])
    start, end = (np.asarray(x[:layers], float) for x in (report.timeline.start, report.timeline.end))
    traffic = np.asarray(report.offchip_bytes[:layers], float)
    names, uses, bandwidth = shared_resources(setup.package, report.chiplets)
    use = layer_use(application, tables, design, report)
    seen = flow(start, end, use.alone, traffic, tile, uses, bandwidth)
    parts = _Parts(
        setup=setup,
        design=design,
        report=report,
        tile=tile,
        start=start,
        end=end,
        use=use,
        stalled=_stalled(seen, names),
        energy=energy_parts(design, report, tables, unique),
        bound=binding(design, tables, setup.templates, unique, use, seen, names),
        spilled=partial_sum_bytes(design, report, tables, unique),
    )
    at = unique, np.asarray(design.template)[tile], np.asarray(design.mapping[:layers])
    nests = jax.tree.map(lambda leaf: np.asarray(leaf)[at], tables.mapping)
    latency, energy, area = (float(x) for x in report.objectives)
    out: Explanation = {
        "latency_s": latency,
        "energy_J": energy,
        "area_mm2": area,
        "networks": parts.networks(),
        "critical_chain": parts.critical_chain(),
        "layer_types": by_type(application, use),
        "layers": parts.layers(nests),
        "chiplets": parts.chiplets(),
        "resources": _resources(seen, names, bandwidth, traffic, [uses[t] for t in tile]),
    }
    kinds = [setup.templates[t] for t in np.asarray(design.template)[tile]]
    if sums := partial_sums(parts.spilled, traffic, kinds):
        out["partial_sums"] = sums
    return out


def _resources(
    seen: Flow, names: Sequence[str], bandwidth: Sequence[float], traffic: np.ndarray, uses: Sequence[Sequence[int]]
) -> list[ResourcePart]:
    """How much traffic passes each interface, the DRAM and each mesh link, and how long each is full.

    Args:
        seen: the flow of the schedule.
        names: names of the resources.
        bandwidth: bandwidths of the resources [bytes per cycle].
        traffic: `[n]` bytes of each layer.
        uses: per layer, the resources that it uses.
    """
    total = max(float(seen.time[-1] - seen.time[0]), np.finfo(float).tiny) if seen.time.size else 1.0
    rows: list[ResourcePart] = []
    for r, name in enumerate(names):
        passing = np.asarray([r in mine for mine in uses])
        if name == "link" or not passing.any():
            continue
        full = seen.through[:, r] >= bandwidth[r] * (1 - 1e-9)
        rows.append(
            {
                "name": name,
                "bytes_per_cycle": float(bandwidth[r]) if np.isfinite(bandwidth[r]) else None,
                "bytes": float(traffic[passing].sum()),
                "full": float(np.diff(seen.time)[full].sum() / total),
            }
        )
    return rows


def _binding(chain: CriticalChain, latency: float) -> str:
    """A sentence on the critical chain, which makes up the latency, and on what binds it."""
    shares = {name: seconds / latency for name, seconds in chain["bound_s"].items() if seconds >= 0.01 * latency}
    lost = {name: seconds / latency for name, seconds in chain["stalled_s"].items()}
    told = ", ".join(
        f"{name} for {share:.0%} of the time" + (f" (which loses {lost[name]:.0%} to it)" if name in lost else "")
        for name, share in shares.items()
    )
    return f"the latency is that of a chain of {plural(len(chain['layers']), 'layer')}, bound by {told}"


def _level_text(level: LevelPart) -> str:
    words, (x, y) = level["capacity_words"], level["fanout"]
    size = "" if words is None else f" {words:,}"
    return f"{level['name']}{size}" + (f" ({x} x {y})" if x * y > 1 else "")


def explanation_text(explanation: Explanation, title: str) -> str:
    """An explanation as text, with tables for a fixed-width font.

    Args:
        explanation: from `explain_design`.
        title: name of the design.
    """
    latency, energy, area = (explanation[k] for k in ("latency_s", "energy_J", "area_mm2"))

    def percent(value: float, whole: float) -> str:
        return f"{100 * value / whole:.1f}" if whole else "0.0"

    def times(row: Busy, causes: Sequence[str]) -> list[str]:
        stalls = [percent(row["stalled_s"].get(cause, 0.0), latency) for cause in causes]
        return [percent(row["compute_s"], latency), percent(row["onchip_limits_s"], latency), *stalls]

    chain, chiplets = explanation["critical_chain"], explanation["chiplets"]
    causes = list(dict.fromkeys(cause for chip in chiplets for cause in chip["time"]["stalled_s"]))
    head = ["chiplet", "template", "layers", "compute", "on-chip", *causes, "waiting", "idle"]
    rows = [
        [
            str(k),
            chip["template"],
            str(chip["layers"]),
            *times(chip["time"], causes),
            percent(chip["time"]["waiting_s"], latency),
            percent(chip["time"]["idle_s"], latency),
        ]
        for k, chip in enumerate(chiplets)
    ]
    rows.append(["critical chain", "", str(len(chain["layers"])), *times(chain, causes), "", ""])
    built = [["chiplet", "template", "column, row", "interface", "hops", "MACs", "area [mm^2]", "levels"]]
    for k, chip in enumerate(chiplets):
        levels = ", ".join(map(_level_text, reversed(chip["levels"])))
        place = f"{chip['place'][0]}, {chip['place'][1]}"
        size = f"{sum(chip['area_mm2'].values()):.4g}"
        cells = [str(chip["interface"]), str(chip["hops"]), f"{chip['macs']:,}", size, levels]
        built.append([str(k), chip["template"], place, *cells])
    networks = [["network", "layers", "latency [s]", "of all [%]", "layers run [s]", "energy [J]", "of all [%]"]]
    for network in explanation["networks"]:
        own, busy = (network["latency_s"], network["energy_J"]), network["busy_s"]
        runs = busy["compute_s"] + busy["onchip_limits_s"] + sum(busy["stalled_s"].values())
        cells = [f"{own[0]:.4g}", percent(own[0], latency), f"{runs:.4g}", f"{own[1]:.4g}", percent(own[1], energy)]
        networks.append([network["name"], str(network["layers"]), *cells])
    slowest = [["layer", "type", "chiplet", "runs [s]", "MACs/cycle", "utilisation [%]", "off-chip [MB]", "bound by"]]
    for layer in sorted(explanation["layers"], key=lambda layer: -layer["busy_s"])[:_SHOWN]:
        cells = [f"{layer['busy_s']:.4g}", f"{layer['macs_per_cycle']:.1f}", f"{100 * layer['utilisation']:.1f}"]
        cells.append(f"{layer['offchip_bytes'] / 1e6:.4g}")
        slowest.append([layer["name"], layer["type"], str(layer["chiplet"]), *cells, layer["bound"]])
    shares = {"compute": "compute [%]", "buffers": "buffers [%]", "offchip": "off-chip [%]"}
    kinds = [["type", "layers", "busy [s]", "MACs/cycle", "utilisation [%]", *shares.values()]]
    for row in explanation["layer_types"]:
        told = [f"{100 * row[k]:.1f}" for k in ("utilisation", *shares)]
        kinds.append([row["type"], str(row["layers"]), f"{row['busy_s']:.4g}", f"{row['macs_per_cycle']:.1f}", *told])
    parts = [["chiplet", "part", "energy [J]", "of all [%]", "area [mm^2]", "of all [%]"]]
    for k, chip in enumerate(chiplets):
        for name in dict.fromkeys((*chip["energy_J"], *chip["area_mm2"])):
            spent, space = chip["energy_J"].get(name, 0.0), chip["area_mm2"].get(name, 0.0)
            if spent or space:
                cells = [f"{spent:.4g}", percent(spent, energy), f"{space:.4g}", percent(space, area)]
                parts.append([f"{k} {chip['template']}", name, *cells])
    resources = [["resource", "bytes/cycle", "bytes", "full [% of time]"]]
    for row in explanation["resources"]:
        speed = "-" if row["bytes_per_cycle"] is None else f"{row['bytes_per_cycle']:g}"
        resources.append([row["name"], speed, f"{row['bytes']:.6g}", f"{100 * row['full']:.1f}"])
    return "\n\n".join(
        [
            f"{title}: latency {latency:.6g} s, energy {energy:.6g} J, area {area:.6g} mm^2",
            _binding(chain, latency),
            table(networks),
            "chiplets: column and row on the mesh from the north-west corner; levels with words and fanout\n"
            + table(built),
            "time [% of the latency]; stalls by limiting resource; each chiplet and the critical chain add up to 100\n"
            + table([head, *rows]),
            "layers by type: MACs per cycle and utilisation of their chiplets while they run; shares of that time\n"
            + table(kinds),
            f"the {plural(len(slowest) - 1, 'layer')} that take longest\n" + table(slowest),
            "energy and area\n" + table(parts),
            "off-chip traffic\n" + table(resources),
            *([explanation["partial_sums"]["told"]] if "partial_sums" in explanation else []),
        ]
    )
