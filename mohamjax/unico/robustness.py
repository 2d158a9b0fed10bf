"""Robustness R of a hardware point: how much latency and power vary over its good mappings; lower is better.

Every network-level mapping that a search evaluates for a hardware point is a sample. R compares the best sample with
the one at the edge of the best `tail_percent` of them: Delta is their distance relative to the best, theta the angle at
which the best is approached, and R = Delta (1 + F(theta)). Not all samples are kept: a `Tail` holds as many of the
lowest latencies as the rank of the edge can ever need.
Source: UNICO, Section 3.2 and Appendix A.1 (alpha = 95 %, F). Our choices: the distance is relative to the best sample
of the same hardware point, so that it has no unit; the rank is rounded up.

Axes: ... lanes (hardware points), K rows of a tail, S samples of a generation.
"""

from __future__ import annotations

import functools
import math
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.runtime.struct import record

Count = TypeVar("Count", int, jax.Array)

LEAST_SAMPLES = 40  # with fewer, the edge is the best sample or its neighbour, and R is meaningless


@record
class Tail:
    """The lowest latencies among the samples so far, and their power.

    Attributes:
        latency: `[..., K]` float, ascending, ties by power; inf where there are fewer samples.
        power: `[..., K]` float, inf where there are fewer samples.
        count: `[...]` int32, valid samples so far, including those that are not kept.
    """

    latency: jax.Array
    power: jax.Array
    count: jax.Array


@record
class Robustness:
    """R and its parts, `[...]` floats each; all NaN where there is no valid sample.

    Attributes:
        value: R = Delta (1 + F(theta)).
        delta: relative distance of the edge of the tail from the best sample.
        theta: angle of approach [rad], 0 to pi; pi/2 (latency alone changes) where the distance is 0.
    """

    value: jax.Array
    delta: jax.Array
    theta: jax.Array


def tail_rank(count: Count, tail_percent: int = 5) -> Count:
    """Rank, from 0, of the sample at the edge of the best `tail_percent` of `count` samples; integers throughout.

    Examples:
        >>> tail_rank(100), tail_rank(101), tail_rank(20)
        (4, 5, 0)
    """
    # Quotient and remainder are treated apart, because `tail_percent * count` may not fit into 32 bits.
    whole, rest = count // 100, count % 100
    rank = tail_percent * whole - (-tail_percent * rest // 100) - 1
    return jnp.maximum(rank, 0) if isinstance(rank, jax.Array) else max(rank, 0)


def tail_init(most: int, lanes: tuple[int, ...] = (), *, tail_percent: int = 5, dtype: str = "float32") -> Tail:
    """Tail without samples.

    Args:
        most: most samples that a search can have; K follows from it.
        lanes: leading shape.
        tail_percent: share of the samples in the tail [%], see `robustness`.
        dtype: dtype of latency and power.
    """
    shape = (*lanes, tail_rank(most, tail_percent) + 1)
    return Tail(
        latency=jnp.full(shape, jnp.inf, dtype),
        power=jnp.full(shape, jnp.inf, dtype),
        count=jnp.zeros(lanes, jnp.int32),
    )


@jax.jit
def tail_update(tail: Tail, latency: jax.Array, power: jax.Array, valid: jax.Array) -> Tail:
    """The tail after more samples.

    Args:
        tail: K rows.
        latency: `[..., S]` float, positive.
        power: `[..., S]` float.
        valid: `[..., S]` bool; other samples are neither counted nor read. Non-finite samples are never valid.
    """
    valid = valid & jnp.isfinite(latency) & jnp.isfinite(power)
    rows = [jnp.where(valid, values, jnp.inf).astype(tail.latency.dtype) for values in (latency, power)]
    merged = [jnp.concatenate(pair, axis=-1) for pair in zip((tail.latency, tail.power), rows, strict=True)]
    first, second = lax.sort(merged, num_keys=2)
    size = tail.latency.shape[-1]
    count = tail.count + jnp.sum(valid, axis=-1, dtype=jnp.int32)
    return Tail(latency=first[..., :size], power=second[..., :size], count=count)


def angle_penalty(theta: jax.Array) -> jax.Array:
    """F(theta) = 6/pi^2 theta^2 - 5/pi theta + 1: 1 at 0, 0 at pi/3 and pi/2, 2 at pi, and -1/24 between the roots."""
    turn = theta / math.pi
    return 6 * turn**2 - 5 * turn + 1


def robustness_between(
    best: tuple[jax.Array, jax.Array], edge: tuple[jax.Array, jax.Array], *, clamp: bool = False
) -> Robustness:
    """R of two samples.

    Args:
        best: latency and power of the best sample, both positive.
        edge: latency and power of the sample at the edge of the tail; its latency is not lower.
        clamp: F is at least 0, so that R is at least Delta.
    """
    latency = (edge[0] - best[0]) / best[0]
    power = (edge[1] - best[1]) / best[1]
    # The inner `where` keeps derivatives at the origin finite.
    square = latency**2 + power**2
    apart = square > 1e-24
    delta = jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)), 0)
    theta = jnp.where(apart, jnp.arctan2(jnp.where(apart, latency, 1), jnp.where(apart, power, 0)), math.pi / 2)
    penalty = angle_penalty(theta)
    if clamp:
        penalty = jnp.maximum(penalty, 0)
    # Where nothing varies, delta is 0, so R is exactly 0, although F(pi/2) is 0 only up to rounding.
    return Robustness(value=delta * (1 + penalty), delta=delta, theta=theta)


@functools.partial(jax.jit, static_argnames=("tail_percent", "clamp"))
def robustness(tail: Tail, *, tail_percent: int = 5, clamp: bool = False) -> Robustness:
    """R of every lane, from its best sample and the sample of rank `tail_rank(count)`.

    Args:
        tail: from `tail_init` with the same `tail_percent`.
        tail_percent: Static, 100 (1 - alpha).
        clamp: Static, see `robustness_between`.

    Returns:
        Fields of shape `[...]`; R = 0 where the rank is 0 (20 samples or fewer: see `impute`), NaN without samples.
    """
    rank = jnp.minimum(tail_rank(tail.count, tail_percent), tail.latency.shape[-1] - 1)
    some = tail.count > 0

    def sample(index: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = (jnp.take_along_axis(values, index[..., None], -1)[..., 0] for values in (tail.latency, tail.power))
        first, second = (jnp.where(some, values, 1) for values in rows)
        return first, second

    found = robustness_between(sample(jnp.zeros_like(rank)), sample(rank), clamp=clamp)
    return jax.tree.map(lambda values: jnp.where(some, values, jnp.nan), found)


@functools.partial(jax.jit, static_argnames="least")
def impute(values: jax.Array, count: jax.Array, *, least: int = LEAST_SAMPLES) -> tuple[jax.Array, jax.Array]:
    """R of a batch, imputed for points that were stopped early and would look robust for that reason alone.

    Hardware points with fewer than `least` samples get the median R of those with at least `least`; if there are none,
    the median of all.

    Args:
        values: `[H]` float, R; NaN without samples, which stays NaN.
        count: `[H]` integer, valid samples.
        least: Static.

    Returns:
        `[H]` R, and `[H]` bool, true where R is imputed.
    """
    measured = ~jnp.isnan(values)
    own = measured & (count >= least)
    basis = jnp.where(jnp.any(own), own, measured)
    imputed = measured & ~own
    return jnp.where(imputed, jnp.nanmedian(jnp.where(basis, values, jnp.nan)), values), imputed
