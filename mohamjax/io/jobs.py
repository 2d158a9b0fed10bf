"""Files of job scheduling: jobs (CSV), platforms (YAML), results.

Jobs are a CSV file with a header and a row per job:

- `type`: CONV, DWCONV, FC or GEMM, or a layer type of `mohamjax workload --csv`, whose files can be used as they are;
- `K, C, R, S` and the output size `P, Q`, or the input size `Y, X` (stride 1, no padding: P = Y - R + 1); `G` and `N`
  if they are not 1. A depthwise layer has its channels in C, where K does not matter, or in G, where K is the number of
  filters of each channel (1 unless there is a channel multiplier) and not that of all output channels;
- optional: `stride_h, stride_w, dilation_h, dilation_w` (default 1), which only the loop-nest model uses;
- optional: a name (`job`, `layer` or `layer_id`), a `tenant` (or `network`, `model`), a `weight`, a `deadline_cycles`
  (above 0; empty: none) and a `target` (rank by which the job should end; any numbers, ties by row). Other columns are
  ignored, but a name that is nearly one of these is an error.

A platform is a YAML file with an optional `name` and `cores`, a list of `{style: HB | LB_rs | LB_os, rows, columns,
count, flexible}`, of which columns (64), count (1) and flexible (false) may be left out, or of `{template, count}` with
the name or the YAML file of a template, which is used at its largest sizes (only in the loop-nest model).
"""

from __future__ import annotations

import difflib
import math
import pathlib
import warnings
from collections import abc
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from mohamjax.errors import InputError
from mohamjax.forms import Form, Text, read_form
from mohamjax.hardware import load_template
from mohamjax.io.files import dump_json, write_text
from mohamjax.io.forms import LARGEST_COST, LARGEST_WEIGHT
from mohamjax.jobs.analysis import Style, job_layer
from mohamjax.jobs.platform import PLATFORMS, Core, JobBatch, Platform, TemplateCore, named_platform
from mohamjax.jobs.table import JobTable
from mohamjax.reader import found, read_table, read_text, read_yaml
from mohamjax.text import distinct, plural

_NAMES = ("job", "layer", "layer_id", "name")
_TENANTS = ("tenant", "network", "model")
_COLUMNS = ("type", *"GNKCRSPQYX", *(f"{kind}_{axis}" for kind in ("stride", "dilation") for axis in "hw"))
_COLUMNS += (*_NAMES, *_TENANTS, "weight", "deadline_cycles", "target")
_LARGEST = 2**31
_LARGEST_ARRAY = 2**16
_MOST_CORES = 63  # the simulation packs a core and a priority into 32 bits


def _text(path: pathlib.Path) -> str:
    text = read_text(path, "text file")
    if not text.strip():
        raise InputError("is empty", file=path, remedy="give a file with a header and a row per job")
    return text


Extent = Annotated[int, Meta(ge=1, le=_LARGEST_ARRAY)]


class CoreForm(Form):
    """Cores of a style, or of a template at its largest sizes."""

    style: Style | None = None
    rows: Extent | None = None
    columns: Extent | None = None
    flexible: bool | None = None
    template: Text | None = None
    count: Annotated[int, Meta(ge=1, le=_MOST_CORES)] | None = None


class PlatformForm(Form, kw_only=True):
    """A platform of G#."""

    name: Text | None = None
    cores: Annotated[list[CoreForm], Meta(min_length=1, description="one core or more")]


class _Row:
    """A row of a CSV file with checked access to its values; error messages name the row."""

    def __init__(self, values: abc.Mapping[str, str], path: pathlib.Path, line: int) -> None:
        self.values, self.path, self.line = values, path, line

    def error(self, column: str, message: str, remedy: str) -> InputError:
        return InputError(message, file=self.path, item=f"line {self.line}, {column}", remedy=remedy)

    def has(self, column: str) -> bool:
        return self.values.get(column, "").strip() != ""

    def bound(self, column: str) -> int:
        """A positive integer; 1 if the cell is missing or empty."""
        text = self.values.get(column, "").strip()
        if not text:
            return 1
        try:
            value = int(text)
        except ValueError:
            value = 0
        if not 1 <= value < _LARGEST:
            raise self.error(column, f"is {text!r}, not a loop bound", "write an integer from 1 to 2^31 - 1")
        return value

    def pair(self, name: str) -> tuple[int, int]:
        """Strides or dilations along both axes, h first."""
        return self.bound(f"{name}_h"), self.bound(f"{name}_w")

    def number(self, column: str, default: float, *, positive: bool = False, most: float = math.inf) -> float:
        """A finite number from 0, or above 0 if `positive`, to `most`; the default if the cell is missing or empty."""
        text = self.values.get(column, "").strip()
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0 or (positive and value == 0):
            told = "above 0" if positive else "of at least 0"
            raise self.error(column, f"is {text!r}, not a number {told}", "write one, or leave it empty")
        if value > most:
            raise self.error(column, f"is {text!r}, more than {most:g}", "write a smaller number, or leave it empty")
        return value

    def output(self, output: str, given: str, filter_: str) -> int:
        """An output extent, from its own column or from the input extent in column `given`."""
        if self.has(output):
            return self.bound(output)
        if not self.has(given):
            raise self.error(output, "is missing", f"give {output}, or the input's {given}")
        extent = self.bound(given) - self.bound(filter_) + 1
        if extent < 1:
            raise self.error(given, "the filter is larger than the input", "give stride-1 sizes without padding")
        return extent


def read_jobs(path: str | pathlib.Path) -> JobBatch:
    """Reads jobs from a CSV file.

    Warns:
        UserWarning: a depthwise layer has as many filters of each channel (K) as channels (G).

    Raises:
        InputError: the file cannot be read, or a row breaks the format.
    """
    path = pathlib.Path(path)
    header, lines = read_table(_text(path), path)
    needed = [name for name in ("type", "K", "C") if name not in header]
    if needed:
        raise InputError(
            f"column {needed[0]} is missing", file=path, item="header", remedy="give type, K, C, P, Q, R and S"
        )
    known = {column.lower(): column for column in _COLUMNS}
    for name in header:
        near = [known[found] for found in difflib.get_close_matches(name.lower(), known, 1, 0.8)]
        if name not in _COLUMNS and near and near[0] not in header and len(name) > 2:
            raise InputError(
                f"unknown column {name!r}", file=path, item="header", remedy=f"did you mean {near[0]!r}? or rename it"
            )
    names: dict[str, int] = {}
    layers, tenants, weights, deadlines, targets, square = [], [], [], [], [], []
    for line, values in lines:
        row = _Row(values, path, line)
        bounds = {letter: row.bound(letter) for letter in "GNKCRS"}
        bounds |= {"P": row.output("P", "Y", "R"), "Q": row.output("Q", "X", "S")}
        kind = values["type"].strip()
        try:
            layers.append(job_layer(kind, bounds, row.pair("stride"), row.pair("dilation")))
        except ValueError as error:
            raise row.error("type", str(error), "write CONV, DWCONV, FC or GEMM, or a type of our own") from None
        if kind.lower() == "dwconv" and bounds["K"] == bounds["G"] > 1:
            square.append(line)
        if math.prod(float(b) for b in bounds.values()) > 1e15:
            raise row.error("row", "the layer has more than 1e15 multiply-accumulates", "check its sizes")
        wanted = next((values[c] for c in _NAMES if row.has(c)), f"job{len(layers) - 1}")
        tenants.append((distinct(wanted, names, "{} #{}"), next((values[c] for c in _TENANTS if row.has(c)), "")))
        weights.append(row.number("weight", 1.0, most=LARGEST_WEIGHT))
        deadlines.append(row.number("deadline_cycles", math.inf, positive=True, most=LARGEST_COST))
        targets.append(row.number("target", float(len(targets))))
    if not layers:
        raise InputError("there are no jobs", file=path, remedy="give a row per job")
    if sum(weights) == 0:
        raise InputError("all weights are 0", file=path, item="weight", remedy="give some job a weight above 0")
    if square:
        more = f", and {plural(len(square) - 1, 'other line')}" if len(square) > 1 else ""
        warnings.warn(
            f"{path}: line {square[0]}{more}: a depthwise layer with K = G has as many filters of each channel as"
            " channels; write K = 1 if K was meant to be all output channels",
            stacklevel=2,
        )
    rank = np.empty(len(targets), int)
    rank[np.argsort(targets, kind="stable")] = np.arange(len(targets))
    return JobBatch(
        names=tuple(name for name, _ in tenants),
        layers=tuple(layers),
        tenants=tuple(tenant for _, tenant in tenants),
        weight=tuple(weights),
        deadline=tuple(deadlines),
        target=tuple(rank.tolist()),
    )


def load_platform(
    name: str, *, lb: str = "LB_rs", flexible: bool = False, element_buffer: float | None = None
) -> Platform:
    """A platform by its name (`jobs.platform.PLATFORMS`) or from a YAML file.

    Args:
        name: name or path.
        lb: style of the LB cores of a named platform.
        flexible: whether the cores of a named platform have arrays of flexible shape.
        element_buffer: buffer of a processing element of a named platform [bytes], see `named_platform`.

    Raises:
        InputError: there is no such name or file, or the file breaks the format.
    """
    if name.upper() in PLATFORMS:
        return named_platform(name.upper(), lb=lb, flexible=flexible, element_buffer=element_buffer)
    path = pathlib.Path(name)
    if not path.suffix and not found(path):
        raise InputError(
            f"{name!r} is no platform", argument="platform", remedy=f"name {', '.join(PLATFORMS)} or a YAML file"
        )
    form = read_form(read_yaml(path), PlatformForm, file=path)
    cores: list[Core | TemplateCore] = []
    for i, entry in enumerate(form.cores):
        cores += [_core(entry, path, f"cores[{i}]")] * (entry.count or 1)
    if len(cores) > _MOST_CORES:
        raise InputError(f"there are {len(cores)} cores", file=path, item="cores", remedy=f"take at most {_MOST_CORES}")
    return Platform(form.name or path.stem, tuple(cores))


def _core(form: CoreForm, path: pathlib.Path, where: str) -> Core | TemplateCore:
    if form.template is None:
        for key in ("style", "rows"):
            if getattr(form, key) is None:
                raise InputError("is missing", file=path, item=f"{where}.{key}", remedy=f"add `{key}: ...`")
        return Core(form.style or "", form.rows or 0, form.columns or 64, bool(form.flexible))
    for key in ("style", "rows", "columns", "flexible"):
        if getattr(form, key) is not None:
            raise InputError("is not for a template", file=path, item=f"{where}.{key}", remedy="remove it")
    try:
        return TemplateCore(load_template(_beside(path, form.template)))
    except InputError as error:
        told = f"{error.file}: {error.message}" if error.file else error.message
        raise InputError(told, file=path, item=f"{where}.template", remedy=error.remedy) from None


def _beside(path: pathlib.Path, name: str) -> str:
    """The path of a template's file, if it exists relative to the platform's file, otherwise the name as it is."""
    beside = path.parent / name
    return str(beside) if found(beside, folder=False) else name


def job_table_document(table: JobTable, schedules: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> dict[str, object]:
    """A table and schedules over it as a `job-table/1` document, which `mohamjax evaluate schedules` evaluates.

    Args:
        table: the jobs.
        schedules: name, order `[N]` and accelerator `[N]` of each schedule.
    """

    def costs(row: np.ndarray, able: np.ndarray) -> list[float | None]:
        return [float(x) if ok else None for x, ok in zip(row, able, strict=True)]

    jobs = []
    for j, name in enumerate(table.jobs):
        able = np.isfinite(table.duration[j])
        entry: dict[str, object] = {
            "name": name,
            "duration": costs(table.duration[j], able),
            "bytes": costs(table.bytes[j], able),
            "predecessors": list(table.predecessors[j]),
        }
        if table.energy is not None:
            entry["energy_J"] = costs(table.energy[j], able)
        if table.tenants is not None and table.tenants[j]:
            entry["tenant"] = table.tenants[j]
        if table.weight is not None:
            entry["weight"] = float(table.weight[j])
        if table.deadline is not None and math.isfinite(table.deadline[j]):
            entry["deadline"] = float(table.deadline[j])
        if table.target is not None:
            entry["target"] = int(table.target[j])
        jobs.append(entry)
    return {
        "format": "job-table/1",
        "time_unit": table.time_unit,
        "resources": [
            {"name": name, "bandwidth": None if math.isinf(b) else float(b)}
            for name, b in zip(table.resources, table.bandwidth, strict=True)
        ],
        "accelerators": [
            {"name": name, "resources": list(uses)}
            for name, uses in zip(table.accelerators, table.resources_of_accelerator, strict=True)
        ],
        "jobs": jobs,
        "schedules": [
            {"name": name, "order": np.asarray(order).tolist(), "accelerator": np.asarray(where).tolist()}
            for name, order, where in schedules
        ],
    }


def write_job_table(
    path: str | pathlib.Path, table: JobTable, schedules: Sequence[tuple[str, np.ndarray, np.ndarray]]
) -> None:
    """Writes `job_table_document` atomically."""
    write_text(path, dump_json(job_table_document(table, schedules)))
