"""How much of its chiplet each layer of a design keeps busy: MACs per cycle, and their share of the chiplet's MACs.

Only a layer's own multiply-accumulates count: those that a padded mapping does beyond them are wasted, and lower the
utilisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport, SizedDesign
from mohamjax.schedule.setup import Setup
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel

LOW = 0.05
"""Utilisation below which a layer is reported."""


class LayerUse(NamedTuple):
    """How layers of designs use their chiplets: NumPy arrays `[..., L]` for the L layers that exist.

    Attributes:
        macs: multiply-accumulates of the layer, without those of padding.
        busy: cycles from its start to its end.
        alone: cycles that it would take without any off-chip limit.
        compute: cycles of `alone` in which it computes; in the others it waits for a buffer's port.
        units: MAC units of its chiplet.
    """

    macs: np.ndarray
    busy: np.ndarray
    alone: np.ndarray
    compute: np.ndarray
    units: np.ndarray

    @property
    def macs_per_cycle(self) -> np.ndarray:
        """MACs per cycle while the layer runs, `[..., L]`."""
        return self.macs / np.maximum(self.busy, 1)  # a short, late layer may last 0 in single precision

    @property
    def utilisation(self) -> np.ndarray:
        """Share of its chiplet's MACs that work for it while it runs, 0 to 1, `[..., L]`."""
        return self.macs_per_cycle / self.units


class TypeUse(TypedDict):
    """The layers of one type: their running time `busy_s`, and how it is spent.

    Attributes:
        type: the type.
        layers: their number.
        busy_s: from start to end, summed [s].
        macs_per_cycle: over that time.
        utilisation: of their chiplets' MACs over that time, 0 to 1.
        compute: share of that time spent computing.
        buffers: share spent waiting for ports of buffers.
        offchip: share lost to limits off the chiplet.
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
        `LayerUse` of float64 arrays `[..., L]`, which also gives `macs_per_cycle` and `utilisation` (0 to 1).
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


def best_utilisation(setup: Setup, tables: MappingTables) -> np.ndarray:
    """The largest share of a template's MACs that any mapping keeps busy, `[U]` float64, of every unique layer.

    A layer's multiply-accumulates over its on-chip cycles, without those of padding, are divided by the MACs that the
    template has at its largest size, and not by those of the mapping's own hardware: a layer that can use a single MAC
    of any array shows here, whatever sizes a search chooses for it.

    Args:
        setup: application of U unique layers, and T templates.
        tables: Pareto tables `[U, T, M]`.
    """
    cycles = np.where(tables.exists, np.asarray(tables.cycles, float), np.inf).min(axis=-1)
    macs = np.array([unique.shape.macs for unique in setup.application.unique_layers], float)
    units = np.asarray(setup.machines(tables.mapping.keep.shape[-2], np.float32).machine.mac_instances, float)
    return (macs[:, None] / cycles / units).max(axis=1, initial=0)


def layers_that_fill_no_template(setup: Setup, tables: MappingTables) -> list[str]:
    """Layers whose `best_utilisation` is below `LOW`, as network/layer, those with most work first.

    Args:
        setup: application and templates.
        tables: their Pareto tables.
    """
    best = best_utilisation(setup, tables)
    return _named(setup.application, best[np.asarray(setup.application.unique_of_layer)] < LOW)


def told_of_unfilled(names: Sequence[str]) -> str:
    """A sentence about the layers that fill no template, by their names; empty where there are none."""
    if not names:
        return ""
    return f"no mapping found keeps {LOW:.0%} of the MACs of any template at its largest size busy for {_few(names)}"


def told_of_idle(application: ApplicationModel, use: LayerUse, known: Sequence[str] = ()) -> str:
    """A sentence that names layers with a low utilisation in every design; empty where there are none.

    Args:
        application: networks, L layers.
        use: layers of designs, `[N, L]`.
        known: layers to leave out.
    """
    names = [name for name in layers_of_little_use(application, use) if name not in known]
    return f"less than {LOW:.0%} of the chiplet's MACs are busy in every design for {_few(names)}" if names else ""


def layers_of_little_use(application: ApplicationModel, use: LayerUse) -> list[str]:
    """Layers whose utilisation stays below `LOW` in every design, as network/layer, those with most work first.

    Time lost to off-chip limits does not count: a slow memory is not the array's fault.

    Args:
        application: networks, L layers.
        use: layers of designs, `[N, L]`.
    """
    most = (use.macs / np.maximum(use.alone, 1) / use.units).max(axis=0, initial=0)
    return _named(application, (most < LOW) & (len(use.macs) > 0))


def _named(application: ApplicationModel, low: np.ndarray) -> list[str]:
    """The layers of a mask `[L]` as network/layer, those with most work first."""
    rows = sorted(np.flatnonzero(low).tolist(), key=lambda i: -application.layers[i].shape.macs)
    names = [application.networks[n].name for n in application.network_of_layer]
    return [f"{names[i]}/{application.layers[i].name}" for i in rows]


def _few(names: Sequence[str]) -> str:
    """How many layers, and the first three."""
    return f"{plural(len(names), 'layer')}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
