"""What is told of every chiplet of a design, and may be limited: one entry for each measure.

A measure of your own is one entry more in `CHIPLET_MEASURES`: `designs.json` then states it for every chiplet, and
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
        value: `[..., S]` float of the chiplets on S tiles, 0 where there is none; pure and traceable, and with NumPy
            arrays too.
    """

    key: str
    value: Callable[[Chiplets], jax.Array]


CHIPLET_MEASURES = {
    measure.key: measure for measure in (ChipletMeasure("area_mm2", lambda chiplets: chiplets.area * 1e-6),)
}
"""By key."""


def smallest(chiplets: Chiplets) -> jax.Array | np.ndarray:
    """`[..., K]` float, the least that any chiplet of a design has; otherwise as `largest`."""
    xp = np if isinstance(chiplets.area, np.ndarray) else jnp
    there = chiplets.occupied
    own = [xp.where(there, measure.value(chiplets), xp.inf) for measure in CHIPLET_MEASURES.values()]
    return xp.stack([xp.min(values, axis=-1) for values in own], axis=-1)


def largest(chiplets: Chiplets) -> jax.Array | np.ndarray:
    """`[..., K]` float, the most that any chiplet of a design has, of each measure in the order of `CHIPLET_MEASURES`.

    NumPy arrays stay NumPy arrays, in their precision.
    """
    xp = np if isinstance(chiplets.area, np.ndarray) else jnp
    return xp.stack([xp.max(measure.value(chiplets), axis=-1) for measure in CHIPLET_MEASURES.values()], axis=-1)
