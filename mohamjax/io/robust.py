"""The results folder of a robust search (docs/formats.md): the files of any search, and those of the models.

- `front.csv`: one row per package, with the objectives over all searched models;
- `designs.json`: the packages with the schedules of the nominal model; `designs_MODEL.json`: those of every other
  model, for a held-out model only on the packages that it runs on. `design_id` in all of them is that of `front.csv`;
- `robust.csv`: one row per package and model, preceded by rows for all searched models together:
  `front,design_id,model,role,latency_s,energy_J,area_mm2,runs,reason`. `front` is `robust`, or `nominal` for packages
  that were found for the nominal model alone;
- `price.csv`: one row per model, with `model,role,price` (`robust.price`) and the numbers of packages that it runs on;
- `nominal/`: the results folder of the search for the nominal model.
"""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections import abc
from collections.abc import Sequence

import numpy as np
import yaml

from mohamjax.errors import InputError
from mohamjax.io.designs import designs_text
from mohamjax.io.files import csv_text, make_folder, write_together
from mohamjax.io.results import (
    NOMINAL_FOLDER,
    PRICE_FILE,
    ROBUST_FILE,
    earlier_files,
    remove_files,
    write_front_files,
)
from mohamjax.reader import read_table, read_text
from mohamjax.robust.price import ALL, Comparison
from mohamjax.robust.reschedule import Served
from mohamjax.robust.robust_search import RobustFront, RobustResult
from mohamjax.runtime.struct import plain
from mohamjax.schedule import OBJECTIVES
from mohamjax.search.resumed import HISTORY_COLUMNS

_ROLES = ("all", "nominal", "searched", "held out")
_MOST = 1e100  # the same limit as for front.csv
_COLUMNS = ("front", "design_id", "model", "role", *OBJECTIVES, "runs", "reason")


def package_rows(front: RobustFront) -> list[dict[str, object]]:
    """The rows of `front.csv`, one per package."""
    rows = []
    template, templates = np.asarray(front.models[0].designs.template), front.models[0].templates
    for i, objectives in enumerate(front.objectives):
        row: dict[str, object] = {"design_id": i, **dict(zip(OBJECTIVES, map(float, objectives), strict=True))}
        row["n_chiplets"] = int(np.sum(template[i] >= 0))
        rows.append(row | {f"n_{kind.name}": int(np.sum(template[i] == t)) for t, kind in enumerate(templates)})
    return rows


def robust_rows(result: RobustResult) -> list[dict[str, object]]:
    """The rows of `robust.csv`, one per package and model; first of each front those over all searched models."""
    front, nominal = result.front, result.nominal
    roles = [*result.ensemble.roles, *["held out"] * len(front.held_out)]
    parts = [("robust", front.objectives, [*map(Served.everywhere, front.models), *front.held_out])]
    if nominal is not None:
        parts.append(("nominal", nominal.objectives, [*nominal.models, *nominal.held_out]))
    rows = []
    for name, joint, served in parts:
        lost = ["" if np.isfinite(values).all() else "some model does not run" for values in joint]
        tables = [(ALL, "all", joint, lost)]
        tables += [(x.application.name, role, x.objectives, x.reasons) for x, role in zip(served, roles, strict=True)]
        for model, role, objectives, reasons in tables:
            for i, (values, reason) in enumerate(zip(objectives, reasons, strict=True)):
                told = dict(zip(OBJECTIVES, [""] * 3 if reason else values.tolist(), strict=True))
                own = {"front": name, "design_id": i, "model": model, "role": role}
                rows.append(own | told | {"runs": int(not reason), "reason": reason})
    return rows


def price_rows(comparisons: Sequence[Comparison]) -> list[dict[str, object]]:
    """The rows of `price.csv`, one per model; the price is empty where it is NaN, as without a nominal front."""
    rows = []
    for one in comparisons:
        runs, known = one.runs, one.price
        rows.append(
            {
                "model": one.model,
                "role": one.role,
                "price": "" if math.isnan(known) else known,
                "robust_runs": runs[0],
                "robust_designs": len(one.robust),
                "nominal_runs": runs[1],
                "nominal_designs": len(one.nominal),
            }
        )
    return rows


def write_robust_results(folder: pathlib.Path, result: RobustResult, config: abc.Mapping[str, object]) -> None:
    """Writes all files of a robust search's results folder, except figures and checkpoints.

    Files of an earlier search that this one does not have are removed (`results.earlier_files`): `bounds.json`, the
    report, `designs_MODEL.json` of other models, and the files of `nominal/`.

    Args:
        folder: from `files.prepare_folder`.
        result: from `robust_search`.
        config: everything needed to repeat the search; plain data.

    Raises:
        InputError: the files cannot be written; the folder is as it was, except for `nominal/`.
    """
    ensemble, front = result.ensemble, result.front
    earlier = earlier_files(folder)
    files: dict[pathlib.Path, str] = {
        folder / "front.csv": csv_text(package_rows(front)),
        folder / "history.csv": csv_text(result.history, HISTORY_COLUMNS),
        folder / "config.yaml": yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True),
        folder / ROBUST_FILE: csv_text(robust_rows(result), _COLUMNS),
        folder / PRICE_FILE: csv_text(price_rows(result.comparisons())),
    }
    served = [*(Served.everywhere(own) for own in front.models), *front.held_out]
    for a, own in enumerate(served):
        if own.evaluated is None:
            continue
        name = own.application.name
        file = "designs.json" if a == ensemble.nominal else f"designs_{name}.json"
        files[folder / file] = designs_text(own.evaluated, name, names=own.rows.tolist())
    inner = folder / NOMINAL_FOLDER
    if result.nominal is not None:
        alone = result.nominal.search
        make_folder(inner)
        write_front_files(inner, alone.front, alone.history, alone.config)
    write_together(files)
    if result.nominal is not None:
        earlier = [path for path in earlier if path.parent != inner]
    remove_files(earlier, files)
    with contextlib.suppress(OSError):  # made for a search that did not take place; else something is in it
        inner.rmdir()


# ---------------------------------------------------------------- reading


def read_comparisons(folder: pathlib.Path) -> list[Comparison]:
    """Reads the comparisons of a results folder from `robust.csv`, one for each model and role.

    Args:
        folder: the folder.

    Raises:
        InputError: the file is missing or malformed.
    """
    path = folder / ROBUST_FILE
    header, lines = read_table(read_text(path, "results folder"), path)
    remedy = "run the search again"
    if missing := [name for name in _COLUMNS if name not in header]:
        raise InputError(f"column {missing[0]} is missing", file=path, item="header", remedy=remedy)
    read: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    for number, row in lines:
        for name, known in (("front", ("robust", "nominal")), ("role", _ROLES), ("runs", ("0", "1"))):
            if row[name] not in known:
                raise InputError(
                    f"{name} is {row[name]!r}, none of {', '.join(known)}",
                    file=path,
                    item=f"line {number}",
                    remedy=remedy,
                )
        try:
            values = [float(row[name]) if row["runs"] == "1" else math.inf for name in OBJECTIVES]
        except ValueError:
            values = [math.nan]
        if row["runs"] == "1" and not all(0 < value < _MOST for value in values):
            raise InputError(
                "an objective is no positive number, or beyond what any design has",
                file=path,
                item=f"line {number}",
                remedy=remedy,
            )
        own = read.setdefault((row["model"], row["role"]), {"robust": [], "nominal": []})
        own[row["front"]].append(values)
    if not read:
        raise InputError("there are no rows", file=path, remedy=remedy)

    def array(rows: list[list[float]]) -> np.ndarray:
        return np.asarray(rows, float).reshape(-1, 3)

    return [Comparison(m, role, array(x["robust"]), array(x["nominal"])) for (m, role), x in read.items()]
