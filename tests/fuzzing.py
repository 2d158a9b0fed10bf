"""Fuzzing of every reader: how inputs are made, and which outcomes are allowed.

An input is a case: the name of a reader, how it was made, and bytes. A reader may return, or raise one `InputError` of
one line that names the file, within `SECONDS` and `MEGABYTES`; everything else is a failure. All is drawn from a seed.
"""

import copy
import dataclasses
import gzip
import hashlib
import json
import pathlib
import signal
import time
import traceback
import warnings
from collections.abc import Iterator

import fuzz_documents
import fuzz_graphs
import fuzz_words
import numpy as np
import yaml
from fuzz_readers import READERS, Reader
from google.protobuf.message import DecodeError
from workload_models import save

from mohamjax.errors import InputError
from mohamjax.workload.tensor import MisfitError

__all__ = ["READERS", "Reader"]

SECONDS = 20
MEGABYTES = 2048
FINDINGS = pathlib.Path(__file__).parent / "fuzz_findings"
"""Inputs that failed once: `READER-HASH.SUFFIX`. They are replayed and must not fail again."""

_LONGEST = 2000  # characters of an error


@dataclasses.dataclass(frozen=True)
class Case:
    """One input."""

    reader: str
    kind: str
    data: bytes

    @property
    def name(self) -> str:
        """Name of its file among the findings."""
        return f"{self.reader}-{hashlib.sha256(self.data).hexdigest()[:10]}{READERS[self.reader].suffix}"


# ---------------------------------------------------------------------------------------------------------- damage

_VALUES = [
    None, True, False, 0, -1, 1, 2, 3, 1.5, -0.0, 1e-320, 1e308, float("inf"), float("nan"), 2**31, 2**53 + 1, 2**63,
    10**40, "", "x", "simba", "0", "1e3", "a" * 3000, "\x00", "\n", "../..", "é", [], {}, [[]], [1, 2], [None], ["x"],
    {"a": 1}, {"": None}, [[1, 2], [3, 4]], [0] * 1000,
]  # fmt: skip
"""Values that replace those of a document."""


def _places(tree, path=()):
    """Paths of everything in a tree."""
    yield path
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in members:
        yield from _places(value, (*path, key))


def damaged_tree(rng: np.random.Generator, tree):
    """A tree with some values replaced, removed, doubled or moved, and keys renamed."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        paths = [p for p in _places(tree) if p]
        if not paths:
            return tree
        path, other = (paths[int(rng.integers(len(paths)))] for _ in range(2))
        at = tree
        for key in path[:-1]:
            at = at[key]
        value, kind = at[path[-1]], int(rng.integers(7))
        if kind <= 2:
            at[path[-1]] = copy.deepcopy(_VALUES[int(rng.integers(len(_VALUES)))])
        elif kind == 3:
            del at[path[-1]]
        elif kind == 4:
            if isinstance(at, list):
                at.insert(int(rng.integers(len(at) + 1)), copy.deepcopy(value))
            else:
                at[str(rng.choice(["", "x", f"{path[-1]}s", "name", "format"]))] = at.pop(path[-1])
        elif kind == 5:
            source = tree
            for key in other:
                source = source[key]
            at[path[-1]] = copy.deepcopy(source)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            at[path[-1]] = [value]
        else:
            at[path[-1]] = value * float(rng.choice([-1, 0, 1, 1e9, 1e-9])) + int(rng.choice([0, 1]))
    return tree


def damaged_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes with some changed, removed, doubled, moved, or cut off."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 8))):
        kind, at = int(rng.integers(7)), int(rng.integers(len(out) + 1))
        stop = at + int(rng.choice([1, 1, 2, 8, 64]))
        if kind == 0 and at < len(out):
            out[at] = int(rng.integers(256))
        elif kind == 1 and at < len(out):
            out[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del out[at:stop]
        elif kind == 3:
            out[at:at] = out[at:stop] * int(rng.choice([1, 2, 100]))
        elif kind == 4:
            out[at:at] = rng.integers(0, 256, rng.integers(1, 9), np.uint8).tobytes()
        elif kind == 5:
            texts = [b"&a ", b"*a", b"<<: *a", b"!!python/name:os.system ", b"\xff\xfe", b"\\ud800", b"NaN", b"1e999"]
            texts += [b"[" * 200, b'{"a":' * 200, b"9" * 300, b"---\n", b"\t", b"\xef\xbb\xbf", b"'", b'"', b":", b"- "]
            out[at:at] = texts[int(rng.integers(len(texts)))]
        elif rng.random() < 0.3:
            del out[at:]
    return bytes(out)


def _written(tree, suffix: str, rng: np.random.Generator) -> bytes:
    if suffix == ".yaml":
        return yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, allow_unicode=True).encode()
    return json.dumps(tree, ensure_ascii=bool(rng.integers(2))).encode()


def case(rng: np.random.Generator, folder: pathlib.Path, reader: str | None = None) -> Case:
    """A case for some reader; half of them are graphs.

    Args:
        rng: Decides everything.
        folder: Where growing graphs are tried.
        reader: Which reader it is for; any by default.
    """
    if reader is None:
        others = [name for name in READERS if not name.startswith("onnx")]
        reader = "onnx" if rng.random() < 0.5 else str(rng.choice([*others, "onnxskip"]))
    if READERS[reader].suffix == ".onnx":
        kind = str(rng.choice(["grammar", "growth", "structure", "bytes", "huge"], p=[0.45, 0.12, 0.2, 0.13, 0.1]))
        if kind == "grammar":
            return Case(reader, kind, fuzz_graphs.single(rng))
        if kind == "huge":
            return Case(reader, kind, fuzz_graphs.huge(rng))
        grown = fuzz_graphs.grown(rng, folder / "growing.onnx", 12 if kind == "growth" else 5)
        damage = {"growth": lambda rng, data: data, "structure": fuzz_graphs.damaged, "bytes": damaged_bytes}
        return Case(reader, kind, damage[kind](rng, grown))
    data, suffix = fuzz_documents.sound(reader), READERS[reader].suffix
    if READERS[reader].structure and rng.random() < 0.75:
        tree = damaged_tree(rng, fuzz_documents.tree_of(data, suffix))
        return Case(reader, "structure", _written(tree, suffix, rng))
    if reader == "words":
        return Case(reader, "structure", json.dumps(fuzz_words.some_words(rng)).encode())
    if reader in fuzz_documents.LINES and rng.random() < 0.7:
        lines = [json.loads(line) for line in data.splitlines()]
        lines = [damaged_tree(rng, line) if rng.random() < 0.5 else line for line in lines]
        data = b"\n".join(json.dumps(line).encode() for line in lines) + b"\n"
        return Case(reader, "structure", gzip.compress(data) if rng.random() < 0.3 else data)
    if suffix == ".csv" and rng.random() < 0.6:
        return Case(reader, "structure", _damaged_table(rng, data))
    return Case(reader, "bytes", damaged_bytes(rng, data))


def _damaged_table(rng: np.random.Generator, data: bytes) -> bytes:
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(int(rng.integers(1, 4))):
        row = rows[int(rng.integers(len(rows)))]
        at, value = int(rng.integers(len(row) or 1)), _VALUES[int(rng.integers(len(_VALUES)))]
        if rng.random() < 0.7 and row:
            row[at] = str(value)
        elif rng.random() < 0.5:
            row.insert(at, str(value))
        else:
            rows.append(list(row))
    return "\n".join([*(",".join(row) for row in rows), ""]).encode("utf-8", "surrogatepass")


def cases(seed: int, folder: pathlib.Path) -> Iterator[Case]:
    """Endless cases; the n-th depends on the seed and n alone."""
    number = 0
    while True:
        yield case(np.random.default_rng((seed, number)), folder)
        number += 1


# --------------------------------------------------------------------------------------------------------- outcomes


class TooLong(BaseException):
    """The time is over. It is no `Exception`, so that no reader catches it."""


def _stop(*_) -> None:
    raise TooLong


def _peak() -> int:
    """Peak memory of this process since `_forget` [MB]; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10
    except (OSError, StopIteration):
        return 0


def _forget() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        pass


def _foreign_words(error: InputError) -> str:
    """Message of Python or NumPy that the error repeats, or empty; messages raised in the package do not count."""
    cause = error.__cause__ or error.__context__
    kinds = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, MemoryError)
    ours = (InputError, MisfitError, json.JSONDecodeError, yaml.YAMLError, DecodeError, UnicodeError)
    if not isinstance(cause, kinds) or isinstance(cause, ours):
        return ""
    text = " ".join(str(cause).split())
    last = traceback.extract_tb(cause.__traceback__)[-1:]
    if last and "/mohamjax/" in last[0].filename and (last[0].line or "").startswith("raise"):
        return ""
    return text if len(text) > 5 and text in str(error) else ""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Outcome of a case: `result`, `refused`, or what is wrong."""

    kind: str
    text: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether the outcome is allowed."""
        return self.kind in ("result", "refused")


def attempt(given: Case, folder: pathlib.Path, seconds: float = SECONDS) -> Outcome:
    """Reads a case under a time limit and judges the outcome.

    Args:
        given: The case.
        folder: An empty folder, or one that this function used before.
        seconds: Limit of processor time, since others may share the machine; by the clock it is ten times that. Only
            Python code in the main thread can be stopped.
    """
    for name, model in fuzz_documents.BEHIND.items():
        if not (folder / name).exists():
            save(folder, model, name)
    path = folder / f"case{READERS[given.reader].suffix}"
    path.write_bytes(given.data)
    _forget()
    before, start = _peak(), time.process_time()
    old = {number: signal.signal(number, _stop) for number in (signal.SIGALRM, signal.SIGPROF)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            READERS[given.reader].read(path)
        kind, text = "result", ""
    except InputError as error:
        kind, text = _judged(error, given, path)
        error.with_traceback(None)
    except TooLong:
        kind, text = "too slow", f"more than {seconds:g} s"
    except MemoryError:
        kind, text = "too large", "out of memory"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind, text = "escaped", f"{type(error).__name__}: {error} ({pathlib.Path(where.filename).name}:{where.lineno})"
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in old.items():
            signal.signal(number, handler)
    taken = time.process_time() - start
    if _peak() - before > MEGABYTES:
        kind, text = "too large", f"{_peak() - before} MB"
    return Outcome(kind, text, taken)


def _judged(error: InputError, given: Case, path: pathlib.Path) -> tuple[str, str]:
    text = str(error)
    if "\n" in text or "\r" in text or len(text) > _LONGEST:
        return "not one line", text
    if str(path.parent) not in text:
        return "names no file", text
    if given.kind in ("grammar", "growth") and not error.item and "holds an empty graph" not in text:
        return "names no node", text
    words = _foreign_words(error)
    return ("Python's words", f"{words!r} in {text!r}") if words else ("refused", text)
