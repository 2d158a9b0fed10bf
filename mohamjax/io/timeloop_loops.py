"""Reads Timeloop's problems, mappings and constraints as layers, loop nests and limits of map spaces."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import abc
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from mohamjax.dims import DATA_SPACES, DIMS
from mohamjax.hardware import Architecture
from mohamjax.io.timeloop_place import DIGITS, At, kept, left_open
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import UNLIMITED, Constraints
from mohamjax.workload.layer import WorkloadShape

SECOND = {"G": "H", "N": "B", "K": "L", "C": "D"}
"""Dimensions whose spatial loops may be written in two parts, and the letter of the second part."""


_ALIASES = {"M": "K"}


_LETTERS = (*DIMS, *SECOND.values())


_DIMENSION = (*range(len(DIMS)), *(DIMS.index(d) for d in SECOND))


_FACTOR = re.compile(rf"^(?P<dim>[A-Z])\s*(?P<sign><=|>=|=)?\s*(?P<value>\d{{1,{DIGITS}}})$")


_AXES = {
    "conv": (
        [["C"], ["K"], ["R"], ["S"], ["G"]],
        [["N"], ["C"], ["P", "R"], ["Q", "S"], ["G"]],
        [["N"], ["K"], ["P"], ["Q"], ["G"]],
    ),
    "depthwise": (
        [["C"], ["R"], ["S"]],
        [["N"], ["C"], ["P", "R"], ["Q", "S"]],
        [["N"], ["C"], ["P"], ["Q"]],
    ),
}


def _letter(at: At, text: object, *, second: bool = False) -> str:
    letter = _ALIASES.get(str(text), str(text))
    if letter not in (_LETTERS if second else DIMS):
        raise at.error(f"unknown dimension {text!r}", f"use {', '.join(DIMS)}, or M for K")
    return letter


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem as its mappings and constraints need it; the defaults hold for constraints without a problem.

    Attributes:
        shape: The layer; a depthwise one has its channels in G.
        depthwise: Whether it is a depthwise one with its channels called C.
        spaces: The data spaces' names in our order.
        order: Slots in `_LETTERS` of the dimensions in the order of the problem, in which Timeloop pads permutations.
        notes: Lines about what was ignored.
    """

    shape: WorkloadShape
    depthwise: bool = False
    spaces: tuple[str, ...] = DATA_SPACES
    order: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Shape:
    """A problem's `shape`.

    It has the dimensions as listed, defaults of the coefficients by name, the names of the coefficients by dimension,
    the data spaces' names in our order, and whether it is a depthwise layer.
    """

    dims: Sequence[str]
    defaults: abc.Mapping[str, int]
    steps: abc.Mapping[str, str]
    spaces: tuple[str, ...] = DATA_SPACES
    depthwise: bool = False


_STEPS = {"P": "Wstride", "R": "Wdilation", "Q": "Hstride", "S": "Hdilation"}
_CNN_LAYER = _Shape("RSPQCKN", dict.fromkeys(_STEPS.values(), 1), _STEPS)


def read_problem(at: At, value: object) -> Problem:
    """The layer of a problem, and what reading its mappings takes."""
    value = at.table(value)
    shape = _shape(at / "shape", value.get("shape"))
    at = at / "instance" if "instance" in value else at
    instance = {_ALIASES.get(key, key): row for key, row in at.table(value.get("instance", value)).items()}
    known = {*shape.dims, *shape.defaults, "shape", "version", "name"}
    unread = [str(key) for key in instance if key not in known]
    notes = [f"keys of the problem that are not read: {', '.join(unread)}"] if unread else []
    order = tuple(_slot(at, letter, shape.depthwise, second=True) for letter in shape.dims)
    return Problem(_bounds(at, instance, shape), shape.depthwise, shape.spaces, order, tuple(notes))


def _shape(at: At, shape: object) -> _Shape:
    if isinstance(shape, str):
        if shape not in ("cnn-layer", "CNN-Layer"):
            raise at.error(f"the preset {shape!r} is not read", "write the shape out, or use cnn-layer")
        return _CNN_LAYER
    shape = at.table(shape)
    dims = [_letter(at, d, second=True) for d in (at / "dimensions").list(shape.get("dimensions"))]
    if len(set(dims)) != len(dims):
        raise (at / "dimensions").error("name a dimension twice", "K and M are the same here")
    coefficients = at / "coefficients"
    defaults = {
        str(row.get("name")): int(at.number(row.get("default", 1), whole=True))
        for row in map(coefficients.table, coefficients.list(shape.get("coefficients", [])))
    }
    spaces = (at / "data-spaces").list(shape.get("data-spaces", shape.get("data_spaces")))
    if len(spaces) != len(DATA_SPACES):
        raise at.error(f"has {len(spaces)} data spaces", "the model covers weights, inputs and outputs")
    names, axes, steps = [], [], {}
    for n, row in enumerate(spaces):
        here = at / "data-spaces" / n
        row = here.table(row)
        names.append(str(row.get("name")))
        terms = [_axis(here / "projection", axis) for axis in (here / "projection").list(row.get("projection"))]
        axes.append(sorted(sorted(letter for letter, _ in axis) for axis in terms))
        steps |= _coefficients(here / "projection", itertools.chain(*terms), defaults, _STEPS if n == 1 else ())
        written = bool(row.get("read-write", row.get("read_write", False)))
        if written != (n == 2):
            raise here.error("is out of order", "list weights, inputs, outputs; only the last is read-write")
    for kind, wanted in _AXES.items():
        if kind == "conv":
            wanted = [[*space, *([SECOND[a[0]]] for a in space if a[0] in SECOND)] for space in wanted]
        restricted = [sorted([d for d in axis if d in dims] for axis in space) for space in wanted]
        if axes == [[axis for axis in space if axis] for space in restricted]:
            return _Shape(dims, defaults, steps, tuple(names), kind == "depthwise")
    raise at.error("its projections are not those of a convolution", "see the problem that mohamjax writes")


def _axis(at: At, terms: object) -> list[tuple[str, str | None]]:
    """The dimensions of a sum along an axis of a data space, each with the name of its coefficient or None."""
    result = []
    for term in at.list(terms):
        term = at.list(term)
        if not 1 <= len(term) <= 2:
            raise at.error(f"{term!r} is no product", "write [dimension, coefficient]")
        result.append((_letter(at, term[0], second=True), str(term[1]) if len(term) == 2 else None))
    return result


def _coefficients(
    at: At, terms: Iterable[tuple[str, str | None]], known: abc.Mapping[str, int], allowed: Collection[str]
) -> dict[str, str]:
    """The names of coefficients by dimension; they must be known, and the dimensions among the allowed ones."""
    result = {letter: name for letter, name in terms if name is not None}
    for letter, name in result.items():
        if name not in known:
            told = f"declared are {', '.join(known) or 'none'}"
            raise at.error(f"{name!r} is none of the problem's coefficients", f"declare it: {told}")
        if letter not in allowed:
            told = "the model has strides and dilations: of P, Q, R and S, in the inputs"
            raise at.error(f"{letter} has the coefficient {name!r}", told)
    return result


def _bounds(at: At, instance: abc.Mapping[str, object], shape: _Shape) -> WorkloadShape:
    def value(key: str, default: int | None) -> int:
        if key not in instance and default is not None:
            return default
        if key not in instance:
            raise (at / key).error("the bound is missing", "give it")
        number = (at / key).number(instance[key], whole=True)
        if not 1 <= number < 2**31:
            raise (at / key).error(f"{instance[key]!r} is no positive integer", "give 1 or more")
        return int(number)

    bounds = {d: value(d, None) for d in shape.dims}
    for first, second in SECOND.items():
        if second in bounds:
            bounds[first] = bounds.get(first, 1) * bounds.pop(second)
    steps = dict.fromkeys(_STEPS, 1) | {d: value(name, shape.defaults[name]) for d, name in shape.steps.items()}
    if shape.depthwise:
        bounds["G"] = bounds.pop("C", 1)
    return WorkloadShape(**bounds, stride=(steps["P"], steps["Q"]), dilation=(steps["R"], steps["S"]))


def _level(at: At, target: object, architecture: Architecture) -> int:
    if target not in architecture.level_names:
        names = ", ".join(architecture.level_names)
        raise (at / "target").error(f"{target!r} is no storage level", f"the levels are {names}")
    return architecture.level_names.index(target)


def _factors(at: At, value: object, depthwise: bool, *, second: bool = False) -> list[tuple[int, str, int]]:
    """(slot in `_LETTERS`, sign, number) of each entry of `factors`, which is a text or a list.

    The slot of a dimension is its index in `DIMS`.
    """
    entries = value.replace(",", " ").split() if isinstance(value, str) else at.list(value if value is not None else [])
    result = []
    for entry in entries:
        match = _FACTOR.match(str(entry).strip())
        if match is None:
            raise at.error(f"{entry!r} is no factor", "write them as in 'C=4 K=2'")
        slot = _slot(at, match["dim"], depthwise, second=second)
        result.append((slot, match["sign"] or "=", int(match["value"])))
    if len({d for d, _, _ in result}) != len(result):
        raise at.error("name a dimension twice", "give each once")
    return result


def _slot(at: At, letter: object, depthwise: bool, *, second: bool) -> int:
    known = _letter(at, letter, second=second)
    return _LETTERS.index("G" if depthwise and known == "C" else known)


def _permutation(at: At, value: object, depthwise: bool, *, second: bool = False) -> list[int]:
    """Slots in `_LETTERS`, innermost first."""
    letters = re.sub(r"[\s,]", "", value) if isinstance(value, str) else at.list(value if value is not None else [])
    order = [_slot(at, letter, depthwise, second=second) for letter in letters]
    if len(set(order)) != len(order):
        raise at.error("names a dimension twice", "give each once")
    return order


_MAPPING_KEYS = {"target", "type", "factors", "permutation", "split", "keep", "bypass"}


def _directives(
    rows: Sequence[tuple[At, object]], architecture: Architecture
) -> Iterator[tuple[At, dict[str, object], int, str]]:
    """Checked directives of a mapping or of constraints: (place, fields, level, type)."""
    seen = set()
    for at, row in rows:
        row = at.table(row)
        kind = str(row.get("type"))
        kind = "bypass" if kind in ("datatype", "dataspace", "bypassing") else kind
        if kind not in ("temporal", "spatial", "bypass"):
            raise (at / "type").error(f"{kind!r} is not read", "known are temporal, spatial and bypass")
        at.only(row, _MAPPING_KEYS)
        level = _level(at, row.get("target"), architecture)
        if kind == "spatial" and np.prod(np.asarray(architecture.machine.fanout)[level]) == 1:
            told = f"{row['target']} has one child: Timeloop takes no spatial directive there"
            raise at.error(told, "leave it out")
        if (level, kind) in seen:
            raise at.error(f"a second {kind} directive for {row['target']}", "merge them")
        seen.add((level, kind))
        yield at, row, level, kind


def _split(at: At, row: dict[str, object], count: int) -> int:
    """The number of dimensions of a spatial permutation that run along X; by default `count`."""
    return int((at / "split").number(row.get("split", count), whole=True))


def _loops(at: At, slots: Sequence[int], bounds: abc.Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Order of all dimensions, innermost first, and their factors, from the slots and bounds of one group of loops."""
    place = dict.fromkeys(range(len(DIMS)), len(slots))
    factors = [1] * len(DIMS)
    for at_slot, slot in enumerate(slots):
        dim, bound = _DIMENSION[slot], bounds.get(slot, 1)
        if bound > 1 and factors[dim] > 1:
            raise at.error(f"{DIMS[dim]} and {SECOND[DIMS[dim]]} run along the same axis", "write them as one factor")
        if bound > 1 or place[dim] == len(slots):
            factors[dim], place[dim] = max(bound, factors[dim]), at_slot
    return sorted(place, key=lambda dim: place[dim]), factors


def _fill_up(at: At, given: Sequence[dict[int, int]], shape: WorkloadShape) -> None:
    """Replaces factors of 0, in place: Timeloop reads 0 as the whole bound of the dimension.

    Args:
        at: The mapping.
        given: Factors of each directive by slot.
        shape: The layer.
    """
    zeros = [slot for factors in given for slot, number in factors.items() if number == 0]
    for slot in zeros:
        others = [factors[slot] for factors in given if factors.get(slot)]
        if math.prod(others) > 1 or zeros.count(slot) > 1:
            told = f"a factor of 0 is the whole bound of {_LETTERS[slot]}, which has other factors too"
            raise at.error(told, "write every factor as a number")
        parts = [k for k, dim in enumerate(_DIMENSION) if dim == _DIMENSION[slot] and k != slot]
        second = math.prod(factors.get(k, 1) or 1 for factors in given for k in parts)
        for factors in given:
            if factors.get(slot) == 0:
                factors[slot] = max(shape.bounds[_DIMENSION[slot]] // second, 1)


def read_mapping(at: At, value: object, architecture: Architecture, problem: Problem) -> Mapping:
    """The loop nest of a mapping's directives, as NumPy arrays; raises InputError unless factors multiply to bounds."""
    levels, d = len(architecture.level_names), len(DIMS)
    temporal, spatial = np.ones((levels, d), np.int32), np.ones((2, levels, d), np.int32)
    order = np.tile(np.arange(d, dtype=np.int32), (levels, 1))
    spatial_order = np.tile(np.arange(d, dtype=np.int32), (2, levels, 1))
    keep = np.asarray(architecture.machine.keep).copy()
    rows = list(_directives([(at.entry(n, row), row) for n, row in enumerate(at.list(value))], architecture))
    given: list[dict[int, int]] = []
    for here, row, level, kind in rows:
        given.append({})
        if kind == "bypass":
            stored = kept(here, row, problem.spaces)
            keep[level] = [name in stored for name in DATA_SPACES]
            continue
        factors = _factors(here / "factors", row.get("factors"), problem.depthwise, second=True)
        if any(sign != "=" for _, sign, _ in factors):
            raise (here / "factors").error("a mapping needs every factor as a number", "write C=4")
        given[-1] = {slot: number for slot, _, number in factors}
    _fill_up(at, given, problem.shape)
    for (here, row, level, kind), bounds in zip(rows, given, strict=True):
        if kind == "bypass":
            continue
        inner = _permutation(here / "permutation", row.get("permutation"), problem.depthwise, second=True)
        inner = list(dict.fromkeys([*inner, *problem.order, *range(len(_LETTERS))]))
        if kind == "temporal":
            order[level], temporal[level] = _loops(here, inner, bounds)
        else:
            split = _split(here, row, len(_LETTERS))
            for axis, slots in enumerate((inner[:split], inner[split:])):
                spatial_order[axis, level], spatial[axis, level] = _loops(here, slots, bounds)
    for k, bound in enumerate(problem.shape.bounds):
        product = math.prod(int(n) for n in (*temporal[:, k], *spatial[:, :, k].flat))
        if product != bound:
            letter = "C" if problem.depthwise and DIMS[k] == "G" else DIMS[k]
            told = f"the factors of {letter} multiply to {product}{_told(k, temporal, spatial, architecture)}"
            raise at.error(f"{told}, its bound is {bound}", "change one of them, or add one")
    return Mapping(temporal=temporal, order=order, spatial=spatial, spatial_order=spatial_order, keep=keep)


def _told(dim: int, temporal: np.ndarray, spatial: np.ndarray, architecture: Architecture) -> str:
    """Factors above 1 of a dimension with their levels, innermost first, such as ` (4 at Buffer, 2 at DRAM)`."""
    each = [
        f"{factor} {kind}at {name}"
        for i, name in enumerate(architecture.level_names)
        for kind, factor in (("", temporal[i, dim]), ("along X ", spatial[0, i, dim]), ("along Y ", spatial[1, i, dim]))
        if factor > 1
    ]
    return f" ({', '.join(each)})" if each else ""


def read_constraints(
    rows: Sequence[tuple[At, object]], architecture: Architecture, free: np.ndarray, problem: Problem
) -> tuple[Constraints, np.ndarray]:
    """The limits that a list of constraints sets, as NumPy arrays, and the factors that it sets exactly.

    Args:
        rows: The constraints with their places.
        architecture: The machine.
        free: `[L, V]` bool, the data spaces that the architecture's own constraints leave open.
        problem: The problem that the constraints are for.

    Returns:
        The limits, in which "= n" is "at most n"; and `TimeloopInput.exact`.
    """
    levels, d = len(architecture.level_names), len(DIMS)
    temporal = np.full((levels, d), UNLIMITED, np.int32)
    fanout = np.asarray(architecture.machine.fanout)
    # By default Timeloop lets every dimension run along any axis with more than one child.
    spatial = np.where(fanout.T[:, :, None] > 1, UNLIMITED, 1) * np.ones((1, 1, d), np.int32)
    spatial = spatial.astype(np.int32)
    order = np.full((levels, d), -1, np.int32)
    keep = np.asarray(architecture.machine.keep).copy()
    free = free & (np.arange(levels)[:, None] < levels - 1)  # the outermost level keeps everything
    exact = np.full((2, levels, d), -1, np.int32)
    for at, row, level, kind in _directives(rows, architecture):
        if kind == "bypass":
            stored, unnamed = kept(at, row, problem.spaces), left_open(at, row, problem.spaces)
            for v, name in enumerate(DATA_SPACES):
                if name not in unnamed:
                    keep[level, v], free[level, v] = name in stored, False
            continue
        permutation = _permutation(at / "permutation", row.get("permutation"), problem.depthwise)
        for k, sign, number in _factors(at / "factors", row.get("factors"), problem.depthwise):
            if sign == ">=":
                raise (at / "factors").error("lower bounds are not read", "bound factors from above")
            # A factor of 0 stands for the rest of the bound.
            most = UNLIMITED if number == 0 else number
            if sign == "=":
                exact[int(kind == "spatial"), level, k] = number
            if kind == "temporal":
                temporal[level, k] = most
            else:
                spatial[:, level, k] = np.minimum(spatial[:, level, k], most)
        if kind == "temporal":
            order[level, : len(permutation)] = permutation
        elif "split" in row:
            inner = list(dict.fromkeys([*permutation, *problem.order, *range(d)]))
            split = _split(at, row, d)
            for axis, slots in enumerate((inner[:split], inner[split:])):
                along = {_DIMENSION[slot] for slot in slots}
                spatial[axis, level, [k for k in range(d) if k not in along]] = 1
    limits = Constraints(temporal_max=temporal, spatial_max=spatial, order=order, keep=keep, may_bypass=free)
    return limits, exact
