"""The loop-nest cost model against Timeloop's own output."""

import functools
import gzip
import json

import jax
import numpy as np
import pytest
from conftest import reference

from mohamjax.io.samples import read_architectures, read_samples, report_samples

COUNTS = (
    "utilized_capacity",
    "partition_size",
    "utilized_instances",
    "x_expansion",
    "y_expansion",
    "reads",
    "fills",
    "updates",
    "temporal_reductions",
    "address_generations",
    "vector_reads",
    "vector_fills",
    "vector_updates",
)


def rows_of(path):
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as stream:
        return [json.loads(line) for line in stream]


FILES = ("timeloop/samples_train.jsonl.gz", "timeloop/samples_smoke.jsonl", "timeloop/level0/samples.jsonl.gz")
TABLES = ("timeloop/architectures.json", "timeloop/level0/architectures.json")


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    """The architectures of all files, padded to one number of levels: all samples form one batch of one program."""
    documents = [json.loads(reference(name).read_text()) for name in TABLES]
    (document, *_), parts = documents, [document["architectures"] for document in documents]
    path = tmp_path_factory.mktemp("architectures") / "architectures.json"
    path.write_text(json.dumps({**document, "architectures": [row for part in parts for row in part]}))
    return read_architectures(path)


@pytest.fixture(scope="module")
def predicted(machines, tmp_path_factory):
    """Function of `links` and further options that returns, for each file, predicted and true rows of its samples."""
    paths = [reference(name) for name in FILES]
    samples, truth = [list(read_samples(path, machines)) for path in paths], [rows_of(path) for path in paths]

    @functools.lru_cache(maxsize=2)  # the predictions of all samples take some memory
    def predict(links, **options):
        out = tmp_path_factory.mktemp("predicted") / "out.jsonl"
        before = jax.config.jax_enable_x64
        summary = report_samples([sample for part in samples for sample in part], out, links=links, **options)
        assert jax.config.jax_enable_x64 == before  # the caller's precision stays
        rows, true = rows_of(out), [row for part in truth for row in part]
        assert [row["id"] for row in rows] == [row["id"] for row in true]
        assert summary["samples"] == len(true)
        assert summary["accepted"] == sum(row["ok"] for row in true)
        ends = np.cumsum([len(part) for part in truth])
        return [(rows[end - len(part) : end], part) for end, part in zip(ends, truth, strict=True)]

    return predict


def numbers(value):
    """Yields the numbers in nested lists one by one; arrays would take most of the test's time."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)
    else:
        yield value


def compare(rows, truth, links, *, count=0.0, energy=1e-6):
    """Asserts equality field by field; `count` (also for cycles) and `energy` are relative tolerances."""
    for row, true in zip(rows, truth, strict=True):
        assert row["ok"] == true["ok"], row["id"]
        if not true["ok"]:
            assert row["reject"] == true["reject"], row["id"]
            continue
        out, want = row["out"], true["out"] if links else true["out_nolink"] or true["out"]

        def close(name, value, target, relative, absolute=0.0, row=row):
            pairs = zip(numbers(value), numbers(target), strict=True)
            equal = all(abs(v - t) <= max(relative * abs(t), absolute) for v, t in pairs)
            assert equal, (row["id"], name, value, target)

        for level, target in zip(out["levels"], want["levels"], strict=True):
            assert level["name"] == target["name"]
            assert level["keep"] == target["keep"]
            for name in (*COUNTS, "cycles"):
                # A count that is off in the last digit of single precision may change the blocks by one.
                close(name, level[name], target[name], count, 1 if count and name.startswith("vector") else 0)
            close("level energy", level["energy_pJ"], target["energy_pJ"], energy)
            close("slowdown", level["slowdown"], target["slowdown"], max(count, 1e-9))
            for name in ("read_bw", "write_bw"):
                close(name, level[name], target[name], max(count, 1e-9))
        for network, target in zip(out["networks"], want["networks"], strict=True):
            close("fanout", network["fanout"], target["fanout"], 0)
            close("link_transfers", network["link_transfers"], target["link_transfers"], count)
            close("network energy", network["energy_pJ"], target["energy_pJ"], energy)
            for name in ("multicast_max", "spatial_reductions", "avg_hops"):
                close(name, network[name], target[name], max(count, 1e-9))
            for entries, wanted in zip(network["ingresses"], target["ingresses"], strict=True):
                # Link transfers change the groups; those that remain are not listed.
                assert entries is not None or links, row["id"]
                for entry, want_entry in zip(
                    sorted(entries or wanted, key=lambda e: e[:2]), sorted(wanted), strict=True
                ):
                    told = [e for e in zip(entry, want_entry, strict=True) if e[0] is not None]
                    assert len(told) == 4 or len(wanted) > 1, row["id"]
                    close("ingresses", *zip(*told, strict=True), max(count, 1e-9))
        for name in ("cycles", "macs", "mac_instances_used", "mac_x", "mac_y", "mac_cycles"):
            close(name, out[name], want[name], count)
        for name in ("energy_pJ", "area_um2", "mac_energy_pJ"):
            close(name, out[name], want[name], energy)
        close("utilization", out["utilization"], want["utilization"], max(count, 1e-9), 1 / want["cycles"])


SINGLE = {"count": 1e-5, "energy": 1e-4}
PRECISION = pytest.mark.parametrize(
    "options", [{}, pytest.param({"float32": True}, marks=pytest.mark.slow)], ids=["double", "single"]
)


@pytest.mark.slow
@PRECISION
def test_samples_with_several_macs_per_innermost_buffer_agree(predicted, options):
    """Links between MACs: words of all data spaces, also those that a step leaves in place."""
    rows, truth = predicted(True, **options)[2]
    assert len(rows) == 80
    handed = [row["out"]["networks"][0]["link_transfers"] for row in truth if row["ok"]]
    assert np.sum(np.array(handed) > 0, axis=0).tolist() == [8, 6, 6]
    compare(rows, truth, True, **(SINGLE if options else {}))


@pytest.mark.parametrize(
    "links, options",
    [
        pytest.param(True, {}, id="double"),
        pytest.param(False, {}, id="double-nolinks", marks=pytest.mark.slow),
        pytest.param(True, {"float32": True}, id="single", marks=pytest.mark.slow),
    ],
)
def test_all_samples_agree(predicted, links, options):
    """Exactly in double precision. What is computed without links is a part of what is computed with them."""
    train, smoke, _ = predicted(links, **options)
    assert (len(train[0]), len(smoke[0])) == (4952, 60)
    for rows, truth in (train, smoke):
        compare(rows, truth, links, **(SINGLE if options else {}))
