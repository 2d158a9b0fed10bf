"""Budgets and presets, and everything that a search depends on besides its problem."""

from __future__ import annotations

import dataclasses
import difflib
import math
from typing import Any

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.mapper.config import MapperConfig, MapperRates, mapper_preset
from mohamjax.problem.goals import Goals
from mohamjax.reader import real
from mohamjax.runtime.checks import check_seed
from mohamjax.runtime.struct import is_traced, shown_briefly
from mohamjax.search.config import PAPER_RATES, MohamConfig, Rates, RemapConfig
from mohamjax.search.plan_operators import MOST_RATES, PlanRates


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
