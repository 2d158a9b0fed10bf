"""Files that say one thing twice, or say it in a wrong type: one clear line, or a row with its reason."""

import copy
import json

import fuzz_documents
import pytest
import yaml

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, load_technology, load_templates
from mohamjax.io import read_designs
from mohamjax.io.mappings import given_mappings
from mohamjax.io.schedules import schedule_arrays
from mohamjax.problem import load_requirements
from mohamjax.schedule import Setup
from mohamjax.workload import load_scenario

DESIGNS, MAPPINGS = fuzz_documents.designs(), fuzz_documents.mappings()
TECHNOLOGY = load_technology()


def changed(document, path, value):
    """A copy of a document with another value at a path; a callable value is applied to the old one."""
    copied = copy.deepcopy(document)
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value(at[path[-1]]) if callable(value) else value
    return copied


def written(folder, document, name="file.json"):
    for model, proto in fuzz_documents.BEHIND.items():
        (folder / model).write_bytes(proto.SerializeToString())
    path = folder / name
    path.write_text(json.dumps(document) if name.endswith("json") else yaml.safe_dump(document))
    return path


def twice(rows):
    return [*rows, copy.deepcopy(rows[-1])]


# --------------------------------------------------------------------------------------------------------- designs/1

SECOND = {
    "the first's": (0, "also that of the entry at place 0"),
    "the first's, as a text": ("0", "also that of the entry at place 0"),
    "true": (True, "True is neither"),
    "a list": ([0], "[0] is neither"),
    "a table": ({"a": 1}, "neither"),
    "NaN": (float("nan"), "nan is neither"),
    "a float": (1.0, "1.0 is neither"),
    "empty": ("", "neither"),
    "two lines": ("a\nb", "one short line"),
    "endless": ("x" * 5000, "one short line"),
}


@pytest.mark.parametrize("kind", SECOND)
def test_identifiers_of_designs(tmp_path, kind):
    """A design with a repeated identifier, or one unfit for a column, is a row with its reason; the others are kept."""
    value, words = SECOND[kind]
    found = read_designs(written(tmp_path, changed(DESIGNS, ["designs", 1, "design_id"], value)), technology=TECHNOLOGY)
    assert found.reasons[0] == "" and words in found.reasons[1]
    assert len(found.designs) == 1
    assert all(isinstance(name, int | str) and "\n" not in str(name) and len(str(name)) < 300 for name in found.names)


def test_designs_without_identifiers_have_their_places(tmp_path):
    none = changed(changed(DESIGNS, ["designs", 1, "design_id"], None), ["designs", 0], lambda row: row)
    del none["designs"][0]["design_id"]
    assert read_designs(written(tmp_path, none), technology=TECHNOLOGY).names == (0, 1)
    named = written(tmp_path, changed(fuzz_documents.schedule(), ["schedules"], twice))
    assert "also that" in read_designs(named, technology=TECHNOLOGY).reasons[1]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["chiplets", 0, "tile"], True), (["chiplets", 0, "tile"], [0]), (["chiplets", 0, "tile"], 99),
        (["schedule", 0, "chiplet"], True), (["schedule", 0, "chiplet"], [0]), (["schedule", 0, "layer"], True),
        (["schedule", 0, "layer"], [0]), (["schedule", 0, "mapping"], True), (["schedule", 0, "mapping"], [0]),
        (["chiplets", 0, "template"], [1]), (["chiplets", 0, "template"], True),
    ],
)  # fmt: skip
def test_indices_that_are_none(tmp_path, path, value):
    path = written(tmp_path, changed(DESIGNS, ["designs", 0, *path], value))
    found = read_designs(path, technology=TECHNOLOGY)
    assert found.reasons[0] and "\n" not in found.reasons[0] and not found.reasons[1]


def _of_first_layer(rows):
    return [*rows[:-1], copy.deepcopy(rows[0])]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["schedule"], _of_first_layer, ["is scheduled twice; list every layer once: remove schedule[0] or schedule["]),
        (["schedule", 0, "chiplet"], 9, ["runs on chiplet 9, which does not exist; name "]),
        (["schedule", 0, "layer"], 99, ["schedule[0]: there is no layer 99; the ", "layers are numbered from 0"]),
        (["schedule", 0, "layer"], "a/l00", ["schedule[0]: there is no layer 'a/l00'; did you mean 'a/l0'?"]),
        (["schedule", 0, "mapping"], 999, ["mappings[999]: there is no such mapping", "schedule[0]", "has ", "from 0"]),
        (["schedule"], lambda rows: rows[:-1], ["is not scheduled; list every layer once"]),
        (["chiplets", 0, "tile"], 99, ["stands on tile 99, and the package has the tiles 0 to ", "leave `tile` out"]),
        (["chiplets", 0, "levels"], [{"name": "L2"}], ["has no level 'L2'; its levels are "]),
    ],
)
def test_reasons_of_designs_say_what_to_do(tmp_path, path, value, words):
    found = read_designs(written(tmp_path, changed(DESIGNS, ["designs", 0, *path], value)), technology=TECHNOLOGY)
    assert all(word in found.reasons[0] for word in words), found.reasons[0]
    assert not found.reasons[1]


def test_a_mapping_of_another_template_is_told_with_its_step(tmp_path):
    names = [one if isinstance(one, str) else one["name"] for one in DESIGNS["templates"]]
    first = DESIGNS["designs"][0]
    chip = first["schedule"][0]["chiplet"]
    other = next(name for name in names if name != first["chiplets"][chip]["template"])
    path = written(tmp_path, changed(DESIGNS, ["designs", 0, "chiplets", chip], {"template": other}))
    reason = read_designs(path, technology=TECHNOLOGY).reasons[0]
    assert f"runs it on template {other}; name a mapping or a chiplet of the same template" in reason
    assert f"and schedule[0] on chiplet {chip}" in reason


def test_a_template_that_is_not_there_is_told_once(tmp_path, capsys):
    path = written(tmp_path, changed(fuzz_documents.schedule(), ["templates"], ["simbaa"]))
    assert main(["evaluate", "designs", str(path)]) == 2
    told = capsys.readouterr().err
    assert "templates[0]: no packaged template and no file is called 'simbaa'; did you mean 'simba'?" in told


@pytest.mark.parametrize("document", [fuzz_documents.FLUID, fuzz_documents.JOB_TABLE])
def test_schedules_of_jobs_that_are_given_for_designs_are_sent_on(tmp_path, capsys, document):
    assert main(["evaluate", "designs", str(written(tmp_path, document))]) == 2
    told = capsys.readouterr().err
    assert f"is a {document['format']} file" in told and "use `mohamjax evaluate schedules`" in told


WHOLE = {
    "two templates of one name": (["templates"], ["simba", "simba"], "a second template is called 'simba'"),
    "two networks of one name": (["networks", 1, "name"], "a", "a second network is called 'a'"),
    "two layers of one name": (["layers", 1, "name"], "l0", "a second layer of this network is called 'l0'"),
    "a predecessor that is true": (["layers", 1, "predecessors"], [False], "predecessors"),
    "a layer named by a list": (["layers", 1, "name"], ["l1"], "layers[1].name: expected text"),
    "a network named by true": (["networks", 0, "name"], True, "networks[0].name: expected text"),
    "a network that is a list": (["networks", 0], ["a"], "networks[0]: expected text or a mapping"),
    "a network without layers": (["networks"], lambda rows: [*rows, {"name": "c"}], "has no layers"),
    "no layers at all": (["layers"], [], "layers: is empty"),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_files_that_cannot_be_read_as_a_whole(tmp_path, capsys, kind):
    """They give exit code 2 and one line, with `--explain` too."""
    where, value, words = WHOLE[kind]
    path = written(tmp_path, changed(DESIGNS, where, value))
    for more in ([], ["--explain", "1"]):
        code = main(["evaluate", "designs", str(path), "--out", str(tmp_path / "out.csv"), *more])
        lines = capsys.readouterr().err.strip().splitlines()
        assert code == 2 and len(lines) == 1 and words in lines[0] and str(path) in lines[0], lines
    assert not (tmp_path / "out.csv").exists()


# ----------------------------------------------------------------------------------------------- schedules, mappings

SCHEDULES = {
    "two cases of one name": (fuzz_documents.FLUID, ["cases"], twice, "also that of the entry"),
    "two resources of one name": (fuzz_documents.FLUID, ["cases", 0, "resource_names"], ["a", "a"], "also the name"),
    "a number of jobs that is true": (
        {"format": "fluid-schedule/1", "cases": [{
            "name": "c", "jobs": True, "accelerators": 1, "duration": [1], "bytes": [0], "predecessors": [[]],
            "accelerator": [0], "order": [0], "resource_bandwidth": [], "resources_of_accelerator": [[]]}]},
        ["cases", 0, "jobs"], True, "found true/false True"),
    "an order with true": (fuzz_documents.FLUID, ["cases", 0, "order", 1], True, "found true/false True"),
    "two jobs of one name": (fuzz_documents.JOB_TABLE, ["jobs", 1, "name"], "j0", "also the name"),
    "two accelerators of one name": (fuzz_documents.JOB_TABLE, ["accelerators", 1, "name"], "a", "also the name"),
    "two schedules of one name": (fuzz_documents.JOB_TABLE, ["schedules"], twice, "also that of the entry"),
    "an accelerator that is true": (
        fuzz_documents.JOB_TABLE, ["schedules", 0, "accelerator", 1], True,
        "found true/false True; write a name or a 0-based number"),
    "a predecessor that is a list": (fuzz_documents.JOB_TABLE, ["jobs", 1, "predecessors"], [[0]], "found list"),
}  # fmt: skip


@pytest.mark.parametrize("kind", SCHEDULES)
def test_schedules(kind):
    document, path, value, words = SCHEDULES[kind]
    with pytest.raises(InputError, match=words) as caught:
        schedule_arrays(changed(document, path, value), "file.json")
    assert str(caught.value).startswith("file.json: ")


@pytest.mark.parametrize(
    ("path", "value"),
    [(["bounds", "K"], 6.0), (["bounds", "K"], True), (["stride"], [True, 1]), (["dilation"], [1, [1]])],
)
def test_mappings(tmp_path, path, value):
    file = written(tmp_path, changed(MAPPINGS, ["sets", 0, *path], value))
    application = load_scenario([str(tmp_path / "m.onnx")])
    with pytest.raises(InputError, match="write a whole number") as caught:
        given_mappings([[file]], Setup(application, load_templates(("simba",)), TECHNOLOGY, PackageParameters()))
    assert str(caught.value).startswith(f"{file}: sets[0].{path[0]}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["pin", 0, "chiplet"], True), (["pin", 0, "chiplet"], [1]), (["package", "chiplets", 0, "tile"], True),
        (["chiplets", "least"], True), (["pin", 1, "templates"], "simba"), (["homogeneous"], 1),
        (["package", "chiplets", 0, "levels", "Global", "fanout"], [True, 2]), (["limits", "latency_s"], [1]),
    ],
)  # fmt: skip
def test_requirements(tmp_path, path, value):
    file = written(tmp_path, changed(yaml.safe_load(fuzz_documents.REQUIREMENTS), path, value), "file.yaml")
    with pytest.raises(InputError) as caught:
        load_requirements(file)
    assert str(caught.value).startswith(f"{file}: {path[0]}")
