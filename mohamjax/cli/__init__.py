"""The command line: a module per verb adds its options and runs it; the rest of the package does the work."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import NoReturn

from mohamjax.cli.interrupts import STOPPED, leave, listen

__all__ = ["command", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line within the calling process.

    Args:
        argv: arguments; by default those of the process.

    Returns:
        The exit code.
    """
    from mohamjax.cli import entry  # imported late: it takes a while, and Ctrl-C must be handled by then

    return entry.main(argv)


def command() -> NoReturn:
    """Runs the command line and ends the process with its exit code."""
    gc.set_threshold(300_000, 20, 50)  # imports and tracing make long-lived objects, few of them in cycles
    try:
        listen()
        code = main()
    except KeyboardInterrupt:
        code = STOPPED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    leave(code)
