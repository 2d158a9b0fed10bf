"""The command line: parses options, calls the package, and prints.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done; 1 an error in mohamjax
itself, or no design meets the target of `decide`; 2 bad input or an error of the operating system (one line says what
is wrong and how to fix it); 130 stopped by hand, even if partial results were written.
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
    validate,
    warm,
    workload,
)
from mohamjax.cli import map as map_
from mohamjax.cli.interrupts import STOPPED
from mohamjax.cli.outputs import keep_inputs_of, keep_outputs_apart
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
    "validate": validate,
    "bench": bench,
    "warm": warm,
}
"""Each module has `add_parser`, which adds the verb with its options, and `run`, which returns the exit code."""


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line, with all verbs."""
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
    """Keeps compiled programs in the user's cache folder, unless the user has switched that off."""
    if getattr(arguments, "no_compile_cache", False):
        return
    from mohamjax.runtime.programs import use_cache

    with contextlib.suppress(InputError):  # everything works without the cache, only more slowly
        use_cache()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: arguments; by default those of the process.

    Returns:
        The exit code.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before this process started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, open until the process ends
    try:
        code = _done(argv)
    except SystemExit as end:  # argparse has printed its message
        raise SystemExit(_flushed(end.code if isinstance(end.code, int) else 0)) from None
    return _flushed(code)


def _flushed(code: int) -> int:
    """Flushes standard output; returns `code`, or 2 if that fails and no error has been printed yet."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go(sys.stdout)
    except (OSError, ValueError) as error:
        _let_go(sys.stdout)
        if code in (0, STOPPED):  # otherwise an error has been printed already
            reason = getattr(error, "strerror", None) or str(error)
            remedy = "name a file with --out"
            _complain(InputError(f"cannot be written ({reason})", item="standard output", remedy=remedy))
            return 2
    return code


def _let_go(stream: TextIO) -> None:
    """Redirects a broken stream to the null device, so that Python prints no error about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _complain(error: InputError) -> None:
    say(f"mohamjax: {options.with_option(error)}", always=not getattr(error, "is_told", False))


def _done(argv: Sequence[str] | None) -> int:
    """Parses the arguments, runs the verb, prints any error, and returns the exit code."""
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
        keep_outputs_apart(arguments)
        _use_compile_cache(arguments)
        with Terminal() as terminal:
            code = _VERBS[arguments.verb].run(arguments, terminal)
            # The results of a stopped command are incomplete, which scripts must be able to see.
            return STOPPED if terminal.was_stopped and not code else code
    except InputError as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        say("mohamjax: stopped by hand")
        return STOPPED
    except BrokenPipeError:
        # The reader of standard output has exited: this is no error, and Python must not print one at exit.
        _let_go(sys.stdout)
        return 0
    except (OSError, UnicodeEncodeError) as error:
        # No reader or writer has turned it into an `InputError`: a full disk, or a terminal that lacks a character.
        name = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "check the path, its permissions and the disk" if isinstance(error, OSError) else "set PYTHONUTF8=1"
        _complain(InputError(reason, file=name, remedy=remedy))
        return 2
    except Exception:
        traceback.print_exc()
        say("mohamjax: this is an error in mohamjax itself; please report it with the lines above", always=True)
        return 1
