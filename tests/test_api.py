"""`import mohamjax as mj`: every public name's example, how evaluation composes, search, and the README's snippet."""

import dataclasses
import doctest
import inspect
import json
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_search import small_network

import mohamjax as mj
from mohamjax import api
from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_technology
from mohamjax.io import write_designs
from mohamjax.mapper.config import MapperConfig
from mohamjax.mapping import REASONS, told_reason
from mohamjax.mapping.nest import pad_mapping
from mohamjax.problem import Requirements
from mohamjax.problem.plan_tables import WEIGHTS
from mohamjax.runtime import kept_programs as exported
from mohamjax.runtime.struct import Rows, stack, take
from mohamjax.schedule import utilisation
from mohamjax.search import PlanRates, Search, Settings
from mohamjax.search.config import changed
from mohamjax.search.generations import Silent
from mohamjax.unico.space import named_space
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

TINY = {"population": 16, "generations": 4, "chunk": 4}
ROOT = pathlib.Path(__file__).resolve().parents[1]


def toy():
    stem = Layer("stem", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
    return ApplicationModel("toy", (Network("net", (stem, head)),))


@pytest.fixture(scope="module")
def problem():
    return mj.DesignProblem(toy(), templates=("simba", "eyeriss"))


@pytest.fixture(scope="module")
def tables(problem):
    return mj.sample_mappings(problem, count=16, seed=0)


@pytest.fixture(scope="module")
def space(problem, tables):
    return problem.arrays(tables)


@pytest.fixture(scope="module")
def designs(space):
    return mj.sample_designs(jax.random.key(0), space, 64)


@pytest.fixture(scope="module")
def result(problem, tables):
    return mj.search(problem, tables, budget="tiny", seed=0, **TINY)


@pytest.fixture(scope="module")
def files(tmp_path_factory, result):
    """A folder with the files that the examples read."""
    folder = tmp_path_factory.mktemp("api")
    small_network(folder / "one.onnx", 16)
    write_designs(folder / "designs.json", result.front, "toy")
    table = {
        "format": "job-table/1",
        "resources": [{"name": "memory", "bandwidth": 4}],
        "accelerators": [{"name": "a", "resources": [0]}, {"name": "b", "resources": [0]}],
        "jobs": [{"name": "one", "duration": [4, 6], "bytes": 4}, {"name": "two", "duration": [4, 6], "bytes": 4}],
        "schedules": [
            {"name": "first", "order": [0, 1], "accelerator": [0, 0]},
            {"name": "second", "order": [0, 1], "accelerator": [0, 1]},
        ],
    }
    (folder / "table.json").write_text(json.dumps(table))
    return folder


# ---------------------------------------------------------------- names


EXAMPLES = [
    "load_scenario", "load_onnx", "DesignProblem", "DesignProblem.arrays", "Package", "Memory", "map_layers",
    "sample_mappings", "sample_designs", "evaluate", "report", "search", "evaluate_mappings", "simulate",
    "read_designs", "read_schedules", "evaluate_files", "write_designs", "write_results", "timetable", "decide",
    "schedule_jobs", "Objective", "Limit",
    "codesign",
    "emo.non_dominated_rank", "emo.crowding_distance", "emo.hypervolume", "emo.NSGA2", "emo.evolve",
    "decode_design", "design_dimensions", "what_if", "sensitivities", "uncertainty", "use_cache", "over_devices",
]  # fmt: skip


def documented(name):
    """The public object of a name such as `emo.NSGA2`."""
    thing = mj
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(x, marks=[pytest.mark.slow] * (x == "codesign")) for x in EXAMPLES])
def test_every_public_name_has_an_example_that_runs(name, problem, tables, space, designs, result, files, monkeypatch):
    thing = documented(name)
    globs = {"mj": mj, "jax": jax, "jnp": jnp, "problem": problem, "tables": tables, "space": space}
    globs |= {"designs": designs, "result": result, "take": take, "stack": stack}
    globs[name.split(".")[-1]] = thing
    globs |= {"PackageParameters": mj.Package}
    text = inspect.getdoc(thing)
    test = doctest.DocTestParser().get_doctest(text, globs, name, None, None)
    assert test.examples, f"{name} has no example"
    monkeypatch.chdir(files)
    monkeypatch.setattr(exported, "_folder", exported._folder)
    settings = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {setting: getattr(jax.config, setting) for setting in settings}
    try:
        assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0
    finally:
        for setting, value in before.items():
            jax.config.update(setting, value)


def test_what_if_refuses_a_space_of_another_problem(problem, space, designs):
    other = mj.DesignProblem(problem.application, problem.templates, mj.Package(interface_bandwidth=8))
    with pytest.raises(InputError, match="another package"):
        mj.what_if(designs, space, other, {"clock": [1]})
    with pytest.raises(InputError, match="design 3: cannot run in this space"):
        broken = dataclasses.replace(designs, mapping=designs.mapping.at[3].set(99))
        mj.what_if(broken, space, problem, {"clock": [1]})
    with pytest.raises(InputError, match="2 names for 64 designs"):
        mj.what_if(designs, space, problem, {"clock": [1]}, names=["a", "b"])


def test_examples_cover_all_public_names():
    covered = {name.split(".")[0] for name in EXAMPLES}
    assert covered == set(mj.__all__) - {"__version__"}
    assert set(dir(mj)) == set(mj.__all__)
    with pytest.raises(AttributeError, match="redesign"):
        mj.redesign  # noqa: B018


@pytest.mark.parametrize("function", [take, stack])
def test_helpers_have_examples_that_run(function):
    globs = {"jnp": jnp, function.__name__: function}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(function), globs, function.__name__, None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def run(code):
    """The words that a program prints in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_is_light():
    heavy = "jax numpy onnx matplotlib chex"
    code = f"import sys, mohamjax; print('imported', *[name for name in '{heavy}'.split() if name in sys.modules])"
    assert run(code) == ["imported"]


def test_the_name_search_is_a_function_and_a_package():
    code = """
import importlib, inspect, io, pickle, pydoc, sys
FIRST
import mohamjax as mj
room = sys.modules.get("mohamjax.search") or importlib.import_module("mohamjax.search")
from mohamjax.search import Settings
import mohamjax.search.config as config
import mohamjax.search as both
assert inspect.isfunction(mj.search) and both is mj.search and inspect.ismodule(room)
assert mj.search.Settings is Settings is config.Settings and mj.search.config is config
assert pickle.loads(pickle.dumps(mj.search)) is mj.search
assert list(inspect.signature(mj.search).parameters)[:4] == ["problem", "tables", "budget", "seed"]
told = io.StringIO()
pydoc.Helper(output=told).help(mj.search)
told = pydoc.plain(told.getvalue())
assert "search(problem" in told and inspect.getdoc(mj.search).splitlines()[0] in told, told
assert len(told) < 6000, len(told)
print("good")
"""
    imports = ("import mohamjax.search", "from mohamjax.search import Search", "import mohamjax.search.moham")
    for first in ("", *imports):
        assert run(code.replace("FIRST", first)) == ["good"]


def test_evaluations_are_counted_by_step(result):
    config = result.config["search"]
    candidates = config["population"] + round(config["immigrants"] * config["population"])
    assert result.evaluations == {
        "generations": result.history[-1]["evaluations"],
        "descent": 0,  # the budget has none
        "refitting": len(WEIGHTS) * -(-config["archive"] // config["population"]) * candidates,
        "closing": 0,
        "ordering": 0,  # of one network
    }
    steps = {"closing": {"evaluations": 5}, "ordering": {"evaluations": 7}}
    found = dataclasses.replace(result, config=result.config | steps)
    assert found.evaluations == result.evaluations | {"closing": 5, "ordering": 7}


@pytest.mark.slow
def test_what_one_prints_fits_on_a_screen(problem, tables, space, designs, result, files):
    file, technology = mj.read_designs(files / "designs.json"), load_technology()
    shown = [
        problem, problem.application, problem.templates[0], problem.resolved, tables, space, designs, designs[0],
        result,
        result.front, result.tables, file, file.space, technology, named_space("unico-ci"), named_space("unico-edge"),
        mj.what_if(designs, space, problem, {"clock": [1, 2]}), mj.read_schedules(files / "table.json"),
        mj.schedule_jobs(files / "table.json", method="LPT-EFT"), jax.jit(mj.report)(designs[0], space),
    ]  # fmt: skip
    for thing in shown:
        assert len(repr(thing)) <= 800 and "\n" not in repr(thing), repr(thing)[:1000]
    assert repr(named_space("unico-edge")) == "HardwareSpace(name='unico-edge', axes=6 x Axis, variants=18 x Template)"
    assert repr(designs) == (
        "Design(order=int32[64, 32], assignment=int32[64, 32], mapping=int32[64, 32], template=int32[64, 16])"
    )
    assert repr(take(designs, 0)).endswith(
        f"template=[{', '.join(f'{t:2d}' for t in np.asarray(designs.template[0]))}])"
    )
    # Traced and deleted arrays are shown by dtype and shape.
    traced = []
    jax.jit(lambda own: traced.append(repr(own)) or own.template)(designs[0])
    assert traced == ["Design(order=int32[32], assignment=int32[32], mapping=int32[32], template=int32[16])"]
    gone = jax.tree.map(lambda leaf: leaf + 0, designs[0])
    gone.template.delete()
    assert repr(gone).endswith("template=int32[16])")


# ---------------------------------------------------------------- the problem


def test_package_owns_the_tiles(tables):
    small = mj.DesignProblem(toy(), ("simba", "eyeriss"), package=mj.Package(max_tiles=3))
    drawn = mj.sample_designs(jax.random.key(1), small.arrays(tables), 32)
    assert drawn.template.shape == (32, 3)
    assert int(jnp.max(jnp.sum(drawn.template >= 0, axis=1))) <= 3


def test_problem_refuses_what_does_not_fit(tables):
    with pytest.raises(InputError, match="no template can run this layer"):
        deep = Layer("deep", "dwconv", "Conv", WorkloadShape(G=8, P=6, Q=6, R=3, S=3))
        mj.DesignProblem(ApplicationModel("toy", (Network("net", (deep,)),)), templates="eyeriss-released")
    with pytest.raises(InputError, match="second template"):
        mj.DesignProblem(toy(), templates=("simba", "simba"))
    with pytest.raises(TypeError, match="package: expected PackageParameters"):
        mj.DesignProblem(toy(), package=3)
    with pytest.raises((TypeError, InputError), match="application"):
        mj.DesignProblem(3)
    with pytest.raises(InputError, match="the problem has 2 on 1"):
        mj.DesignProblem(toy(), templates="simba").arrays(tables)


def test_settings_of_a_mapper_that_does_not_run_are_refused(problem, tables):
    for idle in ({"padding": False}, {"mapper": MapperConfig()}):
        with pytest.raises(InputError, match="does not run: tables are given"):
            mj.search(problem, tables, budget="tiny", **idle)


@pytest.mark.parametrize(
    ("part", "changes", "told"),
    [
        ("level", {"capacity_words": -5}, "capacity_words"),
        ("level", {"word_bits": 0}, "word_bits"),
        ("level", {"fanout": (2.5, 1)}, "fanout"),
        ("level", {"hop_energy_pJ": np.nan}, "hop_energy_pJ"),
        ("mac", {"energy_pJ": -1.0}, "mac.energy_pJ"),
        ("template", {"sizes": "any"}, "sizes"),
    ],
)
def test_templates_of_nonsense_are_refused(problem, part, changes, told):
    good = problem.templates[0]
    if part != "template":  # levels and MACs are checked when they are made
        made = good.mac if part == "mac" else next(level for level in good.levels if level.kind == "sram")
        with pytest.raises(InputError, match=told):
            dataclasses.replace(made, **changes)
        return
    bad = dataclasses.replace(good, **changes)
    for use in (lambda: mj.DesignProblem(toy(), bad), lambda: mj.codesign(toy(), template=bad)):
        with pytest.raises(InputError, match=f"template 'simba'.*{told}"):
            use()


@pytest.mark.slow
def test_what_the_command_line_reads_as_a_path_is_one_here(problem, tables, files, tmp_path):
    technology, package = tmp_path / "technology.yaml", tmp_path / "package.yaml"
    technology.write_text("format: technology/1\nname: half\nscale: {energy: 0.5}\n")
    package.write_text("max_tiles: 4\n")
    own = mj.DesignProblem(toy(), "simba", package=package, technology=technology)
    assert own.tiles == 4
    nests = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping)
    layer = problem.application.unique_layers[0]
    whole = mj.evaluate_mappings(nests, layer, "simba")
    for named in (technology, str(technology)):
        half = mj.evaluate_mappings(nests, layer, "simba", technology=named)
        assert (half.objectives[:, 1] < whole.objectives[:, 1]).all()
    for use in (mj.read_designs, mj.evaluate_files):
        with pytest.raises(InputError, match=r"none\.yaml: no such file"):
            use(files / "designs.json", technology=tmp_path / "none.yaml")
    with pytest.raises(InputError, match="technology"):
        mj.read_designs(files / "designs.json", technology=technology)
    for argument in ("technology", "package", "template"):
        with pytest.raises(InputError, match=r"none\.yaml: no such file"):
            mj.codesign(toy(), budget="ci", **{argument: str(tmp_path / "none.yaml")})
    for argument in ("technology", "package", "template", "application"):
        with pytest.raises(TypeError, match=f"{argument}: expected"):
            mj.codesign(**{"application": toy(), "budget": "ci", argument: 3})


def test_template_arrays_are_built_once(problem, monkeypatch):
    own, setup = (sys.modules[f"mohamjax.{name}"] for name in ("problem.design_problem", "schedule.setup"))
    fresh = dataclasses.replace(problem)
    calls = []
    real = own.template_arrays
    monkeypatch.setattr(own, "template_arrays", lambda *a, **k: calls.append(1) or real(*a, **k))
    monkeypatch.setattr(setup, "template_arrays", lambda *a, **k: calls.append(1) or real(*a, **k))
    fresh.arrays(mj.sample_mappings(fresh, count=16))
    fresh.arrays(mj.sample_mappings(fresh, count=16, seed=1))
    assert len(calls) == 1


@pytest.mark.slow
def test_a_problem_that_is_used_while_a_program_is_traced_stays_sound(problem, tables, space, designs):
    fresh, other, drawn = (dataclasses.replace(problem) for _ in range(3))
    evaluate = jax.vmap(mj.evaluate, (0, None))
    within = jax.jit(lambda designs: evaluate(designs, fresh.arrays(tables)))(designs)
    np.testing.assert_allclose(within, jax.jit(evaluate)(designs, space), rtol=1e-6)
    again = fresh.arrays(tables)
    jax.tree.map(np.testing.assert_array_equal, again, space)
    with pytest.raises(InputError, match="tables: holds traced arrays"):
        jax.jit(lambda tables: fresh.arrays(tables).ideal)(tables)
    with pytest.raises(InputError, match=r"`designs`: holds traced arrays.*outside jax\.jit"):
        jax.jit(lambda designs: mj.what_if(designs, space, other, {"clock": [1, 2]}).grid)(designs)
    grid = jax.jit(lambda x: x + mj.what_if(designs, space, other, {"clock": [1, 2]}).grid)(jnp.zeros(()))
    np.testing.assert_allclose(grid, mj.what_if(designs, space, other, {"clock": [1, 2]}).grid, rtol=1e-6)
    found = []
    jax.jit(lambda x: found.append(mj.sample_mappings(drawn, count=16, seed=0)) or x)(1.0)
    jax.tree.map(np.testing.assert_array_equal, found[0], tables)
    jax.tree.map(np.testing.assert_array_equal, drawn.arrays(tables), space)


def test_a_space_does_not_follow_its_tables(problem, tables):
    """JAX takes arrays of the host that begin at a multiple of 64 bytes without copying them."""

    def aligned(leaf):
        room = np.empty(leaf.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        out = room[start : start + leaf.nbytes].view(leaf.dtype).reshape(leaf.shape)
        out[...] = leaf
        return out

    own = jax.tree.map(aligned, jax.tree.map(np.asarray, tables))
    space = problem.arrays(own)
    before = jax.tree.map(np.array, space)
    for leaf in jax.tree.leaves(own):
        leaf[...] = 0
    jax.tree.map(np.testing.assert_array_equal, space, before)


@pytest.mark.parametrize("predecessor", [7, 1, 2, -1, 0.0, "stem", True])
def test_a_layer_waits_for_earlier_layers_of_its_network(predecessor):
    """It cannot wait for itself, a later layer, one that does not exist, or what is no index."""
    first, last = (Layer(name, "fc", "Gemm", WorkloadShape(K=4, C=4)) for name in ("first", "last"))
    waits = dataclasses.replace(first, name="waits", predecessors=(predecessor,))
    with pytest.raises(InputError, match=re.escape(f"net/waits: predecessor {predecessor!r} of layer 1 is no earlier")):
        Network("net", (first, waits, last))


def test_networks_of_an_application_have_their_own_names():
    (network,) = toy().networks
    with pytest.raises(InputError, match="application two: 2 networks are called 'net'; give every network"):
        ApplicationModel("two", (network, network))


# ---------------------------------------------------------------- mappings


def test_sampled_mappings_are_valid_and_distinct(problem, tables):
    from mohamjax.mapping import constraints, encode, map_space

    arrays = problem.template_arrays()
    for u, layer in enumerate(problem.application.unique_layers):
        for t, template in enumerate(problem.resolved.templates):
            count = int(tables.count[u, t])
            assert count == 16
            assert np.isfinite(tables.objectives[u, t, :count]).all()
            machine = jax.tree.map(lambda leaf, t=t: np.asarray(leaf[t]), arrays.machine)
            limits = constraints(template, layer.type, layer.shape, len(machine.capacity))
            space = map_space(layer.shape, limits, machine, 32)
            seen = set()
            for m in range(count):
                nest = jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], tables.mapping)
                genes = encode(nest, space)  # raises where a constraint or a capacity is broken
                rows = zip(nest.order, nest.temporal, strict=True)
                order = tuple(tuple(d for d in row if f[d] > 1) for row, f in rows)
                seen.add((nest.spatial.tobytes(), nest.temporal.tobytes(), order, genes.spatial_order.tobytes()))
            assert len(seen) == count


def test_sampled_mappings_of_a_small_space():
    only = Layer("only", "fc", "Gemm", WorkloadShape(K=2))
    small = mj.DesignProblem(ApplicationModel("toy", (Network("net", (only,)),)), templates="simba")
    few = mj.sample_mappings(small, count=16)
    assert 1 <= int(few.count[0, 0]) < 16
    assert np.isinf(few.objectives[0, 0, int(few.count[0, 0]) :]).all()


def test_evaluated_mappings_are_those_of_the_tables(problem, tables):
    nests = jax.tree.map(lambda leaf: leaf[0, 1], tables.mapping)
    layer, template = problem.application.unique_layers[0], problem.resolved.templates[1]
    costs = mj.evaluate_mappings(nests, layer, template)
    # Tables are computed in double precision; in single precision a few cycles are rounded to the other side.
    np.testing.assert_allclose(costs.objectives[:, 0], tables.objectives[0, 1, :, 0], atol=1)
    np.testing.assert_allclose(costs.objectives[:, 1:], tables.objectives[0, 1, :, 1:], rtol=1e-6)
    with jax.enable_x64(True):
        exact = mj.evaluate_mappings(nests, layer, template, max_children=256)
    np.testing.assert_allclose(exact.objectives, tables.objectives[0, 1], rtol=1e-6)
    one = mj.evaluate_mappings(take(nests, 3), layer, template, max_children=0)
    np.testing.assert_allclose(one.objectives, costs.objectives[3], rtol=1e-6)
    wrong = dataclasses.replace(nests, temporal=2 * nests.temporal)
    assert not mj.evaluate_mappings(wrong, layer, template).valid.any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gene", "value"),
    [("template", -1), ("template", 7), ("assignment", 99), ("assignment", -1), ("mapping", 10_000), ("mapping", -1),
     ("order", 0)],
)  # fmt: skip
def test_genes_that_mean_no_design_cost_infinitely_much(designs, space, gene, value):
    """Also in energy and area: otherwise they would be on every front."""
    spoilt = dataclasses.replace(designs, **{gene: jnp.full_like(getattr(designs, gene), value)})
    found = jax.jit(jax.vmap(mj.evaluate, (0, None)))(spoilt, space)
    assert np.isinf(found).all()
    assert np.isfinite(jax.jit(jax.vmap(mj.evaluate, (0, None)))(designs, space)).all()


@pytest.mark.slow
def test_evaluation_has_derivatives_in_both_modes(problem, tables):
    """With respect to the bandwidth, through the timeline, and to the hop energy."""
    with jax.enable_x64(True):
        space = problem.arrays(tables, dtype=jnp.float64)
        designs = mj.sample_designs(jax.random.key(0), space, 16)

        def scaled(by, design):
            package = space.evaluation.package
            package = dataclasses.replace(
                package, interface_bandwidth=package.interface_bandwidth * by[0], hop_energy=package.hop_energy * by[1]
            )
            return mj.evaluate(
                design, dataclasses.replace(space, evaluation=dataclasses.replace(space.evaluation, package=package))
            )

        at, step = jnp.asarray([0.3, 1.0]), 1e-6
        values = jax.jit(jax.vmap(scaled, (None, 0)))
        differences = np.stack(
            [(values(at + d, designs) - values(at - d, designs)) / (2 * step) for d in step * np.eye(2)], axis=-1
        )
        assert (differences[:, 0, 0] < 0).all() and (differences[:, 1, 1] >= 0).all() and differences[:, 1, 1].any()
        for mode in (jax.jacfwd, jax.jacrev):
            each = jax.jit(jax.vmap(mode(scaled), (None, 0)))(at, designs)
            np.testing.assert_allclose(each, differences, rtol=1e-5, atol=1e-12)
        whole = jax.jit(jax.grad(lambda by: values(by, designs)[:, 0].sum()))(at)
        np.testing.assert_allclose(whole, differences[:, 0].sum(axis=0), rtol=1e-5, atol=1e-12)


@pytest.mark.slow
def test_mappings_are_swept_over_technologies(problem, tables):
    """The template may be given by its name."""
    nest = jax.tree.map(lambda leaf: leaf[0, 0, 0], tables.mapping)
    layer, technology = problem.application.unique_layers[0], problem.technology
    both = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf, jnp.float32)] * 2), technology)
    both = dataclasses.replace(both, dram=both.dram * jnp.asarray([[1.0], [2.0]], jnp.float32))
    costs = jax.vmap(lambda one: mj.evaluate_mappings(nest, layer, "simba", technology=one))(both)
    energy = costs.objectives[:, 1]
    alone = mj.evaluate_mappings(nest, layer, "simba").objectives[1]
    np.testing.assert_allclose(energy[0], alone, rtol=1e-6)
    assert energy[1] > energy[0] * 1.01


def test_factors_that_do_not_fit_the_layer_are_told(problem, tables):
    nest = jax.tree.map(lambda leaf: leaf[0, 0, 0], tables.mapping)
    wrong = dataclasses.replace(nest, temporal=nest.temporal * 2)
    costs = mj.evaluate_mappings(wrong, problem.application.unique_layers[0], problem.templates[0])
    assert not costs.valid and costs.reason == -1
    assert told_reason(costs.reason).startswith("the factors of a dimension multiply neither")
    sentences = [told_reason(code) for code in range(len(REASONS))]
    assert len(set(sentences)) == len(REASONS) and sentences[0] == "valid"
    both = sentences[REASONS.index("capacity+instances")]
    assert both == f"{sentences[REASONS.index('capacity')]}, and {sentences[REASONS.index('instances')]}"
    with pytest.raises(ValueError, match="from -5 to 11"):
        told_reason(12)


@pytest.mark.parametrize(
    ("field", "spoil", "reason"),
    [
        ("temporal", lambda leaf: -leaf, -2),
        ("spatial", lambda leaf: -leaf, -2),
        ("spatial", lambda leaf: 0 * leaf, -2),
        ("order", lambda leaf: 0 * leaf, -3),
        ("order", lambda leaf: leaf + 50, -3),
        ("order", lambda leaf: leaf - 1, -3),
        ("spatial_order", lambda leaf: 0 * leaf, -3),
        ("spatial_order", lambda leaf: leaf.at[..., 0].set(leaf[..., 1]), -3),
        # 65,537^2 * 65,535^2 is 1 in 32 bits, so that its product with a bound is the bound.
        ("temporal", lambda leaf: leaf.at[..., :4, 1].multiply(jnp.asarray([65537, 65537, 65535, 65535])), -1),
    ],
)
def test_arrays_that_are_no_loop_nest_are_refused(problem, tables, field, spoil, reason):
    nests = jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), tables.mapping)
    layer = problem.application.unique_layers[0]
    assert (mj.evaluate_mappings(nests, layer, "simba").reason == 0).all()
    spoilt = dataclasses.replace(nests, **{field: spoil(getattr(nests, field))})
    costs = mj.evaluate_mappings(spoilt, layer, "simba")
    assert not costs.valid.any() and jnp.isinf(costs.objectives).all()
    assert (costs.reason == reason).all(), told_reason(costs.reason[0])


@pytest.mark.slow
def test_loops_of_a_level_that_is_padding_are_refused(problem, tables):
    """Timeloop's counts would leave them out."""
    layer, levels = problem.application.unique_layers[0], len(problem.templates[0].levels)
    nest = pad_mapping(jax.tree.map(lambda leaf: leaf[0, 0, 0], tables.mapping), levels + 1)
    assert mj.evaluate_mappings(nest, layer, "simba").valid
    level, dim = np.argwhere(nest.temporal > 1)[0]
    moved = nest.temporal.copy()
    moved[levels, dim], moved[level, dim] = moved[level, dim], 1
    costs = mj.evaluate_mappings(dataclasses.replace(nest, temporal=moved), layer, "simba")
    assert not costs.valid and costs.reason == -4
    assert told_reason(costs.reason) == "a level that the template does not have has loops"


def test_wrong_shapes_are_refused_at_trace_time(problem, tables, designs, space):
    nests = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping)
    layer = problem.application.unique_layers[0]
    arrays = take(problem.template_arrays(), 0)
    from mohamjax.mapping import layer_arrays

    seven = dataclasses.replace(layer_arrays(layer.shape), bounds=np.ones(7, np.int32))
    with pytest.raises(ValueError, match=r"layer.bounds: expected shape \(8,\), got \(7,\)"):
        jax.eval_shape(lambda n: mj.evaluate_mappings(n, seven, arrays), nests)
    short = jax.tree.map(lambda leaf: leaf[..., :7], nests)
    with pytest.raises(ValueError, match=r"mappings\.temporal"):
        mj.evaluate_mappings(short, layer, arrays)
    with pytest.raises(InputError, match="does not run"):
        mj.evaluate_mappings(nests, Layer("d", "dwconv", "Conv", WorkloadShape(G=4, P=4)), "eyeriss-released")
    with pytest.raises(ValueError, match="takes one design"):
        mj.evaluate(designs, space)
    with pytest.raises(ValueError, match=r"design\.order"):
        jax.jit(mj.evaluate)(dataclasses.replace(designs[0], order=jnp.arange(7)), space)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("interface_bandwidth", np.ones(3, np.float32), "interface_bandwidth: expected shape (4,), got (3,)"),
        ("interface_bandwidth", np.ones(5, np.float32), "interface_bandwidth: expected shape (4,), got (5,)"),
        ("interface_bandwidth", np.float32(1), "interface_bandwidth: expected shape (4,), got ()"),
        ("hop_energy", np.ones(1, np.float32), "hop_energy: expected shape (), got (1,)"),
    ],
)
def test_figures_of_a_package_have_its_shapes(designs, space, name, value, complaint):
    def other(space, value):
        package = dataclasses.replace(space.evaluation.package, **{name: value})
        return dataclasses.replace(space, evaluation=dataclasses.replace(space.evaluation, package=package))

    for use in (mj.evaluate, mj.report):
        with pytest.raises(ValueError, match=re.escape(f"space.evaluation.package.{complaint}")):
            jax.eval_shape(lambda value, use=use: use(designs[0], other(space, value)), value)
    if value.shape in ((3,), (5,)):  # in a traced space too few values cost infinitely much, too many do not matter
        found = jax.jit(mj.evaluate)(designs[0], other(space, value))
        assert bool(jnp.isinf(found).all()) == (value.shape == (3,))


def test_wrong_dtypes_are_refused_at_trace_time(problem, tables, designs, space):
    with pytest.raises(ValueError, match=r"design\.mapping: expected integers, got float32"):
        mj.evaluate(dataclasses.replace(designs[0], mapping=jnp.zeros(designs.mapping.shape[1])), space)
    nests = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping)
    for name in ("temporal", "keep"):
        wrong = dataclasses.replace(nests, **{name: np.asarray(getattr(nests, name), np.float32)})
        with pytest.raises(ValueError, match=rf"mappings\.{name}: expected .* got float32"):
            jax.eval_shape(lambda n: mj.evaluate_mappings(n, problem.application.unique_layers[0], "simba"), wrong)


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("duration", jnp.ones((3, 2)), "duration: expected shape [J], got (3, 2); this takes one schedule"),
        ("duration", jnp.ones(0), "duration: expected at least one job, padded ones included, got shape (0,)"),
        ("private_bandwidth", jnp.ones(0), "private_bandwidth: expected at least one accelerator, got shape (0,)"),
        ("order", jnp.arange(3), "order: expected shape (2,), got (3,)"),
        ("order", jnp.ones(2), "order: expected integers, got float32"),
        ("shared_uses", jnp.ones((1, 2)), "shared_uses: expected shape (2, 1), got (1, 2)"),
        ("predecessor_bits", jnp.zeros((2, 2), jnp.uint32), "predecessor_bits: expected shape (2, 1), got (2, 2)"),
        ("job_mask", jnp.ones(2), "job_mask: expected bools, got float32"),
    ],
)
def test_wrong_schedules_are_refused_at_trace_time(name, value, complaint):
    good = {
        "duration": jnp.ones(2),
        "bytes": jnp.ones(2),
        "predecessor_bits": jnp.zeros((2, 1), jnp.uint32),
        "accelerator": jnp.arange(2),
        "order": jnp.arange(2),
        "shared_uses": jnp.ones((2, 1)),
        "shared_bandwidth": jnp.ones(1),
        "private_bandwidth": jnp.ones(2),
        "job_mask": jnp.ones(2, bool),
    }
    jax.eval_shape(mj.simulate, **good)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        jax.eval_shape(mj.simulate, **good | {name: value})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_nests_may_have_any_integers(problem, tables, dtype):
    nests, layer = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping), problem.application.unique_layers[0]
    narrow = dataclasses.replace(
        nests,
        **{name: getattr(nests, name).astype(dtype) for name in ("temporal", "order", "spatial", "spatial_order")},
    )
    costs = mj.evaluate_mappings(narrow, layer, "simba")
    assert costs.valid.all(), told_reason(costs.reason[0])
    np.testing.assert_array_equal(costs.objectives, mj.evaluate_mappings(nests, layer, "simba").objectives)


def test_what_is_packaged_is_read_once(problem, tables, monkeypatch):
    own = sys.modules["mohamjax.mapping.own_costs"]
    for kept in (own._packaged, own._packaged_as, own._packaged_template, own._packaged_arrays):
        kept.cache_clear()
    read, built = [], []
    for name, calls in (("load_technology", read), ("template_arrays", built)):
        real = getattr(own, name)
        monkeypatch.setattr(own, name, lambda *a, real=real, calls=calls, **k: calls.append(1) or real(*a, **k))
    nests, layer = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping), problem.application.unique_layers[0]
    traced = jax.jit(lambda nests: mj.evaluate_mappings(nests, layer, "simba").objectives)(nests)
    named = [mj.evaluate_mappings(nests, layer, template).objectives for template in ("simba", problem.templates[0])]
    assert len(read) == len(built) == 1
    other = mj.evaluate_mappings(nests, layer, "simba", technology="22nm").objectives
    assert len(read) == len(built) == 2 and not np.array_equal(other, named[0])
    given = mj.evaluate_mappings(nests, layer, "simba", technology=load_technology()).objectives
    assert len(built) == 3
    for objectives in (traced, named[1], given):
        np.testing.assert_allclose(objectives, named[0], rtol=1e-6)


def test_a_batch_of_no_nests_has_no_costs(problem, tables):
    nests = jax.tree.map(lambda leaf: leaf[0, 0, :0], tables.mapping)
    costs = mj.evaluate_mappings(nests, problem.application.unique_layers[0], "simba")
    assert len(costs) == 0 and costs.objectives.shape == (0, 3)


# ---------------------------------------------------------------- designs


@pytest.mark.slow
def test_an_optimiser_of_ones_own_on_the_unit_cube():
    """An evolution strategy: Gaussian steps, and survival by the product of the objectives."""
    problem = mj.DesignProblem(toy(), templates=("simba", "shidiannao"))
    space = problem.arrays(mj.sample_mappings(problem, count=16, seed=0))
    size = mj.design_dimensions(space)

    @jax.jit
    def products(x):
        designs = jax.vmap(mj.decode_design, (0, None))(x, space)
        return jnp.sum(jnp.log(jax.vmap(mj.evaluate, (0, None))(designs, space)), axis=1)

    key = jax.random.key(0)
    x = jax.random.uniform(key, (32, size))
    found = products(x)
    first, many = float(found.min()), float(jnp.quantile(found, 0.75))
    for generation in range(10):
        steps = 0.1 * jax.random.normal(jax.random.fold_in(key, generation), x.shape)
        both = jnp.concatenate([x, jnp.clip(x + steps, 0, 1)])
        values = jnp.concatenate([found, products(both[32:])])
        best = jnp.argsort(values)[:32]
        x, found = both[best], values[best]
    # The problem is so small that some of the first points are optimal; soon all points are as good.
    assert float(found.max()) <= first < many - 0.1
    with pytest.raises(ValueError, match="takes one point"):
        mj.decode_design(x, space)
    with pytest.raises(ValueError, match="'plans' or 'layers'"):
        mj.design_dimensions(space, "genes")


@pytest.mark.slow
@pytest.mark.parametrize("genes", ["plans", "layers"])
def test_a_point_with_a_nan_is_no_design(space, genes):
    point = np.full(mj.design_dimensions(space, genes), 0.5, np.float32)
    whole = jax.jit(mj.decode_design, static_argnames="genes")(point, space, genes=genes)
    assert jax.tree.all(jax.tree.map(np.array_equal, whole, mj.decode_design(point, space, genes)))
    point[-1] = np.nan
    with pytest.raises(InputError, match="x: holds a NaN"):
        mj.decode_design(point, space, genes)
    for broken in (point, np.full_like(point, np.nan)):
        costs = jax.jit(lambda x: mj.evaluate(mj.decode_design(x, space, genes), space))(broken)
        assert np.isinf(costs).all()


def test_designs_are_indexed_like_arrays(designs):
    assert len(designs) == 64 and len(designs[:5]) == 5
    np.testing.assert_array_equal(designs[3].order, designs.order[3])
    np.testing.assert_array_equal(designs[-1].template, designs.template[63])
    again = stack(list(designs[:4]))
    assert all((a == b[:4]).all() for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(designs), strict=True))
    with pytest.raises(IndexError):
        designs[64]
    with pytest.raises(TypeError, match="single Design"):
        len(designs[0])
    assert isinstance(designs, Rows) and designs[0]


@pytest.mark.slow
def test_evaluate_composes_over_stacked_packages(problem, tables, designs):
    packages = [mj.Package(interface_bandwidth=bandwidth) for bandwidth in (0.01, 0.1, 1.0)]
    spaces = [dataclasses.replace(problem, package=package).arrays(tables) for package in packages]
    sweep = jax.jit(jax.vmap(jax.vmap(mj.evaluate, (0, None)), (None, 0)))(designs, stack(spaces))
    assert sweep.shape == (3, 64, 3)
    single = jax.jit(jax.vmap(mj.evaluate, (0, None)))
    for row, space in zip(sweep, spaces, strict=True):
        np.testing.assert_allclose(row, single(designs, space), rtol=1e-6)
    assert (sweep[0, :, 0] > sweep[2, :, 0]).all()


def test_evaluate_compiles_once_for_other_numbers(problem, tables, designs):
    traced = jax.jit(jax.vmap(mj.evaluate, (0, None)))
    for bandwidth in (1.0, 2.0):
        own = dataclasses.replace(problem, package=mj.Package(interface_bandwidth=bandwidth))
        traced(designs, own.arrays(tables))
    assert traced._cache_size() == 1


def test_no_designs_have_no_objectives(designs, space):
    assert jax.jit(jax.vmap(mj.evaluate, (0, None)))(designs[:0], space).shape == (0, 3)


def test_a_space_in_double_precision_needs_it_switched_on(problem, tables, designs):
    with jax.enable_x64(True):
        space = problem.arrays(tables, dtype=jnp.float64)
    with pytest.raises(InputError, match=r"float64 is not enabled; evaluate the space inside `with jax.enable_x64"):
        jax.jit(jax.vmap(mj.evaluate, (0, None)))(designs, space)


@pytest.mark.slow
def test_double_precision(problem, tables, designs, space):
    with pytest.raises(InputError, match="enable_x64"):
        problem.arrays(tables, dtype=jnp.float64)
    with jax.enable_x64(True):
        found = jax.jit(mj.evaluate)(designs[0], problem.arrays(tables, dtype=jnp.float64))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, jax.jit(mj.evaluate)(designs[0], space), rtol=1e-4)


SHARDED = """
import os
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
import sys
sys.path.insert(0, "tests")
import jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
import mohamjax as mj
from test_api import toy

problem = mj.DesignProblem(toy(), templates="simba")
space = problem.arrays(mj.sample_mappings(problem, count=8))
designs = mj.sample_designs(jax.random.key(0), space, 160)  # two devices of more than one block of schedules
many = jax.vmap(mj.evaluate, (0, None))
mesh = Mesh(np.array(jax.devices()), ("d",))
sharded = jax.jit(jax.shard_map(many, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d")))
compiled = sharded.lower(designs, space).compile()
text = compiled.as_text()
words = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
print(len(jax.devices()), sum(text.count(word) for word in words))
placed = jax.device_put((designs, space), tuple(compiled.input_shardings[0]))
np.testing.assert_array_equal(compiled(*placed), jax.jit(many)(designs, space))
"""


@pytest.mark.slow
def test_evaluate_under_shard_map_needs_no_collective():
    assert run(SHARDED) == ["2", "0"]


@pytest.mark.slow
def test_what_else_runs_under_shard_map(problem, tables, space):
    """As docs/jit.md says: without the check of values that vary, which a mesh of one device makes too."""
    from jax.sharding import Mesh, PartitionSpec

    mesh, own = Mesh(np.array(jax.devices()[:1]), ("d",)), PartitionSpec("d")
    nests, layer = (
        jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), tables.mapping),
        problem.application.unique_layers[0],
    )
    points = jax.random.uniform(jax.random.key(0), (4, mj.design_dimensions(space)))
    for function, rows in (
        (jax.vmap(lambda x: mj.decode_design(x, space).order), points),
        (lambda nests: mj.evaluate_mappings(nests, layer, "simba").objectives, nests),
        (mj.emo.non_dominated_rank, points[:, :3]),
    ):
        mapped = jax.shard_map(function, mesh=mesh, in_specs=own, out_specs=own, check_vma=False)
        np.testing.assert_allclose(jax.jit(mapped)(rows), function(rows), rtol=1e-6)


@pytest.mark.slow
def test_room_for_children_follows_the_mappings_unless_it_is_given(problem, tables):
    """As docs/jit.md says: another program for the same shapes, and one for all where the room is given."""
    own = sys.modules["mohamjax.mapping.own_costs"]._costs
    nests, layer = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping), problem.application.unique_layers[0]
    plain = dataclasses.replace(nests, spatial=np.ones_like(nests.spatial))
    spatial = plain.spatial.copy()
    spatial[:, 0, 1, :] = 2  # P runs along a level's children together with R
    both = plain, dataclasses.replace(nests, spatial=spatial)
    own.clear_cache()
    for given, programs in ((None, 2), (16, 3)):
        for each in both:
            mj.evaluate_mappings(each, layer, "simba", max_children=given)
        assert own._cache_size() <= programs and (given or own._cache_size() == programs)


# ---------------------------------------------------------------- search


def same(one, two):
    np.testing.assert_array_equal(one.front.objectives, two.front.objectives)
    for a, b in zip(jax.tree.leaves(one.front.designs), jax.tree.leaves(two.front.designs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [row["hypervolume"] for row in one.history] == [row["hypervolume"] for row in two.history]


@pytest.mark.slow
def test_search_is_a_search_of_the_same_seed(problem):
    base = Settings.preset("tiny", seed=3)
    settings = dataclasses.replace(base, moham=dataclasses.replace(base.moham, **TINY))
    expected = Search(problem.replace(application=toy()), settings).run()
    same(expected, mj.search(problem, budget="tiny", seed=3, cache=False, **TINY))
    tables = mj.map_layers(problem, "tiny", seed=3)
    same(expected, mj.search(problem, tables, "tiny", seed=3, **TINY))


@pytest.mark.slow
def test_search_takes_the_tables_as_they_are(problem, tables, space, result, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("layers were mapped")

    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", never)
    again = mj.search(problem, tables, budget="tiny", seed=0, **TINY)
    same(result, again)
    objectives = jax.jit(jax.vmap(mj.evaluate, (0, None)))(again.front.designs, space)
    np.testing.assert_allclose(objectives, again.front.objectives, rtol=1e-4)


@pytest.mark.slow
def test_a_results_folder_of_python_is_that_of_the_command_line(problem, tables, result, tmp_path, capsys):
    """The verbs read the folder, and its files are those that `mohamjax search` writes."""
    out = tmp_path / "out"
    mj.write_results(out, result, bulk=True, inputs={"why": "a test"})
    names = {"front.csv", "designs.json", "history.csv", "config.yaml", "bounds.json", "designs.npz", "figures"}
    assert {path.name for path in out.iterdir() if path.name != ".lock"} == names
    assert any(path.suffix == ".png" for path in (out / "figures").iterdir())
    limit = f"area<={result.front.objectives[:, 2].max()}mm2"
    assert mj.decide(out, limit).recommended == mj.decide(result, limit).recommended
    assert main(["evaluate", "designs", str(out / "designs.json"), "--explain", "0"]) == 0
    assert "design 0" in capsys.readouterr().out
    assert main(["evaluate", "designs", str(out / "designs.npz"), "--explain", "0"]) == 0
    assert "design 0" in capsys.readouterr().out
    with pytest.raises(InputError, match="folder: cannot be written"):
        mj.write_results(out / "front.csv", result)


def test_of_several_processes_the_first_writes_the_folder(result, tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "process_index", lambda: 1)
    mj.write_results(tmp_path / "out", result)
    assert not (tmp_path / "out").exists()


def test_the_schedule_of_a_design_is_a_table(problem, result):
    rows = mj.timetable(result.front, 0)
    assert rows == mj.timetable(result, 0) == mj.timetable(result, -len(result.front))
    assert {(row["network"], row["layer"]) for row in rows} == {("net", "stem"), ("net", "head")}
    assert [row["layer"] for row in rows] == ["stem", "head"] and rows[0]["end_s"] <= rows[1]["start_s"]
    latency, energy, _ = result.front.objectives[0]
    assert rows[-1]["end_s"] == pytest.approx(latency)
    assert sum(row["energy_J"] for row in rows) == pytest.approx(energy)
    known = {template.name for template in problem.templates}
    assert all(row["template"] in known and row["offchip_bytes"] > 0 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "exponents"), [("product", (1, 2, 0.5)), ("area", (0, 0, 1))])
def test_the_best_design_has_least_of_what_was_minimised(problem, tables, objective, exponents):
    more = {"weights": exponents} if objective == "product" else {}
    found = mj.search(problem, tables, budget="tiny", seed=0, **TINY, objective=objective, **more)
    number = np.prod(found.front.objectives**exponents, axis=1)
    assert number[found.best] == number.min() < number.max()


def test_a_front_has_no_best_design(result):
    with pytest.raises(InputError, match=r"argument `objective`.*no design is the best"):
        _ = result.best


@pytest.mark.parametrize("given", [np.ones((3, 3)), None, [1.0, 2.0]])
def test_a_decision_takes_a_result_or_its_folder(given):
    with pytest.raises(InputError, match=r"argument `front`: .*give what mj\.search returned"):
        mj.decide(given, "latency<=1s")


@pytest.mark.slow
def test_a_search_tells_how_far_it_is(problem, tables, result, capsys, monkeypatch):
    monkeypatch.setattr(utilisation, "LOW", 2.0)  # so that every layer counts as poorly utilised
    same(result, mj.search(problem, tables, budget="tiny", seed=0, progress=True, **TINY))
    said = capsys.readouterr()
    assert not said.out
    assert said.err.splitlines()[-1].endswith("any template at its largest size busy for 2 layers: net/stem, net/head")
    assert re.search(
        r"^search  generation 4/4  [\d,]+ designs/s  front \d+  hypervolume 0\.\d+  0 s left$", said.err, re.M
    )
    mj.search(problem, tables, budget="tiny", seed=0, **TINY)
    assert not capsys.readouterr().err
    with pytest.raises(InputError, match=r"progress.*does not go with a listener"):
        mj.search(problem, tables, progress=True, listener=Silent())


@pytest.mark.slow
def test_the_mapper_tells_how_far_it_is(capsys):
    mj.map_layers(mj.DesignProblem(toy(), "eyeriss"), "tiny", progress=True)
    assert re.search(r"^mapper  2/2 sets \(0 cached\)  [\d,]+ mappings/s  0 s left$", capsys.readouterr().err, re.M)


@pytest.mark.slow
def test_a_search_goes_on_from_its_checkpoint(problem, tables, result, tmp_path):
    kept = tmp_path / "checkpoint.npz"
    mj.search(problem, tables, budget="tiny", seed=0, checkpoint=kept, **TINY)
    again = mj.search(problem, tables, budget="tiny", seed=0, checkpoint=str(kept), resume=True, **TINY)
    same(result, again)
    with pytest.raises(InputError, match="no checkpoint to go on from; give the checkpoint"):
        mj.search(problem, tables, budget="tiny", seed=0, resume=True, **TINY)
    with pytest.raises(InputError, match=r"other inputs or settings \(seed\).*without the argument `resume`"):
        mj.search(problem, tables, budget="tiny", seed=1, checkpoint=kept, resume=True, **TINY)


@pytest.mark.slow
def test_resume_is_advised_where_there_is_something_to_resume(tables, result, tmp_path):
    assert len(result.front.objectives) > 1
    latency, _, area = result.front.objectives.min(axis=0) * 1.0001
    demands = Requirements(limits=(latency, np.inf, area, np.inf))
    problem = mj.DesignProblem(toy(), ("simba", "eyeriss"), requirements=demands)
    for checkpoint, advised in ((None, False), (tmp_path / "checkpoint.npz", True)):
        with pytest.raises(InputError, match=r"no design meets.*loosen them or search longer") as error:
            mj.search(problem, tables, budget="tiny", seed=0, checkpoint=checkpoint, **TINY)
        assert ("resume" in str(error.value)) == advised


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"poplation": 8}, "'poplation': is not known; did you mean population"),
        ({"crossover": float("nan")}, "'crossover': crossover is nan; use a number from 0 to 1"),
        ({"opening": 17}, "'opening': opening is 17; use a number from 0 to 16"),
        ({"opening": 10**400}, "use a number from 0 to 16"),
        ({"crossover": "often"}, "'crossover': crossover is 'often'; use a number from 0 to 1"),
        ({"crossover": np.array([0.1, 0.2])}, "use a number from 0 to 1"),
        ({"crossover": jax.random.key(0)}, "use a number from 0 to 1"),
        ({"plan_rates": PlanRates(crossover=7.0)}, "'crossover': crossover is 7.0; use a number from 0 to 1"),
        ({"genes": "layers", "mapping_mutation": -0.5}, "'mapping_mutation': mapping_mutation is -0.5; use a number"),
        ({"package": None}, "'package': is set by the problem"),
        ({"tiles": 4}, "'tiles': is set by the problem"),
        ({"sa_crossover": 0.1}, "'sa_crossover': is a rate of a search of layers"),
        ({"budget": "huge"}, "unknown budget 'huge'"),
        ({"population": 2.5}, "population is 2.5; use 4 or more, a whole number"),
        ({"population": np.nan}, "population is nan; use 4"),
        ({"chunk": 0}, "chunk is 0; use 1"),
        ({"window": 0}, "window is 0; use 1"),
        ({"delta": np.nan}, "delta is nan; use 0 or more"),
        ({"immigrants": -0.1}, "immigrants is -0.1; use 0 or more"),
        ({"every": 0.5}, "every is 0.5; use 0 or more, a whole number"),
    ],
)
def test_settings_that_cannot_be_are_refused(problem, settings, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        mj.search(problem, **settings)


def test_settings_reach_their_parts():
    base = Settings.preset("small")
    chosen = changed(base, {"population": 8, "crossover": 0.5, "every": 7, "seed": 5, "generations": 3})
    assert (chosen.moham.population, chosen.moham.generations, chosen.remap.every) == (8, 3, 7)
    assert chosen.plan_rates.crossover == 0.5 and chosen.seed == 5
    assert chosen.remap.generations == base.remap.generations


# ---------------------------------------------------------------- files


@pytest.mark.slow
def test_designs_of_a_file_keep_their_objectives(files, result):
    own = mj.read_designs(files / "designs.json")
    assert own.names == tuple(range(len(result.front))) and not own.broken
    found = jax.jit(jax.vmap(mj.evaluate, (0, None)))(own.designs, own.space)
    np.testing.assert_allclose(found, result.front.objectives, rtol=1e-4)
    assert mj.read_schedules(files / "designs.json").names == own.names
    for gene in ("order", "assignment", "mapping", "template"):
        np.testing.assert_array_equal(getattr(own.designs, gene), getattr(own.designs.design, gene))
    found = jax.jit(mj.report)(own.designs[0], own.space)
    use = utilisation.layer_use(own.problem.application, own.tables, own.designs[0], found)
    assert use.utilisation.shape == (2,) and (use.utilisation > 0).all()


@pytest.mark.slow
def test_stated_sizes_count(files, tmp_path):
    document = json.loads((files / "designs.json").read_text())
    document["designs"] = document["designs"][:1] * 3 + [{"design_id": "bad"}]
    document["designs"] = json.loads(json.dumps(document["designs"]))
    larger, smaller = (document["designs"][i]["chiplets"][0] for i in (1, 2))
    template = next(own for own in document["templates"] if own["name"] == larger["template"])
    limits = {level["name"]: level.get("capacity_words") or 0 for level in template["levels"]}
    most = [limits[row["name"]] for row in larger["levels"]]
    level = next(i for i, row in enumerate(larger["levels"]) if (row["capacity_words"] or most[i]) < most[i])
    larger["levels"][level]["capacity_words"] = most[level]
    smaller["levels"][level]["capacity_words"] = 1
    for i in range(3):
        document["designs"][i]["design_id"] = i
    (tmp_path / "own.json").write_text(json.dumps(document))
    own = mj.read_designs(tmp_path / "own.json", technology=load_technology())
    assert list(own.broken) == ["bad"], own.broken
    assert own.names == (0, 1, 2)
    found = np.asarray(jax.jit(jax.vmap(mj.evaluate, (0, None)))(own.designs, own.space))
    assert found[1, 2] > found[0, 2] and np.isinf(found[2]).all()
    np.testing.assert_array_equal(own.designs[1].design.order, own.designs.design.order[1])


def test_schedules_with_costs_of_their_own(tmp_path):
    case = {"duration": [4, 4], "bytes": [8, 8], "predecessors": [[], []], "accelerator": [0, 1], "order": [0, 1]}
    case |= {"resource_bandwidth": [3], "resources_of_accelerator": [[0], [0]]}
    alone = {"duration": [2], "bytes": [0], "predecessors": [[]], "accelerator": [0], "order": [0]}
    alone |= {"resource_bandwidth": [3], "resources_of_accelerator": [[0]]}
    document = {"format": "fluid-schedule/1", "cases": [{"name": "two", **case}, {"name": "one", **alone}]}
    (tmp_path / "cases.json").write_text(json.dumps(document))
    own = mj.read_schedules(tmp_path / "cases.json")
    assert len(own) == 2 and own.jobs == (2, 1)
    ends = jax.jit(jax.vmap(lambda arguments: mj.simulate(**arguments).makespan))(own.arguments)
    np.testing.assert_allclose(ends, [16 / 3, 2], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(mj.simulate)(**own[1]).makespan, 2)


# ---------------------------------------------------------------- README


@pytest.mark.slow
def test_readme_example_runs(monkeypatch, problem, tables, result):
    text = (ROOT / "README.md").read_text()
    (snippet,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "import mohamjax as mj" in code]
    # The snippet runs on two layers, with the sizes of the other tests.
    monkeypatch.setattr(mj, "load_scenario", lambda name: toy())
    real = api.search
    monkeypatch.setattr(api, "search", lambda *a, **k: real(*a, **k | TINY))
    space = {}
    exec(snippet, space)
    assert np.isfinite(space["objectives"]).all() and len(space["front"].designs) == len(space["front"].objectives)


def test_a_checkpoint_has_a_folder_before_anything_is_searched(problem, tables, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be (written|created).*"):
        mj.search(problem, tables, budget="tiny", checkpoint=tmp_path / "file" / "checkpoint.npz", **TINY)
    path = tmp_path / "new" / "folder" / "checkpoint.npz"
    mj.search(problem, tables, budget="tiny", seed=0, checkpoint=path, **TINY)
    assert path.exists()


def test_shapes_are_checked_where_nests_are_evaluated(tables):
    nests = jax.tree.map(lambda leaf: leaf[0, 0], tables.mapping)
    with pytest.raises(InputError, match=r"shape\.K: is nan; give a whole number from 1 to 2,147,483,647"):
        mj.evaluate_mappings(nests, WorkloadShape(K=float("nan"), C=4), "simba")
