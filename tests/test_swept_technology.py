"""A technology that changes after templates and tables were made: all costs follow it except those that are stated."""

import dataclasses

import jax
import numpy as np
import pytest
from design_cases import TECHNOLOGY, TEMPLATES, chains, evaluation, random_designs, reports, tables

from mohamjax.hardware import COMPONENT_CLASSES, Mac, component_leakage, mac_leakage, resize, template_arrays

jit_resize = jax.jit(resize)


def scaled(technology, energy=1.0, area=1.0):
    """The technology with the costs of multipliers and adders scaled."""
    factor = np.array([energy, energy, area])
    return dataclasses.replace(technology, multiplier=technology.multiplier * factor, adder=technology.adder * factor)


@pytest.mark.parametrize("energy, area", [(None, None), (0.25, None), (None, 300.0), (0.25, 300.0)])
def test_a_mac_costs_what_the_technology_or_else_its_template_says(energy, area):
    template = dataclasses.replace(TEMPLATES[0], mac=Mac(energy_pJ=energy, area_um2=area))
    arrays = jax.tree.map(lambda leaf: leaf[0], template_arrays([template], TECHNOLOGY))
    size = arrays.machine.capacity, arrays.machine.fanout
    before, after = (jit_resize(arrays, t, *size) for t in (TECHNOLOGY, scaled(TECHNOLOGY, 0.5, 0.25)))
    assert float(after.mac_energy) == (0.5 * float(before.mac_energy) if energy is None else energy)
    assert float(after.mac_area) == (0.25 * float(before.mac_area) if area is None else area)
    assert np.all(before.hop_energy >= after.hop_energy)
    assert np.any(before.hop_energy > after.hop_energy) == (area is None)  # wires are as long as what they cross


@pytest.mark.slow
def test_energy_of_designs_follows_the_technology_of_the_bench():
    problem = chains(1)
    made = tables(problem, 1)
    designs = random_designs(problem, made, 2, 16)
    with jax.enable_x64(True):
        on = evaluation(problem, made)
        cheap = dataclasses.replace(on, technology=scaled(on.technology, energy=0.5))
        small = dataclasses.replace(on, technology=scaled(on.technology, area=0.5))
    found, cheaper, smaller = (reports(designs, x) for x in (on, cheap, small))
    real = len(problem.layers)
    unique, row = np.asarray(problem.unique_of_layer), np.arange(16)[:, None]
    tile = designs.assignment[:, :real]
    macs = made.macs[unique, designs.template[row, tile], designs.mapping[:, :real]]
    spent = macs * found.chiplets.machine.mac_energy[row, tile]
    np.testing.assert_allclose((found.layer_energy - cheaper.layer_energy)[:, :real], spent / 2, rtol=1e-6)
    np.testing.assert_array_equal(found.objectives[:, [0, 2]], cheaper.objectives[:, [0, 2]])

    machine = found.chiplets.machine
    saved = np.where(found.chiplets.occupied, machine.mac_instances * machine.mac_area, 0) / 2
    np.testing.assert_allclose(found.chiplets.area - smaller.chiplets.area, saved, rtol=1e-6)


@pytest.mark.slow
def test_static_energy_is_leakage_over_the_makespan():
    problem = chains(2)
    made = tables(problem, 2)
    designs = random_designs(problem, made, 2, 16)
    with jax.enable_x64(True):
        on = evaluation(problem, made)
        counted = dataclasses.replace(on, technology=dataclasses.replace(on.technology, static_share=np.float64(1)))
        arrays = template_arrays(TEMPLATES, on.technology, made.capacity.shape[3], np.float64)
    without, found = (reports(designs, x) for x in (on, counted))
    assert not without.static_energy.any()
    np.testing.assert_array_equal(found.objectives[:, [0, 2]], without.objectives[:, [0, 2]])
    extra = found.objectives[:, 1] - without.objectives[:, 1]
    np.testing.assert_allclose(extra, found.static_energy.sum(axis=1) * 1e-12, rtol=1e-9)

    # By hand: the leakage of the parts of one chiplet.
    machine, mask = found.chiplets.machine, np.asarray(found.chiplets.occupied)
    assert np.all((found.static_energy > 0) == mask)
    n, s = np.argwhere(mask)[0]
    template = int(designs.template[n, s])
    leaks = 0.0
    for v, level in enumerate(TEMPLATES[template].levels):
        rows = np.ceil(machine.capacity[n, s, v] / machine.block_words[n, s, v])
        bits = machine.block_words[n, s, v] * machine.word_bits[n, s, v]
        if rows > 0 and level.component.cls in ("sram", "regfile", "register"):
            kind = COMPONENT_CLASSES.index(level.component.cls)
            with jax.enable_x64(True):
                one = component_leakage(on.technology, kind, np.asarray(rows), bits, arrays.ports[template, v])
            leaks += float(one) * machine.instances[n, s, v]
    width, accumulator = np.asarray(arrays.mac_bits[template])
    leaks += float(mac_leakage(TECHNOLOGY, width, accumulator)) * machine.mac_instances[n, s]
    makespan_ns = found.objectives[n, 0] * 1e9
    np.testing.assert_allclose(found.static_energy[n, s], leaks * makespan_ns, rtol=1e-6)
