"""What a search found."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.mapping import MappingTables
from mohamjax.problem.goals import Goals
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule import Certificate, Evaluated, certify
from mohamjax.schedule.bounds import Bounds
from mohamjax.schedule.measures import DEFAULT, box_share
from mohamjax.search.plans import Plan


@shown_briefly
@dataclasses.dataclass(frozen=True)
class SearchResult:
    """What a search found; `mj.write_results` makes a results folder of it.

    Attributes:
        front: non-dominated designs in double precision, by rising latency.
        history: one row per generation, the columns of `history.csv`.
        config: everything needed to repeat the search; plain data.
        timings: seconds by step: `mapping_s`, `compile_s`, `search_s`, `finish_s`, of it `closing_s`,
            `reevaluation_s`, `ordering_s`; and `designs_per_s`.
        tables: the Pareto tables that the search used.
        interrupted: the search was stopped by hand before its end.
        plans: of the front's designs, leading axis `[N]`; None for a search of layers.
        archive: the front of all that was evaluated, where `front` is that of the last population
            (`MohamConfig.result`); None elsewhere.
    """

    front: Evaluated
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    tables: MappingTables
    interrupted: bool
    plans: Plan | None = None
    archive: Evaluated | None = None

    @property
    def hypervolume(self) -> float:
        """Share of the search's box that the front dominates, on log axes, in double precision."""
        return box_share(
            self.front.objectives + self.front.offsets, self.config["ideal_point"], self.config["reference_point"]
        )

    @property
    def best(self) -> int:
        """Row of the front's design that has least of the number that was minimised.

        Raises:
            InputError: a front was searched and no one number (`objective`).
        """
        search, weights = self.config["search"], self.config["weights"]
        if search["objective"] == "front":
            remedy = 'search with another, such as "product", or let mj.decide choose by a target'
            raise InputError("is a front, of which no design is the best", argument="objective", remedy=remedy)
        goals = Goals(tuple(search["objectives"]), objective=search["objective"], weights=tuple(weights))
        values = np.maximum(self.front.objectives + self.front.offsets, np.finfo(float).tiny)
        return int(np.argmin(np.sum(np.log(values) * goals.exponents, axis=1)))

    @functools.cached_property
    def bounds(self) -> Bounds:
        """What no design over the mappings goes below."""
        return self.front.bounds(self.config["search"]["max_chiplets"])

    @functools.cached_property
    def certificate(self) -> Certificate | None:
        """How near the front is to what is possible over the mappings; None where the objectives are not the three."""
        if self.front.measures != DEFAULT:
            return None
        limits = self.front.front_bounds(self.config["search"]["max_chiplets"])
        box = self.config["ideal_point"], self.config["reference_point"]
        return certify(limits, self.front.reports.objectives, *box)
