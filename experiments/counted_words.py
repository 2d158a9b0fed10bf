"""Words that conventions count too often or not at all: halos outside an image, and outputs of transposed convolutions.

The loop-nest model knows no zero padding: a convolution reads the zeros around its input as data. It counts one output
per input position of a transposed convolution, which writes as many as the product of its strides. For every packaged
network: input words of all layers, counted and existing, with the largest ratio of a layer; and the output words of its
transposed convolutions. Existing words are those of the tensors, which `onnx.shape_inference` finds.

    python experiments/counted_words.py --out experiments/results/counted_words.md
"""

import argparse
import math
import pathlib

import onnx
from report import Report, header

import mohamjax as mj
from mohamjax.workload import Layer

DATA = pathlib.Path(mj.__file__).parent / "workload" / "data"


def shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    """Sizes of all tensors whose sizes are known, by name."""
    known = (*graph.input, *graph.value_info, *graph.output)
    sizes = {value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim) for value in known}
    return {name: size for name, size in sizes.items() if all(size)}


def attribute(node: onnx.NodeProto, name: str, default: list[int]) -> list[int]:
    found = next((one for one in node.attribute if one.name == name), None)
    return default if found is None else list(found.ints)


def existing_share(layer: Layer, node: onnx.NodeProto, size: tuple[int, ...]) -> float:
    """Which share of the input words that are counted for a convolution is inside its input."""
    share = 1.0
    axes = list(zip(size[2:], layer.shape.input_extent, strict=True))
    pads = attribute(node, "pads", [])
    for axis, (words, extent) in enumerate(axes):
        before = pads[axis] if pads else max(0, extent - words) // 2  # SAME_UPPER has the odd one behind
        share *= min(words, extent - before) / extent
    return share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="write the table as Markdown")
    arguments = parser.parse_args()
    report = Report()
    report.say("# Words that are counted too often or not at all", "", f"{header()}.", "")
    report.say((__doc__ or "").split("\n\n")[1].strip(), "")
    report.head(
        "network", "inputs counted", "existing", "ratio", "largest ratio of a layer", "outputs of transposed ones",
        "existing", "missing, of all outputs counted",
    )  # fmt: skip
    for file in sorted(DATA.glob("*.onnx")):
        (network,) = mj.load_onnx(str(file)).networks
        graph = onnx.shape_inference.infer_shapes(onnx.load(str(file), load_external_data=False)).graph
        nodes, sizes = {node.name: node for node in graph.node}, shapes(graph)
        counted = existing = outputs = transposed = written = 0.0
        most = 1.0
        for layer in network.layers:
            _, words, out = layer.shape.tensor_words
            node = nodes.get(layer.name)
            counted, outputs = counted + words, outputs + out
            share = 1.0
            if layer.op == "Conv":
                assert node is not None, f"{file.name}: no node {layer.name}"
                if len(sizes[node.input[0]]) == 4:
                    share = existing_share(layer, node, sizes[node.input[0]])
            elif layer.op == "ConvTranspose":
                assert node is not None, f"{file.name}: no node {layer.name}"
                transposed, written = transposed + out, written + math.prod(sizes[node.output[0]])
            existing += words * share
            most = max(most, 1 / share)
        missing = f"{(written - transposed) / outputs:.1%}" if transposed else ""
        own = [f"{value / 1e6:.2f} million" if value else "" for value in (transposed, written)]
        ratio = f"{counted / existing:.2f}"
        both = f"{counted / 1e6:.2f} million", f"{existing / 1e6:.2f} million"
        report.row(file.stem, *both, ratio, f"{most:.1f}", *own, missing)
    report.write(arguments.out)


if __name__ == "__main__":
    main()
