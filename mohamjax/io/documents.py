"""Documents of designs and schedules, whatever file holds them: JSON, JSON lines, a results folder."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from mohamjax.errors import InputError
from mohamjax.io.files import Parts, parse_json, read_json
from mohamjax.io.formats import ENTRIES, LINES
from mohamjax.reader import found, read_lines


def one_file(path: str | os.PathLike[str]) -> pathlib.Path:
    """The file that a path stands for: of a results folder its `designs.json`, anything else is itself."""
    inner = pathlib.Path(path) / "designs.json"
    return inner if found(path, folder=True) and found(inner, folder=False) else pathlib.Path(path)


def read_document(path: str | os.PathLike[str], parts: Parts | None = None) -> Any:
    """The document of a file that holds one: of JSON lines the first line with all entries that follow it.

    A line of JSON lines that cannot be read is an entry that is the complaint, see `entries.identified`.

    Args:
        path: a JSON file, or JSON lines (docs/batches.md), gzipped or not.
        parts: forms of entries, see `parse_json`.

    Raises:
        InputError: the file cannot be read, or holds several documents; what the document says is not checked.
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
                return row  # a form that its reader refuses
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
    """A complaint about an entry of JSON lines before any document."""
    *others, last = ENTRIES
    return InputError(
        "says no format, and no line before it does",
        file=path,
        item=f"line {number}",
        remedy=f"begin with a line of format {', '.join(others)} or {last}",
    )


def added_nests(row: object) -> list[object] | None:
    """The loop nests that a line of JSON lines adds to the document above it; None where it is another line."""
    if not isinstance(row, dict) or row.keys() != {"mappings"}:
        return None
    return row["mappings"] if isinstance(row["mappings"], list) else [row["mappings"]]
