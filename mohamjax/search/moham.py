"""MOHaM: co-optimisation of the chiplets, their places and the schedule (MOHaM, Sections V-B and V-C).

From an application model, templates and Pareto tables of mappings to an archive of non-dominated designs. Arrays are
built once on the host (`build_context`); the search itself is the generation loop of `search.loop` over the operators
of `search.operators` and the evaluation of `schedule.design`.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.blocks import in_blocks
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Technology, Template, check_tiles
from mohamjax.mapping import MappingTables, area
from mohamjax.schedule import Design, Workbench, alone, evaluate, workbench
from mohamjax.search import operators
from mohamjax.search.loop import Metrics, Problem, SearchState, generations, start
from mohamjax.search.operators import Genetics
from mohamjax.search.requirements import Requirements, Site, survey
from mohamjax.search.seeds import PRIORITIES, ListScheduler, Plans, padded_rows, seed_packages
from mohamjax.workload import ApplicationModel

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = [
    "LIMIT_TOLERANCE",
    "PAPER_RATES",
    "WEIGHTS",
    "MohamConfig",
    "MohamContext",
    "Progress",
    "Rates",
    "anywhere",
    "build_context",
    "design_problem",
    "list_designs",
    "mapping_transform",
    "run",
    "seed_designs",
    "state_like",
]


@dataclass(frozen=True)
class Rates:
    """Probabilities of the operators, all traced: a sweep over them does not recompile.

    Crossovers apply once per pair and the other operators once per individual, except that with
    `MohamConfig.rate_unit = "layer"` scheduling, mapping and assignment mutation apply with their probability to
    every layer, and on average to `least_layers` of a design at least unless it is 0: on five layers 0.001 each would
    change next to nothing. What each operator is worth on `ar-vr`, and rates per individual beside rates per layer:
    experiments/results/search_operators.md.
    """

    scheduling_crossover: jax.typing.ArrayLike = 0.3
    mapping_crossover: jax.typing.ArrayLike = 0.2
    sa_crossover: jax.typing.ArrayLike = 0.4
    scheduling_mutation: jax.typing.ArrayLike = 0.001
    mapping_mutation: jax.typing.ArrayLike = 0.001
    assignment_mutation: jax.typing.ArrayLike = 0.001
    opening_mutation: jax.typing.ArrayLike = 0.05
    splitting_mutation: jax.typing.ArrayLike = 0.15
    merging_mutation: jax.typing.ArrayLike = 0.15
    position_mutation: jax.typing.ArrayLike = 0.1
    template_mutation: jax.typing.ArrayLike = 0.15
    resizing_mutation: jax.typing.ArrayLike = 0.7
    least_layers: jax.typing.ArrayLike = 0.5


PAPER_RATES = Rates(
    scheduling_crossover=0.103,
    mapping_crossover=0.047,
    sa_crossover=0.045,
    scheduling_mutation=0.052,
    mapping_mutation=0.048,
    assignment_mutation=0.025,
    opening_mutation=0.0,
    splitting_mutation=0.039,
    merging_mutation=0.042,
    position_mutation=0.027,
    template_mutation=0.041,
    resizing_mutation=0.0,
    least_layers=0.0,
)
"""MOHaM, Table 4."""


WEIGHTS: dict[str, tuple[float, float, float]] = {
    "latency": (1.0, 0.0, 0.0),
    "energy": (0.0, 1.0, 0.0),
    "area": (0.0, 0.0, 1.0),
    "product": (1.0, 1.0, 1.0),
}
"""Exponents of latency, energy and area in the product that each single objective minimises."""


@dataclasses.dataclass(frozen=True)
class MohamConfig:
    """Sizes and settings of a search; static, so that a change recompiles.

    Attributes:
        population: individuals per generation.
        generations: most generations.
        immigrants: random individuals added to each generation, as a share of the population.
        tiles: tiles of the package, S.
        max_chiplets: most chiplets of a design.
        archive: most designs kept; beyond it the front is thinned by crowding.
        islands: populations that evolve side by side, each from its own random numbers; their archives are merged in
            the end.
        objective: `front` for the Pareto front of all three objectives, or one number that selection minimises:
            `latency`, `energy`, `area`, or `product` (weighted, `MohamContext.weights`). The archive keeps the front
            of what was seen in any case.
        scale: `log` to measure crowding on the logarithms of the objectives, which fronts over orders of magnitude
            need, or `linear`.
        rate_unit: `layer` or `individual`: what the scheduling, mapping and assignment mutation rates count.
        seeded: start from list schedules on homogeneous and mixed packages.
        seed_batches: populations of list schedules that are evaluated before the first generation, at most: the first
            population is what survives of all of them. Where there are more, estimates choose.
        stop: `generations`, or `stability` for Roudenko and Schoenauer's rule as well.
        window: generations that the rule looks back on.
        delta: its threshold.
        orders: random topological orders that random individuals draw from.
        chunk: generations of one call of the jitted step; progress is reported between calls.
    """

    population: int = 200
    generations: int = 150
    immigrants: float = 0.1
    tiles: int = 16
    max_chiplets: int = 16
    archive: int = 512
    islands: int = 1
    objective: str = "front"
    scale: str = "log"
    rate_unit: str = "layer"
    seeded: bool = True
    seed_batches: int = 12
    stop: str = "generations"
    window: int = 40
    delta: float = 0.02
    orders: int = 512
    chunk: int = 5

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        least = {"population": 4, "generations": 0, "max_chiplets": 1, "archive": 8, "islands": 1, "seed_batches": 1}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} is {getattr(self, name)}", item="search settings", remedy=f"use {low} or more"
                )
        if self.max_chiplets > self.tiles:
            raise InputError(
                f"max_chiplets {self.max_chiplets} exceeds the {self.tiles} tiles of the package",
                item="search settings",
                remedy="lower it or give the package more tiles",
            )
        words = {
            "rate_unit": ("layer", "individual"),
            "stop": ("generations", "stability"),
            "objective": ("front", *WEIGHTS),
            "scale": ("log", "linear"),
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}", item="search settings", remedy=f"use {', '.join(known)}"
                )
        if self.stop == "stability" and self.objective != "front":
            raise InputError(
                f"the stability of a front says nothing where {self.objective} alone is minimised",
                item="search settings",
                remedy="stop after a number of generations",
            )

    @property
    def immigrant_count(self) -> int:
        """Random individuals added to each generation."""
        return round(self.immigrants * self.population)


@dataclass(frozen=True)
class MohamContext:
    """The problem as arrays.

    Attributes:
        genetics: what the operators read.
        bench: what the evaluation reads.
        reference: `[3]` float, reference point of the hypervolume, in objective units.
        ideal: `[3]` float, a point that no design can pass, which scales the hypervolume to [0, 1].
        weights: `[3]` float, exponents of the objectives where one number is minimised.
        limits: `[4]` float, upper bounds of latency [s], energy [J], area [mm^2] and power [W]; inf where free.
        least: `[T + 1]` int32, fewest chiplets of each template, then of all.
        most: `[T + 1]` int32, likewise.
    """

    genetics: Genetics
    bench: Workbench
    reference: jax.Array
    ideal: jax.Array
    weights: jax.Array
    limits: jax.Array
    least: jax.Array
    most: jax.Array


# ---------------------------------------------------------------- building the problem


@functools.partial(jax.jit, static_argnames=("count",))
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
    """The most similar mapping on another template, for every mapping (DESIGN section 7).

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
    application: ApplicationModel,
    templates: Sequence[Template],
    technology: Technology,
    tables: MappingTables,
    package: PackageParameters,
    config: MohamConfig,
    site: Site | None = None,
    weights: Sequence[float] | None = None,
) -> MohamContext:
    """Builds the arrays of one search.

    Args:
        key: typed key, consumed (random orders).
        application: networks.
        templates: T templates, in the order of the tables: those of the site.
        technology: energy and area tables.
        tables: Pareto tables.
        package: package parameters.
        config: settings.
        site: the user's requirements (`requirements.survey`); default none.
        weights: exponents for `objective = "product"`; default 1 each.

    Raises:
        InputError: no template runs some layer, the requirements cannot be met, or the package has other tiles than
            `config`.
    """
    check_tiles(package, config.tiles)
    site = anywhere(application, templates, config) if site is None else site
    bench = workbench(application, templates, technology, tables, package)
    count = np.asarray(tables.count)
    able, cover = staffed(application, count > 0, site)
    total = bench.unique.shape[0]
    padding = total - len(able)
    runs_all = np.flatnonzero(able.all(axis=0))
    predecessors = [layer.predecessors for layer in application.layers]
    successors: list[list[int]] = [[] for _ in predecessors]
    for layer, needs in enumerate(predecessors):
        for p in needs:
            successors[p].append(layer)
    needs = jnp.asarray(padded_rows(predecessors, total, -1))
    layers = jnp.int32(len(predecessors))
    ideal, reference = _span(application, tables, bench, package, config)
    genetics = Genetics(
        layers=layers,
        unique=bench.unique,
        predecessors=needs,
        successors=jnp.asarray(padded_rows(successors, total, -1)),
        count=jnp.asarray(tables.count),
        able=jnp.asarray(np.pad(able, ((0, padding), (0, 0)))),
        transform=jnp.asarray(mapping_transform(np.asarray(tables.objectives), count)),
        cover=jnp.asarray(cover),
        rules=jnp.asarray(np.stack(list_scheduler(application, tables, package, site).rules())),
        orders=random_orders(key, needs, layers, count=config.orders),
        max_chiplets=jnp.int32(site.most[-1]),
        site=jnp.asarray(site.tiles),
        pin=jnp.asarray(np.pad(site.pin, (0, padding), constant_values=-1)),
        homogeneous=jnp.int32(runs_all[0] if site.homogeneous else -1),
    )
    if weights is None or config.objective != "product":
        weights = WEIGHTS.get(config.objective, WEIGHTS["product"])
    return MohamContext(
        genetics=genetics,
        bench=bench,
        reference=jnp.asarray(reference),
        ideal=jnp.asarray(ideal),
        weights=jnp.asarray(weights, reference.dtype),
        limits=jnp.asarray(site.limits, reference.dtype),
        least=jnp.asarray(site.least),
        most=jnp.asarray(site.most),
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


def _span(
    application: ApplicationModel,
    tables: MappingTables,
    bench: Workbench,
    package: PackageParameters,
    config: MohamConfig,
) -> tuple[np.ndarray, np.ndarray]:
    """Ideal and reference point of the hypervolume: they depend on the tables and the package alone, not on a run.

    Ideal: every layer on its fastest mapping, the layers spread evenly over all chiplets; every layer on its most
    frugal mapping; one chiplet of the smallest hardware that some layer needs at least. Reference: every layer on its
    slowest mapping, one after the other; on its dearest; as many of the largest chiplets as there may be.
    """
    valid = np.arange(tables.cycles.shape[2]) < np.asarray(tables.count)[..., None]
    duration = alone(tables, package)
    objectives = np.asarray(tables.objectives, np.float64)
    u = np.asarray(application.unique_of_layer)

    def total(values: np.ndarray, worst: bool) -> np.ndarray:
        masked = np.where(valid, values, -np.inf if worst else np.inf)
        return masked.max(axis=(1, 2))[u] if worst else masked.min(axis=(1, 2))[u]

    full = jax.vmap(area)(bench.templates.machine)
    ideal = [
        total(np.asarray(tables.cycles), False).sum() / config.max_chiplets * 1e-9,
        total(objectives[..., 1], False).sum() * 1e-12,
        total(objectives[..., 2], False).max() * 1e-6,
    ]
    hops = float(np.max(np.asarray(bench.package.tables.hops)[: config.max_chiplets + 1]))
    noc = total(np.asarray(tables.offchip_bytes), True).sum() * 8 * package.hop_energy * hops
    tile = package.router_area + package.transceiver_area
    reference = [
        total(duration, True).sum() * 1e-9,
        # On a chiplet larger than its mapping needs a layer costs more than in the tables.
        (total(objectives[..., 1], True).sum() * 2 + noc) * 1e-12,
        (float(jnp.max(full)) + tile) * config.max_chiplets * 1e-6,
    ]
    # A problem with a single design has no span of its own.
    reference = [max(worst, 1.1 * best) for worst, best in zip(reference, ideal, strict=True)]
    dtype = np.asarray(tables.cycles).dtype
    return np.asarray(ideal, dtype), np.asarray(reference, dtype)


def list_scheduler(
    application: ApplicationModel, tables: MappingTables, package: PackageParameters, site: Site
) -> ListScheduler:
    """List scheduling over the application and its tables, under the requirements of a site."""
    unique = np.asarray(application.unique_of_layer)
    able = np.asarray(tables.count)[unique] > 0
    seats = np.full(len(site.tiles) + 1, -1)  # number of the fixed chiplet on each tile; -1 points at the last
    seats[site.fixed] = np.arange(len(site.fixed))
    return ListScheduler(
        unique=unique,
        predecessors=[layer.predecessors for layer in application.layers],
        able=able & site.allowed,
        pin=seats[site.pin],
        count=np.asarray(tables.count),
        objectives=np.asarray(tables.objectives, np.float64),
        duration=alone(tables, package),
    )


def list_packages(site: Site, able: np.ndarray) -> list[tuple[int, ...]]:
    """Packages to schedule on: fixed chiplets and those demanded at least, and beside them those of `seed_packages`.

    Args:
        site: the user's requirements.
        able: `[layers, T]` bool, templates that run each layer.

    Returns:
        Template of each chiplet, the fixed ones first; only packages with the numbers of chiplets that are demanded.
    """
    templates = able.shape[1]
    base = tuple(int(t) for t in site.tiles[site.fixed])
    for t in range(templates):
        base += (t,) * max(int(site.least[t]) - base.count(t), 0)
    room = min(int(site.most[-1]), len(site.fixed) + len(site.free)) - len(base)
    added = seed_packages(templates, room, able.all(axis=0), [int(site.least[-1]) - len(base)]) if room > 0 else []
    packages = [base + extra for extra in ([()] if base else []) + added]

    def allowed(package: tuple[int, ...]) -> bool:
        counts = np.bincount(package, minlength=able.shape[1])
        counts = np.append(counts, counts.sum())
        uniform = not site.homogeneous or len(set(package)) == 1
        return uniform and bool(((counts >= site.least) & (counts <= site.most)).all())

    return [package for package in packages if allowed(package)]


def list_designs(
    application: ApplicationModel,
    tables: MappingTables,
    package: PackageParameters,
    site: Site,
    total_layers: int,
    *,
    priorities: Sequence[str] = PRIORITIES,
    keep: int | None = None,
) -> Design | None:
    """List schedules over homogeneous and mixed packages under several choices of mappings, as distinct designs.

    Args:
        application: networks.
        tables: Pareto tables.
        package: package parameters.
        site: tiles, fixed chiplets and their numbers.
        total_layers: L after padding.
        priorities: of `search.seeds.PRIORITIES`.
        keep: most designs, those that NSGA-II's survival prefers by their estimates; default all.

    Returns:
        `Design` with a leading `[K]` axis, or None where no such package may be.
    """
    scheduler = list_scheduler(application, tables, package, site)
    packages = list_packages(site, scheduler.able)
    found = [scheduler.plans(packages, priority) for priority in priorities]
    plans = Plans.joined(found)
    if not len(plans):
        return None
    used = (plans.tile[:, None, :] == np.arange(plans.package.shape[1])[:, None]).any(axis=2)
    tiles = np.concatenate([site.fixed, site.free]).astype(np.int32)[: used.shape[1]]
    template = np.tile(np.where(site.tiles >= 0, site.tiles, -1).astype(np.int32), (len(plans), 1))
    template[:, tiles] = np.where(used, plans.package, template[:, tiles])
    columns = (plans.order, tiles[plans.tile], plans.mapping, template)
    # A chiplet more, or another rule, often changes nothing.
    _, first = np.unique(np.concatenate(columns, axis=1), axis=0, return_index=True)
    kept = np.sort(first)
    if keep is not None and keep < len(kept):
        index = np.sort(np.asarray(emo.survive(emo.with_spare_rows(np.log(plans.estimate[kept])), keep)[0]))
        kept = kept[index[index < len(kept)]]
    order, assignment, mapping, template = (jnp.asarray(column[kept]) for column in columns)
    return padded(Design(order=order, assignment=assignment, mapping=mapping, template=template), total_layers)


def padded(designs: Design, layers: int) -> Design:
    """Designs `[K, ...]` with padded layers at the end of every order, as the search has them."""
    own = designs.order.shape[1]
    rows, padding = len(designs.order), layers - own
    extra = np.broadcast_to(np.arange(own, layers, dtype=np.int32), (rows, padding))
    return dataclasses.replace(
        designs,
        order=jnp.concatenate([jnp.asarray(designs.order), extra], axis=1),
        assignment=jnp.pad(jnp.asarray(designs.assignment), ((0, 0), (0, padding))),
        mapping=jnp.pad(jnp.asarray(designs.mapping), ((0, 0), (0, padding))),
        template=jnp.asarray(designs.template),
    )


def seed_designs(
    application: ApplicationModel,
    tables: MappingTables,
    package: PackageParameters,
    config: MohamConfig,
    total_layers: int,
    site: Site,
    *,
    injected: Design | None = None,
) -> Design | None:
    """First individuals: a user's own designs, then list schedules.

    Args:
        application: networks.
        tables: Pareto tables.
        package: package parameters.
        config: settings; `seeded` switches the list schedules off, not the user's designs.
        total_layers: L after padding.
        site: requirements of the user; `anywhere` where there are none.
        injected: the user's designs `[K, ...]`, layers not padded.

    Returns:
        `Design` with a leading axis, as many as `config.seed_batches` populations at most, or None where there are
        none.

    Raises:
        InputError: more designs are injected than the population holds.
    """
    given = 0 if injected is None else len(injected.template)
    keep = config.population * config.seed_batches - given
    if keep < 0:
        raise InputError(
            f"{given} designs are to be injected, {given + keep} can be evaluated before the first generation",
            item="--inject",
            remedy="give fewer, or raise --population",
        )
    lists = None
    if config.seeded and keep:
        lists = list_designs(application, tables, package, site, total_layers, keep=keep)
    own = None if injected is None else padded(injected, total_layers)
    chosen = [designs for designs in (own, lists) if designs is not None]
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *chosen) if chosen else None


# ---------------------------------------------------------------- the problem that the loop searches


def _vary(
    key: jax.Array,
    a: Design,
    b: Design,
    context: MohamContext,
    rates: Rates,
    *,
    per_layer: bool,
    projects: bool,
) -> tuple[Design, Design]:
    """Crossovers of a pair, then the mutations of each child, each with its probability."""
    genetics = context.genetics
    cross_key, mutate_key = jax.random.split(key)
    crossovers = (
        (operators.scheduling_crossover, rates.scheduling_crossover),
        (operators.mapping_crossover, rates.mapping_crossover),
        (operators.sa_crossover, rates.sa_crossover),
    )
    for subkey, (operator, rate) in zip(jax.random.split(cross_key, len(crossovers)), crossovers, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        crossed = operator(use_key, a, b, genetics)
        happens = jax.random.bernoulli(coin_key, rate)
        a, b = jax.tree.map(lambda new, old, h=happens: jnp.where(h, new, old), crossed, (a, b))
    # Both children as one batch, so that the mutations are compiled once.
    both = jax.tree.map(lambda x, y: jnp.stack([x, y]), a, b)
    mutate = functools.partial(_mutate, genetics=genetics, rates=rates, per_layer=per_layer)
    both = jax.vmap(mutate)(jax.random.split(mutate_key), both)
    if projects:
        both = jax.vmap(functools.partial(operators.conform, genetics=genetics))(both)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))
    return first, second


def _mutate(key: jax.Array, design: Design, genetics: Genetics, rates: Rates, per_layer: bool) -> Design:
    """All mutations of one individual, each with its probability."""
    once = [
        (operators.splitting_mutation, rates.splitting_mutation),
        (operators.merging_mutation, rates.merging_mutation),
        (operators.template_mutation, rates.template_mutation),
        (operators.position_mutation, rates.position_mutation),
        (operators.opening_mutation, rates.opening_mutation),
        (operators.resizing_mutation, rates.resizing_mutation),
    ]
    if not per_layer:
        once += [
            (operators.scheduling_mutation, rates.scheduling_mutation),
            (operators.mapping_mutation, rates.mapping_mutation),
            (operators.assignment_mutation, rates.assignment_mutation),
        ]
    once_key, swap_key, mapping_key, tile_key = jax.random.split(key, 4)
    for subkey, (operator, rate) in zip(jax.random.split(once_key, len(once)), once, strict=True):
        coin_key, use_key = jax.random.split(subkey)
        changed = operator(use_key, design, genetics)
        happens = jax.random.bernoulli(coin_key, rate)
        design = jax.tree.map(lambda new, old, h=happens: jnp.where(h, new, old), changed, design)
    if per_layer:

        def of_layer(rate: jax.typing.ArrayLike) -> jax.Array:
            return jnp.where(jnp.asarray(rate) > 0, jnp.maximum(rate, rates.least_layers / genetics.layers), 0.0)

        design = _swaps(swap_key, design, genetics, of_layer(rates.scheduling_mutation))
        coin_key, use_key = jax.random.split(mapping_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.mapping_mutation), design.order.shape)
        design = operators.mapping_mutation(use_key, design, genetics, chosen)
        coin_key, use_key = jax.random.split(tile_key)
        chosen = jax.random.bernoulli(coin_key, of_layer(rates.assignment_mutation), design.order.shape)
        design = operators.assignment_mutation(use_key, design, genetics, chosen)
    return design


def _swaps(key: jax.Array, design: Design, genetics: Genetics, rate: jax.typing.ArrayLike) -> Design:
    """Scheduling mutation at a rate per layer: as many swaps one after the other as layers were drawn."""
    count_key, swap_key = jax.random.split(key)
    drawn = jax.random.bernoulli(count_key, rate, design.order.shape)
    number = jnp.sum(drawn & (jnp.arange(drawn.shape[0]) < genetics.layers))

    def swap(i: jax.Array, current: Design) -> Design:
        return operators.scheduling_mutation(jax.random.fold_in(swap_key, i), current, genetics)

    return jax.lax.fori_loop(0, number, swap, design)


def log_hypervolume(objectives: jax.Array, context: MohamContext) -> jax.Array:
    """Share of the box between ideal and reference point that a front dominates, on log axes.

    Args:
        objectives: `[N, 3]` float; rows of +inf are ignored.
        context: gives the two points.

    Returns:
        `[]` float in [0, 1].
    """
    scaled = jnp.log(objectives / context.ideal) / jnp.log(context.reference / context.ideal)
    return emo.hypervolume(jnp.maximum(scaled, 0.0), jnp.ones(3, scaled.dtype))


LIMIT_TOLERANCE = 1e-5
"""Relative excess over a limit that single precision leaves open; the final front is filtered in double precision."""


def violation(objectives: jax.Array, design: Design, context: MohamContext) -> jax.Array:
    """By how much a design breaks the user's limits, `[]` float, 0 where it keeps them all.

    Sum of the logarithms of the factors by which limits are exceeded, and of the chiplets too few or too many. What
    single precision cannot tell from the limit (a hundred-thousandth) is not beyond it.
    """
    reached = jnp.append(objectives, objectives[1] / objectives[0])
    over = jnp.maximum(jnp.log(reached / context.limits) - LIMIT_TOLERANCE, 0.0)
    counts = jnp.zeros(context.most.shape, jnp.int32).at[design.template].add(design.template >= 0)
    counts = counts.at[-1].set(jnp.sum(design.template >= 0))
    wrong = jnp.maximum(counts - context.most, 0) + jnp.maximum(context.least - counts, 0)
    return jnp.sum(over) + jnp.sum(wrong).astype(over.dtype)


def _fitness(objectives: jax.Array, context: MohamContext, *, scalar: bool, log: bool) -> jax.Array:
    """What selection minimises of objectives `[..., 3]`: see `MohamConfig.objective` and `scale`."""
    if scalar:
        values = jnp.sum(context.weights * jnp.log(objectives), axis=-1, keepdims=True)
    else:
        values = jnp.log(objectives) if log else objectives
    # Where a limit is broken the objectives are the penalty.
    return jnp.where(emo.feasible(objectives)[..., None], values, objectives[..., : values.shape[-1]])


@functools.cache
def _problem(tiles: int, per_layer: bool, scalar: bool, log: bool, projects: bool) -> Problem:
    def sample(key: jax.Array, context: MohamContext) -> Design:
        design = operators.sample(key, context.genetics, tiles)
        return operators.conform(design, context.genetics) if projects else design

    def evaluate_one(design: Design, context: MohamContext) -> jax.Array:
        objectives = evaluate(design, context.bench)
        return emo.constrained(objectives, violation(objectives, design, context))

    def evaluate_all(designs: Design, context: MohamContext) -> jax.Array:
        return jax.vmap(jax.vmap(functools.partial(evaluate_one, context=context)))(designs)

    def observe(objectives: jax.Array, context: MohamContext) -> jax.Array:
        return jax.vmap(functools.partial(log_hypervolume, context=context))(objectives)

    return Problem(
        sample=sample,
        vary=functools.partial(_vary, per_layer=per_layer, projects=projects),
        evaluate=evaluate_all,
        observe=observe,
        fitness=functools.partial(_fitness, scalar=scalar, log=log) if scalar or log else None,
        log_archive=log,
        shared_context=True,
    )


def design_problem(config: MohamConfig, projects: bool = False) -> Problem:
    """The co-optimisation as a `Problem` of the generation loop; equal settings share one, and so a compile.

    Args:
        config: settings.
        projects: project designs onto the requirements after variation (`Site.projects`).
    """
    return _problem(
        config.tiles, config.rate_unit == "layer", config.objective != "front", config.scale == "log", projects
    )


# ---------------------------------------------------------------- running


@dataclasses.dataclass(frozen=True)
class Progress:
    """What the search tells between calls of the jitted step.

    Attributes:
        generation: generations done.
        evaluations: designs evaluated so far.
        fresh_evaluations: those of this process (a resumed search has done others before).
        seconds: since the search started, compile time apart.
        step_s: seconds of the last call of the step.
        compile_s: seconds spent in compiling.
        hypervolume: of the archive, in [0, 1] on log axes, per generation of the last call.
        front_size: designs in the archive, likewise.
        stability: largest finite crowding distance of the first front, likewise.
        best: `[3]`, smallest objectives so far.
    """

    generation: int
    evaluations: int
    fresh_evaluations: int
    seconds: float
    step_s: float
    compile_s: float
    hypervolume: tuple[float, ...]
    front_size: tuple[int, ...]
    stability: tuple[float, ...]
    best: tuple[float, float, float]


def run(
    key: jax.Array,
    context: MohamContext,
    config: MohamConfig,
    *,
    rates: Rates | None = None,
    seeds: Design | None = None,
    resume: SearchState | None = None,
    history: Sequence[Mapping[str, Any]] = (),
    announce: Callable[[str], None] = lambda _: None,
    projects: bool = False,
    problem: Problem | None = None,
) -> Iterator[tuple[SearchState, Progress]]:
    """Searches, yielding the state after every few generations; generation 0 is the first population.

    The caller may stop at any yield and has a complete state. One compile serves all generations, seeds and rates,
    and every problem of the same sizes (padded layers, unique layers, templates, widest fan-in and fan-out).
    Yields nothing where a resumed search has nothing left to do.

    Args:
        key: typed key of the whole search.
        context: the problem.
        config: settings.
        rates: operator probabilities; default `Rates()`.
        seeds: first individuals `[K, ...]`, any number: all are evaluated, and the first population is what survives.
        resume: a state to go on from instead of a first population.
        history: rows of the generations before it, whose `stability` the stop rule looks back on.
        announce: called with a line before each compile.
        projects: as in `design_problem`.
        problem: what is searched instead of `design_problem(config, projects)`, for instance with other operators.

    Yields:
        The state and what to report.
    """
    rates = jax.tree.map(jnp.float32, Rates() if rates is None else rates)
    problem = design_problem(config, projects) if problem is None else problem
    fixed = {"problem": problem, "immigrants": config.immigrant_count, "chunk": config.chunk}
    began = time.perf_counter()
    if resume is None:
        announce("drawing the first population")
        state = _first(key, context, **_sizes(config, problem))
    else:
        state = resume
    batches = _batches(seeds, state.population.genes, config)
    announce(f"compiling the generation of {config.population} designs")
    # No generations: this compiles, or finds the program of an earlier search of the same shapes.
    jax.block_until_ready(generations(state, context, rates, jnp.int32(0), batches[0], **fixed))
    compile_s = time.perf_counter() - began
    per_generation = config.islands * (config.population + config.immigrant_count)
    done = before = -len(batches) if resume is None else int(state.generation)
    if resume is None:
        # The first population is what survives of all that was given.
        state = dataclasses.replace(state, generation=jnp.int32(done))
        for batch in batches[:-1]:
            state, _ = generations(state, context, rates, jnp.int32(1), batch, **fixed)
            done += 1
    settled = [float(row["stability"]) for row in history if row["generation"] > 0]

    def settled_down() -> bool:
        return config.stop == "stability" and emo.should_stop(settled, config.window, config.delta)

    def advance(before: SearchState, count: int) -> tuple[SearchState, Metrics]:
        state, metrics = generations(before, context, rates, jnp.int32(count), newcomers, **fixed)
        return state, _best_island(jax.tree.map(lambda leaf: leaf[:count], jax.device_get(metrics)))

    newcomers = batches[-1]
    while done < config.generations and not settled_down():
        # Calls end at multiples of their length, so that a resumed search makes the same ones.
        count = min(config.chunk - done % config.chunk, config.generations - done)
        tick = time.perf_counter()
        previous = state
        state, metrics = advance(previous, count)
        for n, value in enumerate(metrics.stability, start=1):
            if done + n > 0:  # generation 0 is no step
                settled.append(float(value))
            if n < count and settled_down():
                # The rule holds within the call: the same generations again, up to the one that it names.
                count = n
                state, metrics = advance(previous, count)
                break
        done += count
        best = metrics.best[-1]
        yield (
            state,
            Progress(
                generation=done,
                evaluations=(done + len(batches)) * per_generation,
                fresh_evaluations=(done - before) * per_generation,
                seconds=time.perf_counter() - began - compile_s,
                step_s=time.perf_counter() - tick,
                compile_s=compile_s,
                hypervolume=tuple(float(x) for x in metrics.merit),
                front_size=tuple(int(x) for x in metrics.front_size),
                stability=tuple(float(x) for x in metrics.stability),
                best=(float(best[0]), float(best[1]), float(best[2])),
            ),
        )


def _batches(seeds: Design | None, random: Design, config: MohamConfig) -> list[Design]:
    """Seeds `[K, ...]` as batches `[I, P, ...]` for every island, the last filled up with random designs.

    Without seeds the random population `[I, P, ...]` is the only batch.
    """
    size = config.population
    if seeds is None:
        return [random]
    shared = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (config.islands, *leaf.shape)), seeds)
    missing = -len(seeds.template) % size
    filled = jax.tree.map(lambda s, r: jnp.concatenate([s, r[:, :missing]], axis=1), shared, random)
    return [
        jax.tree.map(lambda leaf, i=i: leaf[:, i : i + size], filled) for i in range(0, filled.template.shape[1], size)
    ]


def _best_island(metrics: Metrics) -> Metrics:
    """One island's worth from `[n, I]`: the best hypervolume and its front, the last to settle, the best objectives."""
    best = np.argmax(metrics.merit, axis=1)
    row = np.arange(len(best))
    values: dict[str, Any] = {
        "stability": np.max(metrics.stability, axis=1),
        "front_size": np.asarray(metrics.front_size)[row, best],
        "best": np.min(metrics.best, axis=1),
        "merit": np.asarray(metrics.merit)[row, best],
    }
    return Metrics(**values)


def _sizes(config: MohamConfig, problem: Problem) -> dict[str, Any]:
    """Static arguments of `_first`."""
    return {
        "problem": problem,
        "islands": config.islands,
        "population": config.population,
        "archive": config.archive,
    }


_first = functools.partial(jax.jit, static_argnames=("problem", "islands", "population", "archive"))(start)
"""The state before the first generation, all individuals random."""


def state_like(context: MohamContext, config: MohamConfig) -> SearchState:
    """Shapes and dtypes of the search's state, for reading a checkpoint back."""
    first = functools.partial(_first, **_sizes(config, design_problem(config)))
    return jax.eval_shape(first, jax.random.key(0), context)
