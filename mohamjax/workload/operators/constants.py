"""Constants, ranges, random tensors, and queries of shapes."""

from __future__ import annotations

import math

import numpy as np

from mohamjax.workload.budget import MAX_AXES, MAX_FOLDED_INTEGERS, MAX_SIZE
from mohamjax.workload.operators.folding import is_small, same, tidy
from mohamjax.workload.operators.registry import rule
from mohamjax.workload.tensor import FLOAT, INT32, INT64, NUMPY_TYPES, STRING, Call, Shape, Tensor, count


@rule("Constant")
def _constant(call: Call) -> list[Tensor]:
    for key in ("value", "sparse_value"):
        value = call.attr(key)
        if isinstance(value, Tensor):
            return [Tensor(value.shape, value.dtype, data=value.data, const=True)]
    for key, dtype in (("value_int", INT64), ("value_ints", INT64), ("value_float", FLOAT), ("value_floats", FLOAT)):
        value = call.attr(key)
        if value is not None:
            data = np.asarray(value, NUMPY_TYPES[dtype])
            return [Tensor(data.shape, dtype, data=data if data.size <= MAX_FOLDED_INTEGERS else None, const=True)]
    for key in ("value_string", "value_strings"):
        value = call.attr(key)
        if value is not None:
            return [Tensor((len(value),) if isinstance(value, list) else (), STRING, const=True)]
    raise call.error("a constant without a value")


@rule("ConstantOfShape")
def _constant_of_shape(call: Call) -> list[Tensor]:
    value = call.attr("value")
    dtype = value.dtype if isinstance(value, Tensor) else FLOAT
    sizes = call.ints(0)
    if sizes is None:
        return [Tensor(unknown_rank(call.shape(0)), dtype)]
    if any(d is not None and d < 0 for d in sizes):
        raise call.error(f"a negative size in {sizes}")
    out = Tensor(tuple(sizes), dtype, const=None not in sizes)
    kind = NUMPY_TYPES.get(dtype)
    if kind is not None and not np.issubdtype(kind, np.floating) and is_small(out.shape):
        fill = 0 if not isinstance(value, Tensor) else value.data.reshape(-1)[0] if value.data is not None else None
        if fill is not None:
            out.data = np.full(out.shape, fill, kind)  # type: ignore[arg-type]
    elif (
        is_small(out.shape)
        and (count(out.shape) or 0) <= 64
        and (not isinstance(value, Tensor) or value.data is not None)
    ):
        fill = 0.0 if not isinstance(value, Tensor) else value.data.reshape(-1)[0]  # type: ignore[union-attr]
        out.data = np.full(out.shape, fill, kind or np.float32)  # type: ignore[arg-type]
    return [out]


def unknown_rank(vector: Shape | None) -> Shape | None:
    """The shape that a vector of unknown sizes describes: its length is the rank. None if that is unknown too."""
    if vector is None or len(vector) != 1 or vector[0] is None or vector[0] > MAX_AXES:
        return None
    return (None,) * vector[0]


@rule("Range")
def _range(call: Call) -> list[Tensor]:
    dtype = call.get(0).dtype
    start, limit, delta = (call.scalar(i) for i in range(3))
    if start is None or limit is None or delta is None:
        return [Tensor((None,), dtype)]
    if delta == 0:
        raise call.error("a range with step 0")
    n = max(math.ceil((limit - start) / delta), 0)
    data = None
    if n <= MAX_FOLDED_INTEGERS:
        data = tidy(start + delta * np.arange(n), dtype)
    return [Tensor((n,), dtype, data=data)]


@rule("EyeLike")
def _eye_like(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.type_attr("dtype", call.get(0).dtype))]


@rule("RandomNormal", "RandomUniform")
def _random(call: Call) -> list[Tensor]:
    return [Tensor(tuple(call.ints_attr("shape") or ()), call.type_attr("dtype", FLOAT))]


@rule("RandomNormalLike", "RandomUniformLike")
def _random_like(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.type_attr("dtype", call.get(0).dtype))]


@rule("Multinomial")
def _multinomial(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    return [Tensor((shape[0] if shape else None, call.int_attr("sample_size", 1)), call.type_attr("dtype", INT32))]


@rule("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call) -> list[Tensor]:
    size = call.scalar(0)
    return [Tensor((None if size is None else int(size),), call.type_attr("output_datatype", FLOAT))]


@rule("MelWeightMatrix")
def _mel(call: Call) -> list[Tensor]:
    bins, length = call.scalar(0), call.scalar(1)
    return [
        Tensor(
            (None if length is None else int(length) // 2 + 1, None if bins is None else int(bins)),
            call.type_attr("output_datatype", FLOAT),
        )
    ]


@rule("Shape")
def _shape(call: Call) -> list[Tensor]:
    shape = call.get(0).shape
    if shape is None:
        return [Tensor((None,), INT64)]
    end = call.attributes.get("end")
    part = shape[call.int_attr("start", 0) : None if end is None else call.int_attr("end")]
    data = np.asarray(part, dtype=object if None in part else np.int64)
    return [Tensor((len(part),), INT64, data=data)]


@rule("Size")
def _size(call: Call) -> list[Tensor]:
    n = count(call.get(0).shape)
    if n is not None and n > MAX_SIZE:
        raise call.error(f"its input has more than {MAX_SIZE:,} elements")
    return [Tensor((), INT64, data=None if n is None else np.asarray(n, np.int64))]
