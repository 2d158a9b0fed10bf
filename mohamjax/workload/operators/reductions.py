"""Reductions and selections."""

from __future__ import annotations

import numpy as np

from mohamjax.workload.operators.folding import tidy
from mohamjax.workload.operators.movement import given_axes
from mohamjax.workload.operators.registry import rule
from mohamjax.workload.tensor import INT64, Call, Shape, Tensor

_REDUCTIONS = {
    "ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMean": np.mean,
    "ReduceL1": None, "ReduceL2": None, "ReduceLogSum": None, "ReduceLogSumExp": None, "ReduceSumSquare": None,
}  # fmt: skip


@rule(*_REDUCTIONS)
def _reduce(call: Call) -> list[Tensor]:
    shape, dtype, axes = call.shape(0), call.get(0).dtype, given_axes(call, 1)
    keep = bool(call.attr("keepdims", 1))
    if shape is None:
        alone = not axes and axes is not False and not keep and not call.attr("noop_with_empty_axes")
        return [Tensor(() if alone else None, dtype)]
    if axes is False:
        n = (call.shape(1) or (None,))[0]
        return [Tensor((None,) * len(shape) if keep else None if n is None else (None,) * (len(shape) - n), dtype)]
    if not axes:
        if call.attr("noop_with_empty_axes"):
            # Sums of squares and their like still apply what they do to a single element.
            return [Tensor(shape, dtype, data=None if _REDUCTIONS[call.op] is None else call.data(0))]
        axes = list(range(len(shape)))
    gone = {call.axis(a, len(shape)) for a in axes}  # type: ignore[union-attr]
    if keep:
        out = Tensor(tuple(1 if i in gone else d for i, d in enumerate(shape)), dtype)
    else:
        out = Tensor(tuple(d for i, d in enumerate(shape) if i not in gone), dtype)
    function, data = _REDUCTIONS[call.op], call.data(0)
    if function is not None and data is not None and data.dtype != object and data.size:
        out.data = tidy(function(data, axis=tuple(gone), keepdims=keep), dtype)
    return [out]


@rule("ArgMax", "ArgMin")
def _arg(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, INT64)]
    at = call.axis(call.int_attr("axis", 0), len(shape))
    if call.attr("keepdims", 1):
        return [Tensor(tuple(1 if i == at else d for i, d in enumerate(shape)), INT64)]
    return [Tensor(tuple(d for i, d in enumerate(shape) if i != at), INT64)]


@rule("NonZero")
def _non_zero(call: Call) -> list[Tensor]:
    source = call.get(0)
    if source.values_known and source.data is not None:
        data = np.stack(np.nonzero(np.atleast_1d(source.data))).astype(np.int64)
        return [Tensor(data.shape, INT64, data=data)]
    return [Tensor((None if source.shape is None else max(len(source.shape), 1), None), INT64)]


@rule("Compress")
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


@rule("OneHot")
def _one_hot(call: Call) -> list[Tensor]:
    shape, depth, dtype = call.shape(0), call.scalar(1), call.get(2).dtype
    if shape is None:
        return [Tensor(None, dtype)]
    at = call.axis(call.int_attr("axis", -1), len(shape) + 1)
    return [Tensor((*shape[:at], None if depth is None else int(depth), *shape[at:]), dtype)]


@rule("TopK")
def _top_k(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, call.get(0).dtype), Tensor(None, INT64)]
    k = call.scalar(1) if call.has(1) else call.number_attr("k")
    at = call.axis(call.int_attr("axis", -1), len(shape))
    out = (*shape[:at], None if k is None else int(k), *shape[at + 1 :])
    return [Tensor(out, call.get(0).dtype), Tensor(out, INT64)]


@rule("Unique")
def _unique(call: Call) -> list[Tensor]:
    shape, axis = call.shape(0), call.attr("axis")
    values: Shape | None = (None,)
    if axis is not None:
        values = None
        if shape is not None:
            at = call.axis(axis, len(shape))
            values = (*shape[:at], None, *shape[at + 1 :])
    return [Tensor(values, call.get(0).dtype), Tensor((None,), INT64), Tensor((None,), INT64), Tensor((None,), INT64)]


@rule("NonMaxSuppression")
def _nms(call: Call) -> list[Tensor]:
    return [Tensor((None, 3), INT64)]
