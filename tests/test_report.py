"""Reports and traces: a design is told in full, nothing is fetched, no name is used as markup, and files stay small."""

import csv
import dataclasses
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from report_cases import CONFIG, HISTORY, HOSTILE, NAMES, called, hostile, made_up, rows_of, unpacked
from toy_designs import toy_designs

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.hardware import load_technology, packaged_technologies, technology_called, technology_hash
from mohamjax.io import evaluate_designs, write_design_trace
from mohamjax.io.results import write_front_files
from mohamjax.mapping import loop_nest
from mohamjax.page import Result, contents, page
from mohamjax.page.charts import charts
from mohamjax.page.data import spread
from mohamjax.reports import _names, write_report
from mohamjax.schedule import Certificate, FrontCurves, Staircase, landmarks
from mohamjax.schedule.measures import measure_named
from mohamjax.schedule.view import design_view


@pytest.fixture(scope="module")
def evaluated():
    return toy_designs()


@pytest.fixture
def folder(tmp_path, evaluated):
    out = tmp_path / "toy"
    out.mkdir()
    write_front_files(out, evaluated, HISTORY, CONFIG)
    return out


def test_a_target_opens_the_page_on_the_design_that_it_recommends(folder, evaluated):
    out = folder.parent / "page.html"
    slow = float(np.median(evaluated.reports.objectives[:, 0]))
    target = f"latency<={slow!r}s"
    decision = mj.decide(folder, target)
    assert 1 < len(decision.kept) < len(evaluated)
    assert main(["report", str(folder), "--out", str(out), "--details", "0", "--target", target]) == 0
    (told,) = unpacked(out.read_text(encoding="utf-8"))["results"]
    assert told["opens"] == told["roles"][f"recommended for {target}"] == decision.named["smallest"]
    assert {str(told["opens"]), str(decision.named["fastest"])} <= set(told["designs"])
    write_report([folder], out, details=0, target="latency<=1e-12s")
    (told,) = unpacked(out.read_text(encoding="utf-8"))["results"]
    assert told["opens"] == told["roles"]["nearest to latency<=1e-12s"]
    write_report([folder], out, details=0)
    (told,) = unpacked(out.read_text(encoding="utf-8"))["results"]
    assert told["opens"] == told["roles"]["knee"]


def test_a_design_may_be_named_with_its_folder(folder, evaluated, capsys):
    other, out = folder.parent / "other", folder.parent / "page.html"
    other.mkdir()
    write_front_files(other, evaluated, HISTORY, CONFIG)
    for name, whole in (("other/1", [[], ["1"]]), ("1", [["1"], ["1"]])):
        write_report([folder, other], out, details=0, designs=[name])
        told = unpacked(out.read_text(encoding="utf-8"))["results"]
        assert [list(one["designs"]) for one in told] == whole
    assert main(["report", str(folder), "--design", "other/1", "--out", str(out)]) == 2
    assert "FOLDER/ID with a folder of toy" in capsys.readouterr().err


@pytest.mark.slow
def test_results_of_own_technologies_need_no_other_file(tmp_path, monkeypatch, capsys):
    """Two of them are compared on one page; older results, which hold no tables, use the technologies given."""
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    folders, files = [], []
    for name, factor in (("small", 0.5), ("large", 2.0)):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(f"scale: {{energy: {factor}}}\n")
        technology = load_technology(files[-1])
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        named = {"technology": None if factor == 0.5 else files[-1].name}
        config = CONFIG | {"technology_hash": technology_hash(technology), "inputs": named}
        write_front_files(folders[-1], toy_designs(technology), HISTORY, config)
    energies = []
    for folder in folders:
        assert main(["evaluate", "designs", str(folder / "designs.json"), "--out", "table.csv"]) == 0
        energies.append(
            [float(row["energy_J"]) for row in csv.DictReader(pathlib.Path("table.csv").read_text().splitlines())]
        )
    assert np.all(np.asarray(energies[1]) > 1.5 * np.asarray(energies[0]))
    both, given = [*map(str, folders)], [word for file in files for word in ("--technology", str(file))]
    assert main(["report", *both, "--out", "page.html"]) == 0
    told = [
        dict(result["facts"])["technology"]
        for result in unpacked(pathlib.Path("page.html").read_text("utf-8"))["results"]
    ]
    assert re.fullmatch("[0-9a-f]{64}", told[0]) and re.fullmatch(r"large\.yaml \(figures [0-9a-f]{12}\)", told[1])
    names = packaged_technologies()
    assert [technology_called(technology_hash(load_technology(name))) for name in names] == [*names]
    assert main(["plot", both[0], "--out", "figures"]) == 0
    for folder in folders:
        document = json.loads((folder / "designs.json").read_text())
        del document["technology"]["tables"]
        (folder / "designs.json").write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["plot", both[0], "--out", "figures"]) == 2
    assert "give those tables with --technology" in capsys.readouterr().err
    assert main(["plot", both[0], "--out", "figures", *given[:2]]) == 0
    assert main(["report", *both, "--out", "page.html", *given[:2]]) == 2
    assert main(["report", *both, "--out", "page.html", *given]) == 0
    capsys.readouterr()
    assert main(["report", *both, "--out", "page.html", *given, "--technology", "32nm"]) == 2
    assert "--technology: no results here were made with 32nm; name the one that" in capsys.readouterr().err


# ---------------------------------------------------------------- what it says


def test_a_design_is_told_whole(evaluated):
    front = [
        {"design_id": str(i), "latency_s": row[0], "energy_J": row[1], "area_mm2": row[2]}
        for i, row in enumerate(np.asarray(evaluated.objectives).tolist())
    ]
    result = Result(
        "toy", "toy", "search", front, evaluated=evaluated, place={str(i): i for i in range(len(evaluated))}
    )
    (told,) = contents([result], most=10)["results"]
    assert told["ids"] == ["0", "1", "2"] and sorted(told["designs"]) == ["0", "1", "2"]
    application = evaluated.application
    assert [layer["name"] for layer in told["layers"]] == [layer.name for layer in application.layers]
    assert sum(layer["macs"] for layer in told["layers"]) == sum(layer.shape.macs for layer in application.layers)
    unique = np.asarray(application.unique_of_layer)
    for i in range(len(evaluated)):
        design, row = told["designs"][str(i)], front[i]
        end = np.asarray(design["start_ns"]) + design["length_ns"]
        assert end.max() == round(row["latency_s"] * 1e9)
        assert sum(design["energy_J"]) == pytest.approx(row["energy_J"], rel=1e-3)
        assert sum(sum(chip["energy"]) for chip in design["chiplets"]) == pytest.approx(row["energy_J"], rel=1e-5)
        areas = [mm2 for chip in design["chiplets"] for _, mm2 in chip["area"]]
        assert sum(areas) == pytest.approx(row["area_mm2"], rel=1e-5)
        macs = np.array([layer.shape.macs for layer in application.layers])
        np.testing.assert_allclose(design["macs_per_cycle"], macs / design["length_ns"], rtol=2e-3)  # a cycle is 1 ns
        assert all(0 < share <= 1 for share in design["utilisation"])
        assert sum(layers for _, layers, *_ in design["types"]) == len(macs)
        assert all(
            sum(shares) == pytest.approx(1, abs=1e-4) for *_, a, b, c in design["types"] for shares in [(a, b, c)]
        )
        one = evaluated.take(np.asarray([i])).designs
        for layer, number in enumerate(design["nest"]):
            nest = told["nests"][number]
            t = int(one.template[0, one.assignment[0, layer]])
            at = int(unique[layer]), t, int(one.mapping[0, layer])
            mapping = type(evaluated.tables.mapping)(
                **{
                    field.name: np.asarray(getattr(evaluated.tables.mapping, field.name)[at])
                    for field in dataclasses.fields(evaluated.tables.mapping)
                }
            )
            bounds = application.layers[layer].shape.bounds
            assert nest["text"] == loop_nest(mapping, evaluated.templates[t].level_names, bounds)
            assert nest["template"] == t
    assert len({nest["text"] for nest in told["nests"]}) > 1
    spreaded = told["designs"]["0"]  # its interfaces are slow: layers are slowed down, and traffic reaches the limit
    assert spreaded["slowed"] and all(0 < piece[3] < 1 for piece in spreaded["slowed"])
    interfaces = [one for one in spreaded["traffic"] if one["name"].startswith("interface")]
    assert max(max(one["rate"]) for one in interfaces) == pytest.approx(interfaces[0]["bandwidth"])
    bytes_read = sum(told["nests"][number]["bytes"] for number in spreaded["nest"])
    flown = sum(np.dot(one["rate"][:-1], np.diff(one["from_ns"])) * 1e-9 for one in interfaces)
    assert flown == pytest.approx(bytes_read, rel=1e-3)


def test_whole_numbers_are_told_whole():
    exact = {"n_my_s": [131072, 12345678], "macs": [2.0**52, 0.0], "share": [1 / 3, 12345678.9]}
    front = [{"design_id": str(i), **{name: values[i] for name, values in exact.items()}} for i in range(2)]
    front = [{**row, "latency_s": 1.0, "energy_J": 1.0, "area_mm2": 1.0} for row in front]
    (told,) = contents([Result("toy", "toy", "search", front)], most=0)["results"]
    assert {name: told["columns"][name] for name in exact} == {**exact, "share": [0.3333333, 12345680.0]}


def test_evaluations_are_told_exactly():
    """They are whole numbers of up to billions, of which six digits are not enough."""
    counts = [64.0, 999_999.0, 1_234_567.0, 98_765_432_101.0]
    history = [{"evaluations": count, "hypervolume": 0.123456789} for count in counts]
    front = [{"design_id": "0", "latency_s": 1.0, "energy_J": 1.0, "area_mm2": 1.0}]
    (told,) = contents([Result("toy", "toy", "search", front, history)], most=0)["results"]
    assert told["history"] == {"evaluations": counts, "hypervolume": [0.123457] * 4}
    assert json.dumps(told["history"]["evaluations"]) == "[64, 999999, 1234567, 98765432101]"
    (told,) = contents([Result("toy", "toy", "search", front)], most=0)["results"]
    assert told["history"] == {"evaluations": [], "hypervolume": []}


NODE = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js to run parts of the page's script")


def parsed_in_script(value):
    """A value as an expression of JavaScript, read as the page reads it."""
    return f"JSON.parse({json.dumps(json.dumps(value))})"


def in_node(*parts, code, before=""):
    """What code prints after parts of the page's script, each given by its first words and the first words after it."""
    script = (pathlib.Path(mj.__file__).parent / "page" / "page.js").read_text(encoding="utf-8")
    cut = [script[script.index(first) : script.index(after, script.index(first))] for first, after in parts]
    whole = "\n".join([before, *cut, code])
    done = subprocess.run(["node", "-"], input=whole, capture_output=True, text=True, timeout=60, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@NODE
@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("n_pe", 131072, "131072"),
        ("n_my_s", 2, "2"),
        ("worst_lateness_s", 0.0021234567, "2.123 ms"),
        ("energy_J", 1, "1 J"),
        ("area_mm2", 123.456789, "123.46"),
        ("dataflow", "os", "os"),
    ],
)
def test_values_have_the_digits_and_units_of_their_columns(name, value, shown):
    code = f"console.log(written({json.dumps(name)}, {json.dumps(value)}))"
    assert in_node(("const PREFIXES", "function heading"), code=code).strip() == shown


@NODE
@pytest.mark.parametrize("leaks", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_shares_of_energy_are_of_the_whole_with_its_leakage(evaluated, leaks):
    """Of chiplets and of networks they add up to 100 %, and are those of the numbers that the report was made of."""
    if leaks:
        evaluated = toy_designs(load_technology(static_energy=True))
    (result,) = contents([made_up(evaluated, 3)], most=3)["results"]
    assert ("leakage" in result["parts"]) == leaks
    for i in range(3):
        view = design_view(evaluated, i)
        code = f"""
          const report = {{ cycle_s: 1e-9 }}, tables = {{}}, $ = (id) => id;
          const told = (head, body) => body.map((line) => [line[0], line[head.indexOf("energy")]]);
          const fill = (table, head, body) => (tables[table] = told(head, body));
          const result = {parsed_in_script(result)}, design = result.designs[{i}];
          const about = tell(result, design, {{ values: {{}} }});
          writeChiplets(result, design, about);
          writeNetworks(result, design, about);
          console.log(JSON.stringify(tables));"""
        parts = [
            ("const PREFIXES", "function heading"),
            ("/** Data of the charts of a design", "async function drawSchedule"),
            ("const sum = ", "/** The roofline of every"),
            ("const size = (bytes)", "/** The chiplets on the mesh"),
            ("function writeChiplets", "function writeTypes"),
        ]
        tables = json.loads(in_node(*parts, code=code))
        shares = {name: [float(re.search(r"\((.*) %\)", text)[1]) for _, text in rows] for name, rows in tables.items()}
        whole, rows = view.objectives[1], np.arange(len(view.bars))
        own = [sum(joule for _, joule in chip.energy_J) for chip in view.chiplets]
        np.testing.assert_allclose(shares["chiplets"], 100 * np.asarray(own) / whole, atol=0.06)
        of = [sum(view.bars[k].energy_J for k in rows if view.bars[k].network == n) for n in range(len(view.networks))]
        leaked = [sum(dict(chip.energy_J)["leakage"] for chip in view.chiplets)] if leaks else []
        np.testing.assert_allclose(shares["networks"], 100 * np.asarray([*of, *leaked]) / whole, atol=0.06)
        assert sum(of) < 0.995 * whole if leaks else sum(of) == pytest.approx(whole)
        assert [name for name, _ in tables["networks"]] == ["a", "b", *["(leakage of the chiplets)"] * leaks]


@pytest.mark.parametrize("count", [1, 4, 9, 30, 40])
def test_designs_told_whole_stand_for_the_front(evaluated, count):
    objectives = made_up(evaluated, 30).objectives
    chosen = spread(objectives, count)
    assert len(set(chosen)) == len(chosen) == min(count, 30)
    assert set(chosen) >= set(landmarks(objectives).values()) or count < 4
    assert spread(np.ones((6, 3)), 3) and len(set(spread(np.ones((6, 3)), 5))) == 5


def test_details_are_shared_out_and_wanted_designs_always_there(evaluated):
    small, large = made_up(evaluated, 3, "small"), made_up(evaluated, 40, "large")
    told = contents([large, small], most=13, always=[("large", "17"), ("large", "18")])["results"]
    whole = [set(result["designs"]) for result in told]
    assert len(whole[1]) == 3 and {"17", "18"} <= whole[0] and 10 <= len(whole[0]) <= 12
    assert not contents([small], most=0)["results"][0]["designs"]
    lost = dataclasses.replace(small, place={"1": 0})  # the other two cannot be evaluated
    assert set(contents([lost], most=3)["results"][0]["designs"]) == {"1"}


def test_fronts_are_compared(evaluated):
    front = rows_of(evaluated, 6)
    worse = [{**row, "latency_s": 2 * row["latency_s"]} for row in front]
    worse[0] |= {"latency_s": front[0]["latency_s"] / 100}  # no design dominates it
    told = contents([Result(name, "", "search", rows) for name, rows in (("a", front), ("b", worse))], most=0)[
        "results"
    ]
    assert told[1]["undominated"] == 1
    assert 0 < told[0]["undominated"] <= 6
    assert contents([Result("a", "", "search", front)], most=0)["results"][0]["undominated"] is None


def test_bounds_surround_the_front(evaluated):
    rows = rows_of(evaluated, 20)
    low = np.asarray([[row[k] for k in ("latency_s", "energy_J", "area_mm2")] for row in rows]).min(axis=0)
    pairs = {"latency_of_area": (2, 0), "energy_of_area": (2, 1), "energy_of_latency": (0, 1)}
    curves = {
        name: Staircase(at=np.asarray([low[a] / 2, 3 * low[a]]), least=np.asarray([3 * low[b], low[b] / 2]))
        for name, (a, b) in pairs.items()
    }
    certificate = Certificate(FrontCurves(**curves), 0.25, 0.5, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    told = contents([Result("a", "", "search", rows, certificate=certificate)], most=0)["results"][0]
    assert dict(told["facts"])["certified gap"].startswith("at most 50.0 %")
    for (x, y), curve in zip(((0, 1), (0, 2), (1, 2)), told["bounds"], strict=True):
        corners = {(round(a / low[x], 3), round(b / low[y], 3)) for a, b in zip(curve["x"], curve["y"], strict=True)}
        assert {(0.5, 3.0), (3.0, 3.0), (3.0, 0.5)} <= corners
        assert max(curve["x"]) > 3.1 * low[x] and max(curve["y"]) > 3.1 * low[y]


# ---------------------------------------------------------------- the page


class Markup(html.parser.HTMLParser):
    """Records tags and their attributes, and fails on tags that are not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "hr", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data):
        if self.open[-1:] != ["script"] and self.open[-1:] != ["style"]:
            self.texts.append(data)


def parsed(text):
    markup = Markup()
    markup.feed(text)
    markup.close()
    assert not markup.open
    return markup


def test_the_page_fetches_nothing_and_no_name_is_markup(evaluated):
    text = page(contents([hostile(evaluated), made_up(evaluated, 5)], most=10), HOSTILE)
    markup = parsed(text)
    assert [attrs.get("id") for tag, attrs in markup.tags if tag == "script"] == ["data", None, None]
    assert not [tag for tag, _ in markup.tags if tag in ("img", "link", "iframe", "object", "base", "form")]
    for tag, attrs in markup.tags:
        assert "src" not in attrs and not [name for name in attrs if name.startswith("on")], (tag, attrs)
        assert attrs.get("href", "#").startswith("#")
    (policy,) = [attrs["content"] for _, attrs in markup.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy and "connect-src" not in policy
    assert "@import" not in text and "url(" not in text.split("<style>")[1].split("</style>")[0]
    ids = [attrs["id"] for _, attrs in markup.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    labels = {w for _, a in markup.tags for k in ("aria-labelledby", "aria-describedby") for w in a.get(k, "").split()}
    assert labels <= set(ids)
    assert any(HOSTILE in said for said in ["".join(markup.texts)])
    data = unpacked(text)
    assert data["results"][0]["ids"] == [HOSTILE + str(i) for i in range(5)]
    assert set(data["charts"]) == set(charts())
    assert data["format"] == "report/1"


def test_equal_contents_give_equal_pages(evaluated):
    told = contents([made_up(evaluated, 5)], most=5)
    assert page(told, "x") == page(json.loads(json.dumps(told)), "x")


@pytest.mark.slow
def test_5000_designs_and_512_whole_ones_of_176_layers_stay_below_10_MB(evaluated):
    told = contents([made_up(evaluated, 5000)], most=3)
    (result,) = told["results"]
    rng = np.random.default_rng(0)
    layers, chiplets = 176, 8
    (like, *_) = result["designs"].values()
    result["layers"] = [{**result["layers"][0], "name": f"/block{i}/conv{i % 7}/Conv"} for i in range(layers)]
    texts = [like_nest["text"] for like_nest in result["nests"]]
    result["nests"] = [
        {"template": 0, "text": f"{texts[i % len(texts)]}\n{rng.integers(1 << 30)}", "alone_s": 1e-3, "bytes": i}
        for i in range(4000)
    ]
    steps = 60
    for i in range(512):
        result["designs"][str(i)] = {
            "chiplets": [like["chiplets"][0]] * chiplets,
            "chiplet": rng.integers(chiplets, size=layers).tolist(),
            "nest": rng.integers(4000, size=layers).tolist(),
            "start_ns": rng.integers(10**8, size=layers).tolist(),
            "length_ns": rng.integers(10**6, size=layers).tolist(),
            "energy_J": [float(f"{x:.4g}") for x in rng.random(layers)],
            "macs_per_cycle": [float(f"{x:.4g}") for x in rng.random(layers)],
            "utilisation": [float(f"{x:.4g}") for x in rng.random(layers)],
            "types": [["conv", layers, 1e-3, 100.0, 0.5, 0.9, 0.05, 0.05]],
            "slowed": [[*rng.integers(10**7, size=3).tolist(), 0.123, "memory interface"] for _ in range(layers)],
            "traffic": [
                {"name": f"interface {k}", "bandwidth": 4e9, "rate": [float(f"{x:.4g}") for x in rng.random(steps)],
                 "from_ns": np.sort(rng.integers(10**8, size=steps)).tolist()}
                for k in range(5 + chiplets)
            ],
        }  # fmt: skip
    text = page(told, "large")
    assert len(text.encode()) < 10e6
    assert unpacked(text)["results"][0]["ids"] == [str(i) for i in range(5000)]
    few = page(contents([made_up(evaluated, 5)], most=5), "small")
    assert len(few.encode()) < 2e6


STANDING_IN = {
    **{f"objective_{k}_{end}": 1.0 for k in range(3) for end in ("low", "high")},
    **{f"objective_{k}_ticks": [1.0, 10.0] for k in range(3)},
    "columns": 3, "results": ["a"], "width": 300, "height": 200, "point": 20, "ink": "#000",
    "lanes": ["0 simba (M0)"], "networks": ["n"], "gantt": 50, "latency": 1.0, "foot": 9, "resources": 50, "rows": 2,
    "middles": [0.5, 1.5], "names": ["interface 0", "DRAM"], "stacks": 40, "energyParts": ["MACs"],
    "areaParts": ["MACs"], "paper": "#fff",
}  # fmt: skip


def filled(node):
    """A chart with values in the place of what the page fills in."""
    if isinstance(node, str) and node.startswith("$"):
        return STANDING_IN[node[1:]]
    if isinstance(node, list):
        return [filled(item) for item in node]
    return {k: v if k == "$schema" else filled(v) for k, v in node.items()} if isinstance(node, dict) else node


@pytest.mark.parametrize("name", sorted(charts()))
def test_charts_are_vega_lite(name):
    convert = pytest.importorskip("vl_convert", reason="the extra `report` is not installed")
    vega = convert.vegalite_to_vega(filled(charts()[name]))
    signals = {signal["name"] for signal in vega.get("signals", ())}
    data = {data["name"] for data in vega["data"]}
    if name == "front":  # names that the page listens to or sets
        assert {"brush", "objective_0_low", "objective_2_high", "objective_1_ticks"} <= signals and {
            "designs",
            "current",
            "bounds",
        } <= data
        # One selection over all three projections.
        assert ["brush_store" in json.dumps(mark) for mark in vega["marks"] if mark["type"] == "group"] == [True] * 3
    if name == "schedule":
        assert {"picked", "zoom_start"} <= signals and {"bars", "slowed", "traffic"} <= data
        assert sum("zoom[" in json.dumps(scale) for scale in vega["scales"]) == 2  # both time axes


@NODE
@pytest.mark.parametrize("names", [*NAMES, ("energy", "energy", "area")])
def test_the_front_is_drawn_whatever_its_objectives_are_called(evaluated, names):
    """What the page gives the chart, signals and fields, is what the chart asks for; designs keep their own fields."""
    convert = pytest.importorskip("vl_convert", reason="the extra `report` is not installed")
    told = contents([called(evaluated, 5, names), called(evaluated, 3, names, "other")], most=0)
    rows, limits = json.loads(
        in_node(
            ("const OBJECTIVES", "const byKey"),
            ("/** Limits and ticks of the axes for", "function refreshFront"),
            before=f"const report = {parsed_in_script(told)}, results = report.results, ticks = () => [1, 10];",
            code="const state = { shown: rows }; console.log(JSON.stringify([rows, limits()]));",
        )
    )
    own = [tuple(row[name] for name in ("key", "r", "i", "result", "id", "whole")) for row in rows]
    counts = enumerate([("called", 5), ("other", 3)])
    assert own == [(f"{r}:{i}", r, i, name, str(i), False) for r, (name, count) in counts for i in range(count)]
    chart = charts(told["objectives"])["front"]
    assert {param["name"] for param in chart["params"]} == {*limits, "brush"}
    fields = [f"objective_{k}" for k in range(len(names))]
    for row in rows:
        values = [told["results"][row["r"]]["columns"][measure_named(name).column][row["i"]] for name in names]
        assert [row[field] for field in fields] == values
        for field, value in zip(fields, values, strict=True):
            assert limits[f"{field}_low"] < value < limits[f"{field}_high"]
    chart = filled(chart)
    vega = convert.vegalite_to_vega(chart)
    inner = [signal for group in vega["marks"] for signal in group.get("signals", ())]
    brushed = [signal["value"] for signal in inner if signal["name"] == "brush_tuple_fields"]
    assert {field["field"] for pair in brushed for field in pair} == set(fields)
    # The whole chart is drawn, with a point in each of the projections for each design.
    chart["params"] = [{**one, "value": limits[one["name"]]} if "value" in one else one for one in chart["params"]]
    drawn = convert.vegalite_to_svg(chart | {"datasets": {"designs": rows, "current": rows[:1], "bounds": []}})
    pairs = len(names) * (len(names) - 1) // 2
    assert len(re.findall(r'aria-roledescription="point"', drawn)) == pairs * (len(rows) + 1)


# ---------------------------------------------------------------- the command


def test_the_command_writes_one_page_of_several_folders(folder, evaluated, tmp_path, capsys):
    other = tmp_path / "elsewhere" / "toy"
    other.mkdir(parents=True)
    write_front_files(other, evaluated.take(np.asarray([0, 2])), HISTORY, CONFIG)
    hardware = tmp_path / "hardware"
    hardware.mkdir()
    write_front_files(hardware, evaluated.take(np.asarray([1])), HISTORY, CONFIG)
    settings = {"format": "codesign/1", "scenario": "toy", "space": "s", "search": {"budget": "ci", "seed": 1}}
    (hardware / "config.yaml").write_text(yaml.safe_dump(settings))
    (hardware / "history.csv").write_text("batch,evaluations,seconds,hypervolume,front_size\n0,10,1.5,0.25,1\n")
    front = (hardware / "front.csv").read_text().splitlines()
    (hardware / "front.csv").write_text(f"{front[0]},power_W,dataflow\n{front[1]},0.5,os\n")
    out = tmp_path / "deep" / "page.html"
    assert main(["report", str(folder), str(other), str(hardware), "--out", str(out), "--title", "a < b"]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    text = out.read_text(encoding="utf-8")
    assert "<title>a &lt; b</title>" in text
    results = unpacked(text)["results"]
    assert [result["name"] for result in results] == ["toy (1)", "toy (2)", "hardware"]
    assert [result["kind"] for result in results] == ["search", "search", "codesign"]
    assert [len(result["designs"]) for result in results] == [3, 2, 1]
    assert results[2]["columns"]["power_W"] == [0.5] and results[2]["columns"]["dataflow"] == ["os"]
    assert results[2]["title"] == "toy, budget ci, seed 1"
    facts = dict(results[0]["facts"])
    assert facts["seed"] == "3" and "jax 1.2.3" in facts["versions"] and facts["time of the search"] == "2.0 s"
    assert yaml.safe_load(results[0]["config"])["technology_hash"] == "abcd"
    assert results[0]["columns"]["latency_s_a"]


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["x/a", "y/a", "z/a (1)"], ["a (2)", "a (3)", "a (1)"]),
        (["x/a", "y/a", "x/a (1)", "y/a (1)"], ["a (2)", "a (3)", "a (1) (1)", "a (1) (2)"]),
        (["x/a", "y/b"], ["a", "b"]),
    ],
)
def test_results_have_names_of_their_own(folders, names):
    assert _names([SimpleNamespace(folder=pathlib.Path("/") / folder) for folder in folders]) == names


def test_the_page_goes_into_its_folder_and_details_can_be_chosen(folder, capsys):
    assert main(["report", str(folder), "--details", "0", "--design", "1"]) == 0
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert set(unpacked(text)["results"][0]["designs"]) == {"1"}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_names_that_are_no_utf8_are_refused_with_what_helps(folder, capsys, monkeypatch):
    monkeypatch.setattr("mohamjax.reports.evaluate_results", None)  # refused before the work is done
    bad = folder.with_name("b\udcff")
    folder.rename(bad)
    told = "has a name that is not written in UTF-8, which a page cannot show; rename the folder\n"
    for name in (str(bad), f"{bad}/", f"{bad}/../{bad.name}"):
        assert main(["report", name]) == 2  # pytest's standard error cannot take the name, as ours can
    monkeypatch.chdir(bad)
    folder.symlink_to(bad)
    for name in (".", "../toy"):
        assert main(["report", name]) == 2
        assert capsys.readouterr().err == f"mohamjax: {name}: {told}"
    folder.unlink()
    bad.rename(folder)
    assert main(["report", str(folder), "--title", "a\udcff"]) == 2
    assert "--title: is not written in UTF-8; give another title\n" in capsys.readouterr().err


def test_what_is_missing_is_told(folder, tmp_path, capsys, monkeypatch):
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["report", str(folder), "--design", "77"]) == 2
    assert "design 77" in capsys.readouterr().err
    (folder / "designs.json").write_text("{}")
    assert main(["report", str(folder)]) == 2
    assert "designs.json" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    from mohamjax.page.document import plotting_library

    plotting_library.cache_clear()
    assert main(["report", str(folder)]) == 2
    assert 'pip install "mohamjax[report]"' in capsys.readouterr().err
    assert not (folder / "report.html").exists()


# ---------------------------------------------------------------- traces


def test_a_trace_has_chiplets_and_resources_as_tracks_and_bandwidths_as_counters(evaluated, tmp_path):
    write_design_trace(tmp_path / "trace.json", evaluated, ["x", "y", "z"])
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert [name.split(":")[0] for name in processes.values()] == ["design x", "design y", "design z"]
    tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    order = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert set(order) == set(tracks)
    for k, pid in enumerate(processes):
        view = design_view(evaluated, k)
        mine = [tracks[at] for at in sorted(tracks, key=order.get) if at[0] == pid]
        assert [name.split(":")[0] for name in mine[: len(view.chiplets)]] == [
            f"chiplet {c}" for c in range(len(view.chiplets))
        ]
        resources = mine[len(view.chiplets) :]
        assert {name.split(" ")[0] for name in resources} == {"interface", "DRAM", "link"}
        assert sum(name.startswith("link of chiplet") for name in resources) == len(view.chiplets)
        assert any("unlimited" in name for name in resources) and any("0.25 GB/s" in name for name in resources)
        layers = [e for e in events if e["ph"] == "X" and e["pid"] == pid and e["cat"] in view.networks]
        assert sorted(e["name"] for e in layers) == sorted(bar.name for bar in view.bars)
        assert max(e["ts"] + e["dur"] for e in layers) == pytest.approx(
            view.objectives[0] * 1e6, abs=1e-3
        )  # in whole ns
        counters = {e["name"] for e in events if e["ph"] == "C" and e["pid"] == pid}
        assert counters == {f"{traffic.name} bandwidth" for traffic in view.traffic}
        moved = [e["args"]["bytes"] for e in events if e["pid"] == pid and e.get("cat") == "traffic"
                 and tracks[pid, e["tid"]].startswith("interface")]  # fmt: skip
        assert sum(moved) == pytest.approx(sum(bar.offchip_bytes for bar in view.bars), rel=1e-6)
    for at in tracks:  # slices of a track are disjoint or nested
        open_until = []
        slices = [(e["ts"], -e["dur"]) for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == at]
        assert slices
        for start, less in sorted(slices):
            while open_until and open_until[-1] <= start + 1e-6:
                open_until.pop()
            assert not open_until or start - less <= open_until[-1] + 1e-6
            open_until.append(start - less)
    for event in events:
        if event["ph"] == "C":
            assert set(event["args"]) == {"GB/s"} and event["args"]["GB/s"] >= 0 and event["ts"] >= 0


def test_some_designs_of_a_file_are_evaluated_and_traced(folder, tmp_path, capsys, monkeypatch):
    trace, table = tmp_path / "t.json", tmp_path / "t.csv"
    command = ["evaluate", "designs", str(folder / "designs.json"), "--trace", str(trace), "--out", str(table)]
    assert main([*command, "--design", "2", "--design", "0"]) == 0
    events = json.loads(trace.read_text())["traceEvents"]
    names = [e["args"]["name"].split(":")[0] for e in events if e["name"] == "process_name"]
    assert names == ["design 0", "design 2"]
    assert [line.split(",")[0] for line in table.read_text().splitlines()] == ["design_id", "0", "2"]
    with monkeypatch.context() as without:
        without.setattr("mohamjax.io.designs.reevaluate", None)  # the error is reported before it is called
        assert main([*command, "--design", "2", "--design", "9"]) == 2
        assert "design 9" in capsys.readouterr().err
        assert main([*command[:3], "--explain", "1", "--design", "2", "--design", "0"]) == 2
        told = "--explain: design 1 is none of those that --design leaves: 2, 0; name it with --design, too, or give"
        assert told in capsys.readouterr().err
    assert main([*command[:3], "--explain", "0", "--design", "2", "--design", "0"]) == 0
    assert capsys.readouterr().out.startswith("design 0: ")
    rows, evaluated = evaluate_designs(folder / "designs.json")
    assert len(rows) == len(evaluated) == 3
