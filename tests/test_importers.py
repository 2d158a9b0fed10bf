"""Files of other tools are converted into ours, and those are evaluated."""

import csv
import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io import dump_json
from mohamjax.io.importers import Target, fastest_mappings, read_allocation, read_cost_table, read_layer_table
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "docs" / "examples"


@pytest.fixture(scope="module")
def target():
    stem = Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    side = Layer("side", "conv", "Conv", WorkloadShape(K=4, C=8, P=6, Q=6), predecessors=(0,))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0, 1))
    app = ApplicationModel("toy", (Network("net", (stem, side, head)),))
    problem = mj.DesignProblem(app, templates=("simba", "eyeriss"), package=mj.Package(max_tiles=4))
    tables = mj.sample_mappings(problem, count=4, seed=0)
    own = problem.templates, problem.technology, problem.package, lambda: tables
    return Target(app, *own, chiplets=("simba",))


def evaluate(tmp_path, found):
    """Latencies of the schedules of an imported document, all of which must be valid."""
    path = tmp_path / "ours.json"
    path.write_text(dump_json(found.document))
    mj.evaluate_files(path, tmp_path / "out.csv", float32=True)
    with open(tmp_path / "out.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert rows and all(row["valid"] == "1" for row in rows), rows
    return [float(row["latency_s"]) for row in rows]


def isolated_cycles(target, placed):
    """Sum of the fastest durations of layers on templates, seconds: a chain runs them one after another."""
    tables, unique = target.tables(), target.application.unique_of_layer
    return sum(tables.cycles[unique[layer], t, : tables.count[unique[layer], t]].min() for layer, t in placed) * 1e-9


def test_layers(tmp_path, target):
    found = read_layer_table(EXAMPLES / "layers.csv", target)
    assert found.warning == (
        "the file does not say: mappings (of each layer the fastest behind the package's 4 bytes per cycle, of equally "
        "fast ones the most frugal); sizes of chiplets (just large enough); templates of chiplets (those that were "
        "given)"
    )
    (latency,) = evaluate(tmp_path, found)
    assert latency >= isolated_cycles(target, [(0, 0), (1, 0), (2, 0)]) * (1 - 1e-5)
    assert [step["chiplet"] for step in found.document["designs"][0]["schedule"]] == [0, 1, 0]


def test_the_mapping_that_is_taken_is_the_fastest_in_the_package(tmp_path, target):
    """Not the one with the fewest cycles on the chiplet, which a slow interface may delay more than others."""
    slow = dataclasses.replace(target, package=mj.Package(max_tiles=4, interface_bandwidth=0.05))
    tables, free = target.tables(), mj.Package(interface_bandwidth=np.inf, link_bandwidth=np.inf)
    rows = [(u, t) for u in range(tables.count.shape[0]) for t in range(2)]
    for package, rate in ((slow.package, 0.05), (target.package, 4.0), (free, np.inf)):
        taken = fastest_mappings(tables, package)
        for u, t in rows:
            own = range(int(tables.count[u, t]))
            time = [max(float(tables.cycles[u, t, m]), float(tables.offchip_bytes[u, t, m]) / rate) for m in own]
            energy = [float(tables.objectives[u, t, m, 1]) for m in own]
            assert taken[u, t] == min(own, key=lambda m: (time[m], energy[m]))
    assert (fastest_mappings(tables, slow.package) != fastest_mappings(tables, free)).any()
    found = read_layer_table(EXAMPLES / "layers.csv", slow)
    assert "the package's 0.05 bytes per cycle" in found.warning
    assert (
        "unlimited bandwidth"
        in read_layer_table(EXAMPLES / "layers.csv", dataclasses.replace(slow, package=free)).warning
    )


def test_equally_fast_mappings_give_way_to_the_most_frugal(target):
    tables = target.tables()
    alike = dataclasses.replace(tables, cycles=np.ones_like(tables.cycles), offchip_bytes=np.ones_like(tables.cycles))
    energy = np.where(tables.exists, tables.objectives[..., 1], np.inf)
    np.testing.assert_array_equal(fastest_mappings(alike, target.package), energy.argmin(axis=2))


def test_a_misspelt_chiplet_is_seen_in_the_summary(tmp_path, target, capsys):
    (tmp_path / "typo.csv").write_text("layer,chiplet\nstem,npu\nside,npu\nhead,npuu\n")
    found = read_layer_table(tmp_path / "typo.csv", target)
    assert found.summary == "2 chiplets in the file: npu (2 layers), npuu (1 layer)"
    many = read_layer_table(EXAMPLES / "pareto_scheduling.csv", target)
    assert many.summary == "2 chiplets in the file, over 2 schedules: 0 (3 layers), 1 (3 layers)"
    out = str(tmp_path / "table.json")
    assert main(["convert", "costs", str(EXAMPLES / "costs.csv"), "--bandwidth", "100", "--out", out]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "2 accelerators in the file: big (3 jobs), small (2 jobs)"


def test_pareto_scheduling_of_many_solutions(tmp_path, target):
    found = read_layer_table(EXAMPLES / "pareto_scheduling.csv", target)
    assert "in a form that is understood: mapping" in found.warning and "templates" not in found.warning
    first, second = evaluate(tmp_path, found)
    assert first >= isolated_cycles(target, [(0, 0), (1, 0), (2, 1)]) * (1 - 1e-5)
    assert second >= isolated_cycles(target, [(0, 1), (1, 0), (2, 0)]) * (1 - 1e-5)
    assert [chip["template"] for chip in found.document["designs"][1]["chiplets"]] == ["eyeriss", "simba"]


def test_allocation(tmp_path, target):
    found = read_allocation(EXAMPLES / "allocation.yaml", target)
    assert found.missing[0] == "how layers are cut (1 on several cores are placed whole on the first of these)"
    assert "intra_core_tiling" in found.warning
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps({"stem": 0, "side": 1, "head": 0}))
    other = read_allocation(plain, target)
    assert evaluate(tmp_path, found) == evaluate(tmp_path, other)
    assert other.document["designs"][0]["schedule"] == found.document["designs"][0]["schedule"]


def test_templates_are_given_for_the_cores_that_are_named_or_for_those_with_layers(target):
    """Core 2 is a second choice and runs no layer."""
    path = EXAMPLES / "allocation.yaml"
    for chiplets in (("simba", "eyeriss", "simba"), ("simba", "eyeriss")):
        found = read_allocation(path, dataclasses.replace(target, chiplets=chiplets))
        (design,) = found.document["designs"]
        assert [chip["template"] for chip in design["chiplets"]] == ["simba", "eyeriss"]
        assert found.summary == "3 chiplets in the file: 0 (2 layers), 1 (1 layer), 2 (0 layers)"
    with pytest.raises(InputError, match=r"of its 3 chiplets, 0, 1, 2, and 4 were given; .*`chiplets`"):
        read_allocation(path, dataclasses.replace(target, chiplets=("simba",) * 4))


@pytest.mark.slow
def test_the_commands_of_the_page_run_in_its_folder(tmp_path, monkeypatch, capsys):
    """The mappings are random, so that no mapper runs."""
    page = (EXAMPLES.parent / "batches.md").read_text()
    block = page.split("<!-- examples -->\n```sh\n")[1].split("```")[0]
    commands = [command.split() for line in block.splitlines() for command in line.split(" && ")]
    assert len(commands) == 6
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    for name, *words in commands:
        assert name == "mohamjax"
        fast = ["--sample", "2"] if words[0] == "convert" and words[1] != "costs" else []
        assert main([*words, *fast, *([] if words[0] == "convert" else ["--strict", "--float32"])]) == 0, words
    assert main(["convert", "layers", "layers.csv", "--workload", "net.onnx", "--chiplets", "simba,simba,simba"]) == 2
    assert "one for each in this order, with --chiplets" in capsys.readouterr().err


def test_costs(tmp_path):
    found = read_cost_table(EXAMPLES / "costs.csv", bandwidth=100.0, time_unit="s")
    assert "a schedule (every job on its fastest accelerator" in found.warning
    assert evaluate(tmp_path, found) == [800.0]  # all on the big one, one after another
    own = read_cost_table(EXAMPLES / "costs.csv", bandwidth=1.0, time_unit="s", schedule=EXAMPLES / "cost_schedule.csv")
    assert evaluate(tmp_path, own) == pytest.approx([1600 + 700 + 400])  # the first and the last wait for the memory


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("layer,order\nstem,0\n", "no column says the chiplet"),
        ("layer,chiplet\nstem,0\nside,0\n", "layer 2 .head. is missing"),
        ("layer,chiplet\nstem,0\nside,0\nhead,0\nhead,1\n", "comes twice"),
        ("layer,chiplet\nstem,0\nside,0\nhat,0\n", "line 4: there is no layer 'hat'"),
        ("layer,chiplet,order\nstem,0,first\n", "line 2: order is 'first'"),
        ("layer,chiplet,template\nstem,0,tpu\nside,0,tpu\nhead,0,tpu\n", "no template 'tpu'"),
        ("layer,chiplet\n", "no rows"),
        (
            "layer,chiplet,template\nstem,0,simba\nside,0,eyeriss\nhead,0,simba\n",
            "line 3: chiplet '0' has the template eyeriss here, and simba before",
        ),
        ("network,layer,chiplet\nother,1,0\n", "line 2: layer 1 is one of net, not of 'other'; count over all"),
        ("layer,chiplet\n" + "1" * 5000 + ",0\n", "line 2: there is no layer"),
    ],
)
def test_bad_tables_are_refused(tmp_path, target, text, told):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        read_layer_table(tmp_path / "bad.csv", target)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,x,1,1,\nb,x,1,1,aa\n", "line 3: job 'b' waits for 'aa', which the file does not have; did you mean 'a'"),
        ("a,x,1,1,\na,x,2,1,\n", "line 3: names job 'a' on accelerator 'x', as an earlier line does; write one"),
        ("a,,1,1,\n", "line 2: names no chiplet or accelerator; say what runs"),
        ("a,x,1,1,\nb,x,0,2,\n", "line 3: job 'b' lasts 0, but moves 2 bytes; write how long it takes when"),
    ],
)
def test_bad_costs_are_refused(tmp_path, text, told):
    (tmp_path / "bad.csv").write_text("layer,accelerator,duration,bytes,predecessors\n" + text)
    with pytest.raises(InputError, match=told):
        read_cost_table(tmp_path / "bad.csv", bandwidth=1.0)


def test_an_energy_that_no_job_table_may_have_is_refused(tmp_path):
    with pytest.raises(InputError, match="line 2: energy_J is '2e9', no number from 0 to 1e\\+09"):
        costs(tmp_path, "layer,accelerator,duration,bytes,energy_J\na,x,1,1,2e9\n")


@pytest.mark.parametrize("text", ["- {name: stem, core: 2020-13-45}\n", "[" * 5000 + "]" * 5000])
def test_an_allocation_that_yaml_cannot_hold_is_one_line(tmp_path, target, text):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(InputError, match="is no valid YAML"):
        read_allocation(tmp_path / "bad.yaml", target)


def costs(tmp_path, text, **more):
    (tmp_path / "costs.csv").write_text(text)
    return read_cost_table(tmp_path / "costs.csv", **{"bandwidth": 1.0, **more})


def test_the_name_of_a_column_states_the_unit(tmp_path):
    for column, given, unit in (
        ("duration_s", None, "s"),
        ("Latency S", "s", "s"),
        ("cycles", None, "cycles"),
        ("duration_cycles", "cycles", "cycles"),
        ("duration", "s", "s"),
        ("duration", None, "cycles"),
    ):
        found = costs(tmp_path, f"layer,accelerator,{column},bytes\na,x,0.001,4\n", time_unit=given)
        assert found.document["time_unit"] == unit
        assert ("the unit of durations (cycles)" in found.missing) == (column == "duration" and given is None)
        assert f"one memory of 1 bytes per {unit.removesuffix('s') or 's'}" in found.warning
    for column, given, told in (
        ("cycles", "s", "header: column 'cycles' is in cycles, and the time unit that was given is s; leave out"),
        ("duration_s", "cycles", "column 'duration_s' is in s, and the time unit that was given is cycles"),
    ):
        with pytest.raises(InputError, match=told):
            costs(tmp_path, f"layer,accelerator,{column},bytes\na,x,0.001,4\n", time_unit=given)
    own = {"duration": "took [ms]"}
    with pytest.raises(InputError, match=r"column 'took \[ms\]' is in ms; give it in cycles or s, and call it so"):
        costs(tmp_path, "layer,accelerator,took [ms],bytes\na,x,1,4\n", columns=own)
    for column, assumed in (("energy", True), ("energy_J", False)):
        found = costs(tmp_path, f"layer,accelerator,duration,bytes,{column}\na,x,1,4,2\n")
        assert ("the unit of energies (J)" in found.missing) == assumed
    with pytest.raises(InputError, match="column 'energy_pJ' is in pJ; give it in J"):
        costs(tmp_path, "layer,accelerator,time,bytes,energy_pJ\na,x,1,4,2\n", columns={"energy": "energy_pJ"})


def test_the_command_line_takes_the_unit_of_the_column(tmp_path, capsys):
    (tmp_path / "costs.csv").write_text("layer,accelerator,duration_s,bytes\na,x,0.001,4\n")
    command = ["convert", "costs", str(tmp_path / "costs.csv"), "--bandwidth", "1e9"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["time_unit"] == "s"
    assert main([*command, "--time-unit", "cycles"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


LATE = "layer,accelerator,duration,bytes,predecessors\nc,x,1,1,\nb,x,1,1,a\na,x,2,1,\na,y,1,1,\n"


def test_our_own_schedule_has_predecessors_first(tmp_path):
    found = costs(tmp_path, LATE, bandwidth=9.0)
    assert found.document["schedules"] == [
        {"name": "fastest", "order": ["c", "a", "b"], "accelerator": ["x", "x", "y"]}
    ]
    assert "in the order of the table, predecessors first" in found.warning
    assert evaluate(tmp_path, found) == pytest.approx([2e-9])
    told = "line 3: jobs 'a', 'b' wait for each other; remove one|line 4: jobs 'b', 'a' wait for each other; remove one"
    with pytest.raises(InputError, match=told):
        costs(tmp_path, LATE.replace("a,x,2,1,", "a,x,2,1,b"))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("c,x,0\nb,x,1\na,x,2\n", "line 3: job 'b' stands before its predecessor 'a'; order every job after its"),
        ("c,y,0\na,x,1\nb,x,2\n", "line 2: job 'c' has no costs on 'y'; choose x"),
    ],
)
def test_a_schedule_that_breaks_a_rule_is_refused(tmp_path, rows, told):
    (tmp_path / "schedule.csv").write_text("layer,accelerator,order\n" + rows)
    with pytest.raises(InputError, match="schedule.csv: " + told):
        costs(tmp_path, LATE, schedule=tmp_path / "schedule.csv")


def test_a_schedule_whose_jobs_only_start_out_of_order_is_kept(tmp_path):
    """Each accelerator runs its jobs in this order, which lets `b` wait for `a` on another one."""
    (tmp_path / "schedule.csv").write_text("layer,accelerator,order\nc,x,0\nb,x,1\na,y,2\n")
    found = costs(tmp_path, LATE, bandwidth=9.0, schedule=tmp_path / "schedule.csv")
    assert evaluate(tmp_path, found) == pytest.approx([2e-9])


def test_named_columns_are_those_of_the_costs_or_of_the_schedule(tmp_path):
    text = "layer,accelerator,took,bytes,rank\na,x,1,1,one\nb,x,2,1,two\n"
    columns, schedule = {"duration": "took", "order": "turn"}, tmp_path / "schedule.csv"
    schedule.write_text("layer,accelerator,turn\na,x,1\nb,x,0\n")
    (found,) = costs(tmp_path, text, schedule=schedule, columns=columns).document["schedules"]
    assert found["order"] == ["b", "a"]
    # A column of both that only the costs call so.
    columns["layer"] = "job"
    (found,) = costs(tmp_path, text.replace("layer", "job"), schedule=schedule, columns=columns).document["schedules"]
    assert found["order"] == ["b", "a"]
    with pytest.raises(InputError, match=r"schedule\.csv: .*no column 'rank' in the file"):
        costs(tmp_path, text, schedule=schedule, columns={"duration": "took", "order": "rank"})


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "own.csv",
            "layer,chiplet,order\nside,1,0\nstem,0,1\nhead,0,2\n",
            "line 2: layer 1 .side. stands before layer 0",
        ),
        (
            "own.json",
            '{"stem": 0, "head": 0, "side": 1}',
            r"entry 1: layer 2 \(head\) stands before layer 1 \(side\), on",
        ),
    ],
)
def test_an_impossible_order_is_refused(tmp_path, target, name, text, told):
    (tmp_path / name).write_text(text)
    read = read_allocation if name.endswith(".json") else read_layer_table
    with pytest.raises(InputError, match=f"{name}: {told}.*; order every layer after those that it depends on"):
        read(tmp_path / name, target)


def test_a_budget_is_refused_beside_random_mappings(monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES)
    command = ["convert", "layers", "layers.csv", "--workload", "net.onnx", "--chiplets", "simba", "--sample", "2"]
    assert main([*command, "--budget", "paper"]) == 2
    assert "--budget: is for mappings that are searched" in capsys.readouterr().err


def test_a_long_schedule_names_the_layer_that_it_lacks(tmp_path, target):
    layers = tuple(Layer(f"l{i}", "fc", "Gemm", WorkloadShape(K=8, C=8)) for i in range(20_000))
    long = dataclasses.replace(target, application=ApplicationModel("long", (Network("net", layers),)))
    rows = "".join(f"l{i},0\n" for i in range(19_999))
    (tmp_path / "long.csv").write_text("layer,chiplet\n" + rows)
    with pytest.raises(InputError, match=r"layer 19999 .l19999. is missing"):
        read_layer_table(tmp_path / "long.csv", long)


def test_layers_are_mapped_after_the_file_is_found_sound(tmp_path, target):
    def never():
        raise AssertionError("mapped")

    (tmp_path / "bad.csv").write_text("layer,chiplet,template\nstem,0,simba\nside,0,simba\nhead,1,tpu\n")
    with pytest.raises(InputError, match="no template 'tpu'"):
        read_layer_table(tmp_path / "bad.csv", dataclasses.replace(target, tables=never))


def test_columns_can_be_named(tmp_path, target):
    (tmp_path / "own.csv").write_text("what,where\nstem,0\nside,0\nhead,0\n")
    found = read_layer_table(tmp_path / "own.csv", target, {"layer": "what", "chiplet": "where"})
    assert "an order (that of the layers)" in found.missing
    with pytest.raises(InputError, match="no column 'which'"):
        read_layer_table(tmp_path / "own.csv", target, {"layer": "which"})


def test_the_command_line_converts_costs(tmp_path, capsys):
    source, out = tmp_path / "costs.csv", tmp_path / "table.json"
    shutil.copy(EXAMPLES / "costs.csv", source)
    assert main(["convert", "costs", str(source), "--bandwidth", "100", "--out", str(out)]) == 0
    assert capsys.readouterr().err.startswith("warning: the file does not say: resources")
    assert main(["evaluate", "schedules", str(out), "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    np.testing.assert_allclose(found["schedules"][0]["makespan"], 800.0)
    for bandwidth in ("0", "inf", "nan", "1e20"):
        with pytest.raises(SystemExit) as stopped:
            main(["convert", "costs", str(source), "--bandwidth", bandwidth])
        assert stopped.value.code == 2
