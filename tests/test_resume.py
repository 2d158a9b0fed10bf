"""Searches that are stopped at any moment, in any way, and resumed end with the files of an undisturbed one."""

import io
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import interruptions
import numpy as np
import pytest
from small_search import SIZES

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.io.checkpoint import read_checkpoint, write_checkpoint
from mohamjax.io.files import write_bytes


@pytest.fixture(scope="module")
def command(networks):
    """A small search that shares the cache folder of all tests, so that compiled programs are reused."""
    arguments = (*networks, "--budget", "tiny", *SIZES, "--generations", "120", "--no-figures", "--no-mapping-cache")
    return interruptions.Command(arguments, pathlib.Path(os.environ["XDG_CACHE_HOME"]))


@pytest.fixture(scope="module")
def undisturbed(command, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    assert main(command.words(folder)) == 0
    return folder


def stop_when(process, mark: str, delay: float, number: signal.Signals) -> str:
    """Stops a search `delay` seconds after it has printed `mark`; returns all that it printed."""
    said = ""
    while mark not in said:
        line = process.stderr.readline()
        assert line, f"ended before it said {mark!r}: {said}"
        said += line
    time.sleep(delay)
    process.send_signal(number)
    return said + process.communicate()[1]


@pytest.mark.slow
def test_a_search_stopped_in_every_way_ends_with_the_same_files(command, undisturbed, tmp_path):
    """Stops in the mapper, where nothing is saved yet, and later at random moments until the end; resumed each time."""
    out, moments = tmp_path / "out", random.Random(3)
    stops = (
        ("mapper ", "kill", signal.SIGKILL),
        ("search  generation", "ctrl-c twice", signal.SIGINT),
    )
    for mark, way, number in stops:
        process = command.start(out)
        said = stop_when(process, mark, moments.uniform(0.0, 0.2), number)
        assert (process.returncode == -9) == (way == "kill"), said
        assert interruptions.untrue(said, process.returncode, way, out) == []
        if "--resume" not in command.arguments:
            command = command.resumed()
    full = command.start(out, moments.randrange(1, (undisturbed / "checkpoint.npz").stat().st_size))
    said = full.communicate()[1]
    assert interruptions.untrue(said, full.returncode, "full disk", out) == []
    resumed = command.start(out)
    _, said = resumed.communicate()
    assert resumed.returncode == 0, said
    assert interruptions.differences(undisturbed, out) == []


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1, 0.3, 0.6])
def test_interrupts_are_heard_while_it_starts(networks, tmp_path, moment):
    """Two interrupts during the import of extension modules, which may turn an interrupt into another error."""
    command = interruptions.Command((*networks, "--budget", "tiny", "--no-figures"), tmp_path / "cache")
    process = command.start(tmp_path / "out")
    while "numpy" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.01)
    said = interruptions.stopped(process, "ctrl-c twice", moment, moment / 3)
    assert interruptions.untrue(said, process.returncode, "ctrl-c", tmp_path / "out") == []


@pytest.mark.slow
def test_files_that_differ_are_told(undisturbed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(undisturbed, copy)
    assert interruptions.differences(undisturbed, copy) == []
    for name in ("front.csv", "history.csv"):
        rows = (copy / name).read_text().splitlines()
        (copy / name).write_text("\n".join([*rows[:-1], rows[-1].replace("e-0", "e-1").replace("0.", "1.")]) + "\n")
    (copy / "extra").write_text("")
    assert interruptions.differences(undisturbed, copy) == ["extra", "front.csv", "history.csv"]


@pytest.mark.parametrize("verb", [["search"], ["codesign", "--space", "unico-ci", "--budget", "ci"]])
def test_no_search_goes_on_in_a_folder_that_is_not_there(networks, tmp_path, capsys, verb):
    out = tmp_path / "typo"
    assert main([verb[0], *networks, *verb[1:], "--resume", "--out", str(out)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"mohamjax: {out}: --resume: there is no such folder") and "leave out --resume" in said
    assert not out.exists()


def test_a_search_without_a_checkpoint_begins_anew_in_its_folder(networks, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", stop)
    for more in ([], ["--resume"]):
        assert main(["search", *networks, "--budget", "tiny", *SIZES, "--out", str(tmp_path / "out"), *more]) == 130
        assert "stopped by hand before there was a checkpoint" in capsys.readouterr().err


def array_file():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


def packed_in_another_way():
    """A checkpoint with one changed byte: the compression method of its first member."""
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


def test_a_checkpoint_takes_little_room_and_one_that_is_not_packed_is_read_too(tmp_path):
    """Mappings consist mostly of factors of 1: of 63 MB of a search's results, 46 MB used to be the checkpoint."""
    factors = np.where(np.arange(500_000) % 50 == 0, np.random.default_rng(0).integers(1, 64, 500_000), 1)
    tree = {"temporal": factors.astype(np.int32), "best": np.array([np.inf, 0.1])}
    packed, plain = tmp_path / "packed.npz", tmp_path / "plain.npz"
    write_checkpoint(packed, tree, {"history": []})
    assert packed.stat().st_size < tree["temporal"].nbytes / 20
    with np.load(packed) as arrays:
        np.savez(plain, **arrays)
    for path in (packed, plain):
        found = read_checkpoint(path)
        assert found.meta["history"] == []
        assert set(found.arrays) == {f"['{name}']" for name in tree}
        assert all(np.array_equal(found.arrays[f"['{name}']"], value) for name, value in tree.items())


def test_a_file_is_whole_or_as_it_was(tmp_path):
    """A writer that is killed midway leaves the old file; a writer an hour later removes the remains."""
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
    (remains,) = tmp_path.glob(f".{target.name}.*.tmp")
    write_bytes(target, b"newer")
    assert target.read_bytes() == b"newer"
    assert remains.exists()  # it may be of a writer on another host
    alive = tmp_path / f".{target.name}.{os.getppid()}-0a.tmp"
    others = [tmp_path / f".{target.name}.backup.tmp", tmp_path / f".{target.name}.1.npz.99999999-0a.tmp"]
    for path in (alive, *others):
        path.write_bytes(b"not of a killed writer of this file")
    for path in tmp_path.iterdir():
        os.utime(path, (time.time() - 3700,) * 2)
    write_bytes(target, b"newest")
    assert set(tmp_path.iterdir()) == {target, alive, *others}
