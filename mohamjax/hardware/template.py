"""Accelerator templates: structure, largest sizes and dataflow constraints of a sub-accelerator.

Levels are innermost first, as everywhere in mohamjax.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from mohamjax.dims import DATA_SPACES, DIMS, LAYER_TYPES
from mohamjax.errors import InputError
from mohamjax.forms import Amount, Index, Positive, Text, Whole, check_fields
from mohamjax.hardware.technology import DRAM_TYPES, ComponentClass, DramType
from mohamjax.runtime.struct import shown_briefly

Kind = Literal["dram", "sram", "rf", "reg", "dummy"]

KINDS: tuple[str, ...] = get_args(Kind)
"""Kinds of levels: off-chip memory, SRAM, register file, registers, and one that stores nothing."""


Limits = dict[str, int | None]
"""Dimension letter -> largest factor, None = unlimited; a missing letter is not allowed (factor 1)."""


_amount: Any = Amount  # for the type checker, which does not accept them in a union
_index: Any = Index
_positive: Any = Positive

_OF_COMPONENT: dict[str, Any] = {
    "cls": ComponentClass,
    "ports": Annotated[int, Meta(ge=1, le=2)],
    "dram_type": DramType,
    "fixed": tuple[Amount, Amount, Amount],
}
_OF_MAC: dict[str, Any] = {
    "width_bits": Whole,
    "accumulator_bits": Whole,
    "energy_pJ": _amount | None,
    "area_um2": _amount | None,
}
_Three = tuple[bool, bool, bool]

_OF_LEVEL: dict[str, Any] = {
    "name": Text,
    "kind": Kind,
    "keep": _Three,
    "capacity_words": _index | None,
    "word_bits": Whole,
    "block_words": Whole,
    "fanout": tuple[Whole, Whole],
    "bandwidth": tuple[_positive | None, _positive | None],
    "shared_bandwidth": _positive | None,
    "hop_energy_pJ": _amount | None,
    "granularity_rows": Index,
    "may_bypass": _Three,
}
"""What the fields of `Level` may be; a level that only distributes has a capacity of 0."""


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

    def __post_init__(self) -> None:
        """Checks the fields against the types that files allow."""
        check_fields(self, _OF_COMPONENT, "component")


@dataclasses.dataclass(frozen=True)
class Level:
    """One storage level at its largest size.

    Attributes:
        name: Unique within the template.
        kind: One of `KINDS`; all but `dram` add partial sums in place.
        component: What it is made of.
        keep: Whether it stores (weights, inputs, outputs).
        capacity_words: Words per instance, shared by the data spaces that it keeps; None = unlimited.
        word_bits: Bits of a word.
        block_words: Words of one physical access (one row).
        fanout: Children (instances of the next inner level, MACs for the innermost) along X and Y.
        bandwidth: Words per cycle and instance read and written; None = unlimited.
        shared_bandwidth: Words per cycle and instance of one port that all reads, fills and updates share, beside the
            limits of `bandwidth`; None = unlimited.
        hop_energy_pJ: Energy per word and hop of the network to its children; None = wires, whose energy follows
            from the technology and from the width of a child's tile.
        granularity_rows: Capacities are multiples of this many rows; 0 = any number of words.
        may_bypass: Which of the data spaces that it stores a mapping may let pass by instead.
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
    shared_bandwidth: float | None = None
    hop_energy_pJ: float | None = 0.0
    granularity_rows: int = 0
    may_bypass: tuple[bool, bool, bool] = (False, False, False)

    def __post_init__(self) -> None:
        """Checks the fields against the types that files allow."""
        check_fields(self, _OF_LEVEL, f"level {self.name}")


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

    def __post_init__(self) -> None:
        """Checks the fields against the types that files allow."""
        check_fields(self, _OF_MAC, "mac")


@dataclasses.dataclass(frozen=True)
class LevelRule:
    """Dataflow constraints of one level: the largest factors of its loops ("at most, and dividing the bound").

    Attributes:
        temporal: Largest temporal factor per dimension letter (None = unlimited); a missing letter = 1.
        spatial_x: Largest factors of the loops over its children along X.
        spatial_y: Largest factors of the loops over its children along Y.
        order: Letters of the innermost temporal loops, innermost first; the others lie outside in any order.
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


@shown_briefly
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
    def bypasses(self) -> bool:
        """Whether a mapping may choose any bypass."""
        return any(any(level.may_bypass) for level in self.levels)

    @functools.cached_property
    def level_names(self) -> tuple[str, ...]:
        """Names of the levels, innermost first."""
        return tuple(level.name for level in self.levels)

    def runs(self, layer_type: str) -> bool:
        """Whether it runs layers of this type."""
        return any(layer_type in flow.layer_types for flow in self.dataflows)

    def rule(self, layer_type: str) -> tuple[LevelRule, ...]:
        """Constraints for a layer type, one per level, innermost first.

        Steps of a recurrent layer wait for each other: they are never spread in space, even where the template says so.

        Raises:
            InputError: If it does not run layers of this type.
        """
        for flow in self.dataflows:
            if layer_type in flow.layer_types:
                return tuple(map(_in_turn, flow.rules)) if layer_type == "rnn" else flow.rules
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


def _in_turn(rule: LevelRule) -> LevelRule:
    """The rule with the steps of a recurrent layer (P) one after the other."""
    x, y = ({d: most for d, most in limits.items() if d != "P"} for limits in (rule.spatial_x, rule.spatial_y))
    return dataclasses.replace(rule, spatial_x=x, spatial_y=y)


def fits(template: Template, layer_type: str, shape: object = None) -> str | None:
    """Why no layer of this type can ever fit on the template, or None if the minimal mapping fits.

    The minimal mapping has every factor at the outermost level, so each level holds one word per data space that it
    keeps. Whether it fits depends on the template alone; if it does, every shape has a mapping.

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
    """The template for operands of another width, with as many bits in its buffers and as many wires in its buses.

    Operand levels (those as wide as the MACs) take the new word: their capacities, accesses and bandwidths in words
    shrink or grow so that the bits stay the same; capacities and accesses are at least one word. Accumulators keep
    their words, which become wider by twice the difference, as products do. A stated energy per hop is that of a word,
    and grows with it; the other costs that a template states itself stay.

    Args:
        template: the template.
        bits: width of the operands.
    """
    old = template.mac.width_bits
    if bits == old:
        return template

    def hop(level: Level, word: int) -> float | None:
        return None if level.hop_energy_pJ is None else level.hop_energy_pJ * word / level.word_bits

    def reworded(level: Level) -> Level:
        if level.word_bits != old:
            wide = max(level.word_bits + 2 * (bits - old), 1)
            return dataclasses.replace(level, word_bits=wide, hop_energy_pJ=hop(level, wide))
        read, write, shared = (
            None if b is None else b * old / bits for b in (*level.bandwidth, level.shared_bandwidth)
        )
        block = max(level.block_words * old // bits, 1)
        words = None if level.capacity_words is None else max(level.capacity_words * old // bits, block)
        return dataclasses.replace(
            level,
            word_bits=bits,
            hop_energy_pJ=hop(level, bits),
            block_words=block,
            capacity_words=words,
            bandwidth=(read, write),
            shared_bandwidth=shared,
        )

    wider = max(template.mac.accumulator_bits + 2 * (bits - old), 1)
    return dataclasses.replace(
        template,
        levels=tuple(reworded(level) for level in template.levels),
        mac=dataclasses.replace(template.mac, width_bits=bits, accumulator_bits=wider),
    )


COST_KEYS = ("read_energy_pJ", "write_energy_pJ", "area_um2")


def template_to_dict(template: Template) -> dict[str, object]:
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


def _level_to_dict(level: Level) -> dict[str, object]:
    component = level.component
    out: dict[str, object] = {"name": level.name, "kind": level.kind, "component": component.cls}
    if component.cls == "sram":
        out["ports"] = component.ports
    elif component.cls == "dram":
        out["dram_type"] = component.dram_type
    elif component.cls == "fixed":
        out["costs"] = dict(zip(COST_KEYS, component.fixed, strict=True))
    out["keep"] = [space for space, kept in zip(DATA_SPACES, level.keep, strict=True) if kept]
    if any(level.may_bypass):
        out["may_bypass"] = [space for space, free in zip(DATA_SPACES, level.may_bypass, strict=True) if free]
    if level.capacity_words is not None:
        out["capacity_words"] = level.capacity_words
    out |= {"word_bits": level.word_bits, "block_words": level.block_words, "fanout": list(level.fanout)}
    if level.bandwidth != (None, None):
        out["bandwidth"] = list(level.bandwidth)
    if level.shared_bandwidth is not None:
        out["shared_bandwidth"] = level.shared_bandwidth
    out["hop_energy_pJ"] = "wire" if level.hop_energy_pJ is None else level.hop_energy_pJ
    out["granularity_rows"] = level.granularity_rows
    return out


def _rule_to_dict(rule: LevelRule) -> dict[str, object]:
    out: dict[str, object] = {"temporal": _limits_to_data(rule.temporal)}
    spatial = {"X": _limits_to_data(rule.spatial_x), "Y": _limits_to_data(rule.spatial_y)}
    if any(value != "none" for value in spatial.values()):
        out["spatial"] = spatial
    if rule.order:
        out["order"] = list(rule.order)
    return out


def _limits_to_data(limits: Limits) -> str | list[str] | dict[str, int | str]:
    if not limits:
        return "none"
    if all(limit is None for limit in limits.values()):
        return "all" if len(limits) == len(DIMS) else list(limits)
    return {letter: "any" if limit is None else limit for letter, limit in limits.items()}
