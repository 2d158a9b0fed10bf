"""Mappings of whole networks on one chiplet (`mohamjax map`): what is gained by refitting children to their chiplet.

A case is a network of a scenario on a template that runs it, over the mapping tables of `--budget`, seed 0. Every share
of refitted children has the same evaluations; share 0 is the search of 84a5f18. A front's hypervolume is taken on log
axes, from the best value of each objective on the union of all fronts of the case to 1.1 of the range to the worst, as
a share of the union's. The table takes the median of each case over the seeds, and gives the median and the least of
these over the cases of a scenario. "better" counts the cases whose median is above that without refitting; p is by
Wilcoxon's signed-rank test over the cases' medians. The share was tuned on ar-vr; the other scenarios judge it.

    python experiments/network_choices.py --out experiments/results/network_choices.md
    python experiments/network_choices.py --scenarios ar-vr --seeds 2 --budget tiny
"""

import dataclasses
import pathlib

import jax
import numpy as np
from report import Report, header
from scipy.stats import wilcoxon
from search_problem import Clock, arguments_of, paragraphs, prepared

from mohamjax.emo import hypervolume
from mohamjax.mapper import network_choices
from mohamjax.mapper.network_level import NetworkConfig
from mohamjax.workload import SCENARIOS

Fronts = dict[tuple[str, str], np.ndarray]
ROOM = 1.1


def merits(fronts: list[np.ndarray]) -> np.ndarray:
    """Hypervolume of each front as a share of their union's."""
    union = np.concatenate(fronts)
    low, high = union.min(axis=0), union.max(axis=0)
    span = np.log(np.maximum(high / low, 1 + 1e-9))
    largest = max(map(len, [union, *fronts]))
    with jax.enable_x64(True):

        def volume(front: np.ndarray) -> float:
            scaled = np.log(front / low) / span
            padding = np.full((largest - len(scaled), 3), np.inf)
            return float(hypervolume(np.concatenate([scaled, padding]), np.full(3, ROOM)))

        return np.asarray([volume(front) for front in fronts]) / volume(union)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="paper")
    parser.add_argument("--shares", default="0,0.25,0.5,0.75")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    shares = [float(x) for x in arguments.shares.split(",")]
    report, clock = Report(), Clock()
    config = NetworkConfig()
    spent = config.generations * (config.population + config.immigrants)
    head = f"{arguments.seeds} seeds, {spent:,} evaluations each, mapping tables of the budget `{arguments.budget}`."
    report.say(f"{header()}: {head}", "", paragraphs(__doc__)[1], "")
    report.head("scenario", "cases", "refitted", "median", "least", "better", "p")
    for scenario in arguments.scenarios.split(","):
        case = prepared(scenario, arguments.budget)

        def fronts(share: float, seed: int, case=case) -> Fronts:
            found = network_choices(
                jax.random.key(seed), case.problem.setup, case.tables,
                dataclasses.replace(config, refit=share),
            )  # fmt: skip
            return {
                name: np.asarray([(c.latency_cycles, c.energy_pJ, c.area_um2) for c in choices])
                for name, choices in found.items()
            }

        runs = {share: [fronts(share, seed) for seed in range(arguments.seeds)] for share in shares}
        cases = list(runs[shares[0]][0])
        table = np.zeros((len(cases), len(shares)))
        for c, name in enumerate(cases):
            values = merits([run[name] for own in runs.values() for run in own])
            table[c] = np.median(values.reshape(len(shares), -1), axis=1)
        for s, share in enumerate(shares):
            better, p = "", ""
            if s:
                better = f"{np.sum(table[:, s] > table[:, 0])}"
                p = f"{wilcoxon(table[:, s], table[:, 0]).pvalue:.2g}" if (table[:, s] != table[:, 0]).any() else "1"
            own = table[:, s]
            report.row(scenario, len(cases), f"{share:g}", f"{np.median(own):.4f}", f"{own.min():.4f}", better, p)
        clock.say(scenario)
        report.write(arguments.out)


if __name__ == "__main__":
    main()
