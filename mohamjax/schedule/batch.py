"""Evaluation of designs by the thousand: equal blocks through one program, over tables that hold each nest once.

Axes: N designs, L layers, S tiles, V levels, U unique layers, T templates, M mappings of a set.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.mapping import Mapping, MappingTables, stacked_layers
from mohamjax.mapping.tables import column_shapes, tabulate_as_given
from mohamjax.mapping.wires import EVERY_SIZE
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.devices import Devices
from mohamjax.runtime.kept_programs import kept_jit
from mohamjax.runtime.struct import cast, take
from mohamjax.schedule.design import Design, EvaluationArrays, SizedDesign, padded, report
from mohamjax.schedule.evaluation_arrays import evaluation_arrays
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.validity import invalid, mappings_fit

BLOCK = 256
"""Designs per block and device."""

Inputs = TypeVar("Inputs", Design, SizedDesign)
Told = TypeVar("Told")


def run_blocks(
    program: Callable[[Inputs, EvaluationArrays], Told], designs: Inputs, evaluation: EvaluationArrays, width: int
) -> Told:
    """Runs a program on designs, block by block, and returns its outputs as NumPy arrays.

    Each block leaves the device before the next one begins, so that memory is bounded by a block.

    Args:
        program: maps `[width]` designs and the evaluation to a pytree whose leaves have a leading axis `[width]`.
        designs: leading axis `[N]`, N >= 1, NumPy leaves.
        evaluation: everything else.
        width: designs per block; the last block is filled up with the last design.
    """
    number, whole = len(designs), None
    for first in range(0, number, width):
        rows = np.minimum(np.arange(first, first + width), number - 1)
        found = jax.device_get(program(take(designs, rows), evaluation))
        if whole is None:
            whole = jax.tree.map(lambda leaf: np.empty((number, *leaf.shape[1:]), leaf.dtype), found)
        own = slice(first, min(first + width, number))
        for out, leaf in zip(jax.tree.leaves(whole), jax.tree.leaves(found), strict=True):
            out[own] = leaf[: own.stop - own.start]
    assert whole is not None  # there is at least one design
    return whole


class _NestTables:
    """Pareto tables that grow: each loop nest of a set is tabulated once, when it first appears.

    Args:
        setup: networks and hardware.
        levels: V.
        dtype: float dtype.
    """

    def __init__(self, setup: Setup, levels: int, dtype: np.dtype) -> None:
        layers = setup.application.unique_layers
        self._shape = len(layers), len(setup.templates)
        self._dtype = dtype
        with in_precision(dtype):
            self._layers = jax.device_get(stacked_layers(unique.shape for unique in layers))
            self.arrays = setup.machines(levels, dtype)
            self._templates = jax.device_get(self.arrays)
            self._technology = cast(setup.technology, dtype)
        self._rows: MappingTables | None = None  # [B, ...], one nest each
        self._place: dict[tuple[int, int, int], int] = {}

    def tables(self, mappings: Mapping, count: np.ndarray) -> MappingTables:
        """The tables of sets that begin with the mappings of all earlier calls.

        Args:
            mappings: loop nests, leading axes `[U, T, M]`, NumPy leaves.
            count: `[U, T]` int, number of mappings that exist.

        Returns:
            The tables with M padded to a power of two, NumPy leaves.
        """
        self._add(mappings, count)
        most = power_of_two(int(count.max()), 16)
        at = np.full((*self._shape, most), -1)
        for (u, t, m), row in self._place.items():
            at[u, t, m] = row
        assert self._rows is not None
        rows: MappingTables = jax.tree.map(lambda leaf: leaf[:, 0][np.maximum(at, 0)], self._rows)
        columns = {name: np.asarray(getattr(rows, name)) for name in column_shapes(*mappings.keep.shape[-2:])}
        for name, column in columns.items():
            column[at < 0] = np.inf if name == "objectives" else 0
        return dataclasses.replace(rows, count=np.asarray(count, np.int32), **columns)

    def _add(self, mappings: Mapping, count: np.ndarray) -> None:
        """Tabulates the nests that are new."""
        new = [
            (u, t, m)
            for u, t in np.argwhere(count)
            for m in range(count[u, t])
            if (int(u), int(t), m) not in self._place
        ]
        if not new:
            return
        u, t, m = np.asarray(new).T
        start = len(self._place)
        self._place |= {key: start + i for i, key in enumerate(new)}
        with in_precision(self._dtype):
            found = tabulate_as_given(
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


def in_precision(dtype: np.dtype) -> contextlib.AbstractContextManager[object]:
    """A context with JAX's 64-bit mode on for float64, and off for other dtypes."""
    return jax.enable_x64(dtype == np.float64)


@kept_jit
def _objectives(designs: Design, evaluation: EvaluationArrays) -> tuple[jax.Array, jax.Array]:
    def one(design: Design) -> tuple[jax.Array, jax.Array]:
        return report(design, evaluation).objectives, _fits(design, evaluation)

    return jax.vmap(one)(designs)


@kept_jit
def _sized_objectives(designs: SizedDesign, evaluation: EvaluationArrays) -> tuple[jax.Array, jax.Array]:
    def one(own: SizedDesign) -> tuple[jax.Array, jax.Array]:
        return report(own.design, evaluation, own.sizes).objectives, _fits(own, evaluation)

    return jax.vmap(one)(designs)


def _fits(design: Design | SizedDesign, evaluation: EvaluationArrays) -> jax.Array:
    return jnp.asarray(mappings_fit(design, evaluation.tables, evaluation.unique, evaluation.layer_mask))


Nests = Callable[[], tuple[Mapping, np.ndarray]]
"""Returns the loop nests of designs, leading axes `[U, T, M]`, and how many each set has, `[U, T]`."""


class DesignEvaluator:
    """Evaluates designs of one setup, whose loop nests may grow in number from call to call.

    One program serves all setups of equal shapes and any number of designs; a second one serves designs with stated
    sizes.

    Args:
        setup: networks and hardware.
        levels: V.
        float32: compute in single precision instead of double.
        devices: devices over which blocks are spread; None for JAX's default device.
    """

    def __init__(self, setup: Setup, levels: int, *, float32: bool = False, devices: Devices | None = None) -> None:
        self._setup, self._devices = setup, devices
        self._dtype = np.dtype(np.float32 if float32 else np.float64)
        self._nests = _NestTables(setup, levels, self._dtype)
        # `[T, V, 2]`, axes whose wires are not counted at every size (`evaluation_arrays`).
        self._long = np.asarray(self._nests.arrays.machine.fanout) > EVERY_SIZE
        self._built: tuple[MappingTables, EvaluationArrays] | None = None
        self._built_for: tuple[int, set[bytes]] = (0, set())

    def evaluate(self, designs: SizedDesign, nests: Nests, number: int) -> tuple[np.ndarray, list[str]]:
        """Objectives of designs, and why invalid ones are invalid.

        Args:
            designs: leading axis `[N]`, N >= 1, NumPy leaves, layers not padded, genes sound (`gene_faults`).
            nests: returns the loop nests.
            number: total number of loop nests; those of the last call are still the first of their sets.

        Returns:
            `[N, 3]` float, latency [s], energy [J], area [mm^2], and N texts, empty where the design is valid.
        """
        tables, evaluation = self._over(designs, nests, number)
        objectives, fit = self._run(designs, evaluation)
        return objectives, invalid(designs, tables, self._setup, objectives, ~fit)

    def _run(self, designs: SizedDesign, evaluation: EvaluationArrays) -> tuple[np.ndarray, np.ndarray]:
        """Objectives `[N, 3]`, and whether each design's mappings fit, `[N]` bool."""
        genes = padded(designs.design, evaluation.unique.shape[0])
        with in_precision(self._dtype):
            if designs.states_sizes:
                capacity, fanout = (np.asarray(size, self._dtype) for size in designs.sizes)
                sized = SizedDesign(design=genes, capacity=capacity, fanout=fanout)
                found, fit = self._blocks(_sized_objectives, sized, evaluation)
            else:
                found, fit = self._blocks(_objectives, genes, evaluation)
        return np.asarray(found), np.asarray(fit)

    def _blocks(
        self, program: Callable[[Inputs, EvaluationArrays], Told], designs: Inputs, evaluation: EvaluationArrays
    ) -> Told:
        if self._devices is None:
            return run_blocks(program, designs, evaluation, BLOCK)
        return run_blocks(self._devices.over(program), designs, evaluation, BLOCK * len(self._devices))

    def _over(self, designs: SizedDesign, nests: Nests, number: int) -> tuple[MappingTables, EvaluationArrays]:
        """Tables and evaluation, rebuilt if there are more nests, or other sizes on long axes, than before.

        Sizes on axes of up to 16 children need no rebuild: their wires are all counted.
        """
        fanout, template = np.asarray(designs.fanout), np.asarray(designs.design.template)
        wide = ((fanout >= 0) & self._long[template]).any(axis=(2, 3))  # unused tiles (-1) state no size
        given = (template[wide], fanout[wide]) if wide.any() else None
        rows = () if given is None else np.c_[given[0], given[1].reshape(len(given[0]), -1)]
        arrays = {row.tobytes() for row in rows}
        known, there = self._built_for
        if self._built is None or number != known or not arrays <= there:  # further arrays in it do no harm
            self._built = self._build(self._nests.tables(*nests()), given)
            self._built_for = number, arrays
        return self._built

    def _build(
        self, tables: MappingTables, given: tuple[np.ndarray, np.ndarray] | None
    ) -> tuple[MappingTables, EvaluationArrays]:
        """The tables, and the evaluation on one device or copied to all; for `given` see `evaluation_arrays`."""
        with in_precision(self._dtype):
            evaluation = evaluation_arrays(self._setup, tables, given=given, arrays=self._nests.arrays)
            return tables, evaluation if self._devices is None else self._devices.copied(evaluation)
