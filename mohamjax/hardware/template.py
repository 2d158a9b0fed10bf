"""Accelerator templates: structure, largest sizes and dataflow constraints of a sub-accelerator, from YAML.

A file lists the levels outermost first, as people draw them; in Python they are innermost first, as everywhere in
mohamjax. `templates/example.yaml` is a commented example of a user's own template.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from mohamjax.errors import InputError
from mohamjax.hardware.machine import DATA_SPACES
from mohamjax.hardware.technology import COMPONENT_CLASSES, DRAM_TYPES
from mohamjax.reader import Fields, choice, found, number, read_yaml, suggestion

__all__ = [
    "KINDS",
    "Component",
    "Dataflow",
    "Level",
    "LevelRule",
    "Mac",
    "Template",
    "describe",
    "example_yaml",
    "fits",
    "load_template",
    "load_templates",
    "packaged_templates",
    "template_from_dict",
    "template_to_dict",
    "template_to_yaml",
    "with_word_bits",
]

# The workload package owns these two names (workload.DIMS, workload.LAYER_TYPES); hardware imports nothing of it.
DIMENSIONS: tuple[str, ...] = ("G", "N", "K", "C", "P", "Q", "R", "S")
LAYER_TYPES = ("conv", "dwconv", "gconv", "tconv", "fc", "bmm", "rnn")

KINDS = ("dram", "sram", "rf", "reg", "dummy")
"""Kinds of levels: off-chip memory, SRAM, register file, registers, and one that stores nothing."""

_CLASS_OF_KIND = {"dram": "dram", "sram": "sram", "rf": "regfile", "reg": "register", "dummy": "none"}
_STORAGE_CLASSES = ("sram", "regfile", "register", "fixed", "none")
_CLASSES_OF_KIND = {
    "dram": ("dram", "fixed", "none"),
    **dict.fromkeys(("sram", "rf", "reg"), _STORAGE_CLASSES),
    "dummy": ("none",),
}
_ROWS_OF_KIND = {"dram": 0, "sram": 16, "rf": 16, "reg": 0, "dummy": 0}
_PACKAGED = ("eyeriss", "simba", "shidiannao")

Limits = dict[str, int | None]
"""Dimension letter -> largest factor, None = unlimited; a missing letter is not allowed (factor 1)."""


@dataclasses.dataclass(frozen=True)
class Component:
    """What a level is made of.

    Attributes:
        cls: One of `technology.COMPONENT_CLASSES`.
        ports: Read-write ports of an SRAM, 1 or 2.
        dram_type: One of `technology.DRAM_TYPES`, for DRAM.
        fixed: Read energy [pJ per access], write energy [pJ per access] and area [um^2] of the class `fixed`.
    """

    cls: str
    ports: int = 1
    dram_type: str = DRAM_TYPES[0]
    fixed: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Level:
    """One storage level at its largest size.

    Attributes:
        name: Unique within the template.
        kind: One of `KINDS`; `dram` alone does not add partial sums in place.
        component: What it is made of.
        keep: Whether it stores (weights, inputs, outputs).
        capacity_words: Words per instance, shared by the data spaces that it keeps; None = unlimited.
        word_bits: Bits of a word.
        block_words: Words of one physical access (one row).
        fanout: Children (instances of the next inner level, MACs for the innermost) along X and Y.
        bandwidth: Words per cycle and instance read and written; None = unlimited.
        hop_energy_pJ: Energy per word and hop of the network to its children; None = wires, whose energy follows
            from the technology and from the width of a child's tile.
        granularity_rows: Capacities are multiples of this many rows; 0 = any number of words.
    """

    name: str
    kind: str
    component: Component
    keep: tuple[bool, bool, bool]
    capacity_words: int | None
    word_bits: int = 8
    block_words: int = 1
    fanout: tuple[int, int] = (1, 1)
    bandwidth: tuple[float | None, float | None] = (None, None)
    hop_energy_pJ: float | None = 0.0
    granularity_rows: int = 0


@dataclasses.dataclass(frozen=True)
class Mac:
    """The multiply-accumulate units inside the innermost level.

    Attributes:
        width_bits: Width of the operands.
        accumulator_bits: Width of the adder.
        energy_pJ: Energy of one operation; None = from the technology.
        area_um2: Area of one unit; None = from the technology.
    """

    width_bits: int = 8
    accumulator_bits: int = 24
    energy_pJ: float | None = None
    area_um2: float | None = None


@dataclasses.dataclass(frozen=True)
class LevelRule:
    """Dataflow constraints of one level: what its loops may be ("at most, and dividing the bound").

    Attributes:
        temporal: Largest temporal factor per dimension letter (None = unlimited); a missing letter = 1.
        spatial_x: Likewise for the loops over its children along X.
        spatial_y: Likewise along Y.
        order: All eight letters, innermost temporal loop first; empty = free.
    """

    temporal: Limits = dataclasses.field(default_factory=dict)
    spatial_x: Limits = dataclasses.field(default_factory=dict)
    spatial_y: Limits = dataclasses.field(default_factory=dict)
    order: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Dataflow:
    """The constraints under which some layer types run.

    Attributes:
        layer_types: The types.
        rules: One per level, innermost first.
    """

    layer_types: tuple[str, ...]
    rules: tuple[LevelRule, ...]


@dataclasses.dataclass(frozen=True)
class Template:
    """A sub-accelerator template: levels (innermost first), MACs and dataflows.

    Attributes:
        name: Short name, used in results.
        levels: Innermost first; the last is the off-chip memory.
        mac: The compute units.
        dataflows: Constraints per layer type; a type in none of them does not run here.
        description: For people.
        sizes: `free`: a chiplet is made as large as its layers need, up to the sizes given here; `fixed`: every
            chiplet of this template has exactly these sizes.
    """

    name: str
    levels: tuple[Level, ...]
    mac: Mac
    dataflows: tuple[Dataflow, ...]
    description: str = ""
    sizes: str = "free"

    @property
    def layer_types(self) -> tuple[str, ...]:
        """Layer types that it runs."""
        return tuple(t for t in LAYER_TYPES if self.runs(t))

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels, innermost first."""
        return tuple(level.name for level in self.levels)

    def runs(self, layer_type: str) -> bool:
        """Whether it runs layers of this type."""
        return any(layer_type in flow.layer_types for flow in self.dataflows)

    def rule(self, layer_type: str) -> tuple[LevelRule, ...]:
        """Constraints for a layer type, one per level, innermost first.

        Raises:
            InputError: If it does not run layers of this type.
        """
        for flow in self.dataflows:
            if layer_type in flow.layer_types:
                return flow.rules
        raise InputError(
            f"does not run layers of type {layer_type!r}",
            item=f"template {self.name}",
            remedy=f"it runs {', '.join(self.layer_types)}",
        )

    def content_hash(self) -> str:
        """SHA-256 (hexadecimal) of everything that influences results: all but the description."""
        content = template_to_dict(self)
        content.pop("description", None)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash((self.name, self.level_names))


def packaged_templates() -> tuple[str, ...]:
    """Names of the templates that come with mohamjax (Table 4 of the MOHaM paper)."""
    return _PACKAGED


def _packaged_file(name: str) -> Any:
    return importlib.resources.files("mohamjax.hardware").joinpath("templates", f"{name}.yaml")


def example_yaml() -> str:
    """The commented example of a user's own template, as text."""
    return _packaged_file("example").read_text(encoding="utf-8")


def load_template(name_or_path: str | pathlib.Path) -> Template:
    """Read a template by the name of a packaged one or by the path of a YAML file.

    Raises:
        InputError: If there is no such template or file, or something in it is wrong.
    """
    text = str(name_or_path)
    if text in _PACKAGED:
        with importlib.resources.as_file(_packaged_file(text)) as path:
            return template_from_dict(read_yaml(path), file=text)
    path = pathlib.Path(text)
    if not found(path) and path.suffix.lower() not in (".yaml", ".yml") and len(path.parts) == 1:
        raise InputError(
            f"no packaged template and no file is called {text!r}",
            item="templates",
            remedy=suggestion(text, _PACKAGED, "packaged templates") + " (or give the path of a YAML file)",
        )
    return template_from_dict(read_yaml(path), file=path)


def load_templates(names_or_paths: Sequence[str | pathlib.Path] = _PACKAGED) -> tuple[Template, ...]:
    """Read several templates, whose names must differ.

    Raises:
        InputError: As `load_template`, or if none is given or two have the same name.
    """
    if not names_or_paths:
        raise InputError("no template is given", item="templates", remedy=f"packaged: {', '.join(_PACKAGED)}")
    out: dict[str, Template] = {}
    for source in names_or_paths:
        template = load_template(source)
        if template.name in out:
            raise InputError(
                f"a second template is called {template.name!r}",
                file=source,
                item="name",
                remedy="give every template its own name",
            )
        out[template.name] = template
    return tuple(out.values())


_TOP_KEYS = ("format", "name", "description", "sizes", "word_bits", "mac", "levels", "dataflows")
_SIZES = ("free", "fixed")
_MAC_KEYS = ("width_bits", "accumulator_bits", "energy_pJ", "area_um2")
_LEVEL_KEYS = (
    "name",
    "kind",
    "component",
    "ports",
    "dram_type",
    "costs",
    "keep",
    "capacity_words",
    "word_bits",
    "block_words",
    "fanout",
    "bandwidth",
    "hop_energy_pJ",
    "granularity_rows",
)
_COST_KEYS = ("read_energy_pJ", "write_energy_pJ", "area_um2")
_FLOW_KEYS = ("layer_types", "levels")
_RULE_KEYS = ("temporal", "spatial", "order")


def template_from_dict(data: Mapping[str, Any], *, file: object = None) -> Template:
    """Build and check a template from what a YAML file holds (`example_yaml` documents every key).

    Args:
        data: The mapping, levels outermost first.
        file: Where it comes from, for complaints.

    Raises:
        InputError: If a key is unknown or missing, a value has the wrong type or is out of range, a level or letter
            is unknown or repeated, the outermost level is no unlimited DRAM that keeps everything, or no layer can
            ever fit.
    """
    top = Fields(data, _TOP_KEYS, file=file)
    top.choice("format", ("template/1",), "format", "template/1")
    word_bits = top.integer("word_bits", 8)
    mac_fields = Fields(top.data.get("mac") or {}, _MAC_KEYS, file=file, where="mac")
    mac = Mac(
        width_bits=mac_fields.integer("width_bits", word_bits),
        accumulator_bits=mac_fields.integer("accumulator_bits", 24),
        energy_pJ=mac_fields.number("energy_pJ") if mac_fields.has("energy_pJ") else None,
        area_um2=mac_fields.number("area_um2") if mac_fields.has("area_um2") else None,
    )
    entries = top.sequence("levels")
    if len(entries) < 2:
        raise InputError(
            f"{len(entries)} level(s) given",
            file=file,
            item="levels",
            remedy="list at least the off-chip memory and one on-chip level, outermost first",
        )
    levels = tuple(
        _read_level(entry, f"levels[{i}]", outermost=i == 0, word_bits=word_bits, file=file)
        for i, entry in enumerate(entries)
    )
    names = [level.name for level in levels]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InputError(
                f"a second level is called {name!r}",
                file=file,
                item=f"levels[{i}].name",
                remedy="give every level its own name",
            )
    levels = levels[::-1]
    template = Template(
        name=top.identifier("name"),
        levels=levels,
        mac=mac,
        dataflows=_read_dataflows(top, levels),
        description=top.text("description", "").strip(),
        sizes=top.choice("sizes", _SIZES, "kind of sizes", "free"),
    )
    for layer_type in template.layer_types:
        reason = fits(template, layer_type)
        if reason is not None:
            raise InputError(
                reason,
                file=file,
                item=f"template {template.name}",
                remedy="raise the capacity or keep fewer data spaces there",
            )
    return template


def _read_level(entry: object, where: str, *, outermost: bool, word_bits: int, file: object) -> Level:
    fields = Fields(entry, _LEVEL_KEYS, file=file, where=where)
    name = fields.identifier("name")
    kind = fields.choice("kind", KINDS, "kind")
    if outermost != (kind == "dram"):
        raise InputError(
            f"the outermost level is of kind {kind!r}" if outermost else "a level of kind 'dram' inside another",
            file=file,
            item=fields.path("kind"),
            remedy="the first level listed, and no other, is the off-chip memory: kind dram",
        )
    keep_names = fields.sequence("keep", DATA_SPACES if outermost else ())
    for i, space in enumerate(keep_names):
        choice(space, DATA_SPACES, what="data space", file=file, item=fields.path(f"keep[{i}]"))
    keep = tuple(space in keep_names for space in DATA_SPACES)
    if outermost and not all(keep):
        raise InputError(
            f"the outermost level does not keep {DATA_SPACES[keep.index(False)]}",
            file=file,
            item=fields.path("keep"),
            remedy=f"let it keep all of {', '.join(DATA_SPACES)}",
        )
    if kind == "dummy" and any(keep):
        raise InputError(
            "a level of kind 'dummy' stores nothing",
            file=file,
            item=fields.path("keep"),
            remedy="remove `keep`, or choose another kind",
        )
    block_words = fields.integer("block_words", 1)
    capacity = None
    if kind in ("sram", "rf", "reg"):
        capacity = fields.integer("capacity_words")
        if capacity < block_words:
            raise InputError(
                f"{capacity} words are less than one access of {block_words} words",
                file=file,
                item=fields.path("capacity_words"),
                remedy="raise capacity_words or lower block_words",
            )
    elif fields.has("capacity_words"):
        raise InputError(
            f"a level of kind {kind!r} has no capacity limit",
            file=file,
            item=fields.path("capacity_words"),
            remedy="remove it",
        )
    return Level(
        name=name,
        kind=kind,
        component=_read_component(fields, kind),
        keep=(keep[0], keep[1], keep[2]),
        capacity_words=capacity,
        word_bits=fields.integer("word_bits", word_bits),
        block_words=block_words,
        fanout=_read_fanout(fields),
        bandwidth=_read_bandwidth(fields),
        hop_energy_pJ=None if fields.data.get("hop_energy_pJ") == "wire" else fields.number("hop_energy_pJ", 0.0),
        granularity_rows=fields.integer("granularity_rows", _ROWS_OF_KIND[kind], minimum=0),
    )


def _read_component(fields: Fields, kind: str) -> Component:
    cls = fields.choice("component", COMPONENT_CLASSES, "component class", _CLASS_OF_KIND[kind])
    if cls not in _CLASSES_OF_KIND[kind]:
        raise InputError(
            f"a level of kind {kind!r} cannot be made of {cls!r}",
            file=fields.file,
            item=fields.path("component"),
            remedy=f"choose out of {', '.join(_CLASSES_OF_KIND[kind])}",
        )
    for key, owner in (("ports", "sram"), ("dram_type", "dram"), ("costs", "fixed")):
        if fields.has(key) and cls != owner:
            raise InputError(
                f"is for the component class {owner!r}, the level has {cls!r}",
                file=fields.file,
                item=fields.path(key),
                remedy=f"remove it or write `component: {owner}`",
            )
    ports = fields.integer("ports", 1)
    if ports > 2:
        raise InputError(f"{ports} ports", file=fields.file, item=fields.path("ports"), remedy="write 1 or 2")
    fixed = (0.0, 0.0, 0.0)
    if cls == "fixed":
        costs = Fields(fields.need("costs"), _COST_KEYS, file=fields.file, where=fields.path("costs"))
        read, write, area = (costs.number(key) for key in _COST_KEYS)
        fixed = (read, write, area)
    return Component(cls, ports, fields.choice("dram_type", DRAM_TYPES, "DRAM type", DRAM_TYPES[0]), fixed)


def _read_fanout(fields: Fields) -> tuple[int, int]:
    values = fields.sequence("fanout", (1, 1))
    if len(values) != 2:
        raise InputError(
            f"{len(values)} numbers",
            file=fields.file,
            item=fields.path("fanout"),
            remedy="write [X, Y], the children along the two axes",
        )
    x, y = (
        int(number(v, file=fields.file, item=fields.path(f"fanout[{i}]"), minimum=1, integer=True))
        for i, v in enumerate(values)
    )
    return x, y


def _read_bandwidth(fields: Fields) -> tuple[float | None, float | None]:
    if not fields.has("bandwidth"):
        return (None, None)
    value = fields.data["bandwidth"]
    values = value if isinstance(value, list | tuple) else [value, value]
    if len(values) != 2:
        raise InputError(
            f"{len(values)} numbers",
            file=fields.file,
            item=fields.path("bandwidth"),
            remedy="write words per cycle as one number, or as [read, write]",
        )
    limits = [
        None
        if v is None or v == "unlimited"
        else number(v, file=fields.file, item=fields.path("bandwidth"), exclusive=True, finite=False)
        for v in values
    ]
    read, write = (None if v is None or v == float("inf") else v for v in limits)
    return read, write


def _read_dataflows(top: Fields, levels: tuple[Level, ...]) -> tuple[Dataflow, ...]:
    """The dataflows; without any, every loop is allowed everywhere for every layer type."""
    everything = dict.fromkeys(DIMENSIONS)
    if not top.has("dataflows"):
        free = LevelRule(dict(everything), dict(everything), dict(everything))
        return (Dataflow(LAYER_TYPES, (free,) * len(levels)),)
    flows: list[Dataflow] = []
    taken: dict[str, str] = {}
    entries = top.sequence("dataflows")
    if not entries:
        raise InputError(
            "holds no dataflow",
            file=top.file,
            item="dataflows",
            remedy="add one, or remove the key to allow every loop everywhere",
        )
    for i, entry in enumerate(entries):
        where = f"dataflows[{i}]"
        fields = Fields(entry, _FLOW_KEYS, file=top.file, where=where)
        types = fields.sequence("layer_types", LAYER_TYPES)
        if not types:
            raise InputError(
                "names no layer type",
                file=top.file,
                item=fields.path("layer_types"),
                remedy=f"name some of {', '.join(LAYER_TYPES)}",
            )
        for j, layer_type in enumerate(types):
            item = fields.path(f"layer_types[{j}]")
            choice(layer_type, LAYER_TYPES, what="layer type", file=top.file, item=item)
            if layer_type in taken:
                raise InputError(
                    f"{layer_type!r} is named twice, first in {taken[layer_type]}",
                    file=top.file,
                    item=item,
                    remedy="name every layer type once",
                )
            taken[layer_type] = where
        names = [level.name for level in levels]
        by_level = Fields(fields.need("levels"), names, file=top.file, where=fields.path("levels"))
        rules = tuple(_read_rule(by_level, level) for level in levels)
        if len(rules[-1].temporal) < len(DIMENSIONS) or any(v is not None for v in rules[-1].temporal.values()):
            raise InputError(
                "the outermost level must allow every dimension without limit, or some layers have no mapping",
                file=top.file,
                item=by_level.path(f"{names[-1]}.temporal"),
                remedy="write `temporal: all`",
            )
        flows.append(Dataflow(tuple(types), rules))
    return tuple(flows)


def _read_rule(by_level: Fields, level: Level) -> LevelRule:
    """The rule of one level; a level that is not listed has no loops."""
    if not by_level.has(level.name):
        return LevelRule()
    fields = Fields(by_level.data[level.name], _RULE_KEYS, file=by_level.file, where=by_level.path(level.name))
    spatial = Fields(fields.data.get("spatial") or {}, ("X", "Y"), file=fields.file, where=fields.path("spatial"))
    return LevelRule(
        temporal=_read_limits(fields, "temporal"),
        spatial_x=_read_limits(spatial, "X"),
        spatial_y=_read_limits(spatial, "Y"),
        order=_read_order(fields),
    )


def _read_limits(fields: Fields, key: str) -> Limits:
    """`all`, `none`, a list of letters, or letters with their largest factor (`any` = no limit)."""
    if not fields.has(key):
        return {}
    value, item = fields.data[key], fields.path(key)
    if value == "all":
        return dict.fromkeys(DIMENSIONS)
    if value == "none":
        return {}
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list | tuple):
        pairs = [(letter, "any") for letter in value]
    else:
        raise InputError(
            f"expected dimension letters, found {value!r}",
            file=fields.file,
            item=item,
            remedy="write `all`, `none`, a list such as [C, R], or largest factors such as {K: 4, C: any}",
        )
    limits: Limits = {}
    for letter, limit in pairs:
        choice(letter, DIMENSIONS, what="dimension letter", file=fields.file, item=item)
        if letter in limits:
            raise InputError(f"{letter} occurs twice", file=fields.file, item=item, remedy="name it once")
        limits[letter] = (
            None
            if limit == "any"
            else int(number(limit, file=fields.file, item=f"{item}.{letter}", minimum=1, integer=True))
        )
    return {letter: limits[letter] for letter in DIMENSIONS if letter in limits}


def _read_order(fields: Fields) -> tuple[str, ...]:
    """Letters innermost first; those left out lie outside the ones given."""
    letters = fields.sequence("order", ())
    for i, letter in enumerate(letters):
        item = fields.path(f"order[{i}]")
        choice(letter, DIMENSIONS, what="dimension letter", file=fields.file, item=item)
        if letter in letters[:i]:
            raise InputError(f"{letter} occurs twice", file=fields.file, item=item, remedy="name it once")
    if not letters:
        return ()
    return (*letters, *(d for d in DIMENSIONS if d not in letters))


def fits(template: Template, layer_type: str, shape: object = None) -> str | None:
    """Why no layer of this type can ever fit on the template, or None if the minimal mapping fits.

    The minimal mapping has every factor at the outermost level, so each level holds one word per data space that it
    keeps: it depends on the template alone, and where it fits, every shape has a mapping.

    Args:
        template: The template at its largest sizes.
        layer_type: One of the layer types.
        shape: The workload shape, named in the reason.
    """
    layer = f"{layer_type} layer" if shape is None else f"{layer_type} layer {shape}"
    if not template.runs(layer_type):
        runs = ", ".join(template.layer_types) or "nothing"
        return f"template {template.name} does not run a {layer} (it runs {runs})"
    for level in template.levels:
        need = sum(level.keep)
        if level.capacity_words is not None and level.capacity_words < need:
            return (
                f"no mapping of a {layer} fits on template {template.name}: level {level.name} keeps "
                f"{need} data spaces and has room for {level.capacity_words} word(s)"
            )
    return None


def with_word_bits(template: Template, bits: int) -> Template:
    """The template built for operands of another width, with buffers of as many bits and buses of as many wires.

    Operand levels (those as wide as the MACs) take the new word: their capacities, accesses and bandwidths in words
    shrink or grow so that the bits stay the same, down to one word at least. Accumulators are widened by twice the
    difference, as the products are: they keep their words. Costs that a template states itself stay as they are.

    Args:
        template: the template.
        bits: width of the operands.
    """
    old = template.mac.width_bits
    if bits == old:
        return template

    def reworded(level: Level) -> Level:
        if level.word_bits != old:
            return dataclasses.replace(level, word_bits=max(level.word_bits + 2 * (bits - old), 1))
        read, write = (None if b is None else b * old / bits for b in level.bandwidth)
        block = max(level.block_words * old // bits, 1)
        words = None if level.capacity_words is None else max(level.capacity_words * old // bits, block)
        return dataclasses.replace(
            level, word_bits=bits, block_words=block, capacity_words=words, bandwidth=(read, write)
        )

    wider = max(template.mac.accumulator_bits + 2 * (bits - old), 1)
    return dataclasses.replace(
        template,
        levels=tuple(reworded(level) for level in template.levels),
        mac=dataclasses.replace(template.mac, width_bits=bits, accumulator_bits=wider),
    )


def template_to_dict(template: Template) -> dict[str, Any]:
    """Everything about a template as plain data; `template_from_dict` gives the same template back."""
    return {
        "format": "template/1",
        "name": template.name,
        "description": template.description,
        **({} if template.sizes == "free" else {"sizes": template.sizes}),
        "mac": {k: v for k, v in dataclasses.asdict(template.mac).items() if v is not None},
        "levels": [_level_to_dict(level) for level in reversed(template.levels)],
        "dataflows": [
            {
                "layer_types": list(flow.layer_types),
                "levels": {
                    level.name: _rule_to_dict(rule)
                    for level, rule in zip(reversed(template.levels), reversed(flow.rules), strict=True)
                },
            }
            for flow in template.dataflows
        ],
    }


def _level_to_dict(level: Level) -> dict[str, Any]:
    component = level.component
    out: dict[str, Any] = {"name": level.name, "kind": level.kind, "component": component.cls}
    if component.cls == "sram":
        out["ports"] = component.ports
    elif component.cls == "dram":
        out["dram_type"] = component.dram_type
    elif component.cls == "fixed":
        out["costs"] = dict(zip(_COST_KEYS, component.fixed, strict=True))
    out["keep"] = [space for space, kept in zip(DATA_SPACES, level.keep, strict=True) if kept]
    if level.capacity_words is not None:
        out["capacity_words"] = level.capacity_words
    out |= {"word_bits": level.word_bits, "block_words": level.block_words, "fanout": list(level.fanout)}
    if level.bandwidth != (None, None):
        out["bandwidth"] = list(level.bandwidth)
    out["hop_energy_pJ"] = "wire" if level.hop_energy_pJ is None else level.hop_energy_pJ
    out["granularity_rows"] = level.granularity_rows
    return out


def _rule_to_dict(rule: LevelRule) -> dict[str, Any]:
    out: dict[str, Any] = {"temporal": _limits_to_data(rule.temporal)}
    spatial = {"X": _limits_to_data(rule.spatial_x), "Y": _limits_to_data(rule.spatial_y)}
    if any(value != "none" for value in spatial.values()):
        out["spatial"] = spatial
    if rule.order:
        out["order"] = list(rule.order)
    return out


def _limits_to_data(limits: Limits) -> Any:
    if not limits:
        return "none"
    if all(limit is None for limit in limits.values()):
        return "all" if len(limits) == len(DIMENSIONS) else list(limits)
    return {letter: "any" if limit is None else limit for letter, limit in limits.items()}


def template_to_yaml(template: Template) -> str:
    """The template as a YAML file that `load_template` reads."""
    return yaml.safe_dump(template_to_dict(template), sort_keys=False, width=110, default_flow_style=None)


def describe(template: Template) -> str:
    """A table of a template for people: levels outermost first, then the loops that each may have."""
    instances, rows = 1, []
    for level in reversed(template.levels):
        read, write = ("-" if b is None else f"{b:g}" for b in level.bandwidth)
        hop = "wire" if level.hop_energy_pJ is None else f"{level.hop_energy_pJ:g}"
        rows.append(
            (
                level.name,
                level.component.cls,
                "".join(space[0] for space, kept in zip(DATA_SPACES, level.keep, strict=True) if kept) or "-",
                "-" if level.capacity_words is None else str(level.capacity_words),
                f"{level.word_bits} x {level.block_words}",
                str(instances),
                f"{level.fanout[0]} x {level.fanout[1]}",
                f"{read} / {write}",
                hop,
            )
        )
        instances *= level.fanout[0] * level.fanout[1]
    mac = template.mac
    header = (
        "level",
        "component",
        "keeps",
        "words",
        "bits x block",
        "instances",
        "fanout X x Y",
        "words/cycle r / w",
        "pJ/hop",
    )
    lines = [f"{template.name}: {template.description}".rstrip(": ").replace("\n", " "), ""]
    lines += _table(header, rows)
    lines.append(f"MACs: {instances} of {mac.width_bits} bit with {mac.accumulator_bits}-bit accumulators")
    for flow in template.dataflows:
        lines += ["", f"Loops allowed for {', '.join(flow.layer_types)} (order: innermost first):"]
        lines += _table(
            ("level", "temporal", "spatial X", "spatial Y", "order"),
            [
                (
                    level.name,
                    *(_limits_text(v) for v in (rule.temporal, rule.spatial_x, rule.spatial_y)),
                    " ".join(rule.order) or "free",
                )
                for level, rule in zip(reversed(template.levels), reversed(flow.rules), strict=True)
            ],
        )
    return "\n".join(lines)


def _limits_text(limits: Limits) -> str:
    if len(limits) == len(DIMENSIONS) and all(v is None for v in limits.values()):
        return "all"
    return " ".join(d if limit is None else f"{d}<={limit}" for d, limit in limits.items()) or "-"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
