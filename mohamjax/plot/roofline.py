"""Rooflines of a design's chiplets: MACs per cycle of the layers over their MACs per off-chip byte."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from mohamjax.plot.style import clean, fill, heading, legend_below, log_ticks, new_figure, objectives_text, styled
from mohamjax.schedule.view import DesignView

_MARKERS = "os^Dv<>Pp*"
_INCHES = 3.3, 2.6


@styled
def rooflines(view: DesignView, *, title: str) -> Figure:
    """Draws the roofline of every chiplet, and its layers as points in the colours of their networks.

    All chiplets have the same axes. The roof rises with the bandwidth between chiplet and memory, and is level where
    all MACs of the chiplet work. Markers distinguish the networks too.

    Args:
        view: the design.
        title: scenario and budget.
    """
    count = len(view.chiplets)
    columns = min(3, math.ceil(math.sqrt(count)))
    rows = -(-count // columns)
    figure = new_figure(max(_INCHES[0] * columns, 6.6), _INCHES[1] * rows + 0.9)
    figure.set_layout_engine(None)
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    (west, east), _ = view.roof_decades
    for axis, (low, high) in zip("xy", view.roof_decades, strict=True):  # all panels share it
        panels[0, 0].set(**{f"{axis}scale": "log", f"{axis}lim": (10.0**low, 10.0**high)})
        shared = getattr(panels[0, 0], f"{axis}axis")
        log_ticks(shared, 10.0**low, 10.0**high)
        shared.set_major_locator(FixedLocator([10.0**power for power in range(low, high + 1)]))
        shared.set_minor_locator(NullLocator())
    intensities = np.geomspace(10.0**west, 10.0**east, 400)
    handles: dict[int, Artist] = {}
    for k, chiplet in enumerate(view.chiplets):
        axes = panels.flat[k]
        roof = chiplet.roof
        corners = np.sort(np.append(intensities, roof.ridge)) if roof.ridge > 0 else intensities
        axes.plot(corners, roof.at(corners), color="black", linewidth=1.2, zorder=2)
        for network in range(len(view.networks)):
            own = [bar for bar in view.bars if bar.chiplet == k and bar.network == network]
            if not own:
                continue
            found = axes.plot(
                [bar.intensity for bar in own],
                [bar.reached for bar in own],
                linestyle="none",
                marker=_MARKERS[network % len(_MARKERS)],
                markersize=4.5,
                markeredgecolor="white",
                markeredgewidth=0.4,
                color=fill(network)[0],
                alpha=0.8,
                gid=f"chiplet-{k}-network-{network}",
                zorder=3,
            )
            handles.setdefault(network, found[0])
        way = f"{roof.bandwidth:.3g} B/cycle ({roof.resource})" if math.isfinite(roof.bandwidth) else "no limit"
        name = f"{k} {clean(chiplet.template, 24)}: {roof.peak:.0f} MAC{'s' if roof.peak != 1 else ''}, {way}"
        axes.set_title(name, fontsize=8.0, parse_math=False)
        axes.grid(True)
    for axes in panels.flat[count:]:
        axes.set_visible(False)
    for k in range(count):
        axes = panels.flat[k]
        below = k + columns >= count
        axes.tick_params(labelbottom=below)
        axes.set_xlabel("MACs per off-chip byte" if below else "")
        axes.set_ylabel("MACs per cycle" if k % columns == 0 else "")
    shown = sorted(handles)
    height = figure.get_figheight()
    legend_below(figure, [handles[n] for n in shown], [clean(view.networks[n], 40) for n in shown])
    heading(figure, title, f"rooflines of design {clean(view.design_id, 60)}: {objectives_text(view.objectives)}")
    # Margins in inches: a layout engine would take longer to find them than all else to draw.
    wide, high = figure.get_size_inches()
    figure.subplots_adjust(
        left=0.75 / wide, right=1 - 0.2 / wide, bottom=(0.6 + high - height) / high, top=1 - 0.75 / high,
        wspace=0.18, hspace=0.24,
    )  # fmt: skip
    return figure
