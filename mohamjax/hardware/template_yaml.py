"""Accelerator templates as YAML and plain data.

A file lists the levels outermost first, as people draw them; in Python they are innermost first, as everywhere in
mohamjax. `templates/example.yaml` is a commented example of a user's own template.
"""

from __future__ import annotations

import functools
import importlib.resources
import math
import os
import pathlib
from collections import abc
from collections.abc import Callable, Sequence
from importlib.resources.abc import Traversable
from typing import Annotated, Literal

import yaml
from msgspec import Meta

from mohamjax.dims import DATA_SPACES, DIMS, LAYER_TYPES, DataSpace, Dim, LayerType
from mohamjax.errors import InputError
from mohamjax.forms import Amount, Form, Index, Name, Whole, read_form
from mohamjax.hardware.technology import DRAM_TYPES, ComponentClass, Costs, DramType
from mohamjax.hardware.template import (
    Component,
    Dataflow,
    Kind,
    Level,
    LevelRule,
    Limits,
    Mac,
    Template,
    fits,
    template_to_dict,
)
from mohamjax.reader import as_given, file_like, found, read_yaml, suggestion

_PACKAGED = ("eyeriss", "simba", "shidiannao")

_VARIANTS = ("eyeriss-released", "simba-medea")


def packaged_templates() -> tuple[str, ...]:
    """Names of the templates that a search takes by default (Table 4 of the MOHaM paper)."""
    return _PACKAGED


def named_templates() -> tuple[str, ...]:
    """Names that `load_template` knows: the default templates, then variants for comparisons."""
    return _PACKAGED + _VARIANTS


def _packaged_file(name: str) -> Traversable:
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
    if text in named_templates():
        with importlib.resources.as_file(_packaged_file(text)) as path:
            return template_from_dict(read_yaml(path), file=text)
    path = pathlib.Path(text)
    if not found(path) and path.suffix.lower() not in (".yaml", ".yml") and len(path.parts) == 1:
        near = file_like(path, (".yaml", ".yml"))
        packaged = suggestion(text, named_templates(), "packaged templates") + " (or give the path of a YAML file)"
        raise InputError(
            f"no packaged template and no file is called {text!r}",
            item="templates",
            remedy=packaged if near is None else f"did you mean the file {near}?",
        )
    return template_from_dict(read_yaml(path), file=path)


def as_template(given: Template | str | os.PathLike[str]) -> Template:
    """A template from what Python functions take: a name, the path of a file, or a template, which is then checked too.

    Raises:
        InputError: As `load_template`, or a file could not hold the given template.
        TypeError: It is none of these.
    """
    template = as_given(given, "template", Template, load_template)
    if template is given:
        template_from_dict(template_to_dict(template), file=f"template {template.name!r}")
    return template


def load_templates(names_or_paths: Sequence[str | pathlib.Path] = _PACKAGED) -> tuple[Template, ...]:
    """Read several templates, whose names must differ.

    Raises:
        InputError: As `load_template`, or if none is given or two have the same name.
    """
    if not names_or_paths:
        raise InputError("no template is given", item="templates", remedy=f"packaged: {', '.join(named_templates())}")
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


class MacForm(Form):
    """The multiply-accumulate units."""

    width_bits: Whole | None = None
    accumulator_bits: Whole | None = None
    energy_pJ: Amount | None = None
    area_um2: Amount | None = None


Rate = Annotated[float, Meta(gt=0)] | Literal["unlimited"] | None


class LevelForm(Form):
    """A level of the memory hierarchy; `example_yaml` explains every key."""

    name: Name
    kind: Kind
    component: ComponentClass | None = None
    ports: Annotated[int, Meta(ge=1, le=2)] | None = None
    dram_type: DramType | None = None
    costs: Costs | None = None
    keep: list[DataSpace] | None = None
    may_bypass: (
        Annotated[list[DataSpace], Meta(description="of those that it keeps, which a mapping may let pass by instead")]
        | None
    ) = None
    capacity_words: Whole | None = None
    word_bits: Whole | None = None
    block_words: Whole | None = None
    fanout: Annotated[tuple[Whole, Whole], Meta(description="[X, Y], the children along the two axes")] | None = None
    bandwidth: Annotated[
        Annotated[list[Rate], Meta(min_length=2, max_length=2)] | Rate,
        Meta(description="words per cycle as one number, or as [read, write]"),
    ] = None
    shared_bandwidth: Annotated[
        Rate, Meta(description="words per cycle of one port that reads, fills and updates share")
    ] = None
    hop_energy_pJ: Amount | Literal["wire"] | None = None
    granularity_rows: Index | None = None


class LimitsForm(Form):
    """Largest factors by dimension letter."""

    G: Whole | Literal["any"] | None = None
    N: Whole | Literal["any"] | None = None
    K: Whole | Literal["any"] | None = None
    C: Whole | Literal["any"] | None = None
    P: Whole | Literal["any"] | None = None
    Q: Whole | Literal["any"] | None = None
    R: Whole | Literal["any"] | None = None
    S: Whole | Literal["any"] | None = None


Loops = Annotated[
    Literal["all", "none"] | list[Dim] | LimitsForm | None,
    Meta(description="`all`, `none`, dimension letters such as [C, R], or largest factors such as {K: 4, C: any}"),
]


class SpatialForm(Form):
    """Loops over the children of a level along both axes."""

    X: Loops = None
    Y: Loops = None


class RuleForm(Form):
    """Which loops a level may have."""

    temporal: Loops = None
    spatial: SpatialForm | None = None
    order: Annotated[list[Dim], Meta(description="dimension letters from the innermost loop outward")] | None = None


class DataflowForm(Form, kw_only=True):
    """Rules by name of the level, and the layer types that run under them."""

    layer_types: Annotated[list[LayerType], Meta(min_length=1, description="one layer type or more")] | None = None
    levels: dict[str, RuleForm | None]


class TemplateForm(Form, kw_only=True):
    """A `template/1` file, levels outermost first."""

    format: Literal["template/1"] | None = None
    name: Name
    description: str | None = None
    sizes: Literal["free", "fixed"] | None = None
    word_bits: Whole | None = None
    mac: MacForm | None = None
    levels: Annotated[
        list[LevelForm],
        Meta(min_length=2, description="at least the off-chip memory and one on-chip level, outermost first"),
    ]
    dataflows: (
        Annotated[
            list[DataflowForm],
            Meta(min_length=1, description="a dataflow, or leave out the key to allow every loop everywhere"),
        ]
        | None
    ) = None


def template_from_dict(data: abc.Mapping[str, object], *, file: object = None) -> Template:
    """Build and check a template from what a YAML file holds (`example_yaml` documents every key).

    Args:
        data: The mapping, levels outermost first.
        file: Where it comes from, for errors.

    Raises:
        InputError: If a key is unknown or missing, a value has the wrong type or is out of range, a level or letter
            is unknown or repeated, the outermost level is not an unlimited DRAM that keeps everything, or no layer can
            ever fit.
    """
    levels = data.get("levels") if isinstance(data, abc.Mapping) else None
    for i, level in enumerate(levels if isinstance(levels, list) else ()):
        kind = level.get("kind") if isinstance(level, abc.Mapping) else None
        if isinstance(kind, str) and kind in _WRITTEN_OF_CLASS:
            told = f"{kind!r} is a component, not a kind"
            raise _fault(file, "", f"levels[{i}].kind", told, f"write {_WRITTEN_OF_CLASS[kind]}")
    return template_of(read_form(data, TemplateForm, file=file), file=file)


OTHER_PARTS = ("MACs", "mapping", "networks", "package", "static")
"""Names beside those of levels in explanations: parts of energy and area, and what binds a layer."""


def template_of(form: TemplateForm, *, file: object = None, where: str = "") -> Template:
    """A template from its form.

    Args:
        form: The form.
        file: Where it comes from, for errors.
        where: Its path there, with a dot at the end; empty at the top.

    Raises:
        InputError: As `template_from_dict`, for what the types of a form cannot check.
    """
    fail = functools.partial(_fault, file, where)
    if form.name == "chiplets":
        raise fail("name", "is 'chiplets', whose column of `front.csv` counts all chiplets", "use another name")
    word_bits = form.word_bits or 8
    mac = form.mac or MacForm()
    width = mac.width_bits or word_bits
    for i, level in enumerate(form.levels):
        _check_level(level, i == 0, functools.partial(_fault, file, f"{where}levels[{i}]."))
        if level.name in (other.name for other in form.levels[:i]):
            raise fail(f"levels[{i}].name", f"a second level is called {level.name!r}", "give every level its own name")
        if level.name in OTHER_PARTS:
            told = f"{level.name!r} is what explanations call another part of a chiplet"
            raise fail(f"levels[{i}].name", told, f"use no name among {', '.join(OTHER_PARTS)}")
    levels = tuple(_level(level, word_bits) for level in form.levels)[::-1]
    template = Template(
        name=form.name,
        levels=levels,
        mac=Mac(width, mac.accumulator_bits or 24 + 2 * (width - 8), mac.energy_pJ, mac.area_um2),
        dataflows=_dataflows(form.dataflows, levels, fail),
        description=(form.description or "").strip(),
        sizes=form.sizes or "free",
    )
    for layer_type in template.layer_types:
        reason = fits(template, layer_type)
        if reason is not None:
            raise InputError(
                reason,
                file=file,
                item=f"{where}template {template.name}",
                remedy="raise the capacity or keep fewer data spaces there",
            )
    return template


def _fault(file: object, where: str, place: str, message: str, remedy: str) -> InputError:
    return InputError(message, file=file, item=f"{where}{place}", remedy=remedy)


def _check_level(form: LevelForm, outermost: bool, fail: Callable[[str, str, str], InputError]) -> None:
    """Refuses settings of a level that do not go together."""
    kind, component, keep = form.kind, form.component or _CLASS_OF_KIND[form.kind], form.keep or ()
    if outermost != (kind == "dram"):
        raise fail(
            "kind",
            f"the outermost level is of kind {kind!r}" if outermost else "a level of kind 'dram' inside another",
            "make the first level listed, and no other, the off-chip memory: kind dram",
        )
    if outermost and form.keep is not None and not set(keep) >= set(DATA_SPACES):
        lost = next(space for space in DATA_SPACES if space not in keep)
        raise fail("keep", f"the outermost level does not keep {lost}", f"let it keep all of {', '.join(DATA_SPACES)}")
    stray = [space for space in form.may_bypass or () if outermost or space not in keep]
    if stray:
        raise fail(
            "may_bypass",
            f"the off-chip memory keeps {stray[0]} always" if outermost else f"the level does not keep {stray[0]}",
            "name data spaces that `keep` names, of an on-chip level",
        )
    if kind == "dummy" and keep:
        raise fail("keep", "a level of kind 'dummy' stores nothing", "remove `keep`, or choose another kind")
    if kind not in ("sram", "rf", "reg"):
        if form.capacity_words is not None:
            raise fail("capacity_words", f"a level of kind {kind!r} has no capacity limit", "remove it")
    elif form.capacity_words is None:
        raise fail("capacity_words", "is missing", "add `capacity_words: ...`")
    elif form.capacity_words < (form.block_words or 1):
        raise fail(
            "capacity_words",
            f"{form.capacity_words} words are less than one access of {form.block_words} words",
            "raise capacity_words or lower block_words",
        )
    if component not in _CLASSES_OF_KIND[kind]:
        made = ", ".join(_CLASSES_OF_KIND[kind])
        raise fail("component", f"a level of kind {kind!r} cannot be made of {component!r}", f"choose out of {made}")
    for key, owner in (("ports", "sram"), ("dram_type", "dram"), ("costs", "fixed")):
        if getattr(form, key) is not None and component != owner:
            told = f"is for the component class {owner!r}, the level has {component!r}"
            raise fail(key, told, f"remove it or write `component: {owner}`")
    if component == "fixed" and form.costs is None:
        raise fail("costs", "is missing", "add `costs: ...`")


def _level(form: LevelForm, word_bits: int) -> Level:
    kept = DATA_SPACES if form.keep is None and form.kind == "dram" else form.keep or ()
    free = form.may_bypass or ()
    cost = form.costs
    fixed = (0.0, 0.0, 0.0) if cost is None else (cost.read_energy_pJ, cost.write_energy_pJ, cost.area_um2)
    component = form.component or _CLASS_OF_KIND[form.kind]
    read, write = form.bandwidth if isinstance(form.bandwidth, list) else (form.bandwidth, form.bandwidth)
    rows = form.granularity_rows
    return Level(
        name=form.name,
        kind=form.kind,
        component=Component(component, form.ports or 1, form.dram_type or DRAM_TYPES[0], fixed),
        keep=(DATA_SPACES[0] in kept, DATA_SPACES[1] in kept, DATA_SPACES[2] in kept),
        capacity_words=form.capacity_words,
        word_bits=form.word_bits or word_bits,
        block_words=form.block_words or 1,
        fanout=form.fanout or (1, 1),
        bandwidth=(_finite(read), _finite(write)),
        shared_bandwidth=_finite(form.shared_bandwidth),
        hop_energy_pJ=None if form.hop_energy_pJ == "wire" else form.hop_energy_pJ or 0.0,
        granularity_rows=_ROWS_OF_KIND[form.kind] if rows is None else rows,
        may_bypass=(DATA_SPACES[0] in free, DATA_SPACES[1] in free, DATA_SPACES[2] in free),
    )


def _finite(rate: float | str | None) -> float | None:
    """A bandwidth; None where it is unlimited."""
    return rate if isinstance(rate, int | float) and math.isfinite(rate) else None


def _dataflows(
    forms: Sequence[DataflowForm] | None, levels: tuple[Level, ...], fail: Callable[[str, str, str], InputError]
) -> tuple[Dataflow, ...]:
    """The dataflows; without any, every loop is allowed everywhere for every layer type."""
    everything = dict.fromkeys(DIMS)
    if forms is None:
        free = LevelRule(dict(everything), dict(everything), dict(everything))
        return (Dataflow(LAYER_TYPES, (free,) * len(levels)),)
    names = [level.name for level in levels]
    flows: list[Dataflow] = []
    taken: dict[str, int] = {}
    for i, form in enumerate(forms):
        types = LAYER_TYPES if form.layer_types is None else tuple(form.layer_types)
        for j, layer_type in enumerate(types):
            if layer_type in taken:
                told = f"{layer_type!r} is named twice, first in dataflows[{taken[layer_type]}]"
                raise fail(f"dataflows[{i}].layer_types[{j}]", told, "name every layer type once")
            taken[layer_type] = i
        for name in form.levels:
            if name not in names:
                item = f"dataflows[{i}].levels.{name}"
                raise fail(item, f"unknown key {name!r}", suggestion(name, names, "known keys"))
        rules = tuple(_rule(form.levels.get(name), f"dataflows[{i}].levels.{name}", fail) for name in names)
        if rules[-1].temporal != everything:
            raise fail(
                f"dataflows[{i}].levels.{names[-1]}.temporal",
                "the outermost level must allow every dimension without limit, or some layers have no mapping",
                "write `temporal: all`",
            )
        flows.append(Dataflow(types, rules))
    return tuple(flows)


def _rule(form: RuleForm | None, where: str, fail: Callable[[str, str, str], InputError]) -> LevelRule:
    """The rule of one level; a level that is not listed has no loops."""
    form = form or RuleForm()
    spatial, order = form.spatial or SpatialForm(), form.order or []
    for i, letter in enumerate(order):
        if letter in order[:i]:
            raise fail(f"{where}.order[{i}]", f"{letter} occurs twice", "name it once")
    return LevelRule(
        temporal=_limits(form.temporal, f"{where}.temporal", fail),
        spatial_x=_limits(spatial.X, f"{where}.spatial.X", fail),
        spatial_y=_limits(spatial.Y, f"{where}.spatial.Y", fail),
        order=tuple(order),
    )


def _limits(loops: Loops, where: str, fail: Callable[[str, str, str], InputError]) -> Limits:
    """Largest factors by letter, None without limit."""
    if loops is None or loops == "none":
        return {}
    if loops == "all":
        return dict.fromkeys(DIMS)
    if isinstance(loops, LimitsForm):
        given = {d: getattr(loops, d) for d in DIMS}
        return {d: None if limit == "any" else limit for d, limit in given.items() if limit is not None}
    twice = [letter for i, letter in enumerate(loops) if letter in loops[:i]]
    if twice:
        raise fail(where, f"{twice[0]} occurs twice", "name it once")
    return {d: None for d in DIMS if d in loops}


def template_to_yaml(template: Template) -> str:
    """The template as a YAML file that `load_template` reads."""
    return yaml.safe_dump(template_to_dict(template), sort_keys=False, width=110, default_flow_style=None)


_CLASS_OF_KIND = {"dram": "dram", "sram": "sram", "rf": "regfile", "reg": "register", "dummy": "none"}


_WRITTEN_OF_CLASS = {
    **{own: f"`kind: {kind}`" for kind, own in _CLASS_OF_KIND.items() if own != kind},
    "fixed": "`kind: sram`, rf or reg, and `component: fixed` beside it",
}
"""What to write instead of a component class that is given as a kind."""


_STORAGE_CLASSES = ("sram", "regfile", "register", "fixed", "none")


_CLASSES_OF_KIND = {
    "dram": ("dram", "fixed", "none"),
    **dict.fromkeys(("sram", "rf", "reg"), _STORAGE_CLASSES),
    "dummy": ("none",),
}


_ROWS_OF_KIND = {"dram": 0, "sram": 16, "rf": 16, "reg": 0, "dummy": 0}
