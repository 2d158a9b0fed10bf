"""Workloads: ONNX graphs read into layers, networks and application models.

The ONNX reader is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from mohamjax.dims import DIMS, LAYER_TYPES
from mohamjax.workload.ensemble import Ensemble, Member, load_ensemble
from mohamjax.workload.layer import TASKS, ApplicationModel, Layer, Network, UniqueLayer, WorkloadShape
from mohamjax.workload.scenario import (
    DEPTHWISE,
    SCENARIOS,
    VARIANTS,
    ApplicationLike,
    as_application,
    as_released,
    load_scenario,
    networks_by_scenario,
    packaged_names,
    packaged_networks,
)

if TYPE_CHECKING:
    from mohamjax.workload.importer import LAYER_COLUMNS, layer_rows, read_network

__all__ = [
    "DEPTHWISE",
    "DIMS",
    "LAYER_COLUMNS",
    "LAYER_TYPES",
    "SCENARIOS",
    "TASKS",
    "VARIANTS",
    "ApplicationLike",
    "ApplicationModel",
    "Ensemble",
    "Layer",
    "Member",
    "Network",
    "UniqueLayer",
    "WorkloadShape",
    "as_application",
    "as_released",
    "layer_rows",
    "load_ensemble",
    "load_scenario",
    "networks_by_scenario",
    "packaged_names",
    "packaged_networks",
    "read_network",
]


def __getattr__(name: str) -> object:
    if name in ("LAYER_COLUMNS", "layer_rows", "read_network"):
        return getattr(importlib.import_module("mohamjax.workload.importer"), name)
    raise AttributeError(f"module 'mohamjax.workload' has no attribute {name!r}")
