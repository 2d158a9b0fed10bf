"""Job tables from the loop-nest model: the templates that stand for cores, what the tables say, the command line."""

import csv
import json
import math

import jax
import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.hardware import load_technology, load_template, template_from_dict, template_to_dict, template_to_yaml
from mohamjax.io.jobs import read_jobs
from mohamjax.jobs import core_mappings
from mohamjax.jobs.analysis import NEST_DEMANDS, STYLES, bandwidth_demand, job_layer
from mohamjax.jobs.platform import Core, JobBatch, Platform, analysis_table
from mohamjax.jobs.templates import core_template
from mohamjax.search import BUDGETS
from mohamjax.workload import UniqueLayer, WorkloadShape

CORES = (Core("HB", 8, 16), Core("LB_rs", 8, 16), Core("LB_os", 8, 16), Core("HB", 4, 4, flexible=True))
JOBS = """type,K,C,P,Q,R,S
CONV,64,3,20,20,3,3
GEMM,256,64,16,1,1,1
FC,1000,512,1,1,1,1
"""
LAYERS = [
    job_layer("CONV", {"K": 16, "C": 32, "P": 8, "Q": 16, "R": 3, "S": 3}),
    job_layer("GEMM", {"K": 24, "C": 48, "P": 16}),
    job_layer("DWCONV", {"K": 1, "C": 24, "P": 8, "Q": 8, "R": 3, "S": 3}, stride=(2, 2)),
    job_layer("GEMM", {"K": 24, "C": 48, "P": 16}),
    job_layer("FC", {"K": 7, "C": 11}),
]


def mapped(cores):
    return core_mappings(jax.random.key(0), LAYERS, cores, load_technology(), BUDGETS["tiny"].mapper)


@pytest.fixture(scope="module")
def mappings():
    return mapped(CORES)


@pytest.fixture(scope="module")
def fastest(mappings):
    return mappings.analyses()


def test_templates_are_sound_and_as_large_as_the_core():
    for style in STYLES:
        for rows, columns in ((32, 64), (128, 64), (1, 2048)):
            template = core_template(style, rows, columns)
            assert math.prod(math.prod(level.fanout) for level in template.levels) == rows * columns
            assert template_from_dict(template_to_dict(template)) == template
            assert template.sizes == "fixed"
            assert all(template.runs(kind) for kind in ("conv", "gconv", "tconv", "dwconv", "fc", "bmm", "rnn"))
    # Table 4: 146, 580 and 291 KB; 110, 434 and 218 KB.
    for style, sizes in (("HB", {32: 146, 128: 580, 64: 291}), ("LB_rs", {32: 110, 128: 434, 64: 218})):
        for rows, kilobytes in sizes.items():
            assert core_template(style, rows, 64).levels[2].capacity_words == pytest.approx(kilobytes * 1024, rel=0.02)


def test_jobs_are_the_same_layers_in_both_models():
    batch = JobBatch(("a",) * 5, tuple(LAYERS), ("",) * 5, (1.0,) * 5, (math.inf,) * 5, tuple(range(5)))
    assert batch.shapes.macs.tolist() == [layer.shape.macs for layer in LAYERS]
    assert batch.shapes.P.tolist() == [8, 16, 8, 16, 1]
    assert LAYERS[2].shape.tensor_words == (24 * 9, 24 * 17 * 17, 24 * 64)


def test_strides_and_dilations_are_read_with_the_jobs(tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "type,K,C,P,Q,R,S,stride_h,stride_w,dilation_h,dilation_w\nconv,8,4,5,6,3,3,2,3,1,2\nbmm,8,4,5,1,1,1,,,,\n"
    )
    one, two = read_jobs(tmp_path / "jobs.csv").layers
    assert one == UniqueLayer("conv", WorkloadShape(K=8, C=4, P=5, Q=6, R=3, S=3, stride=(2, 3), dilation=(1, 2)))
    assert two == UniqueLayer("bmm", WorkloadShape(N=5, K=8, C=4))


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a #2", "a", "a"], ("a #2", "a", "a #3")),
        (["a", "a", "a #2", "a"], ("a", "a #2", "a #2 #2", "a #3")),
        (["job1", ""], ("job1", "job1 #2")),
    ],
)
def test_jobs_have_names_of_their_own(tmp_path, given, names):
    (tmp_path / "jobs.csv").write_text("type,K,C,P,Q,R,S,job\n" + "".join(f"FC,4,4,1,1,1,1,{x}\n" for x in given))
    assert read_jobs(tmp_path / "jobs.csv").names == names


def test_the_fastest_mapping_fills_the_array_along_the_loops_of_its_style(fastest):
    wanted = {  # multiply-accumulates per element that works
        CORES[0]: [2 * 2 * 8 * 16 * 9, 3 * 3 * 16, 3 * 64 * 9],  # K over 8 rows, C over 16 columns; channels over rows
        CORES[1]: [16 * 32 * 16 * 3, 24 * 48, 24 * 8 * 3],  # P over 8 columns and S over 3 rows; 16 rows of a product
        CORES[2]: [16 * 32 * 9, 24 * 48 * 2, 24 * 9],  # P over 8 rows, Q over 16 columns; 8 rows of a product
    }
    for core, cycles in wanted.items():
        assert fastest[core].latency[:3].tolist() == cycles


def test_tables_obey_what_must_hold(mappings, fastest):
    frugal, balanced = mappings.analyses("energy"), mappings.analyses("edp")
    macs = np.asarray([layer.shape.macs for layer in LAYERS])
    for core in CORES:
        one = fastest[core]
        assert np.all(one.latency * core.elements >= macs)
        np.testing.assert_array_equal(one.tensor_bytes, [sum(layer.shape.tensor_words) for layer in LAYERS])
        assert np.all(one.traffic_bytes >= one.tensor_bytes * (1 - 1e-6))
        # A mapping may pad a layer: its tiles are then of the padded tensors.
        assert np.all(one.tile_bytes <= one.tensor_bytes * 1.5)
        assert np.all(one.tile_bytes * one.tiles >= one.tensor_bytes)
        assert np.any(one.tiles > 1) and np.any(one.tile_bytes < one.tensor_bytes)
        assert np.all(one.energy > macs * 0.2e-12)  # a multiply-accumulate of 8 bits in 45 nm alone
        demand = {name: bandwidth_demand(one, name) for name in NEST_DEMANDS}
        assert np.all(demand["compulsory"] <= demand["traffic"] * (1 + 1e-6))
        assert np.all(demand["as-released"] <= demand["per-tile"])
        for name in ("latency", "energy", "tiles"):  # equal jobs, equal rows
            assert getattr(one, name)[1] == getattr(one, name)[3]
        assert np.all(frugal[core].energy <= one.energy) and np.all(frugal[core].latency >= one.latency)
        product = balanced[core].energy * balanced[core].latency
        assert np.all(product <= np.minimum(one.energy * one.latency, frugal[core].energy * frugal[core].latency))


def test_a_flexible_core_takes_the_best_array_for_each_job(fastest):
    arrays = [Core("HB", h, 16 // h) for h in (1, 2, 4, 8, 16)]
    found = mapped(arrays).analyses()
    best = np.min([found[core].latency for core in arrays], axis=0)
    assert fastest[CORES[3]].latency.tolist() == best.tolist()


def test_the_table_has_energies_and_the_bytes_that_mappings_move(fastest):
    platform = Platform("mine", (CORES[0], CORES[1], CORES[0]))
    table = analysis_table(list("abcde"), platform, fastest, 4.0, demand="traffic")
    np.testing.assert_array_equal(table.duration, np.stack([fastest[core].latency for core in platform.cores], axis=1))
    np.testing.assert_allclose(table.bytes[:, 1], fastest[CORES[1]].traffic_bytes, rtol=1e-12)
    assert table.energy is not None
    np.testing.assert_array_equal(table.energy[:, 2], fastest[CORES[0]].energy)


def test_schedule_with_the_loop_nest_model(tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text(JOBS)
    out = tmp_path / "out"
    command = ["schedule", "--jobs", str(tmp_path / "jobs.csv"), "--platform", "S2", "--bandwidth", "1"]
    command += ["--cost-model", "loop-nest", "--budget", "tiny", "--objective", "makespan,energy"]
    command += ["--method", "LPT-EFT,HEFT", "--no-figures", "--json"]
    assert main([*command, "--out", str(out), "--no-mapping-cache"]) == 0
    summary = json.loads(capsys.readouterr().out)
    for row in summary["schedules"]:
        assert row["makespan"] >= summary["lower_bound"]["best"] * (1 - 1e-9)
        assert row["energy"] > 0
    table = json.loads((out / "job_table.json").read_text())
    assert table["jobs"][0]["energy_J"][0] > 0
    with open(out / "job_analysis.csv") as stream:
        assert len({row["energy_J"] for row in csv.DictReader(stream)}) > 4
    config = (out / "config.yaml").read_text()
    assert "cost_model: loop-nest" in config and "demand: traffic" in config


def test_a_platform_of_templates(tmp_path, capsys):
    (tmp_path / "jobs.csv").write_text(JOBS + "DWCONV,1,16,6,6,3,3\n")
    (tmp_path / "own.yaml").write_text(
        template_to_yaml(load_template("eyeriss-released")).replace("name: eyeriss-released", "name: own")
    )
    platform = tmp_path / "mine.yaml"
    command = ["schedule", "--jobs", str(tmp_path / "jobs.csv"), "--platform", str(platform), "--bandwidth", "1"]
    nest = [*command, "--cost-model", "loop-nest", "--budget", "tiny", "--method", "LPT-EFT,random-random"]
    nest += ["--no-mapping-cache", "--no-figures"]
    platform.write_text("cores: [{template: simba, count: 2}, {template: own.yaml}, {style: HB, rows: 8}]")
    assert main([*nest, "--json", "--out", str(tmp_path / "out")]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["accelerators"] == ["0 simba", "1 simba", "2 own", "3 HB 8x64"]
    table = json.loads((tmp_path / "out" / "job_table.json").read_text())
    assert [job["duration"][2] is None for job in table["jobs"]] == [False, False, False, True]
    assert all(job["duration"][0] > 0 and job["energy_J"][0] > 0 for job in table["jobs"])
    assert table["schedules"][0]["accelerator"][3] != 2
    for text, options, said in (
        ("cores: [{template: own.yaml}]", nest, "no core runs a dwconv layer"),
        ("cores: [{template: simba}]", command, "--cost-model loop-nest"),
        ("cores: [{template: samba}]", nest, "samba"),
        ("cores: [{template: simba, rows: 4}]", nest, "cores[0]"),
        ("cores: [{template: simba, count: 0}]", nest, "count"),
    ):
        platform.write_text(text)
        assert main(options) == 2
        assert said in capsys.readouterr().err
