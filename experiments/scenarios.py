"""Seconds of every step of a search on the packaged scenarios, compile time apart: the table of the README.

Every scenario runs in a process of its own, twice: the second run finds all programs compiled, so that the difference
is the compile time. Nothing is cached on disk.

    python experiments/scenarios.py --budget tiny
"""

import argparse
import json
import subprocess
import sys

from mohamjax.problem import DesignProblem
from mohamjax.search import Search, Settings
from mohamjax.workload import SCENARIOS, load_scenario


def measure(scenario: str, budget: str) -> dict[str, float]:
    application = load_scenario(scenario)
    settings = Settings.preset(budget)
    search = Search(DesignProblem(application), settings)
    first, again = search.run().timings, search.run()
    second = again.timings
    return {
        "layers": len(application.layers),
        "unique": len(application.unique_layers),
        "gmacs": application.macs / 1e9,
        "compile": sum(first[k] - second[k] for k in ("mapping_s", "compile_s")),
        "mapping": second["mapping_s"],
        "search": second["search_s"],
        "designs_per_s": second["designs_per_s"],
        "front": len(again.front),
        "hypervolume": again.history[-1]["hypervolume"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="tiny")
    parser.add_argument("--scenario", help="only this one, as JSON")
    arguments = parser.parse_args()
    if arguments.scenario:
        print(json.dumps(measure(arguments.scenario, arguments.budget)))
        return
    columns = "scenario, layers, unique, GMAC, compile [s], mapping [s], scheduling [s], designs/s, front, hypervolume"
    print("| " + columns.replace(", ", " | ") + " |")
    print("| --- | " + "--- | " * 9)
    for scenario in SCENARIOS:
        command = [sys.executable, __file__, "--budget", arguments.budget, "--scenario", scenario]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        print(
            f"| {scenario} | {row['layers']} | {row['unique']} | {row['gmacs']:.2f} | {row['compile']:.0f} | "
            f"{row['mapping']:.1f} | {row['search']:.1f} | {row['designs_per_s']:,.0f} | {row['front']} | "
            f"{row['hypervolume']:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
