"""Checked reading of text files and YAML: every complaint names the file, the key path and the remedy."""

from __future__ import annotations

import contextlib
import difflib
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from mohamjax.errors import InputError

__all__ = ["Fields", "choice", "number", "read_text", "read_yaml", "suggestion"]

_LARGEST_WHOLE = 2**30  # sizes and factors become int32 genes


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key written twice (PyYAML silently takes the last)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is written twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_text(path: pathlib.Path, kind: str) -> str:
    """The text of a file, without a byte order mark.

    Args:
        path: The file.
        kind: What it should be, for complaints, such as `JSON file`.

    Raises:
        InputError: If it is missing, a folder, unreadable or no UTF-8 text.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such file", file=path, remedy="check the path") from None
    except IsADirectoryError:
        raise InputError("is a folder, not a file", file=path, remedy=f"name a {kind} in it") from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=path, remedy=f"give a {kind}") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, remedy="check its permissions") from None


def read_yaml(path: str | pathlib.Path) -> dict[Any, Any]:
    """Read a YAML file whose top is a mapping.

    Raises:
        InputError: If the file is missing, unreadable, empty, no YAML, or no mapping at its top.
    """
    path = pathlib.Path(path)
    text = read_text(path, "YAML file")
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(
            f"is not valid YAML: {error.problem or error.context}",
            file=path,
            item=None if mark is None else f"line {mark.line + 1}, column {mark.column + 1}",
            remedy="mend the syntax there (indentation, colons, brackets, quotes)",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"is not valid YAML: {reason}", file=path, remedy="mend the syntax") from None
    if data is None:
        raise InputError("is empty", file=path, remedy="start from a packaged file and change it")
    if not isinstance(data, dict):
        raise InputError(f"holds a {_type_name(data)} at its top", file=path, remedy="write `key: value` lines there")
    return data


def _type_name(value: object) -> str:
    names = {
        dict: "mapping",
        list: "list",
        str: "text",
        bool: "true/false",
        int: "number",
        float: "number",
        type(None): "nothing",
    }
    return names.get(type(value), type(value).__name__)


def suggestion(word: object, known: Iterable[str], what: str = "known") -> str:
    """A remedy for a word that is none of `known`: the closest one, or all of them."""
    known = [str(k) for k in known]
    close = difflib.get_close_matches(str(word), known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"{what}: {', '.join(known)}"


def choice(value: object, known: Sequence[str], *, what: str, file: object, item: str) -> str:
    """`value` if it is one of `known`.

    Raises:
        InputError: If it is not, with the closest known word.
    """
    if not isinstance(value, str) or value not in known:
        raise InputError(f"unknown {what} {value!r}", file=file, item=item, remedy=suggestion(value, known, f"{what}s"))
    return value


def number(
    value: object,
    *,
    file: object,
    item: str,
    minimum: float = 0.0,
    exclusive: bool = False,
    integer: bool = False,
    finite: bool = True,
    maximum: float = math.inf,
) -> float:
    """`value` as a number within its limits (an int if `integer`).

    Raises:
        InputError: If it is no number, not whole where it must be, below the minimum, above the maximum, infinite or
            NaN.
    """
    if isinstance(value, str):
        # YAML reads 1e3 as text; people mean the number.
        with contextlib.suppress(ValueError):
            value = float(value)
    expected = "a whole number" if integer else "a number"
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(
            f"expected {expected}, found {_type_name(value)} {value!r}",
            file=file,
            item=item,
            remedy=f"write {expected}",
        )
    most = min(maximum, _LARGEST_WHOLE) if integer or isinstance(value, int) else maximum
    if value > most:
        raise InputError("is too large", file=file, item=item, remedy=f"write {expected} up to {most}")
    if finite and math.isinf(value):
        raise InputError(f"{value!r} is not finite", file=file, item=item, remedy="write a finite number")
    if value < minimum or (exclusive and value == minimum):
        bound = f"above {minimum:g}" if exclusive else f"at least {minimum:g}"
        raise InputError(f"{value!r} is too small", file=file, item=item, remedy=f"write {expected} {bound}")
    if integer:
        if value != int(value):
            raise InputError(f"{value!r} is not whole", file=file, item=item, remedy="write a whole number")
        return int(value)
    return float(value)


class Fields:
    """A mapping of a file with its key path; refuses keys that it does not know.

    Args:
        data: What the file holds at this place.
        known: Keys that may stand there.
        file: The file, for complaints.
        where: Key path of the place, empty at the top.
    """

    def __init__(self, data: object, known: Sequence[str], *, file: object, where: str = "") -> None:
        self.file, self.where = file, where
        if not isinstance(data, Mapping):
            raise InputError(
                f"expected a mapping, found {_type_name(data)} {data!r}",
                file=file,
                item=where or None,
                remedy=f"write `key: value` lines with keys out of: {', '.join(known)}",
            )
        for key in data:
            if key not in known:
                raise InputError(
                    f"unknown key {key!r}",
                    file=file,
                    item=self.path(str(key)),
                    remedy=suggestion(key, known, "known keys"),
                )
        self.data = data

    def path(self, key: str) -> str:
        """Key path of a key of this mapping."""
        return f"{self.where}.{key}" if self.where else key

    def has(self, key: str) -> bool:
        """Whether the key stands there with a value (`key:` with nothing after it counts as absent)."""
        return self.data.get(key) is not None

    def need(self, key: str) -> Any:
        """The value of a key that must stand there."""
        if not self.has(key):
            raise InputError("is missing", file=self.file, item=self.path(key), remedy=f"add `{key}: ...`")
        return self.data[key]

    def text(self, key: str, default: str | None = None) -> str:
        """Text; required without a default."""
        if default is not None and not self.has(key):
            return default
        value = self.need(key)
        if not isinstance(value, str) or (default is None and not value.strip()):
            raise InputError(
                f"expected text, found {_type_name(value)} {value!r}",
                file=self.file,
                item=self.path(key),
                remedy="write it in quotes",
            )
        return value

    def number(self, key: str, default: float | None = None, **limits: Any) -> float:
        """A number within limits (see `number`); required without a default."""
        if default is not None and not self.has(key):
            return default
        return number(self.need(key), file=self.file, item=self.path(key), **limits)

    def identifier(self, key: str) -> str:
        """A required name that may become a column or a key in files: letters, digits and `_.-`."""
        value = self.text(key)
        if not re.fullmatch(r"[\w.-]+", value, flags=re.ASCII):
            raise InputError(
                f"{value!r} is no plain name",
                file=self.file,
                item=self.path(key),
                remedy="use letters, digits, `_`, `.` and `-` only",
            )
        return value

    def integer(self, key: str, default: int | None = None, minimum: int = 1, maximum: float = math.inf) -> int:
        """A whole number; required without a default."""
        return int(self.number(key, default, minimum=minimum, maximum=maximum, integer=True))

    def choice(self, key: str, known: Sequence[str], what: str, default: str | None = None) -> str:
        """One of the words in `known`; required without a default."""
        if default is not None and not self.has(key):
            return default
        return choice(self.need(key), known, what=what, file=self.file, item=self.path(key))

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.data[key] if self.has(key) else default
        if not isinstance(value, bool):
            raise InputError(
                f"expected true or false, found {value!r}", file=self.file, item=self.path(key), remedy="write one"
            )
        return value

    def sequence(self, key: str, default: Sequence[Any] | None = None) -> list[Any]:
        """A list; required without a default."""
        if default is not None and not self.has(key):
            return list(default)
        value = self.need(key)
        if not isinstance(value, list | tuple):
            raise InputError(
                f"expected a list, found {_type_name(value)} {value!r}",
                file=self.file,
                item=self.path(key),
                remedy="write it in square brackets or as lines that begin with `- `",
            )
        return list(value)
