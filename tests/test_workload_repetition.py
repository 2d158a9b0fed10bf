"""Grouped-query attention and other products that share an operand: keys and values are read once in every form.

Graphs are checked with the reference evaluator of the onnx package: it computes the repeated keys of random values,
and the number of distinct matrices among them is the number of groups.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from workload_models import FLOAT, brief, const, info, model, node, save, weight

from mohamjax.workload import read_network
from mohamjax.workload.repetition import first_places, of_places, plain, reshaped
from mohamjax.workload.tensor import Tensor
from mohamjax.workload.walk import Walk

BATCH, HEADS, KV_HEADS, QUERIES, KEYS, SIZE = 1, 8, 2, 9, 513, 64
WORDS = 65_664


def ints(name, *values):
    return const(name, np.asarray(values, np.int64))


# ------------------------------------------------------------------------------- graphs that repeat keys and values

REPEATS = {}
"""Name -> function that makes `{x}r` [batch, heads, length, size] from `{x}` [batch, kv_heads, length, size]."""


def repeat(function):
    REPEATS[function.__name__] = function
    return function


@repeat
def expand(x, b, h, kv, n, d):
    nodes = [
        node("Unsqueeze", f"{x} {x}_two", f"{x}u"),
        node("Expand", f"{x}u {x}_wide", f"{x}e"),
        node("Reshape", f"{x}e {x}_full", f"{x}r"),
    ]
    return nodes, [ints(f"{x}_two", 2), ints(f"{x}_wide", b, kv, h // kv, n, d), ints(f"{x}_full", b, h, n, d)]


@repeat
def expand_before_the_heads_are_axes(x, b, h, kv, n, d):
    """Length comes before heads, and the repeated heads are one axis of channels for a while."""
    nodes = [
        node("Transpose", f"{x}", f"{x}t", perm=[0, 2, 1, 3]),
        node("Unsqueeze", f"{x}t {x}_three", f"{x}u"),
        node("Expand", f"{x}u {x}_wide", f"{x}e"),
        node("Reshape", f"{x}e {x}_flat", f"{x}f"),
        node("Reshape", f"{x}f {x}_full", f"{x}g"),
        node("Transpose", f"{x}g", f"{x}r", perm=[0, 2, 1, 3]),
    ]
    wide = ints(f"{x}_wide", 1, 1, 1, h // kv, 1)
    return nodes, [ints(f"{x}_three", 3), wide, ints(f"{x}_flat", b, n, h * d), ints(f"{x}_full", b, n, h, d)]


@repeat
def expand_of_a_known_shape(x, b, h, kv, n, d):
    """The shape of the expansion is computed by Shape, Slice and Concat."""
    nodes = [
        node("Shape", f"{x}", f"{x}_shape"),
        node("Slice", f"{x}_shape {x}_0 {x}_2", f"{x}_front"),
        node("Slice", f"{x}_shape {x}_2 {x}_4", f"{x}_back"),
        node("Concat", f"{x}_front {x}_g {x}_back", f"{x}_wide", axis=0),
        node("Unsqueeze", f"{x} {x}_2", f"{x}u"),
        node("Expand", f"{x}u {x}_wide", f"{x}e"),
        node("Reshape", f"{x}e {x}_full", f"{x}r"),
    ]
    values = [ints(f"{x}_{i}", i) for i in (0, 2, 4)]
    return nodes, [*values, ints(f"{x}_g", h // kv), ints(f"{x}_full", 0, -1, n, d)]


@repeat
def tile(x, b, h, kv, n, d):
    return [node("Tile", f"{x} {x}_times", f"{x}r")], [ints(f"{x}_times", 1, h // kv, 1, 1)]


@repeat
def tile_inside(x, b, h, kv, n, d):
    nodes = [
        node("Reshape", f"{x} {x}_thin", f"{x}u"),
        node("Tile", f"{x}u {x}_times", f"{x}e"),
        node("Reshape", f"{x}e {x}_full", f"{x}r"),
    ]
    times = ints(f"{x}_times", 1, 1, h // kv, 1, 1)
    return nodes, [ints(f"{x}_thin", b, kv, 1, n, d), times, ints(f"{x}_full", b, h, n, d)]


@repeat
def concat(x, b, h, kv, n, d):
    return [node("Concat", [x] * (h // kv), [f"{x}r"], axis=1)], []


@repeat
def stack(x, b, h, kv, n, d):
    """`torch.stack([x, x, ...], 2)`: every part has its own Unsqueeze."""
    parts = [f"{x}{i}" for i in range(h // kv)]
    nodes = [node("Unsqueeze", f"{x} {x}_two", part) for part in parts]
    nodes += [node("Concat", parts, [f"{x}c"], axis=2), node("Reshape", f"{x}c {x}_full", f"{x}r")]
    return nodes, [ints(f"{x}_two", 2), ints(f"{x}_full", b, h, n, d)]


@repeat
def split_and_tile(x, b, h, kv, n, d):
    """`repeat_interleave` head by head."""
    parts = [f"{x}{i}" for i in range(kv)]
    nodes = [node("Split", f"{x} {x}_ones", " ".join(parts), axis=1)]
    nodes += [node("Tile", f"{part} {x}_times", f"{part}t") for part in parts]
    nodes += [node("Concat", [f"{part}t" for part in parts], [f"{x}r"], axis=1)]
    return nodes, [ints(f"{x}_ones", *[1] * kv), ints(f"{x}_times", 1, h // kv, 1, 1)]


@repeat
def split_and_concat(x, b, h, kv, n, d):
    parts = [f"{x}{i}" for i in range(kv)]
    nodes = [
        node("Split", f"{x} {x}_ones", " ".join(parts), axis=1),
        node("Concat", [part for part in parts for _ in range(h // kv)], [f"{x}r"], axis=1),
    ]
    return nodes, [ints(f"{x}_ones", *[1] * kv)]


@repeat
def sequence_of_tiles(x, b, h, kv, n, d):
    parts = [f"{x}{i}" for i in range(kv)]
    nodes = [node("Split", f"{x} {x}_ones", " ".join(parts), axis=1)]
    nodes += [node("Tile", f"{part} {x}_times", f"{part}t") for part in parts]
    nodes += [node("SequenceConstruct", [f"{part}t" for part in parts], [f"{x}s"])]
    nodes += [node("ConcatFromSequence", f"{x}s", f"{x}r", axis=1)]
    return nodes, [ints(f"{x}_ones", *[1] * kv), ints(f"{x}_times", 1, h // kv, 1, 1)]


@repeat
def gather(x, b, h, kv, n, d):
    nodes = [node("Gather", f"{x} {x}_at", f"{x}r", axis=1)]
    return nodes, [ints(f"{x}_at", *[i // (h // kv) for i in range(h)])]


@repeat
def gather_in_turn(x, b, h, kv, n, d):
    nodes = [node("Gather", f"{x} {x}_at", f"{x}r", axis=1)]
    return nodes, [ints(f"{x}_at", *[i % kv - kv for i in range(h)])]


@repeat
def gather_to_two_axes(x, b, h, kv, n, d):
    nodes = [node("Gather", f"{x} {x}_at", f"{x}g", axis=1), node("Reshape", f"{x}g {x}_full", f"{x}r")]
    at = np.arange(kv)[:, None].repeat(h // kv, 1)
    return nodes, [const(f"{x}_at", at), ints(f"{x}_full", b, h, n, d)]


@repeat
def twice(x, b, h, kv, n, d):
    """All heads are repeated too often, and a slice keeps the required ones."""
    nodes = [
        node("Concat", [f"{x}"] * (h // kv), [f"{x}c"], axis=1),
        node("Tile", f"{x}c {x}_times", f"{x}t"),
        node("Slice", f"{x}t {x}_from {x}_to {x}_axis", f"{x}r"),
    ]
    values = [ints(f"{x}_times", 1, 3, 1, 1), ints(f"{x}_from", h), ints(f"{x}_to", 2 * h), ints(f"{x}_axis", 1)]
    return nodes, values


@repeat
def entry_by_entry(x, b, h, kv, n, d):
    """Operators after the repetition change all heads alike: casts, scales, masks, rotations of halves."""
    nodes, constants = expand(x, b, h, kv, n, d)
    nodes[-1] = node("Reshape", f"{x}e {x}_full", f"{x}1")
    nodes += [
        node("Cast", f"{x}1", f"{x}2", to=FLOAT),
        node("Mul", f"{x}2 {x}_scale", f"{x}3"),
        node("Where", f"{x}_mask {x}3 {x}_scale", f"{x}4"),
        node("Slice", f"{x}4 {x}_zero {x}_half {x}_last", f"{x}5"),
        node("Slice", f"{x}4 {x}_half {x}_end {x}_last", f"{x}6"),
        node("Neg", f"{x}6", f"{x}7"),
        node("Concat", f"{x}7 {x}5", f"{x}8", axis=3),
        node("Add", f"{x}4 {x}8", f"{x}9"),
        node("Clip", f"{x}9", f"{x}10"),
        node("QuantizeLinear", f"{x}10 {x}_scale", f"{x}11"),
        node("DequantizeLinear", f"{x}11 {x}_scale", f"{x}12"),
        node("Identity", f"{x}12", f"{x}r"),
    ]
    constants += [
        const(f"{x}_scale", np.float32(0.5)),
        const(f"{x}_mask", np.arange(1, n + 1)[:, None] % 3 > 0),
        ints(f"{x}_zero", 0),
        ints(f"{x}_half", d // 2),
        ints(f"{x}_end", d),
        ints(f"{x}_last", 3),
    ]
    return nodes, constants


def attention(form, b, h, kv, q, n, d):
    """Scores and context of queries [b, h, q, d] over repeated keys and values [b, kv, n, d]."""
    nodes, constants = REPEATS[form]("k", b, h, kv, n, d)
    more, others = REPEATS[form]("v", b, h, kv, n, d)
    nodes = [
        *nodes,
        *more,
        node("Transpose", "kr", "turned", perm=[0, 1, 3, 2]),
        node("MatMul", "q turned", "s", "scores"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p vr", "y", "context"),
    ]
    inputs = [info("q", (b, h, q, d)), info("k", (b, kv, n, d)), info("v", (b, kv, n, d))]
    return model(nodes, inputs, ["y", "kr", "vr"], [*constants, *others], opset=17)


def check(network, b=BATCH, h=HEADS, kv=KV_HEADS, q=QUERIES, n=KEYS, d=SIZE):
    """Checks the two products of an attention: words read, words computed, and multiply-accumulates."""
    scores, context = network.layers[-2:]
    rows = q * h // kv
    assert scores.shape.bounds[:4] == (b * kv, rows, n, d)
    assert context.shape.bounds[:4] == (b * kv, rows, d, n)
    for layer in (scores, context):
        assert layer.type == "bmm"
        assert layer.macs == b * h * q * n * d
        assert layer.shape.tensor_words[0] == b * kv * n * d
    assert scores.shape.tensor_words == (b * kv * n * d, b * h * q * d, b * h * q * n)
    assert context.shape.tensor_words == (b * kv * n * d, b * h * q * n, b * h * q * d)


@pytest.mark.parametrize("form", REPEATS)
def test_repeated_keys_and_values_are_read_once(tmp_path, form):
    network = read_network(save(tmp_path, attention(form, BATCH, HEADS, KV_HEADS, QUERIES, KEYS, SIZE)))
    check(network)
    assert brief(network) == [
        ("bmm", {"G": 2, "N": 36, "K": 513, "C": 64}),
        ("bmm", {"G": 2, "N": 36, "K": 64, "C": 513}),
    ]
    assert [layer.shape.tensor_words[0] for layer in network.layers] == [WORDS, WORDS]


def distinct(array):
    """Number of different matrices along all axes but the last two."""
    return len(np.unique(array.reshape(-1, array.shape[-2] * array.shape[-1]), axis=0))


def values(proto, seed=0):
    """All outputs by name, computed from random inputs."""
    rng = np.random.default_rng(seed)
    given = {x.name: tuple(d.dim_value for d in x.type.tensor_type.shape.dim) for x in proto.graph.input}
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in given.items()}
    names = [x.name for x in proto.graph.output]
    return dict(zip(names, ReferenceEvaluator(proto).run(None, given), strict=True))


SIZES = {
    "b": st.integers(1, 3),
    "kv": st.integers(1, 4),
    "group": st.integers(1, 6),
    "q": st.integers(1, 5),
    "n": st.integers(1, 7),
    "half": st.integers(1, 3),
}


@settings(max_examples=80, deadline=None)
@given(form=st.sampled_from(list(REPEATS)), **SIZES)
def test_groups_are_the_distinct_keys(tmp_path_factory, form, b, kv, group, q, n, half):
    d = 2 * half + 4  # large enough that two heads of random keys still differ when they are quantised
    proto = attention(form, b, kv * group, kv, q, n, d)
    network = read_network(save(tmp_path_factory.mktemp("g"), proto))
    check(network, b, kv * group, kv, q, n, d)
    if form != "entry_by_entry":
        got = values(proto)
        assert distinct(got["kr"]) == distinct(got["vr"]) == network.layers[0].shape.G


# ------------------------------------------------------------------------------------- products that broadcast, Einsum


def products(nodes, shapes, constants=()):
    return model(nodes, [info(name, shape) for name, shape in shapes.items()], ["y"], constants, opset=17)


FORMS = {
    "groups are an axis": lambda b, h, kv, q, n, d: products(
        [node("MatMul", "q k", "s"), node("Softmax", "s", "p"), node("MatMul", "p v", "y")],
        {"q": (b, kv, h // kv, q, d), "k": (b, kv, 1, d, n), "v": (b, kv, 1, n, d)},
    ),
    "groups are rows": lambda b, h, kv, q, n, d: products(
        [
            node("Reshape", "q rows", "r"),
            node("MatMul", "r k", "s"),
            node("Softmax", "s", "p"),
            node("MatMul", "p v", "y"),
        ],
        {"q": (b, h, q, d), "k": (b, kv, d, n), "v": (b, kv, n, d)},
        [ints("rows", b, kv, q * h // kv, d)],
    ),
    "Einsum": lambda b, h, kv, q, n, d: products(
        [
            node("Einsum", "q k", "s", equation="bqhgd,bkhd->bhgqk"),
            node("Softmax", "s", "p"),
            node("Einsum", "p v", "y", equation="bhgqk,bkhd->bqhgd"),
        ],
        {"q": (b, q, kv, h // kv, d), "k": (b, n, kv, d), "v": (b, n, kv, d)},
    ),
    "Einsum that broadcasts": lambda b, h, kv, q, n, d: products(
        [
            node("Einsum", "q k", "s", equation="...qd,...kd->...qk"),
            node("Softmax", "s", "p"),
            node("Einsum", "p v", "y", equation="...qk,...kd->...qd"),
        ],
        {"q": (b, kv, h // kv, q, d), "k": (b, kv, 1, n, d), "v": (b, kv, 1, n, d)},
    ),
    "Einsum of repeated keys": lambda b, h, kv, q, n, d: products(
        [
            node("Tile", "k times", "kr"),
            node("Tile", "v times", "vr"),
            node("Einsum", "q kr", "s", equation="bhqd,bkhd->bhqk"),
            node("Softmax", "s", "p"),
            node("Einsum", "p vr", "y", equation="bhqk,bkhd->bqhd"),
        ],
        {"q": (b, h, q, d), "k": (b, n, kv, d), "v": (b, n, kv, d)},
        [ints("times", 1, 1, h // kv, 1)],
    ),
    "the fused product of ONNX Runtime": lambda b, h, kv, q, n, d: model(
        [
            node("Gather", "k heads", "kr", axis=1),
            node("Gather", "v heads", "vr", axis=2),
            node("FusedMatMul", "q kr", "s", domain="com.microsoft", transB=1),
            node("Softmax", "s", "p"),
            node("FusedMatMul", "p vr", "y", domain="com.microsoft", transBatchB=0),
        ],
        [info("q", (b, h, q, d)), info("k", (b, kv, n, d)), info("v", (1, b, kv, n, d))],
        ["y"],
        [ints("heads", *[i // (h // kv) for i in range(h)])],
        domains=("com.microsoft",),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_broadcast_keys_and_values_are_read_once(tmp_path, form):
    network = read_network(save(tmp_path, FORMS[form](BATCH, HEADS, KV_HEADS, QUERIES, KEYS, SIZE)))
    check(network)
    assert [layer.shape.tensor_words[0] for layer in network.layers] == [WORDS, WORDS]


@settings(max_examples=60, deadline=None)
@given(form=st.sampled_from(list(FORMS)), **SIZES)
def test_broadcast_products_of_any_size(tmp_path_factory, form, b, kv, group, q, n, half):
    network = read_network(save(tmp_path_factory.mktemp("b"), FORMS[form](b, kv * group, kv, q, n, half)))
    check(network, b, kv * group, kv, q, n, half)


def test_keys_first_are_read_once_too(tmp_path):
    """Scores are written as keys by queries: the first operand is shared, and the queries of a group are columns."""
    nodes = [node("Transpose", "q", "t", perm=[0, 1, 2, 4, 3]), node("MatMul", "k t", "y")]
    network = read_network(save(tmp_path, products(nodes, {"q": (1, 2, 4, 9, 64), "k": (1, 2, 1, 513, 64)})))
    assert brief(network) == [("bmm", {"G": 2, "N": 513, "K": 36, "C": 64})]
    assert network.layers[0].shape.tensor_words[1] == WORDS


@pytest.mark.parametrize("how", ["broadcast", "Expand", "vector of batches"])
def test_one_operand_for_all_batch_entries(tmp_path, how):
    """Rows of all batch entries share one operand: they are rows of one product per head."""
    k = {"broadcast": (1, 4, 5, 7), "Expand": (1, 4, 5, 7), "vector of batches": (4, 5, 7)}[how]
    nodes = [node("Expand", "k wide", "e")] if how == "Expand" else []
    nodes += [node("MatMul", f"q {'e' if how == 'Expand' else 'k'}", "y")]
    proto = products(nodes, {"q": (3, 4, 6, 5), "k": k}, [ints("wide", 3, 1, 1, 1)] if how == "Expand" else [])
    network = read_network(save(tmp_path, proto))
    assert brief(network) == [("bmm", {"G": 4, "N": 18, "K": 7, "C": 5})]
    assert network.layers[0].macs == 3 * 4 * 6 * 5 * 7


# ------------------------------------------------------------------------------------------------------ fused attention


def flat(b, n, heads, d):
    return (b, n, heads * d)


def fused(op, b, h, kv, q, n, d):
    """A fused operator over keys and values of few heads, which are repeated for operators without groups."""
    contrib = {"domain": "com.microsoft", "num_heads": h}
    if op == "GroupQueryAttention":  # as many keys as queries, unless a cache or an input says otherwise
        nodes = [node(op, ["q", "k", "v", "", "", "", "n"], ["y"], kv_num_heads=kv, **contrib)]
        shapes, constants = [flat(b, q, h, d), flat(b, q, kv, d), flat(b, q, kv, d)], [const("n", np.int32(n))]
    elif op == "packed GroupQueryAttention":
        nodes = [node("GroupQueryAttention", ["q", "", "", "", "", "", "n"], ["y"], kv_num_heads=kv, **contrib)]
        shapes, constants = [flat(b, q, h + 2 * kv, d)], [const("n", np.int32(n))]
    elif op == "SparseAttention":
        nodes = [node(op, ["q", "k", "v", "", "", "", "", "n"], ["y"], kv_num_heads=kv, **contrib)]
        shapes, constants = [flat(b, q, h, d), flat(b, q, kv, d), flat(b, q, kv, d)], [const("n", np.int32(n))]
    elif op == "flat Attention":
        nodes = [node("Attention", "q k v", "y", q_num_heads=h, kv_num_heads=kv)]
        shapes, constants = [flat(b, q, h, d), flat(b, n, kv, d), flat(b, n, kv, d)], []
    elif op == "Attention":
        nodes, shapes, constants = [node("Attention", "q k v", "y")], [(b, h, q, d), (b, kv, n, d), (b, kv, n, d)], []
    elif op == "Attention of repeated keys":
        nodes = [node("Tile", f"{x} times", f"{x}r") for x in "kv"]
        nodes += [node("Attention", "q kr vr", "y")]
        shapes, constants = [(b, h, q, d), (b, kv, n, d), (b, kv, n, d)], [ints("times", 1, h // kv, 1, 1)]
    else:
        packed = op == "PackedMultiHeadAttention"
        front = () if packed else (b,)
        nodes = []
        for x in "kv":
            nodes += [node("Unsqueeze", f"{x} at", f"{x}u"), node("Expand", f"{x}u wide", f"{x}e")]
            nodes += [node("Reshape", f"{x}e all", f"{x}r")]
        nodes += [node(op, "q kr vr", "y", **contrib)]
        shapes = [(*front, q, h * d), (*front, n, kv, d), (*front, n, kv, d)]
        constants = [ints("at", len(front) + 2), ints("wide", *front, n, kv, h // kv, d), ints("all", *front, n, h * d)]
    inputs = [info(name, shape) for name, shape in zip("qkv", shapes, strict=False)]
    return model(nodes, inputs, ["y"], constants, opset=23, domains=("com.microsoft",))


FUSED = (
    "GroupQueryAttention",
    "packed GroupQueryAttention",
    "SparseAttention",
    "flat Attention",
    "Attention",
    "Attention of repeated keys",
    "MultiHeadAttention",
    "PackedMultiHeadAttention",
    "DecoderMaskedMultiHeadAttention",
)


@pytest.mark.parametrize("op", FUSED)
def test_fused_attention_reads_keys_and_values_once(tmp_path, op):
    network = read_network(save(tmp_path, fused(op, BATCH, HEADS, KV_HEADS, QUERIES, KEYS, SIZE)), warn=lambda _: None)
    check(network)
    assert [layer.shape.tensor_words[0] for layer in network.layers] == [WORDS, WORDS]


@settings(max_examples=60, deadline=None)
@given(op=st.sampled_from(FUSED), **SIZES)
def test_fused_attention_of_any_size(tmp_path_factory, op, b, kv, group, q, n, half):
    b = 1 if op == "PackedMultiHeadAttention" else b
    proto = fused(op, b, kv * group, kv, q, n, 2 * half)
    network = read_network(save(tmp_path_factory.mktemp("f"), proto), warn=lambda _: None)
    check(network, b, kv * group, kv, q, n, 2 * half)


def test_multi_query_attention_has_one_group(tmp_path):
    network = read_network(save(tmp_path, fused("Attention", 1, 8, 1, 9, 513, 64)))
    assert brief(network) == [("bmm", {"N": 72, "K": 513, "C": 64}), ("bmm", {"N": 72, "K": 64, "C": 513})]


def test_a_cache_of_every_head_is_read_head_by_head(tmp_path):
    """Repeated keys are appended to a cache with different values for every head: nothing is shared."""
    nodes = [node("Tile", f"{x} times", f"{x}r") for x in "kv"]
    nodes += [node("Attention", ["q", "kr", "vr", "", "pk", "pv"], ["y"])]
    shapes = {"q": (1, 8, 1, 4), "k": (1, 2, 1, 4), "v": (1, 2, 1, 4), "pk": (1, 8, 6, 4), "pv": (1, 8, 6, 4)}
    inputs = [info(name, shape) for name, shape in shapes.items()]
    proto = model(nodes, inputs, ["y"], [ints("times", 1, 4, 1, 1)], opset=23)
    assert brief(read_network(save(tmp_path, proto)))[0] == ("bmm", {"G": 8, "K": 7, "C": 4})
    shared = [node("Tile", f"{x} times", f"{x}r") for x in ("k", "v", "pk", "pv")]
    shared += [node("Attention", ["q", "kr", "vr", "", "pkr", "pvr"], ["y"])]
    inputs = [info(n, (1, 2, *s[2:]) if n[0] == "p" else s) for n, s in shapes.items()]
    proto = model(shared, inputs, ["y"], [ints("times", 1, 4, 1, 1)], opset=23)
    assert brief(read_network(save(tmp_path, proto)))[0] == ("bmm", {"G": 2, "N": 4, "K": 7, "C": 4})


def test_a_cache_in_another_order_shares_what_both_share(tmp_path):
    """New keys repeat each head four times, cached keys alternate: only pairs of heads share both."""
    nodes = [node("Gather", f"{x} each", f"{x}r", axis=1) for x in "kv"]
    nodes += [node("Gather", f"p{x} turn", f"p{x}r", axis=1) for x in "kv"]
    nodes += [node("Attention", ["q", "kr", "vr", "", "pkr", "pvr"], ["y"])]
    shapes = {"q": (1, 8, 1, 4), "k": (1, 2, 1, 4), "v": (1, 2, 1, 4), "pk": (1, 2, 6, 4), "pv": (1, 2, 6, 4)}
    constants = [ints("each", *[0] * 4, *[1] * 4), ints("turn", *[0, 1] * 4)]
    proto = model(nodes, [info(name, shape) for name, shape in shapes.items()], ["y"], constants, opset=23)
    network = read_network(save(tmp_path, proto))
    assert brief(network) == [("bmm", {"G": 4, "N": 2, "K": 7, "C": 4}), ("bmm", {"G": 4, "N": 2, "K": 4, "C": 7})]


def test_a_bias_inside_multi_head_attention_differs_from_head_to_head(tmp_path):
    nodes = [node("Tile", f"{x} times", f"{x}r") for x in "kv"]
    nodes += [node("MultiHeadAttention", "q kr vr bias", "y", domain="com.microsoft", num_heads=4)]
    inputs = [info("q", (1, 5, 32)), info("k", (1, 7, 8)), info("v", (1, 7, 8))]
    proto = model(nodes, inputs, ["y"], [ints("times", 1, 1, 4), weight("bias", (96,))], domains=("com.microsoft",))
    assert brief(read_network(save(tmp_path, proto)))[0] == ("bmm", {"G": 4, "N": 5, "K": 7, "C": 8})


# ------------------------------------------------------------------------------------------------ what is not repeated


def keys_through(nodes, constants, inputs=()):
    """The product of queries of 8 heads with keys that `nodes` make from two heads, `k` -> `kr` [1, 8, 5, 6]."""
    inputs = [info("q", (1, 8, 3, 6)), info("k", (1, 2, 5, 6)), *inputs]
    tail = [node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "y", "scores")]
    return model([*nodes, *tail], inputs, ["y"], constants)


EVERY_HEAD = ("bmm", {"G": 8, "N": 3, "K": 5, "C": 6})

DIFFERENT = {
    "heads in no order": (
        [node("Gather", "k at", "kr", axis=1)],
        [ints("at", 0, 0, 0, 1, 0, 1, 1, 1)],
    ),
    "one head more often": (
        [node("Gather", "k at", "kr", axis=1)],
        [ints("at", 0, 0, 0, 0, 0, 1, 1, 1)],
    ),
    "unequal parts": (
        [
            node("Split", "k ones", "a b", axis=1),
            node("Concat", "a a a", "c", axis=1),
            node("Concat", "b b b b b", "d", axis=1),
            node("Concat", "c d", "kr", axis=1),
        ],
        [ints("ones", 1, 1)],
    ),
    "another value for every head": (
        [node("Tile", "k times", "t"), node("Add", "t own", "kr")],
        [ints("times", 1, 4, 1, 1), weight("own", (8, 1, 1))],
    ),
    "a scale for every head": (
        [
            node("Tile", "k times", "t"),
            node("QuantizeLinear", "t scales", "u", axis=1),
            node("DequantizeLinear", "u scales", "kr", axis=1),
        ],
        [ints("times", 1, 4, 1, 1), weight("scales", (8,))],
    ),
    "a repetition of the wrong axis": (
        [node("Tile", "k times", "t"), node("Reshape", "t full", "kr")],
        [ints("times", 1, 1, 1, 4), ints("full", 1, 8, 5, 6)],
    ),
    "heads that are cut across": (
        [node("Tile", "k times", "t"), node("Transpose", "t", "u", perm=[0, 2, 1, 3]), node("Reshape", "u full", "kr")],
        [ints("times", 1, 4, 1, 1), ints("full", 1, 8, 5, 6)],
    ),
    "the sum along the heads": (
        [node("Tile", "k times", "t"), node("CumSum", "t one", "kr")],
        [ints("times", 1, 4, 1, 1), const("one", np.int64(1))],
    ),
    "members of a sequence": (
        [
            node("Tile", "k times", "t"),
            node("SplitToSequence", "k pairs", "s", axis=1),
            *(node("SequenceAt", f"s at{i % 2}", f"p{i}") for i in range(4)),
            node("Concat", "p0 p1 p0 p1 p1 p1 p0 p0", "kr", axis=1),
        ],
        [ints("times", 1, 4, 1, 1), const("pairs", np.int64(1)), const("at0", np.int64(0)), const("at1", np.int64(1))],
    ),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_is_no_plain_repetition_is_counted_head_by_head(tmp_path, case):
    proto = keys_through(*DIFFERENT[case])
    assert brief(read_network(save(tmp_path, proto))) == [EVERY_HEAD]


def test_a_layer_that_computes_the_same_heads_again_writes_them_again(tmp_path):
    """Keys that a product computes from repeated activations: every copy is computed, so every copy is read."""
    nodes = [node("Tile", "k times", "t"), node("MatMul", "t w", "kr")]
    network = read_network(save(tmp_path, keys_through(nodes, [ints("times", 1, 4, 1, 1), weight("w", (6, 6))])))
    assert brief(network)[-1] == EVERY_HEAD


def test_heads_that_repeat_in_part_share_in_part(tmp_path):
    """[0, 0, 1, 1, 0, 0, 2, 2] consists of pairs, but has no longer regular order."""
    nodes = [node("Concat", "k k", "c", axis=1), node("Gather", "c at", "kr", axis=1)]
    at = ints("at", 0, 0, 1, 1, 0, 0, 3, 3)  # head 3 equals head 1: [0, 0, 1, 1] twice
    assert brief(read_network(save(tmp_path, keys_through(nodes, [at])))) == [
        ("bmm", {"G": 2, "N": 12, "K": 5, "C": 6})
    ]
    nodes = [node("Concat", "k more", "c", axis=1), nodes[1]]
    proto = keys_through(nodes, [at], [info("more", (1, 2, 5, 6))])
    assert brief(read_network(save(tmp_path, proto))) == [("bmm", {"G": 4, "N": 6, "K": 5, "C": 6})]


@pytest.mark.parametrize(("orders", "want"), [(250, ("bmm", {"G": 2, "N": 12, "K": 5, "C": 6})), (260, EVERY_HEAD)])
def test_the_search_for_regular_orders_ends(tmp_path, orders, want):
    """Hundreds of irregular orders of thousands of places: beyond about a million places, heads are not grouped."""
    nodes = [node("Gather", "z irregular", f"z{i}", axis=0) for i in range(orders)]
    nodes += [node("Gather", "k at", "kr", axis=1)]
    irregular = const("irregular", np.random.default_rng(0).integers(0, 9, 4096))
    proto = keys_through(nodes, [irregular, ints("at", *[0] * 4, *[1] * 4)], [info("z", (9,))])
    assert brief(read_network(save(tmp_path, proto))) == [want]


def test_members_of_a_sequence_that_are_alike_are_not_the_same(tmp_path):
    """Parts of one size differ only by their place: two heads stay two, each of them four times."""
    nodes = [
        node("SplitToSequence", "k one", "s", axis=1),
        node("ConcatFromSequence", "s", "c", axis=1),
        node("Tile", "c times", "kr"),
    ]
    proto = keys_through(nodes, [const("one", np.int64(1)), ints("times", 1, 4, 1, 1)])
    assert brief(read_network(save(tmp_path, proto))) == [("bmm", {"G": 2, "N": 12, "K": 5, "C": 6})]


def test_members_of_two_sequences_are_not_the_same(tmp_path):
    """Each head is joined with the next one, from two sequences that lack the last and the first head."""
    body = helper.make_graph(
        [node("Concat", "a b", "both", axis=0), node("MatMul", "queries both", "out")],
        "body",
        [info("a", (1, 5, 6)), info("b", (1, 5, 6))],
        [info("out", (2, 3, 6))],
    )
    nodes = [
        node("SplitToSequence", "k one", "heads", axis=0),
        node("SequenceErase", "heads zero", "later"),
        node("SequenceErase", "heads two", "sooner"),
        node("SequenceMap", "sooner later", "y", body=body),
    ]
    constants = [const(name, np.int64(value)) for name, value in (("zero", 0), ("one", 1), ("two", 2))]
    inputs = [info("k", (3, 5, 6)), info("queries", (2, 3, 5))]
    network = read_network(save(tmp_path, model(nodes, inputs, ["y"], constants)))
    assert brief(network) == [("bmm", {"G": 2, "N": 3, "K": 6, "C": 5})] * 2


def test_steps_of_a_scan_see_different_slices(tmp_path):
    """Each step joins the previous keys and its own: they have equal shapes but are not the same."""
    body = helper.make_graph(
        [
            node("Unsqueeze", "before zero", "a"),
            node("Unsqueeze", "now zero", "b"),
            node("Concat", "a b", "both", axis=0),
            node("MatMul", "queries both", "out"),
            node("Identity", "now", "next"),
        ],
        "body",
        [info("before", (5, 6)), info("now", (5, 6))],
        [info("next", (5, 6)), info("out", (2, 3, 6))],
    )
    nodes = [node("Scan", "first keys", "last y", body=body, num_scan_inputs=1)]
    inputs = [info("first", (5, 6)), info("keys", (3, 5, 6)), info("queries", (2, 3, 5))]
    network = read_network(save(tmp_path, model(nodes, inputs, ["y"], [ints("zero", 0)])))
    assert brief(network) == [("bmm", {"G": 2, "N": 3, "K": 6, "C": 5})] * 3


def test_repetition_passes_through_a_function(tmp_path):
    nodes, constants = expand("k", 1, 8, 2, 5, 6)
    own = [node("Constant", [], [c.name], value=c) for c in constants]
    function = helper.make_function("own", "Repeat", ["k"], ["kr"], [*own, *nodes], [helper.make_opsetid("", 17)])
    calls = [node("Repeat", "k", "kr", domain="own")]
    tail = [node("Transpose", "kr", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "y")]
    inputs = [info("q", (1, 8, 3, 6)), info("k", (1, 2, 5, 6))]
    proto = model([*calls, *tail], inputs, ["y"], functions=[function], domains=("own",))
    assert brief(read_network(save(tmp_path, proto))) == [("bmm", {"G": 2, "N": 12, "K": 5, "C": 6})]


# ---------------------------------------------------------------------------------- the claims, against actual values


@st.composite
def movements(draw):
    """A graph of random operators that move, repeat and combine the entries of one input; the shapes of its tensors."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)))
    made, nodes, constants = [("x", shape)], [], []

    def add(op, operands, size, *values, **attributes):
        names = []
        for value in values:
            names.append(f"c{len(constants)}")
            constants.append(const(names[-1], np.asarray(value, np.int64)))
        name = f"t{len(made)}"
        nodes.append(node(op, [*operands, *names], [name], **attributes))
        made.append((name, tuple(size)))

    for _ in range(draw(st.integers(1, 7))):
        name, s = draw(st.sampled_from(made))
        total, rank = math.prod(s), len(s)
        axis = draw(st.integers(0, max(rank - 1, 0)))
        op = draw(
            st.sampled_from(["Reshape", "Transpose", "Expand", "Tile", "Concat", "Gather", "Slice", "Add", "Split"])
        )
        if op == "Reshape":
            sizes, left = [], total
            while left > 1 and len(sizes) < 3:
                sizes.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
                left //= sizes[-1]
            add(op, [name], [*sizes, left], [*sizes, left])
        elif op == "Transpose" and rank:
            order = draw(st.permutations(range(rank)))
            add(op, [name], [s[i] for i in order], perm=order)
        elif op == "Expand" and total < 300 and rank < 4:
            wide = [draw(st.integers(1, 3)) if d == 1 else 1 for d in s]
            front = draw(st.lists(st.integers(1, 3), max_size=1))
            add(op, [name], [*front, *np.broadcast_shapes(s, wide)], [*front, *wide])
        elif op == "Tile" and total < 300 and rank:
            times = [draw(st.integers(1, 3)) if i == axis else 1 for i in range(rank)]
            add(op, [name], [d * t for d, t in zip(s, times, strict=True)], times)
        elif op == "Concat" and total < 300 and rank:
            alike = [
                n
                for n, other in made
                if other[:axis] + other[axis + 1 :] == s[:axis] + s[axis + 1 :] and len(other) == rank
            ]
            parts = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=4))
            size = sum(dict(made)[p][axis] for p in parts)
            add(op, parts, [*s[:axis], size, *s[axis + 1 :]], axis=axis)
        elif op == "Gather" and total < 300 and rank:
            at = draw(st.lists(st.integers(-s[axis], s[axis] - 1), min_size=1, max_size=3))
            kind = draw(st.sampled_from(["as it is", "each", "in turn"]))
            at = {"as it is": at, "each": np.repeat(at, 2), "in turn": np.tile(at, 2)}[kind]
            add(op, [name], [*s[:axis], len(at), *s[axis + 1 :]], at, axis=axis)
        elif op == "Slice" and rank:
            step = draw(st.sampled_from([-2, -1, 1, 2]))
            cut = slice(None, None, step) if step < 0 else slice(draw(st.integers(0, s[axis] - 1)), None, step)
            size = len(range(*cut.indices(s[axis])))
            start = -1 if step < 0 else cut.start
            add(op, [name], [*s[:axis], size, *s[axis + 1 :]], [start], [-100 if step < 0 else 100], [axis], [step])
        elif op == "Add":
            other, t = draw(st.sampled_from(made))
            try:
                add(op, [name, other], np.broadcast_shapes(s, t))
            except ValueError:
                continue
        elif op == "Split" and rank and s[axis] > 1:
            cut = draw(st.integers(1, s[axis] - 1))
            names = [f"t{len(made)}", f"t{len(made) + 1}"]
            constants.append(const(f"c{len(constants)}", np.asarray([cut, s[axis] - cut])))
            nodes.append(node(op, [name, constants[-1].name], names, axis=axis))
            for part, size in zip(names, (cut, s[axis] - cut), strict=True):
                made.append((part, (*s[:axis], size, *s[axis + 1 :])))
    return model(nodes, [info("x", shape)], [n for n, _ in made[1:]], constants, opset=17), dict(made)


@settings(max_examples=300, deadline=None)
@given(movements())
def test_what_is_said_to_repeat_does_repeat(drawn):
    """Compared with values that the reference evaluator computes from an input of distinct entries."""
    proto, shapes = drawn
    if not proto.graph.output:
        return
    x = np.random.default_rng(1).permutation(math.prod(shapes["x"])).reshape(shapes["x"]).astype(np.float32) ** 2
    names = [output.name for output in proto.graph.output]
    arrays = dict(zip(names, ReferenceEvaluator(proto).run(None, {"x": x}), strict=True))
    known = Walk(proto, "case.onnx", lambda line: None).run({"x": Tensor(x.shape, FLOAT, producers=frozenset())})
    for name, array in arrays.items():
        tensor = known[name]
        assert tensor is not None and tensor.shape == array.shape
        first = array
        for axis, factors in enumerate(tensor.factors):
            assert math.prod(size for size, _ in factors) == array.shape[axis]
            first = np.take(first, first_places(factors), axis=axis)
        np.testing.assert_array_equal(first, array)


@given(st.lists(st.tuples(st.integers(2, 4), st.booleans()), min_size=1, max_size=4))
def test_every_regular_order_is_found(factors):
    """As many equal places are found as the order has, possibly as other factors."""
    places = first_places(tuple(factors))
    found = of_places(places)
    assert math.prod(size for size, _ in found) == places.size
    np.testing.assert_array_equal(places[first_places(found)], places)
    want = math.prod(size for size, repeated in factors if repeated)
    assert math.prod(size for size, repeated in found if repeated) == want


@given(
    st.lists(st.tuples(st.integers(2, 4), st.booleans()), min_size=1, max_size=4),
    st.lists(st.integers(1, 6), max_size=3),
)
def test_reshapes_there_and_back(factors, sizes):
    total = math.prod(size for size, _ in factors)
    sizes = [*sizes, total // math.prod(sizes)]
    if math.prod(sizes) != total:
        sizes = [total]
    there = reshaped((tuple(factors),), sizes)
    assert [math.prod(size for size, _ in axis) for axis in there] == sizes
    axes = [first_places(axis) for axis in there]
    flat_there = np.arange(total).reshape(sizes)[np.ix_(*axes)].reshape(-1)
    places = first_places(tuple(factors))
    np.testing.assert_array_equal(places[flat_there], places)
    assert reshaped(plain(sizes), [total]) == plain([total])
