"""The verb `codesign` of the command line: UNICO. Thin, like `cli`."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mohamjax.text import plural
from mohamjax.text import table as text_table

if TYPE_CHECKING:
    from mohamjax.unico.search import CodesignProgress, CodesignResult
    from mohamjax.workload import ApplicationModel

__all__ = ["add_parser", "run"]


def _watts(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of watts above 0")
    return value


def add_parser(verbs: Any) -> argparse.ArgumentParser:
    """Adds the verb with its own options; those of all verbs and of workloads are the caller's.

    Args:
        verbs: what `add_subparsers` gave.
    """
    parser = verbs.add_parser("codesign", help="search one accelerator for a set of networks (UNICO)")
    parser.add_argument("workload", nargs="+", metavar="NETWORK", help="ONNX files, or a scenario by name or file")
    parser.add_argument("--template", metavar="NAME|FILE", help="search the sizes of this template")
    parser.add_argument("--space", help="unico-edge (default), unico-cloud, or unico-ci")
    parser.add_argument("--budget", default="small", help="ci, small (default) or full")
    parser.add_argument(
        "--method",
        default="unico",
        help="unico (default), or with as many mapping evaluations hasco, hasco-r, nsga2, mobohb or random",
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
    parser.add_argument("--package", metavar="FILE", help="package in which the accelerator stands alone: YAML")
    parser.add_argument("--technology", metavar="FILE", help="a technology of your own: YAML, or a CSV table of SRAMs")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the results folder")
    parser.add_argument("--json", action="store_true", help="print the front as JSON on standard output")
    parser.add_argument("--no-figures", action="store_true", help="draw no figures")
    return parser


def run(arguments: argparse.Namespace, application: Callable[[argparse.Namespace], ApplicationModel]) -> int:
    """Searches hardware and writes the results folder.

    Args:
        arguments: parsed.
        application: reads the networks of `arguments.workload`.
    """
    from mohamjax.hardware import load_package, load_technology
    from mohamjax.io import prepare_folder
    from mohamjax.unico.results import write_codesign
    from mohamjax.unico.road import chosen_space, settings
    from mohamjax.unico.search import HardwareSearch, search_hardware

    space = chosen_space(arguments.space, arguments.template)
    given = {"power_cap_W": arguments.power_cap, "ppa": arguments.ppa}
    changes = {name: value for name, value in given.items() if value is not None}
    config = settings(space, arguments.method, arguments.budget, seed=arguments.seed, **changes)
    networks = application(arguments)
    package = None if arguments.package is None else load_package(arguments.package)
    technology = load_technology(arguments.technology)
    name = f"{networks.name}-{space.name}-{config.method}-{config.budget}"
    _say(
        f"{networks.name}: {plural(len(networks.unique_layers), 'unique layer')} on {space.name}, {space.size:,} points"
    )
    search = HardwareSearch(networks, space, config, technology=technology, package=package)
    folder = prepare_folder(arguments.out or pathlib.Path("results") / name)

    def tell(progress: CodesignProgress) -> None:
        _say(
            f"{config.method}  batch {progress.batch}  {progress.hardware} points  {progress.evaluations:,} of "
            f"{progress.total:,} mappings  front {progress.front}  {progress.seconds:.0f} s"
        )

    result = search_hardware(search, checkpoint=folder / "checkpoint.npz", resume=arguments.resume, listener=tell)
    if result.interrupted:
        _say("stopped by hand; writing what was found")
    front = write_codesign(folder, result)
    if not arguments.no_figures:
        _draw(result, folder / "figures")
    _say(f"results in {folder}")
    if arguments.json:
        print(json.dumps(front, indent=2))
        return 0
    columns = ("design_id", "latency_s", "power_W", "area_mm2", "robustness", *(a.name for a in space.axes))
    body = [[f"{row[c]:.4g}" if isinstance(row[c], float) else str(row[c]) for c in columns] for row in front]
    print(text_table([list(columns), *body]))
    return 0


def _draw(result: CodesignResult, folder: pathlib.Path) -> None:
    """The figures of a search."""
    import numpy as np

    from mohamjax.plot import save
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
