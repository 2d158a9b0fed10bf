"""Reads the results folder of a search, from which figures and reports are made."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import pathlib
import re
from collections import abc
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import OpenForm
from mohamjax.hardware import Technology
from mohamjax.io.designs import DesignRow, evaluate_designs
from mohamjax.io.results import read_certificate
from mohamjax.reader import closest, found, read_table, read_text, read_utf8, read_yaml
from mohamjax.schedule import Certificate, Evaluated, landmarks
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.recommended import BuiltChiplet
from mohamjax.unico.config import CODESIGN_FORMAT

_REMEDY = "give the results folder of a search"
_MOST = 1e100  # so that sums and margins stay within the range of floats
_OBJECTIVES = ("latency_s", "energy_J", "area_mm2")
_HISTORY = ("generation", "evaluations", "seconds", "hypervolume", "front_size")
_CODESIGN_HISTORY = ("batch", "evaluations", "seconds", "hypervolume", "front_size")


Row = dict[str, Any]
"""A line of a table by its header, with values as numbers or texts."""


@dataclasses.dataclass(frozen=True)
class ResultFiles:
    """The content of a results folder, except its designs.

    Attributes:
        folder: the folder.
        front: rows of `front.csv`: `design_id` as text, objectives as numbers, counts of chiplets as integers, other
            values as numbers if they are finite numbers, else as text.
        history: rows of `history.csv`, numbers.
        title: scenario, budget and seed.
        config: the content of `config.yaml`.
        kind: `search` or `codesign`.
        certificate: the content of `bounds.json`; None if there is none.
        measures: names of the objectives that were searched.
        offsets: numbers that are added to the objectives before their logarithms are taken.
    """

    folder: pathlib.Path
    front: list[Row]
    history: list[Row]
    title: str
    config: dict[str, Any]
    kind: str
    certificate: Certificate | None
    measures: tuple[str, ...] = DEFAULT
    offsets: tuple[float, ...] = (0.0, 0.0, 0.0)

    @property
    def mapped_again(self) -> bool:
        """Whether the search mapped layers again for chiplets that it used; True unless its settings deny it."""
        remap = self.config.get("remap")
        return not isinstance(remap, dict) or bool(remap.get("every") or remap.get("polish"))

    @property
    def objectives(self) -> np.ndarray:
        """`[N, M]` float, the objectives of the front."""
        columns = [measure_named(name).column for name in self.measures]
        return np.asarray([[row[column] for column in columns] for row in self.front], float)


@dataclasses.dataclass(frozen=True)
class ResultDesigns:
    """The designs of a results folder, evaluated again.

    Attributes:
        file: path of `designs.json`.
        rows: rows from `evaluate_designs`.
        evaluated: the valid designs; None if there are none.
    """

    file: pathlib.Path
    rows: list[DesignRow]
    evaluated: Evaluated | None

    @functools.cached_property
    def place(self) -> dict[str, int]:
        """Index of each valid design in `evaluated`, by its `design_id` as text."""
        return {str(row["design_id"]): i for i, row in enumerate(row for row in self.rows if row["valid"])}

    def index(self, design_id: str) -> int:
        """Index of a design of `front.csv` in `evaluated`.

        Raises:
            InputError: the design is not in the file, or not valid.
        """
        if design_id not in self.place:
            reasons = [row["reason"] for row in self.rows if str(row["design_id"]) == design_id]
            raise InputError(
                f"is not valid: {reasons[0]}" if reasons else "is in front.csv but not in this file",
                file=self.file,
                item=f"design {design_id}",
                remedy="use the files of one search",
            )
        return self.place[design_id]


def read_results(folder: str | pathlib.Path, kinds: Sequence[str] = ("search",)) -> ResultFiles:
    """Reads front.csv, history.csv, config.yaml, and bounds.json if there is one.

    Bounds are only read for a search over latency, energy and area that is not a robust one.

    Args:
        folder: the folder.
        kinds: accepted kinds of results: `search`, `codesign`.

    Raises:
        InputError: the folder or a file is missing, malformed or empty, or the results are of another kind.
    """
    folder = pathlib.Path(folder)
    if not found(folder, folder=True):
        raise InputError("there is no such folder", file=folder, remedy=_REMEDY)
    config, kind = _config(folder / "config.yaml")
    if kind not in kinds:
        raise InputError(f"holds the results of `{kind}`", file=folder, remedy=_REMEDY)
    measures, offsets = _measures(config, folder / "config.yaml")
    front = _front(folder / "front.csv", measures)
    return ResultFiles(
        folder=folder,
        front=front,
        history=_table(folder / "history.csv", _HISTORY if kind == "search" else _CODESIGN_HISTORY),
        title=_title(config, folder / "config.yaml"),
        config=config,
        kind=kind,
        # Bounds hold for a single application model.
        certificate=read_certificate(folder) if measures == DEFAULT and "robust" not in config else None,
        measures=measures,
        offsets=offsets,
    )


class _LevelForm(OpenForm):
    fanout: tuple[int, int]


class _ChipletForm(OpenForm):
    template: str
    levels: list[_LevelForm] = []  # noqa: RUF012, msgspec copies it


class _StepForm(OpenForm):
    chiplet: int


class _DesignForm(OpenForm):
    design_id: int | str
    chiplets: list[_ChipletForm]
    schedule: list[_StepForm]


class _DesignsForm(OpenForm):
    designs: list[_DesignForm]


def built_in(folder: str | pathlib.Path, design_id: object) -> list[BuiltChiplet]:
    """The chiplets of a design as `designs.json` of a results folder states them, without an evaluation.

    Args:
        folder: the folder.
        design_id: identifier of the design.

    Returns:
        The chiplets in their order on the mesh; empty if the folder has no such file, or the file no such design, or
        some chiplet states no sizes.

    Raises:
        InputError: the file is not what a search writes.
    """
    path = pathlib.Path(folder) / "designs.json"
    if not found(path, folder=False):
        return []
    try:
        read = msgspec.json.decode(read_utf8(path, "JSON file"), type=_DesignsForm)
    except msgspec.MsgspecError as error:
        raise InputError(f"is not what a search writes ({error})", file=path, remedy=_REMEDY) from None
    design = next((one for one in read.designs if str(one.design_id) == str(design_id)), None)
    if design is None or not all(chip.levels for chip in design.chiplets):
        return []
    runs = collections.Counter(step.chiplet for step in design.schedule)
    return [
        BuiltChiplet(chip.template, math.prod(x * y for x, y in (level.fanout for level in chip.levels)), runs[k])
        for k, chip in enumerate(design.chiplets)
    ]


def roles_in(folder: str | pathlib.Path) -> dict[str, str]:
    """The `design_id` of each design that has a role in the summary of a search, such as `knee`, by its role.

    Args:
        folder: a results folder; for any other folder the result is empty.

    Raises:
        InputError: a file of the folder is malformed.
    """
    folder = pathlib.Path(folder)
    if not all(found(folder / name, folder=False) for name in ("front.csv", "history.csv", "config.yaml")):
        return {}
    files = read_results(folder, kinds=("search", "codesign"))
    rows = landmarks(files.objectives, files.measures, files.offsets)
    return {role: files.front[row]["design_id"] for role, row in rows.items() if row >= 0}


def design_called(file: str | pathlib.Path, wanted: str) -> str:
    """The `design_id` of a design that a user names by it or by a role such as `knee`.

    Args:
        file: `designs.json` of a results folder, or any other file, whose designs have no roles.
        wanted: the `design_id` or role.

    Raises:
        InputError: the file is that of a results folder, and `wanted` is neither a number nor a role there.
    """
    file = pathlib.Path(file)
    if wanted.isdecimal() or file.name != "designs.json":
        return wanted
    roles = roles_in(file.parent)
    role = re.sub(r"[-_\s]+", " ", wanted.strip().lower())
    if not roles or role in roles:
        return roles.get(role, wanted)
    close = closest(role, roles)
    remedy = f"name a `design_id` or one of {', '.join(roles)}" if close is None else f"did you mean {close!r}?"
    if role == "recommended":
        remedy += (
            "; which design is recommended depends on a target, and `mohamjax decide FOLDER TARGET` says its number"
        )
    raise InputError("is not in the folder", file=file.parent, item=f"design {wanted}", remedy=remedy)


def evaluate_results(files: ResultFiles, *, technology: Technology | None = None) -> ResultDesigns:
    """Evaluates the designs of a results folder again, in double precision.

    Args:
        files: from `read_results`.
        technology: energy and area tables of the designs, see `read_designs`.

    Raises:
        InputError: designs.json cannot be read, front.csv lacks some of its designs, or states other latencies.
    """
    file = files.folder / "designs.json"
    rows, evaluated = evaluate_designs(file, technology=technology)
    stated, listed = {str(row["design_id"]) for row in rows}, {row["design_id"] for row in files.front}
    lost = sorted(stated - listed)
    if lost and listed <= stated:
        raise InputError(
            f"design {lost[0]} of {file.name} is missing: the file is cut off, or of another search",
            file=files.folder / "front.csv",
            remedy="use the files of one search",
        )
    if files.kind == "search" and "robust" not in files.config:
        _check_same_latencies(files, rows)
    return ResultDesigns(file, rows, evaluated)


def _check_same_latencies(files: ResultFiles, rows: Sequence[abc.Mapping[str, Any]]) -> None:
    """Refuses designs whose latency, which no technology changes, is not that of the front."""
    latency = {str(row["design_id"]): row["latency_s"] for row in rows if row["valid"]}
    for own in files.front:
        found, stated = latency.get(own["design_id"]), own["latency_s"]
        if found is not None and not math.isclose(found, stated, rel_tol=1e-4):
            raise InputError(
                f"its latency is {stated:.6g} s, that of the design in designs.json {found:.6g} s",
                file=files.folder / "front.csv",
                item=f"design {own['design_id']}",
                remedy="use the files of one search, and repeat one that was made with an earlier version of mohamjax",
            )


def _text(path: pathlib.Path) -> str:
    """The text of a file that a search wrote; raises InputError if it does not end in a line break, so is cut off."""
    text = read_text(path, "results folder")
    if not text.endswith("\n"):
        raise InputError(
            "its last line has no end: the file is cut off",
            file=path,
            remedy="copy the file again, or end the line if it is whole",
        )
    return text


def _number(text: str) -> float | str:
    """A text as a number if it is a finite number; otherwise the text."""
    try:
        value = float(text)
    except ValueError:
        return text
    return value if math.isfinite(value) else text


def _table(path: pathlib.Path, columns: Sequence[str], names: Sequence[str] = (), *, others: bool = False) -> list[Row]:
    """Rows of a CSV file: `columns` as finite numbers, `names` as text, and with `others` all others by `_number`.

    Raises:
        InputError: a column or all rows are missing, or a value is not a finite number.
    """
    header, lines = read_table(_text(path), path)
    missing = [c for c in (*names, *columns) if c not in header]
    if missing:
        raise InputError(f"column {missing[0]} is missing", file=path, item="header", remedy=_REMEDY)
    rows: list[Row] = []
    for number, row in lines:
        out: Row = {name: row[name] for name in names}
        if others:
            out |= {name: _number(row[name]) for name in header if name not in (*names, *columns)}
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


def _measures(config: abc.Mapping[str, Any], path: pathlib.Path) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Names and offsets of the objectives; by default latency, energy and area, and 0."""
    inner = config.get("search")
    names = inner.get("objectives", DEFAULT) if isinstance(inner, dict) else DEFAULT
    if not isinstance(names, list | tuple) or len(names) not in (2, 3):
        raise InputError("are not two or three names", file=path, item="search.objectives", remedy=_REMEDY)
    for name in names:
        try:
            measure_named(name if isinstance(name, str) else "")
        except InputError as error:
            raise InputError(error.message, file=path, item="search.objectives", remedy=_REMEDY) from None
    offsets = config.get("offsets", [0.0] * len(names))
    good = isinstance(offsets, list) and len(offsets) == len(names)
    if not good or not all(type(x) in (int, float) and 0 <= x < _MOST for x in offsets):
        raise InputError("are not numbers from 0, one for each objective", file=path, item="offsets", remedy=_REMEDY)
    return tuple(names), tuple(offsets)


def _front(path: pathlib.Path, measures: Sequence[str] = DEFAULT) -> list[Row]:
    """Reads and checks the rows of `front.csv`."""
    columns = dict.fromkeys((*_OBJECTIVES, *(measure_named(name).column for name in measures), "n_chiplets"))
    rows = _table(path, tuple(columns), ("design_id",), others=True)
    for number, row in enumerate(rows, start=2):
        bad = [name for name in _OBJECTIVES if not 0 <= row[name] < _MOST or (row[name] == 0 and name == "latency_s")]
        told = "not positive, or beyond what any design has"
        if not bad and not (row["n_chiplets"].is_integer() and 0 < row["n_chiplets"] < 2**31):
            bad, told = ["n_chiplets"], "no number of chiplets"
        if bad:
            raise InputError(
                f"{bad[0]} is {row[bad[0]]:g}, {told}",
                file=path,
                item=f"line {number}",
                remedy="mend the line or run the search again",
            )
        for name, value in row.items():
            if name.startswith("n_") and isinstance(value, float) and value.is_integer():
                row[name] = int(value)
    return rows


def _config(path: pathlib.Path) -> tuple[dict[str, Any], str]:
    """The content of `config.yaml`, and whether it is of a `search` or a `codesign`."""
    _text(path)
    config = read_yaml(path)
    return config, "codesign" if config.get("format") == CODESIGN_FORMAT else "search"


def _title(config: abc.Mapping[str, Any], path: pathlib.Path) -> str:
    """Scenario, budget and seed as one line."""
    inner = config.get("search")
    said = {**inner, **config} if isinstance(inner, dict) else config
    for key in ("scenario", "budget", "seed"):
        if key not in said:
            raise InputError(f"`{key}` is missing", file=path, remedy=_REMEDY)
    scenario = said["scenario"]
    named = [pathlib.PurePath(str(s)).name for s in scenario] if isinstance(scenario, list) else [str(scenario)]
    return f"{', '.join(named)}, budget {said['budget']}, seed {said['seed']}"
