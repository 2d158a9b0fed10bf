"""Chooses few designs that stand for a whole front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mohamjax.schedule.front import WINDOW, landmarks
from mohamjax.schedule.measures import box_subset
from mohamjax.search.config import MohamConfig
from mohamjax.search.settings import Settings


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
