"""Programs that are traced once and kept: no stale, damaged or foreign file ever decides a number."""

import copy
import dataclasses
import functools
import inspect
import itertools
import os
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax.runtime import kept_programs as exported
from mohamjax.runtime import platforms
from mohamjax.runtime.kept_programs import keep_in, kept_jit
from mohamjax.runtime.part_files import part_of
from mohamjax.schedule import Design

TRACED = []
OPTIONS = {"xla_backend_optimization_level": 1}


def double(rows, more, *, times=1):
    TRACED.append(times)
    return {"rows": rows, "sum": jax.tree.map(lambda leaf: times * jnp.sum(leaf, axis=-1) + more["add"], rows)}


def rows(count=3, dtype=np.float32):
    return Design(
        order=np.arange(count, dtype=np.int32),
        assignment=np.ones(count, np.int32),
        mapping=np.full((2, count), 2, np.int32),
        template=np.linspace(0, 1, count).astype(dtype),
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    before = exported._folder
    monkeypatch.setattr(
        "mohamjax.runtime.code_hash.STARTED", time.time() + 1e6
    )  # edits of the package meanwhile fail no test
    keep_in(tmp_path / "traced")
    TRACED.clear()
    yield tmp_path / "traced"
    keep_in(before)


def fresh(options=OPTIONS):
    """The kept function as a new process has it: nothing is known, and JAX has no trace of it."""

    @functools.wraps(double)
    def own(*arguments, **static):
        return double(*arguments, **static)

    return kept_jit(own, static_argnames=("times",), compiler_options=options)


def same(got, times=1, **given):
    want = jax.jit(double, static_argnames=("times",))(rows(**given), {"add": np.float32(1)}, times=times)
    assert isinstance(got["rows"], Design) and jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert [leaf.dtype for leaf in jax.tree.leaves(got)] == [leaf.dtype for leaf in jax.tree.leaves(want)]


def traces(call):
    before = len(TRACED)
    result = call()
    return len(TRACED) - before, result


ADD = {"add": np.float32(1)}


def test_options_that_the_compiler_has_not_are_left_out():
    """Releases of XLA drop options; a wrong value of an option that it has is still refused."""
    function = fresh({**OPTIONS, "xla_no_release_had_this": True})
    assert function.compiler_options == OPTIONS
    same(function(rows(), ADD))
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        fresh({"xla_backend_optimization_level": "much"})(rows(), ADD)


def test_looking_at_a_function_makes_nothing():
    function = fresh()
    assert list(inspect.signature(function).parameters) == ["rows", "more", "times"]
    assert "_jitted" not in function.__dict__ and "compiler_options" not in function.__dict__
    assert copy.copy(function).compiler_options == OPTIONS
    assert not hasattr(function, "__no_such_name__")


PROCESS = """
import pathlib, sys
import numpy as np
from mohamjax.runtime.kept_programs import kept_jit, keep_in

def function(rows):
    print("traced")
    return {"sum": rows.sum(), "rows": 2 * rows}

exported_jit_of_it = kept_jit(function)
keep_in(pathlib.Path(sys.argv[1]))
got = exported_jit_of_it(np.arange(3, dtype=np.float32))
print(sorted(got), got["sum"], got["rows"])
"""


@pytest.mark.slow
def test_the_next_process_traces_nothing_and_finds_the_same(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "run.py").write_text(PROCESS)
    said, files = [], []
    for _ in range(2):
        command = [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "traced")]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120)
        said.append(done.stdout.splitlines())
        files.append({path.name: path.read_bytes() for path in (tmp_path / "traced").iterdir()})
    assert said == [["traced", "['rows', 'sum'] 3.0 [0. 2. 4.]"], ["['rows', 'sum'] 3.0 [0. 2. 4.]"]]
    assert len(files[0]) == 1 and files[0] == files[1]


def test_another_function_of_the_same_name_finds_the_same(folder):
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 1 and len(list(folder.iterdir())) == 1
    same(got)
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 0
    same(got)


def test_shapes_dtypes_statics_and_settings_have_programs_of_their_own(folder):
    function = fresh()
    function(rows(), ADD)
    for call, kept in (
        (lambda: function(rows(4), ADD), 2),
        (lambda: function(rows(dtype=np.int32), ADD), 3),
        (lambda: function(rows(), ADD, times=2), 4),
        (lambda: function(rows(), ADD), 4),
    ):
        call()
        assert len(list(folder.iterdir())) == kept == function._cache_size()
    with jax.enable_x64(True):
        wide = function(rows(dtype=np.float64), {"add": np.float64(1)})
        assert wide["sum"].template.dtype == np.float64
    assert len(list(folder.iterdir())) == 5
    same(function(rows(), ADD, times=2), times=2)
    same(function(rows(4), ADD), count=4)


def test_another_program_takes_its_results_as_those_of_jit(folder):
    further = jax.jit(lambda leaves: jax.tree.map(lambda leaf: leaf + 1, leaves))
    for function in (jax.jit(double, static_argnames=("times",)), fresh()):
        further(function(rows(), ADD))
    assert len(list(folder.iterdir())) == 1 and further._cache_size() == 1


def test_it_is_called_while_another_program_is_traced(folder):
    function = fresh(options=None)
    function(rows(), ADD)
    same(jax.jit(lambda: function(rows(), ADD))())


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "folder"])
def test_a_damaged_file_is_traced_anew(folder, damage):
    fresh()(rows(), ADD)
    (file,) = folder.iterdir()
    content = file.read_bytes()
    if damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        flipped = content[:200] + bytes([content[200] ^ 1]) + content[201:]
        changed = {"cut": content[:-5], "flipped": flipped, "empty": b"", "other": b"what\n" * 100}
        file.write_bytes(changed[damage])
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 1
    same(got)
    if damage != "folder":
        assert file.read_bytes()[:32] == content[:32] or traces(lambda: fresh()(rows(), ADD))[0] == 0


def test_the_options_of_the_platform_join_but_inside_another_program(folder, monkeypatch):
    """JAX refuses options there, a function's own ones too. Options that XLA does not have are left out."""
    own = {"xla_llvm_disable_expensive_passes": True}
    monkeypatch.setattr(exported, "platform_options", lambda: {**own, "xla_no_such_option": 1})
    assert kept_jit(double, compiler_options=OPTIONS).compiler_options == {**own, **OPTIONS}
    function = kept_jit(double)
    function(rows(), ADD)  # kept
    same(jax.jit(lambda: function(rows(), ADD))())
    slope = jax.grad(lambda add: function(rows(), {"add": add})["sum"].template.sum())
    assert float(slope(jnp.float32(1))) == 1
    keep_in(None)
    assert float(slope(jnp.float32(1))) == 1
    for arguments, asked in itertools.product(((rows(), ADD), (rows(),)), (None, OPTIONS)):
        function = kept_jit(double, compiler_options=asked)
        inside = jax.jit(lambda *given, f=function: f(*given, *(() if len(given) == 2 else (ADD,))))
        same(inside(*arguments))
        same(jax.jit(lambda f=function: f(rows(), ADD))())
        same(function(rows(), ADD))


def test_other_code_or_other_versions_are_traced_anew(folder, monkeypatch):
    fresh()(rows(), ADD)
    monkeypatch.setattr(exported, "code_hash", lambda *_: "another version of the package")
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 1 and len(list(folder.iterdir())) == 2
    same(got)


def test_inside_programs_and_without_a_folder_it_is_jit(folder):
    function = kept_jit(double)
    traced = jax.jit(lambda add: function(rows(), {"add": add})["sum"].template)
    np.testing.assert_array_equal(traced(np.float32(1)), jax.jit(double)(rows(), ADD)["sum"].template)
    function(rows(), {"add": 1.0})  # a Python number has no dtype of its own
    keep_in(None)
    same(function(rows(), ADD))
    assert not folder.exists()


def test_jax_still_tells_programs_of_a_thread_apart_where_we_ask_it():
    """The one private name of JAX that is used: without it nothing is kept, and a warm start takes twice as long."""
    assert exported._trace_context is not None
    plain = exported.context_of_trace()
    with jax.default_matmul_precision("float32"):
        assert exported.context_of_trace() != plain
    with jax.set_mesh(jax.make_mesh((1,), ("x",))):
        assert exported.context_of_trace() != plain
    assert exported.context_of_trace() == plain


def test_without_that_nothing_is_kept_and_the_numbers_are_the_same(folder, monkeypatch):
    monkeypatch.setattr(exported, "_trace_context", None)
    same(fresh()(rows(), ADD))
    assert not folder.exists()


def test_the_precision_is_part_of_the_name():
    with jax.enable_x64(True):
        wide = exported.compile_settings()
    assert wide != exported.compile_settings()


@pytest.mark.parametrize(
    "context",
    [
        lambda: jax.default_matmul_precision("float32"),
        lambda: jax.numpy_rank_promotion("raise"),
        lambda: jax.default_prng_impl("rbg"),
        lambda: jax.set_mesh(jax.make_mesh((1,), ("x",))),
    ],
    ids=["precision", "promotion", "keys", "mesh"],
)
def test_within_a_context_nothing_is_kept_or_taken(folder, context):
    function = fresh()
    function(rows(), ADD)
    with context():
        assert traces(lambda: function(rows(), ADD))[0] == 1  # neither what this process knows
        assert traces(lambda: fresh()(rows(), ADD))[0] == 1  # nor what is in the file
        fresh()(rows(4), ADD)
    assert len(list(folder.iterdir())) == 1
    assert traces(lambda: function(rows(), ADD))[0] == 0


def test_the_precision_of_a_context_is_that_of_its_program(folder):
    def product(a, b):
        return a @ b

    function, ones = kept_jit(product), np.ones((2, 2), np.float32)
    function(ones, ones)
    with jax.default_matmul_precision("float32"):
        assert "HIGHEST" in function.lower(ones, ones).as_text()
        before = function._jitted._cache_size()
        function(ones, ones)
        assert function._jitted._cache_size() == before + 1


def test_code_that_changed_since_the_start_is_neither_kept_nor_taken(folder, monkeypatch):
    fresh()(rows(), ADD)
    answers = iter([True, False])
    with monkeypatch.context() as patched:
        patched.setattr(exported, "code_unchanged", lambda: next(answers))
        same(fresh()(rows(4), ADD), count=4)  # changed while it was traced
    monkeypatch.setattr("mohamjax.runtime.code_hash.STARTED", 0.0)
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 1 and len(list(folder.iterdir())) == 1
    same(got)


def test_the_platform_is_part_of_the_name(monkeypatch):
    name = exported.compile_settings()
    with monkeypatch.context() as patched:
        patched.setattr(jax, "default_backend", lambda: "other")
        assert exported.compile_settings() != name


def test_unused_files_parts_and_too_many_are_deleted(folder, monkeypatch):
    folder.mkdir()
    day, now = 86400, time.time()
    old, new = (part_of(folder / (digit * 64)).name for digit in "45")
    aged = {"1" * 64: 31 * day, "2" * 64: 29 * day, "3" * 64: day, old: day, new: 60}
    for name, age in {**aged, "notes.txt": 99 * day}.items():
        (folder / name).write_bytes(bytes(100))
        os.utime(folder / name, (now - age, now - age))
    exported.tidy(folder)
    assert {path.name for path in folder.iterdir()} == {"2" * 64, "3" * 64, new, "notes.txt"}
    monkeypatch.setattr(exported, "MOST_BYTES", 150)
    exported.tidy(folder)
    assert {path.name for path in folder.iterdir()} == {"3" * 64, new, "notes.txt"}


def test_every_write_has_a_part_of_its_own(folder, monkeypatch):
    names = []
    monkeypatch.setattr(exported.pathlib.Path, "replace", lambda part, file: names.append(part.name))
    kept = SimpleNamespace(program=SimpleNamespace(serialize=lambda: b""), tree=None)
    for _ in range(2):
        exported._write(folder / ("1" * 64), kept)
    assert len(set(names)) == 2


def test_kernels_may_be_chosen_after_a_program_was_called(folder, monkeypatch):
    function = fresh()
    for on, new in ((False, 1), (True, 1), (False, 0)):
        monkeypatch.setattr(platforms, "_kernels", on)
        assert traces(lambda: function(rows(), ADD))[0] == new


def test_what_is_read_counts_as_used(folder):
    fresh()(rows(), ADD)
    (file,) = folder.iterdir()
    os.utime(file, (1e9, 1e9))
    fresh()(rows(), ADD)
    assert time.time() - file.stat().st_mtime < 3600


# ---------------------------------------------------------------- static arguments


NAMES = """
from mohamjax.runtime.kept_programs import name_of
from mohamjax.search.config import MohamConfig
from mohamjax.emo.loop import Sizes
from mohamjax.mapper.block_search import mapping_search
from mohamjax.search.moham import genetic_problem
import numpy as np

named = [genetic_problem(MohamConfig()), genetic_problem(MohamConfig(genes="layers")),
         genetic_problem(MohamConfig(objectives=("period", "energy"))),
         mapping_search(Sizes(8, 2, 16), True, np.float32), mapping_search(Sizes(8, 2, 16), False, np.float32)]
names = [repr(name_of(value)) for value in named]
"""


def test_operators_of_a_search_have_names_that_every_process_gives_them():
    own = {}
    exec(NAMES, own)
    assert len(set(own["names"])) == 5 and not any("0x" in name for name in own["names"])
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[1])}
    command = [sys.executable, "-c", NAMES + "print(*names, sep='\\n')"]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout
    assert said.splitlines() == own["names"]


def ours(held, default=0):
    """A closure over `held`, as of the package: equal code, but another program for another value."""

    def own(x, times=default):
        return held * x * times

    own.__module__ = "mohamjax.nowhere"
    return own


@dataclasses.dataclass(frozen=True)
class Others:
    """A class whose methods may change without the package noticing."""

    number: int = 1


def itself():
    def own(x):
        return own(x)

    own.__module__ = "mohamjax.nowhere"
    return own


def test_what_functions_hold_is_part_of_their_names():
    values = [ours(1), ours(2), ours(1.0), ours((1, 2)), ours([1, 2]), ours({"a": 1}), ours(None), ours(jnp.float32)]
    values += [
        ours(1, 2),
        ours(ours(1)),
        functools.partial(ours(1), 2),
        functools.partial(ours(1), times=2),
        np.float32,
    ]
    assert len({repr(exported.name_of(value)) for value in values}) == len(values)
    assert exported.name_of(ours(1)) == exported.name_of(ours(1))


@pytest.mark.parametrize(
    "held",
    [double, jnp.ones(3), object(), ours(double), functools.partial(double), {1, 2}, itself(), Others()],
    ids=[
        "function of others",
        "array",
        "object",
        "holds a function of others",
        "partial",
        "set",
        "holds itself",
        "class of others",
    ],
)
def test_with_what_has_no_name_nothing_is_kept(folder, held):
    def scaled(rows, *, by):
        TRACED.append(1)
        return rows * (2 if by is None else 3)

    function = kept_jit(scaled, static_argnames=("by",))
    with pytest.raises((exported._NamelessError, RecursionError)):
        exported.name_of(held)
    by = functools.partial(double, held) if isinstance(held, jax.Array | set) else held
    np.testing.assert_array_equal(function(np.arange(3), by=by), [0, 3, 6])
    assert not folder.exists()
    np.testing.assert_array_equal(function(np.arange(3), by=None), [0, 2, 4])
    assert len(list(folder.iterdir())) == 1


def test_shapes_and_what_is_compiled_ahead_come_from_what_is_kept(folder):
    fresh()(rows(), ADD)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), (rows(), ADD))
    for given in ((rows(), ADD), shapes):
        count, (got, call) = traces(lambda given=given: (fresh().eval_shape(*given), fresh().compiled(*given)))
        assert count == 0
        want = jax.eval_shape(double, rows(), ADD)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(got)] == [
            (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(want)
        ]
        same(call(rows(), ADD))
    keep_in(None)
    same(fresh().compiled(rows(), ADD)(rows(), ADD))
    assert fresh().eval_shape(rows(), ADD) == want


def test_random_keys_come_and_go(folder):
    def split(keys):
        return jax.vmap(jax.random.split)(keys), jax.vmap(jax.random.bits)(keys)

    keys = jax.random.split(jax.random.key(3), 4)
    further = jax.jit(lambda found: jax.vmap(jax.vmap(jax.random.bits))(found[0]))
    for function in (jax.jit(split), kept_jit(split), kept_jit(split)):
        further(function(keys))
        found = function(keys)
        np.testing.assert_array_equal(jax.random.key_data(found[0]), jax.random.key_data(split(keys)[0]))
        np.testing.assert_array_equal(found[1], split(keys)[1])
    assert len(list(folder.iterdir())) == 1 and further._cache_size() == 1


def test_functions_that_begin_on_one_line_have_names_of_their_own():
    code = "def pair():\n    return (lambda x: x + 1), (lambda x: x * 2), (lambda x: x + 2), (lambda x: x + 1)\n"
    module = {"__name__": "mohamjax.anything"}
    exec(compile(code, "anything.py", "exec"), module)
    add, double, more, again = map(exported.name_of, module["pair"]())
    assert len({repr(add), repr(double), repr(more)}) == 3 and repr(add) == repr(again)


@pytest.mark.slow
def test_what_is_traced_for_another_platform_is_not_kept(folder):
    fresh()(rows(), ADD)
    kept = list(folder.iterdir())
    with platforms.traced("cpu"):
        count, got = traces(lambda: fresh()(rows(), ADD))
    same(got)
    assert count == 1 and list(folder.iterdir()) == kept


def test_kept_programs_have_the_name_of_their_function(folder, caplog):
    fresh()(rows(), ADD)
    for function in (fresh(), kept_jit(functools.partial(double, times=2))):
        caplog.clear()
        with jax.log_compiles(True), caplog.at_level("WARNING"):
            function(rows(), ADD)
        assert any("jit(double)" in record.getMessage() for record in caplog.records)
