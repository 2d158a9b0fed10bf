"""Designs in files: the self-contained `designs.json`, and its re-evaluation in double precision.

Format `designs/1` (JSON, one object):

- `format`, `mohamjax` (version), `scenario`, `clock_GHz` (always 1), `objectives` (names of the columns over which the
  front was searched, informational);
- `technology`: `{"hash", "static_energy"}`, the hash of the energy and area tables and whether leakage counts;
  `tables`, all of their figures, if they are not packaged;
- `templates`: list of the contents of template files; `package`: package parameters, including the off-chip memory of
  all chiplets (without it, as in old files, each template has the memory that it names);
- `networks`: list of `{"name", "source"}`; `layers`: list of `{"network" (index), "name", "type", "op", "word_bits",
  "bounds" {dimension: bound}, "stride", "dilation", "predecessors" (indices into layers)}`;
- `mappings`: list of `{"template" (name), "levels": [...]}`, loop nests in the notation of `mapping.notation`;
- `designs`: list of `{"design_id", "latency_s", "energy_J", "area_mm2", "chiplets", "schedule"}`. `chiplets` stand on
  the mesh in their order: `{"template", "levels": [{"name", "capacity_words", "fanout": [x, y]}], ...}`; without
  `levels` a chiplet is made just large enough. `schedule` lists every layer once, by priority:
  `{"layer", "chiplet", "mapping" (indices), "start_s", "end_s", "alone_s" (without any off-chip limit),
  "offchip_bytes", "energy_J" (including the package)}`. Objectives, times and further figures are informational: an
  evaluation ignores them;
- `bounds`, of the file and of each design: lower bounds over the mappings that the search had (`schedule.bounds`):
  `latency_s, energy_J, area_mm2, latency_parts_s`. Those of the file hold for every design, those of a design for every
  schedule on its chiplets.

`schedule/1` is the format that users write by hand. It differs from `designs/1` in having `application` (a scenario by
name or file, or a list of ONNX files, relative to the file) instead of `networks` and `layers`, `templates` as names or
files, layers called `network/layer`, and `schedules` instead of `designs`.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Any, TypedDict

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.errors import InputError
from mohamjax.hardware import Technology
from mohamjax.io import designs_reader
from mohamjax.io.design_arrays import nest_rows, problem_document, read_design_arrays
from mohamjax.io.files import csv_text, dump_json, uncollected, write_text
from mohamjax.io.formats import SCHEDULE_FORMAT
from mohamjax.io.trace import design_trace
from mohamjax.schedule import (
    CYCLE_S,
    OBJECTIVES,
    Bounds,
    Chiplets,
    Design,
    DesignFile,
    Evaluated,
    Timeline,
    explain_design,
    explanation_text,
    reevaluate,
)
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES
from mohamjax.schedule.explain import level_sizes
from mohamjax.schedule.measures import measure_named
from mohamjax.schedule.utilisation import layer_use
from mohamjax.schedule.validity import invalid, misfits
from mohamjax.schedule.view import design_view


class DesignRow(TypedDict):
    """The result of one design in the evaluation of a file.

    Attributes:
        design_id: its identifier.
        latency_s: seconds; an empty text if the design is invalid, like energy and area.
        energy_J: joules.
        area_mm2: square millimetres.
        valid: 1 or 0.
        reason: why it is invalid; empty if it is valid.
    """

    design_id: int | str
    latency_s: float | str
    energy_J: float | str
    area_mm2: float | str
    valid: int
    reason: str


def _short(values: npt.ArrayLike, digits: int = 10) -> np.ndarray:
    """Values rounded to significant digits, `[...]` float64; not for times, of which small differences may matter.

    Args:
        values: those from 1e-12 to 1e22 become the float nearest to the rounded decimal number, as powers of ten are
            exact there; infinite values and NaN stay.
        digits: at most 10.
    """
    values = np.asarray(values, np.float64)
    magnitude = np.log10(np.abs(np.where(np.isfinite(values) & (values != 0), values, 1.0)))
    place = np.minimum(digits - 1 - np.floor(magnitude).astype(int), 300)
    up, down = (10.0 ** np.maximum(power, 0) for power in (place, -place))
    return np.rint(values * up / down) * down / up


def designs_document(
    evaluated: Evaluated, scenario: str, bounds: Bounds | None = None, names: Sequence[int] | None = None
) -> dict[str, object]:
    """The content of `designs.json`.

    Args:
        evaluated: designs with reports.
        scenario: informational name of the scenario.
        bounds: lower bounds for every design; default `evaluated.bounds()`.
        names: identifiers of the designs; default numbers from 0.

    Returns:
        JSON-able data in the format `designs/1`.
    """
    application, templates, reports = evaluated.application, evaluated.templates, evaluated.reports
    unique = np.asarray(application.unique_of_layer)
    layers = len(unique)
    numbers: dict[tuple[int, int, int], int] = {}
    rows = []
    own_bounds = evaluated.design_bounds()
    use = layer_use(application, evaluated.tables, evaluated.designs, reports)
    by_layer = {
        "alone_s": _short(reports.duration[:, :layers] * 1e-9),
        "offchip_bytes": _short(reports.offchip_bytes[:, :layers]),
        "macs_per_cycle": _short(use.macs_per_cycle, 4),
        "utilisation": _short(use.utilisation, 4),
        "energy_J": _short((reports.layer_energy + reports.nop_energy)[:, :layers] * 1e-12),
    }
    by_tile = {key: _short(measure.value(reports.chiplets)) for key, measure in CHIPLET_MEASURES.items()}
    kinds = [measure_named(name) for name in evaluated.measures]
    searched = {kind.column: values for kind, values in zip(kinds, evaluated.objectives.T, strict=True)}
    for i in range(len(evaluated)):
        design, chips, timeline = _one(evaluated, i)
        standing = np.flatnonzero(design.template >= 0)
        chip_of_tile = {int(tile): k for k, tile in enumerate(standing)}
        chiplets = [
            {
                "template": templates[design.template[tile]].name,
                "tile": int(tile),
                **{key: float(values[i, tile]) for key, values in by_tile.items()},
                "interface": int(chips.interface[tile]),
                "hops": int(chips.hops[tile]),
                "levels": level_sizes(chips, templates[design.template[tile]], int(tile)),
            }
            for tile in standing
        ]
        order = design.order[design.order < layers]
        tile = design.assignment[order]
        entries = zip(*(x.tolist() for x in (unique[order], design.template[tile], design.mapping[order])), strict=True)
        columns = {
            "layer": order.tolist(),
            "chiplet": [chip_of_tile[t] for t in tile.tolist()],
            "mapping": [numbers.setdefault(entry, len(numbers)) for entry in entries],
            "start_s": (timeline.start[order] * 1e-9).tolist(),
            "end_s": (timeline.end[order] * 1e-9).tolist(),
            **{key: values[i, order].tolist() for key, values in by_layer.items()},
        }
        schedule = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        latency, energy, area = (float(x) for x in evaluated.reports.objectives[i])
        rows.append(
            {
                "design_id": i if names is None else names[i],
                "latency_s": latency,
                "energy_J": energy,
                "area_mm2": area,
                **{k: float(values[i]) for k, values in searched.items() if k not in OBJECTIVES},
                "bounds": own_bounds[i].to_dict(),
                "chiplets": chiplets,
                "schedule": schedule,
            }
        )
    head = problem_document(evaluated, scenario)
    return {
        **head,
        "objectives": list(searched),
        "bounds": (evaluated.bounds() if bounds is None else bounds).to_dict(),
        "mappings": nest_rows(evaluated.application, evaluated.tables.mapping, templates, numbers),
        "designs": rows,
    }


def designs_text(
    evaluated: Evaluated, scenario: str, bounds: Bounds | None = None, names: Sequence[int] | None = None
) -> str:
    """The text of `designs.json`; arguments as for `designs_document`."""
    with uncollected():
        return dump_json(designs_document(evaluated, scenario, bounds, names))


def _one(evaluated: Evaluated, i: int) -> tuple[Design, Chiplets, Timeline]:
    pick = functools.partial(jax.tree.map, lambda leaf: leaf[i])
    return pick(evaluated.designs), pick(evaluated.reports.chiplets), pick(evaluated.reports.timeline)


# ---------------------------------------------------------------- reading


def read_designs(
    path: str | pathlib.Path, *, technology: Technology | None = None, static_energy: bool = False
) -> DesignFile:
    """Reads and checks the designs of a `designs/1`, `schedule/1` or `design-arrays/1` file (.npz), all in memory.

    Args:
        path: the file.
        technology: energy and area tables, which must be those that the file was made with; by default they are looked
            up among the packaged ones and in the file.
        static_energy: count leakage even if the file does not.

    Returns:
        The valid designs, and for every other one the reason.

    Raises:
        InputError: the file as a whole cannot be read.
    """
    if pathlib.Path(path).suffix == ".npz":
        return read_design_arrays(path, technology=technology, static_energy=static_energy).design_file(path)
    return designs_reader.read_designs(path, technology=technology, static_energy=static_energy)


def evaluate_designs(
    path: str | pathlib.Path,
    *,
    technology: Technology | None = None,
    static_energy: bool = False,
    float32: bool = False,
) -> tuple[list[DesignRow], Evaluated | None]:
    """Evaluates the designs of a file that `read_designs` takes, in double precision by default.

    Stored objectives and times are ignored. A broken design becomes a row with the reason, not an error.

    Args:
        path: the file.
        technology: see `read_designs`.
        static_energy: count leakage even if the file does not.
        float32: compute in single precision.

    Returns:
        Rows of `design_id, latency_s, energy_J, area_mm2, valid, reason` in input order, and the valid designs
        with their reports (None if there are none).

    Raises:
        InputError: the file as a whole cannot be read.
    """
    return evaluate_file(read_designs(path, technology=technology, static_energy=static_energy), float32=float32)


def evaluate_file(file: DesignFile, *, float32: bool = False) -> tuple[list[DesignRow], Evaluated | None]:
    """Evaluates the designs of a file that was read (`read_designs`); returns what `evaluate_designs` returns."""
    table: list[DesignRow] = [
        {"design_id": name, "latency_s": "", "energy_J": "", "area_mm2": "", "valid": 0, "reason": reason}
        for name, reason in zip(file.names, file.reasons, strict=True)
    ]
    if file.mappings is None or not len(file.designs):
        return table, None
    evaluated = reevaluate(file, file.mappings, file.count, file.designs, float32=float32)
    tables, objectives = evaluated.tables, evaluated.reports.objectives
    bad = misfits(file.designs, tables, file.application)
    found = invalid(file.designs, tables, file, np.asarray(objectives), bad)
    for row, reason, values in zip(
        (row for row in table if not row["reason"]), found, objectives.tolist(), strict=True
    ):
        row["reason"] = reason
        if not reason:
            row["valid"] = 1
            row["latency_s"], row["energy_J"], row["area_mm2"] = values
    if not any(found):
        return table, evaluated
    valid = np.flatnonzero([not reason for reason in found])
    return table, evaluated.take(valid) if valid.size else None


def check_wanted(names: Sequence[object], reasons: Sequence[str], wanted: str) -> None:
    """Raises InputError if no design has this `design_id`, or all with it are broken.

    Args:
        names: `design_id` of every design.
        reasons: what is wrong with each; empty where nothing is.
        wanted: the `design_id`.
    """
    own = [reason for name, reason in zip(names, reasons, strict=True) if str(name) == wanted]
    if not own or all(own):
        good = next((f", such as {name}" for name, reason in zip(names, reasons, strict=True) if not reason), "")
        raise InputError(
            f"is invalid: {own[0]}" if own else "is not in the file",
            item=f"design {wanted}",
            remedy=f"name a valid design of the file{good}",
        )


def _check_row(rows: Sequence[DesignRow], wanted: str) -> None:
    check_wanted([row["design_id"] for row in rows], [row["reason"] for row in rows], wanted)


def choose_designs(
    rows: Sequence[DesignRow], evaluated: Evaluated | None, wanted: Sequence[str]
) -> tuple[list[DesignRow], Evaluated]:
    """Selects designs from the result of `evaluate_designs`, in the order of the file.

    Args:
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs, from `evaluate_designs`.
        wanted: `design_id`s, at least one.

    Returns:
        The rows and the designs, all valid.

    Raises:
        InputError: a design is not in the file, or is broken.
    """
    for name in wanted:
        _check_row(rows, name)
    assert evaluated is not None  # the wanted designs are valid
    valid = [row for row in rows if row["valid"]]
    chosen = [k for k, row in enumerate(valid) if str(row["design_id"]) in wanted]
    return [valid[k] for k in chosen], evaluated.take(np.asarray(chosen))


def schedules_document(
    rows: Sequence[DesignRow], evaluated: Evaluated | None, *, timelines: bool = False
) -> dict[str, Any]:
    """The rows of `evaluate_designs` as JSON (docs/formats.md).

    Args:
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs, in that order.
        timelines: also write when and where each layer runs.

    Returns:
        `{"format": "schedule/1", "schedules": [{"name", "latency_s", "energy_J", "area_mm2", "valid", "reason"}]}`. The
        objectives of an invalid schedule are null. With timelines, valid schedules also have `timeline`, per layer
        `{"network", "layer", "chiplet", "start_s", "end_s"}`.
    """
    schedules, valid = [], itertools.count()
    for row in rows:
        good = bool(row["valid"])
        out: dict[str, object] = {"name": row["design_id"]}
        values = row["latency_s"], row["energy_J"], row["area_mm2"]
        out |= {name: value if good else None for name, value in zip(OBJECTIVES, values, strict=True)}
        out |= {"valid": good, "reason": row["reason"]}
        index = next(valid) if good else None
        if timelines and evaluated is not None and index is not None:
            out["timeline"] = _timeline(evaluated, index)
        schedules.append(out)
    return {"format": SCHEDULE_FORMAT, "schedules": schedules}


def _timeline(evaluated: Evaluated, index: int) -> list[dict[str, object]]:
    """When and on which chiplet each layer of a design runs, in the order of the application."""
    design, _, timeline = _one(evaluated, index)
    number = {int(tile): k for k, tile in enumerate(np.flatnonzero(design.template >= 0))}
    application = evaluated.application
    return [
        {
            "network": application.networks[n].name,
            "layer": layer.name,
            "chiplet": number[int(design.assignment[i])],
            "start_s": float(timeline.start[i]) * CYCLE_S,
            "end_s": float(timeline.end[i]) * CYCLE_S,
        }
        for i, (layer, n) in enumerate(zip(application.layers, application.network_of_layer, strict=True))
    ]


def evaluation_csv(rows: Sequence[DesignRow]) -> str:
    """The rows of `evaluate_designs` as CSV."""
    return csv_text(rows, ("design_id", *OBJECTIVES, "valid", "reason"))


def write_designs(path: pathlib.Path, evaluated: Evaluated, scenario: str, bounds: Bounds | None = None) -> None:
    """Writes `designs.json` atomically; arguments as for `designs_document`."""
    write_text(path, designs_text(evaluated, scenario, bounds))


EXPLANATIONS_FORMAT = "design-explanations/1"


def explain_designs(
    rows: Sequence[DesignRow], evaluated: Evaluated | None, wanted: str | None = None
) -> dict[str, object]:
    """Explains where the time, the energy and the area of designs go.

    Args:
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs, from `evaluate_designs`.
        wanted: `design_id` of the only design to explain; default all valid ones.

    Returns:
        JSON-able `{"format", "designs"}`; each design has its `design_id` and the result of `schedule.explain_design`.

    Raises:
        InputError: there is no such design, or it is invalid.
    """
    if wanted is not None:
        _check_row(rows, wanted)
    valid = [row for row in rows if row["valid"]]
    chosen = [k for k, row in enumerate(valid) if wanted is None or str(row["design_id"]) == wanted]
    if evaluated is None:
        reason = f"no design of the file is valid: {rows[0]['reason']}" if rows else "the file holds no designs"
        raise InputError(reason, argument="wanted", remedy="give a file with a valid design")
    found = []
    for k in chosen:
        design, own = jax.tree.map(lambda leaf, k=k: leaf[k], (evaluated.designs, evaluated.reports))
        said = explain_design(design, own, evaluated.tables, evaluated)
        found.append({"design_id": valid[k]["design_id"], **said})
    return {"format": EXPLANATIONS_FORMAT, "designs": found}


def explanations_text(document: abc.Mapping[str, Any]) -> str:
    """The explanations of `explain_designs` as readable text."""
    texts = [explanation_text(row, f"design {row['design_id']}") for row in document["designs"]]
    return "\n\n\n".join(texts) + "\n"


def write_design_trace(path: str | pathlib.Path, evaluated: Evaluated, names: Sequence[object] | None = None) -> None:
    """Writes the timelines of designs as a Chrome trace (Perfetto): chiplets, interfaces and links, and bandwidths.

    Args:
        path: the JSON file.
        evaluated: the designs.
        names: names of the designs; default numbers from 0.
    """
    chosen = range(len(evaluated)) if names is None else names
    views = [design_view(evaluated, i, name) for i, name in enumerate(chosen)]
    write_text(path, dump_json(design_trace(views)))
