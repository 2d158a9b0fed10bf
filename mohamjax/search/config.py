"""All that a search depends on besides its problem: sizes, rates of operators, objectives; budgets and presets."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections import abc
from typing import Any

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.mapper.config import MapperConfig, MapperRates, mapper_preset
from mohamjax.problem.goals import Goals
from mohamjax.reader import real
from mohamjax.runtime.checks import check_seed, check_whole
from mohamjax.runtime.struct import is_traced, record, shown_briefly
from mohamjax.schedule.measures import DEFAULT, measure_named
from mohamjax.schedule.own_measures import Limit
from mohamjax.search.plan_operators import MOST_RATES, PlanRates


@record
class Rates:
    """Probabilities of the operators, all traced: a sweep over them does not recompile.

    Crossovers apply once per pair and the other operators once per individual. Only with
    `MohamConfig.rate_unit = "layer"`, scheduling, mapping and assignment mutation apply to every layer with their
    probability, which, unless 0, is raised so that on average at least `least_layers` of a design mutate: with 0.001
    each, five layers would hardly ever change.
    """

    scheduling_crossover: jax.typing.ArrayLike = 0.3
    mapping_crossover: jax.typing.ArrayLike = 0.2
    sa_crossover: jax.typing.ArrayLike = 0.4
    scheduling_mutation: jax.typing.ArrayLike = 0.001
    mapping_mutation: jax.typing.ArrayLike = 0.001
    assignment_mutation: jax.typing.ArrayLike = 0.001
    opening_mutation: jax.typing.ArrayLike = 0.05
    splitting_mutation: jax.typing.ArrayLike = 0.15
    merging_mutation: jax.typing.ArrayLike = 0.15
    position_mutation: jax.typing.ArrayLike = 0.1
    template_mutation: jax.typing.ArrayLike = 0.15
    resizing_mutation: jax.typing.ArrayLike = 0.7
    least_layers: jax.typing.ArrayLike = 0.5


PAPER_RATES = Rates(
    scheduling_crossover=0.103,
    mapping_crossover=0.047,
    sa_crossover=0.045,
    scheduling_mutation=0.052,
    mapping_mutation=0.048,
    assignment_mutation=0.025,
    opening_mutation=0.0,
    splitting_mutation=0.039,
    merging_mutation=0.042,
    position_mutation=0.027,
    template_mutation=0.041,
    resizing_mutation=0.0,
    least_layers=0.0,
)
"""MOHaM, Table 4."""


@dataclasses.dataclass(frozen=True)
class MohamConfig:
    """Sizes and settings of a search; static, so that a change recompiles.

    Attributes:
        population: individuals per generation.
        generations: most generations.
        immigrants: random individuals added to each generation, as a share of the population.
        archive: most designs kept during the search; beyond that the front is thinned.
        front: most designs in the result; of more, those stay that keep most of the hypervolume.
        survival: what decides within the first front and in a full archive: `hypervolume` in the search's box
            (`emo.exclusive`), or `crowding` distance alone, which is always used where a single number is minimised
            (then the best design stays in the archive, too).
            With `hypervolume`, of designs that are equal in all objectives only one takes part, also there.
        genes: `plans` to search chiplets and let list scheduling place and map the layers (`search.plans`), `layers`
            to move single layers with MOHaM's operators, where tiles identify chiplets, or `instances` to do so with
            MOHaM's own chromosome and crossover (`search.instances`).
        islands: populations that evolve side by side, each with its own random numbers; their archives are merged in
            the end.
        migration: generations after which the best of every island replace the random immigrants of the next one;
            0 for never.
        objectives: two or three measures that span the front (`schedule.measures`): `latency`, `energy`, `area`,
            `latency:NETWORK`, `lateness` (the worst), `missed` (deadlines), `weighted-latency`, `period` and `idle`
            (of frames in flight). An `Objective` among them is one that you define yourself.
        limits: limits that you define yourself, each a `Limit`, beside those of the requirements.
        periods: most periods of the slowest network in flight, for measures of frames in flight; 2 or more.
        objective: `front` for the Pareto front of all objectives, or a single number that selection minimises: one of
            `objectives`, or `product` (weighted, `DesignSpace.weights`). The archive always keeps the front of all
            evaluated designs.
        scale: `log` to measure crowding and hypervolumes on the logarithms of the objectives, for fronts that span
            orders of magnitude, or `linear`.
        rate_unit: whether scheduling, mapping and assignment mutation rates are per `layer` or per `individual`.
        seeded: start from list schedules on homogeneous and mixed packages, which pays off where layers are searched.
        seed_batches: most populations of list schedules that are evaluated before the first generation; the first
            population is selected from all of them. Of more list schedules, those with the best estimates are taken.
        stop: `generations`, or `stability` to apply Roudenko and Schoenauer's rule as well.
        window: generations that the rule looks back on.
        delta: threshold of the rule.
        end_batches: batches of plans with at most one change that are tried after the last generation, for designs at
            the fast end of the front (`search.finish`). Only where plans are searched and latency and area are among
            the objectives of a front.
        end_rounds: most rounds of closing the front over places after that: they end when no design that stands for
            the front is dominated by one with other places for its chiplets, or with one chiplet less
            (`search.places`). Only where plans are searched; 0 for none.
        end_orders: most rounds of ordering the layers of the result's designs so that networks other than the last are
            ready earlier (`search.ordering`); 0 for none.
        result: `archive` for the front of all evaluated designs, or `population` for that of the last population, as in
            MOHaM, with the archive beside it.
        orders: number of random topological orders that random individuals draw from.
        chunk: generations per call of the jitted step; progress is reported between calls.
    """

    population: int = 200
    generations: int = 150
    immigrants: float = 0.1
    archive: int = 512
    front: int = 512
    survival: str = "hypervolume"
    genes: str = "plans"
    islands: int = 1
    migration: int = 0
    objectives: tuple[str, ...] = DEFAULT
    limits: tuple[Limit, ...] = ()
    periods: int = 4
    objective: str = "front"
    scale: str = "log"
    rate_unit: str = "layer"
    seeded: bool = False
    seed_batches: int = 12
    stop: str = "generations"
    window: int = 40
    delta: float = 0.02
    end_batches: int = 0
    end_rounds: int = 0
    end_orders: int = 0
    result: str = "archive"
    orders: int = 512
    chunk: int = 5

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        check_whole(self, "search settings", {
            "population": 4, "generations": 0, "archive": 8, "front": 8, "islands": 1,
            "migration": 0, "periods": 2, "seed_batches": 1, "window": 1, "end_batches": 0, "end_rounds": 0,
            "end_orders": 0, "orders": 1, "chunk": 1,
        })  # fmt: skip
        for name in ("immigrants", "delta"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}", item="search settings", remedy="use 0 or more")
        if isinstance(self.objectives, str) or not isinstance(self.objectives, abc.Iterable):
            raise InputError(
                f"are {self.objectives!r:.80}",
                argument="objectives",
                remedy="give two or three names of measures in a tuple; `objective` is for one number to minimise",
            )
        object.__setattr__(self, "objectives", tuple(self.objectives))
        for name in self.objectives:
            if not isinstance(name, str):
                raise InputError(
                    f"hold {name!r:.80}", argument="objectives", remedy="give names of measures, or an Objective"
                )
            measure_named(name)
        _check_limits(self)
        words = {
            "genes": ("plans", "layers", "instances"),
            "result": ("archive", "population"),
            "survival": ("hypervolume", "crowding"),
            "rate_unit": ("layer", "individual"),
            "stop": ("generations", "stability"),
            "objective": ("front", "product", *self.objectives),
            "scale": ("log", "linear"),
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise InputError(
                    f"{name} is {getattr(self, name)!r}", item="search settings", remedy=f"use {', '.join(known)}"
                )
        if self.migration and self.islands == 1:
            raise InputError(
                f"is {self.migration}, and there is one island only",
                argument="migration",
                remedy="give the argument `islands`, or leave it out",
            )
        if self.result == "population" and self.genes == "plans":
            raise InputError(
                "the end of a search of plans works on the archive, not on the population",
                item="search settings",
                remedy="search layers or instances, or leave `result` out",
            )
        if self.stop == "stability" and self.objective != "front":
            raise InputError(
                f"the stability of a front says nothing where {self.objective} alone is minimised",
                item="search settings",
                remedy="stop after a number of generations",
            )

    @property
    def immigrant_count(self) -> int:
        """Random individuals added to each generation."""
        return round(self.immigrants * self.population)

    @property
    def candidates(self) -> int:
        """Designs that a generation evaluates: the populations of all islands and their immigrants."""
        return self.islands * (self.population + self.immigrant_count)


def _check_limits(config: MohamConfig) -> None:
    """Checks the limits of a user's own, and makes a tuple of them in `config`."""
    limits = (config.limits,) if isinstance(config.limits, Limit) else config.limits
    if not isinstance(limits, tuple | list) or not all(isinstance(limit, Limit) for limit in limits):
        remedy = "give mj.Limit(name, value, most), one or several; limits on latency, energy and area are requirements"
        raise InputError(f"are {limits!r:.80}", argument="limits", remedy=remedy)
    names = [limit.name for limit in limits]
    if len(set(names)) < len(names):
        raise InputError("name one twice", argument="limits", remedy="give each a name of its own")
    object.__setattr__(config, "limits", tuple(limits))


@dataclasses.dataclass(frozen=True)
class RemapConfig:
    """How a search maps layers again on chiplets of its front (`search.remap`); static.

    Attributes:
        every: generations from one round to the next; 0 for no rounds during the search.
        polish: most rounds after the last generation, each followed by `settle` generations; they end when one of them
            raises the hypervolume by less than a ten-thousandth.
        settle: generations after each round of polishing.
        chiplets: most chiplets to map on, which stand for those of the front.
        entries: mappings by which a set may grow in all rounds together.
        generations: of the mapper in a round, instead of its own number; 0 to run its descent alone, from the mappings
            of the sets that are best on a chiplet.
        descent: rounds of the mapper's descent in a round.
    """

    every: int = 100
    polish: int = 0
    settle: int = 100
    chiplets: int = 24
    entries: int = 128
    generations: int = 0
    descent: int = 4

    @property
    def maps_again(self) -> bool:
        """Whether there are any rounds."""
        return bool(self.every or self.polish)

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        least = {"every": 0, "polish": 0, "settle": 1, "chiplets": 1, "entries": 0, "generations": 0, "descent": 0}
        check_whole(self, "settings of mapping again", least)


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much a search may spend.

    Attributes:
        mapper: settings of the layer mapper.
        moham: settings of the co-optimiser.
        remap: how often layers are mapped again on chiplets of the front.
    """

    mapper: MapperConfig
    moham: MohamConfig
    remap: RemapConfig


BUDGETS = {
    "tiny": Budget(
        MapperConfig(population=48, generations=8, descent=8),
        MohamConfig(population=128, generations=40, seed_batches=8),
        RemapConfig(every=0),
    ),
    "small": Budget(
        MapperConfig(population=96, generations=15),
        MohamConfig(population=250, generations=200, archive=2048, end_batches=24, end_rounds=100, end_orders=4),
        RemapConfig(every=70),  # two rounds; after one, chiplets of data-center gain another 5 % from the next
    ),
    "paper": Budget(
        MapperConfig(population=120, generations=15),
        MohamConfig(population=250, generations=300, archive=2048, end_batches=24, end_rounds=100, end_orders=4),
        RemapConfig(),
    ),
}
"""Named budgets of the command line: `tiny` for a first look, `small` (default), and `paper`.

`paper` has the population and the generations of MOHaM's Table 4; with the immigrants of the default search a
generation has 275 designs. The paper's own method is `Settings.preset(preset="moham")`.
"""


PRESETS = ("default", "layers", "paper", "moham")
"""Presets of the command line, see `Settings.preset`."""


def usual_budget(preset: str) -> str:
    """Name of the budget that a preset has by default: that of the paper for `moham`."""
    return "paper" if preset == "moham" else "small"


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that a search depends on besides its problem.

    Attributes:
        budget: name of a budget, only recorded.
        mapper: settings of the layer mapper.
        mapper_rates: operator probabilities of the layer mapper.
        moham: settings of the co-optimiser.
        rates: operator probabilities of a search of layers.
        plan_rates: operator probabilities of a search of plans.
        remap: how often layers are mapped again on chiplets of the front; a search of layers never does.
        weights: exponents of the objectives for `moham.objective = "product"`.
        seed: seed of all randomness.
        within: limit on latency, as a multiple of the least that any design over the mappings found can have, so that
            the search avoids slower designs; None for no limit.
    """

    budget: str = "small"
    mapper: MapperConfig = BUDGETS["small"].mapper
    mapper_rates: MapperRates = dataclasses.field(default_factory=MapperRates)
    moham: MohamConfig = BUDGETS["small"].moham
    rates: Rates = dataclasses.field(default_factory=Rates)
    plan_rates: PlanRates = dataclasses.field(default_factory=PlanRates)
    remap: RemapConfig = BUDGETS["small"].remap
    weights: tuple[float, ...] = (1.0, 1.0, 1.0)
    seed: int = 0
    within: float | None = None

    def __post_init__(self) -> None:
        """Checks the seed and the window."""
        check_seed(self.seed)
        if self.within is not None and not 1 < self.within < math.inf:
            raise InputError(f"is {self.within:g}", argument="within", remedy="give a number above 1")

    @classmethod
    def preset(cls, budget: str | None = None, *, preset: str = "default", **changes: Any) -> Settings:
        """Settings of a named budget, with the operators of a preset.

        Args:
            budget: a key of `BUDGETS`; default `usual_budget`.
            preset: `default`; `layers`: a search that moves single layers, starting from list schedules; `moham`: MOHaM
                as printed (`as_printed`); or `paper`: MOHaM's rates and rate unit and no padded mappings, but our loop
                (random immigrants, an archive as the result), tiles that identify chiplets, and our layer mapper.
                MOHaM's model of contention belongs to the package (`preset_package`).
            changes: further fields of `Settings`.

        Raises:
            InputError: unknown budget or preset.
        """
        if preset not in PRESETS:
            raise InputError(f"unknown preset {preset!r}", argument="preset", remedy=f"use one of {', '.join(PRESETS)}")
        budget = usual_budget(preset) if budget is None else budget
        if budget not in BUDGETS:
            raise InputError(f"unknown budget {budget!r}", argument="budget", remedy=f"use one of {', '.join(BUDGETS)}")
        chosen = BUDGETS[budget]
        base = cls(budget=budget, mapper=chosen.mapper, moham=chosen.moham, remap=chosen.remap)
        if preset != "default":
            moham = dataclasses.replace(
                base.moham,
                genes="layers",
                seeded=True,
                archive=512,
                survival="crowding",
                end_rounds=0,
                end_orders=0,
            )
            base = dataclasses.replace(base, moham=moham, remap=RemapConfig(every=0))
        if preset == "paper":
            base = dataclasses.replace(
                base,
                moham=dataclasses.replace(base.moham, rate_unit="individual", seeded=False, scale="linear"),
                rates=PAPER_RATES,
                mapper=dataclasses.replace(base.mapper, padding=False),
            )
        if preset == "moham":
            base = as_printed(base)
        return dataclasses.replace(base, **changes)

    @property
    def goals(self) -> Goals:
        """The objectives, and what selection minimises."""
        config = self.moham
        return Goals(config.objectives, config.periods, config.objective, self.weights)


def as_printed(settings: Settings) -> Settings:
    """MOHaM as its paper prints it, in the sizes of the settings (300 generations of 250 with the budget `paper`).

    It has the chromosome and operators of Section V-B (`search.instances`), each applied at most once per individual
    with the probability of Table 4, as many evaluations per generation as individuals, and NSGA-II's crowding on linear
    axes; its result is the front of the last population. Layers are mapped by MEDEA as printed
    (`mapper.MAPPER_PRESETS`), 15 generations of 120 with the budget `paper`; a set keeps the whole first front of its
    last population.
    """
    moham = dataclasses.replace(
        settings.moham, genes="instances", result="population", immigrants=0.0, archive=512, survival="crowding",
        scale="linear", rate_unit="individual", seeded=False, end_batches=0, end_rounds=0,
        end_orders=0,
    )  # fmt: skip
    medea, sizes = mapper_preset("medea"), settings.mapper
    assert medea.config is not None
    mapper = dataclasses.replace(
        medea.config, population=sizes.population, generations=sizes.generations,
        entries=max(sizes.entries, sizes.population),
    )  # fmt: skip
    return dataclasses.replace(
        settings, moham=moham, rates=PAPER_RATES, mapper=mapper, mapper_rates=medea.rates, remap=RemapConfig(every=0)
    )


def preset_package(preset: str) -> PackageParameters:
    """The default package of a preset; in MOHaM's (`paper`, `moham`), layers contend at the interfaces alone."""
    printed = preset in ("paper", "moham")
    return PackageParameters(contention="interface") if printed else PackageParameters()


def check_rate(name: str, rate: object, item: str) -> None:
    """Refuses a rate of `PlanRates` or `Rates` that is no number, is traced, or is out of range.

    Raises:
        InputError: names `item`, which the user set.
    """
    most = MOST_RATES.get(name, 1.0)
    value = None if is_traced(rate) else real(rate)
    if value is None or not 0 <= value <= most:
        raise InputError(f"{name} is {rate!r}", item=item, remedy=f"use a number from 0 to {most:g}")


_OF_PROBLEM = ("package", "technology", "requirements", "tiles", "max_chiplets")


def changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Settings with fields changed by name, including those of their parts.

    Args:
        settings: the settings.
        changes: values by name of a field of `Settings`, `MohamConfig`, `PlanRates`, `Rates` or `RemapConfig`, of the
            first one where several have the name; or `padding`, of the mapper.

    Raises:
        InputError: a name is unknown or belongs to the problem, or a rate is out of range or not of this search.
    """
    parts: dict[str, type] = {
        "moham": MohamConfig, "plan_rates": PlanRates, "rates": Rates, "remap": RemapConfig,
    }  # fmt: skip
    own = [field.name for field in dataclasses.fields(Settings)]
    homes: dict[str, str] = {"padding": "mapper"}
    for part, kind in parts.items():
        for field in dataclasses.fields(kind):
            homes.setdefault(field.name, part)
    dealt: dict[str, dict[str, Any]] = {part: {} for part in ("", "mapper", *parts)}
    for name, value in changes.items():
        if name in _OF_PROBLEM:
            raise InputError(
                "is set by the problem", item=f"setting {name!r}", remedy="make a DesignProblem with another one"
            )
        if name not in own and name not in homes:
            near = difflib.get_close_matches(name, [*own, *homes], 3)
            remedy = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(sorted({*own, *homes}))}"
            raise InputError("is not known", item=f"setting {name!r}", remedy=remedy)
        dealt["" if name in own else homes[name]][name] = value
    settings = dataclasses.replace(settings, **dealt[""])
    for part in ("mapper", *parts):
        if dealt[part]:
            settings = dataclasses.replace(
                settings, **{part: dataclasses.replace(getattr(settings, part), **dealt[part])}
            )
    for rates in (settings.plan_rates, settings.rates):
        for field in dataclasses.fields(rates):
            check_rate(field.name, getattr(rates, field.name), f"setting {field.name!r}")
    idle = "rates" if settings.moham.genes == "plans" else "plan_rates"
    if dealt[idle]:
        other = "layers" if idle == "rates" else "plans"
        raise InputError(
            f"is a rate of a search of {other}, this one searches {settings.moham.genes}",
            item=f"setting {next(iter(dealt[idle]))!r}",
            remedy=f"add genes={other!r}, or leave it out",
        )
    return settings
