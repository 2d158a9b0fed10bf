"""Where a tensor repeats itself: the part of an index on which its values do not depend.

An axis is written as factors, outermost first, whose sizes multiply to its size: the digits of a mixed-radix index,
like the nested modes of CuTe's layouts. A factor is repeated if the values are the same for all its digits (a layout
would give it the stride 0). Two key heads that four query heads each read are an axis `((2, False), (4, True))` if
every head stands four times in a row, and `((4, True), (2, False))` if the pair of heads stands four times.

A factor that is not repeated claims nothing: its values may or may not differ. So an unknown pattern can always be
written as a factor that is not repeated. Axes of size 1 have no factors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

Factor = tuple[int, bool]
"""Size, and whether it is repeated."""

Factors = tuple[Factor, ...]
"""An axis: its factors, outermost first."""

Repetition = tuple[Factors, ...]
"""A tensor: the factors of each axis."""


def plain(sizes: Iterable[int]) -> Repetition:
    """Axes of which nothing is known but their sizes."""
    return tuple(simplified([(d, False)]) for d in sizes)


def simplified(factors: Iterable[Factor]) -> Factors:
    """The same axis in as few factors as possible."""
    out: list[Factor] = []
    for size, repeated in factors:
        if size == 1:
            continue
        if out and out[-1][1] == repeated:
            out[-1] = (out[-1][0] * size, repeated)
        else:
            out.append((size, repeated))
    return tuple(out)


def aligned(a: Iterable[Factor], b: Iterable[Factor]) -> list[tuple[int, bool, bool]]:
    """Cuts two ways to write one axis so that both have the same factors.

    Args:
        a: Factors whose sizes multiply to the size of the axis.
        b: Factors of the same product.

    Returns:
        (size, repeated in a, repeated in b) of each factor, outermost first. Every factor lies inside one of `b`. Where
        the two cannot both be cut (2 x 3 against 3 x 2), the factors are those of `b` and not repeated.
    """
    left, right = list(a)[::-1], list(b)[::-1]
    out: list[tuple[int, bool, bool]] = []
    while left and right:
        (m, x), (n, y) = left.pop(), right.pop()
        if m == n:
            out.append((m, x, y))
        elif n % m == 0:
            out.append((m, x, y))
            right.append((n // m, y))
        elif m % n == 0:
            out.append((n, x, y))
            left.append((m // n, x))
        else:
            reach_a, reach_b = m, n
            while reach_a != reach_b:
                if reach_a < reach_b:
                    reach_a *= left.pop()[0]
                else:
                    out.append((n, False, False))
                    n = right.pop()[0]
                    reach_b *= n
            out.append((n, False, False))
    return out


def common(a: Factors, b: Factors) -> Factors:
    """The axis of a tensor that is computed entry by entry from two others: repeated where both are."""
    return simplified((size, x and y) for size, x, y in aligned(a, b)) if a != b else a


def reshaped(repetition: Repetition, sizes: Sequence[int]) -> Repetition:
    """Factors of the axes after a row-major reshape to other sizes, of the same (positive) number of entries."""
    flat = simplified(itertools.chain.from_iterable(repetition))
    pieces = aligned(flat, [(d, False) for d in sizes if d != 1])[::-1]
    out = []
    for d in sizes:
        axis, left = [], d
        while left > 1:
            size, repeated, _ = pieces.pop()
            axis.append((size, repeated))
            left //= size
        out.append(simplified(axis))
    return tuple(out)


def spread(repetition: Repetition, sizes: Sequence[int], wide: Sequence[int]) -> Repetition:
    """Axes of the given sizes, broadcast to wider ones by NumPy's rules: a widened axis becomes a repetition."""
    missing = len(wide) - len(sizes)
    return tuple(
        simplified([(d, True)]) if i < missing or sizes[i - missing] != d else repetition[i - missing]
        for i, d in enumerate(wide)
    )


def first_places(factors: Factors) -> np.ndarray:
    """For each place along an axis, the first place that is known to hold the same value, `[size]` int64."""
    places = np.zeros(1, np.int64)
    for size, repeated in factors:
        digits = np.zeros(size, np.int64) if repeated else np.arange(size)
        places = (places[:, None] * size + digits).reshape(-1)
    return places


def of_places(places: np.ndarray) -> Factors:
    """Factors of an axis that is picked from these places of another one; equal places hold equal values.

    Args:
        places: Integers [n], n positive.

    Returns:
        Factors of n. Irregular repetitions count as not repeated; inner factors are found before outer ones.
    """
    n = places.size
    if np.unique(places).size == n:
        return simplified([(n, False)])
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    primes = [p for p in divisors if p > 1 and all(p % d for d in divisors if 1 < d < p)]

    def repeats(size: int, stride: int) -> bool:
        blocks = places.reshape(-1, size, stride)
        return bool((blocks == blocks[:, :1]).all())

    out: list[Factor] = []  # innermost first
    inside = 1
    while inside < n:
        stride, size = next(
            (
                (stride, p)
                for stride in divisors
                if stride % inside == 0
                for p in primes
                if n % (stride * p) == 0 and repeats(p, stride)
            ),
            (n, 1),
        )
        out += [(stride // inside, False), (size, True)]
        inside = stride * size
    return simplified(reversed(out))
