"""Names of formats that several readers and writers share, and endings of file names."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from mohamjax.errors import InputError

DESIGNS_FORMAT = "designs/1"


SCHEDULE_FORMAT = "schedule/1"


FLUID_FORMAT = "fluid-schedule/1"


JOB_TABLE_FORMAT = "job-table/1"


PACKAGE_SCHEDULE_FORMAT = "package-schedule/1"


COST_FORMATS = (FLUID_FORMAT, JOB_TABLE_FORMAT, PACKAGE_SCHEDULE_FORMAT)
"""Formats of schedules with stated costs: they name no loop nests."""


DESIGN_ARRAYS_FORMAT = "design-arrays/1"


ENTRIES = {
    DESIGNS_FORMAT: "designs",
    SCHEDULE_FORMAT: "schedules",
    FLUID_FORMAT: "cases",
    JOB_TABLE_FORMAT: "schedules",
    PACKAGE_SCHEDULE_FORMAT: "cases",
}
"""The key under which a document of each format lists its designs or schedules."""


LINES = (".jsonl", ".jsonl.gz")
"""Endings of the names of JSON lines files."""


SUFFIXES = (".json", *LINES, ".npz")
"""Endings of the names of files that a batch evaluation reads; that of a plain JSON file comes first."""


def written_as(path: str | os.PathLike[str] | None, *known: str, item: str | None = None) -> str:
    """The ending, without the dot, that decides how a result is written; by default the first of `known`.

    Args:
        path: the file; None and `-` are standard output. The default applies to these, to names without an ending and
            to `.txt`.
        known: endings, without the dot, of the formats that can be written.
        item: the option that names the file, for error messages; default the argument `out`.

    Raises:
        InputError: the name has another ending.
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
    """Whether the inputs of an evaluation are more than a single JSON file, or its result is to be arrays.

    Args:
        paths: the inputs.
        out: where the result goes.
        whole: whether a JSON lines or npz file is read whole, and so counts as a single file too.
    """
    names = [str(path) for path in paths]
    single = len(names) == 1 and not os.path.isdir(names[0]) and (whole or not names[0].endswith(SUFFIXES[1:]))
    return not single or str(out).lower().endswith(".npz")
