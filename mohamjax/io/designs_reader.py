"""Reads and checks designs in files of the formats `designs/1` and `schedule/1`, which `io.designs` describes."""

from __future__ import annotations

import contextlib
import pathlib
from collections import abc
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import (
    PackageForm,
    PackageParameters,
    RecordForm,
    Technology,
    Template,
    TemplateForm,
    load_templates,
    package_of,
    recorded_technology,
    template_of,
    with_memory,
)
from mohamjax.io.design_rows import DesignRules, read_rows
from mohamjax.io.documents import one_file, read_document
from mohamjax.io.entries import identified
from mohamjax.io.files import check_format, uncollected
from mohamjax.io.formats import (
    COST_FORMATS,
    DESIGNS_FORMAT,
    ENTRIES,
    FLUID_FORMAT,
    JOB_TABLE_FORMAT,
    PACKAGE_SCHEDULE_FORMAT,
    SCHEDULE_FORMAT,
)
from mohamjax.io.forms import DESIGN_PARTS, DesignsForm, NetworkForm, SchedulesForm
from mohamjax.io.nests import NestList
from mohamjax.reader import found
from mohamjax.schedule import DesignFile
from mohamjax.schedule.setup import Setup
from mohamjax.workload import DIMS, ApplicationModel, Layer, Network, WorkloadShape, load_scenario
from mohamjax.workload.scenario import named_beside


@contextlib.contextmanager
def _named_in(file: object, item: str) -> Iterator[None]:
    """Rewrites errors about something that a file names as errors at the item of that file that names it."""
    try:
        yield
    except InputError as error:
        inner = None if error.item is not None and item.startswith(error.item) else error.item
        told = ": ".join(part for part in (error.file, inner, error.message) if part)
        raise InputError(told, file=file, item=item, remedy=error.remedy) from None


def layer_row(layer: Layer, network: int) -> dict[str, object]:
    """A layer as data that `_application` reads; `network` is the index of its network."""
    return {
        "network": network,
        "name": layer.name,
        "type": layer.type,
        "op": layer.op,
        "word_bits": layer.word_bits,
        "bounds": {d: b for d, b in zip(DIMS, layer.shape.bounds, strict=True) if b > 1},
        "stride": list(layer.shape.stride),
        "dilation": list(layer.shape.dilation),
        "predecessors": list(layer.predecessors),
    }


def _application(form: DesignsForm, file: object) -> ApplicationModel:
    """The networks of a `designs/1` file."""

    def fail(item: str, told: str, remedy: str) -> InputError:
        return InputError(told, file=file, item=item, remedy=remedy)

    members: list[list[Layer]] = [[] for _ in form.networks]
    called: set[tuple[int, str]] = set()
    last = first = 0
    for i, row in enumerate(form.layers):
        item, n = f"layers[{i}]", row.network
        if not last <= n < len(members):
            raise fail(f"{item}.network", f"network {n} is out of place", "list the layers network after network")
        first, last = (first if n == last else i), n
        if any(not first <= p < i for p in row.predecessors):
            told = "predecessors must be earlier layers of the same network"
            raise fail(f"{item}.predecessors", told, "list the layers in a topological order")
        name = str(i) if row.name is None else row.name
        if (n, name) in called:
            told = f"a second layer of this network is called {name!r}"
            raise fail(f"{item}.name", told, "give every layer of a network its own name")
        called.add((n, name))
        shape = WorkloadShape(**msgspec.structs.asdict(row.bounds), stride=row.stride, dilation=row.dilation)
        before = tuple(p - first for p in row.predecessors)
        layer = Layer(
            name=name, type=row.type, op=row.op or "", shape=shape, word_bits=row.word_bits, predecessors=before
        )
        members[n].append(layer)
    networks: list[Network] = []
    for i, (entry, layers) in enumerate(zip(form.networks, members, strict=True)):
        entry = NetworkForm(entry) if isinstance(entry, str) else entry
        name = str(i) if entry.name is None else entry.name
        if not layers:
            raise fail(f"networks[{i}]", "the network has no layers", "list them, or remove it")
        if any(other.name == name for other in networks):
            raise fail(f"networks[{i}].name", f"a second network is called {name!r}", "rename one")
        users = {
            key: getattr(entry, key)
            for key in ("deadline_s", "frames_per_second", "weight")
            if getattr(entry, key) is not None
        }
        networks.append(Network(name, tuple(layers), entry.source or "", **users))
    return ApplicationModel(name=form.scenario or "", networks=tuple(networks))


def _templates(rows: Sequence[TemplateForm | str], file: pathlib.Path) -> tuple[Template, ...]:
    """The templates of a file, given as tables or, in files that users write, as names and files."""
    out: list[Template] = []
    for i, row in enumerate(rows):
        if isinstance(row, str):
            local = file.parent / row
            with _named_in(file, f"templates[{i}]"):
                out.extend(load_templates([str(local) if found(local, folder=False) else row]))
        else:
            out.append(template_of(row, file=file, where=f"templates[{i}]."))
        if out[-1].name in (template.name for template in out[:-1]):
            told = f"a second template is called {out[-1].name!r}"
            raise InputError(told, file=file, item=f"templates[{i}]", remedy="give every template its own name")
    return tuple(out)


def _technology(form: RecordForm, path: object, given: Technology | None, static_energy: bool) -> Technology:
    """The energy and area tables that designs were made with; raises InputError if they are not at hand."""
    found = recorded_technology(form, given, static_energy, path)
    if found is None:
        raise InputError(
            "the designs were made with other technology tables" + (" than those given" if given else ""),
            file=path,
            item="technology",
            remedy="give those tables with the argument `technology`, or leave it out where they are packaged ones or "
            "in the file: mappings and sizes were chosen by them. For another technology search again",
        )
    return found


_OF_INPUTS = {SCHEDULE_FORMAT: {"application", "templates"}, JOB_TABLE_FORMAT: {"accelerators", "jobs"}}
"""Keys that every input of these formats has, and no answer."""


_COSTS = {FLUID_FORMAT: "duration", PACKAGE_SCHEDULE_FORMAT: "layers"}
"""The key of every schedule of an input of these formats that no schedule of an answer has."""


def is_answer(document: abc.Mapping[str, Any]) -> bool:
    """Whether a document is what an evaluation of schedules wrote, which has the name of a format of its inputs."""
    name, rows = document["format"], document.get(ENTRIES[document["format"]])
    rows = rows if isinstance(rows, list) else []
    if not rows or not all(isinstance(row, dict) for row in rows):
        return False
    if name in _COSTS:
        return all("makespan" in row and _COSTS[name] not in row for row in rows)
    told = all("valid" in row or "makespan" in row for row in rows)
    return told and name in _OF_INPUTS and not document.keys() & _OF_INPUTS[name]


def refuse_answer(document: abc.Mapping[str, Any], path: object) -> None:
    """Raises InputError for a document that is the answer of an evaluation, and not schedules to evaluate."""
    if is_answer(document):
        told = "is the answer of an evaluation, and holds no schedules to evaluate"
        raise InputError(told, file=path, remedy="name the file that was evaluated")


def read_header(
    document: abc.Mapping[str, object],
    path: pathlib.Path,
    *,
    technology: Technology | None = None,
    static_energy: bool = False,
) -> Setup:
    """Reads and checks a `designs/1` or `schedule/1` document, except its designs and loop nests.

    These are read one by one later, so that a broken one does not affect the others; but `mappings` is checked to be a
    list.

    Raises:
        InputError: the document breaks the format, is the answer of an evaluation, or was made with another technology.
    """
    refuse_answer(document, path)
    listed = ENTRIES[str(document["format"])]
    head = {listed: [], **document}  # the head of JSON lines has no designs
    head |= {key: [] for key in (listed, "mappings") if isinstance(head.get(key), list)}
    written = document["format"] == SCHEDULE_FORMAT
    form = read_form(head, SchedulesForm if written else DesignsForm, file=path)
    technology = _technology(form.technology or RecordForm(), path, technology, static_energy)
    application = _imported(form, path) if isinstance(form, SchedulesForm) else _application(form, path)
    # Files without a memory are older than the package's memory: their templates have the memory that they name.
    default = PackageParameters() if written else PackageParameters(memory=None)
    package = package_of(form.package or PackageForm(), file=path, default=default)
    templates = with_memory(_templates(form.templates, path), package.memory)
    return Setup(application, templates, technology, package)


def header_rows(document: abc.Mapping[str, Any], path: object) -> list[Any]:
    """The designs of a document that `read_header` has read, not yet checked; raises InputError if there are none."""
    key = ENTRIES[document["format"]]
    if key not in document:
        raise InputError("is missing", file=path, item=key, remedy=f"add `{key}: ...`")
    return document[key]


@uncollected()
def read_designs(
    path: str | pathlib.Path, *, technology: Technology | None = None, static_energy: bool = False
) -> DesignFile:
    """Reads and checks a `designs/1` or `schedule/1` file; a broken design keeps its place and has a reason.

    Args:
        path: a JSON or JSON lines file, or a results folder, which stands for its `designs.json`.
        technology: energy and area tables, which must be those that the file was made with; by default they are looked
            up among the packaged ones and in the file.
        static_energy: count leakage even if the file does not.

    Raises:
        InputError: the file as a whole cannot be read.
    """
    path = one_file(path)
    document = read_document(path, DESIGN_PARTS)
    if isinstance(document, dict) and document.get("format") in COST_FORMATS:
        told = f"is a {document['format']} file, whose schedules state costs, and no loop nests"
        raise InputError(told, file=path, item="format", remedy="use `mohamjax evaluate schedules`")
    check_format(document, (DESIGNS_FORMAT, SCHEDULE_FORMAT), path)
    setup = read_header(document, path, technology=technology, static_energy=static_energy)
    rows = header_rows(document, path)
    rules = DesignRules(setup)
    nests = NestList(document["mappings"], rules.store)
    names, reasons = [], []
    for name, _, fault in identified(rows):
        names.append(name)
        reasons.append("" if fault is None else str(fault))
    called = [i for i, reason in enumerate(reasons) if not reason]
    faults, designs, tile = read_rows([(rows[i], nests) for i in called], rules)
    for i, fault in zip(called, faults, strict=True):
        reasons[i] = "" if fault is None else str(fault)
    mappings, count = rules.store.arrays() if len(designs) else (None, np.zeros((0, 0), np.int32))
    return DesignFile(
        **setup.parts,
        mappings=mappings,
        count=count,
        names=tuple(names),
        reasons=tuple(reasons),
        designs=designs,
        tile=tile,
        source=str(path),
    )


def _imported(form: SchedulesForm, path: pathlib.Path) -> ApplicationModel:
    """The networks that a `schedule/1` file names."""
    spec = form.application
    if isinstance(spec, list):
        spec = [named_beside(name, path.parent) for name in spec]
    elif found(path.parent / spec, folder=False):
        spec = str(path.parent / spec)
    with _named_in(path, "application"):
        return load_scenario(spec)
