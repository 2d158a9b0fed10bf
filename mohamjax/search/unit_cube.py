"""Designs from points of the unit cube: what any outside optimiser needs to search them.

Every point means a valid design, and nearby points mean similar ones as far as that can be: chiplets grow with their
numbers, and mappings go from the fastest to the slowest. Points outside the cube count as the nearest inside. A point
with a NaN is none: it is refused, and where it is traced it gives a design that cannot run.

Axes: D dimensions, L layers (padded), S tiles, T templates, C components of a size. Functions are for one point.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import core as jax_core

from mohamjax.errors import InputError
from mohamjax.problem.plan_tables import PlanTables
from mohamjax.problem.space import DesignSpace, Genetics
from mohamjax.runtime.checks import check_arrays
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design
from mohamjax.search.plan_operators import completed
from mohamjax.search.plans import Plan
from mohamjax.search.plans import decode as decode_plans


def design_dimensions(space: DesignSpace, genes: str = "plans") -> int:
    """Numbers that `decode_design` makes a design of.

    Args:
        space: from `problem.arrays`.
        genes: `plans` or `layers`, as of `decode_design`.

    Raises:
        ValueError: other genes.

    Examples:
        >>> mj.design_dimensions(space), mj.design_dimensions(space, "layers")
        (161, 112)
    """
    if not isinstance(space, DesignSpace):
        raise TypeError(f"space: expected what problem.arrays returns, got {type(space).__name__}")
    return sum(genome_widths(space.genetics, space.plans, genes))


def decode_design(x: jax.typing.ArrayLike, space: DesignSpace, genes: str = "plans") -> Design:
    """The design that a point of the unit cube means, for optimisers of any kind: evosax, nevergrad, a plain loop.

    Pure: jit it, and vmap it over points. As in a search, `plans` are the chiplets alone (their templates, sizes and
    weights between speed and thrift), on which list scheduling places the layers; `layers` say for every layer where it
    runs, by which mapping and how early. With `layers` every valid design has a point, but few points are good designs,
    so that an optimiser has more to search. Fixed and pinned chiplets and homogeneous packages are kept; limits on
    objectives are the optimiser's to keep.

    Args:
        x: `[D]` float, D of `design_dimensions`. Numbers below 0 count as 0 and numbers above 1 as 1, so that an
            optimiser without bounds may be used. Of its first S numbers, one for each tile, those below
            1 / (T + 1) leave the tile empty, so that uniform points mean packages of T / (T + 1) of the tiles (the
            page "Python in a quarter of an hour" begins with small ones). With `layers`, numbers of padded layers do
            nothing.
        space: from `problem.arrays`.
        genes: static, `plans` or `layers`.

    Returns:
        One valid design. Under `jit` and `vmap`, where nothing can be raised, a point that holds a NaN gives a design
        whose genes are all -1, and `evaluate` answers with infinite objectives.

    Raises:
        InputError: `x` holds a NaN and is not traced.
        ValueError: `x` has another shape, at trace time, or the genes are others.

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
    """How many numbers of a point each genome takes, in their order; `design_dimensions` is their sum.

    Args:
        genetics: what the operators read.
        tables: what plans read.
        genes: `plans` or `layers`.

    Raises:
        ValueError: other genes.
    """
    layers, tiles = genetics.unique.shape[-1], genetics.on_tile.shape[-1]
    if genes == "plans":
        return tiles, tiles * tables.library.shape[-1], tiles, 1
    if genes == "layers":
        return tiles, layers, layers, layers
    raise ValueError(f"genes: expected 'plans' or 'layers', got {genes!r}")


def decode_unit(x: jax.typing.ArrayLike, genetics: Genetics, tables: PlanTables, genes: str) -> Design:
    """As `decode_design`, of what the operators and the plans read."""
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
    """Whole numbers in 0..limit-1, by equal shares of the unit interval."""
    return jnp.clip((x * limit).astype(jnp.int32), 0, jnp.asarray(limit, jnp.int32) - 1)


def _of_layers(
    place: jax.Array, mapping: jax.Array, priority: jax.Array, template: jax.Array, genetics: Genetics
) -> Design:
    """A design of numbers `[L]` per layer on the chiplets of a completed package `[S]`."""
    tiles = jnp.arange(template.shape[0])
    real = genetics.real
    runs = jnp.where(template >= 0, genetics.able[:, jnp.maximum(template, 0)], False)
    runs &= (genetics.pin < 0)[:, None] | (genetics.pin[:, None] == tiles)
    nth = 1 + _below(place, jnp.maximum(jnp.sum(runs, axis=1), 1))
    assignment = jnp.argmax(jnp.cumsum(runs, axis=1) == nth[:, None], axis=1).astype(jnp.int32)
    assignment = jnp.where(real, assignment, 0)
    count = genetics.count[genetics.unique, jnp.maximum(template[assignment], 0)]
    chosen = jnp.where(real, _below(mapping, jnp.maximum(count, 1)), 0)
    used = jnp.zeros(tiles.shape, bool).at[jnp.where(real, assignment, len(tiles))].set(True, mode="drop")
    return Design(
        order=_ordered(priority, real, genetics),
        assignment=assignment,
        mapping=chosen,
        template=jnp.where(used | (genetics.on_tile >= 0), template, -1),
    )


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
