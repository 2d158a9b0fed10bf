"""Where results go: files that are checked before the work is done, or standard output."""

from __future__ import annotations

import pathlib
import sys

from mohamjax.errors import InputError

__all__ = ["probe", "write"]


def probe(path: str | None, item: str = "--out") -> None:
    """Complains about a file that cannot be written before the work is done that would go there; names the option."""
    from mohamjax.io import prepare_folder
    from mohamjax.reader import found

    if path not in (None, "-"):
        assert path is not None
        target = pathlib.Path(path)
        if found(target, folder=True):
            raise InputError("is a folder", file=path, item=item, remedy="name a file")
        prepare_folder(target.parent, item)


def write(path: str | None, text: str) -> None:
    """To a file, atomically, or to standard output for None and `-`."""
    from mohamjax.io import write_text

    if path in (None, "-"):
        sys.stdout.write(text)
    else:
        write_text(path, text)
