"""Hypervolume against a plain grid sum and against moocore."""

import jax
import jax.numpy as jnp
import moocore
import numpy as np
import plain_emo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mohamjax import emo

VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, np.inf, np.nan]), st.floats(0, 5, width=32, allow_subnormal=False)
)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_hypervolume_is_the_definition(m):
    reference = np.array([3.0, 4.0, 3.5])[:m]

    @settings(max_examples=80, deadline=None)
    @given(hnp.arrays(np.float32, (10, m), elements=VALUES))
    def check(front):
        want = plain_emo.volume(front.astype(np.float64), reference)
        np.testing.assert_allclose(emo.hypervolume(front.astype(np.float64), reference), want, rtol=1e-12)
        np.testing.assert_allclose(emo.hypervolume(front, reference), want, rtol=1e-5, atol=1e-30)

    check()


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("n", [1, 50, 1000])
def test_hypervolume_agrees_with_moocore(m, n):
    rng = np.random.default_rng(n)
    cloud = rng.random((n, m)) * 1.2
    sphere = np.abs(rng.normal(size=(n, m)))
    sphere = 1 - sphere / np.linalg.norm(sphere, axis=1, keepdims=True)
    for front in (cloud, sphere):
        want = moocore.hypervolume(front, ref=np.ones(m))
        np.testing.assert_allclose(emo.hypervolume(front, np.ones(m)), want, rtol=1e-12)
        single = emo.hypervolume(jnp.asarray(front, jnp.float32), np.ones(m))
        assert single.dtype == jnp.float32
        exact = moocore.hypervolume(front.astype(np.float32).astype(float), ref=np.ones(m))
        np.testing.assert_allclose(single, exact, rtol=2e-6)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_rows_that_add_nothing(m):
    reference = np.ones(m)
    front = np.random.default_rng(m).random((6, m))
    volume = emo.hypervolume(front, reference)
    on_the_border = np.full((1, m), 0.5)
    on_the_border[0, -1] = 1.0
    idle = np.concatenate([front[2:4], front + 0.01, on_the_border, np.full((1, m), np.inf), np.full((1, m), np.nan)])
    np.testing.assert_allclose(emo.hypervolume(np.concatenate([front, idle]), reference), volume, rtol=1e-12)
    assert float(emo.hypervolume(np.concatenate([on_the_border, idle[-2:]]), reference)) == 0
    for none in (np.zeros((0, m)), np.zeros(0), []):
        assert float(emo.hypervolume(none, reference)) == 0


@pytest.mark.parametrize("rows", [0, 2])
def test_a_reference_that_is_no_number_has_no_volume(rows):
    assert np.isnan(emo.hypervolume(np.zeros((rows, 2)), np.array([1.0, np.nan])))


def test_unbounded_volumes_are_infinite_not_nan():
    assert float(emo.hypervolume(np.array([[-np.inf, 0.5, 0.5], [0.1, 0.1, 0.1]]), np.ones(3))) == np.inf
    assert float(emo.hypervolume(np.array([[0.5, 0.5]]), np.array([np.inf, 1.0]))) == np.inf
    # A row beyond the reference in another objective dominates nothing below it.
    assert float(emo.hypervolume(np.array([[-np.inf, 2.0]]), np.ones(2))) == 0


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(10)), st.permutations(range(3)))
def test_order_of_rows_and_objectives_does_not_matter(rows, columns):
    front = np.random.default_rng(0).random((10, 3))
    want = emo.hypervolume(front, np.array([1.0, 2.0, 3.0]))
    moved = emo.hypervolume(front[list(rows)][:, list(columns)], np.array([1.0, 2.0, 3.0])[list(columns)])
    np.testing.assert_allclose(moved, want, rtol=1e-12)


@pytest.mark.slow
def test_vmap_and_no_jit():
    fronts = np.random.default_rng(1).random((4, 7, 3)).astype(np.float32)
    alone = np.array([emo.hypervolume(front, np.ones(3)) for front in fronts])
    batch = jax.vmap(lambda front: emo.hypervolume(front, np.ones(3)))(jnp.asarray(fronts))
    np.testing.assert_allclose(batch, alone, rtol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(emo.hypervolume(fronts[0], np.ones(3)), alone[0], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("wrapped", [lambda f: f, jax.jit])
def test_derivatives_by_the_reference_take_a_front_of_the_host(dtype, wrapped):
    front = np.array([[1, 3], [2, 1]], dtype)
    found = jax.grad(wrapped(lambda reference: emo.hypervolume(front, reference)))(jnp.array([5.0, 6.0]))
    np.testing.assert_allclose(found, [5.0, 4.0], rtol=1e-6)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="1 to 3 objectives"):
        emo.hypervolume(np.zeros((2, 4)), np.ones(4))
    with pytest.raises(ValueError, match="reference"):
        emo.hypervolume(np.zeros((2, 3)), np.ones(2))
