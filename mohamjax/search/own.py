"""Checks of objectives and limits that users define themselves, before layers are mapped and on the designs found."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.problem import DesignSpace
from mohamjax.schedule import Design, Evaluated, report
from mohamjax.schedule.own_measures import Limit, Objective, check_functions
from mohamjax.search.config import MohamConfig
from mohamjax.text import plural

OWN_KINDS = (Objective, Limit)


def check_own(config: MohamConfig, space: DesignSpace) -> None:
    """Traces the user's functions on the shapes of a report of the space; computes nothing.

    Raises:
        InputError: a function cannot be traced, or does not return a float of shape `()`.
    """
    objectives = tuple(name for name in config.objectives if isinstance(name, Objective))
    if not objectives and not config.limits:
        return
    genetics = space.genetics
    layers = jax.ShapeDtypeStruct(genetics.unique.shape, np.int32)
    tiles = jax.ShapeDtypeStruct(genetics.on_tile.shape, np.int32)
    shapes: dict[str, jax.ShapeDtypeStruct] = {
        "order": layers,
        "assignment": layers,
        "mapping": layers,
        "template": tiles,
    }
    found = jax.eval_shape(lambda genes: report(Design(**genes), space.evaluation), shapes)
    check_functions(objectives, found, "objectives")
    check_functions(config.limits, found, "limits")


def with_own_values(evaluated: Evaluated, announce: Callable[[str], None]) -> np.ndarray:
    """`[N]` bool, designs on which the user's own objectives are finite and have logarithms.

    Args:
        evaluated: designs that a search found.
        announce: called with a line that counts the other designs, if any.

    Raises:
        InputError: no design that runs has such values.
    """
    own = [m for m, name in enumerate(evaluated.measures) if isinstance(name, Objective)]
    if not own:
        return np.ones(len(evaluated), bool)
    runs = np.isfinite(np.asarray(evaluated.reports.objectives)).all(axis=1)
    values, offsets = evaluated.objectives, np.asarray(evaluated.offsets)
    good = (np.isfinite(values[:, own]) & (values[:, own] + offsets[own] > 0)).all(axis=1)
    if (good & runs).any() or not runs.any():
        if lost := int((~good & runs).sum()):
            names = ", ".join(evaluated.measures[m] for m in own)
            announce(f"{plural(lost, 'design')} left out, of which {names} is not finite or has no logarithm")
        return np.asarray(good)
    values = values[runs]
    for m in own:
        name, lacking = evaluated.measures[m], values[~np.isfinite(values[:, m]), m]
        if lacking.size:
            raise InputError(
                f"{name} is {lacking[0]} for {lacking.size} of the {len(values)} designs that were found",
                argument="objectives", remedy="let its function return a finite number for every design",
            )  # fmt: skip
        low = values[:, m].min(initial=np.inf)
        if low + evaluated.offsets[m] <= 0:
            raise InputError(
                f"{name} is {low:.6g}, and fronts are measured on log axes",
                argument="objectives", remedy=f"give mj.Objective an `offset` above {max(-low, 0.0):.6g}",
            )  # fmt: skip
    return np.asarray(good)
