"""G# end to end: schedules of a job table by any method, with equal budgets, evaluated in double precision."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.emo.loop import Problem, Sizes, evolved, island_keys
from mohamjax.errors import InputError
from mohamjax.jobs.baselines import LIBRARY_METHODS, library_search
from mohamjax.jobs.bounds import job_bound
from mohamjax.jobs.config import JobGoals, JobSearchConfig
from mohamjax.jobs.generational import PRINTED, RELEASED, TEXTBOOK, Succession, generational
from mohamjax.jobs.genetic import (
    DEFAULT_RATES,
    PAPER_RATES,
    RELEASED_RATES,
    STANDARD_RATES,
    JobRates,
    gsharp_problem,
    random_problem,
    released_problem,
    standard_problem,
)
from mohamjax.jobs.heuristics import HEURISTICS, Plan, run_heuristic
from mohamjax.jobs.job_problem import OBJECTIVES, JobGenes, JobProblem, evaluate
from mohamjax.jobs.reinforcement import LEARNING_METHODS, learning_search
from mohamjax.jobs.shared_link import priority_order
from mohamjax.jobs.table import JobTable
from mohamjax.runtime.struct import shown_briefly, take
from mohamjax.schedule.fluid import padded_jobs

SEEDS = ("LPT-EFT", "LPT-stall", "HEFT", "FCFS-MET", "SJF-MET", "SJF-OLB", "FCFS-OLB")
"""Heuristics whose schedules seed G#."""


@shown_briefly
@dataclasses.dataclass(frozen=True, eq=False)
class JobSchedule:
    """One schedule, and how it was found.

    Attributes:
        method: name of the method.
        plan: accelerators and order.
        objectives: value of each of `job_problem.OBJECTIVES`, in double precision; energy and edp are NaN where the
            table has no energies.
        evaluations: schedules evaluated by the search.
        seconds: wall time of the search [s], including compile time.
        history: (evaluations so far, best value of the first objective so far), in single precision.
    """

    method: str
    plan: Plan
    objectives: dict[str, float]
    evaluations: int
    seconds: float
    history: tuple[tuple[int, float], ...] = ()


@shown_briefly
@dataclasses.dataclass(frozen=True, eq=False)
class JobFront:
    """Non-dominated schedules of one search, by rising first objective; a single one for a single objective."""

    method: str
    schedules: tuple[JobSchedule, ...]

    @property
    def best(self) -> JobSchedule:
        """The schedule with the least first objective."""
        return self.schedules[0]


def genes_of(plans: Sequence[Plan], jobs: int) -> JobGenes:
    """Genes `[K, J]` of plans, padded to J jobs."""

    def pad(rows: list[np.ndarray], dtype: jax.typing.DTypeLike) -> jax.Array:
        return jnp.asarray(np.stack([np.pad(row, (0, jobs - len(row))) for row in rows]), dtype)

    return JobGenes(
        accelerator=pad([p.accelerator for p in plans], jnp.int32),
        priority=pad([p.priority for p in plans], jnp.float32),
    )


def _plans(genes: JobGenes, count: int) -> list[Plan]:
    """Plans of genes `[K, J]`; only the first `count` jobs are real."""
    where = np.asarray(genes.accelerator)[:, :count]
    order = np.asarray(priority_order(genes.priority[:, :count]))
    return [Plan(a, o) for a, o in zip(where, order, strict=True)]


def seed_plans(table: JobTable) -> list[Plan]:
    """The schedules of `SEEDS`."""
    return [run_heuristic(name, table) for name in SEEDS]


def given_schedules(
    table: JobTable, plans: dict[str, Plan], config: JobSearchConfig, goals: JobGoals | None = None
) -> list[JobFront]:
    """Fronts of schedules found elsewhere, each under its name as a method, the best first.

    Args:
        table: the jobs.
        plans: order and accelerators, by name.
        config: fronts are sorted by its first objective.
        goals: weights, deadlines and targets of the jobs.
    """
    if not plans:
        return []
    began = time.perf_counter()
    values = evaluate_plans(table, list(plans.values()), goals)
    seconds = (time.perf_counter() - began) / len(plans)
    first = config.objectives[0]
    found = [
        JobFront(name, (JobSchedule(name, plan, own, 1, seconds),))
        for (name, plan), own in zip(plans.items(), values, strict=True)
    ]
    return sorted(found, key=lambda front: front.best.objectives[first])


def evaluate_plans(table: JobTable, plans: Sequence[Plan], goals: JobGoals | None = None) -> list[dict[str, float]]:
    """Every objective of every plan, in double precision; energy and edp are NaN if the table has no energies.

    Args:
        table: the jobs.
        plans: K schedules.
        goals: weights, deadlines and targets of the jobs.
    """
    with jax.enable_x64(True):
        problem = (goals or JobGoals()).problem(table, dtype=jnp.float64)
        genes = genes_of(plans, len(table.jobs))
        values = np.asarray(_evaluated(genes, problem))
    unknown = {"energy": math.nan, "edp": math.nan} if table.energy is None else {}
    return [dict(zip(OBJECTIVES, map(float, row), strict=True)) | unknown for row in values]


@jax.jit
def _evaluated(genes: JobGenes, problem: JobProblem) -> jax.Array:
    return evaluate(genes, problem, OBJECTIVES)


@functools.partial(jax.jit, static_argnames=("problem", "sizes", "generations", "succession"))
def searched_islands(
    keys: jax.Array,
    context: JobProblem,
    seeds: JobGenes | None,
    rates: JobRates,
    *,
    problem: Problem,
    sizes: Sizes,
    generations: int,
    succession: Succession | None = None,
    target: jax.Array | None = None,
) -> tuple[emo.Archive[JobGenes], jax.Array]:
    """The jitted program of `search_islands`, with the same result.

    Args:
        keys: `[I]` typed keys, one for each island, consumed.
        context: see `search_islands`.
        seeds: see `search_islands`.
        rates: see `search_islands`; float32.
        problem: static.
        sizes: static.
        generations: static, generations after the first population.
        succession: static, see `search_islands`.
        target: `[]` float32, or None.
    """

    def one(key: jax.Array, context: JobProblem, seeds: JobGenes | None) -> tuple[emo.Archive, jax.Array]:
        if succession is not None:
            both = sizes.population, generations
            return generational(
                key, context, seeds, rates, problem=problem, succession=succession, sizes=both, target=target
            )
        state, best = evolved(
            key, context, seeds, rates, problem=problem, sizes=sizes, generations=generations, target=target
        )
        return state.archive, best

    return jax.vmap(one, out_axes=(0, 1))(keys, context, seeds)


def search_islands(
    key: jax.Array,
    context: JobProblem,
    config: JobSearchConfig,
    *,
    rates: JobRates = DEFAULT_RATES,
    seeds: JobGenes | None = None,
    problem: Problem | None = None,
    succession: Succession | None = None,
    target: float | None = None,
) -> tuple[emo.Archive, jax.Array]:
    """Searches I problems in parallel; compiles once for all problems of the same sizes.

    Args:
        key: typed key, consumed.
        context: problems with a leading axis `[I]`.
        config: sizes; its seed is not used.
        rates: probabilities of the operators, traced.
        seeds: `[I, K, J]`, individuals of the first population, or None.
        problem: sampling, variation and evaluation; default `gsharp_problem`.
        succession: how children replace their parents, for one objective, measured in the unit of the problems
            (`Succession.measured`); None for the survival of the shared loop.
        target: lower bound of the first objective: an island that reaches it, in single precision, stops. None: all
            generations are run.

    Returns:
        The archive `[I, ...]` of the best schedules, and the best value of every objective after each generation,
        `[G + 1, I, M]`; rows after the one that reaches the target are meaningless.
    """
    chosen = gsharp_problem(config.objectives) if problem is None else problem
    archive = 2 if len(config.objectives) == 1 else config.archive
    # All rates become float32, because another type would compile anew.
    traced = jax.tree.map(lambda rate: jnp.asarray(rate, jnp.float32), rates)
    return searched_islands(
        island_keys(key, context.mask.shape[0]), context, seeds, traced,
        problem=chosen, sizes=Sizes(config.population, immigrants=0, archive=archive), generations=config.generations,
        succession=succession, target=None if target is None else jnp.float32(target),
    )  # fmt: skip


class GeneticMethod(NamedTuple):
    """A genetic method.

    Attributes:
        rates: probabilities of the operators.
        make: makes the problem for given objectives.
        seeded: whether schedules of heuristics start in the first population.
        succession: how children replace their parents; None for the survival of the shared loop.
    """

    rates: JobRates
    make: Callable[[tuple[str, ...]], Problem]
    seeded: bool = False
    succession: Succession | None = None


def _genetic(
    table: JobTable,
    goals: JobGoals,
    config: JobSearchConfig,
    method: GeneticMethod,
    given: Sequence[Plan],
    target: float,
) -> tuple[list[Plan], list[tuple[int, float]]]:
    """Plans of one search (archive and seeds), and its history up to the generation that reaches the target."""
    jobs = padded_jobs(len(table.jobs))
    context = jax.tree.map(lambda leaf: leaf[None], goals.problem(table, jobs=jobs))
    plans = [*given, *(seed_plans(table) if method.seeded else ())][: config.population]
    seeds = jax.tree.map(lambda leaf: leaf[None], genes_of(plans, jobs)) if plans else None
    succession = method.succession and method.succession.measured(config.objectives[0], table.time_unit)
    archive, best = search_islands(
        jax.random.key(config.seed),
        context,
        config,
        rates=method.rates,
        seeds=seeds,
        problem=method.make(config.objectives),
        succession=succession,
        target=target,
    )
    valid = np.asarray(archive.valid[0])
    found = _plans(take(archive.genes, (0, valid)), len(table.jobs))
    steps = [(config.population * (g + 1), float(v)) for g, v in enumerate(np.asarray(best)[:, 0, 0])]
    return found + plans, _until(steps, target)


def _target(method: str, table: JobTable, config: JobSearchConfig, bound: float | None) -> float:
    """Value at which a search can stop: the lower bound of the makespan if that is its only objective, else -inf."""
    if config.objectives != ("makespan",) or method not in (*GENETIC, *LIBRARY_METHODS):
        return -np.inf
    return job_bound(table).best if bound is None else bound


def _until(steps: list[tuple[int, float]], target: float) -> list[tuple[int, float]]:
    """A history up to the step that reaches a target, in single precision."""
    last = next((i for i, (_, value) in enumerate(steps) if value <= np.float32(target)), len(steps))
    return steps[: last + 1]


GENETIC = {
    "gsharp": GeneticMethod(DEFAULT_RATES, gsharp_problem, seeded=True),
    "gsharp-unseeded": GeneticMethod(DEFAULT_RATES, gsharp_problem),
    "gsharp-paper": GeneticMethod(PAPER_RATES, functools.partial(gsharp_problem, informed=False)),
    "standard-ga": GeneticMethod(STANDARD_RATES, standard_problem),
    "gsharp-printed": GeneticMethod(PAPER_RATES, functools.partial(gsharp_problem, informed=False), succession=PRINTED),
    "gsharp-released": GeneticMethod(RELEASED_RATES, released_problem, succession=RELEASED),
    "standard-ga-printed": GeneticMethod(STANDARD_RATES, standard_problem, succession=TEXTBOOK),
    "random": GeneticMethod(PAPER_RATES, random_problem),
}
"""Genetic methods and random search, by name; those with a `succession` select as published, not as the shared loop."""

STARTED = tuple(name for name in GENETIC if name != "random")
"""Methods that start from given schedules, before those of heuristics. Random search draws all schedules anew."""

METHODS = (*GENETIC, *HEURISTICS, *LEARNING_METHODS, *LIBRARY_METHODS)
"""Names of all methods: G# in five forms, baselines on the same loops, heuristics, learning methods, optimisers of a
library."""


@dataclasses.dataclass(frozen=True)
class JobPreset:
    """G# as it was published.

    Attributes:
        methods: the search, which `api.schedule_jobs` uses, then those of its paper's baselines that need no library.
        population: schedules of a generation.
        generations: generations after the first population.
        demand: convention of `analysis.bandwidth_demand` for job tables from closed forms.
        lb: style of the LB cores of the named platforms.
    """

    methods: tuple[str, ...]
    demand: str
    lb: str
    population: int = 100
    generations: int = 99


_TABLE_5 = ("HEFT", *(f"{rule}-{core}" for rule in ("FCFS", "SJF") for core in ("OLB", "MET", "RR")))

PRESETS = {
    "gsharp": JobPreset(("gsharp-printed", "standard-ga-printed", *_TABLE_5), demand="per-tile", lb="LB_rs"),
    "as-released": JobPreset(("gsharp-released", *_TABLE_5), demand="as-released", lb="LB_os"),
}
"""G# as in the paper's text (operators and rates of Section 4.2.3, 100 generations of 100 schedules of Section 5.1.5,
the demand of Section 3.5.2), and as in its release."""


def preset_named(name: str) -> JobPreset:
    """A preset by its name.

    Raises:
        InputError: there is no preset of that name.
    """
    if name not in PRESETS:
        raise InputError(f"unknown preset {name!r}", argument="preset", remedy=f"name one of {', '.join(PRESETS)}")
    return PRESETS[name]


def check_method(method: str, config: JobSearchConfig) -> None:
    """Checks that a method exists and can search the objectives.

    Raises:
        InputError: the method is unknown, its library is not installed, or it takes only one objective.
    """
    if method not in METHODS:
        raise InputError(f"{method!r} is not known", item="method", remedy=f"name one of {', '.join(METHODS)}")
    if method in LIBRARY_METHODS and importlib.util.find_spec("nevergrad") is None:
        remedy = "run pip install 'mohamjax[baselines]'"
        raise InputError(f"{method} needs nevergrad, which is not installed", item="method", remedy=remedy)
    single = (*LEARNING_METHODS, *LIBRARY_METHODS, *(name for name, own in GENETIC.items() if own.succession))
    if len(config.objectives) > 1 and method in single:
        raise InputError(f"{method} takes one objective", item="objective", remedy="name one, or use gsharp")


def check_goals(config: JobSearchConfig, goals: JobGoals) -> None:
    """Checks that objectives that need deadlines have some.

    Raises:
        InputError: tardiness, lateness or missed deadlines without a deadline.
    """
    wanted = [name for name in config.objectives if name in ("tardiness", "lateness", "missed")]
    if wanted and (goals.deadline is None or not np.isfinite(goals.deadline).any()):
        raise InputError(
            "no job has a deadline",
            item="objective",
            remedy=f"give deadline_cycles in a jobs file or `deadline` in a job table, or leave {wanted[0]} out",
        )


def check_problem(table: JobTable, config: JobSearchConfig, goals: JobGoals) -> None:
    """Checks that a table can be scheduled for the objectives.

    Raises:
        InputError: the table is not for G#, or an objective needs energies or deadlines that are missing.
    """
    goals.problem(table)  # raises InputError for a table that is not for G#
    if table.energy is None and {"energy", "edp"} & set(config.objectives):
        raise InputError(
            "the job table has no energies (closed forms know none)",
            item="objective",
            remedy="take the argument `cost_model=loop-nest`, give a job table with energy_J, or minimise makespan",
        )
    check_goals(config, goals.of(table))


def run_method(
    method: str,
    table: JobTable,
    config: JobSearchConfig | None = None,
    goals: JobGoals | None = None,
    given: Sequence[Plan] = (),
    bound: float | None = None,
) -> JobFront:
    """Schedules a table by one method.

    A search for the least makespan ends with the generation that reaches the lower bound, in single precision, and
    counts the evaluations up to it; the learning methods always run all generations. The time to compute the bound is
    not part of `JobSchedule.seconds`.

    Args:
        method: one of `METHODS`. `gsharp` starts from the heuristics of `SEEDS`, `gsharp-unseeded` from random
            schedules; `gsharp-paper` has only the paper's operators and rates, and uniformly drawn schedules;
            `gsharp-printed` and `gsharp-released` also select as the text and the release do; in `standard-ga-printed`
            children replace all parents. A2C and PPO learn from batches of as many episodes as the population has
            schedules.
        table: independent jobs behind one bandwidth.
        config: sizes, objectives and seed; default 10,000 evaluations, makespan.
        goals: weights, deadlines and targets of the jobs.
        given: known schedules, such as a transferred one, for the first population of the methods in `STARTED`, as
            many as it holds; other methods ignore them.
        bound: the lower bound of the makespan, `job_bound(table).best`, if it is known already.

    Returns:
        The best schedule, or with several objectives the non-dominated schedules.

    Raises:
        InputError: the method is unknown or not installed, or the table is not for G#.
    """
    config, goals = config or JobSearchConfig(), goals or JobGoals()
    check_method(method, config)
    check_problem(table, config, goals)
    target = _target(method, table, config, bound)
    began = time.perf_counter()
    history: list[tuple[int, float]] = []
    evaluations = config.evaluations
    if method in GENETIC:
        plans, history = _genetic(table, goals, config, GENETIC[method], given if method in STARTED else (), target)
        evaluations = history[-1][0]
    elif method in HEURISTICS:
        plans, evaluations = [run_heuristic(method, table, config.seed)], 1
    elif method in LEARNING_METHODS:
        genes, history = learning_search(method, goals.problem(table, jobs=padded_jobs(len(table.jobs))), config)
        plans = _plans(genes, len(table.jobs))
    else:
        genes, history = library_search(method, goals.problem(table), config, target)
        evaluations = history[-1][0]
        plans = _plans(genes, len(table.jobs))
    values = evaluate_plans(table, plans, goals)
    keep = emo.distinct_front(np.asarray([[row[name] for name in config.objectives] for row in values]))
    seconds = time.perf_counter() - began
    return JobFront(
        method,
        tuple(JobSchedule(method, plans[i], values[i], evaluations, seconds, tuple(history)) for i in keep),
    )
