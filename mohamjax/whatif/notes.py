"""Remarks on the answer to a what-if question: values that change nothing, designs that cannot run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.runtime.programs import jit_o1
from mohamjax.schedule.design import Design, EvaluationArrays, SizedDesign
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.validity import invalid
from mohamjax.text import plural
from mohamjax.whatif.grid import Axis, WhatIf, variants_of
from mohamjax.whatif.variant import Candidates, Variant, in_precision, nominal_variant, placed_interfaces, variant_sizes


@jit_o1
def _resized(
    designs: Design, sizes: tuple[jax.Array, jax.Array], variant: Variant, evaluation: EvaluationArrays
) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(variant_sizes, (0, 0, None, None))(designs, sizes, variant, evaluation)


def resized(candidates: Candidates, variant: Variant) -> SizedDesign:
    """The designs with the sizes that their chiplets have on a variant, NumPy leaves.

    Args:
        candidates: N designs.
        variant: one, without a leading axis.
    """
    sizes = candidates.capacity, candidates.fanout
    with in_precision(candidates.dtype):
        capacity, fanout = jax.device_get(_resized(candidates.designs, sizes, variant, candidates.evaluation))
    return SizedDesign(jax.device_get(candidates.designs), np.asarray(capacity), np.asarray(fanout))


def _variant(candidates: Candidates, axes: Sequence[Axis], values: Sequence[float]) -> Variant:
    """The variant with these values of the axes."""
    both = variants_of(candidates, axes, np.asarray([values], float))
    return jax.tree.map(lambda leaf: leaf[1], both)


def _written(axis: Axis, value: float) -> str:
    """A value of an axis as users write it."""
    return f"{axis.parameter.name}={'x' if axis.factor else ''}{value:g}"


def unchanged(candidates: Candidates, axes: Sequence[Axis]) -> list[str]:
    """Sentences about values that change nothing, or no more than others do.

    There is one for every size that leaves all designs as they are, for an unlimited bandwidth with factors, and for
    every number of memory interfaces of which designs hold no more than of the next smaller one.

    Args:
        candidates: the designs.
        axes: the parameters that are varied.
    """
    told: list[str] = []
    sized = any(axis.parameter.kind == "size" for axis in axes)
    now = resized(candidates, nominal_variant(candidates.evaluation)) if sized else None
    for axis in axes:
        one = axis.parameter
        if axis.factor and one.value is not None and math.isinf(one.value):
            finite = math.isfinite(candidates.package.interface_bandwidth)
            limit = ", or vary nop.interface_bandwidth, which limits off-chip traffic then" if finite else ""
            told.append(f"{one.name} is unlimited, so that factors change nothing: give values{limit}")
        elif one.kind == "count":
            told += _equal_interfaces(candidates, axis)
        elif one.kind == "size" and now is not None:
            told += [
                f"{_written(axis, value)} changes no chiplet of these designs{_rule(axis, candidates)}"
                for value in axis.values
                if not (axis.factor and value == 1)
                and _same(now, resized(candidates, _variant(candidates, [axis], [value])))
            ]
    return told


def _equal_interfaces(candidates: Candidates, axis: Axis) -> list[str]:
    """A sentence for every value with which some designs have as many interfaces as with the next smaller one."""
    values = sorted({*axis.values, 1.0} if axis.factor else axis.values)
    variants = variants_of(candidates, [axis], np.asarray(values)[:, None])
    placed = placed_interfaces(candidates, variants)[1:]  # without the hardware as it is
    rule = "factors are rounded, and " * axis.factor + "a row of the mesh has two at most"
    told = []
    for (few, many), (before, after) in zip(itertools.pairwise(values), itertools.pairwise(placed), strict=True):
        equal = int(np.sum(before == after))
        if equal:
            where = "these designs" if equal == len(candidates) else f"{equal:,} of {len(candidates):,} designs"
            told.append(f"{_written(axis, many)} places as many interfaces as {_written(axis, few)} on {where}: {rule}")
    return told


def _rule(axis: Axis, candidates: Candidates) -> str:
    """Why a value of sizes may change no size; empty where nothing is known of it."""
    rules: list[str] = []
    if axis.factor:
        capacity = axis.parameter.name.endswith("capacity")
        rules.append("capacities are rounded up to whole rows" if capacity else "fanouts are rounded, and at least 1")
    if np.any(np.asarray(candidates.evaluation.templates.sized)):
        rules.append("templates of fixed sizes keep theirs")
    return f": {', and '.join(rules)}" if rules else ""


def _same(now: SizedDesign, new: SizedDesign) -> bool:
    """Whether all chiplets that exist keep their sizes."""
    standing = np.asarray(new.design.template) >= 0
    pairs = ((now.capacity, new.capacity), (now.fanout, new.fanout))
    return all(np.array_equal(a[standing], b[standing]) for a, b in pairs)


def reasons(found: WhatIf, candidates: Candidates, evaluated: Evaluated, most: int = 5) -> list[str]:
    """A sentence for each of the first variants on which some design cannot run: how many, and why the first cannot.

    Args:
        found: the answer.
        candidates: its designs.
        evaluated: the same designs.
        most: most variants that are described.
    """
    told: list[str] = []
    broken = np.asarray(~np.isfinite(found.objectives).all(axis=-1))
    variants = np.flatnonzero(broken.any(axis=-1)).tolist()
    for k in variants[:most]:
        first, setting = int(np.argmax(broken[k])), found.settings[k]
        sized = resized(candidates, _variant(candidates, found.axes, setting))[first : first + 1]
        own = found.objectives[k, first : first + 1]
        (why,) = invalid(sized, evaluated.tables, evaluated, own, np.zeros(1, bool))
        where = ", ".join(_written(axis, value) for axis, value in zip(found.axes, setting, strict=True))
        number = plural(int(broken[k].sum()), "design")
        told.append(f"{where}: {number} of {len(found.names):,} cannot run; design {found.names[first]}: {why}")
    if len(variants) > most:
        told.append(f"{plural(len(variants) - most, 'more variant')} on which some design cannot run")
    return told
