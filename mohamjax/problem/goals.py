"""What a search minimises, and the box in which its hypervolume is measured."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError, wrong_type
from mohamjax.hardware import leakage, nop_energy
from mohamjax.mapping import MappingTables, area
from mohamjax.problem.requirements import LIMITS, Requirements
from mohamjax.schedule import CYCLE_S, EvaluationArrays, isolated_cycles
from mohamjax.schedule.measures import (
    DEFAULT,
    Extremes,
    check_measures,
    frames_per_period,
    measure_named,
    of_frames,
    offsets,
    owners,
)
from mohamjax.schedule.periods import frame_jobs
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel


@dataclasses.dataclass(frozen=True)
class Goals:
    """The measures that span a front, and the single number that selection minimises, if any.

    Attributes:
        objectives: two or three measures (`schedule.measures`): `latency`, `energy`, `area`, `latency:NETWORK`,
            `lateness` (the worst), `missed` (deadlines), `weighted-latency`, `period` and `idle` (of frames in flight).
        periods: periods of the slowest network that are scheduled for measures of frames in flight; 2 or more.
        objective: `front`, or a single number: one of `objectives`, or `product`, weighted by `weights`.
        weights: exponents of the objectives in that product; None for 1 each.
    """

    objectives: tuple[str, ...] = DEFAULT
    periods: int = 4
    objective: str = "front"
    weights: tuple[float, ...] | None = None

    @property
    def exponents(self) -> list[float]:
        """The exponent of each objective; 0 for those that are not minimised."""
        if self.weights is not None and self.objective == "product":
            return list(self.weights)
        return [float(self.objective in ("front", "product", name)) for name in self.objectives]

    def check(self, application: ApplicationModel, requirements: Requirements | None = None) -> None:
        """Checks that the networks have the objectives, and that periods and exponents are asked for and fit.

        Args:
            application: the networks.
            requirements: on the designs; default none.

        Raises:
            InputError: they do not, which names the argument; or power is limited, energy over the latency of one
                frame of each network, where frames overlap.
        """
        check_measures(self.objectives, application)
        if of_frames(self.objectives):
            frame_jobs(application, self.periods)
            if requirements is not None and math.isfinite(requirements.limits[LIMITS.index("power_W")]):
                raise requirements.complaint(
                    "is a limit on energy over latency, which is not the power of frames that overlap",
                    "limits.power_W",
                    "leave it out, or search for neither period nor idle",
                )
        elif self.periods != Goals.periods:
            raise InputError("is for the objectives period and idle", argument="periods", remedy="leave it out")
        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_weights(self, weights: tuple[float, ...]) -> None:
        """Checks the exponents; raises InputError."""
        if not isinstance(weights, tuple | list | np.ndarray):
            raise wrong_type(weights, "weights", "give a tuple with an exponent for each objective")
        for weight in weights:
            number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
            if not (number and 0 <= weight < math.inf):
                raise InputError(
                    f"hold {weight!r:.40}", argument="weights", remedy="give finite exponents of 0 or more, one not 0"
                )
        if self.objective != "product":
            if any(weight != 1 for weight in weights):
                remedy = "add the argument `objective=product`, or leave them out"
                raise InputError("are for a product of the objectives", argument="weights", remedy=remedy)
            return
        if len(weights) != len(self.objectives):
            raise InputError(
                f"are {len(weights)}, there are {len(self.objectives)} objectives",
                argument="weights",
                remedy="give an exponent for each",
            )
        if not any(weights):
            raise InputError("are all 0", argument="weights", remedy="give what is to be minimised an exponent above 0")
        for name, weight in zip(self.objectives, weights, strict=True):
            if weight and not measure_named(name).log:
                raise InputError(
                    f"give {name} an exponent, although it may be zero or less",
                    argument="weights",
                    remedy=f"give it 0, or minimise it alone: the argument `objective={name}`",
                )


def search_box(
    setup: Setup, tables: MappingTables, evaluation: EvaluationArrays, goals: Goals, chiplets: int
) -> tuple[np.ndarray, np.ndarray]:
    """Ideal and reference point of the hypervolume, each with the offsets of the measures (`schedule.measures`).

    Ideal latency: every layer on its fastest mapping, spread evenly over all chiplets; energy: every layer on its
    mapping of least energy; area: one chiplet with the hardware that the most demanding layer needs. Reference latency:
    every layer on its slowest mapping, one after the other; energy: every layer on its mapping of most energy; area: as
    many of the largest chiplets as allowed. Measures of users follow from the same times: at best a network runs alone,
    at worst all layers run one after the other.

    Args:
        setup: networks and hardware.
        tables: Pareto tables.
        evaluation: what the evaluation of a design reads.
        goals: what is minimised.
        chiplets: most chiplets of a design.

    Returns:
        `[M]` float each, in the dtype of the tables.
    """
    dtype = np.asarray(tables.cycles).dtype
    ideal, reference = _of_designs(setup, tables, evaluation, chiplets)
    if goals.objectives != DEFAULT:
        extremes = _extremes(setup, tables, goals, chiplets, (ideal, reference))
        plain = {name: pair for name, *pair in zip(DEFAULT, ideal, reference, strict=True)}
        names, application = goals.objectives, setup.application
        pairs = []
        for name, network, offset in zip(names, owners(names, application), offsets(names, application), strict=True):
            best, worst = plain[name] if name in DEFAULT else measure_named(name).extent(extremes, network)
            pairs.append((best, worst) if name in DEFAULT else (float(best + offset), float(worst + offset)))
        ideal, reference = [best for best, _ in pairs], [worst for _, worst in pairs]
    # Costs of 0 still need a logarithm, and a problem with a single design a box that is not empty.
    ideal = [max(best, float(np.finfo(dtype).tiny)) for best in ideal]
    reference = [max(worst, 1.1 * best) for worst, best in zip(reference, ideal, strict=True)]
    return np.asarray(ideal, dtype), np.asarray(reference, dtype)


def _of_layers(application: ApplicationModel, tables: MappingTables, values: np.ndarray, worst: bool) -> np.ndarray:
    """`[layers]`, the least of `values` `[U, T, M]` for each layer, or the most if `worst`."""
    u = np.asarray(application.unique_of_layer)
    masked = np.where(tables.exists, values, -np.inf if worst else np.inf)
    return masked.max(axis=(1, 2))[u] if worst else masked.min(axis=(1, 2))[u]


def _of_designs(
    setup: Setup, tables: MappingTables, evaluation: EvaluationArrays, chiplets: int
) -> tuple[list[Any], list[Any]]:
    """Ideal and reference of latency [s], energy [J] and area [mm^2]."""
    package = setup.package
    duration = isolated_cycles(tables, package)
    objectives = np.asarray(tables.objectives, np.float64)

    def total(values: np.ndarray, worst: bool) -> np.ndarray:
        return _of_layers(setup.application, tables, values, worst)

    full = jax.vmap(area)(evaluation.templates.machine)
    ideal = [
        total(np.asarray(tables.cycles), False).sum() / chiplets * CYCLE_S,
        total(objectives[..., 1], False).sum() * 1e-12,
        total(objectives[..., 2], False).max() * 1e-6,
    ]
    hops = float(np.max(np.asarray(evaluation.package.tables.hops)[: chiplets + 1]))
    nop = nop_energy(total(np.asarray(tables.offchip_bytes), True).sum(), hops, package.hop_energy)
    tile = package.router_area + package.transceiver_area
    static = 0.0
    if evaluation.technology.static_share is not None:
        leaks = jax.vmap(leakage, in_axes=(0, None, 0))(
            evaluation.templates, evaluation.technology, evaluation.templates.machine
        )
        most = float(jnp.max(leaks)) * chiplets * float(evaluation.technology.static_share)
        static = most * total(duration, True).sum()  # pJ: at 1 GHz a cycle is a nanosecond
    reference = [
        total(duration, True).sum() * CYCLE_S,
        # Doubled: on a chiplet larger than its mapping needs, a layer costs more than in the tables.
        (total(objectives[..., 1], True).sum() * 2 + nop + static) * 1e-12,
        (float(jnp.max(full)) + tile) * chiplets * 1e-6,
    ]
    return ideal, reference


def _extremes(
    setup: Setup, tables: MappingTables, goals: Goals, chiplets: int, ends: tuple[list[float], list[float]]
) -> Extremes:
    """What networks take at best and at worst; `ends` are the ideal and reference of latency, energy and area."""
    application = setup.application
    networks = application.networks
    owner = np.asarray(application.network_of_layer)

    def by_network(values: np.ndarray, worst: bool) -> np.ndarray:
        own = _of_layers(application, tables, values, worst)
        return np.bincount(owner, own, minlength=len(networks)) * CYCLE_S

    ideal, reference = ends
    frames = frames_per_period(application)
    return Extremes(
        least=by_network(np.asarray(tables.cycles, np.float64), False) / chiplets,
        most=by_network(np.asarray(isolated_cycles(tables, setup.package), np.float64), True),
        longest=reference[0],
        energy=(ideal[1], reference[1]),
        area=(ideal[2], reference[2]),
        deadline=np.asarray([network.deadline_s for network in networks]),
        weight=np.asarray([network.weight for network in networks]),
        frames=frames,
        all_frames=np.where(frames > 0, np.ceil(frames * 2 * goals.periods), 1.0),
        measured=goals.periods - 1 - (goals.periods - 1) // 2,
    )
