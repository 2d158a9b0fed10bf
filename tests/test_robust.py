"""One package for several application models: files, evaluation, decoding, unchanged packages, whole searches."""

import csv
import dataclasses
import functools
import itertools
import json
import math
import types

import fuzz_documents
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from design_cases import TEMPLATES, application, evaluation, random_designs, recast, space_of, tables
from plan_cases import sample_plan
from small_search import small_network

import mohamjax as mj
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.figures import plot_results
from mohamjax.hardware import PackageParameters, load_templates
from mohamjax.io import CheckpointFile, evaluate_designs, read_comparisons, write_robust_results
from mohamjax.io.results_reader import read_results
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.problem.requirements import requirements_from_dict
from mohamjax.robust import Packages, RobustSearch, check_robust
from mohamjax.robust.price import price, staircase
from mohamjax.robust.reschedule import _fitting
from mohamjax.schedule import chiplets, isolated_cycles, report
from mohamjax.schedule.ensemble import model_reports, models_of, over_models, own_tables
from mohamjax.search import Settings
from mohamjax.search import search as searching
from mohamjax.search.generations import Silent
from mohamjax.search.plans import THRIFT, decode
from mohamjax.workload import ApplicationModel, Ensemble, Member, load_ensemble, load_scenario
from mohamjax.workload.layer import with_batch

# ---------------------------------------------------------------- files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("robust")
    small_network(path / "one.onnx", 8)
    small_network(path / "two.onnx", 12)
    return path


@pytest.fixture(scope="module")
def scenario(folder):
    return load_scenario([folder / "one.onnx", folder / "two.onnx"])


GOOD = """
over: mean
nominal: single
models: [{name: both, weight: 3}, {name: single, networks: ["on?"]}]
held_out: [{name: other, networks: [two], batch: 4}, {name: file, scenario: one.onnx}]
"""


def read(folder, scenario, text):
    (folder / "r.yaml").write_text(text)
    return load_ensemble(folder / "r.yaml", scenario)


def test_files_say_models(folder, scenario):
    found = read(folder, scenario, GOOD)
    assert [m.name for m in found.models] == ["both", "single"] and found.nominal == 1
    assert np.allclose(found.weights, [0.75, 0.25])
    assert [len(m.application.networks) for m in (*found.models, *found.held_out)] == [2, 1, 1, 1]
    assert found.roles == ("searched", "nominal")
    assert found.joined.layers[8].name == scenario.layers[0].name and len(found.joined.layers) == 12
    assert found.joined.layers[10].predecessors == (8,)
    assert found.record()["held_out"][0] == {"name": "other", "networks": ["two"], "batch": 4}


def test_scenarios_of_models_are_packaged_ones_under_any_name(folder, scenario):
    """With variants and aliases, as on the command line."""
    text = "models: [{name: a, scenario: ar-vr-rates, networks: [resnet50]}, {name: c, scenario: C, networks: [res*]}]"
    one, other = (member.application for member in read(folder, scenario, text).models)
    assert one.networks[0].frames_per_second > 0 == other.networks[0].frames_per_second
    assert one.layers == other.layers


def test_a_batch_multiplies_samples():
    for kind, dim in (("conv", "N"), ("dwconv", "N"), ("fc", "N"), ("rnn", "N"), ("bmm", "G")):
        layer = dataclasses.replace(A.layers[0], type=kind)
        (many,) = with_batch(dataclasses.replace(A.networks[0], layers=(layer,)), 4).layers
        assert getattr(many.shape, dim) == 4 * getattr(layer.shape, dim) and many.macs == 4 * layer.macs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: []", "models"),
        ("over: median\nmodels: [{name: a}]", "over"),
        ("models: [{name: a, networks: [resnet50]}]", r"models\[0\].networks\[0\]: no network of .* 'resnet50'"),
        ("models: [{name: a}, {name: a}]", "two application models are called 'a'"),
        ("models: [{name: a}]\nheld_out: [{name: a}]", "two application models are called 'a'"),
        ("models: [{name: a}]\nnominal: b", "nominal: no model is called 'b'"),
        ("models: [{name: a/b}]", r"models\[0\].name"),
        ("models: [{name: a, batch: 0}]", r"models\[0\].batch"),
        ("models: [{name: a, batch: 1000000}]\nmodel: 1", "model"),
        ("models: [{name: a, scenario: nothing.yaml}]", "nothing.yaml"),
        ("over: worst\nmodels: [{name: a}, {name: b, weight: 2}]", "weights are those of a mean"),
        ("models: [{name: a}]\nheld_out: [{name: b, weight: 1}]", r"held_out\[0\]"),
        ("models: [{name: a, weight: 3}, {name: b, weight: 2.9e-6}]", "weights from 2.9e-06 to 3 are too far apart"),
    ],
)
def test_bad_files_are_told(folder, scenario, text, words):
    with pytest.raises(InputError, match=words) as error:
        read(folder, scenario, text)
    assert error.value.remedy


def test_the_command_line_refuses_before_it_searches(folder, capsys):
    (folder / "r.yaml").write_text(GOOD)
    networks, file = [str(folder / f"{n}.onnx") for n in ("one", "two")], str(folder / "r.yaml")
    for more, words in (
        (["--preset", "layers"], "a search of plans"),
        (["--seeds"], "--seeds: does not apply"),
        (["--inject", "x.json"], "--inject: does not apply"),
    ):
        assert main(["search", *networks, "--robust", file, *more]) == 2
        assert words in capsys.readouterr().err
    assert main(["search", *networks, "--no-price"]) == 2
    assert main(["search", file]) == 2
    assert main(["search", *networks, "--robust", file, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "held out" in planned and "as many again for the nominal model alone" in planned
    assert main(["search", *networks, "--robust", file, "--dry-run", "--json"]) == 0
    both = json.loads(capsys.readouterr().out)
    assert main(["search", *networks, "--robust", file, "--dry-run", "--json", "--no-price"]) == 0
    once = json.loads(capsys.readouterr().out)
    assert both["robust"]["nominal"] == "single" and both["designs"] == 2 * once["designs"]
    assert f"at most {once['designs']:,} designs" in planned


def test_requirements_hold_in_every_model(folder, scenario):
    """Pins apply to each model that has the layer; limits on users and pins that match no layer are refused."""
    found = read(folder, scenario, "models: [{name: a, networks: [one]}, {name: b}]\nheld_out: [{name: c}]")
    pins = {"pin": [{"layers": "two/*", "templates": ["simba"]}]}
    settings = Settings.preset("tiny")
    problem = mj.DesignProblem(found.joined, TEMPLATES, requirements=requirements_from_dict(pins))
    check_robust(found, problem, settings)
    resolved = problem.resolved
    names = [t.name for t in resolved.templates]
    assert resolved.allowed[:8].all() and (resolved.allowed[8:].sum(axis=1) == 1).all()
    assert resolved.allowed[8:, names.index("simba")].all()
    with pytest.raises(InputError, match="no layer is called 'three"):
        problem.replace(requirements=requirements_from_dict({"pin": [{"layers": "three/*", "templates": ["simba"]}]}))
    networks = tuple(dataclasses.replace(network, deadline_s=1.0) for network in found.joined.networks)
    dated = dataclasses.replace(found.joined, networks=networks)
    limited = requirements_from_dict({"limits": {"missed_deadlines": 0}})
    with pytest.raises(InputError, match="not limited over several"):
        check_robust(found, problem.replace(application=dated, requirements=limited), settings)


# ---------------------------------------------------------------- the price


def test_prices_are_ratios_at_equal_area():
    one = np.array([[1.0, 8.0, 1.0], [1.0, 2.0, 4.0], [9.0, 9.0, 2.0], [np.inf, 1.0, 0.1]])
    assert np.array_equal(staircase(one), [[1.0, 4.0], [8.0, 2.0]])
    assert price(one, one) == 1.0
    assert math.isclose(price(one * [1.0, 3.0, 1.0], one), 3.0)
    # Half as much as the other from 1 to 2 mm2, as much from 2 to 4 mm2: the geometric mean over log areas.
    other = np.array([[1.0, 16.0, 1.0], [1.0, 8.0, 2.0], [1.0, 2.0, 4.0]])
    assert math.isclose(price(one, other), math.sqrt(0.5))
    assert math.isnan(price(one, np.empty((0, 3))))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("held out", "unheard of", "line 5: role is 'unheard of'"),
        ("nominal,0,a", "other,0,a", "line [67]: front is 'other'"),
        ("2.5,1,", "2.5,yes,", "line 2: runs is 'yes'"),
        ("0.5,1e-3", "inf,1e-3", "line 2: an objective"),
        ("0.5,1e-3", "0,1e-3", "line 2: an objective"),
    ],
)
def test_rows_that_were_edited_are_told(tmp_path, old, new, words):
    sound = fuzz_documents.ROBUST_ROWS
    (tmp_path / "robust.csv").write_text(sound)
    assert [(one.role, *one.runs) for one in read_comparisons(tmp_path)] == [
        ("all", 1, 0), ("nominal", 1, 1), ("searched", 1, 0), ("held out", 0, 0),
    ]  # fmt: skip
    (tmp_path / "robust.csv").write_text(sound.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"robust\.csv: {words}.*; run the search again"):
        read_comparisons(tmp_path)


def test_bounds_of_another_search_are_not_those_of_several_models(tmp_path):
    for name, content in fuzz_documents.results().items():
        (tmp_path / name).write_bytes(content)
    assert read_results(tmp_path).certificate is not None
    with (tmp_path / "config.yaml").open("a") as file:
        file.write("robust: {over: mean}\n")
    assert read_results(tmp_path).certificate is None


# ---------------------------------------------------------------- evaluation and decoding


def called(made, *names):
    """The application model with its networks renamed."""
    return dataclasses.replace(
        made, networks=tuple(dataclasses.replace(n, name=name) for n, name in zip(made.networks, names, strict=True))
    )


A = called(application([[], [0], [0], [1, 2]], kinds=[[0, 1, 2, 3]]), "diamond")
B = called(application([[], [0], []], [[], [0]], kinds=[[1, 4, 2], [0, 0]]), "loose", "pair")


@functools.cache
def case():
    ensemble = Ensemble((Member(A, 3.0), Member(dataclasses.replace(B, name="other"), 1.0)))
    return ensemble, tables(ensemble.joined, 3)


@pytest.mark.slow
def test_models_have_what_separate_evaluations_give():
    """Each model is evaluated by itself, on chiplets as large as all models need; the requirement is 1e-6."""
    ensemble, made = case()
    applications = [member.application for member in ensemble.models]
    designs = random_designs(ensemble.joined, made, 5, 24)
    with jax.enable_x64(True):
        whole = evaluation(ensemble.joined, made)
        models = models_of(applications, ensemble, jnp.float64)

        @jax.jit
        @jax.vmap
        def together(design):
            each = model_reports(design, whole, models).objectives
            worst = over_models(each, dataclasses.replace(models, worst=jnp.bool_(True)))
            return chiplets(design, whole), each, over_models(each, models), worst

        sizes, found, mean, worst = together(designs)
        firsts, parts = np.cumsum([0, *(len(x.layers) for x in applications)]), []
        for first, after in itertools.pairwise(firsts):
            order = np.stack([row[(row >= first) & (row < after)] - first for row in designs.order])
            mine = {name: getattr(designs, name)[:, first:after] for name in ("assignment", "mapping")}
            parts.append(dataclasses.replace(designs, order=order, **mine))
        alone = [evaluation(x, own_tables(x, ensemble.joined, made), padded_layers=len(x.layers)) for x in applications]

        @jax.jit
        @jax.vmap
        def separate(parts, capacity, fanout):
            return [report(d, on, (capacity, fanout)).objectives for d, on in zip(parts, alone, strict=True)]

        wanted = np.asarray(separate(parts, sizes.capacity, sizes.fanout))
    np.testing.assert_allclose(np.moveaxis(np.asarray(found), 1, 0), wanted, rtol=1e-12)
    np.testing.assert_allclose(mean, 0.75 * wanted[0] + 0.25 * wanted[1], rtol=1e-12)
    np.testing.assert_allclose(worst, wanted.max(axis=0), rtol=1e-12)
    np.testing.assert_allclose(ensemble.aggregate(wanted), mean, rtol=1e-12)
    np.testing.assert_allclose(Ensemble(tuple(map(Member, applications)), "worst").aggregate(wanted), worst, rtol=1e-12)
    assert (wanted[0, :, 2] == wanted[1, :, 2]).all() and (wanted[0, :, 0] != wanted[1, :, 0]).any()


@pytest.mark.slow
def test_plans_place_every_model_on_an_idle_package():
    """Each model gets the schedule that the plan gives to this model alone on the same chiplets."""
    ensemble, made = case()
    whole = space_of(ensemble.joined, recast(made, np.float32), orders=8, ensemble=ensemble)
    genetics = whole.genetics
    plans = jax.vmap(lambda key: sample_plan(key, genetics, whole.plans))(jax.random.split(jax.random.key(1), 32))
    # With all thresholds open every chiplet may have any mapping, so that sizes do not couple the models.
    plans = dataclasses.replace(plans, size=jnp.full_like(plans.size, whole.plans.fits.shape[3] - 1))
    made_of = jax.jit(decode)
    found = made_of(plans, genetics, whole.plans).design
    first = 0
    for member in ensemble.models:
        count = len(member.application.layers)
        real = np.arange(32) < count
        rows = np.minimum(first + np.arange(32), 31)

        def own(leaf, rows=rows, real=real, empty=0):
            return jnp.where(real.reshape(-1, *[1] * (leaf.ndim - 1)), leaf[rows], empty)

        needs = {name: own(getattr(genetics, name), empty=-1) for name in ("predecessors", "successors")}
        needs = {name: jnp.where(leaf >= 0, leaf - first, -1) for name, leaf in needs.items()}
        kinds = genetics.kinds
        of_layer = own(kinds.of_layer, empty=len(kinds.number) - 1)
        apart = dataclasses.replace(
            genetics, layers=jnp.int32(count), unique=own(genetics.unique), able=own(genetics.able),
            pin=own(genetics.pin, empty=-1), kinds=dataclasses.replace(kinds, of_layer=of_layer), model=None, **needs,
        )  # fmt: skip
        wanted = made_of(plans, apart, whole.plans).design
        mine = np.stack([row[(row >= first) & (row < first + count)] - first for row in np.asarray(found.order)])
        assert np.array_equal(mine, wanted.order[:, :count])
        assert np.array_equal(found.assignment[:, first : first + count], wanted.assignment[:, :count])
        first += count


def test_chiplets_share_what_fits_under_every_version_of_numpy(monkeypatch):
    """NumPy 2.0.0 returns the inverse of unique rows with two axes."""
    unique = np.unique

    def of_2_0_0(*arguments, **options):
        *rest, inverse = unique(*arguments, **options)
        return (*rest, inverse.reshape(-1, 1))

    # Three packages of two tiles, one of them empty; two layers with two mappings each, of 4 and 8 words or 2 and 16.
    packages = Packages(
        template=np.array([[0, 0], [0, -1], [0, 0]]),
        capacity=np.array([[4.0, 8.0], [8.0, 0.0], [2.0, 4.0]])[..., None],
        fanout=np.ones((3, 2, 1, 2)),
        weight=np.zeros((3, 2), np.int32),
        thrift=np.zeros(3, np.int32),
    )
    words = np.array([[4.0, 8.0], [2.0, 16.0]])
    tables = types.SimpleNamespace(
        capacity=words[:, None, :, None], fanout=np.ones((2, 1, 2, 1, 2)), exists=np.ones((2, 1, 2), bool)
    )
    plans = types.SimpleNamespace(ranked=np.array([[1, 1], [0, 0]])[None, None])  # the larger mapping first
    expected = _fitting(packages, plans, tables)
    assert expected[1].tolist() == [[[True, True]] * 2, [[True, True], [False, False]], [[False, True], [True, True]]]
    assert expected[0][:, :, 0].tolist() == [[0, 1], [1, 0], [1, 0]]
    monkeypatch.setattr(np, "unique", of_2_0_0)
    for own, other in zip(expected, _fitting(packages, plans, tables), strict=True):
        np.testing.assert_array_equal(other, own)


# ---------------------------------------------------------------- whole searches


SETTINGS = Settings.preset("tiny")
SETTINGS = dataclasses.replace(
    SETTINGS,
    moham=dataclasses.replace(SETTINGS.moham, population=24, generations=6, chunk=3, archive=48),
)
ROOM = PackageParameters(max_tiles=6)
KINDS = tuple(load_templates(["simba", "shidiannao"]))


def robust(ensemble, settings, **options):
    return RobustSearch(ensemble, mj.DesignProblem(ensemble.joined, KINDS, ROOM), settings, **options).run()


@pytest.fixture(scope="module")
def small():
    """Two models and a held-out one, and made-up tables."""

    def model(name, *networks):
        return Member(ApplicationModel(name, tuple(n for app in networks for n in app.networks)))

    ensemble = Ensemble((model("a", A), model("ab", A, B)), held_out=(model("b", B),), name="small")
    problem = mj.DesignProblem(ensemble.everyone, templates=KINDS, package=ROOM)
    return ensemble, mj.sample_mappings(problem, count=24, seed=0)


@pytest.fixture(scope="module")
def result(small):
    ensemble, made = small
    return robust(ensemble, SETTINGS, tables=made, price=False)


@pytest.fixture(scope="module")
def written(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("results")
    write_robust_results(path, result, {**result.config, "inputs": {}})
    return path


@pytest.mark.slow
def test_the_front_is_one_of_means(result):
    each = np.stack([own.objectives for own in result.front.models])
    np.testing.assert_allclose(result.front.objectives[:, :2], each.mean(axis=0)[:, :2], rtol=1e-12)
    values = result.front.objectives
    assert not any(((values <= row).all(axis=1) & (values < row).any(axis=1)).any() for row in values)
    templates = {own.designs.template.tobytes() for own in result.front.models}
    assert len(templates) == 1 and len({own.reports.chiplets.capacity.tobytes() for own in result.front.models}) == 1


@pytest.mark.slow
def test_packages_stay_as_they_are(result):
    """For held-out models no chiplet grows, every layer has the best mapping that fits, and misfits are reported."""
    front, (b,) = result.front, result.front.held_out
    chips, plans = front.models[0].reports.chiplets, front.plans
    assert b.reasons == ("",) * len(front) and np.array_equal(b.rows, np.arange(len(front)))
    found, made = b.evaluated, b.evaluated.tables
    assert np.array_equal(found.reports.chiplets.capacity, chips.capacity)
    assert np.array_equal(found.reports.chiplets.fanout, chips.fanout)
    assert np.array_equal(found.objectives[:, 2], front.objectives[:, 2])
    time = np.log(isolated_cycles(made, found.package))
    for n in range(0, len(front), 3):
        for layer, u in enumerate(b.application.unique_of_layer):
            tile = found.designs.assignment[n, layer]
            t, w = found.designs.template[n, tile], WEIGHTS[plans.weight[n, tile]]
            fits = (made.capacity[u, t] <= chips.capacity[n, tile]).all(axis=-1)
            fits &= (made.fanout[u, t] <= chips.fanout[n, tile]).all(axis=(-2, -1))
            fits &= np.arange(len(fits)) < made.count[u, t]
            with np.errstate(divide="ignore", invalid="ignore"):
                score = np.where(fits, w * time[u, t] + (1 - w) * np.log(made.objectives[u, t, :, 1]), np.inf)
            assert score[found.designs.mapping[n, layer]] <= score.min() + 1e-5 < np.inf

    # The second package without any memory: nothing runs there, all else is unchanged.
    packages = Packages.of(front.models[0], plans)
    empty = packages.capacity.copy()
    empty[1] = 0
    packages = dataclasses.replace(packages, capacity=empty)
    (again,) = result.rescheduler.held_out(packages)
    assert "layer loose/l0 fits no chiplet, nor do" in again.reasons[1] and not any(again.reasons[2:])
    assert np.isinf(again.objectives[1]).all()
    assert np.array_equal(np.delete(again.objectives, 1, axis=0), np.delete(b.objectives, 1, axis=0))


@pytest.mark.slow
def test_files_evaluate_as_they_say(result, written):
    """`evaluate designs` of each model's file gives what `robust.csv` and `front.csv` say."""
    with open(written / "robust.csv", newline="") as file:
        rows = list(csv.DictReader(file))

    def stated(model):
        own = [row for row in rows if row["front"] == "robust" and row["model"] == model and row["runs"] == "1"]
        return [row["design_id"] for row in own], np.asarray([[float(row[k]) for k in OBJECTIVES] for row in own])

    assert not (written / "designs_a.json").exists()  # designs.json is the nominal model's file
    for model, name in (("a", "designs.json"), ("ab", "designs_ab.json")):
        table, evaluated = evaluate_designs(written / name)
        ids, objectives = stated(model)
        assert [str(row["design_id"]) for row in table] == ids and all(row["valid"] for row in table)
        np.testing.assert_allclose(evaluated.objectives, objectives, rtol=1e-9)
    for row in table:
        assert row["area_mm2"] == pytest.approx(result.front.objectives[int(row["design_id"]), 2], rel=1e-9)
    document = json.loads((written / "designs_b.json").read_text())
    assert [str(d["design_id"]) for d in document["designs"]] == stated("b")[0]
    for one, read_back in zip(result.comparisons(), read_comparisons(written), strict=True):
        assert (one.model, one.role) == (read_back.model, read_back.role) and len(one.nominal) == 0
        np.testing.assert_allclose(one.robust, read_back.robust, rtol=1e-15)
    (written / "robust.csv").rename(written / "away.csv")
    with pytest.raises(InputError, match=r"robust\.csv"):
        read_comparisons(written)


OBJECTIVES = ("latency_s", "energy_J", "area_mm2")


@pytest.mark.slow
def test_a_search_goes_on_where_it_was(small, result, tmp_path):
    """Stopped after half of its generations and resumed: the same front, to the bit."""
    ensemble, made = small
    half = dataclasses.replace(SETTINGS, moham=dataclasses.replace(SETTINGS.moham, generations=3))
    keep = CheckpointFile(tmp_path / "checkpoint.npz")
    robust(ensemble, half, tables=made, price=False, checkpoint=keep)
    again = robust(ensemble, SETTINGS, tables=made, price=False, checkpoint=keep, resume=True)
    assert again.nominal is None
    assert again.front.objectives.tobytes() == result.front.objectives.tobytes()
    for one, other in zip(again.front.models, result.front.models, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one.designs, other.designs)
    worst = dataclasses.replace(ensemble, over="worst")
    with pytest.raises(InputError, match="other"):
        robust(worst, SETTINGS, tables=made, price=False, checkpoint=keep, resume=True)


@pytest.mark.slow
def test_packages_come_under_all_weights(result):
    packages = Packages.of(result.front.models[0], result.front.plans)
    many = packages.under_all()
    several = 1 + len(WEIGHTS) * len(THRIFT)
    assert len(many.template) == several * len(packages.template)
    assert np.array_equal(many.weight[::several], packages.weight) and len(np.unique(many.thrift)) == len(THRIFT)


@pytest.mark.slow
def test_the_price_of_robustness(small, result, tmp_path):
    """With as many evaluations, packages found for one model reach less than half of the robust front over both."""
    ensemble, made = small
    priced = robust(ensemble, SETTINGS, tables=made)
    assert priced.front.objectives.tobytes() == result.front.objectives.tobytes()
    nominal, front = priced.nominal, priced.front.objectives
    assert nominal.search.history[-1]["evaluations"] == priced.history[-1]["evaluations"]
    reached = [(nominal.objectives <= row).all(axis=1).any() for row in front]
    assert np.mean(reached) < 0.5
    assert [(row.model, row.role) for row in priced.comparisons()] == [
        ("all models", "all"), ("a", "nominal"), ("ab", "searched"), ("b", "held out"),
    ]  # fmt: skip
    write_robust_results(tmp_path, priced, {**priced.config, "inputs": {}})
    for one, read_back in zip(priced.comparisons(), read_comparisons(tmp_path), strict=True):
        assert (one.model, one.role) == (read_back.model, read_back.role)
        np.testing.assert_allclose(one.robust, read_back.robust, rtol=1e-15)
        np.testing.assert_allclose(one.nominal, read_back.nominal, rtol=1e-15)
    assert (tmp_path / "nominal" / "designs.json").exists()
    assert tmp_path / "again" / "price.png" in plot_results(tmp_path, tmp_path / "again")

    # Without the price, into the same folder: files that we wrote before and no longer write are gone, and no others.
    mine = ("designs_mine.json", "mine.json", "nominal/mine.csv")
    for name in (*mine, "bounds.json", "designs_gone.json", "report.html", "nominal/checkpoint.npz"):
        (tmp_path / name).write_text("")
    old = yaml.safe_load((tmp_path / "config.yaml").read_text())
    old["robust"]["models"].append({"name": "gone"})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(old))
    write_robust_results(tmp_path, result, {**result.config, "inputs": {}})
    assert [file.name for file in (tmp_path / "nominal").iterdir()] == ["mine.csv"]
    assert sorted(file.name for file in tmp_path.glob("*.json")) == [
        "designs.json", "designs_ab.json", "designs_b.json", "designs_mine.json", "mine.json",
    ]  # fmt: skip
    assert not (tmp_path / "report.html").exists()
    assert all(len(one.nominal) == 0 for one in read_comparisons(tmp_path))
    (tmp_path / "nominal" / "mine.csv").unlink()
    write_robust_results(tmp_path, result, {**result.config, "inputs": {}})
    assert not (tmp_path / "nominal").exists()


class Stopping(Silent):
    """Interrupts a search when generations are done."""

    def progress(self, progress, generations):
        raise KeyboardInterrupt


@pytest.mark.slow
def test_a_search_that_is_stopped_has_its_packages_alone(small, tmp_path):
    """No layer of held-out models is mapped then, and no search is made for the nominal model."""
    ensemble, made = small
    stopped = robust(ensemble, SETTINGS, tables=made, listener=Stopping())
    assert stopped.interrupted and stopped.nominal is None and len(stopped.front) > 0
    assert stopped.timings["reevaluation_s"] > 0
    assert stopped.front.held_out == () and stopped.rescheduler.apart is None
    write_robust_results(tmp_path, stopped, {**stopped.config, "inputs": {}})
    assert [one.model for one in read_comparisons(tmp_path)] == ["all models", "a", "ab"]
    assert [one.model for one in stopped.comparisons()] == ["all models", "a", "ab"]


@pytest.mark.slow
def test_a_front_of_several_models_is_finished_whole_or_as_far_as_it_came(small, tmp_path, monkeypatch):
    """Only for generations searched in this run: those of a checkpoint may already have results, which stay."""
    ensemble, made = small
    joint = CheckpointFile(tmp_path / "checkpoint.npz")

    def interrupted(state, *_, **__):
        yield state
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "finishing", interrupted)
    stopped = robust(ensemble, SETTINGS, tables=made, checkpoint=joint)
    assert stopped.interrupted and stopped.nominal is None and len(stopped.front) > 0
    assert stopped.history[-1]["generation"] == SETTINGS.moham.generations
    with pytest.raises(KeyboardInterrupt):
        robust(ensemble, SETTINGS, tables=made, checkpoint=joint, resume=True)


@pytest.mark.slow
def test_where_the_front_of_the_nominal_model_is_cut_short_there_is_a_price(small, monkeypatch):
    """The robust front, finished before, stays whole."""
    ensemble, made = small
    whole, asked = searching.finishing, []

    def interrupted(*arguments, **settings):
        asked.append(arguments)
        yield from whole(*arguments, **settings)
        if len(asked) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(searching, "finishing", interrupted)
    stopped = robust(ensemble, SETTINGS, tables=made)
    assert len(asked) == 2 and stopped.interrupted and stopped.nominal is not None
    assert [(row.model, row.role) for row in stopped.comparisons()] == [
        ("all models", "all"), ("a", "nominal"), ("ab", "searched"), ("b", "held out"),
    ]  # fmt: skip
    assert all(len(row.nominal) > 0 for row in stopped.comparisons())
