"""Layers and networks of MEDEA's exhibits: packaged networks, and two that are written down here as shapes.

VGG16 and DenseNet201 are not packaged; their layers follow from their papers' tables (Simonyan and Zisserman, 2015;
Huang et al., 2017), for one image of 224 x 224.
"""

from __future__ import annotations

import dataclasses
import functools

from mohamjax.workload import ApplicationModel, Layer, Network, UniqueLayer, WorkloadShape
from mohamjax.workload.scenario import packaged_networks

UNTUNED = (
    "deeplabv3plus_mobilenetv2", "dlrm_mlperf", "googlenet", "mobilebert_384", "mobilenet_v3_large",
    "ssd_mobilenet_v1_300", "ssd_resnet34_1200", "unet_572", "yolov3_416", "vgg16",
)  # fmt: skip
"""Ten networks on whose layers none of the mapper's rates was chosen; ResNet50 and BERT served for that."""


def _model(name: str, shapes: list[tuple[str, str, WorkloadShape]]) -> ApplicationModel:
    layers = tuple(
        Layer(own, kind, "Gemm" if kind == "fc" else "Conv", shape, predecessors=(i - 1,) if i else ())
        for i, (own, kind, shape) in enumerate(shapes)
    )
    return ApplicationModel(name, (Network(name, layers),))


def _vgg16() -> ApplicationModel:
    shapes, channels, size = [], 3, 224
    for block, (convolutions, out) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for i in range(convolutions):
            shape = WorkloadShape(K=out, C=channels, P=size, Q=size, R=3, S=3)
            shapes.append((f"conv{block}_{i + 1}", "conv", shape))
            channels = out
        size //= 2
    for i, (out, into) in enumerate(((4096, 25088), (4096, 4096), (1000, 4096)), 6):
        shapes.append((f"fc{i}", "fc", WorkloadShape(K=out, C=into)))
    return _model("vgg16", shapes)


def _densenet201() -> ApplicationModel:
    growth, channels, size = 32, 64, 56
    shapes = [("stem", "conv", WorkloadShape(K=64, C=3, P=112, Q=112, R=7, S=7, stride=(2, 2)))]
    for block, layers in enumerate((6, 12, 48, 32), 1):
        for i in range(layers):
            narrow = WorkloadShape(K=4 * growth, C=channels, P=size, Q=size)
            wide = WorkloadShape(K=growth, C=4 * growth, P=size, Q=size, R=3, S=3)
            shapes += [(f"block{block}_{i}_1x1", "conv", narrow), (f"block{block}_{i}_3x3", "conv", wide)]
            channels += growth
        if block < 4:
            shapes.append((f"transition{block}", "conv", WorkloadShape(K=channels // 2, C=channels, P=size, Q=size)))
            channels, size = channels // 2, size // 2
    shapes.append(("classifier", "fc", WorkloadShape(K=1000, C=channels)))
    return _model("densenet201", shapes)


_WRITTEN = {"vgg16": _vgg16, "densenet201": _densenet201}


def network(name: str) -> ApplicationModel:
    """A network by name: one of those written down here, or a packaged one."""
    if name in _WRITTEN:
        return _WRITTEN[name]()
    own = next(network for network in _packaged().networks if network.name == name)
    return ApplicationModel(name, (own,))


@functools.cache
def _packaged() -> ApplicationModel:
    return packaged_networks()


@dataclasses.dataclass(frozen=True)
class NamedLayer:
    """A layer of a network.

    Attributes:
        name: names of network and layer.
        layer: the layer.
    """

    name: str
    layer: UniqueLayer


def chosen_layers(name: str, count: int) -> list[NamedLayer]:
    """Unique layers of a network ranked by MACs: the one with most, and others evenly down the ranks to the median.

    Args:
        name: of the network.
        count: how many.
    """
    application = network(name)
    first = {u: application.layers[i].name for i, u in reversed([*enumerate(application.unique_of_layer)])}
    ranked = sorted(range(len(application.unique_layers)), key=lambda u: -application.unique_layers[u].shape.macs)
    picks = sorted({round(i * (len(ranked) // 2) / max(count - 1, 1)) for i in range(count)})
    return [NamedLayer(f"{name} {first[ranked[k]]}", application.unique_layers[ranked[k]]) for k in picks]
