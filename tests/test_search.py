"""A search end to end on two small networks: search, files, re-evaluation, resuming, and the command line."""

import itertools
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest
import yaml
from plain_design import problems
from small_search import compiled_generations, objectives, rewritten, search, table

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.cli.outputs import default_folder
from mohamjax.errors import InputError
from mohamjax.io import designs_document, dump_json, evaluate_designs, read_checkpoint, read_timeloop
from mohamjax.mapping import Sample, predict


def test_the_folder_holds_all_files(results):
    names = {p.name for p in results.iterdir()}
    files = {"front.csv", "designs.json", "history.csv", "config.yaml", "bounds.json", "checkpoint.npz"}
    assert names == {*files, "figures"}
    assert {p.name for p in (results / "figures").iterdir()} >= {"front.png", "gantt_fastest.png", "area_knee.png"}
    config = yaml.safe_load((results / "config.yaml").read_text())
    assert config["seed"] == 0 and config["budget"] == "tiny"
    front = table(results / "front.csv")
    assert list(front[0])[:5] == ["design_id", "latency_s", "energy_J", "area_mm2", "n_chiplets"]
    assert {"n_eyeriss", "n_simba", "n_shidiannao", "latency_s_one", "latency_s_two"} <= set(front[0])


def test_the_front_is_mutually_non_dominated(results):
    values = objectives(table(results / "front.csv"))
    assert len(values) >= 10
    for i, row in enumerate(values):
        worse = (values >= row).all(axis=1)
        assert worse.sum() == 1, f"design {i} dominates or equals another"


def test_history_grows(results):
    rows = table(results / "history.csv")
    assert [int(r["generation"]) for r in rows] == list(range(13))
    volumes = [float(r["hypervolume"]) for r in rows]
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(volumes))
    assert 0 < volumes[-1] < 1
    # One population before the first generation, one in each generation, and immigrants each time.
    counts = [int(r["evaluations"]) for r in rows]
    assert {b - a for a, b in itertools.pairwise(counts)} == {35}
    assert counts[0] == 35


def test_designs_evaluate_to_what_they_say(results, tmp_path):
    assert main(["evaluate", "designs", str(results / "designs.json"), "--out", str(tmp_path / "again.csv")]) == 0
    again = table(tmp_path / "again.csv")
    assert all(row["valid"] == "1" and row["reason"] == "" for row in again)
    np.testing.assert_allclose(objectives(again), objectives(table(results / "front.csv")), rtol=1e-9)
    out = str(tmp_path / "single.csv")
    assert main(["evaluate", "designs", str(results / "designs.json"), "--float32", "--out", out]) == 0
    np.testing.assert_allclose(objectives(table(out)), objectives(again), rtol=1e-4)


@pytest.mark.slow
def test_what_if_questions_about_a_front(results, tmp_path, capsys):
    asked = ["evaluate", "designs", str(results / "designs.json"), "--out", str(tmp_path / "out.csv")]
    asked += ["--figures", str(tmp_path)]
    front = table(results / "front.csv")
    assert main([*asked, "--vary", "nop.interface_bandwidth=4,8", "--vary", "technology.dram_energy=x1,x2"]) == 0
    rows = table(tmp_path / "out.csv")
    assert [row["design_id"] for row in rows] == 4 * [row["design_id"] for row in front]
    np.testing.assert_allclose(objectives(rows[: len(front)]), objectives(front), rtol=1e-9)
    assert np.median(objectives(rows[-len(front) :])[:, 0] / objectives(front)[:, 0]) <= 1
    assert main([*asked, "--sensitivities"]) == 0
    whole = table(tmp_path / "out.csv")
    assert {row["method"] for row in whole} == {"exact", "difference", "doubling"}
    assert "parameters that matter most" in capsys.readouterr().err
    assert main([*asked[:3], "--sensitivities"]) == 0
    shown = capsys.readouterr().out
    assert f"--out FILE writes all {len(whole):,} rows" in shown and "nominal" not in shown
    counts = [sum(line.startswith(f"{name} ") for line in shown.splitlines()) for name in ("latency", "energy", "area")]
    assert all(0 < count <= 10 for count in counts)
    assert main([*asked, "--uncertainty", "0", "--samples", "3"]) == 0
    sure = {(row["in_front"], row["probability"]) for row in table(tmp_path / "out.csv")}
    assert ("1", "1.0") in sure and sure <= {("1", "1.0"), ("0", "0.0")}
    assert {path.name for path in tmp_path.glob("*.png")} == {"what_if.png", "sensitivities.png", "uncertainty.png"}
    assert "0 almost never survive" in capsys.readouterr().err
    assert main([*asked, "--vary", "nop.hops=1"]) == 2
    assert "--vary nop.hops=V,V,...: unknown parameter 'nop.hops'" in capsys.readouterr().err


def test_every_design_passes_the_plain_checker(results):
    document = json.loads((results / "designs.json").read_text())
    for design in document["designs"]:
        assert problems(document, design) == [], design["design_id"]


@pytest.mark.slow
def test_designs_under_contention_of_the_mesh_pass_the_plain_checker(networks, tmp_path):
    """A package of narrow links to one wide interface: the file states the contention, and readers apply it.

    The designs are random: links are only shared by four chiplets or more, and a front may have no such design.
    """
    problem = mj.DesignProblem(mj.load_onnx(*networks))
    tables = mj.sample_mappings(problem, 4)
    designs = mj.sample_designs(jax.random.key(0), problem.arrays(tables), 24)
    mj.write_designs(tmp_path / "designs.npz", problem, tables, designs)
    document = json.loads(dump_json(designs_document(evaluate_designs(tmp_path / "designs.npz")[1], "small")))
    changes = {"link_bytes_per_cycle": 0.05, "interface_bytes_per_cycle": 0.4, "interface_counts": [[None, 1]]}
    found = {}
    for contention in ("all", "mesh"):
        document["package"] |= {**changes, "contention": contention}
        (tmp_path / "designs.json").write_text(json.dumps(document))
        _, evaluated = evaluate_designs(tmp_path / "designs.json")
        found[contention] = evaluated.objectives[:, 0]
    written = designs_document(evaluated, "small")
    assert written["package"]["contention"] == "mesh"
    for design in written["designs"]:
        assert problems(written, design) == [], design["design_id"]
    assert (found["mesh"] > found["all"] * 1.01).any()


def on_chiplet(design, least):
    """Steps of the first chiplet that runs at least `least` layers."""
    chips = [step["chiplet"] for step in design["schedule"]]
    busy = next(k for k in chips if chips.count(k) >= least)
    return [step for step in design["schedule"] if step["chiplet"] == busy]


def first_before_its_predecessor(document, design):
    swap_first_steps({**document, "designs": [design]})


def earlier_than_its_predecessor(document, design):
    step = next(s for s in design["schedule"] if document["layers"][s["layer"]]["predecessors"])
    step["start_s"], step["end_s"] = 0.0, step["end_s"] - step["start_s"]


def at_the_same_time(document, design):
    first, second = on_chiplet(design, 2)[:2]
    second["start_s"] = (first["start_s"] + first["end_s"]) / 2


def of_another_layer(document, design):
    step = design["schedule"][0]
    template = document["mappings"][step["mapping"]]["template"]
    bounds = document["layers"][step["layer"]]["bounds"]
    step["mapping"] = next(
        s["mapping"]
        for d in document["designs"]
        for s in d["schedule"]
        if document["mappings"][s["mapping"]]["template"] == template
        and document["layers"][s["layer"]]["bounds"] != bounds
    )


def of_another_template(document, design):
    chip = design["chiplets"][design["schedule"][0]["chiplet"]]
    used = document["mappings"][design["schedule"][0]["mapping"]]["template"]
    chip["template"] = next(t["name"] for t in document["templates"] if t["name"] != used)
    own = next(t for t in document["templates"] if t["name"] == chip["template"])
    chip["levels"] = [{"name": x["name"], "capacity_words": None, "fanout": [1, 1]} for x in own["levels"][::-1]]
    for step in on_chiplet(design, 1):
        levels = document["mappings"][step["mapping"]]["levels"]
        del levels[len(own["levels"]) :]
        levels += [{**levels[-1], "name": "more"}] * (len(own["levels"]) - len(levels))


def with_an_idle_chiplet(document, design):
    design["chiplets"].append(dict(design["chiplets"][0]))


def change(what, key, factor):
    """A mutation that scales one number of the first step, of the first chiplet or of the design itself."""

    def mutate(document, design):
        target = {"step": design["schedule"][0], "chiplet": design["chiplets"][0], "design": design}[what]
        target[key] = target[key] * factor

    return mutate


def resize(key, value):
    """A mutation that gives every level of the first layer's chiplet another size."""

    def mutate(document, design):
        chip = design["chiplets"][design["schedule"][0]["chiplet"]]
        for level in chip["levels"]:
            if level[key] is not None:
                level[key] = value

    return mutate


def half_as_long(document, design):
    for step in design["schedule"]:
        step["end_s"] = step["start_s"] + step["alone_s"] / 2


FAULTS = {
    "ordered before a predecessor": first_before_its_predecessor,
    "not every layer is scheduled once": lambda _, d: d["schedule"].pop(),
    "starts before its predecessor": earlier_than_its_predecessor,
    "faster than it can be": half_as_long,
    "fewer cycles than its loops have steps": change("step", "alone_s", 1e-3),
    "overlap on chiplet": at_the_same_time,
    "does not cover it": of_another_layer,
    "of another template": of_another_template,
    "cannot hold": resize("capacity_words", 0),
    "larger than its template allows": resize("capacity_words", 10**12),
    "spreads wider": resize("fanout", [0, 0]),
    "stands idle": with_an_idle_chiplet,
    "is at": lambda _, d: d["chiplets"][0].update(interface=7),
    "ns": change("step", "end_s", 1.01),
    "bandwidth of resource": change("step", "offchip_bytes", 1e4),
    "latency is not the latest end": change("design", "latency_s", 1.01),
    "energies do not add up": change("step", "energy_J", 1.5),
    "areas do not add up": change("chiplet", "area_mm2", 1.01),
    "below its lower bound": change("design", "energy_J", 1e-3),
}


@pytest.mark.parametrize("word", FAULTS)
def test_the_plain_checker_sees_a_fault(results, word):
    document = json.loads((results / "designs.json").read_text())
    design = max(document["designs"], key=lambda d: (len(d["chiplets"]) < len(d["schedule"]), len(d["chiplets"])))
    assert problems(document, design) == []
    FAULTS[word](document, design)
    assert any(word in found for found in problems(document, design))


def test_same_seed_same_files_without_a_new_compile(networks, results, tmp_path):
    compiled = compiled_generations()
    assert search(networks, tmp_path, "--no-figures") == 0
    assert compiled_generations() == compiled
    for name in ("front.csv", "designs.json"):
        assert (tmp_path / name).read_bytes() == (results / name).read_bytes(), name


def test_another_seed_finds_other_designs(networks, results, tmp_path):
    assert search(networks, tmp_path, "--no-figures", "--seed", "7") == 0
    assert (tmp_path / "front.csv").read_bytes() != (results / "front.csv").read_bytes()


def test_resume_ends_where_an_undisturbed_search_ends(networks, results, tmp_path):
    short = ["--generations", "7"]
    assert search(networks, tmp_path, "--no-figures", *short) == 0
    assert len(table(tmp_path / "history.csv")) == 8
    assert search(networks, tmp_path, "--no-figures", "--resume") == 0
    for name in ("front.csv", "designs.json"):
        assert (tmp_path / name).read_bytes() == (results / name).read_bytes(), name
    drop = [{k: v for k, v in row.items() if k != "seconds"} for row in table(tmp_path / "history.csv")]
    assert drop == [{k: v for k, v in row.items() if k != "seconds"} for row in table(results / "history.csv")]


def test_fewer_generations_than_a_checkpoint_has_are_told_and_not_recorded(networks, results, tmp_path, capsys):
    shutil.copytree(results, tmp_path / "copy")
    (tmp_path / "copy" / "report.html").write_text("the page of these results")
    assert search(networks, tmp_path / "copy", "--no-figures", "--resume", "--generations", "3") == 0
    said = capsys.readouterr().err
    assert "has 12 generations already, more than the 3 asked for" in said and "earlier search" not in said
    assert (tmp_path / "copy" / "front.csv").read_bytes() == (results / "front.csv").read_bytes()
    recorded = yaml.safe_load((tmp_path / "copy" / "config.yaml").read_text())
    assert recorded["search"]["generations"] == 12
    assert not (tmp_path / "copy" / "report.html").exists()  # it could show other results


def test_results_that_are_replaced_are_told_and_other_seeds_have_folders_of_their_own(
    networks, results, tmp_path, capsys, monkeypatch
):
    def refused(*_, **__):
        raise InputError("refused", remedy="wait")

    monkeypatch.setattr("mohamjax.search.search.Search.run", refused)
    shutil.copytree(results, tmp_path / "copy")
    assert search(networks, tmp_path / "copy") == 2
    assert "holds the results of an earlier search" in capsys.readouterr().err
    assert search(networks, tmp_path / "new") == 2
    assert "earlier search" not in capsys.readouterr().err and not (tmp_path / "new").exists()
    assert default_folder("ar-vr", "tiny", "", seed=0) == pathlib.Path("results/ar-vr-tiny")
    assert default_folder("ar-vr", "tiny", "moham", seed=7) == pathlib.Path("results/ar-vr-tiny-moham-seed7")


def test_a_checkpoint_that_does_not_fit_is_told_before_mapping(networks, results, tmp_path, capsys, monkeypatch):
    def never(*_, **__):
        raise AssertionError("mapped before the complaint")

    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", never)
    shutil.copytree(results, tmp_path / "copy")
    assert search(networks, tmp_path / "copy", "--resume", "--seed", "3") == 2
    assert "checkpoint.npz: the checkpoint is of a search with other inputs" in capsys.readouterr().err
    (tmp_path / "copy" / "checkpoint.npz").write_bytes(b"PK")
    assert search(networks, tmp_path / "copy", "--resume") == 2
    assert "checkpoint.npz: the checkpoint cannot be read" in capsys.readouterr().err
    shutil.copy(results / "checkpoint.npz", tmp_path / "copy")
    given = ["--inject", str(results / "designs.json")]
    assert search(networks, tmp_path / "copy", "--resume", *given) == 2
    assert "checkpoint.npz: the checkpoint is of a search with other inputs" in capsys.readouterr().err


def test_a_checkpoint_of_other_mapping_tables_is_refused(networks, results, tmp_path, capsys):
    path = tmp_path / "checkpoint.npz"
    path.write_bytes((results / "checkpoint.npz").read_bytes())
    meta = read_checkpoint(path).meta
    assert len(meta["tables"]) == len(meta["fingerprint"]) == 64 and meta["tables"] != meta["fingerprint"]
    rewritten(path, lambda _, record: record.update(tables="0" * 64))
    assert search(networks, tmp_path, "--resume", "--no-figures") == 2
    assert "checkpoint.npz: the checkpoint is of a search with other inputs" in capsys.readouterr().err


def test_programs_are_kept_unless_the_user_wants_none(networks, tmp_path, monkeypatch):
    kept = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["workload", networks[0], "--no-compile-cache"]) == 0
    assert not (tmp_path / "mohamjax").exists() and jax.config.jax_compilation_cache_dir == kept
    assert main(["workload", networks[0]]) == 0
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mohamjax" / "compiled")
    jax.config.update("jax_compilation_cache_dir", kept)


def test_resume_before_the_first_checkpoint_starts_from_the_beginning(networks, results, tmp_path, capsys):
    assert search(networks, tmp_path, "--no-figures", "--resume") == 0
    assert "starting from the beginning" in capsys.readouterr().err
    assert (tmp_path / "designs.json").read_bytes() == (results / "designs.json").read_bytes()


def test_json_summary(networks, tmp_path, capsys):
    assert search(networks, tmp_path, "--no-figures", "--json") == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["front_size"] == len(table(tmp_path / "front.csv"))
    seconds = summary["seconds"]
    steps = [seconds[f"{step}_s"] for step in ("mapping", "compile", "search", "reevaluation", "figures")]
    assert min(steps[:4]) > 0 and sum(steps) <= seconds["total_s"]
    (line,) = (line for line in said.err.splitlines() if line.endswith("in all"))
    told = {"mapping": "mapping", "finish": "finishing", "reevaluation": "in double precision", "figures": "figures"}
    for step, words in told.items():
        assert (words in line) == (seconds[f"{step}_s"] >= 0.05), step
    assert set(summary["landmarks"]) == {"fastest", "most frugal", "smallest", "knee"}
    bounds = [summary["bounds"][k] for k in ("latency_s", "energy_J", "area_mm2")]
    assert (objectives(table(tmp_path / "front.csv")) >= np.asarray(bounds) * (1 - 1e-9)).all()
    assert json.loads((tmp_path / "designs.json").read_text())["bounds"] == summary["bounds"]
    certificate = json.loads((tmp_path / "bounds.json").read_text())
    assert certificate["format"] == "bounds/1" and certificate["hypervolume_bound"] == summary["hypervolume_bound"]
    assert certificate["hypervolume"] == summary["hypervolume"]
    assert 0 < certificate["hypervolume"] <= certificate["hypervolume_bound"] < 1
    values = dict(zip(("latency_s", "energy_J", "area_mm2"), objectives(table(tmp_path / "front.csv")).T, strict=True))
    for curve in certificate["curves"].values():
        first, second = (values[column] for column in curve["columns"])
        at, least = np.asarray(curve["steps"]).T
        assert (first >= at[0]).all()
        assert (second >= least[np.searchsorted(at, first, side="right") - 1]).all()


@pytest.mark.parametrize(
    ("budget", "measured"),
    [("tiny", 15), ("small", 32)],  # on two cores, without compilation (45 s); a forecast may be off by a factor of two
)
def test_a_dry_run_tells_the_time_and_that_of_compiling(budget, measured, capsys):
    command = ["search", "ar-vr", "--budget", budget, "--dry-run"]
    assert main([*command, "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert 0.5 < cost["seconds"] / measured < 2 and 0.5 < cost["compile_s"] / 45 < 2
    assert main(command) == 0
    said = f"about {cost['seconds']:.0f} s, plus about {cost['compile_s']:.0f} s of compiling"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "sizes",
    [["--population", "1000000000000"], ["--population", "65536", "--islands", "17"], ["--islands", "1" + "0" * 30]],
)
def test_a_generation_that_no_machine_holds_is_refused(networks, sizes, capsys):
    assert main(["search", *networks, "--dry-run", *sizes]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "designs at once; use at most 1,048,576 over all islands" in said.err


def test_designs_are_explained_from_the_command_line(results, tmp_path, capsys):
    file = str(results / "designs.json")
    command = ["evaluate", "designs", file, "--out", str(tmp_path / "out.csv"), "--explain"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    again = objectives(table(tmp_path / "out.csv"))
    assert len(told["designs"]) == len(again)
    for said, (latency, energy, area) in zip(told["designs"], again, strict=True):
        chain = said["critical_chain"]
        busy = chain["compute_s"] + chain["onchip_limits_s"] + sum(chain["stalled_s"].values())
        np.testing.assert_allclose(busy, latency, rtol=1e-6)
        assert min(chain["compute_s"], chain["onchip_limits_s"]) >= 0
        np.testing.assert_allclose(sum(sum(c["energy_J"].values()) for c in said["chiplets"]), energy, rtol=1e-6)
        np.testing.assert_allclose(sum(sum(c["area_mm2"].values()) for c in said["chiplets"]), area, rtol=1e-6)
    assert main([*command, "3"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("design 3: latency") and "critical chain" in text and "design 4" not in text


def test_who_asks_for_what_is_not_there_need_not_wait(results, tmp_path, capsys, monkeypatch):
    def never(*_, **__):
        raise AssertionError("evaluated before the complaint")

    monkeypatch.setattr("mohamjax.io.designs.reevaluate", never)
    file = str(results / "designs.json")
    (tmp_path / "other.json").write_text('{"format": "config/1"}')
    (tmp_path / "fluid.json").write_text('{"format": "fluid-schedule/1", "cases": []}')
    for command, words in (
        (["designs", file, "--explain", "none"], ["design none", "not in the folder", "fastest, most frugal"]),
        (["designs", file, "--json"], ["--json", "--explain"]),
        (["designs", file, "--trace", str(tmp_path)], ["--trace", "is a folder"]),
        (["designs", file, "--timeloop", file], ["--timeloop", "cannot be written"]),
        (["schedules", str(tmp_path / "fluid.json"), "--technology", file], ["--technology", "schedule/1"]),
        (
            ["schedules", str(tmp_path / "other.json")],
            ["unknown format 'config/1'", "fluid-schedule/1, job-table/1, package-schedule/1, schedule/1 or designs/1"],
        ),
    ):
        assert main(["evaluate", *command]) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert all(word in said for word in words), said


def test_interrupt_keeps_what_was_found(networks, tmp_path, monkeypatch, capsys):
    from mohamjax.cli.terminal import Terminal

    calls = []

    def interrupt(self, progress, generations):
        calls.append(progress.generation)
        if progress.generation >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Terminal, "progress", interrupt)
    assert search(networks, tmp_path, "--no-figures") == 130
    assert "stopped early" in capsys.readouterr().err
    assert calls == [0, 5]
    assert len(table(tmp_path / "front.csv")) > 3


# ---------------------------------------------------------------- broken designs


def edited(results, change):
    document = json.loads((results / "designs.json").read_text())
    change(document)
    return document


def reason(results, tmp_path, change):
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(edited(results, change)))
    assert main(["evaluate", "designs", str(path), "--out", str(tmp_path / "edited.csv")]) == 0
    rows = table(tmp_path / "edited.csv")
    assert all(r["valid"] == "1" for r in rows[1:])
    assert rows[0]["valid"] == "0" and rows[0]["latency_s"] == ""
    return rows[0]["reason"]


def swap_first_steps(d):
    steps = d["designs"][0]["schedule"]
    layers = d["layers"]
    k = next(i for i, s in enumerate(steps) if steps[0]["layer"] in layers[s["layer"]]["predecessors"])
    steps[0], steps[k] = steps[k], steps[0]


BROKEN = {
    "depends": swap_first_steps,
    "not scheduled": lambda d: d["designs"][0]["schedule"].pop(),
    "twice": lambda d: d["designs"][0]["schedule"].append(d["designs"][0]["schedule"][0]),
    "does not exist": lambda d: d["designs"][0]["schedule"][0].update(chiplet=99),
    "no such mapping": lambda d: d["designs"][0]["schedule"][0].update(mapping=10**6),
    "no template": lambda d: d["designs"][0]["chiplets"][0].update(template="tpu"),
    "no level": lambda d: d["designs"][0]["chiplets"][0]["levels"][0].update(name="L9"),
    "is empty (null)": lambda d: d["designs"][0].update(schedule=None),
    "is missing": lambda d: d["designs"][0].pop("schedule"),
    "is scheduled twice; list every layer once: remove schedule[0] or schedule[1]": lambda d: d["designs"][0][
        "schedule"
    ].__setitem__(1, d["designs"][0]["schedule"][0]),
    "chiplets": lambda d: d["designs"][0].update(chiplets=[]),
    "expected a mapping": lambda d: d["designs"].__setitem__(0, 3),
}


@pytest.mark.parametrize("word", BROKEN)
def test_a_broken_design_is_a_row_with_its_reason(results, tmp_path, word):
    assert word in reason(results, tmp_path, BROKEN[word])


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"clock_GHz": 2}, "clock_GHz: 2 is too large; write 1"),
        ({"clock_GHz": "1"}, "clock_GHz: expected a number, found text '1'; write 1"),
        ({"clock_GHz": 1.0, "networks": []}, "is missing; add `"),
        ({"networks": ["a"], "layers": [3]}, "layers[0]: expected a mapping, found number 3; write"),
        ({"networks": ["a"], "layers": []}, "layers: is empty; write the layers of every network"),
    ],
)
def test_a_broken_file_is_one_line_with_a_remedy(tmp_path, capsys, document, said):
    path = tmp_path / "designs.json"
    path.write_text(json.dumps({"format": "designs/1", **document}))
    assert main(["evaluate", "designs", str(path)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.startswith(f"mohamjax: {path}: ") and error.count("\n") == 1


def test_a_mapping_of_another_layer_is_refused(results, tmp_path):
    def change(d):
        step = d["designs"][0]["schedule"][0]
        wrong = next(
            s["mapping"]
            for design in d["designs"]
            for s in design["schedule"]
            if d["layers"][s["layer"]]["bounds"] != d["layers"][step["layer"]]["bounds"]
            and d["mappings"][s["mapping"]]["template"] == d["mappings"][step["mapping"]]["template"]
        )
        step["mapping"] = wrong

    assert "factors" in reason(results, tmp_path, change)


def test_a_chiplet_that_is_too_small_is_refused(results, tmp_path):
    def change(d):
        for level in d["designs"][0]["chiplets"][0]["levels"]:
            if level["capacity_words"] is not None:
                level["capacity_words"] = 1
            level["fanout"] = [1, 1]

    assert "needs" in reason(results, tmp_path, change)


def test_a_larger_chiplet_costs_more_area_and_stored_objectives_are_ignored(results, tmp_path):
    def change(d):
        for design in d["designs"]:
            design["latency_s"] = -1
            for chip in design["chiplets"]:
                kind = next(t for t in d["templates"] if t["name"] == chip["template"])
                for level, largest in zip(chip["levels"], kind["levels"][::-1], strict=True):
                    level["fanout"] = largest["fanout"]

    path = tmp_path / "edited.json"
    path.write_text(json.dumps(edited(results, change)))
    assert main(["evaluate", "designs", str(path), "--out", str(tmp_path / "edited.csv")]) == 0
    new, old = objectives(table(tmp_path / "edited.csv")), objectives(table(results / "front.csv"))
    np.testing.assert_allclose(new[:, 0], old[:, 0], rtol=1e-9)
    assert (new[:, 2] >= old[:, 2] * (1 - 1e-9)).all() and (new[:, 2] > old[:, 2]).any()


# ---------------------------------------------------------------- schedules that users write


def test_a_schedule_written_by_hand(results, networks, tmp_path):
    document = json.loads((results / "designs.json").read_text())
    first = document["designs"][0]
    names = [f"{document['networks'][x['network']]['name']}/{x['name']}" for x in document["layers"]]
    schedule = {
        "format": "schedule/1",
        "application": networks,
        "templates": ["eyeriss", "simba", "shidiannao"],
        "mappings": document["mappings"],
        "schedules": [
            {
                "name": "mine",
                "chiplets": [{"template": c["template"]} for c in first["chiplets"]],
                "schedule": [
                    {"layer": names[s["layer"]], "chiplet": s["chiplet"], "mapping": s["mapping"]}
                    for s in first["schedule"]
                ],
            }
        ],
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(schedule))
    keys = ("latency_s", "energy_J", "area_mm2")
    assert main(["evaluate", "designs", str(path), "--out", str(tmp_path / "mine.csv")]) == 0
    (row,) = table(tmp_path / "mine.csv")
    assert row["design_id"] == "mine" and row["valid"] == "1"
    np.testing.assert_allclose(objectives([row])[0], [first[k] for k in keys])

    schedule["schedules"].insert(0, {**schedule["schedules"][0], "name": "broken", "chiplets": []})
    path.write_text(json.dumps(schedule))
    out = tmp_path / "mine.out.json"
    assert main(["evaluate", "schedules", str(path), "--timelines", "--out", str(out)]) == 0
    said = json.loads(out.read_text())
    broken, mine = said["schedules"]
    assert said["format"] == "schedule/1" and (broken["name"], mine["name"]) == ("broken", "mine")
    assert not broken["valid"] and broken["reason"] and broken["latency_s"] is None and "timeline" not in broken
    assert mine["valid"] and not mine["reason"]
    np.testing.assert_allclose([mine[k] for k in keys], [first[k] for k in keys])
    assert [f"{r['network']}/{r['layer']}" for r in mine["timeline"]] == names
    assert max(r["end_s"] for r in mine["timeline"]) == pytest.approx(mine["latency_s"], rel=1e-12)
    for step in first["schedule"]:
        row = mine["timeline"][step["layer"]]
        assert row["chiplet"] == step["chiplet"]
        np.testing.assert_allclose([row["start_s"], row["end_s"]], [step["start_s"], step["end_s"]], atol=1e-15)


@pytest.mark.slow
def test_a_design_goes_to_timeloop_and_back(results, tmp_path):
    document = json.loads((results / "designs.json").read_text())
    simba = [d for d in document["designs"] if {chip["template"] for chip in d["chiplets"]} == {"simba"}]
    document["designs"] = simba[:1]  # every layer has wires to count, and all have the same levels
    (tmp_path / "first.json").write_text(json.dumps(document))
    out = ["--out", str(tmp_path / "first.csv"), "--timeloop", str(tmp_path / "timeloop")]
    assert main(["evaluate", "designs", str(tmp_path / "first.json"), *out]) == 0
    rows = table(tmp_path / "timeloop" / "index.csv")
    assert [r["layer"] for r in rows] == [x["name"] for x in document["layers"]]
    samples = []
    for row in rows:
        folder = tmp_path / "timeloop" / row["folder"]
        given = read_timeloop(*folder.glob("*.yaml"), *folder.parent.glob("*.yaml"))
        samples.append(Sample(row["folder"], given.architecture, given.shape, given.mapping))
    levels = max(len(s.architecture.level_names) for s in samples)
    chosen = [n for n, s in enumerate(samples) if len(s.architecture.level_names) == levels]
    found, _ = predict([samples[n] for n in chosen], links=False)
    column = {k: np.asarray([float(rows[n][k]) for n in chosen]) for k in ("cycles", "energy_pJ", "wires_pJ")}
    assert np.any(column["wires_pJ"] > 0)
    assert np.all(found.reason == 0)
    np.testing.assert_array_equal(found.cycles.total, column["cycles"])
    np.testing.assert_allclose(found.energy.network.sum(axis=1), column["wires_pJ"], rtol=1e-9)
    np.testing.assert_allclose(found.energy.total, column["energy_pJ"], rtol=1e-9)
