"""Technology: energy, area and leakage of components as functions of their size, from tables, inside jit.

Axes: A read-write ports (1, 2); W widths; K knots of a curve over the rows (`sram`); T DRAM types; the last axis of 3
is (read energy [pJ per access], write energy [pJ per access], area [um^2]).

The packaged tables and their sources are described in `tables/README.md`.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import importlib.resources
import io
import os
import pathlib
from collections.abc import Iterable
from importlib.resources.abc import Traversable
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import Amount, Factor, Form, Positive, Text, read_form
from mohamjax.hardware.sram import sram_curves, sram_lookup
from mohamjax.reader import as_given, choice, read_table, read_text, read_yaml
from mohamjax.runtime.struct import cast, record

ComponentClass = Literal["none", "sram", "regfile", "register", "dram", "fixed"]

COMPONENT_CLASSES = get_args(ComponentClass)
"""Component classes in the order of their ids: `none` costs nothing, `fixed` has costs of its own."""

DramType = Literal["LPDDR4", "LPDDR", "DDR3", "GDDR5", "HBM2", "HMC"]

DRAM_TYPES = get_args(DramType)
"""DRAM types in the order of their ids."""

# Accelergy's register file scales with the rows as its SRAMs do below CACTI's range.
_SMALL_DEPTH_POWER = 0.78
_REGFILE_MIN_ROWS = 64
_COMPARATOR_BITS = 32

SRAM_COLUMNS = (
    "width_bits",
    "depth_rows",
    "n_rw_ports",
    "read_energy_pJ_per_access",
    "write_energy_pJ_per_access",
    "area_um2",
    "leakage_power_mW",
    "access_time_ns",
    "random_cycle_time_ns",
)
"""Columns of an SRAM table; the last three may be left out."""

LEAKING = ("register", "comparator", "multiplier", "adder")
"""Components of `Technology.logic_leakage`: per bit, per 32 bits, per bit x bit and per bit."""

_PARTS = ("register", "comparator", "address_generator", "multiplier", "adder", "wire")


@record
class Technology:
    """What components cost in one technology. `load_technology` fills it with double-precision NumPy arrays.

    Attributes:
        sram: `[A, W, K, 3]` float, base-2 logarithms of the costs at the knots; NaN for a port count that the table
            does not have.
        sram_standby: `[A, W, K, 3]` float, base-2 logarithms of leakage [mW of the whole memory], access time [ns] and
            cycle time [ns] at the knots; NaN where the table has none.
        sram_rows: `[A, W, K]` float, base-2 logarithms of the knots' row counts; inf in padding.
        sram_widths: `[W]` float, bits.
        register: `[3]` float, costs per bit of a register.
        comparator: `[3]` float, costs of a 32-bit comparator.
        address_generator: `[3]` float, costs per bit of the address of a buffer.
        multiplier: `[3]` float, costs per bit x bit of an integer multiplier (energy first).
        adder: `[3]` float, costs per bit of an integer adder (energy first).
        wire: `[3]` float, the first is the energy per bit and mm of an on-chip wire.
        dram: `[T]` float, pJ per bit read or written.
        logic_leakage: `[4]` float, mW of the components in `LEAKING`, in its units; NaN if unknown.
        static_share: `[]` float, the part of leakage x makespan that counts towards the energy of designs; None (the
            default) leaves it out, as Timeloop's totals do, at no cost. Not part of `technology_hash`.
    """

    sram: jax.Array | np.ndarray
    sram_standby: jax.Array | np.ndarray
    sram_rows: jax.Array | np.ndarray
    sram_widths: jax.Array | np.ndarray
    register: jax.Array | np.ndarray
    comparator: jax.Array | np.ndarray
    address_generator: jax.Array | np.ndarray
    multiplier: jax.Array | np.ndarray
    adder: jax.Array | np.ndarray
    wire: jax.Array | np.ndarray
    dram: jax.Array | np.ndarray
    logic_leakage: jax.Array | np.ndarray
    static_share: jax.Array | np.ndarray | None = None


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

    curves = table.sram, table.sram_rows, table.sram_widths
    sram = jnp.exp2(sram_lookup(curves, rows, width, ports, wider=1, energies=2)) + address

    # An access uses the registers of one row and all comparators; the area is that of all rows.
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


def mac_costs(
    technology: Technology, width_bits: jax.Array | float, accumulator_bits: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
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


def component_leakage(
    technology: Technology,
    component: jax.Array,
    depth: jax.Array,
    width: jax.Array,
    ports: jax.Array | int = 1,
) -> jax.Array:
    """Leakage of whole components [mW, or pJ per nanosecond]; `fixed` components and DRAM have none here.

    Pure and jittable; arguments are those of `component_costs`, with `depth` a float array. The leakage of register
    files is that of registers and comparators: the tables have none for address generators.

    Returns:
        float in the dtype of `depth`, NaN where the technology has none.
    """
    table = cast(technology, depth.dtype)
    rows = jnp.where(jnp.isfinite(depth) & (depth >= 1), depth, 1)
    sizes = jnp.broadcast_arrays(rows, jnp.asarray(width, rows.dtype), jnp.asarray(ports, jnp.int32))
    curves = table.sram_standby[..., :1], table.sram_rows, table.sram_widths
    standby = sram_lookup(curves, *sizes, wider=1)
    register, comparator = table.logic_leakage[0], table.logic_leakage[1]
    leaks = jnp.zeros_like(rows)
    for name, value in (
        ("sram", jnp.exp2(standby[..., 0])),
        ("regfile", rows * width * (register + comparator / _COMPARATOR_BITS)),
        ("register", rows * width * register),
    ):
        leaks = jnp.where(component == COMPONENT_CLASSES.index(name), value, leaks)
    return jnp.where(depth > 0, leaks, 0)


def mac_leakage(
    technology: Technology, width_bits: jax.Array | float, accumulator_bits: jax.Array | float
) -> jax.Array:
    """Leakage of a multiply-accumulate [mW], composed like the energy in `mac_costs`."""
    return width_bits**2 * technology.logic_leakage[2] + accumulator_bits * technology.logic_leakage[3]


def sram_times(
    technology: Technology, depth: np.ndarray | float, width: np.ndarray | float, ports: np.ndarray | int = 1
) -> np.ndarray:
    """Access and cycle time of SRAMs.

    Args:
        technology: The tables.
        depth: `[...]` float, rows, at least 1.
        width: `[...]` float, bits of one access.
        ports: `[...]` int, 1 or 2.

    Returns:
        `[..., 2]` float32 [ns]; NaN where the technology has none.
    """
    table = cast(technology, jnp.float32)
    sizes = jnp.broadcast_arrays(jnp.float32(depth), jnp.float32(width), jnp.int32(ports))
    curves = table.sram_standby[..., 1:], table.sram_rows, table.sram_widths
    return np.exp2(_lookup_times(curves, *sizes))


_lookup_times = jax.jit(functools.partial(sram_lookup, wider=0))


def packaged_technologies() -> tuple[str, ...]:
    """Names of the packaged technologies, the default first."""
    return tuple(_scaling())


def load_technology(path: str | os.PathLike[str] | None = None, *, static_energy: bool = False) -> Technology:
    """Read a technology: a packaged one by name, or a user's file, which changes figures of a packaged one.

    A CSV file is an SRAM table (columns `width_bits, depth_rows, n_rw_ports, read_energy_pJ_per_access,
    write_energy_pJ_per_access, area_um2` and, where known, `leakage_power_mW, access_time_ns, random_cycle_time_ns`;
    others are ignored); everything else stays as packaged. A YAML file may have

    ```yaml
    format: technology/1
    name: my-28nm
    base: 32nm                           # a packaged technology; the default one if left out
    scale: {energy: 0.5, area: 0.4, leakage: 1}   # on every figure of it that is not given below
    sram: my_sram.csv                    # beside this file; columns as above
    register: {read_energy_pJ: 0.006, write_energy_pJ: 0.006, area_um2: 4.1}   # per bit
    comparator: {...}                    # per 32-bit comparison
    address_generator: {...}             # per bit of address
    multiplier: {energy_pJ: 0.008, area_um2: 4.2}    # per bit x bit
    adder: {energy_pJ: 0.004, area_um2: 6.0}         # per bit
    wire_energy_pJ: 0.08                 # per bit and mm
    dram_energy_pJ: {LPDDR4: 8, HBM2: 3.9}           # per bit
    ```

    `register`, `comparator`, `multiplier` and `adder` may also have `leakage_mW`.

    Args:
        path: A name out of `packaged_technologies()`, or a YAML or CSV file; None for the default one.
        static_energy: Whether leakage over the makespan counts towards the energy of designs.

    Returns:
        Double-precision NumPy arrays; functions that use them cast to their own float dtype.

    Raises:
        InputError: If there is no such technology, the file cannot be read, a row or key is wrong, or static energy is
            asked for although the technology lacks leakage.
    """
    name = default_technology() if path is None else str(path)
    if name in packaged_technologies():
        figures = _packaged(name)
    else:
        file = pathlib.Path(name)
        if file.suffix.lower() == ".csv":
            figures = dataclasses.replace(_packaged(default_technology()), rows=_read_sram_file(file))
        elif not file.suffix and not file.exists():
            raise InputError(
                "is neither a packaged technology nor a file",
                item=name,
                remedy=f"packaged are {', '.join(packaged_technologies())}",
            )
        else:
            figures = _override(file)
    curves = sram_curves(figures.rows)
    technology = Technology(
        sram=curves.costs,
        sram_standby=curves.standby,
        sram_rows=curves.rows,
        sram_widths=curves.widths,
        dram=figures.dram,
        logic_leakage=figures.leakage,
        **figures.parts,
    )
    return counting_leakage(technology, name) if static_energy else technology


@dataclasses.dataclass(frozen=True)
class _Figures:
    """The figures of a technology as its files state them.

    Attributes:
        rows: `[R, 9]`, with the columns of `read_sram_rows`.
        parts: `[3]` of each of `_PARTS`, by name.
        leakage: `[4]`, mW, in the order of `LEAKING`.
        dram: `[T]`, pJ per bit.
    """

    rows: np.ndarray
    parts: dict[str, np.ndarray]
    leakage: np.ndarray
    dram: np.ndarray


def _tables() -> Traversable:
    return importlib.resources.files("mohamjax.hardware").joinpath("tables")


class Scale(Form):
    """Factors on all packaged figures that are not given."""

    energy: Factor = 1.0
    area: Factor = 1.0
    leakage: Factor = 1.0


class Costs(Form):
    """What a component costs per access, and its area."""

    read_energy_pJ: Amount
    write_energy_pJ: Amount
    area_um2: Amount
    leakage_mW: Amount | None = None

    def row(self) -> np.ndarray:
        """The costs as `[3]` float64: read energy, write energy, area."""
        return np.array([self.read_energy_pJ, self.write_energy_pJ, self.area_um2])


class OperationCosts(Form):
    """What an operation costs, and the area of its unit."""

    energy_pJ: Amount
    area_um2: Amount
    leakage_mW: Amount | None = None

    def row(self) -> np.ndarray:
        """The costs as `[3]` float64: energy, 0, area."""
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
    base: Text | None = None
    scale: Scale | None = None
    sram: Text | None = None
    register: Costs | None = None
    comparator: Costs | None = None
    address_generator: Costs | None = None
    multiplier: OperationCosts | None = None
    adder: OperationCosts | None = None
    wire_energy_pJ: Amount | None = None
    dram_energy_pJ: DramEnergies | None = None


def _packaged_rows(name: str) -> Iterable[dict[str, str]]:
    return csv.DictReader(io.StringIO(_tables().joinpath(name).read_text(encoding="utf-8")))


@functools.cache
def _scaling() -> dict[str, tuple[str, float, float]]:
    """By packaged technology: its SRAM table, and the factors from 45 nm on energy (and leakage) and area of logic."""
    return {
        row["technology"]: (row["sram"], float(row["logic_energy"]), float(row["logic_area"]))
        for row in _packaged_rows("technologies.csv")
    }


def default_technology() -> str:
    """The name of the technology that is used where none is named."""
    return packaged_technologies()[0]


def _packaged(name: str) -> _Figures:
    _, energy, area = _scaling()[name]
    factor = np.array([energy, energy, area])
    parts, leakage = {}, {}
    for row in _packaged_rows("components_45nm.csv"):
        figures = np.array([float(row[c]) for c in ("read_energy_pJ", "write_energy_pJ", "area_um2")])
        parts[row["component"]] = figures * (1 if row["component"] == "wire" else factor)
        leakage[row["component"]] = float(row["leakage_mW"]) * energy
    per_bit = {row["type"]: float(row["energy_pJ_per_bit"]) for row in _packaged_rows("dram.csv")}
    return _Figures(
        rows=packaged_sram_rows(name),
        parts=parts,
        leakage=np.array([leakage[part] for part in LEAKING]),
        dram=np.array([per_bit[kind] for kind in DRAM_TYPES]),
    )


def _override(path: pathlib.Path) -> _Figures:
    """The figures of a packaged technology, scaled and replaced as a user's YAML file says."""
    form = read_form(read_yaml(path), TechnologyForm, file=path)
    name = default_technology() if form.base is None else form.base
    base = _packaged(choice(name, packaged_technologies(), what="packaged technology", file=path, item="base"))
    scale = form.scale or Scale()
    if form.sram is not None:
        try:
            rows = _read_sram_file(path.parent / form.sram)
        except InputError as error:
            told = ": ".join(part for part in (error.file, error.item, error.message) if part)
            raise InputError(told, file=path, item="sram", remedy=error.remedy) from None
    else:
        rows = base.rows * np.array([1, 1, 1, scale.energy, scale.energy, scale.area, scale.leakage, 1, 1])
    parts = {name: value * np.array([scale.energy, scale.energy, scale.area]) for name, value in base.parts.items()}
    leakage = base.leakage * scale.leakage
    given = {name: getattr(form, name) for name in _PARTS[:-1]}
    for name, costs in given.items():
        if costs is not None:
            parts[name] = costs.row()
            if name in LEAKING:
                leakage[LEAKING.index(name)] = np.nan if costs.leakage_mW is None else costs.leakage_mW
            elif costs.leakage_mW is not None:
                told, remedy = "is not known to leak", "leave it out"
                raise InputError(told, file=path, item=f"{name}.leakage_mW", remedy=remedy)
    if form.wire_energy_pJ is not None:
        parts["wire"] = np.array([form.wire_energy_pJ, 0.0, 0.0])
    stated = [getattr(form.dram_energy_pJ, name, None) for name in DRAM_TYPES]
    own = zip(base.dram * scale.energy, stated, strict=True)
    return _Figures(rows, parts, leakage, np.array([old if new is None else new for old, new in own]))


def _read_sram_file(path: pathlib.Path) -> np.ndarray:
    """Rows of a user's SRAM table."""
    return read_sram_rows(read_text(path, "CSV file"), path)


def packaged_sram_rows(name: str | None = None) -> np.ndarray:
    """The SRAM table of a packaged technology as `[R, 9]` float64, with the columns of `read_sram_rows`."""
    file = _scaling()[default_technology() if name is None else name][0]
    with _tables().joinpath(file).open("rb") as opened, np.load(opened) as table:
        return np.stack([table[column] for column in SRAM_COLUMNS], axis=1).astype(np.float64)


def read_sram_rows(text: str, file: object) -> np.ndarray:
    """Parse and check an SRAM table.

    Args:
        text: CSV with a header line; the columns are named in `load_technology`.
        file: Where it comes from, for errors.

    Returns:
        `[R, 9]` float64, columns `SRAM_COLUMNS`; NaN in the last three where the table has no such column.

    Raises:
        InputError: If a column is missing, a value is not a positive number, the ports are neither 1 nor 2, a size
            occurs twice, or there are no rows.
    """
    header, lines = read_table(text, file)
    needed = SRAM_COLUMNS[:6]
    missing = [c for c in needed if c not in header]
    if missing:
        raise InputError(
            f"column {missing[0]!r} is missing",
            file=file,
            item="header",
            remedy=f"an SRAM table has the columns {', '.join(needed)}",
        )
    rows, seen = [], set()
    for line, row in lines:
        item = f"line {line}"
        values = [
            read_form(_number(row[c]), Positive, file=file, where=f"{item}, {c}") if c in header else np.nan
            for c in SRAM_COLUMNS
        ]
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


def as_technology(given: Technology | str | os.PathLike[str] | None) -> Technology:
    """A technology from what Python functions take: a technology, a name, the path of a file, or None for the default.

    Raises:
        InputError: As `load_technology`.
        TypeError: It is none of these.
    """
    return load_technology() if given is None else as_given(given, "technology", Technology, load_technology)


def _number(text: str) -> float | str:
    """The number that a text holds, else the text."""
    try:
        return float(text)
    except ValueError:
        return text


def counting_leakage(technology: Technology, file: object = None) -> Technology:
    """The technology with static energy: leakage over the makespan counts towards the energy of designs.

    Args:
        technology: The technology.
        file: Where it comes from, for errors.

    Raises:
        InputError: Some of its leakage is unknown.
    """
    if technology.static_share is not None:
        return technology
    known = ~np.isnan(technology.sram)[..., :1]
    if np.any(np.isnan(technology.sram_standby[..., :1]) & known) or np.any(np.isnan(technology.logic_leakage)):
        raise InputError(
            "states no leakage, so there is no static energy",
            file=file,
            item="technology",
            remedy="add the column leakage_power_mW to its SRAM table, and leakage_mW to the parts that it states",
        )
    return dataclasses.replace(technology, static_share=np.float64(1))


def technology_hash(technology: Technology) -> str:
    """SHA-256 of all figures (hexadecimal), to tell technologies apart in result files."""
    digest = hashlib.sha256()
    for name, value in _items(technology):
        # + 0.0 makes -0.0 and 0.0 one number.
        array = np.ascontiguousarray(np.asarray(value, dtype="<f8")) + 0.0
        digest.update(name.encode() + repr(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


def _items(technology: Technology) -> Iterable[tuple[str, jax.Array]]:
    names = sorted(field.name for field in dataclasses.fields(technology) if field.name != "static_share")
    return [(name, getattr(technology, name)) for name in names]
