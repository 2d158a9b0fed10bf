"""Rules of the operators that are layers: convolutions, matrix products, recurrent layers (attention: `attention`).

Each rule checks its operands, adds its layers through `Call.emit` and returns the tensors it makes. Conventions of the
loop bounds: docs/concepts/workload.md. Channels are per group; Gemm and MatMul by a weight put rows on N; a product of
two activations puts its independent products on G; transposed convolutions run over the input positions. An operand
that several products share is read once for all of them: their rows (or columns) become those of one product.
A product whose operands are all constants is computed ahead of time and is no layer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from mohamjax.workload.layer import WorkloadShape
from mohamjax.workload.operators.registry import CONTRIB, rule
from mohamjax.workload.operators.repetition_rules import permuted
from mohamjax.workload.operators.windows import auto_pad, window_output
from mohamjax.workload.repetition import Factors, Repetition, aligned, plain, spread
from mohamjax.workload.tensor import FLOAT, INT8, INT32, UINT8, Call, Shape, Tensor, broadcast, is_known, show


def word_bits_of(a: Tensor, b: Tensor) -> int:
    """Word width of a product in bits: the weight's if one operand is a weight, otherwise the wider of the two."""
    if b.const != a.const:
        return (b if b.const else a).word_bits
    return max(a.word_bits, b.word_bits)


def made_by(layer: int, shape: Shape | None, dtype: int) -> Tensor:
    """The result of a layer."""
    return Tensor(shape, dtype, producers=frozenset((layer,)))


def _lost_constant(call: Call, a: Tensor, b: Tensor, dtype: int) -> list[Tensor]:
    """The product of two constants of which one has no known shape, and so none itself; empty for any other product.

    Whether the result is a constant too is for the walk to say: a bias may be an activation.
    """
    if not (a.const and b.const) or (is_known(a.shape) and is_known(b.shape)):
        return []
    call.fold_product()
    return [Tensor(None, dtype)]


# ------------------------------------------------------------------------------------------------ convolutions

# Operator -> (input, weight, bias) positions.
_CONV_OPERANDS = {"QLinearConv": (0, 3, 8), "ConvInteger": (0, 1, None), "DeformConv": (0, 1, 3)}


def _output_type(call: Call, x: Tensor) -> int:
    if call.op in ("ConvInteger", "MatMulInteger", "MatMulInteger16"):
        return INT32
    if call.op in ("QLinearConv", "QLinearMatMul"):
        return call.get(7).dtype if call.has(7) else UINT8
    if call.op == "QGemm":
        return call.get(8).dtype if call.has(8) else FLOAT
    if call.op == "MatMulIntegerToFloat":
        return call.get(2).dtype  # that of the scales
    if call.op == "GemmFloat8":
        return call.type_attr("dtype", FLOAT)
    return x.dtype


@rule("Conv", "ConvInteger", "QLinearConv", "DeformConv", layer=True)
@rule("FusedConv", "NhwcConv", "NhwcFusedConv", "QLinearConv", domain=CONTRIB, layer=True)
def _conv(call: Call) -> list[Tensor]:
    at_x, at_w, at_b = _CONV_OPERANDS.get(call.op, (0, 1, 2))
    x, w = call.get(at_x), call.get(at_w)
    dtype = _output_type(call, x)
    if lost := _lost_constant(call, x, w, dtype):
        return lost
    weight = call.known_shape(at_w, "weight")
    image = call.known_shape(at_x)
    last = call.op.startswith("Nhwc") or bool(call.attr("channels_last", 0))
    if last:
        call.axes_of(at_x, 3)
        image = (image[0], image[-1], *image[1:-1])
        kernel = call.ints_attr("kernel_shape")
        if call.op != "QLinearConv" and kernel and list(weight[2:]) != kernel and list(weight[1:-1]) == kernel:
            weight = (weight[0], weight[-1], *weight[1:-1])
    spatial = _spatial_axes(call, image, weight)
    kernel = call.ints_attr("kernel_shape") or list(weight[2:])
    if kernel != list(weight[2:]):
        raise call.error(f"kernel_shape {kernel} differs from the weight's {show(weight)}")
    group = call.int_attr("group", 1)
    channels, outputs = image[1], weight[0]
    if group < 1 or channels != weight[1] * group or outputs % group:
        raise call.error(
            f"channel mismatch: an input of {channels} channels, a weight {show(weight)} and {group} groups"
        )
    _check_bias(call, at_b, outputs)
    out = [d or 0 for d in window_output(call, image[2:], kernel)]
    strides = call.window_attr("strides", [1] * spatial)
    dilations = call.window_attr("dilations", [1] * spatial)
    if call.op == "DeformConv":
        call.warn(f"{call.label}: DeformConv is modelled as a plain convolution (its sampling is not modelled)")
    kind = "conv" if group == 1 else "dwconv" if group == channels else "gconv"
    loops = WorkloadShape(G=group, N=image[0], K=outputs // group, C=channels // group)
    shape = (image[0], *out, outputs) if last else (image[0], outputs, *out)
    return [_convolved(call, (x, w), kind, _spatial(loops, out, kernel, strides, dilations), Tensor(shape, dtype))]


def _convolved(call: Call, operands: tuple[Tensor, Tensor], kind: str, loops: WorkloadShape, result: Tensor) -> Tensor:
    """Adds the layer of a convolution, unless input and weight are constants, and returns the result."""
    if all(t.const for t in operands):
        call.fold_product()
        return result
    layer = call.emit("", kind, loops, word_bits_of(*operands), call.producers(call.inputs))
    return made_by(layer, result.shape, result.dtype)


def _spatial_axes(call: Call, image: tuple[int, ...], weight: tuple[int, ...]) -> int:
    spatial = len(image) - 2
    if spatial < 1 or len(weight) != len(image):
        raise call.error(f"an input {show(image)} and a weight {show(weight)} make no convolution")
    if spatial > 2:
        raise call.error(
            f"is a {spatial}-D convolution; only 1-D and 2-D ones are modelled",
            "leave this network out of the scenario",
        )
    if min(image) < 1 or min(weight) < 1:
        raise call.error(
            f"an operand is empty: input {show(image)}, weight {show(weight)}",
            "give the input's shape with the argument `shapes[NAME]`, or correct the model",
        )
    return spatial


def _check_bias(call: Call, at: int | None, outputs: int) -> None:
    if at is not None and call.has(at):
        shape = call.get(at).shape
        if is_known(shape) and shape != (outputs,):
            raise call.error(f"a bias {show(shape)} for {outputs} output channels")


def _spatial(
    channels: WorkloadShape,
    out: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> WorkloadShape:
    """Adds P, R, stride and dilation along the first axis and, if there is a second, Q and S along that."""
    pad = [1] * (2 - len(out))
    (p, q), (r, s) = (*out, *pad), (*kernel, *pad)
    (down, right), (apart, aside) = (*strides, *pad), (*dilations, *pad)
    return dataclasses.replace(channels, P=p, Q=q, R=r, S=s, stride=(down, right), dilation=(apart, aside))


@rule("ConvTranspose", layer=True)
@rule("ConvTransposeWithDynamicPads", domain=CONTRIB, layer=True)
def _conv_transpose(call: Call) -> list[Tensor]:
    x, w = call.get(0), call.get(1)
    if lost := _lost_constant(call, x, w, x.dtype):
        return lost
    weight, image = call.known_shape(1, "weight"), call.known_shape(0)
    n = _spatial_axes(call, image, weight)
    group = call.int_attr("group", 1)
    if group < 1 or image[1] != weight[0] or image[1] % group:
        raise call.error(
            f"channel mismatch: an input of {image[1]} channels, a weight {show(weight)} and {group} groups"
        )
    kernel = call.ints_attr("kernel_shape") or list(weight[2:])
    if kernel != list(weight[2:]):
        raise call.error(f"kernel_shape {kernel} differs from the weight's {show(weight)}")
    outputs = weight[1] * group
    dynamic = call.op == "ConvTransposeWithDynamicPads"
    _check_bias(call, 3 if dynamic else 2, outputs)
    strides, dilations = call.window_attr("strides", [1] * n), call.window_attr("dilations", [1] * n)
    extra = call.window_attr("output_padding", [0] * n)
    pads: Sequence[int | None] = call.window_attr("pads", [0] * 2 * n)
    if dynamic and call.has(2):
        pads = call.ints(2) or [None] * (2 * n)
    if not (len(strides) == len(dilations) == len(extra) == n and len(pads) == 2 * n):
        raise call.error(f"strides, dilations or pads do not fit {n} spatial axes")
    if min([*strides, *dilations]) < 1:
        raise call.error("strides and dilations must be positive")
    out: list[int | None]
    stated = call.ints_attr("output_shape")
    auto = auto_pad(call)
    if stated:
        if len(stated) not in (n, n + 2):  # some exporters state the batch and the channels too
            raise call.error(f"output_shape {stated} does not fit {n} spatial axes")
        out = list(stated[-n:])
    else:
        out = []
        for i in range(n):
            low, high = pads[i], pads[i + n]
            reach = (kernel[i] - 1) * dilations[i] + 1
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                out.append(image[2 + i] * strides[i])
            elif auto != "VALID" and (low is None or high is None):
                out.append(None)
            else:
                crop = 0 if auto == "VALID" else (low or 0) + (high or 0)
                out.append((image[2 + i] - 1) * strides[i] + extra[i] + reach - crop)
    if any(d is not None and d < 1 for d in out):
        raise call.error(f"an output of size {show(tuple(out))}")
    loops = WorkloadShape(G=group, N=image[0], K=outputs // group, C=image[1] // group)
    loops = _spatial(loops, image[2:], kernel, [1] * n, dilations)
    return [_convolved(call, (x, w), "tconv", loops, Tensor((image[0], outputs, *out), x.dtype))]


# --------------------------------------------------------------------------------------------- matrix products


def batch_loops(weights: Iterable[Factors], inputs: Iterable[Factors]) -> tuple[int, int, int]:
    """Turns the products along some batch axes into loops of one layer.

    Products that read the same weight operand become rows of one product, which reads it once for all of them. Products
    that read the same input operand become columns of one product.

    Args:
        weights: The batch axes of the operand in the role of the weights, all broadcast to their full sizes.
        inputs: Those of the other operand.

    Returns:
        Factors of G, N and K.
    """
    groups = rows = columns = 1
    for mine, theirs in zip(weights, inputs, strict=True):
        for size, same_weights, same_inputs in aligned(mine, theirs):
            if same_weights:
                rows *= size
            elif same_inputs:
                columns *= size
            else:
                groups *= size
    return groups, rows, columns


def _matrix_product(
    call: Call, a: Tensor, b: Tensor, dtype: int, suffix: str = "", others: Sequence[Tensor | None] = ()
) -> Tensor:
    """Adds the layer of `a @ b` by NumPy's rules and returns the product.

    The operands are transposed already, and all their sizes are known.
    """
    sa, sb = tuple(d or 0 for d in a.shape or ()), tuple(d or 0 for d in b.shape or ())
    if not sa or not sb:
        raise call.error(f"a scalar operand: {show(sa)} times {show(sb)}")
    left = sa if len(sa) > 1 else (1, *sa)
    right = sb if len(sb) > 1 else (*sb, 1)
    rows, depth, columns = left[-2], left[-1], right[-1]
    if depth != right[-2]:
        raise call.error(f"channel mismatch: {show(sa)} times {show(sb)} reduce over {depth} and {right[-2]}")
    batch = tuple(d or 0 for d in broadcast(left[:-2], right[:-2]) or ())
    shape = batch + ((rows,) if len(sa) > 1 else ()) + ((columns,) if len(sb) > 1 else ())
    if a.const and b.const:  # a bias or a scale may still be an activation: the walk looks at all operands
        call.fold_product()
        return Tensor(shape, dtype)
    first, second = spread(a.factors[:-2], left[:-2], batch), spread(b.factors[:-2], right[:-2], batch)
    if a.const:  # the weight stands first: its rows are the output channels
        first, second, rows, columns = second, first, columns, rows
    groups, more_rows, more_columns = batch_loops(second, first)
    loops = WorkloadShape(G=groups, N=rows * more_rows, K=columns * more_columns, C=depth)
    kind = "fc" if a.const or b.const else "bmm"
    layer = call.emit(suffix, kind, loops, word_bits_of(a, b), call.producers([a, b, *others]))
    return made_by(layer, shape, dtype)


# Operator -> positions of the operands.
_MATMUL_OPERANDS = {"QLinearMatMul": (0, 3)}


@rule("MatMul", "MatMulInteger", "QLinearMatMul", layer=True)
@rule(
    "MatMulInteger16",
    "DynamicQuantizeMatMul",
    "MatMulIntegerToFloat",
    "FusedMatMul",
    "TransposeMatMul",
    "FusedMatMulActivation",
    "QLinearMatMul",
    domain=CONTRIB,
    layer=True,
)
def _matmul(call: Call) -> list[Tensor]:
    at_a, at_b = _MATMUL_OPERANDS.get(call.op, (0, 1))
    a, b = call.get(at_a), call.get(at_b)
    dtype = _output_type(call, a)
    if lost := _lost_constant(call, a, b, dtype):
        return lost
    call.known_shape(at_a, "first operand")
    call.known_shape(at_b, "second operand")
    return [_matrix_product(call, _turned(a, call, "A"), _turned(b, call, "B"), dtype, others=call.inputs)]


def _turned(tensor: Tensor, call: Call, which: str) -> Tensor:
    """An operand after the transpositions of Gemm and com.microsoft's FusedMatMul."""
    shape = tensor.shape or ()
    order = list(range(len(shape)))
    if call.attr(f"transBatch{which}") and len(shape) > 2:  # the first axis becomes the second-last
        order = [*order[1:-1], order[0], order[-1]]
    if call.attr(f"trans{which}") and len(shape) > 1:
        order[-2:] = order[-1], order[-2]
    return permuted(dataclasses.replace(tensor, shape=tuple(shape[i] for i in order), data=None), tensor, order)


@rule("Gemm", layer=True)
@rule("FusedGemm", "QGemm", "GemmFastGelu", "GemmFloat8", domain=CONTRIB, layer=True)
def _gemm(call: Call) -> list[Tensor]:
    at_a, at_b, at_c = (0, 3, 6) if call.op == "QGemm" else (0, 1, 2)
    a, b = call.get(at_a), call.get(at_b)
    dtype = _output_type(call, a)
    if lost := _lost_constant(call, a, b, dtype):
        return lost
    sa, sb = call.known_shape(at_a, "first operand"), call.known_shape(at_b, "second operand")
    if len(sb) != 2 or (call.op != "GemmFastGelu" and len(sa) != 2):
        raise call.error(f"needs two matrices, not {show(sa)} and {show(sb)}")
    a, b = _turned(a, call, "A"), _turned(b, call, "B")
    if call.has(at_c):
        bias = call.get(at_c).shape
        if is_known(bias) and not call.attr("broadcast"):
            out = (*(a.shape or ())[:-1], *(b.shape or ())[-1:])
            sizes = zip(reversed(bias or ()), reversed(out), strict=False)
            if len(bias or ()) > len(out) or any(d not in (1, n) for d, n in sizes):
                raise call.error(f"a bias {show(bias)} for a result {show(out)}")
    return [_matrix_product(call, a, b, dtype, others=call.inputs)]


@rule("MatMulNBits", "MatMulBnb4", "MatMulFpQ4", domain=CONTRIB, layer=True)
def _packed_matmul(call: Call) -> list[Tensor]:
    """Weight-only quantisation: the weight is packed; its sizes are attributes or an input."""
    a = call.get(0)
    call.known_shape(0, "first operand")
    if call.op == "MatMulFpQ4":
        sizes = call.ints(2)
        if sizes is None or len(sizes) != 2 or None in sizes:
            raise call.error("the shape of the packed weight (input 2) is no constant")
        depth, columns = sizes
    else:
        depth, columns = call.int_attr("K"), call.int_attr("N")
    if call.op == "MatMulBnb4" and not call.int_attr("transB", 1):  # K and N name the axes of B as it is stored
        depth, columns = columns, depth
    bits = call.int_attr("bits", 4)
    if bits < 1:
        raise call.error(f"a weight of {bits} bits")
    weight = Tensor((depth, columns), a.dtype, const=True, bits=bits)
    return [_matrix_product(call, a, weight, a.dtype, others=call.inputs)]


@rule("QOrderedMatMul", domain=CONTRIB, layer=True)
def _ordered_matmul(call: Call) -> list[Tensor]:
    """The inputs are A, scale of A, B, scale of B, ...; all are int8, in memory orders that change no size."""
    call.known_shape(0, "first operand")
    call.known_shape(2, "second operand")
    return [_matrix_product(call, call.get(0), call.get(2), INT8, others=call.inputs)]


# ------------------------------------------------------------------------------------------------------ Einsum


@rule("Einsum", layer=True)
def _einsum(call: Call) -> list[Tensor]:
    operands = [call.get(i) for i in range(len(call.inputs))]
    terms, result = _parse_einsum(call, operands)
    sizes: dict[str, int | None] = {}
    for i, (term, tensor) in enumerate(zip(terms, operands, strict=True)):
        if tensor.shape is None and not tensor.const:
            call.known_shape(i)
        for label, d in zip(term, tensor.shape or (None,) * len(term), strict=True):
            known = sizes.get(label)
            if known is not None and d is not None and d != known and 1 not in (d, known):
                raise call.error(f"index {label!r} has the sizes {known} and {d}")
            sizes[label] = known if d is None or (known or 0) > d else d
    if any(label not in sizes for label in result):
        raise call.error(f"index {next(x for x in result if x not in sizes)!r} is in no operand")
    left = _Term(operands[0], terms[0])
    needed = [set(result)]  # letters still needed after each operand, from the last back
    for other in reversed(terms):
        needed.append(needed[-1] if needed[-1].issuperset(other) else needed[-1] | set(other))
    needed.reverse()
    for step, (tensor, other) in enumerate(zip(operands[1:], terms[1:], strict=True), 1):
        later = needed[step + 1]
        last = step == len(operands) - 1
        kept = result if last else "".join(dict.fromkeys(x for x in left.letters + other if x in later))
        suffix = "" if len(operands) == 2 else str(step)
        left = _Term(_contract(call, left, _Term(tensor, other), kept, sizes, suffix), kept)
    made = left.tensor
    return [Tensor(tuple(sizes[x] for x in result), operands[0].dtype, const=made.const, producers=made.producers)]


def _parse_einsum(call: Call, operands: list[Tensor]) -> tuple[list[str], str]:
    """Index letters of each operand and of the result; an ellipsis becomes upper-case Greek letters."""
    equation = call.str_attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not equation or len(terms) != len(operands):
        raise call.error(f"equation {equation!r} does not fit {len(operands)} operands")
    wild = [chr(0x391 + i) for i in range(24)]
    longest = 0
    for i, (term, tensor) in enumerate(zip(terms, operands, strict=True)):
        bare = term.replace("...", "")
        if not all(x.isalpha() and x.isascii() for x in bare):
            raise call.error(f"equation {equation!r} is malformed")
        if tensor.shape is None:
            if not tensor.const:
                call.known_shape(i)
            continue
        span = len(tensor.shape) - len(bare)
        if span < 0 or (span and "..." not in term) or span > len(wild):
            raise call.error(f"equation {equation!r} does not fit an operand {show(tensor.shape)}")
        longest = max(longest, span)
        terms[i] = term.replace("...", "".join(wild[len(wild) - span :]))
    dots = "".join(wild[len(wild) - longest :]) if longest else ""
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    return terms, dots + "".join(sorted(x for x in set(letters) if letters.count(x) == 1 and x.isascii()))


@dataclasses.dataclass
class _Term:
    """An operand of an Einsum.

    Attributes:
        tensor: The operand.
        letters: The index letter of each of its axes.
    """

    tensor: Tensor
    letters: str


def _contract(call: Call, left: _Term, right: _Term, kept: str, sizes: dict[str, int | None], suffix: str) -> Tensor:
    """Adds the layer of one product of an Einsum and returns the product, without its shape.

    Every index is a batch, row, column or reduced one. A product without a reduced index is no layer.

    Args:
        call: The operator.
        left: The first operand.
        right: The second one.
        kept: Index letters of the result.
        sizes: Size by index letter.
        suffix: Suffix of the layer's name.
    """
    a, b = left.tensor, right.tensor
    if a.const and b.const:
        call.fold_product()
        return Tensor(None, a.dtype, const=True)
    mine, theirs, out = dict.fromkeys(left.letters), dict.fromkeys(right.letters), set(kept)
    reduced = [x for x in mine if x in theirs and x not in out]
    if not reduced:
        call.warn(
            f"{call.label}: Einsum {call.str_attr('equation')!r} reduces over no common index: it is no matrix product"
            " and no layer"
        )
        return Tensor(None, a.dtype, producers=call.producers([a, b]))
    batch = [x for x in mine if x in theirs and x in out]
    rows = [x for x in mine if x not in theirs and x in out]
    columns = [x for x in theirs if x not in mine and x in out]

    def size(labels: list[str]) -> int:
        found = [sizes[x] for x in labels]
        if None in found:
            raise call.error(
                f"the size of an index of {call.str_attr('equation')!r} is unknown", "use the argument `shapes[NAME]`"
            )
        return math.prod(d for d in found if d is not None)

    m, c, n = size(rows), size(reduced), size(columns)
    wide = [size([x]) for x in batch]
    first, second = _axes_of(left, batch, wide), _axes_of(right, batch, wide)
    if a.const:  # the weight stands first: its rows are the output channels
        m, n, first, second = n, m, second, first
    kind = "fc" if a.const or b.const else "bmm"
    g, more_rows, more_columns = batch_loops(second, first)
    loops = WorkloadShape(G=g, N=m * more_rows, K=n * more_columns, C=c)
    layer = call.emit(suffix, kind, loops, word_bits_of(a, b), call.producers([a, b]))
    return made_by(layer, None, a.dtype)


def _axes_of(term: _Term, letters: Sequence[str], sizes: Sequence[int]) -> Repetition:
    """The axes of an Einsum's operand that some letters name, broadcast to the letters' sizes.

    The axes of a diagonal (a letter that occurs twice) and of a tensor of unknown shape count as not repeated.
    """
    tensor = term.tensor
    if not is_known(tensor.shape):
        return plain(sizes)
    at = [term.letters.index(x) for x in letters]
    found = spread(tuple(tensor.factors[i] for i in at), [(tensor.shape or ())[i] or 0 for i in at], sizes)
    own = plain(sizes)
    return tuple(own[i] if term.letters.count(x) > 1 else found[i] for i, x in enumerate(letters))


# -------------------------------------------------------------------------------------------- recurrent layers

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}


@rule("LSTM", "GRU", "RNN", layer=True)
@rule("DynamicQuantizeLSTM", domain=CONTRIB, layer=True)
def _recurrent(call: Call) -> list[Tensor]:
    gates = _GATES[call.op]
    x = call.get(0)
    steps, w, r = call.known_shape(0), call.known_shape(1, "weight"), call.known_shape(2, "recurrent weight")
    if len(steps) != 3 or len(w) != 3 or len(r) != 3:
        raise call.error(f"needs tensors of 3 axes, not {show(steps)}, {show(w)} and {show(r)}")
    if call.op == "DynamicQuantizeLSTM":
        w, r = (w[0], w[2], w[1]), (r[0], r[2], r[1])
    batch_first = bool(call.attr("layout", 0))
    length, batch = (steps[1], steps[0]) if batch_first else (steps[0], steps[1])
    hidden = r[2]
    directions = 2 if call.str_attr("direction", "forward") == "bidirectional" else 1
    if call.int_attr("hidden_size", hidden) != hidden:
        raise call.error(f"hidden_size {call.attr('hidden_size')} differs from the recurrent weight {show(r)}")
    if w != (directions, gates * hidden, steps[2]) or r != (directions, gates * hidden, hidden):
        raise call.error(f"channel mismatch: an input of {steps[2]} features, weights {show(w)} and {show(r)}")
    whole: Shape = (batch, length, directions, hidden) if batch_first else (length, directions, batch, hidden)
    last: Shape = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    shapes = (whole, last, last)
    if all(t.const for t in call.inputs if t is not None):
        call.fold_product()
        return [Tensor(s, x.dtype, const=True) for s in shapes]
    loops = WorkloadShape(N=batch, P=length, K=gates * hidden * directions, C=steps[2] + hidden)
    layer = call.emit("", "rnn", loops, word_bits_of(x, call.get(1)), call.producers(call.inputs))
    return [made_by(layer, s, x.dtype) for s in shapes]
