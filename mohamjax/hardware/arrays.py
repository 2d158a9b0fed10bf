"""Machines and templates as padded arrays, and machines of any size made from templates inside jit.

Axes: T templates; L levels, innermost first, padded at the outer end; V data spaces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import core as jax_core

from mohamjax.errors import InputError
from mohamjax.hardware.technology import (
    COMPONENT_CLASSES,
    DRAM_TYPES,
    Technology,
    component_costs,
    component_leakage,
    mac_costs,
    mac_leakage,
)
from mohamjax.hardware.template import Level, Template
from mohamjax.runtime.programs import jit_o0_plain_loops
from mohamjax.runtime.struct import cast, record


@record
class Machine:
    """One accelerator, padded to L levels (innermost first, padding outermost).

    A padded level has `level_mask` False, keeps nothing, has no limits (infinite capacity, bandwidth and, except after
    `resize`, mesh), fanout 1 and no costs, so that it never changes a result. Float fields share one float dtype.

    Attributes:
        level_mask: `[L]` bool, the level exists. The outermost existing level is the off-chip memory.
        keep: `[L, V]` bool, data spaces that the level stores by default; a mapping may say otherwise.
        capacity: `[L]` float, words per instance, inf where unlimited, 0 where a level only distributes.
        word_bits: `[L]` float, bits of a word.
        block_words: `[L]` float, words of one physical access.
        fanout: `[L, 2]` float, children (instances of the next inner level, MACs for level 0) along X and Y.
        mesh: `[L, 2]` float, instances of the level along X and Y over the whole chip.
        instances: `[L]` float, instances of the level; the product of `mesh`.
        bandwidth: `[L, 2]` float, words per cycle and instance read and written, inf where unlimited.
        reduces: `[L]` bool, the level adds partial sums in place (False for DRAM).
        access_energy: `[L, 2]` float, pJ per block read and per block written (fills and updates).
        area: `[L]` float, um^2 per instance.
        hop_energy: `[L]` float, pJ per word and hop of the network between the level and its children.
        mac_mesh: `[2]` float, MACs along X and Y.
        mac_instances: `[]` float.
        mac_energy: `[]` float, pJ per multiply-accumulate.
        mac_area: `[]` float, um^2 each.
        update_energy: `[L]` float, pJ per block updated where that differs from a block filled; None where all levels
            take `access_energy`.
        shared_bandwidth: `[L]` float, words per cycle and instance of one port that reads, fills and updates share, inf
            where there is none or it is unlimited; None where no level has one.
    """

    level_mask: jax.Array
    keep: jax.Array
    capacity: jax.Array
    word_bits: jax.Array
    block_words: jax.Array
    fanout: jax.Array
    mesh: jax.Array
    instances: jax.Array
    bandwidth: jax.Array
    reduces: jax.Array
    access_energy: jax.Array
    area: jax.Array
    hop_energy: jax.Array
    mac_mesh: jax.Array
    mac_instances: jax.Array
    mac_energy: jax.Array
    mac_area: jax.Array
    update_energy: jax.Array | None = None
    shared_bandwidth: jax.Array | None = None


_PADDING = {
    "level_mask": False,
    "keep": False,
    "capacity": np.inf,
    "word_bits": 8.0,
    "block_words": 1.0,
    "fanout": 1.0,
    "mesh": np.inf,
    "instances": np.inf,
    "bandwidth": np.inf,
    "reduces": True,
    "access_energy": 0.0,
    "area": 0.0,
    "hop_energy": 0.0,
    "update_energy": 0.0,
    "shared_bandwidth": np.inf,
}


def pad_machine(machine: Machine, levels: int) -> Machine:
    """Pads a machine of NumPy arrays, without a batch axis, beyond its outermost level.

    Args:
        machine: At most `levels` levels.
        levels: L of the result.
    """
    missing = levels - len(machine.level_mask)
    fields = {}
    for name, value in _PADDING.items():
        leaf = getattr(machine, name)
        if leaf is not None:
            leaf = np.asarray(leaf)
            fields[name] = np.concatenate([leaf, np.full((missing, *leaf.shape[1:]), value, leaf.dtype)])
    return dataclasses.replace(machine, **fields)


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A machine of an architectures file.

    Attributes:
        name: Its name.
        level_names: Names of its levels, innermost first.
        mac_name: Name of its MAC array.
        machine: NumPy arrays, float64, padded to the most levels of the file.
    """

    name: str
    level_names: tuple[str, ...]
    mac_name: str
    machine: Machine


@record
class TemplateArrays:
    """One template (or, stacked on a leading T axis, several) at its largest sizes.

    Attributes:
        machine: The machine at the largest sizes, with costs from the technology; padded levels as `Machine` says.
        component: `[L]` int32, ids out of `technology.COMPONENT_CLASSES`; `none` in padding.
        ports: `[L]` int32, read-write ports of an SRAM.
        dram_type: `[L]` int32, ids out of `technology.DRAM_TYPES`.
        fixed: `[L, 3]` float, costs of the class `fixed`: read, write [pJ per access], area [um^2].
        granularity: `[L]` float, capacities are multiples of this many rows; 0 = any number of words.
        wired: `[L]` bool, the network to the children costs wire energy over the width of a child's tile instead of
            a fixed energy per hop.
        sized: `[]` bool, every instance has the largest sizes (`Template.sizes`).
        mac_bits: `[2]` float, widths of the MACs' operands and accumulators.
        mac_stated: `[2]` bool, whether the template itself states a MAC's energy and area (`Mac`).
    """

    machine: Machine
    component: jax.Array
    ports: jax.Array
    dram_type: jax.Array
    fixed: jax.Array
    granularity: jax.Array
    wired: jax.Array
    sized: jax.Array
    mac_bits: jax.Array
    mac_stated: jax.Array


def template_arrays(
    templates: Sequence[Template],
    technology: Technology,
    levels: int | None = None,
    dtype: npt.DTypeLike = jnp.float32,
) -> TemplateArrays:
    """Stack templates on a leading T axis, with costs from the technology.

    Args:
        templates: At least one.
        technology: Where energies and areas come from.
        levels: L, at least the levels of every template (default: the most of any).
        dtype: Float dtype of all float fields.

    Returns:
        `TemplateArrays` with a leading T axis on every leaf.

    Raises:
        InputError: If a template asks for an SRAM port count that the technology's table does not have.
        ValueError: If there is no template or `levels` is too small.
    """
    if not templates:
        raise ValueError("template_arrays needs at least one template")
    most = max(len(template.levels) for template in templates)
    levels = most if levels is None else levels
    if levels < most:
        raise ValueError(f"levels={levels}, but a template has {most} levels")
    if not isinstance(technology.sram, jax_core.Tracer):  # a tracer has no values to check
        check_ports(templates, technology)
    return _with_costs(template_structure(templates, levels, dtype), technology)


def check_ports(templates: Sequence[Template], technology: Technology) -> None:
    """Raises InputError where a template asks for an SRAM port count that the technology's table does not have."""
    for template in templates:
        for level in template.levels:
            if level.component.cls == "sram" and np.isnan(technology.sram[level.component.ports - 1]).any():
                raise InputError(
                    f"the technology's SRAM table has no rows for {level.component.ports} port(s)",
                    item=f"template {template.name}, level {level.name}",
                    remedy="add such rows to the table or change `ports` of the level",
                )


def template_structure(
    templates: Sequence[Template], levels: int, dtype: npt.DTypeLike = jnp.float32
) -> TemplateArrays:
    """`template_arrays` before meshes and costs are computed: capacities and fanouts alone; NumPy leaves."""
    stacked = [_one(template, levels, dtype) for template in templates]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *stacked)


@jit_o0_plain_loops
def _with_costs(arrays: TemplateArrays, technology: Technology) -> TemplateArrays:
    """Fill in the meshes and costs at the largest sizes; `[T, ...]` leaves."""
    sizes = arrays.machine.capacity, arrays.machine.fanout
    return dataclasses.replace(arrays, machine=jax.vmap(resize, in_axes=(0, None, 0, 0))(arrays, technology, *sizes))


def _one(template: Template, levels: int, dtype: npt.DTypeLike) -> TemplateArrays:
    """A template's structure as arrays; meshes and costs that it does not state are left to `resize`."""
    padding = levels - len(template.levels)

    def floats(values: Sequence[npt.ArrayLike], pad: npt.ArrayLike) -> Any:
        return np.array([*values, *[pad] * padding], dtype=np.float64).astype(dtype)

    def array(values: npt.ArrayLike, dtype: npt.DTypeLike = bool) -> Any:
        return np.array(values, dtype)

    def unlimited(value: float | None) -> float:
        return np.inf if value is None else value

    def capacity(level: Level) -> float:
        # A dummy level stores nothing: a mapping that keeps something there must not find free room.
        return 0 if level.kind == "dummy" else unlimited(level.capacity_words)

    own, mac = template.levels, template.mac
    machine = Machine(
        level_mask=array(np.arange(levels) < len(own)),
        keep=array([*[level.keep for level in own], *[(False,) * 3] * padding]),
        capacity=floats([capacity(level) for level in own], np.inf),
        word_bits=floats([level.word_bits for level in own], 1),
        block_words=floats([level.block_words for level in own], 1),
        fanout=floats([level.fanout for level in own], (1, 1)),
        mesh=array(np.ones((levels, 2)), dtype),
        instances=array(np.ones(levels), dtype),
        bandwidth=floats([tuple(unlimited(b) for b in level.bandwidth) for level in own], (np.inf, np.inf)),
        shared_bandwidth=floats([unlimited(level.shared_bandwidth) for level in own], np.inf),
        reduces=array([*[level.kind != "dram" for level in own], *[True] * padding]),
        access_energy=array(np.zeros((levels, 2)), dtype),
        area=array(np.zeros(levels), dtype),
        hop_energy=floats([level.hop_energy_pJ or 0.0 for level in own], 0),
        mac_mesh=array([1, 1], dtype),
        mac_instances=array(1, dtype),
        mac_energy=array(mac.energy_pJ or 0, dtype),
        mac_area=array(mac.area_um2 or 0, dtype),
    )

    def integers(values: Sequence[int], pad: int) -> Any:
        return array([*values, *[pad] * padding], np.int32)

    parts = [level.component for level in own]
    return TemplateArrays(
        machine=machine,
        component=integers([COMPONENT_CLASSES.index(part.cls) for part in parts], COMPONENT_CLASSES.index("none")),
        ports=integers([part.ports for part in parts], 1),
        dram_type=integers([DRAM_TYPES.index(part.dram_type) for part in parts], 0),
        fixed=floats([part.fixed for part in parts], (0, 0, 0)),
        granularity=floats([level.granularity_rows for level in own], 0),
        wired=array([*[level.hop_energy_pJ is None for level in own], *[False] * padding]),
        sized=array(template.sizes == "fixed"),
        mac_bits=array([mac.width_bits, mac.accumulator_bits], dtype),
        mac_stated=array([mac.energy_pJ is not None, mac.area_um2 is not None]),
    )


def resize(template: TemplateArrays, technology: Technology, capacity: jax.Array, fanout: jax.Array) -> Machine:
    """The template's structure with other sizes: meshes, access energies and areas follow from them.

    Costs come from the given technology, whichever the template was made with, except those that the template states
    itself. Pure, jittable and meant to be vmapped. Nothing is checked or rounded: give sizes within the template's
    (`granularity` says what to round to). Levels that the template does not limit stay unlimited; a level with
    capacity 0 costs nothing. A template of fixed sizes always keeps them.

    Args:
        template: One template, without a T axis.
        technology: Where energies and areas come from.
        capacity: `[L]` float, words per instance.
        fanout: `[L, 2]` float, children along X and Y; ignored in padding.

    Returns:
        A `Machine` in the float dtype of the template.
    """
    base = template.machine
    dtype = base.capacity.dtype
    technology = cast(technology, dtype)
    capacity = jnp.where(jnp.isinf(base.capacity) | template.sized, base.capacity, jnp.asarray(capacity, dtype))
    fanout = jnp.where(template.sized, base.fanout, jnp.asarray(fanout, dtype))
    fanout = jnp.where(base.level_mask[:, None], fanout, 1)
    # Product of the fanouts from each level outward; a level's mesh is that of the levels above it.
    outward = jnp.cumprod(fanout[::-1], axis=0)[::-1]
    mesh = jnp.concatenate([outward[1:], jnp.ones_like(outward[:1])])
    read, write, area = component_costs(
        technology,
        template.component,
        jnp.ceil(capacity / base.block_words),
        base.block_words * base.word_bits,
        template.ports,
        template.dram_type,
    )
    is_fixed = (template.component == COMPONENT_CLASSES.index("fixed")) & (capacity > 0)
    energy = jnp.where(is_fixed[:, None], template.fixed[:, :2], jnp.stack([read, write], axis=-1))
    area = jnp.where(is_fixed, template.fixed[:, 2], area)
    mac_energy, mac_area = mac_costs(technology, template.mac_bits[0], template.mac_bits[1])
    mac_area = jnp.where(template.mac_stated[1], base.mac_area, mac_area)
    return dataclasses.replace(
        base,
        capacity=capacity,
        fanout=fanout,
        mesh=mesh,
        instances=jnp.prod(mesh, axis=1),
        access_energy=energy,
        area=area,
        hop_energy=jnp.where(template.wired, _wire_energy(base, technology, area, mac_area, fanout), base.hop_energy),
        mac_mesh=outward[0],
        mac_instances=jnp.prod(outward[0]),
        mac_energy=jnp.where(template.mac_stated[0], base.mac_energy, mac_energy),
        mac_area=mac_area,
    )


def leakage(template: TemplateArrays, technology: Technology, machine: Machine) -> jax.Array:
    """Leakage of a whole chiplet: buffers, registers and MACs; DRAM, wires and `fixed` components have none here.

    Pure and jittable; meant to be vmapped.

    Args:
        template: One template, without a T axis.
        technology: Where the figures come from.
        machine: What `resize` made of the template.

    Returns:
        `[]` float, mW (pJ per nanosecond); NaN if the technology does not state it.
    """
    technology = cast(technology, machine.capacity.dtype)
    leaks = component_leakage(
        technology,
        template.component,
        jnp.ceil(machine.capacity / machine.block_words),
        machine.block_words * machine.word_bits,
        template.ports,
    )
    buffers = jnp.sum(jnp.where(machine.level_mask, leaks * machine.instances, 0))
    return buffers + mac_leakage(technology, template.mac_bits[0], template.mac_bits[1]) * machine.mac_instances


def _wire_energy(
    base: Machine, technology: Technology, area: jax.Array, mac_area: jax.Array, fanout: jax.Array
) -> jax.Array:
    """`[L]` pJ per word and hop: a wire is as long as the side of a child's tile, a square of all below the level."""
    tiles, children = [mac_area], jnp.prod(fanout, axis=1)
    for own, count in zip(area[:-1], children[:-1], strict=True):
        tiles.append(own + count * tiles[-1])
    tile = jnp.stack(tiles)
    # Below a MAC without area there may be nothing: a square root has no derivative at 0.
    widths = jnp.where(tile > 0, jnp.sqrt(jnp.where(tile > 0, tile, 1)), 0)
    um_per_mm = 1000
    return widths / um_per_mm * base.word_bits * technology.wire[0]
