"""All figures of a search: from memory, or from the files of its results folder."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology
from mohamjax.io.designs import Evaluated, evaluate_designs
from mohamjax.io.results import landmarks, prepare_folder, read_certificate
from mohamjax.plot.design import DesignView, area_shares, design_view, energy_breakdown, gantt
from mohamjax.plot.front import Front, convergence, front_projections, roles_by_row
from mohamjax.plot.style import known_format, save
from mohamjax.reader import found, read_table, read_text, read_yaml
from mohamjax.schedule import Certificate

__all__ = ["plot_evaluated", "plot_results"]

_FILE_OF_ROLE = {"fastest": "fastest", "most frugal": "frugal", "smallest": "smallest", "knee": "knee"}
_FIGURES = {"gantt": gantt, "area": area_shares, "energy": energy_breakdown}
_REMEDY = "give the folder that `mohamjax search --out` wrote"


def _draw(
    front: Front,
    view: Callable[[int], DesignView],
    history: Sequence[Mapping[str, float]] | None,
    out: pathlib.Path,
    title: str,
    formats: Sequence[str],
    certificate: Certificate | None,
) -> list[pathlib.Path]:
    """Draws and saves everything; a design with several roles has a file for each."""
    suffixes = [known_format(name) for name in formats]
    chosen = [(view(row), roles) for row, roles in roles_by_row(landmarks(front.objectives)).items()]
    paths: list[pathlib.Path] = []

    def write(figure: Any, stem: str) -> None:
        paths.extend(save(figure, out / f"{stem}.{suffix}") for suffix in suffixes)

    write(front_projections(front, title=title, certificate=certificate), "front")
    if history is not None:
        write(convergence(history, title=title), "convergence")
    for one, roles in chosen:
        one = dataclasses.replace(one, design_id=f"{one.design_id} ({', '.join(roles)})")
        for name, draw in _FIGURES.items():
            figure = draw(one, title=title)
            for role in roles:
                write(figure, f"{name}_{_FILE_OF_ROLE[role]}")
    return paths


def plot_evaluated(
    evaluated: Evaluated,
    out: str | pathlib.Path,
    *,
    title: str,
    history: Sequence[Mapping[str, float]] | None = None,
    formats: Sequence[str] = ("png",),
    certificate: Certificate | None = None,
) -> list[pathlib.Path]:
    """Draws all figures of a front in memory.

    Writes `front`, `convergence` (where there is a history) and `gantt`, `area` and `energy` of the fastest, the most
    frugal and the smallest design and of the knee, e.g. `gantt_knee.png`.

    Args:
        evaluated: the front, at least one design, numbered as it stands.
        out: folder, created.
        title: scenario and budget.
        history: rows as in `history.csv`.
        formats: of `style.FORMATS`.
        certificate: bounds to draw beside the front.

    Returns:
        The files.

    Raises:
        InputError: a format does not exist, or a file cannot be written.
    """
    latency, energy, area = np.asarray(evaluated.reports.objectives, float).T
    chiplets = (np.asarray(evaluated.designs.template) >= 0).sum(axis=1)
    front = Front(latency_s=latency, energy_J=energy, area_mm2=area, chiplets=chiplets)
    view = functools.partial(design_view, evaluated)
    return _draw(front, view, history, pathlib.Path(out), title, formats, certificate)


# ---------------------------------------------------------------- from files


def _text(path: pathlib.Path) -> str:
    """A text file that a search wrote: whole, for such files end in a line break."""
    text = read_text(path, "results folder")
    if not text.endswith("\n"):
        raise InputError(
            "its last line has no end: the file is cut off",
            file=path,
            remedy="copy the file again, or end the line if it is whole",
        )
    return text


def _table(path: pathlib.Path, columns: Sequence[str], names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Rows of a CSV file: `columns` as finite numbers, `names` as text.

    Raises:
        InputError: a column or all rows are missing, or a value is no number.
    """
    header, lines = read_table(_text(path), path)
    missing = [c for c in (*names, *columns) if c not in header]
    if missing:
        raise InputError(f"column {missing[0]} is missing", file=path, item="header", remedy=_REMEDY)
    rows: list[dict[str, Any]] = []
    for number, row in lines:
        out: dict[str, Any] = {name: row[name] for name in names}
        for column in columns:
            try:
                out[column] = float(row[column])
            except ValueError:
                out[column] = math.nan
            if not math.isfinite(out[column]):
                raise InputError(
                    f"{column} is {row[column]!r}, not a number",
                    file=path,
                    item=f"line {number}",
                    remedy="mend the line or run the search again",
                )
        rows.append(out)
    if not rows:
        raise InputError("there are no rows", file=path, remedy="run the search again")
    return rows


def _front(path: pathlib.Path) -> Front:
    objectives = ("latency_s", "energy_J", "area_mm2")
    rows = _table(path, (*objectives, "n_chiplets"), ("design_id",))
    for number, row in enumerate(rows, start=2):
        bad = [name for name in objectives if row[name] < 0 or (row[name] == 0 and name == "latency_s")]
        if bad:
            raise InputError(
                f"{bad[0]} is {row[bad[0]]:g}, not positive",
                file=path,
                item=f"line {number}",
                remedy="mend the line or run the search again",
            )
    latency, energy, area = (np.asarray([row[name] for row in rows]) for name in objectives)
    return Front(
        latency_s=latency,
        energy_J=energy,
        area_mm2=area,
        chiplets=np.asarray([int(row["n_chiplets"]) for row in rows]),
        design_ids=tuple(row["design_id"] for row in rows),
    )


def _title(path: pathlib.Path) -> str:
    """Scenario, budget and seed out of `config.yaml`."""
    _text(path)
    config = read_yaml(path)
    for key in ("scenario", "budget", "seed"):
        if key not in config:
            raise InputError(f"`{key}` is missing", file=path, remedy=_REMEDY)
    scenario = config["scenario"]
    named = [pathlib.PurePath(str(s)).name for s in scenario] if isinstance(scenario, list) else [str(scenario)]
    return f"{', '.join(named)}, budget {config['budget']}, seed {config['seed']}"


def plot_results(
    folder: str | pathlib.Path,
    out: str | pathlib.Path | None = None,
    formats: Sequence[str] = ("png",),
    *,
    technology: Technology | None = None,
) -> list[pathlib.Path]:
    """Draws all figures of a results folder from its files alone, as `plot_evaluated` does.

    Reads front.csv, designs.json (which it evaluates again in double precision), history.csv, config.yaml, and
    bounds.json where there is one.

    Args:
        folder: what a search wrote.
        out: folder for the figures; default `figures` in `folder`.
        formats: of `style.FORMATS`.
        technology: energy and area tables of the designs; default the packaged ones.

    Returns:
        The files.

    Raises:
        InputError: the folder or a file is missing, malformed or empty, the files do not belong together, or the
            figures cannot be written.
    """
    folder = pathlib.Path(folder)
    if not found(folder, folder=True):
        raise InputError("there is no such folder", file=folder, remedy=_REMEDY)
    for name in formats:
        known_format(name)
    front = _front(folder / "front.csv")
    history = _table(folder / "history.csv", ("generation", "evaluations", "seconds", "hypervolume", "front_size"))
    title = _title(folder / "config.yaml")
    certificate = read_certificate(folder)
    designs = folder / "designs.json"
    out = folder / "figures" if out is None else prepare_folder(out)
    rows, evaluated = evaluate_designs(designs, technology=technology)
    place = {str(row["design_id"]): i for i, row in enumerate(r for r in rows if r["valid"])}
    stated, listed = {str(row["design_id"]) for row in rows}, {front.name(row) for row in range(len(front.latency_s))}
    lost = sorted(stated - listed)
    if lost and listed <= stated:
        raise InputError(
            f"design {lost[0]} of {designs.name} is missing: the file is cut off, or of another search",
            file=folder / "front.csv",
            remedy="use the files of one search",
        )

    def view(row: int) -> DesignView:
        name = front.name(row)
        if evaluated is None or name not in place:
            reasons = [r["reason"] for r in rows if str(r["design_id"]) == name]
            raise InputError(
                f"is not valid: {reasons[0]}" if reasons else "is in front.csv but not in this file",
                file=designs,
                item=f"design {name}",
                remedy="use the files of one search",
            )
        return design_view(evaluated, place[name], name)

    return _draw(front, view, history, out, title, formats, certificate)
