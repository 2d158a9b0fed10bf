"""How programs are compiled."""

from __future__ import annotations

import functools

import jax

__all__ = ["light_jit"]

light_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
"""`jax.jit` for programs of many small loops, such as the loop-nest model: LLVM's dearest passes make these no faster,
but take as long again.

For calls from the host alone: JAX refuses a function with options of its own inside another program.
"""
