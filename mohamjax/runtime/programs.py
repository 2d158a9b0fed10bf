"""How programs are compiled, which of them are kept on disk, and the versions that decide their numbers.

Four forms of `jax.jit` keep the programs that they trace (`kept_programs`). They differ in LLVM's level of optimisation
and in how XLA writes loops for a CPU: by its fusion emitters, or plainly, as earlier versions did, if the installed XLA
still can. Times are relative to the form one line above, on a CPU:

| form | LLVM's level | loops | compiles in | runs in |
| --- | --- | --- | --- | --- |
| `kept_jit` | XLA's own | by emitters | | |
| `jit_o1` | 1 | by emitters | 1/2 for many small loops | 1 |
| `jit_o1_plain_loops` | 1 | plain | 2/5 to 2/3 | 8/7 to 5/3 |
| `jit_o0_plain_loops` | 0 | plain | 1/2 | up to 5 |

Inside another program, which has options of its own, all four are the same.
"""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pathlib
import platform
import threading
from collections.abc import Callable, Hashable
from typing import Any, TypedDict, TypeVar

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.folders import cache_folder
from mohamjax.runtime import kept_programs
from mohamjax.runtime.platforms import Options
from mohamjax.version import __version__

T = TypeVar("T")

_O1: Options = {"xla_backend_optimization_level": 1}
_PLAIN_LOOPS: Options = {"xla_cpu_use_fusion_emitters": False}

jit_o1 = functools.partial(kept_programs.kept_jit, compiler_options=_O1)
"""For programs of many small loops, which optimisation beyond level 1 makes no faster."""

jit_o1_plain_loops = functools.partial(kept_programs.kept_jit, compiler_options={**_O1, **_PLAIN_LOOPS})
"""For programs that take longer to compile than to run."""

jit_o0_plain_loops = functools.partial(
    kept_programs.kept_jit, compiler_options={**_PLAIN_LOOPS, "xla_backend_optimization_level": 0}
)
"""For programs that run only a few times."""


PROGRAMS: dict[Hashable, concurrent.futures.Future[Any]] = {}
"""Results that are made once per process, mostly compiled programs, by function, static arguments and shapes; including
those that another thread is still making."""


_ASKING = threading.Lock()


def once(key: Hashable, make: Callable[[], T]) -> T:
    """The result of `make`, which is called once per key, by the first thread that asks."""
    with _ASKING:
        first = key not in PROGRAMS
        future = PROGRAMS.setdefault(key, concurrent.futures.Future())
    if first:
        try:
            future.set_result(make())
        except BaseException as error:
            del PROGRAMS[key]
            future.set_exception(error)
    return future.result()


def at_this_precision(function: Callable[..., T]) -> Callable[..., T]:
    """The function, for other threads: it runs with this thread's setting of 64-bit types. Each thread has its own."""
    x64 = bool(jax.config.read("jax_enable_x64"))

    def run(*arguments: Any) -> T:
        with jax.enable_x64(x64):
            return function(*arguments)

    return run


def use_cache(folder: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Keeps compiled programs on disk, so that the next process finds them; the command line always does.

    Call it before anything is compiled: JAX decides once whether it has a cache. It changes two settings of JAX for all
    compilations of this process: `jax_compilation_cache_dir`, and the least compile time of a program that is kept
    (0.05 s).

    Args:
        folder: the folder; default that of the command line, `compiled` in the user's cache folder.

    Returns:
        The folder, which exists now; its path is absolute, so that the process may change its working folder later.

    Raises:
        InputError: the folder cannot be created.

    Examples:
        >>> folder = mj.use_cache("programs")
        >>> folder.is_dir()
        True
    """
    path = cache_folder("compiled") if folder is None else pathlib.Path(folder).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the folder cannot be made ({error.strerror})", file=path, remedy="name another one"
        ) from None
    jax.config.update("jax_compilation_cache_dir", str(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    kept_programs.keep_in(path / "traced")
    return path


class Machinery(TypedDict):
    """Versions of the packages that decide the numbers of a program, by name, and the kind of the first device."""

    versions: dict[str, str]
    device: str


def machinery() -> Machinery:
    """The versions and the device that decide the numbers of a program, for the record of a search."""
    packages = {"mohamjax": __version__, "jax": jax.__version__, "numpy": np.__version__}
    return {
        "versions": {**packages, "python": platform.python_version()},
        "device": jax.devices()[0].device_kind,
    }
