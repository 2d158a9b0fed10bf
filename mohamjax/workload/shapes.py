"""Shape rules of the standard ONNX operators that are no layers, and the folding of shape arithmetic.

Each rule takes a `Call` and returns the tensors it makes: shapes, element types and, where they are small and can be
known, values. `RULES` maps an operator name to its rule. Which layers a result depends on is not a rule's business.
Rules cover every operator-set version at once: where an argument moved from attribute to input, both are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mohamjax.workload.budget import MAX_AXES, MAX_SIZE
from mohamjax.workload.onnx_file import MAX_FOLDED_INTEGERS
from mohamjax.workload.tensor import (
    BOOL,
    FLOAT,
    INT32,
    INT64,
    NUMPY_TYPES,
    STRING,
    TYPE_BITS,
    UINT8,
    Call,
    Shape,
    Tensor,
    broadcast,
    count,
    is_known,
    product,
)

__all__ = ["PURE_RANDOM", "QUANTISED_THROUGH", "RULES", "Rule", "same", "window_output"]

Rule = Callable[[Call], list[Tensor]]

RULES: dict[str, Rule] = {}
"""Rules by operator name."""

PURE_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators whose results are no constants although they need no input."""

QUANTISED_THROUGH = frozenset({
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Expand", "Concat",
    "Gather", "MaxPool", "Relu", "Clip", "Dropout", "Pad", "DepthToSpace", "SpaceToDepth", "Tile",
})  # fmt: skip
"""Operators that leave a dequantised tensor in the value range of its quantised type."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


# ---------------------------------------------------------------------------------------------- value folding


def _small(shape: Shape | None) -> bool:
    """Whether values of that shape may be computed, without any large ones on the way to an empty result."""
    if shape is None or len(shape) > MAX_AXES or any(d is None or d < 0 for d in shape):
        return False
    return math.prod(d or 1 for d in shape) <= MAX_FOLDED_INTEGERS


def _tidy(data: np.ndarray, dtype: int) -> np.ndarray:
    """Gives folded values the element type, unless one of them is unknown."""
    data = np.asarray(data)
    if data.dtype == object and any(v is None for v in data.reshape(-1)):
        return data
    kind = NUMPY_TYPES.get(dtype)
    return data.astype(kind) if kind is not None else data


def _elementwise(
    call: Call, function: Callable, shape: Shape | None, dtype: int, inputs: Sequence[int]
) -> np.ndarray | None:
    """Applies a NumPy function to known values; entries with an unknown operand stay unknown."""
    if not _small(shape):
        return None
    values = [v for v in (call.data(i) for i in inputs) if v is not None]
    if len(values) < len(inputs):
        return None
    if any(v.dtype == object for v in values):
        call.budget.spend("entries", 8 * (count(shape) or 0))  # one by one, in Python

        def guarded(*items):
            return None if any(v is None for v in items) else function(*items)

        out = np.frompyfunc(guarded, len(values), 1)(*values)
        return _tidy(np.asarray(out, dtype=object), dtype)
    with np.errstate(all="ignore"):
        return _tidy(function(*values), dtype)


def _restructure(
    call: Call, function: Callable[[np.ndarray], np.ndarray], shape: Shape | None, i: int = 0
) -> np.ndarray | None:
    """Applies a function that only moves values."""
    data = call.data(i)
    if data is None or not _small(shape):
        return None
    return _tidy(function(data), call.get(i).dtype)


def _reshaped(call: Call, shape: Shape | None) -> np.ndarray | None:
    """The values of input 0 in another shape, where that is known."""
    if shape is None or None in shape:
        return None
    return _restructure(call, lambda x: x.reshape([d or 0 for d in shape]), shape)


def same(call: Call, i: int = 0, dtype: int | None = None) -> Tensor:
    """A tensor of the shape and (unless told otherwise) element type of input i."""
    source = call.get(i)
    return Tensor(source.shape, source.dtype if dtype is None else dtype)


# ------------------------------------------------------------------------------------------------ element-wise


def _truncated_div(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if np.issubdtype(a.dtype, np.integer) and np.issubdtype(b.dtype, np.integer):
        safe = np.where(b == 0, 1, b)
        return np.where((a < 0) != (b < 0), -(np.abs(a) // np.abs(safe)), np.abs(a) // np.abs(safe))
    return a / b


_UNARY: dict[str, Callable | None] = {
    "Abs": np.abs, "Ceil": np.ceil, "Floor": np.floor, "Neg": np.negative, "Sqrt": np.sqrt, "Exp": np.exp,
    "Log": np.log, "Reciprocal": lambda x: 1 / np.asarray(x), "Round": np.round, "Sign": np.sign, "Not": np.logical_not,
    "Relu": lambda x: np.maximum(x, 0), "Sin": np.sin, "Cos": np.cos, "Tanh": np.tanh, "BitwiseNot": np.invert,
}  # fmt: skip
_UNARY |= dict.fromkeys((
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cosh", "Elu", "Erf", "Gelu", "HardSigmoid",
    "HardSwish", "Hardmax", "LeakyRelu", "LogSoftmax", "LpNormalization", "LRN",
    "MeanVarianceNormalization", "Mish", "Selu", "Shrink", "Sigmoid", "Sinh", "Softmax", "Softplus",
    "Softsign", "Swish", "Tan", "ThresholdedRelu", "ImageScaler", "ParametricSoftplus", "ScaledTanh",
    "Affine", "InstanceNormalization", "GroupNormalization", "RMSNormalization", "CumSum", "PRelu", "CumProd",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "TensorScatter", "Bernoulli",
    "RotaryEmbedding", "Scaler", "Normalizer", "Binarizer", "Imputer",
))  # fmt: skip


@_rule(*_UNARY)
def _unary(call: Call) -> list[Tensor]:
    out = same(call)
    function = _UNARY[call.op]
    if function is not None:
        out.data = _elementwise(call, function, out.shape, out.dtype, [0])
    elif call.op == "CumSum" and call.data(0) is not None and call.get(0).values_known:
        out.data = _cumsum(call)
    elif call.op == "Bernoulli" and call.attr("dtype"):
        out.dtype = call.int_attr("dtype")
    return [out]


def _cumsum(call: Call) -> np.ndarray | None:
    axis, data = call.scalar(1), call.get(0).data
    if axis is None or data is None or call.attr("exclusive") or call.attr("reverse"):
        return None
    return _tidy(np.cumsum(data, axis=int(axis)), call.get(0).dtype)


@_rule("IsInf", "IsNaN")
def _is_something(call: Call) -> list[Tensor]:
    return [same(call, dtype=BOOL)]


@_rule("Identity")
def _identity(call: Call) -> list[Tensor]:
    source = call.get(0)
    return [Tensor(source.shape, source.dtype, data=source.data, elements=source.elements, sequence=source.sequence)]


@_rule("Dropout")
def _dropout(call: Call) -> list[Tensor]:
    first = same(call)
    if not call.has(2):  # not in training mode
        first.data = call.data(0)
    return [first, same(call, dtype=BOOL)]


@_rule("Clip")
def _clip(call: Call) -> list[Tensor]:
    out = same(call)
    low, high = call.scalar(1), call.scalar(2)
    if (call.has(1) and low is None) or (call.has(2) and high is None):
        return [out]
    low = call.attr("min", low)
    high = call.attr("max", high)

    def clip(x):
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)

    out.data = _elementwise(call, clip, out.shape, out.dtype, [0])
    return [out]


@_rule("BitCast")
def _bit_cast(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.int_attr("to"))]


@_rule("Cast", "CastLike")
def _cast(call: Call) -> list[Tensor]:
    target = call.get(1).dtype if call.op == "CastLike" else call.attr("to")
    if isinstance(target, bytes):  # operator set below 6
        target = {b"FLOAT": 1, b"INT32": 6, b"INT64": 7, b"BOOL": 9, b"FLOAT16": 10, b"DOUBLE": 11}.get(
            target.upper(), 1
        )
    if not isinstance(target, int):
        raise call.error("attribute 'to' is missing")
    out = same(call, dtype=target)
    data = call.data(0)
    if data is not None and NUMPY_TYPES.get(target) is not None:
        with np.errstate(all="ignore"):
            if data.dtype == object:
                out.data = _tidy(data, target)
            else:
                out.data = data.astype(NUMPY_TYPES[target])
    return [out]


def _power(a, b):
    return np.power(np.asarray(a, float), b)


_BINARY: dict[str, Callable | None] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _truncated_div, "Pow": _power,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "BitShift": None, "Mod": None,
}  # fmt: skip
_COMPARISONS = {"And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}


@_rule(*_BINARY)
def _binary(call: Call) -> list[Tensor]:
    dtype = BOOL if call.op in _COMPARISONS else call.get(0).dtype
    if call.attr("broadcast"):  # operator set below 7: the second operand is spread along an axis of the first
        return [Tensor(call.shape(0), dtype)]
    shape = broadcast(call.get(0).shape, call.get(1).shape)
    function = _BINARY[call.op]
    if call.op == "Mod":
        function = np.fmod if call.attr("fmod") else np.mod
    out = Tensor(shape, dtype)
    if function is not None:
        out.data = _elementwise(call, function, shape, dtype, [0, 1])
    return [out]


@_rule("Max", "Min", "Sum", "Mean")
def _variadic(call: Call) -> list[Tensor]:
    shape = broadcast(*(call.get(i).shape for i in range(len(call.inputs))))
    out = Tensor(shape, call.get(0).dtype)
    combine = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}.get(call.op)
    if combine is not None:

        def reduce(*values):
            result = values[0]
            for value in values[1:]:
                result = combine(result, value)
            return result

        out.data = _elementwise(call, reduce, shape, out.dtype, range(len(call.inputs)))
    return [out]


@_rule("Where")
def _where(call: Call) -> list[Tensor]:
    shape = broadcast(*(call.get(i).shape for i in range(3)))
    out = Tensor(shape, call.get(1).dtype)
    condition = call.data(0)
    if condition is not None and condition.dtype != object and _small(shape):
        # Only the chosen side must be known: `Where(True, x, unknown)` is x.
        sides = []
        for i, needed in ((1, condition.any()), (2, not condition.all())):
            value = call.data(i)
            if value is None and not needed:
                value = np.zeros((), NUMPY_TYPES.get(out.dtype, np.int64))
            sides.append(value)
        if all(side is not None for side in sides):
            out.data = _tidy(np.broadcast_to(np.where(condition, *sides), shape), out.dtype)  # type: ignore[arg-type]
    return [out]


@_rule("BatchNormalization")
def _batch_normalization(call: Call) -> list[Tensor]:
    statistics = [Tensor(call.shape(i), call.get(0).dtype) for i in (3, 4, 3, 4)]
    return [same(call), *statistics[: max(call.outputs - 1, 0)]]


@_rule("LayerNormalization")
def _layer_normalization(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [same(call), Tensor(None), Tensor(None)]
    axis = call.axis(call.int_attr("axis", -1), len(shape))
    statistics = tuple(d if i < axis else 1 for i, d in enumerate(shape))
    return [same(call), Tensor(statistics), Tensor(statistics)]


@_rule("QuantizeLinear")
def _quantize(call: Call) -> list[Tensor]:
    dtype = call.get(2).dtype if call.has(2) else call.attr("output_dtype") or UINT8
    return [same(call, dtype=dtype)]


@_rule("DequantizeLinear")
def _dequantize(call: Call) -> list[Tensor]:
    out = same(call, dtype=call.attr("output_dtype") or (call.get(1).dtype if call.has(1) else FLOAT))
    out.bits = TYPE_BITS.get(call.get(0).dtype)
    return [out]


@_rule("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call) -> list[Tensor]:
    return [same(call, dtype=UINT8), Tensor((), FLOAT), Tensor((), UINT8)]


# --------------------------------------------------------------------------------------- constants and ranges


@_rule("Constant")
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


@_rule("ConstantOfShape")
def _constant_of_shape(call: Call) -> list[Tensor]:
    value = call.attr("value")
    dtype = value.dtype if isinstance(value, Tensor) else FLOAT
    sizes = call.ints(0)
    if sizes is None:
        return [Tensor(_unknown_rank(call.shape(0)), dtype)]
    if any(d is not None and d < 0 for d in sizes):
        raise call.error(f"a negative size in {sizes}")
    out = Tensor(tuple(sizes), dtype, const=None not in sizes)
    kind = NUMPY_TYPES.get(dtype)
    if kind is not None and not np.issubdtype(kind, np.floating) and _small(out.shape):
        fill = 0 if not isinstance(value, Tensor) else value.data.reshape(-1)[0] if value.data is not None else None
        if fill is not None:
            out.data = np.full(out.shape, fill, kind)  # type: ignore[arg-type]
    elif (
        _small(out.shape)
        and (count(out.shape) or 0) <= 64
        and (not isinstance(value, Tensor) or value.data is not None)
    ):
        fill = 0.0 if not isinstance(value, Tensor) else value.data.reshape(-1)[0]  # type: ignore[union-attr]
        out.data = np.full(out.shape, fill, kind or np.float32)  # type: ignore[arg-type]
    return [out]


def _unknown_rank(vector: Shape | None) -> Shape | None:
    """Shape that a vector of unknown sizes describes: its length is the rank."""
    if vector is None or len(vector) != 1 or vector[0] is None or vector[0] > MAX_AXES:
        return None
    return (None,) * vector[0]


@_rule("Range")
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
        data = _tidy(start + delta * np.arange(n), dtype)
    return [Tensor((n,), dtype, data=data)]


@_rule("EyeLike")
def _eye_like(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.attr("dtype"))]


@_rule("RandomNormal", "RandomUniform")
def _random(call: Call) -> list[Tensor]:
    return [Tensor(tuple(call.ints_attr("shape") or ()), call.attr("dtype") or FLOAT)]


@_rule("RandomNormalLike", "RandomUniformLike")
def _random_like(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.attr("dtype"))]


@_rule("Multinomial")
def _multinomial(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    return [Tensor((shape[0] if shape else None, call.int_attr("sample_size", 1)), call.attr("dtype") or INT32)]


@_rule("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call) -> list[Tensor]:
    size = call.scalar(0)
    return [Tensor((None if size is None else int(size),), call.attr("output_datatype") or FLOAT)]


@_rule("MelWeightMatrix")
def _mel(call: Call) -> list[Tensor]:
    bins, length = call.scalar(0), call.scalar(1)
    return [
        Tensor(
            (None if length is None else int(length) // 2 + 1, None if bins is None else int(bins)),
            call.attr("output_datatype") or FLOAT,
        )
    ]


# ---------------------------------------------------------------------------------------------- shape queries


@_rule("Shape")
def _shape(call: Call) -> list[Tensor]:
    shape = call.get(0).shape
    if shape is None:
        return [Tensor((None,), INT64)]
    part = shape[slice(call.attr("start"), call.attr("end"))]
    data = np.asarray(part, dtype=object if None in part else np.int64)
    return [Tensor((len(part),), INT64, data=data)]


@_rule("Size")
def _size(call: Call) -> list[Tensor]:
    n = count(call.get(0).shape)
    if n is not None and n > MAX_SIZE:
        raise call.error(f"its input has more than {MAX_SIZE:,} elements")
    return [Tensor((), INT64, data=None if n is None else np.asarray(n, np.int64))]


# -------------------------------------------------------------------------------------------------- movement


@_rule("Reshape")
def _reshape(call: Call) -> list[Tensor]:
    source = call.get(0)
    target = call.ints(1) if call.has(1) else call.ints_attr("shape")
    if target is None:
        return [Tensor(_unknown_rank(call.shape(1)), source.dtype)]
    allow_zero = bool(call.attr("allowzero", 0))
    sizes: list[int | None] = []
    for i, d in enumerate(target):
        if d == 0 and not allow_zero:
            if source.shape is None:
                sizes.append(None)
            elif i < len(source.shape):
                sizes.append(source.shape[i])
            else:
                raise call.error(f"target {target} copies axis {i}, which its input does not have")
        else:
            sizes.append(d)
    if sum(d == -1 for d in sizes) > 1 or any(d is not None and d < -1 for d in sizes):
        raise call.error(f"target {target} is no shape")
    total = count(source.shape)
    rest = product([d for d in sizes if d != -1])
    if -1 in sizes:
        hole: int | None = None
        if total is not None and rest is not None and None not in sizes:
            if rest == 0:
                hole = 0
            elif total % rest:
                raise call.error(f"{total} elements do not reshape to {target}")
            else:
                hole = total // rest
        sizes[sizes.index(-1)] = hole
    elif total is not None and sizes.count(None) == 1:
        others = math.prod(d for d in sizes if d is not None)
        if others > 0 and total % others == 0:
            sizes[sizes.index(None)] = total // others
    elif total is not None and rest is not None and rest != total:
        raise call.error(f"{total} elements do not reshape to {target}")
    out = Tensor(tuple(sizes), source.dtype)
    out.data = _reshaped(call, out.shape)
    return [out]


@_rule("Flatten")
def _flatten(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor((None, None), call.get(0).dtype)]
    axis = call.int_attr("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise call.error(f"axis {axis} does not exist in a tensor of {len(shape)} axes")
    axis = axis + len(shape) if axis < 0 else axis
    out = Tensor((product(shape[:axis]), product(shape[axis:])), call.get(0).dtype)
    out.data = _reshaped(call, out.shape)
    return [out]


@_rule("Transpose")
def _transpose(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, call.get(0).dtype)]
    order = call.ints_attr("perm", range(len(shape) - 1, -1, -1)) or []
    if sorted(order) != list(range(len(shape))):
        raise call.error(f"perm {order} does not fit a tensor of {len(shape)} axes")
    out = Tensor(tuple(shape[i] for i in order), call.get(0).dtype)
    out.data = _restructure(call, lambda x: x.transpose(order), out.shape)
    return [out]


def _axes(call: Call, i: int) -> list[int] | bool | None:
    """Axes from the attribute or from input i; None = not given, False = given but unknown."""
    if call.has(i):
        axes = call.ints(i)
        return False if axes is None or None in axes else [a for a in axes if a is not None]
    return call.ints_attr("axes")


@_rule("Squeeze")
def _squeeze(call: Call) -> list[Tensor]:
    shape, axes = call.shape(0), _axes(call, 1)
    if shape is None or axes is False:
        return [Tensor(None, call.get(0).dtype)]
    if axes is None:
        if None in shape:
            return [Tensor(None, call.get(0).dtype)]
        drop = {i for i, d in enumerate(shape) if d == 1}
    else:
        drop = {call.axis(a, len(shape)) for a in axes}  # type: ignore[union-attr]
        for a in sorted(drop):
            if shape[a] not in (1, None):
                raise call.error(f"axis {a} has size {shape[a]}, not 1")
    out = Tensor(tuple(d for i, d in enumerate(shape) if i not in drop), call.get(0).dtype)
    out.data = _reshaped(call, out.shape)
    return [out]


@_rule("Unsqueeze")
def _unsqueeze(call: Call) -> list[Tensor]:
    shape, axes = call.shape(0), _axes(call, 1)
    if shape is None or axes is False:
        return [Tensor(None, call.get(0).dtype)]
    if axes is None:
        raise call.error("axes are missing")
    rank = len(shape) + len(axes)  # type: ignore[arg-type]
    new = {call.axis(a, rank) for a in axes}  # type: ignore[union-attr]
    if len(new) != rank - len(shape):
        raise call.error(f"axes {axes} repeat")
    rest = iter(shape)
    out = Tensor(tuple(1 if i in new else next(rest) for i in range(rank)), call.get(0).dtype)
    data = call.data(0)
    if data is not None:
        out.data = data.reshape([1 if d is None else d for d in out.shape or ()])
    return [out]


@_rule("Expand")
def _expand(call: Call) -> list[Tensor]:
    source, target = call.get(0), call.ints(1)
    if target is None:
        rank = _unknown_rank(call.shape(1))
        longest = None if rank is None or source.shape is None else max(len(rank), len(source.shape))
        return [Tensor(None if longest is None else (None,) * longest, source.dtype)]
    if any(d is not None and d < 0 for d in target):
        raise call.error(f"target {target} is no shape")
    out = Tensor(broadcast(source.shape, tuple(target)), source.dtype)
    if is_known(out.shape):
        out.data = _restructure(call, lambda x: np.broadcast_to(x, out.shape), out.shape)  # type: ignore[arg-type]
    return [out]


@_rule("Tile")
def _tile(call: Call) -> list[Tensor]:
    shape, repeats = call.shape(0), call.ints(1)
    if shape is None or repeats is None:
        return [Tensor(None if shape is None else (None,) * len(shape), call.get(0).dtype)]
    if len(repeats) != len(shape):
        raise call.error(f"{len(repeats)} repeats for a tensor of {len(shape)} axes")
    out = Tensor(tuple(product((d, r)) for d, r in zip(shape, repeats, strict=True)), call.get(0).dtype)
    if is_known(out.shape):
        out.data = _restructure(call, lambda x: np.tile(x, [r or 0 for r in repeats]), out.shape)
    return [out]


@_rule("Concat", "ConcatFromSequence")
def _concat(call: Call) -> list[Tensor]:
    if call.op == "ConcatFromSequence":
        parts = call.members(0)
        if parts is None:
            return [Tensor(None, call.get(0).dtype)]
    else:
        parts = [call.get(i) for i in range(len(call.inputs))]
    return [_concatenate(call, parts, call.int_attr("axis", 1), bool(call.attr("new_axis", 0)))]


def _concatenate(call: Call, parts: list[Tensor], axis: int, stack: bool = False) -> Tensor:
    if not parts:
        raise call.error("nothing to concatenate")
    dtype = parts[0].dtype
    shapes = [p.shape for p in parts]
    known = [s for s in shapes if s is not None]
    if not known:
        return Tensor(None, dtype)
    rank = len(known[0])
    if any(len(s) != rank for s in known):
        raise call.error("the parts have different numbers of axes")
    at = call.axis(axis, rank + stack)
    sizes: list[int | None] = []
    for i in range(rank):
        if not stack and i == at:
            total = [None if s is None else s[i] for s in shapes]
            sizes.append(None if None in total else sum(total))  # type: ignore[arg-type]
            continue
        found = {s[i] for s in known if s[i] is not None}
        if len(found) > 1:
            raise call.error(f"the parts differ along axis {i}: {sorted(found)}")  # type: ignore[type-var]
        sizes.append(found.pop() if found else None)
    if stack:
        sizes.insert(at, len(parts))
    out = Tensor(tuple(sizes), dtype)
    if _small(out.shape):
        values = [p.data for p in parts]
        if (
            any(v is None for v in values)
            and len(sizes) == 1
            and is_known(out.shape)
            and any(v is not None for v in values)
        ):
            # A shape vector of which a part depends on data: the rest of it is known all the same.
            values = [
                np.full([d or 0 for d in p.shape or ()], None, object) if v is None else v
                for p, v in zip(parts, values, strict=True)
            ]
        if all(v is not None for v in values):
            join = np.stack if stack else np.concatenate
            out.data = _tidy(join([np.asarray(v) for v in values], axis=at), dtype)
    return out


@_rule("Split")
def _split(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    n = call.outputs
    if shape is None:
        return [Tensor(None, dtype) for _ in range(n)]
    axis = call.axis(call.int_attr("axis", 0), len(shape))
    fixed = call.ints(1) if call.has(1) else call.ints_attr("split")
    if fixed:
        sizes: list[int | None] = [*fixed]
    elif call.has(1):
        sizes = [None] * n
    elif call.int_attr("num_outputs", n) != n:
        raise call.error(f"{n} outputs for {call.int_attr('num_outputs', n)} parts")
    else:
        sizes = _even_parts(call, shape[axis], n)
    if len(sizes) != n:
        raise call.error(f"{n} outputs for {len(sizes)} parts")
    total = None if None in sizes else sum(sizes)  # type: ignore[arg-type]
    if total is not None and shape[axis] is not None and total != shape[axis]:
        raise call.error(f"parts {sizes} do not add up to {shape[axis]}")
    out, start = [], 0
    for d in sizes:
        part = Tensor((*shape[:axis], d, *shape[axis + 1 :]), dtype)
        if d is not None and total is not None:
            cut = (slice(None),) * axis + (slice(start, start + d),)
            part.data = _restructure(call, lambda x, cut=cut: x[cut], part.shape)
            start += d
        out.append(part)
    return out


def _even_parts(call: Call, size: int | None, n: int) -> list[int | None]:
    if size is None or n < 1:
        return [None] * max(n, 1)
    part = -(-size // n)
    if part * (n - 1) > size:
        raise call.error(f"{size} does not split into {n} parts")
    return [*([part] * (n - 1)), size - part * (n - 1)]


def _slice_arguments(call: Call, rank: int) -> Sequence[Sequence[int | None]] | None:
    """Starts, ends, axes and steps, from the attributes or the inputs; None where not even the axes are known."""
    if len(call.inputs) == 1:
        starts: list[int | None] = list(call.ints_attr("starts") or ())
        return (
            starts,
            list(call.ints_attr("ends") or ()),
            list(call.ints_attr("axes", range(len(starts))) or ()),
            [1] * len(starts),
        )
    axes = call.ints(3)
    if axes is None:
        if call.has(3):
            return None
        vectors = (call.shape(1), call.shape(2))
        axes = list(range(next((s[0] for s in vectors if s and s[0] is not None), rank)))
    unknown: list[int | None] = [None] * len(axes)
    steps = call.ints(4) or (unknown if call.has(4) else [1] * len(axes))
    return call.ints(1) or unknown, call.ints(2) or unknown, axes, steps


@_rule("Slice")
def _slice(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if shape is None:
        return [Tensor(None, dtype)]
    arguments = _slice_arguments(call, len(shape))
    if arguments is None or None in arguments[2]:
        return [Tensor((None,) * len(shape), dtype)]
    if len({len(a) for a in arguments}) > 1:
        raise call.error("starts, ends, axes and steps have different lengths")
    sizes = list(shape)
    cuts: list[slice | None] = [slice(None)] * len(shape)
    for start, end, axis, step in zip(*arguments, strict=True):
        at = call.axis(axis or 0, len(shape))
        if step == 0:
            raise call.error("a slice with step 0")
        d = shape[at]
        if start is None or end is None or step is None or d is None:
            sizes[at], cuts[at] = None, None
        else:
            # Down to before the first element: Python says that with None.
            cut = slice(start, None if step < 0 and end < -d else end, step)
            sizes[at], cuts[at] = len(range(*cut.indices(d))), cut
    out = Tensor(tuple(sizes), dtype)
    if None not in cuts:
        out.data = _restructure(call, lambda x: x[tuple(c for c in cuts if c is not None)], out.shape)
    return [out]


@_rule("Gather")
def _gather(call: Call) -> list[Tensor]:
    source, index = call.get(0), call.get(1)
    if source.shape is None or index.shape is None:
        return [Tensor(None, source.dtype)]
    axis = call.axis(call.int_attr("axis", 0), len(source.shape))
    out = Tensor(source.shape[:axis] + index.shape + source.shape[axis + 1 :], source.dtype)
    if index.values_known and index.data is not None and source.data is not None and _small(out.shape):
        d = source.data.shape[axis]
        if not ((index.data >= -d) & (index.data < d)).all():  # so that NaN is outside too
            raise call.error(f"an index is outside its axis of size {d}")
        # Never mode="wrap", which adds the size to an index until it fits.
        at = index.data.astype(np.int64)
        out.data = _tidy(np.take(source.data, np.where(at < 0, at + d, at), axis=axis), source.dtype)
    return [out]


@_rule("GatherElements")
def _gather_elements(call: Call) -> list[Tensor]:
    return [Tensor(call.get(1).shape, call.get(0).dtype)]


@_rule("GatherND")
def _gather_nd(call: Call) -> list[Tensor]:
    source, index = call.get(0), call.get(1)
    if source.shape is None or not index.shape or index.shape[-1] is None:
        return [Tensor(None, source.dtype)]
    used = call.int_attr("batch_dims", 0) + index.shape[-1]
    if used > len(source.shape):
        raise call.error(f"indices of {index.shape[-1]} entries into a tensor of {len(source.shape)} axes")
    return [Tensor(index.shape[:-1] + source.shape[used:], source.dtype)]


@_rule("Pad")
def _pad(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if shape is None:
        return [Tensor(None, dtype)]
    pads = call.ints(1) if call.has(1) else call.ints_attr("pads") or call.ints_attr("paddings")
    axes = call.ints(3) if call.has(3) else list(range(len(shape)))
    if axes is None or None in axes:
        return [Tensor((None,) * len(shape), dtype)]
    where = [call.axis(a, len(shape)) for a in axes if a is not None]
    if pads is None:
        return [Tensor(tuple(None if i in where else d for i, d in enumerate(shape)), dtype)]
    if len(pads) != 2 * len(where):
        raise call.error(f"{len(pads)} pads for {len(where)} axes")
    sizes = list(shape)
    for i, at in enumerate(where):
        d, low, high = shape[at], pads[i], pads[i + len(where)]
        sizes[at] = None if d is None or low is None or high is None else d + low + high
        if (sizes[at] or 0) < 0:
            raise call.error(f"pads {pads} crop more than there is")
    return [Tensor(tuple(sizes), dtype)]


@_rule("DepthToSpace", "SpaceToDepth")
def _depth_space(call: Call) -> list[Tensor]:
    shape, dtype, block = call.shape(0), call.get(0).dtype, call.int_attr("blocksize")
    if shape is None:
        return [Tensor((None,) * 4, dtype)]
    if len(shape) != 4 or block < 1:
        raise call.error("needs a tensor of 4 axes and a positive blocksize")
    n, c, h, w = shape

    def scaled(d: int | None, up: int, down: int) -> int | None:
        if d is None:
            return None
        if d * up % down:
            raise call.error(f"size {d} is no multiple of {down}")
        return d * up // down

    if call.op == "DepthToSpace":
        return [Tensor((n, scaled(c, 1, block * block), scaled(h, block, 1), scaled(w, block, 1)), dtype)]
    return [Tensor((n, scaled(c, block * block, 1), scaled(h, 1, block), scaled(w, 1, block)), dtype)]


@_rule("Trilu")
def _trilu(call: Call) -> list[Tensor]:
    out = same(call)
    k = call.scalar(1) if call.has(1) else 0
    if len(out.shape or (None, None)) < 2:
        raise call.error(f"a tensor of {len(out.shape or ())} axes has no triangle")
    if k is not None and call.get(0).values_known:
        cut = np.triu if call.attr("upper", 1) else np.tril
        out.data = _restructure(call, lambda x: cut(x, int(k)), out.shape)
    return [out]


@_rule("CenterCropPad")
def _center_crop_pad(call: Call) -> list[Tensor]:
    shape, target = call.shape(0), call.ints(1)
    if shape is None:
        return [Tensor(None, call.get(0).dtype)]
    axes = call.ints_attr("axes", range(len(shape))) or []
    target = target or [None] * len(axes)
    sizes = list(shape)
    for a, d in zip(axes, target, strict=True):
        sizes[call.axis(a, len(shape))] = d
    return [Tensor(tuple(sizes), call.get(0).dtype)]


# ----------------------------------------------------------------------------------- reductions and selections

_REDUCTIONS = {
    "ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMean": np.mean,
    "ReduceL1": None, "ReduceL2": None, "ReduceLogSum": None, "ReduceLogSumExp": None, "ReduceSumSquare": None,
}  # fmt: skip


@_rule(*_REDUCTIONS)
def _reduce(call: Call) -> list[Tensor]:
    shape, dtype, axes = call.shape(0), call.get(0).dtype, _axes(call, 1)
    keep = bool(call.attr("keepdims", 1))
    if shape is None:
        return [Tensor(None if axes or keep else (), dtype)]
    if axes is False:
        n = (call.shape(1) or (None,))[0]
        return [Tensor((None,) * len(shape) if keep else None if n is None else (None,) * (len(shape) - n), dtype)]
    if not axes:
        if call.attr("noop_with_empty_axes"):
            return [Tensor(shape, dtype, data=call.data(0))]
        axes = list(range(len(shape)))
    gone = {call.axis(a, len(shape)) for a in axes}  # type: ignore[union-attr]
    if keep:
        out = Tensor(tuple(1 if i in gone else d for i, d in enumerate(shape)), dtype)
    else:
        out = Tensor(tuple(d for i, d in enumerate(shape) if i not in gone), dtype)
    function, data = _REDUCTIONS[call.op], call.data(0)
    if function is not None and data is not None and data.dtype != object and data.size:
        out.data = _tidy(function(data, axis=tuple(gone), keepdims=keep), dtype)
    return [out]


@_rule("ArgMax", "ArgMin")
def _arg(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, INT64)]
    at = call.axis(call.int_attr("axis", 0), len(shape))
    if call.attr("keepdims", 1):
        return [Tensor(tuple(1 if i == at else d for i, d in enumerate(shape)), INT64)]
    return [Tensor(tuple(d for i, d in enumerate(shape) if i != at), INT64)]


@_rule("NonZero")
def _non_zero(call: Call) -> list[Tensor]:
    source = call.get(0)
    if source.values_known and source.data is not None:
        data = np.stack(np.nonzero(np.atleast_1d(source.data))).astype(np.int64)
        return [Tensor(data.shape, INT64, data=data)]
    return [Tensor((None if source.shape is None else max(len(source.shape), 1), None), INT64)]


@_rule("Compress")
def _compress(call: Call) -> list[Tensor]:
    shape, axis = call.shape(0), call.attr("axis")
    kept = call.data(1)
    n = int(np.count_nonzero(kept)) if kept is not None and kept.dtype != object else None
    if axis is None:
        return [Tensor((n,), call.get(0).dtype)]
    if shape is None:
        return [Tensor(None, call.get(0).dtype)]
    at = call.axis(axis, len(shape))
    return [Tensor((*shape[:at], n, *shape[at + 1 :]), call.get(0).dtype)]


@_rule("OneHot")
def _one_hot(call: Call) -> list[Tensor]:
    shape, depth, dtype = call.shape(0), call.scalar(1), call.get(2).dtype
    if shape is None:
        return [Tensor(None, dtype)]
    at = call.axis(call.int_attr("axis", -1), len(shape) + 1)
    return [Tensor((*shape[:at], None if depth is None else int(depth), *shape[at:]), dtype)]


@_rule("TopK")
def _top_k(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, call.get(0).dtype), Tensor(None, INT64)]
    k = call.scalar(1) if call.has(1) else call.attr("k")
    at = call.axis(call.int_attr("axis", -1), len(shape))
    out = (*shape[:at], None if k is None else int(k), *shape[at + 1 :])
    return [Tensor(out, call.get(0).dtype), Tensor(out, INT64)]


@_rule("Unique")
def _unique(call: Call) -> list[Tensor]:
    shape, axis = call.shape(0), call.attr("axis")
    values: Shape | None = (None,)
    if axis is not None:
        values = None
        if shape is not None:
            at = call.axis(axis, len(shape))
            values = (*shape[:at], None, *shape[at + 1 :])
    return [Tensor(values, call.get(0).dtype), Tensor((None,), INT64), Tensor((None,), INT64), Tensor((None,), INT64)]


@_rule("NonMaxSuppression")
def _nms(call: Call) -> list[Tensor]:
    return [Tensor((None, 3), INT64)]


# -------------------------------------------------------------------------------------------- windows, images


def window_output(
    call: Call, sizes: Sequence[int | None], kernel: Sequence[int], *, ceil_mode: bool = False
) -> list[int | None]:
    """Output sizes of a convolution or pooling window along the spatial axes (ONNX rules of `auto_pad` and `pads`).

    Args:
        call: Gives `strides`, `dilations`, `pads` and `auto_pad`.
        sizes: Input size per spatial axis.
        kernel: Kernel size per spatial axis.
        ceil_mode: Rounds up; a window that starts in the far padding is left out.

    Returns:
        Output size per spatial axis, None where the input's is unknown.
    """
    n = len(sizes)
    strides = call.ints_attr("strides", [1] * n) or [1] * n
    dilations = call.ints_attr("dilations", [1] * n) or [1] * n
    pads = call.ints_attr("pads", [0] * 2 * n) or [0] * 2 * n
    auto = call.str_attr("auto_pad", "NOTSET")
    if len(strides) != n or len(dilations) != n or len(pads) != 2 * n or len(kernel) != n:
        raise call.error(f"kernel, strides, dilations or pads do not fit {n} spatial axes")
    if min([*strides, *dilations, *kernel], default=1) < 1:
        raise call.error("kernel, strides and dilations must be positive")
    out: list[int | None] = []
    for i, d in enumerate(sizes):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if d is None:
            out.append(None)
            continue
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            out.append(-(-d // strides[i]))
            continue
        low, high = (0, 0) if auto == "VALID" else (pads[i], pads[i + n])
        room = d + low + high - reach
        if room < 0:
            raise call.error(f"a window of {reach} does not fit its input of {d} (+{low + high} padding)")
        steps = -(-room // strides[i]) if ceil_mode else room // strides[i]
        if ceil_mode and steps * strides[i] >= d + low:
            steps -= 1
        out.append(steps + 1)
    return out


@_rule("MaxPool", "AveragePool", "LpPool")
def _pool(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    kernel = call.ints_attr("kernel_shape")
    if kernel is None:
        raise call.error("attribute 'kernel_shape' is missing")
    if shape is None:
        shape = (None,) * (len(kernel) + 2)
    if len(shape) != len(kernel) + 2:
        raise call.error(f"a window of {len(kernel)} axes over a tensor of {len(shape)} axes")
    out = shape[:2] + tuple(window_output(call, shape[2:], kernel, ceil_mode=bool(call.attr("ceil_mode", 0))))
    return [Tensor(out, dtype), Tensor(out, INT64)]


@_rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    return [Tensor(None if shape is None else shape[:2] + (1,) * (len(shape) - 2), call.get(0).dtype)]


@_rule("MaxUnpool")
def _max_unpool(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if call.has(2):
        target = call.ints(2)
        return [Tensor(tuple(target) if target is not None else None if shape is None else (None,) * len(shape), dtype)]
    kernel = call.ints_attr("kernel_shape") or []
    if shape is None or len(shape) != len(kernel) + 2:
        return [Tensor(shape and (None,) * len(shape), dtype)]
    strides = call.ints_attr("strides", [1] * len(kernel)) or []
    pads = call.ints_attr("pads", [0] * 2 * len(kernel)) or []
    n = len(kernel)
    sizes = [
        None if d is None else (d - 1) * strides[i] + kernel[i] - pads[i] - pads[i + n] for i, d in enumerate(shape[2:])
    ]
    return [Tensor((*shape[:2], *sizes), dtype)]


@_rule("MaxRoiPool")
def _max_roi_pool(call: Call) -> list[Tensor]:
    image, boxes = call.shape(0), call.shape(1)
    pooled = call.ints_attr("pooled_shape", [1, 1]) or []
    return [Tensor((boxes[0] if boxes else None, image[1] if image else None, *pooled), call.get(0).dtype)]


@_rule("RoiAlign")
def _roi_align(call: Call) -> list[Tensor]:
    image, boxes = call.shape(0), call.shape(1)
    out = (
        boxes[0] if boxes else None,
        image[1] if image else None,
        call.int_attr("output_height", 1),
        call.int_attr("output_width", 1),
    )
    return [Tensor(out, call.get(0).dtype)]


def _scaled(shape: Shape, scales: Sequence[float | None]) -> Shape:
    out: list[int | None] = []
    for d, s in zip(shape, scales, strict=True):
        # Single precision, as runtimes do: 7 * (15 / 7) must stay 15.
        out.append(None if d is None or s is None else int(np.floor(np.float32(d) * np.float32(s))))
    return tuple(out)


def _floats(call: Call, i: int) -> list[float | None] | None:
    data = call.data(i)
    return None if data is None else [None if v is None else float(v) for v in data.reshape(-1).tolist()]


@_rule("Resize", "Upsample")
def _resize(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if shape is None:
        return [Tensor(None, dtype)]
    rank = len(shape)
    axes = [call.axis(a, rank) for a in call.ints_attr("axes", range(rank)) or []]
    scales_at = 1 if call.op == "Upsample" or len(call.inputs) == 2 else 2
    scales: list[float | None] | None
    if call.op == "Upsample" and not call.has(1):
        given = call.attr("scales")
        if given is None:
            given = [1.0, 1.0, call.attr("height_scale", 1.0), call.attr("width_scale", 1.0)]
        scales = list(given)
    else:
        scales = _floats(call, scales_at)
    if call.has(3) and call.shape(3) != (0,):
        sizes = call.ints(3)
        if sizes is None:
            return [Tensor(tuple(None if i in axes else d for i, d in enumerate(shape)), dtype)]
        policy = call.str_attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch" and is_known(shape) and None not in sizes:
            ratios = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]  # type: ignore[operator]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = [math.floor(ratio * shape[a] + 0.5) for a in axes]  # type: ignore[operator]
        out = list(shape)
        for a, s in zip(axes, sizes, strict=True):
            out[a] = s
        return [Tensor(tuple(out), dtype)]
    if scales is None:
        return [Tensor(tuple(None if i in axes else d for i, d in enumerate(shape)), dtype)]
    if len(scales) != len(axes):
        raise call.error(f"{len(scales)} scales for {len(axes)} axes")
    full: list[float | None] = [1.0] * rank
    for a, s in zip(axes, scales, strict=True):
        full[a] = s
    if any(s is not None and not 0 < s < 1e6 for s in full):
        raise call.error(f"scales {full} are no scales")
    return [Tensor(_scaled(shape, full), dtype)]


@_rule("GridSample")
def _grid_sample(call: Call) -> list[Tensor]:
    image, grid = call.shape(0), call.shape(1)
    if image is None or grid is None:
        return [Tensor(None, call.get(0).dtype)]
    return [Tensor(image[:2] + grid[1:-1], call.get(0).dtype)]


@_rule("AffineGrid")
def _affine_grid(call: Call) -> list[Tensor]:
    size = call.ints(1)
    if size is None:
        return [Tensor(None, call.get(0).dtype)]
    return [Tensor((size[0], *size[2:], len(size) - 2), call.get(0).dtype)]


@_rule("Col2Im")
def _col2im(call: Call) -> list[Tensor]:
    shape, image, block = call.shape(0), call.ints(1), call.ints(2)
    if shape is None or image is None:
        return [Tensor(None, call.get(0).dtype)]
    size = None if block is None else product(block)
    channels = None if size is None or shape[1] is None else shape[1] // max(size, 1)
    return [Tensor((shape[0], channels, *image), call.get(0).dtype)]


# ------------------------------------------------------------------------------- products that are not modelled


@_rule("Det", "Inverse")
def _matrix_function(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: {call.op} does multiply-accumulates that are not modelled; it is no layer")
    shape = call.shape(0)
    if call.op == "Inverse" or shape is None:
        return [same(call)]
    return [Tensor(shape[:-2], call.get(0).dtype)]


@_rule("DFT")
def _dft(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: DFT does multiply-accumulates that are not modelled; it is no layer")
    shape = call.shape(0)
    if shape is None:
        return [same(call)]
    axis = call.scalar(2) if call.has(2) else call.attr("axis", 1 if call.opset < 20 else -2)
    if axis is None:
        return [Tensor((None,) * len(shape), call.get(0).dtype)]
    at = call.axis(int(axis), len(shape))
    length = call.scalar(1) if call.has(1) else shape[at]
    n = None if length is None else int(length)
    sizes = list(shape)
    sizes[-1] = 2
    if call.attr("onesided") and call.attr("inverse"):  # half a spectrum in, a real signal out
        n = n if call.has(1) or n is None else 2 * (n - 1)
        sizes[-1] = 1
    elif call.attr("onesided") and n is not None:
        n = n // 2 + 1
    sizes[at] = n
    return [Tensor(tuple(sizes), call.get(0).dtype)]


@_rule("STFT")
def _stft(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: STFT does multiply-accumulates that are not modelled; it is no layer")
    shape, step = call.shape(0), call.scalar(1)
    window = call.shape(2)
    length = call.scalar(3) if call.has(3) else window[0] if window else None
    if shape is None or step is None or length is None or shape[1] is None:
        return [Tensor((shape[0] if shape else None, None, None, 2), call.get(0).dtype)]
    frames = (shape[1] - int(length)) // int(step) + 1
    bins = int(length) // 2 + 1 if call.attr("onesided", 1) else int(length)
    return [Tensor((shape[0], frames, bins, 2), call.get(0).dtype)]


@_rule(
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "SVMClassifier", "SVMRegressor",
    "LinearClassifier", "LinearRegressor",
)  # fmt: skip
def _classical(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: {call.op} does multiply-accumulates that are not modelled; it is no layer")
    return [Tensor(None, FLOAT) for _ in range(call.outputs)]


@_rule(
    "ArrayFeatureExtractor", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "LabelEncoder", "OneHotEncoder",
    "ZipMap", "CastMap", "TfIdfVectorizer", "ImageDecoder", "Adagrad", "Adam", "Momentum", "Gradient",
)  # fmt: skip
def _opaque(call: Call) -> list[Tensor]:
    return [Tensor(None, FLOAT) for _ in range(call.outputs)]


# ------------------------------------------------------------------------------------------- losses and strings


@_rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(call: Call) -> list[Tensor]:
    shape = call.shape(1) if call.str_attr("reduction", "mean") == "none" else ()
    return [Tensor(shape, call.get(0).dtype), same(call)]


@_rule("StringNormalizer")
def _string_normalizer(call: Call) -> list[Tensor]:
    return [Tensor(call.shape(0) and (*(call.shape(0) or ())[:-1], None), STRING)]


@_rule("StringConcat", "StringSplit", "RegexFullMatch")
def _strings(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if call.op == "StringConcat":
        return [Tensor(broadcast(shape, call.shape(1)), STRING)]
    if call.op == "RegexFullMatch":
        return [Tensor(shape, BOOL)]
    return [Tensor(None if shape is None else (*shape, None), STRING), Tensor(shape, INT64)]


# ---------------------------------------------------------------------------------------- sequences, optionals


@_rule("SequenceEmpty")
def _sequence_empty(call: Call) -> list[Tensor]:
    return [Tensor(None, call.attr("dtype") or FLOAT, elements=[], sequence=True)]


def _sequence(elements: list[Tensor] | None, dtype: int) -> Tensor:
    return Tensor(None, dtype, elements=elements, sequence=True)


@_rule("SequenceConstruct")
def _sequence_construct(call: Call) -> list[Tensor]:
    elements = [call.get(i) for i in range(len(call.inputs))]
    return [_sequence(elements, elements[0].dtype if elements else FLOAT)]


@_rule("SequenceInsert", "SequenceErase")
def _sequence_edit(call: Call) -> list[Tensor]:
    source = call.get(0)
    at = 1 if call.op == "SequenceErase" else 2
    place = call.scalar(at) if call.has(at) else None
    if source.elements is None or (call.has(at) and place is None):
        return [_sequence(None, source.dtype)]
    elements = list(source.elements)
    if call.op == "SequenceInsert":
        position = len(elements) if place is None else int(place)
        elements.insert(position, call.get(1))
        return [_sequence(elements, call.get(1).dtype)]
    if not elements:
        raise call.error("nothing to erase from an empty sequence")
    del elements[-1 if place is None else int(place)]
    return [_sequence(elements, source.dtype)]


@_rule("SequenceAt")
def _sequence_at(call: Call) -> list[Tensor]:
    source, place = call.get(0), call.scalar(1)
    if source.elements is None:
        return [Tensor(None, source.dtype)]
    if place is None:
        shapes = {e.shape for e in call.members(0) or ()}
        return [Tensor(shapes.pop() if len(shapes) == 1 else None, source.dtype)]
    if not -len(source.elements) <= place < len(source.elements):
        raise call.error(f"element {place} of a sequence of {len(source.elements)}")
    element = source.elements[int(place)]
    # The very element: it depends only on what made it, not on its neighbours.
    return [Tensor(element.shape, element.dtype, element.data, element.const, element.producers, element.bits)]


@_rule("SequenceLength")
def _sequence_length(call: Call) -> list[Tensor]:
    elements = call.get(0).elements
    return [Tensor((), INT64, data=None if elements is None else np.asarray(len(elements), np.int64))]


_MOST_PARTS = 10_000
"""Members of a sequence that are told apart."""


@_rule("SplitToSequence")
def _split_to_sequence(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if shape is None:
        return [_sequence(None, dtype)]
    axis = call.axis(call.int_attr("axis", 0), len(shape))
    d = shape[axis]
    given = call.ints(1) if call.has(1) else [1]
    keep = call.has(1) or bool(call.attr("keepdims", 1))
    sizes = None if given is None or None in given else [s for s in given if s is not None]
    if sizes is not None and (not call.has(1) or call.shape(1) == ()):
        if sizes[0] < 1:
            raise call.error(f"parts of size {sizes[0]}")
        if d is None or -(-d // sizes[0]) > _MOST_PARTS:  # counted before any list of them is made
            return [_sequence(None, dtype)]
        sizes = [sizes[0]] * (d // sizes[0]) + ([d % sizes[0]] if d % sizes[0] else [])
    if sizes is None or len(sizes) > _MOST_PARTS:
        return [_sequence(None, dtype)]
    alike: dict[int, Tensor] = {}  # parts of one size are one tensor: what is known of them is the same
    for s in sizes:
        if s < 0:
            raise call.error(f"parts of size {s}")
        if s not in alike:
            part = (*shape[:axis], *((s,) if keep else ()), *shape[axis + 1 :])
            alike[s] = Tensor(part, dtype, const=call.get(0).const, producers=call.get(0).producers)
    return [_sequence([alike[s] for s in sizes], dtype)]


@_rule("Optional")
def _optional(call: Call) -> list[Tensor]:
    if not call.has(0):
        return [Tensor(None, elements=[], sequence=True)]
    return [_sequence([call.get(0)], call.get(0).dtype)]


@_rule("OptionalGetElement")
def _optional_get(call: Call) -> list[Tensor]:
    source = call.get(0)
    if source.elements and len(source.elements) == 1:
        source = source.elements[0]
    return [Tensor(source.shape, source.dtype, source.data, elements=source.elements, sequence=source.sequence)]


@_rule("OptionalHasElement")
def _optional_has(call: Call) -> list[Tensor]:
    present: bool | None = False
    if call.has(0):
        source = call.get(0)
        present = True if not source.sequence or source.elements else None if source.elements is None else False
    return [Tensor((), BOOL, data=None if present is None else np.asarray(present))]
