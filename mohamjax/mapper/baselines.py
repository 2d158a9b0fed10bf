"""Other mappers on our cost model, as baselines: CoSA-like, GAMMA-like, and Timeloop's hybrid search.

All three minimise one number and give one mapping per layer, where the layer mapper gives a Pareto set. They search its
map space without padding and, like it, evaluate each mapping on its own minimal hardware.

Axes: U unique layers, T templates, B problems of a block, L levels.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, Template, template_arrays
from mohamjax.mapper import block_search
from mohamjax.mapper.config import MapperProgress
from mohamjax.mapper.cosa import CosaConfig, cosa_mapping
from mohamjax.mapper.gamma import GammaConfig, gamma_block
from mohamjax.mapper.hybrid import HybridConfig, hybrid_block
from mohamjax.mapper.problems import MapperContext, children_room, map_spaces
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MappingGenes, MapSpace, decode, stack_spaces
from mohamjax.mapping.tables import MappingTables, assemble, tabulate_sets, undominated
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.struct import cast, put, take
from mohamjax.workload import UniqueLayer

COSTS = {"latency": (1.0, 0.0, 0.0), "energy": (0.0, 1.0, 0.0), "area": (0.0, 0.0, 1.0), "edp": (1.0, 1.0, 0.0)}
"""What a baseline may minimise, as exponents of latency, energy and area; `edp` is the energy-delay product."""

METHODS = ("cosa", "gamma", "hybrid")
"""Names of the baselines."""

_MOST = {"cosa": 8, "gamma": 32, "hybrid": 32}
"""Most problems per block. CoSA's are solved one after the other, so smaller blocks report progress sooner."""


def check_choice(method: str | None, cost: str | None) -> None:
    """Refuses a mapper and a cost that a user names and that do not go together.

    Args:
        method: a name of `METHODS`; None for our own mapper.
        cost: a key of `COSTS`; None where the user names none.

    Raises:
        InputError: a name is unknown, or the mapper takes no cost.
    """
    if method is None:
        if cost is not None:
            remedy = "add the argument `method=gamma` or the argument `method=hybrid`, or leave it out"
            raise InputError("is for another mapper", argument="cost", remedy=remedy)
        return
    check_baseline(method, cost or "edp")
    if method == "cosa" and cost is not None:
        raise InputError("cosa has an objective of its own", argument="cost", remedy="leave it out")


def check_baseline(method: str, cost: str) -> None:
    """Refuses unknown names of baselines and of costs.

    Raises:
        InputError: a name is unknown; the message lists those that are known.
    """
    for what, value, known in (("method", method, METHODS), ("cost", cost, tuple(COSTS))):
        if value not in known:
            raise InputError(f"unknown {what} {value!r}", argument=what, remedy=f"use one of {', '.join(known)}")


@dataclasses.dataclass(frozen=True, eq=False)
class BaselineMapper:
    """Maps every layer on every template that can run it by one of the baselines.

    Attributes:
        layers: unique layers, U of them.
        templates: templates, T of them.
        technology: energy and area tables.
        method: `cosa`, `gamma` or `hybrid`; see the modules `mapper.cosa`, `mapper.gamma` and `mapper.hybrid`.
        cost: what is minimised, a key of `COSTS`; `cosa` has an objective of its own and takes none.
        front: return all non-dominated mappings that were evaluated, not only the best; `cosa` evaluates only one.
        settings: a `CosaConfig`, `GammaConfig` or `HybridConfig`; default that of the method.
        levels: L, at least those of every template; default the most of any.
        progress: called before the first and after every block; the total is extrapolated from the evaluations per
            problem so far.
    """

    layers: Sequence[UniqueLayer]
    templates: Sequence[Template]
    technology: Technology
    method: str
    _: dataclasses.KW_ONLY
    cost: str = "edp"
    front: bool = False
    settings: CosaConfig | GammaConfig | HybridConfig | None = None
    levels: int | None = None
    progress: Callable[[MapperProgress], None] | None = None

    def __post_init__(self) -> None:
        """Refuses unknown names."""
        check_baseline(self.method, self.cost)

    def search(self, key: jax.Array) -> tuple[MappingTables, np.ndarray]:
        """Maps all pairs.

        The result of a pair depends on the key, the pair and the settings, but not on the other pairs.

        Args:
            key: typed key; `cosa` draws nothing.

        Returns:
            `MappingTables` `[U, T, M, ...]` like those of `LayerMapper`, with M = 1 unless `front`, and numbers of
            evaluated mappings `[U, T]`.

        Raises:
            InputError: `cosa` found no mapping, or none in its time.
        """
        arrays = jax.device_get(template_arrays(self.templates, self.technology, self.levels, jnp.float32))
        by_pair = map_spaces(self.layers, self.templates, arrays, padding=False)
        pairs, spaces = list(by_pair), list(by_pair.values())
        room = children_room(spaces)
        spent = np.zeros((len(self.layers), len(self.templates)), int)
        found: dict[tuple[int, int], MappingTables] = {}
        width = min(_MOST[self.method], power_of_two(len(pairs)))
        began = time.perf_counter()
        self._tell(0, len(pairs), 0, began)
        for first in range(0, len(pairs), width):
            own = list(range(first, min(first + width, len(pairs))))
            block = [*own, *[own[-1]] * (width - len(own))]
            chosen = [pairs[i][1] for i in block]
            context = MapperContext(
                space=jax.tree.map(put, stack_spaces([spaces[i] for i in block])),
                template=jax.tree.map(lambda leaf, chosen=chosen: put(leaf[chosen]), arrays),
                technology=cast(self.technology, jnp.float32),
            )
            keys = jnp.stack([self._key(key, *pairs[i]) for i in block])
            if self.method == "cosa":
                genes, count, evaluated = self._solved([pairs[i] for i in block], [spaces[i] for i in block], len(own))
            else:
                genes, count, evaluated = self._evolved(keys, context, room)
            sets = self._tabulated(context, genes, count)
            for n, i in enumerate(own):
                found[pairs[i]] = take(sets, n)
                spent[pairs[i]] = evaluated[n]
            self._tell(len(found), len(pairs), int(spent.sum()), began)
        entries = max((len(one.cycles) for one in found.values()), default=1)
        levels = arrays.component.shape[1]
        tables = assemble(found, len(self.layers), len(self.templates), entries, levels, jnp.float32)
        return tables, spent

    def _tell(self, done: int, problems: int, spent: int, began: float) -> None:
        """Reports the progress."""
        if self.progress is not None:
            total, seconds = spent * problems // max(done, 1), time.perf_counter() - began
            self.progress(MapperProgress(problems, 0, done, spent, total, seconds))

    def _key(self, key: jax.Array, u: int, t: int) -> jax.Array:
        """The random key of a pair, which depends on its content."""
        layer = self.layers[u]
        content = json.dumps([layer.type, dataclasses.asdict(layer.shape), self.templates[t].content_hash()])
        return jax.random.fold_in(key, int(hashlib.sha256(content.encode()).hexdigest()[:8], 16))

    def _solved(
        self, pairs: Sequence[tuple[int, int]], spaces: Sequence[MapSpace], real: int
    ) -> tuple[MappingGenes, np.ndarray, np.ndarray]:
        """Like `_evolved`, by CoSA for the first `real` problems of a block; the last of these stands for the rest."""
        config = self.settings if isinstance(self.settings, CosaConfig) else CosaConfig()
        rows = []
        for (u, t), space in zip(pairs[:real], spaces, strict=False):
            layer = self.layers[u]
            item = f"{layer.type} layer {layer.shape} on template {self.templates[t].name}"
            rows.append(cosa_mapping(space, config, item=item))
        rows += [rows[-1]] * (len(spaces) - real)
        genes = jax.tree.map(lambda *leaves: np.stack(leaves)[:, None], *rows)
        return genes, np.ones(len(rows), np.int32), np.ones(len(rows), int)

    def _evolved(
        self, keys: jax.Array, context: MapperContext, room: int
    ) -> tuple[MappingGenes, np.ndarray, np.ndarray]:
        """Genes `[B, M, ...]` of a block, how many of each set exist `[B]`, and evaluations `[B]`."""
        weights = jnp.asarray(COSTS[self.cost], jnp.float32)

        def evaluate(genes: MappingGenes) -> Array:
            own = context.space, context.template, context.technology
            return block_search.evaluate(genes, *own, fixed=False, max_children=room)

        if self.method == "gamma":
            config = self.settings if isinstance(self.settings, GammaConfig) else GammaConfig()
            archive, best, spent = gamma_block(keys, context, weights, evaluate, config)
        else:
            config = self.settings if isinstance(self.settings, HybridConfig) else HybridConfig()
            archive, best, spent = hybrid_block(keys, context, weights, evaluate, config)
        if self.front:
            return archive.genes, np.asarray(archive.valid).sum(axis=1).astype(np.int32), spent
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:, None], best), np.ones(len(spent), np.int32), spent

    def _tabulated(self, context: MapperContext, genes: MappingGenes, count: np.ndarray) -> MappingTables:
        """The sets of a block `[B, M, ...]`, by rising latency."""
        nests = jax.device_get(_decoded(jax.tree.map(jnp.asarray, genes), context.space))
        layers, templates = jax.device_get((context.space.layer, context.template))
        table = tabulate_sets(layers, templates, context.technology, nests, count)
        order = np.lexsort((table.objectives[..., 1], table.objectives[..., 0]))
        rows = np.arange(len(order))[:, None]
        sorted_ = jax.tree.map(lambda leaf: leaf if leaf.ndim < 2 else leaf[rows, order], table)
        return undominated(dataclasses.replace(sorted_, count=table.count))


@jax.jit
def _decoded(genes: MappingGenes, space: MapSpace):
    """Loop nests `[B, M, ...]`."""
    return jax.vmap(jax.vmap(decode, (0, None)))(genes, space)
