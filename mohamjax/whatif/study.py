"""What-if questions from Python: designs of a space on other hardware, sensitivities, uncertainty of their front."""

from __future__ import annotations

from collections import abc
from collections.abc import Sequence

import jax
import numpy as np

from mohamjax import whatif
from mohamjax.errors import InputError, wrong_type
from mohamjax.problem.design_problem import DesignProblem, as_problem
from mohamjax.problem.evaluation import fits_space
from mohamjax.problem.space import DesignSpace, check_space
from mohamjax.runtime.checks import refuse_traced
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import with_values
from mohamjax.schedule import Design, SizedDesign, package_arrays
from mohamjax.schedule.design import sized
from mohamjax.whatif.grid import Values, WhatIf
from mohamjax.whatif.sensitivity import Sensitivities
from mohamjax.whatif.uncertainty import Uncertainty
from mohamjax.whatif.variant import Candidates, in_precision
from mohamjax.workload import ApplicationLike


@jit_o1
def _runs(designs: Design | SizedDesign, space: DesignSpace) -> jax.Array:
    return jax.vmap(fits_space, (0, None))(designs, space)


def _candidates(
    designs: Design | SizedDesign,
    space: DesignSpace,
    problem: DesignProblem | ApplicationLike,
    names: Sequence[object] | None,
) -> Candidates:
    """The designs with the arrays of their space, after checking that the two belong together."""
    check_space(space)
    if not isinstance(designs, Design | SizedDesign):
        raise wrong_type(designs, "designs", "give designs of sample_designs, of a front or of a file")
    genes = designs.design if isinstance(designs, SizedDesign) else designs
    if np.ndim(genes.order) < 2 or not len(designs):
        told = "is a single design, without a leading axis" if np.ndim(genes.order) < 2 else "holds no design"
        raise InputError(told, argument="designs", remedy="give several, or a slice of one, such as designs[3:4]")
    remedy = "ask what-if questions outside jax.jit; inside, jax.vmap(evaluate, (0, None)) takes designs"
    for argument, value in (("designs", designs), ("space", space)):
        refuse_traced(value, remedy, argument=argument)
    problem = as_problem(problem)
    evaluation = space.evaluation
    with in_precision(evaluation.tables.cycles.dtype):
        own = package_arrays(problem.package, evaluation.tables.cycles.dtype)
        pairs = zip(*map(jax.tree.leaves, (own, evaluation.package)), strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs)
        templates = problem.template_arrays(evaluation.templates.component.shape[1], evaluation.tables.cycles.dtype)
        made = ("component", "dram_type", "fixed")
        same &= all(np.array_equal(getattr(evaluation.templates, name), getattr(templates, name)) for name in made)
        if not same:
            raise InputError(
                "the space has another package or other templates than the problem",
                item="what_if",
                remedy="give the problem whose `arrays` made the space",
            )
        count = len(designs)
        broken = np.flatnonzero(~np.asarray(_runs(designs, space)))
    if broken.size:
        raise InputError(
            "cannot run in this space", item=f"design {broken[0]}", remedy="leave it out; `report` says more"
        )
    if names is not None and len(names) != count:
        raise InputError(f"{len(names)} names for {count} designs", item="names", remedy="give one for each design")
    own = designs if isinstance(designs, SizedDesign) else sized(designs, evaluation.tables.capacity.shape[-1])
    dtype = evaluation.tables.cycles.dtype
    return Candidates(
        names=tuple(range(count) if names is None else names),
        designs=own.design,
        capacity=np.asarray(own.capacity, dtype),
        fanout=np.asarray(own.fanout, dtype),
        evaluation=evaluation,
        package=problem.package,
        templates=problem.resolved.templates,
    )


def what_if(
    designs: Design | SizedDesign,
    space: DesignSpace,
    problem: DesignProblem | ApplicationLike,
    vary: abc.Mapping[str, Values],
    *,
    names: Sequence[object] | None = None,
) -> WhatIf:
    """Evaluates every design on every combination of some hardware parameters' values, in one compiled program.

    docs/concepts/what-if.md lists the parameters.

    Args:
        designs: leading axis `[N]`, from `sample_designs`, a front, or a file (`read_designs(...).designs`).
        space: the space that they are evaluated in; its dtype is that of the result.
        problem: the problem whose `arrays` made the space; for a file, `read_designs(...).problem`.
        vary: by parameter, a list of values or of factors such as `x0.5`, or a text of them such as `x0.5,x1,x2`.
        names: identifier of each design; default their numbers.

    Returns:
        `.grid` `[V1, ..., VA, N, 3]`, `.table()` as tidy columns, `.nominal` `[N, 3]`.

    Raises:
        InputError: an unknown parameter, a value that it cannot have, designs that cannot run, or a problem of another
            space.

    Examples:
        >>> vary = {"nop.interface_bandwidth": [2, 4, 8], "technology.dram_energy": "x0.5,x1"}
        >>> found = mj.what_if(designs, space, problem, vary)
        >>> found.grid.shape, len(found.table()["latency_s"])
        ((3, 2, 64, 3), 384)
    """
    with with_values():
        return whatif.what_if(_candidates(designs, space, problem, names), vary)


def sensitivities(
    designs: Design | SizedDesign,
    space: DesignSpace,
    problem: DesignProblem | ApplicationLike,
    parameters: str | Sequence[str] | None = None,
    *,
    names: Sequence[object] | None = None,
) -> Sensitivities:
    """Derivatives and elasticities of latency, energy and area with respect to hardware parameters.

    They are exact for energies and areas, and differences for clock, bandwidths, sizes and memory interfaces.

    Args:
        designs: leading axis `[N]`, see `what_if`.
        space: the space that they are evaluated in.
        problem: the problem whose `arrays` made the space.
        parameters: names, one or several; default all but single fanouts.
        names: identifier of each design; default their numbers.

    Returns:
        `.elasticity` and `.derivative` `[N, P, 3]` over `.parameter_names`, `.table()` as tidy columns.

    Raises:
        InputError: an argument that `what_if` refuses too.

    Examples:
        >>> found = mj.sensitivities(designs, space, problem, ["technology.dram_energy", "nop.hop_energy"])
        >>> found.elasticity.shape, bool((found.elasticity[:, 0, 1] > 0).all())
        ((64, 2, 3), True)
    """
    with with_values():
        return whatif.sensitivities(_candidates(designs, space, problem, names), parameters)


def uncertainty(
    designs: Design | SizedDesign,
    space: DesignSpace,
    problem: DesignProblem | ApplicationLike,
    spread: float | abc.Mapping[str, float] = 0.2,
    samples: int = 1000,
    seed: int = 0,
    *,
    names: Sequence[object] | None = None,
) -> Uncertainty:
    """How certain a front is: draws energies, areas and bandwidths, and evaluates all designs on every draw.

    Each draw has one factor per component kind, log-normal with median 1, the same for all designs.

    Args:
        designs: leading axis `[N]`, see `what_if`; they compete with each other.
        space: the space that they are evaluated in.
        problem: the problem whose `arrays` made the space.
        spread: standard deviation of the logarithm of the factors, from 0 to 5, for all or by parameter.
        samples: number of draws.
        seed: seed of the draws.
        names: identifier of each design; default their numbers.

    Returns:
        `.quantiles` `[3, N, 3]` (5, 50 and 95 %), `.probability` `[N]` of being non-dominated, `.fragile` (designs of
        the nominal front that are almost never non-dominated), `.table()`.

    Raises:
        InputError: an argument that `what_if` refuses too, or a spread that is no number from 0 to 5.

    Examples:
        >>> found = mj.uncertainty(designs, space, problem, spread=0.2, samples=10, seed=0)
        >>> found.quantiles.shape, bool(found.probability.max() <= 1)
        ((3, 64, 3), True)
    """
    with with_values():
        return whatif.uncertainty(_candidates(designs, space, problem, names), spread, samples, seed)
