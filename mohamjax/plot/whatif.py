"""Figures of what-if questions: grids of variants, sensitivities (tornado), and a front under uncertainty.

Axes: N designs, P parameters, three objectives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from mohamjax.errors import InputError
from mohamjax.plot.front import scale_axis
from mohamjax.plot.style import PALETTE, clean, heading, ink, legend_below, log_ticks, new_figure, si, styled
from mohamjax.text import plural
from mohamjax.whatif import ALMOST_NEVER, Axis, Sensitivities, Uncertainty, WhatIf

_OBJECTIVES = (("latency", "s"), ("energy", "J"), ("area", "mm²"))
_PLANES = ((0, 1), (0, 2), (1, 2))
_MOST_PANELS = 48
_MOST_LINES = 8
_MOST_WRITTEN = 100
_FRAGILE, _INTERVAL, _NOTHING = PALETTE[5], "0.62", "0.93"


# ---------------------------------------------------------------- grids


def _name(axis: Axis) -> str:
    """Returns the label of a parameter, with its unit or as a factor."""
    unit = axis.parameter.unit.replace("_per_", "/").replace("_and_", "/").replace("um2", "µm²")
    name = clean(axis.parameter.name, 60)
    return f"{name} [{'×' if axis.factor else clean(unit, 20)}]" if axis.factor or unit else name


def _value(axis: Axis, value: float) -> str:
    if math.isinf(value):
        return "∞"
    return f"×{value:g}" if axis.factor else f"{value:g}"


def check_panels(counts: Sequence[int]) -> None:
    """Checks that small multiples can show a grid.

    Args:
        counts: number of values of each parameter, in their order.

    Raises:
        InputError: the grid makes too many panels.
    """
    panels = math.prod(counts[2:])
    if panels > _MOST_PANELS:
        raise InputError(
            f"{panels} panels for each objective, at most {_MOST_PANELS} can be drawn",
            item="figures",
            remedy="vary fewer parameters or values, or do without figures",
        )


def _least(found: WhatIf) -> np.ndarray:
    """Returns `[V1, ..., VA, 3]` float, the least of each objective over the designs that run; NaN where none does."""
    least = found.grid.min(axis=-2)
    return np.where(np.isfinite(least), least, np.nan)


def _varies(values: np.ndarray) -> bool:
    good = values[np.isfinite(values)]
    return bool(good.size) and bool(np.ptp(good) > 1e-9 * np.abs(good).max())


def _gaps(found: WhatIf) -> str:
    """Returns a note for the title if some variant runs only some designs; else an empty text."""
    there = np.isfinite(found.objectives).all(axis=2).sum(axis=1)
    some = np.any((there > 0) & (there < len(found.names)))
    return "not every design runs on every variant: the least is that of those that do" if some else ""


def _of(found: WhatIf) -> str:
    number = len(found.names)
    return f"of design {clean(found.names[0], 30)}" if number == 1 else f"least of {plural(number, 'design')}"


@styled
def what_if_figures(found: WhatIf, *, title: str) -> list[tuple[str, Figure]]:
    """Draws a grid: lines over one parameter, heat maps over two, small multiples of heat maps over more.

    Heat maps show the least of an objective over all designs; objectives that the grid does not change are left out.

    Args:
        found: the grid.
        title: title of the figures.

    Returns:
        Names (`what_if`, or `what_if_latency`, ... of small multiples) and figures.

    Raises:
        InputError: there are too many panels.
    """
    check_panels([len(axis.values) for axis in found.axes])
    least = _least(found)
    shown = [m for m in range(3) if _varies(least[..., m])]
    if not shown:
        shown = [0]
    if len(found.axes) == 1:
        return [("what_if", _lines(found, shown, title))]
    if len(found.axes) == 2:
        figure = new_figure(0.6 + 4.4 * len(shown), 3.9)
        panels = np.atleast_1d(figure.subplots(1, len(shown)))
        for axes, m in zip(panels, shown, strict=True):
            scale, label, norm = _colours(least[..., m], m)
            _heat(axes, found.axes, least[..., m] * scale, norm)
            axes.set_title(f"{_OBJECTIVES[m][0]}, {_of(found)}", parse_math=False)
            axes.set_xlabel(_name(found.axes[0]), parse_math=False)
            axes.set_ylabel(_name(found.axes[1]), parse_math=False)
            _bar(figure, axes, norm, label)
        _explain(figure, least)
        heading(figure, title, _gaps(found))
        return [("what_if", figure)]
    return [(f"what_if_{_OBJECTIVES[m][0]}", _multiples(found, least[..., m], m, title)) for m in shown]


def _colours(values: np.ndarray, m: int) -> tuple[float, str, Normalize]:
    """Returns the factor, the label and the scale of the colours of an objective."""
    good = values[np.isfinite(values)]
    scale, unit = si(good.tolist(), _OBJECTIVES[m][1])
    low, high = (float(good.min()) * scale, float(good.max()) * scale) if good.size else (0.0, 1.0)
    if high - low <= 1e-9 * abs(high):
        low, high = low - 0.05 * abs(high), high + 0.05 * abs(high)
    log = low > 0 and high >= 10 * low
    return scale, f"{_OBJECTIVES[m][0]} [{unit}]", (LogNorm if log else Normalize)(low, high)


def _bar(figure: Figure, axes: Axes | list[Axes], norm: Normalize, label: str) -> None:
    bar = figure.colorbar(ScalarMappable(norm, "viridis_r"), ax=axes, pad=0.02, aspect=28)
    bar.set_label(label, parse_math=False)
    if isinstance(norm, LogNorm):
        assert norm.vmin is not None and norm.vmax is not None
        log_ticks(bar.ax.yaxis, norm.vmin, norm.vmax)


def _heat(axes: Axes, both: Sequence[Axis], values: np.ndarray, norm: Normalize) -> None:
    """Draws a heat map: first parameter along x, second along y; `values` is `[V1, V2]`, in units of the colours."""
    axes.set_facecolor(_NOTHING)  # where no design runs
    mesh = axes.imshow(np.ma.masked_invalid(values.T), origin="lower", aspect="auto", cmap="viridis_r", norm=norm)
    for axis, ticks in ((axes.xaxis, 0), (axes.yaxis, 1)):
        texts = [_value(both[ticks], value) for value in both[ticks].values]
        every = -(-len(texts) // 12)
        axis.set_ticks(range(0, len(texts), every), texts[::every])
        axis.set_tick_params(length=0)
    axes.spines[:].set_visible(False)
    if values.size <= _MOST_WRITTEN:
        size = 7.0 if values.size <= 36 else 5.5
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                colour = mesh.cmap(norm(value))[:3]
                axes.text(i, j, f"{value:.3g}", ha="center", va="center", fontsize=size, color=ink(colour))


def _explain(figure: Figure, values: np.ndarray) -> None:
    if np.isnan(values).any():
        legend_below(figure, [Patch(facecolor=_NOTHING)], ["no design runs"])


def _multiples(found: WhatIf, values: np.ndarray, m: int, title: str) -> Figure:
    """Draws heat maps over the first two parameters, one per combination of the others, on one scale of colours."""
    first, second, *others = found.axes
    columns = len(others[0].values)
    rows = math.prod(len(axis.values) for axis in others[1:])
    figure = new_figure(1.6 + max(1.9 * columns, 3.6), 0.9 + max(1.7 * rows, 2.2))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    scale, label, norm = _colours(values, m)
    rest = itertools.product(*(range(len(axis.values)) for axis in others[1:]))
    for row, at in zip(panels, rest, strict=True):
        for i, axes in enumerate(row):
            _heat(axes, (first, second), values[(slice(None), slice(None), i, *at)] * scale, norm)
            where = [(others[0], i), *zip(others[1:], at, strict=True)]
            names = [f"{axis.parameter.name.rpartition('.')[2]} {_value(axis, axis.values[k])}" for axis, k in where]
            axes.set_title(clean(", ".join(names), 60), fontsize=7.5, parse_math=False)
    figure.supxlabel(_name(first), fontsize=9, parse_math=False)
    figure.supylabel(_name(second), fontsize=9, parse_math=False)
    _bar(figure, list(panels.ravel()), norm, f"{label}, {_of(found)}")
    _explain(figure, values)
    heading(figure, title, _gaps(found))
    return figure


def _lines(found: WhatIf, shown: Sequence[int], title: str) -> Figure:
    """Draws objectives over one parameter: a line for each of a few designs, otherwise least, median and range."""
    axis = found.axes[0]
    order = np.argsort(axis.values)
    x = np.asarray(axis.values)[order]
    # An unlimited bandwidth stands beside the others, not at infinity.
    ticks = range(len(x)) if not np.isfinite(x).all() else None
    figure = new_figure(0.6 + 4.0 * len(shown), 3.6)
    handles: list[Line2D | Patch] = []
    labels: list[str] = []
    for axes, m in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True):
        values = np.where(np.isfinite(found.grid[order, :, m]), found.grid[order, :, m], np.nan)
        scale, unit = si(values[np.isfinite(values)].tolist(), _OBJECTIVES[m][1])
        values = values * scale
        places = x if ticks is None else np.asarray(ticks, float)
        if len(found.names) <= _MOST_LINES:
            drawn = [axes.plot(places, values[:, i], "o-", ms=3, color=PALETTE[i])[0] for i in range(values.shape[1])]
            handles, labels = list(drawn), [f"design {clean(name, 30)}" for name in found.names]
        else:
            runs = np.isfinite(values).any(axis=1)
            low, middle, high = np.full((3, len(x)), np.nan)
            low[runs], middle[runs], high[runs] = np.nanquantile(values[runs], (0.0, 0.5, 1.0), axis=1)
            band = axes.fill_between(places, low, high, color=PALETTE[0], alpha=0.15, lw=0)
            drawn = [axes.plot(places, low, "o-", ms=3, color=PALETTE[0])[0]]
            drawn.append(axes.plot(places, middle, "--", color="0.35")[0])
            handles = [*drawn, Patch(facecolor=band.get_facecolor()[0])]
            labels = ["least", "median", f"range of {plural(len(found.names), 'design')}"]
        good = values[np.isfinite(values)]
        if ticks is None:
            scale_axis(axes, "x", x, _name(axis))
        else:
            axes.set_xlabel(_name(axis), parse_math=False)
            axes.set_xticks(ticks, [_value(axis, value) for value in x])
        if good.size:
            scale_axis(axes, "y", good, f"{_OBJECTIVES[m][0]} [{unit}]")
        axes.grid(True)
    legend_below(figure, handles, labels)
    heading(figure, title, _gaps(found))
    return figure


# ---------------------------------------------------------------- sensitivities


@styled
def tornado(found: Sensitivities, *, title: str, most: int = 12) -> Figure:
    """Draws the elasticities that matter most for each objective: medians over the designs, lines from 5 to 95 %.

    Args:
        found: the sensitivities.
        title: title of the figure.
        most: parameters for each objective; those that nowhere reach 1 % of the strongest are left out.
    """
    strong = found.strongest(most)
    if not strong.designs:
        raise InputError("no design runs", item="figures", remedy="give designs that run")
    low, middle, high = strong.low, strong.middle, strong.high
    rows = [list(row) for row in strong.rows]
    height = max(3, *(len(row) for row in rows))
    figure = new_figure(14.0, 1.5 + 0.27 * height)
    for m, (axes, row) in enumerate(zip(figure.subplots(1, 3), rows, strict=True)):
        place = height - 1 - np.arange(len(row))
        axes.axvline(0, color="0.3", lw=0.8, zorder=1)
        axes.barh(
            place,
            middle[row, m],
            height=0.62,
            color=[PALETTE[5] if middle[p, m] > 0 else PALETTE[0] for p in row],
            zorder=2,
        )
        if strong.designs > 1:
            axes.hlines(place, low[row, m], high[row, m], color="0.15", lw=1.1, zorder=3)
        names = [f"{found.parameters[p].name}{' (×2)' * (found.methods[p] == 'doubling')}" for p in row]
        axes.set_yticks(place, [clean(name, 42) for name in names], parse_math=False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"elasticity of {_OBJECTIVES[m][0]}")
        axes.set_ylim(-0.6, height - 0.4)
        axes.grid(True, axis="x")
        axes.spines["left"].set_visible(False)
        if not row:
            axes.text(0.5, 0.5, "depends on none of them", ha="center", va="center", transform=axes.transAxes)
    handles: list[Patch | Line2D] = [Patch(facecolor=PALETTE[5]), Patch(facecolor=PALETTE[0])]
    labels = ["grows with the parameter", "falls (% per 1 % of the parameter)"]
    if strong.designs > 1:
        handles.append(Line2D([], [], color="0.15", lw=1.1))
        labels.append(f"5 to 95 % of {plural(strong.designs, 'design')}; bars are the median")
    legend_below(figure, handles, labels)
    heading(figure, title)
    return figure


# ---------------------------------------------------------------- uncertainty


@styled
def front_under_uncertainty(found: Uncertainty, *, title: str) -> Figure:
    """Draws designs with the 5 to 95 % intervals of their objectives, coloured by how often they are on the front.

    Designs of the front that almost never survive are marked and, where they are few, named.

    Args:
        found: the designs; those that do not run on the hardware as it is are left out.
        title: title of the figure.
    """
    runs = np.asarray(np.isfinite(found.nominal).all(axis=1))
    if not runs.any():
        raise InputError("no design runs", item="figures", remedy="give designs that run")
    nominal, low, high = found.nominal[runs], found.quantiles[0][runs], found.quantiles[-1][runs]
    probability, front = found.probability[runs], found.in_front[runs]
    names = [name for name, good in zip(found.names, runs, strict=True) if good]
    fragile = front & (probability < ALMOST_NEVER)
    figure = new_figure(13.0, 4.3)
    panels = figure.subplots(1, 3)
    scales = [si(column.tolist(), unit) for column, (_, unit) in zip(high.T, _OBJECTIVES, strict=True)]
    above = np.argsort(probability, kind="stable")
    norm = Normalize(0, 1)
    for axes, (x, y) in zip(panels, _PLANES, strict=True):
        for which, m in (("x", x), ("y", y)):
            span = np.concatenate([low[:, m], high[:, m], nominal[:, m]]) * scales[m][0]
            scale_axis(axes, which, span, f"{_OBJECTIVES[m][0]} [{scales[m][1]}]")
        at = [nominal[:, m] * scales[m][0] for m in (x, y)]
        ends = [(low[:, m] * scales[m][0], high[:, m] * scales[m][0]) for m in (x, y)]
        alpha = 0.9 if len(nominal) <= 60 else 0.5
        axes.hlines(at[1], *ends[0], color=_INTERVAL, lw=0.6, alpha=alpha, zorder=1)
        axes.vlines(at[0], *ends[1], color=_INTERVAL, lw=0.6, alpha=alpha, zorder=1)
        for kind, marker in ((~front, "s"), (front, "o")):
            row = above[kind[above]]
            shown = {"c": probability[row], "cmap": "viridis", "norm": norm, "linewidths": 0.4, "edgecolors": "0.25"}
            axes.scatter(at[0][row], at[1][row], s=30 if marker == "o" else 16, marker=marker, zorder=2, **shown)
        axes.plot(at[0][fragile], at[1][fragile], "x", ms=7, mew=1.6, color=_FRAGILE, zorder=3)
        if fragile.sum() <= 6:
            for k in np.flatnonzero(fragile):
                where = (at[0][k], at[1][k])
                axes.annotate(
                    clean(names[k], 14), where, (4, 4), textcoords="offset points", fontsize=7, color=_FRAGILE,
                    parse_math=False,
                )  # fmt: skip
        axes.grid(True)
    figure.colorbar(
        ScalarMappable(norm, "viridis"),
        ax=list(panels),
        label="probability of being non-dominated",
        pad=0.01,
        aspect=28,
    )
    handles = [Line2D([], [], ls="", marker="o", color="0.5", mec="0.25"), Line2D([], [], color=_INTERVAL, lw=1.0)]
    labels = ["on the nominal front", "5 to 95 % of the samples"]
    if not front.all():
        handles.append(Line2D([], [], ls="", marker="s", ms=4, color="0.5", mec="0.25"))
        labels.append("not on it")
    if fragile.any():
        handles.append(Line2D([], [], ls="", marker="x", ms=7, mew=1.6, color=_FRAGILE))
        labels.append(f"on it, but on less than {100 * ALMOST_NEVER:g} % of the samples' fronts")
    legend_below(figure, handles, labels)
    spreads = sorted(set(found.spread.tolist()))
    spread = f"{spreads[0]:g}" if len(spreads) == 1 else f"{spreads[0]:g} to {spreads[-1]:g}"
    drawn = f"{plural(len(found.factors), 'sample')} of {plural(len(found.parameters), 'number')}, spread {spread}"
    heading(figure, title, drawn)
    return figure
