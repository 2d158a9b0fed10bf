"""How many files of the package run on five ways through it: the most that a reader of each has to open.

The ways are: (a) one design is evaluated, (b) given tables are searched, (c) layers are mapped, (d) an ONNX file
becomes layers, (e) `mohamjax search` runs from the command line. A file counts if one of its functions is called when
this is done a second time, after all imports. Files of `runtime` (compiling, devices, records) and files that read
forms and texts do not count, as they know nothing of the field. The script reads one checkout; for an older one:

    PYTHONPATH=../before python experiments/reading_paths.py
"""

import collections
import contextlib
import io
import pathlib
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import jax

import mohamjax as mj
from mohamjax.cli import main as command
from mohamjax.workload import ApplicationModel, Layer, Network, WorkloadShape

ROOT = pathlib.Path(mj.__file__).parent
NO_FIELD = {
    "__init__.py", "artist.py", "blocks.py", "code_hash.py", "devices.py", "drawing.py", "errors.py", "exported.py",
    "folders.py", "forms.py", "platforms.py", "programs.py", "progress.py", "reader.py", "struct.py", "text.py",
    "version.py",
}  # fmt: skip
SIZES: dict[str, Any] = {"population": 16, "generations": 4, "chunk": 4}


def files(call: Callable[[], object]) -> list[str]:
    """Files whose functions run in a call, by name."""
    seen: collections.Counter[str] = collections.Counter()

    def profile(frame, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(ROOT)) and frame.f_code.co_name != "<module>":
            seen[str(pathlib.Path(name).relative_to(ROOT))] += 1

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(
        n for n in seen if n not in NO_FIELD and not n.startswith("runtime/") and not n.endswith("__init__.py")
    )


def main() -> None:
    body = Layer("body", "conv", "Conv", WorkloadShape(K=8, C=4, P=6, Q=6, R=3, S=3))
    head = Layer("head", "fc", "Gemm", WorkloadShape(K=10, C=8), predecessors=(0,))
    problem = mj.DesignProblem(
        ApplicationModel("toy", (Network("net", (body, head)),)), ("simba",), mj.Package(max_tiles=4)
    )
    tables = mj.sample_mappings(problem, 8)
    space = problem.arrays(tables)
    design = mj.sample_designs(jax.random.key(0), space, 1)[0]
    packaged = next((ROOT / "workload" / "data").glob("*.onnx"))

    def typed() -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            words = ["search", str(packaged), "--budget", "tiny", "--population", "16", "--generations", "4"]
            command([*words, "--no-figures", "--out", folder])

    ways: dict[str, Callable[[], object]] = {
        "(a) one design": lambda: jax.make_jaxpr(mj.evaluate)(design, space),
        "(b) a search over tables": lambda: mj.search(problem, tables, "tiny", **SIZES),
        "(c) mappings": lambda: mj.map_layers(problem, "tiny"),
        "(d) ONNX": lambda: mj.load_onnx(packaged),
        "(e) the command line": typed,
    }
    for name, call in ways.items():
        call()
        jax.clear_caches()  # functions run again when they are traced again
        found = files(call)
        print(f"{name}: {len(found)} files: {' '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
