"""What mapping again on the chiplets of the front gives, and what it costs: whole searches, nothing cached before.

Each run is `mohamjax search` in a process and a cache folder of its own, mapping and compiling included, as a user
meets it; methods take turns, scenario by scenario. "layers" is the default of 84a5f18. "fixed tables" is the default
without mapping again, "default" maps again every 100 generations, "until nothing improves" goes on so after the last
generation until a round gains less than a ten-thousandth (`--polish`). Hypervolumes are those of `bounds.json`: on
log axes in the box of the search's first tables, which are equal for all methods of a scenario. "asked": 0.02 above
what was asked of 16,000 evaluations over fixed tables for "default", 0.03 for the last.

    python experiments/alternation.py --out experiments/results/alternation.md
    python experiments/alternation.py --scenarios ar-vr --budget tiny --seeds 1
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
from report import Report, header
from search_problem import LAYERS, arguments_of, paragraphs

from mohamjax.workload import SCENARIOS

FIXED, DEFAULT, POLISHED = "fixed tables", "default", "until nothing improves"
METHODS = {
    LAYERS: ["--preset", "layers"],
    FIXED: ["--remap", "0"],
    DEFAULT: [],
    POLISHED: ["--polish", "12"],
}
GOALS = {"ar-vr": 0.520, "edge": 0.434, "mobile": 0.497, "data-center": 0.425}
MORE = {DEFAULT: 0.02, POLISHED: 0.03}


def run(scenario: str, options: list[str], folder: pathlib.Path, out: pathlib.Path) -> tuple[dict, int, float]:
    """What `bounds.json` says, evaluations and seconds of one search."""
    words = [sys.executable, "-m", "mohamjax.cli", "search", scenario, "--out", str(out), *options]
    began = time.perf_counter()
    subprocess.run(words, check=True, env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}, capture_output=True)
    seconds = time.perf_counter() - began
    with open(out / "history.csv", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    return json.loads((out / "bounds.json").read_text()), int(last["evaluations"]), seconds


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", default="paper")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the results of every run")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    report = Report()
    report.say(f"{header()}: medians of {arguments.seeds} seeds.", "")
    report.say(paragraphs(__doc__)[1], "")
    report.head("scenario", "method", "hypervolume", "least", "most", "asked", "evaluations", "seconds")
    for scenario in arguments.scenarios.split(","):
        rows: dict[str, list[tuple[float, int, float]]] = {name: [] for name in arguments.methods.split(",")}
        boxes: dict[int, dict] = {}
        for seed in range(arguments.seeds):
            for name, own in rows.items():
                options = ["--budget", arguments.budget, "--seed", str(seed), *METHODS[name]]
                with tempfile.TemporaryDirectory() as folder:
                    out = (arguments.keep or pathlib.Path(folder)) / f"{scenario}-{seed}-{name}".replace(" ", "-")
                    bounds, evaluations, seconds = run(scenario, options, pathlib.Path(folder), out)
                if boxes.setdefault(seed, bounds["box"]) != bounds["box"]:
                    raise SystemExit(f"{scenario}, seed {seed}, {name}: measured in another box: {bounds['box']}")
                own.append((bounds["hypervolume"], evaluations, seconds))
                print(f"{scenario}, seed {seed}, {name}: {own[-1]}", file=sys.stderr, flush=True)
        for name, own in rows.items():
            values, counts, seconds = (np.asarray(column) for column in zip(*own, strict=True))
            goal = f"{GOALS[scenario] + MORE[name]:.3f}" if name in MORE and scenario in GOALS else ""
            report.row(
                scenario, name, f"{np.median(values):.4f}", f"{values.min():.4f}", f"{values.max():.4f}", goal,
                f"{np.median(counts):,.0f}", f"{np.median(seconds):.0f}",
            )  # fmt: skip
        report.write(arguments.out)


if __name__ == "__main__":
    main()
