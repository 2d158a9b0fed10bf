"""Pareto sets of mappings in a file, format `mappings/1` (JSON).

`sets` has one entry per unique layer and template that runs it: `{"layer" (the first of its kind), "layers" (how many
share it), "type", "bounds", "stride", "dilation", "template", "word_bits" (the width of the operands, only if it is not
the template's own), "mappings"}`. Every mapping has `latency_cycles` (without off-chip limits),
`latency_interface_cycles` (of the layer alone behind a memory interface of the package, at `offchip_bytes_per_cycle` of
the document), `energy_pJ` and `area_um2` of its own minimal hardware, `offchip_bytes`, and its loop nest: `levels`.
`search` describes the search that found them. `networks` has one entry per network and template that runs all its
layers: `{"network", "template", "choices"}`, each choice with the sums of both latencies over the layers.

Users give mappings in the same format, whose costs are then ignored, or as Timeloop's own YAML.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax
import msgspec
import numpy as np

from mohamjax.errors import InputError
from mohamjax.forms import read_form
from mohamjax.hardware import Machine, Template, template_arrays, with_word_bits
from mohamjax.io.files import check_format, read_json
from mohamjax.io.forms import MappingSetForm, MappingsForm
from mohamjax.io.timeloop import read_timeloop
from mohamjax.mapper.problems import pair_space, prime_slots
from mohamjax.mapping import Mapping, MappingTables, encode, loop_nest, mapping_to_dict
from mohamjax.mapping.nest import pad_mapping
from mohamjax.mapping.notation import mapping_of, padded_of
from mohamjax.reader import found
from mohamjax.schedule.bounds import isolated_cycles, offchip_bandwidth
from mohamjax.schedule.setup import Setup
from mohamjax.version import __version__
from mohamjax.workload import DIMS, UniqueLayer

if TYPE_CHECKING:
    from mohamjax.mapper.network_level import NetworkChoice

MAPPINGS_FORMAT = "mappings/1"


def worded(form: MappingSetForm, template: Template, file: object, item: str) -> Template:
    """The template with operands of the width that a set states; raises InputError if it cannot have it."""
    try:
        return template if form.word_bits is None else with_word_bits(template, form.word_bits)
    except InputError as error:
        told = f"template {template.name} cannot have operands of {form.word_bits} bits: {error.message}"
        remedy = "write the width that the mappings were made for"
        raise InputError(told, file=file, item=f"{item}.word_bits", remedy=remedy) from None


def mappings_document(
    setup: Setup,
    tables: MappingTables,
    choices: abc.Mapping[tuple[str, str], Sequence[NetworkChoice]],
    search: abc.Mapping[str, object] | None = None,
    *,
    named: Sequence[Template] | None = None,
) -> dict[str, object]:
    """The content of a `mappings/1` file.

    Args:
        setup: networks whose unique layers were mapped, and the package with the memory interface.
        tables: Pareto tables of the layers `[U, T, M, ...]`.
        choices: results of `network_choices` or `sieved_choices` by (network, template).
        search: a description of the search as plain data; None if unknown.
        named: the templates of the setup as their names stand for them, if those of the setup have operands of another
            width, which the sets then state.
    """
    application, templates = setup.application, setup.templates
    widths = [template.mac.width_bits for template in templates]
    own = widths if named is None else [template.mac.width_bits for template in named]
    bandwidth = offchip_bandwidth(setup.package)
    alone_cycles = isolated_cycles(tables, setup.package)
    sets = []
    owners = application.unique_of_layer
    for u, unique in enumerate(application.unique_layers):
        first = owners.index(u)
        network = application.networks[application.network_of_layer[first]].name
        for t, template in enumerate(templates):
            count = int(np.asarray(tables.count)[u, t])
            if count == 0:
                continue
            mappings = []
            for m in range(count):
                latency, energy, area = (float(x) for x in np.asarray(tables.objectives)[u, t, m])
                nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf)[at], tables.mapping)
                mappings.append(
                    {
                        "latency_cycles": latency,
                        "latency_interface_cycles": float(alone_cycles[u, t, m]),
                        "energy_pJ": energy,
                        "area_um2": area,
                        "offchip_bytes": float(np.asarray(tables.offchip_bytes)[u, t, m]),
                        **mapping_to_dict(nest, template.level_names, unique.shape.bounds),
                    }
                )
            sets.append(
                {
                    "layer": f"{network}/{application.layers[first].name}",
                    "layers": owners.count(u),
                    "type": unique.type,
                    "bounds": {d: b for d, b in zip(DIMS, unique.shape.bounds, strict=True) if b > 1},
                    "stride": list(unique.shape.stride),
                    "dilation": list(unique.shape.dilation),
                    "template": template.name,
                    **({} if widths[t] == own[t] else {"word_bits": widths[t]}),
                    "mappings": mappings,
                }
            )
    kinds = [template.name for template in templates]
    networks = []
    for (network, template), front in choices.items():
        n = next(n for n, one in enumerate(application.networks) if one.name == network)
        mine = [u for u, owner in zip(owners, application.network_of_layer, strict=True) if owner == n]
        cycles = alone_cycles[:, kinds.index(template)]
        rows = [
            {
                "latency_cycles": choice.latency_cycles,
                "latency_interface_cycles": float(cycles[mine, list(choice.mapping)].sum()),
                **dataclasses.asdict(choice),
            }
            for choice in front
        ]
        networks.append({"network": network, "template": template, "choices": rows})
    return {
        "format": MAPPINGS_FORMAT,
        "mohamjax": __version__,
        **({} if search is None else {"search": dict(search)}),
        "offchip_bytes_per_cycle": "unlimited" if np.isinf(bandwidth) else bandwidth,
        "sets": sets,
        "networks": networks,
    }


def best_nests(setup: Setup, tables: MappingTables) -> str:
    """The best mappings of every set as loop nests, in readable text.

    These are the fastest, the one of least energy, the smallest, and the one of least latency times energy.

    Args:
        setup: networks whose unique layers were mapped, and the package with the memory interface.
        tables: Pareto tables of the layers `[U, T, M, ...]`.
    """
    application, templates = setup.application, setup.templates
    blocks = []
    alone_cycles = isolated_cycles(tables, setup.package)
    for u, unique in enumerate(application.unique_layers):
        name = application.full_names[application.unique_of_layer.index(u)]
        for t, template in enumerate(templates):
            values = np.asarray(tables.objectives)[u, t, : int(np.asarray(tables.count)[u, t])].astype(float)
            if not len(values):
                continue
            roles: dict[int, list[str]] = {}
            scores = {
                "fastest": values[:, 0],
                "most frugal": values[:, 1],
                "smallest": values[:, 2],
                "least delay times energy": values[:, 0] * values[:, 1],
            }
            for role, score in scores.items():
                roles.setdefault(int(score.argmin()), []).append(role)
            for m, names in roles.items():
                latency, energy, area = values[m]
                nest = jax.tree.map(lambda leaf, at=(u, t, m): np.asarray(leaf)[at], tables.mapping)
                bounds = " ".join(f"{d}={b}" for d, b in zip(DIMS, unique.shape.bounds, strict=True) if b > 1)
                blocks.append(
                    f"{name} ({unique.type}, {bounds or 'a single product'}) on {template.name}: {', '.join(names)}\n"
                    f"{latency:,.0f} cycles on-chip, {alone_cycles[u, t, m]:,.0f} at the interface, "
                    f"{energy * 1e-6:,.4g} uJ, {area * 1e-6:,.4g} mm^2\n"
                    f"{loop_nest(nest, template.level_names, unique.shape.bounds)}\n"
                )
    return "\n".join(blocks)


class _Place(NamedTuple):
    """The place of a user's mapping.

    Attributes:
        file: the file.
        item: the place in the file.
    """

    file: pathlib.Path
    item: str

    def wrong(self, told: str, remedy: str) -> InputError:
        """An error at this place."""
        return InputError(told, file=self.file, item=self.item, remedy=remedy)


class _Given:
    """Collects a user's mappings by the (unique layer, template) pair that they belong to."""

    def __init__(self, setup: Setup) -> None:
        self.application, self.templates = setup.application, list(setup.templates)
        arrays = template_arrays(setup.templates, setup.technology)
        self.machines: Machine = jax.device_get(arrays.machine)
        self.levels = int(arrays.component.shape[1])
        self.found: dict[tuple[int, int], list[Mapping]] = {}

    def template(self, name: str, place: _Place) -> int:
        """Index of the template with this name; raises InputError if there is none."""
        names = [template.name for template in self.templates]
        if name not in names:
            raise place.wrong(f"template {name!r} is not among those mapped", f"use {', '.join(names)}")
        return names.index(name)

    def enter(self, layer: int, template: int, mapping: Mapping, place: _Place, *, padding: bool = False) -> None:
        """Adds a mapping; raises InputError if it does not fit.

        With `padding` it may also cover the larger bounds that the mapper would try.
        """
        unique: UniqueLayer = self.application.unique_layers[layer]
        machine = jax.tree.map(lambda leaf: leaf[template], self.machines)
        primes = prime_slots([unique])
        kind = self.templates[template]
        space = pair_space(unique, kind, machine, (self.levels, primes, kind.bypasses), padding=padding)
        encode(mapping, space, source=place.file, item=place.item, level_names=kind.level_names)
        self.found.setdefault((layer, template), []).append(mapping)

    def json(self, path: pathlib.Path) -> None:
        """Adds the mappings of a file of format `mappings/1`."""
        document = read_json(path)
        check_format(document, (MAPPINGS_FORMAT,), path)
        form = read_form(document, MappingsForm, file=path)
        for n, entry in enumerate(form.sets):
            place = _Place(path, f"sets[{n}]")
            t = self.template(entry.template, place)
            bits = self.templates[t].mac.width_bits
            if entry.word_bits not in (None, bits):
                told = f"is for operands of {entry.word_bits} bits, and those of {entry.template} here have {bits}"
                remedy = "map for that width, or remove `word_bits` to take the loop nests as they stand"
                raise place.wrong(told, remedy)
            bounds = msgspec.structs.astuple(entry.bounds)
            where = [
                u
                for u, unique in enumerate(self.application.unique_layers)
                if (unique.type, unique.shape.bounds, unique.shape.stride, unique.shape.dilation)
                == (entry.type, bounds, entry.stride, entry.dilation)
            ]
            if not where:
                raise place.wrong("no layer of these networks has this type and shape", "remove the set")
            template = self.templates[t]
            keep = [level.keep for level in template.levels]
            for m, nest in enumerate(entry.mappings):
                item = f"sets[{n}].mappings[{m}]"
                mapping = mapping_of(nest, template.level_names, keep, levels=self.levels, file=path, item=item)
                told = bool((padded_of([nest]) > 1).any())
                self.enter(where[0], t, mapping, _Place(path, item), padding=told)

    def timeloop(self, paths: Sequence[pathlib.Path]) -> None:
        """Adds one mapping given in Timeloop's files to every layer and template that it matches."""
        given = read_timeloop(*paths)
        place = _Place(paths[-1], "mapping")
        if given.architecture is None or given.shape is None or given.mapping is None:
            raise place.wrong(
                "architecture, problem and mapping are needed", "give their files together, or their folder"
            )
        names = given.architecture.level_names
        owners = [t for t, template in enumerate(self.templates) if template.level_names == names]
        if not owners:
            known = "; ".join(f"{t.name}: {', '.join(t.level_names)}" for t in self.templates)
            raise place.wrong(f"no template has the levels {', '.join(names)}", f"innermost first, {known}")
        layers = [u for u, unique in enumerate(self.application.unique_layers) if unique.shape == given.shape]
        if not layers:
            raise place.wrong("no layer of these networks has the problem's shape", "check the problem")
        mapping = pad_mapping(given.mapping, self.levels)
        for u in layers:
            for t in owners:
                if self.templates[t].runs(self.application.unique_layers[u].type):
                    self.enter(u, t, mapping, place)


def given_mappings(
    groups: Sequence[Sequence[str | pathlib.Path]], setup: Setup
) -> dict[tuple[int, int], list[Mapping]]:
    """Reads and checks a user's mappings, for `LayerMapper.search`.

    Args:
        groups: each is a JSON file of format `mappings/1`, the YAML files of one mapping in Timeloop's format, or a
            folder with such YAML files.
        setup: the networks to map, and the templates to map them on.

    Returns:
        Mappings by (index of the unique layer, index of the template).

    Raises:
        InputError: a file cannot be read; a mapping belongs to no layer or template, or to operands of another width,
            its factors do not multiply to the layer's bounds, or it breaks a constraint, fanout or capacity of the
            template.
    """
    given = _Given(setup)
    for group in groups:
        paths = [
            file
            for path in map(pathlib.Path, group)
            for file in (sorted(path.glob("*.yaml")) if found(path, folder=True) else [path])
        ]
        if not paths:
            raise InputError("holds no YAML files", file=group[0], argument="mappings", remedy="name the files")
        if len(paths) == 1 and paths[0].suffix.lower() == ".json":
            given.json(paths[0])
        else:
            given.timeloop(paths)
    return given.found
