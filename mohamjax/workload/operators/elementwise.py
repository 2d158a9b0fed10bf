"""Element-wise operators, normalisations and quantisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mohamjax.workload.operators.folding import fold_elementwise, is_small, same, tidy
from mohamjax.workload.operators.registry import rule
from mohamjax.workload.operators.repetition_rules import pointwise, viewed
from mohamjax.workload.tensor import BOOL, FLOAT, NUMPY_TYPES, TYPE_BITS, UINT8, Call, Tensor, broadcast, count


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
    "HardSwish", "LeakyRelu", "Mish", "Selu", "Shrink", "Sigmoid", "Sinh", "Softplus", "Softsign", "Swish", "Tan",
    "ThresholdedRelu", "ParametricSoftplus", "ScaledTanh", "Affine",
))  # fmt: skip
_LIKE_FIRST = (
    "Hardmax", "LogSoftmax", "LpNormalization", "LRN", "MeanVarianceNormalization", "Softmax", "ImageScaler",
    "InstanceNormalization", "GroupNormalization", "RMSNormalization", "CumSum", "PRelu", "CumProd",
    "ReverseSequence", "Scatter", "ScatterElements", "ScatterND", "TensorScatter", "Bernoulli",
    "RotaryEmbedding", "Scaler", "Normalizer", "Binarizer", "Imputer",
)  # fmt: skip
"""Operators whose results have the first input's shape, but need more than the same entry of that input."""


@rule(*_UNARY)
def _unary(call: Call) -> list[Tensor]:
    out = pointwise(same(call), [call.get(0)])
    function = _UNARY[call.op]
    if function is not None:
        out.data = fold_elementwise(call, function, out.shape, out.dtype, [0])
    return [out]


@rule(*_LIKE_FIRST)
def _like_first(call: Call) -> list[Tensor]:
    out = same(call)
    if call.op == "CumSum" and call.data(0) is not None and call.get(0).values_known:
        out.data = _cumsum(call)
    elif call.op == "Bernoulli" and call.attr("dtype"):
        out.dtype = call.int_attr("dtype")
    return [out]


def _cumsum(call: Call) -> np.ndarray | None:
    axis, data = call.scalar(1), call.get(0).data
    if axis is None or data is None or call.attr("exclusive") or call.attr("reverse"):
        return None
    return tidy(np.cumsum(data, axis=int(axis)), call.get(0).dtype)


@rule("IsInf", "IsNaN")
def _is_something(call: Call) -> list[Tensor]:
    return [same(call, dtype=BOOL)]


@rule("Identity")
def _identity(call: Call) -> list[Tensor]:
    source = call.get(0)
    out = Tensor(source.shape, source.dtype, data=source.data, elements=source.elements, sequence=source.sequence)
    return [viewed(out, source)]


@rule("Dropout")
def _dropout(call: Call) -> list[Tensor]:
    first = same(call)
    if not call.has(2):  # not in training mode
        viewed(first, call.get(0)).data = call.data(0)
    return [first, same(call, dtype=BOOL)]


@rule("Clip")
def _clip(call: Call) -> list[Tensor]:
    out = pointwise(same(call), [call.get(0)])
    low, high = call.scalar(1), call.scalar(2)
    if (call.has(1) and low is None) or (call.has(2) and high is None):
        return [out]
    low = call.number_attr("min", low)
    high = call.number_attr("max", high)

    def clip(x):
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)

    out.data = fold_elementwise(call, clip, out.shape, out.dtype, [0])
    return [out]


@rule("BitCast")
def _bit_cast(call: Call) -> list[Tensor]:
    return [same(call, dtype=call.int_attr("to"))]


@rule("Cast", "CastLike")
def _cast(call: Call) -> list[Tensor]:
    target = call.get(1).dtype if call.op == "CastLike" else call.attr("to")
    if isinstance(target, bytes):  # operator set below 6
        target = {b"FLOAT": 1, b"INT32": 6, b"INT64": 7, b"BOOL": 9, b"FLOAT16": 10, b"DOUBLE": 11}.get(
            target.upper(), 1
        )
    if not isinstance(target, int):
        raise call.error("attribute 'to' is missing")
    out = pointwise(same(call, dtype=target), [call.get(0)])
    data = call.data(0)
    if data is not None and NUMPY_TYPES.get(target) is not None:
        with np.errstate(all="ignore"):
            if data.dtype == object:
                out.data = tidy(data, target)
            else:
                out.data = data.astype(NUMPY_TYPES[target])
    return [out]


def _power(a, b):
    return np.power(np.asarray(a, float), b)


_BINARY: dict[str, Callable | None] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _truncated_div, "Pow": _power,
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal, "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "BitShift": None, "Mod": None, "SwiGLU": None,
}  # fmt: skip
_COMPARISONS = {"And", "Or", "Xor", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}


@rule(*_BINARY)
def _binary(call: Call) -> list[Tensor]:
    dtype = BOOL if call.op in _COMPARISONS else call.get(0).dtype
    if call.attr("broadcast"):  # operator set below 7: the second operand is spread along an axis of the first
        return [Tensor(call.shape(0), dtype)]
    shape = broadcast(call.get(0).shape, call.get(1).shape)
    function = _BINARY[call.op]
    if call.op == "Mod":
        function = np.fmod if call.attr("fmod") else np.mod
    out = pointwise(Tensor(shape, dtype), [call.get(0), call.get(1)])
    if function is not None:
        out.data = fold_elementwise(call, function, shape, dtype, [0, 1])
    return [out]


@rule("Max", "Min", "Sum", "Mean")
def _variadic(call: Call) -> list[Tensor]:
    operands = [call.get(i) for i in range(len(call.inputs))]
    shape = broadcast(*(t.shape for t in operands))
    out = pointwise(Tensor(shape, call.get(0).dtype), operands)
    combine = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}.get(call.op)
    if combine is not None:

        def reduce(*values):
            result = values[0]
            for value in values[1:]:
                result = combine(result, value)
            return result

        out.data = fold_elementwise(call, reduce, shape, out.dtype, range(len(call.inputs)))
    return [out]


@rule("Where")
def _where(call: Call) -> list[Tensor]:
    shape = broadcast(*(call.get(i).shape for i in range(3)))
    out = pointwise(Tensor(shape, call.get(1).dtype), [call.get(i) for i in range(3)])
    condition = call.data(0)
    if condition is not None and condition.dtype != object and is_small(shape):
        # Only the chosen side must be known: `Where(True, x, unknown)` is x.
        sides = []
        for i, needed in ((1, condition.any()), (2, not condition.all())):
            value = call.data(i)
            if value is None and not needed:
                value = np.zeros((), NUMPY_TYPES.get(out.dtype, np.int64))
            sides.append(value)
        if all(side is not None for side in sides):
            out.data = tidy(np.broadcast_to(np.where(condition, *sides), shape), out.dtype)  # type: ignore[arg-type]
    return [out]


@rule("BatchNormalization")
def _batch_normalization(call: Call) -> list[Tensor]:
    statistics = [Tensor(call.shape(i), call.get(0).dtype) for i in (3, 4, 3, 4)]
    return [same(call), *statistics[: max(call.outputs - 1, 0)]]


@rule("LayerNormalization")
def _layer_normalization(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [same(call), Tensor(None), Tensor(None)]
    axis = call.axis(call.int_attr("axis", -1), len(shape))
    statistics = tuple(d if i < axis else 1 for i, d in enumerate(shape))
    return [same(call), Tensor(statistics), Tensor(statistics)]


@rule("QuantizeLinear")
def _quantize(call: Call) -> list[Tensor]:
    dtype = call.get(2).dtype if call.has(2) else call.type_attr("output_dtype", UINT8)
    return [_scaled(call, same(call, dtype=dtype))]


@rule("DequantizeLinear")
def _dequantize(call: Call) -> list[Tensor]:
    out = same(call, dtype=call.type_attr("output_dtype", call.get(1).dtype if call.has(1) else FLOAT))
    out.bits = TYPE_BITS.get(call.get(0).dtype)
    return [_scaled(call, out)]


def _scaled(call: Call, out: Tensor) -> Tensor:
    """`out`, quantised or dequantised: with one scale for the whole tensor it repeats what its input repeats."""
    return pointwise(out, [call.get(0)]) if call.has(1) and count(call.shape(1)) == 1 else out


@rule("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call) -> list[Tensor]:
    return [same(call, dtype=UINT8), Tensor((), FLOAT), Tensor((), UINT8)]
