"""Reading and writing Timeloop's own YAML."""

import json
import re

import jax
import numpy as np
import pytest
import yaml
from conftest import reference
from random_nests import random_layer_and_mapping

from mohamjax.cli import main
from mohamjax.errors import InputError
from mohamjax.hardware import DATA_SPACES
from mohamjax.io.samples import read_architectures, read_samples
from mohamjax.io.timeloop import read_timeloop
from mohamjax.io.timeloop_writer import timeloop_documents, write_timeloop
from mohamjax.mapping.space import UNLIMITED
from mohamjax.workload import DIMS, WorkloadShape

NESTED = """
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - name: DRAM
      class: DRAM
      attributes: {type: LPDDR4, width: 64, block-size: 8, word-bits: 8}
    subtree:
    - name: chip
      attributes: {technology: 45nm}
      local:
      - name: glb
        class: smartbuffer_SRAM
        attributes: {memory_depth: 16768, memory_width: 64, block-size: 8, word-bits: 8,
                     read_bandwidth: 16, write_bandwidth: 16}
      - name: column[0..13]
        class: regfile
        attributes: {depth: 16, width: 8, word-bits: 8, block-size: 1, meshX: 14}
      subtree:
      - name: PE[0..167]
        local:
        - name: spad
          class: regfile
          attributes: {depth: 220, width: 16, word-bits: 8, block-size: 2, meshX: 14}
        - name: mac
          class: intmac
          attributes: {datawidth: 8, meshX: 14}
ERT:
  version: 0.3
  tables:
  - name: system.chip.glb[1..1]
    actions: [{name: read, energy: 26}, {name: write, energy: 29.25}, {name: update, energy: 29.25}]
  - name: system.chip.PE[0..167].mac[1..1]
    actions: [{name: compute, energy: 0.2125}]
ART:
  version: 0.3
  tables:
  - {name: system.chip.glb, area: 592000}
"""

NODES = """
architecture:
  version: 0.4
  nodes:
  - !Component
    name: DRAM
    class: DRAM
    attributes: {width: 64, block_size: 8, datawidth: 8}
  - !Container
    name: chip
  - !Component
    name: glb
    class: smartbuffer_SRAM
    attributes: {depth: 16768, width: 64, block_size: 8, datawidth: 8, read_bandwidth: 16, write_bandwidth: 16}
    constraints: {dataspace: {keep: [Inputs, Outputs], bypass: [Weights]}}
  - !Component
    name: column
    class: storage
    spatial: {meshX: 14}
    attributes: {depth: 16, datawidth: 8}
  - !Container
    name: PE
    spatial: {meshY: 12}
  - !Component
    name: spad
    class: smartbuffer_RF
    attributes: {depth: 220, width: 16, datawidth: 8, block_size: 2}
  - !Component
    name: mac
    class: intmac
"""

PROBLEM = """
problem:
  version: 0.3
  shape:
    name: CNN
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 1}
    data-spaces:
    - name: Weights
      projection: [[[C]], [[M]], [[R]], [[S]]]
    - name: Inputs
      projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S, Hdilation], [Q, Hstride]]]
    - name: Outputs
      projection: [[[N]], [[M]], [[Q]], [[P]]]
      read-write: True
  instance: {C: 8, M: 12, R: 3, S: 3, N: 1, P: 14, Q: 28, Wstride: 2}
"""

MAPPING = """
mapping:
- {target: spad, type: temporal, factors: R=3 C=8, permutation: RC}
- {target: column, type: spatial, factors: S3 M4, permutation: SM, split: 0}
- {target: glb, type: spatial, factors: [Q=14], permutation: [Q]}
- {target: glb, type: temporal, factors: "P=14 Q=2", permutation: PQ}
- {target: DRAM, type: temporal, factors: M=3, permutation: M}
- {target: glb, type: datatype, keep: [Inputs, Outputs], bypass: [Weights]}
"""

CONSTRAINTS = """
architecture_constraints:
  targets:
  - {target: glb, type: bypass, bypass: [Weights], keep: [Inputs, Outputs]}
  - {target: glb, type: spatial, factors: N=1 C=1 P=1 R=1 S=1, permutation: NCPRSQM, split: 7}
  - {target: column, type: spatial, factors: N=1 P<=4 Q=1, permutation: NPQRSCM, split: 0}
mapspace_constraints:
  targets:
  - {target: glb, type: temporal, factors: Q=1 R=1 S=1 P=0, permutation: QRSC}
"""


def written(tmp_path, **texts):
    paths = []
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.yaml")
        paths[-1].write_text(text)
    return paths


@pytest.mark.parametrize("text", [NESTED, NODES], ids=["subtree", "nodes"])
def test_both_forms_of_an_architecture(tmp_path, text):
    got = read_timeloop(*written(tmp_path, arch=text)).architecture
    machine = got.machine
    assert got.level_names == ("spad", "column", "glb", "DRAM")
    assert got.mac_name == "mac"
    assert machine.mesh.tolist() == [[14, 12], [14, 1], [1, 1], [1, 1]]
    assert machine.fanout.tolist() == [[1, 1], [1, 12], [14, 1], [1, 1]]
    assert machine.mac_mesh.tolist() == [14, 12]
    assert machine.capacity.tolist() == [440, 16, 134144, np.inf]
    assert machine.block_words.tolist() == [2, 1, 8, 8]
    assert machine.bandwidth.tolist() == [[np.inf] * 2, [np.inf] * 2, [16, 16], [np.inf] * 2]
    assert machine.reduces.tolist() == [True, True, True, False]
    if text is NESTED:
        assert machine.access_energy[2].tolist() == [26, 29.25]
        assert machine.area[2] == 592000
        assert machine.mac_energy == 0.2125
    else:
        assert machine.keep[2].tolist() == [False, True, True]


def test_problem_and_mapping(tmp_path):
    got = read_timeloop(*written(tmp_path, all=NESTED + PROBLEM + MAPPING))
    shape, mapping = got.shape, got.mapping
    assert shape.bounds == (1, 1, 12, 8, 14, 28, 3, 3)
    assert (shape.stride, shape.dilation) == ((2, 1), (1, 1))

    def loops(factors, order):
        return [(DIMS[d], int(factors[d])) for d in order if factors[d] > 1]

    assert loops(mapping.temporal[0], mapping.order[0]) == [("R", 3), ("C", 8)]
    assert loops(mapping.spatial[1, 1], mapping.spatial_order[1, 1]) == [("S", 3), ("K", 4)]
    assert loops(mapping.spatial[0, 2], mapping.spatial_order[0, 2]) == [("Q", 14)]
    assert loops(mapping.temporal[2], mapping.order[2]) == [("P", 14), ("Q", 2)]
    assert mapping.keep.tolist() == [[True] * 3, [True] * 3, [False, True, True], [True] * 3]


def test_constraints(tmp_path):
    limits = read_timeloop(*written(tmp_path, arch=NESTED, rules=CONSTRAINTS)).constraints
    assert limits.keep[2].tolist() == [False, True, True]
    index = {d: i for i, d in enumerate(DIMS)}
    temporal = dict(zip(DIMS, limits.temporal_max[2].tolist(), strict=True))
    assert temporal == {d: 1 if d in "QRS" else UNLIMITED for d in DIMS}
    assert [DIMS[d] for d in limits.order[2] if d >= 0] == ["Q", "R", "S", "C"]
    along_x = dict(zip(DIMS, limits.spatial_max[0, 2].tolist(), strict=True))
    assert {d for d, n in along_x.items() if n > 1} == {"Q", "K"}
    assert limits.spatial_max[1, 2].max() == 1
    along_y = dict(zip(DIMS, limits.spatial_max[1, 1].tolist(), strict=True))
    assert along_y["P"] == 4
    assert along_y["C"] == UNLIMITED
    assert along_y["N"] == along_y["Q"] == 1
    assert limits.spatial_max[0, 1, index["C"]] == 1
    assert limits.order[0].tolist() == [-1] * 8


SPATIAL = """
mapping:
- {target: glb, type: spatial, factors: C=4 M=2, permutation: C, split: 2}
- {target: DRAM, type: temporal, factors: C=2 M=6 R=3 S=3 P=14 Q=28, permutation: Q}
"""


@pytest.mark.parametrize(
    ("dimensions", "along_y", "order"), [("C, M, R, S, N, P, Q", 1, "QCKRSP"), ("C, R, S, N, P, Q, M", 2, "QCRSPK")]
)
def test_a_permutation_is_completed_in_the_order_of_the_problem(tmp_path, dimensions, along_y, order):
    problem = PROBLEM.replace("C, M, R, S, N, P, Q", dimensions)
    got = read_timeloop(*written(tmp_path, all=NESTED + problem + SPATIAL)).mapping
    assert got.spatial[0, 2, DIMS.index("C")] == 4
    assert got.spatial[:, 2, DIMS.index("K")].tolist() == [2 // along_y, along_y]
    assert "".join(DIMS[d] for d in got.order[3] if got.temporal[3, d] > 1) == order


def test_the_preset_problem_completes_a_permutation_in_its_own_order(tmp_path):
    problem = "problem: {shape: cnn-layer, R: 3, S: 3, P: 14, Q: 28, C: 8, K: 12, N: 1}\n"
    got = read_timeloop(*written(tmp_path, all=NESTED + problem + SPATIAL)).mapping
    assert got.spatial[:, 2, DIMS.index("K")].tolist() == [1, 2]
    assert "".join(DIMS[d] for d in got.order[3] if got.temporal[3, d] > 1) == "QRSPCK"


def test_a_split_of_constraints_counts_in_the_order_of_the_problem(tmp_path):
    def along_x_and_y(rule, **more):
        rules = f"mapspace_constraints: {{targets: [{{target: column, type: spatial, {rule}}}]}}\n"
        # The columns have three times four children.
        architecture = re.sub(r"(block-size: 2|datawidth: 8), meshX: 14", r"\1, meshX: 42", NESTED)
        limits = read_timeloop(*written(tmp_path, arch=architecture, rules=rules, **more)).constraints
        return ["".join(d for d, n in zip(DIMS, axis, strict=True) if n > 1) for axis in limits.spatial_max[:, 1]]

    assert along_x_and_y("permutation: C, split: 2") == ["GC", "NKPQRS"]
    assert along_x_and_y("permutation: C, split: 2", problem=PROBLEM) == ["KC", "GNPQRS"]
    # The letter L is the second part of K (M), of which one part may run along either axis.
    both = PROBLEM.replace("[C, M, R", "[C, M, L, R").replace("[[M]], [[R]]", "[[M]], [[L]], [[R]]")
    both = both.replace("[[M]], [[Q]]", "[[M]], [[L]], [[Q]]").replace("M: 12", "M: 6, L: 2")
    assert along_x_and_y("permutation: CM, split: 2", problem=both) == ["KC", "GNKPQRS"]


def test_reference_machines_and_mappings_go_there_and_back(tmp_path):
    architectures = read_architectures(reference("timeloop/architectures.json"))
    done = set()
    for sample in read_samples(reference("timeloop/samples_smoke.jsonl"), architectures):
        folder = tmp_path / sample.id
        files = write_timeloop(folder, sample.architecture, sample.shape, sample.mapping)
        assert sorted(f.name for f in files) == ["ART.yaml", "ERT.yaml", "arch.yaml", "mapping.yaml", "problem.yaml"]
        back = read_timeloop(*files)
        levels = len(sample.architecture.level_names)
        assert back.architecture.level_names == sample.architecture.level_names
        machine = jax.tree.map(lambda x, n=levels: x[:n] if x.ndim else x, sample.architecture.machine)
        wanted = machine.replace(
            keep=np.ones_like(machine.keep),
            mac_mesh=sample.architecture.machine.mac_mesh,
        )
        jax.tree.map(np.testing.assert_array_equal, back.architecture.machine, wanted)
        assert back.shape == sample.shape
        mapping = sample.mapping
        np.testing.assert_array_equal(back.mapping.temporal, mapping.temporal[:levels])
        np.testing.assert_array_equal(back.mapping.order, mapping.order[:levels])
        np.testing.assert_array_equal(back.mapping.spatial, mapping.spatial[:, :levels])
        np.testing.assert_array_equal(back.mapping.keep[:-1], mapping.keep[: levels - 1])
        for axis in range(2):
            for i in range(levels):
                order = [d for d in mapping.spatial_order[axis, i] if mapping.spatial[axis, i, d] > 1]
                again = [d for d in back.mapping.spatial_order[axis, i] if mapping.spatial[axis, i, d] > 1]
                assert order == again
        done.add(sample.architecture.name)
    assert done == set(architectures)


def test_depthwise_problem_with_channels_as_groups(tmp_path):
    text = PROBLEM.replace("[C, M, R, S, N, P, Q]", "[C, R, S, N, P, Q]")
    text = text.replace("[[[C]], [[M]], [[R]], [[S]]]", "[[[C]], [[R]], [[S]]]")
    text = text.replace("[[[N]], [[M]], [[Q]], [[P]]]", "[[[N]], [[C]], [[Q]], [[P]]]").replace("M: 12, ", "")
    shape = read_timeloop(*written(tmp_path, problem=text)).shape
    assert shape.bounds == (8, 1, 1, 1, 14, 28, 3, 3)
    mapping = "mapping:\n- {target: DRAM, type: temporal, factors: C8 P14 Q28 R3 S3, permutation: CPQRS}\n"
    got = read_timeloop(*written(tmp_path, arch=NESTED, problem=text, mapping=mapping)).mapping
    assert got.temporal[3].tolist() == [8, 1, 1, 1, 14, 28, 3, 3]


def test_the_preset_problem(tmp_path):
    text = "problem: {shape: cnn-layer, R: 3, S: 3, P: 4, Q: 4, C: 2, K: 5, N: 1, Hstride: 2}"
    shape = read_timeloop(*written(tmp_path, problem=text)).shape
    assert shape.bounds == (1, 1, 5, 2, 4, 4, 3, 3)
    assert shape.stride == (1, 2)


@pytest.mark.parametrize(
    ("old", "new", "stride", "note"),
    [
        ("Wstride: 2}", "Wstride: 2, WStride: 3, densities: {}}", (2, 1), "not read: WStride, densities"),
        ("[P, Wstride]", "[P]", (1, 1), ""),
        ("name: Wstride, default: 1", "name: Wstride, default: 3", (2, 1), ""),
        ("Wstride: 2}", "}", (1, 1), ""),
    ],
)
def test_coefficients_are_those_that_the_problem_declares(tmp_path, old, new, stride, note):
    given = read_timeloop(*written(tmp_path, problem=PROBLEM.replace(old, new)))
    assert given.shape.stride == stride
    assert [text.partition("are ")[2] for text in given.notes] == ([note] if note else [])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("version: 0.3\n  subtree", "version: 0.1\n  subtree", "architecture, version: 0.1 is not read"),
        ("memory_depth: 16768", "memory_depth: $size", "glb, memory_depth: '$size' is an expression or text"),
        ("memory_depth: 16768", "memory_depth: -1", "-1 is no number of 0 or more"),
        ("memory_depth: 16768, ", "", "glb: has no size"),
        ("memory_width: 64", "memory_width: 128", "rows of 2 blocks"),
        ("read_bandwidth: 16", "shared_bandwidth: 0", "shared_bandwidth: is 0"),
        ("read_bandwidth: 16", "multiple-buffering: 2", "multiple-buffering: is not modelled"),
        ("read_bandwidth: 16", "network_read: noc", "network_read: is not modelled"),
        ("read_bandwidth: 16", "read_bandwidth: 0", "read_bandwidth: is 0"),
        ("memory_depth: 16768", "memory_depth: 1" + "0" * 400, "the integer 1000000000... has 401 digits"),
        ("memory_depth: 16768", "memory_depth: 1" + "0" * 40, "is no whole number up to 2^53"),
        ("column[0..13]", "column[0.." + "9" * 5000 + "]", "the range is too large"),
        ("class: intmac", "class: regfile", "does not end in a MAC"),
        ("class: regfile", "class: intmac", "a second arithmetic component"),
        ("PE[0..167]", "PE[0..166]", "is not 167 instances"),
        ("column[0..13]", "column[0..9]", "is not 10 instances"),
        ("name: spad", "name: glb", "the name comes twice"),
        ("ERT:", "compound_components:", "'compound_components' is not read"),
        ("  - name: system\n", "  - name: other\n  - name: system\n", "has several roots"),
        ("technology: 45nm", "technology: 45nm, technology: 40nm", "the key 'technology' is written twice"),
        ("architecture:\n", "architecture: [\n", "is not valid YAML"),
    ],
)
def test_an_architecture_outside_the_subset_is_refused(tmp_path, old, new, says):
    assert old in NESTED
    (path,) = written(tmp_path, arch=NESTED.replace(old, new, 1))
    with pytest.raises(InputError) as error:
        read_timeloop(path)
    assert says in str(error.value)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_an_architecture_has_no_constraints_inside(tmp_path):
    for text in (NESTED, NODES):
        for key, says in (
            ("constraints: []", "constraints: are not read here; call them `architecture_constraints`"),
            ("variables: {}", "variables: is not read; known are n"),
        ):
            inside = text.replace("architecture:\n", f"architecture:\n  name: one\n  {key}\n")
            with pytest.raises(InputError, match=says):
                read_timeloop(*written(tmp_path, arch=inside))
    with pytest.raises(InputError, match="subtree: is not read; known are name, nodes, version"):
        read_timeloop(*written(tmp_path, arch=NODES.replace("  nodes:\n", "  subtree: []\n  nodes:\n")))


@pytest.mark.parametrize(
    ("dataspace", "stored"),
    [
        ("{bypass: [Weights]}", [False, True, True]),
        ("{keep_only: [Weights]}", [True, False, False]),
        ("{bypass_only: [Weights, Outputs]}", [False, True, False]),
    ],
)
def test_data_spaces_of_a_node(tmp_path, dataspace, stored):
    text = NODES.replace("{keep: [Inputs, Outputs], bypass: [Weights]}", dataspace)
    rules = "mapspace_constraints: {targets: [{target: glb, type: temporal, factors: N=1}]}\n"
    given = read_timeloop(*written(tmp_path, arch=text, rules=rules))
    assert given.architecture.machine.keep[2].tolist() == stored
    # Constraints may bypass what the node does not name, at all levels but the outermost.
    named = [False, True, True] if "_only" not in dataspace else [False] * 3
    assert given.constraints.may_bypass.tolist() == [[True] * 3, [True] * 3, named, [False] * 3]


def test_a_node_that_is_not_enabled_is_none(tmp_path):
    wanted = read_timeloop(*written(tmp_path, arch=NODES)).architecture
    disabled = "  - !Component\n    name: other\n    class: SRAM\n    enabled: false\n    spatial: {meshX: 2}\n"
    text = NODES.replace("    name: chip\n", f"    name: chip\n    enabled: true\n{disabled}")
    got = read_timeloop(*written(tmp_path, arch=text)).architecture
    assert got.level_names == wanted.level_names
    jax.tree.map(np.testing.assert_array_equal, got.machine, wanted.machine)


def test_a_container_gives_its_attributes_to_the_nodes_after_it(tmp_path):
    text = NODES.replace("name: chip\n", "name: chip\n    attributes: {read_bandwidth: 5, datawidth: 4, depth: 3}\n")
    text = text.replace("name: PE\n", "name: PE\n    attributes: {read_bandwidth: 2}\n")
    text = text.replace("{depth: 16, datawidth: 8}", "{depth: 16}")
    machine = read_timeloop(*written(tmp_path, arch=text)).architecture.machine
    assert machine.bandwidth[:, 0].tolist() == [2, 5, 16, np.inf]
    assert machine.word_bits.tolist() == [8, 4, 8, 8]
    assert machine.capacity.tolist() == [440, 16, 134144, np.inf]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("name: glb", "name: glb\n    sparse_optimizations: {}", "sparse_optimizations: is not read; known are"),
        ("name: chip", "name: chip\n    networks: []", "networks: is not read; known are"),
        ("name: glb", "name: glb\n    enabled: 0", "enabled: 0 is no truth value"),
        ("name: column", 'name: "column[0..13]"', r"column\[0..13\]: a range in the name of a node is not read"),
        ("name: PE", 'name: "PE[0..11]"', r"PE\[0..11\]: a range in the name of a node is not read"),
        ("depth: 16, d", "depth: 16, instances: 13, d", "instances: is not the 14 that the `spatial` of the nodes"),
        ("class: intmac", "class: intmac\n    attributes: {meshX: 16}", "meshX: is not the 14 that the `spatial`"),
        ("spatial: {meshX: 14}", "spatial: {meshX: 14, meshZ: 2}", "spatial, meshZ: is not read; known are meshX"),
        ("dataspace: {keep", "dataspace: {no_coalesce: [Inputs], keep", "dataspace, no_coalesce: is not read; known"),
        ("dataspace: {keep", "dataspace: {keep_only: [Inputs], keep", "dataspace, keep_only: stands for both lists"),
        ("!Container\n    name: PE", "!Parallel\n    name: PE", "a node !Parallel is not read"),
        ("constraints: {dataspace", "constraints: {temporal: {factors: [R=1]}, dataspace", "inside a node"),
        ("bypass: [Weights]", "bypass: [Weight]", "'Weight' is no data space"),
        ("bypass: [Weights]", "bypass: [Inputs]", "both kept and bypassed"),
    ],
)
def test_nodes_outside_the_subset_are_refused(tmp_path, old, new, says):
    assert old in NODES
    with pytest.raises(InputError, match=says):
        read_timeloop(*written(tmp_path, arch=NODES.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[[C]], [[M]], [[R]], [[S]]", "[[C]], [[M]], [[R]]", "not those of a convolution"),
        ("[C, M, R", "[C, X, R", "unknown dimension 'X'"),
        ("[C, M, R", "[K, M, R", "name a dimension twice"),
        ("C: 8", "C: 0", "C: 0 is no positive integer"),
        ("- {name: Wstride, default: 1}", "- 3", "coefficients: is no mapping of keys to values"),
        ("R=3 C=8", "R=3 C=" + "9" * 5000, "is no factor"),
        ("C: 8, ", "", "the bound is missing"),
        ("[P, Wstride]", "[P, WStride]", "projection: 'WStride' is none of the problem's coefficients; declare it"),
        ("[P, Wstride]", "[P, 2]", "'2' is none of the problem's coefficients"),
        ("[[[C]], [[M]], [[R]]", "[[[C]], [[M, Wstride]], [[R]]", "K has the coefficient 'Wstride'; the model has"),
        ("[[N]], [[C]], [[R,", "[[N, Wstride]], [[C]], [[R,", "N has the coefficient 'Wstride'; the model has"),
        ("read-write: True", "read-write: False", "is out of order"),
        ("R=3 C=8", "R=3 C=4", "factors of C multiply to 4 (4 at spad), its bound is 8"),
        ("R=3 C=8", "R=3 C<=8", "needs every factor as a number"),
        ("Q=2", "Q=0", "a factor of 0 is the whole bound of Q, which has other factors too"),
        ("target: spad, type: temporal, factors: R=3 C=8", "target: spad, type: spatial, factors: R=1", "one child"),
        ("R=3 C=8", "R=3 C=eight", "'C=eight' is no factor"),
        ("R=3 C=8", "R=3 C=8 R=1", "name a dimension twice"),
        ("permutation: RC", "permutation: RRC", "names a dimension twice"),
        ("target: spad", "target: spads", "'spads' is no storage level; the levels are spad, column, glb, DRAM"),
        ("type: datatype", "type: skew", "'skew' is not read"),
        (
            "target: column, type: spatial",
            "target: column, no_multicast: 1, type: spatial",
            "no_multicast: is not read",
        ),
        ("target: column", "target: glb", "a second spatial directive for glb"),
    ],
)
def test_a_problem_or_mapping_outside_the_subset_is_refused(tmp_path, old, new, says):
    text = PROBLEM + MAPPING
    assert old in text
    with pytest.raises(InputError) as error:
        read_timeloop(*written(tmp_path, arch=NESTED, rest=text.replace(old, new, 1)))
    assert says in str(error.value)


@pytest.mark.parametrize(("missing", "has"), [("a problem", "an architecture"), ("an architecture", "a problem")])
def test_what_a_mapping_lacks_is_told(tmp_path, capsys, missing, has):
    """Files in a folder belong to the mappings in it: a mapping beside the folder does not get them."""
    texts = {"an architecture": NESTED, "a problem": PROBLEM}
    (tmp_path / "full").mkdir()
    (own,) = written(tmp_path / "full", part=texts[missing])
    files = written(tmp_path, given=texts[has], mine=MAPPING)
    told = f"needs {missing}, and has {has}; give its file too, by name: what a folder holds belongs to the mappings in"
    assert main(["evaluate", "mappings", "--timeloop", str(tmp_path / "full"), *map(str, files)]) == 2
    assert told in capsys.readouterr().err
    assert read_timeloop(own, *files).mapping is not None


def test_parts_that_need_each_other(tmp_path):
    with pytest.raises(InputError, match="needs an architecture and a problem"):
        read_timeloop(*written(tmp_path, mapping=MAPPING))
    with pytest.raises(InputError, match="need an architecture"):
        read_timeloop(*written(tmp_path, rules=CONSTRAINTS))
    with pytest.raises(InputError, match="comes twice"):
        read_timeloop(*written(tmp_path, a=PROBLEM, b=PROBLEM))
    with pytest.raises(InputError, match="no such file"):
        read_timeloop(tmp_path / "absent.yaml")


def test_what_the_files_cannot_say_is_not_written(tmp_path):
    architecture = read_timeloop(*written(tmp_path, arch=NESTED)).architecture
    _, mapping = random_layer_and_mapping(np.random.default_rng(0), 4, loops=0)
    mapping.spatial[:, 1, DIMS.index("P")] = 2
    with pytest.raises(InputError, match="P runs along both X and Y"):
        timeloop_documents(architecture, None, mapping)


def test_a_dimension_along_both_axes_becomes_two(tmp_path):
    architecture = read_timeloop(*written(tmp_path, arch=NESTED)).architecture
    rng = np.random.default_rng(1)
    layer, mapping = random_layer_and_mapping(rng, 4, loops=6)
    spatial = mapping.spatial.copy()
    spatial[:, :] = 1
    for level, (x, y) in ((1, (2, 3)), (2, (5, 2))):
        for letter in "GNKC":
            spatial[:, level, DIMS.index(letter)] = x, y
    mapping = mapping.replace(spatial=spatial, keep=np.ones((4, 3), bool))
    bounds = np.prod(mapping.temporal, axis=0) * np.prod(spatial, axis=(0, 1))
    shape = WorkloadShape(**dict(zip(DIMS, map(int, bounds), strict=True)), stride=tuple(map(int, layer.stride)))
    documents = timeloop_documents(architecture, shape, mapping)
    instance = documents["problem"]["problem"]["instance"]
    assert instance["L"] == 6
    assert instance["K"] * 6 == shape.K
    back = read_timeloop(*write_timeloop(tmp_path / "out", architecture, shape, mapping))
    assert back.shape == shape
    np.testing.assert_array_equal(back.mapping.spatial, spatial)
    np.testing.assert_array_equal(back.mapping.temporal, mapping.temporal)
    np.testing.assert_array_equal(back.mapping.order, mapping.order)
    moving = spatial > 1
    for axis in range(2):
        for i in (1, 2):
            order, again = (
                [d for d in m.spatial_order[axis, i] if moving[axis, i, d]] for m in (mapping, back.mapping)
            )
            assert order == again
    path = tmp_path / "out" / "mapping.yaml"
    path.write_text(path.read_text().replace("split: 8", "split: 12"))
    with pytest.raises(InputError, match="K and L run along the same axis"):
        read_timeloop(*(tmp_path / "out").glob("*.yaml"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Files of a sample that Timeloop accepts, and Timeloop's results for it."""
    folder = tmp_path_factory.mktemp("exported")
    path = reference("timeloop/samples_smoke.jsonl")
    samples = read_samples(path, read_architectures(reference("timeloop/architectures.json")))
    for sample, line in zip(samples, path.read_text().splitlines(), strict=True):
        row = json.loads(line)
        if row["ok"] and any(sum(network["energy_pJ"]) for network in row["out"]["networks"]):
            return write_timeloop(folder, sample.architecture, sample.shape, sample.mapping), row
    raise AssertionError("there is no such sample")


@pytest.mark.slow
def test_the_command_evaluates_timeloop_files(exported, tmp_path, capsys):
    files, row = exported
    out = tmp_path / "out.jsonl"
    names = [str(f) for f in files]
    assert main(["evaluate", "mappings", "--timeloop", *names, "--out", str(out), "--explain", "json"]) == 0
    got = json.loads(out.read_text())
    for key in ("cycles", "macs", "mac_instances_used"):
        assert got["out"][key] == row["out"][key]
    for key in ("energy_pJ", "area_um2"):
        assert got["out"][key] == pytest.approx(row["out"][key], rel=1e-9)
    said = capsys.readouterr()
    assert json.loads(said.out)["levels"][0]["name"] == row["out"]["levels"][0]["name"]
    assert "warning" not in said.err


@pytest.mark.slow
def test_figures_without_a_table_are_told_to_be_zero(exported, tmp_path, capsys):
    names = [str(f) for f in exported[0] if f.name.upper() not in ("ERT.YAML", "ART.YAML")]
    assert len(names) == len(exported[0]) - 2
    assert main(["evaluate", "mappings", "--timeloop", *names, "--out", str(tmp_path / "out")]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 1
    assert "there is no ERT and no ART: energies and areas that the architecture does not state" in told[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("no mapping", "there is no mapping in these files"),
        ("samples", "replaces --architectures"),
        ("factors", "breaks its constraint, at most"),
        ("bypass", "keeps other data spaces than its constraint"),
        ("order", "break the order"),
    ],
)
def test_what_the_command_refuses(exported, tmp_path, capsys, change, says):
    files, row = exported
    names = [str(f) for f in files if change != "no mapping" or f.name != "mapping.yaml"]
    level = next(x for x in row["mapping"]["levels"] if len(x["temporal"]["factors"]) > 1)
    loops = [d for d in level["temporal"]["perm"] if d in level["temporal"]["factors"]]
    target = {"target": level["name"], "type": "temporal"}
    rules = {
        "factors": [{**target, "factors": f"{loops[0]}<=1"}],
        "bypass": [{"target": row["mapping"]["levels"][0]["name"], "type": "bypass", "bypass": list(DATA_SPACES)}],
        "order": [{**target, "permutation": loops[::-1]}],
    }.get(change)
    if rules is not None:
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"architecture_constraints": {"targets": rules}}))
        names.append(str(tmp_path / "rules.yaml"))
    more = ["--samples", "s.jsonl"] if change == "samples" else []
    assert main(["evaluate", "mappings", "--timeloop", *names, *more]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
