"""Tables of results, as wide as the terminal that they are shown on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from mohamjax.cli.terminal import is_live
from mohamjax.text import plural, table, wrapped

if TYPE_CHECKING:
    from mohamjax.schedule import Bounds, Evaluated
    from mohamjax.schedule.decision import Decision


def fitted(rows: Sequence[Sequence[str]], stream: IO[str] | None = None) -> str:
    """Returns a table that fits the terminal; without a terminal, columns of any width.

    Args:
        rows: cells, the heading first; all rows of one length.
        stream: where it will be written; default standard output.
    """
    return table(rows, _width(sys.stdout if stream is None else stream))


def lines(text: str, stream: IO[str] | None = None) -> str:
    """Wraps a sentence between words to the width of the terminal; without a terminal, returns one line.

    Args:
        text: the sentence.
        stream: where it will be written; default standard output.
    """
    width = _width(sys.stdout if stream is None else stream)
    return text if width is None else "\n".join(wrapped(text, width))


def _width(stream: IO[str]) -> int | None:
    """Returns the width of the terminal behind a stream in characters; None if there is no terminal."""
    if not is_live(stream):
        return None
    from rich.console import Console

    return Console(file=stream).width


def unit(values: Sequence[float], symbol: str) -> tuple[str, float]:
    """Returns the unit, down to pico, in which the smallest value is at least 1, and the factor to it."""
    for prefix, factor in (("", 1.0), ("m", 1e3), ("u", 1e6), ("n", 1e9)):
        if min(values) * factor >= 1:
            return prefix + symbol, factor
    return "p" + symbol, 1e12


def digits(value: float) -> str:
    """Formats a value with four significant digits, or as a whole number from 10,000 on."""
    return f"{value:.4g}" if value < 1e4 else f"{value:.0f}"


def landmark_table(landmarks: dict[str, int], front: Evaluated, bounds: Bounds) -> str:
    """Returns a table of the landmarks of a front, beside the lower bounds of the scenario."""
    from mohamjax.io import front_rows
    from mohamjax.schedule.front import WINDOW
    from mohamjax.schedule.measures import DEFAULT, measure_named

    rows = front_rows(front)
    latency = unit([rows[i]["latency_s"] for i in landmarks.values()], "s")
    energy = unit([rows[i]["energy_J"] for i in landmarks.values()], "J")
    scales = (("latency_s", latency[1]), ("energy_J", energy[1]), ("area_mm2", 1.0))
    units = (f"latency [{latency[0]}]", f"energy [{energy[0]}]", "area [mm^2]")
    others = [kind for kind in map(measure_named, front.measures) if kind.name not in DEFAULT]
    scaled = {kind: unit([abs(rows[i][kind.column]) or 1.0 for i in landmarks.values()], "s") for kind in others}
    told = [f"{kind.label} [{scaled[kind][0]}]" if kind.unit == "s" else kind.label for kind in others]
    head = ["design", "id", *told, *(cell for unit in units for cell in (unit, "/bound")), "chiplets"]
    body = []
    for name, i in landmarks.items():
        row = rows[i]
        kinds = ", ".join(f"{row[f'n_{t.name}']} {t.name}" for t in front.templates if row[f"n_{t.name}"])
        values = [
            cell
            for (key, scale), bound in zip(scales, bounds.objectives, strict=True)
            for cell in (digits(row[key] * scale), digits(row[key] / bound) if bound else "-")
        ]
        own = [digits(row[kind.column] * (scaled[kind][1] if kind.unit == "s" else 1.0)) for kind in others]
        body.append([name, str(i), *own, *values, kinds])
    limits = [
        cell
        for (_, scale), bound in zip(scales, bounds.objectives, strict=True)
        for cell in (digits(bound * scale), "")
    ]
    body.append(["lower bound", "", *("" for _ in others), *limits, ""])
    ratio = "/bound: ratio to the lower bound for the mappings found (1: proven least)"
    heading = f"front of {plural(len(rows), 'design')}; {ratio}"
    if "latency" in front.measures:
        heading += f"; the designs named take at most {WINDOW:g} times the least latency"
    return f"{lines(heading)}\n{fitted([head, *body])}"


_NOT_AGAIN = (
    "Layers were mapped before the chiplets were known, and not again on these chiplets: --polish 1, or "
    "--budget small, often finds designs that meet the same demands on half of the area"
)


def decision_table(decision: Decision, *, mapped_again: bool) -> str:
    """Returns the designs that meet a target and what the next steps would cost, or what is missed.

    Args:
        decision: the decision.
        mapped_again: whether the search mapped layers again on chiplets that it came to use; if not, a note says so.
    """
    from mohamjax.schedule.decision import power

    rows, wanted = decision.rows, ", ".join(clause.text for clause in decision.clauses)
    if not decision.kept:
        told = (
            f"none of {plural(len(rows), 'design')} meets {wanted}; the nearest is design "
            f"{rows[decision.nearest]['design_id']} and misses {decision.missed}"
        )
        if decision.hopeless is not None:
            told += (
                f"; more search does not help: {decision.hopeless}. Other templates may help, or a package with more "
                "bandwidth (--package)"
            )
        else:
            told += "; another seed, a larger budget or --inject with earlier results may find one"
        return lines(told) if mapped_again else f"{lines(told)}\n{lines(_NOT_AGAIN)}"
    shown = dict.fromkeys([*decision.named.values(), *(step.row for step in decision.steps)])
    latency = unit([rows[i]["latency_s"] for i in shown], "s")
    energy = unit([rows[i]["energy_J"] for i in shown], "J")
    kinds = [column.removeprefix("n_") for column in rows[0] if column.startswith("n_") and column != "n_chiplets"]

    def line(name: str, i: int) -> list[str]:
        row = rows[i]
        taken = digits(power(row, decision.rate))
        chiplets = ", ".join(f"{row[f'n_{kind}']} {kind}" for kind in kinds if row[f"n_{kind}"])
        cells = [row["latency_s"] * latency[1], row["energy_J"] * energy[1], row["area_mm2"]]
        return [name, str(row["design_id"]), *map(digits, cells), taken, chiplets]

    watts = "power [W]" if decision.rate is None else f"power at {decision.rate:g} fps [W]"
    head = ["design", "id", f"latency [{latency[0]}]", f"energy [{energy[0]}]", "area [mm^2]", watts, "chiplets"]
    body = [line(role + (", recommended" if role == "smallest" else ""), i) for role, i in decision.named.items()]
    body += [
        line(f"{step.gain:.0%} less {step.of} for {digits(step.area_mm2)} mm^2 more", step.row)
        for step in decision.steps
    ]
    told = f"{plural(len(decision.kept), 'design')} of {len(rows):,} {'meets' if len(decision.kept) == 1 else 'meet'}"
    found = f"{lines(f'{told} {wanted}')}\n{fitted([head, *body])}"
    return found if mapped_again else f"{found}\n{lines(_NOT_AGAIN)}"


def set_table(report: dict[str, Any], stream: IO[str] | None = None) -> str:
    """Returns a table of the extremes of every Pareto set of a `mappings/1` document, and explains its latencies."""
    bandwidth = report["offchip_bytes_per_cycle"]
    limit = "unlimited bandwidth" if bandwidth == "unlimited" else f"{bandwidth:g} GB/s"
    head = [
        "layer (first of its kind)",
        "type",
        "template",
        "set",
        "fastest on-chip [cycles]",
        "fastest at the interface [cycles]",
        "most frugal [uJ]",
        "smallest [mm^2]",
    ]
    keys = (
        ("latency_cycles", 1.0, ",.0f"),
        ("latency_interface_cycles", 1.0, ",.0f"),
        ("energy_pJ", 1e-6, ",.4g"),
        ("area_um2", 1e-6, ",.4g"),
    )
    body = [
        [
            s["layer"],
            s["type"],
            s["template"],
            str(len(s["mappings"])),
            *(format(min(m[key] for m in s["mappings"]) * scale, shown) for key, scale, shown in keys),
        ]
        for s in report["sets"]
    ]
    told = f"latency on-chip: without off-chip limit; at the interface: of the layer alone behind a memory of {limit}"
    return f"{lines(told, stream)}\n{fitted([head, *body], stream)}"


def choice_table(report: dict[str, Any], stream: IO[str] | None = None) -> str:
    """Returns a table of every network's front in a `mappings/1` document: extremes, and least delay times energy."""
    rows = [["network", "template", "choice", "on-chip [ms]", "at the interface [ms]", "energy [mJ]", "area [mm^2]"]]
    scores = {
        "fastest on-chip": lambda c: c["latency_cycles"],
        "fastest at the interface": lambda c: c["latency_interface_cycles"],
        "most frugal": lambda c: c["energy_pJ"],
        "smallest": lambda c: c["area_um2"],
        "least on-chip delay times energy": lambda c: c["latency_cycles"] * c["energy_pJ"],
    }
    keys = (("latency_cycles", 1e-6), ("latency_interface_cycles", 1e-6), ("energy_pJ", 1e-9), ("area_um2", 1e-6))
    for entry in report["networks"]:
        for role, score in scores.items():
            best = min(entry["choices"], key=score)
            values = [digits(best[key] * scale) for key, scale in keys]
            rows.append([entry["network"], entry["template"], role, *values])
    return fitted(rows, stream)
