"""Job analysis from our own loop-nest model: the layer mapper on templates that stand for a platform's cores.

Axes: N jobs, U unique layers, T templates, M mappings of a set.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology
from mohamjax.schedule.job_analysis import JobAnalysis
from mohamjax.schedule.job_platform import Core
from mohamjax.schedule.job_templates import core_template
from mohamjax.search.mapper import MapperConfig, MapperProgress, map_layers
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

__all__ = ["MAPPING_CHOICES", "nest_analyses"]

MAPPING_CHOICES = ("latency", "energy", "edp")
"""What decides which mapping of its Pareto set a job has on a core."""

_PACKAGED_LEVELS = 6  # as deep as the packaged templates, so that the mapper's programs for these serve here too


def _arrays_of(core: Core) -> list[tuple[str, int, int]]:
    """Style, rows and columns of the array of a core; of every array that it can be if it is flexible."""
    if not core.flexible:
        return [(core.style, core.rows, core.columns)]
    return [(core.style, h, core.elements // h) for h in range(1, core.elements + 1) if core.elements % h == 0]


def _best(latency: np.ndarray, energy: np.ndarray, choice: str) -> tuple[int, ...]:
    """Place of the best mapping, ties by the other value."""
    keys = {"latency": (energy, latency), "energy": (latency, energy), "edp": (latency, latency * energy)}[choice]
    return tuple(int(i) for i in np.unravel_index(np.lexsort([key.ravel() for key in keys])[0], latency.shape))


def nest_analyses(
    key: jax.Array,
    layers: Sequence[UniqueLayer],
    cores: Sequence[Core],
    technology: Technology,
    config: MapperConfig | None = None,
    *,
    choice: str = "latency",
    progress: Callable[[MapperProgress], None] | None = None,
    cache: pathlib.Path | None = None,
) -> dict[Core, JobAnalysis]:
    """Analyses jobs on cores by searching their mappings (`map_layers`) on `job_templates.core_template`.

    A tile set is what one step of the off-chip memory's loops works on; every element has one byte. Energies count
    everything from the MACs to the off-chip memory.

    Args:
        key: typed key of the mapper.
        layers: of N jobs.
        cores: distinct ones; a flexible one takes the best array for each job.
        technology: energy and area tables.
        config: sizes of the mapper.
        choice: of `MAPPING_CHOICES`: which mapping of its Pareto set over latency and energy a job has on a core.
        progress: as for `map_layers`.
        cache: as for `map_layers`.

    Returns:
        The analysis of the N jobs on each core.

    Raises:
        InputError: the mapper found no mapping of a layer on a core.
    """
    unique = list(dict.fromkeys(layers))
    arrays = list(dict.fromkeys(array for core in cores for array in _arrays_of(core)))
    templates = [core_template(*array) for array in arrays]
    tables = map_layers(
        key, unique, templates, technology, config, progress=progress, cache=cache, levels=_PACKAGED_LEVELS
    )
    objectives = np.asarray(tables.objectives, float)  # [U, T, M, 3]: cycles, pJ, um^2; +inf beyond a set
    traffic = np.asarray(tables.offchip_bytes, float)
    memory = len(templates[0].levels) - 1
    outer = np.asarray(tables.mapping.temporal)[..., memory, :]  # [U, T, M, D]: its loops

    def one(core: Core, u: int) -> tuple[float, ...]:
        shape = unique[u].shape
        which = [arrays.index(array) for array in _arrays_of(core)]
        t, m = _best(objectives[u, which, :, 0], objectives[u, which, :, 1], choice)
        at = (u, which[t], m)
        latency, energy, _ = objectives[at]
        if not math.isfinite(latency):
            raise InputError(
                f"no mapping was found of a {unique[u].type} layer {shape}",
                item=f"core {core}",
                remedy="take a larger --budget, or another core",
            )
        inside = dict(zip(DIMS, (np.asarray(shape.bounds) // outer[at]).tolist(), strict=True))
        tile = WorkloadShape(**inside, stride=shape.stride, dilation=shape.dilation)
        steps = math.prod(outer[at].tolist())
        return latency, sum(tile.tensor_words), steps, sum(shape.tensor_words), traffic[at], energy * 1e-12

    place = {layer: u for u, layer in enumerate(unique)}
    rows = [place[layer] for layer in layers]
    found = {core: np.asarray([one(core, u) for u in range(len(unique))], float)[rows] for core in cores}
    return {core: JobAnalysis(*columns.T) for core, columns in found.items()}
