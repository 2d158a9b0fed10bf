"""What runs, as a hash: the code of this package and the versions of what computes with it.

Every cache on disk has it in the names of its files, so that nothing outlives an edit that could change it. It covers
every source file and no chosen list of them: a list is right only until the next import.
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
    """SHA-256 (hexadecimal) of all source files of a package, default this one, and of the versions that it runs by."""
    versions = [importlib.metadata.version(name) for name in ("jax", "jaxlib", "numpy")]
    digest = hashlib.sha256(repr((*versions, platform.python_version())).encode())
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()


def code_unchanged(root: pathlib.Path = _PACKAGE) -> bool:
    """Whether no source file has changed since this process began to import them, so that `code_hash` is what runs.

    Of a file that was put in place of another the change time tells, not the modification time. The second covers
    clocks of file systems that lag.
    """
    loaded = [getattr(module, "__file__", None) for name, module in list(sys.modules.items()) if of_this_package(name)]
    try:
        stats = [os.stat(path) for path in {*map(str, root.rglob("*.py")), *filter(None, loaded)}]
    except OSError:  # a module's file is gone
        return False
    return max(max(stat.st_mtime, stat.st_ctime) for stat in stats) < STARTED - 1


def of_this_package(name: str) -> bool:
    """Whether a module, by its whole name, is of this package."""
    return name.partition(".")[0] == __name__.partition(".")[0]
