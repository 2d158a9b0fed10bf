"""Figures in files: `plot` draws a front in memory or a results folder, and `io` writes the files."""

from __future__ import annotations

import functools
import pathlib
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from mohamjax.hardware import Technology
from mohamjax.io.files import prepare_folder, write_folder
from mohamjax.io.results_reader import evaluate_results, read_results
from mohamjax.io.robust import read_comparisons
from mohamjax.plot.front import Front
from mohamjax.plot.results import front_of, result_figures
from mohamjax.plot.robust import price_figure
from mohamjax.plot.style import known_format, rendered
from mohamjax.robust.price import Comparison
from mohamjax.schedule import Certificate, Evaluated
from mohamjax.schedule.view import DesignView, design_view

if TYPE_CHECKING:
    from mohamjax.jobs import Plan
    from mohamjax.jobs.table import JobTable
    from mohamjax.plot.jobs import JobView


def job_view(method: str, table: JobTable, plan: Plan, tenants: Sequence[str]) -> JobView:
    """Returns the data that figures show of one schedule of a job table.

    Args:
        method: name of the method that found it.
        table: the jobs on their accelerators.
        plan: the schedule.
        tenants: tenant of every job, for colours.
    """
    from mohamjax.jobs.table import evaluate_table  # imported late: figures of designs do not need it
    from mohamjax.plot.jobs import JobView

    _, found = evaluate_table(table, plan.order[None], plan.accelerator[None], timelines=True)
    assert found is not None
    on = (np.arange(len(table.jobs)), plan.accelerator)
    return JobView(
        method=method,
        accelerators=table.accelerators,
        tenants=tuple(tenants),
        start=np.asarray(found.start[0]),
        end=np.asarray(found.end[0]),
        duration=table.duration[on],
        bytes=table.bytes[on],
        accelerator=plan.accelerator,
        bandwidth=table.bandwidth[0],
        unit=table.time_unit,
    )


def save(figure: Figure, path: str | pathlib.Path) -> pathlib.Path:
    """Writes a figure atomically; equal figures give equal files.

    Args:
        figure: the figure.
        path: the file; its suffix is one of `plot.FORMATS`. Missing folders are created.

    Returns:
        The path.

    Raises:
        InputError: the suffix is no format, or the file cannot be written.
    """
    path = pathlib.Path(path)
    return write_folder(path.parent, {path.name: rendered(figure, path.suffix.removeprefix(".").lower())})[0]


def _drawn(figures: Iterable[tuple[str, Figure]], formats: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of files: every figure in every format."""
    suffixes = [known_format(name) for name in formats]
    for name, figure in figures:
        for suffix in suffixes:
            yield f"{name}.{suffix}", rendered(figure, suffix)


def drawn_front(
    evaluated: Evaluated,
    *,
    title: str,
    history: Sequence[abc.Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("png",),
    certificate: Certificate | Callable[[], Certificate | None] | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Draws the files of `plot_evaluated` one by one, without writing them.

    Args:
        evaluated: the designs.
        title: title of every figure.
        history: rows of `history.csv`; None if there are none.
        formats: one or more of `plot.FORMATS`.
        certificate: bounds of the front, or a function that returns them, called after all else is drawn.

    Yields:
        Names and contents of the files.

    Raises:
        InputError: a format does not exist; raised when the first file is asked for.
    """
    view = functools.partial(design_view, evaluated)
    figures = result_figures(front_of(evaluated), view, title=title, history=history, certificate=certificate)
    return _drawn(figures, formats)


def plot_evaluated(
    evaluated: Evaluated,
    out: str | pathlib.Path,
    *,
    title: str,
    history: Sequence[abc.Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("png",),
    certificate: Certificate | None = None,
) -> list[pathlib.Path]:
    """Draws all figures of a front in memory.

    Writes `front`, `convergence` (if there is a history) and `gantt`, `area`, `energy` and `roofline` of the
    fastest, the most frugal and the smallest design and of the knee, e.g. `gantt_knee.png`.

    Args:
        evaluated: the front, at least one design, named by row number.
        out: folder, created.
        title: scenario and budget.
        history: rows of `history.csv`.
        formats: one or more of `plot.FORMATS`.
        certificate: bounds to draw beside the front.

    Returns:
        The files.

    Raises:
        InputError: a format does not exist, or a file cannot be written.
    """
    files = drawn_front(evaluated, title=title, history=history, formats=formats, certificate=certificate)
    return write_folder(out, dict(files))


def plot_robust(
    front: Front,
    nominal: Evaluated,
    comparisons: Sequence[Comparison],
    out: str | pathlib.Path,
    *,
    title: str,
    history: Sequence[abc.Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("png",),
) -> list[pathlib.Path]:
    """Draws all figures of a robust search in memory.

    These are the figures of `plot_evaluated`, with the schedules of the nominal model, and `price`.

    Args:
        front: the packages, with their objectives over all models.
        nominal: their designs for the nominal model.
        comparisons: one for each model.
        out: folder, created.
        title: scenario and budget.
        history: rows of `history.csv`.
        formats: one or more of `plot.FORMATS`.

    Returns:
        The files.

    Raises:
        InputError: a format does not exist, or a file cannot be written.
    """
    view = functools.partial(design_view, nominal)
    figures = [("price", price_figure(comparisons, title=title))]
    figures += result_figures(front, view, title=title, history=history)
    return write_folder(out, dict(_drawn(figures, formats)))


def plot_results(
    folder: str | pathlib.Path,
    out: str | pathlib.Path | None = None,
    formats: Sequence[str] = ("png",),
    *,
    technology: Technology | None = None,
) -> list[pathlib.Path]:
    """Draws all figures of a results folder from its files alone, as `plot_evaluated` does.

    Reads front.csv, designs.json (which it evaluates again in double precision), history.csv, config.yaml, and
    bounds.json if there is one.

    Args:
        folder: results folder of a search.
        out: folder for the figures; default `figures` in `folder`.
        formats: one or more of `plot.FORMATS`.
        technology: energy and area tables of the designs; default those that the results hold, or the packaged ones.

    Returns:
        The files.

    Raises:
        InputError: the folder or a file is missing, malformed or empty, the files do not belong together, or the
            figures cannot be written.
    """
    for name in formats:
        known_format(name)
    files = read_results(folder)
    out = files.folder / "figures" if out is None else prepare_folder(out)
    designs = evaluate_results(files, technology=technology)
    latency, energy, area, chiplets = (
        np.asarray([row[name] for row in files.front]) for name in ("latency_s", "energy_J", "area_mm2", "n_chiplets")
    )
    names = tuple(row["design_id"] for row in files.front)
    front = Front(
        latency, energy, area, chiplets=chiplets.astype(int), design_ids=names, measures=files.measures,
        values=files.objectives, offsets=files.offsets,
    )  # fmt: skip

    def view(row: int) -> DesignView:
        at = designs.index(names[row])
        assert designs.evaluated is not None
        return design_view(designs.evaluated, at, names[row])

    figures = [*result_figures(front, view, title=files.title, history=files.history, certificate=files.certificate)]
    if "robust" in files.config:
        figures.append(("price", price_figure(read_comparisons(files.folder), title=files.title)))
    return write_folder(out, dict(_drawn(figures, formats)))
