"""Estimates the time of a program on a GPU that is not there: compiles it for that GPU and counts its work.

JAX compiles for a described GPU on any machine that has the CUDA packages (`pip install "jax[cuda12]"`); no device is
needed. The optimised program says which kernels start, how often, and what they read and write. The estimate follows:

- launches: five or more kernels in a row are one graph (`graph` plus `node` for each, see `Costs`), fewer start one by
  one (`single`). A loop whose length the compiler knows starts its kernels that often; any other asks the host in every
  round (`trip`), and the caller guesses its number of rounds;
- a kernel takes the longest of its launch, its bytes through the memory, and its operations. Every operand counts once,
  as if no cache kept it; of a gathered or sliced operand counts only what is taken, and a gathered element moves a
  sector.

Such figures show what limits a program and tell two versions of it apart; they are not measurements.
"""

import dataclasses
import math
import re
from collections.abc import Mapping

import jax
import numpy as np

H200 = {
    "name": '"NVIDIA H200 141GB HBM3e"',
    "cuda_compute_capability": "{ major: 9 feature_extension: ACCELERATED_FEATURES }",
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "threads_per_core_limit": 2048,
    "core_count": 132,
    "fpus_per_core": 128,
    "clock_rate_ghz": 1.98,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_core": 233472,
    "registers_per_core_limit": 65536,
    "registers_per_block_limit": 65536,
    "block_dim_limit_x": 2147483647,
    "block_dim_limit_y": 65535,
    "block_dim_limit_z": 65535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
    "memory_bandwidth": 4800000000000,
    "device_memory_size": 151397597184,
    "l2_cache_size": 52428800,
    "pcie_bandwidth": 34359738368,
    "ecc_enabled": "true",
    "device_vendor": '"NVIDIA Corporation"',
    "platform_version": '"Compute Capability 9.0a"',
    "device_address_bits": 64,
    "driver_version": '"13.0.0"',
    "runtime_version": '"12.8.0"',
    "compile_time_toolkit_version": '"12.8.0"',
    "dnn_version": '"9.10.0"',
}
"""An H200 as XLA describes it."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Microseconds of the host for a graph, for a kernel in it, for a kernel alone, and for a question to the host."""

    graph: float
    node: float
    single: float
    trip: float


LOW, HIGH = Costs(5, 1.5, 2, 10), Costs(10, 2.5, 4.5, 25)
BANDWIDTH = 4.3e12  # bytes per second, of 4.8e12 in the data sheet
SECTORS = 7e12 / 28  # gathered elements per second, from the second-level cache
OPERATIONS = 1e13  # per second: a third of the peak of 32-bit operations, since every kernel computes indices too


KERNELS = {"timeline": (1040, 28)}
"""Work of our own kernels, which the compiled program does not show: instructions of all threads and gathered elements,
per number of the first output. `timeline`: a warp's step has 520 instructions in its PTX for sm_90a and 16 schedules
share it; a schedule gathers four numbers of a record, eight words of its predecessors, and one word for each of 16
accelerators."""


def device() -> jax.sharding.NamedSharding:
    """The H200 as a sharding to compile for. Needs JAX_PLATFORMS=cpu; with a GPU at hand, run there instead.

    Raises:
        RuntimeError: the CUDA packages are missing.
    """
    from jax.experimental import topologies

    fields = " ".join(f"{k} {v}" if str(v).startswith("{") else f"{k}: {v}" for k, v in H200.items())
    target = f"gpu_device_info {{ {fields} }} platform_name: 'CUDA' device_description_str: {H200['name']}"
    target += " dnn_version_info { major: 9 minor: 10 patch: 0 }"
    topology = topologies.get_topology_desc(platform="cuda", target_config=target, topology="1x1x1")
    mesh = jax.sharding.Mesh(np.array(topology.devices[:1]), ("gpu",))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def compiled(function, arguments, static, where):
    """The function compiled for the device of `where`; arguments may be arrays or `jax.ShapeDtypeStruct`s."""

    def shape(leaf):
        kind = jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
        return jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=where)

    with jax.sharding.use_abstract_mesh(where.mesh.abstract_mesh):  # newer Pallas asks the mesh what its devices are
        return function.lower(*jax.tree.map(shape, arguments), **static).compile()


# ---------------------------------------------------------------- reading a program

_BYTES = {"token": 0, **dict.fromkeys(("pred", "s8", "u8"), 1)}
_BYTES |= {**dict.fromkeys(("s16", "u16", "f16", "bf16"), 2), **dict.fromkeys(("s64", "u64", "f64"), 8)}
_NOTHING = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"}
_DEAR = {"divide": 8, "remainder": 20, "power": 40, "log": 16, "log-plus-one": 16, "exponential": 12, "sqrt": 8}
_FREE = {*_NOTHING, "broadcast", "iota", "reshape", "transpose", "slice", "copy", "concatenate", "pad", "reverse"}
_LINE = re.compile(r"^\s+(?P<root>ROOT )?%(?P<name>[\w.\-]+) = (?P<rest>.*)$")


def _arrays(kind: str) -> list[tuple[int, int]]:
    """(elements, bytes of one) of every array in a type."""
    found = re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", kind)
    return [(math.prod(int(x) for x in dims.split(",") if x), _BYTES.get(name, 4)) for name, dims in found]


def _closing(text: str) -> int:
    """Index at which the bracket that opens a text closes; the length of the text if it never does."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return i
    return len(text)


class _Instruction:
    def __init__(self, line: re.Match):
        self.root, self.name, rest = bool(line["root"]), line["name"], re.sub(r"/\*.*?\*/", "", line["rest"])
        end = _closing(rest) + 1 if rest.startswith("(") else rest.index(" ")
        self.kind, rest = rest[:end], rest[end:].strip()
        self.op, rest = rest.split("(", 1)
        end = _closing("(" + rest)
        self.operands = re.findall(r"%([\w.\-]+)", rest[: end - 1])
        self.attributes = rest[end:]
        arrays = _arrays(self.kind)
        self.elements = max([n for n, _ in arrays], default=0)
        self.bytes = sum(n * each for n, each in arrays)

    def calls(self, key: str) -> str:
        found = re.search(rf"\b{key}=%([\w.\-]+)", self.attributes)
        return found[1] if found else ""

    @property
    def source(self) -> str:
        found = re.search(r'op_name="([^"]*)"', self.attributes)
        return found[1] if found else ""


@dataclasses.dataclass
class Count:
    """What a program does in one call.

    Attributes:
        launches: kernels; a sort counts once.
        trips: times that the host is asked.
        bytes: read and written.
        low: estimated milliseconds where launches are cheap.
        high: the same where they are dear.
        loops: questions to the host of the loops whose rounds depend on the data, by source.
        where: low milliseconds by source.
    """

    launches: float = 0
    trips: float = 0
    bytes: float = 0
    low: float = 0
    high: float = 0
    loops: dict[str, float] = dataclasses.field(default_factory=dict)
    where: dict[str, float] = dataclasses.field(default_factory=dict)


def count(text: str, rounds: Mapping[str, float]) -> Count:
    """Counts the work of an optimised program.

    Args:
        text: the program, from `compiled(...).as_text()`.
        rounds: expected rounds of loops whose length depends on the data, by a regular expression for their source;
            1 where none fits.
    """
    return _Program(text, rounds).total


class _Program:
    def __init__(self, text: str, rounds: Mapping[str, float]):
        self.rounds, self.total = rounds, Count()
        self.computations: dict[str, dict[str, _Instruction]] = {}
        entry, current = "", None
        for line in text.splitlines():
            head = re.match(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$", line)
            if head:
                current = self.computations.setdefault(head[2], {})
                entry = head[2] if head[1] else entry
            elif line.startswith("}"):
                current = None
            elif current is not None and (found := _LINE.match(line)):
                instruction = _Instruction(found)
                current[instruction.name] = instruction
        self.walk(entry, 1.0)

    def walk(self, name: str, times: float) -> None:
        """Adds a computation that runs `times` times."""
        row: list[tuple[float, str]] = []
        for each in self.computations[name].values():
            if each.op in _NOTHING or each.op.endswith("-done"):
                continue
            if each.op in ("while", "conditional", "call"):
                self.launch(row, times)
                row = []
                if each.op == "while":
                    self.loop(each, times)
                elif each.op == "call":
                    self.walk(each.calls("to_apply"), times)
                else:  # all branches: an upper bound
                    self.total.trips += times
                    for branch in re.findall(r"%([\w.\-]+)", each.attributes.split("branch_computations=", 1)[1]):
                        if branch in self.computations:
                            self.walk(branch, times)
                continue
            bytes_, gathered, operations = self.work(each, name)
            passes = 1
            sort = self.sort(each)
            if sort:  # by exchanges, of which those within 2,048 numbers need no pass of their own
                bits = max(1, (self.length(sort) - 1).bit_length())
                passes = 1 + sum(k - 10 for k in range(12, bits + 1))
                operations = sort.elements * bits * bits * 2
            self.total.bytes += times * bytes_ * passes
            seconds = max(bytes_ / BANDWIDTH + gathered / SECTORS, operations / OPERATIONS / passes)
            row += [(seconds * 1e6, each.source)] * passes
            self.total.launches += times * (1 - passes)
        self.launch(row, times)

    def sort(self, each: _Instruction) -> _Instruction | None:
        """The sort that an instruction is, or is made of."""
        body = self.computations.get(each.calls("calls"), {}) if each.op == "fusion" else {each.name: each}
        return next((inner for inner in body.values() if inner.op == "sort"), None)

    def length(self, sort: _Instruction) -> int:
        """Length of the sorted axis."""
        dims = re.search(r"\[([\d,]*)\]", sort.kind)
        sizes = [int(x) for x in dims[1].split(",") if x] if dims else [1]
        axis = re.search(r"dimensions=\{(\d+)\}", sort.attributes)
        return sizes[int(axis[1])] if axis and int(axis[1]) < len(sizes) else max(sizes)

    def launch(self, row: list[tuple[float, str]], times: float) -> None:
        """Adds kernels that follow each other."""
        total = self.total
        total.launches += times * len(row)
        for costs, field in ((LOW, "low"), (HIGH, "high")):
            each = costs.node if len(row) >= 5 else costs.single
            spent = [max(each, work) for work, _ in row]
            whole = sum(spent) + (costs.graph if len(row) >= 5 else 0)
            setattr(total, field, getattr(total, field) + times * whole / 1e3)
            if field == "low":
                for value, (_, source) in zip(spent, row, strict=True):
                    total.where[source] = total.where.get(source, 0.0) + times * value * whole / sum(spent) / 1e3

    def loop(self, each: _Instruction, times: float) -> None:
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', each.attributes)
        if known:
            self.walk(each.calls("body"), times * int(known[1]))
            return
        guess = next((n for pattern, n in self.rounds.items() if re.search(pattern, each.source)), 1.0)
        asked = times * (guess + 1)
        self.total.loops[each.source] = self.total.loops.get(each.source, 0.0) + asked
        self.total.trips += asked
        self.total.low += asked * LOW.trip / 1e3
        self.total.high += asked * HIGH.trip / 1e3
        self.total.where[each.source] = self.total.where.get(each.source, 0.0) + asked * LOW.trip / 1e3
        self.walk(each.calls("body"), times * guess)
        self.walk(each.calls("condition"), asked)

    def work(self, each: _Instruction, name: str) -> tuple[float, float, float]:
        """Bytes, gathered elements and operations of one kernel."""
        if each.op == "fusion":
            return self.fused(each)
        peers = self.computations[name]
        own = next((costs for kernel, costs in KERNELS.items() if f"/{kernel}/pallas_call" in each.source), None)
        if each.op == "custom-call" and own is not None:
            instructions, gathers = own
            moved = each.bytes + sum(peers[o].bytes for o in each.operands if o in peers)
            return moved, gathers * each.elements, instructions * each.elements
        if each.op in ("dynamic-slice", "slice"):
            return 2 * each.bytes, 0, 0
        if each.op == "dynamic-update-slice":
            return 2 * peers[each.operands[1]].bytes, 0, 0
        return sum(peers[o].bytes for o in each.operands if o in peers) + each.bytes, 0, each.elements

    def fused(self, fusion: _Instruction) -> tuple[float, float, float]:
        body = self.computations[fusion.calls("calls")]
        users: dict[str, list[_Instruction]] = {}
        for each in body.values():
            for operand in each.operands:
                users.setdefault(operand, []).append(each)
        bytes_ = gathered = operations = 0.0
        for each in body.values():
            if each.op == "parameter":
                taken, elements = self.taken(each, users)
                bytes_, gathered = bytes_ + taken, gathered + elements
            elif each.op not in _FREE:
                size = each.elements
                if each.op in ("reduce", "scatter"):
                    size = max([size, *(body[o].elements for o in each.operands if o in body)])
                operations += size * _DEAR.get(each.op, 1)
        root = next(each for each in body.values() if each.root)
        for out in [body[o] for o in root.operands] if root.op == "tuple" else [root]:
            while out.op == "bitcast":
                out = body[out.operands[0]]
            if out.op == "dynamic-update-slice":
                bytes_ += body[out.operands[1]].bytes
            elif out.op == "scatter":
                updates = out.operands[len(out.operands) // 2 + 1 :]
                bytes_ += 2 * sum(body[o].bytes for o in updates)
            else:
                bytes_ += out.bytes
        return bytes_, gathered, operations

    def taken(self, parameter: _Instruction, users: Mapping[str, list[_Instruction]]) -> tuple[float, float]:
        """Bytes that a fusion reads of a parameter, and elements that it gathers from it."""
        bytes_ = elements = 0.0
        names = [parameter.name]
        while names:
            name = names.pop()
            for user in users.get(name, []):
                first = bool(user.operands) and user.operands[0] == name
                if user.op == "bitcast":
                    names.append(user.name)
                elif user.op in ("slice", "dynamic-slice") and first:
                    bytes_ += user.bytes
                elif user.op == "gather" and first:
                    bytes_ += user.bytes
                    sizes = re.search(r"slice_sizes=\{([\d,]*)\}", user.attributes)
                    width = math.prod(int(x) for x in sizes[1].split(",") if x) if sizes else 1
                    elements += user.elements / max(1, width)
                elif user.op in ("dynamic-update-slice", "scatter") and first:
                    continue
                else:
                    return parameter.bytes, elements
        return min(bytes_, parameter.bytes), elements
