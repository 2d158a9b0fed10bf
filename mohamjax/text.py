"""Text for people: tables in a fixed-width font, numbers of things."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["amount", "is_numeric", "plural", "table"]


def plural(number: int, noun: str) -> str:
    """So many of something, as `1 template` and `2,000 templates`; for nouns that take an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def amount(value: float) -> str:
    """A large number, such as cycles: whole with separators, from 1e15 on with an exponent."""
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.6g}"


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether all cells of a column are numbers or empty."""
    return all(re.fullmatch(r"[-+.,e\d]*", cell) for cell in cells)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns of text under a heading: numbers to the right, words to the left.

    Args:
        rows: cells, the heading first; all rows of one length.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [is_numeric(column[1:]) for column in columns]

    def line(row: Sequence[str]) -> str:
        cells = zip(row, widths, numeric, strict=True)
        return "  ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in cells).rstrip()

    return "\n".join([line(rows[0]), "  ".join("-" * w for w in widths), *map(line, rows[1:])])
