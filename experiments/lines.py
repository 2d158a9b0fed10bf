"""CSV files that grow by a line as each run ends, so that a study can be stopped at any moment and resumed."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
from typing import Any


@dataclasses.dataclass(frozen=True)
class Lines:
    """A CSV file that grows line by line.

    Attributes:
        path: of the file.
        columns: its heading.
        key: how many of the first columns identify a line.
    """

    path: pathlib.Path
    columns: tuple[str, ...]
    key: int

    def read(self) -> dict[tuple[str, ...], dict[str, str]]:
        """Lines by key, the last one of each; cuts off half a line that a stop left."""
        if not self.path.exists():
            return {}
        text = self.path.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole)
        rows = csv.DictReader(io.StringIO(whole))
        return {tuple(row[c] for c in self.columns[: self.key]): row for row in rows}

    def append(self, row: dict[str, Any]) -> None:
        """Appends a line, which is on the disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists() or not self.path.stat().st_size
        with open(self.path, "a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())
