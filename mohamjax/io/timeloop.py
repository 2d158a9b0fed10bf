"""Reads Timeloop's own YAML: architecture, problem, mapping, constraints, energy and area tables.

The subset covered is that of the loop-nest model: storage levels in one line from memory to MACs, in the form with
`subtree` and `local` (versions 0.2 and 0.3) or with `nodes` (0.4); a convolution over the dimensions G, N, K (or M), C,
P, Q, R, S, or a depthwise one; mappings with perfect factors; constraints that bound or state factors, fix orders and
bypass. Anything that would change a result but is not covered is an error and never ignored: networks, compound
components, expressions, clusters, multiple buffering, sparse optimisations, several problems.

There is one extension, which `timeloop_writer` uses and explains: the dimensions H, B, L, D are second parts of G, N,
K, C, so that the two parts can run along X and Y of one level.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import time
import warnings
from collections import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from mohamjax.dims import DIMS
from mohamjax.errors import InputError
from mohamjax.hardware import Architecture
from mohamjax.io.inputs import keep_inputs
from mohamjax.io.samples import Unread, report_samples
from mohamjax.io.timeloop_architecture import read_architecture, read_tables
from mohamjax.io.timeloop_loops import Problem, read_constraints, read_mapping, read_problem
from mohamjax.io.timeloop_place import At
from mohamjax.mapping import Sample
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import Constraints, keeps_as_allowed
from mohamjax.reader import QuickLoader, StrictLoader, found, read_text, read_yaml
from mohamjax.workload.layer import WorkloadShape

_KNOWN = {"architecture", "problem", "mapping", "architecture_constraints", "mapspace_constraints", "constraints"}
_KNOWN |= {"mapspace", "mapper", "ERT", "ART"}
_TABLES = {"ERT": "energies", "ART": "areas"}


@dataclasses.dataclass(frozen=True)
class TimeloopInput:
    """The content of Timeloop files; None for parts that they do not have.

    Attributes:
        architecture: The machine. Energies and areas come from the tables, wire energies from the attribute
            `energy-per-hop` of the level above the wires; missing ones are 0.
        shape: The layer; a depthwise one has its channels in G.
        mapping: The loop nest, NumPy arrays.
        constraints: Limits of the map space, NumPy arrays. "= n" above 1 is read as "at most n", as everywhere here.
        exact: `[2, L, D]` int32, temporal and spatial factors that the constraints state as "= n", which a given
            mapping must have: 0 stands for the whole bound, -1 where none is stated.
        tables: Which of ERT (energies) and ART (areas) the files have.
        notes: Lines about what was ignored or counts as 0.
    """

    architecture: Architecture | None = None
    shape: WorkloadShape | None = None
    mapping: Mapping | None = None
    constraints: Constraints | None = None
    exact: np.ndarray | None = None
    tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Loader(StrictLoader):
    """Knows the node tags of version 0.4."""


def _tagged(loader: yaml.constructor.SafeConstructor, suffix: str, node: yaml.MappingNode) -> dict[object, object]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, f"!{suffix} is no mapping", node.start_mark)
    return {**loader.construct_mapping(node, deep=True), "!": suffix}


class _QuickLoader(QuickLoader):
    """Like `_Loader`, but faster."""


_Loader.add_multi_constructor("!", _tagged)
_QuickLoader.add_multi_constructor("!", _tagged)


_Files = abc.Mapping[pathlib.Path, abc.Mapping[str, object]]
"""The content of YAML files by top-level key; keys of a file that cannot be read have an `InputError` instead."""


def _read(path: pathlib.Path) -> dict[str, object]:
    try:
        document = read_yaml(path, _QuickLoader)
    except InputError:
        document = read_yaml(path, _Loader)  # has the better error messages
    if not document:
        raise InputError("holds no keys", file=path, remedy="give one of architecture, problem, mapping, constraints")
    for key in document:
        if key not in _KNOWN:
            known = ", ".join(sorted(_KNOWN))
            raise InputError(f"{key!r} is not read", file=path, item=str(key), remedy=f"known are {known}")
    return document


def read_timeloop(*paths: str | pathlib.Path) -> TimeloopInput:
    """Reads Timeloop YAML files that belong together, in any order.

    Args:
        paths: Files with one or several of `architecture`, `problem`, `mapping`, constraints, `ERT` and `ART`; a
            `mapper` is ignored.

    Returns:
        `TimeloopInput`. A mapping or constraints need the architecture, a mapping also the problem.

    Raises:
        InputError: A file is unreadable, or is outside the subset described at the top of this module.
    """
    return _together({path: _read(path) for path in map(pathlib.Path, paths)})


def _lacking(architecture: Architecture | None, shape: WorkloadShape | None) -> tuple[str, str]:
    """An error message and remedy for a mapping without an architecture or a problem."""
    named = {"an architecture": architecture, "a problem": shape}
    absent = [name for name, part in named.items() if part is None]
    given = "" if len(absent) > 1 else f", and has {next(name for name in named if name not in absent)}"
    which = "its file" if len(absent) == 1 else "their files"
    alone = "what a folder holds belongs to the mappings in that folder alone"
    return f"needs {' and '.join(absent)}{given}", f"give {which} too, by name: {alone}"


def _together(files: _Files) -> TimeloopInput:
    """Reads the content of files that belong together; raises InputError."""
    parts: dict[str, tuple[At, Any]] = {}
    for path, document in files.items():
        for key, value in document.items():
            if isinstance(value, InputError):
                raise value
            kind = "constraints" if "constraints" in key or key == "mapspace" else key
            if kind in parts and kind != "constraints":
                raise InputError("comes twice", file=path, item=key, remedy="give each part once")
            at = At(path, key)
            if kind == "constraints":
                rows = at.list(value.get("targets", value.get("constraints")) if isinstance(value, dict) else value)
                earlier = parts[kind][1] if kind in parts else []
                parts[kind] = (at, [*earlier, *((at.entry(n, row), row) for n, row in enumerate(rows))])
            else:
                parts[kind] = (at, value)

    architecture = free = problem = mapping = limits = exact = None
    notes: tuple[str, ...] = ()
    tables = {name: read_tables(*parts[name]) for name in _TABLES if name in parts}
    if "architecture" in parts:
        architecture, free, notes = read_architecture(*parts["architecture"], tables.get("ERT"), tables.get("ART"))
    if "problem" in parts:
        problem = read_problem(*parts["problem"])
        notes += problem.notes
    shape = None if problem is None else problem.shape
    if "mapping" in parts:
        at, value = parts["mapping"]
        if architecture is None or problem is None:
            raise at.error(*_lacking(architecture, shape))
        mapping = read_mapping(at, value, architecture, problem)
    if "constraints" in parts:
        at, rows = parts["constraints"]
        if architecture is None or free is None:
            raise at.error("need an architecture", "give its file too")
        limits, exact = read_constraints(rows, architecture, free, problem or Problem(WorkloadShape()))
    return TimeloopInput(
        architecture=architecture,
        shape=shape,
        mapping=mapping,
        constraints=limits,
        exact=exact,
        tables=tuple(tables),
        notes=notes,
    )


def _mappings_of(paths: Sequence[str | pathlib.Path]) -> dict[str, _Files | InputError]:
    """The mappings of files and folders by name, in the order of the paths, each with the files that belong to it.

    A file without a mapping that is named itself belongs to all mappings; for folders see `_mappings_of_folder`.
    """
    loose: dict[pathlib.Path, dict[str, object]] = {}
    result: dict[str, _Files | InputError] = {}
    for path in map(pathlib.Path, paths):
        if found(path, folder=True):
            result |= {_called(file, path, len(paths) > 1): own for file, own in _mappings_of_folder(path)}
            continue
        loose[path] = _read(path)
        if "mapping" in loose[path]:
            result[str(path)] = {path: loose[path]}
    shared = {path: document for path, document in loose.items() if "mapping" not in document}
    return {name: own if isinstance(own, InputError) else {**own, **shared} for name, own in result.items()}


def _mappings_of_folder(folder: pathlib.Path) -> list[tuple[pathlib.Path, _Files | InputError]]:
    """The mappings of a folder and its subfolders, in the order of their names, each with its files or its error.

    The files of a mapping are those of its own folder and, for parts missing there, those of the parent folders. A file
    that cannot be read makes the mappings that need it fail. If no mapping needs it, or if it is a mapping itself, it
    is an entry of its own, with its error.
    """
    rows: dict[pathlib.Path, abc.Mapping[str, object]] = {}
    result: dict[pathlib.Path, _Files | InputError] = {}
    for file in sorted(folder.rglob("*.y*ml")):
        if file.suffix in (".yaml", ".yml"):
            try:
                rows[file] = _read(file)
            except InputError as error:
                result[file] = error
                keys = _keys(file)
                if "mapping" not in keys:
                    place = ": ".join(part for part in (str(file), error.item) if part)
                    told = InputError(error.message, item=place, remedy=error.remedy)
                    rows[file] = dict.fromkeys(keys, told)
    homes: dict[pathlib.Path, list[pathlib.Path]] = {}
    for file in rows:
        homes.setdefault(file.parent, []).append(file)
    for file in (file for file, document in rows.items() if "mapping" in document):
        own, held = {file: rows[file]}, set(rows[file])
        for home in file.parents[: len(file.relative_to(folder).parts)]:
            near = [other for other in homes.get(home, []) if "mapping" not in rows[other]]
            near = [other for other in near if not held & set(rows[other])]
            own |= {other: rows[other] for other in near if rows[other]}
            held |= {key for other in near for key in rows[other]}
        result[file] = own
    had = {file for own in result.values() if not isinstance(own, InputError) for file in own}
    return [(file, own) for file, own in sorted(result.items()) if not isinstance(own, InputError) or file not in had]


def _keys(file: pathlib.Path) -> set[str]:
    """The known keys that an unreadable file seems to have, judged by the beginnings of its lines."""
    try:
        text = read_text(file, "YAML file")
    except InputError:
        return set()
    return _KNOWN & set(re.findall(r"""^["']?(\w+)["']?\s*:""", text, re.MULTILINE))


def _called(file: pathlib.Path, folder: pathlib.Path, whole: bool) -> str:
    """The name of a mapping in a folder: its relative path; for a `mapping.yaml` that of the folder it is in."""
    place = file.relative_to(folder)
    name = place.parent if file.name == "mapping.yaml" and len(place.parts) > 1 else place
    return str(folder / name if whole else name)


def evaluate_timeloop(
    paths: Sequence[str | pathlib.Path],
    out_path: str | pathlib.Path,
    *,
    links: bool = True,
    first_fills: bool = False,
    float32: bool = False,
    explain: str | None = None,
) -> dict[str, float]:
    """Predicts the mappings of Timeloop YAML files.

    Args:
        paths: Files as `read_timeloop` takes them, with one or several mappings that share the architecture and the
            problem; or folders, such as `map --timeloop` writes, with mappings beside or below the files that belong
            to them.
        out_path: As in `report_samples`. The `id` is the name of the mapping's file; in a folder, its relative path
            (for a `mapping.yaml`, the path of its folder, as in `index.csv`).
        links: Count link transfers, as Timeloop does by default.
        first_fills: Fill outputs by the rule of Timeloop before 3.0.
        float32: Count in single instead of double precision.
        explain: As in `report_samples`.

    Returns:
        As `report_samples`.

    Warns:
        UserWarning: an energy or area table is missing, so that its figures are 0, or something was ignored.

    Raises:
        InputError: as `read_timeloop`, if no mapping can be read; there is no mapping; or `out_path` is an input file.
            If only some mappings cannot be read, or break the given constraints, they become rows with the reason.
    """
    keep_inputs(out_path, paths)
    listed = ", ".join(str(path) for path in paths)
    began = time.perf_counter()
    entries: list[Sample | Unread] = []
    told: dict[str, list[str]] = {}
    for name, files in _mappings_of(paths).items():
        try:
            given, sample = _sample(name, files)
        except InputError as error:
            entries.append(Unread(name, error))
            continue
        missing = [table for table in _TABLES if table not in given.tables]
        notes = list(given.notes)
        if missing:
            figures = " and ".join(_TABLES[table] for table in missing)
            absent = f"there is no {' and no '.join(missing)}"
            notes.insert(0, f"{absent}: {figures} that the architecture does not state count as 0")
        for note in notes:
            told.setdefault(note, []).append(sample.architecture.name)
        entries.append(sample)
    if not entries:
        raise InputError(
            "there is no mapping in these files", file=listed, remedy="give architecture, problem and mapping"
        )
    for note, names in told.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        warnings.warn(f"{names[0]}{more}: {note}", stacklevel=2)
    reading = time.perf_counter() - began
    summary = report_samples(entries, out_path, links=links, first_fills=first_fills, float32=float32, explain=explain)
    return {**summary, "seconds": round(summary["seconds"] + reading, 3)}


def _sample(name: str, files: _Files | InputError) -> tuple[TimeloopInput, Sample]:
    """The content of a mapping's files, and the mapping with its layer and machine; raises InputError."""
    if isinstance(files, InputError):
        raise files
    given = _together(files)
    if given.architecture is None or given.shape is None or given.mapping is None:
        told, remedy = _lacking(given.architecture, given.shape)
        raise InputError(told, file=name, item="mapping", remedy=remedy)
    if given.constraints is not None:
        _obey(given, given.architecture.level_names, ", ".join(map(str, files)))
    return given, Sample(name, given.architecture, given.shape, given.mapping)


def _obey(given: TimeloopInput, names: Sequence[str], file: str) -> None:
    """Raises InputError for the first constraint that the mapping breaks at one of the levels with these names."""
    for level, name in enumerate(names):
        for broken in (_broken_limit, _broken_factor, _broken_order, _broken_bypass):
            told = broken(given, level)
            if told:
                raise InputError(told, file=file, item=f"mapping, {name}", remedy="change one of the two")


def _broken_limit(given: Any, level: int) -> str:
    """What is wrong with a level's factors above a limit; empty if nothing is."""
    m, c = given.mapping, given.constraints
    loops = [("temporal", m.temporal[level], c.temporal_max[level])]
    loops += [(f"spatial {axis}", m.spatial[k, level], c.spatial_max[k, level]) for k, axis in enumerate("XY")]
    for kind, factors, most in loops:
        for letter, factor, limit in zip(DIMS, factors, most, strict=True):
            if factor > limit:
                return f"the {kind} factor {factor} of {letter} breaks its constraint, at most {limit}"
    return ""


def _broken_factor(given: Any, level: int) -> str:
    """What is wrong with a level's factors where constraints state them exactly; empty if nothing is."""
    temporal, (x, y) = given.mapping.temporal[level], given.mapping.spatial[:, level]
    # A dimension along both axes is written in two parts, of which Timeloop compares the first. That may be either
    # axis, so any of the three may match.
    for n, (kind, factors) in enumerate((("temporal", [temporal]), ("spatial", [x * y, x, y]))):
        for k, (letter, bound) in enumerate(zip(DIMS, given.shape.bounds, strict=True)):
            wanted = given.exact[n, level, k] or bound
            # Timeloop ignores a factor above the bound.
            if 0 < wanted <= bound and all(factor[k] != wanted for factor in factors):
                return f"the {kind} factor {factors[0][k]} of {letter} breaks its constraint, {wanted}"
    return ""


def _broken_order(given: Any, level: int) -> str:
    """What is wrong with the order of a level's loops; empty if nothing is."""
    order, factors = given.mapping.order[level], given.mapping.temporal[level]
    moving = [d for d in order if factors[d] > 1]
    wanted = [d for d in given.constraints.order[level] if d >= 0 and factors[d] > 1]
    if moving[: len(wanted)] == wanted:
        return ""
    own, prescribed = ("".join(DIMS[d] for d in loops) for loops in (moving, wanted))
    return f"the loops {own} break the order {prescribed} (innermost first)"


def _broken_bypass(given: Any, level: int) -> str:
    """What is wrong with the data spaces that a level keeps; empty if nothing is."""
    outermost = level == len(given.architecture.level_names) - 1
    if outermost or keeps_as_allowed(given.mapping.keep, given.constraints)[level].all():
        return ""
    return "keeps other data spaces than its constraint"
