"""Long batches in blocks, one after another: what a block needs stays in the processor's cache, or in memory at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["in_blocks"]


def in_blocks(function: Callable[[Any], Any], rows: Any, most: int) -> Any:
    """A function of a batch, applied to equal blocks of it in a loop.

    Where the blocks do not divide the batch, its last row fills them up: `jax.lax.map` would compile the function a
    second time for a shorter rest.

    Args:
        function: from a pytree with leading axis `[n]` to another, row by row; n is static and at most `most`.
        rows: pytree with leading axis `[N]`, of any length.
        most: static, rows of a block at most; at least 1.

    Returns:
        The function's pytree with leading axis `[N]`.
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
