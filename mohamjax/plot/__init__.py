"""Matplotlib figures of searches, designs and mappings."""

from mohamjax.plot.design import area_shares, energy_breakdown, gantt
from mohamjax.plot.front import Front, convergence, front_projections
from mohamjax.plot.mappings import MappingSet, parallel_coordinates
from mohamjax.plot.results import front_of, result_figures
from mohamjax.plot.roofline import rooflines
from mohamjax.plot.style import FORMATS, rendered
from mohamjax.schedule.view import ChipletView, DesignView, LayerBar, Slowdown, design_view

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
    "front_of",
    "front_projections",
    "gantt",
    "parallel_coordinates",
    "rendered",
    "result_figures",
    "rooflines",
]
