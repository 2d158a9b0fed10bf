"""Searches of the exhibits of MOHaM: what is searched, over which tables, and what is kept of it.

A search is identified by its scenario, its method, the sizes of the layer mapper, its generations, its population and
its seed. Its line in `searches_runs.csv` holds what it took. What it found is in two files that all seeds share: its
result and its archive in `fronts/`, two measures after every generation in `courses/`. All methods are evaluated with
the package of the preset `moham`, in which layers contend at the memory interfaces alone.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import gzip
import io
import math
import pathlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from baselines import plain_problem
from exhibits import Kept, Study

from mohamjax.emo.loop import Problem
from mohamjax.hardware import PackageParameters
from mohamjax.io import mapping_cache
from mohamjax.io.files import make_folder, write_bytes
from mohamjax.mapper import METHODS as BASELINES
from mohamjax.mapper import BaselineMapper, LayerMapper
from mohamjax.mapper.gamma import GammaConfig
from mohamjax.mapper.hybrid import HybridConfig
from mohamjax.mapping import MappingTables
from mohamjax.problem import DesignProblem, DesignSpace, search_keys
from mohamjax.problem.goals import Goals
from mohamjax.problem.requirements import Requirements, requirements_from_dict
from mohamjax.schedule import Design
from mohamjax.search import Generations, MohamConfig, Rates, Settings, genetic_problem, operators
from mohamjax.search import preset_package as package_of_preset
from mohamjax.workload import ApplicationModel, load_scenario

TEMPLATES = ("eyeriss", "simba", "shidiannao")
OPERATORS = tuple(
    field.name
    for field in dataclasses.fields(Rates)
    if field.name not in ("opening_mutation", "resizing_mutation", "least_layers")
)
"""The ten operators of Table 4."""

PACKAGE = package_of_preset("moham")
ARCHIVE = 512
BANDWIDTHS = (1, 2, 4, 8, 16, 32, 64)
"""Bytes per cycle of a memory interface, of Figure 11."""

_RUN = ("scenario", "method", "mapper", "generations", "population", "seed")
_TOOK = ("evaluations", "seconds", "designs", "archived")
_FRONTS = ("set", "latency_s", "energy_J", "area_mm2")
_COURSES = ("generation", "hypervolume", "stability")


# ---------------------------------------------------------------- what is searched


@dataclasses.dataclass(frozen=True)
class Method:
    """How a scenario is searched.

    Attributes:
        kind: `moham`, as printed; `default`, ours; `nsga2`, NSGA-II with textbook variation; or `random`.
        tables: `printed`, mapped as MOHaM prints it; `ours`, mapped as by default; `cosa`, `gamma` or `hybrid`, one
            mapping per layer and template by a baseline.
        off: operator whose probability is 0; empty for none.
        our_rates: MOHaM's operators have the rates of our presets in the place of Table 4's.
        only: the only template; empty for all.
        fixed: the package is 16 chiplets of largest size, of all templates in turn.
        objective: the one number that is minimised; `front` for all three.
        package: the package.
    """

    kind: str = "moham"
    tables: str = "printed"
    off: str = ""
    our_rates: bool = False
    only: str = ""
    fixed: bool = False
    objective: str = "front"
    package: PackageParameters = PACKAGE


METHODS = {
    "MOHaM": Method(),
    "MOHaM, our tables": Method(tables="ours"),
    "ours": Method("default", "ours"),
    "NSGA-II": Method("nsga2", "ours"),
    "random": Method("random", "ours"),
    "CoSA mappings": Method(tables="cosa"),
    "GAMMA mappings": Method(tables="gamma"),
    "hybrid mappings": Method(tables="hybrid"),
    "mapping only": Method(fixed=True),
    **{f"{name} only": Method(only=name) for name in TEMPLATES},
    **{f"least {name}": Method(objective=name) for name in ("latency", "energy", "product")},
    **{f"no {name}": Method(off=name) for name in OPERATORS},
    "MOHaM, our rates": Method(our_rates=True),
    **{f"no {name}, our rates": Method(off=name, our_rates=True) for name in OPERATORS},
    **{
        f"interface {b}": Method(package=dataclasses.replace(PACKAGE, interface_bandwidth=float(b)))
        for b in BANDWIDTHS
    },
    **{
        f"interface {b}, memory 16": Method(
            package=dataclasses.replace(
                PACKAGE, interface_bandwidth=float(b), dram_bandwidth=16.0, link_bandwidth=math.inf, contention="all"
            )
        )
        for b in BANDWIDTHS
    },
}  # fmt: skip
"""Methods by the names in the tables."""


@dataclasses.dataclass(frozen=True)
class Tier:
    """Sizes that a tier gives every exhibit.

    Attributes:
        mapper: budget whose mapper maps the layers.
        population: designs of a generation.
        networks: networks of a scenario that take part; None for all.
        gamma: sizes of the GAMMA-like mapper.
        hybrid: sizes of Timeloop's hybrid search.
    """

    mapper: str
    population: int
    networks: int | None
    gamma: GammaConfig = dataclasses.field(default_factory=GammaConfig)
    hybrid: HybridConfig = dataclasses.field(default_factory=HybridConfig)


def tier_of(study: Study) -> Tier:
    """The sizes of a study."""
    small = Tier("tiny", 16, 1, GammaConfig(20, 2), HybridConfig(victory=20, threads=2, chunk=8))
    return study.pick(small, Tier("paper", 250, None), Tier("paper", 250, None))


@functools.cache
def application_of(scenario: str, networks: int | None = None) -> ApplicationModel:
    """A packaged scenario, or the first of its networks; `NAME/as-released` has depthwise layers as released."""
    name, _, depthwise = scenario.partition("/")
    application = load_scenario(name, depthwise=depthwise or "physical")
    return dataclasses.replace(application, networks=application.networks[:networks])


@functools.cache
def _largest() -> Requirements:
    """A closed package of 16 chiplets of largest size: the fixed hardware of mapping-only optimisation."""
    chiplets = [{"template": TEMPLATES[i % len(TEMPLATES)], "sizes": "largest"} for i in range(16)]
    return requirements_from_dict({"package": {"open": False, "chiplets": chiplets}})


@functools.cache
def problem_of(scenario: str, tier: Tier, fixed: bool = False) -> DesignProblem:
    """The problem of a scenario with the package of MOHaM, over free or over fixed hardware."""
    return DesignProblem(
        application_of(scenario, tier.networks), TEMPLATES, PACKAGE, None, _largest() if fixed else None
    )


@functools.cache
def tables_of(scenario: str, tier: Tier, tables: str, fixed: bool = False) -> MappingTables:
    """Mapping tables of a scenario, seed 0."""
    problem = problem_of(scenario, tier, fixed)
    parts = problem.application.unique_layers, problem.resolved.templates, problem.technology
    if tables in BASELINES:
        sizes = {"gamma": tier.gamma, "hybrid": tier.hybrid}.get(tables)
        return BaselineMapper(*parts, tables, settings=sizes).search(search_keys(0)[0])[0]
    settings = Settings.preset(tier.mapper, preset="moham" if tables == "printed" else "default")
    mapper = LayerMapper(*parts, settings.mapper, rates=settings.mapper_rates, cache=mapping_cache())
    return mapper.search(search_keys(0)[0])


@functools.cache
def space_of(scenario: str, tier: Tier, tables: str, fixed: bool, package: PackageParameters) -> DesignSpace:
    """A scenario as arrays."""
    problem = problem_of(scenario, tier, fixed).replace(package=package)
    return problem.space(search_keys(0)[1], tables_of(scenario, tier, tables, fixed))


def alone(space: DesignSpace, t: int) -> DesignSpace:
    """The problem with one template in the place of every template, so that equal shapes share a program.

    A mutation of templates then changes nothing, as it could not with a single template.
    """
    own = np.full(space.genetics.count.shape[1], t)
    genetics, evaluation = space.genetics, space.evaluation
    wires = evaluation.wires
    return dataclasses.replace(
        space,
        genetics=dataclasses.replace(
            genetics,
            count=genetics.count[:, own],
            able=genetics.able[:, own],
            transform=genetics.transform[:, own][..., own],
            rules=genetics.rules[:, :, own],
        ),
        evaluation=dataclasses.replace(
            evaluation,
            tables=jax.tree.map(lambda leaf: leaf[:, own], evaluation.tables),
            wires=dataclasses.replace(
                wires, sizes=jax.tree.map(lambda leaf: leaf[own], wires.sizes), hops=wires.hops[:, own]
            ),
            templates=jax.tree.map(lambda leaf: leaf[own], evaluation.templates),
        ),
    )


def _anew(key: jax.Array, a: Design, b: Design, space: DesignSpace, rates: Rates) -> tuple[Design, Design]:
    """Two random designs in the place of children."""
    tiles = space.genetics.on_tile.shape[0]
    first, second = (operators.sample(own, space.genetics, tiles) for own in jax.random.split(key))
    return first, second


@functools.cache
def _random_problem(config: MohamConfig) -> Problem:
    return dataclasses.replace(genetic_problem(config), vary=_anew)


def _settings(method: Method, tier: Tier, generations: int) -> Settings:
    """The settings of a method, with the sizes of a run."""
    base = Settings.preset(tier.mapper, preset="default" if method.kind == "default" else "moham")
    sizes: dict[str, Any] = {
        "population": tier.population, "generations": generations, "archive": ARCHIVE, "objective": method.objective,
        "chunk": min(generations, 50),
    }  # fmt: skip
    if method.kind in ("nsga2", "random"):
        sizes |= {"genes": "layers", "result": "population" if method.kind == "nsga2" else "archive"}
    if method.our_rates:
        sizes["rate_unit"] = "layer"
    rates = Rates() if method.our_rates else base.rates
    if method.off:
        rates = dataclasses.replace(rates, **{method.off: 0.0})
    weights = (1.0, 1.0, 0.0) if method.objective == "product" else base.weights
    return dataclasses.replace(base, moham=dataclasses.replace(base.moham, **sizes), rates=rates, weights=weights)


# ---------------------------------------------------------------- what is kept


@dataclasses.dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        seed: of the search.
        result: `[N, 3]` float, the front that the method gives: of the last population with MOHaM and NSGA-II, of the
            archive with the others.
        archive: `[A, 3]` float, the front of all that it evaluated, 512 designs at most.
        evaluations: designs evaluated.
        seconds: of its generations, without compiling.
        volumes: `[G + 1]` hypervolume of the archive after each generation, in the box of its own tables.
        stability: `[G + 1]` largest finite crowding distance of the population's first front after each generation.
    """

    seed: int
    result: np.ndarray
    archive: np.ndarray
    evaluations: int
    seconds: float
    volumes: np.ndarray
    stability: np.ndarray


def searches(study: Study) -> Kept:
    """The lines of all searches of a study."""
    return study.kept("searches", (*_RUN, *_TOOK), len(_RUN))


def searched(study: Study, kept: Kept, scenario: str, method: str, generations: int, seed: int) -> Found | None:
    """What a search found, after running it if that was not done yet; None where no run may begin.

    Args:
        study: the call of the script.
        kept: what `searches` returns.
        scenario: name.
        method: name in `METHODS`.
        generations: after the first population.
        seed: of the search; that of the tables is 0.
    """
    tier = tier_of(study)
    sizes = (scenario, method, tier.mapper, generations, tier.population)
    fronts, courses = (BySeed(study, kind, sizes) for kind in ("fronts", "courses"))

    def run() -> dict[str, object]:
        found = search(scenario, METHODS[method], tier, generations, seed)
        sets = {"result": found.result, "archive": found.archive}
        fronts.keep(seed, _FRONTS, [[name, *(f"{x:.6g}" for x in row)] for name, own in sets.items() for row in own])
        course = zip(found.volumes, found.stability, strict=True)
        courses.keep(seed, _COURSES, [[f"{g}", f"{v:.5f}", f"{s:.4g}"] for g, (v, s) in enumerate(course)])
        return {
            "evaluations": found.evaluations,
            "seconds": f"{found.seconds:.2f}",
            "designs": len(found.result),
            "archived": len(found.archive),
        }

    row = kept.get(*sizes, seed, run=run)
    if row is None:
        return None
    points, course = fronts.rows(seed), np.array(courses.rows(seed), float)
    return Found(
        seed=seed,
        result=_points(points, "result"),
        archive=_points(points, "archive"),
        evaluations=int(row["evaluations"]),
        seconds=float(row["seconds"]),
        volumes=course[:, 1],
        stability=course[:, 2],
    )


def search(scenario: str, method: Method, tier: Tier, generations: int, seed: int) -> Found:
    """Runs one search."""
    settings = _settings(method, tier, generations)
    space = space_of(scenario, tier, method.tables, method.fixed, method.package)
    if method.only:
        names = [t.name for t in problem_of(scenario, tier).resolved.templates]
        space = alone(space, names.index(method.only))
    exponents = Goals(objective=method.objective, weights=settings.weights).exponents
    space = dataclasses.replace(space, weights=jnp.asarray(exponents, space.weights.dtype))
    problem = {"nsga2": plain_problem, "random": _random_problem}.get(method.kind)
    key = jax.random.fold_in(search_keys(0)[2], seed)
    rates = settings.plan_rates if method.kind == "default" else settings.rates
    generated = Generations(
        key, space, settings.moham, rates=rates, problem=None if problem is None else problem(settings.moham)
    )
    volumes: list[float] = []
    stability: list[float] = []
    last = None
    for _, last in generated:
        volumes += last.hypervolume
        stability += last.stability
    state = generated.state
    assert state is not None and last is not None
    archive = np.asarray(state.archive.objectives, float)[np.asarray(state.archive.valid)]
    first = np.asarray(state.population.rank) == 0
    population = np.asarray(state.population.objectives, float)[first]
    return Found(
        seed=seed,
        result=np.unique(population if settings.moham.result == "population" else archive, axis=0),
        archive=archive,
        evaluations=last.evaluations,
        seconds=last.seconds,
        volumes=np.asarray(volumes),
        stability=np.asarray(stability),
    )


@dataclasses.dataclass(frozen=True)
class BySeed:
    """A compressed CSV file with what every seed of a kind of search found; its first column is the seed.

    Processes that run side by side have to run different kinds of searches.

    Attributes:
        study: the call of the script.
        kind: folder of the file.
        sizes: what the searches have in common; it names the file.
    """

    study: Study
    kind: str
    sizes: tuple[object, ...]

    @property
    def file(self) -> pathlib.Path:
        """Where it is."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", " ".join(map(str, self.sizes)))
        return self.study.folder / self.kind / f"{self.study.tier}-{name}.csv.gz"

    def _lines(self) -> list[list[str]]:
        if not self.file.exists():
            return []
        return list(csv.reader(io.StringIO(gzip.decompress(self.file.read_bytes()).decode())))[1:]

    def rows(self, seed: int) -> list[list[str]]:
        """Rows of a seed, without the seed; none is an error, since its line in `searches_runs.csv` promises them."""
        found = [row[1:] for row in self._lines() if row[0] == str(seed)]
        if not found:
            raise ValueError(f"{self.file} lacks seed {seed}: remove its line from searches_runs.csv to run it again")
        return found

    def keep(self, seed: int, columns: tuple[str, ...], rows: list[list[str]]) -> None:
        """Writes a seed's rows in the place of those that the file had."""
        others = [row for row in self._lines() if row[0] != str(seed)]
        text = io.StringIO()
        own = [[str(seed), *row] for row in rows]
        csv.writer(text, lineterminator="\n").writerows([["seed", *columns], *others, *own])
        make_folder(self.file.parent)
        write_bytes(self.file, gzip.compress(text.getvalue().encode(), mtime=0))  # a stop leaves the other seeds whole


def _points(rows: list[list[str]], name: str) -> np.ndarray:
    """`[N, 3]` objectives of a set."""
    return np.array([[float(x) for x in row[1:]] for row in rows if row[0] == name]).reshape(-1, 3)
