"""The importer compared with the golden layer lists, the light models and published sizes."""

import collections
import csv
import pathlib
import subprocess
import sys

import onnx
import pytest
from conftest import SHARED, workloads

from mohamjax.workload import LAYER_COLUMNS, SCENARIOS, layer_rows, load_scenario, read_network

ZOO = sorted(path.stem for path in (SHARED / "workloads").glob("*.onnx"))
LIGHT = sorted((pathlib.Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))

# Multiply-accumulates of the light models: counted by hand or published (ZFNet-512 and Inception v1/v2 differ from
# the papers in padding and heads, so those are only bounded).
LIGHT_GMACS = {
    "light_bvlc_alexnet": (0.6545, 0.6546),
    "light_densenet121": (2.83, 2.84),
    "light_inception_v1": (1.4, 1.7),
    "light_inception_v2": (1.9, 2.2),
    "light_resnet50": (3.8, 4.1),
    "light_shufflenet": (0.12, 0.16),
    "light_squeezenet": (0.33, 0.87),
    "light_vgg19": (19.6, 19.7),
    "light_zfnet512": (1.0, 1.6),
}


@pytest.mark.skipif(bool(ZOO), reason="the zoo is there")
def test_zoo_is_beside_the_checkout():
    workloads("index.csv")


def converted(row):
    """A golden row in the project's terms: (type, G, N, K, C, P, Q, R, S, strides, dilations, MACs)."""
    i = {k: int(v) for k, v in row.items() if k not in ("layer_type", "op", "example_node")}
    kind, groups = row["layer_type"], i["groups"]
    stride, dilation = (i["stride_h"], i["stride_w"]), (i["dil_h"], i["dil_w"])
    if kind == "fc":
        bounds = (1, i["P"], i["K"], i["C"], 1, 1, 1, 1)
    elif kind == "bmm":
        bounds = (i["N"], i["P"], i["K"], i["C"], 1, 1, 1, 1)
    else:
        p, q = (i["H"], i["W"]) if kind == "tconv" else (i["P"], i["Q"])
        stride = (1, 1) if kind == "tconv" else stride
        bounds = (groups, i["N"], i["K"] // groups, i["C"] // groups, p, q, i["R"], i["S"])
    return (kind, *bounds, stride, dilation, i["macs_each"])


@pytest.mark.parametrize("stem", ZOO)
def test_zoo_model_has_the_golden_layers(stem):
    path = workloads(f"{stem}.onnx")
    with workloads(f"layers/{stem}.csv").open() as stream:
        want = collections.Counter()
        for row in csv.DictReader(stream):
            want[converted(row)] += int(row["count"])
    warnings = []
    network = read_network(path, warn=warnings.append)
    got = collections.Counter(
        (x.type, *x.shape.bounds, x.shape.stride, x.shape.dilation, x.macs) for x in network.layers
    )
    assert got == want
    with workloads("index.csv").open() as stream:
        (index,) = [row for row in csv.DictReader(stream) if row["file"] == path.name]
    assert network.macs == int(index["total_macs"])
    assert len({(x.type, x.shape) for x in network.layers}) == int(index["unique_layers"])
    assert network.name == stem
    assert warnings == []
    for i, layer in enumerate(network.layers):
        assert all(0 <= p < i for p in layer.predecessors)
        assert layer.word_bits == 32


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_light_models_of_the_onnx_package(path):
    network = read_network(path)
    low, high = LIGHT_GMACS[path.stem]
    assert low <= network.macs / 1e9 <= high
    assert not network.layers[0].predecessors
    assert all(layer.predecessors for layer in network.layers[1:])


def test_light_models_are_all_there():
    assert {path.stem for path in LIGHT} == set(LIGHT_GMACS)


def test_rows_have_exactly_the_columns():
    network = load_scenario("C").networks[0]
    rows = layer_rows(network)
    assert all(tuple(row) == LAYER_COLUMNS for row in rows)
    assert ",".join(LAYER_COLUMNS) == (
        "layer,type,op,G,N,K,C,P,Q,R,S,stride_h,stride_w,dilation_h,dilation_w,word_bits,predecessors,macs"
    )
    first, second = rows[0], rows[1]
    assert (first["type"], first["K"], first["C"], first["R"], first["stride_h"]) == ("conv", 64, 3, 7, 2)
    assert first["predecessors"] == "" and second["predecessors"] == "0"
    joins = [row for row in rows if ";" in str(row["predecessors"])]
    assert joins, "residual networks have layers with two predecessors"


@pytest.mark.parametrize(
    ("name", "macs", "networks"),
    [
        ("mobile", 14908646848, 3),
        ("edge", 343717776896, 3),
        ("ar-vr", 38258351296, 3),
        ("data-center", 308073957504, 5),
    ],
)
def test_packaged_scenarios(name, macs, networks):
    application = load_scenario(name)
    assert application.name == name
    assert application.macs == macs
    assert len(application.networks) == networks
    letter = "ABCD"[SCENARIOS.index(name)]
    assert load_scenario(letter).layers == application.layers


def test_packaged_graphs_are_those_of_the_zoo():
    import mohamjax.workload as package

    folder = pathlib.Path(package.__file__).parent / "data"
    files = sorted(folder.glob("*.onnx"))
    assert len(files) == 11
    for path in files:
        assert path.read_bytes() == workloads(path.name).read_bytes()


def test_importing_the_package_does_not_import_onnx():
    code = "import sys, mohamjax, mohamjax.workload; sys.exit('onnx' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
