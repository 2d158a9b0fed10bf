"""Is the search of this checkout as fast as that of another one? Whole commands, in turns.

Every figure is of a process of its own: `mohamjax search SCENARIO --budget small --no-mapping-cache --no-figures
--json`. Each checkout keeps its compiled programs in a folder of its own; a first run fills it and does not count.
`mapper` is clock time over pairs of a unique layer and a template that runs it, of which checkouts may have more or
fewer; `generations` is clock time over designs that whole generations evaluate; both contain what is left of compiling.
Ratios are those of the turns, this checkout over the other, and their median stands before all of them.

    python experiments/two_checkouts.py --against ../before --repeats 3 --out experiments/results/two_checkouts.md
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from report import Report, header

HERE = pathlib.Path(__file__).resolve().parents[1]
RUN = "import sys; from mohamjax.cli import main; sys.exit(main(sys.argv[1:]))"
PAIRS = """
import sys
import mohamjax as mj
from mohamjax.hardware.template import fits
problem = mj.DesignProblem(mj.load_scenario(sys.argv[1]))
layers, templates = problem.application.unique_layers, problem.templates
print(sum(fits(template, layer.type, layer.shape) is None for layer in layers for template in templates))
"""


def run(checkout: pathlib.Path, cache: pathlib.Path, program: str, *words: str) -> str:
    """Standard output of a program with the package of a checkout."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, env=environment, cwd=cache, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr}")
    return done.stdout


def searched(checkout: pathlib.Path, cache: pathlib.Path, scenario: str, budget: str) -> dict[str, float]:
    """Seconds of the steps of one search."""
    words = ["search", scenario, "--budget", budget, "--no-mapping-cache", "--no-figures", "--json", "--out", "out"]
    return json.loads(run(checkout, cache, RUN, *words))["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=pathlib.Path, required=True, help="the other checkout")
    parser.add_argument("--scenarios", default="ar-vr,mobile")
    parser.add_argument("--budget", default="small")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    report = Report()
    report.say(f"{header()}.", "", *(__doc__ or "").strip().splitlines()[2:7], "")
    report.head("scenario", "what", "this checkout", "the other", "ratio, median", "ratios")
    with tempfile.TemporaryDirectory() as folder:
        sides = {}
        for name, checkout in (("this", HERE), ("other", arguments.against.resolve())):
            sides[name] = checkout, pathlib.Path(folder, name)
            sides[name][1].mkdir()
        for scenario in arguments.scenarios.split(","):
            found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
            pairs = {name: int(run(*side, PAIRS, scenario)) for name, side in sides.items()}
            for turn in range(arguments.repeats + 1):
                for name, side in sides.items():
                    seconds = searched(*side, scenario, arguments.budget)
                    if turn:
                        found[name].append(seconds)
            for what, each in {
                "mapper [ms per pair]": {n: [1e3 * row["mapping_s"] / pairs[n] for row in found[n]] for n in sides},
                "generations [us per design]": {n: [1e6 / row["designs_per_s"] for row in found[n]] for n in sides},
            }.items():
                ratios = [ours / theirs for ours, theirs in zip(each["this"], each["other"], strict=True)]
                middle = [f"{statistics.median(each[name]):.1f}" for name in sides]
                listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
                report.row(scenario, what, *middle, f"{statistics.median(ratios):.2f}", listed)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
