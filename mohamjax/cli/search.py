"""The verb `search`: searches the front of multi-chiplet systems for networks that run together."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import pathlib
import time
from typing import TYPE_CHECKING, Any

from mohamjax.cli import options, robust, spread
from mohamjax.cli.inputs import (
    application_of,
    technology_of,
    templates_of,
    warn_of_other_memory,
    warn_of_own_bandwidth,
    warn_of_slow_buffers,
)
from mohamjax.cli.outputs import default_folder, drawing, results_folder, stopped
from mohamjax.cli.tables import decision_table, fitted, landmark_table, lines
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.progress import duration
from mohamjax.text import plural

if TYPE_CHECKING:
    import numpy as np

    from mohamjax.drawing import FigureProcess
    from mohamjax.io import CheckpointFile
    from mohamjax.problem import DesignProblem, Requirements
    from mohamjax.runtime.devices import Devices
    from mohamjax.schedule import DesignFile, Evaluated
    from mohamjax.search import ExpectedCost, Search, SearchResult, Settings
    from mohamjax.workload import ApplicationModel


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser(
        "search",
        help="search the front of multi-chiplet systems for networks that run together",
        description="Searches packages, chiplet sizes, mappings and schedules for networks that run together, and "
        "writes the front over latency, energy and area, or over what --objectives names, to a results folder.",
    )
    parser.add_argument(
        "workload",
        nargs="+",
        help="a packaged scenario (mobile, edge, ar-vr, data-center, ar-vr-rates, ar-vr-unet, data-center-released) "
        "or network (`mohamjax workload` lists them), a scenario YAML, or ONNX files; several run together",
    )
    _add_first(parser.add_argument_group("what matters first"))
    _add_hardware(parser.add_argument_group("the hardware"))
    options.add_workload(parser.add_argument_group("how networks are read"))
    _add_goals(parser.add_argument_group("what is sought"))
    _add_search(parser.add_argument_group("how it is sought"))
    _add_running(parser.add_argument_group("where it runs and what it keeps"))


def _add_first(parser: options.Arguments) -> None:
    """Adds the options that most users need."""
    parser.add_argument(
        "--budget", help="tiny, small (default) or paper (default with --preset moham): 300 generations of 250"
    )
    parser.add_argument(
        "--require",
        metavar="FILE",
        help="requirements (YAML): limits, numbers of chiplets, a fixed package, pinned layers",
    )
    parser.add_argument("--target", metavar="TARGET", help=f"name designs that meet a target: {options.TARGET_HELP}")
    parser.add_argument(
        "--within",
        type=options.above_one,
        metavar="F",
        help="search only designs that take at most F times the least latency that any design can have",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be searched, and the time and memory it would take"
    )
    parser.add_argument("--json", action="store_true", help="print a summary as JSON on standard output")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the results folder")
    options.add_common(
        parser,
        "results folder (default results/SCENARIO-BUDGET, with the preset and the seed where they are not the default)",
        random=True,
    )


def _add_hardware(parser: options.Arguments) -> None:
    """Adds the options for chiplets and packages."""
    options.add_hardware(parser)
    options.add_static_energy(parser)
    parser.add_argument("--package", metavar="FILE", help="package parameters (YAML)")
    parser.add_argument(
        "--contention",
        choices=("all", "interface", "mesh"),
        help="whose bandwidth layers share: memory interfaces alone (interface), also the links of chiplets and the "
        "DRAM (all), or also every link of the mesh (mesh); default: the package's",
    )
    parser.add_argument("--max-chiplets", type=options.positive, help="most chiplets of a design (default: all tiles)")


def _add_goals(parser: options.Arguments) -> None:
    """Adds the options for objectives, application models, and the number of designs that are kept."""
    parser.add_argument(
        "--objectives",
        type=options.names,
        metavar="NAME,NAME,...",
        help="two or three measures that span the front (default latency,energy,area): latency, energy, area, "
        "latency:NETWORK, lateness, missed, weighted-latency; period and idle with several frames in flight",
    )
    parser.add_argument(
        "--periods",
        type=options.positive,
        metavar="N",
        help="most periods of the slowest network in flight, for the objectives period and idle (default 4)",
    )
    parser.add_argument(
        "--objective",
        help="front (default), or one number to minimise: one of --objectives, or product with --weights",
    )
    parser.add_argument(
        "--weights",
        type=options.weights,
        metavar="W,W,W",
        help="exponents of the objectives in the product (default 1,1,1)",
    )
    parser.add_argument(
        "--robust",
        metavar="FILE",
        help="one package for several application models (YAML): subsets of the networks, batches, other scenarios; "
        "objectives are the mean or the worst over them",
    )
    parser.add_argument(
        "--no-price",
        action="store_true",
        help="with --robust: do not also search for the nominal model alone, which takes as many evaluations",
    )
    parser.add_argument(
        "--archive",
        type=options.positive,
        help="most non-dominated designs kept per island while it searches (default 2048; 512 with --budget tiny and "
        "with other presets); the results hold no more than --front",
    )
    parser.add_argument(
        "--front",
        type=options.positive,
        help="most designs in the results; of more, those that hold most of the hypervolume are kept (default 512)",
    )


def _add_search(parser: options.Arguments) -> None:
    """Adds the options for the size of the search, its operators, its start and its end."""
    parser.add_argument(
        "--preset",
        default="default",
        help="default: search chiplets, on which list scheduling places the layers; layers: move single layers, "
        "starting from list schedules; moham: MOHaM as in its paper, from chromosome to result; paper: MOHaM's "
        "operators, rates and contention within our loop, with random immigrants, our archive and our mapper",
    )
    parser.add_argument("--population", type=options.positive, help="designs per generation (overrides the budget)")
    parser.add_argument("--generations", type=options.positive, help="most generations (overrides the budget)")
    parser.add_argument("--islands", type=options.positive, help="populations that evolve side by side (default 1)")
    parser.add_argument(
        "--migration",
        type=options.natural,
        metavar="N",
        help="every N generations the best of every island also go to the next one (default 0: never)",
    )
    parser.add_argument(
        "--remap",
        type=options.natural,
        metavar="N",
        help="map layers again on chiplets of the front every N generations (default 70 with --budget small, "
        "100 with --budget paper; 0: never, as with --budget tiny)",
    )
    parser.add_argument(
        "--polish",
        type=options.natural,
        metavar="N",
        help="after the last generation, map again on chiplets of the front up to N times, 100 generations each, until "
        "that gains less than a ten-thousandth of the hypervolume (default 0)",
    )
    parser.add_argument(
        "--rate",
        type=options.rate,
        action="append",
        default=[],
        metavar="NAME=P",
        help="how often an operator is used, as in config.yaml (0 switches it off): plan_rates, or rates with other "
        "presets; may be given several times",
    )
    parser.add_argument(
        "--seeds",
        action=argparse.BooleanOptionalAction,
        help="start from list schedules too, not only from random designs (default only with --preset layers)",
    )
    parser.add_argument(
        "--inject", metavar="FILE", help="designs.json or a schedule/1 file whose designs are evaluated first"
    )
    parser.add_argument("--stop", choices=("generations", "stability"), help="when to stop (default generations)")
    options.add_no_pad(parser)


def _add_running(parser: options.Arguments) -> None:
    """Adds the options for devices, processes, checkpoints, outputs and the mapping cache."""
    spread.add_devices(parser, "spread the search (its islands, or the evaluation of a single one)", processes=True)
    spread.add_processes(parser)
    parser.add_argument(
        "--checkpoint-every",
        type=options.seconds,
        default=30.0,
        metavar="SECONDS",
        help="seconds of searching between checkpoints (default 30; 0: as often as progress is reported)",
    )
    parser.add_argument(
        "--bulk", action="store_true", help="also write the front as arrays, designs.npz (design-arrays/1)"
    )
    parser.add_argument("--no-figures", action="store_true", help="draw no figures")
    parser.add_argument("--no-mapping-cache", action="store_true", help="neither read nor keep mapping tables on disk")


def _settings(arguments: argparse.Namespace) -> Settings:
    """Returns the settings of a search: those of budget and preset, changed by the other options."""
    import dataclasses

    from mohamjax.schedule.measures import of_frames
    from mohamjax.search import Settings, check_rate

    settings = Settings.preset(arguments.budget, preset=arguments.preset, seed=arguments.seed)
    sizes = {
        "population": arguments.population,
        "generations": arguments.generations,
        "archive": arguments.archive,
        "front": arguments.front,
        "islands": arguments.islands,
        "migration": arguments.migration,
        "objectives": arguments.objectives,
        "periods": arguments.periods,
        "objective": arguments.objective or (arguments.weights and "product"),
        "stop": arguments.stop,
        "seeded": arguments.seeds,
    }
    chosen = {k: v for k, v in sizes.items() if v is not None}
    changes: dict[str, Any] = {"moham": dataclasses.replace(settings.moham, **chosen)}
    if arguments.no_pad:
        changes["mapper"] = dataclasses.replace(settings.mapper, padding=False)
    from mohamjax.emo.loop import MAX_POPULATION

    together = changes["moham"].population * changes["moham"].islands
    if together > MAX_POPULATION:
        raise InputError(
            f"{together:,} designs at once",
            item="--population",
            remedy=f"use at most {MAX_POPULATION:,} over all islands",
        )
    if arguments.weights:
        if chosen["objective"] != "product":
            raise InputError("are for --objective product", item="--weights", remedy="leave one of the two out")
        changes["weights"] = arguments.weights
    elif chosen.get("objectives"):
        changes["weights"] = (1.0,) * len(chosen["objectives"])
    if arguments.periods and not of_frames(changes["moham"].objectives):
        raise InputError("is for the objectives period and idle", item="--periods", remedy="leave it out")
    kind = "plan_rates" if settings.moham.genes == "plans" else "rates"
    rates = getattr(settings, kind)
    known = [field.name for field in dataclasses.fields(rates)]
    for name, rate in arguments.rate:
        if name not in known:
            raise InputError(f"unknown operator {name!r}", item="--rate", remedy=f"use one of {', '.join(known)}")
        check_rate(name, rate, "--rate")
    changes[kind] = dataclasses.replace(rates, **dict(arguments.rate))
    rounds = {"every": arguments.remap, "polish": arguments.polish}
    rounds = {name: value for name, value in rounds.items() if value is not None}
    if kind != "plan_rates" and any(rounds.values()):
        raise InputError("only a search of plans maps again", item="--preset", remedy="leave out --remap and --polish")
    changes["remap"] = dataclasses.replace(settings.remap, **rounds)
    changes["within"] = arguments.within
    return dataclasses.replace(settings, **changes)


def problem_of(
    arguments: argparse.Namespace, application: ApplicationModel, hinting: ApplicationModel
) -> DesignProblem:
    """Returns the problem of a search: the networks, with hardware and requirements from the command line.

    Args:
        arguments: the parsed arguments of `search`.
        application: the networks.
        hinting: networks whose element types set the word width with `--word-bits model`.
    """
    import dataclasses

    from mohamjax.hardware import load_package
    from mohamjax.problem import DesignProblem
    from mohamjax.search import preset_package

    package = preset_package(arguments.preset)
    if arguments.package is not None:
        # The preset says what the file does not state.
        package = load_package(arguments.package, package)
    if arguments.contention is not None:
        package = dataclasses.replace(package, contention=arguments.contention)
    return DesignProblem(
        application,
        templates_of(arguments, hinting),
        package,
        technology_of(arguments) if arguments.technology or arguments.static_energy else None,
        arguments.require or None,
        arguments.max_chiplets,
    )


def _injected(arguments: argparse.Namespace, problem: DesignProblem) -> DesignFile | None:
    """Returns the designs of --inject, checked here for --dry-run too; None without them."""
    from mohamjax.io import read_designs
    from mohamjax.search.injection import check_injected

    if arguments.inject is None:
        return None
    designs = read_designs(arguments.inject, technology=problem.technology)
    check_injected(designs, problem.application, problem.resolved.templates)
    return designs


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Searches, writes the results folder, and prints a table of the front."""
    from mohamjax.search import usual_budget

    if arguments.budget is None:
        arguments.budget = usual_budget(arguments.preset)
    with spread.joined(arguments) as devices:
        return _run(arguments, terminal, devices)


def _run(arguments: argparse.Namespace, terminal: Terminal, devices: Devices | None) -> int:
    import dataclasses

    if arguments.robust is not None:
        return robust.run(arguments, terminal, devices, _settings, problem_of, _inputs)
    if arguments.no_price:
        raise InputError("is for --robust", item="--no-price", remedy="leave it out, or add --robust FILE")

    from mohamjax.drawing import FigureProcess
    from mohamjax.io import CheckpointFile, mapping_cache
    from mohamjax.problem.design_problem import runnable
    from mohamjax.runtime.devices import is_first
    from mohamjax.schedule.decision import read_target
    from mohamjax.search import Search, check_islands, expected_cost

    def read() -> Any:
        settings = _settings(arguments)
        check_islands(devices, settings.moham.islands)
        application = application_of(arguments)
        problem = problem_of(arguments, application, application)
        settings.goals.check(application, problem.requirements)
        if arguments.target is not None:
            read_target(arguments.target, [n.name for n in application.networks], settings.goals.objectives)
        return settings, problem, _injected(arguments, problem)

    settings, problem, designs = read() if devices is None else devices.in_all(read)
    application, resolved = problem.application, problem.resolved
    warn_of_other_memory(problem.templates, problem.package, problem.technology)
    warn_of_own_bandwidth(problem.templates)
    if arguments.technology:
        warn_of_slow_buffers(resolved.templates, problem.technology)
    runs = runnable(application, resolved.templates)
    inputs = _inputs(arguments, application)
    if arguments.dry_run:
        cost = expected_cost(problem, int(runs.sum()), settings)
        if not is_first(devices):
            return 0
        if arguments.json:
            demands = {"requirements": problem.requirements.to_dict()}
            print(json.dumps({**_sizes(application, settings), **demands, **dataclasses.asdict(cost)}, indent=2))
        else:
            print(_plan(problem, runs, settings, cost))
        return 0

    preset = "" if arguments.preset == "default" else arguments.preset
    usual = default_folder(application.name, arguments.budget, preset, seed=arguments.seed)
    out = pathlib.Path(arguments.out or usual)
    alone = is_first(devices)
    with contextlib.ExitStack() as held:
        folder_of = functools.partial(
            results_folder, out, resume=arguments.resume, designs=arguments.inject, arguments=arguments
        )
        own = held.enter_context(spread.held(devices, folder_of))
        figures = held.enter_context(FigureProcess()) if alone and not arguments.no_figures else None
        terminal.line(
            f"{application.name}: {plural(len(application.networks), 'network')}, "
            f"{plural(len(application.layers), 'layer')}, "
            f"{len(application.unique_layers)} unique, {application.macs / 1e9:.2f} GMAC; "
            f"{plural(len(resolved.templates), 'template')}; budget {arguments.budget}, seed {arguments.seed}"
            + (f"; {plural(len(devices), 'device')}" if devices is not None else "")
        )
        folder = out if own is None else own
        checkpoint = CheckpointFile(folder / "checkpoint.npz", terminal.warn)
        search = Search(
            problem, settings, listener=terminal, designs=designs,
            cache=None if arguments.no_mapping_cache else mapping_cache(),
            checkpoint=checkpoint, resume=arguments.resume,
            checkpoint_every_s=arguments.checkpoint_every, devices=devices,
        )  # fmt: skip
        return _searched(arguments, terminal, search, checkpoint, inputs, folder, figures)


def _searched(
    arguments: argparse.Namespace,
    terminal: Terminal,
    search: Search,
    checkpoint: CheckpointFile,
    inputs: dict[str, object],
    folder: pathlib.Path,
    figures: FigureProcess | None,
) -> int:
    """Runs the search, writes its folder, and prints a summary."""
    from mohamjax.io import front_rows
    from mohamjax.io.files import version_of
    from mohamjax.io.results import write_search
    from mohamjax.runtime.devices import is_first
    from mohamjax.schedule import landmarks, told_of_little_use
    from mohamjax.schedule.decision import decide
    from mohamjax.schedule.recommended import remarks_in

    began, settings = time.perf_counter(), search.settings
    application = search.problem.application
    before = version_of(folder / "front.csv")
    try:
        result = search.run()
        if not is_first(search.devices):
            return 0
        if figures is not None:
            figures.draw(result.front, title=result.title, history=result.history)
        bounds, certificate = result.bounds, result.certificate
        if figures is not None:
            figures.certify(certificate)
        try:
            write_search(folder, result, inputs, bulk=arguments.bulk)
        except InputError as error:
            _print_front(arguments, result.front)
            remedy = "the front is printed instead"
            if checkpoint.kept:
                remedy += "; make room, and --resume writes the files from the checkpoint"
            raise InputError(error.message, file=error.file, remedy=remedy) from None
    except KeyboardInterrupt:
        return stopped(terminal, checkpoint, folder if version_of(folder / "front.csv") != before else None)
    drawn = time.perf_counter()
    if figures is not None:
        with drawing(terminal, folder):
            figures.write(folder / "figures")
    terminal.was_stopped |= result.interrupted
    ended = time.perf_counter()
    timings = {**result.timings, "figures_s": ended - drawn, "total_s": ended - began}
    steps = {
        "mapping": "mapping_s",
        "compiling the search": "compile_s",
        f"searching at {timings['designs_per_s']:,.0f} designs/s": "search_s",
        "finishing the front": "finish_s",
        "evaluating the front again in double precision": "reevaluation_s",
        "ordering layers": "ordering_s",
        "drawing figures": "figures_s",
    }
    # Steps that did not run, or would read 0.0 s, are left out.
    spent = ", ".join(f"{step} {timings[key]:.1f} s" for step, key in steps.items() if timings[key] >= 0.05)
    terminal.line(f"{spent}; {timings['total_s']:.1f} s in all")
    early = " (stopped early; --resume goes on)" if checkpoint.kept else " (stopped early)"
    terminal.line(f"results in {folder}{early if result.interrupted else ''}")
    front = result.front
    for line in told_of_little_use(front):
        terminal.line(line)
    one = settings.moham.objective
    roles = {} if one == "front" else {f"least {one}": result.best}
    roles |= landmarks(result.front.objectives, result.front.measures, result.front.offsets)
    decision = None
    if arguments.target is not None:
        decision = decide(front_rows(result.front), arguments.target, certificate)
    if arguments.json:
        summary = _summary(result, application, settings, roles, folder, timings)
        # These are for the front as written: refitted, and evaluated in double precision.
        volumes = {"hypervolume": result.hypervolume}
        if certificate is not None:
            volumes = {"hypervolume": certificate.hypervolume, "hypervolume_bound": certificate.most}
        if decision is not None:
            summary["decision"] = {**decision.to_dict(), "remarks": remarks_in(decision, front)}
        print(json.dumps({**summary, **volumes, "bounds": bounds.to_dict()}, indent=2))
    else:
        print(landmark_table(roles, result.front, bounds))
        if decision is not None:
            print(decision_table(decision, mapped_again=settings.remap.maps_again))
            for told in remarks_in(decision, front):
                print(lines(told))
        if certificate is None:
            told = f"{result.hypervolume:.4f} of the box; its bounds are known only for the default objectives"
        else:
            told = (
                f"{certificate.hypervolume:.4f}; no front over the mappings found has more than "
                f"{certificate.most:.4f}: this is at least {certificate.share:.1%} of it"
            )
            if settings.within is not None:
                told += " (it counts designs beyond --within too)"
        print(lines(f"hypervolume {told}"))
    return 0


def _print_front(arguments: argparse.Namespace, front: Evaluated) -> None:
    """Prints the front on standard output, for when its folder cannot be written."""
    from mohamjax.io import front_csv, front_rows

    print(json.dumps({"front": front_rows(front)}) if arguments.json else front_csv(front), flush=True)


def _inputs(arguments: argparse.Namespace, application: ApplicationModel) -> dict[str, object]:
    """Returns the inputs on the command line and hashes of their files, to repeat and check a search."""
    import hashlib

    from mohamjax.reader import found

    files = [*arguments.workload, arguments.technology, arguments.package, arguments.require, arguments.inject]
    files += [arguments.robust]
    files += [network.source for network in application.networks]
    files += (arguments.templates or "").split(",")
    return {
        "workload": list(arguments.workload),
        "batch": arguments.batch,
        "shapes": {name: list(shape) for name, shape in arguments.shape},
        "skip_unknown": arguments.skip_unknown,
        **({} if arguments.depthwise is None else {"depthwise": arguments.depthwise}),
        "preset": arguments.preset,
        "word_bits": arguments.word_bits,
        "templates": arguments.templates,
        "technology": arguments.technology,
        "static_energy": arguments.static_energy,
        "package": arguments.package,
        "require": arguments.require,
        "inject": arguments.inject,
        **({} if arguments.robust is None else {"robust": arguments.robust}),
        "sha256": {
            str(name): hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()
            for name in files
            if name and found(name, folder=False)
        },
    }


def _summary(
    result: SearchResult,
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


def _sizes(application: ApplicationModel, settings: Settings) -> dict[str, object]:
    """Returns the size of the problem, with the budget and the seed."""
    return {
        "scenario": application.name,
        "layers": len(application.layers),
        "unique_layers": len(application.unique_layers),
        "macs": application.macs,
        "budget": settings.budget,
        "seed": settings.seed,
    }


def _demands(requirements: Requirements, within: float | None) -> str:
    """Returns the requirements as they were read, as YAML, and the window of `--within`."""
    import yaml

    window = "" if within is None else f"; latency within {within:g} times the least that any design can have"
    content = {key: value for key, value in requirements.to_dict().items() if key != "format"}
    if not content:
        return f"requirements: none{window}"
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=110)
    return "\n".join([f"requirements of {requirements.file}{window}:", *(f"  {line}" for line in text.splitlines())])


def _plan(problem: DesignProblem, runs: np.ndarray, settings: Settings, cost: ExpectedCost) -> str:
    """Returns the text of `--dry-run`: what a search would do, and the time and memory it would take."""
    application, templates = problem.application, problem.resolved.templates
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
            fitted(rows),
            fitted(kinds),
            _demands(problem.requirements, settings.within),
            f"mapper: {plural(cost.mappings, 'mapping')} of {plural(int(runs.sum()), 'pair')} of unique layer and "
            f"template\n"
            f"search: at most {plural(cost.designs, 'design')}, {plural(settings.moham.generations, 'generation')} of "
            f"{settings.moham.population}\n"
            f"expected on two cores: about {duration(cost.seconds)}, plus about {duration(cost.compile_s)} of "
            f"compiling, less where an earlier search has left programs in the cache; {cost.memory_MB:,.0f} MB",
        ]
    )
