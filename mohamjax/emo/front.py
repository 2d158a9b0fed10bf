"""The front of any number of rows on the host, for reports and tables; searches rank padded ones (`emo.ranking`)."""

from __future__ import annotations

import numpy as np

__all__ = ["distinct_front"]


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
