"""Progress of long computations, in plain lines on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from mohamjax.io import BatchProgress
    from mohamjax.mapper import ExhaustiveProgress, MapperProgress
    from mohamjax.search import Progress

SILENCE_S = 3.0  # of silence, after which a step that may be short is announced

_PAUSE_S = 2.0  # between lines about the same step


class ProgressLines:
    """A listener of searches that writes a line every two seconds.

    If standard error breaks, the search goes on and nothing is written.
    """

    def __init__(self) -> None:
        self._told_at = 0.0
        self._compiled: set[str] = set()
        self._begun: tuple[float, int, float] | None = None  # start of an evaluation: time, entries, share done
        self._answering = False  # whether a what-if question takes long enough to be shown

    def line(self, text: str) -> None:
        """Prints a line that stays."""
        with contextlib.suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)

    def announce(self, text: str) -> None:
        """Announces a step that cannot tell how far it is."""
        self.line(text)

    def _show(self, step: str, parts: list[str], done: float, total: float, left: float | None, *, final: bool) -> None:
        """Prints how far a step is: at its end, and before at most every two seconds.

        Args:
            step: name of the step.
            parts: texts to print.
            done: work done, in any unit.
            total: all work, in the same unit.
            left: seconds left, or None if unknown.
            final: whether the step is done.
        """
        del done, total
        now = time.monotonic()
        if final or now - self._told_at >= _PAUSE_S:
            self.line("  ".join([step, *parts, *([] if left is None else [f"{duration(left)} left"])]))
            self._told_at = now

    def _tell_compiled(self, what: str, seconds: float) -> None:
        """Prints the time of compiling, once, unless it is about zero: most is compiled while the mapper runs."""
        if what not in self._compiled and seconds >= 0.05:
            self._compiled.add(what)
            self.line(f"{what} in {seconds:.1f} s")

    def mapping(self, progress: MapperProgress) -> None:
        """Shows how far the layer mapper is."""
        if progress.compile_s:
            self._tell_compiled("compiled the mapper", progress.compile_s)
        rate = progress.evaluations / max(progress.seconds - progress.compile_s, 1e-9)
        if progress.evaluations:
            pace = [f"{rate:,.0f} mappings/s"]
        else:  # all sets were in the cache, or the program is still being compiled
            pace = [] if progress.done == progress.problems else ["compiling"]
        self._show(
            "mapper",
            [f"{progress.done}/{progress.problems} sets ({progress.cached} cached)", *pace],
            progress.evaluations,
            progress.total,
            (progress.total - progress.evaluations) / rate if rate else None,
            final=progress.done == progress.problems,
        )

    def evaluation(self, progress: BatchProgress) -> None:
        """Shows how far an evaluation of many files is."""
        if not progress.share:
            self._show("evaluation", [f"{progress.read:,} entries read"], 0.0, 1.0, None, final=False)
            return
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

    def answering(self, done: int, total: int) -> None:
        """Shows how far the evaluations of a what-if question are, if they take more than three seconds."""
        now = time.monotonic()
        # The first evaluations include compiling: they do not count for the speed.
        self._begun = self._begun or (now, done, 0.0)
        seconds, fresh = now - self._begun[0], done - self._begun[1]
        left = (total - done) / fresh * seconds if fresh else None
        if not self._answering and (left is None or seconds + left < SILENCE_S):
            return
        self._answering = True
        self._show(
            "what if",
            [f"{done:,} of {total:,} evaluations", f"{fresh / seconds:,.0f}/s"],
            done,
            total,
            left,
            final=done >= total,
        )

    def exporting(self, what: str) -> Callable[[int, int], None]:
        """Returns a function that shows how far the writing of many files is, if it takes more than three seconds."""
        began, told = time.monotonic(), False

        def progress(done: int, total: int) -> None:
            nonlocal told
            seconds = time.monotonic() - began
            told = told or seconds >= SILENCE_S
            if told:
                left = (total - done) / done * seconds
                self._show("writing", [f"{done:,} of {total:,} {what}"], done, total, left, final=done == total)

        return progress

    def enumeration(self, progress: ExhaustiveProgress) -> None:
        """Shows how far an enumeration is."""
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
        """Shows how far the co-optimiser is."""
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
            (generations - done) * progress.step_s / len(progress.hypervolume) + progress.rounds_s if done else None,
            final=done >= generations,
        )


def duration(seconds: float) -> str:
    """Formats a duration in seconds, or in minutes from 100 s on."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
