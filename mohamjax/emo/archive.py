"""A bounded archive of every non-dominated design ever seen, with its genes.

Axes: C slots (capacity), B rows of a batch, M objectives, all minimised.
"""

from __future__ import annotations

import functools
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import keystr, tree_leaves_with_path
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_objectives, measured
from mohamjax.emo.exclusive import guarded, least_product
from mohamjax.emo.wide import Chunks, Held, Slots, enter_chunks
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record

Genes = TypeVar("Genes")
"""A pytree of arrays that describe individuals."""

_CHUNK = 512  # rows entered at a time; the work is O(B (C + _CHUNK)), linear in B


@record
class Archive(Generic[Genes]):
    """Mutually non-dominated, distinct designs in C slots.

    Attributes:
        genes: pytree, every leaf `[C, ...]`: the design of every slot; meaningless where `valid` is False.
        objectives: `[C, M]` floats, minimised; +inf where `valid` is False.
        valid: `[C]` bool, slots in use; they come first.
        thinned: `[]` int32, number of non-dominated designs dropped so far because the archive was full.
    """

    genes: Genes
    objectives: jax.Array
    valid: jax.Array
    thinned: jax.Array


def archive_init(
    capacity: int, genes_example: Genes, n_objectives: int, dtype: jax.typing.DTypeLike = jnp.float32
) -> Archive[Genes]:
    """An empty archive. Not jitted.

    Args:
        capacity: C, at least twice the number of objectives, so that the extremes always have room.
        genes_example: pytree of one design (no leading axis), for its shapes and dtypes only.
        n_objectives: M.
        dtype: Dtype of the objectives.

    Raises:
        ValueError: If the capacity cannot hold the extremes.
    """
    if n_objectives < 1 or capacity < 2 * n_objectives:
        raise ValueError(f"capacity: expected at least 2 slots per objective (M = {n_objectives}), got {capacity}")

    def empty(leaf: ArrayLike) -> jax.Array:
        one = jnp.asarray(leaf)
        return jnp.zeros((capacity, *one.shape), one.dtype)

    return Archive(
        genes=jax.tree.map(empty, genes_example),
        objectives=jnp.full((capacity, n_objectives), jnp.inf, dtype),
        valid=jnp.zeros(capacity, bool),
        thinned=jnp.int32(0),
    )


def archive_size(archive: Archive) -> jax.Array:
    """Number of slots in use, `[]` int32. Vmappable."""
    return jnp.sum(archive.valid, dtype=jnp.int32)


@functools.partial(jax.jit, static_argnames="log_crowding")
def archive_update(
    archive: Archive[Genes],
    genes: Genes,
    objectives: ArrayLike,
    *,
    log_crowding: bool = False,
    box: tuple[ArrayLike, ArrayLike] | None = None,
    exponents: ArrayLike | None = None,
) -> Archive[Genes]:
    """The archive after a batch has entered; jitted, B, C and M static, vmappable over archives.

    A row enters if all its objectives are finite, no row of archive or batch dominates it, and no row of the archive or
    earlier row of the batch equals it; rows that it dominates leave. If more than C remain, the row with the smallest
    crowding distance leaves, the distances of its neighbours are updated, and so on until C remain. Distances are those
    of `crowding_distance` over the remaining rows as one front; among equal distances the oldest slot leaves. The
    extremes of every objective have infinite distance and stay. A design dropped in this way is forgotten, so a later
    design that only it dominates may enter. With a box, the rows that reach furthest in it along some directions stay
    as well (`emo.exclusive`; there are 1,024 directions, and at most C / 2 and C - 2 M such rows), so that the
    hypervolume along these directions never falls. With exponents, the row of the least product of powers stays as
    well, which is no extreme and may be the most crowded one. Large batches enter in chunks of 512 rows, in order, and
    the archive is thinned after each chunk. On accelerators the steps differ (`emo.wide`), but the same rows are kept.

    Args:
        archive: From `archive_init` or an earlier update.
        genes: pytree of the structure given to `archive_init`, every leaf `[B, ...]`.
        objectives: `[B, M]` floats, cast to the archive's dtype.
        log_crowding: static; thin by the crowding of the objectives' logarithms, which keeps a front over several
            orders of magnitude evenly filled. Objectives must then not be negative.
        box: ideal and reference point, `[M]` each, the latter larger, in units of the objectives; with `log_crowding`
            their logarithms are used.
        exponents: `[M]`, exponents of the objectives in a product, which are then not negative.

    Raises:
        ValueError: If the number of objectives is not that of the archive, the genes have other shapes, or there is no
            slot for the least product beside the extremes.
    """
    new = as_objectives(objectives).astype(archive.objectives.dtype)
    capacity, m = archive.objectives.shape
    batch = new.shape[0]
    if new.shape[1] != m:
        raise ValueError(f"objectives: the archive has {m}, got {new.shape[1]}")
    for (path, leaf), own in zip(tree_leaves_with_path(genes), jax.tree.leaves(archive.genes), strict=True):
        if jnp.shape(leaf) != (batch, *own.shape[1:]):
            expected = (batch, *own.shape[1:])
            raise ValueError(f"genes{keystr(path)}: expected shape {expected}, got {jnp.shape(leaf)}")
    if exponents is not None and capacity <= 2 * m:
        raise ValueError(f"exponents: expected more than 2 slots per objective (M = {m}), got {capacity}")
    if batch == 0:
        return archive

    # Rows of the archive, then rows of the batch; the genes are moved once, at the end.
    chunk = min(batch, _CHUNK)
    chunks = -(-batch // chunk)
    padded = jnp.pad(new, ((0, chunks * chunk - batch), (0, 0)), constant_values=jnp.inf)
    source = jnp.arange(chunks * chunk, dtype=jnp.int32) + capacity
    corners = None if box is None else measured(jnp.stack([jnp.asarray(x, new.dtype) for x in box]), log_crowding)
    slots = Slots(archive.objectives, archive.valid, jnp.arange(capacity, dtype=jnp.int32), archive.thinned)
    rows = Chunks(padded.reshape(chunks, chunk, m), source.reshape(chunks, chunk))
    powers = None if exponents is None else jnp.asarray(exponents, new.dtype)
    enter = functools.partial(_enter_chunks, log_crowding=log_crowding)
    wide = functools.partial(enter_chunks, log_crowding=log_crowding)
    after: Slots = by_platform(slots, rows, (corners, powers), cpu=enter, wide=wide)
    # Only unused slots can still point to a padded row.
    origin = jnp.where(after.valid, after.origin, 0)
    held = jax.tree.map(lambda old, add: jnp.concatenate([old, add])[origin], archive.genes, genes)
    return Archive(genes=held, objectives=after.objectives, valid=after.valid, thinned=after.thinned)


def _enter_chunks(slots: Slots, chunks: Chunks, held: Held, *, log_crowding: bool) -> Slots:
    """The same as `wide.enter_chunks`, in the form for CPUs."""

    def enter(slots: Slots, chunk: Chunks) -> tuple[Slots, None]:
        return _enter(slots, chunk, held, log_crowding=log_crowding), None

    return lax.scan(enter, slots, chunks)[0]


def _enter(slots: Slots, batch: Chunks, held: Held, *, log_crowding: bool) -> Slots:
    """The slots after one chunk `[R, ...]` has entered."""
    kept, valid, origin, thinned = slots
    (corners, powers), (rows, source) = held, batch
    capacity, chunk = kept.shape[0], rows.shape[0]
    room = capacity - (powers is not None)
    candidate = jnp.all(jnp.isfinite(rows), axis=1)
    # Unused slots and rejected rows are +inf, which cover no finite row.
    rows = jnp.where(candidate[:, None], rows, jnp.inf)
    beaten_by_kept = jnp.any(_covers(kept, rows), axis=0)
    covered = _covers(rows, rows)
    index = jnp.arange(chunk)
    # Equal rows cover each other; the first of them stays.
    beaten_by_rows = jnp.any(covered & (~covered.T | (index[:, None] < index)), axis=0)
    enters = candidate & ~beaten_by_kept & ~beaten_by_rows
    # An entering row equals no kept row, so covering is dominance here.
    leaves = jnp.any(_covers(jnp.where(enters[:, None], rows, jnp.inf), kept), axis=0)

    objectives = jnp.concatenate([kept, rows])
    alive = jnp.concatenate([valid & ~leaves, enters])
    excess = jnp.maximum(jnp.sum(alive, dtype=jnp.int32) - capacity, 0)
    values = measured(objectives, log_crowding)
    # Rays are cast only if some row has to leave: in most generations of a search with a large archive none has to.
    guard = lax.cond(excess > 0, lambda: guarded(values, alive, corners, room), lambda: jnp.zeros(alive.shape, bool))
    guard |= least_product(objectives, alive, powers)
    alive = _thin(values, alive, excess, guard)
    slot = jnp.argsort(~alive, stable=True)[:capacity]
    valid = alive[slot]
    kept = jnp.where(valid[:, None], objectives[slot], jnp.inf)
    return Slots(kept, valid, jnp.concatenate([origin, source])[slot], thinned + excess)


def _covers(a: jax.Array, b: jax.Array) -> jax.Array:
    """`[A, B]` bool: row a is nowhere larger than row b."""
    result = a[:, None, 0] <= b[None, :, 0]
    for k in range(1, a.shape[1]):
        result &= a[:, None, k] <= b[None, :, k]
    return result


def _thin(objectives: jax.Array, alive: jax.Array, excess: jax.Array, guard: jax.Array) -> jax.Array:
    """The rows left after `excess` of the `alive` ones left, most crowded first, one at a time; `guard` rows stay.

    Every objective has a doubly linked list of the alive rows in sorted order, so that a removal updates two
    neighbours per objective instead of sorting anew.
    """
    n, m = objectives.shape
    axis = jnp.arange(m)
    half = objectives.T / 2  # [M, N]; halved, so that the difference of two finite values is finite
    values = jnp.where(alive, half, jnp.inf)
    order = jnp.argsort(values, axis=1, stable=True).astype(jnp.int32)
    count = jnp.sum(alive, dtype=jnp.int32)
    # n stands for "no neighbour".
    place = jnp.arange(n, dtype=jnp.int32)
    before = jnp.where(place == 0, n, jnp.roll(order, 1, axis=1))
    after = jnp.where(place >= count - 1, n, jnp.roll(order, -1, axis=1))
    empty = jnp.full((m, n + 1), n, jnp.int32)
    previous = empty.at[axis[:, None], order].set(before)
    following = empty.at[axis[:, None], order].set(after)
    smallest = jnp.min(values, axis=1)
    largest = jnp.max(jnp.where(alive, half, -jnp.inf), axis=1)
    span = largest - smallest
    has_span = span > 0

    def distance(row: jax.Array, previous: jax.Array, following: jax.Array) -> jax.Array:
        """Crowding distance of rows `[K]`, from their neighbours in every objective."""
        low, high = previous[:, row], following[:, row]  # [M, K]
        border = (low == n) | (high == n)
        take = axis[:, None]
        gap = half[take, jnp.minimum(high, n - 1)] - half[take, jnp.minimum(low, n - 1)]
        share = jnp.where(has_span[:, None], gap / jnp.where(has_span, span, 1)[:, None], 0)
        return jnp.sum(jnp.where(border, jnp.inf, share), axis=0)

    falls = alive & ~guard
    crowding = jnp.where(falls, distance(place, previous, following), jnp.inf)

    def remove(_, state):
        alive, crowding, previous, following = state
        row = jnp.argmin(crowding)
        low, high = previous[:, row], following[:, row]  # [M]
        following = following.at[axis, low].set(high)
        previous = previous.at[axis, high].set(low)
        alive = alive.at[row].set(False)
        crowding = crowding.at[row].set(jnp.inf)
        touched = jnp.concatenate([low, high])
        inside = jnp.minimum(touched, n - 1)
        renewed = jnp.where(alive[inside] & ~guard[inside], distance(inside, previous, following), jnp.inf)
        crowding = crowding.at[touched].set(renewed, mode="drop")
        return alive, crowding, previous, following

    return lax.fori_loop(0, excess, remove, (alive, crowding, previous, following))[0]
