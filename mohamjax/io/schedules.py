"""Schedules in files, and their evaluation by the fluid model.

Format `fluid-schedule/1` (JSON): `cases`, each one schedule with stated costs:

- `name`; `duration`, `bytes`, `predecessors`, `accelerator` (index), one entry per job; `order`, all jobs by priority;
- `resource_bandwidth`, bytes per time unit; `resources_of_accelerator`, a list of resource indices per accelerator;
- optional: `resource_names`; `jobs` and `accelerators`, how many there are. Other keys are ignored.

The result is `{"format": "fluid-schedule/1", "cases": [{"name", "start", "end", "makespan"}]}`.

Format `package-schedule/1` (JSON): `cases`, each one schedule on a package whose chiplets hand data on through SRAMs
(`schedule.handover`; docs/formats.md has the keys). The result has `start`, `end`, `makespan` and, per layer,
`dram_bytes` and `sram_bytes`; `nop_byte_hops` of all layers; `sram_capacity` of every chiplet.

Format `job-table/1` (JSON): costs per job and accelerator, and any number of schedules over them:

- `time_unit`: `"cycles"` (the default) or `"s"`; bandwidths are in bytes per time unit;
- `resources`: list of `{"name", "bandwidth"}`; null is unlimited;
- `accelerators`: list of `{"name", "resources"}`, the resources that the accelerator's off-chip traffic passes;
- `jobs`: list of `{"name", "duration", "bytes", "energy_J", "predecessors"}`. The three costs are lists with an entry
  per accelerator, or one number for all of them. A `duration` of null means that the job cannot run there. Either all
  jobs have `energy_J` or none; `predecessors` may be left out. Optional, for G#: `tenant` (a name), `weight` (default
  1), `deadline` (time units; null: none) and `target`, the place at which the job should end (for all jobs or none);
- `schedules`: list of `{"name", "order", "accelerator"}`: `order` lists all jobs by priority; `accelerator` says where
  each job runs, as a list in the order of `jobs` (not of `order`) or as a mapping from job to accelerator.

Jobs, accelerators and resources are referred to by name or 0-based number. The result is
`{"format": "job-table/1", "time_unit", "schedules": [{"name", "makespan", "energy_J"}]}`, with timelines also `start`
and `end` of each job.

With timelines, all results have `stall` (time lost to shared bandwidth) and `slowed` (per job a list of
`{"start", "end", "rate", "resource"}`) for every schedule.

Times are in the time unit of the input. A schedule that breaks a rule (a job ordered twice, a dependency that the order
cannot keep, ...) becomes a row with a makespan of null and a `reason` that names the place of the error; the others are
evaluated. If a file cannot be read, or its table breaks a rule, that is an error, and nothing is written.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import sys
from collections import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.documents import read_document
from mohamjax.io.entries import sound_entries
from mohamjax.io.files import check_format, rows_text
from mohamjax.io.fluid_cases import Case, evaluate_fluid, fluid_cases, stacked_cases
from mohamjax.io.formats import ENTRIES, FLUID_FORMAT, JOB_TABLE_FORMAT, PACKAGE_SCHEDULE_FORMAT
from mohamjax.io.inputs import keep_inputs
from mohamjax.io.job_tables import evaluate_job_table, table_entries
from mohamjax.io.package_schedules import evaluate_package_schedules
from mohamjax.io.result_stream import write_instead
from mohamjax.jobs.table import JobTable
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule.fluid import padded_jobs, simulate


@shown_briefly
@dataclasses.dataclass(frozen=True)
class ScheduleFile:
    """Schedules of a `fluid-schedule/1` or `job-table/1` file as arrays, checked but not simulated.

    Attributes:
        names: N names, in input order.
        arguments: arguments of `simulate` by name, `[N, ...]` NumPy arrays, floats as float64, padded to a common size.
        jobs: number of jobs of each schedule; the rest of the arrays is padding.
        table: the job table, if the file has one.
    """

    names: tuple[str, ...]
    arguments: dict[str, np.ndarray]
    jobs: tuple[int, ...]
    table: JobTable | None = None

    def __len__(self) -> int:
        """Number of schedules."""
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        """The arguments of `simulate` for the schedule at an index."""
        return {name: values[index] for name, values in self.arguments.items()}


def schedule_arrays(document: abc.Mapping[str, object], file: object) -> ScheduleFile:
    """The schedules of a `fluid-schedule/1` or `job-table/1` document.

    Raises:
        InputError: the document breaks its format, or holds no schedules.
    """
    table = None
    if document["format"] == FLUID_FORMAT:
        names, cases = sound_entries(fluid_cases(document, file))
    else:
        table, entries = table_entries(document, file)
        names, placed = sound_entries(entries)
        cases = []
        for order, where in placed:
            on = np.arange(len(table.jobs)), np.asarray(where, int)
            cases.append(
                Case(
                    duration=table.duration[on],
                    bytes=table.bytes[on],
                    predecessors=table.predecessors,
                    accelerator=np.asarray(where, np.int32),
                    order=np.asarray(order, np.int32),
                    resources=table.resources,
                    bandwidth=np.asarray(table.bandwidth, float),
                    resources_of_accelerator=table.resources_of_accelerator,
                )
            )
    if not cases:
        raise InputError("holds no schedules", file=file, remedy="give at least one")
    jobs = tuple(len(case.duration) for case in cases)
    columns = stacked_cases(cases, padded_jobs(max(jobs)), np.float64)
    parameters = list(inspect.signature(simulate).parameters)
    return ScheduleFile(
        names=tuple(names),
        arguments=dict(zip(parameters, columns, strict=True)),
        jobs=jobs,
        table=table,
    )


SCHEDULE_READERS: dict[
    str, Callable[[abc.Mapping[str, object], object, bool, bool], tuple[dict[str, object], dict[str, object]]]
] = {
    FLUID_FORMAT: evaluate_fluid,
    JOB_TABLE_FORMAT: evaluate_job_table,
    PACKAGE_SCHEDULE_FORMAT: evaluate_package_schedules,
}
"""The function that evaluates documents of each format: (document, file, float32, timelines) -> (result, summary)."""


def evaluate_schedules(
    path: str | pathlib.Path,
    out: str | pathlib.Path | None = None,
    *,
    float32: bool = False,
    timelines: bool = False,
    ending: str = "json",
    complain: Callable[[str], None] | None = None,
    document: dict[str, Any] | None = None,
) -> dict[str, object]:
    """Evaluates the schedules of a file, in double precision by default.

    A broken schedule becomes a row with the reason.

    Args:
        path: a JSON or JSON lines file in one of the formats of `SCHEDULE_READERS`.
        out: file for the result, written atomically; standard output for None and `-`.
        float32: compute in single precision.
        timelines: also write when and by what each job is slowed (and when it runs, for job tables).
        ending: `json`; `jsonl`, a line per schedule; or `csv`, which has no times of jobs.
        complain: called with one line for every broken schedule.
        document: the result of `read_document` for the file; read here by default.

    Returns:
        A summary: `format`, number of `schedules`, number of `jobs` of valid schedules, `precision`, and `broken`, the
        number of broken schedules, if there are any.

    Raises:
        InputError: the file cannot be read, has an unknown format or breaks its format, or `out` is that file or
            cannot be written.
    """
    keep_inputs(out, [path])
    content: dict[str, Any] = read_document(path) if document is None else document
    name = check_format(content, SCHEDULE_READERS, path)
    result, counts = SCHEDULE_READERS[name](content, path, float32, timelines)
    rows: Any = result[ENTRIES[name]]
    broken = [row["reason"] for row in rows if "reason" in row]
    columns: list[str] = []
    if ending == "csv":
        more = [column for column in ("energy_J", "reason") if any(column in row for row in rows)]
        columns = ["name", "makespan", *more]
        rows = [{column: row.get(column) for column in columns} for row in rows]
    head = {key: value for key, value in result.items() if key != ENTRIES[name]}
    text = rows_text(rows, ending, head, ENTRIES[name], columns)
    if out is None or str(out) == "-":
        sys.stdout.write(text)
    else:
        write_instead(out, text)
    if complain is not None:
        for reason in broken:
            complain(f"{path}: {reason}")
    counts |= {"broken": len(broken)} if broken else {}
    return {"format": name, **counts, "precision": "float32" if float32 else "float64"}
