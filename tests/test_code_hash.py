"""The names of all kept files have a hash of all code: no file outlives an edit that could change it."""

import os
import shutil
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from mohamjax.hardware import load_technology, load_templates
from mohamjax.io import MappingCache, mapping_cache
from mohamjax.mapper import LayerMapper
from mohamjax.runtime.code_hash import code_hash, code_unchanged, hash_of, of_this_package
from mohamjax.search import BUDGETS
from mohamjax.workload import UniqueLayer, WorkloadShape

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the source of this package."""
    folder = tmp_path_factory.mktemp("copy") / "mohamjax"
    shutil.copytree(f"{ROOT}/mohamjax", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.mark.slow
def test_an_edit_of_any_source_file_changes_the_hash(package):
    found = {hash_of(package)}
    assert found == {code_hash()}
    files = sorted(package.rglob("*.py"))
    assert {"platforms.py", "layer.py", "layer_mapper.py"} <= {file.name for file in files}
    for number, file in enumerate(files):
        with file.open("a") as source:
            source.write("# edited\n")
        found.add(hash_of(package))
        assert len(found) == number + 2, file


def test_where_code_stands_is_part_of_the_hash(tmp_path):
    names, codes = ("a.py", "sub/a.py", "sub/a.py", "sub/a.py"), ("x = 1", "x = 1", "x = 2", "x = 2 ")
    (tmp_path / "sub").mkdir()
    found = [hash_of(tmp_path)]
    for name, code in zip(names, codes, strict=True):
        (tmp_path / name).write_text(code)
        found.append(hash_of(tmp_path))
    assert len(set(found)) == len(found)


def test_versions_are_part_of_the_hash(tmp_path, monkeypatch):
    before = hash_of(tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.0" if name == "jaxlib" else "1.0")
    assert hash_of(tmp_path) != before


def test_a_file_put_in_place_of_another_is_a_change_whatever_its_date(tmp_path, monkeypatch):
    monkeypatch.setattr("mohamjax.runtime.code_hash.STARTED", time.time() + 100)
    (tmp_path / "a.py").write_text("x = 1")
    assert code_unchanged(tmp_path)
    os.utime(tmp_path / "a.py", (1e9, 1e9))
    monkeypatch.setattr("mohamjax.runtime.code_hash.STARTED", time.time() - 10)
    assert not code_unchanged(tmp_path)


_EDITED = """
import importlib, os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import mohamjax.runtime.code_hash as of
import mohamjax.dims as dims
assert of.__file__.startswith(sys.argv[1])
of.STARTED = time.time() + 2
assert of.code_unchanged()
source = pathlib.Path(dims.__file__)
before = of.hash_of(source.parent)
source.write_text(source.read_text() + "# edited" + chr(10))
os.utime(source, (time.time() + 9, time.time() + 9))
assert of.code_unchanged() and of.code_hash() == before != of.hash_of(source.parent)  # the running code is the old one
importlib.reload(dims)
assert not of.code_unchanged()
"""


def test_after_an_edit_the_hash_is_of_the_running_code_until_a_module_is_loaded_again(package):
    whole = [sys.executable, "-c", _EDITED, str(package.parent)]
    done = subprocess.run(
        whole, capture_output=True, text=True, cwd=package.parent, env={**os.environ, "PYTHONPATH": ""}
    )
    assert not done.returncode, done.stderr


def test_a_file_that_cannot_be_read_counts_as_a_change(tmp_path, monkeypatch):
    monkeypatch.setattr("mohamjax.runtime.code_hash.STARTED", time.time() + 100)
    (tmp_path / ".#a.py").symlink_to(tmp_path / "nothing")  # as Emacs locks a file
    assert not code_unchanged(tmp_path)


def test_modules_of_this_package():
    assert of_this_package("mohamjax.mapper.layer_mapper") and not of_this_package("mohamjaxlike.search")


# ---------------------------------------------------------------- the mapper's sets


@pytest.mark.slow
def test_sets_of_other_code_are_not_taken(tmp_path, monkeypatch):
    layers = [UniqueLayer("conv", WorkloadShape(K=4, C=4, P=4, Q=4))]
    templates, technology = load_templates(["shidiannao"]), load_technology()
    cached = []

    def tables():
        mapper = LayerMapper(
            layers, templates, technology, BUDGETS["tiny"].mapper,
            cache=MappingCache(tmp_path), progress=lambda seen: cached.append(seen.cached),
        )  # fmt: skip
        return np.asarray(mapper.search(jax.random.key(0)).objectives)

    first = tables()
    np.testing.assert_array_equal(tables(), first)
    assert cached[-1] == 1
    module = sys.modules["mohamjax.io.mapping_cache"]  # `io` has a function of this name
    monkeypatch.setattr(module, "code_hash", lambda: "other code")
    np.testing.assert_array_equal(tables(), first)
    assert cached[-1] == 0


def test_no_sets_are_kept_where_the_code_has_changed(tmp_path, monkeypatch):
    assert mapping_cache(tmp_path) is not None or not code_unchanged()
    monkeypatch.setattr("mohamjax.runtime.code_hash.STARTED", 0.0)
    with pytest.warns(UserWarning, match="the code has changed since this process began"):
        assert mapping_cache(tmp_path) is None
