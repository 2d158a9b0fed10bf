"""Writes Timeloop's own YAML, so that anybody can check our numbers in Timeloop.

The format is version 0.3 with an energy (`ERT`) and an area (`ART`) table: five files, `arch.yaml`, `ERT.yaml`,
`ART.yaml`, `problem.yaml` and `mapping.yaml`, all arguments of one call of `timeloop-model`. `timeloop.read_timeloop`
reads them back. Wire energy is the attribute `energy-per-hop` of the level above the wires.

These files have one spatial factor per dimension and level, but here a dimension may run along both X and Y. The part
of G, N, K or C along Y then becomes a dimension of its own, H, B, L or D. The counts stay the same, as the axes of a
tile are products of extents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import re
from collections import abc
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import jax
import jax.numpy as jnp
import numpy as np
import yaml

from mohamjax.errors import InputError
from mohamjax.hardware import DATA_SPACES, Architecture, Machine, Template, resize
from mohamjax.io.files import csv_text, make_folder, remove_file, write_text
from mohamjax.io.timeloop_architecture import BANDWIDTHS
from mohamjax.io.timeloop_loops import SECOND
from mohamjax.mapping import Mapping, MappingTables, Sample, predict
from mohamjax.mapping.nest import padded_shape
from mohamjax.mapping.notation import told_padding
from mohamjax.reader import found, read_table, read_text
from mohamjax.runtime.struct import cast
from mohamjax.schedule import Design, Evaluated
from mohamjax.schedule.setup import Setup
from mohamjax.text import distinct
from mohamjax.workload import DIMS, WorkloadShape

_Dumper: object = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def _plain(value: SupportsFloat) -> int | float:
    """A number for YAML: an integer if it is whole."""
    value = float(value)
    return int(value) if value == int(value) else value


def template_architecture(template: Template, machine: Machine) -> Architecture:
    """A machine made from a template (`resize`) with the template's names, as the writers here take it.

    Args:
        template: Where the names come from.
        machine: Its sizes and costs, without leading axes; padded levels are left out when it is written.
    """
    taken = template.level_names
    name = next(name for name in ("MAC", *(f"MAC{i}" for i in range(len(taken) + 1))) if name not in taken)
    whole: Machine = jax.tree.map(lambda leaf: np.asarray(leaf), machine)
    return Architecture(template.name, taken, name, whole)


def timeloop_documents(
    architecture: Architecture, shape: WorkloadShape | None = None, mapping: Mapping | None = None
) -> dict[str, dict[str, object]]:
    """Timeloop's input files as data.

    Args:
        architecture: The machine.
        shape: The layer, of which all eight dimensions are written (G as a dimension of its own). For a mapping that
            pads the layer this must be the padded shape (`padded_shape`), as the mapping's costs include the padding.
        mapping: The loop nest, with or without padded levels.

    Returns:
        The content of each YAML file by name: `arch`, `ERT`, `ART` and, if given, `problem` and `mapping`.

    Raises:
        InputError: P, Q, R or S runs along both X and Y of a level, which these files cannot express.
    """
    split = {} if mapping is None else _second_parts(architecture, mapping)
    documents = _machine_documents(architecture)
    if shape is not None:
        documents["problem"] = {"problem": _problem(shape, split)}
    if mapping is not None:
        documents["mapping"] = {"mapping": _mapping(architecture, mapping, split)}
    return documents


def _machine_documents(architecture: Architecture) -> dict[str, dict[str, object]]:
    machine: object = architecture.machine
    local = []
    for i, name in reversed(list(enumerate(architecture.level_names))):
        dram = not machine.reduces[i]
        attributes: dict[str, object] = {
            "word-bits": _plain(machine.word_bits[i]),
            "block-size": _plain(machine.block_words[i]),
            "width": _plain(machine.word_bits[i] * machine.block_words[i]),
            "meshX": _plain(machine.mesh[i, 0]),
            "meshY": _plain(machine.mesh[i, 1]),
            "energy-per-hop": _plain(machine.hop_energy[i]),
        }
        if np.isfinite(machine.capacity[i]):
            attributes["entries"] = _plain(machine.capacity[i])
        limits = [*machine.bandwidth[i], *([] if machine.shared_bandwidth is None else [machine.shared_bandwidth[i]])]
        for key, limit in zip(BANDWIDTHS, limits, strict=False):
            if np.isfinite(limit):
                attributes[key] = _plain(limit)
        count = _plain(machine.instances[i])
        local.append({"name": f"{name}[0..{count - 1}]", "class": "DRAM" if dram else "SRAM", "attributes": attributes})
    count = _plain(machine.mac_instances)
    mesh = {"meshX": _plain(machine.mac_mesh[0]), "meshY": _plain(machine.mac_mesh[1])}
    local.append(
        {"name": f"{architecture.mac_name}[0..{count - 1}]", "class": "intmac", "attributes": {"datawidth": 8, **mesh}}
    )
    energies, areas = [], []
    for i, name in enumerate(architecture.level_names):
        read, write = (_plain(e) for e in machine.access_energy[i])
        actions = [("read", read), ("write", write), ("update", write)]
        if machine.update_energy is not None:
            actions[2] = ("random_update", _plain(machine.update_energy[i]))
        energies.append({"name": f"system.{name}", "actions": [{"name": a, "energy": e} for a, e in actions]})
        areas.append({"name": f"system.{name}", "area": _plain(machine.area[i])})
    mac = f"system.{architecture.mac_name}"
    energies.append({"name": mac, "actions": [{"name": "compute", "energy": _plain(machine.mac_energy)}]})
    areas.append({"name": mac, "area": _plain(machine.mac_area)})
    return {
        "arch": {"architecture": {"version": 0.3, "subtree": [{"name": "system", "local": local}]}},
        "ERT": {"ERT": {"version": 0.3, "tables": energies}},
        "ART": {"ART": {"version": 0.3, "tables": areas}},
    }


def _second_parts(architecture: Architecture, mapping: Mapping) -> dict[str, int]:
    """Dimensions that run along both X and Y of a level, with the product of their factors along Y at such levels."""
    m: object = mapping
    split: dict[str, int] = {}
    for i, name in enumerate(architecture.level_names):
        for letter, x, y in zip(DIMS, m.spatial[0, i], m.spatial[1, i], strict=True):
            if x > 1 and y > 1:
                if letter not in SECOND:
                    raise InputError(
                        f"{letter} runs along both X and Y",
                        item=f"mapping, {name}",
                        remedy="Timeloop's files have one spatial factor per dimension and level",
                    )
                split[letter] = split.get(letter, 1) * int(y)
    return split


def _problem(shape: WorkloadShape, split: abc.Mapping[str, int]) -> dict[str, object]:
    windows = {"P": "Wstride", "R": "Wdilation", "Q": "Hstride", "S": "Hdilation"}
    axes = {
        "Weights": ["C", "K", "R", "S", "G"],
        "Inputs": ["N", "C", "PR", "QS", "G"],
        "Outputs": ["N", "K", "P", "Q", "G"],
    }
    spaces = []
    for name in DATA_SPACES:
        own = [*axes[name], *(SECOND[axis] for axis in axes[name] if axis in split)]
        terms = [[[d, windows[d]] if name == "Inputs" and d in windows else [d] for d in axis] for axis in own]
        spaces.append({"name": name, "projection": terms})
    spaces[-1]["read-write"] = True
    steps = {
        "Wstride": shape.stride[0],
        "Hstride": shape.stride[1],
        "Wdilation": shape.dilation[0],
        "Hdilation": shape.dilation[1],
    }
    bounds = {d: bound // split.get(d, 1) for d, bound in zip(DIMS, shape.bounds, strict=True)}
    bounds |= {SECOND[d]: bound for d, bound in split.items()}
    return {
        "version": 0.3,
        "shape": {
            "name": "layer",
            "dimensions": list(bounds),
            "coefficients": [{"name": name, "default": 1} for name in steps],
            "data-spaces": spaces,
        },
        "instance": {**bounds, **steps},
    }


def _mapping(architecture: Architecture, mapping: Mapping, split: abc.Mapping[str, int]) -> list[dict[str, object]]:
    m: object = mapping
    rows: list[dict[str, object]] = []
    second = [SECOND[d] for d in split]

    def directive(name: str, kind: str, factors: abc.Mapping[str, int], order: Sequence[str]) -> dict[str, object]:
        text = " ".join(f"{d}={int(factors.get(d, 1))}" for d in (*DIMS, *second))
        return {"target": name, "type": kind, "factors": text, "permutation": "".join(order)}

    for i, name in reversed(list(enumerate(architecture.level_names))):
        outermost = i == len(architecture.level_names) - 1
        kept = [v for v, k in zip(DATA_SPACES, m.keep[i], strict=True) if k or outermost]
        bypassed = [v for v in DATA_SPACES if v not in kept]
        rows.append({"target": name, "type": "bypass", "keep": kept, "bypass": bypassed})
        order = [*(DIMS[d] for d in m.order[i]), *second]
        rows.append(directive(name, "temporal", dict(zip(DIMS, m.temporal[i], strict=True)), order))
        x = {DIMS[d]: int(m.spatial[0, i, d]) for d in m.spatial_order[0, i] if m.spatial[0, i, d] > 1}
        y = {DIMS[d]: int(m.spatial[1, i, d]) for d in m.spatial_order[1, i] if m.spatial[1, i, d] > 1}
        if x or y:
            y = {SECOND[d] if d in x else d: n for d, n in y.items()}
            rest = [d for d in (*DIMS, *second) if d not in x and d not in y]
            rows.append(directive(name, "spatial", {**x, **y}, [*x, *rest, *y]))
            rows[-1]["split"] = len(x) + len(rest)
    return rows


def write_timeloop(
    folder: str | pathlib.Path,
    architecture: Architecture,
    shape: WorkloadShape | None = None,
    mapping: Mapping | None = None,
) -> list[pathlib.Path]:
    """Writes Timeloop's input files, one per part: `arch.yaml`, `ERT.yaml`, `ART.yaml`, `problem.yaml`, `mapping.yaml`.

    Args:
        folder: The folder; created if absent.
        architecture: As in `timeloop_documents`.
        shape: As in `timeloop_documents`.
        mapping: As in `timeloop_documents`.

    Returns:
        The files written.

    Raises:
        InputError: a file cannot be written, or the files cannot express the mapping.
    """
    return write_documents(pathlib.Path(folder), timeloop_documents(architecture, shape, mapping))


def write_documents(
    folder: pathlib.Path, documents: abc.Mapping[str, object], remarks: abc.Mapping[str, Sequence[str]] | None = None
) -> list[pathlib.Path]:
    """Writes a YAML file per document, named by its key, to a folder, created if absent; returns the files.

    Args:
        folder: The folder.
        documents: The documents by name.
        remarks: Lines by the name of a document, which stand above it as comments.
    """
    make_folder(folder)
    written = []
    for name, document in documents.items():
        path = folder / f"{name}.yaml"
        text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110)
        write_text(path, "".join(f"# {line}\n" for line in (remarks or {}).get(name, ())) + text)
        written.append(path)
    return written


def _safe(name: str) -> str:
    """A name made safe as part of a path."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.")[:60] or "layer"


ABOUT = """Input of timeloop-model 3.0, and `index.csv`, which says what mohamjax counts for it.

`padded` names the bounds that a mapping rounds up; problem.yaml is the problem with these bounds.

Hand all files of a mapping to one call, with those of the chiplet in the folder around it where there are such:

    TIMELOOP_DISABLE_LINK_TRANSFERS=1 timeloop-model FOLDER/*.yaml

Without that variable Timeloop also counts what neighbours hand on to each other, which a search leaves out. Timeloop's
"Cycles" are the column cycles, its "Energy" is energy_pJ. Its "Area" prints 0 after an evaluation: area_um2 is the sum
over the levels of the area that it prints times their instances, and the MACs. latency_cycles leaves out the limits of
the off-chip memory itself; wires_pJ is the part of energy_pJ that the networks take.

The other way: mohamjax evaluate mappings --timeloop FOLDER --links off

The machines are no larger than needed: of `map` each buffer and array is just large enough for its one mapping, of
designs for the layers of the chiplet. A mapping that you edit by hand so that a tile grows is therefore refused, here
and by Timeloop. `mohamjax templates export NAME --out FULL` writes the template at its largest sizes: hand
FULL/arch.yaml, FULL/ERT.yaml and FULL/ART.yaml with problem.yaml and your mapping.yaml to either program.
"""
"""The README of an exported folder."""


@dataclasses.dataclass(frozen=True)
class TimeloopExport:
    """A summary of an export.

    Attributes:
        written: Number of mappings, or of designs.
        skipped: Lines about mappings that Timeloop's files cannot express.
        files: Number of files in all folders.
        bytes: Total size of these files.
    """

    written: int
    skipped: tuple[str, ...]
    files: int = 0
    bytes: int = 0


class _Written:
    """Counts the files written and reports progress."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self.files = self.bytes = self._done = 0
        self._total, self._progress = total, progress

    def add(self, paths: Sequence[pathlib.Path]) -> None:
        """Counts files that have been written."""
        self.files += len(paths)
        self.bytes += sum(path.stat().st_size for path in paths)

    def step(self) -> None:
        """Reports one more mapping or design as done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


_FIGURES = ("latency_cycles", "cycles", "energy_pJ", "wires_pJ", "area_um2")
"""Columns of figures in the index of every export."""


def _figures(samples: Sequence[Sample]) -> list[dict[str, float]]:
    """The index columns of mappings on their machines that both exports share, in double precision."""
    results, areas = predict(samples, links=False)
    wires = results.energy.network.sum(axis=1)
    columns = (results.cycles.onchip, results.cycles.total, results.energy.total, wires, areas)
    return [dict(zip(_FIGURES, map(float, row), strict=True)) for row in zip(*columns, strict=True)]


def _write_index(
    folder: pathlib.Path, rows: Sequence[dict[str, Any]], samples: Sequence[Sample], skipped: Sequence[str]
) -> None:
    """Writes the index, README and `skipped.txt` of an export; raises InputError if it has no mapping."""
    if samples:
        _remove_earlier(folder, {row["folder"] for row in rows})
    if skipped:
        make_folder(folder)
        write_text(folder / "skipped.txt", "".join(f"{line}\n" for line in skipped))
    if not samples:
        raise InputError(
            "there is no mapping that Timeloop's files can say",
            item=str(folder),
            remedy="map another layer or template",
        )
    figures = _figures(samples)
    known = {sample.id: figure for sample, figure in zip(samples, figures, strict=True)}
    write_text(folder / "index.csv", csv_text([{**row, **known[row["folder"]]} for row in rows]))
    write_text(folder / "README.txt", ABOUT)


_OF_MACHINES, _OF_MAPPINGS = ("arch", "ERT", "ART"), ("problem", "mapping")
"""Names of the files of a machine, and of a mapping."""


def _earlier(folder: pathlib.Path) -> dict[pathlib.PurePath, tuple[str, ...]]:
    """The folders of an earlier export of ours by its index, with the names of the files that it wrote to each."""
    index = folder / "index.csv"
    if not found(index, folder=False):
        return {}
    try:
        names, rows = read_table(read_text(index, "CSV file"), index)
        places = [pathlib.PurePath(row["folder"]) for _, row in rows] if set(names) >= {"folder", *_FIGURES} else []
    except InputError:
        return {}
    places = [place for place in places if not place.is_absolute() and ".." not in place.parts]
    if "design_id" not in names:
        return dict.fromkeys(places, (*_OF_MACHINES, *_OF_MAPPINGS))
    return {**dict.fromkeys(places, _OF_MAPPINGS), **dict.fromkeys([place.parent for place in places], _OF_MACHINES)}


def _remove_earlier(folder: pathlib.Path, new: set[str]) -> None:
    """Removes what an earlier export wrote and this one does not; other files stay.

    `evaluate mappings --timeloop FOLDER` would take it for a part of this export.

    Raises:
        InputError: a file cannot be removed.
    """
    used = {own for place in new for own in (pathlib.PurePath(place), pathlib.PurePath(place).parent)}
    earlier = _earlier(folder)
    files = [folder / own / f"{name}.yaml" for own, names in earlier.items() if own not in used for name in names]
    if earlier:
        files.append(folder / "skipped.txt")
    for file in files:
        remove_file(file, "an earlier export")
    for own in sorted({above for place in earlier for above in (place, *place.parents)}, reverse=True):
        with contextlib.suppress(OSError):  # something else is in it
            if own.parts:
                (folder / own).rmdir()


def write_timeloop_mappings(
    folder: str | pathlib.Path,
    setup: Setup,
    tables: MappingTables,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TimeloopExport:
    """Writes every mapping of Pareto tables on its own minimal hardware.

    `folder/index.csv` has a row per mapping: `network`, `layer` (the first of this type and shape), `template`,
    `padded` (the bounds that the mapping pads, such as `K=16`; `problem.yaml` has them), the `folder` with its
    five files, and in double precision `latency_cycles` (without off-chip limits), `cycles` (Timeloop's), `energy_pJ`,
    `wires_pJ` (the part of the energy that the wires take) and `area_um2`.

    Args:
        folder: The folder; created if absent.
        setup: Networks of U unique layers, and hardware.
        tables: Their Pareto tables `[U, T, M, ...]`.
        progress: Called for every mapping with the number done and the total number.

    Raises:
        InputError: a file cannot be written, or the files can express none of the mappings.
    """
    folder = pathlib.Path(folder)
    application, templates = setup.application, setup.templates
    host: MappingTables = jax.device_get(tables)
    with jax.enable_x64(True):
        exact = cast(setup.technology, jnp.float64)
        arrays = setup.machines(host.capacity.shape[-1], jnp.float64)
        over_mappings = jax.vmap(resize, in_axes=(None, None, 0, 0))
        over_templates = jax.vmap(over_mappings, in_axes=(0, None, 1, 1), out_axes=1)
        sizes = (
            jnp.moveaxis(jnp.asarray(x, jnp.float64), 2, 0).reshape(-1, len(templates), *x.shape[3:])
            for x in (host.capacity, host.fanout)
        )
        machines = jax.device_get(jax.jit(over_templates)(arrays, exact, *sizes))
    number = len(host.count)
    rows, samples, skipped = [], [], []
    written = _Written(int(np.sum(host.count)), progress)
    for u, unique in enumerate(application.unique_layers):
        owner = application.unique_of_layer.index(u)
        first = application.layers[owner]
        for t, template in enumerate(templates):
            for m in range(int(host.count[u, t])):
                machine = jax.tree.map(lambda leaf, at=(m * number + u, t): leaf[at], machines)
                nest = jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], host.mapping)
                place = f"{u:03d}-{_safe(first.name)}/{template.name}-{m:02d}"
                written.step()
                architecture = template_architecture(template, machine)
                try:
                    shape = padded_shape(unique.shape, nest)
                    documents = timeloop_documents(architecture, shape, nest)
                except InputError as error:
                    skipped.append(f"{place}: {error}")
                    continue
                written.add(write_documents(folder / place, documents))
                samples.append(Sample(place, architecture, shape, nest))
                row = {"network": application.networks[application.network_of_layer[owner]].name, "layer": first.name}
                larger = told_padding(nest, unique.shape.bounds)
                rows.append({**row, "template": template.name, "padded": larger, "folder": place})
    _write_index(folder, rows, samples, skipped)
    return TimeloopExport(len(rows), tuple(skipped), written.files, written.bytes)


def write_timeloop_designs(
    folder: str | pathlib.Path,
    evaluated: Evaluated,
    names: Sequence[int | str] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TimeloopExport:
    """Writes designs: the architecture of every chiplet, and problem and mapping of every layer that it runs.

    `folder/design-<name>/<chiplet>-<template>/` holds `arch.yaml`, `ERT.yaml` and `ART.yaml`, and a folder per mapping
    with `problem.yaml` and `mapping.yaml`. `folder/index.csv` has a row per layer of each design: `design_id`,
    `chiplet`, and the columns of `write_timeloop_mappings` for the chiplet at its actual size (layers with the same
    shape and mapping share a folder); energies do not include the package.

    Args:
        folder: The folder; created if absent.
        evaluated: The designs.
        names: Their `design_id`s; numbers from 0 by default.
        progress: Called after every design with the number done and the total number.

    Returns:
        The summary; `written` counts designs.

    Raises:
        InputError: a file cannot be written, or the files can express none of the mappings.
    """
    folder = pathlib.Path(folder)
    application, tables = evaluated.application, evaluated.tables
    rows, skipped = [], []
    labels: dict[str, int] = {}
    samples: dict[str, Sample] = {}
    written = _Written(len(evaluated), progress)
    for i, name in enumerate(range(len(evaluated)) if names is None else names):
        design: Design = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], evaluated.designs)
        machines = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], evaluated.reports.chiplets.machine)
        numbers = {int(tile): k for k, tile in enumerate(np.flatnonzero(design.template >= 0))}
        places: dict[tuple[int, int, int], dict[str, str] | None] = {}
        known: dict[int, Architecture] = {}
        label = f"{int(name):03d}" if str(name).isdecimal() else _safe(str(name))
        label = distinct(label, labels, "{}-{}")
        for layer, (u, n) in enumerate(zip(application.unique_of_layer, application.network_of_layer, strict=True)):
            tile = int(design.assignment[layer])
            t = int(design.template[tile])
            template, m = evaluated.templates[t], int(design.mapping[layer])
            home = f"design-{label}/{numbers[tile]:02d}-{template.name}"
            if tile not in known:
                machine: Machine = jax.tree.map(lambda leaf, tile=tile: leaf[tile], machines)
                known[tile] = template_architecture(template, machine)
                written.add(write_documents(folder / home, _machine_documents(known[tile])))
            title = application.layers[layer].name
            if (tile, u, m) not in places:
                nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf)[at], tables.mapping)
                place = f"{home}/{layer:03d}-{_safe(title)}"
                shape = padded_shape(application.unique_layers[u].shape, nest)
                try:
                    parts = timeloop_documents(known[tile], shape, nest)
                except InputError as error:
                    skipped.append(f"{place}: {error}")  # later layers that share the mapping are skipped too
                    places[tile, u, m] = None
                    continue
                larger = told_padding(nest, application.unique_layers[u].shape.bounds)
                places[tile, u, m] = {"padded": larger, "folder": place}
                written.add(write_documents(folder / place, {key: parts[key] for key in ("problem", "mapping")}))
                samples[place] = Sample(place, known[tile], shape, nest)
            if (own := places[tile, u, m]) is not None:
                row = {"design_id": name, "chiplet": numbers[tile], "network": application.networks[n].name}
                rows.append({**row, "layer": title, "template": template.name, **own})
        written.step()
    _write_index(folder, rows, list(samples.values()), skipped)
    return TimeloopExport(len(evaluated), tuple(skipped), written.files, written.bytes)
