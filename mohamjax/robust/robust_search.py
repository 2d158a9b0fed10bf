"""Robust fronts: packages that serve several application models, and what that costs.

The search is the ordinary one, over the joined application of all models (`workload.ensemble`): an individual is one
package with a schedule for every model, and its latency and energy are the mean or the worst over the models. Two
things are reported beside its front: held-out models, scheduled on the packages as they are, and, for the price of
robustness, the front of the nominal model alone. It is found with as many evaluations, and its packages have to serve
the other models too.

Axes: N designs, A application models.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from mohamjax.mapper.layer_mapper import TableStore
from mohamjax.mapping import MappingTables, recast
from mohamjax.problem.design_problem import DesignProblem, check_tables
from mohamjax.problem.resolved import Reached, ResolvedRequirements, demands, keeps, unmet
from mohamjax.robust.price import ALL, Comparison
from mohamjax.robust.reschedule import Packages, Served, reschedule, rows_of_tables
from mohamjax.runtime.devices import Devices, DevicesLike, chosen_devices
from mohamjax.runtime.struct import take
from mohamjax.schedule import Evaluated
from mohamjax.schedule.ensemble import own_tables, reevaluate_models
from mohamjax.schedule.front import front_index
from mohamjax.schedule.measures import DEFAULT
from mohamjax.search.config import Settings
from mohamjax.search.generations import Listener, check_islands, heard
from mohamjax.search.plans import Plan
from mohamjax.search.remap import with_room
from mohamjax.search.result import Explored, SearchResult, chosen_rows
from mohamjax.search.resumed import CheckpointStore
from mohamjax.search.search import Search, mapped
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel, Ensemble, Member
from mohamjax.workload.ensemble import joined


@dataclasses.dataclass(frozen=True)
class RobustFront:
    """Packages that serve all models of an ensemble, N of them.

    Attributes:
        objectives: `[N, 3]` float64, objectives over the models, by rising latency.
        models: A, each with its schedules on the packages, evaluated in double precision.
        plans: what the packages were decoded from, leading axis `[N]`.
        held_out: the held-out models on the packages; empty where the search was stopped by hand.
    """

    objectives: np.ndarray
    models: tuple[Evaluated, ...]
    plans: Plan
    held_out: tuple[Served, ...]

    def __len__(self) -> int:
        """Number of designs."""
        return len(self.objectives)


@dataclasses.dataclass(frozen=True)
class NominalFront:
    """The front of the nominal model alone, K designs, and how its packages serve the other models.

    Attributes:
        search: the result of the search for it.
        objectives: `[K, 3]` float64, over the models like those of a `RobustFront`; inf where a model does not run.
        models: A models, the nominal one with the schedules that were found for it.
        held_out: the held-out models on the packages.
    """

    search: SearchResult
    objectives: np.ndarray
    models: tuple[Served, ...]
    held_out: tuple[Served, ...]


@dataclasses.dataclass(frozen=True)
class RobustResult:
    """What a robust search found.

    Attributes:
        ensemble: the application models.
        front: the front over them.
        nominal: the front of the nominal model alone; None where it was not asked for, or the search was stopped.
        history: one row per generation.
        config: everything needed to repeat the search; plain data.
        timings: seconds by step, as in `SearchResult`; `mapping_s` includes the layers of held-out models. The search
            for the nominal model has timings of its own.
        tables: Pareto tables of the joined application.
        interrupted: the search was stopped by hand before its end.
        rescheduler: schedules the models on other packages.
    """

    ensemble: Ensemble
    front: RobustFront
    nominal: NominalFront | None
    history: list[dict[str, Any]]
    config: dict[str, Any]
    timings: dict[str, float]
    tables: MappingTables
    interrupted: bool
    rescheduler: Rescheduler

    def comparisons(self) -> list[Comparison]:
        """Robust packages beside nominal ones: for all models together, then for every model, held-out ones last."""
        front, nominal = self.front, self.nominal
        roles = [*self.ensemble.roles, *["held out"] * len(front.held_out)]
        robust = [*(own.objectives for own in front.models), *(own.objectives for own in front.held_out)]
        none = np.empty((0, 3))
        alone = [none] * len(robust)
        if nominal is not None:
            alone = [own.objectives for own in (*nominal.models, *nominal.held_out)]
        names = [own.application.name for own in (*front.models, *front.held_out)]
        joint = Comparison(ALL, "all", front.objectives, none if nominal is None else nominal.objectives)
        return [joint, *(Comparison(*row) for row in zip(names, roles, robust, alone, strict=True))]


def check_robust(ensemble: Ensemble, problem: DesignProblem, settings: Settings) -> None:
    """Checks all that can be checked before the layer mapper runs.

    Pins name layers of any model, and apply to every model that has such layers; a pin whose layers no searched model
    has is refused. Limits on latency, energy and power apply to every model.

    Args:
        ensemble: the application models.
        problem: the problem of `ensemble.joined`.
        settings: settings of the search.

    Raises:
        InputError: as for `RobustSearch.run`.
    """
    if settings.moham.genes != "plans":
        raise ensemble.complaint(
            "several application models are for a search of plans", "search settings", "use the default preset"
        )
    if settings.moham.seeded:
        raise ensemble.complaint(
            "list schedules to start from are of one application model", "search settings", "start without them"
        )
    if settings.moham.objectives != DEFAULT:
        raise ensemble.complaint(
            "measures of networks are no objectives over several application models",
            "objectives",
            f"leave them at {', '.join(DEFAULT)}",
        )
    settings.goals.check(problem.application)
    if any(math.isfinite(limit) for limit in problem.requirements.tenant_limits):
        raise problem.requirements.complaint(
            "deadlines and weights of networks are not limited over several application models",
            "limits",
            "limit latency_s, or search for one application model",
        )
    for member in (ensemble.models[ensemble.nominal], *ensemble.held_out):
        problem_of(member.application, problem)


def problem_of(application: ApplicationModel, problem: DesignProblem) -> DesignProblem:
    """The problem of other networks on the same hardware, with only those pins that name their layers."""
    pins = problem.requirements.pins
    pins = tuple(pin for pin in pins if any(fnmatch.fnmatchcase(name, pin.layers) for name in application.full_names))
    requirements = dataclasses.replace(problem.requirements, pins=pins)
    return problem.replace(application=application, requirements=requirements)


@dataclasses.dataclass
class RobustSearch:
    """A search for packages that serve several application models: `RobustSearch(ensemble, problem).run()`.

    An interrupt (Ctrl-C) while generations run, or while their front is finished, ends the search cleanly with the
    packages found so far: held-out models are then not scheduled, and there is no price. In the search for the nominal
    model, it ends that search alone in the same way: the price is that of the packages found, which may not be
    refitted. At any other time the interrupt is raised, and `resume` goes on from the checkpoint.

    Attributes:
        ensemble: the application models.
        problem: the problem of `ensemble.joined`.
        settings: default the `small` budget.
        price: also search for the nominal model alone, with the same settings and so with as many evaluations.
        listener: told about the progress.
        tables: mappings to choose from, of the unique layers of `ensemble.everyone` on the templates that the
            requirements leave; default those that the layer mapper finds.
        cache: where the layer mapper's sets are kept between runs.
        checkpoint: where the state is saved now and then, and at the end.
        nominal_checkpoint: where the state of the search for the nominal model is saved.
        resume: go on from the saved states.
        checkpoint_every_s: seconds between checkpoints.
        devices: as in `search.Search`.
    """

    ensemble: Ensemble
    problem: DesignProblem
    settings: Settings = dataclasses.field(default_factory=Settings)
    _: dataclasses.KW_ONLY
    price: bool = True
    listener: Listener | None = None
    tables: MappingTables | None = None
    cache: TableStore | None = None
    checkpoint: CheckpointStore | None = None
    nominal_checkpoint: CheckpointStore | None = None
    resume: bool = False
    checkpoint_every_s: float = 30.0
    devices: DevicesLike = None

    def run(self) -> RobustResult:
        """Searches, then schedules held-out models and finds the price of robustness.

        Returns:
            The front, the held-out models and the front of the nominal model.

        Raises:
            InputError: as in `search.Search`; also for genes other than plans, seeds, objectives other than the default
                ones, and limits on what the users of networks get.
        """
        self.prepare()
        self.map()
        explored = self.explore()
        front = self.evaluate(explored)
        return self.compare(explored, front)

    def prepare(self) -> None:
        """Checks all that can be checked before layers are mapped."""
        self._spread = chosen_devices(self.devices)
        self._listener = heard(self.listener, self._spread)
        check_islands(self._spread, self.settings.moham.islands)
        check_robust(self.ensemble, self.problem, self.settings)

    def map(self) -> None:
        """Maps the layers of all models."""
        ensemble, problem, tick = self.ensemble, self.problem, time.perf_counter()
        layers, templates = problem.application.unique_layers, problem.resolved.templates
        if self.tables is None:
            self._listener.announce(
                f"mapping {plural(len(layers), 'unique layer')} on {plural(len(templates), 'template')}"
            )
            self._first = mapped(problem.setup, self.settings, self._listener.mapping, self.cache, self._spread)
        else:
            check_tables(self.tables, problem.setup.of(ensemble.everyone))
            self._first = recast(own_tables(ensemble.joined, ensemble.everyone, self.tables), np.float32)
        self._mapping_s = time.perf_counter() - tick

    def explore(self) -> Explored:
        """Searches packages for all models together."""
        search = Search(
            self.problem, self.settings, listener=self._listener, tables=self._first, checkpoint=self.checkpoint,
            resume=self.resume, checkpoint_every_s=self.checkpoint_every_s, devices=self._spread,
            ensemble=self.ensemble,
        )  # fmt: skip
        with contextlib.ExitStack() as cleanup:
            return search.explore(cleanup)

    def evaluate(self, explored: Explored) -> RobustFront:
        """The front of the designs found, in double precision, without held-out models yet."""
        tick = time.perf_counter()
        applications = [member.application for member in self.ensemble.models]
        count = np.asarray(explored.tables.count)
        evaluated = reevaluate_models(
            applications, self.problem.setup, explored.tables.mapping, count, explored.designs
        )
        self._reevaluation_s = time.perf_counter() - tick
        assert explored.plans is not None
        kept = self.checkpoint is not None
        chosen, objectives = _front(self.ensemble, self.problem.resolved, evaluated, kept=kept)
        closed = None if explored.closed is None else explored.closed[chosen]
        offsets, announce = evaluated[0].offsets, self._listener.announce
        few = chosen_rows(objectives, offsets, explored.box, self.settings, announce, closed)
        chosen, objectives = chosen[few], objectives[few]
        models = tuple(own.take(chosen) for own in evaluated)
        return RobustFront(objectives, models, take(explored.plans, chosen), ())

    def compare(self, explored: Explored, front: RobustFront) -> RobustResult:
        """Schedules held-out models on the packages, and searches for the nominal model alone."""
        ensemble = self.ensemble
        beside = Rescheduler(ensemble, self.problem, self.settings, explored.tables)
        interrupted, nominal = explored.interrupted, None
        if ensemble.held_out and not interrupted:
            tick = time.perf_counter()
            beside = beside.with_held_out(self._listener, self.tables, self.cache, self._spread)
            self._mapping_s += time.perf_counter() - tick
        held_out = beside.held_out(Packages.of(front.models[0], front.plans))
        front = dataclasses.replace(front, held_out=held_out)
        if self.price and not interrupted:
            own = ensemble.models[ensemble.nominal].application
            self._listener.announce(f"searching for {own.name} alone")
            result = Search(
                problem_of(own, self.problem), self.settings, listener=self._listener,
                tables=own_tables(own, ensemble.joined, self._first), checkpoint=self.nominal_checkpoint,
                resume=self.resume and self.nominal_checkpoint is not None,
                checkpoint_every_s=self.checkpoint_every_s, devices=self.devices,
            ).run()  # fmt: skip
            interrupted = result.interrupted
            nominal = beside.nominal(result)
        return RobustResult(
            ensemble=ensemble,
            front=front,
            nominal=nominal,
            history=explored.history,
            config={**explored.config, "scenario": ensemble.name, "robust": ensemble.record()},
            timings={
                **explored.timings,
                "mapping_s": explored.timings["mapping_s"] + self._mapping_s,
                "reevaluation_s": self._reevaluation_s,
            },
            tables=explored.tables,
            interrupted=interrupted,
            rescheduler=beside,
        )


def _front(
    ensemble: Ensemble, resolved: ResolvedRequirements, evaluated: Sequence[Evaluated], *, kept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the designs of the front, and their objectives over the models.

    Raises:
        InputError: no design meets the requirements in every model.
    """
    each = np.stack([own.objectives for own in evaluated])
    template = np.asarray(evaluated[0].designs.template)
    reached = Reached(each[0], template, chiplets=evaluated[0].reports.chiplets)
    of_models = [reached._replace(objectives=own) for own in each]
    within = np.all([keeps(resolved, own) for own in of_models], axis=0)
    if not within.any():
        # For every design, the model in which it violates them most.
        excess = [np.sum([demand.excess for demand in demands(resolved, own)], axis=0) for own in of_models]
        worst = np.argmax(excess, axis=0)
        raise unmet(resolved, reached._replace(objectives=each[worst, np.arange(len(worst))]), kept=kept)
    rows = np.flatnonzero(within)
    joint = ensemble.aggregate(each[:, rows])
    front = front_index(joint)
    return rows[front], joint[front]


@dataclasses.dataclass(frozen=True)
class Rescheduler:
    """Schedules models on fixed packages.

    Attributes:
        ensemble: the application models.
        problem: problem of the search.
        settings: settings of the search.
        tables: tables of the joined application of the models.
        apart: tables of the joined application of the held-out models; None where there are none, or none were mapped.
    """

    ensemble: Ensemble
    problem: DesignProblem
    settings: Settings
    tables: MappingTables
    apart: MappingTables | None = None

    def with_held_out(
        self, listener: Listener, tables: MappingTables | None, cache: TableStore | None, devices: Devices | None
    ) -> Rescheduler:
        """Maps the layers that only held-out models have; the other layers keep the mappings of the search."""
        everyone = self.ensemble.joined
        others = joined([member.application for member in self.ensemble.held_out])
        place = {unique: i for i, unique in enumerate(everyone.unique_layers)}
        places = [place.get(unique, -1) for unique in others.unique_layers]
        new = None
        if -1 in places:
            only = _only(others, set(place))
            if tables is None:
                listener.announce(f"mapping {plural(places.count(-1), 'unique layer')} of held-out models")
                new = mapped(self.problem.setup.of(only), self.settings, listener.mapping, cache, devices)
            else:
                new = recast(own_tables(only, self.ensemble.everyone, tables), np.float32)
            new = with_room(new, np.shape(self.tables.cycles)[2])
        return dataclasses.replace(self, apart=rows_of_tables(self.tables, places, new))

    def held_out(self, packages: Packages) -> tuple[Served, ...]:
        """The held-out models on packages."""
        if self.apart is None:
            return ()
        return self._served(packages, self.ensemble.held_out, self.apart)

    def models(self, packages: Packages, known: Evaluated | None = None, number: int = -1) -> tuple[Served, ...]:
        """The searched models on packages.

        Args:
            packages: the packages.
            known: designs of one of the models on the packages, which stay as they are; default none.
            number: index of that model.
        """
        others = [member for a, member in enumerate(self.ensemble.models) if known is None or a != number]
        served: list[Served] = []
        if others:
            own = joined([member.application for member in others])
            served = list(self._served(packages, others, own_tables(own, self.ensemble.joined, self.tables)))
        if known is not None:
            served.insert(number, Served.everywhere(known))
        return tuple(served)

    def nominal(self, result: SearchResult) -> NominalFront:
        """All models on the packages of the nominal model's front; the nominal model keeps its own schedules."""
        assert result.plans is not None
        packages = Packages.of(result.front, result.plans)
        served = self.models(packages, result.front, self.ensemble.nominal)
        objectives = self.ensemble.aggregate(np.stack([own.objectives for own in served]))
        return NominalFront(result, objectives, served, self.held_out(packages))

    def _served(self, packages: Packages, members: Sequence[Member], tables: MappingTables) -> tuple[Served, ...]:
        applications = [member.application for member in members]
        return tuple(reschedule(packages, applications, problem_of(joined(applications), self.problem), tables))


def _only(application: ApplicationModel, known: set[Any]) -> ApplicationModel:
    """An application model of the unique layers that are not known, only for the layer mapper."""
    layers = {
        unique: dataclasses.replace(layer, name=f"layer{i}", predecessors=())
        for i, (unique, layer) in enumerate(
            zip((application.unique_layers[u] for u in application.unique_of_layer), application.layers, strict=True)
        )
        if unique not in known
    }
    network = dataclasses.replace(application.networks[0], layers=tuple(layers.values()))
    return ApplicationModel(application.name, (network,))
