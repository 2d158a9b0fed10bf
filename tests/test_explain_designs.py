"""Explanations of designs: their parts add up to the objectives, and they name the limits built into a case."""

import dataclasses
import itertools
import json

import jax
import numpy as np
import pytest
from design_cases import (
    TECHNOLOGY,
    TEMPLATES,
    application,
    chains,
    evaluation,
    random_designs,
    recast,
    reports,
    tables,
    wires_of,
)
from test_bounds import alike, design

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.io import explain_designs, explanations_text
from mohamjax.schedule import Evaluated

PACKAGE = PackageParameters(max_tiles=4, dram_bandwidth=6.0, link_bandwidth=3.0, router_area=2e4, transceiver_area=1e4)


def with_nests(made, share=0.75):
    """The tables with nests that compute during a share of their cycles."""
    temporal = np.asarray(made.mapping.temporal).copy()
    temporal[..., 0, 0] = np.maximum(1, share * made.cycles)
    return dataclasses.replace(made, mapping=dataclasses.replace(made.mapping, temporal=temporal))


def evaluated(problem, made, designs, package, templates=TEMPLATES):
    with jax.enable_x64(True):
        found = reports(designs, evaluation(problem, made, package, templates=templates))
    wires = wires_of(problem, made, templates)
    return Evaluated(problem, templates, TECHNOLOGY, package, made, wires, designs, found)


def rows(count):
    return [{"design_id": i, "valid": 1, "reason": ""} for i in range(count)]


def time(parts):
    return parts["compute_s"] + parts["onchip_limits_s"] + sum(parts["stalled_s"].values())


@pytest.mark.parametrize("seed", range(2))
def test_the_parts_add_up_to_the_objectives(seed):
    problem = chains(seed)
    made = with_nests(tables(problem, seed))
    designs = random_designs(problem, made, seed, 24, tiles=4)
    found = evaluated(problem, made, designs, PACKAGE)
    told = explain_designs(rows(24), found)
    assert told["format"] == "design-explanations/1" and len(told["designs"]) == 24
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    causes = set()
    for said, (latency, energy, area) in zip(told["designs"], found.reports.objectives, strict=True):
        near = {"rel": 1e-9}
        assert (said["latency_s"], said["energy_J"], said["area_mm2"]) == (latency, energy, area)
        assert time(said["critical_chain"]) == pytest.approx(latency, **near)
        for chip in said["chiplets"]:
            spent = chip["time"]
            assert time(spent) + spent["waiting_s"] + spent["idle_s"] == pytest.approx(latency, **near)
            assert min(spent["waiting_s"], spent["idle_s"], spent["onchip_limits_s"]) >= -1e-12 * latency
            causes |= set(spent["stalled_s"])
        assert sum(sum(c["energy_J"].values()) for c in said["chiplets"]) == pytest.approx(energy, **near)
        assert sum(sum(c["area_mm2"].values()) for c in said["chiplets"]) == pytest.approx(area, **near)
        assert sum(n["energy_J"] for n in said["networks"]) == pytest.approx(energy, **near)
        assert max(n["latency_s"] for n in said["networks"]) == pytest.approx(latency, **near)
        busy = sum(time(chip["time"]) for chip in said["chiplets"])
        assert sum(time(n["busy_s"]) for n in said["networks"]) == pytest.approx(busy, **near)
        assert sum(c["layers"] for c in said["chiplets"]) == sum(n["layers"] for n in said["networks"]) == 9
        chain = said["critical_chain"]["layers"]
        assert chain[0]["start_s"] == 0 and chain[-1]["end_s"] == pytest.approx(latency, **near)
        assert all(a["end_s"] == b["start_s"] for a, b in itertools.pairwise(chain))
        kinds, layers = said["layer_types"], said["layers"]
        assert sum(row["layers"] for row in kinds) == len(layers) == 9
        assert sum(row["busy_s"] for row in kinds) == pytest.approx(busy, **near)
        work = sum(layer.shape.macs for layer in problem.layers)
        for rows_ in (kinds, layers):
            done = sum(row["macs_per_cycle"] * row["busy_s"] for row in rows_)
            assert done == pytest.approx(work * 1e-9, rel=1e-9)
        for row in kinds:
            assert row["compute"] + row["buffers"] + row["offchip"] == pytest.approx(1, rel=1e-6)
        chain = said["critical_chain"]
        assert sum(chain["bound_s"].values()) == pytest.approx(said["latency_s"], rel=1e-6)
        assert list(chain["bound_s"].values()) == sorted(chain["bound_s"].values(), reverse=True)
        text = explanations_text({"designs": [said]})
        assert all(word in text for word in ("critical chain", "waiting", "router, transceiver", "net1", "MACs/cycle"))
    assert causes >= {"DRAM", "link"} and any(c.startswith("interface") for c in causes)


def test_single_precision_adds_up_too():
    problem = chains(0)
    made = with_nests(tables(problem, 0))
    designs = random_designs(problem, made, 0, 8, tiles=4)
    single = recast(made, np.float32)
    reported = reports(designs, evaluation(problem, single, PACKAGE))
    found = Evaluated(problem, TEMPLATES, TECHNOLOGY, PACKAGE, single, wires_of(problem, single), designs, reported)
    for said in explain_designs(rows(8), found)["designs"]:
        assert time(said["critical_chain"]) == pytest.approx(said["latency_s"], rel=2e-6)
        total = sum(sum(c["energy_J"].values()) for c in said["chiplets"])
        assert total == pytest.approx(said["energy_J"], rel=2e-6)


@pytest.mark.slow
def test_cycles_that_single_precision_rounds_up_bind_no_buffer():
    """16,777,219 cycles of computing become 16,777,220."""
    problem, package = application([[]]), PackageParameters(max_tiles=1)
    made = with_nests(alike(problem, [2**24 + 3], [1]), 1.0)
    single, one = recast(made, np.float32), design([0], [0], tiles=1)
    reported = reports(one, evaluation(problem, single, package, templates=TEMPLATES[1:2]))
    wires = wires_of(problem, single, TEMPLATES[1:2])
    rounded = Evaluated(problem, TEMPLATES[1:2], TECHNOLOGY, package, single, wires, one, reported)
    assert reported.timeline.end[0, 0] == 2**24 + 4
    exact = evaluated(problem, made, one, package, TEMPLATES[1:2])
    bound = [explain_designs(rows(1), found)["designs"][0]["layers"][0]["bound"] for found in (exact, rounded)]
    assert bound[0] == bound[1] in ("MACs", "mapping")


def test_a_case_worked_out_by_hand():
    """Two layers share an interface of 4 bytes per cycle that each alone would fill; a third waits for both."""
    problem = application([[], [], [0, 1]])
    made = with_nests(alike(problem, [100, 100, 100], [400, 400, 40]), 0.5)
    package = PackageParameters(max_tiles=3, interface_counts=((None, 1),))
    found = evaluated(problem, made, design([0, 1, 2], [0, 1, 2], tiles=3), package, TEMPLATES[1:2])
    (said,) = explain_designs(rows(1), found)["designs"]
    first, second, third = (chip["time"] for chip in said["chiplets"])
    for chip in (first, second):
        assert chip["compute_s"] == pytest.approx(50e-9) and chip["onchip_limits_s"] == pytest.approx(50e-9)
        assert chip["stalled_s"] == {"interface 0": pytest.approx(100e-9)}
        assert chip["waiting_s"] == pytest.approx(0, abs=1e-18) and chip["idle_s"] == pytest.approx(100e-9)
    assert [layer["bound"] for layer in said["layers"][:2]] == ["interface 0"] * 2
    assert third["waiting_s"] == pytest.approx(200e-9) and third["stalled_s"] == {}
    assert [x["layer"] for x in said["critical_chain"]["layers"]][-1] == 2
    third_bound = said["layers"][2]["bound"]
    assert third_bound in [level.name for level in TEMPLATES[1].levels]
    assert said["latency_s"] == pytest.approx(300e-9)
    assert [chip["place"] for chip in said["chiplets"]] == [[0, 0], [1, 0], [0, 1]]
    machine = found.reports.chiplets.machine
    for tile, chip in enumerate(said["chiplets"]):
        assert chip["macs"] == machine.mac_instances[0, tile] > 0
        assert [level["name"] for level in chip["levels"]] == [level.name for level in TEMPLATES[1].levels[:-1]]
    text = explanations_text({"designs": [said]})
    # Both of the first layers run for 200 cycles at half speed; the third takes 100, half of them due to its buffer.
    assert said["critical_chain"]["bound_s"] == {
        "interface 0": pytest.approx(200e-9),
        third_bound: pytest.approx(100e-9),
    }
    told = f"bound by interface 0 for 67% of the time (which loses 33% to it), {third_bound} for 33% of the time"
    assert f"a chain of 2 layers, {told}" in text
    assert "the 3 layers that take longest" in text
    interface = next(r for r in said["resources"] if r["name"] == "interface 0")
    assert interface["bytes"] == 840 and interface["full"] == pytest.approx(2 / 3)


def test_a_design_is_named_or_refused():
    problem = chains(0)
    made = with_nests(tables(problem, 0))
    found = evaluated(problem, made, random_designs(problem, made, 0, 2, tiles=4), PACKAGE)
    listed = [
        {"design_id": "a", "valid": 1, "reason": ""},
        {"design_id": "b", "valid": 0, "reason": "layer 3 is not scheduled"},
        {"design_id": 7, "valid": 1, "reason": ""},
    ]
    (said,) = explain_designs(listed, found, "7")["designs"]
    assert said["design_id"] == 7 and said["latency_s"] == found.reports.objectives[1, 0]
    for name, reason in (("b", "layer 3 is not scheduled"), ("c", "not in the file")):
        with pytest.raises(InputError, match=reason):
            explain_designs(listed, found, name)
    with pytest.raises(InputError):
        explain_designs(listed[1:2], None)
