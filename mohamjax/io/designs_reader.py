"""Designs in files, read and checked: `designs/1` and `schedule/1`, whose form `io.designs` describes."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pathlib
from collections import abc
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mohamjax.errors import InputError, one_line
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    Template,
    load_templates,
    package_from_dict,
    technology_hash,
    template_arrays,
    template_from_dict,
)
from mohamjax.io.design_rows import DesignRow, DesignRules, read_rows, stacked_rows
from mohamjax.io.files import check_format, read_json, uncollected
from mohamjax.io.formats import DESIGNS_FORMAT, SCHEDULE_FORMAT
from mohamjax.io.nests import NestList, NestStore
from mohamjax.reader import found
from mohamjax.schedule import DesignFile
from mohamjax.workload import DIMS, LAYER_TYPES, ApplicationModel, Layer, Network, WorkloadShape, load_scenario

__all__ = ["DesignHeader", "check_technology", "header_rows", "identifier", "layer_row", "read_designs", "read_header"]

_LONGEST_IDENTIFIER = 200


def _need(data: abc.Mapping[str, Any], key: str, kind: type | tuple[type, ...], *, file: object, item: str) -> Any:
    """`data[key]` of the wanted type, or one line that says what is missing."""
    if key not in data:
        raise InputError(f"`{key}` is missing", file=file, item=item, remedy="compare with what `search` writes")
    value = data[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(
            f"`{key}` has the wrong type ({type(value).__name__})",
            file=file,
            item=item,
            remedy="compare with what `search` writes",
        )
    return value


@contextlib.contextmanager
def _named_in(file: object, item: str) -> Iterator[None]:
    """Complaints about what a file names as complaints about that file."""
    try:
        yield
    except InputError as error:
        told = ": ".join(part for part in (error.file, error.item, error.message) if part)
        raise InputError(told, file=file, item=item, remedy=error.remedy) from None


def _text(data: abc.Mapping[str, Any], key: str, default: str, *, file: object, item: str) -> str:
    """`data[key]`, a text, or the default where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if not isinstance(value, str):
        raise InputError(f"`{key}` is {value!r}, no text", file=file, item=item, remedy="write it in quotes")
    return value


def identifier(row: Any, number: int, known: abc.Mapping[str, int]) -> tuple[int | str, str]:
    """What a design is called, and why it cannot be called what its file says; its place where it says nothing.

    Args:
        row: the design.
        number: its place in the file.
        known: places of the designs before it, by identifier as text.
    """
    given = (
        [row[key] for key in ("design_id", "name") if row.get(key) is not None] if isinstance(row, abc.Mapping) else []
    )
    name = given[0] if given else number
    text = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _LONGEST_IDENTIFIER
    if not text and (isinstance(name, bool) or not isinstance(name, int)):
        told = one_line(repr(name))[:40]
        return number, f"its identifier {told} is neither a whole number nor a text of one short line"
    if str(name) in known:
        return name, f"its identifier {name} is also that of the design at place {known[str(name)]} of the file"
    return name, ""


def layer_row(layer: Layer, network: int) -> dict[str, Any]:
    """A layer as `_application` reads it."""
    return {
        "network": network,
        "name": layer.name,
        "type": layer.type,
        "op": layer.op,
        "word_bits": layer.word_bits,
        "bounds": {d: b for d, b in zip(DIMS, layer.shape.bounds, strict=True) if b > 1},
        "stride": list(layer.shape.stride),
        "dilation": list(layer.shape.dilation),
        "predecessors": list(layer.predecessors),
    }


def _application(document: abc.Mapping[str, Any], file: object) -> ApplicationModel:
    """The networks of a `designs/1` file."""
    names = _need(document, "networks", list, file=file, item="file")
    rows = _need(document, "layers", list, file=file, item="file")
    members: list[list[Layer]] = [[] for _ in names]
    base: list[int] = []
    called: set[tuple[int, str]] = set()
    for i, row in enumerate(rows):
        item = f"layers[{i}]"
        if not isinstance(row, abc.Mapping):
            raise InputError(
                "a layer is not a table", file=file, item=item, remedy="write network, name, type and bounds"
            )
        n = _need(row, "network", int, file=file, item=item)
        if not 0 <= n < len(names) or (base and n < base[-1]):
            raise InputError(
                f"network {n} is out of place", file=file, item=item, remedy="list the layers network after network"
            )
        base.append(n)
        first = base.index(n)
        bounds = _need(row, "bounds", abc.Mapping, file=file, item=item)
        unknown = [d for d in bounds if d not in DIMS]
        pairs = [row.get("stride", [1, 1]), row.get("dilation", [1, 1])]
        if any(not isinstance(pair, list) or len(pair) != 2 for pair in pairs):
            raise InputError(
                "stride or dilation is not a pair",
                file=file,
                item=item,
                remedy="write one number per axis, as in [2, 2]",
            )
        values = [*bounds.values(), *pairs[0], *pairs[1], row.get("word_bits", 8)]
        if unknown or any(isinstance(b, bool) or not isinstance(b, int) or not 1 <= b < 2**31 for b in values):
            raise InputError(
                "bounds, stride, dilation or word_bits are not positive integers over known dimensions",
                file=file,
                item=item,
                remedy=f"use whole numbers below 2^31 for {', '.join(DIMS)}",
            )
        kind = _need(row, "type", str, file=file, item=item)
        if kind not in LAYER_TYPES:
            raise InputError(
                f"unknown layer type {kind!r}", file=file, item=item, remedy=f"use one of {', '.join(LAYER_TYPES)}"
            )
        before = row.get("predecessors", [])
        whole = isinstance(before, list) and not any(isinstance(p, bool) or not isinstance(p, int) for p in before)
        if not whole or any(not first <= p < i for p in before):
            raise InputError(
                "predecessors must be earlier layers of the same network",
                file=file,
                item=item,
                remedy="list the layers in a topological order",
            )
        name = _text(row, "name", str(i), file=file, item=item)
        if (n, name) in called:
            told = f"a second layer of this network is called {name!r}"
            raise InputError(told, file=file, item=item, remedy="give every layer of a network its own name")
        called.add((n, name))
        shape = WorkloadShape(
            **bounds,
            stride=tuple(pairs[0]),
            dilation=tuple(pairs[1]),
        )
        members[n].append(
            Layer(
                name=name,
                type=kind,
                op=_text(row, "op", "", file=file, item=item),
                shape=shape,
                word_bits=int(row.get("word_bits", 8)),
                predecessors=tuple(p - first for p in before),
            )
        )
    if not rows:
        raise InputError("there are no layers", file=file, item="layers", remedy="list those of every network")
    networks = []
    for i, (entry, layers) in enumerate(zip(names, members, strict=True)):
        item = f"networks[{i}]"
        entry = {"name": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, abc.Mapping):
            raise InputError("a network is no table", file=file, item=item, remedy="write its name and source")
        name = _text(entry, "name", str(i), file=file, item=item)
        if not layers:
            raise InputError("the network has no layers", file=file, item=item, remedy="list them, or remove it")
        if any(other.name == name for other in networks):
            raise InputError(f"a second network is called {name!r}", file=file, item=item, remedy="rename one")
        networks.append(Network(name, tuple(layers), _text(entry, "source", "", file=file, item=item)))
    return ApplicationModel(name=str(document.get("scenario", "")), networks=tuple(networks))


def _templates(document: abc.Mapping[str, Any], file: pathlib.Path) -> tuple[Template, ...]:
    """Templates of a file: as tables, or (what users write) as names and files."""
    rows = _need(document, "templates", list, file=file, item="file")
    out = []
    for i, row in enumerate(rows):
        if isinstance(row, abc.Mapping):
            out.append(template_from_dict(row, file=f"{file}: templates[{i}]"))
        elif isinstance(row, str):
            local = file.parent / row
            with _named_in(file, f"templates[{i}]"):
                out.extend(load_templates([str(local) if found(local, folder=False) else row]))
        else:
            raise InputError("a template is neither a table nor a name", file=file, item=f"templates[{i}]")
        if out[-1].name in (template.name for template in out[:-1]):
            told = f"a second template is called {out[-1].name!r}"
            raise InputError(told, file=file, item=f"templates[{i}]", remedy="give every template its own name")
    if not out:
        raise InputError("there are no templates", file=file, item="templates")
    return tuple(out)


@dataclasses.dataclass(frozen=True)
class DesignHeader:
    """What a `designs/1` or `schedule/1` document says of all its designs.

    Attributes:
        application: networks.
        templates: T templates.
        package: package parameters.
        key: equal for documents of one problem.
        mappings: the loop nests as they are written.
    """

    application: ApplicationModel
    templates: tuple[Template, ...]
    package: PackageParameters
    key: Any
    mappings: list[Any]

    def rules(self, technology: Technology) -> DesignRules:
        """What designs are read against, with no nest yet."""
        levels = max(len(t.levels) for t in self.templates)
        largest = jax.device_get(template_arrays(self.templates, technology, levels=levels).machine)
        return DesignRules(NestStore(self.application, self.templates, levels, largest), self.package)


def check_technology(document: abc.Mapping[str, Any], path: object, technology: Technology) -> None:
    """Refuses designs of another clock or of other energy and area tables than `technology`."""
    clock = document.get("clock_GHz", 1)
    if isinstance(clock, bool) or clock != 1:
        raise InputError(f"is {clock!r}", file=path, item="clock_GHz", remedy="write 1: all times are at 1 GHz")
    stated = document.get("technology", {})
    if not isinstance(stated, abc.Mapping):
        raise InputError("`technology` is not a table", file=path, remedy='write {"hash": ...} or leave it out')
    stated = stated.get("hash")
    if stated not in (None, technology_hash(technology)):
        raise InputError(
            "the designs were made with other technology tables",
            file=path,
            item="technology",
            remedy="give those tables with the argument `technology`",
        )


def read_header(document: abc.Mapping[str, Any], path: pathlib.Path, *, technology: Technology) -> DesignHeader:
    """Reads and checks all of a `designs/1` or `schedule/1` document but its designs.

    Raises:
        InputError: something in it breaks the format, or it was made with another technology.
    """
    check_technology(document, path, technology)
    imported = document["format"] == SCHEDULE_FORMAT
    application = _imported_application(document, path) if imported else _application(document, path)
    templates = _templates(document, path)
    package = package_from_dict(document.get("package", {}), file=f"{path}: package")
    entries = _need(document, "mappings", list, file=path, item="file")
    return DesignHeader(application, templates, package, (application, templates, package), entries)


def header_rows(document: abc.Mapping[str, Any], path: pathlib.Path) -> list[Any]:
    """The designs of a document as they are written."""
    kind = "schedules" if document["format"] == SCHEDULE_FORMAT else "designs"
    return _need(document, kind, list, file=path, item="file")


@uncollected()
def read_designs(path: str | pathlib.Path, *, technology: Technology) -> DesignFile:
    """Reads and checks a `designs/1` or `schedule/1` file; a broken design keeps its place with the reason.

    Args:
        path: the file.
        technology: energy and area tables, which must be those of the file.

    Raises:
        InputError: the file as a whole cannot be read.
    """
    path = pathlib.Path(path)
    document = read_json(path)
    check_format(document, (DESIGNS_FORMAT, SCHEDULE_FORMAT), path)
    header = read_header(document, path, technology=technology)
    rows = header_rows(document, path)
    rules = header.rules(technology)
    nests = NestList(header.mappings, rules.store)
    names, reasons, places = [], [], {}
    for i, row in enumerate(rows):
        name, reason = identifier(row, i, places)
        names.append(name)
        places.setdefault(str(name), i)
        reasons.append(reason)
    called = [i for i, reason in enumerate(reasons) if not reason]
    good: list[DesignRow] = []
    for i, read in zip(called, read_rows([(rows[i], nests) for i in called], rules), strict=True):
        if isinstance(read, InputError):
            reasons[i] = str(read)
        else:
            good.append(read)
    mappings, count = rules.store.arrays() if good else (None, np.zeros((0, 0), np.int32))
    designs, capacity, fanout, tile = stacked_rows(good) if good else (None, *(np.asarray([]),) * 3)
    return DesignFile(
        application=header.application,
        templates=header.templates,
        package=header.package,
        mappings=mappings,
        count=count,
        names=tuple(names),
        reasons=tuple(reasons),
        designs=designs,
        capacity=capacity,
        fanout=fanout,
        tile=tile,
        source=str(path),
        digest=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def _imported_application(document: abc.Mapping[str, Any], path: pathlib.Path) -> ApplicationModel:
    """The networks that a `schedule/1` file names."""
    spec = _need(document, "application", (str, list), file=path, item="file")
    if isinstance(spec, list):
        if not all(isinstance(name, str) for name in spec):
            raise InputError(
                "is not a list of files", file=path, item="application", remedy="put copies into a scenario file"
            )
        spec = [str(path.parent / name) for name in spec]
    elif found(path.parent / spec, folder=False):
        spec = str(path.parent / spec)
    with _named_in(path, "application"):
        return load_scenario(spec)
