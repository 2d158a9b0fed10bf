"""Designs in files, read and checked: `designs/1` and `schedule/1`, whose form `io.designs` describes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import pathlib
from collections import abc
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import msgspec
import numpy as np

from mohamjax.errors import InputError, one_line
from mohamjax.forms import read_form
from mohamjax.hardware import (
    Machine,
    PackageForm,
    Technology,
    Template,
    TemplateForm,
    load_templates,
    package_of,
    technology_hash,
    template_arrays,
    template_of,
)
from mohamjax.io.files import check_format, read_json
from mohamjax.io.formats import DESIGNS_FORMAT, SCHEDULE_FORMAT
from mohamjax.io.forms import ChipletForm, DesignForm, DesignsForm, NetworkForm, SchedulesForm, StepForm
from mohamjax.mapping import Mapping, constraints, encode, map_space, prime_factors
from mohamjax.mapping.notation import OwnedNestForm, mapping_of
from mohamjax.reader import found
from mohamjax.schedule import Design, DesignFile
from mohamjax.workload import DIMS, ApplicationModel, Layer, Network, WorkloadShape, load_scenario

__all__ = ["read_designs"]

_LONGEST_IDENTIFIER = 200


@contextlib.contextmanager
def _named_in(file: object, item: str) -> Iterator[None]:
    """Complaints about what a file names as complaints about that file."""
    try:
        yield
    except InputError as error:
        told = ": ".join(part for part in (error.file, error.item, error.message) if part)
        raise InputError(told, file=file, item=item, remedy=error.remedy) from None


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


def _application(form: DesignsForm, file: object) -> ApplicationModel:
    """The networks of a `designs/1` file."""

    def fail(item: str, told: str, remedy: str) -> InputError:
        return InputError(told, file=file, item=item, remedy=remedy)

    members: list[list[Layer]] = [[] for _ in form.networks]
    called: set[tuple[int, str]] = set()
    last = first = 0
    for i, row in enumerate(form.layers):
        item, n = f"layers[{i}]", row.network
        if not last <= n < len(members):
            raise fail(f"{item}.network", f"network {n} is out of place", "list the layers network after network")
        first, last = (first if n == last else i), n
        if any(not first <= p < i for p in row.predecessors):
            told = "predecessors must be earlier layers of the same network"
            raise fail(f"{item}.predecessors", told, "list the layers in a topological order")
        name = str(i) if row.name is None else row.name
        if (n, name) in called:
            told = f"a second layer of this network is called {name!r}"
            raise fail(f"{item}.name", told, "give every layer of a network its own name")
        called.add((n, name))
        shape = WorkloadShape(**msgspec.structs.asdict(row.bounds), stride=row.stride, dilation=row.dilation)
        before = tuple(p - first for p in row.predecessors)
        layer = Layer(
            name=name, type=row.type, op=row.op or "", shape=shape, word_bits=row.word_bits, predecessors=before
        )
        members[n].append(layer)
    networks: list[Network] = []
    for i, (entry, layers) in enumerate(zip(form.networks, members, strict=True)):
        entry = NetworkForm(entry) if isinstance(entry, str) else entry
        name = str(i) if entry.name is None else entry.name
        if not layers:
            raise fail(f"networks[{i}]", "the network has no layers", "list them, or remove it")
        if any(other.name == name for other in networks):
            raise fail(f"networks[{i}].name", f"a second network is called {name!r}", "rename one")
        users = {
            key: getattr(entry, key)
            for key in ("deadline_s", "frames_per_second", "weight")
            if getattr(entry, key) is not None
        }
        networks.append(Network(name, tuple(layers), entry.source or "", **users))
    return ApplicationModel(name=form.scenario or "", networks=tuple(networks))


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
    indices: dict[tuple[int, int, int], int] = dataclasses.field(default_factory=dict)

    def place(self, number: int, layer: int, template: int) -> int:
        """Index of nest `number` in the set of the layer on the template; checks it on first use."""
        unique = self.application.unique_of_layer[layer]
        known = self.indices.get((number, unique, template))
        if known is not None:
            return known
        item = f"mappings[{number}]"
        if number >= len(self.entries):
            raise InputError("there is no such mapping", item=item, remedy="give an index into `mappings`")
        if number not in self.parsed:
            self.parsed[number] = self._parse(number, item)
        owner, nest = self.parsed[number]
        if owner != template:
            raise InputError(
                f"is for template {self.templates[owner].name}, the chiplet is a {self.templates[template].name}",
                item=item,
            )
        self._check(nest, unique, template, item)
        members = self.sets.setdefault((unique, template), [])
        members.append(number)
        return self.indices.setdefault((number, unique, template), len(members) - 1)

    def _parse(self, number: int, item: str) -> tuple[int, Mapping]:
        form = read_form(self.entries[number], OwnedNestForm, where=item)
        names = [t.name for t in self.templates]
        if form.template not in names:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(names)}")
        owner = names.index(form.template)
        template = self.templates[owner]
        keep = [level.keep for level in template.levels]
        nest = mapping_of(form, template.level_names, keep, levels=self.levels, item=item)
        return owner, nest

    def _check(self, nest: Mapping, unique: int, template: int, item: str) -> None:
        layer, kind = self.application.unique_layers[unique], self.templates[template]
        if not kind.runs(layer.type):
            raise InputError(f"template {kind.name} does not run layers of type {layer.type}", item=item)
        limits = constraints(kind, layer.type, layer.shape, self.levels)
        machine = jax.tree.map(lambda leaf: leaf[template], self.largest)
        encode(nest, map_space(layer.shape, limits, machine, self.primes), item=item)

    @functools.cached_property
    def primes(self) -> int:
        """Prime factors of the layer that has most: so that one program checks them all."""
        return max(1, *(sum(map(len, map(prime_factors, u.shape.bounds))) for u in self.application.unique_layers))

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


def _sizes(chip: ChipletForm, template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Capacities `[levels]` and fanouts `[levels, 2]` that a chiplet states; -1 where it states none."""
    levels = len(template.levels)
    capacity, fanout = np.full(levels, -1.0), np.full((levels, 2), -1.0)
    for row in chip.levels or ():
        if row.name not in template.level_names:
            raise InputError(f"template {template.name} has no level {row.name!r}", item=item)
        v = template.level_names.index(row.name)
        limit, words, spread = template.levels[v], row.capacity_words, row.fanout
        if words is not None:
            if limit.capacity_words is not None and words > limit.capacity_words:
                told = f"level {row.name} has {words:.0f} words, the template allows {limit.capacity_words}"
                raise InputError(told, item=item)
            capacity[v] = words
        if spread is not None:
            if any(f > most for f, most in zip(spread, limit.fanout, strict=True)):
                told = f"level {row.name} has fanout {list(spread)}, the template allows {list(limit.fanout)}"
                raise InputError(told, item=item)
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
    form, templates = read_form(row, DesignForm), nests.templates
    chips = form.chiplets
    if len(chips) > tiles:
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets")
    template = np.full(tiles, -1, np.int32)
    capacity, fanout = np.full((tiles, nests.levels), -1.0), np.full((tiles, nests.levels, 2), -1.0)
    kinds = [t.name for t in templates]
    for k, chip in enumerate(chips):
        item = f"chiplets[{k}]"
        if chip.template not in kinds:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(kinds)}")
        template[k] = kinds.index(chip.template)
        if chip.tile is not None and chip.tile >= tiles:
            raise InputError(f"stands on tile {chip.tile}, which does not exist", item=item)
        if chip.levels:
            levels = len(templates[template[k]].levels)
            capacity[k, :levels], fanout[k, :levels] = _sizes(chip, templates[template[k]], item)
    order, assignment = _order(form.schedule, nests.application, names, len(chips))
    mapping = np.zeros(len(order), np.int32)
    for step, layer in zip(form.schedule, order, strict=True):
        mapping[layer] = nests.place(step.mapping, layer, int(template[step.chiplet]))
    genes: dict[str, Any] = {
        "order": np.asarray(order, np.int32),
        "assignment": assignment,
        "mapping": mapping,
        "template": template,
    }
    return _Parsed(design=Design(**genes), capacity=capacity, fanout=fanout, tile=_stated_tiles(chips, tiles))


def _order(
    steps: Sequence[StepForm], application: ApplicationModel, names: abc.Mapping[str, int], chips: int
) -> tuple[list[int], np.ndarray]:
    """Layers by priority, each once and after its predecessors, and `[L]` int32, the chiplet of each."""
    layers = application.layers
    order: list[int] = []
    assignment = np.zeros(len(layers), np.int32)
    done = [False] * len(layers)
    for step in steps:
        layer = names.get(step.layer, -1) if isinstance(step.layer, str) else step.layer
        if not 0 <= layer < len(layers):
            raise InputError(f"the schedule names layer {step.layer!r}, which does not exist")
        item = f"layer {layer} ({layers[layer].name})"
        if done[layer]:
            raise InputError("is scheduled twice", item=item)
        for p in layers[layer].predecessors:
            if not done[p]:
                raise InputError(f"stands before layer {p} ({layers[p].name}), on which it depends", item=item)
        if step.chiplet >= chips:
            raise InputError(f"runs on chiplet {step.chiplet}, which does not exist", item=item)
        assignment[layer] = step.chiplet
        order.append(layer)
        done[layer] = True
    if len(order) < len(layers):
        lost = done.index(False)
        raise InputError(f"layer {lost} ({layers[lost].name}) is not scheduled")
    return order, assignment


def _stated_tiles(chips: Sequence[ChipletForm], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles where a design does not state rising ones for all."""
    stated = [chip.tile for chip in chips]
    whole = [t for t in stated if t is not None]
    rising = len(whole) == len(chips) and all(a < b for a, b in itertools.pairwise(whole))
    out = np.arange(tiles)
    if rising:
        out[: len(chips)] = whole
    return out


def _templates(rows: Sequence[TemplateForm | str], file: pathlib.Path) -> tuple[Template, ...]:
    """Templates of a file: as tables, or (what users write) as names and files."""
    out: list[Template] = []
    for i, row in enumerate(rows):
        if isinstance(row, str):
            local = file.parent / row
            with _named_in(file, f"templates[{i}]"):
                out.extend(load_templates([str(local) if found(local, folder=False) else row]))
        else:
            out.append(template_of(row, file=file, where=f"templates[{i}]."))
        if out[-1].name in (template.name for template in out[:-1]):
            told = f"a second template is called {out[-1].name!r}"
            raise InputError(told, file=file, item=f"templates[{i}]", remedy="give every template its own name")
    return tuple(out)


def _without_rows(document: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The document without the entries of some lists, which are read one by one: a broken one spoils no other."""
    return {key: [] if key in keys and isinstance(value, list) else value for key, value in document.items()}


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
    written = check_format(document, (DESIGNS_FORMAT, SCHEDULE_FORMAT), path) == SCHEDULE_FORMAT
    listed = "schedules" if written else "designs"
    head = _without_rows(document, listed, "mappings")
    form = read_form(head, SchedulesForm if written else DesignsForm, file=path)
    if form.technology is not None and form.technology.hash not in (None, technology_hash(technology)):
        raise InputError(
            "the designs were made with other technology tables",
            file=path,
            item="technology",
            remedy="give those tables with the argument `technology`",
        )
    application = _imported(form, path) if isinstance(form, SchedulesForm) else _application(form, path)
    rows, entries = document[listed], document["mappings"]
    templates = _templates(form.templates, path)
    package = package_of(form.package or PackageForm(), file=path)
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


def _imported(form: SchedulesForm, path: pathlib.Path) -> ApplicationModel:
    """The networks that a `schedule/1` file names."""
    spec = form.application
    if isinstance(spec, list):
        spec = [str(path.parent / name) for name in spec]
    elif found(path.parent / spec, folder=False):
        spec = str(path.parent / spec)
    with _named_in(path, "application"):
        return load_scenario(spec)
