"""How certain a front is: energies, areas and bandwidths drawn at random, all designs evaluated on every draw.

Each component kind has one factor in a draw, log-normal with median 1, the same for all designs. So a design that
spends much on memory and one that spends much on MACs may swap ranks, while two that spend alike do not
(docs/concepts/what-if.md).

Axes: N designs, K samples, P parameters.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import abc

import jax
import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.errors import Argument, InputError
from mohamjax.reader import count_asked, real
from mohamjax.runtime.checks import check_seed
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule.design import OBJECTIVES
from mohamjax.whatif.parameters import Parameter, apart, known_parameters, parameter
from mohamjax.whatif.variant import (
    Candidates,
    Hardware,
    Told,
    Variant,
    check_count,
    evaluate_variants,
    in_precision,
    nominal_variant,
    stack_variants,
)

KINDS = ("energy", "area", "bandwidth")
"""Kinds of parameters that are drawn."""

LEVELS = (0.05, 0.5, 0.95)
"""Quantiles that are reported."""

MOST_SPREAD = 5.0
"""Largest spread: factors of e^5 = 148 in each standard deviation. Far larger ones give numbers that no float holds."""

ALMOST_NEVER = 0.05
"""A design of the nominal front that is on less than this share of the drawn fronts is fragile."""


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Uncertainty:
    """Designs under uncertain hardware.

    Attributes:
        names: identifier of each design.
        parameters: P parameters that were drawn.
        spread: `[P]` float, standard deviation of the logarithm of each one's factor.
        factors: `[K, P]` float, the factors that were drawn.
        nominal: `[N, 3]` float, objectives on the hardware as it is.
        objectives: `[K, N, 3]` float, objectives on every sample.
        quantiles: `[3, N, 3]` float, 5 %, 50 % and 95 % quantiles of the objectives.
        in_front: `[N]` bool, whether no design dominates it on the hardware as it is.
        probability: `[N]` float, share of the samples in which no design dominates it.
    """

    names: tuple[object, ...]
    parameters: tuple[Parameter, ...]
    spread: np.ndarray
    factors: np.ndarray
    nominal: np.ndarray
    objectives: np.ndarray
    quantiles: np.ndarray
    in_front: np.ndarray
    probability: np.ndarray

    @property
    def fragile(self) -> tuple[object, ...]:
        """Designs of the nominal front that almost never survive: those on less than 5 % of the drawn fronts."""
        rows = np.flatnonzero(self.in_front & (self.probability < ALMOST_NEVER))
        return tuple(self.names[i] for i in rows)

    def table(self) -> dict[str, np.ndarray]:
        """The result as columns, one row per design.

        Returns:
            `design_id`; `latency_s`, `energy_J` and `area_mm2`, each followed by its `_p5`, `_p50` and `_p95`;
            `in_front` and `probability`.
        """
        names = np.empty(len(self.names), object)
        names[:] = self.names
        columns: dict[str, np.ndarray] = {"design_id": names}
        for i, objective in enumerate(OBJECTIVES):
            columns[objective] = self.nominal[:, i]
            for level, values in zip(LEVELS, self.quantiles, strict=True):
                columns[f"{objective}_p{level * 100:.0f}"] = values[:, i]
        return columns | {"in_front": self.in_front, "probability": self.probability}


@jax.jit
def _on_fronts(objectives: jax.Array) -> jax.Array:
    """`[K, N]` bool, whether no row of its sample dominates it."""
    return jax.lax.map(lambda sample: emo.non_dominated_rank(sample) == 0, objectives)


def _fronts(objectives: npt.ArrayLike) -> np.ndarray:
    """`[K, N]` bool, whether the design runs in the sample and no other dominates it."""
    values = np.asarray(objectives)
    with in_precision(values.dtype):
        return np.asarray(_on_fronts(values)) & np.isfinite(values).all(axis=2)


def survival(objectives: npt.ArrayLike) -> np.ndarray:
    """Share of the samples in which no other design dominates each design.

    Args:
        objectives: `[K, N, M]` float, minimised; a design that does not run (infinite) is on no front.

    Returns:
        `[N]` float64.
    """
    return _fronts(objectives).mean(axis=0)


def _drawn(
    key: jax.Array, now: Variant, chosen: tuple[Parameter, ...], spread: np.ndarray, samples: int
) -> tuple[np.ndarray, Variant]:
    """Factors `[K, P]`, and variants `[1 + K]`: the hardware as it is, then the one that each sample makes of it."""
    normal = np.asarray(jax.random.normal(key, (samples, len(chosen)), now.clock.dtype))
    factors = np.exp(spread * normal).astype(now.clock.dtype)
    pairs = (zip(chosen, row, strict=True) for row in factors)
    drawn = [functools.reduce(lambda v, pair: pair[0].scale(v, pair[1]), row, now) for row in pairs]
    return factors, stack_variants([now, *drawn])


def checked_spread(value: object, key: str | None = None) -> float:
    """A spread as a float.

    Args:
        value: as users give it.
        key: name of the parameter that it is for; None for all.

    Raises:
        InputError: it is no number from 0 to `MOST_SPREAD`.
    """
    number = real(value)
    if number is None or not 0 <= number <= MOST_SPREAD:
        told = f"{value!r:.40}"
        raise InputError(
            f"{told} is no spread" if key is None else "is no spread",
            argument="spread" if key is None else Argument("spread", key=key, value=told),
            remedy=f"write numbers from 0 to {MOST_SPREAD:g}, such as 0.2",
        )
    return number


def read_spreads(hardware: Hardware, spread: object) -> tuple[tuple[Parameter, ...], np.ndarray]:
    """The parameters that are drawn, and the spread of each, `[P]` float.

    Args:
        hardware: the designs, or what they run on; it decides which parameters there are.
        spread: as in `uncertainty`.

    Raises:
        InputError: a spread that is no number from 0 to `MOST_SPREAD`, an unknown parameter or one that is not drawn,
            or two that change the same number.
    """
    known, argument = known_parameters(hardware), "spread"
    if isinstance(spread, abc.Mapping):
        chosen = tuple(parameter(known, name, argument) for name in spread)
        values = np.asarray([checked_spread(value, str(name)) for name, value in spread.items()])
        for one in chosen:
            if one.kind not in KINDS:
                raise InputError(
                    f"{one.name} is not drawn", argument=argument, remedy=f"name {', '.join(KINDS)} parameters"
                )
        touched = [number for one in chosen for number in one.touches]
        if len(set(touched)) < len(touched):
            raise InputError("two parameters change the same numbers", argument=argument, remedy="leave one out")
    else:
        chosen = tuple(one for one in apart(known) if one.kind in KINDS)
        values = np.full(len(chosen), checked_spread(spread))
    if not chosen:
        raise InputError("names no parameter", argument=argument, remedy="give at least one, or one spread for all")
    return chosen, values


def uncertainty(
    candidates: Candidates,
    spread: float | abc.Mapping[str, float] = 0.2,
    samples: int = 1000,
    seed: int = 0,
    progress: Told | None = None,
) -> Uncertainty:
    """Draws hardware parameters and counts how often each design is on the front.

    Args:
        candidates: N designs, which compete with each other.
        spread: standard deviation of the logarithm of the factors, from 0 to `MOST_SPREAD`: one for all energies, areas
            and bandwidths, or one for each named parameter.
        samples: K, number of draws.
        seed: seed of the draws; the same seed gives the same factors for any designs.
        progress: callback for the progress of the evaluations.

    Raises:
        InputError: an unknown parameter, a spread that is no number from 0 to `MOST_SPREAD`, or no sample.
    """
    check_seed(seed)
    samples = count_asked(samples, "samples", "draw 1 or more, a whole number")
    check_count(samples, "samples")
    chosen, spreads = read_spreads(candidates, spread)
    now = nominal_variant(candidates.evaluation)
    with in_precision(candidates.dtype):
        factors, drawn = _drawn(jax.random.key(seed), now, chosen, spreads, samples)
    # The hardware as it is runs in the same program, so that a spread of 0 gives the same bits.
    found = evaluate_variants(candidates, drawn, progress=progress)
    nominal, objectives = found[0], found[1:]
    on_front = _fronts(found)
    return Uncertainty(
        names=candidates.names,
        parameters=chosen,
        spread=spreads,
        factors=factors,
        nominal=nominal,
        objectives=objectives,
        quantiles=np.quantile(objectives, LEVELS, axis=0),
        in_front=on_front[0],
        probability=on_front[1:].mean(axis=0),
    )
