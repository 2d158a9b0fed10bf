"""Mapping searches on the host: blocks of hardware points through one program, and brackets of successive halving.

Every call of the lanes' program runs one block of B hardware points, in every round and with any number alive: it is
compiled once, a result cannot depend on who else is searched, and blocks share the processor's cores. Stopped points
are not run: a bracket costs what `halving.Bracket.cost` says.

Axes: H hardware points, T generations.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.mapping import Mapping
from mohamjax.mapping.space import MappingGenes
from mohamjax.runtime.struct import take
from mohamjax.unico.halving import AREAS, Bracket, keep
from mohamjax.unico.lanes import LaneConfig, LaneProblem, LaneState, Points, advance, mappings_of, prepare, start
from mohamjax.unico.robustness import robustness
from mohamjax.unico.space import HardwareSpace

PJ_PER_CYCLE_W = 1e-3  # 1 pJ per cycle at 1 GHz
CYCLE_S = 1e-9

A = TypeVar("A")
B = TypeVar("B")


@dataclasses.dataclass(frozen=True)
class Searched:
    """Hardware points and how far their mapping search is; NumPy leaves with a leading axis `[H]`.

    Attributes:
        index: `[H]` int64, the points.
        points: what the lanes read.
        state: what the lanes carry on.
    """

    index: np.ndarray
    points: Points
    state: LaneState

    def take(self, rows: np.ndarray) -> Searched:
        """Some of them, in that order."""
        return Searched(self.index[rows], take(self.points, rows), take(self.state, rows))

    def put(self, rows: np.ndarray, other: Searched) -> Searched:
        """These with the state of some of them replaced."""

        def replaced(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            out = old.copy()
            out[rows] = new
            return out

        return dataclasses.replace(self, state=jax.tree.map(replaced, self.state, other.state))

    def generation(self) -> int:
        """Generations that all of them have had."""
        return int(self.state.generation[0])

    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Latency [s] and power [W] of the networks after each generation, `[H, B]`; inf where there is none yet."""
        latency, spent = np.asarray(self.state.latency, float), np.asarray(self.state.energy, float)
        there = np.isfinite(latency)
        power = np.where(there, np.where(there, spent, 0) / np.where(there, latency, 1), np.inf) * PJ_PER_CYCLE_W
        return latency * CYCLE_S, power + np.asarray(self.points.leakage, float)[:, None]


class MappingSearch:
    """Mapping searches of one problem under one key; counts what they cost.

    Args:
        key: typed key; a point's mappings depend on it and on the point alone.
        problem: from `lane_problem`.
        space: the hardware space.
        layers: unique layers that are no padding.
        config: sizes.
        block: B, hardware points of a call.
        threads: calls at a time; 0 for the number of cores.

    Attributes:
        evaluations: mappings evaluated so far.
    """

    def __init__(
        self,
        key: jax.Array,
        problem: LaneProblem,
        space: HardwareSpace,
        layers: int,
        config: LaneConfig,
        *,
        block: int = 1,
        threads: int = 0,
    ) -> None:
        self.key, self.problem, self.space, self.layers, self.config = key, problem, space, layers, config
        self.block, self.threads = block, threads or os.cpu_count() or 1
        self.evaluations = 0
        self._warm: set[str] = set()

    def _in_blocks(self, name: str, call: Callable[[A], B], rows: A, number: int) -> B:
        """A program over blocks of rows, side by side; the last block is filled up with its last row."""
        starts = range(0, number, self.block)
        blocks = [take(rows, np.minimum(np.arange(s, s + self.block), number - 1)) for s in starts]
        done = []
        if name not in self._warm:  # alone, so that it is compiled once
            done.append(jax.device_get(call(blocks[0])))
            self._warm.add(name)
        with concurrent.futures.ThreadPoolExecutor(min(self.threads, len(blocks))) as pool:
            done += pool.map(lambda block: jax.device_get(call(block)), blocks[len(done) :])
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *done)

    def begin(self, index: npt.ArrayLike) -> Searched:
        """Points `[H]` before their first generation."""
        index = np.asarray(index, np.int64)
        rows = index.astype(np.uint32), self.space.digits(index)

        def call(rows: tuple[np.ndarray, np.ndarray]) -> tuple[Points, LaneState]:
            points = prepare(self.key, *rows, self.problem)
            return points, start(points, config=self.config)

        points, state = self._in_blocks("begin", call, rows, len(index))
        return Searched(index, points, state)

    def advance(self, searched: Searched, generations: int) -> Searched:
        """The same points after further generations."""
        count = jnp.int32(generations)

        def call(rows: tuple[Points, LaneState]) -> LaneState:
            return advance(*rows, self.problem.networks, count, config=self.config)

        number = len(searched.index)
        state = self._in_blocks("advance", call, (searched.points, searched.state), number)
        self.evaluations += number * generations * self.config.population * self.layers
        return dataclasses.replace(searched, state=state)

    def mappings(self, index: npt.ArrayLike, genes: MappingGenes) -> Mapping:
        """Loop nests `[H, U, ...]` of genes found on points `[H]`."""
        index = np.asarray(index, np.int64)

        def call(rows: tuple[tuple[np.ndarray, np.ndarray], MappingGenes]) -> Mapping:
            points, genes = rows
            return mappings_of(prepare(self.key, *points, self.problem), genes)

        rows = (index.astype(np.uint32), self.space.digits(index)), genes
        return self._in_blocks("mappings", call, rows, len(index))


# ---------------------------------------------------------------- brackets


@dataclasses.dataclass(frozen=True)
class BracketTrace:
    """How a bracket went, for figures.

    Attributes:
        alive: rows that ran in each round.
        budget: generations that they had at its end.
        score: `[H, B]` float, curves under the score of the last round.
    """

    alive: tuple[tuple[int, ...], ...]
    budget: tuple[int, ...]
    score: np.ndarray


def run_bracket(
    search: MappingSearch,
    index: npt.ArrayLike,
    bracket: Bracket,
    score: Callable[[Searched], np.ndarray],
    *,
    area: str = "above_terminal",
) -> tuple[Searched, BracketTrace]:
    """Modified successive halving over hardware points: the promising half of every round goes on (UNICO, Section 3.1).

    Args:
        search: the mapping searches.
        index: `[H]` points, H = `bracket.lanes`.
        bracket: the plan.
        score: curves `[H, B]` of points, minimised, at least 0; inf where there is none yet.
        area: a key of `halving.AREAS`.

    Returns:
        All points, each as far as it came, and the trace.
    """
    index = np.asarray(index)
    if len(index) != bracket.lanes:
        raise ValueError(f"index: the bracket is of {bracket.lanes} points, got {len(index)}")
    whole, alive = search.begin(index), np.arange(len(index))
    rounds = []
    curves = np.zeros((len(index), search.config.generations))
    for step in bracket.plan:
        part = search.advance(whole.take(alive), step.generations)
        whole = whole.put(alive, part)
        rounds.append(tuple(int(i) for i in alive))
        curves = np.asarray(score(whole), np.float32)
        if step.survivors < len(alive):
            # Padded to the size of the bracket, and in the order of the points, so that ties go to the lowest.
            live = np.isin(np.arange(len(index)), alive)
            terminal = np.where(live, curves[:, step.budget - 1], np.inf).astype(np.float32)
            areas = AREAS[area](curves, jnp.int32(step.budget), live)
            kept = keep(terminal, areas, live, survivors=step.survivors, by_area=step.by_area)
            alive = np.sort(np.asarray(kept))
    budgets = tuple(step.budget for step in bracket.plan)
    return whole, BracketTrace(alive=tuple(rounds), budget=budgets, score=curves)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What mapping searches say of hardware points; `[H]` arrays.

    Attributes:
        index: int64, the points.
        latency_s: float, inf where some layer has no valid mapping.
        energy_J: float, without leakage; inf in the same places.
        power_W: float, energy over latency and leakage; inf in the same places.
        area_mm2: float.
        robustness: float, R; NaN where there is no sample.
        delta: float, its distance alone.
        samples: int64, valid samples that they come from.
        generations: int64, that the search had.
        genes: mappings of the layers, leading axes `[H, U]`.
    """

    index: np.ndarray
    latency_s: np.ndarray
    energy_J: np.ndarray
    power_W: np.ndarray
    area_mm2: np.ndarray
    robustness: np.ndarray
    delta: np.ndarray
    samples: np.ndarray
    generations: np.ndarray
    genes: MappingGenes


def measured(searched: Searched, config: LaneConfig) -> Measured:
    """Latency, energy, power, area and robustness of points as far as they were searched."""
    state = searched.state
    last = np.asarray(state.generation) - 1
    rows = np.arange(len(last))
    latency, power = (curve[rows, last] for curve in searched.curves())
    spent = np.asarray(state.energy, float)[rows, last] * 1e-12
    found = robustness(state.tail, tail_percent=config.tail_percent)
    return Measured(
        index=searched.index,
        latency_s=latency,
        energy_J=spent,
        power_W=power,
        area_mm2=np.asarray(searched.points.area, float),
        robustness=np.asarray(found.value, float),
        delta=np.asarray(found.delta, float),
        samples=np.asarray(state.tail.count, np.int64),
        generations=last.astype(np.int64) + 1,
        genes=state.network.genes,
    )
