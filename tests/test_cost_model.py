"""The loop-nest cost model against Timeloop's own output."""

import gzip
import json

import jax
import numpy as np
import pytest
from conftest import reference

from mohamjax.io.samples import evaluate_samples

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


def predicted(tmp_path, samples, **options):
    out = tmp_path / "out.jsonl"
    summary = evaluate_samples(reference("timeloop/architectures.json"), samples, out, **options)
    rows, truth = rows_of(out), rows_of(samples)
    assert [r["id"] for r in rows] == [r["id"] for r in truth]
    assert summary["samples"] == len(truth)
    assert summary["accepted"] == sum(r["ok"] for r in truth)
    return rows, truth


def compare(rows, truth, links, *, count=0.0, energy=1e-6):
    """Asserts equality field by field; `count` (cycles too) and `energy` are relative."""
    for row, true in zip(rows, truth, strict=True):
        assert row["ok"] == true["ok"], row["id"]
        if not true["ok"]:
            assert row["reject"] == true["reject"], row["id"]
            continue
        out, want = row["out"], true["out"] if links else true["out_nolink"] or true["out"]

        def close(name, value, target, relative, absolute=0.0, row=row):
            value, target = np.asarray(value, float), np.asarray(target, float)
            assert np.all(np.abs(value - target) <= np.maximum(relative * np.abs(target), absolute)), (
                row["id"],
                name,
                value.tolist(),
                target.tolist(),
            )

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


@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_small_samples_agree_exactly(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_smoke.jsonl"), links=links)
    compare(rows, truth, links)


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_all_samples_agree_exactly(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_train.jsonl.gz"), links=links)
    assert len(rows) == 4952
    compare(rows, truth, links)


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_all_samples_agree_in_single_precision(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_train.jsonl.gz"), links=links, float32=True)
    compare(rows, truth, links, count=1e-5, energy=1e-4)


def test_evaluation_leaves_the_precision_of_the_caller_alone(tmp_path):
    before = jax.config.jax_enable_x64
    predicted(tmp_path, reference("timeloop/samples_smoke.jsonl"), links=False)
    assert jax.config.jax_enable_x64 == before
