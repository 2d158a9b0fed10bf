"""Designs evaluated from their loop nests on, in double precision, and what a file of designs states."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, Wires, stacked_layers, tabulate
from mohamjax.runtime.platforms import accelerated
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import cast, shown_briefly
from mohamjax.schedule.bounds import Bounds, design_bounds, scenario_bounds
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport, report
from mohamjax.schedule.evaluation_arrays import evaluation_arrays
from mohamjax.schedule.front_bounds import FrontBounds, front_bounds
from mohamjax.schedule.measures import DEFAULT, kinds_of, measured, of_frames, offsets, owners
from mohamjax.schedule.setup import Setup


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Evaluated(Setup):
    """Designs with their double-precision reports (NumPy leaves), and what they were evaluated on.

    Attributes:
        tables: Pareto tables in double precision.
        wires: wires of their mappings.
        designs: `Design`, leading axis `[N]`.
        reports: `DesignReport`, leading axis `[N]`.
        measures: names of the objectives that a search had, of `schedule.measures`.
    """

    tables: MappingTables
    wires: Wires
    designs: Design
    reports: DesignReport
    measures: tuple[str, ...] = DEFAULT

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.reports.objectives)

    @property
    def objectives(self) -> np.ndarray:
        """`[N, M]` float, the objectives of the search: latency [s], energy [J], area [mm^2] unless it had others."""
        application = self.application
        owner = np.full(np.shape(self.designs.order)[1], -1)
        owner[: len(application.layers)] = application.network_of_layer
        network = owners(self.measures, application)
        return np.asarray(measured(self.reports, kinds_of(self.measures), network, owner, np))

    @property
    def offsets(self) -> np.ndarray:
        """`[M]` float, what is added to the objectives before their logarithms are taken."""
        return offsets(self.measures, self.application)

    def take(self, index: np.ndarray) -> Evaluated:
        """The designs at `index`, in that order."""
        pick = functools.partial(jax.tree.map, lambda leaf: leaf[index])
        return dataclasses.replace(self, designs=pick(self.designs), reports=pick(self.reports))

    def bounds(self, max_chiplets: int | None = None) -> Bounds:
        """What no design over the tables goes below; `max_chiplets` defaults to the tiles of the package."""
        return scenario_bounds(self, self.tables, self.wires, max_chiplets)

    def front_bounds(self, max_chiplets: int | None = None) -> FrontBounds:
        """What no design over the tables goes below, area by area and latency by latency; otherwise as `bounds`."""
        return front_bounds(self, self.tables, self.wires, max_chiplets)

    def design_bounds(self) -> list[Bounds]:
        """What no schedule on the chiplets of each design goes below."""
        area = np.asarray(self.reports.objectives[:, 2])
        chips = self.reports.chiplets
        return design_bounds(self, self.tables, self.wires, self.designs, chips, area)


@jit_o1_plain_loops
def _reports(designs: Design, capacity: jax.Array, fanout: jax.Array, evaluation: Any) -> DesignReport:
    one = functools.partial(report, evaluation=evaluation)
    return jax.vmap(lambda design, c, f: one(design, sizes=(c, f)))(designs, capacity, fanout)


_ROWS = 64


def _batches(number: int) -> list[np.ndarray]:
    """Indices 0 to `number` - 1 in batches of one size, the last one filled up: two sizes are compiled at most.

    A processor has no use for wide ones, which only take more memory at once.
    """
    wide = (16 if accelerated() else 4) * _ROWS
    width = _ROWS if number <= wide else wide
    return [np.minimum(np.arange(first, first + width), number - 1) for first in range(0, number, width)]


def evaluated_on_bench(
    program: Callable[..., Any],
    setup: Setup,
    mappings: Mapping,
    count: np.ndarray,
    designs: Design,
    sizes: tuple[np.ndarray, np.ndarray] | None,
    float32: bool,
    periods: int | None = None,
) -> tuple[MappingTables, Wires, Any]:
    """Tables and wires of loop nests, and what a program says of designs, batch by batch, as NumPy arrays.

    Args:
        program: `(designs, capacity, fanout, evaluation) -> pytree`, all with a leading `[n]` but the evaluation.
        setup: as in `reevaluate`, like all that follows.
        periods: of the slowest network, where frames are in flight; None where they are not.
    """
    levels = mappings.temporal.shape[-2]
    tiles = designs.template.shape[-1]
    number = len(designs.template)
    if not number:
        raise ValueError("designs: there is none")
    dtype = np.float32 if float32 else np.float64
    if sizes is None:
        sizes = np.full((number, tiles, levels), -1.0), np.full((number, tiles, levels, 2), -1.0)
    with jax.enable_x64(not float32):
        arrays = setup.machines(levels, dtype)
        layers = stacked_layers(unique.shape for unique in setup.application.unique_layers)
        single = cast(setup.technology, dtype)
        # Few numbers of entries are compiled: powers of two.
        most = mappings.temporal.shape[2]
        entries = np.minimum(np.arange(max(16, 1 << (most - 1).bit_length())), most - 1)
        mappings = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, entries], mappings)
        tables = tabulate(layers, arrays, single, mappings, count)
        chiplets = np.asarray(designs.template).reshape(-1), np.asarray(sizes[1]).reshape(-1, levels, 2)
        evaluation = evaluation_arrays(
            setup, tables, padded_layers=designs.order.shape[-1], given=chiplets, periods=periods
        )
        inputs = jax.tree.map(np.asarray, (designs, *(np.asarray(size, dtype) for size in sizes)))
        return tables, jax.device_get(evaluation.wires), _reported(program, inputs, evaluation, number)


def _reported(program: Callable[..., Any], inputs: Any, evaluation: Any, number: int) -> Any:
    """What a program says of `number` designs, as NumPy arrays; a batch makes room before the next one is begun."""
    reports: Any = None
    for rows in _batches(number):
        found = jax.device_get(program(*jax.tree.map(lambda leaf, r=rows: leaf[r], inputs), evaluation))
        if reports is None:
            reports = jax.tree.map(lambda leaf: np.empty((number, *leaf.shape[1:]), leaf.dtype), found)
        own = slice(rows[0], rows[-1] + 1)
        for whole, leaf in zip(jax.tree.leaves(reports), jax.tree.leaves(found), strict=True):
            whole[own] = leaf[: own.stop - own.start]
    return reports


def reevaluate(
    setup: Setup,
    mappings: Mapping,
    count: np.ndarray,
    designs: Design,
    *,
    sizes: tuple[np.ndarray, np.ndarray] | None = None,
    float32: bool = False,
    measures: tuple[str, ...] = DEFAULT,
    periods: int = 4,
) -> Evaluated:
    """Evaluates designs from their loop nests on, in double precision.

    Args:
        setup: networks and hardware.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, entries that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not.
        sizes: capacities `[N, S, V]` and fanouts `[N, S, V, 2]` of the chiplets, -1 where they are to be just large
            enough; default -1 everywhere.
        float32: compute in single precision instead.
        measures: objectives of the designs; the networks must ask for them (`check_measures`).
        periods: of the slowest network, whose frames are in flight where that is measured.

    Returns:
        The designs with their reports as NumPy arrays.
    """
    tables, wires, reports = evaluated_on_bench(
        _reports, setup, mappings, count, designs, sizes, float32, periods=periods if of_frames(measures) else None
    )
    return Evaluated(
        **setup.parts,
        tables=tables,
        wires=wires,
        designs=jax.device_get(designs),
        reports=reports,
        measures=measures,
    )


def network_latencies(evaluated: Evaluated) -> np.ndarray:
    """`[N, networks]` float, seconds until the last layer of each network has ended."""
    owner = np.asarray(evaluated.application.network_of_layer)
    end = evaluated.reports.timeline.end[:, : len(owner)] * CYCLE_S
    return np.stack([end[:, owner == n].max(axis=1) for n in range(len(evaluated.application.networks))], axis=1)


@shown_briefly
@dataclasses.dataclass(frozen=True)
class DesignFile(Setup):
    """The designs of a `designs/1` or `schedule/1` file as arrays, checked but not evaluated, and what they run on.

    Attributes:
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries that exist.
        names: identifier of every design in the file, in input order.
        reasons: why it is broken; empty where it reads well.
        designs: `Design` of those that read well, leading axis `[N]`; None where there are none.
        capacity: `[N, S, V]` words per buffer that the chiplets state, -1 where they state none.
        fanout: `[N, S, V, 2]` likewise.
        tile: `[N, S]` int32, tile that each chiplet of a design states, rising; where a design does not state one for
            all its chiplets, they stand on the first ones.
        source: where it was read, for complaints.
    """

    mappings: Mapping | None
    count: np.ndarray
    names: tuple[Any, ...]
    reasons: tuple[str, ...]
    designs: Design | None
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray
    source: str

    @property
    def digest(self) -> str:
        """Hash of the designs that read well, with their templates, loop nests and sizes."""
        digest = hashlib.sha256(repr([template.content_hash() for template in self.templates]).encode())
        for leaf in jax.tree.leaves((self.mappings, self.designs, self.count, self.capacity, self.fanout, self.tile)):
            digest.update(f"{leaf.shape} {leaf.dtype} ".encode() + np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()


def misfits(evaluated: Evaluated, capacity: np.ndarray, fanout: np.ndarray) -> np.ndarray:
    """Designs that `misfit` has something to say of, `[N]` bool; sizes `[N, S, V]` and `[N, S, V, 2]`, -1 unstated."""
    designs, tables = evaluated.designs, evaluated.tables
    layers = len(evaluated.application.layers)
    unique = np.asarray(evaluated.application.unique_of_layer)
    bad = np.asarray(~np.isfinite(evaluated.reports.objectives).all(axis=1))
    fits = np.asarray(np.isfinite(tables.objectives).all(axis=-1))
    for first in range(0, len(bad), _ROWS):
        rows = slice(first, first + _ROWS)
        tile, mapping = (np.asarray(leaf[rows])[:, :layers] for leaf in (designs.assignment, designs.mapping))
        entry = unique, np.take_along_axis(np.asarray(designs.template[rows]), tile, axis=1), mapping
        bad[rows] |= ~fits[entry].all(axis=1)
        lane = np.arange(len(tile))[:, None]
        for stated, needed in ((capacity, tables.capacity), (fanout, tables.fanout)):
            has = stated[rows][lane, tile]
            short = (has >= 0) & (has < np.asarray(needed)[entry])
            bad[rows] |= short.any(axis=tuple(range(1, short.ndim)))
    return bad


def misfit(evaluated: Evaluated, k: int, capacity: np.ndarray, fanout: np.ndarray) -> str:
    """Why a design that reads well is invalid after all, given its stated sizes; empty where it is not."""
    design = jax.tree.map(lambda leaf: leaf[k], evaluated.designs)
    told = misfit_of(design, evaluated.tables, evaluated, (capacity, fanout))
    if not told and not np.isfinite(evaluated.reports.objectives[k]).all():
        return "its objectives are not finite"
    return told


def misfit_of(
    design: Design,
    tables: MappingTables,
    setup: Setup,
    sizes: tuple[np.ndarray, np.ndarray] | None = None,
) -> str:
    """Which mapping of a design fits its template or its chiplet not; empty where all do.

    Args:
        design: one design; layers may be padded.
        tables: Pareto tables.
        setup: networks and templates.
        sizes: capacities `[S, V]` and fanouts `[S, V, 2]` of the chiplets, -1 where they are not stated.
    """
    application = setup.application
    unique = np.asarray(application.unique_of_layer)
    for layer, tile in enumerate(np.asarray(design.assignment)[: len(unique)]):
        t = int(design.template[tile])
        entry = (int(unique[layer]), t, int(design.mapping[layer]))
        template = setup.templates[t]
        name = f"layer {layer} ({application.layers[layer].name})"
        if not np.isfinite(tables.objectives[entry]).all():
            return f"{name}: its mapping does not fit template {template.name} at its largest sizes"
        if sizes is None:
            continue
        capacity, fanout = sizes
        for v, level in enumerate(template.levels):
            need, has = tables.capacity[entry][v], capacity[tile, v]
            if 0 <= has < need:
                return f"{name}: level {level.name} of chiplet {tile} needs {need:.0f} words and has {has:.0f}"
            for axis in range(2):
                need, has = tables.fanout[entry][v, axis], fanout[tile, v, axis]
                if 0 <= has < need:
                    return (
                        f"{name}: level {level.name} of chiplet {tile} needs fanout {need:.0f} along "
                        f"{'XY'[axis]} and has {has:.0f}"
                    )
    return ""
