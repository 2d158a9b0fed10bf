"""Hypervolume against seconds of searching: the default search against the default of 84a5f18 ("layers").

Both search the same mapping tables (those of `--budget`, seed 0) without mapping again, in the scenario's box. Runs are
interleaved: new, old, new, old, ..., one pair per seed, in one process, so that both meet the same machine. Seconds are
those of `run`: compiling stands apart (programs are compiled in a short search of each before the first run), and so
does what the host prepares: the sets of mappings of plans, the list schedules of layers, both stated. A hypervolume
counts from the end of its generation; after s seconds is the last one until then, 0 where there is none. Medians of the
seeds. "above": whether the new search after 2 s is above the old after 60 s, by the medians and in how many pairs.

    python experiments/seconds_search.py --out experiments/results/seconds_search.md
    python experiments/seconds_search.py --scenarios ar-vr --seeds 2 --budget tiny --population 32 --seconds 3
"""

import csv
import dataclasses
import pathlib
import time

import jax
import numpy as np
from report import Report, header
from search_problem import LAYERS, TUNED, Case, Clock, arguments_of, paragraphs, prepared, schedules

from mohamjax.problem.plan_tables import plan_tables
from mohamjax.schedule import Design, isolated_cycles
from mohamjax.search import BUDGETS, Generations, Settings
from mohamjax.workload import SCENARIOS

MARKS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
NEW = "mohamjax"


def curve(
    case: Case, settings: Settings, seeds: Design | None, seed: int, limit: float
) -> tuple[list[tuple[float, int, float]], float]:
    """Rows (seconds, evaluations, hypervolume) of a search of so many seconds, and what it took to compile."""
    rates = settings.plan_rates if settings.moham.genes == "plans" else settings.rates
    rows: list[tuple[float, int, float]] = []
    key = jax.random.fold_in(case.search_key, seed)
    compile_s = 0.0
    for _, progress in Generations(key, case.space, settings.moham, rates=rates, seeds=seeds):
        rows.append((progress.seconds, progress.evaluations, progress.hypervolume[-1]))
        compile_s = progress.compile_s
        if progress.seconds > limit:
            break
    return rows, compile_s


def after(rows: list[tuple[float, int, float]], seconds: float) -> float:
    """The hypervolume that is reached."""
    return max((merit for at, _, merit in rows if at <= seconds), default=0.0)


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", default="paper", choices=list(BUDGETS))
    parser.add_argument("--population", type=int, default=250)
    parser.add_argument("--old-population", type=int, help="of layers; default the same")
    parser.add_argument("--archive", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=MARKS[-1])
    parser.add_argument(
        "--out", type=pathlib.Path, help="write the table as Markdown, and every curve as CSV beside it"
    )
    arguments = parser.parse_args()
    report, clock = Report(), Clock()
    report.say(
        f"{header()}: {arguments.seeds} seeds, populations of {arguments.population} (new) and "
        f"{arguments.old_population or arguments.population} (old), archives of {arguments.archive}, mapping tables of "
        f"the budget `{arguments.budget}`. {TUNED}",
        "",
        paragraphs(__doc__)[1],
        "",
    )
    report.head(
        "scenario", "method", *(f"{mark:g} s" for mark in MARKS), "evaluations/s", "compile [s]", "prepare [s]",
        "new at 2 s above old at 60 s",
    )  # fmt: skip
    lines = []
    for scenario in arguments.scenarios.split(","):
        case = prepared(scenario, arguments.budget)
        settings, seeds, prepare_s, compile_s = {}, {}, {}, {}
        for name, preset, size in (
            (NEW, "default", arguments.population),
            (LAYERS, "layers", arguments.old_population),
        ):
            own = Settings.preset(arguments.budget, preset=preset)
            sizes = {"population": size or arguments.population, "archive": arguments.archive, "chunk": 1}
            moham = dataclasses.replace(own.moham, generations=10**6, **sizes)
            settings[name] = dataclasses.replace(own, moham=moham)
            began = time.perf_counter()
            seeds[name] = schedules(case, settings[name]) if preset == "layers" else None
            if preset == "default":
                plan_tables(
                    case.tables, isolated_cycles(case.tables, case.problem.package)
                )  # as the space holds them already
            prepare_s[name] = time.perf_counter() - began
            began = time.perf_counter()
            curve(case, settings[name], seeds[name], 0, 0.0)
            compile_s[name] = time.perf_counter() - began
            clock.say(f"{scenario}: {name} compiled")
        curves: dict[str, list[list[tuple[float, int, float]]]] = {NEW: [], LAYERS: []}
        for seed in range(arguments.seeds):
            for name, own in curves.items():
                rows, _ = curve(case, settings[name], seeds[name], seed, arguments.seconds)
                own.append(rows)
                lines += [(scenario, name, seed, f"{s:.3f}", n, f"{merit:.5f}") for s, n, merit in rows]
                clock.say(f"{scenario}, seed {seed}: {name}: {rows[-1][2]:.4f} after {rows[-1][0]:.1f} s")
        reached = {name: np.asarray([[after(rows, mark) for mark in MARKS] for rows in own])
                   for name, own in curves.items()}  # fmt: skip
        long_enough = arguments.seconds >= MARKS[-1]
        two, sixty = reached[NEW][:, MARKS.index(2.0)], reached[LAYERS][:, -1]
        pairs = f"{(two > sixty).sum()} of {len(two)} pairs"
        said = f"{'yes' if np.median(two) > np.median(sixty) else 'no'}; {pairs}"
        for name, own in curves.items():
            speed = np.median([rows[-1][1] / rows[-1][0] for rows in own])
            values = [
                f"{value:.4f}" if mark <= arguments.seconds else ""
                for mark, value in zip(MARKS, np.median(reached[name], axis=0), strict=True)
            ]
            last = "" if name != NEW else said if long_enough else "not run for 60 s"
            report.row(
                scenario, name, *values, f"{speed:,.0f}", f"{compile_s[name]:.0f}", f"{prepare_s[name]:.1f}", last
            )
        if arguments.out is not None:
            # Also where a later scenario is stopped.
            report.write(arguments.out)
            with open(arguments.out.with_suffix(".csv"), "w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["scenario", "method", "seed", "seconds", "evaluations", "hypervolume"])
                writer.writerows(lines)


if __name__ == "__main__":
    main()
