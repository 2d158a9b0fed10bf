"""Designs as files write them, entry by entry: chiplets and schedule into arrays, checked.

Forms say whether an entry has the right keys and types; a block of entries is then read at once where it is sound, and
whatever is odd about one is found step by step, so that there is one place that says what is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import PackageParameters, Template
from mohamjax.io.forms import ChipletForm, DesignForm, StepForm
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

    def sizes(self, chip: ChipletForm, template: int) -> tuple[np.ndarray, np.ndarray]:
        """As `_sizes` of a chiplet without complaints, once for all that are alike."""
        key = template, msgspec.json.encode(chip.levels)
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
    forms = [_form(row) for row, _ in rows]
    pairs = [(form, nests) for form, (_, nests) in zip(forms, rows, strict=True)]
    drafts = [None if isinstance(form, InputError) else _draft(form, nests, rules) for form, nests in pairs]
    sound = [draft for draft in drafts if draft is not None]
    nests, unique = (
        np.concatenate([np.zeros(0, int), *(getattr(d, key) for d in sound)]) for key in ("nest", "unique")
    )
    places = iter(np.split(rules.store.settled(nests, unique), np.cumsum([len(d.nest) for d in sound])[:-1]))
    owner = np.asarray(rules.store.owner, int)
    out: list[DesignRow | InputError] = []
    for (form, listed), draft in zip(pairs, drafts, strict=True):
        if isinstance(form, InputError):
            out.append(form)
            continue
        read = None if draft is None else _finished(draft, next(places), owner)
        try:
            out.append(_design(form, listed, rules) if read is None else read)
        except InputError as error:
            out.append(error)
    return out


def _form(row: Any) -> DesignForm | InputError:
    try:
        return read_form(row, DesignForm)
    except InputError as error:
        return error


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
    nest: np.ndarray
    unique: np.ndarray
    template: np.ndarray
    capacity: np.ndarray
    fanout: np.ndarray
    tile: np.ndarray


_STEP = operator.attrgetter("layer", "chiplet", "mapping")


def _draft(form: DesignForm, nests: NestList, rules: DesignRules) -> _Draft | None:
    """A design of which all but the mappings is checked; None where something is odd."""
    chips, steps, count = form.chiplets, form.schedule, len(rules.unique)
    if len(chips) > rules.tiles or len(steps) != count:
        return None
    layer, chiplet, mapping = zip(*map(_STEP, steps), strict=True)
    if str in set(map(type, layer)):
        layer = [rules.layers.get(one, -1) if isinstance(one, str) else one for one in layer]
    order, where = np.asarray(layer), np.asarray(chiplet)
    if order.min() < 0 or order.max() >= count or where.max() >= len(chips):
        return None
    place = np.full(count, -1)
    place[order] = np.arange(count)
    if place.min() < 0 or (place[rules.before] >= place[rules.after]).any():
        return None
    found = nests.numbers(mapping)
    if min(found) < 0:
        return None
    template = np.full(rules.tiles, -1, np.int32)
    capacity = np.full((rules.tiles, rules.store.levels), -1.0)
    fanout = np.full((rules.tiles, rules.store.levels, 2), -1.0)
    for k, chip in enumerate(chips):
        template[k] = rules.kinds.get(chip.template, -1)
        if template[k] < 0 or (chip.tile is not None and chip.tile >= rules.tiles):
            return None
        if chip.levels:
            try:
                own_capacity, own_fanout = rules.sizes(chip, int(template[k]))
            except InputError:
                return None
            capacity[k, : len(own_capacity)], fanout[k, : len(own_fanout)] = own_capacity, own_fanout
    return _Draft(
        order=order,
        chiplet=where,
        nest=np.asarray(found),
        unique=rules.unique[order],
        template=template,
        capacity=capacity,
        fanout=fanout,
        tile=_stated_tiles(chips, rules.tiles),
    )


def _finished(draft: _Draft, places: np.ndarray, owner: np.ndarray) -> DesignRow | None:
    """The design once its mappings are settled; None where one does not fit its layer or its chiplet.

    Args:
        draft: the design.
        places: of its nests in the sets of their layers, -1 where one does not fit.
        owner: template of each nest of the store.
    """
    if places.min() < 0 or (owner[draft.nest] != draft.template[draft.chiplet]).any():
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


def _sizes(chip: ChipletForm, template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Capacities `[levels]` and fanouts `[levels, 2]` that a chiplet states; -1 where it states none."""
    levels = len(template.levels)
    capacity, fanout = np.full(levels, -1.0), np.full((levels, 2), -1.0)
    for row in chip.levels or ():
        if row.name not in template.level_names:
            raise InputError(f"template {template.name} has no level {row.name!r}", item=item)
        v = template.level_names.index(row.name)
        limit, words, spread = template.levels[v], row.capacity_words, row.fanout
        if words is not None:
            if limit.capacity_words is not None and words > limit.capacity_words:
                told = f"level {row.name} has {words:.0f} words, the template allows {limit.capacity_words}"
                raise InputError(told, item=item)
            capacity[v] = words
        if spread is not None:
            if any(f > most for f, most in zip(spread, limit.fanout, strict=True)):
                told = f"level {row.name} has fanout {list(spread)}, the template allows {list(limit.fanout)}"
                raise InputError(told, item=item)
            fanout[v] = spread
    return capacity, fanout


def _design(form: DesignForm, nests: NestList, rules: DesignRules) -> DesignRow:
    """Checks one design step by step; raises `InputError` with the reason."""
    chips, templates, tiles, levels = form.chiplets, rules.store.templates, rules.tiles, rules.store.levels
    if len(chips) > tiles:
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets")
    template = np.full(tiles, -1, np.int32)
    capacity, fanout = np.full((tiles, levels), -1.0), np.full((tiles, levels, 2), -1.0)
    kinds = [t.name for t in templates]
    for k, chip in enumerate(chips):
        item = f"chiplets[{k}]"
        if chip.template not in kinds:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(kinds)}")
        template[k] = kinds.index(chip.template)
        if chip.tile is not None and chip.tile >= tiles:
            raise InputError(f"stands on tile {chip.tile}, which does not exist", item=item)
        if chip.levels:
            own = len(templates[template[k]].levels)
            capacity[k, :own], fanout[k, :own] = _sizes(chip, templates[template[k]], item)
    order, assignment = _order(form.schedule, rules, len(chips))
    mapping = np.zeros(len(order), np.int32)
    for step, layer in zip(form.schedule, order, strict=True):
        mapping[layer] = nests.place(step.mapping, layer, int(template[step.chiplet]))
    genes: dict[str, Any] = {
        "order": np.asarray(order, np.int32),
        "assignment": assignment,
        "mapping": mapping,
        "template": template,
    }
    return DesignRow(design=Design(**genes), capacity=capacity, fanout=fanout, tile=_stated_tiles(chips, tiles))


def _order(steps: Sequence[StepForm], rules: DesignRules, chips: int) -> tuple[list[int], np.ndarray]:
    """Layers by priority, each once and after its predecessors, and `[L]` int32, the chiplet of each."""
    layers, names = rules.store.application.layers, rules.layers
    order: list[int] = []
    assignment = np.zeros(len(layers), np.int32)
    done = [False] * len(layers)
    for step in steps:
        layer = names.get(step.layer, -1) if isinstance(step.layer, str) else step.layer
        if not 0 <= layer < len(layers):
            raise InputError(f"the schedule names layer {step.layer!r}, which does not exist")
        item = f"layer {layer} ({layers[layer].name})"
        if done[layer]:
            raise InputError("is scheduled twice", item=item)
        for p in layers[layer].predecessors:
            if not done[p]:
                raise InputError(f"stands before layer {p} ({layers[p].name}), on which it depends", item=item)
        if step.chiplet >= chips:
            raise InputError(f"runs on chiplet {step.chiplet}, which does not exist", item=item)
        assignment[layer] = step.chiplet
        order.append(layer)
        done[layer] = True
    if len(order) < len(layers):
        lost = done.index(False)
        raise InputError(f"layer {lost} ({layers[lost].name}) is not scheduled")
    return order, assignment


def _stated_tiles(chips: Sequence[ChipletForm], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles where a design does not state rising ones for all."""
    stated = [chip.tile for chip in chips]
    whole = [t for t in stated if t is not None]
    rising = len(whole) == len(chips) and all(a < b for a, b in itertools.pairwise(whole))
    out = np.arange(tiles)
    if rising:
        out[: len(chips)] = whole
    return out
