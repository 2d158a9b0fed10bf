"""Fused attention operators: windows, packed sequences, caches, what each output waits for, and misfits."""

import numpy as np
import pytest
from test_workload_import import read
from workload_models import INT32, brief, const, edges, info, model, node, weight

from mohamjax.errors import InputError

ORT = {"domain": "com.microsoft"}


def attention(folder, nodes, inputs, constants=(), outputs=("y",)):
    return read(folder, model(nodes, inputs, outputs, constants, opset=23, domains=("com.microsoft",)))


@pytest.mark.parametrize(("window", "seen"), [(-1, 99), (16, 16), (99, 99), (500, 99)])
def test_a_query_of_grouped_attention_sees_the_keys_in_its_window(tmp_path, window, seen):
    nodes = [
        node("GroupQueryAttention", ["q", "k", "k", "", "", "", "n"], ["y", "keys", "values"], num_heads=4,
             kv_num_heads=2, local_window_size=window, **ORT),
        node("MatMul", "keys w", "z", "after"),
    ]  # fmt: skip
    inputs = [info("q", (1, 3, 32)), info("k", (1, 3, 16))]
    network, warnings = attention(tmp_path, nodes, inputs, [const("n", np.int32(99)), weight("w", (8, 8))])
    assert brief(network)[:2] == [
        ("bmm", {"G": 2, "N": 6, "K": seen, "C": 8}),
        ("bmm", {"G": 2, "N": 6, "K": 8, "C": seen}),
    ]
    assert network.layers[2].shape.N == 2 * 99  # all keys are handed on
    assert len(warnings) == (seen < 99) and all("with its local window only" in line for line in warnings)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("op", ["PackedAttention", "PackedMultiHeadAttention"])
def test_packed_tokens_are_those_of_several_sequences(tmp_path, op, known):
    operands = ["x", "w", "b"] if op == "PackedAttention" else ["x", "x", "x", ""]
    offset = info("offset", (8, 16) if known else None, INT32)
    nodes = [node("Identity", "offset", "o"), node(op, [*operands, "o", "sums"], ["y"], num_heads=4, **ORT)]
    inputs = [info("x", (128, 32)), offset, info("sums", (9,), INT32)]
    proto = model(nodes, inputs, ["y"], [weight("w", (32, 96)), weight("b", (96,))], domains=("com.microsoft",))
    if not known:
        proto.graph.node[0].CopyFrom(node("NonZero", "sums", "o"))
    network, warnings = read(tmp_path, proto)
    groups, length = (32, 16) if known else (4, 128)
    assert brief(network)[-2:] == [
        ("bmm", {"G": groups, "N": length, "K": length, "C": 8}),
        ("bmm", {"G": groups, "N": length, "K": 8, "C": length}),
    ]
    assert [line for line in warnings if "token_offset is unknown" in line] == ([] if known else warnings)
    assert len(warnings) == (not known)


@pytest.mark.parametrize("op", ["PackedAttention", "PackedMultiHeadAttention"])
def test_tokens_without_padding_are_those_of_a_padded_batch(tmp_path, op):
    """How many tokens are no padding depends on data, so that all places count, with a warning."""
    operands = ["p", "w", "b", "o", "sums"] if op == "PackedAttention" else ["p", "p", "p", "", "o", "sums"]
    nodes = [
        node("RemovePadding", "x n", "p o sums longest", "pack", **ORT),
        node(op, operands, ["a"], "att", num_heads=4, **ORT),
        node("RestorePadding", "a o", "r", **ORT),
        node("MatMul", "r v", "y", "after"),
    ]
    inputs = [info("x", (2, 10, 32)), info("n", (2,), INT32)]
    weights = [weight("w", (32, 96)), weight("b", (96,)), weight("v", (32, 5))]
    network, warnings = attention(tmp_path, nodes, inputs, weights)
    assert brief(network)[-3:] == [
        ("bmm", {"G": 8, "N": 10, "K": 10, "C": 8}),
        ("bmm", {"G": 8, "N": 10, "K": 8, "C": 10}),
        ("fc", {"N": 20, "K": 5, "C": 32}),
    ]
    assert [layer.shape.N for layer in network.layers[:-3]] == ([20] if op == "PackedAttention" else [])
    assert len(warnings) == 1 and "'pack'" in warnings[0] and "all 20 places count" in warnings[0]


@pytest.mark.parametrize("packed", [True, False])
def test_one_token_of_a_decoder_may_hold_queries_keys_and_values(tmp_path, packed):
    operands = ["q", "", ""] if packed else ["q", "k", "k"]
    nodes = [
        node("DecoderMaskedMultiHeadAttention", [*operands, "", "", "past", "past", "n"], ["a"], num_heads=4,
             past_present_share_buffer=1, **ORT),
        node("MatMul", "a w", "y"),
    ]  # fmt: skip
    inputs = [info("q", (1, 1, 192 if packed else 64)), info("past", (1, 4, 128, 16))]
    inputs += [] if packed else [info("k", (1, 1, 64))]
    network, _ = attention(tmp_path, nodes, inputs, [const("n", np.int32(20)), weight("w", (64, 64))])
    assert brief(network) == [
        ("bmm", {"G": 4, "K": 21, "C": 16}),
        ("bmm", {"G": 4, "K": 16, "C": 21}),
        ("fc", {"K": 64, "C": 64}),
    ]


def test_grouped_attention_may_have_more_keys_than_queries(tmp_path):
    nodes = [
        node("GroupQueryAttention", ["q", "k", "k", "", "", "", "n"], ["y"], num_heads=4, kv_num_heads=2, **ORT),
    ]
    inputs = [info("q", (1, 1, 64)), info("k", (1, 100, 32)), info("n", (), INT32)]
    network, _ = attention(tmp_path, nodes, inputs)
    assert brief(network) == [
        ("bmm", {"G": 2, "N": 2, "K": 100, "C": 16}),
        ("bmm", {"G": 2, "N": 2, "K": 16, "C": 100}),
    ]


@pytest.mark.parametrize("past", [(1, 4, 6, 8), (1, 2, 6, 9), (2, 6, 8)])
def test_past_keys_are_like_the_new_ones(tmp_path, past):
    nodes = [node("Attention", ["q", "k", "k", "", "past", "past"], ["y"], "att")]
    inputs = [info("q", (1, 4, 3, 8)), info("k", (1, 2, 3, 8)), info("past", past)]
    with pytest.raises(InputError, match=r"'att'.*where \?x2x\?x8 is needed"):
        attention(tmp_path, nodes, inputs)


def test_a_past_of_one_sample_beside_a_larger_batch_is_a_warning(tmp_path):
    nodes = [node("Attention", ["q", "k", "k", "", "past", "past"], ["y"], "att")]
    inputs = [info("q", ("batch", 4, 3, 8)), info("k", ("batch", 2, 3, 8)), info("past", (1, 2, 6, 8))]
    network, warnings = read(tmp_path, model(nodes, inputs, ["y"], opset=23), batch=4)
    assert brief(network)[0] == ("bmm", {"G": 8, "N": 6, "K": 9, "C": 8})
    assert len(warnings) == 1 and "the first axis of input 'past' is fixed at 1" in warnings[0]


def with_cache(op):
    """An attention whose operands, past keys and past values come from a layer each, and readers of all its outputs."""
    past = {
        "Attention": ["q", "k", "v", "", "pk", "pv"],
        "MultiHeadAttention": ["q", "k", "v", "", "", "", "pk", "pv"],
        "GroupQueryAttention": ["q", "k", "v", "pk", "pv", "", "n"],
    }[op]
    heads = {
        "Attention": {"q_num_heads": 4, "kv_num_heads": 4},
        "MultiHeadAttention": {"num_heads": 4, **ORT},
        "GroupQueryAttention": {"num_heads": 4, "kv_num_heads": 4, **ORT},
    }[op]
    nodes = [node("MatMul", f"x {x}w", x, x) for x in "qkv"]
    nodes += [node("MatMul", "old u", x, x) for x in ("pk", "pv")]
    nodes += [node(op, past, ["y", "keys", "values", "qk"], "att", **heads)]
    nodes += [node("MatMul", f"{x} {w}", f"{x}_out", x) for x, w in (("keys", "u"), ("values", "u"), ("qk", "s"))]
    weights = [weight(f"{x}w", (32, 32)) for x in "qkv"]
    weights += [weight("u", (8, 8)), weight("s", (8, 8)), const("n", np.int32(8))]
    return nodes, [info("x", (1, 3, 32)), info("old", (1, 4, 5, 8))], weights


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention", "GroupQueryAttention"])
def test_each_output_waits_for_what_it_is_made_of(tmp_path, op):
    network, warnings = attention(tmp_path, *with_cache(op))
    assert warnings == []
    before = edges(network)
    assert before["att/scores"] == {"q", "k", "pk"}
    assert before["att/context"] == {"att/scores", "v", "pv"}
    assert before["keys"] == {"k", "pk"} and before["values"] == {"v", "pv"}
    assert before["qk"] == {"att/scores"}
    assert [layer.shape.N for layer in network.layers[-3:]] == [4 * 8, 4 * 8, 4 * 3]


def test_present_keys_of_one_tensor_hold_the_past_ones(tmp_path):
    nodes = [
        node("MatMul", "old u", "past", "past"),
        node("Attention", ["x", "w", "", "", "past"], ["y", "present"], "att", num_heads=4, **ORT),
        node("MatMul", "present u", "z", "after"),
    ]
    weights = [weight("w", (32, 96)), weight("u", (8, 8))]
    network, _ = attention(tmp_path, nodes, [info("x", (1, 3, 32)), info("old", (2, 1, 4, 5, 8))], weights)
    assert edges(network)["after"] == {"att/qkv", "past"}


_MISFITS = {
    "batch of the values": ("Attention", (1, 4, 5, 8), (1, 2, 7, 8), (2, 2, 7, 8)),
    "length of the values": ("Attention", (1, 4, 5, 8), (1, 2, 7, 8), (1, 2, 9, 8)),
    "heads of the values": ("Attention", (1, 4, 5, 8), (1, 2, 7, 8), (1, 4, 7, 8)),
    "flat values": ("flat Attention", (1, 5, 32), (1, 7, 16), (1, 9, 16)),
    "batch of the keys": ("MultiHeadAttention", (1, 5, 32), (3, 7, 32), (3, 7, 32)),
    "length of other values": ("MultiHeadAttention", (1, 5, 32), (1, 7, 32), (1, 9, 32)),
    "heads of the keys": ("MultiHeadAttention", (1, 5, 32), (1, 2, 7, 8), (1, 2, 7, 8)),
    "batch of grouped keys": ("GroupQueryAttention", (1, 5, 32), (3, 5, 16), (3, 5, 16)),
    "length of grouped values": ("GroupQueryAttention", (1, 5, 32), (1, 5, 16), (1, 9, 16)),
    "width of grouped values": ("GroupQueryAttention", (1, 5, 32), (1, 5, 16), (1, 5, 24)),
}


@pytest.mark.parametrize("case", _MISFITS)
def test_operands_that_do_not_fit_together(tmp_path, case):
    op, *shapes = _MISFITS[case]
    attributes = {
        "Attention": {},
        "flat Attention": {"q_num_heads": 4, "kv_num_heads": 2},
        "MultiHeadAttention": {"num_heads": 4, **ORT},
        "GroupQueryAttention": {"num_heads": 4, "kv_num_heads": 2, **ORT},
    }[op]
    nodes = [node(op.removeprefix("flat "), "q k v", "y", "att", **attributes)]
    inputs = [info(name, shape) for name, shape in zip("qkv", shapes, strict=True)]
    with pytest.raises(InputError, match=r"'att'.*(differ in batch, key/value heads or length|channel mismatch).*;"):
        attention(tmp_path, nodes, inputs)


def test_queries_and_keys_of_one_projection_have_one_width(tmp_path):
    nodes = [node("Attention", "x w", "y", num_heads=4, qkv_hidden_sizes=[32, 64, 96], **ORT)]
    with pytest.raises(InputError, match="a query of 32 channels and a key of 64"):
        attention(tmp_path, nodes, [info("x", (1, 8, 64))], [weight("w", (64, 192))])


def test_queries_and_keys_are_turned_each_in_its_own_shape(tmp_path):
    nodes = [
        node("GemmaRotaryEmbedding", "place q q k k", "qr kr", **ORT),
        node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]),
        node("MatMul", "qr kt", "y"),
    ]
    inputs = [info("place", (1, 5, 16)), info("q", (1, 4, 5, 16)), info("k", (1, 4, 7, 16))]
    network, _ = attention(tmp_path, nodes, inputs)
    assert brief(network) == [("bmm", {"G": 4, "N": 5, "K": 7, "C": 16})]


def test_tokens_that_may_not_repeat_leave_the_scores_their_shape(tmp_path):
    nodes = [node("NGramRepeatBlock", "ids x", "s", ngram_size=2, **ORT), node("MatMul", "s w", "y")]
    network, _ = attention(tmp_path, nodes, [info("ids", (2, 9)), info("x", (2, 30))], [weight("w", (30, 4))])
    assert brief(network) == [("fc", {"N": 2, "K": 4, "C": 30})]
