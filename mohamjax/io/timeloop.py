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
import pathlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from mohamjax.errors import InputError
from mohamjax.hardware import DATA_SPACES, Architecture
from mohamjax.io.samples import report_samples
from mohamjax.io.timeloop_architecture import read_architecture, read_tables
from mohamjax.io.timeloop_loops import read_constraints, read_mapping, read_problem
from mohamjax.io.timeloop_place import At
from mohamjax.mapping import Sample
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import Constraints
from mohamjax.reader import StrictLoader, read_yaml
from mohamjax.workload.layer import DIMS, WorkloadShape

__all__ = ["TimeloopInput", "evaluate_timeloop", "read_timeloop"]


_KNOWN = {"architecture", "problem", "mapping", "architecture_constraints", "mapspace_constraints", "constraints"}
_KNOWN |= {"mapspace", "mapper", "ERT", "ART"}
_TABLES = {"ERT": "energies", "ART": "areas"}


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
        notes: Lines about what was passed over.
    """

    architecture: Architecture | None = None
    shape: WorkloadShape | None = None
    mapping: Mapping | None = None
    constraints: Constraints | None = None
    tables: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Loader(StrictLoader):
    """Knows the node tags of version 0.4."""


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> dict[Any, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise yaml.constructor.ConstructorError(None, None, f"!{suffix} is no mapping", node.start_mark)
    return {**loader.construct_mapping(node, deep=True), "!": suffix}


_Loader.add_multi_constructor("!", _tagged)


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
    found: dict[str, tuple[At, Any]] = {}
    for path in map(pathlib.Path, paths):
        for key, value in _documents(path):
            kind = "constraints" if "constraints" in key or key == "mapspace" else key
            if kind in found and kind != "constraints":
                raise InputError("comes twice", file=path, item=key, remedy="give each part once")
            at = At(path, key)
            if kind == "constraints":
                rows = at.list(value.get("targets", value.get("constraints")) if isinstance(value, dict) else value)
                earlier = found[kind][1] if kind in found else []
                found[kind] = (at, [*earlier, *((at / n, row) for n, row in enumerate(rows))])
            else:
                found[kind] = (at, value)

    architecture = shape = mapping = limits = None
    depthwise, spaces, notes = False, DATA_SPACES, ()
    tables = {name: read_tables(*found[name]) for name in _TABLES if name in found}
    if "architecture" in found:
        architecture, notes = read_architecture(*found["architecture"], tables.get("ERT"), tables.get("ART"))
    if "problem" in found:
        shape, depthwise, spaces = read_problem(*found["problem"])
    if "mapping" in found:
        at, value = found["mapping"]
        if architecture is None or shape is None:
            raise at.error("needs an architecture and a problem", "give their files too")
        mapping = read_mapping(at, value, architecture, shape, depthwise, spaces)
    if "constraints" in found:
        at, rows = found["constraints"]
        if architecture is None:
            raise at.error("need an architecture", "give its file too")
        limits = read_constraints(rows, architecture, depthwise, spaces)
    return TimeloopInput(
        architecture=architecture,
        shape=shape,
        mapping=mapping,
        constraints=limits,
        tables=tuple(tables),
        notes=notes,
    )


def evaluate_timeloop(
    paths: Sequence[str | pathlib.Path],
    out_path: str | pathlib.Path,
    *,
    links: bool = True,
    first_fills: bool = False,
    float32: bool = False,
    explain: str | None = None,
) -> dict[str, Any]:
    """Predicts the mapping of Timeloop YAML files.

    Args:
        paths: As `read_timeloop` takes them; with an architecture, a problem and a mapping among them.
        out_path: As in `report_samples`; the `id` is the name of the file with the mapping.
        links: Count link transfers, as Timeloop does by default.
        first_fills: Fill outputs by the rule of Timeloop before 3.0.
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
    return report_samples([sample], out_path, links=links, first_fills=first_fills, float32=float32, explain=explain)


def _obey(mapping: Mapping, limits: Constraints, architecture: Architecture, file: str) -> None:
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
