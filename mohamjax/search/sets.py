"""Pareto sets of mappings as they leave a search or an enumeration."""

from __future__ import annotations

import jax
import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.mapping.tables import entries_of

__all__ = ["undominated"]


def undominated(table: MappingTables) -> MappingTables:
    """Sets `[B, M, ...]` without entries that others of their set dominate; equal ones stay.

    A set is chosen by the objectives of one program and tabulated by another: two areas that differ by rounding there
    may be equal in the table.
    """
    values = table.objectives
    no_worse = np.all(values[:, :, None] <= values[:, None], axis=-1)  # [B, M, M]: the first than the second
    exists = np.arange(values.shape[1]) < table.count[:, None]
    dominated = np.any(no_worse & ~no_worse.swapaxes(1, 2) & exists[..., None], axis=1) & exists
    if not dominated.any():
        return table
    table = jax.tree.map(np.array, table)
    for b in np.flatnonzero(dominated.any(axis=1)):
        kept = np.flatnonzero(~dominated[b, : table.count[b]])
        for name, column in entries_of(table).items():
            for leaf in jax.tree.leaves(column):
                leaf[b, : len(kept)] = leaf[b, kept]
            if name != "mapping":  # nests beyond the count mean nothing
                column[b, len(kept) :] = np.inf if name == "objectives" else 0
        table.count[b] = len(kept)
    return table
