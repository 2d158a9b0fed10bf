"""Mappings as people and files write them: a dict per level (JSON), and a loop nest as text.

The dict form is that of the reference samples: levels innermost first, each with `name`, `keep` (one flag per data
space), `temporal.factors` (missing = 1), `temporal.perm` (dimensions innermost first) and `spatial.X`, `spatial.Y`
(lists of [dimension, factor], innermost first).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta, field

from mohamjax.dims import Dim
from mohamjax.errors import InputError
from mohamjax.forms import Bound, Bounds, Form, OpenForm, read_form
from mohamjax.hardware import DATA_SPACES
from mohamjax.mapping.nest import Mapping
from mohamjax.workload import DIMS

__all__ = ["NestForm", "OwnedNestForm", "loop_nest", "mapping_from_dict", "mapping_of", "mapping_to_dict"]


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


_INNERMOST_FIRST = "the dimensions innermost first, as in PQRSCKN"
Order = Annotated[str, Meta(pattern=r"^[GNKCPQRS]*$(?!\n)", description=_INNERMOST_FIRST)]


class LoopsForm(Form):
    """Temporal loops of a level: factors by dimension, and their order, innermost first."""

    factors: Bounds = field(default_factory=Bounds)
    perm: Order = ""


Spread = Annotated[list[tuple[Dim, Bound]], Meta(description="[dimension, factor] pairs, as in [[K, 4]]")]


class SpreadForm(Form):
    """Loops over the children of a level along both axes, innermost first."""

    X: Spread = field(default_factory=list)
    Y: Spread = field(default_factory=list)


Flag = Annotated[int, Meta(ge=0, le=1)] | bool


Flags = Annotated[
    list[Flag], Meta(min_length=3, max_length=3, description="0 or 1, one each for weights, inputs and outputs")
]


class NestLevelForm(Form):
    """A level of a loop nest."""

    name: str | None = None
    keep: Flags | None = None
    temporal: LoopsForm = field(default_factory=LoopsForm)
    spatial: SpreadForm = field(default_factory=SpreadForm)


class NestForm(OpenForm):
    """A loop nest; all levels of its template, innermost first."""

    levels: list[NestLevelForm]


class OwnedNestForm(NestForm):
    """A loop nest on a template of the file."""

    template: str


def mapping_from_dict(
    data: Any,
    level_names: Sequence[str],
    default_keep: Sequence[Sequence[bool]],
    *,
    levels: int | None = None,
    file: object = None,
    item: str = "mapping",
) -> Mapping:
    """Reads the dict form; checks structure only, not that the factors suit a layer.

    Args:
        data: `{"levels": [...]}`.
        level_names: names of the machine's levels, innermost first.
        default_keep: flags per level where the data give none.
        levels: padded number of levels; default as many as there are.
        file: where it comes from, for complaints.
        item: what to call the mapping in errors.

    Returns:
        NumPy arrays in a `Mapping`, padded at the outer end.

    Raises:
        InputError: a missing or misnamed level, an unknown dimension, a bad factor.
    """
    nest = read_form(data, NestForm, file=file, where=item)
    return mapping_of(nest, level_names, default_keep, levels=levels, file=file, item=item)


def mapping_of(
    form: NestForm,
    level_names: Sequence[str],
    default_keep: Sequence[Sequence[bool]],
    *,
    levels: int | None = None,
    file: object = None,
    item: str = "mapping",
) -> Mapping:
    """A mapping from its form; arguments and errors as of `mapping_from_dict`."""
    rows = form.levels
    if len(rows) != len(level_names):
        raise InputError(
            f"has {len(rows)} entries",
            file=file,
            item=f"{item}.levels",
            remedy=f"list all levels of the template, innermost first: {', '.join(level_names)}",
        )
    total = len(level_names) if levels is None else levels
    d = len(DIMS)
    temporal = np.ones((total, d), np.int32)
    order = np.tile(np.arange(d, dtype=np.int32), (total, 1))
    spatial = np.ones((2, total, d), np.int32)
    spatial_order = np.tile(np.arange(d, dtype=np.int32), (2, total, 1))
    keep = np.zeros((total, len(DATA_SPACES)), bool)
    for i, (row, name) in enumerate(zip(rows, level_names, strict=True)):
        where = f"{item}.levels[{i}]"
        if row.name not in (None, name):
            told = f"level is called {row.name!r}"
            raise InputError(told, file=file, item=f"{where}.name", remedy=f"the template calls it {name!r}")
        temporal[i] = msgspec.structs.astuple(row.temporal.factors)
        order[i] = _permutation(row.temporal.perm, file, f"{where}.temporal.perm")
        for x, axis in enumerate("XY"):
            loops = getattr(row.spatial, axis)
            spatial_order[x, i] = _permutation([letter for letter, _ in loops], file, f"{where}.spatial.{axis}")
            for letter, factor in loops:
                spatial[x, i, DIMS.index(letter)] = factor
        keep[i] = default_keep[i] if row.keep is None else row.keep
    return Mapping(temporal=temporal, order=order, spatial=spatial, spatial_order=spatial_order, keep=keep)


def _permutation(letters: Sequence[str], file: object, item: str) -> list[int]:
    """Dimension indices in the order of the letters, the missing ones after them."""
    if len(set(letters)) < len(letters):
        twice = next(letter for i, letter in enumerate(letters) if letter in letters[:i])
        raise InputError(f"names {twice} twice", file=file, item=item, remedy="name each dimension once")
    return _indices(tuple(letters))


@functools.lru_cache(1 << 12)
def _indices(letters: tuple[str, ...]) -> list[int]:
    """Dimension indices in the order of the letters, the missing ones after them; not to be written to."""
    return [*map(DIMS.index, letters), *(d for d, letter in enumerate(DIMS) if letter not in letters)]


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
