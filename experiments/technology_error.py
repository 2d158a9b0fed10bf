"""How far SRAM look-ups are from CACTI at sizes that the tables do not have.

    python experiments/technology_error.py > experiments/results/technology_error.md

- drawn: random sizes that CACTI was asked for (`technology_heldout.py`), none of which is a row of the tables;
- chiplets: every size (multiples of 16 rows) that SRAMs of the packaged templates can take, also asked of CACTI, and
  those of them that are no row of the tables;
- one row out: each row between two others of its width is left out alone, and its curve made of the rest. In a dense
  table this takes away one side of a jump where there is one, so that it tells how much each row matters rather than
  how good the table is;
- one width out: a whole width between two others is left out, and looked up at the rows that it has.
"""

from __future__ import annotations

import csv
import pathlib

import jax
import numpy as np
from report import header

from mohamjax.hardware.sram import sram_curves, sram_lookup
from mohamjax.hardware.technology import SRAM_COLUMNS, packaged_sram_rows, packaged_technologies

WIDTH, DEPTH, PORTS = 0, 1, 2
QUANTITIES = ("read", "write", "area", "leakage", "access", "cycle")
RESULTS = pathlib.Path(__file__).parent / "results"
lookup = jax.jit(sram_lookup)


def errors(rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """`[n, 6]` relative errors at the rows `at` of a look-up in the table `rows`."""
    curves = sram_curves(rows)
    sizes = (at[:, i].astype(np.int32 if i == PORTS else np.float32) for i in (DEPTH, WIDTH, PORTS))
    figures = np.concatenate([curves.costs, curves.standby], axis=-1)
    single = (x.astype(np.float32) for x in (figures, curves.rows, curves.widths))
    return np.exp2(np.asarray(lookup(*single, *sizes), np.float64)) / at[:, 3:] - 1


def heldout(file: str) -> dict[str, np.ndarray]:
    """Rows `[n, 9]` by technology."""
    found: dict[str, list[list[float]]] = {}
    with (RESULTS / file).open(newline="") as opened:
        for row in csv.DictReader(opened):
            found.setdefault(row["technology"], []).append([float(row[c]) for c in SRAM_COLUMNS])
    return {name: np.array(rows) for name, rows in found.items()}


def kinds(rows: np.ndarray) -> list[np.ndarray]:
    """The rows of each width and port count, by rising row count."""
    every = np.unique(rows[:, [WIDTH, PORTS]], axis=0)
    parts = [rows[(rows[:, WIDTH] == w) & (rows[:, PORTS] == p)] for w, p in every]
    return [part[np.argsort(part[:, DEPTH])] for part in parts]


def one_out(rows: np.ndarray) -> np.ndarray:
    """`[n, 6]` errors of every inner row left out alone."""
    found = []
    for part in kinds(rows):
        found += [errors(np.delete(part, i, axis=0), part[i : i + 1]) for i in range(1, len(part) - 1)]
    return np.concatenate(found)


def width_out(rows: np.ndarray) -> np.ndarray:
    """`[n, 6]` errors of every inner width left out, where its neighbours have rows."""
    found = []
    for part in kinds(rows):
        width, ports = part[0, WIDTH], part[0, PORTS]
        rest = rows[(rows[:, WIDTH] != width) & (rows[:, PORTS] == ports)]
        below, above = (rest[side, WIDTH] for side in (rest[:, WIDTH] < width, rest[:, WIDTH] > width))
        if below.size and above.size:
            near = [rest[rest[:, WIDTH] == w, DEPTH] for w in (below.max(), above.min())]
            least, most = max(x.min() for x in near), min(x.max() for x in near)
            found.append(errors(rest, part[(part[:, DEPTH] >= least) & (part[:, DEPTH] <= most)]))
    return np.concatenate(found)


def line(title: str, error: np.ndarray) -> str:
    """A row of the table: median / 90 % / largest in percent."""
    size = 100 * np.abs(error)
    with np.errstate(invalid="ignore"):
        cells = [
            " / ".join(f"{x:.2g}" if x < 10 else f"{x:.0f}" for x in (np.median(q), np.quantile(q, 0.9), q.max()))
            if np.isfinite(q).all()
            else "-"
            for q in size.T
        ]
    return f"| {title} | {len(error)} | {' | '.join(cells)} |"


def table(rows: list[str]) -> str:
    head = f"| | sizes | {' | '.join(QUANTITIES)} |\n| --- | ---: |{' --- |' * len(QUANTITIES)}"
    return "\n".join([head, *rows])


def drawn() -> list[str]:
    """Lines about the sizes that were drawn."""
    tables = {name: packaged_sram_rows(name) for name in packaged_technologies()}
    lines = []
    for name, at in heldout("technology_heldout.csv").items():
        for ports in np.unique(at[:, PORTS]):
            rows = at[at[:, PORTS] == ports]
            tabled = np.isin(rows[:, WIDTH], tables[name][:, WIDTH])
            for used in (name, f"{name}-coarse") if f"{name}-coarse" in tables else (name,):
                error = errors(tables[used], rows)
                title = f"{used}, {ports:.0f} port{'s' if ports > 1 else ''}"
                lines.append(line(title, error))
                if used == name:
                    lines.append(line(f"{title}: widths of the table", error[tabled]))
                    lines.append(line(f"{title}: widths between", error[~tabled]))
    return lines


def chiplets() -> str:
    """The table of the sizes of packaged chiplets, and the sizes of largest error."""
    (at,) = heldout("technology_chiplets.csv").values()
    lines, told = [], ""
    for name in ("45nm", "45nm-coarse"):
        rows = packaged_sram_rows(name)
        own = {tuple(size) for size in rows[:, : PORTS + 1]}
        new = np.array([tuple(size) not in own for size in at[:, : PORTS + 1]])
        error = errors(rows, at)
        lines += [line(f"{name}: all", error), line(f"{name}: no row of the table", error[new])]
        worst = at[np.abs(error[:, :3]).max(axis=1).argmax()]
        told += f"Largest in energy or area of {name}: {worst[WIDTH]:.0f} bits x {worst[DEPTH]:,.0f} rows. "
    return table(lines) + f"\n\n{told.strip()}"


def main() -> None:
    print(f"{header()}.\n")
    print("Absolute relative errors in percent: median / 90 % / largest.\n")
    print("## Sizes drawn between rows and widths, asked of CACTI\n\n" + table(drawn()) + "\n")
    print("## All sizes of chiplets of the packaged templates, asked of CACTI\n\n" + chiplets() + "\n")
    lines = []
    for name in packaged_technologies():
        rows = packaged_sram_rows(name)
        lines += [line(f"{name}: one row out", one_out(rows)), line(f"{name}: one width out", width_out(rows))]
    print("## Rows left out of the tables\n\n" + table(lines))


if __name__ == "__main__":
    main()
