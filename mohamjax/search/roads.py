"""Main roads over a `DesignProblem`: sample mappings and designs, evaluate designs."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.mapping import Mapping, MappingTables, stacked_layers, tabulate
from mohamjax.mapping.space import MapSpace, decode, sample
from mohamjax.mapping.tables import assemble, column_shapes
from mohamjax.schedule import Design, DesignReport
from mohamjax.schedule import report as report_on_bench
from mohamjax.schedule.design import adequate
from mohamjax.search import operators
from mohamjax.search.context import MohamContext
from mohamjax.search.mapper_context import map_spaces
from mohamjax.search.problem import DesignProblem
from mohamjax.struct import Rows, cast, record, take

__all__ = ["SizedDesign", "evaluate", "report", "sample_designs", "sample_mappings"]


@record
class SizedDesign(Rows):
    """A design whose chiplets have stated sizes, as files may give them; `evaluate` and `report` take it as a design.

    Attributes:
        design: the chromosome.
        capacity: `[S, V]` float, words per buffer instance; -1 where the chiplet is just large enough.
        fanout: `[S, V, 2]` float, likewise.
    """

    design: Design
    capacity: jax.Array
    fanout: jax.Array

    def _first(self) -> Any:
        return self.design.order


# ---------------------------------------------------------------- mappings


@functools.partial(jax.jit, static_argnames="count")
def _drawn(key: jax.Array, space: MapSpace, *, count: int) -> Mapping:
    """Random mappings of one problem, `[count, ...]`."""

    def one(key: jax.Array) -> Mapping:
        return decode(sample(key, space), space)

    return jax.vmap(one)(jax.random.split(key, count))


_ROUNDS = 4  # of as many draws as mappings are wanted


def sample_mappings(problem: DesignProblem, count: int, seed: int = 0) -> MappingTables:
    """Random valid mappings of every layer on every template that runs it, in the place of a mapper's sets: no search.

    They cover the layers' own bounds; none is padded. Of each set's draws equal loop nests count once, whatever the
    order of loops of bound 1; those that break a constraint of the template or exceed its largest sizes are left out.
    Small map spaces yield fewer than `count`.

    Args:
        problem: the problem.
        count: M, mappings of a set at most.
        seed: of all randomness; a set's draws depend on nothing but the seed and its place.

    Returns:
        Tables `[U, T, M, ...]` as from `map_layers`, sets ordered by latency, but not Pareto sets.

    Raises:
        InputError: `count` is below 1, or some layer has no valid mapping among the draws.

    Examples:
        >>> tables = mj.sample_mappings(problem, count=16, seed=0)
        >>> tables.cycles.shape, int(tables.count.max())
        ((2, 2, 16), 16)
    """
    if count < 1:
        raise InputError(f"is {count}", item="count", remedy="ask for 1 mapping or more")
    layers, templates = problem.application.unique_layers, problem.site.templates
    arrays = jax.device_get(problem.template_arrays())
    technology = cast(problem.technology, jnp.float32)
    levels, key = arrays.component.shape[1], jax.random.fold_in(jax.random.key(seed), 1)
    draws: dict[tuple[int, int], Mapping] = {}
    for (u, t), space in map_spaces(layers, templates, arrays, padding=False).items():
        own = jax.random.fold_in(jax.random.fold_in(key, u), t)
        nests = jax.device_get(_drawn(own, jax.tree.map(jnp.asarray, space), count=_ROUNDS * count))
        draws[u, t] = take(nests, _distinct(nests)[: 2 * count])
    # As many of each as of the largest set, the rest a repetition that does not count.
    most = max([1, *(len(nests.temporal) for nests in draws.values())])
    number = np.zeros((len(layers), len(templates)), np.int32)
    blank = next(iter(draws.values()))
    rows = []
    for u, t in np.ndindex(number.shape):
        nests = draws.get((u, t), blank)
        number[u, t] = len(nests.temporal) if (u, t) in draws else 0
        rows.append(jax.tree.map(lambda leaf: np.resize(leaf, (most, *leaf.shape[1:])), nests))
    whole = jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*number.shape, *leaves[0].shape), *rows)
    stacked = stacked_layers(layer.shape for layer in layers)
    tables = tabulate(stacked, problem.template_arrays(), technology, whole, number)
    sets = {}
    for at in draws:
        valid = np.isfinite(tables.objectives[at]).all(axis=-1) & (np.arange(most) < number[at])
        good = np.flatnonzero(valid)[:count]
        good = good[np.lexsort((tables.objectives[at][good, 1], tables.objectives[at][good, 0]))]
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
    """Rows of distinct loop nests, by rising index: loops of bound 1 have no place in the order."""

    def loops(factors: np.ndarray, order: np.ndarray) -> np.ndarray:
        there = np.take_along_axis(factors, order, axis=-1) > 1
        seen = np.where(there, order, -1)
        return np.take_along_axis(seen, np.argsort(~there, axis=-1, kind="stable"), axis=-1)

    temporal, order, spatial, spatial_order = (
        np.asarray(leaf) for leaf in (nests.temporal, nests.order, nests.spatial, nests.spatial_order)
    )
    parts = (temporal, spatial, loops(temporal, order), loops(spatial, spatial_order))
    _, first = np.unique(
        np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1), axis=0, return_index=True
    )
    return np.sort(first)


# ---------------------------------------------------------------- designs


def sample_designs(key: jax.Array, space: MohamContext, n: int) -> Design:
    """Random valid designs: random packages, every layer on a random chiplet that runs it, in a random order.

    They keep fixed and pinned chiplets and homogeneous packages, but may break limits on latency, energy, area, power
    and numbers of chiplets.

    Args:
        key: typed key, consumed.
        space: from `problem.arrays`.
        n: static.

    Returns:
        Designs with a leading axis: `designs[3]`, `designs[:5]`, `len(designs)`.

    Examples:
        >>> designs = mj.sample_designs(jax.random.key(0), space, 64)
        >>> len(designs), designs[3].template.shape
        (64, (16,))
    """
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n: expected an integer of at least 1, got {n!r}")
    return _designs(key, space.genetics, n=int(n))


@functools.partial(jax.jit, static_argnames="n")
def _designs(key: jax.Array, genetics: operators.Genetics, *, n: int) -> Design:
    tiles = genetics.site.shape[0]

    def one(key: jax.Array) -> Design:
        return operators.conform(operators.sample(key, genetics, tiles), genetics)

    return jax.vmap(one)(jax.random.split(key, n))


def _checked(design: Design | SizedDesign, space: MohamContext) -> tuple[Design, SizedDesign | None]:
    """The chromosome, and the sizes where there are; complains about shapes at trace time."""
    if not isinstance(space, MohamContext):
        raise TypeError(f"space: expected what problem.arrays returns, got {type(space).__name__}")
    if not isinstance(design, Design | SizedDesign):
        raise TypeError(f"design: expected a Design, got {type(design).__name__}")
    sized = design if isinstance(design, SizedDesign) else None
    genes = design if sized is None else sized.design
    layers, tiles = space.genetics.unique.shape, space.genetics.site.shape
    expected = {"order": layers, "assignment": layers, "mapping": layers, "template": tiles}
    shapes = {name: np.shape(getattr(genes, name)) for name in expected}
    if shapes != expected:
        name = next(name for name in expected if shapes[name] != expected[name])
        many = len(shapes[name]) > 1
        remedy = "; this takes one design: jax.vmap(evaluate, (0, None)) takes many" if many else ""
        raise ValueError(f"design.{name}: expected shape {expected[name]}, got {shapes[name]}{remedy}")
    for name in expected:
        kind = jnp.result_type(getattr(genes, name))
        if not jnp.issubdtype(kind, jnp.integer):
            raise ValueError(f"design.{name}: expected integers, got {kind}")
    if sized is not None:
        wanted = (*tiles, space.bench.tables.capacity.shape[-1])
        for name, shape in (("capacity", wanted), ("fanout", (*wanted, 2))):
            if np.shape(getattr(sized, name)) != shape:
                raise ValueError(f"design.{name}: expected shape {shape}, got {np.shape(getattr(sized, name))}")
    return jax.tree.map(jnp.asarray, genes), sized


def _sound(design: Design, space: MohamContext) -> jax.Array:
    """`[]` bool, the genes mean a design: all indices exist, each layer is on a chiplet, the order names all layers."""
    bench, templates = space.bench, space.genetics.count.shape[1]
    tile = jnp.clip(design.assignment, 0, len(design.template) - 1)
    template = jnp.where(tile == design.assignment, design.template[tile], -1)
    room = space.genetics.count[bench.unique, jnp.clip(template, 0, templates - 1)]
    placed = (template >= 0) & (design.mapping >= 0) & (design.mapping < room)
    listed = jnp.sort(design.order) == jnp.arange(len(design.order))
    return jnp.all(placed | ~bench.layer_mask) & jnp.all(listed) & jnp.all(design.template < templates)


def _stated(design: Design | SizedDesign, space: MohamContext) -> tuple[Design, tuple[jax.Array, jax.Array] | None]:
    """As `_checked`, the sizes in the dtype of the space."""
    genes, sized = _checked(design, space)
    if sized is None:
        return genes, None
    dtype = space.bench.tables.cycles.dtype
    return genes, (jnp.asarray(sized.capacity, dtype), jnp.asarray(sized.fanout, dtype))


def fits_space(design: Design | SizedDesign, space: MohamContext) -> jax.Array:
    """`[]` bool, the genes mean a design whose mappings fit their templates and the stated sizes of their chiplets.

    Pure and traceable, for one design. An order that makes chiplets wait for each other shows in the timeline alone.
    """
    return _fits(*_stated(design, space), space)


def _fits(genes: Design, sizes: tuple[jax.Array, jax.Array] | None, space: MohamContext) -> jax.Array:
    return adequate(genes, space.bench, sizes) & _sound(genes, space)


def report(design: Design | SizedDesign, space: MohamContext) -> DesignReport:
    """One design in detail: chiplets with sizes, start and end of every layer, energies.

    Pure and traceable, as `evaluate`. All objectives are infinite where the design cannot run: a layer on an empty
    tile, an index that does not exist, a mapping that does not fit its template or the stated sizes of its chiplet, an
    order that is none or makes chiplets wait for each other.

    Args:
        design: one design.
        space: from `problem.arrays`, or of a file that was read.

    Raises:
        ValueError: the design has other shapes than the space, or no integers, at trace time.

    Examples:
        >>> detail = jax.jit(mj.report)(designs[3], space)
        >>> bool(detail.timeline.ok), detail.chiplets.area.shape
        (True, (16,))
    """
    genes, sizes = _stated(design, space)
    found = report_on_bench(genes, space.bench, sizes)
    runs = _fits(genes, sizes, space) & jnp.all(jnp.isfinite(found.objectives))
    return dataclasses.replace(found, objectives=jnp.where(runs, found.objectives, jnp.inf))


def evaluate(design: Design | SizedDesign, space: MohamContext) -> jax.Array:
    """Objectives of one design: latency [s], energy [J], area [mm^2].

    Pure: no hidden state, nothing jitted. Composes with `jit`, with `vmap` over designs and over stacked spaces, and
    with `shard_map`. Recompiles with the shapes of the space alone. Whether limits of the requirements are kept is not
    looked at.

    Args:
        design: one design, of `sample_designs`, of a front, or from a file.
        space: from `problem.arrays`, or of a file that was read.

    Returns:
        `[3]` float in the dtype of the space; all infinite where the design cannot run (`report` says what that means).

    Raises:
        ValueError: the design has other shapes than the space, or no integers, at trace time.

    Examples:
        >>> objectives = jax.jit(jax.vmap(mj.evaluate, (0, None)))(designs, space)
        >>> objectives.shape, bool(jnp.all(jnp.isfinite(objectives)))
        ((64, 3), True)
    """
    return report(design, space).objectives


# ---------------------------------------------------------------- search
