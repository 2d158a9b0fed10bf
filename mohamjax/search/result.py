"""The result of a search, and the record of all that is needed to repeat it.

The front of a result may be large; here few designs are chosen that stand for all of it (`representatives`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import package_to_dict, technology_hash, template_to_dict
from mohamjax.mapping import MappingTables
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.goals import Goals
from mohamjax.runtime.programs import machinery
from mohamjax.runtime.struct import plain, shown_briefly
from mohamjax.schedule import Design, Evaluated
from mohamjax.schedule.bounds import Bounds
from mohamjax.schedule.front import WINDOW, landmarks
from mohamjax.schedule.front_bounds import Certificate, certify
from mohamjax.schedule.measures import DEFAULT, box_share, box_subset
from mohamjax.search.config import MohamConfig, Settings
from mohamjax.search.plans import Plan
from mohamjax.search.resumed import named_rates

_ENDING = ("descent", "refitting", "closing", "ordering")
"""Steps after the last generation, whose evaluations stand in the configuration of the result."""


@shown_briefly
@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of a search; `mj.write_results` makes a results folder of it.

    Attributes:
        front: non-dominated designs in double precision, by their first objective (latency unless others are searched).
        history: one row per generation with the columns of `history.csv`; its `evaluations` are those of the
            generations alone (see the property `evaluations`).
        config: everything needed to repeat the search, as plain data.
        timings: seconds by step: `mapping_s`, `compile_s`, `search_s`, `finish_s` (of which `closing_s`),
            `reevaluation_s`, `ordering_s`; and `designs_per_s`.
        tables: the Pareto tables that the search used.
        interrupted: the search was stopped by hand before its end.
        plans: those of the front's designs, leading axis `[N]`; None for a search of layers.
        archive: the front of all evaluated designs, where `front` is that of the last population
            (`MohamConfig.result`); else None.
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
    def title(self) -> str:
        """Scenario, budget and seed as a text, for figures."""
        return f"{self.config['scenario']}, budget {self.config['budget']}, seed {self.config['seed']}"

    @property
    def evaluations(self) -> dict[str, int]:
        """Numbers of evaluations by step; a comparison of searches at equal evaluations must count all of them.

        `generations`: designs, including the first populations and those entered after rounds of mapping again.
        `descent`: designs tried at the fast end of the front after the last generation, and `refitting`: designs of the
        archive that were refitted, both with the immigrants that fill each batch. `closing`: designs tried with
        chiplets in other places. `ordering`: schedules of the front's designs with layers in another order.
        """
        generations = self.history[-1]["evaluations"] if self.history else 0
        steps = {step: self.config.get(step, {}).get("evaluations", 0) for step in _ENDING}
        return {"generations": int(generations), **steps}

    @property
    def hypervolume(self) -> float:
        """Share of the search's box that the front dominates, on log axes, in double precision."""
        return box_share(
            self.front.objectives + self.front.offsets, self.config["ideal_point"], self.config["reference_point"]
        )

    @property
    def best(self) -> int:
        """Row of the front's design that minimises the search's single number, in double precision.

        Raises:
            InputError: a front was searched and not a single number (`objective`).
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
        """Lower bounds on the objectives of all designs over the mappings."""
        return self.front.bounds(self.config["search"]["most_chiplets"])

    @functools.cached_property
    def certificate(self) -> Certificate | None:
        """How near the front is to the best possible over the mappings; None for other objectives than `DEFAULT`."""
        if self.front.measures != DEFAULT:
            return None
        fixed = bool(self.config["requirements"].get("package", {}).get("chiplets"))
        limits = self.front.front_bounds(self.config["search"]["most_chiplets"], idle=fixed)
        box = self.config["ideal_point"], self.config["reference_point"]
        return certify(limits, self.front.reports.objectives, *box)


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Explored:
    """What a search has found when its generations are over, before its designs are evaluated again.

    Attributes:
        problem: the problem.
        tables: the Pareto tables that the search used.
        designs: `[N, ...]`, designs of the archives, or of the populations where the archives are empty; NumPy arrays.
            With `MohamConfig.result = "population"`, the first front of the last populations.
        archive: `[K, ...]`, designs of the archives in that last case; else None.
        plans: plans of `designs`; None for a search of layers.
        closed: `[N]` bool, designs that no move of chiplets improves (`places.Closing`); None where closing was not
            completed.
        history: as in `SearchResult`.
        config: as in `SearchResult`.
        timings: as in `SearchResult`, without `reevaluation_s` and `ordering_s`.
        interrupted: as in `SearchResult`.
    """

    problem: DesignProblem
    tables: MappingTables
    designs: Design
    archive: Design | None
    plans: Plan | None
    closed: np.ndarray | None
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    interrupted: bool

    @property
    def box(self) -> tuple[list[float], list[float]]:
        """Ideal and reference point of the hypervolume."""
        return self.config["ideal_point"], self.config["reference_point"]


def chosen_rows(
    objectives: np.ndarray,
    offset: Any,
    box: tuple[Any, Any],
    settings: Settings,
    announce: Callable[[str], None],
    closed: np.ndarray | None = None,
) -> np.ndarray:
    """`representatives` of a front, with the same first arguments, under the settings of a search.

    `announce` is called where designs are left out. Where `closed` `[N]` bool marks designs that no move of chiplets
    improves (`places.Closing`), only these are chosen from.
    """
    most = settings.moham.front
    rows = np.arange(len(objectives)) if closed is None or not closed.any() else np.flatnonzero(closed)
    few = rows[representatives(objectives[rows], offset, box, settings.moham, settings.weights)]
    if len(few) < len(objectives) and len(objectives) > most:
        announce(
            f"{len(few):,} designs stand for {len(objectives):,} that do not dominate one another; a larger "
            f"argument `front` keeps more than {most}"
        )
    return few


def representatives(
    objectives: np.ndarray, offset: Any, box: tuple[Any, Any], config: MohamConfig, weights: Any
) -> np.ndarray:
    """Rows of a front that stand for all of it, at most `config.front`: those that hold most of the hypervolume.

    The best design in each objective and the knee always stay, both of all designs and of those within the window of
    `landmarks`; where a product is minimised, so does the design of least product.

    Args:
        objectives: `[N, M]` float, none of which dominates another.
        offset: `[M]` float, added to the objectives before logarithms are taken.
        box: ideal and reference point, with the offsets added.
        config: of the search.
        weights: `[M]` float, exponents of the objectives where a product is minimised.

    Returns:
        `[K]` int, rising.
    """
    values = objectives + offset
    keep = {
        row for window in (WINDOW, np.inf) for row in landmarks(objectives, config.objectives, offset, window).values()
    }
    if config.objective == "product":
        keep.add(int(np.argmin(np.log(values) @ np.asarray(weights))))
    return box_subset(values, *box, config.front, keep)


def record_of(problem: DesignProblem, settings: Settings) -> dict[str, Any]:
    """The content of `config.yaml`, as plain data."""
    application, technology = problem.application, problem.technology
    return {
        "format": "config/1",
        "scenario": application.name,
        "budget": settings.budget,
        "seed": settings.seed,
        "networks": [
            {"name": n.name, "source": n.source, "layers": len(n.layers), **n.asked} for n in application.networks
        ],
        "templates": [template_to_dict(t) for t in problem.resolved.templates],
        "technology_hash": technology_hash(technology),
        "static_energy": technology.static_share is not None,
        "package": package_to_dict(problem.package),
        "mapper": plain(settings.mapper),
        "mapper_rates": named_rates(settings.mapper_rates),
        "search": _of_search(problem, settings.moham),
        "rates": named_rates(settings.rates),
        "plan_rates": named_rates(settings.plan_rates),
        "remap": plain(settings.remap),
        "requirements": problem.requirements.to_dict(),
        "weights": list(settings.weights),
        **({} if settings.within is None else {"within": settings.within}),
        **machinery(),
    }


def _of_search(problem: DesignProblem, config: MohamConfig) -> dict[str, Any]:
    """Settings of a search as plain data, with the tiles and numbers of chiplets of its problem after `immigrants`.

    `max_chiplets` is as stated, `most_chiplets` what the requirements leave of it.
    """
    out: dict[str, Any] = {}
    for name, value in plain(config).items():
        out[name] = value
        if name == "immigrants":
            out |= {"tiles": problem.tiles, "max_chiplets": problem.max_chiplets}
            out["most_chiplets"] = problem.most_chiplets
    return out
