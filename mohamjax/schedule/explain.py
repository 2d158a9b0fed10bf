"""Where the latency, the energy and the area of one design go, as data and as text.

Every part is worked out from the design's report on the host; the parts of each objective add up to it. Time is told
twice: along the critical chain (the layers that, one after the other without a gap, make up the latency) and per
chiplet, whose time is computing, on-chip limits, stalls, waiting for predecessors and idling after its last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mohamjax.hardware import PackageParameters, Template, mesh_routes
from mohamjax.mapping import MappingTables
from mohamjax.mapping.nest import padded, padded_names
from mohamjax.schedule.design import CYCLE_S
from mohamjax.schedule.segments import flow
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.utilisation import by_type, layer_use
from mohamjax.text import table
from mohamjax.workload import ApplicationModel


def shared_resources(package: PackageParameters, chips: Any) -> tuple[list[str], list[list[int]], list[float]]:
    """What off-chip traffic passes: memory interfaces, the DRAM behind them, a link per tile, links of the mesh.

    Args:
        package: package parameters.
        chips: the `Chiplets` of one design, NumPy leaves.

    Returns:
        Names of the resources, the resources of each tile, and bandwidths [bytes per cycle]. Tiles' own links are all
        called `link`; those of the mesh, where it contends, after the routers that they join.
    """
    count, tiles = package.max_interfaces, len(chips.interface)
    names = [*(f"interface {i}" for i in range(count)), "DRAM", *["link"] * tiles]
    uses = [[int(r), count, count + 1 + k] for k, r in enumerate(chips.interface)]
    rest = [package.dram_bandwidth, *[package.link_bandwidth] * tiles]
    bandwidth = [package.interface_bandwidth] * count + (rest if package.links_contend else [np.inf] * (tiles + 1))
    if package.contention == "mesh":
        standing = np.flatnonzero(chips.occupied)
        routes = mesh_routes(package, len(standing))
        # Links near the interfaces first: of several equally full ones, the first is named as what limits a layer.
        deep = sorted((depth, link) for route in routes for depth, link in enumerate(route))
        number = {link: len(names) + k for k, link in enumerate(dict.fromkeys(link for _, link in deep))}
        for tile, route in zip(standing, routes, strict=True):
            uses[tile] += [number[link] for link in route]
        names += [f"mesh link ({a},{b})-({c},{d})" for (a, b), (c, d) in number]
        bandwidth += [package.link_bandwidth] * len(number)
    return names, uses, bandwidth


def energy_parts(design: Any, report: Any, tables: MappingTables, unique: np.ndarray) -> dict[str, np.ndarray]:
    """Energy of every layer by part, pJ, as `schedule.design` adds it up.

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


def area_parts(report: Any, template: Template, package: PackageParameters, tile: int) -> dict[str, float]:
    """Area of one chiplet by part, um^2: MACs, every level from the innermost on, its share of the package.

    Args:
        report: report of the design, NumPy leaves.
        template: the chiplet's template.
        package: package parameters.
        tile: where it stands.
    """
    machine = report.chiplets.machine
    parts = {"MACs": float(machine.mac_area[tile] * machine.mac_instances[tile])}
    for v, level in enumerate(template.levels):
        parts[level.name] = float(machine.area[tile, v] * machine.instances[tile, v])
    parts["router, transceiver"] = package.router_area + package.transceiver_area
    return parts


def _critical_chain(order: np.ndarray, tile: np.ndarray, timeline: Any, application: ApplicationModel) -> list[int]:
    """Layers from the start to the latest end, each beginning when the one before it ends."""
    end, start = np.asarray(timeline.end), np.asarray(timeline.start)
    before: dict[int, int] = {}
    last: dict[int, int] = {}
    for layer in order:
        if int(tile[layer]) in last:
            before[int(layer)] = last[int(tile[layer])]
        last[int(tile[layer])] = int(layer)
    chain = [int(np.argmax(end[: len(tile)]))]
    while True:
        layer = chain[-1]
        waited = [*application.layers[layer].predecessors, *([before[layer]] if layer in before else [])]
        if not waited or start[layer] <= 0:
            return chain[::-1]
        chain.append(max(waited, key=lambda p: end[p]))


def explain_design(
    design: Any,
    report: Any,
    tables: MappingTables,
    setup: Setup,
) -> dict[str, Any]:
    """Explains one valid design.

    Args:
        design: the chromosome, NumPy leaves without a leading axis.
        report: its report, likewise.
        tables: the Pareto tables that it was evaluated with, NumPy leaves.
        setup: networks and hardware.

    Returns:
        JSON-able:

        - `latency_s`, `energy_J`, `area_mm2`;
        - `networks`: name, `latency_s` (its last end), `energy_J`, `layers`, and `busy_s` over all its layers by
          `compute_s`, `onchip_limits_s` and `stalled_s` (by resource);
        - `critical_chain`: `layers` (index, name, chiplet, start and end), and parts as in `busy_s` that add up to
          the latency;
        - `layer_types`: as `utilisation.by_type`;
        - `layers`: per layer its index, name, type, chiplet, `busy_s`, `macs_per_cycle` and `utilisation` of its
          chiplet over that time, and `padded`, the bounds that its mapping covers beyond its own, if any;
        - `chiplets`: each with template, interface, hops, `layers`, `time` (the parts of `busy_s`, `waiting_s` for
          predecessors, `idle_s` after its last layer: together the latency), `energy_J` and `area_mm2` by part;
        - `resources`: per interface, the DRAM, and link of the mesh where it contends, its bandwidth (None: unlimited),
          bytes, and the share of the latency in which it is full.
    """
    application, templates, package = setup.application, setup.templates, setup.package
    layers = len(application.layers)
    unique = np.asarray(application.unique_of_layer)
    tile = np.asarray(design.assignment[:layers])
    at = unique, np.asarray(design.template)[tile], np.asarray(design.mapping[:layers])
    timeline = report.timeline
    start, end = np.asarray(timeline.start[:layers], float), np.asarray(timeline.end[:layers], float)
    duration, traffic = (np.asarray(x[:layers], float) for x in (report.duration, report.offchip_bytes))
    use = layer_use(application, tables, design, report)
    compute = use.compute

    names, uses, bandwidth = shared_resources(package, report.chiplets)
    seen = flow(start, end, duration, traffic, tile, uses, bandwidth)
    kinds = list(dict.fromkeys(names))
    stalled = np.zeros((len(kinds), layers))
    lost = (1 - seen.rate) * np.diff(seen.time)[:, None]
    for r, name in enumerate(names):
        stalled[kinds.index(name)] += np.where(seen.limit == r, lost, 0).sum(axis=0)

    def seconds(members: np.ndarray) -> dict[str, Any]:
        """Busy time of some layers by cause."""
        return {
            "compute_s": float(compute[members].sum()) * CYCLE_S,
            "onchip_limits_s": float((duration - compute)[members].sum()) * CYCLE_S,
            "stalled_s": {
                kind: float(row[members].sum()) * CYCLE_S
                for kind, row in zip(kinds, stalled, strict=True)
                if row[members].any()
            },
        }

    latency, energy, area = (float(x) for x in report.objectives)
    parts = energy_parts(design, report, tables, unique)
    per_layer = parts["mac"] + parts["levels"].sum(1) + parts["networks"].sum(1) + parts["package"]
    static = np.asarray(report.static_energy)
    standing = np.flatnonzero(np.asarray(design.template) >= 0)
    number = {int(t): k for k, t in enumerate(standing)}
    order = [int(i) for i in design.order if i < layers]
    chain = _critical_chain(np.asarray(order), tile, timeline, application)

    chiplets = []
    for t in standing:
        mine = tile == t
        template = templates[int(design.template[t])]
        spent = {"MACs": float(parts["mac"][mine].sum()) * 1e-12}
        for v, level in enumerate(template.levels):
            spent[level.name] = float(parts["levels"][mine, v].sum()) * 1e-12
        spent["networks"] = float(parts["networks"][mine].sum()) * 1e-12
        spent["package"] = float(parts["package"][mine].sum()) * 1e-12
        if static[t]:
            spent["static"] = float(static[t]) * 1e-12
        final = float(end[mine].max(initial=0.0))  # a fixed chiplet may run nothing
        chiplets.append(
            {
                "template": template.name,
                "interface": int(report.chiplets.interface[t]),
                "hops": int(report.chiplets.hops[t]),
                "layers": int(mine.sum()),
                "time": {
                    **seconds(mine),
                    "waiting_s": (final - float((end - start)[mine].sum())) * CYCLE_S,
                    "idle_s": (float(end.max()) - final) * CYCLE_S,
                },
                "energy_J": spent,
                "area_mm2": {k: x * 1e-6 for k, x in area_parts(report, template, package, int(t)).items()},
            }
        )
    owner = np.asarray(application.network_of_layer)
    called = [f"{application.networks[n].name}/{x.name}" for n, x in zip(owner, application.layers, strict=True)]
    bounds = np.array([layer.shape.bounds for layer in application.layers])
    nests = jax.tree.map(lambda leaf: np.asarray(leaf)[at], tables.mapping)
    return {
        "latency_s": latency,
        "energy_J": energy,
        "area_mm2": area,
        "networks": [
            {
                "name": network.name,
                "latency_s": float(end[owner == n].max()) * CYCLE_S,
                "energy_J": float(per_layer[owner == n].sum()) * 1e-12,
                "layers": len(network.layers),
                "busy_s": seconds(owner == n),
            }
            for n, network in enumerate(application.networks)
        ],
        "critical_chain": {
            "layers": [
                {
                    "layer": i,
                    "name": called[i],
                    "chiplet": number[int(tile[i])],
                    "start_s": float(start[i]) * CYCLE_S,
                    "end_s": float(end[i]) * CYCLE_S,
                }
                for i in chain
            ],
            **seconds(np.asarray(chain)),
        },
        "layer_types": by_type(application, use),
        "layers": [
            {
                "layer": i,
                "name": called[i],
                "type": application.layers[i].type,
                "chiplet": number[int(tile[i])],
                "busy_s": float(use.busy[i]) * CYCLE_S,
                "macs_per_cycle": float(use.macs_per_cycle[i]),
                "utilisation": float(use.utilisation[i]),
                **({"padded": told} if (told := padded_names(row)) else {}),
            }
            for i, row in enumerate(padded(nests, bounds))
        ],
        "chiplets": chiplets,
        "resources": _resources(seen, names, bandwidth, traffic, tile, uses),
    }


def _resources(
    seen: Any, names: Sequence[str], bandwidth: Sequence[float], traffic: np.ndarray, tile: np.ndarray, uses: Any
) -> list[dict[str, Any]]:
    """How much passes each interface, the DRAM and each link of the mesh, and how long it is full."""
    total = max(float(seen.time[-1] - seen.time[0]), np.finfo(float).tiny) if seen.time.size else 1.0
    rows = []
    for r, name in enumerate(names):
        passing = np.asarray([r in uses[t] for t in tile])
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


def explanation_text(explanation: dict[str, Any], title: str) -> str:
    """An explanation for people: tables in a fixed-width font.

    Args:
        explanation: from `explain_design`.
        title: what the design is called.
    """
    latency, energy, area = (explanation[k] for k in ("latency_s", "energy_J", "area_mm2"))

    def percent(value: float, whole: float) -> str:
        return f"{100 * value / whole:.1f}" if whole else "0.0"

    def times(row: dict[str, Any], causes: Sequence[str]) -> list[str]:
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
    networks = [["network", "layers", "latency [s]", "of all [%]", "energy [J]", "of all [%]"]]
    for network in explanation["networks"]:
        own = network["latency_s"], network["energy_J"]
        shares = percent(own[0], latency), percent(own[1], energy)
        cells = [f"{own[0]:.4g}", shares[0], f"{own[1]:.4g}", shares[1]]
        networks.append([network["name"], str(network["layers"]), *cells])
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
            table(networks),
            "time [% of the latency]; stalls by what limits; a chiplet's row and the critical chain add up to 100\n"
            + table([head, *rows]),
            "layers by type: MACs per cycle and utilisation of their chiplets while they run; shares of that time\n"
            + table(kinds),
            "energy and area\n" + table(parts),
            "off-chip traffic\n" + table(resources),
        ]
    )
