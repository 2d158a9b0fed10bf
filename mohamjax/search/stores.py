"""Checkpoints of a search, and the protocol of the stores that keep them; `io` has a store in files."""

from __future__ import annotations

import dataclasses
from collections import abc
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError

HISTORY_COLUMNS = ("generation", "evaluations", "seconds", "hypervolume", "front_size", "stability")
"""Columns of a search's history, which has one row per generation."""


ANEW = "start the search again without the argument `resume`"
"""The remedy for a checkpoint that cannot be used."""


def leaves_by_path(tree: Any) -> tuple[dict[str, Any], Any]:
    """Leaves of a pytree by path, and its structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}, structure


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The state of a search as it was kept.

    Attributes:
        source: where it comes from, for error messages.
        meta: the record that was kept with the arrays.
        arrays: the leaves by path; typed keys are kept as their key data.
    """

    source: Any
    meta: abc.Mapping[str, Any]
    arrays: abc.Mapping[str, np.ndarray]

    def refused(self, why: str, remedy: str = ANEW) -> InputError:
        """The error for a checkpoint that a search cannot go on from; `why` completes "the checkpoint is"."""
        return InputError(f"the checkpoint is {why}", file=self.source, remedy=remedy)

    def restore(self, like: Any) -> Any:
        """The arrays as a pytree with the structure of `like`.

        Args:
            like: pytree with the wanted structure, shapes and dtypes (arrays or `jax.ShapeDtypeStruct`).

        Raises:
            InputError: the checkpoint is of another search.
        """
        named, structure = leaves_by_path(like)
        if unknown := sorted(set(self.arrays) - set(named)):
            raise self.refused(f"of another search ({unknown[0]} is unknown)")
        leaves = []
        for name, leaf in named.items():
            wrapped = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            wanted = jax.eval_shape(jax.random.key_data, leaf) if wrapped else leaf
            found = self.arrays.get(name)
            if found is None or (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
                raise self.refused(f"of another search ({name} differs)")
            leaves.append(jax.random.wrap_key_data(jnp.asarray(found)) if wrapped else jnp.asarray(found))
        return jax.tree_util.tree_unflatten(structure, leaves)


class CheckpointStore(Protocol):
    """Keeps the state of one search."""

    def read(self) -> Checkpoint | None:
        """The last state that was kept, or None."""

    def write(self, tree: Any, meta: abc.Mapping[str, Any]) -> None:
        """Keeps a state, which replaces the last one.

        Args:
            tree: pytree of arrays and typed keys.
            meta: a small JSON-able record.
        """
