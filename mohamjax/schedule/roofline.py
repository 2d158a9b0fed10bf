"""Rooflines of a design: how fast its layers run, over their multiply-accumulates per off-chip byte.

The roof of a chiplet is the smaller of its peak (all its MACs in every cycle) and what its path to memory allows:
intensity times the least bandwidth of all resources that its traffic passes. No layer runs above the roof: its own
multiply-accumulates are at most those that its mapping does, and it moves its bytes while it runs. A layer lies below
the roof if its mapping leaves MACs idle, a buffer is slower than the MACs, or other chiplets share the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mohamjax.hardware import Template
from mohamjax.mapping import MappingTables
from mohamjax.schedule.design import CYCLE_S, Design
from mohamjax.schedule.segments import Flow, by_resource
from mohamjax.schedule.utilisation import LayerUse

COMPUTE = "MACs"
"""What binds a layer that waits for nothing and keeps more than half of its chiplet's MACs busy."""

MAPPING = "mapping"
"""What binds a layer that waits for nothing, but whose mapping leaves at least half of the MACs idle."""

_ROUNDING = 1e-9
"""Relative rounding error of cycles in double precision."""

_UNITS = 8
"""The same in units of the last place, for reports in single precision."""

SLIGHT = 0.98
"""A resource does not bind a layer that still runs at this share of its full speed or faster."""


class Roof(NamedTuple):
    """The roof over the layers of one chiplet.

    Attributes:
        peak: MACs per cycle with all MACs at work.
        bandwidth: most bytes per cycle on its path to memory; inf where nothing limits it.
        resource: the narrowest resource on that path; the first of several.
    """

    peak: float
    bandwidth: float
    resource: str

    def at(self, intensity: float | np.ndarray) -> np.ndarray:
        """Most MACs per cycle that the chiplet can reach, at intensities [MACs per off-chip byte] above 0."""
        return np.minimum(self.peak, self.bandwidth * np.asarray(intensity, float))

    @property
    def ridge(self) -> float:
        """Intensity from which on the MACs bind [MACs per off-chip byte]; 0 where they always do."""
        return self.peak / self.bandwidth


def roof(peak: float, uses: Sequence[int], names: Sequence[str], bandwidth: np.ndarray) -> Roof:
    """The roof of a chiplet.

    Args:
        peak: its MACs.
        uses: the shared resources that its traffic passes.
        names: names of all resources.
        bandwidth: `[R]` float, bandwidths of all resources [bytes per cycle].
    """
    narrowest = min(uses, key=lambda resource: bandwidth[resource])
    return Roof(float(peak), float(bandwidth[narrowest]), names[narrowest])


def intensities(macs: np.ndarray, offchip_bytes: np.ndarray) -> np.ndarray:
    """MACs per byte read from and written to the off-chip memory; at least one byte is counted."""
    return np.asarray(macs, float) / np.maximum(np.asarray(offchip_bytes, float), 1.0)


def slowest_levels(
    design: Design, tables: MappingTables, templates: Sequence[Template], unique: np.ndarray
) -> np.ndarray:
    """`[L]` int, the level below the off-chip memory whose ports take the longest for each layer of one design.

    The times of ports follow from the tables' block accesses. These are whole blocks, so either of two levels may be
    given if their times differ by less than a block.

    Args:
        design: the chromosome, NumPy leaves.
        tables: the Pareto tables that it was evaluated with, NumPy leaves.
        templates: T templates.
        unique: `[L]` unique layer of each of the L layers that exist.
    """
    real = len(unique)
    kind = np.asarray(design.template)[np.asarray(design.assignment)[:real]]
    at = unique, kind, np.asarray(design.mapping)[:real]
    # Accesses per instance: a level has as many instances as the spatial loops of all levels above make.
    spatial = np.prod(np.asarray(tables.mapping.spatial, float)[at], axis=(-3, -1))  # [L, V]
    instances = np.cumprod(spatial[:, ::-1], axis=1)[:, ::-1] / spatial
    reads, writes = (np.asarray(field, float)[at] / instances for field in (tables.block_reads, tables.block_writes))
    limits = np.full((len(templates), reads.shape[1], 3), np.inf)  # words per cycle: reading, writing, both
    block = np.ones(limits.shape[:2])
    for t, template in enumerate(templates):
        for v, level in enumerate(template.levels):
            block[t, v] = level.block_words
            if v < len(template.levels) - 1:
                ports = (*level.bandwidth, level.shared_bandwidth)
                limits[t, v] = [np.inf if limit is None else limit for limit in ports]
    words = block[kind, :, None] * np.stack([reads, writes, reads + writes], axis=-1)
    time = (words / limits[kind]).max(axis=-1)
    return np.argmax(time, axis=1)


class Binding(NamedTuple):
    """What binds the layers of one design while they run.

    Attributes:
        shared: `[R, L]` float, cycles in which each shared resource slows each layer.
        own: `[L]` what binds each layer in the rest of its time: a buffer, `COMPUTE` or `MAPPING`.
        busy: `[L]` float, cycles in which each layer runs.
        resources: names of the shared resources.
    """

    shared: np.ndarray
    own: list[str]
    busy: np.ndarray
    resources: Sequence[str]

    def of(self, layer: int) -> str:
        """The resource that slows a layer most, if resources slow it for more than half of its time; else `own`."""
        slowed = self.shared[:, layer]
        return self.resources[int(np.argmax(slowed))] if slowed.sum() > self.busy[layer] / 2 else self.own[layer]

    def seconds(self, layers: Sequence[int]) -> dict[str, float]:
        """What binds some layers, and for how long [s], the longest first; adds up to the time in which they run."""
        total: dict[str, float] = {}
        for layer in layers:
            slowed = self.shared[:, layer]
            for name, cycles in zip(self.resources, slowed, strict=True):
                total[name] = total.get(name, 0.0) + float(cycles)
            rest = max(float(self.busy[layer] - slowed.sum()), 0.0)
            total[self.own[layer]] = total.get(self.own[layer], 0.0) + rest
        return {name: cycles * CYCLE_S for name, cycles in sorted(total.items(), key=lambda item: -item[1]) if cycles}


def binding(
    design: Design,
    tables: MappingTables,
    templates: Sequence[Template],
    unique: np.ndarray,
    use: LayerUse,
    seen: Flow,
    resources: Sequence[str],
) -> Binding:
    """What binds each layer of one design.

    A shared resource binds a layer while it slows the layer by more than a fiftieth (`SLIGHT`). Otherwise the layer is
    bound by a buffer, if its ports take longer than the MACs; else by its mapping, if that leaves at least half of the
    MACs idle; else by the MACs.

    Args:
        design: the chromosome, NumPy leaves.
        tables: the Pareto tables that it was evaluated with, NumPy leaves; in their precision, which is that of the
            evaluation, cycles may be rounded.
        templates: T templates.
        unique: `[L]` unique layer of each of the L layers that exist.
        use: how the layers use their chiplets.
        seen: the flow of the schedule.
        resources: names of the shared resources.
    """
    rounding = max(_ROUNDING, _UNITS * float(np.finfo(np.asarray(tables.cycles).dtype).eps))
    levels = slowest_levels(design, tables, templates, unique)
    kinds = np.asarray(design.template)[np.asarray(design.assignment)[: len(unique)]]
    buffers = use.alone > use.compute * (1 + rounding)
    idle = use.macs <= use.compute * use.units / 2 * (1 + rounding)
    own = [
        templates[kinds[layer]].level_names[levels[layer]] if buffers[layer] else MAPPING if idle[layer] else COMPUTE
        for layer in range(len(unique))
    ]
    slowed = np.where(seen.rate < SLIGHT, np.diff(seen.time)[:, None], 0.0)
    return Binding(by_resource(seen, slowed), own, use.busy, resources)
