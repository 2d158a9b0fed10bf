"""Layers, networks and application models: what is to be computed.

Loop bounds come in the order of `DIMS`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import re
from typing import Literal, get_args

from mohamjax.dims import DIMS, input_window, tensor_words
from mohamjax.errors import InputError
from mohamjax.runtime.struct import shown_briefly

Task = Literal["vision", "language", "recommendation"]

TASKS: tuple[str, ...] = get_args(Task)
"""Tasks of networks: the classes of G# (Section 5.1.1)."""

_MAX_BOUND = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class WorkloadShape:
    """Loop bounds, strides and dilations of a layer; pairs are (first axis, second axis)."""

    G: int = 1
    N: int = 1
    K: int = 1
    C: int = 1
    P: int = 1
    Q: int = 1
    R: int = 1
    S: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    def check(self) -> None:
        """Checks that every bound, stride and dilation is a whole number from 1 to 2^31 - 1; layers call it when made.

        Raises:
            InputError: one is not; names it.
        """
        pairs = (("stride", self.stride), ("dilation", self.dilation))
        for name, values in (*((dim, (getattr(self, dim),)) for dim in DIMS), *pairs):
            for value in values:
                whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
                if not (whole and 1 <= int(value) <= _MAX_BOUND):
                    remedy = f"give a whole number from 1 to {_MAX_BOUND:,}"
                    raise InputError(f"is {value!r:.40}", item=f"shape.{name}", remedy=remedy)

    def __str__(self) -> str:
        """Loop bounds above 1, e.g. `K=64 C=3 P=112 Q=112 R=7 S=7`."""
        return " ".join(f"{d}={b}" for d, b in zip(DIMS, self.bounds, strict=True) if b > 1) or "of one operation"

    @property
    def bounds(self) -> tuple[int, ...]:
        """Loop bounds in the order of `DIMS`."""
        return tuple(getattr(self, d) for d in DIMS)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layer: the product of the loop bounds."""
        return math.prod(self.bounds)

    @property
    def input_extent(self) -> tuple[int, int]:
        """Input extents (H, W) in words, without padding and with the halo (docs/concepts/workload.md)."""
        return input_window(self.bounds, self.stride, self.dilation)

    @property
    def tensor_words(self) -> tuple[int, int, int]:
        """Words of the weights, inputs and outputs."""
        return tensor_words(self.bounds, self.stride, self.dilation)


@dataclasses.dataclass(frozen=True)
class Layer:
    """One compute operator of a network.

    Attributes:
        name: Unique within its network.
        type: One of `LAYER_TYPES`.
        op: The ONNX operator it came from.
        shape: Its workload shape.
        word_bits: Width in bits of the element type in the model.
        predecessors: Indices (within the network) of the layers that must have ended before it starts.
    """

    name: str
    type: str
    op: str
    shape: WorkloadShape
    word_bits: int = 32
    predecessors: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Checks the shape (`WorkloadShape.check`)."""
        self.shape.check()

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the layer."""
        return self.shape.macs


@shown_briefly
@dataclasses.dataclass(frozen=True)
class Network:
    """A directed acyclic graph of layers from one ONNX graph, in topological order.

    Attributes:
        name: distinct within an application model.
        layers: predecessors are indices of this tuple.
        source: where it was read from.
        task: one of `TASKS`; empty if unknown.
        deadline_s: seconds from the start (of a frame) by which its last layer should have ended; inf for none.
        frames_per_second: how often it runs; 0 for once.
        weight: weight of its latency relative to the other networks'.
    """

    name: str
    layers: tuple[Layer, ...]
    source: str = ""
    task: str = ""
    deadline_s: float = math.inf
    frames_per_second: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Checks predecessors, deadline, frame rate and weight.

        Raises:
            InputError: a predecessor is not an earlier layer, or a number is out of range; names it.
        """
        for place, layer in enumerate(self.layers):
            for p in layer.predecessors:
                if not (isinstance(p, numbers.Integral) and not isinstance(p, bool) and 0 <= int(p) < place):
                    raise InputError(
                        f"predecessor {p!r:.40} of layer {place} is no earlier layer of the network",
                        item=f"{self.name}/{layer.name}",
                        remedy="give places in `layers`, counted from 0, with the layers in a topological order",
                    )
        for name, good, remedy in (
            ("deadline_s", self.deadline_s > 0, "give seconds above 0, or inf for none"),
            ("frames_per_second", 0 <= self.frames_per_second < math.inf, "give 0 or more"),
            ("weight", 0 < self.weight < math.inf, "give a finite number above 0"),
        ):
            if not good:
                told = f"is {getattr(self, name)!r:.40}"
                raise InputError(told, item=f"network {self.name}: {name}", remedy=remedy)

    @property
    def asked(self) -> dict[str, float]:
        """Deadline, frame rate and weight where they differ from the defaults, by their keys in files."""
        given = {"deadline_s": self.deadline_s, "frames_per_second": self.frames_per_second, "weight": self.weight}
        silent = {"deadline_s": math.inf, "frames_per_second": 0.0, "weight": 1.0}
        return {key: value for key, value in given.items() if value != silent[key]}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers."""
        return sum(layer.macs for layer in self.layers)


@dataclasses.dataclass(frozen=True)
class UniqueLayer:
    """A (layer type, workload shape) pair: layers that share it share their mappings."""

    type: str
    shape: WorkloadShape


@shown_briefly
@dataclasses.dataclass(frozen=True)
class ApplicationModel:
    """Independent networks that run together (multi-tenant); layers are numbered network after network.

    Attributes:
        name: name of the model.
        networks: their names are distinct unless `joined`.
        joined: the networks come from several application models (`ensemble.joined`) and may share names.
    """

    name: str
    networks: tuple[Network, ...]
    joined: bool = dataclasses.field(default=False, repr=False)

    def __post_init__(self) -> None:
        """Checks that the names of networks are distinct.

        Raises:
            InputError: two networks have the same name.
        """
        names = [network.name for network in self.networks]
        for name in names:
            if names.count(name) > 1 and not self.joined:
                raise InputError(
                    f"{names.count(name)} networks are called {name!r}",
                    item=f"application {self.name}",
                    remedy="give every network its own name, with dataclasses.replace(network, name=...)",
                )

    @functools.cached_property
    def layers(self) -> tuple[Layer, ...]:
        """All layers, predecessors renumbered to this tuple's indices."""
        out: list[Layer] = []
        for network in self.networks:
            base = len(out)
            out.extend(
                dataclasses.replace(layer, predecessors=tuple(base + p for p in layer.predecessors))
                for layer in network.layers
            )
        return tuple(out)

    @functools.cached_property
    def network_of_layer(self) -> tuple[int, ...]:
        """Index of the network of each layer of `layers`."""
        return tuple(i for i, network in enumerate(self.networks) for _ in network.layers)

    @functools.cached_property
    def full_names(self) -> tuple[str, ...]:
        """Name of each layer of `layers` with that of its network: NETWORK/LAYER."""
        return tuple(f"{network.name}/{layer.name}" for network in self.networks for layer in network.layers)

    @functools.cached_property
    def unique_layers(self) -> tuple[UniqueLayer, ...]:
        """Distinct (type, shape) pairs in order of first appearance."""
        return tuple(dict.fromkeys(UniqueLayer(layer.type, layer.shape) for layer in self.layers))

    @functools.cached_property
    def unique_of_layer(self) -> tuple[int, ...]:
        """Index into `unique_layers` of each layer of `layers`."""
        index = {unique: i for i, unique in enumerate(self.unique_layers)}
        return tuple(index[UniqueLayer(layer.type, layer.shape)] for layer in self.layers)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all networks."""
        return sum(network.macs for network in self.networks)


def with_batch(network: Network, batch: int) -> Network:
    """The network with `batch` times the samples: N of its layers grows, or G where two activations are multiplied.

    Raises:
        InputError: a loop bound becomes too large.
    """

    def more(layer: Layer) -> Layer:
        dim = "G" if layer.type == "bmm" else "N"
        bound = getattr(layer.shape, dim) * batch
        if bound > _MAX_BOUND:
            raise InputError(
                f"{dim} becomes {bound:,} at {batch} times the samples",
                item=f"{network.name}/{layer.name}",
                remedy="use a smaller batch",
            )
        return dataclasses.replace(layer, shape=dataclasses.replace(layer.shape, **{dim: bound}))

    return dataclasses.replace(network, layers=tuple(more(layer) for layer in network.layers)) if batch > 1 else network


def network_name(text: str) -> str:
    """A name that is safe as part of a CSV column: other characters than letters, digits and `_.+#-` become `_`."""
    return re.sub(r"[^\w.+#-]", "_", text, flags=re.ASCII) or "network"
