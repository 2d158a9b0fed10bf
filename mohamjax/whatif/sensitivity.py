"""How strongly each objective depends on each hardware parameter: derivatives and elasticities.

The model is smooth in energies and areas, so the derivatives of energy and area with respect to these are exact
(forward mode). Leakage, where it counts, depends on neither: it is latency times a power that these parameters do not
change. Elsewhere differences are taken: the latency is continuous in the clock and the bandwidths but has kinks, and
sizes and numbers of interfaces are whole numbers (docs/concepts/what-if.md).

Axes: N designs, P parameters, 3 objectives.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError, wrong_type
from mohamjax.runtime.blocks import in_blocks
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule.design import OBJECTIVES, Design, EvaluationArrays, energy_and_area
from mohamjax.whatif.parameters import Parameter, apart, known_parameters, parameter
from mohamjax.whatif.variant import (
    Candidates,
    Told,
    Variant,
    evaluate_variants,
    in_precision,
    nominal_variant,
    on_variant,
    placed_interfaces,
    stack_variants,
)

METHODS = ("exact", "difference", "doubling")
"""How a row was found: forward-mode derivative; central difference of 1 % to both sides; difference on doubling, with
memory interfaces on as many more as the mesh takes."""

_STEP = 0.01
_EXACT = ("energy", "area")
_WHOLE = ("size", "count")


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Strongest:
    """The parameters that matter most, over the designs that run.

    Attributes:
        low: `[P, 3]` float, the elasticity that 5 % of the designs are below; 0 where no design has one.
        middle: `[P, 3]` float, the median over the designs that have an elasticity; 0 where none has.
        high: `[P, 3]` float, the elasticity that 95 % of the designs are below; 0 where no design has one.
        rows: for each objective, the indices of its parameters, the strongest first.
        designs: number of designs that run.
    """

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray
    rows: tuple[tuple[int, ...], ...]
    designs: int


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Sensitivities:
    """How strongly objectives depend on parameters.

    Attributes:
        names: identifier of each design.
        parameters: P parameters.
        methods: the method for each parameter, one of `METHODS`.
        objectives: `[N, 3]` float, on the hardware as it is.
        derivative: `[N, P, 3]` float, per unit of the parameter where it has a value, otherwise per unit of its factor;
            NaN where there is none, as for the interfaces of a mesh that takes no more.
        elasticity: `[N, P, 3]` float, d log objective / d log parameter: per cent by which the objective grows if
            the parameter grows by 1 %; NaN where there is none.
    """

    names: tuple[object, ...]
    parameters: tuple[Parameter, ...]
    methods: tuple[str, ...]
    objectives: np.ndarray
    derivative: np.ndarray
    elasticity: np.ndarray

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the P parameters: `dict(zip(found.parameter_names, found.elasticity[0]))` is of the first design."""
        return tuple(one.name for one in self.parameters)

    def strongest(self, most: int) -> Strongest:
        """The parameters that matter most for each objective, by the median of their elasticities over the designs.

        Args:
            most: most parameters for each objective; those that nowhere reach 1 % of the strongest are left out, and
                all are where no design runs.
        """
        values = self.elasticity[np.isfinite(self.objectives).all(axis=1)]
        known = np.isfinite(values).any(axis=0)  # [P, 3]
        quantiles = np.zeros((3, *known.shape))
        for p, m in np.argwhere(known):
            quantiles[:, p, m] = np.nanquantile(values[:, p, m], (0.05, 0.5, 0.95))
        reach = np.abs(quantiles).max(axis=0)
        order = np.lexsort((-reach, -np.abs(quantiles[1])), axis=0)
        strong = reach > 0.01 * reach.max(axis=0, initial=0.0)
        rows = tuple(tuple(int(p) for p in order[:, m] if strong[p, m])[:most] for m in range(3))
        low, middle, high = (np.asarray(x) for x in quantiles)
        return Strongest(low, middle, high, rows=rows, designs=len(values))

    def table(self) -> dict[str, np.ndarray]:
        """Tidy columns: one row per design, parameter and objective, with objectives varying fastest.

        Returns:
            `design_id`, `parameter`, `unit` (`factor` where it has no value), `value`, `objective`, `nominal`,
            `derivative`, `elasticity`, `method`, each `[N * P * 3]`.
        """
        number, count = len(self.names), len(self.parameters)
        names = np.empty(number, object)
        names[:] = self.names

        def of_parameters(values: Sequence[object]) -> np.ndarray:
            return np.tile(np.repeat(np.asarray(values, object), 3), number)

        valued = [one.value is not None for one in self.parameters]
        units = [one.unit if has else "factor" for one, has in zip(self.parameters, valued, strict=True)]
        return {
            "design_id": np.repeat(names, 3 * count),
            "parameter": of_parameters([one.name for one in self.parameters]),
            "unit": of_parameters(units),
            "value": of_parameters([1.0 if one.value is None else one.value for one in self.parameters]),
            "objective": np.tile(np.asarray(OBJECTIVES, object), number * count),
            "nominal": np.repeat(self.objectives[:, None], count, axis=1).reshape(-1),
            "derivative": self.derivative.reshape(-1),
            "elasticity": self.elasticity.reshape(-1),
            "method": of_parameters(self.methods),
        }


@jit_o1
def _derivatives(
    designs: Design, sizes: tuple[jax.Array, jax.Array], now: Variant, tangents: Variant, evaluation: EvaluationArrays
) -> jax.Array:
    """`[N, P, 2]`, derivatives of energy and area along every tangent."""

    def one(row: tuple[Design, tuple[jax.Array, jax.Array]]) -> jax.Array:
        def costs(variant: Variant) -> jax.Array:
            return jnp.stack(energy_and_area(row[0], on_variant(evaluation, variant), row[1]))

        return jax.vmap(lambda tangent: jax.jvp(costs, (now,), (tangent,))[1])(tangents)

    return in_blocks(jax.vmap(one), (designs, sizes), 64)


def _tangent(one: Parameter, now: Variant) -> Variant:
    """How much a variant changes per unit of the parameter's factor; per unit of the parameter where its value is 0."""
    at = one.value if one.value == 0 else 1.0
    change = one.assign if one.value == 0 else one.scale
    assert change is not None
    moved = functools.partial(change, now)
    floats = jnp.asarray(at, now.clock.dtype)
    tangent = jax.jvp(moved, (floats,), (jnp.ones_like(floats),))[1]
    return jax.tree.map(np.asarray, tangent)


def _exact(candidates: Candidates, chosen: Sequence[Parameter], now: Variant) -> np.ndarray:
    """`[N, P, 2]`, derivatives of energy and area per unit of the parameter, or of its factor if it has no value."""
    if not chosen:
        return np.zeros((len(candidates), 0, 2))
    with in_precision(candidates.dtype):
        tangents = [_tangent(one, now) for one in chosen]
        # Tangents of integers have a dtype of their own.
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *tangents)
        rows = jax.tree.map(jnp.asarray, (candidates.designs, (candidates.capacity, candidates.fanout)))
        found = np.asarray(_derivatives(*rows, now, stacked, candidates.evaluation), float)
    per = np.asarray([one.value or 1.0 for one in chosen])
    return found / per[:, None]


def _more_interfaces(candidates: Candidates, high: Variant, low: Variant) -> np.ndarray:
    """`[N]` float, the logarithm of how many times as many interfaces `high` places on a design; NaN where no more.

    A row of the mesh has two at most, so that twice as many may not fit.
    """
    many, few = (placed_interfaces(candidates, one) for one in (high, low))
    return np.where(many > few, np.log(np.maximum(many, 1) / np.maximum(few, 1)), np.nan)


def sensitivities(
    candidates: Candidates, parameters: str | Sequence[str] | None = None, progress: Told | None = None
) -> Sensitivities:
    """Derivatives and elasticities of latency, energy and area.

    Args:
        candidates: N designs that run.
        parameters: names, one or several; default all but single fanouts and parameters that are part of another (a MAC
            stands for its parts).
        progress: callback for the progress of the evaluations.

    Raises:
        InputError: an unknown parameter, or `parameters` is neither a name nor names.
    """
    known = known_parameters(candidates)
    if parameters is None:
        chosen = [one for one in apart(known) if not one.name.endswith(("fanout_x", "fanout_y"))]
    else:
        asked = [parameters] if isinstance(parameters, str) else parameters
        if not isinstance(asked, Iterable):
            raise wrong_type(asked, "parameters", 'give names, such as ["clock", "nop.hop_energy"]')
        chosen = [parameter(known, name, "parameters") for name in asked]
    if not chosen:
        raise InputError("names no parameter", argument="parameters", remedy="give at least one")
    methods = ["exact" if p.kind in _EXACT else "doubling" if p.kind in _WHOLE else "difference" for p in chosen]
    now = nominal_variant(candidates.evaluation)
    variants, at = [now], {}
    resized = False
    for i, (one, method) in enumerate(zip(chosen, methods, strict=True)):
        if method != "exact":
            resized |= one.kind == "size"
            high, low = (2.0, 1.0) if method == "doubling" else (math.exp(_STEP), math.exp(-_STEP))
            both = one.scale(now, high), one.scale(now, low)
            span = _more_interfaces(candidates, *both) if one.kind == "count" else math.log(high / low)
            at[i] = len(variants), np.broadcast_to(span, len(candidates))[:, None]
            variants += both
    stacked = stack_variants(variants)
    found = np.asarray(evaluate_variants(candidates, stacked, resized=resized, progress=progress), float)
    nominal = found[0]
    number = len(candidates)
    derivative, elasticity = np.zeros((2, number, len(chosen), 3))
    exact = [i for i, method in enumerate(methods) if method == "exact"]
    derivative[:, exact, 1:] = _exact(candidates, [chosen[i] for i in exact], now)
    value = np.asarray([1.0 if one.value is None else one.value for one in chosen])
    positive = np.where(nominal > 0, nominal, np.nan)[:, None]
    elasticity[:, exact] = derivative[:, exact] * value[exact][:, None] / positive
    for i, (first, span) in at.items():
        high, low = found[first], found[first + 1]
        good = np.isfinite(high) & np.isfinite(low) & (high > 0) & (low > 0)
        ratio = np.where(good, high, np.nan) / np.where(good, low, 1.0)
        elasticity[:, i] = np.log(ratio) / span
        # An unlimited bandwidth has neither a unit to grow by nor an effect.
        derivative[:, i] = elasticity[:, i] * nominal / (value[i] if math.isfinite(value[i]) else np.inf)
    elasticity[~np.isfinite(nominal).all(axis=1)] = np.nan
    return Sensitivities(candidates.names, tuple(chosen), tuple(methods), nominal, derivative, elasticity)
