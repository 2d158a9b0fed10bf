"""The hardware search: methods, resuming, limits, results that re-evaluate to the same numbers, and the command."""

import csv
import dataclasses
import json
import os
import pathlib
import re
import signal

import interruptions
import jax
import numpy as np
import pytest
from small_codesign import SIZES, SPACE, TECHNOLOGY, application
from small_search import small_network

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.checkpoint import CheckpointFile, read_checkpoint
from mohamjax.io.codesign import write_codesign
from mohamjax.io.designs import evaluate_designs
from mohamjax.unico import acquisition, proposals
from mohamjax.unico.axes import Axes, hypervolume, nearest_to_ideal
from mohamjax.unico.choices import settings
from mohamjax.unico.config import METHODS, CodesignConfig
from mohamjax.unico.history import History, unico_fit, worth_finishing
from mohamjax.unico.problem import CodesignProblem
from mohamjax.unico.results import HISTORY_COLUMNS, evaluated_front, history_rows
from mohamjax.unico.search import HardwareSearch, _behind
from mohamjax.unico.space import named_space

THREE = {"iterations": 4, "finish": 0.25}


def search(checkpoint=None, resume=False, **changes):
    config = CodesignConfig(**{**SIZES, **changes})
    problem = CodesignProblem(application(), SPACE, TECHNOLOGY)
    return HardwareSearch(problem, config, checkpoint=checkpoint, resume=resume)


def same(a, b):
    left, right = (jax.tree.leaves((h.columns, h.predicted, h.curves, h.genes)) for h in (a, b))
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(left, right, strict=True))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A search of three batches with two finished points, its result, and the path of its checkpoint."""
    path = tmp_path_factory.mktemp("codesign") / "checkpoint.npz"
    own = search(CheckpointFile(path), **THREE)
    return own, own.run(), path


def test_the_loop(whole):
    own, result, _ = whole
    history, new = result.history, result.history.first
    assert history["batch"].tolist() == [0] * 8 + [1] * 8 + [2] + [3] * 8 + [4]
    assert history["batch"][~new].tolist() == [2, 4]  # a quarter of the cost of two brackets finishes one point
    assert len(set(history["index"].tolist())) == new.sum() == 24  # no point is proposed twice
    assert 0.9 * own.config.total_cost < own.cost <= own.config.total_cost
    assert result.evaluations[-1] == own.cost * 16 * 4
    assert own.lanes.evaluations == result.evaluations[-1]
    for b in (0, 1, 3):
        assert sorted(history["generations"][history["batch"] == b]) == [2, 2, 2, 2, 4, 4, 8, 16]
    learnt = history["index"][history["accepted"]].tolist()
    assert set(history["index"][:8].tolist()) <= set(learnt) and len(set(learnt)) == len(learnt)
    assert len(set(learnt) & set(history["index"][8:16].tolist())) >= 2
    assert np.isnan(history.predicted[:8]).all() and np.isfinite(history.predicted[new][8:]).all()


def test_designs_of_the_front_are_finished(whole):
    """Finished points have the full budget and continue the curves of stopped ones; only the later rows are learnt."""
    history = whole[1].history
    late = ~history.first
    assert (history["generations"][late] == 16).all()
    for i in np.flatnonzero(late):
        (j,) = np.flatnonzero((history["index"] == history["index"][i]) & ~late)
        stop = history["generations"][j]
        assert stop < 16 and not history["accepted"][j]
        assert np.array_equal(history.curves[i, :, :stop], history.curves[j, :, :stop])


def test_the_end_alone_finishes_the_front():
    """The budget kept for the end is spent there; without one, no point is finished."""
    late = search(**THREE, finishing="end", extrapolate=False).run().history
    assert late["batch"][~late.first].min() > late["batch"][late.first].max()
    assert 1 <= (~late.first).sum() <= 2
    assert search(finish=0.0).run().history.first.all()


def test_what_is_finished_first():
    """If points aim at the ideal, the rows nearest to it; otherwise the row whose loss costs most hypervolume."""
    columns = {
        "latency_s": np.asarray([1.0, 2.0, 30.0, 100.0, 1.5, np.inf]),
        "power_W": np.asarray([9.0, 8.0, 2.0, 0.1, 8.5, 1.0]),
        "area_mm2": np.asarray([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    }
    none = np.zeros((6, 2, 3))
    history = History(columns=columns, predicted=none, curves=none, genes=())
    values = history.objectives[:5]
    nearest = [nearest_to_ideal(values, Axes.of(values, log=log)) for log in (False, True)]
    assert nearest == [2, 1]
    by_loss = worth_finishing(history, None, aimed=False)
    assert sorted(by_loss) == [0, 1, 2, 3, 4]
    whole = hypervolume(values, Axes.of(values, log=True))
    loss = [whole - hypervolume(np.delete(values, i, axis=0), Axes.of(values, log=True)) for i in by_loss]
    assert loss == sorted(loss, reverse=True) and loss[0] > loss[-1]
    assert worth_finishing(history, None, aimed=True) == [2, 1, *(i for i in by_loss if i not in nearest)]
    assert worth_finishing(history, 0.01, aimed=True) == []


def test_what_stopped_points_would_have():
    """Two points with the full budget halve their latency after generation 2, and lose a tenth of their power."""
    columns = {"index": np.arange(4), "generations": np.asarray([4, 4, 2, 1])}
    columns |= {"latency_s": np.asarray([1.0, 2.0, 5.0, 6.0]), "power_W": np.asarray([0.9, 1.8, 2.0, 3.0])}
    columns |= {"area_mm2": np.ones(4)}
    curves = np.full((4, 2, 4), np.inf)
    curves[0, 0], curves[1, 0] = [np.inf, 2, 2, 1], [9, 4, 2, 2]
    curves[0, 1], curves[1, 1] = [np.inf, 1, 1, 0.9], [3, 2, 2, 1.8]
    history = History(columns=columns, predicted=np.zeros((4, 2, 3)), curves=curves, genes=())
    expected = history.expected()
    np.testing.assert_allclose(expected[:2], history.objectives[:2])
    np.testing.assert_allclose(expected[2], [2.5, 1.8, 1])
    np.testing.assert_allclose(
        expected[3], [6 * 2 / 9, 3 * 1.8 / 3, 1]
    )  # after one generation only the second was valid
    stopped = dataclasses.replace(history, columns={**columns, "generations": np.full(4, 2)})
    np.testing.assert_allclose(stopped.expected(), history.objectives)  # nothing to learn from


def test_the_front_is_what_nothing_dominates(whole):
    _, result, _ = whole
    values = result.history.objectives
    for i in range(len(values)):
        beaten = ((values <= values[i]).all(axis=1) & (values < values[i]).any(axis=1)).any()
        assert beaten == (i not in set(result.front.tolist()))
    assert (np.diff(values[result.front, 0]) >= 0).all()


def test_it_learns_from_what_it_measured():
    """The surrogate's predictions follow the measurements, by rank correlation over the proposed batches.

    All picks are for the hypervolume: predictions for picks that aim at one design would be alike.
    """
    history = search(**THREE, aimed=0.0).run().history
    rows = np.isfinite(history.predicted).all(axis=(1, 2))
    for k in (0, 2):
        expected, found = history.predicted[rows, 0, k], np.log(history.objectives[rows, k])
        ranks = [np.argsort(np.argsort(x)) for x in (expected, found)]
        assert np.corrcoef(*ranks)[0, 1] > 0.4


def aimed_batch(whole, monkeypatch, gains, number=8, **changes):
    """A batch of the surrogate in which the picks that aim are candidates 3, 4, 5 and so on; also these candidates."""
    own, result, _ = whole
    config, pools = dataclasses.replace(own.config, **changes), []

    def approach(key, surrogate, candidates, ideal, *, count):
        assert (ideal.low <= ideal.high).all() and (ideal.least >= 0).all() and np.shape(ideal.least) == (2,)
        index = np.arange(3, 3 + count, dtype=np.int32)
        return acquisition.Batch(index=index, gain=np.resize(np.float32(gains), count))

    def pool(*given):
        pools.append(drawn(*given))
        return pools[-1]

    drawn = proposals._pool
    monkeypatch.setattr(proposals, "_pool", pool)
    monkeypatch.setattr(acquisition, "approach", approach)
    space, size = own.problem.space, own.config.lanes
    found = proposals.by_surrogate(result.history, space, config, 9, number, None, size).index.tolist()
    assert len(set(found)) == len(found) == number
    return found, pools[0][3:].tolist()


@pytest.mark.parametrize(("aimed", "number", "first"), [(0.25, 8, 2), (0.5, 8, 4), (0.25, 4, 1), (0.97, 8, 8)])
def test_a_share_of_a_batch_aims(whole, monkeypatch, aimed, number, first):
    """Aimed points are picked first, and none twice; all of a batch may be aimed."""
    found, candidates = aimed_batch(whole, monkeypatch, [1.0], number, aimed=aimed)
    assert found[:first] == candidates[:first]
    assert first == number or found[first] != candidates[first]


def test_what_is_not_expected_to_come_nearer_is_left_to_the_other_rule(whole, monkeypatch):
    found, candidates = aimed_batch(whole, monkeypatch, [1.0, 0.0], aimed=0.25)
    assert found[0] == candidates[0] and found[1] != candidates[1]


@pytest.mark.slow
def test_other_methods_do_not_aim(whole, monkeypatch):
    found, candidates = aimed_batch(whole, monkeypatch, [1.0], method="hasco")
    assert found[0] != candidates[0]


@pytest.mark.slow
def test_rivals_have_the_extras_where_they_are_asked_for(whole, monkeypatch):
    """HASCO proposes single points, a share of which aim; without extras none does, whatever the share."""
    found, candidates = aimed_batch(whole, monkeypatch, [1.0], method="hasco", extras=True)
    assert found[:2] == candidates[:2]
    for method, extras, share in (
        ("hasco", False, 0.0), ("hasco", True, 0.25), ("mobohb", True, 0.25), ("nsga2", True, 0.0),
        ("random", True, 0.0),
        ("unico", False, 0.25), ("unico", True, 0.25),
    ):  # fmt: skip
        config = CodesignConfig(method=method, extras=extras)
        assert config.aims == share
        assert config.finished == (0.25 if method == "unico" or (method, extras) == ("mobohb", True) else 0.0)
        single = [proposals.aimed_points(config, batch, 1, 1) for batch in range(40)]
        assert sum(single) == round(40 * share) and set(single) <= {0, 1}
        assert proposals.aimed_points(config, 3, 16, 16) == round(16 * share)
    assert CodesignConfig(rationed=False).finished == 0.0


def test_a_rival_with_extras_finishes_its_front_and_aims():
    """MOBOHB with finishing spends the full budget on stopped points, within the same total, and picks other points."""
    plain, more = (search(method="mobohb", iterations=4, extras=extras) for extras in (False, True))
    one, two = plain.run().history, more.run().history
    assert one.first.all() and not two.first.all()
    assert (two["generations"][~two.first] == 16).all()
    assert more.cost <= more.config.total_cost
    # After the first batch points are aimed: the same seed gives other points.
    assert same_points(one, two, 0) and not same_points(one, two, 1)


def same_points(a, b, batch):
    """Whether two histories have the same new points in their n-th batch of new points."""
    parts = []
    for history in (a, b):
        batches = [x for x in np.unique(history["batch"]) if history.first[history["batch"] == x].all()]
        parts.append(history["index"][history["batch"] == batches[batch]].tolist())
    return parts[0] == parts[1]


def test_presets():
    printed = settings(SPACE, "unico", "ci", preset="unico", seed=3)
    assert (printed.finish, printed.aimed, printed.acquisition, printed.objective, printed.score) == (
        0.0, 0.0, "mesmo", "latency", "latency",
    )  # fmt: skip
    assert printed.seed == 3 and printed.rule == "uul" and printed.area_percent == 15 and printed.robust
    rival = settings(SPACE, "hasco", "ci", preset="unico")
    assert (rival.objective, rival.acquisition) == ("latency", "qhvi")
    assert settings(SPACE, "mobohb", "ci", preset="same-extras").finished == 0.25
    assert settings(SPACE, "unico", "ci") == settings(SPACE, "unico", "ci", preset="ours")
    assert settings(SPACE, "unico", "ci", preset="unico", aimed=0.5).aimed == 0.5
    assert (printed.preset, rival.preset, settings(SPACE, "unico", "ci").preset) == ("unico", "unico", "ours")
    with pytest.raises(InputError, match="unknown preset 'paper'; use one of ours, unico, same-extras"):
        settings(SPACE, "unico", "ci", preset="paper")


@pytest.mark.slow
def test_lanes_that_minimise_latency_have_curves_that_fall_in_latency(whole):
    """The paper says this of its mapping searches (Section 3); it need not hold for the energy-delay product."""
    history = search(method="random", objective="latency", score="latency").run().history
    latency = history.curves[:, 0]
    there = np.isfinite(latency[:, :-1]) & np.isfinite(latency[:, 1:])
    falls = latency[:, 1:] <= latency[:, :-1] * (1 + 1e-6)
    assert there.any() and falls[there].all()


@pytest.mark.parametrize("name", ["aimed", "finish"])
def test_shares_are_below_one(name):
    for share in (-0.1, 1.0):
        with pytest.raises(InputError, match=f"argument `{name}`.*is {share:g}"):
            CodesignConfig(**{name: share})


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("population", 1, "population is 1; use 2 or more"),
        ("training", 1, "training is 1; use 2 or more"),
        ("area_percent", 7.5, "area_percent is 7.5; use 0 or more, a whole number"),
        ("area_percent", "a", "area_percent is 'a'"),
        ("area_percent", 60, "`area_percent`: is 60; give at most 50"),
        ("power_cap_W", "2", "`power_cap_W`: is '2'; give W"),
        ("power_cap_W", float("nan"), "`power_cap_W`: is nan"),
        ("leakage", "x", "`leakage`: is 'x'; give W per mm"),
        ("finish", "x", "`finish`: is 'x'; give a share"),
    ],
)
def test_settings_of_a_wrong_kind_are_refused(name, value, told):
    with pytest.raises(InputError, match=re.escape(told)):
        CodesignConfig(**{name: value})


def test_a_resumed_search_is_the_same(whole, tmp_path):
    _, result, path = whole
    began = search(**THREE)
    began.begin()
    began.step()
    began.save(CheckpointFile(tmp_path / "c.npz"))
    resumed = search(CheckpointFile(tmp_path / "c.npz"), resume=True, **THREE).run()
    assert same(resumed.history, result.history)
    assert np.array_equal(resumed.front, result.front)
    ours, theirs = (read_checkpoint(p) for p in (path, tmp_path / "c.npz"))
    assert ours.arrays.keys() == theirs.arrays.keys()
    assert all(np.array_equal(ours.arrays[k], theirs.arrays[k], equal_nan=True) for k in ours.arrays)
    # A search with nothing left to do returns the same.
    done = search(CheckpointFile(path), resume=True, **THREE).run()
    assert same(done.history, result.history)


def interrupted(*args):
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["_filter", "_measure"])
def test_an_interrupt_within_a_batch_keeps_the_batches_before(whole, monkeypatch, where):
    first = search(**THREE)
    monkeypatch.setattr(HardwareSearch, where, interrupted)
    with pytest.raises(KeyboardInterrupt):  # nothing is done yet
        first.run()
    monkeypatch.undo()

    def told(progress):
        monkeypatch.setattr(HardwareSearch, where, interrupted)

    own = search(**THREE)
    own.listener = told
    result = own.run()
    assert result.interrupted and len(result.history) == len(result.seconds) == 8
    assert np.array_equal(result.history["accepted"], whole[1].history["accepted"][:8] | result.history.valid)
    assert len(result.front) and own.batch == 1


def test_the_name_of_a_budget_does_not_stop_a_resume(whole):
    _, result, path = whole
    again = search(CheckpointFile(path), resume=True, **THREE, budget="ci").run()
    assert same(again.history, result.history)


def test_points_above_the_limit_rank_behind_all_others():
    """A latency of .9 s within the limit goes before one of 8 us above it; the factor stays where it is enough."""
    for worst, factor in ((0.9, 2 * 0.9 / 8e-6), (9e-4, 1e4), (np.inf, 1e4)):
        score = np.array([[1.0, worst, np.inf], [1e-5, 8e-6, np.inf]])
        found = _behind(score, np.array([[False] * 3, [True] * 3]), 2)
        np.testing.assert_allclose(found[1, :2], score[1, :2] * factor)
        assert np.array_equal(found[0], score[0]) and (found[1, 1] > worst or np.isinf(worst))
        assert np.isinf(found[:, 2]).all()


@pytest.mark.parametrize("score", ["latency", "edp", "parego"])
def test_every_score_knows_the_limit(monkeypatch, score):
    own = search(score=score, power_cap_W=1.0)
    own.begin()
    searched = own.lanes.advance(own.lanes.begin([3, 5]), 2)
    curves = np.full((2, 2, 16), np.inf)
    curves[:, :, :2] = np.array([[[1.0, 0.9], [1e-5, 8e-6]], [[0.1, 0.1], [4.0, 4.0]]])
    monkeypatch.setattr(own, "_curves", lambda of: (curves[0], curves[1]))
    found = own._score(searched)
    assert found[0, 1] < found[1, 1] < np.inf


def test_checkpoints_that_do_not_fit_are_refused(whole, tmp_path):
    _, _, path = whole
    with pytest.raises(InputError, match=r"other inputs or settings \(settings\)"):
        search(CheckpointFile(path), resume=True, **THREE, seed=1).run()
    broken = tmp_path / "broken.npz"
    broken.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match="cannot be read"):
        search(CheckpointFile(broken), resume=True, **THREE).run()
    with pytest.raises(InputError, match="there is no checkpoint"):
        search(resume=True, **THREE).run()


_SLOW = ("hasco", "hasco-r")  # they fit for every point, and have programs of their own


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=[pytest.mark.slow] * (m in _SLOW)) for m in METHODS if m != "unico"]
)
def test_baselines_spend_no_more(whole, method):
    own = search(method=method)
    result = own.run()
    history = result.history
    assert 0 < own.cost <= own.config.total_cost
    assert len(set(history["index"].tolist())) == len(history)
    if method != "mobohb":
        assert (history["generations"] == 16).all()
    # Measurements are shared by all methods: two searches that give a point its full budget measure the same.
    first = whole[1].history
    for i in np.flatnonzero(history["generations"] == 16):
        for j in np.flatnonzero((first["index"] == history["index"][i]) & (first["generations"] == 16)):
            assert np.array_equal(history.objectives[i], first.objectives[j])


@pytest.mark.slow
def test_a_limit_on_power_is_kept(whole):
    power = whole[1].history["power_W"]
    cap = float(np.median(power))
    own = search(power_cap_W=cap)
    result = own.run()
    assert (result.history["power_W"][result.front] <= cap).all()
    with pytest.raises(InputError, match=r"no hardware point takes 1e-09 W or less; the least that was met is"):
        search(power_cap_W=1e-9, method="random").run()


@pytest.mark.slow
def test_small_spaces_are_used_up():
    space = dataclasses.replace(SPACE, name="tiny", axes=(*SPACE.axes[:3], *(
        dataclasses.replace(axis, values=axis.values[:1]) for axis in SPACE.axes[3:]
    )), variants=SPACE.variants[:1])  # fmt: skip
    space = dataclasses.replace(space, axes=(dataclasses.replace(space.axes[0], values=(8, 16)), *space.axes[1:]))
    assert space.size == 18
    own = HardwareSearch(
        CodesignProblem(application(), space, TECHNOLOGY), CodesignConfig(**{**SIZES, "iterations": 9})
    )
    result = own.run()
    assert sorted(set(result.history["index"].tolist())) == list(range(18))
    assert own.done()


@pytest.mark.slow
def test_results_evaluate_to_the_same_numbers(whole, tmp_path):
    result = whole[1]
    front = write_codesign(tmp_path, result)
    rows, _ = evaluate_designs(tmp_path / "designs.json", technology=TECHNOLOGY)
    assert all(row["valid"] for row in rows) and len(rows) == len(front)
    history = result.history
    at = {(int(history["index"][k]), int(history["generations"][k])): k for k in range(len(history))}
    for row, own in zip(rows, front, strict=True):
        for name in ("latency_s", "energy_J", "area_mm2"):
            assert row[name] == pytest.approx(own[name], rel=1e-9)
        point = SPACE.index(np.asarray([[a.values.index(own[a.name]) for a in SPACE.axes]]))[0]
        place = at[int(point), own["generations"]]
        measured = {n: history[n][place] for n in ("latency_s", "energy_J", "power_W", "area_mm2")}
        # Single precision may round a layer's cycles up by one, which matters for the power of a short layer.
        cycle = len(application().layers) * 1e-9
        share = 1e-4 + cycle / own["latency_s"]
        for name, value in measured.items():
            assert own[name] == pytest.approx(value, rel=1e-4 if name in ("energy_J", "area_mm2") else share)
    with open(tmp_path / "history.csv", newline="") as file:
        batches = list(csv.DictReader(file))
    assert tuple(batches[0]) == HISTORY_COLUMNS
    volume = [float(row["hypervolume"]) for row in batches]
    assert volume == sorted(volume) and volume[-1] > 0
    assert [row["modelled_generations"] for row in history_rows(result)][:3] == [16, 32, 48]
    document = json.loads((tmp_path / "designs.json").read_text())
    assert all(len(design["chiplets"]) == 1 for design in document["designs"])


def test_the_fitted_table():
    space = named_space("unico-edge")
    names = [axis.name for axis in space.axes]
    digits = np.zeros((1, len(names)), int)
    for name, value in (("pe_x", 10), ("pe_y", 16), ("local_bytes", 512), ("shared_bytes", 2**19), ("noc_bits", 64)):
        digits[0, names.index(name)] = space.axes[names.index(name)].values.index(value)
    power, area = unico_fit(space, digits)
    assert power[0] == pytest.approx(1e-3 * (12.03 * 160 + 1.07 * 80 + 7.46 / 2 + 0.0807 * 64 + 0.26))
    assert area[0] == pytest.approx(0.0511 * 160 + 0.0199 * 80 + 0.233 / 2 + 0.00164 * 160 * 64 + 0.138)
    # 61 % of the points respect the limit of 2 W.
    every = space.digits(np.random.default_rng(0).integers(space.size, size=4000))
    assert 0.56 < np.mean(unico_fit(space, every)[0] <= 2) < 0.66
    with pytest.raises(InputError, match="unico-edge"):
        search(ppa="unico-fit")


@pytest.mark.slow
def test_the_fit_knows_no_robustness_of_power():
    """Its power does not depend on the mapping: R is the distance in latency, and the front in files is the fit's."""
    config = CodesignConfig(
        method="random", ppa="unico-fit", lanes=12, first=8, rounds=1, iterations=1, population=16, finish=0, seed=1
    )
    own = HardwareSearch(CodesignProblem(application(), named_space("unico-edge"), TECHNOLOGY), config)
    result = own.run()
    distance = result.history["robustness"]
    assert np.array_equal(distance, result.history["delta"])
    # With the power of the loop nests, one point had 0.76, though all its mappings have the same latency.
    assert distance.min() == 0 and distance.max() < 0.5
    assert len(evaluated_front(result)[1]) == len(result.front)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "small.onnx"
    small_network(path, 16)
    return str(path)


@pytest.mark.slow
def test_the_command(network, tmp_path, capsys):
    (tmp_path / "bounds.json").write_text("{}")  # would be read as those of this front
    words = ["codesign", network, "--space", "unico-ci", "--budget", "ci", "--out", str(tmp_path), "--json"]
    assert main(words) == 0
    front = json.loads(capsys.readouterr().out)
    assert front and all(row["power_W"] > 0 for row in front)
    for name in ("front.csv", "designs.json", "history.csv", "hardware.csv", "config.yaml", "checkpoint.npz"):
        assert (tmp_path / name).exists()
    assert not (tmp_path / "bounds.json").exists()
    assert {p.stem for p in (tmp_path / "figures").iterdir()} >= {"front", "lanes", "hypervolume", "predictions"}
    before = {p.name: p.read_bytes() for p in tmp_path.glob("*.*") if p.name != "checkpoint.npz"}
    assert main([*words, "--resume", "--no-figures"]) == 0
    assert {p.name: p.read_bytes() for p in tmp_path.glob("*.*") if p.name != "checkpoint.npz"} == before
    capsys.readouterr()
    (tmp_path / "checkpoint.npz").write_bytes(b"not a checkpoint")
    assert main([*words, "--resume"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].count("checkpoint cannot be read") == 1


@pytest.mark.slow
def test_a_killed_command_resumes_to_the_same_files(network, tmp_path, capsys):
    """The process is killed during the second batch, as soon as the first is reported as done."""
    words = (network, "--space", "unico-ci", "--budget", "ci", "--no-figures")
    command = interruptions.Command(words, pathlib.Path(os.environ["XDG_CACHE_HOME"]), interruptions.CODESIGN)
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(command.words(whole)) == 0
    process, said = command.start(out), ""
    while "batch 1 " not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert interruptions.untrue(said, process.returncode, "kill", out) == []
    assert not (out / "front.csv").exists()
    left = int(interruptions.progress(out))
    assert 1 <= left < int(interruptions.progress(whole))
    assert main(command.resumed().words(out)) == 0
    assert interruptions.differences(whole, out) == []
    capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--space", "edge"], "unknown space 'edge'"),
        (["--budget", "tiny"], "unknown budget 'tiny'"),
        (["--method", "best"], "unknown method 'best'"),
        (["--preset", "paper"], "unknown preset 'paper'"),
        (["--template", "simba", "--space", "unico-ci"], "leave out --space"),
        (["--template", "eyeriss-released"], "template eyeriss-released: cannot run 1 of 4 unique layers"),
        (["--template", "simba", "--ppa", "unico-fit"], "is for unico-edge and unico-cloud"),
        (["--template", "nowhere"], "no packaged template"),
    ],
)
def test_bad_input_is_one_line(network, tmp_path, capsys, more, told):
    assert main(["codesign", network, "--out", str(tmp_path), *more]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mohamjax: ")]
    assert len(lines) == 1 and told in lines[0]


@pytest.mark.slow
def test_the_road_in_python():
    result = mj.codesign(application(), "unico-ci", budget="ci", method="random", technology=TECHNOLOGY)
    assert len(result.front) and result.config.method == "random"
    printed = mj.codesign(application(), "unico-ci", budget="ci", preset="unico", technology=TECHNOLOGY)
    assert printed.history.first.all() and printed.config.acquisition == "mesmo"
    assert printed.record()["search"]["preset"] == "unico"
    with pytest.raises(InputError, match="'lane'"):
        mj.codesign(application(), "unico-ci", lane=3)
