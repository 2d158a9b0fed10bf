"""A template as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from mohamjax.dims import DATA_SPACES, DIMS
from mohamjax.hardware.template import Level, Limits, Template


def describe(template: Template) -> str:
    """A table of a template for people: levels outermost first, then the loops that each may have."""
    instances, rows = 1, []
    for level in reversed(template.levels):
        ports = [("-" if b is None else f"{b:g}") for b in level.bandwidth]
        if level.shared_bandwidth is not None:
            ports.append(f"both {level.shared_bandwidth:g}")
        hop = "wire" if level.hop_energy_pJ is None else f"{level.hop_energy_pJ:g}"
        rows.append(
            (
                level.name,
                level.component.cls,
                _keeps(level),
                "-" if level.capacity_words is None else str(level.capacity_words),
                f"{level.word_bits} x {level.block_words}",
                str(instances),
                f"{level.fanout[0]} x {level.fanout[1]}",
                " / ".join(ports),
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
        turn = "; steps of rnn, P, never in space" if "rnn" in flow.layer_types else ""
        lines += ["", f"Loops allowed for {', '.join(flow.layer_types)} (order: innermost first{turn}):"]
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


def _keeps(level: Level) -> str:
    """Initials of the data spaces that a level keeps, in parentheses if a mapping may bypass it."""
    names = [
        f"({space[0]})" if free else space[0]
        for space, kept, free in zip(DATA_SPACES, level.keep, level.may_bypass, strict=True)
        if kept
    ]
    return "".join(names) or "-"


def _limits_text(limits: Limits) -> str:
    if len(limits) == len(DIMS) and all(v is None for v in limits.values()):
        return "all"
    return " ".join(d if limit is None else f"{d}<={limit}" for d, limit in limits.items()) or "-"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (header, *rows)]
