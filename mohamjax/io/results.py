"""The results folder of a search (DESIGN section 8): front.csv, designs.json, history.csv, config.yaml, bounds.json.

`bounds.json` (format `bounds/1`) says how near the front is to what is possible over the mappings that the search had:

- `hypervolume`, `hypervolume_bound`, `share`: of the front, of any front at most, and the one divided by the other, in
  the `box` between `ideal` and `reference` on log axes (`columns` say what their numbers are);
- `curves`, one for each pair of objectives: `{"columns": [first, second], "steps": [[x, y], ...]}`. A design whose
  first objective is below that of the next step has a second one of y or more, and none has a first one below the
  first x. Proofs: `schedule.front_bounds`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import yaml

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.io.designs import Evaluated, network_latencies, write_designs
from mohamjax.io.files import check_format, dump_json, read_json, write_text
from mohamjax.reader import found
from mohamjax.schedule import Bounds, Certificate

__all__ = [
    "HISTORY_COLUMNS",
    "ROLES",
    "front_rows",
    "landmarks",
    "non_dominated",
    "plain",
    "prepare_folder",
    "read_certificate",
    "write_front",
    "write_results",
]

BOUNDS_FILE, BOUNDS_FORMAT = "bounds.json", "bounds/1"

ROLES = ("fastest", "most frugal", "smallest", "knee")
"""Designs of a front that one looks at first."""

HISTORY_COLUMNS = ("generation", "evaluations", "seconds", "hypervolume", "front_size", "stability")


def prepare_folder(path: str | pathlib.Path, item: str = "--out") -> pathlib.Path:
    """Creates the folder and proves that it can be written, before any long computation.

    Args:
        path: the folder.
        item: the option that names it, for complaints.

    Raises:
        InputError: it cannot be created or written.
    """
    folder = pathlib.Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", file=folder, item=item, remedy="name a folder that can be"
        ) from None
    return folder


def landmarks(objectives: Any) -> dict[str, int]:
    """Rows of the fastest, the most frugal and the smallest design and of the knee (nearest to ideal on log axes).

    Args:
        objectives: `[N, 3]` float, N >= 1.

    Returns:
        Row of each of `ROLES`; one row may have several.
    """
    values = emo.with_spare_rows(np.asarray(objectives, float))
    rows = [*(int(i) for i in emo.extremes(values)), int(emo.knee_point(emo.positive(values), log=True))]
    return dict(zip(ROLES, rows, strict=True))


def non_dominated(evaluated: Evaluated) -> Evaluated:
    """The finite, mutually non-dominated designs with distinct objectives, by rising latency."""
    objectives = evaluated.reports.objectives
    order = np.lexsort(objectives.T[::-1])
    keep: list[int] = []
    for i in order:
        row = objectives[i]
        if np.isfinite(row).all() and not any(np.all(objectives[k] <= row) for k in keep):
            keep.append(int(i))
    return evaluated.take(np.asarray(keep, int))


def front_rows(evaluated: Evaluated) -> list[dict[str, Any]]:
    """One row per design, as in `front.csv`."""
    latencies = network_latencies(evaluated)
    rows = []
    for i in range(len(evaluated)):
        template = evaluated.designs.template[i]
        latency, energy, area = (float(x) for x in evaluated.reports.objectives[i])
        row: dict[str, Any] = {
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
        rows.append(row)
    return rows


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({c: repr(r[c]) if isinstance(r[c], float) else r[c] for c in columns} for r in rows)
    return text.getvalue()


def write_front(path: pathlib.Path, evaluated: Evaluated) -> None:
    """Writes `front.csv` atomically."""
    rows = front_rows(evaluated)
    write_text(path, _csv(rows, list(rows[0])))


def write_results(
    folder: pathlib.Path,
    evaluated: Evaluated,
    history: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any],
    bounds: Bounds | None = None,
    certificate: Certificate | None = None,
) -> None:
    """Writes all files of a results folder but the figures and the checkpoint, each atomically.

    Args:
        folder: from `prepare_folder`.
        evaluated: the front, from `non_dominated`.
        history: rows with `HISTORY_COLUMNS`.
        config: everything needed to repeat the search; plain data.
        bounds: lower bounds of the scenario; default those for as many chiplets as the package has tiles.
        certificate: what the front has of what could be there; without it there is no `bounds.json`.
    """
    write_front(folder / "front.csv", evaluated)
    write_designs(folder / "designs.json", evaluated, str(config.get("scenario", "")), bounds)
    if certificate is None:
        (folder / BOUNDS_FILE).unlink(missing_ok=True)  # of an earlier search
    else:
        write_text(folder / BOUNDS_FILE, dump_json({"format": BOUNDS_FORMAT, **certificate.to_dict()}))
    write_text(folder / "history.csv", _csv(history, HISTORY_COLUMNS))
    write_text(folder / "config.yaml", yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True))


def read_certificate(folder: pathlib.Path) -> Certificate | None:
    """Reads `bounds.json` of a results folder; None where there is none, as in folders of earlier versions.

    Raises:
        InputError: the file is malformed.
    """
    path = folder / BOUNDS_FILE
    if not found(path):
        return None
    document = read_json(path)
    check_format(document, [BOUNDS_FORMAT], path)
    try:
        return Certificate.from_dict(document)
    except (TypeError, ValueError) as error:
        raise InputError(f"{error}", file=path, remedy="run the search again, or remove the file") from None


def plain(value: Any) -> Any:
    """Dataclasses, arrays and tuples as the plain data that YAML and JSON hold."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, os.PathLike):
        return str(value)
    return value
