"""MEDEA: Pareto sets of mappings for every unique layer on every template (MEDEA paper, Section IV).

All (unique layer, template) problems of a scenario are searched side by side: blocks of B problems go through one
jitted program, whatever their layers and templates, and the blocks over the processor's cores. Each problem draws
from a key of its own that depends on nothing but its content and the seed: its result does not depend on the company.

Axes: B problems of a block, P population, A archive, M table entries, L levels, D dimensions.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.resources
import io
import json
import os
import pathlib
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.hardware import (
    Machine,
    Technology,
    Template,
    TemplateArrays,
    fits,
    technology_hash,
    template_arrays,
)
from mohamjax.io.files import read_arrays, write_bytes
from mohamjax.mapping.cost import MAX_CHILDREN
from mohamjax.mapping.nest import Array, Mapping
from mohamjax.mapping.space import (
    MappingGenes,
    MapSpace,
    constraints,
    decode,
    encode,
    map_space,
    prime_factors,
    sample,
    stack_spaces,
)
from mohamjax.mapping.tables import (
    MappingTables,
    column_shapes,
    need_children,
    on_own_hardware,
    tabulate_sets,
)
from mohamjax.programs import light_jit
from mohamjax.search.mapping_operators import MapperRates, neighbour, neighbours, vary
from mohamjax.struct import record, take
from mohamjax.workload import DIMS, UniqueLayer

__all__ = [
    "MapperConfig",
    "MapperContext",
    "MapperProgress",
    "assemble",
    "cache_folder",
    "children_room",
    "context",
    "largest_children_room",
    "map_layers",
    "map_spaces",
    "mapping_search",
    "objectives",
]

_MEMBERS = 8  # members of an archive whose neighbours are listed in a round

_PRIME_STEP = 32  # factor slots come in multiples of this, so that scenarios share a compile


@dataclasses.dataclass(frozen=True)
class MapperConfig:
    """Sizes of the mapper; static.

    Attributes:
        population: P, individuals per problem.
        generations: generations after the first population.
        immigrants: random individuals that join every generation.
        descent: rounds after the last generation, each of as many evaluations: the members of the archive are replaced
            by better ones among all their neighbours (`mapping_operators.neighbours`), until none is left to try.
        archive: A, non-dominated mappings remembered per problem during the search.
        entries: M, mappings of a Pareto set that are handed on.
        block: B, problems searched in one call.
        threads: blocks searched at a time; 0 for the number of cores.
        fixed: evaluate on the templates as they are at their largest sizes, with the limits of their own off-chip
            memory, instead of on each mapping's minimal hardware. Area is then the template's, and the search's third
            objective the energy-delay product.
        distinct: mappings with equal objectives count once in survival.
    """

    population: int = 120
    generations: int = 15
    immigrants: int = 12
    descent: int = 32
    archive: int = 256
    entries: int = 128
    block: int = 32
    threads: int = 0
    fixed: bool = False
    distinct: bool = True

    @property
    def evaluations(self) -> int:
        """Most mappings that the search of one problem evaluates."""
        return (self.generations + 1 + self.descent) * (self.population + self.immigrants)

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        for name, low in (
            ("population", 4), ("generations", 0), ("immigrants", 0), ("descent", 0), ("archive", 6), ("entries", 6),
            ("block", 1), ("threads", 0),
        ):  # fmt: skip
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} is {getattr(self, name)}", item="mapper settings", remedy=f"use {low} or more"
                )


@dataclasses.dataclass(frozen=True)
class MapperProgress:
    """How far the mapper is; passed to the caller after every generation of every block.

    Attributes:
        problems: (unique layer, template) pairs in all.
        cached: pairs whose set was on disk.
        done: pairs whose search has ended, cached ones included.
        evaluations: mappings evaluated so far.
        total: mappings to evaluate in all.
        seconds: since the search began, compiling included.
        compile_s: of these, seconds spent on compiling so far.
    """

    problems: int
    cached: int
    done: int
    evaluations: int
    total: int
    seconds: float
    compile_s: float = 0.0


@record(frozen=True)
class MapperContext:
    """One (unique layer, template) problem as arrays.

    Attributes:
        space: its map space.
        template: the template at its largest sizes.
        technology: energy and area tables.
    """

    space: MapSpace
    template: TemplateArrays
    technology: Technology


def children_room(spaces: Sequence[MapSpace]) -> int:
    """`max_children` of the cost model for mappings of these spaces: 0 where none can need it (`need_children`)."""
    along = [(np.asarray(space.limit) > 1).reshape(3, -1, len(DIMS))[1:] for space in spaces]
    return MAX_CHILDREN if any(np.any(need_children(slots)) for slots in along) else 0


def map_spaces(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], arrays: TemplateArrays
) -> dict[tuple[int, int], MapSpace]:
    """Map spaces of all pairs of layers and templates that can run them, equally padded, by (layer, template).

    Args:
        layers: unique layers.
        templates: T templates.
        arrays: the templates, `[T, ...]` NumPy leaves.
    """
    levels, primes = arrays.component.shape[1], _primes(layers)
    return {
        (u, t): _space(layer, template, jax.tree.map(lambda leaf, t=t: leaf[t], arrays.machine), levels, primes)
        for u, layer in enumerate(layers)
        for t, template in enumerate(templates)
        if fits(template, layer.type, layer.shape) is None
    }


def largest_children_room(
    layers: Sequence[UniqueLayer], templates: Sequence[Template], technology: Technology, levels: int
) -> int:
    """`children_room` over all pairs of layers and templates that can run them, as `map_layers` finds it."""
    arrays = jax.device_get(template_arrays(templates, technology, levels))
    return children_room(list(map_spaces(layers, templates, arrays).values()))


def objectives(
    genes: MappingGenes, context: MapperContext, *, fixed: bool = False, max_children: int = MAX_CHILDREN
) -> jax.Array:
    """Base-2 logarithms of latency [cycles], energy [pJ] and area [um^2] of a population of one problem.

    Latency is free of off-chip limits; energy and area are those of the mapping's own minimal hardware (DESIGN
    section 7). Logarithms change no rank, but spread the crowding evenly over objectives that span decades.

    Args:
        genes: leading axis `[P]`.
        context: one problem.
        fixed: static, as in `MapperConfig`: latency with off-chip limits, energy, and their product.
        max_children: static, from `children_room`.

    Returns:
        `[P, 3]` float, +inf where the mapping is invalid.
    """
    mapping = jax.vmap(decode, in_axes=(0, None), out_axes=-1)(genes, context.space)
    own = on_own_hardware(
        context.space.layer, mapping, context.template, context.technology, fixed=fixed, max_children=max_children
    )
    energy = jnp.log2(own.energy.total)
    time = jnp.log2(own.cycles.total if fixed else own.cycles.onchip)
    values = jnp.stack([time, energy, time + energy if fixed else jnp.log2(own.area)], axis=-1)
    return jnp.where((own.reason == 0)[:, None], values, jnp.inf)


@functools.cache
def mapping_search(population: int, immigrants: int, archive: int, distinct: bool, dtype: Any) -> emo.Archived:
    """NSGA-II over the mappings of one problem; `space` and `rates` are its context.

    Args:
        population: as in `MapperConfig`.
        immigrants: likewise.
        archive: likewise.
        distinct: likewise.
        dtype: of the objectives.
    """
    search = emo.NSGA2(
        sample=lambda key, space, rates=None: sample(key, space),
        vary=lambda key, a, b, space, rates: vary(key, a, b, space, rates),
        population=population,
        objectives=3,
        immigrants=immigrants,
        dtype=dtype,
        distinct=distinct,
    )
    return emo.Archived(search, archive)


# A generation is three programs, so that the costly one, the evaluation, is compiled once for all and beside others.


@functools.partial(light_jit, static_argnames=("search",))
def _start(
    keys: Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None, *, search: emo.Archived
) -> tuple[emo.ArchivedState, MappingGenes]:
    """States of a block, a key each, and the first candidates `[B, N, ...]`.

    Given mappings `[B, K, ...]` take part where `is_given` `[B, K]`.
    """

    def one(
        key: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None
    ) -> tuple[emo.ArchivedState, MappingGenes]:
        seeds = None
        if given is not None and is_given is not None:
            keys = jax.random.split(jax.random.fold_in(key, 2**31 - 2), is_given.shape[0])
            drawn = jax.vmap(sample, in_axes=(0, None))(keys, space)
            pick = jax.vmap(lambda use, a, b: jax.tree.map(lambda x, y: jnp.where(use, x, y), a, b))
            seeds = pick(is_given, given, drawn)
        state = search.init(key, seeds, space=space)
        return state, search.first(state, space=space)

    return jax.vmap(one)(keys, space, given, is_given)


@functools.partial(light_jit, static_argnames=("search",))
def _ask(state: emo.ArchivedState, space: MapSpace, rates: MapperRates, *, search: emo.Archived) -> MappingGenes:
    """The next candidates of every problem of a block, `[B, N, ...]`."""
    return jax.vmap(lambda state, space: search.ask(state, space=space, rates=rates))(state, space)


@functools.partial(light_jit, static_argnames=("fixed", "max_children"))
def _evaluate(genes: MappingGenes, context: MapperContext, *, fixed: bool, max_children: int) -> Array:
    """Their objectives, `[B, N, 3]`."""

    def one(genes: MappingGenes, space: MapSpace, template: TemplateArrays) -> Array:
        own = MapperContext(space=space, template=template, technology=context.technology)
        return objectives(genes, own, fixed=fixed, max_children=max_children)

    return jax.vmap(one)(genes, context.space, context.template)


@functools.partial(light_jit, static_argnames=("search",))
def _tell(
    state: emo.ArchivedState, genes: MappingGenes, objectives: Array, *, search: emo.Archived
) -> emo.ArchivedState:
    """The state of every problem after survival."""
    return jax.vmap(search.tell)(state, genes, objectives)


@functools.partial(light_jit, static_argnames=("count",))
def _neighbours(
    archive: emo.Archive, tried: Array, space: MapSpace, *, count: int
) -> tuple[MappingGenes, Array, Array]:
    """Neighbours of archived mappings, the oldest that have not had their turn first.

    Args:
        archive: leading axis `[B]`.
        tried: `[B, A]` bool, members whose neighbours have all been evaluated.
        space: of the block.
        count: N, neighbours to take; members that do not fit in whole keep their turn, but for the first.

    Returns:
        Genes `[B, N, ...]`, which of them exist `[B, N]`, and `tried` afterwards.
    """

    def one(archive: emo.Archive, tried: Any, space: MapSpace) -> tuple[MappingGenes, Array, Array]:
        open_ = archive.valid & ~tried
        pick = jnp.argsort(~open_, stable=True)[:_MEMBERS]
        members: Any = take(archive.genes, pick)
        steps = jax.vmap(neighbours, in_axes=(0, None))(members, space) & open_[pick, None]
        place = jnp.nonzero(steps.ravel(), size=count, fill_value=-1)[0]
        member, step = jnp.divmod(jnp.maximum(place, 0), steps.shape[1])
        genes = jax.vmap(neighbour, in_axes=(0, 0, None))(take(members, member), step, space)
        whole = (jnp.cumsum(jnp.sum(steps, axis=1)) <= count).at[0].set(True)
        return genes, place >= 0, tried.at[pick].set(tried[pick] | whole)

    return jax.vmap(one)(archive, tried, space)


@light_jit
def _enter(
    archive: emo.Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array
) -> tuple[emo.Archive, Array]:
    """The archives after a round of neighbours, and which of their members have had their turn."""

    def one(archive: emo.Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array):
        both = dataclasses.replace(archive, genes=(archive.genes, tried))
        objectives = jnp.where(exists[:, None], objectives, jnp.inf)
        both = emo.archive_update(both, (genes, jnp.zeros_like(exists)), objectives)
        return dataclasses.replace(both, genes=both.genes[0]), both.genes[1]

    return jax.vmap(one)(archive, tried, genes, exists, objectives)


@functools.partial(light_jit, static_argnames=("entries",))
def _finish(archive: emo.Archive, space: MapSpace, *, entries: int) -> tuple[Mapping, Array]:
    """The Pareto sets of a block, `[B, M, ...]`, and their sizes `[B]`: at most M of each archive."""

    def one(archive: emo.Archive, space: MapSpace) -> tuple[Mapping, Array]:
        # Entering a smaller archive thins by crowding and keeps the extremes.
        smaller = emo.archive_init(entries, take(archive.genes, 0), 3, archive.objectives.dtype)
        best = emo.archive_update(smaller, archive.genes, archive.objectives)
        # By latency, padding last.
        order = jnp.lexsort((best.objectives[:, 1], best.objectives[:, 0]))
        mapping = jax.vmap(decode, in_axes=(0, None))(take(best.genes, order), space)
        return mapping, jnp.sum(best.valid, dtype=jnp.int32)

    return jax.vmap(one)(archive, space)


def cache_folder() -> pathlib.Path:
    """Where mapping tables are kept between runs: `$XDG_CACHE_HOME/mohamjax/mappings`, by default in `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "mohamjax" / "mappings"


@functools.lru_cache(maxsize=1)
def _code_hash() -> str:
    """Hash of everything but the inputs that decides a result: our code from the cost model up, and JAX's version."""
    digest = hashlib.sha256(f"{jax.__version__} {importlib.metadata.version('numpy')}".encode())
    root = importlib.resources.files("mohamjax")
    for folder in ("emo", "hardware", "mapping", "search"):
        for file in sorted(root.joinpath(folder).iterdir(), key=lambda f: f.name):
            if file.name.endswith(".py") and (folder != "search" or file.name in _SEARCH_FILES):
                digest.update(file.name.encode() + file.read_bytes())
    for name in ("blocks.py", "programs.py"):
        digest.update(root.joinpath(name).read_bytes())
    return digest.hexdigest()


_SEARCH_FILES = ("loop.py", "mapper.py", "mapping_operators.py")


@dataclasses.dataclass(frozen=True)
class _Pair:
    """One problem on the host.

    Attributes:
        layer: unique layer.
        template: the template.
        digest: hash of inputs and settings, from which its random numbers derive: an edit of the code leaves them.
        file: name of its cache file; hash of the code as well.
    """

    layer: int
    template: int
    digest: str
    file: str


def _pairs(
    key: Array,
    layers: Sequence[UniqueLayer],
    templates: Sequence[Template],
    technology: Technology,
    config: MapperConfig,
    rates: MapperRates,
    given: Dict[tuple[int, int], Sequence[Mapping]],
    layout: dict[str, Any],
) -> list[_Pair]:
    """The problems that exist: every layer on every template that can run it."""
    sizes = {k: v for k, v in dataclasses.asdict(config).items() if k not in ("block", "threads")}
    common = json.dumps(
        {
            "key": np.asarray(jax.random.key_data(key)).tolist(),
            "technology": technology_hash(technology),
            "config": sizes,
            "rates": {k: float(v) for k, v in dataclasses.asdict(rates).items()},
            **layout,
        },
        sort_keys=True,
    )
    hashes = [template.content_hash() for template in templates]
    code = _code_hash()
    out = []
    for u, layer in enumerate(layers):
        for t, template in enumerate(templates):
            if fits(template, layer.type, layer.shape) is None:
                seeds = [[np.asarray(x).tolist() for x in jax.tree.leaves(m)] for m in given.get((u, t), ())]
                content = json.dumps([common, hashes[t], layer.type, dataclasses.asdict(layer.shape), seeds])
                digest, file = (hashlib.sha256(text.encode()).hexdigest() for text in (content, content + code))
                out.append(_Pair(u, t, digest, f"{file}.npz"))
    return out


_FIELDS = tuple(f.name for f in dataclasses.fields(MappingTables) if f.name != "mapping")
_MAPPING_FIELDS = tuple(f.name for f in dataclasses.fields(Mapping))


def _load(path: pathlib.Path) -> MappingTables | None:
    """One cached set `[M, ...]`, or None where there is none or the file is damaged (it is then written anew)."""
    try:
        data = read_arrays(path)
        mapping = Mapping(**{name: data[f"mapping.{name}"] for name in _MAPPING_FIELDS})
        return MappingTables(mapping=mapping, **{name: data[name] for name in _FIELDS})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError) as error:
        warnings.warn(f"{path}: damaged cache entry ({error}); searching again", stacklevel=2)
        return None


def _save(path: pathlib.Path, table: MappingTables) -> None:
    """Writes one set atomically; `InputError` where it cannot."""
    arrays = {f"mapping.{name}": getattr(table.mapping, name) for name in _MAPPING_FIELDS}
    arrays |= {name: getattr(table, name) for name in _FIELDS}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


_PROGRAMS: dict[Any, concurrent.futures.Future[Any]] = {}
"""Compiled programs by function, static arguments and shapes, and that those of the tables are (None); those of other
threads in the making included."""

_ASKING = threading.Lock()


def _once(key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives; called once for a key, by whoever asks first."""
    with _ASKING:
        first = key not in _PROGRAMS
        future = _PROGRAMS.setdefault(key, concurrent.futures.Future())
    if first:
        try:
            future.set_result(make())
        except BaseException as error:
            del _PROGRAMS[key]
            future.set_exception(error)
    return future.result()


class _Search:
    """The blocks of one call of `map_layers`, run by some threads; holds what they share."""

    def __init__(
        self,
        config: MapperConfig,
        rates: MapperRates,
        progress: Callable[[MapperProgress], None] | None,
        problems: int,
        cached: int,
        max_children: int,
    ) -> None:
        self.config, self.rates, self.progress = config, rates, progress
        self.problems, self.cached, self.done, self.evaluations = problems, cached, cached, 0
        self.total = (problems - cached) * config.evaluations
        self.max_children = max_children
        self.began = time.perf_counter()
        self.compile_s = 0.0
        self.stop = threading.Event()
        self.lock = threading.Lock()

    def report(self, evaluations: int = 0, done: int = 0, spared: int = 0) -> None:
        """Counts and passes the count on."""
        with self.lock:
            self.evaluations += evaluations
            self.total -= spared
            self.done += done
            if self.progress is not None:
                self.progress(
                    MapperProgress(
                        problems=self.problems, cached=self.cached, done=self.done, evaluations=self.evaluations,
                        total=self.total, seconds=time.perf_counter() - self.began, compile_s=self.compile_s,
                    )
                )  # fmt: skip

    def program(self, function: Any, *args: Any, **static: Any) -> Any:
        """A jitted function compiled for these shapes."""
        leaves, tree = jax.tree.flatten(args)
        shapes = tuple(jax.typeof(leaf) for leaf in leaves)
        key = function, tuple(sorted(static.items(), key=lambda item: item[0])), tree, shapes
        return _once(key, lambda: function.lower(*args, **static).compile())

    def compile_tables(self, context: MapperContext) -> None:
        """Compiles what evaluates the sets, by nests of ones; where the spaces have such, also by one with a window."""
        fixed, levels = self.config.fixed, context.template.component.shape[1]

        def evaluate() -> None:
            space, template = jax.device_get(jax.tree.map(lambda leaf: leaf[:1], (context.space, context.template)))
            most = 1 if fixed or self.max_children == 0 else 2
            unit = np.arange(len(DIMS), dtype=np.int32)
            spatial = np.ones((1, most, 2, levels, len(DIMS)), np.int32)
            spatial[:, 1:, :, 0, [DIMS.index("P"), DIMS.index("R")]] = 2
            nests = Mapping(
                temporal=np.ones((1, most, levels, len(DIMS)), np.int32),
                order=np.broadcast_to(unit, (1, most, levels, len(DIMS))),
                spatial=spatial,
                spatial_order=np.broadcast_to(unit, spatial.shape),
                keep=space.constraints.keep[:, None].repeat(most, axis=1),
            )
            tabulate_sets(space.layer, template, context.technology, nests, np.array([most]), fixed=fixed)

        _once(("tables", fixed, self.max_children, levels, context.template.machine.capacity.dtype), evaluate)

    def programs(
        self, keys: Array, context: MapperContext, given: MappingGenes | None, is_given: Any
    ) -> dict[str, Any]:
        """The programs of a block by name, compiled side by side."""
        config = self.config
        search = mapping_search(
            config.population, config.immigrants, config.archive, config.distinct,
            context.template.machine.capacity.dtype,
        )  # fmt: skip
        kind = {"fixed": config.fixed, "max_children": self.max_children}
        count = config.population + config.immigrants
        began = time.perf_counter()
        space = context.space
        state, genes = _start.eval_shape(keys, space, given, is_given, search=search)
        values = _evaluate.eval_shape(genes, context, **kind)
        tried, exists = (jax.ShapeDtypeStruct((values.shape[0], n), bool) for n in (config.archive, count))
        wanted: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {  # the slowest first
            "ask": (_ask, (state, space, self.rates), {"search": search}),
            "evaluate": (_evaluate, (genes, context), kind),
            "start": (_start, (keys, space, given, is_given), {"search": search}),
            "tell": (_tell, (state, genes, values), {"search": search}),
            "finish": (_finish, (state.archive, space), {"entries": config.entries}),
        }
        if config.descent:
            wanted["neighbours"] = (_neighbours, (state.archive, tried, space), {"count": count})
            wanted["enter"] = (_enter, (state.archive, tried, genes, exists, values), {})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            tables = pool.submit(self.compile_tables, context)
            made = {name: pool.submit(self.program, f, *args, **static) for name, (f, args, static) in wanted.items()}
            tables.result()
            programs = {name: future.result() for name, future in made.items()}
        with self.lock:
            # Threads wait for each other's programs: the longest wait is what compiling took.
            self.compile_s = max(self.compile_s, time.perf_counter() - began)
        return programs

    def block(
        self, keys: Array, context: MapperContext, given: MappingGenes | None, is_given: Any, real: int
    ) -> MappingTables | None:
        """Searches one block of which `real` problems are no padding; None if stopped on the way."""
        config = self.config
        count = config.population + config.immigrants
        call = self.programs(keys, context, given, is_given)
        space = context.space
        state, genes = call["start"](keys, space, given, is_given)
        for generation in range(config.generations + 1):  # the first evaluates the first population
            if self.stop.is_set():
                return None
            if generation:
                genes = call["ask"](state, space, self.rates)
            state = call["tell"](state, genes, call["evaluate"](genes, context))
            jax.block_until_ready(state)
            self.report(real * count)
        archive = state.archive
        tried = jnp.zeros(archive.valid.shape, bool)
        for round_ in range(config.descent):
            if self.stop.is_set():
                return None
            genes, exists, tried = call["neighbours"](archive, tried, space)
            tries = int(np.sum(np.asarray(exists)[:real]))
            if tries == 0:
                self.report(spared=(config.descent - round_) * real * count)
                break
            archive, tried = call["enter"](archive, tried, genes, exists, call["evaluate"](genes, context))
            self.report(tries, spared=real * count - tries)
        sets, count = call["finish"](archive, space)
        layers, templates, sets, count = jax.tree.map(
            lambda leaf: leaf[:real], jax.device_get((space.layer, context.template, sets, count))
        )
        table = tabulate_sets(layers, templates, context.technology, sets, count, fixed=config.fixed)
        self.report(done=real)
        return table


def map_layers(
    key: Array,
    layers: Sequence[UniqueLayer],
    templates: Sequence[Template],
    technology: Technology,
    config: MapperConfig | None = None,
    *,
    rates: MapperRates | None = None,
    given: Dict[tuple[int, int], Sequence[Mapping]] | None = None,
    wanted: np.ndarray | None = None,
    progress: Callable[[MapperProgress], None] | None = None,
    cache: pathlib.Path | None = None,
    levels: int | None = None,
    max_children: int | None = None,
    dtype: Any = jnp.float32,
) -> MappingTables:
    """Searches the Pareto set of mappings of every layer on every template that can run it (MEDEA).

    Not jitted itself. It compiles once per block size, population, number of levels and float dtype: layers,
    templates, seeds and rates are data, and the last block is padded. Same key and settings give the same tables,
    whatever other layers or templates are searched along.

    Args:
        key: typed key of the search.
        layers: unique layers, U of them.
        templates: templates, T of them.
        technology: energy and area tables.
        config: sizes; default the MEDEA paper's 15 generations of 120.
        rates: probabilities of the operators; default the MEDEA paper's.
        given: mappings by (index of the layer, index of the template) that join the first population; L levels as
            the deepest template has.
        wanted: `[U, T]` bool, pairs to search; default all that can be.
        progress: called from worker threads, one call at a time, after every generation of a block.
        cache: folder of finished sets (see `cache_folder`); None neither reads nor writes any.
        levels: L, at least those of every template; default the most of any.
        max_children: of the cost model, at least what `children_room` says; default just that. One number for several
            calls lets them share their programs.
        dtype: float dtype of the search; float64 needs JAX's x64 mode.

    Returns:
        `MappingTables` `[U, T, M, ...]`, NumPy arrays. Sets are mutually non-dominated, ordered by latency and hold
        the extremes of all three objectives that the search met.

    Raises:
        InputError: a given mapping does not fit its layer and template.
    """
    config = config or MapperConfig()
    rates = rates or MapperRates()
    given = dict(given or {})
    arrays = jax.device_get(template_arrays(templates, technology, levels, dtype))
    deep = arrays.component.shape[1]
    primes = _primes(layers)
    layout = {"levels": deep, "primes": primes, "dtype": jnp.dtype(dtype).name}
    pairs = _pairs(key, layers, templates, technology, config, rates, given, layout)
    if wanted is not None:
        pairs = [pair for pair in pairs if wanted[pair.layer, pair.template]]

    found: dict[_Pair, MappingTables] = {}
    if cache is not None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=cache):
                pass
        except OSError as error:
            warnings.warn(f"mapping sets are not kept: {cache} cannot be written ({error.strerror})", stacklevel=2)
            cache = None
    if cache is not None:
        found = {pair: hit for pair in pairs if (hit := _load(cache / pair.file)) is not None}
    open_ = [pair for pair in pairs if pair not in found]

    def space(pair: _Pair) -> MapSpace:
        machine = jax.tree.map(lambda leaf: leaf[pair.template], arrays.machine)
        return _space(layers[pair.layer], templates[pair.template], machine, deep, primes)

    spaces = {pair: space(pair) for pair in open_}
    most_given = max([0, *(len(v) for v in given.values())])
    room = MAX_CHILDREN if config.fixed else max(children_room(list(spaces.values())), max_children or 0)
    search = _Search(config, rates, progress, len(pairs), len(found), room)
    search.report()
    tech = _cast(technology, dtype)

    def run(block: list[_Pair]) -> None:
        padded = block + [block[-1]] * (config.block - len(block))
        own = np.array([int(pair.digest[:8], 16) for pair in padded], np.uint32)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, own)
        chosen = np.array([pair.template for pair in padded])
        context = MapperContext(
            space=jax.tree.map(jnp.asarray, stack_spaces([spaces[pair] for pair in padded])),
            template=jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen]), arrays),
            technology=tech,
        )
        names = [template.name for template in templates]
        seeds, is_seed = _given_genes(padded, given, spaces, names, most_given)
        result = search.block(keys, context, seeds, is_seed, len(block))
        if result is None:
            return
        for i, pair in enumerate(block):
            found[pair] = jax.tree.map(lambda leaf, i=i: leaf[i], result)
            if cache is not None:
                _save(cache / pair.file, found[pair])

    blocks = [open_[i : i + config.block] for i in range(0, len(open_), config.block)]
    threads = min(config.threads or os.cpu_count() or 1, max(1, len(blocks)))
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, block) for block in blocks]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BaseException:
            search.stop.set()
            for future in futures:
                future.cancel()
            raise
    tables = {(pair.layer, pair.template): table for pair, table in found.items()}
    return assemble(tables, len(layers), len(templates), config.entries, deep, dtype)


def context(
    layer: UniqueLayer,
    template: Template,
    technology: Technology,
    *,
    levels: int | None = None,
    dtype: Any = jnp.float32,
) -> MapperContext:
    """One problem as `objectives` takes it, for those who evaluate or enumerate mappings themselves.

    Args:
        layer: the layer.
        template: a template that runs it.
        technology: energy and area tables.
        levels: L; default those of the template.
        dtype: float dtype of the evaluation.

    Raises:
        InputError: the template does not run layers of this type.
    """
    arrays = template_arrays([template], technology, levels=levels, dtype=dtype)
    arrays = jax.device_get(jax.tree.map(lambda leaf: leaf[0], arrays))
    space = _space(layer, template, arrays.machine, arrays.component.shape[0], _primes([layer]))
    return MapperContext(
        space=jax.tree.map(jnp.asarray, space),
        template=jax.tree.map(jnp.asarray, arrays),
        technology=_cast(technology, dtype),
    )


def _primes(layers: Sequence[UniqueLayer]) -> int:
    """Factor slots that the layers need, rounded up."""
    longest = max([1, *(sum(len(prime_factors(bound)) for bound in layer.shape.bounds) for layer in layers)])
    return _PRIME_STEP * -(-longest // _PRIME_STEP)


def _space(layer: UniqueLayer, template: Template, machine: Machine, levels: int, primes: int) -> MapSpace:
    """The map space of one problem, NumPy arrays."""
    return map_space(layer.shape, constraints(template, layer.type, layer.shape, levels), machine, primes)


def _cast(technology: Technology, dtype: Any) -> Technology:
    """The tables in the float dtype of the search."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), technology)


def _given_genes(
    block: Sequence[_Pair],
    given: Dict[tuple[int, int], Sequence[Mapping]],
    spaces: dict[_Pair, MapSpace],
    names: Sequence[str],
    most: int,
) -> tuple[MappingGenes | None, np.ndarray | None]:
    """Given mappings of a block as genes `[B, K, ...]`, and which of them exist `[B, K]`; K = 0: None."""
    if most == 0:
        return None, None
    rows, exists = [], np.zeros((len(block), most), bool)
    for i, pair in enumerate(block):
        space = spaces[pair]
        item = f"layer {pair.layer} on template {names[pair.template]}"
        genes = [encode(m, space, item=item) for m in given.get((pair.layer, pair.template), ())]
        exists[i, : len(genes)] = True
        levels, dims = space.constraints.order.shape
        blank = MappingGenes(
            slot=np.full(space.prime.shape, space.outermost, np.int32),
            order=np.tile(np.arange(dims, dtype=np.int32), (levels, 1)),
            spatial_order=np.tile(np.arange(dims, dtype=np.int32), (2, levels, 1)),
        )
        rows.append(jax.tree.map(lambda *x: np.stack(x), *genes, *[blank] * (most - len(genes))))
    return jax.tree.map(lambda *x: np.stack(x), *rows), exists


def assemble(
    found: Dict[tuple[int, int], MappingTables], layers: int, templates: int, entries: int, levels: int, dtype: Any
) -> MappingTables:
    """Sets by (layer, template) as one table `[U, T, M, ...]`; problems that do not exist have count 0."""
    dims, spaces = len(DIMS), 3
    lead = (layers, templates)
    columns: dict[str, Any] = {
        name: np.zeros((*lead, entries, *shape), dtype) for name, shape in column_shapes(levels, spaces).items()
    }
    columns["objectives"] += np.inf
    columns["count"] = np.zeros(lead, np.int32)
    unit = np.arange(dims, dtype=np.int32)
    nest: dict[str, Any] = {
        "temporal": np.ones((*lead, entries, levels, dims), np.int32),
        "order": np.broadcast_to(unit, (*lead, entries, levels, dims)).copy(),
        "spatial": np.ones((*lead, entries, 2, levels, dims), np.int32),
        "spatial_order": np.broadcast_to(unit, (*lead, entries, 2, levels, dims)).copy(),
        "keep": np.zeros((*lead, entries, levels, spaces), bool),
    }
    for pair, table in found.items():
        for name, column in columns.items():
            column[pair] = getattr(table, name)
        for name, column in nest.items():
            column[pair] = getattr(table.mapping, name)
    return MappingTables(mapping=Mapping(**nest), **columns)
