"""Designs that serve several application models: one package, and a schedule for every model.

Such a design is a design of the joined application (`workload.ensemble`): its chiplets are large enough for the layers
of all models, and the genes of a model's layers are that model's schedule on them. Models never run at the same time:
each begins on an idle package.

Axes: A application models, L layers of all of them (padded), K layers of the largest model (padded), W words of 32
bits, S tiles, N designs.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, Wires
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import record, take
from mohamjax.schedule.design import (
    CYCLE_S,
    Chiplets,
    Design,
    DesignReport,
    EvaluationArrays,
    SizedDesign,
    chiplets,
    report_on,
)
from mohamjax.schedule.evaluated import Evaluated, evaluated_in_double
from mohamjax.schedule.fluid import padded_jobs, predecessor_bits
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.tenants import tenant_report, tenants_of
from mohamjax.workload import ApplicationModel
from mohamjax.workload.ensemble import Ensemble, joined


@record
class Models:
    """Where the layers of each application model are among those of all models.

    Attributes:
        first: `[A]` int32, its first layer.
        layers: `[A]` int32, how many it has, at most K.
        bits: `[A, K, W]` uint32, predecessors of its layers, numbered from its first.
        weight: `[A]` float, importance; the weights add up to 1.
        worst: `[]` bool, whether objectives are the worst over the models; otherwise they are the weighted mean.
    """

    first: jax.Array
    layers: jax.Array
    bits: jax.Array
    weight: jax.Array
    worst: jax.Array


def models_of(
    applications: Sequence[ApplicationModel],
    ensemble: Ensemble | None = None,
    dtype: jax.typing.DTypeLike = jnp.float32,
) -> Models:
    """The arrays of application models.

    Args:
        applications: A models, in the order of the joined application.
        ensemble: says how their objectives are joined; default the mean.
        dtype: float dtype of the weights.
    """
    counts = [len(application.layers) for application in applications]
    room = padded_jobs(max(counts))
    bits = [predecessor_bits([layer.predecessors for layer in x.layers], room) for x in applications]
    weight = np.full(len(counts), 1 / len(counts)) if ensemble is None else ensemble.weights
    return Models(
        first=jnp.asarray([0, *itertools.accumulate(counts[:-1])], jnp.int32),
        layers=jnp.asarray(counts, jnp.int32),
        bits=jnp.asarray(np.stack(bits)),
        weight=jnp.asarray(weight, dtype),
        worst=jnp.bool_(ensemble is not None and ensemble.over == "worst"),
    )


def _rows(models: Models, total: int) -> tuple[jax.Array, jax.Array]:
    """Index of each model's layers among all layers, `[A, K]` int32, and whether they exist, `[A, K]` bool."""
    own = jnp.arange(models.bits.shape[1], dtype=jnp.int32)
    return jnp.minimum(models.first[:, None] + own, total - 1), own < models.layers[:, None]


def model_designs(design: Design, models: Models) -> Design:
    """The schedule of every model as a design of its own, leading axis `[A]`, layers padded to K.

    Args:
        design: one design of the joined application.
        models: the models.
    """
    total, room = design.order.shape[0], models.bits.shape[1]
    rows, real = _rows(models, total)
    place = jnp.arange(room, dtype=jnp.int32)

    def order(first: jax.Array, layers: jax.Array) -> jax.Array:
        own = (design.order >= first) & (design.order < first + layers)
        # Padded layers keep their places, which are the last ones.
        return place.at[jnp.where(own, jnp.cumsum(own) - 1, room)].set(design.order - first, mode="drop")

    return Design(
        order=jax.vmap(order)(models.first, models.layers),
        assignment=jnp.where(real, design.assignment[rows], 0),
        mapping=jnp.where(real, design.mapping[rows], 0),
        template=jnp.broadcast_to(design.template, (len(rows), *design.template.shape)),
    )


def model_reports(
    design: Design, evaluation: EvaluationArrays, models: Models, chips: Chiplets | None = None
) -> DesignReport:
    """Evaluates the schedule of every model on the one package, leading axis `[A]`.

    Pure, for one design; callers vmap. The reports have no `tenants`.

    Args:
        design: one design of the joined application.
        evaluation: arrays of the joined application.
        models: the models.
        chips: the chiplets; default just large enough for the layers of all models.
    """
    chips = chiplets(design, evaluation) if chips is None else chips
    rows, real = _rows(models, design.order.shape[0])

    def one(own: Design, rows: jax.Array, real: jax.Array, bits: jax.Array) -> DesignReport:
        part = dataclasses.replace(
            evaluation,
            unique=jnp.where(real, evaluation.unique[rows], 0),
            network=jnp.where(real, evaluation.network[rows], -1),
            layer_mask=real,
            predecessor_bits=bits,
            tenants=None,
        )
        return report_on(chips, own, part)

    return jax.vmap(one)(model_designs(design, models), rows, real, models.bits)


def over_models(objectives: jax.Array, models: Models) -> jax.Array:
    """Objectives of a design over all models, `[3]`, from those of each, `[A, 3]`.

    Latency and energy are the weighted mean, or the worst; the area is the package's, the same for all.
    """
    mean = jnp.sum(models.weight[:, None] * objectives, axis=0)
    joint = jnp.where(models.worst, jnp.max(objectives, axis=0), mean)
    return joint.at[2].set(objectives[0, 2])


# ---------------------------------------------------------------- in double precision


def own_tables(application: ApplicationModel, everyone: ApplicationModel, tables: MappingTables) -> MappingTables:
    """Tables of one model's unique layers, taken from those of a joined application; NumPy arrays.

    Args:
        application: the model.
        everyone: the joined application, which has all its layers.
        tables: Pareto tables `[U, T, M, ...]` of the joined application's unique layers.
    """
    return take(jax.tree.map(np.asarray, tables), _places(application, everyone))


def own_wires(application: ApplicationModel, everyone: ApplicationModel, wires: Wires) -> Wires:
    """The wires of one model's mappings; arguments as for `own_tables`."""
    return dataclasses.replace(wires, hops=np.asarray(wires.hops)[_places(application, everyone)])


def _places(application: ApplicationModel, everyone: ApplicationModel) -> np.ndarray:
    """Index of each unique layer of a model among those of all models."""
    place = {unique: i for i, unique in enumerate(everyone.unique_layers)}
    return np.asarray([place[unique] for unique in application.unique_layers])


@jit_o1
def _model_reports(designs: SizedDesign, evaluation: EvaluationArrays, models: Models) -> tuple[Design, DesignReport]:
    """Designs of the models and their reports, `[N, A]`."""

    def one(own: SizedDesign) -> tuple[Design, DesignReport]:
        chips = chiplets(own.design, evaluation, own.sizes)
        return model_designs(own.design, models), model_reports(own.design, evaluation, models, chips)

    return jax.vmap(one)(designs)


def reevaluate_models(
    applications: Sequence[ApplicationModel],
    setup: Setup,
    mappings: Mapping,
    count: np.ndarray,
    designs: Design | SizedDesign,
) -> list[Evaluated]:
    """Evaluates designs for several application models, starting from their loop nests, in double precision.

    Args:
        applications: A models.
        setup: the hardware; its networks are ignored.
        mappings: loop nests of the joined application's unique layers, leading axes `[U, T, M]`.
        count: `[U, T]` int, number of mappings that exist.
        designs: of the joined application, leading axis `[N]`, N >= 1. Chiplets without stated sizes are large enough
            for all models.

    Returns:
        Per model, the designs `[N]` with its schedules, all on the same chiplets.
    """
    everyone = joined(applications)
    program = functools.partial(_model_reports, models=models_of(applications))
    tables, wires, (parts, reports) = evaluated_in_double(program, setup.of(everyone), mappings, count, designs)
    found = []
    for a, application in enumerate(applications):
        own: DesignReport = take(reports, (slice(None), a))
        found.append(
            Evaluated(
                **setup.of(application).parts,
                tables=own_tables(application, everyone, tables),
                wires=own_wires(application, everyone, wires),
                designs=take(parts, (slice(None), a)),
                reports=_with_tenants(own, application),
            )
        )
    return found


def _with_tenants(reports: DesignReport, application: ApplicationModel) -> DesignReport:
    """The reports `[N]` with `tenants`, where the model's networks have deadlines, rates or weights."""
    with jax.enable_x64(True):
        asked = tenants_of(application, jnp.float64)
        if asked is None:
            return reports
        owner = np.full(reports.timeline.end.shape[1], -1, np.int32)
        owner[: len(application.layers)] = application.network_of_layer
        ok = (reports.timeline.reason == 0)[:, None]
        ends = jnp.asarray(np.where(ok, reports.timeline.end, np.inf) * CYCLE_S)
        one = functools.partial(tenant_report, network=jnp.asarray(owner), tenants=asked)
        users = jax.device_get(jax.vmap(one)(ends))
    return dataclasses.replace(reports, tenants=users)
