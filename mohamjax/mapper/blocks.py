"""Searches blocks of problems with the programs of `mapper.programs`, each compiled once.

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
import numpy as np

from mohamjax.dims import WINDOWS
from mohamjax.emo.loop import Sizes
from mohamjax.hardware import Technology, TemplateArrays
from mohamjax.mapper import programs
from mohamjax.mapper.config import MapperConfig, MapperProgress, MapperRates
from mohamjax.mapper.problems import MapperContext
from mohamjax.mapper.programs import Archive
from mohamjax.mapping.nest import Array, Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace
from mohamjax.mapping.tables import MappingTables, tabulate_sets, undominated
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.programs import at_this_precision, once
from mohamjax.runtime.struct import take
from mohamjax.workload import DIMS

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

    function: Any  # jitted, of `mapper.programs`
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
                    empty = jax.device_get(programs.empty_archives(block.given, self.config.archive, dtype))
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
            search = programs.mapping_search(sizes, config.distinct, dtype, config.operators)
            static: dict[str, object] = {"search": search}
            first = keys, space, *_part((block.given, block.is_given), 0, count)
            state, genes = programs.start.eval_shape(*first, **static)
            archive = state.archive
            own["ask"] = _Wanted(programs.ask, (state, space), (self.rates,), static)
            own["start"] = _Wanted(programs.start, first, (), static)
            own["tell"] = _Wanted(programs.tell, (state, genes, values), (), static)
            if config.front == "population":
                own["survivors"] = _Wanted(programs.survivors, (state,), (), {"capacity": config.archive})
        kind: dict[str, object] = {"fixed": config.fixed, "max_children": self.max_children}
        if config.scale == "linear":
            kind["linear"] = True
        wanted = {
            "evaluate": _Wanted(programs.evaluate, (genes, space, template), (technology,), kind),
            **own,
            "finish": _Wanted(programs.finish, (archive, space), (), {"entries": config.entries}),
        }
        if config.descent:
            wanted["neighbours"] = _Wanted(programs.next_neighbours, (archive, tried, space), (), {"count": count})
        if config.descent or self.batches or self.late:
            wanted["enter"] = _Wanted(programs.enter, (archive, tried, genes, exists, values), (), {})
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
        """Compiles the evaluation of the sets on a nest of ones, and on one with a window if some nests need tables."""
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
            kind = {"fixed": fixed, "whole": self.whole}
            tabulate_sets(space.layer, template, context.technology, nests, np.array([most]), **kind)

        form = fixed, self.whole, self.max_children, levels
        once(("tables", *form, context.template.machine.capacity.dtype, jax.config.read("jax_enable_x64")), evaluate)


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
