"""Remarks on the design recommended for a target: a target barely met or misread, tiny chiplets, partial sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mohamjax.schedule.decision import Decision
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.partial_sums import partial_sum_bytes, told_briefly
from mohamjax.text import plural

TINY = 0.01
"""A chiplet is tiny if it has less than this share of the MACs of the largest one."""

NARROW = 0.01
"""A demand is barely met if the design's margin is below this share of the bound."""


@dataclasses.dataclass(frozen=True)
class BuiltChiplet:
    """A chiplet of a design: the name of its template, its multiply-accumulate units, and how many layers it runs."""

    template: str
    macs: int
    layers: int


def built_chiplets(evaluated: Evaluated, i: int) -> list[BuiltChiplet]:
    """The chiplets of a design in their order on the mesh.

    Args:
        evaluated: designs with their reports.
        i: row of the design.
    """
    template = np.asarray(evaluated.designs.template)[i]
    tiles = np.asarray(evaluated.designs.assignment)[i, : len(evaluated.application.layers)]
    macs = np.asarray(evaluated.reports.chiplets.machine.mac_instances)[i]
    return [
        BuiltChiplet(evaluated.templates[template[tile]].name, int(macs[tile]), int(np.sum(tiles == tile)))
        for tile in np.flatnonzero(template >= 0)
    ]


def told_of_tiny_chiplets(chiplets: Sequence[BuiltChiplet]) -> str:
    """A sentence that names the tiny chiplets; empty where there are none.

    Args:
        chiplets: chiplets of one design, in their order on the mesh.
    """
    most, layers = max((chip.macs for chip in chiplets), default=0), sum(chip.layers for chip in chiplets)
    tiny = [(k, chip) for k, chip in enumerate(chiplets) if chip.macs < TINY * most]
    if not tiny:
        return ""
    told = ", ".join(
        f"chiplet {k} ({chip.template}: {plural(chip.macs, 'MAC')}, {chip.layers} of {plural(layers, 'layer')})"
        for k, chip in tiny
    )
    have = "has" if len(tiny) == 1 else "have"
    return (
        f"{told} of the recommended design {have} less than {TINY:.0%} of the {most:,} MACs of the largest one; "
        "`limits: {least_chiplet: {area_mm2: AREA}}` in the requirements of a search excludes such chiplets"
    )


def told_of_partial_sums(evaluated: Evaluated, i: int) -> str:
    """A sentence on the partial sums of a design that pass off-chip; empty where there are none.

    Args:
        evaluated: designs with their reports.
        i: row of the design.
    """
    one = evaluated.take(np.asarray([i]))
    unique = np.asarray(evaluated.application.unique_of_layer)
    (spilled,) = partial_sum_bytes(one.designs, one.reports, evaluated.tables, unique)
    if not spilled.any():
        return ""
    traffic = np.asarray(one.reports.offchip_bytes)[0, : len(unique)]
    told = told_briefly(float(spilled.sum()), float(traffic.sum()), int((spilled > 0).sum()), len(spilled))
    return (
        f"the recommended design writes sums off-chip and reads them back: {told}, counted at the width of the words "
        f"there; the explanation of design {i} says what keeps them on the chip"
    )


def told_of_slack(decision: Decision) -> str:
    """A sentence on the demands that the recommended design barely meets; empty where there are none.

    Args:
        decision: which design is recommended, and for what target.
    """
    best = decision.recommended
    if best is None:
        return ""
    narrow: list[str] = []
    for clause in decision.clauses:
        reached = float(clause.reached([best])[0])
        slack = reached / clause.bound - 1 if clause.name == "fps" else 1 - reached / clause.bound
        if slack < NARROW:
            narrow.append(f"{clause.text} by {100 * slack:.2g} % (it reaches {clause.told(reached)})")
    return f"the recommended design only just meets {', '.join(narrow)}" if narrow else ""


def told_of_rates(decision: Decision) -> str:
    """A sentence on rates of single networks that the recommended design does not keep up; empty without any.

    `fps:NETWORK` is one over the latency of that network, but one frame after the other the package takes the next one
    when its last network has ended. Nothing is said of results with overlapping frames, whose rates the period tells.

    Args:
        decision: which design is recommended, and for what target.
    """
    best = decision.recommended
    if best is None or isinstance(best.get("period_s"), float):
        return ""
    kept = 1 / best["latency_s"]
    beyond = [clause for clause in decision.clauses if clause.name == "fps" and clause.network and clause.bound > kept]
    if not beyond:
        return ""
    asked = ", ".join(clause.text for clause in beyond)
    only = "asks only how soon that network ends" if len(beyond) == 1 else "ask only how soon these networks end"
    most = max(beyond, key=lambda clause: clause.bound)
    return (
        f"{asked} {only}: one frame after the other, the recommended design runs all networks "
        f"{most.told(kept)} times a second; fps>={most.bound:g} asks for that rate of all"
    )


def remarks(decision: Decision, chiplets: Sequence[BuiltChiplet], partial_sums: str = "") -> list[str]:
    """All remarks on the recommended design, one sentence each.

    Args:
        decision: which design is recommended, and for what target.
        chiplets: chiplets of that design, in their order on the mesh.
        partial_sums: the sentence on its partial sums; empty where there is none.
    """
    said = told_of_slack(decision), told_of_rates(decision), told_of_tiny_chiplets(chiplets), partial_sums
    return [told for told in said if told]


def remarks_in(decision: Decision, evaluated: Evaluated) -> list[str]:
    """`remarks` for a front in memory; empty where no design meets the target.

    Args:
        decision: decision on the rows of the front.
        evaluated: that front.
    """
    if decision.recommended is None:
        return []
    i = decision.named["smallest"]
    return remarks(decision, built_chiplets(evaluated, i), told_of_partial_sums(evaluated, i))
