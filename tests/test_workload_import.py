"""The importer on hand-made graphs: loop bounds, dependencies, shape arithmetic, control flow, functions."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from workload_models import BOOL, FLOAT, INT8, INT32, INT64, UINT8, brief, const, edges, info, model, node, save, weight

from mohamjax.errors import InputError
from mohamjax.workload import budget, layer_rows, read_network
from mohamjax.workload.tensor import Tensor
from mohamjax.workload.walk import Walk


def read(folder, proto, **keywords):
    warnings = []
    network = read_network(save(folder, proto), warn=warnings.append, **keywords)
    return network, warnings


def single(folder, nodes, inputs, weights=(), opset=17, **keywords):
    """The layers of a graph whose output is `y`; no warnings expected."""
    network, warnings = read(folder, model(nodes, inputs, ["y"], weights, opset=opset, **keywords))
    assert warnings == []
    return network


# ------------------------------------------------------------------------------------------------ convolutions


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("Conv", {"auto_pad": "SAME"}, "auto_pad 'SAME' is none of NOTSET"),
        ("ConvTranspose", {"auto_pad": "same_upper"}, "auto_pad 'same_upper' is none of NOTSET"),
        ("ConvTranspose", {"output_shape": [7]}, r"output_shape \[7\] does not fit 2 spatial axes"),
    ],
)
def test_windows_that_onnx_does_not_know(tmp_path, op, attributes, words):
    proto = model([node(op, "x w", "y", **attributes)], [info("x", (1, 4, 5, 5))], ["y"], [weight("w", (4, 4, 3, 3))])
    with pytest.raises(InputError, match=words):
        read(tmp_path, proto)


@pytest.mark.parametrize(
    ("x", "w", "attributes", "kind", "bounds", "stride", "dilation"),
    [
        (
            (1, 3, 224, 224),
            (64, 3, 7, 7),
            {"strides": [2, 2], "pads": [3] * 4},
            "conv",
            {"K": 64, "C": 3, "P": 112, "Q": 112, "R": 7, "S": 7},
            (2, 2),
            (1, 1),
        ),
        ((2, 8, 9, 11), (16, 8, 3, 1), {}, "conv", {"N": 2, "K": 16, "C": 8, "P": 7, "Q": 11, "R": 3}, (1, 1), (1, 1)),
        (
            (1, 8, 9, 11),
            (8, 1, 3, 3),
            {"group": 8, "auto_pad": "SAME_UPPER", "strides": [2, 3]},
            "dwconv",
            {"G": 8, "P": 5, "Q": 4, "R": 3, "S": 3},
            (2, 3),
            (1, 1),
        ),
        (
            (1, 8, 9, 9),
            (24, 1, 3, 3),
            {"group": 8},
            "dwconv",
            {"G": 8, "K": 3, "P": 7, "Q": 7, "R": 3, "S": 3},
            (1, 1),
            (1, 1),
        ),
        (
            (1, 8, 9, 9),
            (12, 4, 3, 3),
            {"group": 2, "dilations": [2, 3]},
            "gconv",
            {"G": 2, "K": 6, "C": 4, "P": 5, "Q": 3, "R": 3, "S": 3},
            (1, 1),
            (2, 3),
        ),
        (
            (1, 1, 9, 9),
            (4, 1, 3, 3),
            {"auto_pad": "VALID", "pads": [1] * 4},
            "conv",
            {"K": 4, "P": 7, "Q": 7, "R": 3, "S": 3},
            (1, 1),
            (1, 1),
        ),
        (
            (1, 4, 50),
            (8, 4, 5),
            {"strides": [2], "dilations": [2]},
            "conv",
            {"K": 8, "C": 4, "P": 21, "R": 5},
            (2, 1),
            (2, 1),
        ),
        (
            (1, 4, 50),
            (4, 1, 3),
            {"group": 4, "auto_pad": "SAME_LOWER"},
            "dwconv",
            {"G": 4, "P": 50, "R": 3},
            (1, 1),
            (1, 1),
        ),
    ],
)
def test_convolutions(tmp_path, x, w, attributes, kind, bounds, stride, dilation):
    network = single(tmp_path, [node("Conv", "x w", "y", **attributes)], [info("x", x)], [weight("w", w)])
    assert brief(network) == [(kind, bounds)]
    assert network.layers[0].shape.stride == stride
    assert network.layers[0].shape.dilation == dilation


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_convolutions_agree_with_onnx_shape_inference(tmp_path_factory, data):
    draw = data.draw
    axes = draw(st.integers(1, 2))
    group, per_in, per_out = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    lists = {key: draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes)) for key in ("strides", "dilations")}
    kernel = draw(st.lists(st.integers(1, 3), min_size=axes, max_size=axes))
    auto = draw(st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    attributes = {**lists, "group": group, "auto_pad": auto}
    if auto == "NOTSET":
        attributes["pads"] = draw(st.lists(st.integers(0, 2), min_size=2 * axes, max_size=2 * axes))
    size = draw(st.lists(st.integers(8, 20), min_size=axes, max_size=axes))
    x, w = (2, group * per_in, *size), (group * per_out, per_in, *kernel)
    proto = model(
        [node("Conv", "x w", "y", **attributes)], [info("x", x)], ["y"], [const("w", np.zeros(w, np.float32))]
    )
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True).graph.output[0].type.tensor_type.shape
    want = tuple(d.dim_value for d in inferred.dim)
    (layer,) = read(tmp_path_factory.mktemp("c"), proto)[0].layers
    shape = layer.shape
    assert want[:2] == (shape.N, shape.G * shape.K)
    assert (shape.P, shape.Q)[:axes] == want[2:]
    assert layer.macs == np.prod(want) * per_in * np.prod(kernel)


def test_transposed_convolution_runs_over_the_input(tmp_path):
    nodes = [
        node("ConvTranspose", "x w", "t", strides=[2, 2], dilations=[2, 1], group=2),
        node("Conv", "t v", "y"),
    ]
    network = single(tmp_path, nodes, [info("x", (1, 8, 5, 6))], [weight("w", (8, 3, 4, 4)), weight("v", (1, 6, 1, 1))])
    first, second = brief(network)
    assert first == ("tconv", {"G": 2, "K": 3, "C": 4, "P": 5, "Q": 6, "R": 4, "S": 4})
    assert network.layers[0].shape.stride == (1, 1)
    assert network.layers[0].shape.dilation == (2, 1)
    assert second == ("conv", {"C": 6, "P": (5 - 1) * 2 + 7, "Q": (6 - 1) * 2 + 4})


def test_convolution_by_an_activation_depends_on_both(tmp_path):
    nodes = [
        node("Conv", "x w", "a", "a"),
        node("Gemm", "z v", "b", "b"),
        node("Reshape", "b s", "k"),
        node("Conv", "a k", "y", "dynamic"),
    ]
    network = single(
        tmp_path,
        nodes,
        [info("x", (1, 3, 8, 8)), info("z", (1, 5))],
        [weight("w", (4, 3, 1, 1)), weight("v", (5, 72)), const("s", np.array([2, 4, 3, 3]))],
    )
    assert edges(network)["dynamic"] == {"a", "b"}
    assert network.layers[2].type == "conv"


def test_deformable_convolution_is_a_convolution_with_a_warning(tmp_path):
    nodes = [node("DeformConv", "x w o", "y", pads=[1] * 4)]
    proto = model(
        nodes, [info("x", (1, 3, 8, 8)), info("o", (1, 18, 8, 8))], ["y"], [weight("w", (4, 3, 3, 3))], opset=19
    )
    network, warnings = read(tmp_path, proto)
    assert brief(network) == [("conv", {"K": 4, "C": 3, "P": 8, "Q": 8, "R": 3, "S": 3})]
    assert len(warnings) == 1 and "DeformConv" in warnings[0]


# --------------------------------------------------------------------------------------------- matrix products


@pytest.mark.parametrize(
    ("a", "b", "constant", "want"),
    [
        ((2, 7, 5), (5, 3), "b", ("fc", {"N": 14, "K": 3, "C": 5})),
        ((5,), (5, 3), "b", ("fc", {"K": 3, "C": 5})),
        ((7, 5), (5,), "b", ("fc", {"N": 7, "C": 5})),
        ((2, 7, 5), (1, 5, 3), "b", ("fc", {"N": 14, "K": 3, "C": 5})),
        ((2, 4, 7, 5), (4, 5, 3), "b", ("fc", {"G": 4, "N": 14, "K": 3, "C": 5})),
        ((3, 5), (2, 5, 7), "a", ("fc", {"N": 14, "K": 3, "C": 5})),
        ((4, 3, 5), (2, 4, 5, 7), "a", ("fc", {"G": 4, "N": 14, "K": 3, "C": 5})),
        ((2, 4, 7, 5), (2, 4, 5, 3), "", ("bmm", {"G": 8, "N": 7, "K": 3, "C": 5})),
        ((2, 1, 7, 5), (4, 5, 3), "", ("bmm", {"N": 14, "K": 12, "C": 5})),
        ((2, 4, 7, 5), (4, 5, 3), "", ("bmm", {"G": 4, "N": 14, "K": 3, "C": 5})),
        ((2, 1, 7, 5), (2, 4, 5, 3), "", ("bmm", {"G": 2, "N": 7, "K": 12, "C": 5})),
        ((7, 5), (4, 5, 3), "b", ("fc", {"N": 7, "K": 12, "C": 5})),
        ((7, 5), (5, 3), "", ("bmm", {"N": 7, "K": 3, "C": 5})),
    ],
)
def test_matrix_products(tmp_path, a, b, constant, want):
    inputs = [info(n, s) for n, s in (("a", a), ("b", b)) if n != constant]
    weights = [weight(n, s) for n, s in (("a", a), ("b", b)) if n == constant]
    assert brief(single(tmp_path, [node("MatMul", "a b", "y")], inputs, weights)) == [want]


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(tmp_path, trans_a, trans_b):
    a, b = ((5, 7) if trans_a else (7, 5)), ((3, 5) if trans_b else (5, 3))
    nodes = [node("Gemm", "a b c", "y", transA=trans_a, transB=trans_b)]
    network = single(tmp_path, nodes, [info("a", a)], [weight("b", b), weight("c", (3,))])
    assert brief(network) == [("fc", {"N": 7, "K": 3, "C": 5})]


def test_gemm_of_two_activations_is_a_bmm(tmp_path):
    nodes = [node("Gemm", "x v", "a", "a"), node("Gemm", "x w", "b", "b"), node("Gemm", "a b", "y", "c", transB=1)]
    network = single(tmp_path, nodes, [info("x", (4, 8))], [weight("v", (8, 6)), weight("w", (8, 6))])
    assert brief(network)[2] == ("bmm", {"N": 4, "K": 4, "C": 6})
    assert edges(network)["c"] == {"a", "b"}


@pytest.mark.parametrize(
    ("equation", "a", "b", "constant", "want"),
    [
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5), "", ("bmm", {"G": 2, "N": 3, "K": 5, "C": 4})),
        ("bhid,bhjd->bhij", (2, 3, 4, 6), (2, 3, 5, 6), "", ("bmm", {"G": 6, "N": 4, "K": 5, "C": 6})),
        ("bnd,hde->bhne", (2, 3, 4), (6, 4, 5), "b", ("fc", {"N": 6, "K": 30, "C": 4})),
        ("...ij,jk", (2, 2, 3, 4), (4, 5), "b", ("fc", {"N": 12, "K": 5, "C": 4})),
        ("ij,bjk->bik", (3, 4), (2, 4, 5), "a", ("fc", {"N": 10, "K": 3, "C": 4})),
        ("gij,gjk->gik", (2, 3, 4), (2, 4, 5), "b", ("fc", {"G": 2, "N": 3, "K": 5, "C": 4})),
        ("i,i->", (7,), (7,), "", ("bmm", {"C": 7})),
    ],
)
def test_einsum_as_a_matrix_product(tmp_path, equation, a, b, constant, want):
    inputs = [info(n, s) for n, s in (("a", a), ("b", b)) if n != constant]
    weights = [weight(n, s) for n, s in (("a", a), ("b", b)) if n == constant]
    assert brief(single(tmp_path, [node("Einsum", "a b", "y", equation=equation)], inputs, weights)) == [want]


def test_einsum_of_three_operands_is_two_products(tmp_path):
    inputs = [info("a", (2, 3, 4)), info("b", (2, 4, 5)), info("c", (2, 5, 6))]
    nodes = [node("Einsum", "a b c", "y", "e", equation="bij,bjk,bkl->bil")]
    network = single(tmp_path, nodes, inputs)
    assert [x.macs for x in network.layers] == [2 * 3 * 4 * 5, 2 * 3 * 5 * 6]
    assert network.layers[1].predecessors == (0,)


def test_einsum_that_is_no_product_warns_and_names_itself(tmp_path):
    nodes = [node("Einsum", "a b", "o", "outer", equation="i,j->ij"), node("MatMul", "o w", "y")]
    proto = model(nodes, [info("a", (3,)), info("b", (4,))], ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto)
    assert brief(network) == [("fc", {"N": 3, "K": 5, "C": 4})]
    assert len(warnings) == 1 and "'outer'" in warnings[0] and "i,j->ij" in warnings[0]


def test_products_of_constants_are_no_layers(tmp_path):
    nodes = [node("MatMul", "p q", "w"), node("MatMul", "x w", "y")]
    proto = model(nodes, [info("x", (2, 4))], ["y"], [weight("p", (4, 6)), weight("q", (6, 5))])
    network, warnings = read(tmp_path, proto)
    assert brief(network) == [("fc", {"N": 2, "K": 5, "C": 4})]
    assert len(warnings) == 1 and "ahead of time" in warnings[0]


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "LSTM"])
def test_other_products_of_constants_keep_their_shape(tmp_path, op):
    """The shape of what they make gives the layer behind it its size."""
    if op == "LSTM":
        first = [node("LSTM", ["c", "k", "r"], ["t"], hidden_size=4), node("Reshape", "t s", "u")]
        weights = [weight("c", (3, 16, 6)), weight("k", (1, 16, 6)), weight("r", (1, 16, 4))]
        weights += [const("s", np.array([48, 4]))]
    else:
        first, weights = [node(op, "c k", "u")], [weight("c", (1, 3, 8, 8)), weight("k", (3, 3, 3, 3))]
    rows = {"Conv": 6 * 3, "ConvTranspose": 10 * 3, "LSTM": 48}[op]
    width = {"Conv": 6, "ConvTranspose": 10, "LSTM": 4}[op]
    nodes = [*first, node("MatMul", "u x", "y", "fc")]
    network, warnings = read(tmp_path, model(nodes, [info("x", (width, 5))], ["y"], weights))
    assert brief(network) == [("fc", {"N": 5, "K": rows, "C": width})]
    assert len(warnings) == 1 and "1 products of constants" in warnings[0]


# -------------------------------------------------------------------------------- recurrent layers, attention


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
def test_recurrent_layers(tmp_path, op, gates, direction, layout):
    d = 2 if direction == "bidirectional" else 1
    x = (3, 7, 10) if layout else (7, 3, 10)
    nodes = [
        node(op, ["x", "w", "r"], ["h", "last"], "r", hidden_size=20, direction=direction, layout=layout),
        node("Reshape", "h s", "f"),
        node("MatMul", "f v", "y", "fc"),
    ]
    weights = [weight("w", (d, gates * 20, 10)), weight("r", (d, gates * 20, 20)), weight("v", (20 * d, 2))]
    network = single(tmp_path, nodes, [info("x", x)], [*weights, const("s", np.array([21, 20 * d]))])
    assert brief(network) == [
        ("rnn", {"N": 3, "P": 7, "K": gates * 20 * d, "C": 30}),
        ("fc", {"N": 21, "K": 2, "C": 20 * d}),
    ]
    assert edges(network)["fc"] == {"r"}


def contrib(folder, nodes, inputs, weights=(), **keywords):
    return single(folder, nodes, inputs, weights, domains=("com.microsoft",), **keywords)


def test_fused_attention_of_onnx_runtime(tmp_path):
    nodes = [
        node("EmbedLayerNormalization", ["ids", "", "word", "pos", "", "g", "b"], ["e", "m"], domain="com.microsoft"),
        node("Attention", "e w bias m", "a", "att", domain="com.microsoft", num_heads=4),
        node("MatMul", "a v", "p", "proj"),
        node("SkipLayerNormalization", "p e g b", "s", domain="com.microsoft"),
        node("FusedMatMul", "s u", "f", "ffn", domain="com.microsoft", transB=1),
        node("BiasGelu", "f c", "y", domain="com.microsoft"),
    ]
    weights = [
        weight("word", (99, 32)),
        weight("pos", (64, 32)),
        weight("g", (32,)),
        weight("b", (32,)),
        weight("w", (32, 96)),
        weight("bias", (96,)),
        weight("v", (32, 32)),
        weight("u", (64, 32)),
        weight("c", (64,)),
    ]
    network = contrib(tmp_path, nodes, [info("ids", (2, 11), INT32)], weights)
    assert brief(network) == [
        ("fc", {"N": 22, "K": 96, "C": 32}),
        ("bmm", {"G": 8, "N": 11, "K": 11, "C": 8}),
        ("bmm", {"G": 8, "N": 11, "K": 8, "C": 11}),
        ("fc", {"N": 22, "K": 32, "C": 32}),
        ("fc", {"N": 22, "K": 64, "C": 32}),
    ]
    assert edges(network) == {
        "att/qkv": set(),
        "att/scores": {"att/qkv"},
        "att/context": {"att/scores", "att/qkv"},
        "proj": {"att/context"},
        "ffn": {"proj"},
    }


@pytest.mark.parametrize("op", ["MultiHeadAttention", "GroupQueryAttention"])
def test_attention_of_separate_operands(tmp_path, op):
    heads = {"num_heads": 4} if op == "MultiHeadAttention" else {"num_heads": 4, "kv_num_heads": 2}
    width = 32 if op == "MultiHeadAttention" else 16
    nodes = [
        node("MatMul", "x wq", "q", "q"),
        node("MatMul", "z wk", "k", "k"),
        node("MatMul", "z wv", "v", "v"),
        node(op, "q k v", "y", "att", domain="com.microsoft", **heads),
    ]
    weights = [weight("wq", (32, 32)), weight("wk", (32, width)), weight("wv", (32, width))]
    network = contrib(tmp_path, nodes, [info("x", (2, 5, 32)), info("z", (2, 5, 32))], weights)
    groups, rows = (8, 5) if op == "MultiHeadAttention" else (4, 10)
    assert brief(network)[3:] == [
        ("bmm", {"G": groups, "N": rows, "K": 5, "C": 8}),
        ("bmm", {"G": groups, "N": rows, "K": 8, "C": 5}),
    ]
    assert edges(network)["att/scores"] == {"q", "k"}
    assert edges(network)["att/context"] == {"att/scores", "v"}


_BUFFERS = {
    "DecoderMaskedMultiHeadAttention": (["q", "q", "q", "", "", "past", "past", "n"], (1, 8, 1024, 64)),
    "MultiHeadAttention": (["q", "q", "q", "", "", "", "past", "past", "n"], (1, 8, 1024, 64)),
    "Attention": (["q", "w", "", "", "past", "", "n"], (2, 1, 8, 1024, 64)),
    "DecoderMaskedSelfAttention": (["q", "w", "b", "", "past", "", "n"], (2, 1, 8, 1024, 64)),
    "SparseAttention": (["q", "q", "q", "past", "past", "rows", "", "n"], (1, 8, 1024, 64)),
}


@pytest.mark.parametrize("op", _BUFFERS)
@pytest.mark.parametrize("stated", [None, 99])
def test_attention_over_a_buffer_of_keys(tmp_path, op, stated):
    """All entries of a buffer for past and new keys count, with a warning, unless a constant says how many it has."""
    inputs, past = _BUFFERS[op]
    sparse = op == "SparseAttention"  # states the number of all keys, the others that of the past ones
    attributes = {"kv_num_heads": 8} if sparse else {"past_present_share_buffer": 1}
    if op == "MultiHeadAttention":  # the attribute is not one of this operator
        attributes = {}
    nodes = [node(op, inputs, ["y", "present"], "att", domain="com.microsoft", num_heads=8, **attributes)]
    given = [info("q", (1, 1, 512)), info("past", past)]
    constants = [weight("w", (512, 1536)), weight("b", (1536,)), const("rows", np.int32([1]))]
    if stated is None:
        given.append(info("n", (1,), INT32))
    else:
        constants.append(const("n", np.int32([stated + sparse])))
    proto = model(nodes, given, ["y"], constants, domains=("com.microsoft",))
    network, warnings = read(tmp_path, proto)
    keys = 1024 if stated is None else 100
    assert brief(network)[-2:] == [("bmm", {"G": 8, "K": keys, "C": 64}), ("bmm", {"G": 8, "K": 64, "C": keys})]
    told = "the number of past keys is unknown; all 1024 in their buffer count (the most)"
    assert [line for line in warnings if "dense attention" not in line] == [] if stated else told in warnings[-1]


def test_past_keys_of_unknown_length_are_an_error(tmp_path):
    nodes = [
        node("Slice", "buffer zero length two", "past"),
        node(
            "MultiHeadAttention",
            ["q", "q", "q", "", "", "", "past", "past"],
            ["y"],
            domain="com.microsoft",
            num_heads=8,
        ),
    ]
    inputs = [info("q", (1, 1, 512)), info("buffer", (1, 8, 1024, 64)), info("length", (1,), INT64)]
    constants = [const("zero", np.int64([0])), const("two", np.int64([2]))]
    with pytest.raises(InputError, match=r"the shape of its past keys is unknown \(1x8x\?x64\)"):
        read(tmp_path, model(nodes, inputs, ["y"], constants, domains=("com.microsoft",)))


@pytest.mark.parametrize("flat", [False, True])
def test_standard_attention(tmp_path, flat):
    shapes = [(2, 5, 32), (2, 7, 32), (2, 7, 48)] if flat else [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 12)]
    heads = {"q_num_heads": 4, "kv_num_heads": 4} if flat else {}
    inputs = [info(n, s) for n, s in zip("qkv", shapes, strict=True)]
    network = single(tmp_path, [node("Attention", "q k v", "y", **heads)], inputs, opset=23)
    assert brief(network) == [
        ("bmm", {"G": 8, "N": 5, "K": 7, "C": 8}),
        ("bmm", {"G": 8, "N": 5, "K": 12, "C": 7}),
    ]


def test_a_bias_that_is_an_activation_makes_the_result_one(tmp_path):
    """The product of two constants is computed ahead of time, but what is added to it is not."""
    nodes = [
        node("MatMul", "x w", "h", "h"),
        node("Gemm", "a b h", "g"),
        node("QGemm", "qa s z qb s z h", "q", domain="com.microsoft"),
        node("MatMul", "g w2", "y", "after"),
        node("MatMul", "q w2", "y2", "after too"),
    ]
    weights = [weight("w", (8, 16)), weight("a", (4, 8)), weight("b", (8, 16)), weight("w2", (16, 5))]
    weights += [weight("qa", (4, 8), UINT8), weight("qb", (8, 16), UINT8), weight("s", ()), weight("z", (), UINT8)]
    network, _ = read(tmp_path, model(nodes, [info("x", (4, 8))], ["y"], weights, domains=("com.microsoft",)))
    assert edges(network) == {"h": set(), "after": {"h"}, "after too": {"h"}}


@pytest.mark.parametrize(("trans", "x", "bounds"), [(1, 64, {"K": 32, "C": 64}), (0, 32, {"K": 64, "C": 32})])
def test_a_packed_weight_may_be_used_as_it_is_stored(tmp_path, trans, x, bounds):
    nodes = [node("MatMulBnb4", "x w s", "y", domain="com.microsoft", K=64, N=32, quant_type=1, block_size=32,
                  transB=trans)]  # fmt: skip
    network = contrib(tmp_path, nodes, [info("x", (9, x))], [weight("w", (1024,), UINT8), weight("s", (64,))])
    assert brief(network) == [("fc", {"N": 9, **bounds})]


def test_a_packed_weight_has_bits(tmp_path):
    nodes = [node("MatMulNBits", "x w s", "y", domain="com.microsoft", K=64, N=32, bits=0, block_size=32)]
    proto = model(nodes, [info("x", (9, 64))], ["y"], [weight("w", (32, 2, 16), UINT8), weight("s", (64,))],
                  domains=("com.microsoft",))  # fmt: skip
    with pytest.raises(InputError, match="a weight of 0 bits"):
        read(tmp_path, proto)


def test_packed_weights_of_four_bits(tmp_path):
    nodes = [node("MatMulNBits", "x w s", "y", domain="com.microsoft", K=64, N=32, bits=4, block_size=32)]
    weights = [weight("w", (32, 2, 16), UINT8), weight("s", (64,))]
    network = contrib(tmp_path, nodes, [info("x", (1, 9, 64))], weights)
    assert brief(network) == [("fc", {"N": 9, "K": 32, "C": 64})]
    assert network.layers[0].word_bits == 4


# ------------------------------------------------------------------------------------------------ quantisation


def test_qdq_convolution_and_linear_are_eight_bits_wide(tmp_path):
    one, zero = const("s", np.float32(0.1)), const("z", np.uint8(0))
    nodes = [
        node("QuantizeLinear", "x s z", "xq"),
        node("DequantizeLinear", "xq s z", "xd"),
        node("DequantizeLinear", "w ws", "wd", axis=0),
        node("Conv", "xd wd", "c", "conv"),
        node("QuantizeLinear", "c s z", "cq"),
        node("DequantizeLinear", "cq s z", "cd"),
        node("Flatten", "cd", "f"),
        node("DequantizeLinear", "v vs", "vd", axis=0),
        node("Transpose", "vd", "vt"),
        node("MatMul", "f vt", "y", "fc"),
    ]
    weights = [
        one,
        zero,
        weight("w", (4, 3, 3, 3), INT8),
        weight("ws", (4,)),
        weight("v", (10, 144), INT8),
        weight("vs", (10,)),
    ]
    network = single(tmp_path, nodes, [info("x", (1, 3, 8, 8))], weights)
    assert brief(network) == [
        ("conv", {"K": 4, "C": 3, "P": 6, "Q": 6, "R": 3, "S": 3}),
        ("fc", {"K": 10, "C": 144}),
    ]
    assert [x.word_bits for x in network.layers] == [8, 8]
    assert edges(network)["fc"] == {"conv"}


def test_qdq_attention_product_is_eight_bits_wide(tmp_path):
    nodes = [
        node("QuantizeLinear", "a s z", "aq"),
        node("DequantizeLinear", "aq s z", "ad"),
        node("QuantizeLinear", "b s z", "bq"),
        node("DequantizeLinear", "bq s z", "bd"),
        node("Transpose", "bd", "bt", perm=[0, 2, 1]),
        node("MatMul", "ad bt", "y"),
    ]
    network = single(
        tmp_path,
        nodes,
        [info("a", (2, 5, 8)), info("b", (2, 6, 8))],
        [const("s", np.float32(0.1)), const("z", np.uint8(0))],
    )
    assert brief(network) == [("bmm", {"G": 2, "N": 5, "K": 6, "C": 8})]
    assert network.layers[0].word_bits == 8


def test_integer_operators(tmp_path):
    nodes = [
        node("DynamicQuantizeLinear", "x", "xq xs xz"),
        node("ConvInteger", "xq w xz", "ci", "ci"),
        node("Cast", "ci", "cf", to=FLOAT),
        node("QuantizeLinear", "cf s z", "q"),
        node("QLinearConv", "q s z v s z8 s z", "qc", "qc"),
        node("Flatten", "qc", "f"),
        node("QLinearMatMul", "f s z u s z8 s z", "qm", "qm"),
        node("MatMulInteger", "qm t z", "y", "mi"),
    ]
    weights = [
        const("s", np.float32(0.1)),
        const("z", np.uint8(0)),
        const("z8", np.int8(0)),
        weight("w", (4, 3, 3, 3), INT8),
        weight("v", (4, 1, 3, 3), INT8),
        weight("u", (64, 10), INT8),
        weight("t", (10, 2), INT8),
    ]
    nodes[4].attribute.append(helper.make_attribute("group", 4))
    network = single(tmp_path, nodes, [info("x", (1, 3, 8, 8))], weights)
    assert brief(network) == [
        ("conv", {"K": 4, "C": 3, "P": 6, "Q": 6, "R": 3, "S": 3}),
        ("dwconv", {"G": 4, "P": 4, "Q": 4, "R": 3, "S": 3}),
        ("fc", {"K": 10, "C": 64}),
        ("fc", {"K": 2, "C": 10}),
    ]
    assert {x.word_bits for x in network.layers} == {8}
    assert edges(network) == {"ci": set(), "qc": {"ci"}, "qm": {"qc"}, "mi": {"qm"}}


def test_integer_operators_of_onnx_runtime(tmp_path):
    ms = {"domain": "com.microsoft"}
    nodes = [
        node("QLinearConv", "x s z w s z s z", "c", "conv", channels_last=1, **ms),
        node("QLinearGlobalAveragePool", "c s z s z", "p", channels_last=1, **ms),
        node("Flatten", "p", "f"),
        node("QGemm", ["f", "s", "z", "v", "s", "z", "", "s", "z"], "g", "gemm", transB=1, **ms),
        node("QLinearAdd", "g s z g s z s z", "a", **ms),
        node("DequantizeLinear", "a s z", "d", **ms),
        node("DynamicQuantizeMatMul", "d u s", "m", "dq", **ms),
        node("MatMulIntegerToFloat", "g u s s", "y", "mf", **ms),
    ]
    weights = [
        const("s", np.float32(0.1)),
        const("z", np.uint8(0)),
        weight("w", (4, 3, 3, 3), UINT8),
        weight("v", (10, 4), UINT8),
        weight("u", (10, 2), UINT8),
    ]
    network = contrib(tmp_path, nodes, [info("x", (1, 8, 9, 3), UINT8)], weights)
    assert brief(network) == [
        ("conv", {"K": 4, "C": 3, "P": 6, "Q": 7, "R": 3, "S": 3}),
        ("fc", {"K": 10, "C": 4}),
        ("fc", {"K": 2, "C": 10}),
        ("fc", {"K": 2, "C": 10}),
    ]
    assert {x.word_bits for x in network.layers} == {8}
    assert edges(network)["mf"] == {"gemm"} == edges(network)["dq"]


@pytest.mark.parametrize(
    ("dtype", "bits"), [(TensorProto.FLOAT16, 16), (TensorProto.BFLOAT16, 16), (TensorProto.DOUBLE, 64)]
)
def test_word_follows_the_element_type(tmp_path, dtype, bits):
    network = single(tmp_path, [node("MatMul", "x w", "y")], [info("x", (2, 3), dtype)], [weight("w", (3, 4), dtype)])
    assert network.layers[0].word_bits == bits


# ------------------------------------------------------------------------------------------------ dependencies


_CAST = node("Cast", "q", "d", to=FLOAT)
_GATHER = node("Gather", "groups g_idx", "large")
_WEIGHTS = {
    "a mask of bytes": ([node("Cast", "m", "mf", to=FLOAT), node("Mul", "w mf", "v")], 32),
    "a difference of bytes": ([node("DequantizeLinear", "q s", "d"), node("Add", "w d", "v")], 32),
    "bytes twice": ([node("DequantizeLinear", "q s", "d"), node("Add", "d d", "v")], 8),
    "bytes and a scale": ([node("Cast", "q", "d", to=FLOAT), node("Mul", "d column", "v")], 8),
    "a mask of a transposed weight": (
        [node("Cast", "m", "mf", to=FLOAT), node("Transpose", "w", "wt"), node("Mul", "mf wt", "v")],
        32,
    ),
    "a weight without a difference of bytes": ([node("DequantizeLinear", "q s", "d"), node("Sub", "w d", "v")], 32),
    "bytes and a scale of each group (GPTQ)": ([_CAST, _GATHER, node("Mul", "d large", "v")], 8),
    "a scale of each group and bytes": ([_CAST, _GATHER, node("Mul", "large d", "v")], 8),
    "bytes, a zero point and a scale of each group (GPTQ)": (
        [_CAST, _GATHER, node("Sub", "d large", "c"), node("Mul", "c large", "v")],
        8,
    ),
    "bytes and an expanded scale (AWQ)": (
        [_CAST, node("Expand", "column full", "large"), node("Mul", "d large", "v")],
        8,
    ),
    "bytes and a scale of each block (AWQ)": (
        [
            _CAST,
            node("Unsqueeze", "groups one", "inner"),
            node("Expand", "inner blocks", "all"),
            node("Reshape", "all full", "large"),
            node("Div", "d large", "v"),
        ],
        8,
    ),
    "bytes unpacked from fewer": (
        [
            node("Concat", "half half", "unpacked", axis=0),
            node("Cast", "unpacked", "d", to=FLOAT),
            _GATHER,
            node("Mul", "d large", "v"),
        ],
        8,
    ),
    "one of many tables of scales": (
        [
            _CAST,
            node("Gather", "tables zero", "table"),
            node("Gather", "table g_idx", "large"),
            node("Mul", "d large", "v"),
        ],
        8,
    ),
    "bytes of one row and a scale of each": (
        [node("Cast", "row", "d", to=FLOAT), node("Mul", "d scales", "r"), node("Reshape", "r upright", "v")],
        8,
    ),
    "bytes in front": ([node("DequantizeLinear", "q s", "d"), node("Concat", "d w", "v", axis=1)], 32),
    "bytes behind": ([node("DequantizeLinear", "q s", "d"), node("Concat", "w d", "v", axis=1)], 32),
    "bytes all over": ([node("DequantizeLinear", "q s", "d"), node("Concat", "d d", "v", axis=1)], 8),
}


@pytest.mark.parametrize("case", _WEIGHTS)
def test_a_weight_computed_from_others_is_as_wide_as_the_widest(tmp_path, case):
    """Scales, zero points and limits are smaller than what they are applied to, or made larger, and do not count."""
    nodes, bits = _WEIGHTS[case]
    weights = [weight("w", (8, 8)), weight("m", (8, 8), UINT8), weight("q", (8, 8), INT8), weight("s", ())]
    weights += [weight("column", (8, 1)), weight("groups", (2, 8)), weight("tables", (9, 2, 8)), weight("scales", (8,))]
    weights += [weight("half", (4, 8), UINT8), weight("row", (1, 8), INT8)]
    weights += [const("g_idx", np.arange(8) // 4), const("zero", np.int64(0)), const("one", np.array([1]))]
    weights += [const("full", np.array([8, 8])), const("blocks", np.array([2, 4, 8]))]
    weights += [const("upright", np.array([8, 1]))]
    network = single(tmp_path, [*nodes, node("MatMul", "x v", "y")], [info("x", (4, 8))], weights)
    assert network.layers[0].word_bits == bits


_HALF = TensorProto.FLOAT16
_FLOAT8 = TensorProto.FLOAT8E4M3FN
_RESULTS = {
    "MatMulIntegerToFloat": (
        [node("MatMulIntegerToFloat", "x q s s", "h", domain="com.microsoft")],
        [weight("q", (8, 8), INT8), weight("s", (), _HALF)], UINT8, 16,
    ),
    "QAttention": (
        [node("QAttention", "x q b s s", "a", domain="com.microsoft", num_heads=2), node("Squeeze", "a zero", "h")],
        [weight("q", (8, 24), INT8), weight("b", (24,), _HALF), weight("s", (), _HALF), const("zero", np.array([0]))],
        UINT8, 16,
    ),
    "GemmFloat8": (
        [node("GemmFloat8", "x q", "h", domain="com.microsoft", dtype=FLOAT)], [weight("q", (8, 8), _FLOAT8)],
        _FLOAT8, 32,
    ),
    "QuantizeWithOrder": (
        [node("QuantizeWithOrder", "x s", "h", domain="com.microsoft", order_input=1, order_output=1)],
        [weight("s", ())], FLOAT, 8,
    ),
    "DequantizeWithOrder": (
        [node("DequantizeWithOrder", "x s", "h", domain="com.microsoft", order_input=1, order_output=1, to=_HALF)],
        [weight("s", ())], INT8, 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", _RESULTS)
def test_results_of_quantised_operators_have_their_own_type(tmp_path, op):
    nodes, weights, dtype, bits = _RESULTS[op]
    nodes = [*nodes, node("Transpose", "h", "t"), node("MatMul", "h t", "y")]
    x = info("x", (1, 4, 8) if op == "QAttention" else (4, 8), dtype)
    network, _ = read(tmp_path, model(nodes, [x], ["y"], weights, domains=("com.microsoft",)))
    assert network.layers[-1].word_bits == bits


def test_the_file_states_the_type_of_an_unknown_result(tmp_path):
    nodes = [
        node("CropAndResize", "x r n s", "c", domain="com.microsoft"),
        node("Transpose", "c", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "c t", "y"),
    ]
    inputs = [info("x", (1, 4, 8, 8), _HALF), info("r", (2, 4), _HALF), info("n", (2,), INT32), info("s", (2,), INT32)]
    stated = [info("c", (2, 4, 5, 5), _HALF)]
    network, _ = read(tmp_path, model(nodes, inputs, ["y"], domains=("com.microsoft",), value_info=stated))
    assert network.layers[0].word_bits == 16


def test_dependencies_pass_through_what_is_no_layer(tmp_path):
    nodes = [
        node("Conv", "x w", "a", "stem"),
        node("BatchNormalization", "a g g g g", "n"),
        node("Relu", "n", "r"),
        node("Conv", "r v", "b", "left"),
        node("Conv", "r v", "c", "right"),
        node("Add", "b c", "s"),
        node("MaxPool", "s", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", "p p", "cat", axis=1),
        node("Conv", "cat u", "y", "head"),
        node("Conv", "r v", "unused", "dead"),
    ]
    weights = [weight("w", (4, 3, 1, 1)), weight("g", (4,)), weight("v", (4, 4, 1, 1)), weight("u", (2, 8, 1, 1))]
    network = single(tmp_path, nodes, [info("x", (1, 3, 8, 8))], weights)
    assert edges(network) == {
        "stem": set(),
        "left": {"stem"},
        "right": {"stem"},
        "head": {"left", "right"},
        "dead": {"stem"},
    }


def test_direct_predecessors_are_not_reduced(tmp_path):
    nodes = [
        node("Conv", "x w", "a", "a"),
        node("Conv", "a w", "b", "b"),
        node("Add", "a b", "s"),
        node("Conv", "s w", "y", "c"),
    ]
    network = single(tmp_path, nodes, [info("x", (1, 4, 8, 8))], [weight("w", (4, 4, 1, 1))])
    assert edges(network) == {"a": set(), "b": {"a"}, "c": {"a", "b"}}


def test_shapes_constants_and_embeddings_are_no_dependencies(tmp_path):
    nodes = [
        node("Gather", "table ids", "e"),
        node("MatMul", "e w", "a", "a"),
        node("Shape", "a", "sa"),
        node("Reshape", "z sa", "zr"),
        node("Transpose", "w", "wt"),
        node("Identity", "wt", "wi"),
        node("MatMul", "zr wi", "y", "b"),
    ]
    network = single(
        tmp_path, nodes, [info("ids", (1, 5), INT64), info("z", (40,))], [weight("table", (99, 8)), weight("w", (8, 8))]
    )
    assert [x.type for x in network.layers] == ["fc", "fc"]
    assert edges(network) == {"a": set(), "b": set()}


@pytest.mark.parametrize(
    "through",
    [
        "Identity", "Transpose", "Reshape", "Cast", "CastLike", "ConstantOfShape", "DequantizeLinear", "Constant",
        "Slice", "EyeLike",
    ],
)  # fmt: skip
def test_weights_through_other_operators(tmp_path, through):
    size = (6, 4)
    made = {
        "Identity": ([node("Identity", "v", "w")], [weight("v", size)]),
        "Transpose": ([node("Transpose", "v", "w")], [weight("v", size[::-1])]),
        "Reshape": ([node("Reshape", "v s", "w")], [weight("v", (24,)), const("s", np.array([6, -1]))]),
        "Cast": ([node("Cast", "v", "w", to=FLOAT)], [weight("v", size, TensorProto.FLOAT16)]),
        "CastLike": ([node("CastLike", "v x", "w")], [weight("v", size, TensorProto.FLOAT16)]),
        "EyeLike": ([node("MatMul", "x v", "p", "p"), node("EyeLike", "p", "w")], [weight("v", (6, 4))]),
        "ConstantOfShape": ([node("ConstantOfShape", "s", "w")], [const("s", np.array(size))]),
        "DequantizeLinear": (
            [node("DequantizeLinear", "v s", "w")],
            [weight("v", size, INT8), const("s", np.float32(1))],
        ),
        "Constant": ([node("Constant", [], "w", value=const("v", np.zeros(size, np.float32)))], []),
        "Slice": (
            [node("Slice", "v b e", "w")],
            [weight("v", (9, 4)), const("b", np.array([3])), const("e", np.array([2**60]))],
        ),
    }
    nodes, weights = made[through]
    rows = 6 if through == "EyeLike" else 5
    network = single(tmp_path, [*nodes, node("MatMul", "x w", "y")], [info("x", (rows, 6))], weights)
    assert brief(network)[-1] == ("fc", {"N": rows, "K": 4, "C": 6})
    assert network.layers[-1].predecessors == ()


@pytest.mark.parametrize("op", ["CastLike", "RandomNormalLike", "RandomUniformLike", "EyeLike"])
def test_what_gives_only_a_type_or_shape_is_no_dependency(tmp_path, op):
    nodes = [
        node("MatMul", "x w", "a", "a"),
        node(op, "z a" if op == "CastLike" else "a", "b"),
        node("MatMul", "b x", "y", "b"),
    ]
    network = single(tmp_path, nodes, [info("x", (6, 6)), info("z", (6, 6))], [weight("w", (6, 6))])
    assert edges(network) == {"a": set(), "b": set()}
    assert network.layers[1].type == ("fc" if op == "EyeLike" else "bmm")  # random numbers are no weights


def test_initialisers_among_the_inputs_are_weights_before_ir_4(tmp_path):
    nodes = [node("Conv", "x w", "y")]
    inputs = [info("x", (1, 3, 8, 8)), info("w", (4, 3, 3, 3))]
    network = single(tmp_path, nodes, inputs, [weight("w", (4, 3, 3, 3))], opset=8, ir=3)
    assert [x.type for x in network.layers] == ["conv"]


def test_parameters_among_the_inputs_are_weights(tmp_path):
    """Some exports omit the parameters: they are inputs, which only their names identify."""
    nodes = [node("Conv", ["x", "conv1.weight"], "c"), node("MatMul", ["z", "fc.weight"], "y")]
    inputs = [
        info("x", ("batch", 3, 8, 8)),
        info("conv1.weight", (4, 3, 3, 3)),
        info("z", (2, 7, 4)),
        info("fc.weight", (4, 5)),
    ]
    network, warnings = read(tmp_path, model(nodes, inputs, ["y"]), batch=2)
    assert brief(network)[1] == ("fc", {"N": 14, "K": 5, "C": 4})
    assert len(warnings) == 1 and "conv1.weight" in warnings[0]


def test_nodes_in_any_order_and_names_made_unique(tmp_path):
    nodes = [node("Gemm", "b w", "y", "l"), node("Gemm", "a w", "b", "l"), node("Gemm", "x w", "a")]
    network = single(tmp_path, nodes, [info("x", (2, 4))], [weight("w", (4, 4))])
    assert [x.name for x in network.layers] == ["Gemm_2", "l", "l_2"]
    assert [x.predecessors for x in network.layers] == [(), (0,), (1,)]
    assert [row["predecessors"] for row in layer_rows(network)] == ["", "0", "1"]


def test_sequences_keep_the_producers_of_each_part(tmp_path):
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("Gemm", "x w", "b", "b"),
        node("SequenceConstruct", "a b", "seq"),
        node("SequenceAt", "seq one", "second"),
        node("Gemm", "second w", "c", "c"),
        node("ConcatFromSequence", "seq", "cat", axis=0),
        node("SplitToSequence", "cat three", "parts", axis=0),
        node("SequenceAt", "parts one", "p"),
        node("Gemm", "p w", "y", "d"),
    ]
    weights = [weight("w", (4, 4)), const("one", np.int64(1)), const("three", np.int64(3))]
    network = single(tmp_path, nodes, [info("x", (2, 4))], weights)
    assert edges(network) == {"a": set(), "b": set(), "c": {"b"}, "d": {"a", "b"}}
    assert network.layers[3].shape.N == 1


# -------------------------------------------------------------------------------------------- shape arithmetic


@pytest.mark.parametrize("opset", range(7, 23))
def test_every_operator_set(tmp_path, opset):
    """Axes, pads, limits and scales are attributes in some operator sets and inputs in others."""
    nodes, weights = [node("Conv", "x w", "a", "conv", pads=[1] * 4)], [weight("w", (8, 3, 3, 3))]

    def vector(name, values, dtype=np.int64):
        weights.append(const(name, np.array(values, dtype)))
        return name

    if opset < 11:
        nodes += [node("Clip", "a", "b", min=0.0, max=6.0), node("Pad", "b", "c", pads=[0, 0, 1, 1, 0, 0, 1, 1])]
    else:
        nodes += [
            node("Clip", ["a", vector("lo", 0, np.float32), vector("hi", 6, np.float32)], "b"),
            node("Pad", ["b", vector("pads", [0, 0, 1, 1, 0, 0, 1, 1])], "c"),
        ]
    if opset < 10:
        nodes += [node("Slice", "c", "d", starts=[1, 0], ends=[-1, 2**40], axes=[2, 3])]
    else:
        nodes += [node("Slice", ["c", vector("b0", [1, 0]), vector("e0", [-1, 2**40]), vector("ax", [2, 3])], "d")]
    if opset < 9:
        nodes += [node("Upsample", "d", "u", scales=[1.0, 1.0, 2.0, 1.5])]
    elif opset < 11:
        op = "Upsample" if opset == 9 else "Resize"
        nodes += [node(op, ["d", vector("sc", [1, 1, 2, 1.5], np.float32)], "u")]
    else:
        nodes += [node("Resize", ["d", "", vector("sc", [1, 1, 2, 1.5], np.float32)], "u")]
    if opset < 13:
        nodes += [
            node("Unsqueeze", "u", "v", axes=[0]),
            node("Squeeze", "v", "q", axes=[0]),
            node("Split", "q", "s t", axis=1, split=[2, 6]),
            node("ReduceSum", "t", "r", axes=[3], keepdims=0),
        ]
    else:
        nodes += [
            node("Unsqueeze", ["u", vector("a0", [0])], "v"),
            node("Squeeze", ["v", "a0"], "q"),
            node("Split", ["q", vector("parts", [2, 6])], "s t", axis=1),
            node("ReduceSum", ["t", vector("a3", [3])], "r", keepdims=0),
        ]
    if opset < 18:
        nodes += [node("ReduceMean", "r", "m", axes=[-1])]
    else:
        nodes += [node("ReduceMean", ["r", vector("am", [-1])], "m")]
    nodes += [node("Flatten", "m", "f"), node("Gemm", "f g k", "y", "fc")]
    weights += [weight("g", (6, 5)), weight("k", (5,))]
    network = single(tmp_path, nodes, [info("x", (2, 3, 8, 8))], weights, opset=opset)
    assert brief(network) == [
        ("conv", {"N": 2, "K": 8, "C": 3, "P": 8, "Q": 8, "R": 3, "S": 3}),
        ("fc", {"N": 2, "K": 5, "C": 6}),
    ]
    assert edges(network)["fc"] == {"conv"}


def test_dynamic_shape_arithmetic_of_bert_exports(tmp_path):
    """Heads are split and merged with shapes computed in the graph, and masks are expanded to a computed shape."""
    i0, i1, i2 = const("i0", np.array(0)), const("i1", np.array(1)), const("i2", np.array([1]))
    nodes = [
        node("MatMul", "x wq", "q", "q"),
        node("Shape", "q", "shape"),
        node("Gather", "shape i0", "b"),
        node("Gather", "shape i1", "s"),
        node("Unsqueeze", "b", "b1", axes=[0]),
        node("Unsqueeze", "s", "s1", axes=[0]),
        node("Concat", "b1 s1 heads size", "split", axis=0),
        node("Reshape", "q split", "qh"),
        node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "qh", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "scores", "scores"),
        node("Concat", "b1 i2 s1 s1", "full", axis=0),
        node("ConstantOfShape", "one", "ones", value=helper.make_tensor("v", INT64, [1], [1])),
        node("Mul", "ones minus", "minuses"),
        node("Equal", "full minuses", "eq"),
        node("Where", "eq full full", "target"),
        node("Expand", "mask target", "m"),
        node("Where", "m scores scores", "masked"),
        node("Softmax", "masked", "p"),
        node("MatMul", "p qt", "ctx", "ctx"),
        node("Transpose", "ctx", "ct", perm=[0, 2, 1, 3]),
        node("Mul", "heads size", "width"),
        node("Concat", "b1 s1 width", "merge", axis=0),
        node("Reshape", "ct merge", "out"),
        node("MatMul", "out wq", "y", "o"),
    ]
    weights = [
        weight("wq", (32, 32)),
        const("heads", np.array([4])),
        const("size", np.array([8])),
        const("one", np.array([4])),
        const("minus", np.array([-1])),
        i0,
        i1,
        i2,
    ]
    inputs = [info("x", ("batch", "seq", 32)), info("mask", ("batch", 1, 1, "seq"), BOOL)]
    proto = model(nodes, inputs, ["y"], weights, opset=11)
    network, warnings = read(tmp_path, proto, batch=3, shapes={"x": (3, 11, 32)})
    assert warnings == []
    assert brief(network) == [
        ("fc", {"N": 33, "K": 32, "C": 32}),
        ("bmm", {"G": 12, "N": 11, "K": 11, "C": 8}),
        ("bmm", {"G": 12, "N": 11, "K": 8, "C": 11}),
        ("fc", {"N": 33, "K": 32, "C": 32}),
    ]
    assert edges(network)["ctx"] == {"scores", "q"}


def test_shapes_from_ranges_reductions_and_nonzero(tmp_path):
    nodes = [
        node("Shape", "x", "s"),
        node("ReduceProd", "s", "n", keepdims=1),
        node("Size", "x", "n0"),
        node("Range", "zero n0 one", "r"),
        node("Shape", "r", "rs"),
        node("ConstantOfShape", "rs", "mask", value=helper.make_tensor("v", BOOL, [1], [1])),
        node("NonZero", "mask", "nz"),
        node("Shape", "nz", "ns"),
        node("Gather", "ns oneV", "m"),
        node("Equal", "m n", "same"),
        node("Where", "same n zeroV", "length"),
        node("Div", "length twelve", "rows"),
        node("Concat", "rows minus", "t", axis=0),
        node("Reshape", "x t", "f"),
        node("MatMul", "f w", "y"),
    ]
    weights = [
        const("zero", np.int64(0)),
        const("one", np.int64(1)),
        const("oneV", np.array([1])),
        const("zeroV", np.array([0])),
        const("twelve", np.array([12])),
        const("minus", np.array([-1])),
        weight("w", (12, 5)),
    ]
    network = single(tmp_path, nodes, [info("x", (2, 3, 4, 5))], weights)
    assert brief(network) == [("fc", {"N": 10, "K": 5, "C": 12})]


def test_value_info_is_a_fallback_only(tmp_path):
    nodes = [
        node("Relu", "x", "r"),
        node("NonZero", "r", "nz"),
        node("Gather", "x rows", "g"),
        node("MatMul", "g w", "y"),
    ]
    weights = [weight("w", (4, 5))]
    inputs = [info("x", (6, 4)), info("rows", (3,), INT64)]
    wrong = [info("g", (99, 4)), info("nz", (2, 7), INT64)]
    network = single(tmp_path, nodes, inputs, weights, value_info=wrong)
    assert brief(network) == [("fc", {"N": 3, "K": 5, "C": 4})]
    nodes = [
        node("NonZero", "x", "nz"),
        node("Cast", "nz", "f", to=FLOAT),
        node("Transpose", "f", "t"),
        node("MatMul", "t w", "y"),
    ]
    network = single(
        tmp_path, nodes, [info("x", (6, 4))], [weight("w", (2, 5))], value_info=[info("nz", (2, 7), INT64)]
    )
    assert brief(network) == [("fc", {"N": 7, "K": 5, "C": 2})]


def test_a_size_that_depends_on_data_can_be_given(tmp_path):
    nodes = [
        node("NonZero", "x", "nz", "find"),
        node("Cast", "nz", "f", to=FLOAT),
        node("Transpose", "f", "t"),
        node("MatMul", "t w", "y"),
    ]
    proto = model(nodes, [info("x", (6, 4))], ["y"], [weight("w", (2, 5))])
    with pytest.raises(InputError, match=r"NonZero.*argument `shapes\[NAME\]`"):
        read(tmp_path, proto)
    network, _ = read(tmp_path, proto, shapes={"nz": (2, 9)})
    assert brief(network) == [("fc", {"N": 9, "K": 5, "C": 2})]


# ---------------------------------------------------------------------------------------------- input shapes


@pytest.mark.parametrize("symbol", ["batch", "N", "batch_size", "unk__12", "s77", "", "None", "dynamic_axes_1", -1, 0])
def test_a_symbolic_batch_is_one_with_one_warning(tmp_path, symbol):
    nodes = [node("Add", "x z", "a"), node("MatMul", "a w", "y")]
    size = None if symbol == "" else symbol
    inputs = [info("x", (size, 4)), info("z", (size, 4))]
    proto = model(nodes, inputs, ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto)
    assert brief(network) == [("fc", {"K": 5, "C": 4})]
    assert len(warnings) == 1 and "argument `batch`" in warnings[0]
    network, warnings = read(tmp_path, proto, batch=6)
    assert brief(network) == [("fc", {"N": 6, "K": 5, "C": 4})]
    assert warnings == []


@pytest.mark.parametrize(
    "shape",
    [
        ("batch", "seq", 4), ("seq_len", 4), (1, None, 4), ("batch", "s1", 4), ("height", 2, 4),
        ("B", "N", 4), ("batch", "n", 4), ("N", "batch", 4), ("s0", "N", 4), (None, "batch", 4),
        ("batch", "batches", 4), (1, "N", 4), (1, 3, "B", 4), ("N", 2, "N", 4), ("n", "N", "n", 4),
    ],
)  # fmt: skip
def test_other_symbolic_sizes_are_errors_that_name_the_argument(tmp_path, shape):
    proto = model([node("MatMul", "x w", "y")], [info("x", shape)], ["y"], [weight("w", (4, 5))])
    with pytest.raises(InputError, match=r"argument `shapes\[x\]=") as caught:
        read(tmp_path, proto)
    assert "'x'" in str(caught.value)
    full = tuple(d if isinstance(d, int) else 3 for d in shape)
    network, warnings = read(tmp_path, proto, shapes={"x": full})
    assert network.macs == int(np.prod(full)) * 5
    assert warnings == []


@pytest.mark.parametrize("first", [("N", 4), ("seq", "N", 4), (6, "N", 4)])
def test_a_letter_is_a_batch_behind_an_axis_of_one_if_it_is_that_of_another_input(tmp_path, first):
    """The first states of recurrent layers are `[layers, batch, hidden]`."""
    nodes = [node("MatMul", "x w", "y"), node("MatMul", "h v", "z")]
    inputs = [info("x", first), info("h", (1, "N", 8))]
    proto = model(nodes, inputs, ["y", "z"], [weight("w", (4, 5)), weight("v", (8, 3))])
    shapes = {"x": (7, 2, 4)} if first[0] == "seq" else {}
    network, _ = read(tmp_path, proto, batch=2, shapes=shapes)
    rows = {"N": 2, "seq": 14, 6: 12}[first[0]]
    assert brief(network) == [("fc", {"N": rows, "K": 5, "C": 4}), ("fc", {"N": 2, "K": 3, "C": 8})]


def test_warnings_are_one_line(tmp_path):
    proto = model([node("MatMul", "x w", "y")], [info("x", ("batch\nsize", 4))], ["y"], [weight("w", (4, 5))])
    _, warnings = read(tmp_path, proto)
    assert len(warnings) == 1 and "\n" not in warnings[0]


def test_a_leading_symbol_that_stands_elsewhere_is_no_batch(tmp_path):
    inputs = [info("x", ("s0", 4)), info("m", ("s1", "s0"))]
    nodes = [node("MatMul", "m x", "a"), node("MatMul", "a w", "y")]
    with pytest.raises(InputError, match="symbolic size 's0'"):
        read(tmp_path, model(nodes, inputs, ["y"], [weight("w", (4, 5))]))


@pytest.mark.parametrize("symbol", ["audio_samples", None])
def test_the_only_axis_of_an_input_is_a_batch_only_beside_samples(tmp_path, symbol):
    nodes = [node("Unsqueeze", "x ends", "u"), node("Conv", "u w", "y")]
    constants = [weight("w", (8, 1, 10)), const("ends", np.array([0, 1]))]
    proto = model(nodes, [info("x", (symbol,))], ["y"], constants)
    with pytest.raises(InputError, match=r"argument `shapes\[x\]=d`"):
        read(tmp_path, proto)
    nodes = [node("Gather", "table x", "u"), node("MatMul", "u z", "y")]
    inputs = [info("x", (symbol,), INT64), info("z", ("batch", 4, 2))]
    network, _ = read(tmp_path, model(nodes, inputs, ["y"], [weight("table", (9, 4))]), batch=3)
    assert brief(network) == [("bmm", {"N": 3, "C": 4, "K": 6})]


def test_identifiers_of_users_and_items_have_a_batch(tmp_path):
    """Sizes without names of several inputs of one axis, as recommenders have them."""
    nodes = [node("Gather", "table a", "u"), node("Gather", "table b", "v"), node("Mul", "u v", "m"),
             node("MatMul", "m w", "y")]  # fmt: skip
    inputs = [info("a", (None,), INT64), info("b", ("unk__7",), INT64)]
    proto = model(nodes, inputs, ["y"], [weight("table", (9, 4)), weight("w", (4, 5))])
    assert brief(read(tmp_path, proto, batch=3)[0]) == [("fc", {"N": 3, "C": 4, "K": 5})]


def test_a_batch_letter_that_is_another_axis_elsewhere_is_no_batch(tmp_path):
    """N counts points where B is the batch, so it is none in an input that starts with it either."""
    inputs = [info("x", ("B", "N", 4)), info("z", ("N", 4))]
    nodes = [node("Add", "x z", "a"), node("MatMul", "a w", "y")]
    with pytest.raises(InputError, match=r"symbolic size 'N'"):
        read(tmp_path, model(nodes, inputs, ["y"], [weight("w", (4, 5))]))


def test_an_expression_of_symbols_is_no_batch(tmp_path):
    proto = model([node("MatMul", "x w", "y")], [info("x", ("batch*seq", 4))], ["y"], [weight("w", (4, 5))])
    with pytest.raises(InputError, match=r"argument `shapes\[x\]=d,4`"):
        read(tmp_path, proto)


def test_user_shapes_bind_symbols_of_other_inputs(tmp_path):
    inputs = [info("x", ("batch", "seq", 4)), info("m", ("batch", "seq", 1))]
    nodes = [node("Mul", "x m", "a"), node("MatMul", "a w", "y")]
    network, warnings = read(tmp_path, model(nodes, inputs, ["y"], [weight("w", (4, 5))]), shapes={"m": (2, 7, 1)})
    assert network.layers[0].shape.N == 14
    assert warnings == []


def test_a_batch_multiplies_the_layers_of_a_graph_of_one_sample(tmp_path):
    nodes = [node("MatMul", "x w", "a"), node("Transpose", "a", "t", perm=[0, 2, 1]), node("MatMul", "a t", "y")]
    proto = model(nodes, [info("x", (1, 6, 4)), info("unused", (9, 4))], ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto, batch=4)
    assert warnings == []
    assert brief(network) == [("fc", {"N": 24, "C": 4, "K": 5}), ("bmm", {"G": 4, "N": 6, "C": 5, "K": 6})]
    network, warnings = read(tmp_path, proto, batch=4, shapes={"x": (4, 6, 4)})  # the user's shape includes the batch
    assert warnings == []
    assert brief(network) == [("fc", {"N": 24, "C": 4, "K": 5}), ("bmm", {"G": 4, "N": 6, "C": 5, "K": 6})]


@pytest.mark.parametrize("batch", [1, 4])
def test_a_batch_of_a_graph_of_several_samples_warns(tmp_path, batch):
    proto = model([node("MatMul", "x w", "y")], [info("x", (8, 4))], ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto, batch=batch)
    assert network.layers[0].shape.N == 8
    assert len(warnings) == 1 and f"a batch of {batch} has no effect: the first axis of input 'x' is" in warnings[0]


def test_a_batch_of_a_graph_warns_where_only_another_input_starts_with_it(tmp_path):
    proto = model([node("Conv", "x w", "y")], [info("x", (1, 8, 16, 16)), info("w", (4, 8, 3, 3))], ["y"])
    network, warnings = read(tmp_path, proto, batch=4)
    assert network.layers[0].shape.N == 1
    why = "the first axis of input 'x' is fixed at 1, and the first axis of input 'w' is fixed at 4"
    assert len(warnings) == 1 and f"a batch of 4 has no effect: {why}; export" in warnings[0]


@pytest.mark.parametrize("symbol", ["batch", "s0"])
@pytest.mark.parametrize("given", [1, 2, 4])
def test_a_batch_beside_a_shape_of_the_user(tmp_path, symbol, given):
    """A shape for one sample is multiplied whatever the axis is called; one for other than the batch warns."""
    proto = model([node("MatMul", "x w", "y")], [info("x", (symbol, 4))], ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto, batch=4, shapes={"x": (given, 4)})
    assert (2 if given == 2 else 4) == network.layers[0].shape.N
    told = "a batch of 4 has no effect: the first axis of input 'x' is fixed at 2; give it a shape of 1 or 4 samples"
    assert len(warnings) == (given == 2) and all(told in line for line in warnings)


def test_a_batch_that_is_not_the_first_axis(tmp_path):
    proto = model([node("MatMul", "x w", "y")], [info("x", ("seq", "batch", 4))], ["y"], [weight("w", (4, 5))])
    network, warnings = read(tmp_path, proto, batch=3, shapes={"x": (7, 3, 4)})
    assert network.layers[0].shape.N == 21 and warnings == []


@pytest.mark.parametrize("batch", [None, 1, 4])
def test_a_symbolic_batch_beside_a_fixed_one_warns(tmp_path, batch):
    inputs = [info("x", ("batch", 4)), info("z", (1, 4))]
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "z w", "b"), node("Add", "a b", "y")]
    network, warnings = read(tmp_path, model(nodes, inputs, ["y"], [weight("w", (4, 5))]), batch=batch)
    assert [layer.shape.N for layer in network.layers] == [batch or 1, 1]
    told = "a batch of 4 does not reach every input: the first axis of input 'z' is fixed at 1"
    assert [told in line for line in warnings] == {None: [False], 1: [], 4: [True]}[batch]


@pytest.mark.parametrize("stated", ["past", 0])
def test_an_empty_cache_adds_no_keys(tmp_path, stated):
    nodes = [node("Concat", "past k", "all", axis=2), node("MatMul", "q all", "y")]
    inputs = [info("past", (1, 2, stated, 8)), info("k", (1, 2, 4, 8)), info("q", (1, 2, 5, 4))]
    shapes = {"past": (1, 2, 0, 8)} if stated else None
    network, _ = read(tmp_path, model(nodes, inputs, ["y"]), shapes=shapes)
    assert brief(network) == [("bmm", {"G": 2, "N": 5, "K": 8, "C": 4})]


def test_unused_inputs_need_no_shape(tmp_path):
    inputs = [info("x", (1, 4)), info("flag", None), info("past", ("b", "past", 4))]
    network = single(tmp_path, [node("MatMul", "x w", "y")], inputs, [weight("w", (4, 5))])
    assert len(network.layers) == 1


# -------------------------------------------------------------------------------------- functions, control flow


def function(name, inputs, outputs, nodes, attributes=(), opset=17, domains=(), **keywords):
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_function("local", name, inputs, outputs, nodes, imports, list(attributes), **keywords)


def test_nested_functions_are_inlined(tmp_path):
    reference = node("Conv", "X W", "Y", "conv")
    attribute = onnx.AttributeProto(name="strides", ref_attr_name="steps", type=onnx.AttributeProto.INTS)
    reference.attribute.append(attribute)
    inner = function("Inner", ["X", "W"], ["Y"], [reference], ["steps"])
    outer = function(
        "Outer",
        ["X", "W", "B"],
        ["Z"],
        [
            node("Inner", "X W", "Y", "first", domain="local", steps=[2, 2]),
            node("Relu", "Y", "R"),
            node("Inner", "R W", "Z", "second", domain="local", steps=[1, 1]),
        ],
        domains=("local",),
    )
    nodes = [node("Outer", "x w", "a", "block", domain="local"), node("Outer", "a w", "y", "block2", domain="local")]
    proto = model(
        nodes,
        [info("x", (1, 4, 32, 32))],
        ["y"],
        [weight("w", (4, 4, 3, 3))],
        functions=[inner, outer],
        domains=("local",),
    )
    network, warnings = read(tmp_path, proto)
    assert [x.name for x in network.layers] == [
        "block/first/conv",
        "block/second/conv",
        "block2/first/conv",
        "block2/second/conv",
    ]
    assert [x.shape.P for x in network.layers] == [15, 13, 6, 4]
    assert warnings == []


def test_function_attribute_defaults(tmp_path):
    reference = node("Conv", "X W", "Y")
    reference.attribute.append(onnx.AttributeProto(name="pads", ref_attr_name="pads", type=onnx.AttributeProto.INTS))
    padded = function(
        "Padded", ["X", "W"], ["Y"], [reference], attribute_protos=[helper.make_attribute("pads", [1, 1, 1, 1])]
    )
    nodes = [
        node("Padded", "x w", "a", "a", domain="local"),
        node("Padded", "a w", "y", "b", domain="local", pads=[0] * 4),
    ]
    proto = model(
        nodes, [info("x", (1, 4, 8, 8))], ["y"], [weight("w", (4, 4, 3, 3))], functions=[padded], domains=("local",)
    )
    network, _ = read(tmp_path, proto)
    assert [x.shape.P for x in network.layers] == [8, 6]


def branch(name, nodes, output):
    return helper.make_graph(nodes, name, [], [info(output, None)])


def test_if_with_a_constant_condition_takes_its_branch(tmp_path):
    """TorchScript exports squeeze so: the condition compares shapes, and branches use outer tensors."""
    then = branch("then", [node("Gemm", "a w", "t", "then")], "t")
    other = branch("else", [node("Gemm", "a v", "e", "else")], "e")
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("Shape", "a", "s"),
        node("Gather", "s one", "d"),
        node("Equal", "d eight", "cond"),
        node("If", "cond", "i", "if", then_branch=then, else_branch=other),
        node("Gemm", "i u", "y", "last"),
    ]
    weights = [weight("w", (8, 8)), weight("v", (8, 6)), weight("u", (8, 2)), const("one", np.int64(1))]
    network = single(tmp_path, nodes, [info("x", (2, 8))], [*weights, const("eight", np.int64(8))])
    assert edges(network) == {"a": set(), "if/then": {"a"}, "last": {"if/then"}}


def test_if_on_data(tmp_path):
    plain = [branch(n, [node(op, "a", o)], o) for n, op, o in (("then", "Relu", "t"), ("else", "Tanh", "e"))]
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("If", "cond", "i", "choice", then_branch=plain[0], else_branch=plain[1]),
        node("Gemm", "i w", "y", "b"),
    ]
    inputs = [info("x", (2, 8)), info("cond", (), BOOL)]
    network = single(tmp_path, nodes, inputs, [weight("w", (8, 8))])
    assert edges(network) == {"a": set(), "b": {"a"}}
    layers = [branch(n, [node("Gemm", "a w", o)], o) for n, o in (("then", "t"), ("else", "e"))]
    nodes[1] = node("If", "cond", "i", "choice", then_branch=layers[0], else_branch=layers[1])
    proto = model(nodes, inputs, ["y"], [weight("w", (8, 8))])
    with pytest.raises(InputError, match=r"'choice' \(If\).*depends on data"):
        read(tmp_path, proto)
    network, warnings = read(tmp_path, proto, skip_unknown=True)
    assert edges(network) == {"a": set(), "b": {"a"}}
    assert len(warnings) == 1


def loop_body(nodes, carried, outputs):
    inputs = [info("i", (), INT64), info("go_in", (), BOOL), *carried]
    return helper.make_graph(nodes, "body", inputs, [info("go", (), BOOL), *outputs])


def test_loop_with_a_constant_trip_count_unrolls(tmp_path):
    body = loop_body(
        [node("Identity", "go_in", "go"), node("Gemm", "h w", "h2", "step"), node("Relu", "h2", "scan")],
        [info("h", None)],
        [info("h2", None), info("scan", None)],
    )
    nodes = [
        node("Loop", ["n", "", "x"], ["last", "all"], "loop", body=body),
        node("Reshape", "all flat", "f"),
        node("Gemm", "f w", "y", "after"),
    ]
    weights = [const("n", np.int64(3)), weight("w", (4, 4)), const("flat", np.array([-1, 4]))]
    network = single(tmp_path, nodes, [info("x", (2, 4))], weights)
    assert edges(network) == {
        "loop.0/step": set(),
        "loop.1/step": {"loop.0/step"},
        "loop.2/step": {"loop.1/step"},
        "after": {f"loop.{i}/step" for i in range(3)},
    }
    assert network.layers[3].shape.N == 6


def test_folded_values_are_kept_up_to_a_budget(tmp_path, monkeypatch):
    """Beyond the budget, values of long chains and of loops are dropped, but shapes are still computed."""
    body = loop_body(
        [node("Identity", "go_in", "go"), node("Identity", "v", "out")], [], [info("out", (1 << 16,), INT64)]
    )
    nodes = [node("Add", "v v", "t0"), *(node("Add", f"t{i} v", f"t{i + 1}") for i in range(30))]
    nodes += [node("Loop", ["n", ""], "all", "loop", body=body), node("Shape", "all", "s"), node("MatMul", "x w", "y")]
    weights = [const("v", np.arange(1 << 16)), const("n", np.int64(3)), weight("w", (4, 4))]
    monkeypatch.setattr(budget, "MAX_FOLDED", 1 << 19)
    walk = Walk(model(nodes, [info("x", (2, 4))], ["y"], weights), tmp_path, print)
    scope = walk.run({"x": Tensor((2, 4), producers=frozenset())})
    kept = [name for name in scope if name[0] == "t" and scope[name].data is not None]
    assert kept == [f"t{i}" for i in range(8)]
    assert scope["t30"].shape == (1 << 16,) and scope["t30"].const
    assert scope["all"].data is None
    assert scope["s"].data.tolist() == [3, 1 << 16]


def test_loop_that_ends_by_its_condition(tmp_path):
    body = loop_body(
        [node("Add", "i one", "j"), node("Less", "j four", "go"), node("Gemm", "h w", "h2", "step")],
        [info("h", None)],
        [info("h2", None)],
    )
    nodes = [node("Loop", ["", "yes", "x"], "y", "while", body=body)]
    weights = [const("one", np.int64(1)), const("four", np.int64(4)), const("yes", np.array(True)), weight("w", (4, 4))]
    network = single(tmp_path, nodes, [info("x", (2, 4))], weights)
    assert len(network.layers) == 4


def test_iterations_wait_for_the_conditions_before_them(tmp_path):
    """Whether a layer of a later iteration runs is known only then, even if it reads nothing of an earlier one."""
    body = loop_body(
        [
            node("Gemm", "h w", "h2", "step"),
            node("ReduceSum", "h2", "sum", keepdims=0),
            node("Greater", "sum zero", "go"),
            node("Gemm", "x w", "own", "own"),
        ],
        [info("h", None)],
        [info("h2", None), info("own", None)],
    )
    nodes = [node("Loop", ["n", "", "x"], ["last", "all"], "l", body=body), node("Identity", "all", "y")]
    weights = [const("n", np.int64(3)), const("zero", np.float32(0)), weight("w", (4, 4))]
    network, warnings = read(tmp_path, model(nodes, [info("x", (2, 4))], ["y"], weights))
    assert edges(network) == {
        "l.0/step": set(), "l.0/own": set(),
        "l.1/step": {"l.0/step"}, "l.1/own": {"l.0/step"},
        "l.2/step": {"l.1/step"}, "l.2/own": {"l.1/step"},
    }  # fmt: skip
    assert len(warnings) == 1


_LAYERS_OF_BRANCHES = [weight("wide", (4, 100)), weight("narrow", (4, 7))]


def choosing(condition):
    """A layer that is wide or narrow, as a condition tells."""
    then, other = branch("t", [node("MatMul", "x wide", "tt")], "tt"), branch("e", [node("MatMul", "x narrow", "ee")],
                                                                             "ee")  # fmt: skip
    return node("If", condition, "y", "choice", then_branch=then, else_branch=other)


@pytest.mark.parametrize("counted", ["by a sum", "by a sequence", "by what it gathers"])
def test_values_after_a_loop_that_may_end_early_are_unknown(tmp_path, counted):
    """The condition is a graph input: no layer decides, and still the loop runs 0 or 5 times."""
    keep = node("Identity", "go_in", "go")
    if counted == "by a sum":
        start = [node("Identity", "zero", "start")]
        body = loop_body([keep, node("Add", "v one", "v2")], [info("v", (), INT64)], [info("v2", (), INT64)])
        count = [node("Identity", "last", "n")]
    elif counted == "by what it gathers":
        start = [node("Identity", "zero", "start")]
        body = loop_body([keep, node("Add", "v one", "v2"), node("Identity", "v2", "s")], [info("v", (), INT64)],
                         [info("v2", (), INT64), info("s", (), INT64)])  # fmt: skip
        count = [node("ReduceMax", "made", "n", keepdims=0)]
    else:
        start = [node("SequenceEmpty", [], "start")]
        sequence = helper.make_tensor_sequence_value_info("v", FLOAT, None)
        body = loop_body([keep, node("SequenceInsert", "v x", "v2")], [sequence], [info("v2", None)])
        count = [node("SequenceLength", "last", "n")]
    made = "last made" if counted == "by what it gathers" else "last"
    nodes = [*start, node("Loop", "five go0 start", made, "l", body=body), *count, node("Equal", "n five", "same")]
    nodes.append(choosing("same"))
    weights = [const(name, np.int64(n)) for name, n in (("zero", 0), ("one", 1), ("five", 5))]
    proto = model(nodes, [info("x", (2, 4)), info("go0", (), BOOL)], ["y"], [*weights, *_LAYERS_OF_BRANCHES])
    with pytest.raises(InputError, match=r"'choice' \(If\): its condition depends on data"):
        read(tmp_path, proto)


@pytest.mark.parametrize("grown", ["carried", "gathered"])
def test_sizes_after_a_loop_that_may_end_early_are_those_of_all_trips(tmp_path, grown):
    keep = node("Identity", "go_in", "go")
    if grown == "carried":
        body = loop_body([keep, node("Concat", "v x", "v2", axis=0)], [info("v", None)], [info("v2", None)])
        nodes = [node("Loop", "five go0 x", "all", "l", body=body)]
    else:
        body = loop_body([keep, node("Relu", "x", "s")], [], [info("s", None)])
        nodes = [node("Loop", "five go0", "all", "l", body=body)]
    nodes.append(node("MatMul", "all w", "y"))
    proto = model(nodes, [info("x", (2, 4)), info("go0", (), BOOL)], ["y"],
                  [weight("w", (4, 3)), const("five", np.int64(5))])  # fmt: skip
    network, warnings = read(tmp_path, proto)
    assert brief(network) == [("fc", {"N": 12 if grown == "carried" else 10, "K": 3, "C": 4})]
    assert len(warnings) == 1 and "its end depends on data; all 5 iterations are counted" in warnings[0]


def test_a_decoder_that_stops_early_grows_its_cache_in_every_trip(tmp_path):
    """A step of decoding appends a key to its cache and reads all keys; what it has made ends the loop."""
    body = loop_body(
        [
            node("MatMul", "h wk", "k", "key"),
            node("Concat", "cache k", "cache2", axis=0),
            node("Transpose", "cache2", "kt"),
            node("MatMul", "h kt", "scores", "scores"),
            node("MatMul", "scores cache2", "h2", "context"),
            node("ReduceSum", "h2", "sum", keepdims=0),
            node("Greater", "sum nil", "go"),
        ],
        [info("h", None), info("cache", None)],
        [info("h2", None), info("cache2", None), info("h2", None)],
    )
    nodes = [
        node("Loop", ["three", "", "x", "past"], ["last", "keys", "steps"], "l", body=body),
        node("MatMul", "keys wk", "y", "after_keys"),
        node("MatMul", "steps wk", "z", "after_steps"),
    ]
    weights = [weight("wk", (4, 4)), const("three", np.int64(3)), const("nil", np.float32(0))]
    network, warnings = read(tmp_path, model(nodes, [info("x", (1, 4)), info("past", (6, 4))], ["y", "z"], weights))
    sizes = {layer.name: layer.shape for layer in network.layers}
    assert [sizes[f"l.{i}/scores"].K for i in range(3)] == [7, 8, 9]
    assert (sizes["after_keys"].N, sizes["after_steps"].N) == (9, 3)
    assert edges(network)["after_keys"] >= {"l.1/context"}  # the last decision waits for it
    assert len(warnings) == 1 and "all 3 iterations are counted" in warnings[0]


def test_what_a_loop_that_may_end_early_leaves_alone_is_known(tmp_path):
    body = loop_body([node("Identity", "go_in", "go"), node("Relu", "v", "v2")], [info("v", None)], [info("v2", None)])
    nodes = [node("Loop", "five go0 x", "all", "l", body=body), node("MatMul", "all w", "y")]
    inputs = [info("x", (2, 4)), info("go0", (), BOOL)]
    network = single(tmp_path, nodes, inputs, [weight("w", (4, 3)), const("five", np.int64(5))])
    assert brief(network) == [("fc", {"N": 2, "K": 3, "C": 4})]


def test_all_trips_of_a_loop_that_may_end_early_are_counted(tmp_path):
    """Its body always goes on, but data decide whether it starts."""
    body = loop_body([node("Identity", "yes", "go"), node("Gemm", "h w", "h2")], [info("h", None)], [info("h2", None)])
    nodes = [node("MatMul", "x w", "a", "a"), node("Loop", "three go0 a", "l", "l", body=body),
             node("MatMul", "l w", "y", "b")]  # fmt: skip
    weights = [weight("w", (4, 4)), const("three", np.int64(3)), const("yes", np.array(True))]
    network, warnings = read(tmp_path, model(nodes, [info("x", (2, 4)), info("go0", (), BOOL)], ["y"], weights))
    assert len(network.layers) == 5 and edges(network)["b"] == {network.layers[3].name}
    assert len(warnings) == 1 and "its end depends on data; all 3 iterations are counted" in warnings[0]


def test_the_last_condition_of_a_loop_does_not_matter(tmp_path):
    body = loop_body([node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "go"),
                      node("Add", "v one", "v2")], [info("v", (), INT64)], [info("v2", (), INT64)])  # fmt: skip
    nodes = [node("Loop", ["one", "", "one"], "n", "l", body=body), node("Equal", "n two", "same"), choosing("same")]
    weights = [const("one", np.int64(1)), const("two", np.int64(2)), const("zero", np.float32(0))]
    network = single(tmp_path, nodes, [info("x", (2, 4))], [*weights, *_LAYERS_OF_BRANCHES])
    assert brief(network) == [("fc", {"N": 2, "K": 100, "C": 4})]


def test_a_loop_that_runs_zero_times_gathers_nothing(tmp_path):
    body = loop_body([node("Identity", "go_in", "go"), node("MatMul", "x w", "s")], [], [info("s", (2, 4))])
    nodes = [node("Loop", ["zero", ""], "all", "l", body=body), node("Concat", "all z", "k", axis=0),
             node("MatMul", "k w", "y")]  # fmt: skip
    network = single(tmp_path, nodes, [info("x", (2, 4)), info("z", (3, 2, 4))],
                     [weight("w", (4, 4)), const("zero", np.int64(0))])  # fmt: skip
    assert brief(network) == [("fc", {"N": 6, "K": 4, "C": 4})]


@pytest.mark.parametrize("order", [("many", "few"), ("few", "many")])
def test_each_call_of_a_function_tries_its_loops(tmp_path, order):
    body = loop_body([node("Add", "v one", "v2"), node("Less", "v2 most", "go")], [info("v", (), INT64)],
                     [info("v2", (), INT64)])  # fmt: skip
    made = [helper.make_node("Constant", [], [name], value=const(name, value))
            for name, value in (("zero", np.int64(0)), ("one", np.int64(1)), ("yes", np.array(True)))]  # fmt: skip
    count = helper.make_function("own", "Count", ["most"], ["n"],
                                 [*made, node("Loop", ["", "yes", "zero"], "n", body=body)],
                                 [helper.make_opsetid("", 17)])  # fmt: skip
    nodes = [node("Count", most, f"n_{most}", domain="own") for most in order]
    nodes += [node("Equal", "n_few few", "same"), choosing("same")]
    weights = [const("many", np.int64(5000)), const("few", np.int64(3)), *_LAYERS_OF_BRANCHES]
    network = single(tmp_path, nodes, [info("x", (2, 4))], weights, functions=[count], domains=("own",))
    assert brief(network) == [("fc", {"N": 2, "K": 100, "C": 4})]


@pytest.mark.parametrize("key", ["scan_input_axes", "scan_output_axes"])
def test_the_axes_of_a_scan_exist(tmp_path, key):
    body = helper.make_graph([node("MatMul", "t w", "out")], "body", [info("t", None)], [info("out", None)])
    nodes = [node("Scan", "x", "y", "scan", body=body, num_scan_inputs=1, **{key: [5]})]
    proto = model(nodes, [info("x", (4, 3, 8))], ["y"], [weight("w", (8, 2))])
    with pytest.raises(InputError, match=r"'scan' \(Scan\).*axis 5 does not exist in a tensor of 3 axes"):
        read(tmp_path, proto)


@pytest.mark.parametrize("trips", ["data", 10**9])
def test_loop_that_cannot_be_unrolled(tmp_path, trips):
    body = loop_body(
        [node("Identity", "go_in", "go"), node("Gemm", "h w", "h2")], [info("h", None)], [info("h2", None)]
    )
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("Loop", ["n", "", "a"], "l", "rounds", body=body),
        node("Gemm", "l w", "y", "b"),
    ]
    weights, inputs = [weight("w", (4, 4))], [info("x", (2, 4))]
    if trips == "data":
        inputs.append(info("n", (), INT64))
    else:
        weights.append(const("n", np.int64(trips)))
    proto = model(nodes, inputs, ["y"], weights)
    with pytest.raises(InputError, match=r"'rounds' \(Loop\)"):
        read(tmp_path, proto)
    network, warnings = read(tmp_path, proto, skip_unknown=True)
    assert edges(network) == {"a": set(), "b": {"a"}}
    assert len(warnings) == 1


def test_loop_on_data_without_layers_passes_dependencies_on(tmp_path):
    body = loop_body(
        [node("Identity", "go_in", "go"), node("Add", "h c", "h2"), node("ReduceSum", "h2", "s", keepdims=0)],
        [info("h", None)],
        [info("h2", None), info("s", None)],
    )
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("Gemm", "x w", "c", "c"),
        node("Loop", ["n", "", "a"], ["l", "sums"], "rounds", body=body),
        node("Gemm", "l w", "y", "b"),
    ]
    network = single(tmp_path, nodes, [info("x", (2, 4)), info("n", (), INT64)], [weight("w", (4, 4))])
    assert edges(network)["b"] == {"a", "c"}


def test_scan_unrolls_over_its_axis(tmp_path):
    body = helper.make_graph(
        [node("Add", "h t", "s"), node("Gemm", "s w", "h2", "step"), node("Identity", "h2", "out")],
        "body",
        [info("h", None), info("t", None)],
        [info("h2", None), info("out", None)],
    )
    nodes = [
        node("Scan", "h0 x", "last all", "scan", body=body, num_scan_inputs=1, scan_input_axes=[1]),
        node("ReduceSum", "all axes", "r", keepdims=0),
        node("Gemm", "r w", "y", "after"),
    ]
    weights = [weight("w", (4, 4)), const("axes", np.array([0]))]
    network = single(tmp_path, nodes, [info("h0", (2, 4)), info("x", (2, 5, 4))], weights)
    assert [x.name for x in network.layers] == [f"scan.{i}/step" for i in range(5)] + ["after"]
    assert len(network.layers[5].predecessors) == 5


def test_a_scan_that_does_not_unroll_knows_no_last_value_of_a_state(tmp_path):
    body = helper.make_graph(
        [node("Add", "n one", "n2"), node("Identity", "t", "out")],
        "body",
        [info("n", (1,), INT64), info("t", None)],
        [info("n2", (1,), INT64), info("out", None)],
    )
    nodes = [
        node("Scan", "zero x", "n all", "scan", body=body, num_scan_inputs=1),
        node("Concat", "n four", "size", axis=0),
        node("ConstantOfShape", "size", "made"),
        node("MatMul", "made h", "y", "after"),
    ]
    weights = [const(name, np.array([value])) for name, value in (("zero", 0), ("one", 1), ("four", 4))]
    network = single(tmp_path, nodes, [info("x", (5, 4)), info("h", (4, 4))], weights)
    assert network.layers[0].shape.macs == 5 * 16
    with pytest.raises(InputError, match="after"):
        single(tmp_path, nodes, [info("x", (100_000, 4)), info("h", (4, 4))], weights)


def test_a_scan_that_is_passed_over_keeps_its_shapes(tmp_path):
    body = helper.make_graph(
        [node("Gemm", "t w", "h2", "step"), node("Identity", "h2", "out")],
        "body",
        [info("h", None), info("t", None)],
        [info("h2", None), info("out", None)],
    )
    nodes = [
        node("Scan", "h0 x", "last all", "scan", body=body, num_scan_inputs=1),
        node("MatMul", "all v", "y", "after"),
        node("MatMul", "last v", "z", "end"),
    ]
    inputs = [info("h0", (2, 5)), info("x", (20_000, 2, 4))]
    proto = model(nodes, inputs, ["y", "z"], [weight("w", (4, 5)), weight("v", (5, 3))])
    with pytest.raises(InputError, match=r"'scan' \(Scan\).*20,000"):
        read(tmp_path, proto)
    network, warnings = read(tmp_path, proto, skip_unknown=True)
    assert brief(network) == [("fc", {"N": 40_000, "K": 3, "C": 5}), ("fc", {"N": 2, "K": 3, "C": 5})]
    assert len(warnings) == 1


@pytest.mark.parametrize("attributes", [{}, {"noop_with_empty_axes": 1}])
def test_a_reduction_of_unknown_rank_is_a_number_only_where_it_reduces_all(tmp_path, attributes):
    def made(axes):
        nodes = [
            node("NonZero", "k", "places"),
            node("Reshape", "places flat", "s"),
            node("Reshape", "x s", "r"),
            node("ReduceSum", f"r {axes}".split(), "t", keepdims=0, **attributes),
            node("Add", "t h", "u"),
            node("MatMul", "u w", "y", "after"),
        ]
        inputs = [info("x", (2, 4)), info("h", (2, 4)), info("k", (3,))]
        return single(tmp_path, nodes, inputs, [weight("w", (4, 4)), const("flat", np.array([-1]))])

    with pytest.raises(InputError, match="after"):
        made("s")
    if attributes:
        with pytest.raises(InputError, match="after"):
            made("")
    else:
        assert made("").layers[0].shape.macs == 2 * 16


@pytest.mark.parametrize("batch", [1, 3])
def test_scan_of_operator_set_8_runs_for_each_entry_of_the_batch(tmp_path, batch):
    body = helper.make_graph(
        [node("Add", "h t", "s"), node("MatMul", "s w", "h2", "step"), node("Identity", "h2", "out")],
        "body",
        [info("h", None), info("t", None)],
        [info("h2", None), info("out", None)],
    )
    nodes = [
        node("Scan", ["", "h0", "x"], "last all", "scan", body=body, num_scan_inputs=1),
        node("MatMul", "all w", "y", "after"),
        node("MatMul", "last w", "z", "end"),
    ]
    inputs = [info("h0", (batch, 2, 4)), info("x", (batch, 5, 2, 4))]
    proto = model(nodes, inputs, ["y", "z"], [weight("w", (4, 4))], opset=8)
    network, warnings = read(tmp_path, proto)
    assert warnings == []
    runs = [f"scan.{b}.{i}/step" if batch > 1 else f"scan.{i}/step" for b in range(batch) for i in range(5)]
    assert [layer.name for layer in network.layers] == [*runs, "after", "end"]
    before = edges(network)
    for k, name in enumerate(runs):
        assert before[name] == ({runs[k - 1]} if k % 5 else set())
    assert before["after"] == set(runs) and before["end"] == set(runs[4::5])
    assert [layer.shape.macs for layer in network.layers[-2:]] == [batch * 5 * 2 * 16, batch * 2 * 16]
    proto = model(nodes, [inputs[0], info("x", ("batch", "seq", 2, 4))], ["y"], [weight("w", (4, 4))], opset=8)
    with pytest.raises(InputError, match="symbolic size 'seq'"):
        read(tmp_path, proto)


def test_sequence_map_runs_its_body_per_element(tmp_path):
    body = helper.make_graph([node("Gemm", "e w", "o", "g")], "body", [info("e", None)], [info("o", None)])
    nodes = [
        node("SequenceConstruct", "x z", "s"),
        node("SequenceMap", "s", "m", "map", body=body),
        node("ConcatFromSequence", "m", "y", axis=0),
    ]
    network = single(tmp_path, nodes, [info("x", (2, 4)), info("z", (3, 4))], [weight("w", (4, 4))])
    assert [x.shape.N for x in network.layers] == [2, 3]


def test_an_embedding_by_convolution_is_not_modelled_with_a_warning(tmp_path):
    nodes = [
        node("WordConvEmbedding", "ids w b table", "e", "embed", domain="com.microsoft"),
        node("MatMul", "e u", "y"),
    ]
    inputs = [info("ids", (1, 5, 9), INT32), info("w", (6, 1, 2, 4)), info("b", (6,)), info("table", (30, 4))]
    proto = model(nodes, inputs, ["y"], [weight("u", (6, 7))], domains=("com.microsoft",))
    network, warnings = read(tmp_path, proto, shapes={"e": (1, 5, 6)})
    assert [layer.macs for layer in network.layers] == [5 * 6 * 7]
    told = "WordConvEmbedding does multiply-accumulates that are not modelled; it is no layer"
    assert len(warnings) == 1 and told in warnings[0]


def test_unknown_operators_pass_dependencies_on_if_wanted(tmp_path):
    nodes = [
        node("Gemm", "x w", "a", "a"),
        node("Magic", "a", "m", "trick", domain="acme"),
        node("Gemm", "m w", "y", "b"),
    ]
    proto = model(nodes, [info("x", (2, 4))], ["y"], [weight("w", (4, 4))], domains=("acme",))
    with pytest.raises(InputError, match=r"'trick' \(Magic\).*acme.*argument `skip_unknown`"):
        read(tmp_path, proto)
    network, warnings = read(tmp_path, proto, skip_unknown=True)
    assert edges(network) == {"a": set(), "b": {"a"}}
    assert len(warnings) == 1 and "'trick'" in warnings[0]


@pytest.mark.parametrize(("shapes", "rows", "stale"), [
    ({}, 16, False), ({"x": (1, 16, 8)}, 16, False), ({"x": (1, 32, 8)}, 16, True),
    ({"x": (1, 32, 8), "u": (1, 32, 8)}, 32, False),
])  # fmt: skip
def test_what_the_file_states_may_be_stale_where_a_shape_is_changed(tmp_path, shapes, rows, stale):
    nodes = [node("Magic", "x", "u", "trick", domain="acme"), node("MatMul", "u w", "y")]
    proto = model(nodes, [info("x", (1, 16, 8))], ["y"], [weight("w", (8, 4))], domains=("acme",),
                  value_info=[info("u", (1, 16, 8))])  # fmt: skip
    network, warnings = read(tmp_path, proto, skip_unknown=True, shapes=shapes)
    assert [layer.shape.N for layer in network.layers] == [rows]
    told = [line for line in warnings if "tensor 'u' keeps the shape 1x16x8 that the file states, though" in line]
    assert len(told) == stale and len(warnings) == 1 + stale
    assert all("with the argument `shapes[u]`" in line for line in told)


def test_one_line_tells_of_all_shapes_that_may_be_stale(tmp_path):
    """Those inside a branch are not told: the user can give none there."""
    branches = {
        key: branch(key, [node("Magic", "x", f"{key}1", "inside", domain="acme"), node("Relu", f"{key}1", key)], key)
        for key in ("then", "other")
    }
    inside = info("then1", (1, 16, 8))
    branches["then"].value_info.append(inside)
    nodes = [node("Magic", "x", f"u{i}", f"trick{i}", domain="acme") for i in range(3)]
    nodes += [node("If", "yes", "b", "choice", then_branch=branches["then"], else_branch=branches["other"])]
    nodes += [node("Add", "u0 u1", "a"), node("Add", "a u2", "c"), node("MatMul", "c w", "y")]
    proto = model(nodes, [info("x", (1, 16, 8))], ["y", "b"], [weight("w", (8, 4)), const("yes", np.array(True))],
                  domains=("acme",), value_info=[info(f"u{i}", (1, 16, 8)) for i in range(3)])  # fmt: skip
    _, warnings = read(tmp_path, proto, skip_unknown=True, shapes={"x": (1, 32, 8)})
    told = [line for line in warnings if "that the file states" in line]
    assert len(told) == 1 and "tensor 'u0'" in told[0] and "(and likewise for 2 more)" in told[0]


def test_an_unknown_operator_over_constants_makes_a_weight(tmp_path):
    nodes = [node("Magic", "w s", "m", "trick", domain="acme"), node("MatMul", "x m", "y")]
    proto = model(nodes, [info("x", (2, 4))], ["y"], [weight("w", (4, 5)), weight("s", (5,))], domains=("acme",))
    network, _ = read(tmp_path, proto, skip_unknown=True)
    assert [layer.type for layer in network.layers] == ["fc"]


@pytest.mark.parametrize("op", ["SwiGLU", "LinearAttention", "CausalConvWithState"])
def test_operators_of_newer_operator_sets(tmp_path, op):
    """One is element-wise; the others are no layers, with a warning, like those of ONNX Runtime."""
    operands = "a a a" if op == "LinearAttention" else "a a"
    nodes = [node("MatMul", "x w", "a", "a"), node(op, operands, "b"), node("MatMul", "b w", "y", "b")]
    proto = model(nodes, [info("x", (2, 4))], ["y"], [weight("w", (4, 4))], opset=28)
    network, warnings = read(tmp_path, proto, shapes={} if op == "SwiGLU" else {"b": (2, 4)})
    assert edges(network) == {"a": set(), "b": {"a"}}
    assert [f"{op} does multiply-accumulates" in line for line in warnings] == ([] if op == "SwiGLU" else [True])


def test_products_that_are_not_modelled_warn(tmp_path):
    nodes = [node("DFT", "x", "f", "fourier", onesided=1), node("Reshape", "f s", "r"), node("Gemm", "r w", "y")]
    proto = model(nodes, [info("x", (1, 16, 1))], ["y"], [weight("w", (18, 4)), const("s", np.array([1, 18]))])
    network, warnings = read(tmp_path, proto)
    assert len(network.layers) == 1
    assert len(warnings) == 1 and "'fourier'" in warnings[0]
