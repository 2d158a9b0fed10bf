"""Programs that are traced once and kept: a file that is stale, damaged or of another make never decides a number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mohamjax import exported
from mohamjax.exported import exported_jit, keep_in
from mohamjax.schedule import Design

TRACED = []


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
def folder(tmp_path):
    before = exported._folder
    keep_in(tmp_path / "traced")
    TRACED.clear()
    yield tmp_path / "traced"
    keep_in(before)


def fresh():
    """As a new process has it: nothing known."""
    return exported_jit(double, static_argnames=("times",), compiler_options={"xla_backend_optimization_level": 1})


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


def test_the_next_process_traces_nothing_and_finds_the_same(folder):
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


def test_other_code_or_other_versions_are_traced_anew(folder, monkeypatch):
    fresh()(rows(), ADD)
    monkeypatch.setattr(exported, "_code", lambda *_: "another version of the package")
    count, got = traces(lambda: fresh()(rows(), ADD))
    assert count == 1 and len(list(folder.iterdir())) == 2
    same(got)


def test_inside_programs_and_without_a_folder_it_is_jit(folder):
    function = exported_jit(double)  # JAX refuses options of their own inside another program
    traced = jax.jit(lambda add: function(rows(), {"add": add})["sum"].template)
    np.testing.assert_array_equal(traced(np.float32(1)), jax.jit(double)(rows(), ADD)["sum"].template)
    function(rows(), {"add": 1.0})  # a Python number has no dtype of its own
    keep_in(None)
    same(function(rows(), ADD))
    assert not folder.exists()


def test_the_code_of_the_package_is_part_of_the_name(tmp_path):
    names, codes = ("a.py", "sub/a.py", "sub/a.py", "sub/a.py"), ("x = 1", "x = 1", "x = 2", "x = 2 ")
    (tmp_path / "sub").mkdir()
    found = [exported._code.__wrapped__(tmp_path)]
    for name, code in zip(names, codes, strict=True):
        (tmp_path / name).write_text(code)
        found.append(exported._code.__wrapped__(tmp_path))
    assert len(set(found)) == len(found)


def test_the_precision_is_part_of_the_name():
    with jax.enable_x64(True):
        wide = exported._settings()
    assert wide != exported._settings()
