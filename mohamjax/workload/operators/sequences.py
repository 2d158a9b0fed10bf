"""Sequences and optionals."""

from __future__ import annotations

import numpy as np

from mohamjax.workload.operators.registry import rule
from mohamjax.workload.tensor import BOOL, FLOAT, INT64, Call, Tensor


@rule("SequenceEmpty")
def _sequence_empty(call: Call) -> list[Tensor]:
    return [Tensor(None, call.type_attr("dtype", FLOAT), elements=[], sequence=True)]


def _sequence(elements: list[Tensor] | None, dtype: int) -> Tensor:
    return Tensor(None, dtype, elements=elements, sequence=True)


@rule("SequenceConstruct")
def _sequence_construct(call: Call) -> list[Tensor]:
    elements = [call.get(i) for i in range(len(call.inputs))]
    return [_sequence(elements, elements[0].dtype if elements else FLOAT)]


@rule("SequenceInsert", "SequenceErase")
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


@rule("SequenceAt")
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


@rule("SequenceLength")
def _sequence_length(call: Call) -> list[Tensor]:
    elements = call.get(0).elements
    return [Tensor((), INT64, data=None if elements is None else np.asarray(len(elements), np.int64))]


_MOST_PARTS = 10_000
"""Most members of a sequence that are followed one by one."""


@rule("SplitToSequence")
def _split_to_sequence(call: Call) -> list[Tensor]:
    shape, dtype = call.axes_of(0), call.get(0).dtype
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


@rule("Optional")
def _optional(call: Call) -> list[Tensor]:
    if not call.has(0):
        return [Tensor(None, elements=[], sequence=True)]
    return [_sequence([call.get(0)], call.get(0).dtype)]


@rule("OptionalGetElement")
def _optional_get(call: Call) -> list[Tensor]:
    source = call.get(0)
    if source.elements and len(source.elements) == 1:
        source = source.elements[0]
    return [Tensor(source.shape, source.dtype, source.data, elements=source.elements, sequence=source.sequence)]


@rule("OptionalHasElement")
def _optional_has(call: Call) -> list[Tensor]:
    present: bool | None = False
    if call.has(0):
        source = call.get(0)
        present = True if not source.sequence or source.elements else None if source.elements is None else False
    return [Tensor((), BOOL, data=None if present is None else np.asarray(present))]
