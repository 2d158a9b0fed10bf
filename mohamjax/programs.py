"""How programs are compiled."""

from __future__ import annotations

import functools

import jax

__all__ = ["light_jit"]

light_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})
"""`jax.jit` for the loop-nest model: LLVM's dearest passes make its many small loops no faster, but take as long again.

Whoever calls such a function inside another program gets the other's options.
"""
