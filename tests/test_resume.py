"""A search that is killed (kill -9) and resumed ends with the files of one that was left alone."""

import importlib.util
import io
import os
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from small_search import SIZES

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.checkpoint import read_checkpoint
from mohamjax.io.files import write_bytes

_SCRIPT = pathlib.Path(__file__).parents[1] / "experiments" / "kill_and_resume.py"
_SPEC = importlib.util.spec_from_file_location("kill_and_resume", _SCRIPT)
kills = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(kills)


@pytest.fixture(scope="module")
def arguments(networks):
    return [*networks, "--budget", "tiny", *SIZES, "--generations", "120", "--no-figures", "--no-mapping-cache"]


@pytest.fixture(scope="module")
def cache():
    """The cache folder of all tests: what they have compiled need not be compiled again."""
    return pathlib.Path(os.environ["XDG_CACHE_HOME"])


@pytest.fixture(scope="module")
def undisturbed(arguments, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert main(kills.words(arguments, folder)) == 0
    return folder


def kill_when(process, mark: str, delay: float) -> str:
    """Kills a search some time after it has said something; returns what it had said."""
    said = ""
    while mark not in said:
        line = process.stderr.readline()
        assert line, f"ended before it said {mark!r}: {said}"
        said += line
    time.sleep(delay)
    process.kill()
    return said + process.communicate()[1]


@pytest.mark.slow
def test_a_search_killed_twice_resumes_to_the_same_files(arguments, cache, undisturbed, tmp_path):
    """In the mapper, where nothing is saved yet, and in the search."""
    more = []
    for mark, delay in (("mapper ", 0.2), ("search  generation 0", 0.1)):
        process = kills.search([*arguments, *more], tmp_path / "out", cache)
        said = kill_when(process, mark, delay)
        assert process.returncode == -9
        assert ("starting from the beginning" in said) == bool(more)
        more = ["--resume"]
    resumed = kills.search([*arguments, *more], tmp_path / "out", cache)
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    assert "starting from the beginning" not in said
    assert kills.differences(undisturbed, tmp_path / "out") == []


@pytest.mark.slow
def test_files_that_differ_are_told(undisturbed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(undisturbed, copy)
    assert kills.differences(undisturbed, copy) == []
    for name in ("front.csv", "history.csv"):
        rows = (copy / name).read_text().splitlines()
        (copy / name).write_text("\n".join([*rows[:-1], rows[-1].replace("e-0", "e-1").replace("0.", "1.")]) + "\n")
    (copy / "extra").write_text("")
    assert kills.differences(undisturbed, copy) == ["extra", "front.csv", "history.csv"]


def array_file():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


def packed_in_another_way():
    """A checkpoint of which one byte, the way in which its first member is packed, has changed."""
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.asarray("{}"))
    content = bytearray(buffer.getvalue())
    content[content.index(b"PK\x01\x02") + 10] = 99
    return bytes(content)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"[]", array_file(), packed_in_another_way()])
def test_a_broken_checkpoint_is_one_line(tmp_path, content):
    (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"checkpoint\.npz: the checkpoint cannot be read .*without .*`resume`$"):
        read_checkpoint(tmp_path / "checkpoint.npz")


def test_a_file_is_whole_or_as_it_was(tmp_path):
    """A writer killed in the middle leaves the old file; the next one removes what is left of the new."""
    target = tmp_path / "checkpoint.npz"
    target.write_bytes(b"old")
    code = (
        "import os, signal, sys\n"
        "from mohamjax.io import files\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "files.write_bytes(sys.argv[1], b'new' * 1000)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(target)])
    assert killed.returncode == -9
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 2
    alive = tmp_path / f".{target.name}.{os.getppid()}.tmp"
    alive.write_bytes(b"of a writer at work")
    other = tmp_path / f".{target.name}.backup.tmp"
    other.write_bytes(b"not ours")
    write_bytes(target, b"newer")
    assert target.read_bytes() == b"newer"
    assert {p.name for p in tmp_path.iterdir()} == {target.name, alive.name, other.name}
