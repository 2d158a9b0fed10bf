"""Job analysis from our own loop-nest model: the layer mapper on templates that stand for a platform's cores.

Axes: N jobs, U unique layers, T templates, M mappings of a set.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, Template, fits
from mohamjax.jobs.analysis import JobAnalysis
from mohamjax.jobs.platform import Core, TemplateCore
from mohamjax.jobs.templates import core_template
from mohamjax.mapper.config import MapperConfig, MapperProgress
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapper.stores import TableStore
from mohamjax.mapping.nest import covered
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

MAPPING_CHOICES = ("latency", "energy", "edp")
"""What decides which mapping of its Pareto set a job has on a core."""

_PACKAGED_LEVELS = 6  # as deep as the packaged templates, so that the mapper's programs for these serve here too


def _templates_of(core: Core | TemplateCore) -> list[Template]:
    """The template of a core; those of every array that it can be if it is flexible."""
    if isinstance(core, TemplateCore):
        return [dataclasses.replace(core.template, sizes="fixed")]
    if not core.flexible:
        return [core_template(core.style, core.rows, core.columns)]
    heights = [h for h in range(1, core.elements + 1) if core.elements % h == 0]
    return [core_template(core.style, h, core.elements // h) for h in heights]


def _best(latency: np.ndarray, energy: np.ndarray, choice: str) -> tuple[int, ...]:
    """Place of the best mapping, ties by the other value."""
    keys = {"latency": (energy, latency), "energy": (latency, energy), "edp": (latency, latency * energy)}[choice]
    return tuple(int(i) for i in np.unravel_index(np.lexsort([key.ravel() for key in keys])[0], latency.shape))


def nest_analyses(
    key: jax.Array,
    layers: Sequence[UniqueLayer],
    cores: Sequence[Core | TemplateCore],
    technology: Technology,
    config: MapperConfig | None = None,
    *,
    choice: str = "latency",
    progress: Callable[[MapperProgress], None] | None = None,
    cache: TableStore | None = None,
) -> dict[Core | TemplateCore, JobAnalysis]:
    """Analyses jobs on cores by searching their mappings (`LayerMapper`) on templates of fixed sizes.

    A core of a style is `job_templates.core_template`. A tile set is what one step of the off-chip memory's loops works
    on. Energies count everything from the MACs to the off-chip memory.

    Args:
        key: typed key of the mapper.
        layers: of N jobs.
        cores: distinct ones; a flexible one takes the best array for each job.
        technology: energy and area tables.
        config: sizes of the mapper.
        choice: of `MAPPING_CHOICES`: which mapping of its Pareto set over latency and energy a job has on a core.
        progress: see `LayerMapper`.
        cache: see `LayerMapper`.

    Returns:
        The analysis of the N jobs on each core; the latency is +inf where a template does not run the layer.

    Raises:
        InputError: no core runs some layer.
    """
    unique = list(dict.fromkeys(layers))
    each = {core: _templates_of(core) for core in cores}
    templates = list(dict.fromkeys(template for own in each.values() for template in own))
    for layer in unique:
        if all(fits(template, layer.type, layer.shape) is not None for template in templates):
            raise InputError(
                f"no core runs a {layer.type} layer {layer.shape}",
                item="platform",
                remedy="add a core whose template runs it",
            )
    levels = max(_PACKAGED_LEVELS, *(len(template.levels) for template in templates))
    sizes = config or MapperConfig()
    mapper = LayerMapper(unique, templates, technology, sizes, progress=progress, cache=cache, levels=levels)
    tables = mapper.search(key)
    for u in np.flatnonzero(~np.asarray(tables.count).any(axis=1)):
        raise InputError(
            f"no mapping of a {unique[u].type} layer {unique[u].shape} was found on any core",
            item="platform",
            remedy="raise the argument `budget`, or add a core with larger buffers",
        )
    objectives = np.asarray(tables.objectives, float)  # [U, T, M, 3]: cycles, pJ, um^2; +inf beyond a set
    traffic = np.asarray(tables.offchip_bytes, float)
    temporal, covers = np.asarray(tables.mapping.temporal), covered(tables.mapping)

    def one(core: Core | TemplateCore, u: int) -> tuple[float, ...]:
        shape = unique[u].shape
        which = [templates.index(template) for template in each[core]]
        t, m = _best(objectives[u, which, :, 0], objectives[u, which, :, 1], choice)
        at = (u, which[t], m)
        latency, energy, _ = objectives[at]
        memory = len(templates[which[t]].levels) - 1
        width = templates[which[t]].levels[memory].word_bits / 8
        if not np.isfinite(latency):
            return np.inf, 0.0, 1.0, width * sum(shape.tensor_words), 0.0, 0.0
        outer = temporal[(*at, memory)]  # loops of the off-chip memory
        inside = dict(zip(DIMS, (covers[at] // outer).tolist(), strict=True))
        tile = WorkloadShape(**inside, stride=shape.stride, dilation=shape.dilation)
        words = np.asarray([sum(tile.tensor_words), sum(shape.tensor_words)]) * width
        return latency, words[0], math.prod(outer.tolist()), words[1], traffic[at], energy * 1e-12

    found = {core: np.asarray([one(core, u) for u in range(len(unique))], float) for core in cores}
    place = {layer: u for u, layer in enumerate(unique)}
    at = [place[layer] for layer in layers]
    return {core: JobAnalysis(*rows[at].T) for core, rows in found.items()}
