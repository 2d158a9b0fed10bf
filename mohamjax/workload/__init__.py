"""Workloads: ONNX graphs read into layers, networks and application models."""

from mohamjax.workload.layer import (
    DIMS,
    LAYER_TYPES,
    ApplicationModel,
    Layer,
    Network,
    UniqueLayer,
    WorkloadShape,
)

__all__ = ["DIMS", "LAYER_TYPES", "ApplicationModel", "Layer", "Network", "UniqueLayer", "WorkloadShape"]
