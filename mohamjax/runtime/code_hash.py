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

from mohamjax.version import STARTED

_PACKAGE = pathlib.Path(__file__).parents[1]


@functools.cache
def code_hash(root: pathlib.Path = _PACKAGE) -> str:
    """SHA-256 (hexadecimal) of all source files of a package, default this one, and of the versions that it uses."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")]
    digest = hashlib.sha256(repr((*versions, platform.python_version())).encode())
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


def code_unchanged(root: pathlib.Path = _PACKAGE) -> bool:
    """Whether no source file has changed since this process began to import them: `code_hash` is of the running code.

    The status change time (ctime) counts too, because a file moved into the place of another keeps its modification
    time. One second is allowed for file systems whose clocks lag.
    """
    loaded = [getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if of_this_package(name)]
    try:
        stats = [os.stat(path) for path in {*map(str, root.rglob("*.py")), *filter(None, loaded)}]
    except OSError:  # a module's file is gone
        return False
    return max(max(stat.st_mtime, stat.st_ctime) for stat in stats) < STARTED - 1


def of_this_package(name: str) -> bool:
    """Whether a module of this full name belongs to this package."""
    return name.partition(".")[0] == __name__.partition(".")[0]
