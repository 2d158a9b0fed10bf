"""Random valid mappings of every layer on every template, instead of those that a mapper finds."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.mapper.problems import map_spaces
from mohamjax.mapping import Mapping, MappingTables, stacked_layers, tabulate
from mohamjax.mapping.space import MapSpace, decode, sample
from mohamjax.mapping.tables import assemble, column_shapes
from mohamjax.problem.design_problem import DesignProblem, as_problem
from mohamjax.reader import count_asked
from mohamjax.runtime.checks import check_seed
from mohamjax.runtime.struct import cast, take, with_values
from mohamjax.workload import ApplicationLike


@functools.partial(jax.jit, static_argnames="count")
def _drawn(key: jax.Array, space: MapSpace, *, count: int) -> Mapping:
    """Random mappings of one problem, `[count, ...]`."""

    def one(key: jax.Array) -> Mapping:
        return decode(sample(key, space), space)

    return jax.vmap(one)(jax.random.split(key, count))


_ROUNDS = 4  # draws for each mapping wanted


def sample_mappings(problem: DesignProblem | ApplicationLike, count: int, seed: int = 0) -> MappingTables:
    """Random valid mappings of every layer on every template that runs it, instead of a mapper's sets: no search.

    They cover the layers' own bounds; none is padded. Of equal loop nests in a set, which may order loops of bound 1
    differently, one is kept. Nests that break a constraint of the template or exceed its largest sizes are left out.
    Small map spaces yield fewer than `count`.

    Args:
        problem: the problem; or networks, or a scenario's name or file, for a problem with all else as packaged.
        count: M, most mappings of a set.
        seed: of all randomness; the draws of a set depend only on the seed, on its indices and on the size of all
            arrays: the levels of the deepest template, the primes of the longest layer, and whether some template
            leaves a bypass open.

    Returns:
        Tables `[U, T, M, ...]` like those of `map_layers`, sets ordered by latency, but not Pareto sets.

    Raises:
        InputError: `count` is no whole number of at least 1, `seed` is not valid, or some layer has no valid
            mapping among the draws.

    Examples:
        >>> tables = mj.sample_mappings(problem, count=16, seed=0)
        >>> tables.cycles.shape, int(tables.count.max())
        ((2, 2, 16), 16)
    """
    count = count_asked(count, "count", "ask for 1 mapping or more, a whole number")
    check_seed(seed)
    with with_values():  # also while a program is being traced
        return _sampled(as_problem(problem), count, seed)


def _sampled(problem: DesignProblem, count: int, seed: int) -> MappingTables:
    """The tables of `sample_mappings`, whose arguments are checked."""
    layers, templates = problem.application.unique_layers, problem.resolved.templates
    arrays = jax.device_get(problem.template_arrays())
    technology = cast(problem.technology, jnp.float32)
    levels, key = arrays.component.shape[1], jax.random.fold_in(jax.random.key(seed), 1)
    draws: dict[tuple[int, int], Mapping] = {}
    for (u, t), space in map_spaces(layers, templates, arrays, padding=False).items():
        own = jax.random.fold_in(jax.random.fold_in(key, u), t)
        nests = jax.device_get(_drawn(own, jax.tree.map(jnp.asarray, space), count=_ROUNDS * count))
        draws[u, t] = take(nests, _distinct(nests)[: 2 * count])
    # All sets are made as long as the largest one; repetitions at their ends do not count.
    most = max([1, *(len(nests.temporal) for nests in draws.values())])
    number = np.zeros((len(layers), len(templates)), np.int32)
    blank = next(iter(draws.values()))
    rows = []
    for u, t in np.ndindex(number.shape):
        nests = draws.get((u, t), blank)
        number[u, t] = len(nests.temporal) if (u, t) in draws else 0
        rows.append(jax.tree.map(lambda leaf: np.resize(leaf, (most, *leaf.shape[1:])), nests))
    nests = jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*number.shape, *leaves[0].shape), *rows)
    stacked = stacked_layers(layer.shape for layer in layers)
    tables = tabulate(stacked, problem.template_arrays(), technology, nests, number)
    sets = {}
    for at in draws:
        valid = np.isfinite(tables.objectives[at]).all(axis=-1) & (np.arange(most) < number[at])
        good = np.flatnonzero(valid)[:count]
        # Equally fast ones keep the order of the draws, so costs in energy change no index.
        good = good[np.argsort(tables.objectives[at][good, 0], kind="stable")]
        kept = np.resize(good, count) if good.size else np.zeros(count, int)
        columns: dict[str, Any] = {name: getattr(tables, name)[at][kept] for name in column_shapes(levels, 3)}
        for name, column in columns.items():
            column[len(good) :] = np.inf if name == "objectives" else 0
        mapping = take(jax.tree.map(lambda leaf, at=at: leaf[at], tables.mapping), kept)
        columns["count"] = np.int32(len(good))
        sets[at] = MappingTables(mapping=mapping, **columns)
    out = assemble(sets, *number.shape, count, levels, np.float32)
    for u, layer in enumerate(layers):
        if not out.count[u].any():
            raise InputError(
                f"no valid mapping of a {layer.type} layer {layer.shape} was drawn",
                item="sample_mappings",
                remedy="raise `count`, or search them: map_layers",
            )
    return out


def _distinct(nests: Mapping) -> np.ndarray:
    """Indices of distinct loop nests, rising; loops of bound 1 do not count in the order."""

    def loops(factors: np.ndarray, order: np.ndarray) -> np.ndarray:
        there = np.take_along_axis(factors, order, axis=-1) > 1
        seen = np.where(there, order, -1)
        return np.take_along_axis(seen, np.argsort(~there, axis=-1, kind="stable"), axis=-1)

    temporal, order, spatial, spatial_order = (
        np.asarray(leaf) for leaf in (nests.temporal, nests.order, nests.spatial, nests.spatial_order)
    )
    parts = (temporal, spatial, loops(temporal, order), loops(spatial, spatial_order), np.asarray(nests.keep))
    _, first = np.unique(
        np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1), axis=0, return_index=True
    )
    return np.sort(first)
