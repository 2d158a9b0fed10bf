"""Loads what the command line names: networks, templates, technologies."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mohamjax.cli.terminal import warn
from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.hardware import PackageParameters, Technology, Template
    from mohamjax.workload import ApplicationModel


def application_of(arguments: argparse.Namespace) -> ApplicationModel:
    """Loads the named networks, and prints the warnings of reading them."""
    from mohamjax.workload import load_scenario

    named = arguments.workload if len(arguments.workload) > 1 else arguments.workload[0]
    return load_scenario(named, warn=warn, **reading_of(arguments))


def reading_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns how networks are read, as arguments of `load_scenario`; the options are those of `add_workload`."""
    from mohamjax.workload import DEPTHWISE

    return {
        "batch": arguments.batch,
        "shapes": dict(arguments.shape),
        "skip_unknown": arguments.skip_unknown,
        "depthwise": arguments.depthwise or DEPTHWISE[0],
    }


def given_templates(arguments: argparse.Namespace) -> tuple[Template, ...]:
    """Loads the templates that `--templates` names; none without it."""
    from mohamjax.hardware import load_templates

    if not arguments.templates:
        return ()
    names = [name for name in arguments.templates.split(",") if name]
    if not names:
        raise InputError("names no template", item="--templates", remedy="give names or files, separated by commas")
    return tuple(load_templates(names))


def templates_of(arguments: argparse.Namespace, application: ApplicationModel) -> tuple[Template, ...]:
    """Loads the named templates, or all packaged ones, with the operand width of `--word-bits`."""
    from mohamjax.hardware import load_templates, packaged_templates, with_word_bits

    templates = given_templates(arguments) or tuple(load_templates(list(packaged_templates())))
    if arguments.word_bits == "model":
        widest = max(layer.word_bits for layer in application.layers)
        templates = tuple(with_word_bits(template, widest) for template in templates)
    return templates


def technology_of(arguments: argparse.Namespace) -> Technology:
    """Loads the named technology, or the packaged default."""
    from mohamjax.hardware import load_technology

    return load_technology(arguments.technology, static_energy=getattr(arguments, "static_energy", False))


def given_technology(arguments: argparse.Namespace) -> Technology | None:
    """Loads the technology that `--technology` names; None without it."""
    return technology_of(arguments) if arguments.technology else None


def warn_of_other_memory(templates: Sequence[Template], package: PackageParameters, technology: Technology) -> None:
    """Warns about templates whose own off-chip memory is replaced by the different memory of the package."""
    from mohamjax.hardware import DRAM_TYPES, with_memory

    memory = package.memory
    packaged = with_memory(templates, memory)
    other = [own.name for own, new in zip(templates, packaged, strict=True) if own.levels[-1] != new.levels[-1]]
    if other and memory is not None:
        if memory.type is None:
            kind = f"one of {memory.energy:g} pJ/bit"
        else:
            kind = f"{memory.type} at {technology.dram[DRAM_TYPES.index(memory.type)]:g} pJ/bit"
        warn(
            f"{', '.join(other)}: the memory of the package, {kind}, stands in for the off-chip memory that "
            "templates name themselves; to keep theirs, write `memory: {type: template}` in a file for --package"
        )


def warn_of_own_bandwidth(templates: Sequence[Template]) -> None:
    """Warns about templates whose off-chip level has a bandwidth of its own, which no package uses."""
    own = [t.name for t in templates if any((*t.levels[-1].bandwidth, t.levels[-1].shared_bandwidth))]
    if own:
        warn(
            f"{', '.join(own)}: the bandwidth of the off-chip level is not used; chiplets share the memory interfaces "
            "of the package, whose `interface_bandwidth` stands in a file for --package"
        )


def warn_of_slow_buffers(templates: Sequence[Template], technology: Technology) -> None:
    """Warns about buffers of the templates that at their largest size are slower than the clock."""
    from mohamjax.hardware import slow_buffers

    slow = []
    for template, level, rows, width, *times in slow_buffers(templates, technology):
        known = [f"{kind} {t:.2g} ns" for kind, t in zip(("access", "cycle"), times, strict=True) if t == t]
        slow.append(f"{template} {level} ({rows} x {width} bits: {', '.join(known)})")
    if slow:
        more = f", and {len(slow) - 4} more" if len(slow) > 4 else ""
        warn(
            "buffers that at their largest are slower than the clock of 1 ns, which is not modelled: "
            f"{', '.join(slow[:4])}{more}"
        )
