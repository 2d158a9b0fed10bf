"""Files that are broken, hostile or merely odd: one clear line each, quickly, for any bytes."""

import gzip
import os
import time
import tracemalloc

import numpy as np
import onnx
import pytest
from conftest import workloads
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from workload_models import BOOL, FLOAT, INT8, INT64, brief, const, info, model, node, save, weight

from mohamjax.errors import InputError
from mohamjax.workload import Network, read_network


def linear(**keywords):
    """A valid little model: y = x w."""
    return model([node("MatMul", "x w", "y", "fc")], [info("x", (2, 4))], ["y"], [weight("w", (4, 5))], **keywords)


def refused(path, *words, **keywords):
    """The importer refuses the file with one line that holds the words, within seconds."""
    start = time.process_time()
    with pytest.raises(InputError) as caught:
        read_network(path, warn=lambda line: None, **keywords)
    text = str(caught.value)
    assert time.process_time() - start < 60  # seconds on slow machines, hours if sizes were not bounded
    assert text.startswith(str(path)), text
    assert "\n" not in text
    assert caught.value.remedy, text
    for word in words:
        assert word in text, text
    return text


def too_deep():
    """Graphs in attributes in nodes, nested far deeper than protobuf parses."""

    def field(number, content):
        size, length = len(content), b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    graph = b""
    for _ in range(300):
        graph = field(1, field(5, field(6, graph)))
    return field(7, graph)


BYTES = {
    "too_deep": (too_deep(), "do not parse"),
    "zero_bytes": (b"", "0 bytes"),
    "one_byte": (b"\x08", "do not parse"),
    "html_page": (b"<!DOCTYPE html>\n<html><body>404</body></html>", "HTML"),
    "html_lower_case": (b"\n  <html lang='en'></html>", "HTML"),
    "xml_error_of_a_bucket": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", "XML"),
    "git_lfs_pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n", "git lfs pull"),
    "json": (b'{"ir_version": 8}', "JSON"),
    "plain_text": (b"Not Found: the model has moved\n", "no ONNX model"),
    "zip": (b"PK\x03\x04" + bytes(40), "zip"),
    "gzip": (gzip.compress(linear().SerializeToString()), "compressed"),
    "pickle": (b"\x80\x02}q\x00.", "pickle"),
    "only_zeros": (bytes(5000), "zero bytes"),
    "ort_format": (b"\x18\0\0\0ORTM" + bytes(60), "ORT"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(60), "TFLite"),
    "random": (bytes(np.random.default_rng(0).integers(0, 256, 4096, np.uint8)), "ONNX"),
    "a_bare_tensor": (const("w", np.zeros((4, 5), np.float32)).SerializeToString(), "ONNX"),
    "metadata_only": (onnx.ModelProto(ir_version=8, producer_name="p").SerializeToString(), "no graph"),
}


@pytest.mark.parametrize("kind", BYTES)
def test_files_that_are_no_model(tmp_path, kind):
    content, word = BYTES[kind]
    refused(save(tmp_path, content), word)


def test_paths_that_are_no_file(tmp_path):
    refused(tmp_path / "absent.onnx", "no such file")
    refused(tmp_path, "folder")
    refused(tmp_path / ("x" * 300 + ".onnx"), "cannot be read")
    refused(str(tmp_path) + "/a\0b.onnx", "cannot be read")
    os.mkfifo(tmp_path / "pipe.onnx")
    refused(tmp_path / "pipe.onnx", "no regular file")
    loop = tmp_path / "loop.onnx"
    loop.symlink_to(loop)
    refused(loop, "cannot be read")


def test_every_truncation_is_refused(tmp_path):
    whole = linear().SerializeToString()
    for length in range(len(whole)):
        refused(save(tmp_path, whole[:length]))


def without(proto, field):
    proto.ClearField(field)
    return proto


def edited(edit):
    proto = linear()
    edit(proto)
    return proto


def conv(x, w, **attributes):
    return model([node("Conv", "x w", "y", "c", **attributes)], [info("x", x)], ["y"], [weight("w", w)])


def products(nodes, inputs, weights=(), **keywords):
    return model(nodes, inputs, ["y"], weights, **keywords)


def recursion():
    call = node("F", "X W", "Y", "again", domain="local")
    function = helper.make_function("local", "F", ["X", "W"], ["Y"], [call], [helper.make_opsetid("local", 1)])
    nodes = [node("F", "x w", "y", "start", domain="local")]
    return products(nodes, [info("x", (2, 4))], [weight("w", (4, 4))], functions=[function], domains=("local",))


def doubling(depth):
    """Each function calls the next twice: 2 ** depth calls."""
    functions = []
    for i in range(depth):
        inner = [
            node(f"F{i + 1}" if i + 1 < depth else "Relu", "X", "T", domain="local" if i + 1 < depth else ""),
            node(f"F{i + 1}" if i + 1 < depth else "Relu", "T", "Y", domain="local" if i + 1 < depth else ""),
        ]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
        functions.append(helper.make_function("local", f"F{i}", ["X"], ["Y"], inner, imports))
    nodes = [node("F0", "x", "t", domain="local"), node("MatMul", "t w", "y")]
    return products(nodes, [info("x", (2, 4))], [weight("w", (4, 4))], functions=functions, domains=("local",))


def split(op, outputs, parts=False, **attributes):
    """An axis of ten million entries is cut into as many parts."""
    nodes = [node(op, "x", outputs, "cut", axis=0, **attributes)]
    nodes += [node("SequenceAt", "s k", "u")] if parts else [node("Identity", "s", "u")]
    weights = [weight("w", (4, 4)), const("k", np.int64(3))]
    return products([*nodes, node("MatMul", "u w", "y")], [info("x", (10**7, 4))], weights, opset=18)


def endless(trips=None):
    go = [info("i", (), INT64), info("c", (), BOOL), info("h", None)]
    body = helper.make_graph(
        [node("Identity", "c", "d"), node("MatMul", "h w", "k")], "b", go, [info("d", None), info("k", None)]
    )
    weights = [weight("w", (4, 4))] + ([] if trips is None else [const("n", np.int64(trips))])
    loop = node("Loop", ["" if trips is None else "n", "", "x"], "y", "forever", body=body)
    return products([loop], [info("x", (4, 4))], weights)


def external(location, **fields):
    proto = linear()
    tensor = proto.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return proto


def external_in_attribute():
    value = weight("v", (4, 5))
    value.data_location = TensorProto.EXTERNAL
    value.external_data.add(key="location", value="/etc/passwd")
    return products([node("Constant", [], "w", value=value), node("MatMul", "x w", "y")], [info("x", (2, 4))])


def nested(depth):
    graph = helper.make_graph([node("MatMul", "x w", "o0")], "g0", [], [info("o0", None)])
    for i in range(depth):
        other = helper.make_graph([node("Identity", "x", f"e{i}")], f"e{i}", [], [info(f"e{i}", None)])
        outer = node("If", "yes", f"o{i + 1}", then_branch=graph, else_branch=other)
        graph = helper.make_graph([outer], f"g{i + 1}", [], [info(f"o{i + 1}", None)])
    return graph


X, W = info("x", (2, 4)), weight("w", (4, 5))
GRAPHS = {
    "no_graph": (lambda: without(linear(), "graph"), "no graph"),
    "no_nodes": (lambda: edited(lambda p: p.graph.ClearField("node")), "empty graph"),
    "no_operator_set": (lambda: without(linear(), "opset_import"), "opset_import"),
    "no_layers": (lambda: products([node("Relu", "x", "y")], [X]), "empty graph"),
    "only_constants": (lambda: products([node("MatMul", "v w", "y")], [X], [W, weight("v", (3, 4))]), "constants"),
    "unknown_operator": (lambda: products([node("Convv", "x w", "y", "n")], [X], [W]), "'Convv' (did you mean Conv?)"),
    "unknown_domain": (
        lambda: products([node("Op", "x", "y", "n", domain="acme")], [X], domains=("acme",)),
        "of domain 'acme'",
    ),
    "blocked_layout": (
        lambda: products([node("Conv", "x w", "y", domain="com.microsoft.nchwc")], [X], [W]),
        "fitted its layout",
    ),
    "no_operator_name": (lambda: products([node("", "x w", "y", "n")], [X], [W]), "unknown operator ''"),
    "undefined_input": (lambda: products([node("MatMul", "x nowhere", "y", "n")], [X]), "'nowhere' is not defined"),
    "undefined_in_branch": (
        lambda: products(
            [node("If", "c", "y", then_branch=nested(0), else_branch=nested(0))], [info("c", (), BOOL), X]
        ),
        "'w' is not defined",
    ),
    "undefined_output": (lambda: model([node("MatMul", "x w", "z")], [X], ["y"], [W]), "'y' is not defined"),
    "undefined_in_function": (
        lambda: products(
            [node("F", "x", "y", domain="local")],
            [X],
            functions=[
                helper.make_function(
                    "local", "F", ["X"], ["Y"], [node("Add", "X V", "Y")], [helper.make_opsetid("", 17)]
                )
            ],
            domains=("local",),
        ),
        "'V' is not defined",
    ),
    "cycle_of_one": (lambda: products([node("Add", "x y", "y", "self")], [X]), "cycle of 1"),
    "cycle_of_three": (
        lambda: products(
            [
                node("Add", "x c", "a", "p"),
                node("Relu", "a", "b", "q"),
                node("Tanh", "b", "c", "r"),
                node("MatMul", "c w", "y"),
            ],
            [X],
            [W],
        ),
        "cycle of 3",
    ),
    "defined_twice_by_nodes": (
        lambda: products([node("Relu", "x", "a"), node("Tanh", "x", "a"), node("MatMul", "a w", "y")], [X], [W]),
        "'a' is defined twice",
    ),
    "defined_twice_by_initialisers": (
        lambda: products([node("MatMul", "x w", "y")], [X], [W, W]),
        "'w' is defined twice",
    ),
    "input_redefined": (
        lambda: products([node("Relu", "x", "x"), node("MatMul", "x w", "y")], [X], [W]),
        "'x' is defined twice",
    ),
    "input_twice": (lambda: products([node("MatMul", "x w", "y")], [X, X], [W]), "'x' is defined twice"),
    "conv_channels": (lambda: conv((1, 3, 8, 8), (4, 5, 3, 3)), "channel mismatch"),
    "conv_groups": (lambda: conv((1, 8, 8, 8), (4, 4, 3, 3), group=3), "channel mismatch"),
    "conv_zero_groups": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), group=0), "channel mismatch"),
    "conv_outputs_by_groups": (lambda: conv((1, 4, 8, 8), (5, 2, 3, 3), group=2), "channel mismatch"),
    "conv_3d": (lambda: conv((1, 3, 8, 8, 8), (4, 3, 3, 3, 3)), "3-D"),
    "conv_ranks": (lambda: conv((1, 3, 8), (4, 3, 3, 3)), "no convolution"),
    "conv_of_a_vector": (lambda: conv((3,), (4,)), "no convolution"),
    "conv_window_too_wide": (lambda: conv((1, 3, 2, 2), (4, 3, 3, 3)), "does not fit"),
    "conv_stride_zero": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), strides=[0, 1]), "must be positive"),
    "conv_negative_dilation": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), dilations=[-1, 1]), "must be positive"),
    "conv_stride_count": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), strides=[1, 1, 1]), "2 spatial axes"),
    "conv_kernel_shape": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), kernel_shape=[5, 5]), "kernel_shape"),
    "conv_stride_is_text": (lambda: conv((1, 3, 8, 8), (4, 3, 3, 3), strides="two"), "'strides'"),
    "conv_no_weight": (
        lambda: products([node("Conv", "x", "y", "c")], [info("x", (1, 3, 8, 8))]),
        "input 1 is missing",
    ),
    "conv_bias": (
        lambda: products(
            [node("Conv", "x w b", "y", "c")], [info("x", (1, 3, 8, 8))], [weight("w", (4, 3, 3, 3)), weight("b", (7,))]
        ),
        "bias",
    ),
    "conv_empty": (lambda: conv((1, 3, 0, 8), (4, 3, 3, 3)), "empty"),
    "conv_empty_channels": (lambda: conv((1, 0, 8, 8), (4, 0, 3, 3)), "empty"),
    "negative_weight_size": (lambda: conv((1, 3, 8, 8), (4, -3, 3, 3)), "negative size"),
    "negative_input_size": (lambda: conv((1, 3, -1, 8), (4, 3, 3, 3)), "`shapes[x]=1,3,d,8`"),
    "negative_sizes": (lambda: conv((-1, 3, -1, -1), (4, 3, 3, 3)), "`shapes[x]=1,3,d,d`"),
    "split_in_many": (lambda: split("Split", "s t", num_outputs=10**7), "2 outputs for 10000000 parts"),
    "split_sequence": (lambda: split("SplitToSequence", "s", parts=True), "the shape of its first operand is unknown"),
    "loop_in_many": (lambda: endless(20_000), "its 20,000 iterations are more than the 10,000 that are unrolled"),
    "tconv_channels": (
        lambda: products(
            [node("ConvTranspose", "x w", "y", "t")], [info("x", (1, 3, 8, 8))], [weight("w", (4, 3, 3, 3))]
        ),
        "channel mismatch",
    ),
    "matmul_depth": (
        lambda: products([node("MatMul", "x w", "y", "m")], [X], [weight("w", (5, 5))]),
        "channel mismatch",
    ),
    "matmul_batch": (
        lambda: products([node("MatMul", "a b", "y", "m")], [info("a", (2, 3, 4)), info("b", (3, 4, 5))]),
        "do not broadcast",
    ),
    "matmul_scalar": (lambda: products([node("MatMul", "x w", "y", "m")], [info("x", ())], [W]), "scalar"),
    "matmul_empty": (
        lambda: products([node("MatMul", "x w", "y", "m")], [info("x", (2, 0, 4))], [W]),
        "nothing to compute",
    ),
    "gemm_depth": (lambda: products([node("Gemm", "x w", "y", "g", transB=1)], [X], [W]), "channel mismatch"),
    "gemm_rank": (lambda: products([node("Gemm", "x w", "y", "g")], [info("x", (1, 2, 4))], [W]), "two matrices"),
    "gemm_bias": (lambda: products([node("Gemm", "x w c", "y", "g")], [X], [W, weight("c", (3,))]), "bias"),
    "lstm_features": (
        lambda: products(
            [node("LSTM", "x w r", "y", "l", hidden_size=6)],
            [info("x", (3, 1, 4))],
            [weight("w", (1, 24, 5)), weight("r", (1, 24, 6))],
        ),
        "channel mismatch",
    ),
    "einsum_malformed": (
        lambda: products([node("Einsum", "x w", "y", "e", equation="ij,j;k->i")], [X], [W]),
        "malformed",
    ),
    "einsum_sizes": (
        lambda: products([node("Einsum", "x w", "y", "e", equation="ij,kj->ik")], [X], [W]),
        "sizes 4 and 5",
    ),
    "add_sizes": (
        lambda: products([node("Add", "x w", "a", "n"), node("MatMul", "a w", "y")], [X], [W]),
        "do not broadcast",
    ),
    "concat_sizes": (lambda: products([node("Concat", "x w", "y", "n", axis=1)], [X], [W]), "differ along axis 0"),
    "reshape_count": (
        lambda: products([node("Reshape", "x s", "y", "n")], [X], [const("s", np.array([3, 3]))]),
        "do not reshape",
    ),
    "reshape_two_holes": (
        lambda: products([node("Reshape", "x s", "y", "n")], [X], [const("s", np.array([-1, -1]))]),
        "is no shape",
    ),
    "transpose_order": (lambda: products([node("Transpose", "x", "y", "n", perm=[0, 0])], [X]), "perm"),
    "axis_outside": (
        lambda: products(
            [node("Softmax", "x", "a"), node("Squeeze", "a s", "y", "n")], [X], [const("s", np.array([7]))]
        ),
        "axis 7",
    ),
    "huge_sizes": (lambda: conv((1, 10**12, 8, 8), (4, 10**12, 3, 3)), "too much"),
    "huge_product": (
        lambda: products(
            [node("MatMul", "a b", "y", "m")], [info("a", (2**30, 2**30, 2**30)), info("b", (2**30, 2**30, 2**30))]
        ),
        "multiply-accumulates",
    ),
    "huge_constant": (
        lambda: products(
            [node("ConstantOfShape", "s", "v"), node("MatMul", "x v", "y", "m")],
            [X],
            [const("s", np.array([4, 2**62]))],
        ),
        "too much",
    ),
    "recursive_function": (recursion, "inside each other"),
    "exploding_functions": (lambda: doubling(40), "operator calls"),
    "endless_loop": (endless, "'forever' (Loop)"),
    "external_outside": (lambda: external("../../secret.bin"), "outside the model's folder"),
    "external_absolute": (lambda: external("/etc/passwd"), "outside the model's folder"),
    "external_windows": (lambda: external("C:\\weights.bin"), "outside the model's folder"),
    "external_backslashes": (lambda: external("..\\weights.bin"), "outside the model's folder"),
    "external_no_location": (lambda: external(""), "location"),
    "external_in_attribute": (external_in_attribute, "outside the model's folder"),
    "deeply_nested": (
        lambda: model([*nested(20).node], [X, info("yes", (), BOOL)], ["o20"], [W]),
        "depends on data",
    ),
    "input_without_shape": (
        lambda: products([node("MatMul", "x w", "y")], [info("x", None)], [W]),
        "argument `shapes[x]`",
    ),
    "symbolic_height": (
        lambda: products([node("Conv", "x w", "y")], [info("x", (1, 3, "H", "W"))], [weight("w", (4, 3, 3, 3))]),
        "`shapes[x]=1,3,d,d`",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", GRAPHS)
def test_graphs_that_cannot_be_read(tmp_path, kind):
    make, word = GRAPHS[kind]
    refused(save(tmp_path, make()), word)


@pytest.mark.parametrize("kind", ["split_in_many", "split_sequence"])
def test_parts_are_counted_before_they_are_made(tmp_path, kind):
    path = save(tmp_path, GRAPHS[kind][0]())
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 10e6  # ten million parts are 80 MB
    finally:
        tracemalloc.stop()


def test_a_link_that_leaves_the_folder_is_refused(tmp_path):
    inside = tmp_path / "model"
    inside.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(80))
    (inside / "w.bin").symlink_to(tmp_path / "weights.bin")
    refused(save(inside, external("w.bin")), "outside the model's folder")


@pytest.mark.parametrize("present", [True, False])
def test_external_data_inside_the_folder_may_be_missing(tmp_path, present):
    if present:
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub/w.bin").write_bytes(bytes(80))
    network = read_network(save(tmp_path, external("sub/w.bin", offset=0, length=80)))
    assert brief(network) == [("fc", {"N": 2, "K": 5, "C": 4})]


def test_small_external_integers_are_read(tmp_path):
    shape = weight("s", (2,), INT64)
    shape.data_location = TensorProto.EXTERNAL
    shape.external_data.add(key="location", value="s.bin")
    shape.external_data.add(key="offset", value="8")
    nodes = [node("Reshape", "x s", "r"), node("MatMul", "r w", "y")]
    path = save(tmp_path, model(nodes, [info("x", (2, 6))], ["y"], [shape, weight("w", (4, 5))]))
    refused(path, "unknown")
    (tmp_path / "s.bin").write_bytes(np.array([0, 3, 4], "<i8").tobytes())
    assert brief(read_network(path)) == [("fc", {"N": 3, "K": 5, "C": 4})]


def odd_optional():
    return products(
        [node("Clip", ["x", "", "hi"], "a"), node("MatMul", "a w", "y")], [X], [W, const("hi", np.float32(6))]
    )


def odd_sparse():
    proto = products([node("MatMul", "x s", "y")], [X])
    values, indices = const("s", np.ones(2, np.float32)), const("i", np.array([0, 7]))
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 5]))
    return proto


def odd_untyped_attributes():
    proto = conv((1, 3, 8, 8), (4, 3, 3, 3), strides=[2, 2])
    for attribute in proto.graph.node[0].attribute:
        attribute.ClearField("type")
    return proto


def odd_domain():
    return products([node("MatMul", "x w", "y", domain="ai.onnx")], [X], [W])


def odd_names():
    return products([node("MatMul", "x w", "y", 'a, "b"\n;c')], [X], [W])


def odd_weight_first():
    return products([node("MatMul", "w x", "y")], [info("x", (5, 3))], [weight("w", (4, 5))])


def odd_huge_fill():
    """A mask of 10^12 x 2 x 4 elements of which only the shape is used."""
    nodes = [
        node("ConstantOfShape", "s", "big"),
        node("Shape", "big", "bs"),
        node("Slice", "bs b e", "part"),
        node("Reshape", "x part", "r"),
        node("MatMul", "r w", "y"),
    ]
    weights = [const("s", np.array([10**12, 2, 4])), const("b", np.array([1])), const("e", np.array([3])), W]
    return products(nodes, [X], weights)


ODD = {
    "optional_input_left_out": odd_optional,
    "sparse_initialiser": odd_sparse,
    "attributes_without_a_type": odd_untyped_attributes,
    "standard_domain_spelt_out": odd_domain,
    "weight_before_the_activation": odd_weight_first,
    "awkward_name": odd_names,
    "huge_constant_for_its_shape": odd_huge_fill,
    "no_outputs": lambda: model([node("MatMul", "x w", "y")], [X], [], [W]),
    "no_graph_name": lambda: edited(lambda p: p.graph.ClearField("name")),
    "newer_operator_set": lambda: linear(opset=23),
    "operator_set_one": lambda: linear(opset=1),
    "trailing_unknown_field": lambda: linear().SerializeToString() + b"\xf2\x3f\x03abc",
    "unused_function": lambda: linear(
        functions=[
            helper.make_function("local", "F", ["X"], ["Y"], [node("What", "X", "Y")], [helper.make_opsetid("", 17)])
        ],
        domains=("local",),
    ),
    "integer_weight": lambda: products(
        [node("MatMulInteger", "x w", "y")], [info("x", (2, 4), INT8)], [weight("w", (4, 5), INT8)]
    ),
    "cast_to_and_fro": lambda: products(
        [node("Cast", "x", "h", to=TensorProto.FLOAT16), node("Cast", "h", "f", to=FLOAT), node("MatMul", "f w", "y")],
        [X],
        [W],
    ),
}


@pytest.mark.parametrize("kind", ODD)
def test_odd_but_sound_files(tmp_path, kind):
    network = read_network(save(tmp_path, ODD[kind]()), warn=lambda line: None)
    assert len(network.layers) == 1
    assert "\n" not in network.layers[0].name


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_never_crash(tmp_path, data):
    source = data.draw(st.sampled_from(["resnet18", "dlrm_rmc1", "mobilenet_v1_224", "alexnet_bvlc"]))
    content = bytearray(workloads(f"{source}.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = save(tmp_path, bytes(content))
    try:
        network = read_network(path, warn=lambda line: None, skip_unknown=data.draw(st.booleans()))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(network, Network)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "4"])
def test_batch_must_be_positive(tmp_path, batch):
    refused(save(tmp_path, linear()), "positive integer", batch=batch)


@pytest.mark.parametrize(
    ("shapes", "word"),
    [
        ({"z": (2, 4)}, "not there"),
        ({"xx": (2, 4)}, "'x'"),
        ({"x": (0, 4)}, "positive"),
        ({"x": (2, -1)}, "positive"),
        ({"x": (2, "a")}, "positive"),
        ({"x": 3}, "positive"),
        ({"x": (2, 4, 1)}, "axes"),
        ({"y": (2, 4, 1)}, "axes"),
        ({"x": (2, 7)}, "channel mismatch"),
    ],
)
def test_shapes_that_do_not_fit(tmp_path, shapes, word):
    refused(save(tmp_path, linear()), word, shapes=shapes)


# ------------------------------------------------------------------------------- nodes that do not fit their operands

_S = [const("i3", np.array([1, 2, 3])), const("nan", np.array([np.nan])), const("b", np.array(True))]

MISFITS = {
    "split_of_a_scalar": (node("Split", "s", "u v", "n"), "too few axes"),
    "slice_of_a_scalar": (node("Slice", "s i3 i3", "u", "n"), "too few axes"),
    "slice_by_nan": (node("Slice", "a nan nan", "u", "n"), "holds nan"),
    "gather_from_a_scalar": (node("Gather", "s i3", "u", "n"), "too few axes"),
    "roi_align_of_a_vector": (node("RoiAlign", "i3 a", "u", "n"), "too few axes"),
    "max_roi_pool_of_a_vector": (node("MaxRoiPool", "i3 a", "u", "n"), "too few axes"),
    "resize_to_other_sizes": (node("Resize", ["a", "", "", "i3"], "u", "n"), "3 sizes for 2 axes"),
    "crop_to_other_sizes": (node("CenterCropPad", "a i3", "u", "n"), "3 sizes for 2 axes"),
    "stft_of_a_vector": (node("STFT", "i3 b", "u", "n"), "too few axes"),
    "stft_of_no_frames": (node("STFT", "a z", "u", "n"), "every 0"),
    "col2im_of_a_vector": (node("Col2Im", "i3 i3 i3", "u", "n"), "too few axes"),
    "a_grid_of_no_size": (node("AffineGrid", "a z", "u", "n"), "needs 3 or more"),
    "squeeze_by_nan": (node("Squeeze", "a nan", "u", "n"), "holds nan"),
    "an_axis_that_is_a_text": (node("TopK", "a z", "u v", "n", axis="first"), "axis"),
    "compress_along_a_list": (node("Compress", "a b", "u", "n", axis=[1]), "an axis is [1]"),
    "trilu_of_a_scalar": (node("Trilu", "s", "u", "n"), "a tensor scalar has no triangle"),
    "minus_true": (node("Neg", "b", "u", "n"), "inputs scalar [True]"),
    "mean_of_shapes_that_differ": (node("Sum", "a i3", "u", "n"), "do not broadcast"),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISFITS)
def test_misfits_are_told_in_our_words(tmp_path, kind):
    """Names the file, the node, its operator and the misfit, without messages of Python or NumPy."""
    bad, words = MISFITS[kind]
    sound = linear()
    sound.graph.node.insert(0, bad)
    sound.graph.initializer.extend([*_S, const("z", np.int64(0)), weight("a", (2, 4)), weight("s", ())])
    text = refused(save(tmp_path, sound), f"node 'n' ({bad.op_type})", words)
    for foreign in ("index out of range", "not supported between", "zip()", "cannot convert", "ufunc", "object"):
        assert foreign not in text


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool"])
@pytest.mark.parametrize("key", ["strides", "dilations", "pads"])
def test_empty_lists_of_windows_are_left_out(tmp_path, op, key):
    """An empty list means the default."""
    image, kernel = info("x", (1, 3, 8, 8)), weight("w", (3, 3, 3, 3))

    def read(**attributes):
        window = {} if op != "MaxPool" else {"kernel_shape": [3, 3]}
        first = node(op, "x" if window else "x w", "t", "first", **window)
        for name, value in attributes.items():
            first.attribute.append(helper.make_attribute(name, value, attr_type=onnx.AttributeProto.INTS))
        nodes = [first, node("Conv", "t w", "y", "last")]
        return read_network(save(tmp_path, model(nodes, [image], ["y"], [kernel]))).layers

    assert read(**{key: []}) == read()
