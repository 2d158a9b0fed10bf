"""Measures how fast this machine searches, and compares it with committed figures of another one."""

from __future__ import annotations

import dataclasses
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo.loop import MAX_POPULATION, Course, SearchState, generations
from mohamjax.errors import InputError
from mohamjax.mapper import LayerMapper, MapperConfig, MapperProgress
from mohamjax.problem import DesignProblem, search_keys
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.programs import machinery
from mohamjax.runtime.struct import take
from mohamjax.search import Settings, genetic_problem
from mohamjax.search.config import MohamConfig
from mohamjax.search.generations import opening, sizes_of
from mohamjax.workload import load_scenario

_MACHINE = "two cores of a shared server, 2026-11-29, JAX 0.10.2, without other work, commit e44f4a57"

COMMITTED: dict[str, dict[int, tuple[int, str]]] = {
    "ar-vr": {
        256: (7_989, _MACHINE),
        1024: (9_754, _MACHINE),
        16_384: (9_494, _MACHINE),
    }
}
"""Designs/s of whole generations, with machine and commit, by scenario and population size.

These are the latest rows for processors in experiments/results/bench_search.md: the same generations over the same
tables that `bench` measures, at that commit.
"""


class MapperSpeed(TypedDict):
    """Seconds of compiling the layer mapper, and mappings that it evaluates per second after that."""

    compile_s: float
    mappings_per_s: int


class Committed(TypedDict):
    """Designs/s of whole generations on another machine, and a description of that machine and program."""

    generation_designs_per_s: int
    measured: str


class Speed(TypedDict):
    """For one population size: seconds of compiling, designs/s of evaluation alone and of whole generations."""

    population: int
    compile_s: float
    designs_per_s: int
    generation_designs_per_s: int
    committed: Committed | None


class Bench(TypedDict):
    """The figures that `bench` returns."""

    format: str
    versions: dict[str, str]
    device: str
    platform: str
    cores: int | None
    scenario: str
    mapper: MapperSpeed
    populations: list[Speed]
    memory_MB: float | None
    device_memory_MB: float | None


_FEW = 2048  # designs per measured call at least, which makes the overhead of the call negligible


def bench(
    scenario: str = "ar-vr",
    populations: Sequence[int] = (256, 4096),
    *,
    repeats: int = 5,
    seed: int = 0,
    mapper: MapperConfig | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Bench:
    """Measures the layer mapper and the co-optimiser on one scenario; nothing is cached but compiled programs.

    Args:
        scenario: name or file of a scenario.
        populations: designs per generation, one program each.
        repeats: repetitions of every measurement, of which the median counts.
        seed: seed of all randomness.
        mapper: settings of the layer mapper, on whose tables designs are then evaluated; default the `tiny` budget.
        announce: called with a text before each step.

    Returns:
        Plain data: `device`, `cores`, `versions`, `scenario`; `mapper` with `compile_s` and `mappings_per_s`;
        `populations` with, for each size, `compile_s`, `designs_per_s` of evaluation alone, `generation_designs_per_s`
        of whole generations including immigrants, and `committed`, the last figure for another machine with its
        description (`measured`), or None; `memory_MB`, the peak memory of the process, and `device_memory_MB`, the peak
        memory of arrays on the first device (None if unknown, as on processors).

    Raises:
        InputError: an unknown scenario, or a size or number of repeats out of range.
    """
    for size in populations:
        if not 4 <= size <= MAX_POPULATION:
            raise InputError(f"is {size}", argument="populations", remedy=f"use 4 to {MAX_POPULATION:,}")
    if repeats < 1:
        raise InputError(f"is {repeats}", argument="repeats", remedy="use 1 or more")
    problem = DesignProblem(load_scenario(scenario))
    settings = Settings.preset("tiny")
    map_key, space_key, key = search_keys(seed)
    told: list[MapperProgress] = []
    application = problem.application
    announce(f"mapping the layers of {application.name}")
    templates, sizes = problem.resolved.templates, mapper or settings.mapper
    layer_mapper = LayerMapper(application.unique_layers, templates, problem.technology, sizes, progress=told.append)
    tables = layer_mapper.search(map_key)
    last = told[-1]
    space = problem.space(space_key, tables, settings.goals, orders=settings.moham.orders)
    rows = []
    for size in populations:
        announce(f"compiling and running generations of {size:,} designs")
        own = dataclasses.replace(settings.moham, population=size)
        rows.append(_population(key, space, own, repeats, _committed(application.name, size)))
    return {
        "format": "bench/1",
        **machinery(),
        "platform": jax.default_backend(),
        "cores": os.cpu_count(),
        "scenario": application.name,
        "mapper": {
            "compile_s": round(last.compile_s, 3),
            "mappings_per_s": round(last.evaluations / max(last.seconds - last.compile_s, 1e-9)),
        },
        "populations": rows,
        "memory_MB": _memory_MB(),
        "device_memory_MB": _device_memory_MB(),
    }


def _committed(scenario: str, size: int) -> Committed | None:
    """Returns the speed of another machine for a population size; a processor, so None on any other device."""
    known = COMMITTED.get(scenario, {}).get(size) if jax.default_backend() == "cpu" else None
    return None if known is None else {"generation_designs_per_s": known[0], "measured": known[1]}


def _population(
    key: jax.Array, space: DesignSpace, config: MohamConfig, repeats: int, committed: Committed | None
) -> Speed:
    """Measures one population size."""
    problem = genetic_problem(config)
    state = opening(key, space, np.int32(0), problem=problem, islands=1, sizes=sizes_of(config))
    rates = jax.tree.map(jnp.float32, Settings().plan_rates)

    def step(state: SearchState, count: int) -> SearchState:
        counted = jnp.bool_(True)
        return generations(state, space, rates, jnp.int32(count), counted, course=Course(problem, config.chunk))[0]

    began = time.perf_counter()
    jax.block_until_ready(step(state, 0))
    compile_s = time.perf_counter() - began
    evaluate = jax.jit(problem.evaluate)
    # A call has an overhead, which a search pays once per chunk of generations; on a GPU it is as long as several.
    several = max(1, min(config.chunk, _FEW // config.population))
    state = step(state, 1)
    jax.block_until_ready(evaluate(take(state.candidates, 0), space))
    spent: dict[str, list[float]] = {"evaluation": [], "generation": []}
    for _ in range(repeats):
        waiting = jax.block_until_ready(take(state.candidates, 0))
        tick = time.perf_counter()
        jax.block_until_ready(evaluate(waiting, space))
        spent["evaluation"].append(time.perf_counter() - tick)
        tick = time.perf_counter()
        state = jax.block_until_ready(step(state, several))
        spent["generation"].append((time.perf_counter() - tick) / several)
    designs = config.population + config.immigrant_count
    return {
        "population": config.population,
        "compile_s": round(compile_s, 3),
        "designs_per_s": round(designs / statistics.median(spent["evaluation"])),
        "generation_designs_per_s": round(designs / statistics.median(spent["generation"])),
        "committed": committed,
    }


def _device_memory_MB() -> float | None:
    """Returns the peak memory [MB] of arrays on the first device; None if unknown."""
    taken = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return None if taken is None else round(taken / 1e6)


def _memory_MB() -> float | None:
    """Returns the peak memory [MB] of the process; None if unknown."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most * (1 if sys.platform == "darwin" else 1024) / 1e6)
