"""Formatting of text: tables in a fixed-width font, counts and amounts."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_GAP = 2  # spaces between two columns


def several(noun: str) -> str:
    """Returns the plural of a noun that does not end in a sibilant: `templates`, `entries`, `ways`."""
    return re.sub(r"([^aeiou])y$", r"\1ie", noun) + "s"


def plural(number: int, noun: str) -> str:
    """Returns a count with its noun: `1 template`, `2,000 templates`."""
    return f"{number:,} {noun if number == 1 else several(noun)}"


def amount(value: float) -> str:
    """Formats an amount, such as cycles: four digits below 1,000, whole from there on, an exponent from 1e15 on."""
    if abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.6g}"


def repeated(names: Iterable[str]) -> list[str]:
    """Returns the names that occur more than once, in the order of their second occurrences."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


def distinct(name: str, taken: dict[str, int], form: str) -> str:
    """Returns a name that is not taken: the given one, or else one with the next free number.

    Args:
        name: the name that is wanted.
        taken: the names so far, each with the last number that was tried with it; the returned one is added.
        form: joins a name and a number, such as `"{} #{}"`.
    """
    made = name
    while made in taken:
        taken[name] += 1
        made = form.format(name, taken[name])
    taken[made] = 1
    return made


def is_numeric(cells: Sequence[str]) -> bool:
    """Returns whether all cells of a column are numbers or empty."""
    return all(re.fullmatch(r"[-+.,e\d]*", cell) for cell in cells)


def wrapped(text: str, width: int) -> list[str]:
    """Wraps a text into lines of at most `width` characters; only words that are longer are broken."""
    return textwrap.wrap(text, max(1, width), break_on_hyphens=False) or [""]


def table(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Formats rows as columns under a heading, numbers aligned to the right, words to the left.

    Args:
        rows: cells, the heading first; all rows of one length.
        width: most characters of a line; default no limit. Cells are wrapped between words to fit. Columns that still
            do not fit follow in a table below, which repeats the first column.
    """
    columns = list(zip(*rows, strict=True))
    if width is None:
        return _drawn(columns, [max(map(len, column)) for column in columns])
    first = _longest_word(columns[0])
    parts: list[list[Sequence[str]]] = []
    used = width + 1
    for column in columns[1:]:
        least = _GAP + _longest_word(column)
        if used + least > width:
            parts.append([columns[0]])
            used = first
        parts[-1].append(column)
        used += least
    return "\n\n".join(_drawn(part, _widths(part, width)) for part in parts or [columns])


def _longest_word(cells: Sequence[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=0)


def _widths(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Returns widths of columns that together fit `width`: the widest column shrinks first, words break last."""
    widths = [max(map(len, column)) for column in columns]
    for least in ([_longest_word(column) for column in columns], [1] * len(columns)):
        while sum(widths) + _GAP * (len(widths) - 1) > width:
            spare = [i for i, one in enumerate(widths) if one > least[i]]
            if not spare:
                break
            widths[max(spare, key=lambda i: widths[i])] -= 1
    return widths


def _drawn(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Returns a table of columns of given widths."""
    numeric = [is_numeric(column[1:]) for column in columns]

    def lines(row: Sequence[str]) -> list[str]:
        cells = [wrapped(cell, one) if len(cell) > one else [cell] for cell, one in zip(row, widths, strict=True)]
        height = max(map(len, cells))
        found = []
        for i in range(height):
            parts = [cell[i] if i < len(cell) else "" for cell in cells]
            shown = zip(parts, widths, numeric, strict=True)
            found.append((" " * _GAP).join(p.rjust(w) if right else p.ljust(w) for p, w, right in shown).rstrip())
        return found

    head, *body = zip(*columns, strict=True)
    rule = (" " * _GAP).join("-" * w for w in widths)
    return "\n".join([*lines(head), rule, *(line for row in body for line in lines(row))])
