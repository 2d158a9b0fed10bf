"""What G# keeps of a schedule for another batch, in a file (`search.jobs.transfer`).

Format `job-transfer/1` (JSON):

- `accelerators`: A names, in the order of their numbers;
- `accelerator`: for every rank the number of the accelerator, 0-based; `place`: its place in the order of all jobs, a
  permutation of 0 to N-1;
- `learnt`: where it comes from: `batch` (the jobs, in words; may be left out), `method`, `time_unit` and `objectives`,
  the values that the schedule had there, by name. Nothing is computed from it.
- `mohamjax`: version that wrote it; may be left out.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from mohamjax import __version__
from mohamjax.errors import InputError
from mohamjax.io.files import check_format, read_json, write_json
from mohamjax.reader import Fields
from mohamjax.search.jobs.problem import OBJECTIVES
from mohamjax.search.jobs.transfer import RankedSchedule, Transfer

__all__ = ["TRANSFER_FORMAT", "read_transfer", "transfer_document", "write_transfer"]


TRANSFER_FORMAT = "job-transfer/1"


_KEYS = ("format", "mohamjax", "learnt", "accelerators", "accelerator", "place")


def transfer_document(transfer: Transfer) -> dict[str, Any]:
    """A `job-transfer/1` document."""
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
        InputError: it cannot be written there.
    """
    write_json(path, transfer_document(transfer))


def read_transfer(path: str | pathlib.Path) -> Transfer:
    """Reads a `job-transfer/1` file.

    Raises:
        InputError: the file cannot be read or breaks the format.
    """
    document = read_json(path)
    check_format(document, (TRANSFER_FORMAT,), path)
    top = Fields(document, _KEYS, file=path)
    learnt = Fields(top.need("learnt"), ("batch", "method", "time_unit", "objectives"), file=path, where="learnt")
    objectives = Fields(learnt.need("objectives"), OBJECTIVES, file=path, where=learnt.path("objectives"))
    names = top.sequence("accelerators")
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("is no list of names", file=path, item="accelerators", remedy="name every accelerator")

    def entries(key: str, below: int) -> np.ndarray:
        """Numbers from 0 to below the limit."""
        for rank, value in enumerate(top.sequence(key)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < below:
                raise InputError(
                    f"is {value!r}", file=path, item=f"{key}[{rank}]", remedy=f"write an integer from 0 to {below - 1}"
                )
        return np.asarray(top.sequence(key), np.int32)

    place = entries("place", len(top.sequence("place")))
    accelerator = entries("accelerator", len(names))
    if not len(place) or len(np.unique(place)) < len(place):
        raise InputError(
            "is no order of jobs", file=path, item="place", remedy="write every place from 0 once, for one job or more"
        )
    if len(accelerator) != len(place):
        raise InputError(
            f"has {len(accelerator)} entries", file=path, item="accelerator", remedy=f"give one per rank, {len(place)}"
        )
    return Transfer(
        ranked=RankedSchedule(accelerator, place),
        accelerators=tuple(names),
        batch=learnt.text("batch", ""),
        method=learnt.text("method"),
        objectives={name: objectives.number(name) for name in objectives.data},
        time_unit=learnt.choice("time_unit", ("cycles", "s"), "time unit"),
    )
