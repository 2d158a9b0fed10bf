"""Figures of one design: its schedule, and where its area and its energy go (MOHaM, Figure 6)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.typing import ColorType

from mohamjax.plot.style import (
    PALETTE,
    clean,
    fill,
    heading,
    ink,
    legend_below,
    new_figure,
    objectives_text,
    quantity,
    shade,
    si,
    styled,
    text_width,
    write_labels,
)
from mohamjax.schedule.view import DesignView

_INCH_PER_ROW = 0.36
_BAR = 0.84  # height of a bar, as a share of its row
_BLACK = 0.5  # height of the black in a bar that stands still, as a share of the bar
_NAME_SIZE = 5.5


def _heading(figure: Figure, view: DesignView, title: str, what: str) -> None:
    heading(figure, title, f"{what} of design {clean(view.design_id, 60)}: {objectives_text(view.objectives)}")


def _rows(axes: Axes, view: DesignView, *, interfaces: bool) -> None:
    """Labels the rows by chiplet, the first on top."""
    labels: list[str] = []
    for k, chiplet in enumerate(view.chiplets):
        label = f"{k} {clean(chiplet.template, 24)}"
        labels.append(f"{label}, M{chiplet.interface}" if interfaces else label)
    axes.set_yticks(range(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)


def _note(
    axes: Axes, text: str, spot: tuple[float, float], coordinates: str | tuple[str, str], *, size: float, color: str
) -> None:
    """Writes a text just right of a spot."""
    axes.annotate(text, spot, (5, 0), coordinates, textcoords="offset points", va="center", size=size, color=color)


def _box(start: float, end: float, row: int, share: float = 1.0) -> list[tuple[float, float]]:
    """Returns the corners of a bar in a row, or of the lower `share` of the bar."""
    top, bottom = row + _BAR * (0.5 - share), row + _BAR / 2
    return [(start, top), (end, top), (end, bottom), (start, bottom)]


def _boxes(
    axes: Axes,
    corners: Sequence[Sequence[tuple[float, float]]],
    name: str,
    *,
    colour: ColorType,
    edges: ColorType | None = None,
    hatch: str | None = None,
    zorder: float,
) -> None:
    """Adds boxes as one collection, without touching the limits of the axes; a hatch has the colour of the edges."""
    boxes = PolyCollection(
        corners,
        linewidths=0,
        antialiaseds=False,
        gid=name,
        label=name,
        facecolors=colour,
        edgecolors=edges,
        hatch=hatch,
        zorder=zorder,
    )
    axes.add_collection(boxes, autolim=False)


@styled
def gantt(view: DesignView, *, title: str) -> Figure:
    """Draws the schedule of a design: chiplets as rows, networks as colours, slowed layers in black.

    The black part of a bar is the taller, the more speed the layer loses to bandwidth. Layers are named where the name
    fits into the bar. The text right of a row says for what share of the time the chiplet is busy.

    Args:
        view: the design.
        title: scenario and budget.
    """
    rows = max(len(view.chiplets), 1)
    figure = new_figure(11.0, 1.35 + _INCH_PER_ROW * max(rows, 3))
    axes = figure.subplots()
    factor, unit = si([view.objectives[0]], "s")
    latency = view.objectives[0] * factor
    axes.set_xlim(0, latency)
    axes.set_xlabel(f"time [{unit}]")
    axes.set_ylabel("chiplet,\nmemory interface (M)")
    axes.grid(True, axis="x")
    axes.spines["left"].set_visible(False)
    _rows(axes, view, interfaces=True)
    for k in range(len(view.chiplets)):
        busy = sum(bar.end_s - bar.start_s for bar in view.bars if bar.chiplet == k) * factor / latency
        text = "<1% busy" if 0 < busy < 0.005 else f"{busy:.0%} busy"
        _note(axes, text, (1.0, k), ("axes fraction", "data"), size=7.5, color="0.3")
    handles: list[Patch] = []
    labels: list[str] = []
    for n, name in enumerate(view.networks):
        colour, hatch = fill(n)
        handles.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0))
        labels.append(clean(name, 40))
    causes = sorted({s.cause for bar in view.bars for s in bar.slowed})
    if causes:
        handles.append(Patch(facecolor="black"))
        labels.append(
            f"slowed by bandwidth ({', '.join(causes)}): the taller, the slower; half the bar's height: it stands still"
        )
    legend_below(figure, handles, labels)
    _heading(figure, view, title, "schedule")

    figure.draw_without_rendering()  # lays the figure out, so that widths are known
    space = axes.get_window_extent()
    points = space.width / figure.dpi * 72 / latency
    height = space.height / figure.dpi * 72 / rows * _BAR
    pixel = latency / space.width
    for n in range(len(view.networks)):
        colour, hatch = fill(n)
        own = [bar for bar in view.bars if bar.network == n]
        # Bars are widened to a pixel: narrower ones would fade with anti-aliasing and vanish without.
        boxes = [
            _box(bar.start_s * factor, max(bar.end_s * factor, bar.start_s * factor + pixel), bar.chiplet)
            for bar in own
        ]
        _boxes(axes, boxes, f"network-{n}", colour=colour, edges="white", hatch=hatch, zorder=2)
    wide = [b for b in view.bars if (b.end_s - b.start_s) * factor * points > 3]
    axes.vlines(
        [b.start_s * factor for b in wide],
        [b.chiplet - _BAR / 2 for b in wide],
        [b.chiplet + _BAR / 2 for b in wide],
        colors="white",
        linewidths=0.5,
        zorder=3,
    )
    black = [
        _box(s.start_s * factor, s.end_s * factor, bar.chiplet, max(_BLACK * (1 - s.rate), 0.06))
        for bar in view.bars
        for s in bar.slowed
    ]
    if black:
        _boxes(axes, black, "slowed", colour="black", zorder=4)
    for bar in view.bars:
        name = clean(bar.name, 60)
        if text_width(name, _NAME_SIZE) + 4 < (bar.end_s - bar.start_s) * factor * points and height > 2 * _NAME_SIZE:
            axes.text(
                (bar.start_s + bar.end_s) / 2 * factor,
                bar.chiplet - _BAR / 4,
                name,
                size=_NAME_SIZE,
                color=ink(fill(bar.network)[0]),
                ha="center",
                va="center",
                parse_math=False,
                zorder=5,
            )
    return figure


def _stack(axes: Axes, rows: Sequence[Sequence[tuple[float, ColorType]]], unit: str) -> None:
    """Draws stacked horizontal bars of (value, colour), with the total and its share at the end of each."""
    totals = [sum(value for value, _ in row) for row in rows]
    whole = sum(totals)
    factor, written = si(totals, unit)
    for k, row in enumerate(rows):
        left = 0.0
        for value, colour in row:
            # A border would hide a part that is hardly wider than the border.
            border = 0.4 if value > 0.01 * max(totals) else 0.0
            axes.barh(k, value * factor, 0.72, left, color=colour, edgecolor="white", linewidth=border, zorder=2)
            left += value * factor
        share = totals[k] / whole if whole else 0.0
        _note(axes, f"{quantity(totals[k], unit)} ({share:.1%})", (left, k), "data", size=8.0, color="black")
    axes.set_xlim(0, max([*totals, 0.0]) * factor * 1.3 or 1.0)
    axes.set_xlabel(f"[{written}]")
    axes.grid(True, axis="x")
    axes.spines["left"].set_visible(False)


def _template_colours(view: DesignView) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Returns the colour of every part of every template in use: the template's, paler from the MACs outward."""
    out: dict[str, dict[str, tuple[float, float, float]]] = {}
    for t, template in enumerate(view.templates):
        chiplets = [c for c in view.chiplets if c.template == template]
        parts = list(dict.fromkeys(name for chiplet in chiplets for name, _ in chiplet.area_mm2))
        ramp = np.linspace(-0.35, 0.75, len(parts)) if len(parts) > 1 else [0.0]
        if parts:
            out[template] = {p: shade(PALETTE[t % len(PALETTE)], float(x)) for p, x in zip(parts, ramp, strict=True)}
    return out


@styled
def area_shares(view: DesignView, *, title: str) -> Figure:
    """Draws the area of every chiplet by MACs and memory levels, in the colour of its template.

    Args:
        view: the design.
        title: scenario and budget.
    """
    colours = _template_colours(view)
    entries = sum(len(parts) + 1.6 for parts in colours.values())
    figure = new_figure(9.0, max(1.25 + 0.32 * max(len(view.chiplets), 2), 0.75 + 0.19 * entries))
    axes = figure.subplots()
    _rows(axes, view, interfaces=False)
    _stack(axes, [[(a, colours[c.template][name]) for name, a in c.area_mm2] for c in view.chiplets], "mm²")
    axes.set_xlabel("area [mm²] (share of the design)")
    axes.set_ylabel("chiplet")
    handles: list[Patch] = []
    labels: list[str] = []
    for template, parts in colours.items():
        if handles:
            handles.append(Patch(facecolor="none", edgecolor="none"))
            labels.append("")
        handles.append(Patch(facecolor="none", edgecolor="none"))
        labels.append(f"{clean(template, 24)}:")
        for name, colour in parts.items():
            handles.append(Patch(facecolor=colour))
            labels.append(clean(name, 24))
    legend = figure.legend(handles, [str(i) for i in range(len(labels))], loc="outside right center", labelspacing=0.25)
    write_labels(legend, labels)
    _heading(figure, view, title, "area")
    return figure


@styled
def energy_breakdown(view: DesignView, *, title: str) -> Figure:
    """Draws the energy of a design by chiplet: what its layers spend on the chiplet, in DRAM and on the way there.

    Args:
        view: the design.
        title: scenario and budget.
    """
    figure = new_figure(9.0, 1.25 + 0.32 * max(len(view.chiplets), 2))
    axes = figure.subplots()
    parts = [name for name, _ in view.chiplets[0].energy_J]
    colours: dict[str, str] = dict(zip(parts, PALETTE, strict=False))
    _rows(axes, view, interfaces=False)
    _stack(axes, [[(e, colours[name]) for name, e in c.energy_J] for c in view.chiplets], "J")
    axes.set_xlabel(f"energy {axes.get_xlabel()} (share of the design)")
    axes.set_ylabel("chiplet")
    patches = functools.partial(Patch, edgecolor="white", linewidth=0.4)
    legend_below(figure, [patches(facecolor=colours[name]) for name in parts], parts)
    _heading(figure, view, title, "energy")
    return figure
