"""Genetic searches of several job tables side by side, as islands of one program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.jobs import JobSearchConfig, Plan, evaluate_plans, genes_of, job_problem, search_islands, seed_plans
from mohamjax.jobs.scheduler import GeneticMethod
from mohamjax.jobs.shared_link import priority_order
from mohamjax.jobs.table import JobTable

T = TypeVar("T")

ACCELERATORS = 16  # cores after padding: one program for all settings


def stacked(trees: Sequence[T]) -> T:
    """Stacks trees into one with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def searched(
    tables: Sequence[JobTable],
    method: GeneticMethod,
    config: JobSearchConfig,
    given: Sequence[Sequence[Plan]] | None = None,
    targets: Sequence[Sequence[int]] | None = None,
) -> tuple[list[Plan], np.ndarray]:
    """Searches several tables with equally many jobs side by side.

    Args:
        tables: I job tables, repeated where several seeds are wanted: every island has its own random numbers.
        method: the genetic method.
        config: sizes and one objective; its seed serves all islands.
        given: first schedules of each table, equally many for all; None for those of the method.
        targets: for each table the place in which each job should end; None for the order of the table.

    Returns:
        The best plans, and the least value after every generation `[I, G + 1]`.
    """
    jobs = len(tables[0].jobs)
    wanted = [None] * len(tables) if targets is None else targets
    problems = [job_problem(t, accelerators=ACCELERATORS, target=w) for t, w in zip(tables, wanted, strict=True)]
    if given is None and method.seeded:
        given = [seed_plans(table)[: config.population] for table in tables]
    archive, best = search_islands(
        jax.random.key(config.seed),
        stacked(problems),
        config,
        rates=method.rates,
        seeds=None if given is None else stacked([genes_of(plans, jobs) for plans in given]),
        problem=method.make(config.objectives),
        succession=method.succession,
    )
    slot = np.asarray(archive.objectives[..., 0]).argmin(axis=1)
    where, priority = np.asarray(archive.genes.accelerator), np.asarray(archive.genes.priority)
    plans = []
    for i, s in enumerate(slot):
        plan = Plan(where[i, s][:jobs], np.asarray(priority_order(jnp.asarray(priority[i, s][:jobs]))))
        plans.append(plan)
    return plans, np.asarray(best)[:, :, 0].T


def makespans(tables: Sequence[JobTable], plans: Sequence[Plan]) -> np.ndarray:
    """`[I]` float64, the makespan of one plan for each table."""
    return np.asarray([evaluate_plans(t, [p])[0]["makespan"] for t, p in zip(tables, plans, strict=True)])
