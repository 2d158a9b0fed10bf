"""What the exhibits of MOHaM share: sizes by tier, all seeds of a method, the box in which fronts are measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from exhibits import Study
from moham_runs import PACKAGE, Found, searched, searches, space_of, tier_of
from search_problem import merit

OURS = "ours"
"""The default search, and the tables that the default mapper makes."""


def scenarios_of(study: Study, small: Sequence[str], full: Sequence[str] = ()) -> Sequence[str]:
    """Scenarios of an exhibit by tier; those of `full` are those of `small` where none are given."""
    return study.pick(("ar-vr",), small, full or small)


def generations_of(study: Study, small: int = 100) -> int:
    """Generations of the searches of an exhibit by tier."""
    return study.pick(3, small, 300)


def all_seeds(
    study: Study, scenario: str, method: str, generations: int, seeds: Sequence[int] | None = None
) -> list[Found]:
    """What a method found, by seed; fewer where runs are missing."""
    kept = searches(study)
    found = (searched(study, kept, scenario, method, generations, s) for s in seeds or range(study.seeds))
    return [one for one in found if one is not None]


def box_of(study: Study, scenario: str, tables: str) -> tuple[np.ndarray, np.ndarray]:
    """Ideal and reference point over the tables of a kind (`Method.tables`), which scale objectives."""
    space = space_of(scenario, tier_of(study), tables, False, PACKAGE)
    return np.asarray(space.ideal, float), np.asarray(space.reference, float)


def volume_of(study: Study, scenario: str, front: np.ndarray, tables: str = "printed") -> float:
    """Hypervolume of a front in the box of `box_of`, on log axes."""
    return merit(front, space_of(scenario, tier_of(study), tables, False, PACKAGE))
