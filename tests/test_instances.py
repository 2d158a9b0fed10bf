"""MOHaM's chromosome as printed: identifiers apart from tiles, and what that changes in the operators."""

import dataclasses
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_search import SIZES, objectives, search, small_network, table
from test_operators import A, B, L, S, chains, design, genetics, outcomes, problems

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.problem.resolved import CLOSED
from mohamjax.search import PAPER_RATES, Settings, instances, operators, preset_package
from mohamjax.search.config import changed
from mohamjax.search.instances import Instances, instances_of, placed, settled

MUTATIONS = [name for name in vars(instances) if name.endswith("_mutation")]
CROSSOVERS = ["scheduling_crossover", "mapping_crossover", "sa_crossover"]


@functools.partial(jax.jit, static_argnames="count")
def population(key, g, count):
    return jax.vmap(instances.sample, in_axes=(0, None, None))(jax.random.split(key, count), g, S)


@functools.cache
def batched(name):
    axes = (0, 0, None) if name in MUTATIONS else (0, 0, 0, None)
    return jax.jit(jax.vmap(getattr(instances, name), in_axes=axes))


def apply(name, key, individuals, g):
    keys = jax.random.split(key, individuals.tile.shape[0])
    if name in MUTATIONS:
        return [batched(name)(keys, individuals, g)]
    return list(batched(name)(keys, individuals, jax.tree.map(lambda x: x[::-1], individuals), g))


def individuals_of(many):
    host = jax.device_get(many)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], host) for i in range(len(host.tile))]


def broken(one, g):
    """What is wrong with an individual: with its genes, its tiles, and the design that they stand for."""
    found = problems(one.design, g) + problems(jax.device_get(placed(one)), g)
    if sorted(one.tile) != list(range(S)):
        found.append("tiles are no permutation")
    free = np.asarray(g.on_tile) == np.asarray(genetics(0).on_tile)[0]
    if (one.tile[~free] != np.arange(S)[~free]).any():
        found.append("a fixed tile has moved")
    template = np.asarray(placed(one).template)[free]
    if (np.diff((template >= 0).astype(int)) > 0).any():
        found.append("an empty tile lies before a chiplet")
    return found


def test_every_operator_of_layers_has_its_counterpart():
    named = {name for name, f in vars(operators).items() if name.endswith(("_mutation", "_crossover"))}
    assert named == {*MUTATIONS, *CROSSOVERS}
    assert all(inspect.isfunction(getattr(instances, name)) for name in named)


@pytest.mark.parametrize("name", MUTATIONS + CROSSOVERS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**16), layers=st.integers(1, L), chips=st.integers(1, S))
def test_every_operator_keeps_individuals_valid(name, seed, layers, chips):
    g = genetics(seed, layers, max_chiplets=chips)
    start = population(jax.random.key(seed), g, 16)
    for many in (start, *apply(name, jax.random.key(seed + 1), start, g)):
        for one in individuals_of(many):
            assert broken(one, g) == []


@pytest.mark.slow
def test_fixed_and_closed_tiles_are_left_alone():
    g = genetics(3)
    on_tile = g.on_tile.at[2].set(1).at[5].set(CLOSED)
    g = dataclasses.replace(g, on_tile=on_tile, cover=g.cover.at[0].set(-1).at[2].set(1))
    current = population(jax.random.key(0), g, 32)
    for i, name in enumerate((MUTATIONS + CROSSOVERS) * 2):
        current = apply(name, jax.random.key(i), current, g)[0]
    for one in individuals_of(current):
        assert placed(one).template[2] == 1
        assert placed(one).template[5] == -1
        assert (one.tile[[2, 5]] == [2, 5]).all()


def test_a_design_of_tiles_is_the_individual_that_is_placed_on_them():
    gap = design([0, 1, 2, 3, 4, 5], [3, 3, 3, 1, 1, 1], [1, 1, 1, 0, 0, 0], [-1, 1, -1, 0])
    one = instances_of(gap, chains())
    assert list(one.design.template) == [-1, 1, -1, 0]  # identifiers stay
    assert list(placed(one).template) == [1, 0, -1, -1]  # on the first tiles, in the same order
    assert list(placed(one).assignment) == [1, 1, 1, 0, 0, 0]


def individual(a, tile):
    return Instances(design=a, tile=jnp.asarray(tile, jnp.int32))


def found(name, *parents, child=0, tries=100):
    """Distinct (placed template, placed assignment, tile) that an operator yields over many keys."""
    run = jax.jit(lambda keys: jax.vmap(lambda k: getattr(instances, name)(k, *parents, chains()))(keys))
    many = run(jax.random.split(jax.random.key(0), tries))
    many = many[child] if isinstance(many, tuple) else many
    return {
        tuple(tuple(int(v) for v in leaf) for leaf in (placed(one).template, placed(one).assignment, one.tile))
        for one in individuals_of(many)
    }


def test_splitting_appends_the_new_instance_as_the_last_one():
    # Identifier 0 is free, and the only instance is number 2 on the first tile: the new one is 0, on the second tile.
    one = individual(design([0, 1, 2, 3, 4, 5], [2] * 6, [0] * 6, [-1, -1, 1, -1]), [1, 2, 0, 3])
    for template, assignment, tile in found("splitting_mutation", one):
        assert template == (1, 1, -1, -1)
        assert sorted(assignment) == [0, 0, 0, 1, 1, 1]
        assert (tile[2], tile[0]) == (0, 1)


def test_position_mutation_moves_instances_and_not_their_names():
    one = individual(A, [0, 1, 2, 3])
    assert found("position_mutation", one) == {((1, 0, -1, -1), (1, 1, 1, 0, 0, 0), (1, 0, 2, 3))}


@pytest.mark.slow
def test_sa_crossover_matches_identifiers_and_not_tiles():
    # The second parent has instance 0 on the second tile: in the first parent it takes the place of instance 0.
    two = individual(B.replace(template=jnp.asarray([1, 0, -1, -1], jnp.int32)), [1, 0, 2, 3])
    first = found("sa_crossover", individual(A, [0, 1, 2, 3]), two)
    # Instance 0 of the second parent has template 1 and layers 3 to 5: instance 1 of the first has none left.
    assert ((1, -1, -1, -1), (0,) * 6) in {got[:2] for got in first}


@pytest.mark.slow
def test_sa_crossover_appends_an_instance_that_one_parent_lacks():
    two = design([0, 1, 2, 3, 4, 5], [0, 0, 2, 1, 1, 1], [0] * 6, [0, 1, 0, -1])
    first = found("sa_crossover", individual(A, [1, 0, 2, 3]), individual(two, [1, 2, 0, 3]))
    # Instance 2 stands first in its parent, and last in the one that gets it.
    assert any(template == (1, 0, 0, -1) and assignment[2] == 2 for template, assignment, _ in first)


def test_scheduling_crossover_appends_whole_genes():
    # There are five cuts; layers behind a cut get the instance and the mapping that the other parent gives them.
    first = outcomes(lambda key, a, b, g: instances.scheduling_crossover(key, a, b, g)[0].design,
                     individual(A, [0, 1, 2, 3]), individual(B, [0, 1, 2, 3]))  # fmt: skip
    after_one = ((0, 1, 1, 0, 0, 0), (0, 1, 1, 1, 1, 1), (0, 3, 4, 5, 1, 2), (0, 1, -1, -1))
    assert after_one in first
    assert len(first) == 5


def test_settled_keeps_the_order_of_those_that_stay():
    g = chains()
    before = individual(A, [1, 0, 2, 3])
    after = settled(before, A.replace(template=jnp.asarray([-1, 1, 0, -1], jnp.int32)), g)
    assert list(after.tile[1:3]) == [0, 1]


# ---------------------------------------------------------------- the preset


def test_the_preset_is_what_it_says():
    printed = Settings.preset(preset="moham", seed=4)
    config, mapper = printed.moham, printed.mapper
    assert (printed.budget, config.generations, config.population, config.immigrant_count) == ("paper", 300, 250, 0)
    assert (config.genes, config.result, config.scale, config.survival) == (
        "instances", "population", "linear", "crowding"
    )  # fmt: skip
    assert (config.rate_unit, config.seeded, printed.remap.every) == ("individual", False, 0)
    assert printed.rates == PAPER_RATES
    rates = {name: round(float(rate), 3) for name, rate in dataclasses.asdict(printed.mapper_rates).items()}
    assert rates == {"crossover": 1.0, "random": 0.4, "fill": 0.7, "parallelise": 0.7, "pad": 0.0, "bypass": 0.0}
    assert (mapper.generations, mapper.population, mapper.immigrants, mapper.descent) == (15, 120, 0, 0)
    assert mapper.evaluations == 16 * 120
    assert (mapper.operators, mapper.front, mapper.scale, mapper.padding) == ("medea", "population", "linear", False)
    assert mapper.entries >= mapper.population  # room for a first front of all individuals
    assert Settings.preset("tiny", preset="moham").moham.population == 128
    assert preset_package("moham").contention == "interface"
    assert PackageParameters().contention == "all"


def test_a_search_maps_with_the_rates_of_its_settings(networks, monkeypatch):
    from mohamjax import DesignProblem, load_onnx
    from mohamjax.search import search as module

    asked = {}

    class Mapper:
        def __init__(self, layers, templates, technology, config, **more):
            asked.update(more, config=config)

        def search(self, key):
            return "tables"

    monkeypatch.setattr(module, "LayerMapper", Mapper)
    printed = Settings.preset("tiny", preset="moham")
    setup = DesignProblem(load_onnx(*networks)).setup
    assert module.mapped(setup, printed, print, None, None) == "tables"
    assert (asked["config"], asked["rates"]) == (printed.mapper, printed.mapper_rates)


def test_plans_have_no_population_for_a_result():
    with pytest.raises(InputError, match="plans"):
        changed(Settings.preset("tiny"), {"result": "population"})


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    for name, width in (("one", 8), ("two", 4)):
        small_network(folder / f"{name}.onnx", width)
    return [str(folder / "one.onnx"), str(folder / "two.onnx")]


@pytest.mark.slow
def test_the_command_writes_the_last_population_and_the_archive_beside_it(networks, tmp_path):
    assert search(networks, tmp_path / "a", "--preset", "moham", "--no-figures") == 0
    history = table(tmp_path / "a" / "history.csv")
    assert int(history[-1]["evaluations"]) == 13 * int(SIZES[1])  # there are no immigrants
    front, archive = (objectives(table(tmp_path / "a" / name)) for name in ("front.csv", "archive.csv"))
    # The archive has every design of the last population, or one that dominates it.
    for point in front:
        assert (archive <= point * (1 + 1e-9)).all(axis=1).any()
    # A search that writes no archive removes the old one.
    assert search(networks, tmp_path / "a", "--preset", "paper", "--no-figures") == 0
    assert not (tmp_path / "a" / "archive.csv").exists()


def test_depthwise_layers_as_released_are_convolutions_with_one_input_channel(networks, tmp_path, capsys):
    from mohamjax.cli import main
    from mohamjax.workload import load_scenario

    usual, released = load_scenario(networks), load_scenario(networks, depthwise="as-released")
    assert usual.macs == released.macs
    pairs = [
        (x, y) for x, y in zip(usual.layers, released.layers, strict=True) if x.type == "dwconv"
    ]  # fmt: skip
    assert len(pairs) == 2
    for own, other in pairs:
        assert (other.type, other.shape.G, other.shape.C, other.shape.K) == ("conv", 1, 1, own.shape.G * own.shape.K)
        assert (other.name, other.predecessors) == (own.name, own.predecessors)
        assert other.shape.tensor_words[1] * own.shape.G == own.shape.tensor_words[1]
    with pytest.raises(InputError, match="depthwise"):
        load_scenario(networks, depthwise="grouped")
    capsys.readouterr()
    assert main(["workload", networks[0], "--depthwise", "as-released", "--csv", "-"]) == 0
    assert "dwconv" not in capsys.readouterr().out
    given = ["schedule", "--platform", "S4", "--bandwidth", "1", "--sample", "10", "--pool", "mixed"]
    assert main([*given, "--depthwise", "as-released", "--out", str(tmp_path / "x")]) == 2
    assert "--depthwise" in capsys.readouterr().err
