"""What if the hardware were different: grids of variants, sensitivities, and fronts under uncertainty."""

from mohamjax.whatif.grid import Axis, WhatIf, read_axes, what_if
from mohamjax.whatif.notes import reasons, unchanged
from mohamjax.whatif.parameters import Parameter, known_parameters
from mohamjax.whatif.sensitivity import METHODS, Sensitivities, sensitivities
from mohamjax.whatif.uncertainty import ALMOST_NEVER, LEVELS, Uncertainty, read_spreads, survival, uncertainty
from mohamjax.whatif.variant import (
    Candidates,
    Variant,
    candidates_of,
    evaluate_variants,
    nominal_variant,
    on_variant,
    stack_variants,
)

__all__ = [
    "ALMOST_NEVER",
    "LEVELS",
    "METHODS",
    "Axis",
    "Candidates",
    "Parameter",
    "Sensitivities",
    "Uncertainty",
    "Variant",
    "WhatIf",
    "candidates_of",
    "evaluate_variants",
    "known_parameters",
    "nominal_variant",
    "on_variant",
    "read_axes",
    "read_spreads",
    "reasons",
    "sensitivities",
    "stack_variants",
    "survival",
    "uncertainty",
    "unchanged",
    "what_if",
]
