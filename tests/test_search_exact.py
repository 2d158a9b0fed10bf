"""On instances small enough to try every design, the search finds the whole front for every seed."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import TEMPLATES, application, recast, space_of, tables
from every_design import every_design, in_batches, objectives, plain_front, search_for

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.problem import DesignProblem
from mohamjax.problem.requirements import requirements_from_dict
from mohamjax.schedule import report
from mohamjax.search.config import MohamConfig, Rates
from mohamjax.search.generations import Generations
from mohamjax.search.moham import genetic_problem

TWO = TEMPLATES[:2]
INSTANCES = {
    "fork and chain": (application([[], [0], [0]], [[], [0]]), PackageParameters(max_tiles=2)),
    "join and chain, links unlimited": (
        application([[], [], [0, 1]], [[], [0]]),
        PackageParameters(max_tiles=2, contention="interface"),
    ),
}
# A few seeds in a hundred need more than 200 generations.
CONFIG = MohamConfig(population=128, generations=275, seeded=False, chunk=25)
ENTRIES = 2


def prepared(problem, package):
    """The space of a search, every design, and the true front."""
    made = recast(tables(problem, 1, entries=ENTRIES, templates=TWO, blocked=False, least=ENTRIES), np.float32)
    space = space_of(problem, made, templates=TWO, package=package)
    designs = every_design(problem, np.asarray(made.count))
    return space, designs, plain_front(objectives(designs, space.evaluation))


@pytest.fixture(scope="module")
def instances():
    return {name: prepared(*instance) for name, instance in INSTANCES.items()}


@pytest.fixture(scope="module")
def instance(instances):
    return next(iter(instances.values()))


@pytest.mark.parametrize("name", INSTANCES)
def test_the_instance_is_worth_searching(instances, name):
    _, designs, front = instances[name]
    assert len(designs.template) > 20_000
    assert len(front) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "genes"), [*((name, "plans") for name in INSTANCES), (next(iter(INSTANCES)), "layers")]
)
def test_the_search_finds_the_front_from_ten_seeds(instances, name, genes):
    """With the default rates; the seeds are islands of one run."""
    space, designs, front = instances[name]
    evaluations = (CONFIG.generations + 1) * (CONFIG.population + CONFIG.immigrant_count)
    assert evaluations < len(designs.template) / 2
    search_for(front, space, dataclasses.replace(CONFIG, genes=genes))


DEADLINES = (0.55, 0.6)
"""Deadlines of the networks, as shares of the slowest latency on the front without deadlines."""


@pytest.mark.slow
def test_the_search_finds_the_front_that_keeps_deadlines_from_ten_seeds(instances):
    """Compared with an enumeration of all designs that meet their deadlines, which are a limit of the search."""
    problem, package = next(iter(INSTANCES.values()))
    _, designs, free = next(iter(instances.values()))
    networks = [
        dataclasses.replace(network, deadline_s=float(free[:, 0].max() * share))
        for network, share in zip(problem.networks, DEADLINES, strict=True)
    ]
    problem = dataclasses.replace(problem, networks=tuple(networks))
    made = recast(tables(problem, 1, entries=ENTRIES, templates=TWO, blocked=False, least=ENTRIES), np.float32)
    limits = requirements_from_dict({"limits": {"missed_deadlines": 0}})
    space = space_of(problem, made, templates=TWO, package=package, requirements=limits)
    missed = in_batches(lambda one: report(one, space.evaluation).tenants.missed, designs)
    keeps = missed == 0
    assert 0.01 < keeps.mean() < 0.9
    front = plain_front(objectives(designs, space.evaluation)[keeps])
    assert len(front) > 5 and not np.isin(free[:, 1], front[:, 1]).all()
    search_for(front, space, dataclasses.replace(CONFIG, generations=400))


@pytest.mark.slow
def test_the_stability_rule_stops_at_the_first_generation_that_it_names(instance):
    """Also in the middle of a call of many generations; a search of exactly as many generations gives the same."""
    space, config = instance[0], dataclasses.replace(CONFIG, generations=100, genes="layers")
    window, ends, seed = 8, [], 0
    while not ends:  # until a search has a window that is the calmest so far
        seed += 1
        key = jax.random.key(seed)
        whole = list(Generations(key, space, config))
        history = [value for _, progress in whole for value in progress.stability][1:]  # generation 0 is no step
        spread = [np.std(history[end - window : end]) for end in range(window, len(history) + 1)]
        # A window that is calmer than all before it, and does not end with a call.
        ends = [i for i in range(20, len(spread)) if spread[i] < min(spread[:i]) and (i + window) % CONFIG.chunk]
    expected = ends[0] + window
    settled = dataclasses.replace(config, stop="stability", window=window, delta=float(min(spread[: ends[0]])))
    *_, (state, progress) = Generations(key, space, settled)
    assert progress.generation == expected and progress.stability[-1] == history[expected - 1]
    exactly = dataclasses.replace(config, generations=expected)
    *_, (same, _) = Generations(key, space, exactly)
    for a, b in zip(*map(jax.tree.leaves, (state.archive, same.archive)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_rates_per_layer_change_some_layers_of_a_small_design_at_least(instance):
    """0.001 per layer hardly changes five layers: `least_layers` raises the rate; with 0 it stays as it is."""
    space, designs, _ = instance
    vary = genetic_problem(dataclasses.replace(CONFIG, genes="layers")).vary
    design = jax.tree.map(lambda leaf: jnp.asarray(leaf[len(leaf) // 2]), designs)
    off = Rates(**{field.name: 0.0 for field in dataclasses.fields(Rates)})

    @jax.jit
    def children(rates):
        return jax.vmap(lambda key: vary(key, design, design, space, rates))(jax.random.split(jax.random.key(0), 512))

    def changed(**rates):
        first, _ = children(jax.tree.map(jnp.float32, dataclasses.replace(off, **rates)))
        return float(np.mean(np.any(np.asarray(first.mapping) != np.asarray(design.mapping), axis=1)))

    assert changed(mapping_mutation=1e-6) == 0 == changed(least_layers=1.0)
    assert 0.2 < changed(mapping_mutation=1e-6, least_layers=0.5) < changed(mapping_mutation=1e-6, least_layers=1.0)


def test_a_design_has_no_more_chiplets_than_the_package_has_tiles():
    problem, package = application([[]]), PackageParameters(max_tiles=4)
    with pytest.raises(InputError, match=r"argument `max_chiplets`: 5 exceeds the 4 tiles of the package; lower it"):
        DesignProblem(problem, TWO, package, max_chiplets=5)
    with pytest.raises(InputError, match="argument `max_chiplets`: is 0; use 1 or more"):
        DesignProblem(problem, TWO, package, max_chiplets=0)
    whole = DesignProblem(problem, TWO, package)
    assert len(whole.resolved.tiles) == 4 == whole.max_chiplets
    assert whole.replace(max_chiplets=3).most_chiplets == 3
