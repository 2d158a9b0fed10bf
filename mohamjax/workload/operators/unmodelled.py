"""Operators whose arithmetic is not modelled: transforms, classical models, losses, texts."""

from __future__ import annotations

from mohamjax.workload.operators.folding import same
from mohamjax.workload.operators.registry import rule
from mohamjax.workload.tensor import BOOL, FLOAT, INT64, STRING, Call, Tensor, broadcast


@rule("Det", "Inverse")
def _matrix_function(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: {call.op} does multiply-accumulates that are not modelled; it is no layer")
    shape = call.shape(0)
    if call.op == "Inverse" or shape is None:
        return [same(call)]
    return [Tensor(shape[:-2], call.get(0).dtype)]


@rule("DFT")
def _dft(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: DFT does multiply-accumulates that are not modelled; it is no layer")
    shape = call.shape(0)
    if shape is None:
        return [same(call)]
    call.axes_of(0)
    axis = call.whole(2) if call.has(2) else call.attr("axis", 1 if call.opset < 20 else -2)
    if axis is None:
        return [Tensor((None,) * len(shape), call.get(0).dtype)]
    at = call.axis(axis, len(shape))
    n = call.whole(1) if call.has(1) else shape[at]
    sizes = list(shape)
    sizes[-1] = 2
    if call.attr("onesided") and call.attr("inverse"):  # half a spectrum in, a real signal out
        n = n if call.has(1) or n is None else 2 * (n - 1)
        sizes[-1] = 1
    elif call.attr("onesided") and n is not None:
        n = n // 2 + 1
    sizes[at] = n
    return [Tensor(tuple(sizes), call.get(0).dtype)]


@rule("STFT")
def _stft(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: STFT does multiply-accumulates that are not modelled; it is no layer")
    shape, step = call.axes_of(0, 2), call.whole(1)
    window = call.shape(2)
    length = call.whole(3) if call.has(3) else window[0] if window else None
    if step is not None and step < 1:
        raise call.error(f"a frame every {step} steps")
    if shape is None or step is None or length is None or shape[1] is None:
        return [Tensor((shape[0] if shape else None, None, None, 2), call.get(0).dtype)]
    if not 1 <= length <= shape[1]:
        raise call.error(f"a frame of {length} over a signal of {shape[1]}")
    frames = (shape[1] - length) // step + 1
    bins = length // 2 + 1 if call.attr("onesided", 1) else length
    return [Tensor((shape[0], frames, bins, 2), call.get(0).dtype)]


@rule(
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor", "SVMClassifier", "SVMRegressor",
    "LinearClassifier", "LinearRegressor",
)  # fmt: skip
def _classical(call: Call) -> list[Tensor]:
    call.warn(f"{call.label}: {call.op} does multiply-accumulates that are not modelled; it is no layer")
    return [Tensor(None, FLOAT) for _ in range(call.outputs)]


@rule(
    "ArrayFeatureExtractor", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "LabelEncoder", "OneHotEncoder",
    "ZipMap", "CastMap", "TfIdfVectorizer", "ImageDecoder", "Adagrad", "Adam", "Momentum", "Gradient",
)  # fmt: skip
def opaque(call: Call) -> list[Tensor]:
    """Results about which nothing is known, not even their element type."""
    return [Tensor(None, 0) for _ in range(call.outputs)]


@rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(call: Call) -> list[Tensor]:
    shape = call.shape(1) if call.str_attr("reduction", "mean") == "none" else ()
    return [Tensor(shape, call.get(0).dtype), same(call)]


@rule("StringNormalizer")
def _string_normalizer(call: Call) -> list[Tensor]:
    return [Tensor(call.shape(0) and (*(call.shape(0) or ())[:-1], None), STRING)]


@rule("StringConcat", "StringSplit", "RegexFullMatch")
def _strings(call: Call) -> list[Tensor]:
    shape = call.shape(0)
    if call.op == "StringConcat":
        return [Tensor(broadcast(shape, call.shape(1)), STRING)]
    if call.op == "RegexFullMatch":
        return [Tensor(shape, BOOL)]
    return [Tensor(None if shape is None else (*shape, None), STRING), Tensor(shape, INT64)]
