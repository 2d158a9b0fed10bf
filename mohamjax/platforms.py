"""What is done in one way on a processor and in another on an accelerator, with the same result.

A processor wants small blocks that stay in its cache, and loops that do no more than they must. An accelerator wants
few, wide kernels: each launch costs microseconds, and a loop whose length only the data know makes the host wait in
every round. Where the two differ, both forms are written down and `by_platform` takes one.

The choice falls when a program is lowered, for the platform that it is lowered for. So it needs no device at hand (a
program exported for CUDA on a machine without one is the program that a GPU would run), no state of the process takes
part in it, and no compiled program can hold the wrong form. Both forms are traced; one is compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax import lax

__all__ = ["accelerated", "by_platform", "forced"]

_forced: list[str] = []


def by_platform(*arguments: Any, cpu: Callable[..., Any], wide: Callable[..., Any]) -> Any:
    """What `cpu` returns where a program runs on a processor, and what `wide` returns on anything else.

    Traceable, vmappable.

    Args:
        arguments: pytrees of arrays for both; other arrays may be closed over.
        cpu: the form for processors.
        wide: the form for accelerators; a pytree of the same shapes and dtypes.
    """
    if _forced:
        return (cpu if _forced[-1] == "cpu" else wide)(*arguments)
    return lax.platform_dependent(*arguments, cpu=cpu, default=wide)


def accelerated() -> bool:
    """Whether the host plans for an accelerator: the sizes of batches that it hands to programs depend on it."""
    return _forced[-1] != "cpu" if _forced else jax.default_backend() != "cpu"


@contextlib.contextmanager
def forced(form: str) -> Iterator[None]:
    """Takes one form whatever the platform, for tests and measurements: both forms run on a processor.

    Programs that were traced before or are used after know nothing of it, so JAX's caches are emptied twice. Not for
    several threads.

    Args:
        form: 'cpu' or 'wide'.

    Raises:
        ValueError: another form.
    """
    if form not in ("cpu", "wide"):
        raise ValueError(f"form: expected 'cpu' or 'wide', got {form!r}")
    jax.clear_caches()
    _forced.append(form)
    try:
        yield
    finally:
        _forced.pop()
        jax.clear_caches()
