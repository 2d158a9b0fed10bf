"""The worked examples of the reference's `semantics.md`, section 11, by hand, and their explanations."""

import json

import jax
import numpy as np
import pytest

from mohamjax.hardware import Machine
from mohamjax.mapping import LayerArrays, Mapping, explain, explanation_text

DIMS = "GNKCPQRS"
NAMES = ["RF", "GLB", "DRAM"]
INF = np.inf

TOY = Machine(
    level_mask=np.ones(3, bool),
    keep=np.ones((3, 3), bool),
    capacity=np.array([64.0, 4096.0, INF]),
    word_bits=np.full(3, 8.0),
    block_words=np.array([1.0, 4.0, 8.0]),
    fanout=np.array([[1.0, 1.0], [4.0, 1.0], [1.0, 1.0]]),
    mesh=np.array([[4.0, 1.0], [1.0, 1.0], [1.0, 1.0]]),
    instances=np.array([4.0, 1.0, 1.0]),
    bandwidth=np.array([[INF, INF], [2.0, 2.0], [4.0, 4.0]]),
    reduces=np.array([True, True, False]),
    access_energy=np.array([[1.0, 2.0], [10.0, 12.0], [512.0, 512.0]]),
    area=np.array([5.0, 100.0, 0.0]),
    hop_energy=np.array([0.0, 0.5, 0.0]),
    mac_mesh=np.array([4.0, 1.0]),
    mac_instances=np.array(4.0),
    mac_energy=np.array(1.0),
    mac_area=np.array(1.0),
)


def problem(nest, *, stride=1, dilation=1, keep=((1, 1, 1), (1, 1, 1), (1, 1, 1))):
    """Layer and mapping from per-level (loops over X, temporal loops), each a list of (dimension, factor)."""
    temporal, spatial = np.ones((3, 8), np.int32), np.ones((2, 3, 8), np.int32)
    order = np.tile(np.arange(8, dtype=np.int32), (3, 1))
    spatial_order = np.tile(np.arange(8, dtype=np.int32), (2, 3, 1))

    def put(factors, permutation, loops):
        first = [DIMS.index(d) for d, _ in loops]
        for d, n in loops:
            factors[DIMS.index(d)] = n
        permutation[:] = first + [d for d in range(8) if d not in first]

    for i, (along_x, loops) in enumerate(nest):
        put(temporal[i], order[i], loops)
        put(spatial[0, i], spatial_order[0, i], along_x)
    mapping = Mapping(
        temporal=temporal,
        order=order,
        spatial=spatial,
        spatial_order=spatial_order,
        keep=np.array(keep, bool),
    )
    bounds = temporal.prod(axis=0) * spatial.prod(axis=(0, 1))
    layer = LayerArrays(
        bounds=bounds.astype(np.int32),
        stride=np.full(2, stride, np.int32),
        dilation=np.full(2, dilation, np.int32),
    )
    return layer, mapping


RF = ([], [("R", 3), ("P", 2)])
NOTHING = ([], [])
EXAMPLES = {
    "E1a": (
        problem([RF, ([], [("P", 8), ("C", 2), ("K", 4)]), NOTHING]),
        {
            "reads": [[384, 384, 320], [24, 144, 64], [24, 36, 0]],
            "fills": [[24, 144, 64], [24, 36, 0], [0, 0, 0]],
            "updates": [[0, 0, 384], [0, 0, 128], [0, 0, 64]],
            "cycles": 384,
            "energy_pJ": 12040,
        },
    ),
    "E1b": (
        problem([RF, ([], [("K", 4), ("P", 8), ("C", 2)]), NOTHING]),
        {"reads": [None, [192, 64, 64], None], "energy_pJ": 12436},
    ),
    "E2": (
        problem([RF, ([("P", 4)], [("P", 2), ("C", 2), ("K", 4)]), NOTHING]),
        {"reads": [None, [24, 256, 64], None], "cycles": 172, "energy_pJ": 13012},
    ),
    "E3": (
        problem([RF, ([("K", 4)], [("P", 8)]), ([], [("C", 2)])]),
        {
            "reads": [[96, 96, 80], [24, 36, 64], None],
            "fills": [[6, 36, 16], [24, 36, 0], None],
            "tile": [None, [12, 18, 64], None],
            "energy_pJ": 11938,
        },
    ),
    "E4": (
        problem([RF, ([("K", 4)], [("P", 8)]), ([], [("C", 2)])], keep=((1, 1, 1), (1, 0, 0), (1, 1, 1))),
        {"reads": [None, None, [24, 36, 64]], "updates": [None, None, [0, 0, 128]], "energy_pJ": 19388},
    ),
    "E5": (
        problem([RF, ([("C", 2), ("K", 2)], [("P", 8), ("K", 2)]), NOTHING]),
        {
            "reads": [[96, 96, 64], [None, 72, 0], None],
            "fills": [[None, None, 0], None, None],
            "updates": [None, [0, 0, 64], None],
            "energy_pJ": 11488,
        },
    ),
    "E6": (
        problem([NOTHING, ([("P", 4)], [("R", 3), ("P", 4), ("C", 2), ("K", 4)]), NOTHING]),
        {
            "reads": [[None, 144, None], [None, 192, None], None],
            "fills": [[None, 96, None], None, None],
            "energy_pJ": 14260,
        },
    ),
    "E7": (
        problem([RF, ([], [("P", 4), ("C", 2), ("K", 4)]), NOTHING], stride=2, dilation=2),
        {"reads": [None, [None, 152, None], None], "tile": [[None, 7, None], [None, 38, None], None]},
    ),
}


def explained(layer, mapping, machine=TOY):
    """Explanation of a problem on the toy machine, with link transfers as Timeloop has them by default."""
    with jax.enable_x64(True):
        return explain(layer, mapping, machine, level_names=NAMES, links=True, max_children=16)


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_example(name):
    (layer, mapping), want = EXAMPLES[name]
    got = explained(layer, mapping)
    assert got["valid"]
    assert got["macs"] == np.prod(layer.bounds)
    for key, value in want.items():
        if key in ("cycles", "energy_pJ"):
            assert got[key] == pytest.approx(value, abs=1e-9), key
            continue
        for level, row in zip(got["levels"], value, strict=True):
            for space, words in zip(("Weights", "Inputs", "Outputs"), row or (), strict=False):
                assert words is None or level["data_spaces"][space][key] == words, (key, level["name"], space)


def test_explanation_says_what_limits():
    (layer, mapping), _ = EXAMPLES["E2"]
    got = explained(layer, mapping)
    json.dumps(got, allow_nan=False)
    assert got["limited_by"] == "GLB"
    glb = got["levels"][1]
    assert glb["bandwidth"] == [2.0, 2.0]
    assert glb["bandwidth_needed"][0] == pytest.approx(344 / 96)
    assert glb["cycles"] == 172
    assert got["levels"][2]["capacity"] is None
    parts = [data["energy_pJ"] for level in got["levels"] for data in level["data_spaces"].values()]
    network = sum(level["network_energy_pJ"] for level in got["levels"])
    assert got["energy_pJ"] == pytest.approx(sum(parts) + network + got["mac_energy_pJ"])
    text = explanation_text(got)
    assert "172 cycles (96 of computing), limited by GLB" in text
    lines = text.splitlines()
    assert [line.split()[0] for line in lines if line[0] != " "][:4] == ["level", "DRAM", "GLB", "RF"]
    assert "3.583 of 2" in text
    (layer, mapping), _ = EXAMPLES["E1a"]
    assert explained(layer, mapping)["limited_by"] == "MAC"


def test_explanation_of_a_misfit_names_level_need_and_limit():
    (layer, mapping), _ = EXAMPLES["E3"]
    small = TOY.replace(capacity=np.array([64.0, 93.0, INF]))
    got = explained(layer, mapping, small)
    assert got == {
        "valid": False,
        "reject": {"level": "GLB", "reason": "mapped tile size 94 exceeds buffer capacity 93"},
    }
    assert explanation_text(got) == "invalid at GLB: mapped tile size 94 exceeds buffer capacity 93"
    narrow = TOY.replace(mac_mesh=np.array([3.0, 2.0]), mac_instances=np.array(6.0))
    reason = explained(layer, mapping, narrow)["reject"]
    assert reason == {"level": "MAC", "reason": "mapped max Arithmetic X expansion 4 exceeds hardware instances 3"}
