"""Which hardware points train the surrogate: ParEGO's scalar, the upper update limit, and the rules to compare with.

A batch of hardware points is measured with mapping searches of unequal length. Points whose scalar is far from the best
one are not worth learning from. The limit is the upper update limit (UUL): the 95 % quantile of a kernel density of the
distances of the rows accepted so far. Batches share only the mask of accepted rows: the scale of the objectives moves,
so every scalar is computed anew under the present scale.
Source: UNICO, Section 3.2, Eq. 2 (rho = 0.2, alpha = 0.95), Appendices A.1 and B.1; Knowles, "ParEGO", 2006.
Our choices: equal weights; the normal kernel's bandwidth; at least two rows of a batch are accepted; a row better than
all before is accepted at any distance.

Axes: N rows of the history (padded, masked), M objectives, all minimised.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.stats import norm

from mohamjax import emo
from mohamjax.runtime.blocks import power_of_two
from mohamjax.runtime.struct import record

RULES = ("uul", "pareto", "champion")
ROBUSTNESS_OFFSET = 1e-4  # log(R + 1e-4): R may be 0


def padded(rows: np.ndarray, fill: float) -> np.ndarray:
    """Rows `[n, ...]` with rows of `fill` at the end, up to a power of two from 64 on.

    So a growing history compiles few programs.
    """
    spare = power_of_two(len(rows), 64) - len(rows)
    return np.concatenate([rows, np.full((spare, *rows.shape[1:]), fill, rows.dtype)])


@record
class Scale:
    """Least and largest value of every objective so far, on its axis.

    Attributes:
        low: `[M]` float, least transformed objective; +inf before the first row.
        high: `[M]` float, largest transformed objective; -inf before the first row.
        log: `[M]` bool, true for a logarithmic axis.
        offset: `[M]` float, added before the logarithm.
    """

    low: jax.Array
    high: jax.Array
    log: jax.Array
    offset: jax.Array


def scale_init(
    log: tuple[bool, ...] = (True, True, False, True),
    offset: tuple[float, ...] = (0.0, 0.0, 0.0, ROBUSTNESS_OFFSET),
    dtype: str = "float32",
) -> Scale:
    """Scale before the first row; by default of latency, power, area (linear) and robustness.

    Args:
        log: whether the axis of each objective is logarithmic.
        offset: added to each objective before the logarithm.
        dtype: dtype of the values.
    """
    least = jnp.full(len(log), jnp.inf, dtype)
    return Scale(low=least, high=-least, log=jnp.array(log), offset=jnp.array(offset, dtype))


def _on_axes(scale: Scale, objectives: jax.Array) -> jax.Array:
    shifted = objectives + scale.offset
    return jnp.where(scale.log, jnp.log(jnp.where(scale.log, shifted, 1)), objectives)


@jax.jit
def scale_update(scale: Scale, objectives: jax.Array, feasible: jax.Array) -> Scale:
    """The scale after more rows.

    Args:
        scale: scale of the rows so far.
        objectives: `[N, M]` float; positive on logarithmic axes, after the offset.
        feasible: `[N]` bool; other rows are not read.
    """
    values = _on_axes(scale, jnp.where(feasible[:, None], objectives, 1))
    low = jnp.min(jnp.where(feasible[:, None], values, jnp.inf), axis=0, initial=jnp.inf)
    high = jnp.max(jnp.where(feasible[:, None], values, -jnp.inf), axis=0, initial=-jnp.inf)
    return Scale(
        low=jnp.minimum(scale.low, low), high=jnp.maximum(scale.high, high), log=scale.log, offset=scale.offset
    )


@jax.jit
def normalise(scale: Scale, objectives: jax.Array) -> jax.Array:
    """Objectives scaled from 0 (least so far) to 1 (largest so far); rows new to the scale may lie outside.

    An objective without span is 0 throughout.

    Args:
        scale: scale of at least one row.
        objectives: `[..., M]` float.
    """
    span = scale.high - scale.low
    some = span > 0
    return jnp.where(some, (_on_axes(scale, objectives) - scale.low) / jnp.where(some, span, 1), 0)


def parego(values: jax.Array, weights: jax.Array, rho: float = 0.2) -> jax.Array:
    """ParEGO's scalar: the largest weighted objective plus rho times their weighted sum (UNICO, Eq. 2).

    Args:
        values: `[..., M]` float, normalised objectives.
        weights: `[M]` float that add up to 1.
        rho: factor of the sum, which lets every objective take part.

    Examples:
        >>> float(parego(jnp.array([0.2, 0.4, 0.1, 0.3]), jnp.full(4, 0.25)))
        0.15000000596046448
    """
    weighted = jnp.asarray(values) * weights
    return jnp.max(weighted, axis=-1) + rho * jnp.sum(weighted, axis=-1)


def kde_bandwidth(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Bandwidth of a normal kernel, 1.06 s n^(-1/5) with the sample's standard deviation s, and 1e-6 at least.

    Args:
        values: `[N]` float.
        mask: `[N]` bool, values that count.
    """
    n = jnp.sum(mask)
    kept = jnp.where(mask, values, 0)
    mean = jnp.sum(kept) / jnp.maximum(n, 1)
    variance = jnp.sum(jnp.where(mask, (kept - mean) ** 2, 0)) / jnp.maximum(n - 1, 1)
    return jnp.maximum(1.06 * jnp.sqrt(variance) * jnp.maximum(n, 1).astype(kept.dtype) ** -0.2, 1e-6)


@functools.partial(jax.jit, static_argnames="steps")
def kde_quantile(values: jax.Array, mask: jax.Array, share: float = 0.95, *, steps: int = 60) -> jax.Array:
    """Quantile of the normal kernel density of a sample, by bisection.

    Args:
        values: `[N]` float.
        mask: `[N]` bool, values that count; if there are none, the result is +inf.
        share: probability below the quantile, in (0, 1).
        steps: Static, number of bisections.
    """
    values, mask = jnp.asarray(values), jnp.asarray(mask)
    width, n = kde_bandwidth(values, mask), jnp.sum(mask)
    # The quantile of each sample's own kernel lies within this distance of the sample.
    reach = width * (jnp.abs(norm.ppf(share)) + 1)
    low = jnp.min(jnp.where(mask, values, jnp.inf)) - reach
    high = jnp.max(jnp.where(mask, values, -jnp.inf)) + reach

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        middle = (ends[0] + ends[1]) / 2
        below = jnp.sum(jnp.where(mask, norm.cdf((middle - values) / width), 0)) / n
        return jnp.where(below < share, middle, ends[0]), jnp.where(below < share, ends[1], middle)

    low, high = lax.fori_loop(0, steps, halve, (low, high))
    return jnp.where(n > 0, (low + high) / 2, jnp.inf)


@record
class Acceptance:
    """What a batch adds to the rows that train the surrogate.

    Attributes:
        accepted: `[N]` bool, rows accepted so far, including those of the batch.
        scalar: `[N]` float, ParEGO's scalar V of every feasible row under the present scale; +inf for others.
        best: `[]` float, least V of all rows.
        distance: `[N]` float, V minus `best`; +inf for infeasible rows.
        limit: `[]` float, UUL applied to the batch; +inf for the first batch.
        next_limit: `[]` float, UUL of the rows now accepted.
    """

    accepted: jax.Array
    scalar: jax.Array
    best: jax.Array
    distance: jax.Array
    limit: jax.Array
    next_limit: jax.Array


@functools.partial(jax.jit, static_argnames="rule")
def accept(
    values: jax.Array,
    feasible: jax.Array,
    accepted: jax.Array,
    batch: jax.Array,
    full: jax.Array,
    weights: jax.Array,
    *,
    rule: str = "uul",
) -> Acceptance:
    """Decides which rows of a batch join those that train the surrogate; infeasible rows never do.

    'uul': the whole first batch; later the rows whose V is at most UUL above the best V before the batch, or the two
    best rows where fewer than two are. UUL is the 95 % quantile of the distances of the rows accepted before.
    'pareto': rows that no other row of the batch dominates. 'champion': the row of least V among those of the batch
    with the full budget.

    Args:
        values: `[N, M]` float, whole history, normalised under the present scale.
        feasible: `[N]` bool; false for padding. Infeasible rows are not read.
        accepted: `[N]` bool, rows accepted before.
        batch: `[N]` bool, rows to decide on, none of them accepted before.
        full: `[N]` bool, rows whose search had the full budget.
        weights: `[M]` float, weights of `parego`, the same for every call.
        rule: Static, one of `RULES`.

    Raises:
        ValueError: On an unknown rule.
    """
    if rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
    values = jnp.where(feasible[:, None], values, 0)
    scalar = jnp.where(feasible, parego(values, weights), jnp.inf)
    batch, before = batch & feasible, accepted & feasible
    earlier = feasible & ~batch
    best_before = jnp.min(jnp.where(earlier, scalar, jnp.inf))
    limit = kde_quantile(jnp.where(before, scalar - best_before, 0), before)
    if rule == "uul":
        passed = batch & (scalar - best_before <= limit)
        passed = jnp.where(jnp.any(before), passed, batch)
        order = jnp.argsort(jnp.where(batch, scalar, jnp.inf))
        best_two = batch & jnp.zeros_like(batch).at[order[:2]].set(True)
        passed = jnp.where(jnp.sum(passed) < 2, best_two, passed)
    elif rule == "pareto":
        rank = emo.non_dominated_rank(jnp.where(batch[:, None], values, jnp.inf))
        passed = batch & (rank == 0)
    else:
        champions = batch & full
        first = jnp.argmin(jnp.where(champions, scalar, jnp.inf))
        passed = champions & (jnp.arange(scalar.shape[0]) == first)
    now = before | passed
    best = jnp.min(scalar)
    distance = jnp.where(feasible, scalar - jnp.where(jnp.isfinite(best), best, 0), jnp.inf)
    following = kde_quantile(jnp.where(now, distance, 0), now)
    return Acceptance(accepted=now, scalar=scalar, best=best, distance=distance, limit=limit, next_limit=following)


@functools.partial(jax.jit, static_argnames=("size", "newest"))
def training_rows(
    accepted: jax.Array, distance: jax.Array, front: jax.Array, *, size: int = 256, newest: int = 64
) -> tuple[jax.Array, jax.Array]:
    """Rows of a training set of limited size: the front, then the newest, then those nearest to the best.

    Args:
        accepted: `[N]` bool, rows to choose among, in the order in which they were measured.
        distance: `[N]` float, distance to the best; smaller is nearer.
        front: `[N]` bool, non-dominated rows. If they alone are too many, the nearest of them are taken.
        size: Static, rows of the result.
        newest: Static, how many of the last accepted rows are taken.

    Returns:
        `[size]` int32 row indices, ascending, and `[size]` bool mask; indices are 0 where the mask is false.
    """
    n = accepted.shape[0]
    row = jnp.arange(n, dtype=jnp.int32)
    after = jnp.cumsum(accepted[::-1])[::-1]  # accepted rows from here on
    grade = jnp.where(front, 0, jnp.where(after <= newest, 1, 2))
    # The newest rows are ordered by time, latest first, so that the latest is the last to be left out.
    second = jnp.where(grade == 1, -row.astype(distance.dtype), distance)
    order = lax.sort((jnp.where(accepted, grade, 3), second, row), num_keys=3)[-1]
    chosen = jnp.zeros(n, bool).at[order[:size]].set(True) & accepted
    index = jnp.nonzero(chosen, size=size, fill_value=n)[0].astype(jnp.int32)
    return jnp.where(index < n, index, 0), index < n
