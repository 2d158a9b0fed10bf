"""The programs that search a block of problems: jitted functions of B problems side by side.

A generation is three programs, so that the costly one, the evaluation, is compiled once and beside the others.

Axes: B problems of a block, P population, N candidates, A archive, M table entries.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from mohamjax import emo
from mohamjax.emo.loop import Sizes
from mohamjax.hardware import Technology, TemplateArrays
from mohamjax.mapper import medea
from mohamjax.mapper.config import MapperRates
from mohamjax.mapper.mapping_operators import STEPS, Draft, all_neighbours, grow, neighbours, random_draft, vary
from mohamjax.mapper.problems import MapperContext, objectives
from mohamjax.mapping.nest import Array, Mapping
from mohamjax.mapping.space import MappingGenes, MapSpace, decode, sample
from mohamjax.runtime.blocks import first_true
from mohamjax.runtime.programs import jit_o1, jit_o1_plain_loops
from mohamjax.runtime.struct import select, take

MappingSearch = emo.Archived[Draft, MappingGenes]
State = emo.ArchivedState[MappingGenes]
Archive = emo.Archive[MappingGenes]

_FASTEST = 16  # members of an archive whose neighbours with other bounds are tried too
_MEMBERS = 8  # members of an archive whose neighbours are listed in a round


@functools.cache
def mapping_search(sizes: Sizes, distinct: bool, dtype: jax.typing.DTypeLike, operators: str = "own") -> MappingSearch:
    """NSGA-II over the mappings of one problem; `space` and `rates` are its context.

    Args:
        sizes: of the search of one problem.
        distinct: see `MapperConfig`.
        dtype: of the objectives.
        operators: see `MapperConfig`.
    """
    if operators == "own":
        breed, complete, steps = vary, grow, len(STEPS)
    else:
        breed, complete = medea.vary, functools.partial(medea.grow, released=operators == "medea-released")
        steps = len(medea.STEPS)
    search: emo.NSGA2[Draft, MappingGenes] = emo.NSGA2(
        sample=lambda key, space, rates=None: random_draft(key, space, steps),
        vary=lambda key, a, b, space, rates: breed(key, a, b, space, rates),
        grow=lambda drafts, space, rates=None: complete(drafts, space),
        population=sizes.population,
        objectives=3,
        immigrants=sizes.immigrants,
        dtype=dtype,
        distinct=distinct,
    )
    return emo.Archived(search, sizes.archive)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def start(
    keys: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None, *, search: MappingSearch
) -> tuple[State, MappingGenes]:
    """States of a block, from one key each, and the first candidates `[B, N, ...]`.

    Given mappings `[B, K, ...]`, K <= N, take the first places where `is_given` `[B, K]`. The others are the same
    random mappings whatever is given for other problems of the block.
    """

    # Random mappings are complete when drawn, so nothing that grows children is compiled here.
    drawing = dataclasses.replace(search.search, sample=lambda key, space: sample(key, space), grow=None)
    opened = dataclasses.replace(search, search=drawing)

    def one(
        key: jax.Array, space: MapSpace, given: MappingGenes | None, is_given: Array | None
    ) -> tuple[State, MappingGenes]:
        state, drawn = opened.opening(key, space=space)
        if given is None or is_given is None:
            return state, drawn
        number = is_given.shape[0]
        first = select(is_given, given, take(drawn, slice(number)))
        rest = take(drawn, slice(number, None))
        return state, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, rest)

    return jax.vmap(one)(keys, space, given, is_given)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def ask(state: State, space: MapSpace, rates: MapperRates, *, search: MappingSearch) -> MappingGenes:
    """The next candidates of every problem of a block, `[B, N, ...]`."""
    return jax.vmap(lambda state, space: search.ask(state, space=space, rates=rates))(state, space)


@functools.partial(jit_o1, static_argnames=("fixed", "max_children", "linear"))
def evaluate(
    genes: MappingGenes,
    space: MapSpace,
    template: TemplateArrays,
    technology: Technology,
    *,
    fixed: bool,
    max_children: int,
    linear: bool = False,
) -> Array:
    """The objectives of candidates, `[B, N, 3]`, or their base-2 logarithms if not `linear`."""

    def one(genes: MappingGenes, space: MapSpace, template: TemplateArrays) -> Array:
        own = MapperContext(space=space, template=template, technology=technology)
        return objectives(genes, own, fixed=fixed, max_children=max_children, linear=linear)

    return jax.vmap(one)(genes, space, template)


@functools.partial(jit_o1_plain_loops, static_argnames=("search",))
def tell(state: State, genes: MappingGenes, objectives: Array, *, search: MappingSearch) -> State:
    """The state of every problem after survival."""
    return jax.vmap(search.tell)(state, genes, objectives)


@functools.partial(jit_o1_plain_loops, static_argnames=("capacity",))
def survivors(state: State, *, capacity: int) -> Archive:
    """Archives `[B, A, ...]` of A = `capacity` places that hold the first fronts of the populations alone."""

    def one(state: State) -> Archive:
        population = state.population
        empty = emo.archive_init(capacity, take(population.genes, 0), 3, population.objectives.dtype)
        return emo.archive_update(empty, population.genes, population.objectives)

    return jax.vmap(one)(state)


@functools.partial(jit_o1_plain_loops, static_argnames=("count",))
def next_neighbours(
    archive: Archive, tried: jax.Array, space: MapSpace, *, count: int
) -> tuple[MappingGenes, jax.Array, jax.Array]:
    """Neighbours of archived mappings, beginning with the oldest members whose neighbours have not been tried.

    Only members that are among the fastest of the archive when their turn comes are tried with other bounds, because
    padding can save only time.

    Args:
        archive: leading axis `[B]`.
        tried: `[B, A]` bool, members whose neighbours have all been evaluated.
        space: of the block.
        count: N, neighbours to take. A member whose neighbours do not all fit stays untried, unless it is the first.

    Returns:
        Genes `[B, N, ...]`, which of them exist `[B, N]`, and `tried` afterwards.
    """

    def one(archive: Archive, tried: jax.Array, space: MapSpace) -> tuple[MappingGenes, jax.Array, jax.Array]:
        open_ = archive.valid & ~tried
        pick = jnp.argsort(~open_, stable=True)[:_MEMBERS]
        members: MappingGenes = take(archive.genes, pick)
        latency = jnp.where(archive.valid, archive.objectives[:, 0], jnp.inf)
        fast = latency[pick] <= jnp.sort(latency)[min(_FASTEST, latency.shape[0]) - 1]
        steps = jax.vmap(lambda genes, pads: neighbours(genes, space, pads=pads))(members, fast) & open_[pick, None]
        place = first_true(jnp.ravel(steps), count)
        exists = place < steps.size
        member, step = jnp.divmod(jnp.where(exists, place, 0), steps.shape[1])
        genes = all_neighbours(take(members, member), step, space)
        whole = (jnp.cumsum(jnp.sum(steps, axis=1)) <= count).at[0].set(True)
        return genes, exists, tried.at[pick].set(tried[pick] | whole)

    return jax.vmap(one)(archive, tried, space)


@jit_o1_plain_loops
def enter(
    archive: Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array
) -> tuple[Archive, Array]:
    """The archives after a round of neighbours, and which members' neighbours have been tried."""

    def one(archive: Archive, tried: Array, genes: MappingGenes, exists: Array, objectives: Array):
        both = dataclasses.replace(archive, genes=(archive.genes, tried))
        objectives = jnp.where(exists[:, None], objectives, jnp.inf)
        both = emo.archive_update(both, (genes, jnp.zeros_like(exists)), objectives)
        return dataclasses.replace(both, genes=both.genes[0]), both.genes[1]

    return jax.vmap(one)(archive, tried, genes, exists, objectives)


@functools.partial(jit_o1_plain_loops, static_argnames=("entries",))
def finish(archive: Archive, space: MapSpace, *, entries: int) -> tuple[Mapping, Array]:
    """The Pareto sets of a block, `[B, M, ...]`, and their sizes `[B]`: at most M of each archive."""

    def one(archive: Archive, space: MapSpace) -> tuple[Mapping, Array]:
        # Entering a smaller archive thins by crowding and keeps the extremes.
        smaller = emo.archive_init(entries, take(archive.genes, 0), 3, archive.objectives.dtype)
        best = emo.archive_update(smaller, archive.genes, archive.objectives)
        # By latency, padding last.
        order = jnp.lexsort((best.objectives[:, 1], best.objectives[:, 0]))
        mapping = jax.vmap(decode, in_axes=(0, None))(take(best.genes, order), space)
        return mapping, jnp.sum(best.valid, dtype=jnp.int32)

    return jax.vmap(one)(archive, space)


def empty_archives(genes: MappingGenes, capacity: int, dtype: jax.typing.DTypeLike) -> Archive:
    """Empty archives of a block, `[B, A, ...]`, for genes like those given, `[B, K, ...]`; not jitted."""
    return jax.vmap(lambda genes: emo.archive_init(capacity, take(genes, 0), 3, dtype))(genes)
