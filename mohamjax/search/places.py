"""Closes a front over places: tries moves of chiplets until none makes a design dominate the one it came from.

A place matters only by its hops and by the resources that it shares with other places. Arrangements that divide
chiplets among resources alike have equal latency, so only these *classes* are distinguished instead of all n!: 45 of
720 for six chiplets behind four interfaces. Within a class, a sort gives the least energy: more traffic goes to fewer
hops. A chiplet is given up by moving all its layers to one other; usually it is a tiny one that was there for its place
in the mesh. As the others can then take better places, both moves are tried together.

Moves that cannot dominate are excluded by bounds that need no schedule: energy and area are exact, and no schedule ends
before its busiest chiplet and its busiest interface. The rest is evaluated, and a design that dominates the one it came
from takes its slot in the archive, until no design has such a move.

Axes: B designs of a block, S tiles, L layers (padded), U unique layers, A application models (one unless there are
several), W weights, R arrangements of up to K chiplets, G groups of places, C resources, M objectives, I islands.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.emo.loop import Problem, SearchState
from mohamjax.hardware import nop_energy
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.problem.space import DesignSpace, Genetics
from mohamjax.runtime.blocks import DESIGNS, in_blocks, in_fitting_blocks
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import record, select, take
from mohamjax.schedule.design import CYCLE_S, Design, Package, chiplets, energy_and_area
from mohamjax.search.arrangements import Arrangements, arrangements
from mohamjax.search.config import MohamConfig
from mohamjax.search.moham import designs_of, genetic_problem
from mohamjax.search.plan_operators import exchanged, merged, takers
from mohamjax.search.plans import Planned, fitting, plans_of, used_sizes
from mohamjax.search.result import representatives
from mohamjax.text import plural

NO_WORSE = 5e-6
"""Relative excess that single precision cannot distinguish from none."""

BETTER = 2e-5
"""Relative gain above which a design is better. As it is more than what two objectives may lose, no two designs can
replace each other for ever."""

_ROWS, _ENTRIES, _TRIED = 64, 64, 2 * DESIGNS
_CELLS = 1 << 20  # comparisons at a time


# ---------------------------------------------------------------- moves and their bounds


@record
class Move:
    """A move of a design: one chiplet may be given up, then the others take other places.

    Attributes:
        source: `[]` int32, tile of the chiplet that is given up; -1 for none.
        target: `[]` int32, tile of the chiplet that takes its layers.
        weight: `[]` int32, weight of the score by which these choose their mappings there.
        place: `[S]` int32, place of each remaining chiplet, in the order of their tiles; further entries are unused.
    """

    source: jax.Array
    target: jax.Array
    weight: jax.Array
    place: jax.Array


def moved(individual: Planned, move: Move, space: DesignSpace) -> Planned:
    """An individual after a move; valid where the individual is, and the target may run the source's layers."""
    genetics = space.genetics
    kept = merged(individual, move.source, move.target, move.weight, genetics, space.plans)
    one = select(move.source >= 0, kept, individual)
    standing = one.design.template >= 0
    tile_of = jnp.argsort(~standing, stable=True).astype(jnp.int32)
    own = jnp.arange(tile_of.shape[0]) < jnp.sum(standing)
    goes = jnp.zeros_like(tile_of).at[tile_of].set(jnp.where(own, tile_of[move.place], tile_of))
    return exchanged(one, goes, genetics)


def _owner(design: Design, genetics: Genetics, models: int) -> jax.Array:
    """`[L]` int32, index of each layer's model and tile in a flat table `[A * S]`; beyond its end where padded."""
    tiles = design.template.shape[0]
    model = 0 if genetics.model is None else genetics.model
    real = genetics.real
    return jnp.where(real, model * tiles + design.assignment, models * tiles)


def _sums(values: jax.Array, owner: jax.Array, models: int, tiles: int) -> jax.Array:
    """Values `[L, ...]` summed by model and tile, `[A, S, ...]`."""
    found = jnp.zeros((models * tiles, *values.shape[1:]), values.dtype).at[owner].add(values, mode="drop")
    return found.reshape(models, tiles, *values.shape[1:])


def _joint(values: jax.Array, space: DesignSpace) -> jax.Array:
    """Latencies or energies `[A, ...]` of the models as the search joins them (`schedule.ensemble.over_models`)."""
    if space.models is None:
        return values[0]
    mean = jnp.sum(space.models.weight.reshape(-1, *[1] * (values.ndim - 1)) * values, axis=0)
    return jnp.where(space.models.worst, jnp.max(values, axis=0), mean)


def _models(space: DesignSpace) -> int:
    return 1 if space.models is None else space.models.weight.shape[0]


def _within(bound: jax.Array, own: jax.Array, name: str, objectives: tuple[str, ...]) -> jax.Array:
    """Whether a design with this lower bound of an objective may be no worse in it than `own` `[M]`."""
    if name not in objectives:
        return jnp.ones(jnp.shape(bound), bool)
    return bound <= own[objectives.index(name)] * (1 + NO_WORSE)


def _mergers(design: Design, own: jax.Array, space: DesignSpace, objectives: tuple[str, ...]) -> jax.Array:
    """`[S, S, W]` bool: which chiplet may be given up to which other one under which weight, by a bound on latency.

    Weights that choose the same mappings as an earlier weight are left out.
    """
    genetics, evaluation, tiles = space.genetics, space.evaluation, design.template.shape[0]
    models = _models(space)
    owner = _owner(design, genetics, models)
    template = jnp.maximum(design.template, 0)
    size = jnp.maximum(used_sizes(design, genetics, space.plans), 0)
    real = genetics.real
    cycles = evaluation.tables.cycles[evaluation.unique, template[design.assignment], design.mapping]
    busy = _sums(cycles, owner, models, tiles)
    # A hash of the mappings of all layers of a chiplet: the sum of one of every layer, which has to mix them well.
    factor = (jnp.arange(design.order.shape[0], dtype=jnp.uint32) * 2 + 1) * jnp.uint32(2654435761)

    def mixed(mapping: jax.Array) -> jax.Array:
        mark = (mapping.astype(jnp.uint32) + 1) * factor[:, None]
        mark = (mark ^ (mark >> 16)) * jnp.uint32(0x85EBCA6B)
        return mark ^ (mark >> 13)

    def under(weight: jax.Array) -> tuple[jax.Array, jax.Array]:
        best = fitting(template, size, jnp.full(tiles, weight, jnp.int32), space.plans)[0]
        mapping = best[:, evaluation.unique].T  # [L, S]
        cycles = evaluation.tables.cycles[evaluation.unique[:, None], template, mapping]
        marks = _sums(mixed(mapping), jnp.where(real, design.assignment, tiles), 1, tiles)
        return _sums(cycles, owner, models, tiles), marks[0]

    more, marks = jax.vmap(under)(jnp.arange(len(WEIGHTS)))  # [W, A, source, target], [W, source, target]
    latency = jax.vmap(lambda more: _joint(busy[:, None] + more, space))(more) * CYCLE_S
    known = jnp.stack([jnp.any(marks[:w] == marks[w], axis=0) for w in range(len(WEIGHTS))])
    able = jax.vmap(lambda source: takers(design, source, genetics))(jnp.arange(tiles))
    fits = _within(latency, own, "latency", objectives) & ~known & able
    return jnp.moveaxis(fits, 0, -1)


@record
class _Sized:
    """The figures of a design by which arrangements of its chiplets are judged.

    Attributes:
        traffic: `[A, S]` float, off-chip bytes of the k-th chiplet.
        fixed: `[S]` bool, whether the k-th chiplet must stay.
        number: `[]` int32, chiplets.
        busy: `[A]` float, cycles of the busiest chiplet.
        energy: `[A]` float, J without leakage and without the network-on-package.
        area: `[]` float, mm^2.
        given_up: `[]` bool, whether a chiplet was given up.
    """

    traffic: jax.Array
    fixed: jax.Array
    number: jax.Array
    busy: jax.Array
    energy: jax.Array
    area: jax.Array
    given_up: jax.Array


def _sized(individual: Planned, move: Move, space: DesignSpace) -> _Sized:
    """The figures of a design after a chiplet is given up, if the move does so; the places of the move are ignored."""
    genetics, evaluation, tiles = space.genetics, space.evaluation, individual.design.template.shape[0]
    stays = dataclasses.replace(move, place=jnp.arange(tiles, dtype=jnp.int32))
    design = moved(individual, stays, space).design
    models = _models(space)
    owner = _owner(design, genetics, models)
    row = evaluation.unique, jnp.maximum(design.template, 0)[design.assignment], design.mapping
    standing = design.template >= 0
    number = jnp.sum(standing)
    tile_of = jnp.argsort(~standing, stable=True)
    traffic = _sums(evaluation.tables.offchip_bytes[row], owner, models, tiles)[:, tile_of]
    return _Sized(
        traffic=traffic,
        fixed=genetics.on_tile[tile_of] >= 0,
        number=number,
        busy=jnp.max(_sums(evaluation.tables.cycles[row], owner, models, tiles), axis=1),
        energy=_energies(design, space) - _of_hops(traffic, evaluation.package.tables.hops[number], evaluation.package),
        area=energy_and_area(design, evaluation)[1],
        given_up=move.source >= 0,
    )


def _of_hops(traffic: jax.Array, hops: jax.Array, package: Package) -> jax.Array:
    """`[A, ...]` float, energy of the network-on-package [J] for bytes `[A, K]` over hops `[..., K]`."""
    bits = jnp.einsum("ak,...k->a...", traffic, hops.astype(traffic.dtype), precision="highest")
    return nop_energy(bits, 1, package.hop_energy) * 1e-12


def _arranged(
    sized: _Sized, own: jax.Array, table: Arrangements, space: DesignSpace, objectives: tuple[str, ...]
) -> tuple[jax.Array, jax.Array]:
    """Arrangements of a design, one per class, that may dominate it: `[R]` bool; and places of all: `[R, S]` int16.

    Args:
        sized: the design, with no more chiplets than the table has.
        own: `[M]` float, objectives of the design that it came from.
        table: the arrangements.
        space: the problem.
        objectives: names of the objectives.
    """
    package, number = space.evaluation.package, sized.number
    tiles, most = sized.fixed.shape[0], table.place_group.shape[1]
    traffic = sized.traffic[:, :most]
    # Of the worst of several models no sort has the least energy; the sum is a fair guess.
    weight = 1 if space.models is None else jnp.where(space.models.worst, 1, space.models.weight)[:, None]
    place, there = _sorted_places(jnp.sum(weight * traffic, axis=0), sized.fixed[:most], number, table, space)
    hops = package.tables.hops[number, :most]
    energy = _joint(sized.energy[:, None] + _of_hops(traffic, hops[place], package), space)  # [R]
    goes = table.group[number][:, :, None] == jnp.arange(table.load.shape[1])
    waits = jnp.einsum("ak,rkg,gc->arc", traffic, goes.astype(traffic.dtype), table.load[number], precision="highest")
    latency = jnp.maximum(jnp.max(waits, axis=2), sized.busy[:, None])
    fits = there & _within(_joint(latency, space) * CYCLE_S, own, "latency", objectives)
    fits &= _within(energy, own, "energy", objectives) & _within(sized.area, own, "area", objectives)
    # If no chiplet is given up, arrangements of the present class must need less energy.
    kind = table.kind[number]
    present = _joint(sized.energy + _of_hops(traffic, hops, package), space)
    fits &= sized.given_up | (kind != kind[0]) | (energy < present * (1 - BETTER))
    # The first of those of least energy in each class.
    least = jnp.full(kind.shape, jnp.inf, energy.dtype).at[kind].min(jnp.where(fits, energy, jnp.inf))
    best = fits & (energy == least[kind])
    index = jnp.arange(kind.shape[0])
    first = jnp.full(kind.shape, kind.shape[0]).at[kind].min(jnp.where(best, index, kind.shape[0]))
    return best & (index == first[kind]), jnp.pad(place.astype(jnp.int16), ((0, 0), (0, tiles - most)))


def _sorted_places(
    traffic: jax.Array, fixed: jax.Array, number: jax.Array, table: Arrangements, space: DesignSpace
) -> tuple[jax.Array, jax.Array]:
    """`[R, K]` int32, the place of each chiplet in every arrangement, and `[R]` bool, whether it is allowed.

    Within a group, chiplets with more traffic get places with fewer hops. Fixed chiplets stay where they are.

    Args:
        traffic: `[K]` float, bytes of each chiplet.
        fixed: `[K]` bool, chiplets that must stay.
        number: `[]` int, chiplets.
        table: the arrangements.
        space: the problem.
    """
    index = jnp.arange(traffic.shape[0], dtype=jnp.int32)
    free = (index < number) & ~fixed
    group, of_place = table.group[number], table.place_group[number]
    hops = space.evaluation.package.tables.hops[number, : traffic.shape[0]]
    earlier = index[:, None] < index
    heavier = (traffic[:, None] > traffic) | ((traffic[:, None] == traffic) & earlier)
    nearer = (hops[:, None] < hops) | ((hops[:, None] == hops) & earlier)
    rank = jnp.sum((group[:, :, None] == group[:, None]) & (heavier & free[:, None]), axis=1)
    seat = jnp.sum((of_place[:, None] == of_place) & nearer & free[:, None], axis=0)
    takes = (group[:, :, None] == of_place) & (rank[:, :, None] == seat) & free
    place = jnp.where(free, jnp.sum(jnp.where(takes, index, 0), axis=2), index)
    there = table.there[number] & jnp.all((group == of_place) | ~fixed | (index >= number), axis=1)
    return place.astype(jnp.int32), there


def _energies(design: Design, space: DesignSpace) -> jax.Array:
    """`[A]` float, energy [J] of each application model on the design's chiplets, without leakage."""
    evaluation = space.evaluation
    if space.models is None:
        return energy_and_area(design, evaluation)[0][None]
    chips = chiplets(design, evaluation)

    def of_model(model: jax.Array) -> jax.Array:
        own = dataclasses.replace(evaluation, layer_mask=evaluation.layer_mask & (space.genetics.model == model))
        return energy_and_area(design, own, (chips.capacity, chips.fanout))[0]

    return jax.vmap(of_model)(jnp.arange(_models(space)))


# ---------------------------------------------------------------- programs


def _flat(archive: emo.Archive, rows: jax.Array) -> tuple[Planned, jax.Array]:
    """Individuals and objectives of rows of the archives; rows are numbered through all islands."""
    genes: Any = archive.genes
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[rows], (genes, archive.objectives))


@functools.partial(jit_o1_plain_loops, static_argnames="objectives")
def _some_mergers(
    rows: jax.Array, archive: emo.Archive, space: DesignSpace, *, objectives: tuple[str, ...]
) -> jax.Array:
    """`_mergers` of rows of the archives, `[B, S, S, W]` bool."""
    one = jax.vmap(lambda pair: _mergers(pair[0].design, pair[1], space, objectives))
    return in_fitting_blocks(one, _flat(archive, rows), 16)


@jit_o1_plain_loops
def _some_sized(rows: jax.Array, moves: Move, archive: emo.Archive, space: DesignSpace) -> _Sized:
    """`_sized` of rows of the archives after moves, `[B, ...]`."""
    one = jax.vmap(lambda pair: _sized(pair[0], pair[1], space))
    return in_fitting_blocks(one, (_flat(archive, rows)[0], moves), DESIGNS)


@functools.partial(jit_o1_plain_loops, static_argnames="objectives")
def _some_arranged(
    sized: _Sized, own: jax.Array, table: Arrangements, space: DesignSpace, *, objectives: tuple[str, ...]
) -> tuple[jax.Array, jax.Array]:
    """`_arranged` of designs `[B, ...]`."""
    most = min(_ENTRIES, max(1, _CELLS // math.prod((*table.group.shape[1:], table.group.shape[2]))))
    one = jax.vmap(lambda pair: _arranged(pair[0], pair[1], table, space, objectives))
    return in_blocks(one, (sized, own), most)


@functools.partial(jit_o1_plain_loops, static_argnames="problem")
def _some_tried(
    rows: jax.Array, moves: Move, archive: emo.Archive, space: DesignSpace, *, problem: Problem
) -> jax.Array:
    """Objectives `[B, M]` of rows of the archives after moves."""
    one = jax.vmap(lambda pair: moved(pair[0], pair[1], space))
    return problem.evaluate(in_fitting_blocks(one, (_flat(archive, rows)[0], moves), DESIGNS), space)


@jit_o1_plain_loops
def _replaced(
    archive: emo.Archive, closed: jax.Array, better: jax.Array, moves: Move, objectives: jax.Array,
    space: DesignSpace,
) -> tuple[emo.Archive, jax.Array]:  # fmt: skip
    """The archives with designs replaced by ones that dominate them, and which designs have no move left.

    Args:
        archive: of all islands, slots `[I, K]`.
        closed: `[I, K]` bool, designs that have been tried.
        better: `[I, K]` bool, slots whose design is dominated by the result of a move.
        moves: `[I, K, ...]`, these moves.
        objectives: `[I, K, M]`, objectives of the moves' results.
        space: the problem.
    """

    def one(
        archive: emo.Archive, closed: jax.Array, better: jax.Array, moves: Move, objectives: jax.Array
    ) -> tuple[emo.Archive, jax.Array]:
        individuals: Any = archive.genes
        made = jax.vmap(lambda pair: moved(pair[0], pair[1], space))
        made = in_fitting_blocks(made, (individuals, moves), DESIGNS)
        left = dataclasses.replace(
            archive,
            genes=(individuals, closed),
            valid=archive.valid & ~better,
            objectives=jnp.where(better[:, None], jnp.inf, archive.objectives),
        )
        # At most as many enter as leave, so nothing is thinned.
        new = emo.archive_update(left, (made, jnp.zeros_like(closed)), jnp.where(better[:, None], objectives, jnp.inf))
        genes, closed = new.genes
        return dataclasses.replace(new, genes=genes), closed

    return jax.vmap(one)(archive, closed, better, moves, objectives)


# ---------------------------------------------------------------- closing


@dataclasses.dataclass(frozen=True)
class Closing:
    """Progress of closing.

    Attributes:
        rounds: rounds done.
        evaluations: designs evaluated.
        replaced: designs that were replaced by one that dominates them.
        seconds: since closing began.
        closed: `[I, K]` bool, designs of the archives that no move improves; None until that holds for all designs that
            stand for the front.
    """

    rounds: int = 0
    evaluations: int = 0
    replaced: int = 0
    seconds: float = 0.0
    closed: np.ndarray | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def counts(self) -> dict[str, int]:
        """All numbers but the seconds, by name: equal searches give equal ones."""
        return {"rounds": self.rounds, "evaluations": self.evaluations, "replaced": self.replaced}

    def __str__(self) -> str:
        """A line of progress."""
        return (
            f"round {self.rounds}: {plural(self.evaluations, 'design')} tried, {self.replaced:,} replaced "
            f"({self.seconds:.1f} s)"
        )


def closing(
    state: SearchState, space: DesignSpace, config: MohamConfig, problem: Problem, *, most: int | None = None
) -> Iterator[tuple[SearchState, Closing]]:
    """Replaces designs by ones that dominate them after a move of chiplets, until no representative has such a move.

    Only designs that stand for the front (`result.representatives`) are tried, chosen again in every round,
    and a result is chosen from these (`Closing.closed`). For up to nine chiplets (on the default package) all
    arrangements are tried, for more a sample; each also together with moving one chiplet's layers to another, on the
    best mappings that fit it as it stands, under each weight. Fixed chiplets stay. A design dominates another if no
    objective is worse by more than single precision can tell, and one is better by clearly more (`NO_WORSE`, `BETTER`).

    Args:
        state: at the end of a search of plans, gathered.
        space: its problem.
        config: its settings; at most `end_rounds` rounds are run.
        problem: what is searched (`genetic_problem`).
        most: most batches of every program in a round; default all.

    Yields:
        The state and the progress, after every batch of evaluations and after every round. The archives only change
        between rounds: a caller that stops within a round has the state before it.
    """
    began = time.perf_counter()
    tables = arrangements(space.evaluation.package, _most_chiplets(state.archive))
    archive, done = jax.device_put(state.archive), Closing()
    closed = jnp.zeros_like(archive.valid)
    for _ in range(config.end_rounds):
        still = archive.valid & ~closed & _representing(archive, space, config)
        if most is None and not np.any(still):
            if np.any(closed):
                yield dataclasses.replace(state, archive=archive), dataclasses.replace(done, closed=np.asarray(closed))
            break
        rows, moves = _candidates(archive, still, tables, space, config.objectives, most)
        tried = np.zeros((0, archive.objectives.shape[-1]), archive.objectives.dtype)
        program = functools.partial(_some_tried, problem=problem)
        for _, reached in _in_batches(program, _TRIED, most, (rows, moves), (archive, space)):
            tried = np.concatenate([tried, reached])
            done = dataclasses.replace(
                done, evaluations=done.evaluations + len(reached), seconds=time.perf_counter() - began
            )
            yield dataclasses.replace(state, archive=archive), done
        rows, moves = take((rows, moves), slice(len(tried)))
        archive, closed, replaced = _round(archive, closed | still, rows, moves, tried, space)
        done = dataclasses.replace(
            done,
            rounds=done.rounds + 1,
            replaced=done.replaced + replaced,
            seconds=time.perf_counter() - began,
            closed=None if replaced else np.asarray(closed),
        )
        yield dataclasses.replace(state, archive=archive), done
        if not replaced:
            break


def open_to_moves(
    designs: Design, objectives: np.ndarray, state: SearchState, space: DesignSpace, config: MohamConfig
) -> np.ndarray:
    """`[N]` bool, designs that a move of chiplets would improve by the rules of `closing`; nothing is replaced.

    Args:
        designs: `[N, ...]` NumPy arrays, no more designs than the archives of the state have slots.
        objectives: `[N, M]`, with the offsets of the search added.
        state: of the search, gathered; its archives give the shapes of the programs.
        space: its problem.
        config: its settings.
    """
    slots, number = state.archive.valid.shape, len(objectives)
    place = np.arange(math.prod(slots))
    rows = np.minimum(place, number - 1)
    valid = (place < number).reshape(slots)
    values = np.where(valid[..., None], objectives[rows].reshape(*slots, -1), np.inf)
    planned = plans_of(take(designs, rows), space.genetics, space.plans)
    individuals = jax.tree.map(lambda leaf: leaf.reshape(*slots, *leaf.shape[1:]), planned)
    archive: emo.Archive = dataclasses.replace(
        state.archive, genes=individuals, valid=jnp.asarray(valid),
        objectives=jnp.asarray(values, state.archive.objectives.dtype),
    )  # fmt: skip
    tables, names = arrangements(space.evaluation.package, _most_chiplets(archive)), config.objectives
    rows, moves = _candidates(archive, archive.valid, tables, space, names, None)
    program = functools.partial(_some_tried, problem=genetic_problem(config))
    reached = [found for _, found in _in_batches(program, _TRIED, None, (rows, moves), (archive, space))]
    out = np.zeros(math.prod(slots), bool)
    if reached:
        own = np.asarray(archive.objectives).reshape(-1, len(names))
        out[_dominating(rows, np.concatenate(reached), own)[0]] = True
    return out[:number]


def _most_chiplets(archive: emo.Archive) -> int:
    """Most chiplets of the designs in archives, at least 1."""
    template = np.asarray(designs_of(archive.genes).template)
    return int(np.max(np.sum(template >= 0, axis=-1), where=np.asarray(archive.valid), initial=1))


def _representing(archive: emo.Archive, space: DesignSpace, config: MohamConfig) -> np.ndarray:
    """`[I, K]` bool, designs that stand for the joint front of all archives; computed on the host."""
    held: Any = jax.device_get((archive.valid, archive.objectives, space.ideal, space.reference, space.weights))
    valid, objectives, ideal, reference, weights = held
    there = np.flatnonzero(valid)
    values = objectives.reshape(-1, objectives.shape[-1])[there].astype(float)
    out = np.zeros(valid.shape, bool)
    if there.size:
        front = emo.distinct_front(values)
        few = representatives(values[front], 0.0, (ideal, reference), config, weights)
        out.reshape(-1)[there[front[few]]] = True
    return out


def _in_batches(
    program: Callable[..., Any], size: int, most: int | None, arrays: Any, rest: tuple[Any, ...]
) -> Iterator[tuple[Any, Any]]:
    """Runs a program on arrays `[n, ...]` and the rest in padded batches of one size; yields each batch and its result.

    Without rows, one batch of zeros is run if `most` is given; the batch and the result that are yielded are empty.
    """
    total = len(jax.tree.leaves(arrays)[0])

    def padded(leaf: np.ndarray) -> np.ndarray:
        return np.pad(leaf, ((0, size - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)))

    for first in range(0, total if most is None else max(total, 1), size)[:most]:
        batch = take(arrays, slice(first, first + size))
        found = jax.device_get(program(*jax.tree.map(padded, batch), *rest))
        yield batch, take(found, slice(min(size, total - first)))


def _candidates(
    archive: emo.Archive,
    still: jax.Array,
    tables: tuple[Arrangements, ...],
    space: DesignSpace,
    objectives: tuple[str, ...],
    most: int | None,
) -> tuple[np.ndarray, Move]:
    """Rows `[n]` among `still` `[I, K]`, and moves `[n, ...]` whose result may dominate the design of the row."""
    rows, moves = _entries(archive, still, space, objectives, most)
    parts: list[Any] = []
    for _, found in _in_batches(_some_sized, _TRIED, most, (rows, moves), (archive, space)):
        parts.append(found)
    rows, moves = take((rows, moves), slice(sum(len(part.number) for part in parts)))
    sized = jax.tree.map(lambda *x: np.concatenate(x), *parts)
    own = np.asarray(archive.objectives).reshape(-1, archive.objectives.shape[-1])[rows]
    program = functools.partial(_some_arranged, objectives=objectives)
    chosen_rows, chosen_moves, least = [rows[:0]], [take(moves, slice(0))], 0
    for table in tables:
        largest = table.place_group.shape[1]
        some = np.flatnonzero((least < sized.number) & (sized.number <= largest))
        least = largest
        for (entry, *_), (chosen, place) in _in_batches(
            lambda _, *rest: program(*rest), _ENTRIES, most, (some, *take((sized, own), some)), (table, space)
        ):
            k, arrangement = np.nonzero(chosen)
            places: Any = place[k, arrangement].astype(np.int32)
            chosen_rows.append(rows[entry[k]])
            chosen_moves.append(dataclasses.replace(take(moves, entry[k]), place=places))
    return np.concatenate(chosen_rows), jax.tree.map(lambda *x: np.concatenate(x), *chosen_moves)


def _entries(
    archive: emo.Archive, still: jax.Array, space: DesignSpace, objectives: tuple[str, ...], most: int | None
) -> tuple[np.ndarray, Move]:
    """Rows among `still` `[I, K]`, each with an empty move and with every way to give a chiplet up; places stay."""
    tiles = space.genetics.on_tile.shape[0]
    open_rows = np.flatnonzero(np.asarray(still)).astype(np.int32)
    rows, moves = [open_rows], [np.broadcast_to(np.asarray([[-1], [0], [0]], np.int32), (3, len(open_rows)))]
    program = functools.partial(_some_mergers, objectives=objectives)
    for (own,), mergers in _in_batches(program, _ROWS, most, (open_rows,), (archive, space)):
        row, *move = np.nonzero(mergers)
        rows.append(own[row])
        moves.append(np.asarray(move, np.int32).reshape(3, -1))
    source, target, weight = np.concatenate(moves, axis=1)
    place: Any = np.broadcast_to(np.arange(tiles, dtype=np.int32), (len(source), tiles))
    fields: dict[str, Any] = {"source": source, "target": target, "weight": weight, "place": place}
    return np.concatenate(rows), Move(**fields)


def _round(
    archive: emo.Archive, closed: jax.Array, rows: np.ndarray, moves: Move, tried: np.ndarray, space: DesignSpace
) -> tuple[emo.Archive, jax.Array, int]:
    """The archives after a round, which of their designs have no move left, and how many were replaced.

    Args:
        archive: before the round.
        closed: `[I, K]` bool, designs that have been tried in this round or before.
        rows: `[n]` int, row of the design of each move.
        moves: `[n, ...]`, the moves tried.
        tried: `[n, M]`, objectives of their results.
        space: the problem.
    """
    slots = archive.valid.shape
    slot, better = _dominating(rows, tried, np.asarray(archive.objectives).reshape(-1, tried.shape[1]))

    def spread(values: np.ndarray) -> np.ndarray:
        out = np.zeros((math.prod(slots), *values.shape[1:]), values.dtype)
        out[slot] = values[better]
        return out.reshape(*slots, *values.shape[1:])

    mask, moves, tried = jax.tree.map(spread, (np.ones(len(tried), bool), moves, tried))
    archive, closed = _replaced(archive, closed, mask, moves, tried, space)
    return archive, closed, len(slot)


def _dominating(rows: np.ndarray, tried: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows `[n]` of dominated designs, each once, and the index `[n]` in `tried` of the best that dominates each.

    Args:
        rows: `[K]` int, row from which each tried design came.
        tried: `[K, M]`, objectives of the tried designs.
        own: `[rows, M]`, objectives of the designs at the rows.
    """
    before = own[rows]
    good = np.asarray(emo.feasible(tried)) & (tried <= before * (1 + NO_WORSE)).all(axis=1)
    good &= (tried < before * (1 - BETTER)).any(axis=1)
    index = np.flatnonzero(good)
    gain = np.log(np.maximum(tried[index], np.finfo(tried.dtype).tiny)).sum(axis=1, dtype=np.float64)
    index = index[np.argsort(gain, kind="stable")]
    slot, first = np.unique(rows[index], return_index=True)
    return slot, index[first]
