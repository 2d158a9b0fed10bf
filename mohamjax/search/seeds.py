"""List schedules: good first individuals, and a baseline (DESIGN section 7).

On a fixed package, layers are taken by upward rank (longest remaining path, mean durations; HEFT) or, among those
whose predecessors have been taken, the longest first (LPT-EFT), and each goes to the chiplet where it would end first.
Which mapping a layer takes on a template follows from one rule for all layers: the best in one objective among those
whose own hardware is no larger than a cap. A chiplet is as large as its largest mapping, so that a cap that all layers
keep is what makes small chiplets. Runs on the host once, before the search.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["PRIORITIES", "ListScheduler", "Plan", "seed_packages"]

PRIORITIES = ("heft", "lpt")
"""Orders in which layers are taken: by upward rank, or the longest of those that are ready."""

_CAPS = 12
"""Caps on the area of a mapping's own hardware, spread evenly on a log axis."""


def seed_packages(templates: int, tiles: int, runs_all: Any) -> list[tuple[int, ...]]:
    """Packages to schedule on: homogeneous, of two templates and of all, from one chiplet to a full package.

    Args:
        templates: T.
        tiles: S, most chiplets.
        runs_all: `[T]`, whether the template runs every layer; where no member of a mix does, one that does joins.

    Returns:
        Template of each chiplet, per package.
    """
    sizes = [n for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if n <= tiles]
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


@dataclasses.dataclass(frozen=True)
class Plan:
    """One list schedule.

    Attributes:
        package: template of each chiplet.
        order: `[L]` int32, layers by priority.
        tile: `[L]` int32, index into `package`.
        mapping: `[L]` int32.
        estimate: `[3]` float, latency [cycles], energy [pJ] and area [um^2] without contention, the package, and the
            cost of running on a chiplet larger than a mapping needs.
    """

    package: tuple[int, ...]
    order: np.ndarray
    tile: np.ndarray
    mapping: np.ndarray
    estimate: np.ndarray


@dataclasses.dataclass(frozen=True)
class ListScheduler:
    """What list scheduling needs, as NumPy arrays.

    Attributes:
        unique: `[L]` int, unique layer of each layer.
        predecessors: per layer, its direct predecessors.
        able: `[L, T]` bool, templates that a layer may run on.
        pin: `[L]` int, the one chiplet of the package that a layer may run on, -1 where it is free.
        count: `[U, T]` int, size of each Pareto set.
        objectives: `[U, T, M, 3]` float, latency, energy, area of each entry.
        duration: `[U, T, M]` float, cycles of each entry alone on its memory interface.
    """

    unique: np.ndarray
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

        Only mappings whose own hardware is no larger than `cap` [um^2] count; where there is none, the smallest does.
        Ties go to the smaller hardware.
        """
        area = np.where(self._valid, self.objectives[..., 2], np.inf)
        value = self.duration if objective == 0 else self.objectives[..., objective]
        value = np.where(self._valid & (area <= cap), value, np.inf)
        value = np.where(np.isinf(value).all(axis=-1, keepdims=True), area, value)
        tied = value <= value.min(axis=-1, keepdims=True)
        return np.argmin(np.where(tied, area, np.inf), axis=-1).astype(np.int32)

    def caps(self) -> np.ndarray:
        """Caps from the least hardware that any layer needs at all to that of the largest mapping, um^2."""
        area = self.objectives[..., 2]
        least = np.where(self._valid, area, np.inf).min(axis=2)
        low = least.min(axis=1).max()
        high = np.where(self._valid, area, 0.0).max()
        return np.geomspace(low, max(high, low), _CAPS)

    def rules(self) -> list[np.ndarray]:
        """Choices of mappings, each `[U, T]`: the fastest and the most frugal under every cap, and the smallest."""
        named = [(objective, cap) for cap in self.caps() for objective in (0, 1)] + [(2, np.inf)]
        return [self.choose(*rule) for rule in named]

    def plans(self, packages: Sequence[tuple[int, ...]], priority: str = "heft") -> list[Plan]:
        """List schedules under every rule for the mappings, on those packages that run every layer.

        Args:
            packages: templates of the chiplets of each.
            priority: one of `PRIORITIES`.
        """
        choices = list({c.tobytes(): c for c in self.rules()}.values())
        good = [package for package in packages if self.able[:, list(package)].any(axis=1).all()]
        return [self.schedule(package, chosen, priority) for package in good for chosen in choices]

    def schedule(self, package: tuple[int, ...], chosen: np.ndarray, priority: str = "heft") -> Plan:
        """One list schedule on a fixed package that can run every layer.

        Args:
            package: template of each chiplet.
            chosen: `[U, T]` int, mapping of each unique layer on each template.
            priority: one of `PRIORITIES`.
        """
        template = np.asarray(package)
        rows = self.unique[:, None], template[None, :], chosen[self.unique][:, template]
        able = self.able[:, template] & ((self.pin[:, None] < 0) | (self.pin[:, None] == np.arange(len(template))))
        times = np.where(able, self.duration[rows], np.inf)
        mean = np.nanmean(np.where(able, times, np.nan), axis=1)
        order = self.by_upward_rank(mean) if priority == "heft" else self.by_longest_ready(mean)
        free = np.zeros(len(template))
        end = np.zeros(len(self.unique))
        tile = np.zeros(len(self.unique), np.int32)
        for layer in order:
            ready = max((end[p] for p in self.predecessors[layer]), default=0.0)
            finish = np.maximum(free, ready) + times[layer]
            tile[layer] = place = int(np.argmin(finish))
            end[layer] = free[place] = finish[place]
        mapping = rows[2][np.arange(len(tile)), tile].astype(np.int32)
        cost = self.objectives[self.unique, template[tile], mapping]
        area = sum(cost[tile == place, 2].max() for place in np.unique(tile))
        estimate = np.asarray([end.max(), cost[:, 1].sum(), area])
        return Plan(package=package, order=order, tile=tile, mapping=mapping, estimate=estimate)

    def by_longest_ready(self, duration: np.ndarray) -> np.ndarray:
        """`[L]` int32, among the layers whose predecessors have been taken always the longest next."""
        waiting = [len(set(before)) for before in self.predecessors]
        followers: list[list[int]] = [[] for _ in waiting]
        for layer, before in enumerate(self.predecessors):
            for p in set(before):
                followers[p].append(layer)
        ready = [(-duration[layer], layer) for layer, left in enumerate(waiting) if not left]
        heapq.heapify(ready)
        order = []
        while ready:
            _, layer = heapq.heappop(ready)
            order.append(layer)
            for follower in followers[layer]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, (-duration[follower], follower))
        return np.asarray(order, np.int32)

    def by_upward_rank(self, duration: np.ndarray) -> np.ndarray:
        """`[L]` int32, layers by falling longest remaining path: a topological order."""
        rank = duration.astype(float).copy()
        depth = np.zeros(len(rank), int)
        # Layers are numbered in a topological order, so that one pass from the end sees successors first.
        for layer in range(len(rank) - 1, -1, -1):
            for p in self.predecessors[layer]:
                rank[p] = max(rank[p], duration[p] + rank[layer])
                depth[p] = max(depth[p], depth[layer] + 1)
        # Equal ranks (zero durations) fall back on the depth, so that dependencies are always kept.
        return np.lexsort((np.arange(len(rank)), -depth, -rank)).astype(np.int32)
