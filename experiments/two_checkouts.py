"""Compares the speed of mapper and generations of this checkout and another one, in turns, on a quiet machine.

Every figure comes from a process of its own. `mapper` maps all pairs of a unique layer and a template that runs it,
with the default sizes; after a first run in a process, so that nothing is compiled, three more are timed, and the one
in the middle counts. As checkouts may have other pairs and try other numbers of mappings, its seconds of the clock are
given per pair and per mapping. `generations` is `mohamjax search SCENARIO --budget small --remap 0 --no-figures`:
seconds of the clock per design that whole generations evaluate. A first search fills the caches, of which each checkout
has its own, and does not count. Ratios are those of the turns, this checkout over the other, with their median in a
column of its own.

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

from checkouts import COMMAND
from report import Report, commit, header

HERE = pathlib.Path(__file__).resolve().parents[1]
# The names since commit 68cf341, which made the mapper a class, or those before it.
MAP = """
import json, sys, time
import jax
import mohamjax as mj
application, told = mj.load_scenario(sys.argv[1]), []
layers = application.unique_layers
try:
    from mohamjax.mapper.config import MapperConfig
    from mohamjax.mapper.layer_mapper import LayerMapper
    problem = mj.DesignProblem(application)
    mapper = LayerMapper(layers, problem.resolved.templates, problem.technology, MapperConfig(), progress=told.append)
    run = mapper.search
except ImportError:
    from mohamjax.hardware import load_technology, load_templates
    from mohamjax.search.mapper import MapperConfig, map_layers
    hardware = load_templates(["eyeriss", "simba", "shidiannao"]), load_technology()
    run = lambda key: map_layers(key, layers, *hardware, MapperConfig(), progress=told.append)
run(jax.random.key(0))
rows = []
for seed in 1, 2, 3:
    began = time.perf_counter()
    found = run(jax.random.key(seed))
    seconds = time.perf_counter() - began
    rows.append({"seconds": seconds, "pairs": int((found.count > 0).sum()), "mappings": told[-1].evaluations})
print(json.dumps(sorted(rows, key=lambda row: row["seconds"])[1]))
"""


def run(checkout: pathlib.Path, cache: pathlib.Path, program: str, *words: str) -> dict[str, float]:
    """Runs a program with the package of a checkout, and returns the JSON that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cache, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr}")
    return json.loads(done.stdout)


def searched(checkout: pathlib.Path, cache: pathlib.Path, scenario: str) -> float:
    """Microseconds of clock per design of a search."""
    words = ["search", scenario, "--budget", "small", "--remap", "0", "--no-figures", "--json", "--out", "out"]
    return 1e6 / run(checkout, cache, COMMAND, *words)["seconds"]["designs_per_s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=pathlib.Path, required=True, help="the other checkout")
    parser.add_argument("--scenarios", default="ar-vr,mobile")
    parser.add_argument("--of", choices=("mapper", "generations"), help="measure this alone")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    report = Report()
    other = commit(arguments.against / "mohamjax")
    report.say("# Two checkouts", "", f"{header()}. The other checkout is of commit {other}.", "")
    report.say((__doc__ or "").split("\n\n")[1].strip(), "")
    report.head("scenario", "what", "this checkout", "the other", "ratio, median", "ratios")
    with tempfile.TemporaryDirectory() as folder:
        sides = [(HERE, pathlib.Path(folder, "this")), (arguments.against.resolve(), pathlib.Path(folder, "other"))]
        for _, cache in sides:
            cache.mkdir()
        for scenario in arguments.scenarios.split(","):
            found: dict[str, list[list[float]]] = {}
            if arguments.of != "mapper":
                for side in sides:
                    searched(*side, scenario)
            for turn in range(arguments.repeats):
                first = slice(None, None, 1 - 2 * (turn % 2))  # the side that begins changes from turn to turn
                if arguments.of != "generations":
                    mapped = [run(*side, MAP, scenario) for side in sides[first]][first]
                    for what, of, unit in (("pair", "pairs", 1e3), ("mapping", "mappings", 1e6)):
                        name = f"mapper [{'ms' if unit == 1e3 else 'us'} per {what}]"
                        found.setdefault(name, []).append([unit * row["seconds"] / row[of] for row in mapped])
                if arguments.of != "mapper":
                    rates = [searched(*side, scenario) for side in sides[first]][first]
                    found.setdefault("generations [us per design]", []).append(rates)
            for what, turns in found.items():
                ratios = [ours / theirs for ours, theirs in turns]
                middle = [f"{statistics.median(side):.1f}" for side in zip(*turns, strict=True)]
                listed = ", ".join(f"{ratio:.2f}" for ratio in ratios)
                report.row(scenario, what, *middle, f"{statistics.median(ratios):.2f}", listed)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
