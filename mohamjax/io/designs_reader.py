"""Designs in files, read and checked: `designs/1` and `schedule/1`, whose form `io.designs` describes."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import pathlib
from collections import abc
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from mohamjax.errors import InputError, one_line
from mohamjax.hardware import (
    Machine,
    Technology,
    Template,
    load_templates,
    package_from_dict,
    recorded_technology,
    template_arrays,
    template_from_dict,
)
from mohamjax.io.files import check_format, read_json
from mohamjax.io.formats import DESIGNS_FORMAT, SCHEDULE_FORMAT
from mohamjax.mapping import Mapping, constraints, encode, map_space, mapping_from_dict, prime_factors
from mohamjax.reader import found
from mohamjax.schedule import Design, DesignFile
from mohamjax.workload import DIMS, LAYER_TYPES, ApplicationModel, Layer, Network, WorkloadShape, load_scenario

__all__ = ["read_designs"]

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


def _identifier(row: Any, number: int, known: abc.Mapping[str, int]) -> tuple[int | str, str]:
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


@dataclasses.dataclass
class _Nests:
    """The loop nests of a file, dealt to (unique layer, template) sets as designs ask for them."""

    entries: list[Any]
    application: ApplicationModel
    templates: Sequence[Template]
    levels: int
    largest: Machine
    parsed: dict[int, tuple[int, Mapping]] = dataclasses.field(default_factory=dict)
    sets: dict[tuple[int, int], list[int]] = dataclasses.field(default_factory=dict)
    checked: set[tuple[int, int]] = dataclasses.field(default_factory=set)

    def place(self, number: Any, layer: int, template: int) -> int:
        """Index of nest `number` in the set of the layer on the template; checks it on first use."""
        item = f"mapping {number}"
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(self.entries):
            raise InputError("there is no such mapping", item=item, remedy="give an index into `mappings`")
        if number not in self.parsed:
            self.parsed[number] = self._parse(number, item)
        owner, nest = self.parsed[number]
        if owner != template:
            raise InputError(
                f"is for template {self.templates[owner].name}, the chiplet is a {self.templates[template].name}",
                item=item,
            )
        unique = self.application.unique_of_layer[layer]
        if (number, unique) not in self.checked:
            self._check(nest, unique, template, item)
            self.checked.add((number, unique))
        members = self.sets.setdefault((unique, template), [])
        if number not in members:
            members.append(number)
        return members.index(number)

    def _parse(self, number: int, item: str) -> tuple[int, Mapping]:
        entry = self.entries[number]
        names = [t.name for t in self.templates]
        if not isinstance(entry, abc.Mapping) or entry.get("template") not in names:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(names)}")
        owner = names.index(entry["template"])
        template = self.templates[owner]
        keep = [level.keep for level in template.levels]
        nest = mapping_from_dict(entry, template.level_names, keep, levels=self.levels, item=item)
        return owner, nest

    def _check(self, nest: Mapping, unique: int, template: int, item: str) -> None:
        layer, kind = self.application.unique_layers[unique], self.templates[template]
        if not kind.runs(layer.type):
            raise InputError(f"template {kind.name} does not run layers of type {layer.type}", item=item)
        limits = constraints(kind, layer.type, layer.shape, self.levels)
        machine = jax.tree.map(lambda leaf: leaf[template], self.largest)
        primes = sum(len(prime_factors(b)) for b in layer.shape.bounds)
        encode(nest, map_space(layer.shape, limits, machine, max(primes, 1)), item=item)

    def arrays(self) -> tuple[Mapping, np.ndarray]:
        """All sets as `[U, T, M]` nests, padded with the first nest of any, and their sizes `[U, T]`."""
        shape = len(self.application.unique_layers), len(self.templates)
        count = np.zeros(shape, np.int32)
        for key, members in self.sets.items():
            count[key] = len(members)
        filler = jax.tree.map(np.ones_like, next(iter(self.parsed.values()))[1])
        filler = dataclasses.replace(
            filler,
            order=np.broadcast_to(np.arange(len(DIMS), dtype=np.int32), filler.order.shape),
            spatial_order=np.broadcast_to(np.arange(len(DIMS), dtype=np.int32), filler.spatial_order.shape),
        )
        size = max(1, int(count.max()))
        nests = [
            self.parsed[self.sets[u, t][m]][1] if m < count[u, t] else filler
            for u in range(shape[0])
            for t in range(shape[1])
            for m in range(size)
        ]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*shape, size, *leaves[0].shape), *nests)
        return stacked, count


def _sizes(chip: abc.Mapping[str, Any], template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Capacities `[levels]` and fanouts `[levels, 2]` that a chiplet states; -1 where it states none."""
    levels = len(template.levels)
    capacity, fanout = np.full(levels, -1.0), np.full((levels, 2), -1.0)
    rows = chip.get("levels")
    if rows is None:
        return capacity, fanout
    if not isinstance(rows, list):
        raise InputError("`levels` is not a list", item=item)
    for row in rows:
        name = row.get("name") if isinstance(row, abc.Mapping) else None
        if name not in template.level_names:
            raise InputError(f"template {template.name} has no level {name!r}", item=item)
        v = template.level_names.index(name)
        limit = template.levels[v]
        words = row.get("capacity_words")
        if words is not None:
            if isinstance(words, bool) or not isinstance(words, int | float) or not 0 <= words < 2**53:
                raise InputError(f"capacity_words {words!r} of level {name} is no number of words", item=item)
            if limit.capacity_words is not None and words > limit.capacity_words:
                raise InputError(
                    f"level {name} has {words} words, the template allows {limit.capacity_words}", item=item
                )
            capacity[v] = words
        spread = row.get("fanout")
        if spread is not None:
            good = isinstance(spread, list) and len(spread) == 2
            if not good or any(isinstance(f, bool) or not isinstance(f, int) or f < 1 for f in spread):
                raise InputError(f"fanout {spread!r} of level {name} is not two positive integers", item=item)
            if any(f > most for f, most in zip(spread, limit.fanout, strict=True)):
                raise InputError(
                    f"level {name} has fanout {spread}, the template allows {list(limit.fanout)}", item=item
                )
            fanout[v] = spread
    return capacity, fanout


@dataclasses.dataclass(frozen=True)
class _Parsed:
    """One design of a file as arrays."""

    design: Design
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray


def _design(row: Any, nests: _Nests, names: abc.Mapping[str, int], tiles: int) -> _Parsed:
    """Reads and checks one design; raises `InputError` with the reason."""
    application, templates = nests.application, nests.templates
    if not isinstance(row, abc.Mapping):
        raise InputError("a design is not a table", remedy="give chiplets and schedule")
    chips = row.get("chiplets")
    if not isinstance(chips, list) or not 1 <= len(chips) <= tiles:
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets")
    template = np.full(tiles, -1, np.int32)
    capacity, fanout = np.full((tiles, nests.levels), -1.0), np.full((tiles, nests.levels, 2), -1.0)
    kinds = [t.name for t in templates]
    for k, chip in enumerate(chips):
        item = f"chiplet {k}"
        if not isinstance(chip, abc.Mapping) or chip.get("template") not in kinds:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(kinds)}")
        template[k] = kinds.index(chip["template"])
        tile = chip.get("tile")
        if tile is not None and (isinstance(tile, bool) or not isinstance(tile, int) or not 0 <= tile < tiles):
            raise InputError(f"stands on tile {tile!r}, which does not exist", item=item)
        sizes = _sizes(chip, templates[template[k]], item)
        levels = len(sizes[0])
        capacity[k, :levels], fanout[k, :levels] = sizes
    schedule = row.get("schedule")
    layers = application.layers
    if not isinstance(schedule, list):
        raise InputError("`schedule` is not a list")
    order: list[int] = []
    assignment, mapping = np.zeros(len(layers), np.int32), np.zeros(len(layers), np.int32)
    done: set[int] = set()
    for step in schedule:
        if not isinstance(step, abc.Mapping):
            raise InputError("a step of the schedule is not a table")
        layer = step.get("layer")
        layer = names.get(layer, layer) if isinstance(layer, str) else layer
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < len(layers):
            raise InputError(f"the schedule names layer {step.get('layer')!r}, which does not exist")
        item = f"layer {layer} ({layers[layer].name})"
        if layer in done:
            raise InputError("is scheduled twice", item=item)
        missing = [p for p in layers[layer].predecessors if p not in done]
        if missing:
            raise InputError(
                f"stands before layer {missing[0]} ({layers[missing[0]].name}), on which it depends", item=item
            )
        chip = step.get("chiplet")
        if isinstance(chip, bool) or not isinstance(chip, int) or not 0 <= chip < len(chips):
            raise InputError(f"runs on chiplet {chip!r}, which does not exist", item=item)
        assignment[layer] = chip
        mapping[layer] = nests.place(step.get("mapping"), layer, int(template[chip]))
        order.append(layer)
        done.add(layer)
    if len(order) < len(layers):
        lost = next(i for i in range(len(layers)) if i not in done)
        raise InputError(f"layer {lost} ({layers[lost].name}) is not scheduled")
    genes: dict[str, Any] = {
        "order": np.asarray(order, np.int32),
        "assignment": assignment,
        "mapping": mapping,
        "template": template,
    }
    return _Parsed(
        design=Design(**genes),
        capacity=capacity,
        fanout=fanout,
        tile=_stated_tiles(chips, tiles),
    )


def _stated_tiles(chips: Sequence[abc.Mapping[str, Any]], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles where a design does not state rising ones for all."""
    stated = [chip.get("tile") for chip in chips]
    whole = [t for t in stated if t is not None]
    rising = len(whole) == len(chips) and all(a < b for a, b in itertools.pairwise(whole))
    out = np.arange(tiles)
    if rising:
        out[: len(chips)] = whole
    return out


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


def read_designs(
    path: str | pathlib.Path, *, technology: Technology | None = None, static_energy: bool = False
) -> DesignFile:
    """Reads and checks a `designs/1` or `schedule/1` file; a broken design keeps its place with the reason.

    Args:
        path: the file.
        technology: energy and area tables, which must be those of the file; default the packaged ones that are.
        static_energy: count leakage, also where the file does not.

    Raises:
        InputError: the file as a whole cannot be read.
    """
    path = pathlib.Path(path)
    document = read_json(path)
    check_format(document, (DESIGNS_FORMAT, SCHEDULE_FORMAT), path)
    clock = document.get("clock_GHz", 1)
    if isinstance(clock, bool) or clock != 1:
        raise InputError(f"is {clock!r}", file=path, item="clock_GHz", remedy="write 1: all times are at 1 GHz")
    stated = document.get("technology", {})
    if not isinstance(stated, abc.Mapping):
        raise InputError("`technology` is not a table", file=path, remedy='write {"hash": ...} or leave it out')
    static = stated.get("static_energy", False)
    if not isinstance(static, bool):
        raise InputError(f"is {static!r}", file=path, item="technology.static_energy", remedy="write true or false")
    technology = recorded_technology(stated.get("hash"), technology, static_energy or static)
    if technology is None:
        raise InputError(
            "the designs were made with other technology tables",
            file=path,
            item="technology",
            remedy="give those tables with the argument `technology`",
        )
    if document["format"] == SCHEDULE_FORMAT:
        application = _imported_application(document, path)
        rows = _need(document, "schedules", list, file=path, item="file")
    else:
        application = _application(document, path)
        rows = _need(document, "designs", list, file=path, item="file")
    templates = _templates(document, path)
    package = package_from_dict(document.get("package", {}), file=f"{path}: package")
    entries = _need(document, "mappings", list, file=path, item="file")
    levels = max(len(t.levels) for t in templates)
    largest = jax.device_get(template_arrays(templates, technology, levels=levels).machine)
    nests = _Nests(entries, application, templates, levels, largest)
    layers = {
        f"{application.networks[n].name}/{layer.name}": i
        for i, (layer, n) in enumerate(zip(application.layers, application.network_of_layer, strict=True))
    }
    good: list[_Parsed] = []
    names, reasons, places = [], [], {}
    for i, row in enumerate(rows):
        name, reason = _identifier(row, i, places)
        names.append(name)
        places.setdefault(str(name), i)
        if reason:
            reasons.append(reason)
            continue
        try:
            good.append(_design(row, nests, layers, package.max_tiles))
            reasons.append("")
        except InputError as error:
            reasons.append(str(error))
    mappings, count = nests.arrays() if good else (None, np.zeros((0, 0), np.int32))
    return DesignFile(
        application=application,
        templates=templates,
        package=package,
        technology=technology,
        mappings=mappings,
        count=count,
        names=tuple(names),
        reasons=tuple(reasons),
        designs=jax.tree.map(lambda *leaves: np.stack(leaves), *[p.design for p in good]) if good else None,
        capacity=np.asarray([p.capacity for p in good]),
        fanout=np.asarray([p.fanout for p in good]),
        tile=np.asarray([p.tile for p in good], np.int32),
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
