"""Mappings as people and files write them: a dict per level (JSON), and a loop nest as text.

The dict form is that of the reference samples: levels innermost first, each with `name`, `keep` (one flag per data
space), `temporal.factors` (missing = 1), `temporal.perm` (dimensions innermost first) and `spatial.X`, `spatial.Y`
(lists of [dimension, factor], innermost first).
"""

from __future__ import annotations

import math
from collections import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import DATA_SPACES
from mohamjax.mapping.nest import Mapping
from mohamjax.workload import DIMS

__all__ = ["loop_nest", "mapping_from_dict", "mapping_to_dict"]


def mapping_to_dict(mapping: Mapping, level_names: Sequence[str]) -> dict[str, Any]:
    """One mapping as JSON-able data.

    Args:
        mapping: arrays without batch axes, padded to at least `len(level_names)` levels.
        level_names: names of the levels that exist, innermost first.

    Returns:
        `{"levels": [...]}`; factors of 1 are left out, and so are the dimensions of bound 1 at the tail of `perm`.
    """
    m: Any = mapping
    temporal, order, spatial = np.asarray(m.temporal), np.asarray(m.order), np.asarray(m.spatial)
    spatial_order, keep = np.asarray(m.spatial_order), np.asarray(m.keep)
    levels = []
    for i, name in enumerate(level_names):
        loops = {
            axis: [[DIMS[d], int(spatial[x, i, d])] for d in spatial_order[x, i] if spatial[x, i, d] > 1]
            for x, axis in enumerate("XY")
        }
        levels.append(
            {
                "name": name,
                "keep": [int(k) for k in keep[i]],
                "temporal": {
                    "factors": {DIMS[d]: int(temporal[i, d]) for d in order[i] if temporal[i, d] > 1},
                    "perm": "".join(DIMS[d] for d in order[i]),
                },
                "spatial": loops,
            }
        )
    return {"levels": levels}


_PERMUTATIONS: dict[str, list[int]] = {}
"""Those that were met, by their text; there are few."""


def _permutation(text: Any, item: str) -> list[int]:
    """Dimension indices in the order of `text`, the missing ones after them."""
    if isinstance(text, str) and text in _PERMUTATIONS:
        return _PERMUTATIONS[text]
    if not isinstance(text, str):
        raise InputError(f"perm is {text!r}", item=item, remedy="write the dimensions innermost first, as in 'PQCRSKN'")
    given = [_dimension(letter, item) for letter in text]
    if len(set(given)) != len(given):
        raise InputError(f"perm {text!r} names a dimension twice", item=item, remedy="name each dimension once")
    if len(_PERMUTATIONS) < math.factorial(len(DIMS)):
        _PERMUTATIONS[text] = given + [d for d in range(len(DIMS)) if d not in given]
    return given + [d for d in range(len(DIMS)) if d not in given]


def _dimension(letter: Any, item: str) -> int:
    if letter not in DIMS:
        raise InputError(f"unknown dimension {letter!r}", item=item, remedy=f"use one of {', '.join(DIMS)}")
    return DIMS.index(letter)


def _factor(value: Any, item: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InputError(f"factor {value!r} is not a positive integer", item=item, remedy="use 1 or more")
    return value


def _table(data: Any, known: Sequence[str], item: str, what: str) -> abc.Mapping[str, Any]:
    """A table with no other keys than those known."""
    if not isinstance(data, abc.Mapping):
        raise InputError(f"{what} is not a table", item=item, remedy=f"give {', '.join(known)}")
    for key in data:
        if key not in known:
            raise InputError(f"unknown key {key!r} in {what}", item=item, remedy=f"known are {', '.join(known)}")
    return data


def _flags(data: Any, item: str) -> list[bool]:
    """The three flags of `keep`."""
    if not isinstance(data, Sequence) or len(data) != len(DATA_SPACES):
        raise InputError("keep needs three flags", item=item, remedy="one each for W, I and O")
    if any(not isinstance(flag, int | np.bool_) or flag not in (0, 1) for flag in data):
        raise InputError(f"keep is {list(data)!r}", item=item, remedy="write 0 or 1, one each for W, I and O")
    return [bool(flag) for flag in data]


def mapping_from_dict(
    data: Any,
    level_names: Sequence[str],
    default_keep: Sequence[Sequence[bool]],
    *,
    levels: int | None = None,
    item: str = "mapping",
) -> Mapping:
    """Reads the dict form; checks structure only, not that the factors suit a layer.

    Args:
        data: `{"levels": [...]}`.
        level_names: names of the machine's levels, innermost first.
        default_keep: flags per level where the data give none.
        levels: padded number of levels; default as many as there are.
        item: what to call the mapping in errors.

    Returns:
        NumPy arrays in a `Mapping`, padded at the outer end.

    Raises:
        InputError: a missing or misnamed level, an unknown dimension, a bad factor.
    """
    total = len(level_names) if levels is None else levels
    d = len(DIMS)
    # Lists until all is read: a file may hold many thousands, and arrays are slow to fill number by number.
    temporal = [[1] * d for _ in range(total)]
    order = [list(range(d))] * total
    spatial = [[[1] * d for _ in range(total)] for _ in range(2)]
    spatial_order = [[list(range(d))] * total for _ in range(2)]
    keep = [[False] * len(DATA_SPACES)] * total
    rows = data.get("levels") if isinstance(data, abc.Mapping) else None
    if not isinstance(rows, list) or len(rows) != len(level_names):
        raise InputError(
            f"a mapping needs a list `levels` of {len(level_names)} levels",
            item=item,
            remedy=f"list them innermost first: {', '.join(level_names)}",
        )
    for i, (row, name) in enumerate(zip(rows, level_names, strict=True)):
        where = f"{item}, level {i}"
        row = _table(row, ("name", "keep", "temporal", "spatial"), where, "a level")
        if row.get("name", name) != name:
            raise InputError(
                f"level is called {row.get('name')!r}", item=where, remedy=f"the template calls it {name!r}"
            )
        where = f"{item}, level {name}"
        part = _table(row.get("temporal", {}), ("factors", "perm"), where, "temporal")
        factors = part.get("factors", {})
        if not isinstance(factors, abc.Mapping):
            raise InputError("temporal.factors is not a table", item=where, remedy="write {dimension: factor}")
        for letter, value in factors.items():
            temporal[i][_dimension(letter, where)] = _factor(value, where)
        order[i] = _permutation(part.get("perm", ""), where)
        part = _table(row.get("spatial", {}), ("X", "Y"), where, "spatial")
        for x, axis in enumerate("XY"):
            loops = part.get(axis, [])
            if not isinstance(loops, list) or any(not isinstance(p, list | tuple) or len(p) != 2 for p in loops):
                raise InputError(
                    f"spatial.{axis} is not a list of [dimension, factor]",
                    item=where,
                    remedy="as in [['K', 4]]",
                )
            given = []
            for letter, value in loops:
                index = _dimension(letter, where)
                if index in given:
                    raise InputError(f"spatial.{axis} names {letter} twice", item=where, remedy="multiply the factors")
                given.append(index)
                spatial[x][i][index] = _factor(value, where)
            spatial_order[x][i] = given + [k for k in range(d) if k not in given]
        keep[i] = _flags(row["keep"], where) if "keep" in row else list(default_keep[i])
    return Mapping(
        temporal=np.array(temporal, np.int32),
        order=np.array(order, np.int32),
        spatial=np.array(spatial, np.int32),
        spatial_order=np.array(spatial_order, np.int32),
        keep=np.array(keep, bool),
    )


def loop_nest(mapping: Mapping, level_names: Sequence[str]) -> str:
    """The mapping as a loop nest that a person can read, outermost loop first."""
    rows = mapping_to_dict(mapping, level_names)["levels"]
    lines, depth = [], 0
    for row in reversed(rows):
        kept = "".join(v[0] for v, k in zip(DATA_SPACES, row["keep"], strict=True) if k) or "nothing"
        lines.append(f"{row['name']} [keeps {kept}]")
        for letter in reversed(row["temporal"]["perm"]):
            bound = row["temporal"]["factors"].get(letter, 1)
            if bound > 1:
                depth += 1
                lines.append("  " * depth + f"for {letter.lower()} in 0..{bound - 1}")
        for axis in "YX":
            for letter, bound in reversed(row["spatial"][axis]):
                depth += 1
                lines.append("  " * depth + f"parallel for {letter.lower()} in 0..{bound - 1}  (along {axis})")
    lines.append("  " * (depth + 1) + "multiply-accumulate")
    return "\n".join(lines)
