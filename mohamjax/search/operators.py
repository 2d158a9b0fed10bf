"""The genetic operators of the co-optimiser (MOHaM, Section V-B and Figure 5), each a pure function on one design.

Axes: L layers (padded), S tiles, U unique layers, T templates, M mappings of a Pareto set. Every operator maps valid
designs to valid designs: the order stays topological with padded layers last, every layer stays on a chiplet whose
template runs it, its mapping index stays inside that Pareto set, and only fixed chiplets may be empty. An operator that
finds nothing to do returns the design unchanged. Keys are consumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from mohamjax.problem.resolved import FREE
from mohamjax.problem.space import Genetics
from mohamjax.runtime.struct import select
from mohamjax.schedule import Design


def runs_on(genetics: Genetics, template: jax.Array) -> jax.Array:
    """`[L, S]` bool, whether each tile's template (`[S]`, -1 where empty) runs each layer."""
    return jnp.where(template >= 0, genetics.able[:, jnp.maximum(template, 0)], False)


def pick(key: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A random true index of `mask` (`[n]` bool) and whether there is one."""
    draw = jax.random.uniform(key, mask.shape)
    return jnp.argmax(jnp.where(mask, draw, -1.0)).astype(jnp.int32), jnp.any(mask)


def _pick_rows(key: jax.Array, mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For every row of `mask` (`[L, S]` bool) a random true column `[L]` int32, and whether it has one, `[L]` bool.

    Loops over the columns, as sums along so short an axis are several times slower on a CPU.
    """
    total = jnp.sum(mask, axis=1, dtype=jnp.int32)
    draw = jax.random.uniform(key, total.shape)
    wanted = 1 + jnp.minimum((draw * total).astype(jnp.int32), total - 1)
    passed = column = jnp.zeros_like(total)
    for there in mask.T:
        passed += there
        column += passed < wanted
    return column, total > 0


def _layer(key: jax.Array, genetics: Genetics) -> jax.Array:
    """The number of a random layer."""
    return jax.random.randint(key, (), 0, genetics.layers)


def _used(design: Design, genetics: Genetics) -> jax.Array:
    """`[S]` bool, tiles on which at least one layer runs."""
    tiles = design.template.shape[0]
    owner = jnp.where(genetics.real, design.assignment, tiles)
    return jnp.zeros(tiles, bool).at[owner].set(True, mode="drop")


def drop_empty(design: Design, genetics: Genetics) -> Design:
    """The design without chiplets that run no layers, except for fixed ones."""
    used = _used(design, genetics) | (genetics.on_tile >= 0)
    return dataclasses.replace(design, template=jnp.where(used, design.template, -1))


def transformed(design: Design, genetics: Genetics, target: jax.Array) -> jax.Array:
    """`[L]` int32, each layer's mapping, transformed to the template `target` (`[L]`) where that differs."""
    source = design.template[design.assignment]
    moved = genetics.transform[genetics.unique, jnp.maximum(source, 0), design.mapping, jnp.maximum(target, 0)]
    return jnp.where(source == target, design.mapping, moved)


def positions(order: jax.Array) -> jax.Array:
    """`[L]` int32, the place of each layer in the order."""
    return jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0], dtype=order.dtype), unique_indices=True)


# ---------------------------------------------------------------- sampling


def sample(key: jax.Array, genetics: Genetics, tiles: int) -> Design:
    """A random individual: a random number of chiplets with random templates, each layer on a random one that runs it.

    Where some layers cannot run, the templates of the first free chiplets are changed in turn, each to the one that
    runs most of the layers that nothing runs yet. Chiplets that no layer chose are dropped.

    Args:
        key: typed key, consumed.
        genetics: the problem.
        tiles: S, static.
    """
    count_key, template_key, cover_key, tile_key, mapping_key, order_key = jax.random.split(key, 6)
    templates = genetics.count.shape[1]
    real, free = genetics.real, genetics.on_tile == FREE
    number = jnp.cumsum(free) - 1  # of each free tile among the free ones
    chips = jax.random.randint(count_key, (), 1, genetics.max_chiplets + 1) - jnp.sum(genetics.on_tile >= 0)
    drawn = jax.random.randint(template_key, (tiles,), 0, templates)
    template = jnp.where(free, jnp.where(number < chips, drawn, -1), genetics.on_tile)
    common = jnp.sum(genetics.able, axis=0)
    for k, subkey in enumerate(jax.random.split(cover_key, min(templates, tiles))):
        lonely = real & ~jnp.any(runs_on(genetics, template), axis=1)
        useful = jnp.sum(genetics.able & lonely[:, None], axis=0) * (len(real) + 1) + common
        choice, _ = pick(subkey, useful == jnp.max(useful))
        template = jnp.where(jnp.any(lonely) & free & (number == k), choice, template)
    stranded = real & ~jnp.any(runs_on(genetics, template), axis=1)
    too_many = jnp.sum(template >= 0) > genetics.max_chiplets
    template = jnp.where(too_many | jnp.any(stranded), genetics.cover, template)
    assignment, _ = _pick_rows(tile_key, runs_on(genetics, template))
    assignment = jnp.where(real, assignment, 0)
    size = genetics.count[genetics.unique, template[assignment]]
    mapping = (jax.random.uniform(mapping_key, size.shape) * size).astype(jnp.int32)
    mapping = jnp.where(real, jnp.clip(mapping, 0, jnp.maximum(size - 1, 0)), 0)
    order = genetics.orders[jax.random.randint(order_key, (), 0, genetics.orders.shape[0])]
    design = Design(order=order, assignment=assignment, mapping=mapping, template=template.astype(jnp.int32))
    return drop_empty(design, genetics)


def conform(design: Design, genetics: Genetics) -> Design:
    """The design changed to keep the demands that single operators may break: pinned layers and homogeneous packages.

    Layers go to the tile that they are pinned to. Where packages must be homogeneous, all chiplets take the template of
    the first one whose template runs every layer. Mappings are transformed. A design that keeps both demands is not
    changed; the operators themselves keep fixed tiles and the largest number of chiplets.

    Args:
        design: a valid individual.
        genetics: the problem; every layer that is pinned to a tile runs on the template that stands there.
    """
    standing = design.template >= 0
    runs_all = jnp.all(genetics.able | ~genetics.real[:, None], axis=0)
    leads = standing & runs_all[jnp.maximum(design.template, 0)]
    leader = jnp.where(jnp.any(leads), design.template[jnp.argmax(leads)], genetics.homogeneous)
    uniform = jnp.where(standing, leader, -1)
    template = jnp.where((genetics.homogeneous >= 0) & (genetics.on_tile < 0), uniform, design.template)
    assignment = jnp.where(genetics.pin >= 0, genetics.pin, design.assignment)
    mapping = transformed(design, genetics, template[assignment])
    moved = dataclasses.replace(design, assignment=assignment, mapping=mapping, template=template)
    return drop_empty(moved, genetics)


def repaired(key: jax.Array, design: Design, fallback: Design, genetics: Genetics) -> Design:
    """A valid design from arbitrary genes in their ranges, for variation that keeps no invariants.

    Layers on empty tiles or on chiplets that cannot run them go to a random chiplet that can; mapping indices wrap
    around in their Pareto set; fixed tiles get their template back. The order must be topological already.

    Args:
        key: typed key, consumed.
        design: the genes.
        fallback: a valid design, returned where no chiplet runs some layer or there are too many chiplets.
        genetics: the problem.
    """
    real = genetics.real
    template = jnp.where(genetics.on_tile == FREE, design.template, genetics.on_tile)
    runs = runs_on(genetics, template)
    home = jnp.take_along_axis(runs, design.assignment[:, None], axis=1)[:, 0]
    refuge, found = _pick_rows(key, runs)
    assignment = jnp.where(real, jnp.where(home, design.assignment, refuge), 0)
    size = genetics.count[genetics.unique, jnp.maximum(template[assignment], 0)]
    mapping = jnp.where(real, design.mapping % jnp.maximum(size, 1), 0)
    mended = dataclasses.replace(design, assignment=assignment, mapping=mapping, template=template)
    mended = drop_empty(mended, genetics)
    few = jnp.sum(mended.template >= 0) <= genetics.max_chiplets
    return select(jnp.all(home | found | ~real) & few, mended, fallback)


# ---------------------------------------------------------------- crossovers


def spliced(first: jax.Array, second: jax.Array, cut: jax.Array) -> jax.Array:
    """`[L]` int32, the first `cut` layers of the first order, then all others in the order of the second."""
    late = positions(first)[second] >= cut
    place = jnp.where(late, cut + jnp.cumsum(late) - 1, first.shape[0])
    return first.at[place].set(second, mode="drop")


def mutually(operator: Callable[..., Design], a: Design, b: Design, *each: jax.Array) -> tuple[Design, Design]:
    """`operator(own, other, *each)` for (a, b) and for (b, a), batched so that it is compiled once.

    Args:
        operator: makes one child from two parents.
        a: a parent.
        b: the other parent.
        each: arrays with a leading axis of 2, one row per child.
    """
    own = jax.tree.map(lambda x, y: jnp.stack([x, y]), a, b)
    other = jax.tree.map(lambda leaf: leaf[::-1], own)
    children = jax.vmap(operator)(own, other, *each)
    first, second = (jax.tree.map(lambda leaf, i=i: leaf[i], children) for i in range(2))
    return first, second


def scheduling_crossover(key: jax.Array, a: Design, b: Design, genetics: Genetics) -> tuple[Design, Design]:
    """Splices the topological orders of the parents at one point (Figure 5a)."""
    cut = jax.random.randint(key, (), 1, jnp.maximum(genetics.layers, 2))
    return mutually(lambda own, other: dataclasses.replace(own, order=spliced(own.order, other.order, cut)), a, b)


def mapping_crossover(key: jax.Array, a: Design, b: Design, genetics: Genetics) -> tuple[Design, Design]:
    """Takes the mappings before a point of a parent's order from that parent, the rest from the other (Figure 5d).

    Where the parents run a layer on different templates, its mapping is transformed.
    """
    cut = jax.random.randint(key, (), 1, jnp.maximum(genetics.layers, 2))

    def child(own: Design, other: Design) -> Design:
        foreign = transformed(other, genetics, own.template[own.assignment])
        return dataclasses.replace(own, mapping=jnp.where(positions(own.order) < cut, own.mapping, foreign))

    return mutually(child, a, b)


def _graft(key: jax.Array, own: Design, other: Design, tile: jax.Array, genetics: Genetics) -> Design:
    """`own` with the chiplet that `other` has on `tile`, and with the layers that `other` runs there.

    Layers that `own` had on the tile stay there with transformed mappings. Those that the new template cannot run move
    to another chiplet; where no chiplet can run one of them, `own` is returned.
    """
    real = genetics.real
    template = own.template.at[tile].set(other.template[tile])
    brought = real & (other.assignment == tile)
    runs = runs_on(genetics, template)
    homeless = real & (own.assignment == tile) & ~brought & ~runs[:, tile]
    refuge, found = _pick_rows(key, runs)
    assignment = jnp.where(brought, tile, jnp.where(homeless, refuge, own.assignment))
    mapping = jnp.where(brought, other.mapping, transformed(own, genetics, template[assignment]))
    possible = jnp.all(found | ~homeless)
    grafted = dataclasses.replace(own, assignment=assignment, mapping=jnp.where(real, mapping, 0), template=template)
    return select(possible, drop_empty(grafted, genetics), own)


def sa_crossover(key: jax.Array, a: Design, b: Design, genetics: Genetics) -> tuple[Design, Design]:
    """Swaps the chiplet on a random tile between the parents (Figure 5e): each child gets the other's, with its layers.

    Layers that a child had on the tile stay there, with transformed mappings. That the other parent's layers come with
    the chiplet, the text of Section V-B says only of one that a single parent has; the authors' released code moves
    them in both cases (its transformation of the layers that stay is missing).

    Where only one parent has a chiplet there, it is added to the other; the second child is then a copy of the
    parent that had it, with one mapping mutated. No chiplet is added beyond the largest number of chiplets: that child,
    too, is then a copy of its parent with one mapping mutated.
    """
    tile_key, graft_key, copy_key = jax.random.split(key, 3)
    tile, _ = pick(tile_key, (a.template >= 0) | (b.template >= 0))

    def child(own: Design, other: Design, graft: jax.Array, copy: jax.Array) -> Design:
        standing = own.template >= 0
        room = standing[tile] | (jnp.sum(standing) < genetics.max_chiplets)
        grafted = _graft(graft, own, other, tile, genetics)
        return select((other.template[tile] >= 0) & room, grafted, mapping_mutation(copy, own, genetics))

    return mutually(child, a, b, jax.random.split(graft_key), jax.random.split(copy_key))


# ---------------------------------------------------------------- mutations of the software genome


def scheduling_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Swaps a random layer with a later one, if no dependency is between them (Figure 5b).

    l_i is a random layer, l_j the first in the order that depends on it, and l_k a random one between them. l_i and l_k
    are swapped if all predecessors of l_k come before l_i.
    """
    i_key, k_key = jax.random.split(key)
    position = positions(design.order)
    layer = _layer(i_key, genetics)
    start = position[layer]
    successors = genetics.successors[layer]
    stop = jnp.min(jnp.where(successors >= 0, position[successors], genetics.layers), initial=genetics.layers)
    there = jax.random.randint(k_key, (), start + 1, jnp.maximum(stop, start + 2))
    other = design.order[jnp.minimum(there, design.order.shape[0] - 1)]
    needs = genetics.predecessors[other]
    free = jnp.all((needs < 0) | (position[needs] < start))
    possible = free & (there < stop)
    swapped = design.order.at[start].set(other).at[there].set(layer)
    return dataclasses.replace(design, order=jnp.where(possible, swapped, design.order))


def mapping_mutation(key: jax.Array, design: Design, genetics: Genetics, chosen: jax.Array | None = None) -> Design:
    """Gives layers another mapping of their Pareto set (Figure 5c).

    Args:
        key: typed key, consumed.
        design: the individual.
        genetics: the problem.
        chosen: `[L]` bool, the layers to mutate; default one random layer.
    """
    layer_key, value_key = jax.random.split(key)
    if chosen is None:
        chosen = jnp.arange(design.order.shape[0]) == _layer(layer_key, genetics)
    size = genetics.count[genetics.unique, jnp.maximum(design.template[design.assignment], 0)]
    shift = 1 + (jax.random.uniform(value_key, size.shape) * (size - 1)).astype(jnp.int32)
    shift = jnp.clip(shift, 1, jnp.maximum(size - 1, 1))
    drawn = (design.mapping + shift) % jnp.maximum(size, 1)
    return dataclasses.replace(design, mapping=jnp.where(chosen & genetics.real, drawn, design.mapping))


def assignment_mutation(key: jax.Array, design: Design, genetics: Genetics, chosen: jax.Array | None = None) -> Design:
    """Moves layers to another chiplet that runs them, transforming their mappings (Figure 5j).

    Args:
        key: typed key, consumed.
        design: the individual.
        genetics: the problem.
        chosen: `[L]` bool, the layers to move; default one random layer.
    """
    layer_key, tile_key = jax.random.split(key)
    layers, tiles = design.order.shape[0], design.template.shape[0]
    if chosen is None:
        chosen = jnp.arange(layers) == _layer(layer_key, genetics)
    elsewhere = runs_on(genetics, design.template) & (jnp.arange(tiles) != design.assignment[:, None])
    tile, found = _pick_rows(tile_key, elsewhere)
    moves = chosen & found & genetics.real
    assignment = jnp.where(moves, tile, design.assignment)
    mapping = transformed(design, genetics, design.template[assignment])
    return drop_empty(dataclasses.replace(design, assignment=assignment, mapping=mapping), genetics)


def opening_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Moves one random layer to a new chiplet of a random template that runs it (ours; off in the `paper` preset)."""
    layer_key, template_key = jax.random.split(key)
    layer = _layer(layer_key, genetics)
    tile, room = _vacant(design, genetics)
    template, _ = pick(template_key, genetics.able[layer])
    opened = design.template.at[tile].set(template)
    assignment = design.assignment.at[layer].set(tile)
    moved = dataclasses.replace(design, mapping=transformed(design, genetics, opened[assignment]))
    moved = dataclasses.replace(moved, assignment=assignment, template=opened)
    return select(room, drop_empty(moved, genetics), design)


# ---------------------------------------------------------------- mutations of the hardware genome


def _vacant(design: Design, genetics: Genetics) -> tuple[jax.Array, jax.Array]:
    """The first empty free tile, and whether a chiplet may be added there."""
    standing = design.template >= 0
    empty = ~standing & (genetics.on_tile == FREE)
    return jnp.argmax(empty).astype(jnp.int32), jnp.any(empty) & (jnp.sum(standing) < genetics.max_chiplets)


def movable_chiplets(design: Design, genetics: Genetics) -> jax.Array:
    """`[S]` bool, chiplets that the search may move or change."""
    return (design.template >= 0) & (genetics.on_tile == FREE)


def _half(key: jax.Array, mask: jax.Array) -> jax.Array:
    """`[L]` bool, exactly floor(n / 2) of the n true entries of `mask` (`[L]` bool), chosen at random.

    Each entry has a distinct random key. Bisection, which needs no sort, finds the threshold below which so many are.
    """
    layers = mask.shape[0]
    low_bits = max(layers - 1, 1).bit_length()
    keys = jax.random.bits(key, (layers,), jnp.uint32) >> (32 - (30 - low_bits))
    keys = (keys << low_bits) | jnp.arange(layers, dtype=jnp.uint32)
    wanted = jnp.sum(mask) // 2

    def narrow(bit: jax.Array, threshold: jax.Array) -> jax.Array:
        trial = threshold | (jnp.uint32(1) << (jnp.uint32(29) - bit.astype(jnp.uint32)))
        return jnp.where(jnp.sum(mask & (keys < trial)) <= wanted, trial, threshold)

    threshold = jax.lax.fori_loop(0, 30, narrow, jnp.uint32(0))
    return mask & (keys < threshold)


def splitting_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Adds a chiplet of the same template and gives it half of the layers of a random chiplet (Figure 5f).

    Does nothing where the package is full or no chiplet has two layers.
    """
    tile_key, half_key = jax.random.split(key)
    tiles = design.template.shape[0]
    real = genetics.real
    owner = jnp.where(real, design.assignment, tiles)
    load = jnp.zeros(tiles, jnp.int32).at[owner].add(1, mode="drop")
    source, loaded = pick(tile_key, load > 1)
    target, room = _vacant(design, genetics)
    moved = _half(half_key, real & (design.assignment == source))
    split = dataclasses.replace(
        design,
        assignment=jnp.where(moved, target, design.assignment),
        template=design.template.at[target].set(design.template[source]),
    )
    return select(loaded & room, split, design)


def merging_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Moves all layers of one random chiplet to another, transforming their mappings (Figure 5g).

    Does nothing where the other chiplet cannot run all of them, or there is only one chiplet.
    """
    first_key, second_key = jax.random.split(key)
    occupied = design.template >= 0
    tiles = jnp.arange(occupied.shape[0])
    keeper, _ = pick(first_key, occupied)
    giver, pair = pick(second_key, occupied & (tiles != keeper))
    moved = genetics.real & (design.assignment == giver)
    able = jnp.all(~moved | genetics.able[:, jnp.maximum(design.template[keeper], 0)])
    assignment = jnp.where(moved, keeper, design.assignment)
    merged = dataclasses.replace(
        design,
        assignment=assignment,
        mapping=transformed(design, genetics, design.template[assignment]),
    )
    return select(pair & able, drop_empty(merged, genetics), design)


def position_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Swaps the tiles of two random chiplets that are not fixed (Figure 5h)."""
    first_key, second_key = jax.random.split(key)
    movable = movable_chiplets(design, genetics)
    tiles = jnp.arange(movable.shape[0])
    one, _ = pick(first_key, movable)
    two, pair = pick(second_key, movable & (tiles != one))
    seat = jnp.where(tiles == one, two, jnp.where(tiles == two, one, tiles)).astype(jnp.int32)
    assignment = jnp.where(genetics.real, seat[design.assignment], design.assignment)
    swapped = dataclasses.replace(design, assignment=assignment, template=design.template[seat])
    return select(pair, swapped, design)


def resizing_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Gives all layers of a random chiplet the mappings of one random rule (ours; off in the `paper` preset).

    A chiplet is as large as its largest mapping: to make one smaller, all its layers must change together.
    """
    tile_key, rule_key = jax.random.split(key)
    tile, _ = pick(tile_key, design.template >= 0)
    rule = jax.random.randint(rule_key, (), 0, genetics.rules.shape[0])
    there = genetics.real & (design.assignment == tile)
    chosen = genetics.rules[rule][genetics.unique, jnp.maximum(design.template[tile], 0)]
    return dataclasses.replace(design, mapping=jnp.where(there, chosen, design.mapping))


def template_mutation(key: jax.Array, design: Design, genetics: Genetics) -> Design:
    """Gives a random chiplet another template that runs all its layers, transforming their mappings (Figure 5i)."""
    tile_key, template_key = jax.random.split(key)
    tile, any_movable = pick(tile_key, movable_chiplets(design, genetics))
    there = genetics.real & (design.assignment == tile)
    allowed = any_movable & jnp.all(genetics.able | ~there[:, None], axis=0)
    allowed &= jnp.arange(allowed.shape[0]) != design.template[tile]
    choice, found = pick(template_key, allowed)
    template = design.template.at[tile].set(choice)
    target = jnp.where(there, choice, design.template[design.assignment])
    changed = dataclasses.replace(design, template=template, mapping=transformed(design, genetics, target))
    return select(found, changed, design)
