"""Pooling windows, resizing and sampling of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mohamjax.workload.operators.registry import rule
from mohamjax.workload.tensor import INT64, Call, Shape, Tensor, is_known, product, show

_WAYS_TO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def auto_pad(call: Call) -> str:
    """How a window is padded; it is an error if that is none of the ways that ONNX knows."""
    how = call.str_attr("auto_pad", "NOTSET") or "NOTSET"
    if how not in _WAYS_TO_PAD:
        raise call.error(f"auto_pad {how[:40]!r} is none of {', '.join(_WAYS_TO_PAD)}")
    return how


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
    strides = call.window_attr("strides", [1] * n)
    dilations = call.window_attr("dilations", [1] * n)
    pads = call.window_attr("pads", [0] * 2 * n)
    auto = auto_pad(call)
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


@rule("MaxPool", "AveragePool", "LpPool")
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


@rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _global_pool(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    return [Tensor(None if shape is None else shape[:2] + (1,) * (len(shape) - 2), call.get(0).dtype)]


@rule("MaxUnpool")
def _max_unpool(call: Call) -> list[Tensor]:
    shape, dtype = call.shape(0), call.get(0).dtype
    if call.has(2):
        target = call.ints(2)
        return [Tensor(tuple(target) if target is not None else None if shape is None else (None,) * len(shape), dtype)]
    kernel = call.ints_attr("kernel_shape") or []
    if shape is None or len(shape) != len(kernel) + 2:
        return [Tensor(shape and (None,) * len(shape), dtype)]
    n = len(kernel)
    strides, pads = call.window_attr("strides", [1] * n), call.window_attr("pads", [0] * 2 * n)
    if len(strides) != n or len(pads) != 2 * n:
        raise call.error(f"strides or pads do not fit {n} spatial axes")
    sizes = [
        None if d is None else (d - 1) * strides[i] + kernel[i] - pads[i] - pads[i + n] for i, d in enumerate(shape[2:])
    ]
    return [Tensor((*shape[:2], *sizes), dtype)]


@rule("MaxRoiPool")
def _max_roi_pool(call: Call) -> list[Tensor]:
    image, boxes = call.axes_of(0, 2), call.axes_of(1)
    pooled = call.ints_attr("pooled_shape", [1, 1]) or []
    return [Tensor((boxes[0] if boxes else None, image[1] if image else None, *pooled), call.get(0).dtype)]


@rule("RoiAlign")
def _roi_align(call: Call) -> list[Tensor]:
    image, boxes = call.axes_of(0, 2), call.axes_of(1)
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


@rule("Resize", "Upsample")
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
            scales = [1.0, 1.0, call.number_attr("height_scale", 1.0), call.number_attr("width_scale", 1.0)]
        elif isinstance(given, list):
            scales = given
        else:
            raise call.error("attribute 'scales' is no list of numbers")
    else:
        scales = _floats(call, scales_at)
    if call.has(3) and call.shape(3) != (0,):
        sizes = call.ints(3)
        if sizes is None:
            return [Tensor(tuple(None if i in axes else d for i, d in enumerate(shape)), dtype)]
        policy = call.str_attr("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch" and is_known(shape) and None not in sizes and len(sizes) == len(axes):
            if any(shape[a] == 0 for a in axes):
                raise call.error(f"an image {show(shape)} has no aspect ratio")
            ratios = [s / shape[a] for s, a in zip(sizes, axes, strict=True)]  # type: ignore[operator]
            ratio = min(ratios) if policy == "not_larger" else max(ratios)
            sizes = [math.floor(ratio * shape[a] + 0.5) for a in axes]  # type: ignore[operator]
        if len(sizes) != len(axes):
            raise call.error(f"{len(sizes)} sizes for {len(axes)} axes")
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


@rule("GridSample")
def _grid_sample(call: Call) -> list[Tensor]:
    image, grid = call.axes_of(0, 2), call.axes_of(1, 2)
    if image is None or grid is None:
        return [Tensor(None, call.get(0).dtype)]
    return [Tensor(image[:2] + grid[1:-1], call.get(0).dtype)]


@rule("AffineGrid")
def _affine_grid(call: Call) -> list[Tensor]:
    size = call.ints(1)
    if size is None:
        return [Tensor(None, call.get(0).dtype)]
    if len(size) < 3:
        raise call.error(f"a size of {len(size)} axes; it needs 3 or more")
    return [Tensor((size[0], *size[2:], len(size) - 2), call.get(0).dtype)]


@rule("Col2Im")
def _col2im(call: Call) -> list[Tensor]:
    shape, image, block = call.axes_of(0, 2), call.ints(1), call.ints(2)
    if shape is None or image is None:
        return [Tensor(None, call.get(0).dtype)]
    size = None if block is None else product(block)
    channels = None if size is None or shape[1] is None else shape[1] // max(size, 1)
    return [Tensor((shape[0], channels, *image), call.get(0).dtype)]
