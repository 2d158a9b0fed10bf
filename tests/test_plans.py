"""Plans: the sets of mappings that fit a chiplet, and the decoding of plans into designs, against plain NumPy."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_cases import BATCH, ENTRIES, S, T, U, broken, case, decode_all, each, kinds, random_plans, sets

from mohamjax.problem.list_scheduling import padded_rows
from mohamjax.problem.plan_tables import WEIGHTS, plan_tables
from mohamjax.problem.space import Kinds, immediate, random_orders
from mohamjax.runtime.platforms import traced
from mohamjax.search.operators import scheduling_mutation
from mohamjax.search.plans import THRIFT, Plan, Planned, decode, fitting, placed, plan_of

seeds = st.integers(0, 2**16)
demanded = st.sampled_from(["", "f", "fc", "fcp", "h", "ch"])


def unpacked(tables) -> np.ndarray:
    """`[T, W, C, R, U, M]` bool: whether the p-th best mapping is in the set of a threshold."""
    words = np.asarray(tables.fits)[..., None] >> np.arange(32, dtype=np.uint32) & 1  # [T, W, C, R, B, U, 32]
    words = np.moveaxis(words, 5, 4)
    return words.reshape(*words.shape[:5], -1).astype(bool)


# ---------------------------------------------------------------- tables


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_sets_hold_the_mappings_that_pass_no_threshold_by_rising_score(seed):
    c = case(seed)
    held, ranked, need = unpacked(c.plans), np.asarray(c.plans.ranked), np.asarray(c.plans.need)
    thresholds = np.arange(held.shape[3])
    assert held.shape[-1] == 64
    for t, u in np.ndindex(T, U):
        n = c.tables.count[u, t]
        area = c.tables.objectives[u, t, :n, 2]
        for w in range(len(WEIGHTS)):
            order = ranked[t, w, :n, u]
            assert sorted(order) == list(range(n))
            score = c.score(u, t, w)[order]
            assert (np.diff(score) >= 0).all()
            tied = np.diff(score) == 0
            assert (np.diff(area[order])[tied] >= 0).all()
            within = need[t, order, u].T[:, None] <= thresholds[:, None]  # [C, R, n]
            np.testing.assert_array_equal(held[t, w, :, :, u, :n], within)
            assert not held[t, w, :, :, u, n:].any()
        if n:
            assert area[c.plans.smallest[t, u]] == area.min()


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_a_need_is_the_least_threshold_that_is_not_passed(seed):
    c = case(seed)
    exists = np.arange(ENTRIES) < c.tables.count[..., None]
    need = np.asarray(c.plans.need)
    for t in range(T):
        values = c.values(t)[exists[:, t]]  # [n, columns]
        differ = [column for column in values.T if len(set(column)) > 1]
        got = need[t].swapaxes(0, 1)[exists[:, t]].T  # [C, n]
        assert not got[len(differ) :].any()
        for column, own in zip(differ, got, strict=False):
            seen = np.unique(column)
            thresholds = seen[np.linspace(0, len(seen) - 1, min(64, len(seen))).round().astype(int)]
            assert (column <= thresholds[own]).all()
            assert (column > np.append(-np.inf, thresholds)[own]).all()


def test_time_energy_and_smallest_are_those_of_the_tables():
    c = case(1)
    exists = np.moveaxis(np.arange(ENTRIES) < c.tables.count[..., None], 0, -1)  # [T, M, U]
    time, energy = np.moveaxis(c.duration, 0, -1), np.moveaxis(c.tables.objectives[..., 1], 0, -1)
    np.testing.assert_array_equal(np.asarray(c.plans.time)[exists], time[exists].astype(np.float32))
    np.testing.assert_allclose(np.asarray(c.plans.log_energy)[exists], np.log(energy[exists]), rtol=1e-6)
    assert np.isinf(np.asarray(c.plans.time)[~exists]).all() and np.isinf(np.asarray(c.plans.log_energy)[~exists]).all()


@settings(max_examples=5, deadline=None)
@given(seed=seeds)
def test_sizes_of_the_library_run_what_their_template_runs(seed):
    """Under every weight, the sizes of the largest cap and the largest size let each layer have its best mapping.

    The last two sizes are the least size that holds all layers (0 if there is none) and the largest size.
    """
    c = case(seed)
    library = np.asarray(c.plans.library)
    for t in range(T):
        able = c.tables.count[:, t] > 0
        for w in range(len(WEIGHTS)):
            best, found = FITTING(
                jnp.full(library.shape[1], t), jnp.asarray(library[t]), jnp.full(library.shape[1], w), c.plans
            )
            found = np.asarray(found)
            assert found[-len(WEIGHTS) - 2 : -2, able].all() and found[-1, able].all() and not found[:, ~able].any()
            for u in np.flatnonzero(able):
                score = c.score(u, t, w)
                # Rows are ordered by cap, and within a cap by weight.
                assert score[np.asarray(best)[-len(WEIGHTS) - 2 + w, u]] == score.min()
                assert score[np.asarray(best)[-1, u]] == score.min()
        assert (library[t, -1] >= library[t]).all()


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_the_least_size_is_that_of_the_smallest_mapping_whose_hardware_holds_every_layer(seed):
    c = case(seed)
    needs = np.asarray(c.plans.need)
    for t in range(T):
        own = [needs[t, : c.tables.count[u, t], u] for u in range(U) if c.tables.count[u, t]]
        areas = [c.tables.objectives[u, t, : c.tables.count[u, t], 2] for u in range(U) if c.tables.count[u, t]]
        holding = [
            (area, tuple(size))
            for some, least in zip(own, areas, strict=True)
            for size, area in zip(some, least, strict=True)
            if all((other <= size).all(axis=1).any() for other in own)
        ]
        found = tuple(np.asarray(c.plans.library)[t, -2])
        if holding:
            assert (min(holding)[0], found) in holding
        else:
            assert not any(found)


def test_sizes_mean_the_same_over_tables_that_have_grown():
    """A new mapping changes no need of an earlier one, even if it is smaller or larger than all of them."""
    c = case(3)
    count = np.where(c.tables.count > 2, c.tables.count - 2, c.tables.count).astype(np.int32)
    before = dataclasses.replace(c.tables, count=count)
    first, grown = plan_tables(before, c.duration), plan_tables(c.tables, c.duration, before)
    assert jax.tree.map(jnp.shape, first) == jax.tree.map(jnp.shape, grown)
    old = np.moveaxis(np.arange(ENTRIES) < count[..., None], 0, -1)
    np.testing.assert_array_equal(np.asarray(grown.need)[old], np.asarray(first.need)[old])
    assert np.asarray(grown.need).max() < first.fits.shape[3]


# ---------------------------------------------------------------- what fits

SWAPPED = jax.jit(jax.vmap(scheduling_mutation, in_axes=(0, 0, None)))
FITTING = jax.jit(fitting)


@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_the_best_mapping_that_fits_is_found(seed):
    """Compared with a search over all mappings that checks each capacity and fanout against the threshold's value."""
    c = case(seed)
    rng = np.random.default_rng(seed)
    template, weight = rng.integers(0, T, S), rng.integers(0, len(WEIGHTS), S)
    size = rng.integers(0, 64, (S, c.plans.need.shape[3]))
    # A component with few values has few thresholds, so half of the sizes are drawn from the first 12.
    size[:, 1:] = np.where(rng.random((S, size.shape[1] - 1)) < 0.5, size[:, 1:] % 12, size[:, 1:])
    got, found = (
        np.asarray(x) for x in FITTING(*(jnp.asarray(x, jnp.int32) for x in (template, size, weight)), c.plans)
    )
    for s, (t, w) in enumerate(zip(template, weight, strict=True)):
        values = c.values(t)
        exists = np.arange(ENTRIES) < c.tables.count[:, t, None]
        columns = [k for k in range(values.shape[2]) if len(set(values[exists][:, k])) > 1]
        limit = np.full(values.shape[2], np.inf)
        for component, k in enumerate(columns):
            seen = np.unique(values[exists][:, k])
            thresholds = seen[np.linspace(0, len(seen) - 1, min(64, len(seen))).round().astype(int)]
            limit[k] = thresholds[min(size[s, component], len(thresholds) - 1)]
        for u in range(U):
            fits = np.flatnonzero(exists[u] & (values[u] <= limit).all(axis=1))
            assert found[s, u] == (len(fits) > 0)
            area = c.tables.objectives[u, t, :, 2]
            if len(fits):
                score = c.score(u, t, w)
                assert got[s, u] in fits and score[got[s, u]] == score[fits].min()
                assert area[got[s, u]] == area[fits][score[fits] == score[fits].min()].min()
            elif exists[u].any():
                assert exists[u, got[s, u]] and area[got[s, u]] == area[exists[u]].min()


# ---------------------------------------------------------------- decoding


@settings(max_examples=15, deadline=None)
@given(seed=seeds, layers=st.integers(1, 16), chips=st.integers(1, S), demands=demanded)
def test_decoded_plans_are_valid_designs(seed, layers, chips, demands):
    c = case(seed, layers, chips, demands=demands)
    plans = random_plans(seed, c)
    for before, individual in zip(each(plans), each(decode_all(plans, c.genetics, c.plans)), strict=True):
        plan, design = individual.plan, individual.design
        assert broken(design, c.genetics) == []
        np.testing.assert_array_equal(plan.template, design.template)
        stands = design.template >= 0
        np.testing.assert_array_equal(design.template[stands], before.template[stands])
        np.testing.assert_array_equal(plan.weight, before.weight)
        assert plan.thrift == before.thrift


def chosen(individual, c):
    """Unique layer, template, mapping and weight of every layer that exists."""
    design, n = individual.design, int(c.genetics.layers)
    tile = design.assignment[:n]
    return np.asarray(c.genetics.unique)[:n], design.template[tile], design.mapping[:n], individual.plan.weight[tile]


@settings(max_examples=15, deadline=None)
@given(seed=seeds, demands=demanded)
def test_no_layer_has_a_better_mapping_that_would_fit(seed, demands):
    """The size of a chiplet is what its layers' mappings need, in every capacity and fanout."""
    c = case(seed, demands=demands)
    plans = random_plans(seed, c)
    for individual in each(decode_all(plans, c.genetics, c.plans)):
        tile = individual.design.assignment[: int(c.genetics.layers)]
        u, t, m, w = chosen(individual, c)
        own = np.stack([c.values(b)[a, x] for a, b, x in zip(u, t, m, strict=True)])
        need = np.asarray(c.plans.need)[t, m, u]
        for s in np.unique(tile):
            here = np.flatnonzero(tile == s)
            hardware = own[here].max(axis=0)
            assert (individual.plan.size[s] >= need[here].max(axis=0)).all()
            for i in here:
                score = c.score(u[i], t[i], w[i])
                fits = (c.values(t[i])[u[i]] <= hardware).all(axis=1) & np.isfinite(score)
                assert score[m[i]] == score[fits].min()


@settings(max_examples=15, deadline=None)
@given(seed=seeds, demands=demanded)
def test_layers_go_where_finish_time_and_energy_are_least(seed, demands):
    """List scheduling step by step in double precision: given the earlier choices, each choice is the best one."""
    c = case(seed, demands=demands)
    g, n = c.genetics, int(c.genetics.layers)
    plans = random_plans(seed, c)
    unique, able, pin = np.asarray(g.unique), np.asarray(g.able), np.asarray(g.pin)
    for plan, individual in zip(each(plans), each(decode_all(plans, g, c.plans)), strict=True):
        template = np.maximum(plan.template, 0)
        mapping, found = (np.asarray(x) for x in FITTING(template, plan.size, plan.weight, c.plans))
        runs = (plan.template >= 0) & able[:, template] & ((pin[:, None] < 0) | (pin[:, None] == np.arange(S)))
        fits = runs & found.T[unique]
        possible = np.where(fits.any(axis=1, keepdims=True), fits, runs)[:n]
        u = unique[:n, None]
        time = np.where(possible, c.duration[u, template, mapping.T[unique[:n]]], np.inf)
        energy = np.where(possible, c.tables.objectives[u, template, mapping.T[unique[:n]], 1], 1.0)
        rank = np.zeros(n)
        for i in reversed(range(n)):
            after = [j for j in np.asarray(g.successors)[i] if j >= 0]
            rank[i] = time[i][possible[i]].mean() + max(rank[after], default=0.0)
        order, tile = individual.design.order[:n], individual.design.assignment
        assert (np.diff(rank[order]) <= 1e-5 * rank.max()).all()
        free, end = np.zeros(S), np.zeros(n)
        for i in order:
            ready = max((end[p] for p in np.asarray(g.predecessors)[i] if p >= 0), default=0.0)
            finish = np.maximum(free, ready) + time[i]
            value = np.log(finish) + THRIFT[plan.thrift] * np.log(energy[i])
            assert possible[i, tile[i]] and value[tile[i]] <= value.min() + 2e-5 * (1 + abs(value.min()))
            free[tile[i]] = end[i] = finish[tile[i]]


@settings(max_examples=10, deadline=None)
@given(seed=seeds)
def test_a_layer_that_fits_nowhere_gets_its_smallest_mapping_and_the_chiplet_grows(seed):
    """One chiplet of the least size: layers that do not fit take their smallest mapping, or a better one."""
    c = case(seed, chips=1)
    plan = dataclasses.replace(
        each(random_plans(seed, c))[1], template=np.full(S, -1, np.int32), size=np.zeros((S, 8), np.int32)
    )
    plan.template[2] = 1
    same = jax.tree.map(lambda x: np.broadcast_to(x, (BATCH, *np.shape(x))), plan)
    individual = each(decode_all(same, c.genetics, c.plans))[0]
    found = np.asarray(FITTING(np.ones(S, np.int32), plan.size, plan.weight, c.plans)[1])[2]
    need, smallest = np.asarray(c.plans.need)[1], np.asarray(c.plans.smallest)[1]
    alien = [u for u in set(np.asarray(c.genetics.unique)[: int(c.genetics.layers)]) if not found[u]]
    assert alien, "the least values of all components together are nobody's"
    size = individual.plan.size[2]
    np.testing.assert_array_equal(size, np.max([need[smallest[u], u] for u in alien], axis=0))
    for u, t, m, w in zip(*chosen(individual, c), strict=True):
        assert t == 1 and c.score(u, t, w)[m] <= c.score(u, t, w)[smallest[u]]
        assert (need[m, u] <= size).all()


# When nothing fits, the decoded design must not depend on padded layers or empty entries.


@settings(max_examples=10, deadline=None)
@given(seed=seeds, demands=demanded)
def test_padding_changes_nothing(seed, demands):
    c = case(seed, demands=demands)
    g = c.genetics
    plans = random_plans(seed, c)
    more = 5

    def longer(leaf, fill):
        leaf = np.asarray(leaf)
        return jnp.asarray(np.pad(leaf, [(0, more)] + [(0, 0)] * (leaf.ndim - 1), constant_values=fill))

    of_layer = longer(g.kinds.of_layer, len(g.kinds.number) - 1)
    padded = dataclasses.replace(
        g, unique=longer(g.unique, 2), able=longer(g.able, False), pin=longer(g.pin, -1),
        predecessors=longer(g.predecessors, -1), successors=longer(g.successors, -1),
        kinds=dataclasses.replace(g.kinds, of_layer=of_layer),
    )  # fmt: skip
    # Different garbage in the unused entries, and more of them.
    other, _ = sets(seed + 1, np.zeros((U, T), np.int32), 60)
    exists = np.arange(60) < c.tables.count[..., None]
    mixed = {"count": c.tables.count, "cycles": np.zeros(exists.shape)}
    for name in ("objectives", "capacity", "fanout"):
        values = getattr(other, name).copy()
        values[exists] = getattr(c.tables, name)[exists[..., :ENTRIES]]
        mixed[name] = values
    duration = np.full(exists.shape, np.nan)
    duration[exists] = c.duration[exists[..., :ENTRIES]]
    roomy = plan_tables(dataclasses.replace(c.tables, **mixed), duration)
    n = int(g.layers)
    for a, b in zip(each(decode_all(plans, g, c.plans)), each(decode_all(plans, padded, roomy)), strict=True):
        for one, two in zip(jax.tree.leaves(a.plan), jax.tree.leaves(b.plan), strict=True):
            np.testing.assert_array_equal(one, two)
        for name in ("order", "assignment", "mapping"):
            np.testing.assert_array_equal(getattr(a.design, name)[:n], getattr(b.design, name)[:n])
        np.testing.assert_array_equal(b.design.order[n:], np.arange(n, 16 + more))
        assert not b.design.mapping[n:].any()


@settings(max_examples=15, deadline=None)
@given(seed=seeds, demands=demanded)
def test_kinds_and_immediate_predecessors_change_nothing(seed, demands):
    """Equal to the bit: layers that share kinds or have one each, and all predecessors or only the immediate ones."""
    c = case(seed, demands=demands)
    g, n = c.genetics, int(c.genetics.layers)
    plans = random_plans(seed, c)
    unique, able, pin = (np.asarray(x) for x in (g.unique, g.able, g.pin))
    room = np.asarray(g.kinds.number).size
    assert room > n
    alone = Kinds(  # of the same shapes, so that nothing is compiled again
        of_layer=jnp.where(jnp.arange(16) < n, jnp.arange(16), room - 1),
        number=jnp.asarray(np.arange(room) < n, jnp.int32),
        unique=jnp.asarray(np.resize(np.where(np.arange(16) < n, unique, 0), room)),
        able=jnp.asarray(np.concatenate([able, np.zeros((room - 16, T), bool)])),
        pin=jnp.asarray(np.resize(pin, room)),
    )
    before = immediate([[int(p) for p in row if p >= 0] for row in np.asarray(g.predecessors)[:n]])
    after = [[j for j in range(n) if i in before[j]] for i in range(n)]
    few = {"predecessors": padded_rows(before, 16, -1), "successors": padded_rows(after, 16, -1)}
    lists = {
        name: jnp.asarray(np.pad(rows, ((0, 0), (0, g.predecessors.shape[1] - rows.shape[1])), constant_values=-1))
        for name, rows in few.items()
    }
    other = dataclasses.replace(g, kinds=alone, **lists)
    keys = jax.random.split(jax.random.key(seed), BATCH)
    results = [decode_all(plans, g, c.plans), decode_all(plans, other, c.plans)]
    for one, two in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(one, two)
    designs = results[0].design
    for one, two in zip(*(jax.tree.leaves(SWAPPED(keys, designs, x)) for x in (g, other)), strict=True):
        np.testing.assert_array_equal(one, two)
    orders = [random_orders(keys[0], x.predecessors, x.layers, count=8) for x in (g, other)]
    np.testing.assert_array_equal(*orders)


@pytest.mark.slow
def test_a_decoded_plan_is_the_same_without_jit():
    c = case(4, demands="fcp")
    plans = random_plans(4, c)
    compiled = each(decode_all(plans, c.genetics, c.plans))[1]
    (plain,) = each(decode(jax.tree.map(lambda leaf: leaf[1:2], plans), c.genetics, c.plans))
    for one, two in zip(jax.tree.leaves(compiled), jax.tree.leaves(plain), strict=True):
        np.testing.assert_array_equal(one, two)


PLAN_OF = jax.jit(jax.vmap(plan_of, in_axes=(0, None, None)))


@settings(max_examples=10, deadline=None)
@given(seed=seeds, demands=demanded)
def test_a_plan_of_a_design_has_the_sizes_of_its_chiplets(seed, demands):
    c = case(seed, demands=demands)
    rng = np.random.default_rng(seed)
    designs = jax.device_get(decode_all(random_plans(seed, c), c.genetics, c.plans)).design
    # Arbitrary mappings, not the best that fit.
    n, unique = int(c.genetics.layers), np.asarray(c.genetics.unique)
    count = c.tables.count[unique, np.take_along_axis(designs.template, designs.assignment, axis=1)]
    wild = np.where(np.arange(16) < n, rng.integers(0, 1000, designs.mapping.shape) % np.maximum(count, 1), 0)
    designs = dataclasses.replace(designs, mapping=wild.astype(np.int32))
    need = np.asarray(c.plans.need)
    for design, planned in zip(each(designs), each(PLAN_OF(designs, c.genetics, c.plans)), strict=True):
        for one, two in zip(jax.tree.leaves(design), jax.tree.leaves(planned.design), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(planned.plan.template, design.template)
        for s in range(S):
            here = np.flatnonzero(design.assignment[:n] == s)
            rows = need[design.template[s], design.mapping[here], unique[here]]
            np.testing.assert_array_equal(planned.plan.size[s], rows.max(axis=0, initial=0))
        assert ((planned.plan.weight >= 0) & (planned.plan.weight < len(WEIGHTS))).all()


# ---------------------------------------------------------------- tables at the edge


@pytest.mark.parametrize("entries", [1, 31, 32, 33, 64, 65])
def test_any_number_of_mappings(entries):
    count = np.full((2, 1), entries, np.int32)
    tables, duration = sets(entries, count, entries)
    plans = plan_tables(tables, duration)
    assert plans.fits.shape[4] == -(-entries // 32)
    held = unpacked(plans)
    assert held[..., :entries].any(axis=3).all() and not held[..., entries:].any()
    template, size = jnp.zeros(1, jnp.int32), jnp.full((1, plans.need.shape[3]), 63)
    for w in range(len(WEIGHTS)):
        best, found = fitting(template, size, jnp.full(1, w), plans)
        assert np.asarray(found).all()
        np.testing.assert_array_equal(best[0], np.asarray(plans.ranked)[0, w, 0])
        # The last mapping by score.
        last = np.asarray(plans.ranked)[0, w, -1, 0]
        need = np.asarray(plans.need)[0, last, 0]
        assert held[0, w, :, :, 0][np.arange(len(need)), need][:, entries - 1].all()


@pytest.mark.parametrize("what", ["energy", "duration", "both"])
def test_what_costs_nothing_is_the_best_there_is(what):
    """Zeros have no logarithm but must be ordered: no score is NaN, whatever its weight."""
    count = np.full((2, 2), 6, np.int32)
    tables, duration = sets(5, count, 8)
    if what != "duration":
        tables.objectives[:, 1, 3, 1] = 0
    if what != "energy":
        duration[:, 1, 3] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plans = plan_tables(tables, duration)
    for leaf in (plans.log_energy, plans.time):
        assert np.isfinite(np.asarray(leaf)[:, :6]).all()
    first = np.asarray(plans.ranked)[1, :, 0]  # [W, U]
    assert (first[1:-1] == 3).all()
    assert (first[0] == 3).all() or what == "duration"
    assert (first[-1] == 3).all() or what == "energy"
    if what == "energy":
        assert (duration[np.arange(2), 1, first[-1]] == duration[:, 1, :6].min(axis=1)).all()


def test_layers_that_one_template_runs_go_there():
    """One template runs nothing at all, and only one template runs the first layer."""
    c = case(6, blocked=False)
    count = c.tables.count.copy()
    count[:, 2] = 0
    count[int(c.genetics.unique[0]), 0] = 0
    tables = dataclasses.replace(c.tables, count=count)
    unique, n = np.asarray(c.genetics.unique), int(c.genetics.layers)
    able = (count[unique] > 0) & (np.arange(16) < n)[:, None]
    g = dataclasses.replace(
        c.genetics, count=jnp.asarray(count), able=jnp.asarray(able), kinds=kinds(n, unique, able, c.genetics.pin)
    )
    only = dataclasses.replace(c, genetics=g, plans=plan_tables(tables, c.duration), tables=tables)
    assert np.isfinite(np.asarray(only.plans.library)).all()
    for individual in each(decode_all(random_plans(6, only), g, only.plans)):
        assert isinstance(individual, Planned) and isinstance(individual.plan, Plan)
        assert broken(individual.design, g) == []
        same = unique[:n] == unique[0]
        assert (individual.design.template[individual.design.assignment[:n]][same] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["cpu", "wide"])
def test_what_waits_for_a_layer_that_runs_nowhere_takes_no_time_from_others(form):
    """Layer 1 waits for layer 0, which runs nowhere; layers 2 and 3 are placed as if they were alone."""
    c = case(0)
    layers = c.genetics.unique.shape[0]
    predecessors = np.full(c.genetics.predecessors.shape, -1, np.int32)
    predecessors[1, 0] = 0
    genetics = dataclasses.replace(c.genetics, layers=jnp.int32(4), predecessors=jnp.asarray(predecessors))
    times = np.full((1, layers, 2), np.inf, np.float32)
    times[0, 1:4] = [[1, 2], [2, 3], [2, 3]]
    order = np.arange(layers, dtype=np.int32)[None]
    with traced(form):
        tile = jax.jit(placed)(order, times, np.zeros_like(times), np.arange(layers), genetics)
    assert np.asarray(tile)[0, :4].tolist() == [0, 0, 0, 1]
