"""Packages that hand data on: reference cases, a plain oracle, what must hold of any case, and messages."""

import copy
import csv
import json
from fractions import Fraction

import fuzz_documents
import numpy as np
import plain_fluid
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.entries import Place
from mohamjax.io.package_schedules import read_handover
from mohamjax.io.schedules import evaluate_schedules
from mohamjax.schedule.handover import sram_capacity


def answers(tmp_path, cases, **options):
    """What `evaluate schedules` makes of cases."""
    (tmp_path / "in.json").write_text(json.dumps({"format": "package-schedule/1", "cases": cases}))
    evaluate_schedules(tmp_path / "in.json", tmp_path / "out.json", **options)
    return json.loads((tmp_path / "out.json").read_text())["cases"]


@pytest.mark.parametrize("float32, tolerance", [(False, 1e-12), (True, 1e-5)])
def test_reference_cases(tmp_path, float32, tolerance):
    cases = json.loads((reference("handover") / "cases.json").read_text())["cases"]
    found = answers(tmp_path, [{key: case[key] for key in case if key != "answer"} for case in cases], float32=float32)
    for case, own in zip(cases, found, strict=True):
        assert own.pop("name") == case["name"]
        assert own.keys() == case["answer"].keys()
        for key, value in case["answer"].items():
            exact = key not in ("start", "end", "makespan")
            np.testing.assert_allclose(own[key], value, rtol=0 if exact else tolerance, atol=0, err_msg=case["name"])


def drawn(seed, chiplets, contention, count=8):
    """A case of whole numbers, so that a simulation with fractions is exact."""
    random = np.random.default_rng(seed)

    def bytes_(most=60):
        return int(random.integers(0, most) * (random.random() < 0.7))

    layers = [
        {"duration": int(random.integers(1, 12)), "output_bytes": bytes_(), "weight_bytes": bytes_(),
         "weights": bytes_(), "external": bytes_(), "outputs_read": bytes_(), "outputs_written": bytes_(),
         "edges": [{"from": int(p), "bytes": bytes_()} for p in random.permutation(j)[: random.integers(0, 3)]]}
        for j in range(count)
    ]  # fmt: skip
    return {
        "name": "drawn", "chiplets": chiplets, "contention": contention, "layers": layers, "order": list(range(count)),
        "bandwidth": {"interface": 3, "link": 5, "dram": [None, 7][seed % 2], "sram": [None, 6][seed // 2 % 2]},
        "assignment": random.integers(0, chiplets, count).tolist(), "keep": (random.random(count) < 0.6).tolist(),
        "resident": (random.random(count) < 0.5).tolist(),
    }  # fmt: skip


CASES = st.builds(
    drawn, st.integers(0, 10**6), st.integers(1, 9), st.sampled_from(["interface", "all", "mesh"])
)  # fmt: skip


def read(case):
    return read_handover(case, Place(None, "case"))


@settings(max_examples=60, deadline=None)
@given(CASES)
def test_bytes_are_neither_lost_nor_made(case):
    own = read(case)
    traffic = own.traffic
    moved = traffic.memory + traffic.own + traffic.pulls.sum(axis=1)
    layers = case["layers"]
    listed = [
        sum(layer[key] for key in ("weights", "external", "outputs_read", "outputs_written"))
        + sum(edge["bytes"] for edge in layer["edges"])
        for layer in layers
    ]
    assert moved.tolist() == listed
    assert not traffic.pulls[np.arange(len(layers)), own.chiplet].any()
    asked = own.resources
    interfaces = [r for r, name in enumerate(asked.names) if name.startswith("interface")]
    assert asked.amount[:, interfaces].sum(axis=1).tolist() == traffic.memory.tolist()
    assert (asked.binds[:, interfaces].sum(axis=1) == 1).all()
    assert asked.binds[asked.amount > 0].all()
    if case["contention"] == "interface":
        assert len(interfaces) == len(asked.names)


@settings(max_examples=25, deadline=None)
@given(case=CASES)
def test_times_are_those_of_a_plain_simulation(case, tmp_path_factory):
    own = read(case)
    asked = own.resources
    found = answers(tmp_path_factory.mktemp("case"), [case], timelines=True)[0]
    plain = plain_handover(own, asked)
    np.testing.assert_allclose(found["start"], [float(t) for t in plain.start], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["end"], [float(t) for t in plain.end], rtol=1e-9, atol=1e-9)
    for layer, pieces in enumerate(found["slowed"]):
        slow = [(float(a), float(b), float(rate)) for a, b, rate in plain.pieces[layer] if rate < 1]
        lost = sum((1 - rate) * (b - a) for a, b, rate in slow)
        told = sum((1 - piece["rate"]) * (piece["end"] - piece["start"]) for piece in pieces)
        assert [told, found["stall"][layer]] == pytest.approx([lost, lost], abs=1e-6)
        assert {piece["resource"] for piece in pieces} <= set(asked.names)
    start, end = (np.array([float(t) for t in times]) for times in (plain.start, plain.end))
    np.testing.assert_array_equal(found["sram_capacity"], sram_capacity(own, start, end))
    assert found["sram_capacity"] == [plain_capacity(own, plain, chiplet) for chiplet in range(own.chiplets)]


def plain_handover(own, asked):
    """The plain simulation of the fluid model, with what each layer asks of each resource."""
    resources = [[r for r in range(len(asked.names)) if asked.binds[j, r]] for j in range(len(own.duration))]
    return plain_fluid.simulate_asks(
        own.duration.astype(int).tolist(), asked.amount.astype(int).tolist(), own.predecessors, own.chiplet.tolist(),
        own.order.tolist(), resources, asked.bandwidth.tolist(), accelerators=own.chiplets,
    )  # fmt: skip


def plain_capacity(own, plain, chiplet):
    """The most that is in an SRAM just after any event."""
    layers = range(len(own.duration))
    weights = sum(own.weight_bytes[j] for j in layers if own.resident[j] and own.chiplet[j] == chiplet)
    consumers = {p: [c for q, c in zip(own.producer, own.consumer, strict=True) if q == p] for p in own.producer}
    lives = [
        (plain.start[j], max(plain.end[c] for c in consumers[j]), own.output_bytes[j])
        for j in layers
        if own.keep[j] and j in consumers and own.chiplet[j] == chiplet
    ]
    return weights + max((sum(b for s, e, b in lives if s <= t < e) for t, _, _ in lives), default=0)


@settings(max_examples=20, deadline=None)
@given(case=CASES)
def test_without_srams_it_is_the_fluid_model_of_a_search(case, tmp_path_factory):
    """Nothing kept or resident: layers of a chiplet use the same resources, and take as long as in `simulate`."""
    case |= {"keep": [False] * 8, "resident": [False] * 8}
    own = read(case)
    traffic = own.traffic
    asked = own.resources
    assert not traffic.own.any() and not traffic.pulls.any()
    assert not any("SRAM" in name for name in asked.names)
    uses = [[r for r in range(len(asked.names)) if asked.binds[j, r]] for j in range(8)]
    of_chiplet = dict(zip(own.chiplet.tolist(), uses, strict=True))
    for j in range(8):
        assert uses[j] == of_chiplet[own.chiplet[j]]
        assert set(asked.amount[j, uses[j]].tolist()) <= {traffic.memory[j]}
    fluid = {
        "name": "drawn", "duration": own.duration.tolist(), "bytes": traffic.memory.tolist(), "order": case["order"],
        "predecessors": own.predecessors, "accelerator": case["assignment"],
        "resource_bandwidth": [None if np.isinf(b) else b for b in asked.bandwidth.tolist()],
        "resources_of_accelerator": [of_chiplet.get(c, []) for c in range(own.chiplets)],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("case")
    (folder / "in.json").write_text(json.dumps({"format": "fluid-schedule/1", "cases": [fluid]}))
    evaluate_schedules(folder / "in.json", folder / "fluid.json")
    known = json.loads((folder / "fluid.json").read_text())["cases"][0]
    found = answers(folder, [case])[0]
    for key in ("start", "end"):
        np.testing.assert_allclose(found[key], known[key], rtol=1e-12)


def test_a_kept_output_takes_no_memory_and_is_pulled_by_others():
    case = copy.deepcopy(fuzz_documents.PACKAGE_SCHEDULE["cases"][0])
    own = read(case)
    traffic = own.traffic
    # Layer 0 keeps its output; 1 and 2 have resident weights; 2 keeps an output that no layer reads.
    assert traffic.memory.tolist() == [2.5 + 6, 2.5 + 8, 2.5 + 8 + 8]
    assert traffic.own.tolist() == [8, 6, 6]
    assert traffic.pulls.tolist() == [[0, 0, 0], [8, 0, 0], [3, 0, 0]]


BAD = [
    (["assignment", 0], 3, "there is no chiplet 3"),
    (["order"], [0, 1], "has 2 entries"),
    (["order"], [0, 1, 1], "layer 1 stands|job 1 stands"),
    (["order"], [2, 1, 0], None),
    (["layers", 0, "edges"], [{"from": 2, "bytes": 1}], "wait for each other"),
    (["layers", 1, "edges", 0, "from"], 7, "there is no layer 7"),
    (["layers", 1, "edges", 0, "from"], None, r"edges\[0\].from: is empty"),
    (["layers", 1, "edges", 0], {"bytes": 1}, r"edges\[0\].from: is missing"),
    (["layers", 1, "edges", 0], {"form": 0, "bytes": 1}, "did you mean 'from'"),
    (["layers", 1, "duration"], 0, "layers\\[1\\].duration"),
    (["layers", 1, "weights"], -1, "weights"),
    (["keep"], [True], "has 1 entries"),
    (["chiplets"], 0, "chiplets"),
    (["hop_latency"], 2, "hop_latency"),
    (["layers", 1, "edges", 0, "from"], -1, r"edges\[0\].from"),
    (["layers", 1, "edges", 0, "from"], "a", r"edges\[0\].from"),
    (["bandwidth", "sram"], 0, "sram"),
    (["bandwidth", "interface"], "4", "interface"),
    (["contention"], "none", "contention"),
]


@pytest.mark.parametrize("path, value, message", BAD)
def test_a_broken_case_is_a_row_with_the_place(tmp_path, path, value, message):
    case = copy.deepcopy(fuzz_documents.PACKAGE_SCHEDULE["cases"][0])
    at = case
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    bad, good = answers(tmp_path, [case, fuzz_documents.PACKAGE_SCHEDULE["cases"][1]])
    assert good["makespan"] > 0
    if message is None:  # an order that is not topological is fine unless chiplets wait for each other
        assert bad["makespan"] > 0
        return
    assert bad["makespan"] is None
    with pytest.raises(InputError, match=message):
        read(case)
    assert "cases[0]" in bad["reason"]


def test_the_command_and_tables_of_many_files(tmp_path, capsys):
    path, out = tmp_path / "cases.json", tmp_path / "out.json"
    path.write_text(json.dumps(fuzz_documents.PACKAGE_SCHEDULE))
    assert main(["evaluate", "schedules", str(path), "--out", str(out)]) == 0
    first, second = json.loads(out.read_text())["cases"]
    assert first["makespan"] == second["makespan"] > 0
    assert main(["evaluate", "schedules", str(out)]) == 2
    assert "is the answer of an evaluation" in capsys.readouterr().err
    assert main(["evaluate", "designs", str(path)]) == 2
    assert "mohamjax evaluate schedules" in capsys.readouterr().err
    assert main(["validate", str(path)]) == 0
    assert "package-schedule/1, 2 schedules, valid" in capsys.readouterr().out
    with pytest.raises(InputError, match="evaluate_files"):
        mj.read_schedules(path)
    mj.evaluate_files([path, path], tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv") as file:
        assert [float(row["makespan"]) for row in csv.DictReader(file)] == 4 * [first["makespan"]]


def test_short_lives_beside_long_schedules_count():
    """An output that lives for a cycle beside a layer of 10^12: times are told apart by rounding alone."""
    case = copy.deepcopy(fuzz_documents.PACKAGE_SCHEDULE["cases"][0])
    case |= {"resident": [False] * 3, "keep": [True, False, False], "assignment": [0, 1, 2]}
    for layer, duration in zip(case["layers"], (1, 1, 1e12), strict=True):
        layer |= dict.fromkeys(("weights", "external", "outputs_read", "outputs_written"), 0) | {"duration": duration}
        layer["edges"] = [edge | {"bytes": 0} for edge in layer["edges"]]
    case["layers"][2]["edges"] = []
    own = read(case)
    assert sram_capacity(own, np.array([0.0, 1, 0]), np.array([1.0, 2, 1e12])).tolist() == [8, 0, 0]


def test_fractions_are_exact():
    """The oracle itself: two layers on two chiplets share a memory of 3 bytes per cycle; each asks for 2."""
    plain = plain_fluid.simulate_asks([4, 4], [[8], [8]], [[], []], [0, 1], [0, 1], [[0], [0]], [3], accelerators=2)
    assert plain.makespan == Fraction(16, 3)
