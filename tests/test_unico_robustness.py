"""Robustness R: the table of samples, exact ranks, streaming, and what R must not depend on."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.runtime.struct import take
from mohamjax.unico.robustness import (
    angle_penalty,
    impute,
    robustness,
    robustness_between,
    tail_init,
    tail_rank,
    tail_update,
)

PI = math.pi
SAMPLES = [
    ((10, 100), (10, 100), 0, PI / 2, 0),
    ((10, 100), (12, 100), 0.2, PI / 2, 0.2),
    ((10, 100), (10, 120), 0.2, 0, 0.4),
    ((10, 100), (10, 80), 0.2, PI, 0.6),
    ((10, 100), (12, 120), 0.282843, 0.785398, 0.318198),
    ((10, 100), (12, 80), 0.282843, 2.356194, 0.459619),
    ((10, 100), (13, 104), 0.302655, 1.438245, 0.293118),
]


def plain(latency, power, percent=5):
    """R of a whole history, with Python integers and sorting."""
    rows = sorted(zip(latency.tolist(), power.tolist(), strict=True))
    if not rows:
        return math.nan
    rank = max(0, -(-percent * len(rows) // 100) - 1)
    (l0, p0), (l1, p1) = rows[0], rows[rank]
    dl, dp = (l1 - l0) / l0, (p1 - p0) / p0
    delta = math.hypot(dl, dp)
    theta = math.atan2(dl, dp) if delta > 1e-12 else PI / 2
    return delta * (1 + 6 / PI**2 * theta**2 - 5 / PI * theta + 1)


def of_history(latency, power, *, most=1000, pieces=1, **options):
    tail = tail_init(most, dtype=str(latency.dtype))
    valid = np.isfinite(latency)
    for part in np.array_split(np.arange(len(latency)), pieces):
        tail = tail_update(tail, jnp.asarray(latency[part]), jnp.asarray(power[part]), jnp.asarray(valid[part]))
    return robustness(tail, **options), tail


@pytest.mark.parametrize(("best", "edge", "delta", "theta", "value"), SAMPLES)
def test_two_samples(best, edge, delta, theta, value):
    for double, tolerance in ((True, 1e-6), (False, 1e-4)):
        with jax.enable_x64(double):
            points = [tuple(jnp.asarray(float(v)) for v in pair) for pair in (best, edge)]
            found = robustness_between(*points)
            np.testing.assert_allclose(
                [found.delta, found.theta, found.value], [delta, theta, value], atol=tolerance, rtol=0
            )
            clamped = robustness_between(*points, clamp=True)
            assert clamped.value >= clamped.delta
            if value == 0.293118:
                np.testing.assert_allclose(clamped.value, 0.302655, atol=tolerance)


def test_penalty_of_the_angle():
    with jax.enable_x64(True):
        angles = jnp.array([0, PI / 4, PI / 3, PI / 2, 3 * PI / 4, PI, 5 * PI / 12])
        np.testing.assert_allclose(angle_penalty(angles), [1, 0.125, 0, 0, 0.625, 2, -1 / 24], atol=1e-12)


def test_ranks_are_of_integers():
    for n in [*range(1, 3000), 10**6, 10**8 - 1, 2**31 - 1]:
        want = max(0, -(-5 * n // 100) - 1)
        assert tail_rank(n) == want
    counts = jnp.array([100, 101, 20, 21, 40, 10**8 - 1, 2**31 - 1], jnp.int32)
    assert tail_rank(counts).tolist() == [4, 5, 0, 1, 1, 4_999_999, 107_374_182]


def test_histories():
    with jax.enable_x64(True):
        latency = np.arange(100.0, 300.0, 2)
        for power_there, theta, value in ((55.0, 0.674741, 0.154045), (45.0, 2.466852, 0.227098)):
            power = np.full(100, 50.0)
            power[4] = power_there
            found, tail = of_history(latency, power)
            np.testing.assert_allclose([found.delta, found.theta, found.value], [0.128062, theta, value], atol=1e-6)
            assert tail.count == 100
        short, _ = of_history(latency[:20], np.full(20, 50.0))
        assert (short.value, short.delta, short.theta) == (0, 0, PI / 2)
        ties = np.concatenate([np.full(10, 100.0), latency[10:]])
        assert of_history(ties, np.full(100, 50.0))[0].value == 0


def test_what_the_history_of_forty_does_not_depend_on():
    with jax.enable_x64(True):
        latency, power = np.arange(100.0, 180.0, 2), np.linspace(50, 60, 40)
        order = np.random.default_rng(0).permutation(40)
        bad = np.full(50, np.inf)
        for histories in (
            (latency, power),
            (latency * 1e6, power * 1e-3),
            (latency[order], power[order]),
            (np.concatenate([bad, latency]), np.concatenate([np.zeros(50), power])),
        ):
            found, tail = of_history(*histories)
            np.testing.assert_allclose(
                [found.delta, found.theta, found.value], [0.020647, 1.319794, 0.019788], atol=1e-6
            )
            assert tail.count == 40


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    n=st.sampled_from([1, 2, 20, 21, 60, 100, 101]),
    coarse=st.booleans(),
    units=st.tuples(st.integers(-20, 20), st.integers(-20, 20)),
)
def test_streams_against_the_whole_history(seed, n, coarse, units):
    """R does not depend on the cut into generations, the order or the units. (Units are powers of two, so exact.)"""
    rng = np.random.default_rng(seed)
    latency, power = rng.lognormal(size=n) * 100, rng.lognormal(size=n) * 10
    if coarse:  # with ties
        latency, power = np.ceil(latency / 50), np.ceil(power / 10)
    with jax.enable_x64(True):
        want = plain(latency, power)
        order = rng.permutation(n)
        scaled = latency[order] * 2.0 ** units[0], power[order] * 2.0 ** units[1]
        whole, _ = of_history(*scaled, most=120)
        streamed, tail = of_history(*scaled, most=120, pieces=3)
        np.testing.assert_array_equal(whole.value, streamed.value)
        np.testing.assert_allclose(streamed.value, want, rtol=1e-9, atol=1e-12)
        assert tail.latency.shape == (6,)
        # The minimum is 23/24 Delta, as F falls to -1/24.
        assert streamed.value >= streamed.delta * 23 / 24 - 1e-12
        assert 0 <= streamed.theta <= PI + 1e-12


def test_lanes_are_their_own():
    rng = np.random.default_rng(1)
    latency, power = rng.lognormal(size=(2, 3, 4, 30)).astype(np.float32)
    valid = rng.random((3, 4, 30)) < 0.8
    tail = tail_init(60, (4,))
    for g in range(3):
        tail = tail_update(tail, latency[g], power[g], valid[g])
    found = robustness(tail)
    for lane in range(4):
        alone = tail_init(60)
        for g in range(3):
            alone = tail_update(alone, latency[g, lane], power[g, lane], valid[g, lane])
        jax.tree.map(np.testing.assert_array_equal, take(tail, lane), alone)
        np.testing.assert_allclose(robustness(alone).value, found.value[lane], rtol=1e-6)


def test_no_sample_is_not_a_number_and_bad_samples_do_not_count():
    bad = jnp.array([np.nan, np.inf, 3.0, 4.0])
    tail = tail_update(tail_init(100), bad, jnp.array([1.0, 1.0, np.inf, 1.0]), jnp.array([True, True, True, False]))
    assert tail.count == 0
    assert np.isnan([robustness(tail).value, robustness(tail).delta, robustness(tail).theta]).all()
    one = tail_update(tail, jnp.array([5.0]), jnp.array([2.0]), jnp.array([True]))
    assert robustness(one).value == 0


def test_derivatives_are_finite_where_nothing_varies():
    def value(latency, power):
        return robustness_between((jnp.float32(10), jnp.float32(100)), (latency, power)).value

    assert jax.grad(value, argnums=(0, 1))(10.0, 100.0) == (0, 0)
    assert np.isfinite(jax.grad(value, argnums=(0, 1))(12.0, 110.0)).all()


def test_imputation():
    values = jnp.array([0.5, 0.0, 0.1, np.nan, 0.3])
    count = jnp.array([100, 30, 40, 0, 200])
    filled, imputed = impute(values, count)
    np.testing.assert_allclose(filled, [0.5, 0.3, 0.1, np.nan, 0.3])
    assert imputed.tolist() == [False, True, False, False, False]
    filled, imputed = impute(values, jnp.array([10, 30, 39, 0, 1]))
    np.testing.assert_allclose(filled, [0.2, 0.2, 0.2, np.nan, 0.2])
    assert imputed.tolist() == [True, True, True, False, True]
