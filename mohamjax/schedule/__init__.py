"""Schedules: jobs under shared bandwidth, and the evaluation of a design."""

from mohamjax.schedule.bounds import Bounds, design_bounds, isolated_cycles, scenario_bounds, uncontended
from mohamjax.schedule.design import (
    CYCLE_S,
    OBJECTIVES,
    Chiplets,
    Design,
    DesignReport,
    EvaluationArrays,
    Package,
    SizedDesign,
    chiplets,
    report,
)
from mohamjax.schedule.evaluated import DesignFile, Evaluated, network_latencies, reevaluate
from mohamjax.schedule.evaluation_arrays import evaluation_arrays, package_arrays
from mohamjax.schedule.explain import explain_design, explanation_text
from mohamjax.schedule.fluid import Timeline, padded_jobs, predecessor_bits, simulate
from mohamjax.schedule.front import ROLES, landmarks, non_dominated, told_of_little_use
from mohamjax.schedule.front_bounds import Certificate, FrontBounds, FrontCurves, Staircase, certify, front_bounds
from mohamjax.schedule.periods import PeriodicSchedule, run_periods
from mohamjax.schedule.segments import Segment, segments
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.tenants import TenantReport, Tenants, tenant_report, tenants_of
from mohamjax.schedule.utilisation import (
    LOW,
    LayerUse,
    best_utilisation,
    by_type,
    layer_use,
    layers_of_little_use,
    layers_that_fill_no_template,
    told_of_unfilled,
)
from mohamjax.schedule.view import TimetableRow, timetable

__all__ = [
    "CYCLE_S",
    "LOW",
    "OBJECTIVES",
    "ROLES",
    "Bounds",
    "Certificate",
    "Chiplets",
    "Design",
    "DesignFile",
    "DesignReport",
    "Evaluated",
    "EvaluationArrays",
    "FrontBounds",
    "FrontCurves",
    "LayerUse",
    "Package",
    "PeriodicSchedule",
    "Segment",
    "Setup",
    "SizedDesign",
    "Staircase",
    "TenantReport",
    "Tenants",
    "Timeline",
    "TimetableRow",
    "best_utilisation",
    "by_type",
    "certify",
    "chiplets",
    "design_bounds",
    "evaluation_arrays",
    "explain_design",
    "explanation_text",
    "front_bounds",
    "isolated_cycles",
    "landmarks",
    "layer_use",
    "layers_of_little_use",
    "layers_that_fill_no_template",
    "network_latencies",
    "non_dominated",
    "package_arrays",
    "padded_jobs",
    "predecessor_bits",
    "reevaluate",
    "report",
    "run_periods",
    "scenario_bounds",
    "segments",
    "simulate",
    "tenant_report",
    "tenants_of",
    "timetable",
    "told_of_little_use",
    "told_of_unfilled",
    "uncontended",
]
