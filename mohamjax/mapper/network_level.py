"""One mapping per layer for a whole network on one chiplet (MEDEA paper, Section V-B, Table II).

A choice takes one entry of the Pareto set of every unique layer; layers of equal shape share it. Latency and energy
add up over the layers. The chiplet is as large as its most demanding layer needs in every buffer and fanout; area and
access energies are those of this merged hardware. The search is NSGA-II over the choices (`emo.NSGA2`). `mapper.sieve`
has the method that MEDEA prints.

On a given chiplet the layers are independent: the best choice for a rate of exchange between time and energy takes, for
every layer, the best entry that fits. A share of the children is made in this way, on the chiplet of a child of
crossover and mutation with some sizes changed.

Axes: P population, U unique layers of the network (padded), M table entries, L levels, C components of a size.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mohamjax import emo
from mohamjax.emo.loop import Problem, Sizes, evolved
from mohamjax.hardware import Machine, Technology, Template, TemplateArrays, resize, template_arrays
from mohamjax.mapping import ArraySizes, MappingTables, Wires, area, hop_columns, wires
from mohamjax.runtime.platforms import product
from mohamjax.runtime.struct import record
from mohamjax.schedule.setup import Setup

_STEP = 32  # unique layers are padded to multiples of this, so that networks share a compile


@dataclasses.dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the search; static.

    Attributes:
        population: choices per generation.
        generations: generations after the first population.
        immigrants: random choices that join every generation.
        archive: most choices in the result.
        rate: mean number of layers whose mapping a mutation changes.
        refit: share of the children whose layers all take the best entry that fits their chiplet.
    """

    population: int = 128
    generations: int = 150
    immigrants: int = 12
    archive: int = 64
    rate: float = 2.0
    refit: float = 0.5


@dataclasses.dataclass(frozen=True)
class NetworkChoice:
    """One choice of the front.

    Attributes:
        latency_cycles: sum over the layers, without off-chip limits.
        energy_pJ: sum over the layers, at the sizes of the merged chiplet.
        area_um2: the merged chiplet.
        mapping: entry of each layer's Pareto set, in the order of the network's layers.
        capacity_words: words per instance of each level that exists, innermost first; 0 where unlimited.
        fanout: children along X and Y of each of these levels.
    """

    latency_cycles: float
    energy_pJ: float
    area_um2: float
    mapping: tuple[int, ...]
    capacity_words: tuple[float, ...]
    fanout: tuple[tuple[float, float], ...]


@record
class _Context:
    """The Pareto sets of one network on one template.

    Attributes:
        count: `[U]` int32, entries of each set; 0 where padded.
        times: `[U]` float, number of layers that share each set.
        columns: `MappingTables` columns `[U, M, ...]` by name, and `hops` `[U, M, K]`, see `Wires`.
        sizes: array sizes, by which a chiplet's columns in `hops` are found.
        template: the template.
        technology: energy and area tables.
        rate: `[]` float, see `NetworkConfig`.
        refit: `[]` float, see `NetworkConfig`.
    """

    count: jax.Array
    times: jax.Array
    columns: dict[str, jax.Array]
    sizes: ArraySizes
    template: TemplateArrays
    technology: Technology
    rate: jax.Array
    refit: jax.Array


_COLUMNS = ("cycles", "block_reads", "block_writes", "macs", "capacity", "fanout")


_EXCHANGE = 3.0
"""Rates of exchange are drawn within a factor exp(3), about 20, of a choice's own energy / time."""


def _rows(choice: jax.Array, context: _Context) -> dict[str, jax.Array]:
    """The columns of the chosen entries, `[U, ...]`."""
    return {name: column[jnp.arange(choice.shape[0]), choice] for name, column in context.columns.items()}


def _chiplet(rows: dict[str, jax.Array], context: _Context) -> tuple[jax.Array, jax.Array]:
    """Capacity `[L]` and fanout `[L, 2]` that hold the entries of all layers."""
    exists = context.count > 0

    def most(values: jax.Array) -> jax.Array:
        return jnp.max(jnp.where(exists.reshape((-1,) + (1,) * (values.ndim - 1)), values, 0), axis=0)

    return most(rows["capacity"]), jnp.maximum(most(rows["fanout"]), 1)


def _energy(rows: dict[str, jax.Array], machine: Machine, context: _Context) -> jax.Array:
    """Energy [pJ] of entries `[...]` at the sizes of a chiplet."""
    hops = rows["hops"][..., hop_columns(context.sizes, machine.fanout)]
    energy = rows["macs"] * machine.mac_energy + product(hops, machine.hop_energy[context.sizes.level])
    for k, name in enumerate(("block_reads", "block_writes")):
        energy = energy + product(rows[name], machine.access_energy[:, k])
    return energy


def _merged(choice: jax.Array, context: _Context) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Objectives `[3]` of one choice `[U]` and its hardware."""
    rows = _rows(choice, context)
    capacity, fanout = _chiplet(rows, context)
    machine = resize(context.template, context.technology, capacity, fanout)
    each = rows["cycles"], _energy(rows, machine, context)
    total = [jnp.sum(jnp.where(context.count > 0, values, 0) * context.times) for values in each]
    return jnp.stack([*total, area(machine)]), (capacity, fanout)


def _fitted(key: jax.Array, choice: jax.Array, context: _Context) -> jax.Array:
    """The best choice on a chiplet like that of another one, for a random rate of exchange between time and energy.

    On average one of the C components of the chiplet's size takes the value of some layer's entry. Layers for which no
    entry fits then keep theirs, and the chiplet grows again. Every layer takes the entry of least energy + rate x time,
    so no other choice on this chiplet has a smaller sum.

    Args:
        key: typed key, consumed.
        choice: `[U]` int32.
        context: the Pareto sets.

    Returns:
        `[U]` int32.
    """
    layer_key, entry_key, hit_key, rate_key = jax.random.split(key, 4)
    columns = context.columns
    entries = columns["cycles"].shape[1]
    exists = jnp.arange(entries) < context.count[:, None]
    sizes = jnp.concatenate([columns["capacity"], columns["fanout"].reshape(*exists.shape, -1)], axis=-1)  # [U, M, C]
    components = sizes.shape[-1]
    capacity, fanout = _chiplet(_rows(choice, context), context)
    size = jnp.concatenate([capacity, fanout.ravel()])

    layer = jax.random.randint(layer_key, (components,), 0, jnp.maximum(jnp.sum(context.count > 0), 1))
    entry = jax.random.randint(entry_key, (components,), 0, jnp.maximum(context.count[layer], 1))
    hit = jax.random.bernoulli(hit_key, 1 / components, (components,))
    size = jnp.where(hit, sizes[layer, entry, jnp.arange(components)], size)
    levels = capacity.shape[0]
    capacity, fanout = size[:levels], jnp.maximum(size[levels:].reshape(fanout.shape), 1)

    machine = resize(context.template, context.technology, capacity, fanout)
    fits = exists & jnp.all(sizes <= jnp.concatenate([capacity, fanout.ravel()]), axis=-1)
    cycles, energy = columns["cycles"], _energy(columns, machine, context)

    def total(values: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(context.count > 0, values[jnp.arange(choice.shape[0]), choice], 0) * context.times)

    own = total(energy) / jnp.maximum(total(cycles), jnp.finfo(cycles.dtype).tiny)
    rate = own * jnp.exp(jax.random.uniform(rate_key, (), cycles.dtype, -_EXCHANGE, _EXCHANGE))
    cost = jnp.where(fits, energy + rate * cycles, jnp.inf)
    return jnp.where(jnp.any(fits, axis=1), jnp.argmin(cost, axis=1).astype(jnp.int32), choice)


def _sample(key: jax.Array, context: _Context) -> jax.Array:
    return jax.random.randint(key, context.count.shape, 0, jnp.maximum(context.count, 1), jnp.int32)


def _vary(key: jax.Array, a: jax.Array, b: jax.Array, context: _Context, rates: None) -> tuple[jax.Array, jax.Array]:
    """Uniform crossover; then a few layers take a random entry, or the next faster or slower; some are `_fitted`."""
    del rates
    swap_key, one_key, two_key = jax.random.split(key, 3)
    swap = jax.random.bernoulli(swap_key, shape=a.shape)
    layers = jnp.maximum(jnp.sum(context.count > 0), 1)

    def mutate(key: jax.Array, genes: jax.Array) -> jax.Array:
        hit_key, kind_key, step_key, draw_key, refit_key, fit_key = jax.random.split(key, 6)
        hit = jax.random.bernoulli(hit_key, jnp.minimum(context.rate / layers, 1.0), genes.shape)
        step = jnp.where(jax.random.bernoulli(step_key, shape=genes.shape), 1, -1)
        near = jnp.clip(genes + step, 0, jnp.maximum(context.count - 1, 0))
        new = jnp.where(jax.random.bernoulli(kind_key, shape=genes.shape), near, _sample(draw_key, context))
        new = jnp.where(hit, new, genes)
        return jnp.where(jax.random.bernoulli(refit_key, context.refit), _fitted(fit_key, new, context), new)

    return mutate(one_key, jnp.where(swap, b, a)), mutate(two_key, jnp.where(swap, a, b))


_PROBLEM = Problem(
    sample=_sample,
    vary=_vary,
    evaluate=lambda genes, context: jnp.log2(emo.positive(jax.vmap(lambda choice: _merged(choice, context)[0])(genes))),
    distinct=True,
)


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkSets:
    """The Pareto sets of one network's unique layers on one template, on the host.

    Attributes:
        tables: columns `[U, M, ...]`; every set has an entry.
        wires: of the tables on the template: `hops` `[U, M, K]`, the rest without the T axis.
        times: `[U]`, number of layers that share each set.
        template: the template.
    """

    tables: MappingTables
    wires: Wires
    times: np.ndarray
    template: Template


def choose_mappings(
    key: jax.Array, sets: NetworkSets, technology: Technology, config: NetworkConfig | None = None
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Searches the front of choices.

    The first population holds three choices: the fastest, the most frugal and the smallest entry of every layer.
    Compiles once per padded number of layers.

    Args:
        key: typed key, consumed.
        sets: what the network chooses from.
        technology: energy and area tables.
        config: sizes.

    Returns:
        Choices `[N, U]`, their objectives `[N, 3]` (cycles, pJ, um^2) by rising latency, and capacities `[N, L]` and
        fanouts `[N, L, 2]` of the merged chiplets.
    """
    config = config or NetworkConfig()
    tables, used = sets.tables, len(sets.times)
    padding = _STEP * -(-used // _STEP) - used
    chosen = {name: getattr(tables, name) for name in _COLUMNS} | {"hops": sets.wires.hops}
    columns = {name: jnp.asarray(_padded(column, padding)) for name, column in chosen.items()}
    dtype = columns["cycles"].dtype
    levels = tables.capacity.shape[-1]
    arrays = template_arrays([sets.template], technology, levels=levels, dtype=dtype)
    context = _Context(
        count=jnp.asarray(_padded(tables.count, padding), jnp.int32),
        times=jnp.asarray(_padded(sets.times, padding), dtype),
        columns=columns,
        sizes=jax.tree.map(jnp.asarray, sets.wires.sizes),
        template=jax.tree.map(lambda leaf: leaf[0], arrays),
        technology=jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), technology),
        rate=jnp.asarray(config.rate, dtype),
        refit=jnp.asarray(config.refit, dtype),
    )
    seeds = jnp.asarray(_padded(np.argmin(tables.objectives, axis=1), padding).T, jnp.int32)
    sizes = Sizes(config.population, config.immigrants, config.archive)
    archive = _searched(key, context, seeds, sizes=sizes, generations=config.generations)
    choices = np.asarray(archive.genes)[np.asarray(archive.valid)]
    objectives, sizes = jax.device_get(
        _evaluate(jnp.asarray(np.resize(choices, (config.archive, choices.shape[1]))), context)
    )
    order = np.lexsort(objectives[: len(choices)].T[::-1])
    capacity, fanout = (size[: len(choices)][order] for size in sizes)
    return choices[order][:, :used], objectives[: len(choices)][order], (capacity, fanout)


@functools.partial(jax.jit, static_argnames=("sizes", "generations"))
def _searched(
    key: jax.Array, context: _Context, seeds: jax.Array, *, sizes: Sizes, generations: int
) -> emo.Archive[jax.Array]:
    return evolved(key, context, seeds, None, problem=_PROBLEM, sizes=sizes, generations=generations)[0].archive


@jax.jit
def _evaluate(choices: jax.Array, context: _Context) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return jax.vmap(_merged, (0, None))(choices, context)


def _padded(values: ArrayLike, padding: int) -> np.ndarray:
    """The values with `padding` more rows, of zeros."""
    rows = np.asarray(values)
    return np.concatenate([rows, np.zeros((padding, *rows.shape[1:]), rows.dtype)])


@dataclasses.dataclass(frozen=True, eq=False)
class NetworkOn:
    """A network on a template that runs all its layers.

    Attributes:
        network: index of the network.
        template: index of the template.
        names: of the network and of the template.
        sets: what it chooses from.
        place: `[n]` int, index of each layer of the network among its unique layers.
    """

    network: int
    template: int
    names: tuple[str, str]
    sets: NetworkSets
    place: np.ndarray

    def key(self, key: jax.Array) -> jax.Array:
        """The random key of this network on this template."""
        return jax.random.fold_in(jax.random.fold_in(key, self.network), self.template)

    def choices(
        self, chosen: np.ndarray, objectives: np.ndarray, sizes: tuple[np.ndarray, np.ndarray]
    ) -> list[NetworkChoice]:
        """Choices `[N, U]` of the unique layers, with their objectives `[N, 3]` and chiplets, as results."""
        depth, (capacity, fanout) = len(self.sets.template.levels), sizes
        return [
            NetworkChoice(
                *(float(x) for x in objectives[i]),
                mapping=tuple(int(m) for m in chosen[i][self.place]),
                capacity_words=tuple(float(c) for c in capacity[i][:depth]),
                fanout=tuple((float(x), float(y)) for x, y in fanout[i][:depth]),
            )
            for i in range(len(chosen))
        ]


def networks_on_templates(setup: Setup, tables: MappingTables) -> list[NetworkOn]:
    """All networks on all templates that run all their layers.

    Args:
        setup: the networks, and the hardware.
        tables: Pareto tables `[U, T, M, ...]` of the networks' unique layers.
    """
    application = setup.application
    owners = np.asarray(application.unique_of_layer)
    levels, dtype = tables.capacity.shape[-1], np.asarray(tables.cycles).dtype
    arrays = setup.machines(levels, dtype)
    every = wires([unique.shape for unique in application.unique_layers], arrays, tables)
    out = []
    for n, network in enumerate(application.networks):
        mine = owners[np.asarray(application.network_of_layer) == n]
        unique, times = np.unique(mine, return_counts=True)
        for t, template in enumerate(setup.templates):
            if not len(unique) or not (np.asarray(tables.count)[unique, t] > 0).all():
                continue
            rows = jax.tree.map(lambda leaf, t=t, unique=unique: np.asarray(leaf)[unique, t], tables)
            sizes = jax.tree.map(lambda leaf, t=t: leaf[t], every.sizes)
            sets = NetworkSets(rows, Wires(sizes=sizes, hops=every.hops[unique, t]), times, template)
            out.append(NetworkOn(n, t, (network.name, template.name), sets, np.searchsorted(unique, mine)))
    return out


def network_choices(
    key: jax.Array,
    setup: Setup,
    tables: MappingTables,
    config: NetworkConfig | None = None,
) -> dict[tuple[str, str], list[NetworkChoice]]:
    """The fronts of every network on every template that runs all its layers.

    Args:
        key: typed key, consumed.
        setup: the networks, and the hardware.
        tables: Pareto tables `[U, T, M, ...]` of the networks' unique layers.
        config: sizes of the search.

    Returns:
        Choices by rising latency, by (network, template).
    """
    every = networks_on_templates(setup, tables)
    return {own.names: own.choices(*choose_mappings(own.key(key), own.sets, setup.technology, config)) for own in every}
