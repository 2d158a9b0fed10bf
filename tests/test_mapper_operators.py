"""MEDEA's operators: what each does, and that none of them ever leaves the map space."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import LEVELS, TEMPLATES, quick_jit, random_shape, space, violations

from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.mapping_operators import (
    STEPS,
    Draft,
    crossover,
    fill,
    grow,
    mended,
    mutate,
    neighbour,
    neighbours,
    parallelise,
    random_draft,
    vary,
)
from mohamjax.mapping.space import (
    admits,
    decode,
    extents,
    nest,
    overflows,
    prime_factors,
    sample,
    slot_factors,
    tile_words,
)
from mohamjax.runtime.platforms import traced
from mohamjax.workload import DIMS, WorkloadShape

SEEDS = st.integers(0, 2**31 - 1)
WHERE = st.integers(0, len(TEMPLATES) - 1)
COUNT = 8
TOY = 3  # every loop everywhere, buffers of 2^30 words


@quick_jit
def samples(key, problem):
    return jax.vmap(sample, in_axes=(0, None))(jax.random.split(key, COUNT), problem)


def over(operator):
    """An operator over COUNT individuals or pairs, jitted."""
    return quick_jit(lambda key, *genes_and_rest: _over(operator, key, *genes_and_rest))


def _over(operator, key, *args):
    *genes, problem = args
    keys = jax.random.split(key, COUNT)
    return jax.vmap(lambda k, g: operator(k, *g, problem))(keys, tuple(genes))


crossover_all, fill_all, mutate_all, parallelise_all = (over(f) for f in (crossover, fill, mutate, parallelise))
admits_one, nest_one = quick_jit(admits), quick_jit(nest)
decode_all = quick_jit(jax.vmap(decode, in_axes=(0, None)))
factors_all = quick_jit(jax.vmap(slot_factors, in_axes=(0, None)))
extents_all = quick_jit(jax.vmap(extents, in_axes=(0, None)))
tiles = quick_jit(lambda slot, problem: jax.vmap(lambda s: tile_words(extents(s, problem), problem))(slot))


@quick_jit
def drafts_all(key, a, b, problem, rates):
    keys = jax.random.split(key, COUNT)
    return jax.vmap(vary, in_axes=(0, 0, 0, None, None))(keys, a, b, problem, rates)


grow_all = quick_jit(grow)


def vary_all(key, a, b, problem, rates):
    return tuple(grow_all(draft, problem) for draft in drafts_all(key, a, b, problem, rates))


def rates(**given):
    names = ("crossover", "random", "fill", "parallelise")
    return MapperRates(**{name: np.float32(given.get(name, 0.0)) for name in names})


def row(tree, i):
    return jax.tree.map(lambda leaf: np.asarray(leaf[i]), tree)


def equal(a, b):
    return all((np.asarray(x) == np.asarray(y)).all() for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, template=WHERE)
def test_every_operator_keeps_every_rule(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    problem = space(template, shape)
    a, b = (samples(jax.random.key(seed + i), problem) for i in range(2))
    key = jax.random.key(seed)
    results = [
        *crossover_all(key, a, b, problem),
        *(operator(key, a, problem) for operator in (mutate_all, fill_all, parallelise_all)),
        *vary_all(key, a, b, problem, rates(**dataclasses.asdict(MapperRates()))),
    ]
    for genes in results:
        mappings = jax.device_get(decode_all(genes, problem))
        for i in range(COUNT):
            assert violations(row(mappings, i), template, shape) == []


def compensated(own, other, level, outermost):
    """Plain level crossover of factors `[3, L, D]`.

    Per dimension and prime, what the changed level gains is taken from the outermost loops inwards (temporal, Y, X of
    each other level), and what it loses multiplies the outermost loop.
    """
    out = own.copy()
    out[:, level] = other[:, level]
    slots = [(axis, lv) for lv in range(LEVELS - 1, -1, -1) for axis in (0, 2, 1) if lv != level]
    for d in range(8):
        for p in {p for f in own[:, :, d].ravel() for p in prime_factors(int(f))}:

            def power(factors, d=d, p=p):
                return sum(prime_factors(int(f)).count(p) for f in factors[:, level, d])

            surplus = power(other) - power(own)
            if surplus < 0:
                out[0, outermost, d] *= p**-surplus
            for axis, lv in slots:
                while surplus > 0 and out[axis, lv, d] % p == 0:
                    out[axis, lv, d] //= p
                    surplus -= 1
    return out


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_crossover_exchanges_one_level_and_compensates_from_dram_inwards(seed):
    problem = space(TOY, random_shape(np.random.default_rng(seed)))
    parents = [samples(jax.random.key(seed + i), problem) for i in range(2)]
    children = crossover_all(jax.random.key(seed), *parents, problem)
    outermost = int(problem.outermost)
    old, new = (
        [np.asarray(factors_all(g.slot, problem)).reshape(-1, 3, LEVELS, 8) for g in x] for x in (parents, children)
    )
    orders = [np.asarray(g.order) for g in (*parents, *children)]
    for i in range(COUNT):
        # Both children come from one level; no buffer is small enough here for an eviction.
        assert any(
            all(
                (new[k][i] == compensated(old[k][i], old[1 - k][i], level, outermost)).all()
                and (orders[2 + k][i, level] == orders[1 - k][i, level]).all()
                and (np.delete(orders[2 + k][i], level, 0) == np.delete(orders[k][i], level, 0)).all()
                for k in range(2)
            )
            for level in range(outermost)
        )


def test_crossover_takes_a_grown_factor_from_the_outermost_level_first():
    problem = space(TOY, WorkloadShape(K=8, C=8))
    blank = row(samples(jax.random.key(0), problem), 0)
    outermost, primes = int(problem.outermost), blank.slot.shape[0]

    def genes(k, c):
        slot = np.full(primes, outermost, np.int32)
        slot[:3], slot[3:6] = k, c
        return dataclasses.replace(blank, slot=slot)

    own = genes([1, outermost, outermost], [1, 1, outermost])
    other = genes([0, 0, outermost], [0, 0, 0])
    seen = set()
    for seed in range(12):
        child, _ = quick_jit(crossover)(jax.random.key(seed), own, other, problem)
        factors = np.asarray(slot_factors(child.slot, problem))
        k, c = factors[:, 2], factors[:, 3]
        if k[0] == 4:  # level 0 came over
            assert (k[1], k[outermost]) == (2, 1)  # both grown primes of K came from the outermost level
            assert (c[0], c[1], c[outermost]) == (8, 1, 1)  # C needed all of them
            seen.add(0)
        else:  # level 1 came over: it holds nothing, and its factors went to the outermost level
            assert (k[1], k[outermost], c[1], c[outermost]) == (1, 8, 1, 8)
            seen.add(1)
    assert seen == {0, 1}


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, template=WHERE)
def test_mutation_swaps_two_loops_or_moves_one_prime(seed, template):
    problem = space(template, random_shape(np.random.default_rng(seed)))
    before = samples(jax.random.key(seed), problem)
    after = mutate_all(jax.random.key(seed), before, problem)
    moved = (np.asarray(before.slot) != np.asarray(after.slot)).sum(axis=1)
    swapped = (np.asarray(before.order) != np.asarray(after.order)).sum(axis=(1, 2))
    assert np.isin(moved, [0, 1]).all() and np.isin(swapped, [0, 2]).all()
    assert not ((moved > 0) & (swapped > 0)).any()
    factors = np.asarray(factors_all(before.slot, problem))
    for i, level in zip(*np.nonzero((np.asarray(before.order) != np.asarray(after.order)).any(axis=2)), strict=True):
        places = np.asarray(before.order)[i, level] != np.asarray(after.order)[i, level]
        assert (factors[i, level, np.asarray(before.order)[i, level][places]] > 1).all()


def test_mutation_does_both_kinds():
    problem = space(TOY, WorkloadShape(K=16, C=12, P=14))
    before = samples(jax.random.key(0), problem)
    after = mutate_all(jax.random.key(1), before, problem)
    assert 0 < (np.asarray(before.slot) != np.asarray(after.slot)).any(axis=1).sum() < COUNT
    assert 0 < (np.asarray(before.order) != np.asarray(after.order)).any(axis=(1, 2)).sum() < COUNT


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, template=WHERE)
def test_fill_grows_one_temporal_loop(seed, template):
    problem = space(template, random_shape(np.random.default_rng(seed)))
    before = samples(jax.random.key(seed), problem)
    after = fill_all(jax.random.key(seed), before, problem)
    assert equal((before.order, before.spatial_order), (after.order, after.spatial_order))
    old, new = np.asarray(before.slot), np.asarray(after.slot)
    keep, words = np.asarray(problem.constraints.keep), [np.asarray(tiles(g, problem)) for g in (old, new)]
    for i in range(COUNT):
        moved = np.flatnonzero(old[i] != new[i])
        if moved.size:
            (level,), dims = set(new[i, moved]), set(np.asarray(problem.dim)[moved])
            assert len(dims) == 1 and level < int(problem.outermost)
            assert ((old[i, moved] > level) & (old[i, moved] < LEVELS)).all()  # from temporal loops outside
            assert words[1][i, level, keep[level]].sum() > words[0][i, level, keep[level]].sum()


def test_fill_in_a_row_leaves_no_room():
    problem = space(4, WorkloadShape(K=64, C=64, N=8))  # 8 words innermost, 64 in the next buffer
    genes = samples(jax.random.key(0), problem)
    for seed in range(60):
        genes = fill_all(jax.random.key(seed), genes, problem)
    for slot in np.asarray(genes.slot):
        state = nest_one(jnp.asarray(slot), problem)
        for index in np.flatnonzero((slot < LEVELS) & (np.asarray(problem.prime) > 1)):
            assert not np.asarray(admits_one(state, jnp.int32(index), problem))[: slot[index]].any()


def test_fill_prefers_inner_levels():
    problem = space(TOY, WorkloadShape(K=64, C=64))
    slot = jnp.full((COUNT, problem.prime.shape[0]), problem.outermost)
    before = dataclasses.replace(samples(jax.random.key(0), problem), slot=slot)
    counts = np.zeros(2, int)
    for seed in range(25):
        after = np.asarray(fill_all(jax.random.key(seed), before, problem).slot)
        counts += [int((after == level).any(axis=1).sum()) for level in range(2)]
    # Two storing levels: level 0 unless an exponential of rate 3.5 exceeds a half, i.e. in 1 - exp(-1.75) = 83 %.
    assert counts.sum() == 25 * COUNT
    assert 0.74 < counts[0] / counts.sum() < 0.92


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, template=WHERE)
def test_parallelise_turns_temporal_loops_into_spatial_ones(seed, template):
    problem = space(template, random_shape(np.random.default_rng(seed)))
    before = samples(jax.random.key(seed), problem)
    after = parallelise_all(jax.random.key(seed), before, problem)
    old, new = np.asarray(before.slot), np.asarray(after.slot)
    moved = old != new
    assert (old[moved] < LEVELS).all() and (new[moved] >= LEVELS).all()
    assert equal((before.order, before.spatial_order), (after.order, after.spatial_order))


def test_parallelise_in_a_row_fills_the_array_of_simba():
    problem = space(1, WorkloadShape(K=64, C=64, P=8))
    slot = jnp.full((COUNT, problem.prime.shape[0]), problem.outermost)
    genes = dataclasses.replace(samples(jax.random.key(0), problem), slot=slot)
    width = [np.ones(COUNT)]
    for seed in range(12):
        genes = parallelise_all(jax.random.key(seed), genes, problem)
        width.append(np.asarray(factors_all(genes.slot, problem))[:, LEVELS:].prod(axis=(1, 2)))
    assert (np.diff(width, axis=0) >= 0).all()
    assert (width[-1] >= 1024).all() and width[-1].max() == 4096


def test_rates_of_zero_leave_the_parents_alone():
    problem = space(TOY, WorkloadShape(K=16, C=12))
    a, b = (samples(jax.random.key(i), problem) for i in range(2))
    first, second = vary_all(jax.random.key(2), a, b, problem, rates())
    assert equal(a, first) and equal(b, second)


@pytest.mark.parametrize("name", ["crossover", "random", "fill", "parallelise"])
def test_each_rate_switches_its_operator(name):
    problem = space(TOY, WorkloadShape(K=16, C=12))
    a, b = (samples(jax.random.key(i), problem) for i in range(2))
    first, second = vary_all(jax.random.key(2), a, b, problem, rates(**{name: 1.0}))
    assert not equal(a, first) and not equal(b, second)


def test_rates_layers_and_templates_are_data():
    before = drafts_all._cache_size(), grow_all._cache_size()
    for template, c, fill_rate in ((0, 12, 0.1), (1, 16, 0.2), (TOY, 7, 0.3)):
        problem = space(template, WorkloadShape(K=16, C=c))
        a, b = (samples(jax.random.key(i), problem) for i in range(2))
        vary_all(jax.random.key(0), a, b, problem, rates(fill=fill_rate))
    assert drafts_all._cache_size() - before[0] <= 1 and grow_all._cache_size() - before[1] <= 1


def test_same_key_same_children():
    problem = space(0, WorkloadShape(K=16, C=12, P=14, R=3))
    a, b = (samples(jax.random.key(i), problem) for i in range(2))
    one, again, other = (
        vary_all(jax.random.key(k), a, b, problem, rates(random=1.0, crossover=1.0)) for k in (5, 5, 6)
    )
    assert equal(one, again)
    assert not equal(one, other)


@quick_jit
def one_by_one(drafts, problem):
    """All drafts grown by the plain operators, whose results are kept only where they are wanted."""

    def one(draft):
        genes = draft.genes
        # No bound of these problems has an alternative to pad to, and no template leaves a bypass open.
        operators = {"mend": mended, "random": mutate, "fill": fill, "parallelise": parallelise}
        for i, step in enumerate(STEPS):
            if step in operators:
                changed = operators[step](draft.keys[i], genes, problem)
                genes = jax.tree.map(lambda new, old, i=i: jnp.where(draft.wanted[i], new, old), changed, genes)
        return genes

    return jax.vmap(one)(drafts)


@quick_jit
def crowded(genes, problem):
    """The genes, every fifth with all its primes innermost, beyond what the buffers hold."""
    every = jnp.arange(genes.slot.shape[-2]) % 5 == 0
    return dataclasses.replace(genes, slot=jnp.where(every[:, None], 0, genes.slot))


@quick_jit
def large(genes, problem):
    """Which genes have tiles that exceed a buffer."""
    flat = genes.slot.reshape(-1, genes.slot.shape[-1])
    exceeds = jax.vmap(lambda slot: overflows(extents(slot, problem), problem).any())(flat)
    return exceeds.reshape(genes.slot.shape[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["cpu", "wide"])
def test_drafts_grow_in_their_order_however_many_are_wanted(form):
    """Problems side by side want more drafts than a pass takes, just as many, one or none."""
    number = 70
    problem = space(0, WorkloadShape(K=16, C=12, P=14, R=3))
    keys = jax.random.split(jax.random.key(3), number)
    drafts = jax.vmap(random_draft, in_axes=(0, None))(keys, problem)
    assert not drafts.wanted.any() and equal(drafts.genes, jax.vmap(sample, in_axes=(0, None))(keys, problem))
    chances = np.array([1.0, 24 / number, 0.5, 0.02, 0.0])[:, None, None]
    shares = np.random.default_rng(0).random((5, number, len(STEPS))) < chances
    shares[..., STEPS.index("mend")] = True
    drafts = dataclasses.replace(drafts, genes=crowded(drafts.genes, problem))
    drafts = jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), drafts)
    drafts = Draft(
        genes=drafts.genes, keys=jax.vmap(jax.vmap(lambda k: jax.random.split(k[0], len(STEPS))))(drafts.keys),
        wanted=shares,
    )  # fmt: skip
    with traced(form):
        found = jax.jit(jax.vmap(grow, in_axes=(0, None)))(drafts, problem)
    expected = jax.vmap(one_by_one, in_axes=(0, None))(drafts, problem)
    assert equal(found, expected)
    changed = (np.asarray(found.slot) != np.asarray(drafts.genes.slot)).any(axis=-1)
    moving = shares[..., 1:].any(axis=-1) | large(drafts.genes, problem)
    assert not changed[~moving].any() and changed[0].sum() > number / 2
    # Drafts that are only to be mended fit the buffers afterwards, and some did not before.
    assert large(drafts.genes, problem).any() and not large(found, problem).any()


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [0, 1, 23, 24, 25, 48, 49, 70])
def test_drafts_grow_whole_passes_of_them_and_one_more_or_less(wanted):
    """A pass takes 24 of 70 drafts, both in a block of the mapper and for one problem by itself."""
    number = 70
    problem = space(0, WorkloadShape(K=16, C=12, P=14, R=3))
    keys = jax.random.split(jax.random.key(4), number)
    drafts = jax.vmap(random_draft, in_axes=(0, None))(keys, problem)
    chosen = np.zeros((len(STEPS), number), bool)
    rng = np.random.default_rng(wanted)
    for row in chosen:
        row[rng.permutation(number)[:wanted]] = True
    keys = jax.vmap(lambda k: jax.random.split(k[0], len(STEPS)))(drafts.keys)
    drafts = Draft(genes=crowded(drafts.genes, problem), keys=keys, wanted=chosen.T)
    expected = one_by_one(drafts, problem)
    assert equal(grow_all(drafts, problem), expected)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), drafts)
    side_by_side = _grow_blocks(stacked, problem)
    for i in range(2):
        assert equal(jax.tree.map(lambda leaf, i=i: leaf[i], side_by_side), expected)


_grow_blocks = quick_jit(jax.vmap(grow, in_axes=(0, None)))


neighbours_one = quick_jit(neighbours)
neighbour_all = quick_jit(jax.vmap(neighbour, in_axes=(None, 0, None)))


@pytest.mark.parametrize(("seed", "template"), [(0, 0), (1, 1), (2, 2), (3, TOY + 1)])
def test_neighbours_are_all_the_legal_single_moves_and_nothing_illegal(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    problem = space(template, shape)
    genes = jax.tree.map(lambda leaf: leaf[0], samples(jax.random.key(seed), problem))
    flags = np.asarray(neighbours_one(genes, problem))
    primes, (slots, dims) = problem.prime.shape[0], problem.limit.shape
    moves, swaps = primes * slots, primes * primes
    assert len(flags) == moves + swaps + slots * (dims + 2)
    steps = np.arange(len(flags))
    nests = decode_all(neighbour_all(genes, steps, problem), problem)
    own, slot, group = jax.device_get((decode(genes, problem), genes.slot, problem.group))

    def wrong(step):
        return violations(jax.tree.map(lambda leaf: np.asarray(leaf[step]), nests), template, shape)

    for step in np.flatnonzero(flags):
        i, j = divmod(step - moves, primes)
        broken = wrong(step)
        if moves <= step < moves + swaps:  # capacities are left to the evaluation
            broken = [rule for rule in broken if " words of " not in rule]
            assert i < j and slot[i] != slot[j] and group[i] != group[j]
        assert broken == []
        changed = jax.tree.map(lambda leaf, step=step: np.asarray(leaf[step]), nests)
        assert any(not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (changed, own)), strict=True))
    for i in np.flatnonzero(np.asarray(problem.prime) > 1):
        first = not any(group[k] == group[i] and slot[k] == slot[i] for k in range(i))
        for target in range(slots):
            legal = target != slot[i] and first and wrong(i * slots + target) == []
            assert flags[i * slots + target] == legal


def test_a_turn_brings_loops_innermost_and_leaves_the_rest():
    """Level 1 of the toy template, K, C, P, R outward: a dimension, or all that a tensor lacks, goes innermost."""
    problem = space(TOY, WorkloadShape(K=2, C=2, P=2, R=2))
    genes = jax.tree.map(lambda leaf: leaf[0], samples(jax.random.key(0), problem))
    used = np.asarray(problem.prime) > 1
    row = np.asarray([DIMS.index(d) for d in "KCPRGNQS"], np.int32)
    genes = dataclasses.replace(
        genes, slot=jnp.where(used, 1, genes.slot), order=jnp.asarray(genes.order).at[1].set(row)
    )
    begin, kinds = problem.prime.shape[0] * (problem.limit.shape[0] + problem.prime.shape[0]), len(DIMS) + 2
    flags = np.asarray(neighbours_one(genes, problem))[begin:].reshape(-1, kinds)
    letters = [*DIMS, "weights", "outputs"]
    assert [letters[k] for k in np.flatnonzero(flags[1])] == ["C", "P", "R", "weights", "outputs"]
    for kind, expected in (("P", "PKCR"), ("weights", "PKCR"), ("outputs", "CRKP"), ("R", "RKCP")):
        turned = neighbour(genes, jnp.int32(begin + kinds + letters.index(kind)), problem)
        order = "".join(DIMS[d] for d in np.asarray(turned.order)[1] if DIMS[d] in "KCPR")
        assert order == expected
        np.testing.assert_array_equal(turned.slot, genes.slot)
