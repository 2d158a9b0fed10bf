"""The results folder of a search (docs/formats.md): front.csv, designs.json, history.csv, config.yaml, bounds.json.

`bounds.json` (format `bounds/1`) says how near the front is to what is possible with the mappings that the search had:

- `hypervolume` of the front, `hypervolume_bound`, the most that any front can have, and `share`, the quotient of the
  two, in the `box` between `ideal` and `reference` on log axes (`columns` say what their numbers are);
- `curves`, one for each pair of objectives: `{"columns": [first, second], "steps": [[x, y], ...]}`. A design whose
  first objective is below the x of the next step has a second objective of at least y, and no design has a first
  objective below the first x. Proofs: `schedule.front_bounds`.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.io.design_arrays import write_front_arrays
from mohamjax.io.designs import designs_text
from mohamjax.io.files import check_format, csv_text, dump_json, read_json, remove_file, write_together
from mohamjax.io.forms import BoundsForm
from mohamjax.reader import found, read_yaml
from mohamjax.runtime.struct import plain
from mohamjax.schedule import Bounds, Certificate, Evaluated, network_latencies
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.search.result import SearchResult
from mohamjax.search.resumed import HISTORY_COLUMNS
from mohamjax.workload.ensemble import RobustForm

BOUNDS_FILE, BOUNDS_FORMAT = "bounds.json", "bounds/1"
ARCHIVE_FILE = "archive.csv"
ARRAYS_FILE = "designs.npz"
PAGE_FILE = "report.html"
HARDWARE_FILE = "hardware.csv"
ROBUST_FILE, PRICE_FILE, NOMINAL_FOLDER = "robust.csv", "price.csv", "nominal"
FIGURES_FOLDER = "figures"
_NOT_ALWAYS = (BOUNDS_FILE, ARCHIVE_FILE, ARRAYS_FILE, PAGE_FILE)
_NOMINAL_FILES = ("front.csv", "designs.json", "history.csv", "config.yaml", "checkpoint.npz", *_NOT_ALWAYS)


def earlier_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files of an earlier search in a folder that not every search writes, its report and its figures.

    `bounds.json` counts in any case, as it would be read as that of the next front. Otherwise only a folder with a
    `front.csv` holds an earlier search. What only a robust search or one for hardware writes counts if `config.yaml` is
    of one, and of `designs_MODEL.json` those of the models that it lists. Figures count if `config.yaml` tells which
    the search drew. All other files are the user's own.
    """
    if not found(folder / "front.csv"):
        return [path for path in (folder / BOUNDS_FILE,) if found(path, folder=False)]
    names = list(_NOT_ALWAYS)
    try:
        config = read_yaml(folder / "config.yaml")
    except InputError:
        config = {}
    names += [HARDWARE_FILE] if _is_codesign(config) else []
    names += [f"{FIGURES_FOLDER}/{name}.png" for name in _figures(config)]  # other kinds are of `mohamjax plot`
    try:
        models = read_form(config.get("robust"), RobustForm)
    except InputError:  # it is of a search for one application model, or broken
        models = None
    if models is not None:
        names += [ROBUST_FILE, PRICE_FILE]
        names += [f"designs_{model.name}.json" for model in (*models.models, *(models.held_out or ()))]
        names += [f"{NOMINAL_FOLDER}/{name}" for name in _NOMINAL_FILES]
    return [path for path in (folder / name for name in names) if found(path, folder=False)]


def _is_codesign(config: abc.Mapping[str, Any]) -> bool:
    """Whether a `config.yaml` is of a search for hardware."""
    return str(config.get("format")).startswith("codesign/")


def _figures(config: abc.Mapping[str, Any]) -> list[str]:
    """Names of the figures of a search, without their endings, as `figures` and the verb `codesign` give them."""
    if _is_codesign(config):
        return ["front", "hypervolume", "lanes", "predictions"]
    if "search" not in config:  # the file is missing, broken or of something else
        return []
    inner = config.get("search")
    stated = inner.get("objectives", DEFAULT) if isinstance(inner, dict) else DEFAULT
    try:
        keys = [measure_named(str(name)).key for name in stated]
    except (InputError, TypeError):  # the file is broken
        keys = []
    roles = ["knee", *keys, *(f"{key}_{i}" for i, key in enumerate(keys))]  # numbered where two keys are equal
    return ["front", "convergence", "price", *(f"{one}_{of}" for one in _OF_A_DESIGN for of in roles)]


_OF_A_DESIGN = ("gantt", "area", "energy", "roofline")  # figures that a search draws for each role


def remove_files(files: Sequence[pathlib.Path], kept: abc.Container[pathlib.Path]) -> None:
    """Removes files that are not kept, and their folder inside the results if it is empty then; raises InputError."""
    for path in files:
        if path in kept:
            continue
        remove_file(path, "an earlier search")
        if path.parent.name in (NOMINAL_FOLDER, FIGURES_FOLDER):
            with contextlib.suppress(OSError):  # something else is in it
                path.parent.rmdir()


def front_rows(evaluated: Evaluated) -> list[dict[str, Any]]:
    """The rows of `front.csv`, one per design."""
    latencies = network_latencies(evaluated)
    kinds = [measure_named(name) for name in evaluated.measures]
    columns = {kind.column: values for kind, values in zip(kinds, evaluated.objectives.T, strict=True)}
    rows = []
    for i in range(len(evaluated)):
        template = evaluated.designs.template[i]
        latency, energy, area = (float(x) for x in evaluated.reports.objectives[i])
        row: dict[str, object] = {
            "design_id": i,
            "latency_s": latency,
            "energy_J": energy,
            "area_mm2": area,
            "n_chiplets": int(np.sum(template >= 0)),
        }
        for t, kind in enumerate(evaluated.templates):
            row[f"n_{kind.name}"] = int(np.sum(template == t))
        for n, network in enumerate(evaluated.application.networks):
            row[f"latency_s_{network.name}"] = float(latencies[i, n])
        users = evaluated.reports.tenants
        if users is not None:
            if any(math.isfinite(network.deadline_s) for network in evaluated.application.networks):
                row["worst_lateness_s"] = float(users.worst_lateness[i])
                row["missed_deadlines"] = int(users.missed[i])
            row["weighted_latency_s"] = float(users.weighted_latency[i])
        for column, values in columns.items():
            row.setdefault(column, float(values[i]))
        rows.append(row)
    return rows


def front_csv(evaluated: Evaluated) -> str:
    """The text of `front.csv`."""
    return csv_text(front_rows(evaluated))


def write_front_files(
    folder: pathlib.Path,
    evaluated: Evaluated,
    history: Sequence[abc.Mapping[str, object]],
    config: abc.Mapping[str, object],
    bounds: Bounds | None = None,
    certificate: Certificate | None = None,
    archive: Evaluated | None = None,
) -> None:
    """Writes all files of a results folder except the figures and the checkpoint, all or none of them.

    Other files of an earlier search are removed (`earlier_files`).

    Args:
        folder: from `files.prepare_folder`.
        evaluated: the front, by rising latency.
        history: rows with `HISTORY_COLUMNS`.
        config: everything needed to repeat the search; plain data.
        bounds: lower bounds of the scenario; default those for as many chiplets as the package has tiles.
        certificate: how near the front is to its bounds, for `bounds.json`; without it there is no such file.
        archive: the front of all evaluated designs, if it differs from the result, for `archive.csv` with the columns
            of `front.csv`; without it there is no such file.

    Raises:
        InputError: the files cannot be written; the folder is as it was.
    """
    earlier = earlier_files(folder)
    files = {
        folder / "front.csv": front_csv(evaluated),
        folder / "designs.json": designs_text(evaluated, str(config.get("scenario", "")), bounds),
        folder / "history.csv": csv_text(history, HISTORY_COLUMNS),
        folder / "config.yaml": yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True),
    }
    if certificate is not None:
        files[folder / BOUNDS_FILE] = dump_json({"format": BOUNDS_FORMAT, **certificate.to_dict()})
    if archive is not None:
        files[folder / ARCHIVE_FILE] = front_csv(archive)
    write_together(files)
    remove_files(earlier, files)


def write_search(
    folder: pathlib.Path, result: SearchResult, inputs: abc.Mapping[str, object], *, bulk: bool = False
) -> None:
    """Writes all files of the results folder of a search, including its bounds, but not its figures and checkpoint.

    Args:
        folder: from `files.prepare_folder`.
        result: the result of the search.
        inputs: the inputs that the user named, for `config.yaml`; plain data.
        bulk: also write the front as arrays, `designs.npz`.

    Raises:
        InputError: the files cannot be written.
    """
    config = {**result.config, "inputs": inputs}
    write_front_files(folder, result.front, result.history, config, result.bounds, result.certificate, result.archive)
    if bulk:
        write_front_arrays(folder / ARRAYS_FILE, result.front, str(config.get("scenario", "")))


def read_certificate(folder: pathlib.Path) -> Certificate | None:
    """Reads `bounds.json` of a results folder; None if there is none, as in folders of early versions.

    Raises:
        InputError: the file is malformed.
    """
    path = folder / BOUNDS_FILE
    if not found(path):
        return None
    document = read_json(path)
    check_format(document, [BOUNDS_FORMAT], path)
    remedy = "run the search again, or remove the file"
    try:
        read_form(document, BoundsForm, file=path)
        return Certificate.from_dict(document)
    except InputError as error:
        raise InputError(error.message, file=path, item=error.item, remedy=remedy) from None
    except ValueError as error:  # a curve is missing, is no staircase, or has other columns
        raise InputError(f"{error}", file=path, remedy=remedy) from None
