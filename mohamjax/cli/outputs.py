"""Output of results: to files, which are checked before the work begins, or to standard output."""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mohamjax.cli.interrupts import STOPPED
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError
from mohamjax.text import plural

if TYPE_CHECKING:
    from mohamjax.io import Checkpoint, TimeloopExport

_MOST_TOLD = 20  # left-out mappings that are reported one by one


_RESULTS = ("out", "trace", "periods_out", "nests", "csv", "figure")
"""Options of any command that name an output file."""

_NO_FILES = (*_RESULTS, "verb", "kind", "title")

_OF_EVERY_SEARCH = ("front.csv", "designs.json", "history.csv", "config.yaml", "checkpoint.npz", "report.html")

IN_FOLDER = {
    "search": (*_OF_EVERY_SEARCH, "bounds.json", "archive.csv", "robust.csv", "price.csv"),
    "codesign": (*_OF_EVERY_SEARCH, "hardware.csv"),
    "schedule": (
        "job_table.json", "job_analysis.csv", "methods.csv", "history.csv", "schedule.csv", "trace.json", "config.yaml",
        "transfer.json",
    ),
}  # fmt: skip
"""The files that a verb writes to its results folder, or removes there as they would be out of date."""


def keep_inputs_of(arguments: argparse.Namespace) -> None:
    """Raises `InputError`, before any work, if an output of the command would replace a file that it also reads.

    The value of every other option counts as a possible path, so that no input of any command is missed.
    """
    given = vars(arguments)
    for key in _RESULTS:
        path = given.get(key)
        if isinstance(path, str) and os.path.isfile(path):
            from mohamjax.io import keep_inputs

            keep_inputs(path, _named(arguments), f"--{key.replace('_', '-')}")
    if arguments.verb in IN_FOLDER and arguments.out is not None:
        more = ["designs.npz"] if given.get("bulk") else []
        keep_inputs_in(arguments, arguments.out, [*IN_FOLDER[arguments.verb], *more])


def keep_outputs_apart(arguments: argparse.Namespace) -> None:
    """Raises `InputError`, before any work, if two outputs of the command go to one file, of which one would be lost.

    Standard output takes several, and so do devices, such as that which forgets everything.
    """
    options: dict[str, str] = {}
    for key in _RESULTS:
        path, option = vars(arguments).get(key), f"--{key.replace('_', '-')}"
        if not isinstance(path, str) or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            continue
        other = options.setdefault(os.path.realpath(path), option)
        if other != option:
            told = f"is the file of {other}, too"
            raise InputError(told, file=path, item=option, remedy="name a file of its own for each")


def keep_inputs_in(
    arguments: argparse.Namespace, folder: str | os.PathLike[str], names: Iterable[str], item: str = "--out"
) -> None:
    """Raises `InputError`, before any work, if the command would replace a file in a folder that it also reads.

    Folders that the command names do not count: it may write to a folder that it reads.

    Args:
        arguments: the parsed arguments, of which every option but those for outputs counts as a possible path.
        folder: the folder; it need not exist.
        names: names of the files that the command writes there.
        item: the option that names the folder.
    """
    there = [path for name in names if os.path.isfile(path := os.path.join(folder, name))]
    if not there:
        return
    from mohamjax.io import keep_inputs

    named = [text for text in _named(arguments) if not os.path.isdir(text)]
    for path in there:
        try:
            keep_inputs(path, named, item)
        except InputError as error:
            remedy = "name another folder for the results"
            raise InputError(error.message, file=error.file, item=error.item, remedy=remedy) from None


def _named(arguments: argparse.Namespace) -> list[str]:
    """Returns what the command may name as an input: the texts of all options but those for outputs."""
    return [text for key, value in vars(arguments).items() if key not in _NO_FILES for text in _texts(value)]


def _texts(value: object) -> Iterator[str]:
    """Yields the texts in an option's value, and the parts of those that are lists separated by commas."""
    if isinstance(value, str):
        yield from dict.fromkeys([value, *value.split(",")])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def refuse_stream(path: object, item: str = "--out", what: str = "a folder") -> None:
    """Raises `InputError` for `-` where `what` is written, which standard output cannot take the place of."""
    if path == "-":
        raise InputError("cannot go to standard output", item=item, remedy=f"name {what}")


def probe(path: str | None, item: str = "--out", *, stream: bool = True) -> None:
    """Checks before the work that a file can be written; if not, raises an `InputError` that names the option.

    Args:
        path: the file; None writes nothing.
        item: the option.
        stream: whether `-` is standard output; otherwise it is refused.
    """
    from mohamjax.io import prepare_folder
    from mohamjax.reader import found

    if not stream:
        refuse_stream(path, item, "a file")
    if path not in (None, "-"):
        assert path is not None
        target = pathlib.Path(path)
        if found(target, folder=True):
            raise InputError("is a folder", file=path, item=item, remedy="name a file")
        prepare_folder(target.parent, item)


def written_as(path: str | None, *known: str, item: str = "--out") -> str:
    """Returns the ending from `io.written_as`; `item` is the option that names the file."""
    from mohamjax.io import written_as as written

    return written(path, *known, item=item)


def write(path: str | None, text: str) -> None:
    """Writes to a file, atomically, or to standard output for None and `-`."""
    if path is None or path == "-":
        sys.stdout.write(text)
    else:
        from mohamjax.io.result_stream import write_instead

        write_instead(path, text)


def tell_export(terminal: Terminal, what: str, exported: TimeloopExport, folder: str) -> None:
    """Prints what was exported to a folder for Timeloop, how to run it there, and what was left out."""
    terminal.line(
        f"{plural(exported.written, what)} as Timeloop's files in {folder} ({plural(exported.files, 'file')}, "
        f"{exported.bytes / 1e6:,.1f} MB): run timeloop-model with "
        "TIMELOOP_DISABLE_LINK_TRANSFERS=1; it prints an Area of 0 (see README.txt there)"
    )
    for text in exported.skipped[:_MOST_TOLD]:
        terminal.line(f"left out: {text}")
    if len(exported.skipped) > _MOST_TOLD:
        terminal.line(f"left out: {len(exported.skipped) - _MOST_TOLD} more")
    if exported.skipped:
        terminal.line(f"{plural(len(exported.skipped), 'mapping')} left out, listed in {folder}/skipped.txt")


def default_folder(*words: str, seed: int) -> pathlib.Path:
    """Returns the default results folder of a search; seeds other than 0 have folders of their own.

    Args:
        words: words that name the search; empty ones are left out.
        seed: seed of the search.
    """
    return pathlib.Path("results") / "-".join([word for word in words if word] + ([f"seed{seed}"] if seed else []))


@contextlib.contextmanager
def results_folder(
    path: str | pathlib.Path,
    *,
    resume: bool = False,
    designs: str | None = None,
    arguments: argparse.Namespace | None = None,
) -> Iterator[pathlib.Path]:
    """Yields a writable folder, locked against other searches; warns if it holds results that will be replaced.

    Args:
        path: the folder. If it does not exist, it is created, and removed again (but no folder above it) when the
            input is refused.
        resume: continue a search in the folder, which must then exist. It need not hold a checkpoint: a search that
            was stopped before its first one starts anew.
        designs: file from which the search takes designs; must not be one of this folder that the search replaces.
        arguments: the parsed arguments of the command, none of whose inputs may be a file of this folder that it
            replaces (`keep_inputs_of` does not know the usual folder); None does not check that.

    Raises:
        InputError: the folder cannot be written, or there is no search to resume.
    """
    from mohamjax.io import keep_inputs, locked_folder, prepare_folder
    from mohamjax.reader import found

    refuse_stream(str(path))
    if arguments is not None:
        keep_inputs_in(arguments, path, IN_FOLDER[arguments.verb])
    if resume and not found(path, folder=True):
        raise InputError(
            "there is no such folder, so there is no search to resume",
            file=path,
            item="--resume",
            remedy="name the folder of its results with --out, or leave out --resume to begin a search",
        )
    if designs is not None:
        from mohamjax.io.results import earlier_files

        for file in (pathlib.Path(path) / "designs.json", *earlier_files(pathlib.Path(path))):
            keep_inputs(file, [designs], "--out")
    old = found(path, folder=True)
    folder = prepare_folder(path, "--out")
    try:
        with locked_folder(folder):
            if not resume and found(folder / "front.csv"):
                warn(f"{folder} holds the results of an earlier search, which those of this one will replace")
            yield folder
    except InputError:
        if not old:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


def stopped(terminal: Terminal, checkpoint: Checkpoint, folder: pathlib.Path | None = None) -> int:
    """Prints what a search that was stopped by hand leaves; `folder` has its results, if any. Returns the exit code."""
    if folder is not None:
        terminal.line(f"stopped by hand; the results are written, {_again(folder)}")
    elif checkpoint.kept:
        terminal.line(f"stopped by hand; no results are written, --resume goes on from {checkpoint.path}")
    else:
        terminal.line(
            "stopped by hand before there was a checkpoint; nothing to write. What was mapped and compiled so far "
            "stays in the caches, unless they are switched off: the same command is quicker now"
        )
    return STOPPED


@contextlib.contextmanager
def drawing(terminal: Terminal, folder: pathlib.Path) -> Iterator[None]:
    """Guards the drawing of figures: after an `InputError` or Ctrl-C it only says how to draw them again."""
    terminal.announce("drawing figures")
    try:
        yield
    except KeyboardInterrupt:
        terminal.was_stopped = True
        terminal.line(f"stopped by hand; the results are written, {_again(folder)}")
    except InputError as error:
        terminal.warn(f"{error.file}: {error.message}; {_again(folder)}")


def _again(folder: pathlib.Path) -> str:
    return f"`mohamjax plot {folder}` draws the figures"
