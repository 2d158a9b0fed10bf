"""Objectives and limits that users define: searched, kept, written, shown, and refused where they are invalid."""

import copy
import json
import pathlib
import pickle
import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from test_extending import PAGE, SIZES, problem

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io import write_front_files
from mohamjax.problem.resolved import Demand
from mohamjax.runtime.struct import plain
from mohamjax.schedule.measures import kinds_of, measure_named


def energy_delay(report):
    return report.objectives[0] * report.objectives[1]


def largest(report):
    return report.chiplets.area.max() * 1e-6


EDP = mj.Objective("edp", energy_delay, (1e-12, 1.0), unit="J s")


@pytest.fixture(scope="module")
def given():
    own = problem()
    return own, mj.sample_mappings(own, 8)


def columns(front):
    return np.asarray(front.reports.objectives)


@pytest.mark.slow
def test_the_page_runs(given):
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {"mj": mj, "problem": given[0], "tables": given[1], "sizes": SIZES}
    call = "limits=largest)"
    assert call in block[1]
    exec(block[1].replace(call, "limits=largest, **sizes)"), names)  # a smaller search than that of the page
    front = names["result"].front
    latency, energy, area = columns(front).T
    np.testing.assert_allclose(front.objectives, np.stack([latency, latency * energy, area], axis=1))
    assert len(front) > 1 and np.asarray(front.reports.chiplets.area).max() * 1e-6 <= 4.0
    # The ends in the timeline give the latency of a network.
    owner = np.asarray(given[0].application.network_of_layer)
    ends = np.asarray(front.reports.timeline.end)[:, : len(owner)][:, owner == 0].max(axis=1) * 1e-9
    np.testing.assert_allclose(ends, latency)


@pytest.mark.slow
def test_an_own_objective_is_searched_as_one_of_the_source(given, tmp_path, monkeypatch):
    """A user's copy of the energy objective finds the same front; files, figures and decisions have its column."""
    usual = mj.search(*given, "tiny", objectives=("latency", "energy", "area"), **SIZES)
    extent = usual.config["ideal_point"][1], usual.config["reference_point"][1]
    same = mj.Objective("mine", lambda report: report.objectives[1], extent, unit="J")
    own = mj.search(*given, "tiny", objectives=("latency", same, "area"), **SIZES)
    assert own.config["search"]["objectives"] == ["latency", "own:mine[J]", "area"]
    np.testing.assert_array_equal(own.front.objectives, usual.front.objectives)
    assert own.hypervolume == pytest.approx(usual.hypervolume)
    out = tmp_path / "results"
    out.mkdir()
    write_front_files(out, own.front, own.history, {**own.config, "inputs": {}})
    rows = (out / "front.csv").read_text().splitlines()
    head = rows[0].split(",")
    at, energy = head.index("mine_J"), head.index("energy_J")
    assert len(rows) == len(own.front) + 1 and all(row.split(",")[at] == row.split(",")[energy] for row in rows[1:])
    assert json.loads((out / "designs.json").read_text())["designs"]
    # Commands that run later only know what the files say.
    assert main(["plot", str(out), "--out", str(tmp_path / "figures")]) == 0
    assert (tmp_path / "figures" / "gantt_least_mine.png").exists()
    assert main(["decide", str(out), "area<=1000mm2"]) == 0
    assert mj.decide(own, "area<=1000mm2").recommended["mine_J"] > 0


@pytest.mark.slow
def test_equal_names_with_other_functions_are_other_objectives(given):
    """No compiled program of one serves the other."""
    fronts = []
    for power in (1, 0):
        own = mj.Objective("mine", lambda report, power=power: report.objectives[power], (1e-12, 1.0))
        front = mj.search(*given, "tiny", objectives=(own, "area"), **SIZES).front
        np.testing.assert_array_equal(front.objectives[:, 0], columns(front)[:, power])
        fronts.append(front)
    # An earlier front keeps its own function.
    np.testing.assert_array_equal(fronts[0].objectives[:, 0], columns(fronts[0])[:, 1])


@pytest.mark.slow
def test_a_limit_is_kept_and_said_where_nothing_keeps_it(given):
    free = mj.search(*given, "tiny", **SIZES).front
    before = np.asarray(free.reports.chiplets.area).max(axis=1) * 1e-6
    bound = float(np.median(before))
    kept = mj.search(*given, "tiny", limits=[mj.Limit("largest", largest, bound)], **SIZES)
    after = np.asarray(kept.front.reports.chiplets.area).max(axis=1) * 1e-6
    assert after.max() <= bound * (1 + 1e-9) < before.max()
    assert kept.config["search"]["limits"] == [f"largest<={bound:g}"]
    with pytest.raises(InputError, match=r"no design meets the requirements.*limits\.own\.largest"):
        mj.search(*given, "tiny", limits=mj.Limit("largest", largest, bound * 1e-6), **SIZES)


WRONG = {
    "shape": (lambda report: report.objectives, r"own:x: its function returns float32\[3\]"),
    "integer": (lambda report: jnp.argmax(report.objectives), r"own:x: its function returns int"),
    "python": (lambda report: float(report.objectives[0]), "own:x: its function cannot be traced by JAX"),
    "other": (lambda report: "fast", "own:x: its function"),
    "attribute": (lambda report: report.speed, "own:x: its function cannot be traced.*speed"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_functions_that_give_no_number_are_refused_before_the_search(given, kind):
    function, told = WRONG[kind]
    with pytest.raises(InputError, match=told):
        mj.search(*given, "tiny", objectives=("latency", mj.Objective("x", function, (1, 2))), **SIZES)
    with pytest.raises(InputError, match=told.replace("own:x", "x<=1")):
        mj.search(*given, "tiny", limits=mj.Limit("x", function, 1), **SIZES)


def test_functions_are_checked_before_anything_is_mapped(given, monkeypatch):
    def mapped(*_, **__):
        raise AssertionError("mapped")

    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", mapped)
    with pytest.raises(InputError, match="its function returns float32"):
        mj.search(given[0], budget="tiny", limits=mj.Limit("x", lambda report: report.objectives, 1), **SIZES)


@pytest.mark.parametrize("name", ["n_simba", "latency_s_resnet50", "energy_J", "n_chiplets"])
def test_a_column_of_front_csv_is_no_name_of_an_objective(given, name):
    with pytest.raises(InputError, match="the name is taken"):
        mj.search(*given, "tiny", objectives=("latency", mj.Objective(name, largest, (1, 2))), **SIZES)


def test_objectives_keep_their_functions_in_copies():
    objective = mj.Objective("edp", energy_delay, (1e-9, 1.0))
    assert copy.copy(objective).function is copy.deepcopy(objective).function is energy_delay


@settings(deadline=None)
@drawn(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(1e-6, 1e6))
def test_limits_of_values_of_any_sign(values, bound):
    """The check in double precision keeps what the search keeps: values at or below the bound, also zero and below."""
    demand = Demand("limits.own.x", np.asarray(values), bound, True)
    assert ((demand.excess == 0) == (np.asarray(values) <= bound * (1 + 2e-9))).all()


@pytest.mark.slow
def test_values_without_a_logarithm_are_said(given):
    small = SIZES | {"generations": 1}
    never = mj.Limit("x", lambda report: report.objectives[0] * jnp.nan, 1)
    with pytest.raises(InputError, match=r"limits\.own\.x: its function gave NaN for all of the"):
        mj.search(*given, "tiny", limits=never, **small)
    nothing = mj.Objective("x", lambda report: report.objectives[0] * jnp.nan, (1, 2))
    with pytest.raises(InputError, match="own:x is nan for"):
        mj.search(*given, "tiny", objectives=("latency", nothing), **small)
    below = mj.Objective("x", lambda report: -report.objectives[0] - 1, (1, 2))
    with pytest.raises(InputError, match=r"own:x is -1\..*log axes.*offset"):
        mj.search(*given, "tiny", objectives=("latency", below), **small)
    lifted = mj.Objective("x", lambda report: -report.objectives[0] - 1, (-1.9, 0), offset=2.0)
    front = mj.search(*given, "tiny", objectives=("latency", lifted), **small).front
    np.testing.assert_allclose(front.objectives[:, 1], -1 - columns(front)[:, 0])


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: mj.Objective("a b", energy_delay, (1, 2)), "name"),
        (lambda: mj.Objective("", energy_delay, (1, 2)), "name"),
        (lambda: mj.Objective("x", 3, (1, 2)), "value"),
        (lambda: mj.Objective("x", energy_delay, (2, 1)), "extent"),
        (lambda: mj.Objective("x", energy_delay, (0, 1)), "extent"),
        (lambda: mj.Objective("x", energy_delay, (1, float("nan"))), "extent"),
        (lambda: mj.Objective("x", energy_delay, 3), "extent"),
        (lambda: mj.Objective("x", energy_delay, (1, 2), unit="[s]"), "unit"),
        (lambda: mj.Objective("x", energy_delay, (1, 2), offset=-1), "offset"),
        (lambda: mj.Limit("x", energy_delay, 0), "most"),
        (lambda: mj.Limit("x", energy_delay, float("nan")), "most"),
        (lambda: mj.Limit("x", None, 1), "value"),
    ],
)
def test_constructors_name_the_argument(make, argument):
    with pytest.raises(InputError) as error:
        make()
    assert error.value.argument.name == argument


def test_what_does_not_go_together_is_refused(given, tmp_path):
    for objectives, told in [
        (("latency", mj.Objective("energy", energy_delay, (1, 2))), "the name is taken"),
        (("latency", mj.Objective("area", energy_delay, (1, 2), unit="mm2")), "the name is taken"),
        ((EDP, mj.Objective("edp", largest, (1, 2), unit="m")), r"own:edp\[J s\] and own:edp\[m\] have the same name"),
        ((EDP, mj.Objective("edp_Js", largest, (1, 2))), "and own:edp_Js have the same name"),
        (("latency", EDP, mj.Objective("edp", largest, (1, 2), unit="J s")), "names one twice"),
        (("latency", "own:edp[J s]"), "the function behind it is not known here"),
        ((EDP,), "names 1"),
        (("latency", energy_delay), "give names of measures, or an Objective"),
    ]:
        with pytest.raises(InputError, match=told):
            mj.search(*given, "tiny", objectives=objectives, **SIZES)
    for limits in (energy_delay, [EDP], "largest<=3", [mj.Limit("a", largest, 1), mj.Limit("a", largest, 2)]):
        with pytest.raises(InputError) as error:
            mj.search(*given, "tiny", limits=limits, **SIZES)
        assert error.value.argument.name == "limits"
    for own in ({"objectives": ("latency", EDP)}, {"limits": mj.Limit("a", largest, 1)}):
        with pytest.raises(InputError, match="holds no functions"):
            mj.search(*given, "tiny", checkpoint=tmp_path / "state.npz", **own, **SIZES)
    assert list(pathlib.Path(tmp_path).iterdir()) == []


def test_texts_with_a_function_are_texts():
    assert EDP == "own:edp[J s]" and hash(EDP) == hash("own:edp[J s]")
    other = mj.Objective("edp", largest, (1e-12, 1.0), unit="J s")
    assert other != EDP and other == str(EDP) and len({kinds_of((EDP,)), kinds_of((other,))}) == 2
    assert copy.deepcopy(EDP) is EDP
    sent = pickle.loads(pickle.dumps(EDP))
    assert type(sent) is str and sent == EDP and type(plain([EDP])[0]) is str
    told = measure_named(sent)
    assert (told.column, told.label, told.unit) == ("edp_Js", "edp", "J s")
