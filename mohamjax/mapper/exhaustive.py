"""Enumerates every mapping of a small map space: its true Pareto set, and how many mappings there are.

The factor splits are listed on the host, dimension by dimension; a partial split that already breaks a fanout or a
capacity is dropped with everything below it, since further factors only make it larger. Every split that remains is
combined with all its loop orders. The cost model tells only some of these apart: one order of each class is evaluated.
A mapping is an index (row of the split, class of the orders in mixed radix), decoded inside the jitted evaluation.

With link transfers off, orders have equal cost (`mapping.cost`) by these rules:

- the place of a loop of bound 1 does not matter;
- at level 0 no order matters, since every MAC takes one word of each data space per cycle;
- for weights and outputs the innermost run of loops that do not move them is free in any order;
- for inputs a delivery is cheaper than the whole tile only in the innermost run of loops along one sliding axis (and
  K, which does not move them); from the first loop off that axis outwards, any order costs whole tiles;
- the order of spatial loops affects wires alone, hence nothing where a hop costs nothing.

Axes are those of `mapping.space`: S = 3 L slots, L levels, D dimensions; B mappings of a batch.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import C, K, N, P, Q, R, S, tensor_words
from mohamjax.errors import InputError
from mohamjax.hardware import Technology, Template, fits
from mohamjax.mapper.one_axis import kept_templates, over_variants
from mohamjax.mapper.problems import MapperContext, children_room, context
from mohamjax.mapping import Mapping, MappingTables, on_own_hardware, tabulate_sets
from mohamjax.mapping.children import table_room
from mohamjax.mapping.nest import Array
from mohamjax.mapping.space import MapSpace
from mohamjax.mapping.tables import assemble, undominated
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.programs import at_this_precision, jit_o1
from mohamjax.runtime.struct import record
from mohamjax.workload import DIMS, UniqueLayer

_FREE_OF_WEIGHTS = {N, P, Q}
_FREE_OF_OUTPUTS = {C, R, S}
_SLIDES = {P: 0, R: 0, Q: 1, S: 1}

_ROWS = 1 << 17  # partial splits held at a time
_BATCH = 2048
_FRONT = 1024  # rows of the front that a batch is compared with inside jit


@dataclasses.dataclass(frozen=True)
class SpaceSize:
    """How large a map space is.

    Attributes:
        splits: ways to split the loop bounds into factors that break no constraint, fanout or capacity.
        mappings: splits with all their loop orders, in which loops of bound 1 do not count.
        classes: mappings whose orders the cost model can tell apart: those evaluated.
    """

    splits: int
    mappings: int
    classes: int


@dataclasses.dataclass(frozen=True)
class ExhaustiveProgress:
    """Progress of an enumeration.

    Attributes:
        problems: (unique layer, template) pairs in all.
        done: pairs enumerated.
        evaluations: mappings evaluated so far, in all pairs.
        total: mappings to evaluate in all.
        seconds: since the first evaluation began, compiling included.
    """

    problems: int
    done: int
    evaluations: int
    total: int
    seconds: float


# ---------------------------------------------------------------- loop orders


def _input_run(loops: Sequence[int]) -> tuple[int, ...]:
    """The innermost loops whose order the deliveries of inputs depend on; -1 for a loop that moves whole tiles."""
    run: list[int] = []
    axis = None
    for d in loops:
        if d == K:
            run.append(d)
        elif d not in _SLIDES:
            return (*run, -1) if axis is None else tuple(run)
        elif axis in (None, _SLIDES[d]):
            axis = _SLIDES[d]
            run.append(d)
        else:
            break
    return tuple(run)


def _signature(loops: Sequence[int]) -> tuple[object, ...]:
    """What the cost model reads from a temporal order, innermost loop first."""
    weights = frozenset(itertools.takewhile(_FREE_OF_WEIGHTS.__contains__, loops))
    outputs = frozenset(itertools.takewhile(_FREE_OF_OUTPUTS.__contains__, loops))
    return weights, outputs, _input_run(loops)


@functools.cache
def order_classes(mask: int, prescribed: tuple[int, ...], kind: str) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Loop orders of one level, or of one of its axes: one for each class of orders of equal cost.

    Args:
        mask: bit d is set where the loop over dimension d has a bound above 1.
        prescribed: dimensions that the template puts innermost, in this order.
        kind: `temporal`, `spatial` (all orders differ in cost) or `free` (no two differ).

    Returns:
        Permutations of all D dimensions, with loops of bound 1 outermost, and the number of all orders.
    """
    first = [d for d in prescribed if mask >> d & 1]
    rest = [d for d in range(len(DIMS)) if mask >> d & 1 and d not in first]
    idle = [d for d in range(len(DIMS)) if not mask >> d & 1]
    count = math.factorial(len(rest))
    if kind == "free":
        return (_complete(first + rest, idle, prescribed),), count
    found: dict[tuple[object, ...], tuple[int, ...]] = {}
    for tail in itertools.permutations(rest):
        loops = (*first, *tail)
        found.setdefault(loops if kind == "spatial" else _signature(loops), loops)
    return tuple(_complete(loops, idle, prescribed) for loops in found.values()), count


def _complete(loops: Sequence[int], idle: Sequence[int], prescribed: Sequence[int]) -> tuple[int, ...]:
    """A whole permutation: the prescribed dimensions innermost, bound 1 or not, then the other loops, then the rest."""
    named = [d for d in prescribed if d in loops or d in idle]
    tail = [d for d in loops if d not in named]
    return (*named, *tail, *(d for d in idle if d not in named))


@record
class _Radix:
    """Tables by which an index is decoded into a mapping.

    Attributes:
        factors: `[D, N, S]` int32, the factor splits of each dimension, padded.
        first: `[S, 2^D]` int32, row of `orders` where the classes of a slot's loops begin, by mask.
        count: `[S, 2^D]` int32, how many there are.
        orders: `[R, D]` int32, permutations, padded.
    """

    factors: Array
    first: Array
    count: Array
    orders: Array


# ---------------------------------------------------------------- factor splits


def _splits(space: MapSpace, d: int) -> np.ndarray:
    """`[N, S]` int64: every way to deal a bound of a dimension to slots within their limits and fanouts."""
    most = np.minimum(np.asarray(space.limit, np.float64)[:, d], np.asarray(space.fanout, np.float64))
    slots = most.shape[0]
    open_ = [s for s in range(slots) if most[s] > 1 and s != int(space.outermost)]
    rows: list[list[int]] = []

    def deal(place: int, left: int, row: list[int]) -> None:
        if place == len(open_):
            row[int(space.outermost)] = left
            rows.append(row.copy())
            row[int(space.outermost)] = 1
            return
        slot = open_[place]
        for factor in (f for f in _divisors(left) if f <= most[slot]):
            row[slot] = factor
            deal(place + 1, left // factor, row)
        row[slot] = 1

    for bound in dict.fromkeys(np.asarray(space.bounds)[:, d].tolist()):
        deal(0, bound, [1] * slots)
    return np.asarray(rows, np.int64)


@functools.cache
def _divisors(n: int) -> tuple[int, ...]:
    """Divisors of n, ascending."""
    small = [f for f in range(1, math.isqrt(n) + 1) if n % f == 0]
    return tuple(sorted({*small, *(n // f for f in small)}))


class _Space:
    """One map space on the host: its factor splits, loop orders and their number."""

    def __init__(self, problem: MapperContext, limit: float = math.inf) -> None:
        """Lists the factor splits, and counts the mappings until there are more than `limit` classes."""
        self.problem = problem
        space = jax.device_get(problem.space)
        machine = jax.device_get(problem.template.machine)
        self.space = space
        self.levels = space.capacity.shape[0]
        self.splits = [_splits(space, d) for d in range(len(DIMS))]
        self.dims = sorted(
            (d for d in range(len(DIMS)) if (self.splits[d] > 1).any()), key=lambda d: len(self.splits[d])
        )  # short lists first: fewer partial splits in all; a loop with one split still has its place in the orders
        # Extents of a split inside each level, `[N, L]`.
        self.extents = [
            np.cumprod(s.reshape(-1, 3, self.levels).prod(axis=1, dtype=np.float64), axis=1) for s in self.splits
        ]
        self.fanout = np.asarray(space.fanout, np.float64)[self.levels :]
        self.capacity = np.asarray(space.capacity, np.float64)
        self.keep = np.asarray(space.constraints.keep)
        # Orders along an axis count only where a hop costs something.
        wired = (np.asarray(machine.hop_energy) > 0) | np.asarray(problem.template.wired)
        kinds = ["free", *["temporal"] * (self.levels - 1), *["spatial" if w else "free" for w in (*wired, *wired)]]
        prescribed = [tuple(int(d) for d in row if d >= 0) for row in np.asarray(space.constraints.order)]
        self.orders = list(zip([*prescribed, *[()] * (2 * self.levels)], kinds, strict=True))
        self.size = self._size(limit)

    def legal(self, rows: np.ndarray) -> np.ndarray:
        """`[n]` bool: partial splits (`[n, D]` rows of `splits`) that break neither fanout nor capacity."""
        extent = [self.extents[d][rows[:, d]] for d in range(len(DIMS))]  # [n, L] each
        stride, dilation = np.asarray(self.space.layer.stride), np.asarray(self.space.layer.dilation)
        tiles = tensor_words(extent, stride, dilation)
        used = sum(np.where(self.keep[:, v], tile, 0) for v, tile in enumerate(tiles))
        fine = (used <= self.capacity).all(axis=1)
        children = functools.reduce(
            np.multiply, [self.splits[d][rows[:, d]][:, self.levels :].astype(np.float64) for d in self.dims], 1.0
        )
        return np.logical_and(fine, (children <= self.fanout).all(axis=-1))

    def batches(self) -> Iterator[np.ndarray]:
        """All legal splits, as `[n, D]` int32 rows of `splits`, in parts."""

        def extend(rows: np.ndarray, place: int) -> Iterator[np.ndarray]:
            if place == len(self.dims):
                yield rows
                return
            d = self.dims[place]
            number = len(self.splits[d])
            for part in np.array_split(rows, -(-len(rows) * number // _ROWS)):
                wider = np.repeat(part, number, axis=0)
                wider[:, d] = np.tile(np.arange(number, dtype=np.int32), len(part))
                wider = wider[self.legal(wider)]
                if len(wider):
                    yield from extend(wider, place + 1)

        whole = np.zeros((1, len(DIMS)), np.int32)
        if self.legal(whole)[0]:
            yield from extend(whole, 0)

    def masks(self, rows: np.ndarray) -> np.ndarray:
        """`[n, S]` int64: which loops of each slot have a bound above 1."""
        masks = np.zeros((len(rows), 3 * self.levels), np.int64)
        for d in self.dims:
            masks |= (self.splits[d][rows[:, d]] > 1).astype(np.int64) << d
        return masks

    def counts(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Orders of each split: (classes, all), `[n]` float64 each."""
        masks = self.masks(rows)
        classes, every = np.ones(len(rows)), np.ones(len(rows))
        for s, (prescribed, kind) in enumerate(self.orders):
            values, where = np.unique(masks[:, s], return_inverse=True)
            found = [order_classes(int(m), prescribed, kind) for m in values]
            classes *= np.asarray([len(orders) for orders, _ in found], np.float64)[where]
            every *= np.asarray([number for _, number in found], np.float64)[where]
        return classes, every

    def _size(self, limit: float) -> SpaceSize:
        """Counts splits, mappings and classes, until there are more than `limit` classes."""
        splits, classes, every = 0, 0.0, 0.0
        for rows in self.batches():
            some, all_ = self.counts(rows)
            splits, classes, every = splits + len(rows), classes + some.sum(), every + all_.sum()
            if classes > limit:
                break
        return SpaceSize(splits=splits, mappings=int(every), classes=int(classes))

    def radix(self) -> _Radix:
        """The tables of the decoder."""
        most = power_of_two(max(len(s) for s in self.splits), 1024)
        factors = np.ones((len(DIMS), most, 3 * self.levels), np.int32)
        for d, split in enumerate(self.splits):
            factors[d, : len(split)] = split
        masks = 1 << len(DIMS)
        first, count = np.zeros((3 * self.levels, masks), np.int32), np.ones((3 * self.levels, masks), np.int32)
        orders: list[tuple[int, ...]] = []
        begins: dict[tuple[tuple[int, ...], ...], int] = {}
        for s, (prescribed, kind) in enumerate(self.orders):
            possible = sum(1 << d for d in self.dims if (self.splits[d][:, s] > 1).any())
            for mask in (m for m in range(masks) if m & ~possible == 0):
                found = order_classes(mask, prescribed, kind)[0]
                if found not in begins:
                    begins[found] = len(orders)
                    orders.extend(found)
                first[s, mask], count[s, mask] = begins[found], len(found)
        table = np.tile(np.arange(len(DIMS), dtype=np.int32), (power_of_two(len(orders), 1024), 1))
        table[: len(orders)] = orders
        return _Radix(factors=factors, first=first, count=count, orders=table)


def space_size(
    layer: UniqueLayer, template: Template, technology: Technology, *, limit: float = math.inf, padding: bool = True
) -> SpaceSize:
    """Counts the mappings of one layer on one template.

    Args:
        layer: the layer.
        template: a template that runs it.
        technology: energy and area tables.
        limit: stop counting once there are more classes than this.
        padding: see `MapperConfig`.

    Raises:
        InputError: the template does not run layers of this type.
    """
    sizes = [_Space(context(layer, kept, technology, padding=padding), limit).size for kept in kept_templates(template)]
    return SpaceSize(*(sum(numbers) for numbers in zip(*map(dataclasses.astuple, sizes), strict=True)))


# ---------------------------------------------------------------- evaluation


def _decode(rows: Array, rest: Array, radix: _Radix, keep: Array) -> Mapping:
    """Mappings, batch last, from rows of the splits `[B, D]` and classes of their orders `[B]` in mixed radix."""
    factors = jnp.stack([radix.factors[d][rows[:, d]] for d in range(len(DIMS))])  # [D, B, S]
    bits = (1 << jnp.arange(len(DIMS), dtype=jnp.int32))[:, None, None]
    masks = jnp.sum((factors > 1) * bits, axis=0, dtype=jnp.int32)  # [B, S]
    orders = []
    for s in range(factors.shape[-1]):
        number = radix.count[s][masks[:, s]]
        orders.append(radix.orders[radix.first[s][masks[:, s]] + rest % number])
        rest = rest // number
    shape = (3, -1, len(DIMS), rows.shape[0])
    factor, order = jnp.transpose(factors, (2, 0, 1)).reshape(shape), jnp.moveaxis(jnp.stack(orders), 1, -1)
    order = order.reshape(shape)
    return Mapping(
        temporal=factor[0],
        order=order[0],
        spatial=factor[1:],
        spatial_order=order[1:],
        keep=jnp.broadcast_to(keep[..., None], (*keep.shape, rows.shape[0])),
    )


@record
class _Batch:
    """Mappings of a batch by their indices.

    Attributes:
        rows: `[B, D]` int32, rows of the splits.
        orders: `[B]` int32, classes of the loop orders, in mixed radix.
        valid: `[B]` bool; the others are padding.
    """

    rows: Array
    orders: Array
    valid: Array


@functools.partial(jit_o1, static_argnames=("fixed", "max_children"))
def _evaluate(
    batch: _Batch, front: Array, radix: _Radix, problem: MapperContext, *, fixed: bool, max_children: int
) -> tuple[Array, Array]:
    """Objectives `[B, 3]` of a batch, and which valid mappings no row of `front` `[F, 3]` equals or dominates."""
    mapping = _decode(batch.rows, batch.orders, radix, problem.space.constraints.keep)
    own = on_own_hardware(
        problem.space.layer, mapping, problem.template, problem.technology, fixed=fixed, max_children=max_children
    )
    values = jnp.stack([own.cycles.total if fixed else own.cycles.onchip, own.energy.total, own.area], axis=-1)
    covered = jnp.any(jnp.all(front[:, None] <= values, axis=-1), axis=0)
    return values, batch.valid & (own.reason == 0) & ~covered


@jax.jit
def _mappings(rows: Array, rest: Array, radix: _Radix, keep: Array) -> Mapping:
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0), _decode(rows, rest, radix, keep))


class _Front:
    """The non-dominated rows met so far: objectives `[n, 3]` and indices `[n, D + 1]`, by rising latency."""

    def __init__(self, dtype: np.typing.DTypeLike) -> None:
        self.objectives = np.zeros((0, 3), dtype)
        self.index = np.zeros((0, len(DIMS) + 1), np.int32)

    def enter(self, objectives: np.ndarray, index: np.ndarray) -> None:
        """Merges a batch; of rows that are equal in all objectives, the first index stays."""
        values = np.concatenate([self.objectives, objectives])
        source = np.concatenate([self.index, index])
        chosen: list[int] = []
        best = np.zeros((len(values), 3), values.dtype)
        for i in np.lexsort((*source.T[::-1], *values.T[::-1])):
            if not (best[: len(chosen)] <= values[i]).all(axis=1).any():
                best[len(chosen)] = values[i]
                chosen.append(int(i))
        self.objectives, self.index = values[chosen], source[chosen]

    def bait(self) -> np.ndarray:
        """Evenly picked rows of the front, `[_FRONT, 3]`, that reject most of a batch inside jit."""
        rows = np.full((_FRONT, 3), np.inf, self.objectives.dtype)
        pick = np.unique(np.linspace(0, len(self.objectives) - 1, _FRONT).astype(int)) if len(self.objectives) else []
        rows[: len(pick)] = self.objectives[pick]
        return rows


def _search(space: _Space, fixed: bool, count: Callable[[int], None], threads: int) -> tuple[_Front, Mapping]:
    """The front of one space with its mappings `[M, ...]`.

    Args:
        space: the map space.
        fixed: see `MapperConfig`.
        count: called with the number of mappings of each batch.
        threads: batches evaluated at a time.
    """
    problem = space.problem
    radix = jax.tree.map(jnp.asarray, space.radix())
    dtype = problem.template.machine.capacity.dtype
    front = _Front(dtype)
    machine = jax.device_get(problem.template.machine)
    whole = fixed or bool(problem.template.sized)  # wires then count on the whole arrays
    room = table_room(np.prod(machine.fanout, axis=-1).max()) if whole else children_room([problem.space])

    def run(rows: np.ndarray, rest: np.ndarray, bait: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        number = len(rest)
        index = np.zeros((_BATCH, len(DIMS) + 1), np.int32)
        index[:number, :-1], index[:number, -1] = rows, rest
        batch = _Batch(rows=index[:, :-1], orders=index[:, -1], valid=np.arange(_BATCH) < number)
        values, keep = jax.device_get(_evaluate(batch, bait, radix, problem, fixed=fixed, max_children=room))
        count(number)
        return values[keep], index[keep]

    run_here = at_this_precision(run)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting: list[concurrent.futures.Future[tuple[np.ndarray, np.ndarray]]] = []
        for rows, rest in _indices(space):
            waiting.append(pool.submit(run_here, rows, rest, front.bait()))
            while len(waiting) > threads:
                front.enter(*waiting.pop(0).result())
        for future in waiting:
            front.enter(*future.result())
    mappings = jax.device_get(_mappings(front.index[:, :-1], front.index[:, -1], radix, problem.space.constraints.keep))
    return front, mappings


def _indices(space: _Space) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All mappings as (rows of the splits `[n, D]`, class of the orders `[n]`), n at most `_BATCH`."""
    rows, left = np.zeros((0, len(DIMS)), np.int32), np.zeros(0, np.int64)
    for more in space.batches():
        rows = np.concatenate([rows, more])
        left = np.concatenate([left, space.counts(more)[0].astype(np.int64)])
        ends = np.cumsum(left)
        begin = 0
        while ends.size and ends[-1] - begin >= _BATCH:
            yield _slice(rows, left, ends, begin, begin + _BATCH)
            begin += _BATCH
        # The rest may start inside a split, of which the first classes are done.
        keep = int(np.searchsorted(ends, begin, side="right"))
        skip = begin - (ends[keep - 1] if keep else 0)
        if skip:
            stop = int(ends[keep])
            yield _slice(rows, left, ends, begin, stop)
            keep += 1
        rows, left = rows[keep:], left[keep:]
    if len(left):
        ends = np.cumsum(left)
        for begin in range(0, int(ends[-1]), _BATCH):
            yield _slice(rows, left, ends, begin, min(begin + _BATCH, int(ends[-1])))


def _slice(
    rows: np.ndarray, left: np.ndarray, ends: np.ndarray, begin: int, stop: int
) -> tuple[np.ndarray, np.ndarray]:
    """The mappings numbered `begin` to `stop` of these splits."""
    number = np.arange(begin, stop)
    which = np.searchsorted(ends, number, side="right")
    return rows[which], (number - (ends[which] - left[which])).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class Enumeration:
    """Finds the true Pareto sets of every layer on every template that can run it, by enumeration.

    Compiles once per number of levels and padded sizes. Two mappings of equal objectives count as one.

    Attributes:
        layers: unique layers, U of them.
        templates: templates, T of them.
        technology: energy and area tables.
        limit: largest number of mappings to evaluate per layer and template.
        padding: whether mappings may cover larger bounds, see `MapperConfig`; the sets then span all mappings that the
            mapper might try.
        fixed: evaluate on the templates at their largest sizes, see `MapperConfig`.
        dtype: float dtype; float64 needs JAX's x64 mode.
        threads: batches evaluated at a time; 0 for the number of cores.
        progress: called after every batch, from worker threads.
        announce: called with the size of each space before anything is evaluated.
    """

    layers: Sequence[UniqueLayer]
    templates: Sequence[Template]
    technology: Technology
    _: dataclasses.KW_ONLY
    limit: int = 10**8
    padding: bool = True
    fixed: bool = False
    dtype: jax.typing.DTypeLike = jnp.float32
    threads: int = 0
    progress: Callable[[ExhaustiveProgress], None] | None = None
    announce: Callable[[UniqueLayer, Template, SpaceSize], None] | None = None

    @property
    def levels(self) -> int:
        """L, of the deepest template."""
        return max(len(template.levels) for template in self.templates)

    def tables(self) -> MappingTables:
        """Enumerates all spaces, for every choice of the bypasses that a template leaves open.

        Returns:
            `MappingTables` `[U, T, M, ...]` like those of `LayerMapper`, with M the size of the largest set.

        Raises:
            InputError: a space has more mappings than `limit`.
        """
        if any(template.bypasses for template in self.templates):
            parts = [kept_templates(template) for template in self.templates]
            return over_variants(lambda own: dataclasses.replace(self, templates=own).tables(), parts, self.layers)
        spaces = self._spaces()
        tally = _Tally(len(spaces), sum(space.size.classes for space in spaces.values()), self.progress)
        found = {}
        for place, space in spaces.items():
            found[place] = _search(space, self.fixed, tally.count, self.threads or os.cpu_count() or 1)
            tally.end()
        most = max([1, *(len(front.objectives) for front, _ in found.values())])
        sets = self._tabulated(spaces, found, most) if found else {}
        return assemble(sets, len(self.layers), len(self.templates), most, self.levels, self.dtype)

    def _spaces(self) -> dict[tuple[int, int], _Space]:
        """The map spaces by (layer, template); InputError if one is too large."""
        spaces: dict[tuple[int, int], _Space] = {}
        for u, layer in enumerate(self.layers):
            for t, template in enumerate(self.templates):
                if fits(template, layer.type, layer.shape) is not None:
                    continue
                problem = context(
                    layer, template, self.technology, levels=self.levels, dtype=self.dtype, padding=self.padding
                )
                space = spaces[u, t] = _Space(problem, self.limit)
                if space.size.classes > self.limit:
                    raise InputError(
                        f"has more than {self.limit:,} mappings of different cost on template {template.name}",
                        item=f"{layer.type} layer {layer.shape}",
                        remedy="search it instead, or raise the argument `limit`",
                    )
                if self.announce is not None:
                    self.announce(layer, template, space.size)
        return spaces

    def _tabulated(
        self,
        spaces: dict[tuple[int, int], _Space],
        found: dict[tuple[int, int], tuple[_Front, Mapping]],
        most: int,
    ) -> dict[tuple[int, int], MappingTables]:
        """The fronts as sets of at most `most` entries."""
        problems = [spaces[place].problem for place in found]
        rows = [
            (own.space.layer, own.template, jax.tree.map(lambda x: np.resize(x, (most, *x.shape[1:])), mappings))
            for own, (_, mappings) in zip(problems, found.values(), strict=True)
        ]
        layers, templates, mappings = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        sizes = np.array([len(front.objectives) for front, _ in found.values()])
        technology = problems[0].technology
        table = undominated(tabulate_sets(layers, templates, technology, mappings, sizes, fixed=self.fixed))
        return {place: jax.tree.map(lambda leaf, i=i: leaf[i], table) for i, place in enumerate(found)}


class _Tally:
    """Counts the progress of an enumeration."""

    def __init__(self, problems: int, total: int, progress: Callable[[ExhaustiveProgress], None] | None) -> None:
        self._problems, self._total, self._progress = problems, total, progress
        self._done = self._evaluations = 0
        self._began = time.perf_counter()
        self._lock = threading.Lock()  # batches are counted by the threads that evaluate them

    def count(self, evaluations: int) -> None:
        """Counts the mappings of a batch."""
        with self._lock:
            self._evaluations += evaluations
            self._report()

    def end(self) -> None:
        """Counts one space as enumerated."""
        with self._lock:
            self._done += 1
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            seconds = time.perf_counter() - self._began
            self._progress(ExhaustiveProgress(self._problems, self._done, self._evaluations, self._total, seconds))
