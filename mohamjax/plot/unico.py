"""Figures of a hardware search (UNICO): front, cost, lanes of a bracket, and the surrogate against measurements.

Axes: N hardware points, B generations; objectives are latency [s], power [W] and area [mm^2].
"""

from __future__ import annotations

from collections import abc
from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mohamjax.plot.style import PALETTE, clean, heading, legend_below, log_ticks, new_figure, styled

_NAMES = ("latency [s]", "power [W]", "area [mm²]")
_PAIRS = ((0, 1), (0, 2), (1, 2))
_REST = "0.75"


def _log(axes: Axes) -> None:
    """Makes both axes logarithmic, with few labels in plain numbers."""
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        log_ticks(axis, *axis.get_view_interval())


def _legend(figure: Figure) -> None:
    """Adds one legend of everything that has a label."""
    shown: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            shown.setdefault(str(label), handle)
    legend_below(figure, list(shown.values()), [clean(label, 40) for label in shown])


@styled
def hardware_front(objectives: np.ndarray, front: np.ndarray, *, cap: float | None = None, title: str) -> Figure:
    """Draws all measured hardware points and the front in pairs of objectives, on logarithmic axes.

    Args:
        objectives: `[N, 3]` float, positive; rows that are not finite are left out.
        front: rows of the front.
        cap: limit on power [W], drawn where it lies among the points.
        title: title of the figure.
    """
    figure = new_figure(10.5, 3.6)
    there = np.isfinite(objectives).all(axis=1)
    for axes, (x, y) in zip(figure.subplots(1, 3), _PAIRS, strict=True):
        axes.scatter(*objectives[there][:, [x, y]].T, s=10, color=_REST, label="measured")
        axes.scatter(*objectives[front][:, [x, y]].T, s=22, color=PALETTE[0], label="front")
        axes.set(xlabel=_NAMES[x], ylabel=_NAMES[y])
        if cap is not None and objectives[there, 1].min() <= cap <= 2 * objectives[there, 1].max():
            line = axes.axvline if x == 1 else axes.axhline if y == 1 else None
            if line is not None:
                line(cap, color=PALETTE[5], linewidth=1.0, label=f"limit {cap:g} W")
        _log(axes)
        axes.grid(True)
    _legend(figure)
    heading(figure, title)
    return figure


@styled
def hypervolume_differences(
    series: abc.Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, cost: str = "mappings evaluated"
) -> Figure:
    """Draws the distance to the hypervolume of a reference front over the cost so far (UNICO, Figure 5).

    Args:
        series: cost `[T]` and 1 - HV / HV of the reference `[T]`, by method.
        title: title of the figure.
        cost: name of the cost, for the axis.
    """
    figure = new_figure(6.5, 4.2)
    axes = figure.subplots()
    for i, (name, (spent, difference)) in enumerate(series.items()):
        axes.step(
            spent, difference, where="post", color=PALETTE[i % len(PALETTE)], marker="o", markersize=3, label=name
        )
    axes.set_xlabel(cost, parse_math=False)
    axes.set(ylabel="1 − hypervolume / that of the reference", ylim=(0, None))
    axes.grid(True)
    _legend(figure)
    heading(figure, title)
    return figure


@styled
def bracket_lanes(latency: np.ndarray, generations: np.ndarray, *, title: str) -> Figure:
    """Draws the latencies of the hardware points of a bracket, those that ran to the end in colour (UNICO, Figure 4).

    Args:
        latency: `[H, B]` float, latency of the networks [s] after each generation; read up to where each point stopped.
        generations: `[H]` int, generations that each point ran.
        title: title of the figure.
    """
    figure = new_figure(6.5, 4.2)
    axes = figure.subplots()
    last, colour = generations.max(), 0
    for curve, stop in zip(latency, generations, strict=True):
        ends = stop == last
        x = np.arange(1, stop + 1)
        axes.plot(
            x, curve[:stop], color=PALETTE[colour % len(PALETTE)] if ends else _REST, linewidth=1.8 if ends else 0.9
        )
        axes.plot(stop, curve[stop - 1], "o", markersize=3, color=PALETTE[colour % len(PALETTE)] if ends else "0.5")
        colour += int(ends)
    for budget in np.unique(generations)[:-1]:
        axes.axvline(budget, color="0.5", linewidth=0.7, linestyle=":")
    axes.set(xlabel="generations of the mapping search", ylabel=_NAMES[0])
    _log(axes)
    axes.grid(True)
    heading(figure, title)
    return figure


@styled
def surrogate_predictions(predicted: np.ndarray, objectives: np.ndarray, *, title: str) -> Figure:
    """Draws what the surrogate predicted for hardware points against what was measured.

    Args:
        predicted: `[N, 2, 3]` float, mean and standard deviation of the logarithms; rows with NaN are left out.
        objectives: `[N, 3]` float, measured.
        title: title of the figure.
    """
    figure = new_figure(10.5, 3.6)
    there = np.isfinite(predicted).all(axis=(1, 2)) & np.isfinite(objectives).all(axis=1)
    for k, axes in enumerate(figure.subplots(1, 3)):
        x, mean, spread = objectives[there, k], predicted[there, 0, k], predicted[there, 1, k]
        y = np.exp(mean)
        errors = np.stack([y - np.exp(mean - 2 * spread), np.exp(mean + 2 * spread) - y])
        axes.errorbar(x, y, yerr=errors, fmt="o", markersize=3, linewidth=0.6, color=PALETTE[0], label="mean, 2 s.d.")
        if len(x):
            ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
            axes.plot(ends, ends, color="0.5", linewidth=0.8, label="equal")
        axes.set(xlabel=f"measured {_NAMES[k]}", ylabel="predicted")
        _log(axes)
        axes.grid(True)
    _legend(figure)
    heading(figure, title)
    return figure


@styled
def loop_bounds(groups: abc.Mapping[str, np.ndarray], names: Sequence[str], *, title: str) -> Figure:
    """Draws the distribution of loop bounds over layers, dimension by dimension (UNICO, Figure 7).

    Boxes span the middle half, whiskers the 5th to 95th percentile; the line is the median, the point the mean.

    Args:
        groups: `[L, D]` int, bounds of the layers of each group, by its name.
        names: `[D]` names of the dimensions.
        title: title of the figure.
    """
    figure = new_figure(1.2 * len(names) + 1.5, 3.6)
    axes = figure.subplots()
    width = 0.8 / len(groups)
    for g, (label, bounds) in enumerate(groups.items()):
        places = np.arange(len(names)) + (g - (len(groups) - 1) / 2) * width
        colour = PALETTE[g % len(PALETTE)]
        drawn = axes.boxplot(
            list(np.asarray(bounds, float).T), positions=places.tolist(), widths=0.85 * width, whis=(5, 95),
            showfliers=False, showmeans=True, patch_artist=True, manage_ticks=False, medianprops={"color": "black"},
            meanprops={"marker": "o", "markersize": 3, "markerfacecolor": "white", "markeredgecolor": "black"},
        )  # fmt: skip
        for box in drawn["boxes"]:
            box.set(facecolor=colour, alpha=0.6)
        axes.plot([], [], "s", color=colour, alpha=0.6, label=label)
    axes.set(yscale="log", ylabel="loop bound")
    axes.set_xticks(range(len(names)), [clean(name, 16) for name in names], parse_math=False)
    log_ticks(axes.yaxis, *axes.yaxis.get_view_interval())
    axes.grid(True, axis="y")
    _legend(figure)
    heading(figure, title)
    return figure
