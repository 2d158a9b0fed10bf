"""Nothing found is lost: full disks, Ctrl-C, two searches in one folder, edited checkpoints, closed pipes."""

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from small_search import rewritten, search, table

from mohamjax.cli.terminal import Terminal
from mohamjax.errors import InputError
from mohamjax.io import checkpoint as checkpoints
from mohamjax.io import locked_folder, write_together
from mohamjax.io.files import write_bytes
from mohamjax.io.mapped_arrays import replacing
from mohamjax.search import search as searching
from mohamjax.search.finish import finishing
from mohamjax.search.generations import Silent
from mohamjax.search.resumed import check_state, history_of

FULL = InputError("cannot be written (No space left on device)", file="a file", remedy="name another")


@pytest.fixture
def done(results, tmp_path):
    """A copy of the results of a finished search: when it is resumed, no generations are left."""
    folder = tmp_path / "out"
    shutil.copytree(results, folder)
    return folder


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


def resumed(networks, folder, *more):
    return search(networks, folder, "--no-figures", "--resume", *more)


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


# ---------------------------------------------------------------- files


def test_files_are_all_new_or_all_old(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    synced = []

    def full(descriptor):
        synced.append(descriptor)
        if len(synced) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"b: cannot be written \(No space left on device\)"):
        write_together({tmp_path / "a": "new", tmp_path / "b": b"new"})
    assert contents(tmp_path) == {"a": b"old"}
    write_together({tmp_path / "a": "new", tmp_path / "b": b"new"})
    assert contents(tmp_path) == {"a": b"new", "b": b"new"}


def replace(path, content):
    with replacing(path) as stream:
        stream.write(content)


@pytest.mark.parametrize("write", [write_bytes, replace])
def test_threads_may_write_the_same_file_at_once(tmp_path, monkeypatch, write):
    both_wrote = threading.Barrier(2, timeout=20)
    monkeypatch.setattr(os, "fsync", lambda _: both_wrote.wait())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, [tmp_path / "a"] * 2, [b"one", b"two"]))
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    assert (tmp_path / "a").read_bytes() in (b"one", b"two")


@pytest.mark.parametrize("old", [True, False])
def test_two_names_of_one_file_are_refused(tmp_path, old):
    if old:
        (tmp_path / "a").write_text("old")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match=r"b: is the same file as .*a; name a file of its own for each"):
        write_together({tmp_path / "a": "new", tmp_path / "b": "other"})
    assert not old or (tmp_path / "a").read_text() == "old"
    write_together({"/dev/null": "new", "/dev/../dev/null": "other"})


def test_ctrl_c_waits_for_the_last_rename(tmp_path, monkeypatch):
    real = os.replace

    def replace(one, other):
        real(one, other)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write_together({tmp_path / name: name for name in "abc"})
    assert contents(tmp_path) == {"a": b"a", "b": b"b", "c": b"c"}


def test_a_folder_is_for_one_search(networks, tmp_path, capsys):
    with locked_folder(tmp_path):
        assert search(networks, tmp_path) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{tmp_path}: another search is writing to this folder; wait" in said
    with locked_folder(tmp_path), pytest.raises(InputError), locked_folder(tmp_path):
        pass
    assert contents(tmp_path) == {}


def test_a_killed_search_holds_no_folder(tmp_path):
    code = "import sys, time\nfrom mohamjax.io import locked_folder\nwith locked_folder(sys.argv[1]):\n"
    code += "    print('held', flush=True)\n    time.sleep(600)\n"
    other = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(InputError, match="another search"), locked_folder(tmp_path):
        pass
    other.kill()
    other.wait()
    other.stdout.close()
    with locked_folder(tmp_path):
        pass


# ---------------------------------------------------------------- a full disk


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_costs_no_search(networks, done, monkeypatch, capsys):
    before = (done / "checkpoint.npz").read_bytes()
    monkeypatch.setattr(checkpoints, "write_bytes", raising(FULL))
    assert resumed(networks, done, "--generations", "17", "--checkpoint-every", "0") == 0
    said = capsys.readouterr().err
    assert said.count("warning: cannot be written (No space left on device): ") == 1
    assert "the checkpoint of an earlier generation stays, and the search goes on" in said
    assert len(table(done / "history.csv")) == 18
    assert (done / "checkpoint.npz").read_bytes() == before


def test_a_front_that_cannot_be_written_is_printed(networks, done, monkeypatch, capsys):
    before = contents(done)
    monkeypatch.setattr("mohamjax.io.results.write_together", raising(FULL))
    assert resumed(networks, done) == 2
    out, err = capsys.readouterr()
    assert out.strip().encode() == before["front.csv"].strip()
    assert "a file: cannot be written (No space left on device); the front is printed instead" in err
    assert "--resume writes the files" in err
    monkeypatch.undo()
    left = contents(done)
    assert {name: left[name] for name in before if name != "checkpoint.npz"} == {
        name: before[name] for name in before if name != "checkpoint.npz"
    }


@pytest.mark.slow
def test_figures_that_cannot_be_drawn_cost_no_results(networks, done, monkeypatch, capsys):
    warning, stop = "warning: a file: cannot be written", "stopped by hand; the"
    for error, word, code in ((FULL, warning, 0), (KeyboardInterrupt(), stop, 130)):
        monkeypatch.setattr("mohamjax.io.files.write_folder", raising(error))
        assert search(networks, done, "--resume") == code
        out, err = capsys.readouterr()
        assert word in err and f"`mohamjax plot {done}` draws the figures" in err
        assert "hypervolume" in out


# ---------------------------------------------------------------- Ctrl-C


@pytest.mark.slow
def test_ctrl_c_among_the_last_renames_says_that_results_are_there(networks, done, monkeypatch, capsys):
    real = os.replace

    def replace(one, other):
        real(one, other)
        if str(other).endswith("front.csv"):
            os.kill(os.getpid(), signal.SIGINT)

    (done / "designs.json").write_text("old")
    monkeypatch.setattr(os, "replace", replace)
    assert resumed(networks, done) == 130
    assert f"stopped by hand; the results are written, `mohamjax plot {done}`" in capsys.readouterr().err
    assert json.loads((done / "designs.json").read_text())["format"] == "designs/1"


def test_ctrl_c_after_the_last_generation_names_the_checkpoint(networks, done, monkeypatch, capsys):
    before = contents(done)
    monkeypatch.setattr("mohamjax.search.search.reevaluate", raising(KeyboardInterrupt()))
    assert resumed(networks, done) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"stopped by hand; no results are written, --resume goes on from {done / 'checkpoint.npz'}"
    assert contents(done)["front.csv"] == before["front.csv"]


def interrupted_after(batches):
    """As `finishing`, with an interrupt after so many batches."""

    def hasty(*arguments, **named):
        yield from itertools.islice(finishing(*arguments, **named), batches)
        raise KeyboardInterrupt

    return hasty


def test_ctrl_c_while_the_front_is_finished_writes_it(networks, done, tmp_path, monkeypatch, capsys):
    """As far as it is finished; resuming from the checkpoint gives the whole front."""
    out = tmp_path / "stopped"
    with monkeypatch.context() as patched:
        patched.setattr("mohamjax.search.search.finishing", interrupted_after(2))
        assert search(networks, out, "--no-figures") == 130
    said = capsys.readouterr().err
    assert "refitting the front" in said and "stopped by hand; writing what was found" in said
    assert "(stopped early; --resume goes on)" in said
    assert len(table(out / "front.csv")) > 3 and contents(out)["front.csv"] != contents(done)["front.csv"]
    assert resumed(networks, out) == 0
    assert contents(out)["front.csv"] == contents(done)["front.csv"]


def test_ctrl_c_while_a_front_that_is_there_is_finished_again_leaves_it(networks, done, monkeypatch, capsys):
    before = contents(done)
    monkeypatch.setattr("mohamjax.search.search.finishing", interrupted_after(2))
    assert resumed(networks, done) == 130
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"--resume goes on from {done / 'checkpoint.npz'}")
    after = contents(done)
    assert {name: after[name] for name in before if name != "checkpoint.npz"} == {
        name: content for name, content in before.items() if name != "checkpoint.npz"
    }


class Processes:
    """Stands for the devices of some processes, each of which has all data."""

    def __init__(self, number):
        self.several_processes = number > 1

    def whole(self, tree):
        return tree


@pytest.mark.parametrize("where", ["between batches", "while one waits"])
@pytest.mark.parametrize("processes", [0, 1, 2])
@pytest.mark.parametrize("searched", [True, False])
def test_an_interrupt_keeps_the_batches_until_then(monkeypatch, where, processes, searched):
    """Unless another process may have done more of them, or the generations came from a checkpoint."""

    class Slow:
        def block_until_ready(self):
            raise KeyboardInterrupt

    def hasty(state, *_, **__):
        yield state + 1
        yield state + 2
        if where == "while one waits":
            yield Slow()
        raise KeyboardInterrupt

    monkeypatch.setattr(searching, "finishing", hasty)
    stopped = searching.Search(None)
    stopped._spread, stopped._several = Processes(processes) if processes else None, processes == 2
    stopped._listener, stopped._remapper, stopped._interrupted = Silent(), None, False
    stopped._generations = SimpleNamespace(space=None)
    stopped._state, stopped._last = np.arange(3.0), "generations" if searched else None
    if processes == 2 or not searched:
        with pytest.raises(KeyboardInterrupt):
            stopped.finish()
        return
    stopped.finish()
    assert stopped._interrupted and np.array_equal(stopped._state, np.arange(3.0) + 2)


def test_ctrl_c_between_generations_writes_what_there_is_and_says_so_to_scripts(
    networks, tmp_path, monkeypatch, capsys
):
    def progress(self, progress, generations):
        if progress.generation >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Terminal, "progress", progress)
    assert search(networks, tmp_path, "--no-figures") == 130
    assert "(stopped early; --resume goes on)" in capsys.readouterr().err
    assert (tmp_path / "front.csv").exists()


@pytest.mark.slow
def test_ctrl_c_while_a_step_is_recorded_leaves_a_checkpoint_that_goes_on(networks, tmp_path, monkeypatch, capsys):
    record, calls = searching._rows, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return record(*arguments)

    monkeypatch.setattr(searching, "_rows", interrupted)
    assert search(networks, tmp_path, "--no-figures") == 130
    monkeypatch.undo()
    assert search(networks, tmp_path, "--no-figures", "--resume") == 0
    assert int(table(tmp_path / "history.csv")[-1]["generation"]) == 12


def test_ctrl_c_twice_names_the_checkpoint(networks, tmp_path, monkeypatch, capsys):
    def progress(self, progress, generations):
        if progress.generation >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(Terminal, "progress", progress)
    monkeypatch.setattr("mohamjax.search.search.reevaluate", raising(KeyboardInterrupt()))
    assert search(networks, tmp_path, "--no-figures") == 130
    said = capsys.readouterr().err
    assert "stopped by hand; writing what was found" in said and "nothing to write" not in said
    assert said.splitlines()[-1].endswith(f"--resume goes on from {tmp_path / 'checkpoint.npz'}")
    assert {p.name for p in tmp_path.iterdir()} == {"checkpoint.npz"}


def test_ctrl_c_before_a_checkpoint_does_not_name_one_of_another_search(networks, done, monkeypatch, capsys):
    monkeypatch.setattr("mohamjax.mapper.layer_mapper.LayerMapper.search", raising(KeyboardInterrupt()))
    assert search(networks, done) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("stopped by hand before there was a checkpoint; nothing to write. What was mapped")


# ---------------------------------------------------------------- edited checkpoints


def leaf(arrays, *parts):
    """The first array whose name has all parts."""
    return next(arrays[name] for name in sorted(arrays) if all(part in name for part in parts))


EDITS = {
    "without a history": lambda arrays, meta: meta.pop("history"),
    "its history has other columns": lambda arrays, meta: meta["history"][3].pop("seconds"),
    "holds what is no number": lambda arrays, meta: meta["history"][3].update(front_size="many"),
    "of its history is out of range": lambda arrays, meta: meta["history"].pop(0),
    "damaged (generation 1073741823": lambda arrays, meta: leaf(arrays, "generation").fill(2**30),
    "holds a template that is not there": lambda arrays, meta: leaf(arrays, "population", "design.template").fill(7),
    "no permutation": lambda arrays, meta: leaf(arrays, "archive", "design.order").fill(0),
    "holds a mapping that is not there": lambda arrays, meta: leaf(arrays, "population", "mapping").fill(10**6),
    "genes out of range": lambda arrays, meta: leaf(arrays, "population", "thrift").fill(-3),
    "is unknown": lambda arrays, meta: arrays.update(other=np.zeros(3)),
    "differs": lambda arrays, meta: arrays.pop(sorted(arrays)[0]),
}


def test_an_edited_checkpoint_is_refused(networks, done, monkeypatch, capsys):
    seen = {}

    def look(saved, state, history, context):
        seen.update(state=state, context=context)
        raise KeyboardInterrupt

    monkeypatch.setattr("mohamjax.search.search.check_state", look)
    assert resumed(networks, done) == 130
    monkeypatch.undo()
    path = done / "checkpoint.npz"
    whole = path.read_bytes()

    def check():
        saved = checkpoints.read_checkpoint(path)
        state, _ = saved.restore((seen["state"], {}))
        check_state(saved, state, history_of(saved), seen["context"])

    check()
    for word, change in EDITS.items():
        path.write_bytes(whole)
        rewritten(path, change)
        with pytest.raises(InputError) as caught:
            check()
        assert word in caught.value.message and caught.value.file == str(path), word
    capsys.readouterr()
    assert resumed(networks, done) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("mohamjax: ")] == said[-1:] and "without --resume" in said[-1]


def test_a_checkpoint_whose_numbers_were_changed_is_refused(done):
    path = done / "checkpoint.npz"
    with np.load(path) as data:
        arrays = dict(data)
    leaf(arrays, "population", "objectives")[...] *= 0.5
    np.savez(path, **arrays)
    with pytest.raises(InputError, match="was changed after it was written"):
        checkpoints.read_checkpoint(path)


# ---------------------------------------------------------------- closed standard output

COMMAND = [sys.executable, "-m", "mohamjax", "templates", "show", "--example", "--no-compile-cache"]


def test_a_reader_that_leaves_ends_it_quietly():
    for words in (COMMAND, [*COMMAND[:3], "--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        ended = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        assert (ended.returncode, ended.stderr) == (0, ""), words


def test_no_standard_output_at_all_ends_it_quietly():
    shell = " ".join(COMMAND) + " >&-"
    ended = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_standard_output_is_one_line():
    for words in (COMMAND, [*COMMAND[:5], "simba", *COMMAND[6:]]):  # more than a buffer holds, and less
        with open("/dev/full", "w") as full:
            ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
        assert ended.returncode == 2
        assert ended.stderr.count("\n") == 1 and "No space left on device" in ended.stderr


@pytest.mark.parametrize("thread", [False, True])
def test_what_is_to_be_done_at_the_end_is_done(thread):
    """A process that ends without freeing its memory still runs exit functions and threads, and flushes its output."""
    late = "import time; time.sleep(0.3); print('thread')" if thread else "pass"
    program = (
        "import atexit, threading\nfrom mohamjax.cli.interrupts import leave\n"
        "atexit.register(print, 'at the end')\n"
        f"threading.Thread(target=lambda: exec({late!r})).start()\nprint('said')\nleave(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (3, "")
    assert ended.stdout.split("\n") == ["said", *["thread"] * thread, "at the end", ""]


@pytest.mark.slow
def test_few_designs_stand_for_the_front_and_resuming_gives_the_others_back(networks, done, capsys):
    whole = table(done / "front.csv")
    assert len(whole) > 12
    assert resumed(networks, done, "--front", "8") == 0
    assert "--front keeps more than 8" in capsys.readouterr().err
    few = table(done / "front.csv")
    assert len(few) == 8
    for column in ("latency_s", "energy_J", "area_mm2"):
        assert min(float(row[column]) for row in few) == min(float(row[column]) for row in whole)
    assert resumed(networks, done) == 0
    assert table(done / "front.csv") == whole
