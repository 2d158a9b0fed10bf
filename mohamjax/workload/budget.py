"""What one import may take: counted as it goes, and never handed back.

A file of a few hundred bytes can ask for any amount of work: loops in loops, sequences of sequences, growing sizes.
Every part of the importer that does work in proportion to something in the file says so here first, trials that are
given up later included; so an answer comes in seconds and in bounded memory whatever the file asks for.
"""

from __future__ import annotations

from mohamjax.errors import InputError

MAX_AXES = 32
"""Axes of a tensor: as many as every NumPy has."""

MAX_SIZE = 2**63 - 1
"""Entries along an axis: as many as ONNX can state."""

MAX_FOLDED = 1 << 25
"""Values that a walk computes and keeps, in all; those of small tensors, of which shapes are made, count as entries."""

_MOST_PLACES = 1 << 20
_MOST_DECODED = 1 << 27
_OPENING = 1 << 12  # bytes that could be read while a file is opened

_SMALLER = "export a smaller model"

_LIMITS: dict[str, tuple[int, str, str]] = {
    "calls": (
        200_000,
        "with functions inlined and loops unrolled the model makes more than {:,} operator calls",
        "export it with fewer loop iterations",
    ),
    "members": (1 << 22, "its sequences have more than {:,} members", "export it with shorter sequences"),
    "entries": (
        1 << 23,
        "its operator calls take more than {:,} operands, axes, attributes and small values",
        "export it with fewer loop iterations or smaller constants",
    ),
    "dependencies": (
        1 << 23,
        "more than {:,} dependencies between its layers (a layer depends on all that skip connections reach)",
        _SMALLER,
    ),
}


class Budget:
    """Counts what an import takes, by kind, and ends it where that is too much.

    `calls` are operator calls and walks through a graph inside a node, `members` those of sequences, `entries` all that
    a call reads or makes (operands, axes, entries of attributes, small values; large ones at a discount),
    `dependencies` the members of the sets of layers that tensors and layers depend on.

    Args:
        file: The model file, for errors.
    """

    def __init__(self, file: object) -> None:
        self.file = file
        self.item: str | None = None
        """What is at work, for errors."""
        self.spent = dict.fromkeys(_LIMITS, 0)
        self.folded = 0
        self._decoded = 0
        self._places = 0

    def spend(self, kind: str, amount: int = 1) -> None:
        """Counts some more of a kind.

        Raises:
            InputError: The import has taken more than it may.
        """
        self.spent[kind] += amount
        if self.spent[kind] > _LIMITS[kind][0]:
            most, message, remedy = _LIMITS[kind]
            raise InputError(message.format(most), file=self.file, item=self.item, remedy=remedy)

    def decode(self, size: int) -> bool:
        """Whether another constant outside the file may be read, of that many bytes; those beyond are left unknown."""
        self._decoded += size + _OPENING
        return self._decoded <= _MOST_DECODED

    def fold(self, size: int) -> bool:
        """Whether another large array of that many values may be kept; those beyond are left unknown."""
        self.folded += size
        return self.folded <= MAX_FOLDED

    def order(self, size: int) -> bool:
        """Whether a regular order may be looked for among so many places; those beyond count as irregular."""
        self._places += size
        return self._places <= _MOST_PLACES

    def left(self, kind: str) -> int:
        """How much there is left of a kind."""
        return _LIMITS[kind][0] - self.spent[kind]

    def halves(self) -> dict[str, int]:
        """Half of what there is left of each kind: as much as a trial may leave, so that many of them end nothing."""
        return {kind: self.left(kind) // 2 for kind in self.spent}

    def below(self, floors: dict[str, int]) -> bool:
        """Whether less is left of some kind."""
        return any(self.left(kind) < least for kind, least in floors.items())
