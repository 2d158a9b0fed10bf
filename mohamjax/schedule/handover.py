"""Packages that hand data on: outputs and weights that stay in SRAMs beside the chiplets, with stated costs.

MOHaM passes every tensor through memory. Here a chiplet may have an SRAM at its router. A layer may *keep* its output
in the SRAM of its chiplet from its start until its last consumer has ended, and chiplets that need the output pull it
from there. The weights of a layer may be *resident* in the SRAM of its chiplet. What stays is neither written to memory
nor read from it.

While a layer runs it asks its memory interface and the DRAM for its memory traffic, its own link for that and for all
that it pulls, the link and the SRAM of every chiplet that it pulls from for what comes from there, and its own SRAM for
what it reads and writes there. With `contention: mesh` it asks links between routers too: memory traffic takes the
route to the interface, and a pull goes along the row of the producer, then along the column of the consumer. Its
interface, the DRAM, its link and the links to its interface slow a layer whatever it asks them for, as in a package
without SRAMs; any other resource slows only layers that ask it for something. With `contention: interface` only
interfaces count.

Axes: L layers, E edges, n chiplets, R resources.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from mohamjax.hardware import PackageParameters
from mohamjax.hardware.package import chiplet_places, mesh_path, mesh_routes


@dataclasses.dataclass(frozen=True)
class Handover:
    """One schedule of layers whose costs are stated. Amounts are in bytes, times in any one unit.

    Attributes:
        duration: `[L]` float, time of each layer when nothing slows it.
        output_bytes: `[L]` float, what the output of each layer takes in an SRAM.
        weight_bytes: `[L]` float, what its weights take in an SRAM.
        weights: `[L]` float, traffic of its weights.
        outputs: `[L]` float, traffic of its outputs, partial sums that are read back included.
        external: `[L]` float, traffic of inputs from outside the networks.
        producer: `[E]` int, the layer that an edge comes from.
        consumer: `[E]` int, the layer that it leads to.
        edge_bytes: `[E]` float, what the consumer reads over the edge.
        chiplet: `[L]` int, where each layer runs.
        order: `[L]` int, all layers by priority.
        keep: `[L]` bool, whether the output stays in the SRAM; without meaning for a layer that no edge comes from.
        resident: `[L]` bool, whether the weights are in the SRAM.
        chiplets: n.
        package: bandwidths in bytes per time unit, and how chiplets share them.
        sram_bandwidth: bytes per time unit of the SRAM of each chiplet; +inf where nothing limits it.
    """

    duration: np.ndarray
    output_bytes: np.ndarray
    weight_bytes: np.ndarray
    weights: np.ndarray
    outputs: np.ndarray
    external: np.ndarray
    producer: np.ndarray
    consumer: np.ndarray
    edge_bytes: np.ndarray
    chiplet: np.ndarray
    order: np.ndarray
    keep: np.ndarray
    resident: np.ndarray
    chiplets: int
    package: PackageParameters
    sram_bandwidth: float

    @property
    def kept(self) -> np.ndarray:
        """`[L]` bool, whether the output stays: the layer keeps it, and another one needs it."""
        return self.keep & np.isin(np.arange(len(self.duration)), self.producer)

    @functools.cached_property
    def predecessors(self) -> list[list[int]]:
        """Per layer the layers that its edges come from."""
        before: list[list[int]] = [[] for _ in self.duration]
        for consumer, producer in sorted({*zip(self.consumer.tolist(), self.producer.tolist(), strict=True)}):
            before[consumer].append(producer)
        return before

    @functools.cached_property
    def traffic(self) -> HandoverTraffic:
        """What the layers move."""
        return _traffic(self)

    @functools.cached_property
    def resources(self) -> HandoverResources:
        """What the layers ask of the resources of the package."""
        return _resources(self)


@dataclasses.dataclass(frozen=True)
class HandoverTraffic:
    """What the layers of a schedule move [bytes].

    Attributes:
        memory: `[L]` float, to and from memory.
        own: `[L]` float, to and from the SRAM of their own chiplet.
        pulls: `[L, n]` float, from the SRAMs of other chiplets.
    """

    memory: np.ndarray
    own: np.ndarray
    pulls: np.ndarray

    @property
    def sram(self) -> np.ndarray:
        """`[L]` float, to and from all SRAMs."""
        return self.own + self.pulls.sum(axis=1)


def _traffic(case: Handover) -> HandoverTraffic:
    count, kept = len(case.duration), case.kept
    stays = kept[case.producer]
    here = case.chiplet[case.producer] == case.chiplet[case.consumer]

    def read(edges: np.ndarray) -> np.ndarray:
        return np.bincount(case.consumer[edges], case.edge_bytes[edges], count)

    pulls = np.zeros((count, case.chiplets))
    far = stays & ~here
    np.add.at(pulls, (case.consumer[far], case.chiplet[case.producer[far]]), case.edge_bytes[far])
    outside = np.where(kept, 0, case.outputs) + np.where(case.resident, 0, case.weights)
    return HandoverTraffic(
        memory=case.external + read(~stays) + outside,
        own=np.where(kept, case.outputs, 0) + np.where(case.resident, case.weights, 0) + read(stays & here),
        pulls=pulls,
    )


@dataclasses.dataclass(frozen=True)
class HandoverResources:
    """What layers ask of the resources of a package, for `fluid.timeline_of_asks`.

    Attributes:
        names: R names.
        amount: `[L, R]` float [bytes].
        binds: `[L, R]` bool, whether a resource slows a layer.
        bandwidth: `[R]` float [bytes per time unit].
    """

    names: tuple[str, ...]
    amount: np.ndarray
    binds: np.ndarray
    bandwidth: np.ndarray


def _resources(case: Handover) -> HandoverResources:
    traffic = case.traffic
    tiles, _, interface_of, _ = chiplet_places(case.package, case.chiplets)
    routes = mesh_routes(case.package, case.chiplets)
    names: dict[str, int] = {}
    asked: list[tuple[int, int, float]] = []  # layer, resource, bytes
    bandwidth: list[float] = []

    def ask(layer: int, name: str, most: float, amount: float, always: bool = False) -> None:
        if always or amount > 0:
            if names.setdefault(name, len(names)) == len(bandwidth):
                bandwidth.append(most)
            asked.append((layer, names[name], amount))

    package = case.package
    for layer, (own, memory) in enumerate(zip(case.chiplet.tolist(), traffic.memory.tolist(), strict=True)):
        ask(layer, f"interface {interface_of[own]}", package.interface_bandwidth, memory, True)
        if package.contention == "interface":
            continue
        pulls = {other: amount for other, amount in enumerate(traffic.pulls[layer].tolist()) if amount > 0}
        ask(layer, "memory", package.dram_bandwidth, memory, True)
        ask(layer, f"link of chiplet {own}", package.link_bandwidth, memory + sum(pulls.values()), True)
        ask(layer, f"SRAM of chiplet {own}", case.sram_bandwidth, traffic.own[layer])
        paths = [(routes[own], memory, True)]
        for other, amount in pulls.items():
            ask(layer, f"link of chiplet {other}", package.link_bandwidth, amount)
            ask(layer, f"SRAM of chiplet {other}", case.sram_bandwidth, amount)
            paths.append((mesh_path((*tiles[other].tolist(),), (*tiles[own].tolist(),)), amount, False))
        for links, amount, always in paths if package.contention == "mesh" else ():
            for link in links:
                near, far = sorted(link)
                ask(layer, f"mesh link {near} to {far}", package.link_bandwidth, amount, always)
    shape = len(case.duration), len(names)
    amounts, binds = np.zeros(shape), np.zeros(shape, bool)
    for layer, resource, amount in asked:
        amounts[layer, resource] += amount
        binds[layer, resource] = True
    return HandoverResources(tuple(names), amounts, binds, np.asarray(bandwidth))


def byte_hops(case: Handover) -> float:
    """Bytes times hops on the network-on-package: memory traffic to the interface, and pulls between chiplets."""
    traffic = case.traffic
    tiles, _, _, hops = chiplet_places(case.package, case.chiplets)
    apart = np.abs(tiles[case.chiplet][:, None] - tiles[None]).sum(axis=-1)  # [L, n]
    return float((traffic.memory * hops[case.chiplet]).sum() + (traffic.pulls * apart).sum())


def sram_capacity(case: Handover, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """What the SRAM of each chiplet must hold: its resident weights, and the most that lives in it at any time.

    An output lives from the start of its layer until the end of its last consumer. What is released at an instant makes
    room for what is claimed at it.

    Args:
        case: the schedule.
        start: `[L]` float, from its timeline.
        end: `[L]` float, from its timeline.

    Returns:
        `[n]` float, bytes.
    """
    capacity = np.bincount(case.chiplet, np.where(case.resident, case.weight_bytes, 0), case.chiplets)
    kept = np.flatnonzero(case.kept)
    # Every layer that ends rounds the clock: times that differ by less than that are one instant.
    rounding = (8 + len(end)) * np.finfo(end.dtype).eps * end.max(initial=0.0)
    until = np.zeros(len(end))
    np.maximum.at(until, case.producer, end[case.consumer])
    for chiplet in range(case.chiplets):
        own = kept[case.chiplet[kept] == chiplet]
        times = np.concatenate([until[own], start[own]])
        change = np.concatenate([-case.output_bytes[own], case.output_bytes[own]])
        order = np.argsort(times, kind="stable")
        apart = np.diff(times[order], prepend=-np.inf) > rounding
        event = np.cumsum(apart) - 1
        held = np.cumsum(np.bincount(event, change[order])) if own.size else np.zeros(1)
        capacity[chiplet] += held.max(initial=0.0)
    return capacity
