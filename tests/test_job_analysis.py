"""Job analysis of G# against MAESTRO's own rows, and invariants of the closed forms."""

import csv

import numpy as np
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.jobs.analysis import DEMANDS, STYLES, analyse, bandwidth_demand, flexible_rows, job_shapes, layer_shape
from mohamjax.jobs.platform import PLATFORMS, Core, named_platform, platform_table

SETS = {
    "maestro/job_analysis.csv": {style: style for style in STYLES},
    "maestro/magma_batches/job_analysis.csv": {"HB": "HB", "LB": "LB_rs", "LBS": "LB_os"},
}
ODD = "62"  # AlexNet's first layer, for which MAESTRO itself gives a nonsensical tile under the LB styles


def _groups(name):
    """Rows of the file by (style, rows of the array), with their shapes."""
    groups = {}
    with open(reference(name)) as stream:
        for row in csv.DictReader(stream):
            groups.setdefault((SETS[name][row["style"]], int(row["pe_rows"])), []).append(row)
    for (style, height), rows in groups.items():
        bounds = [
            {letter: int(row[letter]) for letter in "KCRS"}
            | {"P": int(row["Y"]) - int(row["R"]) + 1, "Q": int(row["X"]) - int(row["S"]) + 1}
            for row in rows
        ]
        yield style, height, rows, job_shapes([layer_shape(r["type"], b) for r, b in zip(rows, bounds, strict=True)])


@pytest.mark.parametrize("name", SETS)
def test_every_row_of_the_reference(name):
    demand = "req_bw_bytes_per_cycle" if name.count("/") == 1 else "req_bw_code_bytes_per_cycle"
    seen = 0
    for style, height, rows, shapes in _groups(name):
        found = analyse(shapes, style, height)

        def column(key, rows=rows):
            return np.asarray([float(row[key] or "nan") for row in rows])

        np.testing.assert_array_equal(found.latency, column("latency_cycles"))
        np.testing.assert_array_equal(shapes.macs, column("macs"))
        np.testing.assert_array_equal(shapes.element_bytes, column("l1_bytes_per_pe"))
        usual = np.asarray([style == "HB" or row["layer_id"] != ODD for row in rows])
        np.testing.assert_array_equal(2 * found.tile_bytes[usual], column("l2_bytes")[usual])
        # Printed with six to eight digits.
        np.testing.assert_allclose(bandwidth_demand(found)[usual], column(demand)[usual], rtol=6e-6)
        if "min_bw_compulsory_bytes_per_cycle" in rows[0]:
            least = column("min_bw_compulsory_bytes_per_cycle")
            np.testing.assert_allclose(bandwidth_demand(found, "compulsory"), least, rtol=6e-6)
        seen += len(rows)
    assert seen == (1368 if "batches" not in name else 1350)


BOUND = st.integers(1, 300)
LAYER = st.fixed_dictionaries(
    {"K": BOUND, "C": BOUND, "P": BOUND, "Q": BOUND, "R": st.integers(1, 7), "S": st.integers(1, 7)}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["conv", "dwconv"]), LAYER), min_size=1, max_size=5), st.sampled_from(STYLES),
       st.sampled_from([1, 8, 32, 128]), st.sampled_from([4, 64]))  # fmt: skip
def test_no_core_computes_more_than_it_has_elements(layers, style, rows, columns):
    shapes = job_shapes([layer_shape(kind, bounds) for kind, bounds in layers])
    found = analyse(shapes, style, rows, columns)
    assert np.all(found.latency * rows * columns >= shapes.macs)
    for convention in DEMANDS:
        demand = bandwidth_demand(found, convention)
        assert np.all(demand > 0) and np.all(np.isfinite(demand))
    assert np.all(bandwidth_demand(found) <= bandwidth_demand(found, "per-tile") * (1 + 1e-12))


def test_more_rows_never_slow_the_channel_parallel_style():
    shapes = job_shapes([layer_shape("conv", {"K": k, "C": 70, "P": 9, "Q": 9, "R": 3, "S": 3}) for k in range(1, 200)])
    slower = analyse(shapes, "HB", 32).latency
    faster = analyse(shapes, "HB", 64).latency
    assert np.all(faster <= slower)
    assert np.any(faster < slower)


def test_depthwise_layers_beyond_what_the_elements_hold_take_more_rounds():
    shapes = job_shapes([layer_shape("dwconv", {"C": c, "P": 2, "Q": 2}) for c in (64 * 2 * 4, 64 * 2 * 4 + 1)])
    latency = analyse(shapes, "HB", 2, 4).latency
    assert latency.tolist() == [1 + 64 * 4, 1 + 2 * 64 * 4]


def test_layer_types_of_our_own_importer():
    same = layer_shape("CONV", {"K": 8, "C": 4, "P": 5, "Q": 6, "R": 3, "S": 3})
    assert layer_shape("conv", {"G": 1, "N": 1, "K": 8, "C": 4, "P": 5, "Q": 6, "R": 3, "S": 3}) == same
    assert layer_shape("dwconv", {"G": 9, "P": 2, "Q": 2}) == layer_shape("DWCONV", {"C": 9, "P": 2, "Q": 2})
    rows = layer_shape("fc", {"N": 12, "K": 3, "C": 5})
    assert rows == layer_shape("GEMM", {"P": 12, "K": 3, "C": 5})
    heads = job_shapes(
        [layer_shape("bmm", {"G": 16, "N": 12, "K": 3, "C": 5}), layer_shape("fc", {"N": 12, "K": 3, "C": 5})]
    )
    one = analyse(heads, "HB", 32)
    assert one.latency[0] - 1 == 16 * (one.latency[1] - 1)
    assert heads.macs[0] == 16 * heads.macs[1]
    with pytest.raises(ValueError, match="not known"):
        layer_shape("pool", {})


def test_a_free_shape_is_never_slower_and_fits_the_buffers():
    generator = np.random.default_rng(0)
    bounds = [
        dict(zip("KCPQRS", map(int, generator.integers(1, (300, 300, 60, 60, 6, 6))), strict=True)) for _ in range(40)
    ]
    shapes = job_shapes([layer_shape("conv", b) for b in bounds])
    rows = flexible_rows(shapes, "HB", 2048)
    assert np.all(2048 % rows == 0)
    free, fixed = analyse(shapes, "HB", rows, 2048 // rows), analyse(shapes, "HB", 32)
    assert np.all(free.latency <= fixed.latency)
    assert np.any(free.latency < fixed.latency)
    assert np.all(2 * free.tile_bytes <= 2 * 2**20)
    tight = flexible_rows(shapes, "HB", 2048, shared_buffer=float(2 * fixed.tile_bytes.max()))
    assert np.all(analyse(shapes, "HB", tight, 2048 // tight).tile_bytes <= fixed.tile_bytes.max())
    # Also where a job asks more of an element than the paper's 1 KB, whatever the shape.
    deep = job_shapes([layer_shape("conv", dict(zip("KCPQRS", (70, 282, 82, 55, 14, 14), strict=True)))])
    assert deep.element_bytes[0] > 1024
    whole = [analyse(deep, "HB", h, 2048 // h) for h in (1 << k for k in range(12))]
    fastest = min(whole, key=lambda a: a.latency[0])
    room = min(a.tile_bytes[0] for a in whole) * 2.0
    assert 2 * fastest.tile_bytes[0] > room
    small = flexible_rows(deep, "HB", 2048, shared_buffer=room)
    assert 2 * analyse(deep, "HB", small, 2048 // small).tile_bytes[0] <= room


def test_platforms_of_table_4():
    cores = {name: named_platform(name).cores for name in PLATFORMS}
    assert [len(cores[name]) for name in ("S1", "S2", "S3", "S4", "S5", "S6")] == [4, 4, 8, 8, 8, 16]
    assert cores["S2"][-1] == Core("LB_rs", 32)
    assert named_platform("S4", lb="LB_os").cores.count(Core("LB_os", 128)) == 1
    assert sum(core.elements for core in cores["S6"]) == 8 * 8192 + 8 * 4096
    with pytest.raises(ValueError, match="expected one of S1"):
        named_platform("S7")


def test_table_carries_the_demand_over_the_duration():
    shapes = job_shapes([layer_shape("conv", {"K": 64, "C": 64, "P": 7, "Q": 7, "R": 3, "S": 3})])
    for demand in DEMANDS:
        table = platform_table(["a"], shapes, named_platform("S2"), 16.0, demand=demand)
        wanted = bandwidth_demand(analyse(shapes, "LB_rs", 32), demand)
        assert table.bytes[0, 3] / table.duration[0, 3] == pytest.approx(wanted[0], rel=1e-12)
        assert table.duration[0, 0] == 1 + 2 * 49 * 10
    assert table.bytes[0, 0] == pytest.approx(
        64 * 81 + 64 * 64 * 9 + 64 * 49, rel=1e-12
    )  # compulsory: each tensor once
