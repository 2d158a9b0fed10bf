"""The package: where chiplets and memory interfaces stand, which links can bind, and what moving bytes costs.

Chiplets stand on a mesh of ceil(sqrt(n)) columns, row by row, in the order of the hardware genome (empty tiles squeezed
out). Memory interfaces stand outside the west (x = -1) and east (x = columns) columns. A chiplet uses its nearest
interface by Manhattan distance; ties go to the highest index (docs/concepts/package.md).

A router stands at every place (x, y) of the mesh, under a chiplet or not; a link joins two neighbours and carries both
directions together, as an interface does. The router at the end of an interface's row joins the interface to the mesh.
Data take the XY route from the interface: along its row to the column of the chiplet, then along that column. Writes
take the same links back.

As every chiplet uses the nearest one, no link serves two interfaces: the routes of an interface are a tree
whose root is the interface's router. All links have the same bandwidth, and a link carries all chiplets of the links
further out, so that the first link of a route, its *trunk*, limits it most. A trunk with a single chiplet limits it no
more than the chiplet's own link. The trunks of two or more chiplets are therefore all that the mesh adds to the
resources of a schedule.
"""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta
from numpy.typing import DTypeLike

from mohamjax.errors import InputError
from mohamjax.forms import Amount, Form, Whole, check_fields, read_form
from mohamjax.hardware.memory import Bandwidth, Memory, MemoryForm, check_memory_type, memory_of, memory_to_dict
from mohamjax.hardware.technology import DRAM_TYPES
from mohamjax.reader import as_given, read_yaml
from mohamjax.runtime.struct import record

Numbers = TypeVar("Numbers", np.ndarray, jax.Array)

Placement = Literal["corner", "middle"]
"""Rows of the memory interfaces: from the corners inward, or from the middle outward."""

Contention = Literal["all", "interface", "mesh"]

CONTENTION = get_args(Contention)
"""What limits traffic: interfaces, chiplets' own links and DRAM; interfaces alone; or all these and the mesh links."""

Link = tuple[tuple[int, int], tuple[int, int]]
"""Two neighbouring routers, the one nearer to the interface first."""

_LPDDR4 = Memory(DRAM_TYPES[0])
_PER_ROW = 2
_MOST_TILES = 1024

Tiles = Annotated[int, Meta(ge=1, le=_MOST_TILES)]

Share = Annotated[
    tuple[Whole | None, Whole],
    Meta(description="[most chiplets, interfaces], null for the chiplets of the last one"),
]

Shares = Annotated[list[Share], Meta(min_length=1, description="for example [[4, 2], [null, 4]]")]

_ALLOWED: dict[str, object] = {
    "max_tiles": Tiles,
    "link_bandwidth": Bandwidth,
    "interface_bandwidth": Bandwidth,
    "dram_bandwidth": Bandwidth,
    "hop_energy": Amount,
    "router_area": Amount,
    "transceiver_area": Amount,
    "contention": Contention,
    "placement": Placement,
    "interface_counts": Shares,
}
"""What the fields of `PackageParameters` may be; the keys of `PackageForm` are of the same types."""


@dataclasses.dataclass(frozen=True)
class PackageParameters:
    """What a package is made of. Bandwidths in bytes per cycle are GB/s at 1 GHz.

    Bandwidths are above 0, and `math.inf` or `"unlimited"` where nothing limits; energies and areas are at least 0.
    Fields that are arrays are not checked: they may be traced, or hold the values of several packages.

    Attributes:
        max_tiles: Most chiplets that it can have.
        link_bandwidth: Bytes per cycle between a chiplet and the network, and of every link of the mesh.
        interface_bandwidth: Bytes per cycle of one memory interface.
        dram_bandwidth: Bytes per cycle of the whole off-chip memory.
        hop_energy: pJ per bit and hop of the network-on-package.
        router_area: um^2 per chiplet.
        transceiver_area: um^2 per chiplet.
        contention: One of `CONTENTION`.
        placement: Rows of the memory interfaces, see `Placement`.
        interface_counts: Pairs (most chiplets, memory interfaces), ascending; the last pair has None for any number of
            chiplets. At most two interfaces per row are placed.
        memory: Energy of a bit that moves between any chiplet and the off-chip memory; None if every template keeps the
            memory that it names itself (`with_memory`).

    Raises:
        InputError: A field has a value that it cannot have.

    Examples:
        >>> PackageParameters(max_tiles=9, interface_bandwidth=8.0).max_interfaces
        4
    """

    max_tiles: int = 16
    link_bandwidth: float = 16.0
    interface_bandwidth: float = 4.0
    dram_bandwidth: float = math.inf
    hop_energy: float = 0.82
    router_area: float = 0.0
    transceiver_area: float = 0.0
    contention: str = "all"
    placement: str = "corner"
    interface_counts: tuple[tuple[int | None, int], ...] = ((4, 2), (None, 4))
    memory: Memory | None = _LPDDR4

    def __post_init__(self) -> None:
        """Checks every plain number and text against the types that files allow."""
        check_fields(self, _ALLOWED, "package")
        _check_counts(self.interface_counts, None, "package.interface_counts")
        object.__setattr__(self, "interface_counts", tuple(tuple(pair) for pair in self.interface_counts))
        if not (self.memory is None or isinstance(self.memory, Memory)):
            raise InputError(
                f"{self.memory!r} is no memory", item="package.memory", remedy='give for example Memory("LPDDR4")'
            )

    @property
    def links_contend(self) -> bool:
        """Whether chiplets' own links and the DRAM limit traffic too, not the interfaces alone."""
        return self.contention != "interface"

    @property
    def max_interfaces(self) -> int:
        """Most memory interfaces of any package of at most `max_tiles` chiplets."""
        return max(len(interface_positions(self, n)) for n in range(1, self.max_tiles + 1))


@record
class PackageTables:
    """Geometry for every number of chiplets; the first axis is that number, 0 to n = `max_tiles`.

    Attributes:
        columns: `[n + 1]` int32, columns of the mesh; 0 for no chiplet.
        interfaces: `[n + 1]` int32, memory interfaces; 0 for no chiplet.
        interface_of: `[n + 1, n]` int32, the interface of each tile; -1 for tiles that are not there.
        hops: `[n + 1, n]` float, hops to that interface; 0 for tiles that are not there.
        trunks: `[n + 1, n, K]` bool, whether a tile's traffic passes each of the mesh's links that can limit it
            (the function `trunks`); None unless `contention` is `mesh`.
    """

    columns: jax.Array
    interfaces: jax.Array
    interface_of: jax.Array
    hops: jax.Array
    trunks: jax.Array | None = None


def mesh_columns(chiplets: int) -> int:
    """Columns of the mesh: ceil(sqrt(chiplets)), exact."""
    return math.isqrt(chiplets - 1) + 1 if chiplets > 0 else 0


def interface_positions(params: PackageParameters, chiplets: int) -> list[tuple[int, int]]:
    """(x, y) of each memory interface of a package of `chiplets` (at least 1) chiplets, in order of index.

    Even indices stand in the west (x = -1), odd ones in the east (x = columns). Index // 2 counts through the R rows:
    `corner` takes 0, R-1, 1, R-2, ...; `middle` takes (R-1) // 2, then alternately one row further down (y + 1) and up.
    """
    columns = mesh_columns(chiplets)
    rows = -(-chiplets // columns)
    count = next(c for limit, c in params.interface_counts if limit is None or chiplets <= limit)
    count = min(count, _PER_ROW * rows)
    if params.placement == "corner":
        order = [k // 2 if k % 2 == 0 else rows - 1 - k // 2 for k in range(rows)]
    else:
        order = [(rows - 1) // 2 + ((k + 1) // 2 if k % 2 else -(k // 2)) for k in range(rows)]
    return [(-1 if i % 2 == 0 else columns, order[i // 2]) for i in range(count)]


def chiplet_places(params: PackageParameters, chiplets: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where n chiplets and I interfaces stand, and the interface that each chiplet uses.

    Returns:
        `[n, 2]` int, (x, y) of every chiplet; `[I, 2]` int, (x, y) of every interface; `[n]` int, the nearest interface
        of every chiplet; `[n]` int, its hops to that.
    """
    positions = np.array(interface_positions(params, chiplets))
    tile = np.arange(chiplets)
    columns = mesh_columns(chiplets)
    tiles = np.stack([tile % columns, tile // columns], axis=-1)
    distance = np.abs(tiles[:, None] - positions[None]).sum(-1)
    nearest = len(positions) - 1 - np.argmin(distance[:, ::-1], axis=1)
    return tiles, positions, nearest, distance[tile, nearest]


def _root(interface: tuple[int, int], columns: int) -> tuple[int, int]:
    """The router that joins an interface to the mesh: the last one of its row on its side."""
    return min(max(interface[0], 0), columns - 1), interface[1]


def route(chiplet: tuple[int, int], interface: tuple[int, int], columns: int) -> list[Link]:
    """Links between routers from an interface to a chiplet.

    Args:
        chiplet: (x, y) of the chiplet.
        interface: (x, y) of the interface, x = -1 or `columns`.
        columns: columns of the mesh.

    Returns:
        The hops - 1 links in order, the trunk first; empty if the chiplet stands at the interface's router.

    Examples:
        >>> route((1, 1), (-1, 0), 2)
        [((0, 0), (1, 0)), ((1, 0), (1, 1))]
    """
    return mesh_path(_root(interface, columns), chiplet)


def mesh_path(start: tuple[int, int], end: tuple[int, int]) -> list[Link]:
    """Links from one router to another: along the row of the first, then along the column of the second.

    Examples:
        >>> mesh_path((1, 1), (0, 0))
        [((1, 1), (0, 1)), ((0, 1), (0, 0))]
    """
    x, y = start
    links: list[Link] = []
    while (x, y) != end:
        step = (end[0] > x) - (end[0] < x)
        after = x + step, y if step else y + (1 if end[1] > y else -1)
        links.append(((x, y), after))
        x, y = after
    return links


def trunks(chiplets: np.ndarray, interfaces: np.ndarray, nearest: np.ndarray, columns: int) -> np.ndarray:
    """Trunks that two or more chiplets share.

    Args:
        chiplets: `[n, 2]` int, (x, y) of every chiplet.
        interfaces: `[I, 2]` int, (x, y) of every interface.
        nearest: `[n]` int, interface of every chiplet.
        columns: columns of the mesh.

    Returns:
        `[n, K]` bool, whether a chiplet's traffic passes each of the K trunks; at most one per row is True.
    """
    roots = np.array([_root((int(x), int(y)), columns) for x, y in interfaces])
    dx, dy = (chiplets - roots[nearest]).T
    leaving = np.where(dx != 0, 0, np.where(dy > 0, 1, 2))  # along the row, or the column down or up
    trunk = np.where((dx == 0) & (dy == 0), -1, nearest * 3 + leaving)
    named, chiplets_on = np.unique(trunk[trunk >= 0], return_counts=True)
    return trunk[:, None] == named[chiplets_on > 1]


def package_tables(params: PackageParameters, dtype: DTypeLike = jnp.float32) -> PackageTables:
    """Geometry of the package for every number of chiplets up to `max_tiles` (docs/concepts/package.md)."""
    n = params.max_tiles
    columns = np.zeros(n + 1, np.int32)
    interfaces = np.zeros(n + 1, np.int32)
    interface_of = np.full((n + 1, n), -1, np.int32)
    hops = np.zeros((n + 1, n))
    shared = [np.zeros((0, 0), bool)]
    for chiplets in range(1, n + 1):
        tiles, positions, nearest, far = chiplet_places(params, chiplets)
        columns[chiplets] = mesh_columns(chiplets)
        interfaces[chiplets] = len(positions)
        interface_of[chiplets, :chiplets] = nearest
        hops[chiplets, :chiplets] = far
        if params.contention == "mesh":
            shared.append(trunks(tiles, positions, nearest, int(columns[chiplets])))
    tables: dict[str, np.ndarray | None] = {
        "columns": columns,
        "interfaces": interfaces,
        "interface_of": interface_of,
        "hops": hops.astype(dtype),
        "trunks": _stacked(shared) if params.contention == "mesh" else None,
    }
    return PackageTables(**jax.device_put(tables))


def _stacked(shared: list[np.ndarray]) -> np.ndarray:
    """Trunks of every number of chiplets, padded to the most."""
    most = max(one.shape[1] for one in shared)
    out = np.zeros((len(shared), len(shared) - 1, most), bool)
    for row, one in zip(out, shared, strict=True):
        row[: one.shape[0], : one.shape[1]] = one
    return out


def mesh_routes(params: PackageParameters, chiplets: int) -> list[list[Link]]:
    """The mesh links of every chiplet of a package, from its interface on."""
    tiles, positions, nearest, _ = chiplet_places(params, chiplets)
    ends = zip(tiles.tolist(), positions[nearest].tolist(), strict=True)
    return [route((x, y), (ix, iy), mesh_columns(chiplets)) for (x, y), (ix, iy) in ends]


def nop_energy(offchip_bytes: Numbers, hops: Numbers | float, hop_energy: Numbers | float) -> Numbers:
    """Energy of the network-on-package [pJ] = bytes * 8 * hops * hop energy [pJ/bit] (MOHaM: 0.82)."""
    return offchip_bytes * 8 * hops * hop_energy


_OLDER = {
    "link_bytes_per_cycle": "link_bandwidth",
    "interface_bytes_per_cycle": "interface_bandwidth",
    "dram_bytes_per_cycle": "dram_bandwidth",
}
"""Former names of bandwidths in files, with the present ones. Files may use either. Our own are written with the former
names, so that earlier versions can still read `designs/1`."""

_OLD_NAME = Meta(description="bytes per cycle, or `unlimited`; an older name of what is called `..._bandwidth`")


class PackageForm(Form):
    """A package: what is left out or null is the default (`package_from_dict`)."""

    max_tiles: Tiles | None = None
    link_bandwidth: Bandwidth | None = None
    interface_bandwidth: Bandwidth | None = None
    dram_bandwidth: Bandwidth | None = None
    link_bytes_per_cycle: Annotated[Bandwidth | None, _OLD_NAME] = None
    interface_bytes_per_cycle: Annotated[Bandwidth | None, _OLD_NAME] = None
    memory: MemoryForm | None = None
    dram_bytes_per_cycle: Annotated[Bandwidth | None, _OLD_NAME] = None
    hop_energy_pJ_per_bit: Amount | None = None
    router_area_um2: Amount | None = None
    transceiver_area_um2: Amount | None = None
    contention: Contention | None = None
    placement: Placement | None = None
    interface_counts: Shares | None = None


_NAMES = {
    **_OLDER,
    "hop_energy_pJ_per_bit": "hop_energy",
    "router_area_um2": "router_area",
    "transceiver_area_um2": "transceiver_area",
}
"""Parameters that have other names in files, by those names."""


def package_from_dict(
    data: abc.Mapping[str, object],
    *,
    file: object = None,
    where: str = "package",
    default: PackageParameters | None = None,
) -> PackageParameters:
    """Package parameters from a config file's mapping; what is not given is the default.

    ```yaml
    max_tiles: 16
    link_bandwidth: 16                 # bytes per cycle; a bandwidth may be `unlimited`
    interface_bandwidth: 4
    dram_bandwidth: unlimited
    memory: {type: LPDDR4}             # or an energy of its own: {energy_pJ_per_bit: 4.5}
    hop_energy_pJ_per_bit: 0.82
    router_area_um2: 0
    transceiver_area_um2: 0
    contention: all                    # or interface, mesh
    placement: corner                  # or middle
    interface_counts: [[4, 2], [null, 4]]   # up to 4 chiplets 2 interfaces, 4 beyond
    ```

    Args:
        data: The mapping.
        file: The file that it is in, for errors.
        where: Its key path there.
        default: Gives the parameters that the mapping does not; by default `PackageParameters()`.

    Raises:
        InputError: If a key is unknown, or a value has the wrong type or is out of range.
    """
    check_memory_type(data, file=file, where=where)
    form = read_form(data, PackageForm, file=file, where=where)
    return package_of(form, file=file, where=where, default=default)


def package_of(
    form: PackageForm, *, file: object = None, where: str = "package", default: PackageParameters | None = None
) -> PackageParameters:
    """Package parameters from their form; arguments and errors are those of `package_from_dict`."""
    given: dict[str, object] = {}

    def give(key: str, name: str, value: object) -> None:
        if name in given:
            raise InputError(
                f"is given twice: `{name}` of the package is the same",
                file=file,
                item=f"{where}.{key}" if where else key,
                remedy="keep one of the two",
            )
        given[name] = value

    for key in PackageForm.__struct_fields__:
        value = getattr(form, key)
        if value is not None and key != "memory":
            give(key, _NAMES.get(key, key), value)
    base = PackageParameters() if default is None else default
    if form.memory is not None:
        item = f"{where}.memory" if where else "memory"
        given["memory"] = memory_of(form.memory, base.memory, file=file, where=item)
        if (bandwidth := form.memory.bytes_per_cycle) is not None:
            give("memory.bytes_per_cycle", "dram_bandwidth", bandwidth)
    if form.interface_counts is not None:
        _check_counts(form.interface_counts, file, f"{where}.interface_counts" if where else "interface_counts")
    return dataclasses.replace(base, **given)


def load_package(path: str | pathlib.Path, default: PackageParameters | None = None) -> PackageParameters:
    """Package parameters from a YAML file, whose keys `package_from_dict` documents.

    Args:
        path: The file.
        default: Gives the parameters that the file does not.

    Raises:
        InputError: As `package_from_dict`, or the file cannot be read.
    """
    return package_from_dict(read_yaml(path), file=path, where="", default=default)


def as_package(given: PackageParameters | str | os.PathLike[str] | None) -> PackageParameters:
    """Package parameters from what Python functions take: parameters, the path of a file, or None for the default.

    Raises:
        InputError: As `load_package`.
        TypeError: It is none of these.
    """
    return PackageParameters() if given is None else as_given(given, "package", PackageParameters, load_package)


def _check_counts(counts: Sequence[tuple[int | None, int]], file: object, where: str) -> None:
    """Refuses pairs that do not ascend, a last pair without null, and null in any other."""
    most = 0
    for i, pair in enumerate(counts):
        if (pair[0] is None) != (i == len(counts) - 1):
            raise InputError(
                f"{list(pair)!r} is not in order",
                file=file,
                item=f"{where}[{i}]",
                remedy="write null as the chiplets of the last pair, and only of it",
            )
        if pair[0] is not None and pair[0] <= most:
            raise InputError(
                f"{pair[0]} is too small",
                file=file,
                item=f"{where}[{i}]",
                remedy=f"write a number of at least {most + 1}",
            )
        most = pair[0] or most


def package_to_dict(params: PackageParameters) -> dict[str, object]:
    """The parameters as plain data that `package_from_dict` reads; infinite bandwidths as `unlimited`."""
    out: dict[str, object] = {}
    for key in PackageForm.__struct_fields__:
        if key in _OLDER.values():
            continue
        name = _NAMES.get(key, key)
        value = getattr(params, name)
        if name == "memory":
            value = memory_to_dict(params.memory)
        elif name == "interface_counts":
            value = [list(pair) for pair in value]
        elif isinstance(value, float) and math.isinf(value):
            value = "unlimited"
        out[key] = value
    return out
