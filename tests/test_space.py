"""The map space: constraints, sampling, repair, and mappings that users supply."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mapping_cases import ARRAYS, LEVELS, PRIMES, TEMPLATES, random_shape, space, toy, violations

from mohamjax.errors import InputError
from mohamjax.hardware import load_template
from mohamjax.mapping import validity
from mohamjax.mapping.accesses import Counting, count_accesses
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.space import (
    UNLIMITED,
    admits,
    constraints,
    decode,
    encode,
    evict,
    extents,
    genes_of,
    map_space,
    move,
    nest,
    prime_factors,
    random_orders,
    respects,
    sample,
    slot_factors,
    stack_spaces,
)
from mohamjax.workload import DIMS, WorkloadShape

SEEDS = st.integers(0, 2**31 - 1)
COUNT = 16


@jax.jit
def samples(key, problem):
    return jax.vmap(sample, in_axes=(0, None))(jax.random.split(key, COUNT), problem)


respects_all = jax.jit(jax.vmap(respects, in_axes=(0, None)))
decode_all = jax.jit(jax.vmap(decode, in_axes=(0, None)))


def one(tree, i):
    return jax.tree.map(lambda leaf: np.asarray(leaf[i]), tree)


@given(st.integers(1, 2**31 - 1))
def test_prime_factors(n):
    factors = prime_factors(n)
    assert math.prod(factors) == n
    assert factors == sorted(factors)
    assert all(p % q for p in factors for q in range(2, min(math.isqrt(p), 1000) + 1))


def test_constraints_say_what_the_template_says():
    eyeriss = TEMPLATES[0]
    limits = constraints(eyeriss, "conv", WorkloadShape(), LEVELS + 1)
    glb, spad = eyeriss.level_names.index("shared_glb"), eyeriss.level_names.index("ifmap_spad")
    assert limits.temporal_max[glb].tolist() == [UNLIMITED if d in "GNKCP" else 1 for d in DIMS]
    assert limits.spatial_max[0, glb].tolist() == [UNLIMITED if d in "QKG" else 1 for d in DIMS]
    assert limits.spatial_max[1, glb].tolist() == [UNLIMITED if d in "SCKG" else 1 for d in DIMS]
    assert "".join(DIMS[d] for d in limits.order[glb]) == "QRSCPNKG"
    assert (limits.order[spad] == -1).all()
    assert limits.keep[glb].tolist() == [False, True, True]
    assert (limits.temporal_max[-1] == 1).all() and (limits.spatial_max[:, -1] == 1).all()
    assert not limits.keep[-1].any()


def test_a_type_that_does_not_run_is_refused():
    with pytest.raises(InputError, match="dwconv"):
        constraints(load_template("eyeriss-released"), "dwconv", WorkloadShape(G=8), LEVELS)


def test_padding_must_hold_the_problem():
    limits = constraints(TEMPLATES[3], "conv", WorkloadShape(), LEVELS)
    machine = jax.tree.map(lambda leaf: leaf[3], ARRAYS.machine)
    with pytest.raises(ValueError, match="prime factors"):
        map_space(WorkloadShape(K=2**20, C=2**20), limits, machine, PRIMES)
    with pytest.raises(ValueError, match="levels"):
        constraints(TEMPLATES[0], "conv", WorkloadShape(), 3)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, template=st.integers(0, len(TEMPLATES) - 1))
def test_samples_keep_every_rule(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    problem = space(template, shape)
    genes = samples(jax.random.key(seed), problem)
    mappings = decode_all(genes, problem)
    for i in range(COUNT):
        assert violations(one(mappings, i), template, shape) == []
    assert np.asarray(respects_all(genes, problem)).all()


def test_samples_are_valid_for_the_cost_model():
    def judged(layer, m, machine):
        return validity(count_accesses(layer, m, machine, Counting(wires=False)), m, machine, own_fanout=True)[0]

    verdict = jax.jit(jax.vmap(judged, in_axes=(None, 0, None)))
    for template in range(len(TEMPLATES)):
        shape = random_shape(np.random.default_rng(template))
        problem = space(template, shape)
        machine = jax.tree.map(lambda leaf, t=template: leaf[t], ARRAYS.machine)
        mappings = decode_all(samples(jax.random.key(1), problem), problem)
        assert not np.asarray(verdict(problem.layer, mappings, machine)).any()


def test_samples_differ_and_some_are_parallel():
    problem = space(1, WorkloadShape(K=64, C=64, P=14, Q=14))
    genes = samples(jax.random.key(0), problem)
    mappings = decode_all(genes, problem)
    parallel = np.prod(np.asarray(mappings.spatial, float), axis=(1, 2, 3))
    assert len(np.unique(np.asarray(genes.slot), axis=0)) == COUNT
    assert parallel.max() >= 64 > parallel.min()


def test_same_key_same_sample():
    problem = space(0, WorkloadShape(K=12, C=6, P=8))
    first, second = (samples(jax.random.key(3), problem) for _ in range(2))
    assert all((a == b).all() for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, template=st.integers(0, len(TEMPLATES) - 1))
def test_orders_are_permutations_with_the_prescribed_loops_innermost(seed, template):
    problem = space(template, WorkloadShape(K=4))
    prescribed = np.full((LEVELS, len(DIMS)), -1)
    rng = np.random.default_rng(seed)
    for level in range(LEVELS):
        named = rng.permutation(len(DIMS))[: rng.integers(0, len(DIMS) + 1)]
        prescribed[level, : len(named)] = named
    limits = dataclasses.replace(problem.constraints, order=jnp.asarray(prescribed))
    order, spatial_order = jax.jit(random_orders)(
        jax.random.key(seed), dataclasses.replace(problem, constraints=limits)
    )
    assert (np.sort(np.concatenate([order[None], spatial_order]), axis=-1) == np.arange(len(DIMS))).all()
    assert ((prescribed < 0) | (prescribed == np.asarray(order))).all()


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, template=st.integers(0, len(TEMPLATES) - 1))
def test_moves_that_are_admitted_keep_every_rule_and_the_nest_consistent(seed, template):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    problem = space(template, shape)
    genes = one(samples(jax.random.key(seed), problem), 0)
    state = jax.jit(nest)(genes.slot, problem)
    for _ in range(6):
        index = jnp.int32(rng.integers(PRIMES))
        can = np.flatnonzero(jax.jit(admits)(state, index, problem))
        if can.size:
            target = jnp.int32(rng.choice(can))
            state = jax.jit(move)(state, index, target, jnp.bool_(True), problem)
            assert int(state.slot[index]) == int(target)
    np.testing.assert_array_equal(state.factors, jax.jit(slot_factors)(state.slot, problem))
    np.testing.assert_array_equal(state.extents, jax.jit(extents)(state.slot, problem))
    moved = dataclasses.replace(genes, slot=state.slot)
    assert violations(jax.device_get(decode(moved, problem)), template, shape) == []


def test_a_move_that_would_overflow_is_refused():
    problem = space(4, WorkloadShape(K=64))  # 8 words at the innermost level for weights, inputs and outputs
    state = nest(jnp.full(PRIMES, problem.outermost), problem)
    for expected in (2, 2, 2):  # K = 2: 2 weights, 1 input, 2 outputs; K = 4 would need 9 words
        free = int(np.flatnonzero(np.asarray(state.slot)[:6] != 0)[0])
        state = move(state, jnp.int32(free), jnp.int32(0), jnp.bool_(True), problem)
        assert int(state.extents[0, DIMS.index("K")]) == expected
    assert not admits(state, jnp.int32(5), problem)[0]


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, template=st.integers(0, len(TEMPLATES) - 1))
@example(seed=1, template=2)  # the innermost level that overflows loses its last prime before the next one fits
def test_eviction_mends_capacities_and_leaves_the_rest(seed, template):
    rng = np.random.default_rng(seed)
    shape = random_shape(rng)
    problem = space(template, shape)
    genes = one(samples(jax.random.key(seed), problem), 0)
    same = jax.jit(evict)(jax.random.key(0), genes.slot, problem)
    np.testing.assert_array_equal(same, genes.slot)
    # Push primes inwards as far as limits and fanouts allow, even beyond capacities.
    slot = np.array(genes.slot)
    levels = np.asarray(problem.capacity).shape[0]
    for i in np.flatnonzero(np.asarray(problem.prime) > 1):
        for target in range(levels):
            trial = slot.copy()
            trial[i] = target
            factors = np.asarray(jax.jit(slot_factors)(trial, problem))
            if (factors <= np.asarray(problem.limit)).all():
                slot = trial
                break
    mended = np.asarray(jax.jit(evict)(jax.random.key(1), slot, problem))
    moved = mended != slot
    assert (mended[moved] == int(problem.outermost)).all()
    result = dataclasses.replace(genes, slot=jnp.asarray(mended))
    assert violations(jax.device_get(decode(result, problem)), template, shape) == []


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, template=st.integers(0, len(TEMPLATES) - 1))
def test_encoding_a_mapping_gives_it_back(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    problem = jax.device_get(space(template, shape))
    genes = samples(jax.random.key(seed), problem)
    for i in range(2):
        mapping = jax.device_get(decode(one(genes, i), problem))
        again = jax.device_get(decode(jax.tree.map(jnp.asarray, encode(mapping, problem)), problem))
        for a, b in zip(jax.tree.leaves(mapping), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_genes_of_many_mappings_are_those_of_each(seed):
    """Mappings of several layers and templates side by side; of equal primes of a dimension the first is outermost."""
    rng = np.random.default_rng(seed)
    problems = [jax.device_get(space(t, random_shape(rng))) for t in (0, 1, 0)]
    drawn = [samples(jax.random.key(seed + i), problem) for i, problem in enumerate(problems)]
    which = np.asarray([2, 0, 1, 1, 2])
    nests = [jax.device_get(decode(one(drawn[k], i), problems[k])) for i, k in enumerate(which)]
    found = genes_of(
        jax.tree.map(lambda *leaves: np.stack(leaves), *nests),
        jax.tree.map(lambda leaf: leaf[which], stack_spaces(problems)),
    )
    for i, (k, own) in enumerate(zip(which, nests, strict=True)):
        genes, problem = one(found, i), problems[k]
        single = encode(own, problem)
        for a, b in zip(jax.tree.leaves(genes), jax.tree.leaves(single), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == np.int32
        for group in range(problem.group.max() + 1):
            slots = genes.slot[(problem.group == group) & (problem.prime > 1)]
            assert (np.diff(slots) <= 0).all()
        again = jax.device_get(decode(jax.tree.map(jnp.asarray, genes), problem))
        for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_order_may_differ_where_loops_have_bound_one():
    problem = jax.device_get(space(0, WorkloadShape(P=8, K=4)))
    mapping = jax.device_get(decode(one(samples(jax.random.key(0), problem), 0), problem))
    glb = TEMPLATES[0].level_names.index("shared_glb")
    order = np.array(mapping.order)
    rest = [d for d in order[glb] if mapping.temporal[glb, d] == 1]
    order[glb, [list(order[glb]).index(d) for d in rest]] = rest[::-1]
    genes = encode(dataclasses.replace(mapping, order=order), problem)
    assert bool(respects(jax.tree.map(jnp.asarray, genes), problem))


def _bad_mappings():
    shape = WorkloadShape(K=64, C=64, P=8, Q=3)
    base = {"temporal": np.ones((LEVELS, 8), int), "spatial": np.ones((2, LEVELS, 8), int)}
    base["temporal"][4] = shape.bounds  # DRAM; the shared buffer is level 3

    def change(**edits):
        arrays = {k: v.copy() for k, v in base.items()}
        for name, items in edits.items():
            for where, value in items.items():
                arrays[name][where] = value
        return arrays

    k, c, p = (DIMS.index(x) for x in "KCP")
    return shape, [
        (change(temporal={(4, k): 32}), "K multiply to 32"),
        (change(temporal={(4, k): -64, (3, k): -1}), "K multiply"),
        (change(temporal={(4, p): 1, (0, p): 8}), "factor 8 of P is above"),
        (change(temporal={(4, k): 1}, spatial={(0, 3, k): 32, (1, 3, k): 2}), "X factors 32 exceed the fanout 14"),
        (change(temporal={(4, k): 1, (0, k): 64}), "take 64 words, and the capacity is 32"),
        (change(temporal={(4, c): 1, (4, p): 1, (3, c): 64, (3, p): 8}), "loop order"),
    ]


@pytest.mark.parametrize("case", range(6))
def test_a_wrong_mapping_gets_its_reason(case):
    shape, cases = _bad_mappings()
    arrays, reason = cases[case]
    problem = jax.device_get(space(0, shape))
    order = np.tile(np.arange(8), (LEVELS, 1))
    order[3] = [DIMS.index(x) for x in "QRSPCNKG"]
    mapping = Mapping(
        **arrays, order=order, spatial_order=np.tile(np.arange(8), (2, LEVELS, 1)), keep=problem.constraints.keep
    )
    with pytest.raises(InputError, match=reason) as error:
        encode(mapping, problem, source="mine.json", item="mapping 3")
    assert str(error.value).startswith("mine.json: mapping 3: ") and "\n" not in str(error.value)


def test_a_mapping_that_keeps_other_data_or_is_no_permutation_is_refused():
    problem = jax.device_get(space(0, WorkloadShape(K=4)))
    mapping = jax.device_get(decode(one(samples(jax.random.key(0), problem), 0), problem))
    with pytest.raises(InputError, match="keeps other data spaces"):
        encode(dataclasses.replace(mapping, keep=~np.asarray(mapping.keep)), problem)
    with pytest.raises(InputError, match="no permutation"):
        encode(dataclasses.replace(mapping, order=np.zeros_like(mapping.order)), problem)


def test_bounds_up_to_the_largest_integer():
    shape = WorkloadShape(K=2**31 - 1, C=2**20, N=3)  # a prime, a power, and more words than float32 counts exactly
    problem = space(3, shape)
    genes = samples(jax.random.key(0), problem)
    mappings = decode_all(genes, problem)
    for i in range(COUNT):
        assert violations(one(mappings, i), 3, shape) == []


def test_the_toy_templates_are_what_the_tests_take_them_for():
    assert TEMPLATES[3] == toy()
    assert math.prod(TEMPLATES[4].levels[1].fanout) == 24
