"""The design problem: networks, templates, technology, package and requirements in one object, checked once.

Every stage takes it: the layer mapper, the search, bounds, robust search, what-if, files. It makes the space of
designs as arrays.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from mohamjax.errors import InputError, wrong_type
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    Template,
    TemplateArrays,
    as_package,
    as_technology,
    as_template,
    fits,
    packaged_templates,
    template_arrays,
    with_memory,
)
from mohamjax.mapping import MappingTables, area, recast
from mohamjax.problem.goals import Goals, search_box
from mohamjax.problem.list_scheduling import list_scheduler, padded_rows
from mohamjax.problem.plan_tables import plan_tables
from mohamjax.problem.requirements import Requirements, load_requirements
from mohamjax.problem.resolved import LIMIT_TOLERANCE, ResolvedRequirements, resolve
from mohamjax.problem.space import (
    DesignSpace,
    Genetics,
    MeasureArrays,
    immediate,
    kinds_of,
    mapping_transform,
    random_orders,
)
from mohamjax.reader import as_given
from mohamjax.runtime.checks import check_enabled, check_seed, refuse_traced
from mohamjax.runtime.struct import cast, is_traced, put, with_values
from mohamjax.schedule import CYCLE_S, evaluation_arrays, isolated_cycles
from mohamjax.schedule.ensemble import models_of, own_tables
from mohamjax.schedule.measures import DEFAULT, of_frames, offsets, owners
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationLike, ApplicationModel, Ensemble, as_application

TemplateLike = str | os.PathLike[str] | Template

ORDERS = 512
"""Random topological orders that random individuals draw from."""


def search_keys(seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Typed keys for the mapper of a search, for its random orders and for its generations.

    Raises:
        InputError: `seed` is not valid.
    """
    check_seed(seed)
    mapping, space, generations = jax.random.split(jax.random.key(seed), 3)
    return mapping, space, generations


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class DesignProblem:
    """A complete and checked description of what is to be designed: a host object, from which arrays are made.

    Attributes:
        application: the networks that run together.
        templates: sub-accelerator templates to choose from.
        package: package parameters; its `max_tiles` is the number of tiles of every design.
        technology: energy and area tables.
        requirements: demands on every design.
        max_chiplets: most chiplets of a design, before the requirements lower it.
        resolved: the requirements applied to networks and templates. Tables and designs index its `templates`: the
            given ones with the memory of the package, unless the requirements fix chiplets.

    Args:
        application: from `load_scenario` or `load_onnx`; or the name or file of a scenario, or ONNX files.
        templates: names of packaged templates, YAML files or `Template` objects, one or several; default all packaged.
        package: parameters or a YAML file; default those of `Package()`.
        technology: tables or a file; default the packaged 45 nm.
        requirements: demands or a YAML file; default none.
        max_chiplets: most chiplets of a design; default as many as the package has tiles.

    Raises:
        InputError: a file cannot be read; a network has no layers; two templates have one name; a layer runs on no
            template; the requirements contradict each other, the templates or the package.
        TypeError: an argument has a wrong type.

    Examples:
        >>> from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape
        >>> stem = Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
        >>> head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
        >>> app = ApplicationModel("toy", (Network("net", (stem, head)),))
        >>> problem = DesignProblem(app, templates=("simba", "eyeriss"))
        >>> problem
        DesignProblem('toy': 2 layers, 2 unique, on simba, eyeriss; at most 16 chiplets)
        >>> problem.tiles
        16
    """

    application: ApplicationModel
    templates: tuple[Template, ...]
    package: PackageParameters
    technology: Technology
    requirements: Requirements
    max_chiplets: int
    resolved: ResolvedRequirements = dataclasses.field(init=False)
    _arrays: dict[tuple[int, np.dtype], TemplateArrays] = dataclasses.field(init=False)

    def __init__(
        self,
        application: ApplicationLike,
        templates: TemplateLike | Sequence[TemplateLike] | None = None,
        package: PackageParameters | str | os.PathLike[str] | None = None,
        technology: Technology | str | os.PathLike[str] | None = None,
        requirements: Requirements | str | os.PathLike[str] | None = None,
        max_chiplets: int | None = None,
    ) -> None:
        application = as_application(application)
        own: dict[str, Any] = {
            "application": application,
            "templates": _templates(templates),
            "package": as_package(package),
            "technology": as_technology(technology),
            "requirements": Requirements()
            if requirements is None
            else as_given(requirements, "requirements", Requirements, load_requirements),
        }
        if not application.layers:
            raise InputError(
                "has no layers", item=f"application {application.name!r}", remedy="give a network with some"
            )
        without = next((network.name for network in application.networks if not network.layers), None)
        if without is not None:
            raise InputError("has no layers", item=f"network {without!r}", remedy="give it some, or leave it out")
        own["max_chiplets"] = _most(max_chiplets, own["package"].max_tiles)
        for name, value in own.items():
            object.__setattr__(self, name, value)
        templates = tuple(with_memory(self.templates, self.package.memory))
        resolved = resolve(self.requirements, self.application, templates, self.tiles, self.max_chiplets)
        assignable(self.application, runnable(self.application, resolved.templates), resolved)
        object.__setattr__(self, "resolved", resolved)
        object.__setattr__(self, "_arrays", {})
        _check_fixed_area(resolved, self.technology)

    def __repr__(self) -> str:
        names = ", ".join(template.name for template in self.resolved.templates)
        layers, unique = len(self.application.layers), len(self.application.unique_layers)
        return (
            f"DesignProblem({self.application.name!r}: {layers} layers, {unique} unique, on {names}; "
            f"at most {self.most_chiplets} chiplets)"
        )

    @property
    def tiles(self) -> int:
        """Tiles of the package, S."""
        return self.package.max_tiles

    @property
    def most_chiplets(self) -> int:
        """Most chiplets of a design."""
        return int(self.resolved.most[-1])

    @property
    def setup(self) -> Setup:
        """Networks and hardware, with the templates that tables and designs index (`resolved`)."""
        return Setup(self.application, self.resolved.templates, self.technology, self.package)

    @property
    def parts(self) -> dict[str, Any]:
        """The arguments that the problem was made of, by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}

    def replace(self, **parts: Any) -> DesignProblem:
        """The problem with some parts replaced, checked again: `problem.replace(application=..., max_chiplets=4)`."""
        return DesignProblem(**{**self.parts, **parts})

    def faster_than(self, latency_s: float) -> DesignProblem:
        """The problem with a limit on latency [s]; a stricter limit that it has already stays."""
        limits = self.requirements.limits
        limits = (min(limits[0], latency_s), *limits[1:])
        return self.replace(requirements=dataclasses.replace(self.requirements, limits=limits))

    def cast(self, dtype: DTypeLike) -> DesignProblem:
        """The same problem with the energy and area tables of its technology in a float dtype."""
        other = copy.copy(self)
        with with_values():
            object.__setattr__(other, "technology", cast(self.technology, dtype))
        object.__setattr__(other, "_arrays", {})
        return other

    def template_arrays(self, levels: int | None = None, dtype: DTypeLike = jnp.float32) -> TemplateArrays:
        """The templates of `resolved` as arrays `[T, ...]`, built once per number of levels and dtype."""
        most = max(len(template.levels) for template in self.resolved.templates)
        key = (most if levels is None else levels, jnp.dtype(dtype))
        if key in self._arrays:
            return self._arrays[key]
        with with_values():
            arrays = template_arrays(self.resolved.templates, self.technology, *key)
        if not is_traced(arrays):  # they are where the technology is
            self._arrays[key] = arrays
        return arrays

    def arrays(
        self,
        tables: MappingTables,
        *,
        dtype: DTypeLike = jnp.float32,
        seed: int = 0,
        given: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> DesignSpace:
        """The space of designs as one pytree: all that `evaluate` and `sample_designs` read.

        Every leaf is a JAX array with values, also where a program is being traced. Spaces of several packages with
        equally many tiles and memory interfaces can be stacked (`struct.stack`) and vmapped over, as all other shapes
        follow from the networks, templates and tables.

        Args:
            tables: of this problem, from `map_layers` or `sample_mappings`.
            dtype: float dtype of the evaluation; float64 needs JAX's x64 mode.
            seed: of the random topological orders that `sample_designs` draws from.
            given: templates `[n]` and fanouts `[n, V, 2]` of chiplets of stated sizes, as in `evaluation_arrays`.

        Raises:
            InputError: `tables` has a wrong type, belongs to another problem or is traced; the dtype is neither float32
                nor float64, or it is float64 without x64 mode; the seed is not valid.

        Examples:
            >>> space = problem.arrays(tables)
            >>> space.evaluation.package.interface_bandwidth
            Array([4., 4., 4., 4.], dtype=float32)
        """
        check_tables(tables, self.setup)
        dtype = _float_dtype(dtype)
        check_enabled(dtype, "make the space")
        for item, value in (("tables", tables), ("technology", self.technology), ("given", given)):
            refuse_traced(value, "make the space outside the program that is traced, and pass it in", item=item)
        with with_values():
            _, key, _ = search_keys(seed)
            return jax.tree.map(jnp.asarray, self.space(key, recast(tables, dtype), given=given))

    def space(
        self,
        key: jax.Array,
        tables: MappingTables,
        goals: Goals | None = None,
        *,
        orders: int = ORDERS,
        given: tuple[np.ndarray, np.ndarray] | None = None,
        ensemble: Ensemble | None = None,
    ) -> DesignSpace:
        """The space of designs for a search, in the dtype of the tables.

        Args:
            key: typed key of the random orders, consumed.
            tables: Pareto tables of this problem.
            goals: what is minimised; default latency, energy and area.
            orders: number of random topological orders that random individuals draw from.
            given: as in `evaluation_arrays`.
            ensemble: application models whose networks, joined, are those of this problem; default none.

        Raises:
            InputError: no template runs some layer, or the requirements cannot be met.
        """
        goals = Goals() if goals is None else goals
        setup, resolved = self.setup, self.resolved
        application = self.application
        arrays = self.template_arrays(np.shape(tables.capacity)[3], tables.cycles.dtype)
        periods = goals.periods if of_frames(goals.objectives) else None
        evaluation = evaluation_arrays(setup, tables, given=given, arrays=arrays, periods=periods)
        count = np.asarray(tables.count)
        able, cover = assignable(application, count > 0, resolved)
        total = evaluation.unique.shape[0]
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
            ideal, reference = search_box(setup, tables, evaluation, goals, self.max_chiplets)
        else:
            counts = np.asarray(models.layers)
            model = np.repeat(np.arange(len(counts) + 1, dtype=np.int32), [*counts, padding])
            boxes = [
                search_box(setup.of(one), own_tables(one, application, tables), evaluation, goals, self.max_chiplets)
                for one in (member.application for member in ensemble.models)
            ]
            ideal, reference = (
                ensemble.aggregate(np.stack(ends)).astype(ends[0].dtype) for ends in zip(*boxes, strict=True)
            )
        genetics = Genetics(
            layers=layers,
            unique=evaluation.unique,
            predecessors=needs,
            successors=put(padded_rows(successors, total, -1)),
            count=put(tables.count),
            able=put(np.pad(able, ((0, padding), (0, 0)))),
            kinds=kinds_of(np.array(application.unique_of_layer), resolved.allowed, resolved.pin, able, total),
            transform=mapping_transform(tables.objectives, tables.count),
            cover=put(cover),
            rules=put(np.stack(list_scheduler(setup, tables, resolved).rules())),
            orders=random_orders(key, needs, layers, count=orders),
            max_chiplets=put(resolved.most[-1], np.int32),
            on_tile=put(resolved.tiles),
            pin=put(np.pad(resolved.pin, (0, padding), constant_values=-1)),
            homogeneous=put(runs_all[0] if resolved.homogeneous else -1, np.int32),
            model=None if model is None else put(model),
            urgency=_urgency(setup, tables, goals, total),
        )
        names = goals.objectives
        measures = None
        if names != DEFAULT:
            arrays_of: dict[str, Any] = {
                "network": put(owners(names, application)),
                "offset": put(offsets(names, application), reference.dtype),
            }
            measures = MeasureArrays(**arrays_of)
        return DesignSpace(
            genetics=genetics,
            plans=plan_tables(tables, isolated_cycles(tables, self.package)),
            evaluation=evaluation,
            reference=put(reference),
            ideal=put(ideal),
            weights=put(goals.exponents, reference.dtype),
            limits=put(resolved.limits, reference.dtype),
            least=put(resolved.least),
            most=put(resolved.most),
            tenant_limits=None if evaluation.tenants is None else put(resolved.tenant_limits, reference.dtype),
            chiplet_limits=put(resolved.chiplet_limits, reference.dtype) if resolved.chiplet_limits else None,
            models=models,
            measures=measures,
        )


def as_problem(given: DesignProblem | ApplicationLike) -> DesignProblem:
    """The given problem, or the problem of the given networks with all else as packaged."""
    return given if isinstance(given, DesignProblem) else DesignProblem(given)


def _float_dtype(given: DTypeLike) -> np.dtype:
    """The dtype of an evaluation.

    Raises:
        InputError: it is neither float32 nor float64; counts of words do not fit smaller floats.
    """
    try:
        dtype = np.dtype(given)
    except TypeError:
        dtype = None
    if dtype not in (np.float32, np.float64):
        raise InputError(f"is {given!r:.60}", argument="dtype", remedy="give float32 or float64")
    return np.dtype(dtype)


def _urgency(setup: Setup, tables: MappingTables, goals: Goals, padded: int) -> jax.Array | None:
    """`Genetics.urgency`: by how many cycles the deadline of a layer's network is before the last deadline.

    Networks without a deadline come after all others. None where no objective depends on deadlines.
    """
    if {"lateness", "missed"}.isdisjoint(goals.objectives):
        return None
    application = setup.application
    slowest = np.where(tables.exists, isolated_cycles(tables, setup.package), 0.0).max(axis=(1, 2))
    deadline = np.asarray([network.deadline_s for network in application.networks]) / CYCLE_S
    early = np.max(deadline[np.isfinite(deadline)]) - deadline
    early = np.where(np.isfinite(early), early, -slowest[list(application.unique_of_layer)].sum())
    urgency = np.zeros(padded, np.float32)
    urgency[: len(application.layers)] = early[list(application.network_of_layer)]
    return put(urgency)


def check_tables(tables: MappingTables, setup: Setup) -> None:
    """Checks that tables belong to the networks and templates of a problem.

    Args:
        tables: Pareto tables.
        setup: networks, and templates in the order that the tables should have.

    Raises:
        InputError: they have a wrong type, other numbers of unique layers or templates, or fewer levels than a
            template.
    """
    if not isinstance(tables, MappingTables):
        raise wrong_type(tables, "tables", "give what mj.map_layers or mj.sample_mappings returned")
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


def runnable(application: ApplicationModel, templates: Sequence[Template]) -> np.ndarray:
    """`[U, T]` bool, which template runs which unique layer.

    Raises:
        InputError: no template runs some layer.
    """
    table = np.zeros((len(application.unique_layers), len(templates)), bool)
    for u, layer in enumerate(application.unique_layers):
        reasons = [fits(t, layer.type, layer.shape) for t in templates]
        table[u] = [reason is None for reason in reasons]
        if not table[u].any():
            raise InputError(
                f"no template can run this layer: {reasons[0]}",
                item=application.full_names[application.unique_of_layer.index(u)],
                remedy="add a template that runs it",
            )
    return table


def _check_fixed_area(resolved: ResolvedRequirements, technology: Technology) -> None:
    """Raises `InputError` where the chiplets of fixed sizes alone exceed the limit on area."""
    fixed = [resolved.templates[t] for t in resolved.tiles[resolved.fixed] if resolved.templates[t].sizes == "fixed"]
    if not fixed:
        return
    total = float(jnp.sum(jax.vmap(area)(template_arrays(fixed, technology).machine))) * 1e-6
    if total > resolved.limits[2] * (1 + LIMIT_TOLERANCE):
        raise InputError(
            f"the chiplets of fixed sizes alone take {total:.4g} mm^2, the limit is {resolved.limits[2]:.4g}",
            file=resolved.file or None,
            item="limits.area_mm2",
            remedy="raise it, or fix smaller chiplets",
        )


def assignable(
    application: ApplicationModel, runs: np.ndarray, resolved: ResolvedRequirements
) -> tuple[np.ndarray, np.ndarray]:
    """Which template may run each layer, and a package that runs them all; checks that there is one.

    Args:
        application: the networks.
        runs: `[U, T]` bool, templates that run each unique layer.
        resolved: the user's requirements.

    Returns:
        `[layers, T]` bool, and `[S]` int32, template on each tile, -1 where empty.

    Raises:
        InputError: no template may run some layer, no single one runs all where the package must be homogeneous, or the
            package is too small.
    """
    able = resolved.allowed & runs[list(application.unique_of_layer)]
    for layer, name, row in zip(application.layers, application.full_names, able, strict=True):
        if not row.any():
            raise InputError(
                f"no template runs this layer (type {layer.type})",
                file=resolved.file or None,
                item=name,
                remedy="add a template that runs it, enlarge its buffers, or loosen what pins it",
            )
    if resolved.homogeneous and not able.all(axis=0).any():
        raise InputError(
            "no template runs every layer",
            file=resolved.file or None,
            item="homogeneous",
            remedy="leave it out, or add a template that does",
        )
    return able, _cover(able, resolved)


def _cover(able: np.ndarray, resolved: ResolvedRequirements) -> np.ndarray:
    """`[S]` int32, fixed chiplets and few others that together run every layer; -1 where empty.

    The others are chosen greedily, and are as few as possible where that takes more than there may be.

    Args:
        able: `[layers, T]` bool, at least one true in every row.
        resolved: the tiles, and how many chiplets there may be.
    """
    cover = np.where(resolved.tiles >= 0, resolved.tiles, -1).astype(np.int32)
    open_rows = able[~able[:, cover[resolved.fixed]].any(axis=1)]
    lonely, added = np.ones(len(open_rows), bool), []
    while lonely.any():
        added.append(int(np.argmax(open_rows[lonely].sum(axis=0))))
        lonely &= ~open_rows[:, added[-1]]
    room = min(resolved.most[-1] - len(resolved.fixed), len(resolved.free))
    if len(added) > room:
        rows = np.unique(open_rows, axis=0)
        fewer = (_cover_of(rows, most) for most in range(1, len(added)))
        added = next((found for found in fewer if found is not None), added)
    if len(added) > room:
        needed = len(resolved.fixed) + len(added)
        raise InputError(
            f"it takes {needed} chiplets to run every layer, there may be {len(resolved.fixed) + room}",
            file=resolved.file or None,
            item="chiplets",
            remedy=f"allow {needed}, or add a template that runs more layer types",
        )
    cover[resolved.free[: len(added)]] = added
    return cover


def _cover_of(able: np.ndarray, most: int) -> list[int] | None:
    """At most `most` templates that together run every layer of `[layers, T]` bool, None if there are none."""
    if not len(able):
        return []
    # One of the templates that run the most demanding layer is among them.
    hardest = able[np.argmin(able.sum(axis=1))]
    for template in np.flatnonzero(hardest) if most else ():
        rest = _cover_of(able[~able[:, template]], most - 1)
        if rest is not None:
            return [int(template), *rest]
    return None


def _most(max_chiplets: int | None, tiles: int) -> int:
    """Most chiplets of a design, checked against the tiles of the package."""
    if max_chiplets is None:
        return tiles
    if isinstance(max_chiplets, bool) or not isinstance(max_chiplets, int | np.integer) or max_chiplets < 1:
        raise InputError(f"is {max_chiplets!r}", argument="max_chiplets", remedy="use 1 or more, a whole number")
    if max_chiplets > tiles:
        raise InputError(
            f"{max_chiplets} exceeds the {tiles} tiles of the package",
            argument="max_chiplets",
            remedy="lower it or give the package more tiles",
        )
    return int(max_chiplets)


def _templates(given: TemplateLike | Sequence[TemplateLike] | None) -> tuple[Template, ...]:
    """Templates from names, paths or `Template` objects; checks that their names differ."""
    if given is None:
        given = list(packaged_templates())
    elif isinstance(given, str | os.PathLike | Template):
        given = [given]
    chosen = [as_template(item) for item in given]
    if not chosen:
        raise InputError(
            "no template is given", item="templates", remedy=f"packaged: {', '.join(packaged_templates())}"
        )
    names = [template.name for template in chosen]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"a second template is called {name!r}", item="templates", remedy="give every template its own name"
            )
    return tuple(chosen)
