"""Mappings as people and files write them: a dict per level (JSON), and a loop nest as text.

The dict form is that of the reference samples: levels innermost first, each with `name`, `keep` (one flag per data
space), `temporal.factors` (missing = 1), `temporal.perm` (dimensions innermost first) and `spatial.X`, `spatial.Y`
(lists of [dimension, factor], innermost first). A nest that covers larger bounds than its layer's lists them under
`padded`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypedDict

import jax
import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, field

from mohamjax.dims import Dim
from mohamjax.errors import InputError
from mohamjax.forms import Bound, Bounds, Form, OpenForm, as_written, read_form
from mohamjax.hardware import DATA_SPACES
from mohamjax.mapping.nest import Mapping, covered, padded, padded_names
from mohamjax.runtime.struct import take
from mohamjax.workload import DIMS, WorkloadShape


class LoopsData(TypedDict):
    """Temporal loops of a level: factors above 1 by dimension, and all dimensions, innermost first."""

    factors: dict[str, int]
    perm: str


class LevelData(TypedDict):
    """One level of a mapping as JSON-able data; `spatial` has [dimension, factor] pairs by axis, innermost first."""

    name: str
    keep: list[int]
    temporal: LoopsData
    spatial: dict[str, list[list[Any]]]


class NestData(TypedDict):
    """One mapping as JSON-able data."""

    padded: NotRequired[dict[str, int]]
    levels: list[LevelData]


def mapping_to_dict(mapping: Mapping, level_names: Sequence[str], bounds: Sequence[int] | None = None) -> NestData:
    """One mapping as JSON-able data.

    Args:
        mapping: arrays without batch axes, padded to at least `len(level_names)` levels.
        level_names: names of the levels that exist, innermost first.
        bounds: the layer's; if given, larger ones that the mapping covers are listed.

    Returns:
        `{"levels": [...]}`, preceded by `padded` if there are such bounds; factors of 1 are left out, `perm` names all
        dimensions.
    """
    own = None if bounds is None else np.asarray(bounds)[None]
    (row,) = mappings_to_dicts(jax.tree.map(lambda leaf: np.asarray(leaf)[None], mapping), [level_names], own)
    return row


def mappings_to_dicts(
    mappings: Mapping, level_names: Sequence[Sequence[str]], bounds: np.ndarray | None = None
) -> list[NestData]:
    """`mapping_to_dict` for many mappings `[n, ...]`, each with its own level names and bounds `[n, D]`."""
    fields = [np.asarray(leaf).tolist() for leaf in (mappings.temporal, mappings.order, mappings.spatial)]
    fields += [np.asarray(mappings.spatial_order).tolist(), np.asarray(mappings.keep).astype(int).tolist()]

    def loops(factors: list[int], order: list[int]) -> list[tuple[str, int]]:
        return [(DIMS[d], factors[d]) for d in order if factors[d] > 1]

    rows: list[NestData] = []
    larger = np.ones((len(level_names), len(DIMS)), int) if bounds is None else padded(mappings, bounds)
    for own, names, temporal, order, spatial, spatial_order, keep in zip(larger, level_names, *fields, strict=True):
        levels: list[LevelData] = [
            {
                "name": name,
                "keep": keep[i],
                "temporal": {
                    "factors": dict(loops(temporal[i], order[i])),
                    "perm": "".join([DIMS[d] for d in order[i]]),
                },
                "spatial": {
                    axis: [list(loop) for loop in loops(spatial[x][i], spatial_order[x][i])]
                    for x, axis in enumerate("XY")
                },
            }
            for i, name in enumerate(names)
        ]
        told = padded_names(own)
        rows.append({"padded": told, "levels": levels} if told else {"levels": levels})
    return rows


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
    """A loop nest; all levels of its template, innermost first; and the bounds that it covers beyond its layer's."""

    levels: list[NestLevelForm]
    padded: Bounds = field(default_factory=Bounds)


class OwnedNestForm(NestForm, kw_only=True):
    """A loop nest on a template of the file."""

    template: str


WrittenNestForm = as_written(
    OwnedNestForm,
    may_lack=("padded",),
    levels=list[
        as_written(
            NestLevelForm,
            temporal=as_written(LoopsForm, perm=str),
            spatial=as_written(SpreadForm),
        )
    ],
)
"""A loop nest as this package writes it. Any text may stand for the order of its loops: `mappings_of` checks the
letters, and a pattern would take as long to check as all the rest."""


def mapping_from_dict(
    data: object,
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
        file: where the data come from, for error messages.
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
    """A mapping from its form; arguments and errors are those of `mapping_from_dict`."""
    nests, sound = mappings_of([form], level_names, default_keep, levels=levels)
    if not sound[0]:
        raise _fault(form, level_names, file, item)
    return take(nests, 0)


def mappings_of(
    forms: Sequence[NestForm],
    level_names: Sequence[str],
    default_keep: Sequence[Sequence[bool]],
    *,
    levels: int | None = None,
) -> tuple[Mapping, np.ndarray]:
    """Many mappings of one template at once.

    Args:
        forms: n loop nests.
        level_names: names of the machine's levels, innermost first.
        default_keep: flags per level where a form gives none.
        levels: padded number of levels; default as many as there are.

    Returns:
        NumPy arrays in a `Mapping`, leading axis `[n]`, and `[n]` bool, which of them are sound. Those that
        `mapping_of` refuses are not, and their arrays mean nothing.
    """
    count, dims = len(level_names), len(DIMS)
    total = count if levels is None else levels
    sound = np.asarray([len(form.levels) == count for form in forms], bool)
    rows = [row for form, good in zip(forms, sound, strict=True) if good for row in form.levels]
    shape = int(sound.sum()), count
    whole = slice(None) if shape[0] == len(forms) else sound

    def each(name: str) -> list[Any]:
        return list(map(operator.attrgetter(name), rows))

    names = zip(each("name"), list(level_names) * shape[0], strict=True)
    fine = np.asarray([told is None or told == name for told, name in names], bool)
    factors = itertools.chain.from_iterable(map(msgspec.structs.astuple, each("temporal.factors")))
    temporal = np.fromiter(factors, np.int32, len(rows) * dims)
    perms = each("temporal.perm")
    order, good = _permutations("".join(perms), list(map(len, perms)))
    fine &= good
    spatial = np.ones((2, len(rows), dims), np.int32)
    spatial_order = np.empty((2, len(rows), dims), np.int32)
    for x, spreads in enumerate((each("spatial.X"), each("spatial.Y"))):
        loops = list(itertools.chain.from_iterable(spreads))
        letters, lengths = "".join([letter for letter, _ in loops]), list(map(len, spreads))
        spatial_order[x], good = _permutations(letters, lengths)
        fine &= good
        spatial[x, np.repeat(np.arange(len(rows)), lengths), _dims(letters)] = [factor for _, factor in loops]
    keeps = zip(each("keep"), list(default_keep)[:count] * shape[0], strict=True)
    flags = [default if kept is None else kept for kept, default in keeps]
    keep = np.fromiter(itertools.chain.from_iterable(flags), bool, len(rows) * len(DATA_SPACES))

    def filled(own: np.ndarray, filler: np.ndarray) -> np.ndarray:
        """Spreads the rows `[..., rows, k]` of nests that have all levels over `[..., n, total, k]`."""
        out = np.empty((*own.shape[:-2], len(forms), total, own.shape[-1]), own.dtype)
        out[...] = filler
        out[..., whole, :count, :] = own.reshape(*own.shape[:-2], *shape, own.shape[-1])
        return out

    ones, unit = np.ones(dims, np.int32), np.arange(dims, dtype=np.int32)
    arrays = Mapping(
        temporal=filled(temporal.reshape(-1, dims), ones),
        order=filled(order, unit),
        spatial=filled(spatial, ones).swapaxes(0, 1),
        spatial_order=filled(spatial_order, unit).swapaxes(0, 1),
        keep=filled(keep.reshape(-1, len(DATA_SPACES)), np.zeros(len(DATA_SPACES), bool)),
    )
    sound[sound] = fine.reshape(shape).all(axis=1)
    larger = padded_of(forms)
    return arrays, sound & ((larger == 1) | (larger == covered(arrays))).all(axis=1)


def padded_of(forms: Sequence[NestForm]) -> np.ndarray:
    """Padded bounds that loop nests state, `[n, D]` int; 1 where they state none."""
    values = itertools.chain.from_iterable(msgspec.structs.astuple(form.padded) for form in forms)
    return np.fromiter(values, int, len(forms) * len(DIMS)).reshape(-1, len(DIMS))


_PLACES = np.full(256, len(DIMS))
_PLACES[[ord(letter) for letter in DIMS]] = np.arange(len(DIMS))


def _dims(letters: str) -> np.ndarray:
    """Indices of the dimensions that letters name, `[n]` int; D for a letter that names none."""
    return _PLACES[np.frombuffer(letters.encode("ascii", "replace"), np.uint8)]


def _permutations(letters: str, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Dimension indices in the order of letters, missing dimensions last.

    Args:
        letters: those of all rows, one after another.
        lengths: how many each row has.

    Returns:
        `[rows, D]` int32, and `[rows]` bool, whether a row names each dimension once at most and nothing else.
    """
    number, dims = np.asarray(lengths, int), len(DIMS)
    row = np.repeat(np.arange(len(number)), number)
    place = np.arange(len(letters)) - np.repeat(np.cumsum(number) - number, number)
    at = np.tile(np.arange(dims, 2 * dims + 1), (len(number), 1))  # the last column takes letters of no dimension
    at[row, _dims(letters)] = place
    at = at[:, :dims]
    order = np.tile(np.arange(dims, dtype=np.int32), (len(number), 1))
    order[number > 0] = at[number > 0].argsort(axis=1)
    return order, (at < dims).sum(axis=1) == number


def _fault(form: NestForm, level_names: Sequence[str], file: object, item: str) -> InputError:
    """The first fault, level by level, of a form that `mappings_of` finds unsound."""
    rows = form.levels
    if len(rows) != len(level_names):
        return InputError(
            f"has {len(rows)} entries",
            file=file,
            item=f"{item}.levels",
            remedy=f"list all levels of the template, innermost first: {', '.join(level_names)}",
        )
    for i, (row, name) in enumerate(zip(rows, level_names, strict=True)):
        where = f"{item}.levels[{i}]"
        if row.name not in (None, name):
            told = f"level is called {row.name!r}"
            return InputError(told, file=file, item=f"{where}.name", remedy=f"the template calls it {name!r}")
        named = {"temporal.perm": row.temporal.perm, "spatial.X": row.spatial.X, "spatial.Y": row.spatial.Y}
        for place, loops in named.items():
            letters = [loop[0] for loop in loops]
            twice = next((letter for i, letter in enumerate(letters) if letter in letters[:i]), None)
            if twice is not None:
                told, remedy = f"names {twice} twice", "name each dimension once"
                return InputError(told, file=file, item=f"{where}.{place}", remedy=remedy)
    for d, bound in enumerate(msgspec.structs.astuple(form.padded)):
        loops = [row.temporal.factors for row in rows]
        product = math.prod(getattr(factors, DIMS[d]) for factors in loops)
        spread = [loop for row in rows for loop in (*row.spatial.X, *row.spatial.Y)]
        product *= math.prod(factor for letter, factor in spread if letter == DIMS[d])
        if bound not in (1, product):
            told, remedy = f"is {bound}, the factors multiply to {product}", "make both equal"
            return InputError(told, file=file, item=f"{item}.padded.{DIMS[d]}", remedy=remedy)
    told, remedy = "is refused, but nothing wrong was found", "report this fault of mohamjax, with the file"
    return InputError(told, file=file, item=item, remedy=remedy)


def told_padding(mapping: Mapping, bounds: npt.ArrayLike) -> str:
    """The bounds that one mapping of a layer with these bounds pads, with their padded values: `K=16 Q=8`, or empty."""
    larger = padded_names(padded(mapping, np.asarray(bounds)))
    return str(dataclasses.replace(WorkloadShape(), **larger)) if larger else ""


def loop_nest(mapping: Mapping, level_names: Sequence[str], bounds: npt.ArrayLike | None = None) -> str:
    """The mapping as a loop nest that a person can read, outermost loop first; ranges as Timeloop writes them.

    Args:
        mapping: one mapping, NumPy arrays.
        level_names: names of its levels, innermost first.
        bounds: the layer's; if given, a first line names the padded ones where there are any.
    """
    rows = mapping_to_dict(mapping, level_names)["levels"]
    larger = told_padding(mapping, bounds) if bounds is not None else ""
    lines, depth = [f"padded to {larger}"] if larger else [], 0
    for row in reversed(rows):
        kept = "".join(v[0] for v, k in zip(DATA_SPACES, row["keep"], strict=True) if k) or "nothing"
        lines.append(f"{row['name']} [keeps {kept}]")
        for letter in reversed(row["temporal"]["perm"]):
            bound = row["temporal"]["factors"].get(letter, 1)
            if bound > 1:
                depth += 1
                lines.append("  " * depth + f"for {letter.lower()} in [0:{bound})")
        for axis in "YX":
            for letter, bound in reversed(row["spatial"][axis]):
                depth += 1
                lines.append("  " * depth + f"parallel for {letter.lower()} in [0:{bound})  (along {axis})")
    lines.append("  " * (depth + 1) + "multiply-accumulate")
    return "\n".join(lines)
