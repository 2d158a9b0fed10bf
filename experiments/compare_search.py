"""The co-optimiser against its baselines at equal evaluations, on the packaged scenarios, seeds side by side.

Hypervolume on log axes, as the share of the box between two fixed points of each scenario, which stand above its table
(`BOXES`). All seeds search one set of mapping tables (seed 0). Every method is evaluated under the default package; the
`paper` preset searches under its own contention and its archive is evaluated again. Those who start from list schedules
evaluate all of them first; those who do not have as many generations more. The seeds are islands of one run: a method
compiles once. Random search has a last batch more than the others. p: of "mohamjax" against the method, two-sided and
exact, by Wilcoxon's rank-sum test or, where the method is deterministic and has one value, his signed-rank test;
"unseeded p": of "mohamjax without seeds" against random search likewise. Both after Holm over all tests of the run.

    python experiments/compare_search.py --scenarios ar-vr --seeds 10 --population 250 --generations 50
    python experiments/compare_search.py --scenarios ar-vr --seeds 5 --budget tiny --population 128 --generations 40
"""

import argparse
import dataclasses
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from report import Report, when_and_where
from scipy.stats import mannwhitneyu, wilcoxon

from mohamjax.hardware import load_technology, load_templates
from mohamjax.search import (
    BUDGETS,
    MohamContext,
    Settings,
    anywhere,
    archive_of,
    build_context,
    cache_folder,
    list_designs,
    log_hypervolume,
    map_layers,
    plain_problem,
    random_search,
    run,
    seed_designs,
)
from mohamjax.workload import SCENARIOS, load_scenario

METHODS = (
    "mohamjax", "mohamjax without seeds", "NSGA-II with our seeds", "NSGA-II", "paper preset", "random search",
    "HEFT lists alone", "LPT-EFT lists alone",
)  # fmt: skip


BOXES = {
    "ar-vr": ((0.0028348, 0.084671, 0.011329), (38.258, 6.0867, 1074.9)),
    "edge": ((0.007044, 0.71977, 0.0027194), (343.72, 54.463, 1074.9)),
    "mobile": ((0.015301, 0.046215, 0.011329), (14.909, 2.0479, 1074.9)),
    "data-center": ((0.0056206, 0.65394, 0.0027194), (308.07, 47.206, 1074.9)),
}
"""Ideal and reference point (s, J, mm^2): those of a search over tables of the small budget, seed 0."""


def sized(settings: Settings, arguments: argparse.Namespace) -> Settings:
    sizes = {
        "population": arguments.population,
        "generations": arguments.generations,
        "chunk": arguments.generations,
        "islands": arguments.seeds,
    }
    return dataclasses.replace(settings, moham=dataclasses.replace(settings.moham, **sizes))


def measure(scenario: str, arguments: argparse.Namespace) -> tuple[dict[str, list[float]], int]:
    """Hypervolumes of every method, and evaluations per seed."""
    application = load_scenario(scenario)
    templates, technology = load_templates(), load_technology()
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), technology)
    map_key, context_key, search_key = jax.random.split(jax.random.key(0), 3)
    mapper = BUDGETS[arguments.budget].mapper
    tables = map_layers(map_key, application.unique_layers, templates, technology, mapper, cache=cache_folder())
    default = sized(Settings.preset(arguments.budget), arguments)
    paper = sized(Settings.preset(arguments.budget, preset="paper"), arguments)
    config = default.moham
    unseeded = dataclasses.replace(config, seeded=False)
    site = anywhere(application, templates, config)
    context = build_context(context_key, application, templates, single, tables, default.package, config, site)
    contended = build_context(context_key, application, templates, single, tables, paper.package, paper.moham, site)
    ideal, reference = (jnp.asarray(point, jnp.float32) for point in BOXES[scenario])
    judge: MohamContext = dataclasses.replace(context, ideal=ideal, reference=reference)
    layers = context.bench.unique.shape[0]
    seeds = seed_designs(application, tables, default.package, config, layers, site)
    textbook = plain_problem(config)

    def merit(objectives: jax.Array) -> jax.Array:
        return jax.jit(jax.vmap(lambda f: log_hypervolume(f, judge)))(objectives)

    def searched(settings: Settings, problem: object = None, first: object = None, own: object = context) -> jax.Array:
        (*_, (state, _)) = run(search_key, own, settings.moham, rates=settings.rates, seeds=first, problem=problem)  # type: ignore[arg-type]
        if own is context:
            return merit(state.archive.objectives)
        again = jax.vmap(lambda genes, valid: archive_of(genes, judge, config, valid)[1][0])
        return jax.jit(again)(state.archive.genes, state.archive.valid)

    # The list schedules are evaluated before the first generation: those who start without them get as many more.
    given = 0 if seeds is None else -(-len(seeds.template) // config.population)
    longer = arguments.generations + given - 1
    unseeded = dataclasses.replace(unseeded, generations=longer)
    paper = dataclasses.replace(paper, moham=dataclasses.replace(paper.moham, generations=longer))
    evaluations = (arguments.generations + given) * (config.population + config.immigrant_count)
    plain = dataclasses.replace(default, moham=unseeded)
    methods = {
        "mohamjax": lambda: searched(default, first=seeds),
        "mohamjax without seeds": lambda: searched(plain),
        "NSGA-II with our seeds": lambda: searched(default, textbook, seeds),
        "NSGA-II": lambda: searched(plain, plain_problem(unseeded)),
        "paper preset": lambda: searched(paper, own=contended),
        "random search": lambda: random_search(search_key, judge, unseeded, evaluations)[1][-1],
    }
    for priority, name in (("heft", "HEFT lists alone"), ("lpt", "LPT-EFT lists alone")):
        lists = list_designs(application, tables, default.package, site, layers, priorities=[priority])
        assert lists is not None
        methods[name] = lambda lists=lists: archive_of(lists, judge, config)[1]
    assert tuple(methods) == METHODS
    found: dict[str, list[float]] = {}
    for name in arguments.methods.split(",") if arguments.methods else METHODS:
        method = methods[name]
        began = time.perf_counter()
        found[name] = [float(x) for x in method()]
        seconds = time.perf_counter() - began
        print(f"{scenario}: {name}: median {np.median(found[name]):.4f} ({seconds:.0f} s with compile)", flush=True)
    return found, evaluations


def holm(p: list[float]) -> list[float]:
    """Holm's correction of several p values."""
    order = np.argsort(p)
    out, worst = [0.0] * len(p), 0.0
    for place, i in enumerate(order):
        worst = max(worst, min(1.0, p[i] * (len(p) - place)))
        out[i] = worst
    return out


def p_value(ours: list[float], theirs: list[float]) -> float:
    """Wilcoxon's test of ten seeds against as many, or against one value."""
    if len(theirs) > 1:
        return float(mannwhitneyu(ours, theirs, method="exact").pvalue)
    return float(wilcoxon(np.asarray(ours) - theirs[0], method="exact").pvalue)


AGAINST = {
    *((method, "mohamjax") for method in METHODS[1:]),
    ("random search", "mohamjax without seeds"),
}
"""Pairs that are tested: method, and which of ours it is tested against."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="small", choices=list(BUDGETS), help="of the mapper and the list schedules")
    parser.add_argument("--population", type=int, default=250)
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--methods", default="", help="names as in the table, with commas; default all")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables as Markdown")
    arguments = parser.parse_args()
    if unknown := set(filter(None, arguments.methods.split(","))) - set(METHODS):
        parser.error(f"--methods: {', '.join(sorted(unknown))}: name some of {', '.join(METHODS)}")

    lines, tests = [], []
    for scenario in arguments.scenarios.split(","):
        found, evaluations = measure(scenario, arguments)
        points = " to ".join(", ".join(f"{x:.5g}" for x in point) for point in BOXES[scenario])
        lines.append((f"\n{scenario}: {evaluations:,} evaluations per seed; box (s, J, mm^2) {points}\n", None))
        lines.append((f"| method | median | IQR | least | most | p | unseeded p |\n|{' --- |' * 7}", None))
        for name, values in found.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            cells = []
            for ours in ("mohamjax", "mohamjax without seeds"):
                cells.append(None)
                if (name, ours) in AGAINST and ours in found and arguments.seeds > 1:
                    cells[-1] = len(tests)
                    tests.append(p_value(found[ours], values))
            row = f"| {name} | {middle:.4f} | {high - low:.4f} | {min(values):.4f} | {max(values):.4f} |"
            lines.append((row, cells))
    corrected = holm(tests)
    report = Report()
    report.say(
        f"{when_and_where()}; {arguments.seeds} seeds, populations of {arguments.population}, {arguments.generations} "
        f"generations after the list schedules; mapping tables of the budget `{arguments.budget}`.",
        "",
        (__doc__ or "").split("\n\n")[1].strip(),
    )
    for row, cells in lines:
        said = "".join(f" {'' if test is None else f'{corrected[test]:.1e}'} |" for test in cells or ())
        report.say(row + said)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
