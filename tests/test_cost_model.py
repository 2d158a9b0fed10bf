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


@functools.cache
def read(path):
    """Samples of a file, and what is true of them: read once for all tests."""
    return list(read_samples(path, read_architectures(path.parent / "architectures.json"))), rows_of(path)


def predicted(tmp_path, paths, **options):
    out = tmp_path / "out.jsonl"
    samples, truth = ([row for part in parts for row in part] for parts in zip(*map(read, paths), strict=True))
    summary = report_samples(samples, out, **options)
    rows = rows_of(out)
    assert [r["id"] for r in rows] == [r["id"] for r in truth]
    assert summary["samples"] == len(truth)
    assert summary["accepted"] == sum(r["ok"] for r in truth)
    return rows, truth


def numbers(value):
    """A number or nested lists of them, one by one; arrays would take most of the test's time."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)
    else:
        yield value


def compare(rows, truth, links, *, count=0.0, energy=1e-6):
    """Asserts equality field by field; `count` (cycles too) and `energy` are relative."""
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
                # A block more or less follows from a count that is off in the last digit of single precision.
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
                # Link transfers change the groups; what is left of them is not listed.
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


FILES = ("timeloop/samples_train.jsonl.gz", "timeloop/samples_smoke.jsonl")
SINGLE = {"count": 1e-5, "energy": 1e-4}


@pytest.mark.parametrize("options", [{}, {"float32": True}], ids=["double", "single"])
def test_samples_with_several_macs_per_innermost_buffer_agree(tmp_path, options):
    """Links between MACs: words of all data spaces, also those that a step leaves in place."""
    rows, truth = predicted(tmp_path, [reference("timeloop/level0/samples.jsonl.gz")], links=True, **options)
    assert len(rows) == 80
    handed = [row["out"]["networks"][0]["link_transfers"] for row in truth if row["ok"]]
    assert np.sum(np.array(handed) > 0, axis=0).tolist() == [8, 6, 6]
    compare(rows, truth, True, **(SINGLE if options else {}))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"float32": True}], ids=["double", "single"])
@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_all_samples_agree(tmp_path, links, options):
    """Exactly in double precision; the caller's precision stays. Both files are one batch: one program."""
    before = jax.config.jax_enable_x64
    rows, truth = predicted(tmp_path, [reference(name) for name in FILES], links=links, **options)
    assert jax.config.jax_enable_x64 == before
    assert len(rows) == 4952 + 60
    compare(rows, truth, links, **(SINGLE if options else {}))
