"""Handling of Ctrl-C in the process of the command line: at any moment, any number of times, always the same end.

By default Python loses an interrupt that arrives in a callback whose exceptions are ignored (garbage collection), lets
an extension module that is being imported turn it into an `ImportError`, prints a traceback for one that arrives during
shutdown, and is killed by one that arrives after it has restored the signal's default handler.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

STOPPED = 130
"""Exit code of a command that was stopped by hand."""

_SOON_S = 0.02
_at_once = False
_IMPORTING = "<frozen importlib._bootstrap>"  # file name of the stack frames of an import


def listen() -> None:
    """Handles interrupts from now on; one that arrives at a bad moment is sent again a little later.

    If the parent process has had them ignored (a shell, for a job in the background), they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    signal.signal(signal.SIGINT, _heard)
    shown = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            _again()
        else:
            shown(lost)

    sys.unraisablehook = hook


def leave_at_once() -> None:
    """Lets the process end without waiting for its threads, because other processes may wait for it."""
    global _at_once
    _at_once = True


def leave(code: int) -> NoReturn:
    """Runs the exit functions and ends the process; files must have been closed.

    A process that was stopped by hand skips the exit functions and does not wait for threads that still compile.

    Args:
        code: exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == STOPPED or _at_once:
        sys.stderr.flush()
        os._exit(code)
    if threading.active_count() > 1:
        sys.exit(code)
    # Python would free all objects one by one, although the system takes back the memory in a moment.
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # a full disk, or a closed or missing stream: Python handles it
        sys.exit(code)
    os._exit(code)


def _heard(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return _again()
        frame = frame.f_back
    raise KeyboardInterrupt


def _again() -> None:
    timer = threading.Timer(_SOON_S, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
