"""Random ONNX graphs: a grammar over every operator that the importer knows, growth, damage, huge sizes."""

import contextlib
import functools
import inspect
import re
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper
from workload_models import BOOL, INT64, const, info, model, node, weight

from mohamjax.errors import InputError
from mohamjax.workload import control_flow, read_network
from mohamjax.workload.operators import RULES, contrib, products, windows
from mohamjax.workload.walk import CONTROL

OPERATORS = sorted({(domain, op) for domain, rules in RULES.items() for op in rules} | {("", op) for op in CONTROL})
"""(domain, name) of every operator that has a rule."""

_ATTRIBUTE = re.compile(r"""(?:\battr|_attr|attributes\.get)\(\s*["'](\w+)["']""")
_OF_WINDOWS = ("kernel_shape", "strides", "dilations", "pads", "auto_pad", "group", "ceil_mode", "output_padding",
               "output_shape", "channels_last")  # fmt: skip
_FLAGS = ("keepdims", "upper", "exclusive", "reverse", "transA", "transB", "layout", "channels_last", "allowzero")
_LISTS = ("axes", "perm", "shape", "split", "starts", "ends", "scan_input_axes", "scan_output_axes", "pooled_shape",
          "qkv_hidden_sizes", "scales", "value_ints", "value_floats", *_OF_WINDOWS[:4], "output_padding",
          "output_shape", "paddings")  # fmt: skip
_TEXTS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "sideways"),
    "direction": ("forward", "reverse", "bidirectional", ""),
    "equation": ("ij,jk->ik", "bij,bjk->bik", "...ij,...jk", "ii->i", "i,j", "ij,ij,ij->", "->", ",", "a.b,c->d", "",
                 "ij,jk->iz", "ijk,kl->ijl...", "ABC"),
    "mode": ("nearest", "linear", "constant", "wrap", ""),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller", "?"),
    "to": ("FLOAT", "INT64", "none"),
}  # fmt: skip

SMALL = (-1, 0, 1, 1, 2, 2, 3, 4, 8)
HOSTILE = (-(2**63), -(2**31), -7, -3, -2, 5, 7, 33, 1000, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
HUGE = (2**16, 10**6, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 0.5, 1.0, 2.0, -1.5, 1e-30, 1e30, 1e300, float("inf"), float("-inf"), float("nan"))
SHAPES = ((2, 4), (4, 5), (1, 4, 8, 8), (2, 3, 4), (3,), (4,), (1,), (), (0,), (2, 0), (6, 4, 3, 3), (1, 1, 1, 1, 1),
          (4, 4), (2, 2, 4, 4), (1, 4, 8), (1, 8, 4), (1, 12, 3))  # fmt: skip

TENSORS = [
    info("x0", (2, 4)), info("x1", (1, 4, 8, 8)), info("x2", (2, 3, 4)), info("x3", (3,)), info("x4", ()),
    info("x5", (4,), INT64), info("x6", (1, 2, 6, 4)),
]  # fmt: skip
"""Inputs of every graph."""

_X, _W = info("x", (2, 4)), weight("w", (4, 5))


@functools.cache
def attributes_of(domain: str, op: str) -> tuple[str, ...]:
    """Names of the attributes that an operator's rule reads, found in its source."""
    function: Callable = CONTROL[op] if op in CONTROL and not domain else RULES[domain][op]
    module = inspect.getmodule(function)
    found = set(_ATTRIBUTE.findall(inspect.getsource(function)))
    if module in (windows, products) or "Conv" in op or "Pool" in op:
        found |= set(_OF_WINDOWS)
    if module in (products, contrib):
        found |= {"num_heads", "kv_num_heads", "q_num_heads", "bits", "transBatchA", "transA"}
    if module is control_flow:
        found |= {"num_scan_inputs", "scan_input_axes", "scan_output_axes"}
    return tuple(sorted({*found, "axis", "axes"}))


class Draw:
    """Random parts of graphs, all from one generator.

    Args:
        rng: The generator.
        hostile: Share of integers that no sound graph has.
        integers: The hostile integers.
    """

    def __init__(self, rng: np.random.Generator, hostile: float = 0.2, integers: tuple[int, ...] = HOSTILE) -> None:
        self.rng, self.hostile, self.integers = rng, hostile, integers
        self.made = 0

    def one(self, choices):
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def integer(self) -> int:
        """A small integer, or a hostile one."""
        return self.one(self.integers) if self.rng.random() < self.hostile else self.one(SMALL)

    def integers_of(self, most: int = 5) -> list[int]:
        """A list of integers, of random length."""
        if self.rng.random() < 0.4:
            return [self.one((1, 1, 2, 3))] * int(self.rng.integers(0, most))
        return [self.integer() for _ in range(self.rng.integers(0, most))]

    def constant(self, name: str) -> TensorProto:
        """A stripped weight, or a constant with values."""
        kind = self.rng.random()
        if kind < 0.25:
            return weight(name, self.one(SHAPES))
        if kind < 0.55:
            return const(name, np.asarray(self.integers_of(), np.int64))
        if kind < 0.65:
            return const(name, np.asarray(self.integer(), np.int64))
        if kind < 0.8:
            return const(name, np.asarray([self.one(FLOATS) for _ in range(self.rng.integers(0, 5))], np.float64))
        dtype = self.one((np.float32, np.int8, np.uint8, np.int32, np.bool_, np.float16, np.uint64))
        return const(name, self.rng.integers(0, 4, self.one(SHAPES)).astype(dtype))

    def attribute(self, key: str, names: list[str]):
        """A value for an attribute, mostly of the type that its name implies."""
        kind = self.rng.random()
        if kind > 0.92:
            return self.one((1, 0, -1, 0.5, b"text", [1, 2], [0.5], [b"a"], const("t", np.arange(3)), float("nan")))
        if key in _TEXTS:
            return self.one(_TEXTS[key])
        if key in ("body", "then_branch", "else_branch"):
            return self.graph(names)
        if key in ("value", "sparse_value"):
            return self.constant("t")
        if key in _FLAGS:
            return int(self.rng.integers(2))
        if key in ("scales", "value_floats"):
            return [float(self.one(FLOATS)) for _ in range(1 + self.rng.integers(4))]
        return [*self.integers_of(), *([1] if kind < 0.05 else [])] or [1] if key in _LISTS else self.integer()

    def graph(self, names: list[str]):
        """The body of a loop or a branch, over names from outside."""
        count = int(self.rng.integers(0, 4))
        inputs = [info(f"{name}{self.made}", None) for name in ("i", "go", "v", "u")[: int(self.rng.integers(5))]]
        inner, nodes = [*names, *(i.name for i in inputs)], []
        for _ in range(count):
            nodes.append(self.node(inner, depth=1)[0])
            inner += [name for name in nodes[-1].output if name]
        outputs = [info(name, None) for name in dict.fromkeys(self.one(inner) for _ in range(self.rng.integers(1, 4)))]
        if inputs[1:] and self.rng.random() < 0.7:
            outputs = [info(inputs[1].name, None), *[o for o in outputs if o.name != inputs[1].name]]
        return helper.make_graph(nodes, "body", inputs, outputs)

    def node(self, names: list[str], depth: int = 0, operator: tuple[str, str] | None = None):
        """A node over some of the names, and the constants that it brings along."""
        domain, op = operator or self.one(OPERATORS)
        while depth and op in CONTROL and self.rng.random() < 0.8:
            domain, op = self.one(OPERATORS)
        self.made += 1
        constants, inputs = [], []
        few = int(self.rng.choice([0, 1, 2, 3, 4, 5, 9], p=[0.05, 0.25, 0.3, 0.2, 0.1, 0.05, 0.05]))
        for i in range(few):
            kind = self.rng.random()
            if depth or kind < (0.85 if i == 0 else 0.4):
                inputs.append(self.one(names))
            elif kind < 0.95:
                constants.append(self.constant(f"c{self.made}_{i}"))
                inputs.append(constants[-1].name)
            else:
                inputs.append("")
        outputs = [f"t{self.made}_{i}" for i in range(int(self.rng.choice([1, 2, 3, 0], p=[0.7, 0.2, 0.08, 0.02])))]
        keys = [key for key in attributes_of(domain, op) if self.rng.random() < 0.5]
        if op in CONTROL:
            keys = sorted({*keys, *(("then_branch", "else_branch") if op == "If" else ("body",))})
        made = node(op, inputs, outputs, f"n{self.made}", domain=domain)
        for key in keys:
            try:
                made.attribute.append(helper.make_attribute(key, self.attribute(key, names)))
            except (TypeError, ValueError):  # onnx cannot write it: an empty list of no type
                continue
        return made, constants


def around(nodes, constants, opset: int) -> onnx.ModelProto:
    """A model of the nodes, with a sound matrix product beside them."""
    beside = node("MatMul", "x w", "y", "product")
    return model(
        [*nodes, beside], [_X, *TENSORS], ["y"], [_W, *constants], opset=opset, domains=("com.microsoft",), ir=10
    )


def single(rng: np.random.Generator, operator: tuple[str, str] | None = None) -> bytes:
    """One node of any operator over inputs and constants."""
    draw = Draw(rng)
    made, constants = draw.node([t.name for t in TENSORS], operator=operator)
    return around([made], constants, int(rng.choice([7, 11, 13, 17, 18, 23]))).SerializeToString()


def grown(rng: np.random.Generator, path, steps: int = 12) -> bytes:
    """A graph that grows node by node, without the nodes that the importer refuses, except for the last two."""
    draw, nodes, constants = Draw(rng, hostile=0.05), [], []
    names = [t.name for t in TENSORS]
    opset = int(rng.choice([11, 13, 17, 18, 23]))
    for step in range(steps):
        made, more = draw.node(names)
        path.write_bytes(around([*nodes, made], [*constants, *more], opset).SerializeToString())
        if step < steps - 2:
            try:
                read_network(path, warn=lambda line: None)
            except InputError:
                continue
        nodes.append(made)
        constants += more
        names += [name for name in made.output if name]
    return around(nodes, constants, opset).SerializeToString()


def huge(rng: np.random.Generator) -> bytes:
    """A model with sizes, counts or numbers of nodes that no machine has room for."""
    kind = int(rng.integers(6))
    draw = Draw(rng, hostile=0.8, integers=HUGE)
    names = [t.name for t in TENSORS]
    if kind == 0:  # any operators over huge inputs
        big = [info(f"h{i}", tuple(int(rng.choice(HUGE)) for _ in range(rng.integers(1, 5)))) for i in range(3)]
        parts = [draw.node([*names, *(b.name for b in big)]) for _ in range(3)]
        made = around([p[0] for p in parts], [c for p in parts for c in p[1]], 18)
        made.graph.input.extend(big)
        return made.SerializeToString()
    if kind == 1:  # a constant that states far more than it holds
        claimed = weight("big", tuple(int(rng.choice(HUGE)) for _ in range(rng.integers(1, 40))))
        claimed.raw_data = bytes(int(rng.integers(64)))
        return around([draw.node(["big", *names])[0]], [claimed], 17).SerializeToString()
    if kind == 2:  # loops around loops, with huge or endless counts
        body = None
        for level in range(int(rng.integers(1, 5))):
            inner = [draw.node(["v"], depth=1)[0]] if body is None else []
            inner += [] if body is None else [node("Loop", ["n", "", "v"], "r", f"level{level}", body=body)]
            out = inner[-1].output[0] if inner and inner[-1].output else "v"
            given = [info("i", (), INT64), info("go", (), BOOL), info("v", None)]
            body = helper.make_graph(inner, "b", given, [info("go", None), info(out, None)])
        count = const("n", np.int64(rng.choice([1, 1000, 9999, 10**6, 2**62])))
        return around([node("Loop", ["n", "", "x0"], "u", "loop", body=body)], [count], 17).SerializeToString()
    if kind == 3:  # a chain that multiplies sizes
        op = draw.one(("Tile", "Concat", "Expand", "Pad", "Upsample"))
        repeat = const("r", np.asarray([int(rng.choice(HUGE)), 1]))
        chain = []
        for i in range(int(rng.integers(2, 60))):
            last = "x0" if i == 0 else f"k{i - 1}"
            chain.append(node(op, [last] * 9 if op == "Concat" else [last, "r"], f"k{i}", axis=0))
        return around(chain, [repeat], 17).SerializeToString()
    if kind == 4:  # many nodes
        op = draw.one(("Relu", "Shape", "Identity", "Add", "SplitToSequence", "MatMul"))
        many = [node(op, "x0 x0" if op in ("Add", "MatMul") else "x0", f"k{i}") for i in range(rng.integers(3000))]
        return around(many, [], 17).SerializeToString()
    attribute = draw.one(("axes", "perm", "pads", "shape", "split"))
    values = [int(draw.one((0, 1, -1)))] * int(rng.choice([33, 1000, 10**5]))
    op = draw.one(("ReduceSum", "Transpose", "Pad", "RandomNormal", "Split", "Unsqueeze", "Squeeze"))
    return around([node(op, "x0", "k", **{attribute: values})], [], 11).SerializeToString()


# ---------------------------------------------------------------------------------------------- damage to structure


def _messages(message):
    """A message and all inside it."""
    yield message
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                yield from _messages(part)


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """A model with some of its protobuf fields cleared, doubled, swapped, or of other values."""
    proto = onnx.ModelProto()
    proto.ParseFromString(data)
    for _ in range(int(rng.integers(1, 5))):
        parts = [m for m in _messages(proto) if m.ListFields()]
        target = parts[int(rng.integers(len(parts)))]
        fields = target.ListFields()
        field, value = fields[int(rng.integers(len(fields)))]
        if field.is_repeated:
            i, j = (int(k) for k in rng.integers(len(value), size=2))
            kind = int(rng.integers(4))
            if kind == 0:
                del value[i]
            elif kind == 1:
                value.append(value[i]) if field.type != field.TYPE_MESSAGE else value.add().CopyFrom(value[i])
            elif field.type == field.TYPE_MESSAGE:
                swap = type(value[i])()
                swap.CopyFrom(value[i])
                value[i].CopyFrom(value[j])
                value[j].CopyFrom(swap)
            else:
                value[i] = _other(rng, field, value[j])
        elif field.type == field.TYPE_MESSAGE or rng.random() < 0.2:
            target.ClearField(field.name)
        else:
            with contextlib.suppress(ValueError):  # an enumeration without that value
                setattr(target, field.name, _other(rng, field, value))
    return proto.SerializeToString()


def _other(rng: np.random.Generator, field, value):
    if field.type == field.TYPE_STRING:
        return str(rng.choice(["", "x", "y", "w", value[::-1], "a\nb", "../up", "n" * 5000, "Loop", "Conv"]))
    if field.type == field.TYPE_BYTES:
        return bytes(rng.integers(0, 256, rng.integers(9), np.uint8))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return float(rng.choice([0.0, -1.0, 1e30, np.inf, np.nan]))
    most = 2**31 - 1 if field.type in (field.TYPE_INT32, field.TYPE_ENUM, field.TYPE_UINT32) else 2**63 - 1
    number = int(rng.choice([0, 1, 2, 3, 7, 16, 100, 2**31 - 1, 2**62]))
    return min(number if rng.random() < 0.7 or field.type == field.TYPE_UINT64 else -number, most)
