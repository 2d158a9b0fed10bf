"""What the onnx package infers of a graph's shapes and values, compared with what `mohamjax.workload` infers.

Three ways to use the package are measured, each in child processes with limits on memory and time:

- whole graphs: `onnx.inliner.inline_local_functions`, then `onnx.shape_inference.infer_shapes(data_prop=True)`;
- the same with folding in turn: nodes whose operands are all small constants are evaluated by
  `onnx.reference.ReferenceEvaluator` and become constants, until no new ones arise;
- call by call: `onnx.shape_inference.infer_node_outputs` for every operator call of the importer, with the shapes and
  values that the importer knows there, and the evaluator where the importer folds values.

The graphs are the goldens (a folder of ONNX files), every graph that the importer's tests read, and random ones from
the fuzzer. Symbolic sizes are bound as the importer binds them, so that both have the same inputs.

    python experiments/onnx_inference.py --out experiments/results/onnx_inference.md
"""

import argparse
import collections
import contextlib
import dataclasses
import gc
import hashlib
import json
import pathlib
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.inliner  # noqa: E402
import onnx.reference  # noqa: E402
import onnx.shape_inference  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from report import Report, header  # noqa: E402

from mohamjax.errors import InputError  # noqa: E402
from mohamjax.workload import importer, walk  # noqa: E402
from mohamjax.workload.onnx_file import load_model  # noqa: E402
from mohamjax.workload.operators import find_rule, is_layer  # noqa: E402
from mohamjax.workload.tensor import Call, Shape, Tensor, is_known  # noqa: E402

GIGABYTES = 3
"""Memory that a child may take beyond what it has after its imports."""

SECONDS = 20
"""Seconds of processor time that a child may take for one step of one file."""

PATIENCE = 900
"""Seconds that a child may say nothing, on a machine that is busy."""

SMALL = 1 << 12
"""Most elements of a constant that is folded."""

MOST_BYTES = 1 << 24
"""Most bytes of a test's file that is kept: larger ones are sparse files of a gigabyte."""

MOST_NAMED = 40
"""Most operators that a line of the report names."""

WHOSE = (("ours", "calls"), ("theirs", "timed"))
"""Prefix of a counted time, and the count of the calls that it covers."""

TESTS = ("test_workload_import.py", "test_workload_repetition.py", "test_workload_operators.py",
         "test_workload_bad.py", "test_workload_limits.py")  # fmt: skip


# ------------------------------------------------------------------------------------------------------- the graphs


def collect(folder: pathlib.Path) -> None:
    """Runs the importer's tests and keeps every file that they read, with the arguments."""
    import pytest

    original = importer.read_network

    def kept(path, **keywords):
        file, data = pathlib.Path(path), b""
        with contextlib.suppress(OSError):  # a name that is too long
            data = file.read_bytes() if file.is_file() and file.stat().st_size <= MOST_BYTES else b""
        if data:
            given = {k: keywords[k] for k in ("batch", "shapes", "skip_unknown") if keywords.get(k) is not None}
            text = json.dumps(given, default=list)
            name = hashlib.sha256(data + text.encode()).hexdigest()[:16]
            (folder / f"{name}.onnx").write_bytes(data)
            (folder / f"{name}.json").write_text(text)
        return original(path, **keywords)

    importer.read_network = kept
    pytest.main(["-q", "-p", "no:cacheprovider", "-n", "0", *(str(ROOT / "tests" / name) for name in TESTS)])


def draw(folder: pathlib.Path, cases: int) -> None:
    """Random graphs: every operator with random operands, then grown, damaged and huge ones."""
    import fuzz_graphs
    import fuzzing

    for n in range(3):
        for i, operator in enumerate(fuzz_graphs.OPERATORS):
            data = fuzz_graphs.single(np.random.default_rng((20, n, i)), operator)
            (folder / f"single_{n}_{i}.onnx").write_bytes(data)
    for n in range(cases):
        case = fuzzing.case(np.random.default_rng((20, n)), folder, "onnx")
        (folder / f"{case.kind}_{n}.onnx").write_bytes(case.data)
    for path in folder.glob("growing*"):
        path.unlink()


# ------------------------------------------------------------------------------------------------------- our side


@dataclasses.dataclass
class Ours:
    """What the importer made of a file.

    Attributes:
        seconds: Of an undisturbed import.
        error: Why it refused the file; empty where it did not.
        inputs: Shapes of the main graph's inputs.
        calls: Operator calls: the call, its results, seconds of its rule.
        refused: The call that no rule takes, if there is one.
    """

    seconds: float = 0.0
    error: str = ""
    inputs: dict[str, Shape | None] = dataclasses.field(default_factory=dict)
    calls: list[tuple[Call, list[Tensor], float]] = dataclasses.field(default_factory=list)
    refused: Call | None = None

    def products(self) -> list[tuple[str, tuple[Shape | None, ...]]]:
        """Operator and shapes of the operands of every product."""
        return [
            (call.op, tuple(t.shape if t is not None else None for t in call.inputs))
            for call, _, _ in self.calls
            if is_layer(call.domain, call.op)
        ]


def read(path: pathlib.Path, given: dict) -> Ours:
    """Imports a file twice: once for the time, once to note every call."""
    out, start = Ours(), time.process_time()
    try:
        importer.read_network(path, warn=lambda line: None, **given)
    except InputError as error:
        out.error = str(error)
    out.seconds = time.process_time() - start

    def noted(domain: str, op: str) -> Callable[[Call], list[Tensor]] | None:
        rule = find_rule(domain, op)

        def spying(call: Call) -> list[Tensor]:
            kept = dataclasses.replace(call, inputs=list(call.inputs))
            out.refused = kept
            begun = time.thread_time()
            made = rule(call)
            took, out.refused = time.thread_time() - begun, None
            out.calls.append((kept, [dataclasses.replace(t) for t in made], took))
            return made

        return None if rule is None else spying

    class Noting(walk.Walk):
        def run(self, inputs):
            out.inputs = {name: tensor.shape for name, tensor in inputs.items()}
            return super().run(inputs)

    walk.find_rule, importer.Walk = noted, Noting
    gc.collect()
    gc.disable()  # or the collector would look through the kept calls again and again
    try:
        importer.read_network(path, warn=lambda line: None, **given)
    except InputError:
        pass
    finally:
        walk.find_rule, importer.Walk = find_rule, walk.Walk
        gc.enable()
    return out


# ------------------------------------------------------------------------------------------------- theirs: whole graphs


def shape_of(kind: onnx.TypeProto) -> Shape | None:
    """The shape that a type states; None for a size or a whole shape that it does not state."""
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    return tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim)


def bound(model: onnx.ModelProto, inputs: dict[str, Shape | None]) -> onnx.ModelProto:
    """The model with its inputs bound to the sizes that the importer takes for them."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    for info in out.graph.input:
        shape = inputs.get(info.name)
        if shape is not None and info.type.WhichOneof("value") == "tensor_type":
            info.CopyFrom(helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type or 1, shape))
    return out


def inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True)


def shapes_of(graph: onnx.GraphProto) -> dict[str, Shape | None]:
    """Shape by tensor name."""
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for info in (*graph.value_info, *graph.output, *graph.input):
        found.setdefault(info.name, shape_of(info.type))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                found[node.output[0]] = tuple(attribute.t.dims)
    return found


def their_products(graph: onnx.GraphProto, outer: dict | None = None) -> Iterator[tuple[str, tuple[Shape | None, ...]]]:
    """Operator and shapes of the operands of every product, those in branches and bodies included."""
    shapes = {**(outer or {}), **shapes_of(graph)}
    for node in graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if is_layer(domain, node.op_type):
            yield node.op_type, tuple(shapes.get(name) if name else None for name in node.input)
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from their_products(inner, shapes)


def folded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infers shapes and evaluates nodes of small constants in turn, until nothing new is known."""
    opsets = list(model.opset_import)
    for _ in range(50):
        model = inferred(model)
        graph, shapes = model.graph, shapes_of(model.graph)
        values = {t.name: t for t in graph.initializer if holds(t)}
        rest, made = [], []
        for node in graph.node:
            new = constants(node, values, shapes, opsets)
            if new is None:
                rest.append(node)
                continue
            values |= {t.name: t for t in new}
            made += new
        if not made:
            return model
        del graph.node[:]
        graph.node.extend(rest)
        graph.initializer.extend(made)
    return model


def holds(tensor: onnx.TensorProto) -> bool:
    """Whether a constant is small and its values are there."""
    count = int(np.prod([int(d) for d in tensor.dims], dtype=object))
    if count > SMALL or tensor.data_location == 1:
        return False
    try:
        return numpy_helper.to_array(tensor).size == count
    except Exception:  # of any kind: values that are stripped or malformed
        return False


def constants(
    node: onnx.NodeProto, values: dict[str, onnx.TensorProto], shapes: dict[str, Shape | None], opsets: Iterable
) -> list[onnx.TensorProto] | None:
    """Results of a node whose operands are small constants; None for other nodes, and where the evaluator fails."""
    if node.op_type == "Shape" and not node.domain and is_known(shapes.get(node.input[0])):
        feeds = {node.input[0]: np.broadcast_to(np.float32(0), [d or 0 for d in shapes[node.input[0]] or ()])}
    elif node.op_type.startswith("Random") or any(name and name not in values for name in node.input):
        return None
    else:
        feeds = {name: numpy_helper.to_array(values[name]) for name in node.input if name}
    for name in node.output:
        shape = shapes.get(name)
        if node.op_type != "Constant" and (not is_known(shape) or np.prod(shape or (), dtype=object) > SMALL):
            return None
    return evaluated(node, feeds, opsets)


def evaluated(node: onnx.NodeProto, feeds: dict[str, np.ndarray], opsets: Iterable) -> list[onnx.TensorProto] | None:
    """Results of one node by the reference evaluator; None where it fails."""
    names = [name for name in node.output if name]
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for name, x in feeds.items()]  # fmt: skip
    graph = helper.make_graph([node], "one", infos, [helper.make_empty_tensor_value_info(name) for name in names])
    model = helper.make_model(graph, opset_imports=list(opsets), ir_version=8)
    try:
        with np.errstate(all="ignore"):
            made = onnx.reference.ReferenceEvaluator(model).run(None, feeds)
        return [numpy_helper.from_array(np.asarray(x), name) for name, x in zip(names, made, strict=True)]
    except Exception:  # of any kind: what the evaluator lacks, and what it makes of operands that do not fit
        return None


# ------------------------------------------------------------------------------------------------- theirs: call by call


def node_of(call: Call) -> onnx.NodeProto | None:
    """The call as a node; None where an attribute cannot be written."""
    node = helper.make_node(
        call.op,
        [f"i{i}" if t is not None else "" for i, t in enumerate(call.inputs)],
        [f"o{i}" for i in range(call.outputs)],
        domain=call.domain,
    )
    try:
        for key, value in call.attributes.items():
            if isinstance(value, Tensor):
                if value.data is None or value.data.dtype == object:
                    return None
                value = numpy_helper.from_array(value.data)
            node.attribute.append(helper.make_attribute(key, value))
    except (TypeError, ValueError):
        return None
    return node


def compared(ours: list[Tensor], theirs: list[Shape | None]) -> str:
    """How the shapes of a call's results agree: the worst of them."""
    found = "equal"
    for mine, other in zip(ours, theirs, strict=False):
        a, b = mine.shape, other
        if a is None or b is None:
            verdict = "equal" if a is None and b is None else "more" if a is None else "missing"
        elif len(a) != len(b) or any(x != y for x, y in zip(a, b, strict=True) if None not in (x, y)):
            return "different"
        else:
            less = any(y is None and x is not None for x, y in zip(a, b, strict=True))
            verdict = "missing" if less else "equal" if a == b else "more"
        found = max(found, verdict, key=("equal", "more", "missing").index)
    return found


def by_call(call: Call, made: list[Tensor]) -> tuple[str, float, str, float]:
    """Verdict and seconds of `infer_node_outputs` on one call, then those of the evaluator."""
    if call.domain not in ("", "ai.onnx.ml") or any(t is not None and t.sequence for t in [*call.inputs, *made]):
        return "no schema", 0.0, "", 0.0
    try:
        schema = onnx.defs.get_schema(call.op, call.opset, call.domain)
    except onnx.defs.SchemaError:
        return "no schema", 0.0, "", 0.0
    node = node_of(call)
    if node is None:
        return "no schema", 0.0, "", 0.0
    opsets = [helper.make_opsetid(call.domain, call.opset)]
    types, data, arrays = {}, {}, {}
    for i, tensor in enumerate(call.inputs):
        if tensor is None:
            continue
        types[f"i{i}"] = helper.make_tensor_type_proto(tensor.dtype or 1, tensor.shape)
        if tensor.data is not None and tensor.data.dtype != object:
            arrays[f"i{i}"] = tensor.data
            data[f"i{i}"] = numpy_helper.from_array(tensor.data)
    start = time.thread_time()
    try:
        out = onnx.shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets, ir_version=8)
        verdict = compared(made, [shape_of(out[f"o{i}"]) if f"o{i}" in out else None for i in range(call.outputs)])
    except Exception:  # of any kind: that is what is measured
        verdict = "raises"
    took, value, taken = time.thread_time() - start, "", 0.0
    known = [t for t in made[: call.outputs] if t.data is not None and t.data.dtype != object]
    if known and len(arrays) == len(types):
        start = time.thread_time()
        results = evaluated(node, arrays, opsets)
        taken = time.thread_time() - start
        value = "raises" if results is None else "equal"
        for mine, other in zip(made, results or (), strict=False):
            if mine.data is not None and mine.data.dtype != object:
                same = np.array_equal(mine.data, numpy_helper.to_array(other), equal_nan=mine.data.dtype.kind == "f")
                value = value if same else "different"
    elif any(t.data is not None for t in made[: call.outputs]):
        value = "of unknown operands"
    return verdict, took, value, taken


# ------------------------------------------------------------------------------------------------------- one file


def peak() -> float:
    """Peak memory of this process since the last call, in MB."""
    with open("/proc/self/status") as status:
        most = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")
    return most / 1024


def agreement(ours: list, theirs: list) -> dict[str, int]:
    """Numbers of products whose operands have equal shapes on both sides, different ones, or some missing on theirs."""
    left, other = collections.Counter(ours), collections.Counter(theirs)
    equal = sum((left & other).values())
    left, other = left - other, other - left
    wrong = 0
    for op in {op for op, _ in left}:
        mine = sum(n for (name, _), n in left.items() if name == op)
        known = sum(n for (name, shapes), n in other.items() if name == op and all(map(is_known, shapes)))
        wrong += min(mine, known)
    return {"equal": equal, "different": wrong, "missing": sum(left.values()) - wrong}


def measured(path: pathlib.Path, given: dict) -> Iterator[dict]:
    """Measurements of one file, step by step: the last line before a child dies names the step."""
    peak()
    before = peak()
    ours = read(path, given)
    line: dict = {"step": "ours", "seconds": ours.seconds, "megabytes": peak() - before, "error": ours.error}
    yield line | {"products": len(ours.products()), "calls": len(ours.calls)}
    try:
        model = load_model(path)
    except InputError:
        return
    for step, function in (("infer_shapes", inferred), ("folding", folded)):
        yield {"step": f"begin {step}"}
        before, start, error = peak(), time.process_time(), ""
        theirs: list = []
        try:
            result = function(onnx.inliner.inline_local_functions(bound(model, ours.inputs)))
            theirs = list(their_products(result.graph))
        except Exception as problem:  # of any kind: that is what is measured
            error = f"{type(problem).__name__}: {' '.join(str(problem).split())[:80]}"
        line = {"step": step, "seconds": time.process_time() - start, "megabytes": peak() - before, "error": error}
        yield line | agreement(ours.products(), theirs)
    yield {"step": "begin call by call"}
    groups: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for call, made, seconds in ours.calls:
        rule = find_rule(call.domain, call.op)
        group = rule.__module__.rpartition(".")[2] if rule is not None else ""
        shape, took, value, taken = by_call(call, made)
        found = groups[group]
        found["calls"] += 1
        found[f"shape {shape}"] += 1
        found["ours ns"] += int(1e9 * seconds)
        if shape != "no schema":
            found["timed"] += 1
            found["theirs ns"] += int(1e9 * took)
        if value:
            found[f"value {value}"] += 1
        if value in ("equal", "different", "raises"):
            found["evaluator ns"] += int(1e9 * taken)
        if shape in ("different", "missing", "raises"):
            found[f"op {call.op} {shape}"] += 1
        if value in ("different", "raises"):
            found[f"folded {call.op} {value}"] += 1
    if ours.refused is not None and ours.error:
        yield {"step": f"begin call by call: {ours.refused.op}, which the importer refuses"}
        call = ours.refused
        rule = find_rule(call.domain, call.op)
        shape, *_ = by_call(call, [])
        if rule is not None and shape != "no schema":
            groups[rule.__module__.rpartition(".")[2]][
                "refused raises" if shape == "raises" else "refused accepts"
            ] += 1
    yield {"step": "calls", "groups": {name: dict(found) for name, found in groups.items()}}


def work(jobs: pathlib.Path) -> None:
    """A child: reads paths from a file, and prints what it measures."""
    with open("/proc/self/status") as status:
        now = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + (GIGABYTES << 30),) * 2)
    for text in jobs.read_text().splitlines():
        print(json.dumps({"file": text, "step": "begin ours"}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        beside = pathlib.Path(text).with_suffix(".json")
        given = json.loads(beside.read_text()) if beside.exists() else {}
        for line in measured(pathlib.Path(text), given):
            # Python's handlers would wait for C++ to return: the signal ends the process instead.
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            print(json.dumps({"file": text, **line}), flush=True)


# --------------------------------------------------------------------------------------------------------- the parent


def measure(files: list[pathlib.Path], folder: pathlib.Path) -> tuple[list[dict], list[str]]:
    """Lines of all files; and for each child that died the file, the step and the cause."""
    lines: list[dict] = []
    died: list[str] = []
    while files:
        jobs = folder / "jobs.txt"
        jobs.write_text("\n".join(map(str, files)) + "\n")
        command = [sys.executable, __file__, "--work", str(jobs)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        last, why = {"file": str(files[0]), "step": "start"}, ""
        while select.select([child.stdout], [], [], PATIENCE)[0]:
            text = child.stdout.readline()
            if not text:
                break
            last = json.loads(text)
            if not last["step"].startswith("begin"):
                lines.append(last)
        else:
            why = f"silent for {PATIENCE} s"
            child.kill()
        code = child.wait()
        if code == 0 and not why:
            break
        if not why:
            why = (
                f"more than {SECONDS} s"
                if code == -signal.SIGPROF
                else signal.Signals(-code).name
                if code < 0
                else str(code)
            )
        died.append(f"{pathlib.Path(last['file']).name}, {last['step'].removeprefix('begin ')}: {why}")
        at = [str(f) for f in files].index(last["file"])
        files = files[at + 1 :]
    return lines, died


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = ROOT.parent / "shared" / "workloads"
    parser.add_argument("--goldens", type=pathlib.Path, default=beside, help="folder of ONNX files")
    parser.add_argument("--cases", type=int, default=400, help="random graphs beside three of each operator")
    parser.add_argument("--graphs", type=pathlib.Path, help="folder to keep the graphs of the tests and the fuzzer in")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables as Markdown")
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--collect", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    if options.collect:
        collect(options.collect)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = options.graphs or pathlib.Path(name)
        for part in ("tests", "fuzz"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        if not any((folder / "tests").iterdir()):
            subprocess.run([sys.executable, __file__, "--collect", str(folder / "tests")], check=False)
        if not any((folder / "fuzz").iterdir()):
            draw(folder / "fuzz", options.cases)
        folders = {"goldens": options.goldens, "tests": folder / "tests", "fuzzer": folder / "fuzz"}
        sets = {what: sorted(where.glob("*.onnx")) for what, where in folders.items()}
        found = {what: measure(files, folder) for what, files in sets.items()}
    written(found, options)


def totals(lines: list[dict], step: str) -> collections.Counter:
    """Sums of a step over all files; `peak` is the largest."""
    out: collections.Counter = collections.Counter()
    for line in lines:
        if line["step"] == step:
            out.update({k: v for k, v in line.items() if k in ("seconds", "equal", "different", "missing", "products")})
            out["files"] += 1
            out["peak"] = max(out["peak"], round(line["megabytes"]))
            out["failed"] += bool(line["error"])
    return out


def failures(lines: list[dict]) -> int:
    """Number of files that the importer reads and for which `infer_shapes` only raises an error."""
    read = {line["file"] for line in lines if line["step"] == "ours" and not line["error"]}
    return sum(line["step"] == "infer_shapes" and bool(line["error"]) and line["file"] in read for line in lines)


def written(found: dict[str, tuple[list[dict], list[str]]], options: argparse.Namespace) -> None:
    """Writes the tables."""
    report = Report()
    report.say(
        f"{header()},",
        f"onnx {onnx.__version__}. Children have {GIGABYTES} GB and {SECONDS} s of processor time per step.",
        "",
        "Counts are of products whose operands have the shapes that the importer finds (equal), others (different),",
        "or none (missing). The importer unrolls loops and inlines functions. Seconds are processor time of all files;",
        "MB is the largest growth of memory over one file.",
        "",
    )
    report.head("graphs", "what", "files", "products", "equal", "different", "missing", "refused", "s", "MB")
    for name, (lines, _) in found.items():
        products = totals(lines, "ours")["products"]
        for step, what in (("ours", "importer"), ("infer_shapes", "`infer_shapes`"), ("folding", "the same, folding")):
            sums = totals(lines, step)
            cells = [""] * 3 if step == "ours" else [f"{sums[k]:,}" for k in ("equal", "different", "missing")]
            report.row(name, what, f"{sums['files']:,}", f"{products:,}", *cells, f"{sums['failed']:,}",
                       f"{sums['seconds']:.2f}", f"{sums['peak']:,}")  # fmt: skip
    report.say("", "Graphs that the importer reads and `infer_shapes` refuses as a whole: "
               + ", ".join(f"{failures(lines)} of the {name}" for name, (lines, _) in found.items()) + ".")  # fmt: skip
    dead = [line for _, died in found.values() for line in died]
    report.say(f"Files over which a child died: {'; '.join(dead) or 'none'}.", "")
    for name, (lines, _) in found.items():
        groups: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for line in lines:
            for group, counts in line.get("groups", {}).items():
                groups[group].update(counts)
        report.say(
            f"Call by call, {name}: shapes by `infer_node_outputs` from the shapes and values that the importer knows",
            "(more: sizes that the importer leaves open; accepts: calls that the importer refuses).",
            "",
        )
        kinds = ("no schema", "equal", "more", "missing", "different", "raises")
        report.head("rules", "calls", *kinds, "accepts", "us, importer", "us, onnx")
        for group, counts in sorted(groups.items()):
            each = [round(counts[f"{who} ns"] / 1e3 / max(counts[of], 1)) for who, of in WHOSE]
            cells = [f"{counts[key]:,}" for key in ("calls", *(f"shape {k}" for k in kinds), "refused accepts")]
            report.row(group, *cells, *each)
        report.say("", f"Values that the importer folds, {name}, by the evaluator.", "")
        kinds = ("equal", "different", "raises", "of unknown operands")
        report.head("rules", *kinds, "us, evaluator")
        for group, counts in sorted(groups.items()):
            values = [counts[f"value {k}"] for k in kinds]
            if any(values):
                each = round(counts["evaluator ns"] / 1e3 / max(sum(values[:3]), 1))
                report.row(group, *(f"{v:,}" for v in values), each)
        report.say("")
        for group, counts in sorted(groups.items()):
            odd = [f"{k.removeprefix('op ')} {n}" for k, n in counts.most_common() if k.startswith(("op ", "folded "))]
            if odd and name != "fuzzer":
                report.say(f"- {group}: {', '.join(odd[:MOST_NAMED])}{', ...' if len(odd) > MOST_NAMED else ''}")
        report.say("")
    report.write(options.out)


if __name__ == "__main__":
    main()
