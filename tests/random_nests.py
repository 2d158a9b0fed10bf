"""Random layers, mappings and machines, including some that no real accelerator would have."""

import numpy as np

from mohamjax.hardware import Machine
from mohamjax.mapping import LayerArrays, Mapping

LEVELS = 5
CHILDREN = 64
_FACTORS = (2, 2, 2, 3, 3, 4, 5, 7)


def stack(trees):
    """Joins NumPy pytrees along a new leading axis."""
    import jax

    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def random_layer_and_mapping(rng, levels=LEVELS, loops=9, dims=8):
    """A layer and a mapping whose factors multiply to the layer's bounds, with at most `CHILDREN` children per level.

    Dimensions may run along both X and Y of a level, every order is a random permutation, every data space may bypass
    any level but the outermost.
    """
    temporal = np.ones((levels, 8), np.int32)
    spatial = np.ones((2, levels, 8), np.int32)
    for _ in range(rng.integers(0, loops + 1)):
        d, level, slot = rng.integers(8 - dims, 8), rng.integers(levels), rng.integers(4)
        factor = int(rng.choice(_FACTORS))
        # Windows slide only where filter and output loops meet, so those dimensions are drawn more often.
        d = int(rng.choice([4, 6, 5, 7])) if rng.random() < 0.5 else d
        if slot < 2:
            temporal[level, d] *= factor
        elif np.prod(spatial[:, level]) * factor <= CHILDREN:
            spatial[slot - 2, level, d] *= factor
    bounds = np.prod(temporal.astype(np.int64), axis=0) * np.prod(spatial.astype(np.int64), axis=(0, 1))
    layer = LayerArrays(
        bounds=bounds.astype(np.int32),
        stride=rng.integers(1, 4, 2).astype(np.int32),
        dilation=rng.integers(1, 4, 2).astype(np.int32),
    )
    mapping = Mapping(
        temporal=temporal,
        order=rng.permuted(np.tile(np.arange(8), (levels, 1)), axis=1).astype(np.int32),
        spatial=spatial,
        spatial_order=rng.permuted(np.tile(np.arange(8), (2, levels, 1)), axis=2).astype(np.int32),
        keep=rng.random((levels, 3)) < 0.7,
    )
    return layer, mapping


def pad(mapping, machine, levels):
    """Mapping and machine with more levels at the outer end."""
    extra = levels - mapping.temporal.shape[0]

    def outer(x, axis, fill):
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, extra)
        return np.pad(x, widths, constant_values=fill)

    padded = Mapping(
        temporal=outer(mapping.temporal, 0, 1),
        order=np.concatenate([mapping.order, np.tile(np.arange(8, dtype=np.int32), (extra, 1))]),
        spatial=outer(mapping.spatial, 1, 1),
        spatial_order=np.concatenate(
            [mapping.spatial_order, np.tile(np.arange(8, dtype=np.int32), (2, extra, 1))], axis=1
        ),
        keep=outer(mapping.keep, 0, False),
    )
    fill = {
        "level_mask": False,
        "keep": False,
        "capacity": np.inf,
        "word_bits": 8,
        "block_words": 1,
        "fanout": 1,
        "mesh": np.inf,
        "instances": np.inf,
        "bandwidth": np.inf,
        "shared_bandwidth": np.inf,
        "reduces": True,
        "access_energy": 0,
        "area": 0,
        "hop_energy": 0,
    }
    return padded, machine.replace(**{name: outer(getattr(machine, name), 0, value) for name, value in fill.items()})


def random_machine(rng, mapping, dtype=np.float64):
    """A machine on which the mapping may or may not fit: limits are drawn close to what it needs."""
    levels = mapping.temporal.shape[0]
    used = np.prod(mapping.spatial, axis=2)
    fanout = np.maximum(used + rng.integers(-1, 4, used.shape), 1).T.astype(dtype)
    mesh = np.cumprod(np.concatenate([fanout, np.ones((1, 2))])[::-1], axis=0)[::-1]
    capacity = np.where(rng.random(levels) < 0.8, np.inf, 2.0 ** rng.integers(0, 16, levels))
    bandwidth = np.where(rng.random((levels, 2)) < 0.5, np.inf, rng.integers(1, 60, (levels, 2)) / 4)
    shared = np.where(rng.random(levels) < 0.6, np.inf, rng.integers(1, 99, levels) / 4)
    keep = np.ones((levels, 3), bool)
    return Machine(
        level_mask=np.ones(levels, bool),
        keep=keep,
        capacity=capacity.astype(dtype),
        word_bits=np.full(levels, 8, dtype),
        block_words=rng.integers(1, 9, levels).astype(dtype),
        fanout=fanout,
        mesh=mesh[1:].astype(dtype),
        instances=np.prod(mesh[1:], axis=1).astype(dtype),
        bandwidth=bandwidth.astype(dtype),
        shared_bandwidth=shared.astype(dtype),
        reduces=np.ones(levels, bool),
        access_energy=(rng.integers(1, 99, (levels, 2)) / 8).astype(dtype),
        area=rng.integers(1, 99, levels).astype(dtype),
        hop_energy=(rng.integers(0, 9, levels) / 16).astype(dtype),
        mac_mesh=mesh[0].astype(dtype),
        mac_instances=np.asarray(np.prod(mesh[0]), dtype),
        mac_energy=np.asarray(0.25, dtype),
        mac_area=np.asarray(300, dtype),
    )


def random_problem(rng, levels=LEVELS, dtype=np.float64):
    """(layer, mapping, machine) of 1 to `levels` levels, padded to `levels`."""
    own = int(rng.integers(1, levels + 1))
    layer, mapping = random_layer_and_mapping(rng, own)
    machine = random_machine(rng, mapping, dtype)
    return layer, *pad(mapping, machine, levels)
