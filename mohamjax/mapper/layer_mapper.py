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
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Mapping as Dict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.dims import WINDOWS
from mohamjax.hardware import Technology, Template, TemplateArrays, fits, technology_hash, template_arrays
from mohamjax.mapper.config import MapperConfig, MapperProgress
from mohamjax.mapper.mapping_operators import MapperRates, all_neighbours, grow, neighbours, random_draft, vary
from mohamjax.mapper.problems import MapperContext, children_room, objectives, pair_space, prime_slots
from mohamjax.mapper.sets import undominated
from mohamjax.mapper.stores import TableStore
from mohamjax.mapping.children import MAX_CHILDREN
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.nest import Array, Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace, decode, encode, genes_of, sample, stack_spaces
from mohamjax.mapping.tables import MappingTables, assemble, tabulate_sets
from mohamjax.runtime.blocks import first_true
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.programs import jit_o1, jit_o1_plain_loops, once
from mohamjax.runtime.struct import cast, put, take
from mohamjax.workload import DIMS, UniqueLayer

_FASTEST = 16  # members of an archive whose neighbours with other bounds are tried too
_MEMBERS = 8  # members of an archive whose neighbours are listed in a round


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
        sample=lambda key, space, rates=None: random_draft(key, space),
        vary=lambda key, a, b, space, rates: vary(key, a, b, space, rates),
        grow=lambda drafts, space, rates=None: grow(drafts, space),
        population=population,
        objectives=3,
        immigrants=immigrants,
        dtype=dtype,
        distinct=distinct,
    )
    return emo.Archived(search, archive)


# A generation is three programs, so that the costly one, the evaluation, is compiled once for all and beside others.


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def _start(
    keys: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None, *, search: emo.Archived
) -> tuple[emo.ArchivedState, MappingGenes]:
    """States of a block, a key each, and the first candidates `[B, N, ...]`.

    Given mappings `[B, K, ...]` take part where `is_given` `[B, K]`.
    """

    # Random mappings are whole as they are drawn: nothing that grows children is compiled here.
    drawing = dataclasses.replace(search.search, sample=lambda key, space: sample(key, space), grow=None)
    opened = dataclasses.replace(search, search=drawing)

    def one(
        key: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None
    ) -> tuple[emo.ArchivedState, MappingGenes]:
        seeds = None
        if given is not None and is_given is not None:
            keys = jax.random.split(jax.random.fold_in(key, 2**31 - 2), is_given.shape[0])
            drawn = jax.vmap(sample, in_axes=(0, None))(keys, space)
            pick = jax.vmap(lambda use, a, b: jax.tree.map(lambda x, y: jnp.where(use, x, y), a, b))
            seeds = pick(is_given, given, drawn)
        return opened.opening(key, seeds, space=space)

    return jax.vmap(one)(keys, space, given, is_given)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def _ask(state: emo.ArchivedState, space: MapSpace, rates: MapperRates, *, search: emo.Archived) -> MappingGenes:
    """The next candidates of every problem of a block, `[B, N, ...]`."""
    return jax.vmap(lambda state, space: search.ask(state, space=space, rates=rates))(state, space)


@functools.partial(jit_o1, static_argnames=("fixed", "max_children"))
def _evaluate(
    genes: MappingGenes,
    space: MapSpace,
    template: TemplateArrays,
    technology: Technology,
    *,
    fixed: bool,
    max_children: int,
) -> Array:
    """Their objectives, `[B, N, 3]`."""

    def one(genes: MappingGenes, space: MapSpace, template: TemplateArrays) -> Array:
        own = MapperContext(space=space, template=template, technology=technology)
        return objectives(genes, own, fixed=fixed, max_children=max_children)

    return jax.vmap(one)(genes, space, template)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def _tell(
    state: emo.ArchivedState, genes: MappingGenes, objectives: Array, *, search: emo.Archived
) -> emo.ArchivedState:
    """The state of every problem after survival."""
    return jax.vmap(search.tell)(state, genes, objectives)


@functools.partial(jit_o1_plain_loops, static_argnames=("count",))
def _neighbours(
    archive: emo.Archive, tried: Array, space: MapSpace, *, count: int
) -> tuple[MappingGenes, Array, Array]:
    """Neighbours of archived mappings, the oldest that have not had their turn first.

    Other bounds are tried of those members alone that are among the fastest of the archive when their turn comes:
    padding saves time.

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
        latency = jnp.where(archive.valid, archive.objectives[:, 0], jnp.inf)
        fast = latency[pick] <= jnp.sort(latency)[min(_FASTEST, latency.shape[0]) - 1]
        steps = jax.vmap(lambda genes, pads: neighbours(genes, space, pads=pads))(members, fast) & open_[pick, None]
        place = first_true(steps.ravel(), count)
        exists = place < steps.size
        member, step = jnp.divmod(jnp.where(exists, place, 0), steps.shape[1])
        genes = all_neighbours(take(members, member), step, space)
        whole = (jnp.cumsum(jnp.sum(steps, axis=1)) <= count).at[0].set(True)
        return genes, exists, tried.at[pick].set(tried[pick] | whole)

    return jax.vmap(one)(archive, tried, space)


@jit_o1_plain_loops
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


@functools.partial(jit_o1_plain_loops, static_argnames=("entries",))
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


@dataclasses.dataclass(frozen=True)
class _Pair:
    """One problem on the host.

    Attributes:
        layer: unique layer.
        template: the template.
        digest: hash of inputs and settings, from which its random numbers derive: an edit of the code leaves them.
    """

    layer: int
    template: int
    digest: str


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
    out = []
    for u, layer in enumerate(layers):
        for t, template in enumerate(templates):
            if fits(template, layer.type, layer.shape) is None:
                seeds = [[np.asarray(x).tolist() for x in jax.tree.leaves(m)] for m in given.get((u, t), ())]
                content = json.dumps([common, hashes[t], layer.type, dataclasses.asdict(layer.shape), seeds])
                out.append(_Pair(u, t, hashlib.sha256(content.encode()).hexdigest()))
    return out


def _compiled_over(
    devices: Devices, function: Any, rows: tuple[Any, ...], rest: tuple[Any, ...], static: dict[str, Any]
) -> Any:
    """A program of a block, compiled for devices each of which has its part of the problems; arguments as before."""
    plain = functools.partial(inspect.unwrap(function), **static)
    compiled = devices.compiled(lambda rows, *rest: plain(*rows, *rest), rows, rest, function.compiler_options)
    return lambda *arguments: compiled(arguments[: len(rows)], *arguments[len(rows) :])


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
        devices: Devices | None = None,
        batches: int = 0,
    ) -> None:
        self.config, self.rates, self.progress, self.devices = config, rates, progress, devices
        self.problems, self.cached, self.done, self.evaluations = problems, cached, cached, 0
        self.count = config.population + config.immigrants
        self.batches = batches  # of given mappings that a descent alone begins with; 0: a search
        each = (batches + config.descent) * self.count if batches else config.evaluations
        self.total = (problems - cached) * each
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

    def program(self, function: Any, rows: tuple[Any, ...], rest: tuple[Any, ...] = (), **static: Any) -> Any:
        """A jitted function compiled for arguments of these shapes.

        Args:
            function: of a block's problems, and of what all of them share.
            rows: arguments or their shapes, leading axis `[B]`, which devices share out.
            rest: likewise, whole on every device.
            static: of the function.
        """
        leaves, tree = jax.tree.flatten((rows, rest))
        shapes = tuple(jax.typeof(leaf) for leaf in leaves)
        key = function, tuple(sorted(static.items(), key=lambda item: item[0])), tree, shapes, self.devices
        devices = self.devices
        if devices is None:
            return once(key, lambda: function.compiled(*rows, *rest, **static))
        return once(key, lambda: _compiled_over(devices, function, rows, rest, static))

    def compile_tables(self, context: MapperContext) -> None:
        """Compiles what evaluates the sets, by nests of ones; where the spaces have such, also by one with a window."""
        fixed, levels = self.config.fixed, context.template.component.shape[1]

        def evaluate() -> None:
            space, template = take(jax.device_get((context.space, context.template)), slice(1))
            most = 1 if fixed or self.max_children == 0 else 2
            unit = np.arange(len(DIMS), dtype=np.int32)
            spatial = np.ones((1, most, 2, levels, len(DIMS)), np.int32)
            spatial[:, 1:, :, 0, WINDOWS[0]] = 2
            nests = Mapping(
                temporal=np.ones((1, most, levels, len(DIMS)), np.int32),
                order=np.broadcast_to(unit, (1, most, levels, len(DIMS))),
                spatial=spatial,
                spatial_order=np.broadcast_to(unit, spatial.shape),
                keep=space.constraints.keep[:, None].repeat(most, axis=1),
            )
            tabulate_sets(space.layer, template, context.technology, nests, np.array([most]), fixed=fixed)

        once(("tables", fixed, self.max_children, levels, context.template.machine.capacity.dtype), evaluate)

    def programs(
        self, keys: Array, context: MapperContext, given: MappingGenes | None, is_given: Any
    ) -> dict[str, Any]:
        """The programs of a block by name, compiled side by side."""
        config, count = self.config, self.count
        dtype = context.template.machine.capacity.dtype
        kind = {"fixed": config.fixed, "max_children": self.max_children}
        began = time.perf_counter()
        space, template = context.space, context.template
        values = jax.ShapeDtypeStruct((len(keys), count, 3), dtype)
        tried, exists = (jax.ShapeDtypeStruct((len(keys), n), bool) for n in (config.archive, count))
        wanted: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...], dict[str, Any]]] = {}  # the slowest first
        if self.batches:
            archive = jax.eval_shape(functools.partial(_empty, capacity=config.archive, dtype=dtype), given)
            genes = jax.eval_shape(lambda given: jax.tree.map(lambda leaf: leaf[:, :count], given), given)
        else:
            search = mapping_search(config.population, config.immigrants, config.archive, config.distinct, dtype)
            state, genes = _start.eval_shape(keys, space, given, is_given, search=search)
            archive = state.archive
            wanted["ask"] = (_ask, (state, space), (self.rates,), {"search": search})
            wanted["start"] = (_start, (keys, space, given, is_given), (), {"search": search})
            wanted["tell"] = (_tell, (state, genes, values), (), {"search": search})
        evaluate = (_evaluate, (genes, space, template), (context.technology,), kind)
        wanted = {
            "evaluate": evaluate,
            **wanted,
            "finish": (_finish, (archive, space), (), {"entries": config.entries}),
        }
        if config.descent:
            wanted["neighbours"] = (_neighbours, (archive, tried, space), (), {"count": count})
        if config.descent or self.batches:
            wanted["enter"] = (_enter, (archive, tried, genes, exists, values), (), {})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            tables = pool.submit(self.compile_tables, context)
            made = {
                name: pool.submit(self.program, f, rows, rest, **static)
                for name, (f, rows, rest, static) in wanted.items()
            }
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
        config, rates, count = self.config, self.rates, self.count
        call = self.programs(keys, context, given, is_given)
        space, template, technology = context.space, context.template, context.technology
        archive = None
        tried = np.zeros((len(keys), config.archive), bool)
        batches: list[tuple[MappingGenes, Array]] = []
        if self.batches:
            cuts = [slice(i * count, (i + 1) * count) for i in range(self.batches)]
            batches = [jax.tree.map(lambda leaf, cut=cut: leaf[:, cut], (given, is_given)) for cut in cuts]
            archive = _empty(given, config.archive, template.machine.capacity.dtype)
            given = is_given = None
        if self.devices is not None:
            split = keys, space, template, given, is_given, archive, tried, batches
            keys, space, template, given, is_given, archive, tried, batches = self.devices.split(split)
            technology, rates = self.devices.copied((technology, rates))
        for genes, exists in batches:
            if self.stop.is_set():
                return None
            values = call["evaluate"](genes, space, template, technology)
            archive, tried = call["enter"](archive, tried, genes, exists, values)
            tries = int(np.sum(np.asarray(exists)[:real]))
            self.report(tries, spared=real * count - tries)
        if not batches:
            state, genes = call["start"](keys, space, given, is_given)
            for generation in range(config.generations + 1):  # the first evaluates the first population
                if self.stop.is_set():
                    return None
                if generation:
                    genes = call["ask"](state, space, rates)
                state = call["tell"](state, genes, call["evaluate"](genes, space, template, technology))
                jax.block_until_ready(state)
                self.report(real * count)
            archive = state.archive
        for round_ in range(config.descent):
            if self.stop.is_set():
                return None
            genes, exists, tried = call["neighbours"](archive, tried, space)
            tries = int(np.sum(np.asarray(exists)[:real]))
            if tries == 0:
                self.report(spared=(config.descent - round_) * real * count)
                break
            values = call["evaluate"](genes, space, template, technology)
            archive, tried = call["enter"](archive, tried, genes, exists, values)
            self.report(tries, spared=real * count - tries)
        sets, count = call["finish"](archive, space)
        layers, templates, sets, count = jax.tree.map(
            lambda leaf: leaf[:real], jax.device_get((context.space.layer, context.template, sets, count))
        )
        table = tabulate_sets(layers, templates, context.technology, sets, count, fixed=config.fixed)
        table = undominated(table)
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
    from_given: bool = False,
    wanted: np.ndarray | None = None,
    progress: Callable[[MapperProgress], None] | None = None,
    cache: TableStore | None = None,
    levels: int | None = None,
    max_children: int | None = None,
    dtype: Any = jnp.float32,
    devices: Devices | None = None,
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
        from_given: no population: the descent goes on from the given mappings alone, any number of them, and draws
            nothing. Those that the mapper itself would not make are left out; pairs without any are not searched.
        wanted: `[U, T]` bool, pairs to search; default all that can be.
        progress: called from worker threads, one call at a time, after every generation of a block.
        cache: where finished sets are kept between runs (`io.MappingCache`); None neither reads nor writes any.
        levels: L, at least those of every template; default the most of any.
        max_children: of the cost model, at least what `children_room` says; default just that. One number for several
            calls lets them share their programs.
        dtype: float dtype of the search; float64 needs JAX's x64 mode.
        devices: those of them that this process has search side by side, one block at a time, each its part of it:
            as many problems as one device would take by itself. On accelerators, where that depends on how many there
            are, a last bit may round otherwise than on one.

    Returns:
        `MappingTables` `[U, T, M, ...]`, NumPy arrays. Sets are mutually non-dominated, ordered by latency and hold
        the extremes of all three objectives that the search met.

    Raises:
        InputError: a given mapping does not fit its layer and template, and not `from_given`.
    """
    config = config or MapperConfig()
    rates = rates or MapperRates()
    given = dict(given or {})
    arrays = jax.device_get(template_arrays(templates, technology, levels, dtype))
    deep = arrays.component.shape[1]
    primes = prime_slots(layers)
    layout = {"levels": deep, "primes": primes, "dtype": jnp.dtype(dtype).name}
    if from_given:
        layout["from_given"] = True
    pairs = _pairs(key, layers, templates, technology, config, rates, given, layout)
    if wanted is not None:
        pairs = [pair for pair in pairs if wanted[pair.layer, pair.template]]
    if from_given:
        pairs = [pair for pair in pairs if given.get((pair.layer, pair.template))]

    found: dict[_Pair, MappingTables] = {}
    if cache is not None:
        found = {pair: hit for pair in pairs if (hit := cache.read(pair.digest)) is not None}
    open_ = [pair for pair in pairs if pair not in found]

    spaces = _spaces(open_, layers, templates, arrays, config.padding)
    asked = [given[pair.layer, pair.template] for pair in open_] if from_given else given.values()
    most_given, batches = max([0, *map(len, asked)]), 0
    if from_given:
        count = config.population + config.immigrants
        batches = -(-most_given // count)
        most_given = batches * count
    room = MAX_CHILDREN if config.fixed else max(_room_of(spaces), max_children or 0)
    own = None if devices is None else devices.own
    search = _Search(config, rates, progress, len(pairs), len(found), room, own, batches)
    search.report()
    tech = cast(technology, dtype)

    shares = 1 if own is None else len(own)
    width = shares * config.problems_at_once(-(-len(open_) // shares))

    def run(block: list[_Pair]) -> None:
        padded = block + [block[-1]] * (width - len(block))
        keys, context = _block(key, padded, spaces, arrays, tech)
        names = [template.name for template in templates]
        seeds, is_seed = _given_genes(padded, given, spaces, names, most_given, lenient=from_given)
        result = search.block(keys, context, seeds, is_seed, len(block))
        if result is None:
            return
        for i, pair in enumerate(block):
            found[pair] = jax.tree.map(lambda leaf, i=i: leaf[i], result)
            if cache is not None:
                cache.write(pair.digest, found[pair])

    blocks = [open_[i : i + width] for i in range(0, len(open_), width)]
    threads = min(config.blocks_at_once(), max(1, len(blocks))) if own is None else 1
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


def compile_mapper(
    layers: Sequence[UniqueLayer],
    templates: Sequence[Template],
    technology: Technology,
    config: MapperConfig | None = None,
    *,
    dtype: Any = jnp.float32,
) -> None:
    """Compiles the programs that `map_layers` runs for the same arguments, and maps nothing.

    Args:
        layers: unique layers.
        templates: templates, at least one of which runs some layer.
        technology: energy and area tables.
        config: as in `map_layers`.
        dtype: as in `map_layers`.
    """
    config, rates = config or MapperConfig(), MapperRates()
    arrays = jax.device_get(template_arrays(templates, technology, None, dtype))
    key = jax.random.key(0)
    pairs = _pairs(key, layers, templates, technology, config, rates, {}, {})
    spaces = _spaces(pairs, layers, templates, arrays, config.padding)
    search = _Search(config, rates, None, len(pairs), 0, MAX_CHILDREN if config.fixed else _room_of(spaces))
    block = [pairs[i % len(pairs)] for i in range(config.problems_at_once(len(pairs)))]
    search.programs(*_block(key, block, spaces, arrays, cast(technology, dtype)), None, None)


def _room_of(spaces: dict[_Pair, MapSpace]) -> int:
    return children_room(list(spaces.values()))


def _spaces(
    pairs: Sequence[_Pair], layers: Sequence[UniqueLayer], templates: Sequence[Template], arrays: Any, padding: bool
) -> dict[_Pair, MapSpace]:
    """The map space of each problem, of equal shapes; `arrays` are those of the templates."""
    deep, primes = arrays.component.shape[1], prime_slots(layers)

    def space(pair: _Pair) -> MapSpace:
        machine = jax.tree.map(lambda leaf: leaf[pair.template], arrays.machine)
        return pair_space(layers[pair.layer], templates[pair.template], machine, deep, primes, padding=padding)

    return {pair: space(pair) for pair in pairs}


def _block(
    key: Array, block: Sequence[_Pair], spaces: dict[_Pair, MapSpace], arrays: Any, technology: Technology
) -> tuple[Array, MapperContext]:
    """Keys and context of a block of problems."""
    own = np.array([int(pair.digest[:8], 16) for pair in block], np.uint32)
    chosen = np.array([pair.template for pair in block])
    context = MapperContext(
        space=jax.tree.map(put, stack_spaces([spaces[pair] for pair in block])),
        template=jax.tree.map(lambda leaf: put(leaf[chosen]), arrays),
        technology=technology,
    )
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, own), context


def _given_genes(
    block: Sequence[_Pair],
    given: Dict[tuple[int, int], Sequence[Mapping]],
    spaces: dict[_Pair, MapSpace],
    names: Sequence[str],
    most: int,
    *,
    lenient: bool = False,
) -> tuple[MappingGenes | None, np.ndarray | None]:
    """Given mappings of a block as genes `[B, K, ...]`, and which of them exist `[B, K]`; K = 0: None.

    What no genes of its space describe is refused, or left out if `lenient`.
    """
    if most == 0:
        return None, None
    stacked = stack_spaces([spaces[pair] for pair in block])
    exists, rows = np.zeros((len(block), most), bool), _blank(stacked, most)
    sets = [given.get((pair.layer, pair.template), ()) for pair in block]
    listed = [(i, k, mapping) for i, mappings in enumerate(sets) for k, mapping in enumerate(mappings)]
    if not listed:
        return rows, exists
    which, place = np.asarray([(i, k) for i, k, _ in listed]).T
    nests = jax.tree.map(lambda *leaves: np.stack(leaves), *[mapping for *_, mapping in listed])
    good = lie_in(nests, [spaces[pair] for pair in block], which)
    if not lenient:
        for i, _, mapping in (listed[n] for n in np.flatnonzero(~good)):
            pair = block[i]
            encode(mapping, spaces[pair], item=f"layer {pair.layer} on template {names[pair.template]}")  # says why
        good[:] = True
    which, place = which[good], place[good]
    genes = genes_of(take(nests, good), take(stacked, which))
    for leaf, own in zip(jax.tree.leaves(rows), jax.tree.leaves(genes), strict=True):
        leaf[which, place] = own
    exists[which, place] = True
    return rows, exists


def _blank(space: MapSpace, count: int) -> MappingGenes:
    """Genes of a block `[B, count, ...]` with all factors outermost; NumPy arrays."""
    size, primes = np.shape(space.dim)
    levels, dims = np.shape(space.constraints.order)[1:]
    order = np.broadcast_to(np.arange(dims, dtype=np.int32), (size, count, 3, levels, dims))
    slot = np.broadcast_to(np.asarray(space.outermost, np.int32).reshape(-1, 1, 1), (size, count, primes))
    return MappingGenes(
        cover=np.zeros((size, count, dims), np.int32),
        slot=slot.copy(),
        order=order[:, :, 0].copy(),
        spatial_order=order[:, :, 1:].copy(),
    )


def _empty(genes: MappingGenes | None, capacity: int, dtype: Any) -> emo.Archive:
    """Empty archives of a block, `[B, A, ...]`, for genes such as `[B, K, ...]`."""
    return jax.vmap(lambda genes: emo.archive_init(capacity, take(genes, 0), 3, dtype))(genes)
