"""Which keys of Timeloop's files are used, by its rules, and which are reported or refused; exports as a whole."""

import csv
import dataclasses
import itertools
import json
import math
import re

import fuzz_documents
import jax
import numpy as np
import pytest
import yaml
from conftest import reference

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import (
    PackageParameters,
    example_yaml,
    load_technology,
    load_template,
    load_templates,
    packaged_templates,
    template_arrays,
)
from mohamjax.io.designs import evaluate_designs
from mohamjax.io.samples import read_architectures, read_samples
from mohamjax.io.timeloop import evaluate_timeloop, read_timeloop
from mohamjax.io.timeloop_template import template_constraints, wider_than, write_timeloop_template
from mohamjax.io.timeloop_writer import write_timeloop, write_timeloop_designs, write_timeloop_mappings
from mohamjax.mapper import LayerMapper, MapperConfig
from mohamjax.mapping import Mapping, MappingTables, constraints, predict
from mohamjax.mapping.nest import padded
from mohamjax.schedule import Setup
from mohamjax.workload import DIMS, ApplicationModel, Layer, Network, WorkloadShape

ARCHITECTURE = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {width: 64, block-size: 4, word-bits: 16}}
    - {name: Buf, class: SRAM, attributes: {depth: 2048, width: 64, block-size: 4, word-bits: 16}}
    - {name: "Regs[0..3]", class: regfile, attributes: {depth: 48, width: 16, block-size: 1, word-bits: 16, meshX: 4}}
    - {name: "MAC[0..3]", class: intmac, attributes: {datawidth: 16, meshX: 4}}
"""
PROBLEM = "problem: {shape: cnn-layer, R: 3, S: 1, P: 4, Q: 1, C: 2, K: 4, N: 1}\n"
MAPPING = """
mapping:
- {target: Regs, type: temporal, factors: R=3, permutation: R}
- {target: Buf, type: spatial, factors: K=4, permutation: K, split: 1}
- {target: DRAM, type: temporal, factors: P=4 C=2, permutation: PC}
"""


def files(tmp_path, *texts):
    paths = [tmp_path / f"{n}.yaml" for n in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def with_attributes(level, attributes):
    """The architecture with additional attributes at a level."""
    line = next(line for line in ARCHITECTURE.splitlines() if re.search(rf'name: "?{level}\b', line))
    return ARCHITECTURE.replace(line, line.replace("attributes: {", f"attributes: {{{attributes}, "))


def tables(**actions):
    """An ERT with these actions of Buf, and all actions of the other components."""
    rows = [
        {"name": name, "actions": [{"name": "read", "energy": 1}, {"name": "write", "energy": 2}]}
        for name in ("system.DRAM", "system.Regs[0..3]")
    ]
    rows.append({"name": "system.MAC[0..3]", "actions": [{"name": "compute", "energy": 0.5}]})
    rows.append({"name": "system.Buf", "actions": [{"name": n, "energy": e} for n, e in actions.items()]})
    return yaml.safe_dump({"ERT": {"version": 0.3, "tables": rows}})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "energies"), [("1", [3577871.25, 78732]), ("2", [3577871.25, 116640]), ("a.ert", [3577871.25, 78732])]
)
def test_actions_of_a_table_against_timeloop(table, energies, tmp_path):
    """Energies of a buffer's inputs and outputs, as printed by Timeloop 3.0.3."""
    names = ("a.arch", "a.art", "big.prob", "timeloop-mapper.map", table)
    paths = [str(reference(f"timeloop/ert/{name}.yaml")) for name in names]
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", "mappings", "--links", "off", "--timeloop", *paths, "--out", str(out)]) == 0
    levels = {level["name"]: level for level in json.loads(out.read_text())["out"]["levels"]}
    assert levels["Buf"]["energy_pJ"] == [0, *energies]


ACTIONS = {
    "read": ("random_read", "read"),
    "fill": ("random_fill", "write"),
    "update": ("random_update", "random_fill", "write"),
}


@pytest.mark.parametrize(
    "present",
    [
        names
        for size in (2, 3, 4)
        for names in itertools.combinations(
            ("read", "random_read", "write", "random_fill", "random_update", "update", "fill", "leak"), size
        )
    ],
)
def test_the_first_action_that_there_is(present, tmp_path):
    energy = {name: 3.0 + n for n, name in enumerate(present)}
    given = read_timeloop(*files(tmp_path, ARCHITECTURE, tables(**energy)))
    machine = given.architecture.machine
    wanted = [next((energy[a] for a in names if a in energy), None) for names in ACTIONS.values()]
    updates = machine.access_energy[:, 1] if machine.update_energy is None else machine.update_energy
    assert [*machine.access_energy[1], updates[1]] == [e or 0 for e in wanted]
    lost = [f"{kind}s of Buf" for kind, e in zip(ACTIONS, wanted, strict=True) if e is None]
    assert len(given.notes) == bool(lost)
    assert all(text in given.notes[0] for text in lost)


def test_energies_that_an_architecture_states_itself(tmp_path):
    text = with_attributes("Buf", "vector-access-energy: 7.5, cluster-area: 11")
    text = text.replace("{datawidth: 16", "{energy: 0.75, area: 9, datawidth: 16")
    machine = read_timeloop(*files(tmp_path, text, tables(read=1, write=2, random_update=3))).architecture.machine
    assert machine.access_energy[1].tolist() == [7.5, 7.5]
    assert machine.update_energy is None
    assert (machine.area[1], machine.mac_area, machine.mac_energy) == (11, 9, 0.5)
    machine = read_timeloop(*files(tmp_path, text)).architecture.machine
    assert machine.mac_energy == 0.75
    areas = "ART: {version: 0.3, tables: [{name: system.Buf, area: 5}]}\n"
    assert read_timeloop(*files(tmp_path, text, areas)).architecture.machine.area[1] == 5


def test_operations_take_the_first_name_that_there_is(tmp_path):
    rows = [
        {"name": "system.MAC", "actions": [{"name": n, "energy": e} for n, e in actions]}
        for actions in ([("compute", 5), ("mac", 3), ("mac_random", 2)], [("multiply", 4)])
    ]
    texts = [yaml.safe_dump({"ERT": {"version": 0.3, "tables": [row]}}) for row in rows]
    first, second = (read_timeloop(*files(tmp_path, ARCHITECTURE, text)) for text in texts)
    assert first.architecture.machine.mac_energy == 2
    assert second.architecture.machine.mac_energy == 0
    assert "operations of MAC" in second.notes[0]


def test_the_largest_of_an_actions_energies(tmp_path):
    row = {"name": "system.Buf", "actions": [{"name": "read", "energy": e} for e in (3, 8, 5)]}
    text = yaml.safe_dump({"ERT": {"version": 0.3, "tables": [row]}})
    assert read_timeloop(*files(tmp_path, ARCHITECTURE, text)).architecture.machine.access_energy[1, 0] == 8


def test_attributes_by_timeloops_rules(tmp_path):
    def machine(level, attributes):
        return read_timeloop(*files(tmp_path, with_attributes(level, attributes))).architecture.machine

    assert machine("Buf", "bandwidth: 6").bandwidth[1].tolist() == [3, 3]
    assert machine("Buf", "bandwidth: 6, read_bandwidth: 5").bandwidth[1].tolist() == [5, 3]
    assert machine("Buf", "shared_bandwidth: 4").shared_bandwidth.tolist() == [math.inf, 4, math.inf]
    assert not machine("Buf", "technology: DRAM").reduces[1]
    assert not machine("Buf", "reduction_supported: false").reduces[1]
    assert machine("DRAM", "reduction_supported: true").reduces[2]
    assert machine("Buf", "energy-per-hop: 2, wire-energy: 3").hop_energy[1] == 2
    assert machine("Buf", "num-ports: 1, n_banks: 4, network-type: '1:N', min-utilization: 0").capacity[1] == 8192


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("network_fill_latency: 4", "network_fill_latency: is not modelled; leave it out"),
        ("wire-energy: 0.1", "wire-energy: is not modelled; give energy-per-hop"),
        ("energy-per-ingress: 0.1", "energy-per-ingress: is not modelled"),
        ("addr-gen-energy: 0.1", "addr-gen-energy: is not modelled"),
        ("min-utilization: 0.5", "min-utilization: is not modelled"),
        ("allow_overbooking: true", "allow_overbooking: is not modelled"),
        ("compression_supported: true", "compression_supported: is not modelled"),
        ("metadata_word_bits: 4", "metadata_word_bits: is not modelled"),
        ("network-type: 'M:N'", "'M:N' is not modelled"),
        ("entries: 8, sizeKB: 4", "sizeKB: is one of two sizes"),
        ("bandwidth: 0", "bandwidth: is 0"),
        ("reduction_supported: 1", "1 is no truth value"),
        ("block_size: 4", "is written as block_size too"),
    ],
)
def test_attributes_that_would_change_a_result(attributes, says, tmp_path):
    with pytest.raises(InputError) as error:
        read_timeloop(*files(tmp_path, with_attributes("Buf", attributes)))
    assert says in str(error.value)


def test_what_is_passed_over_is_told(tmp_path):
    text = with_attributes("Buf", "read_bandwith: 4")
    text = text.replace('    - {name: "Regs', '    - {name: adders, class: intadder}\n    - {name: "Regs')
    notes = read_timeloop(*files(tmp_path, text)).notes
    assert len(notes) == 2
    assert "adders (intadder)" in notes[0]
    assert "Buf, read_bandwith" in notes[1]
    with pytest.raises(InputError, match=r"networks \(XY_NoC\) are not modelled"):
        read_timeloop(*files(tmp_path, text.replace("intadder", "XY_NoC")))
    wire = "ERT: {version: 0.3, tables: [{name: system.wire, actions: [{name: transfer_random, energy: 1}]}]}\n"
    with pytest.raises(InputError, match="wires' energy"):
        read_timeloop(*files(tmp_path, ARCHITECTURE, wire))


def test_a_factor_of_0_is_the_whole_bound(tmp_path):
    def mapping(text):
        return read_timeloop(*files(tmp_path, ARCHITECTURE, PROBLEM, text)).mapping

    wanted = mapping(MAPPING)
    for old, new in (("P=4", "P=0"), ("K=4", "K=0"), ("R=3", "R=0"), ("P=4 C=2", "P0 C0 N0")):
        got = mapping(MAPPING.replace(old, new))
        np.testing.assert_array_equal(got.temporal, wanted.temporal)
        np.testing.assert_array_equal(got.spatial, wanted.spatial)
    split = MAPPING.replace("R=3", "R=3 P=2")
    mapping(split.replace("P=4", "P=2"))
    with pytest.raises(InputError, match="a factor of 0 is the whole bound of P, which has other factors too"):
        mapping(split.replace("P=4", "P=0"))


@pytest.mark.parametrize("level", ["Regs", "DRAM"])
def test_a_spatial_row_needs_several_children(level, tmp_path):
    row = f"- {{target: {level}, type: spatial, factors: K=1, permutation: K, split: 1}}\n"
    with pytest.raises(InputError, match=f"{level} has one child: Timeloop takes no spatial directive there"):
        read_timeloop(*files(tmp_path, ARCHITECTURE, PROBLEM, MAPPING + row))


@pytest.mark.slow
def test_what_enters_the_network_below_a_memory_that_does_not_add(tmp_path):
    """C, a reduction dimension, is spread over the memory's children; with R outside P it reads sums again."""
    text = ARCHITECTURE.replace("DRAM, class: DRAM", "Top, class: DRAM").replace("name: Buf, ", "name: 'Buf[0..1]', ")
    text = text.replace("{depth: 2048, ", "{depth: 2048, meshX: 2, ")
    mapping = """
mapping:
- {target: Regs, type: temporal, factors: P=2, permutation: P}
- {target: Top, type: spatial, factors: C=2, permutation: C, split: 1}
- {target: Top, type: temporal, factors: P=2 R=3 K=4, permutation: PRK}
"""
    paths = [str(p) for p in files(tmp_path, text, PROBLEM, mapping)]
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", "mappings", "--links", "off", "--timeloop", *paths, "--out", str(out)]) == 0
    got = json.loads(out.read_text())["out"]
    updates, size = got["levels"][2]["updates"][2], 4 * 4
    assert updates == 3 * size  # each sum arrives three times, once per R
    network = got["networks"][2]
    entered = 2 * updates - size
    assert network["ingresses"][2] == [[2, 1, entered, network["ingresses"][2][0][3]]]
    assert network["spatial_reductions"] == [0, 0, entered]
    assert network["avg_hops"][2] == network["ingresses"][2][0][3] / entered


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A folder of reference samples in the layout of `map --timeloop`, and the samples."""
    folder = tmp_path_factory.mktemp("export")
    machines = read_architectures(reference("timeloop/architectures.json"))
    samples = list(read_samples(reference("timeloop/samples_smoke.jsonl"), machines))[::4]
    for n, sample in enumerate(samples):
        write_timeloop(folder / f"{n:03d}-layer" / "a-00", sample.architecture, sample.shape, sample.mapping)
    return folder, samples


def test_a_folder_of_mappings_is_one_evaluation(export, tmp_path, capsys):
    folder, samples = export
    assert len({len(s.architecture.level_names) for s in samples}) > 1
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", "mappings", "--links", "off", "--timeloop", str(folder), "--out", str(out)]) == 0
    assert "warning" not in capsys.readouterr().err
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in rows] == [f"{n:03d}-layer/a-00" for n in range(len(samples))]
    found, areas = predict(samples, links=False)
    for n, row in enumerate(rows):
        assert row["ok"] == (found.reason[n] == 0)
        if row["ok"]:
            assert row["out"]["cycles"] == found.cycles.total[n]
            assert row["out"]["energy_pJ"] == pytest.approx(found.energy.total[n], rel=1e-12)
            assert row["out"]["area_um2"] == pytest.approx(areas[n], rel=1e-12)


@pytest.mark.slow
def test_several_mappings_share_what_is_named_beside_them(tmp_path):
    home = tmp_path / "home"
    (home / "fast").mkdir(parents=True)
    (home / "fast" / "mapping.yaml").write_text(MAPPING)
    slow = MAPPING.replace("P=4 C=2, permutation: PC", "P=4 C=2, permutation: CP")
    for path, text in (("arch", ARCHITECTURE), ("ert", tables(read=1, write=2)), ("problem", PROBLEM), ("slow", slow)):
        (home / f"{path}.yaml").write_text(text)
    together, apart = tmp_path / "together.jsonl", tmp_path / "apart.jsonl"
    named = [str(home / name) for name in ("arch.yaml", "slow.yaml", "problem.yaml", "fast/mapping.yaml", "ert.yaml")]
    for out, paths in ((together, [str(home)]), (apart, named)):
        with pytest.warns(UserWarning, match="there is no ART"):
            evaluate_timeloop(paths, out, links=False)
    first, second = ([json.loads(line) for line in out.read_text().splitlines()] for out in (together, apart))
    assert [row["id"] for row in first] == ["fast", "slow.yaml"]
    assert [row["id"] for row in second] == [str(home / "slow.yaml"), str(home / "fast" / "mapping.yaml")]
    assert [row["out"] for row in first] == [row["out"] for row in reversed(second)]
    assert first[0]["out"] != first[1]["out"]
    with pytest.raises(InputError, match="there is no mapping"):
        evaluate_timeloop([str(home / "arch.yaml")], tmp_path / "out.jsonl")


def test_a_mapping_that_cannot_be_read_is_a_row_and_the_others_go_on(tmp_path, capsys):
    home = tmp_path / "home"
    for name in ("a", "b", "c", "d", "e/1", "e/2"):
        (home / name).mkdir(parents=True)
        (home / name / "mapping.yaml").write_text(MAPPING)
    (home / "b" / "mapping.yaml").write_text(MAPPING.replace("C=2", "C=3"))
    (home / "c" / "mapping.yaml").write_text("mapping: [\n")
    (home / "d" / "mapping.yaml").write_text(MAPPING.replace("factors: K=4", "factors: K=x"))
    for name, text in (("arch", ARCHITECTURE), ("ert", tables(read=1, write=2)), ("problem", PROBLEM)):
        (home / f"{name}.yaml").write_text(text)
    (home / "e" / "arch.yaml").write_text("architecture: [\n")  # shared by two mappings, which are both rejected for it
    (home / "f.yaml").write_text("[\n")  # belongs to no known mapping
    out = tmp_path / "out.jsonl"
    assert main(["evaluate", "mappings", "--links", "off", "--timeloop", str(home), "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert '"samples": 7, "accepted": 1, "rejected": 6' in told
    assert "6 of 7 mappings could not be read and count as rejected" in told
    rows = {row["id"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert rows["a"]["ok"] and list(rows) == ["a", "b", "c", "d", "e/1", "e/2", "f.yaml"]
    for name in ("e/1", "e/2"):
        (broken,) = rows[name]["reject"]
        assert str(home / "e" / "arch.yaml") in broken["reason"] and "YAML" in broken["reason"]
    (wrong,) = rows["b"]["reject"]
    assert wrong == {
        "level": None,
        "reason": "mapping: the factors of C multiply to 3 (3 at DRAM), its bound is 2; change one of them, or add one",
    }
    assert "YAML" in rows["c"]["reject"][0]["reason"]
    assert "mapping, entry 1 from 0 (spatial at Buf), factors: 'K=x' is no factor" in rows["d"]["reject"][0]["reason"]
    assert rows["b"]["out"] is None and not rows["b"]["ok"]
    # If no mapping can be read, the command fails.
    assert main(["evaluate", "mappings", "--timeloop", str(home / "b"), "--out", str(out)]) == 2
    named = [str(home / name) for name in ("arch.yaml", "problem.yaml", "ert.yaml", "b/mapping.yaml")]
    assert main(["evaluate", "mappings", "--timeloop", *named, "--out", str(out)]) == 2
    assert "the factors of C multiply to 3 (3 at DRAM)" in capsys.readouterr().err


def test_dimensions_that_a_permutation_leaves_out_are_outermost(tmp_path):
    """As in Timeloop, with a warning: they come after the named ones, which are innermost first."""
    part = MAPPING.replace("permutation: PC", "permutation: P")
    for given, same in ((part, MAPPING), (MAPPING.replace("PC", "C"), MAPPING.replace("PC", "CP"))):
        read = [read_timeloop(*files(tmp_path, ARCHITECTURE, PROBLEM, text)).mapping for text in (given, same)]
        loops = [[d for d in one.order[-1] if one.temporal[-1, d] > 1] for one in read]
        assert loops[0] == loops[1]


def _tables(template, nests, technology):
    """Pareto tables of one layer on one template, with the fields that an export reads; sizes are the largest."""
    machine = jax.tree.map(lambda leaf: np.asarray(leaf)[0], template_arrays([template], technology)).machine
    mapping = jax.tree.map(lambda *leaves: np.stack(leaves)[None, None], *nests)
    fields = dict.fromkeys(field.name for field in dataclasses.fields(MappingTables))
    fields |= {"mapping": mapping, "count": np.array([[len(nests)]])}
    for name in ("capacity", "fanout"):
        leaf = getattr(machine, name)
        fields[name] = np.broadcast_to(leaf, (1, 1, len(nests), *leaf.shape))
    return MappingTables(**fields)


def test_designs_of_names_that_are_alike_have_folders_of_their_own(tmp_path):
    document = fuzz_documents.designs()
    first = document["designs"][0]
    document["designs"] = [{**first, "design_id": name} for name in ("x-2", "x", "x!")]
    (tmp_path / "designs.json").write_text(json.dumps(document))
    rows, evaluated = evaluate_designs(tmp_path / "designs.json")
    write_timeloop_designs(tmp_path / "out", evaluated, [row["design_id"] for row in rows])
    assert {path.name for path in (tmp_path / "out").glob("design-*")} == {"design-x-2", "design-x", "design-x-3"}


@pytest.mark.slow
def test_what_cannot_be_said_is_left_out_and_listed(tmp_path):
    layer = Layer("first layer", "conv", "Conv", WorkloadShape(P=8, K=3 * 2**20, C=5))
    application = ApplicationModel("one", (Network("net", (layer,)),))
    template, technology = load_template(packaged_templates()[0]), load_technology()
    setup = Setup(application, (template,), technology, PackageParameters())
    levels, dims = len(template.levels), len(DIMS)
    temporal = np.ones((levels, dims), np.int32)
    for letter, bound in zip(DIMS, layer.shape.bounds, strict=True):
        temporal[-1, DIMS.index(letter)] = bound
    order = np.tile(np.arange(dims, dtype=np.int32), (levels, 1))
    keep = np.array([level.keep for level in template.levels])
    spatial = np.ones((2, levels, dims), np.int32)
    good = Mapping(temporal=temporal, order=order, spatial=spatial, spatial_order=np.stack([order] * 2), keep=keep)
    wide = next(i for i, level in enumerate(template.levels) if max(level.fanout) > 1)
    p = DIMS.index("P")
    both = spatial.copy()
    both[:, wide, p] = 2
    outer = temporal.copy()
    outer[-1, p] = 2
    bad = good.replace(spatial=both, temporal=outer)
    made = _tables(template, [bad, good, bad], technology)
    exported = write_timeloop_mappings(tmp_path, setup, made)
    assert exported.written == 1
    assert len(exported.skipped) == 2
    assert all("P runs along both X and Y" in text for text in exported.skipped)
    assert (tmp_path / "skipped.txt").read_text().splitlines() == list(exported.skipped)
    with (tmp_path / "index.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    place = f"000-first_layer/{template.name}-01"
    assert (row["network"], row["layer"], row["template"], row["folder"]) == (
        "net",
        "first layer",
        template.name,
        place,
    )
    # More cycles than single precision represents exactly.
    assert float(row["cycles"]) == float(row["latency_cycles"]) == 8 * 3 * 2**20 * 5
    evaluate_timeloop([tmp_path], tmp_path / "out.jsonl", links=False)
    back = json.loads((tmp_path / "out.jsonl").read_text())
    assert back["id"] == place
    assert back["out"]["cycles"] == float(row["cycles"])
    assert back["out"]["energy_pJ"] == pytest.approx(float(row["energy_pJ"]), rel=1e-12)
    assert back["out"]["area_um2"] == pytest.approx(float(row["area_um2"]), rel=1e-12)
    assert "TIMELOOP_DISABLE_LINK_TRANSFERS=1" in (tmp_path / "README.txt").read_text()
    with pytest.raises(InputError, match="no mapping that Timeloop's files can say"):
        write_timeloop_mappings(tmp_path / "none", setup, _tables(template, [bad], technology))
    # Another export takes the place of this one; what is not ours stays.
    (tmp_path / "000-first_layer" / "mine.txt").write_text("")
    write_timeloop_mappings(tmp_path, setup, _tables(template, [good], technology))
    assert {path.name for path in (tmp_path / "000-first_layer").iterdir()} == {f"{template.name}-00", "mine.txt"}
    assert not (tmp_path / "skipped.txt").exists()


@pytest.mark.parametrize("name", [*packaged_templates(), "example"])
def test_a_template_with_its_dataflows(name, tmp_path):
    if name == "example":
        name = tmp_path / "example.yaml"
        name.write_text(example_yaml())
    template, folder = load_template(name), tmp_path / "out"
    assert main(["templates", "export", str(name), "--out", str(folder)]) == 0
    rules = sorted(folder.glob("constraints*.yaml"))
    assert len(rules) == len(template.dataflows)
    full = template_arrays([template], load_technology())
    machine = jax.tree.map(lambda leaf: np.asarray(leaf)[0], full.machine)
    for layer_type in template.layer_types:
        (own,) = [path for path in rules if len(rules) == 1 or layer_type in path.stem.split("-")]
        given = read_timeloop(*(folder / f"{part}.yaml" for part in ("arch", "ERT", "ART")), own)
        assert not given.notes
        np.testing.assert_allclose(given.architecture.machine.capacity, machine.capacity)
        np.testing.assert_array_equal(given.architecture.machine.fanout, machine.fanout)
        np.testing.assert_allclose(given.architecture.machine.access_energy, machine.access_energy, rtol=1e-5)
        wanted, got = constraints(template, layer_type, WorkloadShape(), len(template.levels)), given.constraints
        for field in ("temporal_max", "order"):
            np.testing.assert_array_equal(getattr(got, field), getattr(wanted, field), err_msg=field)
        np.testing.assert_array_equal(got.keep[:-1], wanted.keep[:-1])
        limits = np.where(machine.fanout.T[:, :, None] > 1, wanted.spatial_max, 1)
        choice = (limits > 1).all(axis=0).any(axis=1)  # levels where a dimension may run along either axis
        np.testing.assert_array_equal(got.spatial_max[:, ~choice], limits[:, ~choice])
        np.testing.assert_array_equal(got.spatial_max.max(axis=0), limits.max(axis=0))


UNLIMITED_FACTORS = """
format: template/1
name: wide
levels:
- {name: DRAM, kind: dram}
- {name: Buf, kind: sram, capacity_words: 4096, fanout: [4, 2]}
dataflows:
- layer_types: [conv]
  levels:
    DRAM: {temporal: all, order: [P, Q, K]}
    Buf: {temporal: all, order: [C, R, S], spatial: {X: [K, G, N], Y: [C, P, Q, R, S]}}
"""


def test_orders_and_splits_without_limits_of_factors_are_exported(tmp_path):
    (path,) = files(tmp_path, UNLIMITED_FACTORS)
    template = load_template(path)
    rows = template_constraints(template, "conv")["mapspace_constraints"]["targets"]
    assert [row for row in rows if row["type"] != "bypass"] == [
        {"target": "DRAM", "type": "temporal", "permutation": "PQK"},
        {"target": "Buf", "type": "temporal", "permutation": "CRS"},
        {"target": "Buf", "type": "spatial", "permutation": "GNKCPQRS", "split": 3},
    ]
    write_timeloop_template(tmp_path / "out", template, load_technology())
    got = read_timeloop(*(tmp_path / "out").glob("*.yaml")).constraints
    wanted = constraints(template, "conv", WorkloadShape(), len(template.levels))
    for field in ("temporal_max", "order", "spatial_max"):
        rows = slice(1) if field == "spatial_max" else slice(None)  # the DRAM has one child
        np.testing.assert_array_equal(getattr(got, field)[..., rows, :], getattr(wanted, field)[..., rows, :])


def test_constraints_say_where_they_are_wider_than_the_template(tmp_path):
    """Timeloop knows the axis of a dimension by one split of a permutation, which fits no dimension with two axes."""
    write_timeloop_template(tmp_path, load_template("eyeriss"), load_technology())
    text = (tmp_path / "constraints.yaml").read_text()
    assert text.splitlines()[0].startswith("# Exported by mohamjax")
    assert text.partition("\n")[2].startswith(
        "# shared_glb: wider than the template, since G and K may run along both axes: Timeloop may also run Q along "
        "Y, C along X, S along X.\n"
    )
    targets = template_constraints(load_template("eyeriss"), "conv")["mapspace_constraints"]["targets"]
    (own,) = [row for row in targets if row["type"] == "spatial"]
    assert own["permutation"] == "Q" and "split" not in own
    write_timeloop_template(tmp_path, load_template("simba"), load_technology())  # C, K and G: nothing else to say
    assert not any("wider" in path.read_text() for path in tmp_path.glob("constraints*.yaml"))


def test_limits_that_differ_between_the_axes_are_told(tmp_path):
    text = UNLIMITED_FACTORS.replace("{X: [K, G, N], Y: [C, P, Q, R, S]}", "{X: {K: 4}, Y: {K: 2}}")
    (path,) = files(tmp_path, text)
    (told,) = wider_than(load_template(path), "conv")
    assert told.endswith("Timeloop may also run K up to the larger of its limits along either axis.")


def test_an_export_leaves_no_constraints_of_an_earlier_one(tmp_path):
    write_timeloop_template(tmp_path, load_template("shidiannao"), load_technology())
    assert len(list(tmp_path.glob("constraints-*.yaml"))) > 1
    (tmp_path / "constraints-mine.yaml").write_text("of the user")
    (tmp_path / "constraints-rnn.yaml").write_text("of the user")  # called as one of an export might be
    write_timeloop_template(tmp_path, load_template("eyeriss"), load_technology())
    assert {path.name for path in tmp_path.glob("constraints*")} == {
        "constraints.yaml", "constraints-mine.yaml", "constraints-rnn.yaml",
    }  # fmt: skip


TWICE = """
mapping:
- {target: Regs, type: temporal, factors: R=3}
- {target: Buf, type: temporal, factors: P=2}
- {target: Buf, type: spatial, factors: K=2}
- {target: DRAM, type: temporal, factors: P=2 C=2 K=2}
"""
BYPASSING = MAPPING + "- {target: Buf, type: bypass, keep: [Inputs, Outputs], bypass: [Weights]}\n"
KEEPS, OBEYS = "keeps other data spaces than its constraint", ""


@pytest.fixture(scope="module")
def constrained(tmp_path_factory):
    """The first reason to reject each of these mappings under its constraint, all from one evaluation."""
    folder = tmp_path_factory.mktemp("constrained")
    files(folder, ARCHITECTURE, PROBLEM)
    for n, (rule, mapping, _) in enumerate(CONSTRAINED):
        own = folder / f"{n:02d}"
        own.mkdir()
        (own / "mapping.yaml").write_text(mapping)
        (own / "rule.yaml").write_text(f"architecture_constraints: {{targets: [{rule}]}}\n")
    with pytest.warns(UserWarning):  # no tables, and rejected mappings
        evaluate_timeloop([folder], folder / "out.jsonl")
    rows = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return [OBEYS if row["ok"] else row["reject"][0]["reason"] for row in rows]


CONSTRAINED = [
    # A data space that no list names is free.
    ("{target: Buf, type: temporal, factors: R=1}", BYPASSING, OBEYS),
    ("{target: Buf, type: bypass, bypass: [Weights]}", BYPASSING, OBEYS),
    ("{target: Buf, type: bypass, keep: [Inputs]}", BYPASSING, OBEYS),
    ("{target: Buf, type: bypass, keep: [Weights]}", BYPASSING, KEEPS),
    ("{target: Buf, type: bypass, bypass: [Inputs]}", BYPASSING, KEEPS),
    ("{target: Buf, type: bypass, bypass: [Inputs]}", MAPPING, KEEPS),
    # A factor with "=" is exact: P is 4 and C is 2 in this problem.
    ("{target: Buf, type: temporal, factors: P=2}", TWICE, OBEYS),
    ("{target: Buf, type: temporal, factors: P<=4}", TWICE, OBEYS),
    ("{target: Buf, type: temporal, factors: P=4}", TWICE, "the temporal factor 2 of P breaks its constraint, 4"),
    ("{target: Buf, type: temporal, factors: P=0}", TWICE, "the temporal factor 2 of P breaks its constraint, 4"),
    ("{target: Buf, type: temporal, factors: R=1 C=2}", TWICE, "the temporal factor 1 of C breaks its constraint, 2"),
    ("{target: DRAM, type: temporal, factors: C=0}", TWICE, OBEYS),
    ("{target: Buf, type: temporal, factors: C=4}", TWICE, OBEYS),  # Timeloop ignores what exceeds the bound
    ("{target: Buf, type: spatial, factors: K=2}", TWICE, OBEYS),
    ("{target: Buf, type: spatial, factors: K<=4}", TWICE, OBEYS),
    ("{target: Buf, type: spatial, factors: K=4}", TWICE, "the spatial factor 2 of K breaks its constraint, 4"),
    ("{target: Buf, type: spatial, factors: K=0}", MAPPING, OBEYS),
]


@pytest.mark.parametrize("number", range(len(CONSTRAINED)))
def test_constraints_hold_as_in_timeloop(constrained, number):
    wanted = CONSTRAINED[number][-1]
    assert wanted in constrained[number]
    assert bool(wanted) == bool(constrained[number])


@pytest.mark.slow
def test_groups_in_parallel_and_padded_mappings_come_back_with_the_same_counts(tmp_path):
    depth = Layer("depth", "dwconv", "Conv", WorkloadShape(G=24, P=7, Q=7, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(N=5, K=37, C=23), predecessors=(0,))
    application = ApplicationModel("toy", (Network("net", (depth, head)),))
    templates, technology = load_templates(["simba", "eyeriss"]), load_technology()
    config = MapperConfig(population=48, generations=8, descent=8)
    tables = LayerMapper(application.unique_layers, templates, technology, config).search(jax.random.key(0))
    bounds = np.array([layer.shape.bounds for layer in application.unique_layers])
    assert (padded(tables.mapping, bounds[:, None, None])[tables.count > 0] > 1).any()
    assert (np.asarray(tables.mapping.spatial)[0, ..., DIMS.index("G")] > 1).any()
    write_timeloop_mappings(
        tmp_path / "all", Setup(application, tuple(templates), technology, PackageParameters()), tables
    )
    evaluate_timeloop([str(tmp_path / "all")], tmp_path / "out.jsonl", links=False)
    found = {row["id"]: row["out"] for row in map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())}
    with (tmp_path / "all" / "index.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found) > 20
    # The rows are in the order of the tables; what comes back is compared level by level.
    places = [(u, t, m) for u, t in np.ndindex(2, 2) for m in range(int(tables.count[u, t]))]
    assert len(rows) == len(places)
    for row, (u, t, m) in zip(rows, places, strict=True):
        out = found[row["folder"]]
        assert out["cycles"] == float(row["cycles"])
        assert out["energy_pJ"] == pytest.approx(float(row["energy_pJ"]), rel=1e-9)
        nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf)[at], tables.mapping)
        larger = padded(nest, bounds[u])
        assert row["padded"] == " ".join(f"{d}={b}" for d, b in zip(DIMS, larger, strict=True) if b > 1)
        levels = len(out["levels"])
        reads = [sum(level["vector_reads"]) * level["utilized_instances"][0] for level in out["levels"]]
        np.testing.assert_allclose(reads, tables.block_reads[u, t, m, :levels], rtol=1e-6)
    assert any(row["padded"] for row in rows)
