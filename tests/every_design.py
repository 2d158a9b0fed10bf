"""Instances small enough to try every design of them on two tiles."""

import dataclasses
import itertools

import jax
import numpy as np

from mohamjax.schedule import Design, report
from mohamjax.search.generations import Generations

PADDED, BATCH = 32, 8192


def orders(problem):
    """Yields every topological order of the layers."""
    layers = range(len(problem.layers))
    for order in itertools.permutations(layers):
        place = {layer: i for i, layer in enumerate(order)}
        if all(place[p] < place[i] for i in layers for p in problem.layers[i].predecessors):
            yield order


def every_design(problem, count):
    """All designs on at most two tiles, as one batch; a single chiplet is on the first tile, as both are alike."""
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
def _evaluate(designs, evaluation):
    return jax.vmap(lambda design: report(design, evaluation).objectives)(designs)


def _concatenated(call, designs):
    """Results of `call` over all designs, evaluated in batches of one size."""
    total = len(designs.template)
    found = []
    for first in range(0, total, BATCH):
        index = np.minimum(np.arange(first, first + BATCH), total - 1)
        found.append(np.asarray(call(jax.tree.map(lambda leaf, i=index: leaf[i], designs))))
    return np.concatenate(found)[:total]


def in_batches(one, designs):
    """`one` of every design."""
    return _concatenated(jax.jit(jax.vmap(one)), designs)


def objectives(designs, evaluation):
    """Objectives of the designs, float64."""
    return _concatenated(lambda some: _evaluate(some, evaluation), designs).astype(np.float64)


def plain_front(values):
    """Distinct rows that no other row dominates, found row by row from the definition."""
    kept = []
    for row in sorted({tuple(row) for row in values.tolist()}):
        if not any(all(a <= b for a, b in zip(other, row, strict=True)) for other in kept):
            kept.append(row)
    return np.asarray(kept)


CLOSE = 1 + 1e-6
"""In single precision a design may differ by a rounding from one batch to another."""


def archives(state):
    """Objectives of the archive of each island."""
    kept = zip(np.asarray(state.archive.objectives, np.float64), np.asarray(state.archive.valid), strict=True)
    return [objectives[valid] for objectives, valid in kept]


def missed(archive, front):
    """How many designs of the front are not in an archive."""
    return int((~(archive[None] <= front[:, None] * CLOSE).all(axis=2).any(axis=1)).sum())


def search_for(front, context, config):
    """Searches with ten seeds (islands) until each archive has the whole front, or to the last generation.

    Returns:
        The archives, which have the whole front and nothing better (asserted), and the last progress.
    """
    kept, progress = [], None
    for state, progress in Generations(jax.random.key(0), context, dataclasses.replace(config, islands=10)):  # noqa: B007
        kept = archives(state)
        ends = [np.allclose(archive.min(axis=0), front.min(axis=0), rtol=1e-6, atol=0) for archive in kept]
        if all(ends) and not any(missed(archive, front) for archive in kept):
            break
    for seed, archive in enumerate(kept):
        sound = (front[None] <= archive[:, None] * CLOSE).all(axis=2).any(axis=1)
        assert sound.all(), f"seed {seed} has designs that no enumerated one reaches"
        assert not missed(archive, front), f"seed {seed} misses {missed(archive, front)} of {len(front)} designs"
    return kept, progress
