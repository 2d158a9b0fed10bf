"""`mohamjax map`: what it prints and writes, a user's own mappings, whole networks."""

import itertools
import json
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mapping_cases import TECHNOLOGY, TEMPLATES, violations
from workload_models import info, model, node, save, weight

from mohamjax import cli, plot
from mohamjax.cli.map import _draw_mappings
from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, resize, template_arrays, with_word_bits
from mohamjax.io import evaluate_nests, given_mappings
from mohamjax.mapper.exhaustive import space_size
from mohamjax.mapper.network_level import NetworkConfig, NetworkSets, choose_mappings
from mohamjax.mapping import ArraySizes, MappingTables, Wires, area
from mohamjax.schedule import Setup
from mohamjax.schedule.fluid import predecessor_bits, simulate
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape, load_scenario


def setup(application, template):
    return Setup(application, (template,), TECHNOLOGY, PackageParameters())


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Two convolutions of one shape and one of another, small enough to enumerate."""
    nodes = [
        node("Conv", "x w1", "a", name="first", kernel_shape=[1, 1]),
        node("Conv", "a w2", "b", name="second", kernel_shape=[1, 1]),
        node("Conv", "b w3", "y", name="third", kernel_shape=[1, 1]),
    ]
    weights = [weight("w1", [8, 8, 1, 1]), weight("w2", [8, 8, 1, 1]), weight("w3", [4, 8, 1, 1])]
    folder = tmp_path_factory.mktemp("network")
    return save(folder, model(nodes, [info("x", [1, 8, 4, 4])], ["y"], weights), "net.onnx")


@pytest.fixture(scope="module")
def mapped(network, tmp_path_factory):
    """Folder with everything that one run writes."""
    folder = tmp_path_factory.mktemp("mapped")
    code = cli.main(
        ["map", str(network), "--template", "simba", "--exhaustive", "--out", str(folder / "sets.json"),
         "--nests", str(folder / "nests.txt"), "--figure", str(folder / "figure.png"),
         "--timeloop", str(folder / "timeloop")]
    )  # fmt: skip
    assert code == 0
    return folder


@pytest.mark.slow
def test_sets_hold_what_the_rules_allow(mapped, network):
    report = json.loads((mapped / "sets.json").read_text())
    application = load_scenario([str(network)])
    assert [s["layers"] for s in report["sets"]] == [2, 1]
    given = given_mappings([[mapped / "sets.json"]], setup(application, TEMPLATES[1]))
    assert sorted(given) == [(0, 0), (1, 0)]
    for (u, _), mappings in given.items():
        assert len(mappings) == len(report["sets"][u]["mappings"])
        for mapping in mappings:
            unique = application.unique_layers[u]
            assert violations(mapping, 1, unique.shape, unique.type) == []


def test_files_for_people_and_for_timeloop(mapped, network):
    text = (mapped / "nests.txt").read_text()
    assert "net/first (conv, K=8 C=8 P=4 Q=4) on simba: fastest" in text and "parallel for" in text
    assert (mapped / "figure.png").read_bytes()[:4] == b"\x89PNG"
    folders = [path.parent for path in (mapped / "timeloop").glob("*/*/mapping.yaml")]
    report = json.loads((mapped / "sets.json").read_text())
    assert len(folders) == sum(len(s["mappings"]) for s in report["sets"])
    # A mapping comes back unchanged from Timeloop's files.
    application = load_scenario([str(network)])
    back = given_mappings([[sorted(folders)[0]]], setup(application, TEMPLATES[1]))
    own = given_mappings([[mapped / "sets.json"]], setup(application, TEMPLATES[1]))
    (pair, (nest,)) = next(iter(back.items()))
    same = [
        all(np.array_equal(getattr(nest, f), getattr(m, f)) for f in ("temporal", "spatial", "keep")) for m in own[pair]
    ]
    assert any(same)


def test_layers_of_one_name_are_all_drawn(tmp_path, monkeypatch):
    """Of two networks; the wider layer has more work and comes first. A single network need not be named."""

    def network(name, channels):
        shape = WorkloadShape(K=channels, C=8, P=4, Q=4)
        return Network(name, (Layer("conv", "conv", "conv", shape, 8, ()),))

    application = ApplicationModel("both", (network("narrow", 8), network("wide", 16)))
    alone = ApplicationModel("one", application.networks[1:])
    tables = SimpleNamespace(count=np.full((2, 1), 2), objectives=np.arange(1.0, 13.0).reshape(2, 1, 2, 3))
    figures, draw = [], plot.parallel_coordinates
    monkeypatch.setattr(plot, "parallel_coordinates", lambda *a, **b: figures.append(draw(*a, **b)) or figures[-1])
    for networks in (application, alone):
        one = SimpleNamespace(application=networks, templates=TEMPLATES[1:2])
        assert _draw_mappings(one, tables, tmp_path / "figure.png").stat().st_size > 5000
    titles = [[axes.get_title() for axes in figure.axes] for figure in figures]
    assert titles == [["wide: conv on simba", "narrow: conv on simba"], ["conv on simba"]]
    assert figures[0].axes[0].texts[0].get_text() == "7.00 ns"  # the least latency of the wider layer


def test_whole_networks_add_up(mapped):
    report = json.loads((mapped / "sets.json").read_text())
    (entry,) = report["networks"]
    assert entry["template"] == "simba" and entry["choices"]
    assert report["search"] == {
        "method": "exhaustive", "padding": True, "one_axis": False, "seed": 0, "networks": "chiplet",
    }  # fmt: skip
    sets = [report["sets"][u]["mappings"] for u in (0, 0, 1)]
    for choice in entry["choices"]:
        assert choice["mapping"][0] == choice["mapping"][1]  # layers of one shape share a mapping
        chosen = [s[m] for s, m in zip(sets, choice["mapping"], strict=True)]
        assert choice["latency_cycles"] == pytest.approx(sum(c["latency_cycles"] for c in chosen), rel=1e-5)
        assert choice["area_um2"] >= max(c["area_um2"] for c in chosen) * (1 - 1e-5)
        assert choice["energy_pJ"] >= sum(c["energy_pJ"] for c in chosen) * (1 - 1e-5)
    rows = np.array([[c["latency_cycles"], c["energy_pJ"], c["area_um2"]] for c in entry["choices"]])
    for a, b in itertools.permutations(rows, 2):
        assert not ((a <= b).all() and (a < b).any())


@pytest.mark.slow
def test_latencies_at_the_interface_are_those_of_a_layer_alone(mapped, network):
    """The fluid model gives the same for one job behind the default interface of 4 bytes per cycle."""
    report = json.loads((mapped / "sets.json").read_text())
    assert report["offchip_bytes_per_cycle"] == 4.0
    bound, free = 0, 0
    for entry in report["sets"]:
        for one in entry["mappings"]:
            bits = jnp.asarray(predecessor_bits([()], 1))
            timeline = simulate(
                jnp.array([one["latency_cycles"]]), jnp.array([one["offchip_bytes"]]), bits,
                jnp.zeros(1, int), jnp.zeros(1, int), jnp.ones((1, 1), bool), jnp.array([4.0]), jnp.array([16.0]),
                jnp.ones(1, bool),
            )  # fmt: skip
            assert one["latency_interface_cycles"] == pytest.approx(float(timeline.makespan), rel=1e-6)
            bound += one["latency_interface_cycles"] > one["latency_cycles"]
            free += one["latency_interface_cycles"] == one["latency_cycles"]
    assert bound and free
    sets = [report["sets"][u]["mappings"] for u in (0, 0, 1)]
    for choice in report["networks"][0]["choices"]:
        alone = sum(s[m]["latency_interface_cycles"] for s, m in zip(sets, choice["mapping"], strict=True))
        assert choice["latency_interface_cycles"] == pytest.approx(alone)
    assert " at the interface, " in (mapped / "nests.txt").read_text()


@pytest.mark.slow
def test_a_package_has_its_interface_and_its_memory(mapped, network, tmp_path, capsys):
    package = tmp_path / "package.yaml"
    package.write_text("interface_bytes_per_cycle: 2\nlink_bytes_per_cycle: 1\nmemory: {type: HBM2}\n")
    out = tmp_path / "sets.json"
    command = ["map", str(network), "--template", "simba", "--exhaustive", "--out", str(out), "--package", str(package)]
    assert cli.main(command) == 0
    told = capsys.readouterr()
    assert "behind a memory of 1 GB/s" in told.out and "fastest on-chip [cycles]" in told.out
    assert "simba: the memory of the package, HBM2 at 3.9 pJ/bit, stands in" in told.err
    report, before = json.loads(out.read_text()), json.loads((mapped / "sets.json").read_text())
    assert report["offchip_bytes_per_cycle"] == 1.0
    for entry, old in zip(report["sets"], before["sets"], strict=True):
        for one in entry["mappings"]:
            assert one["latency_interface_cycles"] == max(one["latency_cycles"], one["offchip_bytes"])
        frugal = [min(m["energy_pJ"] for m in s["mappings"]) for s in (entry, old)]
        assert frugal[0] < frugal[1]


@pytest.mark.slow
def test_one_axis_leaves_every_dimension_one(network, tmp_path, capsys):
    out = tmp_path / "sets.json"
    assert cli.main(["map", str(network), "--template", "simba", "--exhaustive", "--one-axis", "--out", str(out)]) == 0
    application = load_scenario([str(network)])
    given = given_mappings([[out]], setup(application, TEMPLATES[1]))
    assert sorted(given) == [(0, 0), (1, 0)]
    for mapping in itertools.chain(*given.values()):
        assert not np.all(np.asarray(mapping.spatial) > 1, axis=0).any()
    # Four ways to give C and K one axis each, and each is less than the space of both.
    told = re.findall(r"on simba: ([\d,]+) mappings", capsys.readouterr().err)
    sizes = np.array([int(text.replace(",", "")) for text in told]).reshape(2, 4)
    whole = [space_size(layer, TEMPLATES[1], TECHNOLOGY).mappings for layer in application.unique_layers]
    assert (sizes < np.array(whole)[:, None]).all()


def _edit(document, change):
    document = json.loads(json.dumps(document))
    change(document)
    return document


def _factor(document):
    document["sets"][0]["mappings"][0]["levels"][-1]["temporal"]["factors"]["N"] = 7


def _shape(document):
    document["sets"][0]["bounds"]["K"] = 9


def _template(document):
    document["sets"][0]["template"] = "eyeriss"


def _format(document):
    document["format"] = "designs/1"


def _level(document):
    document["sets"][0]["mappings"][0]["levels"][0]["name"] = "Elsewhere"


def _width(document):
    document["sets"][0]["word_bits"] = 16


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_factor, "mappings[0]: the factors of N multiply to 7, the layer's bound is 1"),
        (_shape, "sets[0]: no layer of these networks has this type and shape"),
        (_template, "sets[0]: template 'eyeriss' is not among those mapped"),
        (_format, "give a file of format mappings/1"),
        (_level, "level is called 'Elsewhere'"),
        (_width, "sets[0]: is for operands of 16 bits, and those of simba here have 8; map for that width, or remove"),
    ],
)
def test_a_wrong_file_gets_its_reason(mapped, network, tmp_path, capsys, change, reason):
    document = _edit(json.loads((mapped / "sets.json").read_text()), change)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(document))
    assert cli.main(["map", str(network), "--template", "simba", "--inject", str(path)]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1 and "mine.json" in error[0] and reason in error[0]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--exhaustive", "--limit", "10"], "more than 10 mappings"),
        (["--figure", "sets.bmp"], "cannot be written as 'bmp'"),
        (["--inject", "nowhere.json"], "no such file"),
        (["--limit", "10"], "--limit: is for an enumeration"),
        (["--exhaustive", "--budget", "tiny"], "--budget"),
        (["--exhaustive", "--no-mapping-cache"], "--no-mapping-cache"),
        (["--exhaustive", "--inject", "mine.json"], "--inject"),
        (["--one-axis", "--inject", "mine.json"], "--inject"),
        (["--out", "-", "--nests", "-"], "--nests"),
        (["--figure", "/dev/null/x.png"], "--figure"),
        (["--timeloop", "-"], "--timeloop: cannot go to standard output; name a folder"),
    ],
)
def test_wrong_options_get_their_reason(network, capsys, options, reason):
    assert cli.main(["map", str(network), "--template", "simba", *options]) == 2
    assert reason in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.slow
def test_mappings_for_the_width_of_the_model_are_read_for_that_width(network, tmp_path):
    words = ["map", str(network), "--template", "simba", "--method", "cosa", "--technology", "45nm"]
    words += ["--word-bits", "model"]
    assert cli.main([*words, "--out", str(tmp_path / "sets.json")]) == 0
    report = json.loads((tmp_path / "sets.json").read_text())
    assert (report["search"]["word_bits"], report["search"]["technology"]) == ("model", "45nm")
    assert [own["word_bits"] for own in report["sets"]] == [32, 32]
    rows = evaluate_nests([tmp_path / "sets.json"])
    nests = [nest for own in report["sets"] for nest in own["mappings"]]
    for row, one in zip(rows, nests, strict=True):
        assert row["offchip_bytes"] == one["offchip_bytes"]
        assert row["energy_pJ"] == pytest.approx(one["energy_pJ"], rel=2e-5)
    application = load_scenario([str(network)])
    wide = setup(application, with_word_bits(TEMPLATES[1], 32))
    assert len(given_mappings([[tmp_path / "sets.json"]], wide)) == 2


def test_an_export_does_not_replace_mappings_that_are_injected(mapped, network, capsys):
    folder = next((mapped / "timeloop").glob("*/*/mapping.yaml")).parent
    words = ["--inject", str(folder), "--timeloop", str(mapped / "timeloop")]
    assert cli.main(["map", str(network), "--template", "simba", *words]) == 2
    told = f"--timeloop: holds the input {folder}, which the export could replace; name another folder"
    assert told in capsys.readouterr().err


def test_one_template_is_no_templates(network, capsys):
    cli.main(["map", str(network), "--template", "simba", "--exhaustive", "--limit", "10"])
    assert "of 2 unique layers on 1 template\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "item"),
    [
        (["workload", "NET", "--csv", "-", "--out", "layers.csv"], "--out"),
        (["templates", "show", "simba", "--example"], "simba"),
        (["templates", "show", "--example", "--yaml"], "--yaml"),
    ],
)
def test_options_that_nothing_would_read_are_refused(network, capsys, command, item):
    assert cli.main([str(network) if word == "NET" else word for word in command]) == 2
    assert capsys.readouterr().err.startswith(f"mohamjax: {item}: ")


def test_a_problem_that_is_not_of_the_network_is_refused(mapped, tmp_path):
    nodes = [node("Conv", "x w", "y", name="other", kernel_shape=[1, 1])]
    other = save(tmp_path, model(nodes, [info("x", [1, 3, 5, 5])], ["y"], [weight("w", [7, 3, 1, 1])]))
    folder = next((mapped / "timeloop").glob("*/*/mapping.yaml")).parent
    application = load_scenario([str(other)])
    with pytest.raises(InputError, match="no layer of these networks has the problem's shape"):
        given_mappings([[folder]], setup(application, TEMPLATES[1]))
    with pytest.raises(InputError, match="no template has the levels"):
        given_mappings([[folder]], setup(application, TEMPLATES[2]))


@pytest.mark.slow
def test_choices_reach_the_front_of_all_choices():
    """Compares with every choice for 4 layers of 5 mappings each, evaluated one by one."""
    template = TEMPLATES[1]
    arrays = jax.tree.map(lambda leaf: leaf[0], template_arrays([template], TECHNOLOGY))
    levels, rng = arrays.component.shape[0], np.random.default_rng(3)
    largest = np.asarray(arrays.machine.capacity)
    shape = (4, 5)

    def draw(*tail):
        return np.exp(rng.normal(size=(*shape, *tail))).astype(np.float32)

    capacity = np.where(np.isinf(largest), 0, np.ceil(np.minimum(largest, 64) * rng.random((*shape, levels))) * 16)
    fanout = np.minimum(rng.integers(1, 5, (*shape, levels, 2)), np.asarray(arrays.machine.fanout))
    columns = {
        "cycles": draw() * 1e4, "block_reads": draw(levels) * 1e3, "block_writes": draw(levels) * 1e3,
        "macs": draw() * 1e4, "capacity": capacity.astype(np.float32),
        "fanout": fanout.astype(np.float32),
    }  # fmt: skip
    rest = {name: np.zeros(1) for name in ("offchip_bytes", "offchip_words", "delivered")}
    objectives = np.stack([columns["cycles"], columns["macs"], capacity.sum(axis=-1)], axis=-1)
    tables = MappingTables(mapping=None, count=np.full(4, 5, np.int32), objectives=objectives, **columns, **rest)  # pyright: ignore[reportArgumentType]
    # Wires at one level: a column for each of 4 widths and 4 heights, after that of the padding.
    (level,) = np.flatnonzero(np.asarray(arrays.machine.hop_energy))
    axis = np.arange(1, 5, dtype=np.float32)[None]
    one = np.ones(1, np.int32)
    sizes = ArraySizes(level=one * level, width=axis, height=axis, start=one, step=4 * one)  # pyright: ignore[reportArgumentType]
    found = Wires(sizes=sizes, hops=draw(17) * 1e3)  # pyright: ignore[reportArgumentType]
    times = np.array([1, 3, 1, 2])
    config = NetworkConfig(population=64, generations=40, archive=128)
    sets = NetworkSets(tables, found, times, template)
    choices, values, (merged_capacity, _) = choose_mappings(jax.random.key(0), sets, TECHNOLOGY, config)

    every = np.array(list(itertools.product(range(5), repeat=4)))
    layer = np.arange(4)
    merged = capacity[layer, every].max(axis=1), fanout[layer, every].max(axis=1)
    machines = jax.vmap(resize, in_axes=(None, None, 0, 0))(arrays, TECHNOLOGY, *map(jnp.asarray, merged))
    areas, access, hop = jax.device_get((jax.vmap(area)(machines), machines.access_energy, machines.hop_energy))
    plain = []
    for i, choice in enumerate(every):
        pick = {name: column[layer, choice].astype(float) for name, column in columns.items()}
        x, y = merged[1][i, level].astype(int)
        spent = found.hops[layer, choice, 1 + 4 * (x - 1) + y - 1].astype(float) * hop[i, level]
        spent += pick["macs"] * float(arrays.machine.mac_energy)
        spent += pick["block_reads"] @ access[i, :, 0] + pick["block_writes"] @ access[i, :, 1]
        plain.append([(times * pick["cycles"]).sum(), (times * spent).sum(), areas[i]])
    plain = np.array(plain)
    assert (np.diff(values[:, 0]) >= 0).all()
    for choice, row, size in zip(choices, values, merged_capacity, strict=True):
        index = int(np.flatnonzero((every == choice).all(axis=1))[0])
        np.testing.assert_allclose(row, plain[index], rtol=1e-5)
        finite = np.isfinite(largest)
        np.testing.assert_array_equal(size[finite], merged[0][index][finite])
    true = plain[[not ((plain <= r).all(axis=1) & (plain < r).any(axis=1)).any() for r in plain]]
    met = [(np.abs(values / row - 1) < 1e-5).all(axis=1).any() for row in true]
    assert len(true) > 10 and np.mean(met) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--preset", "medea"), ("--method", "cosa"), ("--method", "gamma", "--cost", "energy")]
)
def test_presets_and_other_mappers_map_the_network(network, tmp_path, words):
    out = tmp_path / "sets.json"
    cache = ["--no-mapping-cache"] if words[0] == "--preset" else []
    assert cli.main(["map", str(network), "--template", "simba", "--sieve", "--out", str(out), *cache, *words]) == 0
    report = json.loads(out.read_text())
    recorded = {
        ("--preset", "medea"): {"method": "medea", "preset": "medea", "padding": False, "one_axis": False},
        ("--method", "cosa"): {"method": "cosa"},
        ("--method", "gamma", "--cost", "energy"): {"method": "gamma", "cost": "energy"},
    }
    assert report["search"] == {**recorded[words], "seed": 0, "networks": "sieve"}
    assert [len(entry["mappings"]) >= 1 for entry in report["sets"]] == [True, True]
    if words[0] == "--method":
        assert [len(entry["mappings"]) for entry in report["sets"]] == [1, 1]
    (own,) = report["networks"]
    sets = [report["sets"][u]["mappings"] for u in (0, 0, 1)]
    for choice in own["choices"]:
        chosen = [s[m] for s, m in zip(sets, choice["mapping"], strict=True)]
        assert choice["area_um2"] == pytest.approx(max(c["area_um2"] for c in chosen), rel=1e-5)
        assert choice["energy_pJ"] == pytest.approx(sum(c["energy_pJ"] for c in chosen), rel=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--preset", "magic"], "unknown preset 'magic' of the mapper; use one of default, medea"),
        (["--method", "magic"], "unknown method 'magic'; use one of cosa, gamma, hybrid"),
        (["--preset", "medea", "--budget", "tiny"], "a preset says how much is evaluated"),
        (["--method", "cosa", "--preset", "medea"], "is not for --method cosa"),
        (["--method", "cosa", "--cost", "edp"], "cosa has an objective of its own"),
        (["--cost", "edp"], "is for another mapper"),
        (["--exhaustive", "--method", "gamma"], "is for a search"),
    ],
)
def test_options_of_presets_and_mappers_that_do_not_go_together(network, capsys, words, said):
    assert cli.main(["map", str(network), "--template", "simba", *words]) == 2
    assert said in capsys.readouterr().err
