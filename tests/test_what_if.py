"""What-if grids, sensitivities and uncertainty, compared with separate evaluations, differences and closed forms."""

import csv
import dataclasses
import io
import itertools
import math
import re
import statistics

import fuzz_documents
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import LEVELS, TECHNOLOGY, TEMPLATES, chains, evaluation, random_designs, reports, tables, wires_of
from hypothesis import given, settings
from hypothesis import strategies as st
from workload_models import save

from mohamjax.cli import main
from mohamjax.cli.what_if import add_options, check
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, counting_leakage, interface_positions, template_arrays
from mohamjax.io.what_if import columns_csv
from mohamjax.plot import rendered
from mohamjax.plot.whatif import check_panels, front_under_uncertainty, tornado, what_if_figures
from mohamjax.runtime.struct import cast
from mohamjax.schedule import Design, Evaluated, package_arrays
from mohamjax.whatif import (
    Candidates,
    candidates_of,
    evaluate_variants,
    known_parameters,
    nominal_variant,
    read_axes,
    reasons,
    sensitivities,
    stack_variants,
    survival,
    uncertainty,
    unchanged,
    what_if,
)
from mohamjax.whatif import variant as blocks
from mohamjax.whatif.parameters import apart

COUNT = 16
PROBLEM = chains(1)
MADE = tables(PROBLEM, 1)
DESIGNS = random_designs(PROBLEM, MADE, 2, COUNT)


with jax.enable_x64(True):
    EVALUATION = evaluation(PROBLEM, MADE)


def on(package=None, technology=TECHNOLOGY):
    """The evaluation with another package or technology; wires and tables depend on neither."""
    with jax.enable_x64(True):
        return dataclasses.replace(
            EVALUATION,
            package=package_arrays(PackageParameters() if package is None else package, jnp.float64),
            technology=cast(technology, jnp.float64),
            templates=template_arrays(TEMPLATES, technology, levels=LEVELS, dtype=jnp.float64),
        )


def candidates(package=None, designs=DESIGNS, technology=TECHNOLOGY) -> Candidates:
    count = len(designs.order)
    return Candidates(
        names=tuple(f"d{i}" for i in range(count)),
        designs=designs,
        capacity=np.full((count, 16, LEVELS), -1.0),
        fanout=np.full((count, 16, LEVELS, 2), -1.0),
        evaluation=on(package, technology),
        package=PackageParameters() if package is None else package,
        templates=TEMPLATES,
    )


@pytest.fixture(scope="module")
def nominal():
    return candidates()


# ---------------------------------------------------------------- grids


def technology_with(**factors):
    """The technology with components scaled by (energy, area)."""
    changed = {}
    for name, (energy, area) in factors.items():
        if name == "sram":
            changed[name] = TECHNOLOGY.sram + np.log2([energy, energy, area])
        elif name == "dram":
            changed[name] = TECHNOLOGY.dram * energy
        else:
            changed[name] = getattr(TECHNOLOGY, name) * np.array([energy, energy, area])
    return dataclasses.replace(TECHNOLOGY, **changed)


SEPARATE = {
    ("nop.interface_bandwidth", 9.0): {"package": {"interface_bandwidth": 9.0}},
    ("nop.interface_bandwidth", "x0.25"): {"package": {"interface_bandwidth": 1.0}},
    ("nop.link_bandwidth", 2.0): {"package": {"link_bandwidth": 2.0}},
    ("nop.dram_bandwidth", 5.0): {"package": {"dram_bandwidth": 5.0}},
    ("nop.interface_bandwidth", "unlimited"): {"package": {"interface_bandwidth": math.inf}},
    ("nop.hop_energy", 2.0): {"package": {"hop_energy": 2.0}},
    ("nop.tile_area", 5e5): {"package": {"router_area": 2e5, "transceiver_area": 3e5}},
    ("nop.interfaces", 1.0): {"package": {"interface_counts": ((None, 1),)}},
    ("nop.interfaces", 4.0): {"package": {"interface_counts": ((None, 4),)}},
    ("nop.interfaces", "x0.5"): {"package": {"interface_counts": ((4, 1), (None, 2))}},
    ("technology.sram_energy", "x0.5"): {"technology": {"sram": (0.5, 1.0)}},
    ("technology.sram_area", "x3"): {"technology": {"sram": (1.0, 3.0)}},
    ("technology.register_energy", "x1.7"): {"technology": {"register": (1.7, 1.0)}},
    ("technology.comparator_area", "x1.7"): {"technology": {"comparator": (1.0, 1.7)}},
    ("technology.address_generator_energy", "x9"): {"technology": {"address_generator": (9.0, 1.0)}},
    ("technology.mac_energy", "x0.3"): {"technology": {"multiplier": (0.3, 1.0), "adder": (0.3, 1.0)}},
    ("technology.multiplier_area", "x2"): {"technology": {"multiplier": (1.0, 2.0)}},
    ("technology.wire_energy", "x4"): {"technology": {"wire": (4.0, 1.0)}},
    ("technology.dram_energy", "x0.5"): {"technology": {"dram": (0.5, 1.0)}},
}


@pytest.mark.slow
def test_variants_equal_evaluations_of_their_own(nominal):
    """Every parameter, compared with an evaluation that was made with the changed value."""
    now = nominal_variant(nominal.evaluation)
    known = known_parameters(nominal)
    variants = []
    for name, value in SEPARATE:
        change = known[name].scale if str(value).startswith("x") else known[name].assign
        variants.append(change(now, math.inf if value == "unlimited" else float(str(value).removeprefix("x"))))
    found = evaluate_variants(nominal, stack_variants(variants))
    expected = []
    for changes in SEPARATE.values():
        package = dataclasses.replace(PackageParameters(), **changes.get("package", {}))
        # The same number of interfaces as the others, so that one program evaluates all; the rest serve no chiplet.
        own = stack_variants([nominal_variant(on(package)), now])[0].package
        own = dataclasses.replace(on(package, technology_with(**changes.get("technology", {}))), package=own)
        expected.append(reports(DESIGNS, own).objectives)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    changed = np.abs(found / reports(DESIGNS, nominal.evaluation).objectives - 1).max(axis=(1, 2)) > 1e-6
    assert changed.all(), [key for key, other in zip(SEPARATE, changed, strict=True) if not other]


@pytest.mark.slow
def test_a_grid_is_a_tidy_table_of_all_combinations(nominal):
    compiled = blocks._block._cache_size()
    vary = {"nop.interface_bandwidth": [2, 4, 8], "technology.dram_energy": "x0.5,x1", "nop.hop_energy": "0, 0.82"}
    found = what_if(nominal, vary)
    assert blocks._block._cache_size() <= compiled + 1
    assert found.grid.shape == (3, 2, 2, COUNT, 3)
    np.testing.assert_array_equal(found.grid[1, 1, 1], found.nominal)
    np.testing.assert_allclose(found.nominal, reports(DESIGNS, nominal.evaluation).objectives, rtol=1e-12)
    rows = list(csv.DictReader(io.StringIO(columns_csv(found.table()))))
    assert list(rows[0]) == [
        "design_id", "nop.interface_bandwidth_GB_per_s", "technology.dram_energy_factor", "nop.hop_energy_pJ_per_bit",
        "latency_s", "energy_J", "area_mm2", "valid",
    ]  # fmt: skip
    assert len(rows) == 12 * COUNT
    for row, (i, j, k, n) in zip(rows, itertools.product(range(3), range(2), range(2), range(COUNT)), strict=True):
        assert row["design_id"] == f"d{n}" and row["valid"] == "1"
        assert [float(row[c]) for c in list(row)[1:4]] == [(2, 4, 8)[i], (0.5, 1)[j], (0, 0.82)[k]]
        assert [float(row[c]) for c in list(row)[4:7]] == found.grid[i, j, k, n].tolist()


def test_numbers_of_the_package_have_the_names_of_the_package(nominal):
    short, full = (what_if(nominal, {f"{group}interface_bandwidth": [2, 4]}) for group in ("", "nop."))
    np.testing.assert_array_equal(short.grid, full.grid)
    assert list(short.table())[1] == list(full.table())[1] == "nop.interface_bandwidth_GB_per_s"
    with pytest.raises(InputError, match="change the same numbers"):
        what_if(nominal, {"interface_bandwidth": [2], "nop.interface_bandwidth": [4]})


def test_the_clock_leaves_bandwidths_in_GB_per_s(nominal):
    """At twice the clock a cycle is half as long and transfers half as many bytes."""
    found = what_if(nominal, {"clock": [2.0]}).objectives[0]
    halved = candidates(PackageParameters(link_bandwidth=8.0, interface_bandwidth=2.0))
    slow = reports(DESIGNS, halved.evaluation).objectives
    np.testing.assert_allclose(found, slow / [2, 1, 1], rtol=1e-12)


@pytest.mark.slow
def test_a_faster_clock_leaks_for_a_shorter_time(nominal):
    leaking = candidates(technology=counting_leakage(TECHNOLOGY))
    leaks, without = (what_if(own, {"clock": [0.5, 1.0, 2.0]}).objectives for own in (leaking, nominal))
    lost = leaks[..., 1] - without[..., 1]
    per_second = lost / leaks[..., 0]
    assert np.all(lost[0] > lost[1]) and np.all(lost[1] > lost[2])
    np.testing.assert_allclose(per_second, np.broadcast_to(per_second[1], per_second.shape), rtol=1e-9)


@pytest.mark.slow
def test_chiplets_of_other_sizes(nominal):
    """Larger buffers cost more; designs do not fit smaller ones."""
    found = what_if(nominal, {"chiplet.capacity": "x0.5,x1,x2"})
    assert not np.isfinite(found.objectives[0]).any()
    np.testing.assert_array_equal(found.objectives[1], found.nominal)
    assert np.all(found.objectives[2] >= found.nominal) and np.all(found.objectives[2, :, 2] > found.nominal[:, 2])
    np.testing.assert_array_equal(found.objectives[2, :, 0], found.nominal[:, 0])
    table = found.table()
    np.testing.assert_array_equal(table["valid"], np.repeat([False, True, True], COUNT))
    assert np.isnan(table["latency_s"][:COUNT]).all()
    # Compared with stated sizes.
    chips = reports(DESIGNS, nominal.evaluation).chiplets
    capacity = np.where(np.isfinite(chips.capacity), 2 * chips.capacity, -1)
    for t, template in enumerate(TEMPLATES):
        for v, level in enumerate(template.levels):
            granule = level.granularity_rows * level.block_words or 1
            own = DESIGNS.template == t
            capacity[own, v] = np.ceil(capacity[own, v] / granule) * granule
    stated = dataclasses.replace(nominal, capacity=capacity, fanout=np.asarray(chips.fanout))
    twice = evaluate_variants(stated, stack_variants([nominal_variant(nominal.evaluation)]))[0]
    np.testing.assert_allclose(found.objectives[2], twice, rtol=1e-9)


@pytest.mark.slow
def test_templates_of_fixed_sizes_keep_them_and_this_is_told(nominal):
    templates = dataclasses.replace(nominal.evaluation.templates, sized=jnp.ones(len(TEMPLATES), bool))
    built = dataclasses.replace(nominal, evaluation=dataclasses.replace(nominal.evaluation, templates=templates))
    asked = {"chiplet.capacity": "x0.5,x2"}
    found = what_if(built, asked)
    np.testing.assert_array_equal(found.objectives, np.broadcast_to(found.nominal, found.objectives.shape))
    told = unchanged(built, read_axes(built, asked))
    assert len(told) == 2 and all(line.endswith("and templates of fixed sizes keep theirs") for line in told)


@pytest.mark.slow
def test_a_capacity_in_single_precision_loses_no_word():
    """Doubling 2^22 rows of one word is exact."""
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32) if leaf.dtype == jnp.float64 else leaf, EVALUATION)
    design = jax.tree.map(lambda leaf: leaf[0], DESIGNS)
    variant = nominal_variant(single)
    doubled = dataclasses.replace(variant, size_factor=jnp.full_like(variant.size_factor, 2.0))
    rows = np.full((16, LEVELS), 2.0**22, np.float32)
    capacity, _ = blocks.variant_sizes(design, (jnp.asarray(rows), jnp.full((16, LEVELS, 2), -1.0)), doubled, single)
    standing = design.template >= 0
    limited = np.isfinite(np.asarray(capacity)[standing])
    assert limited.any() and (np.asarray(capacity)[standing][limited] == 2.0**23).all()


def test_values_that_change_nothing_are_told(nominal):
    axes = read_axes(
        nominal, {"nop.dram_bandwidth": "x0.5,x2", "nop.hop_energy": "x2", "nop.interface_bandwidth": "x2"}
    )
    (told,) = unchanged(nominal, axes)
    assert told.startswith("nop.dram_bandwidth is unlimited") and "vary nop.interface_bandwidth" in told
    assert not unchanged(nominal, read_axes(nominal, {"nop.dram_bandwidth": "8,unlimited"}))
    finite = candidates(PackageParameters(dram_bandwidth=8.0))
    assert not unchanged(finite, read_axes(finite, {"nop.dram_bandwidth": "x2"}))
    # Rounding cancels factors close to one.
    rows = next(
        f"chiplet.{template.name}.{level.name}.capacity"
        for template in TEMPLATES
        for level in template.levels
        if level.granularity_rows == 16 and level.block_words == 1 and (level.capacity_words or 1) % 16 == 0
    )
    assert unchanged(nominal, read_axes(nominal, {rows: "x0.5,x1,x0.99999,x2"})) == [
        f"{rows}=x0.99999 changes no chiplet of these designs: capacities are rounded up to whole rows"
    ]
    chips = reports(DESIGNS, nominal.evaluation).chiplets
    name = next(
        f"{template.name}.{level.name}"
        for t, template in enumerate(TEMPLATES)
        for v, level in enumerate(template.levels)
        if level.fanout[0] > 1 and np.asarray(chips.fanout)[np.asarray(DESIGNS.template) == t, v, 0].max() > 2
    )
    parameter = f"chiplet.{name}.fanout_x"
    assert unchanged(nominal, read_axes(nominal, {parameter: "x0.99,x1,x0.5"})) == [
        f"{parameter}=x0.99 changes no chiplet of these designs: fanouts are rounded, and at least 1"
    ]


def test_interfaces_that_a_mesh_does_not_take_are_told(nominal):
    chiplets = (np.asarray(DESIGNS.template) >= 0).sum(axis=1)

    def told(values, own=nominal):
        return unchanged(own, read_axes(own, {"nop.interfaces": values}))

    rule = "a row of the mesh has two at most"
    small, few = int((chiplets <= 2).sum()), int((chiplets <= 6).sum())  # of one row, and of one or two
    assert 0 < small < few < COUNT == len(chiplets) and chiplets.max() <= 9
    assert told("8,2,4,6") == [
        f"nop.interfaces=4 places as many interfaces as nop.interfaces=2 on {small} of {COUNT} designs: {rule}",
        f"nop.interfaces=6 places as many interfaces as nop.interfaces=4 on {few} of {COUNT} designs: {rule}",
        f"nop.interfaces=8 places as many interfaces as nop.interfaces=6 on these designs: {rule}",
    ]
    assert told("1,2") == [] == told("x0.5")
    full = int(np.isin(chiplets, (1, 2, 5, 6)).sum())  # 2 of 2, 4 of 4
    assert told("x2") == [
        f"nop.interfaces=x2 places as many interfaces as nop.interfaces=x1 on {full} of {COUNT} designs: "
        f"factors are rounded, and {rule}"
    ]


def test_designs_that_cannot_run_are_told_with_layer_and_level(nominal):
    with jax.enable_x64(True):
        found = reports(DESIGNS, nominal.evaluation)
    evaluated = Evaluated(
        PROBLEM, TEMPLATES, TECHNOLOGY, PackageParameters(), MADE, wires_of(PROBLEM, MADE), DESIGNS, found
    )
    own = candidates_of(evaluated)
    answer = what_if(own, {"chiplet.capacity": "x0.5,x1,x0.25,x2"})
    half, quarter = reasons(answer, own, evaluated)
    assert half.startswith(f"chiplet.capacity=x0.5: {COUNT} designs of {COUNT} cannot run; design 0: layer ")
    assert quarter.startswith("chiplet.capacity=x0.25: ")
    names = {level.name for template in TEMPLATES for level in template.levels}
    level, need, has = re.search(r"level (\w+) of chiplet \d+ needs (\d+) words and has (\d+)", half).groups()
    assert level in names and int(has) < int(need)
    one, more = reasons(answer, own, evaluated, most=1)
    assert one == half and more == "1 more variant on which some design cannot run"
    assert not reasons(what_if(own, {"chiplet.capacity": "x1,x2"}), own, evaluated)


def test_more_interfaces_than_any_package_had(nominal):
    """Variants with different numbers of interfaces form one stack; the placement is that of such a package."""
    now = nominal_variant(nominal.evaluation)
    twice = known_parameters(nominal)["nop.interfaces"].scale(now, 2.0)
    both = stack_variants([now, twice]).package
    with jax.enable_x64(True):
        own = package_arrays(PackageParameters(interface_counts=((4, 4), (None, 8))), jnp.float64)
    assert both.interface_bandwidth.shape == (2, 8) and np.all(both.interface_bandwidth == 4.0)
    for name in ("interfaces", "interface_of", "hops"):
        np.testing.assert_array_equal(getattr(both.tables, name)[1], getattr(own.tables, name))
        np.testing.assert_array_equal(getattr(both.tables, name)[0], getattr(now.package.tables, name))


@pytest.mark.slow
def test_interfaces_of_a_contending_mesh():
    """The contending links follow the number of interfaces, within one stack."""
    mesh = PackageParameters(contention="mesh")
    found = what_if(candidates(mesh), {"nop.interfaces": "2,4,8"}).objectives
    for k, interfaces in enumerate((2, 4, 8)):
        own = dataclasses.replace(mesh, interface_counts=((None, interfaces),))
        alone = candidates(own)
        np.testing.assert_array_equal(
            found[k], evaluate_variants(alone, stack_variants([nominal_variant(alone.evaluation)]))[0]
        )


BAD = [
    ({}, "names no parameter"),
    ({"nop.latency": "1"}, "unknown parameter 'nop.latency'"),
    ({"technology": "22nm"}, "search again with another one"),
    ({"nop.hop_energie": "1"}, "use nop.hop_energy"),
    ({"nop.hop_energy": "1,x2"}, "mixes values and factors"),
    ({"nop.hop_energy": "-1"}, "write a number of at least 0"),
    ({"nop.hop_energy": "unlimited"}, "is no value"),
    ({"nop.interface_bandwidth": "0"}, "write a number above 0"),
    ({"nop.interface_bandwidth": "nan"}, "is no value"),
    ({"nop.interface_bandwidth": "x0"}, "write factors above 0"),
    ({"nop.interface_bandwidth": "two"}, "'two' is no number"),
    ({"nop.interface_bandwidth": [2, 2.0]}, "has a value twice"),
    ({"nop.interface_bandwidth": []}, "has no values"),
    ({"nop.interfaces": "1.5"}, "write a whole number"),
    ({"technology.sram_energy": "4"}, "takes factors alone"),
    ({"technology.mac_energy": "x2", "technology.adder_energy": "x2"}, "change the same numbers"),
    ({"chiplet.capacity": "x2", "chiplet.simba.GlobalBuffer.capacity": "x2"}, "change the same numbers"),
    (None, "is of the type NoneType"),
    ([("clock", [1])], "is of the type list"),
    ({"clock": None}, "is of the type NoneType"),
    ({"clock": True}, "is of the type bool"),
    ({"clock": {1: 2}}, "is of the type dict"),
    ({"clock": np.array("x1")}, "is of the type ndarray"),
    ({"clock": [None]}, "None is no number"),
    ({"clock": [1j]}, "1j is no number"),
    ({"clock": [[1, 2]]}, "[1, 2] is no number"),
    ({"clock": np.ones((1, 2))}, "is no number"),
    ({"clock": [10**400]}, "is no number"),
    ({3: [1]}, "unknown parameter '3'"),
]


VALUES = {
    "several types": ([1, 2.0, np.float32(4), jnp.asarray(8.0)], (1, 2, 4, 8)),
    "an array": (np.arange(1, 3), (1, 2)),
    "one": (np.int64(4), (4,)),
    "one of JAX": (jnp.asarray(4), (4,)),
    "texts": (["1", "2"], (1, 2)),
    "a text of NumPy": (np.str_("1,2"), (1, 2)),
}


@pytest.mark.parametrize("values, expected", VALUES.values(), ids=VALUES)
def test_values_may_be_numbers_of_python_numpy_and_jax(nominal, values, expected):
    (axis,) = read_axes(nominal, {"nop.interfaces": values})
    assert axis.values == expected and not axis.factor


@pytest.mark.parametrize("vary, message", BAD)
def test_bad_grids_are_refused(nominal, vary, message):
    with pytest.raises(InputError) as error:
        what_if(nominal, vary)
    assert message in str(error.value) and "argument `vary" in str(error.value)


def test_links_have_no_part_where_only_interfaces_contend():
    with pytest.raises(InputError, match="has no effect in a package of `contention: interface`"):
        what_if(candidates(PackageParameters(contention="interface")), {"nop.link_bandwidth": "2"})


# ---------------------------------------------------------------- sensitivities


@pytest.fixture(scope="module")
def found(nominal):
    names = [name for name, one in known_parameters(nominal).items() if one.kind not in ("size", "count")]
    return sensitivities(nominal, [*names, "chiplet.capacity", "chiplet.simba.GlobalBuffer.capacity"])


def test_exact_derivatives_equal_central_differences(nominal, found):
    """Derivatives of energy and area by every energy and area parameter, with steps of 0.1 %."""
    now, step = nominal_variant(nominal.evaluation), 1e-3
    exact = [i for i, method in enumerate(found.methods) if method == "exact" and found.parameters[i].value != 0]
    assert len(exact) >= 15
    scaled = [found.parameters[i].scale(now, 1 + s) for i in exact for s in (step, -step)]
    values = evaluate_variants(nominal, stack_variants(scaled)).reshape(len(exact), 2, COUNT, 3)
    differences = np.moveaxis((values[:, 0] - values[:, 1]) / (2 * step), 0, 1) / found.objectives[:, None]
    own = found.elasticity[:, exact]
    np.testing.assert_allclose(own, differences, rtol=1e-4, atol=1e-9)
    value = np.asarray([found.parameters[i].value or 1.0 for i in exact])
    np.testing.assert_allclose(found.derivative[:, exact] * value[:, None], own * found.objectives[:, None], rtol=1e-9)


@pytest.mark.slow
def test_leakage_follows_no_energy_and_no_area(nominal):
    """Exact derivatives rightly leave it out: it is latency times a power, and these parameters change neither."""
    leaking = candidates(technology=counting_leakage(TECHNOLOGY))
    names = ["technology.sram_energy", "technology.mac_energy", "technology.sram_area"]
    own, without = sensitivities(leaking, names), sensitivities(nominal, names)
    assert np.all(own.objectives[:, 1] > without.objectives[:, 1])
    np.testing.assert_allclose(own.derivative, without.derivative, rtol=1e-12)
    now, step = nominal_variant(leaking.evaluation), 1e-3
    scaled = [own.parameters[0].scale(now, 1 + s) for s in (step, -step)]
    high, low = evaluate_variants(leaking, stack_variants(scaled))
    np.testing.assert_allclose(own.derivative[:, 0, 1], (high - low)[:, 1] / (2 * step), rtol=1e-4)


def test_energies_share_the_energy_and_areas_the_area(found):
    """Both are homogeneous: their elasticities sum to one if each parameter is counted once."""
    names = [one.name for one in found.parameters]
    kinds = [one.kind for one in found.parameters]
    for m, kind in ((1, "energy"), (2, "area")):
        mac = names.index(f"technology.mac_{kind}")
        parts = [names.index(f"technology.{part}_{kind}") for part in ("multiplier", "adder")]
        np.testing.assert_allclose(found.elasticity[:, mac], found.elasticity[:, parts].sum(axis=1), rtol=1e-9)
        single = [i for i, own in enumerate(kinds) if own == kind and i != mac]
        np.testing.assert_allclose(found.elasticity[:, single, m].sum(axis=1), 1, rtol=1e-9)


@pytest.mark.slow
def test_what_is_part_of_another_stands_for_nothing_by_itself(nominal):
    """If no parameters are named, a MAC is listed without its multiplier and adder."""
    names = {one.name for one in apart(known_parameters(nominal))}
    assert {"technology.mac_energy", "technology.mac_area", "technology.sram_energy", "chiplet.capacity"} <= names
    assert not [name for name in names if "multiplier" in name or "adder" in name]
    assert names == {one.name for one in sensitivities(nominal).parameters} | {n for n in names if "fanout_" in n}


def test_latency_follows_clock_and_bandwidths_together(found):
    """Twice the clock and all bandwidths halves the time: their elasticities sum to minus one."""
    timed = [i for i, one in enumerate(found.parameters) if one.kind in ("clock", "bandwidth")]
    total = found.elasticity[:, timed, 0].sum(axis=1)
    assert np.median(np.abs(total + 1)) < 1e-3  # except at kinks
    assert np.all(found.elasticity[:, timed, 1:] == 0)


def test_a_number_that_is_zero_has_a_derivative_but_no_elasticity(found):
    row = [one.name for one in found.parameters].index("nop.tile_area")
    chips = (DESIGNS.template >= 0).sum(axis=1)
    assert found.parameters[row].value == 0
    np.testing.assert_allclose(found.derivative[:, row, 2], chips * 1e-6, rtol=1e-12)
    assert np.all(found.elasticity[:, row] == 0)


def test_the_strongest_are_those_of_a_plain_ranking(found):
    """Ranked by the median over designs; what is left out is no stronger than what is listed."""
    for most in (1, 3, 100):
        strong = found.strongest(most)
        assert strong.designs == len(found.names)
        for m, row in enumerate(strong.rows):
            middle = np.abs(np.nan_to_num(np.nanmedian(found.elasticity[:, :, m], axis=0)))
            np.testing.assert_allclose(np.abs(strong.middle[:, m]), middle)
            assert 0 < len(row) <= most and all(middle[a] >= middle[b] for a, b in itertools.pairwise(row))
            rest = sorted(set(range(len(middle))) - set(row))
            assert len(row) < most or all(middle[p] <= middle[row[-1]] for p in rest)
            assert (strong.low[:, m] <= strong.middle[:, m]).all() and (strong.middle <= strong.high).all()


@pytest.mark.slow
def test_interfaces_are_doubled_as_far_as_the_mesh_takes_them(nominal):
    """The elasticity is over the numbers that are placed: 4 become 6 in three rows, and 2 stay 2 in one."""
    own = sensitivities(nominal, ["nop.interfaces", "clock"])
    chiplets = (np.asarray(DESIGNS.template) >= 0).sum(axis=1)
    now = PackageParameters()
    twice = PackageParameters(interface_counts=tuple((most, 2 * count) for most, count in now.interface_counts))
    few, many = (np.asarray([len(interface_positions(p, n)) for n in chiplets]) for p in (now, twice))
    grows = many > few
    assert {(2, 2), (2, 4), (4, 4), (4, 6)} == set(zip(few.tolist(), many.tolist(), strict=True))
    after = what_if(nominal, {"nop.interfaces": "x2"}).objectives[0]
    expected = np.log(after / own.objectives) / np.log(np.where(grows, many / few, np.nan))[:, None]
    np.testing.assert_allclose(own.elasticity[:, 0], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(own.derivative[:, 0], expected * own.objectives, rtol=1e-9, atol=1e-18)
    assert own.elasticity[grows, 0, 0].min() < 0 and np.isnan(own.elasticity[~grows, 0]).all()
    assert np.isfinite(own.elasticity[:, 1]).all()
    # What has no elasticity is no part of medians, and an empty cell.
    strong = own.strongest(5)
    np.testing.assert_allclose(strong.middle[0], np.median(own.elasticity[grows, 0], axis=0))
    assert all(np.isfinite(x).all() for x in (strong.low, strong.middle, strong.high))
    rows = [row for row in csv.DictReader(io.StringIO(columns_csv(own.table()))) if row["parameter"] != "clock"]
    for name in ("derivative", "elasticity"):
        assert [row[name] == "" for row in rows] == np.repeat(~grows, 3).tolist()
    # Where no design takes more there is nothing to rank.
    one_row = candidates(designs=jax.tree.map(lambda leaf: leaf[chiplets <= 2], DESIGNS))
    none = sensitivities(one_row, "nop.interfaces")
    assert np.isnan(none.elasticity).all() and none.strongest(5).rows == ((), (), ())
    assert rendered(tornado(none, title="toy"), "png")


@pytest.mark.parametrize("parameters, message", [(3, "is of the type int"), ([3], "unknown parameter '3'")])
def test_what_names_no_parameter_is_refused(nominal, parameters, message):
    with pytest.raises(InputError, match=f"argument `parameters`: {message}"):
        sensitivities(nominal, parameters)


def test_sensitivities_are_a_tidy_table(found):
    table = found.table()
    assert list(table) == [
        "design_id", "parameter", "unit", "value", "objective", "nominal", "derivative", "elasticity", "method",
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(columns_csv(table))))
    assert len(rows) == COUNT * len(found.parameters) * 3
    at = 3 * len(found.parameters) * 2 + 3 * 5 + 1
    one = found.parameters[5]
    assert (rows[at]["design_id"], rows[at]["parameter"], rows[at]["objective"]) == ("d2", one.name, "energy_J")
    assert float(rows[at]["elasticity"]) == found.elasticity[2, 5, 1]


# ---------------------------------------------------------------- uncertainty


def test_without_spread_every_design_of_the_front_survives(nominal):
    sure = uncertainty(nominal, 0.0, samples=60)
    assert 0 < sure.in_front.sum() < COUNT
    np.testing.assert_array_equal(sure.probability, sure.in_front)
    np.testing.assert_array_equal(sure.quantiles, np.broadcast_to(sure.nominal, (3, COUNT, 3)))
    assert sure.fragile == ()


def planted(threshold: float):
    """Two designs, the first faster and no larger: the second is on the front if it takes less energy.

    Energy is c + h f with f the factor of the hop energy, which is set so that both are equal at f = threshold.
    """
    own = reports(DESIGNS, EVALUATION)
    latency, _, area = own.objectives.T
    hops = own.nop_energy.sum(axis=1) / PackageParameters().hop_energy
    rest = own.layer_energy.sum(axis=1)
    for a, b in itertools.permutations(range(COUNT), 2):
        hop = (rest[b] - rest[a]) / (hops[a] - hops[b]) if hops[a] != hops[b] else -1.0
        if latency[a] < latency[b] and area[a] <= area[b] and hop > 0 and hops[a] > hops[b]:
            pair = jax.tree.map(lambda leaf, at=(a, b): leaf[list(at)], DESIGNS)
            return candidates(PackageParameters(hop_energy=hop / threshold), Design(**vars(pair)))
    raise AssertionError("no such pair: draw others")


@pytest.mark.parametrize("threshold", [0.8, 1.5])
def test_a_planted_pair_has_the_probability_of_the_closed_form(threshold):
    spread, samples = 0.4, 500
    found = uncertainty(planted(threshold), {"nop.hop_energy": spread}, samples=samples, seed=3)
    # The second survives if the factor is above the threshold: P(spread * z > log threshold).
    expected = 1 - statistics.NormalDist().cdf(math.log(threshold) / spread)
    error = math.sqrt(expected * (1 - expected) / samples)
    assert found.probability[0] == 1
    assert abs(found.probability[1] - expected) < 4 * error  # fails for one in 16,000 seeds
    assert found.in_front.tolist() == [True, threshold < 1]


def test_survival_of_lognormal_rivals_has_the_closed_form():
    """Two of equal latency and energies a f and b g with independent factors: log f - log g has spread sigma sqrt 2."""
    samples, sigma, ratio = 20_000, 0.3, 1.2
    draws = np.exp(sigma * np.random.default_rng(5).normal(size=(samples, 2)))
    objectives = np.stack([np.ones((samples, 2)), draws * [1.0, ratio]], axis=-1)
    first = statistics.NormalDist().cdf(math.log(ratio) / (sigma * math.sqrt(2)))
    expected = np.asarray([first, 1 - first])
    assert np.all(np.abs(survival(objectives) - expected) < 4 * np.sqrt(expected * (1 - expected) / samples))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=6, max_size=6))
def test_survival_is_the_share_of_fronts(values):
    sample = np.asarray(values, float)
    alone = [not any(np.all(o <= row) and np.any(o < row) for o in sample) for row in sample]
    assert survival(np.stack([sample, np.full_like(sample, np.inf)])).tolist() == [0.5 * on for on in alone]


def test_uncertainty_is_seeded_and_named(nominal):
    one, two, other = (uncertainty(nominal, 0.5, samples=60, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.objectives, two.objectives)
    assert not np.array_equal(one.factors, other.factors)
    kinds = {p.kind for p in one.parameters}
    names = [p.name for p in one.parameters]
    assert kinds == {"energy", "area", "bandwidth"}
    assert "technology.mac_energy" in names and "technology.adder_energy" not in names
    logs = np.log(one.factors)
    assert abs(logs.std() - 0.5) < 4 * 0.5 / math.sqrt(2 * logs.size)
    assert abs(logs.mean()) < 4 * 0.5 / math.sqrt(logs.size)
    below, middle, above = one.quantiles
    assert np.all(below <= middle) and np.all(middle <= above)
    np.testing.assert_allclose(one.quantiles, np.quantile(one.objectives, (0.05, 0.5, 0.95), axis=0))
    rows = list(csv.DictReader(io.StringIO(columns_csv(one.table()))))
    assert [row["design_id"] for row in rows] == list(nominal.names)
    assert float(rows[3]["energy_J_p95"]) == above[3, 1]


@pytest.mark.slow
def test_questions_tell_how_far_they_are(nominal):
    told = []
    asked = uncertainty(nominal, 0.5, samples=400, seed=1, progress=lambda *far: told.append(far))
    pairs = asked.objectives.shape[0] * COUNT + COUNT  # the unchanged hardware is evaluated too
    assert pairs > 1024 and told == sorted(told) and len(told) > 2 and {total for _, total in told} == {pairs}
    assert told[-1] == (pairs, pairs) and told[0] == (1024, pairs)
    np.testing.assert_array_equal(asked.objectives, uncertainty(nominal, 0.5, samples=400, seed=1).objectives)
    told.clear()
    what_if(nominal, {"clock": "1,2"}, progress=lambda *far: told.append(far))
    sensitivities(nominal, ["clock"], progress=lambda *far: told.append(far))
    assert [far for far in told if far[0] == far[1]] == [(3 * COUNT, 3 * COUNT)] * 4


def test_fragile_designs_are_named():
    found = uncertainty(planted(0.8), {"nop.hop_energy": 0.4}, samples=500)
    rare = dataclasses.replace(found, probability=np.asarray([1.0, 0.04]))
    assert found.fragile == () and rare.fragile == ("d1",)


@pytest.mark.parametrize(
    "spread", [-0.1, math.nan, 5.1, 50, None, "a", True, [0.2], {}, {"clock": 0.1}, {"nop.hop": 0.1}]
)
def test_bad_spreads_are_refused(nominal, spread):
    with pytest.raises(InputError, match="argument `spread`"):
        uncertainty(nominal, spread, samples=2)


@pytest.mark.parametrize("value", ["x", None, 6.0])
def test_a_bad_spread_is_named_with_its_parameter(nominal, value):
    with pytest.raises(InputError, match="is no spread; write numbers from 0 to 5") as error:
        uncertainty(nominal, {"nop.hop_energy": value}, samples=2)
    assert f"argument `spread[nop.hop_energy]={value!r}`" in str(error.value)


@pytest.mark.slow
def test_the_largest_spread_gives_finite_numbers():
    """In single precision too, whose range is the smaller one."""
    single = dataclasses.replace(candidates(), evaluation=cast(EVALUATION, jnp.float32))
    assert single.dtype == np.float32
    found = uncertainty(single, np.float32(5), samples=1000)
    assert np.isfinite(found.quantiles).all() and np.isfinite(found.objectives).all()
    assert 0 < np.log(found.factors.astype(float)).std() - 4.5 < 1


# ---------------------------------------------------------------- figures


def axes_of(figure):
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def test_figures_of_grids(nominal):
    lines = what_if(nominal, {"nop.interface_bandwidth": "2,4,unlimited"})
    assert [name for name, _ in what_if_figures(lines, title="toy")] == ["what_if"]
    both = what_if(nominal, {"nop.interface_bandwidth": "2,4", "technology.dram_energy": "x0.5,x1"})
    [(_, figure)] = what_if_figures(both, title="toy")
    assert len(axes_of(figure)) == 2  # none for the area, which does not change
    written = {text.get_text() for axes in axes_of(figure) for text in axes.texts}
    least = both.grid[0, 0, :, 1].min()
    assert written & {f"{least * scale:.3g}" for scale in (1e3, 1e6)}
    vary = {"nop.interface_bandwidth": "2,4", "chiplet.capacity": "x0.5,x1", "nop.hop_energy": "0,1", "clock": "1,2"}
    figures = what_if_figures(what_if(nominal, vary), title="toy")
    assert [name for name, _ in figures] == ["what_if_latency", "what_if_energy"]
    assert all(len(axes_of(figure)) == 4 and rendered(figure, "png") for _, figure in figures)
    with pytest.raises(InputError, match="49 panels"):
        check_panels([2, 2, 7, 7])


def test_tornado_shows_the_strongest_first(found):
    figure = tornado(found, title="toy", most=5)
    for m, axes in enumerate(figure.axes):
        lengths = [abs(bar.get_width()) for bar in axes.patches]
        assert lengths == sorted(lengths, reverse=True)
        assert np.isclose(lengths[0], np.abs(np.nanmedian(found.elasticity[..., m], axis=0)).max())
    assert figure.axes[1].get_yticklabels()[0].get_text() == "technology.dram_energy"
    assert rendered(figure, "png")


def test_front_under_uncertainty_marks_the_fragile(nominal):
    found = uncertainty(nominal, 0.3, samples=60)
    fragile = np.where(found.in_front, 0.0, found.probability)
    figure = front_under_uncertainty(dataclasses.replace(found, probability=fragile), title="toy")
    marks = [line for axes in axes_of(figure)[:3] for line in axes.lines if line.get_marker() == "x"]
    assert [len(line.get_xdata()) for line in marks] == [int(found.in_front.sum())] * 3
    assert rendered(figure, "png")


# ---------------------------------------------------------------- command line and door


def parsed(*words):
    import argparse

    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words, message",
    [
        (["--samples", "3"], "--samples: is for --uncertainty"),
        (["--figures", "x"], "--figures: is for --vary"),
        (["--vary", "a=1", "--sensitivities"], "--sensitivities: is a different question from --vary"),
        (["--vary", "a=1", "--vary", "a=2"], "--vary: a is given twice"),
        (["--uncertainty", "0.1", "--uncertainty", "nop.hop_energy=0.2"], "a spread of all and one of some"),
        (["--vary", "a=1,2", "--figures", "x", *["--vary", "b=1,2", "--vary", f"c={','.join('1' * 99)}"]], "99 panels"),
    ],
)
def test_options_that_do_not_go_together(words, message):
    with pytest.raises(InputError, match=message):
        check(parsed(*words))


@pytest.mark.parametrize(
    "words, message",
    [
        (["--vary", "nop.hops=1"], "--vary nop.hops=V,V,...: unknown parameter 'nop.hops'"),
        (["--vary", "clock=x1,2"], "mixes values and factors"),
        (["--uncertainty", "nop.hops=0.1"], "--uncertainty: unknown parameter 'nop.hops'"),
    ],
)
def test_parameters_are_checked_before_designs_are_evaluated(tmp_path, monkeypatch, capsys, words, message):
    def never(*_, **__):
        raise AssertionError("the designs are evaluated")

    monkeypatch.setattr("mohamjax.io.designs.reevaluate", never)
    for name, model in fuzz_documents.BEHIND.items():
        save(tmp_path, model, name)
    (tmp_path / "designs.json").write_bytes(fuzz_documents.sound("designs"))
    assert main(["evaluate", "designs", str(tmp_path / "designs.json"), *words]) == 2
    assert message in capsys.readouterr().err
    assert main(["evaluate", "designs", str(tmp_path / "designs.json"), "--vary", "clock=1,2"]) == 1
    assert "the designs are evaluated" in capsys.readouterr().err
