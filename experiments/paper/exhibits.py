"""What the scripts of the papers share: exhibits by name, three tiers, runs that are kept, tables and figures.

A script of a paper declares its exhibits and calls `main`:

    python experiments/paper/moham.py fig7 --tier small
    python experiments/paper/moham.py --list
    python experiments/paper/moham.py all --tier ci --out FOLDER

`--tier` says how much is run: `ci` takes seconds and shows that everything works, `small` takes minutes on two cores,
`full` is the paper's own budget with ten seeds. Every run is a line of a CSV file that is written as the run ends, and
is not done again, so that a study may be stopped and resumed. `--minutes` begins no run after that long; `--report`
begins none. Tables and figures are written from the lines that are there.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

import jax
from lines import Lines
from matplotlib.figure import Figure
from report import Report, header

from mohamjax.figures import save

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results" / "paper"
FIGURES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "papers" / "figures"
"""Folder of the figures that the pages of `docs/papers` show; with `--out` they go there instead."""
TIERS = ("ci", "small", "full")


@dataclasses.dataclass
class Kept:
    """Runs of one kind, each known by the first columns of its line.

    Attributes:
        lines: the file.
        study: whose clock says whether another run may begin.
    """

    lines: Lines
    study: Study

    def __post_init__(self) -> None:
        self._known = self.lines.read()

    def get(self, *key: object, run: Callable[[], Mapping[str, object]] | None = None) -> dict[str, str] | None:
        """The line of a key, after running it if there is none yet; None where no run may begin.

        Args:
            key: values of the columns after the tier that identify the run.
            run: returns the values of the other columns, by name.
        """
        named = (self.study.tier, *map(str, key))
        if named not in self._known:
            if run is None or not self.study.may_begin():
                self.study.left += 1
                return None
            began = time.perf_counter()
            row = {**dict(zip(self.lines.columns, named, strict=False)), **{k: str(v) for k, v in run().items()}}
            self.lines.append(row)
            self._known[named] = row
            print(f"{' '.join(named)}: {time.perf_counter() - began:.1f} s", flush=True)
        return self._known[named]


@dataclasses.dataclass
class Study:
    """One call of a script: how much to run, until when, and where results go.

    Attributes:
        paper: name of the folder of its results.
        tier: `ci`, `small` or `full`.
        seeds: how many.
        folder: of the results.
        figures: folder of the figures.
        until: `time.monotonic()` after which no run begins; None for no end.
        report_only: begin none.
        left: runs that were asked for and not done.
    """

    paper: str
    tier: str
    seeds: int
    folder: pathlib.Path
    figures: pathlib.Path
    until: float | None = None
    report_only: bool = False
    left: int = 0

    def may_begin(self) -> bool:
        """Whether there is time for another run."""
        return not self.report_only and (self.until is None or time.monotonic() < self.until)

    def pick(self, ci: Any, small: Any, full: Any) -> Any:
        """The value for the tier of this call."""
        return {"ci": ci, "small": small, "full": full}[self.tier]

    def kept(self, name: str, columns: Sequence[str], key: int) -> Kept:
        """Runs in `NAME_runs.csv`; the tier is the first column of every line."""
        return Kept(Lines(self.folder / f"{name}_runs.csv", ("tier", *columns), key + 1), self)

    def table(self, name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str) -> None:
        """Writes `NAME.md`: a title, what made it, a note in whole sentences, and the table."""
        report = Report()
        report.say(f"# {title}", "", f"{header()}. Tier `{self.tier}`.", "", note, "")
        report.head(*columns)
        for row in rows:
            report.row(*row)
        if self.left:
            report.say("", f"{self.left} runs were not begun: the table shows what there is.")
        report.write(self.folder / f"{name}.md")

    def figure(self, figure: Figure, name: str) -> None:
        """Writes `NAME.png`."""
        self.figures.mkdir(parents=True, exist_ok=True)
        save(figure, self.figures / f"{name}.png")


Exhibit = Callable[[Study], None]


def main(paper: str, exhibits: Mapping[str, Exhibit], words: Sequence[str] | None = None) -> None:
    """Runs the exhibits that the command line names.

    Args:
        paper: folder of the results.
        exhibits: functions by name; the first line of a docstring describes one.
        words: arguments instead of the command line's.
    """
    parser = argparse.ArgumentParser(description=f"Exhibits of {paper}.")
    parser.add_argument("exhibits", nargs="*", metavar="EXHIBIT", help=f"{', '.join(exhibits)}, or all")
    parser.add_argument("--tier", choices=TIERS, default="small")
    parser.add_argument("--seeds", type=int, help="default: 2, 3 or 10 by tier")
    parser.add_argument("--minutes", type=float, help="begin no run after this long")
    parser.add_argument("--report", action="store_true", help="begin no run")
    parser.add_argument("--out", type=pathlib.Path, help="folder for results and figures; needed with --tier ci")
    parser.add_argument("--list", action="store_true", help="say which exhibits there are")
    options = parser.parse_args(words)
    if options.list or not options.exhibits:
        for name, exhibit in exhibits.items():
            print(f"{name:10} {(exhibit.__doc__ or '').strip().splitlines()[0]}")
        return
    chosen = list(exhibits) if "all" in options.exhibits else options.exhibits
    unknown = [name for name in chosen if name not in exhibits]
    if unknown:
        parser.error(f"unknown exhibit {unknown[0]}, expected {', '.join(exhibits)}")
    if options.tier == "ci" and options.out is None:
        parser.error("--tier ci needs --out, since it proves nothing that should stand among the results")
    study = Study(
        paper=paper,
        tier=options.tier,
        seeds=options.seeds or {"ci": 2, "small": 3, "full": 10}[options.tier],
        folder=options.out or RESULTS / paper,
        figures=options.out or FIGURES / paper,
        until=None if options.minutes is None else time.monotonic() + 60 * options.minutes,
        report_only=options.report,
    )
    for name in chosen:
        began, study.left = time.perf_counter(), 0
        exhibits[name](study)
        print(f"{name}: {time.perf_counter() - began:.0f} s on {jax.devices()[0].platform}", flush=True)
