"""The results folder of the verb `schedule`: tables, trace, record and figures."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import math
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.jobs import JobBound, JobFront, Transfer
    from mohamjax.jobs.table import JobTable


def unit_of(objective: str, time_unit: str) -> str:
    """Returns the unit of an objective of G#; empty for a number or share of jobs."""
    from mohamjax.jobs.job_problem import TIMES

    return time_unit if objective in TIMES else {"energy": "J", "edp": f"J {time_unit}"}.get(objective, "")


_FORMAT = "job-schedule/1"
_SETTINGS = (
    "jobs",
    "platform",
    "bandwidth",
    "preset",
    "method",
    "objective",
    "cost_model",
    "mapping",
    "budget",
    "technology",
    "demand",
    "lb",
    "flexible",
    "element_buffer",
    "random_shapes",
    "sample",
    "pool",
    "batch",
    "shape",
    "skip_unknown",
    "depthwise",
    "transfer",
    "population",
    "generations",
    "seed",
)


@dataclasses.dataclass(frozen=True)
class Scheduled:
    """Jobs and the schedules that the methods found.

    Attributes:
        table: the jobs.
        tenants: network of each job, "" for none.
        fronts: the front of each method, the best first.
        bound: lower bound of the makespan.
        title: one line that describes the problem.
        first: name of the first objective.
        drawn: fronts that figures show: those of all methods, and of only some schedules given in the job table.
    """

    table: JobTable
    tenants: tuple[str, ...]
    fronts: list[JobFront]
    bound: JobBound
    title: str
    first: str
    drawn: Sequence[JobFront]


def write_results(
    folder: pathlib.Path,
    done: Scheduled,
    rows: list[dict[str, float | str]],
    transfer: Transfer,
    arguments: argparse.Namespace,
) -> list[pathlib.Path]:
    """Writes the files of the folder but the figures, all or none.

    Args:
        folder: an existing folder.
        done: the jobs and their schedules.
        rows: the rows of `methods.csv`, in the order of the fronts and their schedules.
        transfer: content of `transfer.json`, for searches on other batches.
        arguments: the parsed arguments.

    Returns:
        The files of an earlier run in the folder that are out of date now, among them all its figures.
    """
    import numpy as np
    import yaml

    from mohamjax.io import dump_json, write_together
    from mohamjax.io.files import csv_text
    from mohamjax.io.job_transfer import transfer_document
    from mohamjax.io.jobs import job_table_document
    from mohamjax.io.trace import TraceRow, chrome_trace
    from mohamjax.jobs.table import evaluate_table
    from mohamjax.version import __version__

    table, fronts, first = done.table, done.fronts, done.first
    named = [
        (one.method if len(front.schedules) == 1 else f"{one.method} {i}", one)
        for front in fronts
        for i, one in enumerate(front.schedules)
    ]
    schedules = [(name, one.plan.order, one.plan.accelerator) for name, one in named]
    files = {"job_table.json": dump_json(job_table_document(table, schedules))}
    analysis = [
        {
            "job": job,
            "accelerator": core,
            f"duration_{table.time_unit}": float(table.duration[j, a]),
            "bytes": float(table.bytes[j, a]),
            f"demand_bytes_per_{table.time_unit.removesuffix('s') or 's'}": float(
                table.bytes[j, a] / table.duration[j, a] if table.duration[j, a] else 0.0
            ),
            **({} if table.energy is None else {"energy_J": float(table.energy[j, a])}),
        }
        for j, job in enumerate(table.jobs)
        for a, core in enumerate(table.accelerators)
        if math.isfinite(table.duration[j, a])
    ]
    files["job_analysis.csv"] = csv_text(analysis)
    listed = [{"schedule": name, **row} for (name, _), row in zip(named, rows, strict=True)]
    unit = {"time_unit": table.time_unit}
    files["methods.csv"] = csv_text([row | unit for row in listed])
    history = [
        {"method": front.method, "evaluations": n, first: value, **unit}
        for front in fronts
        for n, value in front.best.history
    ]
    if history:
        files["history.csv"] = csv_text(history)
    best = fronts[0].best
    order, where = best.plan.order, best.plan.accelerator
    _, timeline = evaluate_table(table, order[None], where[None], timelines=True)
    assert timeline is not None
    start, end = np.asarray(timeline.start[0]), np.asarray(timeline.end[0])
    run = [
        {
            "job": table.jobs[j],
            "tenant": done.tenants[j],
            "accelerator": table.accelerators[where[j]],
            "start": float(start[j]),
            "end": float(end[j]),
            "stall": float(timeline.stall[0][j]),
            **unit,
        }
        for j in np.argsort(start, kind="stable")
    ]
    files["schedule.csv"] = csv_text(run)
    trace = [TraceRow(r["accelerator"], r["job"], r["tenant"], r["start"], r["end"], stall=r["stall"]) for r in run]
    files["trace.json"] = dump_json(chrome_trace(trace, time_unit=table.time_unit))
    settings = {key: getattr(arguments, key) for key in _SETTINGS}
    record = {"format": _FORMAT, "version": __version__, **settings, "lower_bound": done.bound._asdict()}
    record["history"] = "history.csv" in files
    record["figures"] = [] if arguments.no_figures else [*_gantts(done), *_others(done)]
    files["config.yaml"] = yaml.safe_dump(record, sort_keys=False)
    files["transfer.json"] = dump_json(transfer_document(transfer))
    earlier = _earlier_files(folder)
    write_together({folder / name: text for name, text in files.items()})
    return [path for path in earlier if path.name not in files]


def _earlier_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of an earlier run in a folder that not every run writes; all others are the user's own.

    History and figures count if `config.yaml` says that the run wrote them.
    """
    from mohamjax.io.results import FIGURES_FOLDER
    from mohamjax.reader import found, read_yaml

    try:
        config = read_yaml(folder / "config.yaml")
    except InputError:  # there is none, or it is broken
        return []
    if config.get("format") != _FORMAT:
        return []
    listed = config.get("figures")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    ours = [name for name in names if re.match("gantt_|(convergence|methods)$", name)]
    figures = [folder / FIGURES_FOLDER / f"{name}.png" for name in ours if not re.search(_NO_FILE_NAME, name)]
    history = [folder / "history.csv"] if config.get("history") is True else []
    return [path for path in (*history, *figures) if found(path, folder=False)]


_NO_FILE_NAME = r"[^\w.,+()-]+"  # characters that names of schedules may contain and file names may not


def _file_names(names: Sequence[str]) -> list[str]:
    """Returns file names for schedules, distinct even if case is ignored: a repeated name gets a number."""
    taken: set[str] = set()
    files = []
    for name in names:
        short = re.sub(_NO_FILE_NAME, "_", name)[:80]
        tries = itertools.chain([short], (f"{short}-{number}" for number in itertools.count(2)))
        files.append(next(file for file in tries if file.casefold() not in taken))
        taken.add(files[-1].casefold())
    return files


def _gantts(done: Scheduled) -> dict[str, JobFront]:
    """Returns the fronts whose best schedules are drawn, by the names of the figures."""
    fronts = [front for front in done.fronts if any(front is one for one in done.drawn)]
    files = _file_names([front.method for front in fronts])
    return {f"gantt_{file}": front for file, front in zip(files, fronts, strict=True)}


def _others(done: Scheduled) -> list[str]:
    """Returns the names of the figures that compare methods."""
    searched = any(front.best.history for front in _gantts(done).values())
    return ["convergence", "methods"] if searched else ["methods"]


def draw_figures(folder: pathlib.Path, done: Scheduled) -> None:
    """Draws the schedules, how the methods converged, and how they compare.

    Args:
        folder: created.
        done: the jobs and their schedules.

    Raises:
        InputError: a figure cannot be written.
    """
    from mohamjax.figures import job_view, save
    from mohamjax.plot.jobs import job_convergence, job_gantt, method_bars

    table, first, title = done.table, done.first, done.title
    gantts = _gantts(done)
    unit = unit_of(first, table.time_unit)
    limit = done.bound.best if first == "makespan" else None
    for name, front in gantts.items():
        view = job_view(front.method, table, front.best.plan, done.tenants)
        save(job_gantt(view, title=title), folder / f"{name}.png")
    fronts = list(gantts.values())
    histories = {front.method: front.best.history for front in fronts if front.best.history}
    if histories:
        save(job_convergence(histories, bound=limit, label=first, unit=unit, title=title), folder / "convergence.png")
    values = {front.method: front.best.objectives[first] for front in fronts}
    save(method_bars(values, bound=limit, label=first, unit=unit, title=title), folder / "methods.png")
