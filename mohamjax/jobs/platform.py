"""Platforms of G#: cores of fixed dataflow styles behind one shared bandwidth, and the job tables for them."""

from __future__ import annotations

import dataclasses
import functools
from collections import abc
from collections.abc import Sequence

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Template
from mohamjax.jobs.analysis import (
    STYLES,
    JobAnalysis,
    JobShapes,
    analyse,
    bandwidth_demand,
    flexible_rows,
    job_shapes,
    layer_shape,
)
from mohamjax.jobs.table import JobTable
from mohamjax.schedule.design import CYCLE_S
from mohamjax.workload import DIMS, TASKS, ApplicationModel, UniqueLayer

_COLUMNS = 64  # width of every array in the paper
SHARED = "system"
"""Name of the resource that all cores share."""


@dataclasses.dataclass(frozen=True, eq=False)
class JobBatch:
    """Independent jobs of several tenants.

    Attributes:
        names: distinct names of N jobs.
        layers: layer that each job computes.
        tenants: tenant that each job belongs to, "" for none.
        weight: importance of each job.
        deadline: deadline of each job [cycles], +inf for none.
        target: place at which each job should end, a permutation of 0..N-1.
    """

    names: tuple[str, ...]
    layers: tuple[UniqueLayer, ...]
    tenants: tuple[str, ...]
    weight: tuple[float, ...]
    deadline: tuple[float, ...]
    target: tuple[int, ...]

    def wanted(self, table: JobTable) -> JobTable:
        """The table of these jobs with their tenants, weights, deadlines and targets; defaults become None."""
        count = len(self.names)
        return dataclasses.replace(
            table,
            tenants=self.tenants if any(self.tenants) else None,
            weight=self.weight if set(self.weight) != {1.0} else None,
            deadline=self.deadline if np.isfinite(self.deadline).any() else None,
            target=self.target if self.target != tuple(range(count)) else None,
        )

    def reshaped(self, share: float, seed: int) -> JobBatch:
        """The batch with layers of random shapes, as a network search would make them (G#, Section 5.5).

        K, C, P and Q of a convolution, the channels of a depthwise one, and K and C of a matrix product are each
        multiplied by their own factor, drawn uniformly between `1 - share` and `1 + share`. Bounds of 1 stay 1, and
        batches (N, which holds the rows of a matrix product), steps of recurrent layers (their P) and filters keep
        their size. (The paper prints no range.)

        Args:
            share: above 0, below 1.
            seed: seed of the draw.

        Raises:
            InputError: `share` is out of range.
        """
        if not 0 < share < 1:
            raise InputError(f"is {share:g}", item="share of random shapes", remedy="give a number between 0 and 1")
        rng = np.random.default_rng([seed, 0x5A9E])
        layers = []
        for layer in self.layers:
            drawn = dict(zip("KCPQG", rng.uniform(1 - share, 1 + share, 5), strict=True))
            if layer.type != "dwconv":
                del drawn["G"]  # elsewhere the number of groups or heads, which stays
            if layer.type == "rnn":
                del drawn["P"]
            old = {name: getattr(layer.shape, name) for name in drawn}
            new = {name: max(1, round(b * drawn[name])) if b > 1 else 1 for name, b in old.items()}
            layers.append(UniqueLayer(layer.type, dataclasses.replace(layer.shape, **new)))
        return dataclasses.replace(self, layers=tuple(layers))

    @functools.cached_property
    def shapes(self) -> JobShapes:
        """The layers as MAESTRO takes them."""
        return job_shapes(
            [layer_shape(layer.type, dict(zip(DIMS, layer.shape.bounds, strict=True))) for layer in self.layers]
        )


@dataclasses.dataclass(frozen=True)
class Core:
    """A sub-accelerator.

    Attributes:
        style: dataflow, one of `analysis.STYLES`.
        rows: height of the array of processing elements.
        columns: width of the array.
        flexible: the shape of the array is chosen for every job; only the number of elements is fixed.
        element_buffer: buffer of a processing element [bytes], see `analysis.analyse`; None for no limit.
    """

    style: str
    rows: int
    columns: int = _COLUMNS
    flexible: bool = False
    element_buffer: float | None = None

    def __post_init__(self) -> None:
        """Checks the values; raises ValueError."""
        if self.style not in STYLES:
            raise ValueError(f"style is {self.style!r}, expected one of {', '.join(STYLES)}")
        if self.rows < 1 or self.columns < 1:
            raise ValueError(f"an array of {self.rows} x {self.columns} elements has no element")
        if self.element_buffer is not None and not self.element_buffer >= 6:
            raise ValueError(f"element_buffer is {self.element_buffer:g}; three tensors, each twice, take 6 bytes")

    @property
    def elements(self) -> int:
        """Number of processing elements."""
        return self.rows * self.columns

    def __str__(self) -> str:
        held = "" if self.element_buffer is None else f" {self.element_buffer:g} B"
        return f"{self.style} {self.rows}x{self.columns}{' flexible' if self.flexible else ''}{held}"


@dataclasses.dataclass(frozen=True)
class TemplateCore:
    """A sub-accelerator that is a template at its largest sizes; only the loop-nest model knows its costs."""

    template: Template

    def __str__(self) -> str:
        return self.template.name


@dataclasses.dataclass(frozen=True)
class Platform:
    """Cores behind one bandwidth.

    Attributes:
        name: name shown to users.
        cores: A cores.
    """

    name: str
    cores: tuple[Core | TemplateCore, ...]


PLATFORMS = {
    "S1": ((4, "HB", 32),),
    "S2": ((3, "HB", 32), (1, "LB", 32)),
    "S3": ((8, "HB", 128),),
    "S4": ((7, "HB", 128), (1, "LB", 128)),
    "S5": ((3, "HB", 128), (1, "LB", 128), (3, "HB", 64), (1, "LB", 64)),
    "S6": ((7, "HB", 128), (1, "LB", 128), (7, "HB", 64), (1, "LB", 64)),
}
"""Settings of G#'s Table 4: (number of cores, style, rows), 64 columns each. LB stands for one of the LB styles."""


def named_platform(
    name: str, *, lb: str = "LB_rs", flexible: bool = False, element_buffer: float | None = None
) -> Platform:
    """A setting of G#'s Table 4.

    Args:
        name: a key of `PLATFORMS`.
        lb: style that LB stands for: `LB_rs` (Eyeriss-like, as in the paper's text) or `LB_os` (ShiDianNao-like, as in
            the released script).
        flexible: the shape of every array is chosen per job (Section 5.5).
        element_buffer: buffer of a processing element [bytes], None for no limit; 1024 in Section 5.5.

    Raises:
        ValueError: there is no such setting or style, or `element_buffer` is below 6 bytes.
    """
    if name not in PLATFORMS:
        raise ValueError(f"platform is {name!r}, expected one of {', '.join(PLATFORMS)}")
    cores = tuple(
        Core(lb if style == "LB" else style, rows, flexible=flexible, element_buffer=element_buffer)
        for count, style, rows in PLATFORMS[name]
        for _ in range(count)
    )
    return Platform(f"{name}{' flexible' if flexible else ''}", cores)


POOLS = (*TASKS, "mixed")
"""Classes of networks that jobs are drawn from (G#, Section 5.1.1); `mixed` is all of them."""


def _drawn(application: ApplicationModel, pool: str, sample: int, seed: int) -> list[int]:
    """Indices of layers drawn with replacement from the networks of a pool.

    Raises:
        ValueError: there is no such pool.
        InputError: a network has no task, or a task of the pool has no layers.
    """
    if pool not in POOLS:
        raise ValueError(f"pool is {pool!r}, expected one of {', '.join(POOLS)}")
    for network in application.networks:
        if not network.task:
            raise InputError(
                "states no task, so it is in no pool",
                item=f"network {network.name}",
                remedy=f"list the networks in a scenario YAML with `task: {TASKS[0]}` (or {' or '.join(TASKS[1:])})",
            )
    tasks = TASKS if pool == "mixed" else (pool,)
    owners = [application.networks[n].task for n in application.network_of_layer]
    own = [[i for i, task in enumerate(owners) if task == wanted] for wanted in tasks]
    for task, layers in zip(tasks, own, strict=True):
        if not layers:
            there = [known for known in TASKS if known in owners]
            raise InputError(
                f"the pool {pool} needs {task} networks, and {application.name} has none",
                argument="pool",
                remedy=f"draw from {' or '.join(there)}, or add networks of this task",
            )
    rng = np.random.default_rng(seed)
    shares = rng.permutation(np.resize(rng.permutation(len(tasks)), sample))
    place = rng.integers([len(own[k]) for k in shares])
    return [own[k][p] for k, p in zip(shares, place, strict=True)]


def batch_of_layers(
    application: ApplicationModel, *, sample: int | None = None, seed: int = 0, pool: str | None = None
) -> JobBatch:
    """Independent jobs from the layers of networks, one tenant per network.

    Args:
        application: networks.
        sample: number of jobs to draw with replacement, as G# does; None takes every layer once.
        seed: seed of the draw.
        pool: one of `POOLS`; draws layers uniformly from the networks of this task. `mixed` draws equal shares (to
            within one job) from each task, because some networks have few layers (a recommendation model).

    Raises:
        ValueError: there is no such pool, or `pool` is given without `sample`.
        InputError: a network has no task, or a task of the pool has no layers.
    """
    if pool is not None:
        if sample is None:
            raise ValueError(f"the pool {pool} is to draw jobs from; say how many")
        chosen = _drawn(application, pool, sample, seed)
    elif sample is not None:
        chosen = np.random.default_rng(seed).integers(len(application.layers), size=sample)
    else:
        chosen = range(len(application.layers))
    layers, names, tenants, weight, deadline = [], [], [], [], []
    for place, i in enumerate(chosen):
        layer = application.layers[i]
        network = application.networks[application.network_of_layer[i]]
        layers.append(UniqueLayer(layer.type, layer.shape))
        names.append(f"{place} {application.full_names[i]}")
        tenants.append(network.name)
        weight.append(network.weight)
        deadline.append(network.deadline_s / CYCLE_S)
    return JobBatch(
        names=tuple(names),
        layers=tuple(layers),
        tenants=tuple(tenants),
        weight=tuple(weight),
        deadline=tuple(deadline),
        target=tuple(range(len(layers))),
    )


def platform_table(
    names: Sequence[str],
    shapes: JobShapes,
    platform: Platform,
    bandwidth: float,
    *,
    demand: str = "as-released",
) -> JobTable:
    """The job analysis table of independent jobs on a platform (G#, Figure 3), from the closed forms.

    Args:
        names: distinct names of N jobs.
        shapes: shapes of the jobs.
        platform: platform with A cores.
        bandwidth: bandwidth that all cores share [bytes per cycle, GB/s at 1 GHz].
        demand: convention of `analysis.bandwidth_demand`.

    Returns:
        The table of `analysis_table`, without energies.

    Raises:
        InputError: a core is a template.
    """
    analyses: dict[Core | TemplateCore, JobAnalysis] = {}
    for core in dict.fromkeys(platform.cores):
        if isinstance(core, TemplateCore):
            raise InputError(
                "is a template, which the closed forms do not know",
                item=f"core {core}",
                remedy="take the argument `cost_model=loop-nest`",
            )
        rows = np.full(len(shapes), core.rows)
        if core.flexible:
            rows = flexible_rows(shapes, core.style, core.elements, element_buffer=core.element_buffer)
        columns = core.elements // rows
        analyses[core] = analyse(shapes, core.style, rows, columns, element_buffer=core.element_buffer)
    return analysis_table(names, platform, analyses, bandwidth, demand=demand)


def _bytes(analysis: JobAnalysis, demand: str) -> np.ndarray:
    """`[N]`, bytes moved at the demand of each job in its no-stall time; 0 where it cannot run."""
    able = np.isfinite(analysis.latency)
    return np.where(able, bandwidth_demand(analysis, demand) * np.where(able, analysis.latency, 0.0), 0.0)


def analysis_table(
    names: Sequence[str],
    platform: Platform,
    analyses: abc.Mapping[Core | TemplateCore, JobAnalysis],
    bandwidth: float,
    *,
    demand: str,
) -> JobTable:
    """The job table of N jobs on a platform, from analyses of the jobs on every kind of core.

    Args:
        names: distinct names of the jobs.
        platform: platform with A cores.
        analyses: analysis of the jobs on each distinct core.
        bandwidth: bandwidth that all cores share [bytes per cycle, GB/s at 1 GHz].
        demand: convention of `analysis.bandwidth_demand`.

    Returns:
        The table in cycles, with one resource that all cores use. The bytes of a job are those moved at its demand in
        its no-stall time. Energies are there if all analyses have them.
    """
    labels = [f"{i} {core}" for i, core in enumerate(platform.cores)]
    each = [analyses[core] for core in platform.cores]
    energy = [analysis.energy for analysis in each if analysis.energy is not None]
    return JobTable(
        jobs=tuple(names),
        accelerators=tuple(labels),
        duration=np.stack([analysis.latency for analysis in each], axis=1),
        bytes=np.stack([_bytes(analysis, demand) for analysis in each], axis=1),
        energy=np.stack(energy, axis=1) if len(energy) == len(each) else None,
        predecessors=((),) * len(names),
        resources=(SHARED,),
        bandwidth=(float(bandwidth),),
        resources_of_accelerator=((0,),) * len(platform.cores),
        time_unit="cycles",
    )
