"""Designs for optimisers of a user's own: from points of the unit cube, and at random.

Every point means a valid design, and nearby points mean similar designs as far as possible: chiplets grow with their
coordinates, and mappings go from the fastest to the slowest. A point outside the cube counts as the nearest one inside.
A point with a NaN is refused; where it is traced, it gives a design that cannot run.

Axes: D dimensions, L layers (padded), S tiles, T templates, C components of a size. Functions are for one point.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import core as jax_core

from mohamjax.errors import InputError
from mohamjax.problem.plan_tables import PlanTables
from mohamjax.problem.space import DesignSpace, Genetics, check_space
from mohamjax.runtime.checks import check_arrays
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design
from mohamjax.search.operators import conform, drop_empty, runs_on, sample
from mohamjax.search.plan_operators import completed
from mohamjax.search.plans import Plan
from mohamjax.search.plans import decode as decode_plans


def design_dimensions(space: DesignSpace, genes: str = "plans") -> int:
    """D, the number of coordinates from which `decode_design` makes a design.

    Args:
        space: from `problem.arrays`.
        genes: `plans` or `layers`, as in `decode_design`.

    Returns:
        D.

    Raises:
        TypeError: `space` has a wrong type.
        ValueError: `genes` is neither of these.

    Examples:
        >>> mj.design_dimensions(space), mj.design_dimensions(space, "layers")
        (161, 112)
    """
    check_space(space)
    return sum(genome_widths(space.genetics, space.plans, genes))


def decode_design(x: jax.typing.ArrayLike, space: DesignSpace, genes: str = "plans") -> Design:
    """The design that a point of the unit cube means, for optimisers of any kind: evosax, nevergrad, a plain loop.

    Pure: jit it, and vmap it over points. As in a search, `plans` encode the chiplets alone (their templates, sizes and
    weights between speed and thrift), on which list scheduling places the layers; `layers` encode for every layer where
    it runs, with which mapping and how early. With `layers` every valid design has a point, but few points are good
    designs, so an optimiser has more to search. Fixed chiplets, pinned layers and homogeneous packages are kept; the
    optimiser must keep limits on objectives itself.

    Args:
        x: `[D]` float, D from `design_dimensions`. Numbers below 0 count as 0 and numbers above 1 as 1, so an optimiser
            without bounds may be used. The first S numbers, one for each tile, leave the tile empty below 1 / (T + 1),
            so that uniform points fill T / (T + 1) of the tiles on average (the page "Python in a quarter of an hour"
            begins with small packages). With `layers`, the numbers of padded layers have no effect.
        space: from `problem.arrays`.
        genes: static, `plans` or `layers`.

    Returns:
        One valid design. Under `jit` and `vmap`, where nothing can be raised, a point that holds a NaN gives a design
        whose genes are all -1, for which `evaluate` returns infinite objectives.

    Raises:
        TypeError: `space` has a wrong type.
        InputError: `x` holds a NaN and is not traced.
        ValueError: `x` has a wrong shape, at trace time, or `genes` is unknown.

    Examples:
        >>> x = jax.random.uniform(jax.random.key(0), (32, mj.design_dimensions(space)))
        >>> several = jax.jit(jax.vmap(mj.decode_design, (0, None)))(x, space)
        >>> objectives = jax.jit(jax.vmap(mj.evaluate, (0, None)))(several, space)
        >>> len(several), bool(jnp.all(jnp.isfinite(objectives)))
        (32, True)
    """
    wanted = (design_dimensions(space, genes),)
    remedy = "; this takes one point: jax.vmap(decode_design, (0, None)) takes many" if jnp.ndim(x) > 1 else ""
    check_arrays("", {"x": x}, {"x": wanted}, {}, remedy)
    lost = jnp.any(jnp.isnan(jnp.asarray(x)))
    if not isinstance(lost, jax_core.Tracer) and bool(lost):
        raise InputError("holds a NaN", item="x", remedy="give numbers in [0, 1]")
    design = decode_unit(x, space.genetics, space.plans, genes)
    return jax.tree.map(lambda gene: jnp.where(lost, -1, gene), design)


def genome_widths(genetics: Genetics, tables: PlanTables, genes: str) -> tuple[int, ...]:
    """How many numbers of a point each genome takes, in order; `design_dimensions` is their sum.

    Args:
        genetics: the arrays that the operators read.
        tables: the arrays that the decoding of plans reads.
        genes: `plans` or `layers`.

    Raises:
        ValueError: `genes` is neither of these.
    """
    layers, tiles = genetics.unique.shape[-1], genetics.on_tile.shape[-1]
    if genes == "plans":
        return tiles, tiles * tables.library.shape[-1], tiles, 1
    if genes == "layers":
        return tiles, layers, layers, layers
    raise ValueError(f"genes: expected 'plans' or 'layers', got {genes!r}")


def decode_unit(x: jax.typing.ArrayLike, genetics: Genetics, tables: PlanTables, genes: str) -> Design:
    """As `decode_design`, from the arrays that operators and plans read, without checks."""
    widths = genome_widths(genetics, tables, genes)
    x = jnp.asarray(x)
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.result_type(float))
    x = jnp.clip(jnp.nan_to_num(x), 0, 1)
    ends = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
    first, *rest = jnp.split(x, ends)
    tiles = genetics.on_tile.shape[0]
    template = _below(first, tables.library.shape[0] + 1) - 1
    if genes == "plans":
        size, weight, thrift = rest
        plan = Plan(
            template=template,
            size=_below(size.reshape(tiles, -1), tables.fits.shape[3]),
            weight=_below(weight, tables.fits.shape[1]),
            thrift=_below(thrift[0], tables.thrift.shape[0]),
        )
        one = jax.tree.map(lambda leaf: leaf[None], completed(plan, genetics))
        return take(decode_plans(one, genetics, tables).design, 0)
    nothing: Any = jnp.zeros(())
    plan = completed(Plan(template=template, size=nothing, weight=nothing, thrift=nothing), genetics)
    place, mapping, priority = rest
    return _of_layers(place, mapping, priority, plan.template, genetics)


def _below(x: jax.Array, limit: jax.typing.ArrayLike) -> jax.Array:
    """int32 in 0..limit-1, each for an equal share of the unit interval."""
    return jnp.clip((x * limit).astype(jnp.int32), 0, jnp.asarray(limit, jnp.int32) - 1)


def _of_layers(
    place: jax.Array, mapping: jax.Array, priority: jax.Array, template: jax.Array, genetics: Genetics
) -> Design:
    """A design from numbers `[L]`, one of each kind per layer, on the chiplets of a completed package `[S]`."""
    tiles = jnp.arange(template.shape[0])
    real = genetics.real
    runs = runs_on(genetics, template)
    runs &= (genetics.pin < 0)[:, None] | (genetics.pin[:, None] == tiles)
    nth = 1 + _below(place, jnp.maximum(jnp.sum(runs, axis=1), 1))
    assignment = jnp.argmax(jnp.cumsum(runs, axis=1) == nth[:, None], axis=1).astype(jnp.int32)
    assignment = jnp.where(real, assignment, 0)
    count = genetics.count[genetics.unique, jnp.maximum(template[assignment], 0)]
    chosen = jnp.where(real, _below(mapping, jnp.maximum(count, 1)), 0)
    return drop_empty(Design(_ordered(priority, real, genetics), assignment, chosen, template), genetics)


def _ordered(priority: jax.Array, real: jax.Array, genetics: Genetics) -> jax.Array:
    """`[L]` int32, layers by rising priority, none before its predecessors; padded ones last."""

    def after(ready: jax.Array, at: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        layer, before, own = at
        latest = jnp.max(jnp.where(before >= 0, ready[before], 0), initial=0)
        return ready.at[layer].set(jnp.maximum(own, latest)), None

    index = jnp.arange(len(priority), dtype=jnp.int32)
    # Layers are numbered in a topological order, which equal priorities keep, as the sort is stable.
    ready, _ = jax.lax.scan(after, jnp.zeros_like(priority), (index, genetics.predecessors, priority))
    return jnp.argsort(jnp.where(real, ready, 2), stable=True).astype(jnp.int32)


def sample_designs(key: jax.Array, space: DesignSpace, n: int) -> Design:
    """Random valid designs: random packages, every layer on a random chiplet that runs it, in a random order.

    They keep fixed chiplets, pinned layers and homogeneous packages, but may break limits on latency, energy, area,
    power and numbers of chiplets.

    Args:
        key: typed key, consumed.
        space: from `problem.arrays`.
        n: number of designs, static.

    Returns:
        Designs with a leading axis: `designs[3]`, `designs[:5]`, `len(designs)`.

    Raises:
        TypeError: `space` has a wrong type.
        InputError: `key` is not a single JAX key.
        ValueError: `n` is not an integer of at least 1.

    Examples:
        >>> designs = mj.sample_designs(jax.random.key(0), space, 64)
        >>> len(designs), designs[3].template.shape
        (64, (16,))
    """
    check_space(space)
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    # Keys of the old kind are two words, or four for JAX's `rbg`.
    raw = not typed and np.shape(key) in ((2,), (4,)) and jnp.result_type(key) == np.uint32
    if not raw and not (typed and key.shape == ()):
        what = f"{len(key)} keys" if typed else f"{key!r:.40}"
        raise InputError(f"is {what}", argument="key", remedy="give one key, such as jax.random.key(0)")
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n: expected an integer of at least 1, got {n!r}")
    return _designs(key, space.genetics, n=int(n))


@functools.partial(jax.jit, static_argnames="n")
def _designs(key: jax.Array, genetics: Genetics, *, n: int) -> Design:
    tiles = genetics.on_tile.shape[0]

    def one(key: jax.Array) -> Design:
        return conform(sample(key, genetics, tiles), genetics)

    return jax.vmap(one)(jax.random.split(key, n))
