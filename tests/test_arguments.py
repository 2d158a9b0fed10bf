"""Wrong arguments of the Python functions get one line that names them; permitted substitutes are accepted."""
# ruff: noqa: F811 -- fixtures of test_api are imported by the names that the tests ask for

import re

import jax
import jax.numpy as jnp
import pytest
from test_api import designs, problem, result, space, tables, toy  # noqa: F401 -- fixtures

import mohamjax as mj
from mohamjax.errors import InputError
from mohamjax.workload import ApplicationModel, Network


def _nests(given):
    return jax.tree.map(lambda leaf: leaf[0, 0], given["tables"].mapping)


def _asks(given, asked):
    return mj.what_if(asked, given["space"], given["problem"], {"clock": [1, 2]})


def _sways(given, names):
    return mj.sensitivities(given["designs"], given["space"], given["problem"], names)


def _costs(given, **options):
    return mj.evaluate_mappings(_nests(given), given["problem"].application.unique_layers[0], "simba", **options)


REFUSED = {
    "no scenario": (lambda g: mj.load_scenario(None), "`spec`: is of the type NoneType; give the name of a scenario"),
    "numbers for scenarios": (lambda g: mj.load_scenario([3]), "`spec`: is of the type int"),
    "a number for a file": (lambda g: mj.load_onnx(3), "`paths`: is of the type int; give paths"),
    "a name of nothing": (lambda g: mj.sample_mappings("nonsense", 4), "'nonsense': there is no such scenario"),
    "half a mapping": (lambda g: mj.sample_mappings(g["problem"], 2.5), "`count`: is 2.5; ask for 1"),
    "a word for a seed": (lambda g: mj.sample_mappings(g["problem"], 2, seed="a"), "`seed`: is 'a'; give a whole"),
    "a seed of arrays": (lambda g: g["problem"].arrays(g["tables"], seed="a"), "`seed`: is 'a'"),
    "a seed of a mapper": (lambda g: mj.map_layers(g["problem"], "tiny", seed=-1), "`seed`: is -1"),
    "a network without layers": (
        lambda g: g["problem"].replace(
            application=ApplicationModel("toy", (*g["problem"].application.networks, Network("empty", ())))
        ),
        "network 'empty': has no layers; give it some, or leave it out",
    ),
    "no block": (lambda g: _costs(g, block_size=0), "`block_size`: is 0; give 1 mapping or more"),
    "half a child": (lambda g: _costs(g, max_children=0.5), "`max_children`: is 0.5; give 0 or more"),
    "fewer than no children": (lambda g: _costs(g, max_children=-1), "`max_children`: is -1; give 0 or more"),
    "no tables": (lambda g: g["problem"].arrays(None), "`tables`: is of the type NoneType; give what mj.map_layers"),
    "half precision": (lambda g: g["problem"].arrays(g["tables"], dtype=jnp.float16), "give float32 or float64"),
    "brain floats": (lambda g: g["problem"].arrays(g["tables"], dtype=jnp.bfloat16), "give float32 or float64"),
    "integers": (lambda g: g["problem"].arrays(g["tables"], dtype="int32"), "`dtype`: is 'int32'; give float32"),
    "no dtype": (lambda g: g["problem"].arrays(g["tables"], dtype="short"), "`dtype`: is 'short'"),
    "a number for a key": (lambda g: mj.sample_designs(0, g["space"], 4), "`key`: is 0; give one key"),
    "two keys": (lambda g: mj.sample_designs(jax.random.split(jax.random.key(0)), g["space"], 4), "is 2 keys"),
    "nests in a list": (
        lambda g: mj.evaluate_mappings([_nests(g)], g["layer"], "simba"),
        "`mappings`: is of the type list",
    ),
    "a layer's name": (lambda g: mj.evaluate_mappings(_nests(g), "stem", "simba"), "`layer`: is of the type str"),
    "one name": (
        lambda g: mj.search(g["problem"], g["tables"], objectives="latency"),
        "`objectives`: are 'latency'; give",
    ),
    "no names": (
        lambda g: mj.search(g["problem"], g["tables"], objectives=3),
        "`objectives`: are 3; give two or three",
    ),
    "a front alone": (
        lambda g: mj.write_results("none", g["result"].front),
        "`result`: is of the type Evaluated; give",
    ),
    "no front": (lambda g: mj.timetable(g["tables"], 0), "`front`: is of the type MappingTables"),
    "no row": (lambda g: mj.timetable(g["result"], 10_000), "`row`: is 10000; give a row of the front, 0 to"),
    "designs to write": (
        lambda g: mj.write_designs("none", g["problem"], g["tables"], 3),
        "`designs`: is of the type int",
    ),
    "tables to write": (
        lambda g: mj.write_designs("none", g["problem"], 3, g["designs"]),
        "`tables`: is of the type int",
    ),
    "one design": (lambda g: _asks(g, g["designs"][0]), "`designs`: is a single design, without a leading axis"),
    "no design": (lambda g: _asks(g, g["designs"][:0]), "`designs`: holds no design; give several"),
    "no designs": (lambda g: _asks(g, 3), "`designs`: is of the type int"),
    "part of a name": (
        lambda g: _sways(g, ["dram"]),
        "argument `parameters`: unknown parameter 'dram'; use nop.dram_bandwidth",
    ),
    "none of the names": (lambda g: _sways(g, "zzz"), "'zzz'; docs/concepts/what-if.md lists them: clock, "),
    "half a sample": (
        lambda g: mj.uncertainty(g["designs"], g["space"], g["problem"], samples=2.5),
        "`samples`: is 2.5",
    ),
}  # fmt: skip
"""What a stranger tries, and the part of the complaint that names the argument or the remedy."""


@pytest.mark.parametrize("tried", REFUSED)
def test_what_is_no_argument_is_told_in_one_line(problem, tables, space, designs, result, tried):
    given = {"problem": problem, "tables": tables, "space": space, "designs": designs, "result": result}
    call, complaint = REFUSED[tried]
    with pytest.raises(InputError, match=re.escape(complaint)) as error:
        call(given | {"layer": problem.application.unique_layers[0]})
    assert "..." not in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_a_problem_may_be_networks_everywhere(tmp_path):
    """Networks stand for a problem with all templates, as for `map_layers` and `search`."""
    assert mj.sample_mappings(toy(), count=2).count.shape == (2, len(mj.DesignProblem(toy()).templates))
    whole = mj.DesignProblem(toy())
    own = mj.sample_mappings(whole, count=2)
    where = whole.arrays(own)
    few = mj.sample_designs(jax.random.PRNGKey(0), where, 2)  # a key of the older kind is one too
    assert mj.what_if(few, where, toy(), {"clock": [1, 2]}).grid.shape == (2, 2, 3)
    mj.write_designs(tmp_path / "designs.npz", toy(), own, few)
    assert len(mj.read_designs(tmp_path / "designs.npz")) == 2


@pytest.mark.slow
def test_sensitivities_name_their_parameters(problem, space, designs):
    found = mj.sensitivities(designs, space, problem, ("nop.hop_energy", "technology.dram_energy"))
    assert found.parameter_names == ("nop.hop_energy", "technology.dram_energy")
    assert repr(found.parameters[0]) == "Parameter('nop.hop_energy', energy, 0.82 pJ_per_bit)"
    assert repr(found.parameters[1]) == "Parameter('technology.dram_energy', energy)"
