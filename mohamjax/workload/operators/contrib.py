"""Shape rules of the com.microsoft operators that are no layers (what ONNX Runtime's optimiser leaves in files)."""

from __future__ import annotations

import dataclasses

from mohamjax.workload.operators.folding import same
from mohamjax.workload.operators.registry import CONTRIB, RULES, STANDARD, Rule, rule
from mohamjax.workload.operators.repetition_rules import viewed
from mohamjax.workload.operators.unmodelled import opaque
from mohamjax.workload.tensor import FLOAT, INT8, INT32, TYPE_BITS, UINT8, Call, Tensor, broadcast, product, show


@rule(
    "Gelu", "FastGelu", "QuickGelu", "BiasGelu", "BiasDropout", "BitmaskDropout", "BiasSoftmax", "GroupNorm",
    "RotaryEmbedding", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax",
    "SimplifiedLayerNormalization", "QOrderedGelu", "QOrderedLayerNormalization", "ScatterND",
    "DynamicTimeWarping",
    domain=CONTRIB,
)  # fmt: skip
def _like_first(call: Call) -> list[Tensor]:
    return [same(call) for _ in range(call.outputs)]


@rule("GemmaRotaryEmbedding", domain=CONTRIB)
def _gemma_rotary_embedding(call: Call) -> list[Tensor]:
    return [same(call, 1), same(call, 3)]  # the positions come first, then queries and keys, each with its half turn


@rule("NGramRepeatBlock", domain=CONTRIB)
def _n_gram_repeat_block(call: Call) -> list[Tensor]:
    return [same(call, 1)]  # the scores; the tokens come first


@rule("BiasAdd", domain=CONTRIB)
def _bias_add(call: Call) -> list[Tensor]:
    return [same(call)]


@rule("QLinearAdd", "QLinearMul", domain=CONTRIB)
def _q_binary(call: Call) -> list[Tensor]:
    # A, scale, zero point, B, scale, zero point, ...
    return [Tensor(broadcast(call.get(0).shape, call.get(3).shape), call.get(0).dtype)]


@rule("QLinearWhere", domain=CONTRIB)
def _q_where(call: Call) -> list[Tensor]:
    return [Tensor(broadcast(call.get(0).shape, call.get(1).shape, call.get(4).shape), call.get(1).dtype)]


@rule("QLinearConcat", domain=CONTRIB)
def _q_concat(call: Call) -> list[Tensor]:
    parts = [call.get(i) for i in range(2, len(call.inputs), 3)]  # after the output's scale and zero point
    inner = _with_inputs(call, "Concat", parts)
    out = _standard("Concat")(inner)
    return [Tensor(out[0].shape, parts[0].dtype if parts else UINT8)]


def _standard(op: str) -> Rule:
    """The rule of a standard operator."""
    return RULES[STANDARD][op]


def _with_inputs(call: Call, op: str, inputs: list[Tensor]) -> Call:
    return dataclasses.replace(call, op=op, inputs=list(inputs))


def _pooled(op: str) -> Rule:
    def pooled(call: Call) -> list[Tensor]:
        x = call.get(0)
        call.axes_of(0, 2)
        last = bool(call.attr("channels_last", 0)) or call.op.startswith("Nhwc")
        if not last or x.shape is None:
            return _standard(op)(_with_inputs(call, op, [x]))
        turned = Tensor((x.shape[0], x.shape[-1], *x.shape[1:-1]), x.dtype)
        out = _standard(op)(_with_inputs(call, op, [turned]))[0]
        shape = out.shape
        return [Tensor(None if shape is None else (shape[0], *shape[2:], shape[1]), x.dtype)]

    return pooled


rule("QLinearAveragePool", domain=CONTRIB)(_pooled("AveragePool"))
rule("QLinearGlobalAveragePool", domain=CONTRIB)(_pooled("GlobalAveragePool"))
rule("NhwcMaxPool", domain=CONTRIB)(_pooled("MaxPool"))
rule("MaxpoolWithMask", domain=CONTRIB)(_pooled("MaxPool"))


@rule("QLinearReduceMean", domain=CONTRIB)
def _q_reduce_mean(call: Call) -> list[Tensor]:
    out = _standard("ReduceMean")(_with_inputs(call, "ReduceMean", [call.get(0)]))
    return [Tensor(out[0].shape, call.get(0).dtype)]


@rule("EmbedLayerNormalization", "QEmbedLayerNormalization", domain=CONTRIB)
def _embed_layer_normalization(call: Call) -> list[Tensor]:
    ids = call.get(0).shape
    at = 2  # word embedding
    table = call.shape(at)
    hidden = table[-1] if table else None
    dtype = call.get(at).dtype if call.op == "EmbedLayerNormalization" else FLOAT
    shape = None if ids is None else (*ids, hidden)
    batch = ids[0] if ids else None
    return [Tensor(shape, dtype), Tensor((batch,), INT32), Tensor(shape, dtype)]


@rule(
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "SkipGroupNorm",
    "QOrderedSkipLayerNormalization",
    domain=CONTRIB,
)
def _skip_layer_normalization(call: Call) -> list[Tensor]:
    shape = call.get(0).shape
    statistics = None if shape is None else (*shape[:-1], 1)
    dtype = call.get(0).dtype
    if call.op == "SkipGroupNorm":
        return [Tensor(shape, dtype), Tensor(shape, dtype)]
    return [Tensor(shape, dtype), Tensor(statistics), Tensor(statistics), Tensor(shape, dtype)]


@rule("BiasSplitGelu", domain=CONTRIB)
def _bias_split_gelu(call: Call) -> list[Tensor]:
    shape = call.get(0).shape
    half = None if not shape or shape[-1] is None else shape[-1] // 2
    return [Tensor(None if shape is None else (*shape[:-1], half), call.get(0).dtype)]


@rule("ExpandDims", domain=CONTRIB)
def _expand_dims(call: Call) -> list[Tensor]:
    shape, axis = call.get(0).shape, call.scalar(1)
    if shape is None or axis is None:
        return [Tensor(None, call.get(0).dtype)]
    at = call.axis(int(axis), len(shape) + 1)
    return [viewed(Tensor((*shape[:at], 1, *shape[at:]), call.get(0).dtype), call.get(0))]


@rule("GatherBlockQuantized", domain=CONTRIB)
def _gather_block(call: Call) -> list[Tensor]:
    table, ids = call.get(0).shape, call.get(1).shape
    dtype = call.get(2).dtype if call.has(2) else FLOAT
    if table is None or ids is None:
        return [Tensor(None, dtype)]
    at = call.axis(call.int_attr("gather_axis", 0), len(table))
    rest = list(table[at + 1 :])
    bits = call.int_attr("bits", 4)
    if rest and rest[-1] is not None and TYPE_BITS.get(call.get(0).dtype) == 8:  # several values in one byte
        rest[-1] *= 8 // bits
    return [Tensor((*table[:at], *ids, *rest), dtype)]


@rule("QuantizeWithOrder", domain=CONTRIB)
def _quantize_with_order(call: Call) -> list[Tensor]:
    return [same(call, dtype=INT8)]


@rule("DequantizeWithOrder", domain=CONTRIB)
def _dequantize_with_order(call: Call) -> list[Tensor]:
    out = same(call, dtype=call.type_attr("to", FLOAT))
    out.bits = TYPE_BITS.get(call.get(0).dtype)
    return [out]


@rule("RemovePadding", domain=CONTRIB)
def _remove_padding(call: Call) -> list[Tensor]:
    """Tokens on one axis, their places, the sums of the lengths before each sequence, and the longest of them."""
    stated = call.shape(0)
    shape = (None, None, None) if stated is None else stated
    if len(shape) != 3:
        raise call.error(f"an input {show(shape)} where batch, length and channels are needed")
    batch, length, channels = shape
    if batch is not None and length is not None:
        call.warn(f"{call.label}: how many tokens are no padding depends on data; all {batch * length} places count")
    sums = None if batch is None else batch + 1
    return [
        Tensor((product((batch, length)), channels), call.get(0).dtype),
        Tensor((batch, length), INT32),
        Tensor((sums,), INT32),
        Tensor((1,), INT32),
    ]


@rule("RestorePadding", domain=CONTRIB)
def _restore_padding(call: Call) -> list[Tensor]:
    x, offset = call.axes_of(0), call.get(1).shape
    return [Tensor(None if x is None or offset is None else (*offset, x[-1]), call.get(0).dtype)]


@rule("RelativePositionBias", domain=CONTRIB)
def _relative_position_bias(call: Call) -> list[Tensor]:
    table = call.get(0).shape
    q, k = call.scalar(1), call.scalar(2)
    heads = table[-1] if table else None
    return [Tensor((1, heads, None if q is None else int(q), None if k is None else int(k)), call.get(0).dtype)]


@rule("ComplexMul", "ComplexMulConj", domain=CONTRIB)
def _complex_mul(call: Call) -> list[Tensor]:
    return [Tensor(broadcast(call.get(0).shape, call.get(1).shape), call.get(0).dtype)]


rule("Crop", "CropAndResize", "SampleOp", "Tokenizer", "MurmurHash3", "UnfoldTensor", domain=CONTRIB)(opaque)


@rule("CausalConvWithState", "LinearAttention")  # of operator set 27
@rule(
    "Rfft", "Irfft", "CDist", "MoE", "QMoE", "GatedRelativePositionBias", "QOrderedAttention", "LinearAttention",
    "PagedAttention", "CausalConvWithState", "DecoderAttention", "AttnLSTM", "SparseToDenseMatMul",
    "QOrderedLongformerAttention", "MulInteger", "Inverse", "WordConvEmbedding",
    domain=CONTRIB,
)  # fmt: skip
def _not_modelled(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: {call.op} does multiply-accumulates that are not modelled; it is no layer")
    if call.op in ("MoE", "QMoE", "Inverse"):
        return [same(call)]
    return [Tensor(None, call.get(0).dtype) for _ in range(call.outputs)]
