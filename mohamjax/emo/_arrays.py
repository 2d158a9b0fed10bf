"""Conversion of objectives on entry: the caller's float dtype, NaN as +inf, few array sizes."""

from __future__ import annotations

import contextlib
import types
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.struct import is_traced, tracing

Array = TypeVar("Array", np.ndarray, jax.Array)
"""Arrays of one library: a function that is given NumPy arrays returns NumPy arrays."""

Tree = TypeVar("Tree")


def library_of(values: np.ndarray | jax.Array) -> types.ModuleType:
    """The library whose functions apply to the values: NumPy for its own arrays, `jax.numpy` for all others."""
    return np if isinstance(values, np.ndarray | np.floating) else jnp


def precision(objectives: ArrayLike) -> contextlib.AbstractContextManager:
    """A context of double precision for doubles of the host and for integers, else one that changes nothing.

    `jnp.asarray` would round a float64 NumPy array to float32 and so create ties that the caller does not have; so
    would integers from 2^24 on, those of JAX too. In the context the result is a float64 array; `narrowed` undoes this
    for integers of JAX. Floats of JAX keep their dtype, and so does everything while a program is traced; see
    `as_ordered`.
    """
    if _tracing(objectives):  # what is traced in one precision cannot be lowered in another
        return contextlib.nullcontext()
    doubles = not _of_jax(objectives) and np.asarray(objectives).dtype == np.float64
    return jax.enable_x64(True) if doubles or _integers(objectives) else contextlib.nullcontext()


def narrowed(result: Tree, objectives: ArrayLike) -> Tree:
    """What a function found within `precision`: floats in the default dtype where the objectives are JAX integers."""
    if not (_of_jax(objectives) and _integers(objectives)):
        return result
    default = jnp.result_type(float)
    return jax.tree.map(lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jnp.integer) else leaf.astype(default), result)


def _tracing(values: ArrayLike) -> bool:
    """Whether values are traced, or other values are, beside which these are constants."""
    return is_traced(values) or tracing()


def _of_jax(values: ArrayLike) -> bool:
    """Whether values are JAX arrays or tracers, or a list of some."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(values))


def _integers(values: ArrayLike) -> bool:
    """Whether values are integers."""
    dtype = jnp.result_type(*jax.tree.leaves(values)) if _of_jax(values) else np.asarray(values).dtype
    return bool(np.issubdtype(dtype, np.integer))


def as_floats(values: ArrayLike) -> jax.Array:
    """Values as a JAX array; all but floats become the default float, without wrapping around at 2^31."""
    array = jnp.asarray(values) if _of_jax(values) else np.asarray(values)
    floating = jnp.issubdtype(array.dtype, jnp.floating)
    return jnp.asarray(array, None if floating else jnp.result_type(float))


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
    values = as_floats(objectives)
    check_shape(values)
    return jnp.where(jnp.isnan(values), jnp.asarray(jnp.inf, values.dtype), values)


def as_ordered(objectives: ArrayLike) -> jax.Array:
    """As `as_objectives`, for functions that only compare: traced integers become their ranks in each objective.

    In single precision they would be rounded from 2^24 on.
    """
    if traced_integers(objectives):
        values = jnp.asarray(objectives)
        check_shape(values)
        objectives = jax.vmap(rank_values, 1, 1)(values) if len(values) else values
    return as_objectives(objectives)


def traced_integers(values: ArrayLike) -> bool:
    """Whether values are integers in a program that is traced."""
    return _tracing(values) and _integers(values)


def rank_values(values: jax.Array) -> jax.Array:
    """Dense rank of single values: with one objective every distinct value is a front."""
    index = jnp.arange(values.shape[0], dtype=jnp.int32)
    ordered, source = lax.sort((values, index), num_keys=1)
    step = jnp.concatenate([jnp.zeros(1, bool), ordered[1:] != ordered[:-1]])
    return jnp.zeros_like(index).at[source].set(jnp.cumsum(step, dtype=jnp.int32))


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
        objectives: `[N, M]` floats; integers become float64.
    """
    values = np.asarray(objectives)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(np.float64)
    spare = power_of_two(len(values)) - len(values) if len(values) else 0
    return np.concatenate([values, np.full((spare, *values.shape[1:]), np.inf, values.dtype)])
