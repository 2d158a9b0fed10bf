"""Map spaces that are unions over variants of a template: one axis per dimension, and all choices of bypasses.

Templates may let a dimension run along X and along Y of one level at once: 16 input channels on a mesh of 4 x 4.
Timeloop's own mapper gives each dimension one of the two. A comparison of mappers needs one map space for both. The
restricted space is the union over templates that each leave such a dimension only one of the two axes, and it is
searched as that union. An enumeration has no gene for bypasses: it takes the union over templates that leave none open.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.hardware import Dataflow, LevelRule, Template
from mohamjax.mapping import MappingTables
from mohamjax.mapping.tables import assemble, entries_of
from mohamjax.workload import DIMS, UniqueLayer

MOST_VARIANTS = 1024
"""Most templates that one is divided into; each is searched by itself. Simba takes 8."""


def one_axis_templates(template: Template, dims: Collection[str] = DIMS) -> tuple[Template, ...]:
    """Templates that together allow what this one does, except a dimension along both axes of a level.

    In each of them, every one of `dims` that may run along both X and Y of a level keeps only one of the two. Without
    such a dimension, the only result is the template itself. There is nothing to choose at a level whose children are
    in one row or column, or where a limit along an axis is 1. The padded bounds that mappings may cover
    (`mapping.padding`) depend on the axes that a template allows, so these templates may offer other bounds than the
    original.

    Args:
        template: the template.
        dims: letters of the dimensions that keep one axis.

    Raises:
        InputError: there would be more than `MOST_VARIANTS` templates.
    """
    both = [_along_both(template, dataflow, dims) for dataflow in template.dataflows]
    longest = max(both, key=len, default=[])
    if 1 << len(longest) > MOST_VARIANTS:
        places = ", ".join(f"{d} in {template.level_names[i]}" for i, d in longest[:3])
        raise InputError(
            f"a dimension may run along both X and Y of a level in {len(longest)} places, such as {places}; one axis "
            f"in each takes {1 << len(longest):,} templates, more than the {MOST_VARIANTS:,} that may be searched",
            item=f"template {template.name}",
            remedy="leave out X or Y of some of them in the dataflow, or leave out the argument `one_axis`",
        )
    choices = [_choices(dataflow, own) for dataflow, own in zip(template.dataflows, both, strict=True)]
    number = max(map(len, choices), default=1)
    return tuple(
        dataclasses.replace(template, dataflows=tuple(own[k % len(own)] for own in choices)) for k in range(number)
    )


def _along_both(template: Template, dataflow: Dataflow, dims: Collection[str]) -> list[tuple[int, str]]:
    """The levels, and which of `dims` a mapping may run along X and along Y of their children, by more than 1 each."""
    return [
        (i, d)
        for i, (level, rule) in enumerate(zip(template.levels, dataflow.rules, strict=True))
        for d in rule.spatial_x
        if d in dims and d in rule.spatial_y
        if min(level.fanout) > 1 and 1 not in (rule.spatial_x[d], rule.spatial_y[d])
    ]


def _choices(dataflow: Dataflow, both: Sequence[tuple[int, str]]) -> list[Dataflow]:
    """All variants of a dataflow in which each dimension of `both` keeps one axis at its level."""
    out = []
    for along_y in itertools.product((False, True), repeat=len(both)):
        rules = list(dataflow.rules)
        for (level, dim), y in zip(both, along_y, strict=True):
            rules[level] = _without(rules[level], dim, "spatial_x" if y else "spatial_y")
        out.append(dataclasses.replace(dataflow, rules=tuple(rules)))
    return out


def _without(rule: LevelRule, dim: str, axis: str) -> LevelRule:
    return dataclasses.replace(rule, **{axis: {d: most for d, most in getattr(rule, axis).items() if d != dim}})


def kept_templates(template: Template) -> tuple[Template, ...]:
    """Templates that leave no bypass open and together allow what this one does: one for each choice of bypasses."""
    free = [(i, v) for i, level in enumerate(template.levels) for v, may in enumerate(level.may_bypass) if may]
    out = []
    for passes in itertools.product((False, True), repeat=len(free)):
        keep = [list(level.keep) for level in template.levels]
        for (i, v), by in zip(free, passes, strict=True):
            keep[i][v] = not by
        levels = [
            dataclasses.replace(level, keep=(own[0], own[1], own[2]), may_bypass=(False, False, False))
            for level, own in zip(template.levels, keep, strict=True)
        ]
        out.append(dataclasses.replace(template, levels=tuple(levels)))
    return tuple(out)


def over_one_axis(
    mapped: Callable[[Sequence[Template]], MappingTables],
    templates: Sequence[Template],
    layers: Sequence[UniqueLayer],
    most: int | None = None,
) -> MappingTables:
    """Pareto sets of mappings that run no dimension along both axes of a level.

    Args:
        mapped: Pareto sets `[U, T', M, ...]` of the layers on any templates, by search or by enumeration.
        templates: the T templates.
        layers: the U layers; dimensions with bound 1 in all of them are left as they are.
        most: most entries of a set in the result, chosen by hypervolume, with the best in each objective among them;
            all entries by default.

    Returns:
        The sets over these templates, `[U, T, M, ...]`, NumPy leaves: the non-dominated mappings of all
        `one_axis_templates` of a template. M is `most`, or the size of the largest set.

    Raises:
        InputError: a template has too many ways to choose the axes.
    """
    dims = {d for layer in layers for d, bound in zip(DIMS, layer.shape.bounds, strict=True) if bound > 1}
    return over_variants(mapped, [one_axis_templates(template, dims) for template in templates], layers, most)


def over_variants(
    mapped: Callable[[Sequence[Template]], MappingTables],
    parts: Sequence[Sequence[Template]],
    layers: Sequence[UniqueLayer],
    most: int | None = None,
) -> MappingTables:
    """Pareto sets over the variants of each of T templates, as `over_one_axis` gives them.

    Args:
        mapped: Pareto sets `[U, T', M, ...]` of the layers on any templates, by search or by enumeration.
        parts: the variants of each template.
        layers: the U layers.
        most: most entries of a set in the result; all by default.
    """
    found = mapped([part for some in parts for part in some])
    first = np.cumsum([0, *map(len, parts)])
    count, objectives = np.asarray(found.count), np.asarray(found.objectives)
    sets = {}
    for u, t in zip(*np.nonzero(np.add.reduceat(count, first[:-1], axis=1)), strict=True):
        own = np.array([(k, m) for k in range(first[t], first[t + 1]) for m in range(count[u, k])])
        variant, entry = own[_kept(objectives[(u, *own.T)], most)].T
        rows = jax.tree.map(lambda leaf, at=(u, variant, entry): np.asarray(leaf)[at], entries_of(found))
        number: Any = np.int32(len(entry))
        sets[int(u), int(t)] = MappingTables(**rows, count=number)
    largest = max((int(one.count) for one in sets.values()), default=1)
    levels, dtype = found.capacity.shape[-1], np.asarray(found.cycles).dtype
    return assemble(sets, len(layers), len(parts), largest if most is None else most, levels, dtype)


def _kept(objectives: np.ndarray, most: int | None) -> np.ndarray:
    """Indices of the rows of `[n, 3]` for a set of at most `most` entries, the fastest first."""
    front = emo.distinct_front(objectives.astype(float))
    if most is not None and len(front) > most:
        values = np.log(np.maximum(objectives[front], np.finfo(np.float32).tiny))
        low, span = values.min(axis=0), np.maximum(np.ptp(values, axis=0), np.finfo(np.float32).tiny)
        best = list(dict.fromkeys(values.argmin(axis=0).tolist()))[:most]
        front = front[emo.volume_subset((values - low) / span, np.full(3, 1.1), most, best)]
    return front
