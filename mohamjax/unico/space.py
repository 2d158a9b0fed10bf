"""Hardware spaces as data: index <-> digits by mixed radix, and a machine for every point inside jit.

A point is one digit per axis. An axis either chooses among structures (dataflow, widths), each a template of its own,
or sets sizes (capacities, fanouts) of all structures. A point's machine is computed from arrays, so that one
compilation serves all points.

Axes: N points, A axes, V variants (templates that structural axes choose from), L levels, innermost first.
Source of the UNICO space: UNICO, Section 4.1 (size about 2^22), with the sizes of its cloud table; the counts per axis,
the unit of the network's bandwidth and its cost are our choice.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax.errors import InputError
from mohamjax.hardware import (
    Machine,
    Technology,
    Template,
    TemplateArrays,
    fits,
    load_template,
    resize,
    template_arrays,
)
from mohamjax.runtime.struct import record, shown_briefly
from mohamjax.workload import UniqueLayer

MOST_POINTS = 2**31
"""Limit on the points of a space: random numbers of a point derive from its 32-bit index."""

_LISTED = 24  # fanouts up to here are listed one by one
_SIZES = 12  # most capacities of a template's level


@dataclasses.dataclass(frozen=True)
class Axis:
    """One axis of a hardware space.

    Attributes:
        name: name shown to users and written to files.
        values: values of the digits; numbers are ascending.
        sets: sizes that the axis sets, pairs of `capacity` (words), `fanout_x` or `fanout_y` and the number of the
            level, innermost 0. An axis that sets no size is structural: it chooses the template.
    """

    name: str
    values: tuple[int, ...] | tuple[str, ...]
    sets: tuple[tuple[str, int], ...] = ()

    @property
    def encoded(self) -> np.ndarray:
        """`[values]` float64 from 0 to 1: logarithms of numbers scaled to their range, or positions of names."""
        if len(self.values) < 2:
            return np.zeros(len(self.values))
        if isinstance(self.values[0], str):
            return np.arange(len(self.values)) / (len(self.values) - 1)
        logs = np.log2(np.asarray(self.values, float))
        return (logs - logs[0]) / (logs[-1] - logs[0])


@record
class SpaceArrays:
    """Arrays that map digits to machines.

    Attributes:
        templates: the variants at their largest sizes, leading axis `[V]`.
        stride: `[A]` int32, stride of a structural axis in the number of the variant; 0 for other axes.
        value: `[A, R]` float, size of every digit, padded to R values; 0 for structural axes.
        capacity: `[A, L]` bool, true if the axis sets this capacity.
        fanout: `[A, L, 2]` bool, true if the axis sets this fanout, along X or Y.
    """

    templates: TemplateArrays
    stride: jax.Array
    value: jax.Array
    capacity: jax.Array
    fanout: jax.Array


def machine_of(digits: jax.Array, space: SpaceArrays, technology: Technology) -> tuple[jax.Array, Machine]:
    """The machine of one point; pure, to be vmapped.

    Args:
        digits: `[A]` int32.
        space: the space.
        technology: energy and area tables, in the float dtype of the space.

    Returns:
        The variant, `[]` int32, and the machine, with costs for its sizes.
    """
    variant = jnp.sum(digits * space.stride)
    template = jax.tree.map(lambda leaf: leaf[variant], space.templates)
    value = jnp.take_along_axis(space.value, digits[:, None], axis=1)
    base = template.machine
    # No two axes set the same size.
    capacity = jnp.where(
        jnp.any(space.capacity, axis=0), jnp.sum(jnp.where(space.capacity, value, 0), axis=0), base.capacity
    )
    sizes = jnp.sum(jnp.where(space.fanout, value[..., None], 0), axis=0)
    fanout = jnp.where(jnp.any(space.fanout, axis=0), sizes, base.fanout)
    return variant, resize(template, technology, capacity, fanout)


@shown_briefly
@dataclasses.dataclass(frozen=True)
class HardwareSpace:
    """A discrete space of accelerators; points are numbered by mixed radix, the first axis slowest.

    Attributes:
        name: name shown to users and written to files.
        axes: A axes.
        variants: templates that the structural axes choose from, at their largest sizes, numbered by mixed radix over
            the structural axes.

    Examples:
        >>> space = named_space("unico-edge")
        >>> space.size
        4147200
        >>> space.values(space.digits([4147199])[0])["pe_x"]
        24
    """

    name: str
    axes: tuple[Axis, ...]
    variants: tuple[Template, ...]

    def __post_init__(self) -> None:
        """Checks that templates and axes belong together."""
        structures = math.prod(len(axis.values) for axis in self.axes if not axis.sets)
        if structures != len(self.variants):
            raise ValueError(f"variants: the structural axes number {structures}, got {len(self.variants)}")
        if self.size >= MOST_POINTS:
            raise ValueError(f"axes: a space has fewer than {MOST_POINTS} points, got {self.size}")

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.shape)

    def digits(self, index: npt.ArrayLike) -> np.ndarray:
        """Digits `[N, A]` int32 of points `[N]`.

        Raises:
            ValueError: a number is not a point of the space.
        """
        index = np.asarray(index, np.int64)
        if index.size and not (index.min() >= 0 and index.max() < self.size):
            raise ValueError(f"index: expected 0 to {self.size - 1}, got {index.min()} to {index.max()}")
        return np.stack(np.unravel_index(index, self.shape), axis=-1).astype(np.int32)

    def index(self, digits: npt.ArrayLike) -> np.ndarray:
        """Points `[N]` int64 of digits `[N, A]`."""
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(np.asarray(digits, np.int64), -1, 0)), self.shape))

    def encode(self, index: npt.ArrayLike) -> np.ndarray:
        """Coordinates `[N, A]` float32 from 0 to 1 of points `[N]`, see `Axis.encoded`."""
        digits = self.digits(index)
        return np.stack([axis.encoded[digits[:, a]] for a, axis in enumerate(self.axes)], axis=1).astype(np.float32)

    def values(self, digits: np.ndarray) -> dict[str, int | str]:
        """Values of a point by axis name, from its digits `[A]`."""
        return {axis.name: axis.values[int(d)] for axis, d in zip(self.axes, digits, strict=True)}

    def variant(self, digits: npt.ArrayLike) -> np.ndarray:
        """Variants `[N]` int of digits `[N, A]`."""
        return np.asarray(digits) @ self._strides

    @functools.cached_property
    def _strides(self) -> np.ndarray:
        strides, step = np.zeros(len(self.axes), np.int32), 1
        for a in reversed(range(len(self.axes))):
            if not self.axes[a].sets:
                strides[a] = step
                step *= len(self.axes[a].values)
        return strides

    def arrays(self, technology: Technology, levels: int | None = None) -> SpaceArrays:
        """The space as arrays in single precision.

        Args:
            technology: energy and area tables.
            levels: L; default the largest number of any variant.
        """
        templates = template_arrays(self.variants, technology, levels)
        depth, widest = templates.component.shape[1], max(self.shape)
        value = np.zeros((len(self.axes), widest), np.float32)
        capacity = np.zeros((len(self.axes), depth), bool)
        fanout = np.zeros((len(self.axes), depth, 2), bool)
        for a, axis in enumerate(self.axes):
            for field, level in axis.sets:
                value[a, : len(axis.values)] = axis.values
                if field == "capacity":
                    capacity[a, level] = True
                else:
                    fanout[a, level, ("fanout_x", "fanout_y").index(field)] = True
        return SpaceArrays(
            templates=templates,
            stride=jnp.asarray(self._strides),
            value=jnp.asarray(value),
            capacity=jnp.asarray(capacity),
            fanout=jnp.asarray(fanout),
        )

    def sizes(self, digits: npt.ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Capacities `[N, L]`, -1 where there is no limit, and fanouts `[N, L, 2]` of points by digits `[N, A]`."""
        digits = np.atleast_2d(digits)
        deep = max(len(variant.levels) for variant in self.variants)
        words, children = np.full((len(self.variants), deep), -1.0), np.ones((len(self.variants), deep, 2))
        for v, variant in enumerate(self.variants):
            for i, one in enumerate(variant.levels):
                words[v, i], children[v, i] = one.capacity_words or -1, one.fanout
        which = self.variant(digits)
        capacity, fanout = words[which], children[which]
        for a, axis in enumerate(self.axes):
            for field, level in axis.sets:
                own = np.asarray(axis.values, float)[digits[:, a]]
                if field == "capacity":
                    capacity[:, level] = own
                else:
                    fanout[:, level, ("fanout_x", "fanout_y").index(field)] = own
        return capacity, fanout

    def instance(self, digits: npt.ArrayLike, name: str | None = None) -> Template:
        """A point as a template of fixed sizes, for use outside the space; `digits` `[A]`."""
        base = self.variants[int(self.variant(digits))]
        capacity, fanout = (x[0] for x in self.sizes(digits))
        levels = tuple(
            dataclasses.replace(
                level,
                capacity_words=None if level.capacity_words is None else int(capacity[i]),
                fanout=(int(fanout[i, 0]), int(fanout[i, 1])),
            )
            for i, level in enumerate(base.levels)
        )
        return dataclasses.replace(base, name=name or base.name, levels=levels, sizes="fixed")


# ---------------------------------------------------------------- UNICO's own spaces

_LOCAL = (16, 24, 32, 42, 48, 56, 64, 80, 84, 96, 112, 128, 154, 192, 256, 288, 512, 640, 768, 1024)
_SHARED_KIB = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 288, 384, 512, 640, 768, 1024)
_DATAFLOWS = ("os", "ws")
_SHARED, _DRAM = 1, 2  # levels, innermost first


@functools.cache
def _packaged(dataflow: str) -> Template:
    folder = importlib.resources.files("mohamjax.hardware").joinpath("templates")
    with importlib.resources.as_file(folder.joinpath(f"unico-{dataflow}.yaml")) as path:
        return load_template(path)


def _structure(dataflow: str, name: str, words: int, *, most: tuple[int, int, int], burst: int = 8) -> Template:
    """UNICO's template with shared rows and bandwidth of `words` words, and the largest sizes of a space."""
    base = _packaged(dataflow)
    local, shared, dram = base.levels
    array, local_words, shared_words = most
    return dataclasses.replace(
        base,
        name=name,
        levels=(
            dataclasses.replace(local, capacity_words=local_words),
            dataclasses.replace(
                shared,
                capacity_words=shared_words,
                block_words=words,
                bandwidth=(float(words), float(words)),
                fanout=(array, array),
            ),
            dataclasses.replace(dram, block_words=burst),
        ),
    )


@functools.cache
def _unico(name: str) -> HardwareSpace:
    shared = tuple(1024 * kib for kib in _SHARED_KIB)
    bits = tuple(range(16, 145, 16))
    sides = tuple(range(1, 25))
    most = (sides[-1], _LOCAL[-1], shared[-1])
    axes = (
        Axis("pe_x", sides, (("fanout_x", _SHARED),)),
        Axis("pe_y", sides, (("fanout_y", _SHARED),)),
        Axis("local_bytes", _LOCAL, (("capacity", 0),)),
        Axis("shared_bytes", shared, (("capacity", _SHARED),)),
        Axis("noc_bits", bits),
        Axis("dataflow", _DATAFLOWS),
    )
    variants = tuple(
        _structure(flow, f"unico-{flow}-{width}", width // 8, most=most) for width in bits for flow in _DATAFLOWS
    )
    return HardwareSpace(name, axes, variants)


@functools.cache
def _unico_ci() -> HardwareSpace:
    """A space of the size of the one that the open HASCO code searches for matrix products."""
    banks, bus, burst = tuple(range(1, 9)), (8, 16), (4, 8)
    local, shared = (64, 256, 1024), (16 * 1024, 64 * 1024, 256 * 1024)
    most = (32, local[-1], shared[-1])
    axes = (
        Axis("pe", (8, 16, 32), (("fanout_x", _SHARED), ("fanout_y", _SHARED))),
        Axis("local_bytes", local, (("capacity", 0),)),
        Axis("shared_bytes", shared, (("capacity", _SHARED),)),
        Axis("banks", banks),
        Axis("bus_bits", bus),
        Axis("burst_words", burst),
        Axis("dataflow", _DATAFLOWS),
    )
    variants = tuple(
        _structure(flow, f"unico-{flow}-{b}x{width}-{words}", b * width // 8, most=most, burst=words)
        for b in banks
        for width in bus
        for words in burst
        for flow in _DATAFLOWS
    )
    return HardwareSpace("unico-ci", axes, variants)


SPACES = ("unico-edge", "unico-cloud", "unico-ci")
"""Names of the packaged spaces. The first two are one space under two limits on power."""


def named_space(name: str) -> HardwareSpace:
    """A packaged space.

    - `unico-edge`, `unico-cloud`: arrays of 1 to 24 by 1 to 24 PEs, 20 local and 20 shared scratchpads, networks of 16
      to 144 bits per cycle, output- or weight-stationary: 4,147,200 points.
    - `unico-ci`: 1,728 points, for tests: square arrays, 3 local and 3 shared scratchpads, 1 to 8 banks of 8 or 16 bits
      that are read together, off-chip accesses of 4 or 8 words, two dataflows.

    Raises:
        InputError: there is no space of this name.
    """
    if name not in SPACES:
        raise InputError(f"unknown space {name!r}", argument="space", remedy=f"use one of {', '.join(SPACES)}")
    return _unico_ci() if name == "unico-ci" else _unico(name)


# ---------------------------------------------------------------- spaces of templates


def template_space(template: Template) -> HardwareSpace:
    """The space of all sizes of a template up to its own.

    The capacities of every limited buffer are its own, repeatedly halved, down to one granule (at least one word of
    each data space that it keeps). Every fanout above 1 takes all numbers if there are up to 24, else 24 along a
    logarithmic scale.

    Raises:
        InputError: the template has fixed sizes, or only one size.
    """
    if template.sizes == "fixed":
        raise InputError(
            "has fixed sizes: there is nothing to search", item=f"template {template.name}", remedy="write sizes: free"
        )
    axes: list[Axis] = []
    for i, level in enumerate(template.levels):
        if level.capacity_words is not None:
            granule = max(level.granularity_rows, 1) * (level.block_words if level.granularity_rows else 1)
            values = _halves(level.capacity_words, granule, max(sum(level.keep), 1))
            if len(values) > 1:
                axes.append(Axis(f"{level.name}_words", values, (("capacity", i),)))
        for name, most in zip(("fanout_x", "fanout_y"), level.fanout, strict=True):
            if most > 1:
                axes.append(Axis(f"{level.name}_{name}", _numbers(most), ((name, i),)))
    if not axes:
        raise InputError(
            "has one size only: there is nothing to search",
            item=f"template {template.name}",
            remedy="give it larger buffers or fanouts",
        )
    while math.prod(len(axis.values) for axis in axes) >= MOST_POINTS:
        longest = max(range(len(axes)), key=lambda a: len(axes[a].values))
        values = axes[longest].values
        thinned = tuple(sorted({*values[::2], values[-1]}))
        axes[longest] = dataclasses.replace(axes[longest], values=thinned)
    return HardwareSpace(template.name, tuple(axes[::-1]), (template,))


def _halves(full: int, granule: int, least: int) -> tuple[int, ...]:
    """`full`, repeatedly halved, in whole granules, down to the fewest that hold `least`; ascending."""
    values, size = {full}, full
    smallest = min(full, granule * max(1, -(-least // granule)))
    while size > smallest and len(values) < _SIZES - 1:
        size //= 2
        values.add(min(full, max(smallest, granule * -(-size // granule))))
    return tuple(sorted({*values, smallest}))


def _numbers(most: int) -> tuple[int, ...]:
    """Numbers from 1 to `most`: all of them, or a selection even on a logarithmic scale."""
    if most <= _LISTED:
        return tuple(range(1, most + 1))
    return tuple(sorted({round(v) for v in np.geomspace(1, most, _LISTED)}))


def check_layers(layers: Sequence[UniqueLayer], space: HardwareSpace) -> None:
    """Checks that every structure of a space runs every layer.

    Args:
        layers: unique layers.
        space: the space.

    Raises:
        InputError: a structure cannot run some layer; the message names the first one.
    """
    for template in {repr(t.dataflows): t for t in space.variants}.values():
        reasons = [fits(template, layer.type, layer.shape) for layer in layers]
        refused = [reason for reason in reasons if reason is not None]
        if refused:
            whole = (
                "runs none of the layers"
                if len(refused) == len(layers)
                else f"cannot run {len(refused)} of {len(layers)} unique layers"
            )
            raise InputError(
                f"{whole}: {refused[0]}",
                item=f"template {template.name}",
                remedy="choose one that runs every layer type of the networks",
            )
