"""Padded bounds: which are offered, that genes and operators respect them, and that the optimum among them is found."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import ARRAYS, LEVELS, PRIMES, TECHNOLOGY, TEMPLATES, quick_jit, random_shape, toy, violations

from mohamjax.errors import InputError
from mohamjax.hardware import load_template
from mohamjax.mapper.exhaustive import Enumeration, space_size
from mohamjax.mapper.layer_mapper import LayerMapper
from mohamjax.mapper.mapping_operators import (
    all_neighbours,
    crossover,
    fill,
    mutate,
    neighbour,
    neighbours,
    pad,
    parallelise,
)
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.nest import covered
from mohamjax.mapping.notation import mapping_from_dict, mapping_to_dict
from mohamjax.mapping.padding import ALTERNATIVES, MOST_PADDED, padded_bounds
from mohamjax.mapping.space import constraints, decode, encode, map_space, prime_factors, sample
from mohamjax.search.config import Settings, changed
from mohamjax.workload import DIMS, UniqueLayer, WorkloadShape

SEED = st.integers(0, 2**31 - 1)
TEMPLATE = st.integers(0, len(TEMPLATES) - 1)
ROOM = PRIMES + 8


def offered(template, shape, layer_type="conv", primes=ROOM):
    limits = constraints(TEMPLATES[template], layer_type, shape, LEVELS)
    machine = jax.tree.map(lambda leaf: np.asarray(leaf[template]), ARRAYS.machine)
    return padded_bounds(shape.bounds, limits, machine, primes), limits, machine


def padded_space(template, shape, layer_type="conv"):
    """The map space with its padded bounds, in one shape for all layers."""
    bounds, limits, machine = offered(template, shape, layer_type)
    return jax.tree.map(jnp.asarray, map_space(shape, limits, machine, ROOM, bounds, ALTERNATIVES))


_decoded = quick_jit(decode)
_drawn = quick_jit(sample)


def broken(genes, template, shape, space):
    """Every rule that genes break, among them the rules of the bounds that they cover."""
    nest = jax.device_get(_decoded(genes, space))
    cover = covered(nest)
    out = [
        f"{letter}: {bound} is not offered"
        for letter, bound, row in zip(DIMS, cover, np.asarray(space.bounds).T, strict=True)
        if bound not in row
    ]
    if cover.tolist() != np.asarray(space.bounds)[np.asarray(genes.cover), np.arange(len(DIMS))].tolist():
        out.append("the nest covers other bounds than the genes say")
    padded = dataclasses.replace(shape, **dict(zip(DIMS, cover.tolist(), strict=True)))
    return out + violations(nest, template, padded)


@settings(deadline=None)
@given(SEED, TEMPLATE)
def test_offers_are_few_larger_and_within_room(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    for primes in (ROOM, sum(len(prime_factors(b)) for b in shape.bounds)):
        bounds, *_ = offered(template, shape, primes=primes)
        for letter, own, row in zip(DIMS, shape.bounds, bounds, strict=True):
            assert row[0] == own and list(row) == sorted(set(row)) and len(row) <= ALTERNATIVES
            assert row[-1] <= own * MOST_PADDED
            assert len(row) == 1 or letter not in "RS"
        assert sum(max(len(prime_factors(b)) for b in row) for row in bounds) <= primes


def test_what_suits_the_template_is_not_padded():
    shape = WorkloadShape(K=1024, C=512, P=56, Q=56, R=3, S=3)
    bounds, *_ = offered(1, shape, primes=64)
    assert bounds[DIMS.index("K")] == (1024,) and bounds[DIMS.index("C")] == (512,)
    bounds, *_ = offered(1, WorkloadShape(N=197, K=197, C=64), "fc", primes=32)
    assert {198, 200, 208, 224, 256} & set(bounds[DIMS.index("K")])


@settings(deadline=None, max_examples=40)
@given(SEED, TEMPLATE)
def test_every_operator_keeps_every_rule(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    space = padded_space(template, shape)
    genes = _everything(jax.random.key(seed), space)
    for name, children in genes.items():
        assert broken(children, template, shape, space) == [], name


@quick_jit
def _everything(key, space):
    """Two samples and the results of every operator on them."""
    keys = jax.random.split(key, 9)
    a, b = sample(keys[0], space), sample(keys[1], space)
    first, second = crossover(keys[2], a, b, space)
    again = pad(keys[6], pad(keys[5], a, space), space)
    steps = neighbours(again, space)
    step = jnp.argmax(jnp.where(steps, jax.random.uniform(keys[7], steps.shape), -1))
    stepped = neighbour(again, jnp.where(jnp.any(steps), step, 0), space)
    # A swap of two primes may overflow a buffer, which only the evaluation detects: only moves and turns are checked.
    primes, slots = space.dim.shape[0], space.limit.shape[0]
    is_swap = (step >= primes * slots) & (step < primes * slots + primes * primes)
    take_step = jnp.any(steps) & ~is_swap
    return {
        "sample": a,
        "crossover, first": first,
        "crossover, second": second,
        "mutate": mutate(keys[3], b, space),
        "fill": fill(keys[4], b, space),
        "pad": again,
        "parallelise": parallelise(keys[8], again, space),
        "neighbour": jax.tree.map(lambda x, y: jnp.where(take_step, x, y), stepped, again),
    }


@pytest.mark.slow
def test_a_step_of_a_descent_leads_to_every_other_bound():
    space = padded_space(3, WorkloadShape(K=7, C=13, P=5))
    genes = _drawn(jax.random.key(0), space)
    steps = np.flatnonzero(neighbours(genes, space))
    many = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(steps)), genes)
    found = quick_jit(all_neighbours)(many, jnp.asarray(steps), space)
    one = quick_jit(jax.vmap(neighbour, in_axes=(None, 0, None)))(genes, jnp.asarray(steps), space)
    jax.tree.map(np.testing.assert_array_equal, found, one)
    cover, own = np.asarray(found.cover), np.asarray(genes.cover)
    wanted = {(d, a) for d, count in enumerate(np.asarray(space.choices)) for a in range(count) if a != own[d]}
    assert wanted
    assert {(int(d), int(cover[i, d])) for i, d in zip(*np.nonzero(cover != own), strict=True)} == wanted
    # At most one dimension changes; each bound occurs once with the smallest prime first and once with the largest.
    assert ((cover != own).sum(axis=1) <= 1).all() and (cover != own).sum() == 2 * len(wanted)


def test_padding_reaches_every_offered_bound_and_comes_back():
    shape = WorkloadShape(K=7, C=13, P=5)
    space = padded_space(3, shape)
    choices = [set(row) for row in np.asarray(space.bounds).T.tolist()]
    assert sum(len(row) > 1 for row in choices) >= 2
    genes, seen = _drawn(jax.random.key(0), space), [set() for _ in DIMS]
    step = quick_jit(pad)
    for key in jax.random.split(jax.random.key(1), 60):
        genes = step(key, genes, space)
        for d, bound in enumerate(covered(jax.device_get(_decoded(genes, space)))):
            seen[d].add(int(bound))
    assert seen == choices


@settings(deadline=None, max_examples=40)
@given(SEED, TEMPLATE)
def test_encoding_a_padded_mapping_gives_it_back(seed, template):
    shape = random_shape(np.random.default_rng(seed))
    space = padded_space(template, shape)
    nest = jax.device_get(_decoded(_drawn(jax.random.key(seed), space), space))
    again = jax.device_get(_decoded(encode(nest, jax.device_get(space)), space))
    assert np.array_equal(nest.temporal, again.temporal) and np.array_equal(nest.spatial, again.spatial)
    stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], nest)
    assert lie_in(stacked, [jax.device_get(space)], np.zeros(1, int)).all()


def test_a_nest_says_which_bounds_it_pads():
    shape = WorkloadShape(K=7, C=4)
    _, limits, machine = offered(3, shape)
    own = map_space(shape, limits, machine, 8)
    wide = map_space(dataclasses.replace(shape, K=8), limits, machine, 8)
    names, keep = TEMPLATES[3].level_names, [level.keep for level in TEMPLATES[3].levels]
    nest = jax.device_get(decode(sample(jax.random.key(0), jax.tree.map(jnp.asarray, wide)), wide))
    written = mapping_to_dict(nest, names, shape.bounds)
    assert written["padded"] == {"K": 8}
    assert "padded" not in mapping_to_dict(nest, names, covered(nest))
    again = mapping_from_dict(written, names, keep, levels=LEVELS)
    assert np.array_equal(again.temporal, nest.temporal)
    stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], nest)
    told = np.ones((1, len(DIMS)), int)
    assert not lie_in(stacked, [own], np.zeros(1, int), told).any()
    told[0, DIMS.index("K")] = 8
    assert lie_in(stacked, [own], np.zeros(1, int), told).all()
    with pytest.raises(InputError, match=r"padded\.K: is 9, the factors multiply to 8"):
        mapping_from_dict({**written, "padded": {"K": 9}}, names, keep, item="mappings[0]")


SMALL = toy("small", capacity=(16, 128), fanout=(4, 2))
LAYER = UniqueLayer("conv", WorkloadShape(K=7, C=3, P=5))


@pytest.mark.slow
def test_an_enumeration_proves_the_padded_optimum_and_the_mapper_finds_it():
    tables = Enumeration([LAYER], [SMALL], TECHNOLOGY).tables()
    count = int(tables.count[0, 0])
    objectives = tables.objectives[0, 0, :count]
    # For comparison, every combination of bounds is enumerated by itself, without padding.
    levels = len(SMALL.levels)
    limits = constraints(SMALL, "conv", LAYER.shape, levels)
    from mohamjax.hardware import template_arrays

    machine = jax.tree.map(lambda leaf: np.asarray(leaf[0]), template_arrays([SMALL], TECHNOLOGY)).machine
    bounds = padded_bounds(LAYER.shape.bounds, limits, machine, 32)
    assert sum(len(row) > 1 for row in bounds) >= 2
    every, mappings = [], 0
    for cover in itertools.product(*bounds):
        layer = UniqueLayer("conv", WorkloadShape(**dict(zip(DIMS, cover, strict=True))))
        mappings += space_size(layer, SMALL, TECHNOLOGY, padding=False).mappings
        alone = Enumeration([layer], [SMALL], TECHNOLOGY, padding=False).tables()
        every.append(alone.objectives[0, 0, : int(alone.count[0, 0])])
    assert space_size(LAYER, SMALL, TECHNOLOGY).mappings == mappings
    every = np.concatenate(every)
    front = [row for row in every if not ((every <= row * (1 + 1e-6)).all(1) & (every < row * (1 - 1e-6)).any(1)).any()]
    for row in front:
        assert (objectives <= row * (1 + 1e-5)).all(axis=1).any()
    # Padding wins here: 5 x 7 x 3 needs fewer steps on 8 children than without padding.
    unpadded = Enumeration([LAYER], [SMALL], TECHNOLOGY, padding=False).tables().objectives[0, 0, :, 0].min()
    assert objectives[:, 0].min() < unpadded
    found = LayerMapper([LAYER], [SMALL], TECHNOLOGY).search(jax.random.key(0))
    assert found.objectives[0, 0, :, 0].min() == pytest.approx(objectives[:, 0].min(), rel=1e-5)


@pytest.mark.slow
def test_primes_run_as_fast_as_their_neighbours():
    simba = load_template("simba")
    layers = {
        "primes": UniqueLayer("fc", WorkloadShape(N=1013, C=997, K=1009)),
        "even": UniqueLayer("fc", WorkloadShape(N=1024, C=1000, K=1024)),
        "512 keys": UniqueLayer("bmm", WorkloadShape(N=128, C=64, K=512)),
        "513 keys": UniqueLayer("bmm", WorkloadShape(N=128, C=64, K=513)),
    }
    mapper = LayerMapper(list(layers.values()), [simba, load_template("shidiannao")], TECHNOLOGY)
    tables = mapper.search(jax.random.key(0))
    on_simba, on_shidiannao = (
        dict(zip(layers, np.min(tables.objectives[:, t, :, 0], axis=1).tolist(), strict=True)) for t in range(2)
    )
    assert on_simba["primes"] <= 1.05 * on_simba["even"]
    assert on_simba["513 keys"] <= 1.03 * on_simba["512 keys"]
    # 33 steps of 16 x 16 processing elements instead of 32, for each of 64 products and 8 groups of queries.
    assert (on_shidiannao["512 keys"], on_shidiannao["513 keys"]) == (16384, 16896)


@pytest.mark.slow
def test_attention_products_of_197_tokens_use_many_macs():
    """Both products of a layer of ViT-B/16 ran at 64 MACs per cycle on this template without groups and padding."""
    products = [WorkloadShape(G=12, N=197, K=197, C=64), WorkloadShape(G=12, N=197, K=64, C=197)]
    layers = [UniqueLayer("bmm", shape) for shape in products]
    tables = LayerMapper(layers, [load_template("simba")], TECHNOLOGY).search(jax.random.key(0))
    cycles = np.min(tables.objectives[:, 0, :, 0], axis=1)
    assert all(shape.macs / cycles[u] >= 8 * 64 for u, shape in enumerate(products))


def test_padding_is_switched_off_by_name_and_by_the_papers_preset():
    usual = Settings.preset("tiny")
    assert usual.mapper.padding and not Settings.preset("tiny", preset="paper").mapper.padding
    assert not changed(usual, {"padding": False}).mapper.padding
