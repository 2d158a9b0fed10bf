"""The search: takes networks and templates, and returns a front of multi-chiplet systems with their schedules.

Steps (MOHaM, Algorithm 1): the layer mapper fills the Pareto tables of every unique layer on every template, the
global scheduler searches packages and schedules over them, and the archive is evaluated again in double precision.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.emo.loop import SearchState
from mohamjax.errors import InputError
from mohamjax.mapper.config import MapperProgress
from mohamjax.mapper.layer_mapper import LayerMapper, TableStore
from mohamjax.mapping import MappingTables, Wires, recast
from mohamjax.problem.design_problem import DesignProblem, check_tables, search_keys
from mohamjax.problem.resolved import LIMIT_TOLERANCE, Reached, keeps, out_of_reach, unmet
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.devices import Devices, DevicesLike, agreed, chosen_devices, gathered, is_first
from mohamjax.runtime.struct import plain, take
from mohamjax.schedule import Design, DesignFile, Evaluated, reevaluate, scenario_bounds
from mohamjax.schedule.bounds import ChipletSizes, least_latency
from mohamjax.schedule.ensemble import own_tables, own_wires
from mohamjax.schedule.front import front_index
from mohamjax.schedule.measures import DEFAULT, offsets
from mohamjax.schedule.own_measures import Limit, value_of
from mohamjax.schedule.setup import Setup
from mohamjax.search.config import MohamConfig, Settings
from mohamjax.search.finish import descents, finishing
from mohamjax.search.generations import Generations, Listener, Progress, check_islands, heard, state_like
from mohamjax.search.injection import check_injected, inject
from mohamjax.search.moham import designs_of
from mohamjax.search.ordering import Ordering, orderings, reordered, replaced
from mohamjax.search.own import OWN_KINDS, check_own, with_own_values
from mohamjax.search.places import Closing, open_to_moves
from mohamjax.search.precompile import Precompilation, made_up_tables
from mohamjax.search.remap import Remapper
from mohamjax.search.result import Explored, SearchResult, chosen_rows, record_of
from mohamjax.search.resumed import (
    Checkpoint,
    CheckpointStore,
    check_grown,
    check_same_search,
    check_state,
    history_of,
    search_marks,
    tables_hash,
)
from mohamjax.search.seeding import seed_designs
from mohamjax.text import plural
from mohamjax.workload import Ensemble

_REMAPPED = 0.1
"""Where layers are mapped again, bounds may exceed a limit by this share before it is refused beforehand."""

_STOPPED = "stopped by hand; writing what was found"


@dataclasses.dataclass
class Search:
    """A search for packages and schedules: `Search(problem, settings).run()`.

    An interrupt (Ctrl-C) ends the search cleanly with what was found so far, if it comes while generations run, or
    while the front is finished after this call has run generations. At any other time, and with several processes, it
    is raised; `resume` then goes on from the `checkpoint`, if there is one.

    Attributes:
        problem: the problem.
        settings: default the `small` budget.
        listener: told about the progress.
        designs: the user's own designs, which are evaluated first (`io.read_designs`).
        tables: mappings to choose from, of the templates that the requirements leave (`problem.resolved`); default
            those that the layer mapper finds. Rounds of `settings.remap` add to them.
        cache: where the layer mapper's sets are kept between runs (`io.mapping_cache`); None keeps none.
        checkpoint: where the state is kept at intervals and at the end (`io.CheckpointFile`); None keeps none.
        resume: go on from the kept state; where there is none yet, from the beginning.
        checkpoint_every_s: seconds between checkpoints, which are written between calls of the jitted step.
        devices: on which the search runs: a number of them, `all`, or a list; default JAX's own default device.
            The result does not depend on them, and a search can be resumed on others. With several processes
            (`jax.distributed`), all run the search with the same arguments and get the same result; the first one alone
            maps layers, reads and writes `cache` and `checkpoint`, and tells `listener`.
        ensemble: application models that all run on one package; their networks, joined, are those of the problem.
    """

    problem: DesignProblem
    settings: Settings = dataclasses.field(default_factory=Settings)
    _: dataclasses.KW_ONLY
    listener: Listener | None = None
    designs: DesignFile | None = None
    tables: MappingTables | None = None
    cache: TableStore | None = None
    checkpoint: CheckpointStore | None = None
    resume: bool = False
    checkpoint_every_s: float = 30.0
    devices: DevicesLike = None
    ensemble: Ensemble | None = None

    def run(self) -> SearchResult:
        """Searches, and evaluates the designs found in double precision.

        Returns:
            The front and how it was found.

        Raises:
            InputError: the networks lack an objective, no design found meets the requirements, the designs do not fit
                the search, the checkpoint is of another search, there are fewer devices than asked for, or their number
                does not divide that of the islands.
        """
        with contextlib.ExitStack() as cleanup:
            found = self.explore(cleanup)
            return self._result(found)

    def explore(self, cleanup: contextlib.ExitStack) -> Explored:
        """Searches, without the final evaluation in double precision.

        Args:
            cleanup: gets callbacks that must run when the search is over, however it ends.
        """
        self._cleanup = cleanup
        self.prepare()
        self.map()
        self.begin()
        with self._stoppable():
            while not self._generations.done:
                if self._generations.remap_due:
                    self.remap()
                self.step()
        self._save()
        self.finish()
        return self._explored()

    # ------------------------------------------------------------ the steps

    def prepare(self) -> None:
        """Checks all that can be checked before layers are mapped, and reads the checkpoint."""
        settings, spread = self.settings, chosen_devices(self.devices)
        self._spread, self._several = spread, spread is not None and spread.several_processes
        self._listener = heard(self.listener, spread)
        check_islands(spread, settings.moham.islands)
        settings.goals.check(self.problem.application, self.problem.requirements)
        if settings.within is not None and self.ensemble is not None:
            raise InputError(
                "is for one application model", argument="within", remedy="leave it out, or limit latency_s instead"
            )
        own = [str(one) for one in (*settings.moham.objectives, *settings.moham.limits) if isinstance(one, OWN_KINDS)]
        if own and self.checkpoint is not None:
            remedy = "leave `checkpoint` and `resume` out"
            raise InputError(f"holds no functions, and {own[0]} is one", argument="checkpoint", remedy=remedy)
        if own and self.ensemble is not None:
            raise InputError(f"{own[0]} is for one application model", argument="objectives", remedy="leave it out")
        if self.designs is not None:
            check_injected(self.designs, self.problem.application, self.problem.resolved.templates)
        self._keys = search_keys(settings.seed)
        if own:
            self._check_own()
        self._marks = search_marks(self.problem, settings, self.designs, self.ensemble)
        self._saved: Checkpoint | None = None
        self._precompilation: Precompilation | None = None
        if not self.resume:
            return
        if self.checkpoint is None:
            raise InputError("there is no checkpoint to go on from", item="resume", remedy="give the checkpoint")
        self._saved = agreed(self.checkpoint.read, spread)
        check_same_search(self._saved, self._marks)
        if self._saved is None:
            # The search was stopped before its first checkpoint: starting again gives the same result.
            self._listener.announce("no checkpoint yet; starting from the beginning")

    def _check_own(self) -> None:
        """Checks the user's own functions on a report of the shapes that the search will have."""
        problem, config = self.problem.cast(jnp.float32), self.settings.moham
        layers, templates = problem.application.unique_layers, problem.resolved.templates
        tables = made_up_tables(layers, templates, problem.technology, 1)
        check_own(config, problem.space(self._keys[1], tables, self.settings.goals, orders=config.orders))

    def map(self) -> None:
        """Maps every unique layer on every template, or takes the given tables; the user's designs join."""
        problem, settings, began = self.problem, self.settings, time.perf_counter()
        single = self._single = problem.cast(jnp.float32)
        self._limited = problem
        layers, templates = problem.application.unique_layers, problem.resolved.templates
        if self.tables is None:
            self._listener.announce(
                f"mapping {plural(len(layers), 'unique layer')} on {plural(len(templates), 'template')}"
            )
            tables = mapped(problem.setup, settings, self._mapping, self.cache, self._spread)
        else:
            check_tables(self.tables, problem.setup)
            tables = recast(self.tables, np.float32)
        self._mapping_s = time.perf_counter() - began
        self._injected = None
        if self.designs is not None:
            tables, self._injected = inject(self.designs, single, tables)
        self._remapper = None
        if self._plans and settings.remap.maps_again:
            key = jax.random.fold_in(self._keys[0], 1)
            self._remapper = Remapper(key, single.setup, settings, tables, self._listener.mapping, self._spread)
            tables = self._remapper.tables
        self._tables = tables

    def begin(self) -> None:
        """Makes the space of designs and the initial individuals, or restores the state of the checkpoint."""
        problem, settings, tables = self.problem, self.settings, self._tables
        config, remapper = settings.moham, self._remapper
        if settings.within is not None:
            least = least_latency(problem.setup, tables, problem.most_chiplets)
            problem = self._limited = problem.faster_than(settings.within * least)
            self._single = problem.cast(jnp.float32)
            self._listener.announce(f"designs may take at most {problem.requirements.limits[0]:.4g} s")
        space = self._single.space(self._keys[1], tables, settings.goals, orders=config.orders, ensemble=self.ensemble)
        if np.isfinite(problem.resolved.limits).any():
            floor = _floor(problem, self.ensemble, tables, space.evaluation.wires)
            hopeless = out_of_reach(problem.resolved, floor, LIMIT_TOLERANCE)
            # Mapping again lowers the floor a little, so what is only just out of reach may be reached.
            again = remapper is not None and len(remapper.schedule) > 0
            if hopeless is not None and again and out_of_reach(problem.resolved, floor, _REMAPPED) is None:
                self._listener.announce(f"{hopeless.message}; layers are still to be mapped again, which lowers bounds")
            elif hopeless is not None:
                raise hopeless
        seeds = seed_designs(problem, tables, config, space.evaluation.unique.shape[0], injected=self._injected)
        self._marks["tables"] = tables_hash(tables, seeds)
        check_same_search(self._saved, self._marks)
        self._history: list[dict[str, Any]] = []
        self._grown = {} if remapper is None else remapper.saved()
        self._state, space = self._restored(space)
        self._last: Progress | None = None
        self._interrupted, self._saved_at = False, time.perf_counter()
        self._before_s = self._history[-1]["seconds"] if self._history else 0.0
        self._generations = Generations(
            self._keys[2], space, config, rates=settings.plan_rates if self._plans else settings.rates, seeds=seeds,
            resume=self._state, history=tuple(self._history), announce=self._listener.announce,
            projects=problem.resolved.projects, remapper=remapper, devices=self._spread,
        )  # fmt: skip
        self._waited_s = 0.0
        if self._done > self._generations.end:
            asked = f"the {self._generations.end:,} asked for"
            self._listener.announce(f"the checkpoint has {self._done:,} generations already, more than {asked}")

    def remap(self) -> None:
        """Maps layers again on chiplets of the front."""
        self._generations.remap()

    def step(self) -> None:
        """Runs a few generations, reports them, and writes a checkpoint if one is due."""
        state, last = self._generations.step()
        # The tables of this state: after a round that is cut short, the round is done again.
        grown = {} if self._remapper is None else self._remapper.saved()
        history = [*self._history, *_rows(last, self.settings.moham, len(self._history), self._before_s)]
        # Together, so that an interrupt finds a state with its own history.
        self._state, self._last, self._grown, self._history = state, last, grown, history
        self._listener.progress(last, self._generations.end)
        if agreed(lambda: time.perf_counter() - self._saved_at > self.checkpoint_every_s, self._spread):
            self._save()
            self._saved_at = time.perf_counter()

    def finish(self) -> None:
        """Tries changes of the front's designs, refits them and closes the front over places.

        This only changes the result: the checkpoint stays as it was, so that more generations can go on from it.
        """
        config, tick = self.settings.moham, time.perf_counter()
        assert self._state is not None
        self._state = gathered(self._state, self._spread)
        self._closed, self._refined, self._finish_s = Closing(), 0, 0.0
        if self._remapper is not None:
            self._tables = self._remapper.tables
        if not self._plans or self._interrupted:
            return
        changed = "trying changes of the fastest designs, then " if descents(config) else ""
        last = ", then closing it over places" if config.end_rounds else ""
        self._listener.announce(f"{changed}refitting the front{last}")
        rates, unclosed = self.settings.plan_rates, self._closed
        try:
            steps = finishing(
                self._state, self._space, config, rates=rates, devices=self._spread, told=self._told_of_closing
            )
            for state in steps:
                # Interrupts are raised while this waits.
                self._state = jax.block_until_ready(state)
                self._refined += self._closed is unclosed
        except KeyboardInterrupt:
            # If the checkpoint had all generations, an earlier run may have written a finished front already.
            if self._last is None or self._several:
                raise
            self._stop()
        self._state = gathered(self._state, self._spread)
        self._finish_s = time.perf_counter() - tick

    # ------------------------------------------------------------ what the steps share

    @property
    def _plans(self) -> bool:
        return self.settings.moham.genes == "plans"

    @property
    def _done(self) -> int:
        """Generations in the history; a checkpoint may have more than are asked for."""
        return int(self._history[-1]["generation"]) if self._history else 0

    @property
    def _space(self) -> DesignSpace:
        """The space over the tables so far."""
        space = self._generations.space
        return space if self._remapper is None else self._remapper.space(space)

    def _mapping(self, progress: MapperProgress) -> None:
        """Reports the layer mapper's progress, and starts compiling the search beside it if layers are left to map."""
        # Several processes compile when all of them begin to search: one alone would wait for the others.
        alone = not self._several and self.ensemble is None
        if self._precompilation is None and alone and progress.cached < progress.problems:
            self._precompilation = Precompilation(self.problem, self.settings, self._spread)
            self._cleanup.callback(self._precompilation.end)
        self._listener.mapping(progress)

    def _restored(self, space: DesignSpace) -> tuple[SearchState | None, DesignSpace]:
        """State and space of the checkpoint; without one, None and the given space."""
        saved, remapper = self._saved, self._remapper
        if saved is None:
            return None, space
        state, grown = saved.restore((state_like(space, self.settings.moham), self._grown))
        history = history_of(saved)
        if remapper is not None:
            entries = self.settings.remap.entries
            rounds = remapper.most_rounds(history[-1]["generation"] if history else 0)
            check_grown(saved, grown, np.asarray(self._tables.count), entries, rounds)
            remapper.restore(grown)
            space = remapper.space(space)
        self._grown, self._history = grown, history
        check_state(saved, state, self._history, space)
        return state, space

    @contextlib.contextmanager
    def _stoppable(self) -> Any:
        """A context that compiles the search, and ends it on an interrupt with what was found so far."""
        tick = time.perf_counter()
        try:
            if self._precompilation is not None:
                self._listener.announce("compiling the search")
                self._precompilation.searched()
            self._waited_s = time.perf_counter() - tick
            self._generations.begin()
            yield
        except KeyboardInterrupt:
            # Several processes are interrupted at different moments, so their states are not of one generation.
            if self._state is None or self._several:
                raise
            self._stop()

    def _stop(self) -> None:
        self._interrupted = True
        self._listener.announce(_STOPPED)

    def _save(self) -> None:
        """Writes a checkpoint, if there is a state and a store."""
        if self.checkpoint is not None and self._state is not None:
            kept = gathered(self._state, self._spread)
            if is_first(self._spread):
                self.checkpoint.write((kept, self._grown), {**self._marks, "history": self._history})

    def _told_of_closing(self, done: Closing) -> None:
        if done.rounds != self._closed.rounds:
            self._listener.announce(f"closing the front over places, {done}")
        self._closed = done

    def _explored(self) -> Explored:
        """The designs found, from the archive; where no design keeps the requirements, from the population."""
        state, config, last, space = self._state, self.settings.moham, self._last, self._space
        assert state is not None
        if thinned := int(np.asarray(state.archive.thinned).sum()):
            self._listener.announce(
                f"the archive reached its limit of {config.archive:,} and dropped {plural(thinned, 'design')} that "
                "nothing dominated, where the front is densest; that costs little; a larger argument `archive` keeps "
                "more"
            )
        self._listener.announce("evaluating the front again in double precision")
        genes: Any = state.archive.genes
        kept = np.nonzero(np.asarray(state.archive.valid))
        closed = None if self._closed.closed is None else self._closed.closed[kept]
        archive = None
        if config.result == "population" and kept[0].size:
            archive = _host_designs(genes, kept)
            population = state.population
            first = (np.asarray(population.rank) == 0) & np.asarray(emo.feasible(population.objectives))
            kept, genes = np.nonzero(first), population.genes
        if not kept[0].size:
            # The population holds the designs that come nearest. Evaluated again, they show the values that the search
            # replaced by its penalty.
            closed = None
            kept, genes = np.nonzero(np.asarray(state.population.rank) >= 0), state.population.genes
        designs = _host_designs(genes, kept)
        own: dict[str, Any] = {"reference_point": plain(space.reference), "ideal_point": plain(space.ideal)}
        if config.objectives != DEFAULT:
            own["offsets"] = plain(offsets(config.objectives, self.problem.application))
        if self.settings.within is not None:
            own["within_latency_s"] = self._limited.requirements.limits[0]
        if self._refined:
            descended = min(self._refined, descents(config))
            batches = {"descent": descended, "refitting": self._refined - descended}
            own |= {step: {"evaluations": count * config.candidates} for step, count in batches.items() if count}
        if self._closed.rounds:
            own["closing"] = self._closed.counts
        record = record_of(self.problem, self.settings) | own
        if self._done > self._generations.end:
            record["search"]["generations"] += self._done - self._generations.end
        return Explored(
            problem=self._limited,
            tables=self._tables,
            designs=designs,
            archive=archive,
            plans=jax.tree.map(lambda leaf: np.asarray(leaf)[kept], genes.plan) if self._plans else None,
            closed=closed,
            history=self._history,
            config=record,
            timings={
                "mapping_s": self._mapping_s,
                "compile_s": self._waited_s + (last.compile_s if last else 0.0),
                "search_s": last.seconds if last else 0.0,
                "finish_s": self._finish_s,
                "closing_s": self._closed.seconds,
                "designs_per_s": last.fresh_evaluations / max(last.seconds, 1e-9) if last else 0.0,
            },
            interrupted=self._interrupted,
        )

    def _result(self, explored: Explored) -> SearchResult:
        """The front of the designs found, in double precision."""
        tick = time.perf_counter()
        if self._precompilation is not None:
            self._precompilation.reported()
        goals, resolved = self.settings.goals, self._limited.resolved

        def again(designs: Design) -> Evaluated:
            return reevaluate(
                self.problem.setup, explored.tables.mapping, np.asarray(explored.tables.count), designs,
                measures=goals.objectives, periods=goals.periods,
            )  # fmt: skip

        evaluated, archive = again(explored.designs), None
        limits, announce = self.settings.moham.limits, self._listener.announce
        sound = with_own_values(evaluated, announce)
        if explored.archive is not None:
            archive = again(explored.archive)
            kept = keeps(resolved, _reached(archive, limits)) & with_own_values(archive, announce)
            archive = archive.take(np.flatnonzero(kept))
            archive = archive.take(front_index(archive.objectives))
        reached = _reached(evaluated, limits)
        within = np.flatnonzero(keeps(resolved, reached) & sound)
        if not within.size:
            raise unmet(resolved, reached, kept=self.checkpoint is not None, window=self.settings.within is not None)
        front = within[front_index(evaluated.take(within).objectives)]
        whole = evaluated.take(front)
        closed = None if explored.closed is None else explored.closed[front]
        few = chosen_rows(whole.objectives, whole.offsets, explored.box, self.settings, announce, closed)
        reevaluation_s = time.perf_counter() - tick
        shown, ordering = self._ordered(whole.take(few), len(evaluated))
        last = front_index(shown.objectives)
        own = {} if ordering is None else {"ordering": ordering.counts}
        return SearchResult(
            front=shown.take(last),
            history=explored.history,
            config=explored.config | own,
            timings={
                **explored.timings,
                "reevaluation_s": reevaluation_s,
                "ordering_s": time.perf_counter() - tick - reevaluation_s,
            },
            tables=explored.tables,
            interrupted=self._interrupted,
            plans=None if explored.plans is None else take(explored.plans, front[few][last]),
            archive=archive,
        )

    def _ordered(self, shown: Evaluated, number: int) -> tuple[Evaluated, Ordering | None]:
        """Designs with orders in which networks are ready earlier, and the `Ordering`; None where nothing was tried.

        A design keeps its order where the new one would break the requirements (power rises where latency falls), or
        where a move of chiplets would then improve the design.

        Args:
            shown: the designs.
            number: of designs that were evaluated together with them.
        """
        config, ordering = self.settings.moham, None
        if self._interrupted or not config.end_orders or len(shown.application.networks) < 2:
            return shown, None
        self._listener.announce(
            f"ordering the layers of {plural(len(shown), 'design')} so that networks are ready earlier"
        )
        try:
            for done in orderings(shown, config.end_orders, config.periods):
                ordering = done
                self._listener.announce(str(done))
        except KeyboardInterrupt:
            # The orders of the completed rounds are valid.
            if self._several:
                raise
            self._stop()
        if ordering is None:
            return shown, None
        found = reordered(shown, ordering, number, config.periods)
        back = ~keeps(self._limited.resolved, _reached(found, config.limits))
        changed = (np.asarray(found.designs.order) != np.asarray(shown.designs.order)).any(axis=1)
        if self._plans and self._closed.closed is not None and (some := np.flatnonzero(changed & ~back)).size:
            # The front was closed with the old orders, so moves are tried again with the new ones.
            designs, values = jax.tree.map(lambda leaf: np.asarray(leaf)[some], (found.designs, found.objectives))
            assert self._state is not None
            state = gathered(self._state, self._spread)
            back[some] |= open_to_moves(designs, values + np.asarray(found.offsets), state, self._space, config)
        lost = np.flatnonzero(back & changed)
        if lost.size:
            found = replaced(found, lost, shown.take(lost))
            self._listener.announce(
                f"{plural(len(lost), 'design')} of these put back in the old order: with the new one, the chiplets "
                "would be better placed elsewhere, or a requirement would be broken"
            )
        return found, dataclasses.replace(ordering, changed=int(changed.sum()) - len(lost))


def _host_designs(genes: Any, rows: tuple[np.ndarray, ...]) -> Design:
    """The designs of the individuals at `rows`, NumPy arrays."""
    chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], genes)
    return jax.tree.map(np.asarray, designs_of(chosen))


def _reached(evaluated: Evaluated, limits: tuple[Limit, ...]) -> Reached:
    """The values that the checks of requirements and of the user's own limits read."""
    reports = evaluated.reports
    template = np.asarray(evaluated.designs.template)
    own = tuple((limit.name, np.asarray(value_of(limit, reports, np)), limit.most) for limit in limits)
    return Reached(np.asarray(reports.objectives), template, reports.tenants, reports.chiplets, own)


def mapped(
    setup: Setup,
    settings: Settings,
    progress: Callable[[MapperProgress], None],
    cache: TableStore | None,
    devices: Devices | None,
) -> MappingTables:
    """The layer mapper's tables for the seed of the settings; of several processes, the first one maps.

    Args:
        setup: the networks, and the hardware to choose from.
        settings: of the search.
        progress: called with the mapper's progress.
        cache: where its sets are kept between runs; None for nowhere.
        devices: on which it runs; None for JAX's default device.
    """
    key, _, _ = search_keys(settings.seed)
    mapper = LayerMapper(
        setup.application.unique_layers, setup.templates, setup.technology, settings.mapper,
        rates=settings.mapper_rates, progress=progress, cache=cache, devices=devices,
    )  # fmt: skip
    return agreed(lambda: mapper.search(key), devices)


def compile_search(problem: DesignProblem, settings: Settings | None = None) -> None:
    """Compiles the programs of a `Search` with the same arguments, to fill a cache of programs; searches nothing.

    Programs for the rounds of `settings.remap`, for seeds and for the user's own designs are not compiled.

    Args:
        problem: the problem.
        settings: default the `small` budget.

    Raises:
        InputError: the networks lack an objective.
    """
    settings = Settings() if settings is None else settings
    settings.goals.check(problem.application)
    precompilation = Precompilation(problem, settings)
    try:
        layers = problem.application.unique_layers
        LayerMapper(
            layers, problem.resolved.templates, problem.technology, settings.mapper, rates=settings.mapper_rates
        ).compile()
        precompilation.searched()
        precompilation.reported()
    finally:
        precompilation.end()


def _floor(problem: DesignProblem, ensemble: Ensemble | None, tables: MappingTables, wires: Wires) -> np.ndarray:
    """`[3]` float, lower bounds on the objectives of all designs; of several application models, the largest."""
    setup, chiplets = problem.setup, problem.most_chiplets
    if ensemble is None:
        return scenario_bounds(setup, tables, wires, chiplets).objectives
    rows, sizes = [], ChipletSizes.of_tables(tables)  # chiplets are sized for all models
    for member in ensemble.models:
        one = member.application
        own, hops = own_tables(one, setup.application, tables), own_wires(one, setup.application, wires)
        bounds = scenario_bounds(setup.of(one), own, hops, chiplets, sizes)
        rows.append(bounds.objectives)
    return np.max(rows, axis=0)


def _rows(progress: Progress, config: MohamConfig, known: int, before_s: float) -> list[dict[str, Any]]:
    """History rows of the generations that one report covers, from generation `known` on.

    `before_s` are the seconds that the search had taken before it was resumed.
    """
    count = len(progress.hypervolume)
    first = progress.generation - count + 1
    per_generation = config.candidates
    rows = [
        {
            "generation": first + i,
            "evaluations": progress.evaluations - (count - 1 - i) * per_generation,
            "seconds": round(before_s + progress.seconds - (count - 1 - i) * progress.step_s / max(count, 1), 3),
            "hypervolume": progress.hypervolume[i],
            "front_size": progress.front_size[i],
            "stability": progress.stability[i],
        }
        for i in range(count)
    ]
    return [row for row in rows if row["generation"] >= known]
