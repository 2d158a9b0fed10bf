"""Which hardware points to measure next: batches picked greedily from a pool of candidates.

There are three rules, each jitted as a whole. `mesmo` is max-value entropy search for several objectives: with
independent processes the best value of an objective on a sampled Pareto front is the least value of its sampled
function, so the gains of the objectives add up (Belakaria, Deshwal, Doppa, "Max-value entropy search for
multi-objective Bayesian optimization", 2019; Wang and Jegelka, 2017). Each gain is that of a noisy measurement (Moss,
Leslie, Gonzalez, Rayson, "GIBBON", 2021): the noise-free formula grows where a pick has left little variance above a
sampled optimum, so a batch would pick the same place again. `qhvi` averages the hypervolume improvement over random
scalarisations (Golovin and Zhang, "Random hypervolume scalarizations for provable multi-objective black box
optimization", 2020) and over functions sampled from the posterior. `approach` aims at the design that a front is judged
by: the one nearest to the ideal. Gains are never negative, and are multiplied by the probability that the candidate is
feasible.

Axes: C candidates (padded), D features, M objectives, F rows of a front (padded), S samples, K directions, Q picks.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import log_ndtr

from mohamjax.runtime.platforms import FULL
from mohamjax.runtime.struct import record
from mohamjax.unico.gp import Surrogate, kernel, latent, noise_variance, posterior_samples, standardise

_MARGIN = 0.01  # least gap from a sampled optimum up to the best observed value [standard deviations of the targets]


@record
class Candidates:
    """The pool that a batch is picked from.

    Attributes:
        features: `[C, D]` float, in [0, 1].
        mask: `[C]` bool, false for padding. Real candidates are distinct and were not measured before.
        feasibility: `[C]` float in [0, 1], probability that the candidate meets the requirements (see
            `gp.probability_below`); None where all are certain to meet them.
    """

    features: jax.Array | np.ndarray
    mask: jax.Array | np.ndarray
    feasibility: jax.Array | None = None


@record
class KnownFront:
    """The front that `qhvi` improves on, in the units of the targets.

    Attributes:
        values: `[F, M]` float, non-dominated measurements. Dominated rows do not change the result.
        mask: `[F]` bool, false for padding.
        reference: `[M]` float, reference point of the hypervolume.
    """

    values: jax.Array | np.ndarray
    mask: jax.Array | np.ndarray
    reference: jax.Array | np.ndarray


@record
class KnownIdeal:
    """The ideal point that `approach` aims at; targets are logarithms of objectives.

    Attributes:
        low: `[M]` float, the ideal: the least value of each target.
        high: `[M]` float, the largest value of each target, which stands at 1 on the axes.
        least: `[2]` float, least distances from the ideal so far, on linear and on logarithmic axes.
    """

    low: jax.Array | np.ndarray
    high: jax.Array | np.ndarray
    least: jax.Array | np.ndarray


@dataclasses.dataclass(frozen=True)
class Draws:
    """Sample sizes of the Monte Carlo estimate of a gain; static.

    Attributes:
        samples: S, functions drawn from the posterior.
        features: random Fourier features of each function, see `gp.posterior_samples`.
        directions: K, scalarisations of a hypervolume; only `qhvi` uses them.
    """

    samples: int = 16
    features: int = 512
    directions: int = 64


DRAWS = Draws()


@record
class Batch:
    """The candidates picked, in the order of picking.

    Attributes:
        index: `[Q]` int32, distinct rows of the pool; -1 once the pool is exhausted.
        gain: `[Q]` float, what each pick added at its turn, times its feasibility; 0 where the index is -1.
    """

    index: jax.Array
    gain: jax.Array


def _pick(gain: jax.Array, feasibility: jax.Array, free: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Best free candidate (or -1), its gain times feasibility (or 0), and the mask of those still free."""
    worth = jnp.where(free, jnp.maximum(jnp.nan_to_num(gain, nan=0.0), 0) * feasibility, -1)
    best = jnp.argmax(worth).astype(jnp.int32)
    some = free[best]
    return jnp.where(some, best, -1), jnp.where(some, worth[best], 0), free.at[best].set(False)


def _greedy(values: jax.Array, reached: jax.Array, candidates: Candidates, *, count: int, unit: float = 1.0) -> Batch:
    """Picks candidates one by one, each with the largest mean increase over the best values reached so far.

    Args:
        values: `[S, C, K]` float, larger is better.
        reached: `[S, K]` float, the best values before the first pick.
        candidates: the C candidates of `values`.
        count: Q.
        unit: factor of all gains.

    Returns:
        Q picks, those without gain at the end.
    """

    certain = _certain(candidates, values.dtype)

    def pick(q: jax.Array, state: tuple) -> tuple:
        index, worth, free, reached = state
        gain = unit * jnp.mean(jnp.maximum(values - reached[:, None], 0), axis=(0, 2))
        chosen, value, free = _pick(gain, certain, free)
        reached = jnp.where(chosen >= 0, jnp.maximum(reached, values[:, jnp.maximum(chosen, 0)]), reached)
        return index.at[q].set(chosen), worth.at[q].set(value), free, reached

    empty = jnp.full(count, -1, jnp.int32), jnp.zeros(count, values.dtype), jnp.asarray(candidates.mask), reached
    index, worth, *_ = lax.fori_loop(0, count, pick, empty)
    return Batch(index=index, gain=worth)


def _certain(candidates: Candidates, dtype: jnp.dtype) -> jax.Array:
    """Factors `[C]` of the gains: the probability that each candidate is feasible."""
    mask, feasibility = candidates.mask, candidates.feasibility
    return jnp.ones(mask.shape, dtype) if feasibility is None else jnp.where(mask, feasibility, 0)


@functools.partial(jax.jit, static_argnames=("count", "draws"))
def mesmo(
    key: jax.Array,
    surrogate: Surrogate,
    candidates: Candidates,
    best: jax.Array | np.ndarray,
    *,
    count: int,
    draws: Draws = DRAWS,
) -> Batch:
    """Batch by max-value entropy search: the sum over objectives of the mean information gain on their optima [nats].

    The gain is -log(1 - rho^2 r (g + r)) / 2. Here rho^2 is the share of the function in the variance of a measurement,
    g the number of standard deviations from the sampled optimum up to the mean, and r = pdf(g) / cdf(g).

    Each pick reduces the variances as a measurement of it would; the means stay.

    Args:
        key: Typed PRNG key; it is consumed.
        surrogate: surrogate of M objectives.
        candidates: the pool.
        best: `[M]` float, least observed value of each objective, in the units of the targets.
        count: Static, Q.
        draws: Static.
    """
    x, mask = jnp.asarray(candidates.features), jnp.asarray(candidates.mask)
    drawn = posterior_samples(key, surrogate, x, samples=draws.samples, features=draws.features)
    lowest = jnp.min(jnp.where(mask[:, None], drawn, jnp.inf), axis=1)  # [S, M]
    optimum = jnp.minimum(lowest, standardise(surrogate, best) - _MARGIN).T  # [M, S]
    mean, variance, explained = latent(surrogate, x)
    known = explained.shape[1]
    explained = jnp.concatenate([explained, jnp.zeros((mean.shape[0], count, mean.shape[1]), mean.dtype)], axis=1)
    noise = jax.vmap(noise_variance)(surrogate.hyper)
    certain = _certain(candidates, mean.dtype)

    def gains(variance: jax.Array) -> jax.Array:
        # Truncation from below at an optimum g standard deviations away leaves 1 - h of the variance.
        g = jnp.maximum((mean[:, None] - optimum[:, :, None]) / jnp.sqrt(variance)[:, None], -30)
        ratio = jnp.exp(-(g**2) / 2 - log_ndtr(g)) / math.sqrt(2 * math.pi)
        h = jnp.clip(ratio * (g + ratio), 0, 1)
        heard = variance / (variance + noise[:, None])
        return jnp.sum(jnp.mean(-jnp.log1p(-heard[:, None] * h) / 2, axis=1), axis=0)

    def pick(q: jax.Array, state: tuple) -> tuple:
        index, worth, free, variance, explained = state
        chosen, value, free = _pick(gains(variance), certain, free)
        at = jnp.maximum(chosen, 0)
        prior = jax.vmap(lambda hyper: kernel(hyper, x[at][None], x)[0])(surrogate.hyper)
        covariance = prior - jnp.einsum("mn,mnc->mc", explained[:, :, at], explained, precision=FULL)
        row = covariance / jnp.sqrt(variance[:, at] + noise)[:, None]
        return (
            index.at[q].set(chosen),
            worth.at[q].set(value),
            free,
            jnp.maximum(variance - row**2, 1e-9),
            explained.at[:, known + q].set(row),
        )

    empty = (jnp.full(count, -1, jnp.int32), jnp.zeros(count, mean.dtype), mask, variance, explained)
    index, worth, *_ = lax.fori_loop(0, count, pick, empty)
    return Batch(index=index, gain=worth)


def random_directions(key: jax.Array, count: int, objectives: int, dtype: str = "float32") -> jax.Array:
    """`[count, objectives]` directions, uniform on the part of the unit sphere where all coordinates are positive.

    Args:
        key: Typed PRNG key; it is consumed.
        count: Static.
        objectives: Static.
        dtype: dtype of the result.
    """
    drawn = jnp.abs(jax.random.normal(key, (count, objectives), dtype)) + jnp.finfo(dtype).tiny
    return drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)


def scalarised(points: jax.Array, reference: jax.Array, directions: jax.Array) -> jax.Array:
    """Hypervolume scalarisation: min over j of (max(reference_j - y_j, 0) / w_j)^M.

    Args:
        points: `[..., M]` float, minimised.
        reference: `[M]` float.
        directions: `[K, M]` float from `random_directions`, w in the formula.

    Returns:
        `[..., K]` float.
    """
    # One objective after the other, so that no array of shape [..., K, M] is made.
    length = functools.reduce(
        jnp.minimum,
        (
            jnp.maximum(reference[j] - points[..., j], 0)[..., None] / directions[:, j]
            for j in range(directions.shape[1])
        ),
    )
    return length ** directions.shape[1]


def _sphere(objectives: int) -> float:
    """Factor from mean scalarisation to volume: the volume of the unit ball's part with positive coordinates."""
    return math.pi ** (objectives / 2) / (2**objectives * math.gamma(objectives / 2 + 1))


@functools.partial(jax.jit, static_argnames=("count", "draws"))
def qhvi(
    key: jax.Array,
    surrogate: Surrogate,
    candidates: Candidates,
    front: KnownFront,
    *,
    count: int,
    draws: Draws = DRAWS,
) -> Batch:
    """Batch by expected hypervolume improvement, estimated by scalarisations of sampled functions.

    The best scalarisation so far is kept for every sample and direction, beginning with that of the front. A
    candidate's gain is the mean increase, so a second pick that the first already covers gains nothing. With `count=1`
    this is expected hypervolume improvement.

    Args:
        key: Typed PRNG key; it is consumed.
        surrogate: surrogate of M objectives.
        candidates: the pool.
        front: the front to improve on.
        count: Static, Q.
        draws: Static.
    """
    of_sample, of_direction = jax.random.split(key)
    objectives = surrogate.offset.shape[0]
    x = jnp.asarray(candidates.features)
    drawn = posterior_samples(of_sample, surrogate, x, samples=draws.samples, features=draws.features)
    way = random_directions(of_direction, draws.directions, objectives, drawn.dtype.name)
    corner = standardise(surrogate, front.reference)
    reached = scalarised(standardise(surrogate, front.values), corner, way)
    reached = jnp.max(jnp.where(front.mask[:, None], reached, 0), axis=0, initial=0)
    values = scalarised(drawn, corner, way)  # [S, C, K]
    reached = jnp.broadcast_to(reached, (draws.samples, draws.directions))
    return _greedy(values, reached, candidates, count=count, unit=_sphere(objectives))


def _distances(values: jax.Array, ideal: KnownIdeal) -> jax.Array:
    """Distances `[..., 2]` of logarithms `[..., M]` from the ideal, on linear and on logarithmic axes.

    Values better than the ideal count as equal to it.
    """
    low, high = jnp.asarray(ideal.low), jnp.asarray(ideal.high)

    def norm(values: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
        wide = high > low
        return jnp.linalg.norm(
            jnp.where(wide, jnp.maximum(values - low, 0) / jnp.where(wide, high - low, 1), 0), axis=-1
        )

    # In units of the largest value, clipped at e^9: nothing is near at that distance on any axis, and squares stay
    # finite in single precision.
    linear = norm(jnp.exp(jnp.minimum(values - high, 9)), jnp.exp(low - high), jnp.ones_like(high))
    return jnp.stack([linear, norm(values, low, high)], axis=-1)


@functools.partial(jax.jit, static_argnames=("count", "draws"))
def approach(
    key: jax.Array,
    surrogate: Surrogate,
    candidates: Candidates,
    ideal: KnownIdeal,
    *,
    count: int,
    draws: Draws = DRAWS,
) -> Batch:
    """Batch by the expected approach to the ideal: the share by which the least distance falls over sampled functions.

    The distances are those of `axes.Axes`. Linear and logarithmic axes have equal weight; an axis type on which the
    least distance is already 0 adds nothing. A second pick gains only what the first has left. A pick of gain 0 is
    arbitrary.

    Args:
        key: Typed PRNG key; it is consumed.
        surrogate: surrogate of at least M objectives, whose targets are logarithms; objectives beyond M are ignored.
        candidates: the pool.
        ideal: the ideal and the distances reached so far.
        count: Static, Q.
        draws: Static.

    Returns:
        Q picks; their gains are shares of the least distance.
    """
    size, x = ideal.low.shape[0], jnp.asarray(candidates.features)
    drawn = posterior_samples(key, surrogate, x, samples=draws.samples, features=draws.features)[..., :size]
    distance = _distances(drawn * surrogate.scale[:size] + surrogate.offset[:size], ideal)
    values = jnp.where(ideal.least > 0, 1 - distance / jnp.where(ideal.least > 0, ideal.least, 1), 0)
    reached = jnp.zeros((draws.samples, 2), drawn.dtype)
    return _greedy(values, reached, candidates, count=count)
