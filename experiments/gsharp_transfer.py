"""Knowledge transfer (G#, Table 6) and the ablation of the operators (Figure 12), in our setting.

Transfer: G# is trained on batch 0 of a class; its schedule, by ranks, starts a search on other batches of the class
(drawn anew from the layers of that class), with 0, 1, 30 and 100 generations of 100. Values are makespans over that of
100 generations with the transfer, as in the paper; `raw` is the best of the first random population. LPT-EFT stands
beside them, since it costs as little as a transfer of 0 generations.

Ablation: mutation alone, with crossover-gen, with all operators of the paper, and ours; the median over seeds of the
best makespan over the bound after 10, 30 and 100 generations of 100.

    python experiments/gsharp_transfer.py --seeds 5
"""

import argparse
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from gsharp_cases import case_table, fresh_table

from mohamjax.schedule.shared_link import priority_order
from mohamjax.search.jobs import (
    DEFAULT_RATES,
    PAPER_RATES,
    JobSearchConfig,
    Plan,
    apply_ranked,
    evaluate_plans,
    genes_of,
    gsharp_problem,
    job_bound,
    job_problem,
    ranked_schedule,
    run_heuristic,
    search_islands,
)

CLASSES = ("mix", "vision", "lang", "recom")
SETTINGS = ("S1", "S2", "S3", "S4", "S5", "S6")
TESTS = 4
CONFIG = JobSearchConfig(population=100, generations=100)
PLAIN = gsharp_problem(("makespan",), informed=False)


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def search(tables, seeds=None):
    """Best plans, and the best makespan after every generation `[I, G + 1]`, of the paper's operators."""
    context = stack([job_problem(table, accelerators=16) for table in tables])
    first = None if seeds is None else stack([genes_of([plan], 100) for plan in seeds])
    archive, best = search_islands(jax.random.key(11), context, CONFIG, rates=PAPER_RATES, seeds=first, problem=PLAIN)
    slot = np.asarray(archive.objectives[..., 0]).argmin(axis=1)
    plans = []
    for i, s in enumerate(slot):
        where, priority = np.asarray(archive.genes.accelerator[i, s]), np.asarray(archive.genes.priority[i, s])
        plans.append(Plan(where, np.asarray(priority_order(priority))))
    return plans, np.asarray(best)[:, :, 0].T


def transfer() -> None:
    print("## Transfer (Table 6): S1 to S6 at 1 byte/cycle, 4 new batches each, geometric means\n")
    head = ("raw", "0 generations", "1", "30", "100", "LPT-EFT", "0 generations over LPT-EFT")
    print("| class | " + " | ".join(head) + " |")
    print("|" + " --- |" * (len(head) + 1))
    for kind in CLASSES:
        trained = [case_table(f"{kind}0", setting, 1) for setting in SETTINGS]
        plans, _ = search(trained)
        tables = [fresh_table(kind, setting, 1, seed) for setting in SETTINGS for seed in range(TESTS)]
        kept = [ranked_schedule(table, plan) for table, plan in zip(trained, plans, strict=True)]
        moved = [apply_ranked(table, kept[i // TESTS]) for i, table in enumerate(tables)]
        _, raw = search(tables)
        _, tuned = search(tables, moved)
        direct = np.asarray([evaluate_plans(t, [p])[0]["makespan"] for t, p in zip(tables, moved, strict=True)])
        simple = np.asarray([evaluate_plans(t, [run_heuristic("LPT-EFT", t)])[0]["makespan"] for t in tables])
        columns = [raw[:, 0], direct, tuned[:, 1], tuned[:, 30], tuned[:, 100], simple]
        cells = [float(np.exp(np.mean(np.log(column / tuned[:, 100])))) for column in columns]
        cells.append(float(np.exp(np.mean(np.log(direct / simple)))))
        print(f"| {kind} | " + " | ".join(f"{value:.3f}" for value in cells) + " |", flush=True)


def ablation(seeds: int) -> None:
    cases = [(batch, "S4", 1) for batch in ("mix0", "vision0", "lang0", "recom0")] + [("mix0", "S2", 16)]
    tables = [case_table(*case) for case in cases]
    bounds = np.asarray([job_bound(table).best for table in tables])
    context = stack([job_problem(table, accelerators=16) for table in tables for _ in range(seeds)])
    only = dataclasses.replace(PAPER_RATES, crossover_gen=0.0, crossover_rg=0.0, crossover_accel=0.0)
    levels = {
        "mutation": (only, PLAIN),
        "mutation, crossover-gen": (dataclasses.replace(only, crossover_gen=0.9), PLAIN),
        "all of the paper": (PAPER_RATES, PLAIN),
        "ours": (DEFAULT_RATES, gsharp_problem(("makespan",))),
    }
    print(f"\n## Ablation (Figure 12): best over the bound after 10, 30, 100 generations, median of {seeds} seeds\n")
    print("| operators | " + " | ".join(f"{b} {s} at {w}" for b, s, w in cases) + " |")
    print("|" + " --- |" * (len(cases) + 1))
    for name, (rates, problem) in levels.items():
        _, best = search_islands(jax.random.key(5), context, CONFIG, rates=rates, problem=problem)
        values = np.asarray(best)[:, :, 0].reshape(CONFIG.generations + 1, len(cases), seeds)
        middle = np.median(values, axis=2) / bounds
        cells = [", ".join(f"{middle[g, c]:.3f}" for g in (10, 30, 100)) for c in range(len(cases))]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    print("# Transfer and ablation of G#\n")
    print("Made by `experiments/gsharp_transfer.py`; LB cores `LB_rs`, bandwidth demand `as-released`.\n")
    transfer()
    ablation(arguments.seeds)


if __name__ == "__main__":
    main()
