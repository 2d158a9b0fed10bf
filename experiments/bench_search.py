"""Designs per second of the co-optimiser against the size of its population, evaluation alone and whole generations.

A whole generation is selection, variation, evaluation, ranking, survival and the archive. Where its time goes: breeding
(tournament, operators, immigrants), evaluation, and survival (ranking, crowding, archive, metrics), each compiled by
itself, in percent of their sum. Every size runs in a process of its own, which also states the memory that it took at
most; run time is the median of interleaved repeats, compile time stands apart, and a second call with other keys, rates
and designs must not compile again. Mapping tables: tiny budget, seed 0.

    python experiments/bench_search.py --scenario ar-vr --populations 256,1024,4096,16384,65536
"""

import argparse
import dataclasses
import functools
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
from report import Report, when_and_where

from mohamjax.emo import ArchivedState
from mohamjax.hardware import load_technology, load_templates
from mohamjax.io import mapping_cache
from mohamjax.search import (
    BUDGETS,
    PAPER_RATES,
    Rates,
    Settings,
    anywhere,
    build_context,
    design_problem,
    map_layers,
    seed_designs,
)
from mohamjax.search.loop import generations, start
from mohamjax.workload import load_scenario

PARTS = ("breeding", "evaluation of offspring", "survival")


def measure(scenario: str, population: int, repeats: int) -> dict[str, float]:
    application = load_scenario(scenario)
    templates, technology = load_templates(), load_technology()
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), technology)
    map_key, context_key, key = jax.random.split(jax.random.key(0), 3)
    tables = map_layers(
        map_key, application.unique_layers, templates, technology, BUDGETS["tiny"].mapper, cache=mapping_cache()
    )
    settings = Settings.preset("tiny")
    config = dataclasses.replace(settings.moham, population=population)
    context = build_context(context_key, application, templates, single, tables, settings.package, config)
    site = anywhere(application, templates, config)
    # As many list schedules as a small population has: the rest is random, as for every size.
    few = dataclasses.replace(config, population=min(population, 128), seed_batches=1)
    seeds = seed_designs(application, tables, settings.package, few, context.bench.unique.shape[0], site)
    problem = design_problem(config)
    rates = jax.tree.map(jnp.float32, Rates())
    fixed = {"problem": problem, "chunk": 1}
    sizes = {"population": population, "immigrants": config.immigrant_count, "archive": config.archive}
    first = jax.jit(functools.partial(start, problem=problem, islands=1, **sizes))
    state = first(key, context)
    joined = jax.tree.map(lambda s, c: jnp.concatenate([s[None], c[:, len(s) :]], axis=1), seeds, state.candidates)
    state = dataclasses.replace(state, candidates=joined)

    def step(state, rates=rates, count=1):
        return generations(state, context, rates, jnp.int32(count), jnp.bool_(True), **fixed)[0]

    began = time.perf_counter()
    jax.block_until_ready(step(state, count=0))
    compile_s = time.perf_counter() - began
    state = jax.block_until_ready(step(state))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # before the parts are compiled by themselves
    search = problem.search(**sizes, objectives=3, dtype=jnp.float32)
    own = jax.tree.map(lambda leaf: leaf[0], ArchivedState(population=state.population, archive=state.archive))
    breeding = jax.jit(lambda own, context, rates: search.ask(own, context=context, rates=rates))
    evaluation = jax.jit(problem.evaluate)
    survival = jax.jit(lambda own, children, values, context: search.tell(own, children, values, context=context))
    children = breeding(own, context, rates)
    values = evaluation(children, context)
    parts = {
        "breeding": lambda: breeding(own, context, rates),
        "evaluation of offspring": lambda: evaluation(children, context),
        "survival": lambda: survival(own, children, values, context),
        "evaluation": lambda: evaluation(own.population.genes, context),
    }
    for part in parts.values():
        jax.block_until_ready(part())
    seconds: dict[str, list[float]] = {name: [] for name in ("generation", *parts)}
    for _ in range(repeats):
        for name, part in parts.items():
            tick = time.perf_counter()
            jax.block_until_ready(part())
            seconds[name].append(time.perf_counter() - tick)
        tick = time.perf_counter()
        state = jax.block_until_ready(step(state))
        seconds["generation"].append(time.perf_counter() - tick)
    # Another key, other rates and other designs: the same program.
    step(first(jax.random.key(1), context), jax.tree.map(jnp.float32, PAPER_RATES))
    assert generations._cache_size() == 1, "a generation was compiled again"
    spent = {name: statistics.median(seconds[name]) for name in PARTS}
    return {
        **{name: 100 * part / sum(spent.values()) for name, part in spent.items()},
        "population": population,
        "compile_s": compile_s,
        "evaluation": population / statistics.median(seconds["evaluation"]),
        "generation": (population + config.immigrant_count) / statistics.median(seconds["generation"]),
        "memory_MB": memory,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", default="ar-vr")
    parser.add_argument("--populations", default="256,1024,4096,16384,65536")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    parser.add_argument("--one", action="store_true", help="measure in this process, print JSON")
    arguments = parser.parse_args()
    sizes = [int(n) for n in arguments.populations.split(",")]
    if arguments.one:
        print(json.dumps(measure(arguments.scenario, sizes[0], arguments.repeats)))
        return
    report = Report()
    report.say(f"{when_and_where()}; {arguments.scenario}.", "", (__doc__ or "").split("\n\n")[1].strip(), "")
    report.head(
        "population", "designs/s, evaluation", "designs/s, generation", "breeding / evaluation / survival [%]",
        "compile [s]", "memory [MB]",
    )  # fmt: skip
    for size in sizes:
        command = [sys.executable, __file__, "--one", "--populations", str(size), "--scenario", arguments.scenario]
        done = subprocess.run(
            [*command, "--repeats", str(arguments.repeats)], check=True, capture_output=True, text=True
        )
        row = json.loads(done.stdout.splitlines()[-1])
        speeds = [f"{row[name]:,.0f}" for name in ("evaluation", "generation")]
        parts = " / ".join(f"{row[name]:.0f}" for name in PARTS)
        report.row(f"{size:,}", *speeds, parts, f"{row['compile_s']:.0f}", f"{row['memory_MB']:,.0f}")
    report.write(arguments.out)


if __name__ == "__main__":
    main()
