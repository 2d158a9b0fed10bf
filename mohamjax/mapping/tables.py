"""Pareto tables: for every unique layer on every template, the mappings that the scheduler chooses from.

Axes: U unique layers, T templates, M mappings (padded), L levels, D dimensions, V data spaces.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.dims import P, Q, R, S
from mohamjax.hardware import Machine, Technology, TemplateArrays, resize
from mohamjax.mapping.accesses import AccessCounts, Counting, count_accesses, outermost
from mohamjax.mapping.children import MAX_CHILDREN, room_for, table_room
from mohamjax.mapping.cost import (
    BLOCK,
    CycleCounts,
    EnergyBreakdown,
    area,
    cycles,
    energy,
    minimal_hardware,
    offchip_bytes,
    validity,
)
from mohamjax.mapping.nest import LayerArrays, Mapping
from mohamjax.runtime.blocks import in_fitting_blocks
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import T, record, take
from mohamjax.workload import DIMS

_BATCH = 8 * BLOCK
_FEW_CHILDREN = 1024  # of a level; up to here, counting with tables over them takes no longer than compiling without


@record
class MappingTables:
    """Pareto-optimal mappings and all that a design's evaluation needs to know about them.

    Entries at or beyond `count` are padding: objectives are +inf, other columns 0, mappings meaningless. The loop-nest
    model is not called again once the tables exist: energy at other sizes follows from the block accesses and, for the
    wires, from the words delivered (`wires.Wires`).

    Attributes:
        mapping: `Mapping` with leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries of each set; 0 where the template cannot run the layer.
        objectives: `[U, T, M, 3]` float, latency [cycles, no off-chip limit], energy [pJ] and area [um^2] of the
            mapping's own minimal hardware.
        cycles: `[U, T, M]` float, cycles without any off-chip limit.
        offchip_bytes: `[U, T, M]` float, bytes read from and written to the off-chip level.
        offchip_words: `[U, T, M, V, 2]` float, words read from and written to it per data space.
        block_reads: `[U, T, M, L]` float, block reads of a level over all its instances and data spaces.
        block_writes: `[U, T, M, L]` float, block fills and updates of a level over all its instances and data spaces.
        delivered: `[U, T, M, L, V]` float, words that a group of children of each level receives, over all its
            instances.
        macs: `[U, T, M]` float, multiply-accumulates; what one costs is the machine's.
        capacity: `[U, T, M, L]` float, words per instance of the minimal hardware.
        fanout: `[U, T, M, L, 2]` float, fanout X and Y of the minimal hardware.
    """

    mapping: Mapping
    count: jax.Array
    objectives: jax.Array
    cycles: jax.Array
    offchip_bytes: jax.Array
    offchip_words: jax.Array
    block_reads: jax.Array
    block_writes: jax.Array
    delivered: jax.Array
    macs: jax.Array
    capacity: jax.Array
    fanout: jax.Array

    @property
    def exists(self) -> np.ndarray:
        """`[U, T, M]` bool on the host, which entries are not padding."""
        return np.arange(np.shape(self.cycles)[-1]) < np.asarray(self.count)[..., None]


@record
class TableRows:
    """Mappings to evaluate, each with a layer and a template of its own; one leading axis.

    Attributes:
        layer: their layers.
        template: their templates at the largest sizes.
        mapping: loop nests.
        words: `[..., L]` float, words that an instance of a level may hold.
    """

    layer: LayerArrays
    template: TemplateArrays
    mapping: Mapping
    words: jax.Array


@record
class OwnHardware:
    """Mappings, each on hardware of its own; the batch is the last axis.

    Attributes:
        counts: words that they move.
        machine: the hardware that cycles, energy and area are computed for.
        reason: `[B]` int32, 0 where the mapping fits the template at its largest sizes, else as `validity` says.
        capacity: `[L, B]` float, words per instance of the minimal hardware; inf where unlimited.
        fanout: `[L, 2, B]` float, its fanout.
        cycles: time [cycles], in all and by level.
        energy: energy [pJ], in all and by part.
        area: `[B]` float, um^2.
    """

    counts: AccessCounts
    machine: Machine
    reason: jax.Array
    capacity: jax.Array
    fanout: jax.Array
    cycles: CycleCounts
    energy: EnergyBreakdown
    area: jax.Array


def on_own_hardware(
    layer: LayerArrays,
    mapping: Mapping,
    template: TemplateArrays,
    technology: Technology,
    *,
    paired: bool = False,
    fixed: bool = False,
    whole: bool = True,
    max_children: int = MAX_CHILDREN,
    words: jax.Array | None = None,
) -> OwnHardware:
    """Costs of mappings of one layer on one template, each on its own minimal hardware.

    Not jitted. The batch is the last axis of every leaf of `mapping` and of the result, the layout of the cost model.

    Args:
        layer: one layer, no batch axis unless `paired`.
        mapping: B loop nests, batch last.
        template: one template at its largest sizes, no batch axis unless `paired`.
        technology: energy and area tables.
        paired: static. Every mapping has a layer and a template of its own: their leaves end in the batch axis too.
        fixed: static. Evaluate on the template at its largest sizes instead: one existing machine, with its costs in
            `template`.
        whole: static. On a template of fixed sizes, count wires on its whole arrays, which takes tables; otherwise on
            the part of the arrays that the mapping uses, as on templates of free sizes.
        max_children: static, room of the tables over children, see `Counting`.
        words: `[L, B]` float, words that an instance of a level may hold; default the capacity at the largest sizes.
    """
    wide = template
    if not paired:
        wide, layer = jax.tree.map(lambda x: jnp.asarray(x)[..., None], (template, layer))
    largest = wide.machine
    # Wires are counted on the array that the mapping uses; nothing else in the counts depends on the fanout.
    used = jnp.moveaxis(jnp.prod(mapping.spatial.astype(largest.fanout.dtype), axis=2), 0, 1)
    if whole:
        used = jnp.where(wide.sized, largest.fanout, used)
    counted_on = largest if fixed else dataclasses.replace(largest, fanout=used)
    counts = count_accesses(layer, mapping, counted_on, Counting(max_children=max_children))
    holding = largest if words is None else dataclasses.replace(largest, capacity=words)
    reason, _ = validity(counts, mapping, holding, own_fanout=True)
    sizes = minimal_hardware(counts, mapping, largest.block_words, wide.granularity, largest.capacity)
    machine = largest
    if not fixed:
        own_sizes = jax.vmap(resize, in_axes=(-1 if paired else None, None, -1, -1), out_axes=-1)
        machine = own_sizes(template, technology, *sizes)
    return OwnHardware(
        counts=counts,
        machine=machine,
        reason=reason,
        capacity=sizes[0],
        fanout=sizes[1],
        cycles=cycles(counts, machine),
        energy=energy(counts, machine),
        area=jnp.broadcast_to(area(machine), reason.shape),
    )


def entries_of(tables: MappingTables) -> dict[str, Any]:
    """The fields of the tables with a value for every entry, by name: all but `count`."""
    return {field.name: getattr(tables, field.name) for field in dataclasses.fields(tables) if field.name != "count"}


def recast(tree: T, dtype: npt.DTypeLike) -> T:
    """Tables, or another pytree, with NumPy leaves, floats in another dtype.

    All are copies: JAX takes aligned arrays of the host without copying them, and the caller may write to the tables.
    """

    def cast(leaf: npt.ArrayLike) -> np.ndarray:
        array = np.asarray(leaf)
        return array.astype(dtype) if np.issubdtype(array.dtype, np.floating) else array.copy()

    return jax.tree.map(cast, tree)


def tabulate(
    layers: LayerArrays,
    templates: TemplateArrays,
    technology: Technology,
    mapping: Mapping,
    count: npt.ArrayLike,
    *,
    fixed: bool = False,
    as_given: bool = False,
) -> MappingTables:
    """Evaluates sets of mappings of every layer on every template, as `tabulate_sets` does.

    Args:
        layers: unique layers, leading axis `[U]`.
        templates: templates, leading axis `[T]`.
        technology: energy and area tables.
        mapping: mappings, leading axes `[U, T, M]`.
        count: `[U, T]` int, entries that exist.
        fixed: see `tabulate_sets`.
        as_given: compute in the precision of the templates, see `tabulate_as_given`.

    Returns:
        The tables, `[U, T, M, ...]`.
    """
    shape = np.shape(mapping.temporal)[:2]
    u, t = np.indices(shape).reshape(2, -1)
    layers, templates, mapping = jax.device_get((layers, templates, mapping))
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), mapping)
    arguments = take(layers, u), take(templates, t), technology, flat, np.asarray(count).reshape(-1)
    sets = (tabulate_as_given if as_given else tabulate_sets)(*arguments, fixed=fixed)
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), sets)


def tabulate_sets(
    layers: LayerArrays,
    templates: TemplateArrays,
    technology: Technology,
    mapping: Mapping,
    count: npt.ArrayLike,
    *,
    fixed: bool = False,
    whole: bool = True,
) -> MappingTables:
    """Evaluates sets of mappings, each of its own layer and template, on their own minimal hardware.

    Not jitted itself. It computes in double precision from the templates and the technology as they are given, and then
    rounds to the float dtype of `templates`: the tables of a search in single precision are made by the program that
    evaluates its front again. Entries that exist go through one program in batches of equal size. It is compiled once
    per L, `fixed` and `whole`, for any numbers of layers, templates and mappings, and once more per room of the tables
    over children for entries that need these. In double precision some entries usually do, so all entries of a template
    whose levels have at most 1,024 children are counted with tables, and most calls compile one program. A mapping
    that is invalid under its template's maximum sizes keeps its place with objectives of +inf.

    Args:
        layers: leading axis `[B]`.
        templates: leading axis `[B]`.
        technology: energy and area tables.
        mapping: leading axes `[B, M]`.
        count: `[B]` int, entries that exist.
        fixed: see `on_own_hardware`; objectives and `cycles` then count the off-chip limits too.
        whole: see `on_own_hardware`.

    Returns:
        The tables, `[B, M, ...]`, NumPy arrays.
    """
    capacity = np.asarray(templates.machine.capacity)
    words: Any = capacity.astype(np.float64)
    if capacity.dtype == np.float32:  # from 2^24 words on they may have been rounded down, by half a step at most
        step = np.spacing(np.where(np.isfinite(capacity), capacity, 0)).astype(np.float64)
        words = np.where(words >= 2**24, words + step / 2, words)
    with jax.enable_x64(True):
        templates, technology = recast((templates, technology), np.float64)
        rows = TableRows(layers, templates, mapping, words)
        return recast(_tabulated(rows, technology, count, fixed=fixed, whole=whole), capacity.dtype)


def tabulate_as_given(
    layers: LayerArrays,
    templates: TemplateArrays,
    technology: Technology,
    mapping: Mapping,
    count: npt.ArrayLike,
    *,
    fixed: bool = False,
    whole: bool = True,
) -> MappingTables:
    """Like `tabulate_sets`, but in the float dtype of `templates` and `technology`.

    JAX's 64-bit mode must be on for float64 and off for float32.
    """
    rows = TableRows(layers, templates, mapping, templates.machine.capacity)
    return _tabulated(rows, technology, count, fixed=fixed, whole=whole)


def _tabulated(
    sets: TableRows, technology: Technology, count: npt.ArrayLike, *, fixed: bool, whole: bool
) -> MappingTables:
    """`tabulate_as_given` for sets `[B]` of mappings `[B, M]`."""
    sets = jax.device_get(sets)
    templates, mapping = sets.template, sets.mapping
    count = np.asarray(count, np.int32)
    lead = mapping.temporal.shape[:2]
    exists = np.arange(lead[1]) < count[:, None]
    double = templates.machine.capacity.dtype == np.float64
    needs = np.full(lead, fixed) | need_children(mapping.spatial > 1, double=double)
    if whole:
        needs |= np.asarray(templates.sized)[:, None]
    most = np.prod(templates.machine.fanout, axis=-1).max(axis=-1)
    if double:
        needs |= (most <= _FEW_CHILDREN)[:, None]
    needs &= exists
    largest = room_for(mapping.spatial[needs], most[np.nonzero(needs)[0]])
    if double:  # Other mappings on templates with so few children then need no other program.
        largest = max(largest, table_room(np.max(most[most <= _FEW_CHILDREN], initial=1)))
    columns: dict[str, Any] = {
        name: np.full((*lead, *shape), np.inf if name == "objectives" else 0.0, templates.machine.capacity.dtype)
        for name, shape in column_shapes(*mapping.keep.shape[-2:]).items()
    }
    # Every entry goes through the program that it needs itself, whatever the others need.
    for room, entries in ((0, exists & ~needs), (largest, needs)):
        which, entry = np.nonzero(entries)
        # The last batch is filled up with repetitions.
        batches = np.resize(np.arange(len(which)), (-(-len(which) // _BATCH), _BATCH))
        found = [
            evaluate_rows(
                TableRows(
                    layer=take(sets.layer, which[rows]),
                    template=take(templates, which[rows]),
                    mapping=take(mapping, (which[rows], entry[rows])),
                    words=sets.words[which[rows]],
                ),
                technology,
                fixed=fixed,
                whole=whole,
                max_children=room,
            )
            for rows in batches
        ]
        for rows, values in zip(batches, jax.device_get(found), strict=True):
            for name, column in columns.items():
                column[which[rows], entry[rows]] = values[name]
    columns["count"] = count
    return MappingTables(mapping=mapping, **columns)


def column_shapes(levels: int, spaces: int) -> dict[str, tuple[int, ...]]:
    """Shapes of one entry of the float columns of the tables, by name."""
    return {
        "objectives": (3,),
        "cycles": (),
        "offchip_bytes": (),
        "offchip_words": (spaces, 2),
        "block_reads": (levels,),
        "block_writes": (levels,),
        "delivered": (levels, spaces),
        "macs": (),
        "capacity": (levels,),
        "fanout": (levels, 2),
    }


def need_children(along: npt.ArrayLike, *, double: bool = False) -> np.ndarray:
    """Which mappings need the cost model's tables over children (`max_children` above 0) on minimal hardware.

    In these mappings some level runs P together with R, or Q with S, along the same axis of its children. Where the
    array is as large as the mapping, no others need a table, and the program without tables compiles in two thirds of
    the time.

    Args:
        along: `[..., 2, L, D]` bool, dimensions that run along X or Y of a level's children.
        double: counts are in double precision, where shares of inputs are rounded like Timeloop's; that takes a table
            also where the two run along different axes.

    Returns:
        `[...]` bool.
    """
    runs = np.asarray(along)
    if double:
        runs = np.any(runs, axis=-3, keepdims=True)
    meet = (runs[..., P] & runs[..., R]) | (runs[..., Q] & runs[..., S])
    return np.any(meet, axis=(-2, -1))


@jit_o1_plain_loops(static_argnames=("fixed", "whole", "max_children"))
def evaluate_rows(
    rows: TableRows, technology: Technology, *, fixed: bool, whole: bool, max_children: int
) -> dict[str, jax.Array]:
    """Columns of the tables, `[N, ...]`, for rows `[N]`."""

    def block(rows: TableRows) -> dict[str, jax.Array]:
        last: TableRows = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), rows)
        own = on_own_hardware(
            last.layer, last.mapping, last.template, technology,
            paired=True, fixed=fixed, whole=whole, max_children=max_children, words=last.words,
        )  # fmt: skip
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), _columns(own, fixed))

    # Blocks bound the memory: the wires of one mapping may need a table over all children of a level.
    return in_fitting_blocks(block, rows, BLOCK)


def _columns(own: OwnHardware, fixed: bool) -> dict[str, jax.Array]:
    """All columns of the tables, batch last."""
    counts, machine = own.counts, own.machine
    time = own.cycles.total if fixed else own.cycles.onchip
    block = machine.block_words[:, None]

    def blocks(*words: jax.Array) -> jax.Array:
        """Physical accesses of each level over all instances: words per data space, rounded up to blocks."""
        return sum(jnp.sum(jnp.ceil(w / block), axis=1) for w in words) * counts.instances_used

    words = jnp.stack([counts.reads, counts.updates], axis=2) * counts.instances_used[:, None, None]
    objectives = jnp.stack([time, own.energy.total, own.area])
    return {
        "objectives": jnp.where(own.reason == 0, objectives, jnp.inf),
        "cycles": time,
        "offchip_bytes": offchip_bytes(counts, machine),
        "offchip_words": jnp.sum(jnp.where(outermost(machine)[:, None, None], words, 0.0), axis=0),
        "block_reads": blocks(counts.reads),
        "block_writes": blocks(counts.fills, counts.updates),
        "delivered": counts.delivered * counts.instances_used[:, None],
        "macs": counts.macs,
        "capacity": jnp.where(jnp.isfinite(own.capacity), own.capacity, 0.0),
        "fanout": own.fanout,
    }


def assemble(
    found: abc.Mapping[tuple[int, int], MappingTables],
    layers: int,
    templates: int,
    entries: int,
    levels: int,
    dtype: npt.DTypeLike,
) -> MappingTables:
    """Joins sets by (layer, template) into one table `[U, T, M, ...]` of M = `entries`; count 0 where there is none."""
    dims, spaces = len(DIMS), 3
    lead = (layers, templates)
    columns: dict[str, Any] = {
        name: np.zeros((*lead, entries, *shape), dtype) for name, shape in column_shapes(levels, spaces).items()
    }
    columns["objectives"] += np.inf
    columns["count"] = np.zeros(lead, np.int32)
    unit = np.arange(dims, dtype=np.int32)
    nest: dict[str, Any] = {
        "temporal": np.ones((*lead, entries, levels, dims), np.int32),
        "order": np.broadcast_to(unit, (*lead, entries, levels, dims)).copy(),
        "spatial": np.ones((*lead, entries, 2, levels, dims), np.int32),
        "spatial_order": np.broadcast_to(unit, (*lead, entries, 2, levels, dims)).copy(),
        "keep": np.zeros((*lead, entries, levels, spaces), bool),
    }
    for pair, table in found.items():
        rows = slice(len(table.cycles))
        for name, column in columns.items():
            column[pair if name == "count" else (*pair, rows)] = getattr(table, name)
        for name, column in nest.items():
            column[(*pair, rows)] = getattr(table.mapping, name)
    return MappingTables(mapping=Mapping(**nest), **columns)


def undominated(table: MappingTables) -> MappingTables:
    """Sets `[B, M, ...]` without the entries that another entry of their set dominates; equal ones stay.

    One program chooses a set by its objectives and another tabulates it: two areas that differ by rounding in the first
    may be equal in the table.
    """
    kept = [_undominated(values[:count]) for values, count in zip(table.objectives, table.count, strict=True)]
    if all(len(rows) == count for rows, count in zip(kept, table.count, strict=True)):
        return table
    table = jax.tree.map(np.array, table)
    for b, rows in enumerate(kept):
        for name, column in entries_of(table).items():
            for leaf in jax.tree.leaves(column):
                leaf[b, : len(rows)] = leaf[b, rows]
            if name != "mapping":  # nests beyond the count mean nothing
                column[b, len(rows) :] = np.inf if name == "objectives" else 0
        table.count[b] = len(rows)
    return table


def _undominated(values: np.ndarray) -> np.ndarray:
    """Indices of the rows of `[n, 3]` that no other row dominates."""
    no_worse = np.all(values[:, None] <= values, axis=-1)
    return np.flatnonzero(~np.any(no_worse & ~no_worse.T, axis=0))
