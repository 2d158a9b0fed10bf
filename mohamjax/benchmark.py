"""What this machine does, beside what is known of another one."""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mohamjax.emo.loop import MAX_POPULATION, Course, Sizes, generations, start
from mohamjax.errors import InputError
from mohamjax.mapper import LayerMapper, MapperConfig, MapperProgress
from mohamjax.problem import DesignProblem, search_keys
from mohamjax.runtime.programs import brief_jit, machinery
from mohamjax.search import Settings, genetic_problem
from mohamjax.workload import load_scenario

_SHARED = "a shared server, 2026-11-25, JAX 0.10.2"

COMMITTED: dict[str, dict[int, tuple[int, str]]] = {
    "ar-vr": {
        256: (8_849, f"two cores of {_SHARED}, without other work, commit a9b953f"),
        1024: (11_987, f"one core of {_SHARED}, beside other work, commits d479d96 to 48469c7"),
        16_384: (11_744, f"one core of {_SHARED}, beside other work, commits d479d96 to 48469c7"),
    }
}
"""By scenario and size of the population: designs/s of whole generations, and of which machine and program that was.

The latest of experiments/results/bench_search.md, on processors: the same generations over the same tables as `bench`
measures, by the program of that commit. Older rows were of other programs, and evaluation alone of another search.
"""


_FEW = 2048  # designs of a call of several generations; of more, what a call costs is next to nothing


def bench(
    scenario: str = "ar-vr",
    populations: Sequence[int] = (256, 4096),
    *,
    repeats: int = 5,
    seed: int = 0,
    mapper: MapperConfig | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measures the layer mapper and the co-optimiser on one scenario; nothing is cached but compiled programs.

    Args:
        scenario: name or file of a scenario.
        populations: designs per generation, one program each.
        repeats: of every measurement; their median counts.
        seed: of all randomness.
        mapper: settings of the layer mapper, on whose tables designs are then evaluated; default the `tiny` budget.
        announce: told before each step.

    Returns:
        Plain data: `device`, `cores`, `versions`, `scenario`; `mapper` with `compile_s` and `mappings_per_s`;
        `populations`, for each size `compile_s`, `designs_per_s` of evaluation alone, `generation_designs_per_s` of
        whole generations, immigrants counted, and `committed`, that figure of another machine with what it was
        (`measured`), None where there is nothing to compare with; `memory_MB`, the most that the process has taken, and
        `device_memory_MB`, that arrays have taken on the first device at once (None where the system or the device does
        not say, as processors do not).

    Raises:
        InputError: an unknown scenario, or sizes that are none.
    """
    for size in populations:
        if not 4 <= size <= MAX_POPULATION:
            raise InputError(f"is {size}", item="argument `populations`", remedy=f"use 4 to {MAX_POPULATION:,}")
    if repeats < 1:
        raise InputError(f"is {repeats}", item="argument `repeats`", remedy="use 1 or more")
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
        rows.append(_population(key, space, dataclasses.replace(settings.moham, population=size), repeats))
        rows[-1]["committed"] = _committed(application.name, size)
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


def _committed(scenario: str, size: int) -> dict[str, Any] | None:
    """What another machine made of a size of the population; None on anything but a processor, as it was one."""
    known = COMMITTED.get(scenario, {}).get(size) if jax.default_backend() == "cpu" else None
    return None if known is None else {"generation_designs_per_s": known[0], "measured": known[1]}


def _population(key: jax.Array, space: Any, config: Any, repeats: int) -> dict[str, Any]:
    """One size of the population."""
    problem = genetic_problem(config)
    sizes = Sizes(population=config.population, immigrants=config.immigrant_count, archive=config.archive)
    state = brief_jit(functools.partial(start, problem=problem, islands=1, sizes=sizes))(key, space)
    rates = jax.tree.map(jnp.float32, Settings().plan_rates)

    def step(state: Any, count: int) -> Any:
        counted = jnp.bool_(True)
        return generations(state, space, rates, jnp.int32(count), counted, course=Course(problem, config.chunk))[0]

    began = time.perf_counter()
    jax.block_until_ready(step(state, 0))
    compile_s = time.perf_counter() - began
    evaluate = jax.jit(problem.evaluate)
    # A call has a price of its own, which a search pays once for its chunk; on a GPU it is that of several generations.
    several = max(1, min(config.chunk, _FEW // config.population))
    state = step(state, 1)
    jax.block_until_ready(evaluate(jax.tree.map(lambda leaf: leaf[0], state.candidates), space))
    spent: dict[str, list[float]] = {"evaluation": [], "generation": []}
    for _ in range(repeats):
        waiting = jax.block_until_ready(jax.tree.map(lambda leaf: leaf[0], state.candidates))
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
    }


def _device_memory_MB() -> float | None:
    """Most memory that arrays have taken on the first device."""
    taken = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return None if taken is None else round(taken / 2**20)


def _memory_MB() -> float | None:
    """Most memory that the process has taken."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10))
