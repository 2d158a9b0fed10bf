"""How fast schedules are evaluated: the closed form of one shared link against the event simulation, and the sorts.

Writes evaluations per second against the population for 100 jobs on S4, by the closed form (`jobs.shared_link`) and by
`schedule.fluid.timeline_of`; the time of whole searches of 10,000 schedules; and the time of one sort of events by the
bitonic network and by XLA's own sort. Times are the smallest of several, without compilation.

    python experiments/gsharp_speed.py [--largest 100000] [--out experiments/results/gsharp_speed.md]
"""

import argparse
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
from gsharp_cases import case_table
from report import Report, header

from mohamjax.jobs import (
    DEFAULT_RATES,
    PAPER_RATES,
    JobGenes,
    JobSearchConfig,
    decode,
    evaluate,
    job_problem,
    search_islands,
)
from mohamjax.jobs.shared_link import _sorted, priority_order
from mohamjax.schedule.fluid import Jobs, Resources, predecessor_bits, timeline_of

POPULATIONS = (1, 10, 100, 1_000, 10_000, 100_000)


def seconds(function, *arguments, repeats: int = 7) -> float:
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return min(times)


@jax.jit
def closed_form(genes: JobGenes, problem):
    return evaluate(genes, problem)


@jax.jit
def simulated(genes: JobGenes, problem):
    jobs, cores = problem.duration.shape
    bits = jnp.asarray(predecessor_bits([()] * jobs))

    def one(accelerator, order):
        at = (jnp.arange(jobs), accelerator)
        duration = problem.duration[at]
        scheduled = Jobs(duration, problem.demand[at] * duration, bits, accelerator, order, problem.mask)
        resources = Resources(jnp.ones((cores, 1), bool), problem.bandwidth[None], jnp.full(cores, jnp.inf))
        return timeline_of(scheduled, resources).makespan

    return jax.vmap(one)(genes.accelerator, priority_order(genes.priority))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=max(POPULATIONS), help="no larger populations than this")
    parser.add_argument("--out", type=pathlib.Path, help="also write the tables to this file")
    arguments = parser.parse_args()
    report = Report()
    report.say("# Speed of G#'s evaluation", "", f"{header()}. 100 jobs on S4 at 1")
    report.say("byte/cycle, single precision. Times are the smallest of several, without compilation.", "")
    problem = job_problem(case_table("mix0", "S4", 1))
    jobs = problem.mask.shape[0]
    report.head("schedules", "closed form [1/s]", "simulation [1/s]", "ratio", "largest difference")
    for population in (p for p in POPULATIONS if p <= arguments.largest):
        genes = decode(jax.random.uniform(jax.random.key(0), (population, 2 * jobs)), problem)
        ours, theirs = seconds(closed_form, genes, problem), seconds(simulated, genes, problem)
        apart = np.max(np.abs(closed_form(genes, problem)[:, 0] / simulated(genes, problem) - 1))
        report.row(
            f"{population:,}",
            f"{population / ours:,.0f}",
            f"{population / theirs:,.0f}",
            f"{theirs / ours:.1f}",
            f"{apart:.0e}",
        )
    context = jax.tree.map(lambda leaf: leaf[None], problem)
    report.say("")
    for name, rates, population in (("the paper's operators", PAPER_RATES, 100), ("the default's", DEFAULT_RATES, 50)):
        config = JobSearchConfig(population=population, generations=10_000 // population - 1)
        search = functools.partial(search_islands, jax.random.key(1), context, config, rates=rates)
        whole = seconds(lambda search=search: search()[1], repeats=3)
        report.say(
            f"A whole search of {config.evaluations:,} schedules ({population} x {config.generations + 1}), {name} and "
            f"survival included, takes {whole:.2f} s."
        )
    report.say("")
    keys = jax.random.uniform(jax.random.key(2), (128, 256))
    network = jax.jit(lambda x: _sorted((x, x)))
    library = jax.jit(lambda x: jax.lax.sort((x, x), dimension=0, num_keys=1))
    rows = jax.jit(lambda x: jax.lax.sort((x, x), dimension=1, num_keys=1))
    report.say(
        f"A sort of 256 x 128 events with a payload: bitonic network {1e3 * seconds(network, keys):.2f} ms, XLA along "
        f"the first axis {1e3 * seconds(library, keys):.2f} ms, along the last {1e3 * seconds(rows, keys.T):.2f} ms."
    )
    report.write(arguments.out)


if __name__ == "__main__":
    main()
