"""Measures that are reported for every chiplet of a design, and may be limited.

To add a measure, add an entry to `CHIPLET_MEASURES`: `designs.json` then states it for every chiplet, and
`limits: {chiplet: {KEY: BOUND}}` in the requirements keeps every chiplet at or below a bound, `limits: {least_chiplet:
{KEY: BOUND}}` at or above one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.schedule.design import Chiplets


@dataclasses.dataclass(frozen=True)
class ChipletMeasure:
    """A number of a chiplet.

    Attributes:
        key: its name in files and requirements, with its unit.
        value: function that gives `[..., S]` float for the chiplets on S tiles, 0 where there is none; pure and
            traceable, takes NumPy arrays too.
    """

    key: str
    value: Callable[[Chiplets], jax.Array]


CHIPLET_MEASURES = {
    measure.key: measure for measure in (ChipletMeasure("area_mm2", lambda chiplets: chiplets.area * 1e-6),)
}
"""All by key."""


def extremes(chiplets: Chiplets) -> tuple[jax.Array | np.ndarray, jax.Array | np.ndarray]:
    """Largest and smallest value of each measure over the chiplets of a design, in the order of `CHIPLET_MEASURES`.

    `[..., K]` float each; NumPy arrays stay NumPy arrays, in their precision.
    """
    xp = np if isinstance(chiplets.area, np.ndarray) else jnp
    values = xp.stack([measure.value(chiplets) for measure in CHIPLET_MEASURES.values()], axis=-1)
    there = chiplets.occupied[..., None]
    return xp.max(values, axis=-2), xp.min(xp.where(there, values, xp.inf), axis=-2)
