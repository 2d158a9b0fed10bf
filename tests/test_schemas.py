"""Published schemas match the code, accept what we write, refuse planted faults, and agree with the readers."""

import copy
import functools
import inspect
import json
import pathlib
import types
import typing

import fuzz_documents
import jsonschema
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import load_templates, packaged_templates, template_to_dict
from mohamjax.hardware.package import PackageParameters, package_to_dict
from mohamjax.io.files import parse_json
from mohamjax.io.forms import DESIGN_PARTS
from mohamjax.io.job_tables import read_job_table
from mohamjax.io.job_transfer import TRANSFER_FORMAT
from mohamjax.io.jobs import job_table_document
from mohamjax.io.schedules import evaluate_schedules
from mohamjax.io.schemas import FORMS, schema
from mohamjax.problem.requirements import requirements_from_dict
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES

PUBLISHED = pathlib.Path(__file__).parents[1] / "docs" / "schemas"
SOUND = {
    "designs/1": fuzz_documents.designs(),
    "schedule/1": fuzz_documents.schedule(),
    "fluid-schedule/1": fuzz_documents.FLUID,
    "package-schedule/1": fuzz_documents.PACKAGE_SCHEDULE,
    "job-table/1": fuzz_documents.JOB_TABLE,
    "mappings/1": fuzz_documents.mappings(),
    TRANSFER_FORMAT: {**fuzz_documents.TRANSFER},
    "template/1": template_to_dict(load_templates(("eyeriss",))[0]),
    "technology/1": yaml.safe_load(fuzz_documents.TECHNOLOGY),
    "package": package_to_dict(PackageParameters()),
    "requirements/1": requirements_from_dict(
        {"limits": {"area_mm2": 3.0}, "pin": [{"layers": "*", "templates": ["simba"]}]}
    ).to_dict(),
    "robust/1": yaml.safe_load(fuzz_documents.ROBUST),
    "scenario": yaml.safe_load(fuzz_documents.SCENARIO),
    "platform": yaml.safe_load(fuzz_documents.PLATFORM),
}


@functools.cache
def validator(name):
    return jsonschema.Draft202012Validator(schema(name))


def accepted(name, document):
    return validator(name).is_valid(document)


def read(name, document):
    """Whether the form accepts the document."""
    try:
        read_form(document, FORMS[name], file="file")
    except InputError as error:
        assert error.file == "file" and error.remedy
        return False
    return True


def test_a_schema_is_known_by_the_name_of_its_file():
    for path in PUBLISHED.glob("*.json"):
        assert json.loads(json.dumps(schema(path.stem))) == json.loads(path.read_text())
        assert schema(path.stem) == schema(path.name)


def parts(value):
    """All objects of a JSON document."""
    if isinstance(value, dict):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(entry)


@pytest.mark.parametrize("name", FORMS)
def test_schemas_do_not_depend_on_the_version_of_msgspec(name):
    """Versions differ in the indents of descriptions (0.23) and in the order of a value's types (0.22)."""
    null = {"type": "null"}
    for part in parts(schema(name)):
        text = part.get("description", "")
        assert not isinstance(text, str) or text == inspect.cleandoc(text)
        types = part.get("anyOf", [])
        assert null not in types[:-1]
        rest = [json.dumps(kind, sort_keys=True) for kind in types if kind != null]
        assert rest == sorted(rest)


@pytest.mark.parametrize("name", FORMS)
def test_published_schemas_are_those_of_the_code(name, capsys):
    """`mohamjax schema NAME --out docs/schemas/FILE` regenerates them."""
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert main(["schema", name]) == 0
    assert capsys.readouterr().out == (PUBLISHED / f"{name.replace('/', '-')}.json").read_text()


def test_the_verb_lists_the_names(capsys):
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.split() == list(FORMS)
    assert main(["schema", "design/1"]) == 2
    assert "did you mean 'designs/1'" in capsys.readouterr().err


@pytest.mark.parametrize("name", SOUND)
def test_sound_documents_are_accepted(name):
    assert accepted(name, SOUND[name]) and read(name, SOUND[name])


def test_what_we_write_is_accepted(tmp_path):
    """Templates, a job table and answers to schedules; result folders are checked in the tests of searches."""
    for template in load_templates(packaged_templates()):
        assert accepted("template/1", json.loads(json.dumps(template_to_dict(template))))
    table = read_job_table(fuzz_documents.JOB_TABLE, "file")
    assert accepted("job-table/1", job_table_document(table, [("s", [0, 1], [0, 1])]))
    for name in ("fluid-schedule/1", "package-schedule/1", "job-table/1"):
        document = SOUND[name]
        (tmp_path / "in.json").write_text(json.dumps(document))
        evaluate_schedules(tmp_path / "in.json", tmp_path / "out.json", timelines=True)
        assert accepted(f"{name}-answer", json.loads((tmp_path / "out.json").read_text()))


FAULTS = {
    "a negative duration": ("fluid-schedule/1", ["cases", 0, "duration", 0], -1),
    "an order with true": ("fluid-schedule/1", ["cases", 0, "order", 0], True),
    "a bandwidth of 0": ("job-table/1", ["resources", 0, "bandwidth"], 0),
    "an unknown unit": ("job-table/1", ["time_unit"], "h"),
    "another format": ("designs/1", ["format"], "designs/2"),
    "a layer of no type": ("designs/1", ["layers", 0, "type"], "pool"),
    "a bound of 0": ("designs/1", ["layers", 0, "bounds", "K"], 0),
    "a dimension that is none": ("designs/1", ["layers", 0, "bounds", "Z"], 2),
    "a step without chiplet": ("designs/1", ["designs", 0, "schedule", 0, "chiplet"], None),
    "a fanout of one number": ("designs/1", ["designs", 0, "chiplets", 0, "levels", 0, "fanout"], [2]),
    "an unknown key of a level": ("designs/1", ["mappings", 0, "levels", 0, "tmporal"], {}),
    "no application": ("schedule/1", ["application"], None),
    "an unknown key of a template": ("template/1", ["wordbits"], 8),
    "an unknown key of a file of schedules": ("schedule/1", ["pakage"], {}),
    "an unknown key of a file of designs": ("designs/1", ["objektives"], []),
    "an unknown key of a job table": ("job-table/1", ["time_units"], "s"),
    "an unknown contention": ("package-schedule/1", ["cases", 0, "contention"], "some"),
    "a misspelt operand": ("package-schedule/1", ["cases", 0, "layers", 1, "edges", 0, "operands"], "weight"),
    "a misspelt bandwidth": ("package-schedule/1", ["cases", 0, "bandwidth", "srams"], 1),
    "an unknown key of fluid schedules": ("fluid-schedule/1", ["time_unit"], "s"),
    "an unknown key of a file of mappings": ("mappings/1", ["set"], []),
    "a misspelt size": ("schedule/1", ["schedules", 0, "chiplets", 0, "level"], []),
    "a misspelt capacity": ("designs/1", ["designs", 0, "chiplets", 0, "levels", 0, "capacity"], 64),
    "a misspelt stride": ("designs/1", ["layers", 0, "strides"], [2, 2]),
    "a misspelt dilation": ("mappings/1", ["sets", 0, "dilations"], [2, 2]),
    "a misspelt deadline of a network": ("designs/1", ["networks", 0, "deadline"], 1),
    "a misspelt predecessor": ("job-table/1", ["jobs", 0, "predecesors"], []),
    "a misspelt share of leakage": ("designs/1", ["technology"], {"static": True}),
    "a name of two words": ("template/1", ["levels", 0, "name"], "a b"),
    "an unknown limit": ("requirements/1", ["limits", "power_mW"], 3),
    "a weight of what is held out": ("robust/1", ["held_out", 0, "weight"], 2),
    "too many tiles": ("package", ["max_tiles"], 1025),
    "three numbers of a nest": ("mappings/1", ["sets", 0, "stride"], [1, 1, 1]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_refused_by_schema_and_reader(fault):
    name, path, value = FAULTS[fault]
    document = copy.deepcopy(SOUND[name])
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not accepted(name, document) and not read(name, document)


VALUES = st.sampled_from(
    [None, True, 0, 1, -1, 2**31, 0.5, 1e300, "", "x", "all", "any", "simba", [], [1, 2], {}, {"a": 1}]
)


def places(tree, path=()):
    yield path
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        yield from places(value, (*path, key))


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_readers_and_schemas_agree(data):
    """A document in which any value has been replaced is accepted by both or by neither."""
    name = data.draw(st.sampled_from(sorted(SOUND)))
    document = copy.deepcopy(SOUND[name])
    *way, last = data.draw(st.sampled_from([path for path in places(document) if path]))
    at = document
    for key in way:
        at = at[key]
    at[last] = data.draw(VALUES)
    assert accepted(name, document) == read(name, document), (name, way, last, at[last])


def alternatives(kind):
    if typing.get_origin(kind) is typing.Annotated:
        inner, *notes = typing.get_args(kind)
        return [(k, [*more, *notes]) for k, more in alternatives(inner)]
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return [pair for arg in typing.get_args(kind) for pair in alternatives(arg)]
    return [(kind, [])]


def unions(kind, seen):
    """Every type in a form, as a list of its alternatives."""
    found = alternatives(kind)
    yield found
    for k, _ in found:
        if isinstance(k, type) and issubclass(k, msgspec.Struct) and k not in seen:
            seen.add(k)
            for hint in typing.get_type_hints(k, include_extras=True).values():
                yield from unions(hint, seen)
        elif typing.get_origin(k) in (list, tuple, dict):
            for arg in typing.get_args(k):
                yield from unions(arg, seen)


@pytest.mark.parametrize("name", FORMS)
def test_no_form_holds_what_crashes_msgspec(name):
    """msgspec 0.22 crashes on unions of a tuple and a number with limits, or of a list and a string with a pattern."""
    for found in unions(FORMS[name], set()):
        origins = {typing.get_origin(kind) for kind, _ in found}
        limited = any(kind in (int, float) and notes for kind, notes in found)
        pattern = any(note.pattern for _, notes in found for note in notes if isinstance(note, msgspec.Meta))
        assert not (tuple in origins and limited), found
        assert not (origins & {list, tuple, dict} and pattern), found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "a": 2}', "'a' is written twice"),
        ('{"b": {"a": 1, "\\u0061": ":"}}', "'a' is written twice"),
        ('{"\\u003a": 1, "x": 1, "x": 2}', "'x' is written twice"),
        ("[" * 101 + "]" * 101, "nested too deeply"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested too deeply"),
        ("1" + "0" * 300, "301 digits"),
        ('"\\ud800"', "lone surrogate"),
    ],
)
def test_fast_json_refuses_what_slow_json_does(text, words):
    with pytest.raises(InputError, match=words):
        parse_json(text, "file")


def test_fast_json_reads_what_is_sound():
    text = '{"a:": ["\\u003a", ":", 1e3, ' + str(2**70) + '], "d": ' + "[" * 98 + "]" * 98 + ', "é": "\\ud83d\\ude00"}'
    assert parse_json(text, "file") == json.loads(text)


def _changed(text, data):
    """The JSON text of designs in which some keys are repeated, renamed, unknown, or have values of another type."""
    keys = [
        "perm",
        "factors",
        "X",
        "keep",
        "template",
        "interface",
        "fanout",
        "layer",
        "start_s",
        "levels",
        "design_id",
    ]
    for _ in range(data.draw(st.integers(0, 2))):
        key = f'"{data.draw(st.sampled_from(keys))}":'
        there = text.count(key)
        if there == 0:
            continue
        at = -1
        for _ in range(data.draw(st.integers(1, there))):
            at = text.index(key, at + 1)
        new = data.draw(st.sampled_from([f"{key} 1, {key}", f'"more": 7, {key}', '"other":', f'"a:b": 2, {key}']))
        text = text[:at] + new + text[at + len(key) :]
    return text


@settings(max_examples=60, deadline=None)
@given(data=st.data(), spaces=st.booleans())
def test_what_is_read_by_its_form_at_once_is_what_was_written(data, spaces):
    """Or it is refused with the same message; repeated keys are detected too."""
    text = json.dumps(fuzz_documents.written(), separators=None if spaces else (",", ":"))
    text = _changed(text, data)
    try:
        plain = parse_json(text, "file")
    except InputError as error:
        with pytest.raises(InputError) as raised:
            parse_json(text, "file", parts=DESIGN_PARTS)
        assert str(raised.value) == str(error)
    else:
        found = msgspec.to_builtins(parse_json(text.encode(), "file", parts=DESIGN_PARTS))
        assert _without_defaults(found) == _without_defaults(plain)


def _without_defaults(value):
    """The document without keys that have the default value of a form."""
    if isinstance(value, dict):
        kept = {key: _without_defaults(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, 1, [], {}, "")}
    return [_without_defaults(item) for item in value] if isinstance(value, list | tuple) else value


def test_our_own_designs_are_read_by_their_forms_at_once():
    """Otherwise they would still be read correctly, but slowly."""
    document = copy.deepcopy(fuzz_documents.designs())
    design = document["designs"][0]
    for chiplet in design["chiplets"]:
        chiplet |= {**dict.fromkeys(CHIPLET_MEASURES, 1.5), "interface": 0, "hops": 1}
        chiplet["levels"] = [{"capacity_words": 4, **level} for level in design["chiplets"][0]["levels"]]
    for step in design["schedule"]:
        figures = ("start_s", "end_s", "alone_s", "offchip_bytes", "macs_per_cycle", "utilisation", "energy_J")
        step |= dict.fromkeys(figures, 1.5)
    document["mappings"].append({**document["mappings"][0], "padded": {"K": 8, "C": 4}})
    found = parse_json(json.dumps(document), "file", parts=DESIGN_PARTS)
    assert all(isinstance(nest, DESIGN_PARTS["mappings"]) for nest in found["mappings"])
    for name in ("chiplets", "schedule"):
        assert isinstance(found["designs"][0][name][0], DESIGN_PARTS[name])


def test_a_format_needs_no_version():
    assert schema("designs") == schema("designs/1") and schema("scenario")["title"] == "scenario"
    with pytest.raises(InputError, match="there is no schema 'design'"):
        schema("design")
