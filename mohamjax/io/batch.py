"""Evaluates thousands of schedules and designs, from any number of files of mixed formats, into one table.

The part that all entries of a document share (networks and templates, or a job table) is a problem. The arrays and
programs of a problem of designs are made once, even if many files repeat it; entries are read and evaluated in blocks.
Rows are in the order of the input. A broken entry or file becomes a row with the reason.

JSON lines: a line with the key `format` is a document as in a JSON file, with or without its entries; a line whose only
key is `mappings` adds loop nests to the document above it; every other line is one more entry of that document.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Technology, as_technology, technology_hash
from mohamjax.io.design_arrays import read_design_arrays
from mohamjax.io.design_rows import DesignRules, read_rows
from mohamjax.io.designs_reader import header_rows, is_answer, read_header
from mohamjax.io.documents import added_nests, no_format
from mohamjax.io.entries import Place, identified
from mohamjax.io.files import check_format, parse_json, read_json, uncollected
from mohamjax.io.fluid_cases import read_case, simulate_cases
from mohamjax.io.formats import (
    DESIGNS_FORMAT,
    ENTRIES,
    FLUID_FORMAT,
    JOB_TABLE_FORMAT,
    LINES,
    PACKAGE_SCHEDULE_FORMAT,
    SCHEDULE_FORMAT,
    written_as,
)
from mohamjax.io.forms import DESIGN_PARTS
from mohamjax.io.inputs import Inputs, Paths, find_inputs, keep_inputs
from mohamjax.io.job_tables import TableSchedules, read_job_table
from mohamjax.io.nests import NestList
from mohamjax.io.package_schedules import read_handover, simulate_handovers
from mohamjax.io.result_stream import NUMBERS, ResultStream
from mohamjax.io.schedule_rows import unfinished
from mohamjax.jobs.table import JobTable, evaluate_table
from mohamjax.reader import read_lines
from mohamjax.runtime.devices import Devices, DevicesLike, chosen_devices
from mohamjax.runtime.struct import take
from mohamjax.schedule import CYCLE_S, SizedDesign
from mohamjax.schedule.batch import BLOCK, DesignEvaluator, Nests
from mohamjax.schedule.fluid import DONE
from mohamjax.schedule.setup import Setup

T = TypeVar("T")

ROWS = 4 * BLOCK  # entries that are read at once, per device
_DESIGNS = (DESIGNS_FORMAT, SCHEDULE_FORMAT)
_FORMATS = tuple(ENTRIES)
PAUSE_S = 2.0  # at least, between two progress calls while entries are read
_NO_VALUES = (np.nan,) * len(NUMBERS)

COLUMNS = ("file", "entry", "design_id", *NUMBERS, "valid", "reason")


@dataclasses.dataclass(frozen=True)
class BatchProgress:
    """How far an evaluation has come.

    Attributes:
        rows: rows written.
        broken: rows that are not valid.
        share: part of the input that is done, 0 to 1.
        read: entries read, including those that wait until their block is full.
    """

    rows: int
    broken: int
    share: float
    read: int = 0


@dataclasses.dataclass(frozen=True)
class BatchSummary:
    """The result of an evaluation, in numbers.

    Attributes:
        rows: rows of the table, including those of an earlier evaluation that was resumed.
        valid: rows that are valid.
        files: files that were given or found in folders.
        passed_over: files in folders that hold something else.
        resumed: rows that were there before.
        entries: rows of this evaluation about entries, without those about files that could not be read.
        empty: files that were read in this evaluation and hold no entries, without answers of evaluations.
    """

    rows: int
    valid: int
    files: int
    passed_over: int
    resumed: int
    entries: int
    empty: int = 0


Values = tuple[Sequence[tuple[float, ...]], Sequence[str]]
"""The `NUMBERS` of each entry, and why it is not valid (empty if it is)."""


def costs_of(
    evaluator: DesignEvaluator, reasons: Sequence[str], designs: SizedDesign, nests: Nests, number: int
) -> Values:
    """Evaluates the valid designs among the entries of a block.

    Args:
        evaluator: evaluator of their problem.
        reasons: per entry why it is no design; empty for those in `designs`.
        designs: the designs, leading axis `[N]`; N may be 0.
        nests: returns the loop nests, see `DesignEvaluator`.
        number: total number of loop nests.

    Returns:
        Values and reasons, one for each entry.
    """
    values, told = [_NO_VALUES] * len(reasons), list(reasons)
    at = [i for i, reason in enumerate(reasons) if not reason]
    if at:
        objectives, found = evaluator.evaluate(designs, nests, number)
        for i, row, reason in zip(at, objectives.tolist(), found, strict=True):
            told[i] = reason
            if not reason:
                values[i] = (*row, np.nan)
    return values, told


class _Designs:
    """Designs of one problem."""

    def __init__(self, setup: Setup, float32: bool, devices: Devices | None) -> None:
        self.setup, self.rules = setup, DesignRules(setup)
        self._evaluator = DesignEvaluator(setup, self.rules.store.levels, float32=float32, devices=devices)

    def evaluate(self, entries: Sequence[tuple[object, NestList]]) -> Values:
        """Evaluates pairs of a design, as plain JSON data or an instance of its form, and the nests of its file."""
        faults, designs, _ = read_rows(entries, self.rules)
        reasons = ["" if fault is None else str(fault) for fault in faults]
        store = self.rules.store
        return costs_of(self._evaluator, reasons, designs, store.arrays, sum(map(len, store.sets.values())))

    def serves(self, setup: Setup) -> bool:
        """Whether the designs of a document with this setup belong to this problem."""
        return _key(self.setup) == _key(setup)


def _key(setup: Setup) -> tuple[object, ...]:
    """A key that is equal for documents of the same problem."""
    technology = setup.technology
    made_with = technology_hash(technology), technology.static_share is not None
    return setup.application, setup.templates, setup.package, made_with


class _TableJobs:
    """Schedules over one job table."""

    def __init__(self, table: JobTable, file: object, float32: bool, devices: Devices | None) -> None:
        self._table, self._reader, self._float32 = table, TableSchedules(table), float32
        self._file = file
        self._devices, self._block = devices, BLOCK * _number(devices)
        self._unit = CYCLE_S if table.time_unit == "cycles" else 1.0

    def evaluate(self, entries: Sequence[tuple[object, object]]) -> Values:
        """Evaluates schedules given as plain JSON data, each with its name."""
        values, reasons, good = [_NO_VALUES] * len(entries), [""] * len(entries), []
        for i, (value, name) in enumerate(entries):
            try:
                good.append((i, *self._reader.read(value, Place(self._file, f"schedule {name}"))))
            except InputError as error:
                reasons[i] = error.reason
        for first in range(0, len(good), self._block):
            own = good[first : first + self._block]
            rows = [own[min(k, len(own) - 1)] for k in range(self._block)]
            order, where = (np.stack([row[k] for row in rows]) for k in (1, 2))
            objectives, _ = evaluate_table(self._table, order, where, float32=self._float32, devices=self._devices)
            for k, (i, *_rest) in enumerate(own):
                if objectives.reason[k] != DONE:
                    reasons[i] = unfinished(int(objectives.reason[k]), self._float32)
                    continue
                makespan = float(objectives.makespan[k])
                energy = np.nan if self._table.energy is None else float(objectives.energy[k])
                values[i] = (makespan * self._unit, energy, np.nan, makespan)
        return values, reasons


class _Cases(Generic[T]):
    """Schedules with stated costs, each of which is a problem of its own.

    Args:
        read: reads a case at a place.
        simulate: makespans of cases, and why a case never ends (`simulate_cases`).
        float32: compute in single precision.
        devices: where.
    """

    def __init__(
        self,
        read: Callable[[object, Place], T],
        simulate: Callable[..., tuple[np.ndarray, list[str]]],
        float32: bool,
        devices: Devices | None,
    ) -> None:
        self._read, self._simulate = read, simulate
        self._float32, self._devices = float32, devices

    def evaluate(self, entries: Sequence[tuple[object, object]]) -> Values:
        """Evaluates cases given as plain JSON data, each with its name."""
        values, reasons, good = [_NO_VALUES] * len(entries), [""] * len(entries), []
        for i, (value, name) in enumerate(entries):
            try:
                good.append((i, self._read(value, Place(None, f"case {name}"))))
            except InputError as error:
                reasons[i] = error.reason
        if good:
            makespan, told = self._simulate(
                [case for _, case in good], BLOCK * _number(self._devices), float32=self._float32, devices=self._devices
            )
            for k, (i, _) in enumerate(good):
                reasons[i] = told[k]
                if not told[k]:
                    values[i] = (np.nan, np.nan, np.nan, float(makespan[k]))
        return values, reasons


def _number(devices: Devices | None) -> int:
    return 1 if devices is None else len(devices)


class _Problem(Protocol):
    """A problem evaluates its entries."""

    def evaluate(self, entries: Sequence[Any]) -> Values:
        """Evaluates entries, each in the form that the problem takes."""
        ...


Made = Callable[[object, int | str], tuple[_Problem, object]]
"""Returns, for an entry and its identifier, the problem that evaluates it and the value that this problem takes."""


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One entry of an input.

    Attributes:
        file: index of the file.
        entry: its place in the file; -1 if the row is about the file.
        name: its identifier.
        problem: the problem that evaluates it; None if the entry is broken.
        value: the value that the problem takes.
        reason: why the entry is broken.
        share: part of the file up to and including this entry, 0 to 1.
    """

    file: int
    entry: int
    name: int | str
    problem: _Problem | None
    value: object
    reason: str = ""
    share: float = 1.0


class _Sources:
    """Files of any format as streams of entries, and the problems that they share.

    Attributes:
        empty: files that were read to their end and have no entries.
        answers: those of them that are answers of evaluations.
    """

    def __init__(
        self,
        files: Sequence[pathlib.Path],
        technology: Technology | None,
        static_energy: bool,
        float32: bool,
        devices: Devices | None = None,
    ) -> None:
        self.files, self.float32, self.devices = files, float32, devices
        self.rows = ROWS * _number(devices)
        self.technology, self.static_energy = technology, static_energy
        self._problems: list[_Designs] = []
        self._headed: dict[bytes, _Designs] = {}  # by the hash of a document without its entries and nests
        self._cases: dict[str, _Problem] = {
            FLUID_FORMAT: _Cases(read_case, simulate_cases, float32, devices),
            PACKAGE_SCHEDULE_FORMAT: _Cases(read_handover, simulate_handovers, float32, devices),
        }
        self.empty: list[pathlib.Path] = []
        self.answers: set[pathlib.Path] = set()

    def entries(self, file: int, skip: int) -> Iterator[_Entry]:
        """The entries of a file from place `skip` on."""
        path, empty = self.files[file], True
        try:
            for one in self._lines(file, path) if path.name.endswith(LINES) else self._document(file, path):
                empty = False
                if one.entry >= skip:
                    yield one
            if empty:
                self.empty.append(path)
        except InputError as error:
            yield _Entry(file, -1, "", None, None, str(error))

    def _document(self, file: int, path: pathlib.Path) -> Iterator[_Entry]:
        with uncollected():
            document = read_json(path, DESIGN_PARTS)
        name = check_format(document, _FORMATS, path)
        if is_answer(document):
            self.answers.add(path)
            return
        rows, make = self._opened(document, name, path, None)
        yield from self._named(file, rows, make)

    def _named(
        self, file: int, rows: Sequence[object], make: Made, start: int = 0, places: dict[str, int] | None = None
    ) -> Iterator[_Entry]:
        """Entries with their identifiers."""
        for i, (name, row, fault) in enumerate(identified(rows, start, places), start):
            problem, value = make(row, name) if fault is None else (None, None)
            yield _Entry(
                file, i, name, problem, value, "" if fault is None else str(fault), (i - start + 1) / len(rows)
            )

    def _opened(
        self, document: dict[str, Any], name: str, path: pathlib.Path, lines: int | None
    ) -> tuple[list[object], Made]:
        """The entries of a document, and the function that gives the problem and the value of each."""
        if name in _DESIGNS:
            problem = self._problem(document, path)
            nests = NestList(document["mappings"], problem.rules.store)
            rows = header_rows(document, path) if lines is None or ENTRIES[name] in document else []
            return rows, lambda row, _: (problem, (row, nests))
        key = ENTRIES[name]
        rows = document.get(key, ... if lines is None else [])
        if not isinstance(rows, list):
            told = "the key is missing" if rows is ... else "is no list"
            raise InputError(told, file=path, item=key, remedy="list the schedules there")
        owner: _Problem
        if name == JOB_TABLE_FORMAT:
            owner = _TableJobs(read_job_table(document, path), path, self.float32, self.devices)
        else:
            owner = self._cases[name]
        return rows, lambda row, called: (owner, (row, called))

    def _problem(self, document: dict[str, Any], path: pathlib.Path) -> _Designs:
        """The problem of a document; files in one folder with the same networks and templates share what is read."""
        lists = {"mappings", ENTRIES[document["format"]]}  # the head only records that these are lists
        head = {key: list if key in lists and isinstance(one, list) else one for key, one in document.items()}
        digest = hashlib.sha256(repr((path.parent, head)).encode()).digest()
        if digest not in self._headed:
            setup = read_header(document, path, technology=self.technology, static_energy=self.static_energy)
            self._headed[digest] = self._of_setup(setup)
        return self._headed[digest]

    def _of_setup(self, setup: Setup) -> _Designs:
        known = next((problem for problem in self._problems if problem.serves(setup)), None)
        if known is None:
            known = _Designs(setup, self.float32, self.devices)
            self._problems.append(known)
        return known

    def _lines(self, file: int, path: pathlib.Path) -> Iterator[_Entry]:
        size, seen, at = max(1, _version(path)[0]), 0, 0
        make: Made | None = None
        places: dict[str, int] = {}
        nests: list[object] | None = None
        broken = 0  # line of a document, not the first one, that could not be read
        for number, line in read_lines(path, "JSON lines file"):
            seen += len(line)
            try:
                row = parse_json(line.rstrip(), path, f"line {number}", DESIGN_PARTS)
            except InputError as error:
                yield _Entry(file, at, at, None, None, error.reason)
                at += 1
                continue
            if isinstance(row, dict) and "format" in row:
                try:
                    name = check_format(row, _FORMATS, f"{path}, line {number}")
                    rows, make = self._opened(row, name, path, number)
                except InputError as error:
                    if make is None and not broken:
                        raise
                    make, nests, broken = None, None, number
                    yield _Entry(file, at, at, None, None, f"line {number}: {error.reason}")
                    at += 1
                    continue
                nests = row["mappings"] if name in _DESIGNS else None
                for one in self._named(file, rows, make, at, places):
                    yield dataclasses.replace(one, share=min(1.0, seen / size))
                at += len(rows)
                continue
            if make is None and broken:
                yield _Entry(file, at, at, None, None, f"follows the document of line {broken}, which is broken")
                at += 1
                continue
            if make is None:
                raise no_format(path, number)
            more = None if nests is None else added_nests(row)
            if nests is not None and more is not None:
                nests.extend(more)
                continue
            for one in self._named(file, [row], make, at, places):
                yield dataclasses.replace(one, share=min(1.0, seen / size))
            at += 1
        if make is None and not broken:
            raise InputError("is empty", file=path, remedy="give a JSON lines file")


def evaluate_files(
    paths: Paths | Inputs,
    out: str | os.PathLike[str] | None = None,
    *,
    technology: Technology | str | os.PathLike[str] | None = None,
    static_energy: bool = False,
    float32: bool = False,
    resume: bool = False,
    progress: Callable[[BatchProgress], None] | None = None,
    complain: Callable[[str], None] | None = None,
    devices: DevicesLike = None,
) -> BatchSummary:
    """Evaluates the schedules and designs of files into one table, block by block, in double precision by default.

    Memory is bounded by a block of entries, the tables of the problems and, for JSON documents, the largest file; JSON
    lines and `design-arrays/1` are read as they are evaluated. Entries keep the identifiers that their files state.

    Args:
        paths: files and folders: `schedule/1`, `designs/1`, `job-table/1`, `fluid-schedule/1`, `package-schedule/1` as
            JSON or JSON lines, and `design-arrays/1`. A folder stands for all files of these formats in it and in its
            subfolders, ordered by name. Or the result of `find_inputs`.
        out: CSV, JSON lines (`.jsonl`) or npz file with the columns `file, entry, design_id, latency_s, energy_J,
            area_mm2, makespan, valid, reason`; default standard output. `makespan` is in the time unit of the job table
            or case.
        technology: energy and area tables, or a name or file of them; must be the tables that the files were made
            with. By default these are looked up among the packaged ones and in the file.
        static_energy: count leakage even if the files do not.
        float32: compute in single precision.
        resume: continue the table that a stopped evaluation of the same inputs has written to `out`.
        progress: called after every block, and at most every two seconds while entries are read.
        complain: called with one line for every broken entry or file, and for every file without entries, such as the
            answer of an evaluation.
        devices: devices to spread blocks over: their number, `all`, or a list; default one.

    Returns:
        Numbers of rows and files.

    Raises:
        InputError: there is no input, `out` is one of the inputs or cannot be written, the table in `out` cannot be
            resumed, or there are fewer devices than wanted.

    Examples:
        >>> summary = mj.evaluate_files(["designs.json", "table.json"], "rows.csv")
        >>> summary.rows == summary.valid
        True
    """
    given = paths if isinstance(paths, Inputs) else find_inputs(paths)
    files = given.files
    keep_inputs(out, files)
    written_as(out, "csv", "jsonl", "npz")
    technology = None if technology is None else as_technology(technology)
    inputs = {
        "files": [[str(path), *_version(path)] for path in files],
        "float32": float32,
        "technology": None if technology is None else technology_hash(technology),
        "static_energy": static_energy,
    }
    chosen = chosen_devices(devices)
    if chosen is not None and chosen.several_processes:
        raise InputError("are those of several processes", argument="devices", remedy="evaluate in one process")
    sources = _Sources(files, technology, static_energy, float32, chosen)
    with ResultStream(None if out is None else os.fspath(out), COLUMNS, inputs, resume=resume) as stream:
        before, entries, done = stream.rows, 0, 0.0
        told_at = time.monotonic()

        def tell(read: int, *, at_once: bool = False) -> None:
            nonlocal told_at
            now = time.monotonic()
            if progress is not None and (at_once or now - told_at >= PAUSE_S):
                told_at = now
                progress(BatchProgress(stream.rows, stream.rows - stream.valid, done, read))

        if not stream.done:
            for rows, following, share in _blocks(sources, stream.start, tell):
                stream.write(rows, following)
                done = share
                entries += sum(entry != "" for _, entry, *_ in rows)
                for file, entry, name, *_, reason in rows:
                    if reason and complain is not None:
                        place = f": entry {entry} ({name})" if entry != "" else ""
                        complain(f"{file}{place}: {reason}" if place else reason)
                tell(stream.rows - before, at_once=True)
    if complain is not None:
        for path in sources.empty:
            told = "is the answer of an evaluation" if path in sources.answers else "holds no designs or schedules"
            complain(f"{path}: {told}, so it has no row")
    empty = len(set(sources.empty) - sources.answers)
    return BatchSummary(stream.rows, stream.valid, len(files), given.passed_over, before, entries, empty)


def _version(path: pathlib.Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


Block = tuple[list[tuple[Any, ...]], tuple[int, int], float]
"""Rows of `COLUMNS`, the file and entry after the last row, and the part of the input that is done, 0 to 1."""


def _blocks(sources: _Sources, start: tuple[int, int], tell: Callable[[int], None]) -> Iterator[Block]:
    """Evaluated blocks in the order of the input, beginning at the file and entry `start`.

    Calls `tell` with the number of entries read so far.
    """
    pending: list[_Entry] = []
    owner: _Problem | None = None
    read = 0

    def flush() -> Iterator[Block]:
        if pending:
            yield _evaluated(pending, sources)
            pending.clear()

    for file in range(start[0], len(sources.files)):
        skip = start[1] if file == start[0] else 0
        if sources.files[file].suffix == ".npz":
            yield from flush()
            yield from _bulk_blocks(sources, file, skip)
            continue
        for entry in sources.entries(file, skip):
            if (entry.problem is not owner and entry.problem is not None and owner is not None) or len(
                pending
            ) == sources.rows:
                yield from flush()
                owner = None
            owner = owner or entry.problem
            pending.append(entry)
            read += 1
            tell(read)
    yield from flush()


def _evaluated(entries: Sequence[_Entry], sources: _Sources) -> Block:
    """The rows of entries of one problem and of broken entries among them."""
    problem = next((one.problem for one in entries if one.problem is not None), None)
    own = [one.value for one in entries if one.problem is not None]
    values, told = ((), ()) if problem is None else problem.evaluate(own)
    found = iter(zip(values, told, strict=True))
    rows = []
    for one in entries:
        numbers, reason = (_NO_VALUES, one.reason) if one.problem is None else next(found)
        place = "" if one.entry < 0 else one.entry
        rows.append((str(sources.files[one.file]), place, one.name, *numbers, int(not reason), reason))
    last = entries[-1]
    following = (last.file, last.entry + 1) if last.entry >= 0 else (last.file + 1, 0)
    return rows, following, (last.file + last.share) / len(sources.files)


def _bulk_blocks(sources: _Sources, file: int, skip: int) -> Iterator[Block]:
    """The blocks of a `design-arrays/1` file, from design `skip` on."""
    path = sources.files[file]
    try:
        own = read_design_arrays(path, technology=sources.technology, static_energy=sources.static_energy)
    except InputError as error:
        row = (str(path), "", "", *_NO_VALUES, 0, str(error))
        yield [row], (file + 1, 0), (file + 1) / len(sources.files)
        return
    if not len(own):
        sources.empty.append(path)
    evaluator = DesignEvaluator(own.setup, own.levels, float32=sources.float32, devices=sources.devices)
    for first in range(skip, len(own), sources.rows):
        rows = slice(first, min(first + sources.rows, len(own)))
        designs = own.block(rows)
        reasons = own.faults(designs)
        good = np.asarray([not reason for reason in reasons], bool)
        values, reasons = costs_of(evaluator, reasons, take(designs, good), lambda: (own.mappings, own.count), 0)
        out = [
            (str(path), i, name, *value, int(not reason), reason)
            for i, name, value, reason in zip(range(first, rows.stop), own.names(rows), values, reasons, strict=True)
        ]
        yield out, (file, rows.stop), (file + rows.stop / len(own)) / len(sources.files)
