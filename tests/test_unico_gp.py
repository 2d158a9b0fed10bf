"""Gaussian processes: the posterior of scikit-learn, the gradient trick, padding, fits and samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from mohamjax.runtime.struct import take
from mohamjax.unico import gp

N, D, M = 64, 3, 2


def hyper_of(seed, objectives=M, features=D):
    rng = np.random.default_rng(seed)
    return gp.Hyper(
        log_lengthscale=jnp.asarray(rng.uniform(-1, 1, (objectives, features))),
        log_amplitude=jnp.asarray(rng.uniform(-0.5, 0.5, objectives)),
        log_noise=jnp.asarray(rng.uniform(-3, -2, objectives)),
        mean=jnp.asarray(rng.uniform(-0.5, 0.5, objectives)),
    )


def rows_of(seed, rows, size=N, features=D, dtype="float32"):
    """Smooth targets with very different units and some noise; the padding is NaN."""
    rng = np.random.default_rng(seed)
    x = rng.random((size, features)).astype(dtype)
    y = np.stack([3 + np.sin(3 * x[:, 0]) + x[:, 1] ** 2, 1e4 * np.exp(-x @ np.arange(1, features + 1))], axis=1)
    y += 0.03 * y.std(axis=0) * rng.normal(size=y.shape)
    y[rows:], x[rows:] = np.nan, np.nan
    return x, y.astype(dtype), np.arange(size) < rows


def single(tree):
    return jax.tree.map(lambda leaf: leaf.astype("float32"), tree)


@pytest.mark.parametrize("rows", [40, 64])
def test_posterior_is_that_of_scikit_learn(rows):
    """With equal hyper-parameters mean and variance agree to 1e-4 (float32) or 1e-9 (double) of the targets' spread."""
    points = np.random.default_rng(9).random((50, D))
    with jax.enable_x64(True):
        hyper = hyper_of(1)
        x, y, mask = rows_of(2, rows, dtype="float64")
        surrogate = gp.condition(gp.TrainingSet(x, y, mask), hyper)
        double = [np.asarray(part) for part in gp.predict(surrogate, jnp.asarray(points))]
    lengths, amplitudes, noises = (
        np.exp(np.asarray(part)) for part in (hyper.log_lengthscale, hyper.log_amplitude, hyper.log_noise)
    )
    surrogate = gp.condition(gp.TrainingSet(jnp.float32(x), jnp.float32(y), mask), single(hyper))
    found = [np.asarray(part, float) for part in gp.predict(surrogate, jnp.float32(points))]
    for j in range(M):
        scale, offset = y[:rows, j].std(), y[:rows, j].mean()
        target = (y[:rows, j] - offset) / scale - float(hyper.mean[j])
        kernel = ConstantKernel(amplitudes[j] ** 2) * Matern(lengths[j], nu=2.5)
        reference = GaussianProcessRegressor(kernel, alpha=noises[j] ** 2 + gp.NUGGET, optimizer=None)
        mean, deviation = reference.fit(x[:rows], target).predict(points, return_std=True)
        mean = (mean + float(hyper.mean[j])) * scale + offset
        for (ours, variance), tolerance in ((double, 1e-9), (found, 1e-4)):
            np.testing.assert_allclose(ours[:, j] / scale, mean / scale, atol=tolerance, rtol=0)
            np.testing.assert_allclose(variance[:, j] / scale**2, deviation**2, atol=tolerance, rtol=0)


def plain_loss(hyper, x, mask, target):
    """The textbook form, differentiated through the factorisation."""
    covariance = gp.covariance_of(hyper, x, mask)
    residual = jnp.where(mask, target - hyper.mean, 0)
    factor = jnp.linalg.cholesky(covariance)
    solved = jax.scipy.linalg.cho_solve((factor, True), residual)
    return residual @ solved / 2 + jnp.sum(jnp.log(jnp.diagonal(factor))) + gp.penalty(hyper)


@pytest.mark.parametrize(("double", "gate"), [(True, 1e-8), (False, 5e-3)])
def test_gradient_by_one_factorisation(double, gate):
    with jax.enable_x64(double):
        dtype = "float64" if double else "float32"
        x, y, mask = rows_of(3, 50, dtype=dtype)
        hyper = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), take(hyper_of(4), 0))
        x, target = jnp.where(mask[:, None], x, 0), jnp.where(mask, (y[:, 0] - 3.5) / 0.5, 0)
        value, gradient = jax.jit(gp.loss)(hyper, x, mask, target)
        want, slope = jax.jit(jax.value_and_grad(plain_loss))(hyper, x, mask, target)
        np.testing.assert_allclose(value, want, rtol=gate)
        ours, theirs = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(t)]) for t in (gradient, slope))
        assert np.linalg.norm(ours - theirs) <= gate * np.linalg.norm(theirs)


@pytest.fixture(scope="module")
def fitted():
    x, y, mask = rows_of(5, 50)
    return gp.fit(jax.random.key(0), gp.TrainingSet(x, y, mask)), (x, y, mask)


def test_fit_predicts_what_it_has_not_seen(fitted):
    surrogate, _ = fitted
    x, y, _ = rows_of(6, N)
    mean, variance = gp.predict(surrogate, x)
    for j in range(M):
        assert np.var(mean[:, j] - y[:, j]) < 0.03 * np.var(y[:, j])
    # The uncertainty is realistic: errors are a few standard deviations at most.
    assert np.mean(np.abs(mean - y) < 3 * np.sqrt(variance) + 0.09 * y.std(axis=0)) > 0.95
    assert (np.asarray(variance) > 0).all()


def test_fit_comes_close_to_the_most_probable(fitted):
    """From 60 steps of Adam, a quasi-Newton method gains under 2 nats of the log posterior (8 for a rate of 0.08)."""
    surrogate, (x, y, mask) = fitted
    target = np.where(mask[:, None], gp.standardise(surrogate, y), 0).T
    x = jnp.where(mask[:, None], x, 0)
    loss = jax.jit(gp.loss)
    for j in range(M):
        start = take(surrogate.hyper, j)
        flat, build = jax.flatten_util.ravel_pytree(start)

        def value(flat, build=build, j=j):
            found, gradient = loss(build(jnp.float32(flat)), x, mask, target[j])
            return np.nan_to_num(float(found), nan=1e6), np.float64(jax.flatten_util.ravel_pytree(gradient)[0])

        end = minimize(value, np.float64(flat), jac=True, method="L-BFGS-B", options={"maxiter": 60})
        assert value(flat)[0] - end.fun < 2


def test_masked_rows_are_not_read_and_sizes_agree(fitted):
    surrogate, (x, y, mask) = fitted
    points = np.float32(np.random.default_rng(7).random((20, D)))
    want = gp.predict(surrogate, points)
    filled = gp.TrainingSet(np.where(mask[:, None], x, 5.0), np.where(mask[:, None], y, 1e9), mask)
    other = gp.condition(filled, surrogate.hyper)
    jax.tree.map(np.testing.assert_array_equal, gp.predict(other, points), want)


def test_sizes_of_padding_agree():
    points = np.random.default_rng(7).random((20, D))
    with jax.enable_x64(True):
        x, y, mask = rows_of(5, 50, dtype="float64")
        predictions = [
            gp.predict(gp.condition(gp.TrainingSet(x[:n], y[:n], mask[:n]), hyper_of(1)), jnp.asarray(points))
            for n in (50, 64)
        ]
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), *predictions)


def test_warm_start_does_not_lose_what_was_found(fitted):
    surrogate, (x, y, mask) = fitted
    again = gp.fit(jax.random.key(1), gp.TrainingSet(x, y, mask), surrogate.hyper, steps=20)
    target = np.where(mask[:, None], gp.standardise(surrogate, y), 0).T
    loss = jax.jit(lambda hyper, t: gp.loss(hyper, jnp.where(mask[:, None], x, 0), mask, t)[0])
    for j in range(M):
        assert loss(take(again.hyper, j), target[j]) <= loss(take(surrogate.hyper, j), target[j]) + 1e-3
    programs = gp.fit._cache_size()
    fewer = mask & (np.arange(N) < 30)
    gp.fit(jax.random.key(2), gp.TrainingSet(x, y, fewer), again.hyper, steps=20)
    assert gp.fit._cache_size() == programs


def test_constant_targets_and_repeated_rows_are_no_trouble():
    x = np.float32(np.tile(np.random.default_rng(8).random((8, D)), (8, 1)))
    y = np.stack([np.full(N, 7.0), np.sin(5 * x[:, 0])], axis=1).astype(np.float32)
    surrogate = gp.fit(jax.random.key(0), gp.TrainingSet(x, y, np.ones(N, bool)))
    mean, variance = gp.predict(surrogate, x[:8])
    np.testing.assert_allclose(mean[:, 0], 7, atol=1e-2)
    np.testing.assert_allclose(mean[:, 1], y[:8, 1], atol=0.05)
    assert np.isfinite(variance).all()


def test_the_nugget_holds_the_largest_set_in_float32():
    """512 grid points with long lengthscales, for which the covariance is close to singular."""
    rng = np.random.default_rng(10)
    x = np.float32(rng.integers(0, 24, (512, 6)) / 23)
    y = np.float32(np.stack([x.sum(axis=1)] * 4, axis=1))
    hyper = single(hyper_of(0, 4, 6))
    flat = hyper.log_amplitude * 0
    hyper = hyper.replace(log_lengthscale=hyper.log_lengthscale * 0 + 2.5, log_noise=flat - 9, log_amplitude=flat + 1)
    surrogate = gp.condition(gp.TrainingSet(x, y, np.ones(512, bool)), hyper)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(surrogate))
    assert np.isfinite(gp.predict(surrogate, x[:10])[0]).all()


def test_samples_follow_the_posterior():
    """Uses 512 features; plain random frequencies would miss the standard deviation by 20 % here."""
    level = jnp.zeros(M)
    hyper = gp.Hyper(log_lengthscale=jnp.full((M, D), -0.7), log_amplitude=level, log_noise=level - 3, mean=level + 0.1)
    surrogate = gp.condition(gp.TrainingSet(*rows_of(5, 50)), hyper)
    points = jnp.float32(np.random.default_rng(11).random((24, D)))
    drawn = np.asarray(gp.posterior_samples(jax.random.key(3), surrogate, points, samples=2000))
    mean, variance = (np.asarray(part) for part in gp.predict(surrogate, points))
    deviation = np.sqrt(variance) / np.asarray(surrogate.scale)
    assert drawn.shape == (2000, 24, M)
    off = np.abs(drawn.mean(axis=0) - np.asarray(gp.standardise(surrogate, mean)))
    assert (off < 6 * deviation / np.sqrt(2000) + 2e-3).all()
    ratio = np.log(drawn.std(axis=0) / deviation)
    assert np.sqrt(np.mean(ratio**2)) < 0.08
    assert np.abs(ratio).max() < 0.25


def test_prior_of_the_samples_is_matern(fitted):
    """Without a training set the samples have the covariance of the kernel."""
    hyper = jax.tree.map(lambda leaf: leaf[:1], fitted[0].hyper)
    hyper = hyper.replace(log_lengthscale=hyper.log_lengthscale * 0 - 1, log_amplitude=hyper.log_amplitude * 0)
    empty = gp.condition(gp.TrainingSet(jnp.zeros((2, D)), jnp.zeros((2, 1)), np.zeros(2, bool)), hyper)
    line = jnp.linspace(0, 1, 12)[:, None] * jnp.array([1.0, 0.0, 0.0])
    drawn = gp.posterior_samples(jax.random.key(4), empty, line, samples=2000, features=2048)[..., 0]
    covariance = np.cov(np.asarray(drawn).T)
    np.testing.assert_allclose(covariance, gp.kernel(take(hyper, 0), line, line), atol=0.12)


def test_probabilities(fitted):
    surrogate, _ = fitted
    points = jnp.float32(np.random.default_rng(12).random((10, D)))
    mean, variance = gp.predict(surrogate, points)
    limit = float(mean[0, 1])
    found = gp.probability_below(surrogate, points, limit, objective=1)
    assert found[0] == pytest.approx(0.5, abs=1e-3)
    np.testing.assert_allclose(found, norm.cdf(limit, mean[:, 1], np.sqrt(variance[:, 1])), atol=1e-3)


def test_sizes():
    assert [gp.bucket(n) for n in (1, 64, 65, 256, 257, 512)] == [64, 64, 128, 256, 512, 512]
    with pytest.raises(ValueError, match="at most 512"):
        gp.bucket(513)
