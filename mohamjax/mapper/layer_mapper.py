"""MEDEA: Pareto sets of mappings for every unique layer on every template (MEDEA paper, Section IV).

All (unique layer, template) problems of a scenario are searched side by side: blocks of B problems go through the same
jitted programs, for any layers and templates, and several blocks run at once on the cores of the processor. Each
problem has a random key of its own, which depends on its content, the seed and the size of its arrays alone. So its
result does not depend on which other problems there are, but on the levels of the deepest template, on the primes of
the longest layer, and on whether some template leaves a bypass open: these set the size of all arrays.

Searches can start from given mappings, which are put into genes here (`Start`).

Axes: U unique layers, T templates, B problems of a block, K given mappings, M table entries, L levels.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import Technology, Template, TemplateArrays, fits, technology_hash, template_arrays
from mohamjax.mapper.block_search import Block, BlockSearch, Tally
from mohamjax.mapper.config import MapperConfig, MapperProgress, MapperRates
from mohamjax.mapper.problems import MapperContext, children_room, pair_space, prime_slots
from mohamjax.mapping.children import table_room
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace, encode, genes_of, stack_spaces
from mohamjax.mapping.tables import MappingTables, assemble
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.programs import at_this_precision
from mohamjax.runtime.struct import cast, put, take
from mohamjax.workload import UniqueLayer

GivenMappings = abc.Mapping[tuple[int, int], Sequence[Mapping]]
"""Mappings by (index of the layer, index of the template)."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """One problem on the host: a layer on a template.

    Attributes:
        layer: index of the unique layer.
        template: index of the template.
        name: name of the template.
        digest: hash of inputs and settings, not of the code; its random numbers derive from it.
    """

    layer: int
    template: int
    name: str
    digest: str

    @property
    def place(self) -> tuple[int, int]:
        """(layer, template)."""
        return self.layer, self.template


@dataclasses.dataclass(frozen=True)
class Start:
    """Mappings that searches start from.

    Attributes:
        mappings: by (layer, template).
        most: K, number of places for them in every problem.
        lenient: leave out mappings that no genes describe, instead of refusing them.
    """

    mappings: GivenMappings
    most: int
    lenient: bool

    def genes(
        self, pairs: Sequence[Pair], spaces: Sequence[MapSpace]
    ) -> tuple[MappingGenes, np.ndarray] | tuple[None, None]:
        """The mappings of a block as genes `[B, K, ...]`, and which of them exist `[B, K]`; None where K is 0.

        Args:
            pairs: the problems of the block.
            spaces: their map spaces.

        Raises:
            InputError: no genes of its space describe a mapping, unless `lenient`.
        """
        if self.most == 0:
            return None, None
        stacked = stack_spaces(spaces)
        exists, rows = np.zeros((len(pairs), self.most), bool), _blank(stacked, self.most)
        sets = [self.mappings.get(pair.place, ()) for pair in pairs]
        listed = [(i, k, mapping) for i, mappings in enumerate(sets) for k, mapping in enumerate(mappings)]
        if not listed:
            return rows, exists
        which, place = np.asarray([(i, k) for i, k, _ in listed]).T
        nests = jax.tree.map(lambda *leaves: np.stack(leaves), *[mapping for *_, mapping in listed])
        good = lie_in(nests, spaces, which)
        if not self.lenient:
            for i, _, mapping in (listed[n] for n in np.flatnonzero(~good)):
                item = f"layer {pairs[i].layer} on template {pairs[i].name}"
                encode(mapping, spaces[i], item=item)  # raises what is wrong with it
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
    keep = None
    if space.constraints.may_bypass is not None:
        keep = np.asarray(space.constraints.keep)[:, None].repeat(count, axis=1)
    return MappingGenes(
        keep=keep,
        cover=np.zeros((size, count, dims), np.int32),
        slot=slot.copy(),
        order=order[:, :, 0].copy(),
        spatial_order=order[:, :, 1:].copy(),
    )


class TableStore(Protocol):
    """Keeps Pareto sets of the layer mapper by a hash of everything that they depend on except the code."""

    def read(self, digest: str) -> MappingTables | None:
        """The set `[M, ...]` of a hash, or None where there is none."""

    def write(self, digest: str, table: MappingTables) -> None:
        """Keeps a set; called from worker threads."""


@dataclasses.dataclass(frozen=True, eq=False)
class LayerMapper:
    """Searches the Pareto set of mappings of every layer on every template that can run it (MEDEA).

    Not jitted as a whole. It compiles once per block size, population, number of levels and float dtype: layers,
    templates, seeds and rates are data, and the last block is padded. The same key and settings give the same tables,
    and the set of a layer on a template depends on the other layers and templates only by the size of all arrays: the
    levels of the deepest template, the primes of the longest layer, and whether some template leaves a bypass open.

    Attributes:
        layers: unique layers, U of them.
        templates: templates, T of them.
        technology: energy and area tables.
        config: sizes and variant; default MEDEA's 15 generations of 120, with our archive, immigrants and descent.
        rates: probabilities of the operators; default those that did best in our experiments. `MAPPER_PRESETS` has
            both as MEDEA prints them.
        levels: L, at least those of every template; default the most of any.
        max_children: children that the cost model's tables have room for. Calls with the same number share their
            programs; it is raised to what the problems need (`children_room`).
        dtype: float dtype of the search; float64 needs JAX's x64 mode.
        progress: called from worker threads, one call at a time, after every generation of a block.
        cache: where finished sets are kept between runs (`io.MappingCache`); None for nowhere.
        devices: this process's devices share each block, with as many problems on each as one device would take alone;
            blocks run one after the other. On accelerators that number depends on the number of devices, and a last bit
            may round otherwise than on one.
        whole_arrays: on templates of fixed sizes, the energies of the sets count wires on the whole arrays, which
            takes tables (`on_own_hardware`). The search itself always counts them on the part that a mapping uses.
    """

    layers: Sequence[UniqueLayer]
    templates: Sequence[Template]
    technology: Technology
    config: MapperConfig = dataclasses.field(default_factory=MapperConfig)
    _: dataclasses.KW_ONLY
    rates: MapperRates = dataclasses.field(default_factory=MapperRates)
    levels: int | None = None
    max_children: int = 0
    dtype: jax.typing.DTypeLike = jnp.float32
    progress: Callable[[MapperProgress], None] | None = None
    cache: TableStore | None = None
    devices: Devices | None = None
    whole_arrays: bool = True

    def __post_init__(self) -> None:
        """Keeps sets whose wires count on a part of the arrays out of the cache, whose names do not tell them."""
        if self.cache is not None and not self.whole_arrays:
            raise ValueError("whole_arrays=False: expected no cache, got one")

    def search(
        self, key: jax.Array, *, given: GivenMappings | None = None, wanted: np.ndarray | None = None
    ) -> MappingTables:
        """Searches from a first population.

        Args:
            key: typed key of the search.
            given: mappings with L levels. They join the first population; those that find no place there join the
                archive after the last generation.
            wanted: `[U, T]` bool, pairs to search; default all that can be.

        Returns:
            `MappingTables` `[U, T, M, ...]`, NumPy arrays. The entries of a set do not dominate each other, rise in
            latency, and include the extremes of all three objectives that the search met.

        Raises:
            InputError: a given mapping does not fit its layer and template.
        """
        return self._mapped(key, given or {}, wanted, descends=False)

    def descend(self, key: jax.Array, given: GivenMappings, *, wanted: np.ndarray | None = None) -> MappingTables:
        """Improves given mappings by descent alone: there is no population, and nothing is drawn.

        Args:
            key: typed key of the search.
            given: any number of mappings; L levels. Those that the mapper itself could not make are left out; pairs
                without any are not searched.
            wanted: `[U, T]` bool, pairs to search; default all that can be.

        Returns:
            The tables, as `search` returns them.
        """
        return self._mapped(key, given, wanted, descends=True)

    def compile(self) -> None:
        """Compiles the programs of `search` without mapping anything. At least one template must run some layer."""
        pairs = self._pairs(jax.random.key(0), {}, descends=False)
        room = self._room([self._space(pair) for pair in pairs])
        search = BlockSearch(self.config, self.rates, room, Tally(len(pairs), 0, 0), whole=self.whole_arrays)
        search.shared(self.block(jax.random.key(0)))

    def block(self, key: jax.Array) -> Block:
        """The problems of `search` as one block of its size, repeated where they are fewer.

        Args:
            key: typed key of the search.
        """
        pairs = self._pairs(key, {}, descends=False)
        block = [pairs[i % len(pairs)] for i in range(self.config.problems_at_once(len(pairs)))]
        context = self._context(block, [self._space(pair) for pair in block], cast(self.technology, self.dtype))
        return Block(_keys(key, block), context, None, None, len(block))

    def _mapped(
        self, key: jax.Array, given: GivenMappings, wanted: np.ndarray | None, *, descends: bool
    ) -> MappingTables:
        """The tables of `search` or `descend`: sets from the cache, and searched ones for all other problems."""
        pairs = self._pairs(key, given, descends=descends)
        if wanted is not None:
            pairs = [pair for pair in pairs if wanted[pair.place]]
        if descends:
            pairs = [pair for pair in pairs if given.get(pair.place)]
        found: dict[Pair, MappingTables] = {}
        if self.cache is not None:
            found = {pair: hit for pair in pairs if (hit := self.cache.read(pair.digest)) is not None}
        missing = [pair for pair in pairs if pair not in found]
        found |= self._searched(key, missing, given, len(found), descends=descends)
        tables = {pair.place: table for pair, table in found.items()}
        number = len(self.layers), len(self.templates)
        return assemble(tables, *number, self.config.entries, self._depth, self.dtype)

    def _searched(
        self, key: jax.Array, pairs: Sequence[Pair], given: GivenMappings, cached: int, *, descends: bool
    ) -> dict[Pair, MappingTables]:
        """The sets of problems that are not cached, searched in blocks, several at a time."""
        config, own = self.config, None if self.devices is None else self.devices.own
        spaces = {pair: self._space(pair) for pair in pairs}
        count = config.population + config.immigrants
        most = max([0, *(len(given.get(pair.place, ())) for pair in pairs)])
        batches = -(-most // count)
        start = Start(given, most if batches == 1 and not descends else batches * count, lenient=descends)
        late = 0 if descends else max(batches - 1, 0)
        each = (batches + config.descent) * count if descends else config.evaluations + late * count
        tally = Tally(len(pairs) + cached, cached, len(pairs) * each, self.progress)
        room = self._room(spaces.values())
        search = BlockSearch(config, self.rates, room, tally, own, batches if descends else 0, late, self.whole_arrays)
        tally.report()
        technology = cast(self.technology, self.dtype)
        shares = 1 if own is None else len(own)
        width = shares * config.problems_at_once(-(-len(pairs) // shares))

        def run(real: Sequence[Pair]) -> dict[Pair, MappingTables]:
            block = [*real, *[real[-1]] * (width - len(real))]
            within = [spaces[pair] for pair in block]
            context = self._context(block, within, technology)
            result = search.run(Block(_keys(key, block), context, *start.genes(block, within), len(real)))
            if result is None:
                return {}
            tables = {pair: jax.tree.map(lambda leaf, i=i: leaf[i], result) for i, pair in enumerate(real)}
            if self.cache is not None:
                for pair, table in tables.items():
                    self.cache.write(pair.digest, table)
            return tables

        blocks = [pairs[i : i + width] for i in range(0, len(pairs), width)]
        threads = min(config.blocks_at_once(), max(1, len(blocks))) if own is None else 1
        found: dict[Pair, MappingTables] = {}
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(at_this_precision(run), block) for block in blocks]
            try:
                for future in concurrent.futures.as_completed(futures):
                    found |= future.result()
            except BaseException:
                search.stop()
                for future in futures:
                    future.cancel()
                raise
        return found

    @functools.cached_property
    def _arrays(self) -> TemplateArrays:
        """The templates, `[T, ...]` NumPy leaves."""
        return jax.device_get(template_arrays(self.templates, self.technology, self.levels, self.dtype))

    @functools.cached_property
    def _primes(self) -> int:
        """F, number of factor slots of every problem."""
        return prime_slots(self.layers)

    @property
    def _depth(self) -> int:
        """L, of every problem."""
        return self._arrays.component.shape[1]

    @property
    def _bypasses(self) -> bool:
        """Whether mappings have a gene for bypasses, as they do if any template leaves one open."""
        return any(template.bypasses for template in self.templates)

    def _room(self, spaces: Iterable[MapSpace]) -> int:
        """Children that the cost model's tables have room for: enough for whole arrays on fixed hardware."""
        if self.config.fixed:
            return table_room(np.prod(self._arrays.machine.fanout, axis=-1).max())
        return max(children_room(list(spaces)), self.max_children)

    def _pairs(self, key: jax.Array, given: GivenMappings, *, descends: bool) -> list[Pair]:
        """The problems that exist: every layer on every template that can run it."""
        rates = {k: float(v) for k, v in dataclasses.asdict(self.rates).items()}
        bypass = rates.pop("bypass")
        common: dict[str, object] = {
            "key": np.asarray(jax.random.key_data(key)).tolist(),
            "technology": technology_hash(self.technology),
            "config": self.config.content(),
            "rates": rates,
            "levels": self._depth,
            "primes": self._primes,
            "dtype": jnp.dtype(self.dtype).name,
        }
        if descends:
            common["from_given"] = True
        if self._bypasses:  # a gene more, which every problem of the call draws
            common["bypasses"] = True
        shared = json.dumps(common, sort_keys=True)
        hashes = [template.content_hash() for template in self.templates]
        out = []
        for u, layer in enumerate(self.layers):
            for t, template in enumerate(self.templates):
                if fits(template, layer.type, layer.shape) is None:
                    seeds = [[np.asarray(x).tolist() for x in jax.tree.leaves(m)] for m in given.get((u, t), ())]
                    own = [bypass] if template.bypasses else []
                    content = json.dumps([shared, hashes[t], layer.type, dataclasses.asdict(layer.shape), seeds, *own])
                    out.append(Pair(u, t, template.name, hashlib.sha256(content.encode()).hexdigest()))
        return out

    def _space(self, pair: Pair) -> MapSpace:
        """The map space of one problem; the spaces of all problems have equal shapes."""
        layer, template = self.layers[pair.layer], self.templates[pair.template]
        machine = jax.tree.map(lambda leaf: leaf[pair.template], self._arrays.machine)
        form = self._depth, self._primes, self._bypasses
        return pair_space(layer, template, machine, form, padding=self.config.padding)

    def _context(self, block: Sequence[Pair], spaces: Sequence[MapSpace], technology: Technology) -> MapperContext:
        """The problems of a block as arrays.

        Args:
            block: the problems.
            spaces: their map spaces.
            technology: energy and area tables in the float dtype of the search.
        """
        chosen = np.array([pair.template for pair in block])
        return MapperContext(
            space=jax.tree.map(put, stack_spaces(spaces)),
            template=jax.tree.map(lambda leaf: put(leaf[chosen]), self._arrays),
            technology=technology,
        )


def _keys(key: jax.Array, block: Sequence[Pair]) -> jax.Array:
    """A typed key for each problem of a block."""
    own = np.array([int(pair.digest[:8], 16) for pair in block], np.uint32)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, own)
