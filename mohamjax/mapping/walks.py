"""The two walks over the levels of a nest: inwards, what each level delivers; outwards, what it reads and writes.

Axes: L levels, innermost first; V data spaces (weights, inputs, outputs). "Section" is that of
docs/concepts/cost-model.md.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mohamjax.dims import I, O, W
from mohamjax.mapping.children import exact_divide, lenient_floor, widest
from mohamjax.mapping.links import InputTraffic, MacTraffic
from mohamjax.mapping.nest import Array


class Level(NamedTuple):
    """Quantities of one level alone, for the walk inwards; `[L, ...]` leaves while all levels are together.

    Attributes:
        relevant: for weights and outputs, product of the temporal factors that move them.
        irrelevant: for weights and outputs, product of the temporal factors that do not move them.
        repeats: for weights and outputs, the result of `accesses._repeats`.
        child_size: words of each data space in one child's tile.
        size: words of each data space in the level's own tile.
        union_size: words of each data space in the tiles of its children together.
        inputs: words of the inputs delivered to one child.
        share: words of the inputs that one child does not get from another.
        used: children along X and Y.
        is_first: the level feeds the MACs.
    """

    relevant: list[jax.Array]
    irrelevant: list[jax.Array]
    repeats: list[tuple[jax.Array, jax.Array]]
    child_size: list[jax.Array]
    size: list[jax.Array]
    union_size: list[jax.Array]
    inputs: jax.Array
    share: jax.Array
    used: list[jax.Array]
    is_first: jax.Array


class Outside(NamedTuple):
    """What the walk inwards knows of all levels outside the next one.

    Attributes:
        relevant: for weights and outputs, product of the temporal factors that move them.
        irrelevant: for weights and outputs, product of the temporal factors that do not move them.
        visits: for weights and outputs, how often the tile is delivered to the next inner level.
        partition: words of each data space that one instance ever owns.
        union_size: words of each data space in the tiles of the children of the next outer level together.
        children: children that the next outer level uses.
        share: words of weights and inputs that the next outer level delivers to one child.
        expansion: instances along X and Y.
    """

    relevant: list[jax.Array]
    irrelevant: list[jax.Array]
    visits: list[jax.Array]
    partition: list[jax.Array]
    union_size: list[jax.Array]
    children: jax.Array
    share: list[jax.Array]
    expansion: list[jax.Array]


class Delivery(NamedTuple):
    """What a level delivers.

    Attributes:
        expansion: instances of the level along X and Y.
        delivered: words of each data space delivered to one child.
        again: how often an output word comes back after the first time.
        partition: words of each data space that one instance ever owns.
        share: words of each data space that its parent fills it with.
    """

    expansion: list[jax.Array]
    delivered: list[jax.Array]
    again: jax.Array
    partition: list[jax.Array]
    share: list[jax.Array]


def deliver(outer: Outside, level: Level) -> tuple[Outside, Delivery]:
    """One step inwards: returns the state for the next inner level, and what this level delivers."""
    moved = [a * b for a, b in zip(outer.relevant, level.relevant, strict=True)]
    still = [a * b for a, b in zip(outer.irrelevant, level.irrelevant, strict=True)]
    repeated = [
        jnp.where(started, repeats * above, visits)
        for (started, repeats), above, visits in zip(level.repeats, outer.irrelevant, outer.visits, strict=True)
    ]
    # Every MAC takes one word of each data space per cycle, even if it is the same as before.
    visits = [jnp.where(level.is_first, s, v) for s, v in zip(still, repeated, strict=True)]
    weights, outputs = (level.child_size[v] * m * n for v, m, n in zip((W, O), moved, visits, strict=True))
    delivered = [weights, jnp.where(level.is_first, weights, level.inputs), outputs]
    partition = [
        jnp.where(outer.children > 1, _whole_share(part, size, union), part)
        for part, size, union in zip(outer.partition, level.size, outer.union_size, strict=True)
    ]
    state = Outside(
        relevant=moved,
        irrelevant=still,
        visits=repeated,
        partition=partition,
        union_size=level.union_size,
        children=level.used[0] * level.used[1],
        share=[weights, level.share],
        expansion=[a * b for a, b in zip(outer.expansion, level.used, strict=True)],
    )
    out = Delivery(
        expansion=outer.expansion,
        delivered=delivered,
        again=visits[1] - 1,
        partition=partition,
        share=[*outer.share, partition[O] * (outer.visits[1] - 1)],
    )
    return state, out


class Served(NamedTuple):
    """What the walk outwards reads of a level.

    Attributes:
        delivery: what it delivers.
        groups: groups of children that share each data space.
        size: words of each data space in its tile.
        used: children along X and Y.
        keep: data spaces that it stores.
        top: whether it is the off-chip memory.
        real: whether it is not padding.
        traffic: from `link_traffic`; None without links.
        per_word: hops of a word of each data space.
        is_first: the level feeds the MACs.
    """

    delivery: Delivery
    groups: tuple[jax.Array, jax.Array, jax.Array]
    size: list[jax.Array]
    used: list[jax.Array]
    keep: Array
    top: Array
    real: Array
    traffic: InputTraffic | None
    per_word: list[jax.Array]
    is_first: jax.Array


class Inside(NamedTuple):
    """What the walk outwards knows of the next inner level.

    Attributes:
        served: words of each data space that entered the network below it, after bypasses.
        again: how often an output word comes back.
        keep: data spaces that it stores.
    """

    served: list[jax.Array]
    again: jax.Array
    keep: jax.Array


class Table(NamedTuple):
    """Fields of `AccessCounts` that the walk outwards computes."""

    tile: jax.Array
    partition: jax.Array
    reads: jax.Array
    fills: jax.Array
    updates: jax.Array
    delivered: jax.Array
    ingress: jax.Array
    network: jax.Array
    expansion: jax.Array
    fanout_used: jax.Array
    hops: jax.Array


def access(inner: Inside, level: Served, *, macs: MacTraffic | None) -> tuple[Inside, Table]:
    """One step outwards: what a level reads and writes.

    Where the next inner level bypasses a data space, this level serves the children of that one; its own groups still
    share reads. An output word comes back as often as those children are served again.

    Args:
        inner: the next inner level.
        level: the level.
        macs: from `mac_traffic`; None without links.
    """
    delivery = level.delivery
    ingress = [d * g for d, g in zip(delivery.delivered, level.groups, strict=True)]
    passed = [s * g for s, g in zip(inner.served, level.groups, strict=True)]
    if macs is not None and level.traffic is not None:
        for v, words in zip((W, O), macs.ingress, strict=True):
            ingress[v] = jnp.where(level.is_first, words, ingress[v])
        ingress[I] = level.traffic.ingress
        children = level.used[0] * level.used[1]
        passed[I] = inner.served[I] * children / level.traffic.weighted * ingress[I]
    served = [jnp.where(inner.keep[v], ingress[v], passed[v]) for v in (W, I, O)]
    again = jnp.where(inner.keep[O], delivery.again, inner.again)
    reads = jnp.stack([served[W], served[I], delivery.partition[O] * again])
    updates = jnp.stack([jnp.zeros_like(again), jnp.zeros_like(again), served[O]])
    hops = [h * d for h, d in zip(level.per_word, delivery.delivered, strict=True)]

    def stored(words):
        return jnp.where(level.keep, words, 0)

    def there(words):
        return jnp.where(level.real, jnp.stack(words), 0)

    out = Table(
        tile=stored(jnp.stack(level.size)),
        partition=stored(jnp.stack(delivery.partition)),
        reads=stored(reads),
        fills=jnp.where(level.keep & ~level.top, jnp.stack(delivery.share), 0),
        updates=stored(updates),
        delivered=there(delivery.delivered),
        ingress=there(ingress),
        network=there(served),
        expansion=there(delivery.expansion),
        fanout_used=jnp.stack(level.used),
        hops=there(hops),
    )
    return Inside(served=served, again=again, keep=jnp.broadcast_to(level.keep, updates.shape)), out


def _whole_share(part, size, union):
    """Whole part of part * size / union (section 5)."""
    exact_part, exact_size, exact_union = widest((part, size, union))
    return lenient_floor(exact_divide(exact_part * exact_size, exact_union)).astype(part.dtype)
