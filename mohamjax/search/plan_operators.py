"""Variation of plans: sampling, crossover and mutation of hardware instead of single layers.

Axes: L layers (padded), S tiles, C components of a size, T templates, H sizes of the library. Functions are for one
plan or one pair; callers vmap. A plan must be `completed` before it is decoded: fixed tiles then hold their template,
there are no more chiplets than allowed, and every layer has a chiplet that may run it. Some functions leave this to be
done for all plans at once. Keys are consumed.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from mohamjax.problem.plan_tables import LEAST, PlanTables
from mohamjax.problem.resolved import FREE
from mohamjax.problem.space import Genetics
from mohamjax.runtime.draws import Draws
from mohamjax.runtime.struct import record, select
from mohamjax.schedule import Design
from mohamjax.search.operators import drop_empty, scheduling_mutation, spliced
from mohamjax.search.plans import Plan, Planned, fitting, used_sizes


@record
class PlanRates:
    """How often plans change, all traced: a sweep over them does not recompile.

    Attributes:
        crossover: probability per pair; else both children equal their parents before mutation.
        stepping: average number of chiplets of a plan that take steps in some components of their size.
        component: probability that a component of such a chiplet takes a step.
        reach: logarithm of the longest step, in thresholds; step lengths are drawn evenly over logarithms.
        scaling: average number of chiplets that take one step in all components.
        drawing: average number of chiplets that take a size of the library.
        weighting: average number of chiplets that take another weight.
        replacing: average number of chiplets that become another template, with a size of the library.
        copying: average number of chiplets that become a copy of another.
        opening: average number of chiplets that are added; one in three is new, the others are copies.
        closing: average number of chiplets that are removed.
        shuffling: probability that all chiplets change places.
        thrift: probability of another exponent of energy.
        adjusting: least probability that a child is one of its parents with single layers changed, instead of a new
            plan; higher where there are few layers (`adjusting_share`).
        layers: largest average number of layers that move, or are mapped again, in such a child, and at most a fifth of
            all; the average is drawn evenly over logarithms, from one on.
        moving: probability that layers move.
        founding: probability that they move to a new chiplet.
        turning: probability that the chiplet which they would move to, if it is not new, takes another template with
            all its layers, each on the best mapping that fits.
        anything: share of the layers moved or mapped again that take any mapping instead of the best that fits.
        swapping: probability, each, that two layers change places in the order, and that its end follows a random one.
        exchanging: probability that instead two chiplets change places, and nothing else.
        merging: probability that instead all layers of a chiplet go to another, and nothing else.
    """

    crossover: jax.typing.ArrayLike = 0.9
    stepping: jax.typing.ArrayLike = 1.0
    component: jax.typing.ArrayLike = 0.3
    reach: jax.typing.ArrayLike = 2.5
    scaling: jax.typing.ArrayLike = 0.3
    drawing: jax.typing.ArrayLike = 0.1
    weighting: jax.typing.ArrayLike = 0.5
    replacing: jax.typing.ArrayLike = 0.15
    copying: jax.typing.ArrayLike = 0.1
    opening: jax.typing.ArrayLike = 0.2
    closing: jax.typing.ArrayLike = 0.15
    shuffling: jax.typing.ArrayLike = 0.05
    thrift: jax.typing.ArrayLike = 0.15
    adjusting: jax.typing.ArrayLike = 0.03
    layers: jax.typing.ArrayLike = 16.0
    moving: jax.typing.ArrayLike = 0.8
    founding: jax.typing.ArrayLike = 0.1
    turning: jax.typing.ArrayLike = 0.1
    anything: jax.typing.ArrayLike = 0.5
    swapping: jax.typing.ArrayLike = 0.5
    exchanging: jax.typing.ArrayLike = 0.1
    merging: jax.typing.ArrayLike = 0.1


MOST_RATES = {
    **dict.fromkeys(
        ("stepping", "scaling", "drawing", "weighting", "replacing", "copying", "opening", "closing"), 16.0
    ),
    "reach": 4.0,
    "layers": 1e6,
    "least_layers": 1e6,
}
"""Largest values of the rates that are not probabilities: numbers of chiplets, a logarithm of steps, layers."""


def completed(plan: Plan, genetics: Genetics) -> Plan:
    """The plan changed to meet the user's demands, with a chiplet that may run it for every layer.

    Fixed tiles hold their template, closed ones nothing. Where packages must be homogeneous, all free chiplets take the
    template of the first one that runs every layer. Of too many chiplets the last ones are removed. As long as some
    layers have no chiplet that may run them, the template that runs most of these is added on an empty tile or replaces
    a free chiplet; where that does not suffice, the plan takes the package of `Genetics.cover`.
    """
    on_tile, kinds = genetics.on_tile, genetics.kinds
    free = on_tile == FREE
    there = kinds.number > 0
    runs_all = jnp.all(kinds.able | ~there[:, None], axis=0)
    template = jnp.where(free, plan.template, on_tile)
    template = jnp.where(template >= 0, template, -1)
    leads = (template >= 0) & runs_all[jnp.maximum(template, 0)]
    leader = jnp.where(jnp.any(leads), template[jnp.argmax(leads)], genetics.homogeneous)
    template = jnp.where((genetics.homogeneous >= 0) & free & (template >= 0), leader, template)
    room = genetics.max_chiplets - jnp.sum(on_tile >= 0)
    template = jnp.where(free & (jnp.cumsum(free & (template >= 0)) > room), -1, template)
    tiles = jnp.arange(on_tile.shape[0])

    def lonely(template: jax.Array) -> jax.Array:
        standing = jnp.where(template >= 0, kinds.able[:, jnp.maximum(template, 0)], False)
        return there & ~jnp.any(standing, axis=1)

    number = jnp.where(kinds.able, kinds.number[:, None], 0)
    common = jnp.sum(number, axis=0)
    for k in range(min(kinds.able.shape[1], on_tile.shape[0])):
        alone = lonely(template)
        useful = jnp.sum(jnp.where(alone[:, None], number, 0), axis=0) * (genetics.able.shape[0] + 1) + common
        vacant, standing = free & (template < 0), free & (template >= 0)
        add = jnp.any(vacant) & (jnp.sum(template >= 0) < genetics.max_chiplets)
        at = jnp.where(add, tiles == jnp.argmax(vacant), standing & (jnp.cumsum(standing) == k + 1))
        template = jnp.where(jnp.any(alone) & at, jnp.argmax(useful).astype(jnp.int32), template)
    template = jnp.where(jnp.any(lonely(template)), genetics.cover, template)
    return dataclasses.replace(plan, template=template.astype(jnp.int32))


def _new_chiplets(draws: Draws, number: int, tables: PlanTables) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Random templates `[number]`, sizes of the library `[number, C]` and weights `[number]`."""
    templates, sizes = tables.library.shape[:2]
    template = draws.below(templates, number)
    return template, tables.library[template, draws.below(sizes, number)], draws.below(tables.fits.shape[1], number)


def drawn_plan(key: jax.Array, genetics: Genetics, tables: PlanTables) -> Plan:
    """A random plan, not completed: one to `max_chiplets` chiplets, evenly over logarithms, of one to four kinds.

    One plan in sixteen has a single chiplet of size `LEAST`, for the narrow end of the front where such designs are.

    Args:
        key: typed key, consumed.
        genetics: the problem.
        tables: sets of mappings, and the library.
    """
    tiles = genetics.on_tile.shape[0]
    draws = Draws(key, 3 * tiles + 4)
    least = draws.happens(1 / 16)
    chips = jnp.exp(draws.uniform() * jnp.log(genetics.max_chiplets + 1.0)).astype(jnp.int32)
    chips = jnp.where(least, 1, chips)
    kind = jnp.arange(tiles) % (1 + draws.below(4))
    template, size, weight = (x[kind] for x in _new_chiplets(draws, tiles, tables))
    standing = jnp.cumsum(genetics.on_tile == FREE) <= chips - jnp.sum(genetics.on_tile >= 0)
    return Plan(
        template=jnp.where(standing, template, -1),
        size=jnp.where(least, LEAST, size),
        weight=weight,
        thrift=draws.below(len(tables.thrift)),
    )


def crossover(key: jax.Array, a: Plan, b: Plan, rate: jax.typing.ArrayLike) -> tuple[Plan, Plan]:
    """Two children that take every tile, with its chiplet, from either parent; they may need `completed`.

    Args:
        key: typed key, consumed.
        a: a parent.
        b: the other parent.
        rate: probability of a crossover; else the children equal the parents.
    """
    tiles = a.template.shape[0]
    draws = Draws(key, tiles + 2)
    happens = draws.happens(rate)
    swaps = draws.happens(0.5, tiles) & happens
    thrift = draws.happens(0.5) & happens

    def child(own: Plan, other: Plan) -> Plan:
        return Plan(
            template=jnp.where(swaps, other.template, own.template),
            size=jnp.where(swaps[:, None], other.size, own.size),
            weight=jnp.where(swaps, other.weight, own.weight),
            thrift=jnp.where(thrift, other.thrift, own.thrift),
        )

    return child(a, b), child(b, a)


def mutation(key: jax.Array, plan: Plan, genetics: Genetics, tables: PlanTables, rates: PlanRates) -> Plan:
    """The plan after all mutations, each with its rate, completed, so that fixed tiles keep their template."""
    return completed(mutated(key, plan, tables, rates), genetics)


def mutated(key: jax.Array, plan: Plan, tables: PlanTables, rates: PlanRates) -> Plan:
    """The plan after all mutations, each with its rate; not completed, as all genes may change.

    Args:
        key: typed key, consumed.
        plan: the plan.
        tables: sets of mappings, and the library.
        rates: how often plans change.
    """
    tiles, room = plan.size.shape
    most = tables.fits.shape[3] - 1
    draws = Draws(key, tiles * (3 * room + 18) + 2)
    template, size, weight = plan.template, plan.size, plan.weight
    standing = template >= 0
    count = jnp.maximum(jnp.sum(standing), 1)

    def chosen(rate: jax.typing.ArrayLike) -> jax.Array:
        """`[S]` bool, randomly chosen chiplets, `rate` of them on average."""
        return draws.happens(rate / count, tiles) & standing

    def steps(*shape: int) -> jax.Array:
        length = jnp.exp(draws.uniform(*shape) * rates.reach).astype(jnp.int32)
        return jnp.where(draws.happens(0.5, *shape), length, -length)

    stepping = chosen(rates.stepping)[:, None] & draws.happens(rates.component, tiles, room)
    size = jnp.clip(size + jnp.where(stepping, steps(tiles, room), 0), 0, most)
    size = jnp.clip(size + jnp.where(chosen(rates.scaling)[:, None], steps(tiles, 1), 0), 0, most)

    new_template, new_size, new_weight = _new_chiplets(draws, tiles, tables)
    known = tables.library[jnp.maximum(template, 0), draws.below(tables.library.shape[1], tiles)]
    size = jnp.where(chosen(rates.drawing)[:, None], known, size)
    weight = jnp.where(chosen(rates.weighting), new_weight, weight)
    replaced = chosen(rates.replacing)
    kind = jnp.where(replaced, new_template, template)
    size = jnp.where(replaced[:, None], new_size, size)

    template = jnp.where(chosen(rates.closing) & (count > 1), -1, kind)
    # For every tile, a random chiplet of which it may become a copy: the k-th, k random.
    nth = jnp.searchsorted(jnp.cumsum(standing), 1 + draws.below(count, tiles)).astype(jnp.int32)
    source = jnp.minimum(nth, tiles - 1)
    opened = draws.happens(rates.opening / jnp.maximum(tiles - count, 1), tiles) & ~standing
    fresh = opened & draws.happens(1 / 3, tiles)
    copied = (opened & ~fresh) | chosen(rates.copying)
    template = jnp.where(fresh, new_template, jnp.where(copied, kind[source], template))
    size = jnp.where(fresh[:, None], new_size, jnp.where(copied[:, None], size[source], size))
    weight = jnp.where(fresh, new_weight, jnp.where(copied, weight[source], weight))

    seats = jnp.argsort(draws.uniform(tiles))
    seats = jnp.where(draws.happens(rates.shuffling), seats, jnp.arange(tiles))
    thrift = jnp.where(draws.happens(rates.thrift), draws.below(len(tables.thrift)), plan.thrift)
    return Plan(template=template[seats], size=size[seats], weight=weight[seats], thrift=thrift)


_CLOSE, _COPY, _WEIGHT, _THRIFT, _SCALE, _STEP = range(6)
_CHANGES = (_CLOSE, *[_COPY] * 2, *[_WEIGHT] * 2, _THRIFT, *[_SCALE] * 4, *[_STEP] * 6)


def neighbour(key: jax.Array, plan: Plan, tables: PlanTables) -> Plan:
    """The plan with a single change, not completed, as a descent tries it.

    A chiplet is removed, becomes a copy of another, takes another weight, or takes a step of 1, 2, 4 or 8 thresholds in
    one or all components of its size, three of five steps downward; or the exponent of energy changes.

    Args:
        key: typed key, consumed.
        plan: a plan with at least one chiplet.
        tables: sets of mappings.
    """
    tiles, room = plan.size.shape
    draws = Draws(key, 8)
    standing = plan.template >= 0
    number = jnp.cumsum(standing)

    def chiplet() -> jax.Array:
        nth = 1 + draws.below(jnp.maximum(number[-1], 1))
        return jnp.minimum(jnp.searchsorted(number, nth), tiles - 1).astype(jnp.int32)

    change = jnp.asarray(_CHANGES)[draws.below(len(_CHANGES))]
    at, other = jnp.arange(tiles) == chiplet(), chiplet()
    step = jnp.left_shift(1, draws.below(4))
    step = jnp.where(draws.happens(0.6), -step, step)
    stepping = (change == _SCALE) | ((change == _STEP) & (jnp.arange(room) == draws.below(room)))
    size = jnp.clip(plan.size + jnp.where(at[:, None] & stepping, step, 0), 0, tables.fits.shape[3] - 1)
    weights, exponents = tables.fits.shape[1], len(tables.thrift)
    turned = (plan.weight + 1 + draws.below(weights - 1)) % weights
    copied = at & (change == _COPY)
    template = jnp.where(at & (change == _CLOSE) & (number[-1] > 1), -1, plan.template)
    return Plan(
        template=jnp.where(copied, plan.template[other], template),
        size=jnp.where(copied[:, None], plan.size[other], size),
        weight=jnp.where(copied, plan.weight[other], jnp.where(at & (change == _WEIGHT), turned, plan.weight)),
        thrift=jnp.where(change == _THRIFT, (plan.thrift + 1 + draws.below(exponents - 1)) % exponents, plan.thrift),
    )


def adjusting_share(rates: PlanRates, genetics: Genetics) -> jax.Array:
    """Probability that a child is an adjusted parent, `[]` float: the larger of `rates.adjusting` and 4 / layers.

    Plans only reach designs that list scheduling makes. With few layers these are a small share of all designs, and
    single changes soon reach the rest. The second term is at most 0.8; the result is 0 where the rate is 0.
    """
    share = jnp.maximum(rates.adjusting, jnp.minimum(4 / genetics.layers, 0.8))
    return jnp.where(jnp.asarray(rates.adjusting) > 0, share, 0.0)


def exchanged(individual: Planned, goes: jax.Array, genetics: Genetics) -> Planned:
    """An individual whose chiplets stand on other tiles, each with its layers; nothing else changes.

    Args:
        individual: a design and its plan.
        goes: `[S]` int32, a permutation: the new tile of what stands on each tile. Where it moves fixed chiplets or
            uses closed tiles, the design is no longer valid.
        genetics: the problem.
    """
    plan, design = individual.plan, individual.design

    def to(leaf: jax.Array) -> jax.Array:
        return jnp.zeros_like(leaf).at[goes].set(leaf)

    return Planned(
        plan=dataclasses.replace(plan, template=to(plan.template), size=to(plan.size), weight=to(plan.weight)),
        design=dataclasses.replace(
            design,
            assignment=jnp.where(genetics.real, goes[design.assignment], design.assignment).astype(jnp.int32),
            template=to(design.template),
        ),
    )


def merged(
    individual: Planned, source: jax.Array, target: jax.Array, weight: jax.Array, genetics: Genetics, tables: PlanTables
) -> Planned:
    """An individual that gives a chiplet up: all its layers go to another one, on the best mappings that fit it.

    The other chiplet keeps the mappings of its own layers, and grows only where no mapping of a layer fits it. The
    order stays.

    Args:
        individual: a valid design and its plan.
        source: `[]` int32, tile of the chiplet that is given up.
        target: `[]` int32, tile of the other one, one of the `takers`.
        weight: `[]` int32, weight of the score by which the layers choose their mappings there.
        genetics: the problem.
        tables: sets of mappings.
    """
    plan, design = individual.plan, individual.design
    real = genetics.real
    stays, moves = real & (design.assignment == target), real & (design.assignment == source)
    kind = jnp.maximum(design.template[target], 0)

    def least(mapping: jax.Array, layers: jax.Array) -> jax.Array:
        """`[C]` int32, size of the target that the layers need."""
        return jnp.max(jnp.where(layers[:, None], tables.need[kind, mapping, genetics.unique], 0), axis=0)

    size = least(design.mapping, stays)
    best = fitting(kind[None], size[None], jnp.asarray(weight, jnp.int32)[None], tables)[0][0][genetics.unique]
    at = jnp.arange(plan.template.shape[0])
    changed = Design(
        order=design.order,
        assignment=jnp.where(moves, target, design.assignment).astype(jnp.int32),
        mapping=jnp.where(moves, best, design.mapping),
        template=jnp.where(at == source, -1, design.template),
    )
    grown = jnp.where((at == target)[:, None], jnp.maximum(size, least(best, moves)), plan.size)
    return Planned(plan=dataclasses.replace(plan, template=changed.template, size=grown), design=changed)


def takers(design: Design, source: jax.Array, genetics: Genetics) -> jax.Array:
    """`[S]` bool, other chiplets that may run all layers of the one at `source`; none where that one is fixed.

    Layers that are pinned to a tile stand on a fixed chiplet, and so never move.

    Args:
        design: a valid design.
        source: `[]` int32, tile of the chiplet to give up.
        genetics: the problem.
    """
    here = genetics.real & (design.assignment == source)
    able = jnp.all(genetics.able | ~here[:, None], axis=0)
    loose = (design.template[source] >= 0) & (genetics.on_tile[source] == FREE)
    others = (design.template >= 0) & (jnp.arange(design.template.shape[0]) != source)
    return able[jnp.maximum(design.template, 0)] & others & loose


def _rearranged(
    draws: Draws, individual: Planned, genetics: Genetics, tables: PlanTables, rates: PlanRates
) -> tuple[Planned, jax.Array]:
    """The individual with two chiplets exchanged or one given up, each with its probability; `[]` bool, if either."""
    tiles = individual.design.template.shape[0]
    index = jnp.arange(tiles, dtype=jnp.int32)
    coin = draws.uniform()
    exchanges = coin < rates.exchanging
    merges = ~exchanges & (coin < rates.exchanging + rates.merging)
    loose = (individual.design.template >= 0) & (genetics.on_tile == FREE)
    chance = jnp.where(loose, draws.uniform(tiles), -1.0)
    first = jnp.argmax(chance).astype(jnp.int32)
    second = jnp.argmax(jnp.where(index == first, -1.0, chance)).astype(jnp.int32)
    goes = jnp.where(index == first, second, jnp.where(index == second, first, index))
    goes = jnp.where(exchanges & (jnp.sum(loose) > 1), goes, index)
    can = takers(individual.design, first, genetics)
    target = jnp.argmax(jnp.where(can, draws.uniform(tiles), -1.0)).astype(jnp.int32)
    kept = merged(individual, first, target, draws.below(tables.fits.shape[1]), genetics, tables)
    one = select(merges & jnp.any(can), kept, individual)
    return exchanged(one, goes, genetics), exchanges | merges


def adjustment(
    key: jax.Array, individual: Planned, genetics: Genetics, tables: PlanTables, rates: PlanRates
) -> Planned:
    """Changes single layers of a design, which no plan could: some move to one chiplet, some take another mapping.

    Layers that move or are mapped again take the best mapping that fits the chiplet as it stands, under its weight or
    another one; some take any mapping. Two layers may change places in the order, and its end may follow another order.
    The chiplet that layers move to may be new, or take another template with all its layers (MOHaM's template
    mutation). The plan keeps its weights and takes the sizes of the design.

    Instead, two chiplets may change places or one may be given up (`merged`), and nothing else changes: a tiny chiplet
    may be there only because it keeps others in better places, and giving it up changes both at once.

    Args:
        key: typed key, consumed.
        individual: a valid design and its plan.
        genetics: the problem.
        tables: sets of mappings.
        rates: how often each change happens.
    """
    plan, design = individual.plan, individual.design
    layers, tiles = design.order.shape[0], plan.template.shape[0]
    draw_key, swap_key = jax.random.split(key)
    draws = Draws(draw_key, 4 * layers + 6 * tiles + 14)
    real = genetics.real

    def some() -> jax.Array:
        """`[L]` bool, random layers; their average number is drawn from 1 to `rates.layers`, evenly over logarithms."""
        number = jnp.exp(draws.uniform() * jnp.log(jnp.maximum(jnp.minimum(rates.layers, genetics.layers / 5), 1.0)))
        return (draws.uniform(layers) < number / genetics.layers) & real

    vacant = (plan.template < 0) & (genetics.on_tile == FREE)
    room = jnp.any(vacant) & (jnp.sum(plan.template >= 0) < genetics.max_chiplets) & (genetics.homogeneous < 0)
    at = jnp.arange(tiles) == jnp.argmax(vacant)
    opens = at & room & draws.happens(rates.founding)
    new_template, new_size, new_weight = _new_chiplets(draws, tiles, tables)
    template = jnp.where(opens, new_template, plan.template)
    size = jnp.where(opens[:, None], new_size, plan.size)
    standing = template >= 0
    nth = jnp.searchsorted(jnp.cumsum(standing), 1 + draws.below(jnp.maximum(jnp.sum(standing), 1)))
    target = jnp.where(jnp.any(opens), jnp.argmax(opens), jnp.minimum(nth, tiles - 1)).astype(jnp.int32)
    there = real & (design.assignment == target)
    kinds = tables.library.shape[0]
    kind = (template[target] + 1 + draws.below(max(kinds - 1, 1))) % kinds
    turns = draws.happens(rates.turning) & jnp.all(genetics.able[:, kind] | ~there) & ~jnp.any(opens)
    turns &= (genetics.on_tile[target] == FREE) & (genetics.homogeneous < 0) & (kind != template[target])
    turned = turns & (jnp.arange(tiles) == target)
    template = jnp.where(turned, kind, template)
    size = jnp.where(turned[:, None], tables.library[kind, draws.below(tables.library.shape[1])], size)
    allowed = (genetics.pin < 0) | (genetics.pin == target)
    moves = some() & genetics.able[:, jnp.maximum(template[target], 0)] & allowed & draws.happens(rates.moving)
    assignment = jnp.where(moves, target, design.assignment)

    own = jnp.maximum(template, 0)
    weight = jnp.where(draws.happens(0.5, tiles), plan.weight, new_weight)
    best = fitting(own, size, weight, tables)[0][assignment, genetics.unique]
    count = genetics.count[genetics.unique, own[assignment]]
    anything = draws.below(jnp.maximum(count, 1), layers)
    anew = some()
    drawn = jnp.where(draws.happens(rates.anything, layers) & (moves | anew), anything, best)
    mapping = jnp.where(real & (moves | anew | (turns & there)), drawn, design.mapping)
    changed = drop_empty(Design(design.order, assignment, mapping, template), genetics)
    template = changed.template
    swapped = scheduling_mutation(swap_key, changed, genetics)
    order = jnp.where(draws.happens(rates.swapping), swapped.order, changed.order)
    other = genetics.orders[draws.below(genetics.orders.shape[0])]
    # Not the last four layers alone: neighbours on the front seldom share the order of a few layers.
    first = draws.below(jnp.maximum(genetics.layers - 4, 1))
    order = jnp.where(draws.happens(rates.swapping), spliced(order, other, first), order)
    changed = dataclasses.replace(changed, order=order)
    grown = used_sizes(changed, genetics, tables)
    plan = dataclasses.replace(
        plan,
        template=template,
        size=jnp.where(grown >= 0, grown, size),
        weight=jnp.where(opens, new_weight, plan.weight),
    )
    rearranged, rearranges = _rearranged(draws, individual, genetics, tables, rates)
    return select(rearranges, rearranged, Planned(plan=plan, design=changed))
