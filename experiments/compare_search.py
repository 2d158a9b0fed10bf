"""The co-optimiser against its parts and its baselines at equal evaluations, on the packaged scenarios.

Results are hypervolumes on log axes, as shares of the scenario's box over its mapping tables. All seeds search these
tables (those of `--budget`, seed 0) without mapping again. "mohamjax" is the default but for its archive (`--archive`):
it evolves plans, and some children are adjusted parents. Some methods are single parts of it. "plans not refitted" is
the first form of plans, in which a cap on the area of a mapping's own hardware takes the place of what fits the chiplet
as it stands, and single layers are never adjusted; "adjusting alone" only adjusts single layers, from random designs
and with random immigrants; "random plans" decodes random plans and keeps the front; "refitting alone" is the archive of
"layers", with each design as it is and, under every weight, with all layers on the best mapping that fits their
chiplet, for which "layers" searches as many evaluations less. "plans alone" and "survival by crowding" are the default
without one of its parts: the former never adjusts single layers, the latter sorts the first front and thins the archive
by crowding. "layers" is the default of 84a5f18, which starts from list schedules, as does "NSGA-II with our seeds".
Every method is evaluated under the default package; the `paper` preset searches under its own contention and its
archive is evaluated again. Evaluations include list schedules; each method stops before the first generation that would
take it beyond `--evaluations`, random search and random plans after the batch that does; the lists alone take few. The
seeds are islands of one run, so that a method compiles once. p is two-sided and exact, for "mohamjax" against the
method, by Wilcoxon's rank-sum test or, where the method is deterministic and has one value, his signed-rank test;
"unseeded p" is the same for "layers without seeds" against random search. Both are corrected by Holm's method over all
tests of the run. "of reference" is the median as a share of the reference front (`reference_fronts.py`), where there is
one and the budget is `paper`.

    python experiments/compare_search.py --evaluations 16000 --out experiments/results/compare_search.md
    python experiments/compare_search.py --evaluations 75000 --population 1000
    python experiments/compare_search.py --scenarios ar-vr --seeds 2 --budget tiny --population 32 --evaluations 2000

With `--ablation plans` the methods are "mohamjax" with each operator of plans switched off in turn. With `--ablation
layers` they are "layers" with and without seeds, each with its operators switched off in turn, and with rates per
design instead of per layer (mapping, moving and swapping one layer have probability 0.5 each, on average as many
changes as by default). p is then against the same method with all operators.

    python experiments/compare_search.py --ablation plans --out experiments/results/plan_operators.md
    python experiments/compare_search.py --ablation layers --scenarios ar-vr
"""

import argparse
import dataclasses
import pathlib
import time

import jax
import numpy as np
from baselines import archive_of, plain_problem, random_search
from report import Report, header
from search_problem import (
    LAYERS,
    TUNED,
    Case,
    arguments_of,
    direct_problem,
    merit,
    paragraphs,
    prepared,
    read_front,
    refitted,
    schedules,
    searched,
    sized,
    spent,
    under_caps,
)
from wilcoxon_tests import holm, p_value

from mohamjax.emo.loop import SearchState
from mohamjax.problem import search_keys
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.schedule import Design
from mohamjax.search import (
    BUDGETS,
    MohamConfig,
    PlanRates,
    Rates,
    Settings,
    list_designs,
    preset_package,
)
from mohamjax.workload import SCENARIOS

OURS = "mohamjax"
UNSEEDED = "layers without seeds"
METHODS = (
    OURS, "survival by crowding", "plans not refitted", "plans alone", "adjusting alone", "random plans",
    "refitting alone", LAYERS, UNSEEDED,
    "NSGA-II with our seeds", "NSGA-II", "paper preset", "random search", "HEFT lists alone", "LPT-EFT lists alone",
)  # fmt: skip
OPERATORS = tuple(field.name for field in dataclasses.fields(Rates) if field.name != "least_layers")
PER_DESIGN = ("scheduling_mutation", "mapping_mutation", "assignment_mutation")
SHAPES = ("component", "reach", "layers")
"""Rates of plans that say how an operator works, and not how often."""
PLAN_OPERATORS = tuple(field.name for field in dataclasses.fields(PlanRates) if field.name not in SHAPES)


def variants(settings: Settings) -> dict[str, Settings]:
    """Settings of a search of layers with each operator off in turn, and with rates per design."""

    def change(config: MohamConfig = settings.moham, **rates: float) -> Settings:
        return dataclasses.replace(settings, moham=config, rates=dataclasses.replace(settings.rates, **rates))

    return {
        **{f"no {name.replace('_', ' ')}": change(**{name: 0.0}) for name in OPERATORS},
        "rates per design": change(
            dataclasses.replace(settings.moham, rate_unit="individual"), **dict.fromkeys(PER_DESIGN, 0.5)
        ),
    }


def tested(name: str, arguments: argparse.Namespace) -> list[str | None]:
    """The method that each column of p tests a method against; None where it tests nothing."""
    if arguments.ablation:
        base = next(base for base in (OURS, LAYERS, UNSEEDED) if name.startswith(base))
        return [base if name != base else None]
    return [OURS if name != OURS else None, UNSEEDED if name == "random search" else None]


def measure(scenario: str, arguments: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, int], Case]:
    """Hypervolumes and evaluations per seed, by method, and the case."""
    case = prepared(scenario, arguments.budget)
    space = case.space
    evaluations = {}

    def with_sizes(settings: Settings, batches: int = 1, less: int = 0) -> Settings:
        return sized(
            settings, arguments.evaluations - less, arguments.population, arguments.archive, arguments.seeds, batches
        )

    default = with_sizes(Settings.preset(arguments.budget))
    seeds = schedules(case, with_sizes(Settings.preset(arguments.budget, preset="layers")))
    given = 1 if seeds is None else -(-len(seeds.template) // arguments.population)
    crowded = dataclasses.replace(default, moham=dataclasses.replace(default.moham, survival="crowding"))
    layers = with_sizes(Settings.preset(arguments.budget, preset="layers"), given)
    shorter = with_sizes(layers, given, less=len(WEIGHTS) * arguments.archive)
    plain = with_sizes(layers)
    plain = dataclasses.replace(plain, moham=dataclasses.replace(plain.moham, seeded=False))
    paper = with_sizes(Settings.preset(arguments.budget, preset="paper"))

    def merits(state: SearchState) -> list[float]:
        return [merit(island, space) for island in np.asarray(state.archive.objectives)]

    def again(designs: Design, valid: jax.Array) -> list[float]:
        """Designs `[I, K, ...]` evaluated under the default package."""
        once = jax.vmap(lambda genes, valid: archive_of(genes, space, plain.moham, valid)[0].objectives[0])
        return [merit(island, space) for island in np.asarray(jax.jit(once)(designs, valid))]

    def count(name: str, number: int) -> None:
        evaluations[name] = number

    def search(name: str, settings: Settings, batches: int = 1, **changes: object) -> list[float]:
        count(name, spent(settings.moham, batches))
        return merits(searched(case, settings, **changes))  # type: ignore[arg-type]

    plans_alone = dataclasses.replace(default, plan_rates=dataclasses.replace(default.plan_rates, adjusting=0.0))

    def refitting() -> list[float]:
        state = searched(case, shorter, seeds=seeds)
        count("refitting alone", spent(shorter.moham, given) + len(WEIGHTS) * arguments.archive)
        designs = jax.jit(jax.vmap(refitted, in_axes=(0, None)))(state.archive.genes, space)
        return again(designs, np.tile(np.asarray(state.archive.valid), (1, 1 + len(WEIGHTS))))

    def contended() -> list[float]:
        problem = case.problem.replace(package=preset_package("paper"))
        own = problem.space(search_keys(0)[1], case.tables, paper.goals, orders=paper.moham.orders)
        state = searched(case, paper, space=own)
        count("paper preset", spent(paper.moham))
        return again(state.archive.genes, state.archive.valid)

    def at_random(name: str, config: MohamConfig) -> list[float]:
        count(name, -(-arguments.evaluations // config.population) * config.population)
        archive, _ = random_search(case.search_key, space, config, arguments.evaluations)
        return [merit(island, space) for island in np.asarray(archive.objectives)]

    def lists(name: str, priority: str) -> list[float]:
        designs = list_designs(case.problem, case.tables, space.evaluation.unique.shape[0], priorities=[priority])
        assert designs is not None
        count(name, len(designs.template))
        return [merit(archive_of(designs, space, plain.moham)[0].objectives[0], space)]

    methods = {
        OURS: lambda: search(OURS, default),
        "survival by crowding": lambda: search("survival by crowding", crowded),
        "plans not refitted": lambda: search("plans not refitted", plans_alone, space=under_caps(case)),
        "plans alone": lambda: search("plans alone", plans_alone),
        "adjusting alone": lambda: search("adjusting alone", default, problem=direct_problem(default.moham)),
        "random plans": lambda: at_random("random plans", default.moham),
        "refitting alone": refitting,
        LAYERS: lambda: search(LAYERS, layers, given, seeds=seeds),
        UNSEEDED: lambda: search(UNSEEDED, plain),
        "NSGA-II with our seeds": lambda: search(
            "NSGA-II with our seeds", layers, given, problem=plain_problem(layers.moham), seeds=seeds
        ),
        "NSGA-II": lambda: search("NSGA-II", plain, problem=plain_problem(plain.moham)),
        "paper preset": contended,
        "random search": lambda: at_random("random search", plain.moham),
        "HEFT lists alone": lambda: lists("HEFT lists alone", "heft"),
        "LPT-EFT lists alone": lambda: lists("LPT-EFT lists alone", "lpt"),
    }
    assert tuple(methods) == METHODS
    if arguments.ablation == "plans":
        methods = {OURS: methods[OURS]}
        for name in PLAN_OPERATORS:
            rates = dataclasses.replace(default.plan_rates, **{name: 0.0})
            label = f"{OURS}, no {name}"
            changed = dataclasses.replace(default, plan_rates=rates)
            methods[label] = lambda label=label, changed=changed: search(label, changed)
    elif arguments.ablation == "layers":
        methods = {name: methods[name] for name in (LAYERS, UNSEEDED)}
        for base, settings, first, batches in ((LAYERS, layers, seeds, given), (UNSEEDED, plain, None, 1)):
            for name, changed in variants(settings).items():
                label = f"{base}, {name}"
                methods[label] = lambda label=label, changed=changed, first=first, batches=batches: search(
                    label, changed, batches, seeds=first
                )
    found: dict[str, list[float]] = {}
    for name in arguments.methods.split(",") if arguments.methods else methods:
        began = time.perf_counter()
        found[name] = methods[name]()
        seconds = time.perf_counter() - began
        print(f"{scenario}: {name}: median {np.median(found[name]):.4f} ({seconds:.0f} s with compile)", flush=True)
    return found, evaluations, case


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="paper", choices=list(BUDGETS), help="of the mapper and the list schedules")
    parser.add_argument("--evaluations", type=int, default=16_000, help="per seed, at most")
    parser.add_argument("--population", type=int, default=250)
    parser.add_argument("--archive", type=int, default=512)
    parser.add_argument("--methods", default="", help="names as in the table, with commas; default all")
    parser.add_argument("--ablation", choices=("plans", "layers"), help="operators one by one, in place of METHODS")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables as Markdown")
    arguments = parser.parse_args()
    if arguments.ablation and arguments.methods:
        parser.error("--methods is not for --ablation")
    if unknown := set((arguments.methods or METHODS[0]).split(",")) - set(METHODS):
        parser.error(f"--methods: {', '.join(sorted(unknown))}: name some of {', '.join(METHODS)}")

    lines, tests = [], []
    for scenario in arguments.scenarios.split(","):
        found, evaluations, case = measure(scenario, arguments)
        best = read_front(scenario)[0] if arguments.budget == "paper" else []
        whole = merit(best, case.space) if len(best) else None
        lines.append(
            (f"\n{scenario}: box (s, J, mm^2) {case.box}{'' if whole is None else f'; reference {whole:.4f}'}\n", None)
        )
        heads = ["method", "evaluations", "median", "IQR", "least", "most"]
        heads += ["of reference"] if whole is not None else []
        heads += ["p", *(["unseeded p"] if not arguments.ablation else [])]
        lines.append((f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", None))
        for name, values in found.items():
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            cells = []
            for ours in tested(name, arguments):
                cells.append(None)
                if ours in found and arguments.seeds > 1:
                    cells[-1] = len(tests)
                    tests.append(p_value(found[ours], values))
            row = f"| {name} | {evaluations[name]:,} | {middle:.4f} | {high - low:.4f} | {min(values):.4f} |"
            row += f" {max(values):.4f} |" + ("" if whole is None else f" {100 * middle / whole:.2f} % |")
            lines.append((row, cells))
    corrected = holm(tests)
    report = Report()
    said = paragraphs(__doc__)
    report.say(
        f"{header()}: {arguments.seeds} seeds, populations of {arguments.population}, archives of "
        f"{arguments.archive}, mapping tables of the budget `{arguments.budget}`. {TUNED}",
        "",
        said[1],
        *(["", said[3]] if arguments.ablation else []),
    )
    for row, cells in lines:
        report.say(row + "".join(f" {'' if test is None else f'{corrected[test]:.1e}'} |" for test in cells or ()))
    report.write(arguments.out)


if __name__ == "__main__":
    main()
