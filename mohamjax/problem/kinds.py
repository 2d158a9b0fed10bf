"""What variation must know of layers: which are alike, and which of their dependencies say something of their own.

Axes: L layers (padded), Q kinds of layers, T templates.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.runtime.struct import put, record

_ROOM = 16
"""Kinds are padded to a multiple, so that a few pins more or less change no shape."""


@record
class Kinds:
    """Layers that may go to the same chiplets, and take the same there. The last kinds, one at least, are padding.

    Attributes:
        of_layer: `[L]` int32, kind of each layer.
        number: `[Q]` int32, how many layers there are of it; 0 of padding.
        unique: `[Q]` int32, their unique layer.
        able: `[Q, T]` bool, the template runs them and the user's pins allow it; False of padding.
        pin: `[Q]` int32, tile that they must run on, -1 where they are free.
    """

    of_layer: jax.Array
    number: jax.Array
    unique: jax.Array
    able: jax.Array
    pin: jax.Array


def _alike(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first layer of every kind, and the kind of every layer `[layers]`; arguments as of `kinds_of`."""
    rows = np.column_stack([unique, pin, allowed])
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, kind.reshape(-1)


def room_for(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray) -> int:
    """Q, kinds of layers with padding; arguments as of `kinds_of`."""
    return _padded(len(_alike(unique, allowed, pin)[0]))


def _padded(kinds: int) -> int:
    return -(-(kinds + 1) // _ROOM) * _ROOM


def kinds_of(unique: np.ndarray, allowed: np.ndarray, pin: np.ndarray, able: np.ndarray, padded: int) -> Kinds:
    """Kinds of layers by unique layer and by what the user allows.

    Their number does not depend on which template runs what, so that it is known before any layer is mapped.

    Args:
        unique: `[layers]` int.
        allowed: `[layers, T]` bool, templates that a layer's pins leave it.
        pin: `[layers]` int, tile that a layer must run on, or -1.
        able: `[layers, T]` bool, templates that may run it: among those allowed, a matter of its unique layer.
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
    """Of each layer's predecessors those that none of its others waits for (transitive reduction).

    Once these have ended (or precede it in an order), so have all the others. Where the outputs of many layers are
    joined and joined again, as in DenseNet, 48 become two.

    Args:
        predecessors: per layer, numbered in a topological order.
    """
    above: list[int] = []  # bit sets of all that a layer waits for
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
