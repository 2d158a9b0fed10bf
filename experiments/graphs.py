"""Graphs of published networks, as ONNX: ViT-B/16, ConvNeXt, EfficientNetV2-S, NASNet-A Mobile.

    python experiments/graphs.py vit_b16 nasnet_mobile --out FOLDER      # writes FOLDER/vit_b16.onnx, ...

They are built layer by layer from the papers; weights are constants of the right shape. The tests compare their
products (multiply-accumulates of convolutions, linear layers, and the two products of attention; not of biases,
normalisations or activations) and their trainable parameters with the published figures in `PUBLISHED`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20


@dataclasses.dataclass(frozen=True)
class Published:
    """Published figures of a network.

    Attributes:
        macs: multiply-accumulates of one image.
        parameters: number of trainable parameters.
        source: where the figures are published.
    """

    macs: float
    parameters: int
    source: str


PUBLISHED = {
    "vit_b16": Published(17.564e9, 86_567_656, "torchvision ViT_B_16_Weights; 224 pixels, with attention"),
    "convnext_tiny": Published(4.456e9, 28_589_128, "torchvision ConvNeXt_Tiny_Weights; 224 pixels (paper: 4.5 G)"),
    "convnext_base": Published(15.355e9, 88_591_464, "torchvision ConvNeXt_Base_Weights; 224 pixels (paper: 15.4 G)"),
    "efficientnet_v2_s": Published(
        8.366e9, 21_458_488, "torchvision EfficientNet_V2_S_Weights; 384 pixels (paper: 8.8 G with 22 M parameters)"
    ),
    "nasnet_mobile": Published(
        564e6, 5_289_978, "Zoph et al. 2018, NASNet-A (4 @ 1056): 564 M; parameters of Keras's NASNetMobile"
    ),
}


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of a graph: its name and its shape, the batch of 1 included."""

    name: str
    shape: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Channels of an image `[1, C, H, W]`."""
        return self.shape[1]


class Graph:
    """An ONNX graph as it is built; counts the trainable parameters."""

    def __init__(self, name: str, *shape: int) -> None:
        self.name, self.nodes, self.constants = name, [], {}
        self.parameters = 0
        self.input = Value("image", shape)

    def node(self, op: str, inputs: Sequence[str], shape: Sequence[int], **attributes) -> Value:
        """Adds a node with one output, and returns that output."""
        out = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attributes))
        return Value(out, tuple(shape))

    def integers(self, *values: int) -> str:
        """Adds a small int64 constant, and returns its name."""
        name = "ints_" + "_".join(map(str, values))
        self.constants[name] = numpy_helper.from_array(np.asarray(values, np.int64), name)
        return name

    def weight(self, *shape: int, trainable: bool = True) -> str:
        """Adds a weight, a constant that takes no room in the file, and returns its name."""
        self.parameters += math.prod(shape) * trainable
        fill = helper.make_tensor("fill", TensorProto.FLOAT, [1], [0.01])
        return self.node("ConstantOfShape", [self.integers(*shape)], shape, value=fill).name

    # ------------------------------------------------------------ images `[1, C, H, W]`

    def conv(
        self, x: Value, channels: int, kernel: int, stride: int = 1, groups: int = 1, *, bias=False, same=True
    ) -> Value:
        """Convolution; `same` pads so that the output has a pixel for every stride of the input."""
        pad = (kernel - 1) // 2 if same else 0
        size = [(extent + 2 * pad - kernel) // stride + 1 for extent in x.shape[2:]]
        inputs = [x.name, self.weight(channels, x.channels // groups, kernel, kernel)]
        if bias:
            inputs.append(self.weight(channels))
        return self.node(
            "Conv", inputs, (1, channels, *size), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
            group=groups,
        )  # fmt: skip

    def norm(self, x: Value) -> Value:
        """Batch normalisation: two trained vectors, two running ones."""
        vectors = [self.weight(x.channels, trainable=t) for t in (True, True, False, False)]
        return self.node("BatchNormalization", [x.name, *vectors], x.shape)

    def relu(self, x: Value) -> Value:
        """Rectifier."""
        return self.node("Relu", [x.name], x.shape)

    def silu(self, x: Value) -> Value:
        """`x sigmoid(x)`."""
        return self.node("Mul", [x.name, self.node("Sigmoid", [x.name], x.shape).name], x.shape)

    def pool(self, op: str, x: Value, kernel: int, stride: int) -> Value:
        """`AveragePool` or `MaxPool`, padded as `conv`."""
        pad = (kernel - 1) // 2
        size = [-(-extent // stride) for extent in x.shape[2:]]
        return self.node(
            op, [x.name], (1, x.channels, *size), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4
        )

    def pooled(self, x: Value) -> Value:
        """Mean over the pixels, `[1, C]`."""
        mean = self.node("GlobalAveragePool", [x.name], (1, x.channels, 1, 1))
        return self.node("Flatten", [mean.name], (1, x.channels))

    def add(self, a: Value, b: Value) -> Value:
        """Sum of two tensors of one shape."""
        assert a.shape == b.shape, (a, b)
        return self.node("Add", [a.name, b.name], a.shape)

    def concat(self, *parts: Value) -> Value:
        """Images side by side in their channels."""
        assert len({p.shape[2:] for p in parts}) == 1, parts
        channels = sum(p.channels for p in parts)
        return self.node("Concat", [p.name for p in parts], (1, channels, *parts[0].shape[2:]), axis=1)

    # ------------------------------------------------------------ any tensors

    def transpose(self, x: Value, *order: int) -> Value:
        """Axes in another order."""
        return self.node("Transpose", [x.name], [x.shape[a] for a in order], perm=list(order))

    def reshape(self, x: Value, *shape: int) -> Value:
        """The same elements in another shape."""
        return self.node("Reshape", [x.name, self.integers(*shape)], shape)

    def layer_norm(self, x: Value) -> Value:
        """Layer normalisation over the last axis."""
        width = x.shape[-1]
        return self.node("LayerNormalization", [x.name, self.weight(width), self.weight(width)], x.shape, axis=-1)

    def linear(self, x: Value, width: int) -> Value:
        """Linear layer on the last axis, with a bias."""
        product = self.node("MatMul", [x.name, self.weight(x.shape[-1], width)], (*x.shape[:-1], width))
        return self.node("Add", [product.name, self.weight(width)], product.shape)

    def gelu(self, x: Value) -> Value:
        """Gaussian error linear unit."""
        return self.node("Gelu", [x.name], x.shape)

    def classes(self, x: Value, number: int = 1000) -> Value:
        """The last linear layer, of `[1, C]`."""
        return self.node("Gemm", [x.name, self.weight(x.shape[1], number), self.weight(number)], (1, number))

    def model(self, out: Value) -> onnx.ModelProto:
        """The graph as a checked model."""
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info(self.input.name, TensorProto.FLOAT, self.input.shape)],
            [helper.make_tensor_value_info(out.name, TensorProto.FLOAT, out.shape)],
            list(self.constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        onnx.checker.check_model(model)
        return model


# ---------------------------------------------------------------- the networks


def vit_b16(graph: Graph) -> Value:
    """ViT-B/16: patches of 16 pixels, 12 blocks of width 768, 12 heads (Dosovitskiy et al., 2021, Table 1)."""
    width, heads = 768, 12
    patches = graph.conv(graph.input, width, 16, 16, bias=True, same=False)
    number = patches.shape[2] * patches.shape[3]
    x = graph.transpose(graph.reshape(patches, 1, width, number), 0, 2, 1)
    number += 1
    x = graph.node("Concat", [graph.weight(1, 1, width), x.name], (1, number, width), axis=1)
    x = graph.node("Add", [x.name, graph.weight(1, number, width)], x.shape)
    for _ in range(12):
        x = graph.add(x, _attention(graph, graph.layer_norm(x), heads))
        x = graph.add(x, graph.linear(graph.gelu(graph.linear(graph.layer_norm(x), 4 * width)), width))
    x = graph.layer_norm(x)
    first = graph.node("Gather", [x.name, graph.integers(0)], (1, 1, width), axis=1)
    return graph.classes(graph.reshape(first, 1, width))


def _attention(graph: Graph, x: Value, heads: int) -> Value:
    """Self-attention of `[1, T, C]`: queries, keys and values come from one linear layer."""
    _, tokens, width = x.shape
    size = width // heads
    parts = graph.reshape(graph.linear(x, 3 * width), 1, tokens, 3, heads, size)
    parts = graph.transpose(parts, 2, 0, 3, 1, 4)
    query, key, value = (
        graph.reshape(
            graph.node("Gather", [parts.name, graph.integers(i)], (1, *parts.shape[1:]), axis=0), 1, heads, tokens, size
        )
        for i in range(3)
    )
    turned = graph.transpose(key, 0, 1, 3, 2)
    scores = graph.node("MatMul", [query.name, turned.name], (1, heads, tokens, tokens))
    shares = graph.node("Softmax", [scores.name], scores.shape, axis=-1)
    mixed = graph.node("MatMul", [shares.name, value.name], (1, heads, tokens, size))
    return graph.linear(graph.reshape(graph.transpose(mixed, 0, 2, 1, 3), 1, tokens, width), width)


def _convnext(graph: Graph, depths: Sequence[int], widths: Sequence[int]) -> Value:
    """ConvNeXt (Liu et al., 2022, Section 3): blocks of a 7 x 7 depthwise convolution and two linear layers."""

    def normed(x: Value) -> Value:
        return graph.transpose(graph.layer_norm(graph.transpose(x, 0, 2, 3, 1)), 0, 3, 1, 2)

    x = normed(graph.conv(graph.input, widths[0], 4, 4, bias=True, same=False))
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            x = graph.conv(normed(x), width, 2, 2, bias=True, same=False)
        for _ in range(depth):
            y = graph.transpose(graph.conv(x, width, 7, groups=width, bias=True), 0, 2, 3, 1)
            y = graph.linear(graph.gelu(graph.linear(graph.layer_norm(y), 4 * width)), width)
            y = graph.node("Mul", [y.name, graph.weight(width)], y.shape)
            x = graph.add(x, graph.transpose(y, 0, 3, 1, 2))
    return graph.classes(graph.layer_norm(graph.pooled(x)))


def convnext_tiny(graph: Graph) -> Value:
    """ConvNeXt-T."""
    return _convnext(graph, (3, 3, 9, 3), (96, 192, 384, 768))


def convnext_base(graph: Graph) -> Value:
    """ConvNeXt-B, which the paper's Table 3 names."""
    return _convnext(graph, (3, 3, 27, 3), (128, 256, 512, 1024))


_V2_S = (  # fused, expansion, stride, channels, blocks (Tan and Le, 2021, Table 4)
    (True, 1, 1, 24, 2),
    (True, 4, 2, 48, 4),
    (True, 4, 2, 64, 4),
    (False, 4, 2, 128, 6),
    (False, 6, 1, 160, 9),
    (False, 6, 2, 256, 15),
)


def efficientnet_v2_s(graph: Graph) -> Value:
    """EfficientNetV2-S: fused and plain inverted residuals, squeeze and excitation in the plain ones."""

    def unit(x: Value, channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Value:
        return graph.silu(graph.norm(graph.conv(x, channels, kernel, stride, groups)))

    x = unit(graph.input, 24, 3, 2)
    for fused, expansion, first, channels, blocks in _V2_S:
        for block in range(blocks):
            stride, wide = first if block == 0 else 1, expansion * x.channels
            if fused and expansion == 1:
                y = unit(x, channels, 3, stride)
            elif fused:
                y = graph.norm(graph.conv(unit(x, wide, 3, stride), channels, 1))
            else:
                y = unit(unit(x, wide, 1), wide, 3, stride, groups=wide)
                y = graph.norm(graph.conv(_excited(graph, y, x.channels // 4), channels, 1))
            x = graph.add(x, y) if y.shape == x.shape else y
    return graph.classes(graph.pooled(unit(x, 1280, 1)))


def _excited(graph: Graph, x: Value, squeezed: int) -> Value:
    """Squeeze and excitation: every channel times a factor computed from the means of all channels."""
    mean = graph.node("GlobalAveragePool", [x.name], (1, x.channels, 1, 1))
    share = graph.conv(graph.silu(graph.conv(mean, squeezed, 1, bias=True)), x.channels, 1, bias=True)
    return graph.node("Mul", [x.name, graph.node("Sigmoid", [share.name], share.shape).name], x.shape)


def nasnet_mobile(graph: Graph) -> Value:
    """NASNet-A (4 @ 1056): cells of Zoph et al. (2018, Figure 4), each fed by the two outputs before it."""
    filters, cells = 1056 // 24, 4
    x = graph.norm(graph.conv(graph.input, 32, 3, 2, same=False))
    x, p = _reduction_cell(graph, x, x, filters // 4)
    x, p = _reduction_cell(graph, x, p, filters // 2)
    for stage in range(3):
        if stage:
            x, p = _reduction_cell(graph, x, p, filters << stage)
        for _ in range(cells):
            x, p = _normal_cell(graph, x, p, filters << stage)
    return graph.classes(graph.pooled(graph.relu(x)))


def _separable(graph: Graph, x: Value, filters: int, kernel: int, stride: int = 1) -> Value:
    """Rectifier, depthwise and pointwise convolution, twice; only the first has the stride."""
    for step in (stride, 1):
        x = graph.conv(graph.relu(x), x.channels, kernel, step, groups=x.channels)
        x = graph.norm(graph.conv(x, filters, 1))
    return x


def _squeezed(graph: Graph, x: Value, filters: int) -> Value:
    """A pointwise convolution in front of a cell."""
    return graph.norm(graph.conv(graph.relu(x), filters, 1))


def _adjusted(graph: Graph, p: Value, x: Value, filters: int) -> Value:
    """The second-last output in the size of the last one, with `filters` channels.

    A larger one is sampled twice at every second pixel; in the network the second sample is shifted by one pixel, but
    as this changes no product, both samples are the same here. In front of the first cell it is the last output itself.
    """
    if p.name == x.name:
        return p
    if p.shape[2:] != x.shape[2:]:
        small = graph.pool("AveragePool", graph.relu(p), 1, 2)
        return graph.norm(graph.concat(*(graph.conv(small, filters // 2, 1) for _ in range(2))))
    return p if p.channels == filters else _squeezed(graph, p, filters)


def _normal_cell(graph: Graph, x: Value, p: Value, filters: int) -> tuple[Value, Value]:
    """A cell that keeps the size; returns its output and its input."""
    p, h = _adjusted(graph, p, x, filters), _squeezed(graph, x, filters)
    mean = graph.pool("AveragePool", p, 3, 1)
    parts = (
        graph.add(_separable(graph, h, filters, 5), _separable(graph, p, filters, 3)),
        graph.add(_separable(graph, p, filters, 5), _separable(graph, p, filters, 3)),
        graph.add(graph.pool("AveragePool", h, 3, 1), p),
        graph.add(mean, mean),
        graph.add(_separable(graph, h, filters, 3), h),
    )
    return graph.concat(p, *parts), x


def _reduction_cell(graph: Graph, x: Value, p: Value, filters: int) -> tuple[Value, Value]:
    """A cell that halves the size; returns its output and its input."""
    p, h = _adjusted(graph, p, x, filters), _squeezed(graph, x, filters)
    most = graph.pool("MaxPool", h, 3, 2)
    first = graph.add(_separable(graph, h, filters, 5, 2), _separable(graph, p, filters, 7, 2))
    second = graph.add(most, _separable(graph, p, filters, 7, 2))
    third = graph.add(graph.pool("AveragePool", h, 3, 2), _separable(graph, p, filters, 5, 2))
    fourth = graph.add(second, graph.pool("AveragePool", first, 3, 1))
    fifth = graph.add(_separable(graph, first, filters, 3), most)
    return graph.concat(second, third, fourth, fifth), x


NETWORKS: dict[str, tuple[Callable[[Graph], Value], int]] = {
    "vit_b16": (vit_b16, 224),
    "convnext_tiny": (convnext_tiny, 224),
    "convnext_base": (convnext_base, 224),
    "efficientnet_v2_s": (efficientnet_v2_s, 384),
    "nasnet_mobile": (nasnet_mobile, 224),
}
"""Builder and pixels per side of the image, by name."""


def built(name: str) -> tuple[onnx.ModelProto, int]:
    """The model of a network, and the number of its trainable parameters."""
    network, pixels = NETWORKS[name]
    graph = Graph(name, 1, 3, pixels, pixels)
    return graph.model(network(graph)), graph.parameters


def written(name: str, folder: pathlib.Path) -> pathlib.Path:
    """The file of a network in a folder, written unless it is there."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(built(name)[0], part)
        part.replace(path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path.cwd())
    arguments = parser.parse_args()
    for name in arguments.networks:
        if name not in NETWORKS:
            parser.error(f"unknown network {name!r}; known are {', '.join(NETWORKS)}")
        print(written(name, arguments.out))


if __name__ == "__main__":
    main()
