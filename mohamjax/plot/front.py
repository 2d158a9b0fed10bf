"""Figures of a whole search: its front and its convergence."""

from __future__ import annotations

import dataclasses
import math
from collections import abc
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from mohamjax.plot.style import clean, heading, legend_below, log_ticks, new_figure, objectives_text, si, styled
from mohamjax.schedule import Certificate, FrontCurves, Staircase, landmarks
from mohamjax.schedule.front import WINDOW
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.text import plural

_PANELS = {3: ((0, 1, 2), (0, 2, 1), (1, 2, 0)), 2: ((0, 1, None),)}
"""Objectives on x, on y and in colour of each panel, by the number of objectives."""

_MARKERS, _KNEE = ("^", "v", "s"), "*"
_HYPERVOLUME, _SIZE = "#0072B2", "#D55E00"
_BOUND, _EXCLUDED = "0.35", "0.93"


@dataclasses.dataclass(frozen=True)
class Front:
    """The objectives of N >= 1 designs.

    Attributes:
        latency_s: `[N]` float, positive and finite [s].
        energy_J: `[N]` float, finite and not negative [J].
        area_mm2: `[N]` float, finite and not negative [mm^2].
        chiplets: `[N]` int, chiplets of each design, or None.
        design_ids: names of the designs; default their numbers.
        measures: names of the objectives of the front.
        values: `[N, M]` float, the objectives if they are not latency, energy and area.
        offsets: `[M]`, added to the objectives before their logarithms are taken; default 0.
    """

    latency_s: np.ndarray
    energy_J: np.ndarray
    area_mm2: np.ndarray
    chiplets: np.ndarray | None = None
    design_ids: tuple[str, ...] = ()
    measures: tuple[str, ...] = DEFAULT
    values: np.ndarray | None = None
    offsets: tuple[float, ...] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Checks what a figure needs."""
        values = np.stack([np.asarray(v, float) for v in (self.latency_s, self.energy_J, self.area_mm2)], axis=-1)
        if values.ndim != 2 or not len(values):
            raise ValueError(f"a front is one or more designs, not objectives of shape {values.shape}")
        if not (np.isfinite(values) & (values >= 0)).all() or not values[:, 0].all():
            raise ValueError("objectives of a front must be finite and not negative, and latencies above 0")
        if self.measures != DEFAULT and not np.isfinite(self.objectives).all():
            raise ValueError("objectives of a front must be finite")
        for name, column in (("chiplets", self.chiplets), ("design_ids", self.design_ids or None)):
            if column is not None and len(column) != len(values):
                raise ValueError(f"{len(column)} {name} for {len(values)} designs")

    @property
    def objectives(self) -> np.ndarray:
        """`[N, M]` float: latency [s], energy [J] and area [mm^2], or the other objectives of the front."""
        if self.measures != DEFAULT:
            return np.asarray(self.values, float)
        return np.stack([np.asarray(v, float) for v in (self.latency_s, self.energy_J, self.area_mm2)], axis=-1)

    def name(self, i: int) -> str:
        """Name of the i-th design."""
        return self.design_ids[i] if self.design_ids else str(i)


def roles_by_row(rows: abc.Mapping[str, int]) -> dict[int, list[str]]:
    """Inverts roles to rows: returns all roles of each landmark's row, in the order of `ROLES`."""
    return {row: [role for role in rows if rows[role] == row] for row in dict.fromkeys(rows.values())}


def _spans_decade(values: np.ndarray) -> bool:
    """Whether an axis of these values is logarithmic."""
    low, high = float(values.min()), float(values.max())
    return low > 0 and high >= 10 * low


def axis_limits(values: np.ndarray) -> tuple[float, float]:
    """Returns limits with a margin: 5 % on both sides of a single value, so that ticks stay short."""
    low, high = float(values.min()), float(values.max())
    if _spans_decade(values):
        margin = (high / low) ** 0.06
        return low / margin, high * margin
    margin = 0.07 * (high - low) if high - low > 1e-3 * abs(high) else 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def scale_axis(axes: Axes, which: str, values: np.ndarray, label: str, floor: float | None = None) -> None:
    """Sets scale, limits and label of an axis, and extends it down to `floor`, by at most a third of the whole axis."""
    low, high = limits = axis_limits(values)
    if floor is not None and floor < values.min():
        log = _spans_decade(values)
        most = low * (low / high) ** 0.5 if log else low - 0.5 * (high - low)
        below = floor / (high / low) ** 0.05 if log else floor - 0.05 * (high - low)
        limits = min(low, max(below, most)), high
    axis = axes.xaxis if which == "x" else axes.yaxis
    log = _spans_decade(values)
    axes.set(**{f"{which}scale": "log" if log else "linear", f"{which}lim": limits})
    axis.set_label_text(label, parse_math=False)
    if log:
        log_ticks(axis, *limits)
    else:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def _sizes(chiplets: np.ndarray | None, count: int) -> np.ndarray:
    """Returns marker areas [points^2] that grow with the number of chiplets."""
    return np.full(count, 26.0) if chiplets is None else _size_of(np.asarray(chiplets, float))


def _size_of(chiplets: np.ndarray) -> np.ndarray:
    return 10.0 + 6.0 * chiplets


def _beyond(limits: tuple[float, float], scale: str) -> tuple[float, float]:
    """Returns limits beyond those of an axis on both sides."""
    low, high = limits
    return (low / 2, high * 2) if scale == "log" else (2 * low - high, 2 * high - low)


def _certified(axes: Axes, curve: Staircase, *, swapped: bool = False) -> None:
    """Draws the line beyond which no design lies, and shades the area beyond it.

    Args:
        axes: axes with their final scales and limits.
        curve: the line, in the units of the axes.
        swapped: whether the curve's first objective is on y.
    """
    # The line runs from above the first step to the right of the last one.
    x = np.append(np.repeat(curve.at, 2), np.inf)
    y = np.append(np.inf, np.repeat(curve.least, 2))
    if swapped:
        x, y = y[::-1], x[::-1]
    (left, right), (bottom, top) = (
        _beyond(axes.get_xlim(), axes.get_xscale()),
        _beyond(axes.get_ylim(), axes.get_yscale()),
    )
    x, y = np.clip(x, left, right), np.clip(y, bottom, top)
    axes.fill([*x, right, left, left], [*y, bottom, bottom, top], color=_EXCLUDED, lw=0, zorder=0.5)
    axes.plot(x, y, color=_BOUND, lw=0.9, zorder=1.5)


def _curve(curves: FrontCurves, x: int, y: int) -> tuple[Staircase, tuple[int, int]]:
    """Returns the curve of a pair of objectives, and which objectives its two columns are."""
    return {
        (0, 1): (curves.energy_of_latency, (0, 1)),
        (0, 2): (curves.latency_of_area, (2, 0)),
        (1, 2): (curves.energy_of_area, (2, 1)),
    }[x, y]


@styled
def front_projections(front: Front, *, title: str, certificate: Certificate | None = None) -> Figure:
    """Draws a front on its three planes, coloured by the third objective (MOHaM, Figures 7 to 9).

    An axis or a colour bar is logarithmic where it spans a decade or more. The landmarks have marks of their own, which
    the legend explains with their objectives; points grow with the number of chiplets.

    Args:
        front: the designs.
        title: scenario and budget.
        certificate: bounds to draw for each pair of objectives; the title then states the share of the hypervolume
            within them that the front has.
    """
    kinds = [measure_named(name) for name in front.measures]
    planes = _PANELS[len(kinds)]
    figure = new_figure(13.0 if len(planes) > 1 else 6.5, 4.3)
    panels = figure.subplots(1, len(planes), squeeze=False, gridspec_kw={"wspace": 0.06})[0]
    scaled, labels, factors = [], [], []
    for values, kind in zip(front.objectives.T, kinds, strict=True):
        factor, written = si(values, kind.unit)
        factors.append(factor)
        scaled.append(values * factor)
        label = clean(kind.label, 40)
        labels.append(f"{label} [{clean(written, 20)}]" if written else label)
    found = landmarks(front.objectives, front.measures, front.offsets)
    rows = roles_by_row(found)
    markers = dict(zip(found, (*_MARKERS[: len(kinds)], _KNEE), strict=True))
    sizes = _sizes(front.chiplets, len(front.objectives))
    above = np.argsort(-sizes, kind="stable")  # small points over large ones
    for axes, (x, y, colour) in zip(panels, planes, strict=True):
        told = "" if colour is None else f", coloured by {kinds[colour].label}"
        axes.set_title(clean(f"{kinds[x].label} and {kinds[y].label}{told}"), parse_math=False)
        axes.grid(True)
        curve, (first, second) = (None, (x, y)) if certificate is None else _curve(certificate.curves, x, y)
        if curve is not None:
            curve = Staircase(at=curve.at * factors[first], least=curve.least * factors[second])
        floors = {first: curve.at[0], second: curve.least[-1]} if curve is not None else {}
        scale_axis(axes, "x", scaled[x], labels[x], floors.get(x))
        scale_axis(axes, "y", scaled[y], labels[y], floors.get(y))
        if curve is not None:
            _certified(axes, curve, swapped=first != x)
        dots = {"s": sizes[above], "linewidths": 0.3, "edgecolors": "0.25", "zorder": 2}
        if colour is None:
            axes.scatter(scaled[x][above], scaled[y][above], color=_HYPERVOLUME, **dots)
        else:
            log = _spans_decade(scaled[colour])
            low, high = float(scaled[colour].min()), float(scaled[colour].max())
            if high - low <= 1e-3 * abs(high):
                low, high = axis_limits(scaled[colour])
            norm = (LogNorm if log else Normalize)(low, high)
            dots |= {"c": scaled[colour][above], "cmap": "viridis", "norm": norm}
            points = axes.scatter(scaled[x][above], scaled[y][above], **dots)
            bar = figure.colorbar(points, ax=axes, pad=0.02, aspect=28)
            bar.set_label(labels[colour], parse_math=False)
            if log:
                log_ticks(bar.ax.yaxis, low, high)
        for row, roles in rows.items():
            marker = markers[roles[0]]
            spot = (scaled[x][row], scaled[y][row])
            for edge, width in (("white", 3.0), ("black", 1.4)):
                axes.plot(*spot, marker, ms=13, mfc="none", mec=edge, mew=width, zorder=3, clip_on=False)
    handles, texts = [], []
    for row, roles in rows.items():
        marker = markers[roles[0]]
        handles.append(Line2D([], [], ls="", marker=marker, ms=10, mfc="none", mec="black", mew=1.4))
        name, told = clean(front.name(row), 30), objectives_text(front.objectives[row], front.measures)
        texts.append(f"{clean(', '.join(roles))}: design {name} ({clean(told, 150)})")
    if front.chiplets is not None:
        for number in dict.fromkeys(int(f(front.chiplets)) for f in (np.min, np.median, np.max)):
            size = math.sqrt(float(_size_of(np.asarray(float(number)))))
            handles.append(Line2D([], [], ls="", marker="o", ms=size, mfc="0.8", mec="0.25", mew=0.3))
            texts.append(plural(number, "chiplet"))
    lines = [title, plural(len(front.objectives), "non-dominated design")]
    if certificate is not None:
        handles.append(Patch(facecolor=_EXCLUDED, edgecolor=_BOUND, lw=0.9))
        texts.append("proven out of reach with the mappings found")
        lines[1] += (
            f": {certificate.share:.1%} of the hypervolume that the bounds leave"
            f" ({certificate.hypervolume:.3f} of {certificate.most:.3f})"
        )
    if "latency" in front.measures:
        lines.append(f"marked are designs of at most {WINDOW:g} times the least latency")
    legend_below(figure, handles, texts)
    heading(figure, *lines)
    return figure


def _columns(history: Sequence[abc.Mapping[str, float]], names: Sequence[str]) -> list[np.ndarray]:
    if not history:
        raise ValueError("the history has no generations")
    return [np.asarray([float(row[name]) for row in history]) for name in names]


@styled
def convergence(history: Sequence[abc.Mapping[str, float]], *, title: str) -> Figure:
    """Draws hypervolume and front size against the evaluations so far.

    Args:
        history: a row per generation with the columns of `history.csv`.
        title: scenario and budget.
    """
    names = ("generation", "evaluations", "seconds", "hypervolume", "front_size")
    generation, evaluations, seconds, hypervolume, size = _columns(history, names)
    figure = new_figure(7.5, 5.0)
    upper, lower = figure.subplots(2, 1, sharex=True)
    dots = {"marker": "o", "ms": 4} if len(history) < 30 else {}
    upper.plot(evaluations, hypervolume, color=_HYPERVOLUME, **dots)
    upper.set_ylabel("hypervolume of the front\n(share of the box, log axes)")
    lower.plot(evaluations, size, color=_SIZE, drawstyle="steps-post", **dots)
    lower.set_ylabel("designs in the front")
    lower.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    lower.set_ylim(bottom=0, top=max(1.0, float(np.max(size))) * 1.08)
    lower.set_xlabel("designs evaluated")
    lower.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    lower.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if len(history) == 1:
        lower.set_xlim(0, 2 * max(1.0, float(evaluations[0])))
    for axes in (upper, lower):
        axes.grid(True)
    count = int(generation[-1])
    heading(
        figure,
        title,
        f"{count} generation{'s' * (count != 1)}, {int(evaluations[-1]):,} evaluations in {seconds[-1]:.3g} s"
        " (compile time apart)",
    )
    return figure
