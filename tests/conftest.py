"""Paths of the reference data, skips of tests without it, and what the processes of a test run share."""

import gc
import pathlib
import signal
import time

import quick_programs

# Tracing makes millions of long-lived small objects: looking for cycles among them took a tenth of the time.
gc.set_threshold(100_000, 20, 50)

FOLDER = quick_programs.prepare()  # before anything is imported that reads the environment

import jax  # noqa: E402
import pytest  # noqa: E402
from small_search import search, small_network  # noqa: E402

_STARTED = time.monotonic()
SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared"


def _shared(folder: str, name: str) -> pathlib.Path:
    path = SHARED / folder / name
    if not path.exists():
        pytest.skip(f"reference data {folder}/{name} is not beside the checkout (../shared)")
    return path


def reference(name: str) -> pathlib.Path:
    """Path of a file of the reference data; skips the test where it is absent."""
    return _shared("reference", name)


def workloads(name: str) -> pathlib.Path:
    """Path of a file of the workload zoo; skips the test where it is absent."""
    return _shared("workloads", name)


@pytest.fixture(scope="session")
def networks(tmp_path_factory):
    """Paths of two small networks."""
    folder = tmp_path_factory.mktemp("networks")
    small_network(folder / "one.onnx", 16)
    small_network(folder / "two.onnx", 24)
    return [str(folder / "one.onnx"), str(folder / "two.onnx")]


@pytest.fixture(scope="session")
def results(networks, tmp_path_factory):
    """Results folder of a small search over them, with figures."""
    folder = tmp_path_factory.mktemp("results")
    assert search(networks, folder) == 0
    return folder


def pytest_addoption(parser):
    told = "skip tests that would begin later than so many minutes after the start; CI on a slow machine needs it"
    parser.addoption("--minutes", type=float, default=float("inf"), help=told)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skips a test for which no time is left, before its fixtures are made."""
    if time.monotonic() - _STARTED > 60 * item.config.getoption("--minutes"):
        pytest.skip("no time is left (--minutes)")


def pytest_configure():
    """Restores Ctrl-C, here and in processes that tests start, where a background shell has it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure():
    """Removes what the run has compiled and mapped."""
    if FOLDER is not None:
        FOLDER.cleanup()


def pytest_runtest_teardown(item, nextitem):
    """Drops the compiled programs at the end of a file where there are many.

    XLA maps every kernel into memory by itself: a process that compiles all that the suite does exceeds the mappings
    that Linux allows (vm.max_map_count, 65,530) and dies of a segmentation fault in the next compilation. A search
    makes 3,000 mappings, a file up to some 15,000.
    """
    if (nextitem is None or nextitem.path != item.path) and _mappings() > 25_000:
        jax.clear_caches()
        gc.collect()


def _mappings() -> float:
    try:
        return len(pathlib.Path("/proc/self/maps").read_text().splitlines())
    except OSError:  # not on Linux
        return float("inf")
