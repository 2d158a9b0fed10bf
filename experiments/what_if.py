"""Rate of what-if grids: schedules x hardware variants against plain evaluation, and agreement with separate problems.

    python experiments/what_if.py [--schedules 1000] [--variants 100] [--rounds 5] [--float64] [--separate 100]

Schedules of `ar-vr` are random, on random mappings. Plain evaluation is the program that evaluates designs of files
(`vmap(report)` with stated sizes, of which only the objectives are used) in blocks of 1,024 designs; the grid changes a
bandwidth and two energies. Both evaluate equally many pairs, in turns; CPU seconds are those of all threads of the
process. The script also prints how often the grid's program was compiled, and how far its numbers are from those of a
separate problem for every variant. `experiments/results/what_if.md` keeps what came out.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mohamjax as mj
from mohamjax.runtime.programs import jit_o1
from mohamjax.schedule import report
from mohamjax.whatif import Candidates, what_if
from mohamjax.whatif import variant as blocks
from mohamjax.whatif.variant import in_precision

WIDTH = 1024


@jit_o1
def plain(designs: Any, sizes: Any, evaluation: Any) -> jax.Array:
    return jax.vmap(lambda design, own: report(design, evaluation, own).objectives)(designs, sizes)


def plain_rate(candidates: Candidates, pairs: int) -> np.ndarray:
    """Objectives `[pairs, 3]` of as many evaluations as the grid has, all on the hardware as it is."""
    number = len(candidates)
    rows = jax.tree.map(np.asarray, jax.device_get((candidates.designs, (candidates.capacity, candidates.fanout))))
    parts = []
    with in_precision(candidates.dtype):
        for first in range(0, pairs, WIDTH):
            at = np.arange(first, first + WIDTH) % number
            parts.append(plain(*jax.tree.map(lambda leaf, at=at: leaf[at], rows), candidates.evaluation))
        return np.concatenate(jax.device_get(parts))[:pairs]


def timed(function: Any) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = function()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def grid(variants: int) -> dict[str, list[Any]]:
    """Values of a bandwidth and of two energies, in `variants` combinations (a multiple of 4)."""
    steps = variants // 4
    return {
        "nop.interface_bandwidth": np.geomspace(2, 16, steps).round(3).tolist(),
        "nop.hop_energy": [0.41, 0.82],
        "technology.dram_energy": ["x0.5", "x1"],
    }


def separate(problem: Any, tables: Any, designs: Any, vary: dict[str, list[Any]], wanted: int, dtype: Any) -> Any:
    """Objectives `[wanted, N, 3]`, from a separate problem for each of the first variants."""
    evaluate = jax.jit(jax.vmap(mj.evaluate, (0, None)))
    out = []
    for bandwidth, hop, dram in itertools.islice(itertools.product(*vary.values()), wanted):
        package = dataclasses.replace(problem.package, interface_bandwidth=bandwidth, hop_energy=hop)
        technology = dataclasses.replace(problem.technology, dram=problem.technology.dram * float(dram[1:]))
        own = mj.DesignProblem(problem.application, problem.templates, package, technology)
        with in_precision(dtype):
            out.append(np.asarray(evaluate(designs, own.arrays(tables, dtype=dtype))))
    return np.stack(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--variants", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--separate", type=int, default=100)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--scenario", default="ar-vr")
    given = parser.parse_args()
    dtype = jnp.float64 if given.float64 else jnp.float32
    problem = mj.DesignProblem(mj.load_scenario(given.scenario))
    tables = mj.sample_mappings(problem, count=16, seed=0)
    with in_precision(dtype):
        space = problem.arrays(tables, dtype=dtype)
        designs = mj.sample_designs(jax.random.key(0), space, given.schedules)
    tiles, levels = designs.template.shape[1], tables.capacity.shape[3]
    candidates = Candidates(
        names=tuple(range(given.schedules)),
        designs=designs,
        capacity=np.full((given.schedules, tiles, levels), -1, dtype),
        fanout=np.full((given.schedules, tiles, levels, 2), -1, dtype),
        evaluation=space.evaluation,
        package=problem.package,
        templates=problem.resolved.templates,
    )
    vary = grid(given.variants)
    pairs = given.schedules * (1 + given.variants)  # the hardware as it is comes with the variants
    many = functools.partial(what_if, candidates, vary)
    first = timed(many)
    found = first[2].objectives
    plain_rate(candidates, WIDTH)
    print(f"{given.schedules} schedules of {given.scenario} x {given.variants} variants, {np.dtype(dtype).name}")
    print(f"first grid, with what it compiles: {first[1]:.1f} CPU s; programs: {blocks._block._cache_size()}")
    rounds = [(timed(functools.partial(plain_rate, candidates, pairs)), timed(many)) for _ in range(given.rounds)]
    for name, which in (("plain", 0), ("grid", 1)):
        wall, cpu = (statistics.median(r[which][i] for r in rounds) for i in (0, 1))
        print(f"{name}: {cpu:.2f} CPU s ({pairs / cpu:,.0f} evaluations per CPU s), {wall:.2f} s")
    for i, what in ((1, "CPU"), (0, "wall")):
        ratio = [one[i] / two[i] for one, two in rounds]
        middle = statistics.median(ratio)
        print(f"rate of the grid over plain evaluation, {what}: median {middle:.3f} of {np.round(ratio, 3)}")
    print(f"programs of the grid after all: {blocks._block._cache_size()}")
    own = separate(problem, tables, designs, vary, given.separate, dtype)
    difference = np.abs(found[: given.separate] / own - 1).max()
    print(f"largest relative difference to {len(own)} separate evaluations: {difference:.1e}")


if __name__ == "__main__":
    main()
