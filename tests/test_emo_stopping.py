"""The stability rule, the knee and the extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import plain_emo
import pytest

from mohamjax import emo


def test_stability_is_the_largest_finite_distance_of_the_first_front():
    f = np.random.default_rng(0).random((60, 3))
    rank = plain_emo.rank(f)
    distances = plain_emo.crowding(f, rank)[rank == 0]
    want = distances[np.isfinite(distances)].max()
    np.testing.assert_allclose(emo.stability(f, rank), want, rtol=1e-12)
    batch = jax.vmap(emo.stability)(jnp.asarray(f, jnp.float32)[None], jnp.asarray(rank)[None])
    np.testing.assert_allclose(batch, [want], rtol=1e-5)


def test_stability_without_a_finite_distance_is_zero():
    assert float(emo.stability(np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), np.array([0, 0, 1]))) == 0
    assert float(emo.stability(np.zeros((0, 2)), np.zeros(0, int))) == 0


def test_stops_at_the_first_quiet_window():
    noisy, quiet = [1.0, 0.0] * 10, [0.5] * 60
    history = noisy + quiet
    stops = [len(history[:k]) for k in range(len(history) + 1) if emo.should_stop(history[:k])]
    # One noisy value among 40 has a deviation of 0.5 sqrt(39) / 40 > 0.02, so none may be left.
    assert stops[0] == 60
    assert not emo.should_stop([0.5] * 39)
    assert emo.should_stop([0.5] * 40)


def test_uses_the_population_deviation_and_a_strict_threshold():
    history = [0.0, 1.0]  # deviation of the population 0.5, of a sample 0.707
    assert emo.should_stop(history, window=2, delta=0.6)
    assert not emo.should_stop(history, window=2, delta=0.5)


def test_values_that_are_not_finite_never_stop():
    assert not emo.should_stop([np.nan] * 40)
    assert not emo.should_stop([np.inf] * 40)
    with pytest.raises(ValueError, match="window"):
        emo.should_stop([1.0], window=0)


def test_knee_and_extremes_by_hand():
    front = np.array([[0.0, 10.0], [2.0, 2.0], [10.0, 0.0], [np.nan, -5.0]])
    assert emo.knee_point(front) == 1
    np.testing.assert_array_equal(emo.extremes(front), [0, 3])
    decades = np.array([[1.0, 1e6], [1e2, 1e2], [1e3, 10.0], [1e6, 1.0], [0.0, 1.0]])
    assert emo.knee_point(decades, log=True) == 1  # the row at 0 has no logarithm
    np.testing.assert_array_equal(emo.extremes(decades), [4, 3])


def test_knee_of_degenerate_fronts():
    assert emo.knee_point(np.full((3, 2), np.inf)) == -1
    assert emo.knee_point(np.zeros((0, 2))) == -1
    assert emo.knee_point(np.ones((3, 2))) == 0
    assert emo.knee_point(np.array([[np.inf, 1.0], [2.0, 3.0]])) == 1
    with pytest.raises(ValueError, match="empty front"):
        emo.extremes(np.zeros((0, 2)))


def test_knee_does_not_see_units():
    front = np.random.default_rng(2).random((30, 3)) + 0.1
    for log in (False, True):
        knee = emo.knee_point(front, log=log)
        assert knee == emo.knee_point(front * np.array([1e9, 1e-6, 3.0]), log=log)
        assert jax.vmap(lambda rows, log=log: emo.knee_point(rows, log=log))(jnp.asarray(front)[None])[0] == knee


@pytest.mark.parametrize("seed", range(20))
def test_landmarks_on_the_host_are_those_of_the_jitted_functions(seed):
    """Includes rows that are not finite, zeros and equal rows."""
    rng = np.random.default_rng(seed)
    front = rng.integers(0, 5, (rng.integers(1, 40), 3)) * 10.0 ** rng.integers(-6, 6, 3)
    front[rng.random(front.shape) < 0.05] = [np.nan, np.inf][seed % 2]
    rows = [*np.asarray(emo.extremes(front)), int(emo.knee_point(emo.positive(front), log=True))]
    assert emo.landmark_rows(front) == rows


def test_landmarks_on_the_host_of_degenerate_fronts():
    assert emo.landmark_rows(np.full((3, 2), np.inf)) == [0, 0, -1]
    with pytest.raises(ValueError, match="no landmarks"):
        emo.landmark_rows(np.zeros((0, 2)))
    for shape in ((3,), (3, 0), (2, 2, 2)):
        with pytest.raises(ValueError, match="expected shape"):
            emo.landmark_rows(np.ones(shape))
