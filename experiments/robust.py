"""One package for two application models of ar-vr: robust fronts beside those made for one model, ten seeds.

The models are `classify` (ResNet-50 and SSD-MobileNet) and `detect` (YOLOv3 and SSD-MobileNet); objectives are means
over both. Two tenants of other scenarios are held out, GoogLeNet and MobileNetV3. All searches have the same mapping
tables and the same number of evaluations; one evaluation of the robust search is of two schedules. The packages of each
model's own front keep their schedules for it, and are scheduled for the other model: once, by their plans; or, in the
first seeds only, 46 times (by the plan, and under each of 5 weights and 9 exponents). All 46 schedules count, which
takes up to 23,552 more evaluations and yields fronts of thousands of designs, where an archive holds 512. Hypervolume
is that of the means over both models, as a share of the robust search's box on log axes. Price is latency times energy
of robust packages over that of the nominal ones, which were made for `classify`, at equal area (`robust.price`;
packages scheduled by their plans).

    python experiments/robust.py --out experiments/results/robust.md

Seeds that `--runs` holds for the same population and generations are not run again; its other rows stay in it.
"""

import argparse
import csv
import dataclasses
import pathlib
import time

import jax
import numpy as np
from report import Report, header
from scipy.stats import binomtest
from search_problem import paragraphs

from mohamjax import emo
from mohamjax.hardware import load_technology, load_templates, packaged_templates
from mohamjax.io.files import csv_text, write_text
from mohamjax.mapper import LayerMapper
from mohamjax.mapping import MappingTables
from mohamjax.problem import DesignProblem
from mohamjax.robust import Packages, RobustResult, RobustSearch
from mohamjax.schedule.ensemble import own_tables
from mohamjax.search import Search, SearchResult, Settings
from mohamjax.workload import ApplicationModel, Ensemble, Member, load_scenario

WAYS = {"plan": "scheduled by plans", "all": "46 schedules each"}
KEY = ("seed", "population", "generations")
HERE = pathlib.Path(__file__).parent


def ensemble() -> Ensemble:
    """The two models, and the two that are held out."""

    def member(name: str, scenario: str, *networks: str) -> Member:
        known = {network.name: network for network in load_scenario(scenario).networks}
        return Member(ApplicationModel(name, tuple(known[n] for n in networks)))

    return Ensemble(
        models=(
            member("classify", "ar-vr", "resnet50", "ssd_mobilenet_v1_300"),
            member("detect", "ar-vr", "yolov3_416", "ssd_mobilenet_v1_300"),
        ),
        held_out=(
            member("googlenet", "data-center", "googlenet"),
            member("mobilenet", "mobile", "mobilenet_v3_large"),
        ),
        name="ar-vr",
    )


def front_of(objectives: np.ndarray) -> np.ndarray:
    """The mutually non-dominated rows of `[N, 3]`."""
    rows = np.unique(objectives, axis=0)
    kept = np.empty_like(rows)
    number = 0
    for row in rows:  # by rising latency: no later row dominates an earlier one
        if not (kept[:number] <= row).all(axis=1).any():
            kept[number] = row
            number += 1
    return kept[:number]


def hypervolume(objectives: np.ndarray, config: dict) -> float:
    """Hypervolume of the front of `[N, 3]` in the box of a search, on log axes."""
    low, high = (np.log(np.asarray(config[name], np.float64)) for name in ("ideal_point", "reference_point"))
    front = front_of(objectives)
    scaled = np.maximum((np.log(front) - low) / (high - low), 0.0)
    with jax.enable_x64(True):
        room = 1024 * -(-len(scaled) // 1024)  # so that few sizes are compiled
        padded = np.full((room, 3), np.inf)
        padded[: len(scaled)] = scaled
        return float(emo.hypervolume(padded, np.ones(3)))


def for_both(result: RobustResult, alone: SearchResult, number: int, every: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means `[n, 3]` over both models of one model's packages: by their plans, and under all schedules for the other.

    Without `every`, the second array has no rows.
    """
    packages = Packages.of(alone.front, alone.plans)
    packages = packages.under_all() if every else packages
    several = len(packages.template) // len(alone.front)
    known = np.repeat(np.arange(len(alone.front)), several)
    served = result.rescheduler.models(packages, alone.front.take(known), number)
    joint = result.ensemble.aggregate(np.stack([own.objectives for own in served]))
    finite = np.isfinite(joint).all(axis=1)
    return joint[::several][finite[::several]], joint[finite] if every else np.empty((0, 3))


def dominated(rows: np.ndarray, by: np.ndarray) -> int:
    """Number of rows `[N, 3]` that some row of `by` `[K, 3]` dominates."""
    return sum(bool(((by <= row).all(axis=1) & (by < row).any(axis=1)).any()) for row in rows)


def one_seed(models: Ensemble, settings: Settings, tables: MappingTables, every: bool) -> dict[str, float]:
    """Runs the three searches of one seed; returns the figures that are kept of them."""
    began = time.process_time()
    result = RobustSearch(models, DesignProblem(models.joined), settings, tables=tables).run()
    nominal = result.nominal
    assert nominal is not None
    other = models.models[1].application
    detect = Search(DesignProblem(other), settings, tables=own_tables(other, models.everyone, tables)).run()
    robust = result.front.objectives
    row: dict[str, float] = {
        "seed": settings.seed,
        "population": settings.moham.population,
        "generations": settings.moham.generations,
        "evaluations": result.history[-1]["evaluations"],
        "hv_robust": hypervolume(robust, result.config),
        "front": len(robust),
    }
    found = {"classify": for_both(result, nominal.search, 0, every), "detect": for_both(result, detect, 1, every)}
    for name, fronts in found.items():
        for way, front in zip(WAYS, fronts, strict=True):
            own = front_of(front)
            known = len(own) > 0
            row[f"hv_{name}_{way}"] = hypervolume(own, result.config) if known else np.nan
            row[f"dominated_{name}_{way}"] = dominated(robust, own) / len(robust) if known else np.nan
            row[f"dominates_{name}_{way}"] = dominated(own, robust) / len(own) if known else np.nan
    for one in result.comparisons():
        row |= {f"price_{one.model}": one.price, f"runs_{one.model}": one.runs[1] / len(one.nominal)}
    return row | {"cpu_s": round(time.process_time() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--population", type=int, default=96)
    parser.add_argument("--generations", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--every", type=int, default=2, help="seeds in which all 46 schedules are tried")
    parser.add_argument("--runs", type=pathlib.Path, default=HERE / "results" / "robust_runs.csv")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()

    base = Settings.preset("tiny")
    moham = dataclasses.replace(base.moham, population=arguments.population, generations=arguments.generations)
    base = dataclasses.replace(base, moham=moham)
    models = ensemble()
    kept: list[dict] = []
    if arguments.runs.exists():
        with arguments.runs.open(newline="") as file:
            kept = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]

    def asked(row: dict) -> bool:
        """Whether a row is of the requested seeds and sizes, with all schedules where they are to be tried."""
        sizes = row["population"], row["generations"]
        every = row["seed"] >= arguments.every or np.isfinite(row["hv_classify_all"])
        return sizes == (moham.population, moham.generations) and row["seed"] < arguments.seeds and bool(every)

    rows = [row for row in kept if asked(row)]
    others = [row for row in kept if not asked(row)]
    missing = [seed for seed in range(arguments.seeds) if seed not in {row["seed"] for row in rows}]
    tables = None
    if missing:
        templates = load_templates(list(packaged_templates()))
        key = jax.random.split(jax.random.key(0), 3)[0]
        tables = LayerMapper(models.everyone.unique_layers, templates, load_technology(), base.mapper).search(key)
    for seed in missing:
        row = one_seed(models, dataclasses.replace(base, seed=seed), tables, seed < arguments.every)
        print(row, flush=True)
        rows.append(row)
        key = [row[name] for name in KEY]
        others = [other for other in others if [other[name] for name in KEY] != key]
        write_text(arguments.runs, csv_text([*others, *rows]))

    def column(name: str) -> np.ndarray:
        return np.asarray([row[name] for row in rows], float)

    def told(values: np.ndarray, digits: int = 4) -> str:
        values = values[np.isfinite(values)]
        return f"{np.median(values):.{digits}f} ({values.min():.{digits}f} to {values.max():.{digits}f})"

    report = Report()
    report.say("# Robust fronts", "", *paragraphs(__doc__)[1:2], "")
    report.say(
        f"{header()}. {len(rows)} seeds, {int(rows[0]['evaluations']):,} evaluations in each search, "
        f"{column('cpu_s').sum() / 60:.1f} CPU minutes without the mapper. Values are medians (least to most); p is "
        "by the exact two-sided sign test over the seeds.",
        "",
    )
    report.head(
        "front, mean over both models", "hypervolume", "robust has more", "p", "share of the robust front it dominates",
        "share of it that the robust front dominates",
    )  # fmt: skip
    robust = column("hv_robust")
    report.row("robust", told(robust), "", "", "", "")
    for name in ("classify", "detect"):
        for way, words in WAYS.items():
            own = column(f"hv_{name}_{way}")
            known = np.isfinite(own)
            wins, tried = int((robust > own)[known].sum()), int(known.sum())
            if not tried:
                continue
            shares = [told(column(f"{kind}_{name}_{way}"), 3) for kind in ("dominated", "dominates")]
            p = f"{binomtest(wins, tried).pvalue:.2g}"
            report.row(f"made for {name}, {words}", told(own), f"{wins} of {tried} seeds", p, *shares)
    report.say("")
    report.head("model", "role", "price of robust packages", "share of nominal packages that run it")
    roles = {"all models": "mean of both", "classify": "nominal", "detect": "searched"}
    names = [*roles, *(member.name for member in models.held_out)]
    for name in names:
        runs = "" if name == "all models" else told(column(f"runs_{name}"), 2)
        report.row(name, roles.get(name, "held out"), told(column(f"price_{name}"), 3), runs)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
