"""Computations that have one form for a CPU and another for an accelerator, with the same result.

A CPU needs small blocks that stay in its cache, and loops that do no more than they must. An accelerator needs few,
wide kernels: each launch costs microseconds, and a loop whose length depends on the data makes the host wait in every
round. Where the two differ, both forms exist and `by_platform` chooses one.

Only one form is traced, that of JAX's default device: tracing two would take twice as long before the program can be
compiled. So a program for the CPU in a process that has a GPU takes the GPU's form, unless it is traced under
`jax.default_device(jax.devices("cpu")[0])`. With `both`, or `traced("both")`, both forms are traced, and the platform
that a program is lowered for decides: for exporting programs, or compiling them for a device that is not present.

The timeline also has a kernel for NVIDIA GPUs, which is used if the process has a GPU that can run it. The environment
variable `MOHAMJAX_KERNELS`, or `use_kernels`, overrides this: 0 for never, 1 for all programs lowered for such GPUs.
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

_UNROLL = 8  # steps unrolled into one on an accelerator; more hardly save kernels and take long to compile

FULL = lax.Precision.HIGHEST
"""Precision of every matrix product: by default, NVIDIA GPUs from compute capability 8.0 on read only ten bits of
numbers in single precision (error on an H100 with 64 products per sum: 2e-4)."""

_GPU: Options = {"xla_gpu_autotune_level": 0, "xla_disable_hlo_passes": "fusion-block-level-rewriter"}
_FORMS = ("cpu", "wide", "both")
_traced: list[str] = []
_CAPABILITY = 8.0  # least compute capability for kernels


def _said(variable: str) -> bool | None:
    """Value of an environment variable that is 0 or 1; None if it is not set."""
    text = os.environ.get(variable, "").strip()
    if text not in ("", "0", "1"):
        raise InputError(f"is {text!r}", item=f"environment variable {variable}", remedy="use 0 or 1, or leave it out")
    return None if not text else text == "1"


_kernels = _said("MOHAMJAX_KERNELS")


def use_kernels(on: bool | None) -> None:
    """Sets whether programs traced from now on use kernels on NVIDIA GPUs; empties JAX's caches.

    Until it is called, the value of `MOHAMJAX_KERNELS` at import decides: 0 for False, 1 for True; None if it is unset.

    Args:
        on: True uses kernels in every program, on NVIDIA GPUs that it is lowered for; False never. None uses them if
            the GPUs of this process have a compute capability of 8.0 or more and JAX has the compiler for kernels.
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
    """The result of `cpu` in a program for a CPU, and that of `wide` for any other platform.

    Traceable, vmappable.

    Args:
        arguments: pytrees of arrays for both forms; other arrays may be closed over.
        cpu: the form for CPUs.
        wide: the form for accelerators; it returns a pytree of the same shapes and dtypes.
        kernel: the form for NVIDIA GPUs if kernels are used (`use_kernels`); returns the same shapes and dtypes.
        both: static; trace both forms. The choice between them is then part of the program, and the compiler begins new
            loops there: versions of a program to be compared bit by bit must agree in this.
    """
    form = "both" if both and not _traced else _form()
    if form == "cpu":
        return cpu(*arguments)
    forms = {"cpu": cpu} if form == "both" else {}
    if kernel is not None and with_kernels():
        forms["cuda"] = kernel  # a CPU beside the GPU still cannot run the kernel
    return lax.platform_dependent(*arguments, **forms, default=wide) if forms else wide(*arguments)


def with_kernels() -> bool:
    """Whether programs traced now use kernels on NVIDIA GPUs."""
    return can_run_kernels() if _kernels is None else _kernels


@functools.cache
def can_run_kernels() -> bool:
    """Whether the GPUs of this process can run kernels and JAX still has their compiler, which it plans to remove."""
    capabilities = [str(getattr(device, "compute_capability", "")) for device in jax.local_devices()]
    if not capabilities or not all(re.fullmatch(r"\d+\.\d+", capability) for capability in capabilities):
        return False  # CPUs have no compute capability, and that of other GPUs is not a number
    if min(map(float, capabilities)) < _CAPABILITY:
        return False
    try:
        importlib.import_module("jax.experimental.pallas.triton")
    except ImportError:
        return False
    return True


def _form() -> str:
    """The form that is traced: 'cpu', 'wide' or 'both'."""
    return _traced[-1] if _traced else "cpu" if _platform() == "cpu" else "wide"


def _platform() -> str:
    """Platform of JAX's default device in this thread."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def compiler_options() -> Options:
    """Options that all programs of this package are compiled with on this platform, beside options of their own.

    On an NVIDIA GPU they turn off XLA's trials of several forms of the larger reductions, each compiled by Triton. The
    trials take most of the time until a search begins and make it no faster (`experiments/results/gpu.md`).
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
    """`jax.lax.scan` for very small steps; unrolled on an accelerator, which would spend its time on launching them.

    Args:
        step: from the carry and a row of `xs` to the next carry and a row of the result.
        start: the first carry.
        xs: pytree with a leading axis of steps, or None.
        length: static, number of steps; needed if `xs` is None.
        reverse: static, whether steps go from the last row to the first.
    """

    def scan(start: Carry, xs: Step, unroll: int) -> tuple[Carry, Stacked]:
        return lax.scan(step, start, xs, length=length, reverse=reverse, unroll=unroll)

    cpu, wide = (functools.partial(scan, unroll=unroll) for unroll in (1, _UNROLL))
    return by_platform(start, xs, cpu=cpu, wide=wide)


def product(one: jax.Array | np.ndarray, other: jax.Array | np.ndarray) -> jax.Array:
    """`one @ other` in the precision of its operands on every platform."""
    return jnp.matmul(one, other, precision=FULL)


def accelerated() -> bool:
    """Whether the host plans for an accelerator, which decides the sizes of the batches that it passes to programs."""
    return _form() != "cpu"


def as_usual() -> bool:
    """Whether the platform, and not `traced`, decides which form programs take."""
    return not _traced


@contextlib.contextmanager
def traced(form: str) -> Iterator[None]:
    """Sets the form that this process traces, for tests, exports and measurements; both forms run on a CPU.

    JAX's caches are emptied on entry and exit, because they do not distinguish programs by form. Not thread-safe.

    Args:
        form: 'cpu' or 'wide' for every platform, or 'both', of which the platform that a program is lowered for takes
            one.

    Raises:
        ValueError: the form is unknown.
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
