"""The genetic algorithm of G#: mutation and three crossovers on both genomes (Section 4.2.3), on the shared loop.

Survival on the shared loop is ours: the best of parents and offspring survive, so that the elite is never lost; of
schedules that are equal in all objectives one survives, unless these only count jobs. With several objectives the same
search gives a Pareto front. `generational` has the selection of the paper's text and of its release.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from mohamjax.emo.loop import Problem
from mohamjax.jobs.job_problem import COUNTS, JobGenes, JobProblem, decode, evaluate, informed_accelerator
from mohamjax.runtime.struct import record, select


@record
class JobRates:
    """Probabilities of the operators, traced.

    Attributes:
        mutation: per gene of both genomes: the gene is drawn anew.
        crossover_gen: per pair of parents: one genome is exchanged behind a pivot.
        crossover_rg: per pair: a range of jobs is exchanged in both genomes.
        crossover_accel: per pair: all jobs of one accelerator are handed on with both genes.
        mutation_range: every child divides `mutation` by its own factor, log-uniform from 1 to e to this power; 0 (the
            paper) gives all the same rate.
        informed: per child: mutation draws accelerators by their cost for the job, not uniformly. Not in the paper.
        swap: per child: two jobs exchange places. Not in the paper.
        relieve: per child: a job of the accelerator with the most work is placed anew. Not in the paper.
    """

    mutation: float | jax.Array = 0.05
    crossover_gen: float | jax.Array = 0.9
    crossover_rg: float | jax.Array = 0.05
    crossover_accel: float | jax.Array = 0.05
    mutation_range: float | jax.Array = 0.0
    informed: float | jax.Array = 0.0
    swap: float | jax.Array = 0.0
    relieve: float | jax.Array = 0.0


PAPER_RATES = JobRates()
"""The rates of Section 4.2.3."""

RELEASED_RATES = JobRates(crossover_rg=0.1, crossover_accel=0.1)
"""The rates of the release, for `released_vary`."""

STANDARD_RATES = JobRates(mutation=0.1, crossover_gen=0.1, crossover_rg=0.0, crossover_accel=0.0)
"""The rates of the standard genetic algorithm of Table 5, for `standard_vary`."""

DEFAULT_RATES = JobRates(
    mutation=0.2,
    crossover_gen=0.4,
    crossover_rg=0.6,
    crossover_accel=0.4,
    mutation_range=4.5,
    informed=0.8,
    swap=0.3,
    relieve=0.5,
)
"""Our rates, chosen by `experiments/gsharp_rates.py`."""


def random_genes(key: jax.Array, problem: JobProblem) -> JobGenes:
    """One random schedule; the key is consumed."""
    return decode(jax.random.uniform(key, (2 * problem.mask.shape[0],)), problem)


def _mix(take: jax.Array, ours: JobGenes, theirs: JobGenes) -> JobGenes:
    """Genes of `theirs` where `take`, else of `ours`."""
    return select(take, theirs, ours)


def crossover_gen(cut: jax.Array, coin: jax.Array, ours: JobGenes, theirs: JobGenes, mask: jax.Array) -> JobGenes:
    """Crossover-gen: one genome comes from `theirs` behind a pivot.

    Args:
        cut: `[]` in [0, 1), place of the pivot among the real jobs.
        coin: `[]` in [0, 1), accelerators are exchanged below 0.5, else priorities.
        ours: genes `[J]`.
        theirs: genes `[J]`.
        mask: `[J]` bool, real jobs.
    """
    pivot = 1 + (cut * (jnp.sum(mask) - 1)).astype(jnp.int32)
    behind = jnp.arange(mask.shape[0]) >= pivot
    return JobGenes(
        accelerator=jnp.where(behind & (coin < 0.5), theirs.accelerator, ours.accelerator),
        priority=jnp.where(behind & (coin >= 0.5), theirs.priority, ours.priority),
    )


def crossover_rg(cuts: jax.Array, ours: JobGenes, theirs: JobGenes, mask: jax.Array) -> JobGenes:
    """Crossover-rg: a range of jobs comes from `theirs` with both genes; `cuts` `[2]` in [0, 1)."""
    ends = jnp.sort((cuts * (jnp.sum(mask) + 1)).astype(jnp.int32))
    index = jnp.arange(mask.shape[0])
    return _mix((index >= ends[0]) & (index < ends[1]), ours, theirs)


def crossover_accel(chosen: jax.Array, ours: JobGenes, theirs: JobGenes, anywhere: jax.Array) -> JobGenes:
    """Crossover-accel: jobs of one accelerator come from `theirs` with both genes.

    Other jobs that `ours` had on this accelerator move to `anywhere`.

    Args:
        chosen: `[]` int32, the accelerator.
        ours: genes `[J]`.
        theirs: genes `[J]`.
        anywhere: `[J]` int32, an accelerator for each job that must make room.
    """
    given = theirs.accelerator == chosen
    evicted = (ours.accelerator == chosen) & ~given
    ours = JobGenes(accelerator=jnp.where(evicted, anywhere, ours.accelerator), priority=ours.priority)
    return _mix(given, ours, theirs)


def mutate(key: jax.Array, genes: JobGenes, problem: JobProblem, rates: JobRates) -> JobGenes:
    """Draws each gene anew with the probability of mutation; the key is consumed."""
    jobs = problem.mask.shape[0]
    scale_key, coin_key = jax.random.split(key)
    scale, informed = jax.random.uniform(scale_key, (2,))
    rate = rates.mutation * jnp.exp(-rates.mutation_range * scale)
    coin = jax.random.uniform(coin_key, (2 * jobs,))
    # A coin below the rate, divided by the rate, is again uniform.
    uniform = coin / jnp.maximum(rate, 1e-9)
    fresh = decode(uniform, problem)
    chosen = jnp.where(informed < rates.informed, informed_accelerator(uniform[:jobs], problem), fresh.accelerator)
    return JobGenes(
        accelerator=jnp.where(coin[:jobs] < rate, chosen, genes.accelerator),
        priority=jnp.where(coin[jobs:] < rate, fresh.priority, genes.priority),
    )


def swap(uniform: jax.Array, genes: JobGenes, problem: JobProblem) -> JobGenes:
    """Two random jobs exchange genes; a job keeps its accelerator if it cannot run on the other's; `uniform` `[2]`."""
    one, two = (uniform * jnp.sum(problem.mask)).astype(jnp.int32)

    def put(genes: JobGenes, job: jax.Array, accelerator: jax.Array, priority: jax.Array) -> JobGenes:
        able = jnp.isfinite(problem.duration[job, accelerator])
        return JobGenes(
            accelerator=genes.accelerator.at[job].set(jnp.where(able, accelerator, genes.accelerator[job])),
            priority=genes.priority.at[job].set(priority),
        )

    changed = put(genes, one, genes.accelerator[two], genes.priority[two])
    return put(changed, two, genes.accelerator[one], genes.priority[one])


def relieve(uniform: jax.Array, genes: JobGenes, problem: JobProblem) -> JobGenes:
    """Places a random job of the accelerator with the most work anew, drawn by the job's cost on each accelerator.

    The draw may be the accelerator that the job is on; then nothing changes.

    Args:
        uniform: `[2]` in [0, 1).
        genes: `[J]`.
        problem: the problem.
    """
    cores = jnp.arange(problem.duration.shape[1])
    mine = (genes.accelerator[:, None] == cores) & problem.mask[:, None]
    load = jnp.sum(jnp.where(mine, problem.duration, 0.0), axis=0)
    longest = mine[:, jnp.argmax(load)]
    nth = jnp.floor(uniform[0] * jnp.sum(longest)) + 1
    job = jnp.argmax(longest & (jnp.cumsum(longest) == nth))
    target = informed_accelerator(jnp.full(problem.mask.shape, uniform[1]), problem)[job]
    return JobGenes(accelerator=genes.accelerator.at[job].set(target), priority=genes.priority)


def vary(
    key: jax.Array, mother: JobGenes, father: JobGenes, problem: JobProblem, rates: JobRates
) -> tuple[JobGenes, JobGenes]:
    """Two children of a pair: crossover-gen, -rg and -accel, then for each child mutation, swap and relieve.

    Each operator is applied with the probability that `rates` gives it.

    Args:
        key: typed key, consumed.
        mother: genes `[J]`.
        father: genes `[J]`.
        problem: the jobs and accelerators.
        rates: probabilities of the operators.
    """
    jobs, mask = problem.mask.shape[0], problem.mask
    keys = jax.random.split(key, 4)
    draw = jax.random.uniform(keys[0], (8,))
    anywhere = decode(jnp.tile(jax.random.uniform(keys[1], (jobs,)), 2), problem).accelerator

    def cross(happens: jax.Array, operator, pair: tuple[JobGenes, JobGenes]) -> tuple[JobGenes, JobGenes]:
        ours, theirs = pair
        return _mix(happens, ours, operator(ours, theirs)), _mix(happens, theirs, operator(theirs, ours))

    pair = (father, mother)
    pair = cross(draw[0] < rates.crossover_gen, lambda a, b: crossover_gen(draw[1], draw[2], a, b, mask), pair)
    pair = cross(draw[3] < rates.crossover_rg, lambda a, b: crossover_rg(draw[4:6], a, b, mask), pair)
    chosen = jnp.minimum((draw[6] * problem.accelerators).astype(jnp.int32), problem.accelerators - 1)
    pair = cross(draw[7] < rates.crossover_accel, lambda a, b: crossover_accel(chosen, a, b, anywhere), pair)

    def finish(key: jax.Array, child: JobGenes) -> JobGenes:
        gene_key, draw_key = jax.random.split(key)
        draw = jax.random.uniform(draw_key, (6,))
        child = mutate(gene_key, child, problem, rates)
        child = _mix(draw[0] < rates.swap, child, swap(draw[1:3], child, problem))
        return _mix(draw[3] < rates.relieve, child, relieve(draw[4:6], child, problem))

    return finish(keys[2], pair[0]), finish(keys[3], pair[1])


def informed_genes(key: jax.Array, problem: JobProblem) -> JobGenes:
    """One random schedule, with probability 1/2 with accelerators drawn by their cost; the key is consumed."""
    coin_key, plain_key, draw_key = jax.random.split(key, 3)
    plain = random_genes(plain_key, problem)
    chosen = informed_accelerator(jax.random.uniform(draw_key, problem.mask.shape), problem)
    informed = jax.random.bernoulli(coin_key)
    return JobGenes(accelerator=jnp.where(informed, chosen, plain.accelerator), priority=plain.priority)


@functools.cache
def gsharp_problem(objectives: tuple[str, ...], informed: bool = True) -> Problem:
    """G# as a problem of the shared loop.

    Args:
        objectives: names in `job_problem.OBJECTIVES`.
        informed: half of the random schedules draw accelerators by their cost (`informed_genes`), not uniformly.
    """
    return Problem(
        sample=informed_genes if informed else random_genes,
        vary=vary,
        evaluate=functools.partial(evaluate, objectives=objectives),
        # With numbers of jobs as the only objectives most schedules are equal, and one that comes to a known number by
        # other ways must be able to stay.
        distinct=not set(objectives) <= COUNTS,
    )


def standard_vary(
    key: jax.Array, mother: JobGenes, father: JobGenes, problem: JobProblem, rates: JobRates
) -> tuple[JobGenes, JobGenes]:
    """Children of the standard genetic algorithm: one pivot through the concatenation of both genomes, then mutation.

    The pivot lies among the genes of real jobs, so that every crossover exchanges some genes and keeps others. The
    arguments are those of `vary`. Of the rates it uses `crossover_gen` and those of `mutate`.
    """
    jobs = jnp.sum(problem.mask)
    draw_key, one, two = jax.random.split(key, 3)
    draw = jax.random.uniform(draw_key, (2,))
    pivot = 1 + (draw[0] * (2 * jobs - 1)).astype(jnp.int32)
    index = jnp.arange(problem.mask.shape[0])
    take = JobGenes(accelerator=index >= pivot, priority=index + jobs >= pivot)

    def cross(ours: JobGenes, theirs: JobGenes) -> JobGenes:
        mixed = jax.tree.map(jnp.where, take, theirs, ours)
        return _mix(draw[1] < rates.crossover_gen, ours, mixed)

    return mutate(one, cross(father, mother), problem, rates), mutate(two, cross(mother, father), problem, rates)


@functools.cache
def standard_problem(objectives: tuple[str, ...]) -> Problem:
    """The standard genetic algorithm on the shared loop."""
    return dataclasses.replace(gsharp_problem(objectives, informed=False), vary=standard_vary)


def released_vary(
    key: jax.Array, mother: JobGenes, father: JobGenes, problem: JobProblem, rates: JobRates
) -> tuple[JobGenes, JobGenes]:
    """Children of a pair as the release makes them, including its mistakes; the arguments are those of `vary`.

    Crossover-gen changes only one child; the other stays a copy of its parent. Crossover-rg replaces both by the same
    schedule: the father's jobs up to a single cut, the mother's behind it. Crossover-accel replaces the first child by
    the father with the mother's jobs on one accelerator. Mutation follows.
    """
    jobs, mask = problem.mask.shape[0], problem.mask
    keys = jax.random.split(key, 4)
    draw = jax.random.uniform(keys[0], (7,))
    anywhere = decode(jnp.tile(jax.random.uniform(keys[1], (jobs,)), 2), problem).accelerator
    one = _mix(draw[0] < rates.crossover_gen, father, crossover_gen(draw[1], draw[2], father, mother, mask))
    cut = (draw[4] * (jnp.sum(mask) + 1)).astype(jnp.int32)
    same = _mix(jnp.arange(jobs) >= cut, father, mother)
    ranged = draw[3] < rates.crossover_rg
    one, two = _mix(ranged, one, same), _mix(ranged, mother, same)
    chosen = jnp.minimum((draw[5] * problem.accelerators).astype(jnp.int32), problem.accelerators - 1)
    one = _mix(draw[6] < rates.crossover_accel, one, crossover_accel(chosen, father, mother, anywhere))
    return mutate(keys[2], one, problem, rates), mutate(keys[3], two, problem, rates)


@functools.cache
def released_problem(objectives: tuple[str, ...]) -> Problem:
    """G# with the operators of its release."""
    return dataclasses.replace(gsharp_problem(objectives, informed=False), vary=released_vary)


def _redraw(
    key: jax.Array, mother: JobGenes, father: JobGenes, problem: JobProblem, rates: JobRates
) -> tuple[JobGenes, JobGenes]:
    one, two = jax.random.split(key)
    return random_genes(one, problem), random_genes(two, problem)


@functools.cache
def random_problem(objectives: tuple[str, ...]) -> Problem:
    """Random search on the shared loop: children are drawn anew."""
    return dataclasses.replace(gsharp_problem(objectives, informed=False), vary=_redraw)
