"""Every method on every case at equal evaluations: medians and quartiles over seeds, and the distance to the bound.

    python experiments/gsharp_table.py run --methods gsharp,gsharp-unseeded --seeds 10
    python experiments/gsharp_table.py run --methods heuristics,gsharp,gsharp-unseeded --cases public --seeds 10
    python experiments/gsharp_table.py report

`run` appends a row per (case, method, seed) to `experiments/results/gsharp_runs.csv` and skips what is there, so that
it can be stopped and resumed; `report` writes `experiments/results/gsharp_table.md`. Cases that separate methods (mix
on S2 at 16, all batches on S3 to S6 at 1) run first. Genetic methods and random search run several cases and seeds side
by side; A2C, PPO and the methods of nevergrad (extra `baselines`) run one by one. The exhibits of the paper
(`experiments/paper/gsharp.py`) run these with the settings of G#'s Table 5.
"""

import argparse
import collections
import csv
import pathlib
import statistics
import time

import numpy as np
from gsharp_cases import CASES, PUBLIC, TUNED, case_table, public_results
from gsharp_islands import makespans, searched
from report import header

from mohamjax.jobs import (
    HEURISTICS,
    METHODS,
    SEEDS,
    JobSearchConfig,
    evaluate_plans,
    job_bound,
    run_heuristic,
    run_method,
    seed_plans,
)
from mohamjax.jobs.scheduler import GENETIC

RESULTS = pathlib.Path(__file__).parent / "results"
RUNS = RESULTS / "gsharp_runs.csv"
COLUMNS = ("batch", "setting", "bandwidth", "method", "seed", "makespan", "evaluations")
GROUP = 4
SIZES = {"gsharp": 50, "gsharp-unseeded": 50}  # population; the others have the paper's 100
EVALUATIONS = 10_500  # what the released GA spends


def separates(case) -> bool:
    batch, setting, bandwidth = case
    return (setting in ("S3", "S4", "S5", "S6") and bandwidth == 1) or (
        batch.startswith("mix") and (setting, bandwidth) == ("S2", 16)
    )


RELEASED = {
    ("mix0", "S4", 1): 4.145e6,
    ("vision0", "S4", 1): 2.688e6,
    ("lang0", "S4", 1): 0.869e6,
    ("recom0", "S4", 1): 0.605e6,
    ("mix0", "S2", 16): 4.719e6,
}
"""Makespans that the released GA reached with as many evaluations (LB_rs, as-released), to a thousand cycles."""


def chosen_cases(text: str) -> list:
    """The cases named by `all`, `released`, `public`, a number of first ones, or names such as mix0/S4/1,mix0/S2/16."""
    sets = {"all": lambda: ORDER, "released": lambda: list(RELEASED), "public": lambda: list(public_results())}
    if text in sets:
        return sets[text]()
    if text.isdigit():
        return ORDER[: int(text)]
    named = {"/".join(map(str, case)): case for case in (*ORDER, *(public_results() if PUBLIC in text else ()))}
    unknown = [name for name in text.split(",") if name not in named]
    if unknown:
        raise SystemExit(f"unknown case {unknown[0]}, expected such as {next(iter(named))}")
    return [named[name] for name in text.split(",")]


ORDER = sorted(CASES, key=lambda case: (not separates(case), not case[0].endswith("0"), CASES.index(case)))


def read_runs(files) -> dict[tuple, float]:
    found = {}
    for path in files:
        if path.exists():
            with open(path) as stream:
                for r in csv.DictReader(stream):
                    key = r["batch"], r["setting"], int(r["bandwidth"]), r["method"], int(r["seed"])
                    found[key] = float(r["makespan"])
    return found


def append(path, rows) -> None:
    new = not path.exists()
    with open(path, "a", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if new:
            writer.writerow(COLUMNS)
        writer.writerows(rows)


def config_of(method: str, seed: int = 0) -> JobSearchConfig:
    population = SIZES.get(method, 100)
    return JobSearchConfig(population=population, generations=EVALUATIONS // population - 1, seed=seed)


def island_rows(method: str, cases, seeds):
    """Rows of several cases, all seeds side by side."""
    config, own = config_of(method, len(seeds)), GENETIC[method]
    tables = [case_table(*case) for case in cases]
    repeated = [table for table in tables for _ in seeds]
    plans, _ = searched(repeated, own, config)
    values = makespans(repeated, plans).reshape(len(cases), len(seeds))
    rows = []
    for case, table, found in zip(cases, tables, values, strict=True):
        # Our own methods also report the best of the seeding heuristics, in double precision.
        least = min((v["makespan"] for v in evaluate_plans(table, seed_plans(table))), default=np.inf)
        found = np.minimum(found, least) if own.seeded else found
        rows += [(*case, method, s, float(v), config.evaluations) for s, v in zip(seeds, found, strict=True)]
    return rows


def run(arguments) -> None:
    seeds, path = list(range(arguments.seeds)), arguments.runs[0]
    cases = chosen_cases(arguments.cases)
    for method in arguments.methods.split(","):
        if method not in (*METHODS, "heuristics"):
            raise SystemExit(f"unknown method {method}")
        done = read_runs([path])
        if method == "heuristics":
            for case in cases:
                if (*case, "bound", 0) not in done:
                    table = case_table(*case)
                    values = evaluate_plans(table, [run_heuristic(name, table) for name in HEURISTICS])
                    bound = job_bound(table)
                    append(
                        path,
                        [(*case, name, 0, v["makespan"], 1) for name, v in zip(HEURISTICS, values, strict=True)]
                        + [(*case, "bound", 0, bound.best, 0)]
                        + [(*case, "bound-released", 0, max(bound.longest, bound.assignment), 0)],
                    )
            continue
        missing = [case for case in cases if any((*case, method, s) not in done for s in seeds)]
        began = time.perf_counter()
        if method in GENETIC:
            groups = [missing[i : i + GROUP] for i in range(0, len(missing), GROUP)]
            for n, group in enumerate(groups):
                rows = island_rows(method, (group * GROUP)[:GROUP], seeds)[: len(group) * len(seeds)]
                append(path, [row for row in rows if tuple(row[:5]) not in done])
                print(f"{method}: {n + 1} of {len(groups)} groups, {time.perf_counter() - began:.0f} s", flush=True)
        else:
            for case in missing:
                for seed in seeds:
                    if (*case, method, seed) not in done:
                        found = run_method(method, case_table(*case), config_of(method, seed)).best
                        append(path, [(*case, method, seed, found.objectives["makespan"], found.evaluations)])
                print(f"{method}: {case}, {time.perf_counter() - began:.0f} s", flush=True)


def spread(values) -> str:
    low, middle, high = np.percentile(values, (25, 50, 75))
    return f"{middle:.3f}" if high - low < 5e-4 else f"{middle:.3f} ({low:.3f} to {high:.3f})"


def report(arguments) -> None:
    runs = read_runs(arguments.runs)
    everything = collections.defaultdict(lambda: collections.defaultdict(list))
    for (batch, setting, bandwidth, method, _), value in runs.items():
        everything[batch, setting, bandwidth][method].append(value)
    by = {case: everything[case] for case in chosen_cases(arguments.cases) if case in everything}
    if not by:
        raise SystemExit(f"no runs of these cases in {', '.join(map(str, arguments.runs))}: see the verb run")
    listed = METHODS if arguments.methods is None else arguments.methods.split(",")
    methods = [m for m in listed if m not in HEURISTICS and any(m in found for found in by.values())]
    counts = {m: sorted({len(found[m]) for found in by.values()}) for m in methods}
    seeds = [f"{m} {n[0]}" if len(n) == 1 else f"{m} {n[0]} to {n[-1]}" for m, n in counts.items()]
    sources = " and ".join(f"`{path.name}`" for path in arguments.runs)
    lines = [
        "# G# and its baselines on the reference batches",
        "",
        f"{header()}, from {sources}. Every search spends {EVALUATIONS:,}",
        "evaluations (the seeding heuristics of `gsharp` count among them). LB cores are `LB_rs`, bandwidth demand is",
        "`as-released`. Numbers are makespans over the lower bound of the case (1.000 is optimal): the median over",
        "seeds and, where they differ, the quartiles. The bound is `jobs.bounds`; the column `plain`",
        "gives the bound without stalls (longest job, machine time, bytes) as a share of it.",
        "",
        *tuning(by),
        "",
        f"Seeds: {', '.join(seeds)}.",
        "",
    ]
    best_simple = [h for h in HEURISTICS if not h.endswith("random") and not h.startswith("random")]
    for title, chosen in (
        ("Cases that separate methods", [c for c in by if separates(c)]),
        ("The other cases", [c for c in by if not separates(c)]),
    ):
        shown = [m for m in methods if any(m in by[c] for c in chosen)]
        head = ["case", "bound [cycles]", "plain", *shown, "LPT-EFT", "best heuristic"]
        grid = [head]
        for case in chosen:
            found = by[case]
            bound = found["bound"][0]
            cells = [called(case), f"{bound:,.0f}", f"{found['bound-released'][0] / bound:.3f}"]
            cells += [spread(np.asarray(found[m]) / bound) if found[m] else "" for m in shown]
            least = min(best_simple, key=lambda h, found=found: found[h][0])
            cells += [f"{found['LPT-EFT'][0] / bound:.3f}", f"{found[least][0] / bound:.3f} {least}"]
            grid.append(cells)
        if chosen:
            lines += [f"## {title}", "", *markdown(grid), ""]
    lines += against_released(
        "Against the released GA",
        "The released values are rounded to a thousand cycles, 0.02 to 0.17 % of them: a run within 500 cycles "
        "does not count.",
        {case: value for case, value in RELEASED.items() if case in by},
        500,
        everything,
    )
    if arguments.cases in ("all", "public") and any(case[0].startswith(PUBLIC) for case in everything):
        lines += against_released(
            "Against the released GA on the release's own batches",
            "The release ships these batches; none of our rates was chosen on them. The GA has one seed.",
            public_results(),
            1,
            everything,
        )
    lines += does_not_separate(by) + summary(by, methods)
    arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def markdown(grid) -> list[str]:
    """Lines of a table whose first row is the head."""
    rows = ["| " + " | ".join(cells) + " |" for cells in grid]
    return [rows[0], "|" + " --- |" * len(grid[0]), *rows[1:]]


def tuning(by) -> list[str]:
    """Lines that say which of the cases our rates were chosen on."""
    own = [case for case in by if case in TUNED]
    which = "all of these cases" if len(own) == len(by) else ", ".join(map(called, own)) or "other cases"
    counted = "" if len(own) in (0, len(by)) else " The counts over held-out cases, at the end, leave them out."
    return [
        f"The operators' default rates and the population of 50 were chosen on {which}.{counted}",
        "The other methods have their libraries' or the paper's settings.",
    ]


def called(case) -> str:
    """A readable name of a case."""
    return "{} {} at {}".format(*case)


def against_released(title: str, note: str, released, margin: float, everything) -> list[str]:
    """A section on our own searches over what the released GA reached, in as many evaluations.

    Runs that are lower by more than `margin` [cycles] are counted.
    """
    released = {case: value for case, value in released.items() if case in everything}
    shown = [m for m in (*SIZES, "gsharp-paper") if any(everything[case].get(m) for case in released)]
    if not shown:
        return []
    grid = [["case", "released [cycles]", *shown]]
    for case, value in released.items():
        cells = []
        for method in shown:
            runs = everything[case].get(method, [])
            lower = sum(run < value - margin for run in runs)
            cells.append(f"{statistics.median(runs) / value:.4f} ({lower} of {len(runs)})" if runs else "")
        grid.append([called(case), f"{value:,.0f}", *cells])
    return [
        f"## {title}",
        "",
        f"Values are medians over the released GA's result, with the number of runs surely below it. {note}",
        "",
        *markdown(grid),
        "",
    ]


def does_not_separate(by) -> list[str]:
    """A section on the cases in which a pass of a simple heuristic is as good as any search."""
    even = []
    for case in by:
        found = by[case]
        best = min((statistics.median(found[m]) for m in found if m in SIZES and found[m]), default=-np.inf)
        if min(found["LPT-EFT"][0], found["HEFT"][0]) <= 1.001 * best:
            even.append(case)
    named = ", ".join(map(called, even)) or "nowhere"
    return [
        "## Where the problem does not separate methods",
        "",
        f"In {len(even)} of {len(by)} cases one pass of LPT-EFT or HEFT is within 0.1 % of the best search: {named}.",
        *(
            ["Where all methods agree on a value well above 1.000 (recom0 on S5 at 256), the bound is probably loose."]
            if ("recom0", "S5", 256) in by
            else []
        ),
        "",
    ]


_mean = statistics.geometric_mean


def summary(by, methods) -> list[str]:
    """A section that counts what the tables say."""
    lines = ["## Counted", ""]
    for method in methods:
        cases = [c for c in by if by[c][method]]
        apart = [c for c in cases if separates(c)]
        groups = {
            "all cases": cases,
            "separating cases": apart if apart != cases else [],
            "held-out cases": [c for c in cases if c not in TUNED],
            "held-out separating cases": [c for c in apart if c not in TUNED] if apart != cases else [],
        }
        for name, chosen in groups.items():
            if not chosen:
                continue
            ratios = [statistics.median(by[c][method]) / by[c]["bound"][0] for c in chosen]
            runs = [v / by[c]["LPT-EFT"][0] for c in chosen for v in by[c][method]]
            below = sum(v < by[c]["bound"][0] * (1 - 1e-9) for c in chosen for v in by[c][method])
            lines.append(
                f"- {method}, {name} ({len(chosen)}): geometric mean over the bound {_mean(ratios):.3f}; within 1 % "
                f"of it in {sum(r < 1.01 for r in ratios)}; worse than LPT-EFT in {sum(r > 1 + 1e-9 for r in runs)} of "
                f"{len(runs)} runs; below the bound in {below}."
            )
    simple = [h for h in HEURISTICS if all(h in by[c] for c in by)]
    for name in simple:
        ratios = [by[c][name][0] / by[c]["bound"][0] for c in by]
        lines.append(f"- {name}, all cases ({len(ratios)}): geometric mean over the bound {_mean(ratios):.3f}.")
    lines += ["", f"Seeds of gsharp: {', '.join(SEEDS)}."]
    worse = {
        called(c): statistics.median(by[c]["gsharp"]) / statistics.median(by[c]["gsharp-unseeded"]) - 1
        for c in by
        if by[c]["gsharp"] and by[c]["gsharp-unseeded"]
    }
    worse = {name: share for name, share in worse.items() if share > 1e-3}
    if worse:
        named = ", ".join(f"{name} (+{share:.2%})" for name, share in worse.items())
        lines.append(
            f"Starting from seeds raises the median makespan by more than 0.1 % in {len(worse)} cases: {named}."
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    running, reporting = verbs.add_parser("run"), verbs.add_parser("report")
    running.add_argument("--methods", default="heuristics,gsharp,gsharp-unseeded,gsharp-paper,standard-ga,random")
    running.add_argument("--seeds", type=int, default=10)
    running.set_defaults(act=run)
    reporting.add_argument("--methods", help="only these (default: all that there are)")
    reporting.add_argument("--out", type=pathlib.Path, default=RESULTS / "gsharp_table.md")
    reporting.set_defaults(act=report)
    for verb in (running, reporting):
        verb.add_argument("--runs", type=pathlib.Path, nargs="+", default=[RUNS], help="run: the first is appended to")
        verb.add_argument("--cases", default="all", help="all, released, public, the first so many, or mix0/S4/1,...")
    arguments = parser.parse_args()
    arguments.act(arguments)


if __name__ == "__main__":
    main()
