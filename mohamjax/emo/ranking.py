"""NSGA-II's order of a population: non-dominated rank, crowding distance, survival, tournament; and constraints.

A search only ranks vectors, so a row that breaks a limit must be worse than all feasible rows. This is Deb's
constrained dominance: feasible rows come before infeasible ones, and infeasible rows are ordered by violation. All
objectives of an infeasible row become one number that grows with its violation, so that plain dominance gives this
order.

Axes: N rows (designs), M objectives, all minimised. NaN counts as +inf; two infinities tie. Every public
function but those of constraints is jitted; N, M and the arguments called static recompile when they change. All
are vmappable.
Source: Deb, Pratap, Agarwal, Meyarivan, "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import ArrayLike

from mohamjax.emo._arrays import as_floats, as_objectives, as_ordered, narrowed, precision, rank_values, traced_integers
from mohamjax.emo.exclusive import depth, exclusive_volume
from mohamjax.emo.wide import chains, lexicographic, repeated
from mohamjax.runtime.platforms import by_platform

_WORD = 32  # bits per word of the dominance matrix
_BLOCK = 32  # rows whose ranks are settled, then pushed to all later rows, in one pass
_PEEL_LIMIT = 2048  # rows up to which 'auto' peels on a CPU; set from experiments/bench_ranking.py
_METHODS = ("auto", "peel", "blocked", "wide")

PENALTY = 1e30
"""Smallest objective of an infeasible row; feasible objectives must stay below it."""

_MOST = 1e7  # larger violations count as equal; PENALTY times this is still a finite float32


def non_dominated_rank(objectives: ArrayLike, *, method: str = "auto") -> jax.Array:
    """Index of the front that every row belongs to, exactly by definition.

    A row dominates another if it is nowhere larger and somewhere smaller. Front 0 holds the rows that no row
    dominates, front k those that only rows of fronts below k dominate. Equal rows share a front.

    Args:
        objectives: `[N, M]` floats, minimised. NaN counts as +inf, and inf ties with inf.
        method: Static. 'peel' keeps the dominance relation as a matrix of bits (N^2 / 8 bytes) and peels
            front by front, O(N^2) work per 32 fronts. 'blocked' sorts the rows lexicographically and finds
            the longest chain of dominators block by block, O(N^2 M) comparisons but O(N) memory, for any
            number of fronts. 'wide' does the same in large blocks, whose longest chains it finds all at once, in
            a number of kernels that does not depend on the data; it is for accelerators. 'auto' takes on a CPU
            the faster of the first two for N (experiments/bench_ranking.py), elsewhere 'wide'. All give the same
            ranks.

    Returns:
        `[N]` int32, from 0 without gaps.

    Raises:
        ValueError: If `objectives` does not have two axes, or the method is unknown.

    Examples:
        >>> non_dominated_rank(jnp.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0]]))
        Array([0, 0, 1], dtype=int32)
    """
    if method not in _METHODS:
        raise ValueError(f"method: expected one of {', '.join(_METHODS)}, got {method!r}")
    with precision(objectives):
        return _rank(as_ordered(objectives), method)


@functools.partial(jax.jit, static_argnames="method")
def _rank(f: jax.Array, method: str) -> jax.Array:
    n, m = f.shape
    if n == 0:
        return jnp.zeros(0, jnp.int32)
    if m == 1:
        return rank_values(f[:, 0])
    if method == "auto":
        return by_platform(f, cpu=_rank_peel if n <= _PEEL_LIMIT else _rank_blocked, wide=chains)
    return {"peel": _rank_peel, "blocked": _rank_blocked, "wide": chains}[method](f)


def _rank_peel(f: jax.Array) -> jax.Array:
    """Peels front by front on a bit matrix; bit q of `dominators[w, j]` says that row 32 w + q dominates row j."""
    n, m = f.shape
    words = -(-n // _WORD)
    # Padded rows are +inf and therefore dominate nothing.
    padded = jnp.pad(f, ((0, words * _WORD - n), (0, 0)), constant_values=jnp.inf).reshape(words, _WORD, m)
    shifts = jnp.arange(_WORD, dtype=jnp.uint32)

    def mark(dominators: jax.Array, bit: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        rows, shift = bit
        none_larger = jnp.ones((words, n), bool)
        some_smaller = jnp.zeros((words, n), bool)
        for k in range(m):
            none_larger &= rows[:, k, None] <= f[None, :, k]
            some_smaller |= rows[:, k, None] < f[None, :, k]
        return dominators | (none_larger & some_smaller).astype(jnp.uint32) << shift, None

    # Bit by bit, so that the matrix of bools never exists.
    dominators, _ = lax.scan(mark, jnp.zeros((words, n), jnp.uint32), (jnp.moveaxis(padded, 1, 0), shifts))

    def pack(alive: jax.Array) -> jax.Array:
        bits = jnp.pad(alive, (0, words * _WORD - n)).reshape(words, _WORD).astype(jnp.uint32)
        return jnp.sum(bits << shifts, axis=1, dtype=jnp.uint32)

    def peel(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        front, rank = state
        alive = rank < 0
        dominated = jnp.any((dominators & pack(alive)[:, None]) != 0, axis=0)
        return front + 1, jnp.where(alive & ~dominated, front, rank)

    def left(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.any(state[1] < 0)

    return lax.while_loop(left, peel, (jnp.int32(0), jnp.full(n, -1, jnp.int32)))[1]


def _rank_blocked(f: jax.Array) -> jax.Array:
    """Longest chain of dominators of each row, over rows in lexicographic order.

    In this order a dominator comes before the rows that it dominates, and the first objective needs no comparison.
    Among distinct rows "nowhere larger" is dominance, so only the first of equal rows passes its rank on, and the
    others copy it.
    """
    n = f.shape[0]
    blocks = -(-n // _BLOCK)
    # Padded rows come last and pass nothing on.
    compared, passes, source, representative = lexicographic(f, _BLOCK)
    earlier = jnp.triu(jnp.ones((_BLOCK, _BLOCK), bool), 1)

    def block(b: jax.Array, rank: jax.Array) -> jax.Array:
        start = b * _BLOCK
        own = [lax.dynamic_slice(column, (start,), (_BLOCK,)) for column in compared]
        own_passes = lax.dynamic_slice(passes, (start,), (_BLOCK,))
        below = functools.reduce(jnp.logical_and, [c[:, None] <= c[None, :] for c in own])
        below &= earlier & own_passes[:, None]

        def settle(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            now, _ = state
            pushed = jnp.max(jnp.where(below, now[:, None] + 1, 0), axis=0)
            new = jnp.maximum(now, pushed)
            return new, jnp.any(new != now)

        # The chains inside the block grow by one row per round.
        entered = lax.dynamic_slice(rank, (start,), (_BLOCK,))
        settled, _ = lax.while_loop(lambda state: state[1], settle, (entered, jnp.array(True)))
        rank = lax.dynamic_update_slice(rank, settled, (start,))
        pushed = jnp.where(own_passes, settled + 1, 0)
        # Only later rows: earlier rows were settled with their own blocks.
        after = jnp.arange(blocks * _BLOCK, dtype=jnp.int32) >= start + _BLOCK
        reached = jnp.zeros_like(rank)
        for q in range(_BLOCK):  # unrolled into one fused pass over the rows, vectorised along them
            hit = functools.reduce(jnp.logical_and, [c[q] <= column for c, column in zip(own, compared, strict=True)])
            reached = jnp.maximum(reached, jnp.where(hit, pushed[q], 0))
        return jnp.where(after, jnp.maximum(rank, reached), rank)

    chain = lax.fori_loop(0, blocks, block, jnp.zeros(blocks * _BLOCK, jnp.int32))[:n]
    return jnp.zeros(n, jnp.int32).at[source].set(chain[representative])


def crowding_distance(objectives: ArrayLike, rank: ArrayLike) -> jax.Array:
    """Deb's crowding distance of every row within its front.

    The sum over objectives of (next larger value - next smaller value) / (largest - smallest of the front),
    in a stable sort with ties by row index. The first and the last row of every objective get inf, so fronts
    of one or two rows are all inf; an objective without span adds 0. Infinite objectives (and NaN, as +inf)
    are clamped to the largest finite number of the dtype first. So an infinite neighbour makes a gap of the
    whole span, gaps between finite rows of such a front vanish, and there is no NaN.

    Args:
        objectives: `[N, M]` floats, minimised.
        rank: `[N]` integers; equal numbers are one front.

    Returns:
        `[N]`, dtype of the objectives, in [0, M] or inf.

    Raises:
        ValueError: If the shapes do not match.

    Examples:
        >>> crowding_distance(jnp.array([[0.0, 4.0], [1.0, 2.0], [4.0, 0.0]]), jnp.zeros(3, int))
        Array([inf,  2., inf], dtype=float32)
    """
    with precision(objectives):
        f, rank = as_objectives(objectives), jnp.asarray(rank, jnp.int32)
        if rank.shape != f.shape[:1]:
            raise ValueError(f"rank: expected shape {f.shape[:1]}, got {rank.shape}")
        found = _crowding(f, rank)
    return narrowed(found, objectives)


@jax.jit
def _crowding(f: jax.Array, rank: jax.Array) -> jax.Array:
    n = f.shape[0]
    if n == 0:
        return jnp.zeros(0, f.dtype)
    position = jnp.arange(n, dtype=jnp.int32)
    limit = jnp.finfo(f.dtype).max

    def one_objective(values: jax.Array) -> jax.Array:
        front, value, source = lax.sort((rank, values, position), num_keys=2, is_stable=True)
        border = front[1:] != front[:-1]
        first = jnp.concatenate([jnp.ones(1, bool), border])
        last = jnp.concatenate([border, jnp.ones(1, bool)])
        smallest = value[lax.cummax(jnp.where(first, position, 0))]
        largest = value[lax.cummin(jnp.where(last, position, n - 1), reverse=True)]
        # Halved where the span of the front would overflow (and only there: halves of tiny numbers underflow).
        scale = jnp.where(jnp.isfinite(largest - smallest), 1, 0.5).astype(value.dtype)
        span = largest * scale - smallest * scale
        # Gaps across the borders of fronts are wrong, but rows at a border get inf anyway.
        gap = jnp.roll(value, -1) * scale - jnp.roll(value, 1) * scale
        share = jnp.where(span > 0, gap / jnp.where(span > 0, span, 1), 0)
        return jnp.zeros_like(values).at[source].set(jnp.where(first | last, jnp.inf, share))

    return jnp.sum(jax.vmap(one_objective, in_axes=1)(jnp.clip(f, -limit, limit)), axis=0)


def survive(
    objectives: ArrayLike, n: int, *, method: str = "auto", box: tuple[ArrayLike, ArrayLike] | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The n best rows of a merged population: whole fronts by rank, the last front by crowding or by volume added.

    With a box, the ends of the first front come first, then the rows that add to the hypervolume in the box
    (`emo.exclusive`) by the volume that they add, then its other rows.

    Args:
        objectives: `[N, M]` floats, minimised, of parents, offspring and immigrants together.
        n: Static, the number of survivors.
        method: Static, see `non_dominated_rank`.
        box: ideal and reference point, `[M]` each, finite, the latter larger.

    Returns:
        `index` `[n]` int32, rows that survive, by rank, then by falling crowding, then by row index; `rank`
        `[n]` int32 and `crowding` `[n]`, both as they were in the merged population (crowding is not
        recomputed among the survivors). With a box `crowding` falls from n to 1 and gives only the order.

    Raises:
        ValueError: If n is negative or larger than N.
    """
    with precision(objectives):
        f = as_objectives(objectives)
        if not 0 <= n <= f.shape[0]:
            raise ValueError(f"n: expected 0 to {f.shape[0]} survivors, got {n}")
        if box is not None:
            box = jnp.asarray(box[0], f.dtype), jnp.asarray(box[1], f.dtype)
        rank = non_dominated_rank(objectives, method=method) if traced_integers(objectives) else None
        found = _survive(f, n, box, method, rank)
    return narrowed(found, objectives)


@functools.partial(jax.jit, static_argnames=("n", "method"))
def _survive(
    f: jax.Array, n: int, box: tuple[jax.Array, jax.Array] | None, method: str, rank: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    rank = non_dominated_rank(f, method=method) if rank is None else rank
    crowding = crowding_distance(f, rank)
    index = jnp.arange(f.shape[0], dtype=jnp.int32)
    if box is None:
        rank, crowding, index = lax.sort((rank, -crowding, index), num_keys=2, is_stable=True)
        return index[:n], rank[:n], -crowding[:n]
    kind, value = _standing(f, rank, crowding, box)
    rank, _, _, index = lax.sort((rank, -kind, -value, index), num_keys=3, is_stable=True)
    return index[:n], rank[:n], jnp.arange(n, 0, -1, dtype=f.dtype)


def _standing(
    f: jax.Array, rank: jax.Array, crowding: jax.Array, box: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Sort keys within a rank, both descending: `[N]` the kind of a row (2, 1 or 0), and `[N]` its value.

    Ends of a front come first (2), then rows that add to the hypervolume, by volume (1), then the others, by crowding.
    """
    own = exclusive_volume(jnp.where(((rank == 0) & ~repeated(f))[:, None], depth(f, box), 0))
    end, adds = jnp.isinf(crowding), own > 0
    return jnp.where(end, 2, adds.astype(jnp.int32)), jnp.where(adds & ~end, own, crowding)


def tournament(key: jax.Array, rank: ArrayLike, crowding: ArrayLike, count: int) -> jax.Array:
    """Winners of binary tournaments on (rank, crowding).

    Both rivals are drawn uniformly with replacement; the lower rank wins, then the larger crowding, then the
    one drawn first (which is a fair coin, since the draws are alike).

    Args:
        key: Typed PRNG key; it is consumed.
        rank: `[N]` integers.
        crowding: `[N]` floats.
        count: Static, the number of tournaments.

    Returns:
        `[count]` int32, row indices.

    Raises:
        ValueError: If the population is empty or the shapes differ.
    """
    rank, crowding = jnp.asarray(rank), jnp.asarray(crowding)
    if rank.ndim != 1 or rank.shape[0] == 0 or rank.shape != crowding.shape:
        raise ValueError(f"rank, crowding: expected one shape [N >= 1], got {rank.shape}, {crowding.shape}")
    return _tournament(key, rank, crowding, count)


@functools.partial(jax.jit, static_argnames="count")
def _tournament(key: jax.Array, rank: jax.Array, crowding: jax.Array, count: int) -> jax.Array:
    one, two = jax.random.randint(key, (2, count), 0, rank.shape[0], dtype=jnp.int32)
    better = (rank[two] < rank[one]) | ((rank[two] == rank[one]) & (crowding[two] > crowding[one]))
    return jnp.where(better, two, one)


def constrained(objectives: ArrayLike, violation: ArrayLike) -> jax.Array:
    """Objectives under constraints.

    Args:
        objectives: `[..., M]` floats below `PENALTY`, minimised; infinite where there is no result.
        violation: `[...]` floats, 0 or less where every limit is kept, else the amount by which limits are broken; NaN
            counts as the largest amount.

    Returns:
        `[..., M]` floats: the objectives where feasible, and `PENALTY` times one plus the violation elsewhere. An
        objective of +inf stays, and so does NaN, which counts as +inf.
    """
    objectives, violation = as_floats(objectives), as_floats(violation)
    penalty = PENALTY * (1 + jnp.minimum(jnp.where(jnp.isnan(violation), _MOST, violation), _MOST))
    broken = ~(violation <= 0)[..., None] & jnp.isfinite(objectives)
    return jnp.where(broken, penalty[..., None].astype(objectives.dtype), objectives)


def feasible(objectives: ArrayLike) -> jax.Array:
    """Rows that keep every limit, `[...]` bool, from the objectives `[..., M]` of `constrained`."""
    return jnp.all(jnp.asarray(objectives) < PENALTY, axis=-1)
