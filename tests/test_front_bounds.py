"""Bounds that follow the front: no design is below them, and where a case is small they are the front."""

import dataclasses
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
    reports,
    tables,
    wires_of,
)
from every_design import every_design, objectives, plain_front

import mohamjax as mj
from mohamjax import emo
from mohamjax.hardware import PackageParameters, package_tables, template_arrays
from mohamjax.problem.requirements import FixedChiplet, Requirements
from mohamjax.schedule import (
    Certificate,
    Design,
    FrontBounds,
    FrontCurves,
    Setup,
    Staircase,
    certify,
    front_bounds,
    reevaluate,
    scenario_bounds,
)
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

SMALL = PackageParameters(max_tiles=4, dram_bandwidth=6.0, router_area=1e4)
FREE = PackageParameters(max_tiles=6, link_bandwidth=1e9, interface_bandwidth=1e9)
ONE = TEMPLATES[1:2]


def bounds_of(problem, made, package, most=None, *, templates=TEMPLATES, technology=TECHNOLOGY, cells=64):
    found = wires_of(problem, made, templates)
    return front_bounds(Setup(problem, templates, technology, package), made, found, most, cells=cells)


def assert_none_below(found, values):
    """Asserts that neither the surface nor a curve, read either way, excludes a design."""
    latency, energy, area = values.T
    assert not found.excludes(values).any()
    curves = found.curves
    for curve, first, second in (
        (curves.latency_of_area, area, latency),
        (curves.energy_of_area, area, energy),
        (curves.energy_of_latency, latency, energy),
    ):
        assert (curve(first) <= second).all()
        assert (curve.inverse(second) <= first).all()


def box_hypervolume(values, ideal, reference):
    """As `search.moham.log_hypervolume`, in double precision."""
    scaled = np.maximum(np.log(values / ideal) / np.log(reference / ideal), 0.0)
    with jax.enable_x64(True):
        return float(emo.hypervolume(scaled, np.ones(3)))


# ---------------------------------------------------------------- never above a design


@pytest.mark.parametrize("seed", range(6))
def test_no_design_is_below(seed):
    problem = chains(seed)
    made = tables(problem, seed)
    package = (SMALL, PackageParameters(max_tiles=4, contention="interface"), FREE)[seed % 3]
    designs = random_designs(problem, made, seed, 256, tiles=4)
    with jax.enable_x64(True):
        values = reports(designs, evaluation(problem, made, package)).objectives
    found = bounds_of(problem, made, package, 4)
    assert_none_below(found, values)
    # At their far end they become the bounds that hold for all designs alike.
    every = scenario_bounds(Setup(problem, TEMPLATES, TECHNOLOGY, package), made, wires_of(problem, made), 4)
    assert found.least_latency_s[-1] >= every.latency_s * (1 - 0.02)
    assert found.least_energy_J[-1, -1] == pytest.approx(every.energy_J, rel=1e-8)
    assert found.area_mm2[0] >= every.area_mm2 * (1 - 1e-8)


def test_designs_with_one_chiplet_each_are_not_below_the_bounds_for_one():
    problem = chains(11, layers=(4, 3))
    made = tables(problem, 11, blocked=False)
    designs = random_designs(problem, made, 11, 256, tiles=1)
    with jax.enable_x64(True):
        values = reports(designs, evaluation(problem, made, PackageParameters(max_tiles=1))).objectives
    assert_none_below(bounds_of(problem, made, PackageParameters(max_tiles=1)), values)


def test_costs_that_fall_with_size_do_not_break_the_bounds():
    falling = dataclasses.replace(TECHNOLOGY, sram=np.asarray(TECHNOLOGY.sram)[:, :, ::-1].copy())
    problem = chains(3)
    made = tables(problem, 3)
    designs = random_designs(problem, made, 3, 128, tiles=4)
    with jax.enable_x64(True):
        on = dataclasses.replace(evaluation(problem, made, SMALL), technology=jax.tree.map(np.asarray, falling))
        values = reports(designs, on).objectives
    assert_none_below(bounds_of(problem, made, SMALL, technology=falling), values)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_fall_along_both_axes(seed):
    problem = chains(seed)
    found = bounds_of(problem, tables(problem, seed), SMALL)
    assert (np.diff(found.area_mm2) > 0).all() and (np.diff(found.latency_s) > 0).all()
    assert (np.diff(found.least_latency_s) <= 0).all()
    with np.errstate(invalid="ignore"):
        for axis in range(2):
            steps = np.diff(found.least_energy_J, axis=axis)
            assert ((steps <= 0) | np.isnan(steps)).all()  # from inf to inf
    for curve in (found.curves.latency_of_area, found.curves.energy_of_area, found.curves.energy_of_latency):
        assert (np.diff(curve.at) > 0).all() and (np.diff(curve.least) < 0).all()
        assert np.isfinite(curve.least).all() and curve.at[0] > 0


# ---------------------------------------------------------------- against every design


@pytest.fixture(scope="module")
def small():
    """An instance, with the objectives of all its designs on two chiplets of two templates, in double precision."""
    problem = application([[], [0], [0]], [[], [0]])
    made = tables(problem, 1, entries=2, templates=TEMPLATES[:2], blocked=False, least=2)
    package = PackageParameters(max_tiles=2)
    with jax.enable_x64(True):
        values = objectives(
            every_design(problem, np.asarray(made.count)), evaluation(problem, made, package, TEMPLATES[:2])
        )
    return problem, made, package, values


def test_every_design_of_a_small_instance_is_allowed(small):
    problem, made, package, values = small
    assert len(values) > 20_000
    assert_none_below(bounds_of(problem, made, package, templates=TEMPLATES[:2]), values)


BOXES = {
    "around": lambda values: (values.min(axis=0) / 2, values.max(axis=0) * 2),
    "half": lambda values: (values.min(axis=0), np.median(values, axis=0)),
    "beyond the ideal point": lambda values: (values.min(axis=0) * 1.2, values.max(axis=0)),
}


@pytest.mark.parametrize("box", BOXES)
def test_the_hypervolume_of_its_front_is_below_the_bound(small, box):
    problem, made, package, values = small
    ideal, reference = BOXES[box](values)
    front = plain_front(values)
    certified = certify(bounds_of(problem, made, package, templates=TEMPLATES[:2]), front, ideal, reference)
    assert certified.hypervolume == pytest.approx(box_hypervolume(front, ideal, reference), rel=1e-9)
    assert 0 < certified.hypervolume <= certified.most < 1
    assert certified.share == certified.hypervolume / certified.most
    if box == "around":
        assert certified.share > 0.75  # the front is complete; the rest is the gap of the bounds


def test_what_designs_reach_is_their_hypervolume():
    rng = np.random.default_rng(0)
    for count in (1, 2, 40):
        values = np.exp(rng.normal(size=(count, 3)))
        surface = FrontBounds.reached(values)
        ideal, reference = np.full(3, 0.1), np.asarray([1.5, 3.0, 8.0])
        volume = surface.hypervolume(ideal, reference)
        assert volume == pytest.approx(box_hypervolume(values, ideal, reference), rel=1e-9)
        assert not surface.excludes(values).any()
        assert surface.excludes(values.min(axis=0) * 0.999)


def test_finer_cells_are_never_worse(small):
    problem, made, package, values = small
    ideal, reference = values.min(axis=0), values.max(axis=0)
    bound = [
        bounds_of(problem, made, package, templates=TEMPLATES[:2], cells=n).hypervolume(ideal, reference)
        for n in (2, 16, 128)
    ]
    assert bound[0] >= bound[1] >= bound[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_one_layer_on_one_chiplet_has_its_bounds_as_front(seed):
    problem = application([[]])
    made = tables(problem, seed, entries=8, blocked=False, least=4)
    package = PackageParameters(max_tiles=1, router_area=1e4)
    chosen = [(t, m) for t in range(len(TEMPLATES)) for m in range(made.count[0, t])]
    designs = random_designs(problem, made, seed, len(chosen), tiles=1)
    template, mapping = (np.asarray(x, np.int32)[:, None] for x in zip(*chosen, strict=True))
    designs = dataclasses.replace(designs, template=template, mapping=np.repeat(mapping, 32, axis=1))
    with jax.enable_x64(True):
        values = reports(designs, evaluation(problem, made, package)).objectives
    curves = bounds_of(problem, made, package).curves
    latency, energy, area = values.T
    for curve, first, second in (
        (curves.latency_of_area, area, latency),
        (curves.energy_of_area, area, energy),
        (curves.energy_of_latency, latency, energy),
    ):
        best = plain_front(np.stack([first, second], axis=1))
        np.testing.assert_allclose(curve.at, best[:, 0], rtol=1e-8)
        # A chiplet that has to be larger may take less energy where CACTI changes a buffer's organisation.
        assert (curve.least <= best[:, 1] * (1 + 1e-8)).all()
        np.testing.assert_allclose(curve.least, best[:, 1], rtol=1e-3)
        np.testing.assert_allclose(curve(best[:, 0]), best[:, 1], rtol=1e-3)
        np.testing.assert_allclose(curve.inverse(best[:, 1]), best[:, 0], rtol=1e-8)


# ---------------------------------------------------------------- by hand


def alike(problem, cycles, entries=1):
    """One template; mappings with these cycles, all on one hardware."""
    made = tables(problem, 0, entries=entries, templates=ONE, least=entries)
    cycles = np.asarray(cycles, float).reshape(made.cycles.shape)
    first = np.s_[:1, :1, :1]
    return dataclasses.replace(
        made,
        cycles=cycles,
        offchip_bytes=np.ones_like(cycles),
        capacity=np.broadcast_to(made.capacity[first], made.capacity.shape).copy(),
        fanout=np.broadcast_to(made.fanout[first], made.fanout.shape).copy(),
    )


def test_little_area_has_room_for_few_chiplets():
    """Six equal layers of 100 cycles: six chiplets run them side by side, on less area they take turns."""
    problem = application(*[[[]] for _ in range(6)])
    found = bounds_of(problem, alike(problem, [100] * 6), FREE, 6, templates=ONE, cells=400)
    chip, at = found.area_mm2[0], found.curves.latency_of_area
    for chiplets, latency in ((1, 600e-9), (2, 300e-9), (3, 200e-9), (4, 150e-9), (6, 100e-9)):
        # Area-work is 600 cycles of one chiplet; the cells are narrow, so that little is lost.
        assert 0.97 * latency <= at(chip * chiplets * 1.001) <= latency
    assert at(chip * 0.999) == np.inf
    assert found.least_latency_s[-1] == pytest.approx(100e-9)


def test_a_chain_pays_for_the_time_that_it_has_not():
    """Three layers in a row, each with a fast, costly mapping and a slow, frugal one."""
    problem = application([[], [0], [1]], kinds=[[0, 0, 0]])
    made = alike(problem, [100, 300], entries=2)
    price = float(template_arrays(ONE, TECHNOLOGY).machine.mac_energy[0])
    macs = np.asarray([5e6, 1e6]).reshape(made.macs.shape) / price
    none = {name: 0 * getattr(made, name) for name in ("block_reads", "block_writes", "delivered")}
    made = dataclasses.replace(made, macs=macs, **none)
    curve = bounds_of(problem, made, FREE, 2, templates=ONE, cells=400).curves.energy_of_latency
    # Below 500 cycles, the time with one slow layer, all are fast; above, every single layer may be slow, and the price
    # of time decides how many are: 4 uJ for each 200 cycles.
    for latency, least in ((300, 15), (499, 15), (501, 11), (700, 7), (800, 5), (900, 3)):
        assert curve(latency * 1e-9 * (1 + 1e-6)) == pytest.approx(least * 1e-6, rel=0.03)
    assert curve(299e-9) == np.inf


@pytest.mark.slow
def test_other_layers_need_other_chiplets():
    """Beside a chiplet of one template there must be one of the other, for the layer that only that one runs."""
    problem = application([[]], [[]])
    made = tables(problem, 5, entries=3, templates=TEMPLATES[:2], least=3)  # the first template lacks a layer
    lone = int(np.argmin(np.asarray(made.count)[:, 0]))
    found = bounds_of(problem, made, FREE, 2, templates=TEMPLATES[:2])
    designs = random_designs(problem, made, 5, 256, tiles=2)
    with jax.enable_x64(True):
        values = reports(designs, evaluation(problem, made, FREE, TEMPLATES[:2])).objectives
    assert_none_below(found, values)
    mixed = (designs.template == 0).any(axis=1)
    own = np.asarray(made.objectives)[lone, 1, :, 2].min() * 1e-6
    other = np.asarray(made.objectives)[1 - lone, 0, :, 2].min() * 1e-6
    assert mixed.any() and (values[mixed, 2] >= (own + other) * (1 - 1e-9)).all()


def test_the_volume_of_two_cells():
    found = FrontBounds(
        area_mm2=np.asarray([1.0, 10.0]),
        latency_s=np.asarray([1.0, 10.0]),
        least_latency_s=np.asarray([10.0, 1.0]),
        least_energy_J=np.asarray([[np.inf, 10.0], [10.0, 1.0]]),
    )
    # In logarithms, each of the four columns takes at most a quarter of a box from 1 to 100 on every axis.
    assert found.hypervolume(np.full(3, 1.0), np.full(3, 100.0)) == pytest.approx(0.25 * (0 + 0.5 + 0.5 + 1))
    assert found.hypervolume(np.full(3, 0.01), np.full(3, 1.0)) == 0
    # The latency of the first row starts within the second cell.
    later = dataclasses.replace(found, least_latency_s=np.asarray([100**0.75, 1.0]))
    assert later.hypervolume(np.full(3, 1.0), np.full(3, 100.0)) == pytest.approx(0.25 * (0 + 0.25 + 0.5 + 1))
    assert found.excludes([[0.5, 50, 50], [5, 50, 5], [5, 5, 50], [50, 5, 50]]).tolist() == [True, True, True, False]


def certificate():
    one = Staircase(at=np.ones(1), least=np.ones(1))
    curves = FrontCurves(latency_of_area=one, energy_of_area=one, energy_of_latency=one)
    return Certificate(curves, hypervolume=0.3, most=0.6, ideal=(1.0, 2.0, 3.0), reference=(4.0, 5.0, 6.0))


def test_a_certificate_survives_a_file():
    problem = chains(2)
    curves = bounds_of(problem, tables(problem, 2), SMALL).curves
    original = dataclasses.replace(certificate(), curves=curves)
    again = Certificate.from_dict(json.loads(json.dumps(original.to_dict())))
    leaves = (jax.tree.leaves(dataclasses.asdict(x)) for x in (original, again))
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "broken",
    [
        {"box": None},
        {"box": {"ideal": [1, 2], "reference": [1, 2, 3]}},
        {"box": {"ideal": [1, 2, "3"], "reference": [1, 2, 3]}},
        {"box": {"ideal": [1, 2, 3]}},
        {"curves": {}},
        {"hypervolume": None},
        {"hypervolume_bound": float("nan")},
    ],
)
def test_a_broken_certificate_is_refused(broken):
    with pytest.raises(ValueError, match=r"missing|no numbers|no columns"):
        Certificate.from_dict({**certificate().to_dict(), **broken})


@pytest.mark.parametrize(
    "pairs", [[], [[1, 2], [1, 1]], [[1, 2], [2, 3]], [[1, np.inf]], [[-1, 1]], [1, 2], [[1, 2, 3]]]
)
def test_a_broken_staircase_is_refused(pairs):
    with pytest.raises(ValueError, match="staircase"):
        Staircase.from_list(pairs)


def test_curves_of_other_columns_are_refused():
    data = certificate().curves.to_dict()
    data["energy_of_area"]["columns"] = ["area_mm2", "latency_s"]
    with pytest.raises(ValueError, match="energy_of_area has no columns area_mm2 and energy_J"):
        FrontCurves.from_dict(data)


@pytest.mark.slow
def test_idle_chiplets_bring_interfaces():
    """Three layers on three of six fixed chiplets reach three interfaces, of which a package of three has two."""
    lone = [Network(f"n{i}", (Layer("fc", "fc", "Gemm", WorkloadShape(K=64, C=64)),)) for i in range(3)]
    fixed = Requirements(chiplets=tuple(FixedChiplet("simba", i) for i in range(6)), open=False)
    package = PackageParameters(max_tiles=6, link_bandwidth=float("inf"))
    problem = mj.DesignProblem(
        ApplicationModel("x", tuple(lone)), templates="simba", package=package, requirements=fixed
    )
    made = mj.sample_mappings(problem, count=1)
    interface = jax.device_get(package_tables(package)).interface_of[6]
    tiles = [int(np.flatnonzero(interface == i)[0]) for i in np.unique(interface)[:3]]
    genes = [np.asarray(x, np.int32)[None] for x in ([0, 1, 2], tiles, [0, 0, 0], [0] * 6)]
    one = Design(**dict(zip(("order", "assignment", "mapping", "template"), genes, strict=True)))
    found = reevaluate(problem.setup, made.mapping, np.asarray(made.count), one)
    values = found.reports.objectives
    assert found.front_bounds(6).excludes(values).all()  # no search without fixed chiplets makes such a design
    assert_none_below(found.front_bounds(6, idle=True), values)
