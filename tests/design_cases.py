"""Small co-optimisation problems with made-up Pareto tables: they need no mapper and compile fast.

The numbers of a table are random, and the costs of its sizes come from the technology, so that all code that evaluates
designs from tables works as on real ones. The loop nests have spatial loops only: K along X, C along Y.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.hardware import PackageParameters, load_technology, load_templates, resize, template_arrays
from mohamjax.mapping import Mapping, MappingTables, Wires, area, hop_columns, wires
from mohamjax.problem import DesignProblem
from mohamjax.schedule import Design, Setup, evaluation_arrays, report
from mohamjax.workload import DIMS, ApplicationModel, Layer, Network, WorkloadShape

TEMPLATES = tuple(load_templates(["eyeriss", "simba", "shidiannao"]))
TECHNOLOGY = load_technology()
LEVELS = max(len(t.levels) for t in TEMPLATES)


def application(*networks, kinds=None) -> ApplicationModel:
    """Networks given as predecessor lists; layer i of one is of kind `kinds[network][i]` (default: its own)."""
    count = iter(range(1, 1000))
    built = []
    for n, rows in enumerate(networks):
        own = [next(count) for _ in rows] if kinds is None else [1 + k for k in kinds[n]]
        layers = tuple(
            Layer(f"l{i}", "conv", "Conv", WorkloadShape(K=2 * k, C=3, P=4, Q=4), predecessors=tuple(p))
            for i, (p, k) in enumerate(zip(rows, own, strict=True))
        )
        built.append(Network(f"net{n}", layers))
    return ApplicationModel("made-up", tuple(built))


def chains(seed: int, layers=(5, 4), edges: float = 0.4) -> ApplicationModel:
    """Random networks, some of whose layers are alike."""
    rng = np.random.default_rng(seed)
    rows = [[[p for p in range(i) if rng.random() < edges] for i in range(n)] for n in layers]
    return application(*rows, kinds=[rng.integers(0, 5, n).tolist() for n in layers])


@jax.jit
def _own(arrays, technology, capacity, fanout):
    sizes = jax.vmap(jax.vmap(resize, in_axes=(None, None, 0, 0)), in_axes=(0, None, 0, 0))
    machine = sizes(arrays, technology, capacity, fanout)
    return machine.access_energy, machine.hop_energy, machine.mac_energy, jax.vmap(jax.vmap(area))(machine)


def tables(
    problem: ApplicationModel, seed: int, entries: int = 4, blocked: bool = True, templates=TEMPLATES, least: int = 1
) -> MappingTables:
    """Made-up Pareto tables in double precision, with `least` to `entries` mappings for each layer and template.

    The second template runs everything; if `blocked`, each other template does not run one of the layers.
    """
    rng = np.random.default_rng(seed)
    shape = len(problem.unique_layers), len(templates), entries
    count = rng.integers(least, entries + 1, shape[:2]).astype(np.int32)
    if blocked and shape[1] > 1:
        for t in range(shape[1]):
            if t != 1:
                count[rng.integers(shape[0]), t] = 0
    exists = np.arange(entries) < count[..., None]
    capacity = np.zeros((*shape, LEVELS))
    fanout = np.ones((*shape, LEVELS, 2))
    for t, template in enumerate(templates):
        for v, level in enumerate(template.levels):
            if level.capacity_words is not None:
                most = max(1, level.capacity_words // 16)
                capacity[:, t, :, v] = np.minimum(16 * rng.integers(1, most + 1, capacity[:, t, :, v].shape), 16 * most)
                capacity[:, t, :, v] = np.minimum(capacity[:, t, :, v], level.capacity_words)
            for axis in range(2):
                fanout[:, t, :, v, axis] = rng.integers(1, level.fanout[axis] + 1, shape[::2])
    words = np.exp(rng.uniform(3, 10, (2, *shape, LEVELS))).round()
    for t, template in enumerate(templates):
        words[:, :, t, :, len(template.levels) :] = 0
    drawn = {
        "cycles": np.exp(rng.uniform(7, 11, shape)).round(),
        "offchip_bytes": np.exp(rng.uniform(7, 13, shape)).round(),
        "offchip_words": np.ones((*shape, 3, 2)),
        "block_reads": words[0],
        "block_writes": words[1],
        "delivered": words[0][..., None] / np.asarray([4.0, 16.0, 64.0]),
        "macs": np.exp(rng.uniform(8, 12, shape)),
        "capacity": capacity,
        "fanout": fanout,
    }
    with jax.enable_x64(True):
        arrays = template_arrays(templates, TECHNOLOGY, levels=LEVELS, dtype=jnp.float64)

        def flat(x):
            return jnp.asarray(np.moveaxis(x, 1, 0).reshape(shape[1], -1, *x.shape[3:]))

        costs = jax.device_get(_own(arrays, TECHNOLOGY, flat(capacity), flat(fanout)))
    access, hop, mac, space = (np.moveaxis(x.reshape(shape[1], shape[0], entries, *x.shape[2:]), 0, 1) for x in costs)
    drawn = {k: np.where(exists.reshape(exists.shape + (1,) * (x.ndim - 3)), x, 0) for k, x in drawn.items()}
    unit = np.arange(8, dtype=np.int32)
    spatial = np.ones((*shape, 2, LEVELS, 8), np.int32)
    spatial[:, :, :, 0, :, DIMS.index("K")], spatial[:, :, :, 1, :, DIMS.index("C")] = np.moveaxis(fanout, -1, 0)
    nest = Mapping(
        temporal=np.ones((*shape, LEVELS, 8), np.int32),
        order=np.broadcast_to(unit, (*shape, LEVELS, 8)).copy(),
        spatial=spatial,
        spatial_order=np.broadcast_to(unit, (*shape, 2, LEVELS, 8)).copy(),
        keep=np.ones((*shape, LEVELS, 3), bool),
    )
    drawn["objectives"] = np.full((*shape, 3), np.inf)
    made = MappingTables(mapping=nest, count=count, **drawn)
    found = wires_of(problem, made, templates)
    for u, t, m in np.argwhere(exists):
        sizes = jax.tree.map(lambda leaf, t=t: leaf[t], found.sizes)
        own = words[0, u, t, m] @ access[u, t, m, :, 0] + words[1, u, t, m] @ access[u, t, m, :, 1]
        own += found.hops[u, t, m][hop_columns(sizes, fanout[u, t, m])] @ hop[u, t, m][sizes.level]
        made.objectives[u, t, m] = made.cycles[u, t, m], own + made.macs[u, t, m] * mac[u, t, m], space[u, t, m]
    return made


def wires_of(problem, made: MappingTables, templates=TEMPLATES) -> Wires:
    """The wires of the tables' mappings, NumPy leaves."""
    with jax.enable_x64(True):
        arrays = template_arrays(templates, TECHNOLOGY, levels=LEVELS, dtype=jnp.float64)
        return wires([layer.shape for layer in problem.unique_layers], arrays, made)


def recast(made: MappingTables, dtype) -> MappingTables:
    """The tables in another float dtype."""
    cast = jax.tree.map(lambda x: x.astype(dtype) if np.issubdtype(x.dtype, np.floating) else x, made)
    return dataclasses.replace(cast, count=made.count)


def space_of(layers, made, *, key=0, goals=None, orders=512, ensemble=None, **parts):
    """The space of designs in single precision; `parts` are further arguments of `DesignProblem`."""
    parts = {"templates": TEMPLATES, "technology": TECHNOLOGY, **parts}
    problem = DesignProblem(layers, **parts).cast(jnp.float32)
    return problem.space(jax.random.key(key), made, goals, orders=orders, ensemble=ensemble)


def evaluation(problem, made, package=None, templates=TEMPLATES, padded_layers=32):
    """What the evaluation reads, in the float dtype of the tables."""
    package = PackageParameters() if package is None else package
    return evaluation_arrays(Setup(problem, templates, TECHNOLOGY, package), made, padded_layers=padded_layers)


def random_designs(problem, made, seed: int, count: int, tiles: int = 16, padded_layers: int = 32) -> Design:
    """Valid designs at random, NumPy leaves `[count, ...]`."""
    rng = np.random.default_rng(seed)
    layers = problem.layers
    unique = np.asarray(problem.unique_of_layer)
    able = made.count > 0
    rows = []
    for _ in range(count):
        chips = int(rng.integers(1, tiles + 1))
        kinds = rng.integers(0, able.shape[1], chips)
        kinds[0] = 1
        places = rng.permutation(tiles)[:chips]
        tile, mapping = np.zeros(padded_layers, np.int32), np.zeros(padded_layers, np.int32)
        for i in range(len(layers)):
            k = rng.choice(np.flatnonzero(able[unique[i], kinds]))
            tile[i] = places[k]
            mapping[i] = rng.integers(made.count[unique[i], kinds[k]])
        template = np.full(tiles, -1, np.int32)
        template[places] = kinds
        used = np.isin(np.arange(tiles), tile[: len(layers)])
        order, waiting = [], set(range(len(layers)))
        while waiting:
            ready = [i for i in waiting if not set(layers[i].predecessors) & waiting]
            order.append(int(rng.choice(ready)))
            waiting.remove(order[-1])
        order += range(len(layers), padded_layers)
        rows.append(
            Design(
                order=np.asarray(order, np.int32),
                assignment=tile,
                mapping=mapping,
                template=np.where(used, template, -1).astype(np.int32),
            )
        )
    return jax.tree.map(lambda *x: np.stack(x), *rows)


@jax.jit
def _reports(designs, on):
    return jax.vmap(functools.partial(report, evaluation=on))(designs)


def reports(designs: Design, on):
    """Reports of the designs in the precision of the evaluation, NumPy leaves."""
    with jax.enable_x64(on.tables.cycles.dtype == np.float64):
        return jax.device_get(_reports(designs, on))
