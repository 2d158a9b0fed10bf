"""Ranks, crowding, survival and tournaments against plain definitions."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import plain_emo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mohamjax import emo

N = 24  # one shape for all examples: one compile
TIED = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, np.inf, -np.inf, np.nan])
# No tiny numbers: XLA flushes the subnormal differences between them to 0.
SPREAD = st.floats(-(2.0**127), 2.0**127, width=32, allow_subnormal=False).map(
    lambda value: value if abs(value) > 1e-20 else 0.0
)
FINITE = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 1e3])


def tables(m, elements=None, rows=N):
    if elements is None:
        elements = st.one_of(TIED, SPREAD)
    return hnp.arrays(np.float32, (rows, m), elements=elements)


def special(kind, n, m):
    rng = np.random.default_rng(n + m)
    return {
        "random": lambda: rng.random((n, m)),
        "tied": lambda: rng.integers(0, 3, (n, m)).astype(float),
        "equal": lambda: np.ones((n, m)),
        "chain": lambda: rng.permutation(np.repeat(np.arange(n)[:, None], m, 1)).astype(float),
        "infinite": lambda: np.full((n, m), np.inf),
        "nan": lambda: np.full((n, m), np.nan),
        "mixed": lambda: rng.choice([0, 1, np.inf, np.nan, -np.inf], (n, m)),
    }[kind]().astype(np.float32)


KINDS = ("random", "tied", "equal", "chain", "infinite", "nan", "mixed")


@pytest.mark.parametrize("method", ["peel", "blocked", "wide"])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_rank_is_the_definition(method, m):
    @settings(max_examples=60, deadline=None)
    @given(tables(m))
    def check(f):
        np.testing.assert_array_equal(emo.non_dominated_rank(f, method=method), plain_emo.rank(f))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["peel", "blocked", "wide"])
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100])
def test_rank_at_block_borders(method, n):
    for kind in KINDS:
        f = special(kind, n, 3)
        got = emo.non_dominated_rank(f, method=method)
        assert got.dtype == jnp.int32
        np.testing.assert_array_equal(got, plain_emo.rank(f), err_msg=kind)


def test_auto_agrees_with_both_forms_on_either_side_of_its_border():
    for n in (2048, 2049):
        f = np.random.default_rng(n).integers(0, 40, (n, 3)).astype(np.float32)
        auto = emo.non_dominated_rank(f)
        np.testing.assert_array_equal(auto, emo.non_dominated_rank(f, method="peel"))
        np.testing.assert_array_equal(auto, emo.non_dominated_rank(f, method="blocked"))
        np.testing.assert_array_equal(auto == 0, ~plain_emo.dominance(f).any(0))


@pytest.mark.parametrize("method", ["peel", "blocked", "wide"])
def test_rank_ignores_order_scale_and_shift_of_rows(method):
    @settings(max_examples=30, deadline=None)
    @given(tables(3, FINITE), st.permutations(range(N)), st.sampled_from([0.5, 2.0, 1024.0]))
    def check(f, order, scale):
        rank = np.asarray(emo.non_dominated_rank(f, method=method))
        moved = (f * np.float32(scale) + np.float32(8))[list(order)]
        np.testing.assert_array_equal(emo.non_dominated_rank(moved, method=method), rank[list(order)])

    check()


def test_rank_of_doubles_keeps_doubles():
    f = np.array([[1.0, 1.0], [1.0 + 1e-12, 1.0 + 1e-12], [1.0, 1.0 + 1e-12]])
    np.testing.assert_array_equal(emo.non_dominated_rank(f), [0, 2, 1])
    assert emo.crowding_distance(f, np.zeros(3, int)).dtype == jnp.float64
    single = jnp.asarray(f, jnp.float32)
    np.testing.assert_array_equal(emo.non_dominated_rank(single), [0, 0, 0])
    assert emo.crowding_distance(single, np.zeros(3, int)).dtype == jnp.float32


def test_integers_and_lists_are_taken():
    np.testing.assert_array_equal(emo.non_dominated_rank([[1, 2], [2, 1], [2, 2]]), [0, 0, 1])
    np.testing.assert_array_equal(emo.non_dominated_rank(np.array([[3], [1], [3]])), [1, 0, 1])


@pytest.mark.parametrize("m", [1, 2, 3])
def test_crowding_is_the_definition(m):
    @settings(max_examples=60, deadline=None)
    @given(tables(m), hnp.arrays(np.int32, N, elements=st.integers(0, 4)))
    def check(f, rank):
        got = np.asarray(emo.crowding_distance(f, rank))
        assert not np.isnan(got).any()
        np.testing.assert_allclose(got, plain_emo.crowding(f, rank), rtol=2e-5, atol=1e-6)

    check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 33])
def test_crowding_of_special_fronts(kind, n):
    f = special(kind, n, 3)
    rank = emo.non_dominated_rank(f)
    got = np.asarray(emo.crowding_distance(f, rank))
    np.testing.assert_allclose(got, plain_emo.crowding(f, np.asarray(rank)), rtol=1e-5, atol=1e-30)
    if n <= 2:
        assert np.isinf(got).all()


def test_integers_of_the_host_are_not_rounded():
    """Single precision would make 2^24 and 2^24 + 1 equal."""
    near = np.array([[2**24 + 1, 1], [2**24, 1]])
    for rows in (near, near.astype(np.uint32), near.tolist(), near.astype(float)):
        assert emo.non_dominated_rank(rows).tolist() == [1, 0]
        assert emo.survive(rows, 1)[0].tolist() == [1]
        assert emo.extremes(rows).tolist() == [1, 0]
        assert float(emo.hypervolume(rows, [2**24 + 2, 2])) == 2
    assert emo.crowding_distance(jnp.asarray([[1, 2], [2, 1]]), jnp.zeros(2, int)).dtype == jnp.float32
    assert emo.survive(jnp.asarray([[1, 2], [2, 1]]), 1)[2].dtype == jnp.float32
    jitted = jax.jit(emo.non_dominated_rank)(jnp.asarray([[3, 1], [2, 1]]))
    assert jitted.tolist() == [1, 0]


@pytest.mark.parametrize(
    "by", [lambda f: f, jax.jit, lambda f: lambda x: jax.tree.map(lambda y: y[0], jax.vmap(f)(x[None]))]
)
def test_integers_of_jax_are_not_rounded(by):
    """Neither as they are nor where they are traced."""
    near = jnp.asarray([[2**24 + 1, 0], [2**24, 0], [2**24 + 3, 0]])
    for rows in (near, near.astype(jnp.uint32)):
        for method in ("peel", "blocked", "wide"):
            ranks = by(lambda rows, method=method: emo.non_dominated_rank(rows, method=method))(rows)
            assert ranks.tolist() == [1, 0, 2] and ranks.dtype == jnp.int32
        index, rank, crowding = by(lambda rows: emo.survive(rows, 2))(rows)
        assert index.tolist() == [1, 0] and rank.tolist() == [0, 1] and crowding.dtype == jnp.float32
        assert by(emo.extremes)(rows).tolist() == [1, 0]
        # Values beside what is traced.
        both = by(lambda zero, rows=rows: (emo.non_dominated_rank(rows) + zero, emo.survive(rows, 2)[0]))
        inside = both(jnp.zeros((), int))
        assert [found.tolist() for found in inside] == [[1, 0, 2], [1, 0]]
    assert by(emo.non_dominated_rank)(jnp.zeros((0, 2), int)).shape == (0,)
    with pytest.raises(ValueError, match="objectives: expected shape"):
        by(emo.non_dominated_rank)(jnp.zeros((2, 0), int))


def test_spare_rows_of_integers_are_infinite():
    rows = emo.with_spare_rows(np.array([[5, 6], [6, 5], [7, 7]]))
    assert rows.tolist() == [[5, 6], [6, 5], [7, 7], [np.inf, np.inf]]
    assert emo.non_dominated_rank(rows).tolist() == [0, 0, 1, 2]
    assert emo.with_spare_rows(np.zeros((3, 2), np.float32)).dtype == np.float32


def test_crowding_by_hand():
    f = np.array([[0.0, 10.0], [1.0, 6.0], [3.0, 4.0], [4.0, 0.0], [9.0, 9.0]])
    got = emo.crowding_distance(f, np.array([0, 0, 0, 0, 1]))
    np.testing.assert_allclose(got, [np.inf, 3 / 4 + 6 / 10, 3 / 4 + 6 / 10, np.inf, np.inf])
    # Ties go by row index: the first and the last of five equal rows are the extremes, the others add 0.
    np.testing.assert_array_equal(emo.crowding_distance(np.ones((5, 2)), np.zeros(5, int)), [np.inf, 0, 0, 0, np.inf])


@settings(max_examples=30, deadline=None)
@given(tables(3, st.floats(0, 1, width=16)), st.sampled_from([2.0**-10, 4.0, 2.0**20]))
def test_crowding_does_not_see_the_unit(f, scale):
    rank = emo.non_dominated_rank(f)
    got = emo.crowding_distance(f * np.float32(scale), rank)
    np.testing.assert_array_equal(got, emo.crowding_distance(f, rank))


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(N)))
def test_crowding_follows_distinct_rows(order):
    f = np.random.default_rng(3).random((N, 3)).astype(np.float32)
    rank = np.asarray(emo.non_dominated_rank(f))
    order = list(order)
    got = emo.crowding_distance(f[order], rank[order])
    np.testing.assert_array_equal(got, np.asarray(emo.crowding_distance(f, rank))[order])


@settings(max_examples=60, deadline=None)
@given(tables(3, FINITE))
def test_survival_is_the_definition(f):
    index, rank, crowding = emo.survive(f.astype(np.float64), 10)
    np.testing.assert_array_equal(index, plain_emo.survivors(f.astype(np.float64), 10))
    merged = emo.non_dominated_rank(f)
    np.testing.assert_array_equal(rank, np.asarray(merged)[index])
    np.testing.assert_array_equal(crowding, np.asarray(emo.crowding_distance(f.astype(float), merged))[index])


@settings(max_examples=60, deadline=None)
@given(tables(3))
def test_a_first_front_that_fits_survives(f):
    index, rank, _ = emo.survive(f, 12)
    first = np.flatnonzero(plain_emo.rank(f) == 0)
    kept = set(np.asarray(index).tolist())
    assert len(kept) == 12
    assert (np.diff(rank) >= 0).all()
    if len(first) <= 12:
        assert set(first.tolist()) <= kept
    else:
        assert kept <= set(first.tolist())


def test_survival_of_all_and_of_none():
    f = special("tied", 9, 2)
    assert sorted(np.asarray(emo.survive(f, 9)[0]).tolist()) == list(range(9))
    assert emo.survive(f, 0)[0].shape == (0,)


def test_tournament_prefers_rank_then_crowding():
    rank = np.array([1, 0, 0, 2], np.int32)
    crowding = np.array([9.0, 1.0, np.inf, np.inf], np.float32)
    winners = np.asarray(emo.tournament(jax.random.key(0), rank, crowding, 20_000))
    assert winners.dtype == np.int32
    # Row 2 wins whenever it is drawn, row 1 against all but row 2, and so on: order 2, 1, 0, 3.
    shares = np.bincount(winners, minlength=4) / len(winners)
    np.testing.assert_allclose(shares, [3 / 16, 5 / 16, 7 / 16, 1 / 16], atol=0.015)


def test_tournament_between_equals_is_fair_and_repeatable():
    rank, crowding = np.zeros(4, np.int32), np.ones(4, np.float32)
    winners = np.asarray(emo.tournament(jax.random.key(1), rank, crowding, 20_000))
    np.testing.assert_allclose(np.bincount(winners, minlength=4) / len(winners), 0.25, atol=0.015)
    np.testing.assert_array_equal(winners, emo.tournament(jax.random.key(1), rank, crowding, 20_000))


def test_empty_populations():
    empty = np.zeros((0, 3), np.float32)
    assert emo.non_dominated_rank(empty).shape == (0,)
    assert emo.crowding_distance(empty, np.zeros(0, np.int32)).shape == (0,)
    assert emo.survive(empty, 0)[0].shape == (0,)
    with pytest.raises(ValueError, match="rank, crowding"):
        emo.tournament(jax.random.key(0), np.zeros(0), np.zeros(0), 3)


def test_wrong_arguments_are_named():
    f = np.zeros((4, 3), np.float32)
    with pytest.raises(ValueError, match="method"):
        emo.non_dominated_rank(f, method="fast")
    with pytest.raises(ValueError, match="objectives"):
        emo.non_dominated_rank(f[0])
    with pytest.raises(ValueError, match="rank"):
        emo.crowding_distance(f, np.zeros(3, int))
    with pytest.raises(ValueError, match="n: expected 0 to 4"):
        emo.survive(f, 5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["peel", "blocked", "wide"])
def test_vmap_ranks_every_population_alone(method):
    f = np.stack([special(kind, 40, 3) for kind in KINDS])
    got = jax.vmap(lambda rows: emo.non_dominated_rank(rows, method=method))(jnp.asarray(f))
    np.testing.assert_array_equal(got, [plain_emo.rank(rows) for rows in f])
    index, _, crowding = jax.vmap(lambda rows: emo.survive(rows, 11, method=method))(jnp.asarray(f))
    for k, rows in enumerate(f):
        alone = emo.survive(rows, 11, method=method)
        np.testing.assert_array_equal(index[k], alone[0])
        np.testing.assert_array_equal(crowding[k], alone[2])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["peel", "blocked", "wide"])
def test_without_jit(method):
    f = special("mixed", 9, 3)
    with jax.disable_jit():
        index, rank, crowding = emo.survive(f, 5, method=method)
        chosen = emo.tournament(jax.random.key(2), rank, crowding, 6)
    jitted = emo.survive(f, 5, method=method)
    for plain, compiled in zip((index, rank, crowding), jitted, strict=True):
        np.testing.assert_array_equal(plain, compiled)
    np.testing.assert_array_equal(chosen, emo.tournament(jax.random.key(2), jitted[1], jitted[2], 6))


def test_one_compile_per_shape():
    step = jax.jit(chex.assert_max_traces(lambda f: emo.survive(f, 5), n=1))
    for kind in KINDS:
        step(jnp.asarray(special(kind, 12, 3)))
