"""The co-optimiser's problem as arrays, built once on the host from networks, templates, tables and requirements."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.blocks import in_blocks
from mohamjax.errors import InputError
from mohamjax.hardware import Template, TemplateArrays, check_tiles
from mohamjax.mapping import MappingTables
from mohamjax.programs import lean_jit
from mohamjax.schedule import CYCLE_S, Requirements, Workbench, alone, workbench
from mohamjax.schedule.ensemble import Models, models_of, own_tables
from mohamjax.schedule.measures import DEFAULT, of_frames, offsets, owners
from mohamjax.schedule.setup import Setup
from mohamjax.search.box import search_box
from mohamjax.search.config import MohamConfig
from mohamjax.search.kinds import immediate, kinds_of
from mohamjax.search.operators import Genetics
from mohamjax.search.plans import PlanTables, plan_tables
from mohamjax.search.requirements import Site, survey
from mohamjax.search.seeding import list_scheduler
from mohamjax.search.seeds import padded_rows
from mohamjax.struct import put, record
from mohamjax.workload import ApplicationModel, Ensemble

__all__ = [
    "MeasureArrays",
    "MohamContext",
    "anywhere",
    "build_context",
    "check_tables",
    "mapping_transform",
    "random_orders",
    "staffed",
]


@record
class MeasureArrays:
    """What the objectives of a search are measured with, where they are others than latency, energy and area.

    Attributes:
        network: `[M]` int32, network that an objective is of; -1 where it is of all.
        offset: `[M]` float, what was added to an objective to have it above zero.
    """

    network: jax.Array
    offset: jax.Array


@record
class MohamContext:
    """The problem as arrays.

    Attributes:
        genetics: what the operators read.
        plans: what the decoding of plans reads.
        bench: what the evaluation reads.
        reference: `[M]` float, reference point of the hypervolume, in objective units, with their offsets.
        ideal: `[M]` float, a point that no design can pass, which scales the hypervolume to [0, 1].
        weights: `[M]` float, exponents of the objectives where one number is minimised.
        limits: `[4]` float, upper bounds of latency [s], energy [J], area [mm^2] and power [W]; inf where free.
        least: `[T + 1]` int32, fewest chiplets of each template, then of all.
        most: `[T + 1]` int32, likewise.
        tenant_limits: `[3]` float, upper bounds in the order of `TENANT_LIMITS`; None where nobody has a deadline or a
            weight.
        models: the application models whose layers these are; None where there is one only.
        measures: what the objectives are measured with; None where they are latency, energy and area.
    """

    genetics: Genetics
    plans: PlanTables
    bench: Workbench
    reference: jax.Array
    ideal: jax.Array
    weights: jax.Array
    limits: jax.Array
    least: jax.Array
    most: jax.Array
    tenant_limits: jax.Array | None = None
    models: Models | None = None
    measures: MeasureArrays | None = None


@functools.partial(lean_jit, static_argnames=("count",))
def random_orders(key: jax.Array, predecessors: jax.Array, layers: jax.Array, *, count: int) -> jax.Array:
    """Random topological orders by Kahn's algorithm with random priorities.

    Args:
        key: typed key, consumed.
        predecessors: `[L, A]` int32, padded with -1.
        layers: `[]` int32, layers that exist; padded ones come last.
        count: R, static.

    Returns:
        `[R, L]` int32.
    """
    total = predecessors.shape[0]
    exists = predecessors >= 0

    def one(key: jax.Array) -> jax.Array:
        priority = jax.random.uniform(key, (total,)) - 2.0 * (jnp.arange(total) >= layers)

        def take(place: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            order, done = carry
            ready = ~done & jnp.all(done[predecessors] | ~exists, axis=1)
            layer = jnp.argmax(jnp.where(ready, priority, -jnp.inf)).astype(jnp.int32)
            return order.at[place].set(layer), done.at[layer].set(True)

        order, _ = jax.lax.fori_loop(0, total, take, (jnp.zeros(total, jnp.int32), jnp.zeros(total, bool)))
        return order

    return in_blocks(jax.vmap(one), jax.random.split(key, count), 64)


def mapping_transform(objectives: np.ndarray, count: np.ndarray) -> np.ndarray:
    """The most similar mapping on another template, for every mapping (docs/concepts/designs.md).

    Objectives are scaled to [0, 1] within each (unique layer, template) set; the transform of a mapping is the
    nearest point of the target's set (Euclidean).

    Args:
        objectives: `[U, T, M, 3]` float.
        count: `[U, T]` int, entries of each set.

    Returns:
        `[U, T, M, T]` int32; 0 where either side is empty.
    """
    unique, templates, size, _ = objectives.shape
    valid = np.arange(size) < count[..., None]
    low = np.min(np.where(valid[..., None], objectives, np.inf), axis=2, keepdims=True)
    high = np.max(np.where(valid[..., None], objectives, -np.inf), axis=2, keepdims=True)
    span = np.where(high > low, high - low, 1.0)
    with np.errstate(invalid="ignore"):
        scaled = np.where(valid[..., None], (objectives - low) / span, 0.0)
    out = np.zeros((unique, templates, size, templates), np.int32)
    for u, target in np.ndindex(unique, templates):  # one by one: distances take the square of the size in memory
        if count[u, target]:
            gap = np.sum((scaled[u, :, :, None] - scaled[u, target, : count[u, target]]) ** 2, axis=-1)
            out[u, ..., target] = np.argmin(gap, axis=-1)
    return out


def build_context(
    key: jax.Array,
    setup: Setup,
    tables: MappingTables,
    config: MohamConfig,
    site: Site | None = None,
    weights: Sequence[float] | None = None,
    *,
    arrays: TemplateArrays | None = None,
    given: tuple[Any, Any] | None = None,
    ensemble: Ensemble | None = None,
) -> MohamContext:
    """Builds the arrays of one search.

    Args:
        key: typed key, consumed (random orders).
        setup: networks and hardware; the templates are those of the site.
        tables: Pareto tables.
        config: settings.
        site: the user's requirements (`requirements.survey`); default none.
        weights: exponents for `objective = "product"`; default 1 each.
        arrays: as in `workbench`.
        given: as in `workbench`.
        ensemble: application models of which the networks of `setup` are the joined one; default it is one by itself.

    Raises:
        InputError: no template runs some layer, the requirements cannot be met, or the package has other tiles than
            `config`.
    """
    application, package = setup.application, setup.package
    check_tiles(package, config.tiles)
    site = anywhere(application, setup.templates, config) if site is None else site
    periods = config.periods if of_frames(config.objectives) else None
    bench = workbench(setup, tables, given=given, arrays=arrays, periods=periods)
    count = np.asarray(tables.count)
    able, cover = staffed(application, count > 0, site)
    total = bench.unique.shape[0]
    padding = total - len(able)
    runs_all = np.flatnonzero(able.all(axis=0))
    predecessors = immediate([layer.predecessors for layer in application.layers])
    successors: list[list[int]] = [[] for _ in predecessors]
    for layer, needs in enumerate(predecessors):
        for p in needs:
            successors[p].append(layer)
    needs = put(padded_rows(predecessors, total, -1))
    layers = put(len(predecessors), np.int32)
    models = None if ensemble is None else models_of([m.application for m in ensemble.models], ensemble)
    if ensemble is None or models is None:
        model = None
        ideal, reference = search_box(setup, tables, bench, config)
    else:
        counts = np.asarray(models.layers)
        model = np.repeat(np.arange(len(counts) + 1, dtype=np.int32), [*counts, padding])
        boxes = [
            search_box(setup.of(one), own_tables(one, application, tables), bench, config)
            for one in (member.application for member in ensemble.models)
        ]
        ideal, reference = (
            ensemble.aggregate(np.stack(ends)).astype(ends[0].dtype) for ends in zip(*boxes, strict=True)
        )
    genetics = Genetics(
        layers=layers,
        unique=bench.unique,
        predecessors=needs,
        successors=put(padded_rows(successors, total, -1)),
        count=put(tables.count),
        able=put(np.pad(able, ((0, padding), (0, 0)))),
        kinds=kinds_of(np.array(application.unique_of_layer), site.allowed, site.pin, able, total),
        transform=put(mapping_transform(np.asarray(tables.objectives), count)),
        cover=put(cover),
        rules=put(np.stack(list_scheduler(setup, tables, site).rules())),
        orders=random_orders(key, needs, layers, count=config.orders),
        max_chiplets=put(site.most[-1], np.int32),
        site=put(site.tiles),
        pin=put(np.pad(site.pin, (0, padding), constant_values=-1)),
        homogeneous=put(runs_all[0] if site.homogeneous else -1, np.int32),
        model=None if model is None else put(model),
        urgency=_urgency(setup, tables, config, total),
    )
    names = config.objectives
    if weights is None or config.objective != "product":
        weights = [float(config.objective in ("front", "product", name)) for name in names]
    measures = None
    if names != DEFAULT:
        arrays_of: dict[str, Any] = {
            "network": put(owners(names, application)),
            "offset": put(offsets(names, application), reference.dtype),
        }
        measures = MeasureArrays(**arrays_of)
    return MohamContext(
        genetics=genetics,
        plans=plan_tables(tables, alone(tables, package)),
        bench=bench,
        reference=put(reference),
        ideal=put(ideal),
        weights=put(weights, reference.dtype),
        limits=put(site.limits, reference.dtype),
        least=put(site.least),
        most=put(site.most),
        tenant_limits=None if bench.tenants is None else put(site.tenant_limits, reference.dtype),
        models=models,
        measures=measures,
    )


def _urgency(setup: Setup, tables: MappingTables, config: MohamConfig, padded: int) -> jax.Array | None:
    """`Genetics.urgency`: how much earlier than the longest deadline a layer's network has its own.

    Networks without a deadline wait for all others.
    """
    if {"lateness", "missed"}.isdisjoint(config.objectives):
        return None
    application = setup.application
    exists = np.arange(np.shape(tables.cycles)[2]) < np.asarray(tables.count)[..., None]
    slowest = np.where(exists, alone(tables, setup.package), 0.0).max(axis=(1, 2))
    deadline = np.asarray([network.deadline_s for network in application.networks]) / CYCLE_S
    early = np.max(deadline[np.isfinite(deadline)]) - deadline
    early = np.where(np.isfinite(early), early, -slowest[list(application.unique_of_layer)].sum())
    urgency = np.zeros(padded, np.float32)
    urgency[: len(application.layers)] = early[list(application.network_of_layer)]
    return put(urgency)


def check_tables(tables: MappingTables, setup: Setup) -> None:
    """Complains about tables of another problem.

    Args:
        tables: Pareto tables.
        setup: networks, and templates in the order that the tables should have.

    Raises:
        InputError: they are of other unique layers or templates, or have fewer levels than a template.
    """
    expected = len(setup.application.unique_layers), len(setup.templates)
    if np.shape(tables.count) != expected:
        raise InputError(
            f"are of {' unique layers on '.join(map(str, np.shape(tables.count)))} templates, the problem has "
            f"{expected[0]} on {expected[1]}",
            item="tables",
            remedy="map the layers of this problem",
        )
    deepest = max(len(template.levels) for template in setup.templates)
    if np.shape(tables.capacity)[3] < deepest:
        raise InputError(
            f"have {np.shape(tables.capacity)[3]} levels, a template has {deepest}",
            item="tables",
            remedy="map the layers of this problem",
        )


def anywhere(application: ApplicationModel, templates: Sequence[Template], config: MohamConfig) -> Site:
    """The site of a search without requirements."""
    return survey(Requirements(), application, templates, config.tiles, config.max_chiplets)


def staffed(application: ApplicationModel, runs: np.ndarray, site: Site) -> tuple[np.ndarray, np.ndarray]:
    """Which template may run each layer, and a package that runs them all; checks that there is one.

    Args:
        application: the networks.
        runs: `[U, T]` bool, templates that run each unique layer.
        site: the user's requirements.

    Returns:
        `[layers, T]` bool, and `[S]` int32, template on each tile, -1 where empty.

    Raises:
        InputError: a layer that nothing may run, or a package too small.
    """
    able = site.allowed & runs[list(application.unique_of_layer)]
    for layer, network, row in zip(application.layers, application.network_of_layer, able, strict=True):
        if not row.any():
            raise InputError(
                f"no template runs this layer (type {layer.type})",
                file=site.file or None,
                item=f"{application.networks[network].name}/{layer.name}",
                remedy="add a template that runs it, enlarge its buffers, or loosen what pins it",
            )
    if site.homogeneous and not able.all(axis=0).any():
        raise InputError(
            "no template runs every layer",
            file=site.file or None,
            item="homogeneous",
            remedy="leave it out, or add a template that does",
        )
    return able, _cover(able, site)


def _cover(able: np.ndarray, site: Site) -> np.ndarray:
    """Few chiplets that together run every layer, beside those that are fixed (greedy), `[S]` int32, -1 where empty.

    Args:
        able: `[layers, T]` bool, every row with a template.
        site: the tiles, and how many chiplets there may be.
    """
    cover = np.where(site.tiles >= 0, site.tiles, -1).astype(np.int32)
    lonely = ~able[:, cover[site.fixed]].any(axis=1)
    added = []
    while lonely.any():
        added.append(int(np.argmax(able[lonely].sum(axis=0))))
        lonely &= ~able[:, added[-1]]
    needed, room = len(site.fixed) + len(added), min(site.most[-1] - len(site.fixed), len(site.free))
    if len(added) > room:
        raise InputError(
            f"it takes {needed} chiplets to run every layer, there may be {len(site.fixed) + room}",
            file=site.file or None,
            item="chiplets",
            remedy=f"allow {needed}, or add a template that runs more layer types",
        )
    cover[site.free[: len(added)]] = added
    return cover
