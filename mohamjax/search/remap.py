"""Maps layers again on chiplets of the front that a search has found; mappings that are better there join the sets.

The mapper's Pareto sets weigh latency, energy and area. On a chiplet of a front, with its own buffers and mesh, another
mapping may be better although it needs no less area. So layers are mapped once more on chiplets of the front, and
mappings that are better there than all of a set are appended to it: existing designs do not change.

Axes: N designs, S tiles, V levels, U unique layers, T templates, M mappings of a set, K chiplets that are mapped on,
W weights.
"""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo.loop import SearchState
from mohamjax.hardware import PackageParameters, Template
from mohamjax.mapper.config import MapperConfig, MapperProgress
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapper.problems import largest_children_room
from mohamjax.mapping import Mapping, MappingTables, stacked_layers, tabulate, tabulate_sets
from mohamjax.mapping.tables import entries_of
from mohamjax.problem.plan_tables import WEIGHTS, mapping_scores, plan_tables
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.devices import Devices, agreed
from mohamjax.runtime.struct import take
from mohamjax.schedule import (
    Chiplets,
    Design,
    EvaluationArrays,
    chiplets,
    evaluation_arrays,
    isolated_cycles,
    uncontended,
)
from mohamjax.schedule.setup import Setup
from mohamjax.search.config import Settings

_LEAST_GAIN = 1e-3
"""A mapping joins a set if it lowers the logarithm of a score on some chiplet by more than this."""

_POLISHED = 1e-4
"""Share by which a round of polishing must raise the hypervolume for another round to follow."""


@dataclasses.dataclass(frozen=True)
class ChipletSample:
    """Chiplets to map on, and the layers that run there.

    Attributes:
        template: `[K]` int, template of each chiplet.
        capacity: `[K, V]` float, words per instance of every level.
        fanout: `[K, V, 2]` float, of every level in X and Y.
        runs: `[U, K]` bool, unique layers that run on the chiplet or on one that it stands for.
    """

    template: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray
    runs: np.ndarray


_chiplets = jax.jit(jax.vmap(chiplets, in_axes=(0, None)))


def chiplets_of(designs: Design, which: np.ndarray, evaluation: EvaluationArrays, count: int) -> ChipletSample:
    """Few chiplets that stand for all chiplets of some designs.

    Chiplets are points: the logarithms of their capacities and fanouts, with different templates far apart. The points
    are clustered around centres chosen by farthest-first traversal (Gonzalez, 1985); of each cluster, the chiplet
    nearest to the mean is taken.

    Args:
        designs: `[N, ...]`, NumPy arrays.
        which: `[n]` int, designs whose chiplets are used; all are evaluated, so that one program serves any number.
        evaluation: the arrays that the evaluation reads.
        count: K, most chiplets that are taken.
    """
    made: Chiplets = take(jax.device_get(_chiplets(designs, evaluation)), which)
    designs = take(designs, which)
    row, tile = np.nonzero(made.occupied)
    template, capacity, fanout = (np.asarray(x)[row, tile] for x in (designs.template, made.capacity, made.fanout))
    unique, mask = np.asarray(evaluation.unique), np.asarray(evaluation.layer_mask)
    runs = np.zeros((*made.occupied.shape, evaluation.tables.count.shape[0]), bool)
    d, layer = np.nonzero(np.broadcast_to(mask, designs.assignment.shape))
    runs[d, designs.assignment[d, layer], unique[layer]] = True
    sizes = np.concatenate([capacity, fanout.reshape(len(fanout), -1)], axis=1)
    sizes = np.log2(np.where(np.isfinite(sizes) & (sizes > 0), sizes, 1.0))
    apart = sizes.max(axis=0).sum() + 1.0
    points = np.concatenate([sizes, apart * np.eye(int(template.max()) + 1)[template]], axis=1)
    owner, chosen = _clusters(points, count)
    together = np.stack([runs[row, tile][owner == k].any(axis=0) for k in range(len(chosen))], axis=1)
    return ChipletSample(template=template[chosen], capacity=capacity[chosen], fanout=fanout[chosen], runs=together)


def _clusters(points: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`[n]` int, cluster of each point `[n, F]`; `[K]` int, K <= `count`, the point nearest to each cluster's mean."""

    def squares(centre: np.ndarray, points: np.ndarray = points) -> np.ndarray:
        return ((points - centre) ** 2).sum(axis=1)

    centres = [int(np.argmin(squares(points.mean(axis=0))))]
    owner = np.zeros(len(points), int)
    nearest = squares(points[centres[0]])
    while len(centres) < count and nearest.max() > 0:
        centres.append(int(np.argmax(nearest)))
        distance = squares(points[centres[-1]])
        owner = np.where(distance < nearest, len(centres) - 1, owner)
        nearest = np.minimum(nearest, distance)
    members = [np.flatnonzero(owner == k) for k in range(len(centres))]
    return owner, np.asarray([own[np.argmin(squares(points[own].mean(axis=0), points[own]))] for own in members])


def _made(template: Template, capacity: np.ndarray, fanout: np.ndarray, name: str) -> Template:
    """A template whose chiplets all have these sizes."""
    levels = []
    for level, words, (x, y) in zip(template.levels, capacity, fanout, strict=False):
        most = None if level.capacity_words is None else min(level.capacity_words, int(words))
        levels.append(dataclasses.replace(level, capacity_words=most, fanout=(int(x), int(y))))
    return dataclasses.replace(template, name=name, levels=tuple(levels), sizes="fixed")


def with_room(tables: MappingTables, entries: int) -> MappingTables:
    """The tables with at least `entries` places per set, NumPy arrays: shapes then stay the same when sets grow."""
    missing = entries - np.shape(tables.cycles)[2]
    tables = jax.tree.map(np.asarray, tables)
    if missing <= 0:
        return tables

    def more(leaf: np.ndarray) -> np.ndarray:
        # Padding repeats the first entry, so that it is a valid nest; its figures are set below.
        return np.concatenate([leaf, np.repeat(leaf[:, :, :1], missing, axis=2)], axis=2)

    columns = jax.tree.map(more, entries_of(tables))
    for name, leaf in columns.items():
        if name != "mapping":
            leaf[:, :, -missing:] = np.inf if name == "objectives" else 0
    return MappingTables(count=tables.count, **columns)


def map_again(
    key: jax.Array,
    sample: ChipletSample,
    setup: Setup,
    tables: MappingTables,
    config: MapperConfig,
    *,
    room: int | np.ndarray,
    max_children: int = 0,
    progress: Callable[[MapperProgress], None] | None = None,
    devices: Devices | None = None,
) -> tuple[MappingTables, int]:
    """Maps layers on given chiplets; mappings that are better there than all of a set join it.

    Args:
        key: typed key, consumed.
        sample: the chiplets.
        setup: the networks, whose unique layers are mapped, and the hardware.
        tables: sets of mappings so far, with padding to grow into (`with_room`).
        config: settings of the mapper; with 0 generations it descends from the mappings of the sets instead.
        room: most mappings that join a set, one number or `[U, T]` int.
        max_children: see `LayerMapper`; that of an earlier call, to share its programs.
        progress: see `LayerMapper`.
        devices: see `LayerMapper`.

    Returns:
        The tables, and how many mappings joined.
    """
    layers, templates, package = setup.application.unique_layers, setup.templates, setup.package
    made = [
        _made(templates[t], capacity, fanout, f"{templates[t].name}@{k}")
        for k, (t, capacity, fanout) in enumerate(zip(sample.template, sample.capacity, sample.fanout, strict=True))
    ]
    tables = jax.tree.map(np.array, tables)  # they are written to
    levels, dtype = tables.capacity.shape[3], tables.cycles.dtype
    mapper = LayerMapper(
        layers, made, setup.technology, config,
        levels=levels, max_children=max_children, dtype=dtype, progress=progress, devices=devices,
        whole_arrays=False,
    )  # fmt: skip
    if config.generations:
        found = mapper.search(key, wanted=sample.runs)
    else:
        found = mapper.descend(key, best_known(tables, sample, package), wanted=sample.runs)

    most = np.broadcast_to(room, tables.count.shape)
    new, u, t = _best_on_each(found, sample.template, setup)
    joined = 0
    for layer, template in np.unique(np.stack([u, t], axis=1), axis=0):
        rows = np.flatnonzero((u == layer) & (t == template))
        begin = int(tables.count[layer, template])
        places = min(int(most[layer, template]), tables.cycles.shape[2] - begin)
        known = jax.tree.map(lambda leaf, n=begin, at=(layer, template): leaf[at][:n], entries_of(tables))
        here = sample.template == template
        helping = that_help(take(new, rows), known, sample.capacity[here], sample.fanout[here], package)
        for place, row in enumerate(rows[helping[:places]], start=begin):
            for column, value in zip(jax.tree.leaves(entries_of(tables)), jax.tree.leaves(new), strict=True):
                column[layer, template, place] = value[row]
            tables.count[layer, template] += 1
            joined += 1
    return tables, joined


def _scores(
    entries: dict[str, Any], capacity: np.ndarray, fanout: np.ndarray, package: PackageParameters
) -> np.ndarray:
    """Scores of n mappings of a layer on chiplets under each weight, `[n, K, W]`; inf where one does not fit.

    Args:
        entries: columns of the mappings `[n, ...]` by name.
        capacity: `[K, V]`, of the chiplets.
        fanout: `[K, V, 2]`, of the chiplets.
        package: package parameters.
    """
    fits = (entries["capacity"][:, None] <= capacity).all(axis=-1)
    fits &= (entries["fanout"][:, None] <= fanout).all(axis=(-2, -1))
    time = uncontended(entries["cycles"], entries["offchip_bytes"], package)
    found = np.stack(mapping_scores(time, entries["objectives"][:, 1]), axis=-1)
    return np.where(fits[..., None], found[:, None], np.inf)


def best_known(
    tables: MappingTables, sample: ChipletSample, package: PackageParameters
) -> dict[tuple[int, int], list[Mapping]]:
    """For every layer and chiplet that it runs on, the mappings of its set that are best there under some weight.

    By (index of the layer, index of the chiplet), for `LayerMapper.descend`. Empty where no mapping fits: the layer
    then runs on a larger chiplet that this one stands for.
    """
    out = {}
    # With fewer chiplets than templates, one may stand for chiplets of other templates: not all sets exist.
    for u, k in zip(*np.nonzero(sample.runs & (tables.count[:, sample.template] > 0)), strict=True):
        at = u, sample.template[k]
        known = jax.tree.map(lambda leaf, n=tables.count[at], at=at: leaf[at][:n], entries_of(tables))
        score = _scores(known, sample.capacity[k : k + 1], sample.fanout[k : k + 1], package)[:, 0]
        best = {int(i) for i in score.argmin(axis=0)}
        out[int(u), int(k)] = [take(known["mapping"], i) for i in sorted(best) if np.isfinite(score[i]).all()]
    return out


def _best_on_each(
    found: MappingTables, kind: np.ndarray, setup: Setup
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """The best mapping of every layer on each chiplet under each weight, evaluated on the mapping's own hardware.

    Args:
        found: sets over the chiplets, `[U, K, ...]`.
        kind: `[K]` int, template of each chiplet.
        setup: networks and hardware.

    Returns:
        Columns `[n, ...]` by name as in the tables, and the layer and the template of each entry, `[n]` int.
    """
    energy = np.where(found.exists, np.asarray(found.objectives)[..., 1], np.inf)
    score = np.stack(mapping_scores(isolated_cycles(found, setup.package), energy))  # [W, U, K, M]
    u, k = np.nonzero(np.asarray(found.count) > 0)
    best = score.argmin(axis=3)[:, u, k].reshape(-1)
    u, k = np.tile(u, len(WEIGHTS)), np.tile(k, len(WEIGHTS))
    u, k, best = np.unique(np.stack([u, k, best]), axis=1)
    t = kind[k]
    levels, dtype = found.capacity.shape[3], np.asarray(found.cycles).dtype
    arrays = jax.device_get(setup.machines(levels, dtype))
    shapes = jax.device_get(stacked_layers(layer.shape for layer in setup.application.unique_layers))
    nests = jax.tree.map(lambda leaf: np.asarray(leaf)[u, k, best][:, None], found.mapping)
    table = tabulate_sets(take(shapes, u), take(arrays, t), setup.technology, nests, np.ones(len(u), int))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:, 0], entries_of(table)), u, t


def that_help(
    new: dict[str, Any], known: dict[str, Any], capacity: np.ndarray, fanout: np.ndarray, package: PackageParameters
) -> np.ndarray:
    """Which of the new mappings of one layer and template lower some score on some chiplet, the most useful first.

    Takes them one by one, each time the one that lowers a score most, compared with the set and those taken so far.

    Args:
        new: columns of n new entries by name.
        known: columns of the set by name.
        capacity: `[K, V]`, of the chiplets of the template.
        fanout: `[K, V, 2]`, of the chiplets of the template.
        package: package parameters.

    Returns:
        Indices of those that help, int.
    """

    best = _scores(known, capacity, fanout, package).min(axis=0, initial=np.inf)
    score = _scores(new, capacity, fanout, package)
    taken: list[int] = []
    while len(taken) < len(score):
        fits = np.isfinite(score)
        gain = np.where(fits, best - np.where(fits, score, 0.0), -np.inf).max(axis=(1, 2))
        row = int(np.argmax(gain))
        if gain[row] <= _LEAST_GAIN:
            break
        taken.append(row)
        best = np.minimum(best, score[row])
    return np.asarray(taken, int)


class Remapper:
    """Rounds of mapping again for one search.

    Attributes:
        config: how often layers are mapped again, and how much.
        schedule: generations that must be done before each of the rounds.
        end: generations of the search, including those after the last rounds.
        tables: the tables so far, with room to grow.
        rounds: rounds done.
    """

    def __init__(
        self,
        key: jax.Array,
        setup: Setup,
        settings: Settings,
        tables: MappingTables,
        progress: Callable[[MapperProgress], None] | None = None,
        devices: Devices | None = None,
    ) -> None:
        """Makes room in the tables.

        Args:
            key: typed key of all rounds.
            setup: networks and hardware, the technology in single precision.
            settings: of the search.
            tables: those of the layer mapper.
            progress: called with the progress of a round.
            devices: of the search; where they belong to several processes, the first one maps for all.
        """
        config, generations = settings.remap, settings.moham.generations
        self._devices = devices
        self.config, self.rounds = config, 0
        self._built: DesignSpace | None = None
        self._searching = list(range(config.every, generations, config.every)) if config.every else []
        self.schedule = [*self._searching, *(generations + i * config.settle for i in range(config.polish))]
        self.end = generations + config.polish * config.settle
        self._first = self.tables = with_room(tables, np.shape(tables.cycles)[2] + config.entries)
        self._key, self._setup, self._progress = key, setup, progress
        levels = np.shape(tables.capacity)[3]
        # The room of the mapper's own programs, so that rounds reuse these.
        self._max_children = largest_children_room(
            setup.application.unique_layers, setup.templates, setup.technology, levels
        )
        self._mapper = dataclasses.replace(settings.mapper, generations=config.generations, descent=config.descent)

    def most_rounds(self, generation: int) -> int:
        """Most rounds of a search that has run to `generation`; it may have been longer than this one."""
        every = self.config.every
        return max(len(self.schedule), (generation // every if every else 0) + self.config.polish)

    def due(self, generation: int) -> bool:
        """Whether a round is due after `generation` generations."""
        return self.rounds < len(self.schedule) and generation >= self.schedule[self.rounds]

    def until_next(self, generation: int) -> int:
        """Number of generations until the next round, or until the end."""
        return next((at - generation for at in self.schedule[self.rounds :]), self.end - generation)

    def settled(self, hypervolume: abc.Mapping[int, float]) -> bool:
        """Whether the last round of polishing raised the hypervolume too little for another one.

        Args:
            hypervolume: of the archive, by generation.
        """
        if self.rounds <= len(self._searching) or self.rounds >= len(self.schedule):
            return False
        before, after = (hypervolume.get(at, np.inf) for at in self.schedule[self.rounds - 1 : self.rounds + 1])
        return after < before * (1 + _POLISHED) < np.inf

    def grown(self, state: SearchState, space: DesignSpace) -> DesignSpace:
        """Runs a round on chiplets of the archives' designs.

        Args:
            state: of a search of plans.
            space: its problem over the tables so far.

        Returns:
            The problem over the tables, which may have grown; shapes, box and orders stay the same.
        """
        archive = jax.device_get(state.archive)
        designs = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), archive.genes.design)
        found = np.flatnonzero(archive.valid.reshape(-1))
        if len(found):
            sample = chiplets_of(designs, found, space.evaluation, self.config.chiplets)
            room = np.asarray(self._first.count) + self.config.entries - np.asarray(self.tables.count)
            self.tables, _ = agreed(
                lambda: map_again(
                    jax.random.fold_in(self._key, self.rounds), sample, self._setup, self.tables, self._mapper,
                    room=room, max_children=self._max_children, progress=self._progress, devices=self._devices,
                ),
                self._devices,
            )  # fmt: skip
        self.rounds, self._built = self.rounds + 1, None
        return self.space(space)

    def space(self, space: DesignSpace) -> DesignSpace:
        """The problem over the tables so far, built once per round; before the first round, `space` itself."""
        if self.rounds == 0:
            return space
        if self._built is not None:
            return self._built
        evaluation = evaluation_arrays(self._setup, self.tables)
        evaluation = dataclasses.replace(evaluation, frames=space.evaluation.frames)
        plans = plan_tables(self.tables, isolated_cycles(self.tables, self._setup.package), self._first)
        genetics = dataclasses.replace(space.genetics, count=jnp.asarray(self.tables.count))
        self._built = dataclasses.replace(space, genetics=genetics, evaluation=evaluation, plans=plans)
        return self._built

    def saved(self) -> dict[str, Any]:
        """What a checkpoint must hold: rounds done, sizes of the sets, and the mappings that joined."""
        return {
            "rounds": np.int32(self.rounds),
            "count": np.asarray(self.tables.count),
            "mapping": jax.tree.map(
                lambda leaf: np.take_along_axis(leaf, self._places(leaf), axis=2), self.tables.mapping
            ),
        }

    def _places(self, leaf: np.ndarray) -> np.ndarray:
        """`[U, T, entries, 1...]` int, places at which mappings join: after those that each set began with."""
        places = np.asarray(self._first.count)[..., None] + np.arange(self.config.entries)
        return places.reshape(*places.shape, *[1] * (leaf.ndim - 3))

    def restore(self, saved: dict[str, Any]) -> None:
        """Goes on from a result of `saved`."""
        saved = jax.tree.map(np.asarray, saved)
        tables = jax.tree.map(np.array, self._first)
        for leaf, own in zip(jax.tree.leaves(tables.mapping), jax.tree.leaves(saved["mapping"]), strict=True):
            np.put_along_axis(leaf, self._places(leaf), own, axis=2)
        levels, dtype = tables.capacity.shape[3], tables.cycles.dtype
        setup = self._setup
        layers = stacked_layers(layer.shape for layer in setup.application.unique_layers)
        grown = tabulate(layers, setup.machines(levels, dtype), setup.technology, tables.mapping, saved["count"])
        # The mapper's own entries stay the same to the bit.
        places = np.arange(tables.cycles.shape[2])
        new = (places >= np.asarray(self._first.count)[..., None]) & (places < saved["count"][..., None])
        for leaf, own in zip(jax.tree.leaves(entries_of(tables)), jax.tree.leaves(entries_of(grown)), strict=True):
            leaf[new] = own[new]
        self.tables = dataclasses.replace(tables, count=saved["count"])
        self.rounds, self._built = int(saved["rounds"]), None
