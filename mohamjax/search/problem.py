"""The design problem: networks, templates, technology, package and requirements held together and checked once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from mohamjax.errors import InputError
from mohamjax.hardware import (
    PackageParameters,
    Technology,
    Template,
    TemplateArrays,
    as_package,
    as_technology,
    as_template,
    packaged_templates,
    template_arrays,
)
from mohamjax.mapping import MappingTables, recast
from mohamjax.reader import as_given
from mohamjax.schedule import Requirements, load_requirements
from mohamjax.schedule.setup import Setup
from mohamjax.search.codesign import prepare
from mohamjax.search.config import MohamConfig
from mohamjax.search.context import MohamContext, build_context, check_tables
from mohamjax.search.requirements import Site
from mohamjax.search.settings import Settings
from mohamjax.workload import ApplicationModel

__all__ = ["DesignProblem", "search_keys"]

TemplateLike = str | os.PathLike[str] | Template


def search_keys(seed: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Keys of a search's mapper, of its random orders and of its generations, as `co_optimise` draws them."""
    mapping, context, generations = jax.random.split(jax.random.key(seed), 3)
    return mapping, context, generations


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class DesignProblem:
    """What is to be designed, whole and checked: a host object, from which arrays are made.

    Attributes:
        application: the networks that run together.
        templates: sub-accelerator templates to choose from.
        package: package parameters; its `max_tiles` is the number of tiles of every design.
        technology: energy and area tables.
        requirements: what is demanded of every design.
        site: the requirements brought together with networks and templates. Its `templates` are those that tables and
            designs count: the given ones, with the memory of the package, unless the requirements fix chiplets.

    Args:
        application: from `load_scenario` or `load_onnx`.
        templates: names of packaged templates, YAML files or `Template` objects; one or several; default all packaged.
        package: parameters or a YAML file; default those of `Package()`.
        technology: tables or a file; default the packaged 45 nm.
        requirements: demands or a YAML file; default none.

    Raises:
        InputError: a file cannot be read; two templates have one name; a layer runs on no template; the requirements
            contradict each other, the templates or the package.
        TypeError: an argument is of another type.

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
    site: Site = dataclasses.field(init=False)
    _arrays: dict[Any, TemplateArrays] = dataclasses.field(init=False)

    def __init__(
        self,
        application: ApplicationModel,
        templates: TemplateLike | Sequence[TemplateLike] | None = None,
        package: PackageParameters | str | os.PathLike[str] | None = None,
        technology: Technology | str | os.PathLike[str] | None = None,
        requirements: Requirements | str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(application, ApplicationModel):
            raise TypeError(f"application: expected what load_scenario or load_onnx return, got {application!r:.80}")
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
        for name, value in own.items():
            object.__setattr__(self, name, value)
        site = prepare(application, self.templates, self.settings())
        object.__setattr__(self, "site", site)
        object.__setattr__(self, "_arrays", {})

    def __repr__(self) -> str:
        names = ", ".join(template.name for template in self.site.templates)
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
        return int(self.site.most[-1])

    @property
    def setup(self) -> Setup:
        """Networks and hardware, with the templates that tables and designs count (`site`)."""
        return Setup(self.application, self.site.templates, self.technology, self.package)

    def settings(self, base: Settings | None = None, **changes: Any) -> Settings:
        """Settings of a search of this problem.

        Args:
            base: default `Settings()`; its number of tiles, package, technology and requirements become the problem's.
            changes: further fields of `Settings`.
        """
        base = Settings() if base is None else base
        most = min(base.moham.max_chiplets, self.tiles)
        if base.moham.max_chiplets == MohamConfig.max_chiplets:
            most = self.tiles
        return dataclasses.replace(
            base,
            moham=dataclasses.replace(base.moham, tiles=self.tiles, max_chiplets=most),
            package=self.package,
            technology=self.technology,
            requirements=self.requirements,
            **changes,
        )

    def template_arrays(self, levels: int | None = None, dtype: Any = jnp.float32) -> TemplateArrays:
        """The templates of `site` as arrays `[T, ...]`, built once for every number of levels and dtype."""
        most = max(len(template.levels) for template in self.site.templates)
        key = (most if levels is None else levels, jnp.dtype(dtype))
        if key not in self._arrays:
            self._arrays[key] = template_arrays(self.site.templates, self.technology, *key)
        return self._arrays[key]

    def arrays(
        self,
        tables: MappingTables,
        *,
        dtype: Any = jnp.float32,
        seed: int = 0,
        given: tuple[Any, Any] | None = None,
    ) -> MohamContext:
        """The space of designs as one pytree: all that `evaluate` and `sample_designs` read.

        Every leaf is a JAX array, and shapes follow from the networks, the templates and the sizes of the tables
        alone: spaces of several packages with as many tiles and memory interfaces can be stacked (`struct.stack`) and
        vmapped over.

        Args:
            tables: of this problem, from `map_layers` or `sample_mappings`.
            dtype: float dtype of the evaluation; float64 needs JAX's x64 mode.
            seed: of the random topological orders that `sample_designs` draws from.
            given: templates `[n]` and fanouts `[n, V, 2]` of chiplets of stated sizes, as in `workbench`.

        Raises:
            InputError: the tables are of another problem, or float64 is asked for without x64 mode.

        Examples:
            >>> space = problem.arrays(tables)
            >>> space.bench.package.interface_bandwidth
            Array([4., 4., 4., 4.], dtype=float32)
        """
        check_tables(tables, self.setup)
        dtype = jnp.dtype(dtype)
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise InputError(
                f"{dtype} is not there", item="dtype", remedy="make the space inside `with jax.enable_x64(True):`"
            )
        tables = recast(tables, dtype)
        _, key, _ = search_keys(seed)
        settings = self.settings()
        context = build_context(
            key,
            self.setup,
            tables,
            settings.moham,
            self.site,
            arrays=self.template_arrays(tables.capacity.shape[3], dtype),
            given=given,
        )
        return jax.tree.map(jnp.asarray, context)


def _templates(given: TemplateLike | Sequence[TemplateLike] | None) -> tuple[Template, ...]:
    """Templates by name, path or as they are; checks that their names differ."""
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
