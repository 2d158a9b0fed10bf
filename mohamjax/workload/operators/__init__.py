"""What each ONNX operator makes of its inputs: one module per family, one registry."""

from mohamjax.workload.operators import (
    attention,
    constants,
    contrib,
    elementwise,
    movement,
    products,
    reductions,
    sequences,
    unmodelled,
    windows,
)
from mohamjax.workload.operators.registry import (
    CONTRIB,
    PURE_RANDOM,
    QUANTISED_THROUGH,
    RULES,
    STANDARD,
    VALUES_FROM_FIRST,
    find_rule,
    is_layer,
)

__all__ = [
    "CONTRIB",
    "PURE_RANDOM",
    "QUANTISED_THROUGH",
    "RULES",
    "STANDARD",
    "VALUES_FROM_FIRST",
    "find_rule",
    "is_layer",
]

# Importing the families fills the registry.
_FAMILIES = (attention, constants, contrib, elementwise, movement, products, reductions, sequences, unmodelled, windows)
