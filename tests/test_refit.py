"""Refitting: every layer takes the best mapping that fits its chiplet as it is, and nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import TEMPLATES, application, recast, space_of, tables
from plan_cases import sample_plan

from mohamjax.hardware import PackageParameters
from mohamjax.problem.plan_tables import WEIGHTS, mapping_scores
from mohamjax.schedule import isolated_cycles
from mohamjax.search import operators
from mohamjax.search.plans import decode, refit, used_sizes

NUMBER = 64


@pytest.fixture(scope="module")
def case():
    problem, package = application([[], [0], [0], [1, 2]], [[], [0], [1]]), PackageParameters()
    made = recast(tables(problem, 3, entries=12, templates=TEMPLATES[:2], blocked=False, least=2), np.float32)
    space = space_of(problem, made, templates=TEMPLATES[:2], package=package)
    keys = jax.random.split(jax.random.key(1), NUMBER)
    designs = jax.jit(jax.vmap(lambda key: operators.sample(key, space.genetics, package.max_tiles)))(keys)
    return space, made, package, designs


every_refit = jax.jit(jax.vmap(refit, in_axes=(0, None, None, None)))


def needs(made, unique, template, mapping):
    """Capacities and fanouts that mappings need, `[..., C]`."""
    capacity, fanout = (np.asarray(x)[unique, template, mapping] for x in (made.capacity, made.fanout))
    return np.concatenate([capacity, fanout.reshape(*fanout.shape[:-2], -1)], axis=-1)


@pytest.mark.parametrize("weight", range(len(WEIGHTS)))
def test_every_layer_takes_the_best_mapping_that_fits(case, weight):
    """Compared with a search over all mappings, which checks every capacity and fanout separately."""
    space, made, package, designs = case
    found = jax.device_get(every_refit(designs, jnp.int32(weight), space.genetics, space.plans))
    designs = jax.device_get(designs)
    unique = np.asarray(space.genetics.unique)[: int(space.genetics.layers)]
    count = np.asarray(made.count)
    valid = np.arange(made.cycles.shape[2]) < count[..., None]
    energy = np.where(valid, np.asarray(made.objectives, np.float64)[..., 1], np.inf)
    score = mapping_scores(isolated_cycles(made, package), energy)[weight]
    better = 0
    for n in range(NUMBER):
        tile = designs.assignment[n, : len(unique)]
        kind = designs.template[n][tile]
        own = needs(made, unique, kind, designs.mapping[n, : len(unique)])
        for i, (u, t) in enumerate(zip(unique, kind, strict=True)):
            standing = own[tile == tile[i]].max(axis=0)
            every = np.arange(count[u, t])
            fits = (needs(made, np.full_like(every, u), np.full_like(every, t), every) <= standing).all(axis=1)
            best = score[u, t, : len(every)][fits].min()
            assert score[u, t, found.mapping[n, i]] == pytest.approx(best, rel=1e-12)
            assert fits[found.mapping[n, i]]
            better += best < score[u, t, designs.mapping[n, i]]
    assert better > NUMBER // 4  # there is something to refit


def test_nothing_else_changes(case):
    space, _, _, designs = case
    found = every_refit(designs, jnp.int32(2), space.genetics, space.plans)
    for name in ("order", "assignment", "template"):
        np.testing.assert_array_equal(getattr(found, name), getattr(designs, name))
    layers = int(space.genetics.layers)
    np.testing.assert_array_equal(found.mapping[:, layers:], designs.mapping[:, layers:])
    sizes = jax.vmap(used_sizes, in_axes=(0, None, None))
    before, after = (sizes(x, space.genetics, space.plans) for x in (designs, found))
    assert np.all(np.asarray(after) <= np.asarray(before))


def test_a_decoded_plan_is_refitted_already(case):
    """Refitted under the weights of its own chiplets."""
    space, _, _, _ = case

    @jax.jit
    def both(keys):
        genetics, tables = space.genetics, space.plans
        planned = decode(jax.vmap(sample_plan, in_axes=(0, None, None))(keys, genetics, tables), genetics, tables)
        again = jax.vmap(lambda one: refit(one.design, one.plan.weight, genetics, tables))
        return planned.design, again(planned)

    design, again = both(jax.random.split(jax.random.key(2), NUMBER))
    same = np.all(np.asarray(design.mapping) == np.asarray(again.mapping), axis=1)
    # Refitting shrinks chiplets, so another pass may change more; it rarely does.
    assert same.mean() > 0.9
