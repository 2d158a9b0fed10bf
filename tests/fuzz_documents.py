"""Small sound files, one for every reader but that of ONNX models, which fuzzing damages."""

import functools
import json
import pathlib
import tempfile
import types

import numpy as np
import yaml
from workload_models import info, model, node, weight

from mohamjax.hardware import load_templates, template_to_yaml
from mohamjax.io.checkpoint import write_checkpoint
from mohamjax.io.design_arrays import write_design_arrays
from mohamjax.io.designs import designs_document, evaluate_designs, read_designs

BEHIND = {"m.onnx": model([node("MatMul", "x w", "y", "fc")], [info("x", (2, 4))], ["y"], [weight("w", (4, 6))])}
"""Models that stand beside the files that name them."""

_BOUNDS = {"N": 2, "C": 4, "K": 6}
_TEMPLATES = ("simba", "eyeriss")


def _nest(template) -> dict:
    """All loops in the outermost memory: valid for every layer on every template."""
    rows = [
        {"name": level.name, "keep": [int(k) for k in level.keep], "temporal": {"factors": {}, "perm": "PQRSCKN"},
         "spatial": {"X": [], "Y": []}}
        for level in template.levels
    ]  # fmt: skip
    rows[-1]["temporal"]["factors"] = dict(_BOUNDS)
    return {"template": template.name, "levels": rows}


def _schedule(layers: int) -> list[dict]:
    return [{"layer": i, "chiplet": i % 2, "mapping": i % 2} for i in range(layers)]


def designs() -> dict:
    """`designs/1`: two designs of two chiplets for three layers."""
    templates = load_templates(_TEMPLATES)
    sizes = [{"name": level.name, "fanout": list(level.fanout)} for level in templates[0].levels]
    rows = [
        {"network": n, "name": f"l{i}", "type": "fc", "op": "MatMul", "word_bits": 8, "bounds": dict(_BOUNDS),
         "stride": [1, 1], "dilation": [1, 1], "predecessors": before}
        for i, (n, before) in enumerate([(0, []), (0, [0]), (1, [])])
    ]  # fmt: skip
    chiplets = [{"template": _TEMPLATES[0], "tile": 0, "levels": sizes}, {"template": _TEMPLATES[1], "tile": 1}]
    one = {"chiplets": chiplets, "schedule": _schedule(3)}
    return {
        "format": "designs/1", "scenario": "s", "clock_GHz": 1.0, "templates": list(_TEMPLATES),
        "package": {"max_tiles": 4, "interface_counts": [[4, 2], [None, 4]], "contention": "all"},
        "networks": [
            {"name": "a", "source": "a.onnx", "deadline_s": 0.1, "frames_per_second": 30, "weight": 2.5}, {"name": "b"},
        ],
        "layers": rows,
        "mappings": [_nest(t) for t in templates],
        "designs": [{"design_id": i, "latency_s": 1.0, **json.loads(json.dumps(one))} for i in range(2)],
    }  # fmt: skip


def schedule() -> dict:
    """`schedule/1`, which users write by hand."""
    return {
        "format": "schedule/1", "application": ["m.onnx"], "templates": list(_TEMPLATES),
        "mappings": [_nest(t) for t in load_templates(_TEMPLATES)],
        "schedules": [
            {"name": "mine", "chiplets": [{"template": t} for t in _TEMPLATES],
             "schedule": [{"layer": "m/fc", "chiplet": 0, "mapping": 0}]},
        ],
    }  # fmt: skip


def mappings() -> dict:
    """`mappings/1`."""
    template = load_templates(_TEMPLATES)[0]
    entry = {"layer": "m/fc", "template": template.name, "type": "fc", "bounds": dict(_BOUNDS), "stride": [1, 1],
             "dilation": [1, 1], "mappings": [{"levels": _nest(template)["levels"]}]}  # fmt: skip
    return {"format": "mappings/1", "sets": [entry]}


FLUID = {
    "format": "fluid-schedule/1",
    "cases": [
        {"name": f"c{i}", "jobs": 3, "accelerators": 2, "duration": [1.0, 2.0, 0.5], "bytes": [4, 0, 1.5],
         "predecessors": [[], [0], [0, 1]], "accelerator": [0, 1, 0], "order": [0, 1, 2],
         "resource_bandwidth": [1.0, None], "resource_names": ["mi", "dram"], "resources_of_accelerator": [[0], [0, 1]]}
        for i in range(2)
    ],
}  # fmt: skip

_BYTES = {"output_bytes": 8, "weight_bytes": 4, "weights": 6, "external": 2.5, "outputs_read": 0, "outputs_written": 8}
PACKAGE_SCHEDULE = {
    "format": "package-schedule/1",
    "cases": [
        {"name": f"p{i}", "chiplets": 3, "contention": "mesh",
         "bandwidth": {"interface": 1.5, "link": 2, "dram": None, "sram": 8},
         "layers": [
             {"duration": 4, "edges": [], **_BYTES},
             {"duration": 0.5, "edges": [{"from": 0, "operand": "input", "bytes": 8}], **_BYTES},
             {"duration": 3, "edges": [{"from": 0, "bytes": 3}, {"from": 1, "operand": "weight", "bytes": 8}],
              **_BYTES},
         ],
         "assignment": [0, 2, 1], "order": [0, 1, 2], "keep": [True, False, True], "resident": [False, True, True]}
        for i in range(2)
    ],
}  # fmt: skip

JOB_TABLE = {
    "format": "job-table/1", "time_unit": "cycles",
    "resources": [{"name": "dram", "bandwidth": 2.0}],
    "accelerators": [{"name": "a", "resources": ["dram"]}, {"name": "b", "resources": [0]}],
    "jobs": [
        {"name": "j0", "duration": [1.0, 2.0], "bytes": 3, "energy_J": 1e-3},
        {"name": "j1", "duration": [None, 2.0], "bytes": [None, 1], "energy_J": [0, 1], "predecessors": ["j0"]},
    ],
    "schedules": [{"name": "s", "order": ["j0", 1], "accelerator": ["a", 1]}],
}  # fmt: skip

TRANSFER = {
    "format": "job-transfer/1", "mohamjax": "0", "accelerators": ["a", "b"], "accelerator": [0, 1, 0],
    "place": [2, 0, 1], "learnt": {"batch": "x", "method": "ga", "time_unit": "s", "objectives": {"makespan": 1.0}},
}  # fmt: skip

_LEVEL = {
    "name": "spad", "kind": "rf", "instances": 4, "meshX": 2, "meshY": 2, "capacity_words": 32, "word_bits": 8,
    "block_words": 2, "read_bw": None, "write_bw": None, "energy_read_pJ": 0.1, "energy_write_pJ": 0.2, "area_um2": 6.5,
    "energy_per_hop_pJ": 0.0, "fanoutX": 1, "fanoutY": 1, "keep_default": ["Outputs"],
}  # fmt: skip

ARCHITECTURES = {
    "format_version": 1,
    "architectures": [
        {"name": "a",
         "mac": {"name": "mac", "instances": 4, "meshX": 2, "meshY": 2, "energy_pJ": 0.2, "area_um2": 300.0},
         "levels": [_LEVEL, {**_LEVEL, "name": "DRAM", "kind": "dram", "capacity_words": None, "read_bw": 17.9,
                             "keep_default": ["Weights", "Inputs", "Outputs"]}]},
    ],
}  # fmt: skip

_SAMPLE = {
    "id": "s0", "arch": "a",
    "layer": {"name": "l", "shape": "conv", "R": 3, "S": 3, "P": 4, "Q": 4, "C": 2, "K": 6, "N": 1, "wstride": 1},
    "mapping": {
        "levels": [
            {"name": "spad", "keep": [0, 0, 1], "temporal": {"factors": {"R": 3, "K": 6}, "perm": "RKPSQCN"},
             "spatial": {"X": [["C", 2]], "Y": []}},
            {"name": "DRAM", "temporal": {"factors": {"S": 3, "P": 4, "Q": 4}, "perm": "CSRQKPN"}},
        ]
    },
}  # fmt: skip

TECHNOLOGY = """\
format: technology/1
name: mine
scale: {energy: 0.5, area: 0.4, leakage: 0.7}
register: {read_energy_pJ: 0.006, write_energy_pJ: 0.006, area_um2: 4.1, leakage_mW: 0.000002}
multiplier: {energy_pJ: 0.008, area_um2: 4.2, leakage_mW: 0.00001}
dram_energy_pJ: {LPDDR4: 8, HBM2: 3.9}
wire_energy_pJ: 0.08
base: 45nm
adder: {energy_pJ: 0.002, area_um2: 1.5, leakage_mW: 0.00001}
"""

SRAM = """\
width_bits,depth_rows,n_rw_ports,read_energy_pJ_per_access,write_energy_pJ_per_access,area_um2
8,64,1,0.5,0.6,900
8,1024,1,1.5,1.6,9000
64,64,1,2.5,2.6,5000
64,1024,1,5,6,50000
64,64,2,3.5,3.6,7000
64,1024,2,7,8,70000
"""

REQUIREMENTS = """\
format: requirements/1
limits: {latency_s: 0.1, energy_J: 0.01}
chiplets: {least: 1, most: 6, templates: {simba: {least: 1}, eyeriss: {most: 2}}}
homogeneous: false
package:
  open: true
  chiplets:
  - {template: simba, tile: 1, levels: {Global: {capacity_words: 64, fanout: [2, 2]}}}
  - {template: eyeriss, sizes: largest}
pin:
- {layers: "*/fc*", chiplet: 1}
- {layers: m, templates: [simba]}
"""

SCENARIO = """\
name: mine
networks:
- {file: m.onnx, copies: 2, batch: 1, deadline_s: 0.01, frames_per_second: 60, weight: 3}
- {file: m.onnx, name: other, shapes: {x: [3, 4]}, task: vision}
"""

ROBUST = """\
format: robust/1
over: mean
nominal: a
models:
- {name: a, networks: [mine, oth*], weight: 2}
- {name: b, scenario: m.onnx, batch: 4}
held_out:
- {name: c, networks: [other]}
"""

PLATFORM = (
    "name: p\ncores:\n- {style: HB, rows: 32, count: 2}\n- {style: LB_rs, rows: 8, columns: 16}\n- {template: simba}\n"
)

JOBS = """\
job,type,K,C,P,Q,R,S,stride_h,weight,deadline_cycles,tenant
a,CONV,8,4,6,6,3,3,1,1,,x
b,DWCONV,1,8,6,6,3,3,2,2.5,1e6,x
c,FC,10,20,1,1,1,1,1,,,y
"""

TIMELOOP = """\
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {type: LPDDR4, width: 64, block-size: 8, word-bits: 8}}
    subtree:
    - name: PE[0..15]
      local:
      - name: spad
        class: regfile
        attributes: {depth: 220, width: 16, word-bits: 8, block-size: 2, meshX: 4, read_bandwidth: 2}
      - {name: mac, class: intmac, attributes: {datawidth: 8, meshX: 4}}
problem:
  shape:
    name: CNN
    dimensions: [C, M, R, S, N, P, Q]
    coefficients: [{name: Wstride, default: 1}, {name: Hstride, default: 1}, {name: Wdilation, default: 1},
                   {name: Hdilation, default: 1}]
    data-spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S, Hdilation], [Q, Hstride]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read-write: True}
  instance: {C: 8, M: 12, R: 3, S: 3, N: 1, P: 14, Q: 28, Wstride: 2}
mapping:
- {target: spad, type: temporal, factors: R=3 C=8, permutation: RC}
- {target: DRAM, type: spatial, factors: M4, permutation: M, split: 0}
- {target: DRAM, type: temporal, factors: M3 S3 P14 Q28, permutation: MSPQ}
- {target: spad, type: datatype, keep: [Weights, Outputs], bypass: [Inputs]}
architecture_constraints:
  targets:
  - {target: spad, type: temporal, factors: R<=3 Q=1, permutation: RC}
ERT:
  version: 0.3
  tables: [{name: "system.PE[0..15].spad[1..1]", actions: [{name: read, energy: 0.5}, {name: write, energy: 1}]}]
ART:
  version: 0.3
  tables: [{name: system.PE.spad, area: 592}]
"""


def _plain(document) -> bytes:
    return json.dumps(document).encode()


COSTS = """layer,accelerator,duration,bytes,energy_J,predecessors
a,big,400,1600,1e-6,
a,small,900,1600,4e-7,
b,big,300,600,8e-7,a
b,small,700,600,3e-7,a
"""


COST_SCHEDULE = """schedule,layer,accelerator,order
s,a,big,0
s,b,small,1
t,b,big,1
t,a,big,0
"""

LAYERS = """schedule,network,layer,chiplet,template,start,energy
s,a,l0,0,simba,0,1
s,a,l1,1,eyeriss,2.5,1
s,b,l2,0,simba,3,1
t,a,0,x,,0,1
t,a,l1,x,,1,1
t,b,l2,y,eyeriss,2,1
"""

ALLOCATION = """\
- {name: a/l0, core_allocation: [0, 1], start: 0, tiling: [1, 2]}
- {layer: l1, core: x, template: eyeriss}
- {id: 2, cores: [0], order: 4}
"""

PACKAGE = """\
max_tiles: 16
link_bytes_per_cycle: 16
interface_bytes_per_cycle: 4.5
dram_bytes_per_cycle: unlimited
hop_energy_pJ_per_bit: 0.82
router_area_um2: 10000.5
transceiver_area_um2: 0
contention: all
placement: corner
interface_counts: [[4, 2], [null, 4]]
"""

INPUTS = {"files": [["a", 1, 2]]}
"""The inputs that the journal names."""

FRONT = """design_id,latency_s,energy_J,area_mm2,n_chiplets,n_simba,latency_s_a,worst_lateness_s
0,0.5,1e-3,2.5,2,1,0.25,-0.1
1,0.25,2e-3,4,1,1,0.25,
"""

ROBUST_ROWS = """front,design_id,model,role,latency_s,energy_J,area_mm2,runs,reason
robust,0,all models,all,0.5,1e-3,2.5,1,
robust,0,a,nominal,0.25,1e-3,2.5,1,
robust,0,b,searched,0.75,1e-3,2.5,1,
robust,0,c,held out,,,,0,layer n/l fits no chiplet
nominal,0,all models,all,,,,0,some model does not run
nominal,0,a,nominal,0.125,1e-3,4,1,
"""

HISTORY = """generation,evaluations,seconds,hypervolume,front_size,stability
0,64,1.5,0.25,1,0.5
1,128,2,0.5,2,0.25
"""

CONFIG = """\
scenario: toy
budget: tiny
seed: 3
space: chiplets
technology_hash: abcd
device: cpu
versions: {jax: 1.2.3, numpy: '2'}
networks:
- {name: a, layers: 2}
- {name: b, layers: 1}
package: {max_tiles: 4, contention: all}
search: {method: moham, population: 64, generations: 2, budget: tiny, seed: 3}
"""

BOUNDS = {
    "format": "bounds/1", "hypervolume": 0.5, "hypervolume_bound": 0.75, "share": 0.6667,
    "box": {"columns": ["latency_s", "energy_J", "area_mm2"], "ideal": [0.1, 1e-4, 1.0], "reference": [1.0, 0.1, 10.0]},
    "curves": {
        name: {"columns": pair, "steps": [[0.1, 3.0], [0.2, 1.0]]}
        for name, pair in (
            ("latency_of_area", ["area_mm2", "latency_s"]), ("energy_of_area", ["area_mm2", "energy_J"]),
            ("energy_of_latency", ["latency_s", "energy_J"]),
        )
    },
}  # fmt: skip

LINES = ("samples", "lines", "journal")
"""Readers of JSON lines."""


def lines() -> list:
    """Lines of a file: documents of three formats, each followed by its entries."""
    whole = designs()
    rows, nests = whole.pop("designs"), whole["mappings"]
    table, cases = dict(JOB_TABLE), dict(FLUID)
    schedules, single = table.pop("schedules"), cases.pop("cases")
    return [
        {**whole, "mappings": nests[:1]}, {"mappings": nests[1:]}, *rows, table, *schedules,
        {**JOB_TABLE, "schedules": [{**schedules[0], "name": "t"}]}, cases, *single,
    ]  # fmt: skip


def journal() -> list:
    """Lines of the journal of a table of one row."""
    head = {"format": "evaluation-journal/1", "columns": ["file", "entry", "valid"], "inputs": INPUTS}
    return [head, {"rows": 0, "valid": 0, "next": [0, 0], "bytes": 17},
            {"rows": 1, "valid": 1, "next": [0, 1], "bytes": 23}]  # fmt: skip


def results() -> dict[str, bytes]:
    """The files of a results folder."""
    return {"front.csv": FRONT.encode(), "history.csv": HISTORY.encode(), "config.yaml": CONFIG.encode(),
            "bounds.json": _plain(BOUNDS), "designs.json": _plain(designs())}  # fmt: skip


@functools.cache
def _designs_read(evaluate: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "designs.json"
        path.write_bytes(_plain(designs()))
        return evaluate_designs(path) if evaluate else read_designs(path)


def design_file():
    """The designs, read."""
    return _designs_read(False)


def evaluated():
    """The designs, evaluated: their rows, and the reports."""
    return _designs_read(True)


@functools.cache
def _written() -> str:
    return json.dumps(designs_document(evaluated()[1], "s"))


def written() -> dict:
    """The designs as a search writes them."""
    return json.loads(_written())


def _checkpoint() -> bytes:
    arrays = {"genes": np.arange(12).reshape(3, 4), "key": np.zeros(2, np.uint32)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "checkpoint.npz"
        write_checkpoint(path, arrays, {"history": [{"generation": 1}], "fingerprint": "f"})
        return path.read_bytes()


def _arrays() -> bytes:
    """The designs as a file of arrays."""
    with tempfile.TemporaryDirectory() as folder:
        given, path = pathlib.Path(folder) / "designs.json", pathlib.Path(folder) / "designs.npz"
        given.write_bytes(_plain(designs()))
        file = read_designs(given)
        nests = types.SimpleNamespace(mapping=file.mappings, count=file.count)
        write_design_arrays(
            path, file, nests, file.designs, names=[str(name) for name in file.names],
        )  # fmt: skip
        return path.read_bytes()


def sound(reader: str) -> bytes:
    """The sound file of a reader."""
    made = {
        "designs": designs, "schedule": schedule, "mappings": mappings, "fluid": lambda: FLUID,
        "packaged": lambda: PACKAGE_SCHEDULE,
        "jobtable": lambda: JOB_TABLE, "transfer": lambda: TRANSFER, "architectures": lambda: ARCHITECTURES,
        "allocationjson": lambda: yaml.safe_load(ALLOCATION), "batch": designs, "bounds": lambda: BOUNDS,
        "resultdesigns": designs, "words": lambda: ["schema", "designs/1"],
    }  # fmt: skip
    texts = {
        "technology": TECHNOLOGY, "sram": SRAM, "requirements": REQUIREMENTS, "scenario": SCENARIO,
        "platform": PLATFORM, "jobs": JOBS, "timeloop": TIMELOOP, "costs": COSTS, "layers": LAYERS, "front": FRONT,
        "robust": ROBUST, "allocation": ALLOCATION, "package": PACKAGE, "costschedule": COST_SCHEDULE,
        "history": HISTORY, "config": CONFIG, "comparisons": ROBUST_ROWS,
    }  # fmt: skip
    if reader in made:
        return _plain(made[reader]())
    if reader in texts:
        return texts[reader].encode()
    if reader == "template":
        return template_to_yaml(load_templates(("simba",))[0]).encode()
    if reader == "samples":
        return b"\n".join(_plain({**_SAMPLE, "id": f"s{i}"}) for i in range(3))
    if reader in ("lines", "journal"):
        return b"".join(_plain(line) + b"\n" for line in {"lines": lines, "journal": journal}[reader]())
    if reader == "checkpoint":
        return _checkpoint()
    if reader in ("arrays", "batcharrays"):
        return _arrays()
    raise KeyError(reader)


def tree_of(data: bytes, suffix: str):
    """The document as lists and dictionaries."""
    return yaml.safe_load(data) if suffix == ".yaml" else json.loads(data)
