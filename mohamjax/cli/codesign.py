"""The verb `codesign`: one accelerator for a set of networks (UNICO)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
from typing import TYPE_CHECKING

from mohamjax.cli import options
from mohamjax.cli.inputs import application_of, technology_of
from mohamjax.cli.outputs import default_folder, results_folder, stopped
from mohamjax.cli.tables import fitted
from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.text import plural

if TYPE_CHECKING:
    from mohamjax.unico.search import CodesignProgress, CodesignResult, HardwareSearch


_watts = options.real("a number of watts above 0", lambda value: 0 < value < math.inf)


def add_parser(verbs: options.Verbs) -> None:
    """Adds the verb and its options."""
    parser = verbs.add_parser("codesign", help="search one accelerator for a set of networks (UNICO)")
    parser.add_argument("workload", nargs="+", metavar="NETWORK", help="ONNX files, or a scenario by name or file")
    parser.add_argument("--template", metavar="NAME|FILE", help="search the sizes of this template")
    parser.add_argument("--space", help="unico-edge (default), unico-cloud, or unico-ci")
    parser.add_argument("--budget", default="small", help="ci, small (default) or full")
    parser.add_argument(
        "--method",
        default="unico",
        help="unico (default), or hasco, hasco-r, nsga2, mobohb or random with as many mapping evaluations",
    )
    parser.add_argument(
        "--preset",
        default="ours",
        help="ours (default); unico: as in the paper, with mesmo, with mapping searches that minimise latency, and "
        "without finished or aimed points; or same-extras: hasco, hasco-r and mobohb aim and finish points as our "
        "unico does",
    )
    parser.add_argument(
        "--power-cap",
        type=_watts,
        metavar="W",
        help="power that a design may take (default: 2 for unico-edge, 20 for unico-cloud, else none)",
    )
    parser.add_argument(
        "--ppa", help="model (default), or unico-fit: power and area as fitted to the paper's table, for unico-*"
    )
    parser.add_argument("--package", metavar="FILE", help="package of which the accelerator is the only chiplet (YAML)")
    parser.add_argument(
        "--technology", metavar="NAME|FILE", help="a packaged technology by name, or a file of your own"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the results folder")
    parser.add_argument("--json", action="store_true", help="print the front as JSON on standard output")
    parser.add_argument("--no-figures", action="store_true", help="draw no figures")
    options.add_workload(parser)
    options.add_common(
        parser,
        "results folder (default results/NETWORKS-SPACE-METHOD-BUDGET, with the preset and the seed where they are not "
        "the default)",
        random=True,
    )


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Searches hardware and writes the results folder."""
    from mohamjax.hardware import as_package
    from mohamjax.unico.choices import chosen_space, settings
    from mohamjax.unico.problem import CodesignProblem
    from mohamjax.unico.search import HardwareSearch

    space = chosen_space(arguments.space, arguments.template)
    given = {"power_cap_W": arguments.power_cap, "ppa": arguments.ppa}
    changes = {name: value for name, value in given.items() if value is not None}
    config = settings(
        space, arguments.method, arguments.budget, preset=arguments.preset, seed=arguments.seed, **changes
    )
    networks = application_of(arguments)
    package = as_package(arguments.package)
    own = "" if arguments.preset == "ours" else arguments.preset
    terminal.line(
        f"{networks.name}: {plural(len(networks.unique_layers), 'unique layer')} on {space.name}, {space.size:,} points"
    )
    search = HardwareSearch(CodesignProblem(networks, space, technology_of(arguments), package), config)
    usual = default_folder(networks.name, space.name, config.method, own, config.budget, seed=arguments.seed)
    out = arguments.out or usual
    with results_folder(out, resume=arguments.resume, arguments=arguments) as folder:
        return _searched(arguments, terminal, search, folder)


def _searched(arguments: argparse.Namespace, terminal: Terminal, search: HardwareSearch, folder: pathlib.Path) -> int:
    """Runs the search, writes its folder, and prints a summary."""
    from mohamjax.io import CheckpointFile
    from mohamjax.io.codesign import write_codesign

    config = search.config
    checkpoint = CheckpointFile(folder / "checkpoint.npz", terminal.warn)

    def tell(progress: CodesignProgress) -> None:
        terminal.line(
            f"{config.method}  batch {progress.batch}  {progress.hardware} points  {progress.evaluations:,} of "
            f"{progress.total:,} mappings  front {progress.front}  {progress.seconds:.0f} s"
        )

    try:
        result = dataclasses.replace(search, checkpoint=checkpoint, resume=arguments.resume, listener=tell).run()
        if result.interrupted:
            terminal.was_stopped = True
            terminal.line("stopped by hand; writing what was found")
        front = write_codesign(folder, result)
    except KeyboardInterrupt:
        return stopped(terminal, checkpoint)
    if not arguments.no_figures:
        _draw(terminal, result, folder / "figures")
    early = " (stopped early; --resume goes on)" if result.interrupted and checkpoint.kept else ""
    terminal.line(f"results in {folder}{early}")
    if arguments.json:
        print(json.dumps(front, indent=2))
        return 0
    axes = (axis.name for axis in search.problem.space.axes)
    columns = ("design_id", "latency_s", "power_W", "area_mm2", "robustness", *axes)
    body = [[f"{row[c]:.4g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in front]
    print(fitted([list(columns), *body]))
    return 0


def _draw(terminal: Terminal, result: CodesignResult, folder: pathlib.Path) -> None:
    """Draws the figures of a search; an `InputError` while drawing is only a warning."""
    try:
        _save_figures(result, folder)
    except InputError as error:
        terminal.warn(f"{error.file}: {error.message}")


def _save_figures(result: CodesignResult, folder: pathlib.Path) -> None:
    import numpy as np

    from mohamjax.figures import save
    from mohamjax.plot.unico import bracket_lanes, hardware_front, hypervolume_differences, surrogate_predictions
    from mohamjax.unico.results import history_rows

    history, config = result.history, result.config
    title = f"{result.application.name} on {result.space.name}, {config.method}"
    figure = hardware_front(history.objectives, result.front, cap=config.power_cap_W, title=title)
    save(figure, folder / "front.png")
    rows = history_rows(result)
    volume = [row["hypervolume"] for row in rows]
    if volume[-1] > 0:
        series = {config.method: ([row["evaluations"] for row in rows], [1 - v / volume[-1] for v in volume])}
        save(hypervolume_differences(series, title=f"{title}: against its own last front"), folder / "hypervolume.png")
    batches = [history["batch"] == b for b in range(int(history["batch"].max()) + 1)]
    rationed = [own for own in batches if len(set(history["generations"][own].tolist())) > 1]
    last = (rationed or batches)[-1]
    lanes = bracket_lanes(history.curves[last, 0], history["generations"][last], title=f"{title}: last bracket")
    save(lanes, folder / "lanes.png")
    if not np.isnan(history.predicted).all():
        figure = surrogate_predictions(history.predicted, history.objectives, title=title)
        save(figure, folder / "predictions.png")
