"""The front of any number of rows on the host, for reports and tables; searches rank padded ones (`emo.ranking`)."""

from __future__ import annotations

import numpy as np

__all__ = ["distinct_front", "volume_subset"]


def distinct_front(objectives: np.ndarray) -> np.ndarray:
    """Rows that no other row dominates, of equal ones the first.

    Args:
        objectives: `[N, M]` float, without NaN.

    Returns:
        `[K]` int, by the first objective upward, then by the second, and so on.
    """
    order = np.lexsort(objectives.T[::-1])  # whatever dominates a row comes before it
    keep = np.zeros(len(order), int)
    found = np.empty((len(order), objectives.shape[1]), objectives.dtype)  # what is kept, without gaps
    count = 0
    for i in order:
        row = objectives[i]
        if not (found[:count] <= row).all(axis=1).any():
            keep[count], found[count] = i, row
            count += 1
    return keep[:count]


_AT_ONCE = 50  # of what is still too many, one in so many leaves before volumes are measured again


def volume_subset(front: np.ndarray, reference: np.ndarray, most: int) -> np.ndarray:
    """Rows of a front that keep nearly all of its hypervolume.

    Those leave whose own volumes are least, a few at a time (greedy reduction, as Bradstreet, Barone and While, 2006,
    have it one by one); rows that are best in some objective stay. Crowding distance, by which archives are thinned,
    costs ten times as much volume.

    Args:
        front: `[N, M]` float, M of 2 or more, mutually non-dominated, all minimised.
        reference: `[M]` float, the reference point; what is not below it has no volume.
        most: rows that stay at most, not fewer than the best of every objective.

    Returns:
        `[K]` int, rising; all rows where they are not too many.
    """
    rows = np.arange(len(front))
    best = np.isin(rows, front.argmin(axis=0))
    while (excess := len(rows) - most) > 0:
        from moocore import hv_contributions  # takes 0.1 s to import, and few searches need it

        own = np.where(best[rows], np.inf, hv_contributions(front[rows], ref=reference))
        rows = np.delete(rows, np.argsort(own, kind="stable")[: 1 + (excess - 1) // _AT_ONCE])
    return rows
