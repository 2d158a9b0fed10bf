"""Evaluates designs in the space of a `DesignProblem`."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import core as jax_core

from mohamjax.problem.space import DesignSpace, check_space
from mohamjax.runtime.checks import check_arrays, check_enabled
from mohamjax.schedule import Design, DesignReport, SizedDesign
from mohamjax.schedule import report as plain_report
from mohamjax.schedule.design import CYCLE_S
from mohamjax.schedule.tenants import tenant_report
from mohamjax.schedule.validity import mappings_fit, sound_genes


def _checked(design: Design | SizedDesign, space: DesignSpace) -> tuple[Design, SizedDesign | None]:
    """The chromosome, and the design with its sizes or None; raises for wrong types and shapes, at trace time."""
    check_space(space)
    if not isinstance(design, Design | SizedDesign):
        raise TypeError(f"design: expected a Design, got {type(design).__name__}")
    check_enabled(space.evaluation.tables.cycles.dtype, "evaluate the space")
    sized = design if isinstance(design, SizedDesign) else None
    genes = design.design if isinstance(design, SizedDesign) else design
    layers, tiles = space.genetics.unique.shape, space.genetics.on_tile.shape
    expected = {"order": layers, "assignment": layers, "mapping": layers, "template": tiles}
    many = np.ndim(genes.order) > 1
    remedy = "; this takes one design: jax.vmap(evaluate, (0, None)) takes many" if many else ""
    arrays = {name: getattr(genes, name) for name in expected}
    check_arrays("design.", arrays, expected, dict.fromkeys(expected, int), remedy)
    if sized is not None:
        wanted = (*tiles, space.evaluation.tables.capacity.shape[-1])
        sizes = {"capacity": sized.capacity, "fanout": sized.fanout}
        check_arrays("design.", sizes, {"capacity": wanted, "fanout": (*wanted, 2)}, {})
    _check_package(space)
    return jax.tree.map(jnp.asarray, genes), sized


def _check_package(space: DesignSpace) -> None:
    """Raises at trace time where figures of the package, which users may replace, have wrong shapes."""
    package = space.evaluation.package
    interfaces = _interfaces(space)
    if isinstance(interfaces, jax_core.Tracer):  # known at run time only, then checked in `_fits`
        rows = np.shape(package.interface_bandwidth)[:1] or ("interfaces",)
    else:
        rows = (int(interfaces),)
    shapes = dict.fromkeys(("link_bandwidth", "dram_bandwidth", "hop_energy", "tile_area"), ())
    shapes = {"interface_bandwidth": rows, **shapes}
    arrays = {name: getattr(package, name) for name in shapes}
    check_arrays("space.evaluation.package.", arrays, shapes, {})


def _interfaces(space: DesignSpace) -> jax.Array | np.integer:
    """`[]` int32, the most memory interfaces that the package's tables use for any number of chiplets."""
    counts = space.evaluation.package.tables.interfaces
    return jnp.max(counts) if isinstance(counts, jax_core.Tracer) else np.max(np.asarray(counts))


def _stated(design: Design | SizedDesign, space: DesignSpace) -> tuple[Design, tuple[jax.Array, jax.Array] | None]:
    """The chromosome, and its capacities and fanouts in the dtype of the space, or None; checks as `_checked`."""
    genes, sized = _checked(design, space)
    if sized is None:
        return genes, None
    dtype = space.evaluation.tables.cycles.dtype
    return genes, (jnp.asarray(sized.capacity, dtype), jnp.asarray(sized.fanout, dtype))


def fits_space(design: Design | SizedDesign, space: DesignSpace) -> jax.Array:
    """`[]` bool, whether the genes are sound and all mappings fit their templates and the stated chiplet sizes.

    Pure and traceable, for one design. An order that makes chiplets wait for each other only shows in the timeline.
    """
    return _fits(*_stated(design, space), space)


def _fits(genes: Design, sizes: tuple[jax.Array, jax.Array] | None, space: DesignSpace) -> jax.Array:
    evaluation = space.evaluation
    unique, mask = evaluation.unique, evaluation.layer_mask
    found = sound_genes(genes, unique, space.genetics.count)
    served = _interfaces(space) <= np.shape(evaluation.package.interface_bandwidth)[0]
    sound = served & found.listed & found.known.all() & (found.mapped | ~mask).all()
    design = genes if sizes is None else SizedDesign(design=genes, capacity=sizes[0], fanout=sizes[1])
    return jnp.asarray(sound & mappings_fit(design, evaluation.tables, unique, mask))


def report(design: Design | SizedDesign, space: DesignSpace) -> DesignReport:
    """One design in detail: chiplets with sizes, start and end of every layer, energies.

    Pure and traceable, like `evaluate`. All objectives, and the times of tenants and of frames in flight, are infinite
    where the design cannot run: a layer is on an empty tile, an index does not exist, a mapping does not fit its
    template or the stated sizes of its chiplet, or the order is no permutation or makes chiplets wait for each other.

    Args:
        design: one design.
        space: from `problem.arrays`, or of a file that was read.

    Returns:
        The report, leaves without a leading axis: `.objectives` `[3]` (s, J, mm^2), `.timeline` (start and end of every
        layer, in cycles), `.chiplets` with their sizes, energies per layer in pJ, areas in um^2.

    Raises:
        TypeError: the design or the space has a wrong type.
        InputError: the space is in double precision, and JAX's x64 mode is off.
        ValueError: at trace time, if the shapes of the design do not match the space, its genes are not integers, or a
            figure of the space's package has a wrong shape.

    Examples:
        >>> detail = jax.jit(mj.report)(designs[3], space)
        >>> bool(detail.timeline.ok), detail.chiplets.area.shape
        (True, (16,))
    """
    genes, sizes = _stated(design, space)
    found = plain_report(genes, space.evaluation, sizes)
    runs = _fits(genes, sizes, space) & jnp.all(jnp.isfinite(found.objectives))
    users, flying, tenants = found.tenants, found.in_flight, space.evaluation.tenants
    if tenants is not None:
        ends = jnp.where(runs, found.timeline.end, jnp.inf) * CYCLE_S
        users = tenant_report(ends, space.evaluation.network, tenants)
    if flying is not None:
        flying = jax.tree.map(lambda value: jnp.where(runs, value, jnp.inf), flying)
    objectives = jnp.where(runs, found.objectives, jnp.inf)
    return dataclasses.replace(found, objectives=objectives, tenants=users, in_flight=flying)


def evaluate(design: Design | SizedDesign, space: DesignSpace) -> jax.Array:
    """Objectives of one design: latency [s], energy [J], area [mm^2].

    Pure: no hidden state, nothing jitted. Composes with `jit`, with `vmap` over designs and over stacked spaces, and
    with `shard_map`. Recompiles only when the shapes of the space change. Does not check the limits of the
    requirements.

    Args:
        design: one design, from `sample_designs`, a front or a file.
        space: from `problem.arrays`, or of a file that was read.

    Returns:
        `[3]` float in the dtype of the space; all infinite where the design cannot run (`report` says what that means).

    Raises:
        TypeError: the design or the space has a wrong type.
        InputError: the space is in double precision, and JAX's x64 mode is off.
        ValueError: at trace time, if the shapes of the design do not match the space, its genes are not integers, or a
            figure of the space's package has a wrong shape. Where the space is traced, too few memory interfaces make
            all objectives infinite instead.

    Examples:
        >>> objectives = jax.jit(jax.vmap(mj.evaluate, (0, None)))(designs, space)
        >>> objectives.shape, bool(jnp.all(jnp.isfinite(objectives)))
        ((64, 3), True)
    """
    return report(design, space).objectives
