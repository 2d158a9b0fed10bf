"""Names of formats that several readers and writers share, and of files."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from mohamjax.errors import InputError

DESIGNS_FORMAT = "designs/1"


SCHEDULE_FORMAT = "schedule/1"


FLUID_FORMAT = "fluid-schedule/1"


JOB_TABLE_FORMAT = "job-table/1"


JOB_FORMATS = (FLUID_FORMAT, JOB_TABLE_FORMAT)
"""Formats of schedules whose costs are written out: of jobs, not of layers on chiplets."""


DESIGN_ARRAYS_FORMAT = "design-arrays/1"


ENTRIES = {
    DESIGNS_FORMAT: "designs",
    SCHEDULE_FORMAT: "schedules",
    FLUID_FORMAT: "cases",
    JOB_TABLE_FORMAT: "schedules",
}
"""Formats of documents with designs or schedules, and the key of these."""


LINES = (".jsonl", ".jsonl.gz")
"""How the names of files of JSON lines end."""


SUFFIXES = (".json", *LINES, ".npz")
"""How the names of files end that are evaluated by the thousand; those of one JSON file first."""


def written_as(path: str | os.PathLike[str] | None, *known: str, item: str | None = None) -> str:
    """How a result is written: as the name of its file says, and where that says nothing as the first of `known`.

    Args:
        path: the file; None and `-` are standard output. A name without an ending, and `.txt`, say nothing.
        known: endings, without the dot, of what can be written.
        item: the option that names the file, for complaints; default the argument `out`.

    Raises:
        InputError: the name says something else.
    """
    ending = pathlib.PurePath(path or "-").suffix.lower().removeprefix(".")
    if ending in ("", "txt"):
        return known[0]
    if ending not in known:
        *others, last = [f".{one}" for one in known]
        several = f"{', '.join(others)} or {last}" if others else last
        told, remedy = f"cannot be written as .{ending} here", f"name a file that ends in {several}"
        raise InputError(told, file=path, item=item, argument="out" if item is None else None, remedy=remedy)
    return ending


def is_batch(
    paths: Sequence[str | pathlib.Path], out: str | pathlib.Path | None = None, *, whole: bool = False
) -> bool:
    """Whether inputs of an evaluation are more than one JSON file, or its result is to be arrays.

    Args:
        paths: the inputs.
        out: where the result goes.
        whole: a file of many entries is read whole, and is one file as well.
    """
    names = [str(path) for path in paths]
    single = len(names) == 1 and not os.path.isdir(names[0]) and (whole or not names[0].endswith(SUFFIXES[1:]))
    return not single or str(out).lower().endswith(".npz")
