"""Designs as files write them, entry by entry: chiplets and schedule into arrays, checked.

A block of entries is read at once where it is sound; whatever is odd about one is found step by step, so that there is
one place that says what is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import abc
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters, Template
from mohamjax.io.nests import NestList, NestStore
from mohamjax.schedule import Design
from mohamjax.workload import ApplicationModel

__all__ = ["DesignRow", "DesignRules", "read_rows", "stacked_rows"]


@dataclasses.dataclass(frozen=True)
class DesignRow:
    """One design of a file as arrays.

    Attributes:
        design: the chromosome, layers not padded.
        capacity: `[S, V]` words per buffer that the chiplets state, -1 where they state none.
        fanout: `[S, V, 2]` likewise.
        tile: `[S]` tile of each chiplet.
    """

    design: Design
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray


class DesignRules:
    """What the designs of one problem are read against.

    Args:
        store: the problem's loop nests, with its networks and templates.
        package: package parameters.
    """

    def __init__(self, store: NestStore, package: PackageParameters) -> None:
        application: ApplicationModel = store.application
        self.store, self.package, self.tiles = store, package, package.max_tiles
        self.layers = {
            f"{application.networks[n].name}/{layer.name}": i
            for i, (layer, n) in enumerate(zip(application.layers, application.network_of_layer, strict=True))
        }
        edges = [(p, i) for i, layer in enumerate(application.layers) for p in layer.predecessors]
        self.before, self.after = np.asarray(edges, int).reshape(-1, 2).T
        self.unique = np.asarray(application.unique_of_layer)
        self.kinds = {template.name: t for t, template in enumerate(store.templates)}
        self._sizes: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def sizes(self, chip: abc.Mapping[str, Any], template: int) -> tuple[np.ndarray, np.ndarray]:
        """As `_sizes` of a chiplet without complaints, once for all that are alike."""
        key = template, msgspec.json.encode(chip.get("levels"))
        if key not in self._sizes:
            if len(self._sizes) > _MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = _sizes(chip, self.store.templates[template], "")
        return self._sizes[key]


_MOST_SIZES = 1 << 16  # kept at once


def read_rows(rows: Sequence[tuple[Any, NestList]], rules: DesignRules) -> list[DesignRow | InputError]:
    """Reads and checks designs of one problem.

    Args:
        rows: designs as JSON has them, each with the nests of its file.
        rules: of the problem.

    Returns:
        Per design its arrays, or why there are none.
    """
    drafts = [_draft(row, nests, rules) for row, nests in rows]
    store = rules.store
    pairs = itertools.chain.from_iterable(zip(d.nest, d.unique, strict=True) for d in drafts if d is not None)
    store.settle(pairs)
    out: list[DesignRow | InputError] = []
    for (row, nests), draft in zip(rows, drafts, strict=True):
        read = None if draft is None else _finished(draft, rules)
        try:
            out.append(_design(row, nests, rules) if read is None else read)
        except InputError as error:
            out.append(error)
    return out


def stacked_rows(rows: Sequence[DesignRow]) -> tuple[Design, np.ndarray, np.ndarray, np.ndarray]:
    """Designs, capacities, fanouts and tiles with a leading axis `[N]`."""
    names = ("order", "assignment", "mapping", "template")
    genes: Any = {name: np.stack([getattr(row.design, name) for row in rows]) for name in names}
    sizes = (np.stack([getattr(row, name) for row in rows]) for name in ("capacity", "fanout", "tile"))
    capacity, fanout, tile = sizes
    return Design(**genes), capacity, fanout, tile.astype(np.int32)


@dataclasses.dataclass(frozen=True)
class _Draft:
    """A sound design but for its mappings: lists and arrays by place in the order."""

    order: np.ndarray
    chiplet: np.ndarray
    nest: list[int]
    unique: list[int]
    template: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray


def _draft(row: Any, nests: NestList, rules: DesignRules) -> _Draft | None:
    """A design of which all but the mappings is checked; None where something is odd."""
    try:
        chips, steps = row["chiplets"], row["schedule"]
        layer, chiplet, number = ([step[key] for step in steps] for key in ("layer", "chiplet", "mapping"))
        if not isinstance(chips, list) or not isinstance(steps, list) or not 1 <= len(chips) <= rules.tiles:
            return None
        if any(type(name) is str for name in layer):
            layer = [rules.layers[name] if type(name) is str else name for name in layer]
        count = len(rules.unique)
        if any(set(map(type, values)) != {int} for values in (layer, chiplet, number)) or len(layer) != count:
            return None
        order, where = np.asarray(layer), np.asarray(chiplet)
        place = np.full(count, -1)
        if order.min() < 0 or order.max() >= count or where.min() < 0 or where.max() >= len(chips):
            return None
        place[order] = np.arange(count)
        if place.min() < 0 or (place[rules.before] >= place[rules.after]).any():
            return None
        found = nests.numbers(number)
        if min(found) < 0:
            return None
        template = np.full(rules.tiles, -1, np.int32)
        capacity = np.full((rules.tiles, rules.store.levels), -1.0)
        fanout = np.full((rules.tiles, rules.store.levels, 2), -1.0)
        for k, chip in enumerate(chips):
            template[k] = rules.kinds[chip["template"]]
            tile = chip.get("tile")
            if tile is not None and (type(tile) is not int or not 0 <= tile < rules.tiles):
                return None
            if chip.get("levels") is not None:
                own_capacity, own_fanout = rules.sizes(chip, int(template[k]))
                capacity[k, : len(own_capacity)], fanout[k, : len(own_fanout)] = own_capacity, own_fanout
    except (InputError, TypeError, KeyError, AttributeError, OverflowError, ValueError):
        return None
    return _Draft(
        order=order,
        chiplet=where,
        nest=found,
        unique=rules.unique[order].tolist(),
        template=template,
        capacity=capacity,
        fanout=fanout,
        tile=_stated_tiles(chips, rules.tiles),
    )


def _finished(draft: _Draft, rules: DesignRules) -> DesignRow | None:
    """The design once its mappings are settled; None where one does not fit its layer or its chiplet."""
    store = rules.store
    places = np.asarray(store.places(draft.nest, draft.unique))
    owner = np.asarray([store.owner[nest] for nest in draft.nest])
    if places.min() < 0 or (owner != draft.template[draft.chiplet]).any():
        return None
    assignment, mapping = np.zeros((2, len(places)), np.int32)
    assignment[draft.order], mapping[draft.order] = draft.chiplet, places
    genes: dict[str, Any] = {
        "order": draft.order.astype(np.int32),
        "assignment": assignment,
        "mapping": mapping,
        "template": draft.template,
    }
    return DesignRow(design=Design(**genes), capacity=draft.capacity, fanout=draft.fanout, tile=draft.tile)


def _sizes(chip: abc.Mapping[str, Any], template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Capacities `[levels]` and fanouts `[levels, 2]` that a chiplet states; -1 where it states none."""
    levels = len(template.levels)
    capacity, fanout = np.full(levels, -1.0), np.full((levels, 2), -1.0)
    rows = chip.get("levels")
    if rows is None:
        return capacity, fanout
    if not isinstance(rows, list):
        raise InputError("`levels` is not a list", item=item)
    for row in rows:
        name = row.get("name") if isinstance(row, abc.Mapping) else None
        if name not in template.level_names:
            raise InputError(f"template {template.name} has no level {name!r}", item=item)
        v = template.level_names.index(name)
        limit = template.levels[v]
        words = row.get("capacity_words")
        if words is not None:
            if isinstance(words, bool) or not isinstance(words, int | float) or not 0 <= words < 2**53:
                raise InputError(f"capacity_words {words!r} of level {name} is no number of words", item=item)
            if limit.capacity_words is not None and words > limit.capacity_words:
                raise InputError(
                    f"level {name} has {words} words, the template allows {limit.capacity_words}", item=item
                )
            capacity[v] = words
        spread = row.get("fanout")
        if spread is not None:
            good = isinstance(spread, list) and len(spread) == 2
            if not good or any(isinstance(f, bool) or not isinstance(f, int) or f < 1 for f in spread):
                raise InputError(f"fanout {spread!r} of level {name} is not two positive integers", item=item)
            if any(f > most for f, most in zip(spread, limit.fanout, strict=True)):
                raise InputError(
                    f"level {name} has fanout {spread}, the template allows {list(limit.fanout)}", item=item
                )
            fanout[v] = spread
    return capacity, fanout


def _design(row: Any, nests: NestList, rules: DesignRules) -> DesignRow:
    """Reads and checks one design step by step; raises `InputError` with the reason."""
    application, templates, tiles, names = rules.store.application, rules.store.templates, rules.tiles, rules.layers
    levels = rules.store.levels
    if not isinstance(row, abc.Mapping):
        raise InputError("a design is not a table", remedy="give chiplets and schedule")
    chips = row.get("chiplets")
    if not isinstance(chips, list) or not 1 <= len(chips) <= tiles:
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets")
    template = np.full(tiles, -1, np.int32)
    capacity, fanout = np.full((tiles, levels), -1.0), np.full((tiles, levels, 2), -1.0)
    kinds = [t.name for t in templates]
    for k, chip in enumerate(chips):
        item = f"chiplet {k}"
        if not isinstance(chip, abc.Mapping) or chip.get("template") not in kinds:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(kinds)}")
        template[k] = kinds.index(chip["template"])
        tile = chip.get("tile")
        if tile is not None and (isinstance(tile, bool) or not isinstance(tile, int) or not 0 <= tile < tiles):
            raise InputError(f"stands on tile {tile!r}, which does not exist", item=item)
        sizes = _sizes(chip, templates[template[k]], item)
        capacity[k, : len(sizes[0])], fanout[k, : len(sizes[0])] = sizes
    schedule = row.get("schedule")
    layers = application.layers
    if not isinstance(schedule, list):
        raise InputError("`schedule` is not a list")
    order: list[int] = []
    assignment, mapping = np.zeros(len(layers), np.int32), np.zeros(len(layers), np.int32)
    done: set[int] = set()
    for step in schedule:
        if not isinstance(step, abc.Mapping):
            raise InputError("a step of the schedule is not a table")
        layer = step.get("layer")
        layer = names.get(layer, layer) if isinstance(layer, str) else layer
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < len(layers):
            raise InputError(f"the schedule names layer {step.get('layer')!r}, which does not exist")
        item = f"layer {layer} ({layers[layer].name})"
        if layer in done:
            raise InputError("is scheduled twice", item=item)
        missing = [p for p in layers[layer].predecessors if p not in done]
        if missing:
            raise InputError(
                f"stands before layer {missing[0]} ({layers[missing[0]].name}), on which it depends", item=item
            )
        chip = step.get("chiplet")
        if isinstance(chip, bool) or not isinstance(chip, int) or not 0 <= chip < len(chips):
            raise InputError(f"runs on chiplet {chip!r}, which does not exist", item=item)
        assignment[layer] = chip
        mapping[layer] = nests.place(step.get("mapping"), layer, int(template[chip]))
        order.append(layer)
        done.add(layer)
    if len(order) < len(layers):
        lost = next(i for i in range(len(layers)) if i not in done)
        raise InputError(f"layer {lost} ({layers[lost].name}) is not scheduled")
    genes: dict[str, Any] = {
        "order": np.asarray(order, np.int32),
        "assignment": assignment,
        "mapping": mapping,
        "template": template,
    }
    return DesignRow(
        design=Design(**genes),
        capacity=capacity,
        fanout=fanout,
        tile=_stated_tiles(chips, tiles),
    )


def _stated_tiles(chips: Sequence[abc.Mapping[str, Any]], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles where a design does not state rising ones for all."""
    stated = [chip.get("tile") for chip in chips]
    whole = [t for t in stated if t is not None]
    rising = len(whole) == len(chips) and all(a < b for a, b in itertools.pairwise(whole))
    out = np.arange(tiles)
    if rising:
        out[: len(chips)] = whole
    return out
