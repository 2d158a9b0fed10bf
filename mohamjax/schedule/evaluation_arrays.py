"""The inputs of the evaluation of designs as arrays, built on the host: networks, tables, templates and package."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import PackageParameters, TemplateArrays, package_tables
from mohamjax.mapping import MappingTables, Wires, wires
from mohamjax.runtime.struct import cast
from mohamjax.schedule.design import EvaluationArrays, Package
from mohamjax.schedule.fluid import padded_jobs, predecessor_bits
from mohamjax.schedule.periods import frame_jobs
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.tenants import tenants_of


def package_arrays(parameters: PackageParameters, dtype: jax.typing.DTypeLike = jnp.float32) -> Package:
    """The package parameters as the arrays that the evaluation reads (bytes per cycle, pJ per bit, um^2)."""
    contends = parameters.links_contend
    figures = {
        "link_bandwidth": parameters.link_bandwidth if contends else math.inf,
        "interface_bandwidth": np.full(parameters.max_interfaces, parameters.interface_bandwidth),
        "dram_bandwidth": parameters.dram_bandwidth if contends else math.inf,
        "hop_energy": parameters.hop_energy,
        "tile_area": parameters.router_area + parameters.transceiver_area,
    }
    return Package(
        tables=package_tables(parameters, dtype),
        **jax.device_put({name: np.asarray(value, dtype) for name, value in figures.items()}),
    )


def evaluation_arrays(
    setup: Setup,
    tables: MappingTables,
    *,
    padded_layers: int | None = None,
    given: tuple[np.ndarray, np.ndarray] | None = None,
    arrays: TemplateArrays | None = None,
    hops: Wires | None = None,
    periods: int | None = None,
) -> EvaluationArrays:
    """Builds the arrays of the evaluation.

    Args:
        setup: networks with L layers, and hardware.
        tables: Pareto tables `[U, T, M, ...]`; their float dtype is that of the evaluation.
        padded_layers: L after padding; default the next multiple of 32.
        given: templates `[n]` and fanouts `[n, V, 2]` of chiplets of stated sizes, -1 where they are not stated. On
            an axis on which the template has more than 16 children, a number that no mapping uses must be given here
            before `report(sizes=)` may take it.
        arrays: arrays of the templates, with the levels and float dtype of the tables; default made here.
        hops: wires of the tables, which cover the fanouts of `given`; default counted here.
        periods: number of periods of the slowest network with frames in flight; None where that is not measured.
    """
    application = setup.application
    layers = len(application.layers)
    total = padded_layers or padded_jobs(layers)
    unique = np.zeros(total, np.int32)
    unique[:layers] = application.unique_of_layer
    network = np.full(total, -1, np.int32)
    network[:layers] = application.network_of_layer
    dtype = tables.cycles.dtype
    if arrays is None:
        arrays = setup.machines(tables.capacity.shape[3], dtype)
    if hops is None:
        hops = wires([u.shape for u in application.unique_layers], arrays, tables, given)
    return EvaluationArrays(
        **jax.device_put(
            {
                "unique": unique,
                "network": network,
                "layer_mask": np.arange(total) < layers,
                "predecessor_bits": predecessor_bits([x.predecessors for x in application.layers], total),
                "tables": tables,
                "wires": hops,
            }
        ),
        templates=arrays,
        technology=cast(setup.technology, dtype),
        package=package_arrays(setup.package, dtype),
        tenants=tenants_of(application, dtype),
        frames=None if periods is None else jax.tree.map(jnp.asarray, frame_jobs(application, periods)),
    )
