"""Reference fronts: per scenario the union of the archives of long runs of several methods over fixed mapping tables.

These fronts are the yardstick of searches over the tables of the `paper` budget, seed 0, without mapping again. The
script reads the committed front (reference_fronts.csv.gz: objectives, method and seed of each design), adds to it, one
after the other, the requested runs that the list of runs (reference_fronts_runs.csv) does not hold yet, and writes both
files after each, so that only a run that was stopped is done again. Designs that others dominate are dropped; beyond
4,000 designs of a scenario those nearest to others on log axes are dropped too, but never the ends, and the list of
runs tells what that costs. Objectives are those of the archived designs, evaluated again in double precision
(`--precision double`) or as the search has them in single precision. Methods: `plans` (the default search), `plans
alone` (never adjusts single layers), `adjusting alone` (only adjusts single layers), and `layers` (the default of
84a5f18, which starts from list schedules). Every run has one seed; runs of equal method, population, archive,
evaluations and seed are the same run. The table gives the evaluations spent so far per scenario and method, out of the
5,000,000 planned for each.

    python experiments/reference_fronts.py --evaluations 5000000 --populations 1000,4000 --methods "plans,plans alone"
    python experiments/reference_fronts.py --evaluations 500000 --seeds 0,1 --methods layers --scenarios edge
    python experiments/reference_fronts.py --evaluations 0
"""

import dataclasses
import pathlib

import jax
import numpy as np
from report import Report, header
from search_problem import (
    REFERENCE,
    RESULTS,
    TUNED,
    Case,
    Clock,
    arguments_of,
    direct_problem,
    merit,
    paragraphs,
    prepared,
    read_front,
    read_rows,
    schedules,
    searched,
    sized,
    spent,
    write_fronts,
)

from mohamjax.io.files import csv_text, write_text
from mohamjax.schedule import reevaluate
from mohamjax.schedule.front import front_index
from mohamjax.search import BUDGETS, Settings
from mohamjax.search.moham import designs_of
from mohamjax.workload import SCENARIOS

METHODS = ("plans", "plans alone", "adjusting alone", "layers")
MOST = 4000
RUNS, TABLE = RESULTS / "reference_fronts_runs.csv", RESULTS / "reference_fronts.md"
GOAL = 5_000_000
COLUMNS = (
    "scenario", "method", "population", "archive", "seed", "evaluations", "spent", "precision", "hypervolume", "union",
    "unthinned",
)  # fmt: skip
IDENTITY = ("scenario", "method", "population", "archive", "seed", "evaluations")


def archived(
    case: Case, method: str, population: int, archive: int, seed: int, evaluations: int, budget: str, precision: str
) -> tuple[np.ndarray, int]:
    """Objectives `[N, 3]` of the archive of one run, and its evaluations."""
    settings = Settings.preset(budget, preset="layers" if method == "layers" else "default")
    settings = sized(settings, evaluations, population, archive, 1)
    seeds, problem, batches = None, None, 1
    if method == "layers":
        seeds = schedules(case, settings)
        batches = 1 if seeds is None else -(-len(seeds.template) // population)
        settings = sized(settings, evaluations, population, archive, 1, batches)
    elif method == "plans alone":
        rates = dataclasses.replace(settings.plan_rates, adjusting=0.0)
        settings = dataclasses.replace(settings, plan_rates=rates)
    elif method == "adjusting alone":
        problem = direct_problem(settings.moham)
    done = spent(settings.moham, batches)
    # Calls of a fixed number of generations, so that runs of any length share a program.
    settings = dataclasses.replace(settings, moham=dataclasses.replace(settings.moham, chunk=20))
    key = jax.random.fold_in(case.search_key, seed)
    state = searched(case, settings, seeds=seeds, problem=problem, key=key)
    valid = np.asarray(state.archive.valid[0])
    if precision == "single":
        return np.asarray(state.archive.objectives[0], np.float64)[valid], done
    designs = jax.tree.map(lambda leaf: np.asarray(leaf)[0][valid], designs_of(state.archive.genes))
    found = reevaluate(case.problem.setup, case.tables.mapping, np.asarray(case.tables.count), designs)
    return np.asarray(found.reports.objectives), done


def thinned(objectives: np.ndarray, most: int) -> np.ndarray:
    """Indices of at most `most` rows, spread by farthest-first traversal on log axes, starting from the ends."""
    if len(objectives) <= most:
        return np.arange(len(objectives))
    points = np.log(objectives)
    points = (points - points.min(axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-12)
    chosen = sorted({int(i) for i in objectives.argmin(axis=0)})
    nearest = np.min([((points - points[i]) ** 2).sum(axis=1) for i in chosen], axis=0)
    while len(chosen) < most:
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.sort(chosen)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--methods", default="plans,plans alone,layers", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--populations", default="1000", help="with commas: a run of each method with each")
    parser.add_argument("--archive", type=int, default=2048)
    parser.add_argument("--seeds", default="0", help="with commas")
    parser.add_argument("--evaluations", type=int, default=GOAL, help="of every run; 0 only writes the table")
    parser.add_argument("--precision", choices=("double", "single"), default="double")
    parser.add_argument(
        "--budget", default="paper", choices=list(BUDGETS), help="of the tables; others only for trials"
    )
    parser.add_argument("--front", type=pathlib.Path, default=REFERENCE)
    parser.add_argument("--runs", type=pathlib.Path, default=RUNS)
    parser.add_argument("--out", type=pathlib.Path, default=TABLE)
    arguments = parser.parse_args()
    methods, scenarios = arguments.methods.split(","), arguments.scenarios.split(",")
    if unknown := set(methods) - set(METHODS):
        parser.error(f"--methods: {', '.join(sorted(unknown))}: name some of {', '.join(METHODS)}")
    files = {arguments.front: REFERENCE, arguments.runs: RUNS, arguments.out: TABLE}
    if arguments.budget != "paper" and any(given.resolve() == committed for given, committed in files.items()):
        parser.error("--budget: what is committed is of the budget `paper`; give --front, --runs and --out as well")

    clock, runs = Clock(), read_rows(arguments.runs)
    fronts = {name: read_front(name, arguments.front) for name in sorted({*SCENARIOS, *scenarios})}
    cases: dict[str, Case] = {}
    for scenario in scenarios:
        case = cases[scenario] = prepared(scenario, arguments.budget)
        # Seeds come last, so that programs are used again from seed to seed.
        plans = [(m, int(p), int(s)) for m in methods for p in arguments.populations.split(",")
                 for s in arguments.seeds.split(",")]  # fmt: skip
        for method, population, seed in plans if arguments.evaluations else []:
            identity = [scenario, method, population, arguments.archive, seed, arguments.evaluations]
            if any([run[name] for name in IDENTITY] == [str(x) for x in identity] for run in runs):
                clock.say(f"{scenario}, {method}, population {population}, seed {seed}: done before")
                continue
            objectives, done = archived(
                case, method, population, arguments.archive, seed, arguments.evaluations, arguments.budget,
                arguments.precision,
            )  # fmt: skip
            known, origin = fronts[scenario]
            label = f"{method} {population}"
            both = np.concatenate([known, objectives])
            origin = [*origin, *[(label, str(seed))] * len(objectives)]
            kept = front_index(both)
            unthinned = merit(both[kept], case.space)
            kept = kept[thinned(both[kept], MOST)]
            fronts[scenario] = both[kept], [origin[i] for i in kept]
            own, union = merit(objectives, case.space), merit(both[kept], case.space)
            # The evaluations asked for identify a run; those spent are of whole generations.
            values = [*identity, done, arguments.precision, f"{own:.5f}", f"{union:.5f}", f"{unthinned:.5f}"]
            runs.append(dict(zip(COLUMNS, map(str, values), strict=True)))
            write_fronts({name: front for name, front in fronts.items() if len(front[0])}, arguments.front)
            write_text(arguments.runs, csv_text(runs, COLUMNS))
            clock.say(f"{scenario}, {label}, seed {seed}: {done:,} evaluations, {own:.5f}, union {union:.5f}")

    report = Report()
    report.say(
        f"{header()} (the last run). Tables of the budget `{arguments.budget}`, seed 0. {TUNED}", "",
        paragraphs(__doc__)[1], "",
    )  # fmt: skip
    for scenario in fronts:
        if not len(fronts[scenario][0]):
            continue
        case = cases.get(scenario) or prepared(scenario, arguments.budget)
        objectives, origin = fronts[scenario]
        whole = merit(objectives, case.space)
        report.say(
            f"\n{scenario}: hypervolume {whole:.5f} of {len(objectives):,} designs; box (s, J, mm^2) {case.box}\n"
        )
        report.head("method", "evaluations so far", "of 5,000,000", "runs", "best run", "of the union", "designs here")
        for method in METHODS:
            own = [run for run in runs if run["scenario"] == scenario and run["method"] == method]
            total = sum(int(run["spent"]) for run in own)
            best = max((float(run["hypervolume"]) for run in own), default=0.0)
            here = sum(name.rpartition(" ")[0] == method for name, _ in origin)
            report.row(
                method, f"{total:,}", f"{100 * total / GOAL:.0f} %", len(own), f"{best:.5f}",
                f"{100 * best / whole:.2f} %", f"{here:,}",
            )  # fmt: skip
    report.write(arguments.out)


if __name__ == "__main__":
    main()
