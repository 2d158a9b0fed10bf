"""Named settings of the layer mapper: its own, and those of MEDEA's paper and of released code."""

from __future__ import annotations

import dataclasses

import numpy as np

from mohamjax.errors import InputError
from mohamjax.mapper.config import MapperConfig
from mohamjax.mapper.mapping_operators import PAPER_RATES, MapperRates


@dataclasses.dataclass(frozen=True)
class MapperPreset:
    """Sizes, variant and rates of a mapper.

    Attributes:
        config: sizes and variant; None for those of a budget.
        rates: probabilities of the operators.
    """

    config: MapperConfig | None
    rates: MapperRates


_MEDEA = MapperConfig(
    population=120,
    generations=15,
    immigrants=0,
    descent=0,
    distinct=False,
    padding=False,
    operators="medea",
    scale="linear",
    front="population",
)
_RELEASED = dataclasses.replace(_MEDEA, operators="medea-released")
_IN_MOHAM = dataclasses.replace(PAPER_RATES, fill=np.float32(0.2), parallelise=np.float32(0.2))

MAPPER_PRESETS = {
    "default": MapperPreset(None, MapperRates()),
    "medea": MapperPreset(_MEDEA, PAPER_RATES),
    "medea-released": MapperPreset(_RELEASED, PAPER_RATES),
    "moham-released": MapperPreset(dataclasses.replace(_RELEASED, immigrants=20), _IN_MOHAM),
}
"""Presets by name.

`default` has the sizes of a budget and our operators. `medea` follows the text of the MEDEA paper (Sections IV and V):
15 generations of 120; random, fill and parallelising mutation at rates .4, .7 and .7; nothing of ours; the first front
of the final population. `medea-released` has the operators of its code (`mapper.medea` tells how they differ) and the
same numbers. `moham-released` is that mapper as MOHaM's code sets it: rates .4, .2 and .2, and 20 random immigrants per
generation.
"""


def mapper_preset(name: str) -> MapperPreset:
    """A preset by name.

    Raises:
        InputError: there is no such preset.
    """
    if name not in MAPPER_PRESETS:
        raise InputError(
            f"unknown preset {name!r} of the mapper",
            argument="preset",
            remedy=f"use one of {', '.join(MAPPER_PRESETS)}",
        )
    return MAPPER_PRESETS[name]
