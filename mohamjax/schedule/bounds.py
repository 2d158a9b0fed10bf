"""Lower bounds on latency, energy and area: how far at most a design can be from the best one.

All bounds are over the mappings of the Pareto tables: they show what other schedules, packages and sizes could still
gain, but not what mappings could gain that the layer mapper did not find. There are two kinds: for every design that a
search can make (`scenario_bounds`), and for every schedule on the chiplets of a given design (`design_bounds`). The
latency is bounded by

- the longest path of the layer graph, each layer at its fastest with its memory interface to itself;
- the work: all layers at their fastest, spread evenly over the chiplets;
- the traffic: all layers at their least traffic, over the memory interfaces or the DRAM behind them;
- the balance of work and traffic: prices on chiplets and interfaces that add up to one. In any schedule the busiest of
  these is busy for at least the price-weighted mean of all, and every layer costs at least its cheapest choice under
  the prices (the dual of the assignment problem's linear relaxation; any prices give a bound).

The energy is bounded by the most frugal choice of every layer. The area is bounded by the smallest chiplets that run
all layers, if each is only as large as its most demanding layer needs alone (`least_area`).

Axes: U unique layers, T templates, M mappings, V levels, E mappings that exist, S tiles, N designs. Host-side NumPy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.hardware import (
    Machine,
    PackageParameters,
    PackageTables,
    Technology,
    TemplateArrays,
    nop_energy,
    package_tables,
    resize,
)
from mohamjax.mapping import ArraySizes, MappingTables, Wires, hop_columns, least_hops
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import cast, take
from mohamjax.schedule.design import CYCLE_S, Chiplets, Design
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel

_MIXES = 65
"""Number of ways tried to split the price between all chiplets together and all interfaces together."""

_ROUNDS = 60
"""Rounds of improving the prices of a design's chiplets and interfaces."""

_WAYS = 128
"""The area bound adds no more layers once it holds more assignments of layers to templates than this."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Lower bounds; that of the latency is the largest of path, work, traffic and balance.

    Attributes:
        latency_s: [s].
        energy_J: [J].
        area_mm2: [mm^2].
        path_s: longest path [s].
        work_s: work of the chiplets [s].
        traffic_s: traffic of the interfaces, or of the DRAM [s].
        balance_s: the best mix of work and traffic [s].
    """

    latency_s: float
    energy_J: float
    area_mm2: float
    path_s: float
    work_s: float
    traffic_s: float
    balance_s: float

    @property
    def objectives(self) -> np.ndarray:
        """`[3]` float, latency [s], energy [J], area [mm^2]."""
        return np.asarray([self.latency_s, self.energy_J, self.area_mm2])

    def to_dict(self) -> dict[str, object]:
        """The bounds in the form of `designs.json`."""
        parts = {name: getattr(self, f"{name}_s") for name in ("path", "work", "traffic", "balance")}
        out = {"latency_s": self.latency_s, "energy_J": self.energy_J, "area_mm2": self.area_mm2}
        return {**out, "latency_parts_s": parts}


class ChipletSizes(NamedTuple):
    """Sizes that chiplets may have.

    Attributes:
        template: `[n]` int.
        capacity: `[n, V]` float, words per buffer instance.
        fanout: `[n, V, 2]` float, children along X and Y.
    """

    template: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray

    @classmethod
    def of_tables(cls, tables: MappingTables) -> ChipletSizes:
        """Those that single mappings of tables `[U, T, M, ...]` need."""
        at = np.nonzero(valid_mappings(tables))
        return cls(at[1], np.asarray(tables.capacity)[at], np.asarray(tables.fanout)[at])

    @classmethod
    def of_designs(cls, designs: Design, chips: Chiplets) -> ChipletSizes:
        """Those of the chiplets of designs; both arguments have a leading axis `[N]`."""
        at = np.asarray(chips.occupied)
        return cls(np.asarray(designs.template)[at], np.asarray(chips.capacity)[at], np.asarray(chips.fanout)[at])

    def without(self, known: ChipletSizes) -> ChipletSizes:
        """The different ones whose capacities are not, level by level, among those of the same template in `known`."""
        new = np.zeros(len(self.template), bool)
        for t in np.unique(self.template):
            mine, theirs = self.template == t, known.template == t
            for level in range(self.capacity.shape[1]):
                words = self.capacity[mine, level]  # infinite where there is no limit, and no cost that depends on it
                new[mine] |= np.isfinite(words) & ~np.isin(words, known.capacity[theirs, level])
        rows = np.c_[self.template, self.capacity, self.fanout.reshape(len(new), -1)][new]
        first = np.unique(rows, axis=0, return_index=True)[1]
        return ChipletSizes(*(np.asarray(column)[new][first] for column in self))

    def per_template(self, templates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Capacities `[T, K, V]`, fanouts `[T, K, V, 2]` and which of them exist `[T, K]`; the others are ones."""
        most = max((int(np.sum(self.template == t)) for t in range(templates)), default=0)
        lead = templates, -(-most // 64) * 64  # few sizes of programs
        capacity, fanout = (np.ones((*lead, *leaf.shape[1:])) for leaf in (self.capacity, self.fanout))
        exists = np.zeros(lead, bool)
        for t in range(templates):
            own = self.template == t
            count = int(own.sum())
            capacity[t, :count], fanout[t, :count], exists[t, :count] = self.capacity[own], self.fanout[own], True
        return capacity, fanout, exists


def offchip_bandwidth(package: PackageParameters) -> float:
    """Bytes per cycle of a layer that has its link, memory interface and DRAM to itself."""
    if not package.links_contend:
        return package.interface_bandwidth
    return min(package.interface_bandwidth, package.link_bandwidth, package.dram_bandwidth)


def uncontended(cycles: np.ndarray, offchip_bytes: np.ndarray, package: PackageParameters) -> np.ndarray:
    """Cycles of layers that have their link, memory interface and DRAM to themselves; any shape, float64."""
    traffic = np.asarray(offchip_bytes, np.float64) / offchip_bandwidth(package)
    return np.maximum(np.asarray(cycles, np.float64), traffic)


def isolated_cycles(tables: MappingTables, package: PackageParameters) -> np.ndarray:
    """`[U, T, M]` float, cycles of each mapping with its link, memory interface and DRAM to itself."""
    return uncontended(np.asarray(tables.cycles), np.asarray(tables.offchip_bytes), package)


def valid_mappings(tables: MappingTables) -> np.ndarray:
    """`[U, T, M]` bool, the mappings that exist and fit their template."""
    return tables.exists & np.isfinite(np.asarray(tables.objectives)).all(axis=-1)


def dram_bandwidth(package: PackageParameters) -> float:
    """Bytes per cycle behind all interfaces together; inf where links do not contend."""
    return package.dram_bandwidth if package.links_contend else np.inf


def _longest_path(duration: np.ndarray, application: ApplicationModel) -> np.ndarray:
    """`[N]` longest path through the layers, for durations `[N, U]`."""
    end = duration[:, list(application.unique_of_layer)]
    # Layers are numbered in a topological order.
    for i, layer in enumerate(application.layers):
        if layer.predecessors:
            end[:, i] += end[:, list(layer.predecessors)].max(axis=1)
    return end.max(axis=1)


def layer_copies(application: ApplicationModel) -> np.ndarray:
    """`[U]` float, how many layers share each unique one."""
    return np.bincount(application.unique_of_layer, minlength=len(application.unique_layers)).astype(float)


# ---------------------------------------------------------------- every design


@jit_o1_plain_loops
def _machines(templates: TemplateArrays, technology: Technology, capacity: jax.Array, fanout: jax.Array) -> Machine:
    """Machines of every mapping's own sizes: `[T, E, V]` capacities, `[T, E, V, 2]` fanouts -> `[T, E, ...]`."""
    sizes = jax.vmap(resize, in_axes=(None, None, 0, 0))
    return jax.vmap(sizes, in_axes=(0, None, 0, 0))(templates, technology, capacity, fanout)


def _not_below(cost: np.ndarray, capacity: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """The least cost at this or any larger capacity of the same template and level; `cost` itself if it never falls.

    Args:
        cost: `[T, E, V]`.
        capacity: `[T, E, V]`.
        valid: `[T, E]` bool, whether a chiplet can take its sizes from the mapping.
    """
    order = np.argsort(capacity, axis=1, kind="stable")
    sized = np.take_along_axis(np.where(valid[..., None], cost, np.inf), order, axis=1)
    least = np.minimum.accumulate(sized[:, ::-1], axis=1)[:, ::-1]
    # Of equal capacities, the first one's minimum covers all, and equal capacities cost the same anyway.
    out = np.empty_like(cost)
    np.put_along_axis(out, order, least, axis=1)
    return np.minimum(out, cost)


def least_costs(
    setup: Setup, tables: MappingTables, wires: Wires, hops: float, sizes: ChipletSizes | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Least energy [pJ, with the package's] and area [um^2] of any chiplet that runs each mapping, `[U, T, M]` each.

    A chiplet is at least as large as the mapping needs. Where the technology's costs fall with size (which
    happens in tables of real memories), the least cost of all larger sizes in the tables, and of `sizes`, counts.
    """
    shape = np.shape(tables.cycles)
    levels = np.shape(tables.capacity)[3]

    def by_template(leaf: npt.ArrayLike) -> np.ndarray:
        values = np.asarray(leaf, np.float64)
        return np.moveaxis(values, 1, 0).reshape(shape[1], shape[0] * shape[2], *values.shape[3:])

    with jax.enable_x64(True):
        arrays = setup.machines(levels, jnp.float64)
        table = cast(setup.technology, jnp.float64)
        capacity, fanout = by_template(tables.capacity), by_template(tables.fanout)
        valid, own = by_template(valid_mappings(tables)) > 0, capacity.shape[1]
        if sizes is not None and len(sizes.template):
            more = sizes.per_template(shape[1])
            capacity, fanout, allowed = (
                np.concatenate([a, b], axis=1) for a, b in zip((capacity, fanout, valid), more, strict=True)
            )
        else:
            allowed = valid
        machine: Machine = jax.device_get(_machines(arrays, table, jnp.asarray(capacity), jnp.asarray(fanout)))
    costs = (np.asarray(machine.area), *np.moveaxis(np.asarray(machine.access_energy), -1, 0)[:2])
    area, read, write = (_not_below(cost, capacity, allowed)[:, :own] for cost in costs)
    machine = take(machine, (slice(None), slice(own)))
    # A wire is as long as the tile below it is wide: the square root of an area.
    shrunk = np.min(np.where(machine.area > 0, area / np.where(machine.area > 0, machine.area, 1), 1), axis=2)
    hop = machine.hop_energy * np.sqrt(shrunk)[..., None]
    accesses = by_template(tables.block_reads) * read + by_template(tables.block_writes) * write
    energy = np.sum(accesses + by_template(least_hops(wires, levels)) * hop, axis=2)
    energy += by_template(tables.macs) * machine.mac_energy
    energy += nop_energy(by_template(tables.offchip_bytes), hops, setup.package.hop_energy)
    chip = np.sum(np.where(machine.level_mask, area * machine.instances, 0), axis=2)
    chip += machine.mac_area * machine.mac_instances

    def back(values: np.ndarray) -> np.ndarray:
        values = np.where(valid, values, np.inf)
        return np.moveaxis(values.reshape(shape[1], shape[0], shape[2]), 0, 1)

    return back(energy), back(chip)


def fewest_hops(places: PackageTables, most: int) -> float:
    """Hops of the chiplet that is nearest to its memory interface, in packages of up to `most` chiplets."""
    present = np.arange(places.hops.shape[1]) < np.arange(places.hops.shape[0])[:, None]
    return float(places.hops[: most + 1][present[: most + 1]].min())


def most_interfaces(places: PackageTables, most: int, idle: bool) -> np.ndarray:
    """`[most]` int, the most memory interfaces that 1 to `most` chiplets that run layers can reach.

    If further chiplets may stand `idle`, the package may be larger than those, and so have more interfaces.
    """
    reached = np.asarray([len(np.unique(places.interface_of[n, :n])) for n in range(1, most + 1)])
    reached = np.minimum(np.arange(1, most + 1), reached.max()) if idle else reached
    return np.maximum.accumulate(reached)


def scenario_bounds(
    setup: Setup,
    tables: MappingTables,
    wires: Wires,
    max_chiplets: int | None = None,
    sizes: ChipletSizes | None = None,
) -> Bounds:
    """Bounds that hold for every design over these tables whose chiplets are as large as their layers need.

    Args:
        setup: networks and hardware.
        tables: Pareto tables `[U, T, M, ...]`; in double precision for bounds that hold in double precision.
        wires: wires of their mappings.
        max_chiplets: most chiplets of a design; default as many as the package has tiles.
        sizes: further sizes that chiplets may have, such as those that layers of other networks need.
    """
    application, package = setup.application, setup.package
    most = package.max_tiles if max_chiplets is None else max_chiplets
    copies = layer_copies(application)
    places = jax.device_get(package_tables(package))
    energy, area = least_costs(setup, tables, wires, fewest_hops(places, most), sizes)
    return _bounds(
        _latencies(setup, tables, most, places),
        float(copies @ energy.min(axis=(1, 2))),
        least_area(area.min(axis=2), package.router_area + package.transceiver_area),
    )


def least_latency(setup: Setup, tables: MappingTables, max_chiplets: int | None = None) -> float:
    """The latency bound [s] of `scenario_bounds`, which needs no wires; arguments as there."""
    most = setup.package.max_tiles if max_chiplets is None else max_chiplets
    return max(_latencies(setup, tables, most, jax.device_get(package_tables(setup.package)))) * CYCLE_S


def _latencies(setup: Setup, tables: MappingTables, most: int, places: PackageTables) -> list[float]:
    """Lower bounds on the latency [cycles]: path, work, traffic, balance of work and traffic."""
    application, package = setup.application, setup.package
    copies, valid = layer_copies(application), valid_mappings(tables)
    duration = np.where(valid, isolated_cycles(tables, package), np.inf)
    bandwidth = min(float(places.interfaces[1 : most + 1].max()) * package.interface_bandwidth, dram_bandwidth(package))
    moving = np.where(valid, np.asarray(tables.offchip_bytes, np.float64) / bandwidth, np.inf)  # 0 if unlimited
    # Prices: a share x spread evenly on the chiplets, the rest on the interfaces.
    shares = np.linspace(0.0, 1.0, _MIXES)
    mixes = [copies @ (x * duration / most + (1 - x) * moving).min(axis=(1, 2)) for x in shares[1:-1]]
    work = float(copies @ duration.min(axis=(1, 2))) / most
    moved = float(copies @ moving.min(axis=(1, 2)))
    path = float(_longest_path(duration.min(axis=(1, 2))[None], application)[0])
    return [path, work, moved, max(work, moved, *(float(x) for x in mixes))]


def least_area(need: np.ndarray, extra: float) -> float:
    """Lower bound on the area [um^2] of every package that runs every layer.

    A design that runs layer u on template t has a chiplet of that template with at least the area `need[u, t]`. If
    template t runs the layers U_t, the area is thus at least the sum of max need[U_t, t] + extra over the templates in
    use. The bound is the least such sum over all assignments of layers to templates. Layers are added one by one, the
    most demanding first, and of the assignments so far only the non-dominated ones are kept. Where these become too
    many, the layers added so far give the bound.

    Args:
        need: `[U, T]` area of the smallest chiplet that runs a layer alone, inf where none does [um^2].
        extra: area of each chiplet's router and transceiver [um^2].
    """
    hardest = np.argsort(-need.min(axis=1), kind="stable")
    alone = float(need.max(axis=0).min()) + extra  # one chiplet for all layers
    ways = np.full((1, need.shape[1]), -np.inf)  # area of each template's chiplet, -inf where it has none yet
    for row in need[hardest]:
        taken = [t for t in range(len(row)) if np.isfinite(row[t])]
        grown = np.repeat(ways[None], len(taken), axis=0)
        for i, t in enumerate(taken):
            grown[i, :, t] = np.maximum(ways[:, t], row[t])
        grown = grown.reshape(-1, need.shape[1])
        grown = grown[np.where(grown >= 0, grown + extra, 0).sum(axis=1) <= alone]
        ways = grown[emo.distinct_front(grown)]
        if len(ways) > _WAYS:
            break  # the layers so far give the bound
    return float(np.where(ways >= 0, ways + extra, 0).sum(axis=1).min(initial=alone))


def _bounds(latency: Sequence[float], energy: float, area: float) -> Bounds:
    """Bounds from path, work, traffic and balance [cycles], energy [pJ] and area [um^2]."""
    path, work, traffic, balance = (x * CYCLE_S for x in latency)
    return Bounds(
        latency_s=max(path, work, traffic, balance),
        energy_J=energy * 1e-12,
        area_mm2=area * 1e-6,
        path_s=path,
        work_s=work,
        traffic_s=traffic,
        balance_s=balance,
    )


# ---------------------------------------------------------------- a design's chiplets


@dataclasses.dataclass(frozen=True)
class _Entries:
    """The mappings that exist on one template, by rising unique layer.

    Attributes:
        layers: unique layers that the template runs.
        starts: index of the first mapping of each of them.
        capacity: `[E, V]`.
        fanout: `[E, V, 2]`.
        duration: `[E]`, cycles with the interface to itself.
        traffic: `[E]`, bytes.
        reads: `[E, V]`, block reads.
        writes: `[E, V]`, block writes.
        sizes: array sizes, by which the columns of chiplets in `hops` are found.
        hops: `[E, K]`, words times hops on the networks (`Wires.hops`).
        macs: `[E]`, multiply-accumulates.
    """

    layers: np.ndarray
    starts: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray
    duration: np.ndarray
    traffic: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    sizes: ArraySizes
    hops: np.ndarray
    macs: np.ndarray


def _entries(setup: Setup, tables: MappingTables, wires: Wires, template: int) -> _Entries:
    unique, mapping = np.nonzero(valid_mappings(tables)[:, template])
    layers, starts = np.unique(unique, return_index=True)

    def at(leaf: npt.ArrayLike) -> np.ndarray:
        return np.asarray(leaf, np.float64)[unique, template, mapping]

    return _Entries(
        layers=layers,
        starts=starts,
        capacity=at(tables.capacity),
        fanout=at(tables.fanout),
        duration=at(isolated_cycles(tables, setup.package)),
        traffic=at(tables.offchip_bytes),
        reads=at(tables.block_reads),
        writes=at(tables.block_writes),
        sizes=jax.tree.map(lambda leaf: np.asarray(leaf)[template], wires.sizes),
        hops=at(wires.hops),
        macs=at(tables.macs),
    )


def _on_chiplet(entries: _Entries, chips: Chiplets, tile: int, hop_energy: float) -> tuple[np.ndarray, ...]:
    """Least duration [cycles], traffic [bytes] and energy [pJ] of each of `entries.layers` on one chiplet.

    Infinite where no mapping fits the chiplet.
    """
    machine = chips.machine
    fits = (entries.capacity <= chips.capacity[tile]).all(axis=1)
    fits &= (entries.fanout <= chips.fanout[tile]).all(axis=(1, 2))
    read, write = machine.access_energy[tile].T
    columns = hop_columns(entries.sizes, chips.fanout[tile])
    energy = entries.reads @ read + entries.writes @ write
    energy += entries.hops[:, columns] @ machine.hop_energy[tile][entries.sizes.level]
    hops = np.asarray(chips.hops[tile])
    energy += entries.macs * machine.mac_energy[tile] + nop_energy(entries.traffic, hops, hop_energy)
    columns = (np.where(fits, x, np.inf) for x in (entries.duration, entries.traffic, energy))
    return tuple(np.minimum.reduceat(x, entries.starts) for x in columns)


def _balance(
    duration: np.ndarray, load: np.ndarray, copies: np.ndarray, uses: np.ndarray, capacity: np.ndarray
) -> np.ndarray:
    """`[N]` largest bound [cycles] over prices of chiplets and shared resources (multiplicative weights).

    Args:
        duration: `[N, U, S]` cycles of each unique layer on each chiplet, inf where it cannot run.
        load: `[N, U, S]` bytes of each unique layer on each chiplet, inf where it cannot run.
        copies: `[U]` number of layers that share each unique one.
        uses: `[N, S, R]` bool, which of R shared resources each chiplet uses.
        capacity: `[R]` their bytes per cycle.
    """
    designs, _, tiles = duration.shape
    able = np.isfinite(duration)
    busy, moved = np.where(able, duration, 0.0), np.where(able, load, 0.0)
    standing = able.any(axis=1)
    slots = np.concatenate([standing, uses.any(axis=1) & np.isfinite(capacity)], axis=1)  # what has a price: [N, S + R]
    per_byte = np.where(np.isfinite(capacity), 1 / capacity, 0.0)
    weight = np.where(slots, 0.0, -np.inf)
    best = np.zeros(designs)
    for step in range(_ROUNDS):
        price = np.exp(weight - weight.max(axis=1, keepdims=True))
        price /= price.sum(axis=1, keepdims=True)
        byte = ((price[:, tiles:] * per_byte)[:, None] * uses).sum(axis=2)
        cost = np.where(able, price[:, None, :tiles] * busy + byte[:, None] * moved, np.inf)
        chosen = cost.argmin(axis=2)[..., None]
        value = np.take_along_axis(cost, chosen, axis=2)[..., 0] @ copies
        best = np.maximum(best, value)
        # How long the layers' cheapest choices would keep each slot busy: raise the price of the busiest.
        pick = (np.arange(tiles) == chosen) * copies[:, None]
        own = (pick * busy).sum(axis=1)
        shared = (((pick * moved).sum(axis=1))[..., None] * uses).sum(axis=1) * per_byte
        time = np.concatenate([own, shared], axis=1)
        weight += (
            np.where(slots, time / np.maximum(time.max(axis=1, keepdims=True), 1e-300), 0.0) * 2 / (1 + step) ** 0.5
        )
    return best


def design_bounds(
    setup: Setup,
    tables: MappingTables,
    wires: Wires,
    designs: Design,
    chips: Chiplets,
    area_mm2: np.ndarray,
) -> list[Bounds]:
    """Bounds for every schedule on the chiplets of each design: any order, assignment and mappings that fit them.

    Args:
        setup: networks and hardware.
        tables: Pareto tables `[U, T, M, ...]`.
        wires: wires of their mappings, which cover the fanouts of the chiplets.
        designs: leading axis `[N]`.
        chips: their chiplets, leading axis `[N]`, NumPy leaves.
        area_mm2: `[N]` areas of the designs, which no schedule changes.

    Returns:
        N bounds.
    """
    application, package = setup.application, setup.package
    count, copies = len(designs.template), layer_copies(application)
    # Chiplets of a design have consecutive places here, wherever their tiles are.
    standing = np.asarray(chips.occupied)
    number = standing.sum(axis=1)
    of_design, of_tile = np.nonzero(standing)
    place = (np.cumsum(standing, axis=1) - 1)[of_design, of_tile]
    entries: dict[int, _Entries] = {}
    # Designs of a front share many of their chiplets.
    known: dict[tuple[int, bytes, bytes, float], tuple[np.ndarray, ...]] = {}
    least = np.full((3, count, len(copies), int(number.max())), np.inf)
    for n, tile, k in zip(of_design, of_tile, place, strict=True):
        kind = int(designs.template[n, tile])
        if kind not in entries:
            entries[kind] = _entries(setup, tables, wires, kind)
        sizes = chips.capacity[n, tile].tobytes(), chips.fanout[n, tile].tobytes(), float(chips.hops[n, tile])
        if (kind, *sizes) not in known:
            own = jax.tree.map(lambda leaf, n=n: leaf[n], chips)
            known[kind, *sizes] = _on_chiplet(entries[kind], own, int(tile), package.hop_energy)
        for row, values in zip(least, known[kind, *sizes], strict=True):
            row[n, entries[kind].layers, k] = values
    duration, traffic, energy = least

    # The interfaces that the design has, and the DRAM behind them.
    interfaces = package.max_interfaces
    uses = np.zeros((count, least.shape[3], interfaces + 1), bool)
    uses[of_design, place, np.asarray(chips.interface)[of_design, of_tile]] = True
    uses[of_design, place, interfaces] = True
    on_interface = uses[..., :interfaces]
    bandwidth = np.append(np.full(interfaces, package.interface_bandwidth), dram_bandwidth(package))
    reached = on_interface.any(axis=1).sum(axis=1) * package.interface_bandwidth

    path = _longest_path(duration.min(axis=2), application)
    work = duration.min(axis=2) @ copies / number
    moved = traffic.min(axis=2) @ copies / np.minimum(reached, bandwidth[-1])
    priced = np.full(count, np.inf)  # stays inf without a chiplet
    for few in np.unique(number[number > 0]):  # without the places that only larger designs have
        rows = np.flatnonzero(number == few)
        time, load = (x[rows][:, :, :few] for x in (duration, traffic))
        priced[rows] = _balance(time, load, copies, uses[rows, :few], bandwidth)
    balance = np.maximum(np.maximum(work, moved), priced)
    spent = energy.min(axis=2) @ copies
    return [
        _bounds([float(x[n]) for x in (path, work, moved, balance)], float(spent[n]), float(area_mm2[n]) * 1e6)
        for n in range(count)
    ]
