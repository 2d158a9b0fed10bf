"""What the genetic operators must know of a problem.

Axes: L layers (padded), S tiles, U unique layers, T templates, M mappings of a Pareto set.
"""

from __future__ import annotations

import jax

from mohamjax.problem.kinds import Kinds
from mohamjax.runtime.struct import record


@record
class Genetics:
    """What the operators must know of the problem.

    Attributes:
        layers: `[]` int32, number of layers; the rest of L is padding.
        unique: `[L]` int32, unique layer of each layer.
        predecessors: `[L, A]` int32, immediate predecessors (`kinds.immediate`), padded with -1.
        successors: `[L, B]` int32, layers whose immediate predecessor it is, padded with -1.
        count: `[U, T]` int32, size of each Pareto set; 0 where the template cannot run the layer.
        able: `[L, T]` bool, the template runs the layer and the user's pins allow it; False where padded.
        kinds: layers that are alike.
        transform: `[U, T, M, T]` int32, mapping transform: most similar mapping on another template.
        rules: `[H, U, T]` int32, mappings under one rule for all layers, e.g. the fastest within an area.
        cover: `[S]` int32, a package of few chiplets that together run every layer, -1 where empty.
        orders: `[R, L]` int32, random topological orders (Kahn) that random individuals draw from.
        max_chiplets: `[]` int32, most chiplets that a design may have, at most S.
        on_tile: `[S]` int32, template that the tile holds in any case; `FREE` where the search chooses, `CLOSED` where
            nothing may stand (`problem.resolved`).
        pin: `[L]` int32, tile that the layer must run on, -1 where it is free.
        homogeneous: `[]` int32, template for designs that hold none that runs every layer, where all chiplets must be
            of one template; -1 where they need not.
        model: `[L]` int32, application model of each layer, rising (`workload.ensemble`); None where there is one only.
        urgency: `[L]` float, cycles by which list scheduling takes a layer for more urgent than what remains after it
            says; None where lateness is no objective.
    """

    layers: jax.Array
    unique: jax.Array
    predecessors: jax.Array
    successors: jax.Array
    count: jax.Array
    able: jax.Array
    kinds: Kinds
    transform: jax.Array
    rules: jax.Array
    cover: jax.Array
    orders: jax.Array
    max_chiplets: jax.Array
    on_tile: jax.Array
    pin: jax.Array
    homogeneous: jax.Array
    model: jax.Array | None = None
    urgency: jax.Array | None = None
