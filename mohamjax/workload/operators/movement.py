"""Operators that move elements: reshapes, slices, gathers, concatenations, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mohamjax.workload.operators.constants import unknown_rank
from mohamjax.workload.operators.folding import fold_moved, fold_reshaped, is_small, same, tidy
from mohamjax.workload.operators.registry import rule
from mohamjax.workload.operators.repetition_rules import chosen, joined, permuted, picked, pointwise, viewed
from mohamjax.workload.repetition import reshaped, simplified
from mohamjax.workload.tensor import Call, Tensor, broadcast, count, is_known, product, show


@rule("Reshape")
def _reshape(call: Call) -> list[Tensor]:
    source = call.get(0)
    target = call.ints(1) if call.has(1) else call.ints_attr("shape")
    if target is None:
        return [Tensor(unknown_rank(call.shape(1)), source.dtype)]
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
    out = viewed(Tensor(tuple(sizes), source.dtype), source)
    out.data = fold_reshaped(call, out.shape)
    return [out]


@rule("Flatten")
def _flatten(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor((None, None), call.get(0).dtype)]
    axis = call.int_attr("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise call.error(f"axis {axis} does not exist in a tensor of {len(shape)} axes")
    axis = axis + len(shape) if axis < 0 else axis
    out = viewed(Tensor((product(shape[:axis]), product(shape[axis:])), call.get(0).dtype), call.get(0))
    out.data = fold_reshaped(call, out.shape)
    return [out]


@rule("Transpose")
def _transpose(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if shape is None:
        return [Tensor(None, call.get(0).dtype)]
    order = call.ints_attr("perm", range(len(shape) - 1, -1, -1)) or []
    if sorted(order) != list(range(len(shape))):
        raise call.error(f"perm {order} does not fit a tensor of {len(shape)} axes")
    out = permuted(Tensor(tuple(shape[i] for i in order), call.get(0).dtype), call.get(0), order)
    out.data = fold_moved(call, lambda x: x.transpose(order), out.shape)
    return [out]


def given_axes(call: Call, i: int) -> list[int] | bool | None:
    """Axes from the attribute or from input i; None = not given, False = given but unknown."""
    if call.has(i):
        axes = call.ints(i)
        return False if axes is None or None in axes else [a for a in axes if a is not None]
    return call.ints_attr("axes")


@rule("Squeeze")
def _squeeze(call: Call) -> list[Tensor]:
    shape, axes = call.shape(0), given_axes(call, 1)
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
    out = viewed(Tensor(tuple(d for i, d in enumerate(shape) if i not in drop), call.get(0).dtype), call.get(0))
    out.data = fold_reshaped(call, out.shape)
    return [out]


@rule("Unsqueeze")
def _unsqueeze(call: Call) -> list[Tensor]:
    shape, axes = call.shape(0), given_axes(call, 1)
    if shape is None or axes is False:
        return [Tensor(None, call.get(0).dtype)]
    if axes is None:
        raise call.error("axes are missing")
    rank = len(shape) + len(axes)  # type: ignore[arg-type]
    new = {call.axis(a, rank) for a in axes}  # type: ignore[union-attr]
    if len(new) != rank - len(shape):
        raise call.error(f"axes {axes} repeat")
    rest = iter(shape)
    out = viewed(Tensor(tuple(1 if i in new else next(rest) for i in range(rank)), call.get(0).dtype), call.get(0))
    data = call.data(0)
    if data is not None:
        out.data = data.reshape([1 if d is None else d for d in out.shape or ()])
    return [out]


@rule("Expand")
def _expand(call: Call) -> list[Tensor]:
    source, target = call.get(0), call.ints(1)
    if target is None:
        rank = unknown_rank(call.shape(1))
        longest = None if rank is None or source.shape is None else max(len(rank), len(source.shape))
        return [Tensor(None if longest is None else (None,) * longest, source.dtype)]
    if any(d is not None and d < 0 for d in target):
        raise call.error(f"target {target} is no shape")
    out = pointwise(Tensor(broadcast(source.shape, tuple(target)), source.dtype), [source])
    if is_known(out.shape):
        out.data = fold_moved(call, lambda x: np.broadcast_to(x, out.shape), out.shape)  # type: ignore[arg-type]
    return [out]


@rule("Tile")
def _tile(call: Call) -> list[Tensor]:
    shape, repeats = call.shape(0), call.ints(1)
    if shape is None or repeats is None:
        return [Tensor(None if shape is None else (None,) * len(shape), call.get(0).dtype)]
    if len(repeats) != len(shape):
        raise call.error(f"{len(repeats)} repeats for a tensor of {len(shape)} axes")
    out = Tensor(tuple(product((d, r)) for d, r in zip(shape, repeats, strict=True)), call.get(0).dtype)
    if is_known(out.shape) and is_known(shape):
        out.data = fold_moved(call, lambda x: np.tile(x, [r or 0 for r in repeats]), out.shape)
        axes = zip(repeats, call.get(0).factors, strict=True)
        out.repeat(tuple(simplified([(r or 0, True), *factors]) for r, factors in axes))
    return [out]


@rule("Concat", "ConcatFromSequence")
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
    if is_small(out.shape):
        values = [p.data for p in parts]
        if (
            any(v is None for v in values)
            and len(sizes) == 1
            and is_known(out.shape)
            and any(v is not None for v in values)
        ):
            # A shape vector of which a part depends on data: the rest of it is still known.
            values = [
                np.full([d or 0 for d in p.shape or ()], None, object) if v is None else v
                for p, v in zip(parts, values, strict=True)
            ]
        if all(v is not None for v in values):
            join = np.stack if stack else np.concatenate
            out.data = tidy(join([np.asarray(v) for v in values], axis=at), dtype)
    return joined(call, out, parts, at, stack=stack)


@rule("Split")
def _split(call: Call) -> list[Tensor]:
    shape, dtype = call.axes_of(0), call.get(0).dtype
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
            cut = tuple(slice(start, start + d) if i == axis else slice(None) for i in range(len(shape)))
            chosen(call, part, call.get(0), cut)
            part.data = fold_moved(call, lambda x, cut=cut: x[cut], part.shape)
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


@rule("Slice")
def _slice(call: Call) -> list[Tensor]:
    shape, dtype = call.axes_of(0), call.get(0).dtype
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
            # A slice down to the first element, inclusive: Python writes its end as None.
            cut = slice(start, None if step < 0 and end < -d else end, step)
            sizes[at], cuts[at] = len(range(*cut.indices(d))), cut
    out = Tensor(tuple(sizes), dtype)
    known = [cut for cut in cuts if cut is not None]
    if len(known) == len(cuts):
        chosen(call, out, call.get(0), known)
        out.data = fold_moved(call, lambda x: x[tuple(known)], out.shape)
    return [out]


@rule("Gather")
def _gather(call: Call) -> list[Tensor]:
    source, index = call.get(0), call.get(1)
    if call.axes_of(0) is None or source.shape is None or index.shape is None:
        return [Tensor(None, source.dtype)]
    axis = call.axis(call.int_attr("axis", 0), len(source.shape))
    out = Tensor(source.shape[:axis] + index.shape + source.shape[axis + 1 :], source.dtype)
    if index.values_known and index.data is not None and source.data is not None and is_small(out.shape):
        d = source.data.shape[axis]
        if not ((index.data >= -d) & (index.data < d)).all():  # so that NaN is outside too
            raise call.error(f"an index is outside its axis of size {d}")
        # Never mode="wrap", which adds the size to an index until it fits.
        at = index.data.astype(np.int64)
        out.data = tidy(np.take(source.data, np.where(at < 0, at + d, at), axis=axis), source.dtype)
    _note_gathered(call, out, axis)
    return [out]


def _note_gathered(call: Call, out: Tensor, axis: int) -> None:
    """Records where a Gather repeats itself: where its index does, and where the axis that it picks from does."""
    source, index = call.get(0), call.get(1)
    if not (is_known(source.shape) and is_known(index.shape)) or not count(out.shape):
        return
    factors, (d, among) = source.factors, ((source.shape or ())[axis] or 0, index.factors)
    if index.values_known and index.data is not None and index.data.dtype.kind in "iu":
        places = index.data.reshape(-1).astype(np.int64)
        places = np.where(places < 0, places + d, places)
        if ((places >= 0) & (places < d)).all():
            among = reshaped((picked(call, factors[axis], places),), index.shape)  # type: ignore[arg-type]
    out.repeat((*factors[:axis], *among, *factors[axis + 1 :]))


@rule("GatherElements")
def _gather_elements(call: Call) -> list[Tensor]:
    return [Tensor(call.get(1).shape, call.get(0).dtype)]


@rule("GatherND")
def _gather_nd(call: Call) -> list[Tensor]:
    source, index = call.get(0), call.get(1)
    if source.shape is None or not index.shape or index.shape[-1] is None:
        return [Tensor(None, source.dtype)]
    used = call.int_attr("batch_dims", 0) + index.shape[-1]
    if used > len(source.shape):
        raise call.error(f"indices of {index.shape[-1]} entries into a tensor of {len(source.shape)} axes")
    return [Tensor(index.shape[:-1] + source.shape[used:], source.dtype)]


@rule("Pad")
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


@rule("DepthToSpace", "SpaceToDepth")
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


@rule("Trilu")
def _trilu(call: Call) -> list[Tensor]:
    out = same(call)
    k = call.scalar(1) if call.has(1) else 0
    if out.shape is not None and len(out.shape) < 2:
        raise call.error(f"a tensor {show(out.shape)} has no triangle")
    if k is not None and call.get(0).values_known:
        cut = np.triu if call.attr("upper", 1) else np.tril
        out.data = fold_moved(call, lambda x: cut(x, int(k)), out.shape)
    return [out]


@rule("CenterCropPad")
def _center_crop_pad(call: Call) -> list[Tensor]:
    shape, target = call.shape(0), call.ints(1)
    if shape is None:
        return [Tensor(None, call.get(0).dtype)]
    axes = call.ints_attr("axes", range(len(shape))) or []
    target = target or [None] * len(axes)
    if len(target) != len(axes):
        raise call.error(f"{len(target)} sizes for {len(axes)} axes")
    sizes = list(shape)
    for a, d in zip(axes, target, strict=True):
        sizes[call.axis(a, len(shape))] = d
    return [Tensor(tuple(sizes), call.get(0).dtype)]
