"""Which mappings fit a chiplet of a given size: the tables that the decoding of plans reads.

For every template, weight, size component and threshold, a bit set holds the mappings that fit, the best score under
the weight at the lowest bit. The best mapping that fits a chiplet is the lowest bit of the intersection of its sets.

Axes: U unique layers, T templates, M mappings of a Pareto set, C components of a size (the capacities and fanouts that
differ between mappings), R thresholds of a component, W weights, H sizes in the library, B words of 32 bits.
"""

from __future__ import annotations

import jax
import numpy as np

from mohamjax.mapping import MappingTables
from mohamjax.problem.list_scheduling import size_caps
from mohamjax.runtime.struct import put, record

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The W exponents w of time in the score time^w x energy^(1 - w) by which mappings are chosen."""


THRIFT = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5)
"""The K exponents of energy in the score finish time x energy^k by which a layer's chiplet is chosen."""

LEAST = -1
"""Stands for the least size on which every layer has a mapping; replaced by it once the templates are chosen."""

WORD = 32
"""Bits per word of a bit set."""

_THRESHOLDS = 64
"""R, the most thresholds of a size component."""

_CAPS = 24
"""Area caps from which the library sizes of a template are made."""

_TRIED = 512
"""Most sizes of a template that are tried in the search for the least one that runs every layer."""


@record
class PlanTables:
    """What decoding reads of the Pareto tables.

    Attributes:
        fits: `[T, W, C, R, B, U]` uint32, sets of mappings: bit p of the words is the p-th best mapping by the weight's
            score, set where the mapping does not exceed the threshold.
        ranked: `[T, W, M, U]` int32, mappings from the best to the worst score.
        smallest: `[T, U]` int32, the mapping of least area, which a layer takes where none fits.
        time: `[T, M, U]` float, cycles alone on a memory interface; inf in padding.
        log_energy: `[T, M, U]` float, logarithm of the energy on the mapping's own hardware; inf in padding.
        need: `[T, M, U, C]` int32, index of the lowest threshold of each component that the mapping does not exceed.
        library: `[T, H, C]` int32, sizes to start from: those of chiplets that run every layer on its best mapping
            under an area cap and a weight, then the least and the largest size.
        thrift: `[K]` float, `THRIFT`.
    """

    fits: jax.Array
    ranked: jax.Array
    smallest: jax.Array
    time: jax.Array
    log_energy: jax.Array
    need: jax.Array
    library: jax.Array
    thrift: jax.Array


# ---------------------------------------------------------------- tables, on the host


def plan_tables(tables: MappingTables, duration: np.ndarray, like: MappingTables | None = None) -> PlanTables:
    """Sorts mappings by score and by the hardware that they need.

    Args:
        tables: Pareto tables `[U, T, M, ...]`.
        duration: `[U, T, M]` float, cycles of each entry alone on its memory interface.
        like: tables that give the components and thresholds, so that a size means the same over both: those that a
            search began with, where `tables` have grown since. Default `tables`.

    Returns:
        The tables in single precision.
    """
    valid = tables.exists
    need = _needs(tables, tables if like is None else like)
    objectives = np.asarray(tables.objectives, np.float64)
    area = np.where(valid, objectives[..., 2], np.inf)
    time = np.where(valid, duration, np.inf)
    scores = mapping_scores(duration, np.where(valid, objectives[..., 1], np.inf))
    ranked = np.stack([np.lexsort((area, score), axis=-1) for score in scores], axis=2)  # [U, T, W, M]
    single = np.float32

    def last(values: np.ndarray) -> np.ndarray:
        return np.moveaxis(values, 0, -1)

    return PlanTables(
        fits=put(_sets(need, ranked, valid)),
        ranked=put(last(ranked).astype(np.int32)),
        smallest=put(last(area.argmin(axis=2)).astype(np.int32)),
        time=put(last(time).astype(single)),
        log_energy=put(last(scores[0]).astype(single)),  # at weight 0 the score is the energy alone
        need=put(np.moveaxis(need, 0, 2)),
        library=put(_library(need, scores, area)),
        thrift=put(THRIFT, single),
    )


def mapping_scores(time: np.ndarray, energy: np.ndarray) -> list[np.ndarray]:
    """Logarithms of time^w x energy^(1 - w), an array for each of `WEIGHTS`; inf where the energy is inf (padding).

    Times and energies of 0 count as the smallest normal float64.
    """
    real = np.isfinite(energy)
    least = np.finfo(np.float64).tiny
    log_time, log_energy = (np.log(np.maximum(np.where(real, x, 1.0), least, dtype=np.float64)) for x in (time, energy))
    return [np.where(real, w * log_time + (1 - w) * log_energy, np.inf) for w in WEIGHTS]


def _needs(tables: MappingTables, like: MappingTables) -> np.ndarray:
    """`[U, T, M, C]` int32, see `PlanTables.need`; the thresholds are at most R of the values that occur in `like`."""

    def columns(tables: MappingTables) -> np.ndarray:
        capacity, fanout = np.asarray(tables.capacity), np.asarray(tables.fanout)
        return np.concatenate([capacity, fanout.reshape(*capacity.shape[:3], -1)], axis=-1)

    values, known = columns(tables), columns(like)
    exists = like.exists
    of_template: list[list[tuple[int, np.ndarray]]] = []
    for t in range(values.shape[1]):
        seen = [np.unique(column) for column in known[:, t][exists[:, t]].T]
        of_template.append([(column, own) for column, own in enumerate(seen) if len(own) > 1])
    # Rounded up, so that the number of components depends on the templates rather than on what the mapper found.
    room = max(8, 4 * -(-max(map(len, of_template)) // 4))
    need = np.zeros((*values.shape[:3], room), np.int32)
    for t, own in enumerate(of_template):
        for c, (column, seen) in enumerate(own):
            if len(seen) > _THRESHOLDS:
                seen = seen[np.linspace(0, len(seen) - 1, _THRESHOLDS).round().astype(int)]
            need[:, t, :, c] = np.minimum(np.searchsorted(seen, values[:, t, :, column]), _THRESHOLDS - 1)
    return need


def _sets(need: np.ndarray, ranked: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """`PlanTables.fits` from needs `[U, T, M, C]`, rankings `[U, T, W, M]` and existing entries `[U, T, M]` bool."""
    unique, templates, entries, room = need.shape
    words = -(-entries // WORD)
    sets = np.zeros((templates, ranked.shape[2], room, _THRESHOLDS, words, unique), np.uint32)
    u, t = np.indices((unique, templates))
    for w in range(ranked.shape[2]):
        for place in range(entries):
            mapping = ranked[:, :, w, place]
            there = valid[u, t, mapping]
            bit = np.where(there, np.uint32(1) << np.uint32(place % WORD), 0).astype(np.uint32)
            for c in range(room):
                sets[t, w, c, need[u, t, mapping, c], place // WORD, u] |= bit
    # A mapping that does not exceed a threshold does not exceed a higher one.
    return np.bitwise_or.accumulate(sets, axis=3)


def _library(need: np.ndarray, scores: list[np.ndarray], area: np.ndarray) -> np.ndarray:
    """`[T, H, C]` int32: per cap and weight, the least size that holds the best mapping under the cap of every layer.

    Caps are spread evenly on a log axis, from the area that the most demanding layer needs to the largest mapping's.
    The last two sizes are the least one known to run all layers (`_least_sizes`), and the largest.
    """
    least = area.min(axis=2)
    runs = np.isfinite(least)
    low, high = np.where(runs, least, np.inf).min(axis=1).max(), area[np.isfinite(area)].max()
    rows = []
    for cap in size_caps(area[np.isfinite(area)], low, high, _CAPS):
        for score in scores:
            allowed = np.where(area <= cap, score, np.inf)
            best = np.take_along_axis(need, allowed.argmin(axis=2)[..., None, None], axis=2)[:, :, 0]
            rows.append(np.where(np.isfinite(allowed.min(axis=2))[..., None], best, 0).max(axis=0))
    largest = np.where(np.isfinite(area)[..., None], need, 0).max(axis=(0, 2))
    return np.stack([*rows, _least_sizes(need, area), largest], axis=1)


def _least_sizes(need: np.ndarray, area: np.ndarray) -> np.ndarray:
    """`[T, C]` int32: for each template, the hardware of the mapping of least area on which all its layers fit.

    No chiplet can be smaller than the smallest mapping of the most demanding layer; where the other layers fit on that,
    it is the result. 0 where no mapping that was tried holds all layers: these then take their smallest mappings, and
    the chiplet grows.
    """
    exists = np.isfinite(area)
    sizes = np.zeros((need.shape[1], need.shape[3]), np.int32)
    for t in range(need.shape[1]):
        layers = exists[:, t].any(axis=1)
        if not layers.any():
            continue
        own = np.where(exists[layers, t, :, None], need[layers, t], _THRESHOLDS)  # [U, M, C]
        candidates = own[exists[layers, t]]
        candidates = candidates[np.argsort(area[layers, t][exists[layers, t]], kind="stable")]
        # Of every component, a layer needs at least what the least demanding of its mappings needs.
        possible = candidates[(candidates >= own.min(axis=1).max(axis=0)).all(axis=1)]
        for size in possible[:_TRIED]:
            if (own <= size).all(axis=2).any(axis=1).all():
                sizes[t] = size
                break
    return sizes
