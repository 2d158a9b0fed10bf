"""Pareto sets of mappings as they leave a search or an enumeration."""

from __future__ import annotations

import jax
import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.mapping.tables import entries_of


def undominated(table: MappingTables) -> MappingTables:
    """Sets `[B, M, ...]` without the entries that another entry of their set dominates; equal ones stay.

    A set is chosen by the objectives of one program and tabulated by another: two areas that differ by rounding there
    may be equal in the table.
    """
    kept = [_undominated(values[:count]) for values, count in zip(table.objectives, table.count, strict=True)]
    if all(len(rows) == count for rows, count in zip(kept, table.count, strict=True)):
        return table
    table = jax.tree.map(np.array, table)
    for b, rows in enumerate(kept):
        for name, column in entries_of(table).items():
            for leaf in jax.tree.leaves(column):
                leaf[b, : len(rows)] = leaf[b, rows]
            if name != "mapping":  # nests beyond the count mean nothing
                column[b, len(rows) :] = np.inf if name == "objectives" else 0
        table.count[b] = len(rows)
    return table


def _undominated(values: np.ndarray) -> np.ndarray:
    """Rows of `[n, 3]` that no other dominates."""
    no_worse = np.all(values[:, None] <= values, axis=-1)
    return np.flatnonzero(~np.any(no_worse & ~no_worse.T, axis=0))
