"""Converts designs as files have them, chiplets and schedules, to arrays, and checks them.

Forms check the keys and types of an entry. A block of entries is then converted at once; entries that fail a check are
looked at again step by step, so that only one place produces error messages.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import Template, check_ports, template_structure
from mohamjax.io.forms import CalledForm, ChipletForm, DesignForm, StepForm
from mohamjax.io.nests import NestList, NestStore
from mohamjax.reader import suggestion
from mohamjax.runtime.struct import take
from mohamjax.schedule import Design, SizedDesign
from mohamjax.schedule.setup import Setup
from mohamjax.schedule.validity import dependences, in_turn, sound_genes


class DesignRules:
    """The data that designs of one problem are checked against, and the loop nests that they have named so far.

    Args:
        setup: the networks and hardware of the problem.
    """

    def __init__(self, setup: Setup) -> None:
        application, templates = setup.application, setup.templates
        levels = max(len(template.levels) for template in templates)
        check_ports(templates, setup.technology)
        self.setup, self.tiles = setup, setup.package.max_tiles
        self.store = NestStore(application, templates, levels, template_structure(templates, levels).machine)
        self.layers = {name: i for i, name in enumerate(application.full_names)}
        self.edges = dependences(application)
        self.unique = np.asarray(application.unique_of_layer)
        self.kinds = {template.name: t for t, template in enumerate(templates)}
        self._sizes: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def sizes(self, chip: ChipletForm, template: int) -> tuple[np.ndarray, np.ndarray]:
        """Cached `_sizes` of a chiplet, shared by chiplets with equal sizes; error messages name no item."""
        key = template, msgspec.json.encode(chip.levels)
        if key not in self._sizes:
            if len(self._sizes) > _MOST_SIZES:
                self._sizes.clear()
            self._sizes[key] = _sizes(chip, self.store.templates[template], "")
        return self._sizes[key]


_MOST_SIZES = 1 << 16  # cached at once


def read_rows(
    rows: Sequence[tuple[object, NestList]], rules: DesignRules
) -> tuple[list[InputError | None], SizedDesign, np.ndarray]:
    """Reads and checks designs of one problem.

    Args:
        rows: designs as plain JSON data or instances of their form, each with the nests of its file.
        rules: rules of the problem.

    Returns:
        For every design why it is broken, or None; the valid designs in the order of the rows, leading axis `[N]`, N
        may be 0, layers not padded; and the tile of each of their chiplets, `[N, S]` int32.
    """
    faults: list[InputError | None] = [None] * len(rows)
    read: list[tuple[int, DesignForm, NestList]] = []
    for i, (row, nests) in enumerate(rows):
        try:
            read.append((i, _form(row), nests))
        except InputError as error:
            faults[i] = error
    fit = [one for one in read if len(one[1].chiplets) <= rules.tiles and len(one[1].schedule) == len(rules.unique)]
    stated = _Chiplets([form.chiplets for _, form, _ in fit], rules)
    genes, sound = _genes([(form.schedule, nests) for _, form, nests in fit], stated, rules)
    good = {i for (i, _, _), fine in zip(fit, sound, strict=True) if fine}
    for i, form, nests in read:
        if i not in good:
            faults[i] = _fault(form, nests, rules)
    own = np.flatnonzero(sound)
    designs = SizedDesign(design=genes, capacity=stated.capacity, fanout=stated.fanout)  # pyright: ignore[reportArgumentType]
    return faults, take(designs, own), stated.tile[own]


def _form(row: object) -> DesignForm:
    """A design as an instance of its form; raises InputError if it does not have that form."""
    if isinstance(row, DesignForm):
        return row
    lists: dict[str, Any] = {key: row.get(key) for key in _PARTS} if isinstance(row, dict) else {}
    read = {key for key, part in lists.items() if isinstance(part, list) and part and isinstance(part[0], _PARTS[key])}
    if read == _PARTS.keys():
        name = read_form(row, CalledForm)
        return DesignForm(design_id=name.design_id, name=name.name, **lists)
    return read_form(msgspec.to_builtins(row) if read else row, DesignForm)


_PARTS = {"chiplets": ChipletForm, "schedule": StepForm}
"""Parts of a design that may have been read by their forms already, see `DESIGN_PARTS`."""


class _Chiplets:
    """The chiplets of n designs.

    Attributes:
        sound: `[n]` bool, whether the chiplets of a design pass all checks.
        number: `[n]` int, number of chiplets of each design.
        template: `[n, S]` int32, template of each chiplet; -1 where there is none.
        capacity: `[n, S, V]` stated words per buffer; -1 where none are stated.
        fanout: `[n, S, V, 2]` stated children along X and Y; -1 where none are stated.
        tile: `[n, S]` int32, tile of each chiplet.
    """

    def __init__(self, designs: Sequence[Sequence[ChipletForm]], rules: DesignRules) -> None:
        shape = len(designs), rules.tiles
        self.number = np.asarray([len(chips) for chips in designs], int)
        self.template = np.full(shape, -1, np.int32)
        self.capacity = np.full((*shape, rules.store.levels), -1.0)
        self.fanout = np.full((*shape, rules.store.levels, 2), -1.0)
        self.tile = np.asarray([_stated_tiles(chips, rules.tiles) for chips in designs], np.int32).reshape(shape)
        self.sound = np.asarray([self._put(i, chips, rules) for i, chips in enumerate(designs)], bool)

    def _put(self, i: int, chips: Sequence[ChipletForm], rules: DesignRules) -> bool:
        if _out_of_order(chips) is not None:
            return False
        for k, chip in enumerate(chips):
            kind = rules.kinds.get(chip.template, -1)
            if kind < 0 or (chip.tile is not None and chip.tile >= rules.tiles):
                return False
            self.template[i, k] = kind
            if chip.levels:
                try:
                    capacity, fanout = rules.sizes(chip, kind)
                except InputError:
                    return False
                self.capacity[i, k, : len(capacity)], self.fanout[i, k, : len(fanout)] = capacity, fanout
        return True


_LAYER, _CHIPLET, _MAPPING = map(operator.attrgetter, ("layer", "chiplet", "mapping"))


def _genes(
    schedules: Sequence[tuple[Sequence[StepForm], NestList]], chiplets: _Chiplets, rules: DesignRules
) -> tuple[Design, np.ndarray]:
    """The chromosomes of n designs with a step for each of L layers.

    Args:
        schedules: steps of each design, with the nests of its file.
        chiplets: chiplets of the designs.
        rules: rules of the problem.

    Returns:
        The designs, leading axis `[n]`, and `[n]` bool, whether a design passes all checks; the genes of other designs
        are meaningless.
    """
    steps = list(itertools.chain.from_iterable(schedule for schedule, _ in schedules))
    named: list[object] = list(map(_LAYER, steps))
    if str in set(map(type, named)):
        named = [rules.layers.get(one, -1) if isinstance(one, str) else one for one in named]
    shape = len(schedules), len(rules.unique)
    order, where, listed = (
        np.fromiter(values, int, len(steps)).reshape(shape)
        for values in (named, map(_CHIPLET, steps), map(_MAPPING, steps))
    )
    lane, layer = np.arange(shape[0])[:, None], np.clip(order, 0, shape[1] - 1)
    assignment, mapping = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    assignment[lane, layer] = where
    genes = Design(order=order.astype(np.int32), assignment=assignment, mapping=mapping, template=chiplets.template)  # pyright: ignore[reportArgumentType]
    # The number of loop nests of each set is only known after these designs have named theirs; `mapped` is not used.
    found = sound_genes(genes, rules.unique, np.zeros((len(rules.unique), len(rules.kinds)), int))
    sound = chiplets.sound & found.listed & found.placed.all(axis=1) & in_turn(order, rules.edges)

    nest = np.full(shape, -1)
    for nests in dict.fromkeys(nests for _, nests in schedules):
        own = np.flatnonzero(sound & np.asarray([other is nests for _, other in schedules]))
        nest[own] = nests.numbers(listed[own].reshape(-1)).reshape(-1, shape[1])
    sound &= (nest >= 0).all(axis=1)
    own = np.flatnonzero(sound)
    entry = np.full(shape, -1)
    entry[own] = rules.store.settled(nest[own].reshape(-1), rules.unique[order[own]].reshape(-1)).reshape(-1, shape[1])
    kind = np.take_along_axis(chiplets.template[own], where[own], axis=1)
    sound[own] &= (np.asarray(rules.store.owner, int)[nest[own]] == kind).all(axis=1)
    sound &= (entry >= 0).all(axis=1)
    mapping[lane, layer] = entry
    return dataclasses.replace(genes, mapping=mapping), sound


def _sizes(chip: ChipletForm, template: Template, item: str) -> tuple[np.ndarray, np.ndarray]:
    """Stated capacities `[levels]` and fanouts `[levels, 2]` of a chiplet; -1 where none are stated."""
    names = template.level_names
    capacity: list[float] = [-1.0] * len(names)
    fanout: list[tuple[float, float]] = [(-1.0, -1.0)] * len(names)
    for row in chip.levels or ():
        if row.name not in names:
            told = f"template {template.name} has no level {row.name!r}"
            raise InputError(told, item=item, remedy=f"its levels are {', '.join(names)}")
        v = names.index(row.name)
        limit, words, spread = template.levels[v], row.capacity_words, row.fanout
        most, fixed = limit.capacity_words, template.sizes == "fixed"
        allows = f"template {template.name} always has" if fixed else "the template allows"
        remedy = (
            "leave it out, or name a template of free sizes"
            if fixed
            else "write no more than that, or another template"
        )
        if words is not None:
            # A file of single precision has sizes that are rounded.
            if most is not None and (not math.isclose(words, most, rel_tol=1e-6) if fixed else words > most):
                told = f"level {row.name} has {words:.0f} words, {allows} {most}"
                raise InputError(told, item=item, remedy=remedy)
            capacity[v] = words
        if spread is not None:
            wide = spread[0] > limit.fanout[0] or spread[1] > limit.fanout[1]
            if wide or (fixed and tuple(spread) != tuple(limit.fanout)):
                told = f"level {row.name} has fanout {list(spread)}, {allows} {list(limit.fanout)}"
                raise InputError(told, item=item, remedy=remedy)
            fanout[v] = spread
    return np.asarray(capacity), np.asarray(fanout)


def _fault(form: DesignForm, nests: NestList, rules: DesignRules) -> InputError:
    """What is wrong with a design that failed a check, found step by step."""
    try:
        _check(form, nests, rules)
    except InputError as error:
        return error
    told, remedy = "is refused, but nothing wrong was found", "report this fault of mohamjax, with the file"
    return InputError(told, remedy=remedy)


def _check(form: DesignForm, nests: NestList, rules: DesignRules) -> None:
    """Raises InputError that says what is wrong with a design."""
    chips, templates, tiles = form.chiplets, rules.store.templates, rules.tiles
    if len(chips) > tiles:
        remedy = "take fewer, or write a larger `max_tiles` into `package`"
        raise InputError(f"`chiplets` is not a list of 1 to {tiles} chiplets but of {len(chips)}", remedy=remedy)
    for k, chip in enumerate(chips):
        item = f"chiplets[{k}]"
        if chip.template not in rules.kinds:
            remedy = f"use one of {', '.join(rules.kinds)}"
            raise InputError("names no template of the file", item=item, remedy=remedy)
        if chip.tile is not None and chip.tile >= tiles:
            told = f"stands on tile {chip.tile}, and the package has the tiles 0 to {tiles - 1}"
            raise InputError(told, item=item, remedy="write one of them, or leave `tile` out")
        if chip.levels:
            _sizes(chip, templates[rules.kinds[chip.template]], item)
    wrong = _out_of_order(chips)
    if wrong is not None:
        told = f"stands on tile {chips[wrong].tile}, and a chiplet before it in the list is on the same or a later tile"
        remedy = "list the chiplets by rising tile, or leave `tile` out: the place follows from the list"
        raise InputError(told, item=f"chiplets[{wrong}]", remedy=remedy)
    order = _order(form.schedule, rules, len(chips))
    for k, (step, layer) in enumerate(zip(form.schedule, order, strict=True)):
        chip = chips[step.chiplet]
        nests.place(step.mapping, layer, rules.kinds[chip.template], f"schedule[{k}] on chiplet {step.chiplet}")


def _order(steps: Sequence[StepForm], rules: DesignRules, chips: int) -> list[int]:
    """Layers by priority; raises InputError unless each is listed once and after its predecessors."""
    layers, names = rules.store.application.layers, rules.layers
    order: list[int] = []
    for k, step in enumerate(steps):
        layer = names.get(step.layer, -1) if isinstance(step.layer, str) else step.layer
        if not 0 <= layer < len(layers):
            told = f"there is no layer {step.layer!r}"
            if isinstance(step.layer, str):
                remedy = suggestion(step.layer, list(names))
            else:
                remedy = f"the {len(layers)} layers are numbered from 0, or called network/layer"
            raise InputError(told, item=f"schedule[{k}]", remedy=remedy)
        if layer in order:  # checked first, as it makes another layer missing or late
            first, item = order.index(layer), f"layer {layer} ({layers[layer].name})"
            remedy = f"list every layer once: remove schedule[{first}] or schedule[{k}]"
            raise InputError("is scheduled twice", item=item, remedy=remedy)
        order.append(layer)
    done = [False] * len(layers)
    for step, layer in zip(steps, order, strict=True):
        item = f"layer {layer} ({layers[layer].name})"
        for p in layers[layer].predecessors:
            if not done[p]:
                told = f"stands before layer {p} ({layers[p].name}), on which it depends"
                raise InputError(told, item=item, remedy="list every layer after those that it depends on")
        if step.chiplet >= chips:
            there = "name chiplet 0, the only one" if chips == 1 else f"name a chiplet from 0 to {chips - 1}"
            raise InputError(f"runs on chiplet {step.chiplet}, which does not exist", item=item, remedy=there)
        done[layer] = True
    if len(order) < len(layers):
        lost = done.index(False)
        raise InputError(f"layer {lost} ({layers[lost].name}) is not scheduled", remedy="list every layer once")
    return order


def _out_of_order(chips: Sequence[ChipletForm]) -> int | None:
    """The first chiplet whose tile is not larger than those stated before it in the list; None if there is none.

    The order of the list decides where chiplets are placed, so tiles in another order would contradict it.
    """
    last = -1
    for k, chip in enumerate(chips):
        if chip.tile is not None:
            if chip.tile <= last:
                return k
            last = chip.tile
    return None


def _stated_tiles(chips: Sequence[ChipletForm], tiles: int) -> np.ndarray:
    """`[S]` int, tile of each chiplet; the first tiles unless the design states rising tiles for all chiplets."""
    whole = [chip.tile for chip in chips if chip.tile is not None]
    out = np.arange(tiles)
    if len(whole) == len(chips) and _out_of_order(chips) is None:
        out[: len(chips)] = whole
    return out
