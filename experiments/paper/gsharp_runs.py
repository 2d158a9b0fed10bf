"""Searches of `gsharp.py`: a case, what every method reaches on it, and a line for each run.

All searches of a table have equally many evaluations: 100 generations of 100 schedules, as in the paper, or 200
generations of 50 for our own default method. Genetic methods run all seeds side by side, as islands of one program.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence

import gsharp_cases
import numpy as np
import numpy.typing as npt
from exhibits import Study
from gsharp_islands import makespans, searched

from mohamjax.jobs import HEURISTICS, JobSearchConfig, job_bound, run_heuristic, run_method, seed_plans
from mohamjax.jobs.platform import JobBatch, named_platform, platform_table
from mohamjax.jobs.scheduler import GENETIC
from mohamjax.jobs.table import JobTable

CLASSES = ("vision", "lang", "recom", "mix")
LABELS = {"vision": "Vision", "lang": "Lang", "recom": "Recom", "mix": "Mix", "random": "Random"}
SETTINGS = ("S1", "S2", "S3", "S4", "S5", "S6")

TABLE_5 = tuple(f"{rule}-{core}" for rule in ("FCFS", "SJF", "random") for core in ("OLB", "MET", "RR", "random"))
"""The combinations of two heuristics in Table 5."""
BLIND = tuple(name for name in TABLE_5 if name.endswith(("OLB", "RR", "random")))
"""Those of them that choose a core without regard to how long a job takes there."""
GREEDY = (*(name for name in TABLE_5 if name not in BLIND), "HEFT")
"""Heuristics that choose it by how long a job takes there."""
OWN_HEURISTICS = ("LPT-EFT",)
LIBRARY = (
    "DE", "PSO-printed", "TBPSA-printed", "(1+1)-ES", "Halton", "Hammersley", "CLHS", "portfolio-printed",
    "CMA-ES-printed",
)  # fmt: skip
"""Table 5's optimisers with its settings, which for DE are the library's defaults; CMA-ES's first spread is ours."""
DETERMINISTIC = ("Halton", "Hammersley")
"""Those of them whose points do not depend on the seed: nevergrad does not scramble these sequences."""
LEARNED = ("A2C", "PPO")
PUBLISHED = ("gsharp-printed", "gsharp-released", "standard-ga-printed")
OURS = ("gsharp",)

RANDOM_SHARE = 0.5  # by which random shapes differ at most; the paper prints no range
ARRAYS = {"fixed": (False, None), "fixed 1 KB": (False, 1024), "flexible": (True, 1024)}
"""Kinds of arrays: whether their shape is free, and the bytes that an element holds; Section 5.5 prints 1 KB."""


def fullest(setting: str) -> int:
    """The most bandwidth of a platform in the paper [bytes per cycle]."""
    return gsharp_cases.bandwidths(setting)[1]


@dataclasses.dataclass(frozen=True)
class Case:
    """Jobs on a platform.

    Attributes:
        batch: of `gsharp_batches.csv`; `random0` is `mix0` with layers of random shapes.
        setting: of Table 4.
        bandwidth: bytes per cycle.
        demand: convention of `analysis.bandwidth_demand`.
        arrays: one of `ARRAYS`.
    """

    batch: str
    setting: str
    bandwidth: int
    demand: str = "as-released"
    arrays: str = "fixed"

    def __str__(self) -> str:
        return f"{self.batch} {self.setting} at {self.bandwidth}"

    @property
    def key(self) -> tuple[str, ...]:
        """Cells that its lines begin with, after the tier."""
        return self.batch, self.setting, str(self.bandwidth), self.demand, self.arrays

    def jobs(self) -> JobBatch:
        """The batch."""
        if self.batch.startswith("random"):
            number = self.batch.removeprefix("random")
            return gsharp_cases.named_batch(f"mix{number}").reshaped(RANDOM_SHARE, int(number))
        return gsharp_cases.named_batch(self.batch)

    def table(self, most: int | None = None) -> JobTable:
        """The job table, of the first `most` jobs."""
        return _table(self, most)


@functools.cache
def _table(case: Case, most: int | None) -> JobTable:
    batch = case.jobs()
    flexible, held = ARRAYS[case.arrays]
    platform = named_platform(case.setting, flexible=flexible, element_buffer=held)
    return platform_table(batch.names[:most], batch.shapes[:most], platform, case.bandwidth, demand=case.demand)


def without_chance(method: str) -> bool:
    """Whether every seed gives the same schedule: heuristics without a random rule, and unscrambled sequences."""
    ruled = method in HEURISTICS and not method.startswith("random") and not method.endswith("random")
    return ruled or method in DETERMINISTIC


def converged(history: Sequence[tuple[int, float]]) -> int:
    """Evaluations after which a search was within 1 % of where it ended."""
    return next(n for n, value in history if value <= 1.01 * history[-1][1])


COLUMNS = (
    "batch", "setting", "bandwidth", "demand", "arrays", "method", "seed", "makespan", "evaluations", "converged",
    "seconds",
)  # fmt: skip


class Searches:
    """Results of methods on cases, from their lines where these exist."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.kept = study.kept("searches", COLUMNS, 7)
        self.most = study.pick(12, None, None)  # jobs of a batch

    def config(self, method: str, seed: int = 0) -> JobSearchConfig:
        """Sizes of a search, with equally many evaluations for all methods."""
        population, generations = self.study.pick((8, 4), (100, 100), (100, 100))
        if method in OURS:
            population, generations = population // 2, generations * 2
        return JobSearchConfig(population=population, generations=generations - 1, seed=seed)

    def table(self, case: Case) -> JobTable:
        """The job table of a case, with few jobs in the tier `ci`."""
        return case.table(self.most)

    def bound(self, case: Case) -> float:
        """Lower bound of the makespan [cycles]."""
        row = self.kept.get(*case.key, "bound", 0, run=lambda: self._row(job_bound(self.table(case)).best))
        return float(row["makespan"]) if row else float("nan")

    def values(self, case: Case, method: str) -> list[float]:
        """Makespans [cycles] of all seeds that have a line."""
        return [float(row["makespan"]) for row in self.rows(case, method)]

    def median(self, case: Case, method: str) -> float:
        """Median over the seeds [cycles]; NaN where there is no line."""
        found = self.values(case, method)
        return float(np.median(found)) if found else float("nan")

    def rows(self, case: Case, method: str) -> list[dict[str, str]]:
        """Lines of all seeds; runs those that are missing, if they may begin."""
        count = 1 if without_chance(method) else self.study.seeds
        if method in (*LIBRARY, *LEARNED):
            count = self.study.pick(1, count, count)
        whole = functools.cache(lambda: self._islands(case, method, count))

        def run(seed: int) -> Mapping[str, object]:
            if method in GENETIC:
                return whole()[seed]
            if method in HEURISTICS:
                table = self.table(case)
                return self._row(makespans([table], [run_heuristic(method, table, seed)])[0], 1)
            began = time.perf_counter()
            best = run_method(method, self.table(case), self.config(method, seed)).best
            spent = time.perf_counter() - began
            return self._row(best.objectives["makespan"], best.evaluations, converged(best.history), spent)

        found = [self.kept.get(*case.key, method, seed, run=functools.partial(run, seed)) for seed in range(count)]
        return [row for row in found if row is not None]

    def _islands(self, case: Case, method: str, seeds: int) -> list[dict[str, object]]:
        config, table = self.config(method), self.table(case)
        began = time.perf_counter()
        plans, best = searched([table] * seeds, GENETIC[method], config)
        spent = (time.perf_counter() - began) / seeds
        counts = config.population * np.arange(1, config.generations + 2)
        after = [converged(list(zip(counts.tolist(), row.tolist(), strict=True))) for row in best]
        # Our own method also reports the best of the seeding heuristics, in double precision.
        given = (
            makespans([table] * len(seed_plans(table)), seed_plans(table)).min() if GENETIC[method].seeded else np.inf
        )
        values = np.minimum(makespans([table] * seeds, plans), given)
        return [self._row(v, config.evaluations, n, spent) for v, n in zip(values, after, strict=True)]

    def _row(self, makespan: float, evaluations: int = 0, within: int = 0, seconds: float = 0.0) -> dict[str, object]:
        return {
            "makespan": repr(float(makespan)), "evaluations": evaluations, "converged": within,
            "seconds": f"{seconds:.2f}",
        }  # fmt: skip


def mean_ratio(values: npt.ArrayLike) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(np.asarray(values, float)))))
