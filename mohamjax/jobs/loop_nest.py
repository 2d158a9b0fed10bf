"""Job analysis from our own loop-nest model: the layer mapper on templates that stand for a platform's cores.

Axes: N jobs, U unique layers, T templates, M mappings of a set.
"""

from __future__ import annotations

import dataclasses
import math
from collections import abc
from collections.abc import Callable, Sequence

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, Template, fits
from mohamjax.jobs.analysis import JobAnalysis
from mohamjax.jobs.platform import Core, TemplateCore
from mohamjax.jobs.templates import core_template
from mohamjax.mapper.config import MapperConfig, MapperProgress
from mohamjax.mapper.layer_mapper import LayerMapper, TableStore
from mohamjax.mapping import MappingTables
from mohamjax.mapping.nest import covered
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

MAPPING_CHOICES = ("latency", "energy", "edp")
"""Criteria that choose a job's mapping on a core from its Pareto set."""

_PACKAGED_LEVELS = 6  # depth of the packaged templates, so that their mapper programs are reused here


def _templates_of(core: Core | TemplateCore) -> list[Template]:
    """The templates of a core: one, or for a flexible core one for every shape of its array."""
    if isinstance(core, TemplateCore):
        return [dataclasses.replace(core.template, sizes="fixed")]
    if not core.flexible:
        return [core_template(core.style, core.rows, core.columns)]
    heights = [h for h in range(1, core.elements + 1) if core.elements % h == 0]
    return [core_template(core.style, h, core.elements // h) for h in heights]


def _best(latency: np.ndarray, energy: np.ndarray, choice: str) -> tuple[int, ...]:
    """Indices of the best mapping; ties are decided by the other value, for `edp` by latency."""
    keys = {"latency": (energy, latency), "energy": (latency, energy), "edp": (latency, latency * energy)}[choice]
    return tuple(int(i) for i in np.unravel_index(np.lexsort([key.ravel() for key in keys])[0], latency.shape))


@dataclasses.dataclass(frozen=True)
class CoreMappings:
    """Pareto sets of mappings of jobs on cores, from which `analyses` chooses.

    Attributes:
        layers: layers of N jobs.
        unique: the U distinct layers.
        templates: the T templates of all cores.
        places: indices of the templates of each core.
        tables: Pareto tables `[U, T, M, ...]`, NumPy arrays.
    """

    layers: tuple[UniqueLayer, ...]
    unique: tuple[UniqueLayer, ...]
    templates: tuple[Template, ...]
    places: abc.Mapping[Core | TemplateCore, list[int]]
    tables: MappingTables

    def analyses(self, choice: str = "latency") -> dict[Core | TemplateCore, JobAnalysis]:
        """Analyses the jobs on every core by the best mapping of each.

        A tile set is the data of one step of the off-chip memory's loops. Energies include everything from the MACs to
        the off-chip memory.

        Args:
            choice: one of `MAPPING_CHOICES`, by which a mapping is chosen from the Pareto set of latency and energy.

        Returns:
            The analysis of the N jobs on each core; the latency is +inf where the core has no mapping of the layer.
        """
        covers = covered(self.tables.mapping)
        place = {layer: u for u, layer in enumerate(self.unique)}
        at = [place[layer] for layer in self.layers]
        found = {}
        for core, which in self.places.items():
            rows = np.asarray([self._row(which, u, choice, covers) for u in range(len(self.unique))], float)
            found[core] = JobAnalysis(*rows[at].T)
        return found

    def _row(self, which: list[int], u: int, choice: str, covers: np.ndarray) -> tuple[float, ...]:
        """The fields of `JobAnalysis` for unique layer `u` on a core whose templates are `which`."""
        shape = self.unique[u].shape
        objectives = np.asarray(self.tables.objectives[u, which], float)  # cycles, pJ, um^2; +inf beyond a set
        t, m = _best(objectives[..., 0], objectives[..., 1], choice)
        latency, energy, _ = objectives[t, m]
        at = (u, which[t], m)
        levels = self.templates[which[t]].levels
        memory = len(levels) - 1
        width = levels[memory].word_bits / 8
        if not np.isfinite(latency):
            return np.inf, 0.0, 1.0, width * sum(shape.tensor_words), 0.0, 0.0
        outer = np.asarray(self.tables.mapping.temporal)[(*at, memory)]  # loops of the off-chip memory
        inside = dict(zip(DIMS, (covers[at] // outer).tolist(), strict=True))
        tile = WorkloadShape(**inside, stride=shape.stride, dilation=shape.dilation)
        words = np.asarray([sum(tile.tensor_words), sum(shape.tensor_words)]) * width
        traffic = float(self.tables.offchip_bytes[at])
        return latency, words[0], math.prod(outer.tolist()), words[1], traffic, energy * 1e-12


def core_mappings(
    key: jax.Array,
    layers: Sequence[UniqueLayer],
    cores: Sequence[Core | TemplateCore],
    technology: Technology,
    config: MapperConfig | None = None,
    *,
    progress: Callable[[MapperProgress], None] | None = None,
    cache: TableStore | None = None,
) -> CoreMappings:
    """Searches the mappings of jobs on cores (`LayerMapper`), on templates of fixed sizes.

    The template of a core with a style is `core_template`.

    Args:
        key: typed key of the mapper.
        layers: layers of N jobs.
        cores: distinct cores; a flexible core uses the best shape of its array for each job.
        technology: energy and area tables.
        config: sizes of the mapper.
        progress: called after every generation of a block, see `LayerMapper`.
        cache: keeps finished sets between runs, see `LayerMapper`.

    Raises:
        InputError: some layer runs on no core, or no mapping of it was found on any core.
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
    places = {core: [templates.index(template) for template in own] for core, own in each.items()}
    return CoreMappings(tuple(layers), tuple(unique), tuple(templates), places, tables)
