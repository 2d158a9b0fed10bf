"""Programs of a test run: compiled with little effort, and by one process for all.

What a run of the tests costs is compiling: a test runs its programs a few times, on small arrays. With little of LLVM's
optimisation, and without the fusion emitters that go through MLIR, XLA compiles the programs of a search in a third of
the time. (With none of LLVM's it takes a sixth, but searches of many generations then run longer than that saves.)
Programs are not cut into parts for several threads, as every core has a process of tests: that takes a fifth less and
maps less memory. To run the tests by the programs that users have, set XLA_FLAGS, be it to nothing.
"""

import os
import subprocess
import sys
import tempfile

_FLAGS = (
    "--xla_backend_optimization_level=1 --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)


def prepare() -> tempfile.TemporaryDirectory | None:
    """Sets the environment of this process and of those that it starts, before XLA reads it.

    Returns:
        The folder in which all keep what they have compiled and mapped, to be removed at the end; None where the
        process that started this one has made it. A folder for programs in JAX_COMPILATION_CACHE_DIR is used instead.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return None
    if "XLA_FLAGS" not in os.environ and _known(_FLAGS):
        os.environ["XLA_FLAGS"] = _FLAGS
    folder = tempfile.TemporaryDirectory()
    os.environ["XDG_CACHE_HOME"] = folder.name
    # As the command line keeps programs; those of the processes that tests start, too.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(folder.name, "mohamjax", "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    return folder


def _known(flags: str) -> bool:
    """Whether the installed XLA has such flags: it ends a process that names one which it has not."""
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    return subprocess.run(command, env=environment, capture_output=True).returncode == 0
