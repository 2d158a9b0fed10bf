"""SRAM tables of any node from CACTI, through hwcomponents (the extra `technology`, Python 3.12 or newer).

hwcomponents and its package for CACTI (Andrulis, MIT; contains CACTI 7) know which nodes there are, and derive sizes
and nodes between CACTI's own. This module only chooses which sizes to ask for, and asks for each of them once.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import pathlib
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.folders import cache_folder
from mohamjax.hardware.template import Template
from mohamjax.runtime.code_hash import code_hash
from mohamjax.runtime.part_files import part_of

LARGEST_NODE_NM = 90
"""Largest node [nm]: beyond it hwcomponents-cacti scales 22 nm up, to several times its own figures of 90 nm."""

_LEAST_ROWS = 16

Memory = tuple[int, int, int]
"""Width [bits], ports and most rows of memories that a table is to cover."""


def _packages() -> tuple[Callable[..., Any], types.ModuleType, str]:
    """The SRAM model, the module that scales nodes, and the versions of the packages."""
    try:
        import hwcomponents_cacti  # pyright: ignore[reportMissingImports]
        from hwcomponents.scaling import techscaling  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise InputError(
            f"needs hwcomponents and hwcomponents-cacti ({error})",
            item="technology make",
            remedy="pip install 'mohamjax[technology]' with Python 3.12 or newer",
        ) from None
    versions = "-".join(importlib.metadata.version(name) for name in ("hwcomponents", "hwcomponents-cacti"))
    return hwcomponents_cacti.SRAM, techscaling, versions


def logic_scaling(node_nm: float, from_nm: float = 45) -> tuple[float, float]:
    """Factors of energy and area of logic between two nodes, by hwcomponents (Stillmaker and Baas, 2017; at 0.8 V).

    Raises:
        InputError: hwcomponents is not installed.
    """
    _, scaling, _ = _packages()
    nodes = node_nm / 1e9, from_nm / 1e9
    return float(scaling.tech_node_energy(*nodes)), float(scaling.tech_node_area(*nodes))


def sram_figures(node_nm: float, width: int, rows: int, ports: int = 1) -> np.ndarray:
    """CACTI's figures of one memory; kept in the user's cache folder.

    Args:
        node_nm: technology node [nm], at most 90.
        width: bits of one access.
        rows: accesses that it holds; width * rows must be whole bytes.
        ports: read-write ports.

    Returns:
        `[6]` float64: read and write energy [pJ], area [um^2], leakage [mW], access and cycle time [ns].

    Raises:
        InputError: hwcomponents is not installed, the node is too large, or CACTI does not run or refuses the size.
    """
    model, _, version = _packages()
    if not 0 < node_nm <= LARGEST_NODE_NM:
        raise InputError(
            "CACTI knows nodes up to 90 nm",
            item=f"{node_nm:g} nm",
            remedy="ask for a smaller one, or scale that",
        )
    file = cache_folder("technology") / version / code_hash()[:16] / f"sram-{node_nm:g}nm-{width}x{rows}-{ports}.json"
    try:
        return np.array(json.loads(file.read_text(encoding="utf-8")), np.float64).reshape(6)
    except (OSError, ValueError):
        pass  # not there, or cut short: asked for again
    try:
        # Not `* 1e-9`: rounding would make 90 nm exceed CACTI's largest node in their test.
        memory = model(tech_node=node_nm / 1e9, width=width, depth=rows, size=width * rows, n_rw_ports=ports)
        read, write = memory.read(), memory.write()
    except Exception as error:  # a model of the package may raise anything
        reason = re.sub(r"\s+", " ", str(error)) or type(error).__name__
        raise InputError(
            f"CACTI gives nothing for {width} bits x {rows} rows, {ports} port(s) ({reason:.300})",
            item=f"{node_nm:g} nm",
            remedy="ask for another size; where CACTI's program itself does not start (it needs a recent C library), "
            "build it anew: make -B in the folder `cacti` of the package hwcomponents_cacti",
        ) from None
    figures = [
        float(read.energy) * 1e12,
        float(write.energy) * 1e12,
        float(memory.area) * 1e12,
        float(memory.leak_power) * 1e3,
        float(read.latency) * 1e9,
        ports / float(read.throughput) * 1e9,
    ]
    keep(file, json.dumps(figures))
    return np.array(figures)


def keep(file: pathlib.Path, text: str) -> None:
    """Writes a file of the cache, whole or not at all; if it cannot be written, the next run only takes longer."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(file)
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError:
        pass


def memories_of(templates: Sequence[Template]) -> list[Memory]:
    """The SRAMs of templates: per width and port count the most rows of any."""
    most: dict[tuple[int, int], int] = {}
    for template in templates:
        for level in template.levels:
            if level.component.cls == "sram" and level.capacity_words is not None:
                kind = level.block_words * level.word_bits, level.component.ports
                most[kind] = max(most.get(kind, 0), -(-level.capacity_words // level.block_words))
    return [(*kind, rows) for kind, rows in sorted(most.items())]


def make_sram_rows(
    node_nm: float,
    memories: Sequence[Memory],
    tolerance: float = 0.01,
    progress: Callable[[int], None] | None = None,
) -> np.ndarray:
    """Makes a table with rows wherever the curves bend or jump: two row counts an octave, then halved intervals.

    An interval whose middle is further than the tolerance from the line between its ends (on logarithmic axes, in read
    energy, write energy or area) is halved, down to 16 rows.

    Args:
        node_nm: technology node [nm].
        memories: memories to cover, each from 16 rows to its most.
        tolerance: largest relative error at the middles.
        progress: called with the number of sizes known so far.

    Returns:
        `[R, 9]`, columns `technology.SRAM_COLUMNS`.

    Raises:
        InputError: see `sram_figures`.
    """
    asked = 0

    @functools.cache
    def at(width: int, ports: int, rows: int) -> np.ndarray:
        nonlocal asked
        asked += 1
        if progress is not None:
            progress(asked)
        return sram_figures(node_nm, width, rows, ports)

    table: list[list[float]] = []
    for width, ports, most in memories:
        of_kind = functools.partial(at, width, ports)
        ends = {_LEAST_ROWS, most}
        for k in range(4, most.bit_length()):
            ends |= {rows for rows in (1 << k, 3 << (k - 1)) if _LEAST_ROWS < rows < most}
        intervals = list(zip(sorted(ends), sorted(ends)[1:], strict=False))
        while intervals:
            low, high = intervals.pop()
            middle = 16 * round((low * high) ** 0.5 / 16)
            ends.add(middle if low < middle < high else low)
            if not low < middle < high:
                continue
            t = np.log(middle / low) / np.log(high / low)
            straight = (1 - t) * np.log(of_kind(low)[:3]) + t * np.log(of_kind(high)[:3])
            if np.any(np.abs(np.log(of_kind(middle)[:3]) - straight) > tolerance):
                intervals += [(low, middle), (middle, high)]
        table += [[width, rows, ports, *of_kind(rows)] for rows in sorted(ends)]
    return np.array(table, np.float64)
