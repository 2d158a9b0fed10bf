"""Files of architectures and samples: reading, refusal of bad ones, and output."""

import copy
import gzip
import json

import fuzz_documents
import numpy as np
import pytest
from conftest import reference

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.samples import evaluate_samples, read_architectures, read_samples
from mohamjax.mapping.predict import chunk_size
from mohamjax.workload import DIMS


@pytest.fixture(scope="module")
def architectures():
    return read_architectures(reference("timeloop/architectures.json"))


@pytest.fixture
def rows():
    lines = reference("timeloop/samples_smoke.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_architectures_become_padded_machines(architectures):
    levels = {a.machine.level_mask.shape[0] for a in architectures.values()}
    assert levels == {6}
    simba, shi = architectures["simba"], architectures["shidiannao"]
    assert simba.mac_name == "LMAC"
    assert simba.machine.mac_mesh.tolist() == [512, 8]
    assert simba.machine.capacity.tolist()[:2] == [1, 128]
    assert np.isinf(simba.machine.capacity[5])
    assert shi.machine.level_mask.tolist() == [True] * 5 + [False]
    assert np.isinf(shi.machine.capacity[5])
    assert not shi.machine.keep[5].any()
    assert shi.machine.reduces.tolist() == [True, True, True, True, False, True]


def test_depthwise_channels_are_groups(architectures, tmp_path, rows):
    row = next(r for r in rows if r["layer"]["shape"] == "dwconv")
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    (sample,) = read_samples(tmp_path / "s.jsonl", architectures)
    g, c = DIMS.index("G"), DIMS.index("C")
    assert row["layer"]["C"] == sample.shape.G
    assert sample.shape.C == sample.shape.K == 1
    mapping = sample.mapping
    assert mapping.temporal[:, g].prod() * mapping.spatial[:, :, g].prod() == sample.shape.G
    for i, level in enumerate(row["mapping"]["levels"]):
        assert mapping.temporal[i, g] == level["temporal"]["factors"].get("C", 1)
        given = ["G" if d == "C" else d for d in level["temporal"]["perm"]]
        assert [DIMS[d] for d in mapping.order[i]][: len(given)] == given
        assert sorted(mapping.order[i]) == list(range(8))
    assert np.all(mapping.temporal[:, c] == 1)


def spoil(row, path, value):
    *keys, last = path
    target = row
    for key in keys:
        target = target[key]
    if value is KeyError:
        del target[last]
    else:
        target[last] = value
    return row


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["arch"], "tpu", "'tpu' is unknown; use one of eyeriss"),
        (["arch"], KeyError, "arch: the key is missing"),
        (["layer", "shape"], "pool", "'pool' is unknown; use conv or dwconv"),
        (["layer", "P"], 0, "0 is no positive integer"),
        (["layer", "P"], 2.5, "2.5 is no positive integer"),
        (["layer", "wstride"], "2", "'2' is no positive integer"),
        (["layer", "K"], KeyError, "the key is missing"),
        (["layer"], [], "is no JSON object"),
        (["layer"], KeyError, "layer: the key is missing"),
        (["layer", "wstrid"], 2, "layer, wstrid: unknown key 'wstrid'; did you mean 'wstride'?"),
        (["mapping"], KeyError, "mapping: the key is missing"),
        (["mapping", "levels"], [], "mapping.levels: has 0 entries; list all levels"),
        (["mapping", "levels", 0, "name"], "L0", "level is called 'L0'"),
        (["mapping", "levels", 0, "temporal", "factors"], {"Z": 2}, "factors.Z: unknown key 'Z'"),
        (["mapping", "levels", 0, "temporal", "factors"], {"K": 0}, "factors.K: 0 is too small"),
        (["mapping", "levels", 0, "temporal", "perm"], "KK", "names K twice"),
        (["mapping", "levels", 0, "spatial", "X"], [["K"]], "spatial.X[0]: has 1 entries"),
        (["mapping", "levels", 0, "tempral"], {}, "unknown key 'tempral'; did you mean 'temporal'"),
        (["mapping", "levels", 0, "temporal", "order"], "K", "temporal.order: unknown key"),
        (["mapping", "levels", 0, "spatial", "Z"], [], "spatial.Z: unknown key"),
        (["mapping", "levels", 0, "keep"], [1, {}, 1], "keep[1]: expected"),
        (["mapping", "levels", 0, "keep"], [float("nan"), 1, 1], "keep[0]: expected"),
        (["mapping", "levels", 0, "temporal", "factors"], {"K": 2, "P": 7}, "multiply to"),
    ],
)
def test_a_bad_sample_is_refused_by_line(tmp_path, architectures, rows, path, value, says):
    good = next(r for r in rows if r["arch"] == "eyeriss" and r["layer"]["shape"] == "conv")
    bad = spoil(json.loads(json.dumps(good)), path, value)
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps(good) + "\n\n" + json.dumps(bad) + "\n")
    with pytest.raises(InputError) as error:
        list(read_samples(file, architectures))
    text = str(error.value)
    assert text.startswith(f"{file}: line 3")
    assert says in text
    assert "\n" not in text


def test_a_residual_factor_is_refused_not_evaluated(tmp_path, architectures, rows):
    row = next(r for r in rows if r["arch"] == "simba" and r["layer"]["shape"] == "dwconv")
    row["layer"]["C"] += 1
    file = tmp_path / "s.jsonl"
    file.write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"line 1, mapping: the factors of C multiply to \d+, its bound is \d+; make"):
        list(read_samples(file, architectures))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no sample"),
        (b"{", "line 1, column 2: is not valid JSON"),
        (b"[" * 100_000, "line 1: is nested too deeply"),
        (b"3\n", "line 1: is no JSON object"),
        (b'{"id": ' + b"9" * 5000 + b"}\n", "line 1: the integer 9999999999... has 5,000 digits"),
        (b'\n{"id": 1, "id": 2}\n', "line 2: the key 'id' is written twice"),
        (gzip.compress(b"\xef\xbb\xbf3\n", mtime=0), "line 1: is no JSON object"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"\x1f\x8b\x08\x00garbage", "is a broken gzip file"),
        # Without the time of day in its header: all processes of a run must collect the same tests.
        (gzip.compress(b"{}" * 1000, mtime=0)[:-9], "is a broken gzip file"),
        (None, "no such file"),
    ],
)
def test_an_unreadable_sample_file_is_one_line(tmp_path, content, says):
    file = tmp_path / "s.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError) as error:
        evaluate_samples(reference("timeloop/architectures.json"), file, tmp_path / "out")
    assert says in str(error.value)
    assert str(file) in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (["architectures"], [], "is no list of architectures"),
        (["architectures", 1, "name"], "eyeriss", "the name comes twice"),
        (["architectures", 0, "levels"], [], "is no list of levels"),
        (["architectures", 0, "levels", 1, "meshX"], -1, "eyeriss, level 1, meshX: -1 is too small"),
        (["architectures", 0, "levels", 1, "meshX"], None, "None is no number"),
        (["architectures", 0, "levels", 1, "keep_default"], ["Weight"], "is no list of data spaces"),
        (["architectures", 0, "levels", 1, "name"], "psum_spad", "two levels share a name"),
        (["architectures", 0, "mac"], KeyError, "the key is missing"),
        (["architectures", 0, "mac", "energy_pJ"], "cheap", "'cheap' is no number"),
        (["architectures", 0, "mac", "energy_pJ"], 10**400, "the integer 1000000000... has 401 digits"),
        (["architectures", 0, "levels", 0, "read_bw"], 0, "0 is too small; give a positive number"),
        (["architectures", 0, "mac", "name"], "\ud800", "a lone surrogate"),
    ],
)
def test_a_bad_architecture_is_refused(tmp_path, path, value, says):
    document = json.loads(reference("timeloop/architectures.json").read_text())
    file = tmp_path / "a.json"
    file.write_text(json.dumps(spoil(document, path, value)))
    with pytest.raises(InputError) as error:
        read_architectures(file)
    assert says in str(error.value)
    assert str(error.value).startswith(str(file))


@pytest.mark.slow
def test_a_sample_of_figures_beyond_the_numbers_is_a_row(tmp_path, rows):
    """An energy of 1e308 pJ is finite; that of all accesses together is not."""
    sample = next(r for r in rows if r["ok"] and not r["out_nolink"])
    others = [next(r for r in rows if not r["ok"])]  # as many as below: one program serves both
    document = json.loads(reference("timeloop/architectures.json").read_text())
    for level in next(a for a in document["architectures"] if a["name"] == sample["arch"])["levels"]:
        level["energy_read_pJ"] = 1e308
    (tmp_path / "a.json").write_text(json.dumps(document))
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, [sample, *others])))
    out = tmp_path / "out"
    evaluate_samples(tmp_path / "a.json", tmp_path / "s.jsonl", out, links=False)
    first, second = map(json.loads, out.read_text().splitlines())
    assert first["id"] == sample["id"] and first["out"] is None and not first["ok"]
    assert "its energy, or another figure, is too large" in first["reject"][0]["reason"]
    assert second["reject"] == others[0]["reject"]


@pytest.mark.slow
def test_a_layer_of_more_operations_than_floats_count_is_a_row(tmp_path):
    """Beyond 2^53 products of the same factors in another order round to other numbers."""
    rng = np.random.default_rng(1)
    samples = []
    for number in range(24):
        sample = copy.deepcopy(json.loads(fuzz_documents.sound("samples").splitlines()[0]))
        bounds = {d: int(rng.integers(3, 2**22)) for d in "KCPQ"}
        sample["layer"] |= {"R": 1, "S": 1, **bounds}
        inner, outer = sample["mapping"]["levels"]
        inner |= {"temporal": {"factors": {}, "perm": "RKPSQCN"}, "spatial": {"X": [], "Y": []}}
        outer["temporal"]["factors"] = bounds
        samples.append(sample | {"id": f"s{number}"})
    (tmp_path / "a.json").write_bytes(fuzz_documents.sound("architectures"))
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, samples)))
    evaluate_samples(tmp_path / "a.json", tmp_path / "s.jsonl", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    told = [row["reject"][0]["reason"] for row in rows if not row["ok"]]
    assert 0 < len(told) < len(samples) and all("more than 2^53 multiply-accumulates" in reason for reason in told)


@pytest.mark.slow
def test_a_bad_line_is_a_row_and_spoils_no_other(tmp_path, rows, capsys):
    good = next(r for r in rows if r["ok"] and r["arch"] == "eyeriss" and r["layer"]["shape"] == "conv")
    copy = json.dumps(good)
    bad = [
        (["arch"], "tpu"),
        (["layer", "P"], float("nan")),
        (["layer", "P"], 2.5),
        (["layer"], KeyError),
        (["mapping", "levels", 0, "temporal", "factors"], {"K": 0}),
    ]
    texts = [copy, *(json.dumps({**spoil(json.loads(copy), *one), "id": f"bad {i}"}) for i, one in enumerate(bad))]
    file, out = tmp_path / "s.jsonl", tmp_path / "out.jsonl"
    file.write_text("\n".join([*texts, "{", copy]))
    given = ["--architectures", str(reference("timeloop/architectures.json")), "--samples", str(file)]
    command = ["evaluate", "mappings", *given, "--out", str(out)]
    assert main(command) == 0
    told = [json.loads(line) for line in out.read_text().splitlines()]
    ids = [good["id"], "bad 0", "bad 1", "bad 2", "bad 3", "bad 4", "line 7", good["id"]]
    assert [row["id"] for row in told] == ids
    assert [row["ok"] for row in told] == [True, *[False] * 6, True]
    assert told[0]["out"] == told[-1]["out"] and told[0]["out"]["cycles"] == good["out"]["cycles"]
    reasons = [row["reject"][0] for row in told[1:-1]]
    assert all(one["level"] is None for one in reasons)
    words = (
        "line 2, arch: 'tpu' is unknown",
        "nan is no positive integer",
        "2.5 is no positive integer",
        "layer: the key is missing",
    )
    words += ("factors.K: 0 is too small", "line 7, column 2: is not valid JSON")
    for one, said in zip(reasons, words, strict=True):
        assert said in one["reason"]
    err = capsys.readouterr().err
    assert err.count("warning: ") == 2 and f"the id {good['id']} comes twice: rows stand in the order" in err
    assert "6 of 8 mappings could not be read and count as rejected: rows with `ok` false and the reason. The" in err
    assert '"accepted": 2, "rejected": 6' in err
    assert main([*command, "--strict"]) == 2
    file.write_text("\n".join(texts[1:]))
    before = out.read_bytes()
    assert main(command) == 2  # no sample can be read
    assert "line 1, arch: 'tpu' is unknown" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_predictions_and_explanations_go_where_they_should(tmp_path, rows, capsys):
    accepted = next(r for r in rows if r["ok"] and not r["out_nolink"])
    refused = next(r for r in rows if not r["ok"])
    file = tmp_path / "s.jsonl.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in (accepted, refused)).encode()))
    arguments = (reference("timeloop/architectures.json"), file)
    evaluate_samples(*arguments, tmp_path / "out.jsonl", links=False, explain="text")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [r["id"] for r in written] == [accepted["id"], refused["id"]]
    assert written[0]["reject"] is None
    assert written[0]["out"]["cycles"] == accepted["out"]["cycles"]
    assert written[1]["out"] is None
    assert written[1]["reject"] == refused["reject"]
    table = capsys.readouterr().out
    assert "limited by" in table
    assert f"invalid at {refused['reject'][0]['level']}: {refused['reject'][0]['reason']}" in table
    evaluate_samples(*arguments, "-", links=False, explain="text")
    captured = capsys.readouterr()
    assert [json.loads(line) for line in captured.out.splitlines()] == written
    assert captured.err == table
    evaluate_samples(*arguments, tmp_path / "out.jsonl", links=False, explain="json")
    told, why = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert told["id"] == accepted["id"]
    assert told["valid"] and told["macs"] == accepted["out"]["macs"]
    assert told["cycles"] == accepted["out"]["cycles"]
    spent = sum(v["energy_pJ"] for level in told["levels"] for v in level["data_spaces"].values())
    spent += sum(level["network_energy_pJ"] for level in told["levels"]) + told["mac_energy_pJ"]
    assert spent == pytest.approx(accepted["out"]["energy_pJ"])
    assert not why["valid"] and why["reject"] == refused["reject"][0]


def test_samples_go_through_programs_of_few_sizes():
    """There are as few calls as possible, with little padding where it costs something."""
    sizes = {count: chunk_size(count) for count in range(1, 20_000)}
    assert len(set(sizes.values())) <= 12
    for count, size in sizes.items():
        calls = -(-count // size)
        assert size <= 4096 and calls == -(-count // 4096)
        assert calls * size < max(33, 2 * count if count <= 512 else count + 512 * calls)
