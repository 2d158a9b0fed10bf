"""Designs evaluated in double precision, starting from their loop nests, and the designs of a file."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable

import jax
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, Wires, stacked_layers, tabulate
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.platforms import accelerated
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import cast, shown_briefly
from mohamjax.schedule.batch import Told, run_blocks
from mohamjax.schedule.bounds import Bounds, ChipletSizes, design_bounds, scenario_bounds
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
        measures: names of the objectives of the search (`schedule.measures`).
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
        """`[M]` float, offsets that are added to the objectives before their logarithms are taken."""
        return offsets(self.measures, self.application)

    def take(self, index: np.ndarray) -> Evaluated:
        """The designs at `index`, in that order."""
        pick = functools.partial(jax.tree.map, lambda leaf: leaf[index])
        return dataclasses.replace(self, designs=pick(self.designs), reports=pick(self.reports))

    @property
    def _other_sizes(self) -> ChipletSizes:
        """Sizes of chiplets that no mapping of the tables needs by itself."""
        own = ChipletSizes.of_designs(self.designs, self.reports.chiplets)
        return own.without(ChipletSizes.of_tables(self.tables))

    def bounds(self, max_chiplets: int | None = None) -> Bounds:
        """Lower bounds for all designs over the tables, and for these, whose chiplets may be sized for other networks.

        `max_chiplets` defaults to the tiles of the package.
        """
        return scenario_bounds(self, self.tables, self.wires, max_chiplets, self._other_sizes)

    def front_bounds(self, max_chiplets: int | None = None, *, idle: bool = False) -> FrontBounds:
        """Lower bounds for all designs over the tables, over area and latency; otherwise as `bounds`.

        `idle` states whether chiplets may stand on the package without running a layer, as fixed ones may.
        """
        return front_bounds(self, self.tables, self.wires, max_chiplets, self._other_sizes, idle=idle)

    def design_bounds(self) -> list[Bounds]:
        """Lower bounds for all schedules on the chiplets of each design."""
        area = np.asarray(self.reports.objectives[:, 2])
        chips = self.reports.chiplets
        return design_bounds(self, self.tables, self.wires, self.designs, chips, area)


@jit_o1_plain_loops
def _reports(designs: SizedDesign, evaluation: EvaluationArrays) -> DesignReport:
    return jax.vmap(lambda own: report(own.design, evaluation, own.sizes))(designs)


_ROWS = 64


def block_width(number: int) -> int:
    """Designs per block for a number of designs: one of two sizes, so that at most two programs are compiled.

    A CPU gains nothing from wide blocks, which only take more memory at once.
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
    """Tables and wires of loop nests, and the outputs of a program for designs, run in blocks; NumPy arrays.

    Args:
        program: `(designs, evaluation) -> pytree`; designs and leaves of the pytree have a leading axis `[n]`.
        setup: networks and hardware.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, number of mappings that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not.
        float32: compute in single precision instead of double.
        periods: number of periods of the slowest network, where frames are in flight; otherwise None.
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
        own_costs = cast(setup.technology, dtype)
        # Numbers of mappings are padded to powers of two, so that few programs are compiled.
        most = mappings.temporal.shape[2]
        entries = np.minimum(np.arange(power_of_two(most, 16)), most - 1)
        mappings = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, entries], mappings)
        tables = tabulate(layers, arrays, own_costs, mappings, count, as_given=True)
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
    """Evaluates designs, starting from their loop nests, in double precision.

    Args:
        setup: networks and hardware.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, number of mappings that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not. Chiplets without stated sizes are just large enough.
        float32: compute in single precision instead.
        measures: objectives of the designs, which must suit the networks (`check_measures`).
        periods: number of periods of the slowest network, where measures need frames in flight.

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
    """The arrays that designs were evaluated with (`reevaluate`), for similar ones; call inside `jax.enable_x64`.

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
    """The designs with other orders of their layers, evaluated by the same program as before.

    Args:
        evaluated: designs as in `evaluation_again`, `[N]`, N >= 1.
        order: `[N, L]` int32, topological.
        number: number of designs that were evaluated together with these, which decides on the program.
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
        mappings: loop nests, leading axes `[U, T, M]`; None where no design could be read.
        count: `[U, T]` int32, number of mappings that exist.
        names: identifier of every design in the file, in input order.
        reasons: what is wrong with each design; empty where it could be read.
        designs: those that could be read, leading axis `[N]`, NumPy leaves, layers not padded; N may be 0.
        tile: `[N, S]` int32, tile that each chiplet of a design states, rising; where a design does not state one for
            all its chiplets, they stand on the first tiles.
        source: where the file was read, for error messages.
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
        """Hash of the designs that could be read, with their templates, loop nests and sizes."""
        digest = hashlib.sha256(repr([template.content_hash() for template in self.templates]).encode())
        for leaf in jax.tree.leaves((self.mappings, self.designs.design, self.count, *self.designs.sizes, self.tile)):
            digest.update(f"{leaf.shape} {leaf.dtype} ".encode() + np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()
