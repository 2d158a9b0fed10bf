"""Input files of an evaluation: finds them, also in folders, and protects them from being overwritten by a result."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import pathlib
import re
import stat
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence

from mohamjax.errors import InputError
from mohamjax.io.design_arrays import is_design_arrays
from mohamjax.io.formats import ENTRIES, SUFFIXES
from mohamjax.reader import found
from mohamjax.text import plural, repeated

_STATED = re.compile(
    rb'"format"\s*:\s*"(?:%s)/' % b"|".join(re.escape(name.partition("/")[0]).encode() for name in ENTRIES)
)
"""Matches the stated format of files that are evaluated, in any version; other versions are reported as errors."""

_HEAD = 1 << 12  # bytes at the beginning of a file that decide whether it is evaluated
_RESULTS = {
    "archive.csv", "bounds.json", "checkpoint.npz", "front.csv", "hardware.csv", "history.csv", "price.csv",
    "robust.csv",
}  # fmt: skip
"""Files of a results folder that are not evaluated."""


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Files of an evaluation.

    Attributes:
        files: files that were named, and files in folders that may have a format that is evaluated.
        passed_over: number of other files in folders.
        others: these other files; those with an ending of `SUFFIXES` come first.
    """

    files: tuple[pathlib.Path, ...]
    passed_over: int = 0
    others: tuple[pathlib.Path, ...] = ()


Paths = Sequence[str | os.PathLike[str]] | str | os.PathLike[str]


def find_inputs(paths: Paths) -> Inputs:
    """Finds the input files of an evaluation, those in a folder in the order of their names.

    Args:
        paths: files and folders.

    Warns:
        UserWarning: a file is named twice.

    Raises:
        InputError: there is no input file.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[pathlib.Path] = []
    others: list[str] = []
    for path in map(pathlib.Path, named):
        if not found(path, folder=True):
            files.append(path)
            continue
        inner = list(_inside(path))
        own = [name for name in inner if _ours(name)]
        files.extend(sorted(map(pathlib.Path, own)))
        others.extend(sorted(set(inner) - set(own), key=lambda name: (not name.endswith(SUFFIXES), name)))
    twice = repeated(os.path.realpath(path) for path in files)
    if twice:
        more = f", and {plural(len(twice) - 1, 'other file')}" if len(twice) > 1 else ""
        name = next(path for path in files if os.path.realpath(path) == twice[0])
        warnings.warn(f"{name} comes twice{more}: the entries stand twice in the table", stacklevel=2)
    if not files:
        raise InputError("there is nothing to evaluate", file=named[0] if named else None, remedy="name some files")
    return Inputs(tuple(files), len(others), tuple(map(pathlib.Path, others)))


def _inside(folder: str | os.PathLike[str]) -> Iterator[str]:
    """The files in a folder and its subfolders, except hidden ones."""
    entries: list[os.DirEntry[str]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as found_here:
        entries.extend(found_here)
    for entry in entries:
        kind = "" if entry.name.startswith(".") else _kind(entry)
        if kind == "folder":
            yield from _inside(entry.path)
        elif kind == "file":
            yield entry.path


def _kind(entry: os.DirEntry[str]) -> str:
    """`folder`, `file`, or an empty text for anything else, such as a link to itself."""
    try:
        return "folder" if entry.is_dir(follow_symlinks=False) else "file" if entry.is_file() else ""
    except OSError:
        return ""


def _ours(path: str) -> bool:
    """Whether a file in a folder has a format that is evaluated; True if it is unreadable, so that this is reported."""
    if not path.endswith(SUFFIXES) or os.path.exists(f"{path}.journal"):  # a table that an evaluation wrote
        return False
    if path.endswith(".npz"):
        return is_design_arrays(path)
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, EOFError, zlib.error):
        return True
    if not path.endswith(".json") and head.strip():
        first, ended, _ = head.lstrip().partition(b"\n")  # must state the format
        if b'"format"' not in first and b"\0" not in first:
            return not ended and len(head) == _HEAD
        head = first
    # Our own files begin with the key. A file without it in its head must be read to know its format, unless the head
    # is the whole file and is text.
    if b'"format"' not in head:
        return len(head) == _HEAD or not head.strip() or b"\0" in head
    return _STATED.search(head) is not None


def keep_inputs(out: object, inputs: Iterable[object], item: str | None = None) -> None:
    """Refuses a result that would overwrite one of its inputs.

    Files are compared, not names, so other spellings, symbolic links and hard links are recognised. For a folder, the
    files that a command may read from it are compared; tables that evaluations have written there are not inputs.

    Args:
        out: where the result goes; None, `-`, a folder, a device or a file that does not exist yet overwrites nothing.
        inputs: files and folders that are read; those that do not exist are ignored.
        item: the option that names the result, for error messages; default the argument `out`.

    Raises:
        InputError: the result would overwrite an input.
    """
    target = None if out in (None, "-") else _identity(out)
    if target is None:
        return
    for path in inputs:
        if _identity(path) == target:
            told = f"is also the input {path}, which the result would replace"
        elif os.path.isdir(str(path)) and any(_identity(one) == target and _is_read(one) for one in _inside(str(path))):
            told = f"is also a file that is read from the folder {path}, which the result would replace"
        else:
            continue
        argument = "out" if item is None else None
        raise InputError(told, file=out, item=item, argument=argument, remedy="name another file for the result")


def _identity(path: object) -> tuple[int, int] | None:
    """Device and inode of a regular file, equal for all its names; None if there is no such file."""
    try:
        status = os.stat(str(path))
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _is_read(path: str) -> bool:
    """Whether a command that is given a folder may read this file in it."""
    folder, name = os.path.split(path)
    result = name in _RESULTS and os.path.exists(os.path.join(folder, "config.yaml"))
    return result or path.endswith((".yaml", ".yml")) or _ours(path)
