"""What users demand of designs: limits, fixed packages, pins, one template, one number, their own designs."""

import csv
import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_operators import CROSSOVERS, MUTATIONS, L, S, T, apply, genetics, population, problems, rows
from test_search import SIZES, objectives, small_network, table

from mohamjax import emo
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.search import operators
from mohamjax.search.requirements import CLOSED, FREE, load_requirements, requirements_from_dict

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


def test_no_result_stays_worse_than_any_violation():
    judged = np.asarray(emo.constrained(jnp.asarray([[jnp.inf, 1.0], [2.0, 3.0]]), jnp.asarray([5.0, 1e20])))
    assert np.isinf(judged[0, 0]) and np.isfinite(judged[1]).all()


# ---------------------------------------------------------------- operators under fixed tiles


def demanding(seed):
    """A random problem with one fixed chiplet (of template 1, which runs everything), one closed tile, and pins."""
    g = genetics(seed, L - 1, max_chiplets=5)
    rng = np.random.default_rng(seed)
    tiles = rng.permutation(S)
    site = np.full(S, FREE, np.int32)
    site[tiles[0]], site[tiles[1]] = 1, CLOSED
    cover = np.where(site == 1, 1, -1).astype(np.int32)
    return dataclasses.replace(g, site=jnp.asarray(site), cover=jnp.asarray(cover)), int(tiles[0]), int(tiles[1])


def broken(design, g, fixed, closed):
    template = np.asarray(design.template)
    found = [p for p in problems(design, g) if p != f"chiplet {fixed} stands empty"]
    if template[fixed] != 1:
        found.append("the fixed chiplet has gone")
    if template[closed] >= 0:
        found.append("a chiplet stands on the closed tile")
    return found


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


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "net.onnx"
    small_network(path, 16)
    return str(path)


@pytest.fixture(scope="module")
def free(network, tmp_path_factory):
    """An undemanding search: its results folder."""
    folder = tmp_path_factory.mktemp("free")
    assert search(network, folder) == 0
    return folder


def search(network, out, *more):
    return main(["search", network, "--budget", "tiny", "--no-figures", "--out", str(out), *SIZES, *more])


def demand(tmp_path, **content):
    path = tmp_path / "requirements.yaml"
    path.write_text(yaml.safe_dump({"format": "requirements/1", **content}))
    return ["--require", str(path)]


def designs(folder):
    return json.loads((folder / "designs.json").read_text())["designs"]


def test_every_design_keeps_the_limits(network, free, tmp_path):
    values = objectives(table(free / "front.csv"))
    latency, energy, area = (float(x) for x in np.median(values, axis=0))
    limits = {"latency_s": latency, "energy_J": 2 * energy, "area_mm2": 3 * area, "power_W": 3 * energy / latency}
    assert search(network, tmp_path / "out", *demand(tmp_path, limits=limits, chiplets={"least": 2})) == 0
    kept = objectives(table(tmp_path / "out" / "front.csv"))
    assert len(kept) >= 1
    assert (kept <= np.asarray([latency, 2 * energy, 3 * area]) * (1 + 1e-6)).all()
    assert (kept[:, 1] / kept[:, 0] <= limits["power_W"] * (1 + 1e-6)).all()
    assert all(int(row["n_chiplets"]) >= 2 for row in table(tmp_path / "out" / "front.csv"))


def test_limits_that_nothing_keeps_end_with_one_line(network, tmp_path, capsys):
    assert search(network, tmp_path / "out", *demand(tmp_path, limits={"latency_s": 1e-12})) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "limits" in said and "loosen" in said


def test_a_closed_package_is_all_there_is(network, tmp_path):
    package = {
        "chiplets": [
            {"template": "simba", "sizes": "largest"},
            {"template": "eyeriss", "tile": 3, "levels": {"shared_glb": {"fanout": [4, 1]}}},
        ]
    }
    assert search(network, tmp_path / "out", *demand(tmp_path, package=package)) == 0
    found = designs(tmp_path / "out")
    kinds = {tuple(chip["template"] for chip in design["chiplets"]) for design in found}
    assert kinds == {("simba-fixed1", "eyeriss-fixed1")}
    assert len({design["area_mm2"] for design in found}) == 1
    buffer = next(level for level in found[0]["chiplets"][1]["levels"] if level["name"] == "shared_glb")
    assert buffer["fanout"] == [4, 1]
    # The file stands for itself: sizes of the fixed chiplets included.
    again = tmp_path / "again.csv"
    assert main(["evaluate", "designs", str(tmp_path / "out" / "designs.json"), "--out", str(again)]) == 0
    np.testing.assert_allclose(objectives(table(again)), objectives(table(tmp_path / "out" / "front.csv")), rtol=1e-9)


def test_one_template_and_pinned_layers(network, tmp_path):
    demands = {
        "homogeneous": True,
        "package": {"open": True, "chiplets": [{"template": "simba", "tile": 2}]},
        "pin": [{"layers": "net/head", "chiplet": 0}, {"layers": "net/s*", "templates": ["simba"]}],
    }
    assert search(network, tmp_path / "out", *demand(tmp_path, **demands)) == 0
    for design in designs(tmp_path / "out"):
        assert {chip["template"] for chip in design["chiplets"]} == {"simba"}
        tiles = [chip["tile"] for chip in design["chiplets"]]
        assert 2 in tiles
        head = next(step for step in design["schedule"] if step["layer"] == 3)
        assert tiles[head["chiplet"]] == 2


def test_one_number_ends_at_its_best_design(network, free, tmp_path):
    best = objectives(table(free / "front.csv"))
    assert search(network, tmp_path / "out", "--objective", "product", "--weights", "1,1,0") == 0
    found = objectives(table(tmp_path / "out" / "front.csv"))
    assert (found[:, 0] * found[:, 1]).min() <= 1.05 * (best[:, 0] * best[:, 1]).min()


def test_injected_designs_are_the_first_ones(network, free, tmp_path):
    out = tmp_path / "out"
    assert search(network, out, "--inject", str(free / "designs.json"), "--no-seeds", "--seed", "7",
                  "--population", "128", "--generations", "1") == 0  # fmt: skip
    given = objectives(table(free / "front.csv"))
    found = objectives(table(out / "front.csv"))
    for row in given:
        assert (found <= row * (1 + 1e-6)).all(axis=1).any(), "an injected design is lost"


def test_designs_of_other_networks_are_refused(free, tmp_path, capsys):
    small_network(tmp_path / "other.onnx", 24)
    assert search(str(tmp_path / "other.onnx"), tmp_path / "out", "--inject", str(free / "designs.json")) == 2
    assert "other networks" in capsys.readouterr().err


def test_operators_switched_off_are_recorded(network, tmp_path):
    assert search(network, tmp_path / "out", "--rate", "resizing_mutation=0", "--rate", "opening_mutation=0") == 0
    rates = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["rates"]
    assert rates["resizing_mutation"] == 0 and rates["splitting_mutation"] > 0


def test_islands_are_merged(network, tmp_path):
    assert search(network, tmp_path / "out", "--islands", "2") == 0
    with open(tmp_path / "out" / "history.csv", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    assert int(last["evaluations"]) == 2 * 13 * 35


# ---------------------------------------------------------------- bad requirements

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
    "an empty package": ({"package": {"chiplets": []}}, "package"),
    "a closed package that cannot run a layer": ({"package": {"chiplets": [{"template": "eyeriss"}]}}, "dwconv"),
}


@pytest.mark.parametrize("word", BAD)
def test_bad_requirements_are_one_line(network, tmp_path, capsys, word):
    content, named = BAD[word]
    assert search(network, tmp_path / "out", *demand(tmp_path, **content)) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and named in said[0]


def test_requirements_survive_a_round_trip(tmp_path):
    content = {
        "format": "requirements/1",
        "limits": {"area_mm2": 3.0},
        "chiplets": {"least": 2, "most": 6, "templates": {"simba": {"most": 4}}},
        "homogeneous": True,
        "package": {"open": True, "chiplets": [{"template": "simba", "tile": 1, "levels": {}}]},
        "pin": [{"layers": "a/*", "chiplet": 0}, {"layers": "*", "templates": ["simba"]}],
    }
    (tmp_path / "r.yaml").write_text(yaml.safe_dump(content))
    read = load_requirements(tmp_path / "r.yaml")
    assert read.to_dict() == content
    assert dataclasses.replace(requirements_from_dict(read.to_dict()), file=read.file) == read


def test_weights_need_the_product(network, tmp_path, capsys):
    assert search(network, tmp_path / "out", "--objective", "latency", "--weights", "1,1,1") == 2
    assert "--weights" in capsys.readouterr().err
    with pytest.raises(InputError, match="objective"):
        from mohamjax.search import MohamConfig

        MohamConfig(objective="speed")
