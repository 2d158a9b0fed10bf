"""Predictions of the loop-nest model for single mappings, each on its own architecture."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeVar

import jax
import numpy as np

from mohamjax.hardware.arrays import Architecture, Machine, pad_machine
from mohamjax.mapping.accesses import Counting
from mohamjax.mapping.cost import Evaluation, area, evaluate_batch
from mohamjax.mapping.nest import LayerArrays, Mapping, pad_mapping
from mohamjax.runtime.blocks import power_of_two
from mohamjax.workload.layer import WorkloadShape

T = TypeVar("T")

_CHUNK = 4096
_STEP = 512
_LEAST = 32


@dataclasses.dataclass(frozen=True)
class Sample:
    """One line of a samples file, checked.

    Attributes:
        id: The sample's name, as given.
        architecture: The machine.
        shape: The layer; a depthwise one has its channels on G.
        mapping: NumPy arrays, padded to the levels of the machine.
    """

    id: str
    architecture: Architecture
    shape: WorkloadShape
    mapping: Mapping


@functools.partial(jax.jit, static_argnames=("counting", "block_size"))
def _evaluate(
    layers: LayerArrays, mappings: Mapping, machines: Machine, *, counting: Counting, block_size: int
) -> tuple[Evaluation, jax.Array]:
    return evaluate_batch(layers, mappings, machines, counting, block_size=block_size), jax.vmap(area)(machines)


def _stack(trees: Sequence[T]) -> T:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def chunk_size(samples: int) -> int:
    """Samples per call, for as few calls as possible of about equal size.

    The result is a power of two from `_LEAST` on or a multiple of `_STEP`: with few sizes, programs are used again.
    """
    equal = -(-samples // -(-samples // _CHUNK))
    if equal <= _STEP:
        return power_of_two(equal, _LEAST)
    return -(-equal // _STEP) * _STEP


def _table_size(samples: Sequence[Sample]) -> int:
    """Number of children that the tables need room for: a power of two, so that few sizes are ever compiled."""
    most = 64
    for sample in samples:
        used = np.prod(sample.mapping.spatial.astype(np.float64), axis=(0, 2))
        if np.prod(used) <= sample.architecture.machine.mac_instances:
            most = max(most, int(np.max(used)))
    return power_of_two(most)


def alike(samples: Sequence[Sample]) -> list[Sample]:
    """The samples padded to one number of levels, all with update energies if any machine states some."""
    levels = max(len(sample.mapping.keep) for sample in samples)
    machines = [sample.architecture.machine for sample in samples]
    if all(len(m.level_mask) == levels and m.update_energy is None for m in machines):
        return list(samples)
    any_updates = any(m.update_energy is not None for m in machines)
    result = []
    for sample, machine in zip(samples, machines, strict=True):
        if any_updates and machine.update_energy is None:
            machine = dataclasses.replace(machine, update_energy=np.asarray(machine.access_energy)[:, 1])
        architecture = dataclasses.replace(sample.architecture, machine=pad_machine(machine, levels))
        mapping = pad_mapping(sample.mapping, levels)
        result.append(dataclasses.replace(sample, architecture=architecture, mapping=mapping))
    return result


def predict(
    samples: Sequence[Sample], *, links: bool = True, first_fills: bool = False, float32: bool = False
) -> tuple[Evaluation, np.ndarray]:
    """Evaluates samples.

    Args:
        samples: At least one.
        links: Count link transfers, as Timeloop does by default.
        first_fills: Fill outputs by the rule of Timeloop before 3.0, see `Counting`.
        float32: Count in single instead of double precision; only quotients that are rounded to integers stay double.

    Returns:
        (`Evaluation` with a leading axis over the samples, areas `[samples]` um^2), NumPy arrays.
    """
    samples = alike(samples)
    dtype = np.float32 if float32 else np.float64
    chunk = chunk_size(len(samples))
    counting = Counting(links=links, first_fills=first_fills, max_children=_table_size(samples))
    # Link transfers are rare: in blocks of one mapping, a mapping without any costs almost nothing.
    block_size = 1 if links else 64

    def cast(machine: Machine) -> Machine:
        """The machine in the precision of the counts, but bandwidths, whose quotients become integers, stay exact."""
        single = jax.tree.map(lambda x: x.astype(dtype) if np.issubdtype(x.dtype, np.floating) else x, machine)
        return dataclasses.replace(single, bandwidth=machine.bandwidth, shared_bandwidth=machine.shared_bandwidth)

    results = []
    with jax.enable_x64(True):
        for start in range(0, len(samples), chunk):
            part = list(samples[start : start + chunk])
            part += [part[-1]] * (chunk - len(part))
            layers = LayerArrays(
                bounds=np.array([s.shape.bounds for s in part], np.int32),
                stride=np.array([s.shape.stride for s in part], np.int32),
                dilation=np.array([s.shape.dilation for s in part], np.int32),
            )
            machines = cast(_stack([s.architecture.machine for s in part]))
            mappings = _stack([s.mapping for s in part])
            result = _evaluate(layers, mappings, machines, counting=counting, block_size=block_size)
            results.append(jax.tree.map(np.asarray, result))
    return jax.tree.map(lambda *x: np.concatenate(x)[: len(samples)], *results)
