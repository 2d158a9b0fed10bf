"""The end of a search: descent at the fast end of the front loses nothing, and finds equally fast, smaller designs."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import TEMPLATES, application, recast, space_of, tables
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.problem import Goals
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.search import finish
from mohamjax.search.config import MohamConfig, Settings, changed
from mohamjax.search.finish import finished, finishing
from mohamjax.search.generations import Generations

CONFIG = MohamConfig(population=16, generations=4, archive=512, islands=2, chunk=2)


@pytest.fixture(scope="module")
def problem():
    layers = application([[], [0], [0], [1, 2], [3]], [[], [0], [1], [1]])
    made = recast(tables(layers, 3, entries=12, templates=TEMPLATES[:2], blocked=False, least=2), np.float32)

    def space(config):
        goals = Goals(config.objectives, config.periods, config.objective)
        return space_of(layers, made, templates=TEMPLATES[:2], goals=goals)

    return space


def searched(space, config):
    *_, (state, _) = Generations(jax.random.key(1), space, config)
    return state


@pytest.fixture(scope="module")
def state(problem):
    return searched(problem(CONFIG), CONFIG)


def fronts(state):
    """Objectives in each island's archive, `[n, M]` each."""
    archive = jax.device_get(state.archive)
    return [objectives[valid] for objectives, valid in zip(archive.objectives, archive.valid, strict=True)]


def as_fast(front):
    """The least area within half a percent of the least latency."""
    return front[front[:, 0] <= front[:, 0].min() * 1.005, 2].min()


@pytest.mark.slow
def test_descent_loses_nothing_and_repeats_itself(problem, state):
    space = problem(CONFIG)
    alone = finished(state, space, CONFIG)
    assert not alone.archive.thinned.any()
    config = dataclasses.replace(CONFIG, end_batches=12)
    descended = finished(state, space, config)
    again = finished(state, space, config)
    better = 0
    for begun, before, after, twice in zip(*map(fronts, (state, alone, descended, again)), strict=True):
        assert np.array_equal(after, twice)
        # Nothing that the search had is lost; the refitted form of a design that descent has replaced may be. Areas
        # differ in the last digit with the shape of a batch.
        assert (after[None] <= begun[:, None] * (1 + 1e-6)).all(axis=-1).any(axis=1).all()
        assert as_fast(after) <= as_fast(before) * (1 + 1e-6)
        better += int(not np.array_equal(after, before))
    assert better


@pytest.mark.slow
def test_a_full_archive_keeps_its_fast_end(problem):
    """It drops designs for those that descent finds, but keeps its extremes and the smallest of the fastest."""
    config = dataclasses.replace(CONFIG, archive=24, generations=8, end_batches=12)
    space = problem(config)
    before = searched(space, config)
    after = finished(before, space, config)
    assert before.archive.valid.all() and (after.archive.thinned > before.archive.thinned).all()
    for old, new in zip(fronts(before), fronts(after), strict=True):
        assert as_fast(new) <= as_fast(old) * (1 + 1e-6)
        assert (new.min(axis=0) <= old.min(axis=0) * (1 + 1e-6)).all()


@pytest.mark.slow
def test_the_search_goes_on_from_where_it_was(problem, state):
    """Batches at the end are not generations and draw random numbers of their own."""
    config = dataclasses.replace(CONFIG, end_batches=2)
    after = finished(state, problem(CONFIG), config)
    assert np.array_equal(after.population.generation, state.population.generation)
    assert jnp.array_equal(jax.random.key_data(after.population.key), jax.random.key_data(state.population.key))


@pytest.mark.slow
def test_it_goes_batch_by_batch(problem, state):
    """A run that stops keeps what its batches found: none loses anything, and some find more."""
    config = dataclasses.replace(CONFIG, end_batches=3)
    space = problem(CONFIG)
    steps = list(finishing(state, space, config))
    assert len(steps) == 3 + len(WEIGHTS) * CONFIG.archive // CONFIG.population
    better = 0
    for before, after in itertools.pairwise([state, *steps]):
        for old, new in zip(fronts(before), fronts(after), strict=True):
            assert (new[None] <= old[:, None] * (1 + 1e-6)).all(axis=-1).any(axis=1).all()
            better += not np.array_equal(old, new)
    assert better > 1
    for last, whole in zip(fronts(steps[-1]), fronts(finished(state, space, config)), strict=True):
        assert np.array_equal(last, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"objectives": ("latency", "energy")}, {"objective": "energy"}], ids=["no area", "one number"]
)
def test_searches_of_other_things_have_no_descent(problem, monkeypatch, changes):
    config = dataclasses.replace(CONFIG, islands=1, end_batches=3, **changes)
    space = problem(config)
    monkeypatch.setattr(finish, "_neighbours", None)
    finished(searched(space, config), space, config)


LATENCIES = [1.0, 1.002, 1.0049, 1.006, 1.01, 1.02, 1.03, 1.04, 1.0499, 1.06, 2.0, np.inf]
ROWS = st.lists(
    st.tuples(st.sampled_from(LATENCIES), st.integers(1, 30)),
    min_size=1, max_size=40,
)  # fmt: skip


@pytest.mark.slow
@given(rows=ROWS)
@settings(max_examples=60, deadline=None)
def test_the_fast_end_is_that_of_a_plain_search(rows):
    """Designs near the fastest that none beats in time and area; times within half a percent of the least are equal."""
    latency, area = (np.asarray(column, np.float32) for column in zip(*rows, strict=True))
    area = np.where(np.isfinite(latency), area, np.inf).astype(np.float32)
    taken, there = (np.asarray(x) for x in finish.fast_end(jnp.asarray(latency), jnp.asarray(area)))
    steps = np.maximum(latency, latency.min() * np.float32(1.005))
    near = [
        (step, size)
        for step, size in zip(steps, area, strict=True)
        if step <= latency.min() * np.float32(1.05) < np.inf
    ]
    expected = sorted({a for a in near if not any(b[0] <= a[0] and b[1] <= a[1] and a != b for b in near)})[:10]
    assert [(steps[i], area[i]) for i in taken[there]] == expected
    assert not there[len(expected) :].any()


@pytest.mark.slow
def test_an_archive_without_designs_is_no_trouble(problem, state):
    """Where no design keeps the requirements, the batches still have valid designs, which may enter."""
    archive = dataclasses.replace(
        state.archive,
        valid=jnp.zeros_like(state.archive.valid),
        objectives=jnp.full_like(state.archive.objectives, jnp.inf),
        genes=jax.tree.map(jnp.zeros_like, state.archive.genes),
    )
    empty = dataclasses.replace(state, archive=archive)
    found = fronts(finished(empty, problem(CONFIG), dataclasses.replace(CONFIG, end_batches=2)))
    assert all(len(front) and np.isfinite(front).all() for front in found)


def test_the_descent_of_mapping_again_keeps_its_name():
    """Of two parts of the settings with the same name for a setting, only the first would be changed."""
    plain = Settings.preset("small")
    one, other = changed(plain, {"descent": 7}), changed(plain, {"end_batches": 7})
    assert (one.remap.descent, one.moham) == (7, plain.moham)
    assert (other.moham.end_batches, other.remap) == (7, plain.remap)
