"""Explains why a mapping costs what it costs, or does not fit: a simulator's table, as data and as text."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Literal, SupportsFloat, TypedDict

import jax
import numpy as np

from mohamjax.dims import DATA_SPACES
from mohamjax.hardware.arrays import Machine
from mohamjax.mapping.accesses import Counting
from mohamjax.mapping.children import room_for
from mohamjax.mapping.cost import REASONS, Evaluation, evaluate_batch
from mohamjax.mapping.nest import LayerArrays, Mapping


class DataSpaceRow(TypedDict):
    """One data space of a level: words per instance, energy of all instances."""

    tile: int | float
    reads: int | float
    fills: int | float
    updates: int | float
    energy_pJ: float


class LevelRow(TypedDict):
    """One level: words, and words per cycle and instance; None where unlimited."""

    name: str
    cycles: int | float
    instances: int | float
    capacity: int | float | None
    capacity_used: int | float
    bandwidth_needed: list[float]
    bandwidth: list[float | None]
    shared_bandwidth: float | None
    network_energy_pJ: float
    data_spaces: dict[str, DataSpaceRow]


class Explanation(TypedDict):
    """Why a valid mapping costs what it costs."""

    valid: Literal[True]
    cycles: int | float
    compute_cycles: int | float
    limited_by: str
    energy_pJ: float
    macs: int | float
    macs_per_cycle: float
    macs_present: int | float
    mac_energy_pJ: float
    levels: list[LevelRow]


class Rejection(TypedDict):
    """Why a mapping does not fit: the level and the reason."""

    valid: Literal[False]
    reject: dict[str, str]


def whole(value: SupportsFloat) -> int | float:
    """A number as an int where it is whole, else as a float."""
    number = float(value)
    return int(number) if math.isfinite(number) and number == int(number) else number


def rejection(result: Evaluation, machine: Machine, level_names: Sequence[str], mac_name: str) -> dict[str, str] | None:
    """What does not fit, in Timeloop's words; None for a valid mapping.

    Args:
        result: one mapping's evaluation (no batch axis), NumPy or JAX arrays.
        machine: the machine that it was evaluated on.
        level_names: names of the levels that exist, innermost first.
        mac_name: name of the MAC array.

    Returns:
        `{"level": name, "reason": text}`; the text names the need and the limit.
    """
    reason, counts = REASONS[int(result.reason)], result.counts
    if reason == "valid":
        return None
    level = int(result.level)
    if level < 0:
        x, y = (whole(v) for v in np.asarray(counts.mac_expansion))
        mesh = np.asarray(machine.mac_mesh)
        what, need, limit = {
            "mac_instances": ("instances", x * y, machine.mac_instances),
            "mac_x": ("X expansion", x, mesh[0]),
            "mac_y": ("Y expansion", y, mesh[1]),
        }[reason]
        text = f"mapped max Arithmetic {what} {need} exceeds hardware instances {whole(limit)}"
        return {"level": mac_name, "reason": text}
    parts = []
    for part in reason.split("+"):
        if part == "capacity":
            need, limit = np.sum(np.asarray(counts.tile)[level], dtype=np.float64), np.asarray(machine.capacity)[level]
            parts.append(f"mapped tile size {whole(need)} exceeds buffer capacity {whole(limit)}")
        elif part == "own_fanout":
            need, limit = np.asarray(counts.fanout_used)[level], np.asarray(machine.fanout)[level]
            parts.append(
                f"mapped fanout {whole(need[0])} x {whole(need[1])} exceeds the level's own"
                f" {whole(limit[0])} x {whole(limit[1])}"
            )
        else:
            x, y = np.asarray(counts.expansion)[level]
            mesh = np.asarray(machine.mesh)[level]
            what, need, limit = {
                "instances": ("instances", x * y, np.asarray(machine.instances)[level]),
                "x_expansion": ("X expansion", x, mesh[0]),
                "y_expansion": ("Y expansion", y, mesh[1]),
            }[part]
            parts.append(f"mapped {what} {whole(need)} exceeds available hardware instances {whole(limit)}")
    # Timeloop writes one text after the other.
    return {"level": level_names[level], "reason": "".join(parts)}


def explain_evaluation(
    result: Evaluation, machine: Machine, level_names: Sequence[str], mac_name: str = "MAC"
) -> Explanation | Rejection:
    """Explains one mapping that has been evaluated.

    Args:
        result: one mapping's evaluation (no batch axis).
        machine: the machine that it was evaluated on.
        level_names: names of the levels that exist, innermost first.
        mac_name: name of the MAC array.

    Returns:
        JSON-able data with `valid`. An invalid mapping also has `reject` (level and reason). A valid one has `cycles`,
        `compute_cycles`, `limited_by` (the level that sets the cycles, or the MACs), `energy_pJ`, `macs`,
        `macs_per_cycle`, `macs_present`, `mac_energy_pJ` and `levels`, innermost first. Each level has its `cycles`,
        `instances`, `capacity` and `capacity_used` (words), needed and granted bandwidth (words per cycle and
        instance, read and write; None where unlimited), `shared_bandwidth` of one port for both directions,
        `network_energy_pJ` and, per data space, `tile`, `reads`, `fills`, `updates` (words per instance) and
        `energy_pJ` (all instances).
    """
    failed = rejection(result, machine, level_names, mac_name)
    if failed is not None:
        return {"valid": False, "reject": failed}
    results = (result.counts, result.cycles, result.energy)
    counts, cycles, energy = jax.tree.map(lambda x: np.asarray(x, np.float64), results)
    compute = float(counts.compute_cycles)
    need = np.stack([counts.reads.sum(1), (counts.fills + counts.updates).sum(1)], axis=1) / compute
    limits, capacity = np.asarray(machine.bandwidth, np.float64), np.asarray(machine.capacity, np.float64)
    shared = np.full(len(limits), np.inf) if machine.shared_bandwidth is None else np.asarray(machine.shared_bandwidth)
    levels: list[LevelRow] = []
    for i, name in enumerate(level_names):
        spaces: dict[str, DataSpaceRow] = {
            space: {
                "tile": whole(counts.tile[i, v]),
                "reads": whole(counts.reads[i, v]),
                "fills": whole(counts.fills[i, v]),
                "updates": whole(counts.updates[i, v]),
                "energy_pJ": float(energy.level[i, v]),
            }
            for v, space in enumerate(DATA_SPACES)
        }
        levels.append(
            {
                "name": name,
                "cycles": whole(cycles.per_level[i]),
                "instances": whole(counts.instances_used[i]),
                "capacity": whole(capacity[i]) if np.isfinite(capacity[i]) else None,
                "capacity_used": whole(counts.tile[i].sum()),
                "bandwidth_needed": [float(b) for b in need[i]],
                "bandwidth": [float(b) if np.isfinite(b) else None for b in limits[i]],
                "shared_bandwidth": float(shared[i]) if np.isfinite(shared[i]) else None,
                "network_energy_pJ": float(energy.network[i]),
                "data_spaces": spaces,
            }
        )
    total = float(cycles.total)
    slowest = int(np.argmax(cycles.per_level))
    return {
        "valid": True,
        "cycles": whole(total),
        "compute_cycles": whole(compute),
        "limited_by": level_names[slowest] if cycles.per_level[slowest] > compute else mac_name,
        "energy_pJ": float(energy.total),
        "macs": whole(counts.macs),
        "macs_per_cycle": float(counts.macs) / total,
        "macs_present": whole(machine.mac_instances),
        "mac_energy_pJ": float(energy.mac),
        "levels": levels,
    }


@functools.partial(jax.jit, static_argnames=("counting",))
def _evaluate(layer: LayerArrays, mapping: Mapping, machine: Machine, counting: Counting) -> Evaluation:
    batch = jax.tree.map(lambda x: x[None], mapping)
    result = evaluate_batch(layer, batch, machine, counting)
    return jax.tree.map(lambda x: x[0], result)


def explain(
    layer: LayerArrays,
    mapping: Mapping,
    machine: Machine,
    *,
    level_names: Sequence[str] | None = None,
    mac_name: str = "MAC",
    links: bool = False,
    max_children: int | None = None,
) -> Explanation | Rejection:
    """Evaluates one mapping and explains the result, see `explain_evaluation`.

    Args:
        layer: the layer.
        mapping: a loop nest.
        machine: the machine; its float dtype is that of the computation.
        level_names: names of the levels that exist, innermost first; numbered by default.
        mac_name: name of the MAC array.
        links: count link transfers.
        max_children: children that the tables have room for, see `Counting`; default enough for this mapping.
    """
    if max_children is None:
        # A level may have more children than its own fanout, if levels above it have fewer than theirs.
        max_children = room_for(mapping.spatial, machine.mac_instances)
    levels = int(np.sum(np.asarray(machine.level_mask)))
    names = [f"level {i}" for i in range(levels)] if level_names is None else list(level_names)
    result = _evaluate(layer, mapping, machine, Counting(links=links, max_children=max_children))
    return explain_evaluation(result, machine, names, mac_name)


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.6g}"


def explanation_text(explanation: Explanation | Rejection) -> str:
    """The table of an explanation, outermost level first, for a fixed-width font."""
    if explanation["valid"] is False:
        failed = explanation["reject"]
        return f"invalid at {failed['level']}: {failed['reason']}"
    head = [
        "level",
        "data",
        "tile",
        "reads",
        "fills",
        "updates",
        "energy pJ",
        "x used",
        "read w/cycle",
        "write w/cycle",
    ]
    rows = [head]
    for level in reversed(explanation["levels"]):
        bandwidth = [
            f"{_number(need)} of {_number(limit)}"
            for need, limit in zip(level["bandwidth_needed"], level["bandwidth"], strict=True)
        ]
        if level["shared_bandwidth"] is not None:
            both = f"{_number(sum(level['bandwidth_needed']))} of {_number(level['shared_bandwidth'])}"
            bandwidth[1] += f", both {both}"
        used = f"{_number(level['capacity_used'])} of {_number(level['capacity'])} words"
        rows.append([level["name"], "", used, "", "", "", "", _number(level["instances"]), *bandwidth])
        for space, data in level["data_spaces"].items():
            if data["tile"]:
                cells = [_number(data[kind]) for kind in ("tile", "reads", "fills", "updates", "energy_pJ")]
                rows.append(["", space, *cells, "", "", ""])
        if level["network_energy_pJ"]:
            rows.append(["", "network", "", "", "", "", _number(level["network_energy_pJ"]), "", "", ""])
    rows.append(["MAC", "", "", "", "", "", _number(explanation["mac_energy_pJ"]), "", "", ""])
    widths = [max(len(row[c]) for row in rows) for c in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if c < 2 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.append(
        f"{_number(explanation['cycles'])} cycles ({_number(explanation['compute_cycles'])} of computing), limited by "
        f"{explanation['limited_by']}; {_number(explanation['energy_pJ'])} pJ; {_number(explanation['macs'])} MACs, "
        f"{explanation['macs_per_cycle']:.4g} per cycle of {_number(explanation['macs_present'])}; counts are words "
        "per instance, energies of all instances"
    )
    return "\n".join(line.rstrip() for line in lines)
