"""Ports shared by reads, fills and updates, blocks of Timeloop's memories, and the fills of Timeloop before 3.0."""

import gzip
import json

import jax
import numpy as np
import plain_timeloop
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from random_nests import CHILDREN, random_problem, stack

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import describe, example_yaml, load_template, template_to_yaml
from mohamjax.hardware.template import with_word_bits
from mohamjax.io.samples import evaluate_samples, read_architectures, read_samples
from mohamjax.io.timeloop import read_timeloop
from mohamjax.io.timeloop_writer import write_timeloop
from mohamjax.mapping import Counting, cycles, evaluate_batch

BATCH = 32


@pytest.mark.slow
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 40], ids=["all", "some"])
@pytest.mark.parametrize(
    ("first_fills", "wanted"), [(True, "cycles"), (False, "cycles_with_v3_fills")], ids=["before-3.0", "3.0"]
)
def test_cycles_of_the_timeloop_of_others(first_fills, wanted, step, tmp_path):
    """2,400 rows published by the authors of DOSA: one port per memory, outputs filled as before Timeloop 3.0."""
    samples, machines = (reference(f"silicon/dosa_{name}") for name in ("timeloop.jsonl.gz", "architectures.json"))
    with gzip.open(samples, "rt") as stream:
        rows = [json.loads(line) for line in stream][::step]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out.jsonl"
    evaluate_samples(machines, tmp_path / "in.jsonl", out, links=False, first_fills=first_fills)
    got = [json.loads(line)["out"] for line in out.read_text().splitlines()]
    assert [row["cycles"] for row in got] == [row["expected"][wanted] for row in rows]
    assert [row["mac_cycles"] for row in got] == [row["expected"]["mac_cycles"] for row in rows]
    if first_fills:
        energies = [row["energy_pJ"] * 1e-6 for row in got]
        np.testing.assert_allclose(energies, [row["expected"]["energy_uJ"] for row in rows], rtol=1e-5)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_first_fills_agree_with_plain_rules(seed):
    rng = np.random.default_rng(seed)
    problems = [random_problem(rng) for _ in range(BATCH)]
    with jax.enable_x64(True):
        result = jax.tree.map(np.asarray, _evaluated(*(stack(part) for part in zip(*problems, strict=True))))
    for n, (layer, mapping, machine) in enumerate(problems):
        top = int(np.sum(machine.level_mask))
        plain = plain_timeloop.count(layer, mapping, machine, first_fills=True)
        for name in ("reads", "fills", "updates"):
            np.testing.assert_array_equal(getattr(result.counts, name)[n, :top], plain[name], err_msg=name)
        assert result.cycles.total[n] == plain["cycles"]
        assert result.energy.total[n] == pytest.approx(plain["energy"], rel=1e-12)


@jax.jit
def _evaluated(layers, mappings, machines):
    return evaluate_batch(
        layers, mappings, machines, Counting(first_fills=True, max_children=CHILDREN), block_size=BATCH
    )


@pytest.mark.slow
def test_a_machine_without_the_field_is_one_without_such_ports():
    rng = np.random.default_rng(3)
    problems = [random_problem(rng) for _ in range(BATCH)]
    with jax.enable_x64(True):
        counts = _evaluated(*(stack(part) for part in zip(*problems, strict=True))).counts
        for n, (_, _, machine) in enumerate(problems):
            own = jax.tree.map(lambda leaf, n=n: leaf[n], counts)
            free = machine.replace(shared_bandwidth=np.full(machine.capacity.shape, np.inf))
            given = [cycles(own, each).per_level for each in (free, machine.replace(shared_bandwidth=None))]
            np.testing.assert_array_equal(*given)


def _template(tmp_path, rate):
    text = example_yaml()
    assert "    bandwidth: 16\n" in text
    path = tmp_path / "ported.yaml"
    path.write_text(text.replace("    bandwidth: 16\n", f"    shared_bandwidth: {rate}\n"))
    return load_template(path)


def test_a_template_states_it(tmp_path):
    template = _template(tmp_path, 12.5)
    buffer = template.levels[template.level_names.index("Buffer")]
    assert (buffer.bandwidth, buffer.shared_bandwidth) == ((None, None), 12.5)
    (tmp_path / "again.yaml").write_text(template_to_yaml(template))
    assert load_template(tmp_path / "again.yaml") == template
    assert "- / - / both 12.5" in describe(template)
    wider = with_word_bits(template, 16)
    assert wider.levels[template.level_names.index("Buffer")].shared_bandwidth == 6.25
    assert _template(tmp_path, "unlimited").levels[2].shared_bandwidth is None
    with pytest.raises(InputError, match="shared_bandwidth"):
        _template(tmp_path, 0)


def test_timeloop_files_state_it(tmp_path):
    architectures = read_architectures(reference("silicon/dosa_architectures.json"))
    sample = next(read_samples(reference("silicon/dosa_timeloop.jsonl.gz"), architectures))
    files = write_timeloop(tmp_path, sample.architecture, sample.shape, sample.mapping)
    back = read_timeloop(*files).architecture.machine
    wanted = sample.architecture.machine
    np.testing.assert_array_equal(back.shared_bandwidth, wanted.shared_bandwidth)
    np.testing.assert_array_equal(back.bandwidth, wanted.bandwidth)
    assert np.isfinite(back.shared_bandwidth).sum() == 3


@pytest.mark.slow
def test_an_explanation_names_the_port(tmp_path, capsys):
    machines, samples = (reference(f"silicon/dosa_{name}") for name in ("architectures.json", "timeloop.jsonl.gz"))
    with gzip.open(samples, "rt") as stream:
        rows = [json.loads(line) for line in stream]
    row = next(r for r in rows if r["expected"]["bound_by"] != "compute")
    (tmp_path / "one.jsonl").write_text(json.dumps(row))
    given = ["--architectures", str(machines), "--samples", str(tmp_path / "one.jsonl"), "--links", "off"]
    asked = ["evaluate", "mappings", *given, "--first-fills", "--out", str(tmp_path / "out.jsonl"), "--explain"]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert ", both " in told
    assert f"{row['expected']['cycles']} cycles" in told
    assert main([*asked, "json"]) == 0
    levels = json.loads(capsys.readouterr().out)["levels"]
    assert levels[0]["shared_bandwidth"] is None
    assert all(level["shared_bandwidth"] > 0 for level in levels[1:])


ONE_LEVEL = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {{name: DRAM, class: DRAM, attributes: {{word-bits: 8, {dram}}}}}
    - {{name: Buf, class: SRAM, attributes: {{word-bits: 8, {buf}}}}}
    - {{name: MAC, class: intmac, attributes: {{datawidth: 8}}}}
"""


def _blocks(tmp_path, buf, dram="block-size: 1"):
    path = tmp_path / "arch.yaml"
    path.write_text(ONE_LEVEL.format(buf=buf, dram=dram))
    return read_timeloop(path).architecture.machine


@pytest.mark.parametrize(
    ("attributes", "words", "capacity"),
    [
        ("depth: 100, width: 64", 8, 800),
        ("depth: 100, memory_width: 32", 4, 400),
        ("data_storage_depth: 100, data_storage_width: 16", 2, 200),
        ("entries: 100, width: 64", 8, 100),
        ("depth: 100, width: 64, block-size: 8", 8, 800),
        ("depth: 100, width: 64, cluster-size: 1", 8, 800),
        ("depth: 100, width: 64, memory_width: 8", 8, 800),
        ("depth: 100, block-size: 4", 4, 400),
        ("depth: 100", 1, 100),
        ("sizeKB: 2, width: 64", 8, 2048),
    ],
)
def test_blocks_as_timeloop_reads_them(tmp_path, attributes, words, capacity):
    machine = _blocks(tmp_path, attributes)
    assert machine.block_words[0] == words
    assert machine.capacity[0] == capacity
    assert _blocks(tmp_path, "entries: 8", dram="width: 512").block_words[1] == 64


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("depth: 100, width: 64, block-size: 4", "rows of 2 blocks"),
        ("depth: 100, width: 64, cluster-size: 2", "rows of 2 blocks"),
        ("depth: 100, width: 64, block-size: 4, cluster-size: 4", "not the cluster size of 4"),
        ("depth: 100, cluster-size: 2", "rows of 2 blocks"),
        ("depth: 100, width: 60", "a width of 60 bits is no multiple of 8 bits"),
        ("depth: 100, width: 64, block-size: 3", "a width of 64 bits is no multiple of 8 bits"),
    ],
)
def test_clusters_of_blocks_are_refused(tmp_path, attributes, says):
    with pytest.raises(InputError, match=says):
        _blocks(tmp_path, attributes)
