"""The off-chip memory of a package, and the templates of a package with this memory.

A package has one memory, so that a bit costs the same whichever chiplet moves it. A template names a memory too, for
mappings that are evaluated without a package. `with_memory` replaces it by that of the package. It is called where
templates and package first meet, so that every later stage (mapper, evaluation, bounds, files, hashes) sees templates
whose off-chip level is the memory of the package.
"""

from __future__ import annotations

import dataclasses
import math
from collections import abc
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from mohamjax.errors import InputError
from mohamjax.forms import Amount, Form
from mohamjax.hardware.technology import DRAM_TYPES, DramType
from mohamjax.hardware.template import Component, Level, Template

_OF_TEMPLATES = "template"
"""The type, in files, that leaves every template the memory that it names itself."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """The off-chip memory, which sets the energy of a bit read or written: by its type, or stated.

    Attributes:
        type: One of `technology.DRAM_TYPES`, whose energy the technology knows; None where the energy is stated.
        energy: pJ per bit; None where it follows from the type.

    Raises:
        InputError: Both or neither are given, the type is unknown, or the energy is negative or not finite.

    Examples:
        >>> Memory("HBM2")
        Memory(type='HBM2', energy=None)
        >>> Memory(energy=4.5).energy
        4.5
    """

    type: str | None = None
    energy: float | None = None

    def __post_init__(self) -> None:
        """Checks type and energy; raises InputError."""
        if (self.type is None) == (self.energy is None):
            raise InputError(
                f"has {'neither type nor' if self.type is None else 'both type and'} energy",
                item="package.memory",
                remedy="give one of the two",
            )
        if self.type is not None:
            if self.type not in DRAM_TYPES:
                raise unknown_memory(self.type, item="package.memory.type")
        elif not (isinstance(self.energy, int | float) and 0 <= self.energy < math.inf):
            raise InputError(
                f"{self.energy!r} is no energy", item="package.memory.energy", remedy="give pJ per bit, 0 or more"
            )


def unknown_memory(name: object, *, file: object = None, item: str | None = None) -> InputError:
    """The error about an unknown type. It suggests none: the type of the nearest name may be quite another one."""
    return InputError(
        f"unknown memory type {name!r}",
        file=file,
        item=item,
        remedy=f"known are {', '.join(DRAM_TYPES)}; of another memory give its energy in pJ per bit, without a type",
    )


Bandwidth = Annotated[
    Annotated[float, Meta(gt=0)] | Literal["unlimited"], Meta(description="bytes per cycle, or `unlimited`")
]


class MemoryForm(Form):
    """The off-chip memory: its type, or its energy per bit, and the bandwidth of all of it."""

    type: (
        Annotated[
            DramType | Literal["template"],
            Meta(description="a memory that the technology knows, or `template`: each template has the one it names"),
        ]
        | None
    ) = None
    energy_pJ_per_bit: Amount | None = None
    bytes_per_cycle: Bandwidth | None = None


def check_memory_type(package: object, *, file: object = None, where: str = "") -> None:
    """Refuses a package whose memory is of an unknown type; its form checks everything else."""
    memory = package.get("memory") if isinstance(package, abc.Mapping) else None
    name = memory.get("type") if isinstance(memory, abc.Mapping) else None
    if isinstance(name, str) and name not in (*DRAM_TYPES, _OF_TEMPLATES):
        raise unknown_memory(name, file=file, item=f"{where}.memory.type" if where else "memory.type")


def memory_of(form: MemoryForm, default: Memory | None, *, file: object = None, where: str = "memory") -> Memory | None:
    """The memory of a form, None for the type `template`; `default` if the form states neither type nor energy.

    Raises:
        InputError: The form has both a type and an energy.
    """
    if form.type is not None and form.energy_pJ_per_bit is not None:
        raise InputError(
            "has both `type` and `energy_pJ_per_bit`",
            file=file,
            item=where,
            remedy="keep one of the two: the technology knows the energy of a type",
        )
    if form.energy_pJ_per_bit is not None:
        return Memory(energy=form.energy_pJ_per_bit)
    if form.type is None:
        return default
    return None if form.type == _OF_TEMPLATES else Memory(form.type)


def memory_to_dict(memory: Memory | None) -> dict[str, object]:
    """The memory as plain data, with the keys of `MemoryForm`."""
    if memory is None:
        return {"type": _OF_TEMPLATES}
    return {"type": memory.type} if memory.energy is None else {"energy_pJ_per_bit": memory.energy}


def with_memory(templates: Sequence[Template], memory: Memory | None) -> tuple[Template, ...]:
    """The templates of a package: their off-chip level is the package's memory.

    A second call changes nothing more. A stated energy becomes costs that the level states itself (the component class
    `fixed`), per access of a whole row of the level.

    Args:
        templates: As users write them.
        memory: The memory of the package; None leaves the templates as they are.

    Returns:
        The templates in their order; those that have this memory already are the same objects.
    """
    if memory is None:
        return tuple(templates)
    return tuple(_in_package(template, memory) for template in templates)


def _in_package(template: Template, memory: Memory) -> Template:
    offchip = template.levels[-1]
    component = _component(memory, offchip)
    if component == offchip.component:
        return template
    own = dataclasses.replace(offchip, component=component)
    return dataclasses.replace(template, levels=(*template.levels[:-1], own))


def _component(memory: Memory, level: Level) -> Component:
    """What an off-chip level with this memory is made of."""
    if memory.energy is None:
        assert memory.type is not None
        return Component("dram", dram_type=memory.type)
    access = float(memory.energy) * level.word_bits * level.block_words
    return Component("fixed", fixed=(access, access, 0.0))
