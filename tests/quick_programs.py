"""Compiler settings of a test run: programs are compiled with little effort, and shared by all processes.

Most of the cost of a test run is compilation, as a test runs its programs only a few times on small arrays. With a low
LLVM optimisation level and without the fusion emitters that go through MLIR, XLA compiles the programs of a search in a
third of the time. (Level 0 takes a sixth, but then searches of many generations lose more time than that saves.)
Programs are not split for parallel code generation, as every core already runs a test process: that takes a fifth less
time and maps less memory. To run the tests with the programs that users have, set XLA_FLAGS, for example to nothing.

To keep what one run has compiled and mapped for the next one, name a folder in MOHAMJAX_TEST_CACHE: `.ci/run` does, as
the long tests need many of the programs of the others. Programs and mappings of other code are not taken.
"""

import os
import subprocess
import sys
import tempfile

_FLAGS = (
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)


def prepare() -> tempfile.TemporaryDirectory | None:
    """Sets the environment of this process and of the processes that it starts, before XLA reads it.

    Returns:
        The folder in which all processes keep what they have compiled and mapped, to be removed at the end; None in a
        worker, whose parent has made it, and where MOHAMJAX_TEST_CACHE names the folder. If JAX_COMPILATION_CACHE_DIR
        is set, compiled programs go there instead.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    if "XLA_FLAGS" not in os.environ and _known(_FLAGS):
        os.environ["XLA_FLAGS"] = _FLAGS
    kept = os.environ.get("MOHAMJAX_TEST_CACHE")
    folder = None if kept else tempfile.TemporaryDirectory()
    place = kept or folder.name
    os.environ["XDG_CACHE_HOME"] = place
    # Programs are cached as on the command line, also those of the processes that tests start.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(place, "mohamjax", "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    return folder


def _known(flags: str) -> bool:
    """Whether the installed XLA knows these flags: it aborts a process that sets a flag which it does not know."""
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0
