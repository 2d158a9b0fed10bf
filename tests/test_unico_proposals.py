"""What the next batch of hardware points is chosen by: the known front, and padded rows."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_codesign import SPACE

from mohamjax import emo
from mohamjax.emo import ranking
from mohamjax.errors import InputError
from mohamjax.unico import acquisition, fidelity, gp, proposals
from mohamjax.unico.config import CodesignConfig
from mohamjax.unico.history import History

CONFIG = CodesignConfig(pool=64, neighbours=16, aimed=0.0)


def history_of(objectives, robustness=None, accepted=None):
    """A history of rows with given latency, power and area, measured four at a time; rows of infinite latency fail."""
    rows = len(objectives)
    history = History.empty(rows, 4, np.zeros((1, 1)))
    columns = dict(zip(("latency_s", "power_W", "area_mm2"), np.asarray(objectives, float).T, strict=True))
    columns["robustness"] = np.zeros(rows) if robustness is None else np.asarray(robustness, float)
    columns |= {"index": np.arange(rows), "batch": np.arange(rows) // 4, "samples": np.full(rows, 100)}
    columns |= {"accepted": np.ones(rows, bool) if accepted is None else np.asarray(accepted)}
    return dataclasses.replace(history, columns={**history.columns, **columns})


def random_history(rows, seed=0):
    """The first rows of a random history; every seventh row has no valid mapping."""
    drawn = np.random.default_rng(seed).uniform(1, 10, (200, 4))[:rows]
    failed = np.arange(rows) % 7 == 3
    drawn[failed, :2] = np.inf
    return history_of(drawn[:, :3], np.where(failed, np.nan, drawn[:, 3]), ~failed)


class Told(Exception):
    """Carries what an acquisition was told, and ends the proposal."""


@pytest.fixture
def told(monkeypatch):
    """What the acquisition of a setting is told of a history: the known front, or the least observed values."""

    def tell(key, surrogate, candidates, known, *, count):
        raise Told(known)

    for module, name in ((acquisition, "qhvi"), (acquisition, "mesmo"), (gp, "fit"), (gp, "probability_below")):
        monkeypatch.setattr(module, name, tell if module is acquisition else lambda *given, **more: None)

    def of(history, **changes):
        with pytest.raises(Told) as seen:
            proposals.by_surrogate(history, SPACE, dataclasses.replace(CONFIG, **changes), 1, 4, None, 4)
        return seen.value.args[0]

    return of


# ---------------------------------------------------------------- the known front


def test_the_front_that_is_reported_is_known(told):
    rows = [[1, 1, 1], [2, 2, 2], [3, 3, 3], [1, 1, 0.1], [9, 0.7, 9]]
    history = history_of(rows, [0.5, 0.2, 0.3, 0.9, 0.01])

    def powers(**changes):
        found = told(history, **changes)
        return sorted(np.exp(found.values[found.mask, 1].astype(float)).round(3).tolist())

    assert powers() == powers(robust=False) == [0.7, 1]
    assert powers(power_cap_W=0.8) == [0.7]
    # If nothing keeps the limit, the rows that were learnt from stand in.
    assert powers(power_cap_W=0.5) == [0.7, 1, 1, 2, 3]


def test_a_large_front_is_known_up_to_its_slow_end(told):
    latency = np.linspace(1, 2, 600)
    found = told(history_of(np.stack([latency, 3 - latency, np.ones(600)], axis=1)))
    np.testing.assert_allclose(np.exp(found.values[found.mask, 0]), latency, rtol=1e-6)
    assert len(found.values) == 1024


# ---------------------------------------------------------------- padding


def evolved(rows, config):
    return proposals.by_evolution(random_history(rows), SPACE, config, rows, 6).index.tolist()


def learnt(rows, config):
    history = random_history(rows)
    return proposals._training_rows(history, config, np.log(history.objectives)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("cap", [None, 4.0])
@pytest.mark.parametrize(("choose", "program"), [(evolved, ranking._survive), (learnt, fidelity.training_rows)])
def test_a_growing_history_compiles_nothing_anew(monkeypatch, cap, choose, program):
    """And the choice is the same as without spare rows."""
    config = dataclasses.replace(CONFIG, training=20, power_cap_W=cap)
    numbers = (40, 46, 52, 64)
    before = program._cache_size()
    found = [choose(rows, config) for rows in numbers]
    assert program._cache_size() <= before + 1
    monkeypatch.setattr(emo, "with_spare_rows", lambda rows: rows)
    monkeypatch.setattr(fidelity, "padded", lambda rows, fill: rows)
    assert [choose(rows, config) for rows in numbers] == found


def test_every_digit_mutates_as_often():
    """Of one gene in six, as NSGA-II has it; rounding once left a digit of two values alone."""
    shape = np.asarray((24, 20, 9, 3, 2, 1))
    loop = proposals._nsga(4, len(shape))
    keys = jax.random.split(jax.random.key(0), 4000)
    for digits in (0 * shape, shape // 2, shape - 1):
        both = (jnp.asarray(digits, jnp.int32),) * 2
        one, two = jax.vmap(lambda key, both=both: loop.vary(key, *both, jnp.asarray(shape, jnp.float32)))(keys)
        for children in (np.asarray(one), np.asarray(two)):
            assert (children >= 0).all() and (children < shape).all()
            share = (children != digits).mean(axis=0)
            np.testing.assert_allclose(share, [1 / 6] * 5 + [0], atol=0.025)


def test_the_worst_rows_come_before_spare_ones():
    """Even rows without a valid mapping are chosen before the rows of padding."""
    history = history_of([[np.inf, np.inf, 1 + i] for i in range(5)])
    found = np.asarray(emo.survive(proposals._held(history, CONFIG), 5)[0])
    assert sorted(found.tolist()) == [0, 1, 2, 3, 4]


def test_more_rows_than_a_training_set_holds_are_refused():
    assert CodesignConfig(training=gp.BUCKETS[-1]).training == 512
    with pytest.raises(InputError, match=r"argument `training`.*is 513; give at most 512"):
        CodesignConfig(training=513)
