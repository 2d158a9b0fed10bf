"""Checked reading of text files and YAML: every error names the file, the key path and the remedy."""

from __future__ import annotations

import codecs
import csv
import difflib
import errno
import gzip
import io
import itertools
import numbers
import operator
import os
import pathlib
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar

import yaml

from mohamjax.errors import InputError
from mohamjax.text import several

T = TypeVar("T")

MOST_DIGITS = 250
"""Most digits of an integer, which keeps it within the range of floats in any base."""

_LONG = 200  # most characters of a word that is compared with others

NO_UNICODE = "a text holds half a character (a lone surrogate)"

_MOST_NODES = 10**6

MAX_TEXT = 1 << 28
"""Most bytes of a text file that is read whole: JSON, CSV."""

MAX_YAML = 1 << 20
"""Most bytes of a YAML file, which takes ten seconds per MiB to read."""

MAX_LINE = 1 << 24
"""Most characters of a line, in a file that is read line by line."""

MAX_LINES_BYTES = 1 << 32
"""Most bytes of such a file, and most characters when unpacked."""

_MOST_LINES = 10**7


class _Strict:
    """A safe loader of PyYAML that refuses what would be lost silently or exhaust the machine.

    It refuses a key written twice (PyYAML takes the last), integers that no float holds, texts that are not Unicode (a
    lone surrogate), nodes that contain themselves, and aliases that stand for more than `_MOST_NODES` nodes: a few
    hundred bytes can stand for more than any memory holds.
    """

    def get_single_node(self: Any) -> yaml.Node | None:
        """Returns the document's node graph, checked before anything is built from it."""
        node = super().get_single_node()  # type: ignore[misc]
        if node is not None:
            _count_nodes(node, {})
        return node

    def construct_yaml_float(self: Any, node: yaml.ScalarNode) -> float:
        """Returns a number; a whole one with an exponent is an integer, so that 1e3 can be a size."""
        value = super().construct_yaml_float(node)  # type: ignore[misc]
        whole = "e" in node.value.lower() and abs(value) < 2**53 and value == int(value)
        return int(value) if whole else value

    def construct_yaml_int(self: Any, node: yaml.ScalarNode) -> int:
        """Returns an integer of at most `MOST_DIGITS` digits."""
        try:
            check_digits(node.value)
        except ValueError as error:
            raise _refusal(str(error), node) from None
        return super().construct_yaml_int(node)  # type: ignore[misc]


class StrictLoader(_Strict, yaml.SafeLoader):
    """The strict loader in pure Python, with the error messages of PyYAML."""


_QuickBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class QuickLoader(_Strict, _QuickBase):
    """The strict loader, several times as fast if PyYAML has libyaml, whose error messages differ."""


for _loader in (StrictLoader, QuickLoader):
    _loader.add_constructor("tag:yaml.org,2002:int", _loader.construct_yaml_int)
    _loader.add_constructor("tag:yaml.org,2002:float", _loader.construct_yaml_float)
    _loader.add_implicit_resolver(  # YAML 1.1 reads 1e3 as text; people mean the number
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+\Z"), list("-+.0123456789")
    )


def _refusal(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _count_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Counts the nodes that a node stands for, each alias again; refuses what `StrictLoader` refuses.

    Args:
        node: The node.
        known: Counts by node identity; 0 for the nodes that enclose this one.
    """
    if id(node) in known:
        if not known[id(node)]:
            raise _refusal("refers to itself", node)
        return known[id(node)]
    known[id(node)] = 0
    total, seen = 1, set()
    if isinstance(node, yaml.ScalarNode):
        if not is_unicode(node.value):
            raise _refusal(NO_UNICODE, node)
    elif isinstance(node, yaml.SequenceNode):
        total += sum(_count_nodes(entry, known) for entry in node.value)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise _refusal(f"the key {key.value!r} is written twice", key)
                seen.add(key.value)
            total += _count_nodes(key, known) + _count_nodes(value, known)
    if total > _MOST_NODES:
        raise _refusal(f"its aliases stand for more than {_MOST_NODES:,} entries", node)
    known[id(node)] = total
    return total


def check_digits(text: str) -> None:
    """Raises ValueError for an integer of more than `MOST_DIGITS` digits, which not even a float holds."""
    if len(text) > MOST_DIGITS:
        raise ValueError(f"the integer {text[:10]}... has {len(text):,} digits, more than the {MOST_DIGITS} allowed")


def is_unicode(text: str) -> bool:
    """Returns whether a text can be encoded: escapes can make lone surrogates, which are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def found(path: str | os.PathLike[str], *, folder: bool | None = None) -> bool:
    """Returns whether there is a file or folder of that name; unlike in `pathlib`, impossible names raise no error.

    Args:
        path: The path; one that cannot exist (too long, a NUL inside) does not.
        folder: True asks for a folder, False for a regular file, None for anything.

    Raises:
        InputError: A folder on the path cannot be searched.
    """
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            return False
        raise InputError(
            f"cannot be accessed ({error.strerror})", file=path, remedy="check the permissions of its folders"
        ) from None
    return folder is None or (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode))


def open_file(path: str | os.PathLike[str], kind: str, most: int, smaller: str = "") -> BinaryIO:
    """Opens a regular file of limited size for reading; every reader of a user's file goes through here.

    Devices and pipes are refused before they are opened: they may never end, or have no writer.

    Args:
        path: The file; a link is followed.
        kind: What it should be, for error messages, such as `JSON file`.
        most: The largest size in bytes.
        smaller: How to make it smaller, for error messages.

    Raises:
        InputError: If it is missing, a folder, no regular file, unreadable or too large.
    """

    def opened(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # if it is a pipe by now, opening must not hang

    try:
        _check_regular(os.stat(path), path, kind)
        stream = open(path, "rb", opener=opened)  # noqa: SIM115
    except FileNotFoundError:
        near = file_like(path)
        remedy = "check the path" if near is None else f"did you mean {near}?"
        raise InputError("no such file", file=path, remedy=remedy) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read ({reason})", file=path, remedy="check the path and its permissions") from None
    try:
        status = os.fstat(stream.fileno())
        _check_regular(status, path, kind)
        if status.st_size > most:
            raise InputError(
                f"has {status.st_size:,} bytes, and no {kind} of more than {most:,} is read",
                file=path,
                remedy=smaller or "check that it is the right file, or split it",
            )
    except BaseException:
        stream.close()
        raise
    return stream


def _check_regular(status: os.stat_result, path: object, kind: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise InputError("is a folder, not a file", file=path, remedy=f"name the {kind} in it")
    if not stat.S_ISREG(status.st_mode):
        raise InputError("is no regular file", file=path, remedy=f"save its content to a file first ({kind})")


def read_text(path: str | os.PathLike[str], kind: str, most: int = MAX_TEXT) -> str:
    """Returns the text of a file, without a byte order mark.

    Args:
        path: The file.
        kind: What it should be, for error messages, such as `JSON file`.
        most: The largest size in bytes.

    Raises:
        InputError: If `open_file` refuses it, or it is unreadable or not UTF-8 text.
    """
    return read_utf8(path, kind, most).decode()


def read_utf8(path: str | os.PathLike[str], kind: str, most: int = MAX_TEXT) -> bytes:
    """Returns the text as `read_text` does, but as UTF-8 bytes."""
    try:
        with open_file(path, kind, most) as stream:
            data = stream.read(most).removeprefix(codecs.BOM_UTF8)
        if not data.isascii():
            data.decode()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=path, remedy=f"give a {kind}") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, remedy="check its permissions") from None
    return data


def read_lines(path: str | os.PathLike[str], kind: str, most: int = MAX_LINES_BYTES) -> Iterator[tuple[int, str]]:
    """Yields the numbered lines of a text file that may be gzipped, without blank ones; one at a time is in memory.

    Args:
        path: The file.
        kind: What it should be, for error messages, such as `.jsonl file`.
        most: The largest size in bytes, packed or unpacked.

    Raises:
        InputError: If `open_file` refuses it, it is not UTF-8 text, is a broken gzip file, unpacks to more than `most`,
            or has a line that is too long.
    """

    def too_much(what: str, item: str | None = None) -> InputError:
        return InputError(what, file=path, item=item, remedy=f"check that it is the right file ({kind}), or split it")

    try:
        with open_file(path, kind, most) as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            binary = gzip.GzipFile(fileobj=raw, mode="rb") if zipped else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig") as stream:  # type: ignore[arg-type]
                number = total = 0
                while line := stream.readline(MAX_LINE + 1):
                    number, total = number + 1, total + len(line)
                    if len(line) > MAX_LINE:
                        raise too_much(f"is longer than {MAX_LINE:,} characters", f"line {number}")
                    if total > most or number > _MOST_LINES:
                        raise too_much(f"holds more than {most:,} bytes or {_MOST_LINES:,} lines")
                    if line.strip():
                        yield number, line
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", file=path, remedy=f"give a {kind}, gzipped or not") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError("is a broken gzip file", file=path, remedy="make or fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, remedy="check its permissions") from None


def read_yaml(
    path: str | pathlib.Path, loader: type[StrictLoader] | type[QuickLoader] = StrictLoader
) -> dict[Any, Any]:
    """Reads a YAML file whose top is a mapping.

    Args:
        path: The file.
        loader: The loader; a subclass may know more tags.

    Raises:
        InputError: If the file is missing, unreadable, empty, no YAML, or no mapping at its top.
    """
    path = pathlib.Path(path)
    text = read_text(path, "YAML file", MAX_YAML)
    try:
        data = yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InputError(
            f"is not valid YAML: {error.problem or error.context}",
            file=path,
            item=None if mark is None else f"line {mark.line + 1}, column {mark.column + 1}",
            remedy="mend the syntax there (indentation, colons, brackets, quotes)",
        ) from None
    except RecursionError:
        raise InputError("is not valid YAML: nested too deeply", file=path, remedy="mend the syntax") from None
    except (yaml.YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"is not valid YAML: {reason}", file=path, remedy="mend the syntax") from None
    if data is None:
        raise InputError("is empty", file=path, remedy="start from a packaged file and change it")
    if not isinstance(data, dict):
        raise InputError(f"holds a {type_name(data)} at its top", file=path, remedy="write `key: value` lines there")
    return data


def read_table(text: str, file: object) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Reads a CSV text with a header; lines may end as on any system.

    Args:
        text: The content.
        file: Source of the text, for error messages.

    Returns:
        The names of the columns, and the rows: (line number, text by column, empty if the line is too short).

    Raises:
        InputError: A column occurs twice. While the rows are read: a row has more entries than the header, or an entry
            is too long.
    """
    reader = csv.reader(io.StringIO(text, newline=None))

    def lines() -> Iterator[list[str]]:
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                item = f"line {max(reader.line_num, 1)}"
                raise InputError(f"is no CSV: {error}", file=file, item=item, remedy="mend the line") from None
            if row is None:
                return
            if row:
                yield row

    entries = lines()
    header = [name.strip() for name in next(entries, [])]
    twice = [name for i, name in enumerate(header) if name and name in header[:i]]
    if twice:
        raise InputError(f"column {twice[0]} comes twice", file=file, item="header", remedy="remove or rename one")

    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        for row in entries:
            if len(row) > len(header):
                item = f"line {reader.line_num}, row"
                raise InputError("has more entries than the header", file=file, item=item, remedy="mend the line")
            yield reader.line_num, dict(zip(header, [*row, *[""] * (len(header) - len(row))], strict=True))

    return header, rows()


def type_name(value: object) -> str:
    """Returns the name of the type of a value, as error messages call it."""
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


def count_asked(value: object, argument: str, remedy: str) -> int:
    """Returns a count that a caller gives, at least 1; otherwise raises an `InputError` about the argument."""
    number = whole(value)
    if number is None or number < 1:
        raise InputError(f"is {value!r:.40}", argument=argument, remedy=remedy)
    return number


def whole(value: object) -> int | None:
    """Returns an integer of Python, NumPy or JAX as a Python int; None for anything else, also for True and False."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def real(value: object) -> float | None:
    """Returns a real number of Python, NumPy or JAX as a float; None for anything else, also for True and False."""
    try:
        number = value.item() if getattr(value, "ndim", None) == 0 else value  # type: ignore[attr-defined]
        return None if isinstance(number, bool) or not isinstance(number, numbers.Real) else float(number)
    except (OverflowError, NotImplementedError):  # an integer that no float holds, or a key of random numbers
        return None


def file_like(path: str | os.PathLike[str], endings: Sequence[str] = ()) -> str | None:
    """Returns a file with nearly the name of one that does not exist, in the same folder; None if there is none.

    Args:
        path: path of the file that does not exist.
        endings: endings, such as `.yaml`, that the other file may have if `path` has none.
    """
    path = pathlib.Path(path)
    try:
        with os.scandir(path.parent) as entries:
            known = [pathlib.Path(one.name) for one in itertools.islice(entries, 10_000) if one.is_file()]
    except (OSError, ValueError):
        return None
    same = sorted(one for one in known if one.stem == path.stem)
    alike = sorted(one for one in known if one.suffix == path.suffix)
    name = next((one.name for one in same if not path.suffix and one.suffix.lower() in endings), None)
    name = name or closest(path.name, [one.name for one in same], 0.9)
    if name is None and (stem := closest(path.stem, [one.stem for one in alike], 0.75)) is not None:
        name = next(one.name for one in alike if one.stem == stem)
    return None if name is None else str(path.parent / name)


def closest(word: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Returns the known word that is most like `word`; None if no similarity is at least `least` (`difflib`).

    The time grows with the square of the lengths, so long words are cut or left out.
    """
    short = [one for one in known if len(one) <= _LONG]
    return next(iter(difflib.get_close_matches(word[:_LONG], short, 1, least)), None)


def closest_name(word: str, known: Iterable[str]) -> str | None:
    """Returns `closest` among very many names, such as those of tensors: only the first 5000 are compared."""
    return closest(word, itertools.islice(known, 5000), 0.5)


def suggestion(word: object, known: Iterable[str], what: str = "known") -> str:
    """Returns a remedy for a word that is none of `known`: the closest one, or all of them."""
    known = [str(k) for k in known]
    close = closest(str(word), known)
    return f"{what}: {', '.join(known)}" if close is None else f"did you mean {close!r}?"


def as_given(given: Any, name: str, kind: type[T], load: Callable[[str], T]) -> T:
    """Returns an argument that is an object as it is, or reads it if it is the path of a file.

    Args:
        given: the argument.
        name: its name, for error messages.
        kind: class of the object.
        load: reads the file.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str | os.PathLike):
        return load(os.fspath(given))
    raise TypeError(f"{name}: expected {kind.__name__} or the path of a file, got {given!r:.80}")


def choice(
    value: object,
    known: Sequence[str],
    *,
    what: str,
    file: object = None,
    item: str | None = None,
    argument: str | None = None,
) -> str:
    """Returns `value` if it is one of `known`.

    Raises:
        InputError: If it is not; the error names the closest known word.
    """
    if not isinstance(value, str) or value not in known:
        remedy = suggestion(value, known, several(what))
        raise InputError(f"unknown {what} {value!r}", file=file, item=item, argument=argument, remedy=remedy)
    return value
