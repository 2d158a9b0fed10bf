"""The command line. A file per verb has its options and what it does; the rest of the package does the work."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import NoReturn

from mohamjax.cli.interrupts import STOPPED, leave, listen

__all__ = ["command", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line, from anywhere.

    Args:
        argv: arguments; default those of the process.

    Returns:
        The exit code.
    """
    from mohamjax.cli import entry  # late: it imports for a while, and `command` must be listening by then

    return entry.main(argv)


def command() -> NoReturn:
    """Runs the command line as a process of its own."""
    gc.set_threshold(300_000, 20, 50)  # imports and tracing make objects that live on: few of them are in cycles
    try:
        listen()
        code = main()
    except KeyboardInterrupt:
        code = STOPPED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    leave(code)
