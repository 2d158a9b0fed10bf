"""The disk cache of the layer mapper: one npz file per Pareto set, named by a hash of what the set depends on."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pathlib
import tempfile
import warnings

import jax
import numpy as np

from mohamjax import folders
from mohamjax.errors import InputError
from mohamjax.io.files import read_arrays, write_bytes
from mohamjax.mapping.nest import Mapping
from mohamjax.mapping.tables import MappingTables, assemble
from mohamjax.runtime.code_hash import code_hash, code_unchanged


def cache_folder() -> pathlib.Path:
    """The folder of mapping tables that are kept between runs, see `folders.cache_folder`."""
    return folders.cache_folder("mappings")


_FIELDS = tuple(f.name for f in dataclasses.fields(MappingTables) if f.name != "mapping")


_MAPPING_FIELDS = tuple(f.name for f in dataclasses.fields(Mapping))


def _check(table: MappingTables) -> None:
    """Raises ValueError if the arrays of a set have other shapes or kinds of numbers than those of a table."""
    entries, levels = np.shape(table.block_reads)
    like = assemble({}, 1, 1, entries, levels, np.float32)
    for found, wanted in zip(jax.tree.leaves(table), jax.tree.leaves(like), strict=True):
        if found.shape != wanted.shape[2:] or found.dtype.kind != wanted.dtype.kind:
            raise ValueError(f"it has an array of shape {found.shape} and dtype {found.dtype}")


class MappingCache:
    """A folder of Pareto sets, a `mapper.layer_mapper.TableStore` for `mapper.LayerMapper`.

    A file is named by the hash of a set's inputs and settings and of all our code (`code_hash`).
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self._told = folder, False

    def _path(self, digest: str) -> pathlib.Path:
        return self.folder / f"{hashlib.sha256((digest + code_hash()).encode()).hexdigest()}.npz"

    def read(self, digest: str) -> MappingTables | None:
        """One set `[M, ...]`, or None if there is none or, with a warning, if its file is damaged."""
        path = self._path(digest)
        try:
            data = read_arrays(path)["set"]
            mapping = Mapping(**{name: data[f"mapping.{name}"] for name in _MAPPING_FIELDS})
            table = MappingTables(mapping=mapping, **{name: data[name] for name in _FIELDS})
            _check(table)
            return table
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError) as error:
            warnings.warn(f"{path}: damaged cache entry ({error}); searching again", stacklevel=2)
            return None

    def write(self, digest: str, table: MappingTables) -> None:
        """Writes one set atomically; if it cannot be written, warns once, and the next search only takes longer."""
        arrays = {f"mapping.{name}": getattr(table.mapping, name) for name in _MAPPING_FIELDS}
        arrays |= {name: getattr(table, name) for name in _FIELDS}
        arrays = {name: np.asarray(array) for name, array in arrays.items()}
        # One record holds all sixteen arrays: with a header for each, a search would read thousands of headers.
        record = np.zeros((), [(name, array.dtype, array.shape) for name, array in arrays.items()])
        for name, array in arrays.items():
            record[name] = array
        buffer = io.BytesIO()
        np.savez_compressed(buffer, set=record)
        try:
            write_bytes(self._path(digest), buffer.getvalue())
        except (InputError, OSError) as error:
            if not self._told:
                self._told = True
                warnings.warn(f"some mapping sets are not kept: {error}", stacklevel=2)


def mapping_cache(folder: str | pathlib.Path | None = None) -> MappingCache | None:
    """Opens the cache; None, with a warning, if its folder cannot be written or the code has changed since the start.

    Args:
        folder: the folder, created if absent; default `cache_folder()`.
    """
    if not code_unchanged():
        warnings.warn("mapping sets are not kept: the code has changed since this process began", stacklevel=2)
        return None
    folder = cache_folder() if folder is None else pathlib.Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        warnings.warn(f"mapping sets are not kept: {folder} cannot be written ({error.strerror})", stacklevel=2)
        return None
    return MappingCache(folder)
