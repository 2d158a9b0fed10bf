"""Conversion of objectives on entry: the caller's float dtype, NaN as +inf, few array sizes."""

from __future__ import annotations

import contextlib
import types
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

Array = TypeVar("Array", np.ndarray, jax.Array)
"""Arrays of one library: a function that is given NumPy arrays returns NumPy arrays."""


def library_of(values: np.ndarray | jax.Array) -> types.ModuleType:
    """The library whose functions apply to the values: NumPy for its own arrays, `jax.numpy` for all others."""
    return np if isinstance(values, np.ndarray | np.floating) else jnp


def precision(objectives: ArrayLike) -> contextlib.AbstractContextManager:
    """A context of double precision if the host passes doubles or integers, else one that changes nothing.

    `jnp.asarray` would round a float64 NumPy array to float32 and so create ties that the caller does not have; so
    would integers from 2^24 on. In the context the result is a float64 array. JAX arrays and tracers keep their dtype.
    """
    leaves = jax.tree.leaves(objectives)
    if any(isinstance(leaf, jax.Array) for leaf in leaves):
        return contextlib.nullcontext()
    dtype = np.asarray(objectives).dtype
    if dtype != np.float64 and not np.issubdtype(dtype, np.integer):
        return contextlib.nullcontext()
    return jax.enable_x64(True)


def check_shape(objectives: np.ndarray | jax.Array) -> None:
    """Checks that objectives have two axes and at least one column.

    Raises:
        ValueError: If they do not.
    """
    if objectives.ndim != 2 or objectives.shape[1] == 0:
        raise ValueError(f"objectives: expected shape [N, M] with M >= 1, got {objectives.shape}")


def as_objectives(objectives: ArrayLike) -> jax.Array:
    """`[N, M]` floats with NaN replaced by +inf; integers become the default float, float64 within `precision`.

    Raises:
        ValueError: If the array does not have two axes, or has no objective.
    """
    values = jnp.asarray(objectives)
    check_shape(values)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(jnp.result_type(float))
    return jnp.where(jnp.isnan(values), jnp.asarray(jnp.inf, values.dtype), values)


def positive(objectives: Array) -> Array:
    """Objectives of which logarithms can be taken: zeros become the smallest normal number of the dtype.

    A design of cost 0 so stays better than all others and finite; the logarithm of 0 would exclude it.

    Args:
        objectives: floats of any shape, not negative; NaN and +inf stay.
    """
    library = library_of(objectives)
    return library.maximum(objectives, library.finfo(objectives.dtype).tiny)


def measured(objectives: jax.Array, log: bool) -> jax.Array:
    """The values on which distances are measured: logarithms of the objectives if `log`, else the objectives."""
    return jnp.log(positive(objectives)) if log else objectives


def with_spare_rows(objectives: ArrayLike) -> np.ndarray:
    """`[N, M]` objectives with rows of +inf at the end, up to a power of two.

    It avoids compiling a function anew for every N of many sets. Survival prefers every finite row to the spare rows,
    and they add nothing to a hypervolume. An empty set stays empty.

    Args:
        objectives: `[N, M]` floats.
    """
    values = np.asarray(objectives)
    spare = (1 << (len(values) - 1).bit_length()) - len(values) if len(values) else 0
    return np.concatenate([values, np.full((spare, *values.shape[1:]), np.inf, values.dtype)])
