"""Technology: energy and area of components as functions of their size, from tables, inside jit.

Axes: A read-write ports (1, 2); W widths (powers of two, 8 to 512 bits); D row counts (2^k and 1.5 * 2^k, from 1
to 2^22); T DRAM types; the last axis of 3 is (read energy [pJ per access], write energy [pJ per access],
area [um^2]). The grid is regular on a logarithmic scale, so that a look-up needs no search.

The packaged 45 nm tables and their sources are described in `tables/README.md`.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import importlib.resources
import io
import math
import pathlib
from collections import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import Amount, Form, Positive, Text, read_form
from mohamjax.reader import read_table, read_text, read_yaml
from mohamjax.struct import cast

if TYPE_CHECKING:  # type checkers know the standard dataclass, not that of chex
    from dataclasses import dataclass
else:
    from chex import dataclass

__all__ = [
    "COMPONENT_CLASSES",
    "DRAM_TYPES",
    "ComponentClass",
    "Costs",
    "DramType",
    "Technology",
    "TechnologyForm",
    "component_costs",
    "load_technology",
    "mac_costs",
    "packaged_sram_rows",
    "read_sram_rows",
    "sram_grid",
    "technology_hash",
]

ComponentClass = Literal["none", "sram", "regfile", "register", "dram", "fixed"]

COMPONENT_CLASSES = get_args(ComponentClass)
"""Component classes in the order of their ids: `none` costs nothing, `fixed` has costs of its own."""

DramType = Literal["LPDDR4", "LPDDR", "DDR3", "GDDR5", "HBM2", "HMC"]

DRAM_TYPES = get_args(DramType)
"""DRAM types in the order of their ids."""

_LOG_WIDTH_MIN, _LOG_WIDTH_MAX = 3, 9
_LOG_DEPTH_MAX = 22
_GRID_WIDTHS = np.arange(_LOG_WIDTH_MIN, _LOG_WIDTH_MAX + 1, dtype=np.float64)
_HALF = math.log2(1.5)
_GRID_DEPTHS = np.sort(np.concatenate([np.arange(_LOG_DEPTH_MAX + 1.0), np.arange(_LOG_DEPTH_MAX + 0.0) + _HALF]))

# How the Accelergy CACTI plug-in scales sizes below CACTI's range (component tables, `clamped` = 1).
_SMALL_DEPTH_POWER = 0.78
_SMALL_WIDTH_SLOPE = 0.7
_REGFILE_MIN_ROWS = 64
_COMPARATOR_BITS = 32

_SRAM_COLUMNS = (
    "width_bits",
    "depth_rows",
    "n_rw_ports",
    "read_energy_pJ_per_access",
    "write_energy_pJ_per_access",
    "area_um2",
)
_PARTS = ("register", "comparator", "address_generator", "multiplier", "adder", "wire")


@dataclass(frozen=True)
class Technology:
    """What components cost in one technology. `load_technology` fills it with double-precision NumPy arrays.

    Attributes:
        sram: `[A, W, D, 3]` float, base-2 logarithms of the costs on the regular grid; NaN for a port count that
            the table does not have.
        register: `[3]` float, costs per bit of a register.
        comparator: `[3]` float, costs of a 32-bit comparator.
        address_generator: `[3]` float, costs per bit of the address of a buffer.
        multiplier: `[3]` float, costs per bit x bit of an integer multiplier (energy first).
        adder: `[3]` float, costs per bit of an integer adder (energy first).
        wire: `[3]` float, the first is the energy per bit and mm of an on-chip wire.
        dram: `[T]` float, pJ per bit read or written.
    """

    sram: jax.Array | np.ndarray
    register: jax.Array | np.ndarray
    comparator: jax.Array | np.ndarray
    address_generator: jax.Array | np.ndarray
    multiplier: jax.Array | np.ndarray
    adder: jax.Array | np.ndarray
    wire: jax.Array | np.ndarray
    dram: jax.Array | np.ndarray


def component_costs(
    technology: Technology,
    component: jax.Array,
    depth: jax.Array,
    width: jax.Array,
    ports: jax.Array | int = 1,
    dram_type: jax.Array | int = 0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Energy per access and area of components; every class is computed and the right one selected.

    Pure and jittable; all arguments broadcast against each other. How each class is put together is described in
    `tables/README.md`; for the packaged tables the results are Accelergy's (smartbuffer_SRAM, smartbuffer_RF).

    Args:
        technology: The tables.
        component: int, ids out of `COMPONENT_CLASSES`; `none` and `fixed` cost 0 here.
        depth: float, rows; a component without rows costs nothing. Must be finite except for DRAM.
        width: float, bits of one access (one row).
        ports: 1 or 2 read-write ports, for SRAM.
        dram_type: int, ids out of `DRAM_TYPES`, for DRAM.

    Returns:
        read energy [pJ per access], write energy [pJ per access] and area [um^2], in the float dtype of `depth`.
    """
    depth = jnp.asarray(depth)
    dtype = depth.dtype if jnp.issubdtype(depth.dtype, jnp.floating) else jnp.result_type(float)
    depth, width, component, ports, dram_type = jnp.broadcast_arrays(
        depth.astype(dtype),
        jnp.asarray(width, dtype),
        jnp.asarray(component, jnp.int32),
        jnp.asarray(ports, jnp.int32),
        jnp.asarray(dram_type, jnp.int32),
    )
    table = cast(technology, dtype)
    rows = jnp.where(jnp.isfinite(depth) & (depth >= 1), depth, 1)
    rows_, width_ = rows[..., None], width[..., None]

    mantissa, exponent = jnp.frexp(rows)
    address_bits = exponent - (mantissa == 0.5)  # ceil(log2(rows)), exact
    address = address_bits.astype(dtype)[..., None] * table.address_generator

    sram = jnp.exp2(_sram_log2(table.sram, mantissa, exponent, width, ports)) + address

    # Registers of one row and all comparators per access; every row has its registers and comparators.
    scale = jnp.minimum(rows_ / _REGFILE_MIN_ROWS, 1) ** _SMALL_DEPTH_POWER
    compared = jnp.maximum(rows_, _REGFILE_MIN_ROWS) * width_ / _COMPARATOR_BITS
    access = scale * (width_ * table.register + compared * table.comparator)
    storage = rows_ * width_ * (table.register + table.comparator / _COMPARATOR_BITS)
    is_area = jnp.asarray([False, False, True])
    regfile = jnp.where(is_area, storage, access) + address

    register = width_ * jnp.where(is_area, rows_, 1) * table.register
    dram = jnp.where(is_area, 0, width_ * table.dram[dram_type][..., None])

    costs = jnp.zeros_like(sram)
    for name, value in (("sram", sram), ("regfile", regfile), ("register", register), ("dram", dram)):
        costs = jnp.where((component == COMPONENT_CLASSES.index(name))[..., None], value, costs)
    costs = jnp.where((depth > 0)[..., None], costs, 0)
    return costs[..., 0], costs[..., 1], costs[..., 2]


def _sram_log2(
    grid: jax.Array, mantissa: jax.Array, exponent: jax.Array, width: jax.Array, ports: jax.Array
) -> jax.Array:
    """Log-log interpolation in rows = mantissa * 2^exponent (mantissa in [0.5, 1)) and width; linear outside."""
    dtype = grid.dtype
    half = (mantissa >= 0.75).astype(jnp.int32)
    i = jnp.clip(2 * (exponent - 1) + half, 0, len(_GRID_DEPTHS) - 2)
    odd = i % 2 == 1
    octave = (exponent - 1 - i // 2).astype(dtype) + jnp.log2(2 * mantissa)
    u = jnp.where(odd, (octave - _HALF) / (1 - _HALF), octave / _HALF)[..., None]

    x = jnp.log2(width) - _LOG_WIDTH_MIN
    j = jnp.clip(jnp.floor(x).astype(jnp.int32), 0, len(_GRID_WIDTHS) - 2)
    v = (x - j.astype(dtype))[..., None]

    a = jnp.clip(ports - 1, 0, 1)
    n_depth = len(_GRID_DEPTHS)
    flat = grid.reshape(-1, 3)
    base = (a * len(_GRID_WIDTHS) + j) * n_depth + i
    corner = [[flat[base + dj * n_depth + di] for di in (0, 1)] for dj in (0, 1)]
    low, high = ((1 - u) * c[0] + u * c[1] for c in corner)
    return low + v * (high - low)


def mac_costs(
    technology: Technology, width_bits: jax.Array | float, accumulator_bits: jax.Array | float
) -> tuple[Any, Any]:
    """Energy [pJ] and area [um^2] of a multiply-accumulate: multiplier (width x width) and adder (accumulator).

    Pure and jittable, in the float dtype of the arguments. The form is that of Accelergy's `intmac`, see
    `tables/README.md`.

    Args:
        technology: The tables; NumPy or JAX.
        width_bits: `[]`, width of the operands.
        accumulator_bits: `[]`, width of the adder.

    Returns:
        Energy and area, `[]` each.
    """
    costs = width_bits**2 * technology.multiplier + accumulator_bits * technology.adder
    return costs[0], costs[2]


def sram_grid(rows: np.ndarray) -> np.ndarray:
    """The regular grid of `Technology.sram` from table rows on any grid of sizes.

    Piecewise linear between the rows on logarithmic axes: first along the row count for each width of the table,
    then along the width. Below the table's smallest size the rule of the Accelergy CACTI plug-in holds (energy
    * row_ratio^0.78 * (0.7 width_ratio + 0.3), area linear). Above its largest row count the slope of the last octave
    goes on; a wider memory is as many of the widest side by side. A port count whose table starts or ends at other
    widths than the other's takes over the other's ratio between widths there. Rows that are not on the grid's own
    sizes are met up to this interpolation.

    Args:
        rows: `[R, 6]` float, columns as `read_sram_rows` gives them.

    Returns:
        `[A, W, D, 3]` float64, base-2 logarithms; NaN for a port count without rows.
    """
    grid = np.full((2, len(_GRID_WIDTHS), len(_GRID_DEPTHS), 3), np.nan)
    columns: list[dict[float, np.ndarray]] = [{}, {}]
    for ports in (1, 2):
        of_port = rows[rows[:, 2] == ports]
        for width in np.unique(of_port[:, 0]):
            part = of_port[of_port[:, 0] == width]
            part = part[np.argsort(part[:, 1])]
            columns[ports - 1][math.log2(width)] = _resample_depth(np.log2(part[:, 1]), np.log2(part[:, 3:]))
    for a, column in enumerate(columns):
        for j, x in enumerate(_GRID_WIDTHS):
            if column:
                grid[a, j] = _resample_width(x, column, columns[1 - a])
    return grid


def _resample_depth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`[n]` log2 rows, `[n, 3]` log2 costs -> `[D, 3]` on the grid."""
    out = np.stack([np.interp(_GRID_DEPTHS, x, y[:, k]) for k in range(3)], axis=-1)
    below, above = x[0] > _GRID_DEPTHS, x[-1] < _GRID_DEPTHS
    power = np.array([_SMALL_DEPTH_POWER, _SMALL_DEPTH_POWER, 1.0])
    out[below] = y[0] + (_GRID_DEPTHS[below, None] - x[0]) * power
    back = max(x[-1] - 1, x[0])
    slope = power
    if back < x[-1]:
        slope = (y[-1] - [np.interp(back, x, y[:, k]) for k in range(3)]) / (x[-1] - back)
    out[above] = y[-1] + (_GRID_DEPTHS[above, None] - x[-1]) * slope
    return out


def _resample_width(x: float, own: abc.Mapping[float, np.ndarray], other: abc.Mapping[float, np.ndarray]) -> np.ndarray:
    """`[D, 3]` log2 costs at log2 width `x` from the columns of this and of the other port count."""
    widths = sorted(own)
    if widths[0] <= x <= widths[-1]:
        return _between(x, widths, own)
    edge = widths[0] if x < widths[0] else widths[-1]
    reach = sorted(other)
    if reach and reach[0] <= x <= reach[-1] and reach[0] <= edge <= reach[-1]:
        return own[edge] + _between(x, reach, other) - _between(edge, reach, other)
    if x < edge:
        ratio = 2.0 ** (x - edge)
        energy = math.log2(_SMALL_WIDTH_SLOPE * ratio + 1 - _SMALL_WIDTH_SLOPE)
        return own[edge] + np.array([energy, energy, x - edge])
    return own[edge] + (x - edge)


def _between(x: float, widths: list[float], column: abc.Mapping[float, np.ndarray]) -> np.ndarray:
    """Linear interpolation between the two neighbouring columns."""
    high = min(w for w in widths if w >= x)
    low = max(w for w in widths if w <= x)
    t = 0.0 if high == low else (x - low) / (high - low)
    return (1 - t) * column[low] + t * column[high]


def load_technology(path: str | pathlib.Path | None = None) -> Technology:
    """Read a technology: the packaged 45 nm tables, or a user's own on top of them.

    A CSV file is an SRAM table (columns `width_bits, depth_rows, n_rw_ports, read_energy_pJ_per_access,
    write_energy_pJ_per_access, area_um2`; others are ignored); everything else stays as packaged. A YAML file may have

    ```yaml
    format: technology/1
    name: my-28nm
    scale: {energy: 0.5, area: 0.4}      # on every packaged figure that is not given below
    sram: my_sram.csv                    # beside this file; columns as above
    register: {read_energy_pJ: 0.006, write_energy_pJ: 0.006, area_um2: 4.1}   # per bit
    comparator: {...}                    # per 32-bit comparison
    address_generator: {...}             # per bit of address
    multiplier: {energy_pJ: 0.008, area_um2: 4.2}    # per bit x bit
    adder: {energy_pJ: 0.004, area_um2: 6.0}         # per bit
    wire_energy_pJ: 0.08                 # per bit and mm
    dram_energy_pJ: {LPDDR4: 8, HBM2: 3.9}           # per bit
    ```

    Args:
        path: A YAML or CSV file; None for the packaged tables.

    Returns:
        Double-precision NumPy arrays; functions that use them cast to their own float dtype.

    Raises:
        InputError: If the file cannot be read, or a row or key is wrong.
    """
    folder = _tables()
    rows = packaged_sram_rows()
    parts = {
        row["component"]: np.array([float(row[c]) for c in ("read_energy_pJ", "write_energy_pJ", "area_um2")])
        for row in csv.DictReader(io.StringIO(folder.joinpath("components_45nm.csv").read_text()))
    }
    per_bit = {
        row["type"]: float(row["energy_pJ_per_bit"])
        for row in csv.DictReader(io.StringIO(folder.joinpath("dram.csv").read_text()))
    }
    dram = np.array([per_bit[name] for name in DRAM_TYPES])
    if path is not None:
        path = pathlib.Path(path)
        if path.suffix.lower() == ".csv":
            rows = _read_sram_file(path)
        else:
            rows, parts, dram = _override(path, rows, parts, dram)
    return Technology(sram=sram_grid(rows), dram=dram, **parts)


def _tables() -> Any:
    return importlib.resources.files("mohamjax.hardware").joinpath("tables")


class Scale(Form):
    """Factors on all packaged figures that are not given."""

    energy: Positive = 1.0
    area: Positive = 1.0


class Costs(Form):
    """What a component costs per access, and its area."""

    read_energy_pJ: Amount
    write_energy_pJ: Amount
    area_um2: Amount

    def row(self) -> np.ndarray:
        """`[3]`."""
        return np.array([self.read_energy_pJ, self.write_energy_pJ, self.area_um2])


class OperationCosts(Form):
    """What an operation costs, and the area of its unit."""

    energy_pJ: Amount
    area_um2: Amount

    def row(self) -> np.ndarray:
        """`[3]`."""
        return np.array([self.energy_pJ, 0.0, self.area_um2])


class DramEnergies(Form):
    """pJ per bit of the types of `DRAM_TYPES`."""

    LPDDR4: Amount | None = None
    LPDDR: Amount | None = None
    DDR3: Amount | None = None
    GDDR5: Amount | None = None
    HBM2: Amount | None = None
    HMC: Amount | None = None


class TechnologyForm(Form):
    """A `technology/1` file: figures in the place of the packaged ones (`load_technology`)."""

    format: Literal["technology/1"] | None = None
    name: str | None = None
    scale: Scale | None = None
    sram: Text | None = None
    register: Costs | None = None
    comparator: Costs | None = None
    address_generator: Costs | None = None
    multiplier: OperationCosts | None = None
    adder: OperationCosts | None = None
    wire_energy_pJ: Amount | None = None
    dram_energy_pJ: DramEnergies | None = None


def _override(
    path: pathlib.Path, rows: np.ndarray, parts: dict[str, np.ndarray], dram: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
    """The packaged figures, scaled and replaced as a user's YAML file says."""
    form = read_form(read_yaml(path), TechnologyForm, file=path)
    scale = form.scale or Scale()
    factor = np.array([scale.energy, scale.energy, scale.area])
    if form.sram is not None:
        rows = _read_sram_file(path.parent / form.sram)
    else:
        rows = np.concatenate([rows[:, :3], rows[:, 3:] * factor], axis=1)
    parts = {name: value * factor for name, value in parts.items()}
    given = {name: getattr(form, name) for name in _PARTS[:-1]}
    parts |= {name: costs.row() for name, costs in given.items() if costs is not None}
    if form.wire_energy_pJ is not None:
        parts["wire"] = np.array([form.wire_energy_pJ, 0.0, 0.0])
    stated = [getattr(form.dram_energy_pJ, name, None) for name in DRAM_TYPES]
    dram = np.array([own if new is None else new for own, new in zip(dram * scale.energy, stated, strict=True)])
    return rows, parts, dram


def _read_sram_file(path: pathlib.Path) -> np.ndarray:
    """Rows of a user's SRAM table."""
    return read_sram_rows(read_text(path, "CSV file"), path)


def packaged_sram_rows() -> np.ndarray:
    """The packaged SRAM table as `[R, 6]` float64, columns as in `read_sram_rows`."""
    return read_sram_rows(_tables().joinpath("sram_45nm.csv").read_text(encoding="utf-8"), "sram_45nm.csv")


def read_sram_rows(text: str, file: object) -> np.ndarray:
    """Parse and check an SRAM table.

    Args:
        text: CSV with a header line; the columns are named in `load_technology`.
        file: Where it comes from, for complaints.

    Returns:
        `[R, 6]` float64: width [bits], rows, ports, read [pJ], write [pJ], area [um^2].

    Raises:
        InputError: If a column is missing, a value is no positive number, the ports are neither 1 nor 2, a size
            occurs twice, or nothing is in it.
    """
    header, lines = read_table(text, file)
    missing = [c for c in _SRAM_COLUMNS if c not in header]
    if missing:
        raise InputError(
            f"column {missing[0]!r} is missing",
            file=file,
            item="header",
            remedy=f"an SRAM table has the columns {', '.join(_SRAM_COLUMNS)}",
        )
    rows, seen = [], set()
    for line, row in lines:
        item = f"line {line}"
        values = [read_form(_number(row[c]), Positive, file=file, where=f"{item}, {c}") for c in _SRAM_COLUMNS]
        if values[2] not in (1, 2) or values[1] < 1:
            raise InputError(
                f"{values[1]:g} rows and {values[2]:g} ports",
                file=file,
                item=item,
                remedy="give at least 1 row and 1 or 2 ports",
            )
        if tuple(values[:3]) in seen:
            raise InputError("the same size occurs twice", file=file, item=item, remedy="remove one of them")
        seen.add(tuple(values[:3]))
        rows.append(values)
    if not rows:
        raise InputError("holds no rows", file=file, remedy="give at least one size")
    return np.array(rows, dtype=np.float64)


def _number(text: str) -> float | str:
    """The number that a text says, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def technology_hash(technology: Technology) -> str:
    """SHA-256 of all figures (hexadecimal), to tell technologies apart in result files."""
    digest = hashlib.sha256()
    for name, value in _items(technology):
        # + 0.0 makes -0.0 and 0.0 one number.
        array = np.ascontiguousarray(np.asarray(value, dtype="<f8")) + 0.0
        digest.update(name.encode() + repr(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


def _items(technology: Technology) -> Iterable[tuple[str, Any]]:
    return sorted((field.name, getattr(technology, field.name)) for field in dataclasses.fields(technology))
