"""Where results go: files that are checked before the work is done, or standard output."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.io import Checkpoint

__all__ = ["drawing", "probe", "results_folder", "stopped", "write"]


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


def stopped(terminal: Terminal, checkpoint: Checkpoint, folder: pathlib.Path | None = None) -> int:
    """Says what a search leaves that was stopped by hand, the results in `folder` where they are written; exit code."""
    if folder is not None:
        terminal.line(f"stopped by hand; the results are written, {_again(folder)}")
    elif checkpoint.kept:
        terminal.line(f"stopped by hand; no results are written, --resume goes on from {checkpoint.path}")
    else:
        terminal.line("stopped by hand before there was a checkpoint; nothing to write")
    return 130


@contextlib.contextmanager
def drawing(terminal: Terminal, folder: pathlib.Path) -> Iterator[None]:
    """Figures of results in a folder. What hinders them costs no results, and they can be drawn again."""
    terminal.announce("drawing figures")
    try:
        yield
    except KeyboardInterrupt:
        terminal.line(f"stopped by hand; the results are written, {_again(folder)}")
    except InputError as error:
        terminal.warn(f"{error.file}: {error.message}; {_again(folder)}")


def _again(folder: pathlib.Path) -> str:
    return f"`mohamjax plot {folder}` draws the figures"
