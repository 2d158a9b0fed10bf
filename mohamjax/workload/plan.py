"""The plan of a graph: its nodes in an order in which they can be walked, with decoded attributes.

A graph is planned once. Tensors that are defined twice and cycles are refused here, undefined tensors by the walk.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
from collections import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from mohamjax.errors import InputError
from mohamjax.workload.budget import MAX_AXES, Budget
from mohamjax.workload.onnx_file import check_sizes, read_tensor
from mohamjax.workload.tensor import Shape, Tensor

if TYPE_CHECKING:
    import onnx

_LONGEST_NAME = 300
"""Most characters of a node's name. A longer one loses its middle, because the names of all its layers repeat it."""

_COST_OF_OUTPUT = 8  # entries: the memory of a tensor without its sizes and values


@dataclasses.dataclass
class NodePlan:
    """A node with its attributes decoded.

    Attributes:
        op: Operator name.
        domain: Operator domain, `""` for the standard one.
        overload: Tells functions of one name apart.
        name: Its name, or one made from operator and place.
        inputs: Tensor names, `""` = left out.
        outputs: Tensor names, `""` = not wanted.
        attributes: Decoded; a graph is a `GraphPlan`, a tensor a `Tensor`.
        references: Attributes whose value is an attribute of the enclosing function.
        needs: Tensor names that it reads, including those that its graphs take from outside.
        entries: What a call costs at least: its operands, results and entries of attributes.
    """

    op: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, object]
    references: dict[str, str]
    needs: frozenset[str]
    entries: int

    @property
    def label(self) -> str:
        """The node as errors name it."""
        return f"node {self.name!r} ({self.op})"

    @property
    def graphs(self) -> list[GraphPlan]:
        """The graphs inside it."""
        found = []
        for value in self.attributes.values():
            found.extend(v for v in (value if isinstance(value, list) else [value]) if isinstance(v, GraphPlan))
        return found


@dataclasses.dataclass
class GraphPlan:
    """A graph (or function body) in an order in which it can be walked.

    Attributes:
        nodes: In topological order; the file's order where that is one.
        inputs: Names of the inputs that no initialiser defines.
        outputs: Names of the outputs.
        constants: Initialisers.
        hints: What the file states about its tensors, by name (`value_info`, inputs, outputs).
        free: Names that it takes from outside.
    """

    nodes: list[NodePlan]
    inputs: list[str]
    outputs: list[str]
    constants: dict[str, Tensor]
    hints: dict[str, onnx.ValueInfoProto]
    free: frozenset[str]


def plan_graph(graph: onnx.GraphProto | onnx.FunctionProto, budget: Budget) -> GraphPlan:
    """Decodes a graph or function body and orders its nodes.

    Args:
        graph: The graph.
        budget: The budget of the import; names the model file.

    Returns:
        The plan.

    Raises:
        InputError: A tensor is defined twice or is stated with impossible sizes, the nodes form a cycle, or an
            attribute cannot be decoded.
    """
    file = budget.file
    constants: dict[str, Tensor] = {}
    hints: dict[str, onnx.ValueInfoProto] = {info.name: info for info in graph.value_info}
    if _is_graph(graph):
        where = f"graph {graph.name!r}"
        for name, tensor in _constants(graph, budget):
            if name in constants:
                raise _defined_twice(name, file, where)
            constants[name] = tensor
        hints.update((info.name, info) for part in (graph.output, graph.input) for info in part)
        # Before IR version 4 an initialiser stands among the inputs too.
        inputs = [info.name for info in graph.input if info.name not in constants]
        outputs = [info.name for info in graph.output]
    else:  # its inputs and outputs are mere names
        where = f"function {graph.name!r}"
        inputs, outputs = [str(name) for name in graph.input], [str(name) for name in graph.output]
    for info in hints.values():
        _check_stated(info, file)
    for name, times in collections.Counter(inputs).items():
        if times > 1:
            raise _defined_twice(name, file, where)
    nodes = [_plan_node(node, i, budget) for i, node in enumerate(graph.node)]
    makers: dict[str, int] = {}
    defined = {*inputs, *constants}
    for i, node in enumerate(nodes):
        for name in node.outputs:
            if not name:
                continue
            if name in makers or name in defined:
                raise _defined_twice(name, file, node.label)
            makers[name] = i
    needed = set(outputs).union(*(node.needs for node in nodes)) if nodes else set(outputs)
    ordered = _ordered(nodes, makers, file)
    return GraphPlan(ordered, inputs, outputs, constants, hints, frozenset(needed - defined - makers.keys()))


def _is_graph(graph: onnx.GraphProto | onnx.FunctionProto) -> TypeGuard[onnx.GraphProto]:
    """Whether it is a graph, and not the body of a function."""
    return hasattr(graph, "initializer")


def _defined_twice(name: str, file: object, item: str) -> InputError:
    return InputError(
        f"tensor {name!r} is defined twice", file=file, item=item, remedy="correct the model and export it again"
    )


def _check_stated(info: onnx.ValueInfoProto, file: object) -> None:
    kind = info.type.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        dims = getattr(info.type, kind).shape.dim
        if len(dims) > MAX_AXES:
            check_sizes(dims, f"tensor {info.name!r}", file)


def _constants(graph: onnx.GraphProto, budget: Budget) -> Iterable[tuple[str, Tensor]]:
    for tensor in graph.initializer:
        yield tensor.name, read_tensor(tensor, budget)
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, _sparse(sparse, budget)


def _sparse(sparse: onnx.SparseTensorProto, budget: Budget) -> Tensor:
    check_sizes(sparse.dims, f"tensor {sparse.values.name!r}", budget.file)
    return Tensor(tuple(sparse.dims), int(sparse.values.data_type), const=True)


def _printable(text: str | bytes) -> str:
    """A name fit for one line; protobuf returns bytes for a name that is not UTF-8."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = shortened(text, _LONGEST_NAME)
    return "".join(c if c.isprintable() else "_" for c in text)


def shortened(text: str, longest: int) -> str:
    """The text; one that is too long loses its middle."""
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 2 :]}"


def entries(values: Iterable[object]) -> int:
    """How many entries the values of attributes have; bytes count by blocks of 64."""
    return sum(len(v) if isinstance(v, list) else len(v) >> 6 if isinstance(v, bytes) else 1 for v in values)


def _plan_node(node: onnx.NodeProto, index: int, budget: Budget) -> NodePlan:
    name = _printable(node.name) or f"{_printable(node.op_type) or 'node'}_{index}"
    attributes: dict[str, object] = {}
    references: dict[str, str] = {}
    needs = {x for x in node.input if x}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            references[attribute.name] = attribute.ref_attr_name
            continue
        value = decode(attribute, budget)
        attributes[attribute.name] = value
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, GraphPlan):
                needs |= part.free
    domain = "" if node.domain in ("", "ai.onnx") else node.domain
    return NodePlan(
        _printable(node.op_type),
        domain,
        node.overload,
        name,
        tuple(node.input),
        tuple(node.output),
        attributes,
        references,
        frozenset(needs),
        len(node.input) + _COST_OF_OUTPUT * len(node.output) + entries(attributes.values()),
    )


def decode(attribute: onnx.AttributeProto, budget: Budget) -> object:
    """The value of an attribute. A missing type (old exporters) is recognised by the field that is set."""
    kind = attribute.type
    if kind == 0:
        single = ((4, "t"), (5, "g"), (3, "s"), (1, "f"), (2, "i"))
        many = 6 if attribute.floats else 8 if attribute.strings else 7
        kind = next((k for k, field in single if attribute.HasField(field)), many)
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return attribute.s
    if kind == 4:
        return read_tensor(attribute.t, budget)
    if kind == 5:
        return plan_graph(attribute.g, budget)
    if kind == 6:
        return [float(v) for v in attribute.floats]
    if kind == 7:
        return [int(v) for v in attribute.ints]
    if kind == 8:
        return list(attribute.strings)
    if kind == 9:
        return [read_tensor(t, budget) for t in attribute.tensors]
    if kind == 10:
        return [plan_graph(g, budget) for g in attribute.graphs]
    if kind == 11:
        return _sparse(attribute.sparse_tensor, budget)
    return None


def _ordered(nodes: list[NodePlan], makers: abc.Mapping[str, int], file: object) -> list[NodePlan]:
    """Nodes in topological order, as near to the file's order as that allows."""
    waits = [{makers[name] for name in node.needs if name in makers} for node in nodes]
    if all(max(w, default=-1) < i for i, w in enumerate(waits)):
        return nodes
    users: list[list[int]] = [[] for _ in nodes]
    for i, w in enumerate(waits):
        for j in w:
            users[j].append(i)
    left = [len(w) for w in waits]
    ready = [i for i, n in enumerate(left) if n == 0]
    heapq.heapify(ready)
    out = []
    while ready:
        i = heapq.heappop(ready)
        out.append(nodes[i])
        for j in users[i]:
            left[j] -= 1
            if left[j] == 0:
                heapq.heappush(ready, j)
    if len(out) < len(nodes):
        at = next(i for i, n in enumerate(left) if n)
        seen: dict[int, int] = {}
        while at not in seen:  # a walk backward among the waiting nodes must close a cycle
            seen[at] = len(seen)
            at = min(j for j in waits[at] if left[j])
        cycle = [nodes[i].name for i in list(seen)[seen[at] :]]
        text = " <- ".join(repr(name) for name in cycle[:4]) + (" <- ..." if len(cycle) > 4 else "")
        raise InputError(
            f"the graph has a cycle of {len(cycle)} nodes: {text}",
            file=file,
            item=nodes[at].label,
            remedy="correct the model and export it again",
        )
    return out


def static_shape(info: onnx.ValueInfoProto | None, symbols: abc.Mapping[str, int]) -> tuple[Shape | None, int, bool]:
    """Shape, element type and whether it is a sequence, as the file states them.

    Args:
        info: The file's entry for the tensor, None where there is none.
        symbols: Values of symbolic sizes.

    Returns:
        The shape (None where it is not stated; None per size that is not), the element type (0 = not stated), and
        True for a sequence or optional.
    """
    if info is None:
        return None, 0, False
    kind = info.type.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return None, 0, kind is not None
    tensor = getattr(info.type, kind)
    if not tensor.HasField("shape"):
        return None, int(tensor.elem_type), False
    sizes: list[int | None] = []
    for d in tensor.shape.dim:
        which = d.WhichOneof("value")
        if which == "dim_value" and d.dim_value >= 0:
            sizes.append(int(d.dim_value))
        else:
            sizes.append(symbols.get(d.dim_param) if which == "dim_param" else None)
    return tuple(sizes), int(tensor.elem_type), False
