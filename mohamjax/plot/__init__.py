"""Figures."""

from mohamjax.plot.design import (
    ChipletView,
    DesignView,
    LayerBar,
    Slowdown,
    area_shares,
    design_view,
    energy_breakdown,
    gantt,
)
from mohamjax.plot.front import ROLES, Front, convergence, front_projections, landmarks
from mohamjax.plot.results import plot_evaluated, plot_results
from mohamjax.plot.style import FORMATS, save

__all__ = [
    "FORMATS",
    "ROLES",
    "ChipletView",
    "DesignView",
    "Front",
    "LayerBar",
    "Slowdown",
    "area_shares",
    "convergence",
    "design_view",
    "energy_breakdown",
    "front_projections",
    "gantt",
    "landmarks",
    "plot_evaluated",
    "plot_results",
    "save",
]
