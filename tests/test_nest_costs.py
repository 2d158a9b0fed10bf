"""`evaluate mappings FILE.json`: loop nests of the format mappings/1, a row for each."""

import copy
import csv
import json

import jax
import numpy as np
import pytest
import yaml

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.hardware import PackageParameters, load_technology, load_templates, template_to_dict, with_word_bits
from mohamjax.io import evaluate_nests, mappings_document
from mohamjax.schedule import Setup
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

LAYERS = (
    Layer("conv", "conv", "Conv", WorkloadShape(K=12, C=8, P=6, Q=6, R=3, S=3, stride=(2, 1))),
    Layer("fc", "fc", "Gemm", WorkloadShape(N=2, K=10, C=14)),
)
TEMPLATES = ("simba", "shidiannao")


@pytest.fixture(scope="module")
def application():
    return ApplicationModel("two", (Network("net", LAYERS),))


@pytest.fixture(scope="module")
def tables(application):
    return mj.sample_mappings(mj.DesignProblem(application, templates=TEMPLATES), count=6, seed=3)


@pytest.fixture(scope="module")
def document(application, tables):
    """The document that `map --out` writes."""
    package = PackageParameters(interface_bandwidth=0.5)
    setup = Setup(application, load_templates(TEMPLATES), load_technology(), package)
    return mappings_document(setup, tables, {})


def written(folder, document, name="mine.json"):
    (folder / name).write_text(json.dumps(document))
    return folder / name


@pytest.mark.slow
def test_rows_are_what_the_mapper_writes_and_what_python_says(tmp_path, document, application, tables):
    """Costs stated in the file are not read; those of the rows come from the model, on each nest's own hardware."""
    empty = copy.deepcopy(document)
    for own in empty["sets"]:
        for nest in own["mappings"]:
            for key in set(nest) - {"levels", "padded"}:
                nest[key] = "not read"
    rows = evaluate_nests([written(tmp_path, empty)], package=PackageParameters(interface_bandwidth=0.5))
    assert len(rows) == sum(len(own["mappings"]) for own in document["sets"]) and all(row["valid"] for row in rows)
    each = iter(rows)
    for n, own in enumerate(document["sets"]):
        for m, nest in enumerate(own["mappings"]):
            row = next(each)
            assert (row["id"], row["layer"]) == (f"sets[{n}].mappings[{m}]", own["layer"])
            for key in ("latency_cycles", "latency_interface_cycles", "energy_pJ", "area_um2", "offchip_bytes"):
                assert row[key] == pytest.approx(nest[key], rel=2e-5), key
            assert row["latency_interface_cycles"] == max(row["latency_cycles"], row["offchip_bytes"] / 0.5)
    # One set compared with the Python function in double precision.
    u, t = 0, 1
    with jax.enable_x64(True):
        nests = jax.tree.map(lambda leaf: np.asarray(leaf)[u, t, : int(tables.count[u, t])], tables.mapping)
        costs = mj.evaluate_mappings(nests, application.unique_layers[u], TEMPLATES[t])
    mine = [row for row in rows if (row["layer"], row["template"]) == ("net/conv", TEMPLATES[t])]
    got = [[row["latency_cycles"], row["energy_pJ"], row["area_um2"]] for row in mine]
    np.testing.assert_allclose(got, costs.objectives, rtol=2e-5)
    for row in mine:
        assert row["macs_per_cycle"] == pytest.approx(LAYERS[0].macs / row["latency_cycles"], rel=1e-12)
        assert row["utilisation"] == pytest.approx(row["macs_per_cycle"] / 256, rel=1e-12)  # 16 x 16 PEs


LEVELS = ("AccReg", "RegisterIn", "SynapsesBuffer", "NeuronsBuffer", "MainMemory")


def nest(spatial=(), **factors):
    """A nest on shidiannao: temporal factors by level, and loops along X of its array."""
    levels = [{"name": name, "temporal": {"factors": factors.get(name, {})}} for name in LEVELS]
    levels[2]["spatial"] = {"X": list(spatial)}
    return {"levels": levels}


def fc(*nests, **edits):
    """A set of a fully connected layer of 40 x 200,000 on shidiannao."""
    return {"layer": "fc", "type": "fc", "bounds": {"K": 40, "C": 200_000}, "template": "shidiannao",
            "mappings": list(nests), **edits}  # fmt: skip


def test_every_broken_rule_is_a_row_with_the_level_and_the_words(tmp_path, capsys):
    outer = {"K": 40, "C": 200_000}
    good = nest(MainMemory={"K": 8, "C": 100_000}, AccReg={"C": 2}, spatial=[["K", 5]])
    nests = {
        "NeuronsBuffer: the tiles take 200001 words, and the capacity is 134144": nest(
            NeuronsBuffer={"C": 200_000}, MainMemory={"K": 40}
        ),
        "AccReg: the tiles take 40 words, and the capacity is 4": nest(AccReg={"K": 40}, MainMemory={"C": 200_000}),
        "the factors of K multiply to 20, the layer's bound is 40": nest(MainMemory={"K": 20, "C": 200_000}),
        "level SynapsesBuffer: the X factors 40 exceed the fanout 16": nest(
            MainMemory={"C": 200_000}, spatial=[["K", 40]]
        ),
        "level RegisterIn: the temporal factor 40 of K is above the template's limit 1": nest(
            RegisterIn={"K": 40}, MainMemory={"C": 200_000}
        ),
        "levels: has 4 entries; list all levels": {"levels": nest(MainMemory=outer)["levels"][1:]},
        "factors.K: 2.5 is not whole": nest(AccReg={"K": 2.5}),
        "is no loop nest": 7,
    }
    sets = [fc(*nests.values(), {**good, "name": "mine"}), fc(good, good, template="shidianao")]
    sets += [fc(good, type="pool"), fc(good, template="eyeriss"), {"template": "simba"}, 3]
    path = written(tmp_path, {"format": "mappings/1", "sets": sets})
    out = tmp_path / "rows.csv"
    assert main(["evaluate", "mappings", str(path), "--out", str(out)]) == 0
    with open(out, newline="") as stream:
        rows = list(csv.DictReader(stream))
    words = [*nests, "", *["no template 'shidianao'; did you mean 'shidiannao'?"] * 2, "unknown value 'pool'"]
    words += [
        "is called 'AccReg'; the template calls it 'psum_spad'",
        "sets[4].type: is missing",
        "expected a mapping",
    ]
    for row, said in zip(rows, words, strict=True):
        assert said in row["reason"] and (row["valid"] == "1") == (said == ""), row
        assert (row["latency_cycles"] == "") == (said != "")
    assert rows[0]["reason"].startswith("sets[0].mappings[0]: level NeuronsBuffer")
    assert rows[len(nests)]["id"] == "mine" and float(rows[len(nests)]["latency_cycles"]) == 8 * 200_000
    told = capsys.readouterr().err
    assert "--template" in told and f"{len(rows)} loop nests, 1 valid" in told
    assert main(["evaluate", "mappings", str(path), "--strict", "--out", str(out)]) == 2


@pytest.mark.slow
def test_a_nest_with_an_empty_identifier_is_no_file(tmp_path, capsys):
    good = {**nest(MainMemory={"K": 40, "C": 200_000}), "id": ""}
    path, out = written(tmp_path, {"format": "mappings/1", "sets": [fc(good)]}), tmp_path / "rows.csv"
    assert main(["evaluate", "mappings", str(path), "--float32", "--out", str(out)]) == 0
    assert out.read_text().splitlines()[1].split(",")[1] == "sets[0].mappings[0]"
    assert "1 loop nest, 1 valid\n" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_spoils_no_other(tmp_path, document, capsys):
    good, bad, out = written(tmp_path, document), tmp_path / "bad.json", tmp_path / "rows.jsonl"
    bad.write_text("{")
    assert main(["evaluate", "mappings", str(bad), str(good), "--float32", "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows[0]["file"] == str(bad) and "is not valid JSON" in rows[0]["reason"] and rows[0]["energy_pJ"] is None
    assert all(row["valid"] for row in rows[1:])
    double = evaluate_nests([good])
    assert [row["energy_pJ"] for row in rows[1:]] == pytest.approx([row["energy_pJ"] for row in double], rel=1e-5)
    said = capsys.readouterr().err.splitlines()
    assert said[-1].endswith("valid; 1 file could not be read") and "is not valid JSON" in said[-2]
    assert main(["evaluate", "mappings", str(bad), "--out", str(out)]) == 2
    assert "is not valid JSON" in capsys.readouterr().err
    assert main(["evaluate", "mappings", str(good), "--out", str(tmp_path / "rows.npz")]) == 2
    assert "cannot be written as .npz here; name a file that ends in .csv, .json or .jsonl" in capsys.readouterr().err
    assert main(["evaluate", "mappings", str(good), "--samples", "s.jsonl"]) == 2
    assert "--samples: does not go with files of the format mappings/1" in capsys.readouterr().err
    assert main(["evaluate", "mappings", "--package", "p.yaml", "--timeloop", "x"]) == 2
    assert "--package: is for files of the format mappings/1" in capsys.readouterr().err


def test_a_template_of_ones_own_is_found_by_its_file(tmp_path, document):
    own = next(one for one in document["sets"] if one["template"] == "shidiannao")
    template = template_to_dict(load_templates(("shidiannao",))[0])
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**template, "name": "mine"}))
    path = written(tmp_path, {**document, "sets": [{**own, "template": "mine"}, own]})
    out = tmp_path / "rows.json"
    (tmp_path / "package.yaml").write_text("interface_bandwidth: 0.25\n")
    given = ["--templates", str(tmp_path / "mine.yaml"), "--package", str(tmp_path / "package.yaml")]
    assert main(["evaluate", "mappings", str(path), *given, "--out", str(out)]) == 0
    told = json.loads(out.read_text())
    assert told["format"] == "nest-costs/1"
    half = len(told["nests"]) // 2
    strip = [{k: v for k, v in row.items() if k not in ("id", "template")} for row in told["nests"]]
    assert strip[:half] == strip[half:] and all(row["valid"] for row in strip)
    for row in strip:
        assert row["latency_interface_cycles"] == max(row["latency_cycles"], row["offchip_bytes"] / 0.25)


def test_operands_of_another_width_are_stated_and_costed(tmp_path, application):
    """Sets of both widths in one file; a set that states none has that of its template."""
    named = load_templates(TEMPLATES[1:])
    wide = tuple(with_word_bits(template, 16) for template in named)
    tables = mj.sample_mappings(mj.DesignProblem(application, templates=wide), count=3, seed=3)
    setup = Setup(application, wide, load_technology(), PackageParameters())
    document = mappings_document(setup, tables, {}, named=named)
    assert all(own["word_bits"] == 16 for own in document["sets"])
    assert not any("word_bits" in own for own in mappings_document(setup, tables, {})["sets"])
    narrow = [{key: value for key, value in own.items() if key != "word_bits"} for own in document["sets"]]
    same = [{**own, "word_bits": 8} for own in narrow]
    rows = evaluate_nests([written(tmp_path, {**document, "sets": [*document["sets"], *narrow, *same]})])
    assert all(row["valid"] and row["template"] == "shidiannao" for row in rows)
    third = len(rows) // 3
    nests = [nest for own in document["sets"] for nest in own["mappings"]]
    for row, other, nest in zip(rows[:third], rows[third:], nests, strict=False):
        assert row["energy_pJ"] == pytest.approx(nest["energy_pJ"], rel=2e-5)
        assert row["offchip_bytes"] == nest["offchip_bytes"] == 2 * other["offchip_bytes"]
    assert [row["energy_pJ"] for row in rows[third : 2 * third]] == [row["energy_pJ"] for row in rows[2 * third :]]


@pytest.mark.parametrize(
    ("bits", "told"),
    [
        (0, "sets[0].word_bits: 0 is too small"),
        (2.5, "sets[0].word_bits: 2.5 is not whole"),
        (2**30, "sets[0].word_bits: template shidiannao cannot have operands of 1073741824 bits"),
    ],
)
def test_a_width_that_cannot_be_is_refused(tmp_path, bits, told):
    good = nest(MainMemory={"K": 8, "C": 100_000}, AccReg={"C": 2}, spatial=[["K", 5]])
    (row,) = evaluate_nests([written(tmp_path, {"format": "mappings/1", "sets": [fc(good, word_bits=bits)]})])
    assert not row["valid"] and row["reason"].startswith(told)
