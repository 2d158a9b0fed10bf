"""Fronts of any number of rows on the host, for reports and tables; searches rank padded rows (`emo.ranking`)."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np


def distinct_front(objectives: np.ndarray) -> np.ndarray:
    """Rows that no other row dominates; of equal rows the first.

    Args:
        objectives: `[N, M]` float, without NaN.

    Returns:
        `[K]` int, row indices by rising first objective, then second, and so on.
    """
    order = np.lexsort(objectives.T[::-1])  # rows that dominate a row come before it
    keep = np.zeros(len(order), int)
    found = np.empty((len(order), objectives.shape[1]), objectives.dtype)  # kept rows, without gaps
    count = 0
    for i in order:
        row = objectives[i]
        if not (found[:count] <= row).all(axis=1).any():
            keep[count], found[count] = i, row
            count += 1
    return keep[:count]


_ONE_BY_ONE = 4096  # most excess rows that leave one by one; ten times as many would take a minute


def volume_subset(front: np.ndarray, reference: np.ndarray, most: int, keep: Collection[int] = ()) -> np.ndarray:
    """Rows of a front that hold nearly all of its hypervolume.

    The row whose own volume is least leaves, one after another (greedy reduction: Bradstreet, Barone and While, 2006).
    From much larger fronts several rows leave at a time. Reduction by crowding distance alone loses ten times as much
    volume.

    Args:
        front: `[N, M]` float, M of 2 or more, mutually non-dominated, all minimised.
        reference: `[M]` float, the reference point; rows that are not below it have no volume.
        most: largest number of rows that stay.
        keep: rows that stay in any case, at most `most`.

    Returns:
        `[K]` int, row indices, ascending; all rows if there are at most `most`.

    Raises:
        ValueError: `keep` has more than `most` rows.
    """
    if len(set(keep)) > most:
        raise ValueError(f"most: {len(set(keep))} rows are to stay, more than {most}")
    rows = np.arange(len(front))
    held = np.isin(rows, list(keep))
    while (excess := len(rows) - most) > 0:
        from moocore import hv_contributions  # takes a quarter of a second to import, and few searches need it

        own = np.where(held[rows], np.inf, hv_contributions(front[rows], ref=reference))
        rows = np.delete(rows, np.argsort(own, kind="stable")[: 1 + excess // _ONE_BY_ONE])
    return rows
