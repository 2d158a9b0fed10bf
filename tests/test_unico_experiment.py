"""Searches of the experiment: one line each, truncated lines, changed settings, and tables made from lines alone."""

import dataclasses

import numpy as np
import pytest
import unico_runs
import unico_tables
from small_codesign import SIZES, SPACE, TECHNOLOGY, application
from unico_measures import hypervolume_difference
from unico_runs import RUN_COLUMNS, SINGLE, TRAINED, UNSEEN, VARIANTS, Lines, Run, Runs
from unico_runs import application as workload

from mohamjax.plot.unico import hypervolume_differences, loop_bounds
from mohamjax.unico.axes import Axes, distance_to_ideal
from mohamjax.unico.config import METHODS, CodesignConfig
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.search import HardwareSearch


@pytest.fixture(scope="module")
def result():
    return HardwareSearch(CodesignProblem(application(), SPACE, TECHNOLOGY), CONFIG).run()


KEY = ("ci", "ci", "toy", "mobohb", "0")
CONFIG = CodesignConfig(**{**SIZES, "method": "mobohb", "iterations": 3})


def kept(path, result, config=CONFIG, key=KEY, **settings):
    """The runs, the record of one search, and how many searches were made; every search returns `result`."""
    asked = []
    runs = Runs(Lines(path, RUN_COLUMNS, 5), **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unico_runs.HardwareSearch, "run", lambda search: asked.append(search) or result)
        run = runs.kept(key, application, SPACE, config)
    return runs, run, len(asked)


def equal(a, b):
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(Run))


@pytest.mark.slow
def test_a_search_is_done_once(result, tmp_path):
    path = tmp_path / "runs.csv"
    _, first, searched = kept(path, result)
    assert searched == 1 and first.points == 24 and first.evaluations == result.evaluations[-1]
    _, again, searched = kept(path, result)
    assert searched == 0 and equal(first, again)
    # With other settings under the same key, even another default, the search is repeated, and the last line counts.
    other = dataclasses.replace(CONFIG, finishing="end" if CONFIG.finishing != "end" else "spread")
    assert kept(path, result, other)[2] == 1
    assert kept(path, result, other)[2] == 0
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.slow
def test_half_a_line_is_dropped(result, tmp_path):
    path = tmp_path / "runs.csv"
    kept(path, result)
    whole = path.read_text()
    kept(path, result, key=(*KEY[:4], "1"))
    path.write_text(path.read_text()[:-40])
    runs, _, searched = kept(path, result, key=(*KEY[:4], "1"), report_only=True)
    assert searched == 0 and runs.left == 1 and path.read_text() == whole
    assert kept(path, result, key=(*KEY[:4], "1"), until=0.0)[0].left == 1


@pytest.mark.slow
def test_lines_hold_what_tables_need(result, tmp_path):
    """Distances, hypervolumes and curves of the whole history follow from the rows that were kept."""
    history = result.history
    _, run, _ = kept(tmp_path / "runs.csv", result)
    assert 0 < len(run.cost) <= len(history)
    np.testing.assert_array_equal(run.most, history.objectives.max(axis=0))
    for log in (False, True):
        axes = unico_tables.common_axes([run], log=log)
        assert axes == Axes.of(history.objectives, log=log)
        distance = distance_to_ideal(history.objectives, axes)
        cost, best = unico_tables.curve(run, axes)
        for at in np.unique(result.evaluations):
            assert best[cost <= at][-1] == pytest.approx(distance[result.evaluations <= at].min(), abs=1e-12)
        assert unico_tables.final(run, axes) == pytest.approx(distance.min(), abs=1e-12)
    volume = unico_tables.volume_curve(run, history.objectives, axes, result.evaluations[[0, -1]])
    assert volume[1] == pytest.approx(0, abs=1e-12) and volume[0] > 0
    assert unico_tables.share_to_volume(run, run, history.objectives, axes) <= 1
    part = history.objectives[result.evaluations <= result.evaluations[0]]
    assert volume[0] == pytest.approx(hypervolume_difference(part, history.objectives, axes), abs=1e-12)


def test_tables_of_whole_pairs_alone():
    def run(distance, cost):
        return Run(
            2, 100, 1.0, 1.0, np.ones(3), np.asarray([10.0, cost]), np.asarray([1, 2]), np.asarray([0, 1]),
            np.asarray([[0.5, 0.5, 0.5], [distance, 0.1, 0.1]]),
        )  # fmt: skip

    runs = {("a", "hasco", 0): run(0.2, 80.0), ("a", "unico", 0): run(0.1, 30.0), ("a", "unico", 1): run(0.1, 30.0)}
    assert unico_tables.complete(runs, ("hasco", "unico"), ["a"], 2) == [("a", 0)]
    axes = unico_tables.common_axes(runs.values())
    whole, own = unico_tables.shares_to_reach(runs, "unico", "hasco", [("a", 0)], axes)
    assert whole == pytest.approx([0.3]) and own == pytest.approx([30 / 80])
    text = unico_tables.comparison(runs, ("hasco", "unico"), ["a"], 2, "hasco")
    assert "1 of 2 pairs" in text and "1:0 (1.00)" in text
    measured = {(n, m, 0): np.asarray([d, 0.1, 0.1]) for n in "xy" for m, d in (("hasco", 0.4), ("unico", 0.2))}
    measured["x", "hasco", 0] = np.asarray([0.6, 0.1, 0.1])
    # On axes from 0.2 to 0.6, HASCO's distances are 1 and 0.5, those of UNICO 0 on both networks.
    assert "100.0 %" in unico_tables.held_out(measured, ("hasco", "unico"), "hasco")
    # The searches span 0.1 to 1: the distances become 5/9 and 3/9, and 1/9 for both; the gains are 0.8 and 2/3.
    text = unico_tables.held_out(measured, ("hasco", "unico"), "hasco", runs.values())
    assert "75.0 %" in text and "73.3 %" in text


def test_figures():
    """Axes, labels and numbers of the figures that the experiment draws."""
    figure = hypervolume_differences({"a": ([1.0, 2.0], [0.5, 0.1]), "b": ([1.0], [0.4])}, title="t", cost="share")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "share" and [line.get_label() for line in axes.lines] == ["a", "b"]
    assert axes.lines[0].get_ydata().tolist() == [0.5, 0.1]
    groups = {"searched": np.asarray([[1, 4], [3, 16], [5, 64]]), "unseen": np.asarray([[2, 8]])}
    (axes,) = loop_bounds(groups, ("C", "K"), title="t").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["C", "K"] and axes.get_yscale() == "log"
    assert len(axes.patches) == 4  # a box for every group and dimension
    medians = {line.get_ydata()[0] for line in axes.lines if line.get_color() == "black" and len(line.get_ydata()) == 2}
    assert {3, 16, 2, 8} <= medians


def test_what_the_experiment_runs():
    assert set(METHODS) <= set(VARIANTS)
    rules = {(h, r) for h in ("none", "sh", "msh") for r in ("champion", "pareto", "uul")} - {("msh", "uul")}
    assert {f"{h}-{r}" for h, r in rules} <= set(VARIANTS)
    assert len(SINGLE) == 7 and len(TRAINED) == 4 and len(UNSEEN) == 8
    assert not set(TRAINED) & set(UNSEEN)
    assert workload("small").networks[0].name == "small"
