"""Checkpoints: a pytree of arrays in one npz file, written atomically and read back into the same structure."""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.files import parse_json, read_arrays, write_bytes

__all__ = ["CHECKPOINT_FORMAT", "Checkpoint", "read_checkpoint", "write_checkpoint"]

CHECKPOINT_FORMAT = "checkpoint/3"

_REMEDY = "start the search again without --resume"


def _named(tree: Any) -> tuple[dict[str, Any], Any]:
    """Leaves by path (keys as their data), and the structure."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}, structure


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def write_checkpoint(path: str | pathlib.Path, tree: Any, meta: Mapping[str, Any]) -> None:
    """Writes arrays and a small JSON-able record; a reader never sees half a file.

    Args:
        path: the npz file.
        tree: pytree of arrays and typed keys.
        meta: what else is needed to go on, e.g. the history and a fingerprint of the problem.
    """
    named, _ = _named(tree)
    arrays: dict[str, Any] = {
        name: np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for name, leaf in named.items()
    }
    buffer = io.BytesIO()
    record = json.dumps({"format": CHECKPOINT_FORMAT, **meta})
    arrays["meta"] = np.asarray(record)
    np.savez(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds.

    Attributes:
        path: the file.
        meta: the record that was written with the arrays.
        arrays: the leaves by path.
    """

    path: str | pathlib.Path
    meta: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def restore(self, like: Any) -> Any:
        """The tree, in the structure of `like`.

        Args:
            like: pytree with the wanted structure, shapes and dtypes (arrays or `jax.ShapeDtypeStruct`).

        Raises:
            InputError: the file is of another search.
        """
        named, structure = _named(like)
        leaves = []
        for name, leaf in named.items():
            wrapped = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            shape = jax.eval_shape(jax.random.key_data, leaf).shape if wrapped else leaf.shape
            if name not in self.arrays or self.arrays[name].shape != shape:
                told = f"the checkpoint is of another search ({name} differs)"
                raise InputError(told, file=self.path, remedy=_REMEDY)
            value = jnp.asarray(self.arrays[name])
            leaves.append(jax.random.wrap_key_data(value) if wrapped else value.astype(leaf.dtype))
        return jax.tree_util.tree_unflatten(structure, leaves)


def read_checkpoint(path: str | pathlib.Path) -> Checkpoint:
    """Reads a file of `write_checkpoint`.

    Raises:
        InputError: missing or damaged.
    """
    try:
        arrays = read_arrays(path)
        meta = parse_json(str(arrays.pop("meta")), path)
    except FileNotFoundError:
        raise InputError("there is no checkpoint", file=path, remedy=_REMEDY) from None
    except InputError as error:
        told = f"the checkpoint cannot be read (its record {error.message})"
        raise InputError(told, file=path, remedy=_REMEDY) from None
    except (ValueError, KeyError) as error:
        raise InputError(f"the checkpoint cannot be read ({error})", file=path, remedy=_REMEDY) from None
    if not isinstance(meta, dict) or meta.get("format") != CHECKPOINT_FORMAT:
        raise InputError("is no checkpoint of this version", file=path, remedy=_REMEDY)
    return Checkpoint(path, meta, arrays)
