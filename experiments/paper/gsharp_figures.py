"""Figures of `gsharp.py`, in the manner of the paper's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from mohamjax.plot.style import PALETTE, heading, legend_below, log_ticks, new_figure, styled


def _panels(count: int, width: float, height: float, columns: int = 2) -> tuple[Figure, list[Axes]]:
    rows = -(-count // columns)
    figure = new_figure(width, height * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.set_visible(False)
    return figure, grid[:count]


@styled
def bars_of_methods(panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, title: str) -> Figure:
    """Makespans by method (Figures 7 and 10): a bar for the sum over the classes of jobs, a mark for each class.

    Args:
        panels: makespans [cycles] by panel, method and class; a sum is drawn if a method has all classes of its panel.
        title: of the figure.
    """
    figure, grid = _panels(len(panels), 11.0 if len(panels) > 1 else 7.0, 3.4, min(2, len(panels)))
    classes = list(dict.fromkeys(c for methods in panels.values() for own in methods.values() for c in own))
    handles = []
    for axes, (name, methods) in zip(grid, panels.items(), strict=True):
        names = list(methods)
        whole = max((len(own) for own in methods.values()), default=0)
        sums = [sum(own.values()) if len(own) == whole else np.nan for own in methods.values()]
        colours = [PALETTE[0] if "gsharp" in m else "0.8" for m in names]
        axes.bar(range(len(names)), sums, 0.75, color=colours)
        marks = []
        for k, c in enumerate(classes):
            at = [i for i, m in enumerate(names) if c in methods[m]]
            level = [methods[names[i]][c] for i in at]
            marks += axes.plot(at, level, "o", color=PALETTE[k + 1], ms=3.5)
        handles = handles or marks
        axes.set_yscale("log")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6.5)
        axes.set_title(name, loc="left")
        axes.set_ylabel("makespan [cycles]")
        axes.grid(True, axis="y")
    legend_below(figure, handles, [f"{c} alone" for c in classes])
    heading(figure, title)
    return figure


@styled
def lines_over(
    panels: Mapping[str, Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]], *, labels: tuple[str, str], title: str,
    logs: tuple[bool, bool] = (True, True),
) -> Figure:  # fmt: skip
    """Lines by name in several panels: bandwidth, generations or time along x.

    Args:
        panels: x and y, by panel and name.
        labels: of the axes.
        title: of the figure.
        logs: which axes are logarithmic; y only where its values differ by more than a factor of four.
    """
    figure, grid = _panels(len(panels), 5.5 * min(2, len(panels)), 3.0, min(2, len(panels)))
    names = list(dict.fromkeys(n for own in panels.values() for n in own))
    shown: dict[str, object] = {}
    for axes, (name, own) in zip(grid, panels.items(), strict=True):
        for line, (x, y) in own.items():
            k = names.index(line)
            style = ("-", "--", ":")[k // len(PALETTE) % 3]
            marker = "o" if np.size(x) < 12 else None
            (drawn,) = axes.plot(x, y, color=PALETTE[k % len(PALETTE)], ls=style, marker=marker, ms=3.5, lw=1.4)
            shown.setdefault(line, drawn)
        if logs[0]:
            levels = np.unique(np.concatenate([np.ravel(x) for x, _ in own.values()]))
            axes.set_xscale("log")
            axes.set_xticks(levels, [f"{level:g}" for level in levels], minor=False)
            axes.xaxis.set_minor_locator(NullLocator())
        if logs[1]:
            values = np.concatenate([np.ravel(y) for _, y in own.values()])
            if values.max() > 4 * values.min():  # or an axis within a decade would have one label
                axes.set_yscale("log")
                log_ticks(axes.yaxis, float(values.min()), float(values.max()))
        axes.set_title(name, loc="left")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        axes.grid(True)
    legend_below(figure, [shown[n] for n in names], names)  # pyright: ignore[reportArgumentType]
    heading(figure, title)
    return figure


@styled
def grouped_bars(
    panels: Mapping[str, Mapping[str, Mapping[str, float]]], *, labels: Mapping[str, str], title: str, log: bool = True
) -> Figure:
    """Bars in groups, several panels.

    Args:
        panels: values by panel, group along x, and bar.
        labels: of the y axes, by panel.
        title: of the figure.
        log: whether the y axes are logarithmic.
    """
    figure, grid = _panels(len(panels), 11.0 if len(panels) > 1 else 7.0, 3.1, min(2, len(panels)))
    names = list(dict.fromkeys(n for groups in panels.values() for own in groups.values() for n in own))
    handles = []
    for axes, (name, groups) in zip(grid, panels.items(), strict=True):
        width = 0.8 / len(names)
        drawn = []
        for k, bar in enumerate(names):
            at = [i for i, own in enumerate(groups.values()) if bar in own]
            height = [own[bar] for own in groups.values() if bar in own]
            drawn.append(axes.bar(np.asarray(at) + (k + 0.5) * width - 0.4, height, 0.9 * width, color=PALETTE[k]))
        handles = handles or drawn
        if log:
            axes.set_yscale("log")
        long = max(map(len, groups)) > 8 or len(groups) > 10
        axes.set_xticks(range(len(groups)), list(groups), rotation=90 if long else 0, fontsize=7)
        axes.set_title(name, loc="left")
        axes.set_ylabel(labels[name])
        axes.grid(True, axis="y")
    if len(names) > 1:
        legend_below(figure, handles, names)
    heading(figure, title)
    return figure
