"""Settings of a hardware search, and the named budgets."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mohamjax.errors import Argument, InputError
from mohamjax.runtime.checks import check_seed, check_whole
from mohamjax.unico.fidelity import RULES
from mohamjax.unico.halving import AREAS, MOST_PERCENT, Bracket
from mohamjax.unico.lanes import LEAKAGE_W_PER_MM2, OBJECTIVES

CODESIGN_FORMAT = "codesign/1"
"""Format name in the `config.yaml` of a hardware search."""

METHODS = ("unico", "hasco", "hasco-r", "nsga2", "mobohb", "random")
"""Ways to choose hardware: UNICO; HASCO's way of one point at a time with full mapping searches, without (`hasco`) and
with (`hasco-r`) the distance of R as an objective; NSGA-II; Bayesian optimisation by densities and halving; chance."""

SCORES = ("parego", "latency", "edp")
"""Scores by which a bracket compares points."""

ACQUISITIONS = ("qhvi", "mesmo")
PPA = ("model", "unico-fit")
FINISHING = ("spread", "end")


@dataclasses.dataclass(frozen=True)
class CodesignConfig:
    """Everything that a hardware search depends on besides networks, space and tables.

    Attributes:
        method: one of `METHODS`.
        budget: name of a budget, recorded only.
        preset: name of a preset, recorded only: the other settings hold what it changes.
        lanes: N, hardware points of a batch.
        first: generations of the first round of a bracket.
        rounds: rounds of a bracket; the budget of generations doubles from one to the next.
        iterations: every method may spend the mapping evaluations of this many brackets; `unico` spends the share
            `finish` of them on finishing points.
        area_percent: share of those alive that the area chooses [%], a whole number, see `halving.seats`; 0 is plain
            halving.
        rationed: `unico` runs brackets; if false, it gives every point the full budget.
        finish: share of the evaluations of `unico` spent on finishing: designs of the front whose mapping search was
            stopped early get the full budget, first those nearest to the ideal (if `aimed` is above 0), then those that
            add most hypervolume. 0 reports them as they were measured, as the paper does.
        finishing: when points are finished: `end`, after the last bracket; `spread`, as soon as the brackets so far
            have earned it.
        extrapolate: the surrogate of `unico` learns what a stopped point would reach with the full budget, estimated
            from the mean gain of the points that had it; if false, it learns what was measured.
        rule: which rows train the surrogate, one of `fidelity.RULES`.
        robust: R is an objective of `unico`.
        acquisition: `qhvi` or `mesmo`.
        aimed: share of the points proposed by the surrogate of `unico` that aim at the design nearest to the ideal
            (`acquisition.approach`). Above 0, the nearest designs on linear and on logarithmic axes are also finished
            first.
        extras: `finish` and `aimed` apply to the rivals of `unico` too, where they can: points of the front of `mobohb`
            are finished, and shares of the points of `mobohb`, `hasco` and `hasco-r` aim at the ideal. (All points of
            `hasco` and `hasco-r` have the full budget anyway.)
        score: one of `SCORES`.
        area: a key of `halving.AREAS`.
        population: mappings that a lane evaluates per generation, 2 or more.
        objective: what a mapping search minimises, `edp` or `latency`.
        power_cap_W: most power of a design [W]; None for no limit.
        ppa: `model`: energies and areas of our model; `unico-fit`: power and area fitted to the paper's cloud table.
        leakage: W per mm^2.
        initial: random points of the first batch of `hasco` and `hasco-r`; at most half of the points in the budget.
        nsga_population: population of `nsga2`; at most a third of the points in the budget.
        pool: random candidates of an acquisition.
        neighbours: candidates of an acquisition near the front.
        training: most rows of the surrogate's training set, 2 or more, at most the largest of `gp.BUCKETS`.
        seed: seed of all randomness.
        mapping_seed: seed of the mapping searches; None for `seed`. Searches with the same seed draw the same numbers.
    """

    method: str = "unico"
    budget: str = "small"
    preset: str = "ours"
    lanes: int = 16
    first: int = 2
    rounds: int = 5
    iterations: int = 8
    area_percent: int = 15
    rationed: bool = True
    finish: float = 0.25
    finishing: str = "spread"
    extrapolate: bool = False
    rule: str = "uul"
    robust: bool = True
    acquisition: str = "qhvi"
    aimed: float = 0.25
    extras: bool = False
    score: str = "parego"
    area: str = "above_terminal"
    population: int = 16
    objective: str = "edp"
    power_cap_W: float | None = None
    ppa: str = "model"
    leakage: float = LEAKAGE_W_PER_MM2
    initial: int = 10
    nsga_population: int = 20
    pool: int = 3072
    neighbours: int = 1024
    training: int = 256
    seed: int = 0
    mapping_seed: int | None = None

    def __post_init__(self) -> None:
        """Checks what a user can set."""
        from mohamjax.unico.gp import BUCKETS  # takes more than a second to import, and only searches need it

        check_whole(self, "codesign settings", {
            "lanes": 1, "first": 1, "rounds": 1, "iterations": 1, "population": 2, "initial": 1, "nsga_population": 1,
            "pool": 1, "neighbours": 0, "training": 2, "area_percent": 0,
        })  # fmt: skip
        for name, most in (("training", BUCKETS[-1]), ("area_percent", MOST_PERCENT)):
            if getattr(self, name) > most:
                raise InputError(f"is {getattr(self, name)}", argument=name, remedy=f"give at most {most}")
        check_seed(self.seed)
        if self.mapping_seed is not None:
            check_seed(self.mapping_seed, "mapping_seed")
        if not (_is_number(self.leakage) and 0 <= self.leakage < math.inf):
            raise InputError(f"is {self.leakage!r}", argument="leakage", remedy="give W per mm^2, 0 or more")
        for name, known in (
            ("method", METHODS), ("rule", RULES), ("acquisition", ACQUISITIONS), ("score", SCORES),
            ("area", tuple(AREAS)), ("objective", tuple(OBJECTIVES)), ("ppa", PPA), ("finishing", FINISHING),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                told = f"unknown {name} {getattr(self, name)!r}"
                raise InputError(told, argument=name, remedy=f"use one of {', '.join(known)}")
        for name in ("finish", "aimed"):
            share = getattr(self, name)
            if not (_is_number(share) and 0 <= share < 1):
                raise InputError(f"is {share!r:.40}", argument=name, remedy="give a share from 0 to below 1")
        cap = self.power_cap_W
        if cap is not None and not (_is_number(cap) and cap > 0):
            raise InputError(f"is {cap!r:.40}", argument="power_cap_W", remedy="give W, a number above 0")
        try:
            self.bracket  # noqa: B018
        except ValueError as error:
            raise InputError(f"{error}", item="codesign settings", remedy="lower the rounds") from None

    @property
    def bracket(self) -> Bracket:
        """The plan of a batch of `unico`."""
        return Bracket(lanes=self.lanes, first=self.first, rounds=self.rounds, area_percent=self.area_percent)

    @property
    def generations(self) -> int:
        """Generations of the full budget of a mapping search."""
        return self.first << (self.rounds - 1)

    @property
    def finished(self) -> float:
        """Share of the evaluations that this method spends on finishing points of the front."""
        return self.finish if self.rationed and self._has_extras("unico", "mobohb") else 0.0

    @property
    def aims(self) -> float:
        """Share of the points of this method that aim at the design nearest to the ideal."""
        return self.aimed if self._has_extras("unico", "hasco", "hasco-r", "mobohb") else 0.0

    def _has_extras(self, own: str, *others: str) -> bool:
        return self.method == own or (self.extras and self.method in others)

    @property
    def total_cost(self) -> int:
        """Budget of a search [hardware points x generations]."""
        return self.iterations * self.bracket.cost

    def plan(self, number: int, *, rationed: bool, area_percent: int) -> Bracket:
        """The bracket of `number` points; fewer than `lanes` get as many rounds as they can be halved for."""
        rounds = min(self.rounds, number.bit_length()) if rationed else 1
        first = self.generations >> (rounds - 1)
        return Bracket(lanes=number, first=first, rounds=rounds, area_percent=area_percent)


def _is_number(value: object) -> bool:
    """Whether a setting is a number, which a bool is not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


BUDGETS = {
    "ci": {"lanes": 8, "first": 2, "rounds": 4, "iterations": 3},
    "small": {"lanes": 16, "first": 2, "rounds": 5, "iterations": 8},
    "full": {"lanes": 32, "first": 4, "rounds": 5, "iterations": 13},
}
"""Sizes of the named budgets."""

PRESETS: dict[str, dict[str, Any]] = {
    "ours": {},
    "unico": {"finish": 0.0, "aimed": 0.0, "objective": "latency", "score": "latency"},
    "same-extras": {"extras": True},
}
"""`ours`: the defaults. `unico`: as in the paper, no point is finished or aimed; mapping searches minimise latency, and
brackets compare latency curves (Section 3.1). `same-extras`: rivals of UNICO get what we add to it."""


def preset_changes(preset: str, method: str) -> dict[str, Any]:
    """Settings of a preset that differ from the defaults.

    Args:
        preset: a key of `PRESETS`.
        method: a method. With preset and method both `unico` it picks by `mesmo`; rivals keep their acquisition.

    Raises:
        InputError: there is no such preset, or `same-extras` would change nothing of the method.
    """
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}", argument="preset", remedy=f"use one of {', '.join(PRESETS)}")
    if preset == "same-extras" and method not in ("hasco", "hasco-r", "mobohb"):
        raise InputError(
            f"changes nothing of {method}",
            argument=Argument("preset", value=preset),
            remedy="leave it out, or take a rival",
        )
    picks = {"acquisition": "mesmo"} if (preset, method) == ("unico", "unico") else {}
    return PRESETS[preset] | picks


_CAPS = {"unico-edge": 2.0, "unico-cloud": 20.0}


def unico_cap(space: str) -> float | None:
    """Limit on power of a named space [W] (UNICO, Section 4.1); None where there is none."""
    return _CAPS.get(space)
