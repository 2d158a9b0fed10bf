"""Progress and warnings on standard error: bars with rates and the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from mohamjax.cli.options import as_options
from mohamjax.errors import one_line

if TYPE_CHECKING:
    from mohamjax.io import BatchProgress
    from mohamjax.search import ExhaustiveProgress, MapperProgress, Progress

__all__ = ["Terminal", "duration", "hush", "is_live", "say", "warn"]

_PAUSE_S = 2.0  # between plain lines about the same step

_hushed = False


def hush(quiet: bool) -> None:
    """Whether this process is one whose words another one says: it then tells nothing but its own complaints."""
    global _hushed
    _hushed = quiet


def is_live(stream: Any) -> bool:
    """Whether what is written to the stream is seen on a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("dumb", "unknown")


class Terminal:
    """Progress on standard error.

    A standard error that breaks (its reader has gone, the terminal is closed) ends no search: it is no longer told how
    it goes. Use it as a context manager, or `close` it, so that the cursor is left in order.
    """

    def __init__(self) -> None:
        self._live = is_live(sys.stderr)
        self._bars: Any = None  # rich.progress.Progress of the step at hand
        self._step = ""
        self._lasting = ""  # what stays of the step when it is over
        self._told_at = 0.0
        self._compiled: set[str] = set()
        self._begun: tuple[float, int, float] | None = None  # an evaluation: when, and how far it was

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
        bars, self._bars, self._step = self._bars, None, ""
        if bars is not None:
            with contextlib.suppress(OSError):
                bars.stop()
        if self._lasting:
            say(self._lasting)
            self._lasting = ""

    def _open(self, step: str, *columns: Any, transient: bool = False) -> None:
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
        """How far a step is.

        Args:
            step: its name.
            parts: what is told of it.
            done: work done, in any unit.
            total: work there is.
            left: seconds left, if that is known.
            final: it is done.
        """
        remaining = f"{duration(left)} left"
        if not self._live:
            now = time.monotonic()
            if final or now - self._told_at >= _PAUSE_S:
                say("  ".join([step, *parts, remaining]))
                self._told_at = now
            return
        with contextlib.suppress(OSError):
            if self._step != step:
                from rich.progress import BarColumn, TextColumn

                rest = (TextColumn("{task.fields[parts]}", markup=False), TextColumn("{task.fields[left]}"))
                self._open(step, BarColumn(bar_width=24), *rest)
            self._bars.update(
                self._bars.task_ids[0],
                completed=done,
                total=max(total, 1),
                parts="  ".join(parts),
                left="" if final else remaining,
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

    def _tell_compiled(self, what: str, seconds: float) -> None:
        """Once, what it took to compile, if it took anything: most is compiled beside the mapper."""
        if what not in self._compiled and seconds >= 0.05:
            self._compiled.add(what)
            self.line(f"{what} in {seconds:.1f} s")

    def mapping(self, progress: MapperProgress) -> None:
        """How far the layer mapper is."""
        if progress.compile_s:
            self._tell_compiled("compiled the mapper", progress.compile_s)
        rate = progress.evaluations / max(progress.seconds - progress.compile_s, 1e-9)
        self._show(
            "mapper",
            [f"{progress.done}/{progress.problems} sets ({progress.cached} cached)", f"{rate:,.0f} mappings/s"],
            progress.evaluations,
            progress.total,
            (progress.total - progress.evaluations) / rate if rate else None,
            final=progress.done == progress.problems,
        )

    def evaluation(self, progress: BatchProgress) -> None:
        """How far an evaluation of many files is."""
        now = time.monotonic()
        self._begun = self._begun or (now, progress.rows, progress.share)
        seconds, rows = now - self._begun[0], progress.rows - self._begun[1]
        share = progress.share - self._begun[2]
        self._show(
            "evaluation",
            [
                f"{progress.rows:,} entries",
                f"{progress.broken:,} broken",
                f"{rows / seconds:,.0f}/s" if rows else "compiled",
            ],
            progress.share,
            1.0,
            (1 - progress.share) / share * seconds if share > 0 else None,
            final=progress.share >= 1,
        )

    def enumeration(self, progress: ExhaustiveProgress) -> None:
        """How far an enumeration is."""
        rate = progress.evaluations / max(progress.seconds, 1e-9)
        self._show(
            "enumeration",
            [
                f"{progress.done}/{progress.problems} sets",
                f"{progress.evaluations:,} of {progress.total:,} mappings",
                f"{rate:,.0f}/s",
            ],
            progress.evaluations,
            progress.total,
            (progress.total - progress.evaluations) / rate if rate else None,
            final=progress.done == progress.problems,
        )

    def progress(self, progress: Progress, generations: int) -> None:
        """How far the co-optimiser is."""
        self._tell_compiled("compiled", progress.compile_s)
        done = progress.generation
        rate = progress.fresh_evaluations / max(progress.seconds, 1e-9)
        self._show(
            "search",
            [
                f"generation {done}/{generations}",
                f"{rate:,.0f} designs/s",
                f"front {progress.front_size[-1]}",
                f"hypervolume {progress.hypervolume[-1]:.4f}",
            ],
            done,
            generations,
            (generations - done) * progress.step_s / len(progress.hypervolume) if done else None,
            final=done >= generations,
        )


def say(text: str, *, always: bool = False) -> None:
    """A line on standard error, if somebody still reads it, and unless another process says it."""
    if _hushed and not always:
        return
    with contextlib.suppress(OSError, ValueError):
        print(as_options(text), file=sys.stderr, flush=True)


def duration(seconds: float | None) -> str:
    """Seconds or minutes, to read at a glance."""
    if seconds is None:
        return "? s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def warn(text: str) -> None:
    """A warning, one line."""
    say(f"warning: {one_line(text)}")
