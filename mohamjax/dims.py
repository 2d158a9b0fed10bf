"""The loop dimensions and data spaces of a layer: letters, indices in arrays, and which spaces depend on which."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

Dim = Literal["G", "N", "K", "C", "P", "Q", "R", "S"]

DIMS: tuple[str, ...] = get_args(Dim)
"""Loop dimensions: groups, batch, output and input channels per group, output extent along the first and
second spatial axis, filter extent along the first and second. P goes with R, Q with S."""

G, N, K, C, P, Q, R, S = ALL = tuple(range(len(DIMS)))

WINDOWS = ((P, R), (Q, S))
"""Output and filter extent along each spatial axis of the inputs."""

LayerType = Literal["conv", "dwconv", "gconv", "tconv", "fc", "bmm", "rnn"]

LAYER_TYPES: tuple[str, ...] = get_args(LayerType)

DataSpace = Literal["Weights", "Inputs", "Outputs"]

DATA_SPACES: tuple[str, ...] = get_args(DataSpace)

W, I, O = range(len(DATA_SPACES))

RELEVANT = ((G, K, C, R, S), (G, N, C, P, Q, R, S), (G, N, K, P, Q))
"""Dimensions on which each data space depends."""

RELEVANCE = np.array([[d in own for d in ALL] for own in RELEVANT])
"""`RELEVANT` as `[V, D]` bool."""


def input_window(extent: Sequence[Any] | Any, stride: Any, dilation: Any) -> tuple[Any, Any]:
    """Returns the input extents along both spatial axes, without padding, with halo (docs/concepts/workload.md).

    Args:
        extent: `[D, ...]` loop extents; numbers or arrays.
        stride: `[2]`, in the number type of the extents.
        dilation: `[2]`, along height and width.
    """
    height, width = (
        (extent[out] - 1) * stride[a] + (extent[tap] - 1) * dilation[a] + 1 for a, (out, tap) in enumerate(WINDOWS)
    )
    return height, width


def tensor_words(extent: Sequence[Any] | Any, stride: Any, dilation: Any) -> tuple[Any, Any, Any]:
    """Returns the words of weights, inputs and outputs for loop extents `[D, ...]`; arguments as for `input_window`."""

    def over(dims: Sequence[int]) -> Any:
        return functools.reduce(operator.mul, [extent[d] for d in dims])

    height, width = input_window(extent, stride, dilation)
    return over(RELEVANT[W]), over((G, N, C)) * height * width, over(RELEVANT[O])
