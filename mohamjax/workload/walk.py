"""The graph walk: from ONNX nodes to layers and what they depend on.

The walk computes with tensors of which only shape, small values and producers are known (`tensor.Tensor`); functions
are inlined, control flow is left to `control_flow`. A layer's predecessors are the layers that its operands were
computed from, through operators that are no layers; they are not reduced transitively.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mohamjax.errors import InputError
from mohamjax.reader import closest
from mohamjax.workload.budget import MAX_FOLDED_INTEGERS, Budget
from mohamjax.workload.layer import Layer, WorkloadShape
from mohamjax.workload.onnx_file import check_sizes
from mohamjax.workload.operators import (
    CONTRIB,
    PURE_RANDOM,
    QUANTISED_THROUGH,
    RULES,
    STANDARD,
    VALUES_FROM_FIRST,
    find_rule,
    is_layer,
)
from mohamjax.workload.plan import GraphPlan, NodePlan, decode, entries, plan_graph, shortened, static_shape
from mohamjax.workload.tensor import BOOL, TYPE_BITS, Call, MisfitError, Shape, Tensor, count, is_known, show, union

if TYPE_CHECKING:
    import onnx

MAX_LAYERS = 50_000

_SCALING = frozenset({"Mul", "Div", "Sub"})
"""Operators that apply a scale or a zero point."""

_SMALL = 1 << 8
"""Most elements of a tensor that counts as small."""

_MOST_UNKNOWN = 1 << 10
"""Most elements of a kept array with unknown entries: shapes are short, and arrays of Python objects are slow."""

_LONGEST_PREFIX = 1000
"""Most characters of a prefix of names. A longer one loses its middle, because it precedes every name inside a node."""

_FEW = 8
"""How many operands, how many attributes and how many values of each an error shows."""

_LONGEST_GIVEN = 240

MAX_DEPTH = 64
"""How deep functions and control flow may be nested."""

MAX_BOUND = 2**31 - 1
MAX_MACS = 2**62

_BLOCKED = "com.microsoft.nchwc"
"""Domain of convolutions over padded channel blocks, whose true channel counts are lost."""


@dataclasses.dataclass
class Scope:
    """The tensors that a graph can name: its own, then those of the graphs around it.

    `endless` holds the bodies of loops that did not end when they were tried. All graphs inside one call of a function
    share it; another call, whose operands may differ, tries its loops again.
    """

    tensors: dict[str, Tensor | None]
    hints: abc.Mapping[str, onnx.ValueInfoProto]
    opsets: abc.Mapping[str, int]
    attributes: abc.Mapping[str, object]
    prefix: str = ""
    parent: Scope | None = None
    depth: int = 0
    main: bool = False
    endless: set[int] = dataclasses.field(default_factory=set)

    def find(self, name: str) -> Tensor | None:
        """The tensor of that name, from the innermost scope that has one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.tensors:
                return scope.tensors[name]
            scope = scope.parent
        raise MisfitError(f"tensor {name!r} has no value there")

    def inner(self, hints: abc.Mapping[str, onnx.ValueInfoProto], prefix: str) -> Scope:
        """The scope of a graph inside a node."""
        return Scope({}, hints, self.opsets, self.attributes, prefix, self, self.depth + 1, endless=self.endless)


Control = Callable[["Walk", NodePlan, Scope, list[Tensor | None], abc.Mapping[str, object]], list[Tensor]]

CONTROL: dict[str, Control] = {}
"""Functions that walk the graphs inside a node, by operator name; `control_flow` fills it."""


def control(name: str) -> Callable[[Control], Control]:
    """Registers the function that walks the graphs inside the nodes of an operator."""

    def register(function: Control) -> Control:
        CONTROL[name] = function
        return function

    return register


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
        shapes: abc.Mapping[str, tuple[int, ...]] | None = None,
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
        self._stale: dict[str, Shape] = {}
        self._names: dict[str, int] = {}
        self._renamed: list[tuple[str, int | None]] = []
        self._functions = {(f.domain if f.domain != "ai.onnx" else "", f.name, f.overload): f for f in model.functions}
        self._function_plans: dict[tuple[str, str, str], tuple[GraphPlan, dict[str, object]]] = {}
        self._awaited: frozenset[int] = frozenset()
        self._computes: dict[int, bool] = {}
        self.opsets = self._versions(model.opset_import)
        self.plan = plan_graph(model.graph, self.budget)
        if self.plan.free:
            raise self._undefined(self.plan, f"graph {model.graph.name!r}")

    # ------------------------------------------------------------------------------------------------- helpers

    @staticmethod
    def _versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
        return {"" if entry.domain == "ai.onnx" else entry.domain: int(entry.version) for entry in imports}

    def error(self, node: NodePlan, scope: Scope, message: str, remedy: str) -> InputError:
        """An `InputError` about a node."""
        return InputError(message, file=self.file, item=self.label(node, scope), remedy=remedy)

    @staticmethod
    def label(node: NodePlan, scope: Scope) -> str:
        """The node as errors name it."""
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

    def run(self, inputs: abc.Mapping[str, Tensor]) -> abc.Mapping[str, Tensor | None]:
        """Walks the main graph.

        Args:
            inputs: The graph inputs by name.

        Returns:
            What is known about every tensor of the main graph.

        Raises:
            InputError: The model cannot be read as layers; names the node and the remedy.
        """
        scope = Scope(dict(inputs), self.plan.hints, self.opsets, {}, main=True)
        try:
            self.run_graph(self.plan, scope)
        finally:
            self._warn_of_stale()
        return scope.tensors

    def run_graph(self, plan: GraphPlan, scope: Scope) -> list[Tensor]:
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

    def run_after(self, layers: frozenset[int], plan: GraphPlan, scope: Scope) -> list[Tensor]:
        """`run_graph`, where every layer that it adds waits for some others: those that decide whether it runs."""
        self.budget.spend("dependencies", len(layers))
        outer = self._awaited
        self._awaited = outer | layers
        try:
            return self.run_graph(plan, scope)
        finally:
            self._awaited = outer

    def _run_node(self, node: NodePlan, scope: Scope) -> None:
        budget = self.budget
        budget.item = label = self.label(node, scope)
        budget.spend("calls")
        budget.spend("entries", node.entries)
        inputs = [scope.find(name) if name else None for name in node.inputs]
        attributes = node.attributes
        if node.references:
            attributes = dict(attributes)
            for key, reference in node.references.items():
                if reference in scope.attributes:
                    attributes[key] = scope.attributes[reference]
            budget.spend("entries", entries(attributes.values()))
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
            # Rules trust the form of their operands. Every exception that a malformed node causes ends here and becomes
            # an error for the user, which shows the node's inputs instead of a message of Python or NumPy.
            reason = str(error) if isinstance(error, MisfitError) else _given(inputs, attributes)
            raise self.error(
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
                    budget.spend("entries", len(tensor.shape) + sum(map(len, tensor.repetition or ())))
                scope.tensors[name] = self._overridden(name, self._hinted(name, tensor, scope), scope)

    def _unmade(self, inputs: list[Tensor | None]) -> Tensor:
        return Tensor(None, 0, producers=self.union(inputs))

    def union(self, tensors: Iterable[Tensor | None]) -> frozenset[int]:
        """The layers that some tensors were computed from."""
        return union(tensors, self.budget)

    def _apply(
        self, node: NodePlan, scope: Scope, inputs: list[Tensor | None], attributes: abc.Mapping[str, object]
    ) -> list[Tensor]:
        key = (node.domain, node.op, node.overload)
        if key in self._functions:
            return self._call_function(key, node, scope, inputs, attributes)
        if node.domain == "" and node.op in CONTROL:
            return CONTROL[node.op](self, node, scope, inputs, attributes)
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
            label=self.budget.item or self.label(node, scope),
            inputs=inputs,
            attributes=attributes,
            outputs=len(node.outputs),
            file=self.file,
            warn=self.warn,
            emit=functools.partial(self._emit, node, scope),
            fold_product=self._fold_product,
            budget=self.budget,
        )
        outputs = rule(call)
        self._finish(call, outputs)
        return outputs

    def _read(self, tensors: Iterable[Tensor | None]) -> None:
        """Counts the values that a rule gets: every one if Python reads them, every 64th if NumPy does."""
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
        """Fills in what follows in the same way for every operator: constness, producers, width, who lost a shape."""
        operands = [t for t in call.inputs if t is not None]
        if call.op in VALUES_FROM_FIRST:
            first = VALUES_FROM_FIRST[call.op]
            if first or all(is_known(out.shape) for out in outputs):  # an unknown shape depends on its operand's data
                operands = operands[:first]
        const = all(t.const for t in operands) and call.op not in PURE_RANDOM
        producers: frozenset[int] | None = None
        why = ""
        for out in outputs:
            if out.producers is None:
                out.const = out.const or const or out.values_known
                if out.const:
                    out.producers = frozenset()
                    most = max((t.stored_values for t in operands), default=None)
                    own = count(out.shape)
                    out.stored = most if most is None or own is None else min(most, own)
                else:
                    producers = self.union(operands) if producers is None else producers
                    out.producers = producers
            if out.bits is None and operands:
                if call.op == "Concat":
                    out.bits = _widest(out, operands)
                elif call.op in QUANTISED_THROUGH:
                    out.bits = operands[0].bits
                elif call.op in ("Cast", "CastLike") and const and operands[0].dtype != BOOL:
                    narrow = TYPE_BITS.get(operands[0].dtype, 32)
                    out.bits = narrow if narrow <= 8 else operands[0].bits
                elif const:
                    out.bits = _computed_bits(call.op, out, operands)
            if out.elements is not None and not any(out.elements is t.elements for t in operands):
                self.budget.gather(len(out.elements))
            if out.data is not None and not self.kept(out.data):
                out.data = None
            if not is_known(out.shape) and not out.sequence and not out.why:
                lost = next((t.why for t in operands if t.why), "")
                why = why or f"{call.label} makes a size that depends on data"
                out.why = lost or why

    def kept(self, data: np.ndarray) -> bool:
        """Whether computed values may be kept; charges the budget for them."""
        if data.size > (_MOST_UNKNOWN if data.dtype == object else MAX_FOLDED_INTEGERS):
            return False
        if data.size > _SMALL:
            return self.budget.fold(data.size)
        self.budget.spend("entries", data.size >> 2)
        return True

    def _hinted(self, name: str, tensor: Tensor, scope: Scope) -> Tensor:
        """The tensor, with unknown sizes and types filled in from what the file states."""
        if (is_known(tensor.shape) and tensor.dtype) or name not in scope.hints:
            return tensor
        shape, dtype, sequence = self._stated(name, scope, wanted=not is_known(tensor.shape))
        if tensor.shape is None:
            merged = shape
        elif shape is not None and len(shape) == len(tensor.shape):
            merged = tuple(b if a is None else a for a, b in zip(tensor.shape, shape, strict=True))
        else:
            merged = tensor.shape
        return tensor.revised(
            dataclasses.replace(tensor, shape=merged, dtype=tensor.dtype or dtype, sequence=tensor.sequence or sequence)
        )

    def _stated(self, name: str, scope: Scope, *, wanted: bool = True) -> tuple[Shape | None, int, bool]:
        """What the file states about a tensor (`static_shape`).

        Where the user changed a size that the file fixes, other sizes in the file may not hold any more: if the shape
        is `wanted` and the user could give another, a warning says so (`_warn_of_stale`).
        """
        shape, dtype, sequence = static_shape(scope.hints.get(name), self.symbols if scope.main else {})
        if wanted and scope.main and self._resized and name not in self.shapes and set(shape or ()) - {None}:
            self._stale[name] = shape or ()
        return shape, dtype, sequence

    def _warn_of_stale(self) -> None:
        """Warns, in one line, of shapes in the file that may not hold any more because the user changed others."""
        for name, shape in itertools.islice(self._stale.items(), 1):
            others = len(self._stale) - 1
            more = f" (and likewise for {others} more)" if others else ""
            self.warn(
                f"tensor {name!r} keeps the shape {show(shape)} that the file states{more}, though other sizes of the"
                f" graph were changed: if this shape changes too, give it with the argument `shapes[{name}]`"
            )

    @functools.cached_property
    def _resized(self) -> bool:
        """Whether the user's shapes change a size that the file fixes."""
        for name, given in self.shapes.items():
            stated, _, _ = static_shape(self.plan.hints.get(name), {})
            if any(old not in (None, new) for old, new in zip(stated or (), given, strict=False)):
                return True
        return False

    def _overridden(self, name: str, tensor: Tensor, scope: Scope) -> Tensor:
        if not scope.main or name not in self.shapes:
            return tensor
        shape = self.shapes[name]
        if tensor.shape is not None and len(tensor.shape) != len(shape):
            raise InputError(
                f"the argument `shapes` gives it {len(shape)} axes, it has {len(tensor.shape)} ({show(tensor.shape)})",
                file=self.file,
                item=f"tensor {name!r}",
                remedy="give one size per axis",
            )
        return tensor if shape == tensor.shape else dataclasses.replace(tensor, shape=shape, data=None)

    def _emit(
        self,
        node: NodePlan,
        scope: Scope,
        suffix: str,
        kind: str,
        shape: WorkloadShape,
        word_bits: int,
        producers: frozenset[int],
    ) -> int:
        for dim, bound in vars(shape).items():
            for size in bound if isinstance(bound, tuple) else (bound,):
                if not 1 <= size <= MAX_BOUND:
                    raise self.error(
                        node,
                        scope,
                        f"its loop {dim} would run over {size}: "
                        + ("there is nothing to compute" if size < 1 else "too much"),
                        "give sensible sizes, with the argument `shapes[NAME]` or in the model",
                    )
        if shape.macs > MAX_MACS:
            raise self.error(
                node, scope, f"it would take {shape.macs:.3g} multiply-accumulates", "correct the sizes in the model"
            )
        if len(self.layers) >= MAX_LAYERS:
            raise self.error(node, scope, f"the model has more than {MAX_LAYERS} layers", "export a smaller one")
        base = scope.prefix + node.name + (f"/{suffix}" if suffix else "")
        name = base
        while name in self._names:
            self.budget.spend("calls")
            self._name(base, self._names[base] + 1)
            name = f"{base}_{self._names[base]}"
        self._name(name, 1)
        producers |= self._awaited
        self.budget.spend("dependencies", len(producers))
        self.layers.append(Layer(name, kind, node.op, shape, word_bits, tuple(sorted(producers))))
        return len(self.layers) - 1

    def _name(self, name: str, number: int) -> None:
        """Records how often a name was asked for, and logs the previous count, so that a trial can be undone."""
        self._renamed.append((name, self._names.get(name)))
        self._names[name] = number

    def mark(self) -> tuple[int, int, int]:
        """The present state of layers and names, to which `drop_layers` can return."""
        return len(self.layers), len(self._renamed), self.folded_products

    def drop_layers(self, mark: tuple[int, int, int]) -> None:
        """Drops the layers of an abandoned trial. The budget that it used stays spent."""
        del self.layers[mark[0] :]
        while len(self._renamed) > mark[1]:
            name, number = self._renamed.pop()
            if number is None:
                del self._names[name]
            else:
                self._names[name] = number
        self.folded_products = mark[2]

    # ---------------------------------------------------------------------------------- functions, unknown ones

    def _function_plan(self, key: tuple[str, str, str]) -> tuple[GraphPlan, dict[str, object]]:
        """The body of a function and the defaults of its attributes, decoded once."""
        known = self._function_plans.get(key)
        if known is None:
            function = self._functions[key]
            plan = plan_graph(function, self.budget)
            if plan.free:
                raise self._undefined(plan, f"function {key[1]!r}")
            known = plan, {a.name: decode(a, self.budget) for a in function.attribute_proto}
            self._function_plans[key] = known
        return known

    def _call_function(
        self,
        key: tuple[str, str, str],
        node: NodePlan,
        scope: Scope,
        inputs: list[Tensor | None],
        attributes: abc.Mapping[str, object],
    ) -> list[Tensor]:
        function = self._functions[key]
        plan, defaults = self._function_plan(key)
        if len(inputs) > len(plan.inputs):
            raise self.error(
                node,
                scope,
                f"{len(inputs)} inputs for a function of {len(plan.inputs)}",
                "correct the model and export it again",
            )
        self.budget.spend("entries", len(defaults) + len(function.opset_import))
        given = {**defaults, **attributes}
        opsets = self._versions(function.opset_import) or scope.opsets
        inner = Scope({}, plan.hints, opsets, given, prefix(scope, node, "/"), None, scope.depth + 1)
        for i, name in enumerate(plan.inputs):
            inner.tensors[name] = inputs[i] if i < len(inputs) else None
        return self.run_graph(plan, inner)

    def _unknown(self, node: NodePlan, scope: Scope, inputs: list[Tensor | None]) -> list[Tensor]:
        what = f"operator {node.op!r}" + (f" of domain {node.domain!r}" if node.domain else "")
        if not self.skip_unknown:
            known = RULES[CONTRIB if node.domain else STANDARD]
            near = closest(node.op, known, 0.8) if node.domain in (STANDARD, CONTRIB) else None
            guess = "" if near in (None, node.op) else f" (did you mean {near}?)"
            remedy = "the argument `skip_unknown` passes its dependencies on without counting it"
            if node.domain == _BLOCKED:
                remedy = "use the model as it was before ONNX Runtime fitted its layout to a processor"
            raise self.error(node, scope, f"unknown {what}{guess}", remedy)
        self.warn(f"{self.label(node, scope)}: unknown {what} is no layer; its dependencies are passed on")
        return self.passed(node, scope, inputs)

    def passed(self, node: NodePlan, scope: Scope, inputs: Iterable[Tensor | None]) -> list[Tensor]:
        """Outputs of a node that is passed over, with the first input's shape unless the file states another."""
        operands = [t for t in inputs if t is not None]
        producers, const = self.union(operands), bool(operands) and all(t.const for t in operands)
        out = []
        for name in node.outputs:
            shape, dtype, sequence = self._stated(name, scope)
            first = operands[0] if operands else None
            if shape is None and first is not None:
                shape, dtype = first.shape, dtype or first.dtype
            why = "" if is_known(shape) else f"{self.label(node, scope)} is passed over"
            out.append(Tensor(shape, dtype, const=const, producers=producers, why=why, sequence=sequence))
        return out

    def has_layers(self, plan: GraphPlan, trail: tuple[int, ...] = ()) -> bool:
        """Whether walking the graph could add a layer."""
        known = self._computes.get(id(plan))
        if known is not None or id(plan) in trail:
            return bool(known)
        found = False
        for node in plan.nodes:
            key = (node.domain, node.op, node.overload)
            if key in self._functions:
                found = self.has_layers(self._function_plan(key)[0], (*trail, id(plan)))
            else:
                found = is_layer(node.domain, node.op) or any(
                    self.has_layers(g, (*trail, id(plan))) for g in node.graphs
                )
            if found:
                break
        self._computes[id(plan)] = found
        return found


def prefix(scope: Scope, node: NodePlan, suffix: str) -> str:
    """Prefix of the names inside a node."""
    return shortened(scope.prefix + node.name, _LONGEST_PREFIX) + suffix


def _given(inputs: Iterable[Tensor | None], attributes: abc.Mapping[str, object]) -> str:
    """A short text about a node: shapes and small values of its inputs, and its attributes."""

    def values(entries: Iterable[object]) -> str:
        return ", ".join(str(v) if isinstance(v, bool | int | float) else "?" for v in entries)

    def operand(tensor: Tensor | None) -> str:
        if tensor is None:
            return "none"
        if tensor.sequence:
            return "a sequence"
        text = show(tensor.shape)
        few = tensor.data is not None and tensor.data.size <= _FEW
        return f"{text} [{values(tensor.data.reshape(-1).tolist())}]" if few and tensor.data is not None else text

    def attribute(value: object) -> str:
        if isinstance(value, list):
            return f"[{values(value[:_FEW])}{', ...' if len(value) > _FEW else ''}]"
        if isinstance(value, bytes):
            return repr(value[:40].decode("utf-8", "replace"))
        return str(value) if isinstance(value, int | float) else type(value).__name__.removesuffix("Plan").lower()

    operands = [operand(t) for t in itertools.islice(inputs, _FEW)]
    named = [f"{key} = {attribute(value)}" for key, value in itertools.islice(attributes.items(), _FEW)]
    parts = ["inputs " + "; ".join(operands) if operands else "no inputs", *(["; ".join(named)] if named else [])]
    return shortened(", ".join(parts), _LONGEST_GIVEN)


def _largest(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The largest of some operands, and those of unknown size: what is smaller is a scale, a zero point or a limit."""
    sizes = [count(t.shape) for t in tensors]
    most = max((n for n in sizes if n is not None), default=0)
    return [t for t, n in zip(tensors, sizes, strict=True) if n is None or n == most]


def _computed_bits(op: str, out: Tensor, operands: Sequence[Tensor]) -> int | None:
    """Width in bits of a constant that an operator computed from others; None where it is that of its type.

    The widest of the largest operands decides. A product, quotient or difference may have a scale or a zero point that
    was gathered or expanded to the size of its weight: here the operand decides for which the file stores the most
    values. Where it stores equally many for two, neither is a scale and the wider decides (a weight with a mask); but
    one row of weights has as many scales, so there the narrower decides. All this is a guess from sizes alone: it takes
    a mask over one row of full weights for quantised weights, and stored scales as many as their weights for weights.
    """
    if op not in _SCALING:
        return _widest(out, _largest(operands))
    most = max(t.stored_values for t in operands)
    weights = [t for t in operands if t.stored_values == most]
    row = out.shape is not None and sum(d != 1 for d in out.shape) < 2
    return _widest(out, [min(weights, key=lambda t: t.word_bits)] if row else weights)


def _widest(out: Tensor, operands: Iterable[Tensor]) -> int | None:
    """Width in bits of a result whose operands of its type, or of none, were all stored in fewer; None for others."""
    widths = [t.word_bits for t in operands if t.dtype in (0, out.dtype)]
    widest = max(widths, default=0)
    return widest if 0 < widest < TYPE_BITS.get(out.dtype, 32) else None


def _without_large(tensor: Tensor) -> Tensor:
    """The tensor, without its values unless they are few."""
    if tensor.data is None or tensor.data.size <= _SMALL:
        return tensor
    return tensor.revised(dataclasses.replace(tensor, data=None))
