"""Acquisitions: the hypervolume as a mean of scalarisations, the rules against plain versions, batches, and a toy."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import moocore
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, truncnorm

from mohamjax.unico import gp
from mohamjax.unico.acquisition import (
    Candidates,
    Draws,
    KnownFront,
    KnownIdeal,
    approach,
    mesmo,
    qhvi,
    random_directions,
    scalarised,
)
from mohamjax.unico.axes import Axes, distance_to_ideal

C, D, M, Q, S, K, F = 40, 3, 2, 4, 8, 16, 64
DRAWS = Draws(samples=S, features=F, directions=K)
FRONT = np.array([[0.2, 0.8, 0.5], [0.5, 0.5, 0.5], [0.8, 0.2, 0.5]])


def estimate(front, directions):
    """Hypervolume up to 1 as the mean over directions of the greatest scalarisation of a point of the front."""
    m = front.shape[1]
    unit = math.pi ** (m / 2) / (2**m * math.gamma(m / 2 + 1))  # the part of the unit ball with positive coordinates
    return unit * np.mean(np.max(scalarised(front, np.ones(m), directions), axis=0, initial=0))


def test_hypervolume_by_scalarisation():
    assert moocore.hypervolume(FRONT, ref=np.ones(3)) == pytest.approx(0.185)
    for seed in range(3):
        assert estimate(FRONT, random_directions(jax.random.key(seed), 65536, 3)) == pytest.approx(0.185, rel=0.02)
    for seed in range(10):
        assert 0.165 <= estimate(FRONT, random_directions(jax.random.key(seed), 64, 3)) <= 0.207


def test_hypervolume_of_any_number_of_objectives():
    for m in (2, 4, 5):
        front = np.random.default_rng(m).random((9, m))
        want = moocore.hypervolume(front, ref=np.ones(m))
        assert estimate(front, random_directions(jax.random.key(0), 65536, m)) == pytest.approx(want, rel=0.02)
    assert estimate(FRONT + 1, random_directions(jax.random.key(0), 8, 3)) == 0


@pytest.fixture(scope="module")
def case():
    """In double precision: a surrogate of 20 rows padded to 64, a pool, its mask, observed values, feasibilities."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, mask = rng.random((64, D)), np.arange(64) < 20
        y = np.stack([10 + np.sin(4 * x[:, 0]) + x[:, 1], 1e3 * (1.5 - x[:, 0] + x[:, 2] ** 2)], axis=1)
        hyper = gp.Hyper(
            log_lengthscale=jnp.asarray(rng.uniform(-1, 0, (M, D))),
            log_amplitude=jnp.zeros(M),
            log_noise=jnp.full(M, -3.0),
            mean=jnp.asarray([0.1, -0.2]),
        )
        surrogate = gp.condition(gp.TrainingSet(jnp.asarray(x), jnp.asarray(y), mask), hyper)
        return surrogate, jnp.asarray(rng.random((C, D))), rng.random(C) < 0.9, y[:20], rng.random(C)


def plain_picks(gains, free, feasibility):
    """Greedy picks and their gains; `gains(picks)` are the gains of all candidates after these picks."""
    picks, worth = [], []
    for _ in range(Q):
        value = np.where(free, np.maximum(gains(picks), 0) * feasibility, -1)
        value[picks] = -1
        picks.append(int(np.argmax(value)))
        worth.append(value[picks[-1]])
    return picks, worth


@pytest.mark.slow
def test_mesmo_against_a_plain_version(case):
    surrogate, pool, mask, y, feasibility = case
    with jax.enable_x64(True):
        key, best = jax.random.key(1), y.min(axis=0)
        among = Candidates(pool, mask, jnp.asarray(feasibility))
        found = mesmo(key, surrogate, among, best, count=Q, draws=DRAWS)
        drawn = np.asarray(gp.posterior_samples(key, surrogate, pool, samples=S, features=F))
        optimum = np.minimum(drawn[:, mask].min(axis=1), np.asarray(gp.standardise(surrogate, best)) - 0.01)
        assert (drawn[:, mask].min(axis=1) < np.asarray(gp.standardise(surrogate, best)) - 0.01).any()
        mean = np.asarray(gp.standardise(surrogate, gp.predict(surrogate, pool)[0]))
        known = np.asarray(surrogate.x)[:20]

        def gains(picks):
            total = np.zeros(C)
            points = np.concatenate([known, np.asarray(pool)[picks]])
            for j in range(M):
                hyper = jax.tree.map(lambda leaf, j=j: leaf[j], surrogate.hyper)
                own = np.asarray(gp.kernel(hyper, points, points)) + float(gp.noise_variance(hyper)) * np.eye(
                    len(points)
                )
                cross = np.asarray(gp.kernel(hyper, points, pool))
                variance = 1 - np.sum(cross * np.linalg.solve(own, cross), axis=0)
                g = (mean[:, j] - optimum[:, j, None]) / np.sqrt(variance)
                ratio = np.exp(norm.logpdf(g) - norm.logcdf(g))
                left = 1 - ratio * (g + ratio)  # variance of a standard normal variable truncated to values above -g
                assert left[0, 0] == pytest.approx(truncnorm.var(-g[0, 0], np.inf), abs=1e-9)
                heard = variance / (variance + float(gp.noise_variance(hyper)))
                total += np.mean(-np.log(1 - heard * (1 - left)) / 2, axis=0)
            return total

        picks, worth = plain_picks(gains, mask, feasibility)
        assert found.index.tolist() == picks
        np.testing.assert_allclose(found.gain, worth, rtol=1e-6)


def test_qhvi_against_a_plain_version(case):
    surrogate, pool, mask, y, feasibility = case
    with jax.enable_x64(True):
        key, corner = jax.random.key(2), y.max(axis=0)
        present = np.arange(20) < 15
        among = Candidates(pool, mask, jnp.asarray(feasibility))
        found = qhvi(key, surrogate, among, KnownFront(y, present, corner), count=Q, draws=DRAWS)
        of_sample, of_direction = jax.random.split(key)
        drawn = np.asarray(gp.posterior_samples(of_sample, surrogate, pool, samples=S, features=F))
        ways = np.asarray(random_directions(of_direction, K, M, "float64"))
        reference, front = (np.asarray(gp.standardise(surrogate, rows)) for rows in (corner, y[present]))

        def heights(rows):
            return np.min((np.maximum(reference - rows, 0)[..., None, :] / ways), axis=-1) ** M

        np.testing.assert_allclose(scalarised(jnp.asarray(drawn), reference, ways), heights(drawn), rtol=1e-12)

        def gains(picks):
            total = np.zeros(C)
            for s in range(S):
                reached = heights(np.concatenate([front, drawn[s, picks]])).max(axis=0)
                total += np.maximum(heights(drawn[s]) - reached, 0).mean(axis=1) / S
            return math.pi / 4 * total

        picks, worth = plain_picks(gains, mask, feasibility)
        assert found.index.tolist() == picks
        np.testing.assert_allclose(found.gain, worth, rtol=1e-9)
        assert worth[0] > 0


def test_approach_against_a_plain_version(case):
    """Distances are those of the tables of experiments; values better than the ideal count as the ideal."""
    surrogate, pool, mask, y, feasibility = case
    with jax.enable_x64(True):
        scale = np.array([1.0, 400.0])  # turns the targets of the case into logarithms of moderate values
        logs = dataclasses.replace(surrogate, offset=surrogate.offset / scale, scale=surrogate.scale / scale)
        axes = [Axes.of(np.exp(y / scale), log=log) for log in (False, True)]
        least = np.array([distance_to_ideal(np.exp(y / scale), a).min() for a in axes])
        key, low, high = jax.random.key(3), np.log(axes[0].low), np.log(axes[0].high)
        among = Candidates(pool, mask, jnp.asarray(feasibility))
        found = approach(key, logs, among, KnownIdeal(low, high, least), count=Q, draws=DRAWS)
        drawn = np.asarray(gp.posterior_samples(key, logs, pool, samples=S, features=F))
    values = np.maximum(np.exp(drawn * np.asarray(logs.scale) + np.asarray(logs.offset)), axes[0].low)
    distance = np.stack([distance_to_ideal(values, a) for a in axes], axis=-1)  # [S, C, 2]

    def gains(picks):
        best = np.minimum(least, distance[:, picks].min(axis=1, initial=np.inf))
        return (np.maximum(best[:, None] - distance, 0) / least).mean(axis=(0, 2))

    picks, worth = plain_picks(gains, mask, feasibility)
    assert found.index.tolist() == picks
    np.testing.assert_allclose(found.gain, worth, rtol=1e-9)
    assert worth[0] > 0


def test_nothing_comes_nearer_than_the_ideal(case):
    """With a row at the ideal, for example the only known row, no candidate gains."""
    surrogate, pool, mask, y, _ = case
    with jax.enable_x64(True):
        for high in (y[0], y[0] + 1):
            ideal = KnownIdeal(y[0], high, np.zeros(2))
            found = approach(jax.random.key(0), surrogate, Candidates(pool, mask), ideal, count=Q, draws=DRAWS)
            assert (found.gain == 0).all()


@functools.cache
def small(rule):
    """A float32 program of a rule: `(key, surrogate, candidates) -> Batch`."""
    sizes = {"count": 8, "draws": Draws(samples=4, features=32, directions=8)}
    if rule == "mesmo":
        return lambda key, surrogate, among: mesmo(key, surrogate, among, jnp.full(M, 0.5), **sizes)
    if rule == "approach":
        ideal = KnownIdeal(jnp.zeros(M), jnp.ones(M), jnp.full(2, 0.5))
        return lambda key, surrogate, among: approach(key, surrogate, among, ideal, **sizes)
    front = KnownFront(jnp.full((4, M), 0.5), np.ones(4, bool), jnp.full(M, 2.0))
    return lambda key, surrogate, among: qhvi(key, surrogate, among, front, **sizes)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31 - 1), st.integers(0, 12), st.sampled_from(["mesmo", "qhvi", "approach"]))
def test_batches_are_without_repetition(seed, present, rule):
    """Also if the pool has repeated points, too few points, or no feasible one."""
    rng = np.random.default_rng(seed)
    x = np.float32(rng.random((16, D)))
    hyper = gp.Hyper(
        log_lengthscale=jnp.zeros((M, D)), log_amplitude=jnp.zeros(M), log_noise=jnp.full(M, -3.0), mean=jnp.zeros(M)
    )
    surrogate = gp.condition(gp.TrainingSet(x, np.float32(rng.random((16, M))), rng.random(16) < 0.8), hyper)
    pool = np.float32(np.repeat(rng.random((6, D)), 2, axis=0))
    mask = np.zeros(12, bool)
    mask[rng.permutation(12)[:present]] = True
    likely = np.float32(rng.random(12) * (rng.random(12) < 0.5))
    found = small(rule)(jax.random.key(seed), surrogate, Candidates(pool, mask, likely))
    index, gain = np.asarray(found.index), np.asarray(found.gain)
    there = index[index >= 0]
    assert len(there) == len(set(there.tolist())) == min(8, present)
    assert mask[there].all()
    assert (index[len(there) :] == -1).all()
    assert (gain[index < 0] == 0).all()
    assert (gain >= 0).all()
    assert np.isfinite(gain).all()
    assert (gain[index >= 0][likely[there] == 0] == 0).all()


def test_a_second_measurement_of_the_same_gains_little():
    x = np.float32([[0.0] * D, [1.0] * D])
    hyper = gp.Hyper(
        log_lengthscale=jnp.zeros((M, D)), log_amplitude=jnp.zeros(M), log_noise=jnp.full(M, -9.0), mean=jnp.zeros(M)
    )
    surrogate = gp.condition(gp.TrainingSet(x, np.float32([[0, 1], [1, 0]]), np.ones(2, bool)), hyper)
    pool = np.float32(np.concatenate([[[0.5] * D] * 12]))
    among = Candidates(pool, np.ones(12, bool), np.ones(12, np.float32))
    found = small("qhvi")(jax.random.key(0), surrogate, among)
    assert found.gain[0] > 0
    np.testing.assert_allclose(found.gain[1:], 0, atol=1e-5 * float(found.gain[0]))
    found = small("mesmo")(jax.random.key(0), surrogate, among)
    assert (np.diff(found.gain) < 0).all()
    assert found.gain[-1] < found.gain[0] / 3


def toy(x):
    """Latency, power and area of a made-up accelerator over [0, 1]^4, on logarithmic axes."""
    size, buffer, wide, flow = x.T
    compute = 1 / (0.02 + size)
    memory = 1 / (0.05 + buffer * (0.3 + wide))
    latency = np.log(compute + memory * (1 + 0.5 * (flow - 0.3) ** 2))
    power = np.log(0.1 + size + 0.4 * wide + 0.2 * np.sin(6 * flow) ** 2 + 0.3 * memory / 20)
    area = np.log(0.2 + size + 1.5 * buffer)
    return np.float32(np.stack([latency, power, area], axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["mesmo", "qhvi"])
def test_a_toy_search_beats_random(rule):
    """Four batches of eight after twelve random points, compared with 44 random points; three seeds, one pool."""
    pool = np.float32(np.random.default_rng(0).random((1024, 4)))
    values = toy(pool)
    corner = values.max(axis=0)
    guided, blind = [], []
    for seed in range(3):
        rng, key = np.random.default_rng(seed), jax.random.key(seed)
        order = rng.permutation(len(pool))
        chosen, hyper = order[:12].tolist(), None
        for batch in range(4):
            x, y = np.zeros((64, 4), np.float32), np.zeros((64, 3), np.float32)
            x[: len(chosen)], y[: len(chosen)] = pool[chosen], values[chosen]
            mask, free = np.arange(64) < len(chosen), np.ones(len(pool), bool)
            free[chosen] = False
            of_fit, of_pick = jax.random.split(jax.random.fold_in(key, batch))
            steps = 60 if hyper is None else 20
            surrogate = gp.fit(of_fit, gp.TrainingSet(x, y, mask), hyper, steps=steps)
            hyper = surrogate.hyper
            if rule == "mesmo":
                found = mesmo(of_pick, surrogate, Candidates(pool, free), y[mask].min(axis=0), count=8)
            else:
                front = KnownFront(y, mask, y[mask].max(axis=0))
                found = qhvi(of_pick, surrogate, Candidates(pool, free), front, count=8)
            chosen += found.index.tolist()
        assert len(set(chosen)) == 44
        guided.append(moocore.hypervolume(values[chosen], ref=corner))
        blind.append(moocore.hypervolume(values[order[:44]], ref=corner))
    assert np.median(guided) > np.median(blind)
    assert sum(g > b for g, b in zip(guided, blind, strict=True)) >= 2
