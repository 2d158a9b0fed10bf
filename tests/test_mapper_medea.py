"""MEDEA's operators as printed and as released, presets of the mapper, and bypasses as genes."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mapping_cases import LEVELS, PRIMES, TECHNOLOGY, TEMPLATES, quick_jit, random_shape, space, toy, violations

import mohamjax as mj
from mohamjax import emo
from mohamjax.emo.loop import Sizes
from mohamjax.errors import InputError
from mohamjax.hardware import describe, load_template, template_arrays, template_from_dict, template_to_dict
from mohamjax.io.timeloop_place import At, left_open
from mohamjax.io.timeloop_template import template_constraints
from mohamjax.mapper import (
    MAPPER_PRESETS,
    Enumeration,
    LayerMapper,
    MapperConfig,
    kept_templates,
    mapper_preset,
    medea,
)
from mohamjax.mapper.block_search import mapping_search
from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.mapping_operators import Draft, crossover, neighbour, neighbours, vary
from mohamjax.mapper.mapping_operators import grow as grow_own
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.space import (
    constraints,
    decode,
    encode,
    map_space,
    respects,
    sample,
    slot_factors,
)
from mohamjax.workload import DIMS, ApplicationModel, Layer, Network, UniqueLayer, WorkloadShape

SEEDS = st.integers(0, 2**31 - 1)
WHERE = st.integers(0, len(TEMPLATES) - 1)
COUNT = 8
PLACES = LEVELS, len(DIMS)
RATES = MapperRates(random=1.0, fill=1.0, parallelise=1.0, pad=0.0)


def each(operator, **static):
    """An operator over COUNT individuals, jitted."""
    return quick_jit(
        lambda keys, genes, problem: jax.vmap(functools.partial(operator, **static), (0, 0, None))(keys, genes, problem)
    )


@quick_jit
def samples(key, problem):
    return jax.vmap(sample, (0, None))(jax.random.split(key, COUNT), problem)


factors_all = quick_jit(jax.vmap(slot_factors, (0, None)))
fits_one = quick_jit(respects)
fits_all = quick_jit(jax.vmap(respects, (0, None)))
decode_all = quick_jit(jax.vmap(decode, (0, None)))
fill_all, parallelise_all, exchange_all = each(medea.fill), each(medea.parallelise), each(medea.exchange)
released_all = {name: each(getattr(medea, name), released=True) for name in ("fill", "parallelise", "mutate")}


def case(seed, where):
    """A problem with random mappings and keys."""
    shape = random_shape(np.random.default_rng(seed))
    problem = space(where, shape)
    key = jax.random.key(seed)
    return shape, problem, samples(key, problem), jax.random.split(jax.random.fold_in(key, 1), COUNT)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_fill_takes_the_largest_factor_that_fits(seed, where):
    shape, problem, before, keys = case(seed, where)
    after = fill_all(keys, before, problem)
    old, new = np.asarray(factors_all(before.slot, problem)), np.asarray(factors_all(after.slot, problem))
    for i in range(COUNT):
        nest = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], decode_all(after, problem))
        assert violations(nest, where, shape) == []
        changed = np.argwhere(new[i, :LEVELS] > old[i, :LEVELS])
        assert len(changed) <= 1 and (new[i, LEVELS:] == old[i, LEVELS:]).all()
        for level, d in changed:
            # Adding any prime that is left outside breaks the limit or a buffer, or there are eight in it already.
            primes = np.asarray(problem.prime)
            outside = (np.asarray(after.slot)[i] > level) & (np.asarray(after.slot)[i] < LEVELS)
            left = np.flatnonzero(outside & (np.asarray(problem.dim) == d) & (primes > 1))
            for k in left:
                slot = np.asarray(after.slot)[i].copy()
                slot[k] = level
                more = dataclasses.replace(jax.tree.map(lambda leaf, i=i: leaf[i], after), slot=jnp.asarray(slot))
                assert not bool(fits_one(more, problem))


@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_parallelise_uses_more_of_the_fanouts_and_stays_valid(seed, where):
    shape, problem, before, keys = case(seed, where)
    after = parallelise_all(keys, before, problem)
    old, new = np.asarray(factors_all(before.slot, problem)), np.asarray(factors_all(after.slot, problem))
    assert (new[:, LEVELS:] >= old[:, LEVELS:]).all()
    for i in range(COUNT):
        nest = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], decode_all(after, problem))
        assert violations(nest, where, shape) == []


def test_parallelise_fills_every_level_and_axis():
    """With powers of two, all outermost, and buffers without end, 4 x 4 of the toy's 4 x 6 children are used."""
    problem = space(3, WorkloadShape(K=64, C=64))
    genes = samples(jax.random.key(0), problem)
    genes = dataclasses.replace(genes, slot=jnp.full_like(genes.slot, problem.outermost))
    after = parallelise_all(jax.random.split(jax.random.key(1), COUNT), genes, problem)
    used = np.asarray(factors_all(after.slot, problem)).reshape(COUNT, 3, *PLACES).prod(axis=3)
    assert (used[:, 1, 1] == 4).all() and (used[:, 2, 1] == 4).all()


@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_exchange_swaps_the_loops_of_a_dimension_between_two_levels(seed, where):
    _, problem, before, keys = case(seed, where)
    after = exchange_all(keys, before, problem)
    old, new = np.asarray(factors_all(before.slot, problem)), np.asarray(factors_all(after.slot, problem))
    assert (new <= np.asarray(problem.limit)).all()
    for a, b in zip(old, new, strict=True):
        changed = np.argwhere(a != b)
        assert len(changed) in (0, 2)
        if len(changed):
            (one, d), (two, e) = changed
            assert d == e and one < LEVELS and two < LEVELS and a[one, d] == b[two, d] and a[two, d] == b[one, d]


@settings(max_examples=15, deadline=None)
@given(SEEDS, WHERE)
def test_released_operators_keep_products_limits_and_fanouts(seed, where):
    _, problem, before, keys = case(seed, where)
    old = np.asarray(factors_all(before.slot, problem)).astype(object)
    for operator in released_all.values():
        after = operator(keys, before, problem)
        new = np.asarray(factors_all(after.slot, problem)).astype(object)
        assert (new.prod(axis=1) == old.prod(axis=1)).all()
        assert (new <= np.asarray(problem.limit)).all()
        assert (new.astype(float).prod(axis=2) <= np.asarray(problem.fanout)).all()


@pytest.mark.slow
@pytest.mark.parametrize("released", [False, True])
def test_children_that_are_invalid_are_replaced(released):
    """Crossover and random mutation leave the small template's buffers overflowing; what `grow` returns never does."""
    problem = space(4, WorkloadShape(K=16, C=16, P=8, Q=8))
    keys = jax.random.split(jax.random.key(0), COUNT)
    a, b = samples(jax.random.key(1), problem), samples(jax.random.key(2), problem)
    crossed = quick_jit(
        lambda keys, a, b: jax.vmap(functools.partial(crossover, mend=False), (0, 0, 0, None))(keys, a, b, problem)
    )(keys, a, b)
    assert not np.all([np.asarray(fits_all(child, problem)) for child in crossed])
    draw = quick_jit(lambda keys, a, b: jax.vmap(medea.vary, (0, 0, 0, None, None))(keys, a, b, problem, RATES))
    complete = quick_jit(lambda drafts: medea.grow(drafts, problem, released=released))
    for drafts in draw(keys, a, b):
        assert np.asarray(drafts.wanted).all()
        assert np.asarray(fits_all(complete(drafts), problem)).all()


# ---------------------------------------------------------------- presets


def test_presets_are_what_the_papers_print():
    medea_, released = MAPPER_PRESETS["medea"], MAPPER_PRESETS["medea-released"]
    config, rates = medea_.config, medea_.rates
    assert (config.population, config.generations, config.immigrants, config.descent) == (120, 15, 0, 0)
    assert (config.operators, config.scale, config.front) == ("medea", "linear", "population")
    assert not config.padding and not config.distinct and config.evaluations == 16 * 120
    assert [float(getattr(rates, name)) for name in ("random", "fill", "parallelise")] == pytest.approx([0.4, 0.7, 0.7])
    assert dataclasses.replace(released.config, operators="medea") == config
    moham = MAPPER_PRESETS["moham-released"]
    assert moham.config.immigrants == 20
    assert [float(x) for x in (moham.rates.random, moham.rates.fill)] == pytest.approx([0.4, 0.2])
    with pytest.raises(InputError, match=r"unknown preset 'paper' of the mapper; use one of default, medea"):
        mapper_preset("paper")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, preset in MAPPER_PRESETS.items() if preset.config is not None])
def test_every_preset_breeds(name):
    """Children and immigrants join one generation: their drafts have as many steps."""
    preset, problem = MAPPER_PRESETS[name], space(0, WorkloadShape(K=16, C=16, P=8, Q=8))
    config = preset.config
    sizes = Sizes(config.population, config.immigrants, config.archive)
    search = mapping_search(sizes, config.distinct, jnp.float32, config.operators)
    key = jax.random.key(0)
    state = jax.eval_shape(lambda: search.opening(key, None, space=problem)[0])
    genes = jax.eval_shape(lambda state: search.ask(state, space=problem, rates=preset.rates), state)
    assert jax.tree.leaves(genes)[0].shape[0] == config.population + config.immigrants


def test_map_layers_refuses_what_does_not_go_together():
    layer = Layer("only", "conv", "Conv", WorkloadShape(K=4))
    problem = mj.DesignProblem(ApplicationModel("toy", (Network("net", (layer,)),)), templates="simba")
    with pytest.raises(InputError, match="unknown preset 'paper' of the mapper"):
        mj.map_layers(problem, preset="paper")
    with pytest.raises(InputError, match="`preset`: is for our own mapper, not for the method cosa; leave out either"):
        mj.map_layers(problem, preset="medea", method="cosa")
    with pytest.raises(InputError, match="`one_axis`: is for our own mapper, not for the method gamma"):
        mj.map_layers(problem, method="gamma", one_axis=True)
    with pytest.raises(InputError, match="unknown method 'magic'"):
        mj.map_layers(problem, method="magic")
    with pytest.raises(InputError, match="`cost`: is for another mapper; add the argument `method=gamma`"):
        mj.map_layers(problem, cost="energy")
    with pytest.raises(InputError, match="`cost`: cosa has an objective of its own; leave it out"):
        mj.map_layers(problem, method="cosa", cost="energy")
    with pytest.raises(InputError, match="unknown cost 'power'; use one of latency"):
        mj.map_layers(problem, method="gamma", cost="power")


def test_settings_refuse_what_does_not_go_together():
    with pytest.raises(InputError, match="operators is 'best'; use one of own, medea, medea-released"):
        MapperConfig(operators="best")
    with pytest.raises(InputError, match="descent is 32, but the result is the front of the final population"):
        MapperConfig(front="population")


def test_hashes_of_the_default_leave_out_what_was_added_later():
    assert not {"operators", "scale", "front"} & set(MapperConfig().content())
    assert MapperConfig(operators="medea").content()["operators"] == "medea"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["medea", "medea-released"])
def test_a_preset_gives_the_front_of_its_final_population(name):
    preset = mapper_preset(name)
    config = dataclasses.replace(preset.config, population=16, generations=2, block=1, threads=1)
    layers = [UniqueLayer("conv", WorkloadShape(K=16, C=8, P=8, Q=8))]
    mapper = LayerMapper(layers, [TEMPLATES[1]], TECHNOLOGY, config, rates=preset.rates)
    told = []
    tables = dataclasses.replace(mapper, progress=told.append).search(jax.random.key(0))
    count = int(tables.count[0, 0])
    front = tables.objectives[0, 0, :count]
    assert told[-1].evaluations == 3 * 16 and 1 <= count <= 16
    for a, b in itertools.permutations(front, 2):
        assert not ((a <= b).all() and (a < b).any())
    again = mapper.search(jax.random.key(0))
    np.testing.assert_array_equal(tables.objectives, again.objectives)


# ---------------------------------------------------------------- bypasses

FREE = dataclasses.replace(
    toy("free", capacity=(16, 256)),
    levels=tuple(
        dataclasses.replace(level, may_bypass=(False, True, True)) if level.name == "GLB" else level
        for level in toy("free", capacity=(16, 256)).levels
    ),
)
SMALL = WorkloadShape(K=4, C=2, P=2)


def free_space(shape, template=FREE):
    arrays = jax.device_get(template_arrays([template], TECHNOLOGY, levels=LEVELS))
    machine = jax.tree.map(lambda leaf: leaf[0], arrays.machine)
    limits = constraints(template, "conv", shape, LEVELS)
    return map_space(shape, limits, machine, PRIMES)


def kept_right(genes, problem):
    """Genes whose levels store what the template does, except where it leaves that open."""
    limits = problem.constraints
    return np.all((np.asarray(genes.keep) == limits.keep) | limits.may_bypass, axis=(1, 2))


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_variation_with_bypasses_stays_in_the_space(seed):
    host = free_space(random_shape(np.random.default_rng(seed)))
    problem = jax.tree.map(jnp.asarray, host)
    key = jax.random.key(seed)
    parents = samples(key, problem), samples(jax.random.fold_in(key, 1), problem)
    rates = MapperRates(random=0.5, fill=0.5, parallelise=0.5, bypass=1.0)
    keys = jax.random.split(jax.random.fold_in(key, 2), COUNT)
    drafts = VARY(keys, *parents, problem, rates)
    children = [GROW(draft, problem) for draft in drafts]
    for genes in (*parents, *children):
        assert np.asarray(fits_all(genes, problem)).all() and kept_right(genes, problem).all()
    changed = [np.asarray(child.keep) != np.asarray(own.keep) for child, own in zip(children, parents, strict=True)]
    assert np.any(changed)


VARY = quick_jit(lambda keys, a, b, problem, rates: jax.vmap(vary, (0, 0, 0, None, None))(keys, a, b, problem, rates))
GROW = quick_jit(grow_own)


def test_mappings_in_the_place_of_invalid_ones_fit_with_their_own_bypasses():
    problem = jax.tree.map(jnp.asarray, free_space(WorkloadShape(K=16, C=16, P=8, Q=8)))
    genes = samples(jax.random.key(0), problem)
    broken = dataclasses.replace(genes, slot=jnp.zeros_like(genes.slot))  # all in the innermost buffer
    assert not np.asarray(fits_all(broken, problem)).any()
    keys = jax.random.split(jax.random.key(1), COUNT)
    drafts = Draft(genes=broken, keys=jnp.stack([keys] * 3, 1), wanted=jnp.zeros((COUNT, 3), bool))
    made = quick_jit(functools.partial(medea.grow, released=False))(drafts, problem)
    assert np.asarray(fits_all(made, problem)).all() and kept_right(made, problem).all()
    assert len(np.unique(np.asarray(made.keep), axis=0)) > 1


@pytest.mark.slow
def test_neighbours_store_a_data_space_or_no_longer():
    problem = jax.tree.map(jnp.asarray, free_space(SMALL))
    genes = jax.tree.map(lambda leaf: leaf[0], samples(jax.random.key(0), problem))
    genes = dataclasses.replace(genes, keep=problem.constraints.keep)
    steps = np.flatnonzero(neighbours(genes, problem))
    sets = {np.asarray(neighbour(genes, jnp.int32(step), problem).keep).tobytes() for step in steps}
    assert len(sets) == 3  # as it is, without inputs, without outputs
    for step in steps:
        other = neighbour(genes, jnp.int32(step), problem)
        assert np.sum(np.asarray(other.keep) != np.asarray(genes.keep)) <= 1


def test_given_mappings_may_bypass_what_is_left_open_and_nothing_else():
    problem = free_space(SMALL)
    own = jax.tree.map(jnp.asarray, problem)
    for i in range(COUNT):
        genes = jax.tree.map(lambda leaf, i=i: leaf[i], samples(jax.random.key(3), own))
        mapping = jax.device_get(decode(genes, own))
        back = encode(mapping, problem)
        assert np.array_equal(back.keep, genes.keep)
        assert lie_in(jax.tree.map(lambda leaf: leaf[None], mapping), [problem], np.zeros(1, int)).all()
    wrong = dataclasses.replace(mapping, keep=mapping.keep & (np.arange(3) > 0))
    with pytest.raises(InputError, match="keeps other data spaces than the template"):
        encode(wrong, problem)
    assert not lie_in(jax.tree.map(lambda leaf: leaf[None], wrong), [problem], np.zeros(1, int)).any()


def test_templates_say_which_bypasses_are_open():
    data = template_to_dict(FREE)
    level = data["levels"][1]
    assert level["may_bypass"] == ["Inputs", "Outputs"]
    again = template_from_dict(data)
    assert again == FREE and again.content_hash() == FREE.content_hash() != kept_templates(FREE)[0].content_hash()
    assert "may_bypass" not in str(template_to_dict(TEMPLATES[1]))
    assert "W(I)(O)" in describe(FREE)
    level["keep"] = ["Weights", "Outputs"]
    with pytest.raises(InputError, match="the level does not keep Inputs"):
        template_from_dict(data)
    parts = kept_templates(FREE)
    assert [part.levels[1].keep for part in parts] == [
        (True, True, True), (True, True, False), (True, False, True), (True, False, False)
    ]  # fmt: skip


@pytest.mark.slow
def test_the_search_over_bypasses_finds_the_enumerated_set():
    layers = [UniqueLayer("conv", SMALL)]
    exact = Enumeration(layers, [FREE], TECHNOLOGY, padding=False).tables()
    union = np.concatenate([
        found.objectives[0, 0, : found.count[0, 0]]
        for found in (Enumeration(layers, [part], TECHNOLOGY, padding=False).tables() for part in kept_templates(FREE))
    ])  # fmt: skip
    own = exact.objectives[0, 0, : exact.count[0, 0]]
    np.testing.assert_array_equal(np.unique(own, axis=0), np.unique(union[emo.distinct_front(union)], axis=0))
    config = MapperConfig(population=32, generations=8, immigrants=4, descent=16, block=2, threads=1, padding=False)
    both = LayerMapper(layers, [toy("free", capacity=(16, 256)), FREE], TECHNOLOGY, config).search(jax.random.key(0))
    found = both.objectives[0, 1, : both.count[0, 1]]
    np.testing.assert_allclose(np.unique(found, axis=0), np.unique(own, axis=0), rtol=1e-5)
    assert not both.mapping.keep[0, 1, : both.count[0, 1], 1, 1:].all()  # bypasses are worth it
    # A template that leaves nothing open has the same set as by itself.
    alone = LayerMapper(layers, [toy("free", capacity=(16, 256))], TECHNOLOGY, config).search(jax.random.key(0))
    np.testing.assert_array_equal(both.objectives[0, 0], alone.objectives[0, 0])


def test_simba_medea_is_table_1():
    template = load_template("simba-medea")
    machine = jax.tree.map(lambda leaf: leaf[0], template_arrays([template], TECHNOLOGY)).machine
    bits = np.asarray(machine.capacity * machine.word_bits)
    instances = np.asarray(machine.instances)
    per_pe = dict(zip(template.level_names, bits * instances / 16 / 8192, strict=True))
    assert (per_pe["PEWeightBuffer"], per_pe["PEInputBuffer"], per_pe["PEAccuBuffer"]) == (32, 8, 3)
    assert bits[4] / 8192 == 64 and float(machine.mac_instances) == 16 * 64
    assert template.levels[-1].bandwidth == (17.9, 17.9)
    # Accelergy's total for the public architecture (reference data of the project).
    total = float(jnp.sum(machine.area * machine.instances) + machine.mac_area * machine.mac_instances)
    assert total == pytest.approx(9153581.5, rel=1e-4)


def test_constraints_for_timeloop_leave_open_what_the_template_does():
    targets = template_constraints(FREE, "conv")["mapspace_constraints"]["targets"]
    own = [row for row in targets if row["type"] == "bypass"]
    assert [row["keep"] for row in own if row["target"] == "GLB"] == [["Weights"]]
    assert [row["bypass"] for row in own if row["target"] == "GLB"] == [[]]
    at = At("constraints.yaml", "targets[0]")
    assert left_open(at, {"keep": ["Weights"], "bypass": []}, ("Weights", "Inputs", "Outputs")) == ["Inputs", "Outputs"]
    assert left_open(at, {"bypass": []}, ("Weights", "Inputs", "Outputs")) == ["Weights", "Inputs", "Outputs"]
