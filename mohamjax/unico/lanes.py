"""Mapping search for many hardware points at once, resumable: a lane is one unique layer on one hardware point.

Lanes use the mapper's operators and cost model; a lane is an NSGA-II of one objective (`emo.NSGA2`). Its random numbers
depend only on the key of the search, the hardware point, the layer and the number of the generation. So the result of a
lane depends neither on the other points searched nor on where the search paused.

Axes: H hardware points, U unique layers (padded with repeat count 0), P population, A axes of the hardware space, B
generations of the full budget, K rows of the tail that robustness is taken from.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.hardware import Machine, Technology
from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.mapping_operators import grow, random_draft, vary
from mohamjax.mapper.problems import prime_slots
from mohamjax.mapping import Counting, Mapping, area, count_accesses, cycles, energy, offchip_bytes, validity
from mohamjax.mapping.children import MAX_CHILDREN
from mohamjax.mapping.space import MappingGenes, MapSpace, constraints, decode, map_space, sample
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import record, select, take
from mohamjax.schedule.evaluation_arrays import package_arrays
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.robustness import Tail, tail_init, tail_update
from mohamjax.unico.space import HardwareSpace, SpaceArrays, machine_of
from mohamjax.workload import UniqueLayer, WorkloadShape

LEAKAGE_W_PER_MM2 = 0.01
"""Default leakage: 10 mW/mm^2, our choice, of the order of a 45 nm low-power process."""

T = TypeVar("T")

_LAYER_STEP = 8  # layers come in multiples of this, so that networks share programs

OBJECTIVES = {"edp": 1.0, "latency": 2.0**-10}
"""Weights w of the merit, log latency + w log energy, minimised. With `latency` energy decides between nearly
equal mappings: half the energy outweighs .07 % of latency."""


@dataclasses.dataclass(frozen=True)
class LaneConfig:
    """Sizes of the mapping search; static.

    Attributes:
        population: P, survivors of a lane, and mappings that it evaluates in a generation.
        generations: B, generations of the full budget.
        objective: a key of `OBJECTIVES`.
        max_children: `Counting.max_children`, for wires; -1 where wires cost no energy.
        tail_percent: share of the samples that form the tail of robustness [%].
    """

    population: int = 16
    generations: int = 32
    objective: str = "edp"
    max_children: int = -1
    tail_percent: int = 5


@record
class Networks:
    """Data shared by all lanes.

    Attributes:
        repeat: `[U]` float, layers of the networks that each unique layer stands for; 0 in padding.
        rates: probabilities of the mapper's operators.
        bandwidth: `[]` float, bytes per cycle between the only chip of a package and its memory.
        hop_energy: `[]` float, pJ per byte between this chip and its memory.
    """

    repeat: jax.Array
    rates: MapperRates
    bandwidth: jax.Array
    hop_energy: jax.Array


@record
class LaneProblem:
    """Data that hardware points are prepared from.

    Attributes:
        spaces: map spaces at the largest sizes, leading axes `[R, U]` for R distinct sets of dataflow rules.
        rules: `[V]` int32, the set of rules of each variant.
        hardware: the hardware space.
        technology: energy and area tables.
        tile_area: `[]` float, um^2 that the package adds.
        leakage: `[]` float, W per mm^2.
        networks: data shared by all lanes.
    """

    spaces: MapSpace
    rules: jax.Array
    hardware: SpaceArrays
    technology: Technology
    tile_area: jax.Array
    leakage: jax.Array
    networks: Networks


@record
class Points:
    """H hardware points as input of the lanes; every leaf has the leading axis H.

    Attributes:
        key: `[H, U, 2]` uint32, data of the lanes' keys.
        spaces: map spaces of the lanes, `[H, U]`.
        machine: the machines, `[H]`.
        area: `[H]` float, mm^2, including the area that the package adds.
        leakage: `[H]` float, W.
    """

    key: jax.Array
    spaces: MapSpace
    machine: Machine
    area: jax.Array
    leakage: jax.Array


@record
class Incumbents:
    """Mappings of every layer on every hardware point.

    Attributes:
        genes: leading axes `[H, U]`.
        latency: `[H, U]` float, cycles, off-chip limits included; inf where none is valid.
        energy: `[H, U]` float, pJ.
    """

    genes: MappingGenes
    latency: jax.Array
    energy: jax.Array


@record
class LaneState:
    """State of the mapping search of H hardware points; every leaf has the leading axis H.

    Attributes:
        generation: `[H]` int32, generations done, the same for all.
        genes: survivors, leading axes `[H, U, P]`.
        merits: `[H, U, P]` float, merits of the survivors, which a lane minimises (see `OBJECTIVES`).
        rank: `[H, U, P]` int32, ranks of the survivors (`emo.NSGA2State`).
        crowding: `[H, U, P]` float, crowding distances of the survivors.
        lane: best mapping of every lane.
        merit: `[H, U]` float, merit of the best mapping of every lane.
        network: best set so far of one mapping per layer; its sums are latency and energy of the point.
        score: `[H]` float, merit of these sums.
        latency: `[H, B]` float, cycles of the networks after each generation; inf where it was not run or found no
            valid mapping.
        energy: `[H, B]` float, pJ of the same mappings. The merit never rises along B.
        tail: the lowest latencies [cycles] among all sets of mappings evaluated, `[H, K]`, with their power [W].
    """

    generation: jax.Array
    genes: MappingGenes
    merits: jax.Array
    rank: jax.Array
    crowding: jax.Array
    lane: Incumbents
    merit: jax.Array
    network: Incumbents
    score: jax.Array
    latency: jax.Array
    energy: jax.Array
    tail: Tail


# ---------------------------------------------------------------- the problem


def lane_problem(problem: CodesignProblem, *, leakage: float = LEAKAGE_W_PER_MM2) -> LaneProblem:
    """The arrays for mapping searches of all layers of an application on points of a hardware space.

    Args:
        problem: networks and hardware.
        leakage: W per mm^2.
    """
    layers, space = problem.application.unique_layers, problem.space
    arrays = space.arrays(problem.technology)
    machines = jax.device_get(arrays.templates.machine)
    levels = machines.capacity.shape[1]
    primes = prime_slots(layers)
    room = _LAYER_STEP * -(-len(layers) // _LAYER_STEP)
    idle = UniqueLayer(layers[0].type, WorkloadShape())
    padded = [*layers, *[idle] * (room - len(layers))]
    rules: dict[tuple[str, tuple[tuple[bool, ...], ...]], int] = {}
    rows, rule_of = [], []
    for v, template in enumerate(space.variants):
        content = (template.dataflows.__repr__(), tuple(level.keep for level in template.levels))
        if content not in rules:
            rules[content] = len(rows)
            machine = jax.tree.map(lambda leaf, v=v: leaf[v], machines)
            own = [map_space(x.shape, constraints(template, x.type, x.shape, levels), machine, primes) for x in padded]
            rows.append(jax.tree.map(lambda *leaves: np.stack(leaves), *own))
        rule_of.append(rules[content])
    repeat = np.zeros(room, np.float32)
    np.add.at(repeat, np.asarray(problem.application.unique_of_layer), 1)
    fitted = package_arrays(problem.package)
    hops = fitted.tables.hops[1, 0]
    interface = fitted.interface_bandwidth[fitted.tables.interface_of[1, 0]]
    bandwidth = jnp.minimum(jnp.minimum(fitted.link_bandwidth, interface), fitted.dram_bandwidth)
    return LaneProblem(
        spaces=jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *rows),
        rules=jnp.asarray(rule_of, jnp.int32),
        hardware=arrays,
        technology=jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), problem.technology),
        tile_area=jnp.float32(fitted.tile_area),
        leakage=jnp.float32(leakage),
        networks=Networks(
            repeat=jnp.asarray(repeat),
            rates=jax.tree.map(jnp.float32, MapperRates()),
            bandwidth=jnp.float32(bandwidth),
            hop_energy=jnp.float32(8 * hops * fitted.hop_energy),
        ),
    )


def wires_room(space: HardwareSpace) -> int:
    """`LaneConfig.max_children` of a space: -1 if no network between levels costs energy."""
    costly = [
        level.fanout[0] * level.fanout[1]
        for template in space.variants
        for level in template.levels
        if level.hop_energy_pJ is None or level.hop_energy_pJ > 0
    ]
    most = max([1, *costly])
    return -1 if most == 1 else max(MAX_CHILDREN, most)


# ---------------------------------------------------------------- one lane


def _space_of(space: MapSpace, machine: Machine) -> MapSpace:
    """A layer's map space on a machine of other sizes."""
    levels = machine.capacity.shape[0]
    fanout = jnp.concatenate(
        [jnp.full(levels, jnp.inf, machine.fanout.dtype), machine.fanout[:, 0], machine.fanout[:, 1]]
    )
    return dataclasses.replace(space, capacity=machine.capacity, fanout=fanout)


def _costs(
    genes: MappingGenes, space: MapSpace, machine: Machine, networks: Networks, config: LaneConfig
) -> tuple[jax.Array, jax.Array]:
    """Latency [cycles] and energy [pJ] of mappings of lanes; inf where invalid.

    Args:
        genes: leading axes `[I, P]`: P mappings of each of I lanes.
        space: map spaces `[I]`.
        machine: machines `[I]`.
        networks: bandwidth and hop energy to the memory.
        config: static.

    Returns:
        Latency and energy, `[I, P]` each.
    """
    lanes, width = genes.slot.shape[:2]
    # The cost model takes the batch of all mappings as the last axis.
    nests = jax.vmap(jax.vmap(decode, in_axes=(0, None)))(genes, space)
    nests = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(lanes * width, *x.shape[2:]), 0, -1), nests)
    machine, layer = jax.tree.map(lambda x: jnp.moveaxis(jnp.repeat(x, width, axis=0), 0, -1), (machine, space.layer))
    wires = config.max_children >= 0
    counting = Counting(wires=wires, max_children=max(config.max_children, 0), grid=wires)
    counts = count_accesses(layer, nests, machine, counting)
    reason, _ = validity(counts, nests, machine, own_fanout=True)
    traffic = offchip_bytes(counts, machine)
    latency = jnp.maximum(cycles(counts, machine).onchip, traffic / networks.bandwidth)
    spent = energy(counts, machine).total + traffic * networks.hop_energy
    found = [jnp.where(reason == 0, x, jnp.inf).reshape(lanes, width) for x in (latency, spent)]
    return found[0], found[1]


@functools.cache
def _search(config: LaneConfig) -> emo.NSGA2:
    """The NSGA-II of a lane."""
    return emo.NSGA2(
        sample=lambda key, space, rates: random_draft(key, space),
        vary=lambda key, a, b, space, rates: vary(key, a, b, space, rates),
        grow=lambda drafts, space, rates: grow(drafts, space),
        population=config.population,
        objectives=1,
    )


def _repeated(merit: jax.Array, known: jax.Array) -> jax.Array:
    """`[P]` bool: candidates whose merit equals that of a survivor or an earlier candidate: likely the same mapping."""
    among = jnp.any(jnp.tril(merit[:, None] == merit, -1), axis=1)
    return among | jnp.any(merit[:, None] == known, axis=1)


def _merit(latency: jax.Array, spent: jax.Array, config: LaneConfig) -> jax.Array:
    return jnp.log2(latency) + OBJECTIVES[config.objective] * jnp.log2(spent)


# ---------------------------------------------------------------- many


@jit_o1
def prepare(key: jax.Array, slot: jax.Array, digits: jax.Array, problem: LaneProblem) -> Points:
    """Hardware points as input of the lanes; jitted, recompiles per H and the sizes of the space.

    Args:
        key: typed key of the search; points to be compared need the same key.
        slot: `[H]` uint32, numbers of the points in the space, which their random numbers derive from.
        digits: `[H, A]` int32, the points.
        problem: from `lane_problem`.
    """
    layers = jnp.arange(problem.networks.repeat.shape[0], dtype=jnp.uint32)

    def point(slot: jax.Array, digits: jax.Array) -> Points:
        variant, machine = machine_of(digits, problem.hardware, problem.technology)
        keys = jax.vmap(functools.partial(jax.random.fold_in, jax.random.fold_in(key, slot)))(layers)
        size = (area(machine) + problem.tile_area) * 1e-6
        return Points(
            key=jax.random.key_data(keys),
            spaces=jax.vmap(_space_of, in_axes=(0, None))(take(problem.spaces, problem.rules[variant]), machine),
            machine=machine,
            area=size,
            leakage=problem.leakage * size,
        )

    return jax.vmap(point)(slot, digits)


def _flat(tree: T) -> T:
    """Leaves `[H, U, ...]` as `[H U, ...]`."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tree)


@functools.partial(jit_o1, static_argnames="config")
def start(points: Points, *, config: LaneConfig) -> LaneState:
    """Lanes of H hardware points before their first generation; jitted, recompiles per H, U and `config`.

    Args:
        points: from `prepare`.
        config: static.
    """
    number, layers = points.key.shape[:2]
    keys, spaces = jax.random.wrap_key_data(_flat(points.key)), _flat(points.spaces)

    def lane(key: jax.Array, space: MapSpace) -> MappingGenes:
        own = jax.random.split(jax.random.fold_in(key, 0), config.population)
        return jax.vmap(sample, in_axes=(0, None))(own, space)

    genes = _of_points(jax.vmap(lane)(keys, spaces), number)
    none = jnp.full((number, layers), jnp.inf, jnp.float32)
    blank = Incumbents(genes=jax.tree.map(lambda leaf: leaf[:, :, 0], genes), latency=none, energy=none)
    curve = jnp.full((number, config.generations), jnp.inf, jnp.float32)
    merits = jnp.full((number, layers, config.population), jnp.inf, jnp.float32)
    return LaneState(
        generation=jnp.zeros(number, jnp.int32),
        genes=genes,
        merits=merits,
        rank=jnp.zeros(merits.shape, jnp.int32),
        crowding=jnp.zeros_like(merits),
        lane=blank,
        merit=none,
        network=blank,
        score=jnp.full(number, jnp.inf, jnp.float32),
        latency=curve,
        energy=curve,
        tail=tail_init(config.generations * config.population, (number,), tail_percent=config.tail_percent),
    )


def totals(values: jax.Array, repeat: jax.Array) -> jax.Array:
    """Sums `[H, ...]` over the layers of `[H, U, ...]`, weighted by repeat counts, in fixed order; ignores padding."""

    def add(total: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        value, times = row
        return total + jnp.where(times > 0, times * value, 0), None

    start = jnp.zeros((values.shape[0], *values.shape[2:]), values.dtype)
    return jax.lax.scan(add, start, (jnp.moveaxis(values, 1, 0), repeat))[0]


@functools.partial(jit_o1, static_argnames="config")
def advance(points: Points, state: LaneState, networks: Networks, count: jax.Array, *, config: LaneConfig) -> LaneState:
    """Runs all lanes for `count` further generations; jitted, recompiles per H, U and `config` alone.

    Args:
        points: from `prepare`.
        state: from `start` or an earlier call.
        networks: `LaneProblem.networks`.
        count: `[]` int32, traced; all calls together run at most `config.generations`.
        config: static.
    """
    number, layers = state.merit.shape
    keys, spaces = jax.random.wrap_key_data(_flat(points.key)), _flat(points.spaces)
    machines = jax.tree.map(lambda x: jnp.repeat(x, layers, axis=0), points.machine)
    loop = _search(config)

    def bred(key: jax.Array, search: emo.NSGA2State, space: MapSpace) -> MappingGenes:
        """Mappings that a lane evaluates next: the random population in generation 0, offspring later."""
        own = jax.random.fold_in(key, search.generation + 1)
        asked = loop.ask(search, own, space=space, rates=networks.rates)
        return select(search.generation == 0, search.genes, asked)

    def survived(search: emo.NSGA2State, genes: MappingGenes, merits: jax.Array) -> emo.NSGA2State:
        again = _repeated(merits, search.objectives[:, 0])
        return loop.tell(search, genes, jnp.where(again, jnp.inf, merits)[:, None])

    def generation(_: jax.Array, state: LaneState) -> LaneState:
        search = emo.NSGA2State(
            key=keys,
            generation=jnp.repeat(state.generation, layers),
            genes=_flat(state.genes),
            objectives=_flat(state.merits)[..., None],
            rank=_flat(state.rank),
            crowding=_flat(state.crowding),
        )
        asked = jax.vmap(bred)(keys, search, spaces)
        found = _costs(asked, spaces, machines, networks, config)
        merits = _merit(*found, config)
        search = jax.vmap(survived)(search, asked, merits)

        best = jnp.argmin(merits, axis=1)
        pick = jax.vmap(lambda leaf, i: leaf[i])
        new = jax.tree.map(lambda x: pick(x, best), (asked, *found, merits))
        old = _flat((state.lane.genes, state.lane.latency, state.lane.energy, state.merit))
        better = new[3] < old[3]
        new = select(better, new, old)
        genes, latency, spent, merit = _of_points(new, number)
        own = Incumbents(genes=genes, latency=latency, energy=spent)

        # Better mappings of single layers can still make the networks' merit worse; then the old set stays.
        score = _merit(totals(own.latency, networks.repeat), totals(own.energy, networks.repeat), config)
        gains = score < state.score
        chosen = select(gains, own, state.network)
        at = jnp.arange(number), state.generation
        # Sample n of the networks takes member n of every layer; the layer's best replaces an invalid member.
        members = _of_points(found, number)
        members = [
            jnp.where(jnp.isfinite(x), x, b[..., None]) for x, b in zip(members, (own.latency, own.energy), strict=True)
        ]
        latencies, spents = (totals(x, networks.repeat) for x in members)
        power = spents / latencies * 1e-3 + points.leakage[:, None]  # pJ per cycle at 1 GHz is mW
        return LaneState(
            generation=state.generation + 1,
            genes=_of_points(search.genes, number),
            merits=_of_points(search.objectives[..., 0], number),
            rank=_of_points(search.rank, number),
            crowding=_of_points(search.crowding, number),
            lane=own,
            merit=merit,
            network=chosen,
            score=jnp.where(gains, score, state.score),
            latency=state.latency.at[at].set(totals(chosen.latency, networks.repeat)),
            energy=state.energy.at[at].set(totals(chosen.energy, networks.repeat)),
            tail=tail_update(state.tail, latencies, power, jnp.isfinite(latencies)),
        )

    return jax.lax.fori_loop(0, count, generation, state)


def _of_points(tree: T, points: int) -> T:
    """Leaves `[H U, ...]` as `[H, U, ...]`."""
    return jax.tree.map(lambda x: x.reshape(points, -1, *x.shape[1:]), tree)


@jit_o1
def mappings_of(points: Points, genes: MappingGenes) -> Mapping:
    """Loop nests of genes `[H, U, ...]` on hardware points; the nests have leading axes `[H, U]`."""
    return jax.vmap(jax.vmap(decode))(genes, points.spaces)
