"""Designs evaluated from their loop nests on, in double precision, and what a file of designs states."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable

import jax
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, Wires, stacked_layers, tabulate
from mohamjax.runtime.platforms import accelerated
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import cast, shown_briefly
from mohamjax.schedule.batch import Told, run_blocks
from mohamjax.schedule.bounds import Bounds, design_bounds, scenario_bounds
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport, EvaluationArrays, SizedDesign, report, sized
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
def _reports(designs: SizedDesign, evaluation: EvaluationArrays) -> DesignReport:
    return jax.vmap(lambda own: report(own.design, evaluation, own.sizes))(designs)


_ROWS = 64


def block_width(number: int) -> int:
    """Designs of a block: two sizes are compiled at most.

    A processor has no use for wide blocks, which only take more memory at once.
    """
    wide = (16 if accelerated() else 4) * _ROWS
    return _ROWS if number <= wide else wide


def evaluated_in_double(
    program: Callable[[SizedDesign, EvaluationArrays], Told],
    setup: Setup,
    mappings: Mapping,
    count: np.ndarray,
    designs: Design | SizedDesign,
    *,
    float32: bool = False,
    periods: int | None = None,
) -> tuple[MappingTables, Wires, Told]:
    """Tables and wires of loop nests, and what a program says of designs, block by block, as NumPy arrays.

    Args:
        program: `(designs, evaluation) -> pytree`, the designs and the leaves of the pytree with a leading `[n]`.
        setup: networks and hardware.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, entries that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not.
        float32: compute in single precision instead of double.
        periods: of the slowest network, where frames are in flight; None where they are not.
    """
    levels = mappings.temporal.shape[-2]
    own = designs if isinstance(designs, SizedDesign) else sized(designs, levels)
    genes = own.design
    if not len(genes.template):
        raise ValueError("designs: there is none")
    dtype = np.float32 if float32 else np.float64
    with jax.enable_x64(not float32):
        arrays = setup.machines(levels, dtype)
        layers = stacked_layers(unique.shape for unique in setup.application.unique_layers)
        single = cast(setup.technology, dtype)
        # Few numbers of entries are compiled: powers of two.
        most = mappings.temporal.shape[2]
        entries = np.minimum(np.arange(max(16, 1 << (most - 1).bit_length())), most - 1)
        mappings = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, entries], mappings)
        tables = tabulate(layers, arrays, single, mappings, count)
        chiplets = np.asarray(genes.template).reshape(-1), np.asarray(own.fanout).reshape(-1, levels, 2)
        evaluation = evaluation_arrays(
            setup, tables, padded_layers=genes.order.shape[-1], given=chiplets, arrays=arrays, periods=periods
        )
        capacity, fanout = (np.asarray(size, dtype) for size in own.sizes)
        inputs = dataclasses.replace(own, design=jax.tree.map(np.asarray, genes), capacity=capacity, fanout=fanout)
        return (
            tables,
            jax.device_get(evaluation.wires),
            run_blocks(program, inputs, evaluation, block_width(len(inputs))),
        )


def reevaluate(
    setup: Setup,
    mappings: Mapping,
    count: np.ndarray,
    designs: Design | SizedDesign,
    *,
    float32: bool = False,
    measures: tuple[str, ...] = DEFAULT,
    periods: int = 4,
) -> Evaluated:
    """Evaluates designs from their loop nests on, in double precision.

    Args:
        setup: networks and hardware.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, entries that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not. Chiplets without stated sizes are just large enough.
        float32: compute in single precision instead.
        measures: objectives of the designs; the networks must ask for them (`check_measures`).
        periods: of the slowest network, whose frames are in flight where that is measured.

    Returns:
        The designs with their reports as NumPy arrays.
    """
    tables, wires, reports = evaluated_in_double(
        _reports, setup, mappings, count, designs, float32=float32, periods=periods if of_frames(measures) else None
    )
    return Evaluated(
        **setup.parts,
        tables=tables,
        wires=wires,
        designs=jax.device_get(designs.design if isinstance(designs, SizedDesign) else designs),
        reports=reports,
        measures=measures,
    )


def evaluation_again(evaluated: Evaluated, periods: int = 4) -> EvaluationArrays:
    """What designs were evaluated by (`reevaluate`), for others like them; inside `jax.enable_x64`.

    Args:
        evaluated: designs whose chiplets are just large enough, in double precision.
        periods: as in `reevaluate`.
    """
    return evaluation_arrays(
        evaluated,
        evaluated.tables,
        padded_layers=np.shape(evaluated.designs.order)[1],
        hops=evaluated.wires,
        periods=periods if of_frames(evaluated.measures) else None,
    )


def with_orders(evaluated: Evaluated, order: np.ndarray, number: int, periods: int = 4) -> Evaluated:
    """The designs with other orders of their layers, evaluated by the program that evaluated them.

    Args:
        evaluated: designs as in `evaluation_again`, `[N]`, N >= 1.
        order: `[N, L]` int32, topological.
        number: of designs that were evaluated together with these, which decides on the program.
        periods: as in `reevaluate`.
    """
    designs = dataclasses.replace(evaluated.designs, order=np.asarray(order, np.int32))
    with jax.enable_x64(True):
        evaluation = evaluation_again(evaluated, periods)
        own = sized(jax.tree.map(np.asarray, designs), evaluated.tables.capacity.shape[3])
        reports = run_blocks(_reports, own, evaluation, block_width(number))
    return dataclasses.replace(evaluated, designs=designs, reports=reports)


def network_latencies(evaluated: Evaluated) -> np.ndarray:
    """`[N, networks]` float, seconds until the last layer of each network has ended."""
    owner = np.asarray(evaluated.application.network_of_layer)
    end = evaluated.reports.timeline.end[:, : len(owner)] * CYCLE_S
    return np.stack([end[:, owner == n].max(axis=1) for n in range(len(evaluated.application.networks))], axis=1)


@shown_briefly
@dataclasses.dataclass(frozen=True)
class DesignFile(Setup):
    """The designs of a file as arrays, checked but not evaluated, and what they run on.

    Attributes:
        mappings: loop nests, leading axes `[U, T, M]`; None where no design reads well.
        count: `[U, T]` int32, entries that exist.
        names: identifier of every design in the file, in input order.
        reasons: why it is broken; empty where it reads well.
        designs: those that read well, leading axis `[N]`, NumPy leaves, layers not padded; N may be 0.
        tile: `[N, S]` int32, tile that each chiplet of a design states, rising; where a design does not state one for
            all its chiplets, they stand on the first ones.
        source: where it was read, for complaints.
    """

    mappings: Mapping | None
    count: np.ndarray
    names: tuple[int | str, ...]
    reasons: tuple[str, ...]
    designs: SizedDesign
    tile: np.ndarray
    source: str

    @property
    def digest(self) -> str:
        """Hash of the designs that read well, with their templates, loop nests and sizes."""
        digest = hashlib.sha256(repr([template.content_hash() for template in self.templates]).encode())
        for leaf in jax.tree.leaves((self.mappings, self.designs.design, self.count, *self.designs.sizes, self.tile)):
            digest.update(f"{leaf.shape} {leaf.dtype} ".encode() + np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()
