"""Wires on arrays larger than a mapping needs, compared with the plain rules and the cost model."""

import dataclasses
import functools
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import plain_timeloop
import pytest
from design_cases import LEVELS as DESIGN_LEVELS
from design_cases import TECHNOLOGY, TEMPLATES, chains, evaluation, random_designs, reports, tables, wires_of
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import quick_jit, toy
from random_nests import LEVELS, random_layer_and_mapping, random_machine, stack

from mohamjax.dims import DIMS
from mohamjax.hardware import PackageParameters, load_template, template_arrays
from mohamjax.mapper.problems import context
from mohamjax.mapping import (
    Mapping,
    count_accesses,
    energy,
    evaluate_batch,
    explain,
    hop_columns,
    layer_arrays,
    least_hops,
    tabulate_sets,
    wires,
)
from mohamjax.mapping.accesses import DEFAULT_COUNTING
from mohamjax.mapping.own_costs import evaluate_mappings, told_reason
from mohamjax.mapping.space import decode, sample
from mohamjax.mapping.wires import axis_sizes
from mohamjax.schedule import Setup, evaluation_arrays, report
from mohamjax.workload import UniqueLayer, WorkloadShape

BATCH = 8


@pytest.fixture(scope="module")
def counted():
    return jax.jit(jax.vmap(count_accesses))


def random_problem(seed):
    """Random nests on machines with larger meshes: layers, mappings, machines, and the fanouts that the nests use."""
    rng = np.random.default_rng(seed)
    layers, mappings, machines, used = [], [], [], []
    for _ in range(BATCH):
        layer, mapping = random_layer_and_mapping(rng)
        own = np.prod(mapping.spatial, axis=2).T.astype(float)
        machine = random_machine(rng, mapping)
        layers.append(layer)
        mappings.append(mapping)
        machines.append(machine.replace(fanout=own + rng.integers(0, 6, own.shape)))
        used.append(own)
    return layers, mappings, machines, np.stack(used)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_hops_on_any_array_are_those_of_the_plain_rules(counted, seed):
    layers, mappings, machines, used = random_problem(seed)
    with jax.enable_x64(True):
        counts = jax.device_get(counted(stack(layers), stack(mappings), stack(machines)))
    words = counts.delivered * counts.instances_used[..., None]
    lead = {
        "count": np.ones((BATCH, 1), np.int32),
        "cycles": np.zeros((BATCH, 1, 1)),
        "exists": np.ones((BATCH, 1, 1), bool),
    }
    pareto: Any = SimpleNamespace(
        mapping=jax.tree.map(lambda leaf: leaf[:, None, None], stack(mappings)),
        fanout=used[:, None, None],
        delivered=words[:, None, None],
        **lead,
    )
    # A template as large as the largest machine, with wires at all levels.
    machine = machines[0].replace(
        fanout=np.max([m.fanout for m in machines], axis=0),
        hop_energy=np.ones(LEVELS),
        level_mask=np.ones(LEVELS, bool),
    )
    template: Any = SimpleNamespace(machine=stack([machine]), wired=np.zeros((1, LEVELS), bool))
    shapes: Any = [SimpleNamespace(stride=tuple(x.stride), dilation=tuple(x.dilation)) for x in layers]
    chips = np.zeros(BATCH, int), np.stack([m.fanout for m in machines])
    found = wires(shapes, template, pareto, chips)
    sizes = jax.tree.map(lambda leaf: leaf[0], found.sizes)
    fewest = least_hops(found, LEVELS)
    assert not found.hops[..., 0].any()
    for n, (layer, mapping, own) in enumerate(zip(layers, mappings, machines, strict=True)):
        plain = np.sum(plain_timeloop.count(layer, mapping, own)["hops"], axis=1) * counts.instances_used[n]
        columns = hop_columns(sizes, own.fanout)
        real = sizes.start > 0
        np.testing.assert_allclose(found.hops[n, 0, 0][columns][real], plain[sizes.level[real]], rtol=1e-12)
        assert np.all(fewest[n, 0, 0, sizes.level[real]] <= plain[sizes.level[real]] * (1 + 1e-12))
        free = np.setdiff1d(np.arange(LEVELS), sizes.level[real])
        assert not plain[free].any()


@pytest.mark.slow
def test_a_layer_pays_for_the_wires_of_its_whole_chiplet():
    """A layer on a chiplet that another layer makes larger; its wires by hand, with K along X and C along Y."""
    problem = chains(1)
    made = tables(problem, 1)
    designs = random_designs(problem, made, 2, 64, tiles=4)
    with jax.enable_x64(True):
        found = reports(designs, evaluation(problem, made))
    real = len(problem.layers)
    unique = np.asarray(problem.unique_of_layer)
    larger = 0
    for n in range(64):
        tile = designs.assignment[n, :real]
        t, m = designs.template[n, tile], designs.mapping[n, :real]
        chip, own = found.chiplets.fanout[n, tile], made.fanout[unique, t, m]
        expected = np.zeros((real, DESIGN_LEVELS))
        for i in range(real):
            cost = found.chiplets.machine.hop_energy[n, tile[i]]
            for level in np.flatnonzero(cost):
                words = made.delivered[unique[i], t[i], m[i], level]
                hops = by_hand(*own[i, level], *chip[i, level])
                expected[i, level] = words @ hops * cost[level]
                larger += not np.array_equal(own[i, level], chip[i, level])
        np.testing.assert_allclose(found.wire_energy[n, :real], expected, rtol=1e-9)
    assert larger > 100


def by_hand(k, c, width, height):
    """Hops of a word to all groups of weights, inputs and outputs: K along X and C along Y of a larger array."""
    if k * c == 1:
        return np.zeros(3)
    child = np.arange(int(k * c))
    row, column = np.divmod(child, int(max(width, k)))
    along, across = child % int(k), child // int(k)
    middle = (max(height, c) - 1) / 2
    out = []
    for label in (child, across, along):
        total = 0.0
        for group in set(label):
            mine = label == group
            total += column[mine].max()
            for x in set(column[mine]):
                rows = row[mine & (column == x)]
                total += max(0, middle - rows.min()) + max(0, rows.max() - middle)
        out.append(total)
    return np.asarray(out)


def test_tables_of_one_problem_share_a_shape():
    """The program of a generation is compiled once, whatever mappings were found."""
    problem = chains(4)
    shapes = {tuple(x.shape for x in jax.tree.leaves(wires_of(problem, tables(problem, seed)))) for seed in range(4)}
    assert len(shapes) == 1


def test_long_axes_count_what_occurs():
    assert axis_sizes(16, np.array([3.0, 5.0])).tolist() == list(range(1, 17))
    assert axis_sizes(64, np.array([3.0, 5.0, 3.0, -1.0])).tolist() == [3, 5, 64]


def test_stated_sizes_are_counted():
    problem = chains(5)
    made = tables(problem, 5)
    with jax.enable_x64(True):
        on = evaluation(problem, made)
    fanout = np.asarray(on.templates.machine.fanout)
    stated = np.where(fanout > 1, fanout - 1, fanout)
    with jax.enable_x64(True):
        shapes = [layer.shape for layer in problem.unique_layers]
        found = wires(shapes, on.templates, made, (np.arange(len(fanout)), stated))
    for t, size in enumerate(stated):
        sizes = jax.tree.map(lambda leaf, t=t: leaf[t], found.sizes)
        for n in np.flatnonzero(sizes.start):
            assert size[sizes.level[n], 0] in sizes.width[n] and size[sizes.level[n], 1] in sizes.height[n]


@pytest.mark.slow
def test_a_size_that_was_not_counted_has_infinite_energy():
    """It does not use the next larger array: long axis, stated chiplet size, evaluation without the stated size."""
    level = TEMPLATES[0].level_names.index("shared_glb")
    levels = list(TEMPLATES[0].levels)
    levels[level] = dataclasses.replace(levels[level], fanout=(64, 2))
    templates = dataclasses.replace(TEMPLATES[0], levels=tuple(levels)), TEMPLATES[1]
    problem = chains(6)
    made = tables(problem, 6, templates=templates, blocked=False)
    designs = random_designs(problem, made, 6, 1, tiles=4)
    design = jax.tree.map(lambda leaf: leaf[0], designs).replace(
        template=np.array([0, -1, -1, -1], np.int32), assignment=np.zeros(32, np.int32), mapping=np.zeros(32, np.int32)
    )
    used = {int(x) for x in made.fanout[:, 0, :, level, 0].ravel()}
    stated = next(x for x in range(63, 16, -1) if x not in used and x > made.fanout[:, 0, 0, level, 0].max())
    fanout = np.full((4, DESIGN_LEVELS, 2), -1.0)
    fanout[0, level, 0] = stated
    sizes = np.full((4, DESIGN_LEVELS), -1.0), fanout

    def found(sizes, given):
        on = evaluation_arrays(Setup(problem, templates, TECHNOLOGY, PackageParameters(max_tiles=4)), made, given=given)
        return jax.device_get(jax.jit(report)(design, on, sizes))

    with jax.enable_x64(True):
        alone, untold, told = found(None, None), found(sizes, None), found(sizes, (np.zeros(4, int), fanout))
    real = len(problem.layers)
    assert np.isinf(untold.wire_energy[:real, level]).all() and np.isinf(untold.objectives[1])
    assert not untold.wire_energy[real:].any()
    np.testing.assert_array_equal(untold.objectives[[0, 2]], told.objectives[[0, 2]])
    assert np.isfinite(alone.objectives).all() and np.isfinite(told.objectives).all()
    cost, unique = told.chiplets.machine.hop_energy[0, level], np.asarray(problem.unique_of_layer)
    width, height = told.chiplets.fanout[0, level]
    assert width == stated
    hops = [by_hand(*made.fanout[u, 0, 0, level], width, height) for u in unique]
    expected = np.sum(made.delivered[unique, 0, 0, level] * hops, axis=1) * cost
    np.testing.assert_allclose(told.wire_energy[:real, level], expected, rtol=1e-9)


# ---------------------------------------------------------------- templates of fixed sizes, and large arrays


def nests_of(template, shape, count=64):
    """Random mappings of a layer on a template, and the problem."""
    own = context(UniqueLayer("conv", shape), template, TECHNOLOGY)
    draw = quick_jit(
        lambda key: jax.vmap(lambda key: decode(sample(key, own.space), own.space))(jax.random.split(key, count))
    )
    return draw(jax.random.key(0)), own


@pytest.mark.slow
def test_costs_on_a_template_of_fixed_sizes_are_those_of_its_whole_arrays():
    template = dataclasses.replace(load_template("simba"), sizes="fixed")
    shape = WorkloadShape(K=64, C=32, P=28, Q=28, R=3, S=3)
    nests, problem = nests_of(template, shape)
    costs = evaluate_mappings(nests, shape, template)
    machine = jax.tree.map(lambda leaf: leaf[0], template_arrays([template], TECHNOLOGY)).machine
    whole = quick_jit(evaluate_batch)(layer_arrays(shape), nests, machine)
    valid = np.asarray(costs.valid)
    assert valid.sum() > 32
    np.testing.assert_allclose(costs.objectives[valid, 1], whole.energy.total[valid], rtol=1e-5)
    layers, templates = (
        jax.tree.map(lambda leaf: leaf[None], tree) for tree in (problem.space.layer, problem.template)
    )
    tables = tabulate_sets(layers, templates, TECHNOLOGY, jax.tree.map(lambda leaf: leaf[None], nests), [len(valid)])
    np.testing.assert_allclose(tables.objectives[0, valid, 1], whole.energy.total[valid], rtol=1e-5)
    part = tabulate_sets(
        layers, templates, TECHNOLOGY, jax.tree.map(lambda leaf: leaf[None], nests), [len(valid)], whole=False
    )
    assert np.mean(part.objectives[0, valid, 1] < tables.objectives[0, valid, 1] * 0.999) > 0.2


@pytest.mark.slow
def test_meshes_of_more_than_32768_children_are_counted_right():
    """Numbers of children of such a mesh exceed 16 bits; on the plain rules and with both kinds of tables."""
    rng = np.random.default_rng(0)
    layer, mapping = random_layer_and_mapping(rng, levels=2, loops=0)
    spatial = np.ones((2, 2, len(DIMS)), np.int32)
    spatial[0, 0, [DIMS.index("K"), DIMS.index("C")]] = 11, 13
    spatial[1, 0, [DIMS.index("K"), DIMS.index("C")]] = 15, 17
    mapping = dataclasses.replace(mapping, spatial=spatial)
    layer = dataclasses.replace(layer, bounds=np.prod(spatial, axis=(0, 1)))
    fanout = np.prod(spatial, axis=2).T.astype(np.float32)
    machine = random_machine(rng, mapping)
    machine = machine.replace(fanout=fanout + np.asarray([[7, 0], [0, 0]], np.float32))  # wider than the loops
    plain = np.asarray(plain_timeloop.count(layer, mapping, machine)["hops"])
    assert np.prod(fanout, axis=1).max() == 36465 and (plain[0] > 0).all()
    for grid in (True, False):
        counting = dataclasses.replace(DEFAULT_COUNTING, max_children=1 << 16, grid=grid)
        counts = quick_jit(functools.partial(count_accesses, counting=counting))(layer, mapping, machine)
        np.testing.assert_allclose(counts.hops, plain, rtol=1e-5)


def _tangled():
    """A template of 32 by 32 children, and a nest with R and P along X and K along Y: tables count its wires."""
    template = toy(fanout=(32, 32))
    template = dataclasses.replace(
        template,
        levels=tuple(dataclasses.replace(level, hop_energy_pJ=None) for level in template.levels[:2])
        + template.levels[2:],
    )
    shape = WorkloadShape(K=16, P=8, R=3)
    ones = np.ones((3, len(DIMS)), np.int32)
    spatial = np.ones((2, 3, len(DIMS)), np.int32)
    spatial[0, 1, [DIMS.index("P"), DIMS.index("R")]] = 8, 3
    spatial[1, 1, DIMS.index("K")] = 16
    unit = np.arange(len(DIMS), dtype=np.int32)
    nest = Mapping(
        temporal=ones,
        order=np.broadcast_to(unit, ones.shape),
        spatial=spatial,
        spatial_order=np.broadcast_to(unit, spatial.shape),
        keep=np.ones((3, 3), bool),
    )
    return template, shape, nest


@pytest.mark.slow
def test_traced_mappings_cost_as_concrete_ones_and_no_guess_is_valid():
    template, shape, nest = _tangled()
    expected = evaluate_mappings(nest, shape, template)
    assert bool(expected.valid) and np.isfinite(expected.objectives).all()
    traced = jax.jit(lambda nest: evaluate_mappings(nest, shape, template))(nest)
    jax.tree.map(lambda own, other: np.testing.assert_allclose(own, other, rtol=1e-6), traced, expected)
    for few in (0, 256):
        found = evaluate_mappings(nest, shape, template, max_children=few)
        assert not found.valid and np.isinf(found.objectives).all()
        assert "`max_children` is smaller than this mapping needs" in told_reason(found.reason)
    free = toy(fanout=(32, 32))  # its hops cost nothing, so that nothing is unknown
    free_wires = evaluate_mappings(nest, shape, free, max_children=0)
    assert free_wires.valid and free_wires.objectives[1] == evaluate_mappings(nest, shape, free).objectives[1]


@pytest.mark.slow
def test_arrays_of_more_than_256_children_have_an_energy():
    """R and P along X, K along Y: no closed form counts these wires, and a table of 256 children is too small."""
    template, shape, nest = _tangled()
    costs = evaluate_mappings(nest, shape, template)
    assert bool(costs.valid) and np.isfinite(costs.objectives).all()
    free = toy(fanout=(32, 32))
    machine = jax.tree.map(lambda leaf: leaf[0], template_arrays([free], TECHNOLOGY)).machine
    counts = quick_jit(count_accesses)(layer_arrays(shape), nest, machine)
    assert np.isfinite(energy(counts, machine).total)
    # A level may have more children than its own fanout, if the level above has fewer: that is Timeloop's rule.
    sizes = {"GLB": (1, 32), "DRAM": (32, 1)}
    levels = tuple(dataclasses.replace(own, fanout=sizes.get(own.name, own.fanout)) for own in template.levels)
    for own in (template, free, dataclasses.replace(template, levels=levels)):
        machine = jax.tree.map(lambda leaf: leaf[0], template_arrays([own], TECHNOLOGY)).machine
        assert np.isfinite(explain(layer_arrays(shape), nest, machine)["energy_pJ"])
