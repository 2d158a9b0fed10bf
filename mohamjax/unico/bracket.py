"""Mapping searches on the host: blocks of hardware points through one program, and brackets of successive halving.

Every call of the lanes' program runs one block of hardware points, in every round and however many are alive. So the
program is compiled once, a result does not depend on the other points searched, and blocks share the processor's cores.
Stopped points do not run: a bracket costs `halving.Bracket.cost`.

Axes: H hardware points, B generations of the full budget, U unique layers.
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
from mohamjax.runtime.programs import at_this_precision
from mohamjax.runtime.struct import take
from mohamjax.schedule import CYCLE_S
from mohamjax.unico.halving import AREAS, Bracket, keep
from mohamjax.unico.lanes import LaneConfig, LaneProblem, LaneState, Points, advance, mappings_of, prepare, start
from mohamjax.unico.robustness import robustness
from mohamjax.unico.space import HardwareSpace

PJ_PER_CYCLE_W = 1e-3  # 1 pJ per cycle at 1 GHz

A = TypeVar("A")
B = TypeVar("B")


@dataclasses.dataclass(frozen=True)
class Searched:
    """Hardware points and the state of their mapping searches; NumPy leaves with a leading axis `[H]`.

    Attributes:
        index: `[H]` int64, the points.
        points: input of the lanes.
        state: state of the lanes.
    """

    index: np.ndarray
    points: Points
    state: LaneState

    def take(self, rows: np.ndarray) -> Searched:
        """The given rows, in that order."""
        return Searched(self.index[rows], take(self.points, rows), take(self.state, rows))

    def put(self, rows: np.ndarray, other: Searched) -> Searched:
        """The same points, with the state of some rows replaced by that of `other`."""

        def replaced(old: np.ndarray, new: np.ndarray) -> np.ndarray:
            out = old.copy()
            out[rows] = new
            return out

        return dataclasses.replace(self, state=jax.tree.map(replaced, self.state, other.state))

    def generation(self) -> int:
        """Generations done, the same for all points."""
        return int(self.state.generation[0])

    def curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Latency [s] and power [W] of the networks after each generation, `[H, B]`; inf where there is none yet."""
        latency, spent = np.asarray(self.state.latency, float), np.asarray(self.state.energy, float)
        there = np.isfinite(latency)
        power = np.where(there, np.where(there, spent, 0) / np.where(there, latency, 1), np.inf) * PJ_PER_CYCLE_W
        return latency * CYCLE_S, power + np.asarray(self.points.leakage, float)[:, None]


class MappingSearch:
    """Mapping searches of one problem under one key; counts the mappings that they evaluate.

    Args:
        key: typed key; a point's mappings depend only on the key and the point.
        problem: from `lane_problem`.
        space: the hardware space.
        layers: number of unique layers, without padding.
        config: sizes of the search.
        block: hardware points per call.
        threads: concurrent calls; 0 for the number of cores.

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
        """Runs a program on blocks of rows in parallel; copies of the last row fill up the last block."""
        starts = range(0, number, self.block)
        blocks = [take(rows, np.minimum(np.arange(s, s + self.block), number - 1)) for s in starts]
        done = []
        if name not in self._warm:  # the first call runs alone, so that the program is compiled once
            done.append(jax.device_get(call(blocks[0])))
            self._warm.add(name)
        with concurrent.futures.ThreadPoolExecutor(min(self.threads, len(blocks))) as pool:
            done += pool.map(at_this_precision(lambda block: jax.device_get(call(block))), blocks[len(done) :])
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
        """Loop nests `[H, U, ...]` of the genes found for points `[H]`."""
        index = np.asarray(index, np.int64)

        def call(rows: tuple[tuple[np.ndarray, np.ndarray], MappingGenes]) -> Mapping:
            points, genes = rows
            return mappings_of(prepare(self.key, *points, self.problem), genes)

        rows = (index.astype(np.uint32), self.space.digits(index)), genes
        return self._in_blocks("mappings", call, rows, len(index))


# ---------------------------------------------------------------- brackets


@dataclasses.dataclass(frozen=True)
class BracketTrace:
    """The course of a bracket, for figures.

    Attributes:
        alive: rows that ran in each round.
        budget: generations that these rows had had at the end of each round.
        score: `[H, B]` float, score curves as computed in the last round.
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
        score: returns curves `[H, B]` of points, minimised, at least 0; inf where there is no value yet.
        area: a key of `halving.AREAS`.

    Returns:
        All points, each in the state that its search reached, and the trace.
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
            # Arrays hold all rows of the bracket in order, stopped ones masked, so that ties go to the lowest row.
            live = np.isin(np.arange(len(index)), alive)
            terminal = np.where(live, curves[:, step.budget - 1], np.inf).astype(np.float32)
            areas = AREAS[area](curves, jnp.int32(step.budget), live)
            kept = keep(terminal, areas, live, survivors=step.survivors, by_area=step.by_area)
            alive = np.sort(np.asarray(kept))
    budgets = tuple(step.budget for step in bracket.plan)
    return whole, BracketTrace(alive=tuple(rounds), budget=budgets, score=curves)


@dataclasses.dataclass(frozen=True)
class Measured:
    """Results of the mapping searches of hardware points; `[H]` arrays.

    Attributes:
        index: int64, the points.
        latency_s: float, inf where some layer has no valid mapping.
        energy_J: float, without leakage; inf in the same places.
        power_W: float, energy over latency, plus leakage; inf in the same places.
        area_mm2: float.
        robustness: float, R; NaN where there is no sample.
        delta: float, the distance Delta within R.
        theta: float, the angle of approach [rad].
        samples: int64, number of valid samples behind R.
        generations: int64, generations of the search.
        genes: mappings of the layers, leading axes `[H, U]`.
    """

    index: np.ndarray
    latency_s: np.ndarray
    energy_J: np.ndarray
    power_W: np.ndarray
    area_mm2: np.ndarray
    robustness: np.ndarray
    delta: np.ndarray
    theta: np.ndarray
    samples: np.ndarray
    generations: np.ndarray
    genes: MappingGenes


def measured(searched: Searched, config: LaneConfig) -> Measured:
    """Latency, energy, power, area and robustness of points at the present state of their searches."""
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
        theta=np.asarray(found.theta, float),
        samples=np.asarray(state.tail.count, np.int64),
        generations=last.astype(np.int64) + 1,
        genes=state.network.genes,
    )
