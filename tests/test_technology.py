"""Technology tables: Accelergy's numbers, the interpolation compared with a plain one, and users' own tables."""

import csv
import dataclasses
import importlib.util
import itertools
import json
import math
import pathlib
import types

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import (
    COMPONENT_CLASSES,
    DRAM_TYPES,
    RecordForm,
    cacti,
    component_costs,
    component_leakage,
    counting_leakage,
    load_technology,
    load_templates,
    mac_costs,
    mac_leakage,
    packaged_technologies,
    packaged_templates,
    parts,
    recorded_technology,
    slow_buffers,
    sram_times,
    technology_hash,
    technology_record,
)
from mohamjax.hardware.technology import packaged_sram_rows
from mohamjax.runtime.struct import stack

TECHNOLOGY = load_technology()
ROWS = packaged_sram_rows()
costs = jax.jit(component_costs)
leakages = jax.jit(component_leakage)


def cost(cls, depth, width, **options):
    values = costs(TECHNOLOGY, COMPONENT_CLASSES.index(cls), float(depth), float(width), **options)
    return np.array([float(v) for v in values])


def plain_sram(depth, width, ports=1):
    """Log-log interpolation directly on the table's rows, with the nearer row where CACTI jumps between two."""

    def column(w):
        part = ROWS[(ROWS[:, 0] == w) & (ROWS[:, 2] == ports)]
        part = part[np.argsort(part[:, 1])]
        i = min(max(np.searchsorted(part[:, 1], depth, side="right") - 1, 0), len(part) - 2)
        low, high = part[i], part[i + 1]
        ratio, change = high[1] / low[1], high[3:] / low[3:]
        t = math.log(depth / low[1]) / math.log(ratio)
        if ratio <= 1.04 and (np.any(change < 1 / 1.01) or np.any(change > 1.01 * ratio**1.2)):
            t = round(t)
        return (1 - t) * np.log(low[3:6]) + t * np.log(high[3:6])

    widths = np.unique(ROWS[ROWS[:, 2] == ports, 0])
    low, high = widths[widths <= width].max(), widths[widths >= width].min()
    t = 0 if low == high else math.log(width / low) / math.log(high / low)
    bits = math.ceil(math.log2(depth))
    return np.exp((1 - t) * column(low) + t * column(high)) + bits * np.array(TECHNOLOGY.address_generator)


def accelergy_components():
    data = json.loads(reference("timeloop/accelergy_architectures.json").read_text())
    return [(a["name"], level) for a in data["architectures"] for level in a["levels"]]


def test_buffers_cost_what_accelergy_says():
    checked = 0
    for _, level in accelergy_components():
        component = level["accelergy_component"]
        if component is None or "depth" not in component:
            continue
        cls = {"smartbuffer_SRAM": "sram", "smartbuffer_RF": "regfile"}[component["cls"]]
        want = [level["read_energy_pJ"], level["update_energy_pJ"], level["area_um2_per_instance"]]
        np.testing.assert_allclose(cost(cls, component["depth"], component["width"]), want, rtol=1e-4)
        checked += 1
    assert checked == 17


def test_dram_registers_and_macs_cost_what_accelergy_says():
    data = json.loads(reference("timeloop/accelergy_architectures.json").read_text())
    for architecture in data["architectures"]:
        mac = architecture["mac"]
        np.testing.assert_allclose(
            mac_costs(TECHNOLOGY, 8, 24), [mac["energy_pJ"], mac["area_um2_per_instance"]], rtol=1e-4
        )
        for level in architecture["levels"]:
            if level["kind"] == "dram":
                width = level["word_bits"] * level["block_size_words"]
                want = [level["read_energy_pJ"], level["update_energy_pJ"], 0]
                np.testing.assert_allclose(cost("dram", np.inf, width), want, rtol=1e-6)
            if level["kind"] == "register":
                # Accelergy counts a whole cluster of registers; ours is one of them.
                want = [level["read_energy_pJ"] / level["cluster_size"], 0, level["area_um2_per_instance"]]
                np.testing.assert_allclose(cost("register", 1, level["word_bits"]), want, rtol=1e-4)


def test_arithmetic_is_the_tables():
    with reference("timeloop/component_tables/arithmetic_45nm.csv").open() as file:
        for row in csv.DictReader(file):
            a, b = float(row["width_a_bits"]), float(row["width_b_bits"])
            want = [float(row["energy_pJ_per_action"]), float(row["area_um2"])]
            if row["component"] == "int_mac":
                np.testing.assert_allclose(mac_costs(TECHNOLOGY, a, b), want, rtol=1e-4)
            elif row["component"] == "int_multiplier":
                np.testing.assert_allclose(mac_costs(TECHNOLOGY, a, 0), want, rtol=1e-4)
            elif row["component"] == "int_adder":
                np.testing.assert_allclose(mac_costs(TECHNOLOGY, 0, b), want, rtol=1e-4)


def test_register_and_comparator_figures_give_every_register_file_row():
    # A register file in the tables: an access reads one row of registers and uses `depth` comparators.
    register, comparator = np.array(TECHNOLOGY.register), np.array(TECHNOLOGY.comparator)
    with reference("timeloop/component_tables/regfile_45nm.csv").open() as file:
        for row in csv.DictReader(file):
            depth, width = float(row["depth_words"]), float(row["width_bits"])
            compared = comparator if row["component"] == "regfile" else 0 * comparator
            access = width * register + depth * compared
            area = depth * (width * register + compared)[2]
            want = [row[c] for c in ("read_energy_pJ_per_access", "write_energy_pJ_per_access", "area_um2")]
            np.testing.assert_allclose([*access[:2], area], np.array(want, float), rtol=1e-4)


@pytest.mark.parametrize("name", packaged_technologies())
def test_every_row_of_every_table_is_met(name):
    technology, rows = load_technology(name), packaged_sram_rows(name)
    rows = rows[np.arange(len(ROWS)) % len(rows)]  # equally many rows for all tables: compiled once
    ports = rows[:, 2].astype(int)
    got = costs(technology, COMPONENT_CLASSES.index("sram"), rows[:, 1], rows[:, 0], ports=ports)
    address = np.ceil(np.log2(rows[:, 1]))[:, None] * technology.address_generator
    np.testing.assert_allclose(np.stack(got, axis=-1) - address, rows[:, 3:6], rtol=1e-4)
    leaks = leakages(technology, COMPONENT_CLASSES.index("sram"), *jnp.float32(rows[:, 1::-1].T), ports)
    np.testing.assert_allclose(leaks, rows[:, 6], rtol=1e-4)
    times, known = sram_times(technology, rows[:, 1], rows[:, 0], ports), ~np.isnan(rows[:, 7:])
    assert known.mean() > 0.9 or name == "45nm-coarse"  # 45nm-coarse has cycle times only
    np.testing.assert_allclose(times[known], rows[:, 7:][known], rtol=1e-4)


def test_technologies_have_one_shape_and_compile_once():
    traced = jax.jit(lambda *arguments: component_costs(*arguments))  # with a cache of its own
    values = [float(traced(load_technology(name), 1, 2048.0, 64.0)[0]) for name in packaged_technologies()]
    assert traced._cache_size() == 1
    assert values[1] == pytest.approx(values[0], rel=1e-5)  # both 45 nm tables have this size
    assert len({round(value, 4) for value in values}) == len(values) - 1
    stacked = stack([load_technology("45nm"), load_technology("22nm")])
    read = jax.vmap(component_costs, (0, None, None, None))(stacked, 1, 2048.0, 64.0)[0]
    np.testing.assert_allclose(read, [values[0], values[2]], rtol=1e-6)


@settings(max_examples=200, deadline=None)
@given(st.integers(16, 65536), st.floats(8, 512), st.sampled_from([1, 2]))
def test_look_ups_are_the_plain_ones(depth, width, ports):
    with jax.enable_x64(True):
        got = costs(TECHNOLOGY, 1, jnp.asarray(float(depth)), jnp.asarray(width), ports=jnp.asarray(ports))
        np.testing.assert_allclose([float(v) for v in got], plain_sram(depth, width, ports), rtol=1e-9)
    np.testing.assert_allclose(cost("sram", depth, width, ports=ports), plain_sram(depth, width, ports), rtol=1e-4)


@pytest.mark.parametrize("name", packaged_technologies())
@pytest.mark.parametrize("rows", [64, 1024, 8192])
def test_a_memory_wider_than_the_table_is_several_of_the_widest(name, rows):
    technology, sizes = load_technology(name), jnp.asarray([512.0, 1024.0, 2048.0, 4096.0])
    address = math.ceil(math.log2(rows)) * np.asarray(technology.address_generator)
    figures = np.stack(costs(technology, 1, jnp.full(4, float(rows)), sizes, ports=1)) - address[:, None]
    np.testing.assert_allclose(figures / figures[:, :1], np.broadcast_to([1, 2, 4, 8], figures.shape), rtol=1e-4)
    times = sram_times(technology, rows, np.asarray(sizes))
    np.testing.assert_array_equal(times, np.broadcast_to(times[:1], times.shape))


@pytest.mark.parametrize("name", packaged_technologies())
def test_a_memory_narrower_than_the_table_follows_the_plug_in_from_32_bits(name):
    """Accelergy's plug-in for CACTI: energy x (0.7 width ratio + 0.3) below 32 bits, area linear."""
    technology = dataclasses.replace(load_technology(name), address_generator=np.zeros(3))
    with jax.enable_x64(True):
        known = [ports for ports in (1, 2) if not np.isnan(technology.sram[ports - 1]).any()]
        for rows, ports in itertools.product((16.0, 64.0, 700.0, 1024.0, 65536.0), known):
            width = jnp.asarray([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0])
            found = np.stack(costs(technology, 1, jnp.full(8, rows), width, ports=ports))
            rule = 0.7 * np.asarray(width) / 32 + 0.3
            np.testing.assert_allclose(found[:2] / found[:2, -1:], [rule, rule], rtol=1e-4)
            np.testing.assert_allclose(found[2] / found[2, -1], width / 32, rtol=1e-4)
    # Half of all energies is half of these too, as in a sweep.
    halved = technology.replace(sram=technology.sram - np.array([1.0, 1.0, 0.0]))
    read = jax.vmap(component_costs, (0, None, None, None))(stack([technology, halved]), 1, 64.0, 2.0)[0]
    np.testing.assert_allclose(read[1], read[0] / 2, rtol=1e-6)


def test_narrow_memories_of_a_table_with_narrow_rows_fall_at_most_as_the_rule_says(tmp_path):
    path = tmp_path / "sram.csv"
    for wide, slope in ((1.9, 0.7), (1.5, 0.5), (0.9, 0.0)):
        path.write_text(HEADER + f"8,512,1,1,1,500\n16,512,1,{wide},{wide},1000\n")
        mine = dataclasses.replace(load_technology(path), address_generator=np.zeros(3))
        found = np.stack(costs(mine, 1, jnp.full(3, 512.0), jnp.asarray([8.0, 4.0, 1.0])))
        np.testing.assert_allclose(found[0], [1, 1 - slope / 2, 1 - slope * 7 / 8], rtol=1e-5)
        np.testing.assert_allclose(found[2], [500, 250, 62.5], rtol=1e-5)
    path.write_text(HEADER + "64,512,1,1,1,512\n")  # one row: the rule from there
    mine = dataclasses.replace(load_technology(path), address_generator=np.zeros(3))
    np.testing.assert_allclose(costs(mine, 1, 512.0, 4.0), [0.7 / 16 + 0.3, 0.7 / 16 + 0.3, 32], rtol=1e-5)


def test_both_sides_of_a_jump_stay():
    # CACTI changes the organisation of this memory: 30 % less read energy with 16 more rows.
    sides = ROWS[(ROWS[:, 0] == 192) & (ROWS[:, 2] == 1) & np.isin(ROWS[:, 1], (496, 512))]
    assert sides[1, 3] / sides[0, 3] < 0.71
    bare = dataclasses.replace(TECHNOLOGY, address_generator=np.zeros(3))
    rows = np.array([496, 503, 505, 512.0])
    read = np.asarray(costs(bare, COMPONENT_CLASSES.index("sram"), rows, 192.0)[0])
    np.testing.assert_allclose(read, sides[[0, 0, 1, 1], 3], rtol=1e-5)


def heldout(file):
    path = pathlib.Path(__file__).parents[1] / "experiments" / "results" / file
    with path.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    names = np.array([row.pop("technology") for row in rows])
    return names, np.array([[float(x) for x in row.values()] for row in rows])


def table_errors(name, rows):
    bare = dataclasses.replace(load_technology(name), address_generator=np.zeros(3))
    got = costs(bare, COMPONENT_CLASSES.index("sram"), rows[:, 1], rows[:, 0], ports=rows[:, 2].astype(int))
    return np.abs(np.stack(got, axis=-1) / rows[:, 3:6] - 1)


def test_sizes_that_cacti_was_asked_for_are_within_the_stated_error():
    names, rows = heldout("technology_heldout.csv")
    one = (names == "45nm") & (rows[:, 2] == 1)
    assert one.sum() == 200
    assert np.all(np.median(table_errors("45nm", rows[one]), axis=0) < 0.01)
    for name in set(names):
        assert np.all(np.median(table_errors(name, rows[names == name]), axis=0) < 0.01)
        assert np.all(table_errors(name, rows[names == name]) < 0.6)  # between widths, organisations mix


def test_chiplets_of_the_packaged_templates_are_within_one_percent():
    names, rows = heldout("technology_chiplets.csv")
    templates = load_templates(packaged_templates())
    every = {(w, r, ports) for w, ports, most in cacti.memories_of(templates) for r in range(16, most + 1, 16)}
    assert {tuple(size) for size in rows[:, :3]} == every and len(rows) == len(every) and set(names) == {"45nm"}
    assert np.all(table_errors("45nm", rows) < 0.01)
    assert np.quantile(table_errors("45nm-coarse", rows), 0.9, axis=0).max() > 0.05
    # At 45 nm, rows with a jump between them are just the 16 rows apart by which buffers grow. So no chiplet depends on
    # the nearer row, and all lie on a straight line between rows of one organisation.
    part = ROWS[(ROWS[:, 0] == 64) & (ROWS[:, 2] == 1)]
    part = part[np.argsort(part[:, 1])]
    ratio, change = part[1:, 1] / part[:-1, 1], part[1:, 3:6] / part[:-1, 3:6]
    leaps = ((change < 1 / 1.01) | (change > 1.01 * ratio[:, None] ** 1.2)).any(axis=1) & (part[:-1, 1] >= 64)
    assert leaps.any() and np.all(np.diff(part[:, 1])[leaps] == 16)


@pytest.mark.parametrize(("depth", "bits"), [(1, 0), (2, 1), (3, 2), (16, 4), (17, 5), (4096, 12), (4097, 13)])
def test_address_bits_are_exact_at_powers_of_two(depth, bits):
    without = load_technology()
    without = dataclasses.replace(without, address_generator=np.zeros(3))
    bare = component_costs(without, COMPONENT_CLASSES.index("regfile"), float(depth), 8.0)
    np.testing.assert_allclose(
        cost("regfile", depth, 8) - [float(b) for b in bare],
        bits * np.array(TECHNOLOGY.address_generator),
        rtol=1e-3,
        atol=1e-6,
    )


@pytest.mark.parametrize("cls", ["regfile", "register"])
@pytest.mark.parametrize("width", [8.0, 24.0, 64.0, 512.0])
def test_area_and_read_energy_of_registers_never_shrink_with_rows(cls, width):
    # Those of SRAMs do, where CACTI changes the organisation of the array.
    depth = jnp.unique(jnp.round(2 ** jnp.linspace(0, 22, 600)))
    read, _, area = costs(TECHNOLOGY, COMPONENT_CLASSES.index(cls), depth, width)
    assert np.all(np.diff(read) >= -1e-5 * np.asarray(read[1:]))
    assert np.all(np.diff(area) >= 0)
    assert np.all(np.asarray(read) > 0)


def test_nothing_costs_nothing():
    assert not cost("none", 512, 64).any()
    assert not cost("fixed", 512, 64).any()
    for cls in ("sram", "regfile", "register", "dram"):
        assert not cost(cls, 0, 64).any()


def test_classes_are_selected_element_by_element_and_compile_once():
    traced = jax.jit(jax.vmap(component_costs, in_axes=(None, 0, 0, 0)))
    ids = jnp.arange(len(COMPONENT_CLASSES))
    together = traced(TECHNOLOGY, ids, jnp.full(ids.shape, 300.0), jnp.full(ids.shape, 16.0))
    for i, name in enumerate(COMPONENT_CLASSES):
        np.testing.assert_allclose([float(v[i]) for v in together], cost(name, 300, 16), rtol=1e-6)
    traced(load_technology(), ids[::-1], jnp.full(ids.shape, 7.0), jnp.full(ids.shape, 24.0))
    assert traced._cache_size() == 1


def test_double_precision_follows_the_sizes():
    with jax.enable_x64(True):
        got = component_costs(TECHNOLOGY, 1, jnp.asarray(3000.0, jnp.float64), 48.0)
        assert all(v.dtype == jnp.float64 for v in got)
        np.testing.assert_allclose([float(v) for v in got], plain_sram(3000, 48), rtol=1e-12)
        single = component_costs(TECHNOLOGY, 1, jnp.asarray(3000.0, jnp.float32), 48.0)
        assert all(v.dtype == jnp.float32 for v in single)


# Leakage and times


def test_leakage_is_put_together_as_the_costs_are():
    register, comparator, multiplier, adder = TECHNOLOGY.logic_leakage
    kinds = [COMPONENT_CLASSES.index(name) for name in ("regfile", "register", "dram", "fixed", "none")]
    leaks = leakages(TECHNOLOGY, jnp.asarray(kinds), jnp.full(5, 128.0), jnp.full(5, 24.0))
    want = [128 * 24 * (register + comparator / 32), 128 * 24 * register, 0, 0, 0]
    np.testing.assert_allclose(leaks, want, rtol=1e-6)
    assert mac_leakage(TECHNOLOGY, 8, 24) == pytest.approx(64 * multiplier + 24 * adder)
    assert not component_leakage(TECHNOLOGY, jnp.asarray(1), jnp.asarray(0.0), jnp.asarray(64.0))


def test_slow_buffers_are_those_over_the_clock():
    templates = load_templates(["simba"])
    slow = slow_buffers(templates, load_technology("90nm"))
    assert ("simba", "GlobalBuffer", 2048, 256) in [row[:4] for row in slow]
    assert all(max(row[4:]) > 1 for row in slow)
    assert slow_buffers(templates, load_technology("90nm"), clock_ns=100.0) == []
    fast = slow_buffers(templates, load_technology("22nm"))
    assert len(fast) < len(slow)


# A user's own technology


def test_yaml_scales_and_replaces(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\nscale: {energy: 0.5, area: 0.25}\nadder: {energy_pJ: 1, area_um2: 2}\n"
        "wire_energy_pJ: 0.07\ndram_energy_pJ: {HBM2: 3}\n"
        "register: {read_energy_pJ: 0.01, write_energy_pJ: 0.02, area_um2: 5}\n"
    )
    mine = load_technology(path)
    sram = COMPONENT_CLASSES.index("sram")
    got = np.array([float(v) for v in component_costs(mine, sram, 700.0, 64.0)])
    np.testing.assert_allclose(got, cost("sram", 700, 64) * [0.5, 0.5, 0.25], rtol=1e-5)
    assert mac_costs(mine, 0, 3) == (3, 6)
    assert mine.wire[0] == 0.07
    np.testing.assert_allclose(mine.register, [0.01, 0.02, 5])
    assert mine.dram[DRAM_TYPES.index("HBM2")] == 3
    assert mine.dram[DRAM_TYPES.index("LPDDR4")] == 4
    assert technology_hash(mine) != technology_hash(TECHNOLOGY)
    assert technology_hash(load_technology()) == technology_hash(TECHNOLOGY)


def test_a_technology_of_ones_own_is_recorded_whole_and_a_packaged_one_by_its_hash(tmp_path):
    assert technology_record(load_technology("22nm", static_energy=True)).keys() == {"hash", "static_energy"}
    (tmp_path / "sram.csv").write_text(HEADER + "64,512,1,1,1,500\n64,1024,1,2,2,900\n")  # without leakage or times
    mine = load_technology(tmp_path / "sram.csv")
    record = json.loads(json.dumps(technology_record(mine), allow_nan=False))
    found = recorded_technology(msgspec.convert(record, RecordForm), None)
    for field in dataclasses.fields(mine):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(mine, field.name))
    assert technology_hash(found) == technology_hash(mine)
    assert recorded_technology(msgspec.convert(record, RecordForm), TECHNOLOGY) is None  # a technology is given
    wrong = (
        lambda tables: tables.pop("wire"),
        lambda tables: tables["adder"]["values"].append(1.0),
        lambda tables: tables["adder"]["values"].__setitem__(0, 9.0),
        lambda tables: tables["sram_widths"].update(shape=[1, 1]),
        lambda tables: tables["dram"].update(shape=[0], values=[]),
    )
    for change in wrong:
        changed = json.loads(json.dumps(record))
        change(changed["tables"])
        with pytest.raises(InputError, match=r"f\.json: technology\.tables: the figures do not match the hash"):
            recorded_technology(msgspec.convert(changed, RecordForm), None, file="f.json")
    with pytest.raises(InputError, match="states no leakage"):
        recorded_technology(msgspec.convert(record | {"static_energy": True}, RecordForm), None)


HEADER = "width_bits,depth_rows,n_rw_ports,read_energy_pJ_per_access,write_energy_pJ_per_access,area_um2\n"


def test_csv_replaces_the_sram_table_alone(tmp_path):
    path = tmp_path / "sram.csv"
    path.write_text(HEADER + "64,100,1,2,3,1000\n64,1000,1,4,6,8000\n")
    mine = dataclasses.replace(load_technology(path), address_generator=np.zeros(3))
    np.testing.assert_array_equal(mine.register, TECHNOLOGY.register)
    sram = COMPONENT_CLASSES.index("sram")
    middle = [float(v) for v in component_costs(mine, sram, 256.0, 64.0)]
    t = math.log10(2.56)
    np.testing.assert_allclose(middle, [2 * 2**t, 3 * 2**t, 1000 * 8**t], rtol=1e-5)
    # Outside the table: the plug-in's rule for small sizes, and extrapolation with the last slope.
    narrow = [float(v) for v in component_costs(mine, sram, 256.0, 32.0)]
    np.testing.assert_allclose(narrow, np.array(middle) * [0.65, 0.65, 0.5], rtol=1e-5)
    small = [float(v) for v in component_costs(mine, sram, 32.0, 64.0)]
    np.testing.assert_allclose(small, [2 * 0.32**0.78, 3 * 0.32**0.78, 320], rtol=1e-5)
    large = [float(v) for v in component_costs(mine, sram, 4096.0, 64.0)]
    np.testing.assert_allclose(large[2], 8000 * 4.096 ** math.log10(8), rtol=1e-5)
    assert np.isnan(mine.sram[1]).all()


def test_yaml_names_a_table_beside_it(tmp_path):
    (tmp_path / "sram.csv").write_text(HEADER + "64,100,1,2,3,1000\n64,1000,1,4,6,8000\n")
    (tmp_path / "t.yaml").write_text("scale: {energy: 0.5}\nsram: sram.csv\n")
    np.testing.assert_array_equal(
        load_technology(tmp_path / "t.yaml").sram, load_technology(tmp_path / "sram.csv").sram
    )


def test_a_base_and_leakage_are_taken(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("base: 22nm\nscale: {leakage: 2}\nadder: {energy_pJ: 1, area_um2: 2, leakage_mW: 3}\n")
    mine, base = load_technology(path, static_energy=True), load_technology("22nm")
    np.testing.assert_array_equal(mine.sram, base.sram)
    np.testing.assert_allclose(mine.sram_standby - base.sram_standby, [[[[1.0, 0, 0]]]] + 0 * base.sram, atol=1e-12)
    np.testing.assert_allclose(mine.logic_leakage, [*2 * base.logic_leakage[:3], 3])
    assert mine.static_share == 1 and base.static_share is None
    assert technology_hash(dataclasses.replace(mine, static_share=None)) == technology_hash(mine)
    path.write_text("adder: {energy_pJ: 1, area_um2: 2}\n")
    with pytest.raises(InputError, match="states no leakage"):
        load_technology(path, static_energy=True)


def test_the_names_of_the_reference_tables_need_another_header_only(tmp_path):
    text = reference("timeloop/component_tables/dense/sram_22nm.csv").read_text()
    header = "width_bits,depth_rows,n_rw_ports,read_energy_pJ_per_access,write_energy_pJ_per_access,area_um2,"
    header += "leakage_power_mW,access_time_ns,clamped,random_cycle_time_ns\n"
    (tmp_path / "own.csv").write_text(header + text.split("\n", 1)[1])
    own = counting_leakage(load_technology(tmp_path / "own.csv"))
    packed = load_technology("22nm")
    for name in ("sram", "sram_standby", "sram_rows", "sram_widths"):
        np.testing.assert_array_equal(getattr(own, name), getattr(packed, name))


def test_files_of_designs_find_their_packaged_technology():
    for name in ("45nm", "22nm"):
        technology = load_technology(name)
        found = recorded_technology(RecordForm(technology_hash(technology)), None)
        assert technology_hash(found) == technology_hash(technology) and found.static_share is None
    before = "8b9b82d0dcb655cc448f9dd06bf165045c2f8d7148774bac9408bf90ae1902ce"
    coarse = load_technology("45nm-coarse")
    assert technology_hash(recorded_technology(RecordForm(before), None, True)) == technology_hash(coarse)
    assert recorded_technology(RecordForm(before), coarse) is coarse
    assert recorded_technology(RecordForm(before), TECHNOLOGY) is None
    assert recorded_technology(RecordForm("0" * 64), None) is None
    assert recorded_technology(RecordForm(), None, True).static_share == 1


def test_the_command_lists_and_refuses(tmp_path, capsys):
    assert main(["technology", "list", "--out", str(tmp_path / "list.txt")]) == 0
    lines = (tmp_path / "list.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines if "nm" in line] == list(packaged_technologies())
    assert sum("default" in line for line in lines) == 1
    with pytest.raises(SystemExit) as end:
        main(["technology", "make", "--node", "0"])
    assert end.value.code == 2
    if importlib.util.find_spec("hwcomponents_cacti") is None:
        assert main(["technology", "make", "--node", "28", "--out", str(tmp_path / "a.yaml")]) == 2
        assert "mohamjax[technology]" in capsys.readouterr().err
    assert main(["technology", "make", "--node", "28", "--out", "-"]) == 2


# Tables from CACTI


def test_rows_are_made_where_curves_bend_or_jump(monkeypatch):
    asked = []

    def figures(node, width, rows, ports):
        asked.append(rows)
        return np.full(6, rows**0.5 * (1.3 if rows > 1000 else 1.0) * width)

    monkeypatch.setattr(cacti, "sram_figures", figures)
    rows = cacti.make_sram_rows(28, [(64, 1, 4096)])
    assert len(asked) == len(set(asked)) == len(rows) < 50
    assert {992, 1008} <= set(rows[:, 1])
    np.testing.assert_allclose(rows[:, 3], rows[:, 1] ** 0.5 * np.where(rows[:, 1] > 1000, 1.3, 1) * 64)
    assert cacti.memories_of(load_templates(["simba", "eyeriss"])) == [(64, 1, 16768), (256, 1, 2048)]


class Component:
    """A component of hwcomponents whose figures follow from its node and width."""

    asked = 0

    def __init__(self, node=None, width=64):
        type(self).asked += 1
        Component.asked += 1
        if node == 13 / 1e9:
            raise ValueError("no such\nnode")
        self.width, self.area, self.leak_power = width, 2e-12 * width, 3e-9 * width

    def read(self):
        return types.SimpleNamespace(energy=1e-12 * self.width)

    write = compare = multiply = add = read


@pytest.fixture
def library(monkeypatch, tmp_path):
    """A stand-in for hwcomponents with known figures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ("AladdinRegister", "AladdinAdder", "AladdinComparator", "AladdinMultiplier")
    aladdin = types.SimpleNamespace(**dict.fromkeys(names, Component))
    memories = types.SimpleNamespace(LPDDR4=Component, HBM2=Component)
    monkeypatch.setattr(parts, "_library", lambda: (aladdin, memories, "1-2-3"))
    monkeypatch.setattr(Component, "asked", 0)


def test_parts_of_a_node_come_from_the_library_and_are_asked_for_once(library, tmp_path):
    found = parts.library_parts(28)
    assert found["register"] == pytest.approx(
        {"read_energy_pJ": 1, "write_energy_pJ": 1, "area_um2": 2, "leakage_mW": 3e-6}
    )
    assert found["comparator"]["read_energy_pJ"] == pytest.approx(32) and found["adder"]["energy_pJ"] == pytest.approx(
        1
    )
    assert found["address_generator"] == pytest.approx({"read_energy_pJ": 3, "write_energy_pJ": 3, "area_um2": 6})
    asked = Component.asked
    assert parts.library_parts(28) == found and Component.asked == asked
    (file,) = tmp_path.rglob("parts-28nm.json")
    file.write_text(file.read_text()[:-9])
    assert parts.library_parts(28) == found and Component.asked == 2 * asked
    assert parts.library_dram(DRAM_TYPES) == pytest.approx({"LPDDR4": 1, "HBM2": 1})
    for node, told in ((13, "nothing for it"), (180, "no node up to 90 nm")):
        with pytest.raises(InputError, match=told):
            parts.library_parts(node)


@pytest.mark.parametrize("logic", ["library", "scaled"])
def test_a_made_technology_is_read_and_says_its_sources(library, tmp_path, monkeypatch, logic):
    monkeypatch.setattr(cacti, "logic_scaling", lambda node: (0.5, 0.25))
    monkeypatch.setattr(cacti, "sram_figures", lambda node, width, rows, ports: np.full(6, 1.0 * width * rows**0.5))
    file = tmp_path / "mine.yaml"
    assert main(["technology", "make", "--node", "28", "--logic", logic, "--out", str(file)]) == 0
    made, packaged = load_technology(file), load_technology()
    mac = [float(x) for x in mac_costs(made, 8, 24)]
    if logic == "library":
        assert mac == pytest.approx([8 * 8 + 24, 2 * (8 * 8 + 24)])
        assert made.dram[DRAM_TYPES.index("LPDDR4")] == pytest.approx(1)
        assert made.logic_leakage == pytest.approx([3e-6, 96e-6, 3e-6, 3e-6])
    else:
        assert mac == pytest.approx(np.multiply([0.5, 0.25], [float(x) for x in mac_costs(packaged, 8, 24)]))
        assert made.dram[DRAM_TYPES.index("LPDDR4")] == packaged.dram[DRAM_TYPES.index("LPDDR4")]
    assert made.dram[DRAM_TYPES.index("HMC")] == packaged.dram[DRAM_TYPES.index("HMC")]
    assert ("Aladdin" in file.read_text()) == (logic == "library")
    load_technology(file, static_energy=True)  # the file states all leakage


def test_the_library_is_that_of_aladdin(tmp_path, monkeypatch):
    """Figures of Shao et al., 2014, at their own node, as the packages state them."""
    pytest.importorskip("hwcomponents_library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = parts.library_parts(40)
    assert found["register"]["read_energy_pJ"] == pytest.approx(0.009)
    assert found["multiplier"]["energy_pJ"] == pytest.approx(12.68 / 32**2)
    assert found["adder"]["area_um2"] == pytest.approx(278 / 32)
    assert found["comparator"]["read_energy_pJ"] == pytest.approx(0.02947)
    assert parts.library_dram(DRAM_TYPES)["LPDDR4"] == 8
    assert parts.library_parts(22)["adder"]["energy_pJ"] < found["adder"]["energy_pJ"]


@pytest.mark.skipif(importlib.util.find_spec("hwcomponents_cacti") is not None, reason="hwcomponents-cacti is there")
def test_without_hwcomponents_one_error_names_the_extra():
    with pytest.raises(InputError, match=r"hwcomponents.*mohamjax\[technology\]"):
        cacti.sram_figures(45, 64, 2048)


def test_cacti_gives_the_rows_of_the_table_and_is_asked_once(tmp_path, monkeypatch):
    pytest.importorskip("hwcomponents_cacti")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    try:
        got = cacti.sram_figures(45, 64, 2048)
    except InputError as error:
        pytest.skip(str(error))
    want = ROWS[(ROWS[:, 0] == 64) & (ROWS[:, 1] == 2048) & (ROWS[:, 2] == 1), 3:][0]
    np.testing.assert_allclose(got, want, rtol=1e-4)
    assert len(list(tmp_path.rglob("sram-45nm-64x2048-1.json"))) == 1
    monkeypatch.setattr("subprocess.call", None)
    np.testing.assert_array_equal(cacti.sram_figures(45, 64, 2048), got)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("28nm", None, ["28nm", "neither a packaged technology nor a file", "45nm, 45nm-coarse, 22nm"]),
        ("a.yaml", "base: 28nm\n", ["base", "unknown packaged technology '28nm'"]),
        ("a.csv", "", ["a.csv", "width_bits", "columns"]),
        ("a.csv", HEADER, ["holds no rows"]),
        ("a.csv", HEADER + "64,100,1,2,3\n", ["line 2, area_um2", "expected a number"]),
        ("a.csv", HEADER + "64,100,1,2,-3,5\n", ["line 2, write_energy", "-3.0 is too small"]),
        ("a.csv", HEADER + "64,100,1,2,nan,5\n", ["line 2, write_energy", "nan"]),
        ("a.csv", HEADER + "64,100,3,2,3,5\n", ["line 2", "3 ports"]),
        ("a.csv", HEADER + "64,100,1,2,3,5\n64,100,1,2,3,5\n", ["line 3", "twice"]),
        ("a.csv", HEADER.replace("\n", "\r") + "64,100,1,2,nan,5\r", ["line 2, write_energy", "nan"]),
        ("a.csv", HEADER + "6" * 200_000 + ",100,1,2,3,5\n", ["line 2", "is no CSV", "field larger"]),
        ("a.csv", HEADER + "64,100,1,2,3,5,7\n", ["line 2", "more entries than the header"]),
        ("a.csv", None, ["a.csv", "no such file"]),
        ("folder.csv", None, ["is a folder", "CSV file"]),
        ("a.yaml", None, ["a.yaml", "no such file"]),
        ("a.yaml", "sram: b.csv\n", ["b.csv", "no such file"]),
        ("a.yaml", "scael: {energy: 1}\n", ["scael", "did you mean 'scale'"]),
        ("a.yaml", "scale: {energy: 0}\n", ["scale.energy", "too small"]),
        ("a.yaml", "scale: 2\n", ["scale", "expected a mapping"]),
        ("a.yaml", "adder: {energy_pJ: 1}\n", ["adder.area_um2", "missing"]),
        ("a.yaml", "register: {read_energy_pJ: x}\n", ["register.read_energy_pJ", "expected a number"]),
        ("a.yaml", "dram_energy_pJ: {LPDDR5: 4}\n", ["dram_energy_pJ.LPDDR5", "did you mean 'LPDDR"]),
        ("a.yaml", "format: technology/9\n", ["format", "technology/9"]),
    ],
)
def test_bad_technology_is_one_line_that_says_where(tmp_path, name, text, parts):
    (tmp_path / "folder.csv").mkdir()
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        load_technology(tmp_path / name)
    message = str(error.value)
    assert "\n" not in message
    assert error.value.remedy
    for part in parts:
        assert part in message
