"""The command line: parses options, calls the package, and prints.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 bad input or what the
system refuses (one line that says what is wrong and how to mend it), 1 an error in mohamjax itself, 130 stopped by hand
before there was anything to keep.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import TextIO

from mohamjax.cli import (
    bench,
    codesign,
    convert,
    decide,
    evaluate,
    options,
    plot,
    report,
    schedule,
    schema,
    search,
    technology,
    templates,
    warm,
    workload,
)
from mohamjax.cli import map as map_
from mohamjax.cli.interrupts import STOPPED
from mohamjax.cli.outputs import keep_inputs_of
from mohamjax.cli.terminal import Terminal, hush, say, warn
from mohamjax.errors import InputError
from mohamjax.version import __version__

_VERBS: dict[str, ModuleType] = {
    "search": search,
    "codesign": codesign,
    "map": map_,
    "evaluate": evaluate,
    "convert": convert,
    "schedule": schedule,
    "workload": workload,
    "templates": templates,
    "technology": technology,
    "decide": decide,
    "plot": plot,
    "report": report,
    "schema": schema,
    "bench": bench,
    "warm": warm,
}
"""Each has `add_parser`, which adds the verb with its options, and `run`, which returns the exit code."""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command line, with all verbs."""
    parser = options.Parser(
        prog="mohamjax",
        description="Multi-objective hardware-mapping co-optimisation of multi-chiplet, multi-tenant DNN accelerators.",
    )
    parser.add_argument("--version", action="version", version=f"mohamjax {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb in _VERBS.values():
        verb.add_parser(verbs)
    return parser


def _use_compile_cache(arguments: argparse.Namespace) -> None:
    """Keeps compiled programs in the user's cache folder."""
    if getattr(arguments, "no_compile_cache", False):
        return
    from mohamjax.runtime.programs import use_cache

    with contextlib.suppress(InputError):  # without, everything works, only later
        use_cache()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: arguments; default those of the process.

    Returns:
        The exit code.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before we came
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, for as long as we live
    try:
        code = _done(argv)
    except SystemExit as end:  # argparse has said what there was to say
        raise SystemExit(_flushed(end.code if isinstance(end.code, int) else 0)) from None
    return _flushed(code)


def _flushed(code: int) -> int:
    """The exit code, once standard output has taken everything."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go(sys.stdout)
    except (OSError, ValueError) as error:
        _let_go(sys.stdout)
        if code in (0, STOPPED):  # otherwise one line has been said already
            reason = getattr(error, "strerror", None) or str(error)
            remedy = "name a file with --out"
            _complain(InputError(f"cannot be written ({reason})", item="standard output", remedy=remedy))
            return 2
    return code


def _let_go(stream: TextIO) -> None:
    """Sends what is left in a stream nowhere: Python must not complain about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain(error: InputError) -> None:
    say(f"mohamjax: {options.with_option(error)}", always=not getattr(error, "is_told", False))


def _done(argv: Sequence[str] | None) -> int:
    """Parses and runs; every complaint is told here."""
    hush(False)
    parser = make_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        told = decide.several_folders(arguments, unknown) if arguments.verb == "decide" else ""
        told = told or f"unknown argument {unknown[0]}; see mohamjax {arguments.verb} --help"
        parser.exit(2, f"mohamjax: {told}\n")
    warnings.showwarning = lambda message, *_: warn(str(message))
    try:
        keep_inputs_of(arguments)
        _use_compile_cache(arguments)
        with Terminal() as terminal:
            code = _VERBS[arguments.verb].run(arguments, terminal)
            # Results of what was stopped are not those that were asked for: a script must not take them for whole.
            return STOPPED if terminal.was_stopped and not code else code
    except InputError as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        say("mohamjax: stopped by hand")
        return STOPPED
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to say, and Python must not say it at exit.
        _let_go(sys.stdout)
        return 0
    except (OSError, UnicodeEncodeError) as error:
        # What no reader or writer of ours has put better: a full disk, or a terminal that lacks a character.
        name = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "check the path, its rights and the disk" if isinstance(error, OSError) else "set PYTHONUTF8=1"
        _complain(InputError(reason, file=name, remedy=remedy))
        return 2
    except Exception:
        traceback.print_exc()
        say("mohamjax: this is an error in mohamjax itself; please report it with the lines above", always=True)
        return 1
