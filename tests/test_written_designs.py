"""`designs.json` as we write it is decoded directly into its forms, with the same result as when read step by step."""

import copy
import json
import subprocess
import sys

import fuzz_documents
import jax
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mohamjax.errors import InputError
from mohamjax.forms import Bounds, Form, as_written, keys_for_sure
from mohamjax.hardware import load_technology, load_templates
from mohamjax.io import evaluate_files, read_designs
from mohamjax.io.designs import _short
from mohamjax.io.files import parse_json
from mohamjax.io.forms import DESIGN_PARTS, ChipletForm, DesignForm, StepForm
from mohamjax.mapping.notation import NestForm, OwnedNestForm, loop_nest, mapping_from_dict, mappings_of
from mohamjax.workload import WorkloadShape

TECHNOLOGY = load_technology()


@pytest.fixture(scope="module")
def document():
    """What a search writes: two designs, the second with its own nests."""
    written = fuzz_documents.written()
    nests = copy.deepcopy(written["mappings"])
    for nest in nests:
        nest["levels"][-1]["temporal"]["perm"] = nest["levels"][-1]["temporal"]["perm"][::-1]
    for step in written["designs"][1]["schedule"]:
        step["mapping"] += len(nests)
    return {**written, "mappings": written["mappings"] + nests}


def text_of(document):
    return json.dumps(document, separators=(",", ":"))


def read(tmp_path, text):
    path = tmp_path / "designs.json"
    path.write_text(text if isinstance(text, str) else text_of(text))
    return read_designs(path, technology=TECHNOLOGY)


def changed(document, path, value):
    """A copy with a new or changed value at a path."""
    out = copy.deepcopy(document)
    entry = out
    for step in path[:-1]:
        entry = entry[step]
    entry[path[-1]] = value
    return out


def by_form(text):
    """Which lists of a document were decoded into their forms."""
    own = parse_json(text, "file", parts=DESIGN_PARTS)
    forms = {"designs": DesignForm, "mappings": OwnedNestForm}
    return {key for key, form in forms.items() if all(isinstance(one, form) for one in own[key])}


@given(
    values=st.lists(st.one_of(st.floats(1e-12, 1e21), st.floats(-1e9, -1e-9), st.just(0.0)), min_size=1),
    digits=st.integers(1, 10),
)
def test_numbers_are_rounded_to_digits(values, digits):
    """To the float nearest to a decimal number of so many digits, no farther off than half of the last digit."""
    found = _short(values, digits)
    assert [float(f"{value:.{digits}g}") for value in found] == found.tolist()
    np.testing.assert_allclose(found, values, rtol=0.5001 * 10.0 ** (1 - digits))


def test_infinite_numbers_and_nan_stay():
    np.testing.assert_array_equal(_short([np.inf, -np.inf, np.nan, 0, 1.23456], 3), [np.inf, -np.inf, np.nan, 0, 1.23])


def same(one, other):
    assert (one.names, one.reasons) == (other.names, other.reasons)
    for found, wanted in zip(*(_nests_of_designs(file) for file in (one, other)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(one.tile, other.tile)
    for name in ("capacity", "fanout"):
        np.testing.assert_array_equal(getattr(one.designs, name), getattr(other.designs, name))
    for name in ("order", "assignment", "template"):
        np.testing.assert_array_equal(getattr(one.designs.design, name), getattr(other.designs.design, name))


def _nests_of_designs(file):
    """The loop nest of every layer of every design, independent of its number in the file."""
    designs = file.designs.design
    kind = np.take_along_axis(designs.template, designs.assignment, axis=1)
    at = np.asarray(file.application.unique_of_layer), kind, designs.mapping
    return [leaf[at] for leaf in jax.tree.leaves(file.mappings)]


def test_what_we_write_is_decoded_into_its_forms(document):
    assert by_form(text_of(document)) == {"designs", "mappings"}
    assert by_form(json.dumps(document, indent=1)) == {"designs", "mappings"}


def test_other_columns_leave_the_lists_of_a_design_to_their_forms(document):
    own = parse_json(text_of(changed(document, ("designs", 0, "period_s"), 1.0)), "file", parts=DESIGN_PARTS)
    assert own["designs"][0]["period_s"] == 1.0
    assert isinstance(own["designs"][0]["schedule"][0], StepForm)
    assert isinstance(own["designs"][0]["chiplets"][0], ChipletForm)


OTHERWISE = {
    "more columns": (("designs", 0, "worst_lateness_s"), -1.0),
    "a key of a step": (("designs", 0, "schedule", 0, "mine"), {"a": [1]}),
    "what a chiplet has for people": (("designs", 1, "chiplets", 0, "hops"), "far"),
    "a key of a nest": (("mappings", 0, "mine"), True),
    "what the file has for people": (("bounds",), [{"a": 1}, {"a": 2}]),
    "a factor of 1": (("mappings", 0, "levels", 0, "temporal", "factors"), {"K": 1}),
    "a time that is no number": (("designs", 0, "schedule", 0, "start_s"), "soon"),
    "a name with a colon": (("networks", 0, "name"), "net: one"),
    "a source with a colon": (("networks", 0, "source"), "https://a/b.onnx"),
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_both_ways_of_reading_say_the_same(tmp_path, document, kind):
    whole = read(tmp_path, document)
    assert whole.designs is not None and len(whole.designs) == 2
    same(read(tmp_path, changed(document, *OTHERWISE[kind])), whole)


@pytest.mark.parametrize(("name", "remedy"), [("pakage", "did you mean 'package'?"), ("mine", "known keys: ")])
def test_an_unknown_key_at_the_top_of_a_file_is_refused(tmp_path, document, name, remedy):
    with pytest.raises(InputError) as caught:
        read(tmp_path, changed(document, (name,), {}))
    assert str(caught.value.file).endswith("designs.json") and caught.value.item == name
    assert caught.value.message == f"unknown key {name!r}" and caught.value.remedy.startswith(remedy)


def test_a_misspelt_key_of_a_chiplet_breaks_its_design_alone(tmp_path, document):
    read_ = read(tmp_path, changed(document, ("designs", 1, "chiplets", 0, "level"), []))
    assert read_.reasons[0] == "" and "unknown key 'level'; did you mean 'levels'?" in read_.reasons[1]


def test_a_loop_nest_says_ranges_as_timeloop_does():
    """A range was once printed as `0..111`, which could mean 111 or 112 steps."""
    levels = [
        {"name": "RF", "keep": [1, 0, 1], "temporal": {"factors": {"K": 4}, "perm": "K"}, "spatial": {}},
        {
            "name": "DRAM",
            "keep": [1, 1, 1],
            "temporal": {"factors": {"P": 112}, "perm": "P"},
            "spatial": {"X": [["C", 3]]},
        },
    ]
    nest = mapping_from_dict({"levels": levels}, ["RF", "DRAM"], [[True, False, True], [True, True, True]])
    assert [line.strip() for line in loop_nest(nest, ["RF", "DRAM"]).splitlines()] == [
        "DRAM [keeps WIO]",
        "for p in [0:112)",
        "parallel for c in [0:3)  (along X)",
        "RF [keeps WO]",
        "for k in [0:4)",
        "multiply-accumulate",
    ]
    padded = loop_nest(nest, ["RF", "DRAM"], WorkloadShape(K=4, P=111, C=3).bounds)
    assert padded.splitlines() == ["padded to P=112", *loop_nest(nest, ["RF", "DRAM"]).splitlines()]
    assert loop_nest(nest, ["RF", "DRAM"], WorkloadShape(K=4, P=112, C=3).bounds) == loop_nest(nest, ["RF", "DRAM"])


def test_keys_stand_in_any_order_and_are_spelt_in_any_way(tmp_path, document):
    def turned(value):
        if isinstance(value, dict):
            return {key: turned(one) for key, one in reversed(value.items())}
        return [turned(one) for one in value] if isinstance(value, list) else value

    same(read(tmp_path, turned(document)), read(tmp_path, document))
    same(read(tmp_path, text_of(document).replace('"layer"', '"\\u006cayer"')), read(tmp_path, document))


TWICE = {
    "of a step": ('"layer":0,', '"layer":0,"layer":1,'),
    "that a step does not need": ('"start_s":', '"start_s":7.5,"start_s":'),
    "of a size": ('"capacity_words":', '"capacity_words":8,"capacity_words":'),
    "of a design": ('"design_id":0,', '"design_id":0,"design_id":0,'),
    "of a nest": ('"template":"simba","levels"', '"template":"simba","template":"simba","levels"'),
    "of loops": ('"factors":{', '"factors":{},"factors":{'),
    "of the file": ('"designs":[', '"designs":[],"designs":['),
    "inside what nobody reads": ('"start_s":', '"mine":{"a":1,"a":2},"start_s":'),
}


@pytest.mark.parametrize("kind", TWICE)
def test_a_key_written_twice_is_refused(tmp_path, document, kind):
    old, new = TWICE[kind]
    text = text_of(document)
    assert old in text
    with pytest.raises(InputError, match="is written twice in one object"):
        read(tmp_path, text.replace(old, new, 1))


BROKEN_NEST = {
    "letters twice": (("temporal", "perm"), "KKC", "temporal.perm: names K twice"),
    "no dimension": (("temporal", "perm"), "XYZ", "temporal.perm: 'XYZ' is not the dimensions innermost first"),
    "no letter at all": (("temporal", "perm"), "é", "temporal.perm: 'é' is not the dimensions innermost first"),
    "a dimension twice": (("spatial", "X"), [["K", 2], ["K", 2]], "spatial.X: names K twice"),
    "a name": (("name",), "other", "name: level is called 'other'"),
    "a factor": (("temporal", "factors"), {"K": 0}, "temporal.factors.K: 0 is too small"),
    "a flag": (("keep",), [0, 1, 2], "keep[2]: 2 is too large"),
}


@pytest.mark.parametrize("kind", BROKEN_NEST)
def test_a_broken_nest_is_the_reason_of_every_design_that_names_it(tmp_path, document, kind):
    place, value, told = BROKEN_NEST[kind]
    first = document["designs"][0]["schedule"][0]["mapping"]
    broken = changed(document, ("mappings", first, "levels", 0, *place), value)
    broken["designs"].append({**copy.deepcopy(broken["designs"][0]), "design_id": 7})
    for shown in (broken, changed(broken, ("designs", 1, "mine"), 0)):
        found = read(tmp_path, shown)
        assert found.names == (0, 1, 7)
        assert f"mappings[{first}].levels[0].{told}" in found.reasons[0]
        assert found.reasons[0] == found.reasons[2] and not found.reasons[1]
        assert found.designs is not None and len(found.designs) == 1


@pytest.mark.parametrize(
    ("tiles", "wrong"), [((1, 2), None), ((None, 0), None), ((1, None), None), ((2, 1), 1), ((1, 1), 1), ((0, 0), 1)]
)
def test_tiles_that_contradict_the_order_of_the_list_are_refused(tmp_path, document, tiles, wrong):
    """The position in the list gives the tile of a chiplet: contradicting tiles would otherwise be ignored."""
    row = next(i for i, design in enumerate(document["designs"]) if len(design["chiplets"]) > 1)
    shown = copy.deepcopy(document)
    chips = shown["designs"][row]["chiplets"]
    for chip in chips:
        chip.pop("tile", None)
    for chip, tile in zip(chips, tiles, strict=False):
        chip["tile"] = tile
    found = read(tmp_path, shown)
    if wrong is None:
        assert not found.reasons[row]
    else:
        assert f"chiplets[{wrong}]: stands on tile {tiles[wrong]}, and a chiplet before it" in found.reasons[row]
        assert "leave `tile` out" in found.reasons[row]
        assert not any(reason for i, reason in enumerate(found.reasons) if i != row)


BROKEN_DESIGN = {
    "no chiplets": (("chiplets",), [], "chiplets: is empty"),
    "no such chiplet": (("schedule", 0, "chiplet"), 9, "runs on chiplet 9, which does not exist"),
    "no such mapping": (("schedule", 0, "mapping"), 99, "mappings[99]: there is no such mapping"),
    "no such level": (("chiplets", 0, "levels", 0, "name"), "x", "chiplets[0]: template simba has no level 'x'"),
    "a half tile": (("chiplets", 0, "tile"), 0.5, "chiplets[0].tile: 0.5 is not whole"),
    "a layer twice": (("schedule", 1, "layer"), 0, "is scheduled twice"),
}


@pytest.mark.parametrize("kind", BROKEN_DESIGN)
def test_a_broken_design_is_told_and_the_others_go_on(tmp_path, document, kind):
    place, value, told = BROKEN_DESIGN[kind]
    found = read(tmp_path, changed(document, ("designs", 0, *place), value))
    assert told in found.reasons[0] and not found.reasons[1]
    alone = {**document, "designs": document["designs"][1:]}
    same(dataclass_of(found, names=(1,), reasons=("",)), read(tmp_path, alone))


def dataclass_of(file, **values):
    return type(file)(**{**{name: getattr(file, name) for name in file.__dataclass_fields__}, **values})


def test_lines_are_read_by_their_forms_too(tmp_path, document):
    head = {key: value for key, value in document.items() if key != "designs"}
    path, table = tmp_path / "designs.jsonl", tmp_path / "lines.csv"
    path.write_text("".join(text_of(line) + "\n" for line in (head, *document["designs"])))
    (tmp_path / "designs.json").write_text(text_of(document))
    evaluate_files(path, table, technology=TECHNOLOGY)
    evaluate_files(tmp_path / "designs.json", tmp_path / "whole.csv", technology=TECHNOLOGY)
    lines, whole = ((tmp_path / name).read_text().replace(".jsonl", ".json") for name in ("lines.csv", "whole.csv"))
    assert lines == whole and len(lines.splitlines()) == 3


class Inner(Form):
    a: int
    loops: Bounds


class Outer(Form):
    inner: list[Inner]
    name: str | None = None


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ('{"inner":[]}', 1),
        ('{"inner":[{"a":1,"loops":{}}],"name":"x"}', 4),
        ('{"inner":[{"a":1,"loops":{"K":2}},{"a":1,"loops":{"K":1}}]}', 6),  # a 1 may be a default
    ],
)
def test_keys_that_a_text_must_have_had_are_counted(text, keys):
    assert keys_for_sure([msgspec.json.decode(text, type=Outer)], Outer) == keys


def test_what_is_written_lacks_no_key_and_has_no_other():
    written = as_written(Outer, may_lack=("name",), more=float)
    assert isinstance(msgspec.json.decode('{"inner":[],"more":1}', type=written), Outer)
    for text in ('{"inner":[]}', '{"inner":[],"more":1,"other":1}', '{"more":1}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=written)


def test_many_nests_at_once_are_those_one_by_one():
    """Also if some of them are invalid, and with keys that files may omit."""
    template = load_templates(["simba"])[0]
    keep = [level.keep for level in template.levels]
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(20):
        levels = [
            {
                "temporal": {
                    "factors": {"K": int(rng.integers(1, 9))},
                    "perm": "".join(rng.permutation(list("KCPQ"))[:n]),
                },
                "spatial": {"X": [["C", 2], ["K", 4]][: n % 3], "Y": []},
            }
            | ({"keep": [0, 1, 0]} if n % 2 else {})
            for n in rng.integers(0, 5, len(keep)).tolist()
        ]
        rows.append({"levels": levels})
    broken = [{"levels": rows[0]["levels"][1:]}, {"levels": [{"temporal": {"perm": "KK"}}, *rows[0]["levels"][1:]]}]
    forms = [msgspec.convert(row, NestForm) for row in (rows[0], *broken, *rows[1:])]
    nests, sound = mappings_of(forms, template.level_names, keep, levels=8)
    assert sound.tolist() == [True, False, False, *[True] * 19]
    for i, row in zip(np.flatnonzero(sound), rows, strict=True):
        one = mapping_from_dict(row, template.level_names, keep, levels=8)
        for found, wanted in zip(jax.tree.leaves(nests), jax.tree.leaves(one), strict=True):
            np.testing.assert_array_equal(found[i], wanted)


def test_an_evaluation_imports_no_search_and_no_reader_of_onnx(tmp_path, document):
    path = tmp_path / "designs.json"
    path.write_text(text_of(document))
    code = (
        "import sys; from mohamjax.cli import main; "
        f"main(['evaluate', 'designs', {str(path)!r}, '--out', {str(tmp_path / 'out.csv')!r}]); "
        "others = 'mohamjax.search', 'mohamjax.workload.walk', 'onnx'; "
        "print(*(name for name in sys.modules if name.startswith(others)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
    assert (tmp_path / "out.csv").read_text().count("\n") == 3


def test_designs_are_known_by_what_was_read_of_them(document, tmp_path):
    digest = read(tmp_path, document).digest
    assert read(tmp_path, json.dumps(document, indent=1)).digest == digest
    others = [
        changed(document, ("designs", 0, "schedule"), document["designs"][0]["schedule"][::-1]),
        changed(document, ("mappings", 0, "levels", -1, "temporal", "perm"), "GNKCPQRS"),
        changed(document, ("designs", 0, "chiplets", 0, "levels", 0, "capacity_words"), None),
        changed(document, ("templates", 0, "levels", -1, "bandwidth"), 3.0),
    ]
    found = [read(tmp_path, other) for other in others]
    assert len({digest, *(file.digest for file in found)}) == 1 + len(others)
