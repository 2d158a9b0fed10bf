"""Readers given devices, pipes, sparse files, endless lines and false sizes: one line, quickly, in bounded memory."""

import gzip
import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import load_technology, load_template
from mohamjax.io import files
from mohamjax.io.checkpoint import read_checkpoint
from mohamjax.io.design_arrays import is_design_arrays
from mohamjax.io.files import parse_json, read_arrays, read_json
from mohamjax.io.mapped_arrays import mapped_arrays
from mohamjax.io.samples import read_architectures, read_samples
from mohamjax.reader import MAX_LINE, read_lines, read_text, read_yaml

READERS = {
    "text": lambda path: read_text(path, "CSV file"),
    "yaml": read_yaml,
    "json": read_json,
    "lines": lambda path: list(read_lines(path, ".jsonl file")),
    "samples": lambda path: list(read_samples(path, {})),
    "architectures": read_architectures,
    "template": load_template,
    "technology": load_technology,
    "checkpoint": read_checkpoint,
}


@pytest.mark.parametrize("kind", READERS)
def test_what_is_no_file(tmp_path, kind):
    read = READERS[kind]
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in ("/dev/zero", tmp_path / "pipe.yaml"):
        with pytest.raises(InputError, match="no regular file") as caught:
            read(path)
        assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    with open(tmp_path / "hole.yaml", "wb") as stream:
        stream.truncate(10**10)
    with pytest.raises(InputError, match="10,000,000,000 bytes"):
        read(tmp_path / "hole.yaml")
    with pytest.raises(InputError):
        read(tmp_path / "absent.yaml")
    with pytest.raises(InputError):
        read(tmp_path / "a\0b.yaml")


def test_lines_of_any_length(tmp_path):
    path = tmp_path / "a.jsonl"
    with open(path, "wb") as stream:
        stream.write(b"{}\n")
        stream.truncate(10**9)
    with pytest.raises(InputError, match=f"line 2: is longer than {MAX_LINE:,}"):
        list(read_lines(path, ".jsonl file"))
    with gzip.open(path, "wb") as stream:
        for _ in range(100):
            stream.write(bytes(10**6))
    with pytest.raises(InputError, match="line 1: is longer than"):
        list(read_lines(path, ".jsonl file"))
    with gzip.open(path, "wb") as stream:
        stream.write(b"\n" * 3 + b'{"a": 1}\r\n\n{}')
    assert list(read_lines(path, ".jsonl file")) == [(4, '{"a": 1}\n'), (6, "{}")]
    with gzip.open(path, "wb") as stream:
        stream.write(b"\n" * 20_000)
    with pytest.raises(InputError, match="more than 10,000 bytes"):
        list(read_lines(path, ".jsonl file", most=10_000))


def test_json_of_many_entries():
    with pytest.raises(InputError, match="entries"):
        parse_json("[" + "[]," * 20_000_000 + "0]", "many.json")
    with pytest.raises(InputError, match="nested too deeply"):
        parse_json("[" * 100_000 + "]" * 100_000, "deep.json")


def checkpoint(path, meta):
    np.savez(path, meta=np.frombuffer(meta.encode(), np.uint8))
    return path


def test_records_of_any_depth(tmp_path):
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000):
        with pytest.raises(InputError, match="nested too deeply") as caught:
            read_checkpoint(checkpoint(tmp_path / "c.npz", text))
        assert "without the argument `resume`" in str(caught.value)
    with pytest.raises(InputError, match="written twice"):
        read_checkpoint(checkpoint(tmp_path / "c.npz", '{"format": 1, "format": 2}'))
    with pytest.raises(InputError, match="no checkpoint of this version"):
        read_checkpoint(checkpoint(tmp_path / "c.npz", json.dumps([1])))


def npz(path, header, data=b"", version=1, packed=True):
    text = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED) as archive:
        archive.writestr("a.npy", b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2, "little") + text + data)
    return path


@pytest.mark.parametrize(
    ("header", "data"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000,)}", b""),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 100000)}", bytes(800)),
        ("{'descr': '<U1000000000', 'fortran_order': False, 'shape': ()}", bytes(800)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", bytes(800)),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(800)),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2", bytes(800)),
    ],
)
def test_arrays_that_claim_more_than_there_is(tmp_path, header, data):
    with pytest.raises(ValueError):
        read_arrays(npz(tmp_path / "a.npz", header, data))


def test_arrays_that_unpack_to_more_than_any(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_ARRAYS", 10**6)
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(600_000, np.int8), b=np.zeros(600_000, np.int8))
    with pytest.raises(ValueError, match="too large"):
        read_arrays(tmp_path / "a.npz")


def test_arrays_are_read_as_numpy_does(tmp_path):
    arrays = {
        "a": np.arange(6).reshape(2, 3).T, "b": np.float64(1), "c": np.asarray("text"), "d": np.zeros((0, 4), np.int8),
    }  # fmt: skip
    for save in (np.savez, np.savez_compressed):
        buffer = io.BytesIO()
        save(buffer, **arrays)
        (tmp_path / "a.npz").write_bytes(buffer.getvalue())
        read = read_arrays(tmp_path / "a.npz")
        assert list(read) == list(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(read[name], array)


ODD = {
    "a pipe": (lambda path: os.mkfifo(path), "is no regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is no regular file"),
    "a folder": (lambda path: path.mkdir(), "is a folder"),
    "nothing": (lambda path: None, "no such file"),
    "an empty file": (lambda path: path.touch(), "is no sound npz file"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read"),
    "no archive": (lambda path: path.write_bytes(b"{}" * 99), "is no sound npz file"),
    "a large table of contents": (lambda path: claim_directory(path, 3 << 30), "is no sound npz file"),
    "an encrypted array": (lambda path: flagged(path), "is no sound npz file|claims other bytes"),
}


def claim_directory(path, size):
    """A sparse file whose end claims an archive with a table of contents of that size."""
    with open(path, "wb") as stream:
        stream.truncate(size)
        stream.seek(size)
        stream.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size, 0, 0))


def flagged(path):
    npz(path, "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(8), packed=False)
    data = bytearray(path.read_bytes())
    data[6] |= 1
    at = data.index(b"PK\1\2")
    data[at + 8] |= 1
    data[at + 24] ^= 4  # the stated size, so that the array does not fit either
    path.write_bytes(data)


@pytest.mark.parametrize("kind", ODD)
def test_odd_files_as_arrays(tmp_path, kind):
    """Every reader of npz files refuses it in one line, at once and in little memory."""
    make, words = ODD[kind]
    path = tmp_path / "x.npz"
    make(path)
    with pytest.raises(InputError, match=words) as caught:
        mapped_arrays(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert is_design_arrays(path) == (kind != "an encrypted array")  # its array is only read later
    with pytest.raises(FileNotFoundError if kind == "nothing" else (ValueError, FileNotFoundError)):
        read_arrays(path)


def test_a_pipe_of_arrays_does_not_hang_the_command_line(tmp_path, capsys):
    os.mkfifo(tmp_path / "x.npz")
    assert main(["evaluate", "designs", str(tmp_path / "x.npz"), "--out", str(tmp_path / "out.csv")]) == 2
    assert "is no regular file" in capsys.readouterr().err
