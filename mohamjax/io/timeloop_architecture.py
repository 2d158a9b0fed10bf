"""Timeloop's architectures with their energy and area tables, read as a machine."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mohamjax.dims import DATA_SPACES
from mohamjax.hardware import Architecture
from mohamjax.hardware.machine import Machine
from mohamjax.io.timeloop_place import DIGITS, LARGEST_WHOLE, At, kept

__all__ = ["BANDWIDTHS", "read_architecture", "read_tables"]


_RANGE = re.compile(r"^(?P<name>.+?)\s*\[\s*(?P<first>\d+)\s*\.\.\s*(?P<last>\d+)\s*\]$")


_MACS = re.compile(r"mac|compute|multiplier", re.IGNORECASE)


# Attributes that say how large or fast a level is, by their names in the versions of the format.
_WORD_BITS = ("word-bits", "word_bits", "word_width", "datawidth")


_BLOCK = ("block-size", "block_size", "n_words")


_WIDTH = ("width", "memory_width", "data_storage_width")


_DEPTH = ("depth", "memory_depth", "data_storage_depth")


BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
"""Attributes of a level that limit its ports: `Machine.bandwidth` and `Machine.shared_bandwidth`."""


_REFUSED = {
    "bandwidth": "give read_bandwidth and write_bandwidth",
    "network_read": "leave networks to Timeloop's default",
    "network_fill": "leave networks to Timeloop's default",
    "network_drain": "leave networks to Timeloop's default",
    "network_update": "leave networks to Timeloop's default",
    "router-energy": "give energy-per-hop",
    "wire-energy": "give energy-per-hop",
    "min-utilization": "leave it out",
    "min_utilization": "leave it out",
    "allow_overbooking": "leave it out",
    "metadata_storage_width": "leave out sparse optimisations",
    "metadata_datawidth": "leave out sparse optimisations",
}


@dataclasses.dataclass
class _Component:
    at: At
    name: str
    kind: str
    attributes: dict[str, Any]
    instances: int
    spatial: tuple[int, int] | None
    keep: list[str] | None = None


def _named(at: At, data: dict[str, Any]) -> tuple[str, int]:
    """Name and number of copies: `PE[0..15]` are 16."""
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


def _component(at: At, data: Any, copies: int, spatial: tuple[int, int] | None) -> _Component:
    data = at.table(data)
    name, count = _named(at, data)
    at = at / name
    kind = data.get("class", data.get("subclass"))
    if not isinstance(kind, str):
        raise at.error("has no class", "give one, such as DRAM, SRAM, regfile, intmac")
    attributes = at.table(data.get("attributes", {}))
    keep = None
    if "constraints" in data:
        rules = (at / "constraints").table(data["constraints"])
        if set(rules) - {"dataspace"}:
            raise (at / "constraints").error(
                "loop constraints inside a node are not read", "give them as a list of targets in `constraints`"
            )
        keep = kept((at / "constraints"), at.table(rules["dataspace"]), list(DATA_SPACES))
    return _Component(at, name, kind, attributes, copies * count, spatial, keep)


def _tree(at: At, data: Any, copies: int) -> Iterator[_Component]:
    """Components of a node of the form with `subtree` and `local`, outermost first."""
    data = at.table(data)
    name, count = _named(at, data)
    at, copies = at / name, copies * count
    for key in data:
        if key not in ("name", "attributes", "local", "subtree"):
            raise (at / key).error("is not read", "use name, attributes, local and subtree")
    for n, part in enumerate((at / "local").list(data.get("local", []))):
        yield _component(at / f"local {n}", part, copies, None)
    below = (at / "subtree").list(data.get("subtree", []))
    if len(below) > 1:
        raise (at / "subtree").error("has several branches", "the model covers one line of levels")
    for part in below:
        yield from _tree(at, part, copies)


def _nodes(at: At, nodes: list[Any]) -> Iterator[_Component]:
    """Components of the form with `nodes`, outermost first; each node multiplies the copies of what follows."""
    along = [1, 1]
    for n, node in enumerate(nodes):
        here = at / n
        node = here.table(node)
        tag = node.get("!")
        if tag not in ("Container", "Component", "Element"):
            raise here.error(f"a node !{tag} is not read", "the model covers one line of !Container and !Component")
        spatial = (here / "spatial").table(node.get("spatial", {}))
        for axis, key in enumerate(("meshX", "meshY")):
            along[axis] *= int((here / key).number(spatial.get(key, 1), whole=True))
        if tag == "Container":
            if "constraints" in node:
                raise (here / "constraints").error(
                    "loop constraints inside a node are not read", "give them as a list of targets in `constraints`"
                )
            continue
        yield _component(here, node, along[0] * along[1], (along[0], along[1]))


def read_tables(at: At, value: Any) -> dict[str, dict[str, float]]:
    """Energy or area per action of each component of an ERT or ART, by the last part of its name."""
    result: dict[str, dict[str, float]] = {}
    for n, row in enumerate((at / "tables").list(at.table(value).get("tables"))):
        row = (at / n).table(row)
        name = re.sub(r"\[[^]]*\]", "", str(row.get("name", ""))).rpartition(".")[2]
        here = at / name
        if "area" in row:
            result[name] = {"area": (here / "area").number(row["area"])}
            continue
        actions: dict[str, float] = {}
        for action in (here / "actions").list(row.get("actions")):
            action = here.table(action)
            value = (here / action.get("name")).number(action.get("energy"))
            actions[str(action.get("name"))] = max(value, actions.get(str(action.get("name")), 0.0))
        result[name] = actions
    return result


def read_architecture(at: At, value: Any, ert: dict[str, Any], art: dict[str, Any]) -> Architecture:
    """The machine of an `architecture`, with energies and areas where their tables are there."""
    value = at.table(value)
    version = value.get("version")
    if str(version) not in ("0.2", "0.3", "0.4"):
        raise (at / "version").error(f"{version!r} is not read", "known are 0.2, 0.3 and 0.4")
    if "nodes" in value:
        components = list(_nodes(at, (at / "nodes").list(value["nodes"])))
    elif "subtree" in value:
        roots = (at / "subtree").list(value["subtree"])
        if len(roots) != 1:
            raise (at / "subtree").error("has several roots", "the model covers one line of levels")
        components = list(_tree(at, roots[0], 1))
    else:
        raise at.error("has neither subtree nor nodes", "describe the levels in one of them")
    if not components or not _MACS.search(components[-1].kind):
        raise at.error("does not end in a MAC", "list the arithmetic component (class intmac or the like) last")
    *storage, mac = components
    if not storage:
        raise at.error("has no storage level", "list the memories, outermost first")
    for part in storage:
        if _MACS.search(part.kind):
            raise part.at.error(f"a second arithmetic component ({part.kind})", "the model covers one, listed last")
    names = [part.name for part in components]
    for part in components:
        if names.count(part.name) > 1:
            raise part.at.error("the name comes twice", "rename one")

    meshes = [_mesh(part) for part in reversed(storage)]
    inner = [_mesh(mac), *meshes[:-1]]
    rows: list[dict[str, Any]] = []
    for part, mesh, below in zip(reversed(storage), meshes, inner, strict=True):
        fanout = [below[axis] / mesh[axis] for axis in range(2)]
        if any(f != int(f) or f < 1 for f in fanout):
            raise part.at.error(
                f"{mesh[0]} x {mesh[1]} instances do not divide the {below[0]} x {below[1]} of the next inner level",
                "make the meshes multiples of each other",
            )
        rows.append(_storage(part, mesh, fanout, ert.get(part.name, {}), art.get(part.name, {})))
    arrays: dict[str, Any] = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    macs = _mesh(mac)
    spent = ert.get(mac.name, {})
    energy = next((spent[a] for a in ("compute", "mac_random", "mac", "multiply") if a in spent), 0.0)
    arrays |= {
        "mac_mesh": np.array(macs, float),
        "mac_instances": np.array(float(macs[0] * macs[1])),
        "mac_energy": np.array(energy),
        "mac_area": np.array(art.get(mac.name, {}).get("area", 0.0)),
    }
    machine = Machine(**arrays)
    return Architecture(str(at.file), tuple(part.name for part in reversed(storage)), mac.name, machine)


def _mesh(part: _Component) -> tuple[int, int]:
    """Instances along X and Y over the whole chip."""
    at, attributes = part.at, part.attributes
    if part.instances > LARGEST_WHOLE:
        raise at.error("there are more instances than 2^53", "give a smaller machine")
    if part.spatial is not None:
        return part.spatial
    count = int((at / "instances").number(attributes.get("instances", part.instances), whole=True))
    x, y = attributes.get("meshX"), attributes.get("meshY")
    if x is None and y is None:
        return count, 1
    along = [
        int((at / key).number(v, whole=True)) if v is not None else None for key, v in (("meshX", x), ("meshY", y))
    ]
    mesh = (along[0] or count // (along[1] or 1), along[1] or count // (along[0] or 1))
    if mesh[0] * mesh[1] != count:
        raise at.error(
            f"a mesh of {mesh[0]} x {mesh[1]} is not {count} instances", "make meshX times meshY equal to it"
        )
    return mesh


def _block(at: At, word_bits: float, block: float | None, clusters: float | None, width: float | None) -> float:
    """Words of a block. A row of the memory (`width`) is a cluster of blocks; without any sizes it is one block."""
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


def _storage(
    part: _Component, mesh: tuple[int, int], fanout: list[float], energy: dict[str, float], area: dict[str, float]
) -> dict[str, Any]:
    """Machine fields of one storage level."""
    at, attributes = part.at, part.attributes
    for key, remedy in _REFUSED.items():
        if key in attributes:
            raise (at / key).error("is not modelled", remedy)
    buffering = attributes.get("multiple-buffering", attributes.get("multiple_buffering", 1))
    if (at / "multiple-buffering").number(buffering) != 1:
        raise (at / "multiple-buffering").error("is not modelled", "leave it out, or halve the size")

    def first(keys: Sequence[str]) -> float | None:
        for key in keys:
            if key in attributes:
                return (at / key).number(attributes[key], whole=True)
        return None

    word_bits = first(_WORD_BITS) or 16.0
    block = _block(at, word_bits, first(_BLOCK), first(("cluster-size", "cluster_size")), first(_WIDTH))
    depth, entries, kilobytes = first(_DEPTH), first(("entries",)), first(("sizeKB",))
    dram = "DRAM" in part.kind.upper()
    capacity = math.inf
    if entries is not None:
        capacity = entries
    elif depth is not None:
        capacity = depth * block
    elif kilobytes is not None:
        capacity = math.floor(kilobytes * 1024 * 8 / word_bits)
    elif not dram:
        raise at.error("has no size", "give entries, depth or sizeKB")
    bandwidth = [math.inf] * len(BANDWIDTHS)
    for i, key in enumerate(BANDWIDTHS):
        if key in attributes:
            bandwidth[i] = (at / key).number(attributes[key])
            if bandwidth[i] == 0:
                raise (at / key).error("is 0: nothing would ever arrive", "write a number above 0, or leave it out")
    access = attributes.get("vector-access-energy", attributes.get("vector_access_energy"))
    base = 0.0 if access is None else (at / "vector-access-energy").number(access)
    read = energy.get("read", energy.get("random_read", base))
    write = max(energy.get(name, 0.0) for name in ("write", "update", "random_fill", "random_update", "fill"))
    keep = list(DATA_SPACES) if part.keep is None else part.keep
    return {
        "level_mask": True,
        "keep": [name in keep for name in DATA_SPACES],
        "capacity": math.inf if dram and capacity == 0 else capacity,
        "word_bits": word_bits,
        "block_words": block,
        "fanout": [float(f) for f in fanout],
        "mesh": [float(m) for m in mesh],
        "instances": float(mesh[0] * mesh[1]),
        "bandwidth": bandwidth[:2],
        "shared_bandwidth": bandwidth[2],
        "reduces": not dram,
        "access_energy": [read, write or base],
        "area": area.get("area", 0.0),
        "hop_energy": (at / "energy-per-hop").number(attributes.get("energy-per-hop", 0.0)),
    }
