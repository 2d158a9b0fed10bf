"""The co-optimiser against its baselines at equal evaluations, on the packaged scenarios, seeds side by side.

Hypervolume on log axes, as the share of the box between two fixed points of each scenario, which stand above its table
(`BOXES`: those of tables of the small budget, whatever `--budget`). All seeds search one set of mapping tables (seed
0). Every method is evaluated under the default package; the `paper` preset searches under its own contention and its
archive is evaluated again. Those who start from list schedules evaluate all of them first; those who do not have as
many generations more. The seeds are islands of one run: a method compiles once. Random search has a last batch more
than the others. p: of "mohamjax" against the method, two-sided and exact, by Wilcoxon's rank-sum test or, where the
method is deterministic and has one value, his signed-rank test; "unseeded p": of "mohamjax without seeds" against
random search likewise. Both after Holm over all tests of the run.

    python experiments/compare_search.py --scenarios ar-vr --seeds 10 --population 250 --generations 50
    python experiments/compare_search.py --scenarios ar-vr --seeds 10 --budget tiny --population 128 --generations 40

With `--ablation` the methods are ours with and without seeds, each operator switched off in turn, and with rates per
design instead of per layer (one layer is mapped, moved and swapped with probability 0.5 each, as many as by default on
average); p is then against the same with all operators.

    python experiments/compare_search.py --ablation --scenarios ar-vr --out experiments/results/search_operators.md
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
    MohamConfig,
    MohamContext,
    Rates,
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


OURS = METHODS[:2]
OPERATORS = tuple(field.name for field in dataclasses.fields(Rates) if field.name != "least_layers")
PER_DESIGN = ("scheduling_mutation", "mapping_mutation", "assignment_mutation")


def variants(settings: Settings) -> dict[str, Settings]:
    """Settings with each operator off in turn, and with rates per design."""

    def change(config: MohamConfig = settings.moham, **rates: float) -> Settings:
        return dataclasses.replace(settings, moham=config, rates=dataclasses.replace(settings.rates, **rates))

    return {
        **{f"no {name.replace('_', ' ')}": change(**{name: 0.0}) for name in OPERATORS},
        "rates per design": change(
            dataclasses.replace(settings.moham, rate_unit="individual"), **dict.fromkeys(PER_DESIGN, 0.5)
        ),
    }


def tested(name: str, arguments: argparse.Namespace) -> list[str | None]:
    """Which of ours a method is tested against, in the columns of p."""
    if arguments.ablation:
        base = OURS[1] if name.startswith(OURS[1]) else OURS[0]
        return [base if name != base else None]
    return [OURS[0] if name != OURS[0] else None, OURS[1] if name == "random search" else None]


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
    if arguments.ablation:
        methods = {name: methods[name] for name in OURS}
        for ours, settings, first in ((OURS[0], default, seeds), (OURS[1], plain, None)):
            for name, changed in variants(settings).items():
                methods[f"{ours}, {name}"] = lambda changed=changed, first=first: searched(changed, first=first)
    found: dict[str, list[float]] = {}
    for name in arguments.methods.split(",") if arguments.methods else methods:
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
    """Wilcoxon's test of our seeds against as many, or against one value."""
    if len(theirs) > 1:
        return float(mannwhitneyu(ours, theirs, method="exact").pvalue)
    return float(wilcoxon(np.asarray(ours) - theirs[0], method="exact").pvalue)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="small", choices=list(BUDGETS), help="of the mapper and the list schedules")
    parser.add_argument("--population", type=int, default=250)
    parser.add_argument("--generations", type=int, default=50)
    parser.add_argument("--methods", default="", help="names as in the table, with commas; default all")
    parser.add_argument("--ablation", action="store_true", help="our own operators, one by one, in place of METHODS")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables as Markdown")
    arguments = parser.parse_args()
    if arguments.ablation and arguments.methods:
        parser.error("--methods is not for --ablation")
    if unknown := set((arguments.methods or METHODS[0]).split(",")) - set(METHODS):
        parser.error(f"--methods: {', '.join(sorted(unknown))}: name some of {', '.join(METHODS)}")
    if unknown := set(arguments.scenarios.split(",")) - set(BOXES):
        parser.error(f"--scenarios: {', '.join(sorted(unknown))}: name some of {', '.join(BOXES)}")

    lines, tests = [], []
    for scenario in arguments.scenarios.split(","):
        found, evaluations = measure(scenario, arguments)
        points = " to ".join(", ".join(f"{x:.5g}" for x in point) for point in BOXES[scenario])
        lines.append((f"\n{scenario}: {evaluations:,} evaluations per seed; box (s, J, mm^2) {points}\n", None))
        heads = ["method", "median", "IQR", "least", "most", "p", *(["unseeded p"] if not arguments.ablation else [])]
        lines.append((f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", None))
        for name, values in found.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            cells = []
            for ours in tested(name, arguments):
                cells.append(None)
                if ours in found and arguments.seeds > 1:
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
        *(["", (__doc__ or "").split("\n\n")[3].strip()] if arguments.ablation else []),
    )
    for row, cells in lines:
        said = "".join(f" {'' if test is None else f'{corrected[test]:.1e}'} |" for test in cells or ())
        report.say(row + said)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
