"""Which results of operators that are no layers repeat themselves (`mohamjax.workload.repetition`).

Results that no rule here covers count as not repeated, and so do the results of layers: a layer that computes the same
values several times also writes them several times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mohamjax.workload.repetition import Factors, common, first_places, of_places, plain, reshaped, simplified, spread
from mohamjax.workload.tensor import Call, Tensor, count, is_known

_MOST_PLACES = 1 << 12
"""Most places along an axis that are looked at one by one: far more than there are heads or batch entries."""


def pointwise(out: Tensor, operands: Sequence[Tensor]) -> Tensor:
    """`out`, computed entry by entry from operands that NumPy's rules broadcast: it repeats what they all repeat."""
    if not is_known(out.shape) or not count(out.shape) or not all(is_known(t.shape) for t in operands):
        return out
    if any(t.repetition is None and t.shape == out.shape for t in operands):
        return out
    axes = [spread(t.factors, t.shape, out.shape) for t in operands]  # type: ignore[arg-type]
    found = axes[0]
    for other in axes[1:]:
        found = tuple(common(a, b) for a, b in zip(found, other, strict=True))
    out.repeat(found)
    return out


def viewed(out: Tensor, source: Tensor) -> Tensor:
    """`out`, which holds the values of `source` in the same row-major order."""
    out.origin = source.origin or source
    if source.repetition is not None and is_known(out.shape) and count(out.shape) == count(source.shape):
        out.repeat(reshaped(source.repetition, out.shape))  # type: ignore[arg-type]
    return out


def permuted(out: Tensor, source: Tensor, order: Sequence[int]) -> Tensor:
    """`out`, which is `source` with its axes in another order."""
    if source.repetition is not None:
        out.repeat(tuple(source.repetition[i] for i in order))
    return out


def picked(call: Call, factors: Factors, places: np.ndarray) -> Factors:
    """Factors of what stands at some places, `[n]` int64 (n positive), of an axis that has `factors`."""
    unknown = plain([places.size])[0]
    if places.size > _MOST_PLACES:
        return unknown
    if not any(repeated for _, repeated in factors) and np.unique(places).size == places.size:
        return unknown
    return of_places(first_places(factors)[places]) if call.budget.order(places.size) else unknown


def chosen(call: Call, out: Tensor, source: Tensor, cuts: Sequence[slice]) -> Tensor:
    """`out`, which is the part of `source` that lies in a slice along each axis."""
    if source.repetition is None or not is_known(out.shape) or not count(out.shape):
        return out
    found = []
    for factors, d, cut in zip(source.repetition, source.shape or (), cuts, strict=True):
        places = range(*cut.indices(d or 0))
        if places == range(d or 0):
            found.append(factors)
        elif len(places) <= _MOST_PLACES and any(repeated for _, repeated in factors):
            found.append(picked(call, factors, np.arange(places.start, places.stop, places.step)))
        else:
            found.append(plain([len(places)])[0])
    out.repeat(tuple(found))
    return out


def joined(call: Call, out: Tensor, parts: Sequence[Tensor], axis: int, *, stack: bool = False) -> Tensor:
    """`out`, which holds some parts one after the other along an axis, a new one if they are stacked.

    Parts of the same origin and shape hold the same values, except members of a sequence: there, one tensor may stand
    for several members with different values.
    """
    if not is_known(out.shape) or not count(out.shape) or not all(is_known(p.shape) for p in parts):
        return out
    told_apart = call.op != "ConcatFromSequence"
    origins = [id(p.origin or p) if told_apart else i for i, p in enumerate(parts)]
    if len(set(origins)) == len(parts) and any(p.repetition is None for p in parts):
        return out
    alike = len({p.shape for p in parts}) == 1
    found: list[Factors] = []
    for part in {id(p): p for p in parts}.values():
        own = [*part.factors]
        if stack:
            own.insert(axis, ())
        pairs = enumerate(zip(found or own, own, strict=True))
        found = [common(a, b) if i != axis or alike else b for i, (a, b) in pairs]
    if alike:  # the parts in order, then what is inside each
        first = {origin: i for i, origin in reversed([*enumerate(origins)])}
        order = picked(call, plain([len(parts)])[0], np.asarray([first[origin] for origin in origins]))
        found[axis] = simplified([*order, *found[axis]])
    else:
        found[axis] = plain(out.shape)[axis]  # type: ignore[arg-type]
    out.repeat(tuple(found))
    return out
