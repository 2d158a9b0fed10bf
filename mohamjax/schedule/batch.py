"""Designs by the thousand: blocks of one size through one program, over tables in which each loop nest stands once.

Axes: N designs, L layers, S tiles, V levels, U unique layers, T templates, M mappings of a set.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, stacked_layers
from mohamjax.mapping.tables import column_shapes, tabulate_sets
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.kept_programs import kept_jit
from mohamjax.runtime.struct import cast, take
from mohamjax.schedule.design import Design, adequate, report
from mohamjax.schedule.evaluated import misfit_of
from mohamjax.schedule.evaluation_arrays import evaluation_arrays
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel

BLOCK = 256
"""Designs of a block."""


class SetTables:
    """Pareto tables that grow: each loop nest of a set is tabulated once, when it comes.

    Args:
        setup: networks and hardware.
        levels: V.
        dtype: float dtype.
    """

    def __init__(self, setup: Setup, levels: int, dtype: Any) -> None:
        layers = setup.application.unique_layers
        self._shape = len(layers), len(setup.templates)
        self._dtype = np.dtype(dtype)
        with self._precision():
            self._layers = jax.device_get(stacked_layers(unique.shape for unique in layers))
            self.arrays = setup.machines(levels, dtype)
            self._templates = jax.device_get(self.arrays)
            self._technology = cast(setup.technology, dtype)
        self._rows: MappingTables | None = None  # [B, ...], one nest each
        self._place: dict[tuple[int, int, int], int] = {}

    def _precision(self) -> Any:
        return jax.enable_x64(self._dtype == np.float64)

    def tables(self, mappings: Mapping, count: np.ndarray) -> MappingTables:
        """The tables of sets of which those asked for before are the first entries.

        Args:
            mappings: loop nests, leading axes `[U, T, M]`, NumPy leaves.
            count: `[U, T]` int, entries that exist.

        Returns:
            The tables with M padded to a power of two, NumPy leaves.
        """
        new = [
            (u, t, m)
            for u, t in np.argwhere(count)
            for m in range(count[u, t])
            if (int(u), int(t), m) not in self._place
        ]
        if new:
            u, t, m = np.asarray(new).T
            start = len(self._place)
            self._place |= {key: start + i for i, key in enumerate(new)}
            with self._precision():
                found = tabulate_sets(
                    take(self._layers, u),
                    take(self._templates, t),
                    self._technology,
                    jax.tree.map(lambda leaf: np.asarray(leaf)[u, t, m][:, None], mappings),
                    np.ones(len(new), int),
                )
            found = jax.tree.map(lambda leaf: np.asarray(leaf), found)
            one = dataclasses.replace(found, count=found.count[:, None])
            old = self._rows
            self._rows = one if old is None else jax.tree.map(lambda *x: np.concatenate(x), old, one)
        most = max(16, 1 << (max(1, int(count.max())) - 1).bit_length())
        at = np.full((*self._shape, most), -1)
        for (u, t, m), row in self._place.items():
            at[u, t, m] = row
        assert self._rows is not None
        rows = jax.tree.map(lambda leaf: leaf[:, 0][np.maximum(at, 0)], self._rows)
        columns: dict[str, Any] = {"count": np.asarray(count, np.int32)}
        for name in column_shapes(*mappings.keep.shape[-2:]):
            column = getattr(rows, name)
            column[at < 0] = np.inf if name == "objectives" else 0
            columns[name] = column
        return MappingTables(mapping=rows.mapping, **columns)


@kept_jit
def _objectives(designs: Design, evaluation: Any) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(lambda design: (report(design, evaluation).objectives, adequate(design, evaluation)))(designs)


@kept_jit
def _sized_objectives(sized: tuple[Design, Any], evaluation: Any) -> tuple[jax.Array, jax.Array]:
    def one(design: Design, own: Any) -> tuple[jax.Array, jax.Array]:
        return report(design, evaluation, own).objectives, adequate(design, evaluation, own)

    return jax.vmap(one)(*sized)


@dataclasses.dataclass(frozen=True)
class DesignBlocks:
    """The evaluation of designs of one problem over given tables, block by block.

    One program serves all blocks of problems of equal shapes, whatever the number of designs; there is a second one for
    designs with stated sizes. Blocks are of one size, the last one filled up.

    Attributes:
        setup: networks and hardware.
        tables: Pareto tables, NumPy leaves.
        evaluation: on the device, or on all of them.
        devices: over which blocks are spread, each having one of `BLOCK` designs; None for the one that JAX takes.
    """

    setup: Setup
    tables: MappingTables
    evaluation: Any
    devices: Devices | None = None

    @classmethod
    def over(
        cls,
        setup: Setup,
        tables: MappingTables,
        arrays: Any,
        given: tuple[Any, Any] | None = None,
        devices: Devices | None = None,
    ) -> DesignBlocks:
        """Builds the evaluation in the precision of the tables; `given` as in `evaluation_arrays`."""
        with jax.enable_x64(np.asarray(tables.cycles).dtype == np.float64):
            evaluation = evaluation_arrays(setup, tables, given=given, arrays=arrays)
            evaluation = evaluation if devices is None else devices.copied(evaluation)
        return cls(setup, tables, evaluation, devices)

    def evaluate(
        self, designs: Design, sizes: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, list[str]]:
        """Objectives of designs, and why each that is invalid is so.

        Args:
            designs: leading axis `[N]`, N >= 1, layers not padded, genes that `sound_genes` takes.
            sizes: capacities `[N, S, V]` and fanouts `[N, S, V, 2]` of the chiplets, -1 where they are to be just large
                enough; default that everywhere.

        Returns:
            `[N, 3]` float, latency [s], energy [J], area [mm^2], and N texts, empty where the design is valid.
        """
        number = len(designs.template)
        dtype = np.asarray(self.tables.cycles).dtype
        inputs: Any = self._padded(designs)
        stated = sizes is not None and any((size >= 0).any() for size in sizes)
        if stated:
            assert sizes is not None
            inputs = inputs, tuple(np.asarray(size, dtype) for size in sizes)
        parts = []
        program = _sized_objectives if stated else _objectives
        program = program if self.devices is None else self.devices.over(program)
        width = BLOCK * (1 if self.devices is None else len(self.devices))
        with jax.enable_x64(dtype == np.float64):
            for first in range(0, number, width):
                rows = np.minimum(np.arange(first, first + width), number - 1)
                parts.append(program(jax.tree.map(lambda leaf, rows=rows: leaf[rows], inputs), self.evaluation))
            objectives, good = (np.concatenate(part)[:number] for part in zip(*jax.device_get(parts), strict=True))
        good &= np.isfinite(objectives).all(axis=1)
        reasons = [""] * number
        for k in np.flatnonzero(~good):
            own = None if sizes is None else (sizes[0][k], sizes[1][k])
            design = jax.tree.map(lambda leaf, k=k: leaf[k], designs)
            told = misfit_of(design, self.tables, self.setup, own)
            reasons[k] = told or "its objectives are not finite"
        return objectives, reasons

    def _padded(self, designs: Design) -> Design:
        """Designs with as many layers as the evaluation has: padded ones come last."""
        layers, total = np.asarray(designs.order).shape[1], self.evaluation.unique.shape[0]
        rest = np.broadcast_to(np.arange(layers, total, dtype=np.int32), (len(designs.template), total - layers))
        more = ((0, 0), (0, total - layers))
        genes: dict[str, Any] = {
            "order": np.concatenate([np.asarray(designs.order, np.int32), rest], axis=1),
            "assignment": np.pad(np.asarray(designs.assignment, np.int32), more),
            "mapping": np.pad(np.asarray(designs.mapping, np.int32), more),
            "template": np.asarray(designs.template, np.int32),
        }
        return Design(**genes)


def sound_genes(designs: Design, application: ApplicationModel, count: np.ndarray) -> np.ndarray:
    """Which chromosomes mean a design: `[N]` bool.

    Args:
        designs: leading axis `[N]`, NumPy leaves, layers not padded.
        application: networks.
        count: `[U, T]` int, mappings of each set.
    """
    order, tile, mapping, template = (
        np.asarray(leaf, np.int64) for leaf in (designs.order, designs.assignment, designs.mapping, designs.template)
    )
    layers, tiles = order.shape[1], template.shape[1]
    good = (np.sort(order, axis=1) == np.arange(layers)).all(axis=1)
    place = np.zeros_like(order)
    np.put_along_axis(place, np.clip(order, 0, layers - 1), np.arange(layers)[None], axis=1)
    edges = [(p, i) for i, layer in enumerate(application.layers) for p in layer.predecessors]
    if edges:
        before, after = np.asarray(edges).T
        good &= (place[:, before] < place[:, after]).all(axis=1)
    good &= ((tile >= 0) & (tile < tiles)).all(axis=1)
    good &= ((template >= -1) & (template < count.shape[1])).all(axis=1)
    own = np.take_along_axis(template, np.clip(tile, 0, tiles - 1), axis=1)
    room = np.asarray(count)[np.asarray(application.unique_of_layer), np.clip(own, 0, count.shape[1] - 1)]
    return good & ((own >= 0) & (mapping >= 0) & (mapping < room)).all(axis=1)


def gene_fault(design: Design, application: ApplicationModel, count: np.ndarray) -> str:
    """Why one chromosome means no design; empty where `sound_genes` takes it."""
    order, tile, mapping, template = (
        np.asarray(leaf).tolist() for leaf in (design.order, design.assignment, design.mapping, design.template)
    )
    layers = application.layers
    if sorted(order) != list(range(len(layers))):
        return "`order` does not name every layer once"
    place = {layer: i for i, layer in enumerate(order)}
    for layer in order:
        late = [p for p in layers[layer].predecessors if place[p] > place[layer]]
        name = f"layer {layer} ({layers[layer].name})"
        if late:
            return f"{name}: stands before layer {late[0]} ({layers[late[0]].name}), on which it depends"
        if not 0 <= tile[layer] < len(template) or template[tile[layer]] < 0:
            return f"{name}: runs on tile {tile[layer]}, which holds no chiplet"
        kind = template[tile[layer]]
        if kind >= count.shape[1]:
            return f"tile {tile[layer]} holds template {kind}, which does not exist"
        room = count[application.unique_of_layer[layer], kind]
        if not 0 <= mapping[layer] < room:
            return f"{name}: there is no mapping {mapping[layer]} of it on template {kind}, which has {room}"
    strange = [kind for kind in template if not -1 <= kind < count.shape[1]]
    return f"`template` names template {strange[0]}, which does not exist" if strange else ""
