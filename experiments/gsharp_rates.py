"""Operator rates and population of G#, compared on cases that separate methods, at equal evaluations.

Prints for every variant each case's median makespan over its lower bound, and their geometric mean. Variants have other
rates than `DEFAULT_RATES`, or another population.

    python experiments/gsharp_rates.py --seeds 8
"""

import argparse
import dataclasses
import statistics

import jax
import jax.numpy as jnp
import numpy as np
from gsharp_cases import TUNED, case_table

from mohamjax.jobs import (
    DEFAULT_RATES,
    PAPER_RATES,
    JobSearchConfig,
    genes_of,
    job_bound,
    job_problem,
    search_islands,
    seed_plans,
)

EVALUATIONS = 10_500


def variants(chosen: list[str]) -> dict[str, tuple]:
    def change(**rates):
        return dataclasses.replace(DEFAULT_RATES, **rates)

    found = {
        "default": (DEFAULT_RATES, 50),
        "paper": (PAPER_RATES, 50),
        "population 30": (DEFAULT_RATES, 30),
        "population 100": (DEFAULT_RATES, 100),
        "mutation 0.1": (change(mutation=0.1), 50),
        "one mutation rate": (change(mutation=0.02, mutation_range=0.0), 50),
        "less informed": (change(informed=0.4), 50),
        "no relieve": (change(relieve=0.0), 50),
        "no swap": (change(swap=0.0), 50),
        "more swap": (change(swap=0.6), 50),
        "less crossover-accel": (change(crossover_accel=0.1), 50),
        "more crossover-gen": (change(crossover_gen=0.9, crossover_rg=0.3), 50),
        "less crossover": (change(crossover_gen=0.2, crossover_rg=0.3), 50),
    }
    return {name: found[name] for name in (chosen or found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--seeded", action="store_true", help="start from the heuristics")
    parser.add_argument("variants", nargs="*")
    arguments = parser.parse_args()

    tables = [case_table(*case) for case in TUNED]
    bounds = [job_bound(table).best for table in tables]

    def stack(trees):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *[t for t in trees for _ in range(arguments.seeds)])

    context = stack([job_problem(table, accelerators=16) for table in tables])
    seeds = stack([genes_of(seed_plans(table), 100) for table in tables]) if arguments.seeded else None
    print("| variant | " + " | ".join(f"{b} {s} at {w}" for b, s, w in TUNED) + " | mean |", flush=True)
    print("|" + " --- |" * (len(TUNED) + 2))
    for name, (rates, population) in variants(arguments.variants).items():
        config = JobSearchConfig(population=population, generations=EVALUATIONS // population - 1)
        archive, _ = search_islands(jax.random.key(7), context, config, rates=rates, seeds=seeds)
        best = np.asarray(archive.objectives[..., 0]).min(axis=1).reshape(len(TUNED), -1)
        ratios = [float(np.median(row)) / bound for row, bound in zip(best, bounds, strict=True)]
        cells = " | ".join(f"{ratio:.4f}" for ratio in ratios)
        print(f"| {name} | {cells} | {statistics.geometric_mean(ratios):.4f} |", flush=True)


if __name__ == "__main__":
    main()
