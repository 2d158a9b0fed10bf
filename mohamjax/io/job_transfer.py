"""Files with the part of a schedule that G# transfers to another batch (`jobs.transfer`).

Format `job-transfer/1` (JSON):

- `accelerators`: A names, in the order of their numbers;
- `accelerator`: the accelerator of the job of each rank, a 0-based number; `place`: the place of that job in the order
  of all jobs, a permutation of 0 to N-1;
- `learnt`: the origin of the schedule, informational: `batch` (the jobs, in words; may be left out), `method`,
  `time_unit` and `objectives`, the values that the schedule had there, by name;
- `mohamjax`: the version that wrote the file; may be left out.
"""

from __future__ import annotations

import pathlib

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.io.files import check_format, read_json, write_json
from mohamjax.io.forms import TransferForm
from mohamjax.jobs.transfer import RankedSchedule, Transfer
from mohamjax.version import __version__

TRANSFER_FORMAT = "job-transfer/1"


def transfer_document(transfer: Transfer) -> dict[str, object]:
    """A transfer as a `job-transfer/1` document."""
    learnt = {
        "batch": transfer.batch,
        "method": transfer.method,
        "time_unit": transfer.time_unit,
        "objectives": dict(transfer.objectives),
    }
    return {
        "format": TRANSFER_FORMAT,
        "mohamjax": __version__,
        "learnt": learnt,
        "accelerators": list(transfer.accelerators),
        "accelerator": transfer.ranked.accelerator.tolist(),
        "place": transfer.ranked.place.tolist(),
    }


def write_transfer(path: str | pathlib.Path, transfer: Transfer) -> None:
    """Writes a `job-transfer/1` file, whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    write_json(path, transfer_document(transfer))


def read_transfer(path: str | pathlib.Path) -> Transfer:
    """Reads a `job-transfer/1` file.

    Raises:
        InputError: the file cannot be read or breaks the format.
    """
    document = read_json(path)
    check_format(document, (TRANSFER_FORMAT,), path)
    form = read_form(document, TransferForm, file=path)
    names, place, learnt = form.accelerators, form.place, form.learnt
    for key, below in (("place", len(place)), ("accelerator", len(names))):
        for rank, value in enumerate(getattr(form, key)):
            if value >= below:
                remedy = f"write an integer from 0 to {below - 1}"
                raise InputError(f"is {value}", file=path, item=f"{key}[{rank}]", remedy=remedy)
    if not place or len(set(place)) < len(place):
        raise InputError(
            "is no order of jobs", file=path, item="place", remedy="write every place from 0 once, for one job or more"
        )
    if len(form.accelerator) != len(place):
        told, remedy = f"has {len(form.accelerator)} entries", f"give one per rank, {len(place)}"
        raise InputError(told, file=path, item="accelerator", remedy=remedy)
    return Transfer(
        ranked=RankedSchedule(np.asarray(form.accelerator, np.int32), np.asarray(place, np.int32)),
        accelerators=tuple(names),
        batch=learnt.batch or "",
        method=learnt.method,
        objectives=msgspec.to_builtins(learnt.objectives),
        time_unit=learnt.time_unit,
    )
