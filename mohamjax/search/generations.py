"""The generations of a search: calls of a compiled program on one device or several, and who is told of the progress.

Individuals made elsewhere enter between calls: they replace `state.candidates`, and the compiled generation then
evaluates them, lets them compete for survival, and archives them.

Several devices divide the islands among them; a single island is evaluated by all of them. Islands are computed
independently: only migrants, which go round the ring, pass between devices. Of a single island, every device has a copy
and breeds and selects by itself; each evaluates a part of the candidates, and all share the objectives. So the result
is that of one device, up to rounding where programs are compiled for other shapes.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import time
from collections import abc
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from mohamjax import emo
from mohamjax.emo.loop import (
    Course,
    Metrics,
    Problem,
    SearchState,
    Sizes,
    Spread,
    generations,
    light_generations,
    lightest_generations,
    start,
)
from mohamjax.errors import InputError
from mohamjax.mapper.config import MapperProgress
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.devices import AXIS, Devices, DevicesLike, gathered, is_first
from mohamjax.runtime.programs import jit_o0_plain_loops, jit_o1, jit_o1_plain_loops
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.instances import Instances, instances_of
from mohamjax.search.moham import genetic_problem
from mohamjax.search.plan_operators import PlanRates
from mohamjax.search.plans import Plan, Planned, decode, plans_of
from mohamjax.search.remap import Remapper

_FEW = 1_000
"""A search whose generations evaluate no more designs than this has them compiled in the shortest time."""

_LONG = 250_000
"""A search whose generations evaluate more designs than this has them compiled for speed."""


def generations_of(config: MohamConfig, devices: Devices | None = None) -> Any:
    """The program of a search's generations: longer searches have one that runs faster and takes longer to compile.

    Args:
        config: settings.
        devices: on which it runs; None for JAX's default device.
    """
    designs = (config.generations + 1) * config.candidates
    effort = (designs > _FEW) + (designs > _LONG)
    if devices is not None:
        return SpreadGenerations(devices, config.islands, effort)
    return (lightest_generations, light_generations, generations)[effort]


def program_of(config: MohamConfig, problem: Problem, devices: Devices | None) -> Callable[..., Any]:
    """The program of `generations_of` with its static arguments.

    Args:
        config: settings.
        problem: what is searched (`genetic_problem`).
        devices: as in `generations_of`.

    Returns:
        `(state, space, rates, count, counted) -> (state, metrics)`, as `loop.generations`.
    """
    course = Course(problem, chunk=config.chunk, migration=config.migration)
    return functools.partial(generations_of(config, devices), course=course)


def sizes_of(config: MohamConfig) -> Sizes:
    """The sizes of each island of a search."""
    return Sizes(population=config.population, immigrants=config.immigrant_count, archive=config.archive)


opening = jit_o0_plain_loops(start, static_argnames=("problem", "islands", "sizes"))
"""The state before the first generation; all its candidates are random."""


def entered(
    state: SearchState, candidates: Any, space: DesignSpace, rates: Any, program: Callable[..., Any]
) -> SearchState:
    """The state after individuals took part in survival and archive; this does not count as a generation.

    Args:
        state: of the search.
        candidates: individuals `[I, N, ...]`, N the population and the immigrants (`as_candidates`).
        space: the search's problem.
        rates: float32 arrays, with which the state's next candidates are bred.
        program: from `program_of`.
    """
    waiting = dataclasses.replace(state, candidates=candidates)
    return program(waiting, space, rates, np.int32(1), np.bool_(False))[0]


def random_candidates(
    key: jax.Array, space: DesignSpace, config: MohamConfig, problem: Problem, number: int = 0
) -> Any:
    """Random individuals `[I, N, ...]`: the first population, and immigrants of a numbered draw (`loop.start`).

    Args:
        key: typed key, from which every island derives its own.
        space: the search's problem.
        config: settings.
        problem: as in `program_of`.
        number: of the immigrants' draw; 0 for the immigrants of the first population.
    """
    first = opening(key, space, np.int32(number), problem=problem, islands=config.islands, sizes=sizes_of(config))
    return first.candidates


@functools.partial(jit_o0_plain_loops, static_argnames="population")
def as_candidates(batch: Any, drawn: Any, *, population: int) -> Any:
    """Individuals `[I, K, ...]`, K <= P, as candidates `[I, N, ...]`, filled up with random ones and immigrants.

    Args:
        batch: the individuals.
        drawn: random candidates `[I, N, ...]` (`random_candidates`).
        population: P.
    """

    def join(own: jax.Array, drawn: jax.Array) -> jax.Array:
        return jnp.concatenate([own, drawn[:, : population - own.shape[1]], drawn[:, population:]], axis=1)

    return jax.tree.map(join, batch, drawn)


@jit_o0_plain_loops
def archived(state: SearchState) -> list[Planned]:
    """The individuals of the archives as batches `[I, P, ...]`; empty slots hold individuals of the population.

    Args:
        state: of a search of plans, gathered.

    Returns:
        As many batches as the slots of an archive need.
    """
    genes: Any = state.archive.genes
    size, capacity = state.population.rank.shape[1], state.archive.valid.shape[1]
    slots = np.arange(-(-capacity // size) * size)
    filler = slots % size
    missing = len(slots) - capacity
    valid = jnp.pad(state.archive.valid, ((0, 0), (0, missing)))

    def filled(own: jax.Array, other: jax.Array) -> jax.Array:
        own = jnp.pad(own, ((0, 0), (0, missing), *[(0, 0)] * (own.ndim - 2)))
        return jnp.where(valid.reshape(*valid.shape, *[1] * (own.ndim - 2)), own, other[:, filler])

    everyone = jax.tree.map(filled, genes, state.population.genes)
    return [jax.tree.map(lambda leaf, i=i: leaf[:, i : i + size], everyone) for i in range(0, len(slots), size)]


@jit_o1
def decode_all(plans: Plan, space: DesignSpace) -> Planned:
    """Plans `[I, P, ...]` decoded."""
    return jax.vmap(lambda plans: decode(plans, space.genetics, space.plans))(plans)


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the search reports between calls of the jitted step.

    Attributes:
        generation: generations done.
        evaluations: designs evaluated so far.
        fresh_evaluations: designs evaluated in this process (a resumed search has evaluated others before).
        seconds: since the search started, without compile time.
        step_s: seconds of the last call of the step, without mapping again before it.
        rounds_s: estimated seconds of the remaining rounds of mapping again, from the last one; 0 before the first.
        compile_s: seconds spent in compiling.
        hypervolume: of the archive, in [0, 1] on log axes, per generation of the last call.
        front_size: designs in the archive, per generation of the last call.
        stability: largest finite crowding distance of the first front, per generation of the last call.
        best: `[M]`, smallest objectives so far, without their offsets.
    """

    generation: int
    evaluations: int
    fresh_evaluations: int
    seconds: float
    step_s: float
    rounds_s: float
    compile_s: float
    hypervolume: tuple[float, ...]
    front_size: tuple[int, ...]
    stability: tuple[float, ...]
    best: tuple[float, ...]


class Listener(Protocol):
    """Follows a search; every method may do nothing."""

    def announce(self, text: str) -> None:
        """Called when a step begins, for instance a compile."""

    def mapping(self, progress: MapperProgress) -> None:
        """Called when the layer mapper has made progress."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Called when some generations, of `generations` in all, are done."""


class Silent:
    """A listener that ignores everything."""

    def announce(self, text: str) -> None:
        """Ignores it."""

    def mapping(self, progress: MapperProgress) -> None:
        """Ignores it."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Ignores it."""


def heard(listener: Listener | None, devices: DevicesLike) -> Listener:
    """The given listener in the first process (`devices.is_first`), else a silent one."""
    return Silent() if listener is None or not is_first(devices) else listener


@dataclasses.dataclass
class Generations:
    """The generations of a search: `for state, progress in Generations(key, space, config): ...`.

    Yields the state after every few generations; it lies on the devices (`Devices.whole` fetches it). Generation 0 is
    the first population. Every state that is yielded is complete, so the caller may stop at any. One compile serves all
    generations, seeds and rates, and every problem of the same sizes (padded layers, unique layers, templates, widest
    fan-in and fan-out). Yields nothing where a resumed search has nothing left to do.

    Attributes:
        key: typed key of the whole search.
        space: the problem, over the tables so far.
        config: settings.
        rates: operator probabilities, of the kind that the genes need; default `PlanRates()` or `Rates()`.
        seeds: initial individuals `[K, ...]`, any number: all are evaluated, and the first population is selected from
            them.
        resume: a state to go on from instead of a first population.
        history: rows of the generations before `resume`, whose `stability` the stop rule looks back on.
        announce: called with a line before each compile and round of mapping again.
        projects: as in `genetic_problem`.
        problem: what is searched instead of `genetic_problem`, for instance with other operators.
        remapper: maps layers again on chiplets of the front, by its schedule; the plans of the archive are then decoded
            and evaluated again. Only for searches of plans. The search then ends with the remapper's last generation.
        devices: on which the search is spread (`SpreadGenerations`); None for JAX's default device.
        state: after the generations so far; None before `begin`.
    """

    key: jax.Array
    space: DesignSpace
    config: MohamConfig
    _: dataclasses.KW_ONLY
    rates: Rates | PlanRates | None = None
    seeds: Design | None = None
    resume: SearchState | None = None
    history: Sequence[abc.Mapping[str, Any]] = ()
    announce: Callable[[str], None] = lambda _: None
    projects: bool = False
    problem: Problem | None = None
    remapper: Remapper | None = None
    devices: Devices | None = None
    state: SearchState | None = dataclasses.field(default=None, init=False)

    def __iter__(self) -> Iterator[tuple[SearchState, Progress]]:
        """Runs the search from the beginning to the end."""
        self.begin()
        while not self.done:
            if self.remap_due:
                self.remap()
            yield self.step()

    def begin(self) -> None:
        """Compiles, draws the first population, and evaluates all batches of seeds but the last."""
        config, seeds = self.config, self.seeds
        rates = self.rates or (PlanRates() if config.genes == "plans" else Rates())
        self._rates = jax.tree.map(np.float32, rates)
        problem = self._problem = self.problem or genetic_problem(config, self.projects)
        if seeds is not None and config.genes == "plans":
            seeds = plans_of(seeds, self.space.genetics, self.space.plans)
        elif seeds is not None and config.genes == "instances":
            seeds = _instances(seeds, self.space)
        self._began = time.perf_counter()
        batches = 1 if seeds is None else -(-jax.tree.leaves(seeds)[0].shape[0] // config.population)
        state = self.resume
        if state is None:
            self.announce("drawing the first population")
            state = opening(
                self.key, self.space, np.int32(0), problem=problem, islands=config.islands, sizes=sizes_of(config)
            )
        self.announce(f"compiling the generation of {config.population} designs")
        # Running 0 generations compiles, or finds the program of an earlier search of the same shapes.
        self._program = program_of(config, problem, self.devices)
        jax.block_until_ready(self._program(state, self.space, self._rates, np.int32(0), np.bool_(True)))
        self._compile_s = time.perf_counter() - self._began
        # Populations so far, the first one included.
        self._begun = self._told = int(state.population.generation[0])
        if self.resume is None:
            if seeds is not None:
                # The first population is selected from all seeds; generation 0 evaluates the last batch.
                *before, last = _batches(self.key, seeds, self.space, config, problem)
                for batch in before:
                    state = self._entered(state, batch)
                state = dataclasses.replace(state, candidates=last)
            self._begun -= batches - 1
        self._batches, self.state = batches, state
        self._rounds_before, self._round_s = self._rounds, 0.0
        self._volumes = {int(row["generation"]): float(row["hypervolume"]) for row in self.history}
        self._settled = [float(row["stability"]) for row in self.history if row["generation"] > 0]

    @property
    def end(self) -> int:
        """Most generations of the whole search."""
        return self.config.generations if self.remapper is None else self.remapper.end

    @property
    def done(self) -> bool:
        """Whether all generations are done, or the search has settled."""
        gained_little = self.remap_due and self.remapper is not None and self.remapper.settled(self._volumes)
        return self._told > self.end or self._settled_down() or gained_little

    @property
    def remap_due(self) -> bool:
        """Whether layers must be mapped again before the next generation."""
        return self.remapper is not None and self.remapper.due(self._told - 1)

    @property
    def _rounds(self) -> int:
        return 0 if self.remapper is None else self.remapper.rounds

    def _settled_down(self) -> bool:
        config = self.config
        return config.stop == "stability" and emo.should_stop(self._settled, config.window, config.delta)

    def _entered(self, state: SearchState, batch: Any) -> SearchState:
        return entered(state, batch, self.space, self._rates, self._program)

    def remap(self) -> None:
        """Maps layers again on chiplets of the front, and evaluates the archive's plans again."""
        assert self.remapper is not None and self.state is not None
        tick = time.perf_counter()
        self.announce(f"mapping again on chiplets of the front, round {self.remapper.rounds + 1}")
        state = gathered(self.state, self.devices)
        self.space = self.remapper.grown(state, self.space)
        drawn = random_candidates(state.population.key[0], self.space, self.config, self._problem)
        for batch in archived(state):
            again = decode_all(batch.plan, self.space)
            state = self._entered(state, as_candidates(again, drawn, population=self.config.population))
        self.state = jax.block_until_ready(state)
        self._round_s = time.perf_counter() - tick

    def step(self) -> tuple[SearchState, Progress]:
        """Runs the generations of one call, and returns the state and the progress."""
        assert self.state is not None
        # Calls end at multiples of the chunk, so that a resumed search makes the same calls.
        count = min(self.config.chunk - (self._told - 1) % self.config.chunk, self.end + 1 - self._told)
        if self.remapper is not None:
            count = min(count, self.remapper.until_next(self._told - 1))
        tick = time.perf_counter()
        state, metrics = self._advance(count)
        for n, value in enumerate(metrics.stability, start=1):
            if self._told + n > 1:  # generation 0 is no step
                self._settled.append(float(value))
            if n < count and self._settled_down():
                # The rule stopped within the call: the same generations run again, up to the one where it stopped.
                count = n
                state, metrics = self._advance(count)
                break
        self.state = state
        self._told += count
        self._volumes[self._told - 1] = float(metrics.merit[-1])
        return state, self._progress(metrics, tick)

    def _advance(self, count: int) -> tuple[SearchState, Metrics]:
        state, metrics = self._program(self.state, self.space, self._rates, np.int32(count), np.bool_(True))
        metrics = jax.device_get(gathered(metrics, self.devices))
        return state, _best_island(jax.tree.map(lambda leaf: leaf[:count], metrics))

    def _progress(self, metrics: Metrics, tick: float) -> Progress:
        config, rounds = self.config, self._rounds
        per_generation = config.candidates
        again = -(-config.archive // config.population)  # batches of a round's evaluations
        best = metrics.best[-1]
        if self.space.measures is not None:
            best = best - np.asarray(self.space.measures.offset)
        left = 0 if self.remapper is None else len(self.remapper.schedule) - rounds
        return Progress(
            generation=self._told - 1,
            evaluations=(self._told + self._batches - 1 + rounds * again) * per_generation,
            fresh_evaluations=(self._told - self._begun + (rounds - self._rounds_before) * again) * per_generation,
            seconds=time.perf_counter() - self._began - self._compile_s,
            step_s=time.perf_counter() - tick,
            rounds_s=self._round_s * left,
            compile_s=self._compile_s,
            hypervolume=tuple(float(x) for x in metrics.merit),
            front_size=tuple(int(x) for x in metrics.front_size),
            stability=tuple(float(x) for x in metrics.stability),
            best=tuple(float(x) for x in best),
        )


@jit_o0_plain_loops
def _instances(designs: Design, space: DesignSpace) -> Instances:
    """Designs `[K, ...]` as individuals whose identifiers are the tiles on which the instances stand at first."""
    return jax.vmap(instances_of, in_axes=(0, None))(designs, space.genetics)


def _batches(key: jax.Array, seeds: Any, space: DesignSpace, config: MohamConfig, problem: Problem) -> Iterator[Any]:
    """Yields seeds `[K, ...]` in batches of candidates `[I, N, ...]`, the same for all islands.

    Random designs fill up the last batch, which is that of generation 0. The draws of immigrants are numbered up to 0.
    """
    size = config.population
    total = -(-jax.tree.leaves(seeds)[0].shape[0] // size)
    for i in range(total):
        rows = take(seeds, slice(i * size, (i + 1) * size))
        shared = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.islands, *leaf.shape)), rows)
        yield as_candidates(shared, random_candidates(key, space, config, problem, i - total + 1), population=size)


def _best_island(metrics: Metrics) -> Metrics:
    """Metrics `[n]` from `[n, I]`: hypervolume and front of the best island, largest stability, smallest objectives."""
    best = np.argmax(metrics.merit, axis=1)
    row = np.arange(len(best))
    values: dict[str, Any] = {
        "stability": np.max(metrics.stability, axis=1),
        "front_size": np.asarray(metrics.front_size)[row, best],
        "best": np.min(metrics.best, axis=1),
        "merit": np.asarray(metrics.merit)[row, best],
    }
    return Metrics(**values)


def state_like(space: DesignSpace, config: MohamConfig) -> SearchState:
    """The search's state as shapes and dtypes, for reading a checkpoint."""
    first = functools.partial(start, problem=genetic_problem(config), islands=config.islands, sizes=sizes_of(config))
    return jax.eval_shape(first, jax.random.key(0), space, np.int32(0))


# ---------------------------------------------------------------- several devices


def check_islands(devices: Devices | None, islands: int) -> None:
    """Checks that islands can be divided equally among devices.

    Args:
        devices: the devices, or None.
        islands: number of islands; a single one is always accepted.

    Raises:
        InputError: the number of devices does not divide that of the islands.
    """
    if devices is not None and islands > 1 and islands % len(devices):
        good = -(-islands // len(devices)) * len(devices)
        raise InputError(
            f"{islands} islands cannot be divided equally among {len(devices)} devices",
            argument="devices",
            remedy=f"take {good} islands, or a number of devices that divides them",
        )


class SpreadGenerations:
    """`loop.generations` on several devices, with the same call.

    States may lie anywhere; those that it returns lie on the devices (`Devices.whole` fetches them).
    """

    def __init__(self, devices: Devices, islands: int, effort: int) -> None:
        """Chooses the program.

        Args:
            devices: where it runs.
            islands: of the search.
            effort: of the compiler, 0 to 2: as `loop.lightest_generations`, `light_generations` or `generations`.
        """
        self._devices, self._split = devices, islands > 1
        self._program = spread_program(devices.mesh, self._split, effort)
        self._space: tuple[Any, Any] = None, None

    def __call__(
        self, state: SearchState, space: Any, rates: Any, count: Any, counted: Any = True, *, course: Course
    ) -> tuple[SearchState, Metrics]:
        """As `loop.generations`."""
        state = self._devices.split(state) if self._split else self._devices.copied(state)
        if space is not self._space[0]:
            self._space = space, self._devices.copied(space)
        rest = self._devices.copied((rates, count, counted))
        return self._program(state, self._space[1], *rest, course=course)


@functools.cache
def spread_program(mesh: Mesh, islands: bool, effort: int) -> Any:
    """`loop.generations` under `jax.shard_map`, jitted.

    Args:
        mesh: with the axis `devices.AXIS`.
        islands: whether the state is split along its leading axis; else every device has a copy.
        effort: see `SpreadGenerations`.
    """
    spread = Spread(axis=AXIS, devices=mesh.size, islands=islands)
    state, whole = PartitionSpec(AXIS) if islands else PartitionSpec(), PartitionSpec()
    record = PartitionSpec(None, AXIS) if islands else whole

    def over(
        state_: SearchState, space: Any, rates: Any, count: Any, counted: Any, *, course: Course
    ) -> tuple[SearchState, Metrics]:
        mapped = jax.shard_map(
            functools.partial(inspect.unwrap(generations), course=dataclasses.replace(course, spread=spread)),
            mesh=mesh,
            in_specs=(state, whole, whole, whole, whole),
            out_specs=(state, record),
            # Copies stay equal as all devices compute them alike, which the check cannot see.
            check_vma=False,
        )
        return mapped(state_, space, rates, count, counted)

    jit: Any = (jit_o0_plain_loops, jit_o1_plain_loops, jax.jit)[effort]
    return jit(over, static_argnames=("course",))
