"""Gaussian processes, one per objective: the surrogate of the hardware points measured so far.

The processes have ARD Matern-5/2 kernels, a constant mean and noise, over features in [0, 1]. Targets are standardised
internally; every public function takes and returns the caller's units unless it says otherwise. Training sets are
padded to few sizes (`bucket`), so that a growing history compiles a handful of programs. A masked row has 1 on the
diagonal of the covariance and 0 elsewhere, and no influence. A fit of all objectives and restarts is one program.

Priors: log lengthscale ~ N(sqrt(2) + log(D) / 2, variance 3) (Hvarfner et al., "Vanilla Bayesian optimization performs
great in high dimensions", 2024), log amplitude ~ N(0, 1), log noise ~ N(-3, 1), mean ~ N(0, 1), in standardised units.

Why no library: tinygp 0.3 could take the padding through a kernel and a diagonal of ours, but leaves the fit to its
user, so that it would contribute only a factorisation and two solves. GPJax 1.0 has one noise for all rows and no mask,
hence a program for every size of the history, and needs JAX below 0.11 and numpyro. Neither computes the gradient from
a single factorisation.

Axes: N rows of the training set (padded), D features, M objectives, C points to predict, S samples.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jax import lax
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.stats import norm
from scipy.stats import f as f_distribution

from mohamjax.runtime.platforms import product
from mohamjax.runtime.struct import record, select

BUCKETS = (64, 128, 256, 512)
NUGGET = 1e-4  # least noise variance in standardised units; with 1e-5 float32 loses the factorisation at 500 rows
_PRIOR_NOISE = -3.0


@record
class Hyper:
    """Hyper-parameters of one process (of a batch of processes with leading axes), in standardised units.

    Attributes:
        log_lengthscale: `[..., D]` float, one per feature.
        log_amplitude: `[...]` float, logarithm of the standard deviation of the function.
        log_noise: `[...]` float, logarithm of the standard deviation of a measurement.
        mean: `[...]` float.
    """

    log_lengthscale: jax.Array
    log_amplitude: jax.Array
    log_noise: jax.Array
    mean: jax.Array


@record
class TrainingSet:
    """Training data of a surrogate.

    Attributes:
        x: `[N, D]` float, features in [0, 1]; not read where masked.
        y: `[N, M]` float, targets: logarithms of positive objectives; not read where masked.
        mask: `[N]` bool, false for padding ("masked").
    """

    x: jax.Array | np.ndarray
    y: jax.Array | np.ndarray
    mask: jax.Array | np.ndarray

    def standard(self) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Features, targets `[M, N]` in standardised units (both 0 where masked), and offset and scale of targets."""
        there = self.mask[:, None]
        offset, scale = _moments(self.y, self.mask)
        return jnp.where(there, self.x, 0), jnp.where(there, (self.y - offset) / scale, 0).T, offset, scale


@record
class Surrogate:
    """Processes of all objectives given a training set.

    Attributes:
        hyper: hyper-parameters, leading axis M.
        x: `[N, D]` float, features.
        mask: `[N]` bool, false for padding.
        offset: `[M]` float, mean of the targets.
        scale: `[M]` float, standard deviation of the targets; 1 where they do not vary.
        factor: `[M, N, N]` float, lower Cholesky factor of the covariance.
        weights: `[M, N]` float, covariance^-1 (standardised targets - mean); 0 where masked.
    """

    hyper: Hyper
    x: jax.Array
    mask: jax.Array
    offset: jax.Array
    scale: jax.Array
    factor: jax.Array
    weights: jax.Array


def bucket(rows: int) -> int:
    """Padded size of a training set of so many rows: the least of `BUCKETS` that holds them.

    Raises:
        ValueError: There are more rows than the largest of `BUCKETS`.
    """
    for size in BUCKETS:
        if rows <= size:
            return size
    raise ValueError(f"rows: a training set has at most {BUCKETS[-1]}, got {rows}; see fidelity.training_rows")


@jax.custom_jvp
def matern52(square: jax.Array) -> jax.Array:
    """Matern-5/2 correlation of squared scaled distances; its derivative is finite at 0.

    Args:
        square: squared distances, at least 0.
    """
    r = jnp.sqrt(5 * square)
    return (1 + r + r * r / 3) * jnp.exp(-r)


@matern52.defjvp
def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    r = jnp.sqrt(5 * primals[0])
    decay = jnp.exp(-r)
    return (1 + r + r * r / 3) * decay, -5 / 6 * (1 + r) * decay * tangents[0]


def kernel(hyper: Hyper, a: jax.Array, b: jax.Array) -> jax.Array:
    """Covariance of a function's values between two sets of points, in standardised units.

    Args:
        hyper: hyper-parameters of one process.
        a: `[A, D]` float.
        b: `[B, D]` float.

    Returns:
        `[A, B]` float.
    """
    # Distances come from differences: expanded into products of features, float32 would lose more than the nugget.
    rate = jnp.exp(-hyper.log_lengthscale)
    a, b = a * rate, b * rate
    square = sum((a[:, None, d] - b[None, :, d]) ** 2 for d in range(a.shape[1]))
    return jnp.exp(2 * hyper.log_amplitude) * matern52(jnp.asarray(square))


def noise_variance(hyper: Hyper) -> jax.Array:
    """Variance of a measurement in standardised units, the nugget included."""
    return jnp.exp(2 * hyper.log_noise) + NUGGET


def covariance_of(hyper: Hyper, x: jax.Array, mask: jax.Array) -> jax.Array:
    """`[N, N]` covariance of measurements; the identity in masked rows and columns."""
    pair = mask[:, None] & mask[None, :]
    diagonal = jnp.where(mask, noise_variance(hyper), 1)
    return jnp.where(pair, kernel(hyper, x, x), 0) + jnp.diag(diagonal)


def _prior_scale(features: int) -> float:
    return math.sqrt(2) + math.log(features) / 2


def penalty(hyper: Hyper) -> jax.Array:
    """Negative logarithm of the priors, up to a constant."""
    scale = hyper.log_lengthscale - _prior_scale(hyper.log_lengthscale.shape[-1])
    others = hyper.log_amplitude**2 + (hyper.log_noise - _PRIOR_NOISE) ** 2 + hyper.mean**2
    return (jnp.sum(scale**2) / 3 + others) / 2


def _residual(hyper: Hyper, target: jax.Array, mask: jax.Array) -> jax.Array:
    return jnp.where(mask, target - hyper.mean, 0)


def loss(hyper: Hyper, x: jax.Array, mask: jax.Array, target: jax.Array) -> tuple[jax.Array, Hyper]:
    """Negative log posterior of the hyper-parameters, up to a constant, and its gradient.

    The derivative of the negative log likelihood by the covariance K is (K^-1 - a a^T) / 2 with a = K^-1 (target -
    mean). So one factorisation serves value and gradient, and reverse mode differentiates only the entries of K.
    """
    factor = jnp.linalg.cholesky(covariance_of(hyper, x, mask))
    inverse = cho_solve((factor, True), jnp.eye(x.shape[0], dtype=x.dtype))
    residual = _residual(hyper, target, mask)
    solved = product(inverse, residual)
    value = product(residual, solved) / 2 + jnp.sum(jnp.log(jnp.diagonal(factor)))
    slope = lax.stop_gradient(inverse - jnp.outer(solved, solved))

    def proxy(at: Hyper) -> jax.Array:
        linear = product(lax.stop_gradient(solved), _residual(at, target, mask))
        return jnp.sum(slope * covariance_of(at, x, mask)) / 2 + linear + penalty(at)

    return value + penalty(hyper), jax.grad(proxy)(hyper)


def _moments(y: jax.Array | np.ndarray, mask: jax.Array | np.ndarray) -> tuple[jax.Array, jax.Array]:
    """Offset and scale `[M]` of the targets that are not masked."""
    n = jnp.maximum(jnp.sum(mask), 1)
    kept = jnp.where(mask[:, None], y, 0)
    offset = jnp.sum(kept, axis=0) / n
    scale = jnp.sqrt(jnp.sum(jnp.where(mask[:, None], (kept - offset) ** 2, 0), axis=0) / n)
    return offset, jnp.where(scale > 1e-6 * jnp.maximum(jnp.abs(offset), 1e-6), scale, 1)


@jax.jit
def condition(training: TrainingSet, hyper: Hyper) -> Surrogate:
    """Processes with given hyper-parameters on a training set.

    Args:
        training: the training set.
        hyper: hyper-parameters, leading axis M.
    """
    x, target, offset, scale = training.standard()
    mask = jnp.asarray(training.mask)

    def one(h: Hyper, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        factor = jnp.linalg.cholesky(covariance_of(h, x, mask))
        return factor, cho_solve((factor, True), _residual(h, t, mask))

    factor, weights = jax.vmap(one)(hyper, target)
    return Surrogate(hyper=hyper, x=x, mask=mask, offset=offset, scale=scale, factor=factor, weights=weights)


@functools.partial(jax.jit, static_argnames=("steps", "restarts"))
def fit(
    key: jax.Array,
    training: TrainingSet,
    start: Hyper | None = None,
    *,
    steps: int = 60,
    restarts: int = 2,
    rate: float = 0.3,
) -> Surrogate:
    """Processes with the most probable hyper-parameters that Adam finds.

    Jitted; recompiles per N, M, D, `steps`, `restarts` and the presence of `start`. The first restart begins at
    lengthscales of 0.5, the others at random around it; each keeps the best hyper-parameters on its way.

    Args:
        key: Typed PRNG key; it is consumed.
        training: the training set.
        start: the only starting point, leading axis M (`Surrogate.hyper` of the previous fit; 20 steps suffice).
        steps: Static, steps of Adam under a cosine schedule.
        restarts: Static, number of starting points if `start` is None.
        rate: first learning rate. With 0.08, 60 steps end several nats short of the optimum.
    """
    x, target, _, _ = training.standard()
    mask, objectives, features = jnp.asarray(training.mask), target.shape[0], x.shape[1]
    if start is None:
        zero = jnp.zeros((restarts, objectives), x.dtype)
        starts = Hyper(
            log_lengthscale=jnp.full((restarts, objectives, features), math.log(0.5), x.dtype),
            log_amplitude=zero,
            log_noise=zero + _PRIOR_NOISE,
            mean=zero,
        )
        leaves, tree = jax.tree.flatten(starts)
        keys = jax.random.split(key, len(leaves))
        shifts = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
        moved = [leaf.at[1:].add(shift[1:]) for leaf, shift in zip(leaves, shifts, strict=True)]
        starts = jax.tree.unflatten(tree, moved)
    else:
        starts = jax.tree.map(lambda leaf: leaf[None], start)
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def climb(begin: Hyper, t: jax.Array) -> tuple[jax.Array, Hyper]:
        tree: Any = begin  # a pytree, which the type checker cannot know

        def step(state: tuple, _: None) -> tuple[tuple, None]:
            at, moments, best, best_at = state
            value, gradient = loss(at, x, mask, t)
            gradient = jax.tree.map(lambda g: jnp.where(jnp.isfinite(g), g, 0), gradient)
            better = value < best  # false for NaN: hyper-parameters whose covariance has no factor are never kept
            best_at = select(better, at, best_at)
            updates, moments = optimiser.update(gradient, moments)
            return (jax.tree.map(jnp.add, at, updates), moments, jnp.where(better, value, best), best_at), None

        infinite = jnp.asarray(jnp.inf, x.dtype)
        (_, _, best, best_at), _ = lax.scan(step, (begin, optimiser.init(tree), infinite, begin), None, length=steps)
        return best, best_at

    values, ends = jax.vmap(jax.vmap(climb), in_axes=(0, None))(starts, target)
    chosen = jnp.argmin(values, axis=0)
    hyper = jax.tree.map(lambda leaf: leaf[chosen, jnp.arange(objectives)], ends)
    return condition(training, hyper)


def standardise(surrogate: Surrogate, y: npt.ArrayLike) -> jax.Array:
    """Targets `[..., M]` in the surrogate's own units: mean 0, standard deviation 1 over its training set."""
    return (jnp.asarray(y) - surrogate.offset) / surrogate.scale


def latent(surrogate: Surrogate, x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Posterior of the functions in standardised units, and the matrix that updates of it need.

    Args:
        surrogate: surrogate of M objectives.
        x: `[C, D]` float.

    Returns:
        Mean `[M, C]`, variance `[M, C]`, and `[M, N, C]`, the factor's inverse times the covariance of training set
        and points: products of its columns are the part of the points' covariance that the training set explains.
    """

    def one(hyper: Hyper, factor: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        cross = jnp.where(surrogate.mask[:, None], kernel(hyper, surrogate.x, x), 0)
        explained = solve_triangular(factor, cross, lower=True)
        variance = jnp.exp(2 * hyper.log_amplitude) - jnp.sum(explained**2, axis=0)
        return hyper.mean + product(weights, cross), jnp.maximum(variance, 1e-9), explained

    return jax.vmap(one)(surrogate.hyper, surrogate.factor, surrogate.weights)


@jax.jit
def predict(surrogate: Surrogate, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and variance of the objectives, without the noise of a measurement.

    Args:
        surrogate: surrogate of M objectives.
        x: `[C, D]` float.

    Returns:
        Two `[C, M]` floats, in the units of the targets and in their squares.
    """
    mean, variance, _ = latent(surrogate, x)
    return mean.T * surrogate.scale + surrogate.offset, variance.T * surrogate.scale**2


@functools.partial(jax.jit, static_argnames="objective")
def probability_below(surrogate: Surrogate, x: jax.Array, limit: jax.Array | float, *, objective: int) -> jax.Array:
    """Probability that an objective is at most a limit, for feasibility under a cap.

    Args:
        surrogate: surrogate of M objectives.
        x: `[C, D]` float.
        limit: `[]` float, in the units of the targets (a logarithm if they are logarithms).
        objective: Static, column of the objective.

    Returns:
        `[C]` float in [0, 1].
    """
    mean, variance = predict(surrogate, x)
    return norm.cdf((limit - mean[:, objective]) / jnp.sqrt(variance[:, objective]))


@functools.cache
def _spectrum(count: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths `[count]` of frequencies and their shares of the spectrum of Matern-5/2, a multivariate t of 5 degrees.

    Long frequencies are rare, but most of the variance that a training set leaves open is theirs: 256 frequencies drawn
    by probability miss the posterior's standard deviation by 10 to 30 %. Here a quarter of the lengths stands for the
    shorter half of the spectrum in equal shares, the rest for the longer half in geometric shares: the error is 5 %.
    (Means over points of the root mean square of the log ratio; 50 and 200 rows, 3 and 6 features.)

    Args:
        count: number of frequencies, at least 4.
        features: D; the squared length over D follows an F distribution of (D, 5) degrees of freedom.
    """
    if count < 4:
        raise ValueError(f"features: expected 8 or more, got {2 * count}")
    long = 3 * count // 4
    edges = np.concatenate([np.linspace(1, 0.5, count - long + 1)[:-1], np.geomspace(0.5, 1e-4, long), [0.0]])
    upper, lower = edges[:-1], edges[1:]
    # The last stratum is unbounded; its length is the one exceeded with a thirtieth of its probability.
    middle = np.where(lower < upper / 2, np.sqrt(upper * np.maximum(lower, upper / 1000)), (upper + lower) / 2)
    return np.sqrt(features * f_distribution.isf(middle, features, 5)), upper - lower


@functools.partial(jax.jit, static_argnames=("samples", "features"))
def posterior_samples(
    key: jax.Array, surrogate: Surrogate, x: jax.Array, *, samples: int, features: int = 512
) -> jax.Array:
    """Values at given points of functions drawn from the posterior, in standardised units.

    Pathwise conditioning: random Fourier features draw from the prior, and the exact update of the training set
    corrects the draw (Wilson et al., "Efficiently sampling functions from Gaussian process posteriors", 2020, Eq. 8).
    The cost is linear in C, unlike that of a joint draw. The frequencies are stratified by length, see `_spectrum`.

    Args:
        key: Typed PRNG key; it is consumed.
        surrogate: surrogate of M objectives.
        x: `[C, D]` float.
        samples: Static, S.
        features: Static, Fourier features of the prior, even and at least 8; all draws share their frequencies.

    Returns:
        `[S, C, M]` float.
    """

    def one(key: jax.Array, row: tuple[Hyper, jax.Array, jax.Array]) -> jax.Array:
        hyper, factor, weights = row
        of_frequency, of_weight, of_noise = jax.random.split(key, 3)
        dtype = x.dtype
        way = jax.random.normal(of_frequency, (features // 2, x.shape[1]), dtype)
        way = way / jnp.linalg.norm(way, axis=1, keepdims=True)
        frequency = way * jnp.asarray(length, dtype)[:, None] * jnp.exp(-hyper.log_lengthscale)
        draw = jax.random.normal(of_weight, (features, samples), dtype) * jnp.exp(hyper.log_amplitude)
        draw = draw * jnp.sqrt(jnp.tile(jnp.asarray(share, dtype), 2))[:, None]

        def prior(points: jax.Array) -> jax.Array:
            phase = product(points, frequency.T)
            return product(jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1), draw)

        noise = jax.random.normal(of_noise, (surrogate.x.shape[0], samples), dtype) * jnp.sqrt(noise_variance(hyper))
        error = jnp.where(surrogate.mask[:, None], prior(surrogate.x) + noise, 0)
        update = weights[:, None] - cho_solve((factor, True), error)
        cross = jnp.where(surrogate.mask[:, None], kernel(hyper, surrogate.x, x), 0)
        return hyper.mean + prior(x) + product(cross.T, update)

    length, share = _spectrum(features // 2, x.shape[1])
    rows = (surrogate.hyper, surrogate.factor, surrogate.weights)
    keys = jax.random.split(key, surrogate.offset.shape[0])
    return jnp.transpose(jax.vmap(one)(keys, rows), (2, 1, 0))
