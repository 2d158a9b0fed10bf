"""What the importer knows about a tensor, and the call that the rules of operators receive.

A size that depends on data is None; a tensor of unknown rank has shape None.
"""

from __future__ import annotations

import dataclasses
import math
from collections import abc
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mohamjax.errors import InputError
from mohamjax.workload.budget import Budget
from mohamjax.workload.layer import WorkloadShape
from mohamjax.workload.repetition import Repetition, plain

Shape = tuple[int | None, ...]

# Element types of onnx.proto (TensorProto.DataType); spelt out so that this module needs no onnx.
FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL, FLOAT16, BFLOAT16 = 1, 2, 3, 6, 7, 8, 9, 10, 16

TYPE_BITS = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16,
    17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
}  # fmt: skip
"""Width in bits of each ONNX element type."""

NUMPY_TYPES: dict[int, type] = {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64,
}  # fmt: skip
"""NumPy types of the ONNX element types whose values are folded."""


class MisfitError(ValueError):
    """Operands do not fit together; the message is for the user, and the walk adds the file and the node."""


@dataclasses.dataclass(eq=False)
class Tensor:
    """What is known about one tensor (or sequence of tensors) of a graph.

    Attributes:
        shape: Sizes; None per axis where a size depends on data, None as a whole where the rank is unknown.
        dtype: ONNX element type; 0 = unknown.
        data: Values, if they are few and known; entries of an object array may be None (unknown).
        const: Depends on no graph input: a weight, or something computed from constants alone.
        producers: Layers that must have ended before the tensor exists; None = not set by the rule.
        bits: Width in bits of the quantised type it was dequantised from, if any.
        why: Which operator lost the shape, for error messages.
        elements: The members of a sequence (or of an optional), where known.
        sequence: Whether it is a sequence.
        stored: Of a constant: how many values the largest constant of the file has that it was computed from, at most
            as many as it has itself; None = it is one of the file.
        repetition: Where it repeats itself; None = no known repetition. `dataclasses.replace` resets it and `origin`,
            because the values of the copy may differ.
        origin: Another tensor that holds the same values in the same row-major order; None = itself.
    """

    shape: Shape | None
    dtype: int = FLOAT
    data: np.ndarray | None = None
    const: bool = False
    producers: frozenset[int] | None = None
    bits: int | None = None
    why: str = ""
    elements: list[Tensor] | None = None
    sequence: bool = False
    stored: int | None = None
    repetition: Repetition | None = dataclasses.field(default=None, init=False)
    origin: Tensor | None = dataclasses.field(default=None, init=False)

    @property
    def word_bits(self) -> int:
        """Width of a word: of the quantised type where there is one, otherwise of the element type."""
        return self.bits or TYPE_BITS.get(self.dtype, 32)

    @property
    def stored_values(self) -> int:
        """Of a constant: how many values the file stores for it (`stored`), 0 if that is unknown."""
        return self.stored or count(self.shape) or 0

    @property
    def values_known(self) -> bool:
        """Whether every value is known."""
        return self.data is not None and self.data.dtype != object

    @property
    def factors(self) -> Repetition:
        """The factors of each axis; every size must be known."""
        return self.repetition or plain(self.shape)  # type: ignore[arg-type]

    def repeat(self, repetition: Repetition) -> None:
        """Records where it repeats itself."""
        if any(repeated for axis in repetition for _, repeated in axis) and count(self.shape):
            self.repetition = repetition

    def revised(self, changed: Tensor) -> Tensor:
        """`changed`, a copy with the same values, given this tensor's origin and, for an equal shape, repetition."""
        changed.origin = self.origin or self
        if changed.shape == self.shape:
            changed.repetition = self.repetition
        return changed


def is_known(shape: Shape | None) -> bool:
    """Whether every size is known."""
    return shape is not None and None not in shape


def count(shape: Shape | None) -> int | None:
    """Number of elements: 0 if any size is 0, otherwise None if a size is unknown."""
    if shape is None:
        return None
    if 0 in shape:
        return 0
    return None if None in shape else math.prod(shape)  # type: ignore[arg-type]


def product(sizes: Sequence[int | None]) -> int | None:
    """Product of sizes, None where one is unknown."""
    return count(tuple(sizes))


def show(shape: Shape | None) -> str:
    """A shape for people: `1x?x768`."""
    if shape is None:
        return "of unknown rank"
    return "x".join("?" if d is None else str(d) for d in shape) or "scalar"


def broadcast(*shapes: Shape | None) -> Shape | None:
    """The common shape by NumPy's rules.

    Raises:
        MisfitError: The shapes do not fit together.
    """
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(s) for s in known), default=0)
    out: list[int | None] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in known if len(s) >= -axis]
        wide = {d for d in sizes if d is not None and d != 1}
        if len(wide) > 1:
            raise MisfitError("shapes " + " and ".join(show(s) for s in known) + " do not broadcast")
        out.append(wide.pop() if wide else None if None in sizes else 1)
    return tuple(out)


def _brief(value: object) -> str:
    return repr(value)[:40] if isinstance(value, int | float | str | bytes | list) else "a tensor or graph"


def union(tensors: Iterable[Tensor | None], budget: Budget) -> frozenset[int]:
    """The layers that some tensors were computed from.

    If one of their sets holds all layers, it is returned itself: thousands of tensors share one set.
    """
    sets: dict[int, frozenset[int]] = {}
    for tensor in tensors:
        if tensor is not None and not tensor.const and tensor.producers:
            sets[id(tensor.producers)] = tensor.producers
    if len(sets) < 2:
        return next(iter(sets.values()), frozenset())
    budget.spend("dependencies", sum(map(len, sets.values())))
    longest = max(sets.values(), key=len)
    out = longest.union(*sets.values())
    return longest if len(out) == len(longest) else out


@dataclasses.dataclass
class Call:
    """One operator call, which the rules of `operators` receive.

    Attributes:
        op: Operator name.
        domain: Operator domain, `""` for the standard one.
        opset: Operator-set version of that domain.
        label: The node as errors name it.
        inputs: One per input of the node; None where an optional input is left out.
        attributes: Decoded attributes.
        outputs: How many outputs the node has.
        file: The model file, for errors.
        warn: Takes a warning of one line.
        emit: `emit(suffix, type, shape, word_bits, producers)` adds a layer and returns its index.
        fold_product: Called for each product of constants, which is no layer.
        budget: The budget of the import.
    """

    op: str
    domain: str
    opset: int
    label: str
    inputs: list[Tensor | None]
    attributes: abc.Mapping[str, object]
    outputs: int
    file: object
    warn: Callable[[str], None]
    emit: Callable[[str, str, WorkloadShape, int, frozenset[int]], int]
    fold_product: Callable[[], None]
    budget: Budget

    def error(self, message: str, remedy: str = "correct the model and export it again") -> InputError:
        """An `InputError` about this node."""
        return InputError(message, file=self.file, item=self.label, remedy=remedy)

    def has(self, i: int) -> bool:
        """Whether input i is there."""
        return i < len(self.inputs) and self.inputs[i] is not None

    def get(self, i: int) -> Tensor:
        """Input i; it is an error if that is left out."""
        tensor = self.inputs[i] if i < len(self.inputs) else None
        if tensor is None:
            raise self.error(f"input {i} is missing")
        return tensor

    def shape(self, i: int) -> Shape | None:
        """Shape of input i; None if unknown or if the input is left out."""
        return self.get(i).shape if self.has(i) else None

    def data(self, i: int) -> np.ndarray | None:
        """Values of input i, None if unknown; single entries may be None too."""
        return self.get(i).data if self.has(i) else None

    def ints(self, i: int) -> list[int | None] | None:
        """Values of input i as integers, None for an unknown entry; None if nothing is known."""
        data = self.data(i)
        if data is None:
            return None
        self.budget.spend("entries", data.size)
        values = data.reshape(-1).tolist()
        lost = next((v for v in values if isinstance(v, float) and not math.isfinite(v)), None)
        if lost is not None:
            raise self.error(f"input {i} holds {lost}, which is no integer")
        return [None if v is None else int(v) for v in values]

    def members(self, i: int) -> list[Tensor] | None:
        """Members of the sequence at input i, None if unknown; charges the budget for each."""
        elements = self.get(i).elements
        self.budget.spend("entries", len(elements or ()))
        return elements

    def producers(self, tensors: Iterable[Tensor | None]) -> frozenset[int]:
        """The layers that some tensors were computed from."""
        return union(tensors, self.budget)

    def scalar(self, i: int) -> int | float | None:
        """The single value of input i; None if it is unknown or there are several."""
        data = self.data(i)
        return None if data is None or data.size != 1 else data.reshape(-1).tolist()[0]

    def whole(self, i: int) -> int | None:
        """The single value of input i as an integer; None if it is unknown or there are several."""
        values = self.ints(i) if self.scalar(i) is not None else None
        return values[0] if values else None

    def attr(self, key: str, default: object = None) -> object:
        """An attribute, or its default."""
        return self.attributes.get(key, default)

    def type_attr(self, key: str, default: int) -> int:
        """An attribute that is an element type; the default if it is missing or 0."""
        value = self.attributes.get(key)
        return value if value and isinstance(value, int) else default

    def number_attr(self, key: str, default: float | None = None) -> float | None:
        """An attribute that is a number, or its default."""
        value = self.attributes.get(key, default)
        if value is not None and not isinstance(value, int | float):
            raise self.error(f"attribute {key!r} is no number")
        return value

    def int_attr(self, key: str, default: int | None = None) -> int:
        """An integer attribute."""
        value = self.attributes.get(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int):
            raise self.error(f"attribute {key!r} is missing" if value is None else f"attribute {key!r} is no integer")
        return value

    def ints_attr(self, key: str, default: Sequence[int] | None = None) -> list[int] | None:
        """A list-of-integers attribute."""
        value = self.attributes.get(key)
        if value is None:
            return None if default is None else list(default)
        if isinstance(value, int):
            return [value]
        if not isinstance(value, list) or not all(isinstance(v, int) for v in value):
            raise self.error(f"attribute {key!r} is no list of integers")
        return value

    def str_attr(self, key: str, default: str = "") -> str:
        """A string attribute."""
        value = self.attributes.get(key, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def window_attr(self, key: str, default: Sequence[int]) -> list[int]:
        """A list-of-integers attribute of a window; the default if it is missing or empty."""
        return self.ints_attr(key) or list(default)

    def axes_of(self, i: int, least: int = 1) -> Shape | None:
        """Shape of input i, None if unknown; it is an error if it has fewer than `least` axes."""
        shape = self.shape(i)
        if shape is not None and len(shape) < least:
            raise self.error(f"input {i} has too few axes ({show(shape)}): the operator needs {least} or more")
        return shape

    def axis(self, value: object, rank: int) -> int:
        """An axis, checked and made non-negative; 0 for a scalar."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"an axis is {_brief(value)}, no integer")
        if not -rank <= value < max(rank, 1):
            raise self.error(f"axis {value} does not exist in a tensor of {rank} axes")
        return value % rank if rank else 0

    def known_shape(self, i: int, what: str = "input") -> tuple[int, ...]:
        """Shape of input i; it is an error if a size is unknown."""
        tensor = self.get(i)
        if not is_known(tensor.shape):
            raise self.error(
                f"the shape of its {what} is unknown ({show(tensor.shape)})"
                + (f": {tensor.why}" if tensor.why else ""),
                "give the shape of that tensor with the argument `shapes[NAME]`, or export with static shapes",
            )
        return tensor.shape  # type: ignore[return-value]
