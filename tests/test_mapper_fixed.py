"""Mapping onto machines of an architectures file: the template that stands for one, and what its mappings cost."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from architecture_templates import template_of
from conftest import reference
from mapping_cases import ANY, TECHNOLOGY, quick_jit

from mohamjax.hardware import Dataflow, LevelRule, template_arrays
from mohamjax.io.samples import read_architectures
from mohamjax.mapper.problems import context, objectives
from mohamjax.mapping import Sample, predict
from mohamjax.mapping.space import decode, sample
from mohamjax.workload import UniqueLayer, WorkloadShape

COUNT = 32


@pytest.fixture(scope="module")
def architectures():
    return read_architectures(reference("timeloop/architectures.json"))


def free(architecture):
    """Template of an architecture that allows every loop everywhere."""
    rules = [LevelRule(ANY, ANY, ANY)] * len(architecture.level_names)
    return template_of(architecture, [Dataflow(("conv",), tuple(rules))])


def test_the_template_is_the_machine(architectures):
    for architecture in architectures.values():
        levels = architecture.machine.level_mask.shape[0]
        built = template_arrays([free(architecture)], TECHNOLOGY, levels=levels).machine
        real = np.asarray(architecture.machine.level_mask)
        stores = np.asarray(architecture.machine.keep).any(axis=1)
        for name in ("fanout", "mesh", "instances", "bandwidth", "reduces", "access_energy", "area", "hop_energy"):
            ours, given = (np.asarray(getattr(m, name)) for m in (built, architecture.machine))
            ours = ours[0]
            np.testing.assert_allclose(ours[real], given[real], rtol=1e-6, err_msg=f"{architecture.name} {name}")
        np.testing.assert_array_equal(
            np.asarray(built.capacity)[0][real & stores], architecture.machine.capacity[real & stores]
        )
        for name in ("mac_mesh", "mac_instances", "mac_energy", "mac_area"):
            given = np.asarray(getattr(architecture.machine, name))
            np.testing.assert_allclose(np.asarray(getattr(built, name))[0], given, rtol=1e-6)


@pytest.mark.slow
def test_objectives_are_those_of_the_machine_with_its_off_chip_limits(architectures):
    architecture = architectures["shidiannao"]
    template = free(architecture)
    shape = WorkloadShape(K=32, C=16, P=14, Q=14, R=3, S=3)
    levels = architecture.machine.level_mask.shape[0]
    problem = context(UniqueLayer("conv", shape), template, TECHNOLOGY, levels=levels)
    draw = quick_jit(lambda key, space: jax.vmap(sample, in_axes=(0, None))(jax.random.split(key, COUNT), space))
    genes = draw(jax.random.key(0), problem.space)
    evaluate = quick_jit(functools.partial(objectives, fixed=True))
    found = 2.0 ** np.asarray(evaluate(genes, problem), float)
    nests = jax.device_get(jax.vmap(decode, in_axes=(0, None))(genes, problem.space))
    rows = [
        Sample(str(i), architecture, shape, jax.tree.map(lambda leaf, i=i: np.asarray(leaf[i]), nests))
        for i in range(COUNT)
    ]
    result, _ = predict(rows, links=False)
    assert (result.reason == 0).all() and np.isfinite(found).all()
    bound = result.cycles.total > result.cycles.onchip
    assert bound.any()  # the memory limits some of them
    np.testing.assert_allclose(found[:, 0], result.cycles.total, rtol=1e-5, atol=1)
    np.testing.assert_allclose(found[:, 1], result.energy.total, rtol=1e-5)
    np.testing.assert_allclose(found[:, 2], found[:, 0] * found[:, 1], rtol=1e-4)
    assert jnp.asarray(problem.template.machine.capacity).dtype == jnp.float32
