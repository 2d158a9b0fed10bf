"""Users' requirements of designs: limits, fixed packages, pins, one template, one number, their own designs."""

import dataclasses
import json
import math
import re
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import plain_design
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from small_search import objectives, search, table
from test_operators import CROSSOVERS, MUTATIONS, L, S, T, apply, genetics, population, problems, rows

import mohamjax as mj
from mohamjax import emo
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_technology, load_template, load_templates, template_arrays
from mohamjax.io import read_designs
from mohamjax.io.schemas import schema
from mohamjax.mapping import stacked_layers, tabulate
from mohamjax.problem import DesignProblem, Goals, Requirements, load_requirements, resolve
from mohamjax.problem import requirements as demands
from mohamjax.problem import resolved as requirements
from mohamjax.problem.design_problem import _cover
from mohamjax.problem.requirements import FixedChiplet, Pin, requirements_from_dict
from mohamjax.problem.resolved import CLOSED, FREE, Reached
from mohamjax.search import operators
from mohamjax.search.injection import inject
from mohamjax.search.seeding import list_packages
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape, load_scenario

# ---------------------------------------------------------------- constrained dominance


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_feasible_rows_come_first_and_infeasible_ones_by_violation(seed):
    rng = np.random.default_rng(seed)
    values = rng.random((24, 3)).astype(np.float32)
    excess = np.where(rng.random(24) < 0.5, 0.0, np.round(rng.random(24), 1) + 0.1).astype(np.float32)
    judged = emo.constrained(values, excess)
    rank = np.asarray(emo.non_dominated_rank(judged))
    keeps = excess == 0
    assert (np.asarray(emo.feasible(judged)) == keeps).all()
    if keeps.any() and (~keeps).any():
        assert rank[keeps].max() < rank[~keeps].min()
    by_violation = np.unique(excess[~keeps], return_inverse=True)[1]
    if len(by_violation):
        assert (rank[~keeps] - rank[~keeps].min() == by_violation).all()


def test_integers_under_constraints_become_floats():
    for library in (np, jnp):
        judged = emo.constrained(library.array([[1, 2], [3, 4]]), library.array([0, 1]))
        np.testing.assert_allclose(judged, [[1, 2], [2e30] * 2], rtol=1e-6)
        assert emo.feasible(judged).tolist() == [True, False]
    assert emo.feasible(emo.constrained(np.ones((2, 1)), np.array([0, 3_000_000_000]))).tolist() == [True, False]


def test_no_result_stays_worse_than_any_violation():
    judged = np.asarray(emo.constrained(jnp.asarray([[jnp.inf, 1.0], [2.0, 3.0]]), jnp.asarray([5.0, 1e20])))
    assert np.isinf(judged[0, 0]) and np.isfinite(judged[1]).all()


# ---------------------------------------------------------------- operators under fixed tiles


def demanding(seed):
    """A random problem with one fixed chiplet (of template 1, which runs everything), one closed tile, and pins."""
    g = genetics(seed, L - 1, max_chiplets=5)
    rng = np.random.default_rng(seed)
    tiles = rng.permutation(S)
    resolved = np.full(S, FREE, np.int32)
    resolved[tiles[0]], resolved[tiles[1]] = 1, CLOSED
    cover = np.where(resolved == 1, 1, -1).astype(np.int32)
    return dataclasses.replace(g, on_tile=jnp.asarray(resolved), cover=jnp.asarray(cover)), int(tiles[0]), int(tiles[1])


def broken(design, g, fixed, closed):
    template = np.asarray(design.template)
    found = [p for p in problems(design, g) if p != f"chiplet {fixed} stands empty"]
    if template[fixed] != 1:
        found.append("the fixed chiplet has gone")
    if template[closed] >= 0:
        found.append("a chiplet stands on the closed tile")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("operator", MUTATIONS + CROSSOVERS, ids=lambda f: f.__name__)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_operators_keep_fixed_and_closed_tiles(operator, seed):
    g, fixed, closed = demanding(seed)
    start = population(jax.random.key(seed), g, 32)
    for design in rows(start) + apply(operator, jax.random.key(seed + 1), start, g):
        assert broken(design, g, fixed, closed) == []


_CONFORM = jax.jit(jax.vmap(operators.conform, in_axes=(0, None)))
_REPAIR = jax.jit(jax.vmap(operators.repaired, in_axes=(0, 0, 0, None)))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_projection_makes_packages_uniform_and_keeps_pins(seed):
    g, fixed, closed = demanding(seed)
    rng = np.random.default_rng(seed)
    pin = np.where(rng.random(L) < 0.3, fixed, -1).astype(np.int32)
    pin[L - 1] = -1
    pinned = dataclasses.replace(g, pin=jnp.asarray(pin))
    start = population(jax.random.key(seed), g, 32)
    for design in rows(_CONFORM(start, pinned)):
        assert broken(design, g, fixed, closed) == []
        assert (np.asarray(design.assignment)[pin >= 0] == fixed).all()
    free = dataclasses.replace(genetics(seed, L - 1), homogeneous=jnp.int32(1))
    start = population(jax.random.key(seed), free, 32)
    once = _CONFORM(start, free)
    for design in rows(once):
        assert problems(design, free) == []
        standing = np.asarray(design.template)[np.asarray(design.template) >= 0]
        assert len(set(standing)) == 1
    for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(_CONFORM(once, free)), strict=True):
        np.testing.assert_array_equal(a, b)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_repair_makes_designs_of_arbitrary_genes(seed):
    g, fixed, closed = demanding(seed)
    valid = population(jax.random.key(seed), g, 32)
    rng = np.random.default_rng(seed)
    wild = dataclasses.replace(
        valid,
        assignment=jnp.asarray(rng.integers(0, S, (32, L)), jnp.int32),
        mapping=jnp.asarray(rng.integers(0, 9, (32, L)), jnp.int32),
        template=jnp.asarray(rng.integers(-1, T, (32, S)), jnp.int32),
    )
    for design in rows(_REPAIR(jax.random.split(jax.random.key(seed), 32), wild, valid, g)):
        assert broken(design, g, fixed, closed) == []


# ---------------------------------------------------------------- whole searches
# The networks and sizes of test_search.py, so that programs are compiled once for both files.


def demand(tmp_path, **content):
    path = tmp_path / "requirements.yaml"
    path.write_text(yaml.safe_dump({"format": "requirements/1", **content}))
    return ["--no-figures", "--require", str(path)]


def designs(folder, fixed=()):
    """All designs of a front, after the plain checker accepted them; chiplets on fixed tiles may be idle."""
    document = json.loads((folder / "designs.json").read_text())
    for design in document["designs"]:
        assert plain_design.problems(document, design, fixed) == [], design["design_id"]
    return document["designs"]


def some_of(folder, path):
    """Writes every other design of a front, at most 20, to a file; returns its path and their objectives."""
    document = json.loads((folder / "designs.json").read_text())
    document["designs"] = document["designs"][::2][:20]
    path.write_text(json.dumps(document))
    return str(path), objectives(document["designs"])


def test_every_design_keeps_the_limits(networks, results, tmp_path):
    values = objectives(table(results / "front.csv"))
    latency, energy, area = (float(x) for x in np.median(values, axis=0))
    limits = {"latency_s": latency, "energy_J": 2 * energy, "area_mm2": 3 * area, "power_W": 3 * energy / latency}
    assert search(networks, tmp_path / "out", *demand(tmp_path, limits=limits, chiplets={"least": 2})) == 0
    kept = objectives(table(tmp_path / "out" / "front.csv"))
    assert len(kept) >= 1
    assert len(designs(tmp_path / "out")) == len(kept)
    assert (kept <= np.asarray([latency, 2 * energy, 3 * area]) * (1 + 1e-6)).all()
    assert (kept[:, 1] / kept[:, 0] <= limits["power_W"] * (1 + 1e-6)).all()
    assert all(int(row["n_chiplets"]) >= 2 for row in table(tmp_path / "out" / "front.csv"))


def test_limits_that_nothing_keeps_end_with_one_line(networks, results, tmp_path, capsys):
    values = objectives(table(results / "front.csv"))
    assert len(values) > 1
    latency, _, area = (float(x) for x in values.min(axis=0))
    limits = {"latency_s": latency * 1.0001, "area_mm2": area * 1.0001}
    assert search(networks, tmp_path / "out", *demand(tmp_path, limits=limits)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.search(r"requirements.yaml: limits.*: no design meets the requirements", said) and "loosen" in said


@pytest.mark.slow
def test_every_chiplet_keeps_its_limits(networks, results, tmp_path, capsys):
    """For example a reticle limit; designs of the search without the limit break it."""

    def largest(folder):
        designs = json.loads((folder / "designs.json").read_text())["designs"]
        return np.asarray([max(chiplet["area_mm2"] for chiplet in design["chiplets"]) for design in designs])

    limit = float(np.median(largest(results)))
    out = tmp_path / "out"
    assert search(networks, out, *demand(tmp_path, limits={"chiplet": {"area_mm2": limit}})) == 0
    assert largest(out).max() <= limit * (1 + 1e-6) < largest(results).max()
    assert "chiplet:" in (out / "config.yaml").read_text()
    assert search(networks, tmp_path / "none", *demand(tmp_path, limits={"chiplet": {"area_mm2": 1e-9}})) == 2
    assert "limits.chiplet.area_mm2" in capsys.readouterr().err


@pytest.mark.slow
def test_no_chiplet_is_smaller_than_demanded(networks, results, tmp_path, capsys):
    def smallest(folder):
        designs = json.loads((folder / "designs.json").read_text())["designs"]
        return np.asarray([min(chiplet["area_mm2"] for chiplet in design["chiplets"]) for design in designs])

    floor = float(np.median(smallest(results)))
    out = tmp_path / "out"
    assert search(networks, out, *demand(tmp_path, limits={"least_chiplet": {"area_mm2": floor}})) == 0
    assert smallest(out).min() >= floor * (1 - 1e-6) > smallest(results).min()
    assert "least_chiplet:" in (out / "config.yaml").read_text()
    assert search(networks, tmp_path / "none", *demand(tmp_path, limits={"least_chiplet": {"area_mm2": 1e9}})) == 2
    assert "limits.least_chiplet.area_mm2" in capsys.readouterr().err
    crossed = {"chiplet": {"area_mm2": 1}, "least_chiplet": {"area_mm2": 2}}
    assert search(networks, tmp_path / "none", *demand(tmp_path, limits=crossed)) == 2
    assert "is above limits.chiplet.area_mm2" in capsys.readouterr().err


def test_measures_of_chiplets_that_are_not_known_are_refused():
    with pytest.raises(InputError, match="unknown measure of a chiplet 'edge_mm'"):
        requirements_from_dict({"limits": {"chiplet": {"edge_mm": 1}}})


def test_a_limit_below_the_bound_is_told_before_the_search(networks, results, tmp_path, capsys, monkeypatch):
    def never(*_, **__):
        raise AssertionError("searched before the complaint")

    monkeypatch.setattr("mohamjax.search.search.Generations", never)
    limits = {"latency_s": 1e-12, "energy_J": 1.0, "area_mm2": 1e-6}
    assert search(networks, tmp_path / "out", *demand(tmp_path, limits=limits)) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "requirements.yaml: limits.latency_s, limits.area_mm2: out of reach" in said and "loosen" in said
    found = re.search(r"latency_s is 1e-12, .* below (\S+); limits.area_mm2 is 1e-06, .* below (\S+);", said)
    assert found, said
    fastest, _, smallest = objectives(table(results / "front.csv")).min(axis=0)
    floors = [float(x) for x in found.groups()]
    assert 1e-12 < floors[0] <= fastest * 1.001 <= 1.5 * floors[0] and 1e-6 < floors[1] <= smallest * 1.001, said


def test_a_bound_is_told_so_that_it_would_do():
    wanted = requirements_from_dict({"limits": {"latency_s": 0.01234, "area_mm2": 12.35, "energy_J": 1.0}}, file="")
    resolved = resolve(wanted, demo_application(), load_templates(), 4, 4)
    said = str(requirements.out_of_reach(resolved, np.array([0.012344, 0.5, 12.3521]), 1e-5))
    assert "latency_s is 0.01234, no design goes below 0.01235; limits.area_mm2 is 12.35, " in said
    assert said.split("below ")[2].startswith("12.36; loosen")
    said = str(requirements.out_of_reach(resolved, np.array([0.01234 * 1.00002, 0.5, 1.0]), 1e-5))
    assert "latency_s is 0.01234, no design goes below 0.01235; loosen" in said
    assert requirements.out_of_reach(resolved, np.array([0.0123400001, 0.5, 12.35]), 1e-5) is None


def test_what_fails_and_what_was_reached_is_named():
    wanted = requirements_from_dict(
        {
            "limits": {"latency_s": 2.0, "area_mm2": 4.0, "power_W": 9.0},
            "chiplets": {"least": 2, "templates": {"simba": {"most": 1}}},
        },
        file="mine.yaml",
    )
    resolved = resolve(wanted, demo_application(), load_templates(), 4, 4)
    simba = [t.name for t in resolved.templates].index("simba")
    package = np.array([[simba, 0, -1, -1], [simba, -1, -1, -1], [0, simba, simba, -1]])
    good = np.array([[2.0, 8.0, 4.0], [1.0, 9.5, 3.0], [3.0, 8.0, 5.0]])
    assert requirements.keeps(resolved, Reached(good, package)).tolist() == [True, False, False]
    assert requirements.keeps(resolved, Reached(np.full((3, 3), np.inf), package)).tolist() == [False, False, False]

    def said(rows, template):
        return str(requirements.unmet(resolved, Reached(np.array(rows), template)))

    # The area limit is never met; the second row comes nearest: a factor of 1.125, against 1.25 and two of 1.5.
    text = said([[1.0, 8.0, 5.0], [1.0, 8.0, 4.5], [3.0, 8.0, 6.0]], np.repeat(package[:1], 3, axis=0))
    assert text.startswith("mine.yaml: limits.area_mm2: no design meets")
    assert "at best limits.area_mm2 4.5 (at most 4);" in text
    nearest = text.split("the nearest has ")[1]
    assert nearest.startswith("limits.latency_s 1 (at most 2), limits.area_mm2 4.5 (at most 4), limits.power_W 8 (at")
    # Each requirement is met by some design, but no design meets all.
    text = said(good[1:] * [1, 1, 0.5], package[1:])
    assert (
        text.startswith("mine.yaml: limits.latency_s, ")
        and "each is met by some of them, but none meets them all" in text
    )
    assert "limits.power_W 9.5 (at most 9), chiplets.templates.simba.most 1 (at most 1), chiplets.least 1 (at" in text
    # A limit that equals the reached value in single precision.
    text = said([[2.000001, 8.0, 4.0]], package[:1])
    assert "limits.latency_s 2.000001 (at most 2)" in text


@pytest.mark.parametrize(
    "chiplets",
    [
        {"least": 5, "most": 5},
        {"least": 9, "most": 11},
        {"most": 4, "templates": {"simba": {"least": 3}, "eyeriss": {"least": 1}}},
        {"most": 3, "templates": {"simba": {"least": 2}}},
    ],
)
@pytest.mark.parametrize("fixed", [[], [{"template": "simba"}]])
def test_list_schedules_have_as_many_chiplets_as_are_demanded(chiplets, fixed):
    wanted = {"format": "requirements/1", "chiplets": chiplets, "package": {"open": True, "chiplets": fixed}}
    wanted = requirements_from_dict(wanted if fixed else {k: v for k, v in wanted.items() if k != "package"})
    application = demo_application()
    resolved = resolve(wanted, application, load_templates(), 16, 16)
    packages = list_packages(resolved, np.ones((len(application.layers), len(resolved.templates)), bool))
    assert packages
    for package in packages:
        count = np.bincount(package, minlength=len(resolved.templates))
        count = np.append(count, count.sum())
        assert (count >= resolved.least).all() and (count <= resolved.most).all()
        assert package[: len(resolved.fixed)] == tuple(resolved.tiles[resolved.fixed])


@pytest.mark.slow
def test_a_closed_package_is_all_there_is(networks, tmp_path):
    package = {
        "open": False,
        "chiplets": [
            {"template": "simba", "sizes": "largest"},
            {"template": "eyeriss", "tile": 3, "levels": {"shared_glb": {"fanout": [4, 1]}}},
            {"template": "shidiannao"},
        ],
    }
    assert search(networks, tmp_path / "out", *demand(tmp_path, package=package)) == 0
    found = designs(tmp_path / "out", fixed=(0, 1, 3))
    kinds = {tuple(chip["template"] for chip in design["chiplets"]) for design in found}
    assert kinds == {("simba-fixed1", "shidiannao", "eyeriss-fixed1")}
    for design in found:
        simba, _, eyeriss = design["chiplets"]
        assert next(level for level in eyeriss["levels"] if level["name"] == "shared_glb")["fanout"] == [4, 1]
        assert next(level for level in simba["levels"] if level["name"] == "GlobalBuffer")["capacity_words"] == 65536
    # Another search starts from some of these designs, on their tiles.
    own, before = some_of(tmp_path / "out", tmp_path / "own.json")
    demands = demand(tmp_path, package=package)
    assert search(networks, tmp_path / "next", *demands, "--inject", own, "--no-seeds", "--generations", "1") == 0
    after = objectives(table(tmp_path / "next" / "front.csv"))
    assert all((after <= row * (1 + 1e-6)).all(axis=1).any() for row in before)
    # The file is complete: it states the sizes of the fixed chiplets too.
    again = tmp_path / "again.csv"
    assert main(["evaluate", "designs", str(tmp_path / "out" / "designs.json"), "--out", str(again)]) == 0
    np.testing.assert_allclose(objectives(table(again)), objectives(table(tmp_path / "out" / "front.csv")), rtol=1e-9)


def test_pinned_layers_stay_where_they_are_pinned(networks, tmp_path):
    demands = {
        "package": {"open": True, "chiplets": [{"template": "simba", "tile": 2}]},
        "pin": [{"layers": "one/head", "chiplet": 0}, {"layers": "two/s*", "templates": ["simba"]}],
    }
    assert search(networks, tmp_path / "out", *demand(tmp_path, **demands)) == 0
    document = json.loads((tmp_path / "out" / "designs.json").read_text())
    names = [(document["networks"][row["network"]]["name"], row["name"]) for row in document["layers"]]
    for design in designs(tmp_path / "out", fixed=(2,)):
        chips = design["chiplets"]
        assert any(chip["tile"] == 2 and chip["template"] == "simba" for chip in chips)
        for step in design["schedule"]:
            network, layer = names[step["layer"]]
            if (network, layer) == ("one", "head"):
                assert chips[step["chiplet"]]["tile"] == 2
            if network == "two" and layer.startswith("s"):
                assert chips[step["chiplet"]]["template"] == "simba"


@pytest.mark.slow
def test_one_number_on_two_islands_ends_at_its_best_design(networks, results, tmp_path):
    out = tmp_path / "out"
    switched = ["--rate", "opening=0", "--islands", "2", "--no-figures"]
    assert search(networks, out, "--objective", "product", "--weights", "1,1,0", *switched) == 0
    best, found = (objectives(table(folder / "front.csv")) for folder in (results, out))
    assert (found[:, 0] * found[:, 1]).min() <= 1.05 * (best[:, 0] * best[:, 1]).min()
    counts = [int(row["evaluations"]) for row in table(out / "history.csv")]
    assert counts[-1] - counts[0] == 2 * 12 * 35
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert config["plan_rates"]["opening"] == 0 and config["plan_rates"]["closing"] > 0
    assert config["weights"] == [1, 1, 0]


def test_injected_designs_are_the_first_ones(networks, results, tmp_path):
    own, given = some_of(results, tmp_path / "own.json")
    more = ["--inject", own, "--no-seeds", "--generations", "1", "--no-figures"]
    assert search(networks, tmp_path / "out", *more) == 0
    found = objectives(table(tmp_path / "out" / "front.csv"))
    for row in given:
        assert (found <= row * (1 + 1e-6)).all(axis=1).any(), "an injected design is lost"


def test_injected_loop_nests_join_the_tables(networks, results):
    application = load_scenario(networks)
    technology = load_technology()
    file = read_designs(results / "designs.json", technology=technology)
    problem = DesignProblem(application, technology=technology)
    resolved = problem.resolved
    # Tables with a single nest of each set, the last one in the file's sets.
    known = jax.tree.map(lambda leaf: np.take_along_axis(
        leaf, np.maximum(file.count - 1, 0).reshape(*file.count.shape, *[1] * (leaf.ndim - 2)), axis=2
    ), file.mappings)  # fmt: skip
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), technology)
    layers = stacked_layers(u.shape for u in application.unique_layers)
    arrays = template_arrays(resolved.templates, single)
    few = tabulate(layers, arrays, single, known, np.minimum(file.count, 1))
    tables, own = inject(file, problem.cast(jnp.float32), few)
    assert (np.asarray(tables.count) == file.count).all(), "each nest once, the known ones not again"
    unique, designs = np.asarray(application.unique_of_layer), file.designs.design
    for i in range(len(own.template)):
        chosen = own.template[i][own.assignment[i]], own.mapping[i]
        stated = designs.template[i][designs.assignment[i]], designs.mapping[i]
        for name in ("temporal", "order", "spatial", "spatial_order"):
            have = getattr(tables.mapping, name)[unique, *chosen]
            np.testing.assert_array_equal(have, getattr(file.mappings, name)[unique, *stated])


def test_injected_arrays_bring_only_the_nests_that_their_designs_use(networks, results):
    """Files of design arrays hold whole tables, also for templates and with nests that no design uses."""
    technology = load_technology()
    file = read_designs(results / "designs.json", technology=technology)
    problem = DesignProblem(load_scenario(networks), technology=technology).cast(jnp.float32)
    tables = mj.sample_mappings(problem, count=2)
    joined, own = inject(file, problem, tables)
    (last,) = load_templates(["shidiannao"])
    changed = dataclasses.replace(last, levels=(*last.levels[:-1], dataclasses.replace(last.levels[-1], name="Other")))
    mappings = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:, :1]], axis=1), file.mappings)
    mappings = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:, :, :1]], axis=2), mappings)
    more = dataclasses.replace(
        file,
        templates=(*file.templates, changed),
        mappings=mappings,
        count=np.concatenate([file.count + 1, file.count[:, :1]], axis=1),
    )
    again, same = inject(more, problem, tables)
    np.testing.assert_array_equal(again.count, joined.count)
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(same), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_schema_accepts_the_designs_of_a_search(results):
    jsonschema.validate(json.loads((results / "designs.json").read_text()), schema("designs/1"))


@pytest.mark.parametrize("linked", [False, True])
def test_results_do_not_take_the_place_of_injected_designs(networks, results, tmp_path, capsys, linked):
    own = tmp_path / "own"
    own.mkdir()
    shutil.copy(results / "designs.json", own)
    named = tmp_path / "linked.json" if linked else own / "designs.json"
    if linked:
        named.symlink_to(own / "designs.json")
    assert search(networks, own, "--inject", str(named)) == 2
    told = f"{own / 'designs.json'}: --out: is also the input {named}, which the result would replace"
    assert told in capsys.readouterr().err
    assert [path.name for path in own.iterdir()] == ["designs.json"]


def test_designs_of_other_networks_are_refused(networks, results, tmp_path, capsys):
    assert search(networks[:1], tmp_path / "out", "--inject", str(results / "designs.json")) == 2
    assert "other networks" in capsys.readouterr().err


# ---------------------------------------------------------------- bad requirements

INF = math.inf
NONSENSE = {
    "a limit below 0": ({"limits": (INF, -1.0, INF, INF)}, "limits.energy_J: -1.0 is too small"),
    "a limit of nothing": ({"limits": (0, INF, INF, INF)}, "limits.latency_s: 0 is too small"),
    "a limit that is no number": ({"limits": (math.nan, INF, INF, INF)}, "limits.latency_s: expected a number"),
    "too few limits": ({"limits": (1.0,)}, "limits: has 1 entries; give one for each of latency_s"),
    "a limit on users": ({"tenant_limits": (INF, 0.5, INF)}, "limits.missed_deadlines: 0.5 is not whole"),
    "half a chiplet": ({"most": 2.5}, "chiplets.most: 2.5 is not whole"),
    "no chiplet": ({"least": 0}, "chiplets.least: 0 is too small"),
    "fewer than none": ({"template_most": {"simba": -1}}, "chiplets.templates.simba.most: -1 is too small"),
    "sizes of nothing": (
        {"chiplets": (FixedChiplet("simba", 0, {"L1": {"capacity_words": 0}}),)},
        "package.chiplets[0].levels.L1.capacity_words: 0 is too small",
    ),
    "a pin to nowhere": ({"pins": (Pin("*"),)}, "pin[0]: says not where to"),
    "a closed package of nothing": ({"open": False}, "open: is False, and no chiplet is fixed"),
}


@pytest.mark.parametrize("word", NONSENSE)
def test_requirements_of_nonsense_are_refused_where_they_are_made(word):
    fields, told = NONSENSE[word]
    with pytest.raises(InputError) as error:
        Requirements(**fields)
    assert told in str(error.value)


def test_requirements_take_numbers_of_numpy():
    given = Requirements(limits=(np.float32(0.5), INF, INF, INF), most=np.int64(3))
    assert given == Requirements(limits=(0.5, INF, INF, INF), most=3)


BAD = {
    "an unknown key": ({"limit": {}}, "limit"),
    "a negative limit": ({"limits": {"area_mm2": -1}}, "area_mm2"),
    "too many chiplets": ({"chiplets": {"most": 99}}, "99"),
    "numbers that contradict": ({"chiplets": {"least": 5, "most": 2}}, "contradict"),
    "an unknown template": ({"package": {"chiplets": [{"template": "tpu"}]}}, "tpu"),
    "an unknown level": ({"package": {"chiplets": [{"template": "simba", "levels": {"L9": {}}}]}}, "L9"),
    "a tile outside": ({"package": {"chiplets": [{"template": "simba", "tile": 99}]}}, "99"),
    "one tile twice": (
        {"package": {"chiplets": [{"template": "simba", "tile": 1}, {"template": "eyeriss", "tile": 1}]}},
        "tile 1",
    ),
    "no such layer": ({"pin": [{"layers": "nothing*", "templates": ["simba"]}]}, "nothing"),
    "a pin to nowhere": ({"pin": [{"layers": "*"}]}, "says not where"),
    "a pin to no chiplet": ({"pin": [{"layers": "*", "chiplet": 0}]}, "chiplet 0"),
    "more chiplets than the package holds": (
        {"chiplets": {"least": 4}, "package": {"open": False, "chiplets": [{"template": "simba"}]}},
        "contradict",
    ),
    "more of a template than it may have": (
        {"chiplets": {"templates": {"simba": {"most": 1}}}, "package": {"chiplets": [{"template": "simba"}] * 2}},
        "contradict",
    ),
    "two templates in a homogeneous package": (
        {"homogeneous": True, "chiplets": {"templates": {"simba": {"least": 1}, "eyeriss": {"least": 1}}}},
        "contradict",
    ),
    "sizes that make no template": (
        {"package": {"chiplets": [{"template": "simba", "levels": {"GlobalBuffer": {"capacity_words": 16}}}]}},
        "less than one access",
    ),
    "a template that cannot run what is pinned to it": (
        {"pin": [{"layers": "*", "templates": ["eyeriss-released"]}]},
        "dwconv",
    ),
    "a fixed chiplet beyond the limit on area": (
        {"limits": {"area_mm2": 1.0}, "package": {"chiplets": [{"template": "simba", "sizes": "largest"}]}},
        "alone take",
    ),
    "sizes that are searched and given": (
        {"package": {"chiplets": [{"template": "simba", "sizes": "free", "levels": {"GlobalBuffer": {}}}]}},
        "`sizes: free` has them searched",
    ),
    "an empty package": ({"package": {"chiplets": []}}, "package"),
    "a closed package that cannot run a layer": (
        {"package": {"open": False, "chiplets": [{"template": "eyeriss-released"}]}},
        "dwconv",
    ),
}


@pytest.mark.parametrize("word", BAD)
def test_bad_requirements_are_one_line(networks, tmp_path, capsys, word):
    content, named = BAD[word]
    known = ("--templates", "eyeriss,simba,shidiannao,eyeriss-released,simba-medea")
    assert search(networks, tmp_path / "out", *known, *demand(tmp_path, **content)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and named in said[0]


@pytest.mark.parametrize(("room", "chosen"), [(1, None), (2, [1, 2]), (3, [0, 1, 2])])
def test_a_package_with_little_room_gets_as_few_chiplets_as_run_every_layer(room, chosen):
    """The template that runs most layers is the greedy choice, but none of the fewest that run all together."""
    able = np.zeros((6, 3), bool)
    for template, layers in enumerate(([0, 1, 2, 3], [0, 1, 4], [2, 3, 5])):
        able[layers, template] = True
    open_package = {"tiles": np.full(4, FREE), "fixed": np.array([], int), "free": np.arange(4), "file": ""}
    resolved = SimpleNamespace(most=np.full(4, room), **open_package)
    if chosen is None:
        with pytest.raises(InputError, match="it takes 2 chiplets to run every layer, there may be 1; allow 2"):
            _cover(able, resolved)
    else:
        cover = _cover(able, resolved)
        assert sorted(cover[cover >= 0]) == chosen


def toy():
    layer = Layer("a", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    return ApplicationModel("toy", (Network("n", (layer,), frames_per_second=30.0),))


def test_a_template_that_bears_the_name_of_fixed_sizes_stays_another():
    simba, other = load_template("simba"), dataclasses.replace(load_template("eyeriss"), name="simba-fixed1")
    chiplets = (FixedChiplet("simba", 0, {}), FixedChiplet("simba-fixed1", 1))
    found = resolve(Requirements(chiplets=chiplets, open=False), toy(), (simba, other), 16, 16)
    assert [t.name for t in found.templates] == ["simba-fixed2", "simba-fixed1"]
    assert [t.level_names for t in found.templates] == [simba.level_names, other.level_names]


def test_power_is_no_limit_where_frames_overlap():
    limited = Requirements(limits=(math.inf, math.inf, math.inf, 5.0))
    goals = Goals(objectives=("period", "energy", "area"))
    goals.check(toy(), Requirements())
    with pytest.raises(InputError, match=r"limits.power_W.*frames that overlap"):
        goals.check(toy(), limited)


def test_the_documented_example_is_read(tmp_path):
    text = (demands.__doc__ or "").split("```yaml")[1].split("```")[0]
    (tmp_path / "r.yaml").write_text(text)
    read = load_requirements(tmp_path / "r.yaml")
    assert len(read.chiplets) == 3 and len(read.pins) == 2 and read.limits[3] == 10
    resolved = resolve(dataclasses.replace(read, pins=read.pins[1:]), demo_application(), load_templates(), 16, 16)
    assert [resolved.tiles[c.tile] >= 0 for c in read.chiplets] == [True] * 3


def demo_application():
    shape = WorkloadShape(K=4, C=4)
    return ApplicationModel("demo", (Network("net", (Layer("fc", "fc", "Gemm", shape, 8, ()),)),))


def test_chiplets_without_a_tile_take_those_that_nobody_names():
    rows = [{"template": "simba"}, {"template": "eyeriss", "tile": 0}]
    read = requirements_from_dict({"format": "requirements/1", "package": {"chiplets": rows}})
    assert [chiplet.tile for chiplet in read.chiplets] == [1, 0]


def test_requirements_survive_a_round_trip(tmp_path):
    content = {
        "format": "requirements/1",
        "limits": {"area_mm2": 3.0},
        "chiplets": {"least": 2, "most": 6, "templates": {"simba": {"most": 4}}},
        "homogeneous": True,
        "package": {"open": True, "chiplets": [{"template": "simba", "tile": 1, "sizes": "largest"}]},
        "pin": [{"layers": "a/*", "chiplet": 0}, {"layers": "*", "templates": ["simba"]}],
    }
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(content))
    read = load_requirements(tmp_path / "r.yaml")
    assert read.to_dict() == content
    assert dataclasses.replace(requirements_from_dict(read.to_dict()), file=read.file) == read


def test_a_package_is_open_unless_a_file_says_otherwise():
    row = {"template": "simba", "tile": 0}
    for stated, is_open in (({}, True), ({"open": None}, True), ({"open": True}, True), ({"open": False}, False)):
        read = requirements_from_dict({"package": {**stated, "chiplets": [row]}})
        assert read == Requirements(chiplets=(FixedChiplet("simba", 0),), open=is_open)
        assert read.to_dict()["package"] == {"open": is_open, "chiplets": [row]}
        assert requirements_from_dict(read.to_dict()) == read
    assert Requirements(chiplets=(FixedChiplet("simba", 0),)).open


def test_a_dry_run_lists_the_requirements(networks, tmp_path, capsys):
    assert search(networks, tmp_path, "--dry-run") == 0
    assert "\nrequirements: none\n" in capsys.readouterr().out
    package = {"open": True, "chiplets": [{"template": "simba"}, {"template": "eyeriss", "sizes": "largest"}]}
    content = {"limits": {"area_mm2": 30.0}, "chiplets": {"most": 6}, "package": package}
    asked = demand(tmp_path, **content, pin=[{"layers": "one/*", "chiplet": 0}])
    assert search(networks, tmp_path, "--dry-run", *asked) == 0
    said = capsys.readouterr().out.split("requirements.yaml:\n")[1].split("\n\n")[0]
    package["chiplets"] = [{**chiplet, "tile": i} for i, chiplet in enumerate(package["chiplets"])]
    whole = {**content, "pin": [{"layers": "one/*", "chiplet": 0}]}
    assert yaml.safe_load(said) == whole
    assert search(networks, tmp_path, "--dry-run", "--json", *asked) == 0
    assert json.loads(capsys.readouterr().out)["requirements"] == {"format": "requirements/1", **whole}


def test_weights_need_the_product(networks, tmp_path, capsys):
    assert search(networks, tmp_path / "out", "--objective", "latency", "--weights", "1,1,1") == 2
    assert "--weights" in capsys.readouterr().err
    with pytest.raises(InputError, match="objective"):
        from mohamjax.search import MohamConfig

        MohamConfig(objective="speed")
