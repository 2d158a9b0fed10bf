"""Reading an ONNX file: the bytes, the protobuf, external data, and what is wrong with them.

Weights are never read: a tensor's dimensions stand in the file itself, so external data may be missing.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from mohamjax.errors import InputError
from mohamjax.workload.tensor import NUMPY_TYPES, Tensor

if TYPE_CHECKING:
    import onnx

__all__ = ["MAX_FOLDED_FLOATS", "MAX_FOLDED_INTEGERS", "load_model", "read_tensor"]

MAX_FOLDED_INTEGERS = 1 << 17
"""Integer constants up to this many elements are kept, because shapes may be computed from them."""

MAX_FOLDED_FLOATS = 1 << 12
"""The same for floating-point constants (scales of a Resize, limits of a Range)."""

_EXPORT = "export the model to ONNX again"
_EXTERNAL = 1  # TensorProto.DataLocation.EXTERNAL


def load_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Parses an ONNX file without its external data.

    Args:
        path: The file.

    Returns:
        The model; it has a graph with at least one node and an operator-set version.

    Raises:
        InputError: The file is missing, no file, no ONNX, truncated or empty, or its external data lies outside
            its folder.
    """
    data = _read_bytes(path)
    _refuse_other_formats(data, path)
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"is no ONNX model or is truncated: its {len(data)} bytes do not parse ({_short(error)})",
            file=path,
            remedy=f"fetch it again, or {_EXPORT}",
        ) from error
    if not model.HasField("graph"):
        raise InputError(
            "holds no graph: it is no ONNX model or is truncated",
            file=path,
            remedy=f"fetch it again, or {_EXPORT}",
        )
    if not model.graph.node:
        raise InputError("holds an empty graph (no operator)", file=path, remedy=_EXPORT)
    if not model.opset_import:
        raise InputError(
            "states no operator-set version (opset_import): it is truncated or incomplete",
            file=path,
            remedy=f"fetch it again, or {_EXPORT}",
        )
    folder = pathlib.Path(path).resolve().parent
    for tensor in _tensors_of_model(model):
        if tensor.data_location == _EXTERNAL:
            _check_location(tensor, folder, path)
    return model


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise InputError("is a folder", file=path, remedy="name the ONNX file inside it")
        if not stat.S_ISREG(status.st_mode):
            raise InputError("is no regular file", file=path, remedy="save the model to a file first")
        if status.st_size == 0:
            raise InputError("is empty (0 bytes)", file=path, remedy="fetch or export it again")
        if status.st_size >= 1 << 31:
            raise InputError(
                f"has {status.st_size} bytes: more than the 2 GiB that a protobuf may have",
                file=path,
                remedy="save it with external data (onnx.save_model(..., save_as_external_data=True))",
            )
        return pathlib.Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError("there is no such file", file=path, remedy="check the path") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read ({reason})", file=path, remedy="check the path and its rights") from error


def _refuse_other_formats(data: bytes, path: object) -> None:
    head = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    lower = head[:64].lower()
    what = remedy = None
    if head.startswith(b"version https://git-lfs"):
        what, remedy = "is a Git LFS pointer, not the model itself", "fetch the model with `git lfs pull`"
    elif lower.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--")):
        what, remedy = "is an HTML or XML page, not an ONNX model", "download the raw file"
    elif head.startswith((b"{", b"[{")):
        what, remedy = "is JSON, not an ONNX model", "name the .onnx file"
    elif data.startswith(b"PK\x03\x04"):
        what, remedy = "is a zip archive (a PyTorch checkpoint?), not an ONNX model", "unpack it, or export it to ONNX"
    elif data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")):
        what, remedy = "is compressed, not an ONNX model", "decompress it first"
    elif data.startswith((b"\x89HDF", b"\x80\x02", b"\x80\x04")):
        what, remedy = "is an HDF5 or pickle file, not an ONNX model", "export the model to ONNX"
    elif data[4:8] in (b"ORTM", b"TFL3"):
        what, remedy = "is an ORT or TFLite flatbuffer, not an ONNX model", "use the .onnx file that it was made from"
    elif not any(data[:4096]):
        what, remedy = "holds only zero bytes", "fetch or export it again"
    if what:
        raise InputError(what, file=path, remedy=remedy)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 80 else text[:77] + "..."


def _tensors_of_model(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _tensors_of_node(node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        yield from _tensors_of_node(node)


def _tensors_of_node(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        if attribute.HasField("g"):
            yield from _tensors_of_graph(attribute.g)
        for graph in attribute.graphs:
            yield from _tensors_of_graph(graph)


def _external_fields(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data if isinstance(entry.value, str)}


def _check_location(tensor: onnx.TensorProto, folder: pathlib.Path, path: object) -> None:
    location = _external_fields(tensor).get("location", "")
    if not location:
        raise InputError(
            "has external data without a location", file=path, item=f"tensor {tensor.name!r}", remedy=_EXPORT
        )
    posix = location.replace("\\", "/")
    outside = posix.startswith("/") or posix[1:2] == ":" or "\0" in location
    if not outside:
        # Symbolic links are followed: a link out of the folder is as bad as a path out of it.
        target = pathlib.Path(os.path.realpath(folder / posix))
        outside = not target.is_relative_to(folder)
    if outside:
        raise InputError(
            f"has its external data at {location!r}, outside the model's folder",
            file=path,
            item=f"tensor {tensor.name!r}",
            remedy="keep the data file beside the model and name it by a relative path",
        )


def read_tensor(tensor: onnx.TensorProto, file: object) -> Tensor:
    """Turns a constant of the file into a `Tensor`, with its values if it is small and they are there.

    Args:
        tensor: The stored constant; its data may be missing (stripped or external).
        file: The model file: names it in errors and locates small external data.

    Returns:
        A constant tensor; `data` is None where the constant is big or absent.

    Raises:
        InputError: A dimension is negative.
    """
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise InputError(f"has a negative size {shape}", file=file, item=f"tensor {tensor.name!r}", remedy=_EXPORT)
    count = 1
    for d in shape:
        count *= d
    dtype = int(tensor.data_type)
    numpy_type = NUMPY_TYPES.get(dtype)
    data = None
    if numpy_type is not None:
        limit = MAX_FOLDED_FLOATS if np.issubdtype(numpy_type, np.floating) else MAX_FOLDED_INTEGERS
        if count <= limit:
            data = _values(tensor, np.dtype(numpy_type), count, file)
    return Tensor(shape, dtype, data=None if data is None else data.reshape(shape), const=True)


def _values(tensor: onnx.TensorProto, numpy_type: np.dtype, count: int, file: object) -> np.ndarray | None:
    """Values of a small dense tensor, flat, or None where they are not there."""
    raw: bytes | None = None
    if tensor.data_location == _EXTERNAL:
        raw = _external_bytes(tensor, count * numpy_type.itemsize, file)
        if raw is None:
            return None
    elif tensor.raw_data:
        raw = tensor.raw_data
    if raw is not None:
        if len(raw) != count * numpy_type.itemsize:
            return None
        return np.frombuffer(raw, numpy_type.newbyteorder("<")).astype(numpy_type)
    field = {
        np.dtype(np.float32): tensor.float_data,
        np.dtype(np.float64): tensor.double_data,
        np.dtype(np.int64): tensor.int64_data,
        np.dtype(np.uint32): tensor.uint64_data,
        np.dtype(np.uint64): tensor.uint64_data,
    }.get(numpy_type, tensor.int32_data)
    if len(field) != count:
        return None
    if numpy_type == np.float16:  # stored as bit patterns
        return np.asarray(field, np.int64).astype(np.uint16).view(np.float16)
    return np.asarray(field).astype(numpy_type)


def _external_bytes(tensor: onnx.TensorProto, length: int, file: object) -> bytes | None:
    fields = _external_fields(tensor)
    target = pathlib.Path(str(file)).resolve().parent / fields.get("location", "").replace("\\", "/")
    try:
        offset = int(fields.get("offset") or 0)
        if offset < 0 or not target.is_file():
            return None
        with target.open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)
    except (OSError, ValueError, OverflowError):
        return None
