"""How programs are compiled, those that are kept compiled, and what they run by."""

from __future__ import annotations

import concurrent.futures
import functools
import platform
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mohamjax import __version__

__all__ = ["PROGRAMS", "brief_jit", "lean_jit", "light_jit", "machinery", "once"]

_LIGHT: dict[str, Any] = {"xla_backend_optimization_level": 1}
_LEAN: dict[str, Any] = {**_LIGHT, "xla_cpu_use_fusion_emitters": False}
_BRIEF: dict[str, Any] = {**_LEAN, "xla_backend_optimization_level": 0}

light_jit = functools.partial(jax.jit, compiler_options=_LIGHT)
"""`jax.jit` for programs of many small loops, such as the loop-nest model: LLVM's dearest passes make these no faster,
but take as long again.

For calls from the host alone: JAX refuses a function with options of its own inside another program.
"""

lean_jit = functools.partial(jax.jit, compiler_options=_LEAN)
"""As `light_jit`, and with XLA's older way of writing loops down for a processor: compiled in two thirds of the time,
programs run about a seventh longer."""

brief_jit = functools.partial(jax.jit, compiler_options=_BRIEF)
"""As `lean_jit`, for programs that run a few times: compiled in half the time, they run up to five times as long."""


PROGRAMS: dict[Any, concurrent.futures.Future[Any]] = {}
"""Compiled programs by function, static arguments and shapes, and whatever else is done once a process; what other
threads are about included."""


_ASKING = threading.Lock()


def once(key: Any, make: Callable[[], Any]) -> Any:
    """What `make` gives; called once for a key, by whoever asks first."""
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


def machinery() -> dict[str, Any]:
    """What programs run by, for the record of a search: `versions` of what decides numbers, and `device`."""
    packages = {"mohamjax": __version__, "jax": jax.__version__, "numpy": np.__version__}
    return {
        "versions": {**packages, "python": platform.python_version()},
        "device": jax.devices()[0].device_kind,
    }
