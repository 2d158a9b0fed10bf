"""Templates that take no area or no energy are legal: logarithms of their costs lose nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax import emo
from mohamjax.plot.front import Front, axis_limits, front_projections
from mohamjax.plot.mappings import relative_position
from mohamjax.problem.list_scheduling import size_caps
from mohamjax.schedule import landmarks
from mohamjax.schedule.front_bounds import cell_edges


def test_logarithms_of_what_costs_nothing():
    """Zero is the best cost: its logarithm is finite, and below that of every positive cost."""
    for library, dtype in ((np, np.float64), (jnp, jnp.float32)):
        values = library.asarray([0.0, 1e-30, 1.0, np.inf, np.nan], dtype)
        logs = np.asarray(library.log(emo.positive(values)))
        assert np.isfinite(logs[:3]).all() and (np.diff(logs[:4]) > 0).all() and np.isnan(logs[4])
        assert (np.asarray(emo.positive(values))[1:4] == np.asarray(values)[1:4]).all()


@pytest.mark.parametrize("zero", [[2], [1, 2], [0, 1, 2]])
def test_archives_of_designs_that_cost_nothing(zero):
    """Thinning on logarithms where an objective is 0 in all rows, or in some."""
    draw = np.random.default_rng(0).random((40, 3)).astype(np.float32) + 0.1
    draw[:, 0] = np.sort(draw[:, 0])
    draw[:, 1] = np.sort(draw[:, 1])[::-1]
    for rows in (slice(None), slice(0, 1)):
        values = draw.copy()
        values[rows, zero] = 0
        empty = emo.archive_init(8, jnp.int32(0), 3)
        archive = emo.archive_update(empty, jnp.arange(40), jnp.asarray(values), log_crowding=True)
        kept = np.asarray(archive.objectives)[np.asarray(archive.valid)]
        assert len(kept) and np.isfinite(kept).all()
        front = values[np.asarray(emo.non_dominated_rank(jnp.asarray(values))) == 0]
        assert len(kept) == min(8, len(np.unique(front, axis=0)))
        assert (kept.min(axis=0) == front.min(axis=0)).all()  # the extremes stay


def test_landmarks_of_a_front_that_costs_nothing():
    assert landmarks(np.array([[1.0, 4.0, 0.0], [2.0, 2.0, 0.0], [4.0, 1.0, 0.0]]))["knee"] == 1
    assert min(landmarks(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).values()) >= 0


@pytest.mark.parametrize("least", [0.0, 1e-6, 1.0])
def test_axes_of_logarithms_that_begin_at_nothing(least):
    """Caps and cells ascend from the least area, whether it is 0 or not."""
    area = np.array([least, 2.0, 1000.0])
    caps = size_caps(area, least, 1000.0, 12)
    assert len(caps) == 12 and (np.diff(caps) > 0).all() and caps[0] > 0 and caps[-1] == pytest.approx(1000)
    edges = cell_edges(area, least, 1000.0, 16)
    assert edges[0] == least and (np.diff(edges) > 0).all() and 16 <= len(edges) <= 17
    assert (size_caps(area * 0, 0.0, 0.0, 12) == 0).all()
    assert cell_edges(area * 0, 0.0, 0.0, 16).tolist() == [0.0]


@pytest.mark.parametrize("values", [[0.0, 0.0], [0.0, 5.0], [1.0, 5.0], [1.0, 50.0]])
def test_figures_of_what_costs_nothing(values):
    low, high = axis_limits(np.array(values))
    assert np.isfinite([low, high]).all() and low < min(values) and high > max(values)
    column = np.array(values)[:, None]
    place = relative_position(column, column.min(axis=0), column.max(axis=0))
    assert np.isfinite(place).all() and place.min() >= 0 and place.max() <= 1


def test_a_front_that_costs_nothing_is_drawn():
    """Axes with zeros are linear."""
    latency = np.array([1e-3, 2e-3, 5e-2])
    front = Front(latency_s=latency, energy_J=np.array([0.0, 3.0, 1.0]), area_mm2=np.zeros(3))
    figure = front_projections(front, title="free")
    scales = {(axes.get_xscale(), axes.get_yscale()) for axes in figure.axes[:3]}
    assert ("log", "linear") in scales and all("log" not in s[1] for s in scales)
    figure.canvas.draw()
