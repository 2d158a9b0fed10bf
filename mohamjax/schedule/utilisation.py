"""How much of its chiplet each layer of a design keeps busy: MACs per cycle, and their share of the chiplet's MACs.

A layer counts with its own multiply-accumulates: what a padded mapping computes beyond them is work for nothing, and
lowers the utilisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport, SizedDesign
from mohamjax.workload import ApplicationModel

LOW = 0.05
"""Utilisation below which a layer is named."""


class LayerUse(NamedTuple):
    """Layers of designs, `[..., L]` for the L layers that exist; NumPy.

    Attributes:
        macs: multiply-accumulates of the layer, without those of padding.
        busy: cycles from its start to its end.
        alone: cycles that it would take without any off-chip limit.
        compute: of these, cycles of computing; the others wait for a buffer's port.
        units: MAC units of its chiplet.
    """

    macs: np.ndarray
    busy: np.ndarray
    alone: np.ndarray
    compute: np.ndarray
    units: np.ndarray

    @property
    def macs_per_cycle(self) -> np.ndarray:
        """Over the time that it runs, `[..., L]`."""
        return self.macs / np.maximum(self.busy, 1)  # single precision may lose a short layer late in a schedule

    @property
    def utilisation(self) -> np.ndarray:
        """Share of its chiplet's MACs that work for it while it runs, 0 to 1, `[..., L]`."""
        return self.macs_per_cycle / self.units


class TypeUse(TypedDict):
    """The layers of a type: `busy_s` over all of them, and what becomes of that time.

    Attributes:
        type: the type.
        layers: their number.
        busy_s: from start to end, summed [s].
        macs_per_cycle: over that time.
        utilisation: of their chiplets' MACs over that time, 0 to 1.
        compute: share of it that goes to computing.
        buffers: share that goes to ports of buffers.
        offchip: share that goes to what lies off the chiplet.
    """

    type: str
    layers: int
    busy_s: float
    macs_per_cycle: float
    utilisation: float
    compute: float
    buffers: float
    offchip: float


def layer_use(
    application: ApplicationModel, tables: MappingTables, design: Design | SizedDesign, report: DesignReport
) -> LayerUse:
    """How each layer of designs uses its chiplet.

    Args:
        application: networks, L layers.
        tables: the Pareto tables that the designs were evaluated with, NumPy leaves.
        design: chromosomes, leading axes `[...]`, NumPy leaves.
        report: their reports, of the same leading axes, NumPy leaves.

    Returns:
        Arrays `[..., L]` float64 by name: `macs`, `busy`, `alone`, `compute` and `units`, of which `macs_per_cycle` and
        `utilisation` (0 to 1) are made (`LayerUse`).
    """
    real = len(application.layers)
    unique = np.asarray(application.unique_of_layer)
    tile = np.asarray(design.assignment)[..., :real]
    template = np.take_along_axis(np.asarray(design.template), tile, axis=-1)
    at = unique, np.maximum(template, 0), np.asarray(design.mapping)[..., :real]
    timeline = report.timeline
    busy = np.asarray(timeline.end, float)[..., :real] - np.asarray(timeline.start, float)[..., :real]
    units = np.asarray(report.chiplets.machine.mac_instances, float)
    macs = np.array([layer.shape.macs for layer in application.layers], float)
    return LayerUse(
        macs=np.broadcast_to(macs, busy.shape),
        busy=busy,
        alone=np.asarray(report.duration, float)[..., :real],
        compute=np.prod(np.asarray(tables.mapping.temporal, float)[at], axis=(-2, -1)),
        units=np.take_along_axis(units, tile, axis=-1),
    )


def by_type(application: ApplicationModel, use: LayerUse) -> list[TypeUse]:
    """Layers of one or several designs summed by type, the types that take longest first; JSON-able.

    Args:
        application: their networks.
        use: their layers, `[..., L]`.
    """
    kinds = np.array([layer.type for layer in application.layers])
    rows: list[TypeUse] = []
    for kind in dict.fromkeys(kinds.tolist()):
        own = LayerUse(*(field[..., kinds == kind] for field in use))
        busy = max(float(own.busy.sum()), np.finfo(float).tiny)
        rows.append(
            {
                "type": kind,
                "layers": int((kinds == kind).sum()),
                "busy_s": busy * CYCLE_S,
                "macs_per_cycle": float(own.macs.sum()) / busy,
                "utilisation": float(own.macs.sum() / max((own.busy * own.units).sum(), np.finfo(float).tiny)),
                "compute": float(own.compute.sum()) / busy,
                "buffers": max(float((own.alone - own.compute).sum()), 0.0) / busy,
                "offchip": max(float((own.busy - own.alone).sum()), 0.0) / busy,
            }
        )
    return sorted(rows, key=lambda row: -row["busy_s"])


def layers_of_little_use(application: ApplicationModel, use: LayerUse) -> Sequence[str]:
    """Layers whose utilisation stays below `LOW` in every design, as network/layer, the one with most work first.

    Off-chip limits do not count: a slow memory is no fault of the array's.

    Args:
        application: networks, L layers.
        use: of designs, `[N, L]`.
    """
    most = (use.macs / np.maximum(use.alone, 1) / use.units).max(axis=0, initial=0)
    low = np.flatnonzero(most < LOW).tolist() if len(use.macs) else []
    low.sort(key=lambda i: -application.layers[i].shape.macs)
    names = [application.networks[n].name for n in application.network_of_layer]
    return [f"{names[i]}/{application.layers[i].name}" for i in low]
