"""What the layer mapper keeps between runs, told by what it needs of the keeper; `io` keeps it in files."""

from __future__ import annotations

from typing import Protocol

from mohamjax.mapping import MappingTables


class TableStore(Protocol):
    """Keeps Pareto sets of the layer mapper by the hash of everything that they depend on but the code."""

    def read(self, digest: str) -> MappingTables | None:
        """The set `[M, ...]` of a hash, or None where there is none."""

    def write(self, digest: str, table: MappingTables) -> None:
        """Keeps a set; called from worker threads."""
