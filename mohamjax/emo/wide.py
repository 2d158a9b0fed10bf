"""Ranks, archives and volumes as few wide kernels, for accelerators, with the same results as the forms for CPUs.

On an accelerator each step of a loop costs launches, and each round of a loop whose length depends on the data costs a
message to the host and back. Therefore ranking computes the longest chains inside all blocks at once by matrix
products, and then takes a number of steps that depends on N alone, for any number of fronts. The archive is thinned in
rounds: in each, all rows that are more crowded than each of their neighbours leave. The hypervolume processes all rows
at once.

Axes: N rows, M objectives, all minimised; K blocks of B rows; C slots of an archive.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.emo._arrays import measured
from mohamjax.emo.exclusive import guarded, least_product
from mohamjax.runtime.blocks import power_of_two, varying
from mohamjax.runtime.struct import select

_BLOCK = 256  # rows of a block, whose longest chains are computed beforehand
_SQUARED = 16  # rows whose chains are found by squaring the matrix; longer chains are joined from halves
_GROUP = 4  # blocks of a group, after which ranks are passed on to all later rows
_AT_ONCE = 8  # dominators that a row is compared with in one step of a reduction
_PHASES = 4  # phases of ranking; each compares only with the rows of its own and of later phases
_NEVER = -(1 << 28)  # stands for "no chain"; the sum of three is still an int32


def lexicographic(f: jax.Array, rows: int) -> tuple[list[jax.Array], jax.Array, jax.Array, jax.Array]:
    """Rows `[N, M]` in lexicographic order, padded by +inf to a multiple of `rows`.

    Returns:
        The columns except the first (which the order itself compares), padded; `passes` bool, true for the first of
        equal rows, false for padding, padded; `source` `[N]` int32, the row at each place; `representative` `[N]`
        int32, the place of the first of the rows that equal the row at each place.
    """
    n, m = f.shape
    index = jnp.arange(n, dtype=jnp.int32)
    *columns, source = lax.sort((*(f[:, k] for k in range(m)), index), num_keys=m)
    differs = functools.reduce(jnp.logical_or, [column[1:] != column[:-1] for column in columns])
    first = jnp.concatenate([jnp.ones(1, bool), differs])
    pad = (0, -n % rows)
    compared = [jnp.pad(column, pad, constant_values=jnp.inf) for column in columns[1:]]
    return compared, jnp.pad(first, pad), source, lax.cummax(jnp.where(first, index, 0))


def repeated(f: jax.Array) -> jax.Array:
    """`[N]` bool: rows of `[N, M]` that equal an earlier one, by sorting instead of comparing all pairs."""
    _, first, source, _ = lexicographic(f, 1)
    return jnp.zeros(f.shape[0], bool).at[source].set(~first, unique_indices=True)


def chains(f: jax.Array) -> jax.Array:
    """Non-dominated rank `[N]` int32 of rows `[N, M]`, M above 1: the longest chain of dominators of each row.

    Rows are taken in lexicographic order, where a dominator comes before the rows that it dominates. There are N / 256
    steps, regardless of the data.
    """
    n = f.shape[0]
    block = min(_BLOCK, power_of_two(n, _SQUARED))
    group = min(_GROUP, -(-n // block))
    compared, passes, source, representative = lexicographic(f, block * group)
    rows = passes.shape[0]
    longest = _longest(compared, passes, block)
    steps = rows // (block * group)

    def settle(rank: jax.Array, step: jax.Array, first: int) -> jax.Array:
        """Settles the ranks of a group and passes them on to the later rows; `rank` holds the rows from `first` on."""
        start = step * block * group
        here = jnp.arange(block * group)

        def window(x: jax.Array) -> jax.Array:
            return lax.dynamic_slice(x, (start,), (block * group,))

        columns, may = [window(c) for c in compared], window(passes)
        own = lax.dynamic_slice(rank, (start - first,), (block * group,))
        for b in range(group):
            part = slice(b * block, (b + 1) * block)
            inside = lax.dynamic_index_in_dim(longest, step * group + b, keepdims=False)
            settled = jnp.max(own[part][:, None] + inside, axis=0).astype(own.dtype)
            own = own.at[part].set(settled)
            if b + 1 < group:
                told = _told([c[part] for c in columns], columns, jnp.where(may[part], settled + 1, 0))
                own = jnp.where(here >= (b + 1) * block, jnp.maximum(own, told), own)
        told = _told(columns, [c[first:] for c in compared], jnp.where(may, own + 1, 0))
        later = jnp.arange(first, rows) >= start + block * group
        rank = jnp.where(later, jnp.maximum(rank, told), rank)
        return lax.dynamic_update_slice(rank, own, (start - first,))

    rank = varying(jnp.zeros(rows, jnp.int32), f)
    phases = _PHASES if steps >= 4 * _PHASES else 1
    borders = [steps * p // phases for p in range(phases + 1)]
    done = []
    for low, high in itertools.pairwise(borders):
        first, end = low * block * group, high * block * group
        if high - low == 1:
            rank = settle(rank, jnp.int32(low), first)
        else:
            rank = lax.fori_loop(low, high, lambda step, rank, first=first: settle(rank, step, first), rank)
        done.append(rank[: end - first])
        rank = rank[end - first :]
    chain = jnp.concatenate(done)[:n]
    return jnp.zeros(n, jnp.int32).at[source].set(chain[representative], unique_indices=True)


def _told(dominators: list[jax.Array], rows: list[jax.Array], pushed: jax.Array) -> jax.Array:
    """Largest `pushed` `[D]` of the dominators that are nowhere larger than each row; 0 if there is none.

    D is a multiple of `_AT_ONCE`, the number of dominators written out in one step of the reduction. XLA gives a block
    of rows and the whole reduction to a few warps; 1,024 steps were more than their registers hold.
    """
    groups = [d.reshape(-1, _AT_ONCE) for d in (*dominators, pushed)]

    def by(q: int) -> jax.Array:
        *columns, rank = (d[:, q, None] for d in groups)
        hit = functools.reduce(jnp.logical_and, [d <= r[None, :] for d, r in zip(columns, rows, strict=True)])
        return jnp.where(hit, rank, 0)

    return jnp.max(functools.reduce(jnp.maximum, map(by, range(_AT_ONCE))), axis=0)


def _longest(compared: list[jax.Array], passes: jax.Array, block: int) -> jax.Array:
    """`[K, B, B]` int32: dominations in the longest chain from row i to row j of a block, `_NEVER` without a chain.

    Chains of a few rows are found by squaring in the max-plus algebra. Chains of twice as many rows lie in either half,
    or lead from the first half to the second by one step.
    """

    def steps(size: int) -> jax.Array:
        """`[K', size, size]`: 1 where the row dominates the column, else `_NEVER`."""
        parts = [c.reshape(-1, size) for c in compared]
        below = functools.reduce(jnp.logical_and, [c[:, :, None] <= c[:, None, :] for c in parts])
        earlier = jnp.triu(jnp.ones((size, size), bool), 1)
        return jnp.where(below & earlier & passes.reshape(-1, size)[:, :, None], 1, _NEVER)

    size = min(_SQUARED, block)
    chain = jnp.where(jnp.eye(size, dtype=bool), 0, steps(size))
    for _ in range((size - 1).bit_length()):
        chain = _product(chain, chain)
    while size < block:
        first, second = chain[0::2], chain[1::2]
        across = _product(_product(first, steps(2 * size)[:, :size, size:]), second)
        size *= 2
        nothing = jnp.full_like(across, _NEVER)
        chain = jnp.concatenate(
            [jnp.concatenate([first, across], axis=2), jnp.concatenate([nothing, second], axis=2)], axis=1
        )
    return chain


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Product in the max-plus algebra, `[K, B, B]`."""
    return jnp.maximum(jnp.max(a[:, :, :, None] + b[:, None, :, :], axis=2), _NEVER)


# ---------------------------------------------------------------- the archive


_ROUNDS = 4  # rounds of thinning between two checks whether it is done
_STEPS = 32  # steps between two messages to the host


class _Thinning(NamedTuple):
    """State of thinning a full archive.

    Every objective has a linked list of the remaining rows in sorted order; N stands for "no neighbour".
    """

    gone: jax.Array  # [N] bool, rows that have left
    crowding: jax.Array  # [N], of rows that have left: the crowding with which they left
    previous: jax.Array  # [M, N] i32
    following: jax.Array  # [M, N] i32


class Slots(NamedTuple):
    """The slots of an archive, without their genes."""

    objectives: jax.Array  # [C, M], +inf where unused
    valid: jax.Array  # [C] bool, slots in use
    origin: jax.Array  # [C] i32, row that the genes of each slot come from; arbitrary where unused
    thinned: jax.Array  # [] i32, number of non-dominated designs dropped so far


class Chunks(NamedTuple):
    """A batch in chunks of R rows; one chunk without the leading axis."""

    objectives: jax.Array  # [chunks, R, M], +inf in padding
    source: jax.Array  # [chunks, R] i32, row that the genes of each row come from


Held: TypeAlias = tuple[jax.Array | None, jax.Array | None]
"""What keeps rows in a full archive: `[2, M]` ideal and reference point of the box in which rows are guarded, on the
axes of crowding, or None; and `[M]` exponents of the product whose least row stays, or None."""


def enter_chunks(slots: Slots, batch: Chunks, held: Held, *, log_crowding: bool) -> Slots:
    """The slots after chunks have entered one after another, thinned after each (`archive_update`).

    One chunk enters in every step of a loop; if thinning takes longer than a step, the next steps continue it. The host
    is asked once in `_STEPS` steps whether all chunks have entered.

    Args:
        slots: slots of the archive.
        batch: chunks of the batch.
        held: what keeps rows in the archive.
        log_crowding: static; see `archive_update`.
    """
    kept, (rows, source), (corners, powers) = slots.objectives, batch, held
    chunks, chunk, _ = rows.shape
    capacity = kept.shape[0]
    room, n = capacity - (powers is not None), capacity + chunk
    candidate = jnp.all(jnp.isfinite(rows), axis=2)
    rows = jnp.where(candidate[:, :, None], rows, jnp.inf)
    # Equal rows cover each other; the first of them stays.
    covered = _covers(rows, rows)
    earlier = jnp.triu(jnp.ones((chunk, chunk), bool), 1)
    candidate &= ~jnp.any(covered & (~jnp.swapaxes(covered, 1, 2) | earlier), axis=1)
    place = jnp.arange(n, dtype=jnp.int32)

    def step(_, carry):
        (at, busy, thinning), (kept, valid, origin, thinned) = carry
        now = jnp.minimum(at, chunks - 1)
        new = lax.dynamic_index_in_dim(rows, now, keepdims=False)
        enters = lax.dynamic_index_in_dim(candidate, now, keepdims=False) & ~jnp.any(_covers(kept, new), axis=0)
        leaves = jnp.any(_covers(jnp.where(enters[:, None], new, jnp.inf), kept), axis=0)
        objectives = jnp.concatenate([kept, new])
        alive = jnp.concatenate([valid & ~leaves, enters])
        excess = jnp.maximum(jnp.sum(alive, dtype=jnp.int32) - capacity, 0)
        values = measured(objectives, log_crowding)
        guard = guarded(values, alive, corners, room) | least_product(objectives, alive, powers)
        measure = _measure(values, alive)
        begun = _begun(measure, alive, guard)
        thinning = select(busy, thinning, begun)
        for _ in range(_ROUNDS):
            thinning = _round(thinning, measure, alive, guard)
        gone, done = _least(thinning, alive, excess)
        alive &= ~gone
        ahead = jnp.sum(alive[:, None] & (place[:, None] < place), axis=0, dtype=jnp.int32)
        wanted = alive[:, None] & (ahead[:, None] == place[:capacity])
        slot = jnp.max(jnp.where(wanted, place[:, None], 0), axis=0)
        used = place[:capacity] < jnp.sum(alive, dtype=jnp.int32)
        after = Slots(
            jnp.where(used[:, None], objectives[slot], jnp.inf),
            used,
            jnp.concatenate([origin, lax.dynamic_index_in_dim(source, now, keepdims=False)])[slot],
            thinned + excess,
        )
        enter = done & (at < chunks)
        slots = select(enter, after, Slots(kept, valid, origin, thinned))
        return (at + done, ~done, thinning), slots

    def several(carry):
        return lax.fori_loop(0, min(chunks, _STEPS), step, carry)

    m = rows.shape[2]
    idle = _Thinning(
        gone=jnp.zeros(n, bool),
        crowding=jnp.zeros(n, kept.dtype),
        previous=jnp.zeros((m, n), jnp.int32),
        following=jnp.zeros((m, n), jnp.int32),
    )
    carry = varying(((jnp.int32(0), jnp.bool_(False), idle), slots), slots, rows)
    return lax.while_loop(lambda carry: carry[0][0] < chunks, several, carry)[1]


def _covers(a: jax.Array, b: jax.Array) -> jax.Array:
    """`[..., A, B]` bool: row a is nowhere larger than row b."""
    columns = range(a.shape[-1])
    return functools.reduce(jnp.logical_and, [a[..., :, None, k] <= b[..., None, :, k] for k in columns])


class _Measure(NamedTuple):
    """Axes on which distances are measured."""

    half: jax.Array  # [M, N], objectives halved, so that the difference of two finite values is finite
    span: jax.Array  # [M], span of the halved rows; 1 where it is 0
    has_span: jax.Array  # [M] bool, whether the span is above 0


def _measure(objectives: jax.Array, alive: jax.Array) -> _Measure:
    half = objectives.T / 2
    span = jnp.max(jnp.where(alive, half, -jnp.inf), axis=1) - jnp.min(jnp.where(alive, half, jnp.inf), axis=1)
    has_span = span > 0
    return _Measure(half=half, span=jnp.where(has_span, span, 1), has_span=has_span)


def _distance(measure: _Measure, previous: jax.Array, following: jax.Array) -> jax.Array:
    """Crowding distance `[N]` of every row from its neighbours `[M, N]`."""
    half, n = measure.half, measure.half.shape[1]
    border = (previous == n) | (following == n)
    high = jnp.take_along_axis(half, jnp.minimum(following, n - 1), axis=1)
    gap = high - jnp.take_along_axis(half, jnp.minimum(previous, n - 1), axis=1)
    share = jnp.where(measure.has_span[:, None], gap / measure.span[:, None], 0)
    return jnp.sum(jnp.where(border, jnp.inf, share), axis=0)


def _begun(measure: _Measure, alive: jax.Array, guard: jax.Array) -> _Thinning:
    """The state before the first round; rows are sorted by counting, which is faster than a sort for so few rows."""
    half = measure.half
    m, n = half.shape
    place = jnp.arange(n, dtype=jnp.int32)
    other, own = half[:, :, None], half[:, None, :]
    before = alive[:, None] & ((other < own) | ((other == own) & (place[:, None] < place)))
    rank = jnp.sum(before, axis=1, dtype=jnp.int32)  # [M, N]

    # The row of every rank, with an n ("no neighbour") at either end. Rows that are not alive have no place in it. Rows
    # that are alive are finite, and their ranks differ.
    axis = jnp.arange(m, dtype=jnp.int32)[:, None]
    ordered = jnp.full((m, n + 2), n, jnp.int32)
    ordered = ordered.at[axis, jnp.where(alive, rank + 1, n + 2 + place)].set(place, mode="drop", unique_indices=True)
    previous, following = (jnp.take_along_axis(ordered, rank + step, axis=1) for step in (0, 2))
    crowding = jnp.where(alive & ~guard, _distance(measure, previous, following), jnp.inf)
    return _Thinning(gone=jnp.zeros(n, bool), crowding=crowding, previous=previous, following=following)


def _round(thinning: _Thinning, measure: _Measure, alive: jax.Array, guard: jax.Array) -> _Thinning:
    """All rows that are more crowded than each of their neighbours leave; rows of `guard` stay.

    A row that leaves makes its neighbours less crowded, never more. So a row that is more crowded than all its
    neighbours leaves before them in one-by-one thinning too, with its present crowding, even if others leave in
    between. Therefore all such rows can leave at once.
    """
    gone, crowding, previous, following = thinning
    n = crowding.shape[0]
    place = jnp.arange(n, dtype=jnp.int32)
    known = jnp.append(crowding, jnp.inf)

    def first(neighbour: jax.Array) -> jax.Array:
        theirs = known[neighbour]
        return jnp.all((crowding < theirs) | ((crowding == theirs) & (place < neighbour)), axis=0)

    falls = alive & ~gone & jnp.isfinite(crowding) & first(previous) & first(following)
    jumps = jnp.append(falls, False)

    def beyond(neighbour: jax.Array) -> jax.Array:
        further = jnp.take_along_axis(neighbour, jnp.minimum(neighbour, n - 1), axis=1)
        return jnp.where(jumps[neighbour], further, neighbour)

    gone |= falls
    previous, following = beyond(previous), beyond(following)
    renewed = _distance(measure, previous, following)
    crowding = jnp.where(alive & ~gone & ~guard, renewed, crowding)
    return _Thinning(gone=gone, crowding=crowding, previous=previous, following=following)


def _least(thinning: _Thinning, alive: jax.Array, excess: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mask `[N]` of the `excess` rows that leave first, and whether they are final.

    One by one, rows would leave in the order of their crowding, ties by place. So the rows are final once at least
    `excess` of those that have left come before all that remain.
    """
    crowding, n = thinning.crowding, thinning.crowding.shape[0]
    place = jnp.arange(n, dtype=jnp.int32)
    earlier = (crowding[:, None] < crowding) | ((crowding[:, None] == crowding) & (place[:, None] < place))
    gone = thinning.gone[:, None]
    number = jnp.sum(gone & earlier, axis=0, dtype=jnp.int32)
    stays = (alive & ~thinning.gone)[:, None]
    known = thinning.gone & ~jnp.any(stays & earlier, axis=0)
    leaves = thinning.gone & (number < excess)
    return leaves, jnp.sum(known, dtype=jnp.int32) >= excess


# ---------------------------------------------------------------- the hypervolume


def profiles(heights: jax.Array, ends: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Height covered in each strip before and after each row, `[N, N]` each; row r covers the strips below `ends[r]`.

    Args:
        heights: `[N]` floats, not negative, in the order of the rows.
        ends: `[N]` int32.
    """
    n = heights.shape[0]
    width = max(1, 1 << ((n - 1).bit_length() // 2))
    groups = -(-n // width)
    strip = jnp.arange(n, dtype=jnp.int32)
    own = jnp.where(strip < ends[:, None], heights[:, None], 0)
    own = jnp.pad(own, ((0, groups * width - n), (0, 0))).reshape(groups, width, n)
    earlier = jnp.triu(jnp.ones((width, width), bool), 1)
    within = jnp.max(jnp.where(earlier[:, :, None], own[:, :, None, :], 0), axis=1)
    of_group = jnp.max(own, axis=1)
    earlier = jnp.triu(jnp.ones((groups, groups), bool), 1)
    across = jnp.max(jnp.where(earlier[:, :, None], of_group[:, None, :], 0), axis=0)
    before = jnp.maximum(within, across[:, None, :])
    after = jnp.maximum(before, own)
    return before.reshape(-1, n)[:n], after.reshape(-1, n)[:n]
