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
from mohamjax.plot.front import Front, convergence, front_projections
from mohamjax.plot.mappings import MappingSet, parallel_coordinates
from mohamjax.plot.results import plot_evaluated, plot_results
from mohamjax.plot.style import FORMATS, save

__all__ = [
    "FORMATS",
    "ChipletView",
    "DesignView",
    "Front",
    "LayerBar",
    "MappingSet",
    "Slowdown",
    "area_shares",
    "convergence",
    "design_view",
    "energy_breakdown",
    "front_projections",
    "gantt",
    "parallel_coordinates",
    "plot_evaluated",
    "plot_results",
    "save",
]
