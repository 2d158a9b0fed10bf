"""ParEGO's scalar, the upper update limit, and which rows train the surrogate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from mohamjax.unico.fidelity import (
    accept,
    kde_bandwidth,
    kde_quantile,
    normalise,
    parego,
    scale_init,
    scale_update,
    training_rows,
)

EQUAL = np.full(4, 0.25)


@pytest.mark.parametrize(("weights", "want"), [((0.25, 0.25, 0.25, 0.25), 0.15), ((0.4, 0.3, 0.2, 0.1), 0.17)])
def test_parego(weights, want):
    with jax.enable_x64(True):
        values, weights = jnp.array([0.2, 0.4, 0.1, 0.3]), jnp.array(weights)
        # 0.1 + 0.2 * 0.25 = 0.15; 0.12 + 0.2 * 0.25 = 0.17
        np.testing.assert_allclose(parego(values, weights), want, atol=1e-12)
        np.testing.assert_allclose(parego(jnp.stack([values, 2 * values]), weights), [want, 2 * want], atol=1e-12)


@pytest.mark.parametrize(
    ("distances", "bandwidth", "limit"),
    [
        (np.arange(10) / 10, 0.202494, 1.019408),
        (np.array([0, 0.01, 0.02, 0.02, 0.05, 0.1, 0.4]), 0.102409, 0.439624),
        (np.full(6, 0.2), 1e-6, 0.200002),
    ],
)
def test_upper_update_limit(distances, bandwidth, limit):
    n = len(distances)
    padded, mask = np.concatenate([distances, np.full(16 - n, 99.0)]), np.arange(16) < n
    with jax.enable_x64(True):
        np.testing.assert_allclose(kde_bandwidth(jnp.asarray(padded), mask), bandwidth, atol=1e-6)
        found = kde_quantile(jnp.asarray(padded), mask)
        np.testing.assert_allclose(found, limit, atol=1e-6)
        np.testing.assert_allclose(kde_quantile(jnp.asarray(distances), np.ones(n, bool)), found, rtol=1e-12)
        if bandwidth > 1e-6:
            density = gaussian_kde(distances, bw_method=1.06 * n**-0.2)
            np.testing.assert_allclose(density.integrate_box_1d(-np.inf, float(found)), 0.95, atol=1e-9)
    np.testing.assert_allclose(kde_quantile(jnp.float32(padded), mask), limit, atol=1e-4)
    assert kde_quantile(jnp.float32(padded), np.zeros(16, bool)) == np.inf


def test_scales_run_over_feasible_rows():
    rows = np.array([[10.0, 1.0, 5.0, 0.0], [1000.0, 4.0, 7.0, 0.9999], [1e9, 1e9, np.nan, np.inf]])
    feasible = np.array([True, True, False])
    with jax.enable_x64(True):
        scale = scale_update(scale_init(dtype="float64"), rows, feasible)
        np.testing.assert_allclose(normalise(scale, rows[:2]), [[0, 0, 0, 0], [1, 1, 1, 1]], atol=1e-12)
        middle = normalise(scale, np.array([100.0, 2.0, 6.0, 0.0099]))
        np.testing.assert_allclose(middle, [0.5, 0.5, 0.5, 0.5], atol=1e-12)
        # Two updates give the same as one; a row within the scale changes nothing.
        steps = scale_update(scale_init(dtype="float64"), rows[:1], feasible[:1])
        np.testing.assert_array_equal(normalise(steps, rows[0]), np.zeros(4))
        steps = scale_update(steps, rows[1:], feasible[1:])
        jax.tree.map(np.testing.assert_array_equal, steps, scale)


def decide(values, *, batch, accepted=None, feasible=None, full=None, rule="uul", weights=EQUAL):
    n = len(values)
    feasible = np.ones(n, bool) if feasible is None else np.asarray(feasible)
    accepted = np.zeros(n, bool) if accepted is None else np.asarray(accepted)
    full = np.zeros(n, bool) if full is None else np.asarray(full)
    return accept(jnp.asarray(values), feasible, accepted, np.asarray(batch), full, jnp.asarray(weights), rule=rule)


def flat(scalars):
    """Rows with these scalars: equal objectives of value v have the scalar 0.45 v."""
    return np.repeat(np.asarray(scalars, float)[:, None] / 0.45, 4, axis=1)


def test_first_batch_is_accepted_as_a_whole():
    with jax.enable_x64(True):
        found = decide(flat([0.1, 0.5, 9.0, 0.2]), batch=[True] * 4, feasible=[True, True, True, False])
        assert found.accepted.tolist() == [True, True, True, False]
        assert found.limit == np.inf
        np.testing.assert_allclose(found.scalar, [0.1, 0.5, 9.0, np.inf])
        np.testing.assert_allclose(found.distance, [0, 0.4, 8.9, np.inf], atol=1e-12)
        want = kde_quantile(jnp.array([0, 0.4, 8.9]), np.ones(3, bool))
        np.testing.assert_allclose(found.next_limit, want, rtol=1e-12)


def test_later_batches_are_held_against_the_limit_before():
    before = 0.3 + np.arange(10) / 10
    new = [1.31, 1.33, 0.5, -5.0]  # the limit is 1.019408 above 0.3; a value far below the best is accepted
    with jax.enable_x64(True):
        values = flat([*before, *new])
        found = decide(values, batch=[False] * 10 + [True] * 4, accepted=[True] * 10 + [False] * 4)
        np.testing.assert_allclose(found.limit, 1.019408, atol=1e-6)
        assert found.accepted.tolist() == [True] * 10 + [True, False, True, True]
        np.testing.assert_allclose([found.best, found.distance[0]], [-5, 5.3], atol=1e-12)
        # With the scale changed the result is the same: only relative values count.
        moved = decide(values * 3, batch=[False] * 10 + [True] * 4, accepted=[True] * 10 + [False] * 4)
        np.testing.assert_array_equal(moved.accepted, found.accepted)


def test_two_at_least_are_accepted():
    values = flat([0.1, 0.11, 0.12, 7.0, 6.0, 8.0])
    before, batch = [True] * 3 + [False] * 3, [False] * 3 + [True] * 3
    with jax.enable_x64(True):
        found = decide(values, batch=batch, accepted=before)
        assert found.accepted.tolist() == [True, True, True, True, True, False]
        # An infeasible row is not replaced by another.
        feasible = [True] * 3 + [False, True, False]
        found = decide(values, batch=batch, accepted=before, feasible=feasible)
        assert found.accepted.tolist() == [True, True, True, False, True, False]


def test_rules_to_compare_with():
    values = np.array([[0.1, 0.9, 0.5, 0.5], [0.9, 0.1, 0.5, 0.5], [0.95, 0.95, 0.5, 0.5], [0.0, 0.0, 0.0, 0.0]])
    batch, full = [True, True, True, True], [False, True, True, True]
    feasible = [True, True, True, False]
    pareto = decide(values, batch=batch, feasible=feasible, rule="pareto")
    assert pareto.accepted.tolist() == [True, True, False, False]
    champion = decide(values, batch=batch, feasible=feasible, full=full, rule="champion")
    assert champion.accepted.tolist() == [False, True, False, False]
    assert not decide(values, batch=batch, feasible=feasible, rule="champion").accepted.any()
    with pytest.raises(ValueError, match="rule"):
        decide(values, batch=batch, rule="best")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31 - 1), st.sampled_from(["uul", "pareto", "champion"]))
def test_acceptance_does_not_read_what_is_not_there(seed, rule):
    rng = np.random.default_rng(seed)
    values, weights = rng.random((12, 4)).astype(np.float32), rng.dirichlet(np.ones(4)).astype(np.float32)
    feasible, batch, full = rng.random(12) < 0.8, np.arange(12) >= 6, rng.random(12) < 0.4
    accepted = ~batch & feasible & (rng.random(12) < 0.8)
    first = decide(values, batch=batch, accepted=accepted, feasible=feasible, full=full, rule=rule, weights=weights)
    other = np.where(feasible[:, None], values, np.float32(np.nan))
    again = decide(other, batch=batch, accepted=accepted, feasible=feasible, full=full, rule=rule, weights=weights)
    jax.tree.map(np.testing.assert_array_equal, again, first)
    new = np.asarray(first.accepted)
    assert (new[accepted]).all()
    assert not new[~feasible].any()
    assert not (new & ~batch & ~accepted).any()
    passed, candidates = new & batch, batch & feasible
    if rule == "uul":
        assert passed.sum() >= min(2, candidates.sum())
        # A candidate better than an accepted one is accepted too.
        worst = np.asarray(first.scalar)[passed].max(initial=-np.inf)
        assert passed[candidates & (np.asarray(first.scalar) < worst)].all()
    elif rule == "champion":
        assert passed.sum() == min(1, (candidates & full).sum())


def test_training_rows():
    n = 10
    accepted = np.array([True] * 9 + [False])
    distance = np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], np.float32)
    front = np.zeros(n, bool)
    front[0] = True
    index, mask = training_rows(accepted, distance, front, size=5, newest=2)
    # The front (0), the newest accepted rows (7, 8), then the nearest of the rest (6, 5).
    assert index[mask].tolist() == [0, 5, 6, 7, 8]
    index, mask = training_rows(accepted, distance, front, size=2, newest=2)
    assert index[mask].tolist() == [0, 8]
    index, mask = training_rows(accepted, distance, front, size=12, newest=2)
    assert index[mask].tolist() == list(range(9))
    assert mask.sum() == 9
