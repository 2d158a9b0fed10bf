"""Ctrl-C in a process of our own: heard at any moment, any number of times, with one end.

Left alone, Python loses an interrupt that comes in a callback whose exceptions nobody takes (garbage collection), lets
an extension that is being imported make an `ImportError` of it, shows a traceback for one that comes while it leaves,
and dies of one that comes after it has given the signal back.
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
"""Exit code of what was stopped by hand."""

_SOON_S = 0.02
_at_once = False
_IMPORTING = "<frozen importlib._bootstrap>"  # the file of the frames that import


def listen() -> None:
    """From now on interrupts that come at a bad moment come again a little later.

    Who started the process may have it ignore them (a shell, in the background): so it does.
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
    """From now on the process waits for nobody when it ends: other processes may wait for it."""
    global _at_once
    _at_once = True


def leave(code: int) -> NoReturn:
    """Ends the process, once what waits for its end has been called; files must have been closed.

    What is stopped by hand waits for no thread that still compiles.

    Args:
        code: exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == STOPPED or _at_once:
        sys.stderr.flush()
        os._exit(code)
    if threading.active_count() > 1:
        sys.exit(code)
    # Python would free all that there is, object by object, although the memory is the system's in a moment.
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # a full disk, a closed stream or none: Python has its ways
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
