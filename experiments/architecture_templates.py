"""Mapping onto an existing machine: makes a template of a single size from an architecture with its own energies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mohamjax.hardware import Architecture, Component, Dataflow, Level, Mac, Template


def template_of(architecture: Architecture, dataflows: Sequence[Dataflow]) -> Template:
    """An architecture as a template, for `MapperConfig(fixed=True)`.

    Energies and areas are those of the architecture; the technology does not change them.

    Args:
        architecture: a machine whose outermost level is its off-chip memory.
        dataflows: constraints on its loops, per layer type; one rule per level, innermost first.

    Raises:
        ValueError: fills and updates of the architecture differ in energy, which a template cannot express.
    """
    if architecture.machine.update_energy is not None:
        raise ValueError(f"{architecture.name}: templates have one energy for fills and updates")
    machine = architecture.machine
    shared = machine.shared_bandwidth

    def number(value: Any) -> float | None:
        return float(value) if np.isfinite(value) else None

    levels = []
    for i, name in enumerate(architecture.level_names):
        keep = tuple(bool(k) for k in np.asarray(machine.keep)[i])
        read, write = (float(e) for e in np.asarray(machine.access_energy)[i])
        stores = any(keep)
        words = number(np.asarray(machine.capacity)[i])
        offchip = i == len(architecture.level_names) - 1
        levels.append(
            Level(
                name=name,
                kind="dram" if offchip else "sram" if stores else "dummy",
                component=Component("fixed", fixed=(read, write, float(np.asarray(machine.area)[i]))),
                keep=(keep[0], keep[1], keep[2]),
                capacity_words=None if offchip or not stores or words is None else int(words),
                word_bits=int(np.asarray(machine.word_bits)[i]),
                block_words=int(np.asarray(machine.block_words)[i]),
                fanout=(int(np.asarray(machine.fanout)[i, 0]), int(np.asarray(machine.fanout)[i, 1])),
                bandwidth=(number(machine.bandwidth[i, 0]), number(machine.bandwidth[i, 1])),
                shared_bandwidth=None if shared is None else number(shared[i]),
                hop_energy_pJ=float(np.asarray(machine.hop_energy)[i]),
            )
        )
    mac = Mac(energy_pJ=float(machine.mac_energy), area_um2=float(machine.mac_area))
    return Template(architecture.name, tuple(levels), mac, tuple(dataflows))
