"""List schedules: good initial individuals, and a baseline (docs/concepts/designs.md).

On a fixed package, layers are taken by upward rank (longest remaining path, mean durations; HEFT) or, among those
whose predecessors have been taken, the longest first (LPT-EFT), and each goes to the chiplet where it would end first.
Ties go to layers of the network with less work, so that it is ready earlier. One rule decides which mapping each layer
takes on a template: the best in one objective among the mappings whose own hardware is no larger than a cap. A chiplet
is as large as its largest mapping, so it is small only if all its layers keep to a cap. Runs on the host once, before
the search, all schedules side by side.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.problem.resolved import ResolvedRequirements
from mohamjax.schedule import isolated_cycles
from mohamjax.schedule.setup import Setup

PRIORITIES = ("heft", "lpt")
"""Orders in which layers are taken: by upward rank, or the longest ready layer first."""

_BLOCK = 2048
"""Schedules that are computed side by side."""

_CAPS = 12
"""Number of caps on the area of a mapping's own hardware, spread evenly on a log axis."""


def seed_packages(templates: int, tiles: int, runs_all: Any, sizes: Sequence[int] = ()) -> list[tuple[int, ...]]:
    """Packages to schedule on: homogeneous, of two templates and of all, from one chiplet to a full package.

    Args:
        templates: T.
        tiles: S, most chiplets.
        runs_all: `[T]` bool, the template runs every layer; where no member of a mix does, such a template replaces
            the last chiplet.
        sizes: further numbers of chiplets.

    Returns:
        Template of each chiplet, per package.
    """
    sizes = [n for n in sorted({1, 2, 3, 4, 6, 8, 12, 16, 24, 32, tiles, *sizes}) if 1 <= n <= tiles]
    helper = next((t for t in range(templates) if runs_all[t]), None)
    packages: list[tuple[int, ...]] = []
    every = range(templates)
    mixes = [*itertools.combinations(every, 1), *itertools.combinations(every, 2), tuple(every)]
    for size, members in itertools.product(sizes, dict.fromkeys(mixes)):
        if len(members) > size:
            continue
        package = [members[i % len(members)] for i in range(size)]
        if not any(runs_all[t] for t in members) and helper is not None:
            package[-1] = helper
        packages.append(tuple(package))
    return list(dict.fromkeys(packages))


def size_caps(area: np.ndarray, low: float, high: float, count: int) -> np.ndarray:
    """`[count]` float, caps on hardware area in um^2, spread evenly on a log axis.

    Args:
        area: of all mappings, um^2.
        low: the least cap; where that is 0, the least area above 0 takes its place.
        high: the largest cap; all are 0 where it is 0.
        count: number of caps.
    """
    if high <= 0:
        return np.zeros(count)
    low = low if low > 0 else area[area > 0].min()
    return np.geomspace(low, max(high, low), count)


@dataclasses.dataclass(frozen=True)
class Plans:
    """List schedules, B of them; L layers, S chiplets of the largest package.

    Attributes:
        package: `[B, S]` int32, template of each chiplet, -1 after the last.
        order: `[B, L]` int32, layers by priority.
        tile: `[B, L]` int32, chiplet of each layer.
        mapping: `[B, L]` int32, mapping of each layer.
        estimate: `[B, 3]` float, latency [cycles], energy [pJ] and area [um^2]; contention, the package and the extra
            cost of running on a chiplet larger than a mapping needs are left out.
    """

    package: np.ndarray
    order: np.ndarray
    tile: np.ndarray
    mapping: np.ndarray
    estimate: np.ndarray

    def __len__(self) -> int:
        return len(self.order)

    @staticmethod
    def joined(several: Sequence[Plans]) -> Plans:
        """All schedules together; their packages must have equally many tiles."""
        names = [f.name for f in dataclasses.fields(Plans)]
        return Plans(**{name: np.concatenate([getattr(plans, name) for plans in several]) for name in names})


@dataclasses.dataclass(frozen=True)
class ListScheduler:
    """What list scheduling needs, as NumPy arrays.

    Attributes:
        unique: `[L]` int, unique layer of each layer.
        network: `[L]` int, network of each layer.
        predecessors: per layer, its direct predecessors.
        able: `[L, T]` bool, templates that a layer may run on.
        pin: `[L]` int, the one chiplet of the package that a layer may run on, -1 where it is free.
        count: `[U, T]` int, size of each Pareto set.
        objectives: `[U, T, M, 3]` float, latency, energy and area of each entry.
        duration: `[U, T, M]` float, cycles of each entry alone on its memory interface.
    """

    unique: np.ndarray
    network: np.ndarray
    predecessors: Sequence[Sequence[int]]
    able: np.ndarray
    pin: np.ndarray
    count: np.ndarray
    objectives: np.ndarray
    duration: np.ndarray

    @property
    def _valid(self) -> np.ndarray:
        return np.arange(self.objectives.shape[2]) < self.count[..., None]

    def choose(self, objective: int, cap: float) -> np.ndarray:
        """`[U, T]` int32, the best mapping in one objective (0 latency with off-chip limits, 1 energy, 2 area).

        Only mappings whose own hardware is no larger than `cap` [um^2] are considered; where there is none, the
        smallest mapping is taken. Ties go to the smaller hardware.
        """
        area = np.where(self._valid, self.objectives[..., 2], np.inf)
        value = self.duration if objective == 0 else self.objectives[..., objective]
        value = np.where(self._valid & (area <= cap), value, np.inf)
        value = np.where(np.isinf(value).all(axis=-1, keepdims=True), area, value)
        tied = value <= value.min(axis=-1, keepdims=True)
        return np.argmin(np.where(tied, area, np.inf), axis=-1).astype(np.int32)

    def caps(self) -> np.ndarray:
        """`[_CAPS]` float, caps in um^2, from the area that the most demanding layer needs to the largest mapping's."""
        area = self.objectives[..., 2]
        least = np.where(self._valid, area, np.inf).min(axis=2)
        low = least.min(axis=1).max()
        high = np.where(self._valid, area, 0.0).max()
        return size_caps(area[self._valid], low, high, _CAPS)

    def rules(self) -> list[np.ndarray]:
        """Choices of mappings, each `[U, T]`: the fastest and the most frugal under every cap, and the smallest."""
        named = [(objective, cap) for cap in self.caps() for objective in (0, 1)] + [(2, np.inf)]
        return [self.choose(*rule) for rule in named]

    def plans(self, packages: Sequence[tuple[int, ...]], priority: str = "heft") -> Plans:
        """List schedules under every rule for the mappings, on those of the packages that run every layer.

        Args:
            packages: template of each chiplet, per package.
            priority: one of `PRIORITIES`.
        """
        rules = np.stack(list({c.tobytes(): c for c in self.rules()}.values()))
        good = [package for package in packages if self.able[:, list(package)].any(axis=1).all()]
        template = np.full((len(good), max(map(len, good), default=0)), -1, np.int32)
        for row, package in zip(template, good, strict=True):
            row[: len(package)] = package
        which, rule = (x.ravel() for x in np.indices((len(good), len(rules))))
        # In blocks, to save memory; an empty block gives the shapes where there is no package.
        blocks = [slice(i, i + _BLOCK) for i in range(0, max(len(rule), 1), _BLOCK)]
        return Plans.joined([self.schedule(template[which[b]], rules, rule[b], priority) for b in blocks])

    def schedule(self, template: np.ndarray, rules: np.ndarray, rule: np.ndarray, priority: str = "heft") -> Plans:
        """List schedules on fixed packages that can run every layer, all side by side.

        Args:
            template: `[B, S]` int, template of each chiplet, -1 where there is none.
            rules: `[C, U, T]` int, mapping of each unique layer on each template under each rule.
            rule: `[B]` int, the rule of each schedule.
            priority: one of `PRIORITIES`.
        """
        rows, chiplets = template.shape
        if not rows:
            none = np.zeros((0, len(self.unique)), np.int32)
            return Plans(package=template, order=none, tile=none, mapping=none, estimate=np.zeros((0, 3)))
        layers, batch = len(self.unique), np.arange(rows)
        templates = self.able.shape[1]
        duration = np.take_along_axis(self.duration, rules.transpose(1, 2, 0), axis=2)  # [U, T, C]
        # A last column stands for missing chiplets (index -1), and a last layer for missing predecessors.
        able = np.pad(self.able, ((0, 0), (0, 1)))
        duration = np.pad(duration, ((0, 0), (0, 1), (0, 0)), constant_values=np.inf)
        before = padded_rows(self.predecessors, layers, layers)
        order = self._order(template, duration[:, :templates], rule, priority)
        free = np.zeros((rows, chiplets))
        end = np.zeros((rows, layers + 1))
        tile = np.zeros((rows, layers), np.int32)
        for layer in order.T:
            possible = able[layer[:, None], template]
            pin = self.pin[layer, None]
            possible &= (pin < 0) | (pin == np.arange(chiplets))
            times = np.where(possible, duration[self.unique[layer, None], template, rule[:, None]], np.inf)
            ready = end[batch[:, None], before[layer]].max(axis=1, initial=0.0)
            finish = np.maximum(free, ready[:, None]) + times
            place = np.argmin(finish, axis=1)
            tile[batch, layer] = place
            end[batch, layer] = free[batch, place] = finish[batch, place]
        own = np.take_along_axis(template, tile, axis=1)
        mapping = rules[rule[:, None], self.unique, own].astype(np.int32)
        cost = self.objectives[self.unique, own, mapping]
        area = sum(np.where(tile == s, cost[..., 2], 0.0).max(axis=1) for s in range(chiplets))
        estimate = np.stack([end.max(axis=1), cost[..., 1].sum(axis=1), np.broadcast_to(area, rows)], axis=1)
        return Plans(package=template, order=order, tile=tile, mapping=mapping, estimate=estimate)

    def _order(self, template: np.ndarray, duration: np.ndarray, rule: np.ndarray, priority: str) -> np.ndarray:
        """`[B, L]` int32, layers by priority, from their mean durations `[U, T, C]` over the chiplets that run them."""
        templates = self.able.shape[1]
        # Chiplets of each template that a layer may run on: all of the package, or the one it is pinned to.
        seats = (template[:, :, None] == np.arange(templates)).sum(axis=1)
        pinned = self.pin >= 0
        weight = np.where(self.able, seats[:, None, :], 0.0)
        weight[:, pinned] = self.able[pinned] & (template[:, self.pin[pinned], None] == np.arange(templates))
        times = np.where(self.able[..., None], duration[self.unique], 0.0)  # [L, T, C]
        total = np.zeros(weight.shape[:2])
        for t in range(templates):
            total += weight[..., t] * times[:, t, rule].T
        mean = total / weight.sum(axis=2)
        return self.by_upward_rank(mean) if priority == "heft" else self.by_longest_ready(mean)

    def by_longest_ready(self, duration: np.ndarray) -> np.ndarray:
        """`[B, L]` int32, layers so that the next is always the longest of those whose predecessors have been taken.

        Ties go to the network with less work, then to the first layer.

        Args:
            duration: `[B, L]` float, of each layer.
        """
        work = self._work(duration)
        rows, layers = duration.shape
        batch = np.arange(rows)
        followers: list[list[int]] = [[] for _ in range(layers)]
        for layer, before in enumerate(self.predecessors):
            for p in set(before):
                followers[p].append(layer)
        after = padded_rows(followers, layers, layers)
        waiting = np.append([len(set(before)) for before in self.predecessors], layers)  # the last is for padding
        waiting = np.broadcast_to(waiting, (rows, layers + 1)).copy()
        order = np.zeros((rows, layers), np.int32)
        for place in range(layers):
            length = np.where(waiting[:, :layers] == 0, duration, -np.inf)
            tied = length == length.max(axis=1, keepdims=True)
            layer = np.argmin(np.where(tied, work, np.inf), axis=1)
            order[:, place] = layer
            waiting[batch, layer] = -1
            waiting[batch[:, None], after[layer]] -= 1
        return order

    def by_upward_rank(self, duration: np.ndarray) -> np.ndarray:
        """`[B, L]` int32, layers by falling longest remaining path, in topological order, from durations `[B, L]`.

        Where paths are equally long, layers of the network with less work come first.
        """
        rank = duration.astype(float)
        depth = np.zeros(rank.shape[1], int)
        # Layers are numbered in a topological order, so that one pass from the end sees successors first.
        for layer in range(rank.shape[1] - 1, -1, -1):
            for p in self.predecessors[layer]:
                rank[:, p] = np.maximum(rank[:, p], duration[:, p] + rank[:, layer])
                depth[p] = max(depth[p], depth[layer] + 1)
        # Equal ranks (zero durations) fall back on the depth, so that dependencies are always kept.
        number = np.broadcast_to(np.arange(rank.shape[1]), rank.shape)
        keys = number, np.broadcast_to(-depth, rank.shape), self._work(duration), -rank
        return np.lexsort(keys).astype(np.int32)

    def _work(self, duration: np.ndarray) -> np.ndarray:
        """`[B, L]` float, for each layer the sum of the durations `[B, L]` of its network."""
        networks = range(self.network.max(initial=-1) + 1)
        # Summed in a fixed order, so that equal networks tie: matrix products round differently on other machines.
        sums = [np.ascontiguousarray(duration[:, self.network == n]).sum(axis=1) for n in networks]
        return np.stack(sums, axis=1)[:, self.network] if sums else duration


def padded_rows(rows: Sequence[Sequence[int]], length: int, filler: int) -> np.ndarray:
    """Ragged rows as `[length, longest]` int32, padded with `filler`."""
    out = np.full((length, max([1, *map(len, rows)])), filler, np.int32)
    for row, values in zip(out, rows, strict=False):
        row[: len(values)] = values
    return out


def list_scheduler(setup: Setup, tables: MappingTables, resolved: ResolvedRequirements) -> ListScheduler:
    """The list scheduler of an application and its tables, under the requirements."""
    application = setup.application
    unique = np.asarray(application.unique_of_layer)
    able = np.asarray(tables.count)[unique] > 0
    seats = np.full(len(resolved.tiles) + 1, -1)  # number of the fixed chiplet on each tile; index -1 gives -1
    seats[resolved.fixed] = np.arange(len(resolved.fixed))
    return ListScheduler(
        unique=unique,
        network=np.asarray(application.network_of_layer),
        predecessors=[layer.predecessors for layer in application.layers],
        able=able & resolved.allowed,
        pin=seats[resolved.pin],
        count=np.asarray(tables.count),
        objectives=np.asarray(tables.objectives, np.float64),
        duration=isolated_cycles(tables, setup.package),
    )
