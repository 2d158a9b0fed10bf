"""Designs that keep a frame rate, and what a search gains by looking only at latencies that make sense.

Every scenario and seed is searched twice, with one budget and equal evaluations: among all designs, and within
`--within` times the least latency that a design can have. "volume" is the share of this window that a front dominates,
on log axes; the window is the scenario's box, cut off at the window's largest latency. The further columns give, for
both fronts, the smallest design that finishes every network 30 or 10 times per second; "none" says that no design of
the front does. The script asserts that no smaller design of the front keeps the rate.

    python experiments/decisions.py --budget small --seeds 3 --out experiments/results/decisions.md
"""

import argparse
import pathlib

import numpy as np
from report import Report, header

import mohamjax as mj
from mohamjax.schedule.measures import box_share
from mohamjax.search import SearchResult
from mohamjax.workload import SCENARIOS

RATES = (30, 10)


def volume(result: SearchResult, latest: float) -> float:
    """Share of the scenario's box up to a latency [s] that the front dominates."""
    ideal, reference = (np.asarray(result.config[end], float) for end in ("ideal_point", "reference_point"))
    reference = np.asarray([latest, *reference[1:]])
    return box_share(result.front.objectives, ideal, reference)


def smallest(result: SearchResult, rate: int) -> str:
    """Area, latency and energy of the smallest design with `rate` frames per second of every network, or `none`."""
    best = mj.decide(result, f"fps>={rate}").recommended
    objectives = result.front.objectives
    kept = objectives[1.0 / objectives[:, 0] >= rate]
    if best is None:
        assert not len(kept)
        return "none"
    assert best["area_mm2"] == kept[:, 2].min()
    return f"{best['area_mm2']:.3g} mm², {best['latency_s'] * 1e3:.3g} ms, {best['energy_J'] * 1e3:.3g} mJ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--budget", default="small")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--within", type=float, default=10.0)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    report = Report()
    about = (__doc__ or "").split("\n\n")[1]
    report.say("# Decisions, and searches within a window", "", f"{header()}.", "", about, "")
    report.head("scenario", "seed", "search", "volume", *(f"smallest with {rate} fps" for rate in RATES))
    for scenario in arguments.scenarios.split(","):
        problem = mj.DesignProblem(mj.load_scenario(scenario))
        for seed in range(arguments.seeds):
            tables = mj.map_layers(problem, budget=arguments.budget, seed=seed, cache=True)
            found = {
                name: mj.search(problem, tables, budget=arguments.budget, seed=seed, within=within)
                for name, within in (("of all designs", None), (f"within {arguments.within:g}", arguments.within))
            }
            latest = found[f"within {arguments.within:g}"].config["within_latency_s"]
            for name, result in found.items():
                cells = [f"{volume(result, latest):.4f}", *(smallest(result, rate) for rate in RATES)]
                report.row(scenario, seed, name, *cells)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
