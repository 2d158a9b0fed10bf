"""The command line. Thin: it parses, calls the rooms of the house, and prints.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 bad input or what the
system refuses (one line that says what is wrong and how to mend it), 1 a fault of ours, 130 stopped by hand before
there was anything to keep.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mohamjax import __version__, cli_codesign, cli_schedule
from mohamjax.cli_options import refuse
from mohamjax.errors import InputError, one_line
from mohamjax.text import plural
from mohamjax.text import table as _table

if TYPE_CHECKING:
    from mohamjax.hardware import Technology, Template
    from mohamjax.schedule import Bounds
    from mohamjax.search import ExhaustiveProgress, ExpectedCost, MapperProgress, Progress, Requirements, Settings
    from mohamjax.workload import ApplicationModel

__all__ = ["main"]

_MOST_ENUMERATED = 10**8  # mappings of a layer on a template: minutes


# ---------------------------------------------------------------- arguments


class _Parser(argparse.ArgumentParser):
    """Complains in one line, like everything else."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"mohamjax: {message}; see {self.prog} --help\n")


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`NAME=d,d,...` of `--shape`."""
    name, _, dims = text.rpartition("=")
    try:
        sizes = tuple(int(d) for d in dims.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=d,d,... with positive sizes")
    return name, sizes


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return value


def _natural(text: str) -> int:
    """A whole number from 0."""
    return 0 if text.strip() == "0" else _positive(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _seed(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer from 0 to 2^32 - 1")
    return value


def _rate(text: str) -> tuple[str, float]:
    """`NAME=P` of `--rate`."""
    name, _, value = text.partition("=")
    try:
        rate = float(value)
    except ValueError:
        rate = -1.0
    if not 0 <= rate < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=P with a number from 0")
    return name, rate


def _weights(text: str) -> tuple[float, float, float]:
    """`L,E,A` of `--weights`."""
    try:
        values = [float(w) for w in text.split(",")]
    except ValueError:
        values = []
    if len(values) != 3 or not all(0 <= w < 1e3 for w in values) or not any(values):
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers from 0, such as 1,1,0")
    return values[0], values[1], values[2]


def _workload_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=_positive, help="size of a symbolic batch dimension (default 1)")
    parser.add_argument(
        "--shape",
        type=_shape,
        action="append",
        default=[],
        metavar="NAME=d,d,...",
        help="shape of a graph input; may be given several times",
    )
    parser.add_argument(
        "--skip-unknown",
        action="store_true",
        help="warn about operators that are not known instead of stopping; they pass dependencies on",
    )


def _common(parser: argparse.ArgumentParser, out: str, *, random: bool = False, inner: bool = False) -> None:
    """Options of every verb; those of an `inner` verb leave alone what the outer one was given."""

    def default(value: Any) -> Any:
        return argparse.SUPPRESS if inner else value

    seed = "seed of all randomness (default 0)" if random else "taken by every verb; nothing is random here"
    parser.add_argument("--seed", type=_seed, default=default(0), help=seed)
    parser.add_argument("--out", metavar="PATH", default=default(None), help=out)
    parser.add_argument(
        "--no-compile-cache",
        action="store_true",
        default=default(False),
        help="do not keep compiled programs in the user's cache folder",
    )


def _hardware_arguments(parser: argparse.ArgumentParser, *names: str) -> None:
    parser.add_argument(
        *names,
        "--templates",
        dest="templates",
        metavar="NAME|FILE,...",
        help="sub-accelerator templates, by name or YAML file, separated by commas (default: the packaged ones)",
    )
    parser.add_argument(
        "--technology",
        metavar="FILE",
        help="a technology of your own: YAML, or a CSV table of SRAMs (default: the packaged 45 nm)",
    )
    parser.add_argument(
        "--word-bits",
        choices=("template", "model"),
        default="template",
        help="width of operands: the template's (default), or the widest of the model's element types, for which "
        "templates are then built: operand buffers keep their bits, MACs and accumulators grow",
    )


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mohamjax",
        description="Multi-objective hardware-mapping co-optimisation of multi-chiplet, multi-tenant DNN accelerators.",
    )
    parser.add_argument("--version", action="version", version=f"mohamjax {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    search = verbs.add_parser(
        "search",
        help="search the front of multi-chiplet systems for networks that run together",
        description="Searches packages, chiplet sizes, mappings and schedules for networks that run together, and "
        "writes the front over latency, energy and area to a results folder.",
    )
    search.add_argument(
        "workload",
        nargs="+",
        help="a packaged scenario (mobile, edge, ar-vr, data-center), a scenario YAML, or ONNX files",
    )
    search.add_argument("--budget", default="small", help="tiny, small (default) or paper")
    search.add_argument(
        "--preset",
        default="default",
        help="default: search chiplets, list scheduling decides on the layers; layers: move single layers, from list "
        "schedules on; paper: operators, rates and contention as printed",
    )
    search.add_argument(
        "--remap",
        type=_natural,
        metavar="N",
        help="map layers again on chiplets of the front every N generations (default 100; 0: never, as with "
        "--budget tiny)",
    )
    search.add_argument(
        "--polish",
        type=_natural,
        metavar="N",
        help="after the last generation, map again on chiplets of the front up to N times, until that gains less than "
        "a thousandth of the hypervolume (default 0)",
    )
    search.add_argument("--population", type=_positive, help="designs per generation (overrides the budget)")
    search.add_argument("--generations", type=_positive, help="most generations (overrides the budget)")
    search.add_argument("--max-chiplets", type=_positive, help="most chiplets of a design (default 16)")
    search.add_argument("--islands", type=_positive, help="populations that evolve side by side (default 1)")
    search.add_argument(
        "--objective",
        help="front (default), or one number to minimise: latency, energy, area, or product with --weights",
    )
    search.add_argument(
        "--weights",
        type=_weights,
        metavar="L,E,A",
        help="exponents of latency, energy and area in the product (default 1,1,1)",
    )
    search.add_argument(
        "--rate",
        type=_rate,
        action="append",
        default=[],
        metavar="NAME=P",
        help="how often an operator is used, as in config.yaml (0 switches it off): plan_rates, or rates with --preset "
        "layers or paper; may be given several times",
    )
    search.add_argument(
        "--seeds",
        action=argparse.BooleanOptionalAction,
        help="start from list schedules, and not from random designs alone (default only with --preset layers)",
    )
    search.add_argument(
        "--require",
        metavar="FILE",
        help="requirements (YAML): limits, numbers of chiplets, a fixed package, pinned layers",
    )
    search.add_argument(
        "--inject", metavar="FILE", help="designs.json or a schedule/1 file whose designs are evaluated first"
    )
    search.add_argument("--archive", type=_positive, help="most non-dominated designs kept per island (default 512)")
    search.add_argument("--stop", choices=("generations", "stability"), help="when to stop (default generations)")
    search.add_argument("--package", metavar="FILE", help="package parameters (YAML)")
    search.add_argument("--dry-run", action="store_true", help="say what would be searched and what it would take")
    search.add_argument("--json", action="store_true", help="print a summary as JSON on standard output")
    search.add_argument("--resume", action="store_true", help="go on from the checkpoint in the results folder")
    search.add_argument(
        "--checkpoint-every",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="seconds of searching between checkpoints (default 30; 0: as often as progress is reported)",
    )
    search.add_argument("--no-figures", action="store_true", help="draw no figures")
    search.add_argument("--no-mapping-cache", action="store_true", help="neither read nor keep mapping tables on disk")
    _workload_arguments(search)
    _hardware_arguments(search)
    _common(search, "results folder (default results/<scenario>-<budget>)", random=True)

    map_ = verbs.add_parser(
        "map",
        help="search the Pareto sets of mappings of every layer of networks on templates",
        description="Searches the Pareto-optimal mappings (latency [cycles], energy [pJ], area [um^2]) of every unique "
        "layer on every template.",
    )
    map_.add_argument("workload", nargs="+", help="ONNX files, a scenario name or a scenario YAML")
    _hardware_arguments(map_, "--template")
    map_.add_argument("--budget", help="how many mappings to evaluate: tiny, small (default) or paper")
    map_.add_argument(
        "--exhaustive", action="store_true", help="evaluate every mapping instead: the true Pareto sets of small spaces"
    )
    map_.add_argument(
        "--limit",
        type=_positive,
        help=f"most mappings to evaluate per layer and template with --exhaustive (default {_MOST_ENUMERATED:,})",
    )
    map_.add_argument(
        "--inject",
        nargs="+",
        action="append",
        default=[],
        metavar="FILE",
        help="mappings of your own that join the first population: a JSON file as --out writes, or the YAML files of "
        "one mapping in Timeloop's format, or their folder; may be given several times",
    )
    map_.add_argument(
        "--nests",
        metavar="FILE",
        help="write the best mappings as loop nests [cycles, uJ, mm^2]; - for standard output",
    )
    map_.add_argument("--figure", metavar="FILE", help="draw the sets of the largest layers (.png, .svg or .pdf)")
    map_.add_argument("--timeloop", metavar="FOLDER", help="export every mapping as Timeloop's YAML files")
    map_.add_argument("--no-mapping-cache", action="store_true", help="neither read nor keep mapping tables on disk")
    _workload_arguments(map_)
    _common(map_, "JSON file for the Pareto sets with their loop nests; - for standard output", random=True)

    evaluate = verbs.add_parser("evaluate", help="evaluate mappings, schedules or designs from files")
    _common(evaluate, "results; - for standard output, the default")
    kinds = evaluate.add_subparsers(dest="kind", required=True, metavar="KIND")
    mappings = kinds.add_parser("mappings", help="loop nests on given architectures, as Timeloop counts them")
    mappings.add_argument(
        "--architectures", metavar="FILE", help="architectures with their energies [pJ] and areas [um^2] (JSON)"
    )
    mappings.add_argument("--samples", metavar="FILE", help="layers and their loop nests on these (.jsonl, .jsonl.gz)")
    mappings.add_argument(
        "--timeloop",
        nargs="+",
        metavar="FILE",
        help="Timeloop's own YAML instead: architecture, problem, mapping and, if any, ERT, ART and constraints",
    )
    mappings.add_argument(
        "--links",
        choices=("on", "off"),
        default="on",
        help="count what neighbours hand on to each other where an architecture has such links (default on)",
    )
    mappings.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    mappings.add_argument(
        "--explain",
        nargs="?",
        choices=("text", "json"),
        const="text",
        help="also print why each mapping costs what it does: a table (text, the default) or JSON",
    )
    _common(mappings, "predictions (.jsonl); - for standard output, the default", inner=True)
    schedules = kinds.add_parser(
        "schedules", help="schedules in the formats fluid-schedule/1, job-table/1, schedule/1 and designs/1"
    )
    schedules.add_argument("file", help="a JSON file of one of these formats")
    schedules.add_argument(
        "--technology",
        metavar="FILE",
        help="with schedule/1 and designs/1: the technology that they were made with (default: the packaged one)",
    )
    schedules.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    schedules.add_argument(
        "--timelines",
        action="store_true",
        help="also write when each job runs and is slowed, in the file's time unit; for schedule/1 and designs/1 when "
        "each layer runs, and where",
    )
    _common(schedules, "results (JSON); - for standard output, the default", inner=True)
    designs = kinds.add_parser("designs", help="designs of designs.json, or schedule/1 files")
    designs.add_argument("file", help="designs.json of a search, or a schedule/1 file")
    designs.add_argument(
        "--technology",
        metavar="FILE",
        help="the technology that the designs were made with (default: the packaged one)",
    )
    designs.add_argument("--float32", action="store_true", help="compute in single precision (default double)")
    designs.add_argument(
        "--explain",
        metavar="ID",
        nargs="?",
        const="",
        help="say where the time, the energy and the area of the design with this design_id go (without ID: of all "
        "designs), instead of the table unless --out asks for it too",
    )
    designs.add_argument("--json", action="store_true", help="with --explain: as JSON instead of text")
    designs.add_argument(
        "--trace", metavar="FILE", help="also write the timelines in the Chrome trace format (Perfetto)"
    )
    designs.add_argument(
        "--timeloop", metavar="FOLDER", help="also write every chiplet and its layers as input files of Timeloop"
    )
    _common(designs, "table of objectives [s, J, mm^2] (CSV); - for standard output, the default", inner=True)

    schedule = verbs.add_parser(
        "schedule",
        help="schedule independent jobs on given accelerators that share one bandwidth (G#)",
        description="Searches which accelerator runs which job when, compares with heuristics and a lower bound.",
    )
    cli_schedule.add_arguments(schedule, _positive)
    _workload_arguments(schedule)
    _common(schedule, "results folder (default: none is written)", random=True)

    codesign = cli_codesign.add_parser(verbs)
    _workload_arguments(codesign)
    _common(codesign, "results folder (default results/NETWORKS-SPACE-METHOD-BUDGET)", random=True)

    workload = verbs.add_parser("workload", help="print the layers of networks")
    workload.add_argument("workload", nargs="+", help="ONNX files, a scenario name or a scenario YAML")
    workload.add_argument("--csv", metavar="FILE", help="the layers of one network as CSV; - for standard output")
    _workload_arguments(workload)
    _common(workload, "same as --csv")

    templates = verbs.add_parser("templates", help="list or show sub-accelerator templates")
    _common(templates, "write what is printed to a file instead")
    actions = templates.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="names and sizes")
    listing.add_argument("files", nargs="*", help="template files to list beside the packaged ones")
    _common(listing, "write the list to a file instead", inner=True)
    show = actions.add_parser("show", help="one template in full")
    show.add_argument("name", nargs="?", help="name or YAML file")
    show.add_argument("--yaml", action="store_true", help="print it as a YAML file")
    show.add_argument("--example", action="store_true", help="print a documented example of a template file")
    _common(show, "write it to a file instead", inner=True)

    plot = verbs.add_parser("plot", help="draw the figures of a results folder again")
    plot.add_argument("folder", help="a results folder")
    plot.add_argument("--format", default="png", help="png, svg or pdf; several separated by commas")
    _common(plot, "folder for the figures (default FOLDER/figures)")
    return parser


# ---------------------------------------------------------------- terminal


class _Terminal:
    """Progress on standard error: one moving line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.last = 0.0
        self.open = False
        self.compile_s: float | None = None
        self.mapper_compiled = False

    def line(self, text: str) -> None:
        """A line that stays."""
        self.close()
        print(text, file=sys.stderr, flush=True)

    def status(self, text: str, *, final: bool = False) -> None:
        """A line that the next one may replace; elsewhere at most one every two seconds."""
        now = time.monotonic()
        if self.live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 120
            print("\r\x1b[2K" + text[: width - 1], end="", file=sys.stderr, flush=True)
            self.open = True
            if final:
                self.close()
        elif final or now - self.last >= 2.0:
            print(text, file=sys.stderr, flush=True)
            self.last = now

    def close(self) -> None:
        """Ends a moving line."""
        if self.open:
            print(file=sys.stderr, flush=True)
            self.open = False

    # What a search tells.

    def announce(self, text: str) -> None:
        """A step begins."""
        self.line(text)

    def mapping(self, progress: MapperProgress) -> None:
        """How far the layer mapper is."""
        if progress.compile_s and not self.mapper_compiled:
            self.mapper_compiled = True
            self.line(f"compiled the mapper in {progress.compile_s:.1f} s")
        rate = progress.evaluations / max(progress.seconds - progress.compile_s, 1e-9)
        left = (progress.total - progress.evaluations) / rate if rate else None
        self.status(
            f"mapper  {progress.done}/{progress.problems} sets ({progress.cached} cached)  "
            f"{rate:,.0f} mappings/s  {_duration(left)} left",
            final=progress.done == progress.problems,
        )

    def enumeration(self, progress: ExhaustiveProgress) -> None:
        """How far an enumeration is."""
        rate = progress.evaluations / max(progress.seconds, 1e-9)
        left = (progress.total - progress.evaluations) / rate if rate else None
        self.status(
            f"enumeration  {progress.done}/{progress.problems} sets  {progress.evaluations:,} of {progress.total:,} "
            f"mappings  {rate:,.0f}/s  {_duration(left)} left",
            final=progress.done == progress.problems,
        )

    def progress(self, progress: Progress, generations: int) -> None:
        """How far the co-optimiser is."""
        if self.compile_s is None:
            self.compile_s = progress.compile_s
            self.line(f"compiled in {progress.compile_s:.1f} s")
        done = progress.generation
        rate = progress.fresh_evaluations / max(progress.seconds, 1e-9)
        left = (generations - done) * progress.step_s / len(progress.hypervolume) if done else None
        self.status(
            f"search  generation {done}/{generations}  {rate:,.0f} designs/s  front {progress.front_size[-1]}  "
            f"hypervolume {progress.hypervolume[-1]:.4f}  {_duration(left)} left",
            final=done >= generations,
        )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "? s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _warn(text: str) -> None:
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------- shared pieces


def _use_compile_cache(arguments: argparse.Namespace) -> None:
    """Keeps compiled programs in the user's cache folder."""
    if getattr(arguments, "no_compile_cache", False):
        return
    import jax

    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "mohamjax" / "compiled"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def _application(arguments: argparse.Namespace) -> ApplicationModel:
    from mohamjax.workload import load_scenario

    return load_scenario(
        arguments.workload if len(arguments.workload) > 1 else arguments.workload[0],
        batch=arguments.batch,
        shapes=dict(arguments.shape),
        skip_unknown=arguments.skip_unknown,
        warn=_warn,
    )


def _templates(arguments: argparse.Namespace, application: ApplicationModel) -> tuple[Template, ...]:
    from mohamjax.hardware import load_templates, packaged_templates, with_word_bits

    names = [n for n in (arguments.templates or "").split(",") if n]
    templates = tuple(load_templates(names or list(packaged_templates())))
    if arguments.word_bits == "model":
        widest = max(layer.word_bits for layer in application.layers)
        templates = tuple(with_word_bits(template, widest) for template in templates)
    return templates


def _technology(arguments: argparse.Namespace) -> Technology:
    from mohamjax.hardware import load_technology

    return load_technology(arguments.technology)


def _probe(path: str | None, item: str = "--out") -> None:
    """Complains about a file that cannot be written before the work is done that would go there; names the option."""
    from mohamjax.io import prepare_folder
    from mohamjax.reader import found

    if path not in (None, "-"):
        assert path is not None
        target = pathlib.Path(path)
        if found(target, folder=True):
            raise InputError("is a folder", file=path, item=item, remedy="name a file")
        prepare_folder(target.parent, item)


def _write(path: str | None, text: str) -> None:
    """To a file, atomically, or to standard output for None and `-`."""
    from mohamjax.io import write_text

    if path in (None, "-"):
        sys.stdout.write(text)
    else:
        write_text(path, text)


# ---------------------------------------------------------------- verbs


def _settings(arguments: argparse.Namespace) -> Settings:
    """The settings of a search: budget and preset, then what the command line changes."""
    import dataclasses

    from mohamjax.hardware import load_package
    from mohamjax.search import MOST_RATES, Settings, load_requirements

    settings = Settings.preset(
        arguments.budget, preset=arguments.preset, seed=arguments.seed, cache=not arguments.no_mapping_cache
    )
    if arguments.package is not None:
        # What the file does not state is the preset's.
        settings = dataclasses.replace(settings, package=load_package(arguments.package, settings.package))
    sizes = {
        "population": arguments.population,
        "generations": arguments.generations,
        "archive": arguments.archive,
        "max_chiplets": arguments.max_chiplets,
        "islands": arguments.islands,
        "objective": arguments.objective or (arguments.weights and "product"),
        "stop": arguments.stop,
        "seeded": arguments.seeds,
    }
    chosen = {k: v for k, v in sizes.items() if v is not None}
    tiles = settings.package.max_tiles
    chosen.setdefault("max_chiplets", min(settings.moham.max_chiplets, tiles))
    changes: dict[str, Any] = {"moham": dataclasses.replace(settings.moham, tiles=tiles, **chosen)}
    from mohamjax.search.loop import MAX_POPULATION

    together = changes["moham"].population * changes["moham"].islands
    if together > MAX_POPULATION:
        raise InputError(
            f"{together:,} designs at once", item="--population", remedy=f"at most {MAX_POPULATION:,}, islands counted"
        )
    if arguments.weights:
        if chosen["objective"] != "product":
            raise InputError("are for --objective product", item="--weights", remedy="leave one of the two out")
        changes["weights"] = arguments.weights
    kind = "plan_rates" if settings.moham.genes == "plans" else "rates"
    rates = getattr(settings, kind)
    known = [field.name for field in dataclasses.fields(rates)]
    for name, rate in arguments.rate:
        if name not in known:
            raise InputError(f"unknown operator {name!r}", item="--rate", remedy=f"use one of {', '.join(known)}")
        if rate > (most := MOST_RATES.get(name, 1.0)):
            raise InputError(f"{name} is {rate:g}", item="--rate", remedy=f"use a number from 0 to {most:g}")
    changes[kind] = dataclasses.replace(rates, **dict(arguments.rate))
    rounds = {"every": arguments.remap, "polish": arguments.polish}
    rounds = {name: value for name, value in rounds.items() if value is not None}
    if kind != "plan_rates" and any(rounds.values()):
        raise InputError("only a search of plans maps again", item="--preset", remedy="leave out --remap and --polish")
    changes["remap"] = dataclasses.replace(settings.remap, **rounds)
    if arguments.require:
        changes["requirements"] = load_requirements(arguments.require)
    if arguments.technology:
        changes["technology"] = _technology(arguments)
    return dataclasses.replace(settings, **changes)


def _search(arguments: argparse.Namespace) -> int:
    import dataclasses

    from mohamjax.search import co_optimise, expected_cost, prepare, runnable

    settings = _settings(arguments)
    application = _application(arguments)
    templates = _templates(arguments, application)
    site, _ = prepare(application, templates, settings, arguments.inject)
    runs = runnable(application, site.templates)
    inputs = _inputs(arguments, application)
    if arguments.dry_run:
        cost = expected_cost(application, int(runs.sum()), settings)
        if arguments.json:
            demands = {"requirements": settings.requirements.to_dict()}
            print(json.dumps({**_sizes(application, settings), **demands, **dataclasses.asdict(cost)}, indent=2))
        else:
            print(_plan(application, site.templates, runs, settings, cost))
        return 0

    from mohamjax.io import landmarks, prepare_folder, write_results
    from mohamjax.schedule import certify

    folder = prepare_folder(arguments.out or pathlib.Path("results") / f"{application.name}-{arguments.budget}")
    began = time.perf_counter()
    terminal = _Terminal()
    terminal.line(
        f"{application.name}: {plural(len(application.networks), 'network')}, "
        f"{plural(len(application.layers), 'layer')}, "
        f"{len(application.unique_layers)} unique, {application.macs / 1e9:.2f} GMAC; "
        f"{plural(len(site.templates), 'template')}; budget {arguments.budget}, seed {arguments.seed}"
    )
    try:
        result = co_optimise(
            application,
            templates,
            settings,
            listener=terminal,
            designs=arguments.inject,
            checkpoint=folder / "checkpoint.npz",
            resume=arguments.resume,
            checkpoint_every_s=arguments.checkpoint_every,
        )
    except KeyboardInterrupt:
        terminal.line("stopped by hand before the first generation; nothing to write")
        return 130
    bounds = result.front.bounds(settings.moham.max_chiplets)
    config = {**result.config, "inputs": inputs}
    certificate = certify(
        result.front.front_bounds(settings.moham.max_chiplets),
        result.front.reports.objectives,
        config["ideal_point"],
        config["reference_point"],
    )
    write_results(folder, result.front, result.history, config, bounds, certificate)
    drawing = time.perf_counter()
    if not arguments.no_figures:
        from mohamjax.plot import plot_evaluated

        terminal.line("drawing figures")
        title = f"{application.name}, budget {arguments.budget}, seed {arguments.seed}"
        plot_evaluated(result.front, folder / "figures", title=title, history=result.history, certificate=certificate)
    ended = time.perf_counter()
    timings = {**result.timings, "figures_s": ended - drawing, "total_s": ended - began}
    steps = {
        "mapping": "mapping_s",
        "compiling the search": "compile_s",
        f"searching at {timings['designs_per_s']:,.0f} designs/s": "search_s",
        "evaluating the front again in double precision": "reevaluation_s",
        "drawing figures": "figures_s",
    }
    spent = ", ".join(f"{step} {timings[key]:.1f} s" for step, key in steps.items())
    terminal.line(f"{spent}; {timings['total_s']:.1f} s in all")
    terminal.line(f"results in {folder}{' (stopped early)' if result.interrupted else ''}")
    roles = landmarks(result.front.reports.objectives)
    if arguments.json:
        summary = _summary(result, application, settings, roles, folder, timings)
        # Of the front as it is written: refitted, and evaluated in double precision.
        volumes = {"hypervolume": certificate.hypervolume, "hypervolume_bound": certificate.most}
        print(json.dumps({**summary, **volumes, "bounds": bounds.to_dict()}, indent=2))
    else:
        print(_landmark_table(roles, result.front, bounds))
        print(
            f"hypervolume {certificate.hypervolume:.4f}; no front over the mappings found has more than "
            f"{certificate.most:.4f}: {certificate.share:.1%} of it at least"
        )
    return 0


def _inputs(arguments: argparse.Namespace, application: ApplicationModel) -> dict[str, Any]:
    """What the command line named, and the contents of its files: with it, a search can be repeated and checked."""
    import hashlib

    from mohamjax.reader import found

    files = [*arguments.workload, arguments.technology, arguments.package, arguments.require, arguments.inject]
    files += [network.source for network in application.networks]
    files += (arguments.templates or "").split(",")
    return {
        "workload": list(arguments.workload),
        "batch": arguments.batch,
        "shapes": {name: list(shape) for name, shape in arguments.shape},
        "skip_unknown": arguments.skip_unknown,
        "preset": arguments.preset,
        "word_bits": arguments.word_bits,
        "templates": arguments.templates,
        "technology": arguments.technology,
        "package": arguments.package,
        "require": arguments.require,
        "inject": arguments.inject,
        "sha256": {
            str(name): hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()
            for name in files
            if name and found(name, folder=False)
        },
    }


def _unit(values: Sequence[float], symbol: str) -> tuple[str, float]:
    """Unit in which the smallest of the values has digits before the point, and the factor to it."""
    for prefix, factor in (("", 1.0), ("m", 1e3), ("u", 1e6), ("n", 1e9)):
        if min(values) * factor >= 1:
            return prefix + symbol, factor
    return "p" + symbol, 1e12


def _digits(value: float) -> str:
    """Four significant digits without an exponent."""
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def _landmark_table(landmarks: dict[str, int], front: Any, bounds: Bounds) -> str:
    from mohamjax.io import front_rows

    rows = front_rows(front)
    latency = _unit([rows[i]["latency_s"] for i in landmarks.values()], "s")
    energy = _unit([rows[i]["energy_J"] for i in landmarks.values()], "J")
    scales = (("latency_s", latency[1]), ("energy_J", energy[1]), ("area_mm2", 1.0))
    units = (f"latency [{latency[0]}]", f"energy [{energy[0]}]", "area [mm^2]")
    head = ["design", "id", *(cell for unit in units for cell in (unit, "/ bound")), "chiplets"]
    body = []
    for name, i in landmarks.items():
        row = rows[i]
        kinds = ", ".join(f"{row[f'n_{t.name}']} {t.name}" for t in front.templates if row[f"n_{t.name}"])
        values = [
            cell
            for (key, scale), bound in zip(scales, bounds.objectives, strict=True)
            for cell in (_digits(row[key] * scale), _digits(row[key] / bound))
        ]
        body.append([name, str(i), *values, kinds])
    limits = [
        cell
        for (_, scale), bound in zip(scales, bounds.objectives, strict=True)
        for cell in (_digits(bound * scale), "")
    ]
    body.append(["lower bound", "", *limits, ""])
    heading = (
        f"front of {plural(len(rows), 'design')}; / bound: times what no design over the mappings found goes below"
    )
    return f"{heading}\n{_table([head, *body])}"


def _summary(
    result: Any,
    application: ApplicationModel,
    settings: Settings,
    landmarks: dict[str, int],
    folder: pathlib.Path,
    timings: dict[str, float],
) -> dict[str, Any]:
    from mohamjax.io import front_rows

    rows = front_rows(result.front)
    return {
        **_sizes(application, settings),
        "interrupted": result.interrupted,
        "front_size": len(rows),
        "evaluations": result.history[-1]["evaluations"],
        "landmarks": {name: rows[i] for name, i in landmarks.items()},
        "seconds": timings,
        "folder": str(folder),
    }


def _sizes(application: ApplicationModel, settings: Settings) -> dict[str, Any]:
    """What is searched, in numbers."""
    return {
        "scenario": application.name,
        "layers": len(application.layers),
        "unique_layers": len(application.unique_layers),
        "macs": application.macs,
        "budget": settings.budget,
        "seed": settings.seed,
    }


def _demands(requirements: Requirements) -> str:
    """The requirements as they were read, in the form in which they are written."""
    import yaml

    content = {key: value for key, value in requirements.to_dict().items() if key != "format"}
    if not content:
        return "requirements: none"
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110)
    return "\n".join([f"requirements of {requirements.file}:", *(f"  {line}" for line in text.splitlines())])


def _plan(
    application: ApplicationModel, templates: Sequence[Template], runs: Any, settings: Settings, cost: ExpectedCost
) -> str:
    """What a search would do and take: the text of `--dry-run`."""
    rows = [["network", "layers", "unique", "GMAC"]]
    for network in application.networks:
        unique = len({(x.type, x.shape) for x in network.layers})
        rows.append([network.name, str(len(network.layers)), str(unique), f"{network.macs / 1e9:.3f}"])
    rows.append(
        ["all", str(len(application.layers)), str(len(application.unique_layers)), f"{application.macs / 1e9:.3f}"]
    )
    kinds = [["template", "unique layers that it runs", "layer types that it does not run"]]
    for t, template in enumerate(templates):
        missing = sorted({u.type for u, ok in zip(application.unique_layers, runs[:, t], strict=True) if not ok})
        kinds.append([template.name, f"{int(runs[:, t].sum())} of {len(runs)}", ", ".join(missing) or "none"])
    return "\n\n".join(
        [
            f"scenario {application.name}, budget {settings.budget}, seed {settings.seed}",
            _table(rows),
            _table(kinds),
            _demands(settings.requirements),
            f"mapper: {plural(cost.mappings, 'mapping')} of {plural(int(runs.sum()), 'pair')} of unique layer and "
            f"template\n"
            f"search: at most {plural(cost.designs, 'design')}, {plural(settings.moham.generations, 'generation')} of "
            f"{settings.moham.population}\n"
            f"to expect on two cores: about {_duration(cost.seconds)}, and about {_duration(cost.compile_s)} of "
            f"compiling on top, less where an earlier search has left programs in the cache; {cost.memory_MB:,.0f} MB",
        ]
    )


def _map(arguments: argparse.Namespace) -> int:
    import dataclasses

    import jax

    from mohamjax.io import best_nests, given_mappings, mappings_document, prepare_folder, write_timeloop_mappings
    from mohamjax.plot.style import known_format
    from mohamjax.search import (
        BUDGETS,
        Settings,
        cache_folder,
        map_exhaustively,
        map_layers,
        network_choices,
        runnable,
    )

    if arguments.exhaustive:
        refuse("an enumeration needs no mappings of yours", "leave out either option", inject=arguments.inject)
        refuse(
            "is for a search, not for an enumeration",
            budget=arguments.budget,
            no_mapping_cache=arguments.no_mapping_cache,
        )
    else:
        refuse("is for an enumeration", "add --exhaustive, or leave it out", limit=arguments.limit)
    settings = Settings.preset(arguments.budget or "small")
    application, technology = _application(arguments), _technology(arguments)
    templates = _templates(arguments, application)
    runnable(application, templates)
    given = given_mappings(arguments.inject, application, templates, technology)
    if arguments.out == arguments.nests == "-":
        raise InputError("standard output takes --out already", item="--nests", remedy="name a file for one of them")
    if arguments.figure is not None:
        known_format(pathlib.Path(arguments.figure).suffix.removeprefix(".").lower())
    for option in ("out", "nests", "figure"):
        _probe(getattr(arguments, option), f"--{option}")
    if arguments.timeloop is not None:
        prepare_folder(arguments.timeloop, "--timeloop")
    terminal = _Terminal()
    search_key, _, network_key = jax.random.split(jax.random.key(arguments.seed), 3)
    layers = application.unique_layers
    problems = f"{plural(len(layers), 'unique layer')} on {plural(len(templates), 'template')}"
    try:
        if arguments.exhaustive:
            terminal.line(f"counting the mappings of {problems}")
            tables = map_exhaustively(
                layers,
                templates,
                technology,
                limit=arguments.limit or _MOST_ENUMERATED,
                progress=terminal.enumeration,
                announce=lambda layer, template, size: terminal.line(
                    f"{layer.type} {_bounds(layer)} on {template.name}: {plural(size.mappings, 'mapping')}, "
                    f"{size.classes:,} of different cost"
                ),
            )
        else:
            terminal.line(f"mapping {problems}; compiling")
            tables = map_layers(
                search_key,
                layers,
                templates,
                technology,
                BUDGETS[settings.budget].mapper,
                given=given,
                progress=terminal.mapping,
                cache=None if arguments.no_mapping_cache else cache_folder(),
            )
    except KeyboardInterrupt:
        kept = not (arguments.exhaustive or arguments.no_mapping_cache)
        terminal.line("stopped by hand" + ("; finished sets are in the cache" if kept else ""))
        return 130
    terminal.close()
    choices = network_choices(network_key, application, templates, technology, tables)
    report = mappings_document(application, templates, tables)
    report["networks"] = [
        {"network": network, "template": template, "choices": [dataclasses.asdict(choice) for choice in front]}
        for (network, template), front in choices.items()
    ]
    if arguments.out is not None:
        _write(arguments.out, json.dumps(report, indent=1) + "\n")
    if arguments.timeloop is not None:
        number = write_timeloop_mappings(arguments.timeloop, application, templates, technology, tables)
        terminal.line(f"{plural(number, 'mapping')} as Timeloop's files in {arguments.timeloop}")
    if arguments.figure is not None:
        terminal.line(f"figure {_draw_mappings(report, application, arguments.figure)}")
    text = _set_table(report) + "\n"
    if choices:
        text += "\nwhole networks, one mapping per layer on one chiplet\n" + _choice_table(choices) + "\n"
    nests = best_nests(application, templates, tables) if arguments.nests is not None else ""
    if arguments.nests not in (None, "-"):
        _write(arguments.nests, nests)
    if arguments.out == "-":
        sys.stderr.write(text)
    else:
        sys.stdout.write(text)
    if arguments.nests == "-":
        sys.stdout.write("\n" + nests)
    return 0


def _bounds(layer: Any) -> str:
    from mohamjax.workload import DIMS

    return " ".join(f"{d}={b}" for d, b in zip(DIMS, layer.shape.bounds, strict=True) if b > 1)


def _set_table(report: dict[str, Any]) -> str:
    """The extremes of every Pareto set."""
    head = [
        "layer (first of its kind)",
        "type",
        "template",
        "set",
        "fastest [cycles]",
        "most frugal [uJ]",
        "smallest [mm^2]",
    ]
    body = [
        [
            s["layer"],
            s["type"],
            s["template"],
            str(len(s["mappings"])),
            f"{min(m['latency_cycles'] for m in s['mappings']):,.0f}",
            f"{min(m['energy_pJ'] for m in s['mappings']) * 1e-6:,.4g}",
            f"{min(m['area_um2'] for m in s['mappings']) * 1e-6:,.4g}",
        ]
        for s in report["sets"]
    ]
    return _table([head, *body])


def _choice_table(choices: dict[tuple[str, str], Any]) -> str:
    """The extremes of every network's front, and its choice of least delay times energy."""
    rows = [["network", "template", "choice", "latency [ms]", "energy [mJ]", "area [mm^2]"]]
    for (network, template), front in choices.items():
        scores = {
            "fastest": lambda c: c.latency_cycles,
            "most frugal": lambda c: c.energy_pJ,
            "smallest": lambda c: c.area_um2,
            "least delay times energy": lambda c: c.latency_cycles * c.energy_pJ,
        }
        for role, score in scores.items():
            best = min(front, key=score)
            values = (best.latency_cycles * 1e-6, best.energy_pJ * 1e-9, best.area_um2 * 1e-6)
            rows.append([network, template, role, *map(_digits, values)])
    return _table(rows)


def _draw_mappings(report: dict[str, Any], application: ApplicationModel, path: str) -> pathlib.Path:
    """Parallel coordinates of the sets of the three unique layers with the most work."""
    import numpy as np

    from mohamjax.plot import MappingSet, parallel_coordinates, save

    names = [f"{application.networks[n].name}/" for n in application.network_of_layer]
    work: dict[str, int] = {}
    for i, u in enumerate(application.unique_of_layer):
        first = application.unique_of_layer.index(u)
        name = names[first] + application.layers[first].name
        work[name] = work.get(name, 0) + application.layers[i].shape.macs
    most = sorted(work, key=lambda name: -work[name])[:3]
    sets = [
        MappingSet(
            s["layer"].split("/", 1)[1],
            s["template"],
            np.array([[m["latency_cycles"], m["energy_pJ"], m["area_um2"]] for m in s["mappings"]])
            * [1e-9, 1e-12, 1e-6],
        )
        for name in most
        for s in report["sets"]
        if s["layer"] == name
    ]
    kind = "the three layers with the most work" if len(work) > 3 else "all layers"
    return save(parallel_coordinates(sets, title=f"Pareto sets of mappings, {application.name}: {kind}"), path)


def _evaluate_mappings(arguments: argparse.Namespace) -> int:
    from mohamjax.io import evaluate_timeloop
    from mohamjax.io.samples import evaluate_samples

    options = {"links": arguments.links == "on", "float32": arguments.float32, "explain": arguments.explain}
    out = arguments.out or "-"
    pair = (arguments.architectures, arguments.samples)
    if arguments.timeloop is not None:
        if pair != (None, None):
            raise InputError(
                "stands in the place of --architectures and --samples", item="--timeloop", remedy="give either"
            )
        _probe(arguments.out)
        summary = evaluate_timeloop(arguments.timeloop, out, **options)
    elif None in pair:
        raise InputError(
            "nothing to evaluate", item="evaluate mappings", remedy="give --architectures and --samples, or --timeloop"
        )
    else:
        _probe(arguments.out)
        summary = evaluate_samples(*pair, out, **options)
    print(json.dumps(summary), file=sys.stderr)
    return 0


def _evaluate_schedules(arguments: argparse.Namespace) -> int:
    from mohamjax.io import (
        DESIGNS_FORMAT,
        SCHEDULE_FORMAT,
        check_format,
        dump_json,
        evaluate_designs,
        evaluate_schedules,
        read_json,
        schedules_document,
    )
    from mohamjax.io.schedules import SCHEDULE_READERS

    designs = (SCHEDULE_FORMAT, DESIGNS_FORMAT)
    if check_format(read_json(arguments.file), (*SCHEDULE_READERS, *designs), arguments.file) in designs:
        _probe(arguments.out)
        technology = _technology(arguments) if arguments.technology else None
        rows, evaluated = evaluate_designs(arguments.file, technology=technology, float32=arguments.float32)
        _write(arguments.out, dump_json(schedules_document(rows, evaluated, timelines=arguments.timelines)))
        _count_designs(rows)
        return 0
    refuse("is for the formats schedule/1 and designs/1", "leave it out", technology=arguments.technology)
    _probe(arguments.out)
    summary = evaluate_schedules(
        arguments.file, arguments.out or "-", float32=arguments.float32, timelines=arguments.timelines
    )
    print(json.dumps(summary), file=sys.stderr)
    return 0


def _evaluate_designs(arguments: argparse.Namespace) -> int:
    from mohamjax.io import (
        evaluate_designs,
        evaluation_csv,
        explain_designs,
        explanations_text,
        prepare_folder,
        write_design_trace,
        write_timeloop_designs,
    )

    if arguments.explain is None:
        refuse("is the form of an explanation", "add --explain, or leave it out", json=arguments.json)
    technology = _technology(arguments) if arguments.technology else None
    for option in ("out", "trace"):
        _probe(getattr(arguments, option), f"--{option}")
    if arguments.timeloop is not None:
        prepare_folder(arguments.timeloop, "--timeloop")
    rows, evaluated = evaluate_designs(
        arguments.file, technology=technology, float32=arguments.float32, wanted=arguments.explain or None
    )
    told = None if arguments.explain is None else explain_designs(rows, evaluated, arguments.explain or None)
    if told is None or arguments.out is not None:
        _write(arguments.out, evaluation_csv(rows))
    if told is not None:
        # Who asks for an explanation and names no file for the table wants the explanation alone.
        stream = sys.stderr if arguments.out == "-" else sys.stdout
        stream.write(json.dumps(told, indent=1) + "\n" if arguments.json else explanations_text(told))
    asked = {"--trace": arguments.trace, "--timeloop": arguments.timeloop}
    asked = {item: target for item, target in asked.items() if target is not None}
    if asked and evaluated is None:
        raise InputError("no design of the file is valid", file=arguments.file, item=", ".join(asked))
    if evaluated is not None:
        for item, target in asked.items():
            {"--trace": write_design_trace, "--timeloop": write_timeloop_designs}[item](target, evaluated)
    _count_designs(rows)
    return 0


def _count_designs(rows: Sequence[dict[str, Any]]) -> None:
    good = sum(row["valid"] for row in rows)
    print(f"{plural(len(rows), 'design')}, {good} valid", file=sys.stderr)


def _evaluate(arguments: argparse.Namespace) -> int:
    kinds: dict[str, Callable[[argparse.Namespace], int]] = {
        "mappings": _evaluate_mappings,
        "schedules": _evaluate_schedules,
        "designs": _evaluate_designs,
    }
    return kinds[arguments.kind](arguments)


def _workload(arguments: argparse.Namespace) -> int:
    import csv
    import io

    from mohamjax.workload import LAYER_COLUMNS, layer_rows

    application = _application(arguments)
    if arguments.csv:
        refuse("is the same as --csv", "give one of the two", out=arguments.out)
    target = arguments.csv or arguments.out
    if target is not None:
        if len(application.networks) != 1:
            raise InputError(
                f"--csv prints one network, there are {len(application.networks)}", remedy="name one ONNX file"
            )
        text = io.StringIO()
        writer: csv.DictWriter[str] = csv.DictWriter(text, list(LAYER_COLUMNS), lineterminator="\n")
        writer.writeheader()
        writer.writerows(layer_rows(application.networks[0]))
        _write(target, text.getvalue())
        return 0
    rows = [["network", "layers", "unique", "GMAC", "types"]]
    for network in application.networks:
        types: dict[str, int] = {}
        for layer in network.layers:
            types[layer.type] = types.get(layer.type, 0) + 1
        unique = len({(x.type, x.shape) for x in network.layers})
        listed = ", ".join(f"{n} {t}" for t, n in sorted(types.items()))
        rows.append([network.name, str(len(network.layers)), str(unique), f"{network.macs / 1e9:.4f}", listed])
    print(_table(rows))
    return 0


def _templates_verb(arguments: argparse.Namespace) -> int:
    from mohamjax.hardware import (
        describe,
        example_yaml,
        load_template,
        load_templates,
        packaged_templates,
        template_to_yaml,
    )

    if arguments.action == "list":
        rows = [["template", "levels", "MACs", "layer types", "description"]]
        for template in load_templates([*packaged_templates(), *arguments.files]):
            macs = 1
            for level in template.levels:
                macs *= level.fanout[0] * level.fanout[1]
            rows.append(
                [
                    template.name,
                    str(len(template.levels)),
                    str(macs),
                    " ".join(template.layer_types),
                    template.description,
                ]
            )
        _write(arguments.out, _table(rows) + "\n")
        return 0
    if arguments.example:
        refuse("is for a template, not for the example, which is a YAML file", yaml=arguments.yaml)
        if arguments.name:
            raise InputError("--example is no template", item=arguments.name, remedy="leave out either")
        _write(arguments.out, example_yaml())
        return 0
    if arguments.name is None:
        raise InputError("no template is named", item="templates show", remedy="name one, or ask for --example")
    template = load_template(arguments.name)
    text = template_to_yaml(template) if arguments.yaml else describe(template)
    _write(arguments.out, text if text.endswith("\n") else text + "\n")
    return 0


def _plot(arguments: argparse.Namespace) -> int:
    from mohamjax.plot import plot_results

    formats = tuple(f for f in arguments.format.split(",") if f)
    if not formats:
        raise InputError("no format is named", item="--format", remedy="use png, svg or pdf")
    for path in plot_results(arguments.folder, out=arguments.out, formats=formats):
        print(path)
    return 0


def _schedule(arguments: argparse.Namespace) -> int:
    terminal = _Terminal()
    return cli_schedule.schedule(arguments, _application, terminal.line, terminal.mapping)


_VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "codesign": lambda arguments: cli_codesign.run(arguments, _application),
    "search": _search,
    "map": _map,
    "evaluate": _evaluate,
    "schedule": _schedule,
    "workload": _workload,
    "templates": _templates_verb,
    "plot": _plot,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: arguments; default those of the process.

    Returns:
        The exit code.
    """
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.exit(2, f"mohamjax: unknown argument {unknown[0]}; see mohamjax {arguments.verb} --help\n")
    warnings.showwarning = lambda message, *_: _warn(str(message))
    try:
        _use_compile_cache(arguments)
        return _VERBS[arguments.verb](arguments)
    except InputError as error:
        print(f"mohamjax: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mohamjax: stopped by hand", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to say, and Python must not say it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UnicodeEncodeError) as error:
        # What no reader or writer of ours has put better: a full disk, or a terminal that lacks a character.
        name = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "check the path, its rights and the disk" if isinstance(error, OSError) else "set PYTHONUTF8=1"
        print(f"mohamjax: {InputError(reason, file=name, remedy=remedy)}", file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        print("mohamjax: this is a fault of ours; please report it with the lines above", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
