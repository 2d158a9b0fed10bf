"""Estimates the cost of a search from sizes alone."""

from __future__ import annotations

import dataclasses

from mohamjax.problem.design_problem import DesignProblem
from mohamjax.schedule.measures import of_frames
from mohamjax.schedule.periods import frame_jobs
from mohamjax.search.config import Settings


@dataclasses.dataclass(frozen=True)
class ExpectedCost:
    """The estimated cost of a search.

    Attributes:
        mappings: mappings that the layer mapper evaluates.
        designs: most designs that generations evaluate (there may be fewer list schedules); without the search's end.
        seconds: time on two cores, without compiling.
        compile_s: seconds that compiling adds on two cores where no program is cached.
        memory_MB: memory of the process: Python, JAX, compiled programs and the largest arrays.
    """

    mappings: int
    designs: int
    seconds: float
    compile_s: float
    memory_MB: float


# Two cores of a shared server (`mohamjax search --json`, experiments/bench_mapper.py): 58,000 to 86,000 mappings/s,
# 12,000 designs/s of 176 layers. Compile times hardly depend on the scenario.
_MAPPINGS_PER_S = 7e4


_LAYER_EVALUATIONS_PER_S = 2e6


_RUNS = 0.65  # mapping again: share of the layers that a chiplet of a front runs (ar-vr)


_DESCENDED = 31  # mapping again: neighbours per round of a descent from known mappings, for a problem (ar-vr)


_DESCENDED_PER_S = 2.5e4  # less than in a search, as most places of their batches are empty


_FINISH_S = 8.0  # the front in double precision, its bounds, figures and files


_COMPILE_S = 25.0


_BASE_MB = 1900.0  # searches of 128 to 1,024 designs take 1,600 to 2,000 (experiments/results/bench_search.md)


def expected_cost(problem: DesignProblem, pairs: int, settings: Settings) -> ExpectedCost:
    """Estimates the cost of a search from sizes alone.

    Args:
        problem: the problem.
        pairs: number of (unique layer, template) problems of the mapper.
        settings: settings of the search.
    """
    application = problem.application
    mapper, moham, remap = settings.mapper, settings.moham, settings.remap
    plans = moham.genes == "plans"
    mappings = pairs * mapper.evaluations
    offspring = moham.candidates
    batches = moham.generations + (moham.seed_batches if moham.seeded else 1)
    layers, entries, descended = len(application.layers), mapper.entries, 0
    if plans and remap.maps_again:
        rounds = ((moham.generations - 1) // remap.every if remap.every else 0) + remap.polish
        batches += remap.polish * remap.settle + rounds * -(-moham.archive // moham.population)
        again = rounds * int(_RUNS * remap.chiplets * len(application.unique_layers))
        if remap.generations:
            short = dataclasses.replace(mapper, generations=remap.generations, descent=remap.descent)
            mappings += again * short.evaluations
        else:
            descended = again * _DESCENDED * remap.descent
        entries += remap.entries
    designs = batches * offspring
    if of_frames(moham.objectives):  # a timeline also has the jobs of all frames in flight
        layers += len(frame_jobs(application, moham.periods).layer)
    mapping_s = mappings / _MAPPINGS_PER_S + descended / _DESCENDED_PER_S
    # Per design: genes, one row of the tables per layer, and the fluid model's state; single precision.
    per_design = 4 * (layers * (3 + 40) + problem.tiles * 100)
    tables = 4 * pairs * entries * 400
    total = per_design * (moham.islands * (moham.population + moham.archive) + offspring) + tables
    return ExpectedCost(
        mappings=mappings + descended,
        designs=designs,
        seconds=mapping_s + designs * layers / _LAYER_EVALUATIONS_PER_S + _FINISH_S,
        compile_s=_COMPILE_S,
        memory_MB=_BASE_MB + total / 1e6,
    )
