"""Pareto tables: for every unique layer on every template, the mappings that the scheduler chooses from.

Axes: U unique layers, T templates, M mappings (padded), L levels, D dimensions, V data spaces.
"""

from __future__ import annotations

import chex

from mohamjax.mapping.nest import Mapping

__all__ = ["MappingTables"]


@chex.dataclass(frozen=True)
class MappingTables:
    """Pareto-optimal mappings and all that a design's evaluation needs of them.

    Entries at or beyond `count` are padding: their objectives are +inf, everything else is 0. The loop-nest model is
    not called again once the tables exist: energy at other buffer sizes follows from the block accesses.

    Attributes:
        mapping: `Mapping` with leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries of each set; 0 where the template cannot run the layer.
        objectives: `[U, T, M, 3]` float, latency [cycles, no off-chip limit], energy [pJ] and area [um^2] of the
            mapping's own minimal hardware.
        cycles: `[U, T, M]` float, cycles without any off-chip limit.
        offchip_bytes: `[U, T, M]` float, bytes read from and written to the off-chip level.
        offchip_words: `[U, T, M, V, 2]` float, words read from and written to it per data space.
        block_reads: `[U, T, M, L]` float, block reads of a level over all its instances and data spaces.
        block_writes: `[U, T, M, L]` float, block fills and updates, likewise.
        fixed_energy: `[U, T, M]` float, pJ that no buffer size changes: MACs, and wires on the mapping's own
            minimal array.
        capacity: `[U, T, M, L]` float, words per instance of the minimal hardware.
        fanout: `[U, T, M, L, 2]` float, fanout X and Y of the minimal hardware.
    """

    mapping: Mapping
    count: chex.Array
    objectives: chex.Array
    cycles: chex.Array
    offchip_bytes: chex.Array
    offchip_words: chex.Array
    block_reads: chex.Array
    block_writes: chex.Array
    fixed_energy: chex.Array
    capacity: chex.Array
    fanout: chex.Array
