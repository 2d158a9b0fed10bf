"""Templates and the machines made from them."""

import copy
import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.errors import InputError
from mohamjax.hardware import (
    COMPONENT_CLASSES,
    DATA_SPACES,
    component_costs,
    describe,
    example_yaml,
    fits,
    load_technology,
    load_template,
    load_templates,
    packaged_templates,
    resize,
    template_arrays,
    template_from_dict,
    template_to_dict,
    template_to_yaml,
    with_word_bits,
)
from mohamjax.mapping.space import constraints
from mohamjax.workload import DIMS, LAYER_TYPES, WorkloadShape

TECHNOLOGY = load_technology()
EXAMPLE = yaml.safe_load(example_yaml())
TEMPLATES = (*load_templates(), template_from_dict(EXAMPLE))
ARRAYS = template_arrays(TEMPLATES, TECHNOLOGY)
jit_resize = jax.jit(resize)


def one(index, arrays=ARRAYS):
    return jax.tree.map(lambda leaf: leaf[index], arrays)


def leaves_equal(a, b, **tolerance):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerance), a, b)


# The packaged templates


@pytest.mark.parametrize("index", range(3))
def test_structure_is_table_4(index):
    data = json.loads(reference("timeloop/architectures.json").read_text())
    architectures = next(v for v in data.values() if isinstance(v, list) and isinstance(v[0], dict))
    want, template, machine = architectures[index], TEMPLATES[index], one(index).machine
    assert template.name == want["name"] == packaged_templates()[index]
    if template.name == "eyeriss":
        # Table 4's sizes; the reference has the released structure, with a level per column.
        column, buffer = (next(x for x in want["levels"] if x["name"] == n) for n in ("DummyBuffer", "shared_glb"))
        assert template.levels[3].fanout == (buffer["fanoutX"], column["fanoutY"])
        assert (buffer["fanoutY"], column["fanoutX"]) == (1, 1)
        template = load_template("eyeriss-released")
        machine = jax.tree.map(lambda leaf: leaf[0], template_arrays([template], TECHNOLOGY)).machine
    assert template.level_names == tuple(level["name"] for level in want["levels"])
    for i, level in enumerate(want["levels"]):
        assert template.levels[i].kind == level["kind"]
        assert np.asarray(machine.keep[i]).tolist() == [s in level["keep_default"] for s in DATA_SPACES]
        assert machine.word_bits[i] == level["word_bits"]
        assert machine.block_words[i] == level["block_words"]
        assert machine.fanout[i].tolist() == [level["fanoutX"], level["fanoutY"]]
        assert machine.mesh[i].tolist() == [level["meshX"], level["meshY"]]
        assert machine.instances[i] == level["instances"]
        assert bool(machine.reduces[i]) == (level["kind"] != "dram")
        if level["kind"] not in ("dram", "dummy"):
            assert machine.capacity[i] == level["capacity_words"]
        if level["kind"] != "dram":
            limits = [math.inf if level[k] is None else level[k] for k in ("read_bw", "write_bw")]
            assert machine.bandwidth[i].tolist() == limits
    outermost = len(want["levels"]) - 1
    assert np.all(np.isinf(machine.bandwidth[outermost]))
    assert np.isinf(machine.capacity[outermost])
    assert machine.mac_mesh.tolist() == [want["mac"]["meshX"], want["mac"]["meshY"]]
    assert machine.mac_instances == want["mac"]["instances"]


def test_layer_types_that_run():
    eyeriss, simba, shidiannao = TEMPLATES[:3]
    assert simba.layer_types == eyeriss.layer_types == shidiannao.layer_types == LAYER_TYPES
    released = load_template("eyeriss-released")
    assert released.layer_types == tuple(t for t in LAYER_TYPES if t != "dwconv")
    assert not released.runs("dwconv")
    with pytest.raises(InputError, match="template eyeriss-released: does not run layers of type 'dwconv'"):
        released.rule("dwconv")


def test_the_released_eyeriss_differs_by_its_columns_alone():
    released = load_template("eyeriss-released")
    column = rules(released, "conv")["DummyBuffer"]
    assert set(column.spatial_y) == {"S", "C", "K"} and not column.spatial_x
    assert set(rules(released, "conv")["shared_glb"].spatial_x) == {"Q", "K"}
    sizes = {level.name: level.capacity_words for level in released.levels if level.name != "DummyBuffer"}
    assert sizes == {level.name: level.capacity_words for level in TEMPLATES[0].levels}


def rules(template, layer_type):
    return dict(zip(template.level_names, template.rule(layer_type), strict=True))


def test_dataflow_constraints():
    eyeriss, simba, shidiannao = TEMPLATES[:3]
    for layer_type in eyeriss.layer_types:
        rule = rules(eyeriss, layer_type)
        assert set(rule["psum_spad"].temporal) == {"K"}
        assert set(rule["weights_spad"].temporal) == {"R", "C"}
        assert not rule["ifmap_spad"].temporal
        assert set(rule["shared_glb"].spatial_x) == {"Q", "K", "G"}
        assert set(rule["shared_glb"].spatial_y) == {"S", "C", "K", "G"}
        assert set(rule["shared_glb"].temporal) == {"G", "N", "K", "C", "P"}
        assert rule["shared_glb"].order[:7] == tuple("QRSCPNK")
    for layer_type in LAYER_TYPES:
        rule = rules(simba, layer_type)
        assert set(rule["GlobalBuffer"].temporal) == set(DIMS) - {"R", "S"}
        assert rule["GlobalBuffer"].order[:7] == tuple("PQCRSKN")
        assert set(rule["GlobalBuffer"].spatial_x) == set(rule["GlobalBuffer"].spatial_y) == {"C", "K", "G"}
        assert set(rule["PEInputBuffer"].spatial_x) == {"K"}
        assert not rule["PEInputBuffer"].temporal
        assert set(rule["PEWeightBuffer"].temporal) == {"C", "R", "S"}
        assert set(rule["PEAccuBuffer"].temporal) == {"K"}
        assert set(rule["PEAccuBuffer"].spatial_x) == {"C"}
        assert not rule["PEWeightRegs"].temporal
    for layer_type in shidiannao.layer_types:
        synapses = rules(shidiannao, layer_type)["SynapsesBuffer"]
        axes = (set(synapses.spatial_x), set(synapses.spatial_y))
        assert axes == (({"K"}, {"N"}) if layer_type in ("fc", "bmm", "rnn") else ({"P"}, {"Q"}))
        assert not {"P", "Q"} & set(synapses.temporal)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)
def test_rules_of_every_template(template):
    for layer_type in template.layer_types:
        per_level = template.rule(layer_type)
        assert len(per_level) == len(template.levels)
        assert per_level[-1].temporal == dict.fromkeys(DIMS)
        assert not per_level[-1].order
        assert not per_level[-1].spatial_x and not per_level[-1].spatial_y
        for rule in per_level:
            complete = template is not TEMPLATES[-1]  # the example leaves some loops free
            assert not rule.order or sorted(rule.order) == sorted(DIMS if complete else "CKPQ")
            if layer_type == "rnn":
                assert "P" not in rule.spatial_x | rule.spatial_y
        # Groups run side by side only where every child has buffers of its own for all three data spaces.
        for i, rule in enumerate(per_level):
            if "G" in rule.spatial_x | rule.spatial_y:
                assert np.any([level.keep for level in template.levels[:i]], axis=0).all()
        # Groups are temporal in the off-chip memory and in the buffer next to it only.
        assert not any("G" in rule.temporal for rule in per_level[:-2])
        assert fits(template, layer_type, WorkloadShape(K=3)) is None


# Reading and writing


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t.name)
def test_round_trips(template, tmp_path):
    again = template_from_dict(template_to_dict(template))
    assert again == template
    assert hash(again) == hash(template)
    assert again.content_hash() == template.content_hash()
    assert template_from_dict(json.loads(json.dumps(template_to_dict(template)))) == template
    path = tmp_path / "again.yaml"
    path.write_text(template_to_yaml(template))
    assert load_template(path) == template == load_template(str(path))


def test_content_hash_sees_what_counts():
    data = template_to_dict(TEMPLATES[1])
    base = TEMPLATES[1].content_hash()
    assert template_from_dict({**data, "description": "other words"}).content_hash() == base
    for change in (
        lambda d: d["levels"][1].update(capacity_words=65535),
        lambda d: d["levels"][2].update(fanout=[8, 2]),
        lambda d: d["dataflows"][0]["levels"]["GlobalBuffer"].update(order=["K"]),
        lambda d: d["mac"].update(accumulator_bits=32),
    ):
        changed = copy.deepcopy(data)
        change(changed)
        assert template_from_dict(changed).content_hash() != base


def test_specifications_of_loops():
    data = copy.deepcopy(EXAMPLE)
    level = data["dataflows"][0]["levels"]["Accumulators"]
    level["temporal"] = {"K": 8, "P": "any"}
    level["order"] = ["P"]
    rule = template_from_dict(data).rule("conv")[0]
    assert rule.temporal == {"K": 8, "P": None}
    assert rule.order == ("P",)
    limits = constraints(template_from_dict(data), "conv", WorkloadShape(K=8), len(data["levels"]))
    assert limits.order[0].tolist() == [DIMS.index("P"), *[-1] * 7]  # the others lie outside, in any order
    del data["dataflows"]
    free = template_from_dict(data)
    assert free.layer_types == LAYER_TYPES
    assert all(r.temporal == r.spatial_x == r.spatial_y == dict.fromkeys(DIMS) for r in free.rule("bmm"))


def test_steps_of_a_recurrent_layer_follow_each_other_on_every_template():
    free = {key: value for key, value in copy.deepcopy(EXAMPLE).items() if key != "dataflows"}
    for template in (*TEMPLATES, template_from_dict(free)):
        if template.runs("rnn"):
            limits = constraints(template, "rnn", WorkloadShape(K=8, C=4, P=96), len(template.levels))
            assert (limits.spatial_max[..., DIMS.index("P")] == 1).all()
            assert limits.temporal_max[-1, DIMS.index("P")] > 1


def test_accumulators_grow_with_products():
    for width, bits in ((4, 16), (8, 24), (16, 40)):
        data = {key: value for key, value in copy.deepcopy(EXAMPLE).items() if key != "mac"} | {"word_bits": width}
        assert template_from_dict(data).mac.accumulator_bits == bits


def test_description_tells_the_levels_and_loops():
    text = describe(TEMPLATES[1])
    for part in ("simba", "GlobalBuffer", "65536", "16 x 8", "MACs: 4096", "dwconv", "P Q C R S K N G", "0.952"):
        assert part in text
    assert "C<=4" in describe(TEMPLATES[3])


def changed(path, value):
    """The example with the value at a key path set, or removed where it is `...`."""
    data = copy.deepcopy(EXAMPLE)
    *parents, last = path
    place = data
    for key in parents:
        place = place[key]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data


FLOW = ("dataflows", 0, "levels")
COSTS = {"read_energy_pJ": 1, "write_energy_pJ": 1, "area_um2": 1}


@pytest.mark.parametrize(
    ("path", "value", "parts"),
    [
        (("levles",), [], ["levles", "unknown key", "did you mean 'levels'"]),
        (("zzz",), 1, ["zzz", "unknown key", "known keys: format, name"]),
        (("name",), ..., ["name", "is missing"]),
        (("name",), 7, ["name", "expected text", "number 7"]),
        (("name",), "a,b", ["name", "'a,b' is not a name of letters"]),
        (("name",), "chiplets", ["name", "counts all chiplets"]),
        (("format",), "template/2", ["format", "template/2", "did you mean 'template/1'"]),
        (("levels",), ..., ["levels", "is missing"]),
        (("levels",), "DRAM", ["levels", "expected a list"]),
        (("levels",), EXAMPLE["levels"][:1], ["levels", "has 1 entries", "one on-chip level"]),
        (("levels", 0), "DRAM", ["levels[0]", "expected a mapping"]),
        (("levels", 0, "kind"), "sram", ["levels[0].kind", "outermost", "kind dram"]),
        (("levels", 0, "keep"), ["Inputs", "Outputs"], ["levels[0].keep", "does not keep Weights"]),
        (("levels", 0, "capacity_words"), 100, ["levels[0].capacity_words", "no capacity limit"]),
        (("levels", 1, "name"), "DRAM", ["levels[1].name", "second level is called 'DRAM'"]),
        (("levels", 1, "name"), "MACs", ["levels[1].name", "'MACs' is what explanations call another part"]),
        (("levels", 1, "kind"), "dram", ["levels[1].kind", "inside another"]),
        (("levels", 1, "kind"), "srma", ["levels[1].kind", "did you mean 'sram'"]),
        (("levels", 1, "kind"), "dummy", ["levels[1].keep", "stores nothing"]),
        (("levels", 3, "kind"), "regfile", ["levels[3].kind", "'regfile' is a component", "write `kind: rf`"]),
        (("levels", 1, "kind"), "register", ["levels[1].kind", "'register' is a component", "write `kind: reg`"]),
        (("levels", 1, "kind"), "fixed", ["levels[1].kind", "write `kind: sram`", "`component: fixed` beside it"]),
        (("levels", 1, "kind"), "none", ["levels[1].kind", "write `kind: dummy`"]),
        (("levels", 1, "component"), "cache", ["levels[1].component", "unknown value 'cache'", "regfile"]),
        (("levels", 0, "component"), "sram", ["levels[0].component", "kind 'dram'", "dram, fixed, none"]),
        (("levels", 1, "component"), "dram", ["levels[1].component", "kind 'sram'"]),
        (("levels", 1, "component"), "fixed", ["levels[1].costs", "is missing"]),
        (("levels", 1, "costs"), COSTS, ["levels[1].costs", "'fixed'"]),
        (("levels", 1, "dram_type"), "HBM2", ["levels[1].dram_type", "'dram'"]),
        (("levels", 0, "dram_type"), "HBM3", ["levels[0].dram_type", "did you mean 'HBM2'"]),
        (("levels", 1, "ports"), 3, ["levels[1].ports", "up to 2"]),
        (("levels", 1, "keep"), ["Inputs", "Psums"], ["levels[1].keep[1]", "unknown value 'Psums'", "Outputs"]),
        (("levels", 1, "keep"), "Inputs", ["levels[1].keep", "expected a list"]),
        (("levels", 1, "capacity_words"), ..., ["levels[1].capacity_words", "is missing"]),
        (("levels", 1, "capacity_words"), 0, ["levels[1].capacity_words", "too small"]),
        (("levels", 1, "capacity_words"), -5, ["levels[1].capacity_words", "too small"]),
        (("levels", 1, "capacity_words"), 0.5, ["levels[1].capacity_words", "not whole"]),
        (("levels", 1, "capacity_words"), 1.5, ["levels[1].capacity_words", "not whole"]),
        (("levels", 1, "capacity_words"), "big", ["levels[1].capacity_words", "expected a whole number"]),
        (("levels", 1, "capacity_words"), True, ["levels[1].capacity_words", "true/false"]),
        (("levels", 1, "capacity_words"), 10**400, ["levels[1].capacity_words", "too large"]),
        (("levels", 1, "capacity_words"), math.inf, ["levels[1].capacity_words", "inf is not whole"]),
        (("levels", 1, "capacity_words"), 4, ["levels[1].capacity_words", "one access of 8 words"]),
        (("levels", 1, "block_words"), 0, ["levels[1].block_words", "too small"]),
        (("levels", 1, "word_bits"), 0, ["levels[1].word_bits", "too small"]),
        (("levels", 1, "fanout"), [8], ["levels[1].fanout", "write [X, Y]"]),
        (("levels", 1, "fanout"), [8, 0], ["levels[1].fanout[1]", "at least 1"]),
        (("levels", 1, "fanout"), 8, ["levels[1].fanout", "expected a list"]),
        (("levels", 1, "bandwidth"), 0, ["levels[1].bandwidth", "above 0"]),
        (("levels", 1, "bandwidth"), [1, 2, 3], ["levels[1].bandwidth", "has 3 entries", "[read, write]"]),
        (("levels", 1, "hop_energy_pJ"), -1, ["levels[1].hop_energy_pJ", "too small"]),
        (("levels", 1, "hop_energy_pJ"), "wires", ["levels[1].hop_energy_pJ", "did you mean 'wire'"]),
        (("levels", 1, "granularity_rows"), -16, ["levels[1].granularity_rows", "too small"]),
        (("levels", 1, "capacity"), 16, ["levels[1].capacity", "did you mean 'capacity_words'"]),
        (("mac",), 8, ["mac", "expected a mapping"]),
        (("mac", "width"), 8, ["mac.width", "did you mean 'width_bits'"]),
        (("mac", "energy_pJ"), math.nan, ["mac.energy_pJ", "expected a number"]),
        (("dataflows",), [], ["dataflows", "is empty", "leave out the key"]),
        (("dataflows", 0, "layer_types"), [], ["dataflows[0].layer_types", "is empty", "layer type"]),
        (("dataflows", 0, "layer_types"), ["convv"], ["layer_types[0]", "did you mean 'conv'"]),
        (("dataflows", 0, "layer_types"), ["conv", "fc"], ["dataflows[1].layer_types[0]", "'fc'", "twice"]),
        ((*FLOW, "Bufer"), {}, ["dataflows[0].levels.Bufer", "did you mean 'Buffer'"]),
        ((*FLOW, "Buffer", "temporl"), "all", ["levels.Buffer.temporl", "did you mean 'temporal'"]),
        ((*FLOW, "Buffer", "temporal"), ["X"], ["levels.Buffer.temporal[0]", "unknown value 'X'", "G, N, K"]),
        ((*FLOW, "Buffer", "temporal"), "everything", ["levels.Buffer.temporal", "dimension letters"]),
        ((*FLOW, "Buffer", "temporal"), ["K", "K"], ["levels.Buffer.temporal", "K occurs twice"]),
        ((*FLOW, "Buffer", "temporal"), {"K": 0}, ["levels.Buffer.temporal.K", "at least 1"]),
        ((*FLOW, "Buffer", "spatial"), {"Z": ["K"]}, ["levels.Buffer.spatial.Z", "unknown key"]),
        ((*FLOW, "Buffer", "spatial", "X"), ["k"], ["levels.Buffer.spatial.X", "unknown value 'k'", "G, N, K"]),
        ((*FLOW, "Buffer", "order"), ["P", "Q", "P"], ["levels.Buffer.order[2]", "P occurs twice"]),
        ((*FLOW, "Buffer", "order"), ["P", "W"], ["levels.Buffer.order[1]", "unknown value 'W'"]),
        ((*FLOW, "DRAM", "temporal"), ["K", "C"], ["levels.DRAM.temporal", "every dimension"]),
        ((*FLOW, "DRAM"), ..., ["levels.DRAM.temporal", "every dimension"]),
    ],
)  # fmt: skip
def test_bad_template_is_one_line_that_says_where(path, value, parts):
    with pytest.raises(InputError) as error:
        template_from_dict(changed(path, value), file="mine.yaml")
    message = str(error.value)
    assert message.startswith("mine.yaml: ")
    assert "\n" not in message
    assert error.value.remedy
    for part in parts:
        assert part in message


def test_a_template_where_nothing_fits():
    data = changed(("levels", 2, "keep"), list(DATA_SPACES))
    data["levels"][2] |= {"capacity_words": 2, "block_words": 1}
    with pytest.raises(InputError, match="level Operands keeps 3 data spaces and has room for 2 word"):
        template_from_dict(data, file="mine.yaml")
    assert "does not run a dwconv layer" in str(fits(load_template("eyeriss-released"), "dwconv"))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["is empty"]),
        ("# nothing\n", ["is empty"]),
        ("- a\n- b\n", ["holds a list at its top"]),
        ("name: [a\nlevels: b", ["is not valid YAML", "line 2"]),
        ("name: a\n\tlevels: b", ["is not valid YAML", "line 2"]),
        ("name: a\nname: b", ["is not valid YAML", "'name' is written twice"]),
        ("name: !!python/object:os.system x", ["is not valid YAML"]),
        ("name: \x00", ["is not valid YAML"]),
        ("[" * 5000, ["is not valid YAML"]),
    ],
)
def test_files_that_are_no_templates(tmp_path, text, parts):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_template(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value)


def test_templates_that_are_not_there(tmp_path):
    with pytest.raises(InputError, match="did you mean 'simba'"):
        load_template("smba")
    with pytest.raises(InputError, match="no such file"):
        load_template(tmp_path / "mine.yaml")
    with pytest.raises(InputError, match="is a folder"):
        load_template(tmp_path)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        load_template(tmp_path / "bytes.yaml")
    with pytest.raises(InputError, match="second template is called 'simba'"):
        load_templates(["simba", "eyeriss", "simba"])
    with pytest.raises(InputError, match="no template is given"):
        load_templates([])


# Machines


def test_machine_at_full_size_is_the_template():
    for i in range(len(TEMPLATES)):
        template = one(i)
        machine = jit_resize(template, TECHNOLOGY, template.machine.capacity, template.machine.fanout)
        leaves_equal(machine, template.machine, rtol=1e-6)


def test_costs_of_the_packaged_templates():
    # Accelergy's totals, at the sizes of its designs: those of Simba are Table 4's.
    simba = one(1).machine
    area = float(jnp.sum(simba.area * simba.instances) + simba.mac_area * simba.mac_instances)
    assert area == pytest.approx(67183352.625, rel=1e-4)
    # Its Eyeriss has a shared buffer of 131072 and weight scratchpads of 384 words.
    eyeriss = one(0, template_arrays([load_template("eyeriss-released")], TECHNOLOGY, levels=6))
    capacity = eyeriss.machine.capacity.at[jnp.asarray([1, 4])].set(jnp.asarray([384.0, 131072.0]))
    machine = jit_resize(eyeriss, TECHNOLOGY, capacity, eyeriss.machine.fanout)
    area = float(jnp.sum(machine.area * machine.instances) + machine.mac_area * machine.mac_instances)
    assert area == pytest.approx(9391546.46, rel=1e-4)
    np.testing.assert_allclose(machine.hop_energy, [0, 0, 0, 0.18476976, 0.64006123, 0], rtol=1e-4)
    np.testing.assert_allclose(one(1).machine.hop_energy, [0, 0, 0, 0, 0.952, 0], rtol=1e-6)
    assert float(machine.mac_energy) == pytest.approx(1.20198, rel=1e-4)


@pytest.mark.slow
def test_resize_by_hand():
    template = one(3)  # Accumulators, Operands, Buffer, DRAM, two padded levels
    capacity = jnp.asarray([16.0, 260, 4096, 5, 7, 7])
    fanout = jnp.asarray([[2.0, 1], [1, 1], [3, 5], [1, 1], [9, 9], [9, 9]])
    machine = jit_resize(template, TECHNOLOGY, capacity, fanout)
    assert machine.mesh.tolist() == [[3, 5], [3, 5], [1, 1], [1, 1], [1, 1], [1, 1]]
    assert machine.instances.tolist() == [15, 15, 1, 1, 1, 1]
    assert machine.mac_mesh.tolist() == [6, 5]
    assert machine.mac_instances == 30
    assert machine.fanout[4:].tolist() == [[1, 1], [1, 1]]
    assert machine.capacity.tolist() == [16, 260, 4096, math.inf, math.inf, math.inf]
    for level, cls, rows, bits in ((0, "regfile", 16, 24), (1, "sram", 65, 32), (2, "sram", 512, 64)):
        want = component_costs(TECHNOLOGY, COMPONENT_CLASSES.index(cls), float(rows), float(bits))
        np.testing.assert_allclose(machine.access_energy[level], want[:2], rtol=1e-6)
        np.testing.assert_allclose(machine.area[level], want[2], rtol=1e-6)
    np.testing.assert_allclose(machine.access_energy[3], 8 * 8 * 8)
    assert not np.any(machine.access_energy[4:]) and not np.any(machine.area[3:])
    leaves_equal(machine.bandwidth, template.machine.bandwidth)
    leaves_equal(machine.hop_energy, template.machine.hop_energy)


def test_fixed_costs_and_given_mac():
    data = changed(("levels", 1, "component"), "fixed")
    data["levels"][1]["costs"] = {"read_energy_pJ": 3, "write_energy_pJ": 4, "area_um2": 500}
    data["mac"] |= {"energy_pJ": 0.5, "area_um2": 100}
    arrays = one(0, template_arrays([template_from_dict(data)], TECHNOLOGY))
    machine = arrays.machine
    assert machine.access_energy[2].tolist() == [3, 4]
    assert machine.area[2] == 500
    assert (machine.mac_energy, machine.mac_area) == (0.5, 100)
    smaller = jit_resize(arrays, TECHNOLOGY, machine.capacity.at[2].set(64), machine.fanout)
    assert smaller.area[2] == 500
    unused = jit_resize(arrays, TECHNOLOGY, machine.capacity.at[2].set(0), machine.fanout)
    assert unused.area[2] == 0


def test_wires_to_macs_without_area_have_derivatives():
    data = copy.deepcopy(EXAMPLE)
    data["mac"] = {"energy_pJ": 1, "area_um2": 0}
    for level in data["levels"][1:]:
        level["hop_energy_pJ"] = "wire"
    arrays = one(0, template_arrays([template_from_dict(data)], TECHNOLOGY))
    capacity, fanout = arrays.machine.capacity, arrays.machine.fanout

    def hops(scale):
        scaled = {name: getattr(TECHNOLOGY, name) * scale for name in ("multiplier", "adder", "wire")}
        sram = TECHNOLOGY.sram + jnp.asarray([0, 0, 1.0]) * jnp.log2(scale)
        return resize(arrays, TECHNOLOGY.replace(sram=sram, **scaled), capacity, fanout).hop_energy

    energy, slope = jax.jit(lambda scale: jax.jvp(hops, (scale,), (1.0,)))(1.0)
    assert energy[0] == 0 and np.any(energy > 0) and np.all(np.isfinite(slope))
    np.testing.assert_allclose(slope[0], 0)


@pytest.mark.slow
def test_padding_and_stacking():
    padded = template_arrays(TEMPLATES, TECHNOLOGY, levels=9)
    for i, template in enumerate(TEMPLATES):
        n = len(template.levels)
        machine, alone = one(i, padded), one(0, template_arrays([template], TECHNOLOGY))
        assert np.asarray(machine.machine.level_mask).tolist() == [True] * n + [False] * (9 - n)
        for a, b in zip(jax.tree.leaves(machine), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[:n] if a.shape[:1] == (9,) else a, b, rtol=1e-6)
        rest = machine.machine
        assert np.all(np.isinf(rest.capacity[n:])) and np.all(np.isinf(rest.bandwidth[n:]))
        assert np.all(rest.fanout[n:] == 1) and np.all(rest.mesh[n:] == 1) and not np.any(rest.keep[n:])
        assert not np.any(rest.area[n:]) and not np.any(rest.access_energy[n:]) and not np.any(rest.hop_energy[n:])
    with pytest.raises(ValueError, match="levels=3"):
        template_arrays(TEMPLATES, TECHNOLOGY, levels=3)
    with pytest.raises(ValueError, match="at least one"):
        template_arrays([], TECHNOLOGY)


def test_granularity():
    assert one(0).granularity.tolist() == [16, 16, 16, 16, 0, 0]
    assert one(1).granularity.tolist() == [0, 16, 16, 16, 16, 0]
    assert one(2).granularity.tolist() == [0, 0, 16, 16, 0, 0]


def test_ports_need_a_table(tmp_path):
    (tmp_path / "sram.csv").write_text(
        "width_bits,depth_rows,n_rw_ports,read_energy_pJ_per_access,write_energy_pJ_per_access,area_um2\n"
        "64,100,1,2,3,1000\n"
    )
    technology = load_technology(tmp_path / "sram.csv")
    template_arrays(TEMPLATES, technology)
    two_ports = template_from_dict(changed(("levels", 1, "ports"), 2))
    with pytest.raises(InputError, match="level Buffer: the technology's SRAM table has no rows for 2 port"):
        template_arrays([two_ports], technology)
    dearer = one(0, template_arrays([two_ports], TECHNOLOGY)).machine
    assert dearer.area[2] > 1.5 * one(3).machine.area[2]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3), st.lists(st.floats(0.01, 1), min_size=6, max_size=6), st.integers(0, 5))
def test_a_level_that_grows_changes_its_own_costs_alone(index, shares, grown):
    """Costs need not rise: a larger memory may be cheaper in CACTI."""
    template = one(index)
    full = template.machine
    capacity = jnp.where(jnp.isinf(full.capacity), full.capacity, jnp.ceil(full.capacity * jnp.asarray(shares)))
    small = jit_resize(template, TECHNOLOGY, capacity, full.fanout)
    large = jit_resize(template, TECHNOLOGY, capacity.at[grown].set(full.capacity[grown]), full.fanout)
    others = np.arange(len(full.area)) != grown
    np.testing.assert_array_equal(large.area[others], small.area[others])
    np.testing.assert_array_equal(large.access_energy[others], small.access_energy[others])
    np.testing.assert_allclose(large.area[grown], full.area[grown], rtol=1e-6)
    np.testing.assert_allclose(large.access_energy[grown], full.access_energy[grown], rtol=1e-6)
    # Wires of the levels above are as long as the area that they cross is wide.
    change, wires = np.sign(large.area[grown] - small.area[grown]), np.sign(large.hop_energy - small.hop_energy)
    assert np.all((wires == 0) | (wires == change))
    assert small.mac_instances == full.mac_instances


def test_one_compilation_serves_all_templates_and_sizes():
    many = jax.jit(jax.vmap(resize, in_axes=(0, None, 0, 0)))
    machines = many(ARRAYS, TECHNOLOGY, ARRAYS.machine.capacity, ARRAYS.machine.fanout)
    leaves_equal(machines, ARRAYS.machine, rtol=1e-6)
    order = jnp.asarray([2, 0, 3, 1])
    mixed = jax.tree.map(lambda leaf: leaf[order], ARRAYS)
    halves = many(mixed, TECHNOLOGY, jnp.ceil(mixed.machine.capacity / 2), mixed.machine.fanout)
    assert many._cache_size() == 1
    for row, i in enumerate(order.tolist()):
        alone = jit_resize(one(i), TECHNOLOGY, jnp.ceil(one(i).machine.capacity / 2), one(i).machine.fanout)
        leaves_equal(jax.tree.map(lambda leaf, row=row: leaf[row], halves), alone, rtol=1e-6)


@pytest.mark.slow
def test_double_precision():
    with jax.enable_x64(True):
        arrays = template_arrays(TEMPLATES, TECHNOLOGY, dtype=jnp.float64)
        floats = [leaf for leaf in jax.tree.leaves(arrays) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        assert all(leaf.dtype == jnp.float64 for leaf in floats)
        leaves_equal(arrays, ARRAYS, rtol=1e-5)
        single = template_arrays(TEMPLATES, TECHNOLOGY)
        floats = [leaf for leaf in jax.tree.leaves(single) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        assert all(leaf.dtype == jnp.float32 for leaf in floats)


def test_hops_of_wider_words_cost_as_much_more():
    """A stated energy per hop is that of a word; so it follows the level's own word, also that of accumulators."""
    for name in packaged_templates():
        template = load_template(name)
        for before, after in zip(template.levels, with_word_bits(template, 32).levels, strict=True):
            if before.hop_energy_pJ is None:
                assert after.hop_energy_pJ is None
            else:
                expected = before.hop_energy_pJ * after.word_bits / before.word_bits
                assert after.hop_energy_pJ == pytest.approx(expected)
