"""Reduces the bytes of an ONNX file, before protobuf parses them, to what a reader of shapes needs, and limits them.

Protobuf takes up to sixty bytes of memory per byte of a file (an empty message is two bytes), and gigabytes of weights
are of no use here. So the file is skimmed first, field by field: payloads too large to be a shape, documentation and
training information stay on the disk, and a file with more fields than any model has is refused before any of them is
parsed. Because only positions are read, this takes about a microsecond per field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from mohamjax.workload.budget import MAX_FOLDED_FLOATS, MAX_FOLDED_INTEGERS

MAX_FIELDS = 4_000_000
"""Most fields in all messages of a file, including the entries of packed lists."""

MAX_NODES = 200_000
"""Most nodes of all graphs of a file."""

MAX_KEPT = 1 << 28
"""Most bytes of a file that remain after weights and texts are left out."""

_MOST_CONSTANTS = 1 << 26  # bytes of all kept constants; beyond them only small ones are kept
_SMALL = 1 << 12  # bytes of a small constant
_MOST_LEVELS = 100  # of nested messages: protobuf's own limit
_BLOCK = 1 << 16

_Schema = dict[int, object]

# What to do with a length-delimited field: descend by a schema, or one of these.
_DROP, _TEXT, _LEAF, _PACKED, _TENSOR, _NODE = "drop", "text", "leaf", "packed", "tensor", "node"

_SPARSE: _Schema = {1: _TENSOR, 2: _TENSOR, 3: _PACKED}
_ATTRIBUTE: _Schema = {
    1: _TEXT, 4: _TEXT, 5: _TENSOR, 7: _PACKED, 8: _PACKED, 9: _TEXT, 10: _TENSOR, 13: _DROP, 14: _LEAF, 15: _LEAF,
    21: _TEXT, 22: _SPARSE, 23: _SPARSE,
}  # fmt: skip
_NODE_FIELDS: _Schema = {1: _TEXT, 2: _TEXT, 3: _TEXT, 4: _TEXT, 5: _ATTRIBUTE, 6: _DROP, 7: _TEXT, 8: _TEXT, 9: _DROP}
_GRAPH: _Schema = {
    1: _NODE, 2: _TEXT, 5: _TENSOR, 10: _DROP, 11: _LEAF, 12: _LEAF, 13: _LEAF, 14: _DROP, 15: _SPARSE, 16: _DROP,
}  # fmt: skip
_ATTRIBUTE |= {6: _GRAPH, 11: _GRAPH}
_FUNCTION: _Schema = {
    1: _TEXT, 4: _TEXT, 5: _TEXT, 6: _TEXT, 7: _NODE, 8: _DROP, 9: _LEAF, 10: _TEXT, 11: _ATTRIBUTE, 12: _LEAF,
    13: _TEXT, 14: _DROP,
}  # fmt: skip
_MODEL: _Schema = {
    2: _TEXT, 3: _TEXT, 4: _TEXT, 6: _DROP, 7: _GRAPH, 8: _LEAF, 14: _DROP, 20: _DROP, 25: _FUNCTION,
}  # fmt: skip

# Payload fields of a tensor: bytes of memory that a byte of them in the file may take.
_PAYLOADS = {4: 1, 5: 8, 6: 1, 7: 8, 9: 1, 10: 1, 11: 8}
_TENSOR_FLOATS = frozenset({1, 10, 11})
_TENSOR_INTEGERS = frozenset({2, 3, 4, 5, 6, 7, 9, 12, 13})
_LONGEST_FLOATS = MAX_FOLDED_FLOATS * 8
_LONGEST_INTEGERS = MAX_FOLDED_INTEGERS * 10  # bytes of the longest varint


class MalformedError(ValueError):
    """The bytes are no protobuf message."""


class TooLargeError(ValueError):
    """The file holds more than any model."""


def skim(stream: BinaryIO, size: int) -> bytes:
    """The part of an ONNX file that a reader of shapes needs.

    Args:
        stream: The file.
        size: Its size in bytes.

    Returns:
        The model, serialised, without large constants, documentation and training information.

    Raises:
        MalformedError: It is cut off, or no protobuf message.
        TooLargeError: The part to keep is too large.
    """
    skimmer = _Skimmer(stream, size)
    pieces, _ = skimmer.message(0, size, _MODEL, 0)
    return b"".join(skimmer.bytes_of(piece) for piece in pieces)


_Piece = bytes | tuple[int, int]  # bytes, or a range of the file


class _Skimmer:
    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream, self.size = stream, size
        self.block, self.base = b"", 0
        self.fields = self.nodes = self.constants = self.kept = 0

    # ------------------------------------------------------------------------------------------------ reading

    def bytes_of(self, piece: _Piece) -> bytes:
        if isinstance(piece, bytes):
            return piece
        self.stream.seek(piece[0])
        data = self.stream.read(piece[1] - piece[0])
        if len(data) < piece[1] - piece[0]:
            raise MalformedError("the file became shorter while it was read")
        return data

    def _fill(self, at: int) -> None:
        self.stream.seek(at)
        self.block, self.base = self.stream.read(_BLOCK), at

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """A varint and the position after it."""
        value = shift = 0
        while True:
            if at >= end:
                raise MalformedError("a field is cut off")
            i = at - self.base
            if not 0 <= i < len(self.block):
                self._fill(at)
                i = 0
                if not self.block:
                    raise MalformedError("the file became shorter while it was read")
            byte = self.block[i]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value, at
            shift += 7
            if shift > 63:
                raise MalformedError("a number has no end")

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
        """(number, wire type, start, start of the payload, end) of each field of a message."""
        while at < end:
            start = at
            i = at - self.base
            # The common case at once: tag and length of one byte each.
            if 0 <= i < len(self.block) - 1 and self.block[i] < 128 and self.block[i + 1] < 128 and at + 1 < end:
                tag, after = self.block[i], self.block[i + 1]
                wire = tag & 7
                if wire == 2:
                    at += 2
                    stop = at + after
                elif wire == 0:
                    at += 1
                    stop = at + 1
                else:
                    wire = -1
            else:
                wire = -1
            if wire < 0:
                tag, at = self._varint(at, end)
                wire = tag & 7
                if wire == 2:
                    length, at = self._varint(at, end)
                    stop = at + length
                elif wire == 0:
                    _, stop = self._varint(at, end)
                elif wire in (1, 5):
                    stop = at + (8 if wire == 1 else 4)
                else:
                    raise MalformedError(f"a field of wire type {wire}")
            if tag < 8:
                raise MalformedError("a field without a number")
            if stop > end:
                raise MalformedError("a field is cut off")
            self.fields += 1
            if self.fields > MAX_FIELDS:
                self._count(0)
            yield tag >> 3, wire, start, at, stop
            at = stop

    # ----------------------------------------------------------------------------------------------- counting

    def _count(self, fields: int) -> None:
        self.fields += fields
        if self.fields > MAX_FIELDS:
            raise TooLargeError(f"holds more than {MAX_FIELDS:,} names, attributes and other fields")

    def _keep(self, size: int) -> None:
        self.kept += size
        if self.kept > MAX_KEPT:
            raise TooLargeError(f"holds more than {MAX_KEPT:,} bytes beside its weights")

    # --------------------------------------------------------------------------------------------- rewriting

    def message(self, at: int, end: int, schema: _Schema, level: int) -> tuple[list[_Piece], int]:
        """What is kept of a message, in pieces, and its length in bytes."""
        if level > _MOST_LEVELS:
            raise MalformedError("messages are nested too deeply")
        pieces: list[_Piece] = []
        length, run = 0, at  # the bytes from `run` on are kept as they are

        def flush(until: int) -> int:
            if until > run:
                pieces.append((run, until))
            return until - run

        for number, wire, start, payload, stop in self._fields(at, end):
            what = schema.get(number) if wire == 2 else None
            inner: tuple[list[_Piece], int] | None = None
            if wire != 2 or what is _TEXT:
                self._keep(stop - start)
                continue
            if what is _PACKED or what is _LEAF:
                # The content of a leaf is not read: one field per four bytes is assumed.
                self._count((stop - payload) // (1 if what is _PACKED else 4))
                self._keep(stop - start)
                continue
            if what is _TENSOR:
                inner = self._tensor(payload, stop)
            elif what is _NODE:
                self.nodes += 1
                if self.nodes > MAX_NODES:
                    raise TooLargeError(f"holds more than {MAX_NODES:,} nodes")
                inner = self.message(payload, stop, _NODE_FIELDS, level + 1)
            elif isinstance(what, dict):
                inner = self.message(payload, stop, what, level + 1)
            if inner is not None and inner[1] == stop - payload:
                continue
            length += flush(start)
            run = stop
            if inner is not None:
                head = _encoded(number << 3 | 2) + _encoded(inner[1])
                pieces.append(head)
                pieces += inner[0]
                length += len(head) + inner[1]
        length += flush(end)
        return pieces, length

    def _tensor(self, at: int, end: int) -> tuple[list[_Piece], int]:
        """A tensor, without its values where they are too many to be folded."""
        kept: list[tuple[int, int]] = []
        payloads: list[tuple[int, int]] = []
        weight = dtype = 0
        for number, wire, start, payload, stop in self._fields(at, end):
            if wire == 2 and number in _PAYLOADS:
                payloads.append((start, stop))
                weight += (stop - payload) * _PAYLOADS[number]
            elif number == 2 and wire == 0:
                dtype, _ = self._varint(payload, stop)
                kept.append((start, stop))
            elif wire != 2 or number in (1, 8, 13):  # sizes, name, external data
                if wire == 2 and number != 8:
                    self._count((stop - payload) // 4)
                kept.append((start, stop))
        size = sum(stop - start for start, stop in payloads)
        longest = _LONGEST_FLOATS if dtype in _TENSOR_FLOATS else _LONGEST_INTEGERS if dtype in _TENSOR_INTEGERS else 0
        if size and size <= longest + 16 and (weight <= _SMALL or self.constants + weight <= _MOST_CONSTANTS):
            self.constants += weight
            kept = [*kept, *payloads]
        self._keep(sum(stop - start for start, stop in kept))
        if sum(stop - start for start, stop in kept) == end - at:
            return [(at, end)], end - at
        return [*kept], sum(stop - start for start, stop in kept)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
