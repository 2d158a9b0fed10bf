"""Fused attention operators: their two products, Q·Kᵀ (scores) and P·V (context), and any projection in front.

Where several query heads read one key head (grouped-query and multi-query attention) their queries are the rows of one
product, so that keys and values are read once per key head: docs/concepts/workload.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from mohamjax.workload.layer import WorkloadShape
from mohamjax.workload.operators.products import made_by, word_bits_of
from mohamjax.workload.operators.registry import CONTRIB, rule
from mohamjax.workload.repetition import Factors, common, reshaped
from mohamjax.workload.tensor import Call, Tensor, is_known, show


@dataclasses.dataclass
class _Sizes:
    """Sizes of an attention operator.

    Attributes:
        batch: Batch entries.
        heads: Query heads.
        queries: Queries per head.
        keys: Keys per query.
        channels: Channels of a query head, and of a key head.
        value_channels: Channels of a value head.
        key_readers: How many query heads (of all batch entries) read each key head.
        value_readers: How many query heads (of all batch entries) read each value head.
    """

    batch: int
    heads: int
    queries: int
    keys: int
    channels: int
    value_channels: int
    key_readers: int = 1
    value_readers: int = 1


def _attend(
    call: Call, operands: tuple[Tensor, Tensor, Tensor], sizes: _Sizes, at_past_values: int | None = None
) -> tuple[frozenset[int], frozenset[int]]:
    """Adds the two products of an attention: scores (queries by keys) and their product with the values.

    Args:
        call: The operator; the scores depend on all its inputs from the fourth on that are no past values.
        operands: Queries, keys and values, which give widths and dependencies.
        sizes: Sizes of both products.
        at_past_values: Position of the values of earlier calls, if they are an input of their own.

    Returns:
        The layer that makes the scores and the one that makes the result, each as a set.
    """
    q, k, v = operands
    past_values = call.inputs[at_past_values : at_past_values + 1] if at_past_values is not None else []
    others = [t for i, t in enumerate(call.inputs[3:], 3) if i != at_past_values]
    bits = max(q.word_bits, k.word_bits)
    every, same_keys, same_values = sizes.batch * sizes.heads, sizes.key_readers, sizes.value_readers
    scores = call.emit(
        "scores",
        "bmm",
        WorkloadShape(G=every // same_keys, N=sizes.queries * same_keys, C=sizes.channels, K=sizes.keys),
        bits,
        call.producers([q, k, *others]),
    )
    context = call.emit(
        "context",
        "bmm",
        WorkloadShape(G=every // same_values, N=sizes.queries * same_values, C=sizes.keys, K=sizes.value_channels),
        max(bits, v.word_bits),
        frozenset((scores,)) | call.producers([v, *past_values]),
    )
    return frozenset((scores,)), frozenset((context,))


def _check_operands(call: Call, wanted: tuple[int, int], keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    """Refuses keys and values of the wrong batch or number of heads, and values that are not as many as the keys.

    Args:
        call: The operator, whose first three inputs are queries, keys and values.
        wanted: Batch entries, and heads of keys and values.
        keys: Batch entries, heads and length of the keys.
        values: The same of the values.
    """
    if keys[:2] != wanted or values != keys:
        q, k, v = (show(call.shape(i)) for i in range(3))
        raise call.error(f"query {q}, key {k} and value {v} differ in batch, key/value heads or length")


def _check_past(call: Call, at: int, heads: int, size: int) -> None:
    """Refuses keys or values of earlier calls that do not have these heads and channels of a head.

    Their axes are batch, heads, length and channels; sizes that are unknown fit. So does any batch: that of an input
    may be fixed while the user changes those of others, of which the importer warns.
    """
    shape = call.shape(at)
    if shape is None:
        return
    if len(shape) != 4 or shape[1] not in (None, heads) or shape[3] not in (None, size):
        raise call.error(f"past keys or values {show(shape)} (input {at}) where ?x{heads}x?x{size} is needed")


def _in_window(call: Call, keys: int, window: int) -> int:
    """Keys of each query where it sees those in a window alone; warns, because the operator may see others too."""
    call.warn(f"{call.label}: {call.op} is modelled with its local window only")
    return min(keys, window)


def _unpacked(call: Call, at: int) -> tuple[int, int] | None:
    """Batch and length of sequences whose tokens stand on one axis: the shape of `token_offset`, which is input `at`.

    Without that shape the result is None, with a warning.
    """
    shape = call.shape(at)
    if shape is not None and is_known(shape) and len(shape) == 2:
        return shape[0] or 0, shape[1] or 0
    call.warn(f"{call.label}: the shape of its token_offset is unknown; all tokens count as one sequence")
    return None


def _copies(parts: Sequence[Tensor | None], batch: int, heads: int, size: int) -> int:
    """How often each head of the keys or values occurs, repeated over the heads and over the batch entries.

    Args:
        parts: The parts along the length (a cache and new entries); None for a part that is left out. Their shape is
            batch x heads x length x size, batch x length x heads x ... x size, batch x length x (heads · size), or the
            last without the batch; any other shape counts as not repeated.
        batch: Batch entries.
        heads: Heads.
        size: Channels of a head.
    """
    found: tuple[Factors, Factors] | None = None
    for part in parts:
        if part is None:
            continue
        if part.repetition is None or not is_known(part.shape):
            return 1
        shape, axes = part.shape or (), part.repetition
        flat = shape if len(shape) == 3 else (1, *shape)
        if len(shape) == 4 and (shape[0], shape[1], shape[3]) == (batch, heads, size):
            own = axes[0], axes[1]
        elif len(shape) == 5 and (shape[0], shape[2], shape[4]) == (batch, heads, size):
            own = axes[0], axes[2]
        elif len(flat) == 3 and (flat[0], flat[2]) == (batch, heads * size):
            split = reshaped(axes, (batch, flat[1] or 0, heads, size))
            own = split[0], split[2]
        else:
            return 1
        found = own if found is None else (common(found[0], own[0]), common(found[1], own[1]))
    return math.prod(n for factors in found or () for n, repeated in factors if repeated)


def _heads_of(call: Call, width: int, heads: int) -> int:
    if heads < 1 or width % heads:
        raise call.error(f"{width} channels do not divide into {heads} heads")
    return width // heads


# Operator -> positions of the keys (or keys and values) of earlier calls, and of their number.
_AT_PAST = {
    "Attention": (4, 6),
    "DecoderMaskedMultiHeadAttention": (5, 7),
    "DecoderMaskedSelfAttention": (4, 6),
    "MultiHeadAttention": (6, 8),
    "QAttention": (8, None),
}


def _with_past(call: Call, new: int) -> tuple[int, int]:
    """`_keys` of a com.microsoft operator, which has no keys of earlier calls if it is not in `_AT_PAST`."""
    at, at_length = _AT_PAST.get(call.op, (None, None))
    if at is None or not call.has(at):
        return new, new
    stated = call.whole(at_length) if at_length is not None else None
    # MultiHeadAttention has no such attribute: a number of past keys tells that they are in a buffer.
    shared = bool(call.attr("past_present_share_buffer")) or (call.op == "MultiHeadAttention" and call.has(8))
    return _keys(call, new, at, shared, stated + new if shared and stated is not None else None)


def _keys(call: Call, new: int, at: int, shared: bool, total: int | None) -> tuple[int, int]:
    """The keys of each query, and the length of the keys that the operator hands on.

    Args:
        call: The operator.
        new: Keys of this call.
        at: Position of the keys of earlier calls; the last axis but one is their length.
        shared: Whether they are in a buffer with room for the new ones, so that this length is an upper bound.
        total: Keys of each query, if the model states them.
    """
    past = call.shape(at)
    length = past[-2] if past is not None and len(past) in (4, 5) else 0
    if total is None and length is None:
        call.known_shape(at, "past keys")
    length = length or 0
    if total is not None:
        keys = total
    elif shared and length:
        keys = max(new, length)
        call.warn(f"{call.label}: the number of past keys is unknown; all {length} in their buffer count (the most)")
    else:
        keys = new + length
    return keys, max(keys, length)


@rule("Attention", "FlexAttention", layer=True)
def _attention(call: Call) -> list[Tensor]:
    """The standard operator (operator set 23): four axes with heads, or three with the heads as attributes."""
    q, k, v = call.get(0), call.get(1), call.get(2)
    sq, sk, sv = (call.known_shape(i, what) for i, what in enumerate(("query", "key", "value")))
    if not len(sq) == len(sk) == len(sv) or len(sq) not in (3, 4):
        raise call.error(f"query {show(sq)}, key {show(sk)} and value {show(sv)} do not fit together")
    flat = len(sq) == 3
    if flat:
        heads, kv_heads = call.int_attr("q_num_heads"), call.int_attr("kv_num_heads")
        size, value_size = _heads_of(call, sq[2], heads), _heads_of(call, sv[2], kv_heads)
        key_size = _heads_of(call, sk[2], kv_heads)
        batch, queries, keys = sq[0], sq[1], sk[1]
    else:
        batch, heads, queries, size = sq
        kv_heads, keys, key_size, value_size = sk[1], sk[2], sk[3], sv[3]
    if size != key_size or kv_heads < 1 or heads % kv_heads:
        raise call.error(f"channel mismatch: query {show(sq)} and key {show(sk)}")
    stated = [(s[0], kv_heads, s[1]) if flat else s[:3] for s in (sk, sv)]
    _check_operands(call, (batch, kv_heads), *stated)
    past = call.shape(4)
    _check_past(call, 4, kv_heads, size)
    _check_past(call, 5, kv_heads, value_size)
    if past is not None and len(past) == 4:
        if past[2] is None:
            call.known_shape(4, "past key")
        keys += past[2] or 0
    past_key, past_value = _pair(call, 4)
    sizes = _Sizes(
        batch,
        heads,
        queries,
        keys,
        size,
        value_size,
        key_readers=heads // kv_heads * _copies([k, past_key], batch, kv_heads, size),
        value_readers=heads // kv_heads * _copies([v, past_value], batch, kv_heads, value_size),
    )
    scores, made = _attend(call, (q, k, v), sizes, at_past_values=5)
    shape = (batch, queries, heads * value_size) if flat else (batch, heads, queries, value_size)
    present = [
        Tensor((batch, kv_heads, keys, s), t.dtype, producers=call.producers([t, p]))
        for t, s, p in ((k, size, past_key), (v, value_size, past_value))
    ]
    return [
        Tensor(shape, q.dtype, producers=made),
        *present,
        Tensor((batch, heads, queries, keys), q.dtype, producers=scores),
    ]


def _pair(call: Call, i: int) -> tuple[Tensor | None, Tensor | None]:
    return (call.get(i) if call.has(i) else None, call.get(i + 1) if call.has(i + 1) else None)


@rule(
    "Attention",
    "QAttention",
    "PackedAttention",
    "LongformerAttention",
    "DecoderMaskedSelfAttention",
    domain=CONTRIB,
    layer=True,
)
def _contrib_attention(call: Call) -> list[Tensor]:
    """com.microsoft Attention: one product for query, key and value, then the attention itself."""
    x, w = call.get(0), call.get(1)
    sx, sw = call.known_shape(0), call.known_shape(1, "weight")
    packed = call.op == "PackedAttention" and len(sx) == 2
    if packed:  # padding removed: one batch entry
        sx = (1, *sx)
    heads = call.int_attr("num_heads")
    if len(sx) != 3 or len(sw) != 2 or sx[2] != sw[0]:
        raise call.error(f"channel mismatch: an input {show(sx)} and a weight {show(sw)}")
    sizes = call.ints_attr("qkv_hidden_sizes") or [sw[1] // 3] * 3
    if len(sizes) != 3 or sum(sizes) != sw[1]:
        raise call.error(f"sizes {sizes} of query, key and value do not add up to the weight's {sw[1]}")
    if sizes[0] != sizes[1]:
        raise call.error(f"channel mismatch: a query of {sizes[0]} channels and a key of {sizes[1]}")
    batch, length, width = sx
    dtype = call.get(3).dtype if call.op == "QAttention" else x.dtype  # QAttention: that of the scales
    fused = call.emit(
        "qkv",
        "fc",
        WorkloadShape(N=batch * length, C=width, K=sw[1]),
        word_bits_of(x, w),
        call.producers([x, w, *call.inputs[2:3]]),
    )
    qkv = made_by(fused, None, dtype)
    if packed and (sequences := _unpacked(call, 3)):
        batch, length = sequences
    keys, whole = _with_past(call, length)
    if call.op == "LongformerAttention":
        keys = _in_window(call, length, 2 * call.int_attr("window") + 1)
    channels, value_channels = _heads_of(call, sizes[0], heads), _heads_of(call, sizes[2], heads)
    heads_of = _Sizes(batch, heads, length, keys, channels, value_channels)
    _, made = _attend(call, (qkv, qkv, qkv), heads_of)
    at, _ = _AT_PAST.get(call.op, (None, None))
    past = call.get(at) if at is not None and call.has(at) else None
    present = Tensor((2, batch, heads, whole, channels), dtype, producers=call.producers([qkv, past]))
    return [Tensor((*call.known_shape(0)[:-1], sizes[2]), dtype, producers=made), present]


# Operator -> position of the bias of query, key and value.
_AT_BIAS = {"MultiHeadAttention": 3, "PackedMultiHeadAttention": 3, "DecoderMaskedMultiHeadAttention": 10}


def _laid_out(call: Call, i: int, what: str, heads: int) -> tuple[int, int, int, int]:
    """Batch entries, heads, length and channels of a head of an operand of MultiHeadAttention.

    Its axes are batch, length and all channels; or batch, heads, length and channels of a head (no queries); or batch,
    length, heads, 2 or 3 interleaved operands, and channels of a head. Packed tokens count as one batch entry. Where
    DecoderMaskedMultiHeadAttention has no keys, its query holds queries, keys and values side by side.
    """
    shape = call.known_shape(i, what)
    if call.op == "PackedMultiHeadAttention":
        shape = (1, *shape)
    if len(shape) == 3:
        parts = 3 if call.op == "DecoderMaskedMultiHeadAttention" and not call.has(1) else 1
        return shape[0], heads, shape[1], _heads_of(call, shape[2], parts * heads)
    if len(shape) == 4 and i:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) != 5:
        raise call.error(f"a {what} {show(shape)}")
    return shape[0], shape[2], shape[1], shape[4]


@rule("MultiHeadAttention", "PackedMultiHeadAttention", "DecoderMaskedMultiHeadAttention", domain=CONTRIB, layer=True)
def _multi_head_attention(call: Call) -> list[Tensor]:
    q = call.get(0)
    k = call.get(1) if call.has(1) else q
    v = call.get(2) if call.has(2) else k
    heads = call.int_attr("num_heads")
    query = _laid_out(call, 0, "query", heads)
    key = _laid_out(call, 1, "key", heads) if call.has(1) else query
    value = _laid_out(call, 2, "value", heads) if call.has(2) else key
    batch, _, queries, size = query
    keys, value_size = key[2], value[3]
    if key[3] != size:
        raise call.error(f"channel mismatch: query {show(call.shape(0))} and key {show(call.shape(1))}")
    _check_operands(call, (batch, heads), key[:3], value[:3])
    at_past = _AT_PAST[call.op][0] if call.op in _AT_PAST else None
    past = _pair(call, at_past) if at_past is not None else (None, None)
    if at_past is not None:
        _check_past(call, at_past, heads, size)
        _check_past(call, at_past + 1, heads, value_size)
    readers = (1, 1)
    if not call.has(_AT_BIAS[call.op]):  # a bias differs from head to head
        readers = _copies([k, past[0]], batch, heads, size), _copies([v, past[1]], batch, heads, value_size)
    packed = call.op == "PackedMultiHeadAttention"
    if packed and (sequences := _unpacked(call, 4)):
        batch, queries = sequences
        keys = queries
    keys, whole = _with_past(call, keys)
    sizes = _Sizes(batch, heads, queries, keys, size, value_size, *readers)
    scores, made = _attend(call, (q, k, v), sizes, None if at_past is None else at_past + 1)
    shape = (query[2], heads * value_size) if packed else (batch, queries, heads * value_size)
    present = [
        Tensor((batch, heads, whole, s), t.dtype, producers=call.producers([t, p]))
        for t, s, p in ((k, size, past[0]), (v, value_size, past[1]))
    ]
    return [
        Tensor(shape, q.dtype, producers=made),
        *present,
        Tensor((batch, heads, queries, keys), q.dtype, producers=scores),
    ]


@rule("GroupQueryAttention", "SparseAttention", domain=CONTRIB, layer=True)
def _group_query_attention(call: Call) -> list[Tensor]:
    q = call.get(0)
    heads, kv_heads = call.int_attr("num_heads"), call.int_attr("kv_num_heads")
    sq = call.known_shape(0, "query")
    if len(sq) != 3 or kv_heads < 1 or heads % kv_heads:
        raise call.error(f"a query {show(sq)} with {heads} heads over {kv_heads}")
    k, v = (call.get(i) if call.has(i) else q for i in (1, 2))
    batch, queries, width = sq
    new = queries
    size = _heads_of(call, width, heads) if call.has(1) else _heads_of(call, width, heads + 2 * kv_heads)
    if call.has(1):
        sk, sv = call.known_shape(1, "key"), call.known_shape(2, "value")
        if (sk[2], sv[2]) != (kv_heads * size, kv_heads * size):
            raise call.error(f"channel mismatch: query {show(sq)}, key {show(sk)} and value {show(sv)}")
        _check_operands(call, (batch, kv_heads), (sk[0], kv_heads, sk[1]), (sv[0], kv_heads, sv[1]))
        new = sk[1]
    sparse = call.op == "SparseAttention"  # its past and present keys always share a buffer
    if sparse:
        call.warn(f"{call.label}: SparseAttention is modelled as dense attention")
    keys, whole = _keys(call, new, 3, sparse, call.whole(7 if sparse else 6))
    window = call.int_attr("local_window_size", -1)
    seen = _in_window(call, keys, window) if 0 < window < keys else keys
    per_head = heads // kv_heads
    sizes = _Sizes(batch, heads, queries, seen, size, size, key_readers=per_head, value_readers=per_head)
    scores, made = _attend(call, (q, k, v), sizes, at_past_values=4)
    present = [
        Tensor((batch, kv_heads, whole, size), t.dtype, producers=call.producers([t, past]))
        for t, past in zip((k, v), _pair(call, 3), strict=True)
    ]
    return [
        Tensor((batch, queries, heads * size), q.dtype, producers=made),
        *present,
        Tensor((batch, heads, queries, keys), q.dtype, producers=scores),
    ]
