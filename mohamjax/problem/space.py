"""The space of designs as arrays, built once on the host from the networks, templates, tables and requirements.

Operators read its `Genetics`: among others which layers are alike (`Kinds`), and which dependencies are not implied by
others (`immediate`).

Axes: L layers (padded), Q kinds of layers, S tiles, U unique layers, T templates, M mappings of a Pareto set.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.problem.plan_tables import PlanTables
from mohamjax.runtime.blocks import in_blocks
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import put, record
from mohamjax.schedule import EvaluationArrays
from mohamjax.schedule.ensemble import Models

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


@record
class Genetics:
    """What the operators must know of the problem.

    Attributes:
        layers: `[]` int32, number of layers; the rest of L is padding.
        unique: `[L]` int32, unique layer of each layer.
        predecessors: `[L, A]` int32, immediate predecessors (`immediate`), padded with -1.
        successors: `[L, B]` int32, layers of which this is an immediate predecessor, padded with -1.
        count: `[U, T]` int32, size of each Pareto set; 0 where the template cannot run the layer.
        able: `[L, T]` bool, the template runs the layer and the user's pins allow it; False where padded.
        kinds: layers that are alike.
        transform: `[U, T, M, T]` int32, mapping transform: most similar mapping on another template.
        rules: `[H, U, T]` int32, mappings under one rule for all layers, e.g. the fastest within an area.
        cover: `[S]` int32, a package of few chiplets that together run every layer, -1 where empty.
        orders: `[R, L]` int32, random topological orders (Kahn) that random individuals draw from.
        max_chiplets: `[]` int32, most chiplets that a design may have, at most S.
        on_tile: `[S]` int32, template of the fixed chiplet on the tile; `FREE` where the search chooses, `CLOSED` where
            nothing may stand (`problem.resolved`).
        pin: `[L]` int32, tile that the layer must run on, -1 where it is free.
        homogeneous: `[]` int32, where all chiplets must have one template, the template for designs none of whose own
            templates runs every layer; -1 where packages may be mixed.
        model: `[L]` int32, application model of each layer, rising (`workload.ensemble`); None where there is only one.
        urgency: `[L]` float, cycles that list scheduling adds to the longest remaining path of a layer for its
            deadline; None where neither lateness nor missed deadlines are an objective.
    """

    layers: jax.Array
    unique: jax.Array
    predecessors: jax.Array
    successors: jax.Array
    count: jax.Array
    able: jax.Array
    kinds: Kinds
    transform: jax.Array
    rules: jax.Array
    cover: jax.Array
    orders: jax.Array
    max_chiplets: jax.Array
    on_tile: jax.Array
    pin: jax.Array
    homogeneous: jax.Array
    model: jax.Array | None = None
    urgency: jax.Array | None = None

    @property
    def real(self) -> jax.Array:
        """`[L]` bool, layers that exist; also the places of an order that hold them."""
        return jnp.arange(self.unique.shape[0]) < self.layers


@record
class MeasureArrays:
    """How the objectives of a search are measured, where they are not latency, energy and area.

    Attributes:
        network: `[M]` int32, network that the objective measures; -1 where it measures all.
        offset: `[M]` float, what is added to the objective to make it positive.
    """

    network: jax.Array
    offset: jax.Array


@record
class DesignSpace:
    """The problem as arrays.

    Attributes:
        genetics: what the operators read.
        plans: what the decoding of plans reads.
        evaluation: what the evaluation reads.
        reference: `[M]` float, reference point of the hypervolume, in objective units, with the offsets added.
        ideal: `[M]` float, a lower bound on the objectives of all designs, which scales the hypervolume to [0, 1].
        weights: `[M]` float, exponents of the objectives where a single number is minimised.
        limits: `[4]` float, upper bounds of latency [s], energy [J], area [mm^2] and power [W]; inf where free.
        least: `[T + 1]` int32, fewest chiplets of each template, then of all.
        most: `[T + 1]` int32, most chiplets of each template, then of all.
        tenant_limits: `[3]` float, upper bounds in the order of `TENANT_LIMITS`; None where no network has a deadline
            or a weight.
        chiplet_limits: `[2, K]` float, upper and lower bounds on every chiplet by `CHIPLET_MEASURES`; None where
            there are none.
        models: the application models whose layers these are; None where there is only one.
        measures: how the objectives are measured; None where they are latency, energy and area.
    """

    genetics: Genetics
    plans: PlanTables
    evaluation: EvaluationArrays
    reference: jax.Array
    ideal: jax.Array
    weights: jax.Array
    limits: jax.Array
    least: jax.Array
    most: jax.Array
    tenant_limits: jax.Array | None = None
    chiplet_limits: jax.Array | None = None
    models: Models | None = None
    measures: MeasureArrays | None = None


def check_space(space: object) -> None:
    """Raises `TypeError` where an argument `space` is not a `DesignSpace`."""
    if not isinstance(space, DesignSpace):
        raise TypeError(f"space: expected what problem.arrays returns, got {type(space).__name__}")


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


@functools.partial(jit_o1_plain_loops, static_argnames=("count",))
def random_orders(key: jax.Array, predecessors: jax.Array, layers: jax.Array, *, count: int) -> jax.Array:
    """Random topological orders by Kahn's algorithm with random priorities.

    Args:
        key: typed key, consumed.
        predecessors: `[L, A]` int32, padded with -1.
        layers: `[]` int32, number of layers that exist; padded ones come last in the orders.
        count: R, static.

    Returns:
        `[R, L]` int32.
    """
    total = predecessors.shape[0]
    exists = predecessors >= 0

    def one(key: jax.Array) -> jax.Array:
        priority = jax.random.uniform(key, (total,)) - 2.0 * (jnp.arange(total) >= layers)

        def take(place: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            order, done = carry
            ready = ~done & jnp.all(done[predecessors] | ~exists, axis=1)
            layer = jnp.argmax(jnp.where(ready, priority, -jnp.inf)).astype(jnp.int32)
            return order.at[place].set(layer), done.at[layer].set(True)

        order, _ = jax.lax.fori_loop(0, total, take, (jnp.zeros(total, jnp.int32), jnp.zeros(total, bool)))
        return order

    return in_blocks(jax.vmap(one), jax.random.split(key, count), 64)


@jit_o1_plain_loops
def mapping_transform(objectives: jax.Array, count: jax.Array) -> jax.Array:
    """The most similar mapping on every other template, for every mapping (docs/concepts/designs.md).

    Objectives are scaled to [0, 1] within each (unique layer, template) set; the transform of a mapping is the
    nearest point of the target's set (Euclidean), the first of several.

    Args:
        objectives: `[U, T, M, 3]` float.
        count: `[U, T]` int, entries of each set.

    Returns:
        `[U, T, M, T]` int32; 0 where the target's set is empty.
    """
    valid = jnp.arange(objectives.shape[2]) < count[..., None]
    inside = valid[..., None]
    low = jnp.min(jnp.where(inside, objectives, jnp.inf), axis=2, keepdims=True)
    high = jnp.max(jnp.where(inside, objectives, -jnp.inf), axis=2, keepdims=True)
    scaled = jnp.where(inside, (objectives - low) / jnp.where(high > low, high - low, 1), 0)

    def nearest(point: jax.Array, points: jax.Array, exist: jax.Array) -> jax.Array:
        return jnp.argmin(jnp.where(exist, jnp.sum((points - point) ** 2, axis=-1), jnp.inf)).astype(jnp.int32)

    of_set = jax.vmap(nearest, in_axes=(0, None, None))
    of_templates = jax.vmap(of_set, in_axes=(0, None, None))
    to_templates = jax.vmap(of_templates, in_axes=(None, 0, 0), out_axes=-1)
    # Layer by layer: the distances take memory quadratic in the size of the sets.
    return jax.lax.map(lambda layer: to_templates(layer[0], *layer), (scaled, valid))
