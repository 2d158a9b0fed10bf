"""Computations that have one form for a processor and another for an accelerator, with the same result.

A processor wants small blocks that stay in its cache, and loops that do no more than they must. An accelerator wants
few, wide kernels: each launch costs microseconds, and a loop whose length only the data know makes the host wait in
every round. Where the two differ, both forms are written down and `by_platform` takes one.

One form is traced, that of JAX's default device: two would take the host twice as long, and a program waits for that
before it is compiled. A program for the processor in a process that has a GPU takes the GPU's form, too, unless it is
traced under `jax.default_device(jax.devices("cpu")[0])`. `both`, or `traced("both")`, has both traced, and the platform
that a program is lowered for decides: for those who export programs or compile them for a device that is not there.

Of the timeline there is a kernel for NVIDIA GPUs as well, which is taken where the process has one that can run it.
The variable `MOHAMJAX_KERNELS` of the environment, or `use_kernels`, says otherwise: 0 for never, 1 for all programs
that are lowered for such GPUs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mohamjax.errors import InputError

Result = TypeVar("Result")
Carry = TypeVar("Carry")
Step = TypeVar("Step")
Stacked = TypeVar("Stacked")

Options = dict[str, Any]
"""Options of XLA's compiler by name: truth values, whole numbers and text. JAX types them in two ways."""

_UNROLL = 8  # steps that an accelerator takes as one; more hardly save kernels and take long to compile

FULL = lax.Precision.HIGHEST
"""Of every product of matrices: of numbers in single precision, NVIDIA GPUs from compute capability 8.0 on read ten
bits unless they are told (an H100, 64 products to a sum: off by 2e-4)."""

_GPU: Options = {"xla_gpu_autotune_level": 0, "xla_disable_hlo_passes": "fusion-block-level-rewriter"}
_FORMS = ("cpu", "wide", "both")
_traced: list[str] = []
_CAPABILITY = 8.0  # that kernels need


def _said(variable: str) -> bool | None:
    """What a variable of the environment says: 0 or 1, None where it is not set."""
    text = os.environ.get(variable, "").strip()
    if text not in ("", "0", "1"):
        raise InputError(f"is {text!r}", item=f"environment variable {variable}", remedy="use 0 or 1, or leave it out")
    return None if not text else text == "1"


_kernels = _said("MOHAMJAX_KERNELS")


def use_kernels(on: bool | None) -> None:
    """Whether programs that are traced from now on take kernels on NVIDIA GPUs; empties caches.

    Until it is called, `MOHAMJAX_KERNELS` decides, as it is when the package is imported: 0 for no, 1 for yes; None
    where it is not set.

    Args:
        on: they do, wherever the program is lowered for; None where the GPUs of this process have a compute capability
            of 8.0 or more and JAX has the compiler for kernels.
    """
    global _kernels
    if on != _kernels:
        _kernels = on
        jax.clear_caches()


def by_platform(
    *arguments: object,
    cpu: Callable[..., Result],
    wide: Callable[..., Result],
    kernel: Callable[..., Result] | None = None,
    both: bool = False,
) -> Result:
    """What `cpu` returns where a program runs on a processor, and what `wide` returns on anything else.

    Traceable, vmappable.

    Args:
        arguments: pytrees of arrays for both; other arrays may be closed over.
        cpu: the form for processors.
        wide: the form for accelerators; a pytree of the same shapes and dtypes.
        kernel: the form for NVIDIA GPUs where kernels are taken (`use_kernels`); of the same shapes and dtypes.
        both: static; both forms are traced. The choice between them is then part of the program, at which the compiler
            begins new loops: what is compared bit by bit between versions of a program needs the same.
    """
    form = "both" if both and not _traced else _form()
    if form == "cpu":
        return cpu(*arguments)
    forms = {"cpu": cpu} if form == "both" else {}
    if kernel is not None and with_kernels():
        forms["cuda"] = kernel  # still not what the processor beside the GPU can run
    return lax.platform_dependent(*arguments, **forms, default=wide) if forms else wide(*arguments)


def with_kernels() -> bool:
    """Whether programs that are traced now take kernels on NVIDIA GPUs."""
    return can_run_kernels() if _kernels is None else _kernels


@functools.cache
def can_run_kernels() -> bool:
    """Whether the GPUs of this process run kernels, and JAX still has what compiles them, which it means to give up."""
    capabilities = [str(getattr(device, "compute_capability", "")) for device in jax.local_devices()]
    if not capabilities or not all(re.fullmatch(r"\d+\.\d+", capability) for capability in capabilities):
        return False  # processors have none, other GPUs no numbers
    if min(map(float, capabilities)) < _CAPABILITY:
        return False
    try:
        importlib.import_module("jax.experimental.pallas.triton")
    except ImportError:
        return False
    return True


def _form() -> str:
    """What is traced: 'cpu', 'wide' or 'both'."""
    return _traced[-1] if _traced else "cpu" if _platform() == "cpu" else "wide"


def _platform() -> str:
    """Of JAX's default device, in this thread."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def compiler_options() -> Options:
    """What programs of ours are compiled with on this platform, beside options of their own.

    XLA tries several forms of the larger reductions on an NVIDIA GPU, each compiled by Triton: most of the time until a
    search begins, for what the programs of a search do not gain (`experiments/results/gpu.md`).
    """
    return dict(_GPU) if _platform() in ("gpu", "cuda") else {}


def short_scan(
    step: Callable[[Carry, Step], tuple[Carry, Stacked]],
    start: Carry,
    xs: Step,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Carry, Stacked]:
    """`jax.lax.scan` of steps so small that an accelerator would spend its time on starting them: there, unrolled.

    Args:
        step: from the carry and a row of `xs` to the next carry and a row of the result.
        start: the first carry.
        xs: pytree with a leading axis of steps, or None.
        length: static, number of steps where `xs` does not tell.
        reverse: static, from the last row to the first.
    """

    def scan(start: Carry, xs: Step, unroll: int) -> tuple[Carry, Stacked]:
        return lax.scan(step, start, xs, length=length, reverse=reverse, unroll=unroll)

    cpu, wide = (functools.partial(scan, unroll=unroll) for unroll in (1, _UNROLL))
    return by_platform(start, xs, cpu=cpu, wide=wide)


def product(one: jax.Array | np.ndarray, other: jax.Array | np.ndarray) -> jax.Array:
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
        form: 'cpu' or 'wide' on every platform, or 'both', of which the platform that a program is lowered for takes
            one.

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
