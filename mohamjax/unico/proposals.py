"""Which hardware points to measure next: the surrogate's choice, evolution, densities, or chance.

Every method is a pure function of the rows measured so far, the seed and the number of the batch (the surrogate also of
its last hyper-parameters), so that a resumed search repeats itself. Measured points are not proposed again.

Axes: n rows, A axes of the space, C candidates, Q points of a batch.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.unico import acquisition, fidelity, gp
from mohamjax.unico.axes import Axes, distance_to_ideal
from mohamjax.unico.config import CodesignConfig
from mohamjax.unico.history import OBJECTIVES, History
from mohamjax.unico.robustness import impute
from mohamjax.unico.space import HardwareSpace

_LISTED = 100_000  # spaces of up to so many points are listed, to draw from the points left
_GOOD = 0.15  # share of the rows that count as good in a density
_ROBUST = {"unico": "robustness", "hasco-r": "delta"}


@dataclasses.dataclass(frozen=True)
class Proposal:
    """A batch.

    Attributes:
        index: `[Q]` int64, distinct points that have not been measured.
        predicted: `[Q, 2, 3]` float64, see `History`.
        hyper: hyper-parameters of the surrogate, the start of the next fit; None without a surrogate.
    """

    index: np.ndarray
    predicted: np.ndarray
    hyper: gp.Hyper | None = None

    @classmethod
    def of(cls, index: np.ndarray) -> Proposal:
        """A batch proposed without a surrogate; its predictions are NaN."""
        return cls(index, np.full((len(index), 2, len(OBJECTIVES)), np.nan))

    def joined(self, more: np.ndarray) -> Proposal:
        """The batch with more points, proposed without a surrogate."""
        other = Proposal.of(more)
        index, predicted = (np.concatenate(both) for both in ((self.index, more), (self.predicted, other.predicted)))
        return dataclasses.replace(self, index=index, predicted=predicted)


def _generator(config: CodesignConfig, batch: int) -> np.random.Generator:
    return np.random.default_rng([config.seed, batch, 0x0C0DE])


def random_points(generator: np.random.Generator, space: HardwareSpace, seen: np.ndarray, number: int) -> np.ndarray:
    """Up to `number` distinct random points that are not among `seen`; fewer if the space has no more."""
    seen = np.unique(np.asarray(seen, np.int64))
    if space.size <= _LISTED:
        return generator.permutation(np.setdiff1d(np.arange(space.size), seen))[:number]
    out = np.zeros(0, np.int64)
    while len(out) < min(number, space.size - len(seen)):
        drawn = generator.integers(space.size, size=2 * number)
        both = np.concatenate([out, drawn[~np.isin(drawn, seen)]])
        out = both[np.sort(np.unique(both, return_index=True)[1])][:number]
    return out


def by_chance(history: History, space: HardwareSpace, config: CodesignConfig, batch: int, number: int) -> Proposal:
    """Points drawn uniformly at random."""
    index = random_points(_generator(config, batch), space, history["index"], number)
    return Proposal.of(index)


# ---------------------------------------------------------------- the surrogate


def targets(history: History, config: CodesignConfig) -> np.ndarray:
    """`[n, M]` float64, objectives of the surrogate: latency, power, area and, in some methods, R or its distance."""
    extra = _ROBUST.get(config.method)
    known = history.expected() if config.method == "unico" and config.extrapolate else history.objectives
    if extra is None or (config.method == "unico" and not config.robust):
        return known
    values, samples, batch = history[extra], history["samples"], history["batch"]
    out = np.zeros(len(values))
    for b in np.unique(batch):
        own = batch == b
        out[own] = _imputed(values[own], samples[own])
    return np.concatenate([known, out[:, None]], axis=1)


def _imputed(values: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """R of a batch: imputed for points stopped early, which would look robust; the worst R for points without one."""
    filled = np.asarray(impute(values.astype(np.float32), samples.astype(np.int32))[0], float)
    return np.where(np.isnan(filled), np.nanmax(np.append(filled, 0.0)), filled)


def _logs(values: np.ndarray) -> np.ndarray:
    """Logarithms of objectives `[n, M]`; a small offset is added to the fourth first, because it may be 0."""
    shifted = values.copy()
    shifted[:, 3:] += fidelity.ROBUSTNESS_OFFSET
    return np.log(shifted)


def _pool(generator: np.random.Generator, history: History, space: HardwareSpace, config: CodesignConfig) -> np.ndarray:
    """Candidates `[C]`: random points, and points two small steps away from the front."""
    seen = history["index"]
    drawn = random_points(generator, space, seen, config.pool)
    front = history.front(config.power_cap_W)
    if not len(front):
        return drawn
    digits = space.digits(history["index"][generator.choice(front, config.neighbours)])
    rows = np.arange(len(digits))
    for _ in range(2):
        axis = generator.integers(len(space.axes), size=len(digits))
        step = generator.integers(1, 4, size=len(digits)) * generator.choice([-1, 1], size=len(digits))
        digits[rows, axis] = np.clip(digits[rows, axis] + step, 0, np.asarray(space.shape)[axis] - 1)
    near = space.index(digits)
    both = np.concatenate([drawn, near[~np.isin(near, seen)]])
    return both[np.sort(np.unique(both, return_index=True)[1])]


def _training_rows(history: History, config: CodesignConfig, values: np.ndarray) -> np.ndarray:
    """Rows that the surrogate learns from, ascending: at most `CodesignConfig.training` of the accepted rows.

    If there are more: the front, then the newest, then those nearest to the best.

    Args:
        history: rows so far.
        config: settings.
        values: `[n, M]` float64, logarithms of the objectives.
    """
    use = history["accepted"] & history.valid & np.isfinite(values).all(axis=1)
    rows = np.flatnonzero(use)
    if len(rows) <= config.training:
        return rows
    on_front = np.zeros(len(history), bool)
    on_front[history.front(config.power_cap_W)] = True
    spread = values - values[use].min(axis=0)
    spread = (spread / np.maximum(spread[use].max(axis=0), 1e-12)).max(axis=1)
    use, on_front, spread = (fidelity.padded(column, 0) for column in (use, on_front & use, spread))
    chosen, mask = fidelity.training_rows(use, spread, on_front, size=config.training)
    return np.asarray(chosen)[np.asarray(mask)]


def _known_ideal(logs: np.ndarray) -> acquisition.KnownIdeal:
    """The ideal for `acquisition.approach`, in single precision.

    Args:
        logs: `[n, M]` float64, logarithms of the objectives of the rows so far, n >= 1.
    """
    values = np.exp(logs)
    least = [distance_to_ideal(values, Axes.of(values, log=log)).min() for log in (False, True)]
    low, high = (end.astype(np.float32) for end in (logs.min(axis=0), logs.max(axis=0)))
    return acquisition.KnownIdeal(low, high, np.asarray(least, np.float32))


def _known_front(good: np.ndarray, known: np.ndarray) -> acquisition.KnownFront:
    """The front for `acquisition.qhvi`, in single precision and padded.

    It is the front of latency, power and area, as reported: rows that only R keeps from being dominated are not in it.

    Args:
        good: `[F, M]` float64, logarithms of the objectives of the front.
        known: `[n, M]` float64, logarithms of the objectives of the training set.
    """
    # The reference lies a tenth of the span beyond the worst of the front, so that its ends gain as well.
    span = np.maximum(known.max(axis=0) - known.min(axis=0), 1e-6)
    reference = (good.max(axis=0) + 0.1 * span).astype(np.float32)
    shown, there = fidelity.padded(good.astype(np.float32), 0), fidelity.padded(np.ones(len(good), bool), False)
    return acquisition.KnownFront(shown, there, reference)


def by_surrogate(
    history: History,
    space: HardwareSpace,
    config: CodesignConfig,
    batch: int,
    number: int,
    hyper: gp.Hyper | None,
    size: int,
) -> Proposal:
    """The batch that an acquisition function picks from Gaussian processes trained on the accepted rows.

    Args:
        history: rows so far, some accepted.
        space: the hardware space.
        config: settings.
        batch: number of the batch.
        number: points wanted.
        hyper: start of the fit, or None.
        size: points that the compiled acquisition picks, at least `number`.
    """
    fit_key, pick_key = jax.random.split(jax.random.fold_in(jax.random.key(config.seed), batch))
    generator = _generator(config, batch)
    pool = _pool(generator, history, space, config)
    if not len(pool):
        return Proposal.of(np.zeros(0, np.int64))
    values = _logs(targets(history, config))
    rows = _training_rows(history, config, values)
    if len(rows) < 2:
        return by_chance(history, space, config, batch, number)
    padded = gp.bucket(len(rows))
    x = np.zeros((padded, len(space.axes)), np.float32)
    y = np.zeros((padded, values.shape[1]), np.float32)
    x[: len(rows)], y[: len(rows)] = space.encode(history["index"][rows]), values[rows]
    training = gp.TrainingSet(x, y, np.arange(padded) < len(rows))
    surrogate = gp.fit(fit_key, training, hyper, steps=60 if hyper is None else 20)

    most = config.pool + config.neighbours
    features = np.zeros((most, len(space.axes)), np.float32)
    features[: len(pool)] = space.encode(pool)
    there = np.arange(most) < len(pool)
    certain = None
    if config.power_cap_W is not None:
        certain = gp.probability_below(surrogate, features, float(np.log(config.power_cap_W)), objective=1)
    candidates = acquisition.Candidates(features, there, certain)
    front = history.front(config.power_cap_W)
    aimed = aimed_points(config, batch, size, size) if len(front) else 0
    first = np.zeros(0, int)
    if aimed:
        pick_key, near_key = jax.random.split(pick_key)
        ideal = _known_ideal(values[history.within(config.power_cap_W), : len(OBJECTIVES)])
        near = acquisition.approach(near_key, surrogate, candidates, ideal, count=aimed)
        # Candidates that are not expected to come nearer are left to the other rule.
        first = np.asarray(near.index)[np.asarray(near.gain) > 0][: aimed_points(config, batch, number, size)]
        candidates = dataclasses.replace(candidates, mask=there & ~np.isin(np.arange(most), first))
    known = values[rows]
    if config.acquisition == "mesmo":
        best = known.min(axis=0).astype(np.float32)
        picked = acquisition.mesmo(pick_key, surrogate, candidates, best, count=size)
    else:
        shown = _known_front(values[front] if len(front) else known, known)
        picked = acquisition.qhvi(pick_key, surrogate, candidates, shown, count=size)
    index = np.asarray(picked.index)
    index = np.concatenate([first, index[index >= 0]])[:number]
    mean, variance = (np.asarray(v, float)[index] for v in gp.predict(surrogate, features))
    predicted = np.stack([mean, np.sqrt(variance)], axis=1)[:, :, : len(OBJECTIVES)]
    return Proposal(pool[index], predicted, jax.device_get(surrogate.hyper))


def aimed_points(config: CodesignConfig, batch: int, number: int, size: int) -> int:
    """How many of `number` points of a batch aim at the ideal.

    Args:
        config: settings; `aims` is the share.
        batch: number of the batch.
        number: points of the batch.
        size: points of a full batch. If this is 1, the share is that of the batches whose point aims.
    """
    if size > 1:
        return round(config.aims * number)
    return int(config.aims * (batch + 1)) - int(config.aims * batch)


# ---------------------------------------------------------------- baselines


def _held(history: History, config: CodesignConfig) -> np.ndarray:
    """Objectives in which rows that break the limit on power rank behind all others, float32.

    They are padded (`emo.with_spare_rows`). Every row has an area, so the spare rows rank behind all n rows.
    """
    cap = config.power_cap_W or np.finfo(float).max  # not inf: a row without a valid mapping has infinite power
    excess = np.where(history.valid, np.maximum(history["power_W"] / cap - 1, 0), np.inf)
    both = (emo.with_spare_rows(part.astype(np.float32)) for part in (history.objectives, excess))
    return np.asarray(emo.constrained(*both))


def by_evolution(history: History, space: HardwareSpace, config: CodesignConfig, batch: int, number: int) -> Proposal:
    """NSGA-II over the digits: simulated binary crossover and polynomial mutation, rounded.

    The population is selected from the rows so far. Random points replace offspring that were measured before.
    """
    generator = _generator(config, batch)
    if not len(history):
        return by_chance(history, space, config, batch, number)
    shape = jnp.asarray(space.shape, jnp.float32)
    size = max(number, 2)
    search = _nsga(size, len(space.axes))
    index, rank, crowding = emo.survive(jnp.asarray(_held(history, config)), min(size, len(history)))
    grown = np.resize(np.asarray(index), size)
    state = dataclasses.replace(
        search.init(jax.random.fold_in(jax.random.key(config.seed), 7), shape=shape),
        generation=jnp.int32(batch),
        genes=jnp.asarray(space.digits(history["index"][grown])),
        rank=jnp.asarray(np.resize(np.asarray(rank), size)),
        crowding=jnp.asarray(np.resize(np.asarray(crowding), size)),
    )
    asked = space.index(np.asarray(search.ask(state, shape=shape)))
    asked = asked[~np.isin(asked, history["index"])]
    asked = asked[np.sort(np.unique(asked, return_index=True)[1])][:number]
    seen = np.concatenate([history["index"], asked])
    more = random_points(generator, space, seen, number - len(asked))
    index = np.concatenate([asked, more])
    return Proposal.of(index)


def _nsga(size: int, axes: int) -> emo.NSGA2:
    """NSGA-II over digits, with the usual distribution indices of 15 and 20 (Deb et al., 2002).

    A digit that mutates moves by the polynomial step, but by 1 at least, and the other way if this way has no room.
    """

    def sample(key: jax.Array, shape: jax.Array) -> jax.Array:
        return jnp.floor(jax.random.uniform(key, shape.shape) * shape).astype(jnp.int32)

    def vary(key: jax.Array, a: jax.Array, b: jax.Array, shape: jax.Array) -> tuple[jax.Array, jax.Array]:
        cross, swap, first, second = jax.random.split(key, 4)
        u = jax.random.uniform(cross, (axes,))
        spread = jnp.where(u <= 0.5, (2 * u) ** (1 / 16), (0.5 / (1 - u)) ** (1 / 16))
        spread = jnp.where(jax.random.bernoulli(swap, 0.5, (axes,)), 1.0, spread)
        mean, half = (a + b) / 2, spread * (b - a) / 2

        def mutated(key: jax.Array, x: jax.Array) -> jax.Array:
            coin, draw = jax.random.split(key)
            r = jax.random.uniform(draw, (axes,))
            delta = jnp.where(r < 0.5, (2 * r) ** (1 / 21) - 1, 1 - (2 * (1 - r)) ** (1 / 21))
            last = shape - 1
            x = jnp.clip(jnp.round(x), 0, last)
            # A step of less than half a digit would be rounded away, and digits of two values would never mutate.
            step = jnp.where(r < 0.5, -1, 1) * jnp.maximum(jnp.round(jnp.abs(delta) * last), 1)
            step = jnp.where((x + step < 0) | (x + step > last), -step, step)
            moved = jnp.where(jax.random.bernoulli(coin, 1 / axes, (axes,)), x + step, x)
            return jnp.clip(moved, 0, last).astype(jnp.int32)

        return mutated(first, mean - half), mutated(second, mean + half)

    return emo.NSGA2(sample=sample, vary=vary, population=size, objectives=len(OBJECTIVES))


def by_density(history: History, space: HardwareSpace, config: CodesignConfig, batch: int, number: int) -> Proposal:
    """MOBOHB: candidates with the largest ratio of the density of good rows to the density of the others.

    Every point of the batch has its own random weights, under which ParEGO's scalar splits the rows into the best 15 %
    and the rest; densities are products of normal kernels over the coordinates. With `CodesignConfig.extras` the first
    points of the batch aim at the ideal: the distance from it replaces the scalar, alternating between linear and
    logarithmic axes.
    """
    generator = _generator(config, batch)
    last = np.zeros(len(history), bool)  # of a point that was finished only the last row counts
    last[len(history) - 1 - np.unique(history["index"][::-1], return_index=True)[1]] = True
    valid = np.flatnonzero(history.valid & last)
    if len(valid) < 4:
        return by_chance(history, space, config, batch, number)
    measured = history.objectives[valid]
    values = np.log(measured)
    values = (values - values.min(axis=0)) / np.maximum(np.ptp(values, axis=0), 1e-12)
    late = np.where(history.within(config.power_cap_W)[valid], 0.0, 1e3)
    x = space.encode(history["index"][valid]).astype(float)
    pool = random_points(generator, space, history["index"], config.pool)
    z, taken = space.encode(pool).astype(float), np.zeros(len(pool), bool)
    out = []
    aimed = aimed_points(config, batch, number, config.lanes)
    for k in range(min(number, len(pool))):
        weights = jnp.asarray(generator.dirichlet(np.ones(values.shape[1])))
        scalar = np.asarray(fidelity.parego(values, weights)) + late
        if k < aimed:
            scalar = distance_to_ideal(measured, Axes.of(measured, log=k % 2 == 1)) + late
        order = np.argsort(scalar, kind="stable")
        good = max(2, round(_GOOD * len(order)))
        gain = _log_density(z, x[order[:good]]) - _log_density(z, x[order[good:]])
        best = int(np.argmax(np.where(taken, -np.inf, gain)))
        taken[best] = True
        out.append(best)
    return Proposal.of(pool[out])


def _log_density(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Logarithm `[C]`, up to a constant, of a normal kernel density with Scott's bandwidth on every coordinate."""
    width = np.maximum(centres.std(axis=0) * len(centres) ** (-1 / (4 + centres.shape[1])), 0.05)
    square = (((points[:, None] - centres) / width) ** 2).sum(axis=-1)
    least = square.min(axis=1)
    return np.log(np.exp(-(square - least[:, None]) / 2).mean(axis=1)) - least / 2 - np.log(width).sum()
