"""The rules of all operators, by domain and name.

A rule takes a `Call` and returns the tensors that the operator makes: shapes, element types and, if they are few and
can be known, values; the rule of a layer adds the layer through `Call.emit`. The walk finds which layers the result of
any other rule depends on. Rules cover every operator-set version at once: where an argument moved from attribute to
input, both are read.
"""

from __future__ import annotations

from collections.abc import Callable

from mohamjax.workload.tensor import Call, Tensor

Rule = Callable[[Call], list[Tensor]]

STANDARD = ""
CONTRIB = "com.microsoft"
"""Domain of the operators that ONNX Runtime's optimiser leaves in files."""

RULES: dict[str, dict[str, Rule]] = {STANDARD: {}, CONTRIB: {}}
"""Rules by domain and operator name; a name that is missing in `CONTRIB` falls back on the standard operator."""

_ALIASES = frozenset({"", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview", "ai.onnx.preview.training"})
_LAYERS: set[Rule] = set()

PURE_RANDOM = frozenset(
    {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
)
"""Operators whose results are random, and so no constants even if all inputs are."""

VALUES_FROM_FIRST = {"CastLike": 1, "EyeLike": 0, "RandomNormalLike": 0, "RandomUniformLike": 0}
"""Operator -> how many of its first inputs it takes values from. Of the others it takes only the shape or type."""

QUANTISED_THROUGH = frozenset({
    "Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Split", "Expand",
    "Gather", "MaxPool", "Relu", "Clip", "Dropout", "Pad", "DepthToSpace", "SpaceToDepth", "Tile",
})  # fmt: skip
"""Operators that leave a dequantised tensor in the value range of its quantised type."""


def rule(*names: str, domain: str = STANDARD, layer: bool = False) -> Callable[[Rule], Rule]:
    """Registers a rule.

    Args:
        names: Operators that the rule is for.
        domain: Their domain.
        layer: Whether it may add layers.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[domain][name] = function
        if layer:
            _LAYERS.add(function)
        return function

    return register


def find_rule(domain: str, op: str) -> Rule | None:
    """The rule of an operator, None if there is none."""
    if domain == CONTRIB:
        return RULES[CONTRIB].get(op) or RULES[STANDARD].get(op)
    if domain in _ALIASES:
        # ONNX Runtime files some of its own operators under the standard domain.
        return RULES[STANDARD].get(op) or (RULES[CONTRIB].get(op) if op == "SimplifiedLayerNormalization" else None)
    return None


def is_layer(domain: str, op: str) -> bool:
    """Whether an operator may be a layer."""
    return find_rule(domain, op) in _LAYERS
