"""The hardware parameters of what-if questions, by name: their present values, and how variants change them.

`docs/concepts/what-if.md` lists them. A parameter takes factors, and also values if it stands for a single number.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections import abc
from collections.abc import Callable, Iterable
from types import EllipsisType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import core as jax_core

from mohamjax.errors import Argument, InputError
from mohamjax.hardware import PackageParameters, PackageTables, package_tables
from mohamjax.whatif.variant import Hardware, Leaf, Variant, in_precision

Number = float | jax.Array
"""A factor or a value; traced where derivatives are taken with respect to it."""

Scale = Callable[[Variant, Number], Variant]


@dataclasses.dataclass(frozen=True, repr=False)
class Parameter:
    """One number of the hardware.

    Attributes:
        name: e.g. `nop.hop_energy`.
        kind: `clock`, `bandwidth`, `energy`, `area`, `count` or `size`.
        unit: unit of its value, as in column names; empty where it has none.
        value: its present value; None where it stands for several numbers, or the value depends on a size.
        touches: the numbers that it changes; two parameters of a grid must not change the same number.
        scale: returns the variant with this parameter times a factor; traceable except for counts and sizes.
        assign: returns the variant with this value; None where it takes factors alone.
        whole: whether values are whole numbers of at least 1.
    """

    name: str
    kind: str
    unit: str
    value: float | None
    touches: frozenset[object]
    scale: Scale
    assign: Scale | None = None
    whole: bool = False

    def __repr__(self) -> str:
        """Name, kind, and value with its unit."""
        told = "" if self.value is None else f", {f'{self.value:g} {self.unit}'.strip()}"
        return f"Parameter({self.name!r}, {self.kind}{told})"

    @property
    def least(self) -> float:
        """The least value; bandwidths and the clock must be above it."""
        return 1.0 if self.whole else 0.0

    def column(self, factor: bool) -> str:
        """Name of its column in a table."""
        return f"{self.name}_factor" if factor else f"{self.name}_{self.unit}" if self.unit else self.name


def _like(leaf: Leaf, value: Number) -> Leaf:
    """The value in the shape and dtype of a leaf."""
    if isinstance(value, jax_core.Tracer):
        return jnp.broadcast_to(value, np.shape(leaf)).astype(leaf.dtype)
    return np.full(np.shape(leaf), value, np.asarray(leaf).dtype)


def _in(part: str, name: str) -> tuple[Scale, Scale]:
    """Scales and assigns a leaf of `Variant.package` or `.technology`, or of the variant itself where `part` is ""."""

    def edited(variant: Variant, change: Callable[[Leaf], Leaf]) -> Variant:
        inner = getattr(variant, part) if part else variant
        changed = dataclasses.replace(inner, **{name: change(getattr(inner, name))})
        return dataclasses.replace(variant, **{part: changed}) if part else changed

    def scale(variant: Variant, factor: Number) -> Variant:
        return edited(variant, lambda leaf: leaf * factor)

    def assign(variant: Variant, value: Number) -> Variant:
        return edited(variant, lambda leaf: _like(leaf, value))

    return scale, assign


_COSTS = {"energy": np.array([1.0, 1.0, 0.0]), "area": np.array([0.0, 0.0, 1.0])}
"""Which of (read energy, write energy, area) a parameter changes."""


def _component(names: tuple[str, ...], which: str) -> tuple[Scale, Scale]:
    """Scales and assigns the energies or the area of components of the technology."""

    def edited(variant: Variant, change: Callable[[Leaf, np.ndarray], Leaf]) -> Variant:
        own = variant.technology
        changed = {name: change(getattr(own, name), _COSTS[which].astype(own.register.dtype)) for name in names}
        return dataclasses.replace(variant, technology=dataclasses.replace(own, **changed))

    def scale(variant: Variant, factor: Number) -> Variant:
        return edited(variant, lambda leaf, mask: leaf * (mask * factor + (1 - mask)))

    def assign(variant: Variant, value: Number) -> Variant:
        return edited(variant, lambda leaf, mask: mask * value + (1 - mask) * leaf)

    return scale, assign


def _sram(which: str) -> Scale:
    def scale(variant: Variant, factor: Number) -> Variant:
        own = variant.technology
        log2 = jnp.log2 if isinstance(factor, jax_core.Tracer) else np.log2
        more = _COSTS[which].astype(own.register.dtype) * log2(factor)
        return dataclasses.replace(variant, technology=dataclasses.replace(own, sram=own.sram + more))

    return scale


def _stated(which: str, memory: bool) -> Scale:
    """Scales the energies or areas that templates state; with `memory`, those of their off-chip levels too."""

    def scale(variant: Variant, factor: Number) -> Variant:
        mask = np.array([which == "energy", which == "area"], variant.stated.dtype)
        stated = variant.stated * (mask * factor + (1 - mask))
        more = {"memory": variant.memory * factor} if memory and which == "energy" else {}
        return dataclasses.replace(variant, stated=stated, **more)

    return scale


def _memory(energy: float) -> tuple[Scale, Scale]:
    """Scales and assigns the energy that a package states for its memory, `energy` pJ per bit now."""

    def scale(variant: Variant, factor: Number) -> Variant:
        return dataclasses.replace(variant, memory=variant.memory * factor)

    def assign(variant: Variant, value: Number) -> Variant:
        return dataclasses.replace(variant, memory=_like(variant.memory, value / energy))

    return scale, assign


def _size(at: tuple[int | EllipsisType, ...]) -> tuple[Scale, Scale]:
    """Scales and assigns sizes at an index of `[T, V, 3]`."""

    def scale(variant: Variant, factor: Number) -> Variant:
        sizes = np.array(variant.size_factor)
        sizes[at] *= factor
        return dataclasses.replace(variant, size_factor=sizes)

    def assign(variant: Variant, value: Number) -> Variant:
        sizes = np.array(variant.size)
        sizes[at] = value
        return dataclasses.replace(variant, size=sizes)

    return scale, assign


def _interfaces(parameters: PackageParameters, dtype: npt.DTypeLike) -> tuple[Scale, Scale]:
    """Scales and assigns the number of memory interfaces, of which a row of the mesh has at most two."""

    def placed(variant: Variant, counts: tuple[tuple[int | None, int], ...]) -> Variant:
        own = dataclasses.replace(parameters, interface_counts=counts)
        tables = _tables_of(own, dtype)
        bandwidth = np.full(own.max_interfaces, variant.package.interface_bandwidth[0], dtype)
        package = dataclasses.replace(variant.package, tables=tables, interface_bandwidth=bandwidth)
        return dataclasses.replace(variant, package=package)

    def scale(variant: Variant, factor: Number) -> Variant:
        counts = parameters.interface_counts
        return placed(variant, tuple((most, max(1, round(number * float(factor)))) for most, number in counts))

    def assign(variant: Variant, value: Number) -> Variant:
        return placed(variant, ((None, int(value)),))

    return scale, assign


def _tables_of(package: PackageParameters, dtype: npt.DTypeLike) -> PackageTables:
    """The placement tables with NumPy leaves."""
    with in_precision(dtype):
        return jax.device_get(package_tables(package, dtype))


_ONE = ("register", "comparator", "address_generator", "multiplier", "adder")
_NAMED: dict[str, tuple[str, ...]] = {name: (name,) for name in _ONE} | {"mac": ("multiplier", "adder")}


def known_parameters(hardware: Hardware) -> dict[str, Parameter]:
    """All parameters of the hardware of designs, by name, in a fixed order."""
    package, templates, technology = hardware.package, hardware.templates, hardware.technology
    found: list[Parameter] = []

    def add(
        name: str,
        kind: str,
        unit: str,
        value: float | None,
        change: tuple[Scale, Scale | None],
        touches: Iterable[object] = (),
        whole: bool = False,
    ) -> None:
        scale, assign = change
        found.append(Parameter(name, kind, unit, value, frozenset(touches or (name,)), scale, assign, whole))

    add("clock", "clock", "GHz", 1.0, _in("", "clock"))
    bandwidths = [
        "interface_bandwidth",
        *(["link_bandwidth", "dram_bandwidth"] if package.contention != "interface" else []),
    ]
    for name in bandwidths:
        add(f"nop.{name}", "bandwidth", "GB_per_s", getattr(package, name), _in("package", name))
    add("nop.interfaces", "count", "", None, _interfaces(package, np.asarray(technology.register).dtype), whole=True)
    add("nop.hop_energy", "energy", "pJ_per_bit", package.hop_energy, _in("package", "hop_energy"))
    if energy := _memory_energy(package):  # of a memory that costs nothing, no factor is another energy
        add("nop.memory_energy", "energy", "pJ_per_bit", energy, _memory(energy))
    tile_area = package.router_area + package.transceiver_area
    add("nop.tile_area", "area", "um2", tile_area, _in("package", "tile_area"))

    for which, unit in (("energy", "pJ"), ("area", "um2")):
        add(f"technology.sram_{which}", which, "", None, (_sram(which), None))
        for name, parts in _NAMED.items():
            scale, assign = _component(parts, which)
            values = np.asarray(getattr(technology, parts[0]))[_COSTS[which] > 0]
            # An operation has one energy: of a multiplier's or an adder's numbers, it is the first.
            single = len(parts) == 1
            one_number = single and (which == "area" or name in _ONE[3:] or np.ptp(values) == 0)
            value = float(values[0]) if one_number else None
            touches = [f"technology.{part}_{which}" for part in parts]
            add(f"technology.{name}_{which}", which, unit if single else "", value,
                (scale, assign if single else None), touches)  # fmt: skip
    add("technology.wire_energy", "energy", "pJ_per_bit_and_mm", float(technology.wire[0]),
        _component(("wire",), "energy"))  # fmt: skip
    if _memory_energy(package) is None:
        add("technology.dram_energy", "energy", "pJ_per_bit", None, _in("technology", "dram"))

    stated = {
        "energy": [x for t in templates for x in (t.mac.energy_pJ, *(level.hop_energy_pJ for level in t.levels))],
        "area": [t.mac.area_um2 for t in templates],
    }
    of_templates = package.memory is None
    own = [level for t in templates for level in (t.levels if of_templates else t.levels[:-1])]
    fixed = any(level.component.cls == "fixed" for level in own)
    for which, numbers in stated.items():
        if fixed or any(number is not None for number in numbers):
            add(f"templates.stated_{which}", which, "", None, (_stated(which, of_templates), None))

    places = [(t, v) for t, one in enumerate(templates) for v, level in enumerate(one.levels)
              if level.capacity_words is not None and level.kind != "dummy"]  # fmt: skip
    add("chiplet.capacity", "size", "", None, (_size((..., 0))[0], None), touches=[("size", *at, 0) for at in places])
    for t, one in enumerate(templates):
        for v, level in enumerate(one.levels):
            for axis, (size, unit) in enumerate((("capacity", "words"), ("fanout_x", ""), ("fanout_y", ""))):
                if (t, v) not in places if axis == 0 else level.fanout[axis - 1] == 1:
                    continue
                add(f"chiplet.{one.name}.{level.name}.{size}", "size", unit, None, _size((t, v, axis)),
                    touches=[("size", t, v, axis)], whole=True)  # fmt: skip
    return {one.name: one for one in found}


def _memory_energy(package: PackageParameters) -> float | None:
    """pJ per bit that the package states for its memory; None where the energy comes from the technology."""
    return None if package.memory is None else package.memory.energy


def apart(known: abc.Mapping[str, Parameter]) -> list[Parameter]:
    """The parameters without those that are part of another: a MAC stands for its multiplier and its adder."""
    parts = {name for one in known.values() if len(one.touches) > 1 for name in one.touches}
    return [one for one in known.values() if one.name not in parts]


_NEAR = 6
"""Most parameters that an error message names, of those whose names contain what was asked for."""


def parameter(known: abc.Mapping[str, Parameter], name: str, argument: str | Argument) -> Parameter:
    """The parameter with this name.

    Args:
        known: from `known_parameters`.
        name: the name; the prefix `nop.` of package parameters may be left out, so that bandwidths can be named as in
            `Package` and in package files.
        argument: where it was written, for error messages.

    Raises:
        InputError: there is no such parameter.
    """
    name = str(name)
    for full in (name, f"nop.{name}"):
        if full in known:
            return known[full]
    if name.removeprefix("nop.") in ("link_bandwidth", "dram_bandwidth"):
        raise InputError(
            f"{name} has no effect in a package of `contention: interface`",
            argument=argument,
            remedy="set `contention: all`",
        )
    energies = ("nop.memory_energy", "technology.dram_energy")
    if name in energies and any(other in known for other in energies):
        other = next(other for other in energies if other in known)
        told = "states no energy" if other == energies[1] else "states the energy"
        raise InputError(
            f"{name} has no effect: the package {told} of its memory", argument=argument, remedy=f"use {other}"
        )
    if name == "technology":
        raise InputError(
            "the technology as a whole is no parameter: mappings and sizes were chosen by its tables",
            argument=argument,
            remedy="search again with another one, or vary technology.mac_energy, technology.sram_energy and the like",
        )
    word = name.lower()
    near = [n for n in known if word and word in n.lower()][:_NEAR] or difflib.get_close_matches(word, known, 3)
    usual = [n for n in ("clock", "nop.interface_bandwidth", "nop.hop_energy", "technology.sram_energy") if n in known]
    remedy = (
        f"use {', '.join(near)}" if near else f"docs/concepts/what-if.md lists them: {', '.join(usual)}, and others"
    )
    raise InputError(f"unknown parameter {name!r:.60}", argument=argument, remedy=remedy)


def checked_value(one: Parameter, value: float, argument: str | Argument) -> float:
    """The value, if the parameter may have it.

    Raises:
        InputError: the parameter takes factors alone, or cannot have this value.
    """
    if one.assign is None:
        raise InputError(f"{one.name} takes factors alone", argument=argument, remedy="write for example x0.5,x1,x2")
    above = one.kind in ("bandwidth", "clock")
    infinite = math.isinf(value) and one.kind != "bandwidth"
    if math.isnan(value) or infinite or value < one.least or (above and value <= 0):
        bound = f"above {one.least:g}" if above else f"of at least {one.least:g}"
        raise InputError(f"{value:g} is no value of {one.name}", argument=argument, remedy=f"write a number {bound}")
    if one.whole and value != round(value):
        raise InputError(f"{value:g} is no value of {one.name}", argument=argument, remedy="write a whole number")
    return value


def checked_factor(factor: float, argument: str | Argument) -> float:
    """The factor, if it is valid.

    Raises:
        InputError: it is not above 0, or not finite.
    """
    if not (0 < factor < math.inf):
        raise InputError(f"the factor {factor:g}", argument=argument, remedy="write factors above 0")
    return factor
