"""The command line. Thin: it parses, calls the rooms of the house, and prints.

Results go to standard output, progress and warnings to standard error. Exit codes: 0 done, 2 bad input or what the
system refuses (one line that says what is wrong and how to mend it), 1 a fault of ours, 130 stopped by hand before
there was anything to keep.
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

from mohamjax import __version__
from mohamjax.cli import evaluate, options, plot, schedule, search, templates, workload
from mohamjax.cli import map as map_
from mohamjax.cli.terminal import Terminal, warn
from mohamjax.errors import InputError

__all__ = ["main"]

_VERBS: dict[str, ModuleType] = {
    "search": search,
    "map": map_,
    "evaluate": evaluate,
    "schedule": schedule,
    "workload": workload,
    "templates": templates,
    "plot": plot,
}
"""Each has `add_parser`, which adds the verb with its options, and `run`, which returns the exit code."""


def _parser() -> argparse.ArgumentParser:
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
    import jax

    from mohamjax.folders import cache_folder

    folder = cache_folder("compiled")
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: arguments; default those of the process.

    Returns:
        The exit code.
    """
    parser = _parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        parser.exit(2, f"mohamjax: unknown argument {unknown[0]}; see mohamjax {arguments.verb} --help\n")
    warnings.showwarning = lambda message, *_: warn(str(message))
    try:
        _use_compile_cache(arguments)
        with Terminal() as terminal:
            return _VERBS[arguments.verb].run(arguments, terminal)
    except InputError as error:
        print(f"mohamjax: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mohamjax: stopped by hand", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; nothing is left to say, and Python must not say it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, UnicodeEncodeError) as error:
        # What no reader or writer of ours has put better: a full disk, or a terminal that lacks a character.
        name = getattr(error, "filename", None)
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "check the path, its rights and the disk" if isinstance(error, OSError) else "set PYTHONUTF8=1"
        print(f"mohamjax: {InputError(reason, file=name, remedy=remedy)}", file=sys.stderr)
        return 2
    except Exception:
        traceback.print_exc()
        print("mohamjax: this is a fault of ours; please report it with the lines above", file=sys.stderr)
        return 1
