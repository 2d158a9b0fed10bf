"""How objectives enter the package: float dtype of the caller, NaN as +inf, few sizes."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike


def precision(objectives: ArrayLike) -> contextlib.AbstractContextManager:
    """Double precision for the length of one call where the host hands in doubles.

    `jnp.asarray` would round a float64 NumPy array to float32 and thereby make ties that the caller does not
    have. The result is then a float64 array. JAX arrays and tracers have their dtype already and are left alone.
    """
    leaves = jax.tree.leaves(objectives)
    if any(isinstance(leaf, jax.Array) for leaf in leaves) or np.asarray(objectives).dtype != np.float64:
        return contextlib.nullcontext()
    return jax.enable_x64(True)


def check_shape(objectives: Any) -> None:
    """Complains where objectives, NumPy's or JAX's, have not two axes or are none.

    Raises:
        ValueError: If so.
    """
    if objectives.ndim != 2 or objectives.shape[1] == 0:
        raise ValueError(f"objectives: expected shape [N, M] with M >= 1, got {objectives.shape}")


def as_objectives(objectives: ArrayLike) -> jax.Array:
    """`[N, M]` floats with NaN replaced by +inf; integers become the default float.

    Raises:
        ValueError: If the array has not two axes or no objective.
    """
    values = jnp.asarray(objectives)
    check_shape(values)
    if not jnp.issubdtype(values.dtype, jnp.floating):
        values = values.astype(jnp.result_type(float))
    return jnp.where(jnp.isnan(values), jnp.asarray(jnp.inf, values.dtype), values)


def positive(objectives: Any) -> Any:
    """Objectives of which logarithms can be taken: what costs nothing costs the smallest normal number of its dtype.

    Such a design stays better than all that cost something, and finite, where the logarithm of 0 would shut it out.

    Args:
        objectives: floats of any shape, not negative, NumPy's or JAX's; NaN and +inf stay.
    """
    library = np if isinstance(objectives, np.ndarray | np.floating) else jnp
    return library.maximum(objectives, library.finfo(objectives.dtype).tiny)


def measured(objectives: jax.Array, log: bool) -> jax.Array:
    """Objectives as distances between them are measured: their logarithms, or themselves."""
    return jnp.log(positive(objectives)) if log else objectives


def with_spare_rows(objectives: Any) -> np.ndarray:
    """`[N, M]` objectives with rows of +inf at the end, up to a power of two: for sets of any size that come once.

    For what compiles per N: survival prefers every finite row to these, and no hypervolume gains by them. No rows stay
    none.

    Args:
        objectives: `[N, M]` floats, NumPy.
    """
    values = np.asarray(objectives)
    spare = (1 << (len(values) - 1).bit_length()) - len(values) if len(values) else 0
    return np.concatenate([values, np.full((spare, *values.shape[1:]), np.inf, values.dtype)])
