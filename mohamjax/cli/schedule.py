"""The verb `schedule`: schedules independent jobs on given accelerators (G#)."""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mohamjax.cli import options
from mohamjax.cli.inputs import application_of
from mohamjax.cli.job_results import Scheduled, draw_figures, unit_of, write_results
from mohamjax.cli.options import refuse
from mohamjax.cli.outputs import results_folder
from mohamjax.cli.tables import fitted
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import amount, plural

if TYPE_CHECKING:
    from mohamjax.io.job_tables import Placed
    from mohamjax.jobs import JobFront, JobGoals, JobSchedule, JobSearchConfig, Transfer
    from mohamjax.jobs.heuristics import Plan
    from mohamjax.jobs.platform import JobBatch, Platform
    from mohamjax.jobs.table import JobTable
    from mohamjax.mapper import MapperProgress

_DEFAULT_METHODS = "gsharp,LPT-EFT,LPT-stall,HEFT,SJF-MET,FCFS-MET,SJF-OLB,FCFS-OLB"

_MOST_SHOWN = 20  # best schedules of a job table that are printed and drawn; files hold all


class _Problem(NamedTuple):
    """What is to be scheduled.

    Attributes:
        table: the jobs.
        goals: weights, deadlines and targets of the jobs.
        tenants: tenant of each job, "" for none.
        title: one line that describes the problem.
        given: schedules given in the job table, by name.
    """

    table: JobTable
    goals: JobGoals
    tenants: tuple[str, ...]
    title: str
    given: dict[str, Plan]


_COST_MODELS = ("closed-form", "loop-nest")
_NEST_OPTIONS = ("mapping", "budget", "technology", "no_mapping_cache")


def _element_bytes(text: str) -> int:
    if not text.isdecimal() or int(text) < 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes from 6 on (three tensors, each twice)")
    return int(text)


_share = options.real("a share between 0 and 1", lambda value: 0 < value < 1)


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "schedule",
        help="schedule independent jobs on given accelerators that share one bandwidth (G#)",
        description="Searches which accelerator runs which job and when; compares with heuristics and a lower bound.",
    )
    parser.add_argument(
        "--jobs",
        nargs="+",
        metavar="FILE",
        help="jobs: a CSV file with a row per job, a job-table/1 JSON, ONNX files or a scenario (a job per layer); "
        "may be left out with --pool",
    )
    parser.add_argument("--platform", metavar="NAME|FILE", help="S1 to S6 of G#'s Table 4, or a YAML file with cores")
    parser.add_argument(
        "--bandwidth",
        type=options.bandwidth,
        metavar="B",
        help="bandwidth that all cores share [bytes/cycle, GB/s at 1 GHz]",
    )
    parser.add_argument(
        "--preset",
        help="gsharp: G# as in its paper, or as-released: as in its public code. Either sets the methods (the search "
        "and the heuristics that it was compared with), 100 schedules and 100 generations, the demand (per-tile or "
        "as-released) and the LB cores (LB_rs or LB_os); other options override these",
    )
    parser.add_argument(
        "--method",
        help=f"one or several, separated by commas (default {_DEFAULT_METHODS}). On the own loop: gsharp, "
        "gsharp-unseeded, gsharp-paper, standard-ga, random, A2C, PPO. With the selection of the paper, of its release "
        "and of the standard algorithm: gsharp-printed, gsharp-released, standard-ga-printed. Heuristics: HEFT, "
        "LPT-EFT, LPT-stall, and ORDER-CORE with ORDER FCFS, SJF or random and CORE OLB, MET, RR or random. By "
        "nevergrad: DE, (1+1)-ES, CMA-ES, PSO, TBPSA, CLHS, Halton, Hammersley, portfolio, and with what G#'s Table 5 "
        "prints PSO-printed, TBPSA-printed, CMA-ES-printed, portfolio-printed",
    )
    parser.add_argument(
        "--objective",
        default="makespan",
        help="makespan (default) [cycles], energy [J], edp (energy times makespan) [J cycles], unsatisfied (share of "
        "jobs that end far from their target place), tardiness (weighted, beyond deadlines) [cycles], "
        "mean-end [cycles], lateness (the worst) [cycles] or missed (deadlines); several, separated by commas, give a "
        "front",
    )
    parser.add_argument(
        "--demand",
        help="bandwidth that a job asks for: as-released (default of closed-form: a tile set per run of the layer, as "
        "published), per-tile (a tile set per tile), compulsory (every tensor once), or with loop-nest traffic "
        "(default there: what the mapping moves)",
    )
    parser.add_argument("--lb", help="what the LB cores of S1 to S6 are: LB_rs (default) or LB_os")
    parser.add_argument(
        "--flexible", action="store_true", help="shape the arrays of S1 to S6 anew for each job, elements unchanged"
    )
    parser.add_argument(
        "--element-buffer",
        type=_element_bytes,
        metavar="BYTES",
        help="what a processing element of S1 to S6 holds (default: no limit; G#'s flexible arrays have 1024); less "
        "makes depthwise layers faster, as their channels spread over more elements",
    )
    parser.add_argument(
        "--random-shapes",
        type=_share,
        metavar="SHARE",
        help="draw K, C, P and Q of convolutions and K and C of products anew, by up to this share",
    )
    parser.add_argument(
        "--cost-model",
        help="what a job takes on a core: closed-form (default), MAESTRO's latencies without energies, or loop-nest, "
        "our mapper on templates of the cores' styles and sizes, with energies",
    )
    parser.add_argument(
        "--mapping",
        help="with loop-nest: the mapping that a job has on a core, the best in latency (default), energy or edp",
    )
    parser.add_argument("--budget", help="with loop-nest: budget of the mapper: tiny, small (default) or paper")
    parser.add_argument(
        "--technology", metavar="NAME|FILE", help="with loop-nest: a packaged technology by name, or a file of your own"
    )
    parser.add_argument(
        "--no-mapping-cache", action="store_true", help="with loop-nest: neither read nor keep mapping sets on disk"
    )
    parser.add_argument(
        "--sample",
        type=options.positive,
        metavar="N",
        help="draw N jobs with replacement from the layers of the networks",
    )
    parser.add_argument(
        "--pool",
        help="with --sample: draw from the vision, language or recommendation networks alone, or mixed: equal shares "
        "of the three. Without --jobs, from all packaged networks, else from a scenario (in a YAML of your own, write "
        "`task: vision` or so for each network)",
    )
    parser.add_argument(
        "--transfer",
        metavar="FILE",
        help="transfer.json of another batch of as many jobs on as many accelerators: its schedule, taken over by the "
        "rank of the jobs' mean times, is evaluated as it is (method transfer) and starts gsharp, gsharp-unseeded, "
        "gsharp-paper, gsharp-printed, gsharp-released, standard-ga and standard-ga-printed",
    )
    parser.add_argument(
        "--population", type=options.positive, help="schedules of a generation of a search (default 50, preset: 100)"
    )
    parser.add_argument(
        "--generations",
        type=options.positive,
        help="generations of a search after its first population (default 199; of a preset 99)",
    )
    parser.add_argument("--json", action="store_true", help="print a summary as JSON on standard output")
    parser.add_argument("--no-figures", action="store_true", help="draw no figures into the results folder")
    options.add_workload(parser)
    options.add_common(parser, "results folder (default: none is written)", random=True)


def _chosen(name: str, item: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise InputError(f"{name!r} is not known", item=item, remedy=f"use {', '.join(known)}")
    return name


_OF_NETWORKS = ("batch", "shape", "skip_unknown", "depthwise")
"""Options that say how networks are read."""


def _of_networks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that say how jobs are made from networks, by name."""
    return {name: getattr(arguments, name) for name in (*_OF_NETWORKS, "sample", "pool")}


def _batch(arguments: argparse.Namespace) -> JobBatch:
    """Reads jobs from a CSV file, or makes them from the layers of networks."""
    from mohamjax.io.jobs import read_jobs
    from mohamjax.jobs.platform import POOLS, batch_of_layers
    from mohamjax.workload import packaged_networks

    file = _single(arguments.jobs)
    if file.lower().endswith(".csv"):
        refuse("is for networks, not for a list of jobs", **_of_networks(arguments))
        return read_jobs(file)
    if arguments.pool is not None:
        _chosen(arguments.pool, "--pool", POOLS)
        if arguments.sample is None:
            raise InputError("needs the number of jobs to draw", item="--pool", remedy="add for example --sample 100")
    if arguments.jobs is None:
        own = {name: getattr(arguments, name) for name in _OF_NETWORKS}
        refuse("is for networks of --jobs; the packaged ones are whole", **own)
        networks = packaged_networks()
    else:
        arguments.workload = arguments.jobs
        networks = application_of(arguments)
    return batch_of_layers(networks, sample=arguments.sample, seed=arguments.seed, pool=arguments.pool)


def _single(jobs: list[str] | None) -> str:
    """Returns the only file that is given; empty if there are several or none."""
    return jobs[0] if jobs is not None and len(jobs) == 1 else ""


def _table(
    arguments: argparse.Namespace,
    batch: JobBatch,
    platform: Platform,
    mapping: Callable[[MapperProgress], None],
) -> JobTable:
    """Returns the job table of a batch under the chosen cost model."""
    import jax

    from mohamjax.hardware import load_technology
    from mohamjax.io import mapping_cache
    from mohamjax.jobs import MAPPING_CHOICES, core_mappings
    from mohamjax.jobs.analysis import DEMANDS, NEST_DEMANDS
    from mohamjax.jobs.platform import analysis_table, platform_table
    from mohamjax.search import Settings

    arguments.cost_model = _chosen(arguments.cost_model or _COST_MODELS[0], "--cost-model", _COST_MODELS)
    if arguments.cost_model == "closed-form":
        nests = {name: getattr(arguments, name) for name in _NEST_OPTIONS}
        refuse("closed forms know no mappings", "add --cost-model loop-nest, or leave it out", **nests)
        arguments.demand = _chosen(arguments.demand or DEMANDS[0], "--demand", DEMANDS)
        return platform_table(batch.names, batch.shapes, platform, arguments.bandwidth, demand=arguments.demand)
    refuse("is for closed forms", "leave it out: templates say their buffers", element_buffer=arguments.element_buffer)
    arguments.demand = _chosen(arguments.demand or NEST_DEMANDS[0], "--demand", NEST_DEMANDS)
    arguments.mapping = _chosen(arguments.mapping or MAPPING_CHOICES[0], "--mapping", MAPPING_CHOICES)
    arguments.budget = arguments.budget or "small"
    mappings = core_mappings(
        jax.random.key(arguments.seed),
        batch.layers,
        list(dict.fromkeys(platform.cores)),
        load_technology(arguments.technology),
        Settings.preset(arguments.budget).mapper,
        progress=mapping,
        cache=None if arguments.no_mapping_cache else mapping_cache(),
    )
    analyses = mappings.analyses(arguments.mapping)
    return analysis_table(batch.names, platform, analyses, arguments.bandwidth, demand=arguments.demand)


def _problem(
    arguments: argparse.Namespace,
    terminal: Terminal,
    config: JobSearchConfig,
    transfer: Transfer | None,
) -> _Problem:
    """Returns what is to be scheduled; checks as much as possible before the mapper runs."""
    from mohamjax.jobs import JobGoals, check_goals, check_size, check_transfer, preset_named
    from mohamjax.jobs.platform import PLATFORMS

    if arguments.jobs is None and arguments.pool is None:
        raise InputError("is missing", item="--jobs", remedy="give jobs, or draw some: --sample 100 --pool mixed")
    name = "packaged networks" if arguments.jobs is None else pathlib.PurePath(arguments.jobs[0]).name
    if arguments.pool is not None:
        name = f"{name} ({arguments.pool})"
    file = _single(arguments.jobs)
    if file.lower().endswith(".json"):
        from mohamjax.io import read_json
        from mohamjax.io.files import check_format
        from mohamjax.io.formats import JOB_TABLE_FORMAT
        from mohamjax.io.job_tables import read_job_table, table_schedules

        names = ("platform", "bandwidth", "cost_model", "demand", "lb", "flexible", "element_buffer", "random_shapes")
        names += _NEST_OPTIONS
        given = {name: getattr(arguments, name) for name in names}
        refuse("the job table says that itself", **given, **_of_networks(arguments))
        document = read_json(file)
        check_format(document, (JOB_TABLE_FORMAT,), file)
        table = read_job_table(document, file)
        if transfer is not None:
            check_transfer(transfer, *table.duration.shape, file=arguments.transfer)
        check_goals(config, JobGoals().of(table))
        given = _given(table_schedules(document, table, file), arguments, terminal)
        return _Problem(table, JobGoals(), table.tenants or ("",) * len(table.jobs), name, given)
    from mohamjax.io.jobs import load_platform

    for given, option, example in (
        (arguments.platform, "--platform", "S4"),
        (arguments.bandwidth, "--bandwidth", "1"),
    ):
        if given is None:
            raise InputError("is missing", item=option, remedy=f"say {option} {example}, or give a job table")
    preset = None if arguments.preset is None else preset_named(arguments.preset)
    lb = _chosen(arguments.lb or (preset.lb if preset else "LB_rs"), "--lb", ("LB_rs", "LB_os"))
    held = arguments.element_buffer
    platform = load_platform(arguments.platform, lb=lb, flexible=arguments.flexible, element_buffer=held)
    if arguments.platform.upper() in PLATFORMS:
        arguments.lb = lb  # for the record
    else:
        own = {"lb": arguments.lb, "flexible": arguments.flexible}
        refuse("is for S1 to S6", "leave it out: a platform of your own says it core by core", **own)
        refuse("is for S1 to S6", "leave it out: no platform of your own limits it", element_buffer=held)
    batch = _batch(arguments)
    if arguments.random_shapes is not None:
        batch = batch.reshaped(arguments.random_shapes, arguments.seed)
    if preset is not None and arguments.cost_model in (None, _COST_MODELS[0]):
        arguments.demand = arguments.demand or preset.demand
    goals = JobGoals(weight=batch.weight, deadline=batch.deadline, target=batch.target)
    check_size(len(batch.names), len(platform.cores))
    check_goals(config, goals)
    if transfer is not None:
        check_transfer(transfer, len(batch.names), len(platform.cores), file=arguments.transfer)
    table = batch.wanted(_table(arguments, batch, platform, terminal.mapping))
    title = f"{plural(len(batch.names), 'job')} of {name} on {platform.name}, {arguments.bandwidth:g} bytes/cycle"
    if arguments.cost_model == "loop-nest":
        title += ", loop-nest model"
    return _Problem(table, goals, batch.tenants, title, {})


def _given(
    entries: Sequence[tuple[int | str, Placed | InputError]], arguments: argparse.Namespace, terminal: Terminal
) -> dict[str, Plan]:
    """Returns the schedules of a job table by name, `(of the table)` added if a method has it; warns of broken ones."""
    from mohamjax.jobs.heuristics import Plan

    plans: dict[str, Plan] = {}
    methods = {*arguments.method.split(","), "transfer"}
    for name, one in entries:
        if isinstance(one, InputError):
            terminal.warn(str(one))
            continue
        order, where = one
        plans[f"{name} (of the table)" if name in methods else str(name)] = Plan(where, order)
    return plans


def _told_otherwise(arguments: argparse.Namespace) -> str:
    """Returns one line on settings of the preset that jobs, platform or cost model override; empty if none."""
    from mohamjax.jobs import preset_named
    from mohamjax.jobs.platform import PLATFORMS

    if arguments.preset is None:
        return ""
    preset = preset_named(arguments.preset)
    demand, cores = f"the demand {preset.demand}", f"the LB cores {preset.lb}"
    if _single(arguments.jobs).lower().endswith(".json"):
        return f"preset {arguments.preset}: {demand} and {cores} do not apply, the job table states both itself"
    parts = []
    if arguments.cost_model == "loop-nest" and arguments.demand is None:
        parts.append(f"{demand} does not apply, the traffic is that of the mappings")
    if arguments.platform is not None and arguments.platform.upper() not in PLATFORMS:
        parts.append(f"{cores} do not apply, the platform states its own cores")
    return f"preset {arguments.preset}: {'; '.join(parts)}" if parts else ""


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Schedules jobs by one or several methods, and writes results and figures."""
    from mohamjax.io.job_transfer import read_transfer
    from mohamjax.jobs import HEURISTICS, JobSearchConfig, check_method, objective_names, preset_named

    preset = None if arguments.preset is None else preset_named(arguments.preset)
    if arguments.method is None:
        arguments.method = ",".join(preset.methods) if preset else _DEFAULT_METHODS  # for the record
    methods = [name for name in arguments.method.split(",") if name]
    sizes = {name: getattr(arguments, name) for name in ("population", "generations")}
    if set(methods) <= set(HEURISTICS):
        refuse("is for methods that search; heuristics do not", "leave it out, or add gsharp to --method", **sizes)
    if preset is not None:
        sizes = {name: getattr(preset, name) if size is None else size for name, size in sizes.items()}
    config = JobSearchConfig(
        **{name: size for name, size in sizes.items() if size is not None},
        objectives=objective_names(arguments.objective),
        seed=arguments.seed,
    )
    for name in methods or [""]:
        check_method(name, config)
    arguments.population, arguments.generations = config.population, config.generations  # for the record
    transfer = None if arguments.transfer is None else read_transfer(arguments.transfer)
    with contextlib.nullcontext() if arguments.out is None else results_folder(arguments.out) as folder:
        return _scheduled(arguments, terminal, methods, config, transfer, folder)


def _scheduled(
    arguments: argparse.Namespace,
    terminal: Terminal,
    methods: list[str],
    config: JobSearchConfig,
    transfer: Transfer | None,
    folder: pathlib.Path | None,
) -> int:
    """Runs the methods one after the other, writes and prints the results, and returns the exit code."""
    from mohamjax.jobs import STARTED, check_problem, job_bound

    if told := _told_otherwise(arguments):
        terminal.line(told)
    problem = _problem(arguments, terminal, config, transfer)
    table, title = problem.table, problem.title
    check_problem(table, config, problem.goals)
    bound = job_bound(table)
    terminal.line(f"{title}; lower bound {amount(bound.best)} {table.time_unit}")
    started: dict[str, object] = {}
    if transfer is not None:
        starts = [name for name in dict.fromkeys(methods) if name in STARTED]
        started["transfer"] = {"file": arguments.transfer, "batch": transfer.batch, "starts": starts}
        told = f"by {transfer.method} on {transfer.batch or 'another batch'}"
        terminal.line(f"{arguments.transfer}: {told}; starts {', '.join(starts) or 'no method'}")
        if transfer.accelerators != table.accelerators:
            terminal.line(f"{arguments.transfer}: learnt on other accelerators: {', '.join(transfer.accelerators)}")
    fronts, own = _fronts(terminal, problem, methods, config, transfer, bound.best)
    interrupted = terminal.was_stopped
    drawn = [*fronts, *own[:_MOST_SHOWN]]
    fronts = sorted([*fronts, *own], key=lambda front: front.best.objectives[config.objectives[0]])
    rows = [_row(one, bound.best, config.objectives) for front in fronts for one in front.schedules]
    done = Scheduled(table, problem.tenants, fronts, bound, title, config.objectives[0], drawn)
    try:
        if folder is not None:
            _write(arguments, terminal, folder, done, rows, config)
    finally:  # also if the files cannot be written
        if arguments.json:
            print(json.dumps(_summary(done, rows, interrupted) | started, indent=2))
        else:
            _print_table(done, rows, config.objectives, {front.method for front in own[_MOST_SHOWN:]})
    return 0


def _fronts(
    terminal: Terminal,
    problem: _Problem,
    methods: list[str],
    config: JobSearchConfig,
    transfer: Transfer | None,
    bound: float,
) -> tuple[list[JobFront], list[JobFront]]:
    """Returns the fronts of the methods and of the schedules of the table; Ctrl-C keeps those that are finished."""
    from mohamjax.jobs import direct_transfer, given_schedules, run_method

    table, goals, unit = problem.table, problem.goals, problem.table.time_unit
    fronts: list[JobFront] = []

    def add(front: JobFront) -> None:
        fronts.append(front)
        terminal.line(f"{front.method}: {_span(front, config.objectives, unit)}")

    own: list[JobFront] = []
    try:
        if transfer is not None:
            add(direct_transfer(table, transfer, config, goals))
        given = [front.best.plan for front in fronts]
        for name in dict.fromkeys(methods):
            add(run_method(name, table, config, goals, given, bound))
        own = given_schedules(table, problem.given, config, goals)
    except KeyboardInterrupt:
        if not fronts:
            raise
        terminal.was_stopped = True
        terminal.line(f"stopped by hand; the results are those of {', '.join(front.method for front in fronts)}")
    if own:
        told = f"the best is {own[0].method}, makespan {amount(own[0].best.objectives['makespan'])} {unit}"
        terminal.line(f"{plural(len(own), 'schedule')} of the table: {told}")
    return fronts, own


def _write(
    arguments: argparse.Namespace,
    terminal: Terminal,
    folder: pathlib.Path,
    done: Scheduled,
    rows: list[dict[str, float | str]],
    config: JobSearchConfig,
) -> None:
    """Writes the results folder; figures that cannot be drawn are a warning."""
    from mohamjax.io.results import remove_files
    from mohamjax.jobs import transfer_of

    kept = transfer_of(done.table, done.fronts[0].best, done.title, _shown(config.objectives))
    try:
        outdated = write_results(folder, done, rows, kept, arguments)
    except InputError as error:
        raise InputError(error.message, file=error.file, remedy="the results are only printed") from None
    remove_files(outdated, ())
    terminal.line(f"results in {folder}")
    if arguments.no_figures:
        return
    try:
        draw_figures(folder / "figures", done)
        terminal.line(f"figures in {folder / 'figures'}")
    except KeyboardInterrupt:
        terminal.was_stopped = True
        terminal.line("stopped by hand; the results are written, but not all figures")
    except InputError as error:
        terminal.warn(f"{error.file}: {error.message}; the results are written, but not all figures")


def _summary(done: Scheduled, rows: list[dict[str, float | str]], interrupted: bool) -> dict[str, object]:
    """Returns what `--json` prints, but for a transfer."""
    return {
        "title": done.title,
        "interrupted": interrupted,
        "jobs": len(done.table.jobs),
        "accelerators": list(done.table.accelerators),
        "time_unit": done.table.time_unit,
        "lower_bound": {**done.bound._asdict(), "best": done.bound.best},
        "schedules": rows,
    }


def _print_table(
    done: Scheduled, rows: list[dict[str, float | str]], objectives: tuple[str, ...], left_out: set[str]
) -> None:
    """Prints the schedules of all methods but `left_out`, and the lower bound."""
    time_unit = done.table.time_unit
    units = {name: unit_of(name, time_unit) for name in _shown(objectives)}
    head = ["method", *(f"{name} [{unit}]" if unit else name for name, unit in units.items())]

    def value(row: dict[str, float | str], name: str) -> str:
        return amount(float(row[name])) if name == "makespan" else f"{row[name]:,.6g}"

    body = [
        [row["method"], *(value(row, o) for o in units), f"{row['over_bound']:.4f}",
         f"{row['evaluations']:,}", f"{row['seconds']:.1f}"]
        for row in rows if row["method"] not in left_out
    ]  # fmt: skip
    print(fitted([[*head, "over bound", "evaluations", "seconds with compiling"], *body]))
    if left_out:
        print(f"{plural(len(left_out), 'more schedule')} of the table: --out FOLDER or --json lists all")
    print(f"lower bound of the makespan: {amount(done.bound.best)} {time_unit}")


def _span(front: JobFront, objectives: tuple[str, ...], time_unit: str) -> str:
    """Returns what a method reached: the objectives of its schedule, or their ranges over its front."""
    parts = []
    for name in _shown(objectives):
        values = [one.objectives[name] for one in front.schedules]
        low, high = amount(min(values)), amount(max(values))
        parts.append(f"{name} {low if low == high else f'{low} to {high}'} {unit_of(name, time_unit)}".rstrip())
    many = f"{len(front.schedules)} schedules, " if len(front.schedules) > 1 else ""
    return f"{many}{', '.join(parts)}, {front.best.seconds:.1f} s with compiling"


def _shown(objectives: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys((*objectives, "makespan")))


def _row(one: JobSchedule, bound: float, objectives: tuple[str, ...]) -> dict[str, float | str]:
    makespan = one.objectives["makespan"]
    return {
        "method": one.method,
        **{name: one.objectives[name] for name in _shown(objectives)},
        "over_bound": makespan / bound if bound else 1.0,
        "evaluations": one.evaluations,
        "seconds": one.seconds,
    }
