"""Variation of plans: what each operator preserves, and what each rate alone changes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import (
    BATCH,
    ENTRIES,
    S,
    T,
    broken,
    case,
    completed_all,
    decode_all,
    each,
    random_plans,
    sample_plan,
    unfit,
)
from test_operators import L

from mohamjax.problem.plan_tables import LEAST, WEIGHTS
from mohamjax.search.plan_operators import (
    MOST_RATES,
    PlanRates,
    adjusting_share,
    adjustment,
    crossover,
    drawn_plan,
    mutation,
    neighbour,
)
from mohamjax.search.plans import Plan

seeds = st.integers(0, 2**16)
demanded = st.sampled_from(["", "f", "fc", "fcp", "h", "ch"])
chiplets = st.integers(1, S)
NAMES = [field.name for field in dataclasses.fields(PlanRates)]


def rates(**chosen) -> PlanRates:
    """Rates that are all 0 except those given."""
    return PlanRates(**{name: jnp.float32(chosen.get(name, 0.0)) for name in NAMES})


WILD = rates(**{name: MOST_RATES.get(name, 1.0) / 4 for name in NAMES})

_SAMPLE = jax.jit(jax.vmap(sample_plan, in_axes=(0, None, None)))
_DRAW = jax.jit(jax.vmap(drawn_plan, in_axes=(0, None, None)))
_CROSS = jax.jit(jax.vmap(crossover, in_axes=(0, 0, 0, None)))
_MUTATE = jax.jit(jax.vmap(mutation, in_axes=(0, 0, None, None, None)))
_ADJUST = jax.jit(jax.vmap(adjustment, in_axes=(0, 0, None, None, None)))


def keys(seed):
    return jax.random.split(jax.random.key(seed), BATCH)


def equal(a, b) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def mutants(seed, c, **chosen):
    """Pairs of a plan and its mutant under rates that are 0 except those given."""
    plans = random_plans(seed, c)
    return list(
        zip(each(plans), each(_MUTATE(keys(seed + 1), plans, c.genetics, c.plans, rates(**chosen))), strict=True)
    )


# ---------------------------------------------------------------- what is kept


@settings(max_examples=15, deadline=None)
@given(seed=seeds, layers=st.integers(1, L), chips=chiplets, demands=demanded)
def test_plans_keep_what_is_demanded(seed, layers, chips, demands):
    """Sampled plans, crossed and completed ones, and ones mutated at high rates."""
    c = case(seed, layers, chips, demands=demands)
    sampled = _SAMPLE(keys(seed), c.genetics, c.plans)
    others = random_plans(seed + 1, c)
    one, two = _CROSS(keys(seed + 2), sampled, others, 1.0)
    mutated = _MUTATE(keys(seed + 3), one, c.genetics, c.plans, WILD)
    for plans in (sampled, others, completed_all(two, c.genetics), mutated):
        for plan in each(plans):
            assert unfit(plan, c) == []


@settings(max_examples=10, deadline=None)
@given(seed=seeds, chips=chiplets, demands=demanded)
def test_completing_a_complete_plan_changes_nothing(seed, chips, demands):
    c = case(seed, chips=chips, demands=demands)
    plans = random_plans(seed, c)
    assert equal(plans, completed_all(plans, c.genetics))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, chips=chiplets, demands=demanded)
def test_without_rates_a_mutant_is_the_completed_parent(seed, chips, demands):
    c = case(seed, chips=chips, demands=demands)
    crossed, _ = _CROSS(keys(seed), random_plans(seed, c), random_plans(seed + 1, c), 1.0)
    assert equal(_MUTATE(keys(seed + 2), crossed, c.genetics, c.plans, rates()), completed_all(crossed, c.genetics))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, demands=demanded)
def test_completion_changes_as_little_as_it_must(seed, demands):
    """Existing chiplets stay, unless requirements or layers without a chiplet forbid it; other genes never change."""
    c = case(seed, blocked=False, demands=demands)
    rng = np.random.default_rng(seed)
    plans = jax.device_get(random_plans(seed, c))
    wild = dataclasses.replace(plans, template=rng.integers(-1, T, plans.template.shape).astype(np.int32))
    on_tile = np.asarray(c.genetics.on_tile)
    for before, after in zip(each(wild), each(completed_all(wild, c.genetics)), strict=True):
        assert unfit(after, c) == []
        assert equal([before.size, before.weight, before.thrift], [after.size, after.weight, after.thrift])
        if "h" not in demands and (before.template[on_tile == -2] >= 0).any():
            np.testing.assert_array_equal(after.template, np.where(on_tile == -2, before.template, on_tile))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, chips=st.integers(2, S))
def test_random_plans_have_one_to_all_chiplets_of_up_to_four_kinds(seed, chips):
    c = case(seed, chips=chips, blocked=False)
    counts = []
    for plan in each(_SAMPLE(keys(seed), c.genetics, c.plans)):
        stands = plan.template >= 0
        counts.append(stands.sum())
        kinds = {(t, tuple(size), w) for t, size, w in zip(plan.template, plan.size, plan.weight, strict=True)}
        assert len({kind for kind in kinds if kind[0] >= 0}) <= 4
        for t, size in zip(plan.template[stands], plan.size[stands], strict=True):
            assert (np.asarray(c.plans.library)[t] == size).all(axis=1).any()
    assert min(counts) >= 1 and max(counts) <= chips and len(set(counts)) > 1


# ---------------------------------------------------------------- crossover


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_children_have_every_tile_from_one_parent_or_the_other(seed):
    c = case(seed)
    a, b = random_plans(seed, c), random_plans(seed + 1, c)
    one, two = _CROSS(keys(seed), a, b, 1.0)
    mixed = 0
    for x, y, child, sibling in zip(*map(each, (a, b, one, two)), strict=True):

        def tile(plan: Plan, s: int):
            return plan.template[s], *plan.size[s], plan.weight[s]

        for s in range(S):
            pair = {tile(child, s), tile(sibling, s)}
            assert pair == {tile(x, s), tile(y, s)}
        assert {int(child.thrift), int(sibling.thrift)} == {int(x.thrift), int(y.thrift)}
        mixed += not equal(child, x) and not equal(child, y)
    assert mixed > BATCH // 2
    one, two = _CROSS(keys(seed), a, b, 0.0)
    assert equal(one, a) and equal(two, b)


# ---------------------------------------------------------------- each rate alone

C = case(11, blocked=False)


def tiles_changed(before, after, *names):
    """Tiles on which any of the named genes differs."""
    differs = [np.asarray(getattr(before, n) != getattr(after, n)).reshape(S, -1).any(axis=1) for n in names]
    return np.flatnonzero(np.any(differs, axis=0))


def only(before, after, *names):
    """Whether only the named genes differ, and only on tiles that were not empty."""
    rest = {"template", "size", "weight", "thrift"} - set(names)
    tiled = set(names) - {"thrift"}
    changed = tiles_changed(before, after, *tiled) if tiled else np.zeros(0, int)
    return all(equal(getattr(before, n), getattr(after, n)) for n in rest) and (before.template[changed] >= 0).all()


def known(plan, s) -> bool:
    """Whether the size on the tile is in the library of its template."""
    return (np.asarray(C.plans.library)[plan.template[s]] == plan.size[s]).all(axis=1).any()


def test_steps_change_some_components_of_sizes_a_little():
    reached = []
    for before, after in mutants(0, C, stepping=2.0, component=0.3, reach=np.log(3.0)):
        assert only(before, after, "size")
        change = after.size - before.size
        assert np.abs(change).max() <= 2  # a step stays below e^reach
        reached += [*change[before.template >= 0].ravel()]
    assert {-2, -1, 0, 1, 2} == set(reached)
    assert np.mean(np.asarray(reached) != 0) < 0.3


def test_scaling_moves_all_components_alike():
    scaled = 0
    for before, after in mutants(1, C, scaling=2.0, reach=2.5):
        assert only(before, after, "size")
        for s in tiles_changed(before, after, "size"):
            change = after.size[s] - before.size[s]
            inside = (after.size[s] > 0) & (after.size[s] < 63)
            assert len(set(change[inside])) <= 1 and np.abs(change).max() <= 12
            assert len(set(np.sign(change)) - {0}) == 1
            scaled += 1
    assert scaled > BATCH // 2


@pytest.mark.parametrize("rate", [0.5, 2.0])
def test_as_many_chiplets_change_as_the_rate_says(rate):
    """On average, unless there are fewer. Here chiplets draw a weight, which in one of five cases is the old one."""
    found, expected = [], []
    for seed in range(12):
        for before, after in mutants(seed, C, weighting=rate):
            assert only(before, after, "weight")
            found.append(len(tiles_changed(before, after, "weight")))
            expected.append(0.8 * min(rate, (before.template >= 0).sum()))
    assert abs(np.mean(found) - np.mean(expected)) < 4 * np.std(found) / np.sqrt(len(found))


def test_drawing_takes_sizes_of_the_library():
    drawn = 0
    for before, after in mutants(2, C, drawing=2.0):
        assert only(before, after, "size")
        changed = tiles_changed(before, after, "size")
        assert all(known(after, s) for s in changed)
        drawn += len(changed)
    assert drawn > BATCH // 2


def test_replacing_gives_a_template_with_a_size_of_its_own():
    replaced = 0
    for before, after in mutants(3, C, replacing=2.0):
        assert only(before, after, "template", "size")
        assert ((after.template >= 0) == (before.template >= 0)).all()
        changed = tiles_changed(before, after, "template", "size")
        assert all(known(after, s) for s in changed)
        replaced += len(changed)
    assert replaced > BATCH // 2


def genes(plan, s):
    return int(plan.template[s]), *map(int, plan.size[s]), int(plan.weight[s])


def test_copying_makes_chiplets_equal():
    copied = 0
    for before, after in mutants(4, C, copying=2.0):
        assert only(before, after, "template", "size", "weight")
        stands = np.flatnonzero(before.template >= 0)
        assert {genes(after, s) for s in stands} <= {genes(before, s) for s in stands}
        copied += len(tiles_changed(before, after, "template", "size", "weight"))
    assert copied > BATCH // 4


def test_copies_of_replaced_chiplets_have_the_new_template():
    """A size belongs to a template's library: the old template with the new size would be neither chiplet."""
    copied = 0
    for before, after in mutants(4, C, replacing=2.0, copying=2.0, closing=0.3):
        stands = np.flatnonzero(after.template >= 0)
        old = {genes(before, s)[:-1] for s in np.flatnonzero(before.template >= 0)}
        assert all(known(after, s) or genes(after, s)[:-1] in old for s in stands)
        new = [genes(after, s)[:-1] for s in stands if genes(after, s)[:-1] not in old]
        copied += len(new) - len(set(new))
    assert copied > 0


def test_opening_adds_chiplets_that_are_new_or_copies():
    copies = news = 0
    for before, after in mutants(5, C, opening=3.0):
        stands = before.template >= 0
        assert ((after.template >= 0) >= stands).all() and equal(before.thrift, after.thrift)
        assert all(genes(after, s) == genes(before, s) for s in np.flatnonzero(stands))
        old = {genes(before, s) for s in np.flatnonzero(stands)}
        for s in np.flatnonzero((after.template >= 0) & ~stands):
            copies += genes(after, s) in old
            news += genes(after, s) not in old and known(after, s)
            assert genes(after, s) in old or known(after, s)
    assert copies > news > 0


def test_closing_takes_chiplets_away_but_not_the_last():
    closed = 0
    for before, after in mutants(6, C, closing=2.0):
        stands = before.template >= 0
        gone = stands & (after.template < 0)
        assert equal([before.size, before.weight, before.thrift], [after.size, after.weight, after.thrift])
        if stands.sum() == 1:
            assert equal(before, after)
        if (after.template >= 0).sum() > 1:  # where all were taken away, a new one is made
            np.testing.assert_array_equal(after.template[~gone & stands], before.template[~gone & stands])
        closed += gone.sum()
        assert unfit(after, C) == []
    assert closed > BATCH // 2


def test_shuffling_moves_whole_chiplets():
    moved = 0
    for before, after in mutants(7, C, shuffling=1.0):
        assert sorted(genes(before, s) for s in range(S)) == sorted(genes(after, s) for s in range(S))
        assert equal(before.thrift, after.thrift)
        moved += not equal(before, after)
    assert moved > BATCH // 2


def test_thrift_changes_alone():
    pairs = mutants(8, C, thrift=1.0)
    assert all(only(before, after, "thrift") for before, after in pairs)
    assert len({int(after.thrift) for _, after in pairs}) > 4


@pytest.mark.parametrize(
    "rate", ["crossover", "component", "reach", "adjusting", "layers", "moving", "founding", "exchanging", "merging"]
)
def test_rates_of_other_operators_mutate_nothing(rate):
    assert all(equal(before, after) for before, after in mutants(9, C, **{rate: 1.0}))


# ---------------------------------------------------------------- single layers


def need(c, individual):
    """`[S, C]`, the least sizes that hold the layers of each chiplet; -1 for chiplets without layers."""
    design, n = individual.design, int(c.genetics.layers)
    unique = np.asarray(c.genetics.unique)[:n]
    tile = design.assignment[:n]
    rows = np.asarray(c.plans.need)[design.template[tile], design.mapping[:n], unique]
    out = np.full(individual.plan.size.shape, -1)
    np.maximum.at(out, tile, rows)
    return out


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=seeds, layers=st.integers(1, L), chips=chiplets, demands=demanded, every=st.booleans())
def test_adjusted_designs_are_valid_and_their_plans_follow(seed, layers, chips, demands, every):
    c = case(seed, layers, chips, demands=demands)
    individuals = decode_all(random_plans(seed, c), c.genetics, c.plans)
    chosen = WILD if every else PlanRates(**{name: jnp.float32(getattr(PlanRates(), name)) for name in NAMES})
    chosen = dataclasses.replace(chosen, exchanging=jnp.float32(0), merging=jnp.float32(0))  # tested separately below
    for _ in range(2):  # designs that were adjusted are adjusted again
        before = each(individuals)
        individuals = _ADJUST(keys(seed + 1), individuals, c.genetics, c.plans, chosen)
        for old, new in zip(before, each(individuals), strict=True):
            assert broken(new.design, c.genetics) == []
            assert unfit(new.plan, c) == []
            np.testing.assert_array_equal(new.plan.template, new.design.template)
            assert new.plan.thrift == old.plan.thrift
            own = need(c, new)
            used = own[:, 0] >= 0
            np.testing.assert_array_equal(new.plan.size[used], own[used])
            kept = (old.plan.template >= 0) & (new.plan.template >= 0)
            np.testing.assert_array_equal(new.plan.weight[kept], old.plan.weight[kept])
            fresh = (new.plan.template >= 0) & (new.plan.template != old.plan.template)
            assert fresh.sum() <= 1, "more than one chiplet is new, or has another template"
            (turned,) = np.nonzero(fresh & kept)
            assert all((new.design.assignment[:layers][old.design.assignment[:layers] == s] == s).all() for s in turned)


def exchange_of(before, after) -> tuple[int, ...]:
    """The two tiles whose chiplets were exchanged, all else being equal; () if the individuals are equal."""
    a, b = before.design, after.design
    tiles = np.flatnonzero([genes(before.plan, s) != genes(after.plan, s) for s in range(S)])
    n = int((np.asarray(a.order) >= 0).sum())
    moved = np.flatnonzero(a.assignment[:n] != b.assignment[:n])
    tiles = sorted({*tiles.tolist(), *a.assignment[moved].tolist()})
    goes = np.arange(S)
    if tiles:
        assert len(tiles) == 2
        goes[tiles] = tiles[::-1]
    assert equal([a.order, a.mapping, before.plan.thrift], [b.order, b.mapping, after.plan.thrift])
    np.testing.assert_array_equal(
        np.where(b.assignment == a.assignment, goes[a.assignment], b.assignment), goes[a.assignment]
    )
    assert all(genes(before.plan, s) == genes(after.plan, goes[s]) for s in range(S))
    np.testing.assert_array_equal(after.plan.template, b.template)
    return tuple(tiles)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(seed=seeds, layers=st.integers(1, L), chips=chiplets, demands=demanded)
def test_two_chiplets_change_places_with_all_that_is_theirs(seed, layers, chips, demands):
    c = case(seed, layers, chips, demands=demands)
    for before, after in adjusted(seed, c, exchanging=1.0):
        assert broken(after.design, c.genetics) == []
        assert unfit(after.plan, c) == []
        tiles = exchange_of(before, after)
        loose = (before.plan.template >= 0) & (np.asarray(c.genetics.on_tile) < 0)
        assert loose[list(tiles)].all()
        if loose.sum() > 1:
            a, b = before.design.assignment[:layers], after.design.assignment[:layers]
            assert (a != b).any(), "every loose chiplet has layers, so that some of them move"


@settings(max_examples=10, deadline=None)
@given(seed=seeds, layers=st.integers(1, L), chips=chiplets, demands=demanded)
def test_a_chiplet_gives_all_its_layers_to_another(seed, layers, chips, demands):
    c = case(seed, layers, chips, demands=demands)
    on_tile, pin, able = (np.asarray(x) for x in (c.genetics.on_tile, c.genetics.pin, c.genetics.able))
    unique = np.asarray(c.genetics.unique)
    for before, after in adjusted(seed, c, merging=1.0):
        a, b = before.design, after.design
        assert broken(b, c.genetics) == []
        assert unfit(after.plan, c) == []
        possible = [
            (s, t)
            for s in np.flatnonzero((a.template >= 0) & (on_tile < 0))
            for t in np.flatnonzero(a.template >= 0)
            if s != t
            and all(able[i, a.template[t]] and pin[i] in (-1, t) for i in np.flatnonzero(a.assignment[:layers] == s))
        ]
        if equal(before, after):  # for example if no other chiplet runs the layers of the one that was drawn
            continue
        (source,) = np.flatnonzero(a.template != b.template)
        gone = np.flatnonzero(a.assignment[:layers] == source)
        (target,) = set(b.assignment[gone])
        assert (source, target) in possible and b.template[source] == -1
        np.testing.assert_array_equal(after.plan.size[target], need(c, after)[target])
        rest = np.arange(S) != target
        np.testing.assert_array_equal(after.plan.size[rest], before.plan.size[rest])
        others = np.setdiff1d(np.arange(layers), gone)
        assert equal([a.order, before.plan.weight], [b.order, after.plan.weight])
        assert equal([a.assignment[others], a.mapping[others]], [b.assignment[others], b.mapping[others]])
        size = need(c, before)[target]
        for i in gone:  # the best mapping that fits under some weight, or the smallest
            t, u = int(b.template[target]), int(unique[i])
            count = c.tables.count[u, t]
            fits = (np.asarray(c.plans.need)[t, :count, u] <= np.maximum(size, 0)).all(axis=1)
            if fits.any():
                assert any(
                    c.score(u, t, w)[b.mapping[i]] == c.score(u, t, w)[:count][fits].min() for w in range(len(WEIGHTS))
                )
                assert fits[b.mapping[i]]
            else:
                assert c.tables.objectives[u, t, b.mapping[i], 2] == c.tables.objectives[u, t, :count, 2].min()


def test_most_designs_of_several_chiplets_can_give_one_up():
    pairs = [pair for seed in range(3) for pair in adjusted(seed, merging=1.0)]
    several = [(before, after) for before, after in pairs if (before.plan.template >= 0).sum() > 1]
    assert sum(not equal(before, after) for before, after in several) == len(several) > BATCH


def adjusted(seed, c=C, **chosen):
    individuals = decode_all(random_plans(seed, c), c.genetics, c.plans)
    after = _ADJUST(keys(seed + 1), individuals, c.genetics, c.plans, rates(**chosen))
    return list(zip(each(individuals), each(after), strict=True))


def test_turning_gives_one_chiplet_another_template_and_moves_no_layer():
    turned = 0
    for before, after in adjusted(3, turning=1.0):
        a, b = before.design, after.design
        assert equal([a.order, a.assignment], [b.order, b.assignment])
        (tiles,) = np.nonzero(a.template != b.template)
        assert len(tiles) <= 1
        assert broken(b, C.genetics) == []
        turned += len(tiles)
    assert turned > BATCH // 4


def test_layers_of_a_turned_chiplet_take_the_best_that_fits_it():
    """Except the few layers that are remapped anyway, some of which take any mapping."""
    best = every = 0
    for seed in range(6):
        for before, after in adjusted(seed, turning=1.0, anything=1.0):
            a, b = before.design, after.design
            (tiles,) = np.nonzero(a.template != b.template)
            for i in np.flatnonzero(np.isin(b.assignment[: int(C.genetics.layers)], tiles)):
                t, u = b.template[b.assignment[i]], C.genetics.unique[i]
                scores = [C.score(int(u), int(t), w) for w in range(len(WEIGHTS))]
                needs = np.asarray(C.plans.need)[t, : C.tables.count[u, t], u]
                fits = (needs <= after.plan.size[b.assignment[i]]).all(axis=1)
                every += 1
                best += any(x[b.mapping[i]] == x[: len(fits)][fits].min() for x in scores)
    assert every > 50 and best > 0.6 * every


@pytest.mark.parametrize("demands", ["", "fc", "h"])
def test_single_chiplets_of_the_least_size_have_that_of_the_template_that_stands(demands):
    found = 0
    for seed in range(8):
        c = case(seed, demands=demands)
        drawn = _DRAW(keys(seed), c.genetics, c.plans)
        sampled = _SAMPLE(keys(seed), c.genetics, c.plans)
        for rough, plan in zip(each(drawn), each(sampled), strict=True):
            assert (plan.size >= 0).all()
            if (rough.size == LEAST).all():
                found += 1
                assert (rough.template >= 0).sum() <= 1
                least = np.asarray(c.plans.library)[np.maximum(plan.template, 0), -2]
                np.testing.assert_array_equal(plan.size, least)
            else:
                assert (rough.size >= 0).all()
    assert found > 2


def test_without_moving_and_swapping_layers_stay_and_take_the_best_that_fits():
    changed = 0
    for seed in range(12):
        for before, after in adjusted(seed, layers=16.0):
            a, b = before.design, after.design
            assert equal([a.order, a.assignment, a.template], [b.order, b.assignment, b.template])
            unique = np.asarray(C.genetics.unique)
            for i in np.flatnonzero(a.mapping != b.mapping):
                s, u = a.assignment[i], unique[i]
                t = a.template[s]
                fits = (np.asarray(C.plans.need)[t, :, u] <= before.plan.size[s]).all(axis=1)
                fits &= np.arange(ENTRIES) < C.tables.count[u, t]
                score = np.stack([C.score(u, t, w) for w in range(5)])
                assert fits[b.mapping[i]]
                assert (score[:, b.mapping[i]] == np.where(fits, score, np.inf).min(axis=1)).any()
                changed += 1
    assert changed > BATCH // 2


def test_layers_move_to_one_chiplet():
    moved, founded = 0, 0
    for seed in range(3):
        for before, after in adjusted(seed, layers=16.0, moving=1.0, founding=1.0):
            np.testing.assert_array_equal(before.design.order, after.design.order)
            elsewhere = before.design.assignment != after.design.assignment
            assert len(set(after.design.assignment[elsewhere])) <= 1
            new = (after.plan.template >= 0) & (before.plan.template < 0)
            assert set(np.flatnonzero(new)) <= set(after.design.assignment[elsewhere])
            if elsewhere.any() and (before.plan.template < 0).any():
                assert new.sum() == 1
            moved += elsewhere.any()
            founded += new.any()
    assert moved > BATCH and founded > BATCH // 2


def test_swapping_changes_the_order_alone():
    changed = 0
    for before, after in adjusted(3, layers=0.0, swapping=1.0):
        assert equal(before.design.assignment, after.design.assignment)
        changed += not equal(before.design.order, after.design.order)
        assert broken(after.design, C.genetics) == []
    assert changed > BATCH // 2


def test_any_mapping_can_be_drawn():
    drawn = set()
    for seed in range(6):
        for before, after in adjusted(seed, layers=16.0, anything=1.0):
            drawn |= set(after.design.mapping[before.design.mapping != after.design.mapping])
    assert len(drawn) > ENTRIES // 2


@pytest.mark.parametrize(("layers", "share"), [(1, 0.8), (5, 0.8), (8, 0.5), (16, 0.25), (400, 0.1)])
def test_the_fewer_layers_the_more_children_are_adjusted(layers, share):
    g = dataclasses.replace(C.genetics, layers=jnp.int32(layers))
    assert float(adjusting_share(rates(adjusting=0.1), g)) == pytest.approx(share)
    assert float(adjusting_share(rates(adjusting=0.9), g)) == pytest.approx(0.9)
    assert float(adjusting_share(rates(), g)) == 0


# ---------------------------------------------------------------- neighbours


_NEIGHBOUR = jax.jit(jax.vmap(neighbour, in_axes=(0, 0, None)))


def changes(before: Plan, after: Plan) -> list[tuple[str, int]]:
    """Fields and tiles (-1 for none) that differ between a plan and its neighbour."""
    differ = [("thrift", -1)] if before.thrift != after.thrift else []
    for name in ("template", "size", "weight"):
        own, new = getattr(before, name), getattr(after, name)
        rows = np.flatnonzero((own != new).reshape(len(own), -1).any(axis=1))
        differ += [(name, int(row)) for row in rows]
    return differ


@settings(max_examples=15, deadline=None)
@given(seed=seeds, chips=chiplets, demands=demanded)
def test_a_neighbour_differs_in_one_chiplet_or_in_thrift(seed, chips, demands):
    c = case(seed, chips=chips, demands=demands)
    plans = random_plans(seed, c)
    most = c.plans.fits.shape[3] - 1
    for before, after in zip(each(plans), each(_NEIGHBOUR(keys(seed + 1), plans, c.plans)), strict=True):
        differ = changes(before, after)
        assert len({tile for _, tile in differ}) <= 1
        if ("thrift", -1) in differ:
            continue
        assert (after.size >= 0).all() and (after.size <= most).all() and (after.template >= 0).any()
        for tile in {tile for _, tile in differ}:
            assert before.template[tile] >= 0, "an empty tile changed"
            if after.template[tile] < 0:
                assert differ == [("template", tile)]
                continue
            own = [name for name, _ in differ]
            copies = [
                k
                for k in range(S)
                if before.template[k] == after.template[tile]
                and np.array_equal(before.size[k], after.size[tile])
                and before.weight[k] == after.weight[tile]
            ]
            step = np.unique(np.abs(after.size[tile] - before.size[tile]))
            at_an_end = ((after.size[tile] == 0) | (after.size[tile] == most)).any()
            stepped = set(step) <= {0, 1, 2, 4, 8} or at_an_end
            assert copies or own == ["weight"] or (own == ["size"] and stepped)
    completed_too = completed_all(_NEIGHBOUR(keys(seed + 1), plans, c.plans), c.genetics)
    assert all(unfit(plan, c) == [] for plan in each(completed_too))


def test_every_kind_of_neighbour_is_drawn():
    c = case(5, blocked=False, chips=S)
    seen = set()
    for seed in range(40):
        plans = random_plans(seed, c)
        for before, after in zip(each(plans), each(_NEIGHBOUR(keys(seed + 1), plans, c.plans)), strict=True):
            differ = changes(before, after)
            if len(differ) == 1:
                (name, tile), moved = differ[0], None
                if name == "size":
                    step = after.size[tile] - before.size[tile]
                    moved = "all" if (step != 0).all() else "one" if np.count_nonzero(step) == 1 else "some"
                    moved += "up" if step.sum() > 0 else "down"
                seen.add((name, after.template[tile] < 0 if name == "template" else moved))
            elif len(differ) > 1:
                seen.add("copy")
    assert {
        ("thrift", None), ("weight", None), ("template", True), "copy", ("size", "oneup"), ("size", "onedown"),
        ("size", "allup"), ("size", "alldown"),
    } <= seen  # fmt: skip


def test_the_last_chiplet_stays():
    c = case(3, blocked=False, chips=1)
    for seed in range(20):
        plans = random_plans(seed, c)
        assert all((plan.template >= 0).sum() == 1 for plan in each(_NEIGHBOUR(keys(seed), plans, c.plans)))
