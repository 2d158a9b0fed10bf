"""Job analysis of G# against MAESTRO's own rows, and invariants of the closed forms."""

import csv
import warnings

import numpy as np
import pytest
from conftest import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.errors import InputError
from mohamjax.io.jobs import read_jobs
from mohamjax.jobs.analysis import (
    DEMANDS,
    NEST_DEMANDS,
    STYLES,
    JobAnalysis,
    analyse,
    bandwidth_demand,
    flexible_rows,
    job_layer,
    job_shapes,
    layer_shape,
)
from mohamjax.jobs.platform import PLATFORMS, Core, JobBatch, named_platform, platform_table

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


@settings(max_examples=40, deadline=None)
@given(LAYER, st.integers(1, 12), st.sampled_from([1, 2, 8]), st.sampled_from([2, 4, 16]))
def test_tile_sets_of_output_rows_hold_the_rows_of_their_passes(bounds, factor, rows, columns):
    """All passes over the output rows are walked; all of them but the last have as many as the array has elements."""
    bounds = bounds | {"P": bounds["P"] * factor}
    found = analyse(job_shapes([layer_shape("conv", bounds)]), "LB_rs", rows, columns)
    K, C, P, Q, R, S = (bounds[d] for d in "KCPQRS")
    passes = [min(rows * columns, P - at) for at in range(0, P, rows * columns)]
    wide = min(Q, S)
    # Each column of elements has a row of inputs per output row, and R - 1 more that it shares with none.
    held = [R * S + (y + -(-y // columns) * (R - 1)) * (wide + S - 1) + y * wide for y in passes]
    assert found.tile_bytes[0] == max(held)
    assert found.tiles[0] == K * C * -(-Q // S) * len(passes)


def test_depthwise_tile_sets_hold_the_channels_of_their_rounds():
    channels = [64, 100, 256, 512, 1024]
    shapes = job_shapes([layer_shape("dwconv", {"C": c, "P": 7, "Q": 7, "R": 3, "S": 3}) for c in channels])
    found = analyse(shapes, "HB", 2, 2)
    once = [c * (2 * 9 + 1) - (64 if c % 64 == 0 else 0) for c in channels]
    assert found.tile_bytes.tolist() == [*once[:3], once[2], once[2]]
    assert found.tiles.tolist() == [49 * rounds for rounds in (1, 1, 1, 2, 4)]


@pytest.mark.parametrize(
    ("kind", "bounds", "weights"),
    [
        ("conv", {"K": 16, "C": 4, "P": 7, "Q": 7, "R": 3, "S": 3}, 16 * 4 * 9),
        ("gconv", {"G": 3, "K": 5, "C": 4, "P": 7, "Q": 2, "R": 3, "S": 1}, 3 * 5 * 4 * 3),
        ("dwconv", {"G": 16, "P": 7, "Q": 7, "R": 3, "S": 3}, 16 * 9),
        ("fc", {"K": 16, "C": 4}, 64),
    ],
)
def test_samples_share_their_weights(kind, bounds, weights):
    """Eight samples are eight times the work, inputs and outputs, but the weights of one."""
    one, eight = (job_shapes([layer_shape(kind, bounds | {"N": n})]) for n in (1, 8))
    assert eight.macs[0] == 8 * one.macs[0]
    assert eight.tensor_bytes[0] - weights == 8 * (one.tensor_bytes[0] - weights)
    assert eight.tensor_bytes[0] == sum(job_layer(kind, bounds | {"N": 8}).shape.tensor_words)


def test_demand_of_a_loop_nest_is_over_its_whole_latency():
    """Its latency has no extra cycle, as MAESTRO's has, so that demand times latency is the bytes of the tiles."""
    numbers = (np.asarray([x]) for x in (10.0, 100.0, 4.0, 300.0))
    nest = JobAnalysis(*numbers, traffic_bytes=np.asarray([350.0]))
    assert [float(bandwidth_demand(nest, d)[0] * 10) for d in NEST_DEMANDS] == [350, 100, 400, 300]
    closed = nest._replace(traffic_bytes=None)
    assert [float(bandwidth_demand(closed, d)[0]) for d in DEMANDS[:2]] == [100 / 9, 400 / 9]


def test_a_depthwise_layer_with_a_multiplier_does_all_its_work():
    """A multiplier of 2 is two filters over each channel: twice the work, weights and outputs of one filter."""
    bounds = {"G": 32, "P": 16, "Q": 16, "R": 3, "S": 3}
    once, twice = (job_shapes([layer_shape("dwconv", bounds | {"K": k})]) for k in (1, 2))
    assert job_layer("dwconv", bounds | {"K": 2}).shape.macs == twice.macs[0] == 2 * once.macs[0]
    assert twice.tensor_bytes[0] - once.tensor_bytes[0] == 32 * (3 * 3 + 16 * 16)
    for style in STYLES:
        cycles = [analyse(shapes, style, 8, 4).latency[0] for shapes in (once, twice)]
        assert cycles[1] == 2 * cycles[0] - 1
    assert job_layer("dwconv", {"C": 32, "K": 2}).shape.K == 1  # in the reference data K is no multiplier


def test_as_many_filters_of_each_channel_as_channels_are_a_warning(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("type,G,K,C,P,Q,R,S\nDWCONV,32,1,1,4,4,3,3\nDWCONV,32,32,1,4,4,3,3\ndwconv,8,8,1,4,4,3,3\n")
    with pytest.warns(UserWarning, match="line 3, and 1 other line: a depthwise layer with K = G") as told:
        jobs = read_jobs(path)
    assert len(told) == 1 and [layer.shape.K for layer in jobs.layers] == [1, 32, 8]


@pytest.mark.parametrize("row", ["DWCONV,32,2", "DWCONV,1,1", "DWCONV,1,32", "conv,4,4"])
def test_other_filters_cause_no_warning(tmp_path, row):
    path = tmp_path / "jobs.csv"
    path.write_text(f"type,G,K,C,P,Q,R,S\n{row},1,4,4,3,3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read_jobs(path).layers) == 1


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
    # Also where a job needs more than the paper's 1 KB per element, whatever the shape of the array.
    deep = job_shapes([layer_shape("conv", dict(zip("KCPQRS", (70, 282, 82, 55, 14, 14), strict=True)))])
    assert deep.element_bytes[0] > 1024
    whole = [analyse(deep, "HB", h, 2048 // h) for h in (1 << k for k in range(12))]
    fastest = min(whole, key=lambda a: a.latency[0])
    room = min(a.tile_bytes[0] for a in whole) * 2.0
    assert 2 * fastest.tile_bytes[0] > room
    small = flexible_rows(deep, "HB", 2048, shared_buffer=room)
    assert 2 * analyse(deep, "HB", small, 2048 // small).tile_bytes[0] <= room


def test_a_small_buffer_of_an_element():
    """Filters and channels that fit change nothing; what does not fit is cut, and no work is lost."""
    rng = np.random.default_rng(1)
    rows = [dict(zip("KCPQRS", map(int, rng.integers(1, (200, 200, 40, 40, 16, 16))), strict=True)) for _ in range(60)]
    shapes = job_shapes([layer_shape("conv", b) for b in rows])
    for style in STYLES:
        free, held = analyse(shapes, style, 32), analyse(shapes, style, 32, element_buffer=1024)
        fits = shapes.element_bytes <= 1024
        assert fits.any() and not fits.all()
        for name in ("latency", "tile_bytes", "tiles"):
            assert np.array_equal(getattr(free, name)[fits], getattr(held, name)[fits])
        assert np.all(held.tiles[~fits] > free.tiles[~fits])
        # One more cycle per part, or rounding of the parts: never less than the work.
        assert np.all(held.latency >= free.latency) and np.all(held.latency >= np.ceil(shapes.macs / 2048))
    # 3 x 3: 64 channels take 3456 bytes; 1 KB holds 18, so that the others go to other elements.
    deep = job_shapes([layer_shape("dwconv", {"C": c, "P": 14, "Q": 14, "R": 3, "S": 3}) for c in (18, 64, 64 * 4096)])
    free, held = analyse(deep, "HB", 32), analyse(deep, "HB", 32, element_buffer=1024)
    assert held.latency[0] == free.latency[0] == 1 + 14 * 14 * 9 * 18
    assert (free.latency[1], held.latency[1]) == (1 + 14 * 14 * 9 * 64, 1 + 14 * 14 * 9 * 18)
    assert held.latency[2] >= np.ceil(deep.macs[2] / 2048)
    rows = flexible_rows(shapes, "LB_os", 2048, element_buffer=1024)
    best = analyse(shapes, "LB_os", rows, 2048 // rows, element_buffer=1024).latency
    assert np.all(best <= analyse(shapes, "LB_os", 32, element_buffer=1024).latency)


def test_an_element_holds_something():
    with pytest.raises(ValueError, match="element_buffer is 5"):
        named_platform("S1", element_buffer=5)
    assert str(named_platform("S1", element_buffer=1024).cores[0]) == "HB 32x64 1024 B"


def test_jobs_of_random_shapes():
    """Bounds are within their range, filters and bounds of 1 stay, and the seed determines the draw."""
    kinds = [("conv", {"K": 64, "C": 32, "P": 28, "Q": 28, "R": 3, "S": 3}), ("fc", {"K": 1000, "C": 512}),
             ("dwconv", {"C": 96, "P": 14, "Q": 14, "R": 3, "S": 3}),
             ("gconv", {"G": 4, "K": 16, "C": 16, "P": 7, "Q": 7, "R": 3, "S": 3})]  # fmt: skip
    layers = tuple(job_layer(kind, bounds) for kind, bounds in kinds) * 10
    count = len(layers)
    names = tuple(map(str, range(count)))
    batch = JobBatch(names, layers, ("",) * count, (1.0,) * count, (np.inf,) * count, tuple(range(count)))
    drawn, again, other = batch.reshaped(0.5, 3), batch.reshaped(0.5, 3), batch.reshaped(0.5, 4)
    assert drawn.layers == again.layers != other.layers and drawn.names == batch.names
    assert drawn.layers != layers
    for old, new in zip(layers, drawn.layers, strict=True):
        assert old.type == new.type
        for dim in "GNKCPQRS":
            a, b = getattr(old.shape, dim), getattr(new.shape, dim)
            assert b == 1 if a == 1 else 0.5 * a - 0.5 <= b <= 1.5 * a + 0.5
            if dim in "RSN" or (dim == "G" and old.type != "dwconv"):
                assert a == b
    assert {new.shape.G for new in drawn.layers if new.type == "dwconv"} != {96}
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="between 0 and 1"):
            batch.reshaped(share, 0)


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
