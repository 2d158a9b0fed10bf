"""Designs per second of whole generations of the co-optimiser by population size, and where their time goes.

A whole generation is selection, variation, evaluation, ranking, survival and the archive, as in `search.Generations`.
Its rate is the candidates of a call over its seconds, the median of all calls after the first two; compile time is
listed separately. The program is that of searches of more than 250,000 designs; shorter ones, but for the shortest,
run one that compiles in two fifths of the time and takes up to two thirds longer. Every figure comes from a process
of its own, which also reports its peak memory. With `--against` each process is followed by one of the other
checkout, `--repeats` times, and the ratio is the median over the pairs. For this checkout, the time of breeding
(tournament, operators, decoding), evaluation, and survival (ranking, hypervolume, archive), each compiled by itself,
is given in percent of their sum. The script asserts that another key, other rates and other designs compile nothing
again. Each checkout makes its own mapping tables, with the budget `tiny` and seed 0.

    python experiments/bench_search.py --scenarios ar-vr,edge --populations 256,1024,16384 --against ../before
"""

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
from report import Report, header

HERE = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("breeding", "evaluation", "survival")


def measure(scenario: str, population: int, genes: str, parts: bool) -> dict[str, float]:
    """Figures of one process, by names that exist since commit 68cf341, in which searches became classes."""
    import mohamjax as mj
    from mohamjax.hardware import load_technology, load_templates
    from mohamjax.mapper import LayerMapper
    from mohamjax.search import BUDGETS, Generations, Settings
    from mohamjax.workload import load_scenario

    application = load_scenario(scenario)
    templates, technology = load_templates(), load_technology()
    map_key, _, key = jax.random.split(jax.random.key(0), 3)
    tables = LayerMapper(application.unique_layers, templates, technology, BUDGETS["tiny"].mapper).search(map_key)
    settings = Settings.preset("tiny", preset="default" if genes == "plans" else "layers")
    calls, each = (10, 10) if population < 4096 else (6, 2)
    long = 300_000 // population + calls * each
    sizes = {"population": population, "generations": long, "chunk": each, "seeded": False, "archive": 512}
    config = dataclasses.replace(settings.moham, **sizes)
    space = mj.DesignProblem(application, templates).arrays(tables)  # in a form that other checkouts have, too
    speeds, told, compile_s, state = [], 0, 0.0, None
    for state, progress in Generations(key, space, config):  # noqa: B007
        speeds.append((progress.evaluations - told) / progress.step_s)
        told, compile_s = progress.evaluations, progress.compile_s
        if len(speeds) == calls:
            break
    found = {"generation": statistics.median(speeds[2:]), "compile_s": compile_s}
    found["memory_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return found | (shares(state, space, config, settings) if parts else {})


def shares(state, space, config, settings) -> dict[str, float]:
    """Percent of a generation's time by part, each part a program of its own."""
    from mohamjax.emo import ArchivedState
    from mohamjax.emo.loop import Sizes, generations
    from mohamjax.search import Generations, genetic_problem

    problem = genetic_problem(config)
    rates = jax.tree.map(jnp.float32, settings.plan_rates if config.genes == "plans" else settings.rates)
    # Another key, other rates and other designs: the same program.
    next(iter(Generations(jax.random.key(1), space, config, rates=jax.tree.map(lambda rate: rate / 2, rates))))
    assert generations._cache_size() == 1, "a generation was compiled again"
    sizes = Sizes(population=config.population, immigrants=config.immigrant_count, archive=config.archive)
    search = problem.search(sizes, objectives=3, dtype=jnp.float32)
    own = jax.tree.map(lambda leaf: leaf[0], ArchivedState(population=state.population, archive=state.archive))
    breeding = jax.jit(lambda own, space, rates: search.ask(own, context=space, rates=rates))
    evaluation = jax.jit(problem.evaluate)
    survival = jax.jit(lambda own, children, values, space: search.tell(own, children, values, context=space))
    children = breeding(own, space, rates)
    values = evaluation(children, space)
    parts = {
        "breeding": lambda: breeding(own, space, rates),
        "evaluation": lambda: evaluation(children, space),
        "survival": lambda: survival(own, children, values, space),
    }
    seconds: dict[str, list[float]] = {name: [] for name in PARTS}
    for turn in range(6):
        for name, part in parts.items():
            tick = time.perf_counter()
            jax.block_until_ready(part())
            if turn:  # the first compiles
                seconds[name].append(time.perf_counter() - tick)
    spent = {name: statistics.median(values) for name, values in seconds.items()}
    return {name: 100 * part / sum(spent.values()) for name, part in spent.items()}


def one(checkout: pathlib.Path, scenario: str, population: int, genes: str, parts: bool) -> dict[str, float]:
    """Runs `measure` on a checkout in a process of its own, and returns its figures."""
    command = [sys.executable, __file__, "--one", "--populations", str(population), "--scenarios", scenario]
    command += ["--genes", genes] + ["--parts"] * parts
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), str(HERE / "experiments")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=checkout)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default="ar-vr")
    parser.add_argument("--populations", default="256,1024,4096,16384,65536")
    parser.add_argument("--genes", default="plans", choices=("plans", "layers"))
    parser.add_argument("--repeats", type=int, default=1, help="pairs of processes")
    parser.add_argument("--against", type=pathlib.Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    parser.add_argument("--one", action="store_true", help="measure in this process, print JSON")
    parser.add_argument("--parts", action="store_true", help="with --one: where the time goes, too")
    arguments = parser.parse_args()
    scenarios, sizes = arguments.scenarios.split(","), [int(n) for n in arguments.populations.split(",")]
    if arguments.one:
        print(json.dumps(measure(scenarios[0], sizes[0], arguments.genes, arguments.parts)))
        return
    report = Report()
    report.say(f"{header()}; {arguments.genes}.", "", (__doc__ or "").split("\n\n")[1].strip(), "")
    heads = [
        "scenario",
        "population",
        "designs/s",
        "breeding / evaluation / survival [%]",
        "compile [s]",
        "memory [MB]",
    ]
    report.head(*heads, *(["designs/s of the other", "ratio"] if arguments.against else []))
    for scenario in scenarios:
        for size in sizes:
            ours, theirs = [], []
            for turn in range(arguments.repeats):
                ours.append(one(HERE, scenario, size, arguments.genes, turn == 0))
                if arguments.against:
                    theirs.append(one(arguments.against.resolve(), scenario, size, arguments.genes, False))
            middle = {name: statistics.median(row[name] for row in ours) for name in ("generation", "compile_s")}
            parts = " / ".join(f"{ours[0][name]:.0f}" for name in PARTS)
            cells = [
                f"{middle['generation']:,.0f}",
                parts,
                f"{middle['compile_s']:.0f}",
                f"{ours[0]['memory_MB']:,.0f}",
            ]
            if theirs:
                ratios = [a["generation"] / b["generation"] for a, b in zip(ours, theirs, strict=True)]
                cells += [f"{statistics.median(row['generation'] for row in theirs):,.0f}"]
                cells += [f"{statistics.median(ratios):.2f}"]
            report.row(scenario, f"{size:,}", *cells)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
