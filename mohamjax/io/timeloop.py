"""Timeloop's own YAML, read: architecture, problem, mapping, constraints, energy and area tables.

Read is the subset that the loop-nest model covers: storage levels in one line from memory to MACs, in the form with
`subtree` and `local` (versions 0.2 and 0.3) or with `nodes` (0.4); a convolution over the dimensions G, N, K (or M), C,
P, Q, R, S, or a depthwise one; mappings with perfect factors; constraints that bound factors, fix orders and bypass.
Whatever would change a result and is not understood is an error, never passed over: networks, compound components,
expressions, clusters, multiple buffering, sparse optimisations, several problems.

One extension, which `timeloop_writer` uses and explains: dimensions H, B, L, D beside G, N, K, C stand for a second
part of theirs, so that both can run along X and Y of one level.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from mohamjax.errors import InputError
from mohamjax.hardware import Architecture
from mohamjax.hardware.machine import DATA_SPACES, Machine
from mohamjax.io.samples import report_samples
from mohamjax.mapping import Sample
from mohamjax.mapping.nest import Mapping as Nest
from mohamjax.mapping.space import UNLIMITED, Constraints
from mohamjax.reader import StrictLoader, read_yaml
from mohamjax.workload.layer import DIMS, WorkloadShape

__all__ = ["SECOND", "TimeloopInput", "evaluate_timeloop", "read_timeloop"]

SECOND = {"G": "H", "N": "B", "K": "L", "C": "D"}
"""Dimensions whose spatial loops may be written in two parts, and what the second part is called."""

_ALIASES = {"M": "K"}
_LARGEST_WHOLE = 2**53  # what a float counts exactly
_LETTERS = (*DIMS, *SECOND.values())
_DIMENSION = (*range(len(DIMS)), *(DIMS.index(d) for d in SECOND))
_KNOWN = {"architecture", "problem", "mapping", "architecture_constraints", "mapspace_constraints", "constraints"}
_KNOWN |= {"mapspace", "mapper", "ERT", "ART"}
_RANGE = re.compile(r"^(?P<name>.+?)\s*\[\s*(?P<first>\d+)\s*\.\.\s*(?P<last>\d+)\s*\]$")
_DIGITS = 9  # of factors and indices, which become int32
_FACTOR = re.compile(rf"^(?P<dim>[A-Z])\s*(?P<sign><=|>=|=)?\s*(?P<value>\d{{1,{_DIGITS}}})$")
_COUNTS = ("Weights", "Inputs", "Outputs")
_TABLES = {"ERT": "energies", "ART": "areas"}
_MACS = re.compile(r"mac|compute|multiplier", re.IGNORECASE)

# Attributes that say how large or fast a level is, by their names in the versions of the format.
_WORD_BITS = ("word-bits", "word_bits", "word_width", "datawidth")
_BLOCK = ("block-size", "block_size", "n_words")
_WIDTH = ("memory_width", "width")
_DEPTH = ("memory_depth", "depth")
_REFUSED = {
    "bandwidth": "give read_bandwidth and write_bandwidth",
    "shared_bandwidth": "give read_bandwidth and write_bandwidth",
    "network_read": "leave networks to Timeloop's default",
    "network_fill": "leave networks to Timeloop's default",
    "network_drain": "leave networks to Timeloop's default",
    "network_update": "leave networks to Timeloop's default",
    "router-energy": "give energy-per-hop",
    "wire-energy": "give energy-per-hop",
    "min-utilization": "leave it out",
    "min_utilization": "leave it out",
    "allow_overbooking": "leave it out",
    "metadata_storage_width": "leave out sparse optimisations",
    "metadata_datawidth": "leave out sparse optimisations",
}


@dataclasses.dataclass(frozen=True)
class TimeloopInput:
    """What the files held; None for what they did not.

    Attributes:
        architecture: The machine; energies and areas from the tables, those of wires from the attribute
            `energy-per-hop` of the level above them; 0 without.
        shape: The layer; a depthwise one has its channels on G.
        mapping: The loop nest, NumPy arrays.
        constraints: Limits of the map space, NumPy arrays. "= n" above 1 is read as "at most n", as everywhere here.
        tables: Which of ERT (energies) and ART (areas) were there.
    """

    architecture: Architecture | None = None
    shape: WorkloadShape | None = None
    mapping: Nest | None = None
    constraints: Constraints | None = None
    tables: tuple[str, ...] = ()


class _Loader(StrictLoader):
    """Knows the node tags of version 0.4."""


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> dict[Any, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, f"!{suffix} is no mapping", node.start_mark)
    return {**loader.construct_mapping(node, deep=True), "!": suffix}


_Loader.add_multi_constructor("!", _tagged)


class _At:
    """A place in a file: complains about it."""

    def __init__(self, file: object, item: str) -> None:
        self.file, self.item = file, item

    def __truediv__(self, part: object) -> _At:
        return _At(self.file, f"{self.item}, {part}" if self.item else str(part))

    def error(self, message: str, remedy: str) -> InputError:
        return InputError(message, file=self.file, item=self.item, remedy=remedy)

    def table(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.error("is no mapping of keys to values", "see the Timeloop documentation")
        return data

    def list(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise self.error("is no list", "see the Timeloop documentation")
        return data

    def number(self, value: Any, *, whole: bool = False) -> float:
        if isinstance(value, str):
            raise self.error(f"{value!r} is an expression or text", "expressions are not read; write the number")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.error(f"{value!r} is no number of 0 or more", "give one")
        if whole and (value != int(value) or value > _LARGEST_WHOLE):
            raise self.error(f"{value!r} is no whole number up to 2^53", "give one")
        return float(value)


def _documents(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Top-level (key, value) pairs of a YAML file."""
    document = read_yaml(path, _Loader)
    if not document:
        raise InputError("holds no keys", file=path, remedy="give one of architecture, problem, mapping, constraints")
    for key, value in document.items():
        if key not in _KNOWN:
            known = ", ".join(sorted(_KNOWN))
            raise InputError(f"{key!r} is not read", file=path, item=str(key), remedy=f"known are {known}")
        yield str(key), value


def read_timeloop(*paths: str | pathlib.Path) -> TimeloopInput:
    """Reads Timeloop YAML files that belong together, in any order.

    Args:
        paths: Files with one or several of `architecture`, `problem`, `mapping`, constraints, `ERT` and `ART`; a
            `mapper` is passed over.

    Returns:
        `TimeloopInput`. A mapping or constraints need the architecture, a mapping also the problem.

    Raises:
        InputError: A file is unreadable, or holds what is outside of the subset described at the top of this module.
    """
    found: dict[str, tuple[_At, Any]] = {}
    for path in map(pathlib.Path, paths):
        for key, value in _documents(path):
            kind = "constraints" if "constraints" in key or key == "mapspace" else key
            if kind in found and kind != "constraints":
                raise InputError("comes twice", file=path, item=key, remedy="give each part once")
            at = _At(path, key)
            if kind == "constraints":
                rows = at.list(value.get("targets", value.get("constraints")) if isinstance(value, dict) else value)
                earlier = found[kind][1] if kind in found else []
                found[kind] = (at, [*earlier, *((at / n, row) for n, row in enumerate(rows))])
            else:
                found[kind] = (at, value)

    architecture = shape = mapping = limits = None
    depthwise, spaces = False, _COUNTS
    tables = {name: _energies(*found[name]) for name in _TABLES if name in found}
    if "architecture" in found:
        architecture = _architecture(*found["architecture"], tables.get("ERT", {}), tables.get("ART", {}))
    if "problem" in found:
        shape, depthwise, spaces = _problem(*found["problem"])
    if "mapping" in found:
        at, value = found["mapping"]
        if architecture is None or shape is None:
            raise at.error("needs an architecture and a problem", "give their files too")
        mapping = _mapping(at, value, architecture, shape, depthwise, spaces)
    if "constraints" in found:
        at, rows = found["constraints"]
        if architecture is None:
            raise at.error("need an architecture", "give its file too")
        limits = _constraints(rows, architecture, depthwise, spaces)
    return TimeloopInput(
        architecture=architecture, shape=shape, mapping=mapping, constraints=limits, tables=tuple(tables)
    )


def evaluate_timeloop(
    paths: Sequence[str | pathlib.Path],
    out_path: str | pathlib.Path,
    *,
    links: bool = True,
    float32: bool = False,
    explain: str | None = None,
) -> dict[str, Any]:
    """Predicts the mapping of Timeloop YAML files.

    Args:
        paths: As `read_timeloop` takes them; with an architecture, a problem and a mapping among them.
        out_path: As in `report_samples`; the `id` is the name of the file with the mapping.
        links: Count link transfers, as Timeloop does by default.
        float32: Count in single instead of double precision.
        explain: As in `report_samples`.

    Returns:
        As `report_samples`.

    Warns:
        UserWarning: an energy or area table is missing, so that its figures are 0.

    Raises:
        InputError: as `read_timeloop`; there is no mapping; the mapping breaks constraints that are given too.
    """
    given = read_timeloop(*paths)
    listed = ", ".join(str(path) for path in paths)
    if given.architecture is None or given.shape is None or given.mapping is None:
        raise InputError(
            "there is no mapping in these files", file=listed, remedy="give architecture, problem and mapping"
        )
    if given.constraints is not None:
        _obey(given.mapping, given.constraints, given.architecture, listed)
    missing = [table for table in _TABLES if table not in given.tables]
    if missing:
        figures = " and ".join(_TABLES[table] for table in missing)
        told = f"there is no {' and no '.join(missing)}: {figures} that the architecture does not state count as 0"
        warnings.warn(f"{listed}: {told}", stacklevel=2)
    name = next(str(path) for path in paths if any(key == "mapping" for key, _ in _documents(pathlib.Path(path))))
    sample = Sample(name, given.architecture, given.shape, given.mapping)
    return report_samples([sample], out_path, links=links, float32=float32, explain=explain)


def _obey(mapping: Nest, limits: Constraints, architecture: Architecture, file: str) -> None:
    """Complains about the first constraint that a mapping breaks."""
    m: Any = mapping
    c: Any = limits
    for i, name in enumerate(architecture.level_names):
        loops = [("temporal", m.temporal[i], c.temporal_max[i])]
        loops += [(f"spatial {axis}", m.spatial[k, i], c.spatial_max[k, i]) for k, axis in enumerate("XY")]
        for kind, factors, most in loops:
            for letter, factor, limit in zip(DIMS, factors, most, strict=True):
                if factor > limit:
                    raise InputError(
                        f"the {kind} factor {factor} of {letter} breaks its constraint, at most {limit}",
                        file=file,
                        item=f"mapping, {name}",
                        remedy="change one of the two",
                    )
        moving = [d for d in m.order[i] if m.temporal[i, d] > 1]
        wanted = [d for d in c.order[i] if d >= 0 and m.temporal[i, d] > 1]
        inner = [d for d in moving if d in wanted]
        if inner != wanted or moving[: len(wanted)] != wanted:
            raise InputError(
                f"the loops {''.join(DIMS[d] for d in moving)} break the order {''.join(DIMS[d] for d in wanted)}",
                file=file,
                item=f"mapping, {name}",
                remedy="change one of the two; both are innermost first",
            )
        outermost = i == len(architecture.level_names) - 1
        if not outermost and any(m.keep[i] != c.keep[i]):
            raise InputError(
                "keeps other data spaces than its constraint",
                file=file,
                item=f"mapping, {name}",
                remedy="change one of the two",
            )


# Architecture


@dataclasses.dataclass
class _Component:
    at: _At
    name: str
    kind: str
    attributes: dict[str, Any]
    instances: int
    spatial: tuple[int, int] | None
    keep: list[str] | None = None


def _named(at: _At, data: dict[str, Any]) -> tuple[str, int]:
    """Name and number of copies: `PE[0..15]` are 16."""
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise at.error("has no name", "give one")
    match = _RANGE.match(name)
    if match is None:
        return name, 1
    if max(len(match["first"]), len(match["last"])) > _DIGITS:
        raise (at / name).error("the range is too large", f"write numbers of at most {_DIGITS} digits")
    count = int(match["last"]) - int(match["first"]) + 1
    if count < 1:
        raise (at / name).error("the range is empty", "write it as [0..n-1]")
    return match["name"], count


def _component(at: _At, data: Any, copies: int, spatial: tuple[int, int] | None) -> _Component:
    data = at.table(data)
    name, count = _named(at, data)
    at = at / name
    kind = data.get("class", data.get("subclass"))
    if not isinstance(kind, str):
        raise at.error("has no class", "give one, such as DRAM, SRAM, regfile, intmac")
    attributes = at.table(data.get("attributes", {}))
    keep = None
    if "constraints" in data:
        rules = (at / "constraints").table(data["constraints"])
        if set(rules) - {"dataspace"}:
            raise (at / "constraints").error(
                "loop constraints inside a node are not read", "give them as a list of targets in `constraints`"
            )
        keep = _kept((at / "constraints"), at.table(rules["dataspace"]), list(_COUNTS))
    return _Component(at, name, kind, attributes, copies * count, spatial, keep)


def _tree(at: _At, data: Any, copies: int) -> Iterator[_Component]:
    """Components of a node of the form with `subtree` and `local`, outermost first."""
    data = at.table(data)
    name, count = _named(at, data)
    at, copies = at / name, copies * count
    for key in data:
        if key not in ("name", "attributes", "local", "subtree"):
            raise (at / key).error("is not read", "use name, attributes, local and subtree")
    for n, part in enumerate((at / "local").list(data.get("local", []))):
        yield _component(at / f"local {n}", part, copies, None)
    below = (at / "subtree").list(data.get("subtree", []))
    if len(below) > 1:
        raise (at / "subtree").error("has several branches", "the model covers one line of levels")
    for part in below:
        yield from _tree(at, part, copies)


def _nodes(at: _At, nodes: list[Any]) -> Iterator[_Component]:
    """Components of the form with `nodes`, outermost first; each node multiplies the copies of what follows."""
    along = [1, 1]
    for n, node in enumerate(nodes):
        here = at / n
        node = here.table(node)
        tag = node.get("!")
        if tag not in ("Container", "Component", "Element"):
            raise here.error(f"a node !{tag} is not read", "the model covers one line of !Container and !Component")
        spatial = (here / "spatial").table(node.get("spatial", {}))
        for axis, key in enumerate(("meshX", "meshY")):
            along[axis] *= int((here / key).number(spatial.get(key, 1), whole=True))
        if tag == "Container":
            if "constraints" in node:
                raise (here / "constraints").error(
                    "loop constraints inside a node are not read", "give them as a list of targets in `constraints`"
                )
            continue
        yield _component(here, node, along[0] * along[1], (along[0], along[1]))


def _energies(at: _At, value: Any) -> dict[str, dict[str, float]]:
    """Energy or area per action of each component of an ERT or ART, by the last part of its name."""
    result: dict[str, dict[str, float]] = {}
    for n, row in enumerate((at / "tables").list(at.table(value).get("tables"))):
        row = (at / n).table(row)
        name = re.sub(r"\[[^]]*\]", "", str(row.get("name", ""))).rpartition(".")[2]
        here = at / name
        if "area" in row:
            result[name] = {"area": (here / "area").number(row["area"])}
            continue
        actions: dict[str, float] = {}
        for action in (here / "actions").list(row.get("actions")):
            action = here.table(action)
            value = (here / action.get("name")).number(action.get("energy"))
            actions[str(action.get("name"))] = max(value, actions.get(str(action.get("name")), 0.0))
        result[name] = actions
    return result


def _architecture(at: _At, value: Any, ert: dict[str, Any], art: dict[str, Any]) -> Architecture:
    value = at.table(value)
    version = value.get("version")
    if str(version) not in ("0.2", "0.3", "0.4"):
        raise (at / "version").error(f"{version!r} is not read", "known are 0.2, 0.3 and 0.4")
    if "nodes" in value:
        components = list(_nodes(at, (at / "nodes").list(value["nodes"])))
    elif "subtree" in value:
        roots = (at / "subtree").list(value["subtree"])
        if len(roots) != 1:
            raise (at / "subtree").error("has several roots", "the model covers one line of levels")
        components = list(_tree(at, roots[0], 1))
    else:
        raise at.error("has neither subtree nor nodes", "describe the levels in one of them")
    if not components or not _MACS.search(components[-1].kind):
        raise at.error("does not end in a MAC", "list the arithmetic component (class intmac or the like) last")
    *storage, mac = components
    if not storage:
        raise at.error("has no storage level", "list the memories, outermost first")
    for part in storage:
        if _MACS.search(part.kind):
            raise part.at.error(f"a second arithmetic component ({part.kind})", "the model covers one, listed last")
    names = [part.name for part in components]
    for part in components:
        if names.count(part.name) > 1:
            raise part.at.error("the name comes twice", "rename one")

    meshes = [_mesh(part) for part in reversed(storage)]
    inner = [_mesh(mac), *meshes[:-1]]
    rows: list[dict[str, Any]] = []
    for part, mesh, below in zip(reversed(storage), meshes, inner, strict=True):
        fanout = [below[axis] / mesh[axis] for axis in range(2)]
        if any(f != int(f) or f < 1 for f in fanout):
            raise part.at.error(
                f"{mesh[0]} x {mesh[1]} instances do not divide the {below[0]} x {below[1]} of the next inner level",
                "make the meshes multiples of each other",
            )
        rows.append(_storage(part, mesh, fanout, ert.get(part.name, {}), art.get(part.name, {})))
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    macs = _mesh(mac)
    spent = ert.get(mac.name, {})
    energy = next((spent[a] for a in ("compute", "mac_random", "mac", "multiply") if a in spent), 0.0)
    arrays |= {
        "mac_mesh": np.array(macs, float),
        "mac_instances": np.array(float(macs[0] * macs[1])),
        "mac_energy": np.array(energy),
        "mac_area": np.array(art.get(mac.name, {}).get("area", 0.0)),
    }
    machine = Machine(**arrays)
    return Architecture(str(at.file), tuple(part.name for part in reversed(storage)), mac.name, machine)


def _mesh(part: _Component) -> tuple[int, int]:
    """Instances along X and Y over the whole chip."""
    at, attributes = part.at, part.attributes
    if part.instances > _LARGEST_WHOLE:
        raise at.error("there are more instances than 2^53", "give a smaller machine")
    if part.spatial is not None:
        return part.spatial
    count = int((at / "instances").number(attributes.get("instances", part.instances), whole=True))
    x, y = attributes.get("meshX"), attributes.get("meshY")
    if x is None and y is None:
        return count, 1
    along = [
        int((at / key).number(v, whole=True)) if v is not None else None for key, v in (("meshX", x), ("meshY", y))
    ]
    mesh = (along[0] or count // (along[1] or 1), along[1] or count // (along[0] or 1))
    if mesh[0] * mesh[1] != count:
        raise at.error(
            f"a mesh of {mesh[0]} x {mesh[1]} is not {count} instances", "make meshX times meshY equal to it"
        )
    return mesh


def _storage(
    part: _Component, mesh: tuple[int, int], fanout: list[float], energy: dict[str, float], area: dict[str, float]
) -> dict[str, Any]:
    """Machine fields of one storage level."""
    at, attributes = part.at, part.attributes
    for key, remedy in _REFUSED.items():
        if key in attributes:
            raise (at / key).error("is not modelled", remedy)
    buffering = attributes.get("multiple-buffering", attributes.get("multiple_buffering", 1))
    if (at / "multiple-buffering").number(buffering) != 1:
        raise (at / "multiple-buffering").error("is not modelled", "leave it out, or halve the size")

    def first(keys: Sequence[str]) -> float | None:
        for key in keys:
            if key in attributes:
                return (at / key).number(attributes[key], whole=True)
        return None

    word_bits, block = first(_WORD_BITS) or 16.0, first(_BLOCK) or 1.0
    width = first(_WIDTH)
    clusters = first(("cluster-size", "cluster_size")) or (width / (word_bits * block) if width else 1)
    if clusters != 1:
        raise at.error(
            f"rows of {clusters:g} blocks (width over word bits times block size) are clusters, which are not modelled",
            "set the block size to width over word bits",
        )
    depth, entries, kilobytes = first(_DEPTH), first(("entries",)), first(("sizeKB",))
    dram = "DRAM" in part.kind.upper()
    capacity = math.inf
    if entries is not None:
        capacity = entries
    elif depth is not None:
        capacity = depth * block
    elif kilobytes is not None:
        capacity = math.floor(kilobytes * 1024 * 8 / word_bits)
    elif not dram:
        raise at.error("has no size", "give entries, depth or sizeKB")
    bandwidth = [math.inf, math.inf]
    for i, key in enumerate(("read_bandwidth", "write_bandwidth")):
        if key in attributes:
            bandwidth[i] = (at / key).number(attributes[key])
            if bandwidth[i] == 0:
                raise (at / key).error("is 0: nothing would ever arrive", "write a number above 0, or leave it out")
    access = attributes.get("vector-access-energy", attributes.get("vector_access_energy"))
    base = 0.0 if access is None else (at / "vector-access-energy").number(access)
    read = energy.get("read", energy.get("random_read", base))
    write = max(energy.get(name, 0.0) for name in ("write", "update", "random_fill", "random_update", "fill"))
    keep = list(DATA_SPACES) if part.keep is None else part.keep
    return {
        "level_mask": True,
        "keep": [name in keep for name in DATA_SPACES],
        "capacity": math.inf if dram and capacity == 0 else capacity,
        "word_bits": word_bits,
        "block_words": block,
        "fanout": [float(f) for f in fanout],
        "mesh": [float(m) for m in mesh],
        "instances": float(mesh[0] * mesh[1]),
        "bandwidth": bandwidth,
        "reduces": not dram,
        "access_energy": [read, write or base],
        "area": area.get("area", 0.0),
        "hop_energy": (at / "energy-per-hop").number(attributes.get("energy-per-hop", 0.0)),
    }


# Problem

_AXES = {
    "conv": (
        [["C"], ["K"], ["R"], ["S"], ["G"]],
        [["N"], ["C"], ["P", "R"], ["Q", "S"], ["G"]],
        [["N"], ["K"], ["P"], ["Q"], ["G"]],
    ),
    "depthwise": (
        [["C"], ["R"], ["S"]],
        [["N"], ["C"], ["P", "R"], ["Q", "S"]],
        [["N"], ["C"], ["P"], ["Q"]],
    ),
}


def _letter(at: _At, text: Any, *, second: bool = False) -> str:
    letter = _ALIASES.get(str(text), str(text))
    if letter not in (_LETTERS if second else DIMS):
        raise at.error(f"unknown dimension {text!r}", f"use {', '.join(DIMS)}, or M for K")
    return letter


def _problem(at: _At, value: Any) -> tuple[WorkloadShape, bool, tuple[str, ...]]:
    """The layer, whether it is depthwise with its channels called C, and the data spaces' names in our order."""
    value = at.table(value)
    shape, instance = value.get("shape"), value.get("instance", value)
    at_shape, at_instance = at / "shape", (at / "instance" if "instance" in value else at)
    if isinstance(shape, str):
        if shape not in ("cnn-layer", "CNN-Layer"):
            raise at_shape.error(f"the preset {shape!r} is not read", "write the shape out, or use cnn-layer")
        return _bounds(at_instance, instance, "RSPQCKN", {}), False, _COUNTS
    shape = at_shape.table(shape)
    dims = [_letter(at_shape, d, second=True) for d in (at_shape / "dimensions").list(shape.get("dimensions"))]
    if len(set(dims)) != len(dims):
        raise (at_shape / "dimensions").error("name a dimension twice", "K and M are the same here")
    coefficients = at_shape / "coefficients"
    defaults = {
        str(row.get("name")): int(at_shape.number(row.get("default", 1), whole=True))
        for row in map(coefficients.table, coefficients.list(shape.get("coefficients", [])))
    }
    spaces = (at_shape / "data-spaces").list(shape.get("data-spaces", shape.get("data_spaces")))
    if len(spaces) != len(DATA_SPACES):
        raise at_shape.error(f"has {len(spaces)} data spaces", "the model covers weights, inputs and outputs")
    names, axes, factors = [], [], {}
    for n, row in enumerate(spaces):
        here = at_shape / "data-spaces" / n
        row = here.table(row)
        names.append(str(row.get("name")))
        own = []
        for axis in (here / "projection").list(row.get("projection")):
            terms = []
            for term in here.list(axis):
                term = here.list(term)
                if not 1 <= len(term) <= 2:
                    raise (here / "projection").error(f"{term!r} is no product", "write [dimension, coefficient]")
                terms.append(_letter(here, term[0], second=True))
                if len(term) == 2:
                    factors[terms[-1]] = str(term[1])
            own.append(sorted(terms))
        axes.append(sorted(own))
        written = bool(row.get("read-write", row.get("read_write", False)))
        if written != (n == 2):
            raise here.error("is out of order", "list weights, inputs, outputs; only the last is read-write")
    for kind, wanted in _AXES.items():
        if kind == "conv":
            wanted = [[*space, *([SECOND[a[0]]] for a in space if a[0] in SECOND)] for space in wanted]
        restricted = [sorted([d for d in axis if d in dims] for axis in space) for space in wanted]
        if axes == [[axis for axis in space if axis] for space in restricted]:
            return (
                _bounds(at_instance, instance, dims, {d: (c, defaults.get(c, 1)) for d, c in factors.items()}, kind),
                kind == "depthwise",
                tuple(names),
            )
    raise at_shape.error("its projections are not those of a convolution", "see the problem that mohamjax writes")


def _bounds(
    at: _At, instance: Any, dims: Sequence[str], factors: Mapping[str, tuple[str, int]], kind: str = "conv"
) -> WorkloadShape:
    instance = at.table(instance)
    given = {_ALIASES.get(key, key): value for key, value in instance.items()}

    def value(key: str, default: int | None) -> int:
        if key not in given and default is not None:
            return default
        if key not in given:
            raise (at / key).error("the bound is missing", "give it")
        number = (at / key).number(given[key], whole=True)
        if not 1 <= number < 2**31:
            raise (at / key).error(f"{given[key]!r} is no positive integer", "give 1 or more")
        return int(number)

    bounds = {d: value(d, None) for d in dims}
    for first, second in SECOND.items():
        if second in bounds:
            bounds[first] = bounds.get(first, 1) * bounds.pop(second)
    usual = {"P": "Wstride", "R": "Wdilation", "Q": "Hstride", "S": "Hdilation"}
    steps = {d: value(*factors.get(d, (usual[d], 1))) for d in usual}
    if kind == "depthwise":
        bounds["G"] = bounds.pop("C", 1)
    return WorkloadShape(**bounds, stride=(steps["P"], steps["Q"]), dilation=(steps["R"], steps["S"]))


# Mapping and constraints


def _level(at: _At, target: Any, architecture: Architecture) -> int:
    if target not in architecture.level_names:
        names = ", ".join(architecture.level_names)
        raise (at / "target").error(f"{target!r} is no storage level", f"the levels are {names}")
    return architecture.level_names.index(target)


def _factors(at: _At, value: Any, depthwise: bool, *, second: bool = False) -> list[tuple[int, str, int]]:
    """(slot in `_LETTERS`, sign, number) of each entry of `factors`: text or list. A dimension's slot is its index."""
    entries = value.replace(",", " ").split() if isinstance(value, str) else at.list(value if value is not None else [])
    result = []
    for entry in entries:
        match = _FACTOR.match(str(entry).strip())
        if match is None:
            raise at.error(f"{entry!r} is no factor", "write them as in 'C=4 K=2'")
        slot = _slot(at, match["dim"], depthwise, second=second)
        result.append((slot, match["sign"] or "=", int(match["value"])))
    if len({d for d, _, _ in result}) != len(result):
        raise at.error("name a dimension twice", "give each once")
    return result


def _slot(at: _At, letter: str, depthwise: bool, *, second: bool) -> int:
    letter = _letter(at, letter, second=second)
    return _LETTERS.index("G" if depthwise and letter == "C" else letter)


def _permutation(at: _At, value: Any, depthwise: bool, *, second: bool = False) -> list[int]:
    """Slots in `_LETTERS`, innermost first."""
    letters = re.sub(r"[\s,]", "", value) if isinstance(value, str) else at.list(value if value is not None else [])
    order = [_slot(at, letter, depthwise, second=second) for letter in letters]
    if len(set(order)) != len(order):
        raise at.error("names a dimension twice", "give each once")
    return order


def _kept(at: _At, row: dict[str, Any], names: Sequence[str]) -> list[str]:
    """Data spaces, by our names, that a directive keeps; all that it does not bypass."""
    lists = {}
    for key in ("keep", "bypass"):
        lists[key] = [str(name) for name in (at / key).list(row.get(key, []))]
        for name in lists[key]:
            if name not in names:
                raise (at / key).error(f"{name!r} is no data space", f"use {', '.join(names)}")
    both = set(lists["keep"]) & set(lists["bypass"])
    if both:
        raise at.error(f"{min(both)} is both kept and bypassed", "choose one")
    return [ours for ours, name in zip(DATA_SPACES, names, strict=True) if name not in lists["bypass"]]


_MAPPING_KEYS = {"target", "type", "factors", "permutation", "split", "keep", "bypass"}


def _directives(
    rows: Sequence[tuple[_At, Any]], architecture: Architecture
) -> Iterator[tuple[_At, dict[str, Any], int, str]]:
    """Checked directives of a mapping or of constraints: (place, fields, level, type)."""
    seen = set()
    for at, row in rows:
        row = at.table(row)
        kind = str(row.get("type"))
        kind = "bypass" if kind in ("datatype", "dataspace", "bypassing") else kind
        if kind not in ("temporal", "spatial", "bypass"):
            raise (at / "type").error(f"{kind!r} is not read", "known are temporal, spatial and bypass")
        for key in row:
            if key not in _MAPPING_KEYS:
                raise (at / key).error("is not read", f"known are {', '.join(sorted(_MAPPING_KEYS))}")
        level = _level(at, row.get("target"), architecture)
        if (level, kind) in seen:
            raise at.error(f"a second {kind} directive for {row['target']}", "merge them")
        seen.add((level, kind))
        yield at, row, level, kind


def _split(at: _At, row: dict[str, Any], count: int) -> int:
    """How many dimensions of a spatial permutation run along X; all by default."""
    return int((at / "split").number(row.get("split", count), whole=True))


def _loops(at: _At, slots: Sequence[int], bounds: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Order of all dimensions, innermost first, and the factor of each, from the slots of one run of loops."""
    place = dict.fromkeys(range(len(DIMS)), len(slots))
    factors = [1] * len(DIMS)
    for at_slot, slot in enumerate(slots):
        dim, bound = _DIMENSION[slot], bounds.get(slot, 1)
        if bound > 1 and factors[dim] > 1:
            raise at.error(f"{DIMS[dim]} and {SECOND[DIMS[dim]]} run along the same axis", "write them as one factor")
        if bound > 1 or place[dim] == len(slots):
            factors[dim], place[dim] = max(bound, factors[dim]), at_slot
    return sorted(place, key=lambda dim: place[dim]), factors


def _mapping(
    at: _At, value: Any, architecture: Architecture, shape: WorkloadShape, depthwise: bool, spaces: tuple[str, ...]
) -> Nest:
    levels, d = len(architecture.level_names), len(DIMS)
    temporal, spatial = np.ones((levels, d), np.int32), np.ones((2, levels, d), np.int32)
    order = np.tile(np.arange(d, dtype=np.int32), (levels, 1))
    spatial_order = np.tile(np.arange(d, dtype=np.int32), (2, levels, 1))
    keep = np.asarray(architecture.machine.keep).copy()
    rows = [(at / n, row) for n, row in enumerate(at.list(value))]
    for here, row, level, kind in _directives(rows, architecture):
        if kind == "bypass":
            kept = _kept(here, row, spaces)
            keep[level] = [name in kept for name in DATA_SPACES]
            continue
        factors = _factors(here / "factors", row.get("factors"), depthwise, second=True)
        for _, sign, number in factors:
            if sign != "=" or number < 1:
                raise (here / "factors").error("a mapping needs every factor as a number of 1 or more", "write C=4")
        bounds = {slot: number for slot, _, number in factors}
        inner = _permutation(here / "permutation", row.get("permutation"), depthwise, second=True)
        inner += [slot for slot in range(len(_LETTERS)) if slot not in inner]
        if kind == "temporal":
            order[level], temporal[level] = _loops(here, inner, bounds)
        else:
            split = _split(here, row, len(_LETTERS))
            for axis, slots in enumerate((inner[:split], inner[split:])):
                spatial_order[axis, level], spatial[axis, level] = _loops(here, slots, bounds)
    for k, bound in enumerate(shape.bounds):
        product = math.prod(int(n) for n in (*temporal[:, k], *spatial[:, :, k].flat))
        if product != bound:
            letter = "C" if depthwise and DIMS[k] == "G" else DIMS[k]
            raise at.error(f"the factors of {letter} multiply to {product}, its bound is {bound}", "make them equal")
    return Nest(temporal=temporal, order=order, spatial=spatial, spatial_order=spatial_order, keep=keep)


def _constraints(
    rows: Sequence[tuple[_At, Any]], architecture: Architecture, depthwise: bool, spaces: tuple[str, ...]
) -> Constraints:
    levels, d = len(architecture.level_names), len(DIMS)
    temporal = np.full((levels, d), UNLIMITED, np.int32)
    fanout = np.asarray(architecture.machine.fanout)
    # Timeloop lets every dimension run along an axis that has children there.
    spatial = np.where(fanout.T[:, :, None] > 1, UNLIMITED, 1) * np.ones((1, 1, d), np.int32)
    spatial = spatial.astype(np.int32)
    order = np.full((levels, d), -1, np.int32)
    keep = np.asarray(architecture.machine.keep).copy()
    for at, row, level, kind in _directives(rows, architecture):
        if kind == "bypass":
            kept = _kept(at, row, spaces)
            keep[level] = [name in kept for name in DATA_SPACES]
            continue
        permutation = _permutation(at / "permutation", row.get("permutation"), depthwise)
        for k, sign, number in _factors(at / "factors", row.get("factors"), depthwise):
            if sign == ">=":
                raise (at / "factors").error("lower bounds are not read", "bound factors from above")
            # A factor of 0 stands for whatever is left of the bound.
            most = UNLIMITED if number == 0 else number
            if kind == "temporal":
                temporal[level, k] = most
            else:
                spatial[:, level, k] = np.minimum(spatial[:, level, k], most)
        if kind == "temporal":
            order[level, : len(permutation)] = permutation
        elif "split" in row:
            split = _split(at, row, d)
            inner = permutation + [k for k in range(d) if k not in permutation]
            spatial[1, level, inner[:split]] = 1
            spatial[0, level, inner[split:]] = 1
    return Constraints(temporal_max=temporal, spatial_max=spatial, order=order, keep=keep)
