"""Memory-maps the arrays of npz files, each from its place in the file."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import struct
import zipfile
from collections import abc
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from mohamjax.errors import InputError
from mohamjax.io.files import array_header, open_arrays
from mohamjax.runtime.part_files import part_of, remove_leftovers

MAX_MAPPED = 1 << 42
"""Most bytes of a file whose arrays are mapped; they are paged in when used."""


def mapped_arrays(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an uncompressed npz file by name, memory-mapped: read-only, and paged in when used.

    Checksums are not checked.

    Raises:
        InputError: there is no such file, or it is no regular file, damaged or compressed, or holds Python objects.
    """
    with open_arrays(path, MAX_MAPPED, "write it with numpy.savez, or again: it may be cut off") as (stream, members):
        return {name: _mapped(stream, member) for name, member in members.items()}


def _mapped(stream: BinaryIO, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError("is compressed", item=member.filename)
    stream.seek(member.header_offset)
    name, extra = struct.unpack("<26x2H", stream.read(30))
    start = member.header_offset + 30 + name + extra
    stream.seek(start)
    shape, fortran, dtype = array_header(stream, member)
    size = math.prod(shape) * dtype.itemsize
    if stream.tell() - start + size != member.file_size or start + member.file_size > os.fstat(stream.fileno()).st_size:
        raise InputError("an array claims other bytes than the file has", item=member.filename)
    if not size or not shape:
        return np.frombuffer(stream.read(size), dtype).reshape(shape)
    order: object = "F" if fortran else "C"
    return np.memmap(stream, dtype, "r", stream.tell(), shape, order)


@contextlib.contextmanager
def replacing(path: str | pathlib.Path) -> Iterator[BinaryIO]:
    """Opens a stream whose content replaces a file once all is written; until then the file stays as it was.

    Raises:
        InputError: the file cannot be written.
    """
    target = pathlib.Path(os.path.realpath(path))
    temporary = part_of(target)
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        remove_leftovers(target)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", file=path, remedy="name a file in a folder that can be written"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_arrays(path: str | pathlib.Path, arrays: abc.Mapping[str, np.ndarray]) -> None:
    """Writes an npz file that `mapped_arrays` reads, whole or not at all."""
    # Not numpy.savez, which takes no array called `file`.
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
