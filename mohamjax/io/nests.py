"""Loop nests out of files: each distinct one is parsed, checked and counted once, however often files repeat it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import Machine, Template
from mohamjax.mapping import Mapping, constraints, encode, map_space, prime_factors
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.notation import OwnedNestForm, mapping_of
from mohamjax.mapping.space import MapSpace
from mohamjax.workload import DIMS, ApplicationModel

__all__ = ["NestList", "NestStore"]

_LEAVES = ("temporal", "order", "spatial", "spatial_order", "keep")


class NestStore:
    """The distinct loop nests of one problem, dealt to (unique layer, template) sets as designs ask for them.

    Args:
        application: networks.
        templates: templates.
        levels: levels of the padded nests.
        largest: the templates at their largest sizes, leading axis `[T]`, NumPy leaves.
    """

    def __init__(
        self, application: ApplicationModel, templates: Sequence[Template], levels: int, largest: Machine
    ) -> None:
        self.application, self.templates, self.levels = application, tuple(templates), levels
        self._largest = largest
        self._number: dict[tuple[int, bytes], int] = {}
        self._place: dict[tuple[int, int], int] = {}
        self._refused: set[tuple[int, int]] = set()
        self.space = functools.cache(self._space)
        self.owner: list[int] = []
        self.nests: list[Mapping] = []
        self.sets: dict[tuple[int, int], list[int]] = {}

    def parse(self, entry: Any, item: str) -> int:
        """Number of the nest that an entry of `mappings` writes out."""
        form = read_form(entry, OwnedNestForm, where=item)
        names = [t.name for t in self.templates]
        if form.template not in names:
            raise InputError("names no template of the file", item=item, remedy=f"use one of {', '.join(names)}")
        owner = names.index(form.template)
        template = self.templates[owner]
        keep = [level.keep for level in template.levels]
        return self.add(owner, mapping_of(form, template.level_names, keep, levels=self.levels, item=item))

    def add(self, owner: int, nest: Mapping) -> int:
        """Number of a nest for a template."""
        key = owner, b"".join(np.asarray(getattr(nest, name)).tobytes() for name in _LEAVES)
        number = self._number.setdefault(key, len(self.nests))
        if number == len(self.nests):
            self.nests.append(nest)
            self.owner.append(owner)
        return number

    def settle(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Finds the places of nests for unique layers, all those of a set at once; what does not fit is noted."""
        groups: dict[tuple[int, int], list[int]] = {}
        for nest, unique in dict.fromkeys(pairs):
            if (nest, unique) not in self._place and (nest, unique) not in self._refused:
                groups.setdefault((unique, self.owner[nest]), []).append(nest)
        for (unique, owner), members in groups.items():
            if not self.templates[owner].runs(self.application.unique_layers[unique].type):
                self._refused |= {(nest, unique) for nest in members}
                continue
            space = self.space(unique, owner)
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(self.nests[nest] for nest in members))
            own = self.sets.setdefault((unique, owner), [])
            for nest, good in zip(members, lie_in(stacked, space), strict=True):
                if not good:
                    try:
                        self._check(nest, unique, "")
                    except InputError:
                        self._refused.add((nest, unique))
                        continue
                self._place[nest, unique] = len(own)
                own.append(nest)

    def _check(self, nest: int, unique: int, item: str) -> None:
        """Raises InputError, of an item, where a nest does not fit a layer on the template that it is for."""
        layer, kind = self.application.unique_layers[unique], self.templates[self.owner[nest]]
        if not kind.runs(layer.type):
            raise InputError(f"template {kind.name} does not run layers of type {layer.type}", item=item)
        encode(self.nests[nest], self.space(unique, self.owner[nest]), item=item)

    def place(self, nest: int, unique: int, item: str) -> int:
        """Index of a nest in the set of the unique layer and the nest's template.

        Raises:
            InputError: it does not fit; names `item`.
        """
        if (nest, unique) not in self._place:
            self.settle([(nest, unique)])
        if (nest, unique) in self._refused:
            self._check(nest, unique, item)
        return self._place[nest, unique]

    def settled(self, nests: np.ndarray, unique: np.ndarray) -> np.ndarray:
        """As `place` for many pairs, `[n]` int each, settling those that are new; -1 where one does not fit."""
        layers = len(self.application.unique_layers)
        pairs, which = np.unique(nests * layers + unique, return_inverse=True)
        distinct = [divmod(pair, layers) for pair in pairs.tolist()]
        self.settle(distinct)
        return np.asarray([self._place.get(pair, -1) for pair in distinct], int)[which.reshape(-1)]

    def _space(self, unique: int, owner: int) -> MapSpace:
        layer, kind = self.application.unique_layers[unique], self.templates[owner]
        limits = constraints(kind, layer.type, layer.shape, self.levels)
        machine = jax.tree.map(lambda leaf: leaf[owner], self._largest)
        return map_space(layer.shape, limits, machine, self._primes)

    @functools.cached_property
    def _primes(self) -> int:
        """Prime factors of the layer that has most: so that one program checks them all."""
        return max(1, *(sum(map(len, map(prime_factors, u.shape.bounds))) for u in self.application.unique_layers))

    def arrays(self) -> tuple[Mapping, np.ndarray]:
        """All sets as `[U, T, M]` nests, padded with a nest of loops of bound 1, and their sizes `[U, T]`."""
        shape = len(self.application.unique_layers), len(self.templates)
        count = np.zeros(shape, np.int32)
        for key, members in self.sets.items():
            count[key] = len(members)
        # Row 0 is the padding.
        first = self.nests[0]
        unit = np.arange(len(DIMS), dtype=np.int32)
        filler = jax.tree.map(np.ones_like, first)
        filler = dataclasses.replace(
            filler,
            order=np.broadcast_to(unit, first.order.shape),
            spatial_order=np.broadcast_to(unit, first.spatial_order.shape),
        )
        rows = np.zeros((*shape, max(1, int(count.max()))), int)
        for key, members in self.sets.items():
            rows[key][: len(members)] = np.asarray(members, int) + 1
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), filler, *self.nests)
        return jax.tree.map(lambda leaf: leaf[rows], stacked), count


class NestList:
    """The list `mappings` of one file, of which a store holds what is distinct.

    Args:
        entries: loop nests as `mapping.notation` writes them, each with its template.
        store: of the file's problem.
    """

    def __init__(self, entries: Sequence[Any], store: NestStore) -> None:
        self.entries, self.store = entries, store
        self._numbers: dict[int, int] = {}
        self._unread: set[int] = set()

    def nest(self, number: int) -> int:
        """Number in the store; raises InputError where the entry cannot be read."""
        item = f"mappings[{number}]"
        if number >= len(self.entries):
            raise InputError("there is no such mapping", item=item, remedy="give an index into `mappings`")
        if number not in self._numbers:
            self._numbers[number] = self.store.parse(self.entries[number], item)
        return self._numbers[number]

    def place(self, number: int, layer: int, template: int) -> int:
        """Index of nest `number` in the set of the layer on the template; checks it on first use."""
        item = f"mappings[{number}]"
        nest, templates = self.nest(number), self.store.templates
        owner = self.store.owner[nest]
        if owner != template:
            told = f"is for template {templates[owner].name}, the chiplet is a {templates[template].name}"
            raise InputError(told, item=item)
        return self.store.place(nest, self.store.application.unique_of_layer[layer], item)

    def numbers(self, numbers: Sequence[int]) -> list[int]:
        """Numbers in the store of many entries, -1 where one cannot be read."""
        known, unread = self._numbers, self._unread
        found = list(map(known.get, numbers))
        if None not in found:
            return found  # pyright: ignore[reportReturnType]
        for number in set(numbers) - known.keys():
            if number not in unread:
                try:
                    self.nest(number)
                except InputError:
                    unread.add(number)
        return [known.get(number, -1) for number in numbers]
