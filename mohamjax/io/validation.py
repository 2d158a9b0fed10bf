"""Checks files of every format that is read, with the readers and rules that the commands use."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import pathlib
import re
import string
from collections import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import Technology, Template, load_package, load_technology, load_template
from mohamjax.io.designs import evaluate_designs
from mohamjax.io.designs_reader import refuse_answer
from mohamjax.io.documents import one_file, read_document
from mohamjax.io.files import check_format
from mohamjax.io.formats import (
    COST_FORMATS,
    DESIGN_ARRAYS_FORMAT,
    DESIGNS_FORMAT,
    ENTRIES,
    JOB_TABLE_FORMAT,
    SCHEDULE_FORMAT,
)
from mohamjax.io.job_tables import read_job_table
from mohamjax.io.job_transfer import read_transfer
from mohamjax.io.jobs import load_platform, read_jobs
from mohamjax.io.mapped_arrays import MAX_MAPPED
from mohamjax.io.mappings import MAPPINGS_FORMAT
from mohamjax.io.nest_costs import evaluate_nests
from mohamjax.io.schedules import SCHEDULE_READERS
from mohamjax.io.schemas import FORMS
from mohamjax.problem.requirements import load_requirements
from mohamjax.reader import choice, open_file, read_text, read_yaml, type_name
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape, load_scenario
from mohamjax.workload.ensemble import RobustForm, load_ensemble

NETWORK, JOBS, SRAM_TABLE = "onnx", "jobs", "sram"
"""Formats that have no form: a network, the jobs of G#, and a technology's table of SRAMs."""

FORMATS = (*(name for name in FORMS if not name.endswith("-answer")), DESIGN_ARRAYS_FORMAT, NETWORK, JOBS, SRAM_TABLE)
"""Names of all formats that can be checked."""

_ENDINGS = {NETWORK: ".onnx", DESIGN_ARRAYS_FORMAT: ".npz", JOBS: ".csv", SRAM_TABLE: ".csv"}
"""Formats that the commands know by the ending of a file, which no file of another format has."""


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


class _Given(NamedTuple):
    """What a file may need beside itself, see `validate_file`."""

    application: ApplicationModel | None
    templates: Sequence[Template]
    technology: Technology | None
    networks: abc.Mapping[str, Any]
    warn: Callable[[str], None] | None


_Found: TypeAlias = tuple[str, list[str]]
"""What a file holds, and its broken entries."""


def _designs(path: pathlib.Path, _format: str, given: _Given) -> _Found:
    rows, _evaluated = evaluate_designs(path, technology=given.technology)
    broken = [f"design {row['design_id']}: {row['reason']}" for row in rows if not row["valid"]]
    return plural(len(rows), "design"), broken


def _schedules(path: pathlib.Path, format: str, _: _Given) -> _Found:
    document = read_document(path)
    check_format(document, (format,), path)
    refuse_answer(document, path)
    if format == JOB_TABLE_FORMAT and document.get("schedules") is None:  # `schedule --jobs` looks for them
        return f"{plural(len(read_job_table(document, path).jobs), 'job')} and no schedule", []
    result, _counts = SCHEDULE_READERS[format](document, path, False, False)
    rows: Any = result[ENTRIES[format]]
    return plural(len(rows), "schedule"), [row["reason"] for row in rows if "reason" in row]


def _nests(path: pathlib.Path, _format: str, given: _Given) -> _Found:
    rows = evaluate_nests([path], templates=given.templates, technology=given.technology)
    broken = [f"{row['id']}: {row['reason']}" for row in rows if not row["valid"]]
    return plural(len(rows), "loop nest"), broken


def _networks(path: pathlib.Path, _: str, given: _Given) -> _Found:
    application = load_scenario(path, warn=given.warn, **given.networks)
    networks, layers = len(application.networks), plural(len(application.layers), "layer")
    return (layers if networks == 1 else f"{plural(networks, 'network')} with {layers}"), []


def _models(path: pathlib.Path, _: str, given: _Given) -> _Found:
    form = read_form(read_yaml(path), RobustForm, file=path)
    named = [
        pattern
        for one in (*form.models, *(form.held_out or []))
        if one.scenario is None
        for pattern in one.networks or []
    ]
    unknown = given.application is None and bool(named)
    ensemble = load_ensemble(path, given.application or _standing_in(named), warn=given.warn)
    told = " (names of the networks of no scenario not looked up)" if unknown else ""
    return f"{plural(len(ensemble.models), 'application model')}{told}", []


def _standing_in(patterns: Sequence[str]) -> ApplicationModel:
    """A scenario whose networks have the names that patterns look for, so that all but these names is checked."""
    layers = (Layer("layer", "fc", "Gemm", WorkloadShape()),)
    names = dict.fromkeys(_match_of(pattern) for pattern in patterns) or ["network"]
    return ApplicationModel("the scenario at hand", tuple(Network(name, layers) for name in names))


def _match_of(pattern: str) -> str:
    """A name that a pattern of `fnmatch` matches: itself, but for the characters in brackets one of them."""

    def one_of(brackets: re.Match[str]) -> str:
        return next((one for one in string.printable if fnmatch.fnmatchcase(one, brackets[0])), brackets[0])

    return re.sub(r"\[!?\]?[^\]]*\]", one_of, pattern)


def _whole(read: Callable[[pathlib.Path], Any], holds: Callable[[Any], str]) -> Callable[..., _Found]:
    """A check of a file that is one thing, which is either sound or not."""
    return lambda path, _format, _given: (holds(read(path)), [])


_CHECKS: dict[str, Callable[[pathlib.Path, str, _Given], _Found]] = {
    DESIGNS_FORMAT: _designs,
    SCHEDULE_FORMAT: _designs,
    DESIGN_ARRAYS_FORMAT: _designs,
    **dict.fromkeys(COST_FORMATS, _schedules),
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
    if ending in (_ENDINGS[NETWORK], _ENDINGS[DESIGN_ARRAYS_FORMAT]):
        return NETWORK if ending == _ENDINGS[NETWORK] else DESIGN_ARRAYS_FORMAT
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
    """Whether documents of a form must state their format."""
    return any(field.name == "format" and field.required for field in msgspec.structs.fields(FORMS[name]))


def _check_ending(path: pathlib.Path, format: str) -> None:
    """Raises InputError for a file that is there, but that no command takes as one of this format, by its ending."""
    open_file(path, "file", MAX_MAPPED).close()  # a name of something packaged is no file
    ending, own = path.suffix.lower(), _ENDINGS.get(format)
    if own is None and ending in _ENDINGS.values():
        raise InputError(f"is no {format} file: it ends in {ending}", file=path, remedy="name the format that it has")
    if own is not None and ending != own:
        raise InputError(f"is no {format} file: it does not end in {own}", file=path, remedy="name the format it has")
    if ending == ".npz" and path.suffix != ending:  # `evaluate` would read it as JSON
        raise InputError(f"ends in {path.suffix}", file=path, remedy=f"call it {path.stem}{ending}")


def validate_file(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    application: ApplicationModel | None = None,
    templates: Sequence[Template] = (),
    technology: Technology | None = None,
    networks: abc.Mapping[str, Any] | None = None,
    warn: Callable[[str], None] | None = None,
) -> Validated:
    """Reads a file as the commands do, with the checks that they make before they work, and writes nothing.

    Designs, schedules and loop nests are evaluated, in double precision, since some rules (such as the largest size of
    a buffer) concern what they need.

    Args:
        path: a file of one of `FORMATS`, or a folder of results, which stands for its `designs.json`.
        format: one of `FORMATS`; found by `format_of` if not given.
        application: the networks of the models of a `robust/1` file that name no scenario; without it their names are
            not looked up.
        templates: templates of your own that a `mappings/1` file may name.
        technology: the tables that designs were made with, or for loop nests; default the packaged ones.
        networks: further arguments of `load_scenario` by name, for a network or a scenario.
        warn: takes each warning about a network, one line.

    Raises:
        InputError: the file as a whole breaks its format; a broken design, schedule or loop nest is in `broken`.
    """
    path = one_file(path)
    stated = format
    format = format or format_of(path)
    check = _CHECKS[choice(format, FORMATS, what="format", argument="format")]
    _check_ending(path, format)
    if stated in (DESIGNS_FORMAT, SCHEDULE_FORMAT):  # the reader takes both
        check_format(read_document(path), (stated,), path)
    given = _Given(application, templates, technology, networks or {}, warn)
    holds, broken = check(path, format, given)
    return Validated(path, format, holds, tuple(broken))
