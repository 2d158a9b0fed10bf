"""Random valid designs of a problem."""

from __future__ import annotations

import functools

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.problem.space import DesignSpace, check_space
from mohamjax.schedule import Design
from mohamjax.search import operators


def sample_designs(key: jax.Array, space: DesignSpace, n: int) -> Design:
    """Random valid designs: random packages, every layer on a random chiplet that runs it, in a random order.

    They keep fixed chiplets, pinned layers and homogeneous packages, but may break limits on latency, energy, area,
    power and numbers of chiplets.

    Args:
        key: typed key, consumed.
        space: from `problem.arrays`.
        n: number of designs, static.

    Returns:
        Designs with a leading axis: `designs[3]`, `designs[:5]`, `len(designs)`.

    Raises:
        TypeError: `space` has a wrong type.
        InputError: `key` is not a single JAX key.
        ValueError: `n` is not an integer of at least 1.

    Examples:
        >>> designs = mj.sample_designs(jax.random.key(0), space, 64)
        >>> len(designs), designs[3].template.shape
        (64, (16,))
    """
    check_space(space)
    typed = isinstance(key, jax.Array) and jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key)
    # Keys of the old kind are two words, or four for JAX's `rbg`.
    raw = not typed and np.shape(key) in ((2,), (4,)) and jax.numpy.result_type(key) == np.uint32
    if not raw and not (typed and key.shape == ()):
        what = f"{len(key)} keys" if typed else f"{key!r:.40}"
        raise InputError(f"is {what}", argument="key", remedy="give one key, such as jax.random.key(0)")
    if not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n: expected an integer of at least 1, got {n!r}")
    return _designs(key, space.genetics, n=int(n))


@functools.partial(jax.jit, static_argnames="n")
def _designs(key: jax.Array, genetics: operators.Genetics, *, n: int) -> Design:
    tiles = genetics.on_tile.shape[0]

    def one(key: jax.Array) -> Design:
        return operators.conform(operators.sample(key, genetics, tiles), genetics)

    return jax.vmap(one)(jax.random.split(key, n))
