"""Shared reading and writing of files: JSON with one-line error messages, arrays, and all-or-nothing writing."""

from __future__ import annotations

import contextlib
import csv
import functools
import gc
import io
import itertools
import json
import math
import os
import pathlib
import signal
import stat
import struct
import tempfile
import threading
import warnings
import zipfile
import zlib
from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import keys_for_sure
from mohamjax.io.formats import LINES
from mohamjax.reader import MOST_DIGITS, NO_UNICODE, check_digits, found, is_unicode, open_file, read_utf8
from mohamjax.runtime.part_files import part_of, remove_leftovers

MAX_ARRAYS = 1 << 30
"""Most bytes of all arrays of an npz file together."""

_MOST_ENTRIES = 1 << 24  # of a JSON text, counted as commas and opening brackets
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MOST_LEVELS = 100  # of nested lists and objects; our own formats have a dozen


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object from its pairs; refuses duplicate keys, of which Python would silently take the last."""
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} is written twice in one object")
            seen.add(key)
    return result


def _integer(digits: str) -> int:
    """An integer of JSON; refuses one that is too large for a float."""
    check_digits(digits)
    return int(digits)


def _keys(document: object, most: int) -> int | None:
    """Number of keys of all objects of a document; None if lists and objects are nested more than `most` deep."""
    level = [document] if type(document) is dict or type(document) is list else []
    keys = 0
    for _ in range(most):
        objects = [one for one in level if type(one) is dict]
        keys += sum(map(len, objects))
        members = itertools.chain(map(dict.values, objects), (one for one in level if type(one) is list))
        values = itertools.chain.from_iterable(members)
        level = [value for value in values if type(value) is dict or type(value) is list]
        if not level:
            return keys
    return None


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disables the garbage collector: reading a large document makes many objects and no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _has_digits(text: bytes, run: int) -> bool:
    """Whether the text contains `run` digits in a row.

    Only every (run // 8)-th byte is looked at first: a run of that length covers at least seven of these in a row, and
    all bytes from one of them to the next.
    """
    step = run // 8
    every = np.frombuffer(text, np.uint8)

    def digits(at: np.ndarray) -> np.ndarray:
        return (at >= ord("0")) & (at <= ord("9"))

    seen = digits(every[::step])
    for shift in (1, 2, 3):
        seen = seen[:-shift] & seen[shift:]
    places = step * np.flatnonzero(seen)
    whole = digits(every[places[:, None] + np.arange(step)]).all(axis=1)
    return bool(whole.any()) and b"0" * run in text.translate(_DIGITS_AS_ZEROS)


def _times(text: bytes, letters: bytes) -> int:
    """How often any of the letters occurs in the text; `bytes.count` is slow where a letter is frequent."""
    if len(text) <= _CACHED:
        return sum(map(text.count, letters))
    every = np.frombuffer(text, np.uint8)
    parts = (every[first : first + _CACHED] for first in range(0, len(every), _CACHED))
    return sum(int(np.count_nonzero(part == letter)) for part in parts for letter in letters)


_CACHED = 1 << 18  # bytes of a block that stays in the cache while it is scanned several times


Parts = abc.Mapping[str, Any]
"""Values that a JSON object may have under some of its keys: a form, for a list of its instances; a mapping like this
one, for a list of objects; or a tuple of such alternatives."""


def _faithful(text: bytes, parts: Parts | None) -> Any:
    """Decodes a JSON text; checks that nothing of it was lost to duplicate keys, and that it is not nested too deeply.

    This is checked by counts that are fast: without duplicate keys, the text has one colon per key. If strings contain
    colons too, the text has as many colons as the document encoded again.

    Args:
        text: the JSON, whose integers are not too long.
        parts: forms of entries, see `parse_json`.

    Raises:
        ValueError: a check fails or cannot decide, or the text is no JSON.
    """
    colons = _times(text, b":")
    if parts is not None:
        with contextlib.suppress(msgspec.ValidationError):  # the document is no object
            document, found = _in_parts(_decoder(dict[str, msgspec.Raw]).decode(text), parts)
            if found == colons:
                return document
    document = msgspec.json.decode(text)
    keys = _keys(document, _MOST_LEVELS - 3)  # a part is in an object, which may be in a list of another object
    if keys is None or (keys != colons and (b"\\u003" in text or msgspec.json.encode(document).count(b":") != colons)):
        raise ValueError("may say more than was read of it")
    return document


def _in_parts(members: dict[str, msgspec.Raw], parts: Parts) -> tuple[dict[str, object], int]:
    """An object read from the texts of its members, and the least number of colons of these texts and its own keys.

    Raises:
        ValueError: see `_faithful`.
    """
    document: dict[str, object] = {}
    colons = len(members)
    for name, text in members.items():
        document[name], own = _part(text, parts.get(name))
        colons += own
    return document, colons


def _part(text: msgspec.Raw, kind: Any) -> tuple[object, int]:
    """The value of a key and the number of its colons, see `_in_parts`."""
    for one in kind if isinstance(kind, tuple) else (kind,) if kind else ():
        with contextlib.suppress(msgspec.ValidationError):  # the value does not have this form
            if isinstance(one, abc.Mapping):
                read = [_in_parts(members, one) for members in _decoder(list[dict[str, msgspec.Raw]]).decode(text)]
                return [entry for entry, _ in read], sum(colons for _, colons in read)
            rows = _decoder(list[one]).decode(text)
            return rows, keys_for_sure(rows, one)
    whole = bytes(text)
    if whole[:1] not in (b"{", b"[", b'"'):
        return msgspec.json.decode(whole), 0
    return _faithful(whole, None), _times(whole, b":")


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def parse_json(text: str | bytes, file: object, item: str | None = None, parts: Parts | None = None) -> Any:
    """Parses a JSON text; every reader of JSON goes through here.

    msgspec reads valid texts. A text that it refuses, or that may have duplicate keys, is read again by Python's
    reader, which says where the error is.

    Some texts that Python's reader accepts are refused too: duplicate keys, integers that are too large for a float,
    lone surrogates (which cannot be written again) and more than 100 levels.

    Args:
        text: the JSON; bytes must be UTF-8.
        file: where it comes from, for error messages.
        item: the place in the file, if the file holds several texts; default line and column.
        parts: forms that the entries of lists in the text may have. A list is returned as instances of a form if all
            its entries have that form and no other keys; otherwise as without `parts`.

    Raises:
        InputError: the text is no JSON, is one of these, or has too many entries.
    """
    with contextlib.suppress(UnicodeEncodeError):  # Python's reader has the message for it
        data = text if isinstance(text, bytes) else text.encode()
        if _times(data, b",[{") > _MOST_ENTRIES:  # counted first, as an entry in memory takes fifty times its bytes
            large = f"has more than {_MOST_ENTRIES:,} entries"
            raise InputError(large, file=file, item=item, remedy="split it, or give a file of a known format")
        with contextlib.suppress(msgspec.DecodeError, RecursionError, ValueError), uncollected():
            if not _has_digits(data, MOST_DIGITS + 1):
                return _faithful(data, parts)
    return _carefully(text if isinstance(text, str) else text.decode(), file, item)


def _carefully(text: str, file: object, item: str | None) -> object:
    """Like `parse_json`, with Python's reader."""
    deep = InputError("is nested too deeply", file=file, item=item, remedy="give a file of a known format")
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
        if "\\ud" in text.lower() and not is_unicode(json.dumps(document, ensure_ascii=False)):
            raise ValueError(NO_UNICODE)
    except json.JSONDecodeError as error:
        if item is None and _is_lines(error):
            raise _lines_here(file) from None
        told = error.msg.removesuffix(" at").removesuffix(" starting")  # the item says where
        raise InputError(
            f"is not valid JSON: {told}",
            file=file,
            item=f"{item or f'line {error.lineno}'}, column {error.colno}",
            remedy="mend or make the file again; it may be cut off",
        ) from None
    except RecursionError:
        raise deep from None
    except ValueError as error:
        raise InputError(str(error), file=file, item=item, remedy="mend the file") from None
    if _keys(document, _MOST_LEVELS) is None:
        raise deep
    return document


def _is_lines(error: json.JSONDecodeError) -> bool:
    """Whether the first line is a JSON object and another object follows on a line of its own."""
    first = error.doc[: error.pos].strip()
    return error.msg == "Extra data" and "\n" not in first and first[:1] == error.doc[error.pos] == "{"


def _lines_here(file: object) -> InputError:
    """The error for JSON lines where a single JSON document is expected."""
    takers = "`evaluate designs` and `evaluate schedules` take them, and `evaluate mappings` takes them as samples"
    remedy = takers if str(file).endswith(LINES) else f"call it .jsonl: {takers}"
    return InputError("is a JSON lines file, one object a line, not one JSON document", file=file, remedy=remedy)


def read_json(path: str | pathlib.Path, parts: Parts | None = None) -> Any:
    """Reads a JSON file.

    Args:
        path: the file.
        parts: forms of entries, see `parse_json`.

    Raises:
        InputError: the file is missing, unreadable or empty, or `parse_json` refuses it.
    """
    path = pathlib.Path(path)
    text = read_utf8(path, "JSON file")
    if text[:1] not in (b"{", b"[") and not text.decode().strip():
        raise InputError("is empty", file=path, remedy="give a JSON file")
    if path.suffix.lower() == ".csv" and text.lstrip()[:1] not in (b"{", b"["):
        raise InputError(
            "is CSV, and not JSON",
            file=path,
            remedy="give the `designs.json` beside a `front.csv`; `mohamjax convert` makes JSON of other tables",
        )
    return parse_json(text, path, parts=parts)


DAMAGED = (
    OSError, ValueError, LookupError, EOFError, TypeError, OverflowError, MemoryError, SyntaxError, RuntimeError,
    TokenError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""All errors that NumPy and zipfile raise for a damaged npz file."""

_MOST_DIRECTORY = 1 << 22  # bytes of the table of contents of an npz file


class _Directory:
    """A file that limits how much is read at once, as a damaged file may claim a table of contents of any size."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.seek, self.tell, self.close = stream.seek, stream.tell, stream.close

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; raises ValueError for more than a table of contents may have."""
        if size > _MOST_DIRECTORY:
            raise ValueError("the table of contents is too large")
        return self._stream.read(size)


@contextlib.contextmanager
def open_arrays(
    path: str | pathlib.Path, most: int, remedy: str
) -> Iterator[tuple[BinaryIO, dict[str, zipfile.ZipInfo]]]:
    """An npz file as a stream, and its zip entries by array name; every reader of npz files goes through here.

    Args:
        path: the file.
        most: the largest size in bytes.
        remedy: what to do about a damaged file.

    Raises:
        InputError: `open_file` refuses the file, or it is damaged, even if only reading its arrays shows that.
    """
    with open_file(path, "npz file", most) as stream:
        try:
            with zipfile.ZipFile(_Directory(stream)) as archive:  # pyright: ignore[reportArgumentType]
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            yield stream, members
        except InputError as error:
            raise InputError(error.message, file=path, item=error.item, remedy=error.remedy or remedy) from None
        except DAMAGED as error:
            raise InputError(f"is no sound npz file ({type(error).__name__})", file=path, remedy=remedy) from None


def array_header(stream: IO[bytes], member: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether in Fortran order, and dtype of the array that begins at the position of the stream.

    Raises:
        InputError: the array holds Python objects, or claims a negative size.
        Exception: one of `DAMAGED`, if the file is damaged.
    """
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a header is parsed as Python code, which may cause warnings
        shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise InputError("holds Python objects", item=member.filename)
    if min(shape, default=0) < 0:
        raise InputError("an array claims a negative size", item=member.filename)
    return shape, fortran, dtype


def read_arrays(path: str | pathlib.Path) -> dict[str, Any]:
    """All arrays of an npz file by name.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged (the message names the error, one of `DAMAGED`), or is no regular file, or its
            arrays are, or claim to be, larger than `MAX_ARRAYS` bytes.
    """
    try:
        if not found(path):
            raise FileNotFoundError(path)
        with open_arrays(path, MAX_ARRAYS, "make it again") as (stream, members):
            if sum(member.file_size for member in members.values()) > MAX_ARRAYS:
                raise InputError("its arrays are too large")
            with zipfile.ZipFile(stream) as archive:
                return {name: _array(archive, member) for name, member in members.items()}
    except InputError as error:
        raise ValueError(error.message) from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """An array of an npz file; refuses a header that claims more bytes than the file has."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError("is packed in a way that NumPy does not know", item=member.filename)
    with archive.open(member) as stream:
        shape, fortran, dtype = array_header(stream, member)
        size = math.prod(shape) * dtype.itemsize
        if size > member.file_size:
            raise InputError("an array claims more bytes than the file has")
        data = bytearray(stream.read(size))
        stream.read(1)  # zipfile checks the checksum at the end
    if len(data) < size:
        raise EOFError("cut off")
    return np.ndarray(shape, dtype, data, order="F" if fortran else "C")


def check_format(document: object, known: Iterable[str], file: object) -> str:
    """The `format` of a document.

    Args:
        document: from `read_json`.
        known: the formats that the caller reads.
        file: where the document comes from.

    Raises:
        InputError: the document is no object, has no format, or one that is not `known`.
    """
    *others, last = known
    remedy = f"give a file of format {', '.join(others)}{' or ' if others else ''}{last}"
    if not isinstance(document, dict):
        raise InputError("holds no JSON object", file=file, remedy=remedy)
    if "format" not in document:
        raise InputError("the key is missing", file=file, item="format", remedy=remedy)
    name = document["format"]
    if not isinstance(name, str) or name not in known:
        raise InputError(f"unknown format {name!r}", file=file, item="format", remedy=remedy)
    return name


def version_of(path: str | pathlib.Path) -> tuple[int, int] | None:
    """Inode and modification time [ns], which change when a file is replaced; None where there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def write_bytes(path: str | pathlib.Path, data: bytes) -> None:
    """Writes a file as `write_together` does, so that it is either complete or as it was before."""
    write_together({pathlib.Path(path): data})


def make_folder(folder: str | pathlib.Path) -> pathlib.Path:
    """Creates a folder and those above it where they do not exist; raises InputError if that fails."""
    folder = pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be created ({error.strerror})", file=folder, remedy="name a folder that can be written"
        ) from None
    return folder


def write_folder(folder: str | pathlib.Path, files: abc.Mapping[str, bytes]) -> list[pathlib.Path]:
    """Writes files by name to a folder as `write_together` does; creates the folder.

    Returns:
        The paths of the files.

    Raises:
        InputError: the folder cannot be made, or a file cannot be written.
    """
    folder = make_folder(folder)
    write_together({folder / name: data for name, data in files.items()})
    return [folder / name for name in files]


def write_together(files: abc.Mapping[pathlib.Path, bytes | str]) -> None:
    """Writes several files so that either all are new or all are as they were before.

    All are written under temporary names first and renamed when the last one is on the disk; Ctrl-C is held back during
    the renames. Only a process that is killed between two renames, within microseconds, leaves new files beside old
    ones. Temporary files that killed writers of the same files have left behind are removed when they are an hour old.
    Links are followed; devices and pipes are written to directly.

    Args:
        files: contents by path; text is written in UTF-8.

    Raises:
        InputError: one of the files cannot be written, or two of the paths lead to the same file.
    """
    contents = {pathlib.Path(path): _encoded(path, content) for path, content in files.items()}
    staged: list[tuple[pathlib.Path, pathlib.Path]] = []
    path = next(iter(contents), pathlib.Path())
    try:
        targets = _targets(contents)
        for path, data in contents.items():
            target = targets[path]
            if target.is_dir():
                raise IsADirectoryError(0, "is a folder")
            if target.exists() and not stat.S_ISREG(target.stat().st_mode):
                target.write_bytes(data)
                continue
            temporary = part_of(target)
            staged.append((temporary, target))
            with open(temporary, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        with _undisturbed():
            for temporary, path in staged:
                os.replace(temporary, path)
        for _, path in staged:
            remove_leftovers(path)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", file=path, remedy="name a file in a folder that can be written"
        ) from None
    finally:
        for temporary, _ in staged:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _targets(paths: Iterable[pathlib.Path]) -> dict[pathlib.Path, pathlib.Path]:
    """The files that paths lead to by their links; raises InputError if two lead to the same regular file."""
    targets = {path: pathlib.Path(os.path.realpath(path)) for path in paths}
    first: dict[pathlib.Path, pathlib.Path] = {}
    for path, target in targets.items():
        other = first.setdefault(target, path)
        if other != path and (os.path.isfile(target) or not os.path.exists(target)):
            raise InputError(f"is the same file as {other}", file=path, remedy="name a file of its own for each")
    return targets


def _encoded(path: str | pathlib.Path, content: bytes | str) -> bytes:
    """The bytes to write to a file; raises InputError for text that is no Unicode."""
    if isinstance(content, bytes):
        return content
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        bad = f"cannot be written: {error.object[error.start]!r} is no Unicode character"
        raise InputError(bad, file=path, remedy="rename what holds it") from None


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block; threads other than the main one never receive it."""
    waiting: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
    if waiting and callable(before):
        before(waiting[0], None)


def prepare_folder(path: str | pathlib.Path, item: str | None = None) -> pathlib.Path:
    """Creates a folder and checks that it is writable, before any long computation; returns its path.

    Args:
        path: the folder.
        item: the option that names it, for error messages; default the argument `out`.

    Raises:
        InputError: the folder cannot be created or written to.
    """
    folder = pathlib.Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})",
            file=folder,
            item=item,
            argument="out" if item is None else None,
            remedy="name a folder that can be written",
        ) from None
    return folder


@contextlib.contextmanager
def locked_folder(folder: str | pathlib.Path) -> Iterator[None]:
    """Locks a folder for this process; the operating system releases the lock however the process ends.

    A `.lock` file that a killed process has left behind does not lock the folder.

    Raises:
        InputError: another process holds the lock.
    """
    with _locked(pathlib.Path(folder) / ".lock", folder, "search is writing to this folder", "folder"):
        yield


@contextlib.contextmanager
def locked_file(path: str | pathlib.Path) -> Iterator[None]:
    """Locks a growing file for this process, as `locked_folder` locks a folder.

    Raises:
        InputError: another process writes to it.
    """
    path = pathlib.Path(path)
    with _locked(path.with_name(f".{path.name}.lock"), path, "evaluation is writing to this file", "file"):
        yield


@contextlib.contextmanager
def _locked(path: pathlib.Path, what: object, busy: str, kind: str) -> Iterator[None]:
    import filelock

    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        remedy = f"wait until it is done, or name another {kind}"
        raise InputError(f"another {busy}", file=what, remedy=remedy) from None
    except OSError as error:
        raise InputError(f"cannot be locked ({error.strerror})", file=what, remedy=f"name another {kind}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # some systems cannot remove an open file
            path.unlink(missing_ok=True)
        lock.release()


def remove_file(path: pathlib.Path, of: str) -> None:
    """Removes a file if it is there; raises InputError if it cannot be removed.

    Args:
        path: the file.
        of: what it is of, for the error, such as `an earlier search`.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        told = f"is of {of} and cannot be removed: {error.strerror}"
        raise InputError(told, file=path, remedy="remove it, or name another folder") from None


def write_text(path: str | pathlib.Path, text: str) -> None:
    """Writes a text file in UTF-8 as `write_bytes` does.

    Raises:
        InputError: the file cannot be written, or the text is no Unicode (half a character in a file's name, say).
    """
    write_together({pathlib.Path(path): text})


def dump_json(document: object) -> str:
    """A document as one line of JSON text; raises ValueError for NaN and infinities, which JSON lacks."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"


def write_json(path: str | pathlib.Path, document: object) -> None:
    """Writes a JSON file as `write_bytes` does."""
    write_text(path, dump_json(document))


def csv_lines(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells as CSV text, with floats in full precision."""
    text = io.StringIO()
    plain, quoting = (csv.writer(text, lineterminator="\n", quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    for row in rows:
        # The `repr` of a NumPy number would name its type.
        cells = [float.__repr__(cell) if isinstance(cell, float) else cell for cell in row]
        # A reader takes a bare "\r" for the end of the line, but QUOTE_MINIMAL leaves it bare.
        returns = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (quoting if returns else plain).writerow(cells)
    return text.getvalue()


def csv_text(rows: Sequence[abc.Mapping[str, object]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV text, with floats in full precision.

    Args:
        rows: values by column.
        columns: columns to write, in this order, which all rows must have; default those of the first row.
    """
    columns = list(rows[0]) if columns is None else columns
    return csv_lines([columns, *([row[column] for column in columns] for row in rows)])


def rows_text(
    rows: Sequence[abc.Mapping[str, object]],
    ending: str,
    head: abc.Mapping[str, object],
    key: str,
    columns: Sequence[str] | None = None,
) -> str:
    """Rows as the text of a CSV file, of JSON lines, or of a JSON document.

    Args:
        rows: values by column; for CSV all with the same columns.
        ending: `csv`, `jsonl` or `json`.
        head: keys and values of the document before the rows.
        key: the key of the rows in the document.
        columns: columns of the CSV; default those of the first row, which must exist then.
    """
    if ending == "csv":
        return csv_text(rows, columns)
    return "".join(map(dump_json, rows)) if ending == "jsonl" else dump_json({**head, key: list(rows)})
