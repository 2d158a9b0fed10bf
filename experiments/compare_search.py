"""The co-optimiser against random search at equal evaluations, on one scenario and several seeds.

Prints the hypervolume (log axes, share of the box between the ideal and the reference point, which depend on the
mapping tables alone) of every method and seed, and in how many seeds each beats random search.

    python experiments/compare_search.py ar-vr --seeds 5 --population 128 --generations 40
"""

import argparse
import dataclasses
import statistics

import jax
import jax.numpy as jnp

from mohamjax.hardware import load_technology, load_templates
from mohamjax.search import (
    BUDGETS,
    MohamConfig,
    Settings,
    anywhere,
    build_context,
    cache_folder,
    map_layers,
    random_search,
    run,
    seed_designs,
)
from mohamjax.workload import load_scenario


def variants(population: int, generations: int) -> dict[str, Settings]:
    sizes = {"population": population, "generations": generations, "chunk": generations}
    default, paper = Settings.preset("tiny"), Settings.preset("tiny", preset="paper")
    plain = dataclasses.replace(default, moham=dataclasses.replace(default.moham, seeded=False))
    # The paper's contention is another problem; here it is the paper's operators on ours.
    paper = dataclasses.replace(paper, package=default.package)
    chosen = {"mohamjax": default, "without seeds": plain, "paper's operators": paper}
    return {name: dataclasses.replace(s, moham=dataclasses.replace(s.moham, **sizes)) for name, s in chosen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--population", type=int, default=128)
    parser.add_argument("--generations", type=int, default=40)
    arguments = parser.parse_args()

    application = load_scenario(arguments.scenario)
    templates, technology = load_templates(), load_technology()
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), technology)
    map_key = jax.random.split(jax.random.key(0), 3)[0]
    tables = map_layers(
        map_key, application.unique_layers, templates, technology, BUDGETS["tiny"].mapper, cache=cache_folder()
    )
    found: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        context_key, search_key = jax.random.split(jax.random.key(1000 + seed))
        for name, settings in variants(arguments.population, arguments.generations).items():
            config: MohamConfig = settings.moham
            site = anywhere(application, templates, config)
            context = build_context(context_key, application, templates, single, tables, settings.package, config)
            seeds = seed_designs(application, tables, settings.package, config, context.bench.unique.shape[0], site)
            (*_, (_, last)) = run(search_key, context, config, rates=settings.rates, seeds=seeds)
            found.setdefault(name, []).append(last.hypervolume[-1])
            if name == "mohamjax":
                _, merit = random_search(search_key, context, config, last.evaluations)
                found.setdefault("random", []).append(float(merit[-1]))
        print(f"seed {seed}: " + ", ".join(f"{name} {values[-1]:.4f}" for name, values in found.items()), flush=True)

    evaluations = (arguments.generations + 1) * round(1.1 * arguments.population)
    print(f"\n{arguments.scenario}, about {evaluations} evaluations, {arguments.seeds} seeds")
    print("| method | median | least | most | beats random |\n| --- | --- | --- | --- | --- |")
    for name, values in found.items():
        wins = sum(a > b for a, b in zip(values, found["random"], strict=True))
        print(
            f"| {name} | {statistics.median(values):.4f} | {min(values):.4f} | {max(values):.4f} | "
            f"{wins} of {len(values)} |"
        )


if __name__ == "__main__":
    main()
