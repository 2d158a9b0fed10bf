"""Checkpoints: a pytree of arrays in one npz file, written atomically and read back into the same structure."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import warnings
import zipfile
from collections import abc
from collections.abc import Callable

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.files import parse_json, read_arrays, version_of, write_bytes
from mohamjax.runtime.devices import is_key
from mohamjax.search.resumed import ANEW, Checkpoint, leaves_by_path

CHECKPOINT_FORMAT = "checkpoint/3"

_LEVEL = 3
"""Compression level of zlib: mappings are mostly factors of 1, which a low level already compresses well."""


def _digest(arrays: abc.Mapping[str, np.ndarray]) -> np.ndarray:
    """SHA-256 of arrays by name, `[32]` uint8, by which damage and edits are detected."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode() + np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def write_checkpoint(path: str | pathlib.Path, tree: object, meta: abc.Mapping[str, object]) -> None:
    """Writes arrays and a small JSON-able record atomically.

    Args:
        path: the npz file.
        tree: pytree of arrays and typed keys.
        meta: other data needed to resume, such as the history and a fingerprint of the problem.
    """
    named, _ = leaves_by_path(tree)
    arrays = {name: np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf) for name, leaf in named.items()}
    buffer = io.BytesIO()
    record = json.dumps({"format": CHECKPOINT_FORMAT, **meta})
    arrays["meta"] = np.frombuffer(record.encode(), np.uint8)
    arrays["digest"] = _digest(arrays)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def read_checkpoint(path: str | pathlib.Path) -> Checkpoint:
    """Reads a file that `write_checkpoint` wrote.

    Raises:
        InputError: the file is missing, damaged or changed, or of another version.
    """
    try:
        arrays = read_arrays(path)
        digest = arrays.pop("digest", None)
        known = digest is not None and np.array_equal(digest, _digest(arrays))
        if "meta" not in arrays:
            raise ValueError("it has no record `meta`")
        meta = parse_json(arrays.pop("meta").tobytes().decode(), path)
    except FileNotFoundError:
        raise InputError("there is no checkpoint", file=path, remedy=ANEW) from None
    except InputError as error:
        told = f"the checkpoint cannot be read (its record {error.message})"
        raise InputError(told, file=path, remedy=ANEW) from None
    except ValueError as error:
        raise InputError(f"the checkpoint cannot be read ({error})", file=path, remedy=ANEW) from None
    if not isinstance(meta, dict) or meta.get("format") != CHECKPOINT_FORMAT:
        raise InputError("is no checkpoint of this version", file=path, remedy=ANEW)
    if not known:
        raise InputError("the checkpoint was changed after it was written", file=path, remedy=ANEW)
    return Checkpoint(path, meta, arrays)


class CheckpointFile:
    """The checkpoint of one search in a file, a `search.resumed.CheckpointStore` for `search.Search`.

    If a checkpoint cannot be written (the disk is full, say), that is reported, and the search goes on without it.
    """

    def __init__(self, path: str | pathlib.Path, warn: Callable[[str], None] = warnings.warn) -> None:
        """Sets the file, without reading it.

        Args:
            path: the file, which need not exist yet.
            warn: called with the reason when a checkpoint cannot be written; only once until one can be written again.
        """
        self.path = pathlib.Path(path)
        self._warn, self._failing = warn, False
        self._before, self._read = version_of(self.path), False

    @property
    def kept(self) -> bool:
        """Whether the file holds a state of this search, and not of an earlier one in the same folder."""
        now = version_of(self.path)
        return now is not None and (self._read or now != self._before)

    def read(self) -> Checkpoint | None:
        """The checkpoint in the file, or None if there is no file; errors as `read_checkpoint`."""
        if not self.path.exists():
            return None
        found = read_checkpoint(self.path)
        self._read = True
        return found

    def write(self, tree: object, meta: abc.Mapping[str, object]) -> None:
        """Writes the file as `write_checkpoint` does; if that fails, the last version stays."""
        try:
            write_checkpoint(self.path, tree, meta)
        except (InputError, OSError) as error:
            if not self._failing:
                left = "the checkpoint of an earlier generation stays" if self.kept else "there is none yet"
                self._warn(f"{getattr(error, 'message', error)}: {self.path}; {left}, and the search goes on")
            self._failing = True
        else:
            self._failing = False
