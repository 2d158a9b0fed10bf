"""Checks of settings, and of arrays at trace time, for all packages."""

from __future__ import annotations

from collections import abc

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.runtime.struct import is_traced

_CALLED = {int: "integers", float: "floats", bool: "bools"}


def check_whole(config: object, item: str, least: dict[str, int]) -> None:
    """Raises InputError if a field of settings is not a whole number, or below its least allowed value."""
    for name, low in least.items():
        value = getattr(config, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
            raise InputError(f"{name} is {value!r}", item=item, remedy=f"use {low} or more, a whole number")


def check_seed(value: object, argument: str = "seed") -> None:
    """Raises InputError if a value is not a seed of `jax.random.key`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (whole and 0 <= value < 2**32):  # pyright: ignore[reportOperatorIssue]
        raise InputError(f"is {value!r:.40}", argument=argument, remedy="give a whole number from 0 to 2^32 - 1")


def check_enabled(dtype: np.dtype, what: str) -> None:
    """Raises InputError if a dtype needs JAX's x64 mode, which is off; `what` is what to do inside it."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise InputError(f"{dtype} is not enabled", item="dtype", remedy=f"{what} inside `with jax.enable_x64(True):`")


def refuse_traced(value: object, remedy: str, **place: str) -> None:
    """Raises InputError if a pytree is traced where values are needed; `place` is its `argument` or `item`."""
    if is_traced(value):
        raise InputError("holds traced arrays, whose values are not known yet", remedy=remedy, **place)


def check_arrays(
    of: str,
    arrays: abc.Mapping[str, jax.typing.ArrayLike],
    shapes: abc.Mapping[str, tuple[int, ...]],
    kinds: abc.Mapping[str, type],
    remedy: str = "",
) -> None:
    """Checks shapes and dtypes of arrays. It reads no values, so that it works at trace time.

    Args:
        of: prefix of the names in a message, such as `design.`.
        arrays: NumPy or JAX arrays, or tracers, by name.
        shapes: the shape that each must have.
        kinds: the type that each must have: a dtype such as `np.uint32`, or int, float or bool for all dtypes of this
            kind.
        remedy: what to do about a wrong shape, appended to the message.

    Raises:
        ValueError: a shape or a dtype differs.
    """
    import chex  # takes 50 ms to import, which commands that trace nothing do not need

    seen = {name: jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)) for name, x in arrays.items()}
    for name, shape in shapes.items():
        try:
            chex.assert_shape(seen[name], shape)
        except AssertionError:
            raise ValueError(f"{of}{name}: expected shape {shape}, got {seen[name].shape}{remedy}") from None
    for name, kind in kinds.items():
        try:
            chex.assert_type(seen[name], kind)
        except AssertionError:
            called = _CALLED.get(kind, kind.__name__)
            raise ValueError(f"{of}{name}: expected {called}, got {seen[name].dtype}") from None
