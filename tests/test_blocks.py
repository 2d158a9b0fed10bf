"""A batch in equal blocks gives what the whole batch gives, and is traced once; sums and sorts of short axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.runtime.blocks import first_true, in_blocks, short_argsort, side_by_side_argsort, steady_sum


@settings(max_examples=8, deadline=None)
@given(total=st.integers(1, 40), most=st.integers(1, 17))
def test_blocks_change_nothing(total, most):
    rows = {"key": jax.random.split(jax.random.key(total), total), "row": jnp.arange(3 * total).reshape(total, 3)}
    widths = []

    def function(rows):
        widths.append(rows["row"].shape[0])
        return jax.vmap(jax.random.uniform)(rows["key"]), rows["row"].sum(axis=1)

    for found, wanted in zip(in_blocks(function, rows, most), function(rows), strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert len(widths) == 2 and widths[0] <= most and widths[1] == total


def test_no_rows_are_no_rows():
    assert in_blocks(lambda rows: rows + 1, jnp.zeros((0, 3)), 8).shape == (0, 3)


@pytest.mark.parametrize("total", [64, 65, 127])
def test_under_jit_it_is_traced_once(total):
    calls = []
    jax.jit(lambda x: in_blocks(lambda rows: calls.append(1) or rows**2, x, 32))(jnp.arange(float(total)))
    assert len(calls) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 7, 16, 45])
def test_a_steady_sum_is_the_sum(count):
    terms = np.random.default_rng(count).random((4, count), np.float32) * 10.0 ** (np.arange(count) % 9)
    found = steady_sum(jnp.asarray(terms, jnp.float32))
    np.testing.assert_allclose(found, terms.astype(np.float32).sum(axis=1, dtype=np.float64), rtol=1e-6)
    assert np.array_equal(found, steady_sum(jnp.asarray(terms.T, jnp.float32), axis=0))


def test_a_steady_sum_passes_on_what_is_no_number():
    assert steady_sum(jnp.array([1.0, jnp.inf, 2.0])) == jnp.inf
    assert jnp.isnan(steady_sum(jnp.array([1.0, jnp.nan, 2.0])))


def test_a_steady_sum_of_products_is_rounded_alike_in_every_program():
    """Whether the products are summed in the loop that makes them or in another, in batches of any size."""
    a, b = (jax.random.uniform(key, (600, 16)) for key in jax.random.split(jax.random.key(0)))
    whole = jax.jit(lambda a, b: steady_sum(a * b))(a, b)
    apart = steady_sum(jax.jit(jnp.multiply)(a, b))
    assert np.array_equal(whole, apart)
    for size in (1, 37, 300):
        assert np.array_equal(whole[:size], jax.jit(lambda a, b: steady_sum(a * b))(a[:size], b[:size]))


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 2**31), rows=st.integers(0, 3), count=st.integers(1, 40), kinds=st.sampled_from([1, 3, 1000])
)
def test_a_short_argsort_is_the_stable_one(seed, rows, count, kinds):
    whole = np.random.default_rng(seed).integers(-kinds, kinds, (rows, 2, count))
    for keys in (whole.astype(np.int32), whole.astype(np.float32) / 7):
        found = short_argsort(jnp.asarray(keys))
        assert found.dtype == jnp.int32
        np.testing.assert_array_equal(found, np.argsort(keys, axis=-1, kind="stable"))
        np.testing.assert_array_equal(jax.jit(jax.vmap(short_argsort))(jnp.asarray(keys)), found)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1, 2, 31, 192]), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_first_places_are_those_of_the_library(seed, size, share):
    mask = np.random.default_rng(seed).random((3, size)) < share
    for count in (1, size, size + 7):
        found = jax.jit(jax.vmap(lambda row, count=count: first_true(row, count)))(mask)
        assert found.dtype == jnp.int32
        for row, own in zip(mask, found, strict=True):
            np.testing.assert_array_equal(own, jnp.flatnonzero(row, size=count, fill_value=size))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), count=st.sampled_from([1, 2, 31, 192, 1025]), columns=st.sampled_from([1, 3, 8]))
def test_columns_side_by_side_are_sorted_stably(seed, count, columns):
    """Includes ties, both zeros and infinities, and more keys than are sorted by counting."""
    rng = np.random.default_rng(seed)
    keys = rng.choice([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, *rng.random(count)], (count, columns)).astype(np.float32)
    np.testing.assert_array_equal(side_by_side_argsort(jnp.asarray(keys)), np.argsort(keys, axis=0, kind="stable"))
    whole = rng.integers(0, 5, (count, columns), dtype=np.int32)
    np.testing.assert_array_equal(side_by_side_argsort(jnp.asarray(whole)), np.argsort(whole, axis=0, kind="stable"))
