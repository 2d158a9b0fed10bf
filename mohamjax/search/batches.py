"""Batches of individuals that enter a search beside its generations: seeds, designs decoded again, neighbours.

They wait in the place of candidates, and take part in survival and archive by the program of the generations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo.loop import Course, Problem, SearchState, Sizes, generations, light_generations, start
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.programs import jit_o0_plain_loops, jit_o1
from mohamjax.search.config import MohamConfig
from mohamjax.search.plans import Plan, Planned, decode
from mohamjax.search.spread import SpreadGenerations

_LONG = 250_000
"""Designs of a search from which on its generations are compiled for speed."""


def generations_of(config: MohamConfig, devices: Devices | None = None) -> Any:
    """The program of a search's generations: `generations` where it evaluates so many designs that its speed pays.

    Args:
        config: settings.
        devices: on which it runs; None for the one that JAX takes by itself.
    """
    each = config.islands * (config.population + config.immigrant_count)
    light = config.generations * each <= _LONG
    if devices is not None:
        return SpreadGenerations(devices, config.islands, light=light)
    return light_generations if light else generations


def program_of(config: MohamConfig, problem: Problem, devices: Devices | None) -> Callable[..., Any]:
    """That program with its static arguments.

    Args:
        config: settings.
        problem: what is searched (`genetic_problem`).
        devices: as in `generations_of`.

    Returns:
        `(state, space, rates, count, counted) -> (state, metrics)`, as `loop.generations`.
    """
    course = Course(problem, chunk=config.chunk, migration=config.migration)
    return functools.partial(generations_of(config, devices), course=course)


def sizes_of(config: MohamConfig) -> Sizes:
    """Sizes of each island of a search."""
    return Sizes(population=config.population, immigrants=config.immigrant_count, archive=config.archive)


opening = jit_o0_plain_loops(start, static_argnames=("problem", "islands", "sizes"))
"""The state before the first generation, all candidates random."""


def entered(
    state: SearchState, candidates: Any, space: DesignSpace, rates: Any, program: Callable[..., Any]
) -> SearchState:
    """The state after individuals took part in survival and archive; generations are not counted.

    Args:
        state: of the search.
        candidates: individuals `[I, N, ...]`, N the population and the immigrants (`as_candidates`).
        space: the search's problem.
        rates: float32 arrays, with which the state's next candidates are bred.
        program: of `program_of`.
    """
    waiting = dataclasses.replace(state, candidates=candidates)
    return program(waiting, space, rates, np.int32(1), np.bool_(False))[0]


def random_candidates(
    key: jax.Array, space: DesignSpace, config: MohamConfig, problem: Problem, number: int = 0
) -> Any:
    """Random individuals `[I, N, ...]`: the first population, and the immigrants of a number (`loop.start`).

    Args:
        key: typed key; every island makes its own of it.
        space: the search's problem.
        config: settings.
        problem: as in `program_of`.
        number: of the immigrants; 0 those of the first population.
    """
    first = opening(key, space, np.int32(number), problem=problem, islands=config.islands, sizes=sizes_of(config))
    return first.candidates


@functools.partial(jit_o0_plain_loops, static_argnames="population")
def as_candidates(batch: Any, drawn: Any, *, population: int) -> Any:
    """Individuals `[I, K, ...]`, K <= P, as candidates `[I, N, ...]`: with them random ones up to P, and immigrants.

    Args:
        batch: the individuals.
        drawn: random candidates `[I, N, ...]` (`random_candidates`).
        population: P.
    """

    def join(own: jax.Array, drawn: jax.Array) -> jax.Array:
        return jnp.concatenate([own, drawn[:, : population - own.shape[1]], drawn[:, population:]], axis=1)

    return jax.tree.map(join, batch, drawn)


@jit_o0_plain_loops
def archived(state: SearchState) -> list[Planned]:
    """The individuals of the archives as batches `[I, P, ...]`; empty slots hold individuals of the population.

    Args:
        state: of a search of plans, whole.

    Returns:
        As many batches as the slots of an archive need.
    """
    genes: Any = state.archive.genes
    size, capacity = state.population.rank.shape[1], state.archive.valid.shape[1]
    slots = np.arange(-(-capacity // size) * size)
    filler = slots % size
    missing = len(slots) - capacity
    valid = jnp.pad(state.archive.valid, ((0, 0), (0, missing)))

    def filled(own: jax.Array, other: jax.Array) -> jax.Array:
        own = jnp.pad(own, ((0, 0), (0, missing), *[(0, 0)] * (own.ndim - 2)))
        return jnp.where(valid.reshape(*valid.shape, *[1] * (own.ndim - 2)), own, other[:, filler])

    everyone = jax.tree.map(filled, genes, state.population.genes)
    return [jax.tree.map(lambda leaf, i=i: leaf[:, i : i + size], everyone) for i in range(0, len(slots), size)]


@jit_o1
def decode_all(plans: Plan, space: DesignSpace) -> Planned:
    """Plans `[I, P, ...]` decoded."""
    return jax.vmap(lambda plans: decode(plans, space.genetics, space.plans))(plans)
