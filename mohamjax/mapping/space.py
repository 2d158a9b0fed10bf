"""The map space: which loop nests a template allows for a layer, as genes that cannot leave it.

The chromosome deals the *prime factors* of the loop bounds to slots: slot `axis * L + level` holds temporal factors
(axis 0) or spatial factors along X (1) or Y (2) of a level. For any genes, the product of a dimension's
factors is its bound, so that variation needs no repair of products, and a move is one integer. Equal primes of one
dimension are interchangeable; `decode` gives the same `Mapping` for all their permutations.

Constraints mean "at most, and dividing the bound" (docs/concepts/hardware.md): a factor is a product of some of the
bound's primes and at most the limit of its slot. Every level also keeps its spatial factors within its own fanout.

A mapping may cover a larger bound than the layer has (`mapping.padding`): a gene per dimension selects one of a few.
`covering` returns the space of mappings that cover one choice of bounds, on which functions of primes work.

Axes: A bounds that a dimension may have, F prime factors of a layer's bounds (padded with 1), S = 3 L slots, L levels
(innermost first, padded outermost), D loop dimensions, V data spaces. Functions are for one mapping; callers vmap and
jit.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.dims import ALL, DATA_SPACES, DIMS, RELEVANCE, tensor_words
from mohamjax.errors import InputError
from mohamjax.hardware.arrays import Machine
from mohamjax.mapping.nest import Array, LayerArrays, Mapping, covered
from mohamjax.runtime.blocks import short_argsort
from mohamjax.runtime.draws import Draws
from mohamjax.runtime.programs import jit_o1
from mohamjax.runtime.struct import record, take

if TYPE_CHECKING:
    from mohamjax.hardware import Template
    from mohamjax.workload import WorkloadShape

UNLIMITED = 2**30
"""A limit at or above this does not limit."""


@record
class Constraints:
    """What a template allows a mapping of one layer.

    Attributes:
        temporal_max: `[L, D]` int32, largest temporal factor; 1 = not allowed, `UNLIMITED` = no limit.
        spatial_max: `[2, L, D]` int32, largest factor along X and Y.
        order: `[L, D]` int32, the loop order that the level prescribes, innermost first; -1 where the position is
            free. Free positions lie outside the prescribed ones.
        keep: `[L, V]` bool, data spaces stored at the level.
        may_bypass: `[L, V]` bool, those of them that a mapping may bypass; None if no template of a call leaves a
            bypass open, in which case mappings have no gene for it.
    """

    temporal_max: Array
    spatial_max: Array
    order: Array
    keep: Array
    may_bypass: Array | None = None


@record
class MapSpace:
    """All that sampling and variation need to know about one (layer, template) problem.

    Attributes:
        layer: the layer.
        constraints: the template's constraints.
        bounds: `[A, D]` int32, bounds that a mapping may cover, the layer's own first and again in padding.
        choices: `[D]` int32, number of distinct bounds of each dimension, at least 1.
        prime: `[A, F]` int32, prime factors of these bounds, dimension after dimension, ascending within each; 1 where
            padded. `[F]` in a space of one choice of bounds (from `covering`, or where there is no other choice), which
            functions without genes among their arguments expect.
        dim: `[F]` int32, dimension that each belongs to; 0 at the end, where padded.
        group: int32, shaped like `prime`, equal for equal primes of one dimension, ascending along F.
        limit: `[S, D]` int32, largest factor of each slot.
        fanout: `[S]` float, largest product of the slot's factors over the dimensions; inf for temporal slots.
        capacity: `[L]` float, words; inf where unlimited.
        outermost: `[]` int32, the off-chip level; as a slot, its temporal loops.
    """

    layer: LayerArrays
    constraints: Constraints
    bounds: Array
    choices: Array
    prime: Array
    dim: Array
    group: Array
    limit: Array
    fanout: Array
    capacity: Array
    outermost: Array


@record
class MappingGenes:
    """The chromosome of a mapping.

    Attributes:
        cover: `[D]` int32, which of its bounds each dimension covers, below `MapSpace.choices`; 0 is the layer's own.
        slot: `[F]` int32, slot of each prime factor; the outermost temporal slot where padded.
        order: `[L, D]` int32, temporal loop order per level, innermost first.
        spatial_order: `[2, L, D]` int32, order of the X and of the Y loops.
        keep: `[L, V]` bool, data spaces stored at each level; None where templates leave no bypass open.
    """

    cover: Array
    slot: Array
    order: Array
    spatial_order: Array
    keep: Array | None = None


def prime_factors(n: int) -> list[int]:
    """Prime factors of n >= 1, ascending, with multiplicity."""
    out = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            out.append(p)
            n //= p
        p += 1
    return [*out, n] if n > 1 else out


def layer_arrays(shape: WorkloadShape) -> LayerArrays:
    """A workload shape as NumPy arrays: bounds `[8]` in the order of `DIMS`, stride and dilation `[2]`, all int32."""
    return LayerArrays(
        bounds=np.asarray(shape.bounds, np.int32),
        stride=np.asarray(shape.stride, np.int32),
        dilation=np.asarray(shape.dilation, np.int32),
    )


def stacked_layers(shapes: Iterable[WorkloadShape]) -> LayerArrays:
    """Workload shapes as numpy arrays with a leading axis `[U]`."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *map(layer_arrays, shapes))


def constraints(
    template: Template, layer_type: str, shape: WorkloadShape, levels: int, *, bypasses: bool | None = None
) -> Constraints:
    """Constraints of a template for a layer type, padded to `levels`; numpy arrays.

    Args:
        template: the template.
        layer_type: one of `workload.LAYER_TYPES`.
        shape: the layer's loop bounds.
        levels: L, at least the template's number of levels.
        bypasses: whether `may_bypass` is given; by default if the template leaves a bypass open. Spaces that are
            stacked must agree.

    Raises:
        InputError: the template does not run the type.
    """
    rules = template.rule(layer_type)
    if len(rules) > levels:
        raise ValueError(f"levels is {levels}, but template {template.name} has {len(rules)}")
    temporal = np.ones((levels, 8), np.int32)
    spatial = np.ones((2, levels, 8), np.int32)
    order = np.full((levels, 8), -1, np.int32)
    keep, free = np.zeros((2, levels, len(DATA_SPACES)), bool)
    for i, (rule, level) in enumerate(zip(rules, template.levels, strict=True)):
        for row, limits in (
            (temporal[i], rule.temporal),
            (spatial[0, i], rule.spatial_x),
            (spatial[1, i], rule.spatial_y),
        ):
            for letter, most in limits.items():
                row[DIMS.index(letter)] = UNLIMITED if most is None else min(most, UNLIMITED)
        for position, letter in enumerate(rule.order):
            order[i, position] = DIMS.index(letter)
        keep[i], free[i] = level.keep, level.may_bypass
    there = template.bypasses if bypasses is None else bypasses
    return Constraints(
        temporal_max=temporal, spatial_max=spatial, order=order, keep=keep, may_bypass=free if there else None
    )


def map_space(
    shape: WorkloadShape,
    limits: Constraints,
    machine: Machine,
    primes: int,
    bounds: Sequence[Sequence[int]] | None = None,
    alternatives: int = 1,
) -> MapSpace:
    """The space of one problem, as numpy arrays.

    Args:
        shape: the layer's loop bounds.
        limits: `constraints(...)` of the template for this layer.
        machine: the template at its maximum sizes, padded to the same L.
        primes: F, at least the sum over dimensions of the most prime factors that one of its bounds has.
        bounds: per dimension those that a mapping may cover (`padding.padded_bounds`); default the layer's alone.
        alternatives: A, at least the most bounds of any dimension; 1 makes a space of one choice.
    """
    levels = limits.temporal_max.shape[0]
    bounds = [[bound] for bound in shape.bounds] if bounds is None else bounds
    lists = [[prime_factors(bound) for bound in row] for row in bounds]
    room = [max(map(len, row)) for row in lists]
    if sum(room) > primes:
        raise ValueError(f"primes is {primes}, but the bounds {bounds} have {sum(room)} prime factors")
    prime, group = np.ones((alternatives, primes), np.int32), np.zeros((alternatives, primes), np.int32)
    dim, covers = np.zeros(primes, np.int32), np.empty((alternatives, len(bounds)), np.int32)
    for a in range(alternatives):
        first = 0
        for d, row in enumerate(lists):
            which = a if a < len(row) else 0
            covers[a, d] = bounds[d][which]
            prime[a, first : first + len(row[which])] = row[which]
            dim[first : first + room[d]] = d
            first += room[d]
        # A class is numbered by its first place, which keeps dimensions that take other rows apart.
        pairs = list(zip(np.append(dim[:first], -np.ones(primes - first)), prime[a], strict=True))
        group[a] = [pairs.index(pair) for pair in pairs]
    if alternatives == 1:
        prime, group = prime[0], group[0]
    limit = np.concatenate([limits.temporal_max[None], limits.spatial_max]).reshape(3 * levels, 8)
    fanout = np.asarray(machine.fanout)
    return MapSpace(
        layer=layer_arrays(shape),
        constraints=limits,
        bounds=covers,
        choices=np.asarray([len(row) for row in bounds], np.int32),
        prime=prime,
        dim=dim,
        group=group,
        limit=np.where(limit >= UNLIMITED, covers.max(axis=0), limit).astype(np.int32),
        fanout=np.concatenate([np.full(levels, np.inf, fanout.dtype), fanout[:, 0], fanout[:, 1]]),
        capacity=np.asarray(machine.capacity),
        outermost=np.asarray(np.flatnonzero(np.asarray(machine.level_mask))[-1], np.int32),
    )


def stack_spaces(spaces: Sequence[MapSpace]) -> MapSpace:
    """Stacks spaces of equal padding along a leading axis `[I]`; numpy arrays."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *spaces)


def covering(cover: Array, space: MapSpace) -> MapSpace:
    """The space of the mappings that cover given bounds: `prime` and `group` are `[F]`.

    Args:
        cover: `[D]` int32, see `MappingGenes`.
        space: the problem.
    """
    if space.prime.ndim == 1:
        return space
    prime, group = space.prime[0], space.group[0]
    # Select instead of gathering: there are few alternatives, and a gather per individual takes longer.
    own = jnp.sum(jnp.where(space.dim[:, None] == jnp.arange(len(ALL)), cover, 0), axis=-1)
    for a in range(1, len(space.prime)):
        prime, group = (jnp.where(own == a, x[a], y) for x, y in ((space.prime, prime), (space.group, group)))
    return dataclasses.replace(space, prime=prime, group=group)


def keeping(keep: Array | None, space: MapSpace) -> MapSpace:
    """The space of the mappings that store given data spaces `[L, V]`; the same space if None."""
    if keep is None:
        return space
    return dataclasses.replace(space, constraints=dataclasses.replace(space.constraints, keep=keep))


def own_space(genes: MappingGenes, space: MapSpace) -> MapSpace:
    """The space of the mappings that cover the bounds and store the data spaces of these genes."""
    return keeping(genes.keep, covering(genes.cover, space))


def random_keep(key: Array, space: MapSpace) -> Array | None:
    """Data spaces to store, `[L, V]`: by a fair coin all of the template's, or each optional one by its own coin.

    None where mappings have no gene for it. The key is consumed.
    """
    free = space.constraints.may_bypass
    if free is None:
        return None
    coin_key, each_key = jax.random.split(key)
    drop = jax.random.bernoulli(each_key, shape=jnp.shape(free)) & jax.random.bernoulli(coin_key)
    return jnp.asarray(space.constraints.keep) & ~(drop & free)


def slot_level(slot: Array, space: MapSpace) -> Array:
    """Level of a slot."""
    return slot % space.capacity.shape[0]


def slot_factors(slot: Array, space: MapSpace) -> Array:
    """Factors of every slot and dimension, `[S, D]` int32."""
    at = slot[:, None] == jnp.arange(space.limit.shape[0])  # [F, S]
    of = space.dim[:, None] == jnp.arange(space.limit.shape[1])  # [F, D]
    # The product runs over the first axis, so that a processor handles rows of slots and dimensions at once.
    prime = jnp.where(at[:, :, None] & of[:, None], space.prime[:, None, None], 1)
    return jnp.prod(prime, axis=0, dtype=jnp.int32)


def extents(slot: Array, space: MapSpace) -> Array:
    """Loop extents inside each level, its own loops included: `[L, D]` in the float dtype of the capacities."""
    inside = slot_level(slot, space) <= jnp.arange(space.capacity.shape[0])[:, None]  # [L, F]
    of = space.dim == jnp.arange(space.limit.shape[1])[:, None]
    prime = space.prime.astype(space.capacity.dtype)
    return jnp.prod(jnp.where(inside[:, None] & of, prime, 1), axis=-1)


def tile_words(extent: Array, space: MapSpace) -> Array:
    """Words of each data space's tile (docs/concepts/cost-model.md, section 1), kept or not.

    Args:
        extent: `[..., D]` float, loop extents.
        space: the problem; its layer gives strides and dilations.

    Returns:
        `[..., V]` float.
    """
    stride, dilation = (step.astype(extent.dtype) for step in (space.layer.stride, space.layer.dilation))
    return jnp.stack(tensor_words([extent[..., d] for d in ALL], stride, dilation), axis=-1)


def kept_words(extent: Array, space: MapSpace) -> Array:
    """Words of all tiles that a level keeps: `[..., L]` float from extents `[..., L, D]`."""
    return jnp.sum(jnp.where(space.constraints.keep, tile_words(extent, space), 0), axis=-1)


def overflows(extent: Array, space: MapSpace) -> Array:
    """Levels whose kept tiles exceed the capacity: `[..., L]` bool from extents `[..., L, D]`."""
    return kept_words(extent, space) > space.capacity


@record
class Nest:
    """Genes while they are changed, with the arrays that the checks of a move need.

    Attributes:
        slot: `[F]` int32, see `MappingGenes`.
        factors: `[S, D]` int32, `slot_factors` of these slots.
        extents: `[L, D]` float, `extents` of these slots.
    """

    slot: Array
    factors: Array
    extents: Array


def nest(slot: Array, space: MapSpace) -> Nest:
    """The nest that slots describe; its extents come from its factors, which is faster than `extents`."""
    factors, levels = slot_factors(slot, space), space.capacity.shape[0]
    own = jnp.prod(factors.astype(space.capacity.dtype).reshape(3, levels, -1), axis=0)
    return Nest(slot=slot, factors=factors, extents=jnp.cumprod(own, axis=0))


class _Prime(NamedTuple):
    """One prime factor of a nest.

    It is found by sums over masks: for many mappings side by side, a gather of one number takes a compiler several
    times as much code.
    """

    here: jax.Array  # [F] bool, its place in the chromosome
    value: jax.Array  # [] int32
    mine: jax.Array  # [D] bool, its dimension
    slot: jax.Array  # [] int32


def _prime(state: Nest, index: Array, space: MapSpace) -> _Prime:
    """The prime at a place."""
    here = jnp.arange(state.slot.shape[0]) == index
    lists = space.prime, space.dim, state.slot
    value, dim, slot = (jnp.sum(jnp.where(here, of, 0), dtype=jnp.int32) for of in lists)
    return _Prime(here, value, jnp.arange(state.factors.shape[1]) == dim, slot)


def room(state: Nest, index: Array, space: MapSpace) -> Array:
    """Slots, other than its own, whose limit and fanout have room for one prime: `[S]` bool."""
    prime = _prime(state, index, space)
    p = prime.value
    # p is in another slot, so the product with it still divides the bound and fits int32; products that are masked may
    # wrap. The product over dimensions may not fit, so it is computed in float.
    within = jnp.all(jnp.where(prime.mine, state.factors * p, 0) <= space.limit, axis=-1)
    product = jnp.prod(state.factors.astype(space.fanout.dtype), axis=-1) * p.astype(space.fanout.dtype)
    other = jnp.arange(space.limit.shape[0]) != prime.slot
    return within & (product <= space.fanout) & other & (p > 1)


def _shifted(state: Nest, prime: _Prime, target: Array, space: MapSpace) -> Array:
    """Extents `[..., L, D]` after one prime has moved to `target`, which may have leading axes."""
    p = prime.value.astype(state.extents.dtype)
    level = jnp.arange(state.extents.shape[0])
    source = slot_level(prime.slot, space)
    target = slot_level(jnp.asarray(target), space)[..., None]
    grows = (level >= target) & (level < source)
    shrinks = (level >= source) & (level < target)
    # Extents that shrink are products of primes with p among them, so the quotient is whole; rounding restores that
    # where a compiler multiplies by 1/p instead (21.000002 was seen for 63 / 3).
    grown = jnp.where(prime.mine, state.extents * jnp.where(grows, p, 1)[..., None], state.extents)
    return jnp.where(prime.mine, jnp.round(grown / jnp.where(shrinks, p, 1)[..., None]), grown)


def move(state: Nest, index: Array, target: Array, allow: Array, space: MapSpace) -> Nest:
    """Moves one prime to a slot if `allow` and if no buffer then overflows; the caller checks limits and fanouts.

    Args:
        state: the nest before.
        index: `[]` int32, the prime.
        target: `[]` int32, a slot with `room` for it.
        allow: `[]` bool.
        space: the problem.

    Returns:
        The nest after, or as before where the move is refused.
    """
    prime = _prime(state, index, space)
    shifted = _shifted(state, prime, target, space)
    return _moved(state, prime, target, allow & ~jnp.any(overflows(shifted, space)), shifted)


def _moved(state: Nest, prime: _Prime, target: Array, allow: Array, shifted: Array) -> Nest:
    """The nest with one prime at `target` if `allow`; `shifted` are the extents after the move."""
    slots, column = jnp.arange(state.factors.shape[0])[:, None], prime.mine & allow
    left = (slots == prime.slot) & column
    remains = jnp.sum(jnp.where(left, state.factors, 0), dtype=jnp.int32) // prime.value
    factors = jnp.where(left, remains, state.factors)
    return Nest(  # products that are masked may wrap
        slot=jnp.where(prime.here & allow, target, state.slot),
        factors=jnp.where((slots == target) & column, state.factors * prime.value, factors),
        extents=jnp.where(allow, shifted, state.extents),
    )


def admits(state: Nest, index: Array, space: MapSpace) -> Array:
    """Slots, other than its own, that one prime could move to without any buffer overflowing: `[S]` bool."""
    levels, prime = jnp.arange(space.capacity.shape[0]), _prime(state, index, space)
    fits = ~jnp.any(overflows(_shifted(state, prime, levels, space), space), axis=-1)
    return room(state, index, space) & jnp.tile(fits, 3)  # the slots of a level hold the same tiles


def random_orders(key: Array, space: MapSpace) -> tuple[Array, Array]:
    """Random loop orders that respect the prescribed ones: `[L, D]` and `[2, L, D]` int32; the key is consumed."""
    prescribed = space.constraints.order
    levels, dims = prescribed.shape
    return _ordered(jax.random.uniform(key, (3, levels, dims)), prescribed)


def _ordered(draw: jax.Array, prescribed: Array) -> tuple[Array, Array]:
    """Orders that sort `[3, L, D]` draws, with prescribed positions kept."""
    dims = prescribed.shape[1]
    # position[l, d]: where the level prescribes dimension d; the free ones follow in random order.
    named = prescribed[:, :, None] == jnp.arange(dims)
    position = jnp.where(jnp.any(named, axis=1), jnp.argmax(named, axis=1), dims)
    orders = short_argsort(draw.at[0].add(position.astype(draw.dtype)))
    return orders[0], orders[1:]


def sampled_keep(key: Array, space: MapSpace) -> tuple[Array, Array | None]:
    """The key for the other draws of `sample`, and the data spaces to store that it draws, see `random_keep`."""
    if space.constraints.may_bypass is None:
        return key, None
    key, keep_key = jax.random.split(key)
    return key, random_keep(keep_key, space)


def sample(key: Array, space: MapSpace) -> MappingGenes:
    """A random mapping that breaks no constraint, fanout or capacity; the key is consumed.

    All factors start at the outermost level. In random order each prime tries one slot, drawn among those with
    room, and stays where it was if the buffers would overflow. Each individual has random preferences for slots, and a
    quarter of them try spatial slots first, so that a population holds spatial and temporal, inner and outer mappings.
    Half of them cover the layer's own bounds; in the others each dimension covers one drawn at random. If even single
    words do not fit, the layer has no valid mapping; the result then has all factors outermost.
    """
    key, keep = sampled_keep(key, space)
    (primes,), (slots, dims), orders = space.dim.shape, space.limit.shape, space.constraints.order
    draws = Draws(key, 2 + dims + slots + primes * slots + primes + 3 * orders.size)
    cover = jnp.zeros(dims, jnp.int32)
    if space.prime.ndim > 1:
        cover = jnp.where(draws.happens(0.5), draws.below(jnp.asarray(space.choices), dims), cover)
    space = keeping(keep, covering(cover, space))
    taste = 1.5 * draws.normal(slots)
    is_spatial = jnp.arange(slots) >= slots // 3
    taste += jnp.where(is_spatial & draws.happens(0.25), 8.0, 0.0)
    scores = taste + draws.gumbel(primes, slots)
    visit = short_argsort(draws.uniform(primes))

    def step(state: Nest, x: tuple[Array, Array]) -> tuple[Nest, None]:
        index, score = x
        can = room(state, index, space)
        target = jnp.argmax(jnp.where(can | (jnp.arange(slots) == state.slot[index]), score, -jnp.inf))
        return move(state, index, target.astype(jnp.int32), can[target], space), None

    slot = jnp.full(primes, space.outermost, jnp.int32)
    state, _ = jax.lax.scan(step, nest(slot, space), (visit, scores))
    order, spatial_order = _ordered(draws.uniform(3, *orders.shape), orders)
    return MappingGenes(cover=cover, slot=state.slot, order=order, spatial_order=spatial_order, keep=keep)


def evict(key: Array, slot: Array, space: MapSpace) -> Array:
    """Moves primes to the outermost temporal loops until every buffer fits; the key is consumed.

    While any level overflows, the innermost such level loses a prime of a data space that it keeps, drawn at random
    from the outermost level at or inside it that holds one. This mends only capacities, and can only relax constraints
    and fanouts.

    Returns:
        `[F]` int32, the slots; unchanged where nothing overflows.
    """
    draw = jax.random.uniform(key, slot.shape)
    relevant = jnp.any(space.constraints.keep[:, :, None] & RELEVANCE, axis=1)  # [L, D]
    relevant = jnp.any(relevant[:, None] & (space.dim[:, None] == jnp.arange(RELEVANCE.shape[1])), axis=-1)  # [L, F]

    def over(carry: tuple[Nest, Array]) -> Array:
        return carry[1]

    def step(carry: tuple[Nest, Array]) -> tuple[Nest, Array]:
        state, _ = carry
        level = jnp.argmax(overflows(state.extents, space))
        own = slot_level(state.slot, space)
        candidate = (own <= level) & relevant[level] & (space.prime > 1)
        index = jnp.argmax(jnp.where(candidate, own + draw, -1))
        prime = _prime(state, index, space)
        shifted = _shifted(state, prime, space.outermost, space)
        state = _moved(state, prime, space.outermost, jnp.any(candidate), shifted)
        # Another level may overflow once this one has lost all that it could lose.
        return state, jnp.any(overflows(state.extents, space)) & jnp.any(candidate)

    state = nest(slot, space)
    return jax.lax.while_loop(over, step, (state, jnp.any(overflows(state.extents, space))))[0].slot


def respects(genes: MappingGenes, space: MapSpace) -> Array:
    """Whether a mapping respects all constraints, fanouts and capacities: `[]` bool."""
    space = own_space(genes, space)
    factors = slot_factors(genes.slot, space)
    within = jnp.all(factors <= space.limit)
    within &= jnp.all(jnp.prod(factors.astype(space.fanout.dtype), axis=-1) <= space.fanout)
    prescribed = space.constraints.order
    within &= jnp.all((prescribed < 0) | (prescribed == genes.order))
    return within & ~jnp.any(overflows(extents(genes.slot, space), space))


def decode(genes: MappingGenes, space: MapSpace) -> Mapping:
    """The loop nest that the genes describe."""
    space = own_space(genes, space)
    levels, dims = space.constraints.temporal_max.shape
    factors = slot_factors(genes.slot, space).reshape(3, levels, dims)
    return Mapping(
        temporal=factors[0],
        order=genes.order,
        spatial=factors[1:],
        spatial_order=genes.spatial_order,
        keep=space.constraints.keep,
    )


@jit_o1
def _words_of(genes: MappingGenes, space: MapSpace) -> Array:
    """Words of a mapping's tiles that each level keeps; one program serves all problems of a size."""
    space = own_space(genes, space)
    return kept_words(extents(genes.slot, space), space)


def encode(
    mapping: Mapping,
    space: MapSpace,
    *,
    source: object = None,
    item: object = None,
    level_names: Sequence[str] = (),
) -> MappingGenes:
    """Genes of a given mapping, e.g. a user's; numpy, not jittable.

    Args:
        mapping: one mapping, padded to the levels of the space.
        space: one problem.
        source: file that the mapping came from, for messages.
        item: which mapping of the file it is, for messages.
        level_names: of the template, innermost first, for messages; default their numbers.

    Raises:
        InputError: wrong factors, or the mapping leaves the template's constraints, fanouts or capacities.
    """
    fail = functools.partial(InputError, file=source, item=item)
    levels, dims = space.constraints.temporal_max.shape
    called = [f"level {name}" for name in (*level_names, *range(len(level_names), levels))]
    factors = np.concatenate([np.asarray(mapping.temporal)[None], np.asarray(mapping.spatial)]).astype(np.int64)
    orders = np.concatenate([np.asarray(mapping.order)[None], np.asarray(mapping.spatial_order)]).astype(np.int32)
    names = ("temporal", "X", "Y")
    for d in range(dims):
        column = [int(f) for f in factors[:, :, d].ravel()]
        own, *padded = dict.fromkeys(np.asarray(space.bounds)[:, d].tolist())
        if min(column) < 1 or math.prod(column) not in (own, *padded):
            raise fail(
                f"the factors of {DIMS[d]} multiply to {math.prod(column)}, the layer's bound is {own}",
                remedy="make the product over all levels equal the bound"
                + (f", or a padded one that this template takes: {', '.join(map(str, padded))}" if padded else ""),
            )
    if not (np.sort(orders, axis=-1) == np.arange(dims)).all():
        raise fail("a loop order is no permutation", remedy="name every dimension once")
    if not keeps_as_allowed(mapping.keep, space.constraints).all():
        raise fail(
            "the mapping keeps other data spaces than the template",
            remedy="keep and bypass as the template's levels do",
        )
    limit = np.asarray(space.limit).reshape(3, levels, dims)
    fanout = np.asarray(space.fanout).reshape(3, levels)
    for axis in range(3):
        for level in range(levels):
            row = factors[axis, level]
            for d in np.flatnonzero(row > limit[axis, level]):
                raise fail(
                    f"{called[level]}: the {names[axis]} factor {row[d]} of {DIMS[d]} is above the template's "
                    f"limit {limit[axis, level, d]}",
                    remedy="lower it",
                )
            if math.prod(int(f) for f in row) > fanout[axis, level]:
                raise fail(
                    f"{called[level]}: the {names[axis]} factors {math.prod(int(f) for f in row)} exceed the fanout "
                    f"{fanout[axis, level]:g}",
                    remedy="lower them",
                )
    genes = take(genes_of(*jax.tree.map(lambda leaf: np.asarray(leaf)[None], (mapping, space))), 0)
    for level in range(levels):
        loops = factors[0, level] > 1  # the place of a loop of bound 1 means nothing
        if [d for d in genes.order[level] if loops[d]] != [d for d in orders[0, level] if loops[d]]:
            named = [DIMS[d] for d in np.asarray(space.constraints.order)[level] if d >= 0]
            raise fail(
                f"{called[level]}: the loop order differs from the one that the template prescribes",
                remedy=f"innermost first: {' '.join(named)}",
            )
    words = np.asarray(_words_of(genes, space))
    for level in np.flatnonzero(words > space.capacity):
        told = f"the tiles take {words[level]:.0f} words, and the capacity is {space.capacity[level]:.0f}"
        raise fail(f"{called[level]}: {told}", remedy="lower the factors of this level or of those inside it")
    return genes


def keeps_as_allowed(keep: Array, limits: Constraints) -> np.ndarray:
    """Whether the template allows what levels store and bypass: `[..., L, V]` bool, on the host."""
    same = np.asarray(keep) == np.asarray(limits.keep)
    return same if limits.may_bypass is None else same | np.asarray(limits.may_bypass)


def prescribed_places(order: np.ndarray) -> np.ndarray:
    """Position that a level prescribes for each dimension, `[..., D]` int; D where free. On the host.

    Args:
        order: `[..., D]` int, see `Constraints`.
    """
    dims = order.shape[-1]
    places = np.full((*order.shape[:-1], dims + 1), dims)  # the last column takes free positions
    np.put_along_axis(places, np.where(order >= 0, order, dims), np.broadcast_to(np.arange(dims), order.shape), axis=-1)
    return places[..., :dims]


def genes_of(nests: Mapping, spaces: MapSpace) -> MappingGenes:
    """Genes of many loop nests, each of which lies in its space (`membership.lie_in`); NumPy, not jittable.

    They cover the bounds that their factors multiply to. Of equal primes of a dimension the first go to the slots with
    the highest numbers. Dimensions that a level's order prescribes take their positions; the others keep their order.

    Args:
        nests: leading axis `[n]`, padded to the levels of the spaces.
        spaces: the space of each, `[n, ...]`.

    Returns:
        `[n, ...]`, NumPy arrays.
    """
    nests, spaces = (jax.tree.map(np.asarray, tree) for tree in (nests, spaces))
    count, levels, dims = nests.order.shape
    factors = np.concatenate([nests.temporal[:, None], nests.spatial], axis=1).reshape(count, 3 * levels, dims)
    own = np.take_along_axis(factors, np.asarray(spaces.dim)[:, None], axis=2)  # [n, S, F]
    cover = np.argmax(np.asarray(spaces.bounds) == covered(nests)[:, None], axis=1).astype(np.int32)  # [n, D]
    primes, group = np.asarray(spaces.prime), np.asarray(spaces.group)
    if primes.ndim > 2:
        of_prime = np.take_along_axis(cover, np.asarray(spaces.dim), axis=1)[:, None]
        primes, group = (np.take_along_axis(x, of_prime, axis=1)[:, 0] for x in (primes, group))
    prime = np.where(primes > 1, primes, 2).astype(np.int64)
    here, power = np.zeros(own.shape, np.int32), prime  # copies of each prime in each slot
    while (held := own % power[:, None] == 0).any():
        here += held
        power = np.minimum(power, 2**31) * prime
    before = np.tril(group[:, :, None] == group[:, None], -1).sum(axis=2)  # equal ones, [n, F]
    outside = np.cumsum(here[:, ::-1], axis=1)[:, ::-1]  # copies in a slot and those after it
    slot = (outside > before[:, None]).sum(axis=1) - 1
    slot = np.where(primes > 1, slot, spaces.outermost.reshape(-1, 1)).astype(np.int32)

    places = prescribed_places(np.asarray(spaces.constraints.order))
    places = np.where(places < dims, places, dims + np.argsort(nests.order, axis=2))
    return MappingGenes(
        cover=cover,
        slot=slot,
        order=np.argsort(places, axis=2).astype(np.int32),
        spatial_order=nests.spatial_order.astype(np.int32),
        keep=None if spaces.constraints.may_bypass is None else nests.keep.astype(bool),
    )
