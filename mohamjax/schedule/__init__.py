"""Schedules: jobs under shared bandwidth, and the evaluation of a design."""

from mohamjax.schedule.bounds import Bounds, alone, design_bounds, scenario_bounds, uncontended
from mohamjax.schedule.design import (
    CYCLE_S,
    OBJECTIVES,
    Chiplets,
    Design,
    DesignReport,
    Package,
    Workbench,
    chiplets,
    evaluate,
    report,
)
from mohamjax.schedule.evaluated import DesignFile, Evaluated, network_latencies, reevaluate
from mohamjax.schedule.explain import explain_design, explanation_text
from mohamjax.schedule.fluid import Completion, Timeline, completion, padded_jobs, predecessor_bits, simulate
from mohamjax.schedule.front import ROLES, landmarks, non_dominated
from mohamjax.schedule.front_bounds import Certificate, FrontBounds, FrontCurves, Staircase, certify, front_bounds
from mohamjax.schedule.periods import PeriodicSchedule, run_periods
from mohamjax.schedule.requirements import Requirements, load_requirements
from mohamjax.schedule.segments import Segment, segments
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.tenants import TenantReport, Tenants, tenant_report, tenants_of
from mohamjax.schedule.utilisation import LOW, LayerUse, by_type, layer_use, layers_of_little_use
from mohamjax.schedule.workbench import package_arrays, workbench

__all__ = [
    "CYCLE_S",
    "LOW",
    "OBJECTIVES",
    "ROLES",
    "Bounds",
    "Certificate",
    "Chiplets",
    "Completion",
    "Design",
    "DesignFile",
    "DesignReport",
    "Evaluated",
    "FrontBounds",
    "FrontCurves",
    "LayerUse",
    "Package",
    "PeriodicSchedule",
    "Requirements",
    "Segment",
    "Setup",
    "Staircase",
    "TenantReport",
    "Tenants",
    "Timeline",
    "Workbench",
    "alone",
    "by_type",
    "certify",
    "chiplets",
    "completion",
    "design_bounds",
    "evaluate",
    "explain_design",
    "explanation_text",
    "front_bounds",
    "landmarks",
    "layer_use",
    "layers_of_little_use",
    "load_requirements",
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
    "uncontended",
    "workbench",
]
