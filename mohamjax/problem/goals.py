"""What a search minimises."""

from __future__ import annotations

import dataclasses

from mohamjax.errors import InputError
from mohamjax.schedule.measures import DEFAULT, check_measures, measure_named, of_frames
from mohamjax.schedule.periods import frame_jobs
from mohamjax.workload import ApplicationModel


@dataclasses.dataclass(frozen=True)
class Goals:
    """The measures that span a front, and the one number that selection minimises if it minimises one.

    Attributes:
        objectives: two or three measures (`schedule.measures`): `latency`, `energy`, `area`, `latency:NETWORK`,
            `lateness` (the worst), `missed` (deadlines), `weighted-latency`, `period` and `idle` (of frames in flight).
        periods: of the slowest network, whose frames are in flight where that is measured; 2 or more.
        objective: `front`, or one number: one of `objectives`, or `product`, weighted by `weights`.
        weights: exponents of the objectives in that product; None for 1 each.
    """

    objectives: tuple[str, ...] = DEFAULT
    periods: int = 4
    objective: str = "front"
    weights: tuple[float, ...] | None = None

    @property
    def exponents(self) -> list[float]:
        """One for each objective, 0 for what is not minimised."""
        if self.weights is not None and self.objective == "product":
            return list(self.weights)
        return [float(self.objective in ("front", "product", name)) for name in self.objectives]

    def check(self, application: ApplicationModel) -> None:
        """Complains about objectives that the networks have not, and exponents that do not fit them.

        Raises:
            InputError: names the argument.
        """
        check_measures(self.objectives, application)
        if of_frames(self.objectives):
            frame_jobs(application, self.periods)
        if self.objective != "product" or self.weights is None:
            return
        if len(self.weights) != len(self.objectives):
            raise InputError(
                f"are {len(self.weights)}, there are {len(self.objectives)} objectives",
                argument="weights",
                remedy="give an exponent for each",
            )
        for name, weight in zip(self.objectives, self.weights, strict=True):
            if weight and not measure_named(name).log:
                raise InputError(
                    f"give {name} an exponent, which may be zero or less",
                    argument="weights",
                    remedy=f"give it 0, or minimise it alone: the argument `objective={name}`",
                )
