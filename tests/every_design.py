"""Instances small enough to try every design of them on two tiles."""

import functools
import itertools

import jax
import numpy as np

from mohamjax.schedule import Design, evaluate

PADDED, BATCH = 32, 8192


def orders(problem):
    """Every topological order."""
    layers = range(len(problem.layers))
    for order in itertools.permutations(layers):
        place = {layer: i for i, layer in enumerate(order)}
        if all(place[p] < place[i] for i in layers for p in problem.layers[i].predecessors):
            yield order


def every_design(problem, count):
    """All designs on at most two tiles, as one batch; a package of one chiplet is the same on either tile."""
    layers = len(problem.layers)
    unique = problem.unique_of_layer
    rows = []
    for template in ((0, -1), (1, -1), (0, 0), (0, 1), (1, 0), (1, 1)):
        tiles = [s for s in range(2) if template[s] >= 0]
        for tile in itertools.product(tiles, repeat=layers):
            sizes = [count[unique[i], template[tile[i]]] for i in range(layers)]
            if len(set(tile)) == len(tiles) and min(sizes) > 0:
                for mapping in itertools.product(*map(range, sizes)):
                    rows.extend((order, tile, mapping, template) for order in orders(problem))
    order, tile, mapping, template = (np.asarray(column, np.int32) for column in zip(*rows, strict=True))
    rest = np.broadcast_to(np.arange(layers, PADDED, dtype=np.int32), (len(rows), PADDED - layers))
    widths = ((0, 0), (0, PADDED - layers))
    return Design(
        order=np.concatenate([order, rest], axis=1),
        assignment=np.pad(tile, widths),
        mapping=np.pad(mapping, widths),
        template=template,
    )


@jax.jit
def _evaluate(designs, bench):
    return jax.vmap(functools.partial(evaluate, bench=bench))(designs)


def _concatenated(call, designs):
    """An evaluation in batches of one size."""
    total = len(designs.template)
    found = []
    for first in range(0, total, BATCH):
        index = np.minimum(np.arange(first, first + BATCH), total - 1)
        found.append(np.asarray(call(jax.tree.map(lambda leaf, i=index: leaf[i], designs))))
    return np.concatenate(found)[:total]


def in_batches(one, designs):
    """What `one` says of every design."""
    return _concatenated(jax.jit(jax.vmap(one)), designs)


def objectives(designs, bench):
    """Plain evaluation."""
    return _concatenated(lambda some: _evaluate(some, bench), designs).astype(np.float64)


def plain_front(values):
    """Rows that no other dominates, one of each kind; by definition, row by row."""
    kept = []
    for row in sorted({tuple(row) for row in values.tolist()}):
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in kept):
            kept.append(row)
    return np.asarray(kept)
