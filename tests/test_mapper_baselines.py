"""CoSA-like, GAMMA-like and hybrid mappers, and MEDEA's choice of mappings for a network."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import TECHNOLOGY, TEMPLATES, quick_jit, random_shape, space, violations

from mohamjax.errors import InputError
from mohamjax.hardware import DATA_SPACES, load_template
from mohamjax.mapper import BaselineMapper, SieveConfig, gamma, hybrid
from mohamjax.mapper.cosa import CosaConfig, cosa_mapping
from mohamjax.mapper.gamma import GammaConfig
from mohamjax.mapper.hybrid import HybridConfig
from mohamjax.mapper.sieve import choose_sieved, sieved
from mohamjax.mapping.space import decode, respects, sample, slot_factors
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

SEEDS = st.integers(0, 2**31 - 1)
WHERE = st.integers(0, len(TEMPLATES) - 1)
LAYERS = [UniqueLayer("conv", WorkloadShape(K=16, C=8, P=8, Q=8)), UniqueLayer("fc", WorkloadShape(K=12, C=20))]
sample_one, decode_one, respects_one = quick_jit(sample), quick_jit(decode), quick_jit(respects)


@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_the_program_of_cosa_gives_legal_mappings(seed, where):
    shape = random_shape(np.random.default_rng(seed))
    problem = space(where, shape)
    genes = cosa_mapping(jax.device_get(problem), CosaConfig(seconds=2), item="a layer")
    nest = jax.device_get(decode_one(jax.tree.map(jnp.asarray, genes), problem))
    assert violations(nest, where, shape) == []


def test_the_program_of_cosa_uses_the_array_and_the_buffers():
    """Compute weighs most: all 4 x 6 children are used, for 24 of the 64 x 3 products at once."""
    problem = space(3, WorkloadShape(K=64, C=3))
    genes = cosa_mapping(jax.device_get(problem), CosaConfig(), item="a layer")
    factors = np.asarray(slot_factors(jnp.asarray(genes.slot), problem))
    levels = len(factors) // 3
    assert factors[levels:].prod() == 24 and factors[:levels].prod() == 64 * 3 // 24


@pytest.mark.slow
def test_the_program_of_cosa_knows_what_the_buffer_fetches_again():
    """Weights bypass Eyeriss' global buffer: a loop of that level over K or C fetches them in every step off-chip."""
    eyeriss = load_template("eyeriss")
    layer = UniqueLayer("conv", WorkloadShape(K=256, C=304, P=128, Q=128))
    mapper = BaselineMapper([layer], [eyeriss], TECHNOLOGY, "cosa")
    tables, _ = mapper.search(jax.random.key(0))
    weights = 256 * 304
    read = float(tables.offchip_words[0, 0, 0, 0, DATA_SPACES.index("Weights")])
    assert read <= 300 * weights  # 16,384 times where the program takes them to stand still


def test_hybrid_search_walks_the_loops_that_an_order_leaves_free():
    """Of four loops at a level that prescribes C innermost, three change places: 6 orders."""
    problem = space(3, WorkloadShape(K=3, C=3, P=3, Q=3))
    order = np.full_like(np.asarray(problem.constraints.order), -1)
    order[-1, 0] = DIMS.index("C")
    limits = dataclasses.replace(problem.constraints, order=jnp.asarray(order))
    problem = dataclasses.replace(problem, constraints=limits)
    genes = jax.device_get(sample_one(jax.random.key(0), problem))
    genes = dataclasses.replace(genes, slot=np.full_like(genes.slot, len(order) - 1))
    assert int(hybrid.loop_orders(genes, problem)) == 6


def test_a_program_without_time_complains():
    with pytest.raises(InputError, match=r"a layer: HiGHS found no mapping in 0 s; give it more time"):
        problem = space(3, WorkloadShape(K=60, C=42, P=27, Q=25, R=3, S=3))
        cosa_mapping(jax.device_get(problem), CosaConfig(seconds=0), item="a layer")


def test_a_program_without_a_solution_says_so():
    """Where no level takes a loop over K, more time would not help."""
    problem = jax.device_get(space(3, WorkloadShape(K=4, C=3)))
    limit = np.array(problem.limit)
    limit[:, DIMS.index("K")] = 1
    with pytest.raises(InputError, match="a layer: no mapping keeps the template's limits") as told:
        cosa_mapping(dataclasses.replace(problem, limit=limit), CosaConfig(), item="a layer")
    assert "time" not in str(told.value)


def test_a_baseline_tells_how_far_it_is():
    told = []
    BaselineMapper(LAYERS, TEMPLATES[:2], TECHNOLOGY, "cosa", progress=told.append).search(jax.random.key(0))
    assert [(x.done, x.problems, x.cached) for x in told] == [(0, 4, 0), (4, 4, 0)]
    assert told[-1].evaluations == told[-1].total == 4


def test_all_orders_of_a_tiling_are_there_once():
    """The toy prescribes no order: loops above 1 outermost and in the buffer, n! orders each, innermost fastest."""
    problem = space(3, WorkloadShape(K=4, C=9, P=25, Q=2))
    genes = sample_one(jax.random.key(0), problem)
    primes = np.asarray(problem.prime)
    slot = np.where(np.arange(len(primes)) % 2 == 0, 1, 2)
    genes = dataclasses.replace(genes, slot=jnp.asarray(np.where(primes > 1, slot, 2), jnp.int32))
    factors = np.asarray(slot_factors(genes.slot, problem))
    loops = [int((factors[level] > 1).sum()) for level in (1, 2)]
    total = math.factorial(loops[0]) * math.factorial(loops[1])
    assert int(hybrid.loop_orders(genes, problem)) == total >= 12
    orders = quick_jit(jax.vmap(hybrid.loop_order, (0, None, None)))(jnp.arange(total), genes, problem).order
    seen = set()
    for order in np.asarray(orders):
        assert (np.sort(order, axis=-1) == np.arange(8)).all()
        seen.add(tuple(tuple(d for d in order[level] if factors[level, d] > 1) for level in (1, 2)))
    assert len(seen) == total
    # The outermost level's order changes only after all orders of the inner ones.
    outer = [tuple(d for d in order[2] if factors[2, d] > 1) for order in np.asarray(orders)]
    assert len({tuple(x) for x in itertools.groupby(outer) for x in [x[0]]}) == math.factorial(loops[1])


@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_variation_of_gamma_keeps_products(seed, where):
    problem = space(where, random_shape(np.random.default_rng(seed)))
    key = jax.random.key(seed)
    a, b = (sample_one(jax.random.fold_in(key, i), problem) for i in range(2))
    whole = np.asarray(slot_factors(a.slot, problem)).astype(object).prod(axis=0)
    for n, child in enumerate(VARIED(key, a, b, problem)):
        factors = np.asarray(slot_factors(child.slot, problem)).astype(object)
        assert (factors.prod(axis=0) == whole).all(), n
        assert (np.sort(np.asarray(child.order), axis=-1) == np.arange(8)).all()
    crossed, one, two = (np.asarray(genes.slot) for genes in (VARIED(key, a, b, problem)[0], a, b))
    assert np.sum(crossed != one) <= np.sum(one != two)


VARIED = quick_jit(
    lambda key, a, b, problem: (
        gamma.exchange_tiling(key, a, b, problem),
        gamma.resize_tile(key, a, problem),
        gamma.change_parallel(key, a, problem),
    )
)

SIZES = {
    "gamma": GammaConfig(population=20, generations=3),
    "hybrid": HybridConfig(victory=20, threads=2, chunk=8, most=200),
    "cosa": CosaConfig(),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", SIZES)
def test_a_baseline_maps_every_pair_the_same_way_alone(method):
    mapper = BaselineMapper(LAYERS, TEMPLATES[1:3], TECHNOLOGY, method, settings=SIZES[method], front=True, levels=6)
    tables, spent = mapper.search(jax.random.key(0))
    count = tables.count
    assert (count >= 1).all() and (spent >= count).all()
    if method == "gamma":
        assert (spent == 19 * 4).all()
    single = dataclasses.replace(mapper, front=False).search(jax.random.key(0))[0]
    assert (single.count == 1).all()
    for u, t in np.ndindex(count.shape):
        front = tables.objectives[u, t, : count[u, t]].astype(float)
        best = single.objectives[u, t, 0].astype(float)
        # The mapping that it returns has the least energy-delay product of all that were evaluated.
        assert best[0] * best[1] == pytest.approx((front[:, 0] * front[:, 1]).min(), rel=1e-4)
        nest = jax.tree.map(lambda leaf, u=u, t=t: leaf[u, t, 0], single.mapping)
        assert violations(nest, t + 1, LAYERS[u].shape, LAYERS[u].type) == []
    alone = dataclasses.replace(mapper, layers=LAYERS[1:], templates=TEMPLATES[2:3]).search(jax.random.key(0))[0]
    np.testing.assert_allclose(
        alone.objectives[0, 0, : alone.count[0, 0]], tables.objectives[1, 1, : count[1, 1]], rtol=1e-5
    )


@pytest.mark.slow
def test_hybrid_search_ends_with_its_victory_condition():
    config = SIZES["hybrid"]
    mapper = BaselineMapper(LAYERS[:1], TEMPLATES[1:2], TECHNOLOGY, "hybrid", settings=config)
    spent = mapper.search(jax.random.key(1))[1]
    # Each lane has seen 20 in a row without success, or its largest number of mappings.
    assert 2 * 20 <= spent[0, 0] <= 2 * (config.most + config.chunk)
    longer = dataclasses.replace(mapper, settings=dataclasses.replace(config, evaluations=500))
    assert 500 <= longer.search(jax.random.key(1))[1][0, 0] <= 500 + 2 * config.chunk


def test_sizes_without_a_search_are_refused():
    for made, told in (
        (lambda: GammaConfig(population=1), "settings of gamma: population is 1; use 2 or more"),
        (lambda: GammaConfig(tile=float("nan")), "settings of gamma: tile is nan; use 0 to 1"),
        (lambda: GammaConfig(elite=1.0), "settings of gamma: elite is 1.0; use less"),
        (lambda: HybridConfig(victory=0.5), "settings of hybrid: victory is 0.5; use 1 or more, a whole number"),
    ):
        with pytest.raises(InputError, match=told):
            made()


def test_unknown_baselines_are_refused():
    with pytest.raises(InputError, match="unknown method 'magic'; use one of cosa, gamma, hybrid"):
        BaselineMapper(LAYERS, TEMPLATES[:1], TECHNOLOGY, "magic")
    with pytest.raises(InputError, match="unknown cost 'power'; use one of latency, energy, area, edp"):
        BaselineMapper(LAYERS, TEMPLATES[:1], TECHNOLOGY, "gamma", cost="power")


# ---------------------------------------------------------------- the sieve


def test_the_sieve_keeps_the_best_in_latency_and_in_energy():
    rng = np.random.default_rng(0)
    objectives, count = rng.random((3, 12, 3)), np.array([12, 5, 8])
    objectives[np.arange(12) >= count[:, None]] = np.inf
    kept = sieved(objectives, count, 2)
    for rows, values, n in zip(kept, objectives, count, strict=True):
        assert set(np.flatnonzero(rows)) == {*np.argsort(values[:n, 0])[:2], *np.argsort(values[:n, 1])[:2]}


def test_sieved_choices_add_up_and_the_best_are_found():
    rng = np.random.default_rng(1)
    objectives, count, times = rng.random((4, 6, 3)) + 0.1, np.full(4, 6), np.array([1, 3, 2, 1])
    config = SieveConfig(best=2, divisions=4, proposals=2000)
    chosen, total = choose_sieved(jax.random.key(0), objectives, count, times, config)
    allowed = [np.flatnonzero(row) for row in sieved(objectives, count, 2)]
    for picks, values in zip(chosen, total, strict=True):
        rows = objectives[np.arange(4), picks]
        assert all(pick in own for pick, own in zip(picks, allowed, strict=True))
        np.testing.assert_allclose(values, [*(rows[:, :2] * times[:, None]).sum(axis=0), rows[:, 2].max()])
    every = np.array(list(itertools.product(*allowed)))
    rows = objectives[np.arange(4), every]
    best = np.stack([*((rows[..., k] * times).sum(axis=1) for k in range(2)), rows[..., 2].max(axis=1)]).min(axis=1)
    np.testing.assert_allclose(total.min(axis=0), best)
    for a, b in itertools.permutations(total, 2):
        assert not ((a <= b).all() and (a < b).any())
    free = objectives * np.array([1.0, 1.0, 0.0])  # of a template whose area is stated as nothing
    _, least = choose_sieved(jax.random.key(0), free, count, times, config)
    np.testing.assert_allclose(least.min(axis=0)[:2], best[:2])
    assert not least[:, 2].any()
    with pytest.raises(InputError, match="proposals is 0"):
        SieveConfig(proposals=0)
