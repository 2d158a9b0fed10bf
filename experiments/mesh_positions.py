"""Does the placement of chiplets matter when they share the mesh? Search with and without position mutation.

Both searches are MOHaM's search of layers (`--preset layers`) on a package of narrow links behind wide interfaces, with
each seed an island of one run. They start from random designs, as list schedules would place chiplets by estimates.
Rates are traced, so that both searches are one program. The measures are the hypervolume of the archive (log axes, box
of the scenario) and its least latency. p is two-sided and exact, by Wilcoxon's rank-sum test of the search without
position mutation against the one with it.

    python experiments/mesh_positions.py --out experiments/results/mesh_positions.md
    python experiments/mesh_positions.py --contention all --evaluations 4000
"""

import argparse
import dataclasses
import pathlib

import numpy as np
from report import Report, header
from scipy.stats import mannwhitneyu
from search_problem import arguments_of, merit, paragraphs, prepared, searched, sized

from mohamjax.hardware import PackageParameters
from mohamjax.hardware.package import CONTENTION
from mohamjax.search import BUDGETS, Settings
from mohamjax.workload import SCENARIOS


def settings(arguments: argparse.Namespace) -> Settings:
    """A search of layers from random designs, with MOHaM's operators at our rates."""
    chosen = Settings.preset(arguments.budget, preset="layers")
    chosen = dataclasses.replace(chosen, moham=dataclasses.replace(chosen.moham, seeded=False))
    return sized(chosen, arguments.evaluations, arguments.population, arguments.archive, arguments.seeds)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenario", default="ar-vr", choices=SCENARIOS)
    parser.add_argument("--budget", default="tiny", choices=tuple(BUDGETS), help="of the mapping tables")
    parser.add_argument("--evaluations", type=int, default=16_000, help="of each seed")
    parser.add_argument("--population", type=int, default=200)
    parser.add_argument("--archive", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--contention", default="mesh", choices=CONTENTION)
    parser.add_argument("--link", type=float, default=1.0, help="bytes per cycle of a link")
    parser.add_argument("--interface", type=float, default=8.0, help="bytes per cycle of a memory interface")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()

    package = PackageParameters(
        contention=arguments.contention, link_bandwidth=arguments.link, interface_bandwidth=arguments.interface
    )
    case = prepared(arguments.scenario, arguments.budget, package)
    with_it = settings(arguments)
    without = dataclasses.replace(with_it, rates=dataclasses.replace(with_it.rates, position_mutation=0.0))
    found = {}
    for name, chosen in (("with position mutation", with_it), ("without", without)):
        archive = searched(case, chosen).archive
        objectives = np.where(np.asarray(archive.valid)[..., None], np.asarray(archive.objectives), np.inf)
        latency = objectives[..., 0].min(axis=1)  # in seconds, as the search has it
        found[name] = {"hypervolume": [merit(island, case.space) for island in objectives], "latency [s]": latency}

    report = Report()
    report.say("# Position mutation under contention of the mesh", "", *paragraphs(__doc__)[1:2], "")
    report.say(f"{header()}. {arguments.seeds} seeds.", "")
    report.head("measure", *(f"{name}: median (least to most)" for name in found), "p")
    for measure in ("hypervolume", "latency [s]"):
        values = [np.asarray(rows[measure], np.float64) for rows in found.values()]
        p = mannwhitneyu(*values, alternative="two-sided", method="exact").pvalue
        cells = [f"{np.median(v):.5g} ({v.min():.5g} to {v.max():.5g})" for v in values]
        report.row(measure, *cells, f"{p:.3g}")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
