"""The main road: networks and templates in, a front of multi-chiplet systems with their schedules out.

Steps (MOHaM, Algorithm 1): the layer mapper fills the Pareto tables of every unique layer on every template, the
global scheduler searches packages and schedules over them, and the archive is evaluated again in double precision.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.devices import Devices, DevicesLike, agreed, chosen_devices, gathered
from mohamjax.errors import InputError
from mohamjax.hardware import (
    Technology,
    Template,
    check_tiles,
    fits,
    load_technology,
    load_templates,
    package_to_dict,
    packaged_templates,
    technology_hash,
    template_arrays,
    template_to_dict,
    with_memory,
)
from mohamjax.mapping import MappingTables, Wires, area, recast
from mohamjax.programs import machinery
from mohamjax.schedule import Design, DesignFile, Evaluated, reevaluate, scenario_bounds
from mohamjax.schedule.ensemble import own_tables, own_wires
from mohamjax.schedule.front import front_index
from mohamjax.schedule.measures import DEFAULT, box_share, check_measures, measure_named, of_frames, offsets
from mohamjax.schedule.periods import frame_jobs
from mohamjax.schedule.setup import Setup
from mohamjax.search.box import standing
from mohamjax.search.config import MapperProgress, MohamConfig
from mohamjax.search.context import MohamContext, build_context, check_tables, staffed
from mohamjax.search.finish import descents, finishing
from mohamjax.search.injection import check_injected, inject
from mohamjax.search.loop import SearchState
from mohamjax.search.mapper import compile_mapper, map_layers
from mohamjax.search.moham import LIMIT_TOLERANCE, Progress, designs_of, run, state_like
from mohamjax.search.places import Closing
from mohamjax.search.plans import Plan
from mohamjax.search.rehearsal import Rehearsal
from mohamjax.search.remap import Remapper
from mohamjax.search.requirements import Site, keeps, out_of_reach, survey, unmet
from mohamjax.search.resumed import (
    check_grown,
    check_same_search,
    check_state,
    fingerprint,
    history_of,
    named_rates,
    tables_hash,
)
from mohamjax.search.seeding import seed_designs
from mohamjax.search.settings import Settings
from mohamjax.search.spread import check_islands
from mohamjax.search.stores import Checkpoint, CheckpointStore, TableStore
from mohamjax.struct import cast, plain, shown_briefly, take
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel, Ensemble

__all__ = [
    "Explored",
    "Listener",
    "SearchResult",
    "Silent",
    "co_optimise",
    "compile_search",
    "explore",
    "prepare",
    "runnable",
]


_STOPPED = "stopped by hand; writing what was found"


class Listener(Protocol):
    """Who wants to know how the search goes; every method may do nothing."""

    def announce(self, text: str) -> None:
        """A step begins, for instance a compile."""

    def mapping(self, progress: MapperProgress) -> None:
        """The layer mapper went on."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Some generations are done, out of `generations`."""


class Silent:
    """A listener that ignores everything."""

    def announce(self, text: str) -> None:
        """Ignores it."""

    def mapping(self, progress: MapperProgress) -> None:
        """Ignores it."""

    def progress(self, progress: Progress, generations: int) -> None:
        """Ignores it."""


@shown_briefly
@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        front: non-dominated designs in double precision, by rising latency.
        history: one row per generation, the columns of `history.csv`.
        config: everything needed to repeat the search; plain data.
        timings: seconds by step: `mapping_s`, `compile_s`, `search_s`, `finish_s`, of it `closing_s`,
            `reevaluation_s`; and `designs_per_s`.
        tables: the Pareto tables that the search used.
        interrupted: the search was stopped by hand before its end.
        plans: of the front's designs, leading axis `[N]`; None for a search of layers.
    """

    front: Evaluated
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    tables: MappingTables
    interrupted: bool
    plans: Plan | None = None

    @property
    def hypervolume(self) -> float:
        """Share of the search's box that the front dominates, on log axes, in double precision."""
        return box_share(
            self.front.objectives + self.front.offsets, self.config["ideal_point"], self.config["reference_point"]
        )


def runnable(application: ApplicationModel, templates: Sequence[Template]) -> np.ndarray:
    """Which template runs which unique layer, `[U, T]` bool.

    Raises:
        InputError: no template runs some layer; checked before any long computation.
    """
    table = np.zeros((len(application.unique_layers), len(templates)), bool)
    for u, layer in enumerate(application.unique_layers):
        reasons = [fits(t, layer.type, layer.shape) for t in templates]
        table[u] = [reason is None for reason in reasons]
        if not table[u].any():
            first = application.unique_of_layer.index(u)
            network = application.networks[application.network_of_layer[first]].name
            raise InputError(
                f"no template can run this layer: {reasons[0]}",
                item=f"{network}/{application.layers[first].name}",
                remedy="add a template that runs it",
            )
    return table


def prepare(
    application: ApplicationModel,
    templates: Sequence[Template],
    settings: Settings,
    designs: DesignFile | None = None,
) -> Site:
    """Everything that can be checked before the layer mapper runs.

    Here templates come into the package: those of the site have its memory (`with_memory`), for the layer mapper and
    all that follows.

    Args:
        application: the networks.
        templates: templates to choose from.
        settings: settings of the search.
        designs: the user's own designs.

    Returns:
        Requirements brought together with networks and templates.

    Raises:
        InputError: as `co_optimise`.
    """
    config = settings.moham
    check_tiles(settings.package, config.tiles)
    _check_objectives(settings, application)
    templates = with_memory(templates, settings.package.memory)
    site = survey(settings.requirements, application, templates, config.tiles, config.max_chiplets)
    staffed(application, runnable(application, site.templates), site)
    technology = load_technology() if settings.technology is None else settings.technology
    _check_fixed_area(site, technology)
    if designs is not None:
        check_injected(designs, application, site.templates)
    return site


def _check_objectives(settings: Settings, application: ApplicationModel) -> None:
    """Complains about objectives that the networks have not, and exponents that do not fit them."""
    config = settings.moham
    check_measures(config.objectives, application)
    if of_frames(config.objectives):
        frame_jobs(application, config.periods)
    if config.objective == "product":
        if len(settings.weights) != len(config.objectives):
            raise InputError(
                f"are {len(settings.weights)}, there are {len(config.objectives)} objectives",
                item="argument `weights`",
                remedy="give an exponent for each",
            )
        for name, weight in zip(config.objectives, settings.weights, strict=True):
            if weight and not measure_named(name).log:
                raise InputError(
                    f"give {name} an exponent, which may be zero or less",
                    item="argument `weights`",
                    remedy=f"give it 0, or minimise it alone: the argument `objective={name}`",
                )


def _check_fixed_area(site: Site, technology: Technology) -> None:
    """Complains where chiplets of fixed sizes alone are larger than the limit on area."""
    fixed = [site.templates[t] for t in site.tiles[site.fixed] if site.templates[t].sizes == "fixed"]
    if not fixed:
        return
    total = float(jnp.sum(jax.vmap(area)(template_arrays(fixed, technology).machine))) * 1e-6
    if total > site.limits[2] * (1 + LIMIT_TOLERANCE):
        raise InputError(
            f"the chiplets of fixed sizes alone take {total:.4g} mm^2, the limit is {site.limits[2]:.4g}",
            file=site.file or None,
            item="limits.area_mm2",
            remedy="raise it, or fix smaller chiplets",
        )


def _record(setup: Setup, settings: Settings) -> dict[str, Any]:
    """The content of `config.yaml`."""
    application, technology = setup.application, setup.technology
    return {
        "format": "config/1",
        "scenario": application.name,
        "budget": settings.budget,
        "seed": settings.seed,
        "networks": [
            {"name": n.name, "source": n.source, "layers": len(n.layers), **n.asked} for n in application.networks
        ],
        "templates": [template_to_dict(t) for t in setup.templates],
        "technology_hash": technology_hash(technology),
        "static_energy": technology.static_share is not None,
        "package": package_to_dict(setup.package),
        "mapper": plain(settings.mapper),
        "search": plain(settings.moham),
        "rates": named_rates(settings.rates),
        "plan_rates": named_rates(settings.plan_rates),
        "remap": plain(settings.remap),
        "requirements": settings.requirements.to_dict(),
        "weights": list(settings.weights),
        **machinery(),
    }


def co_optimise(
    application: ApplicationModel,
    templates: Sequence[Template] | None = None,
    settings: Settings | None = None,
    *,
    listener: Listener | None = None,
    designs: DesignFile | None = None,
    tables: MappingTables | None = None,
    cache: TableStore | None = None,
    checkpoint: CheckpointStore | None = None,
    resume: bool = False,
    checkpoint_every_s: float = 30.0,
    devices: DevicesLike = None,
) -> SearchResult:
    """Searches packages and schedules for networks that run together.

    An interrupt (Ctrl-C) while generations run, or while the front of generations of this call is finished, ends the
    search cleanly with what was found so far. At any other time, and among several processes, it is raised; with a
    `checkpoint`, `resume` goes on.

    Args:
        application: the networks.
        templates: sub-accelerator templates; default the packaged ones.
        settings: default the `small` budget.
        listener: told how it goes.
        designs: designs of the user's own that are evaluated first (`io.read_designs`).
        tables: mappings to choose from, of the templates that the requirements leave (`prepare`); default those that
            the layer mapper finds. Rounds of `settings.remap` add to them.
        cache: where the layer mapper's sets are kept between runs (`io.mapping_cache`); None keeps none.
        checkpoint: where the state is kept now and then, and at the end (`io.CheckpointFile`); None keeps none.
        resume: go on from what is kept there; where there is nothing yet, from the beginning.
        checkpoint_every_s: seconds between checkpoints, which are written between calls of the jitted step.
        devices: on which the search runs: a number of them, `all`, or a list; default the one that JAX takes by itself.
            They do not decide on the result, and a search can be resumed on others. Among several processes
            (`jax.distributed`) all call this with the same arguments and get the same result; the first one alone maps
            layers, reads and writes `cache` and `checkpoint`, and tells `listener`.

    Returns:
        The front and how it was found.

    Raises:
        InputError: some layer runs on no template, the requirements cannot be met or no design found meets them, the
            designs do not fit the search, the checkpoint is of another search, there are not so many devices, or they
            do not divide the islands.
    """
    spread = chosen_devices(devices)
    templates = tuple(load_templates(list(packaged_templates())) if templates is None else templates)
    settings = Settings() if settings is None else settings
    listener = Silent() if listener is None or (spread and not spread.is_first) else listener
    check_islands(spread, settings.moham.islands)
    with contextlib.ExitStack() as last_of_all:
        explored = explore(
            application, templates, settings, listener, tables=tables, designs=designs, cache=cache,
            checkpoint=checkpoint, resume=resume, checkpoint_every_s=checkpoint_every_s, devices=spread,
            last_of_all=last_of_all,
        )  # fmt: skip
        tick = time.perf_counter()
        if explored.rehearsal is not None:
            explored.rehearsal.reported()
        found = explored.designs
        evaluated = reevaluate(
            explored.setup, explored.tables.mapping, np.asarray(explored.tables.count), found,
            measures=settings.moham.objectives, periods=settings.moham.periods,
        )  # fmt: skip
        reports = evaluated.reports
        reached = np.asarray(reports.objectives), np.asarray(evaluated.designs.template), reports.tenants
        within = np.flatnonzero(keeps(explored.site, *reached))
        if not within.size:
            raise unmet(explored.site, *reached, kept=checkpoint is not None)
        front = within[front_index(evaluated.take(within).objectives)]
        whole = evaluated.take(front)
        closed = None if explored.closed is None else explored.closed[front]
        few = standing(whole.objectives, whole.offsets, explored.box, settings, listener.announce, closed)
        return SearchResult(
            front=whole.take(few),
            history=explored.history,
            config=explored.config,
            timings={**explored.timings, "reevaluation_s": time.perf_counter() - tick},
            tables=explored.tables,
            interrupted=explored.interrupted,
            plans=None if explored.plans is None else take(explored.plans, front[few]),
        )


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Explored:
    """What a search has when its generations are over, before its designs are evaluated again.

    Attributes:
        setup: networks and hardware; the templates are those of the site.
        site: requirements brought together with them.
        tables: the Pareto tables that the search used.
        designs: `[N, ...]`, those of the archives, or where there are none of the population; NumPy arrays.
        plans: their plans; None for a search of layers.
        closed: `[N]` bool, which of them no move of chiplets betters (`places.Closing`); None where closing did not
            come to its end.
        history: as in `SearchResult`, and so are those that follow.
        config: `SearchResult.config`.
        timings: all but `reevaluation_s`.
        interrupted: as in `SearchResult`.
        rehearsal: what compiles the evaluation in the meantime; None where nothing does.
    """

    setup: Setup
    site: Site
    tables: MappingTables
    designs: Design
    plans: Plan | None
    closed: np.ndarray | None
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    interrupted: bool
    rehearsal: Rehearsal | None

    @property
    def box(self) -> tuple[Any, Any]:
        """Ideal and reference point of the hypervolume."""
        return self.config["ideal_point"], self.config["reference_point"]


def explore(
    application: ApplicationModel,
    templates: Sequence[Template],
    settings: Settings,
    listener: Listener,
    *,
    tables: MappingTables | None,
    designs: DesignFile | None = None,
    cache: TableStore | None,
    checkpoint: CheckpointStore | None,
    resume: bool,
    checkpoint_every_s: float,
    devices: Devices | None,
    last_of_all: contextlib.ExitStack,
    ensemble: Ensemble | None = None,
) -> Explored:
    """The search itself; arguments as of `co_optimise`.

    Args:
        application: the networks.
        templates: templates to choose from.
        settings: settings.
        listener: told how it goes.
        tables: mappings to choose from, or None.
        designs: designs of the user's own, or None; none for an ensemble.
        cache: keeps the mapper's sets.
        checkpoint: keeps the state.
        resume: go on from it.
        checkpoint_every_s: seconds between checkpoints.
        devices: on which the search runs.
        last_of_all: done with when the search is over, however it ends.
        ensemble: application models, of which `application` is the joined one: they all run on one package.
    """
    technology = load_technology() if settings.technology is None else settings.technology
    config = settings.moham
    site = prepare(application, templates, settings, designs)
    setup = Setup(application, site.templates, technology, settings.package)
    plans = config.genes == "plans"
    map_key, context_key, search_key = jax.random.split(jax.random.key(settings.seed), 3)
    marks = {"fingerprint": fingerprint(setup, settings, designs, ensemble)}
    saved: Checkpoint | None = None
    if resume:
        if checkpoint is None:
            raise InputError("there is no checkpoint to go on from", item="resume", remedy="give the checkpoint")
        saved = agreed(checkpoint.read, devices)
        check_same_search(saved, marks)
        if saved is None:
            # A search that was stopped before its first checkpoint: what it did is done again, with the same result.
            listener.announce("no checkpoint yet; starting from the beginning")

    began = time.perf_counter()
    rates = settings.plan_rates if plans else settings.rates
    rehearsal: Rehearsal | None = None

    def mapping(progress: MapperProgress) -> None:
        nonlocal rehearsal
        # Several processes compile when all of them begin to search: one alone would wait for the others.
        alone = devices is None or not devices.several_processes
        if rehearsal is None and alone and ensemble is None and progress.cached < progress.problems:
            # There is time for it while layers are mapped.
            rehearsal = Rehearsal(setup, site, settings, rates, devices)
            last_of_all.callback(rehearsal.end)
        listener.mapping(progress)

    if tables is None:
        listener.announce(
            f"mapping {plural(len(application.unique_layers), 'unique layer')} "
            f"on {plural(len(site.templates), 'template')}"
        )
        sets = agreed(
            lambda: map_layers(
                map_key, application.unique_layers, site.templates, technology, settings.mapper, progress=mapping,
                cache=cache, devices=devices,
            ),
            devices,
        )  # fmt: skip
    else:
        check_tables(tables, setup)
        sets = recast(tables, np.float32)
    mapping_s = time.perf_counter() - began

    single = dataclasses.replace(setup, technology=cast(technology, jnp.float32))
    injected = None
    if designs is not None:
        sets, injected = inject(designs, single, sets, site, config.tiles)
    remapper = None
    if plans and (settings.remap.every or settings.remap.polish):
        remapper = Remapper(
            jax.random.fold_in(map_key, 1), single, settings.mapper, settings.remap, config.generations, sets,
            progress=listener.mapping, devices=devices,
        )  # fmt: skip
        sets = remapper.tables
    context = build_context(context_key, single, sets, config, site, settings.weights, ensemble=ensemble)
    if np.isfinite(site.limits).any():
        floor = _floor(setup, ensemble, sets, context.bench.wires, config)
        hopeless = out_of_reach(site, floor, LIMIT_TOLERANCE)
        if hopeless is not None:
            raise hopeless
    seeds = seed_designs(setup, sets, config, context.bench.unique.shape[0], site, injected=injected)
    marks["tables"] = tables_hash(sets, seeds)
    check_same_search(saved, marks)
    state: SearchState | None = None
    history: list[dict[str, Any]] = []
    grown = {} if remapper is None else remapper.saved()
    if saved is not None:
        state, grown = saved.restore((state_like(context, config), grown))
        if remapper is not None:
            check_grown(saved, grown, np.asarray(sets.count), settings.remap.entries, len(remapper.schedule))
            remapper.restore(grown)
            context = remapper.context(context)
        history = history_of(saved)
        check_state(saved, state, history, context)

    interrupted, saved_s, last, waited_s = False, time.perf_counter(), None, 0.0
    before_s = history[-1]["seconds"] if history else 0.0

    def save() -> None:
        if checkpoint is not None and state is not None:
            kept = gathered(state, devices)
            if devices is None or devices.is_first:
                checkpoint.write((kept, grown), {**marks, "history": history})

    def due() -> bool:
        return time.perf_counter() - saved_s > checkpoint_every_s

    steps = run(
        search_key, context, config, rates=rates, seeds=seeds, resume=state, history=history,
        announce=listener.announce, projects=site.projects, remapper=remapper, devices=devices,
    )  # fmt: skip
    tick = time.perf_counter()
    try:
        if rehearsal is not None:
            listener.announce("compiling the search")
            rehearsal.searched()
        waited_s = time.perf_counter() - tick
        for step in steps:
            state, last = step
            # Tables as of this state: a round that is cut short is done again.
            grown = {} if remapper is None else remapper.saved()
            history.extend(_rows(last, config, len(history), before_s))
            listener.progress(last, config.generations if remapper is None else remapper.end)
            if agreed(due, devices):
                save()
                saved_s = time.perf_counter()
    except KeyboardInterrupt:
        # Several processes hear of it at different moments: what they have is not of one generation.
        if state is None or (devices is not None and devices.several_processes):
            raise
        interrupted = True
        listener.announce(_STOPPED)
    save()
    state = gathered(state, devices)
    assert state is not None
    if remapper is not None:
        sets, context = remapper.tables, remapper.context(context)
    tick, finish_s, closed = time.perf_counter(), 0.0, Closing()
    if plans and not interrupted:
        # For the front alone: the checkpoint stays as the search left it, so that more generations go on from there.
        state, interrupted, closed = _finish(state, context, settings, listener, devices, searched=last is not None)
        finish_s = time.perf_counter() - tick

    if thinned := int(np.asarray(state.archive.thinned).sum()):
        listener.announce(
            f"the archive was full: {thinned:,} times a design that nothing dominated then was given up, in the "
            f"densest place; the argument `archive` keeps more than {config.archive}"
        )
    listener.announce("evaluating the front again in double precision")
    genes: Any = state.archive.genes
    kept = np.nonzero(np.asarray(state.archive.valid))
    no_better = None if closed.closed is None else closed.closed[kept]
    if not kept[0].size:
        # No design keeps the requirements. The population holds those that come nearest; what they reach, which the
        # search hides behind its penalty, is said.
        no_better = None
        kept, genes = np.nonzero(np.asarray(state.population.rank) >= 0), state.population.genes
    genes = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], genes)
    return Explored(
        setup=setup,
        site=site,
        tables=sets,
        designs=designs_of(genes),
        plans=genes.plan if plans else None,
        closed=no_better,
        history=history,
        config=_record(setup, settings)
        | {"reference_point": plain(context.reference), "ideal_point": plain(context.ideal)}
        | ({} if config.objectives == DEFAULT else {"offsets": plain(offsets(config.objectives, application))})
        | ({"closing": closed.counts} if closed.rounds else {}),
        timings={
            "mapping_s": mapping_s,
            "compile_s": waited_s + (last.compile_s if last else 0.0),
            "search_s": last.seconds if last else 0.0,
            "finish_s": finish_s,
            "closing_s": closed.seconds,
            "designs_per_s": last.fresh_evaluations / max(last.seconds, 1e-9) if last else 0.0,
        },
        interrupted=interrupted,
        rehearsal=rehearsal,
    )


def _finish(
    state: SearchState,
    context: MohamContext,
    settings: Settings,
    listener: Listener,
    devices: Devices | None,
    *,
    searched: bool,
) -> tuple[SearchState, bool, Closing]:
    """The whole state after `finish.finishing`, whether an interrupt cut it short, and how far closing came.

    Where no generation was `searched`, since a checkpoint had them all, an interrupt is raised: there may be a front
    of them already, and a whole one.
    """
    changed = "trying changes of the fastest designs, then " if descents(settings.moham) else ""
    last = ", then closing it over places" if settings.moham.end_rounds else ""
    listener.announce(f"{changed}refitting the front{last}")
    closed, rates = Closing(), settings.plan_rates

    def told(done: Closing) -> None:
        nonlocal closed
        if done.rounds != closed.rounds:
            listener.announce(f"closing the front over places, {done}")
        closed = done

    try:
        for step in finishing(state, context, settings.moham, rates=rates, devices=devices, told=told):
            # An interrupt is heard while one waits.
            state = jax.block_until_ready(step)
    except KeyboardInterrupt:
        if not searched or (devices is not None and devices.several_processes):
            raise
        listener.announce(_STOPPED)
        return gathered(state, devices), True, closed
    return gathered(state, devices), False, closed


def _floor(
    setup: Setup, ensemble: Ensemble | None, tables: MappingTables, wires: Wires, config: MohamConfig
) -> np.ndarray:
    """`[3]` float, what no design goes below; of several application models, what some model does not."""
    if ensemble is None:
        return scenario_bounds(setup, tables, wires, config.max_chiplets).objectives
    rows = []
    for member in ensemble.models:
        one = member.application
        own, hops = own_tables(one, setup.application, tables), own_wires(one, setup.application, wires)
        bounds = scenario_bounds(setup.of(one), own, hops, config.max_chiplets)
        rows.append(bounds.objectives)
    return np.max(rows, axis=0)


def compile_search(
    application: ApplicationModel, templates: Sequence[Template] | None = None, settings: Settings | None = None
) -> None:
    """Compiles what `co_optimise` runs for the same arguments, and searches nothing: for a cache of programs.

    Programs of `settings.remap`'s rounds, of the seeds and of the user's own designs are not among them.

    Args:
        application: the networks.
        templates: as in `co_optimise`.
        settings: as in `co_optimise`.

    Raises:
        InputError: as `prepare`.
    """
    templates = tuple(load_templates(list(packaged_templates())) if templates is None else templates)
    settings = Settings() if settings is None else settings
    technology = load_technology() if settings.technology is None else settings.technology
    site = prepare(application, templates, settings)
    rates = settings.plan_rates if settings.moham.genes == "plans" else settings.rates
    rehearsal = Rehearsal(Setup(application, site.templates, technology, settings.package), site, settings, rates)
    try:
        compile_mapper(application.unique_layers, site.templates, technology, settings.mapper)
        rehearsal.searched()
        rehearsal.reported()
    finally:
        rehearsal.end()


def _rows(progress: Progress, config: MohamConfig, known: int, before_s: float) -> list[dict[str, Any]]:
    """History rows of the generations that one report covers, without those already known.

    `before_s` are the seconds that the search had taken when it was resumed.
    """
    count = len(progress.hypervolume)
    first = progress.generation - count + 1
    per_generation = config.islands * (config.population + config.immigrant_count)
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
