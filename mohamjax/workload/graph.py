"""The graph walk: from ONNX nodes to layers and what they depend on.

A graph is planned once (nodes in topological order, attributes decoded, undefined and doubly defined tensors and cycles
refused) and then walked. The walk computes with tensors of which only shape, small values and producers are known
(`tensor.Tensor`); functions are inlined, branches with a constant condition are taken, loops with a constant trip count
are unrolled. A layer's predecessors are the layers that its operands were computed from, through operators that are
no layers; they are not reduced transitively.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.workload.budget import MAX_AXES, Budget
from mohamjax.workload.layer import Layer, WorkloadShape
from mohamjax.workload.onnx_file import MAX_FOLDED_INTEGERS, check_sizes, read_tensor
from mohamjax.workload.operators import CONTRIB, PURE_RANDOM, QUANTISED_THROUGH, RULES, STANDARD, find_rule, is_layer
from mohamjax.workload.tensor import BOOL, INT64, TYPE_BITS, Call, Shape, Tensor, count, is_known, show, union

if TYPE_CHECKING:
    import onnx

__all__ = ["GraphPlan", "Walk", "plan_graph", "static_shape"]

MAX_UNROLLED = 100_000
"""Operator calls that one loop may make."""

MAX_LAYERS = 50_000
MAX_TRIPS = 10_000
"""Unrolled iterations of a loop with a trip count."""

MAX_TRIAL = 1_000
"""Iterations after which a loop without a trip count is taken for endless."""

_SMALL = 1 << 8
"""Elements of a tensor that counts as small."""

_MOST_UNKNOWN = 1 << 10
"""Elements of an array of which some are unknown: shapes are short, and such arrays are slow."""

_LONGEST_NAME = 300
_LONGEST_PREFIX = 1000
"""Characters of a node's name and of the names around it; longer ones lose their middle, for they stand everywhere."""

MAX_DEPTH = 64
"""Functions and control flow inside each other."""

MAX_BOUND = 2**31 - 1
MAX_MACS = 2**62

_BLOCKED = "com.microsoft.nchwc"
"""Convolutions over padded channel blocks: their true channel counts are lost."""

_COST_OF_OUTPUT = 8  # entries: what a tensor takes of memory beside its sizes and values

_CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})


# ---------------------------------------------------------------------------------------------------- planning


@dataclasses.dataclass
class NodePlan:
    """A node with its attributes decoded.

    Attributes:
        op: Operator name.
        domain: Operator domain, `""` for the standard one.
        overload: Which function of that name.
        name: Its name, or one made from operator and place.
        inputs: Tensor names, `""` = left out.
        outputs: Tensor names, `""` = not wanted.
        attributes: Decoded; a graph is a `GraphPlan`, a tensor a `Tensor`.
        references: Attributes whose value is an attribute of the enclosing function.
        needs: Tensor names that it reads, those inside its graphs included.
        entries: Operands, results and entries of its attributes: what a call of it costs at least.
    """

    op: str
    domain: str
    overload: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
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
        hints: What the file says of its tensors, by name (`value_info`, inputs, outputs).
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
        budget: Of the import; names the model file.

    Returns:
        The plan.

    Raises:
        InputError: A tensor is defined twice or is said to have sizes that no tensor has, the nodes form a cycle, or
            an attribute cannot be decoded.
    """
    file = budget.file
    constants: dict[str, Tensor] = {}
    hints: dict[str, Any] = {info.name: info for info in graph.value_info}
    inputs: list[str] = []
    outputs: list[str] = []
    where = f"graph {graph.name!r}"
    if not hasattr(graph, "initializer"):  # a function: its inputs and outputs are mere names
        where = f"function {graph.name!r}"
        inputs, outputs = [str(name) for name in graph.input], [str(name) for name in graph.output]
    else:
        body: Any = graph
        for name, tensor in _constants(body, budget):
            if name in constants:
                raise _defined_twice(name, file, where)
            constants[name] = tensor
        hints.update((info.name, info) for part in (body.output, body.input) for info in part)
        # Before IR version 4 an initialiser stands among the inputs too.
        inputs = [info.name for info in body.input if info.name not in constants]
        outputs = [info.name for info in body.output]
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
    """A name fit for one line; protobuf hands over bytes where a name is no UTF-8."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    text = _shortened(text, _LONGEST_NAME)
    return "".join(c if c.isprintable() else "_" for c in text)


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest // 2]}...{text[-longest // 2 :]}"


def _entries(values: Iterable[Any]) -> int:
    """How much there is to read in the values of attributes."""
    return sum(len(v) if isinstance(v, list) else len(v) >> 6 if isinstance(v, bytes) else 1 for v in values)


def _plan_node(node: onnx.NodeProto, index: int, budget: Budget) -> NodePlan:
    name = _printable(node.name) or f"{_printable(node.op_type) or 'node'}_{index}"
    attributes: dict[str, Any] = {}
    references: dict[str, str] = {}
    needs = {x for x in node.input if x}
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            references[attribute.name] = attribute.ref_attr_name
            continue
        value = _decode(attribute, budget)
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
        len(node.input) + _COST_OF_OUTPUT * len(node.output) + _entries(attributes.values()),
    )


def _decode(attribute: onnx.AttributeProto, budget: Budget) -> Any:
    """Value of an attribute; a missing type (old exporters) is told from the field that is set."""
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


def _ordered(nodes: list[NodePlan], makers: Mapping[str, int], file: object) -> list[NodePlan]:
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
        while at not in seen:  # walking backward among the nodes that wait must come round
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


def static_shape(info: onnx.ValueInfoProto | None, symbols: Mapping[str, int]) -> tuple[Shape | None, int, bool]:
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


# ----------------------------------------------------------------------------------------------------- walking


@dataclasses.dataclass
class _Scope:
    """Tensors in reach: a graph's own, then those of the graphs around it."""

    tensors: dict[str, Tensor | None]
    hints: Mapping[str, onnx.ValueInfoProto]
    opsets: Mapping[str, int]
    attributes: Mapping[str, Any]
    prefix: str = ""
    parent: _Scope | None = None
    depth: int = 0
    main: bool = False

    def find(self, name: str) -> Tensor | None:
        """The tensor of that name."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.tensors:
                return scope.tensors[name]
            scope = scope.parent
        raise KeyError(name)

    def inner(self, hints: Mapping[str, onnx.ValueInfoProto], prefix: str) -> _Scope:
        """The scope of a graph inside a node."""
        return _Scope({}, hints, self.opsets, self.attributes, prefix, self, self.depth + 1)


class Walk:
    """Walks a model and gathers its layers.

    Args:
        model: The parsed model.
        file: Its file, for errors.
        warn: Takes one line per warning.
        skip_unknown: Pass dependencies through operators that are not known, with a warning, instead of refusing them.
        shapes: Shapes that the user gave, by tensor name.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        file: object,
        warn: Callable[[str], None],
        *,
        skip_unknown: bool = False,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.file = file
        self.budget = Budget(file)
        self.skip_unknown = skip_unknown
        self.shapes = dict(shapes or {})
        self.layers: list[Layer] = []
        self.folded_products = 0
        self.symbols: dict[str, int] = {}
        self._warn = warn
        self._warned: set[str] = set()
        self._names: dict[str, int] = {}
        self._renamed: list[tuple[str, int | None]] = []
        self._functions = {(f.domain if f.domain != "ai.onnx" else "", f.name, f.overload): f for f in model.functions}
        self._function_plans: dict[tuple[str, str, str], tuple[GraphPlan, dict[str, Any]]] = {}
        self._endless: set[int] = set()
        self._computes: dict[int, bool] = {}
        self.opsets = self._versions(model.opset_import)
        self.plan = plan_graph(model.graph, self.budget)
        if self.plan.free:
            raise self._undefined(self.plan, f"graph {model.graph.name!r}")

    # ------------------------------------------------------------------------------------------------- helpers

    @staticmethod
    def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
        return {"" if entry.domain == "ai.onnx" else entry.domain: int(entry.version) for entry in imports}

    def _error(self, node: NodePlan, scope: _Scope, message: str, remedy: str) -> InputError:
        return InputError(message, file=self.file, item=self._label(node, scope), remedy=remedy)

    @staticmethod
    def _label(node: NodePlan, scope: _Scope) -> str:
        return f"node {scope.prefix + node.name!r} ({node.op})"

    def _undefined(self, plan: GraphPlan, where: str) -> InputError:
        for node in plan.nodes:
            for name in sorted(node.needs & plan.free):
                return InputError(
                    f"input tensor {name!r} is not defined: no node, input or initialiser makes it",
                    file=self.file,
                    item=node.label,
                    remedy="correct the model and export it again",
                )
        return InputError(
            f"output {sorted(plan.free)[0]!r} is not defined: no node makes it",
            file=self.file,
            item=where,
            remedy="correct the model and export it again",
        )

    def warn(self, line: str) -> None:
        """Passes a warning on, once."""
        if line not in self._warned:
            self._warned.add(line)
            self._warn(line)

    # ---------------------------------------------------------------------------------------------------- walk

    def run(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor | None]:
        """Walks the main graph.

        Args:
            inputs: The graph inputs by name.

        Returns:
            What is known of every tensor of the main graph.

        Raises:
            InputError: What the model holds cannot be read as layers; names the node and the remedy.
        """
        scope = _Scope(dict(inputs), self.plan.hints, self.opsets, {}, main=True)
        self._run_graph(self.plan, scope)
        return scope.tensors

    def _run_graph(self, plan: GraphPlan, scope: _Scope) -> list[Tensor]:
        """Walks a graph whose inputs are in the scope; returns its outputs."""
        if scope.depth > MAX_DEPTH:
            raise InputError(
                f"functions or control flow lie more than {MAX_DEPTH} deep inside each other",
                file=self.file,
                item=scope.prefix.rstrip("/"),
                remedy="correct the model (a function that calls itself?) and export it again",
            )
        self.budget.spend("calls")
        self.budget.spend("entries", len(plan.constants) + len(plan.inputs) + len(plan.outputs))
        for name, tensor in plan.constants.items():
            scope.tensors[name] = self._overridden(name, tensor, scope)
        for node in plan.nodes:
            self._run_node(node, scope)
        outputs = []
        for name in plan.outputs:
            tensor = scope.find(name)
            outputs.append(Tensor(None, producers=frozenset(), const=True) if tensor is None else tensor)
        return outputs

    def _run_node(self, node: NodePlan, scope: _Scope) -> None:
        budget = self.budget
        budget.item = label = self._label(node, scope)
        budget.spend("calls")
        budget.spend("entries", node.entries)
        inputs = [scope.find(name) if name else None for name in node.inputs]
        attributes = node.attributes
        if node.references:
            attributes = dict(attributes)
            for key, reference in node.references.items():
                if reference in scope.attributes:
                    attributes[key] = scope.attributes[reference]
            budget.spend("entries", _entries(attributes.values()))
        try:
            with np.errstate(all="ignore"):
                made = self._apply(node, scope, inputs, attributes)
        except InputError:
            raise
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            MemoryError,
        ) as error:
            # Rules trust their operands' form; whatever a malformed node makes of that ends here, as the user's error.
            reason = " ".join(str(error).split()) or type(error).__name__
            raise self._error(
                node,
                scope,
                f"its inputs or attributes do not fit the operator ({reason})",
                "correct the model and export it again",
            ) from error
        for i, name in enumerate(node.outputs):
            if name:
                tensor = made[i] if i < len(made) else self._unmade(inputs)
                if tensor.shape is not None:
                    check_sizes(tensor.shape, label, self.file)
                    budget.spend("entries", len(tensor.shape))
                scope.tensors[name] = self._overridden(name, self._hinted(name, tensor, scope), scope)

    def _unmade(self, inputs: list[Tensor | None]) -> Tensor:
        return Tensor(None, 0, producers=self._union(inputs))

    def _union(self, tensors: Iterable[Tensor | None]) -> frozenset[int]:
        return union(tensors, self.budget)

    def _apply(
        self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None], attributes: Mapping[str, Any]
    ) -> list[Tensor]:
        key = (node.domain, node.op, node.overload)
        if key in self._functions:
            return self._call_function(key, node, scope, inputs, attributes)
        if node.domain == "" and node.op in _CONTROL:
            control = {"If": self._if, "Loop": self._loop, "Scan": self._scan, "SequenceMap": self._sequence_map}[
                node.op
            ]
            return control(node, scope, inputs, attributes)
        rule = find_rule(node.domain, node.op)
        if rule is None:
            return self._unknown(node, scope, inputs)
        self._read(inputs)
        if not self.budget.fold(0):
            inputs = [None if t is None else _without_large(t) for t in inputs]
        call = Call(
            op=node.op,
            domain=node.domain,
            opset=scope.opsets.get(node.domain, 1),
            label=self.budget.item or self._label(node, scope),
            inputs=inputs,
            attributes=attributes,
            outputs=len(node.outputs),
            file=self.file,
            warn=self.warn,
            emit=lambda suffix, kind, bounds, bits, producers: self._emit(
                node, scope, suffix, kind, bounds, bits, producers
            ),
            fold_product=self._fold_product,
            budget=self.budget,
        )
        outputs = rule(call)
        self._finish(call, outputs)
        return outputs

    def _read(self, tensors: Iterable[Tensor | None]) -> None:
        """Counts the values that a rule gets: singly where Python looks at each, otherwise as NumPy takes them."""
        self.budget.spend(
            "entries",
            sum(
                t.data.size if t.data.dtype == object else t.data.size >> 6
                for t in tensors
                if t is not None and t.data is not None
            ),
        )

    def _fold_product(self) -> None:
        self.folded_products += 1

    def _finish(self, call: Call, outputs: list[Tensor]) -> None:
        """Adds what holds for every operator: constants, producers, quantised widths, who lost a shape."""
        operands = [t for t in call.inputs if t is not None]
        const = all(t.const for t in operands) and call.op not in PURE_RANDOM
        producers: frozenset[int] | None = None
        why = ""
        for out in outputs:
            if out.producers is None:
                out.const = out.const or const or out.values_known
                if out.const:
                    out.producers = frozenset()
                else:
                    producers = self._union(operands) if producers is None else producers
                    out.producers = producers
            if out.bits is None and operands:
                if call.op in QUANTISED_THROUGH:
                    out.bits = operands[0].bits
                elif call.op == "Cast" and const and operands[0].dtype != BOOL:
                    narrow = TYPE_BITS.get(operands[0].dtype, 32)
                    out.bits = narrow if narrow <= 8 else operands[0].bits
                elif const:
                    out.bits = next((t.bits for t in operands if t.bits), None)
            if out.elements is not None and not any(out.elements is t.elements for t in operands):
                self.budget.spend("members", len(out.elements))
            if out.data is not None and not self._kept(out.data):
                out.data = None
            if not is_known(out.shape) and not out.sequence and not out.why:
                lost = next((t.why for t in operands if t.why), "")
                why = why or f"{call.label} makes a size that depends on data"
                out.why = lost or why

    def _kept(self, data: np.ndarray) -> bool:
        """Whether computed values may be kept."""
        if data.size > (_MOST_UNKNOWN if data.dtype == object else MAX_FOLDED_INTEGERS):
            return False
        if data.size > _SMALL:
            return self.budget.fold(data.size)
        self.budget.spend("entries", data.size >> 2)
        return True

    def _hinted(self, name: str, tensor: Tensor, scope: _Scope) -> Tensor:
        """Fills sizes that the rules could not know from what the file states of the tensor."""
        if (is_known(tensor.shape) and tensor.dtype) or name not in scope.hints:
            return tensor
        shape, dtype, sequence = static_shape(scope.hints[name], self.symbols if scope.main else {})
        if tensor.shape is None:
            merged = shape
        elif shape is not None and len(shape) == len(tensor.shape):
            merged = tuple(b if a is None else a for a, b in zip(tensor.shape, shape, strict=True))
        else:
            merged = tensor.shape
        return dataclasses.replace(
            tensor, shape=merged, dtype=tensor.dtype or dtype, sequence=tensor.sequence or sequence
        )

    def _overridden(self, name: str, tensor: Tensor, scope: _Scope) -> Tensor:
        if not scope.main or name not in self.shapes:
            return tensor
        shape = self.shapes[name]
        if tensor.shape is not None and len(tensor.shape) != len(shape):
            raise InputError(
                f"--shape gives it {len(shape)} axes, it has {len(tensor.shape)} ({show(tensor.shape)})",
                file=self.file,
                item=f"tensor {name!r}",
                remedy="give one size per axis",
            )
        return dataclasses.replace(tensor, shape=shape, data=None if shape != tensor.shape else tensor.data)

    def _emit(
        self,
        node: NodePlan,
        scope: _Scope,
        suffix: str,
        kind: str,
        bounds: Mapping[str, Any],
        word_bits: int,
        producers: frozenset[int],
    ) -> int:
        shape = WorkloadShape(**bounds)
        for dim, bound in bounds.items():
            for size in bound if isinstance(bound, tuple) else (bound,):
                if not 1 <= size <= MAX_BOUND:
                    raise self._error(
                        node,
                        scope,
                        f"its loop {dim} would run over {size}: "
                        + ("there is nothing to compute" if size < 1 else "too much"),
                        "give sensible sizes, with --shape NAME=d,d,... or in the model",
                    )
        if shape.macs > MAX_MACS:
            raise self._error(
                node, scope, f"it would take {shape.macs:.3g} multiply-accumulates", "correct the sizes in the model"
            )
        if len(self.layers) >= MAX_LAYERS:
            raise self._error(node, scope, f"the model has more than {MAX_LAYERS} layers", "export a smaller one")
        base = scope.prefix + node.name + (f"/{suffix}" if suffix else "")
        name = base
        while name in self._names:
            self.budget.spend("calls")
            self._name(base, self._names[base] + 1)
            name = f"{base}_{self._names[base]}"
        self._name(name, 1)
        self.budget.spend("dependencies", len(producers))
        self.layers.append(Layer(name, kind, node.op, shape, word_bits, tuple(sorted(producers))))
        return len(self.layers) - 1

    def _name(self, name: str, number: int) -> None:
        """Notes that a layer has the name, or how often it was asked for, and what was noted before."""
        self._renamed.append((name, self._names.get(name)))
        self._names[name] = number

    def _mark(self) -> tuple[int, int, int]:
        """A place to come back to with `_drop_layers`."""
        return len(self.layers), len(self._renamed), self.folded_products

    def _drop_layers(self, mark: tuple[int, int, int]) -> None:
        """Drops the layers of a trial that is given up. What it took of the budget stays taken."""
        del self.layers[mark[0] :]
        while len(self._renamed) > mark[1]:
            name, number = self._renamed.pop()
            if number is None:
                del self._names[name]
            else:
                self._names[name] = number
        self.folded_products = mark[2]

    # ---------------------------------------------------------------------------------- functions, unknown ones

    def _function_plan(self, key: tuple[str, str, str]) -> tuple[GraphPlan, dict[str, Any]]:
        """The body of a function and the defaults of its attributes, decoded once."""
        known = self._function_plans.get(key)
        if known is None:
            function = self._functions[key]
            plan = plan_graph(function, self.budget)
            if plan.free:
                raise self._undefined(plan, f"function {key[1]!r}")
            known = plan, {a.name: _decode(a, self.budget) for a in function.attribute_proto}
            self._function_plans[key] = known
        return known

    def _call_function(
        self,
        key: tuple[str, str, str],
        node: NodePlan,
        scope: _Scope,
        inputs: list[Tensor | None],
        attributes: Mapping[str, Any],
    ) -> list[Tensor]:
        function = self._functions[key]
        plan, defaults = self._function_plan(key)
        if len(inputs) > len(plan.inputs):
            raise self._error(
                node,
                scope,
                f"{len(inputs)} inputs for a function of {len(plan.inputs)}",
                "correct the model and export it again",
            )
        self.budget.spend("entries", len(defaults) + len(function.opset_import))
        given = {**defaults, **attributes}
        opsets = self._versions(function.opset_import) or scope.opsets
        inner = _Scope({}, plan.hints, opsets, given, _prefix(scope, node, "/"), None, scope.depth + 1)
        for i, name in enumerate(plan.inputs):
            inner.tensors[name] = inputs[i] if i < len(inputs) else None
        return self._run_graph(plan, inner)

    def _unknown(self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None]) -> list[Tensor]:
        what = f"operator {node.op!r}" + (f" of domain {node.domain!r}" if node.domain else "")
        if not self.skip_unknown:
            known = RULES[CONTRIB if node.domain else STANDARD]
            near = difflib.get_close_matches(node.op, known, 1, 0.8) if node.domain in (STANDARD, CONTRIB) else []
            guess = f" (did you mean {near[0]}?)" if near and near[0] != node.op else ""
            remedy = "--skip-unknown passes its dependencies on without counting it"
            if node.domain == _BLOCKED:
                remedy = "use the model as it was before ONNX Runtime fitted its layout to a processor"
            raise self._error(node, scope, f"unknown {what}{guess}", remedy)
        self.warn(f"{self._label(node, scope)}: unknown {what} is no layer; its dependencies are passed on")
        return self._passed(node, scope, inputs)

    def _passed(self, node: NodePlan, scope: _Scope, inputs: Iterable[Tensor | None]) -> list[Tensor]:
        """Outputs of a node that is passed over: of the first input's shape unless the file states another."""
        operands = [t for t in inputs if t is not None]
        producers = self._union(operands)
        out = []
        for name in node.outputs:
            shape, dtype, sequence = static_shape(scope.hints.get(name), self.symbols if scope.main else {})
            first = operands[0] if operands else None
            if shape is None and first is not None:
                shape, dtype = first.shape, dtype or first.dtype
            why = "" if is_known(shape) else f"{self._label(node, scope)} is passed over"
            out.append(Tensor(shape, dtype, producers=producers, why=why, sequence=sequence))
        return out

    # -------------------------------------------------------------------------------------------- control flow

    def _has_layers(self, plan: GraphPlan, trail: tuple[int, ...] = ()) -> bool:
        """Whether walking the graph could add a layer."""
        known = self._computes.get(id(plan))
        if known is not None or id(plan) in trail:
            return bool(known)
        found = False
        for node in plan.nodes:
            key = (node.domain, node.op, node.overload)
            if key in self._functions:
                found = self._has_layers(self._function_plan(key)[0], (*trail, id(plan)))
            else:
                found = is_layer(node.domain, node.op) or any(
                    self._has_layers(g, (*trail, id(plan))) for g in node.graphs
                )
            if found:
                break
        self._computes[id(plan)] = found
        return found

    def _body(self, node: NodePlan, scope: _Scope, attributes: Mapping[str, Any], key: str) -> GraphPlan:
        plan = attributes.get(key)
        if not isinstance(plan, GraphPlan):
            raise self._error(node, scope, f"its graph {key!r} is missing", "correct the model and export it again")
        return plan

    def _refused(
        self,
        node: NodePlan,
        scope: _Scope,
        inputs: list[Tensor | None],
        message: str,
        shapes: Callable[[], list[Tensor]] | None = None,
    ) -> list[Tensor]:
        """Control flow that cannot be unrolled: an error, or passed over if the user wants that.

        Args:
            node: The node.
            scope: Where it stands.
            inputs: Its inputs.
            message: Why it cannot be unrolled.
            shapes: Walks its graphs for the shapes of its outputs; the layers that this adds are dropped.
        """
        if not self.skip_unknown:
            raise self._error(
                node,
                scope,
                message,
                "export the model without it (fixed inputs), or --skip-unknown passes over it and its layers",
            )
        self.warn(f"{self._label(node, scope)}: {message}; the layers inside are left out")
        self.budget.spend("entries", sum(len(graph.free) for graph in node.graphs))
        operands = [*inputs, *(scope.find(name) for graph in node.graphs for name in sorted(graph.free))]
        if shapes is None:
            return self._passed(node, scope, operands)
        mark = self._mark()
        outputs = shapes()
        self._drop_layers(mark)
        producers = self._union(operands)
        return [dataclasses.replace(t, data=None, const=False, producers=producers, elements=None) for t in outputs]

    def _if(
        self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None], attributes: Mapping[str, Any]
    ) -> list[Tensor]:
        then = self._body(node, scope, attributes, "then_branch")
        other = self._body(node, scope, attributes, "else_branch")
        condition = inputs[0] if inputs else None
        if condition is None:
            raise self._error(node, scope, "its condition is missing", "correct the model and export it again")
        if condition.values_known and condition.data is not None and condition.data.size == 1:
            taken = then if condition.data.reshape(-1)[0] else other
            return self._run_graph(taken, scope.inner(taken.hints, _prefix(scope, node, "/")))

        def both() -> list[Tensor]:
            results = [
                self._run_graph(plan, scope.inner(plan.hints, _prefix(scope, node, "/"))) for plan in (then, other)
            ]
            return [
                Tensor(
                    _common(a.shape, b.shape),
                    a.dtype or b.dtype,
                    producers=self._union([a, b, condition]),
                    sequence=a.sequence,
                    why=f"{self._label(node, scope)} has branches of different shapes",
                )
                for a, b in zip(*results, strict=False)
            ]

        if self._has_layers(then) or self._has_layers(other):
            message = "its condition depends on data and there are layers in its branches"
            return self._refused(node, scope, inputs, message, both)
        return both()

    def _loop(
        self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None], attributes: Mapping[str, Any]
    ) -> list[Tensor]:
        body = self._body(node, scope, attributes, "body")
        limit, condition = [*inputs, None, None][:2]
        carried = inputs[2:]
        trips = _single(limit)
        proceed = _single(condition)
        if len(body.outputs) < 1 + len(carried) or len(body.inputs) < 2 + len(carried):
            raise self._error(
                node, scope, "its body does not fit its carried values", "correct the model and export it again"
            )
        weight = len(body.nodes) + 1
        done = None
        if trips is not None and trips <= MAX_TRIPS and trips * weight <= MAX_UNROLLED:
            done = self._unroll(node, scope, body, inputs, int(trips), proceed)
        elif (
            (limit is None or trips is not None)
            and (condition is None or proceed is not None)
            and id(body) not in self._endless
        ):
            # No count, or none that ends: the condition itself may fold to false.
            done = self._unroll(node, scope, body, inputs, None, proceed)
        if done is not None:
            return done
        if self._has_layers(body):
            if trips is None and limit is not None:
                why = "its trip count depends on data"
            elif trips is not None:
                most = min(MAX_TRIPS, MAX_UNROLLED // weight)
                why = f"its {trips:,} iterations are more than the {most:,} that are unrolled"
            else:
                why = "its end depends on data, or lies too far away to unroll it"
            return self._refused(
                node,
                scope,
                inputs,
                f"{why} and there are layers in its body",
                lambda: self._abstract_loop(node, scope, body, inputs),
            )
        return self._abstract_loop(node, scope, body, inputs)

    def _unroll(
        self,
        node: NodePlan,
        scope: _Scope,
        body: GraphPlan,
        inputs: list[Tensor | None],
        trips: int | None,
        proceed: Any,
    ) -> list[Tensor] | None:
        """Runs a loop iteration by iteration; None where it turns out that its end is not known."""
        carried = list(inputs[2:])
        condition = inputs[1] if len(inputs) > 1 else None
        gathered: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
        mark = self._mark()
        going: Any = True if condition is None else proceed
        control = self._union([condition]) if going is None else frozenset()
        # A trial takes half of what is left at most: many of them end nothing.
        most = min(MAX_TRIAL, self.budget.left("calls") // 2 // (len(body.nodes) + 1))
        i = 0
        while (trips is None or i < trips) and (going is None or going):
            if trips is None and i >= most:
                self._endless.add(id(body))  # other loops may run it over and over
                self._drop_layers(mark)
                return None
            inner = scope.inner(body.hints, _prefix(scope, node, f".{i}/"))
            values = [_constant(i), _constant(True, BOOL), *carried]
            for name, value in zip(body.inputs, values, strict=False):
                inner.tensors[name] = value
            made = self._run_graph(body, inner)
            going = _single(made[0])
            if going is None and trips is None:
                self._drop_layers(mark)
                return None
            if going is None:
                control |= self._union([made[0]])
                if self._has_layers(body):
                    self.warn(
                        f"{self._label(node, scope)}: its end depends on data; all {trips} iterations are counted"
                    )
            carried = list(made[1 : 1 + len(carried)])
            self.budget.spend("members", len(gathered))
            for bucket, value in zip(gathered, made[1 + len(carried) :], strict=True):
                bucket.append(value)
            i += 1
        out = [t if t is not None else Tensor(None, 0, producers=frozenset()) for t in carried]
        if control:
            out = [dataclasses.replace(t, producers=self._union([t]) | control, const=False, data=None) for t in out]
        for bucket in gathered:
            out.append(self._stacked(bucket, i if not control else None, control, self._label(node, scope)))
        return out

    def _abstract_loop(
        self, node: NodePlan, scope: _Scope, body: GraphPlan, inputs: list[Tensor | None]
    ) -> list[Tensor]:
        """A loop without layers whose end is not known: one pass over its body tells what depends on what."""
        carried = [t if t is not None else Tensor(None, 0, producers=frozenset()) for t in inputs[2:]]
        self.budget.spend("entries", len(body.free))
        before = self._union([*inputs, *(scope.find(name) for name in body.free)])
        label = self._label(node, scope)
        made: list[Tensor] = []
        for _ in range(2):  # once to see which shapes change, once with those unknown
            inner = scope.inner(body.hints, _prefix(scope, node, "/"))
            values: list[Tensor] = [Tensor((), INT64, producers=before), Tensor((), BOOL, producers=before)]
            values += [dataclasses.replace(t, data=None, const=False, producers=before, elements=None) for t in carried]
            for name, value in zip(body.inputs, values, strict=False):
                inner.tensors[name] = value
            made = self._run_graph(body, inner)
            carried = [
                dataclasses.replace(t, shape=_common(t.shape, new.shape), why=f"{label} changes its size")
                for t, new in zip(carried, made[1 : 1 + len(carried)], strict=True)
            ]
        out = [dataclasses.replace(t, data=None, const=False, producers=before, elements=None) for t in carried]
        for value in made[1 + len(carried) :]:
            shape = None if value.shape is None else (None, *value.shape)
            out.append(Tensor(shape, value.dtype, producers=before, why=f"{label} runs as often as its data say"))
        return out

    def _scan(
        self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None], attributes: Mapping[str, Any]
    ) -> list[Tensor]:
        """Unrolls a Scan; that of operator set 8 runs anew for every entry of a batch, axis 0 of all its operands."""
        body = self._body(node, scope, attributes, "body")
        batched = scope.opsets.get("", 1) < 9
        operands = inputs[1:] if batched else inputs
        scanned = int(attributes.get("num_scan_inputs", 0))
        states = len(operands) - scanned
        if scanned < 1 or states < 0 or len(body.inputs) < len(operands) or len(body.outputs) < states:
            raise self._error(node, scope, "its body does not fit its inputs", "correct the model and export it again")
        batch: int | None = 1
        axes = [0] * scanned
        if batched:
            if inputs[0] is not None:
                self.warn(f"{self._label(node, scope)}: its sequences are counted at their full length")
            operands, batch = self._slices(operands, [0] * len(operands))
        else:
            axes = attributes.get("scan_input_axes") or axes
        slices, length = self._slices(operands[states:], axes)
        steps = None if length is None or batch is None else length * batch
        runs = (batch or 1, length or 0)
        if steps is None or steps > MAX_TRIPS or steps * (len(body.nodes) + 1) > 2 * MAX_UNROLLED:
            if self._has_layers(body):
                many = "unknown" if steps is None else f"{steps:,}"
                message = f"its length ({many}) does not unroll and there are layers in its body"
                return self._refused(node, scope, inputs, message)
            runs = (1, 1)
        out_axes = attributes.get("scan_output_axes") or [0] * (len(body.outputs) - states)
        label = self._label(node, scope)
        parts: list[list[Tensor]] = []
        for b in range(runs[0]):
            prefix = _prefix(scope, node, "." + (f"{b}." if runs[0] > 1 else ""))
            state = list(operands[:states])
            gathered: list[list[Tensor]] = [[] for _ in range(len(body.outputs) - states)]
            for i in range(runs[1]):
                inner = scope.inner(body.hints, f"{prefix}{i}/")
                for name, value in zip(body.inputs, [*state, *slices], strict=False):
                    inner.tensors[name] = value
                made = self._run_graph(body, inner)
                state = list(made[:states])
                self.budget.spend("members", len(gathered))
                for bucket, value in zip(gathered, made[states:], strict=True):
                    bucket.append(value)
            out = [t if t is not None else Tensor(None, 0, producers=frozenset()) for t in state]
            for bucket, axis in zip(gathered, out_axes, strict=True):
                out.append(self._stacked(bucket, length, frozenset(), label, axis))
            parts.append(out)
        if not batched:
            return parts[0]
        return [self._stacked(list(bucket), batch, frozenset(), label) for bucket in zip(*parts, strict=True)]

    def _sequence_map(
        self, node: NodePlan, scope: _Scope, inputs: list[Tensor | None], attributes: Mapping[str, Any]
    ) -> list[Tensor]:
        body = self._body(node, scope, attributes, "body")
        first = inputs[0] if inputs else None
        elements = first.elements if first is not None else None
        if elements is None:
            if self._has_layers(body):
                return self._refused(
                    node, scope, inputs, "the length of its sequence is unknown and there are layers in its body"
                )
            return [Tensor(None, 0, producers=self._union(inputs), sequence=True) for _ in node.outputs]
        gathered: list[list[Tensor]] = [[] for _ in body.outputs]
        for i in range(len(elements)):
            inner = scope.inner(body.hints, _prefix(scope, node, f".{i}/"))
            for name, value in zip(body.inputs, inputs, strict=False):
                if value is not None and value.sequence and value.elements is not None:
                    value = value.elements[i]
                inner.tensors[name] = value
            self.budget.spend("members", len(gathered))
            for bucket, value in zip(gathered, self._run_graph(body, inner), strict=True):
                bucket.append(value)
        return [
            Tensor(None, b[0].dtype if b else 0, producers=self._union(b), elements=b, sequence=True) for b in gathered
        ]

    def _slices(self, tensors: Sequence[Tensor | None], axes: Sequence[int]) -> tuple[list[Tensor | None], int | None]:
        """What one step along an axis of each tensor sees of them, and the length that they share, None if unknown."""
        lengths: set[int | None] = set()
        slices: list[Tensor | None] = []
        for tensor, axis in zip(tensors, axes, strict=True):
            if tensor is None or tensor.shape is None:
                lengths.add(None)
                slices.append(Tensor(None, producers=self._union([tensor])))
                continue
            at = axis % len(tensor.shape)
            lengths.add(tensor.shape[at])
            rest = tensor.shape[:at] + tensor.shape[at + 1 :]
            slices.append(dataclasses.replace(tensor, shape=rest, data=None))
        return slices, lengths.pop() if len(lengths) == 1 else None

    def _stacked(
        self, parts: list[Tensor], length: int | None, control: frozenset[int], label: str, axis: int = 0
    ) -> Tensor:
        """The parts of a loop's iterations along a new axis."""
        if not parts:
            return Tensor(None, 0, producers=control, why=f"{label} runs zero times")
        shape = parts[0].shape
        for part in parts[1:]:
            shape = _common(shape, part.shape)
        if shape is not None:
            at = axis % (len(shape) + 1)
            shape = (*shape[:at], length, *shape[at:])
        data = None
        if (
            length == len(parts)
            and axis == 0
            and is_known(shape)
            and (count(shape) or 0) <= MAX_FOLDED_INTEGERS
            and all(p.values_known for p in parts)
        ):
            data = np.stack([p.data for p in parts])  # type: ignore[misc]
            data = data if self._kept(data) else None
        const = not control and all(p.const for p in parts)
        return Tensor(
            shape,
            parts[0].dtype,
            data=data,
            const=const,
            producers=self._union(parts) | control,
            why="" if is_known(shape) else f"{label} gathers parts of different shapes",
        )


def _prefix(scope: _Scope, node: NodePlan, suffix: str) -> str:
    """Prefix of the names inside a node."""
    return _shortened(scope.prefix + node.name, _LONGEST_PREFIX) + suffix


def _without_large(tensor: Tensor) -> Tensor:
    """The tensor, without its values unless they are few."""
    if tensor.data is None or tensor.data.size <= _SMALL:
        return tensor
    return dataclasses.replace(tensor, data=None)


def _single(tensor: Tensor | None) -> Any:
    """The one value of a known tensor, None where it is not known."""
    if tensor is None or not tensor.values_known or tensor.data is None or tensor.data.size != 1:
        return None
    return tensor.data.reshape(-1).tolist()[0]


def _constant(value: Any, dtype: int = INT64) -> Tensor:
    return Tensor((), dtype, data=np.asarray(value), const=True, producers=frozenset())


def _common(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))
