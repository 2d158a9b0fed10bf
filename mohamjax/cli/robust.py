"""The verb `search` with `--robust`: one package for several application models."""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mohamjax.cli import options, spread
from mohamjax.cli.inputs import application_of, warn_of_other_memory, warn_of_own_bandwidth, warn_of_slow_buffers
from mohamjax.cli.outputs import default_folder, drawing, results_folder, stopped
from mohamjax.cli.tables import fitted, lines
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.progress import duration
from mohamjax.text import plural

if TYPE_CHECKING:
    from mohamjax.io import CheckpointFile
    from mohamjax.problem import DesignProblem
    from mohamjax.robust import RobustResult, RobustSearch
    from mohamjax.runtime.devices import Devices
    from mohamjax.search import Settings
    from mohamjax.workload import ApplicationModel, Ensemble


def run(
    arguments: argparse.Namespace,
    terminal: Terminal,
    devices: Devices | None,
    settings_of: Callable[[argparse.Namespace], Settings],
    problem_of: Callable[..., DesignProblem],
    inputs_of: Callable[[argparse.Namespace, ApplicationModel], dict[str, object]],
) -> int:
    """Searches, writes the results folder, and prints a row for each model; returns the exit code.

    Args:
        arguments: the parsed arguments of `search`.
        terminal: shows the progress.
        devices: devices to search on.
        settings_of: makes the settings from the arguments.
        problem_of: makes the problem from the arguments.
        inputs_of: returns the inputs on the command line, for the record.
    """
    from mohamjax.io import CheckpointFile, mapping_cache, prepare_folder
    from mohamjax.problem.design_problem import runnable
    from mohamjax.robust import RobustSearch, check_robust
    from mohamjax.runtime.devices import is_first
    from mohamjax.search import check_islands, expected_cost
    from mohamjax.workload import load_ensemble

    told = "does not apply to several application models"
    given = {name: getattr(arguments, name) for name in ("inject", "bulk", "seeds", "depthwise", "within", "target")}
    options.refuse(told, **given)

    def read() -> Any:
        settings = settings_of(arguments)
        check_islands(devices, settings.moham.islands)
        ensemble = load_ensemble(arguments.robust, application_of(arguments), warn=warn)
        problem = problem_of(arguments, ensemble.joined, ensemble.everyone)
        check_robust(ensemble, problem, settings)
        return settings, ensemble, problem

    settings, ensemble, problem = read() if devices is None else devices.in_all(read)
    resolved = problem.resolved
    warn_of_other_memory(problem.templates, problem.package, problem.technology)
    warn_of_own_bandwidth(problem.templates)
    if arguments.technology:
        warn_of_slow_buffers(resolved.templates, problem.technology)
    price = not arguments.no_price
    if arguments.dry_run:
        runs = runnable(ensemble.everyone, resolved.templates)
        costs = [expected_cost(problem, int(runs.sum()), settings)]
        if price:
            nominal = problem.replace(application=ensemble.models[ensemble.nominal].application, requirements=None)
            costs.append(expected_cost(nominal, 0, settings))
        if is_first(devices):
            print(_planned(arguments, ensemble, problem, settings, costs))
        return 0
    inputs = inputs_of(arguments, ensemble.everyone)
    out = pathlib.Path(arguments.out or default_folder(ensemble.name, "robust", arguments.budget, seed=arguments.seed))
    with spread.held(devices, lambda: results_folder(out, resume=arguments.resume, arguments=arguments)) as own:
        terminal.line(
            f"{ensemble.name}: {plural(len(ensemble.models), 'application model')}, "
            f"{plural(len(ensemble.joined.layers), 'layer')}, {len(ensemble.joined.unique_layers)} unique; "
            f"{plural(len(resolved.templates), 'template')}; {ensemble.over} over the models; "
            f"budget {arguments.budget}, "
            f"seed {arguments.seed}"
        )
        folder = out if own is None else own
        inner = CheckpointFile(prepare_folder(folder / "nominal") / "checkpoint.npz", terminal.warn) if price else None
        checkpoint = CheckpointFile(folder / "checkpoint.npz", terminal.warn)
        search = RobustSearch(
            ensemble, problem, settings, price=price, listener=terminal,
            cache=None if arguments.no_mapping_cache else mapping_cache(),
            checkpoint=checkpoint, nominal_checkpoint=inner,
            resume=arguments.resume, checkpoint_every_s=arguments.checkpoint_every, devices=devices,
        )  # fmt: skip
        return _searched(arguments, terminal, search, checkpoint, inputs, folder)


def _searched(
    arguments: argparse.Namespace,
    terminal: Terminal,
    search: RobustSearch,
    checkpoint: CheckpointFile,
    inputs: dict[str, object],
    folder: pathlib.Path,
) -> int:
    """Runs the search, writes its folder, and prints a summary."""
    from mohamjax.io import price_rows, write_robust_results
    from mohamjax.io.files import version_of
    from mohamjax.runtime.devices import is_first

    began, ensemble, settings = time.perf_counter(), search.ensemble, search.settings
    before = version_of(folder / "front.csv")
    try:
        result = search.run()
        if not is_first(search.devices):
            return 0
        write_robust_results(folder, result, {**result.config, "inputs": inputs})
    except KeyboardInterrupt:
        return stopped(terminal, checkpoint, folder if version_of(folder / "front.csv") != before else None)
    if not arguments.no_figures:
        _draw(arguments, terminal, result, folder)
    terminal.was_stopped |= result.interrupted
    early = ""
    if result.interrupted:
        early = " (stopped early; --resume goes on)" if checkpoint.kept else " (stopped early)"
    terminal.line(f"{time.perf_counter() - began:.1f} s in all; results in {folder}{early}")
    rows = price_rows(result.comparisons())
    if arguments.json:
        summary = {
            "scenario": ensemble.name,
            "over": ensemble.over,
            "budget": settings.budget,
            "seed": settings.seed,
            "interrupted": result.interrupted,
            "front_size": len(result.front),
            "evaluations": result.history[-1]["evaluations"],
            "models": rows,
            "seconds": result.timings,
            "folder": str(folder),
        }
        print(json.dumps(summary, indent=2))
    else:
        print(_table(result, rows))
    return 0


def _draw(arguments: argparse.Namespace, terminal: Terminal, result: RobustResult, folder: pathlib.Path) -> None:
    import numpy as np

    from mohamjax.figures import plot_robust
    from mohamjax.plot.front import Front

    own = result.front.models[result.ensemble.nominal]
    latency, energy, area = result.front.objectives.T
    chiplets = (np.asarray(own.designs.template) >= 0).sum(axis=1)
    front = Front(latency_s=latency, energy_J=energy, area_mm2=area, chiplets=chiplets)
    title = f"{result.ensemble.name}, budget {arguments.budget}, seed {arguments.seed}"
    with drawing(terminal, folder):
        plot_robust(front, own, result.comparisons(), folder / "figures", title=title, history=result.history)


def _table(result: RobustResult, rows: list[dict[str, Any]]) -> str:
    """Returns a table with a row for each model: its price, and how many packages run it."""
    head = ["model", "role", "price", "runs on", "nominal packages"]
    body = []
    for row in rows:
        alone = f"{row['nominal_runs']} of {row['nominal_designs']}" if row["nominal_designs"] else "-"
        known = f"{row['price']:.3f}" if row["price"] != "" else "-"
        body.append([row["model"], row["role"], known, f"{row['robust_runs']} of {row['robust_designs']}", alone])
    heading = (
        f"front of {plural(len(result.front), 'package')}; price: latency times energy at equal area, relative to "
        f"packages made for {result.ensemble.models[result.ensemble.nominal].name} alone"
    )
    return f"{lines(heading)}\n{fitted([head, *body])}"


def _planned(
    arguments: argparse.Namespace, ensemble: Ensemble, problem: DesignProblem, settings: Settings, costs: list[Any]
) -> str:
    """Returns the text of `--dry-run`: what a search would do, and the time and memory it would take."""
    mappings, designs = (sum(getattr(cost, name) for cost in costs) for name in ("mappings", "designs"))
    seconds, compile_s = (sum(getattr(cost, name) for cost in costs) for name in ("seconds", "compile_s"))
    if arguments.json:
        found = {"mappings": mappings, "designs": designs, "seconds": seconds, "compile_s": compile_s}
        found["memory_MB"] = max(cost.memory_MB for cost in costs)
        demands = {"requirements": problem.requirements.to_dict(), "robust": ensemble.record()}
        own = {"scenario": ensemble.name, "layers": len(ensemble.joined.layers)}
        return json.dumps({**own, "budget": settings.budget, "seed": settings.seed, **demands, **found}, indent=2)
    head = ["model", "role", "weight", "batch", "networks", "layers", "unique", "GMAC"]
    body = []
    roles = [*ensemble.roles, *["held out"] * len(ensemble.held_out)]
    for member, role in zip((*ensemble.models, *ensemble.held_out), roles, strict=True):
        own = member.application
        weight = "-" if role == "held out" or ensemble.over == "worst" else f"{member.weight:g}"
        sizes = [str(len(own.layers)), str(len(own.unique_layers)), f"{own.macs / 1e9:.3f}"]
        body.append([member.name, role, weight, str(member.batch), str(len(own.networks)), *sizes])
    return "\n\n".join(
        [
            f"{ensemble.name}, budget {settings.budget}, seed {settings.seed}: {ensemble.over} over the models of "
            f"{ensemble.file}",
            fitted([head, *body]),
            f"mapper: {plural(mappings, 'mapping')}\n"
            f"search: at most {plural(costs[0].designs, 'design')}, "
            f"{plural(settings.moham.generations, 'generation')} of {settings.moham.population}"
            + (", as many again for the nominal model alone" if len(costs) > 1 else "")
            + f"\nexpected on two cores: about {duration(seconds)}, plus about {duration(compile_s)} of compiling; "
            f"{math.ceil(max(cost.memory_MB for cost in costs)):,} MB",
        ]
    )
