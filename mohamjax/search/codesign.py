"""The main road: networks and templates in, a front of multi-chiplet systems with their schedules out.

Steps (MOHaM, Algorithm 1): the layer mapper fills the Pareto tables of every unique layer on every template, the
global scheduler searches packages and schedules over them, and the archive is evaluated again in double precision.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import platform
import time
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import __version__
from mohamjax.errors import InputError
from mohamjax.hardware import (
    PackageParameters,
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
)
from mohamjax.io.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from mohamjax.io.designs import read_designs
from mohamjax.mapping import MappingTables, area, recast
from mohamjax.schedule import Design, DesignFile, Evaluated, non_dominated, reevaluate, scenario_bounds
from mohamjax.search.config import PAPER_RATES, WEIGHTS, MohamConfig, Rates, RemapConfig
from mohamjax.search.context import build_context, check_tables, staffed
from mohamjax.search.injection import check_injected, inject
from mohamjax.search.loop import SearchState
from mohamjax.search.mapper import MapperConfig, MapperProgress, cache_folder, map_layers
from mohamjax.search.moham import LIMIT_TOLERANCE, Progress, designs_of, refitted, run, state_like
from mohamjax.search.plan_operators import PlanRates
from mohamjax.search.remap import Remapper
from mohamjax.search.requirements import Requirements, Site, keeps, out_of_reach, survey, unmet
from mohamjax.search.seeding import seed_designs
from mohamjax.struct import plain
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel

__all__ = [
    "BUDGETS",
    "PRESETS",
    "Budget",
    "ExpectedCost",
    "Listener",
    "SearchResult",
    "Settings",
    "co_optimise",
    "expected_cost",
    "prepare",
    "runnable",
]


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much a search may spend.

    Attributes:
        mapper: settings of the layer mapper.
        moham: settings of the co-optimiser.
        remap: how often layers are mapped again on chiplets of the front.
    """

    mapper: MapperConfig
    moham: MohamConfig
    remap: RemapConfig


BUDGETS = {
    "tiny": Budget(
        MapperConfig(population=48, generations=8, descent=8),
        MohamConfig(population=128, generations=40, seed_batches=8),
        RemapConfig(every=0),
    ),
    "small": Budget(
        MapperConfig(population=96, generations=15), MohamConfig(population=250, generations=200), RemapConfig()
    ),
    "paper": Budget(
        MapperConfig(population=120, generations=15), MohamConfig(population=250, generations=300), RemapConfig()
    ),
}
"""Named budgets of the command line: `tiny` for a look, `small` the default, `paper` that of MOHaM's Table 4."""


PRESETS = ("default", "layers", "paper")
"""Presets of the command line, see `Settings.preset`."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that a search depends on besides networks and templates.

    Attributes:
        budget: name of a budget, for the record.
        mapper: settings of the layer mapper.
        moham: settings of the co-optimiser.
        rates: operator probabilities of a search of layers.
        plan_rates: those of a search of plans.
        remap: how often layers are mapped again on chiplets of the front; a search of layers never does.
        package: package parameters.
        technology: energy and area tables; None for the packaged ones.
        requirements: what is demanded of every design.
        weights: exponents of latency, energy and area for `moham.objective = "product"`.
        seed: seed of all randomness.
        cache: keep and reuse the mapper's tables on disk.
    """

    budget: str = "small"
    mapper: MapperConfig = BUDGETS["small"].mapper
    moham: MohamConfig = BUDGETS["small"].moham
    rates: Rates = dataclasses.field(default_factory=Rates)
    plan_rates: PlanRates = dataclasses.field(default_factory=PlanRates)
    remap: RemapConfig = BUDGETS["small"].remap
    package: PackageParameters = dataclasses.field(default_factory=PackageParameters)
    technology: Technology | None = None
    requirements: Requirements = dataclasses.field(default_factory=Requirements)
    weights: tuple[float, float, float] = WEIGHTS["product"]
    seed: int = 0
    cache: bool = True

    @classmethod
    def preset(cls, budget: str = "small", *, preset: str = "default", **changes: Any) -> Settings:
        """Settings of a named budget, with the operators of a preset.

        Args:
            budget: a key of `BUDGETS`.
            preset: `default`; `layers`: a search that moves single layers, from list schedules on, as the default was
                before plans; or `paper`: rates, rate unit and contention as MOHaM prints them.
            changes: further fields of `Settings`.

        Raises:
            InputError: unknown budget or preset.
        """
        if budget not in BUDGETS:
            raise InputError(f"unknown budget {budget!r}", item="--budget", remedy=f"use one of {', '.join(BUDGETS)}")
        if preset not in PRESETS:
            raise InputError(f"unknown preset {preset!r}", item="--preset", remedy=f"use one of {', '.join(PRESETS)}")
        chosen = BUDGETS[budget]
        base = cls(budget=budget, mapper=chosen.mapper, moham=chosen.moham, remap=chosen.remap)
        if preset != "default":
            moham = dataclasses.replace(base.moham, genes="layers", seeded=True)
            base = dataclasses.replace(base, moham=moham, remap=RemapConfig(every=0))
        if preset == "paper":
            base = dataclasses.replace(
                base,
                moham=dataclasses.replace(base.moham, rate_unit="individual", seeded=False, scale="linear"),
                rates=PAPER_RATES,
                package=PackageParameters(contention="interface"),
            )
        return dataclasses.replace(base, **changes)


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


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        front: non-dominated designs in double precision, by rising latency.
        history: one row per generation, `io.results.HISTORY_COLUMNS`.
        config: everything needed to repeat the search; plain data.
        timings: seconds by step: `mapping_s`, `compile_s`, `search_s`, `reevaluation_s`; and `designs_per_s`.
        tables: the Pareto tables that the search used.
        interrupted: the search was stopped by hand before its end.
    """

    front: Evaluated
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    tables: MappingTables
    interrupted: bool


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
    designs: str | pathlib.Path | None = None,
) -> tuple[Site, DesignFile | None]:
    """Everything that can be checked before the layer mapper runs.

    Args:
        application: the networks.
        templates: templates to choose from.
        settings: settings of the search.
        designs: file of the user's own designs.

    Returns:
        Requirements brought together with networks and templates, and the designs of the file.

    Raises:
        InputError: as `co_optimise`.
    """
    config = settings.moham
    check_tiles(settings.package, config.tiles)
    site = survey(settings.requirements, application, templates, config.tiles, config.max_chiplets)
    staffed(application, runnable(application, site.templates), site)
    technology = load_technology() if settings.technology is None else settings.technology
    _check_fixed_area(site, technology)
    if designs is None:
        return site, None
    file = read_designs(designs, technology=technology)
    check_injected(file, application, site.templates, source=str(designs))
    return site, file


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


def fingerprint(
    application: ApplicationModel,
    templates: Sequence[Template],
    settings: Settings,
    technology: Technology,
    designs: str | pathlib.Path | None,
) -> str:
    """Hash of the inputs and settings that decide what a search does; a checkpoint goes on only under the same one."""
    moham = dataclasses.asdict(settings.moham)
    for loose in ("generations", "chunk", "stop", "window", "delta"):
        moham.pop(loose)
    record = {
        "layers": [plain(layer) for layer in application.layers],
        "templates": [t.content_hash() for t in templates],
        "technology": technology_hash(technology),
        "package": package_to_dict(settings.package),
        "mapper": plain(settings.mapper),
        "moham": moham,
        "rates": _numbers(settings.rates),
        "plan_rates": _numbers(settings.plan_rates),
        "remap": plain(settings.remap),
        "requirements": settings.requirements.to_dict(),
        "weights": settings.weights,
        "seed": settings.seed,
        "designs": None if designs is None else hashlib.sha256(pathlib.Path(designs).read_bytes()).hexdigest(),
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(record, sort_keys=True, default=str).encode()).hexdigest()


def _numbers(rates: Rates | PlanRates) -> dict[str, float]:
    """Rates by name."""
    return {name: float(rate) for name, rate in dataclasses.asdict(rates).items()}


def _tables_hash(tables: MappingTables, seeds: Design | None) -> str:
    """Hash of what the mapper and the seeds made of the inputs: a checkpoint's designs point into these tables."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves((tables, seeds)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _same_search(saved: Checkpoint | None, marks: dict[str, str]) -> None:
    """Complains where a checkpoint was written under other marks."""
    if saved is not None and any(saved.meta.get(name) != mark for name, mark in marks.items()):
        raise InputError(
            "the checkpoint is of a search with other inputs or settings",
            file=saved.path,
            remedy="use the same command line, or start again without --resume",
        )


def _record(
    application: ApplicationModel, templates: Sequence[Template], settings: Settings, technology: Technology
) -> dict[str, Any]:
    """The content of `config.yaml`."""
    return {
        "format": "config/1",
        "scenario": application.name,
        "budget": settings.budget,
        "seed": settings.seed,
        "networks": [{"name": n.name, "source": n.source, "layers": len(n.layers)} for n in application.networks],
        "templates": [template_to_dict(t) for t in templates],
        "technology_hash": technology_hash(technology),
        "package": package_to_dict(settings.package),
        "mapper": plain(settings.mapper),
        "search": plain(settings.moham),
        "rates": _numbers(settings.rates),
        "plan_rates": _numbers(settings.plan_rates),
        "remap": plain(settings.remap),
        "requirements": settings.requirements.to_dict(),
        "weights": list(settings.weights),
        "versions": {
            "mohamjax": __version__,
            "jax": jax.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": jax.devices()[0].device_kind,
    }


def co_optimise(
    application: ApplicationModel,
    templates: Sequence[Template] | None = None,
    settings: Settings | None = None,
    *,
    listener: Listener | None = None,
    designs: str | pathlib.Path | None = None,
    tables: MappingTables | None = None,
    checkpoint: Any = None,
    resume: bool = False,
    checkpoint_every_s: float = 30.0,
) -> SearchResult:
    """Searches packages and schedules for networks that run together.

    An interrupt (Ctrl-C) during the search ends it cleanly with what was found so far.

    Args:
        application: the networks.
        templates: sub-accelerator templates; default the packaged ones.
        settings: default the `small` budget.
        listener: told how it goes.
        designs: a `designs/1` or `schedule/1` file whose designs are evaluated first.
        tables: mappings to choose from, of the templates that the requirements leave (`prepare`); default those that
            the layer mapper finds. Rounds of `settings.remap` add to them.
        checkpoint: npz file that the state is written to now and then, and at the end; None writes none.
        resume: go on from that file; where there is none yet, from the beginning.
        checkpoint_every_s: seconds between checkpoints, which are written between calls of the jitted step.

    Returns:
        The front and how it was found.

    Raises:
        InputError: some layer runs on no template, the requirements cannot be met or no design found meets them, the
            designs do not fit the search, or the checkpoint is of another search.
    """
    templates = tuple(load_templates(list(packaged_templates())) if templates is None else templates)
    settings = Settings() if settings is None else settings
    listener = Silent() if listener is None else listener
    technology = load_technology() if settings.technology is None else settings.technology
    config, package = settings.moham, settings.package
    site, file = prepare(application, templates, settings, designs)
    templates = site.templates
    plans = config.genes == "plans"
    map_key, context_key, search_key = jax.random.split(jax.random.key(settings.seed), 3)
    marks = {"fingerprint": fingerprint(application, templates, settings, technology, designs)}
    saved: Checkpoint | None = None
    if resume:
        if checkpoint is None:
            raise InputError("there is no checkpoint to go on from", item="resume", remedy="name the checkpoint file")
        if pathlib.Path(checkpoint).exists():
            saved = read_checkpoint(checkpoint)
            _same_search(saved, marks)
        else:
            # A search that was stopped before its first checkpoint: what it did is done again, with the same result.
            listener.announce(f"no checkpoint in {pathlib.Path(checkpoint).parent} yet; starting from the beginning")

    began = time.perf_counter()
    if tables is None:
        listener.announce(
            f"mapping {plural(len(application.unique_layers), 'unique layer')} on {plural(len(templates), 'template')}"
        )
        sets = map_layers(
            map_key,
            application.unique_layers,
            templates,
            technology,
            settings.mapper,
            progress=listener.mapping,
            cache=cache_folder() if settings.cache else None,
        )
    else:
        check_tables(tables, application, templates)
        sets = recast(tables, np.float32)
    mapping_s = time.perf_counter() - began

    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), technology)
    injected = None
    if file is not None:
        sets, injected = inject(file, application, sets, single, site, config.tiles, source=str(designs))
    remapper = None
    if plans and (settings.remap.every or settings.remap.polish):
        remapper = Remapper(
            jax.random.fold_in(map_key, 1), application, templates, single, package, settings.mapper, settings.remap,
            config.generations, sets, progress=listener.mapping,
        )  # fmt: skip
        sets = remapper.tables
    context = build_context(context_key, application, templates, single, sets, package, config, site, settings.weights)
    if np.isfinite(site.limits).any():
        wires = context.bench.wires
        floor = scenario_bounds(application, templates, technology, package, sets, wires, config.max_chiplets)
        hopeless = out_of_reach(site, floor.objectives, LIMIT_TOLERANCE)
        if hopeless is not None:
            raise hopeless
    seeds = seed_designs(application, sets, package, config, context.bench.unique.shape[0], site, injected=injected)
    marks["tables"] = _tables_hash(sets, seeds)
    _same_search(saved, marks)
    state: SearchState | None = None
    grown = {} if remapper is None else remapper.saved()
    if saved is not None:
        state, grown = saved.restore((state_like(context, config), grown))
        if remapper is not None:
            remapper.restore(grown)
            context = remapper.context(context)
    history: list[dict[str, Any]] = [] if saved is None else saved.meta["history"]

    interrupted, saved_s, last = False, time.perf_counter(), None
    before_s = history[-1]["seconds"] if history else 0.0

    def save() -> None:
        if checkpoint is not None and state is not None:
            write_checkpoint(checkpoint, (state, grown), {**marks, "history": history})

    steps = run(
        search_key, context, config, rates=settings.plan_rates if plans else settings.rates, seeds=seeds, resume=state,
        history=history, announce=listener.announce, projects=site.projects, remapper=remapper,
    )  # fmt: skip
    try:
        for step in steps:
            state, last = step
            # Tables as of this state: a round that is cut short is done again.
            grown = {} if remapper is None else remapper.saved()
            history.extend(_rows(last, config, len(history), before_s))
            listener.progress(last, config.generations if remapper is None else remapper.end)
            if time.perf_counter() - saved_s > checkpoint_every_s:
                save()
                saved_s = time.perf_counter()
    except KeyboardInterrupt:
        if state is None:
            raise
        interrupted = True
        listener.announce("stopped by hand; writing what was found")
    assert state is not None
    save()
    if remapper is not None:
        sets, context = remapper.tables, remapper.context(context)
    if plans and not interrupted:
        # For the front alone: the checkpoint stays as the search left it, so that more generations go on from there.
        state = refitted(state, context, config, rates=settings.plan_rates)

    if thinned := int(np.asarray(state.archive.thinned).sum()):
        listener.announce(
            f"the archive was full: {thinned:,} times a design that nothing dominated then was given up, in the "
            f"densest place; --archive keeps more than {config.archive}"
        )
    listener.announce("evaluating the front again in double precision")
    tick = time.perf_counter()
    genes: Any = state.archive.genes
    kept = np.nonzero(np.asarray(state.archive.valid))
    if not kept[0].size:
        # No design keeps the requirements. The population holds those that come nearest; what they reach, which the
        # search hides behind its penalty, is said.
        kept, genes = np.nonzero(np.asarray(state.population.rank) >= 0), state.population.genes
    found = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], designs_of(genes))
    evaluated = reevaluate(application, templates, technology, package, sets.mapping, np.asarray(sets.count), found)
    reached = np.asarray(evaluated.reports.objectives), np.asarray(evaluated.designs.template)
    within = np.flatnonzero(keeps(site, *reached))
    if not within.size:
        raise unmet(site, *reached)
    front = non_dominated(evaluated.take(within))
    return SearchResult(
        front=front,
        history=history,
        config=_record(application, templates, settings, technology)
        | {"reference_point": plain(context.reference), "ideal_point": plain(context.ideal)},
        timings={
            "mapping_s": mapping_s,
            "compile_s": last.compile_s if last else 0.0,
            "search_s": last.seconds if last else 0.0,
            "reevaluation_s": time.perf_counter() - tick,
            "designs_per_s": last.fresh_evaluations / max(last.seconds, 1e-9) if last else 0.0,
        },
        tables=sets,
        interrupted=interrupted,
    )


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


@dataclasses.dataclass(frozen=True)
class ExpectedCost:
    """What a search will take, roughly.

    Attributes:
        mappings: mappings that the layer mapper evaluates.
        designs: designs that the co-optimiser evaluates, at most: there may be fewer list schedules.
        seconds: on two cores, without compiling.
        compile_s: what compiling adds on two cores where no program is cached.
        memory_MB: of the process: Python, JAX and compiled programs, and the largest arrays together.
    """

    mappings: int
    designs: int
    seconds: float
    compile_s: float
    memory_MB: float


# Two cores of a shared server (experiments/scenarios.py, bench_mapper.py): 58,000 to 86,000 mappings/s, 12,000
# designs/s of 176 layers. Compiling takes much the same for every scenario.
_MAPPINGS_PER_S = 7e4
_LAYER_EVALUATIONS_PER_S = 2e6
_RUNS = 0.65  # share of the layers that some chiplet of a front runs (ar-vr), which mapping again counts with
_FINISH_S = 8.0  # the front in double precision, its bounds, figures and files
_COMPILE_S = 55.0
_BASE_MB = 1900.0  # searches of 128 to 1,024 designs take 1,600 to 2,000 (experiments/results/bench_search.md)


def expected_cost(application: ApplicationModel, pairs: int, settings: Settings) -> ExpectedCost:
    """Estimates what a search will take, from sizes alone.

    Args:
        application: the networks.
        pairs: (unique layer, template) problems of the mapper.
        settings: settings of the search.
    """
    mapper, moham, remap = settings.mapper, settings.moham, settings.remap
    plans = moham.genes == "plans"
    mappings = pairs * mapper.evaluations
    offspring = moham.islands * (moham.population + moham.immigrant_count)
    batches = moham.generations + (moham.seed_batches if moham.seeded else 1)
    layers, entries = len(application.layers), mapper.entries
    if plans and (remap.every or remap.polish):
        rounds = ((moham.generations - 1) // remap.every if remap.every else 0) + remap.polish
        batches += remap.polish * remap.settle + rounds * -(-moham.archive // moham.population)
        short = dataclasses.replace(mapper, generations=remap.generations, descent=remap.descent)
        mappings += rounds * int(_RUNS * remap.chiplets * len(application.unique_layers)) * short.evaluations
        entries += remap.entries
    designs = batches * offspring
    seconds = mappings / _MAPPINGS_PER_S + designs * layers / _LAYER_EVALUATIONS_PER_S + _FINISH_S
    # Per design: genes, one row of the tables per layer, and the fluid model's state; single precision.
    per_design = 4 * (layers * (3 + 40) + moham.tiles * 100)
    tables = 4 * pairs * entries * 400
    total = per_design * (moham.islands * (moham.population + moham.archive) + offspring) + tables
    return ExpectedCost(
        mappings=mappings, designs=designs, seconds=seconds, compile_s=_COMPILE_S, memory_MB=_BASE_MB + total / 1e6
    )
