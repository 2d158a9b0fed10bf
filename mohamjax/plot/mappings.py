"""Figures of the mapper: Pareto sets of mappings as parallel coordinates (MEDEA paper, Figure 4)."""

from __future__ import annotations

import dataclasses
from collections import abc
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mohamjax.plot.style import clean, heading, legend_below, new_figure, quantity, styled

_MOST = 30
_ROLES = (("fastest", "#D55E00"), ("most frugal", "#009E73"), ("smallest", "#0072B2"))
_UNITS = ("s", "J", "mm²")
_AXES = ("latency", "energy", "area")
_MARKS = (("#CC79A7", "--", "s"), ("#E69F00", "--", "D"), ("0.1", ":", "^"))


@dataclasses.dataclass(frozen=True)
class MappingSet:
    """The Pareto set of one layer on one template.

    Attributes:
        layer: name of the layer.
        template: name of the template.
        objectives: `[N, 3]` float, not negative: latency [s], energy [J] and area [mm^2].
        marks: single mappings to draw beside the set, `[3]` each in the same units, by name; at most three names in a
            figure.
        network: name of the layer's network, to be written before it; empty where there is one network only.
    """

    layer: str
    template: str
    objectives: np.ndarray
    marks: abc.Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    network: str = ""


def relative_position(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns the height of values between their limits on a log axis, 0 to 1; 0.5 where the limits are equal."""
    values, low, high = (np.log(np.maximum(x, np.finfo(float).tiny)) for x in (values, low, high))
    span = high - low
    return np.where(span > 1e-9, (values - low) / np.where(span > 1e-9, span, 1), 0.5)


@styled
def parallel_coordinates(sets: Sequence[MappingSet], *, title: str, latency: str = "on-chip") -> Figure:
    """Draws sets as parallel coordinates: a panel per layer and template, a line per mapping.

    Axes are logarithmic, smaller is lower, and the panels of one layer share their limits, which are written at the
    ends of the axes. Of a large set, the 30 fastest mappings and the extremes are drawn; the extremes are coloured.
    Marks are dashed or dotted lines.

    Args:
        sets: one or more sets; layers are the rows of the figure, templates its columns, in order of appearance.
        title: what was mapped.
        latency: kind of latency, for the title.
    """
    if not sets:
        raise ValueError("there is no set to draw")
    marks = list(dict.fromkeys(name for s in sets for name in s.marks))
    if len(marks) > len(_MARKS):
        raise ValueError(f"there are marks for {len(marks)} names, at most {len(_MARKS)} are told apart")
    drawn = dict(zip(marks, _MARKS, strict=False))
    layers = list(dict.fromkeys((s.network, s.layer) for s in sets))
    templates = list(dict.fromkeys(s.template for s in sets))
    if len({(s.network, s.layer, s.template) for s in sets}) < len(sets):
        raise ValueError("there are two sets of one layer on one template")
    figure = new_figure(max(6.0, 3.5 * len(templates) + 0.6), 2.5 * len(layers) + 0.7)
    panels = figure.subplots(len(layers), len(templates), squeeze=False)
    for row, (network, layer) in enumerate(layers):
        mine = [s for s in sets if (s.network, s.layer) == (network, layer)]
        told = f"{clean(network, 16)}: {clean(layer, 24)}" if network else clean(layer, 34)
        every = np.concatenate([np.stack([*s.objectives, *s.marks.values()]) for s in mine])
        low, high = every.min(axis=0), every.max(axis=0)
        for axes, template in zip(panels[row], templates, strict=True):
            found = [s for s in mine if s.template == template]
            axes.set_title(f"{told} on {clean(template, 16)}", parse_math=False)
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.set_yticks([])
            if not found:
                axes.set_xticks([])
                axes.text(0.5, 0.5, "does not run there", ha="center", transform=axes.transAxes, color="0.4")
                continue
            values = found[0].objectives
            values = values[np.argsort(values[:, 0], kind="stable")]
            height = relative_position(values, low, high)
            best = [int(values[:, k].argmin()) for k in range(3)]
            for line in height[:_MOST]:
                axes.plot(range(3), line, color="0.6", lw=0.8, alpha=0.7, zorder=1)
            for (_, colour), m in reversed(list(zip(_ROLES, best, strict=True))):
                axes.plot(range(3), height[m], color=colour, lw=1.8, marker="o", ms=4, zorder=3)
            for name, mark in found[0].marks.items():
                colour, style, marker = drawn[name]
                line = relative_position(np.asarray(mark, float), low, high)
                axes.plot(range(3), line, color=colour, lw=1.6, ls=style, marker=marker, ms=4, zorder=4)
            for k in range(3):
                axes.vlines(k, 0, 1, color="0.25", lw=0.8, zorder=2)
                for y, value, side in ((-0.03, low[k], "top"), (1.03, high[k], "bottom")):
                    text = quantity(float(value), _UNITS[k])
                    axes.text(k, y, text, ha="center", va=side, fontsize=7, parse_math=False)
            axes.set_xticks(range(3), _AXES)
            axes.tick_params(axis="x", length=0, pad=12)
            axes.set(xlim=(-0.35, 2.35), ylim=(-0.12, 1.14))
    handles = [Line2D([], [], color=colour, lw=1.8, marker="o", ms=4) for _, colour in _ROLES]
    handles.append(Line2D([], [], color="0.6", lw=0.8))
    handles += [Line2D([], [], color=c, lw=1.6, ls=style, marker=m, ms=4) for c, style, m in drawn.values()]
    names = [*(role for role, _ in _ROLES), f"others (the {_MOST} fastest)", *(clean(name, 40) for name in marks)]
    legend_below(figure, handles, names)
    heading(
        figure,
        title,
        f"log axes, smaller is lower; latency {latency}; each on its own minimal hardware",
    )
    return figure
