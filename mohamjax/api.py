"""Public functions that combine several packages, as the command line does: files, mappings, searches, jobs."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections import abc
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from mohamjax.errors import InputError, wrong_type
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    Template,
    as_package,
    as_technology,
)
from mohamjax.io import designs as design_files
from mohamjax.io.checkpoint import CheckpointFile
from mohamjax.io.design_arrays import write_design_arrays
from mohamjax.io.documents import read_document
from mohamjax.io.files import check_format, locked_folder, prepare_folder, read_json
from mohamjax.io.formats import (
    DESIGNS_FORMAT,
    FLUID_FORMAT,
    JOB_TABLE_FORMAT,
    PACKAGE_SCHEDULE_FORMAT,
    SCHEDULE_FORMAT,
)
from mohamjax.io.job_tables import read_job_table
from mohamjax.io.mapping_cache import MappingCache, mapping_cache
from mohamjax.io.results import front_rows, write_search
from mohamjax.io.results_reader import read_results
from mohamjax.io.schedules import ScheduleFile, schedule_arrays
from mohamjax.jobs.config import JobGoals, JobSearchConfig
from mohamjax.jobs.job_problem import objective_names
from mohamjax.jobs.scheduler import JobFront, preset_named, run_method
from mohamjax.jobs.table import JobTable
from mohamjax.mapper.baselines import BaselineMapper, check_choice
from mohamjax.mapper.config import MapperConfig, MapperProgress, mapper_preset
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapper.one_axis import over_one_axis
from mohamjax.mapping import (
    MappingTables,
    stacked_layers,
    tabulate,
)
from mohamjax.problem.design_problem import DesignProblem, as_problem, search_keys
from mohamjax.problem.space import DesignSpace
from mohamjax.progress import ProgressLines
from mohamjax.reader import as_given, whole
from mohamjax.runtime.devices import DevicesLike, chosen_devices, is_first
from mohamjax.runtime.struct import cast, shown_briefly
from mohamjax.schedule import Design, DesignFile, Evaluated, SizedDesign, TimetableRow, told_of_little_use
from mohamjax.schedule import timetable as timetable_of
from mohamjax.schedule.decision import Decision
from mohamjax.schedule.decision import decide as decide_rows
from mohamjax.schedule.design import padded
from mohamjax.search.config import BUDGETS, Settings, changed
from mohamjax.search.generations import Listener
from mohamjax.search.result import SearchResult
from mohamjax.search.search import Search
from mohamjax.unico.choices import chosen_space, settings
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.search import CodesignProgress, CodesignResult, HardwareSearch
from mohamjax.unico.space import HardwareSpace
from mohamjax.workload import ApplicationLike, ApplicationModel, as_application, load_scenario


def load_onnx(*paths: str | os.PathLike[str], **options: Any) -> ApplicationModel:
    """Loads the networks of ONNX files, to run together.

    Args:
        paths: ONNX files, at least one; weights are not read.
        options: `batch`, `shapes`, `skip_unknown`, `warn` and `depthwise`, as for `load_scenario`.

    Returns:
        The application model: a network per file, in their order, each with its layers.

    Raises:
        InputError: a file cannot be read or holds what is not modelled; the error names file, node and remedy.

    Examples:
        >>> app = mj.load_onnx("one.onnx")
        >>> [layer.type for layer in app.layers]
        ['conv', 'dwconv', 'conv', 'fc']
    """
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise wrong_type(path, "paths", "give paths of ONNX files")
    if not paths:
        raise InputError("no file is given", item="paths", remedy="name at least one ONNX file")
    return load_scenario(list(paths), **options)


# ---------------------------------------------------------------- files


@shown_briefly
@dataclasses.dataclass(frozen=True)
class DesignSet:
    """The designs of a file, ready to be evaluated: `evaluate(own.designs[0], own.space)`.

    Attributes:
        names: identifier of each design, in input order.
        designs: `[N, ...]`, with the sizes that the file states.
        space: the design space, for `evaluate`.
        problem: networks, templates and package of the file.
        tables: mappings of the file.
        broken: why each other entry of the file is not a valid design, by identifier.
    """

    names: tuple[Any, ...]
    designs: SizedDesign
    space: DesignSpace
    problem: DesignProblem
    tables: MappingTables
    broken: dict[Any, str]

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.names)


def read_designs(
    path: str | os.PathLike[str],
    *,
    technology: Technology | str | os.PathLike[str] | None = None,
    dtype: DTypeLike = jnp.float32,
) -> DesignSet:
    """Reads the designs of a `designs/1` file (`designs.json` of a search), `schedule/1` or `design-arrays/1` file.

    Objectives that the file states are ignored.

    Args:
        path: the file.
        technology: energy and area tables that the designs were made with, or their name or file; default the packaged
            ones that they were made with.
        dtype: float dtype of the space; float64 needs JAX's x64 mode.

    Returns:
        The designs with their problem, tables and space; broken entries of the file are listed in `.broken`.

    Raises:
        InputError: the file cannot be read, or no entry of it is a design.

    Examples:
        >>> own = mj.read_designs("designs.json")
        >>> objectives = jax.jit(jax.vmap(mj.evaluate, (0, None)))(own.designs, own.space)
        >>> objectives.shape == (len(own), 3), bool(jnp.all(jnp.isfinite(objectives)))
        (True, True)
    """
    technology = None if technology is None else as_technology(technology)
    file = design_files.read_designs(os.fspath(path), technology=technology)
    good = [name for name, reason in zip(file.names, file.reasons, strict=True) if not reason]
    broken = {name: reason for name, reason in zip(file.names, file.reasons, strict=True) if reason}
    if file.mappings is None or not len(file.designs):
        reason = next(iter(broken.values()), "the list is empty")
        raise InputError(f"holds no readable design: {reason}", file=path, remedy="mend a design")
    problem = DesignProblem(file.application, file.templates, file.package, file.technology)
    levels = file.mappings.temporal.shape[-2]
    arrays = problem.template_arrays(levels, dtype)
    stacked = stacked_layers(layer.shape for layer in file.application.unique_layers)
    tables = tabulate(stacked, arrays, cast(file.technology, dtype), file.mappings, file.count)
    genes, (capacity, fanout) = file.designs.design, file.designs.sizes
    given = np.asarray(genes.template).reshape(-1), np.asarray(fanout).reshape(-1, levels, 2)
    space = problem.arrays(tables, dtype=dtype, given=given)
    designs = SizedDesign(
        design=jax.tree.map(jnp.asarray, padded(genes, space.evaluation.unique.shape[0])),
        capacity=jnp.asarray(capacity, dtype),
        fanout=jnp.asarray(fanout, dtype),
    )
    return DesignSet(
        names=tuple(good),
        designs=designs,
        space=space,
        problem=problem,
        tables=tables,
        broken=broken,
    )


def read_schedules(path: str | os.PathLike[str], **options: Any) -> DesignSet | ScheduleFile:
    """Reads the schedules of a file, for `evaluate` or for `simulate`.

    Args:
        path: a `schedule/1` or `designs/1` file, whose schedules are designs; or a `fluid-schedule/1` or `job-table/1`
            file, whose schedules have their costs written out.
        options: those of `read_designs`, for files of designs.

    Returns:
        A `DesignSet`, or a `ScheduleFile`: `schedules[0]` are the arguments of `simulate` for the first schedule,
        `schedules.arguments` those of all with a leading axis, and `schedules.table` is what `schedule_jobs` takes.

    Raises:
        InputError: the file cannot be read, is of no known format, or breaks its format.

    Examples:
        >>> schedules = mj.read_schedules("table.json")
        >>> schedules.names
        ('first', 'second')
        >>> ends = jax.jit(jax.vmap(lambda own: mj.simulate(**own)))(schedules.arguments)
        >>> ends.makespan
        Array([8., 6.], dtype=float32)
    """
    path = os.fspath(path)
    document = read_document(path)
    own = (DESIGNS_FORMAT, SCHEDULE_FORMAT)
    if isinstance(document, dict) and document.get("format") == PACKAGE_SCHEDULE_FORMAT:
        told = "has schedules whose layers ask resources for amounts of their own, which `simulate` does not take"
        raise InputError(told, file=path, item="format", remedy="use `evaluate_files` or `mohamjax evaluate schedules`")
    if check_format(document, (*own, FLUID_FORMAT, JOB_TABLE_FORMAT), path) in own:
        return read_designs(path, **options)
    if options:
        raise InputError("is for designs", item=next(iter(options)), file=path, remedy="leave it out")
    return schedule_arrays(document, path)


def write_designs(
    path: str | os.PathLike[str],
    problem: DesignProblem | ApplicationLike,
    tables: MappingTables,
    designs: Design | SizedDesign,
    *,
    names: Sequence[str] | None = None,
) -> None:
    """Writes up to millions of designs: arrays of genes and one problem (`design-arrays/1`, docs/formats.md).

    `mohamjax evaluate designs` and `evaluate_files` read the file block by block, `read_designs` reads it whole.

    Args:
        path: npz file.
        problem: the problem; or networks, or the name or file of a scenario, with defaults for all else.
        tables: mappings that the designs choose from.
        designs: designs with a leading axis, from `sample_designs`, a front or your own; may be NumPy arrays, also
            memory-mapped.
        names: distinct identifiers; default numbers from 0.

    Raises:
        InputError: the file cannot be written.

    Examples:
        >>> mj.write_designs("designs.npz", problem, tables, designs)
        >>> len(mj.read_designs("designs.npz"))
        64
    """
    if not isinstance(designs, Design | SizedDesign):
        raise wrong_type(designs, "designs", "give designs of sample_designs, of a front or of a file")
    if not isinstance(tables, MappingTables):
        raise wrong_type(tables, "tables", "give what mj.map_layers or mj.sample_mappings returned")
    write_design_arrays(os.fspath(path), as_problem(problem).setup, tables, designs, names=names)


# ---------------------------------------------------------------- job scheduling


def decide(front: SearchResult | str | os.PathLike[str], target: str) -> Decision:
    """Finds the designs of a front that meet a target: the smallest, the most frugal, the fastest, and next steps.

    Args:
        front: what `search` returned, or its results folder.
        target: demands separated by commas, such as `latency<=33ms,area<=20mm2` or `fps:NETWORK>=30`, of latency,
            latency:NETWORK, energy, area, power, fps, fps:NETWORK, period (if searched for) and objectives of your own
            (`schedule.decision.read_target`).

    Returns:
        The decision: `.recommended` is the smallest design that meets the target, as its row of `front.csv`; `.named`
        has row numbers by role, `.steps` what less latency or energy would cost, and `.missed` what the nearest design
        misses if none meets the target.

    Raises:
        InputError: the target cannot be read, or the folder holds no results of a search.

    Examples:
        >>> result = mj.search(problem, tables, budget="tiny", seed=0, population=16, generations=4, chunk=4)
        >>> decision = mj.decide(result, "latency<=1s,area<=100mm2")  # or mj.decide("results/ar-vr-small", ...)
        >>> decision.recommended["area_mm2"] <= 100
        True
    """
    if isinstance(front, SearchResult):
        return decide_rows(front_rows(front.front), target, lambda: front.certificate)
    if not isinstance(front, str | os.PathLike):
        raise wrong_type(front, "front", "give what mj.search returned, or the path of its results folder")
    results = read_results(os.fspath(front))
    return decide_rows(results.front, target, results.certificate)


def timetable(front: SearchResult | Evaluated, row: int) -> list[TimetableRow]:
    """Returns the schedule of one design, layer by layer, sorted by start.

    Args:
        front: what `search` returned, or its front, or any designs with their reports.
        row: number of the design.

    Returns:
        A dictionary per layer (`TimetableRow`); plain data, which `csv.DictWriter` or a data frame takes.

    Raises:
        InputError: the front is of another type, or has no such row.
        ValueError: its schedule never ends.

    Examples:
        >>> rows = mj.timetable(result, 0)
        >>> sorted(rows[0])
        ['chiplet', 'end_s', 'energy_J', 'layer', 'network', 'offchip_bytes', 'start_s', 'template']
        >>> bool(max(own["end_s"] for own in rows) == result.front.objectives[0, 0])  # the latency
        True
    """
    evaluated = front.front if isinstance(front, SearchResult) else front
    if not isinstance(evaluated, Evaluated):
        raise wrong_type(front, "front", "give what mj.search returned, or its front")
    number = whole(row)
    if number is None or not -len(evaluated) <= number < len(evaluated):
        remedy = f"give a row of the front, 0 to {len(evaluated) - 1}"
        raise InputError(f"is {row!r:.40}", argument="row", remedy=remedy)
    return timetable_of(evaluated, number)


def write_results(
    folder: str | os.PathLike[str],
    result: SearchResult,
    *,
    figures: bool = True,
    bulk: bool = False,
    inputs: abc.Mapping[str, object] | None = None,
) -> None:
    """Writes the results folder of a search, as `mohamjax search` does, but without the checkpoint.

    `mohamjax report`, `decide`, `plot` and `evaluate designs FOLDER/designs.json --explain` take the folder. If there
    are several processes, only the first one writes.

    Args:
        folder: created; files of an earlier search in it are replaced.
        result: what `search` returned.
        figures: whether to draw the figures.
        bulk: whether to also write the front as arrays, `designs.npz`.
        inputs: how the problem was made, to be recorded in `config.yaml`; plain data.

    Raises:
        InputError: the folder cannot be written, or another search is writing to it.

    Examples:
        >>> mj.write_results("results/toy", result, figures=False)  # what mj.search returned
        >>> mj.decide("results/toy", "area<=100mm2").recommended == mj.decide(result, "area<=100mm2").recommended
        True
    """
    if not isinstance(result, SearchResult):
        raise wrong_type(result, "result", "give what mj.search returned, whole: not its front alone")
    if jax.process_index() != 0:
        return
    out = prepare_folder(os.fspath(folder), "folder")
    with locked_folder(out):
        write_search(out, result, inputs or {}, bulk=bulk)
        if figures:
            from mohamjax.figures import plot_evaluated  # matplotlib, which nothing else here needs

            told = {"title": result.title, "history": result.history, "certificate": result.certificate}
            plot_evaluated(result.front, out / "figures", **told)


def schedule_jobs(
    table: JobTable | str | os.PathLike[str],
    method: str | None = None,
    *,
    preset: str | None = None,
    objectives: str | Sequence[str] = "makespan",
    population: int | None = None,
    generations: int | None = None,
    seed: int = 0,
    goals: JobGoals | None = None,
) -> JobFront:
    """Schedules independent jobs on accelerators behind one bandwidth (G#).

    Args:
        table: the costs of every job on every accelerator, or a `job-table/1` file.
        method: `gsharp` (the default without a preset), or any other of `jobs.METHODS`: heuristics, learning methods,
            optimisers of a library.
        preset: one of `jobs.PRESETS`: `gsharp`, as the paper's text has it, or `as-released`, as its public code does;
            sets the method and sizes that are not given.
        objectives: one or several of `makespan`, `energy`, `edp`, `unsatisfied`, `tardiness`, `mean-end`,
            `lateness`, `missed`.
        population: schedules per generation; default 50.
        generations: generations of a search after its first population; default 199.
        seed: seed of all randomness.
        goals: weights, deadlines and targets of the jobs; those left out are the table's.

    Returns:
        The schedules that do not dominate each other. `.best` is the one with the least first objective; it has
        `.plan.accelerator`, `.plan.order`, and `.objectives` by name, in double precision.

    Raises:
        InputError: the file cannot be read, `table` is neither a table nor a path, a method, preset or objective is
            unknown, or G# cannot schedule the jobs.

    Examples:
        >>> front = mj.schedule_jobs("table.json", method="LPT-EFT")  # a heuristic; "gsharp" searches
        >>> front.best.objectives["makespan"]
        6.0
    """
    if isinstance(table, str | os.PathLike):
        path = os.fspath(table)
        document = read_json(path)
        check_format(document, (JOB_TABLE_FORMAT,), path)
        table = read_job_table(document, path)
    elif not isinstance(table, JobTable):
        raise wrong_type(table, "table", f"give a JobTable, or the path of a {JOB_TABLE_FORMAT} file")
    names = objective_names(objectives if isinstance(objectives, str) else ",".join(objectives))
    chosen = None if preset is None else preset_named(preset)
    sizes = JobSearchConfig() if chosen is None else chosen
    config = JobSearchConfig(
        population=sizes.population if population is None else population,
        generations=sizes.generations if generations is None else generations,
        objectives=names,
        seed=seed,
    )
    return run_method(method or (chosen.methods[0] if chosen else "gsharp"), table, config, goals)


def map_layers(
    problem: DesignProblem | ApplicationLike,
    budget: str = "small",
    seed: int = 0,
    *,
    preset: str = "default",
    method: str | None = None,
    cost: str | None = None,
    config: MapperConfig | None = None,
    padding: bool | None = None,
    one_axis: bool = False,
    progress: bool | Callable[[MapperProgress], None] | None = None,
    cache: bool | str | os.PathLike[str] = False,
    devices: DevicesLike = None,
) -> MappingTables:
    """Searches the Pareto set of mappings of every layer on every template that runs it, after MEDEA.

    By default, operators, rates and a final descent are our own, and the tables equal those that `search` finds with
    the same budget and seed. `preset="medea"` is the mapper that the MEDEA paper prints.

    Args:
        problem: the problem; or networks, or the name or file of a scenario, with defaults for all else.
        budget: `tiny`, `small` or `paper`; other presets than the default set how much is evaluated themselves.
        seed: seed of all randomness.
        preset: a key of `mapper.MAPPER_PRESETS`: `default`; `medea`, operators, rates and sizes as its paper prints
            them; `medea-released`, as its code has them; `moham-released`, as MOHaM's code sets them.
        method: another mapper on the same cost model instead, which gives one mapping per layer: `cosa`, `gamma` or
            `hybrid` (`mapper.BaselineMapper`); neither `budget` nor `cache` matters then.
        cost: what `gamma` and `hybrid` minimise: `latency`, `energy`, `area` or `edp`, the default.
        config: sizes and form of the mapper instead of the budget's or the preset's.
        padding: whether mappings may cover larger bounds than a layer's (docs/concepts/mapper.md); by default
            the setting of `config`, budget or preset.
        one_axis: whether a dimension runs along X or Y of a level's children only, not along both, as in Timeloop's own
            mapper; the time grows with the number of ways to choose the axes (`mapper.one_axis`).
        progress: True writes lines on standard error; a function is called with a `MapperProgress` after every
            generation of a block, from worker threads; with a `method`, after every block.
        cache: where to keep and reuse sets on disk: a folder, or True for the user's cache folder.
        devices: a number of devices, `all`, or a list of them, that search side by side; one by default.

    Returns:
        The tables, `[U, T, M, ...]`, NumPy leaves; equal for any devices, except for rounding on accelerators.

    Raises:
        InputError: an unknown budget, preset, method or cost, arguments that do not go together, more devices than
            there are, or too many ways to choose the axes.

    Examples:
        >>> found = mj.map_layers(problem, budget="tiny", seed=0)
        >>> found.count.shape  # Pareto sets: unique layers, templates
        (2, 2)
    """
    problem = as_problem(problem)
    chosen = mapper_preset(preset)
    check_choice(method, cost)
    if method is not None:
        own = {"preset": preset != "default", "config": config, "devices": devices, "one_axis": one_axis}
        for name, value in {**own, "padding": padding}.items():
            if value:
                told = f"is for our own mapper, not for the method {method}"
                raise InputError(told, argument=name, remedy="leave out either argument")
    if config is None:
        budget = _budget(budget)  # with a preset too, which leaves it without effect
        config = chosen.config or Settings.preset(budget).mapper
    if padding is not None:
        config = dataclasses.replace(config, padding=padding)
    key, _, _ = search_keys(seed)
    layers = problem.application.unique_layers
    told = progress if callable(progress) else ProgressLines().mapping if progress else None

    def mapped(templates: Sequence[Template]) -> MappingTables:
        if method is not None:
            baseline = BaselineMapper(layers, templates, problem.technology, method, cost=cost or "edp", progress=told)
            return baseline.search(key)[0]
        mapper = LayerMapper(
            layers,
            templates,
            problem.technology,
            config,
            rates=chosen.rates,
            progress=told,
            cache=_store(cache),
            devices=chosen_devices(devices),
        )
        return mapper.search(key)

    templates = problem.resolved.templates
    return over_one_axis(mapped, templates, layers, config.entries) if one_axis else mapped(templates)


def _store(cache: bool | str | os.PathLike[str]) -> MappingCache | None:
    """Returns the disk cache that is asked for; None for no cache."""
    if cache is False:
        return None
    return mapping_cache(None if cache is True else os.fspath(cache))


def _kept(checkpoint: str | os.PathLike[str] | None) -> CheckpointFile | None:
    """Returns the checkpoint that is asked for, or None; creates its folder."""
    if checkpoint is None:
        return None
    path = pathlib.Path(checkpoint)
    prepare_folder(path.parent, "checkpoint")
    return CheckpointFile(path)


def _budget(name: str) -> str:
    if name not in BUDGETS:
        raise InputError(f"unknown budget {name!r}", item="budget", remedy=f"use one of {', '.join(BUDGETS)}")
    return name


def search(
    problem: DesignProblem | ApplicationLike,
    tables: MappingTables | None = None,
    budget: str | None = None,
    seed: int = 0,
    *,
    preset: str = "default",
    progress: bool = False,
    listener: Listener | None = None,
    designs: DesignFile | str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    cache: bool | str | os.PathLike[str] = True,
    devices: DevicesLike = None,
    **settings: Any,
) -> SearchResult:
    """Searches packages and schedules: the Pareto front of latency, energy and area.

    Args:
        problem: the problem; or networks, or the name or file of a scenario, with defaults for all else.
        tables: mappings to choose from. No round of mapping adds to them unless `every` is given, so that the front's
            designs evaluate in `problem.arrays(tables)`. Default: those of `map_layers` with this budget and seed, with
            rounds of mapping as the budget has them.
        budget: `tiny`, `small` or `paper`; default `small`, and `paper` with the preset `moham`.
        seed: of all randomness: the same problem, settings and seed give the same front.
        preset: `default`, `layers`, `moham` or `paper`, see `Settings.preset`; the package stays the problem's.
        progress: whether to write progress on standard error, at most a line in two seconds for each step, and at the
            end which layers use little of every template, or of their chiplet in every design.
        listener: an object of your own that receives the progress (`search.Listener`), instead of `progress`.
        designs: `designs/1` or `schedule/1` file whose designs are evaluated first.
        checkpoint: npz file that is written every half a minute and at the end; its folder is created. A search with an
            objective or a limit that is a function of yours cannot keep one.
        resume: go on from the checkpoint; if there is none yet, start from the beginning.
        cache: as for `map_layers`.
        devices: devices to run on: a number of them, `all`, or a list; default one. They share the islands, or the
            evaluation of a single one; the front does not depend on them (see "Several devices" in the docs).
        settings: `max_chiplets`, or any field of `Settings` (`weights`, `mapper`, `within`), of `MohamConfig`
            (`population`, `generations`, `objective`, `objectives`), of `PlanRates` or, with `genes="layers"`, `Rates`
            (`crossover`), and of `RemapConfig` (`every`); a name that several have means the first. Among
            `objectives` may be an `mj.Objective`, a function of your own; `limits` takes `mj.Limit`s.

    Returns:
        The result: `.front.objectives` `[n, M]` float64, sorted by the first objective, `.front.designs`, `.history` (a
        row per generation), `.tables`; with the preset `moham` also `.archive`. A search for one number
        (`objective="product"`) returns a front sorted in the same way: `.best` is its row with the least number.
        Ctrl-C ends the generations early: the result is then what was found so far, and `.interrupted` is true. Before
        the first generation it raises KeyboardInterrupt.

    Raises:
        InputError: an unknown setting, one that the problem decides or one of the layer mapper where it does not run,
            tables of another problem, a checkpoint of another search, or requirements that no design found meets.

    Examples:
        >>> result = mj.search(problem, tables, budget="tiny", seed=0, population=16, generations=4, chunk=4)
        >>> result.front.objectives.dtype, len(result.front.designs) == len(result.front.objectives)
        (dtype('float64'), True)
        >>> result.history[-1]["generation"]
        4
        >>> best = jax.jit(mj.evaluate)(result.front.designs[0], space)  # single precision, as the space
        >>> bool(jnp.allclose(best, result.front.objectives[0], rtol=1e-4))
        True
    """
    problem = as_problem(problem)
    problem = problem.replace(max_chiplets=settings.pop("max_chiplets")) if "max_chiplets" in settings else problem
    base = Settings.preset(None if budget is None else _budget(budget), preset=preset, seed=seed)
    if tables is not None and "every" not in settings and "remap" not in settings:
        base = dataclasses.replace(base, remap=dataclasses.replace(base.remap, every=0))
    chosen = changed(base, settings)
    idle = next((name for name in ("mapper", "mapper_rates", "padding") if name in settings), None)
    maps_again = chosen.remap.maps_again and chosen.moham.genes == "plans"
    if idle is not None and tables is not None and not maps_again:
        remedy = "give it to map_layers, or map again during the search with every=..."
        raise InputError("is of the layer mapper, which does not run: tables are given", argument=idle, remedy=remedy)
    if progress and listener is not None:
        raise InputError("does not go with a listener", argument="progress", remedy="give one of the two")
    read = functools.partial(design_files.read_designs, technology=problem.technology)
    lines = ProgressLines()
    result = Search(
        problem,
        chosen,
        listener=lines if progress else listener,
        designs=None if designs is None else as_given(designs, "designs", DesignFile, read),
        tables=tables,
        cache=_store(cache) if tables is None else None,
        checkpoint=_kept(checkpoint),
        resume=resume,
        devices=devices,
    ).run()
    if progress and is_first(chosen_devices(devices)):
        for line in told_of_little_use(result.front):
            lines.line(line)
    return result


def codesign(
    application: ApplicationLike,
    space: str | HardwareSpace | None = None,
    *,
    template: str | os.PathLike[str] | Template | None = None,
    method: str = "unico",
    budget: str = "small",
    preset: str = "ours",
    seed: int = 0,
    technology: Technology | str | os.PathLike[str] | None = None,
    package: PackageParameters | str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    listener: Callable[[CodesignProgress], None] | None = None,
    **changes: Any,
) -> CodesignResult:
    """Searches one accelerator for a set of networks: the front of latency, power and area (UNICO).

    Args:
        application: networks from `load_scenario` or `load_onnx`, or the name or file of a scenario, or ONNX files;
            latency and energy are summed over them.
        space: `unico-edge` (default), `unico-cloud`, `unico-ci`, or a `HardwareSpace`.
        template: search the sizes of this template instead: a packaged name, a file or a `Template`.
        method: `unico`, or a baseline on the same measurements: `hasco`, `hasco-r`, `nsga2`, `mobohb`, `random`.
        budget: `ci`, `small` or `full`; all methods get the same number of mapping evaluations.
        preset: `ours`; `unico`, as the paper has it; or `same-extras`, which lets `hasco`, `hasco-r` and `mobohb` aim
            and finish points too (`unico.config.PRESETS`).
        seed: seed of all randomness.
        technology: energy and area tables, or a name or file; default the packaged ones.
        package: the package in which the accelerator stands alone, or a YAML file; default `Package()`.
        checkpoint: npz file that is written after every batch.
        resume: go on from the checkpoint.
        listener: called after every batch.
        changes: further fields of `CodesignConfig`, such as `power_cap_W`.

    Returns:
        The result: `.history` of all points, `.front`, the rows of the front in it, and `.mappings`, their loop nests.

    Raises:
        InputError: unknown names, a template that does not run some layer, a limit that nothing meets.

    Examples:
        >>> app = mj.load_onnx("one.onnx")
        >>> found = mj.codesign(app, "unico-ci", budget="ci", method="random")  # a baseline; "unico" is the default
        >>> front = found.history.objectives[found.front]  # latency [s], power [W], area [mm^2]
        >>> front.shape[1], bool((front > 0).all())
        (3, True)
    """
    where = chosen_space(space, template)
    config = settings(where, method, budget, preset=preset, seed=seed, **changes)
    problem = CodesignProblem(as_application(application), where, as_technology(technology), as_package(package))
    return HardwareSearch(problem, config, checkpoint=_kept(checkpoint), resume=resume, listener=listener).run()
