"""Searches blocks of problems of the layer mapper, several blocks at a time, with few programs, each compiled once.

First the programs: jitted functions of the B problems of a block. A generation is three of them, so that the costly
one, the evaluation, is compiled once and beside the others; descent has two more. Then their host: threads that run
blocks over one device or several, count evaluations and end early when they are told to.

Axes: B problems of a block, K given mappings, N candidates, A archive, M table entries, L levels.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.dims import WINDOWS
from mohamjax.emo.loop import Sizes
from mohamjax.hardware import Technology, TemplateArrays
from mohamjax.mapper import medea
from mohamjax.mapper.config import MapperConfig, MapperProgress, MapperRates
from mohamjax.mapper.mapping_operators import STEPS, Draft, all_neighbours, grow, neighbours, random_draft, vary
from mohamjax.mapper.problems import MapperContext, objectives
from mohamjax.mapping.children import table_room
from mohamjax.mapping.nest import Array, Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace, decode, sample
from mohamjax.mapping.tables import MappingTables, tabulate_sets, undominated
from mohamjax.runtime.blocks import first_true
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.programs import at_this_precision, jit_o1, jit_o1_plain_loops, once
from mohamjax.runtime.struct import select, take
from mohamjax.workload import DIMS

MappingSearch = emo.Archived[Draft, MappingGenes]
State = emo.ArchivedState[MappingGenes]
Archive = emo.Archive[MappingGenes]

_FASTEST = 16  # members of an archive whose neighbours with other bounds are tried too
_MEMBERS = 8  # members of an archive whose neighbours are listed in a round


# ---------------------------------------------------------------- the programs


@functools.cache
def mapping_search(sizes: Sizes, distinct: bool, dtype: jax.typing.DTypeLike, operators: str = "own") -> MappingSearch:
    """NSGA-II over the mappings of one problem; `space` and `rates` are its context.

    Args:
        sizes: of the search of one problem.
        distinct: see `MapperConfig`.
        dtype: of the objectives.
        operators: see `MapperConfig`.
    """
    if operators == "own":
        breed, complete, steps = vary, grow, len(STEPS)
    else:
        breed, complete = medea.vary, functools.partial(medea.grow, released=operators == "medea-released")
        steps = len(medea.STEPS)
    search: emo.NSGA2[Draft, MappingGenes] = emo.NSGA2(
        sample=lambda key, space, rates=None: random_draft(key, space, steps),
        vary=lambda key, a, b, space, rates: breed(key, a, b, space, rates),
        grow=lambda drafts, space, rates=None: complete(drafts, space),
        population=sizes.population,
        objectives=3,
        immigrants=sizes.immigrants,
        dtype=dtype,
        distinct=distinct,
    )
    return emo.Archived(search, sizes.archive)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def start(
    keys: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None, *, search: MappingSearch
) -> tuple[State, MappingGenes]:
    """States of a block, from one key each, and the first candidates `[B, N, ...]`.

    Given mappings `[B, K, ...]`, K <= N, take the first places where `is_given` `[B, K]`. The others are the same
    random mappings whatever is given for other problems of the block.
    """

    # Random mappings are complete when drawn, so nothing that grows children is compiled here.
    drawing = dataclasses.replace(search.search, sample=lambda key, space: sample(key, space), grow=None)
    opened = dataclasses.replace(search, search=drawing)

    def one(
        key: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None
    ) -> tuple[State, MappingGenes]:
        state, drawn = opened.opening(key, space=space)
        if given is None or is_given is None:
            return state, drawn
        number = is_given.shape[0]
        first = select(is_given, given, take(drawn, slice(number)))
        rest = take(drawn, slice(number, None))
        return state, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, rest)

    return jax.vmap(one)(keys, space, given, is_given)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def ask(state: State, space: MapSpace, rates: MapperRates, *, search: MappingSearch) -> MappingGenes:
    """The next candidates of every problem of a block, `[B, N, ...]`."""
    return jax.vmap(lambda state, space: search.ask(state, space=space, rates=rates))(state, space)


@functools.partial(jit_o1, static_argnames=("fixed", "max_children", "linear"))
def evaluate(
    genes: MappingGenes,
    space: MapSpace,
    template: TemplateArrays,
    technology: Technology,
    *,
    fixed: bool,
    max_children: int,
    linear: bool = False,
) -> Array:
    """The objectives of candidates, `[B, N, 3]`, or their base-2 logarithms if not `linear`."""

    def one(genes: MappingGenes, space: MapSpace, template: TemplateArrays) -> Array:
        own = MapperContext(space=space, template=template, technology=technology)
        return objectives(genes, own, fixed=fixed, max_children=max_children, linear=linear)

    return jax.vmap(one)(genes, space, template)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def tell(state: State, genes: MappingGenes, objectives: Array, *, search: MappingSearch) -> State:
    """The state of every problem after survival."""
    return jax.vmap(search.tell)(state, genes, objectives)


@functools.partial(jit_o1_plain_loops, static_argnames=("capacity",))
def survivors(state: State, *, capacity: int) -> Archive:
    """Archives `[B, A, ...]` of A = `capacity` places that hold the first fronts of the populations alone."""

    def one(state: State) -> Archive:
        population = state.population
        empty = emo.archive_init(capacity, take(population.genes, 0), 3, population.objectives.dtype)
        return emo.archive_update(empty, population.genes, population.objectives)

    return jax.vmap(one)(state)


@functools.partial(jit_o1_plain_loops, static_argnames=("count",))
def next_neighbours(
    archive: Archive, tried: jax.Array, space: MapSpace, *, count: int
) -> tuple[MappingGenes, jax.Array, jax.Array]:
    """Neighbours of archived mappings, beginning with the oldest members whose neighbours have not been tried.

    Only members that are among the fastest of the archive when their turn comes are tried with other bounds, because
    padding can save only time.

    Args:
        archive: leading axis `[B]`.
        tried: `[B, A]` bool, members whose neighbours have all been evaluated.
        space: of the block.
        count: N, neighbours to take. A member whose neighbours do not all fit stays untried, unless it is the first.

    Returns:
        Genes `[B, N, ...]`, which of them exist `[B, N]`, and `tried` afterwards.
    """

    def one(archive: Archive, tried: jax.Array, space: MapSpace) -> tuple[MappingGenes, jax.Array, jax.Array]:
        open_ = archive.valid & ~tried
        pick = jnp.argsort(~open_, stable=True)[:_MEMBERS]
        members: MappingGenes = take(archive.genes, pick)
        latency = jnp.where(archive.valid, archive.objectives[:, 0], jnp.inf)
        fast = latency[pick] <= jnp.sort(latency)[min(_FASTEST, latency.shape[0]) - 1]
        steps = jax.vmap(lambda genes, pads: neighbours(genes, space, pads=pads))(members, fast) & open_[pick, None]
        place = first_true(jnp.ravel(steps), count)
        exists = place < steps.size
        member, step = jnp.divmod(jnp.where(exists, place, 0), steps.shape[1])
        genes = all_neighbours(take(members, member), step, space)
        whole = (jnp.cumsum(jnp.sum(steps, axis=1)) <= count).at[0].set(True)
        return genes, exists, tried.at[pick].set(tried[pick] | whole)

    return jax.vmap(one)(archive, tried, space)


@jit_o1_plain_loops
def enter(
    archive: Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array
) -> tuple[Archive, Array]:
    """The archives after a round of neighbours, and which members' neighbours have been tried."""

    def one(archive: Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array):
        both = dataclasses.replace(archive, genes=(archive.genes, tried))
        objectives = jnp.where(exists[:, None], objectives, jnp.inf)
        both = emo.archive_update(both, (genes, jnp.zeros_like(exists)), objectives)
        return dataclasses.replace(both, genes=both.genes[0]), both.genes[1]

    return jax.vmap(one)(archive, tried, genes, exists, objectives)


@functools.partial(jit_o1_plain_loops, static_argnames=("entries",))
def finish(archive: Archive, space: MapSpace, *, entries: int) -> tuple[Mapping, Array]:
    """The Pareto sets of a block, `[B, M, ...]`, and their sizes `[B]`: at most M of each archive."""

    def one(archive: Archive, space: MapSpace) -> tuple[Mapping, Array]:
        # Entering a smaller archive thins by crowding and keeps the extremes.
        smaller = emo.archive_init(entries, take(archive.genes, 0), 3, archive.objectives.dtype)
        best = emo.archive_update(smaller, archive.genes, archive.objectives)
        # By latency, padding last.
        order = jnp.lexsort((best.objectives[:, 1], best.objectives[:, 0]))
        mapping = jax.vmap(decode, in_axes=(0, None))(take(best.genes, order), space)
        return mapping, jnp.sum(best.valid, dtype=jnp.int32)

    return jax.vmap(one)(archive, space)


def empty_archives(genes: MappingGenes, capacity: int, dtype: jax.typing.DTypeLike) -> Archive:
    """Empty archives of a block, `[B, A, ...]`, for genes like those given, `[B, K, ...]`; not jitted."""
    return jax.vmap(lambda genes: emo.archive_init(capacity, take(genes, 0), 3, dtype))(genes)


# ---------------------------------------------------------------- the host of the programs

Program = Callable[..., Any]
"""A compiled program: arrays of a block in, arrays of a block out."""


@dataclasses.dataclass
class Tally:
    """Progress of the blocks of one call; several threads count in it.

    Attributes:
        problems: (unique layer, template) pairs in all.
        cached: pairs whose set was in the cache.
        total: mappings to evaluate in all; falls where a descent ends early.
        progress: called after every count; may be None.
    """

    problems: int
    cached: int
    total: int
    progress: Callable[[MapperProgress], None] | None = None

    def __post_init__(self) -> None:
        """Starts the counts and the clock."""
        self._done, self._evaluations, self._compile_s = self.cached, 0, 0.0
        self._began = time.perf_counter()
        self._lock = threading.Lock()

    def report(self, evaluations: int = 0, done: int = 0, spared: int = 0) -> None:
        """Adds to the counts and reports them.

        Args:
            evaluations: mappings evaluated since the last report.
            done: problems whose search has ended since.
            spared: mappings that need no evaluation after all.
        """
        with self._lock:
            self._evaluations += evaluations
            self.total -= spared
            self._done += done
            if self.progress is not None:
                self.progress(
                    MapperProgress(
                        problems=self.problems, cached=self.cached, done=self._done, evaluations=self._evaluations,
                        total=self.total, seconds=time.perf_counter() - self._began, compile_s=self._compile_s,
                    )
                )  # fmt: skip

    def compiled(self, seconds: float) -> None:
        """Records the time of compiling. The first thread of a search compiles, and the others wait for it."""
        with self._lock:
            self._compile_s = seconds


class Block(NamedTuple):
    """The problems of one block."""

    keys: jax.Array  # [B] typed keys
    context: MapperContext  # leading axis [B], except the technology
    given: MappingGenes | None  # [B, K, ...] NumPy, mappings to start from
    is_given: np.ndarray | None  # [B, K] bool, which of them exist
    real: int  # problems that are no padding; they come first


class Shared(NamedTuple):
    """What the blocks of one call share."""

    programs: dict[str, Program]  # by name
    empty: Archive | None  # empty archives, NumPy, for a descent from given mappings


class _Wanted(NamedTuple):
    """A program to be compiled, with arguments or their shapes."""

    function: Any  # jitted
    rows: tuple[object, ...]  # leading axis [B], split over devices
    rest: tuple[object, ...]  # whole on every device
    static: dict[str, object]


class _StoppedError(Exception):
    """The caller has stopped the search."""


@dataclasses.dataclass
class BlockSearch:
    """What the blocks of one call have in common; several threads run blocks at once.

    Attributes:
        config: sizes.
        rates: probabilities of the operators.
        max_children: room of the cost model's tables over children.
        tally: counts evaluations.
        devices: those of this process that share a block; None for JAX's default device.
        batches: number of batches, of `count` given mappings each, that a descent starts from; 0: from a population.
        late: number of batches of given mappings beyond those that have a place among the first `count`. They enter the
            archive after the last generation.
        whole: the sets are tabulated with `whole`, see `on_own_hardware`.
    """

    config: MapperConfig
    rates: MapperRates
    max_children: int
    tally: Tally
    devices: Devices | None = None
    batches: int = 0
    late: int = 0
    whole: bool = True

    def __post_init__(self) -> None:
        """Makes the state that threads share."""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._shared: Shared | None = None

    @property
    def count(self) -> int:
        """N, mappings of a problem that are evaluated at once."""
        return self.config.population + self.config.immigrants

    def stop(self) -> None:
        """Ends the search of every block before its next generation."""
        self._stop.set()

    def check(self) -> None:
        """Ends the search of a block, by raising, if the caller has stopped it."""
        if self._stop.is_set():
            raise _StoppedError

    def run(self, block: Block) -> MappingTables | None:
        """Searches one block; returns the sets of its real problems, or None if stopped on the way."""
        work = _Work(self, block)
        try:
            archive, tried = work.from_given(block) if self.batches else work.from_population(block)
            archive = work.descend(archive, tried)
        except _StoppedError:
            return None
        sets, count = work.call["finish"](archive, work.space)
        context = block.context
        layers, templates, sets, count = jax.tree.map(
            lambda leaf: leaf[: block.real], jax.device_get((context.space.layer, context.template, sets, count))
        )
        kind = {"fixed": self.config.fixed, "whole": self.whole}
        table = tabulate_sets(layers, templates, context.technology, sets, count, **kind)
        table = undominated(table)
        self.tally.report(done=block.real)
        return table

    def shared(self, block: Block) -> Shared:
        """What all blocks share, made for the first block that asks; all blocks have its shapes."""
        with self._lock:
            if self._shared is None:
                empty = None
                if self.batches:
                    assert block.given is not None
                    dtype = block.context.template.machine.capacity.dtype
                    empty = jax.device_get(empty_archives(block.given, self.config.archive, dtype))
                self._shared = Shared(self._compile(block, empty), empty)
            return self._shared

    def _compile(self, block: Block, empty: Archive | None) -> dict[str, Program]:
        """The programs of a block by name, compiled side by side."""
        began = time.perf_counter()
        wanted = self._wanted(block, empty)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            tables = pool.submit(at_this_precision(self._compile_tables), block.context)
            made = {name: pool.submit(at_this_precision(self._compiled), program) for name, program in wanted.items()}
            tables.result()
            found = {name: future.result() for name, future in made.items()}
        self.tally.compiled(time.perf_counter() - began)
        return found

    def _wanted(self, block: Block, empty: Archive | None) -> dict[str, _Wanted]:
        """The programs that a block needs, the slowest to compile first."""
        config, count = self.config, self.count
        keys, (space, template, technology) = block.keys, _parts(block.context)
        dtype = template.machine.capacity.dtype
        values = jax.ShapeDtypeStruct((len(keys), count, 3), dtype)
        tried, exists = (jax.ShapeDtypeStruct((len(keys), n), bool) for n in (config.archive, count))
        own: dict[str, _Wanted] = {}
        if empty is not None:
            archive = empty
            genes = jax.eval_shape(lambda given: jax.tree.map(lambda leaf: leaf[:, :count], given), block.given)
        else:
            sizes = Sizes(config.population, config.immigrants, config.archive)
            search = mapping_search(sizes, config.distinct, dtype, config.operators)
            static: dict[str, object] = {"search": search}
            first = keys, space, *_part((block.given, block.is_given), 0, count)
            state, genes = start.eval_shape(*first, **static)
            archive = state.archive
            own["ask"] = _Wanted(ask, (state, space), (self.rates,), static)
            own["start"] = _Wanted(start, first, (), static)
            own["tell"] = _Wanted(tell, (state, genes, values), (), static)
            if config.front == "population":
                own["survivors"] = _Wanted(survivors, (state,), (), {"capacity": config.archive})
        kind: dict[str, object] = {"fixed": config.fixed, "max_children": self.max_children}
        if config.scale == "linear":
            kind["linear"] = True
        wanted = {
            "evaluate": _Wanted(evaluate, (genes, space, template), (technology,), kind),
            **own,
            "finish": _Wanted(finish, (archive, space), (), {"entries": config.entries}),
        }
        if config.descent:
            wanted["neighbours"] = _Wanted(next_neighbours, (archive, tried, space), (), {"count": count})
        if config.descent or self.batches or self.late:
            wanted["enter"] = _Wanted(enter, (archive, tried, genes, exists, values), (), {})
        return wanted

    def _compiled(self, wanted: _Wanted) -> Program:
        """A program compiled for arguments of its shapes, once in this process."""
        function, rows, rest, static = wanted
        leaves, tree = jax.tree.flatten((rows, rest))
        shapes = tuple(jax.typeof(leaf) for leaf in leaves)
        how = tuple(sorted(static.items(), key=lambda item: item[0])), jax.config.read("jax_enable_x64")
        devices = self.devices
        key = function, how, tree, shapes, devices
        if devices is None:
            return once(key, lambda: function.compiled(*rows, *rest, **static))
        return once(key, lambda: _compiled_over(devices, wanted))

    def _compile_tables(self, context: MapperContext) -> None:
        """Compiles the evaluation of the sets on nests of ones, and on nests with a window, which need tables."""
        fixed, levels = self.config.fixed, context.template.component.shape[1]

        def tabulate() -> None:
            space, template = jax.device_get((context.space, context.template))
            size, number = len(template.component), 1 if fixed else 2
            unit = np.arange(len(DIMS), dtype=np.int32)
            spatial = np.ones((size, number, 2, levels, len(DIMS)), np.int32)
            spatial[:, 1:, :, 0, WINDOWS[0]] = 2
            nests = Mapping(
                temporal=np.ones((size, number, levels, len(DIMS)), np.int32),
                order=np.broadcast_to(unit, (size, number, levels, len(DIMS))),
                spatial=spatial,
                spatial_order=np.broadcast_to(unit, spatial.shape),
                keep=space.constraints.keep[:, None].repeat(number, axis=1),
            )
            kind = {"fixed": fixed, "whole": self.whole}
            tabulate_sets(space.layer, template, context.technology, nests, np.full(size, number), **kind)

        children = np.prod(np.asarray(context.template.machine.fanout), axis=-1).max(axis=-1)
        rooms = frozenset(map(table_room, children))  # with the other settings, these decide on the programs
        once(("tables", fixed, self.whole, levels, rooms), tabulate)


def _part(given: Any, batch: int, count: int) -> Any:
    """A batch of at most `count` given mappings: leaves `[B, K, ...]`, cut along K."""
    return jax.tree.map(lambda leaf: leaf[:, batch * count : (batch + 1) * count], given)


def _parts(context: MapperContext) -> tuple[MapSpace, TemplateArrays, Technology]:
    return context.space, context.template, context.technology


def _compiled_over(devices: Devices, wanted: _Wanted) -> Program:
    """A program compiled for devices that each take a part of the problems; its arguments are those of one device."""
    function, rows, rest, static = wanted
    plain = functools.partial(inspect.unwrap(function), **static)
    compiled = devices.compiled(lambda rows, *rest: plain(*rows, *rest), rows, rest, function.compiler_options)
    return lambda *arguments: compiled(arguments[: len(rows)], *arguments[len(rows) :])


class _Work:
    """The search of one block."""

    def __init__(self, search: BlockSearch, block: Block) -> None:
        """Compiles the programs and places the arrays."""
        self.search, self.real = search, block.real
        self.call, self.empty = search.shared(block)
        self.space, self.template, self.technology = _parts(block.context)
        self.rates = search.rates
        if search.devices is not None:
            self.space, self.template = search.devices.split((self.space, self.template))
            self.technology, self.rates = search.devices.copied((self.technology, self.rates))

    def _split(self, tree: Any) -> Any:
        devices = self.search.devices
        return tree if devices is None else devices.split(tree)

    def evaluate(self, genes: MappingGenes) -> Array:
        """Objectives of candidates."""
        return self.call["evaluate"](genes, self.space, self.template, self.technology)

    def from_given(self, block: Block) -> tuple[Archive, Array]:
        """Archives of the given mappings, and which members' neighbours have been tried: none."""
        assert block.given is not None and block.is_given is not None
        archive, tried = self._split((self.empty, np.zeros((len(block.keys), self.search.config.archive), bool)))
        return self._entered(archive, tried, block, range(self.search.batches))

    def _entered(self, archive: Archive, tried: Array, block: Block, batches: range) -> tuple[Archive, Array]:
        """Archives that some batches of the given mappings have entered, and which members' neighbours were tried."""
        for i in batches:
            self.search.check()
            genes, exists = self._split(_part((block.given, block.is_given), i, self.search.count))
            archive, tried = self.call["enter"](archive, tried, genes, exists, self.evaluate(genes))
            self._count(exists)
        return archive, tried

    def from_population(self, block: Block) -> tuple[Archive, Array]:
        """Archives of a search by generations, and which members' neighbours have been tried: none."""
        config = self.search.config
        first = _part((block.given, block.is_given), 0, self.search.count)
        keys, (given, is_given), tried = self._split(
            (block.keys, first, np.zeros((len(block.keys), config.archive), bool))
        )
        state, genes = self.call["start"](keys, self.space, given, is_given)
        for generation in range(config.generations + 1):  # the first evaluates the first population
            self.search.check()
            if generation:
                genes = self.call["ask"](state, self.space, self.rates)
            state = self.call["tell"](state, genes, self.evaluate(genes))
            jax.block_until_ready(state)
            self.search.tally.report(self.real * self.search.count)
        archive = state.archive if config.front == "archive" else self.call["survivors"](state)
        return self._entered(archive, tried, block, range(1, 1 + self.search.late))

    def descend(self, archive: Archive, tried: Array) -> Archive:
        """The archives after the rounds of descent: their members' neighbours are evaluated until none is left."""
        rounds = self.search.config.descent
        for done in range(rounds):
            self.search.check()
            genes, exists, tried = self.call["neighbours"](archive, tried, self.space)
            if not np.any(np.asarray(exists)[: self.real]):
                self.search.tally.report(spared=(rounds - done) * self.real * self.search.count)
                break
            archive, tried = self.call["enter"](archive, tried, genes, exists, self.evaluate(genes))
            self._count(exists)
        return archive

    def _count(self, exists: Array) -> None:
        """Counts the evaluation of the candidates that exist, `[B, N]` bool."""
        tries = int(np.sum(np.asarray(exists)[: self.real]))
        self.search.tally.report(tries, spared=self.real * self.search.count - tries)
