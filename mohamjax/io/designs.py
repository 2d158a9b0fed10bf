"""Designs in files: `designs.json`, self-contained, and its re-evaluation in double precision.

Format `designs/1` (JSON, one object):

- `format`, `mohamjax` (version), `scenario`, `clock_GHz` (1, nothing else);
- `technology`: `{"hash"}` of the energy and area tables;
- `templates`: list, as in a template file; `package`: package parameters;
- `networks`: list of `{"name", "source"}`; `layers`: list of `{"network" (index), "name", "type", "op", "word_bits",
  "bounds" {dimension: bound}, "stride", "dilation", "predecessors" (indices into layers)}`;
- `mappings`: list of `{"template" (name), "levels": [...]}`, loop nests as in `mapping.notation`;
- `designs`: list of `{"design_id", "latency_s", "energy_J", "area_mm2", "chiplets", "schedule"}`. `chiplets` stand on
  the mesh in their order: `{"template", "levels": [{"name", "capacity_words", "fanout": [x, y]}], ...}`; without
  `levels` a chiplet is made just large enough. `schedule` lists every layer once, by priority:
  `{"layer", "chiplet", "mapping" (indices), "start_s", "end_s", "alone_s" (without any off-chip limit),
  "offchip_bytes", "energy_J" (with that of the package)}`. Objectives, times and what else is there is information for
  people: an evaluation ignores it;
- `bounds`, of the file and of each design: lower bounds over the mappings that the search had (`schedule.bounds`), for
  every design, and for every schedule on this design's chiplets: `latency_s, energy_J, area_mm2, latency_parts_s`.

`schedule/1` is what users write by hand: the same, but with `application` (a scenario by name or file, or a list of
ONNX files, relative to the file) in the place of `networks` and `layers`, `templates` as names or files, layers called
`network/layer`, and `schedules` in the place of `designs`.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import __version__
from mohamjax.errors import InputError, one_line
from mohamjax.hardware import (
    Machine,
    PackageParameters,
    Technology,
    Template,
    load_technology,
    load_templates,
    package_from_dict,
    package_to_dict,
    technology_hash,
    template_arrays,
    template_from_dict,
    template_to_dict,
)
from mohamjax.io.files import check_format, dump_json, read_json, write_text
from mohamjax.io.trace import TraceRow, chrome_trace
from mohamjax.mapping import Mapping as Nest
from mohamjax.mapping import (
    MappingTables,
    Wires,
    constraints,
    encode,
    map_space,
    mapping_from_dict,
    mapping_to_dict,
    prime_factors,
    stacked_layers,
    tabulate,
)
from mohamjax.programs import light_jit
from mohamjax.reader import found
from mohamjax.schedule import (
    CYCLE_S,
    OBJECTIVES,
    Bounds,
    Design,
    DesignReport,
    FrontBounds,
    design_bounds,
    explain_design,
    explanation_text,
    front_bounds,
    report,
    scenario_bounds,
    workbench,
)
from mohamjax.workload import DIMS, LAYER_TYPES, ApplicationModel, Layer, Network, WorkloadShape, load_scenario

__all__ = [
    "DESIGNS_FORMAT",
    "DesignFile",
    "Evaluated",
    "designs_document",
    "evaluate_designs",
    "read_designs",
    "reevaluate",
    "schedules_document",
]

DESIGNS_FORMAT = "designs/1"
SCHEDULE_FORMAT = "schedule/1"

_LONGEST_IDENTIFIER = 200


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """Designs with their double-precision reports (NumPy leaves).

    Attributes:
        application: networks.
        templates: T templates.
        technology: energy and area tables.
        package: package parameters.
        tables: Pareto tables in double precision.
        wires: wires of their mappings.
        designs: `Design`, leading axis `[N]`.
        reports: `DesignReport`, leading axis `[N]`.
    """

    application: ApplicationModel
    templates: tuple[Template, ...]
    technology: Technology
    package: PackageParameters
    tables: MappingTables
    wires: Wires
    designs: Design
    reports: DesignReport

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.reports.objectives)

    @property
    def objectives(self) -> np.ndarray:
        """`[N, 3]` float, latency [s], energy [J], area [mm^2]."""
        return np.asarray(self.reports.objectives)

    def take(self, index: np.ndarray) -> Evaluated:
        """The designs at `index`, in that order."""
        pick = functools.partial(jax.tree.map, lambda leaf: leaf[index])
        return dataclasses.replace(self, designs=pick(self.designs), reports=pick(self.reports))

    def bounds(self, max_chiplets: int | None = None) -> Bounds:
        """What no design over the tables goes below; `max_chiplets` defaults to the tiles of the package."""
        return scenario_bounds(
            self.application, self.templates, self.technology, self.package, self.tables, self.wires, max_chiplets
        )

    def front_bounds(self, max_chiplets: int | None = None) -> FrontBounds:
        """What no design over the tables goes below, area by area and latency by latency; otherwise as `bounds`."""
        return front_bounds(
            self.application, self.templates, self.technology, self.package, self.tables, self.wires, max_chiplets
        )

    def design_bounds(self) -> list[Bounds]:
        """What no schedule on the chiplets of each design goes below."""
        area = np.asarray(self.reports.objectives[:, 2])
        chips = self.reports.chiplets
        return design_bounds(self.application, self.package, self.tables, self.wires, self.designs, chips, area)


@light_jit
def _reports(designs: Design, capacity: jax.Array, fanout: jax.Array, bench: Any) -> DesignReport:
    one = functools.partial(report, bench=bench)
    return jax.vmap(lambda design, c, f: one(design, sizes=(c, f)))(designs, capacity, fanout)


_ROWS = 64


def _batches(number: int) -> list[np.ndarray]:
    """Indices 0 to `number` - 1 in batches of one size, the last one filled up: two sizes are compiled at most."""
    width = _ROWS if number <= 16 * _ROWS else 16 * _ROWS
    return [np.minimum(np.arange(first, first + width), number - 1) for first in range(0, number, width)]


def reevaluate(
    application: ApplicationModel,
    templates: Sequence[Template],
    technology: Technology,
    package: PackageParameters,
    mappings: Nest,
    count: np.ndarray,
    designs: Design,
    *,
    sizes: tuple[np.ndarray, np.ndarray] | None = None,
    float32: bool = False,
) -> Evaluated:
    """Evaluates designs from their loop nests on, in double precision.

    Args:
        application: networks.
        templates: T templates.
        technology: energy and area tables.
        package: package parameters.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int, entries that exist.
        designs: leading axis `[N]`, N >= 1; layers padded or not.
        sizes: capacities `[N, S, V]` and fanouts `[N, S, V, 2]` of the chiplets, -1 where they are to be just large
            enough; default -1 everywhere.
        float32: compute in single precision instead.

    Returns:
        The designs with their reports as NumPy arrays.
    """
    levels = mappings.temporal.shape[-2]
    tiles = designs.template.shape[-1]
    number = len(designs.template)
    dtype = np.float32 if float32 else np.float64
    if sizes is None:
        sizes = np.full((number, tiles, levels), -1.0), np.full((number, tiles, levels, 2), -1.0)
    with jax.enable_x64(not float32):
        arrays = template_arrays(templates, technology, levels=levels, dtype=dtype)
        layers = stacked_layers(unique.shape for unique in application.unique_layers)
        cast = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), technology)
        # Few numbers of entries are compiled: powers of two.
        most = mappings.temporal.shape[2]
        entries = np.minimum(np.arange(max(16, 1 << (most - 1).bit_length())), most - 1)
        mappings = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :, entries], mappings)
        tables = tabulate(layers, arrays, cast, mappings, count)
        chiplets = np.asarray(designs.template).reshape(-1), np.asarray(sizes[1]).reshape(-1, levels, 2)
        bench = workbench(
            application, templates, technology, tables, package, padded_layers=designs.order.shape[-1], given=chiplets
        )
        inputs = jax.tree.map(np.asarray, (designs, *(np.asarray(size, dtype) for size in sizes)))
        parts = [_reports(*jax.tree.map(lambda leaf, r=rows: leaf[r], inputs), bench) for rows in _batches(number)]
        reports = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:number], *jax.device_get(parts))
        wires = jax.device_get(bench.wires)
    return Evaluated(
        application=application,
        templates=tuple(templates),
        technology=technology,
        package=package,
        tables=tables,
        wires=wires,
        designs=jax.device_get(designs),
        reports=reports,
    )


# ---------------------------------------------------------------- writing


def _short(value: Any) -> float:
    """Ten significant digits, short in a file: for amounts, not for times, whose differences may be millionths."""
    return float(f"{float(value):.10g}")


def _layer_row(layer: Layer, network: int) -> dict[str, Any]:
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


def network_latencies(evaluated: Evaluated) -> np.ndarray:
    """`[N, networks]` float, seconds until the last layer of each network has ended."""
    owner = np.asarray(evaluated.application.network_of_layer)
    end = evaluated.reports.timeline.end[:, : len(owner)] * CYCLE_S
    return np.stack([end[:, owner == n].max(axis=1) for n in range(len(evaluated.application.networks))], axis=1)


def designs_document(evaluated: Evaluated, scenario: str, bounds: Bounds | None = None) -> dict[str, Any]:
    """The content of `designs.json`.

    Args:
        evaluated: designs with reports; their order gives the identifiers.
        scenario: name for people.
        bounds: what no design goes below; default `evaluated.bounds()`.

    Returns:
        JSON-able data in the format `designs/1`.
    """
    application, templates, reports = evaluated.application, evaluated.templates, evaluated.reports
    unique = np.asarray(application.unique_of_layer)
    layers = len(unique)
    numbers: dict[tuple[int, int, int], int] = {}
    rows = []
    own_bounds = evaluated.design_bounds()
    for i in range(len(evaluated)):
        design, chips, timeline = _one(evaluated, i)
        standing = np.flatnonzero(design.template >= 0)
        chip_of_tile = {int(tile): k for k, tile in enumerate(standing)}
        chiplets = [
            {
                "template": templates[design.template[tile]].name,
                "tile": int(tile),
                "area_mm2": _short(chips.area[tile] * 1e-6),
                "interface": int(chips.interface[tile]),
                "hops": int(chips.hops[tile]),
                "levels": [
                    {
                        "name": level.name,
                        "capacity_words": None if level.capacity_words is None else int(chips.capacity[tile, v]),
                        "fanout": [int(f) for f in chips.fanout[tile, v]],
                    }
                    for v, level in enumerate(templates[design.template[tile]].levels)
                ],
            }
            for tile in standing
        ]
        schedule = []
        for layer in design.order:
            if layer >= layers:
                continue
            tile = int(design.assignment[layer])
            entry = (int(unique[layer]), int(design.template[tile]), int(design.mapping[layer]))
            schedule.append(
                {
                    "layer": int(layer),
                    "chiplet": chip_of_tile[tile],
                    "mapping": numbers.setdefault(entry, len(numbers)),
                    "start_s": float(timeline.start[layer] * 1e-9),
                    "end_s": float(timeline.end[layer] * 1e-9),
                    "alone_s": _short(reports.duration[i, layer] * 1e-9),
                    "offchip_bytes": _short(reports.offchip_bytes[i, layer]),
                    "energy_J": _short((reports.layer_energy[i, layer] + reports.noc_energy[i, layer]) * 1e-12),
                }
            )
        latency, energy, area = (float(x) for x in evaluated.reports.objectives[i])
        rows.append(
            {
                "design_id": i,
                "latency_s": latency,
                "energy_J": energy,
                "area_mm2": area,
                "bounds": own_bounds[i].to_dict(),
                "chiplets": chiplets,
                "schedule": schedule,
            }
        )
    nests = [
        {
            "template": templates[t].name,
            **mapping_to_dict(
                jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], evaluated.tables.mapping),
                templates[t].level_names,
            ),
        }
        for u, t, m in numbers
    ]
    return {
        "format": DESIGNS_FORMAT,
        "mohamjax": __version__,
        "scenario": scenario,
        "clock_GHz": 1.0,
        "technology": {"hash": technology_hash(evaluated.technology)},
        "templates": [template_to_dict(t) for t in templates],
        "package": package_to_dict(evaluated.package),
        "bounds": (evaluated.bounds() if bounds is None else bounds).to_dict(),
        "networks": [{"name": n.name, "source": n.source} for n in application.networks],
        "layers": [
            _layer_row(layer, n) for layer, n in zip(application.layers, application.network_of_layer, strict=True)
        ],
        "mappings": nests,
        "designs": rows,
    }


def _one(evaluated: Evaluated, i: int) -> tuple[Design, Any, Any]:
    pick = functools.partial(jax.tree.map, lambda leaf: leaf[i])
    return pick(evaluated.designs), pick(evaluated.reports.chiplets), pick(evaluated.reports.timeline)


# ---------------------------------------------------------------- reading


def _need(data: Mapping[str, Any], key: str, kind: type | tuple[type, ...], *, file: object, item: str) -> Any:
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


def _text(data: Mapping[str, Any], key: str, default: str, *, file: object, item: str) -> str:
    """`data[key]`, a text, or the default where it is missing or null."""
    value = default if data.get(key) is None else data[key]
    if not isinstance(value, str):
        raise InputError(f"`{key}` is {value!r}, no text", file=file, item=item, remedy="write it in quotes")
    return value


def _identifier(row: Any, number: int, known: Mapping[str, int]) -> tuple[int | str, str]:
    """What a design is called, and why it cannot be called what its file says; its place where it says nothing.

    Args:
        row: the design.
        number: its place in the file.
        known: places of the designs before it, by identifier as text.
    """
    given = [row[key] for key in ("design_id", "name") if row.get(key) is not None] if isinstance(row, Mapping) else []
    name = given[0] if given else number
    text = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _LONGEST_IDENTIFIER
    if not text and (isinstance(name, bool) or not isinstance(name, int)):
        told = one_line(repr(name))[:40]
        return number, f"its identifier {told} is neither a whole number nor a text of one short line"
    if str(name) in known:
        return name, f"its identifier {name} is also that of the design at place {known[str(name)]} of the file"
    return name, ""


def _application(document: Mapping[str, Any], file: object) -> ApplicationModel:
    """The networks of a `designs/1` file."""
    names = _need(document, "networks", list, file=file, item="file")
    rows = _need(document, "layers", list, file=file, item="file")
    members: list[list[Layer]] = [[] for _ in names]
    base: list[int] = []
    called: set[tuple[int, str]] = set()
    for i, row in enumerate(rows):
        item = f"layers[{i}]"
        if not isinstance(row, Mapping):
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
        bounds = _need(row, "bounds", Mapping, file=file, item=item)
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
        if not isinstance(entry, Mapping):
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
    parsed: dict[int, tuple[int, Nest]] = dataclasses.field(default_factory=dict)
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

    def _parse(self, number: int, item: str) -> tuple[int, Nest]:
        entry = self.entries[number]
        names = [t.name for t in self.templates]
        if not isinstance(entry, Mapping) or entry.get("template") not in names:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(names)}")
        owner = names.index(entry["template"])
        template = self.templates[owner]
        keep = [level.keep for level in template.levels]
        nest = mapping_from_dict(entry, template.level_names, keep, levels=self.levels, item=item)
        return owner, nest

    def _check(self, nest: Nest, unique: int, template: int, item: str) -> None:
        layer, kind = self.application.unique_layers[unique], self.templates[template]
        if not kind.runs(layer.type):
            raise InputError(f"template {kind.name} does not run layers of type {layer.type}", item=item)
        limits = constraints(kind, layer.type, layer.shape, self.levels)
        machine = jax.tree.map(lambda leaf: leaf[template], self.largest)
        primes = sum(len(prime_factors(b)) for b in layer.shape.bounds)
        encode(nest, map_space(layer.shape, limits, machine, max(primes, 1)), item=item)

    def arrays(self) -> tuple[Nest, np.ndarray]:
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


def _sizes(chip: Mapping[str, Any], template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Capacities `[levels]` and fanouts `[levels, 2]` that a chiplet states; -1 where it states none."""
    levels = len(template.levels)
    capacity, fanout = np.full(levels, -1.0), np.full((levels, 2), -1.0)
    rows = chip.get("levels")
    if rows is None:
        return capacity, fanout
    if not isinstance(rows, list):
        raise InputError("`levels` is not a list", item=item)
    for row in rows:
        name = row.get("name") if isinstance(row, Mapping) else None
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


def _design(row: Any, nests: _Nests, names: Mapping[str, int], tiles: int) -> _Parsed:
    """Reads and checks one design; raises `InputError` with the reason."""
    application, templates = nests.application, nests.templates
    if not isinstance(row, Mapping):
        raise InputError("a design is not a table", remedy="give chiplets and schedule")
    chips = row.get("chiplets")
    if not isinstance(chips, list) or not 1 <= len(chips) <= tiles:
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets")
    template = np.full(tiles, -1, np.int32)
    capacity, fanout = np.full((tiles, nests.levels), -1.0), np.full((tiles, nests.levels, 2), -1.0)
    kinds = [t.name for t in templates]
    for k, chip in enumerate(chips):
        item = f"chiplet {k}"
        if not isinstance(chip, Mapping) or chip.get("template") not in kinds:
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
        if not isinstance(step, Mapping):
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


def _stated_tiles(chips: Sequence[Mapping[str, Any]], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles where a design does not state rising ones for all."""
    stated = [chip.get("tile") for chip in chips]
    whole = [t for t in stated if t is not None]
    rising = len(whole) == len(chips) and all(a < b for a, b in itertools.pairwise(whole))
    out = np.arange(tiles)
    if rising:
        out[: len(chips)] = whole
    return out


def _templates(document: Mapping[str, Any], file: pathlib.Path) -> tuple[Template, ...]:
    """Templates of a file: as tables, or (what users write) as names and files."""
    rows = _need(document, "templates", list, file=file, item="file")
    out = []
    for i, row in enumerate(rows):
        if isinstance(row, Mapping):
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
class DesignFile:
    """The designs of a `designs/1` or `schedule/1` file as arrays, checked but not evaluated.

    Attributes:
        application: networks.
        templates: T templates.
        package: package parameters.
        mappings: loop nests, leading axes `[U, T, M]`.
        count: `[U, T]` int32, entries that exist.
        names: identifier of every design in the file, in input order.
        reasons: why it is broken; empty where it reads well.
        designs: `Design` of those that read well, leading axis `[N]`; None where there are none.
        capacity: `[N, S, V]` words per buffer that the chiplets state, 0 where they state none.
        fanout: `[N, S, V, 2]` likewise.
        tile: `[N, S]` int32, tile that each chiplet of a design states; where a design does not state rising tiles for
            all its chiplets, they stand on the first ones.
    """

    application: ApplicationModel
    templates: tuple[Template, ...]
    package: PackageParameters
    mappings: Nest | None
    count: np.ndarray
    names: tuple[Any, ...]
    reasons: tuple[str, ...]
    designs: Design | None
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray


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
    clock = document.get("clock_GHz", 1)
    if isinstance(clock, bool) or clock != 1:
        raise InputError(f"is {clock!r}", file=path, item="clock_GHz", remedy="write 1: all times are at 1 GHz")
    stated = document.get("technology", {})
    if not isinstance(stated, Mapping):
        raise InputError("`technology` is not a table", file=path, remedy='write {"hash": ...} or leave it out')
    stated = stated.get("hash")
    if stated not in (None, technology_hash(technology)):
        raise InputError(
            "the designs were made with other technology tables",
            file=path,
            item="technology",
            remedy="give those tables with --technology",
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
        mappings=mappings,
        count=count,
        names=tuple(names),
        reasons=tuple(reasons),
        designs=jax.tree.map(lambda *leaves: np.stack(leaves), *[p.design for p in good]) if good else None,
        capacity=np.asarray([p.capacity for p in good]),
        fanout=np.asarray([p.fanout for p in good]),
        tile=np.asarray([p.tile for p in good], np.int32),
    )


def _imported_application(document: Mapping[str, Any], path: pathlib.Path) -> ApplicationModel:
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


def evaluate_designs(
    path: str | pathlib.Path,
    *,
    technology: Technology | None = None,
    float32: bool = False,
    wanted: str | None = None,
) -> tuple[list[dict[str, Any]], Evaluated | None]:
    """Evaluates the designs of a `designs/1` or `schedule/1` file, in double precision.

    Stored objectives and times are ignored. A broken design is a row with its reason, not an error.

    Args:
        path: the file.
        technology: energy and area tables; default the packaged ones, which must be those of the file.
        float32: compute in single precision.
        wanted: `design_id` of a design that must be in the file and read well, which is checked first.

    Returns:
        Rows of `design_id, latency_s, energy_J, area_mm2, valid, reason` in input order, and the valid designs
        with their reports (None where there are none).

    Raises:
        InputError: the file as a whole cannot be read, or there is no design `wanted` or it is broken.
    """
    technology = load_technology() if technology is None else technology
    file = read_designs(path, technology=technology)
    table: list[dict[str, Any]] = [
        {"design_id": name, "latency_s": "", "energy_J": "", "area_mm2": "", "valid": 0, "reason": reason}
        for name, reason in zip(file.names, file.reasons, strict=True)
    ]
    if wanted is not None:
        _check_wanted(table, wanted)
    if file.designs is None or file.mappings is None:
        return table, None
    evaluated = reevaluate(
        file.application,
        file.templates,
        technology,
        file.package,
        file.mappings,
        file.count,
        file.designs,
        sizes=(file.capacity, file.fanout),
        float32=float32,
    )
    valid = []
    for k, row in enumerate(row for row in table if not row["reason"]):
        row["reason"] = _misfit(evaluated, k, file.capacity[k], file.fanout[k])
        if not row["reason"]:
            valid.append(k)
            latency, energy, area = (float(x) for x in evaluated.reports.objectives[k])
            row |= {"valid": 1, "latency_s": latency, "energy_J": energy, "area_mm2": area}
    return table, evaluated.take(np.asarray(valid, int)) if valid else None


def _check_wanted(rows: Sequence[Mapping[str, Any]], wanted: str) -> None:
    """Complains where no row has the `design_id`, or all that have it are broken."""
    reasons = [row["reason"] for row in rows if str(row["design_id"]) == wanted]
    if not reasons or all(reasons):
        good = next((f", such as {row['design_id']}" for row in rows if not row["reason"]), "")
        raise InputError(
            f"is invalid: {reasons[0]}" if reasons else "is not in the file",
            item=f"design {wanted}",
            remedy=f"name a valid design of the file{good}",
        )


def _misfit(evaluated: Evaluated, k: int, capacity: np.ndarray, fanout: np.ndarray) -> str:
    """Why a design that reads well is invalid after all, given its stated sizes; empty where it is not."""
    design, tables = jax.tree.map(lambda leaf: leaf[k], evaluated.designs), evaluated.tables
    unique = np.asarray(evaluated.application.unique_of_layer)
    for layer, tile in enumerate(design.assignment):
        t = int(design.template[tile])
        entry = (int(unique[layer]), t, int(design.mapping[layer]))
        template = evaluated.templates[t]
        name = f"layer {layer} ({evaluated.application.layers[layer].name})"
        if not np.isfinite(tables.objectives[entry]).all():
            return f"{name}: its mapping does not fit template {template.name} at its largest sizes"
        for v, level in enumerate(template.levels):
            need, has = tables.capacity[entry][v], capacity[tile, v]
            if 0 <= has < need:
                return f"{name}: level {level.name} of chiplet {tile} needs {need:.0f} words and has {has:.0f}"
            for axis in range(2):
                need, has = tables.fanout[entry][v, axis], fanout[tile, v, axis]
                if 0 <= has < need:
                    return (
                        f"{name}: level {level.name} of chiplet {tile} needs fanout {need:.0f} along "
                        f"{'XY'[axis]} and has {has:.0f}"
                    )
    if not np.isfinite(evaluated.reports.objectives[k]).all():
        return "its objectives are not finite"
    return ""


def schedules_document(
    rows: Sequence[Mapping[str, Any]], evaluated: Evaluated | None, *, timelines: bool = False
) -> dict[str, Any]:
    """The rows of `evaluate_designs` as JSON (DESIGN section 8).

    Args:
        rows: of `evaluate_designs`.
        evaluated: the valid designs, in that order.
        timelines: also write when each layer runs, and where.

    Returns:
        `{"format": "schedule/1", "schedules": [{"name", "latency_s", "energy_J", "area_mm2", "valid", "reason"}]}`, the
        objectives null where a schedule is invalid; with timelines those that are valid also have `timeline`, per layer
        `{"network", "layer", "chiplet", "start_s", "end_s"}`.
    """
    schedules, valid = [], itertools.count()
    for row in rows:
        good = bool(row["valid"])
        out: dict[str, Any] = {"name": row["design_id"]}
        out |= {name: row[name] if good else None for name in OBJECTIVES}
        out |= {"valid": good, "reason": row["reason"]}
        index = next(valid) if good else None
        if timelines and evaluated is not None and index is not None:
            out["timeline"] = _timeline(evaluated, index)
        schedules.append(out)
    return {"format": SCHEDULE_FORMAT, "schedules": schedules}


def _timeline(evaluated: Evaluated, index: int) -> list[dict[str, Any]]:
    """When and on which chiplet each layer of a design runs, in the order of the application."""
    design, _, timeline = _one(evaluated, index)
    number = {int(tile): k for k, tile in enumerate(np.flatnonzero(design.template >= 0))}
    application = evaluated.application
    return [
        {
            "network": application.networks[n].name,
            "layer": layer.name,
            "chiplet": number[int(design.assignment[i])],
            "start_s": float(timeline.start[i]) * CYCLE_S,
            "end_s": float(timeline.end[i]) * CYCLE_S,
        }
        for i, (layer, n) in enumerate(zip(application.layers, application.network_of_layer, strict=True))
    ]


def evaluation_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows of `evaluate_designs` as CSV."""
    text = io.StringIO()
    columns = ("design_id", "latency_s", "energy_J", "area_mm2", "valid", "reason")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({c: repr(r[c]) if isinstance(r[c], float) else r[c] for c in columns} for r in rows)
    return text.getvalue()


def write_designs(path: pathlib.Path, evaluated: Evaluated, scenario: str, bounds: Bounds | None = None) -> None:
    """Writes `designs.json` atomically; arguments as for `designs_document`."""
    write_text(path, dump_json(designs_document(evaluated, scenario, bounds)))


EXPLANATIONS_FORMAT = "design-explanations/1"


def explain_designs(
    rows: Sequence[Mapping[str, Any]], evaluated: Evaluated | None, wanted: str | None = None
) -> dict[str, Any]:
    """Where the time, the energy and the area of designs go.

    Args:
        rows: from `evaluate_designs`.
        evaluated: likewise.
        wanted: `design_id` of the only design to explain; default all valid ones.

    Returns:
        JSON-able `{"format", "designs"}`; each design is its `design_id` and what `schedule.explain_design` says.

    Raises:
        InputError: there is no such design, or it is invalid.
    """
    if wanted is not None:
        _check_wanted(rows, wanted)
    valid = [row for row in rows if row["valid"]]
    chosen = [k for k, row in enumerate(valid) if wanted is None or str(row["design_id"]) == wanted]
    if evaluated is None:
        reason = f"no design of the file is valid: {rows[0]['reason']}" if rows else "the file holds no designs"
        raise InputError(reason, item="--explain", remedy="give a file with a valid design")
    found = []
    for k in chosen:
        design, own = jax.tree.map(lambda leaf, k=k: leaf[k], (evaluated.designs, evaluated.reports))
        said = explain_design(
            design, own, evaluated.tables, evaluated.application, evaluated.templates, evaluated.package
        )
        found.append({"design_id": valid[k]["design_id"], **said})
    return {"format": EXPLANATIONS_FORMAT, "designs": found}


def explanations_text(document: Mapping[str, Any]) -> str:
    """The explanations of `explain_designs` for people."""
    texts = [explanation_text(row, f"design {row['design_id']}") for row in document["designs"]]
    return "\n\n\n".join(texts) + "\n"


def write_design_trace(path: str | pathlib.Path, evaluated: Evaluated) -> None:
    """Writes the timelines of all designs as a Chrome trace (Perfetto): a row per design and chiplet.

    Args:
        path: the JSON file.
        evaluated: the designs.
    """
    application = evaluated.application
    rows = []
    for i in range(len(evaluated)):
        design, _, timeline = _one(evaluated, i)
        standing = np.flatnonzero(design.template >= 0)
        names = {
            int(tile): f"design {i}, chiplet {k} ({evaluated.templates[design.template[tile]].name})"
            for k, tile in enumerate(standing)
        }
        for layer, network in zip(range(len(application.layers)), application.network_of_layer, strict=True):
            rows.append(
                TraceRow(
                    chiplet=names[int(design.assignment[layer])],
                    layer=application.layers[layer].name,
                    network=application.networks[network].name,
                    start=float(timeline.start[layer]),
                    end=float(timeline.end[layer]),
                )
            )
    write_text(path, dump_json(chrome_trace(rows, time_unit="cycles")))
