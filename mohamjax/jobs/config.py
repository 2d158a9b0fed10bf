"""Settings of a search for job schedules, and the goals of tenants."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.emo.loop import MAX_POPULATION
from mohamjax.errors import InputError
from mohamjax.jobs.job_problem import JobProblem, check_objectives, job_problem
from mohamjax.jobs.table import JobTable
from mohamjax.runtime.checks import check_seed, check_whole


@dataclasses.dataclass(frozen=True)
class JobSearchConfig:
    """Sizes of a search.

    Attributes:
        population: schedules of a generation.
        generations: generations after the first population.
        objectives: names in `job_problem.OBJECTIVES`; several give a front.
        seed: seed of all randomness.
        archive: capacity of the archive for a front of several objectives.
    """

    population: int = 50
    generations: int = 199
    objectives: tuple[str, ...] = ("makespan",)
    seed: int = 0
    archive: int = 64

    def __post_init__(self) -> None:
        """Checks the values; raises InputError."""
        check_whole(self, "search", {"population": 2, "generations": 0, "archive": 1})
        check_seed(self.seed)
        check_objectives(self.objectives)
        least = 2 * len(self.objectives) if len(self.objectives) > 1 else 1
        if self.archive < least:
            raise InputError(
                f"is {self.archive}", argument="archive", remedy=f"give {least} or more, two per objective"
            )
        if self.population > MAX_POPULATION:
            raise InputError(
                f"{self.population:,} schedules at once", item="population", remedy=f"take at most {MAX_POPULATION:,}"
            )

    @property
    def evaluations(self) -> int:
        """Schedules evaluated by a search."""
        return self.population * (self.generations + 1)


@dataclasses.dataclass(frozen=True)
class JobGoals:
    """Goals of tenants beside a short makespan, see `job_problem.job_problem`; None takes those of the table.

    Attributes:
        weight: importance of each job, or None.
        deadline: deadline of each job [time units], or None.
        target: place at which each job should end, or None.
    """

    weight: tuple[float, ...] | None = None
    deadline: tuple[float, ...] | None = None
    target: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Checks every number."""
        for name, told, good in (
            ("weight", "numbers of 0 or more", lambda one: 0 <= one < math.inf),
            ("deadline", "numbers above 0", lambda one: one > 0),
            ("target", "places, from 0 on", lambda one: 0 <= one < 2**31 and one == int(one)),
        ):
            values = getattr(self, name)
            if values is None:
                continue
            if not isinstance(values, tuple | list | np.ndarray):
                kind = type(values).__name__
                remedy = f"give a tuple, list or NumPy array, one for each job: {told}"
                raise InputError(f"is of type {kind}", argument=name, remedy=remedy)
            for value in values:
                if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not good(value):
                    raise InputError(f"holds {value!r:.40}", argument=name, remedy=f"give one for each job: {told}")
        if self.weight is not None and len(self.weight) and not any(self.weight):
            raise InputError("has no number above 0", argument="weight", remedy="give some job a weight")

    def problem(
        self,
        table: JobTable,
        jobs: int | None = None,
        accelerators: int | None = None,
        dtype: jax.typing.DTypeLike = jnp.float32,
    ) -> JobProblem:
        """The problem of a table with these goals.

        Args:
            table: the jobs.
            jobs: J after padding; default the number of jobs.
            accelerators: A after padding; default the number of accelerators.
            dtype: float dtype.
        """
        own = self.of(table)
        return job_problem(
            table,
            jobs=jobs,
            accelerators=accelerators,
            weight=own.weight,
            deadline=own.deadline,
            target=own.target,
            dtype=dtype,
        )

    def of(self, table: JobTable) -> JobGoals:
        """These goals, completed by those of a table."""
        return JobGoals(
            weight=table.weight if self.weight is None else self.weight,
            deadline=table.deadline if self.deadline is None else self.deadline,
            target=table.target if self.target is None else self.target,
        )
