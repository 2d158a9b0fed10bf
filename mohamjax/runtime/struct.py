"""Pytrees of rows: indexing and stacking of designs and of all else that has a leading axis.

`take(tree, i)` and `stack(trees)` work on any pytree. A class that derives from `Rows` is indexed like an array along
its leading axis: `designs[3]`, `designs[:5]`, `len(designs)`, `for design in designs`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections import abc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import core as jax_core

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from jax.typing import DTypeLike

T = TypeVar("T")

Index = int | slice | np.integer | np.ndarray | jax.Array | Sequence[int] | tuple[object, ...]
"""Index of rows along the leading axis: an integer, a slice, integers or bools; or a tuple for several axes."""

_FEW = 16  # most numbers of an array that are written out


def brief(value: DataclassInstance) -> str:
    """A dataclass in one line: long arrays by dtype and shape, collections by length, nested dataclasses by name."""
    shown = (f"{f.name}={_glance(getattr(value, f.name))}" for f in dataclasses.fields(value) if f.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"


def _glance(value: object) -> str:
    """A short text for the value of a field."""
    if isinstance(value, np.ndarray | jax.Array):
        if value.size > _FEW or not _readable(value):
            return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
        return np.array2string(np.asarray(value), separator=", ", max_line_width=1000).replace("\n", "")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__qualname__}(...)"
    if isinstance(value, abc.Sized) and not isinstance(value, str | bytes):
        text = repr(value) if all(isinstance(entry, _PLAIN) for entry in _entries(value)) else ""
        return text if 0 < len(text) <= 80 else f"{len(value)} {_kind_of(value)}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}...{text[-10:]}"


def _readable(value: np.ndarray | jax.Array) -> bool:
    """Whether the numbers of an array can be read: not if it is traced, deleted, on other processes, or holds keys."""
    if isinstance(value, np.ndarray):
        return True
    there = not isinstance(value, jax_core.Tracer) and not value.is_deleted() and value.is_fully_addressable
    return there and not jnp.issubdtype(value.dtype, jax.dtypes.extended)


_PLAIN = (str, int, float, bool, type(None))


def _entries(value: object) -> list[object]:
    """Entries of a collection; of a mapping keys and values."""
    if isinstance(value, abc.Mapping):
        return [*value.keys(), *value.values()]
    return list(value) if isinstance(value, tuple | list | set | frozenset) else [value]


def _kind_of(value: object) -> str:
    """Type of the entries of a list or tuple, such as `x Template`; its own type if the entries have several."""
    kinds = {type(entry).__name__ for entry in value} if isinstance(value, tuple | list) else set()
    return f"x {kinds.pop()}" if len(kinds) == 1 else f"entries of a {type(value).__name__}"


def shown_briefly(cls: type[T]) -> type[T]:
    """Gives a dataclass `brief` as its `repr`, so that printing it stays short."""
    cls.__repr__ = brief  # pyright: ignore[reportAttributeAccessIssue] -- for dataclasses only
    return cls


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass that is a pytree; its children are its fields sorted by name.

    Its `repr` is `brief`. Its instances have `replace(field=value, ...)`, which is `dataclasses.replace`.
    """
    made = shown_briefly(dataclasses.dataclass(frozen=True)(cls))
    type.__setattr__(made, "replace", dataclasses.replace)
    fields = dataclasses.fields(made)  # pyright: ignore[reportArgumentType] -- it has just been made a dataclass
    return jax.tree_util.register_dataclass(made, sorted(field.name for field in fields), ())


def take(tree: T, index: Index) -> T:
    """Rows of a pytree: every leaf indexed along its leading axis.

    Args:
        tree: pytree of arrays with a common leading axis.
        index: integer, slice, or array of integers or bools.

    Examples:
        >>> take({"a": jnp.arange(4), "b": jnp.eye(4)}, 2)["a"]
        Array(2, dtype=int32)
    """
    return jax.tree.map(lambda leaf: leaf[index], tree)


def select(condition: jax.Array | np.ndarray, yes: T, no: T) -> T:
    """Leaves of `yes` where the condition holds, and those of `no` elsewhere.

    Args:
        condition: bools along the leading axes of all leaves; `[]` takes one of the two trees as a whole.
        yes: pytree of arrays.
        no: pytree of the same structure, shapes and dtypes.
    """

    def one(chosen: jax.Array, other: jax.Array) -> jax.Array:
        more = chosen.ndim - condition.ndim if condition.ndim else 0
        return jnp.where(condition.reshape(*condition.shape, *[1] * more) if more else condition, chosen, other)

    return jax.tree.map(one, yes, no)


def put(values: npt.ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Values of the host as a JAX array, without compiling a program per shape as `jnp.asarray` would."""
    return jax.device_put(np.asarray(values, dtype))


def is_traced(tree: object) -> bool:
    """Whether a leaf of a pytree is traced, so that its values are only known when a program runs."""
    return any(isinstance(leaf, jax_core.Tracer) for leaf in jax.tree.leaves(tree))


def tracing() -> bool:
    """Whether a program is being traced, so that also what is made of constants is traced."""
    return is_traced(jnp.zeros(()))


def with_values() -> contextlib.AbstractContextManager:
    """A context in which JAX computes at once, also while a program is being traced; elsewhere it changes nothing.

    What the host computes and keeps must have values: a tracer that outlives its program is of no use.
    """
    return jax.ensure_compile_time_eval() if tracing() else contextlib.nullcontext()


def cast(tree: T, dtype: DTypeLike) -> T:
    """A pytree as JAX arrays with floats in this dtype, such as a `Technology` in the precision of an evaluation."""

    def one(leaf: npt.ArrayLike) -> jax.Array:
        floating = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        if isinstance(leaf, np.ndarray | np.generic):
            return put(leaf, dtype if floating else None)
        return jnp.asarray(leaf, dtype if floating else None)

    return jax.tree.map(one, tree)


def stack(trees: Sequence[T]) -> T:
    """Pytrees of equal structure and shapes as one with a new leading axis: designs, or spaces to `vmap` over.

    Args:
        trees: at least one.

    Examples:
        >>> stack([{"a": jnp.int32(1)}, {"a": jnp.int32(2)}])["a"]
        Array([1, 2], dtype=int32)
    """
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


class Rows:
    """Indexing along the leading axis, for frozen dataclasses that are pytrees of arrays.

    `_axes` is the number of axes of the first field of a single row. With more axes there is a leading axis; otherwise
    there is none, and no length.
    """

    _axes: int = 1

    def _first(self) -> jax.Array | np.ndarray:
        return jax.tree.leaves(self)[0]

    def __len__(self) -> int:
        """Number of rows along the leading axis; TypeError if there is no leading axis."""
        shape = np.shape(self._first())
        if len(shape) <= self._axes:
            raise TypeError(f"a single {type(self).__name__} has no length: there is no leading axis")
        return shape[0]

    def __getitem__(self, index: Index) -> Self:
        """The row at an integer, or the rows of a slice or an array of indices."""
        count = len(self)
        # JAX clamps integers out of range, and so would return a wrong row.
        if isinstance(index, int | np.integer) and not -count <= index < count:
            raise IndexError(f"index {index} is out of range for {count} rows")
        return take(self, index)

    def __iter__(self) -> Iterator[Self]:
        """Iterates over the rows."""
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        """Always true; use `len` to ask whether there are no rows."""
        return True


def plain(value: object) -> Any:
    """Dataclasses, arrays and tuples as plain data for YAML and JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, abc.Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic | np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    if isinstance(value, os.PathLike | str):
        return str(value)
    return value
