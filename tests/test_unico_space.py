"""Hardware spaces: numbering, encoding, machines as data, spaces of templates, and refused input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import TECHNOLOGY

from mohamjax.errors import InputError
from mohamjax.hardware import load_template, template_arrays
from mohamjax.mapping import area
from mohamjax.unico.space import (
    MOST_POINTS,
    SPACES,
    Axis,
    HardwareSpace,
    check_layers,
    machine_of,
    named_space,
    template_space,
)
from mohamjax.workload import UniqueLayer, WorkloadShape

TEMPLATES = ("simba", "eyeriss", "shidiannao")
TECH = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), TECHNOLOGY)


def every_space():
    return [named_space(name) for name in SPACES] + [template_space(load_template(name)) for name in TEMPLATES]


def test_sizes():
    assert named_space("unico-edge").size == 24 * 24 * 20 * 20 * 9 * 2 == 4_147_200
    assert named_space("unico-ci").size == 1728
    assert all(space.size < MOST_POINTS for space in every_space())


def test_sizes_that_no_axis_sets_are_those_of_the_variant():
    base = named_space("unico-ci").variants[0]
    both = tuple(
        dataclasses.replace(
            base, name=name, levels=(dataclasses.replace(base.levels[0], capacity_words=words), *base.levels[1:])
        )
        for name, words in (("small", 64), ("big", 1024))
    )
    space = HardwareSpace("own", (Axis("pe_x", (1, 2, 4), (("fanout_x", 1),)), Axis("kind", ("small", "big"))), both)
    digits = space.digits(np.arange(space.size))
    words = np.where(digits[:, 1] == 1, 1024, 64)
    np.testing.assert_array_equal(space.sizes(digits)[0][:, 0], words)
    np.testing.assert_array_equal(space.sizes(digits)[1][:, 1, 0], np.array([1, 2, 4])[digits[:, 0]])
    assert [space.instance(row).levels[0].capacity_words for row in digits] == words.tolist()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_numbers_and_digits(data):
    space = data.draw(st.sampled_from(every_space()))
    index = np.asarray(data.draw(st.lists(st.integers(0, space.size - 1), min_size=1, max_size=8)))
    digits = space.digits(index)
    assert (space.index(digits) == index).all()
    assert ((digits >= 0) & (digits < np.asarray(space.shape))).all()
    code = space.encode(index)
    assert code.dtype == np.float32
    assert ((code >= 0) & (code <= 1)).all()
    assert space.values(digits[0]) == {a.name: a.values[d] for a, d in zip(space.axes, digits[0], strict=True)}


def test_the_encoding_is_a_logarithm():
    space = named_space("unico-edge")
    ends = space.encode([0, space.size - 1])
    assert (ends[0] == 0).all() and (ends[1] == 1).all()
    point = dict(zip([a.name for a in space.axes], space.encode([space.size - 1 - 1])[0], strict=True))
    assert point["dataflow"] == 0
    names = [axis.name for axis in space.axes]
    digits = np.zeros(len(names), int)
    digits[names.index("pe_x")] = 11  # 12 PEs of at most 24
    code = space.encode(space.index(digits[None]))[0, names.index("pe_x")]
    assert code == pytest.approx(np.log2(12) / np.log2(24))


def test_a_number_that_is_no_point_is_refused():
    with pytest.raises(ValueError, match="expected 0 to 1727"):
        named_space("unico-ci").digits([1728])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unico-ci", *TEMPLATES])
def test_machines_are_those_of_templates_of_these_sizes(name):
    space = named_space(name) if name in SPACES else template_space(load_template(name))
    index = np.random.default_rng(0).integers(space.size, size=4)
    digits = space.digits(index)
    arrays = space.arrays(TECHNOLOGY)
    variants, machines = jax.jit(jax.vmap(machine_of, in_axes=(0, None, None)))(jnp.asarray(digits), arrays, TECH)
    assert (np.asarray(variants) == space.variant(digits)).all()
    fixed = [space.instance(row, f"hw{i}") for i, row in enumerate(digits)]
    expected = template_arrays(fixed, TECHNOLOGY).machine
    for field in dataclasses.fields(expected):
        if getattr(expected, field.name) is None:  # for machines without such a part
            assert getattr(machines, field.name) is None
            continue
        np.testing.assert_allclose(
            getattr(machines, field.name), getattr(expected, field.name), rtol=1e-6, err_msg=field.name
        )
    capacity, fanout = space.sizes(digits)
    limited = capacity >= 0
    np.testing.assert_array_equal(np.asarray(machines.capacity)[limited], capacity[limited])
    np.testing.assert_array_equal(machines.fanout, fanout)


def test_one_program_serves_all_points():
    space = named_space("unico-ci")
    arrays = space.arrays(TECHNOLOGY)
    traces = []

    @jax.jit
    def size(digits, arrays):
        traces.append(1)
        return area(machine_of(digits, arrays, TECH)[1])

    first, last = (float(size(jnp.asarray(space.digits([i])[0]), arrays)) for i in (0, space.size - 1))
    assert len(traces) == 1
    assert 0 < first < last


def test_the_network_is_paid_for():
    """More bits per cycle mean wider rows of the shared scratchpad, which cost more energy per access."""
    space = named_space("unico-edge")
    names = [axis.name for axis in space.axes]
    digits = np.asarray([0, 0, 10, 10, 0, 0])
    wide = digits.copy()
    wide[names.index("noc_bits")] = 8
    arrays = space.arrays(TECHNOLOGY)
    machine = jax.jit(machine_of)
    narrow, broad = (machine(jnp.asarray(d), arrays, TECH)[1] for d in (digits, wide))
    assert float(narrow.bandwidth[1, 0]) == 2 and float(broad.bandwidth[1, 0]) == 18
    assert float(broad.access_energy[1, 0]) > float(narrow.access_energy[1, 0])


def test_spaces_of_templates_reach_from_the_least_to_the_full_size():
    for name in TEMPLATES:
        template = load_template(name)
        space = template_space(template)
        largest = space.instance(space.digits([space.size - 1])[0])
        assert [x.capacity_words for x in largest.levels] == [x.capacity_words for x in template.levels]
        assert [x.fanout for x in largest.levels] == [x.fanout for x in template.levels]
        least = space.instance(space.digits([0])[0])
        for small, full in zip(least.levels, template.levels, strict=True):
            assert small.fanout == (1, 1)
            if full.capacity_words is not None:
                granule = max(full.granularity_rows, 1) * (full.block_words if full.granularity_rows else 1)
                assert sum(full.keep) <= small.capacity_words <= max(granule, sum(full.keep))


def test_huge_templates_are_thinned():
    simba = load_template("simba")
    levels = tuple(
        dataclasses.replace(x, fanout=(64, 64), capacity_words=x.capacity_words and 2**24) for x in simba.levels
    )
    space = template_space(dataclasses.replace(simba, levels=levels))
    assert space.size < MOST_POINTS
    largest = space.instance(space.digits([space.size - 1])[0])
    assert [x.fanout for x in largest.levels] == [(64, 64)] * len(levels)


def test_what_is_refused():
    with pytest.raises(InputError, match=r"unknown space 'edge'.*unico-edge"):
        named_space("edge")
    with pytest.raises(InputError, match="fixed sizes"):
        template_space(dataclasses.replace(load_template("simba"), sizes="fixed"))
    with pytest.raises(ValueError, match="structural"):
        HardwareSpace("x", (Axis("a", ("one", "two")),), (load_template("simba"),))
    depthwise = UniqueLayer("dwconv", WorkloadShape(G=8, P=4, Q=4, R=3, S=3))
    plain = UniqueLayer("conv", WorkloadShape(K=8, C=8))
    eyeriss = template_space(load_template("eyeriss-released"))
    with pytest.raises(InputError, match="template eyeriss-released: cannot run 1 of 2 unique layers"):
        check_layers([plain, depthwise], eyeriss)
    with pytest.raises(InputError, match="template eyeriss-released: runs none of the layers"):
        check_layers([depthwise], eyeriss)
    check_layers([plain, depthwise], named_space("unico-ci"))
