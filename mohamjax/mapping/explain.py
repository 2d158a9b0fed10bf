"""Why a mapping costs what it costs, or does not fit: a table as a simulator prints it, as data and as text."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mohamjax.dims import DATA_SPACES
from mohamjax.hardware.machine import Machine
from mohamjax.mapping.children import MAX_CHILDREN
from mohamjax.mapping.cost import REASONS, Evaluation, evaluate_batch
from mohamjax.mapping.nest import LayerArrays, Mapping


def whole(value: Any) -> int | float:
    """A number as Python writes it best: an int where it is whole."""
    value = float(value)
    return int(value) if math.isfinite(value) and value == int(value) else value


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
) -> dict[str, Any]:
    """Explains one mapping that has been evaluated.

    Args:
        result: one mapping's evaluation (no batch axis).
        machine: the machine that it was evaluated on.
        level_names: names of the levels that exist, innermost first.
        mac_name: name of the MAC array.

    Returns:
        JSON-able: `valid`; `reject` (level and reason) of an invalid mapping; of a valid one `cycles`,
        `compute_cycles`, `limited_by` (the level that sets the cycles, or the MACs), `energy_pJ`, `macs`,
        `macs_per_cycle`, `macs_present`, `mac_energy_pJ` and `levels`, innermost first, each with its `cycles`,
        `instances`, `capacity` and `capacity_used` (words), needed and granted bandwidth (words per cycle and
        instance, read and write; None where unlimited), `shared_bandwidth` of one port for both,
        `network_energy_pJ` and, per data space, `tile`, `reads`,
        `fills`, `updates` (words per instance) and `energy_pJ` (all instances).
    """
    failed = rejection(result, machine, level_names, mac_name)
    if failed is not None:
        return {"valid": False, "reject": failed}
    data: Any = jax.tree.map(lambda x: np.asarray(x, np.float64), (result.counts, result.cycles, result.energy))
    counts, cycles, energy = data
    compute = float(counts.compute_cycles)
    need = np.stack([counts.reads.sum(1), (counts.fills + counts.updates).sum(1)], axis=1) / compute
    limits, capacity = np.asarray(machine.bandwidth, np.float64), np.asarray(machine.capacity, np.float64)
    shared = np.full(len(limits), np.inf) if machine.shared_bandwidth is None else np.asarray(machine.shared_bandwidth)
    levels = []
    for i, name in enumerate(level_names):
        spaces = {
            space: {
                **{kind: whole(getattr(counts, kind)[i, v]) for kind in ("tile", "reads", "fills", "updates")},
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


@functools.partial(jax.jit, static_argnames=("links", "max_children"))
def _evaluate(layer, mapping, machine, links, max_children):
    batch = jax.tree.map(lambda x: x[None], mapping)
    result = evaluate_batch(layer, batch, machine, links=links, max_children=max_children)
    return jax.tree.map(lambda x: x[0], result)


def explain(
    layer: LayerArrays,
    mapping: Mapping,
    machine: Machine,
    *,
    level_names: Sequence[str] | None = None,
    mac_name: str = "MAC",
    links: bool = False,
    max_children: int = MAX_CHILDREN,
) -> dict[str, Any]:
    """Evaluates one mapping and explains the result; as `explain_evaluation`, which see.

    Args:
        layer: the layer.
        mapping: a loop nest.
        machine: the machine; its float dtype is that of the computation.
        level_names: names of the levels that exist, innermost first; numbered by default.
        mac_name: name of the MAC array.
        links: count link transfers.
        max_children: as in `count_accesses`.
    """
    levels = int(np.sum(np.asarray(machine.level_mask)))
    names = [f"level {i}" for i in range(levels)] if level_names is None else list(level_names)
    result = _evaluate(layer, mapping, machine, links, max_children)
    return explain_evaluation(result, machine, names, mac_name)


def _number(value: float | int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.6g}"


def explanation_text(explanation: dict[str, Any]) -> str:
    """The table of an explanation, outermost level first, for a fixed-width font."""
    if not explanation["valid"]:
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
