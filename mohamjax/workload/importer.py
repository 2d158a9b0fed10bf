"""Reads ONNX files as networks, and makes the rows that the command line prints of them."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mohamjax.errors import InputError, one_line
from mohamjax.reader import closest_name
from mohamjax.workload import control_flow  # noqa: F401 -- the walk finds control flow by name
from mohamjax.workload.budget import MAX_AXES, MAX_SIZE
from mohamjax.workload.layer import Network, network_name, with_batch
from mohamjax.workload.onnx_file import load_model
from mohamjax.workload.plan import static_shape
from mohamjax.workload.tensor import Shape, Tensor
from mohamjax.workload.walk import Walk

if TYPE_CHECKING:
    import onnx

LAYER_COLUMNS = (
    "layer", "type", "op", "G", "N", "K", "C", "P", "Q", "R", "S", "stride_h", "stride_w", "dilation_h", "dilation_w",
    "word_bits", "predecessors", "macs",
)  # fmt: skip
"""Columns of a layer list (docs/formats.md)."""

_NAMED_BATCH = re.compile(r"batch|^(bs|bsz|mb|nb)$", re.IGNORECASE)
_BATCH_LETTER = re.compile(r"^[nb]$", re.IGNORECASE)
_NO_NAME = re.compile(r"^(unk\w*|s\d+|dim_?\d+|)$", re.IGNORECASE)  # as exporters number symbols
_NO_BATCH = re.compile(
    r"seq|len|height|width|^h$|^w$|^t$|^l$|^s$|^c$|time|step|tok|past|frame|chan|feat|hidden|head|point|node|edge|row|col|dim_?[1-9]",
    re.IGNORECASE,
)
_NAMED_WEIGHT = re.compile(r"(^|[./])(weights?|kernel)(:\d+)?$", re.IGNORECASE)


def _print_warning(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)


def read_network(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    batch: int | None = None,
    shapes: abc.Mapping[str, Sequence[int]] | None = None,
    skip_unknown: bool = False,
    warn: Callable[[str], None] | None = None,
) -> Network:
    """Reads the layers of an ONNX graph and what they depend on (docs/concepts/workload.md).

    Weights are not needed: they may be stripped, or external and missing.

    Args:
        path: The ONNX file, operator sets 7 to 23.
        name: Name of the network; the file's stem by default. Characters other than letters, digits and `_.+#-`
            become `_`.
        batch: Samples that run at once: the size of a symbolic batch (1, with a warning, if not given). If the file
            fixes the first axis of every input at 1, its layers count as those of one sample and do `batch` times the
            work (`with_batch`).
        shapes: Shapes by tensor name, for inputs with symbolic sizes and for tensors whose size depends on data.
        skip_unknown: Pass dependencies through unknown operators, with a warning, instead of refusing them.
        warn: Takes each warning, one line; standard error by default.

    Returns:
        The network. Its layers are in a topological order; a layer's predecessors are all layers reached backward
        through operators that are no layers (not reduced transitively).

    Raises:
        InputError: The file is no readable ONNX model, or its graph cannot be read as layers; names the node and the
            remedy.
    """
    report = warn or _print_warning

    def tell(line: str) -> None:
        report(one_line(f"{path}: {line}"))

    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 1):
        raise InputError(f"a batch of {batch!r}", file=path, item="batch", remedy="give a positive integer")
    given = _checked_shapes(shapes or {}, path)
    model = load_model(path)
    walk, single = None, False
    try:
        walk = Walk(model, path, tell, skip_unknown=skip_unknown, shapes=given)
        _check_shape_names(walk, path)
        inputs, single = _input_tensors(model.graph, walk, batch, tell, path)
        walk.run(inputs)
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        # Bytes that parse but make no sense (a name that is no text, a message in the wrong place).
        what = "is malformed: it parses, but its names, types or sizes are not those of a graph"
        if isinstance(error, MemoryError):
            what = "needs more memory than there is"
        elif isinstance(error, RecursionError):
            what = "nests its graphs or functions too deeply"
        item = walk.budget.item if walk is not None else None
        raise InputError(what, file=path, item=item, remedy="export the model to ONNX again") from error
    if not walk.layers:
        if walk.folded_products:
            what = f"holds no layer: all {walk.folded_products} products are between constants"
        else:
            what = "holds an empty graph: no convolution, matrix product, recurrent layer or attention"
        raise InputError(what, file=path, remedy="choose a model that computes something")
    if walk.folded_products:
        tell(f"{walk.folded_products} products of constants are computed ahead of time and are no layers")
    network = Network(network_name(name or pathlib.Path(path).stem), tuple(walk.layers), str(path))
    return with_batch(network, batch) if batch is not None and single else network


def tensor_names(path: str | os.PathLike[str]) -> frozenset[str]:
    """Names of the tensors of a model's main graph: those that a user may give a shape.

    Args:
        path: The ONNX file.

    Raises:
        InputError: The file is no ONNX model that can be read (`load_model`).
    """
    graph = load_model(path).graph
    names = {info.name for info in graph.input} | {tensor.name for tensor in graph.initializer}
    names = names.union(*(node.output for node in graph.node)) - {""}
    return frozenset(name for name in names if isinstance(name, str))  # others are no UTF-8, and bytes


def layer_rows(network: Network) -> list[dict[str, object]]:
    """Rows of a network's layer list, one per layer, with the columns `LAYER_COLUMNS`.

    Args:
        network: The network.

    Returns:
        One dictionary per layer, in order; `predecessors` are 0-based row numbers joined by `;`.
    """
    rows = []
    for layer in network.layers:
        shape = layer.shape
        values = (
            layer.name, layer.type, layer.op, *shape.bounds, *shape.stride, *shape.dilation, layer.word_bits,
            ";".join(str(p) for p in layer.predecessors), layer.macs,
        )  # fmt: skip
        rows.append(dict(zip(LAYER_COLUMNS, values, strict=True)))
    return rows


# ------------------------------------------------------------------------------------------------ input shapes


def _checked_shapes(shapes: abc.Mapping[str, Sequence[int]], path: object) -> dict[str, tuple[int, ...]]:
    out = {}
    for name, sizes in shapes.items():
        try:
            shape = tuple(int(d) for d in sizes)
        except (TypeError, ValueError):
            shape = None
        # Only an axis after the first may be empty, as that of a cache without keys: no sample is no work.
        if shape is None or len(shape) > MAX_AXES or any(not 0 <= d <= MAX_SIZE for d in shape) or 0 in shape[:1]:
            raise InputError(
                f"the argument `shapes` gives it {sizes!r}",
                file=path,
                item=f"tensor {name!r}",
                remedy="give positive integers, as in the argument `shapes[NAME]`; 0 only after the first",
            )
        out[str(name)] = shape
    return out


def _check_shape_names(walk: Walk, path: object) -> None:
    if not walk.shapes:
        return
    plan = walk.plan
    known = [*plan.inputs, *plan.constants, *(x for node in plan.nodes for x in node.outputs if x)]
    members = set(known)
    for name in walk.shapes:
        if name not in members:
            near = closest_name(name, known)
            inputs = ", ".join(plan.inputs[:6])
            remedy = "name a tensor of the model" if near is None else f"did you mean {near!r}?"
            raise InputError(
                f"the argument `shapes` names a tensor that is not there (inputs: {inputs})",
                file=path,
                item=repr(name),
                remedy=remedy,
            )


def _input_tensors(
    graph: onnx.GraphProto, walk: Walk, batch: int | None, tell: Callable[[str], None], path: object
) -> tuple[dict[str, Tensor], bool]:
    """Tensors of the graph's inputs: with the user's shapes, or else the file's with its symbolic sizes bound.

    Returns:
        The tensors by name, and whether the batch still has to multiply the layers: one is asked for, none is symbolic
        and the layers are those of one sample.
    """
    infos = {info.name: info for info in graph.input}
    used = set(walk.plan.outputs).union(*(node.needs for node in walk.plan.nodes))
    names = list(walk.plan.inputs)
    symbols = walk.symbols
    for name in names:  # the user's shapes bind the symbols that the file gives the same axes
        shape = walk.shapes.get(name)
        if shape is None:
            continue
        sizes = _sizes(infos[name])
        if sizes is not None and len(sizes) != len(shape):
            raise InputError(
                f"the argument `shapes` gives it {len(shape)} axes, the model {len(sizes)}",
                file=path,
                item=f"input {name!r}",
                remedy="give one size per axis",
            )
        for size, d in zip(sizes or (), shape, strict=False):
            if isinstance(size, str) and size:
                symbols.setdefault(size, d)
    stated = {name: _sizes(infos[name]) or [] for name in names if name in used}
    axes = _batch_axes(stated)
    chosen = _bind_batch({name: stated[name] for name in axes if name not in walk.shapes}, axes, symbols, batch or 1)
    if chosen and batch is None:
        tell(f"the batch is symbolic ({', '.join(chosen[:3])}): taken as 1; the argument `batch` sets it")
    # Models exported without their parameters name them as inputs.
    weights = [name for name in names if name in used and _NAMED_WEIGHT.search(name)]
    if len(weights) == len(names):
        weights = []
    if weights:
        tell(f"{len(weights)} inputs are taken for weights by their names ({', '.join(weights[:3])})")
    tensors = {}
    for name in names:
        info = infos[name]
        shape, dtype, sequence = static_shape(info, symbols)
        if name in walk.shapes:
            shape = walk.shapes[name]
        elif not sequence and name in used:
            shape = _resolved(info, shape, symbols, (batch or 1) if axes.get(name) == 0 else None, path)
        why = "" if shape is not None else f"input {name!r} has no shape"
        tensors[name] = Tensor(shape, dtype, const=name in weights, producers=frozenset(), sequence=sequence, why=why)
    if batch is None:
        return tensors, False
    sizes = _sizes_along_batch({name: t for name, t in tensors.items() if name in used and not t.const}, stated, axes)
    given = {name for name in walk.shapes if name in axes}
    if chosen:
        _check_batch_reaches_all(sizes, batch, given, tell)
        return tensors, False
    return tensors, _is_of_one_sample(sizes, batch, given, tell)


class _AlongBatch(NamedTuple):
    """An input along its batch axis."""

    axis: int
    size: int
    sure: bool  # whether it has a batch axis, or another axis beside the first one

    def told(self, name: str) -> str:
        """The size in words."""
        where = "the first axis" if self.axis == 0 else f"axis {self.axis}"
        return f"{where} of input {name!r} is fixed at {self.size}"


def _sizes_along_batch(
    inputs: abc.Mapping[str, Tensor], stated: abc.Mapping[str, Sequence[int | str]], axes: abc.Mapping[str, int]
) -> dict[str, _AlongBatch]:
    """The size of each input along its batch axis; along its first axis where none is symbolic.

    Args:
        inputs: The inputs; those without axes are left out.
        stated: Their sizes as the file states them.
        axes: Their batch axes (`_batch_axes`).
    """
    sizes = {}
    for name, t in inputs.items():
        if t.shape:
            axis = axes.get(name, 0)
            sizes[name] = _AlongBatch(axis, t.shape[axis] or 0, name in axes or len(t.shape) > 1)
    # An input that starts with a symbol that is no batch is ignored if any other input tells the batch.
    telling = {n: d for n, d in sizes.items() if n in axes or not stated[n] or isinstance(stated[n][0], int)}
    return telling or sizes


def _check_batch_reaches_all(
    sizes: abc.Mapping[str, _AlongBatch], batch: int, given: abc.Container[str], tell: Callable[[str], None]
) -> None:
    """Warns where an input has another batch than the others, whose batch is symbolic.

    The arguments are those of `_is_of_one_sample`.
    """
    # The only axis of an input, such as a number of beams, may be no batch.
    other = next((name for name, own in sizes.items() if own.sure and own.size != batch), None)
    if other is not None:
        remedy = "export the model with a symbolic batch for all inputs"
        if other in given:
            remedy = f"give it a shape of {batch} samples"
        tell(f"a batch of {batch} does not reach every input: {sizes[other].told(other)}; {remedy}")


def _is_of_one_sample(
    sizes: abc.Mapping[str, _AlongBatch], batch: int, given: abc.Container[str], tell: Callable[[str], None]
) -> bool:
    """Whether the batch of every input is 1; warns unless all are 1, or all the batch that is asked for.

    Args:
        sizes: Inputs along their batch axes.
        batch: The batch that is asked for.
        given: Inputs with a symbolic batch whose shapes the user gave.
        tell: Takes a warning.
    """
    found = {own.size for own in sizes.values()}
    if found in ({1}, {batch}):
        return found == {1}
    other = next((name for name, own in sizes.items() if own.size not in (1, batch)), None)
    remedy = "export the model with a batch of 1, or with a symbolic one"
    if other is not None:
        why = sizes[other].told(other)
        if other in given:
            remedy = f"give it a shape of 1 or {batch} samples"
    elif sizes:
        one, several = (next(name for name, own in sizes.items() if own.size == size) for size in (1, batch))
        why = f"{sizes[one].told(one)}, and {sizes[several].told(several)}"
    else:
        why = "no input has an axis"
    tell(f"a batch of {batch} has no effect: {why}; {remedy}")
    return False


def _sizes(info: onnx.ValueInfoProto) -> list[int | str] | None:
    """Sizes as the file states them: integers, symbol names, `""` if not stated; None without a shape.

    Some exporters write -1 for a size that they do not know, or 0 for the batch of a tensor of several axes.
    """
    kind = info.type.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return None
    tensor = getattr(info.type, kind)
    if not tensor.HasField("shape"):
        return None
    sizes = [d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param for d in tensor.shape.dim]
    least = [1 if axis == 0 and len(sizes) > 1 else 0 for axis in range(len(sizes))]
    return ["" if isinstance(d, int) and d < m else d for d, m in zip(sizes, least, strict=True)]


def _batch_rank(sizes: Sequence[int | str], axis: int) -> int:
    """How likely an axis is a batch: 3 by its name, 2 as the leading axis, 1 by its letter, 0 not at all."""
    symbol = sizes[axis]
    if not isinstance(symbol, str) or re.search(r"[*+/()]", symbol):  # a number, or an expression over other symbols
        return 0
    if _NAMED_BATCH.search(symbol):
        return 3
    letter = _is_letter(symbol)
    if letter and sizes.count(symbol) > 1:  # such as the sides of square images
        return 0
    if axis == 0 and (letter or not _NO_BATCH.search(symbol)):
        return 2
    return int(letter)


def _batch_axes(inputs: abc.Mapping[str, Sequence[int | str]]) -> dict[str, int]:
    """The axis of each input that is its batch; inputs without one are left out.

    An input has one batch. A symbol that is another axis of some input is no batch anywhere, except where that input
    has it on its batch axis too and it is named like a batch.

    Args:
        inputs: Sizes of each input (`_sizes`).
    """
    axes, others = {}, set()
    for name, sizes in inputs.items():
        ranks = [_batch_rank(sizes, axis) for axis in range(len(sizes))]
        at = ranks.index(max(ranks)) if any(ranks) else -1
        if at >= 0:
            axes[name] = at
        named = sizes[at] if at >= 0 and _says_batch(sizes[at]) else None
        others.update(size for axis, size in enumerate(sizes) if axis != at and size and size != named)
    # Behind a first axis of 1 a letter counts something else, such as points, unless it is the batch of another input:
    # the states of recurrent layers have an axis for layers before that of the batch.
    doubtful = {name for name, at in axes.items() if at > 0 and inputs[name][0] == 1 and _is_letter(inputs[name][at])}
    sure = {inputs[name][at] for name, at in axes.items() if name not in doubtful and len(inputs[name]) > 1}
    axes = {name: at for name, at in axes.items() if name not in doubtful or inputs[name][at] in sure}
    several = any(len(inputs[name]) > 1 for name in axes)
    unnamed = [name for name, at in axes.items() if _NO_NAME.search(str(inputs[name][at]))]
    return {
        name: at
        for name, at in axes.items()
        if inputs[name][at] not in others
        # The only axis of an input may as well be a length, unless there are other samples beside it.
        and (several or _says_batch(inputs[name][at]) or (len(unnamed) > 1 and name in unnamed))
    }


def _says_batch(symbol: int | str) -> bool:
    """Whether a size is a symbol that is named like a batch."""
    return (isinstance(symbol, str) and bool(_NAMED_BATCH.search(symbol))) or _is_letter(symbol)


def _is_letter(symbol: int | str) -> bool:
    """Whether a size is a symbol of one letter that often stands for a batch."""
    return isinstance(symbol, str) and bool(_BATCH_LETTER.search(symbol))


def _bind_batch(
    inputs: abc.Mapping[str, Sequence[int | str]], axes: abc.Mapping[str, int], symbols: dict[str, int], batch: int
) -> list[str]:
    """Binds the batch symbols; returns them for the warning, as `input[axis]` where they have no name."""
    chosen: dict[str, None] = {}
    for name, sizes in inputs.items():
        size = str(sizes[axes[name]])
        if size in symbols:
            continue
        chosen[size or f"{name}[{axes[name]}]"] = None
        if size:
            symbols[size] = batch
    return list(chosen)


def _resolved(
    info: onnx.ValueInfoProto, shape: Shape | None, symbols: abc.Mapping[str, int], batch: int | None, path: object
) -> Shape:
    """The input's shape without unknown sizes; `batch` is that of a first axis without a name, if it is one."""
    sizes = _sizes(info)
    if sizes is None or shape is None:
        raise InputError(
            "its shape is not stated",
            file=path,
            item=f"input {info.name!r}",
            remedy=f"give it with the argument `shapes[{info.name}]`",
        )
    out: list[int] = []
    for axis, (size, d) in enumerate(zip(sizes, shape, strict=True)):
        if size == "":
            d = batch if axis == 0 else None
        if d is None:
            bound = symbols if batch is None else {**symbols, "": batch}
            text = ",".join(
                str(s) if isinstance(s, int) else str(bound.get(s, "d") if s or i == 0 else "d")
                for i, s in enumerate(sizes)
            )
            raise InputError(
                f"axis {axis} has the symbolic size {size or '?'!r}",
                file=path,
                item=f"input {info.name!r}",
                remedy=f"give the shape with the argument `shapes[{info.name}]={text}`, a number for every d",
            )
        out.append(d)
    return tuple(out)
