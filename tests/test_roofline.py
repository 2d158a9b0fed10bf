"""Rooflines: no layer runs above its roof on any package, the bound of a layer agrees with the cost model, and the page
and the figure show the same numbers."""

import dataclasses
import math
import pathlib

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_designs import toy_designs

from mohamjax import plot
from mohamjax.hardware import PackageParameters
from mohamjax.hardware.package import CONTENTION
from mohamjax.mapping import explain, layer_arrays
from mohamjax.page import Result, contents
from mohamjax.schedule import Design, explain_design, reevaluate
from mohamjax.schedule.roofline import COMPUTE, MAPPING, SLIGHT, Binding, Roof, roof
from mohamjax.schedule.view import design_view

DESIGNS = 64
SLACK = 1 + 1e-9  # for the rounding of sums of times


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


def random_designs(evaluated, seed, package):
    """Random chiplets, assignments and mappings, evaluated on a package of up to four tiles."""
    rng = np.random.default_rng(seed)
    layers, (_, kinds) = len(evaluated.application.layers), evaluated.tables.count.shape
    size = int(evaluated.tables.count.min())
    assignment = rng.integers(0, package.max_tiles, (DESIGNS, layers)).astype(np.int32)
    # Exactly the tiles that are used have a template.
    used = (assignment[:, :, None] == np.arange(package.max_tiles)).any(axis=1)
    template = np.where(used, rng.integers(0, kinds, used.shape), -1).astype(np.int32)
    order = np.tile(np.arange(layers, dtype=np.int32), (DESIGNS, 1))
    mapping = rng.integers(0, size, assignment.shape).astype(np.int32)
    designs = Design(order=order, assignment=assignment, mapping=mapping, template=template)
    setup = dataclasses.replace(evaluated.of(evaluated.application), package=package)
    return reevaluate(setup, evaluated.tables.mapping, evaluated.tables.count, designs)


packages = st.builds(
    PackageParameters,
    max_tiles=st.just(4),
    contention=st.sampled_from(CONTENTION),
    interface_bandwidth=st.sampled_from([0.25, 4.0, 64.0, math.inf]),
    link_bandwidth=st.sampled_from([0.5, 16.0, math.inf]),
    dram_bandwidth=st.sampled_from([0.4, 8.0, math.inf]),
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(package=packages, seed=st.integers(0, 2**31))
def test_no_layer_runs_above_its_roof(evaluated, package, seed):
    designs = random_designs(evaluated, seed, package)
    for i in range(0, DESIGNS, 8):
        view = design_view(designs, i)
        (west, east), (south, north) = view.roof_decades
        for bar in view.bars:
            above = view.chiplets[bar.chiplet].roof
            assert 0 < bar.reached <= above.at(bar.intensity) * SLACK
            # No resource on the path of a byte is narrower than the roof states.
            assert bar.offchip_bytes / (bar.end_s - bar.start_s) * 1e-9 <= above.bandwidth * SLACK
            assert 10.0**west < bar.intensity < 10.0**east and 10.0**south < bar.reached < 10.0**north
        for chip in view.chiplets:
            limits = [package.interface_bandwidth]
            limits += [] if package.contention == "interface" else [package.link_bandwidth, package.dram_bandwidth]
            assert chip.roof.bandwidth == min(limits)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [0.5, math.inf])
def test_what_binds_a_layer_is_what_the_cost_model_says(evaluated, bandwidth):
    """Without an off-chip limit it is the loop-nest model's explanation; with a low one that holds for most layers."""
    package = PackageParameters(max_tiles=4, interface_bandwidth=bandwidth, contention="interface")
    designs = random_designs(evaluated, 5, package)
    seen = set()
    for i in range(8):
        view = design_view(designs, i)
        design, own = jax.tree.map(lambda leaf, i=i: leaf[i], (designs.designs, designs.reports))
        explained = explain_design(design, own, designs.tables, designs)["layers"]
        assert [layer["bound"] for layer in explained] == [bar.bound for bar in view.bars]
        for bar in view.bars:
            slowed = sum(stretch.end_s - stretch.start_s for stretch in bar.slowed if stretch.rate < SLIGHT)
            if slowed > (bar.end_s - bar.start_s) / 2:
                assert bar.bound == f"interface {view.chiplets[bar.chiplet].interface}"
                continue
            u, t, _ = bar.mapping
            nest = jax.tree.map(lambda leaf, at=bar.mapping: np.asarray(leaf)[at], designs.tables.mapping)
            names = evaluated.templates[t].level_names
            with jax.enable_x64(True):
                machine = jax.tree.map(
                    lambda leaf, t=t: leaf[t], designs.machines(nest.temporal.shape[0], float).machine
                )
                shape = evaluated.application.unique_layers[u].shape
                told = explain(layer_arrays(shape), nest, machine, level_names=names)
            onchip = [level["cycles"] for level in told["levels"][:-1]]
            most = max(onchip)
            assert most == pytest.approx(bar.alone_s * 1e9)
            peak = view.chiplets[bar.chiplet].roof.peak
            at_work = COMPUTE if 2 * shape.macs > told["compute_cycles"] * peak else MAPPING
            want = names[onchip.index(most)] if most > told["compute_cycles"] else at_work
            assert bar.bound == want
            seen.add(bar.bound)
    if bandwidth == math.inf:
        assert len(seen) > 1 and not any(bar.slowed for bar in view.bars)


def test_a_roof_is_level_from_its_ridge_on():
    found = roof(128.0, [0, 2, 3], ["interface 0", "interface 1", "DRAM", "link"], np.array([4.0, 1.0, np.inf, 4.0]))
    assert found == Roof(128.0, 4.0, "interface 0") and found.ridge == 32
    np.testing.assert_array_equal(found.at(np.array([0.5, 32, 1000])), [2, 128, 128])
    assert Roof(7.0, math.inf, "DRAM").ridge == 0 and Roof(7.0, math.inf, "DRAM").at(1e-9) == 7


def test_the_documentation_says_when_a_shared_resource_binds():
    """Several resources that together slow a layer for most of its time bind it, and the page names one of them."""
    names, busy = ["interface 0", "DRAM", "link"], 100.0
    for cycles, bound in [
        ((20, 31, 0), "DRAM"),
        ((0, 51, 0), "DRAM"),
        ((20, 29, 1), "L1"),
        ((40, 0, 40), "interface 0"),
    ]:
        seen = Binding(np.asarray(cycles, float)[:, None], ["L1"], np.asarray([busy]), names)
        assert seen.of(0) == bound
    docs = (pathlib.Path(__file__).parent.parent / "docs" / "report.md").read_text(encoding="utf-8")
    assert f"below {100 * SLIGHT:.0f} % of its full speed" in " ".join(docs.split())


def test_the_page_and_the_figure_show_the_same_numbers(evaluated):
    row = {"latency_s": 1.0, "energy_J": 1.0, "area_mm2": 1.0, "n_chiplets": 3}
    front = [{"design_id": str(i)} | row for i in range(3)]
    result = Result("toy", "toy", "search", front, evaluated=evaluated, place={str(i): i for i in range(3)})
    (told,) = contents([result], most=3)["results"]
    for i in range(3):
        view, design = design_view(evaluated, i), told["designs"][str(i)]
        figure = plot.rooflines(view, title="toy")
        panels = [axes for axes in figure.axes if axes.get_visible()]
        assert len(panels) == len(view.chiplets) == len(design["chiplets"])
        for k, (axes, chip) in enumerate(zip(panels, view.chiplets, strict=True)):
            line = axes.lines[0]
            np.testing.assert_allclose(line.get_ydata(), chip.roof.at(line.get_xdata()))
            shown = np.concatenate([points.get_xydata() for points in axes.lines[1:]])
            own = [bar for bar in view.bars if bar.chiplet == k]
            assert sorted(map(tuple, shown)) == sorted((bar.intensity, bar.reached) for bar in own)
            assert design["chiplets"][k]["roof"] == {
                "peak": chip.roof.peak, "bandwidth": chip.roof.bandwidth, "resource": chip.roof.resource
            }  # fmt: skip
            assert axes.get_xlim() == tuple(10.0**power for power in design["roof_decades"][0])
        for number, bar in enumerate(view.bars):
            assert told["nests"][design["nest"][number]]["intensity"] == pytest.approx(bar.intensity, rel=1e-5)
            assert design["macs_per_cycle"][number] == pytest.approx(bar.reached, rel=1e-3)
            assert design["bound"][number] == bar.bound
            assert bar.intensity == pytest.approx(told["layers"][number]["macs"] / bar.offchip_bytes)
