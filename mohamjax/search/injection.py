"""A user's own designs as initial individuals of a search: their loop nests join the Pareto tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import DRAM_TYPES, Memory, Template, with_memory
from mohamjax.mapping import Mapping, MappingTables, stacked_layers, tabulate
from mohamjax.problem.design_problem import DesignProblem
from mohamjax.problem.resolved import ResolvedRequirements
from mohamjax.runtime.struct import cast
from mohamjax.schedule import Design, DesignFile
from mohamjax.schedule.setup import Setup
from mohamjax.workload import ApplicationModel

_ANY_MEMORY = Memory(DRAM_TYPES[0])
_ROUND = 16  # Pareto sets grow by multiples of this, so that few sizes are compiled


def inject(
    file: DesignFile,
    problem: DesignProblem,
    tables: MappingTables,
) -> tuple[MappingTables, Design]:
    """Adds the loop nests of a file's designs to the tables, and returns the designs as chromosomes over them.

    The search sizes the chiplets; sizes that the file states are ignored. A nest that the tables hold already is not
    added again; one that is added stays, dominated or not.

    Args:
        file: the designs.
        problem: of the search.
        tables: Pareto tables `[U, T, M, ...]`.

    Returns:
        The larger tables, and `Design` with a leading axis, layers not padded.

    Raises:
        InputError: the file holds a broken design, other networks or an unknown template, or a design that breaks a
            requirement, has too many chiplets or has a mapping that does not fit.
    """
    application, resolved, tiles = problem.application, problem.resolved, problem.tiles
    numbers = check_injected(file, application, resolved.templates)
    designs = file.designs.design
    unique = np.asarray(application.unique_of_layer)
    tables, places = _with_nests(file, numbers, problem.setup, tables)
    out = []
    for i in range(len(designs.template)):
        item = f"design {file.names[i]}"
        stated, chip = designs.template[i], designs.assignment[i]
        if np.count_nonzero(stated >= 0) > min(tiles, resolved.most[-1]):
            raise InputError(
                "has too many chiplets",
                file=file.source,
                item=item,
                remedy="allow more with the argument `max_chiplets`",
            )
        of_layer = stated[chip]
        mapping = places[unique, of_layer, designs.mapping[i]]
        template = np.full(tiles, -1, np.int32)
        used = np.unique(chip)  # a chromosome has no chiplets without layers
        tile = np.asarray(file.tile[i])
        if (farthest := int(np.max(tile[used]))) >= tiles:  # of a larger package
            if (resolved.tiles >= 0).any():
                raise InputError(
                    f"has a chiplet on tile {farthest}, and the package has {tiles}, with some of them fixed",
                    file=file.source,
                    item=item,
                    remedy="give its chiplets tiles of this package",
                )
            # Without fixed tiles only the order of the chiplets counts.
            tile = np.searchsorted(np.sort(tile[used]), tile)
        assignment = tile[chip]
        template[tile[used]] = numbers[stated[used]]
        template = np.where(resolved.tiles >= 0, resolved.tiles, template)
        _check(np.asarray(template), template[assignment], numbers[of_layer], assignment, resolved, file.source, item)
        entry = (unique, numbers[of_layer], mapping)
        if not np.isfinite(np.asarray(tables.objectives)[entry]).all():
            raise InputError(
                "has a mapping that does not fit its template", file=file.source, item=item, remedy="mend it"
            )
        genes = designs.order[i], assignment, mapping, template
        out.append([np.asarray(gene, np.int32) for gene in genes])
    order, assignment, mapping, template = (jnp.asarray(np.stack(column)) for column in zip(*out, strict=True))
    return tables, Design(order=order, assignment=assignment, mapping=mapping, template=template)


def check_injected(file: DesignFile, application: ApplicationModel, templates: Sequence[Template]) -> np.ndarray:
    """Checks that designs can join a search, as far as that is known before layers are mapped.

    Args:
        file: the designs.
        application: the networks that are searched.
        templates: the search's templates.

    Returns:
        `[T of the file + 1]` int, the search's number of each template that a design uses; -1 for the others, and for
        empty tiles as the last entry.

    Raises:
        InputError: a design is broken, the networks are others, or a template is not among those searched.
    """
    for name, reason in zip(file.names, file.reasons, strict=True):
        if reason:
            raise InputError(reason, file=file.source, item=f"design {name}", remedy="mend it or take it out")
    if file.mappings is None or not len(file.designs):
        raise InputError("there are no designs", file=file.source, remedy="give at least one")
    _same_networks(file.application, application, file.source)
    return _template_numbers(file, templates)


def _same_networks(theirs: ApplicationModel, ours: ApplicationModel, source: str) -> None:
    """Raises `InputError` unless both have the same layers in the same order."""

    def rows(model: ApplicationModel) -> list[tuple[Any, ...]]:
        return [
            (n, layer.name, layer.type, layer.shape, layer.predecessors)
            for n, network in enumerate(model.networks)
            for layer in network.layers
        ]

    if rows(theirs) != rows(ours):
        raise InputError(
            "the designs are of other networks than those that are searched",
            file=source,
            remedy="search the networks, batch sizes and shapes that the designs were made for",
        )


def _template_numbers(file: DesignFile, templates: Sequence[Template]) -> np.ndarray:
    """The search's number of each template of the file, see `check_injected`."""
    # Templates that differ only in their memory count as equal: the search evaluates the designs with its own memory.
    hashes = [t.content_hash() for t in with_memory(templates, _ANY_MEMORY)]
    theirs = with_memory(file.templates, _ANY_MEMORY)
    numbers, used = np.full(len(file.templates) + 1, -1), np.asarray(file.designs.design.template)
    for t in np.unique(used[used >= 0]):
        own = theirs[t].content_hash()
        if own not in hashes:
            raise InputError(
                f"template {file.templates[t].name} is not one of those that are searched",
                file=file.source,
                remedy=f"give it with the argument `templates`; now there are {', '.join(x.name for x in templates)}",
            )
        numbers[t] = hashes.index(own)
    return numbers


def _with_nests(
    file: DesignFile,
    numbers: np.ndarray,
    setup: Setup,
    tables: MappingTables,
) -> tuple[MappingTables, np.ndarray]:
    """The tables with the nests of the file's designs, and the place of each in its set.

    Places are `[U, T of the file, M of the file]` int, 0 for nests that no design uses.
    """
    assert file.mappings is not None
    unique, kinds, size = file.mappings.temporal.shape[:3]
    count = np.asarray(tables.count).copy()
    known: Mapping = jax.tree.map(np.asarray, tables.mapping)
    levels = known.temporal.shape[-2]
    lacking = levels - file.mappings.temporal.shape[-2]
    theirs = _with_levels(file.mappings, lacking)
    places = np.zeros((unique, kinds, size), np.int32)
    # Arrays of designs bring whole tables, of which these designs use a part.
    used = np.zeros((unique, kinds, size), bool)
    designs = file.designs.design
    of_layer = np.take_along_axis(np.asarray(designs.template), np.asarray(designs.assignment), axis=1)
    used[np.asarray(setup.application.unique_of_layer), of_layer, np.asarray(designs.mapping)] = True
    added: list[tuple[int, int, int, Mapping]] = []
    for u, t, m in np.argwhere(used):
        own = int(numbers[t])
        nest = jax.tree.map(lambda leaf, at=(u, t, m): leaf[at], theirs)
        known_here = [jax.tree.map(lambda leaf, at=(u, own, k): leaf[at], known) for k in range(count[u, own])
                      if k < known.temporal.shape[2]]  # fmt: skip
        same = [k for k, other in enumerate(known_here) if _equal(nest, other)]
        if same:
            places[u, t, m] = same[0]
            continue
        places[u, t, m] = count[u, own]
        added.append((int(u), own, int(count[u, own]), nest))
        count[u, own] += 1
    if not added:
        return tables, places
    room = max(_ROUND * -(-int(count.max()) // _ROUND), known.temporal.shape[2])
    filler = room - known.temporal.shape[2]
    grown = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:, :, :1].repeat(filler, axis=2)], axis=2), known)
    for u, t, m, nest in added:
        for grown_leaf, leaf in zip(jax.tree.leaves(grown), jax.tree.leaves(nest), strict=True):
            grown_leaf[u, t, m] = leaf
    dtype = np.asarray(tables.cycles).dtype
    layers = stacked_layers(layer.shape for layer in setup.application.unique_layers)
    return tabulate(layers, setup.machines(levels, dtype), cast(setup.technology, dtype), grown, count), places


def _with_levels(nests: Mapping, lacking: int) -> Mapping:
    """Nests with `lacking` more padded levels at the outer end; a negative number removes levels."""
    if lacking <= 0:
        cut = nests.temporal.shape[-2] + lacking
        return jax.tree.map(lambda leaf: leaf[..., :cut, :], nests)

    def pad(leaf: np.ndarray, value: np.ndarray) -> np.ndarray:
        rows = np.broadcast_to(value, (*leaf.shape[:-2], lacking, leaf.shape[-1]))
        return np.concatenate([leaf, rows.astype(leaf.dtype)], axis=-2)

    dims = np.arange(nests.temporal.shape[-1])
    values = {"temporal": 1, "order": dims, "spatial": 1, "spatial_order": dims, "keep": False}
    return dataclasses.replace(
        nests, **{name: pad(np.asarray(getattr(nests, name)), np.asarray(value)) for name, value in values.items()}
    )


def _equal(a: Mapping, b: Mapping) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def _check(
    template: np.ndarray,
    standing: np.ndarray,
    wanted: np.ndarray,
    assignment: np.ndarray,
    resolved: ResolvedRequirements,
    source: str,
    item: str,
) -> None:
    """Raises `InputError` where a design breaks a requirement that every individual must keep."""
    counts = np.bincount(template[template >= 0], minlength=len(resolved.templates))
    pinned = (resolved.pin >= 0) & (resolved.pin != assignment)
    closed = (resolved.tiles == -1) & (template >= 0)
    uniform = not resolved.homogeneous or np.count_nonzero(counts) == 1
    kept = resolved.allowed[np.arange(len(wanted)), wanted].all() and not pinned.any() and not closed.any() and uniform
    if not kept or (standing != wanted).any() or counts.sum() > resolved.most[-1]:
        raise InputError(
            "breaks the requirements: fixed chiplets, pinned layers, one template or the number of chiplets",
            file=source,
            item=item,
            remedy="mend it, or loosen them",
        )
