"""Many loop nests at once against their map spaces: what `encode` says of each of them."""

import jax
import numpy as np
import pytest

import mohamjax as mj
from mohamjax.errors import InputError
from mohamjax.hardware import load_templates, template_structure
from mohamjax.io import read_designs
from mohamjax.io.mapped_arrays import mapped_arrays
from mohamjax.io.nests import NestStore, distinct_numbers
from mohamjax.mapping import encode, membership
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

LAYERS = (
    Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3)),
    Layer("apart", "dwconv", "Conv", WorkloadShape(G=8, P=6, Q=6, R=3, S=3, stride=(2, 1)), predecessors=(0,)),
    Layer("head", "fc", "Gemm", WorkloadShape(K=12, C=8), predecessors=(1,)),
)
TEMPLATES = load_templates(("simba", "eyeriss", "shidiannao"))


@pytest.fixture(scope="module")
def problem():
    return mj.DesignProblem(ApplicationModel("toy", (Network("net", LAYERS),)), templates=TEMPLATES)


@pytest.fixture(scope="module")
def store(problem):
    levels = max(len(t.levels) for t in TEMPLATES)
    return NestStore(problem.application, TEMPLATES, levels, template_structure(TEMPLATES, levels).machine)


def spoiled(rng, nest):
    """A copy of a nest with one of its parts changed; one in three stays as it is."""
    nest = jax.tree.map(np.array, nest)
    kind, level, d, other = rng.integers(9), rng.integers(len(nest.keep)), *rng.choice(8, 2, replace=False)
    if kind == 0:
        nest.temporal[level, d] *= rng.integers(0, 3)
    elif kind == 1:  # a loop goes elsewhere
        inner = rng.integers(len(nest.keep))
        nest.temporal[[level, inner], d] = nest.temporal[[inner, level], d]
    elif kind == 2:  # a spatial loop becomes a temporal one, or the other way round
        axis = rng.integers(2)
        nest.temporal[level, d], nest.spatial[axis, level, d] = nest.spatial[axis, level, d], nest.temporal[level, d]
    elif kind == 3:
        nest.order[level, [d, other]] = nest.order[level, [other, d]]
    elif kind == 4:
        nest.order[level, d] = rng.integers(-1, 9)
    elif kind == 5:
        nest.keep[level, rng.integers(3)] ^= True
    return nest


def test_nests_fit_as_encode_says_of_each(problem, store, monkeypatch):
    """Blocks of any size, layers that a template does not run, and every kind of fault."""
    tables = mj.sample_mappings(problem, count=8, seed=0)
    rng = np.random.default_rng(0)
    keys = [(u, t) for u in range(len(LAYERS)) for t in range(len(TEMPLATES))]
    nests, which, wanted = [], [], []
    for _ in range(600):
        k = rng.integers(len(keys))
        unique, owner = keys[k]
        runs = tables.count[unique, owner] > 0
        source = (unique, owner) if runs else (0, 0)
        nest = spoiled(rng, jax.tree.map(lambda x, s=source: x[s][rng.integers(tables.count[s])], tables.mapping))
        nests.append(nest)
        which.append(k)
        try:
            assert runs
            encode(nest, store.space(unique, owner))
        except (AssertionError, InputError):
            wanted.append(False)
        else:
            wanted.append(True)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *nests)
    unpadded = np.ones((len(nests), 8), int)
    found = store.fitting(stacked, keys, np.asarray(which), unpadded)
    assert found.tolist() == wanted and 90 < sum(wanted) < 400
    monkeypatch.setattr(membership, "BLOCK", 7)
    assert store.fitting(stacked, keys, np.asarray(which), unpadded).tolist() == wanted
    none = jax.tree.map(lambda leaf: leaf[:0], stacked)
    assert store.fitting(none, keys, np.zeros(0, int), unpadded[:0]).tolist() == []


def test_orders_that_a_template_prescribes(store):
    """Loops above 1 are in the prescribed order, with the free ones outside them."""
    named = np.full((1, 1, 8), -1)
    named[0, 0, :2] = [5, 3]
    order = np.asarray([5, 3, 0, 1, 2, 4, 6, 7])[None, None]
    loops = np.ones((1, 1, 8), bool)
    assert membership.ordered(order, loops, named).tolist() == [True]
    swapped = order.copy()
    swapped[..., :2] = [3, 5]
    assert membership.ordered(swapped, loops, named).tolist() == [False]
    loops[..., 5] = False  # a loop of factor 1 may stand anywhere
    assert membership.ordered(swapped, loops, named).tolist() == [True]
    outside = np.roll(order, 1, axis=-1)
    assert membership.ordered(outside, np.ones((1, 1, 8), bool), named).tolist() == [False]


@pytest.mark.parametrize("most", [10, 1000])
@pytest.mark.parametrize("numbers", [[], [4], [9, 3, 3, 0, 9, 7, 3]])
def test_distinct_numbers_and_their_places(numbers, most):
    """They are found with and without sorting."""
    given = np.asarray(numbers, int)
    found, place = distinct_numbers(given, most)
    assert found.tolist() == sorted(set(numbers)) and found[place].tolist() == numbers


@pytest.mark.slow
def test_a_bulk_nest_that_does_not_fit_spoils_its_designs_alone(problem, tmp_path):
    tables = mj.sample_mappings(problem, count=3, seed=0)
    designs = jax.device_get(mj.sample_designs(jax.random.key(0), problem.arrays(tables), 24))
    mj.write_designs(tmp_path / "sound.npz", problem, tables, designs)
    arrays = {name: np.array(array) for name, array in mapped_arrays(tmp_path / "sound.npz").items()}
    layers = problem.application.unique_of_layer
    kind = np.take_along_axis(designs.template, designs.assignment, axis=1)[:, : len(layers)]
    used = np.stack([np.broadcast_to(layers, kind.shape), kind, designs.mapping[:, : len(layers)]])
    nest = used[:, 0, 0]
    arrays["nest_temporal"][(*nest, -1)] *= 2
    np.savez(tmp_path / "bad.npz", **arrays)
    broken = [bool(reason) for reason in read_designs(tmp_path / "bad.npz").reasons]
    assert broken == (used == nest[:, None, None]).all(axis=0).any(axis=1).tolist()
    assert 0 < sum(broken) < len(broken)
