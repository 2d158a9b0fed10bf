"""The end of a search of plans, after its last generation: descent at the fast end of the front, refitting, closing.

Survival by hypervolume keeps hardly any designs that are nearly as fast as the fastest one but smaller, as these add
little volume; but users who ask for the fastest design want these. Descent finds them: `MohamConfig.end_batches`
batches of plans with single changes, each made from a few designs near that end of the archive. Then the designs are
refitted, and at last the front is closed over places (`search.places`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.emo.loop import SearchState
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.problem.space import DesignSpace
from mohamjax.runtime.devices import Devices, gathered
from mohamjax.runtime.programs import jit_o0_plain_loops, jit_o1
from mohamjax.runtime.struct import take
from mohamjax.search.config import MohamConfig
from mohamjax.search.generations import archived, as_candidates, decode_all, entered, program_of, random_candidates
from mohamjax.search.moham import genetic_problem
from mohamjax.search.places import Closing, closing
from mohamjax.search.plan_operators import PlanRates, completed, neighbour
from mohamjax.search.plans import Plan, Planned, plan_of, refit

_AS_FAST = 1.005
"""Latency, relative to the fastest design, up to which designs count as equally fast, and smaller ones as better."""

_BAND = 1.05
"""Relative latency up to which designs are changed: one that is a little too slow may become as fast by growing."""

_STARTS = 10
"""Designs per island that are changed in a batch."""

_DRAWS = 2**30
"""Number of the first batch's random draw, above that of any generation."""


def descents(config: MohamConfig) -> int:
    """Batches of descent at the end of a search of plans: 0 unless it searches a front with latency and area."""
    both = config.objective == "front" and {"latency", "area"} <= set(config.objectives)
    return config.end_batches if both else 0


def finishing(
    state: SearchState,
    space: DesignSpace,
    config: MohamConfig,
    *,
    rates: PlanRates | None = None,
    devices: Devices | None = None,
    told: Callable[[Closing], None] = lambda _: None,
) -> Iterator[SearchState]:
    """Runs the end of a search of plans batch by batch: descent (`descents`), refitting, closing over places.

    Descent and refitting run the program of the search's generations. The designs of the archives are refitted
    (`plans.refit`) under each weight, so that they use hardware that their plan's weights left unused. A caller that
    stops early has the state after the batches done.

    Args:
        state: at the end of a search, gathered.
        space: its problem.
        config: its settings.
        rates: those of the search; without effect here, but the program takes them.
        devices: on which the state lies, see `search.generations.generations_of`.
        told: called with the progress of closing, after each of its batches.

    Yields:
        The state after each batch, on the devices of the search.
    """
    rates = jax.tree.map(np.float32, PlanRates() if rates is None else rates)
    problem, size = genetic_problem(config), config.population
    drawn = random_candidates(state.population.key[0], space, config, problem)
    program = program_of(config, problem, devices)

    def tried(state: SearchState, batch: Planned) -> SearchState:
        return entered(state, as_candidates(batch, drawn, population=size), space, rates, program)

    for batch in range(descents(config)):
        columns = config.objectives.index("latency"), config.objectives.index("area")
        whole = gathered(state, devices)
        plans = _neighbours(whole, space, np.int32(batch), population=size, columns=columns)
        state = tried(whole, decode_all(plans, space))
        yield state
    individuals = archived(gathered(state, devices))
    for weight in range(len(WEIGHTS)):
        for batch in individuals:
            state = tried(state, _refit_all(batch, np.int32(weight), space))
            yield state
    if config.end_rounds:
        # On one device: every process does this by itself, with the same result.
        for closer, done in closing(gathered(state, devices), space, config, problem):
            told(done)
            yield closer if devices is None else _spread(closer, devices, config.islands)


def finished(
    state: SearchState,
    space: DesignSpace,
    config: MohamConfig,
    *,
    rates: PlanRates | None = None,
    devices: Devices | None = None,
) -> SearchState:
    """Runs `finishing`, which has the same arguments, to its end, and returns the state gathered on one device."""
    last = collections.deque(finishing(state, space, config, rates=rates, devices=devices), maxlen=1)
    return gathered(last.pop(), devices)


def _spread(state: SearchState, devices: Devices, islands: int) -> SearchState:
    """A gathered state, put on the devices as generations leave it there."""
    return devices.split(state) if islands > 1 else devices.copied(state)


@functools.partial(jit_o0_plain_loops, static_argnames=("population", "columns"))
def _neighbours(
    state: SearchState, space: DesignSpace, number: jax.Array, *, population: int, columns: tuple[int, int]
) -> Plan:
    """Plans `[I, P, ...]` with single changes, made from designs at the fast end of every island's archive.

    Args:
        state: of a search of plans.
        space: its problem.
        number: `[]` int32, number of the batch.
        population: P.
        columns: of latency and area among the objectives.
    """

    def changed(key: jax.Array, plan: Plan) -> Plan:
        return completed(neighbour(key, plan, space.plans), space.genetics)

    def one(key: jax.Array, archive: emo.Archive) -> Plan:
        rows, there = fast_end(archive.objectives[:, columns[0]], archive.objectives[:, columns[1]])
        which_key, change_key = jax.random.split(jax.random.fold_in(key, _DRAWS + number))
        which = jax.random.randint(which_key, (population,), 0, jnp.maximum(jnp.sum(there), 1))
        return jax.vmap(changed)(jax.random.split(change_key, population), take(archive.genes.plan, rows[which]))

    return jax.vmap(one)(state.population.key, state.archive)


def fast_end(latency: jax.Array, area: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The smallest of the designs that count as fast as the fastest, and the next ones that are smaller and slower.

    Args:
        latency: `[A]` float, inf where there is no design.
        area: `[A]` float.

    Returns:
        `[_STARTS]` int, rows, and `[_STARTS]` bool, which of them are valid: the first ones, or none where there is no
        design.
    """
    best = jnp.min(latency)
    near = (latency <= best * _BAND) & jnp.isfinite(latency)
    steps = jnp.where(near, jnp.maximum(latency, best * _AS_FAST), jnp.inf)
    order = jnp.lexsort((area, steps))
    smaller = jnp.where(near, area, jnp.inf)[order]
    before = jnp.concatenate([jnp.full(1, jnp.inf, area.dtype), jax.lax.cummin(smaller)[:-1]])
    ranks = jnp.cumsum(smaller < before)
    numbers = jnp.arange(1, _STARTS + 1)
    rows = order[jnp.minimum(jnp.searchsorted(ranks, numbers), len(order) - 1)]
    return rows, numbers <= ranks[-1]


@jit_o1
def _refit_all(individuals: Planned, weight: jax.Array, space: DesignSpace) -> Planned:
    """Individuals `[I, P, ...]` refitted under a weight."""

    def one(individual: Planned) -> Planned:
        design = refit(individual.design, weight, space.genetics, space.plans)
        made = plan_of(design, space.genetics, space.plans)
        # The plan gets the weight of the refitted design, so that it can be decoded for other networks.
        own = jnp.full_like(made.plan.weight, weight)
        return dataclasses.replace(made, plan=dataclasses.replace(made.plan, weight=own, thrift=individual.plan.thrift))

    return jax.vmap(jax.vmap(one))(individuals)
