"""Two small networks and a small search over them, shared by several files so that programs are compiled once."""

import csv
import json

import numpy as np
import onnx
from onnx import TensorProto, helper

from mohamjax.cli import main
from mohamjax.emo import loop
from mohamjax.io import checkpoint as checkpoints

SIZES = ["--population", "32", "--generations", "12"]


def small_network(path, width):
    """Convolution, depthwise convolution, a branch, and a fully connected layer."""

    def weight(name, *dims):
        return helper.make_tensor(name, TensorProto.FLOAT, dims, np.full(dims, 0.1, np.float32).ravel())

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "stem", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w2"], ["b"], "depth", kernel_shape=[3, 3], group=width),
        helper.make_node("Conv", ["a", "w3"], ["c"], "side", kernel_shape=[3, 3]),
        helper.make_node("Add", ["b", "c"], ["d"], "join"),
        helper.make_node("Relu", ["d"], ["e"], "relu"),
        helper.make_node("GlobalAveragePool", ["e"], ["f"], "pool"),
        helper.make_node("Flatten", ["f"], ["g"], "flat"),
        helper.make_node("Gemm", ["g", "w4"], ["y"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [weight("w1", width, 4, 3, 3), weight("w2", width, 1, 3, 3), weight("w3", width, width, 3, 3),
         weight("w4", width, 10)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def search(networks, out, *more):
    return main(["search", *networks, "--budget", "tiny", "--out", str(out), *SIZES, *more])


def compiled_generations():
    """Number of programs of generations that this process has."""
    return sum(f._cache_size() for f in (loop.generations, loop.light_generations, loop.lightest_generations))


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def objectives(rows):
    return np.asarray([[float(r[k]) for k in ("latency_s", "energy_J", "area_mm2")] for r in rows])


def rewritten(path, change):
    """Changes the checkpoint as somebody would who knows how to compute the digest."""
    saved = checkpoints.read_checkpoint(path)
    arrays, meta = {name: np.array(leaf) for name, leaf in saved.arrays.items()}, dict(saved.meta)
    change(arrays, meta)
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    arrays["digest"] = checkpoints._digest(arrays)
    np.savez(path, **arrays)
