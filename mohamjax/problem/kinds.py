"""What variation must know about layers: which of them are alike, and which dependencies are not implied by others.

Axes: L layers (padded), Q kinds of layers, T templates.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.runtime.struct import put, record

_ROOM = 16
"""Kinds are padded to a multiple of this, so that a few pins more or less change no shape."""


@record
class Kinds:
    """Kinds of layers: those of one kind may run on the same chiplets, at the same cost. At least one kind is padding.

    Attributes:
        of_layer: `[L]` int32, kind of each layer.
        number: `[Q]` int32, number of layers of the kind; 0 for padding, which comes last.
        unique: `[Q]` int32, unique layer of the kind.
        able: `[Q, T]` bool, the template runs them and the user's pins allow it; False for padding.
        pin: `[Q]` int32, tile that they must run on, -1 where they are free.
    """

    of_layer: jax.Array
    number: jax.Array
    unique: jax.Array
    able: jax.Array
    pin: jax.Array


def _alike(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first layer of every kind, and the kind of every layer `[layers]`; arguments as in `kinds_of`."""
    rows = np.column_stack([unique, pin, allowed])
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def room_for(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray) -> int:
    """Q, the number of kinds including padding; arguments as in `kinds_of`."""
    return _padded(len(_alike(unique, allowed, pin)[0]))


def _padded(kinds: int) -> int:
    return -(-(kinds + 1) // _ROOM) * _ROOM


def kinds_of(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray, able: np.ndarray, padded: int) -> Kinds:
    """Kinds of layers: layers are of one kind if they share the unique layer and the user's pins.

    Their number does not depend on which templates can run which layers, so it is known before any layer is mapped.

    Args:
        unique: `[layers]` int, unique layer of each layer.
        allowed: `[layers, T]` bool, templates that a layer's pins allow.
        pin: `[layers]` int, tile that a layer must run on, or -1.
        able: `[layers, T]` bool, templates that are allowed and can run the unique layer.
        padded: L.
    """
    first, kind = _alike(unique, allowed, pin)
    room = _padded(len(first))
    more = (0, room - len(first))
    return Kinds(
        of_layer=put(np.pad(kind, (0, padded - len(kind)), constant_values=room - 1), np.int32),
        number=put(np.bincount(kind, minlength=room), np.int32),
        unique=put(np.pad(unique[first], more), np.int32),
        able=put(np.pad(able[first], (more, (0, 0)))),
        pin=put(np.pad(pin[first], more, constant_values=-1), np.int32),
    )


def immediate(predecessors: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each layer, the predecessors that are not implied by another predecessor (transitive reduction).

    Once these have ended (or come before it in an order), so have all others. In DenseNet, where outputs are joined
    again and again, 48 predecessors become two.

    Args:
        predecessors: of each layer; layers are numbered in a topological order.
    """
    above: list[int] = []  # per layer, bit set of all layers that it waits for
    kept: list[list[int]] = []
    for needs in predecessors:
        implied = 0
        for p in needs:
            implied |= above[p]
        kept.append(sorted({p for p in needs if not implied >> p & 1}))
        for p in needs:
            implied |= 1 << p
        above.append(implied)
    return kept
