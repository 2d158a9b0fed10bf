"""What the layer mapper needs of a store that keeps its sets between runs; `io.MappingCache` keeps them in files."""

from __future__ import annotations

from typing import Protocol

from mohamjax.mapping import MappingTables


class TableStore(Protocol):
    """Keeps Pareto sets of the layer mapper by a hash of everything that they depend on except the code."""

    def read(self, digest: str) -> MappingTables | None:
        """The set `[M, ...]` of a hash, or None where there is none."""

    def write(self, digest: str, table: MappingTables) -> None:
        """Keeps a set; called from worker threads."""
