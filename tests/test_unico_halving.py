"""Modified successive halving: survivors, costs and areas, by hand and compared with a plain version."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mohamjax.unico.halving import AREAS, Bracket, area_above_terminal, area_of_improvement, keep, seats


@pytest.mark.parametrize(
    ("alive", "want"),
    [(4, (2, 0)), (6, (3, 0)), (7, (3, 1)), (8, (4, 1)), (10, (5, 1)), (16, (8, 2)), (20, (10, 3)), (30, (15, 4))],
)
def test_seats(alive, want):
    assert seats(alive) == want
    assert seats(alive, 0) == (want[0], 0)
    assert seats(32) == (16, 4)


@pytest.mark.parametrize(
    ("lanes", "first", "rounds", "cost", "full"),
    [(32, 8, 4, 640, 2048), (32, 4, 5, 384, 2048), (32, 2, 6, 224, 2048), (30, 8, 4, 568, 1920)],
)
def test_costs(lanes, first, rounds, cost, full):
    bracket = Bracket(lanes, first, rounds)
    assert (bracket.cost, bracket.full_cost) == (cost, full)
    assert bracket.time(1) == cost
    assert bracket.time(lanes) == bracket.full_budget == full // lanes
    assert all(step.lanes.bit_count() == 1 and step.alive <= step.lanes < 2 * step.alive for step in bracket.plan)


def test_tiers():
    """Evaluations of a run: iterations x cost x population x layers."""
    assert 2 * Bracket(8, 2, 4).cost * 16 * 4 == 5_120
    assert 6 * Bracket(16, 2, 5).cost * 16 * 20 == 184_320
    assert 10 * Bracket(32, 4, 5).cost * 16 * 20 == 1_228_800


def test_plan_of_an_odd_number():
    plan = Bracket(30, 8, 4).plan
    assert [step.alive for step in plan] == [30, 15, 7, 3]
    assert [step.lanes for step in plan] == [32, 16, 8, 4]
    assert [step.budget for step in plan] == [8, 16, 32, 64]
    assert [step.generations for step in plan] == [8, 8, 16, 32]
    assert [(step.survivors, step.by_area) for step in plan] == [(15, 4), (7, 2), (3, 1), (3, 0)]
    assert Bracket(30, 8, 4).time(8) == 4 * 8 + 2 * 8 + 1 * 16 + 1 * 32


@pytest.mark.parametrize("wrong", [{"lanes": 0}, {"first": 0}, {"lanes": 4, "rounds": 4}, {"area_percent": 51}])
def test_impossible_brackets(wrong):
    with pytest.raises(ValueError, match=next(reversed(wrong))):
        Bracket(**wrong)


def test_areas_by_hand():
    """Two curves with equal ends: one falls at once, one at the end."""
    curves = jnp.array([[math.e**2, 1.0, 1.0, 1.0, 7.0], [math.e**2, math.e**2, math.e**2, 1.0, 7.0]])
    everyone = jnp.ones(2, bool)
    np.testing.assert_allclose(area_above_terminal(curves, 4, everyone), [0.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(area_of_improvement(curves, 4, everyone), [1.5, 0.5], rtol=1e-6)


def test_areas_of_curves_without_a_valid_beginning():
    inf = np.inf
    curves = jnp.array([[inf, np.nan, 2.0], [8.0, 4.0, 4.0], [inf, inf, inf], [1e9, 1e9, 1e9]])
    alive = jnp.array([True, True, True, False])
    log2 = math.log(2)
    np.testing.assert_allclose(area_above_terminal(curves, 3, alive), [4 / 3 * log2, log2 / 3, 0, 0], rtol=1e-6)
    # A score of 0, the ideal itself, counts as the least score above 0.
    ideal = jnp.array([[4.0, 0.0], [2.0, 1.0]])
    np.testing.assert_allclose(area_above_terminal(ideal, 2, jnp.ones(2, bool)), [log2, log2 / 2], rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31 - 1), st.floats(1e-6, 1e6), st.integers(1, 6))
def test_areas_have_no_unit_and_read_nothing_else(seed, unit, count):
    rng = np.random.default_rng(seed)
    curves = np.minimum.accumulate(rng.lognormal(size=(4, 6)), axis=1)
    alive = np.array([True, True, False, True])
    other = curves.copy()
    other[:, count:] = rng.normal(size=other[:, count:].shape)
    other[2] = np.nan
    with jax.enable_x64(True):
        for area in AREAS.values():
            want = area(jnp.asarray(curves), count, alive)
            np.testing.assert_allclose(area(jnp.asarray(curves * unit), count, alive), want, atol=1e-9)
            np.testing.assert_array_equal(area(jnp.asarray(other), count, alive), want)
            assert want[2] == 0
            assert (np.asarray(want) >= -1e-12).all()


def test_keep_by_hand():
    terminal = jnp.array([3.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    area = jnp.array([0.0, 9.0, 0.0, 0.0, 0.0, 5.0, 5.0, 0.0])
    everyone = jnp.ones(8, bool)
    # Lane 1 has the largest area but already survives by its terminal value; lanes 5 and 6 tie.
    assert keep(terminal, area, everyone, survivors=4, by_area=1).tolist() == [1, 2, 0, 5]
    assert keep(terminal, area, everyone, survivors=4, by_area=0).tolist() == [1, 2, 0, 3]
    assert keep(jnp.ones(8), jnp.zeros(8), everyone, survivors=4, by_area=1).tolist() == [0, 1, 2, 3]


def test_lanes_that_cannot_run_come_last():
    terminal = jnp.array([np.inf, 1.0, np.nan, 2.0, -5.0])
    area = jnp.array([9.0, 1.0, 9.0, 2.0, 9.0])
    alive = jnp.array([True, True, True, True, False])
    assert keep(terminal, area, alive, survivors=2, by_area=1).tolist() == [1, 3]
    assert keep(terminal, area, alive, survivors=3, by_area=1).tolist() == [1, 3, 0]
    assert keep(terminal, area, alive, survivors=5, by_area=1).tolist() == [1, 3, 0, 2, 4]


def plain_keep(terminal, area, alive, survivors, by_area):
    def grade(lane):
        return 2 if not alive[lane] else int(not np.isfinite(terminal[lane]))

    lanes = range(len(terminal))
    first = sorted(lanes, key=lambda i: (grade(i), terminal[i] if grade(i) == 0 else 0, i))[: survivors - by_area]
    rest = [i for i in lanes if i not in first]
    return first + sorted(rest, key=lambda i: (grade(i), -area[i] if grade(i) == 0 else 0, i))[:by_area]


_few = st.sampled_from([0.0, 1.0, 2.0, 3.0])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(_few | st.just(np.inf), _few, st.booleans()), min_size=8, max_size=8),
    st.sampled_from([(4, 1), (4, 0), (2, 2), (8, 3)]),
)
def test_keep_against_a_plain_version(lanes, numbers):
    terminal, area, alive = (np.array(column) for column in zip(*lanes, strict=True))
    survivors, by_area = numbers
    found = keep(jnp.float32(terminal), jnp.float32(area), alive, survivors=survivors, by_area=by_area).tolist()
    assert found == plain_keep(terminal, area, alive, survivors, by_area)
    assert len(set(found)) == survivors


def test_one_program_per_number_of_lanes():
    curves, everyone = jnp.ones((8, 16)), jnp.ones(8, bool)
    area_above_terminal(curves, 2, everyone)
    before = area_above_terminal._cache_size()
    for count in (3, 4, 16):
        area_above_terminal(curves, count, everyone)
    assert area_above_terminal._cache_size() == before
