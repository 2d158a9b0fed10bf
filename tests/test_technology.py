"""Technology tables: Accelergy's numbers, the interpolation against a plain one, users' own tables."""

import csv
import dataclasses
import importlib.util
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.errors import InputError
from mohamjax.hardware import (
    COMPONENT_CLASSES,
    DRAM_TYPES,
    component_costs,
    load_technology,
    mac_costs,
    technology_hash,
)
from mohamjax.hardware.technology import packaged_sram_rows

TECHNOLOGY = load_technology()
ROWS = packaged_sram_rows()
costs = jax.jit(component_costs)


def cost(cls, depth, width, **options):
    values = costs(TECHNOLOGY, COMPONENT_CLASSES.index(cls), float(depth), float(width), **options)
    return np.array([float(v) for v in values])


def plain_sram(depth, width, ports=1):
    """Log-log interpolation straight in the table's rows, without a grid."""

    def column(w):
        part = ROWS[(ROWS[:, 0] == w) & (ROWS[:, 2] == ports)]
        part = part[np.argsort(part[:, 1])]
        return [np.interp(math.log(depth), np.log(part[:, 1]), np.log(part[:, 3 + k])) for k in range(3)]

    widths = np.unique(ROWS[ROWS[:, 2] == ports, 0])
    low, high = widths[widths <= width].max(), widths[widths >= width].min()
    t = 0 if low == high else math.log(width / low) / math.log(high / low)
    bits = math.ceil(math.log2(depth))
    return np.exp((1 - t) * np.array(column(low)) + t * np.array(column(high))) + bits * np.array(
        TECHNOLOGY.address_generator
    )


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
                # Accelergy reads a cluster of registers at once; ours is one of them.
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
    # The bare compound of the tables: one row of registers and `depth` comparators per access.
    register, comparator = np.array(TECHNOLOGY.register), np.array(TECHNOLOGY.comparator)
    with reference("timeloop/component_tables/regfile_45nm.csv").open() as file:
        for row in csv.DictReader(file):
            depth, width = float(row["depth_words"]), float(row["width_bits"])
            compared = comparator if row["component"] == "regfile" else 0 * comparator
            access = width * register + depth * compared
            area = depth * (width * register + compared)[2]
            want = [row[c] for c in ("read_energy_pJ_per_access", "write_energy_pJ_per_access", "area_um2")]
            np.testing.assert_allclose([*access[:2], area], np.array(want, float), rtol=1e-4)


def test_every_row_of_the_sram_table_is_met():
    got = costs(TECHNOLOGY, COMPONENT_CLASSES.index("sram"), ROWS[:, 1], ROWS[:, 0], ports=ROWS[:, 2].astype(int))
    address = np.ceil(np.log2(ROWS[:, 1]))[:, None] * TECHNOLOGY.address_generator
    np.testing.assert_allclose(np.stack(got, axis=-1) - address, ROWS[:, 3:], rtol=2e-4)


@settings(max_examples=200, deadline=None)
@given(st.integers(64, 65536), st.floats(8, 256), st.just(1))
def test_interpolation_is_the_plain_one(depth, width, ports):
    np.testing.assert_allclose(cost("sram", depth, width, ports=ports), plain_sram(depth, width, ports), rtol=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.integers(64, 65536), st.floats(64, 256))
def test_interpolation_of_two_ports_is_the_plain_one(depth, width):
    np.testing.assert_allclose(cost("sram", depth, width, ports=2), plain_sram(depth, width, 2), rtol=1e-4)


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


@pytest.mark.parametrize("cls", ["sram", "regfile", "register"])
@pytest.mark.parametrize("width", [8.0, 24.0, 64.0, 512.0])
def test_area_and_read_energy_never_shrink_with_rows(cls, width):
    # Write energy is left out: CACTI's own figures drop where it changes the organisation of the array.
    depth = jnp.unique(jnp.round(2 ** jnp.linspace(0, 22, 600)))
    read, _, area = costs(TECHNOLOGY, COMPONENT_CLASSES.index(cls), depth, width)
    assert np.all(np.diff(read) >= -1e-5 * np.asarray(read[1:]))
    assert np.all(np.diff(area) >= 0)
    assert np.all(np.asarray(read) > 0)


@pytest.mark.parametrize("ports", [1, 2])
def test_curve_is_continuous_across_the_grid(ports):
    for node in (64, 96, 4096, 6144, 2**22):
        below, at, above = (cost("sram", node * f, 64, ports=ports) for f in (1 - 1e-4, 1, 1 + 1e-4))
        step = np.array(TECHNOLOGY.address_generator)  # one more address bit may begin here
        assert np.all(np.abs(above - at) <= step * 1.01 + 1e-3 * at)
        assert np.all(np.abs(at - below) <= step * 1.01 + 1e-3 * at)


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


def test_left_out_rows_are_within_the_stated_error():
    path = pathlib.Path(__file__).parents[1] / "experiments" / "technology_error.py"
    spec = importlib.util.spec_from_file_location("technology_error", path)
    assert spec is not None and spec.loader is not None
    experiment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(experiment)
    rows, error = experiment.between_powers(ROWS)
    assert len(rows) == 142
    assert np.all(np.median(np.abs(error), axis=0) < 0.03)
    assert np.all(np.abs(error) < 0.26)  # CACTI's organisation changes there
    rows, error = experiment.width_out(ROWS, 64.0)
    assert len(rows) == 29
    assert np.all(np.median(np.abs(error), axis=0) < 0.10)


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
    # Outside the table: the small-size rule of the plug-in, and the slope goes on.
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


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
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
