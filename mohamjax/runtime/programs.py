"""How programs are compiled, which of them are kept on disk, and by which versions they run."""

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
from mohamjax.runtime import kept_programs as exported
from mohamjax.runtime.platforms import Options
from mohamjax.version import __version__

T = TypeVar("T")

_LIGHT: Options = {"xla_backend_optimization_level": 1}
_LEAN: Options = {**_LIGHT, "xla_cpu_use_fusion_emitters": False}
_BRIEF: Options = {**_LEAN, "xla_backend_optimization_level": 0}

light_jit = functools.partial(exported.exported_jit, compiler_options=_LIGHT)
"""`exported_jit` for programs of many small loops, such as the loop-nest model: LLVM's dearest passes make these no
faster, but take as long again.

For calls from the host alone: JAX refuses a function with options of its own inside another program.
"""

lean_jit = functools.partial(exported.exported_jit, compiler_options=_LEAN)
"""As `light_jit`, and with XLA's older way of writing loops down for a processor, where it still has it: compiled in
two fifths to two thirds of the time, programs run a seventh to two thirds longer."""

brief_jit = functools.partial(exported.exported_jit, compiler_options=_BRIEF)
"""As `lean_jit`, for programs that run a few times: compiled in half the time, they run up to five times as long."""


PROGRAMS: dict[Hashable, concurrent.futures.Future[Any]] = {}
"""What is done once a process, compiled programs above all: by function, static arguments and shapes. What another
thread is doing is there as well."""


_ASKING = threading.Lock()


def once(key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives; called once for a key, by the first thread that asks."""
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


def use_cache(folder: str | os.PathLike[str] | None = None) -> pathlib.Path:
    """Keeps compiled programs on disk, so that the next process finds them; the command line always does.

    Call it before anything is compiled: JAX decides once whether it has a cache. It sets two settings of JAX, for all
    that this process compiles: `jax_compilation_cache_dir`, and that what took a twentieth of a second is kept.

    Args:
        folder: where; default the folder of the command line, `compiled` in the user's cache folder.

    Returns:
        The folder, which is there; its path is absolute, so that the process may work in another folder later.

    Raises:
        InputError: the folder cannot be made.

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
    exported.keep_in(path / "traced")
    return path


class Machinery(TypedDict):
    """Versions of the packages that decide numbers, by name, and the kind of the first device."""

    versions: dict[str, str]
    device: str


def machinery() -> Machinery:
    """The versions and the device that decide the numbers of a program, for the record of a search."""
    packages = {"mohamjax": __version__, "jax": jax.__version__, "numpy": np.__version__}
    return {
        "versions": {**packages, "python": platform.python_version()},
        "device": jax.devices()[0].device_kind,
    }
