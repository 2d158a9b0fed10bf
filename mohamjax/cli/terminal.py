"""Progress and warnings on standard error: bars with rates and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from mohamjax.cli.options import as_options
from mohamjax.errors import one_line
from mohamjax.progress import SILENCE_S, ProgressLines, duration

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_hushed = False


def hush(quiet: bool) -> None:
    """Sets whether this process is quiet because another one prints the same; it then prints only its own errors."""
    global _hushed
    _hushed = quiet


def is_live(stream: IO[str]) -> bool:
    """Returns whether the stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


class Terminal(ProgressLines):
    """Prints progress on standard error.

    If standard error breaks (its reader has exited, the terminal is closed), the search goes on without progress. Use
    the object as a context manager, or `close` it, to restore the cursor.

    Attributes:
        was_stopped: whether the user has stopped the command (Ctrl-C). It still writes what it has, and its exit code
            says that it was stopped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_stopped = False
        self._live = is_live(sys.stderr)
        self._bars: Progress | None = None  # of the current step
        self._step = ""
        self._lasting = ""  # line to print when the step is over
        self._lock = threading.RLock()  # another thread announces a step that has been silent

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        self.close()
        say(text)

    def warn(self, text: str) -> None:
        """Prints a warning, above the bar of the current step."""
        warn(text)

    def close(self) -> None:
        """Ends the bar of the current step."""
        with self._lock:
            bars, self._bars, self._step = self._bars, None, ""
            if bars is not None:
                with contextlib.suppress(OSError):
                    bars.stop()
            if self._lasting:
                say(self._lasting)
                self._lasting = ""

    @contextlib.contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        """Wraps a step that may be short: announces it after three seconds without any output."""
        began, over = time.monotonic(), False

        def announce() -> None:
            with self._lock:
                if not over and self._bars is None and self._told_at < began:
                    self.announce(text)

        timer = threading.Timer(SILENCE_S, announce)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:
                over = True
                self.close()

    def _open(self, step: str, *columns: ProgressColumn, transient: bool = False) -> None:
        """Starts a bar in place of the last one."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn

        self.close()
        words = TextColumn("{task.description}", markup=False)
        self._step = step
        # Standard output is left alone: it may be a file or a pipe that takes the results.
        self._bars = Progress(
            SpinnerColumn(), words, *columns, console=Console(stderr=True), redirect_stdout=False, transient=transient
        )
        self._bars.start()
        self._bars.add_task(step, total=None, parts="", left="")

    def _show(self, step: str, parts: list[str], done: float, total: float, left: float | None, *, final: bool) -> None:
        """Shows a bar on a terminal, a line elsewhere; takes the arguments of `ProgressLines._show`."""
        with self._lock:
            if not self._live:
                super()._show(step, parts, done, total, left, final=final)
                return
            with contextlib.suppress(OSError):
                if self._step != step:
                    from rich.progress import BarColumn, TextColumn

                    rest = (TextColumn("{task.fields[parts]}", markup=False), TextColumn("{task.fields[left]}"))
                    self._open(step, BarColumn(bar_width=24), *rest)
                assert self._bars is not None  # just opened, or open since the last time
                self._bars.update(
                    self._bars.task_ids[0],
                    completed=done,
                    total=max(total, 1),
                    parts="  ".join(parts),
                    left="" if final or left is None else f"{duration(left)} left",
                    refresh=True,
                )
            if final:
                self.close()

    # What a search tells.

    def announce(self, text: str) -> None:
        """Announces a step that cannot tell how far it is."""
        if not self._live or _hushed:
            self.line(text)
            return
        from rich.progress import TimeElapsedColumn

        with contextlib.suppress(OSError):
            self._open(as_options(text), TimeElapsedColumn(), transient=True)
        self._lasting = text


def say(text: str, *, always: bool = False) -> None:
    """Prints a line on standard error, if that is still open, and unless another process prints for this one."""
    if _hushed and not always:
        return
    with contextlib.suppress(OSError, ValueError):
        print(as_options(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Prints a warning in one line."""
    say(f"warning: {one_line(text)}")
