"""Functions of a path that read each kind of file, for `fuzzing`; they make the files needed beside it once."""

import contextlib
import csv
import dataclasses
import functools
import io
import json
import os
import pathlib
import re
import types
from collections.abc import Callable
from unittest import mock

import fuzz_documents
import fuzz_words
import numpy as np

from mohamjax import reports
from mohamjax.cli import entry, main
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, load_package, load_technology, load_template, load_templates
from mohamjax.io import batch, results_reader
from mohamjax.io.checkpoint import read_checkpoint
from mohamjax.io.design_arrays import read_design_arrays
from mohamjax.io.designs import read_designs
from mohamjax.io.entries import sound_entries
from mohamjax.io.files import check_format, read_json
from mohamjax.io.importers import Target, read_allocation, read_cost_table, read_layer_table
from mohamjax.io.job_transfer import read_transfer
from mohamjax.io.jobs import load_platform, read_jobs
from mohamjax.io.mappings import given_mappings
from mohamjax.io.package_schedules import package_cases
from mohamjax.io.result_stream import ResultStream
from mohamjax.io.robust import read_comparisons
from mohamjax.io.samples import read_architectures, read_samples
from mohamjax.io.schedules import schedule_arrays
from mohamjax.io.timeloop import read_timeloop
from mohamjax.page import contents, page
from mohamjax.problem import load_requirements
from mohamjax.schedule import Setup
from mohamjax.workload import (
    ApplicationModel,
    Layer,
    Network,
    WorkloadShape,
    load_ensemble,
    load_scenario,
    read_network,
)


@dataclasses.dataclass(frozen=True)
class Reader:
    """The reader of one kind of file.

    Attributes:
        suffix: Suffix of its files.
        read: Function of the path.
        structure: Whether the file is a tree of lists and tables that can be damaged as such.
    """

    suffix: str
    read: Callable[[pathlib.Path], object]
    structure: bool = True


def _silent(line: str) -> None:
    """Takes warnings."""


def _beside(path: pathlib.Path, name: str, reader: str) -> pathlib.Path:
    """Path of a sound file beside another, written where it is missing."""
    found = path.parent / name
    if not found.exists():
        found.write_bytes(fuzz_documents.sound(reader))
    return found


def _schedules(path: pathlib.Path) -> object:
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") not in ("fluid-schedule/1", "job-table/1"):
        return None
    return schedule_arrays(document, path)


def _package_schedules(path: pathlib.Path) -> object:
    document = read_json(path)
    check_format(document, ("package-schedule/1",), path)
    _, cases = sound_entries(package_cases(document, path))
    return [case.resources for case in cases]


def _mappings(path: pathlib.Path) -> object:
    application = load_scenario([str(path.parent / "m.onnx")])
    return given_mappings(
        [[path]], Setup(application, load_templates(("simba",)), load_technology(), PackageParameters())
    )


def _samples(path: pathlib.Path) -> object:
    return list(read_samples(path, read_architectures(_beside(path, "architectures.json", "architectures"))))


# --------------------------------------------------------------------------------------------------------- importers


@functools.cache
def _target() -> Target:
    """Three layers with one mapping each, of made-up costs."""
    file = fuzz_documents.design_file()
    shape = (*file.count.shape, 1)
    tables = types.SimpleNamespace(
        mapping=file.mappings, count=file.count, cycles=np.ones(shape), exists=file.count[..., None] > 0,
        offchip_bytes=np.ones(shape), objectives=np.ones((*shape, 3)),
    )  # fmt: skip
    assert file.mappings.order.shape[2] == 1
    return Target(file.application, file.templates, file.technology, file.package, lambda: tables, ("simba",))


def _cost_schedule(path: pathlib.Path) -> object:
    return read_cost_table(_beside(path, "sound_costs.csv", "costs"), bandwidth=4.0, schedule=path)


# ----------------------------------------------------------------------------------------------------------- batches


class _Unpriced:
    """Stands for `DesignEvaluator`, which would compile a program for each new shape: files are read, not evaluated."""

    def __init__(self, *_, **__) -> None:
        pass

    def evaluate(self, designs, _nests, _number) -> tuple[np.ndarray, list[str]]:
        """Made-up objectives, and no complaints."""
        number = len(designs)
        return np.ones((number, 3)), [""] * number


def _unpriced_table(_table, order, _where, *, float32, devices):
    ones = np.ones(len(order))
    return types.SimpleNamespace(reason=np.full(len(order), batch.DONE), makespan=ones, energy=ones), None


def _unpriced_cases(cases, _block, *, float32, devices):
    return np.ones(len(cases)), [""] * len(cases)


def _batch(path: pathlib.Path) -> object:
    """All entries of a file as rows; asserts that each reason is one line."""
    out = path.parent / "rows.csv"
    stand_ins = {"DesignEvaluator": _Unpriced, "evaluate_table": _unpriced_table}
    with mock.patch.multiple(batch, simulate_cases=_unpriced_cases, **stand_ins):
        batch.evaluate_files(path, out)
    with open(out, newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        assert not set("\n\r") & set(row["reason"]), row["reason"]
        assert len(row["reason"]) < 2000, "a reason without end"
    if len(rows) == 1 and not row["entry"]:
        raise InputError(rows[0]["reason"], file=path)
    return rows


def _journal(path: pathlib.Path) -> object:
    """Resumes a table whose journal is the file."""
    out = path.with_suffix("")
    out.write_text("file,entry,valid\na,0,1\n")
    out.with_name(out.name + ".journal").write_bytes(path.read_bytes())
    with ResultStream(out, ("file", "entry", "valid"), fuzz_documents.INPUTS, resume=True) as stream:
        stream.write([("a", 1, 1)], (1, 0))
    return None


# ----------------------------------------------------------------------------------------------------------- results


def _results(name: str) -> Callable[[pathlib.Path], object]:
    """Function that reads a results folder with the given file as `name`, and makes a page of it."""

    def read(path: pathlib.Path) -> object:
        folder = path.parent / "results"
        folder.mkdir(exist_ok=True)
        for other, content in fuzz_documents.results().items():
            (folder / other).write_bytes(content)
        (folder / name).write_bytes(path.read_bytes())
        files = results_reader.read_results(folder, kinds=("search", "codesign"))
        latency = {row["design_id"]: row["latency_s"] for row in files.front}  # that of the designs is another one
        if name == "designs.json":
            rows = read_designs(folder / name, technology=load_technology())
            listed = [
                {"design_id": n, "valid": not r, "reason": r, "latency_s": latency.get(str(n))}
                for n, r in zip(rows.names, rows.reasons, strict=True)
            ]
            with mock.patch.object(results_reader, "evaluate_designs", lambda *_, **__: (listed, None)):
                return results_reader.evaluate_results(files)
        rows, made = fuzz_documents.evaluated()
        listed = [row | {"latency_s": latency.get(str(row["design_id"]))} for row in rows]
        with mock.patch.object(results_reader, "evaluate_designs", lambda *_, **__: (listed, made)):
            found = results_reader.evaluate_results(files)
        shown = reports._result("results", files, found)
        return page(contents([shown], most=2), files.title)

    return read


def _comparisons(path: pathlib.Path) -> object:
    """Reads a results folder of several application models, with the given file as `robust.csv`."""
    folder = path.parent / "robust"
    folder.mkdir(exist_ok=True)
    (folder / "robust.csv").write_bytes(path.read_bytes())
    return [(one, one.price) for one in read_comparisons(folder)]


# ------------------------------------------------------------------------------------------------------------- words


def _words(path: pathlib.Path) -> object:
    """Runs the command line on a list of words; verbs that would take minutes only parse them."""
    words = [str(word) for word in json.loads(path.read_bytes())]
    for name in fuzz_words.NAMED:
        _beside(path, fuzz_words.NAMED[name], name)
    said, out = io.StringIO(), io.StringIO()
    before = os.getcwd()
    os.chdir(path.parent)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out):
            if words and words[0] in fuzz_words.LONG:
                entry.make_parser().parse_known_args(words)
                code = 0
            else:
                code = main(words)
    except SystemExit as end:
        code = end.code
    finally:
        os.chdir(before)
    lines = [line for line in said.getvalue().splitlines() if line.startswith("mohamjax: ")]
    assert code in (0, 2), f"exit code {code}: {said.getvalue()[-500:]}"
    assert "Traceback" not in said.getvalue(), said.getvalue()[-500:]
    if words and words[0] == "validate":  # a line for every file that is not valid
        assert code == 0 or lines or "not valid" in out.getvalue(), said.getvalue()[-500:]
        assert len(lines) <= max(1, len(words) - 1), said.getvalue()[-500:]
    elif code == 2 and not re.search(r"^[\d,]+ rows?\b.* valid$", said.getvalue(), re.MULTILINE):  # a table adds lines
        assert len(lines) == 1, said.getvalue()[-500:]
        raise InputError(lines[0], file=path)
    return out.getvalue()


@functools.cache
def _tenants() -> ApplicationModel:
    """The scenario whose networks a `robust/1` file names."""
    layers = (Layer("l", "fc", "Gemm", WorkloadShape(K=4, C=2)),)
    return ApplicationModel("made", (Network("mine", layers), Network("other", layers)))


READERS: dict[str, Reader] = {
    "onnx": Reader(".onnx", lambda path: read_network(path, warn=_silent), structure=False),
    "onnxskip": Reader(".onnx", lambda path: read_network(path, warn=_silent, skip_unknown=True), structure=False),
    "scenario": Reader(".yaml", lambda path: load_scenario([str(path)], warn=_silent)),
    "template": Reader(".yaml", load_template),
    "requirements": Reader(".yaml", load_requirements),
    "robust": Reader(".yaml", lambda path: load_ensemble(path, _tenants(), warn=_silent)),
    "technology": Reader(".yaml", lambda path: load_technology(path, static_energy=True)),
    "package": Reader(".yaml", load_package),
    "sram": Reader(".csv", load_technology, structure=False),
    "platform": Reader(".yaml", lambda path: load_platform(str(path))),
    "jobs": Reader(".csv", read_jobs, structure=False),
    "fluid": Reader(".json", _schedules),
    "packaged": Reader(".json", _package_schedules),
    "jobtable": Reader(".json", _schedules),
    "designs": Reader(".json", lambda path: read_designs(path, technology=load_technology())),
    "schedule": Reader(".json", lambda path: read_designs(path, technology=load_technology())),
    "mappings": Reader(".json", _mappings),
    "architectures": Reader(".json", read_architectures),
    "samples": Reader(".jsonl", _samples, structure=False),
    "timeloop": Reader(".yaml", read_timeloop),
    "transfer": Reader(".json", read_transfer),
    "checkpoint": Reader(".npz", read_checkpoint, structure=False),
    "arrays": Reader(".npz", lambda path: read_design_arrays(path).design_file(path), structure=False),
    "costs": Reader(".csv", lambda path: read_cost_table(path, bandwidth=4.0), structure=False),
    "costschedule": Reader(".csv", _cost_schedule, structure=False),
    "layers": Reader(".csv", lambda path: read_layer_table(path, _target()), structure=False),
    "allocation": Reader(".yaml", lambda path: read_allocation(path, _target())),
    "allocationjson": Reader(".json", lambda path: read_allocation(path, _target())),
    "lines": Reader(".jsonl", _batch, structure=False),
    "batch": Reader(".json", _batch),
    "batcharrays": Reader(".npz", _batch, structure=False),
    "journal": Reader(".jsonl", _journal, structure=False),
    "front": Reader(".csv", _results("front.csv"), structure=False),
    "history": Reader(".csv", _results("history.csv"), structure=False),
    "config": Reader(".yaml", _results("config.yaml")),
    "bounds": Reader(".json", _results("bounds.json")),
    "resultdesigns": Reader(".json", _results("designs.json")),
    "comparisons": Reader(".csv", _comparisons, structure=False),
    "words": Reader(".json", _words, structure=False),
}
