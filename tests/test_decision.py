"""Which design of a front keeps a target."""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.cli.tables import decision_table
from mohamjax.errors import InputError
from mohamjax.io.files import csv_text, write_text
from mohamjax.io.results_reader import built_in, design_called, roles_in
from mohamjax.schedule import Certificate, FrontBounds
from mohamjax.schedule.decision import STEP, decide, networks_of, own_columns, read_target
from mohamjax.schedule.recommended import BuiltChiplet, remarks, told_of_rates, told_of_slack, told_of_tiny_chiplets

numbers = st.floats(1e-6, 1e3)


def row(number, latency, energy, area, own=(0.5, 1.0)):
    return {
        "design_id": number, "latency_s": latency, "energy_J": energy, "area_mm2": area, "n_chiplets": 1, "n_simba": 1,
        "latency_s_a": latency * own[0], "latency_s_b,c": latency * own[1],
    }  # fmt: skip


rows_of = st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=12).map(
    lambda values: [row(n, *value) for n, value in enumerate(values)]
)


@settings(deadline=None)
@given(rows_of, numbers, numbers, numbers)
def test_named_designs_keep_the_target_and_none_that_keeps_it_has_less(rows, latency, area, power):
    decision = decide(rows, f"latency<={latency!r}s,area<={area!r}mm2,power<={power!r}W")
    kept = [
        n for n, r in enumerate(rows)
        if r["latency_s"] <= latency and r["area_mm2"] <= area and r["energy_J"] / r["latency_s"] <= power
    ]  # fmt: skip
    assert list(decision.kept) == kept
    if not kept:
        assert decision.recommended is None and decision.missed
        return
    for role, column in (("smallest", "area_mm2"), ("most frugal", "energy_J"), ("fastest", "latency_s")):
        assert decision.named[role] in kept
        assert rows[decision.named[role]][column] == min(rows[n][column] for n in kept)
    smallest = decision.recommended
    for step in decision.steps:
        column = {"latency": "latency_s", "energy": "energy_J"}[step.of]
        further = [n for n in kept if rows[n][column] <= STEP * smallest[column]]
        assert step.row in further
        assert rows[step.row]["area_mm2"] == min(rows[n]["area_mm2"] for n in further)
        assert step.gain >= 1 - STEP - 1e-9 and step.area_mm2 >= 0


def test_texts_name_designs_by_their_identifiers():
    """Rows may stand in any order, and be called by any name."""
    assert decide([row(3.0, 0.005, 1.0, 10.0)], "latency<=1s").recommended["design_id"] == 3
    rows = [row("17", 0.005, 1.0, 10.0), row("mine", 0.0029, 0.9, 30.0)]
    decision = decide(rows, "latency<=1s")
    assert decision.recommended["design_id"] == 17
    assert [line.partition(",")[0] for line in str(decision).splitlines()[1:4]] == [
        "smallest: design 17", "most frugal: design mine", "fastest: design mine",
    ]  # fmt: skip
    assert str(decision.steps[0]).startswith("design mine has 42% less latency")
    assert str(decide(rows, "latency<=1ms")).startswith("no design meets latency<=1ms; design mine comes nearest")


def test_a_latency_that_is_no_number_is_told_where_a_target_asks_for_it():
    rows = [row(0, 0.005, 1.0, 10.0), {**row(1, 0.005, 1.0, 10.0), "latency_s_a": ""}]
    assert decide(rows, "latency<=1s").kept == (0, 1)
    with pytest.raises(InputError, match="latency_s_a of design 1 is '', not a number; mend it, or leave out"):
        decide(rows, "latency:a<=1s")


def test_demands_are_read_with_units_and_networks_whose_names_hold_commas():
    networks = networks_of([row(0, 1.0, 1.0, 1.0)])
    assert networks == ["a", "b,c"]
    clauses = read_target("latency<=33ms, fps:b,c>=30,energy <= 2mJ,area<=1cm2,power<=5e2mW,fps>=10", networks)
    assert [(c.name, c.network, pytest.approx(c.bound)) for c in clauses] == [
        ("latency", None, 0.033), ("fps", "b,c", 30.0), ("energy", None, 0.002), ("area", None, 100.0),
        ("power", None, 0.5), ("fps", None, 10.0),
    ]  # fmt: skip


def test_frames_per_second_of_a_network_are_one_over_its_latency():
    rows = [row(0, 0.1, 1.0, 1.0), row(1, 0.04, 1.0, 2.0)]
    assert decide(rows, "fps:a>=20").recommended["design_id"] == 0
    assert decide(rows, "fps:b,c>=20").recommended["design_id"] == 1
    assert decide(rows, "fps>=20").kept == (1,)


def test_a_rate_of_a_network_that_the_package_does_not_keep_up_is_told():
    rows = [row(0, 0.1, 1.0, 5.0, own=(0.1, 1.0))]
    decision = decide(rows, "fps:a>=50,area<=9mm2")
    told = told_of_rates(decision)
    assert told == (
        "fps:a>=50 asks only how soon that network ends: one frame after the other, the recommended design runs all "
        "networks 10 times a second; fps>=50 asks for that rate of all"
    )
    assert remarks(decision, []) == [told]
    both = told_of_rates(decide([row(0, 0.1, 1.0, 5.0, own=(0.1, 0.9))], "fps:a>=50,fps:b,c>=11"))
    assert both.startswith("fps:a>=50, fps:b,c>=11 ask only how soon these networks end") and "fps>=50" in both
    for target in ("fps:a>=5", "fps>=5", "fps:b,c>=10", "latency:a<=20ms", "fps:a>=5000"):
        assert told_of_rates(decide(rows, target)) == ""
    assert told_of_rates(decide(rows, "fps:a>=29.97")).endswith("fps>=29.97 asks for that rate of all")
    # Where frames overlap, the period says how often networks run.
    assert told_of_rates(decide([{**rows[0], "period_s": 0.03}], "fps:a>=50")) == ""


def test_power_beside_frames_per_second_is_that_of_so_many_frames():
    rows = [row(0, 0.005, 0.03, 2.0), row(1, 0.02, 0.04, 1.0)]
    assert decide(rows, "power<=2.5W").kept == (1,)  # 6 W and 2 W, one frame after the other
    assert decide(rows, "power<=1W,fps>=30").kept == (0,)  # 0.9 W and 1.2 W
    assert decide(rows, "power<=1W,fps:a>=30").kept == ()  # the rate of one network is not that of the package
    told = decision_table(decide(rows, "fps>=30"), mapped_again=True)
    assert "power at 30 fps [W]" in told and "not again on these chiplets" not in told
    for target in ("fps>=30", "fps>=3000"):
        told = " ".join(decision_table(decide(rows, target), mapped_again=False).split())
        assert "not again on these chiplets: --polish 1" in told
    told = decide(rows, "power<=1W,fps>=40", certificate_of(rows)).hopeless  # at most 25 mJ a frame
    assert told == "no design over the mappings found takes less than 30 mJ"


def test_a_period_can_be_demanded_where_it_was_searched():
    rows = [{**row(0, 0.05, 1.0, 3.0), "period_s": 0.03}, {**row(1, 0.04, 1.0, 2.0), "period_s": 0.04}]
    assert decide(rows, "period<=33ms").kept == (0,)
    assert decide(rows, "period<=10ms").missed == "period<=10ms (it reaches 30 ms)"
    with pytest.raises(InputError, match="names no objective of the search"):
        decide([row(0, 0.05, 1.0, 3.0)], "period<=33ms")
    with pytest.raises(InputError, match="not the power of frames that overlap"):
        decide(rows, "period<=33ms,power<=1.5W")
    assert decide(rows, "period<=33ms,power<=31W,fps>=20").kept == (0,)  # 20 W at 20 frames per second
    with pytest.raises(InputError, match="not the power of frames that overlap"):
        decide([{**row(0, 0.05, 1.0, 3.0), "idle_share": 0.4}], "power<=30W")


def test_an_objective_of_ones_own_can_be_demanded():
    """By its name, with or without its unit, or by its column; values of zero or less keep every bound."""
    own = [{"edp_Js": 0.02, "peak": 3.0, "my-own_mm2": -1.0}, {"edp_Js": 0.01, "peak": 4.0, "my-own_mm2": 5.0}]
    rows = [{**row(i, 0.05, 1.0, 3.0), "worst_lateness_s": 1.0, **more} for i, more in enumerate(own)]
    assert own_columns(rows) == ["edp_Js", "peak", "my-own_mm2"]
    for demand in ("edp<=0.01", "edp<=1e-2 J s", "edp<=0.01Js", "edp_Js<=0.01", "edp_Js<=.01 J s"):
        assert decide(rows, demand).kept == (1,)
    assert decide(rows, "peak<=3,edp<=1").kept == decide(rows, "my-own<=2").kept == (0,)
    assert decide(rows, "edp<=0.005 J s").missed == "edp<=0.005 J s (it reaches 0.01 J s)"
    nothing = decide(rows, "edp<=0.005", certificate_of(rows))
    assert nothing.nearest == 1 and nothing.hopeless is None
    for demand, told in (
        ("my-own>=2", "demands the wrong side of my-own; write my-own<="),
        ("edp<=1ms", "has the unit 'ms'; leave it out: edp_Js has a unit of its own"),
        ("edp:a<=1", "is of one network"),
        ("edp<=0", "demands 0; give a number above 0"),
        ("epd<=1", "names nothing that a design has"),
        ("worst_lateness_s<=2", "names nothing that a design has"),
    ):
        with pytest.raises(InputError, match=re.escape(told)):
            decide(rows, demand)
    twice = [{**one, "edp_max": 1.0} for one in rows]
    with pytest.raises(InputError, match="may mean several objectives; write edp_Js or edp_max for edp"):
        decide(twice, "edp<=1")
    assert decide(twice, "edp_max<=1").kept == (0, 1)


def test_of_equal_areas_the_better_design_is_named():
    rows = [row(0, 2.0, 1.0, 1.0), row(1, 1.0, 1.0, 1.0), row(2, 0.5, 9.0, 3.0)]
    assert decide(rows, "latency<=5s").named == {"smallest": 1, "most frugal": 1, "fastest": 2}


def certificate_of(rows):
    """A certificate whose bounds are what these designs themselves reach."""
    objectives = [[r["latency_s"], r["energy_J"], r["area_mm2"]] for r in rows]
    curves = FrontBounds.reached(objectives).curves
    return Certificate(curves, hypervolume=0.1, most=0.2, ideal=(1.0,) * 3, reference=(2.0,) * 3)


def test_a_tie_goes_to_the_smaller_design_and_then_to_the_more_frugal_one():
    rows = [row(0, 1e-3, 4.0, 1.0), row(1, 2e-3, 2.0, 1.0), row(2, 1e-3, 1.0, 3.0), row(3, 4e-3, 1.0, 2.0)]
    named = decide(rows, "latency<=5ms").named
    assert named == {"smallest": 1, "most frugal": 3, "fastest": 0}


@settings(deadline=None)
@given(rows_of, numbers, numbers, numbers)
def test_what_bounds_prove_out_of_reach_is_out_of_reach(rows, latency, energy, area):
    """With the designs as their own bounds, a target is hopeless if two of its demands together leave no design."""
    decision = decide(rows, f"latency<={latency!r}s,energy<={energy!r}J,area<={area!r}mm2", certificate_of(rows))
    if decision.kept:
        assert decision.hopeless is None
        return
    limits = {"latency_s": latency, "energy_J": energy, "area_mm2": area}
    pairs = [("latency_s", "energy_J"), ("latency_s", "area_mm2"), ("energy_J", "area_mm2")]
    without = [pair for pair in pairs if not any(all(r[name] <= limits[name] for name in pair) for r in rows)]
    assert (decision.hopeless is not None) == bool(without)


def test_a_target_out_of_reach_says_what_can_be_had():
    rows = [row(0, 0.05, 1.0, 30.0), row(1, 0.04, 2.0, 90.0)]
    bounds = certificate_of(rows)
    assert decide(rows, "fps>=30", bounds).hopeless == "no design over the mappings found takes less than 40 ms"
    told = decide(rows, "latency<=45ms,area<=40mm2", bounds).hopeless
    assert told == "no design over the mappings found takes less than 50 ms within 40 mm^2"
    assert decide(rows, "fps:a>=1000,power<=1mW", bounds).hopeless is None
    assert decide(rows, "fps>=30").hopeless is None


def test_what_the_nearest_design_misses_is_told_in_the_unit_of_the_target():
    decision = decide([row(0, 0.05, 1.0, 30.0), row(1, 0.04, 1.0, 90.0)], "latency<=33ms,area<=40mm2")
    assert decision.nearest == 0 and decision.named == {}
    assert decide([row(0, 0.05, 1.0, 30.0)], "latency<=33ms,area<=40mm2").missed == "latency<=33ms (it reaches 50 ms)"


def test_a_decision_prints_as_sentences():
    rows = [row(0, 0.0049806005000000006, 1.0, 10.0), row(1, 0.0029, np.float64(0.3) * 3, 30.3)]
    decision = decide(rows, "latency<=5s")
    assert [type(step.gain) for step in decision.steps] == [float, float]
    assert repr(decision.steps[1]) == "Step(of='energy', row=1, design_id=1, gain=0.1, area_mm2=20.3)"
    assert str(decision).splitlines() == [
        "2 of 2 designs meet latency<=5s",
        "smallest: design 0, 0.004981 s, 1 J, 10 mm^2",
        "most frugal: design 1, 0.0029 s, 0.9 J, 30.3 mm^2",
        "fastest: design 1, 0.0029 s, 0.9 J, 30.3 mm^2",
        "one step further: design 1 has 42% less latency for 20.3 mm^2 more",
        "one step further: design 1 has 10% less energy for 20.3 mm^2 more",
    ]
    assert str(decide(rows, "latency<=1ms")) == (
        "no design meets latency<=1ms; design 1 comes nearest and misses latency<=1ms (it reaches 2.9 ms)"
    )


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("", "cannot be read"),
        ("latency", "cannot be read"),
        ("latency<=33", "has no unit; units of latency: s, ms, us"),
        ("latency<=33J", "has the unit 'J'"),
        ("latency>=33ms", "write latency<="),
        ("fps<=30", "write fps>="),
        ("fps>=30Hz", "has the unit 'Hz'; units of fps: none"),
        ("lateny<=3ms", "did you mean 'latency'"),
        ("fps:d>=30", "names the network 'd'"),
        ("area:a<=3mm2", "leave 'a' out"),
        ("area<=0mm2", "give a number above 0"),
        ("area<=-3mm2", "give a number above 0"),
        ("area<=1e999mm2", "give a number above 0"),
        ("area<=1e3e3mm2", "has the unit 'e3mm2'"),
        ("latency<=1s,,area<=1mm2", "cannot be read"),
        ("latency<=1s latency<=2s", "cannot be read"),
        ("fps>30", "demand with <= or >=, no other sign"),
        ("fps=30", "demand with <= or >=, no other sign"),
        ("latency<=1s,fps==30", "demand with <= or >="),
        ("latency<=1s;fps>=1", "write a comma between demands"),
        ("latency<=1s and fps>=1", "write a comma between demands"),
        ("FPS >= 30", "did you mean 'fps'?"),
        ("Latency<=1s", "did you mean 'latency'?"),
    ],
)
def test_a_target_that_cannot_be_read_is_one_line(target, told):
    with pytest.raises(InputError, match="argument `target`") as caught:
        decide([row(0, 1.0, 1.0, 1.0)], target)
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A small search, told to look only at designs near the least latency."""
    folder = tmp_path_factory.mktemp("within")
    sizes = ["--population", "32", "--generations", "6", "--no-figures", "--polish", "0", "--remap", "0"]
    words = ["search", "mobile", "--budget", "tiny", *sizes, "--within", "4", "--target", "latency<=1s", "--json"]
    return folder, [*words, "--out", str(folder / "out")]


@pytest.mark.slow
def test_a_search_within_a_window_finds_no_slower_design(searched, capsys):
    folder, words = searched
    assert main(words) == 0
    summary = json.loads(capsys.readouterr().out)
    least = summary["bounds"]["latency_s"]
    latencies = [r["latency_s"] for r in mj.decide(folder / "out", "latency<=1000s").rows]
    assert latencies and max(latencies) <= 4 * least * (1 + 1e-6)
    assert summary["decision"]["recommended"] is not None
    # `decide` says the same of the folder, and exits with 1 where no design keeps the target.
    assert main(["decide", str(folder / "out"), "latency<=1s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == summary["decision"]["kept"]
    assert main(["decide", str(folder / "out"), "latency<=1us"]) == 1
    assert "none of" in capsys.readouterr().out


def test_what_the_recommended_design_only_just_keeps_is_told():
    rows = [row(0, 0.0331, 1.0, 1.0), row(1, 0.01, 1.0, 3.0)]
    told = told_of_slack(decide(rows, "fps>=30,latency<=33.2ms,area<=2mm2,energy<=1J"))
    assert told.startswith(
        "the recommended design only just meets fps>=30 by 0.7 % (it reaches 30.21), latency<=33.2ms"
    )
    assert "energy<=1J by 0 %" in told and "area" not in told
    assert told_of_slack(decide(rows, "fps>=60,area<=4mm2")) == ""
    assert told_of_slack(decide(rows, "fps>=1000")) == ""


def test_tiny_chiplets_are_named():
    chips = [BuiltChiplet("simba", 512, 20), BuiltChiplet("eyeriss", 1, 2), BuiltChiplet("simba", 6, 1)]
    told = told_of_tiny_chiplets(chips)
    assert told.startswith("chiplet 1 (eyeriss: 1 MAC, 2 of 23 layers) of the recommended design has less than 1% of")
    assert "512 MACs" in told and "least_chiplet" in told
    more = told_of_tiny_chiplets([*chips, BuiltChiplet("simba", 5, 0)])
    assert "chiplet 3 (simba: 5 MACs, 0 of 23 layers) of the recommended design have" in more
    assert told_of_tiny_chiplets(chips[::2]) == told_of_tiny_chiplets([]) == ""


def written(folder):
    """A results folder of two designs, as `decide` reads it."""
    write_text(folder / "front.csv", csv_text([row(0, 0.5, 1.0, 1.0), row(1, 0.1, 1.0, 2.0)]))
    steps = {"generation": 0, "evaluations": 1, "seconds": 1.0, "hypervolume": 0.5, "front_size": 2}
    write_text(folder / "history.csv", csv_text([steps]))
    write_text(folder / "config.yaml", "scenario: small\nbudget: tiny\nseed: 0\n")
    chiplets = [
        {"template": "simba", "levels": [{"name": "a", "fanout": [x, y]}, {"name": "b", "fanout": [2, 1]}]}
        for x, y in ((1, 1), (16, 8))
    ]
    schedule = [{"layer": i, "chiplet": int(i > 0)} for i in range(4)]
    designs = [{"design_id": i, "chiplets": chiplets[1 - i :], "schedule": schedule} for i in range(2)]
    write_text(folder / "designs.json", json.dumps({"format": "designs/1", "designs": designs}))


def test_the_verb_names_tiny_chiplets_of_a_folder(tmp_path, capsys):
    written(tmp_path)
    assert main(["decide", str(tmp_path), "latency<=0.2s,energy<=1.001J"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "chiplet 0 (simba: 2 MACs, 1 of 4 layers) of the recommended design has less than 1% of the 256 MACs" in told
    assert "only just meets energy<=1.001J by 0.1 %" in told
    assert main(["decide", str(tmp_path), "latency<=0.9s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["remarks"] == []
    assert [chip.macs for chip in built_in(tmp_path, 1)] == [2, 256]
    assert built_in(tmp_path, 7) == []
    (tmp_path / "designs.json").write_text('{"designs": [{"design_id": 1, "chiplets": 3}]}')
    assert main(["decide", str(tmp_path), "latency<=0.2s"]) == 2
    assert "is not what a search writes" in capsys.readouterr().err
    (tmp_path / "designs.json").unlink()
    assert main(["decide", str(tmp_path), "latency<=0.2s"]) == 0


def test_designs_of_a_folder_go_by_the_names_of_the_summary(tmp_path):
    written(tmp_path)
    (tmp_path / "bare").mkdir()
    file = tmp_path / "designs.json"
    roles = roles_in(tmp_path)
    assert roles.pop("knee") in ("0", "1") and roles == {"fastest": "1", "most frugal": "0", "smallest": "0"}
    assert [design_called(file, name) for name in ("fastest", "Most-Frugal", "smallest", "7")] == ["1", "0", "0", "7"]
    for name, remedy in (
        ("fastets", "did you mean 'fastest'?"),
        ("third", "one of fastest, most frugal, smallest, knee"),
        ("recommended", "`mohamjax decide FOLDER TARGET` says its number"),
    ):
        with pytest.raises(InputError, match=f"design {name}: is not in the folder") as caught:
            design_called(file, name)
        assert remedy in caught.value.remedy
    assert roles_in(tmp_path / "bare") == {}
    assert design_called(tmp_path / "bare" / "designs.json", "knee") == "knee"
    assert design_called(tmp_path / "mine.json", "knee") == "knee"
