"""Long batches processed block by block, so that a block fits the CPU's cache, or memory; deterministic sums, sorts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from mohamjax.runtime.platforms import by_platform

Rows = TypeVar("Rows")
Result = TypeVar("Result")

DESIGNS = 128
"""Designs of a block whose growing and evaluation fit a CPU's caches; twice as many are no faster."""

WIDE = 1 << 17
"""Rows of a block on an accelerator: enough that launches cost little, few enough for its memory (a mapping takes about
20 kB if its wires are counted)."""


def power_of_two(number: int, least: int = 1) -> int:
    """The least power of two that is below neither a number nor `least`: arrays of few sizes need few programs.

    Args:
        number: any size.
        least: smallest result, a power of two.
    """
    return max(least, 1 << max(0, number - 1).bit_length())


def in_blocks(function: Callable[[Rows], Result], rows: Rows, most: int) -> Result:
    """A function of a batch, applied to equal blocks of it in a loop.

    If the batch does not divide into equal blocks, copies of its last row fill up the last block, because
    `jax.lax.map` would compile the function a second time for a shorter one.

    Args:
        function: from a pytree with leading axis `[n]` to another, row by row; n is static and at most `most`.
        rows: pytree with leading axis `[N]`, of any length.
        most: static, most rows of a block; at least 1.

    Returns:
        The function's result with leading axis `[N]`.
    """
    total = jax.tree.leaves(rows)[0].shape[0]
    count = -(-total // most)
    if count <= 1:
        return function(rows)
    width = -(-total // count)
    more = count * width - total

    def split(leaf: jax.Array) -> jax.Array:
        if more:
            leaf = jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (more, *leaf.shape[1:]))])
        return leaf.reshape(count, width, *leaf.shape[1:])

    result = jax.lax.map(function, jax.tree.map(split, rows))
    return jax.tree.map(lambda leaf: leaf.reshape(count * width, *leaf.shape[2:])[:total], result)


def in_fitting_blocks(function: Callable[[Rows], Result], rows: Rows, most: int, wide: int = WIDE) -> Result:
    """`in_blocks` with blocks of at most `most` rows on a CPU, of at most `wide` on an accelerator.

    Args:
        function: from rows to rows, see `in_blocks`.
        rows: pytree with leading axis `[N]`.
        most: static, most rows of a block on a CPU.
        wide: static, most rows of a block on an accelerator.
    """
    if jax.tree.leaves(rows)[0].shape[0] <= most:
        return function(rows)
    forms = [functools.partial(in_blocks, function, most=size) for size in (most, wide)]
    return by_platform(rows, cpu=forms[0], wide=forms[1])


def not_negative(value: jax.Array) -> jax.Array:
    """Returns a non-negative value unchanged, in a form that compilers do not contract with a following addition.

    In one loop compilers would contract a product and an addition, and round only once. NaN and derivatives pass.
    """
    return jnp.where(value < 0, jnp.zeros_like(value), value)


def pairwise_sum(terms: jax.Array) -> jax.Array:
    """A sum over the last axis (not empty) as a balanced tree; rounding grows with the log of the number of terms.

    Halves are added, then halves of these, in a fixed order; the compiler may add the terms of `jnp.sum` in any order.
    """
    rest = 0.0
    while (count := terms.shape[-1]) > 1:
        half = count // 2
        if count % 2:
            rest += terms[..., -1]
        terms = terms[..., :half] + terms[..., half : 2 * half]
    return terms[..., 0] + rest


def steady_sum(terms: jax.Array, axis: int = -1) -> jax.Array:
    """A sum of non-negative terms that is rounded alike in every program, for all batch sizes and fusions.

    It is `pairwise_sum` of terms that cannot be contracted with the addition (`not_negative`).

    Args:
        terms: 0 and above; inf and NaN are passed on.
        axis: static, axis of the sum.
    """
    # The barrier computes the terms before the sum; without it, accelerators gather them anew in the first halvings.
    return pairwise_sum(jax.lax.optimization_barrier(not_negative(jnp.moveaxis(terms, axis, -1))))


def short_argsort(keys: jax.Array) -> jax.Array:
    """Stable `jnp.argsort` along a short last axis, by comparing all pairs.

    For rows of some tens of keys n^2 parallel comparisons are far cheaper than a sort, both on a CPU and on a GPU,
    where a sort takes many launches.

    Args:
        keys: `[..., n]`, integers or floats without NaN.

    Returns:
        `[..., n]` int32.
    """
    place = jnp.arange(keys.shape[-1], dtype=jnp.int32)
    one, other = keys[..., :, None], keys[..., None, :]
    before = (other < one) | ((other == one) & (place < place[:, None]))
    rank = jnp.sum(before, axis=-1, dtype=jnp.int32)
    return jnp.sum(jnp.where(rank[..., None, :] == place[:, None], place, 0), axis=-1, dtype=jnp.int32)


def first_true(mask: jax.Array, count: int) -> jax.Array:
    """The same as `jnp.flatnonzero(mask, size=count, fill_value=n)`, by looking up each place in a running sum.

    JAX's function writes the places one after the other, which takes a CPU eight times as long for some thousand.

    Args:
        mask: `[n]` bool.
        count: static, places to find.

    Returns:
        `[count]` int32, places of the first, second, ... true entry; n where there are no more.
    """
    rank = jnp.cumsum(mask, dtype=jnp.int32)
    place = jnp.searchsorted(rank, 1 + jnp.arange(count, dtype=jnp.int32), method="scan_unrolled")
    return place.astype(jnp.int32)


_COUNTED = 1024  # keys up to which counting is faster than a CPU's sort, for a hundred columns


def side_by_side_argsort(keys: jax.Array) -> jax.Array:
    """Stable `jnp.argsort` along the first axis, for many columns of some hundred keys.

    A CPU sorts one column after the other, with a function call per comparison. Counting the keys that come before each
    key, key by key and in all columns at once, takes a seventh of the time for 192 keys.

    Args:
        keys: `[n, N]`, integers or floats without NaN.

    Returns:
        `[n, N]` int32.
    """

    def sorting(keys: jax.Array) -> jax.Array:
        return jnp.argsort(keys, axis=0, stable=True).astype(jnp.int32)

    def counting(keys: jax.Array) -> jax.Array:
        place = jnp.arange(keys.shape[0], dtype=jnp.int32)

        def count(before: jax.Array, at: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            key, own = at
            first = jnp.where((place > own)[:, None], key <= keys, key < keys)
            return before + first.astype(jnp.int32), None

        start = varying(jnp.zeros(keys.shape, jnp.int32), keys)
        rank, _ = jax.lax.scan(count, start, (keys, place))
        column = jnp.arange(keys.shape[1], dtype=jnp.int32)
        whole = jnp.broadcast_to(place[:, None], keys.shape)
        return jnp.zeros_like(rank).at[rank, column].set(whole, unique_indices=True)

    return by_platform(keys, cpu=counting if keys.shape[0] <= _COUNTED else sorting, wide=sorting)


def varying(tree: Rows, *like: object) -> Rows:
    """The tree, marked as varying over devices if `like` is.

    Inside `jax.shard_map` the first carry of a loop must have the same mark as the loop's result; constants have none.
    The mark comes from a select that never changes a value and that the compiler removes, because the way to mark a
    type differs between versions of JAX.

    Args:
        tree: pytree of arrays.
        like: pytrees of arrays that the loop mixes with it.
    """
    first = [leaf.reshape(-1)[0] for leaf in jax.tree.leaves(like) if getattr(leaf, "size", 0)]
    never = functools.reduce(jnp.logical_and, [leaf == leaf for leaf in first], jnp.bool_(False))
    return jax.tree.map(lambda leaf: jnp.where(never, jnp.zeros_like(leaf), leaf), tree)
