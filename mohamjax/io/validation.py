"""Checks files of every format that is read, with the readers and rules that the commands use."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections import abc
from collections.abc import Callable
from typing import Any, TypeAlias

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import load_package, load_technology, load_template
from mohamjax.io.designs import evaluate_designs
from mohamjax.io.documents import one_file, read_document
from mohamjax.io.files import check_format
from mohamjax.io.formats import DESIGN_ARRAYS_FORMAT, DESIGNS_FORMAT, ENTRIES, JOB_FORMATS, SCHEDULE_FORMAT
from mohamjax.io.job_transfer import read_transfer
from mohamjax.io.jobs import load_platform, read_jobs
from mohamjax.io.mappings import MAPPINGS_FORMAT
from mohamjax.io.nest_costs import evaluate_nests
from mohamjax.io.schedules import SCHEDULE_READERS
from mohamjax.io.schemas import FORMS
from mohamjax.problem.requirements import load_requirements
from mohamjax.reader import choice, read_text, read_yaml, type_name
from mohamjax.text import plural
from mohamjax.workload import load_scenario
from mohamjax.workload.ensemble import RobustForm
from mohamjax.workload.scenario import named_beside

NETWORK, JOBS, SRAM_TABLE = "onnx", "jobs", "sram"
"""Formats that have no form: a network, the jobs of G#, and a technology's table of SRAMs."""

FORMATS = (*(name for name in FORMS if not name.endswith("-answer")), DESIGN_ARRAYS_FORMAT, NETWORK, JOBS, SRAM_TABLE)
"""Names of all formats that can be checked."""


@dataclasses.dataclass(frozen=True)
class Validated:
    """A file that its reader accepts.

    Attributes:
        path: the file.
        format: one of `FORMATS`.
        holds: what is in it, in words: "511 designs".
        broken: one line for each entry that breaks a rule, with its place and the reason; the file's other entries are
            sound.
    """

    path: pathlib.Path
    format: str
    holds: str
    broken: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The file, its format, what it holds, and whether all of that is valid."""
        verdict = f"{len(self.broken)} not valid" if self.broken else "valid"
        return f"{self.path}: {self.format}, {self.holds}, {verdict}"


Warn: TypeAlias = Callable[[str], None] | None
"""Takes each warning about a network, one line."""

_Found: TypeAlias = tuple[str, list[str]]
"""What a file holds, and its broken entries."""


def _designs(path: pathlib.Path, format: str, _: Warn) -> _Found:
    if format != DESIGN_ARRAYS_FORMAT:
        check_format(read_document(path), (format,), path)
    rows, _evaluated = evaluate_designs(path)
    broken = [f"design {row['design_id']}: {row['reason']}" for row in rows if not row["valid"]]
    return plural(len(rows), "design"), broken


def _schedules(path: pathlib.Path, format: str, _: Warn) -> _Found:
    document = read_document(path)
    check_format(document, (format,), path)
    result, _counts = SCHEDULE_READERS[format](document, path, False, False)
    rows: Any = result[ENTRIES[format]]
    return plural(len(rows), "schedule"), [row["reason"] for row in rows if "reason" in row]


def _nests(path: pathlib.Path, _format: str, _: Warn) -> _Found:
    rows = evaluate_nests([path])
    broken = [f"{row['id']}: {row['reason']}" for row in rows if not row["valid"]]
    return plural(len(rows), "loop nest"), broken


def _networks(path: pathlib.Path, _: str, warn: Warn) -> _Found:
    application = load_scenario(path, warn=warn)
    networks, layers = len(application.networks), plural(len(application.layers), "layer")
    return (layers if networks == 1 else f"{plural(networks, 'network')} with {layers}"), []


def _models(path: pathlib.Path, _: str, warn: Warn) -> _Found:
    form = read_form(read_yaml(path), RobustForm, file=path)
    for one in (*form.models, *(form.held_out or [])):
        if one.scenario is not None:
            load_scenario(named_beside(one.scenario, path.parent), warn=warn)
    return f"{plural(len(form.models), 'application model')} (names of networks not looked up)", []


def _whole(read: Callable[[pathlib.Path], Any], holds: Callable[[Any], str]) -> Callable[..., _Found]:
    """A check of a file that is one thing, which is either sound or not."""
    return lambda path, _format, _warn: (holds(read(path)), [])


_CHECKS: dict[str, Callable[[pathlib.Path, str, Warn], _Found]] = {
    DESIGNS_FORMAT: _designs,
    SCHEDULE_FORMAT: _designs,
    DESIGN_ARRAYS_FORMAT: _designs,
    **dict.fromkeys(JOB_FORMATS, _schedules),
    MAPPINGS_FORMAT: _nests,
    "job-transfer/1": _whole(read_transfer, lambda t: plural(len(t.ranked.place), "job")),
    "template/1": _whole(load_template, lambda t: f"template {t.name} of {plural(len(t.levels), 'level')}"),
    "technology/1": _whole(load_technology, lambda _: "technology"),
    SRAM_TABLE: _whole(load_technology, lambda _: "technology with these SRAMs"),
    "package": _whole(load_package, lambda p: f"package of up to {plural(p.max_tiles, 'tile')}"),
    "requirements/1": _whole(load_requirements, lambda _: "requirements"),
    "robust/1": _models,
    "scenario": _networks,
    NETWORK: _networks,
    "platform": _whole(lambda path: load_platform(str(path)), lambda p: plural(len(p.cores), "core")),
    JOBS: _whole(read_jobs, lambda jobs: plural(len(jobs.layers), "job")),
}


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file, by its ending, its key `format` or, where it has none, by its other keys.

    Args:
        path: a file, or a folder of results, which stands for its `designs.json`.

    Returns:
        One of `FORMATS`.

    Raises:
        InputError: the file cannot be read, names a format that is not known, or fits none or several.
    """
    path = one_file(path)
    ending = path.suffix.lower()
    if ending == ".onnx":
        return NETWORK
    if ending == ".npz":
        return DESIGN_ARRAYS_FORMAT
    if ending == ".csv":
        header = read_text(path, "CSV file").partition("\n")[0]
        return SRAM_TABLE if "depth_rows" in header else JOBS
    yaml = ending in (".yaml", ".yml")
    document = read_yaml(path) if yaml else read_document(path)
    if not isinstance(document, abc.Mapping):
        told = f"holds a {type_name(document)} at its top"
        raise InputError(told, file=path, remedy="begin with `format`, or with the keys of a form (docs/schemas.md)")
    stated = document.get("format")
    if stated is None:
        return _by_keys(path, document)
    return choice(stated, FORMATS, what="format", file=path, item="format")


def _by_keys(path: pathlib.Path, document: abc.Mapping[Any, Any]) -> str:
    """The one form whose keys include most keys of a document that states no format."""
    keys = set(document)
    shared = {  # how many keys are those of each form
        name: len(keys & set(FORMS[name].__struct_encode_fields__))
        for name in FORMATS
        if name in FORMS and not _needs_format(name)
    }
    most = max(shared.values())
    best = [name for name, count in shared.items() if count == most]
    if not most or len(best) > 1:
        told = f"its keys could be those of {' or '.join(best)}" if most else "its keys are those of no format"
        remedy = f"state the format, or give it as the argument `format`: {', '.join(best)}"
        raise InputError(told, file=path, remedy=remedy)
    return best[0]


def _needs_format(name: str) -> bool:
    return name in (DESIGNS_FORMAT, SCHEDULE_FORMAT, *JOB_FORMATS, MAPPINGS_FORMAT, "job-transfer/1")


def validate_file(path: str | os.PathLike[str], format: str | None = None, *, warn: Warn = None) -> Validated:
    """Reads a file as the commands do, with every check that they make, and writes nothing.

    Designs, schedules and loop nests are evaluated, in double precision, since some rules (such as the largest size of
    a buffer) concern what they need.

    Args:
        path: a file of one of `FORMATS`, or a folder of results, which stands for its `designs.json`.
        format: one of `FORMATS`; found by `format_of` if not given.
        warn: takes each warning about a network, one line.

    Raises:
        InputError: the file as a whole breaks its format; a broken design, schedule or loop nest is in `broken`.
    """
    path = one_file(path)
    format = format or format_of(path)
    check = _CHECKS[choice(format, FORMATS, what="format", argument="format")]
    holds, broken = check(path, format, warn)
    return Validated(path, format, holds, tuple(broken))
