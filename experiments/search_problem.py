"""What the experiments on the search share: a scenario as arrays, methods by name, hypervolumes, reference fronts.

The box of a scenario is that of `DesignProblem.space`: it depends on the tables and the package alone. Tables are those
of `mohamjax search` with the same budget and `--seed 0`. Rates and design choices of the default search (plans) were
made on `TUNED_ON` with three seeds; all other scenarios only judge it.
"""

import argparse
import csv
import dataclasses
import functools
import gzip
import io
import pathlib
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo import hypervolume
from mohamjax.emo.loop import Problem, SearchState
from mohamjax.hardware import PackageParameters
from mohamjax.io import mapping_cache
from mohamjax.mapper import LayerMapper
from mohamjax.mapping import MappingTables
from mohamjax.problem import DesignProblem, DesignSpace, search_keys
from mohamjax.problem.plan_tables import WEIGHTS, plan_tables
from mohamjax.runtime.blocks import power_of_two
from mohamjax.schedule import Design, isolated_cycles
from mohamjax.search import (
    BUDGETS,
    Generations,
    MohamConfig,
    PlanRates,
    Settings,
    genetic_problem,
    operators,
    seed_designs,
)
from mohamjax.search.plan_operators import adjustment
from mohamjax.search.plans import Planned, plan_of, refit
from mohamjax.workload import ApplicationModel, load_scenario

TUNED_ON = ("ar-vr", "edge")
TUNED = (
    f"Rates and design choices of the default search (plans) were made on {' and '.join(TUNED_ON)}, with 3 seeds; "
    "every other scenario only judges it."
)
LAYERS = "layers (default of 84a5f18)"
RESULTS = pathlib.Path(__file__).resolve().parent / "results"


@dataclasses.dataclass(frozen=True)
class Case:
    """A scenario over its mapping tables.

    Attributes:
        problem: the problem, without requirements.
        tables: mapping tables, seed 0.
        space: the problem as arrays.
        search_key: key of the searches.
    """

    problem: DesignProblem
    tables: MappingTables
    space: DesignSpace
    search_key: jax.Array

    @property
    def box(self) -> str:
        """Ideal and reference point, for a table."""
        ends = (self.space.ideal, self.space.reference)
        return " to ".join(", ".join(f"{float(x):.5g}" for x in np.asarray(end)) for end in ends)


def prepared(
    scenario: str | ApplicationModel,
    budget: str,
    package: PackageParameters | None = None,
    templates: tuple[str, ...] | None = None,
) -> Case:
    """A scenario over tables of a budget, seed 0, as `Search` makes it with `Settings(seed=0)`."""
    application = load_scenario(scenario) if isinstance(scenario, str) else scenario
    problem = DesignProblem(application, templates, package)
    map_key, space_key, search_key = search_keys(0)
    layers, kinds = application.unique_layers, problem.resolved.templates
    mapper = LayerMapper(layers, kinds, problem.technology, BUDGETS[budget].mapper, cache=mapping_cache())
    tables = mapper.search(map_key)
    space = problem.space(space_key, tables, orders=BUDGETS[budget].moham.orders)
    return Case(problem=problem, tables=tables, space=space, search_key=search_key)


def merit(objectives: jax.typing.ArrayLike, space: DesignSpace) -> float:
    """Hypervolume of a front `[N, 3]` in the space's box on log axes, in double precision."""
    with jax.enable_x64(True):
        ideal, reference = (np.asarray(point, np.float64) for point in (space.ideal, space.reference))
        front = np.asarray(objectives, np.float64)
        front = front[np.isfinite(front).all(axis=1)]
        scaled = np.maximum(np.log(front / ideal) / np.log(reference / ideal), 0.0)
        # Padded, so that few sizes are compiled.
        room = power_of_two(len(scaled), 64)
        padded = np.concatenate([scaled, np.full((room - len(scaled), 3), np.inf)])
        return float(hypervolume(padded, np.ones(3)))


# ---------------------------------------------------------------- sizes and methods


def sized(
    settings: Settings, evaluations: int, population: int, archive: int, seeds: int, batches: int = 1
) -> Settings:
    """Settings with as many generations as the evaluations of one seed allow after `batches` batches of first designs.

    All generations are one call; seeds are islands.
    """
    config = dataclasses.replace(settings.moham, population=population)
    count = max(evaluations // (population + config.immigrant_count) - batches, 1)
    sizes = {"generations": count, "chunk": count, "archive": archive, "islands": seeds}
    return dataclasses.replace(settings, moham=dataclasses.replace(config, **sizes))


def spent(config: MohamConfig, batches: int = 1) -> int:
    """Evaluations per seed."""
    return (config.generations + batches) * (config.population + config.immigrant_count)


def _direct_sample(key: jax.Array, space: DesignSpace) -> Planned:
    tiles = space.genetics.on_tile.shape[0]
    return plan_of(operators.sample(key, space.genetics, tiles), space.genetics, space.plans)


def _direct_vary(
    key: jax.Array, a: Planned, b: Planned, space: DesignSpace, rates: PlanRates
) -> tuple[Planned, Planned]:
    """Both children are adjusted parents."""
    both = jax.tree.map(lambda *x: jnp.stack(x), a, b)
    adjust = jax.vmap(adjustment, in_axes=(0, 0, None, None, None))
    both = adjust(jax.random.split(key), both, space.genetics, space.plans, rates)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))
    return first, second


@functools.cache
def direct_problem(config: MohamConfig) -> Problem:
    """The search that only adjusts single layers, as beside plans; first designs and immigrants are random."""
    return dataclasses.replace(genetic_problem(config), sample=_direct_sample, vary=_direct_vary, grow=None)


def under_caps(case: Case) -> DesignSpace:
    """The problem for plans whose only size is a cap on the area of a mapping's own hardware.

    A layer takes the best mapping under the cap of its tile and keeps it, however large other layers make the chiplet.
    """
    area = np.asarray(case.tables.objectives)[..., 2]
    capped = dataclasses.replace(case.tables, capacity=area[..., None], fanout=np.ones((*area.shape, 1, 2)))
    return dataclasses.replace(
        case.space, plans=plan_tables(capped, isolated_cycles(case.tables, case.problem.package))
    )


def schedules(case: Case, settings: Settings) -> Design | None:
    """List schedules that a search of layers starts from."""
    return seed_designs(case.problem, case.tables, settings.moham, case.space.evaluation.unique.shape[0])


def searched(
    case: Case,
    settings: Settings,
    *,
    seeds: Design | None = None,
    problem: Problem | None = None,
    space: DesignSpace | None = None,
    key: jax.Array | None = None,
) -> SearchState:
    """The state after a whole search over fixed tables."""
    rates = settings.plan_rates if settings.moham.genes == "plans" else settings.rates
    (*_, (state, _)) = Generations(
        case.search_key if key is None else key, case.space if space is None else space, settings.moham,
        rates=rates, seeds=seeds, problem=problem,
    )  # fmt: skip
    return state


@jax.jit
def _every_refit(designs: Design, space: DesignSpace) -> Design:
    """Designs `[K, ...]` refitted under every weight, `[W * K, ...]`."""

    def under(weight: jax.Array) -> Design:
        return jax.vmap(refit, in_axes=(0, None, None, None))(designs, weight, space.genetics, space.plans)

    found = jax.lax.map(under, jnp.arange(len(WEIGHTS), dtype=jnp.int32))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)


def refitted(designs: Design, space: DesignSpace) -> Design:
    """Designs `[K, ...]` as they are, and refitted under every weight after them: `[(1 + W) * K, ...]`."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), designs, _every_refit(designs, space))


# ---------------------------------------------------------------- reference fronts

REFERENCE = RESULTS / "reference_fronts.csv.gz"
FRONT_COLUMNS = ("scenario", "latency_s", "energy_J", "area_mm2", "method", "seed")


def read_rows(file: pathlib.Path) -> list[dict[str, str]]:
    """Rows of a CSV file, as text, from which an experiment resumes; none where there is no file."""
    if not file.exists():
        return []
    with open(file, newline="") as text:
        return list(csv.DictReader(text))


def read_front(scenario: str, file: pathlib.Path = REFERENCE) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Objectives `[N, 3]` of a scenario's reference front, with method and seed of each; empty where there is none."""
    if not file.exists():
        return np.zeros((0, 3)), []
    with gzip.open(file, "rt", newline="") as text:
        rows = [row for row in csv.DictReader(text) if row["scenario"] == scenario]
    objectives = np.asarray([[float(row[name]) for name in FRONT_COLUMNS[1:4]] for row in rows])
    return objectives.reshape(-1, 3), [(row["method"], row["seed"]) for row in rows]


def write_fronts(fronts: dict[str, tuple[np.ndarray, list[tuple[str, str]]]], file: pathlib.Path = REFERENCE) -> None:
    """Writes the fronts of all scenarios; equal fronts give equal bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FRONT_COLUMNS)
    for scenario in sorted(fronts):
        for row, (method, seed) in zip(*fronts[scenario], strict=True):
            writer.writerow([scenario, *(f"{x:.9g}" for x in row), method, seed])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


# ---------------------------------------------------------------- scripts


def arguments_of(text: str | None) -> argparse.ArgumentParser:
    """A parser whose description is the module's docstring."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def paragraphs(text: str | None) -> list[str]:
    """The paragraphs of a docstring."""
    return [part.strip() for part in (text or "").split("\n\n")]


class Clock:
    """Says what was done, and how long it took."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def say(self, text: str) -> None:
        now = time.perf_counter()
        print(f"{text} ({now - self._began:.0f} s)", file=sys.stderr, flush=True)
        self._began = now
