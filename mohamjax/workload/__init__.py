"""Workloads: ONNX graphs read into layers, networks and application models."""

from mohamjax.workload.ensemble import Ensemble, Member, load_ensemble
from mohamjax.workload.importer import LAYER_COLUMNS, layer_rows, read_network
from mohamjax.workload.layer import (
    DIMS,
    LAYER_TYPES,
    TASKS,
    ApplicationModel,
    Layer,
    Network,
    UniqueLayer,
    WorkloadShape,
)
from mohamjax.workload.scenario import SCENARIOS, VARIANTS, load_scenario, packaged_networks

__all__ = [
    "DIMS",
    "LAYER_COLUMNS",
    "LAYER_TYPES",
    "SCENARIOS",
    "TASKS",
    "VARIANTS",
    "ApplicationModel",
    "Ensemble",
    "Layer",
    "Member",
    "Network",
    "UniqueLayer",
    "WorkloadShape",
    "layer_rows",
    "load_ensemble",
    "load_scenario",
    "packaged_networks",
    "read_network",
]
