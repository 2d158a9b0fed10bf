"""A hash of the running code: the sources of this package and the versions of the packages that compute for it.

Every cache on disk has it in its file names, so that no entry outlives an edit that could change it. The hash covers
every source file, because a chosen list would be right only until somebody adds an import.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import pathlib
import platform
import sys
from collections import abc
from typing import NamedTuple

from mohamjax.version import STARTED

_PACKAGE = pathlib.Path(__file__).parents[1]


def hash_of(root: pathlib.Path) -> str:
    """SHA-256 (hexadecimal) of all source files of a package as they are, and of the versions that it uses."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")]
    digest = hashlib.sha256(repr((*versions, platform.python_version())).encode())
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


@functools.cache
def code_hash() -> str:
    """`hash_of` this package, found once: that of the running code if `code_unchanged` was true at that time."""
    return hash_of(_PACKAGE)


class _Look(NamedTuple):
    """What a look at the source files found."""

    loaded: abc.Mapping[str, object]  # the specs of our modules at that time, by name; a reload makes another spec
    unchanged: bool


_last: dict[tuple[pathlib.Path, float], _Look] = {}  # by folder and `STARTED`


def code_unchanged(root: pathlib.Path = _PACKAGE) -> bool:
    """Whether no source file has changed since this process began to import them: `code_hash` is of the running code.

    The status change time (ctime) counts too, because a file moved into the place of another keeps its modification
    time. One second is allowed for file systems whose clocks lag. The files are looked at again only once modules have
    been imported or reloaded: a later edit changes neither the code that runs nor its hash, which is known by then.
    """
    modules = {name: module for name, module in list(sys.modules.items()) if of_this_package(name)}
    loaded = {name: getattr(module, "__spec__", None) for name, module in modules.items()}
    last = _last.get((root, STARTED))
    if last and _same(last.loaded, loaded):
        return last.unchanged
    files = {getattr(module, "__file__", None) for module in modules.values()}
    try:
        code_hash()
        stats = [os.stat(path) for path in {*map(str, root.rglob("*.py")), *filter(None, files)}]
        unchanged = max(max(stat.st_mtime, stat.st_ctime) for stat in stats) < STARTED - 1
    except OSError:  # a file is gone, or cannot be read
        unchanged = False
    _last[root, STARTED] = _Look(loaded, unchanged)
    return unchanged


def _same(one: abc.Mapping[str, object], other: abc.Mapping[str, object]) -> bool:
    """Whether two dictionaries have the same objects under the same names."""
    return one.keys() == other.keys() and all(value is one[name] for name, value in other.items())


def of_this_package(name: str) -> bool:
    """Whether a module of this full name belongs to this package."""
    return name.partition(".")[0] == __name__.partition(".")[0]
