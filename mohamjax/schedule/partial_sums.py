"""Partial sums that loop nests write to the off-chip memory and read back, and their share of the traffic.

An off-chip memory cannot add in place. A loop nest that returns to an output after the output has left the chip reads
back the partial sum that it wrote there. Every output word that is read from the off-chip level was thus written there
once before, so the traffic of partial sums is twice the output words that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from mohamjax.dims import O
from mohamjax.hardware import Template
from mohamjax.mapping import MappingTables
from mohamjax.schedule.design import Design, DesignReport
from mohamjax.text import amount, plural


class PartialSums(TypedDict):
    """Partial sums that pass off-chip in one design.

    `bytes` of the `offchip_bytes` are partial sums, in `layers` of the `of_layers` layers; `word_bits` are the widths
    of the off-chip words in which they are counted; `told` states all of this in a sentence, with the remedies.
    """

    bytes: float
    offchip_bytes: float
    layers: int
    of_layers: int
    word_bits: list[int]
    told: str


def partial_sum_bytes(design: Design, report: DesignReport, tables: MappingTables, unique: np.ndarray) -> np.ndarray:
    """Bytes of partial sums that each layer writes to the off-chip memory and reads back.

    Args:
        design: one design, or with a leading axis `[N]` several; NumPy leaves.
        report: its report, NumPy leaves.
        tables: Pareto tables, NumPy leaves.
        unique: `[n]` unique layer of each of the n layers that exist.

    Returns:
        `[..., n]` float.
    """
    layers = len(unique)
    tile = np.asarray(design.assignment)[..., :layers]
    kind = np.maximum(np.take_along_axis(np.asarray(design.template), tile, axis=-1), 0)
    words = np.asarray(tables.offchip_words)[unique, kind, np.asarray(design.mapping)[..., :layers]].astype(float)
    # All words of the level have one width.
    every = np.maximum(words.sum(axis=(-2, -1)), 1.0)
    return np.asarray(report.offchip_bytes, float)[..., :layers] * 2 * words[..., O, 0] / every


def partial_sums(spilled: np.ndarray, traffic: np.ndarray, templates: Sequence[Template]) -> PartialSums | None:
    """The partial sums of a design as data and as a sentence; None where there are none.

    Args:
        spilled: `[n]` float, from `partial_sum_bytes`.
        traffic: `[n]` float, off-chip bytes of each layer.
        templates: template of the chiplet of each of the n layers.
    """
    spills = spilled > 0
    if not spills.any():
        return None
    widths = sorted({template.levels[-1].word_bits for template, own in zip(templates, spills, strict=True) if own})
    of_bits = " or ".join(map(str, widths))
    told = (
        f"{told_briefly(float(spilled.sum()), float(traffic.sum()), int(spills.sum()), len(spills))}: their loop nests "
        "come back to outputs after these have left the chip, so that sums are written off-chip and read back. They "
        f"are counted at the width of the words of the off-chip level, {of_bits} bits, though sums are wider. `order: "
        "[C, R, S]` at the off-chip level in the dataflows of the template keeps them on the chip, with the reductions "
        "innermost there, if the outermost level on the chip that has temporal loops keeps Outputs; larger "
        "`word_bits` of the off-chip level charge their width, and that of weights and inputs too"
    )
    return {
        "bytes": float(spilled.sum()),
        "offchip_bytes": float(traffic.sum()),
        "layers": int(spills.sum()),
        "of_layers": len(spills),
        "word_bits": widths,
        "told": told,
    }


def told_briefly(spilled: float, traffic: float, layers: int, of_layers: int) -> str:
    """How much of the off-chip traffic [bytes] is partial sums, and in how many layers, without remedies."""
    return (
        f"{amount(spilled / 1e6)} MB of the {amount(traffic / 1e6)} MB that pass off-chip are partial sums, in "
        f"{layers:,} of {plural(of_layers, 'layer')}"
    )
