"""Limits of the work and memory of one import, which are counted as they are spent and never given back.

A file of a few hundred bytes can ask for any amount of work: loops in loops, sequences of sequences, growing sizes.
Every part of the importer that does work in proportion to something in the file counts it here first, including the
work of trials that are given up later. So every file gets an answer within seconds and in bounded memory.
"""

from __future__ import annotations

from mohamjax.errors import InputError

MAX_AXES = 32
"""Most axes of a tensor: as many as every version of NumPy allows."""

MAX_SIZE = 2**63 - 1
"""Most entries along an axis: as many as ONNX can state."""

MAX_FOLDED_INTEGERS = 1 << 17
"""Most integers of an array whose values are kept, because shapes may be computed from them."""

MAX_FOLDED_FLOATS = 1 << 12
"""The same for floating-point numbers (scales of a Resize, limits of a Range)."""

MAX_FOLDED = 1 << 25
"""Most values in all that an import reads from other files, or computes and keeps."""

_MOST_PLACES = 1 << 20
_COST_OF_MEMBER = 2  # entries

_LIMITS: dict[str, tuple[int, str, str]] = {
    "calls": (
        200_000,
        "with functions inlined and loops unrolled the model makes more than {:,} operator calls",
        "export it with fewer loop iterations",
    ),
    "entries": (
        1 << 23,
        "its operator calls take more than {:,} operands, axes, attributes, members of sequences and small values",
        "export it with fewer loop iterations, shorter sequences or smaller constants",
    ),
    "dependencies": (
        1 << 23,
        "more than {:,} dependencies between its layers (a layer depends on all that skip connections reach)",
        "export a smaller model",
    ),
}


class Budget:
    """Counts the work of an import by kind, and ends the import where it is too much.

    `calls` counts operator calls and walks through a graph inside a node, `entries` all that a call reads or makes
    (operands, axes, entries of attributes, members of sequences, small values; large ones at a discount), and
    `dependencies` the members of the sets of layers that tensors and layers depend on.

    Args:
        file: The model file, for errors.
    """

    def __init__(self, file: object) -> None:
        self.file = file
        self.item: str | None = None
        """The node that is being walked, for errors."""
        self._spent = dict.fromkeys(_LIMITS, 0)
        self._folded = 0
        self._places = 0

    def spend(self, kind: str, amount: int = 1) -> None:
        """Counts more work of a kind.

        Raises:
            InputError: The import has taken more than it may.
        """
        self._spent[kind] += amount
        if self._spent[kind] > _LIMITS[kind][0]:
            most, message, remedy = _LIMITS[kind]
            raise InputError(message.format(most), file=self.file, item=self.item, remedy=remedy)

    def gather(self, members: int) -> None:
        """Counts members of a sequence."""
        self.spend("entries", _COST_OF_MEMBER * members)

    def fold(self, size: int) -> bool:
        """Counts a large array of that many values; returns whether it may be kept, else its values are left unknown.

        Arrays of a few values, from which shapes are made, count as entries instead.
        """
        self._folded += size
        return self._folded <= MAX_FOLDED

    def order(self, size: int) -> bool:
        """Counts so many places; returns whether to look for a regular order in them, else they count as irregular."""
        self._places += size
        return self._places <= _MOST_PLACES
