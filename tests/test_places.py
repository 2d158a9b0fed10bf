"""Closed fronts: by brute force no other placement dominates a design, and moves respect all requirements."""

import collections
import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from design_cases import TECHNOLOGY, TEMPLATES, application, recast, space_of, tables

from mohamjax import emo
from mohamjax.hardware import PackageParameters
from mohamjax.runtime.struct import take
from mohamjax.schedule import Setup, evaluation_arrays
from mohamjax.search.arrangements import arrangements
from mohamjax.search.config import MohamConfig, Settings
from mohamjax.search.finish import finished, finishing
from mohamjax.search.generations import Generations
from mohamjax.search.moham import genetic_problem
from mohamjax.search.places import Closing, closing, open_to_moves
from mohamjax.search.result import representatives
from mohamjax.workload import Ensemble, Member

CHIPS = 5
CONFIG = MohamConfig(population=32, generations=6, archive=128, chunk=2)
CLOSED = dataclasses.replace(CONFIG, end_rounds=50)
NARROW = PackageParameters(interface_bandwidth=0.25, hop_energy=20.0)


def problem_of(layers, package=NARROW, ensemble=None):
    """Arrays of a problem with made-up tables."""
    made = recast(tables(layers, 3, entries=12, templates=TEMPLATES[:2], blocked=False, least=2), np.float32)
    return space_of(layers, made, templates=TEMPLATES[:2], package=package, max_chiplets=CHIPS, ensemble=ensemble)


@pytest.fixture(scope="module")
def space():
    return problem_of(application([[], [0], [0], [1, 2], [3]], [[], [0], [1], [1]]))


@pytest.fixture(scope="module")
def state(space):
    *_, (state, _) = Generations(jax.random.key(1), space, CONFIG)
    return state


@pytest.fixture(scope="module")
def closed(state, space):
    *_, last = closing(state, space, CLOSED, genetic_problem(CLOSED))
    return last


def archived(state):
    """The designs of the archive, one by one, and their objectives `[n, M]`."""
    archive = jax.device_get(take(state.archive, 0))
    rows = np.flatnonzero(archive.valid)
    return [take(archive.genes.design, i) for i in rows], archive.objectives[rows]


# ---------------------------------------------------------------- brute force


def permuted(design, layers):
    """The design with its chiplets in every order."""
    tiles = np.flatnonzero(design.template >= 0)
    for order in itertools.permutations(tiles):
        goes = np.arange(len(design.template))
        goes[tiles] = order
        template = np.full_like(design.template, -1)
        template[goes] = design.template
        assignment = design.assignment.copy()
        assignment[:layers] = goes[assignment[:layers]]
        yield dataclasses.replace(design, assignment=assignment, template=template)


def without_one(design, space):
    """The design without one of its chiplets, whose layers move to another one, all fastest or all most frugal."""
    layers, count = int(space.genetics.layers), np.asarray(space.genetics.count)
    unique, need = np.asarray(space.genetics.unique), np.asarray(space.plans.need)
    tiles = np.flatnonzero(design.template >= 0)
    own, real = design.assignment, np.arange(len(design.order)) < layers
    for source, target in itertools.permutations(tiles, 2):
        t = design.template[target]
        here = np.flatnonzero(real & (own == target))
        size = need[t, design.mapping[here], unique[here]].max(axis=0)
        moves = np.flatnonzero(real & (own == source))
        choices = []
        for i in moves:
            fits = np.flatnonzero((need[t, : count[unique[i], t], unique[i]] <= size).all(axis=1))
            choices.append(_ends(fits, t, unique[i], space))
        if not all(len(choice) for choice in choices):
            continue
        for chosen in zip(*choices, strict=True):
            assignment, mapping, template = own.copy(), design.mapping.copy(), design.template.copy()
            assignment[moves], mapping[moves], template[source] = target, chosen, -1
            yield dataclasses.replace(design, assignment=assignment, mapping=mapping, template=template)


def _ends(fits, t, u, space):
    """The fastest and the most frugal mapping among those that fit."""
    time, energy = np.asarray(space.plans.time)[t, fits, u], np.asarray(space.plans.log_energy)[t, fits, u]
    return [fits[np.argmin(time)], fits[np.argmin(energy)]] if len(fits) else []


def evaluated(designs, space):
    """Objectives `[n, M]`, evaluated in blocks of one size."""
    problem = genetic_problem(CONFIG)
    program = jax.jit(lambda designs: problem.evaluate(designs, space))
    stacked = jax.tree.map(lambda *x: np.stack(x), *designs)
    parts = []
    for first in range(0, len(designs), 512):
        rows = np.minimum(np.arange(first, first + 512), len(designs) - 1)
        parts.append(np.asarray(program(take(stacked, rows))))
    return np.concatenate(parts)[: len(designs)]


def dominated(state, space, variants):
    """How many designs of the archive have a variant that is nowhere worse and clearly better in some objective."""
    return len(dominated_rows(state, space, variants))


def dominated_rows(state, space, variants):
    """The numbers of these designs among those in use."""
    designs, own = archived(state)
    made = [(i, new) for i, design in enumerate(designs) for new in variants(design)]
    rows = np.asarray([i for i, _ in made])
    reached = evaluated([new for _, new in made], space)
    good = (reached <= own[rows] * (1 + 1e-6)).all(axis=1) & (reached < own[rows] * (1 - 1e-4)).any(axis=1)
    return set(rows[good].tolist())


@pytest.mark.slow
def test_no_order_of_the_chiplets_dominates_a_design_of_a_closed_front(state, closed, space):
    layers = int(space.genetics.layers)
    assert dominated(state, space, lambda design: permuted(design, layers)) > 3, "nothing to close"
    assert dominated(closed[0], space, lambda design: permuted(design, layers)) == 0


def standing_for(state, space, config):
    """The state with only those designs that represent the front of its single archive."""
    objectives = np.asarray(state.archive.objectives[0], float)
    there = np.flatnonzero(state.archive.valid[0])
    front = there[emo.distinct_front(objectives[there])]
    box = np.asarray(space.ideal), np.asarray(space.reference)
    few = front[representatives(objectives[front], 0.0, box, config, np.asarray(space.weights))]
    valid = np.zeros_like(state.archive.valid)
    valid[0, few] = True
    return dataclasses.replace(state, archive=dataclasses.replace(state.archive, valid=jnp.asarray(valid)))


@pytest.mark.slow
def test_only_what_stands_for_the_front_is_closed(state, closed, space):
    layers = int(space.genetics.layers)
    few = dataclasses.replace(CLOSED, front=12)
    before = standing_for(state, space, few)
    assert len(archived(before)[0]) == 12 < len(archived(state)[0])
    assert dominated(before, space, lambda design: permuted(design, layers)) > 0, "nothing to close"
    *_, (after, done) = closing(state, space, few, genetic_problem(few))
    assert 0 < done.evaluations < closed[1].evaluations / 2
    left = standing_for(after, space, few)
    assert len(archived(left)[0]) == 12
    assert dominated(left, space, lambda design: permuted(design, layers)) == 0
    assert dominated(left, space, lambda design: without_one(design, space)) == 0
    # A result is chosen among the designs that were tried; the others stay in the archive unchanged.
    valid = np.asarray(after.archive.valid)
    assert done.closed.shape == valid.shape and 12 <= (done.closed & valid).sum() < valid.sum()
    assert (done.closed | ~np.asarray(left.archive.valid)).all()
    assert dominated(after, space, lambda design: permuted(design, layers)) > 0


@pytest.mark.slow
def test_designs_that_a_move_would_better_are_told_from_closed_ones(state, closed, space):
    """Compared with brute force; a closed front has no such design, in whatever order its designs are given."""
    layers = int(space.genetics.layers)
    after, _ = closed
    for whole in (state, after):
        designs, objectives = archived(whole)
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *designs)
        found = open_to_moves(stacked, objectives, whole, space, CLOSED)
        assert found.any() == (whole is state)
        back = open_to_moves(take(stacked, slice(None, None, -1)), objectives[::-1], whole, space, CLOSED)
        assert np.array_equal(back[::-1], found)
        for variants in (lambda design: permuted(design, layers), lambda design: without_one(design, space)):
            assert dominated_rows(whole, space, variants) <= set(np.flatnonzero(found).tolist())


def models(over):
    """Two application models on one package."""
    one, other = application([[], [0], [0], [1, 2]]), application([[], [0], []], [[], [0]])
    other = dataclasses.replace(other, name="other")
    return Ensemble((Member(one, 1.0 if over == "worst" else 3.0), Member(other)), over)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mesh", "mean", "worst"])
def test_fronts_of_meshes_and_of_several_models_are_closed_too(kind):
    if kind == "mesh":
        package = dataclasses.replace(NARROW, contention="mesh", link_bandwidth=0.2)
        own = problem_of(application([[], [0], [0], [1, 2], [3]], [[], [0], [1], [1]]), package)
    else:
        ensemble = models(kind)
        own = problem_of(ensemble.joined, ensemble=ensemble)
    *_, (searched, _) = Generations(jax.random.key(1), own, CONFIG)
    *_, (after, done) = closing(searched, own, CLOSED, genetic_problem(CLOSED))
    layers = int(own.genetics.layers)
    assert done.replaced > 0
    assert dominated(searched, own, lambda design: permuted(design, layers)) > 0
    assert dominated(after, own, lambda design: permuted(design, layers)) == 0
    assert dominated(after, own, lambda design: without_one(design, own)) == 0


@pytest.mark.slow
def test_no_chiplet_of_a_closed_front_is_idle_weight(closed, space):
    """No chiplet can be removed, not even if all others change places."""
    layers = int(space.genetics.layers)

    def both(design):
        for new in without_one(design, space):
            yield from permuted(new, layers)

    assert dominated(closed[0], space, both) == 0


@pytest.mark.slow
def test_a_spacer_goes_and_the_others_take_its_place(state, space):
    """Designs lose a chiplet that they do not need, whose layers another one runs at no cost."""
    designs, _ = archived(state)
    problem = genetic_problem(CLOSED)
    found = 0
    for s, done in closing(state, space, CLOSED, problem):
        number = [(design.template >= 0).sum() for design in archived(s)[0]]
        found = done.replaced
    before = [(design.template >= 0).sum() for design in designs]
    assert found and sum(number) / len(number) < sum(before) / len(before)


# ---------------------------------------------------------------- what closing keeps


@pytest.mark.slow
def test_it_loses_nothing_counts_and_repeats_itself(state, closed, space):
    after, done = closed
    _, old = archived(state)
    _, new = archived(after)
    assert (new[None] <= old[:, None] * (1 + 1e-5)).all(axis=-1).any(axis=1).all()
    assert done.evaluations > done.replaced > 0 and 1 < done.rounds < CLOSED.end_rounds
    steps = list(closing(state, space, CLOSED, genetic_problem(CLOSED)))
    again, twice = steps[-1]
    assert twice.counts == done.counts and np.array_equal(archived(again)[1], new)
    evaluations = [step.evaluations for _, step in steps]
    assert evaluations == sorted(evaluations) and str(twice).startswith(f"round {done.rounds}: ")
    # Closing a closed front changes nothing.
    *_, (still, nothing) = closing(after, space, CLOSED, genetic_problem(CLOSED))
    assert nothing.rounds == 1 and nothing.replaced == 0
    assert np.array_equal(archived(still)[1], new)


@pytest.mark.slow
def test_it_is_the_end_of_a_search_unless_it_is_switched_off(state, space):
    told = []
    *_, last = finishing(state, space, CLOSED, told=told.append)
    assert told[-1].rounds > 1 and told[-1].replaced > 0
    assert dominated(last, space, lambda design: permuted(design, int(space.genetics.layers))) == 0
    off = finished(state, space, CONFIG)
    assert dominated(off, space, lambda design: permuted(design, int(space.genetics.layers))) > 0
    assert np.array_equal(last.population.generation, state.population.generation)
    assert Settings.preset("small").moham.end_rounds > 0
    assert Settings.preset("small", preset="paper").moham.end_rounds == 0


@pytest.mark.slow
def test_fixed_chiplets_stay_where_they_are(state, space):
    designs, _ = archived(state)
    (tile, kind), _ = collections.Counter(
        (s, int(design.template[s])) for design in designs for s in np.flatnonzero(design.template >= 0)
        if (design.template >= 0).sum() > 2
    ).most_common(1)[0]  # fmt: skip
    on_tile = np.asarray(space.genetics.on_tile).copy()
    on_tile[tile] = kind
    own = dataclasses.replace(space, genetics=dataclasses.replace(space.genetics, on_tile=jnp.asarray(on_tile)))
    archive = state.archive
    held = archive.valid & (archive.genes.design.template[..., tile] == kind)
    archive = dataclasses.replace(
        archive, valid=held, objectives=jnp.where(held[..., None], archive.objectives, jnp.inf)
    )
    some = dataclasses.replace(state, archive=archive)
    *_, (after, done) = closing(some, own, CLOSED, genetic_problem(CLOSED))
    assert done.replaced
    layers = int(space.genetics.layers)
    unique, count = np.asarray(space.genetics.unique), np.asarray(space.genetics.count)
    for design in archived(after)[0]:
        assert design.template[tile] == kind
        template = design.template[design.assignment[:layers]]
        assert (template >= 0).all()
        assert (design.mapping[:layers] < count[unique[:layers], template]).all()
        assert set(np.flatnonzero(design.template >= 0)) - {tile} <= set(design.assignment[:layers])


@pytest.mark.slow
def test_an_archive_without_designs_is_no_trouble(state, space):
    archive = dataclasses.replace(
        state.archive,
        valid=jnp.zeros_like(state.archive.valid),
        objectives=jnp.full_like(state.archive.objectives, jnp.inf),
    )
    empty = dataclasses.replace(state, archive=archive)
    assert list(closing(empty, space, CLOSED, genetic_problem(CLOSED))) == []


# ---------------------------------------------------------------- arrangements


def package_of(**changes):
    """A package as the search has it."""
    layers = application([[]])
    made = recast(tables(layers, 0, entries=2, templates=TEMPLATES[:1], blocked=False), np.float32)
    technology = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), TECHNOLOGY)
    return evaluation_arrays(Setup(layers, TEMPLATES[:1], technology, PackageParameters(**changes)), made).package


def shared(package, n, place):
    """Which chiplets share which resource if chiplet k stands at `place[k]`, in plain Python."""
    tables = jax.device_get(package.tables)
    sets = collections.Counter()
    for r in range(int(tables.interfaces[n])):
        sets["interface", frozenset(k for k in range(n) if tables.interface_of[n, place[k]] == r)] += 1
    if tables.trunks is not None:
        for c in range(tables.trunks.shape[2]):
            sets["link", frozenset(k for k in range(n) if tables.trunks[n, place[k], c])] += 1
    return frozenset((key, number) for key, number in sets.items() if key[1])


@pytest.mark.parametrize(
    "changes", [{}, {"contention": "mesh"}, {"placement": "middle"}], ids=["all", "mesh", "middle"]
)
def test_every_order_of_up_to_six_chiplets_is_of_one_class(changes):
    """Orders are of one class if chiplets share resources alike, which is checked in plain Python."""
    package = package_of(max_tiles=7, **changes)
    first, *_ = arrangements(package)
    for n in range(1, 7):
        there = np.asarray(first.there[n])
        groups = [tuple(row[:n]) for row in np.asarray(first.group[n])[there]]
        kind = dict(zip(groups, np.asarray(first.kind[n])[there].tolist(), strict=True))
        own = np.asarray(first.place_group[n])[:n]
        assert groups[0] == tuple(own) and len(kind) == len(groups)
        classes = collections.defaultdict(set)
        for place in itertools.permutations(range(n)):
            classes[shared(package, n, place)].add(kind[tuple(own[list(place)])])
        numbers = [number for found in classes.values() for number in found]
        assert all(len(found) == 1 for found in classes.values()) and len(set(numbers)) == len(classes)


def test_many_chiplets_have_a_sample_that_begins_with_what_stands():
    tables = arrangements(package_of())
    assert [table.place_group.shape[1] for table in tables] == [6, 9, 16]
    group, there = np.asarray(tables[-1].group[16]), np.asarray(tables[-1].there[16])
    rows = group[there]
    np.testing.assert_array_equal(rows[0], tables[-1].place_group[16])
    assert len(np.unique(rows, axis=0)) == len(rows) > 1000
    assert (np.sort(rows, axis=1) == np.sort(rows[0])).all()


def test_classes_of_more_chiplets_than_an_integer_has_bits():
    package = package_of(max_tiles=66)
    n, table = 66, arrangements(package)[-1]
    there = np.asarray(table.there[n])
    groups, kind = np.asarray(table.group[n])[there], np.asarray(table.kind[n])[there]
    load = np.asarray(table.load[n]) > 0
    # Interfaces are equally wide: divisions are of one class if they make the same sets, whichever interface each has.
    sets = [frozenset(frozenset(np.flatnonzero(load[row, c]).tolist()) for c in range(load.shape[1])) for row in groups]
    assert len(set(sets)) == len(set(zip(sets, kind.tolist(), strict=True))) == len(set(kind.tolist()))


def test_progress_reads_well():
    assert str(Closing(2, 1234, 1, 0.5)) == "round 2: 1,234 designs tried, 1 replaced (0.5 s)"
