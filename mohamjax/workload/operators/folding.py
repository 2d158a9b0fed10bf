"""Computes values ahead of time, where they are few enough and may decide a shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mohamjax.workload.budget import MAX_AXES, MAX_FOLDED_INTEGERS
from mohamjax.workload.tensor import NUMPY_TYPES, Call, Shape, Tensor, count


def is_small(shape: Shape | None) -> bool:
    """Whether a tensor of that shape is small enough to be computed; axes of size 0 count as 1."""
    if shape is None or len(shape) > MAX_AXES or any(d is None or d < 0 for d in shape):
        return False
    return math.prod(d or 1 for d in shape) <= MAX_FOLDED_INTEGERS


def tidy(data: np.ndarray, dtype: int) -> np.ndarray:
    """Gives folded values the element type, unless one of them is unknown."""
    data = np.asarray(data)
    if data.dtype == object and any(v is None for v in data.reshape(-1)):
        return data
    kind = NUMPY_TYPES.get(dtype)
    return data.astype(kind) if kind is not None else data


def fold_elementwise(
    call: Call, function: Callable, shape: Shape | None, dtype: int, inputs: Sequence[int]
) -> np.ndarray | None:
    """Applies a NumPy function to known values, None if they are not; entries with an unknown operand stay unknown."""
    if not is_small(shape):
        return None
    values = [v for v in (call.data(i) for i in inputs) if v is not None]
    if len(values) < len(inputs):
        return None
    if any(v.dtype == object for v in values):
        call.budget.spend("entries", 8 * (count(shape) or 0))  # one by one, in Python

        def guarded(*items):
            return None if any(v is None for v in items) else function(*items)

        out = np.frompyfunc(guarded, len(values), 1)(*values)
        return tidy(np.asarray(out, dtype=object), dtype)
    with np.errstate(all="ignore"):
        return tidy(function(*values), dtype)


def fold_moved(
    call: Call, function: Callable[[np.ndarray], np.ndarray], shape: Shape | None, i: int = 0
) -> np.ndarray | None:
    """Applies a function that only moves values; None if they are unknown or the result is large."""
    data = call.data(i)
    if data is None or not is_small(shape):
        return None
    return tidy(function(data), call.get(i).dtype)


def fold_reshaped(call: Call, shape: Shape | None) -> np.ndarray | None:
    """The values of input 0 in another shape, where that is known."""
    if shape is None or None in shape:
        return None
    return fold_moved(call, lambda x: x.reshape([d or 0 for d in shape]), shape)


def same(call: Call, i: int = 0, dtype: int | None = None) -> Tensor:
    """A tensor of the shape and (unless told otherwise) element type of input i."""
    source = call.get(i)
    return Tensor(source.shape, source.dtype if dtype is None else dtype)
