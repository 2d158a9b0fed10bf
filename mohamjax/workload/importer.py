"""Reads ONNX files as networks, and makes the rows that the command line prints of them."""

from __future__ import annotations

import os
import pathlib
import re
import sys
from collections import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

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

_NAMED_BATCH = re.compile(r"batch|^(n|b|bs|bsz|mb|nb)$", re.IGNORECASE)
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
    return frozenset(names.union(*(node.output for node in graph.node)) - {""})


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
        if shape is None or len(shape) > MAX_AXES or any(not 1 <= d <= MAX_SIZE for d in shape):
            raise InputError(
                f"the argument `shapes` gives it {sizes!r}",
                file=path,
                item=f"tensor {name!r}",
                remedy="give positive integers, as in the argument `shapes[NAME]`",
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
    chosen = _bind_batch(
        [infos[name] for name in names if name not in walk.shapes and name in used], symbols, batch or 1
    )
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
            shape = _resolved(info, shape, symbols, batch or 1, path)
        why = "" if shape is not None else f"input {name!r} has no shape"
        tensors[name] = Tensor(shape, dtype, const=name in weights, producers=frozenset(), sequence=sequence, why=why)
    if batch is None or chosen or any(_NAMED_BATCH.search(symbol) for symbol in symbols):
        return tensors, False
    return tensors, _is_of_one_sample({name: tensors[name] for name in names if name in used}, batch, tell)


def _is_of_one_sample(inputs: abc.Mapping[str, Tensor], batch: int, tell: Callable[[str], None]) -> bool:
    """Whether the first axis of every input is 1; warns unless all are 1, or all the batch that is asked for."""
    first = {name: t.shape[0] for name, t in inputs.items() if t.shape and not t.const}
    sizes = set(first.values())
    if sizes in ({1}, {batch}):
        return sizes == {1}
    other = next((name for name, d in first.items() if d not in (1, batch)), None)
    if other is not None:
        why = f"the first axis of input {other!r} is fixed at {first[other]}"
    elif first:
        one, several = (next(name for name, d in first.items() if d == size) for size in (1, batch))
        why = f"the first axis of input {one!r} is fixed at 1, that of input {several!r} at {batch}"
    else:
        why = "no input has an axis"
    tell(f"a batch of {batch} has no effect: {why}; export the model with a batch of 1, or with a symbolic one")
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


def _is_batch(symbol: str, axis: int) -> bool:
    """Whether a symbolic size is a batch: named like one, or on the leading axis and not named like something else."""
    if re.search(r"[*+/()]", symbol):  # an expression over other symbols
        return False
    if _NAMED_BATCH.search(symbol):
        return True
    return axis == 0 and not _NO_BATCH.search(symbol)


def _bind_batch(infos: Sequence[onnx.ValueInfoProto], symbols: dict[str, int], batch: int) -> list[str]:
    """Binds the batch symbols; returns them for the warning, as `input[axis]` where they have no name."""
    chosen: dict[str, None] = {}
    # A symbol that some later axis has too is no batch, unless its name says so.
    elsewhere = {size for info in infos for size in (_sizes(info) or ())[1:] if isinstance(size, str) and size}
    for info in infos:
        for axis, size in enumerate(_sizes(info) or ()):
            if not isinstance(size, str) or size in symbols or (size in elsewhere and not _NAMED_BATCH.search(size)):
                continue
            if _is_batch(size, axis):
                if size:
                    symbols[size] = batch
                chosen[size or f"{info.name}[{axis}]"] = None
    return list(chosen)


def _resolved(
    info: onnx.ValueInfoProto, shape: Shape | None, symbols: abc.Mapping[str, int], batch: int, path: object
) -> Shape:
    """The input's shape without unknown sizes."""
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
            d = batch if _is_batch("", axis) else None
        if d is None:
            bound = {**symbols, **({"": batch} if sizes[0] == "" else {})}
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
