"""How many seconds each time-saving part saves: one search with all parts, and without one of them.

Each run is `mohamjax search SCENARIO --budget BUDGET` in a process of its own: cold with an empty cache folder, then
warm with what the cold run left. Runs with all parts and without one of them alternate (with, without, with, without),
so that both meet the same machine. Figures are medians of seconds of the clock and of the processor, over all threads
and processes; "saves" is the share of the seconds without the part. A part is switched off inside the process of the
run by replacing its code.

    python experiments/saved_seconds.py --pairs 3 --out experiments/results/saved_seconds.md
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

HERE = pathlib.Path(__file__).resolve().parents[1]
WARM = "`mohamjax warm`"


def without_kept_programs() -> None:
    """Every process traces and lowers its programs again; JAX's cache of compiled programs stays."""
    from mohamjax.runtime import kept_programs

    kept_programs.keep_in = lambda folder: None


def without_precompilation() -> None:
    """The search is compiled when it begins, not while layers are mapped."""
    from mohamjax.search.search import Search

    Search._mapping = lambda self, progress: self._listener.mapping(progress)


def without_figure_process() -> None:
    """Figures are drawn by the process of the search, after everything else."""
    from mohamjax.drawing import FigureProcess

    FigureProcess.__enter__ = lambda self: self


def without_checks_of_the_code() -> None:
    """Kept files are used without checks of hash, dates and contexts, which make them safe: this part costs seconds."""
    from mohamjax.runtime import code_hash, kept_programs

    code_hash.code_hash = kept_programs.code_hash = lambda *_: "0" * 64
    code_hash.code_unchanged = kept_programs.code_unchanged = lambda *_: True
    kept_programs._in_no_context = lambda: True


def without_options(replaced: dict[str, object], by: dict[str, object]) -> None:
    """Programs that ask the compiler for these options ask for others."""
    from mohamjax.runtime.kept_programs import _KeptJit

    made = _KeptJit.__init__

    def init(self, function, static, options):
        made(self, function, static, by if options == replaced else options)

    _KeptJit.__init__ = init


def without_rare_collections() -> None:
    """Python looks for cycles of dead objects as often as it does by default."""
    import gc

    gc.set_threshold = lambda *_: None


_O1 = {"xla_backend_optimization_level": 1}
_OLD = {"xla_cpu_use_fusion_emitters": False}

PARTS: dict[str, Callable[[], None]] = {
    "kept programs": without_kept_programs,
    "precompilation": without_precompilation,
    "figure process": without_figure_process,
    "`jit_o1`": lambda: without_options(_O1, {}),
    "`jit_o1_plain_loops`": lambda: without_options({**_O1, **_OLD}, {}),
    "`jit_o0_plain_loops`": lambda: without_options({**_OLD, "xla_backend_optimization_level": 0}, {}),
    "rare garbage collection": without_rare_collections,
    "checks of the code (a cost)": without_checks_of_the_code,
}


def run(cache: pathlib.Path, out: pathlib.Path, words: list[str], part: str) -> tuple[float, float]:
    """Runs one command; returns its seconds of the clock and of the processor."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")}
    environment = {**kept, "PYTHONPATH": str(HERE), "XDG_CACHE_HOME": str(cache)}
    before, tick = os.times(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--without", part, *words, "--out", str(out)],
        env=environment, cwd=cache, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, after = time.perf_counter() - tick, os.times()
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def pair(words: list[str], part: str) -> dict[str, tuple[float, float]]:
    """A cold and a warm run without a part, or with all parts where `part` is empty."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        return {start: run(here, here / start, words, part) for start in ("cold", "warm")}


def after_warm(scenario: str, budget: str, words: list[str]) -> tuple[tuple[float, float], tuple[float, float]]:
    """`mohamjax warm` in an empty cache folder, and the first search after it."""
    with tempfile.TemporaryDirectory() as folder:
        here = pathlib.Path(folder)
        warmed = run(here, here / "warm", ["warm", scenario, "--budget", budget], "")
        return warmed, run(here, here / "search", words, "")


def median(rows: list[tuple[float, float]]) -> list[float]:
    """Median seconds of the clock and of the processor."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def saved(with_it: float, without: float) -> str:
    """The share of the seconds without a part that it saves."""
    return f"{1 - with_it / without:.1%}"


def main() -> None:
    from report import Report, header

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="ar-vr")
    parser.add_argument("--budget", default="tiny")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--parts", default="", help="words, divided by commas: parts whose names have one of them")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    words = ["search", arguments.scenario, "--budget", arguments.budget]
    asked = [word for word in arguments.parts.split(",") if word]
    parts = [part for part in (*PARTS, WARM) if not asked or any(word in part for word in asked)]
    report = Report()
    report.say(f"{header()}.", "", (__doc__ or "").split("\n\n")[1].strip(), "")
    report.head("part", "start", "seconds with", "without", "saves", "of the processor with", "without", "saves")
    for part in parts:
        own = [(pair(words, ""), None if part == WARM else pair(words, part)) for _ in range(arguments.pairs)]
        if part == WARM:
            warmed = [after_warm(arguments.scenario, arguments.budget, words) for _ in range(arguments.pairs)]
            first, cold = median([search for _, search in warmed]), median([found["cold"] for found, _ in own])
            cells = [cell for a, b in zip(first, cold, strict=True) for cell in (f"{a:.1f}", f"{b:.1f}", saved(a, b))]
            report.row(part, "the first search after it", *cells)
            report.row(
                part, "the command itself", *(c for a in median([w for w, _ in warmed]) for c in (f"{a:.1f}", "", ""))
            )
            continue
        for start in ("cold", "warm"):
            sides = [median([both[side][start] for both in own]) for side in (0, 1)]
            cells = [cell for a, b in zip(*sides, strict=True) for cell in (f"{a:.1f}", f"{b:.1f}", saved(a, b))]
            report.row(part, start, *cells)
    report.write(arguments.out)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--without"]:  # the process of a run
        sys.path.pop(0)  # the command must not import modules beside this file
        if sys.argv[2]:
            PARTS[sys.argv[2]]()
        from mohamjax.cli import command

        del sys.argv[1:3]
        command()
    main()
