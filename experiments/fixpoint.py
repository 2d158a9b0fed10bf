"""Whether refitting and mapping again leave a front as it is, and how far its ends are from the bounds.

Every seed is a whole default search of `--budget` with its own mapping tables, mapping again as often as the budget
does; figures are medians over the seeds, in double precision. (1) Refitted: every layer of every design of the front
takes the best mapping of the final tables that fits its chiplet as it stands (every capacity and every fanout, level by
level), under each of the five weights between latency and energy. The columns give by how much the hypervolume of the
front grows with these designs, and the share of designs that one of their own refitted forms dominates. (2) Mapped
again: the budget's full mapper runs on all chiplets of ten designs, spread over the front evenly by rank of area, with
their sizes as limits. The columns give by how much the sum of a design's layer durations falls, each layer alone on its
memory interface: "no dearer" lets no layer take more energy than it did, "fastest" compares the fastest mapping that
fits with the fastest that fitted before; both give the median and the largest fall of the ten. (3) Ends: the excess of
the fastest, most frugal and smallest design over the bounds of `schedule.scenario_bounds` over the same tables; the
area of the fastest, and the least area within 0.5 % of its bound.

    python experiments/fixpoint.py --out experiments/results/fixpoint.md --csv experiments/results/fixpoint.csv
    python experiments/fixpoint.py --scenarios ar-vr --seeds 2 --budget tiny --population 32 --generations 20
"""

import dataclasses
import functools
import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import Report, header
from search_problem import TUNED, Clock, arguments_of, merit, paragraphs, read_rows

from mohamjax.hardware import PackageParameters
from mohamjax.io import mapping_cache
from mohamjax.io.files import csv_text, write_text
from mohamjax.mapper import MapperConfig
from mohamjax.mapping import MappingTables
from mohamjax.problem import DesignProblem
from mohamjax.problem.plan_tables import WEIGHTS, mapping_scores
from mohamjax.runtime.struct import cast
from mohamjax.schedule import Design, Evaluated, isolated_cycles, reevaluate
from mohamjax.schedule.setup import Setup
from mohamjax.search import BUDGETS, Search, SearchResult, Settings
from mohamjax.search.remap import ChipletSample, map_again, with_room
from mohamjax.workload import SCENARIOS, load_scenario

ROOM = 256
"""Mappings that may join a set when layers are mapped again on the chiplets of ten designs."""

SLACK = 1 + 1e-6


@dataclasses.dataclass(frozen=True)
class Box:
    """Ideal and reference point of a search."""

    ideal: Any
    reference: Any


def needs(tables: MappingTables) -> np.ndarray:
    """`[U, T, M, C]` float, capacities and fanouts of every mapping; inf where there is none."""
    capacity, fanout = (np.asarray(x, np.float64) for x in (tables.capacity, tables.fanout))
    columns = np.concatenate([capacity, fanout.reshape(*fanout.shape[:3], -1)], axis=-1)
    exists = np.arange(columns.shape[2]) < np.asarray(tables.count)[..., None]
    return np.where(exists[..., None], columns, np.inf)


def layers_of(design: Design, unique: np.ndarray, need: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Template `[L]` of each layer's chiplet, its capacities and fanouts `[L, C]`, and which mappings fit `[L, M]`."""
    tile = np.asarray(design.assignment)[: len(unique)]
    kind = np.asarray(design.template)[tile]
    standing = np.zeros((len(design.template), need.shape[-1]))
    np.maximum.at(standing, tile, need[unique, kind, np.asarray(design.mapping)[: len(unique)]])
    standing = standing[tile]
    return kind, standing, (need[unique, kind] <= standing[:, None] * SLACK).all(axis=-1)


def refitted(front: Evaluated, tables: MappingTables, package: PackageParameters) -> Design:
    """The designs with every layer on its best fitting mapping under each weight, `[W * N, ...]`."""
    unique, need = np.asarray(front.application.unique_of_layer), needs(tables)
    energy = np.where(np.isfinite(need[..., 0]), np.asarray(tables.objectives, np.float64)[..., 1], np.inf)
    scores = mapping_scores(isolated_cycles(tables, package), energy)
    mapping = np.repeat(np.asarray(front.designs.mapping)[None], len(WEIGHTS), axis=0)
    for n in range(len(front)):
        design = jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[n], front.designs)
        kind, _, fits = layers_of(design, unique, need)
        for w, score in enumerate(scores):
            mapping[w, n, : len(unique)] = np.where(fits, score[unique, kind], np.inf).argmin(axis=1)
    again = jax.tree.map(lambda leaf: np.concatenate([np.asarray(leaf)] * len(WEIGHTS)), front.designs)
    return dataclasses.replace(again, mapping=mapping.reshape(-1, mapping.shape[-1]))


def refitting(front: Evaluated, tables: MappingTables, box: Box) -> dict[str, float]:
    """Designs, hypervolume, its growth by refitting [%], and the share that refitted forms dominate [%]."""
    again = refitted(front, tables, front.package)
    found = reevaluate(front, front.tables.mapping, np.asarray(front.tables.count), again).reports.objectives
    own = np.asarray(front.reports.objectives)
    before, after = merit(own, box), merit(np.concatenate([own, found]), box)
    each = found.reshape(len(WEIGHTS), *own.shape)
    # Objectives change with the size of a batch in the last digits.
    better = (each <= own * (1 + 1e-9)).all(axis=-1) & (each < own * (1 - 1e-6)).any(axis=-1)
    return {
        "designs": len(own), "hypervolume": before, "refitted_pct": 100 * (after / before - 1),
        "dominated_pct": 100 * better.any(axis=0).mean(),
    }  # fmt: skip


def spread(front: Evaluated, number: int) -> np.ndarray:
    """Indices of at most `number` designs, spread evenly by rank of area."""
    order = np.argsort(front.reports.objectives[:, 2], kind="stable")
    return order[np.unique(np.linspace(0, len(order) - 1, number).round().astype(int))]


def sample_of(front: Evaluated, chosen: np.ndarray, uniques: int) -> ChipletSample:
    """The distinct chiplets of the chosen designs, with the layers that run on them."""
    unique = np.asarray(front.application.unique_of_layer)
    chips, rows, runs = front.reports.chiplets, [], []
    for n in chosen:
        tile = np.asarray(front.designs.assignment)[n, : len(unique)]
        for s in np.unique(tile):
            sizes = np.concatenate([np.asarray(chips.capacity)[n, s], np.asarray(chips.fanout)[n, s].ravel()])
            rows.append(np.append(int(front.designs.template[n, s]), sizes))
            runs.append(np.isin(np.arange(uniques), unique[tile == s]))
    different, owner = np.unique(np.asarray(rows), axis=0, return_inverse=True)
    levels = np.shape(chips.capacity)[-1]
    together = np.zeros((uniques, len(different)), bool)
    for own, k in zip(runs, owner.reshape(-1), strict=True):
        together[own, k] = True
    return ChipletSample(
        template=different[:, 0].astype(int),
        capacity=different[:, 1 : 1 + levels],
        fanout=different[:, 1 + levels :].reshape(-1, levels, 2),
        runs=together,
    )


def mapping_again(
    key: jax.Array, front: Evaluated, tables: MappingTables, mapper: MapperConfig, number: int
) -> dict[str, float]:
    """Distinct chiplets of some designs, mappings that joined, and falls of the sums of layer durations in percent."""
    application, chosen = front.application, spread(front, number)
    sample = sample_of(front, chosen, len(application.unique_layers))
    single = Setup(application, front.templates, cast(front.technology, jnp.float32), front.package)
    room = with_room(tables, np.shape(tables.cycles)[2] + ROOM)
    grown, joined = map_again(key, sample, single, room, mapper, room=ROOM)
    unique, need, known = np.asarray(application.unique_of_layer), needs(grown), np.asarray(tables.count)
    duration, energy = isolated_cycles(grown, front.package), np.asarray(grown.objectives, np.float64)[..., 1]
    old = np.arange(need.shape[2]) < known[..., None]
    falls: dict[str, list[float]] = {"no_dearer": [], "fastest": []}
    for n in chosen:
        design = jax.tree.map(lambda leaf, n=n: np.asarray(leaf)[n], front.designs)
        kind, _, fits = layers_of(design, unique, need)
        own = np.asarray(design.mapping)[: len(unique)]
        time, cost = duration[unique, kind], energy[unique, kind]
        frugal = fits & (cost <= cost[np.arange(len(own)), own][:, None] * SLACK)
        before = time[np.arange(len(own)), own].sum()
        falls["no_dearer"].append(1 - np.where(frugal, time, np.inf).min(axis=1).sum() / before)
        fastest = [np.where(which, time, np.inf).min(axis=1).sum() for which in (fits & old[unique, kind], fits)]
        falls["fastest"].append(1 - fastest[1] / fastest[0])
    figures = {"chiplets": len(sample.template), "joined": joined}
    for name, values in falls.items():
        figures |= {f"{name}_median_pct": 100 * np.median(values), f"{name}_most_pct": 100 * max(values)}
    return figures


def ends(front: Evaluated, max_chiplets: int) -> dict[str, float]:
    """Excess of the front's ends over the bounds, in percent, and areas in mm^2."""
    own, bounds = np.asarray(front.reports.objectives), front.bounds(max_chiplets)
    excess = 100 * (own.min(axis=0) / bounds.objectives - 1)
    near = own[:, 0] <= bounds.latency_s * 1.005
    return {
        "fastest_pct": excess[0], "frugal_pct": excess[1], "smallest_pct": excess[2],
        "fastest_mm2": own[own[:, 0].argmin(), 2], "near_mm2": own[near, 2].min(initial=np.inf),
        "smallest_mm2": own[:, 2].min(),
    }  # fmt: skip


def measured(result: SearchResult, settings: Settings, number: int) -> dict[str, float]:
    """All figures of one search."""
    box, front = Box(result.config["ideal_point"], result.config["reference_point"]), result.front
    tables = jax.tree.map(np.asarray, front.tables)
    key = jax.random.fold_in(jax.random.key(settings.seed), 13)
    return {
        **refitting(front, tables, box),
        **mapping_again(key, front, result.tables, settings.mapper, number),
        **ends(front, front.package.max_tiles),
    }


def kept(file: pathlib.Path | None, made_by: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows, as text, that a run with the same settings left in a file; exits if the settings were others."""
    rows: list[dict[str, Any]] = [] if file is None else [*read_rows(file)]
    for row in rows:
        if {name: row.get(name) for name in made_by} != {name: str(value) for name, value in made_by.items()}:
            raise SystemExit(f"{file} holds seeds of other settings than {made_by}: name another file")
    return rows


def main() -> None:
    parser = arguments_of(__doc__)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", default="small", choices=list(BUDGETS))
    parser.add_argument("--population", type=int, help="default that of the budget")
    parser.add_argument("--generations", type=int, help="default those of the budget")
    parser.add_argument("--designs", type=int, default=10, help="whose chiplets are mapped on")
    parser.add_argument("--report", action="store_true", help="begin no run: the table of the runs in --csv")
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    parser.add_argument("--csv", type=pathlib.Path, help="figures of every seed; those there are kept")
    arguments = parser.parse_args()
    clock = Clock()
    given = {name: getattr(arguments, name) for name in ("population", "generations")}
    changes = {name: value for name, value in given.items() if value is not None}
    made_by = {
        "budget": arguments.budget,
        "designs_mapped": arguments.designs,
        **{n: v or "" for n, v in given.items()},
    }
    rows = kept(arguments.csv, made_by)
    there = {(row["scenario"], int(row["seed"])) for row in rows}
    scenarios = arguments.scenarios.split(",")
    problem_of = functools.cache(lambda scenario: DesignProblem(load_scenario(scenario)))
    # Seed after seed, so that a study which is stopped has about equally many of each scenario.
    for seed in range(0 if arguments.report else arguments.seeds):
        for scenario in (scenario for scenario in scenarios if (scenario, seed) not in there):
            settings = Settings.preset(arguments.budget, seed=seed)
            settings = dataclasses.replace(settings, moham=dataclasses.replace(settings.moham, **changes))
            result = Search(problem_of(scenario), settings, cache=mapping_cache()).run()
            clock.say(f"{scenario}, seed {seed}: searched")
            found = measured(result, settings, arguments.designs)
            figures = {name: round(float(value), 5) for name, value in found.items()}
            rows.append({"scenario": scenario, "seed": seed, **made_by, **figures})
            clock.say(f"{scenario}, seed {seed}: {figures}")
            if arguments.csv is not None:
                write_text(arguments.csv, csv_text(rows))
    report = Report()
    sizes = "".join(f", {name} {value}" for name, value in changes.items())
    report.say(
        f"{header()}: medians of up to {arguments.seeds} seeds, budget `{arguments.budget}`{sizes}. {TUNED}",
        "",
        paragraphs(__doc__)[1],
        "",
    )
    report.head(
        "scenario", "seeds", "hypervolume", "refitted [%]", "designs dominated [%]",
        "mapped again, no dearer: median, most [%]", "mapped again, fastest: median, most [%]",
        "fastest [% above bound]", "its area [mm^2]", "least area within 0.5 % of the bound",
        "most frugal [% above bound]", "smallest [% above bound]",
    )  # fmt: skip
    for scenario in scenarios:
        own = [row for row in rows if row["scenario"] == scenario and int(row["seed"]) < arguments.seeds]
        of = {n: float(np.median([float(row[n]) for row in own])) for n in own[0] if n not in ("scenario", *made_by)}
        report.row(
            scenario, len(own), f"{of['hypervolume']:.4f}", f"{of['refitted_pct']:.2f}", f"{of['dominated_pct']:.1f}",
            f"{of['no_dearer_median_pct']:.1f}, {of['no_dearer_most_pct']:.1f}",
            f"{of['fastest_median_pct']:.1f}, {of['fastest_most_pct']:.1f}",
            f"{of['fastest_pct']:.2f}", f"{of['fastest_mm2']:.0f}",
            f"{of['near_mm2']:.0f}" if np.isfinite(of["near_mm2"]) else "none",
            f"{of['frugal_pct']:.2f}", f"{of['smallest_pct']:.2f}",
        )  # fmt: skip
    report.write(arguments.out)


if __name__ == "__main__":
    main()
