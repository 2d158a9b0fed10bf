"""Many schedules and designs from files: round trips, mixed formats, broken entries, stopping and resuming."""

import csv
import dataclasses
import gzip
import json
import signal
import subprocess
import sys
import time
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io import (
    batch,
    designs_document,
    dump_json,
    find_inputs,
    mappings_document,
    read_design_arrays,
    write_front_arrays,
)
from mohamjax.io.mapped_arrays import mapped_arrays
from mohamjax.schedule import Design, Setup, reevaluate
from mohamjax.schedule.batch import DesignEvaluator
from mohamjax.schedule.design import sized
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

COUNT = 40


@pytest.fixture(scope="module")
def problem():
    stem = Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    side = Layer("side", "conv", "Conv", WorkloadShape(K=4, C=8, P=6, Q=6), predecessors=(0,))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0, 1))
    app = ApplicationModel("toy", (Network("net", (stem, side, head)), Network("two", (stem,))))
    return mj.DesignProblem(app, templates=("simba", "eyeriss"), package=mj.Package(max_tiles=4))


@pytest.fixture(scope="module")
def tables(problem):
    return mj.sample_mappings(problem, count=4, seed=0)


@pytest.fixture(scope="module")
def designs(problem, tables):
    """Random packages and schedules; the layers are listed in a topological order."""
    rng = np.random.default_rng(0)
    layers, tiles = len(problem.application.layers), problem.tiles
    template = rng.integers(-1, 2, (COUNT, tiles), np.int32)
    template[0], template[:, 1] = [-1, 0, -1, -1], 0  # a chiplet that runs everything is always there
    unique = np.asarray(problem.application.unique_of_layer)
    can_run = tables.count[unique[None, :, None], np.maximum(template, 0)[:, None]] > 0
    score = (1 - rng.random((COUNT, layers, tiles))) * (can_run & (template >= 0)[:, None])
    assignment = score.argmax(axis=2)
    kind = np.take_along_axis(template, assignment, axis=1)
    count = tables.count[unique, kind]
    order = np.where(rng.random((COUNT, 1)) < 0.5, [0, 1, 2, 3], [3, 0, 1, 2])
    mapping = (rng.random((COUNT, layers)) * count).astype(np.int32)
    return Design(order=order, assignment=assignment, mapping=mapping, template=template)


@pytest.fixture(scope="module")
def evaluated(problem, tables, designs):
    own = problem.application, problem.templates, problem.technology, problem.package
    return reevaluate(Setup(*own), tables.mapping, tables.count, designs, float32=True)


@pytest.fixture(scope="module")
def document(evaluated):
    return json.loads(dump_json(designs_document(evaluated, "toy")))


@pytest.fixture
def bulk(tmp_path, problem, tables, designs):
    path = tmp_path / "bulk.npz"
    mj.write_designs(path, problem, tables, designs)
    return path


TABLE = {
    "format": "job-table/1",
    "resources": [{"name": "memory", "bandwidth": 4}],
    "accelerators": [{"name": "a", "resources": [0]}, {"name": "b", "resources": [0]}],
    "jobs": [{"name": "one", "duration": [4, 6], "bytes": 4}, {"name": "two", "duration": [4, None], "bytes": 4}],
    "schedules": [
        {"name": "first", "order": [0, 1], "accelerator": [0, 0]},
        {"name": "second", "order": [1, 0], "accelerator": ["b", "a"]},
        {"name": "third", "order": [0, 1], "accelerator": [0, 1]},
    ],
}

CASE = {
    "name": "case",
    "duration": [4, 4],
    "bytes": [16, 16],
    "predecessors": [[], []],
    "accelerator": [0, 1],
    "order": [0, 1],
    "resource_bandwidth": [4],
    "resources_of_accelerator": [[0], [0]],
}


def evaluate(paths, out, **options):
    """Evaluates files in single precision, whose programs the tables have compiled already."""
    return mj.evaluate_files(paths, out, float32=True, **options)


def write(path, value):
    path.write_text(dump_json(value))
    return path


def lines(path, document, key="designs"):
    """Writes a document as JSON lines: what all entries share, the loop nests in two parts, then each entry."""
    head = {name: value for name, value in document.items() if name != key}
    nests = head.get("mappings", [])
    rows = [head | {"mappings": nests[:2]} if nests else head, *([{"mappings": nests[2:]}] if nests else [])]
    path.write_text("".join(map(dump_json, [*rows, *document[key]])))
    return path


def table(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def objectives(rows):
    return np.array([[float(row[name]) for name in ("latency_s", "energy_J", "area_mm2")] for row in rows])


# ---------------------------------------------------------------- round trips


@pytest.mark.slow
def test_every_form_of_the_same_designs_gives_the_same_numbers(tmp_path, document, evaluated, bulk):
    whole = write(tmp_path / "designs.json", document)
    halves = tmp_path / "halves"
    halves.mkdir()
    # The same designs in two files, whose lists of loop nests are in different orders.
    used = document["mappings"]
    turned = [
        d | {"schedule": [s | {"mapping": len(used) - 1 - s["mapping"]} for s in d["schedule"]]}
        for d in document["designs"]
    ]
    write(halves / "a.json", document | {"designs": document["designs"][:15]})
    write(halves / "b.json", document | {"designs": turned[15:], "mappings": used[::-1]})
    write(halves / "bounds.json", {"format": "bounds/1"})
    (halves / "notes.txt").write_text("nothing")
    paths = [whole, lines(tmp_path / "lines.jsonl", document), bulk, halves]
    summary = evaluate(paths, tmp_path / "out.csv")
    assert dataclasses.astuple(summary) == (4 * COUNT, 4 * COUNT, 5, 2, 0, 4 * COUNT, 0)
    rows = table(tmp_path / "out.csv")
    for k in range(4):
        own = rows[k * COUNT : (k + 1) * COUNT]
        np.testing.assert_allclose(objectives(own), evaluated.reports.objectives, rtol=1e-6)
    assert [row["design_id"] for row in rows[:COUNT]] == [str(i) for i in range(COUNT)]
    assert {row["file"] for row in rows[COUNT : 2 * COUNT]} == {str(tmp_path / "lines.jsonl")}
    assert json.loads((tmp_path / "out.csv.journal").read_text().splitlines()[-1])["ended"]


def test_benches_are_built_for_sizes_on_axes_that_are_not_counted_at_every_size(monkeypatch):
    """They are rebuilt only for more nests, or for sizes that are new, or new on another template, on its long axes."""
    told = []

    def build(_setup, _tables, *, given, arrays):
        told.append(given)
        return Mock()

    monkeypatch.setattr("mohamjax.schedule.batch.evaluation_arrays", build)
    nested = Mock()
    nested.return_value.arrays.machine.fanout = np.array([[[1, 24], [24, 24]], [[1, 16], [24, 24]]])  # [T, V, 2]
    monkeypatch.setattr("mohamjax.schedule.batch._NestTables", nested)
    monkeypatch.setattr(DesignEvaluator, "_run", lambda *_: (np.ones((2, 3)), np.ones(2, bool)))
    evaluator = DesignEvaluator(Mock(), 2, float32=True)
    genes = Design(*(np.zeros((2, 3), np.int32) for _ in range(3)), template=np.array([[0, 1], [1, -1]]))

    def fanout(value, tile):
        sizes = np.full((2, 2, 2, 2), -1.0)
        sizes[0, tile, 1] = value
        return dataclasses.replace(sized(genes, 2), fanout=sizes)

    for designs, number, builds in (
        (sized(genes, 2), 5, 1), (fanout(3, 0), 5, 2), (fanout(17, 0), 5, 3), (fanout(17, 0), 5, 3),
        (fanout(17, 1), 5, 4), (fanout(18, 1), 5, 5), (sized(genes, 2), 5, 5), (sized(genes, 2), 6, 6),
    ):  # fmt: skip
        nests = Mock(return_value=(0, 0))
        values, reasons = batch.costs_of(evaluator, ["", "broken", ""], designs, nests, number)
        assert len(told) == builds and reasons == ["", "broken", ""]
        assert [row[0] for row in values] == pytest.approx([1, np.nan, 1], nan_ok=True)
    assert told[3][0].tolist() == [1] and told[1][1].shape == (1, 2, 2) and told[0] is None is told[-1]
    short = np.array([[[1, 16]] * 2] * 2)
    nested.return_value.arrays.machine.fanout = short
    evaluator = DesignEvaluator(Mock(), 2, float32=True)
    for designs in (fanout(3, 0), fanout(16, 1)):
        batch.costs_of(evaluator, ["", ""], designs, Mock(return_value=(0, 0)), 5)
    assert len(told) == 7


def test_bulk_designs_are_read_by_the_door(problem, tables, designs, bulk, evaluated, tmp_path):
    own = mj.read_designs(bulk)
    assert len(own) == COUNT and not own.broken
    np.testing.assert_array_equal(own.designs.design.mapping[:, :4], designs.mapping)
    named = tmp_path / "named.npz"
    mj.write_designs(named, problem, tables, own.designs, names=[f"d{i}" for i in range(COUNT)])
    arrays = read_design_arrays(named, technology=problem.technology)
    assert arrays.names(slice(3, 5)) == ["d3", "d4"] and "capacity" in arrays.arrays
    assert isinstance(arrays.arrays["order"], np.memmap)
    evaluate(named, tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["latency_s"], evaluated.reports.objectives[:, 0], rtol=1e-6)
        assert out["valid"].all() and out["design_id"][7] == "d7" and np.isnan(out["makespan"]).all()
    assert sorted(path.name for path in tmp_path.glob("out*")) == ["out.npz", "out.npz.journal"]


def test_a_front_in_bulk_evaluates_as_it_did(tmp_path, evaluated):
    write_front_arrays(tmp_path / "designs.npz", evaluated, "toy")
    evaluate(tmp_path, tmp_path / "out.csv")
    np.testing.assert_allclose(objectives(table(tmp_path / "out.csv")), evaluated.reports.objectives, rtol=1e-6)


def test_single_file_commands_take_bulk_designs_as_well(bulk, tmp_path, capsys):
    assert main(["evaluate", "designs", str(bulk), "--float32", "--out", str(tmp_path / "all.csv")]) == 0
    assert len(table(tmp_path / "all.csv")) == COUNT
    assert f"{COUNT} rows, {COUNT} valid" in capsys.readouterr().err


# ---------------------------------------------------------------- broken entries


def test_broken_entries_are_told_and_the_others_go_on(tmp_path, document, bulk, evaluated, capsys):
    rows = json.loads(json.dumps(document["designs"]))
    rows[5]["schedule"][0]["chiplet"] = 99
    rows[6]["schedule"] = rows[6]["schedule"][1:]
    rows[7]["chiplets"][0]["levels"][0]["capacity_words"] = 0
    path = lines(tmp_path / "lines.jsonl", document | {"designs": rows})
    text = path.read_text().splitlines()
    text[2 + 20] = text[2 + 20][:-9]
    path.write_text("\n".join(text))
    missing = tmp_path / "missing.json"
    out = tmp_path / "out.csv"
    assert main(["evaluate", "designs", str(path), str(missing), str(bulk), "--float32", "--out", str(out)]) == 0
    told = capsys.readouterr().err
    found = table(out)
    bad = {5: "chiplet 99", 6: "", 7: "words and has 0", 20: "line 23"}
    for k, row in enumerate(found[:COUNT]):
        assert row["entry"] == str(k) and row["valid"] == str(int(k not in bad))
        if k in bad:
            assert bad[k] in row["reason"] and f"entry {k}" in told and row["reason"] and not row["latency_s"]
    good = [k for k in range(COUNT) if k not in bad]
    np.testing.assert_allclose(objectives([found[k] for k in good]), evaluated.reports.objectives[good], rtol=1e-6)
    assert found[COUNT]["file"] == str(missing) and found[COUNT]["entry"] == "" and "missing.json" in told
    assert all(row["valid"] == "1" for row in found[COUNT + 1 :])
    command = ["evaluate", "designs", str(path), str(bulk), "--strict", "--float32", "--out", str(out)]
    assert main(command) == 2
    assert main(["evaluate", "schedules", str(missing), str(missing), "--float32", "--out", str(out)]) == 2


def test_a_link_that_leads_to_itself_hides_no_file(tmp_path, document):
    for name in ("b.json", "z.json"):
        write(tmp_path / name, document)
    (tmp_path / "loop").symlink_to("loop")
    summary = evaluate([tmp_path], tmp_path / "out.csv")
    assert (summary.files, summary.valid) == (2, 2 * COUNT)


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("kind", ["designs", "schedules"])
def test_one_file_ends_with_the_exit_code_of_several(tmp_path, document, kind, broken):
    rows = json.loads(json.dumps(document["designs"][:2]))
    for row in rows[:broken]:
        row["schedule"][0]["chiplet"] = 99
    one = write(tmp_path / "one.json", document | {"designs": rows})
    other = write(tmp_path / "other.json", document | {"designs": rows})
    for more, expected in (([], 0), (["--strict"], 0 if not broken else 2)):
        for files in ([one], [one, other]):
            out = tmp_path / "out.csv"
            assert main(["evaluate", kind, *map(str, files), "--float32", "--out", str(out), *more]) == expected
            assert out.exists()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("order", 0, "does not name every layer once"),
        ("assignment", 3, "holds no chiplet"),
        ("mapping", 99, "no mapping 99"),
        ("template", 7, "template 7"),
    ],
)
def test_genes_in_bulk_are_checked(tmp_path, problem, tables, designs, name, value, told):
    changed = jax.tree.map(np.array, designs)
    lone = np.flatnonzero((changed.template >= 0).sum(axis=1) == 1)[0]  # a design on one tile
    if name == "assignment":
        value = int(np.flatnonzero(changed.template[lone] < 0)[0])
    getattr(changed, name)[lone, :2] = value
    if name == "order":
        getattr(changed, name)[lone, :2] = 0
    path = tmp_path / "bad.npz"
    mj.write_designs(path, problem, tables, changed)
    evaluate(path, tmp_path / "out.csv")
    rows = table(tmp_path / "out.csv")
    assert [i for i, row in enumerate(rows) if row["valid"] == "0"] == [lone]
    assert told in rows[lone]["reason"]


@pytest.mark.parametrize(
    "name, value, told",
    [
        ("capacity", np.inf, "has inf words, the template allows"),
        ("capacity", 1e7, "has 1e+07 words, the template allows"),
        ("capacity", -5.0, "has -5 words"),
        ("capacity", np.nan, "has nan words"),
        ("fanout", 1000.0, "has fanout [1000.0, 1000.0], the template allows"),
        ("fanout", 1.5, "has fanout [1.5, 1.5]"),
    ],
)
def test_sizes_in_arrays_are_checked_as_in_documents(problem, bulk, tmp_path, name, value, told):
    arrays = {name: np.array(array) for name, array in mapped_arrays(bulk).items()}
    levels = max(len(template.levels) for template in problem.templates)
    tile = int(np.flatnonzero(arrays["template"][3] >= 0)[0])
    tiles = arrays["template"].shape
    sizes = {"capacity": np.full((*tiles, levels), -1.0), "fanout": np.full((*tiles, levels, 2), -1.0)}
    sizes[name][3, tile, 1] = value
    np.savez(tmp_path / "own.npz", **(arrays | sizes))
    own = read_design_arrays(tmp_path / "own.npz", technology=problem.technology)
    faults = own.faults(own.block(slice(None)))
    assert f"tile {tile}: level" in faults[3] and told in faults[3]
    assert not any(fault for k, fault in enumerate(faults) if k != 3)


@pytest.mark.parametrize("name", ["mapping", "assignment", "template", "order"])
def test_numbers_beyond_int32_do_not_wrap(problem, bulk, tmp_path, name):
    arrays = {name: np.array(array) for name, array in mapped_arrays(bulk).items()}
    arrays[name] = arrays[name].astype(np.int64) + 2**32
    np.savez(tmp_path / "wide.npz", **arrays)
    own = read_design_arrays(tmp_path / "wide.npz", technology=problem.technology)
    assert all(own.faults(own.block(slice(None))))


def test_damaged_arrays_are_refused(tmp_path, bulk, problem):
    arrays = dict(mapped_arrays(bulk))

    def named(old, new):
        return np.asarray([new if name == old else name for name in (f"d{i}" for i in range(len(arrays["order"])))])

    for change, told in (
        ({"order": arrays["order"][:, :-1]}, "shape"),
        ({"count": arrays["count"] + 50}, "loop nests"),
        ({"count": arrays["count"].astype(np.int64) + 2**32}, "loop nests"),
        ({"format": np.asarray("other/1")}, "unknown format"),
        ({"mapping": arrays["mapping"].astype(float)}, "float64"),
        ({"names": np.asarray(["a"] * len(arrays["order"]))}, "names: a comes"),
        ({"names": named("d3", "two\nlines")}, r"names\[3\]: is no short line"),
        ({"names": named("d3", "\ud800")}, r"names\[3\]: is no short line"),
        ({"names": named("d5", "x" * 201)}, r"names\[5\]: is no short line"),
        ({"names": named("d0", "").astype(">U300")}, r"names\[0\]: is no short line"),
        (
            {"names": (named("d2", "").view("<u4") + 2**30).view("<U2")[: len(arrays["order"])]},
            r"names\[0\]: is no short",
        ),
    ):
        np.savez(tmp_path / "bad.npz", **(arrays | change))
        with pytest.raises(InputError, match=told):
            read_design_arrays(tmp_path / "bad.npz", technology=problem.technology)
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    (tmp_path / "cut.npz").write_bytes(bulk.read_bytes()[:-400])
    for name, told in (("packed", "compressed"), ("cut", "npz")):
        with pytest.raises(InputError, match=told):
            read_design_arrays(tmp_path / f"{name}.npz", technology=problem.technology)


def test_mixed_formats_go_into_one_table(tmp_path, document):
    jobs = lines(tmp_path / "jobs.jsonl", TABLE, "schedules")
    cases = write(tmp_path / "cases.json", {"format": "fluid-schedule/1", "cases": [CASE, {"name": "bad"}]})
    design = write(tmp_path / "one.json", document | {"designs": document["designs"][:1]})
    summary = evaluate([jobs, cases, design], tmp_path / "out.csv")
    assert (summary.rows, summary.valid) == (6, 4)
    rows = table(tmp_path / "out.csv")
    assert [row["valid"] for row in rows] == list("110101")
    assert [row["makespan"] for row in rows] == ["8.0", "6.0", "", "8.0", "", ""]
    assert rows[0]["latency_s"] == repr(8 * 1e-9) and "cannot run on 'b'" in rows[2]["reason"]


def test_a_table_as_json_lines_says_what_the_one_in_csv_says(tmp_path, document):
    files = [lines(tmp_path / "jobs.jsonl", TABLE, "schedules"), write(tmp_path / "one.json", document)]
    command = ["evaluate", "designs", *map(str, files), "--float32", "--out"]
    for name in ("out.csv", "out.jsonl"):
        assert main([*command, str(tmp_path / name)]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows] == table(tmp_path / "out.csv")
    assert isinstance(rows[0]["makespan"], float) and rows[0]["valid"] == 1 and rows[0]["area_mm2"] is None


@pytest.mark.parametrize(
    ("kind", "inputs", "name", "told"),
    [
        (
            "designs",
            "table",
            "x.json",
            "cannot be written as .json here; name a file that ends in .csv, .jsonl or .npz",
        ),
        ("designs", "one", "x.csv.gz", "cannot be written as .gz here; name a file that ends in .csv, .json or .jsonl"),
        ("schedules", "one", "x.csv.gz", "ends in .json, .csv or .jsonl"),
    ],
)
def test_a_result_is_refused_that_its_name_says_and_nobody_writes(tmp_path, document, capsys, kind, inputs, name, told):
    one = str(write(tmp_path / "one.json", document))
    command = ["evaluate", kind, one, *([one] if inputs == "table" else []), "--out", str(tmp_path / name)]
    assert main(command) == 2 and told in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("kind", ["designs", "schedules"])
def test_the_name_of_a_result_says_how_it_is_written(tmp_path, document, kind):
    rows = json.loads(json.dumps(document["designs"][:3]))
    rows[1]["schedule"][0]["chiplet"] = 99
    one, outs = write(tmp_path / "one.json", document | {"designs": rows}), {}
    for ending in ("csv", "json", "jsonl", "txt"):
        out = tmp_path / f"out.{ending}"
        assert main(["evaluate", kind, str(one), "--float32", "--out", str(out)]) == 0
        outs[ending] = out.read_text()
    told = json.loads(outs["json"])
    assert told["format"] == "schedule/1" and [row["valid"] for row in told["schedules"]] == [True, False, True]
    assert [json.loads(line) for line in outs["jsonl"].splitlines()] == told["schedules"]
    found = list(csv.DictReader(outs["csv"].splitlines()))
    for row, own in zip(found, told["schedules"], strict=True):
        assert row["design_id"] == str(own["name"]) and row["reason"] == own["reason"]
        assert row["latency_s"] == ("" if own["latency_s"] is None else repr(own["latency_s"]))
    assert outs["txt"] == outs["csv" if kind == "designs" else "json"]  # the default: the name tells no format


@pytest.mark.parametrize("kind", ["designs", "schedules"])
def test_an_answer_beside_its_input_is_not_evaluated(tmp_path, document, capsys, kind):
    write(tmp_path / "one.json", document | {"designs": document["designs"][:2]})
    answer, out = tmp_path / "told.json", tmp_path / "rows.csv"
    assert main(["evaluate", kind, str(tmp_path / "one.json"), "--float32", "--out", str(answer)]) == 0
    capsys.readouterr()
    assert main(["evaluate", kind, str(tmp_path), "--float32", "--out", str(out)]) == 0
    assert [row["valid"] for row in table(out)] == ["1", "1"]
    assert f"{answer}: is the answer of an evaluation, so it has no row" in capsys.readouterr().err
    assert main(["evaluate", kind, str(answer)]) == 2
    told = "is the answer of an evaluation, and holds no schedules to evaluate; name the file that was"
    assert told in capsys.readouterr().err
    with pytest.raises(InputError, match="is the answer of an evaluation, and holds"):
        mj.read_designs(answer)


def test_a_table_that_another_evaluation_replaced_is_not_resumed(tmp_path, document):
    """What stands in the file then is of one file, and in no block order."""
    one, out = write(tmp_path / "one.json", document | {"designs": document["designs"][:2]}), tmp_path / "out.csv"
    jobs = write(tmp_path / "jobs.json", TABLE)
    both = ["evaluate", "schedules", str(one), str(jobs), "--float32", "--out", str(out)]
    for kind, other in (("designs", one), ("schedules", jobs)):
        assert main(both) == 0 and len(table(out)) == 5
        assert main(["evaluate", kind, str(other), "--float32", "--out", str(out)]) == 0
        assert not (tmp_path / "out.csv.journal").exists()
        assert main([*both, "--resume"]) == 2
    (tmp_path / "out.csv.journal").write_text("of the user")
    assert main(["evaluate", "schedules", str(jobs), "--out", str(out)]) == 0
    assert (tmp_path / "out.csv.journal").read_text() == "of the user"
    (tmp_path / "out.csv.journal").write_bytes(b"\xff of the user")
    assert main(["evaluate", "schedules", str(jobs), "--out", str(out)]) == 0


def test_files_without_entries_are_no_error_together_as_none_is_alone(tmp_path, document, capsys):
    files = [str(write(tmp_path / f"{name}.json", document | {"designs": []})) for name in "ab"]
    assert main(["evaluate", "designs", files[0]]) == 0
    assert main(["evaluate", "designs", *files]) == 0
    assert "b.json: holds no designs or schedules, so it has no row" in capsys.readouterr().err
    (tmp_path / "b.json").write_text("{")
    assert main(["evaluate", "designs", *files]) == 0
    assert main(["evaluate", "designs", files[1], files[1]]) == 2


def test_schedules_of_jobs_as_csv_and_as_lines(tmp_path, capsys):
    one, out = write(tmp_path / "jobs.json", TABLE), tmp_path / "out.csv"
    assert main(["evaluate", "schedules", str(one), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.err.count("warning:") == 1 and '"broken": 1' in said.out + said.err
    assert list(table(out)[0]) == ["name", "makespan", "energy_J", "reason"]
    assert [row["makespan"] for row in table(out)] == ["8.0", "6.0", ""]
    assert main(["evaluate", "schedules", str(one), "--timelines", "--out", str(out)]) == 2
    assert "--timelines: is a list per schedule, which CSV has no place for" in capsys.readouterr().err
    assert main(["evaluate", "schedules", str(one), "--timelines", "--out", str(tmp_path / "out.jsonl")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 3 and len(rows[0]["start"]) == len(TABLE["jobs"])
    none = write(tmp_path / "none.json", TABLE | {"schedules": []})
    for ending, empty in (("csv", "name,makespan\n"), ("jsonl", "")):
        assert main(["evaluate", "schedules", str(none), "--out", str(tmp_path / f"none.{ending}")]) == 0
        assert (tmp_path / f"none.{ending}").read_text() == empty


# ---------------------------------------------------------------- one file of another form


@pytest.mark.slow
def test_what_one_json_file_is_asked_json_lines_and_results_folders_are_asked_too(tmp_path, document, bulk, capsys):
    few = document | {"designs": [*document["designs"][:2], {"chiplets": 3}]}
    one, folder = write(tmp_path / "one.json", few), tmp_path / "results"
    folder.mkdir()
    (folder / "designs.json").write_bytes(one.read_bytes())
    (folder / "other.json").write_bytes(one.read_bytes())
    packed = lines(tmp_path / "lines.jsonl", few)
    with open(packed, "a") as stream:
        stream.write('{"broken": ')
    told = []
    for path in (one, packed, folder):
        assert main(["evaluate", "designs", str(path), "--float32", "--explain", "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1] == told[2]
    answers = []
    for path in (one, packed, folder):
        out = tmp_path / "vary.csv"
        command = ["--float32", "--vary", "nop.interface_bandwidth=2,4", "--out", str(out)]
        assert main(["evaluate", "designs", str(path), *command]) == 0
        answers.append(out.read_text())
    assert answers[0] == answers[1] == answers[2]
    capsys.readouterr()
    assert main(["evaluate", "designs", str(packed), str(one), "--explain"]) == 2
    assert "--explain: is for one file; name a single JSON, JSON lines or npz file" in capsys.readouterr().err
    assert main(["evaluate", "designs", str(bulk), "--float32", "--explain", "0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["designs"]) == 1


def test_only_the_end_of_a_name_tells_json_lines(tmp_path):
    path = tmp_path / "jobs.jsonl.json"
    path.write_text(json.dumps(TABLE, indent=1))
    assert evaluate([path], tmp_path / "out.csv").rows == len(TABLE["schedules"])


def test_timelines_of_json_lines_are_those_of_the_json_file(tmp_path, document):
    sound = TABLE | {"schedules": TABLE["schedules"][:2]}
    jobs = write(tmp_path / "jobs.json", sound), lines(tmp_path / "jobs.jsonl", sound, "schedules")
    few = document | {"designs": document["designs"][:2]}
    designs = write(tmp_path / "few.json", few), lines(tmp_path / "few.jsonl", few)
    for first, second in (jobs, designs):
        outs = []
        for path in (first, second):
            out = tmp_path / "out.json"
            assert main(["evaluate", "schedules", str(path), "--timelines", "--float32", "--out", str(out)]) == 0
            outs.append(json.loads(out.read_text()))
        assert outs[0] == outs[1] and len(outs[0]["schedules"]) > 1
    np.testing.assert_array_equal(
        mj.read_schedules(jobs[0]).arguments["order"], mj.read_schedules(jobs[1]).arguments["order"]
    )
    both = tmp_path / "both.jsonl"
    both.write_text(jobs[1].read_text() + jobs[1].read_text())
    with pytest.raises(InputError, match="line 4: begins a second document; split the file"):
        mj.read_schedules(both)


# ---------------------------------------------------------------- stopping and going on


@pytest.mark.parametrize("suffix", ["csv", "npz", "jsonl"])
def test_a_stopped_evaluation_goes_on_and_equals_the_whole(tmp_path, monkeypatch, document, bulk, suffix):
    monkeypatch.setattr(batch, "ROWS", 16)
    paths = [lines(tmp_path / "lines.jsonl", document), bulk, write(tmp_path / "designs.json", document)]
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"out.{suffix}"
    assert evaluate(paths, whole).rows == 3 * COUNT

    class Stop(Exception):
        pass

    def stop(progress):
        if progress.rows >= 56:
            raise Stop

    with pytest.raises(Stop):
        evaluate(paths, out, progress=stop)
    kept = tmp_path / (f"out.{suffix}" if suffix != "npz" else "out.npz.partial.csv")
    if suffix == "npz":
        with np.load(out) as arrays:  # stopped in order: the rows so far are there as arrays
            assert len(arrays["entry"]) == 56
    # A process that is killed leaves half a row, and half a line of its journal.
    with open(kept, "a") as stream:
        stream.write("lines.jsonl,47,4")
    with open(tmp_path / f"out.{suffix}.journal", "a") as stream:
        stream.write('{"rows": 7')
    with pytest.raises(InputError, match="other inputs"):
        evaluate(paths[:2], out, resume=True)
    summary = evaluate(paths, out, resume=True)
    assert summary.rows == summary.valid == 3 * COUNT and summary.resumed == 56
    if suffix != "npz":
        assert out.read_text() == whole.read_text()
    else:
        with np.load(out) as one, np.load(whole) as other:
            assert all(np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f") for name in other)
    again = evaluate(paths, out, resume=True)  # it is complete: nothing is left to do
    assert again.rows == again.valid == again.resumed == 3 * COUNT
    with pytest.raises(InputError, match="other inputs"):
        evaluate(paths[:2], out, resume=True)
    (tmp_path / "other.csv").write_text("what\n1\n")
    with pytest.raises(InputError, match="no journal beside it"):
        evaluate(paths, tmp_path / "other.csv", resume=True)


def orders(count):
    """A table and many schedules over it, as JSON lines; every seventh is broken."""
    schedules = [
        {"name": f"s{i}", "order": [i % 2, 1 - i % 2], "accelerator": [i % 2, 0 if i % 7 else 9]} for i in range(count)
    ]
    return TABLE | {"schedules": schedules}


KILLED = """
import io, os, signal, sys, time
from mohamjax.cli import main
from mohamjax.io import batch, result_stream
way, *words = sys.argv[1:]
batch.ROWS = 64
write = result_stream.ResultStream.write

def half_a_block(stream, rows, following):
    if stream.rows >= 640:
        table, stream._stream, stream._mark = stream._stream, io.StringIO(), lambda: None
        write(stream, rows, following)
        text = stream._stream.getvalue()
        table.write(text[: len(text) // 2])
        table.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    write(stream, rows, following)

def slowly(stream, rows, following):
    write(stream, rows, following)
    time.sleep(0.05)

result_stream.ResultStream.write = half_a_block if way == "in a block" else slowly
sys.exit(main(words))
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["in a block", "from outside"])
def test_a_killed_command_is_resumed_to_the_same_bytes(tmp_path, way):
    """kill -9 of a process of its own, while it writes a block or at an arbitrary moment."""
    path, out, whole = (
        lines(tmp_path / "jobs.jsonl", orders(1200), "schedules"),
        tmp_path / "out.csv",
        tmp_path / "whole.csv",
    )
    words = ["evaluate", "schedules", str(path), "--float32"]
    assert main([*words, "--out", str(whole)]) == 0
    assert len(table(whole)) == 1200 and sum(int(row["valid"]) for row in table(whole)) == 1200 - len(range(0, 1200, 7))
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, way, *words, "--out", str(out)], stderr=subprocess.DEVNULL
    )
    journal = tmp_path / "out.csv.journal"
    while way == "from outside" and not (journal.exists() and journal.read_text().count("\n") > 4):
        assert process.poll() is None
        time.sleep(0.002)
    if way == "from outside":
        process.kill()
    assert process.wait(120) == -signal.SIGKILL
    written, text = out.read_bytes(), whole.read_bytes()
    last = json.loads(journal.read_text().split("\n")[:-1][-1])
    assert text.startswith(written) and 64 <= last["rows"] < 1200 and "ended" not in last
    assert text[: last["bytes"]].count(b"\n") == last["rows"] + 1 and text[last["bytes"] - 1 : last["bytes"]] == b"\n"
    assert way == "from outside" or (last["rows"] == 640 and last["bytes"] < len(written) and written[-1:] != b"\n")
    summary = evaluate([path], out, resume=True)
    assert summary.rows == 1200 and summary.resumed == last["rows"]
    assert out.read_bytes() == text


def test_a_broken_document_line_spoils_what_follows_it_alone(tmp_path, document):
    path = lines(tmp_path / "lines.jsonl", document)
    rows = path.read_text().splitlines()
    (tmp_path / "more.jsonl").write_text("\n".join([*rows, '{"format": "designs/9"}', rows[-1], *rows]) + "\n")
    summary = evaluate([tmp_path / "more.jsonl"], tmp_path / "out.csv")
    assert summary.valid == COUNT
    reasons = [row["reason"] for row in table(tmp_path / "out.csv") if row["valid"] == "0"]
    assert "unknown format" in reasons[0] and "follows the document of line" in reasons[1]


def test_mappings_of_the_mapper_become_those_of_a_schedule(tmp_path, problem, tables, document):
    """As the page of formats says, each mapping takes the template of its set."""
    own = Setup(problem.application, problem.templates, problem.technology, problem.package)
    sets = json.loads(json.dumps(mappings_document(own, tables, {})))["sets"]
    chosen = [one for one in sets if one["template"] == "simba"]
    mappings = [
        {"template": one["template"], **min(one["mappings"], key=lambda nest: nest["latency_interface_cycles"])}
        for one in chosen
    ]
    app = problem.application
    names = [f"{app.networks[n].name}/{layer.name}" for layer, n in zip(app.layers, app.network_of_layer, strict=True)]
    first = {one["layer"]: k for k, one in enumerate(chosen)}
    of_unique = {u: first[name] for name, u in zip(names, app.unique_of_layer, strict=True) if name in first}
    steps = [
        {"layer": name, "chiplet": 0, "mapping": of_unique[u]}
        for name, u in zip(names, app.unique_of_layer, strict=True)
    ]
    design = {"design_id": "mine", "chiplets": [{"template": "simba"}], "schedule": steps}
    path = write(tmp_path / "mine.json", document | {"mappings": mappings, "designs": [design]})
    assert evaluate([path], tmp_path / "out.csv").valid == 1


def test_other_files_of_a_folder_are_passed_over_and_counted(tmp_path, document):
    folder = tmp_path / "folder"
    for name in ("b/designs.json", "a/more/designs.json", ".git/designs.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, document)
    others = {
        "package.json": '{"name": "web"}',
        "a/other.json": '{"format": "other/1"}',
        "a/notes.txt": "",
        "b/list.json": "[1, 2]",
    }
    for name, content in others.items():
        (folder / name).write_text(content)
    sample = b'{"id": "one", "arch": "toy", "layer": {}, "mapping": {"levels": []}}\n'
    (folder / "samples.jsonl").write_bytes(sample * 100)
    (folder / "a/samples.jsonl.gz").write_bytes(gzip.compress(sample * 100, mtime=0))
    head = (dump_json({"format": "schedule/1"}) + sample.decode()).encode()
    (folder / "a/lines.jsonl.gz").write_bytes(gzip.compress(head, mtime=0))
    (folder / "cut.json").write_text("")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(head, mtime=0)[:12])
    inputs = find_inputs(folder)
    assert [str(path.relative_to(folder)) for path in inputs.files] == [
        "a/lines.jsonl.gz", "a/more/designs.json", "b/designs.json", "cut.json", "cut.jsonl.gz",
    ]  # fmt: skip
    assert inputs.passed_over == len(others) + 2
    summary = evaluate(inputs, tmp_path / "out.csv")
    assert (summary.valid, summary.rows, summary.passed_over) == (2 * COUNT, 2 * COUNT + 3, len(others) + 2)


def test_a_file_that_is_named_twice_is_told_once(tmp_path, document, capsys):
    for name in ("a.json", "b.json"):
        write(tmp_path / name, document | {"designs": document["designs"][:1]})
    named = [str(tmp_path), str(tmp_path / "a.json"), str(tmp_path / "." / "b.json")]
    assert main(["evaluate", "designs", *named, "--float32", "--out", str(tmp_path / "out.csv")]) == 0
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "warning" in line)
    assert "a.json comes twice, and 1 other file: the entries stand twice in the table" in told
    assert len(table(tmp_path / "out.csv")) == 4


def test_a_long_look_at_folders_is_told(tmp_path, document, monkeypatch, capsys):
    def slow(paths):
        time.sleep(3.2)
        return find_inputs(paths)

    monkeypatch.setattr("mohamjax.io.find_inputs", slow)
    write(tmp_path / "designs.json", document)
    assert main(["evaluate", "designs", str(tmp_path), "--float32", "--out", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().err.splitlines()[0] == "looking for files to evaluate"


def test_files_of_one_problem_read_it_once_and_tell_how_far_they_are(tmp_path, document, evaluated, monkeypatch):
    folder, headers, told = tmp_path / "many", [], []
    folder.mkdir()
    for i, design in enumerate(document["designs"][:5]):
        write(folder / f"{i}.json", document | {"designs": [design]})
    wide = document["package"] | {"interface_bytes_per_cycle": 64}
    write(folder / "wide.json", document | {"package": wide, "designs": document["designs"][:1]})
    write(folder / "z.json", document | {"designs": 3})
    read = batch.read_header
    monkeypatch.setattr(
        batch, "read_header", lambda *given, **more: headers.append(given[1].name) or read(*given, **more)
    )
    monkeypatch.setattr(batch, "PAUSE_S", 0.0)
    summary = evaluate([folder], tmp_path / "out.csv", progress=told.append)
    assert (summary.rows, summary.valid) == (7, 6) and headers == ["0.json", "wide.json", "z.json"]
    rows = table(tmp_path / "out.csv")
    np.testing.assert_allclose(objectives(rows[:5]), evaluated.reports.objectives[:5], rtol=1e-6)
    assert float(rows[5]["latency_s"]) < float(rows[0]["latency_s"]) and "designs" in rows[6]["reason"]
    assert [(one.rows, one.read) for one in told[:5]] == [(0, read) for read in range(1, 6)]
    assert told[-1].rows == 7 and told[-1].share == 1


def test_damaged_arrays_of_a_folder_are_told(tmp_path, bulk, document):
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder / "designs.json", document)
    content = bytearray(bulk.read_bytes())
    (folder / "cut.npz").write_bytes(content[:1000])
    content[content.index(b"PK\x01\x02") + 6] = 99  # needs a later version of ZIP
    (folder / "later.npz").write_bytes(content)
    summary = evaluate([folder], tmp_path / "out.csv")
    assert summary.valid == COUNT and summary.rows == COUNT + 2 and not summary.passed_over
