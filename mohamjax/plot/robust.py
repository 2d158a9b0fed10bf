"""The figure of a robust search: its packages on every model, beside those made for the nominal model alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mohamjax.plot.style import PALETTE, clean, heading, legend_below, log_ticks, new_figure, styled
from mohamjax.robust.price import Comparison, staircase

_COLUMNS = 3
_ROLES = {"all": "searched for", "nominal": "nominal", "searched": "searched", "held out": "held out"}


@styled
def price_figure(comparisons: Sequence[Comparison], *, title: str) -> Figure:
    """Draws latency times energy over area for every model: all packages, and the least up to each area.

    Args:
        comparisons: one for each model, at least one.
        title: scenario, budget and seed.
    """
    columns = min(_COLUMNS, len(comparisons))
    rows = -(-len(comparisons) // columns)
    figure = new_figure(3.7 * columns, 2.9 * rows + 0.5)
    panels = np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel()
    known = np.concatenate([part for one in comparisons for part in (one.robust, one.nominal)])
    areas = known[np.isfinite(known).all(axis=1), 2]
    span = (areas.min() / 1.1, areas.max() * 1.1) if len(areas) else (1.0, 10.0)
    for axes, one in zip(panels, comparisons, strict=False):
        _panel(axes, one, span)
    for axes in panels[len(comparisons) :]:
        axes.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    legend_below(figure, handles, labels)
    heading(figure, "Price of robustness: latency × energy by area", title)
    return figure


def _panel(axes: Axes, one: Comparison, span: tuple[float, float]) -> None:
    fronts = (
        ("robust: searched for all models", one.robust, PALETTE[0], "o"),
        ("made for the nominal model alone", one.nominal, PALETTE[5], "x"),
    )
    products = []
    for label, objectives, colour, marker in fronts:
        area, least = staircase(objectives)
        fits = objectives[np.isfinite(objectives).all(axis=1)]
        axes.plot(fits[:, 2], fits[:, 0] * fits[:, 1], marker, color=colour, markersize=2.5, alpha=0.35, linewidth=0)
        axes.step([*area, span[1]], [*least, *least[-1:]] if len(area) else [np.nan], where="post", color=colour,
                  linewidth=1.5, label=label)  # fmt: skip
        products += (fits[:, 0] * fits[:, 1]).tolist()
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*span)
    log_ticks(axes.xaxis, *span)
    if products:
        low, high = min(products) / 1.2, max(products) * 1.2
        axes.set_ylim(low, high)
        log_ticks(axes.yaxis, low, high)
    axes.set(xlabel="area [mm²]", ylabel="latency × energy [J s]")
    axes.grid(True)
    _, nominal = one.runs
    told = [] if math.isnan(one.price) else [f"price {one.price:.2f}"]
    if nominal < len(one.nominal):
        told.append(f"{len(one.nominal) - nominal} of {len(one.nominal)} nominal packages do not run it")
    name = clean(one.model, 40)
    axes.set_title("\n".join([f"{name} ({_ROLES[one.role]})", ", ".join(told)]), parse_math=False)
