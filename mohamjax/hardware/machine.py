"""A machine as arrays: structure, sizes and costs of one accelerator, as data for jitted functions.

Axes: L levels, innermost first, padded at the outer end; V data spaces (weights, inputs, outputs).
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mohamjax.runtime.struct import record


@record
class Machine:
    """One accelerator, padded to L levels (innermost first, padding outermost).

    A padded level has `level_mask` False, keeps nothing, has no limits (infinite capacity, mesh and bandwidth),
    fanout 1 and no costs, so that it never changes a result. Float fields share one float dtype.

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
    """A machine, of NumPy arrays without a batch axis, with padding behind its outermost level.

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
