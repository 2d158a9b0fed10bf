"""Results of long evaluations: appended to a table block by block, so that an interruption leaves whole blocks.

Beside `OUT.csv` there is `OUT.csv.journal` (JSON lines). Its first line says what is evaluated. After every block it
gets a line with the number of bytes of the table that are complete and the entry that comes next; the block's rows are
on the disk before that. To resume, the table is cut to the bytes of the journal's last line and goes on with the next
entry. A last line with `ended` marks the end of the evaluation; the journal stays.

`OUT.jsonl`, with an object per row, grows in the same way.

For an npz file the table is `OUT.npz.partial.csv` until the evaluation ends or is stopped in an orderly way; then it is
converted to arrays.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import IO

import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.io.files import csv_lines, dump_json, locked_file, parse_json, remove_file, write_text
from mohamjax.io.forms import MarkForm
from mohamjax.io.mapped_arrays import write_arrays
from mohamjax.reader import found, read_text

JOURNAL_FORMAT = "evaluation-journal/1"

_ANEW = "begin anew without the argument `resume`"

NUMBERS = ("latency_s", "energy_J", "area_mm2", "makespan")
"""Columns of numbers, which may be empty."""


class ResultStream:
    """A growing table; a context manager.

    Args:
        out: CSV, JSON lines (`.jsonl`) or npz file; None and `-` are standard output, as CSV, which cannot be resumed.
        columns: columns of the table, including `file`, `entry` and `valid`.
        inputs: what is evaluated, as plain data; a table can only be resumed with equal inputs.
        resume: go on with the existing table, if there is one; otherwise begin anew.

    Attributes:
        start: index of the file and place of the entry to begin with.
        rows: rows in the table so far.
        valid: rows that are valid.
        done: whether an earlier evaluation was finished, so that nothing is left to do.

    Raises:
        InputError: the file cannot be written, another process is writing to it, or the journal is of other inputs.
    """

    def __init__(self, out: str | pathlib.Path | None, columns: Sequence[str], inputs: object, *, resume: bool) -> None:
        self.columns, self.start, self.rows, self.valid = tuple(columns), (0, 0), 0, 0
        self.done = False
        self._out = None if out is None or str(out) == "-" else pathlib.Path(out)
        self._lines = self._out is not None and self._out.suffix.lower() == ".jsonl"
        if self._out is None:
            if resume:
                raise InputError("continues a file", argument="resume", remedy="give the argument `out`")
            self._stream: IO[str] = sys.stdout
            return
        packed = self._out.suffix.lower() == ".npz"
        self._table = self._out.with_name(self._out.name + ".partial.csv") if packed else self._out
        self._journal = self._out.with_name(self._out.name + ".journal")
        with contextlib.ExitStack() as stack:
            stack.enter_context(locked_file(self._out))
            self._files = stack
            try:
                self._open({"format": JOURNAL_FORMAT, "columns": list(columns), "inputs": inputs}, resume)
            except OSError as error:
                remedy = "name another file"
                raise InputError(f"cannot be written ({error.strerror})", file=out, remedy=remedy) from None
            self._files = stack.pop_all()

    def _open(self, head: dict[str, object], resume: bool) -> None:
        whole = self._whole(head) if resume else None
        if resume and whole is None and self._out is not None and found(self._out) and not found(self._journal):
            raise InputError(
                "has no journal beside it that says what it was made of",
                file=self._out,
                argument="resume",
                remedy="name another file, or leave `resume` out to write it anew",
            )
        if resume and whole is None and found(self._journal):
            raise InputError(
                "was begun with other inputs",
                file=self._journal,
                argument="resume",
                remedy="name the same files in the same order and with the same settings, or begin anew",
            )
        if whole is not None:
            self.rows, self.valid, self.start = whole.rows, whole.valid, (whole.next[0], whole.next[1])
            self.done = whole.ended
        if self.done:
            return
        if whole is None:
            self._notes = self._opened(self._journal, "w")
            self._note(head)
            self._stream = self._opened(self._table, "w")
            if not self._lines:
                self._stream.write(csv_lines([self.columns]))
            self._mark()
            return
        os.truncate(self._table, whole.bytes)
        self._notes = self._opened(self._journal, "a")
        self._stream = self._opened(self._table, "a")

    def _opened(self, path: pathlib.Path, mode: str) -> IO[str]:
        return self._files.enter_context(open(path, mode, encoding="utf-8", newline=""))

    def _whole(self, head: dict[str, object]) -> MarkForm | None:
        """The last complete mark of a journal that begins with `head`; None without such a journal or its table."""
        if not found(self._journal):
            return None
        lines = read_text(self._journal, "journal").split("\n")
        kept = [parse_json(line, self._journal, f"line {i + 1}") for i, line in enumerate(lines[:-1])]
        if len(lines[-1]):  # its writer was stopped in the middle of a line
            write_text(self._journal, "\n".join([*lines[:-1], ""]))
        if len(kept) < 2 or kept[0] != json.loads(dump_json(head)):
            return None
        item = f"line {len(kept)}"
        try:
            mark = read_form(kept[-1], MarkForm, file=self._journal, where=item)
        except InputError as error:
            raise InputError(error.message, file=error.file, item=error.item, remedy=_ANEW) from None
        table = self._out if mark.ended and self._out is not None else self._table
        if not found(table):
            return None
        if not mark.ended and mark.bytes > os.path.getsize(table):
            told = f"says {mark.bytes} bytes of a table that has {os.path.getsize(table)}"
            raise InputError(told, file=self._journal, item=item, remedy=_ANEW)
        return mark

    def write(self, rows: Sequence[Sequence[object]], following: tuple[int, int]) -> None:
        """Appends a block of rows, in the order of the columns.

        Args:
            rows: values; floats are written in full precision, and as empty or null if they are not finite.
            following: file and entry after the last row.
        """
        if self._lines:
            told = (dump_json(dict(zip(self.columns, map(_plain, row), strict=True))) for row in rows)
            self._stream.write("".join(told))
        else:
            self._stream.write(csv_lines([_cell(value) for value in row] for row in rows))
        self.rows += len(rows)
        place = self.columns.index("valid")
        self.valid += sum(bool(row[place]) for row in rows)
        self.start = following
        if self._out is None:
            self._stream.flush()
        else:
            self._mark()

    def _mark(self) -> None:
        self._stream.flush()
        os.fsync(self._stream.fileno())
        size = os.fstat(self._stream.fileno()).st_size
        self._note(self._reached() | {"bytes": size})

    def _reached(self) -> dict[str, object]:
        return {"rows": self.rows, "valid": self.valid, "next": list(self.start)}

    def _note(self, line: dict[str, object]) -> None:
        self._notes.write(dump_json(line))
        self._notes.flush()
        os.fsync(self._notes.fileno())

    def __enter__(self) -> ResultStream:
        if self._out is None:
            self._stream.write(csv_lines([self.columns]))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._out is None:
            return
        with self._files:
            if self.done:
                return
            self._stream.close()
            if self._table != self._out:
                write_arrays(self._out, _arrays(self._table))
            if kind is None:
                self._note(self._reached() | {"ended": True})
                if self._table != self._out:
                    self._table.unlink()
            self._notes.close()


def write_instead(path: str | pathlib.Path, text: str) -> None:
    """Writes a text file whole, and removes the journal of a table that stood there, which is none of this text.

    Raises:
        InputError: the file cannot be written, or the journal cannot be removed.
    """
    write_text(path, text)
    journal = pathlib.Path(f"{path}.journal")
    if _is_journal(journal):
        remove_file(journal, "an earlier evaluation")


def _is_journal(path: pathlib.Path) -> bool:
    """Whether a file begins as a journal of ours does; what cannot be read is the user's."""
    try:
        with path.open("rb") as stream:
            return JOURNAL_FORMAT.encode() in stream.read(4096).partition(b"\n")[0]
    except OSError:
        return False


def _plain(value: object) -> object:
    """A value of a row for JSON; None for an empty text or a float that is not finite."""
    return None if value == "" or (isinstance(value, float) and not math.isfinite(value)) else value


def _cell(value: object) -> object:
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else ""
    return value


def _arrays(table: pathlib.Path) -> dict[str, np.ndarray]:
    """The columns of a CSV table as arrays: numbers as float64 (NaN if empty), `entry` and `valid` as int64 (-1)."""
    with open(table, encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream)
        columns = next(reader)
        values = list(zip(*reader, strict=True)) or [()] * len(columns)
    out: dict[str, np.ndarray] = {"format": np.asarray("evaluation/1")}
    for name, column in zip(columns, values, strict=True):
        if name in NUMBERS:
            out[name] = np.asarray([float(value or "nan") for value in column])
        elif name in ("entry", "valid"):
            out[name] = np.asarray([int(value or -1) for value in column], np.int64)
        else:
            out[name] = np.asarray(column, str)
    return out
