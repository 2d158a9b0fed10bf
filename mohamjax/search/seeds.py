"""List schedules: good first individuals, and a baseline (HEFT-like; DESIGN section 7).

On a fixed package, layers are taken by upward rank (longest remaining path, mean durations) and each goes to the
chiplet where it would end first. The mapping of a layer on a template is the one that a weighted sum of its scaled
objectives prefers. Runs on the host once, before the search.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from mohamjax.errors import InputError

__all__ = ["WEIGHTS", "ListScheduler", "seed_packages"]

WEIGHTS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 1.0, 1.0))
"""Weights of (latency, energy, area) that pick the mappings: fastest, most frugal, smallest, balanced."""


def seed_packages(templates: int, tiles: int, runs_all: Sequence[bool]) -> list[tuple[int, ...]]:
    """Packages to schedule on: homogeneous and mixed, from one chiplet to a full package.

    Args:
        templates: T.
        tiles: S, most chiplets.
        runs_all: `[T]`, whether the template runs every layer; where it does not, a chiplet that does joins.

    Returns:
        Template of each chiplet, per package; packages that cannot run every layer are left to the caller.
    """
    sizes = [n for n in (1, 2, 4, 8, 12, 16, 24, 32) if n <= tiles]
    helper = next((t for t in range(templates) if runs_all[t]), None)
    packages: list[tuple[int, ...]] = []
    for size, mix in itertools.product(sizes, range(1, 2**templates)):
        members = [t for t in range(templates) if mix >> t & 1]
        if len(members) > size:
            continue
        package = [members[i % len(members)] for i in range(size)]
        if not any(runs_all[t] for t in members) and helper is not None:
            package[-1] = helper
        packages.append(tuple(package))
    return list(dict.fromkeys(packages))


@dataclasses.dataclass(frozen=True)
class ListScheduler:
    """What list scheduling needs, as NumPy arrays.

    Attributes:
        unique: `[L]` int, unique layer of each layer.
        predecessors: per layer, its direct predecessors.
        count: `[U, T]` int, size of each Pareto set.
        objectives: `[U, T, M, 3]` float, latency, energy, area of each entry.
        duration: `[U, T, M]` float, cycles of each entry alone on its memory interface.
    """

    unique: np.ndarray
    predecessors: Sequence[Sequence[int]]
    count: np.ndarray
    objectives: np.ndarray
    duration: np.ndarray

    def choose(self, weights: Sequence[float]) -> np.ndarray:
        """`[U, T]` int32, the mapping that the weighted sum of the objectives, scaled to [0, 1], prefers."""
        valid = np.arange(self.objectives.shape[2]) < self.count[..., None]
        values = np.where(valid[..., None], self.objectives, np.nan)
        with np.errstate(all="ignore"):
            low = np.nanmin(np.where(np.isnan(values), np.inf, values), axis=2, keepdims=True)
            high = np.nanmax(np.where(np.isnan(values), -np.inf, values), axis=2, keepdims=True)
            scaled = (values - low) / np.where(high > low, high - low, 1.0)
        # A little of every objective breaks ties between equal values of the wanted ones.
        score = np.sum(scaled * (np.asarray(weights) + 1e-3), axis=-1)
        return np.argmin(np.where(valid, score, np.inf), axis=-1).astype(np.int32)

    def schedule(self, package: Sequence[int], weights: Sequence[float]) -> dict[str, np.ndarray]:
        """One list schedule on a fixed package.

        Args:
            package: template of each chiplet.
            weights: of (latency, energy, area) in the choice of mappings.

        Returns:
            `order` int32[L], `tile` int32[L] (index into `package`) and `mapping` int32[L].

        Raises:
            InputError: no chiplet of the package runs some layer.
        """
        template = np.asarray(package)
        chosen = self.choose(weights)
        able = self.count[self.unique][:, template] > 0
        if not able.any(axis=1).all():
            layer = int(np.argmin(able.any(axis=1)))
            raise InputError(
                "no chiplet of the package runs this layer",
                item=f"layer {layer}",
                remedy="add a template that runs its type",
            )
        picks = chosen[self.unique][:, template]
        times = np.take_along_axis(self.duration[self.unique][:, template], picks[..., None].astype(np.int64), axis=2)[
            ..., 0
        ]
        times = np.where(able, times, np.inf)
        mean = np.nanmean(np.where(able, times, np.nan), axis=1)
        order = self.by_upward_rank(mean)
        free = np.zeros(len(template))
        end = np.zeros(len(self.unique))
        tile = np.zeros(len(self.unique), np.int32)
        for layer in order:
            ready = max((end[p] for p in self.predecessors[layer]), default=0.0)
            finish = np.maximum(free, ready) + times[layer]
            tile[layer] = np.argmin(finish)
            end[layer] = free[tile[layer]] = finish[tile[layer]]
        mapping = picks[np.arange(len(tile)), tile].astype(np.int32)
        return {"order": order, "tile": tile, "mapping": mapping}

    def by_upward_rank(self, duration: np.ndarray) -> np.ndarray:
        """`[L]` int32, layers by falling longest remaining path: a topological order."""
        rank = duration.astype(float).copy()
        successors: list[list[int]] = [[] for _ in self.predecessors]
        for layer, needs in enumerate(self.predecessors):
            for p in needs:
                successors[p].append(layer)
        pending = [len(s) for s in successors]
        stack = [layer for layer, n in enumerate(pending) if n == 0]
        depth = np.zeros(len(rank), int)
        while stack:
            layer = stack.pop()
            for p in self.predecessors[layer]:
                rank[p] = max(rank[p], duration[p] + rank[layer])
                depth[p] = max(depth[p], depth[layer] + 1)
                pending[p] -= 1
                if pending[p] == 0:
                    stack.append(p)
        # Equal ranks (zero durations) fall back on the depth, so that dependencies are always kept.
        return np.lexsort((np.arange(len(rank)), -depth, -rank)).astype(np.int32)
