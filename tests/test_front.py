"""The front of evaluated designs, against its definition."""

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from mohamjax import emo
from mohamjax.schedule.front import front_index

VALUES = st.sampled_from([0.0, 1.0, 2.0, 3.0, np.inf, np.nan])


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=12), elements=VALUES))
def test_it_holds_each_finite_point_that_nothing_dominates_once(objectives):
    finite = {tuple(row) for row in objectives if np.isfinite(row).all()}
    wanted = {row for row in finite if not any(o != row and np.less_equal(o, row).all() for o in finite)}
    found = front_index(objectives)
    assert found.dtype == int and [tuple(row) for row in objectives[found]] == sorted(wanted)
    firsts = [next(i for i, row in enumerate(objectives) if tuple(row) == tuple(objectives[k])) for k in found]
    assert found.tolist() == firsts  # the first of equal ones


def test_of_nothing_there_is_none():
    assert front_index(np.empty((0, 3))).tolist() == []


def test_endless_values_count_as_values():
    """Schedules that never end are compared too: a front of nothing else has one of them."""
    values = np.array([[2, 1.0], [1, np.inf], [2, 2], [1, np.inf], [np.inf, 1]])
    assert emo.distinct_front(values).tolist() == [1, 0]
    assert emo.distinct_front(np.full((3, 2), np.inf)).tolist() == [0]


def plane(rng, rows, m):
    """Points none of which dominates another."""
    points = rng.random((rows, m))
    return points / points.sum(axis=1, keepdims=True) * (1 + 0.1 * np.abs(points - 0.5).max(axis=1, keepdims=True))


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]), st.integers(1, 40), st.integers(6, 20))
def test_few_designs_stand_for_a_front(seed, m, rows, most):
    """The best of each objective stay, and the subset is as good as one found by removing points one by one."""
    rng = np.random.default_rng(seed)
    front = plane(rng, rows, m)
    front = front[front_index(front)]
    best = {int(i) for i in front.argmin(axis=0)}
    kept = emo.volume_subset(front, np.full(m, 1.1), most, best)
    assert len(kept) == min(most, len(front)) and (np.diff(kept) > 0).all()
    assert best <= set(kept.tolist())
    if len(front) <= most:
        assert kept.tolist() == list(range(len(front)))

    def volume(rows):
        return moocore.hypervolume(front[rows], ref=np.full(m, 1.1))

    plain = list(range(len(front)))
    while len(plain) > most:
        without = {i: volume([k for k in plain if k != i]) for i in plain if i not in best}
        plain.remove(max(without, key=lambda i: without[i]))
    assert volume(kept) == pytest.approx(volume(plain), rel=1e-9)


def test_a_large_front_loses_little_and_the_same_each_time():
    front = plane(np.random.default_rng(0), 3000, 3)
    front = front[front_index(front)]
    reference = np.full(3, 1.1)
    kept = emo.volume_subset(front, reference, 256)
    assert kept.tolist() == emo.volume_subset(front, reference, 256).tolist()
    others = np.random.default_rng(1).choice(len(front), 256, replace=False)
    whole, few, random = (moocore.hypervolume(points, ref=reference) for points in (front, front[kept], front[others]))
    assert len(front) > 2000 and whole - few < 0.4 * (whole - random)


def test_what_is_beyond_the_reference_goes_first_but_for_the_ends():
    line = np.linspace(0, 1, 30)
    front = np.stack([line, 1 - line], axis=1)
    kept = front[emo.volume_subset(front, np.array([0.6, 0.9]), 8, [0, 29])]
    assert [0.0, 1.0] in kept.tolist() and [1.0, 0.0] in kept.tolist()
    assert ((kept < [0.6, 0.9]).all(axis=1)).sum() == 6


def test_one_of_many_alike_stays():
    """Each alone adds hardly any volume; together they add some."""
    rng = np.random.default_rng(3)
    knee = np.array([0.15, 0.15, 0.15])
    alike = knee + 1e-4 * (plane(rng, 12, 3) - 1 / 3)
    points = np.concatenate([plane(rng, 200, 3), alike])
    front = points[front_index(points)]
    near = np.abs(front - knee).max(axis=1) < 1e-3
    assert near.sum() > 5
    assert near[emo.volume_subset(front, np.ones(3), 16)].any()


def test_what_is_to_stay_must_have_room():
    front = plane(np.random.default_rng(0), 20, 3)
    with pytest.raises(ValueError, match="9 rows are to stay, more than 8"):
        emo.volume_subset(front, np.ones(3), 8, range(9))
    assert emo.volume_subset(np.zeros((0, 3)), np.ones(3), 8).tolist() == []
