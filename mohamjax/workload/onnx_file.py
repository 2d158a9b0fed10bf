"""Reads an ONNX file (its bytes, the protobuf message and small external data), and says what is wrong with it.

Weights are never read: a tensor's dimensions stand in the file itself, so external data may be missing.
"""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from mohamjax.errors import InputError
from mohamjax.reader import open_file
from mohamjax.workload.budget import MAX_AXES, MAX_FOLDED_FLOATS, MAX_FOLDED_INTEGERS, MAX_SIZE, Budget
from mohamjax.workload.tensor import NUMPY_TYPES, Tensor
from mohamjax.workload.wire import MalformedError, TooLargeError, skim

if TYPE_CHECKING:
    import onnx

MAX_BYTES = (1 << 31) - 1
"""Most bytes of an ONNX file: as many as a protobuf message may have."""

_COST_OF_OPENING = 1 << 10  # opening a file takes as long as reading this many values of eight bytes
_MAX_FOLDERS = 64  # in the path of external data

_EXPORT = "export the model to ONNX again"
_CORRECT = "correct the model and export it again"
_SAVE_EXTERNAL = "save it with external data (onnx.save_model(..., save_as_external_data=True))"
_EXTERNAL = 1  # TensorProto.DataLocation.EXTERNAL


def load_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Parses an ONNX file without its external data.

    Args:
        path: The file.

    Returns:
        The model; it has a graph with at least one node and an operator-set version.

    Raises:
        InputError: The file is missing, not a file, not ONNX, truncated or empty, or its external data lie outside
            its folder.
    """
    with open_file(path, "ONNX file", MAX_BYTES, _SAVE_EXTERNAL) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size == 0:
            raise InputError("is empty (0 bytes)", file=path, remedy="fetch or export it again")
        _refuse_other_formats(stream.read(4096), path)
        data = _skimmed(stream, size, path)
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RecursionError, MemoryError) as error:
        raise _no_model(size, error, path) from error
    del data
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
    checked: set[str] = set()
    for tensor in _tensors_of_model(model):
        if tensor.data_location == _EXTERNAL:
            _check_location(tensor, folder, path, checked)
    return model


def _skimmed(stream: BinaryIO, size: int, path: object) -> bytes:
    try:
        return skim(stream, size)
    except TooLargeError as error:
        remedy = "export a smaller model, with its weights as raw or external data"
        raise InputError(str(error), file=path, remedy=remedy) from error
    except MalformedError as error:
        raise _no_model(size, error, path) from error
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", file=path, remedy="check the disk") from error


def _no_model(size: int, error: BaseException, path: object) -> InputError:
    return InputError(
        f"is no ONNX model or is truncated: its {size} bytes do not parse ({_short(error)})",
        file=path,
        remedy=f"fetch it again, or {_EXPORT}",
    )


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


def _check_location(tensor: onnx.TensorProto, folder: pathlib.Path, path: object, checked: set[str]) -> None:
    item = f"tensor {tensor.name!r}"
    location = _external_fields(tensor).get("location", "")
    if location in checked:
        return
    if not location:
        raise InputError("has external data without a location", file=path, item=item, remedy=_EXPORT)
    posix = location.replace("\\", "/")
    if posix.count("/") > _MAX_FOLDERS or len(posix) > 4096:
        raise InputError(
            f"has its external data more than {_MAX_FOLDERS} folders deep",
            file=path,
            item=item,
            remedy="keep the data file beside the model and name it by a relative path",
        )
    outside = posix.startswith("/") or posix[1:2] == ":" or "\0" in location
    if not outside:
        # Symbolic links are followed: a link out of the folder is as bad as a path out of it.
        target = pathlib.Path(os.path.realpath(folder / posix))
        outside = not target.is_relative_to(folder)
    if outside:
        raise InputError(
            f"has its external data at {location!r}, outside the model's folder",
            file=path,
            item=item,
            remedy="keep the data file beside the model and name it by a relative path",
        )
    checked.add(location)


def check_sizes(sizes: Sequence[object], item: str, file: object) -> None:
    """Refuses sizes that cannot be a shape: too many axes, or a size that is negative or too large.

    Args:
        sizes: Sizes; anything but an integer stands for an unknown one.
        item: Whose they are, for errors.
        file: The model file, for errors.

    Raises:
        InputError: They are no shape.
    """
    if len(sizes) > MAX_AXES:
        raise InputError(
            f"has {len(sizes):,} axes, more than the {MAX_AXES} that a tensor may have",
            file=file,
            item=item,
            remedy=_CORRECT,
        )
    for d in sizes:
        if isinstance(d, int) and not 0 <= d <= MAX_SIZE:
            what = "a negative size" if d < 0 else "a size beyond 2^63"
            text = "x".join(str(s) if isinstance(s, int) else "?" for s in sizes)
            raise InputError(f"has {what} ({text})", file=file, item=item, remedy=_CORRECT)


def read_tensor(tensor: onnx.TensorProto, budget: Budget) -> Tensor:
    """Turns a constant of the file into a `Tensor`, with its values if they are few and present.

    Args:
        tensor: The stored constant; its data may be missing (stripped or external).
        budget: Names the model file, which external data lie beside, and counts what is read of these.

    Returns:
        A constant tensor; `data` is None where the constant is big or absent.

    Raises:
        InputError: Its dimensions are no shape.
    """
    shape = tuple(tensor.dims)
    check_sizes(shape, f"tensor {tensor.name!r}", budget.file)
    dtype = int(tensor.data_type)
    numpy_type = NUMPY_TYPES.get(dtype)
    data = None
    if numpy_type is not None:
        limit = MAX_FOLDED_FLOATS if np.issubdtype(numpy_type, np.floating) else MAX_FOLDED_INTEGERS
        if math.prod(d or 1 for d in shape) <= limit:
            data = _values(tensor, np.dtype(numpy_type), math.prod(shape), budget)
    return Tensor(shape, dtype, data=None if data is None else data.reshape(shape), const=True)


def _values(tensor: onnx.TensorProto, numpy_type: np.dtype, count: int, budget: Budget) -> np.ndarray | None:
    """Values of a small dense tensor, flat, or None if they are absent."""
    raw: bytes | None = None
    if tensor.data_location == _EXTERNAL:
        raw = _external_bytes(tensor, count * numpy_type.itemsize, budget)
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


def _external_bytes(tensor: onnx.TensorProto, length: int, budget: Budget) -> bytes | None:
    fields = _external_fields(tensor)
    folder = os.path.dirname(os.path.realpath(str(budget.file)))
    if not budget.fold(length // 8 + _COST_OF_OPENING):
        return None
    try:
        offset = int(fields.get("offset") or 0)
        if offset < 0:
            return None
        target = os.path.join(folder, fields.get("location", "").replace("\\", "/"))
        with open_file(target, "data file", MAX_SIZE) as stream:
            stream.seek(offset)
            return stream.read(length)
    except (OSError, ValueError, OverflowError):  # InputError is a ValueError; absent data are not needed
        return None
