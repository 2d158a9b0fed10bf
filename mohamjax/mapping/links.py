"""Link transfers: words that children hand to a neighbour instead of fetching them again (section 6).

A step of the loops above a level moves every child's tile by the same vector T. If a neighbour on the mesh held, one
delivery earlier, the tile that a child needs now, the child takes its words from there, provided that both deliveries
had the same shape. Timeloop decides per kind of step and uses links only where they leave fewer groups to be served.

Between storage levels only inputs are handed on: a step along an axis without windows moves a tile beyond those of its
neighbours, and a step that moves nothing brings no words. A MAC, as a child of level 0, takes one word of each data
space in every step, and the same word again if the step moves nothing: neighbours that share weights or outputs then
hand these on as well.

Axes: D dimensions, L levels, a free batch axis; `size` children. "Section" is that of docs/concepts/cost-model.md.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.dims import ALL, C, G, I, K, N, O, P, Q, R, S, W
from mohamjax.mapping.children import (
    Windows,
    exact_divide,
    group_labels,
    indices,
    mesh_shape,
    multicast_classes,
    product_over,
    quotient,
    sorted_groups,
    widest,
)
from mohamjax.runtime.platforms import short_scan
from mohamjax.runtime.struct import record


@record
class InputTraffic:
    """Input words that one level sends, in place of (words delivered) * (groups).

    Attributes:
        ingress: `[L, ...]` float, words that enter the network below the level.
        weighted: `[L, ...]` float, sum over those words of the number of children that each reaches.
        share: `[L, ...]` float, words that one child gets from the level.
        hops: `[L, ...]` float, sum over the words of the hops they take.
        link_transfers: `[L, ...]` float, words handed from child to child.
    """

    ingress: jax.Array
    weighted: jax.Array
    share: jax.Array
    hops: jax.Array
    link_transfers: jax.Array


@record
class MacTraffic:
    """Words of weights and outputs, in that order, that the innermost level sends to the MACs.

    Attributes:
        ingress: `[2, ...]` float, words that enter the network below the level.
        hops: `[2, ...]` float, sum over those words of the hops they take.
        link_transfers: `[2, ...]` float, words handed from MAC to MAC.
        again: `[...]` float, how often an output word comes back to the level after its first visit, on average.
    """

    ingress: jax.Array
    hops: jax.Array
    link_transfers: jax.Array
    again: jax.Array


class Children(NamedTuple):
    """How the children of every level are laid out, and what they share.

    `groups` and `hops` are those of the inputs. For the MACs they are stacked for weights and outputs, `[2, ...]`, and
    the other arrays have no L axis.
    """

    order: jax.Array  # [2, D, L, ...] i32, loop order along X and Y
    spatial: jax.Array  # [2, D, L, ...] float, factors along X and Y
    fanout: jax.Array  # [2, L, ...] float, children that the level has along X and Y
    axes: tuple[Windows, Windows]  # from `children.windows`, [L, ...]
    groups: jax.Array  # [L, ...] float, groups of children that share a word
    hops: jax.Array  # [L, ...] float, hops of one word for every group, summed


class MacSteps(NamedTuple):
    """Steps of the whole nest that deliver weights and outputs to the MACs, in that order."""

    relevant: jax.Array  # [2, ...] float, steps that move the data space
    irrelevant: jax.Array  # [2, ...] float, product of the bounds of the other loops
    repeats: jax.Array  # [2, ...] float, product of those among them that lie outside some relevant loop


def base_classes(spread, axes, size):
    """(members, groups) of each size of multicast group where no child is linked: `[classes, ...]` each."""
    most = int(size**0.5)
    members = jnp.arange(1, most + 1, dtype=spread.dtype).reshape((most,) + (1,) * (spread.ndim - 1))
    groups = multicast_classes(spread, axes, most)
    return jnp.broadcast_to(members * spread[K], groups.shape), groups


def ordered_share(members, words, children):
    """Words that one child gets: sum over classes of words * members / children, added in the order given.

    Timeloop divides each term in double precision and adds the terms up before it takes the whole part. A sum that
    should be whole can come out just below, so the order matters.
    """
    terms = exact_divide(words * members, children)
    total = jnp.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


def input_share(delivered, spread, axes, size):
    """Words of the inputs that one child gets from its parent, `[L, ...]`: those delivered, in exact arithmetic.

    With 64-bit types this follows Timeloop's own rounding where windows coincide (`ordered_share`), unless the tables
    have no room.

    Args:
        delivered: `[L, ...]` float, words delivered to one child.
        spread: `[D, L, ...]` float, children along each dimension.
        axes: From `children.windows`, `[L, ...]`.
        size: Static, children that the tables have room for.
    """
    exact, spread, axes = widest((delivered, spread, axes))
    if exact.dtype != jnp.float64 or size == 0:
        return delivered

    def added_up():
        members, groups = base_classes(spread, axes, size)
        children = product_over(spread)
        share = jnp.floor(ordered_share(members, exact * groups, children)).astype(delivered.dtype)
        return jnp.where(children <= size, share, delivered)

    several = jnp.any((axes[0].chains(2) > 0) | (axes[1].chains(2) > 0))
    return lax.cond(several, added_up, lambda: delivered)


def _steps(loops, h, w, rest):
    """What one step of each loop of the nest, innermost first, does at each level.

    Below level 0 every step brings one word.

    Returns:
        (steps, words that a step of the innermost loop brings). Steps is a dict of `[loops, L, ...]`: `bound`,
        `active`, `first`, `cost` (words that a child gets anew), `motion` (along the two sliding axes,
        `[loops, 2, L, ...]`), `slides` (no other axis has moved so far).
    """
    levels = h.shape[0]
    full = rest * h * w
    index = jnp.arange(levels).reshape((levels,) + (1,) * (h.ndim - 1))

    def loop(state, xs):
        (bound, shift, on), level = xs
        started, slides, first_cost, first_shift, moved = state
        active = (index <= level) & (bound > 1)
        first = active & ~started
        slides = slides & ~(active & (on == 2))
        vector = jnp.stack([jnp.broadcast_to(jnp.where(on == axis, shift, 0), full.shape) for axis in range(2)])
        motion = vector - moved
        sliding = jnp.where(on == 0, w * jnp.minimum(h, shift), h * jnp.minimum(w, shift))
        start_cost = jnp.where(on == 2, full, jnp.where(on == -1, 0, rest * sliding))
        same = slides & jnp.all(motion == first_shift, axis=0)
        first_cost = jnp.where(first, start_cost, first_cost)
        first_shift = jnp.where(first, vector, first_shift)
        out = {
            "bound": jnp.broadcast_to(bound, full.shape),
            "active": active,
            "first": first,
            "cost": jnp.where((first | same) & (index > 0), first_cost, full),
            "motion": motion,
            "slides": slides,
        }
        return (started | active, slides, first_cost, first_shift, jnp.where(active, moved + vector, moved)), out

    zero, no = jnp.zeros_like(full), jnp.zeros(full.shape, bool)
    start = (no, ~no, zero, jnp.stack([zero, zero]), jnp.stack([zero, zero]))
    flat = jax.tree.map(lambda x: jnp.moveaxis(x, 0, 1).reshape((-1, *x.shape[2:])), loops)
    (_, _, first_cost, _, _), steps = short_scan(loop, start, (flat, jnp.arange(levels * len(ALL)) // len(ALL)))
    return steps, jnp.where(index > 0, first_cost, full)


def _weights(steps, first_cost, full):
    """How often each kind of step occurs, `[loops, L, ...]`: in all, out of reach of links, and open to links.

    A step may use links if the step before it brought words of the same shape. Steps of the innermost loop follow the
    first delivery or a step of another loop; steps of the others follow one of the innermost.
    """
    bound = jnp.where(steps["active"], steps["bound"], 1)
    outside = jnp.concatenate([jnp.cumprod(bound[::-1], axis=0)[::-1][1:], jnp.ones_like(bound[:1])])
    weight = (bound - 1) * outside
    wrap = jnp.where(steps["first"], 0, weight)
    alike = steps["cost"] == first_cost
    after_alike = (first_cost == full) + jnp.sum(jnp.where(alike, wrap, 0), axis=0)
    after_other = (first_cost != full) + jnp.sum(jnp.where(alike, 0, wrap), axis=0)
    usable = steps["slides"] & (steps["cost"] > 0)
    linkable = jnp.where(usable, jnp.where(steps["first"], (bound - 1) * after_alike, jnp.where(alike, wrap, 0)), 0)
    closed = jnp.where(steps["first"], (bound - 1) * after_other, 0)
    return weight, closed, linkable


def _in_reach(steps, axes, used, groups):
    """Whether any two children may stand as far apart as the step moves, `[loops, L, ...]`."""
    near = jnp.any(steps["motion"] != 0, axis=1) | (groups < used)
    for a, axis in enumerate(axes):
        reach = (axis.out - 1) * axis.shift_out + (axis.tap - 1) * axis.shift_tap
        near = near & (jnp.abs(steps["motion"][:, a]) <= reach)
    return near & (used > 1)


def _offsets(child, order, spatial, axes):
    """Where children stand: (label along the axes that do not slide, offsets along the two that do)."""
    index = indices(child, order, spatial)
    spread = spatial[0] * spatial[1]
    label = jnp.zeros_like(index[0])
    for d in (G, N, C):
        label = label * spread[d] + index[d]
    offsets = [
        index[out] * axis.shift_out + index[tap] * axis.shift_tap
        for (out, tap), axis in zip(((P, R), (Q, S)), axes, strict=True)
    ]
    return label, offsets


def _beside(child, columns, used):
    """Each child's four neighbours on the mesh, `[4, size, ...]`: (their numbers, whether they are there)."""
    others = jnp.stack(jnp.broadcast_arrays(child + 1, child - 1, child + columns, child - columns))
    there = (others >= 0) & (others < used)
    same_row = quotient(others[:2], columns) == quotient(child, columns)
    return jnp.maximum(others, 0), jnp.concatenate([there[:2] & same_row, there[2:]])


def _neighbours(child, order, spatial, axes, columns, used):
    """For each child's four neighbours: (whether it exists and may hold the same inputs, its offset minus the child's).

    It may hold them if both have the same place along the axes that do not slide.
    """
    others, there = _beside(child, columns, used)
    own, far = (_offsets(x, order, spatial, axes) for x in (child, others))
    return there & (far[0] == own[0]), [b - a for a, b in zip(own[1], far[1], strict=True)]


def _run_lengths(ends, position):
    """Lengths of the runs that end where `ends` holds: distances from the end before. Meaningless elsewhere."""
    last = lax.cummax(jnp.where(ends, position, -1), axis=0)
    return position - jnp.concatenate([jnp.full_like(last[:1], -1), last[:-1]])


def _classes(ends, child, most):
    """Multicast classes of sorted groups: (members, groups) of the `most` smallest sizes, padded with 0 groups."""
    position = jnp.broadcast_to(child, ends.shape)
    sizes = jnp.sort(jnp.where(ends, _run_lengths(ends, position), jnp.inf), axis=0)
    last = jnp.concatenate([sizes[1:] != sizes[:-1], jnp.ones_like(ends[:1])]) & (sizes < jnp.inf)
    groups = jnp.where(last, _run_lengths(last, position), 0)
    members, groups = lax.sort((jnp.where(last, sizes, jnp.inf), groups), dimension=0, num_keys=1)
    return members[:most], groups[:most]


def _merged_share(members, groups, words, children):
    """`ordered_share` over unsorted classes `[entries, ...]`, after merging those of equal size and number."""
    there = words > 0
    key = jnp.where(there, members, jnp.inf)
    members, groups, words = lax.sort((key, groups, jnp.where(there, words, 0)), dimension=0, num_keys=2)
    there = members < jnp.inf
    members = jnp.where(there, members, 0)

    def add(state):
        i, total, held = state
        entry = [lax.dynamic_index_in_dim(x, i, keepdims=False) for x in (members, groups, words)]
        same = (entry[0] == held[0]) & (entry[1] == held[1])
        total = jnp.where(same, total, total + exact_divide(held[2] * held[0], children))
        return i + 1, total, [entry[0], entry[1], jnp.where(same, held[2] + entry[2], entry[2])]

    zero = jnp.zeros_like(words[0])
    count = jnp.max(jnp.sum(there, axis=0))
    _, total, held = lax.while_loop(lambda state: state[0] < count, add, (jnp.zeros_like(count), zero, [zero] * 3))
    return total + exact_divide(held[2] * held[0], children)


def link_traffic(loops, window, children: Children, delivered: jax.Array, size: int) -> InputTraffic:
    """Traffic of the inputs with link transfers (section 6).

    Args:
        loops: (bound, shift, axis) of each slot, `[D, L, ...]`.
        window: `[L, ...]` each, extents of a child's tile along the two sliding axes and the product of the others.
        children: of every level; those with equal tiles form a group.
        delivered: `[L, ...]` float, words delivered to one child; not read at level 0.
        size: Static, children that the tables have room for.

    Returns:
        `InputTraffic`; nan where links are possible and there are more than `size` children.
    """
    order, spatial, fanout, axes, groups, hops = children
    spread = spatial[0] * spatial[1]
    used = jnp.broadcast_to(product_over(spread), delivered.shape)
    full = window[0] * window[1] * window[2]
    steps, first_cost = _steps(loops, *window)
    weight, closed, linkable = _weights(steps, first_cost, full)
    linkable = jnp.where(_in_reach(steps, axes, used, groups), linkable, 0)
    # At level 0, one word per step.
    delivered = jnp.concatenate([jnp.prod(loops[0], axis=(0, 1))[None], delivered[1:]])
    members, classes = base_classes(spread, axes, size)

    def without():
        return InputTraffic(
            ingress=delivered * groups,
            weighted=delivered * used,
            share=ordered_share(members, delivered * classes, used),
            hops=delivered * hops,
            link_transfers=jnp.zeros_like(delivered),
        )

    def with_links():
        columns, rows = mesh_shape(spatial, fanout)
        child = jnp.arange(size, dtype=spread.dtype).reshape((size,) + (1,) * used.ndim)
        there, apart = _neighbours(child, order, spatial, axes, columns, used)
        label = group_labels(indices(child, order, spatial), spread, axes)[:, I]
        exists = child < used
        most = int((2 * size) ** 0.5) + 1

        def regroup(motion):
            """What the level still serves without the children that links reach."""
            linked = exists & jnp.any(there & (apart[0] == motion[0]) & (apart[1] == motion[1]), axis=0)
            ends, group_hops = sorted_groups(jnp.where(exists & ~linked, label, jnp.inf), child, columns, rows)
            members, classes = _classes(ends, child, most)
            return {
                "linked": jnp.sum(linked, axis=0, dtype=used.dtype),
                "groups": jnp.sum(ends, axis=0, dtype=used.dtype),
                "hops": jnp.sum(group_hops, axis=0),
                "members": members,
                "classes": classes,
            }

        def nothing(_):
            table = jnp.zeros((most, *used.shape), used.dtype)
            zero = jnp.zeros_like(used)
            return {"linked": zero, "groups": zero, "hops": zero, "members": table, "classes": table}

        def step(_, xs):
            motion, linkable = xs
            found = lax.cond(jnp.any(linkable > 0), regroup, nothing, motion)
            return None, {**found, "adopted": jnp.where(found["groups"] < groups, linkable, 0)}

        _, found = lax.scan(step, None, (steps["motion"], linkable))
        adopted = found["adopted"] > 0
        words = found["adopted"] * steps["cost"]
        rest = full + jnp.sum(jnp.where(adopted, closed, weight) * steps["cost"], axis=0)

        def joined(base, other):
            return jnp.concatenate([base, other.reshape((-1, *used.shape))])

        share = _merged_share(
            joined(members, found["members"]),
            joined(classes, found["classes"]),
            joined(rest * classes, words[:, None] * found["classes"]),
            used,
        )
        return InputTraffic(
            ingress=rest * groups + jnp.sum(words * found["groups"], axis=0),
            weighted=rest * used + jnp.sum(words * (used - found["linked"]), axis=0),
            share=share,
            hops=rest * hops + jnp.sum(words * found["hops"], axis=0),
            link_transfers=jnp.sum(words * found["linked"], axis=0),
        )

    traffic = lax.cond(jnp.any(linkable > 0), with_links, without)
    unknown = jnp.any(linkable > 0, axis=0) & (used > size)
    return jax.tree.map(lambda x: jnp.where(unknown, jnp.nan, x), traffic)


def mac_traffic(steps: MacSteps, macs: Children, size: int) -> MacTraffic:
    """Traffic of weights and outputs between the innermost level and the MACs with link transfers (section 6).

    A step that moves a data space brings words that no MAC had, so only the innermost loops that leave it in place can
    use links. All their steps are alike.

    Args:
        steps: of the whole nest.
        macs: the children of level 0.
        size: Static, MACs that the tables have room for.

    Returns:
        `MacTraffic`; nan where links are possible and there are more than `size` MACs.
    """
    relevant, irrelevant, repeats = steps
    order, spatial, fanout, axes, groups, hops = macs
    spread = spatial[0] * spatial[1]
    groups = jnp.broadcast_to(groups, hops.shape)
    used = jnp.broadcast_to(product_over(spread), hops.shape[1:])
    run = jnp.round(irrelevant / repeats)
    possible = (run > 1) & (groups < used)

    def nothing():
        zero = jnp.zeros_like(groups)
        return {"linked": zero, "groups": groups, "hops": zero}

    def regroup():
        """What the level still serves in those steps."""
        columns, rows = mesh_shape(spatial, fanout)
        child = jnp.arange(size, dtype=spread.dtype).reshape((size,) + (1,) * used.ndim)
        others, there = _beside(child, columns, used)

        def label(number):
            every = group_labels(indices(number, order, spatial), spread, axes)
            return jnp.stack([every[:, W], every[:, O]], axis=1)

        own = label(child)
        linked = [(label(other) == own) & at[:, None] for other, at in zip(others, there, strict=True)]
        exists = (child < used)[:, None]
        linked = exists & jnp.any(jnp.stack(linked), axis=0)
        ends, group_hops = sorted_groups(jnp.where(exists & ~linked, own, jnp.inf), child[:, None], columns, rows)
        return {
            "linked": jnp.sum(linked, axis=0, dtype=used.dtype),
            "groups": jnp.sum(ends, axis=0, dtype=used.dtype),
            "hops": jnp.sum(group_hops, axis=0),
        }

    found = lax.cond(jnp.any(possible), regroup, nothing)
    adopted = possible & (found["groups"] < groups)
    first = jnp.where(adopted, repeats, irrelevant)
    later = jnp.where(adopted, (run - 1) * repeats, 0)
    visits = first * groups + later * found["groups"]
    traffic = MacTraffic(
        ingress=relevant * visits,
        hops=relevant * (first * hops + later * found["hops"]),
        link_transfers=relevant * later * found["linked"],
        again=exact_divide(visits[1] - groups[1], groups[1]),
    )
    unknown = jnp.any(possible, axis=0) & (used > size)
    return jax.tree.map(lambda x: jnp.where(unknown, jnp.nan, x), traffic)
