"""Loop nests from files: each distinct one is parsed and checked once, however often files repeat it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterable, Sequence

import jax
import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import Machine, Template
from mohamjax.mapping import Mapping, constraints, encode, map_space, prime_factors
from mohamjax.mapping.membership import lie_in
from mohamjax.mapping.notation import OwnedNestForm, mapping_of, mappings_of, padded_of
from mohamjax.mapping.space import MapSpace
from mohamjax.runtime.struct import take
from mohamjax.text import plural
from mohamjax.workload import DIMS, ApplicationModel

_LEAVES = ("temporal", "order", "spatial", "spatial_order", "keep")


class NestStore:
    """The distinct loop nests of one problem, added to (unique layer, template) sets when designs ask for them.

    Args:
        application: networks.
        templates: templates.
        levels: number of levels that nests are padded to.
        largest: the templates at their largest sizes, leading axis `[T]`, NumPy leaves.
    """

    def __init__(
        self, application: ApplicationModel, templates: Sequence[Template], levels: int, largest: Machine
    ) -> None:
        self.application, self.templates, self.levels = application, tuple(templates), levels
        self._largest = largest
        self._names = [template.name for template in templates]
        self._number: dict[tuple[int, bytes], int] = {}
        self._place: dict[tuple[int, int], int] = {}
        self._refused: set[tuple[int, int]] = set()
        self.space = functools.cache(self._space)
        self.owner: list[int] = []
        self._parts: list[Mapping] = []
        self._padded: list[np.ndarray] = []
        self.sets: dict[tuple[int, int], list[int]] = {}

    def parse(self, entry: object, item: str) -> int:
        """Number of the nest of an entry of `mappings`; raises InputError if the entry is no valid nest."""
        form = read_form(msgspec.to_builtins(entry), OwnedNestForm, where=item)  # a `WrittenNestForm` is read again
        if form.template not in self._names:
            remedy = f"use one of {', '.join(self._names)}"
            raise InputError("names no template of the file", item=item, remedy=remedy)
        owner = self._names.index(form.template)
        nest = mapping_of(form, *self._levels(owner), levels=self.levels, item=item)
        return self._add(owner, jax.tree.map(lambda leaf: leaf[None], nest), padded_of([form]))[0]

    def parse_all(self, entries: Sequence[object]) -> list[int]:
        """Like `parse` for many entries at once; -1 where `parse` would raise InputError."""
        groups: dict[str, list[int]] = {}
        forms: dict[int, OwnedNestForm] = {}
        for i, entry in enumerate(entries):
            with contextlib.suppress(InputError):
                forms[i] = entry if isinstance(entry, OwnedNestForm) else read_form(entry, OwnedNestForm)
                groups.setdefault(forms[i].template, []).append(i)
        found = [-1] * len(entries)
        for name in groups.keys() & set(self._names):
            owner, members = self._names.index(name), groups[name]
            nests, sound = mappings_of([forms[i] for i in members], *self._levels(owner), levels=self.levels)
            good = [i for i, fine in zip(members, sound, strict=True) if fine]
            padded = padded_of([forms[i] for i in good])
            for i, number in zip(good, self._add(owner, take(nests, sound), padded) if good else (), strict=True):
                found[i] = number
        return found

    def _levels(self, owner: int) -> tuple[Sequence[str], list[Sequence[bool]]]:
        """Names of the levels of a template, and the data spaces that each keeps by default."""
        template = self.templates[owner]
        return template.level_names, [level.keep for level in template.levels]

    def _add(self, owner: int, nests: Mapping, padded: np.ndarray) -> list[int]:
        """Numbers of nests `[n]` for a template, with their padded bounds `[n, D]`; adds those that are new."""
        rows = [np.ascontiguousarray(getattr(nests, name)).reshape(len(nests.keep), -1) for name in _LEAVES] + [padded]
        whole = np.concatenate([row.view(np.uint8) for row in rows], axis=1)
        numbers, new = [], []
        for i, row in enumerate(whole):
            key = owner, row.tobytes()
            if key not in self._number:
                self._number[key] = len(self.owner)
                self.owner.append(owner)
                self._padded.append(padded[i])
                new.append(i)
            numbers.append(self._number[key])
        if new:
            self._parts.append(take(nests, np.asarray(new)))
        return numbers

    @property
    def _nests(self) -> Mapping:
        """All distinct nests, by number."""
        if len(self._parts) > 1:
            self._parts = [jax.tree.map(lambda *leaves: np.concatenate(leaves), *self._parts)]
        return self._parts[0]

    def settle(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Assigns places in the sets to pairs of nest and unique layer, all at once; records pairs that do not fit."""
        groups: dict[tuple[int, int], list[int]] = {}
        for nest, unique in dict.fromkeys(pairs):
            if (nest, unique) not in self._place and (nest, unique) not in self._refused:
                groups.setdefault((unique, self.owner[nest]), []).append(nest)
        if not groups:
            return
        members = [nest for group in groups.values() for nest in group]
        which = np.repeat(np.arange(len(groups)), [len(group) for group in groups.values()])
        keys = list(groups)
        padded = np.stack([self._padded[nest] for nest in members])
        good = self.fitting(take(self._nests, np.asarray(members)), keys, which, padded)
        for nest, (unique, owner), fits in zip(members, map(keys.__getitem__, which), good.tolist(), strict=True):
            if not fits:
                try:
                    self._check(nest, unique, "")
                except InputError:
                    self._refused.add((nest, unique))
                    continue
            own = self.sets.setdefault((unique, owner), [])
            self._place[nest, unique] = len(own)
            own.append(nest)

    def fitting(
        self, nests: Mapping, keys: Sequence[tuple[int, int]], which: np.ndarray, padded: np.ndarray
    ) -> np.ndarray:
        """Which nests fit a layer on a template at its largest sizes.

        Args:
            nests: leading axis `[n]`.
            keys: pairs of unique layer and template.
            which: `[n]` int, index of each nest's pair.
            padded: `[n, D]` int, bounds larger than the layer's that each nest covers; 1 where there are none.

        Returns:
            `[n]` bool; also False if the template does not run the layer.
        """
        layers = self.application.unique_layers
        runs = np.asarray([self.templates[owner].runs(layers[unique].type) for unique, owner in keys], bool)
        good = runs[which]
        if good.any():
            spaces = [self.space(*key) for key, one in zip(keys, runs, strict=True) if one]
            good[good] = lie_in(take(nests, good), spaces, (np.cumsum(runs) - 1)[which[good]], padded[good])
        return good

    def _check(self, nest: int, unique: int, item: str) -> None:
        """Raises InputError, which names `item`, if a nest does not fit a layer on the nest's template."""
        layer, kind = self.application.unique_layers[unique], self.templates[self.owner[nest]]
        if not kind.runs(layer.type):
            remedy = "put the layer on a chiplet of another template"
            raise InputError(f"template {kind.name} does not run layers of type {layer.type}", item=item, remedy=remedy)
        padded = zip(layer.shape.bounds, self._padded[nest].tolist(), strict=True)
        bounds = tuple((own, more) if more > own else (own,) for own, more in padded)
        space = self._space(unique, self.owner[nest], bounds)
        encode(take(self._nests, nest), space, item=item, level_names=kind.level_names)

    def place(self, nest: int, unique: int, item: str) -> int:
        """Index of a nest in the set of the unique layer and the nest's template.

        Raises:
            InputError: the nest does not fit; the error names `item`.
        """
        if (nest, unique) not in self._place:
            self.settle([(nest, unique)])
        if (nest, unique) in self._refused:
            self._check(nest, unique, item)
        return self._place[nest, unique]

    def settled(self, nests: np.ndarray, unique: np.ndarray) -> np.ndarray:
        """Like `place` for many pairs, `[n]` int each: `[n]` int, -1 for a pair that does not fit."""
        layers = len(self.application.unique_layers)
        pairs, which = distinct_numbers(nests * layers + unique, len(self.owner) * layers)
        distinct = [divmod(pair, layers) for pair in pairs.tolist()]
        self.settle(distinct)
        return np.asarray([self._place.get(pair, -1) for pair in distinct], int)[which]

    def _space(self, unique: int, owner: int, bounds: Sequence[Sequence[int]] | None = None) -> MapSpace:
        layer, kind = self.application.unique_layers[unique], self.templates[owner]
        bypasses = any(template.bypasses for template in self.templates)
        limits = constraints(kind, layer.type, layer.shape, self.levels, bypasses=bypasses)
        machine = jax.tree.map(lambda leaf: leaf[owner], self._largest)
        if bounds is None:
            return map_space(layer.shape, limits, machine, self._primes)
        primes = sum(max(len(prime_factors(bound)) for bound in row) for row in bounds)
        return map_space(layer.shape, limits, machine, max(primes, self._primes), bounds, 2)

    @functools.cached_property
    def _primes(self) -> int:
        """The largest number of prime factors of any layer, so that one program checks all of them."""
        return max(1, *(sum(map(len, map(prime_factors, u.shape.bounds))) for u in self.application.unique_layers))

    def arrays(self) -> tuple[Mapping, np.ndarray]:
        """All sets as nests `[U, T, M]`, padded with a nest whose loops have bound 1, and their sizes `[U, T]`."""
        shape = len(self.application.unique_layers), len(self.templates)
        count = np.zeros(shape, np.int32)
        for key, members in self.sets.items():
            count[key] = len(members)
        # Row 0 is the padding.
        unit = np.arange(len(DIMS), dtype=np.int32)
        filler = jax.tree.map(lambda leaf: np.ones_like(leaf[:1]), self._nests)
        filler = dataclasses.replace(
            filler,
            order=np.broadcast_to(unit, filler.order.shape),
            spatial_order=np.broadcast_to(unit, filler.spatial_order.shape),
        )
        rows = np.zeros((*shape, max(1, int(count.max()))), int)
        for key, members in self.sets.items():
            rows[key][: len(members)] = np.asarray(members, int) + 1
        padded = jax.tree.map(lambda *leaves: np.concatenate(leaves), filler, self._nests)
        return take(padded, rows), count


def distinct_numbers(numbers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct numbers, all from 0 to `most` - 1, and the index of each number among them.

    Sorts only if `most` is much larger than the number of entries.
    """
    if most > 4 * len(numbers):
        return np.unique(numbers, return_inverse=True)
    occurs = np.zeros(most, bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[numbers]


_UNREAD = -2  # number of an entry that has not been read yet


class NestList:
    """The list `mappings` of one file, whose entries are read on demand and kept in a store.

    Args:
        entries: loop nests as `mapping.notation` writes them, each with its template.
        store: store of the file's problem.
    """

    def __init__(self, entries: Sequence[object], store: NestStore) -> None:
        self.entries, self.store = entries, store
        self._numbers = np.full(len(entries), _UNREAD)

    def nest(self, number: int) -> int:
        """Number in the store of an entry; raises InputError if it does not exist or cannot be read."""
        item = f"mappings[{number}]"
        if number >= len(self.entries):
            remedy = f"`mappings` has {plural(len(self.entries), 'entry')}, numbered from 0"
            raise InputError("there is no such mapping", item=item, remedy=remedy)
        known = self._known(number + 1)
        if known[number] < 0:
            known[number] = self.store.parse(self.entries[number], item)
        return int(known[number])

    def _known(self, most: int) -> np.ndarray:
        """Numbers in the store by entry, at least `most` of them, as JSON lines may have added entries."""
        if most > len(self._numbers):
            more = np.full(len(self.entries) - len(self._numbers), _UNREAD)
            self._numbers = np.concatenate([self._numbers, more])
        return self._numbers

    def place(self, number: int, layer: int, template: int, step: str) -> int:
        """Index of nest `number` in the set of the layer on the template; checks it on first use.

        Raises:
            InputError: the nest cannot be read, or does not fit; the error names the `step` of the schedule.
        """
        item = f"mappings[{number}]"
        try:
            nest = self.nest(number)
        except InputError as error:
            raise InputError(f"{error.message} ({step} names it)", item=error.item, remedy=error.remedy) from None
        templates = self.store.templates
        owner = self.store.owner[nest]
        if owner != template:
            told = (
                f"is a mapping for template {templates[owner].name}, and {step} runs it on template "
                f"{templates[template].name}"
            )
            raise InputError(told, item=item, remedy="name a mapping or a chiplet of the same template")
        try:
            return self.store.place(nest, self.store.application.unique_of_layer[layer], item)
        except InputError as error:
            told = f"{error.message} ({step} runs layer {layer} with it)"
            raise InputError(told, item=error.item, remedy=error.remedy) from None

    def numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers in the store of many entries, `[n]` int; -1 for an entry that does not exist or cannot be read."""
        there = numbers < len(self.entries)
        own = numbers[there]
        known = self._known(int(own.max(initial=-1)) + 1)
        new, _ = distinct_numbers(own[known[own] == _UNREAD], len(known))
        if len(new):
            known[new] = self.store.parse_all([self.entries[number] for number in new])
        found = np.full(len(numbers), -1)
        found[there] = known[own]
        return found
