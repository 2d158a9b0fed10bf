"""Checkpoints: a pytree of arrays in one npz file, written atomically and read back into the same structure."""

from __future__ import annotations

import io
import json
import pathlib
from collections import abc
from typing import Any

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.files import parse_json, read_arrays, write_bytes
from mohamjax.search.stores import Checkpoint, is_key, leaves_by_path

__all__ = ["CHECKPOINT_FORMAT", "CheckpointFile", "read_checkpoint", "write_checkpoint"]

CHECKPOINT_FORMAT = "checkpoint/2"

_REMEDY = "start the search again without --resume"


def write_checkpoint(path: str | pathlib.Path, tree: Any, meta: abc.Mapping[str, Any]) -> None:
    """Writes arrays and a small JSON-able record; a reader never sees half a file.

    Args:
        path: the npz file.
        tree: pytree of arrays and typed keys.
        meta: what else is needed to go on, e.g. the history and a fingerprint of the problem.
    """
    named, _ = leaves_by_path(tree)
    arrays: dict[str, Any] = {
        name: np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for name, leaf in named.items()
    }
    buffer = io.BytesIO()
    record = json.dumps({"format": CHECKPOINT_FORMAT, **meta})
    arrays["meta"] = np.asarray(record)
    np.savez(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


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


class CheckpointFile:
    """The checkpoint of one search in a file, as `search.co_optimise` takes it (`search.stores.CheckpointStore`)."""

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path = pathlib.Path(path)

    def read(self) -> Checkpoint | None:
        """What the file holds, None where there is none; otherwise as `read_checkpoint`."""
        return read_checkpoint(self.path) if self.path.exists() else None

    def write(self, tree: Any, meta: abc.Mapping[str, Any]) -> None:
        """Writes the file, as `write_checkpoint`."""
        write_checkpoint(self.path, tree, meta)
