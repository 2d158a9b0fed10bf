"""What makes a design valid: genes that describe a design, and mappings that fit their templates and chiplets.

The checks take NumPy and JAX arrays, traced or not, with any leading axes of the designs. Axes: L layers (padded or
not), S tiles, V levels, U unique layers, T templates, M mappings of a set, E dependences between layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.runtime.struct import take
from mohamjax.schedule.design import Design, SizedDesign
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel

Array = np.ndarray | jax.Array

_ROWS = 64  # designs that are checked at once on the host


def dependences(application: ApplicationModel) -> np.ndarray:
    """`[E, 2]` int, pairs of a layer and one that depends on it."""
    edges = [(p, i) for i, layer in enumerate(application.layers) for p in layer.predecessors]
    return np.asarray(edges, int).reshape(-1, 2)


@dataclasses.dataclass(frozen=True)
class SoundGenes:
    """Which genes of designs are sound; `[...]` are the leading axes of the designs.

    Attributes:
        listed: `[...]` bool, the order names every layer once.
        known: `[..., S]` bool, the tile is empty or holds a template that exists.
        placed: `[..., L]` bool, the layer is on a tile that holds a chiplet.
        mapped: `[..., L]` bool, the layer is placed, and its mapping exists for the chiplet's template.
    """

    listed: Array
    known: Array
    placed: Array
    mapped: Array


def sound_genes(designs: Design, unique: Array, count: Array) -> SoundGenes:
    """Checks genes against the networks and the Pareto sets; `in_turn` checks that orders respect dependences.

    Args:
        designs: `[...]` designs.
        unique: `[L]` int, unique layer of each layer.
        count: `[U, T]` int, mappings of each set.
    """
    xp = designs.order.__array_namespace__()
    tiles, templates = designs.template.shape[-1], count.shape[1]
    tile = xp.clip(designs.assignment, 0, tiles - 1)
    kind = xp.take_along_axis(designs.template, tile, axis=-1)
    placed = (tile == designs.assignment) & (kind >= 0)
    room = count[unique, xp.clip(kind, 0, templates - 1)]
    return SoundGenes(
        listed=(xp.sort(designs.order, axis=-1) == xp.arange(designs.order.shape[-1])).all(axis=-1),
        known=(designs.template >= -1) & (designs.template < templates),
        placed=placed,
        mapped=placed & (designs.mapping >= 0) & (designs.mapping < room),
    )


def in_turn(order: np.ndarray, edges: np.ndarray) -> np.ndarray | np.bool:
    """`[...]` bool, no layer stands before one that it depends on.

    Args:
        order: `[..., L]` int, layers by priority; where it does not name every layer once, the result is meaningless.
        edges: `[E, 2]` int, see `dependences`.
    """
    place = np.argsort(order, axis=-1)
    return np.all(place[..., edges[:, 0]] < place[..., edges[:, 1]], axis=-1)


def gene_faults(designs: Design, application: ApplicationModel, count: np.ndarray) -> list[str]:
    """What is wrong with the genes of each design; empty where they are sound.

    Args:
        designs: leading axis `[N]`, NumPy leaves, layers not padded.
        application: networks.
        count: `[U, T]` int, mappings of each set.
    """
    found = sound_genes(designs, np.asarray(application.unique_of_layer), count)
    good = found.listed & found.known.all(axis=-1) & found.mapped.all(axis=-1)
    good &= in_turn(np.asarray(designs.order), dependences(application))
    return ["" if fine else _gene_fault(take(designs, k), application, count) for k, fine in enumerate(good)]


def _gene_fault(design: Design, application: ApplicationModel, count: np.ndarray) -> str:
    """The first fault found in the genes of one design; empty where there is none."""
    order, tile, mapping, template = (
        np.asarray(leaf).tolist() for leaf in (design.order, design.assignment, design.mapping, design.template)
    )
    layers = application.layers
    if sorted(order) != list(range(len(layers))):
        return "`order` does not name every layer once"
    place = {layer: i for i, layer in enumerate(order)}
    for layer in order:
        late = [p for p in layers[layer].predecessors if place[p] > place[layer]]
        name = f"layer {layer} ({layers[layer].name})"
        if late:
            return f"{name}: stands before layer {late[0]} ({layers[late[0]].name}), on which it depends"
        if not 0 <= tile[layer] < len(template) or template[tile[layer]] < 0:
            return f"{name}: runs on tile {tile[layer]}, which holds no chiplet"
        kind = template[tile[layer]]
        if kind >= count.shape[1]:
            return f"tile {tile[layer]} holds template {kind}, which does not exist"
        room = count[application.unique_of_layer[layer], kind]
        if not 0 <= mapping[layer] < room:
            return f"{name}: there is no mapping {mapping[layer]} of it on template {kind}, which has {room}"
    strange = [kind for kind in template if not -1 <= kind < count.shape[1]]
    return f"`template` names template {strange[0]}, which does not exist" if strange else ""


def mappings_fit(designs: Design | SizedDesign, tables: MappingTables, unique: Array, mask: Array) -> Array:
    """`[...]` bool, every mapping fits its template, and every chiplet of stated sizes is large enough.

    Args:
        designs: `[...]` designs whose genes are sound.
        tables: Pareto tables `[U, T, M]`.
        unique: `[L]` int, unique layer of each layer.
        mask: `[L]` bool, the layer exists.
    """
    genes = designs.design if isinstance(designs, SizedDesign) else designs
    xp = genes.order.__array_namespace__()
    kind = xp.take_along_axis(genes.template, genes.assignment, axis=-1)
    entry = unique, xp.maximum(kind, 0), genes.mapping
    fits = xp.isfinite(tables.objectives[entry]).all(axis=-1)
    sound = True
    if isinstance(designs, SizedDesign):
        tile = genes.assignment
        for stated, need, least in (
            (designs.capacity, tables.capacity, 0),
            (designs.fanout, tables.fanout, 1),
        ):
            axes = tuple(range(tile.ndim, stated.ndim))
            has = xp.take_along_axis(stated, xp.expand_dims(tile, axes), axis=tile.ndim - 1)
            fits = fits & ((has < 0) | (has >= need[entry])).all(axis=axes)
            sound = sound & ((stated < 0) | (stated >= least)).all(axis=(tile.ndim - 1, *axes))
    return (fits | ~mask).all(axis=-1) & sound


def misfits(designs: SizedDesign, tables: MappingTables, application: ApplicationModel) -> np.ndarray:
    """`[N]` bool, designs (NumPy leaves, layers not padded) with a mapping that does not fit."""
    unique = np.asarray(application.unique_of_layer)
    mask, bad = np.ones(len(unique), bool), np.zeros(len(designs), bool)
    for first in range(0, len(bad), _ROWS):
        rows = slice(first, first + _ROWS)
        bad[rows] = ~mappings_fit(take(designs, rows), tables, unique, mask)
    return bad


def invalid(
    designs: SizedDesign, tables: MappingTables, setup: Setup, objectives: np.ndarray, bad: np.ndarray
) -> list[str]:
    """Why each evaluated design is invalid; empty where it is valid.

    Args:
        designs: leading axis `[N]`, NumPy leaves, layers not padded.
        tables: Pareto tables.
        setup: networks and templates.
        objectives: `[N, 3]` float.
        bad: `[N]` bool, designs with a mapping that does not fit.
    """
    reasons = [""] * len(bad)
    for k in np.flatnonzero(bad | ~np.isfinite(objectives).all(axis=1)):
        reasons[k] = _misfit(take(designs, k), tables, setup) or "its objectives are not finite"
    return reasons


def _misfit(sized: SizedDesign, tables: MappingTables, setup: Setup) -> str:
    """Which mapping of a design does not fit its template or its chiplet; empty where all do."""
    design, application = sized.design, setup.application
    unique: Sequence[int] = application.unique_of_layer
    for layer, tile in enumerate(np.asarray(design.assignment)[: len(unique)]):
        t = int(design.template[tile])
        entry = (int(unique[layer]), t, int(design.mapping[layer]))
        template = setup.templates[t]
        name = f"layer {layer} ({application.layers[layer].name})"
        if not np.isfinite(tables.objectives[entry]).all():
            return f"{name}: its mapping does not fit template {template.name} at its largest sizes"
        for v, level in enumerate(template.levels):
            need, has = tables.capacity[entry][v], sized.capacity[tile, v]
            if 0 <= has < need:
                return f"{name}: level {level.name} of chiplet {tile} needs {need:.0f} words and has {has:.0f}"
            for axis in range(2):
                need, has = tables.fanout[entry][v, axis], sized.fanout[tile, v, axis]
                if 0 <= has < need:
                    return (
                        f"{name}: level {level.name} of chiplet {tile} needs fanout {need:.0f} along "
                        f"{'XY'[axis]} and has {has:.0f}"
                    )
    return ""
