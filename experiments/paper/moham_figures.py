"""Figures of the exhibits of MOHaM, in the manner of the paper: projections of fronts, bars, curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mohamjax.plot.front import scale_axis
from mohamjax.plot.style import PALETTE, heading, legend_below, new_figure, si, styled

_LABELS = (("latency", "s"), ("energy", "J"), ("area", "mm²"))
_PLANES = ((0, 1), (0, 2), (1, 2))
_MARKERS = "osv^D*P"

Fronts = Mapping[str, np.ndarray]
"""Objectives `[N, 3]` by the name of what found them."""


@styled
def projections(fronts: Mapping[str, Fronts], *, title: str) -> Figure:
    """Fronts of several variants on the three planes, a row of panels for each scenario (Figures 7 to 9).

    Args:
        fronts: by scenario and variant; the last variant is drawn in black, below the others.
        title: of the figure.
    """
    figure = new_figure(11.0, 3.1 * len(fronts) + 0.4)
    panels = figure.subplots(len(fronts), 3, squeeze=False)
    names = list(next(iter(fronts.values())))
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names[:-1])} | {names[-1]: "black"}
    for row, (scenario, own) in zip(panels, fronts.items(), strict=True):
        everything = np.concatenate(list(own.values()))
        factors, units = zip(*(si(everything[:, m], unit) for m, (_, unit) in enumerate(_LABELS)), strict=True)
        for axes, (x, y) in zip(row, _PLANES, strict=True):
            for which, m in (("x", x), ("y", y)):
                scale_axis(axes, which, everything[:, m] * factors[m], f"{_LABELS[m][0]} [{units[m]}]")
            axes.grid(True)
            for i, name in reversed(list(enumerate(own))):
                points = own[name]
                axes.scatter(
                    points[:, x] * factors[x], points[:, y] * factors[y], s=60 if len(points) < 4 else 9,
                    marker=_MARKERS[i % len(_MARKERS)], color=colours[name], alpha=0.75, linewidths=0,
                    zorder=3 if len(points) < 4 else 2,
                )  # fmt: skip
        row[0].set_title(scenario, loc="left", parse_math=False)
    handles = [
        Line2D([], [], ls="", marker=_MARKERS[i % len(_MARKERS)], color=colours[name]) for i, name in enumerate(names)
    ]
    legend_below(figure, handles, names)
    heading(figure, title)
    return figure


@styled
def bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    label: str,
    title: str,
    line: tuple[str, float] | None = None,
    log: bool = False,
) -> Figure:
    """Bars in groups.

    Args:
        groups: values by group and series; all groups have the same series.
        label: of the axis.
        title: of the figure.
        line: name and value of a dashed line.
        log: whether the axis is logarithmic, from 0.5 upward.
    """
    series = list(next(iter(groups.values())))
    figure = new_figure(max(6.0, 0.35 * len(groups) * len(series) + 2.0), 3.6)
    axes = figure.subplots()
    width = 0.8 / len(series)
    for k, name in enumerate(series):
        places = np.arange(len(groups)) + (k - (len(series) - 1) / 2) * width
        axes.bar(places, [own[name] for own in groups.values()], width, color=PALETTE[k], zorder=2)
    axes.set_xticks(
        range(len(groups)),
        list(groups),
        rotation=30 if len(groups) > 5 else 0,
        ha="right" if len(groups) > 5 else "center",
    )
    axes.set_ylabel(label)
    if log:
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.5)
    axes.grid(True, axis="y")
    handles = [Line2D([], [], ls="", marker="s", color=PALETTE[k]) for k in range(len(series))]
    names = list(series)
    if line is not None:
        axes.axhline(line[1], color="black", ls="--", lw=1)
        handles.append(Line2D([], [], color="black", ls="--", lw=1))
        names.append(line[0])
    if len(names) > 1:
        legend_below(figure, handles, names)
    heading(figure, title)
    return figure


@styled
def curves(
    lines: Mapping[str, tuple[Sequence[float] | np.ndarray, np.ndarray]], *, x: str, y: str, title: str, logs: str = ""
) -> Figure:
    """Curves of medians, with the range over the seeds.

    Args:
        lines: places on x, and values `[seeds, places]`, by name.
        x: label.
        y: label.
        title: of the figure.
        logs: logarithmic axes, by the letters `x` and `y`.
    """
    figure = new_figure(7.0, 3.8)
    axes: Axes = figure.subplots()
    handles = []
    for i, (places, values) in enumerate(lines.values()):
        marker = "o" if len(places) <= 20 else ""
        (line,) = axes.plot(places, np.median(values, axis=0), color=PALETTE[i % len(PALETTE)], marker=marker, ms=3)
        axes.fill_between(places, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.2, lw=0)
        handles.append(line)
    if "x" in logs:
        axes.set_xscale("log", base=2)
        ticks = sorted({place for places, _ in lines.values() for place in places})
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    if "y" in logs:
        axes.set_yscale("log")
    axes.set(xlabel=x, ylabel=y)
    axes.grid(True)
    legend_below(figure, handles, list(lines))
    heading(figure, title)
    return figure
