"""How much earlier the networks of a design are ready when its layers are put in another order.

Every scenario and seed is searched without the last step (`search.ordering`), which is then applied to the front. A
network is "ready" when its last layer has ended; the last network of a design is left out, as it determines the
latency. Mean and least are shares of the times before the step: 0.6 says that networks are ready after 60 % of the
time. The column of latency counts designs whose last network is earlier as well, with shares of the latency. The script
asserts that no network is later, that latency is no larger, and that energy and area are the same to the last bit.
Seconds include compiling where shapes are new, as they are for the first seed of a scenario.

    python experiments/ready_times.py --seeds 2 --out experiments/results/ready_times.md
"""

import argparse
import pathlib

import numpy as np
from report import Report, header

import mohamjax as mj
from mohamjax.schedule import network_latencies
from mohamjax.schedule.evaluated import Evaluated
from mohamjax.schedule.front import front_index
from mohamjax.search.ordering import Ordering, orderings, reordered
from mohamjax.workload import SCENARIOS


def cells(before: Evaluated, after: Evaluated, told: Ordering) -> list[str]:
    """Cells of a row: what the step did to a front."""
    old, new = network_latencies(before), network_latencies(after)
    objectives = before.objectives, after.objectives
    assert (new <= old).all() and (objectives[1][:, 0] <= objectives[0][:, 0]).all()
    assert np.array_equal(objectives[0][:, 1:], objectives[1][:, 1:])
    others = old < old.max(axis=1, keepdims=True)
    share = new / old
    each = ", ".join(
        f"{network.name} {share[:, n][others[:, n]].mean():.2f}"
        for n, network in enumerate(before.application.networks)
        if others[:, n].any()
    )
    faster = objectives[1][:, 0] / objectives[0][:, 0]
    earlier = faster < 1
    gain = f", mean {faster[earlier].mean():.3f}, least {faster.min():.3f}" if earlier.any() else ""
    return [
        f"{(new < old).any(axis=1).sum()} of {len(before)}",
        f"{share[others].mean():.3f}",
        f"{share[others].min():.3f}",
        each,
        f"{earlier.sum()}{gain}",
        str(len(front_index(objectives[1]))),
        f"{told.evaluations:,}",
        f"{told.seconds:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--budget", default="tiny")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    report = Report()
    about = (__doc__ or "").split("\n\n")[1]
    report.say("# Networks that are ready earlier", "", f"{header()}.", "", about, "")
    report.head(
        "scenario", "seed", "designs changed", "ready, mean", "ready, least", "ready, mean by network",
        "designs of less latency", "designs left on the front", "schedules tried", "seconds",
    )  # fmt: skip
    for scenario in arguments.scenarios.split(","):
        problem = mj.DesignProblem(mj.load_scenario(scenario))
        for seed in range(arguments.seeds):
            tables = mj.map_layers(problem, budget=arguments.budget, seed=seed, cache=True)
            found = mj.search(problem, tables, budget=arguments.budget, seed=seed, end_orders=0).front
            *_, told = orderings(found, arguments.rounds)
            report.row(scenario, seed, *cells(found, reordered(found, told), told))
    report.write(arguments.out)


if __name__ == "__main__":
    main()
