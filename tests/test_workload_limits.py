"""Files that demand more work or memory than any real model: one clear line each, in seconds and bounded memory.

Every case here took minutes, gigabytes or for ever before it was bounded.
"""

import gc
import os
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
from onnx import TensorProto, helper
from workload_models import BOOL, INT64, brief, const, info, model, node, save, weight

from mohamjax.errors import InputError
from mohamjax.workload import load_scenario, read_network

SECONDS = 60  # some on a usual machine; hours where work is not bounded
MEGABYTES = 600


@pytest.fixture(scope="module", autouse=True)
def what_other_tests_left():
    """Keeps objects of other tests out of the garbage collections of `outcome`."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def resident():
    """Peak memory of this process since the last call [MB]; 0 where the system does not report it."""
    try:
        with open("/proc/self/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except (OSError, StopIteration):
        return 0
    return peak / 1024


def outcome(path, **keywords):
    """The network or the error, obtained within seconds and without much memory."""
    gc.collect()
    resident()
    before, start = resident(), time.process_time()  # CPU time, as other processes may share the machine
    try:
        result = read_network(path, warn=lambda line: None, **keywords)
    except InputError as error:
        result = error.with_traceback(None)
    assert time.process_time() - start < SECONDS
    assert resident() - before < MEGABYTES
    if isinstance(result, InputError):
        assert "\n" not in str(result) and len(str(result)) < 2000
        assert str(result).startswith(str(path)) and result.remedy
    return result


def refused(path, *words, **keywords):
    error = outcome(path, **keywords)
    assert isinstance(error, InputError), error
    for word in words:
        assert word in str(error), str(error)


X, W = info("x", (2, 4)), weight("w", (4, 5))
PRODUCT = node("MatMul", "x w", "y", "product")


def aside(nodes, weights=(), inputs=(), **keywords):
    """A valid product beside the nodes under attack, on which nothing depends."""
    return model([*nodes, PRODUCT], [X, *inputs], ["y"], [W, *weights], **keywords)


def graph_of(nodes, inputs, outputs, weights=()):
    return helper.make_graph(list(nodes), "b", list(inputs), [info(o, None) for o in outputs], list(weights))


def loop_body(nodes, carried="v", out=None, go="go_in"):
    inputs = [info("i", (), INT64), info("go_in", (), BOOL), *(info(c, None) for c in carried.split())]
    nodes = [node("Identity", go, "go"), *nodes]
    return graph_of(nodes, inputs, ["go", *(out or carried).split()])


# ------------------------------------------------------------------------------------------- values that NumPy loops on


def gathered(index, dtype=None, op="Gather"):
    weights = [const("v", np.arange(4)), const("k", np.asarray(index, dtype))]
    return aside([node(op, "v k", "g", "take")], weights)


@pytest.mark.parametrize("index", [np.nan, np.inf, -np.inf, [np.nan, 0.0], 1e300, -(2**63), 2**63 - 1, -5, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_gather_by_any_index(tmp_path, index, dtype):
    if dtype is np.int64 and isinstance(index, (float, list)):
        index = -(2**63)
    with np.errstate(all="ignore"):
        proto = gathered(index, dtype)
    refused(save(tmp_path, proto), "'take' (Gather)", "outside its axis of size 4")


def test_gather_by_a_nan_that_is_computed(tmp_path):
    weights = [const("v", np.arange(4)), const("z", np.float32(0))]
    nodes = [node("Div", "z z", "nan"), node("Gather", "v nan", "g"), node("Cast", "nan", "c", to=INT64)]
    refused(save(tmp_path, aside([*nodes, node("Gather", "v c", "h")], weights)), "outside its axis")


def test_gather_still_counts_from_the_end(tmp_path):
    nodes = [node("Gather", "v k", "s"), node("Reshape", "x s", "r"), node("MatMul", "r w", "y")]
    weights = [const("v", np.array([9, 3, 4])), const("k", np.array([-2, 2])), W]
    network = read_network(save(tmp_path, model(nodes, [info("x", (12,))], ["y"], weights)))
    assert brief(network) == [("fc", {"N": 3, "K": 5, "C": 4})]


def test_intermediate_results_are_small_too(tmp_path):
    """Tiling 2^31 times along one axis and 0 times along the other gives nothing, but used to take gigabytes."""
    weights = [const("v", np.ones((1, 1), np.int64)), const("r", np.array([2**31, 0]))]
    outcome(save(tmp_path, aside([node("Tile", "v r", "t")], weights)))
    weights = [const("v", np.arange(100_000)), const("k", np.int64(0))]
    refused(save(tmp_path, aside([node("Trilu", "v k", "t")], weights, opset=18)), "no triangle")
    weights = [const("v", np.ones(100_000, np.int64)), const("s", np.array([0, 2**40, 2**40]))]
    outcome(save(tmp_path, aside([node("ConstantOfShape", "s", "t"), node("Expand", "t s", "u")], weights)))


VALUES = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0, -1, 2**63 - 1, -(2**63)]
FED = {
    "Range": 3, "OneHot": 3, "TopK": 2, "Slice": 5, "Tile": 2, "Pad": 2, "Expand": 2, "Reshape": 2, "Trilu": 2,
    "CumSum": 2, "Resize": 4, "Split": 2, "Gather": 2, "ConstantOfShape": 1, "HannWindow": 1, "Mod": 2, "Div": 2,
    "SplitToSequence": 2, "Compress": 2, "GatherND": 2, "CenterCropPad": 2, "STFT": 4, "DFT": 3, "Unsqueeze": 2,
    "ReduceSum": 2, "Pow": 2, "Squeeze": 2, "AffineGrid": 2, "Col2Im": 3, "MelWeightMatrix": 5,
}  # fmt: skip


@pytest.mark.parametrize("op", FED)
def test_operators_fed_with_extreme_values(tmp_path, op):
    """Each operand in turn takes each extreme value; the result or one line, never a Python exception."""
    for at in range(FED[op]):
        for value in VALUES:
            for dtype in (np.int64, np.float64):
                if dtype is np.int64 and isinstance(value, float):
                    continue
                operands = [np.arange(1, 5).astype(dtype) if i == 0 else np.ones(1, dtype) for i in range(FED[op])]
                operands[at] = np.full(operands[at].shape, value, dtype)
                names = [f"v{i}" for i in range(FED[op])]
                weights = [const(name, array) for name, array in zip(names, operands, strict=True)]
                extra = {"mode": "wrap"} if op == "Pad" else {}
                nodes = [node(op, names, ["s"], "fed", **extra), node("Shape", "s", "t")]
                path = save(tmp_path, aside(nodes, weights, opset=18))
                try:
                    read_network(path, warn=lambda line: None)
                except InputError as error:
                    assert "\n" not in str(error)


# --------------------------------------------------------------------------------- loops, functions, abandoned trials


def endless(depth, layers=False):
    """Nested loops that seem endless: no count, and a condition that never folds to false."""
    inner = [node("Identity", "v", "u")] if not layers else [node("MatMul", "v w", "u")]
    for i in range(depth):
        body = loop_body(inner, "v", "u")
        inner = [node("Loop", ["", "go_in", "v"], "u", f"level{i}", body=body)]
    top = inner[0]
    del top.input[:]
    top.input.extend(["", "yes", "x"])
    return top


@pytest.mark.parametrize("depth", [3, 5])
def test_loops_in_each_other(tmp_path, depth):
    proto = aside([endless(depth)], [const("yes", np.array(True))])
    result = outcome(save(tmp_path, proto))
    assert isinstance(result, InputError) or len(result.layers) == 1


@pytest.mark.slow
@pytest.mark.parametrize("skip", [True, False])
def test_many_loops(tmp_path, skip):
    loops = []
    for i in range(3000):
        top = endless(1)
        top.output[:] = [f"u{i}"]
        loops.append(top)
    path = save(tmp_path, aside(loops, [const("yes", np.array(True))]))
    result = outcome(path, skip_unknown=skip)
    assert isinstance(result, InputError) or len(result.layers) == 1


def test_a_few_endless_loops_are_passed_over(tmp_path):
    """A trial gets half of the remaining budget, so that a few endless loops do no harm."""
    loops = []
    for i in range(8):
        top = endless(2)
        top.output[:] = [f"u{i}"]
        loops.append(top)
    assert len(read_network(save(tmp_path, aside(loops, [const("yes", np.array(True))]))).layers) == 1


def test_loops_around_nothing(tmp_path):
    """An iteration of an empty body counts as work too."""
    inner = helper.make_graph([], "b", [info("j", (), INT64), info("d", (), BOOL)], [info("d", None), info("j", None)])
    many = const("n", np.int64(10_000))
    body = loop_body([node("Loop", ["n", ""], [f"s{k}"], body=inner) for k in range(8)], "v", "v")
    refused(save(tmp_path, aside([node("Loop", ["n", "", "x"], "u", body=body)], [many])), "operator calls")


@pytest.mark.slow
def test_abandoned_trials_after_many_layers(tmp_path):
    """Dropping a trial costs only its own layers: 16,000 names are not copied for each of 16,000 loops."""
    layers = [node("MatMul", "x w", f"y{i}") for i in range(16_000)]
    loops = [node("Loop", ["", "yes", "x"], f"u{i}", body=loop_body([node("Not", "go_in", "stop")], "v", "v", "stop"))
             for i in range(16_000)]  # fmt: skip
    weights = [W, const("yes", np.array(True))]
    result = outcome(save(tmp_path, model([*layers, *loops], [X], ["y0"], weights)))
    assert len(result.layers) == 16_000


def test_defaults_of_functions_are_decoded_once(tmp_path):
    """A function whose default attributes hold a graph and a long list, called many times."""
    branch = graph_of([node("Relu", "x", f"r{i}") for i in range(1)], [], ["r0"])
    big = helper.make_attribute("table", list(range(50_000)))
    function = helper.make_function(
        "local", "F", ["X"], ["Y"], [node("Relu", "X", "Y")], [helper.make_opsetid("", 17)],
        attribute_protos=[big, helper.make_attribute("part", branch)],
    )  # fmt: skip
    calls = [node("F", "x", f"f{i}", domain="local") for i in range(3000)]
    result = outcome(save(tmp_path, aside(calls, functions=[function], domains=("local",))))
    assert len(result.layers) == 1


@pytest.mark.slow
def test_attributes_that_every_iteration_reads(tmp_path):
    body = loop_body([node("ReduceSum", "v", "u", axes=[0] * 100_000)], "v", "u")
    top = node("Loop", ["n", "", "x"], "u", body=body)
    refused(save(tmp_path, aside([top], [const("n", np.int64(10_000))], opset=11)), "attributes")


def test_long_names_in_many_layers(tmp_path):
    """A branch with a name of a megabyte, which its layers do not repeat thousands of times."""
    inside = graph_of([node("MatMul", "x w", f"z{i}", f"l{i}") for i in range(5000)], [], ["z0"])
    other = graph_of([node("Identity", "x", "z")], [], ["z"])
    top = node("If", "yes", "u", "n" * 1_000_000, then_branch=inside, else_branch=other)
    result = outcome(save(tmp_path, aside([top], [const("yes", np.array(True))])))
    assert len(result.layers) == 5001 and len({layer.name for layer in result.layers}) == 5001


# ---------------------------------------------------------------------------------------------------------- sequences


def split_map(parts):
    body = graph_of([node("SplitToSequence", "big", "out")], [info("e", None)], ["out"])
    nodes = [node("SplitToSequence", "big", "s"), node("SequenceMap", "s", "m", body=body)]
    return aside(nodes, inputs=[info("big", (parts, 2))], opset=18)


def test_members_of_sequences_are_counted(tmp_path):
    refused(save(tmp_path, split_map(10_000)), "members")
    cuts = [node("SplitToSequence", "big", f"s{i}") for i in range(20_000)]
    refused(save(tmp_path, aside(cuts, inputs=[info("big", (10_000, 2))], opset=18)), "members")
    grow = loop_body([node("SequenceInsert", "v x", "u")], "v", "u")
    nodes = [node("SequenceEmpty", [], "e"), *(node("Loop", ["n", "", "e"], f"u{i}", body=grow) for i in range(5))]
    refused(save(tmp_path, aside(nodes, [const("n", np.int64(9000))])), "members")


def test_members_that_are_looked_at_are_counted(tmp_path):
    nodes = [node("SplitToSequence", "big", "s")]
    nodes += [node("SequenceAt", "s k", f"a{i}") for i in range(5000)]
    inputs = [info("big", (10_000, 2)), info("k", (), INT64)]
    refused(save(tmp_path, aside(nodes, inputs=inputs, opset=18)), "operands")


def test_a_sequence_of_thousands_is_no_harm(tmp_path):
    nodes = [node("SplitToSequence", "big", "s"), node("SequenceAt", "s k", "u"), node("Squeeze", "u z", "t")]
    nodes += [node("MatMul", "big t", "y")]
    weights = [const("k", np.int64(3)), const("z", np.array([0]))]
    proto = model(nodes, [info("big", (5000, 2))], ["y"], weights, opset=18)
    assert brief(read_network(save(tmp_path, proto))) == [("bmm", {"N": 5000, "C": 2})]


# --------------------------------------------------------------------------------------------------- axes and sizes


def test_numbers_of_axes(tmp_path):
    many = [1] * 200_000
    refused(save(tmp_path, aside([node("Relu", "q", "u")], inputs=[info("q", many)])), "200,000 axes")
    refused(save(tmp_path, aside([node("Relu", "q", "u")], [weight("q", many)])), "200,000 axes")
    refused(save(tmp_path, aside([], value_info=[info("q", many)])), "200,000 axes")
    ones = const("s", np.ones(131_072, np.int64))
    relus = [node("Relu", "u", f"r{i}") for i in range(3000)]
    one = const("v", np.ones(1, np.int64))
    refused(save(tmp_path, aside([node("Reshape", "v s", "u", "many"), *relus], [one, ones])), "'many'", "131,072 axes")
    refused(save(tmp_path, aside([node("ConstantOfShape", "s", "u", "many"), *relus], [ones])), "131,072 axes")
    refused(save(tmp_path, aside([node("Expand", "v s", "u", "many"), *relus], [one, ones])), "131,072 axes")
    refused(save(tmp_path, aside([node("Unsqueeze", "v s", "u", axes=[*range(1, 90_000)])], [one], opset=11)), "axes")
    refused(save(tmp_path, aside([node("RandomNormal", [], "u", shape=many)])), "200,000 axes")


def test_axes_that_loops_add(tmp_path):
    loops, last = [], "x"
    for i in range(200):
        body = loop_body([node("Identity", last, "part")], "", "part")
        loops.append(node("Loop", ["n", ""], f"u{i}", body=body))
        last = f"u{i}"
    refused(save(tmp_path, aside(loops, [const("n", np.int64(1))])), "33 axes")


def test_sizes_that_multiply(tmp_path):
    tiles = [node("Tile", f"t{i} r", f"t{i + 1}", f"tile{i}") for i in range(400)]
    weights = [const("r", np.array([2**40, 1]))]
    refused(save(tmp_path, aside([node("Identity", "x", "t0"), *tiles], weights)), "'tile1' (Tile)", "beyond 2^63")
    concats = [node("Concat", [f"t{i}"] * 20, f"t{i + 1}", axis=0) for i in range(400)]
    refused(save(tmp_path, aside([node("Identity", "x", "t0"), *concats])), "beyond 2^63")
    flat = [node("Flatten", "q", "f")]
    refused(save(tmp_path, aside(flat, inputs=[info("q", (1, 2**40, 2**40))])), "beyond 2^63")
    refused(save(tmp_path, aside([node("Size", "q", "f")], inputs=[info("q", (2**40, 2**40))])), "elements")


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Tile", "x r", "u", "n")],
        [node("Tile", "x r", "a", "n"), node("Tile", "x r", "b"), node("MatMul", "a b", "u")],
        [node("RandomNormal", [], "u", "n", shape=[-2, -3])],
        [node("OneHot", "i d v", "u", "n")],
        [node("TopK", "x k", "u j", "n")],
        [node("Multinomial", "x", "u", "n", sample_size=-4)],
        [node("Split", "x s", "u v0", "n")],
        [node("CenterCropPad", "x r", "u", "n")],
        [node("HannWindow", "k", "u", "n")],
    ],
    ids=lambda nodes: f"{nodes[0].op_type}{len(nodes)}",
)
def test_negative_sizes(tmp_path, nodes):
    weights = [
        const("r", np.array([-2, 1])), const("d", np.int64(-3)), const("k", np.array([-1])),
        const("s", np.array([-1, 3])), const("i", np.array([0])), const("v", np.zeros(2, np.float32)),
    ]  # fmt: skip
    refused(save(tmp_path, aside(nodes, weights, opset=18)), "'n'", "negative size")


def test_two_negative_batch_axes_make_no_positive_batch(tmp_path):
    nodes = [node("Tile", "a r", "b"), node("MatMul", "b w", "y", "m")]
    weights = [const("r", np.array([-2, -3, 1, 1])), W]
    refused(save(tmp_path, model(nodes, [info("a", (1, 1, 2, 4))], ["y"], weights)), "negative size")


# ------------------------------------------------------------------------------------------------ quadratic walks


def test_a_long_cycle(tmp_path):
    count = 60_000
    ring = [node("Relu", f"r{(i - 1) % count}", f"r{i}") for i in range(count)]
    refused(save(tmp_path, aside(ring)), "cycle of 60000 nodes")


def residual(layers):
    nodes = []
    for i in range(layers):
        nodes += [node("MatMul", f"h{i} w", f"f{i}"), node("Add", f"h{i} f{i}", f"h{i + 1}")]
    return model(nodes, [info("h0", (2, 4))], [f"h{layers}"], [weight("w", (4, 4))])


@pytest.mark.slow
def test_predecessors_of_a_residual_chain(tmp_path):
    refused(save(tmp_path, residual(20_000)), "dependencies between its layers")
    network = outcome(save(tmp_path, residual(1500)))
    assert [len(layer.predecessors) for layer in network.layers] == list(range(1500))


@pytest.mark.slow
def test_joining_many_layers(tmp_path):
    nodes = [node("MatMul", "x w", f"f{i}") for i in range(20_000)]
    nodes += [node("Concat", [f"f{i}" for i in range(20_000)], "all", axis=0)]
    nodes += [node("Relu", "all" if i == 0 else f"r{i - 1}", f"r{i}") for i in range(20_000)]
    result = outcome(
        save(tmp_path, model([*nodes, node("MatMul", "r19999 v", "y")], [X], ["y"], [W, weight("v", (5, 2))]))
    )
    assert len(result.layers[-1].predecessors) == 20_000


def test_einsum_of_many_operands(tmp_path):
    count = 20_000
    equation = ",".join(["ij"] * count) + "->i"
    assert len(outcome(save(tmp_path, aside([node("Einsum", ["w"] * count, "u", equation=equation)]))).layers) == 1


# ------------------------------------------------------------------------------------------------------------- files


def sparse(path, size, head=b""):
    with open(path, "wb") as stream:
        stream.write(head)
        stream.truncate(size)
    return path


def field(number, length):
    out = bytearray([number << 3 | 2])
    while length > 127:
        out.append(length & 127 | 128)
        length >>= 7
    return bytes(out) + bytes([length])


def test_devices_pipes_and_holes(tmp_path):
    refused("/dev/zero", "no regular file")
    os.mkfifo(tmp_path / "pipe.onnx")
    refused(tmp_path / "pipe.onnx", "no regular file")
    refused(sparse(tmp_path / "zeros.onnx", 10**9), "zero bytes")
    refused(sparse(tmp_path / "large.onnx", 10**10), "10,000,000,000 bytes")
    refused(sparse(tmp_path / "head.onnx", 10**9, b"\x08\x08"), "no ONNX model")


def test_a_hole_as_weight_stays_on_the_disk(tmp_path):
    """A gigabyte of packed zeros would become eight gigabytes of numbers."""
    for number in (4, 5, 7, 9, 10):
        size = 10**9
        tensor = b"\x08\x04\x08\x05\x10\x07\x42\x01v" + field(number, size)
        start = linear().SerializeToString()
        graph = len(tensor) + size
        inner = field(5, graph) + tensor
        head = start + field(7, len(inner) + size) + inner
        path = sparse(tmp_path / "hole.onnx", len(head) + size, head)
        assert len(read_network(path).layers) == 1


def linear():
    return model([PRODUCT], [X], ["y"], [W])


@pytest.mark.slow
def test_millions_of_empty_messages(tmp_path):
    """Two bytes in the file become a hundred in memory: nodes, attributes, inputs, sizes."""
    millions = 4_500_000
    refused(save(tmp_path, field(7, 2 * millions) + b"\x0a\x00" * millions), "200,000 nodes")
    attributes = b"\x2a\x00" * millions
    one = field(1, len(attributes)) + attributes
    refused(save(tmp_path, field(7, len(one)) + one), "fields")
    names = b"\x0a\x00" * millions
    one = field(1, len(names)) + names
    refused(save(tmp_path, field(7, len(one)) + one), "fields")
    infos = b"\x5a\x00" * millions
    refused(save(tmp_path, field(7, len(infos)) + infos), "fields")
    dims = b"\x0a\x00" * millions
    shape = field(2, len(dims)) + dims
    for number in (1, 2, 11):
        shape = field(number, len(shape)) + shape
    shape += field(1, 0)  # a node
    refused(save(tmp_path, field(7, len(shape)) + shape + b"\x42\x02\x10\x11"), "4,500,000 axes")
    numbers = bytes(30_000_000)
    for count in (8, 5, 1, 7):
        numbers = field(count, len(numbers)) + numbers
    refused(save(tmp_path, numbers), "fields")


def test_many_constants_in_another_file(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(1 << 20))
    weights = []
    for i in range(3000):
        tensor = weight(f"v{i}", (1 << 17,), INT64)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        weights.append(tensor)
    assert len(outcome(save(tmp_path, aside([], weights))).layers) == 1


def test_external_data_deep_in_folders(tmp_path):
    tensor = weight("v", (2,), INT64)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="a/../" * 200_000 + "w.bin")
    refused(save(tmp_path, aside([], [tensor])), "folders deep")


def test_documentation_does_not_matter(tmp_path):
    proto = linear()
    proto.doc_string = proto.graph.doc_string = proto.graph.node[0].doc_string = "so " * 100_000
    proto.graph.initializer[0].doc_string = "and so on"
    proto.metadata_props.add(key="k", value="v")
    proto.training_info.add().initialization.CopyFrom(proto.graph)
    assert brief(read_network(save(tmp_path, proto))) == brief(read_network(save(tmp_path, linear())))


def test_files_written_in_other_ways(tmp_path):
    """Fields in another order, the graph in two parts, a tensor's type after its values: all merged as in protobuf."""
    whole = model(
        [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")], [info("x", (2, 6))], ["y"], [W]
    ).SerializeToString()
    values = struct.pack("<2q", 3, 4)
    tensor = field(9, 16) + values + b"\x08\x02" + b"\x42\x01s" + b"\x10\x07"
    graph = field(5, len(tensor)) + tensor
    path = save(tmp_path, field(7, len(graph)) + graph + whole)
    assert brief(read_network(path)) == [("fc", {"N": 3, "K": 5, "C": 4})]


def test_scenarios_of_any_size(tmp_path):
    save(tmp_path, linear())
    path = tmp_path / "s.yaml"
    path.write_text("networks:\n" + "- {file: m.onnx, copies: 1000}\n" * 3)
    with pytest.raises(InputError, match="3,000 networks"):
        load_scenario(path)
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in (tmp_path / "pipe.yaml", "/dev/zero"):
        with pytest.raises(InputError, match="no regular file"):
            load_scenario([name] if name != "/dev/zero" else "/dev/zero")
    with pytest.raises(InputError, match="bytes"):
        load_scenario(sparse(tmp_path / "large.yaml", 10**9))


def test_the_command_says_so_with_exit_code_2(tmp_path):
    path = save(tmp_path, gathered(np.nan, np.float32))
    command = [sys.executable, "-m", "mohamjax", "workload", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
