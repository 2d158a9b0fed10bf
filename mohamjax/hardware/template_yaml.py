"""Accelerator templates as YAML and plain data.

A file lists the levels outermost first, as people draw them; in Python they are innermost first, as everywhere in
mohamjax. `templates/example.yaml` is a commented example of a user's own template.
"""

from __future__ import annotations

import importlib.resources
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Any

import yaml

from mohamjax.dims import DATA_SPACES, DIMS, LAYER_TYPES
from mohamjax.errors import InputError
from mohamjax.hardware.technology import COMPONENT_CLASSES, DRAM_TYPES
from mohamjax.hardware.template import (
    COST_KEYS,
    KINDS,
    Component,
    Dataflow,
    Level,
    LevelRule,
    Limits,
    Mac,
    Template,
    fits,
    template_to_dict,
)
from mohamjax.reader import Fields, choice, found, number, read_yaml, suggestion

__all__ = [
    "example_yaml",
    "load_template",
    "load_templates",
    "packaged_templates",
    "template_from_dict",
    "template_to_yaml",
]


_PACKAGED = ("eyeriss", "simba", "shidiannao")


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


_FLOW_KEYS = ("layer_types", "levels")


_RULE_KEYS = ("temporal", "spatial", "order")


def template_from_dict(data: abc.Mapping[str, Any], *, file: object = None) -> Template:
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
        costs = Fields(fields.need("costs"), COST_KEYS, file=fields.file, where=fields.path("costs"))
        read, write, area = (costs.number(key) for key in COST_KEYS)
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
    everything = dict.fromkeys(DIMS)
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
        if len(rules[-1].temporal) < len(DIMS) or any(v is not None for v in rules[-1].temporal.values()):
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
        return dict.fromkeys(DIMS)
    if value == "none":
        return {}
    if isinstance(value, abc.Mapping):
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
        choice(letter, DIMS, what="dimension letter", file=fields.file, item=item)
        if letter in limits:
            raise InputError(f"{letter} occurs twice", file=fields.file, item=item, remedy="name it once")
        limits[letter] = (
            None
            if limit == "any"
            else int(number(limit, file=fields.file, item=f"{item}.{letter}", minimum=1, integer=True))
        )
    return {letter: limits[letter] for letter in DIMS if letter in limits}


def _read_order(fields: Fields) -> tuple[str, ...]:
    """Letters innermost first; those left out lie outside the ones given."""
    letters = fields.sequence("order", ())
    for i, letter in enumerate(letters):
        item = fields.path(f"order[{i}]")
        choice(letter, DIMS, what="dimension letter", file=fields.file, item=item)
        if letter in letters[:i]:
            raise InputError(f"{letter} occurs twice", file=fields.file, item=item, remedy="name it once")
    if not letters:
        return ()
    return (*letters, *(d for d in DIMS if d not in letters))


def template_to_yaml(template: Template) -> str:
    """The template as a YAML file that `load_template` reads."""
    return yaml.safe_dump(template_to_dict(template), sort_keys=False, width=110, default_flow_style=None)


_CLASS_OF_KIND = {"dram": "dram", "sram": "sram", "rf": "regfile", "reg": "register", "dummy": "none"}


_STORAGE_CLASSES = ("sram", "regfile", "register", "fixed", "none")


_CLASSES_OF_KIND = {
    "dram": ("dram", "fixed", "none"),
    **dict.fromkeys(("sram", "rf", "reg"), _STORAGE_CLASSES),
    "dummy": ("none",),
}


_ROWS_OF_KIND = {"dram": 0, "sram": 16, "rf": 16, "reg": 0, "dummy": 0}
