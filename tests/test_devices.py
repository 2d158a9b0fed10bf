"""Several devices and processes: the front does not depend on them, and what cannot be spread is refused."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.runtime.devices import Devices, chosen_devices, join
from mohamjax.search import MohamConfig

CASES = pathlib.Path(__file__).parent / "device_cases.py"
ROOT = CASES.parents[1]


def started(*words):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, *map(str, words)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def free_port():
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return own.getsockname()[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of a search of two processes, the first of which was killed by SIGKILL after a checkpoint."""
    folder = tmp_path_factory.mktemp("devices")
    (folder / "killed").mkdir()
    port = free_port()
    first, second = (started(CASES, "pair", folder, port, i, "die") for i in range(2))
    try:
        said = first.communicate(timeout=600)[1]
        assert first.returncode == -9, said
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()
    assert (folder / "killed" / "checkpoint.npz").exists()
    return folder


@pytest.fixture(scope="module")
def eight(folder):
    """What eight virtual devices found, see `device_cases.eight`."""
    process = started(CASES, "eight", folder)
    out, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
def test_evaluation_over_devices_needs_no_collective(eight):
    assert eight["evaluations"] == {"collectives": {}, "close": True, "devices": 8}


@pytest.mark.slow
def test_islands_exchange_migrants_alone_and_an_only_island_its_objectives(eight):
    islands, single = eight["collectives"]
    assert set(islands) == {"collective-permute"}
    assert single == {"all-gather": 1}


@pytest.mark.slow
def test_one_front_whatever_the_number_of_devices(eight):
    """For one device, for eight, and for eight that resume where two processes were killed."""
    assert eight["front"] > 3
    assert eight["same"] == [True, True]
    assert eight["one island"] and eight["moved"] and eight["history"]
    assert eight["resumed"] == 6


@pytest.mark.slow
def test_two_processes_go_on_from_a_kill_and_equal_one(eight, folder, tmp_path):
    own = tmp_path / "pair"
    shutil.copytree(folder, own)
    port = free_port()
    both = [started(CASES, "pair", own, port, i, "resume") for i in range(2)]
    found = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    one, two = (json.loads(out.splitlines()[-1]) for out, _ in found)
    assert one == two and one["generation"] == 6
    assert np.array_equal(np.load(own / "pair.npy"), np.load(own / "plain.npy"))
    # Each process maps on its own two devices.
    mapped = np.load(own / "mapped.npy")[0]
    assert all(np.array_equal(np.load(own / f"mapped-{i}.npy"), mapped) for i in range(2))


@pytest.mark.slow
def test_a_table_of_many_entries_is_the_same_over_devices(eight):
    assert eight["tables"]


@pytest.mark.slow
def test_layers_have_the_same_mappings_from_any_devices(eight):
    assert eight["mappings"]


@pytest.mark.slow
def test_what_eight_devices_cannot_share_is_refused(eight):
    islands, many, none = eight["refused"]
    assert islands[0] == many[0] == none[0] == 2
    assert "--devices: 7 islands cannot be divided equally among 8 devices; take 8 islands" in islands[1]
    assert "--devices 9: there are 8 devices of kind cpu; ask for 8 at most" in many[1]
    assert "'0' is neither a positive integer nor `all`" in none[1]


def test_a_first_process_that_does_not_answer_ends_in_one_line():
    words = ("search", "ar-vr", "--coordinator", f"127.0.0.1:{free_port()}", "--processes", "2", "--process", "1")
    process = started("-m", "mohamjax", *words, "--coordinator-timeout", "1")
    out, said = process.communicate(timeout=300)
    assert (process.returncode, out, said.count("\n")) == (2, "", 1), said
    assert "did not answer within 1 s; start all processes" in said


@pytest.mark.parametrize(
    "words, told",
    [
        (("--processes", "2"), "--processes: is for several processes"),
        (("--coordinator", "here", "--processes", "2", "--process", "0"), "'here' is no address"),
        (("--coordinator", "here:1234", "--processes", "2"), "--process: is missing"),
        (("--coordinator", "here:1234", "--processes", "2", "--process", "2"), "is 2 of 2 processes"),
        (("--coordinator", "auto", "--processes", "2"), "is set by the cluster"),
        (("--migration", "5"), "--migration: is 5, and there is one island only"),
    ],
)
def test_options_that_do_not_fit_are_refused(capsys, words, told):
    assert main(["search", "ar-vr", "--dry-run", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("devices", [0, -1, True, "some", 1.5, [], [1]])
def test_what_says_nothing_about_devices_is_refused(devices):
    with pytest.raises(InputError, match="a number from 1, or `all`"):
        chosen_devices(devices)


def test_one_device_is_what_jax_takes_by_itself():
    assert chosen_devices(None) is chosen_devices(1) is chosen_devices(jax.devices()[:1]) is None
    own = Devices((jax.devices()[0],))
    assert chosen_devices(own) is own and len(own) == 1
    assert own.from_first(lambda: 3) == own.in_all(lambda: 3) == 3


def test_migration_is_counted_in_generations_and_needs_islands():
    with pytest.raises(InputError, match="migration is -1"):
        MohamConfig(migration=-1)
    with pytest.raises(InputError, match="one island only"):
        MohamConfig(migration=5)


def test_a_port_is_a_number():
    with pytest.raises(InputError, match="is no address"):
        join("host:0", 2, 0)
