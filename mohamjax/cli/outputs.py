"""Where results go: files that are checked before the work is done, or standard output."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Iterator

from mohamjax.errors import InputError

__all__ = ["probe", "results_folder", "write"]


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


@contextlib.contextmanager
def results_folder(path: str | pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder that can be written, which no other search writes to meanwhile."""
    from mohamjax.io import locked_folder, prepare_folder

    folder = prepare_folder(path, "--out")
    with locked_folder(folder):
        yield folder
