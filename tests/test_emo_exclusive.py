"""What rows add to the hypervolume along directions: estimates, and survival and archives that use them."""

import jax
import jax.numpy as jnp
import numpy as np
import plain_emo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mohamjax import emo
from mohamjax.emo import exclusive
from mohamjax.search import MohamConfig, Settings, genetic_problem

BOX = (np.zeros(3, np.float32), np.ones(3, np.float32))
GRID = st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.75, 0.875, 1.0])


def inverse(count, m):
    return exclusive.inverse_directions(count, m).astype(np.float32)


def plain_holders(inside, count):
    """Row, longest and second-longest reach of every direction, one by one."""
    found = []
    for direction in inverse(count, inside.shape[1]):
        rays = (inside * direction).min(axis=1)
        longest = rays.max(initial=0)
        row = int(np.argmax(rays == longest)) if longest > 0 else len(inside)
        found.append((row, longest, np.delete(rays, row).max(initial=0) if longest > 0 else 0))
    return found


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_directions_are_unit_vectors_spread_evenly(m):
    unit = 1 / exclusive.inverse_directions(4096, m)
    np.testing.assert_allclose((unit**2).sum(axis=1), 1, atol=1e-6)
    assert (unit > 0).all()
    # The mean square of every component is 1 / M over the orthant, and over the first directions too.
    for some in (unit, unit[:256]):
        np.testing.assert_allclose((some**2).mean(axis=0), 1 / m, atol=0.03)


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_holder_of_a_direction_is_the_first_that_reaches_furthest(m):
    @settings(max_examples=40, deadline=None)
    @given(hnp.arrays(np.float32, (7, m), elements=GRID))
    def check(inside):
        row, reach, second = exclusive.holders(jnp.asarray(inside), 24)
        want = plain_holders(inside, 24)
        np.testing.assert_array_equal(row, [w[0] for w in want])
        np.testing.assert_array_equal(reach, np.asarray([w[1] for w in want], np.float32))
        np.testing.assert_array_equal(second, np.asarray([w[2] for w in want], np.float32))

    check()


def test_blocks_of_directions_change_nothing(monkeypatch):
    inside = jnp.asarray(np.random.default_rng(0).random((50, 3)), jnp.float32)
    whole = exclusive.exclusive_volume(inside, 200)
    monkeypatch.setattr(exclusive, "PAIRS", 50 * 7)
    np.testing.assert_array_equal(exclusive.exclusive_volume(inside, 200), whole)
    several = jax.jit(jax.vmap(lambda rows: exclusive.exclusive_volume(rows, 200)))(jnp.stack([inside, inside[::-1]]))
    np.testing.assert_array_equal(several[0], whole)
    np.testing.assert_array_equal(several[1], whole[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distinct", "shared"])
@pytest.mark.parametrize("m", [2, 3])
def test_estimates_are_near_the_volumes_that_rows_add(m, kind):
    rng = np.random.default_rng(m)
    front = rng.random((400, m)) ** 0.5
    front = (1 - front / np.linalg.norm(front, axis=1, keepdims=True))[:60]  # on a sphere around the reference point
    if kind == "shared":  # many rows are as good in one objective, as designs of one set of chiplets are in area
        front[:, -1] = np.ceil(front[:, -1] * 8) / 8
    front = front[plain_emo.rank(front) == 0]
    whole = float(emo.hypervolume(front, np.ones(m)))
    exact = np.asarray([whole - float(emo.hypervolume(np.delete(front, i, 0), np.ones(m))) for i in range(len(front))])
    got = np.asarray(exclusive.exclusive_volume(jnp.asarray(1 - front, jnp.float32), 1 << 12))
    exact, got = exact / exact.sum(), got / got.sum()
    assert np.abs(got - exact).max() < 0.2 * exact.max()
    assert np.corrcoef(got, exact)[0, 1] > 0.97


@pytest.mark.slow
def test_what_several_reach_is_nobodys_own():
    inside = np.asarray([[0.5, 0.5, 0.5], [0.9, 0.1, 0.1], [0.5, 0.5, 0.5], [0.0, 1.0, 1.0]], np.float32)
    got = np.asarray(exclusive.exclusive_volume(jnp.asarray(inside)))
    assert got[0] == 0 and got[1] > 0 and got[2] == got[3] == 0
    # A ray that ends at an objective shared by both rows belongs to neither.
    pair = jnp.asarray([[0.9, 0.3, 0.5], [0.3, 0.9, 0.5]], jnp.float32)
    np.testing.assert_allclose(*exclusive.exclusive_volume(pair, 1 << 13), rtol=0.05)


def test_survival_of_equal_rows_keeps_the_first_for_what_it_adds():
    f = np.asarray([[0.1, 0.9], [0.5, 0.5], [0.5, 0.5], [0.9, 0.1], [0.45, 0.6]], np.float32)
    index, _, place = emo.survive(f, 4, box=(np.zeros(2, np.float32), np.ones(2, np.float32)))
    assert set(np.asarray(index[:2]).tolist()) == {0, 3} and np.asarray(index[2:]).tolist() == [1, 4]
    np.testing.assert_array_equal(place, [4, 3, 2, 1])
    assert emo.survive(np.zeros((0, 3), np.float32), 0, box=BOX)[0].shape == (0,)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, (12, 3), elements=st.one_of(GRID, st.just(np.float32(np.inf)))))
def test_survivors_of_the_first_front_come_by_what_they_add(f):
    index, rank, place = (np.asarray(x) for x in emo.survive(f, 8, box=BOX))
    ranks = plain_emo.rank(f)
    crowding = np.asarray(emo.crowding_distance(f, ranks))
    again = np.asarray([any((f[i] == f[j]).all() for j in range(i)) for i in range(12)])
    inside = np.where(((ranks == 0) & ~again)[:, None], 1 - np.clip(f, 0, 1), 0)
    own = np.asarray(exclusive.exclusive_volume(jnp.asarray(inside, jnp.float32)))
    kind = np.where(np.isinf(crowding), 2, own > 0)
    value = np.where(kind == 1, own, crowding)
    np.testing.assert_array_equal(index, np.lexsort((np.arange(12), -value, -kind, ranks))[:8])
    np.testing.assert_array_equal(rank, ranks[index])
    np.testing.assert_array_equal(place, np.arange(8, 0, -1))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([12, 33]))
def test_an_archive_never_reaches_less_far(seed, capacity):
    rng = np.random.default_rng(seed)
    archive = emo.archive_init(capacity, np.int32(0), 3)
    count = min(capacity // 2, capacity - 6)
    furthest = np.zeros(count, np.float32)
    for _ in range(4):
        batch = rng.dirichlet(np.ones(3), 60).astype(np.float32) * (1 + 0.2 * rng.random((60, 1), np.float32))
        archive = emo.archive_update(archive, np.zeros(60, np.int32), batch, box=BOX)
        both = [exclusive.depth(jnp.asarray(rows), BOX) for rows in (archive.objectives, batch)]
        held, entered = (np.asarray(exclusive.holders(rows, count)[1]) for rows in both)
        np.testing.assert_array_equal(held, np.maximum(furthest, entered))
        furthest = held
    assert archive.thinned > 0 and archive.valid.all()


@pytest.mark.slow
def test_a_search_survives_and_archives_in_its_box():
    def sample(key):
        return jax.random.uniform(key, (3,), minval=0.1)

    def run(box):
        search = emo.NSGA2(
            sample=sample, vary=lambda key, a, b: (a, b), population=8, objectives=3, fitness=jnp.log,
            box=None if box is None else lambda: box,
        )  # fmt: skip
        archived = emo.Archived(search, 14, log_crowding=True)
        state = archived.init(jax.random.key(0))
        plane = np.random.default_rng(0).dirichlet(np.ones(3), 60).astype(np.float32) + 0.05
        genes = jnp.asarray(plane)
        return archived.tell(state, genes, plane), genes, plane

    box = jnp.full(3, 0.01), jnp.full(3, 2.0)
    state, genes, plane = run(box)
    # The unevaluated population comes first.
    merged = jnp.log(jnp.concatenate([jnp.full((8, 3), jnp.inf), plane]))
    index, rank, place = emo.survive(merged, 8, box=(jnp.log(box[0]), jnp.log(box[1])))
    np.testing.assert_array_equal(state.population.genes, genes[index - 8])
    np.testing.assert_array_equal(state.population.rank, rank)
    np.testing.assert_array_equal(state.population.crowding, place)
    empty = emo.archive_init(14, np.zeros(3, np.float32), 3)
    want = emo.archive_update(empty, genes, plane, log_crowding=True, box=box)
    np.testing.assert_array_equal(state.archive.objectives, want.objectives)
    plain, _, _ = run(None)
    assert not np.array_equal(plain.population.genes, state.population.genes)
    assert not np.array_equal(plain.archive.objectives, state.archive.objectives)


def test_the_box_decides_where_the_front_is_searched():
    default = Settings.preset("tiny").moham
    assert default.survival == "hypervolume" and genetic_problem(default).box is not None
    assert genetic_problem(MohamConfig(objective="product")).box is None
    assert genetic_problem(Settings.preset("tiny", preset="layers").moham).box is None
    assert genetic_problem(Settings.preset("tiny", preset="paper").moham).box is None


def test_equal_designs_count_once_but_where_crowding_decides_as_published():
    """With one number to minimise, all clones of the best design are in the first front and fill the population."""
    for objective in ("front", "latency", "product"):
        assert genetic_problem(MohamConfig(objective=objective)).distinct
        assert not genetic_problem(MohamConfig(objective=objective, survival="crowding")).distinct
