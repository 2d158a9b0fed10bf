"""Arrays of an npz file without reading them: each is mapped from where it lies in the file."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import struct
import tokenize
import zipfile
from collections import abc
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from mohamjax.errors import InputError

__all__ = ["mapped_arrays", "replacing", "write_arrays"]


def mapped_arrays(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file that is not compressed, by name, mapped into memory: read-only, paged in when used.

    Checksums are not looked at.

    Raises:
        InputError: there is no such file, it is damaged, compressed, or holds Python objects.
    """
    remedy = "write it with numpy.savez, or again: it may be cut off"
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as stream:
            return {m.filename.removesuffix(".npy"): _mapped(path, stream, m) for m in archive.infolist()}
    except FileNotFoundError:
        raise InputError("there is no such file", file=path, remedy="name an npz file") from None
    except InputError as error:
        raise InputError(error.message, file=path, item=error.item, remedy=remedy) from None
    except (
        OSError,
        ValueError,
        KeyError,
        EOFError,
        struct.error,
        zipfile.BadZipFile,
        SyntaxError,
        NotImplementedError,
        tokenize.TokenError,
    ) as error:
        raise InputError(f"is no npz file ({type(error).__name__})", file=path, remedy=remedy) from None


def _mapped(path: str | pathlib.Path, stream: BinaryIO, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED:
        raise InputError("is compressed", item=member.filename)
    stream.seek(member.header_offset)
    name, extra = struct.unpack("<26x2H", stream.read(30))
    start = member.header_offset + 30 + name + extra
    stream.seek(start)
    version = np.lib.format.read_magic(stream)
    read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise InputError("holds Python objects", item=member.filename)
    size = math.prod(shape) * dtype.itemsize
    if stream.tell() - start + size != member.file_size or start + member.file_size > os.fstat(stream.fileno()).st_size:
        raise InputError("an array claims other bytes than the file has", item=member.filename)
    if not size or not shape:
        return np.frombuffer(stream.read(size), dtype).reshape(shape)
    order: Any = "F" if fortran else "C"
    return np.memmap(path, dtype, "r", stream.tell(), shape, order)


@contextlib.contextmanager
def replacing(path: str | pathlib.Path) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of a file once all is written; else the file stays as it was.

    Raises:
        InputError: it cannot be written there.
    """
    target = pathlib.Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(
            f"cannot be written ({error.strerror})", file=path, remedy="name a file in a folder that can be written"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_arrays(path: str | pathlib.Path, arrays: abc.Mapping[str, np.ndarray]) -> None:
    """Writes an npz file that `mapped_arrays` reads, whole or not at all."""
    # As numpy.savez, which takes no array called `file`.
    with replacing(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
