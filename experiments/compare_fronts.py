"""Fronts of two versions of the program in one common box: hypervolume, latency at given areas, and their chiplets.

Each side is a folder of results folders called SCENARIO-SEED, as written by

    for s in ar-vr edge mobile data-center; do for k in 0 1 2; do
      mohamjax search $s --budget small --seed $k --out NEW/$s-$k; done; done

where the old program writes the old side.

    python experiments/compare_fronts.py old=OLD new=NEW --out experiments/results/machines.md

Latency, energy and area are scaled as logarithms to the box from the best to the worst value of any front of the
scenario, enlarged by a tenth; hypervolumes are shares of that box. Figures are medians over the seeds.
"""

import argparse
import collections
import csv
import pathlib

import numpy as np
from report import Report, header

from mohamjax import emo

AREAS = (1, 4, 16)
COLUMNS = ("latency_s", "energy_J", "area_mm2")


def fronts(folder: pathlib.Path) -> dict[str, dict[int, list[dict[str, str]]]]:
    """Rows of every `front.csv`, by scenario and seed."""
    found: dict[str, dict[int, list[dict[str, str]]]] = collections.defaultdict(dict)
    for path in sorted(folder.glob("*/front.csv")):
        scenario, seed = path.parent.name.rsplit("-", 1)
        with path.open(newline="") as file:
            found[scenario][int(seed)] = list(csv.DictReader(file))
    return found


def values(rows: list[dict[str, str]]) -> np.ndarray:
    return np.array([[float(row[c]) for c in COLUMNS] for row in rows])


def volume(front: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    scaled = (np.log(front) - low) / (high - low)
    return float(emo.hypervolume(scaled.astype(np.float32), np.ones(3, np.float32)))


def counts(rows: list[dict[str, str]]) -> str:
    """Chiplets of each template, as a share of all chiplets of the front."""
    total = collections.Counter()
    for row in rows:
        total.update({k[2:]: int(v) for k, v in row.items() if k.startswith("n_") and k != "n_chiplets"})
    return ", ".join(f"{name} {n / max(total.total(), 1):.0%}" for name, n in total.items() if n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    sides = {name: fronts(pathlib.Path(folder)) for name, folder in (side.split("=", 1) for side in options.sides)}
    report = Report()
    report.say(f"# Fronts of {' and '.join(sides)} in one box", "")
    report.say(f"{header()}.", "")
    fastest = [f"latency at {a} mm^2 [ms]" for a in AREAS]
    report.head("scenario", "side", "seeds", "designs", "hypervolume", "fastest [ms]", *fastest, "chiplets")
    for scenario in dict.fromkeys(s for side in sides.values() for s in side):
        every = np.concatenate([values(rows) for side in sides.values() for rows in side.get(scenario, {}).values()])
        low, high = np.log(every.min(axis=0)), np.log(every.max(axis=0))
        high = high + 0.1 * (high - low)
        for name, side in sides.items():
            runs = side.get(scenario, {})
            if not runs:
                continue
            points = [values(rows) for rows in runs.values()]
            cells = [f"{np.median([volume(p, low, high) for p in points]):.4f}"]
            cells.append(f"{1e3 * np.median([p[:, 0].min() for p in points]):.1f}")
            for area in AREAS:
                best = [p[p[:, 2] <= area, 0].min(initial=np.inf) for p in points]
                cells.append(f"{1e3 * np.median(best):.1f}")
            designs = int(np.median([len(p) for p in points]))
            report.row(scenario, name, len(runs), designs, *cells, counts([r for rows in runs.values() for r in rows]))
    report.write(options.out)


if __name__ == "__main__":
    main()
