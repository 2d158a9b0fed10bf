"""Reads documents of designs and schedules from JSON files, JSON lines and results folders."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from mohamjax.errors import InputError
from mohamjax.io.files import Parts, parse_json, read_json
from mohamjax.io.formats import ENTRIES, LINES
from mohamjax.reader import found, read_lines


def one_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """The file that a path stands for: `designs.json` for a results folder, otherwise the path itself."""
    inner = pathlib.Path(path) / "designs.json"
    return inner if found(path, folder=True) and found(inner, folder=False) else pathlib.Path(path)


def read_document(path: str | os.PathLike[str], parts: Parts | None = None) -> Any:
    """The document of a file with a single one; for JSON lines, the first line with all following entries added.

    An unreadable line after the first one becomes an entry that is an `InputError`, see `entries.identified`. The
    content of the document is not checked.

    Args:
        path: a JSON file, or JSON lines (docs/batches.md), gzipped or not.
        parts: forms of entries, see `parse_json`.

    Raises:
        InputError: the file cannot be read, or holds several documents.
    """
    path = pathlib.Path(path)
    if not path.name.endswith(LINES):
        return read_json(path, parts)
    document: dict[str, Any] | None = None
    entries: list[object] = []
    for number, line in read_lines(path, "JSON lines file"):
        try:
            row = parse_json(line.rstrip(), path, f"line {number}", parts)
        except InputError as error:
            if document is None:
                raise
            row = InputError(error.message, item=error.item, remedy=error.remedy)
        if isinstance(row, dict) and "format" in row:
            if document is not None:
                remedy = "split the file, or evaluate it into one table (docs/batches.md)"
                raise InputError("begins a second document", file=path, item=f"line {number}", remedy=remedy)
            key = ENTRIES.get(row["format"]) if isinstance(row["format"], str) else None
            if key is None or not isinstance(row.get(key, []), list):
                return row  # the caller's reader will refuse it
            entries = row.get(key, [])
            document = {**row, key: entries}
        elif document is None:
            raise no_format(path, number)
        elif isinstance(document.get("mappings"), list) and (more := added_nests(row)) is not None:
            document["mappings"].extend(more)
        else:
            entries.append(row)
    if document is None:
        raise InputError("is empty", file=path, remedy="give a JSON lines file")
    return document


def no_format(path: object, number: int) -> InputError:
    """The error for an entry of JSON lines that precedes any document."""
    *others, last = ENTRIES
    return InputError(
        "says no format, and no line before it does",
        file=path,
        item=f"line {number}",
        remedy=f"begin with a line of format {', '.join(others)} or {last}",
    )


def added_nests(row: object) -> list[object] | None:
    """The loop nests that a line of JSON lines adds to the document above it; None for any other line."""
    if not isinstance(row, dict) or row.keys() != {"mappings"}:
        return None
    return row["mappings"] if isinstance(row["mappings"], list) else [row["mappings"]]
