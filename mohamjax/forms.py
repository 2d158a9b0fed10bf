"""Forms of documents: a class states keys, types and ranges once; msgspec validates with it and derives the schema.

A form is a class that derives from `Form` (no other keys) or `OpenForm` (other keys are ignored). What a type cannot
express (names that must differ, jobs that wait for each other) is checked by the readers, after msgspec's validation.

A union must not hold both a tuple of fixed length and a number with limits, nor a list and a text with a pattern:
msgspec 0.22 crashes on them. Use a list with limits on its length, and a text with limits on its length, instead.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
import sys
import types
import typing
from collections import abc
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from mohamjax.errors import InputError
from mohamjax.reader import closest, suggestion, type_name

_LARGEST = sys.float_info.max

Whole = Annotated[int, Meta(ge=1, le=2**30)]
"""A size or factor, which becomes an int32 gene."""

Bound = Annotated[int, Meta(ge=1, lt=2**31)]
"""A loop bound, stride or dilation."""

Index = Annotated[int, Meta(ge=0, le=2**30)]
"""A 0-based index of an entry, or a count."""

Amount = Annotated[float, Meta(ge=0, le=_LARGEST)]
"""A finite number of at least 0."""

Positive = Annotated[float, Meta(gt=0, le=_LARGEST)]
"""A finite number above 0."""

Factor = Annotated[float, Meta(ge=1e-9, le=1e9)]
"""A multiplier of figures; the products stay in the range of numbers."""

Text = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
"""A name or path."""

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_.-]+$(?!\n)", description="a name of letters, digits, `_`, `.` and `-` only")
]
"""A name that may become a column or a key in files."""

Pair = Annotated[tuple[Bound, Bound], Meta(description="one number per axis, as in [2, 2]")]
"""Strides or dilations along the two axes."""


class Form(msgspec.Struct, forbid_unknown_fields=True):
    """A mapping with these keys and no others."""


class OpenForm(msgspec.Struct):
    """A mapping with these keys; others are left alone."""


class Bounds(Form):
    """Loop bounds or factors by dimension (docs/concepts/workload.md); 1 where left out."""

    G: Bound = 1
    N: Bound = 1
    K: Bound = 1
    C: Bound = 1
    P: Bound = 1
    Q: Bound = 1
    R: Bound = 1
    S: Bound = 1


T = TypeVar("T")


@typing.overload
def read_form(data: Any, form: type[T], *, file: object = None, where: str = "") -> T: ...
@typing.overload
def read_form(data: Any, form: Any, *, file: object = None, where: str = "") -> Any: ...
def read_form(data: Any, form: Any, *, file: object = None, where: str = "") -> Any:
    """Converts plain data to an instance of a form.

    Args:
        data: what a file holds at this place: mappings, lists, texts, numbers.
        form: a form, or another type that msgspec knows.
        file: source of the data, for error messages.
        where: path of the place in the file, empty at the top.

    Raises:
        InputError: a key is missing or unknown, or a value has the wrong type or range; the error names the path.
    """
    try:
        return msgspec.convert(data, form)
    except msgspec.ValidationError as error:
        raise _complaint(str(error), data, form, file, where) from None


def refuse_misspelt(data: object, form: type[msgspec.Struct], *, file: object = None, where: str = "") -> None:
    """Raises an error for a key that an open form ignores and that is nearly one of its own.

    Args:
        data: what a file holds at this place.
        form: an open form.
        file: source of the data, for error messages.
        where: path of the place in the file.

    Raises:
        InputError: there is such a key; the error names its path and the key that is meant.
    """
    known = form.__struct_encode_fields__
    for key in data if isinstance(data, abc.Mapping) else ():
        if key not in known and closest(str(key), known, 0.8):
            named = _joined(where, str(key))
            raise InputError(f"unknown key {key!r}", file=file, item=named, remedy=suggestion(str(key), known))


def as_written(form: type[msgspec.Struct], *, may_lack: Sequence[str] = (), **kinds: Any) -> Any:
    """Returns a stricter form, for what this package writes: all keys are required, and only `kinds` may be added.

    Such texts are read fast: see `keys_for_sure`.

    Args:
        form: a form.
        may_lack: keys of the form that may be missing.
        kinds: types of additional keys, and new types for keys of the form.
    """
    fields = {field.name: field.type for field in msgspec.structs.fields(form) if field.name not in may_lack} | kinds
    return msgspec.defstruct(
        f"Written{form.__name__}", list(fields.items()), bases=(form,), kw_only=True, forbid_unknown_fields=True
    )


def keys_for_sure(rows: Sequence[msgspec.Struct], form: type[msgspec.Struct]) -> int:
    """Returns a lower bound on the number of keys in the text that was read as these instances of a form.

    Counts the required keys, and the others whose values differ from their defaults. Keys of nested forms are counted
    where the nested form is required, alone or in a list, or defaults to an empty form. If the text has exactly so many
    keys, and the form takes no others, no key was written twice.

    Args:
        rows: instances of the form.
        form: a form that takes no other keys.
    """
    plan = _key_plan(form)
    keys = plan.required * len(rows)
    for value, default in plan.optional:
        keys += len(rows) - list(map(value, rows)).count(default)
    for value, inner, listed in plan.inner:
        values = map(value, rows)
        keys += keys_for_sure(list(itertools.chain.from_iterable(values) if listed else values), inner)
    return keys


class _KeyPlan(typing.NamedTuple):
    """How the keys of a form are counted.

    Attributes:
        required: number of keys that must be there.
        optional: for each other key, a getter of its value, and its default.
        inner: for each nested form, a getter, the form, and whether it comes in a list.
    """

    required: int
    optional: list[tuple[abc.Callable[[Any], Any], Any]]
    inner: list[tuple[abc.Callable[[Any], Any], type[msgspec.Struct], bool]]


@functools.cache
def _key_plan(form: type[msgspec.Struct]) -> _KeyPlan:
    plan = _KeyPlan(sum(field.required for field in msgspec.structs.fields(form)), [], [])
    for field in msgspec.structs.fields(form):
        value = operator.attrgetter(field.name)
        kind, *others = _alternatives(field.type)
        listed = typing.get_origin(kind) is list and not others
        if listed:
            (kind,) = typing.get_args(kind)
        if field.required and _hints(kind):
            plan.inner.append((value, kind, listed))
        elif not field.required and field.default is not msgspec.NODEFAULT:
            plan.optional.append((value, field.default))
        elif not field.required and isinstance(missing := field.default_factory(), msgspec.Struct):
            plan.optional.append((value, missing))
            plan.inner.append((value, kind, listed))
    return plan


_PROBLEM = re.compile(r"(.*?)(?: - at `(?:(key)` in `)?(\$[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def check_fields(made: object, kinds: abc.Mapping[str, Any], where: str) -> None:
    """Checks fields of a frozen dataclass as the same values in a file are checked.

    NumPy's numbers become Python's, and `"unlimited"` becomes infinite. Fields that are arrays are not checked: they
    may be traced.

    Args:
        made: the dataclass, which calls this in its `__post_init__`.
        kinds: a type for each field that is checked.
        where: name of the dataclass, for error messages.

    Raises:
        InputError: a field has an invalid value; the error names the field.
    """
    for name, kind in kinds.items():
        value = getattr(made, name)
        if hasattr(value, "__array__") and not isinstance(value, np.generic):
            continue
        value = _own_numbers(value)
        read_form(value, kind, where=f"{where}.{name}")
        object.__setattr__(made, name, math.inf if value == "unlimited" else value)


def _own_numbers(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple) and any(isinstance(one, np.generic) for one in value):
        return tuple(map(_own_numbers, value))
    return value


def _complaint(told: str, data: Any, form: Any, file: object, where: str) -> InputError:
    """Turns msgspec's message into an error that names the full path, what was found and what is expected.

    msgspec writes `[...]` for a key of a mapping with free keys; the first key that is invalid by itself is taken.
    """
    matched = _PROBLEM.fullmatch(told)
    problem, at_key, path = matched.groups() if matched else (told, None, None)
    value, kind = data, form
    for name, index in _STEP.findall(path or ""):
        if name:
            kind = next(hints[name] for hints in map(_hints, _alternatives(kind)) if name in hints)
            value, where = value[name], _joined(where, name)
        elif index == "...":
            key = _culprit(value, kind)
            kind = next(typing.get_args(k)[1] for k in _alternatives(kind) if typing.get_origin(k) is dict)
            value, where = value[key], _joined(where, str(key))
        else:
            kind = _entry_type(kind, int(index))
            value, where = value[int(index)], f"{where}[{index}]"
    if at_key:
        key = _culprit(value, kind)
        named = _joined(where, str(key))
        return InputError(f"unknown key {key!r}", file=file, item=named, remedy=_expected_keys(kind))
    said = re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", problem, re.DOTALL)
    if said:
        name, named = said[2], _joined(where, said[2])
        if said[1] == "missing required":
            return InputError("is missing", file=file, item=named, remedy=f"add `{name}: ...`")
        remedy = suggestion(name, _keys(kind), "known keys")
        return InputError(f"unknown key {name!r}", file=file, item=named, remedy=remedy)
    if value is None and where and not where.endswith("]"):
        remedy = f"write a value, `{where.rpartition('.')[2]}: ...`"
        return InputError("is empty (null)", file=file, item=where, remedy=remedy)
    message, remedy = _told(problem, value, kind)
    return InputError(message, file=file, item=where or None, remedy=remedy)


def _told(problem: str, value: Any, kind: Any) -> tuple[str, str]:
    """Returns what is wrong with a value, and what to write instead."""
    described = _description(kind)
    if problem.startswith("Invalid enum value"):
        known = [word for k in _alternatives(kind) if typing.get_origin(k) is typing.Literal for word in k.__args__]
        if described and "?" not in suggestion(value, [word for word in known if len(str(word)) > 1]):
            return f"unknown value {value!r}", f"write {described}"  # one-letter units have no misspellings
        return f"unknown value {value!r}", suggestion(value, known)
    if problem == "Number out of range" or problem.startswith("Integer value out of range"):
        return "is too large", "write a finite number"
    parts = re.fullmatch(r"Expected `([^`]*)`(?: of length)?(?: (>=|>|<=|<)? ?([^\s,]+))?(.*)", problem, re.DOTALL)
    if parts is None:
        return f"{problem}, found {value!r}", f"write {described}" if described else "mend it"
    nouns = [_WORDS.get(word, word) for word in parts[1].split(" | ") if word != "null"]
    noun = " or ".join(dict.fromkeys(nouns))
    remedy = f"write {described or ('it in quotes' if noun == 'text' else noun)}"
    if isinstance(value, float) and value != value:
        return f"expected {noun}, found nan", f"write {noun}"
    given: Any = value
    if " of length" in problem:
        many = f"{parts[2] or ''} {parts[3]}".replace(">=", "at least").replace("<=", "at most").strip()
        return f"has {len(given)} entries" if len(given) else "is empty", f"write {described or f'{many} entries'}"
    if noun == "a whole number" and isinstance(value, float) and value == value:
        return f"{value!r} is not whole", remedy
    if parts[2]:
        if isinstance(value, float) and value in (float("inf"), -float("inf")):
            return f"{value!r} is not finite", "write a finite number"
        size = "too small" if ">" in parts[2] else "too large"
        limit = {">=": "of at least", ">": "above", "<=": "up to", "<": "below"}[parts[2]]
        told = f"{value!r} is {size}" if abs(value) < 1e15 else f"is {size}"
        bound = f"{limit} {float(parts[3]):.12g}"
        return told, f"write {described} ({bound})" if described else f"write {noun} {bound}"
    if " matching regex" in problem:
        return f"{value!r} is not {described}" if given else "is empty", remedy
    if noun == "a mapping" and not described:
        remedy = _expected_keys(kind)
    return f"expected {noun}, found {type_name(value)} {value!r}", remedy


def _joined(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _alternatives(kind: Any) -> list[Any]:
    """Returns the members of a union, without annotations."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _alternatives(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [k for arg in typing.get_args(kind) for k in _alternatives(arg)]
    return [kind]


def _description(kind: Any) -> str:
    """Returns the description in an annotation, or an empty text."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        own = [meta.description for meta in args[1:] if isinstance(meta, Meta) and meta.description]
        return own[-1] if own else _description(args[0])
    if origin in (typing.Union, types.UnionType):
        others = [arg for arg in args if arg is not types.NoneType]
        return _description(others[0]) if len(others) == 1 else ""
    return ""


def _hints(kind: Any) -> dict[str, Any]:
    """Returns the types of the keys of a form, by their names in files; empty for other types."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return {}
    hints = typing.get_type_hints(kind, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(kind)}


def _keys(kind: Any) -> list[str]:
    """Returns the keys of the forms in a type."""
    return [name for k in _alternatives(kind) for name in _hints(k)]


def _expected_keys(kind: Any) -> str:
    keys = _keys(kind)
    return f"write `key: value` lines with keys out of: {', '.join(keys)}" if keys else "write `key: value` lines"


def _entry_type(kind: Any, index: int) -> Any:
    """Returns the type of an entry of a list or tuple."""
    for k in _alternatives(kind):
        args = typing.get_args(k)
        if typing.get_origin(k) is list:
            return args[0]
        if typing.get_origin(k) is tuple:
            return args[0] if args[-1] is ... else args[index]
    return Any


def _culprit(value: abc.Mapping[Any, Any], kind: Any) -> Any:
    """Returns the first key of a mapping that is invalid or has an invalid value."""
    for key, entry in value.items():
        try:
            msgspec.convert({key: entry}, kind)
        except msgspec.ValidationError as error:
            if "missing required field" not in str(error):
                return key
    return next(iter(value))
