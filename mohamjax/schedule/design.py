"""A design and its evaluation: latency, energy and area (MOHaM, Section V-C; docs/concepts).

Axes: L layers (padded), S tiles of the package, V levels of the memory hierarchy, U unique layers, T templates,
M mappings of a Pareto set. Functions take one design; callers vmap.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import Machine, PackageTables, Technology, TemplateArrays, leakage, nop_energy, resize
from mohamjax.mapping import MappingTables, Wires, hop_columns
from mohamjax.runtime.blocks import not_negative, steady_sum
from mohamjax.runtime.struct import Rows, record
from mohamjax.schedule.fluid import Jobs, Resources, Timeline, timeline_of
from mohamjax.schedule.in_flight import FrameJobs, SteadyState, job_order, steady_state
from mohamjax.schedule.tenants import TenantReport, Tenants, tenant_report

OBJECTIVES = ("latency_s", "energy_J", "area_mm2")
"""Objectives in their fixed order."""

CYCLE_S = 1e-9
"""Seconds of a cycle: every template runs at 1 GHz (MOHaM, Table 4)."""


Sizes = tuple[jax.Array | np.ndarray, jax.Array | np.ndarray]
"""Capacities `[S, V]` and fanouts `[S, V, 2]` of the chiplets of a design, -1 where they are just large enough."""


@record
class Design(Rows):
    """The chromosome of one design (MOHaM, Figure 4; docs/concepts/designs.md), or of many with a leading axis.

    `designs[3]`, `designs[:5]` and `len(designs)` use the leading axis (`struct.Rows`).

    Attributes:
        order: `[L]` int32, layers by priority, a topological order; padded layers come last.
        assignment: `[L]` int32, tile of each layer.
        mapping: `[L]` int32, index into the Pareto set of (unique layer, template of the tile).
        template: `[S]` int32, template on each tile, -1 where the tile is empty.
    """

    order: jax.Array
    assignment: jax.Array
    mapping: jax.Array
    template: jax.Array


@record
class SizedDesign(Rows):
    """A design whose chiplets may have stated sizes, like those of a file; many designs with a leading axis.

    `mj.evaluate` and `mj.report` take it like a `Design`, and its genes have the same names.

    Attributes:
        design: the chromosome.
        capacity: `[S, V]` float, words per buffer instance; -1 where the chiplet is just large enough.
        fanout: `[S, V, 2]` float, children along X and Y; -1 where the chiplet is just large enough.
    """

    design: Design
    capacity: jax.Array | np.ndarray
    fanout: jax.Array | np.ndarray

    def _first(self) -> jax.Array:
        return self.design.order

    @property
    def order(self) -> jax.Array:
        """`[L]` int32, `order` of the design."""
        return self.design.order

    @property
    def assignment(self) -> jax.Array:
        """`[L]` int32, `assignment` of the design."""
        return self.design.assignment

    @property
    def mapping(self) -> jax.Array:
        """`[L]` int32, `mapping` of the design."""
        return self.design.mapping

    @property
    def template(self) -> jax.Array:
        """`[S]` int32, `template` of the design."""
        return self.design.template

    @property
    def sizes(self) -> Sizes:
        """Capacities and fanouts."""
        return self.capacity, self.fanout

    @property
    def states_sizes(self) -> bool:
        """Whether any size is stated; not for traced arrays."""
        return any(bool((np.asarray(size) >= 0).any()) for size in self.sizes)


def sized(design: Design, levels: int) -> SizedDesign:
    """Designs, with any leading axes, without stated sizes: NumPy arrays of -1 for `levels` levels."""
    shape = *np.shape(design.template), levels
    return SizedDesign(design=design, capacity=np.full(shape, -1.0), fanout=np.full((*shape, 2), -1.0))


@record
class Package:
    """The package as arrays.

    Attributes:
        tables: placement tables over the number of chiplets.
        link_bandwidth: `[]` float, bytes per cycle of a chiplet's own link and of each mesh link; inf where links do
            not contend. Mesh links limit traffic only if `tables.trunks` is not None.
        interface_bandwidth: `[R]` float, bytes per cycle of each memory interface; R is the largest number that a
            package of any size has.
        dram_bandwidth: `[]` float, bytes per cycle of the memory behind all interfaces.
        hop_energy: `[]` float, pJ per bit and hop.
        tile_area: `[]` float, um^2 of router and transceivers per chiplet.
    """

    tables: PackageTables
    link_bandwidth: jax.Array
    interface_bandwidth: jax.Array
    dram_bandwidth: jax.Array
    hop_energy: jax.Array
    tile_area: jax.Array


@record
class EvaluationArrays:
    """Everything that turns a chromosome into objectives, as arrays.

    Attributes:
        unique: `[L]` int32, unique layer of each layer; 0 where padded.
        network: `[L]` int32, network of each layer; -1 where padded.
        layer_mask: `[L]` bool, the layer exists.
        predecessor_bits: `[L, W]` uint32, bit set of each layer's predecessors.
        tables: Pareto tables `[U, T, M, ...]`.
        wires: wires of their mappings on the arrays that chiplets may have.
        templates: the templates, leading axis `[T]`.
        technology: energy and area tables.
        package: the package.
        tenants: deadlines and weights of the networks; None where there are none.
        frames: frames in flight; None where they are not measured.
    """

    unique: jax.Array
    network: jax.Array
    layer_mask: jax.Array
    predecessor_bits: jax.Array
    tables: MappingTables
    wires: Wires
    templates: TemplateArrays
    technology: Technology
    package: Package
    tenants: Tenants | None = None
    frames: FrameJobs | None = None


@record
class Chiplets:
    """The chiplets (sub-accelerator instances) of a design, sized to run all their layers.

    Attributes:
        occupied: `[S]` bool, a chiplet stands on the tile.
        capacity: `[S, V]` float, words per buffer instance: as stated, or the most that any of its layers needs.
        fanout: `[S, V, 2]` float, children along X and Y: as stated, or the most that any of its layers uses.
        machine: `Machine` with a leading `[S]` axis, costs at these sizes.
        area: `[S]` float, um^2, 0 where empty.
        interface: `[S]` int32, memory interface that the chiplet uses.
        hops: `[S]` float, hops to that interface.
    """

    occupied: jax.Array
    capacity: jax.Array
    fanout: jax.Array
    machine: Machine
    area: jax.Array
    interface: jax.Array
    hops: jax.Array


@record
class DesignReport:
    """One design in detail, for files and figures.

    Attributes:
        objectives: `[3]` float, latency [s], energy [J], area [mm^2].
        chiplets: the chiplets.
        timeline: start and end of every layer [cycles].
        duration: `[L]` float, on-chip-limited cycles of each layer.
        offchip_bytes: `[L]` float, off-chip traffic of each layer.
        layer_energy: `[L]` float, pJ of each layer on its chiplet, without the package.
        wire_energy: `[L, V]` float, pJ of `layer_energy` in the wires below each level.
        nop_energy: `[L]` float, pJ of the network-on-package for the layer's traffic.
        static_energy: `[S]` float, pJ of each chiplet's leakage over the makespan; 0 unless the technology counts it.
        tenants: what the users of the networks get; None where no network has a deadline, a rate or a weight.
        in_flight: the steady state with several frames in flight; None where the evaluation has none.
    """

    objectives: jax.Array
    chiplets: Chiplets
    timeline: Timeline
    duration: jax.Array
    offchip_bytes: jax.Array
    layer_energy: jax.Array
    wire_energy: jax.Array
    nop_energy: jax.Array
    static_energy: jax.Array
    tenants: TenantReport | None = None
    in_flight: SteadyState | None = None


def _rows(design: Design, evaluation: EvaluationArrays) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Indices of every layer's Pareto entry in the tables (unique, template, mapping), each `[L]` int32."""
    template = design.template[design.assignment]
    return evaluation.unique, jnp.maximum(template, 0), design.mapping


def _places(occupied: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Number of chiplets, and place of each tile's chiplet in the mesh, where empty tiles take no place."""
    return jnp.sum(occupied), jnp.where(occupied, jnp.cumsum(occupied) - 1, 0)


def chiplets(design: Design, evaluation: EvaluationArrays, sizes: Sizes | None = None) -> Chiplets:
    """Sizes the chiplets: each takes the maximum of every capacity and fanout over its layers.

    Args:
        design: the chromosome.
        evaluation: everything else.
        sizes: stated capacities `[S, V]` and fanouts `[S, V, 2]`; -1 where the chiplet is just large enough. Fanouts
            must be among those that `evaluation.wires` counted, see `report`.
    """
    rows = _rows(design, evaluation)
    tiles = design.template.shape[0]
    mask = evaluation.layer_mask
    occupied = design.template >= 0
    owner = jnp.where(mask, design.assignment, tiles)

    def most(values: jax.Array, floor: float) -> jax.Array:
        base = jnp.full((tiles, *values.shape[1:]), floor, values.dtype)
        return base.at[owner].max(values, mode="drop")

    capacity = most(evaluation.tables.capacity[rows], 0.0)
    fanout = most(evaluation.tables.fanout[rows], 1.0)
    if sizes is not None:
        capacity = jnp.where(sizes[0] >= 0, sizes[0], capacity)
        fanout = jnp.where(sizes[1] >= 0, sizes[1], fanout)
    of_tile = jax.tree.map(lambda leaf: leaf[jnp.maximum(design.template, 0)], evaluation.templates)
    machine = jax.vmap(resize, in_axes=(0, None, 0, 0))(of_tile, evaluation.technology, capacity, fanout)
    areas = jnp.where(occupied, jax.vmap(_area)(machine), 0.0)

    count, place = _places(occupied)
    tables = evaluation.package.tables
    return Chiplets(
        occupied=occupied,
        capacity=machine.capacity,
        fanout=machine.fanout,
        machine=machine,
        area=areas,
        interface=tables.interface_of[count, place],
        hops=tables.hops[count, place].astype(areas.dtype),
    )


def _area(machine: Machine) -> jax.Array:
    """`mapping.area` [um^2], rounded the same way in every program."""
    instances = jnp.where(machine.level_mask, machine.instances, 0)
    return steady_sum(machine.area * instances) + not_negative(machine.mac_area * machine.mac_instances)


def _demand(design: Design, evaluation: EvaluationArrays) -> tuple[jax.Array, jax.Array]:
    """On-chip-limited durations [cycles] and off-chip traffic [bytes] of the design's layers, `[L]` each."""
    rows = _rows(design, evaluation)
    duration = jnp.where(evaluation.layer_mask, evaluation.tables.cycles[rows], 0.0)
    return duration, jnp.where(evaluation.layer_mask, evaluation.tables.offchip_bytes[rows], 0.0)


def _resources(design: Design, evaluation: EvaluationArrays, chips: Chiplets) -> Resources:
    """Shared resources (interfaces, the DRAM behind them, mesh links), and the private link of each tile."""
    package = evaluation.package
    on_interface = chips.interface[:, None] == jnp.arange(package.interface_bandwidth.shape[0])
    uses = jnp.concatenate([on_interface, jnp.ones_like(on_interface[:, :1])], axis=1)
    bandwidth = jnp.append(package.interface_bandwidth, package.dram_bandwidth)
    trunks = package.tables.trunks
    if trunks is not None:
        uses = jnp.concatenate([uses, trunks[_places(chips.occupied)]], axis=1)
        bandwidth = jnp.append(bandwidth, jnp.full(trunks.shape[-1], package.link_bandwidth))
    links = jnp.full(design.template.shape[0], package.link_bandwidth)
    return Resources(shared_uses=uses & chips.occupied[:, None], shared_bandwidth=bandwidth, private_bandwidth=links)


def _schedule(
    design: Design, evaluation: EvaluationArrays, chips: Chiplets, duration: jax.Array, traffic: jax.Array
) -> Timeline:
    """The fluid timeline of the design's layers [cycles]."""
    jobs = Jobs(
        duration=duration,
        bytes=traffic,
        predecessor_bits=evaluation.predecessor_bits,
        accelerator=design.assignment,
        order=design.order,
        job_mask=evaluation.layer_mask,
    )
    return timeline_of(jobs, _resources(design, evaluation, chips))


def _in_flight(
    design: Design,
    evaluation: EvaluationArrays,
    jobs: FrameJobs,
    chips: Chiplets,
    duration: jax.Array,
    traffic: jax.Array,
) -> SteadyState:
    """The steady state of the design with several frames in flight."""
    scheduled = Jobs(
        duration=jnp.where(jobs.mask, duration[jobs.layer], 0.0),
        bytes=jnp.where(jobs.mask, traffic[jobs.layer], 0.0),
        predecessor_bits=jobs.predecessor_bits,
        accelerator=design.assignment[jobs.layer],
        order=job_order(design.order, jobs),
        job_mask=jobs.mask,
    )
    resources = _resources(design, evaluation, chips)
    found = steady_state(timeline_of(scheduled, resources), scheduled, resources, jobs, jnp.sum(chips.occupied))
    return dataclasses.replace(found, period=found.period * CYCLE_S)


def _wires(design: Design, evaluation: EvaluationArrays, chips: Chiplets) -> tuple[jax.Array, jax.Array]:
    """Levels with wires on the chiplet of every layer, `[L, N]` int32, and the layer's energy in them, pJ `[L, N]`."""
    sizes = jax.tree.map(lambda leaf: leaf[jnp.maximum(design.template, 0)], evaluation.wires.sizes)
    columns = jax.vmap(hop_columns)(sizes, chips.fanout)
    cost = jnp.take_along_axis(chips.machine.hop_energy, sizes.level, axis=1)
    unique, template, mapping = _rows(design, evaluation)
    _, templates, mappings, width = evaluation.wires.hops.shape
    row = ((unique * templates + template) * mappings + mapping) * width
    hops = evaluation.wires.hops.reshape(-1)
    # One level at a time from a flat table: one gather over all axes compiles to a slower loop.
    energy = [
        hops[row + columns[design.assignment, n]] * cost[design.assignment, n] for n in range(sizes.level.shape[1])
    ]
    return sizes.level[design.assignment], jnp.where(evaluation.layer_mask[:, None], jnp.stack(energy, axis=1), 0.0)


def _energy(
    design: Design, evaluation: EvaluationArrays, chips: Chiplets, wires: jax.Array, traffic: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Energy of every layer on its chiplet, and of its off-chip traffic on the package, pJ `[L]` each."""
    rows = _rows(design, evaluation)
    tables = evaluation.tables
    read, write = jnp.moveaxis(chips.machine.access_energy[design.assignment], -1, 0)
    reads, writes = tables.block_reads[rows] * read, tables.block_writes[rows] * write
    macs = tables.macs[rows] * chips.machine.mac_energy[design.assignment]
    accesses = not_negative(reads) + not_negative(writes)
    layer = steady_sum(accesses) + steady_sum(wires) + not_negative(macs)
    package = nop_energy(traffic, chips.hops[design.assignment], evaluation.package.hop_energy)
    return jnp.where(evaluation.layer_mask, layer, 0.0), package


def _sums(
    evaluation: EvaluationArrays, chips: Chiplets, layer_energy: jax.Array, package_energy: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Energy [J] and area [mm^2] of a design, including those of the package, `[]` each."""
    package_area = jnp.sum(chips.occupied) * evaluation.package.tile_area
    energy = (steady_sum(layer_energy) + steady_sum(package_energy)) * 1e-12
    return energy, (steady_sum(chips.area) + not_negative(package_area)) * 1e-6


def energy_and_area(
    design: Design, evaluation: EvaluationArrays, sizes: Sizes | None = None
) -> tuple[jax.Array, jax.Array]:
    """Energy [J] and area [mm^2] of one design, `[]` each: the objectives of `report` that need no timeline.

    Leakage over the makespan is not included, even where the technology counts it. Pure, and smooth in the numbers of
    the technology and of the package, so that `jax.jvp` gives derivatives with respect to them.

    Args:
        design: the chromosome.
        evaluation: everything else.
        sizes: stated capacities and fanouts, see `report`.
    """
    chips = chiplets(design, evaluation, sizes)
    _, traffic = _demand(design, evaluation)
    _, wires = _wires(design, evaluation, chips)
    return _sums(evaluation, chips, *_energy(design, evaluation, chips, wires, traffic))


def _static_energy(design: Design, evaluation: EvaluationArrays, chips: Chiplets, timeline: Timeline) -> jax.Array:
    """`[S]` pJ: every chiplet leaks until the last layer of all has ended; 0 unless the technology counts it."""
    share = evaluation.technology.static_share
    if share is None:
        return jnp.zeros_like(chips.area)
    of_tile = jax.tree.map(lambda leaf: leaf[jnp.maximum(design.template, 0)], evaluation.templates)
    leaks = jax.vmap(leakage, in_axes=(0, None, 0))(of_tile, evaluation.technology, chips.machine)
    ns = jnp.where(timeline.ok, timeline.makespan, 0) * (CYCLE_S / 1e-9)
    return jnp.where(chips.occupied, leaks * ns * share, 0)


def report(design: Design, evaluation: EvaluationArrays, sizes: Sizes | None = None) -> DesignReport:
    """Evaluates one design in detail.

    Pure; callers jit and vmap. Shapes are those given in the classes; the float dtype is that of `evaluation.tables`.

    Args:
        design: the chromosome.
        evaluation: everything else.
        sizes: stated capacities and fanouts, see `chiplets`. The energy of wires is known for the fanouts that were
            counted: all up to the template's largest where that is 16 or less along an axis; else those that some
            mapping uses, the template's largest, and those given to `evaluation_arrays(given=)`. With any other
            fanout, the chiplet's layers and so the design have infinite energy.
    """
    return report_on(chiplets(design, evaluation, sizes), design, evaluation)


def report_on(chips: Chiplets, design: Design, evaluation: EvaluationArrays) -> DesignReport:
    """As `report`, but on given chiplets, which must be large enough for the design's layers."""
    duration, traffic = _demand(design, evaluation)
    timeline = _schedule(design, evaluation, chips, duration, traffic)
    levels, wires = _wires(design, evaluation, chips)
    layer_energy, package_energy = _energy(design, evaluation, chips, wires, traffic)
    static_energy = _static_energy(design, evaluation, chips, timeline)
    by_level = jnp.zeros((len(wires), chips.capacity.shape[1]), wires.dtype)
    latency = jnp.where(timeline.ok, timeline.makespan, jnp.inf) * CYCLE_S
    energy, silicon = _sums(evaluation, chips, layer_energy, package_energy)
    if evaluation.technology.static_share is not None:
        energy += jnp.sum(static_energy) * 1e-12
    objectives = jnp.stack([latency, energy, silicon])
    users = None
    if evaluation.tenants is not None:
        ends = jnp.where(timeline.ok, timeline.end, jnp.inf) * CYCLE_S
        users = tenant_report(ends, evaluation.network, evaluation.tenants)
    in_flight = None
    if evaluation.frames is not None:
        in_flight = _in_flight(design, evaluation, evaluation.frames, chips, duration, traffic)
    return DesignReport(
        objectives=objectives,
        chiplets=chips,
        timeline=timeline,
        duration=duration,
        offchip_bytes=traffic,
        layer_energy=layer_energy,
        wire_energy=by_level.at[jnp.arange(len(wires))[:, None], levels].add(wires),
        nop_energy=package_energy,
        static_energy=static_energy,
        tenants=users,
        in_flight=in_flight,
    )


def padded(designs: Design, total: int) -> Design:
    """Designs `[N, ...]` padded to `total` layers as in a search, padded ones last in every order; NumPy leaves."""
    layers = designs.order.shape[1]
    rest = np.broadcast_to(np.arange(layers, total, dtype=np.int32), (len(designs), total - layers))
    more = ((0, 0), (0, total - layers))
    return dataclasses.replace(
        designs,
        order=np.concatenate([np.asarray(designs.order, np.int32), rest], axis=1),
        assignment=np.pad(np.asarray(designs.assignment, np.int32), more),
        mapping=np.pad(np.asarray(designs.mapping, np.int32), more),
        template=np.asarray(designs.template, np.int32),
    )
