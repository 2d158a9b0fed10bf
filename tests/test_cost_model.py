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


def compare(rows, truth, links, *, count=0.0, cycles=1, energy=1e-6):
    """Asserts equality field by field; `count` and `energy` are relative, `cycles` absolute.

    Returns the ids of samples in which a count differs, if `count` allows none that should not.
    """
    different = []
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

        try:
            for level, target in zip(out["levels"], want["levels"], strict=True):
                assert level["name"] == target["name"]
                assert level["keep"] == target["keep"]
                for name in COUNTS:
                    # A block more or less follows from a count that is off in the last digit of single precision.
                    close(name, level[name], target[name], count, 1 if count and name.startswith("vector") else 0)
            for network, target in zip(out["networks"], want["networks"], strict=True):
                close("fanout", network["fanout"], target["fanout"], 0)
                close("link_transfers", network["link_transfers"], target["link_transfers"], count)
        except AssertionError:
            if not count:
                raise
            different.append(row["id"])
            continue
        for level, target in zip(out["levels"], want["levels"], strict=True):
            close("level cycles", level["cycles"], target["cycles"], count, cycles)
            close("level energy", level["energy_pJ"], target["energy_pJ"], energy)
            close("slowdown", level["slowdown"], target["slowdown"], max(count, 1e-9))
            for name in ("read_bw", "write_bw"):
                close(name, level[name], target[name], max(count, 1e-9))
        for network, target in zip(out["networks"], want["networks"], strict=True):
            close("network energy", network["energy_pJ"], target["energy_pJ"], energy)
        close("cycles", out["cycles"], want["cycles"], count, cycles)
        for name in ("macs", "mac_instances_used", "mac_x", "mac_y", "mac_cycles"):
            close(name, out[name], want[name], count)
        for name in ("energy_pJ", "area_um2", "mac_energy_pJ"):
            close(name, out[name], want[name], energy)
        close("utilization", out["utilization"], want["utilization"], max(count, 1e-9), 1 / want["cycles"])
    return different


@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_small_samples_agree_exactly(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_smoke.jsonl"), links=links)
    compare(rows, truth, links, cycles=0)


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_all_samples_agree_exactly(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_train.jsonl.gz"), links=links)
    assert len(rows) == 4952
    compare(rows, truth, links, cycles=0)


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "nolinks"])
def test_all_samples_agree_in_single_precision(tmp_path, links):
    rows, truth = predicted(tmp_path, reference("timeloop/samples_train.jsonl.gz"), links=links, float32=True)
    different = compare(rows, truth, links, count=1e-5, energy=1e-4)
    # One input share is 4 in exact arithmetic and 3 in Timeloop, whose sum of quotients in double precision falls just
    # below 4; single precision cannot follow that.
    assert different == ["ts-02477"]


def test_evaluation_leaves_the_precision_of_the_caller_alone(tmp_path):
    before = jax.config.jax_enable_x64
    predicted(tmp_path, reference("timeloop/samples_smoke.jsonl"), links=False)
    assert jax.config.jax_enable_x64 == before
