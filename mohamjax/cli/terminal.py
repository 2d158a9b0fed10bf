"""Progress and warnings on standard error."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from mohamjax.errors import one_line

if TYPE_CHECKING:
    from mohamjax.search import ExhaustiveProgress, MapperProgress, Progress

__all__ = ["Terminal", "duration", "warn"]


class Terminal:
    """Progress on standard error: one moving line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.last = 0.0
        self.open = False
        self.compile_s: float | None = None
        self.mapper_compiled = False

    def line(self, text: str) -> None:
        """A line that stays."""
        self.close()
        print(text, file=sys.stderr, flush=True)

    def status(self, text: str, *, final: bool = False) -> None:
        """A line that the next one may replace; elsewhere at most one every two seconds."""
        now = time.monotonic()
        if self.live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 120
            print("\r\x1b[2K" + text[: width - 1], end="", file=sys.stderr, flush=True)
            self.open = True
            if final:
                self.close()
        elif final or now - self.last >= 2.0:
            print(text, file=sys.stderr, flush=True)
            self.last = now

    def close(self) -> None:
        """Ends a moving line."""
        if self.open:
            print(file=sys.stderr, flush=True)
            self.open = False

    # What a search tells.

    def announce(self, text: str) -> None:
        """A step begins."""
        self.line(text)

    def mapping(self, progress: MapperProgress) -> None:
        """How far the layer mapper is."""
        if progress.compile_s and not self.mapper_compiled:
            self.mapper_compiled = True
            self.line(f"compiled the mapper in {progress.compile_s:.1f} s")
        rate = progress.evaluations / max(progress.seconds - progress.compile_s, 1e-9)
        left = (progress.total - progress.evaluations) / rate if rate else None
        self.status(
            f"mapper  {progress.done}/{progress.problems} sets ({progress.cached} cached)  "
            f"{rate:,.0f} mappings/s  {duration(left)} left",
            final=progress.done == progress.problems,
        )

    def enumeration(self, progress: ExhaustiveProgress) -> None:
        """How far an enumeration is."""
        rate = progress.evaluations / max(progress.seconds, 1e-9)
        left = (progress.total - progress.evaluations) / rate if rate else None
        self.status(
            f"enumeration  {progress.done}/{progress.problems} sets  {progress.evaluations:,} of {progress.total:,} "
            f"mappings  {rate:,.0f}/s  {duration(left)} left",
            final=progress.done == progress.problems,
        )

    def progress(self, progress: Progress, generations: int) -> None:
        """How far the co-optimiser is."""
        if self.compile_s is None:
            self.compile_s = progress.compile_s
            self.line(f"compiled in {progress.compile_s:.1f} s")
        done = progress.generation
        rate = progress.fresh_evaluations / max(progress.seconds, 1e-9)
        left = (generations - done) * progress.step_s / len(progress.hypervolume) if done else None
        self.status(
            f"search  generation {done}/{generations}  {rate:,.0f} designs/s  front {progress.front_size[-1]}  "
            f"hypervolume {progress.hypervolume[-1]:.4f}  {duration(left)} left",
            final=done >= generations,
        )


def duration(seconds: float | None) -> str:
    """Seconds or minutes, to read at a glance."""
    if seconds is None:
        return "? s"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def warn(text: str) -> None:
    """A warning, one line."""
    print(f"warning: {one_line(text)}", file=sys.stderr, flush=True)
