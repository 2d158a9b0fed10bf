"""The multi-objective definitions in plain NumPy, as slow and as literal as possible."""

import numpy as np


def dominance(f):
    """`[N, N]` bool: row i is nowhere larger than row j and somewhere smaller."""
    return (f[:, None] <= f[None]).all(-1) & (f[:, None] < f[None]).any(-1)


def clean(f):
    return np.where(np.isnan(f), np.inf, f)


def rank(f):
    beats = dominance(clean(f))
    result = np.full(len(f), -1)
    front = 0
    while (result < 0).any():
        left = result < 0
        result[left & ~(beats & left[:, None]).any(0)] = front
        front += 1
    return result


def crowding(f, ranks):
    limit = np.finfo(f.dtype).max
    f = np.clip(clean(f), -limit, limit)
    result = np.zeros(len(f))
    for front in np.unique(ranks):
        members = np.flatnonzero(ranks == front)
        for values in f[members].T:
            order = sorted(range(len(members)), key=lambda i: (values[i], members[i]))
            span = values[order[-1]] / 2 - values[order[0]] / 2
            result[members[order[0]]] = result[members[order[-1]]] = np.inf
            for below, here, above in zip(order, order[1:], order[2:], strict=False):
                if span > 0:
                    result[members[here]] += (values[above] / 2 - values[below] / 2) / span
    return result


def survivors(f, n):
    ranks = rank(f)
    distances = crowding(f, ranks)
    return sorted(range(len(f)), key=lambda i: (ranks[i], -distances[i], i))[:n]


def archive(batches, capacity):
    """Row numbers (over all batches) held after all batches, thinned one by one, and how many rows were thinned."""
    rows = clean(np.concatenate(batches))
    held, start, thinned = [], 0, 0
    for batch in batches:
        new = [i for i in range(start, start + len(batch)) if np.isfinite(rows[i]).all()]
        start += len(batch)
        distinct = [i for k, i in enumerate(held + new) if not _equals_any(rows, i, (held + new)[:k])]
        beaten = dominance(rows[distinct]).any(0) if distinct else np.zeros(0, bool)
        held = [i for i, out in zip(distinct, beaten, strict=True) if not out]
        while len(held) > capacity:
            del held[int(np.argmin(crowding(rows[held], np.zeros(len(held)))))]
            thinned += 1
    return held, thinned


def _equals_any(rows, i, others):
    return any((rows[i] == rows[j]).all() for j in others)


def volume(front, reference):
    """Hypervolume: the sum of the dominated cells of the grid that the coordinates span."""
    rows = [row for row in clean(front) if (row < reference).all()]
    if not rows:
        return 0.0
    rows = np.asarray(rows)
    axes = [np.unique(np.append(rows[:, k], reference[k])) for k in range(rows.shape[1])]
    corners = np.stack(np.meshgrid(*[axis[:-1] for axis in axes], indexing="ij"), -1)
    sizes = np.stack(np.meshgrid(*[np.diff(axis) for axis in axes], indexing="ij"), -1).prod(-1)
    covered = (rows <= corners[..., None, :]).all(-1).any(-1)
    return float((sizes * covered).sum())
