"""The front of evaluated designs, against its definition."""

import numpy as np
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
    assert found.tolist() == firsts  # of equal ones the first


def test_of_nothing_there_is_none():
    assert front_index(np.empty((0, 3))).tolist() == []


def test_endless_values_count_as_values():
    """Schedules that never end are compared too: a front of them alone has one."""
    values = np.array([[2, 1.0], [1, np.inf], [2, 2], [1, np.inf], [np.inf, 1]])
    assert emo.distinct_front(values).tolist() == [1, 0]
    assert emo.distinct_front(np.full((3, 2), np.inf)).tolist() == [0]
