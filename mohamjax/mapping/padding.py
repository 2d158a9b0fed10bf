"""Padded loop bounds: the larger bounds that a mapping may cover instead of its layer's own.

Factors have to divide their bound, so a prime bound runs on one child of an array and fills no buffer well. A mapping
may round a bound up and do all the work of the larger problem: 197 tokens, padded to 208, take 13 steps on 16 children
instead of 197. Each dimension has a few bounds to choose from, which suit the template's fanouts and buffers.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math

import numpy as np

from mohamjax.dims import RELEVANCE, R, S
from mohamjax.hardware.arrays import Machine
from mohamjax.mapping.space import Constraints, prime_factors

ALTERNATIVES = 4
"""Most bounds per dimension that a mapping may choose from, the layer's own included."""

_WORTH = math.log2(1.05)
"""Least gain that a larger bound must bring, summed over all uses of a dimension: as much as 5 % fewer steps in one."""

MOST_PADDED = 4 / 3
"""Largest ratio of a padded bound to the layer's own: 3 may become 4, which takes two children two steps."""

_FARTHEST = 64
"""Most that is added to a bound: about the widest fanout to be expected."""


def padded_bounds(
    bounds: tuple[int, ...], limits: Constraints, machine: Machine, primes: int
) -> tuple[tuple[int, ...], ...]:
    """Bounds that mappings of a layer may cover on a template, dimension by dimension; the layer's own come first.

    A larger bound is offered if it needs fewer steps on some of the template's fanouts, or for tiles of some size in
    its buffers. Of several, those that improve most on the bounds chosen before are taken. Filter taps (R, S) are not
    padded, because that would widen the window of inputs.

    Args:
        bounds: `[D]`, the layer's own.
        limits: what the template allows a mapping of the layer.
        machine: the template at its maximum sizes, padded to the same L.
        primes: number of prime factors that all dimensions together have room for.

    Returns:
        `[D]` tuples, each of at most `ALTERNATIVES` bounds in ascending order.
    """
    capacity, fanout = np.asarray(machine.capacity), np.asarray(machine.fanout)
    across = np.minimum(limits.spatial_max, fanout.T[:, :, None])  # [2, L, D]
    stored = np.any(np.asarray(limits.keep)[:, :, None] & RELEVANCE, axis=1) & np.isfinite(capacity)[:, None]  # [L, D]
    buffered = np.any(stored & (np.asarray(limits.temporal_max) > 1), axis=0).tolist()
    offers = [
        (gain, d, padded)
        for d, bound in enumerate(bounds)
        if bound > 1 and d not in (R, S)
        for gain, padded in _offers(bound, tuple(sorted(int(f) for f in across[..., d].ravel() if f > 1)), buffered[d])
    ]
    chosen = [[bound] for bound in bounds]
    longest = [len(prime_factors(bound)) for bound in bounds]
    for _, d, padded in sorted(offers, key=lambda offer: -offer[0]):
        longer = max(longest[d], len(prime_factors(padded)))
        if sum(longest) - longest[d] + longer <= primes:
            longest[d] = longer
            chosen[d].append(padded)
    return tuple(tuple(sorted(row)) for row in chosen)


@functools.lru_cache(maxsize=1 << 14)
def _offers(bound: int, fanouts: tuple[int, ...], buffered: bool) -> tuple[tuple[float, int], ...]:
    """Larger bounds in the order in which they are chosen, as pairs (gain over those before, bound).

    The gain is the base-2 logarithm of the factor by which steps decrease, summed over all uses of the dimension: on
    every combination of the fanouts and, if `buffered`, in tiles of about every power of two.
    """
    most = min(int(bound * MOST_PADDED), bound + _FARTHEST)
    candidates = list(range(bound, most + 1))
    parts = sorted({part for n in range(1, len(fanouts) + 1) for part in itertools.combinations(fanouts, n)})
    tiles = [1 << i for i in range(1, bound.bit_length())] if buffered else []
    if not parts and not tiles:
        return ()
    steps = np.log2(
        [[b / most for most in (*(_widest(b, part) for part in parts), *_fitting(b, tiles))] for b in candidates]
    )
    best, out = steps[0], []
    while len(out) < ALTERNATIVES - 1:
        gains = np.maximum(best - steps, 0).sum(axis=1)
        pick = int(np.argmax(gains))
        if gains[pick] < _WORTH:
            break
        out.append((float(gains[pick]), candidates[pick]))
        best = np.minimum(best, steps[pick])
    return tuple(out)


def _fitting(bound: int, tiles: list[int]) -> list[int]:
    """The largest divisor of a bound that is at most as large as each of some tiles."""
    if not tiles:
        return []
    low = [f for f in range(1, math.isqrt(bound) + 1) if bound % f == 0]
    divisors = sorted({*low, *(bound // f for f in low)})
    return [divisors[bisect.bisect_right(divisors, tile) - 1] for tile in tiles]


@functools.lru_cache(maxsize=1 << 16)
def _widest(bound: int, fanouts: tuple[int, ...]) -> int:
    """Most children that a bound runs on: the largest product of one factor per fanout that divides the bound."""
    if not fanouts:
        return 1
    factors = [f for f in range(1, min(fanouts[0], bound) + 1) if bound % f == 0]
    return max(f * _widest(bound // f, fanouts[1:]) for f in factors)
