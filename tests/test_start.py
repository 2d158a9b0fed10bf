"""The start of a search: programs compiled alongside the mapper, failures there, their cache, and `bench`."""

import json
import os
import pathlib
import subprocess
import sys
import threading
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mohamjax as mj
from mohamjax import benchmark
from mohamjax.cli import main
from mohamjax.cli.bench import bench_lines
from mohamjax.emo.loop import lightest_generations
from mohamjax.errors import InputError
from mohamjax.hardware import fits
from mohamjax.mapper import LayerMapper, MapperProgress
from mohamjax.runtime.programs import PROGRAMS, use_cache
from mohamjax.runtime.struct import cast
from mohamjax.search import Search, Settings, compile_search, finish, generations
from mohamjax.search.moham import genetic_problem
from mohamjax.search.precompile import Precompilation, made_up_designs, made_up_tables
from mohamjax.workload import load_scenario

ROOT = pathlib.Path(__file__).resolve().parents[1]
LARGE = {
    "lightest_generations": [generations],
    "opening": [generations],
    "decode_all": [finish],
    "_neighbours": [finish],
    "_refit_all": [finish],
}


@pytest.fixture(scope="module")
def application(networks):
    return load_scenario(networks)


@pytest.fixture(scope="module")
def settings():
    """A short search with the programs of `small_search`."""
    tiny = Settings.preset("tiny")
    return replace(
        tiny,
        mapper=replace(tiny.mapper, generations=1, descent=1),
        moham=replace(tiny.moham, population=32, generations=2, end_batches=2, end_rounds=2),
    )


@pytest.fixture(scope="module")
def problem(application):
    return mj.DesignProblem(application)


def with_archive(settings, archive):
    return replace(settings, moham=replace(settings.moham, archive=archive))


@pytest.fixture
def calls(monkeypatch):
    """Calls of a search's programs: the program, the thread, and how many programs the call compiled."""
    made = []

    def recorded(name, home):
        program = getattr(home, name)

        def call(*arguments, **static):
            before = program._cache_size()
            found = program(*arguments, **static)
            made.append((name, threading.current_thread().name.split("_")[0], program._cache_size() - before))
            return found

        return call

    for name, homes in LARGE.items():
        for home in homes:
            monkeypatch.setattr(home, name, recorded(name, home))
    return made


@pytest.mark.slow
def test_the_searchs_own_thread_compiles_nothing_large(problem, settings, calls):
    """Precompilation calls every program of the search, and no other thread compiles any."""
    Search(problem, settings).run()
    assert (
        {name for name, thread, _ in calls if thread == "precompilation"}
        == {name for name, _, _ in calls}
        == set(LARGE)
    )
    assert [call for call in calls if call[1] != "precompilation" and call[2]] == []


@pytest.mark.slow
def test_to_warm_makes_the_programs_of_a_search_and_no_others(problem, settings, calls):
    """After a search its programs exist: warming calls all of them and compiles none."""
    Search(problem, settings).run()
    precompiled = [key for key in PROGRAMS if "precompilation" in key]
    programs = set(PROGRAMS) - set(precompiled)
    calls.clear()
    for key in precompiled:
        del PROGRAMS[key]
    compile_search(problem, settings)
    assert {name for name, _, _ in calls} == set(LARGE)
    assert [call for call in calls if call[2]] == []
    assert {key for key in PROGRAMS if "precompilation" not in key} == programs


@pytest.mark.slow
def test_precompilation_changes_no_result(problem, settings, monkeypatch):
    class Nothing:
        def __init__(self, *_):
            pass

        searched = reported = end = lambda self: None

    with_one = Search(problem, settings).run()
    monkeypatch.setattr("mohamjax.search.search.Precompilation", Nothing)
    without = Search(problem, settings).run()
    assert np.array_equal(with_one.front.objectives, without.front.objectives)


def test_what_goes_wrong_in_precompilation_is_told(problem, settings, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no compiler today")

    monkeypatch.setattr(mj.DesignProblem, "space", broken)
    other = with_archive(settings, 17)
    with pytest.raises(RuntimeError, match="no compiler today"):
        Search(problem, other).run()
    assert not [key for key in PROGRAMS if "precompilation" in key and other.moham in key]


def test_a_stop_by_hand_ends_precompilation(problem, settings, monkeypatch):
    """Ctrl-C while layers are mapped: parts that have not begun never do."""
    reported = []
    monkeypatch.setattr(Precompilation, "_search", lambda self: None)
    monkeypatch.setattr(Precompilation, "_report", lambda self: reported.append(self))

    def stopped(mapper, *_, **__):
        mapper.progress(MapperProgress(problems=2, cached=0, done=0, evaluations=0, total=1, seconds=0.0))
        raise KeyboardInterrupt

    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", stopped)
    ended = []
    end = Precompilation.end
    monkeypatch.setattr(Precompilation, "end", lambda self: (ended.append(self), end(self)))
    with pytest.raises(KeyboardInterrupt):
        Search(problem, with_archive(settings, 18)).run()
    assert len(ended) == 1
    ended[0]._pool.shutdown(wait=True)
    assert not reported


@pytest.fixture
def begun(problem, settings, monkeypatch):
    """Begins precompilations whose parts are given as functions; ends all of them at teardown."""
    made = []

    def begin(archive, search, report):
        monkeypatch.setattr(Precompilation, "_search", lambda self: search())
        monkeypatch.setattr(Precompilation, "_report", lambda self: report())
        own = with_archive(settings, archive)
        made.append(Precompilation(problem, own))
        return made[-1]

    yield begin
    for one in made:
        one.end()
        one._pool.shutdown(wait=True)


LONG = 30.0
"""Seconds, longer than anything here takes."""


def test_the_report_is_compiled_after_the_search(begun):
    """While layers are mapped only one thread compiles."""
    order, go = [], threading.Event()
    one = begun(20, lambda: (go.wait(LONG), order.append("search")), lambda: order.append("report"))
    assert not one._parts[1].done() and order == []
    go.set()
    one._parts[1].result(LONG)
    assert order == ["search", "report"]


def test_the_report_is_compiled_beside_the_search_once_somebody_waits(begun):
    order, reported = [], threading.Event()
    one = begun(
        21, lambda: (reported.wait(LONG), order.append("search")), lambda: (order.append("report"), reported.set())
    )
    one.searched()
    assert order == ["report", "search"]
    one.reported()


def test_precompilation_that_has_ended_keeps_nobody_waiting(begun):
    reported, go = [], threading.Event()
    one = begun(22, lambda: go.wait(LONG), lambda: reported.append(1))
    one.end()
    go.set()
    one.reported()
    assert reported == []


def test_after_a_search_that_failed_no_report_is_compiled(begun):
    reported = []

    def broken():
        raise RuntimeError("no compiler today")

    one = begun(23, broken, lambda: reported.append(1))
    with pytest.raises(RuntimeError, match="no compiler today"):
        one.searched()
    one.reported()
    assert reported == []


def test_made_up_tables_have_the_shapes_of_real_ones(problem, settings):
    technology, templates = problem.technology, problem.resolved.templates
    layers = problem.application.unique_layers
    real = LayerMapper(layers, templates, technology, settings.mapper).search(jax.random.key(0))
    made = made_up_tables(layers, templates, cast(technology, jnp.float32), settings.mapper.entries)
    assert jax.tree.structure(made) == jax.tree.structure(real)
    for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(real), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
    assert np.array_equal(made.count > 0, real.count > 0)


@pytest.mark.slow
def test_made_up_designs_have_the_shapes_of_real_ones(problem, settings):
    """Shapes alone would do, but with layers on chiplets that run them the evaluation yields no NaN."""
    real = Search(problem, settings).run().front.designs
    application, templates = problem.application, problem.resolved.templates
    made = made_up_designs(application, templates, problem.tiles, 5)
    for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(real), strict=True):
        assert a.shape == (5, *b.shape[1:]) and a.dtype == b.dtype
    for layer, u in enumerate(application.unique_of_layer):
        stands, unique = templates[made.template[0, made.assignment[0, layer]]], application.unique_layers[u]
        assert fits(stands, unique.type, unique.shape) is None
    assert sorted(made.order[0]) == list(range(made.order.shape[1]))


@pytest.mark.slow
def test_individuals_grown_together_are_those_grown_one_by_one(problem, settings):
    """Immigrants and children are completed and decoded in one batch, but each depends on its own draft alone."""
    layers, templates = problem.application.unique_layers, problem.resolved.templates
    space = problem.arrays(made_up_tables(layers, templates, problem.technology, 6))
    search = genetic_problem(settings.moham)
    drawn = jax.jit(search.random)
    keys = jax.random.split(jax.random.key(3), 12)
    together = drawn(keys, space)
    alone = [drawn(keys[i : i + 1], space) for i in (0, 5, 11)]
    for i, own in zip((0, 5, 11), alone, strict=True):
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(own), strict=True):
            assert np.array_equal(a[i], b[0])


@pytest.mark.slow
def test_the_cache_is_found_again_by_another_process(tmp_path):
    """The second process compiles nothing that the first one kept, even if the working folder changes."""
    code = """
from mohamjax.schedule import Setup
import os, jax, jax.numpy as jnp, mohamjax as mj
mj.use_cache("programs")
os.chdir("..")
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
mj.emo.hypervolume(jnp.ones((8, 3)), jnp.full(3, 2.0)).block_until_ready()
print(sum("cache_hits" in name for name in hits), sum("cache_misses" in name for name in hits))
"""
    command = [sys.executable, "-c", code]
    known = {"check": True, "capture_output": True, "text": True, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    runs = [subprocess.run(command, cwd=tmp_path, **known).stdout.split() for _ in range(2)]
    first, second = ([int(n) for n in words] for words in runs)
    assert first[0] == 0 and first[1] > 0
    assert second[0] == first[1] and second[1] == 0


def test_a_cache_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        use_cache(tmp_path / "file" / "programs")


@pytest.mark.slow
def test_bench_measures_every_population(networks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "generations", lightest_generations)  # the program that other tests have compiled
    out = tmp_path / "bench.json"
    command = ["bench", networks[0], "--populations", "32", "--repeats", "1", "--out", str(out)]
    assert main([*command, "--json"]) == 0
    found = json.loads(out.read_text())
    assert found["format"] == "bench/1" and found["cores"] >= 1 and found["versions"]["jax"] == jax.__version__
    assert found["mapper"]["mappings_per_s"] > 0
    (row,) = found["populations"]
    assert row["population"] == 32 and row["designs_per_s"] > 0 and row["generation_designs_per_s"] > 0
    assert row["committed"] is None  # this scenario has no committed measurement
    assert not capsys.readouterr().out
    assert len(bench_lines(found)[1].splitlines()) <= 10


def test_bench_says_of_what_the_figures_beside_it_are(monkeypatch, capsys):
    speed, measured = benchmark.COMMITTED["ar-vr"][256]
    row = {"compile_s": 9.0, "designs_per_s": 9_000, "generation_designs_per_s": 5_975}
    found = {
        "device": "a processor", "platform": "cpu", "cores": 2, "versions": {"jax": "0"}, "scenario": "ar-vr",
        "mapper": {"compile_s": 20.0, "mappings_per_s": 10_000}, "memory_MB": 2000, "device_memory_MB": None,
        "populations": [
            row | {"population": 256, "committed": {"generation_designs_per_s": speed, "measured": measured}},
            row | {"population": 4096, "committed": None},
        ],
    }  # fmt: skip
    monkeypatch.setattr(benchmark, "bench", lambda *_, **__: found)
    assert main(["bench"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == f"elsewhere (1): {measured}" and "commit" in measured and "cores of" in measured
    beside = [line for line in shown if line.endswith("(1)")]
    assert len(beside) == 1 and "256 designs: whole generations" in beside[0] and f"{speed:,}" in beside[0]


def test_the_figures_beside_are_those_of_the_table():
    text = (pathlib.Path(__file__).parents[1] / "experiments" / "results" / "bench_search.md").read_text()
    for size, (speed, measured) in benchmark.COMMITTED["ar-vr"].items():
        assert f"| ar-vr | {size:,} | {speed:,} |" in text
        assert measured.split("commit")[1].split()[-1] in text


def test_bench_refuses_sizes_that_are_none():
    with pytest.raises(InputError, match="is 2"):
        benchmark.bench(populations=[2])


def test_warm_refuses_to_keep_nothing(capsys):
    assert main(["warm", "ar-vr", "--no-compile-cache"]) == 2
    assert "--no-compile-cache" in capsys.readouterr().err
