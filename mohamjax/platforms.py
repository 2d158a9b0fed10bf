"""What is done in one way on a processor and in another on an accelerator, with the same result.

A processor wants small blocks that stay in its cache, and loops that do no more than they must. An accelerator wants
few, wide kernels: each launch costs microseconds, and a loop whose length only the data know makes the host wait in
every round. Where the two differ, both forms are written down and `by_platform` takes one.

Where the process has an accelerator, both forms are traced, and the choice falls when a program is lowered, for the
platform that it is lowered for: so the processor beside a GPU still has its own form. Where there is none, only the
processor's form is traced, but where `both` is asked for. `traced("both")` says otherwise, for those who export
programs or compile them for a device that is not there.

Of the timeline there is a kernel for NVIDIA GPUs as well. It is taken where the variable `MOHAMJAX_KERNELS` of the
environment is anything but 0, or `use_kernels(True)` was called: it has not run on a GPU yet.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["FULL", "accelerated", "as_usual", "by_platform", "product", "short_scan", "traced", "use_kernels"]

_UNROLL = 8  # steps that an accelerator takes as one; more hardly save kernels and take long to compile

FULL = lax.Precision.HIGHEST
"""Of every product of matrices: of numbers in single precision, NVIDIA GPUs from compute capability 8.0 on read ten
bits unless they are told, and energies would be off by a thousandth."""

_FORMS = ("cpu", "wide", "both")
_traced: list[str] = []
_kernels = os.environ.get("MOHAMJAX_KERNELS", "0") not in ("", "0")


def use_kernels(on: bool) -> None:
    """Whether programs that are traced from now on take kernels on NVIDIA GPUs, where there are any; empties caches.

    They need a compute capability of 8.0 or more.

    Until it is called, `MOHAMJAX_KERNELS` decides, as it is when the package is imported.

    Args:
        on: they do.
    """
    global _kernels
    if on != _kernels:
        _kernels = on
        jax.clear_caches()


def by_platform(
    *arguments: Any,
    cpu: Callable[..., Any],
    wide: Callable[..., Any],
    kernel: Callable[..., Any] | None = None,
    both: bool = False,
) -> Any:
    """What `cpu` returns where a program runs on a processor, and what `wide` returns on anything else.

    Traceable, vmappable.

    Args:
        arguments: pytrees of arrays for both; other arrays may be closed over.
        cpu: the form for processors.
        wide: the form for accelerators; a pytree of the same shapes and dtypes.
        kernel: one for NVIDIA GPUs in its place, where kernels are used (`use_kernels`); likewise.
        both: static; both forms are traced even where there is no accelerator. The choice between them is then part
            of the program, at which the compiler begins new loops: what is compared bit by bit between versions of a
            program needs the same.
    """
    form = "both" if both and not _traced else _form()
    if form == "both":
        forms = {"cpu": cpu, "cuda": kernel} if kernel is not None and _kernels else {"cpu": cpu}
        return lax.platform_dependent(*arguments, **forms, default=wide)
    return (cpu if form == "cpu" else wide)(*arguments)


def _form() -> str:
    """What is traced: 'cpu', 'wide' or 'both'."""
    if _traced:
        return _traced[-1]
    return "cpu" if jax.default_backend() == "cpu" else "both"


def short_scan(
    step: Callable[..., Any], start: Any, xs: Any, *, length: int | None = None, reverse: bool = False
) -> Any:
    """`jax.lax.scan` of steps so small that an accelerator would spend its time on starting them: there, unrolled.

    Args:
        step: as in `jax.lax.scan`.
        start: likewise.
        xs: likewise.
        length: likewise.
        reverse: likewise.
    """

    def scan(start: Any, xs: Any, unroll: int) -> Any:
        return lax.scan(step, start, xs, length=length, reverse=reverse, unroll=unroll)

    cpu, wide = (functools.partial(scan, unroll=unroll) for unroll in (1, _UNROLL))
    return by_platform(start, xs, cpu=cpu, wide=wide)


def product(one: Any, other: Any) -> jax.Array:
    """`one @ other` in the precision of its operands on every platform."""
    return jnp.matmul(one, other, precision=FULL)


def accelerated() -> bool:
    """Whether the host plans for an accelerator: the sizes of batches that it hands to programs depend on it."""
    return _form() != "cpu"


def as_usual() -> bool:
    """Whether programs are traced as the platform has them, and not as `traced` says."""
    return not _traced


@contextlib.contextmanager
def traced(form: str) -> Iterator[None]:
    """What is traced in this process, for tests, exports and measurements: both forms run on a processor.

    Programs traced before or after know nothing of it, so JAX's caches are emptied twice. Not for several threads.

    Args:
        form: 'cpu' or 'wide' whatever the platform, or 'both', of which the platform that a program is lowered for
            takes one.

    Raises:
        ValueError: another form.
    """
    if form not in _FORMS:
        raise ValueError(f"form: expected one of {', '.join(_FORMS)}, got {form!r}")
    jax.clear_caches()
    _traced.append(form)
    try:
        yield
    finally:
        _traced.pop()
        jax.clear_caches()
