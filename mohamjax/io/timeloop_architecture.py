"""Reads Timeloop's architectures with their energy and area tables as machines."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mohamjax.dims import DATA_SPACES
from mohamjax.hardware import Architecture
from mohamjax.hardware.arrays import Machine
from mohamjax.io.timeloop_place import DIGITS, LARGEST_WHOLE, At, kept, left_open

_RANGE = re.compile(r"^(?P<name>.+?)\s*\[\s*(?P<first>\d+)\s*\.\.\s*(?P<last>\d+)\s*\]$")


# Timeloop looks for these words in the class of a component and ignores components with none of them.
_STORAGE = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage")
_COMPUTE = ("mac", "compute")
_NETWORK = ("XY_NoC", "Legacy", "ReductionTree", "SimpleMulticast")


# Names of a level's attributes in the versions of the format, which write "-" or "_" between words. If a level has
# several of one group, Timeloop takes the first.
_WORD_BITS = ("word_bits", "word_width", "datawidth")
_BLOCK = ("block_size", "n_words")
_CLUSTER = ("cluster_size",)
_WIDTH = ("width", "memory_width", "data_storage_width")
_ENTRIES = ("entries",)
_DEPTH = ("depth", "memory_depth", "data_storage_depth")
_KILOBYTES = ("sizeKB",)
BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
"""Attributes of a level that limit its ports: `Machine.bandwidth` and `Machine.shared_bandwidth`."""

_OF_COMPONENTS = ("name", "class", "subclass", "attributes", "constraints")
_OF_NODES = (*_OF_COMPONENTS, "spatial", "enabled")
"""Keys of a component, and of a node of version 0.4."""

_MESH = ("instances", "meshX", "meshY")
_UNDERSTOOD = {*_WORD_BITS, *_BLOCK, *_CLUSTER, *_WIDTH, *_ENTRIES, *_DEPTH, *_KILOBYTES, *BANDWIDTHS, *_MESH}
_UNDERSTOOD |= {"bandwidth", "vector_access_energy", "cluster_area", "energy_per_hop", "technology"}
_UNDERSTOOD |= {"reduction_supported", "multiple_buffering", "network_type"}
_OF_MACS = {"word_bits", "datawidth", *_MESH, "energy", "area"}


_WITHOUT_EFFECT = {
    "type",
    "technology",
    "num_ports",
    "n_ports",
    "num_banks",
    "n_banks",
    "network_word_bits",
    "tile_width",
}
"""Attributes that Timeloop only uses for energies of its own, which the tables replace."""


_NETWORKS = "leave networks to Timeloop's default"
_SPARSE = "leave out sparse optimisations"
_REFUSED = {
    "network_read": _NETWORKS,
    "network_fill": _NETWORKS,
    "network_drain": _NETWORKS,
    "network_update": _NETWORKS,
    "network_operand": _NETWORKS,
    "network_result": _NETWORKS,
    "network_fill_latency": "leave it out: start-up is not counted",
    "network_drain_latency": "leave it out: start-up is not counted",
    "fill_latency": "leave it out: start-up is not counted",
    "drain_latency": "leave it out: start-up is not counted",
    "router_energy": "give energy-per-hop",
    "wire_energy": "give energy-per-hop",
    "energy_per_ingress": "give energy-per-hop",
    "addr_gen_energy": "leave it out",
    "min_utilization": "leave it out",
    "allow_overbooking": "leave it out",
    "metadata_block_size": _SPARSE,
    "metadata_datawidth": _SPARSE,
    "metadata_word_bits": _SPARSE,
    "metadata_storage_width": _SPARSE,
    "metadata_storage_depth": _SPARSE,
    "metadata_width": _SPARSE,
    "metadata_depth": _SPARSE,
    "compression_supported": _SPARSE,
    "decompression_supported": _SPARSE,
    "tile_partition_supported": _SPARSE,
    "concordant_compressed_tile_traversal": _SPARSE,
}
"""Attributes that would change a result, unless they are 0 or false."""


# Actions of an ERT in which Timeloop looks for each energy; the first one present counts. It never reads `update`.
_ACTIONS = {
    "read": ("random_read", "read"),
    "fill": ("random_fill", "write"),
    "update": ("random_update", "random_fill", "write"),
}
_COMPUTING = ("mac_random", "mult_random", "mac", "mult", "compute")


@dataclasses.dataclass
class _Component:
    """A component of an architecture.

    Its `attributes` have "_" between the words of a key, which is `written` as in the file. It stores the data spaces
    in `keep`; its constraints name none of those in `open`.
    """

    at: At
    name: str
    kind: str
    attributes: dict[str, object]
    written: dict[str, str]
    instances: int
    spatial: tuple[int, int] | None
    keep: list[str]
    open: list[str]

    def is_a(self, words: Sequence[str]) -> bool:
        """Whether the class contains one of these words, by which Timeloop tells kinds of components."""
        return any(word in self.kind for word in words)

    def value(self, *keys: str, whole: bool = False) -> float | None:
        """The value of the first of these attributes that is present; None if none is."""
        for key in keys:
            if key in self.attributes:
                return (self.at / self.written[key]).number(self.attributes[key], whole=whole)
        return None


def _named(at: At, data: dict[str, object]) -> tuple[str, int]:
    """Name and number of copies: `PE` and 16 for `PE[0..15]`."""
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise at.error("has no name", "give one")
    match = _RANGE.match(name)
    if match is None:
        return name, 1
    if max(len(match["first"]), len(match["last"])) > DIGITS:
        raise (at / name).error("the range is too large", f"write numbers of at most {DIGITS} digits")
    count = int(match["last"]) - int(match["first"]) + 1
    if count < 1:
        raise (at / name).error("the range is empty", "write it as [0..n-1]")
    return match["name"], count


_Attributes = dict[str, tuple[str, object]]
"""Attributes by their keys with "_" between the words: the key as written, and the value."""


def _attributes(at: At, data: dict[str, object]) -> _Attributes:
    result: _Attributes = {}
    for key, value in at.table(data.get("attributes", {})).items():
        plain = str(key).replace("-", "_")
        if plain in result:
            raise (at / key).error(f"is written as {result[plain][0]} too", "write it once")
        result[plain] = str(key), value
    return result


def _dataspaces(at: At, rules: dict[str, object]) -> dict[str, object]:
    """The lists `keep` and `bypass` of a component's constraints; `keep_only` or `bypass_only` stands for both."""
    if set(rules) - {"dataspace"}:
        raise at.error("loop constraints inside a node are not read", "give them as a list of targets in `constraints`")
    at = at / "dataspace"
    row = at.table(rules.get("dataspace", {}))
    at.only(row, ("keep", "bypass", "keep_only", "bypass_only"))
    for key, own, other in (("keep_only", "keep", "bypass"), ("bypass_only", "bypass", "keep")):
        if key in row:
            if len(row) > 1:
                raise (at / key).error("stands for both lists", "leave out the other keys")
            named = (at / key).list(row[key])
            return {own: named, other: [name for name in DATA_SPACES if name not in named]}
    return row


def _component(
    at: At, data: dict[str, object], copies: int, spatial: tuple[int, int] | None, inherited: _Attributes
) -> _Component:
    name, count = _named(at, data)
    at = at / name
    kind = data.get("class", data.get("subclass"))
    if not isinstance(kind, str):
        raise at.error("has no class", "give one, such as DRAM, SRAM, regfile, intmac")
    if not any(word in kind for word in _STORAGE):  # what containers say of levels is nothing to a MAC
        inherited = {key: value for key, value in inherited.items() if key in _OF_MACS}
    whole = {**inherited, **_attributes(at, data)}
    attributes = {key: value for key, (_, value) in whole.items()}
    written = {key: text for key, (text, _) in whole.items()}
    rules = at / "constraints"
    row = _dataspaces(rules, rules.table(data.get("constraints", {})))
    rules /= "dataspace"
    keep, free = kept(rules, row, DATA_SPACES), left_open(rules, row, DATA_SPACES)
    return _Component(at, name, kind, attributes, written, copies * count, spatial, keep, free)


def _tree(at: At, data: object, copies: int) -> Iterator[_Component]:
    """Components of a node of the form with `subtree` and `local`, outermost first."""
    data = at.table(data)
    name, count = _named(at, data)
    at, copies = at / name, copies * count
    for key in data:
        if key not in ("name", "attributes", "local", "subtree"):
            raise (at / key).error("is not read", "use name, attributes, local and subtree")
    for n, part in enumerate((at / "local").list(data.get("local", []))):
        here = at / f"local {n}"
        part = here.table(part)
        here.only(part, _OF_COMPONENTS)
        yield _component(here, part, copies, None, {})
    below = (at / "subtree").list(data.get("subtree", []))
    if len(below) > 1:
        raise (at / "subtree").error("has several branches", "the model covers one line of levels")
    for part in below:
        yield from _tree(at, part, copies)


def _nodes(at: At, nodes: list[object]) -> Iterator[_Component]:
    """Components of the form with `nodes`, outermost first.

    Each node multiplies the copies of the following ones. A container also gives them the attributes that they lack.
    """
    along, inherited = [1, 1], {}
    for n, node in enumerate(nodes):
        here = at / n
        node = here.table(node)
        tag = node.get("!")
        if tag not in ("Container", "Component", "Element"):
            raise here.error(f"a node !{tag} is not read", "the model covers one line of !Container and !Component")
        node = {key: value for key, value in node.items() if key != "!"}
        here.only(node, _OF_NODES)
        if not (here / "enabled").truth(node.get("enabled", True)):
            continue
        if isinstance(node.get("name"), str) and _named(here, node)[1] > 1:
            told = "a range in the name of a node is not read"
            raise (here / node["name"]).error(told, "say how many there are with `spatial: {meshX: n}`")
        spatial = (here / "spatial").table(node.get("spatial", {}))
        (here / "spatial").only(spatial, ("meshX", "meshY"))
        for axis, key in enumerate(("meshX", "meshY")):
            along[axis] *= int((here / key).number(spatial.get(key, 1), whole=True))
        if tag == "Container":
            if "constraints" in node:
                raise (here / "constraints").error(
                    "loop constraints inside a node are not read", "give them as a list of targets in `constraints`"
                )
            inherited |= _attributes(here, node)
            continue
        yield _component(here, node, along[0] * along[1], (along[0], along[1]), inherited)


Tables = dict[str, dict[str, float]]
"""Energies [pJ] by action, or the area [um^2], of every component."""


def read_tables(at: At, value: object) -> Tables:
    """Energies by action, or the area, of each component of an ERT or ART, by the last part of its name.

    If an action has several energies, for different arguments, Timeloop takes the largest.
    """
    value = at.table(value)
    if str(value.get("version")) not in ("0.3", "0.4"):
        raise (at / "version").error(f"{value.get('version')!r} is not read", "known are 0.3 and 0.4")
    whole: dict[str, dict[str, float]] = {}
    for n, row in enumerate((at / "tables").list(value.get("tables"))):
        row = (at / n).table(row)
        name = re.sub(r"\[[^]]*\]", "", str(row.get("name", "")))
        here = at / name.rpartition(".")[2]
        if "area" in row:
            whole[name] = {"area": (here / "area").number(row["area"])}
            continue
        actions = whole.setdefault(name, {})
        for action in (here / "actions").list(row.get("actions")):
            action = here.table(action)
            energy = (here / action.get("name")).number(action.get("energy"))
            actions[str(action.get("name"))] = max(energy, actions.get(str(action.get("name")), 0.0))
    result: dict[str, dict[str, float]] = {}
    for name, actions in whole.items():
        result.setdefault(name.rpartition(".")[2], {}).update(actions)
    return result


def _first(table: dict[str, float], actions: Sequence[str]) -> float | None:
    return next((table[action] for action in actions if action in table), None)


def read_architecture(
    at: At, value: object, ert: Tables | None = None, art: Tables | None = None
) -> tuple[Architecture, np.ndarray, tuple[str, ...]]:
    """The machine of an `architecture`, with energies and areas if their tables are given.

    Args:
        at: Place of the architecture.
        value: The architecture as plain data.
        ert: Energies from `read_tables`, or None.
        art: Areas from `read_tables`, or None.

    Returns:
        The machine, which data spaces the constraints of its levels leave open (`[L, V]` bool), and lines about what
        was ignored or counts as 0.
    """
    value = at.table(value)
    version = value.get("version")
    if str(version) not in ("0.2", "0.3", "0.4"):
        raise (at / "version").error(f"{version!r} is not read", "known are 0.2, 0.3 and 0.4")
    if "constraints" in value:
        raise (at / "constraints").error("are not read here", "call them `architecture_constraints`, at the top level")
    form = "nodes" if "nodes" in value else "subtree"
    at.only(value, ("version", "name", form))
    if "nodes" in value:
        components = list(_nodes(at, (at / "nodes").list(value["nodes"])))
    elif "subtree" in value:
        roots = (at / "subtree").list(value["subtree"])
        if len(roots) != 1:
            raise (at / "subtree").error("has several roots", "the model covers one line of levels")
        components = list(_tree(at, roots[0], 1))
    else:
        raise at.error("has neither subtree nor nodes", "describe the levels in one of them")
    for part in components:
        if part.is_a(_NETWORK) and not part.is_a((*_STORAGE, *_COMPUTE)):
            raise part.at.error(f"networks ({part.kind}) are not modelled", _NETWORKS)
    notes = []
    strange = [f"{p.name} ({p.kind})" for p in components if not p.is_a((*_STORAGE, *_COMPUTE))]
    if strange:
        notes.append(f"passed over, as Timeloop does: {', '.join(strange)}, of no class that it knows")
    components = [part for part in components if part.is_a((*_STORAGE, *_COMPUTE))]
    if not components or components[-1].is_a(_STORAGE):
        raise at.error("does not end in a MAC", "list the arithmetic component (class intmac or the like) last")
    *storage, mac = components
    if not storage:
        raise at.error("has no storage level", "list the memories, outermost first")
    for part in storage:
        if not part.is_a(_STORAGE):
            raise part.at.error(f"a second arithmetic component ({part.kind})", "the model covers one, listed last")
    names = [part.name for part in components]
    for part in components:
        if names.count(part.name) > 1:
            raise part.at.error("the name comes twice", "rename one")
    unknown = [text for part in components for text in _check_attributes(part, part is mac)]
    if unknown:
        notes.append(f"attributes that neither Timeloop's model nor this one knows: {', '.join(unknown)}")
    wires = [part for part in storage if "energy_per_hop" not in part.attributes]
    if ert and any(ert.get(wire, {}).get("transfer_random") for wire in ("wire", "Wire")) and wires:
        raise wires[0].at.error(
            "would take its wires' energy from the ERT, which is not modelled", "give energy-per-hop"
        )

    meshes = [_mesh(part) for part in reversed(storage)]
    inner = [_mesh(mac), *meshes[:-1]]
    rows: list[dict[str, object]] = []
    missing: list[str] = []
    for part, mesh, below in zip(reversed(storage), meshes, inner, strict=True):
        fanout = [below[axis] / mesh[axis] for axis in range(2)]
        if any(f != int(f) or f < 1 for f in fanout):
            raise part.at.error(
                f"{mesh[0]} x {mesh[1]} instances do not divide the {below[0]} x {below[1]} of the next inner level",
                "make the meshes multiples of each other",
            )
        spent, lost = _energies(part, None if ert is None else ert.get(part.name, {}))
        missing += lost
        own = part.value("cluster_area") or 0.0
        area = (art or {}).get(part.name, {}).get("area", own)
        rows.append(
            {**_storage(part, mesh, fanout), "access_energy": spent[:2], "update_energy": spent[2], "area": area}
        )
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    if (arrays["update_energy"] == arrays["access_energy"][:, 1]).all():
        arrays["update_energy"] = None
    macs = _mesh(mac)
    energy = _first((ert or {}).get(mac.name, {}), _COMPUTING)
    if energy is None:
        energy = mac.value("energy")
        missing += [f"operations of {mac.name}"] if ert is not None and energy is None else []
    if missing:
        notes.append(f"the ERT has no energy for {', '.join(missing)}: Timeloop takes its own, here they count as 0")
    arrays |= {
        "mac_mesh": np.array(macs, float),
        "mac_instances": np.array(float(macs[0] * macs[1])),
        "mac_energy": np.array(energy or 0.0),
        "mac_area": np.array((art or {}).get(mac.name, {}).get("area", mac.value("area") or 0.0)),
    }
    names = tuple(part.name for part in reversed(storage))
    free = np.array([[name in part.open for name in DATA_SPACES] for part in reversed(storage)])
    return Architecture(str(at.file), names, mac.name, Machine(**arrays)), free, tuple(notes)


def _check_attributes(part: _Component, is_mac: bool) -> list[str]:
    """Raises InputError for attributes that would change a result; returns the names of unknown ones."""
    for key, remedy in _REFUSED.items():
        if part.attributes.get(key) and not (key == "wire_energy" and "energy_per_hop" in part.attributes):
            raise (part.at / part.written[key]).error("is not modelled", remedy)
    buffering = part.value("multiple_buffering")
    if buffering not in (None, 1):
        raise (part.at / part.written["multiple_buffering"]).error("is not modelled", "leave it out, or halve the size")
    if part.attributes.get("network_type") == "M:N":
        raise (part.at / part.written["network_type"]).error("'M:N' is not modelled", "leave it out")
    known = {*_WITHOUT_EFFECT, *_REFUSED, *(_OF_MACS if is_mac else _UNDERSTOOD)}
    return [f"{part.name}, {written}" for key, written in part.written.items() if key not in known]


def _energies(part: _Component, table: dict[str, float] | None) -> tuple[list[float], list[str]]:
    """Energies per block [pJ] of a read, fill and update, and the names of those that a given table lacks.

    An energy that the level states itself overrides the table.
    """
    stated = part.value("vector_access_energy")
    if stated is not None:
        return [stated] * 3, []
    found = {kind: _first(table or {}, actions) for kind, actions in _ACTIONS.items()}
    lost = [f"{kind}s of {part.name}" for kind, energy in found.items() if energy is None and table is not None]
    return [energy or 0.0 for energy in found.values()], lost


def _mesh(part: _Component) -> tuple[int, int]:
    """Instances along X and Y over the whole chip."""
    at = part.at
    if part.instances > LARGEST_WHOLE:
        raise at.error("there are more instances than 2^53", "give a smaller machine")
    if part.spatial is not None:
        x, y = part.spatial
        for key, own in zip(_MESH, (x * y, x, y), strict=True):
            if part.value(key, whole=True) not in (None, own):
                told = f"is not the {own} that the `spatial` of the nodes multiply to"
                raise (at / part.written[key]).error(told, "say how many there are with `spatial: {meshX: n}` alone")
        return part.spatial
    given = part.value("instances", whole=True)
    count = part.instances if given is None else int(given)
    along = [None if n is None else int(n) for n in (part.value(axis, whole=True) for axis in ("meshX", "meshY"))]
    if along == [None, None]:
        return count, 1
    mesh = (along[0] or count // (along[1] or 1), along[1] or count // (along[0] or 1))
    if mesh[0] * mesh[1] != count:
        raise at.error(
            f"a mesh of {mesh[0]} x {mesh[1]} is not {count} instances", "make meshX times meshY equal to it"
        )
    return mesh


def _block(at: At, word_bits: float, block: float | None, clusters: float | None, width: float | None) -> float:
    """Words per block. A row of the memory (`width`) is a cluster of blocks; by default it is one block."""
    if width and width % (word_bits * (block or 1)):
        raise at.error(
            f"a width of {width:g} bits is no multiple of {word_bits:g} bits of a word times the block size",
            "make the width a whole number of blocks",
        )
    if width and block is None:
        block = width / (word_bits * (clusters or 1))
    found = width / (word_bits * (block or 1)) if width else clusters or 1
    if found not in (1, clusters):
        told = f"rows of {found:g} blocks (width over word bits times block size)"
        if clusters is not None:
            raise at.error(f"{told} are not the cluster size of {clusters:g}", "leave out the cluster size")
    if found != 1 or (clusters or 1) != 1:
        raise at.error(
            f"rows of {found:g} blocks (width over word bits times block size) are clusters, which are not modelled",
            "set the block size to width over word bits",
        )
    return block or 1.0


def _storage(part: _Component, mesh: tuple[int, int], fanout: list[float]) -> dict[str, object]:
    """The fields of `Machine` for one storage level, without energies and area."""
    at = part.at
    word_bits = part.value(*_WORD_BITS, whole=True) or 16.0
    sizes = (part.value(*keys, whole=True) for keys in (_BLOCK, _CLUSTER, _WIDTH))
    block = _block(at, word_bits, *sizes)
    dram = "DRAM" in part.kind or part.attributes.get("technology") == "DRAM"
    entries, depth, kilobytes = (part.value(*keys, whole=True) for keys in (_ENTRIES, _DEPTH, _KILOBYTES))
    if kilobytes is not None and (entries, depth) != (None, None):
        raise (at / "sizeKB").error("is one of two sizes", "leave out either")
    capacity = math.inf
    if entries is not None:
        capacity = entries
    elif depth is not None:
        capacity = depth * block
    elif kilobytes is not None:
        capacity = math.floor(kilobytes * 1024 * 8 / word_bits)
    elif not dram:
        raise at.error("has no size", "give entries, depth or sizeKB")
    both = part.value("bandwidth")  # Timeloop gives half of it to each direction
    bandwidth = [math.inf if both is None else both / 2] * 2 + [math.inf]
    for i, key in enumerate(BANDWIDTHS):
        given = part.value(key)
        bandwidth[i] = bandwidth[i] if given is None else given
        if bandwidth[i] == 0:
            told = "is 0: nothing would ever arrive"
            raise (at / (key if given == 0 else "bandwidth")).error(told, "write a number above 0, or leave it out")
    own = part.written.get("reduction_supported", "reduction_supported")
    reduces = (at / own).truth(part.attributes.get("reduction_supported", not dram))
    return {
        "level_mask": True,
        "keep": [name in part.keep for name in DATA_SPACES],
        "capacity": math.inf if dram and capacity == 0 else capacity,
        "word_bits": word_bits,
        "block_words": block,
        "fanout": [float(f) for f in fanout],
        "mesh": [float(m) for m in mesh],
        "instances": float(mesh[0] * mesh[1]),
        "bandwidth": bandwidth[:2],
        "shared_bandwidth": bandwidth[2],
        "reduces": reduces,
        "hop_energy": part.value("energy_per_hop") or 0.0,
    }
