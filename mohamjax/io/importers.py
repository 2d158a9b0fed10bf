"""Converts schedules of other tools into our formats. A single warning lists what such a file does not state.

- `read_layer_table`: CSV, a row per layer: where it runs, and when; may hold many schedules, as searches print them.
- `read_allocation`: YAML or JSON, layers and their cores (Stream, ZigZag): a list of `{name, core_allocation}` or a
  table `{layer: core}`.
- `read_cost_table`: CSV, measured durations and bytes per job and accelerator.

The first two return `designs/1` documents, the last one a `job-table/1` document. Columns are recognised by name, in
any case and order (`COLUMNS`); callers may also name them.
"""

from __future__ import annotations

import collections
import dataclasses
import graphlib
import heapq
import math
import pathlib
import re
from collections import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import yaml

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.io.design_arrays import nest_rows, problem_document
from mohamjax.io.entries import waiting
from mohamjax.io.files import read_json
from mohamjax.io.formats import JOB_TABLE_FORMAT
from mohamjax.io.forms import LARGEST_COST, LARGEST_ENERGY, MOST_ASKED
from mohamjax.mapping import MappingTables
from mohamjax.reader import StrictLoader, closest_name, read_table, read_text
from mohamjax.schedule.bounds import isolated_cycles, offchip_bandwidth
from mohamjax.schedule.setup import Setup
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel

COLUMNS: dict[str, tuple[str, ...]] = {
    "schedule": ("schedule", "design", "design_id", "solution", "solution_id", "individual", "point"),
    "network": ("network", "model", "workload", "application"),
    "layer": ("layer", "layer_name", "name", "node", "operator", "job"),
    "chiplet": ("chiplet", "sai", "core", "core_id", "accelerator", "sub_accelerator", "accelerator_id", "tile"),
    "template": ("template", "sat", "dataflow", "architecture", "accelerator_type"),
    "order": ("order", "priority", "position", "sequence"),
    "start": ("start", "start_s", "start_time", "start_cycle", "start_cycles"),
    "duration": (
        "duration", "cycles", "latency", "duration_s", "time", "duration_cycles", "latency_s", "time_s",
        "latency_cycles", "time_cycles",
    ),
    "bytes": ("bytes", "traffic", "offchip_bytes", "dram_bytes"),
    "energy": ("energy_j", "energy"),
    "predecessors": ("predecessors", "depends_on", "inputs"),
}  # fmt: skip
"""Names that a column may have, by its meaning."""

_UNITS = {unit.lower(): unit for unit in ("s", "cycles", "J", "ms", "us", "ns", "ps", "mJ", "uJ", "nJ", "pJ", "fJ")}
# By the last word of a column's name, in lower case; both characters for micro are in use.
_UNITS |= {"sec": "s", "seconds": "s", "cycle": "cycles", "\u00b5s": "us", "\u03bcs": "us"}

_OF_BOTH = ("layer", "chiplet", "network")  # columns that a table of costs and one of schedules have alike
_OF_SCHEDULES = ("order", "start", "schedule")  # columns that only the table of schedules has


@dataclasses.dataclass(frozen=True)
class Imported:
    """A converted file of another tool.

    Attributes:
        document: in the format `designs/1` or `job-table/1`, for `dump_json`.
        missing: what the file does not state, each with what was assumed instead.
        placed: names of the file's chiplets, with the number of layers on each, or accelerators, with the number of
            jobs that have costs on each, in the order of the document; a misspelt name shows up as an additional one.
    """

    document: dict[str, object]
    missing: tuple[str, ...]
    placed: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The counts of `placed` for each chiplet or accelerator, in one line."""
        jobs = self.document["format"] == JOB_TABLE_FORMAT
        what, on = ("job", "accelerator") if jobs else ("layer", "chiplet")
        each = [f"{name} ({plural(count, what)})" for name, count in self.placed.items()]
        more = f" and {len(each) - _MOST_LISTED:,} more" if len(each) > _MOST_LISTED else ""
        rows = cast("Sequence[object]", self.document["schedules" if jobs else "designs"])
        over = f", over {plural(len(rows), 'schedule')}" if len(rows) > 1 and not jobs else ""
        return f"{plural(len(each), on)} in the file{over}: {', '.join(each[:_MOST_LISTED])}{more}"

    @property
    def warning(self) -> str:
        """What the file does not state, in one line; empty if nothing is missing."""
        return f"the file does not say: {'; '.join(self.missing)}" if self.missing else ""


_MOST_LISTED = 20  # chiplets or accelerators in a summary


@dataclasses.dataclass(frozen=True)
class Target(Setup):
    """The networks and hardware that imported schedules are for.

    Attributes:
        tables: returns the mappings of every layer on every template that runs it, of which `fastest_mappings` chooses
            one; called only after a file has passed its checks.
        chiplets: names of the chiplets' templates, for files that do not state them: one for all, or one for each in
            the order of the chiplets' identifiers.
    """

    tables: Callable[[], MappingTables]
    chiplets: Sequence[str] = ()


class _Placed(NamedTuple):
    """A layer of a schedule: its number, chiplet, template (empty if unstated), rank (NaN if unstated), and place in
    the file."""

    layer: int
    chiplet: str
    template: str
    rank: float
    item: str


def read_layer_table(
    path: str | pathlib.Path, target: Target, columns: abc.Mapping[str, str] | None = None
) -> Imported:
    """Reads a CSV file with a row per layer.

    Its columns are `layer`, `chiplet` and optionally `order` or `start`, `template`, `network`, `schedule`.

    Args:
        path: the file.
        target: the networks and hardware.
        columns: names of the file's columns by the keys of `COLUMNS`, for columns with other names.

    Raises:
        InputError: a column or a layer is missing, a layer or a template is unknown, a value is not a number, or a
            layer stands before one that it depends on.
    """
    table = _Table(path, columns, ("layer", "chiplet"))
    schedules: dict[str, list[_Placed]] = {}
    layers = _LayerNames(target.application, path)
    for row in table.rows():
        layer = layers.number(row.cell["layer"], row.cell.get("network", ""), row.item)
        schedules.setdefault(row.cell.get("schedule", ""), []).append(
            _Placed(layer, row.cell["chiplet"], row.cell.get("template", ""), row.rank, row.item)
        )
    if not schedules:
        raise InputError("there are no rows", file=path, remedy="write a row for every layer")
    return _designs(schedules, target, path, table.unused)


def read_allocation(path: str | pathlib.Path, target: Target) -> Imported:
    """Reads a YAML or JSON file of layers and their cores in the order of execution, as Stream and ZigZag have them.

    The file is a list of tables with the layer (`name`, `layer` or `id`), its core (`core_allocation`, `core` or
    `cores`) and optionally `order` or `start`; or one table `{layer: core}`. A layer that is split over several cores
    is placed whole on the first of them, and the warning says so.

    Args:
        path: the file.
        target: the networks and hardware.

    Raises:
        InputError: the file has neither form, a layer is missing or unknown, or stands before one that it depends on.
    """
    data = read_json(path) if str(path).endswith(".json") else _yaml(path)
    if isinstance(data, abc.Mapping):
        inner = next((data[key] for key in ("layers", "allocation", "mapping") if key in data), data)
        data = [{"name": k, "core": v} for k, v in inner.items()] if isinstance(inner, abc.Mapping) else inner
    if not isinstance(data, list) or not data:
        raise InputError("lists no layers", file=path, remedy="write a list of name and core_allocation")
    layers, placed, split, unused = _LayerNames(target.application, path), [], 0, []
    named: dict[str, None] = {}
    for i, row in enumerate(data):
        item = f"entry {i}"
        if not isinstance(row, abc.Mapping):
            raise InputError("is no table", file=path, item=item, remedy="write name and core_allocation")
        name, core, when = (
            next(((key, row[key]) for key in keys if row.get(key) is not None), (None, None))
            for keys in (("name", "layer", "id"), ("core_allocation", "core", "cores"), ("order", "start"))
        )
        if name[0] is None or core[0] is None:
            raise InputError("names no layer or no core", file=path, item=item, remedy="write name and core_allocation")
        cores = core[1] if isinstance(core[1], list) else [core[1]]
        if not cores or any(isinstance(c, bool | float | list | dict) for c in cores):
            raise InputError(f"{core[1]!r} is not a core", file=path, item=item, remedy="write its number or name")
        split += len(cores) > 1
        named |= dict.fromkeys(map(str, cores))
        rank = float(i) if when[0] is None else _number(str(when[1]), path, item, str(when[0]))
        layer = layers.number(str(name[1]), "", item)
        placed.append(_Placed(layer, str(cores[0]), str(row.get("template", "")), rank, item))
        unused += [key for key in row if key not in (name[0], core[0], when[0], "template") and key not in unused]
    found = _designs({"": placed}, target, path, [str(key) for key in unused], tuple(named))
    if split:
        told = f"how layers are cut ({split} on several cores are placed whole on the first of these)"
        return dataclasses.replace(found, missing=(told, *found.missing))
    return found


def read_cost_table(
    path: str | pathlib.Path,
    *,
    bandwidth: float,
    time_unit: str | None = None,
    schedule: str | pathlib.Path | None = None,
    columns: abc.Mapping[str, str] | None = None,
) -> Imported:
    """Reads a CSV file of measured costs with the columns `layer`, `accelerator`, `duration`, `bytes`.

    Args:
        path: the file, a row per job and accelerator; may also have `energy_J` and `predecessors` (names joined by
            `;`).
        bandwidth: bandwidth of the memory that all accelerators share, bytes per time unit.
        time_unit: `cycles` or `s`; default what the name of the durations' column states, as `duration_s` does,
            else cycles.
        schedule: a CSV file of `layer`, `accelerator` and optionally `order` or `start`; default every job on its
            fastest accelerator, in the order of the table, but after its predecessors.
        columns: names of columns, see `read_layer_table`; `order`, `start` and `schedule` are those of the schedule.

    Raises:
        InputError: a column is missing, its name states another unit, a pair occurs twice, a value is not a number,
            jobs wait for each other, or the schedule names other jobs or breaks a rule.
    """
    named = {key: name for key, name in (columns or {}).items() if schedule is None or key not in _OF_SCHEDULES}
    table = _Table(path, named, ("layer", "chiplet", "duration", "bytes"))
    names = table.names
    unit, assumed = _units(names, time_unit, path)
    jobs: dict[str, dict[str, dict[str, float]]] = {}
    before: dict[str, dict[str, str]] = {}
    accelerators: dict[str, None] = {}
    for entry in table.rows():
        cell, job = entry.cell, entry.job
        costs = jobs.setdefault(job, {})
        if cell["chiplet"] in costs:
            told = f"names job {job!r} on accelerator {cell['chiplet']!r}, as an earlier line does"
            raise InputError(told, file=path, item=entry.item, remedy="write one line for each pair")
        accelerators[cell["chiplet"]] = None
        keys = [key for key in ("duration", "bytes", "energy") if key in names]
        most = {"energy": LARGEST_ENERGY}
        own = {key: _number(cell[key], path, entry.item, names[key], most.get(key, LARGEST_COST)) for key in keys}
        if own["bytes"] > MOST_ASKED * own["duration"]:
            told = f"job {job!r} lasts {own['duration']:g}, but moves {own['bytes']:g} bytes"
            remedy = "write how long it takes when nothing slows it, or 0 bytes"
            raise InputError(told, file=path, item=entry.item, remedy=remedy)
        costs[cell["chiplet"]] = own
        for name in filter(None, map(str.strip, cell.get("predecessors", "").split(";"))):
            before.setdefault(job, {}).setdefault(name, entry.item)
    if not jobs:
        raise InputError("there are no rows", file=path, remedy="write a row for every job and accelerator")

    for job, waits in before.items():
        for name, item in waits.items():
            if name not in jobs:
                told = f"job {job!r} waits for {name!r}, which the file does not have"
                raise InputError(told, file=path, item=item, remedy=_similar(name, jobs))
    order = _topological({job: before.get(job, {}) for job in jobs}, path)

    def column(job: str, key: str) -> list[float | None]:
        return [jobs[job][a][key] if a in jobs[job] else None for a in accelerators]

    rows = []
    for job in jobs:
        row: dict[str, object] = {"name": job, "duration": column(job, "duration"), "bytes": column(job, "bytes")}
        if "energy" in names:
            row["energy_J"] = column(job, "energy")
        rows.append(row | {"predecessors": list(before.get(job, ()))})
    missing = [] if "energy" in names else ["energies"]
    if "predecessors" not in names:
        missing.append("dependencies (there are none)")
    missing += [f"resources (one memory of {bandwidth:g} bytes per {unit.removesuffix('s') or 's'})", *assumed]
    if schedule is None:
        late = "" if order == list(jobs) else ", predecessors first"
        missing.append(f"a schedule (every job on its fastest accelerator, in the order of the table{late})")
        where = {job: min(costs, key=lambda a, costs=costs: costs[a]["duration"]) for job, costs in jobs.items()}
        schedules = [{"name": "fastest", "order": order, "accelerator": [where[job] for job in jobs]}]
    else:
        schedules = _table_schedules(schedule, jobs, before, columns)
    document = {
        "format": JOB_TABLE_FORMAT,
        "time_unit": unit,
        "resources": [{"name": "memory", "bandwidth": bandwidth}],
        "accelerators": [{"name": name, "resources": ["memory"]} for name in accelerators],
        "jobs": rows,
        "schedules": schedules,
    }
    placed = {name: sum(name in costs for costs in jobs.values()) for name in accelerators}
    return Imported(document, tuple(missing), placed)


def _units(names: abc.Mapping[str, str], given: str | None, path: object) -> tuple[str, list[str]]:
    """The time unit of a table of costs, and which units are assumed; raises InputError if it says another one.

    Args:
        names: names of its columns by the keys of `COLUMNS`.
        given: the time unit, if the caller states it.
        path: the file, for error messages.
    """
    stated, assumed = _unit(names["duration"], ("cycles", "s"), path), []
    if stated and given not in (None, stated):
        told = f"column {names['duration']!r} is in {stated}, and the time unit that was given is {given}"
        raise InputError(told, file=path, item="header", remedy="leave out the time unit, or rename the column")
    if not stated and given is None:
        assumed.append("the unit of durations (cycles)")
    if "energy" in names and not _unit(names["energy"], ("J",), path):
        assumed.append("the unit of energies (J)")
    return stated or given or "cycles", assumed


def _topological(before: abc.Mapping[str, abc.Mapping[str, str]], path: object) -> list[str]:
    """The jobs in their order, but each after its predecessors; raises InputError if jobs wait for each other.

    Args:
        before: the predecessors of each job, with the lines that name them.
        path: the file, for error messages.
    """
    jobs, order, ready = list(before), [], []
    place = {job: i for i, job in enumerate(jobs)}
    sorter = graphlib.TopologicalSorter(before)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1]  # each a predecessor of the next one
        told = waiting(range(len(cycle) - 1), cycle)
        item = before[cycle[1]][cycle[0]]
        raise InputError(told, file=path, item=item, remedy="remove one of these predecessors") from None
    while sorter.is_active():
        for job in sorter.get_ready():
            heapq.heappush(ready, place[job])
        order.append(jobs[heapq.heappop(ready)])
        sorter.done(order[-1])
    return order


def _table_schedules(
    path: str | pathlib.Path,
    jobs: abc.Mapping[str, abc.Mapping[str, object]],
    before: abc.Mapping[str, Iterable[str]],
    columns: abc.Mapping[str, str] | None,
) -> list[dict[str, object]]:
    """The schedules of a CSV file over a table's jobs, as `job-table/1` has them.

    Args:
        path: the file.
        jobs: accelerators that have costs, by job.
        before: predecessors of the jobs that have any.
        columns: names of columns, of this file or of that of the costs.
    """
    found: dict[str, list[tuple[float, _Row]]] = {}
    for row in _Table(path, columns, ("layer", "chiplet"), beside=True).rows():
        when = row.line if math.isnan(row.rank) else row.rank
        found.setdefault(row.cell.get("schedule", ""), []).append((when, row))
    out = []
    for name, rows in found.items():
        where = {row.job: row.cell["chiplet"] for _, row in rows}
        lost = [job for job in jobs if job not in where] + [job for job in where if job not in jobs]
        if lost or len(where) < len(rows):
            told = f"{lost[0]} is in one of the two files alone" if lost else "a job comes twice"
            raise InputError(told, file=path, item=f"schedule {name}", remedy="list every job of the table once")
        for _, row in rows:
            if where[row.job] not in jobs[row.job]:
                told = f"job {row.job!r} has no costs on {where[row.job]!r}"
                raise InputError(told, file=path, item=row.item, remedy=f"choose {' or '.join(jobs[row.job])}")
        ordered = [row for _, row in sorted(rows, key=lambda one: one[0])]
        _check_turns(ordered, before, path)
        order = [row.job for row in ordered]
        out.append({"name": name or "schedule", "order": order, "accelerator": [where[job] for job in jobs]})
    return out


def _check_turns(rows: Sequence[_Row], before: abc.Mapping[str, Iterable[str]], path: object) -> None:
    """Raises InputError if jobs would wait for each other, as each accelerator runs its jobs strictly in this order."""
    waits = {row.job: {*before.get(row.job, ())} for row in rows}
    last: dict[str, str] = {}
    for row in rows:
        if (chiplet := row.cell["chiplet"]) in last:
            waits[row.job].add(last[chiplet])
        last[chiplet] = row.job
    try:
        graphlib.TopologicalSorter(waits).prepare()
    except graphlib.CycleError as error:
        place = {row.job: i for i, row in enumerate(rows)}
        cycle = [row for row in rows if row.job in error.args[1]]
        pairs = ((row, p) for row in cycle for p in before.get(row.job, ()) if p in error.args[1])
        row, late = next((row, p) for row, p in pairs if place[p] > place[row.job])
        told = f"job {row.job!r} stands before its predecessor {late!r}"
        raise InputError(told, file=path, item=row.item, remedy="order every job after its predecessors") from None


# ---------------------------------------------------------------- layers into designs


_MOST_DIGITS = 10  # of the number of a layer; Python reads no integer of several thousand


class _LayerNames:
    """Finds layers by the names in files: `network/layer`, the layer's name if it is unique, or its number."""

    def __init__(self, application: ApplicationModel, path: object) -> None:
        self._path = path
        self._networks = [application.networks[n].name for n in application.network_of_layer]
        self._numbers: dict[str, int | None] = {}
        for i, (layer, name) in enumerate(zip(application.layers, application.full_names, strict=True)):
            self._numbers[name] = i
            self._numbers[layer.name] = None if layer.name in self._numbers else i

    def number(self, name: str, network: str, item: str) -> int:
        """The number of the layer with a name; raises InputError if there is none, or more than one."""
        full = f"{network}/{name}" if network else name
        if full in self._numbers:
            found = self._numbers[full]
            if found is None:
                told, remedy = f"several networks have a layer {name!r}", "write network/layer"
                raise InputError(told, file=self._path, item=item, remedy=remedy)
            return found
        if name.isdecimal() and len(name) < _MOST_DIGITS and int(name) < len(self._networks):
            own = self._networks[int(name)]
            if network not in ("", own):
                told, remedy = (
                    f"layer {name} is one of {own}, not of {network!r}",
                    "count over all networks, or name it",
                )
                raise InputError(told, file=self._path, item=item, remedy=remedy)
            return int(name)
        some = ", ".join(list(self._numbers)[:3])
        raise InputError(
            f"there is no layer {full!r:.100}", file=self._path, item=item, remedy=f"name one, such as {some}"
        )


def _sorted(chips: Iterable[str]) -> list[str]:
    """Distinct chiplets in the order of their identifiers: numbers first, by value."""
    return sorted(set(chips), key=lambda chip: (not chip.isdecimal(), chip.zfill(9)))


def _designs(
    schedules: abc.Mapping[str, Sequence[_Placed]],
    target: Target,
    path: object,
    unused: Sequence[str],
    also: Sequence[str] = (),
) -> Imported:
    """Converts schedules to designs; every layer gets the fastest mapping of its chiplet's template in the package.

    Args:
        schedules: layers of each schedule, by its name.
        target: the networks and hardware.
        path: the file, for error messages.
        unused: other columns or keys of the file.
        also: chiplets that the file names, with or without layers; those without layers are left out of the designs.
    """
    application = target.application
    kinds = [template.name for template in target.templates]
    unique = application.unique_of_layer
    checked: list[tuple[str, str, Sequence[_Placed], list[str], list[str]]] = []
    bandwidth = offchip_bandwidth(target.package)
    limit = "unlimited bandwidth" if math.isinf(bandwidth) else f"{bandwidth:g} bytes per cycle"
    taken = f"mappings (of each layer the fastest behind the package's {limit}, of equally fast ones the most frugal)"
    missing = {taken: None, "sizes of chiplets (just large enough)": None}
    counts: dict[str, int] = {}
    for name, placed in schedules.items():
        item = f"schedule {name}" if name else "file"
        times = collections.Counter(layer for layer, *_ in placed)
        twice = next((layer for layer, n in times.items() if n > 1), None)
        lost = next((layer for layer in range(len(unique)) if layer not in times), None)
        for layer, told in ((twice, "comes twice"), (lost, "is missing")):
            if layer is not None:
                known = application.layers[layer].name
                raise InputError(
                    f"layer {layer} ({known}) {told}", file=path, item=item, remedy="list every layer once"
                )
        chips = _sorted(one.chiplet for one in placed)
        known = _sorted((*chips, *also))
        for chip in known:
            counts[chip] = counts.get(chip, 0) + sum(one.chiplet == chip for one in placed)
        said: dict[str, str] = {}
        for one in placed:
            if one.template and said.setdefault(one.chiplet, one.template) != one.template:
                told = f"chiplet {one.chiplet!r} has the template {one.template} here, and {said[one.chiplet]} before"
                raise InputError(told, file=path, item=one.item, remedy="give every chiplet one template")
        if len(said) < len(chips):
            missing["templates of chiplets (those that were given)"] = None
        own = [said.get(chip) or _given(target.chiplets, chip, (known, chips), path, item) for chip in chips]
        for kind in own:
            if kind not in kinds:
                raise InputError(
                    f"there is no template {kind!r}", file=path, item=item, remedy=f"use {', '.join(kinds)}"
                )
        if any(math.isnan(one.rank) for one in placed):
            missing["an order (that of the layers)"] = None
        checked.append((name, item, _in_turn(placed, application, path), chips, own))
    tables = target.tables()
    fastest = fastest_mappings(tables, target.package)
    numbers: dict[tuple[int, int], int] = {}
    rows = []
    for name, item, placed, chips, own in checked:
        steps = []
        for layer, chip, *_ in placed:
            t = kinds.index(own[chips.index(chip)])
            if not np.asarray(tables.count)[unique[layer], t]:
                told = f"template {kinds[t]} has no mapping for layer {layer} ({application.layers[layer].name})"
                raise InputError(told, file=path, item=item, remedy="put it on another chiplet")
            number = numbers.setdefault((unique[layer], t), len(numbers))
            steps.append({"layer": layer, "chiplet": chips.index(chip), "mapping": number})
        rows.append(
            {"design_id": name or "imported", "chiplets": [{"template": kind} for kind in own], "schedule": steps}
        )
    if unused:
        missing[f"in a form that is understood: {', '.join(unused)}"] = None
    document = problem_document(target.of(application), application.name)
    places = [(u, t, int(fastest[u, t])) for u, t in numbers]
    document["mappings"] = nest_rows(target.application, tables.mapping, target.templates, places)
    return Imported(document | {"designs": rows}, tuple(missing), counts)


def _in_turn(placed: Sequence[_Placed], application: ApplicationModel, path: object) -> list[_Placed]:
    """The layers of a schedule by rank, else by number; raises InputError if one stands before a predecessor."""
    layers, done = application.layers, set[int]()
    ordered = sorted(placed, key=lambda one: (0.0 if math.isnan(one.rank) else one.rank, one.layer))
    for one in ordered:
        late = next((p for p in layers[one.layer].predecessors if p not in done), None)
        if late is not None:
            told = f"layer {one.layer} ({layers[one.layer].name}) stands before layer {late} ({layers[late].name}), "
            remedy = "order every layer after those that it depends on"
            raise InputError(told + "on which it depends", file=path, item=one.item, remedy=remedy)
        done.add(one.layer)
    return ordered


def fastest_mappings(tables: MappingTables, package: PackageParameters) -> np.ndarray:
    """`[U, T]` int, the fastest mapping of each set when it has the package's memory interface for itself.

    Mappings that the interface limits at equal traffic are equally fast; of equally fast ones, the least energy wins.
    """
    cycles = np.where(tables.exists, isolated_cycles(tables, package), np.inf)
    energy = np.where(tables.exists, np.asarray(tables.objectives)[..., 1], np.inf)
    return np.lexsort((energy, cycles), axis=2)[..., 0]


def _given(chiplets: Sequence[str], chip: str, lists: Sequence[Sequence[str]], path: object, item: str) -> str:
    """The template of a chiplet for which the file states none.

    `chiplets` has one template for all chiplets, or one for each chiplet of the first of `lists` with as many entries.
    """
    if len(chiplets) == 1:
        return chiplets[0]
    listed = next((own for own in lists if len(own) == len(chiplets)), None)
    if listed is None:
        told = f"does not say the templates of its {plural(len(lists[0]), 'chiplet')}, {', '.join(lists[0])}"
        told += f", and {len(chiplets)} were given"
        remedy = "give one for all, or one for each in this order, with the argument `chiplets`"
        raise InputError(told, file=path, item=item, remedy=remedy)
    return chiplets[listed.index(chip)]


@dataclasses.dataclass(frozen=True)
class _Row:
    """A row of a table: its line, its cells by the keys of `COLUMNS`, and its rank in an order (NaN if unstated)."""

    line: int
    cell: dict[str, str]
    rank: float

    @property
    def item(self) -> str:
        """Its place in the file."""
        return f"line {self.line}"

    @property
    def job(self) -> str:
        """Its layer, preceded by the network if that is stated."""
        return f"{self.cell['network']}/{self.cell['layer']}" if self.cell.get("network") else self.cell["layer"]


class _Table:
    """A CSV file whose columns are found by their meaning.

    Args:
        path: the file.
        columns: names of columns by the keys of `COLUMNS`.
        needed: keys of columns that it must have.
        beside: whether it has schedules beside a table of costs, which `columns` may be about instead.
    """

    def __init__(
        self,
        path: str | pathlib.Path,
        columns: abc.Mapping[str, str] | None,
        needed: Sequence[str],
        *,
        beside: bool = False,
    ) -> None:
        self._path = path
        header, self._lines = read_table(read_text(path, "CSV file"), path)
        if beside:
            known = {*_OF_SCHEDULES, *(key for key in _OF_BOTH if (columns or {}).get(key) in header)}
            columns = {key: name for key, name in (columns or {}).items() if key in known}
        self.names = _columns(header, columns, needed, path)
        self.unused = [name for name in header if name and name not in self.names.values()]

    def rows(self) -> Iterator[_Row]:
        """The rows; raises InputError for one without a layer or chiplet."""
        rank = next((key for key in ("order", "start") if key in self.names), None)
        for line, row in self._lines:
            cell, item = {key: row[name].strip() for key, name in self.names.items()}, f"line {line}"
            for key in ("layer", "chiplet"):
                if not cell[key]:
                    told = f"names no {'layer' if key == 'layer' else 'chiplet or accelerator'}"
                    raise InputError(told, file=self._path, item=item, remedy="say what runs and where")
            when = math.nan if rank is None else _number(cell[rank], self._path, item, self.names[rank])
            yield _Row(line, cell, when)


def _similar(name: str, known: Iterable[str]) -> str:
    near = closest_name(name, known)
    return "name jobs of the table, separated by `;`" if near is None else f"did you mean {near!r}?"


def _columns(
    header: Sequence[str], columns: abc.Mapping[str, str] | None, needed: Sequence[str], path: object
) -> dict[str, str]:
    """Names of the file's columns by the keys of `COLUMNS`."""
    plain = {name.lower().replace(" ", "_").replace("-", "_"): name for name in header}
    found = {
        key: next(plain[name] for name in names if name in plain)
        for key, names in COLUMNS.items()
        if plain.keys() & {*names}
    }
    for key, name in (columns or {}).items():
        if key not in COLUMNS or name not in header:
            told = f"there is no column {name!r} in the file" if key in COLUMNS else f"no column says a {key!r}"
            raise InputError(told, file=path, argument="columns", remedy=f"columns say {', '.join(COLUMNS)}")
        found[key] = name
    for key in needed:
        if key not in found:
            remedy = f"call it {' or '.join(COLUMNS[key][:3])}, or name it with the argument `columns[{key}]`"
            raise InputError(f"no column says the {key}", file=path, item="header", remedy=remedy)
    return found


def _unit(column: str, known: Sequence[str], path: object) -> str:
    """The unit that the name of a column ends with, as in `duration_s` or `energy [J]`; empty if it states none.

    Raises:
        InputError: it is none of the `known` ones.
    """
    words = re.findall(r"[^\W\d_]+", column.lower())
    unit = _UNITS.get(words[-1], "") if words else ""
    if unit and unit not in known:
        told = f"column {column!r} is in {unit}"
        raise InputError(told, file=path, item="header", remedy=f"give it in {' or '.join(known)}, and call it so")
    return unit


def _number(text: str, path: object, item: str, column: str, most: float = LARGEST_COST) -> float:
    """A number from 0 to `most`; raises InputError for any other text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= most:
        told = f"{column} is {text!r}, no number from 0 to {most:g}"
        raise InputError(told, file=path, item=item, remedy="mend the line")
    return value


def _yaml(path: str | pathlib.Path) -> object:
    """The content of a YAML file, which may be a list at the top level; raises InputError."""
    try:
        return yaml.load(read_text(path, "YAML file", 1 << 20), StrictLoader)
    except RecursionError:
        raise InputError("is no valid YAML: nested too deeply", file=path, remedy="mend the file") from None
    except (yaml.YAMLError, ValueError) as error:  # such as a day that no month has
        raise InputError(f"is no valid YAML: {error}", file=path, remedy="mend the file") from None
