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
    """Whether this process is one whose words another one says: it then tells nothing but its own complaints."""
    global _hushed
    _hushed = quiet


def is_live(stream: IO[str]) -> bool:
    """Whether what is written to the stream is seen on a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


class Terminal(ProgressLines):
    """Progress on standard error.

    A standard error that breaks (its reader has gone, the terminal is closed) ends no search: it is no longer told how
    it goes. Use it as a context manager, or `close` it, so that the cursor is left in order.

    Attributes:
        was_stopped: the user has stopped the command (Ctrl-C), although it goes on to write what it has; its exit code
            then says so.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_stopped = False
        self._live = is_live(sys.stderr)
        self._bars: Progress | None = None  # of the step at hand
        self._step = ""
        self._lasting = ""  # what stays of the step when it is over
        self._lock = threading.RLock()  # a step that has been silent is announced from another thread

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def line(self, text: str) -> None:
        """A line that stays."""
        self.close()
        say(text)

    def warn(self, text: str) -> None:
        """A warning, above the bar of the step at hand."""
        warn(text)

    def close(self) -> None:
        """Ends the bar of the step at hand."""
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
        """A step that may be over at once: it is announced where nothing has been told of it for three seconds."""
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
        """Begins a bar in the place of the last one."""
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
        """A bar where there is a terminal; takes the arguments of `ProgressLines._show`."""
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
        """A step begins that cannot tell how far it is."""
        if not self._live or _hushed:
            self.line(text)
            return
        from rich.progress import TimeElapsedColumn

        with contextlib.suppress(OSError):
            self._open(as_options(text), TimeElapsedColumn(), transient=True)
        self._lasting = text


def say(text: str, *, always: bool = False) -> None:
    """A line on standard error, if somebody still reads it, and unless another process says it."""
    if _hushed and not always:
        return
    with contextlib.suppress(OSError, ValueError):
        print(as_options(text), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """A warning, one line."""
    say(f"warning: {one_line(text)}")
