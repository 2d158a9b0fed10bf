"""One mapping per layer for a whole network, as MEDEA prints it (Section V-B): a sieve, and random search of scores.

Of every layer's Pareto set only the mappings that are among the ten best in latency or in energy take part. Sets of one
mapping per unique layer are searched at random for the least weighted sum of area, energy and latency, once for each of
many weights. Latency and energy are sums over the layers, each on its own minimal hardware; the end-to-end area is the
*largest* of the layers'. `network_level` uses a chiplet that holds all layers instead, and counts energy there.

The paper tells no more about the random search. Here each weight keeps a best set. A proposal redraws some of its
layers, from one to all, and replaces it if it scores better. Each term is divided by its least value over all sets.

Axes: U unique layers, M table entries, W weights.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.mapper.network_level import NetworkChoice, networks_on_templates
from mohamjax.mapping import MappingTables
from mohamjax.schedule.setup import Setup


@dataclasses.dataclass(frozen=True)
class SieveConfig:
    """Sizes of the search; static.

    Attributes:
        best: number of a layer's mappings that take part for their latency, and as many for their energy.
        divisions: weights are all triples of multiples of 1 / divisions that add up to 1.
        proposals: sets tried per weight.
    """

    best: int = 10
    divisions: int = 10
    proposals: int = 20000

    def __post_init__(self) -> None:
        """Checks the values that a user can set."""
        for name in ("best", "divisions", "proposals"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", item="sieve", remedy="use 1 or more")

    def weights(self) -> np.ndarray:
        """`[W, 3]`, of latency, energy and area."""
        n = self.divisions
        return np.array([(i, j, n - i - j) for i, j in itertools.product(range(n + 1), repeat=2) if i + j <= n]) / n


def sieved(objectives: np.ndarray, count: np.ndarray, best: int) -> np.ndarray:
    """Which entries are among the best of their set in latency or in energy.

    Args:
        objectives: `[U, M, 3]`, latency, energy and area; +inf where there is no entry.
        count: `[U]` int.
        best: how many in each.

    Returns:
        `[U, M]` bool.
    """
    rank = np.argsort(np.argsort(objectives[..., :2], axis=1, kind="stable"), axis=1, kind="stable")
    return (rank < best).any(axis=-1) & (np.arange(objectives.shape[1]) < count[:, None])


def choose_sieved(
    key: jax.Array, objectives: np.ndarray, count: np.ndarray, times: np.ndarray, config: SieveConfig
) -> tuple[np.ndarray, np.ndarray]:
    """Searches sets of one mapping per unique layer.

    Args:
        key: typed key, consumed.
        objectives: `[U, M, 3]`, latency, energy and area of the mappings.
        count: `[U]` int, entries of each set.
        times: `[U]` int, layers that share each set.
        config: sizes.

    Returns:
        Distinct sets `[N, U]` that no other found dominates, by rising latency, and their objectives `[N, 3]`: sums of
        latency and energy, and the largest area.
    """
    entries = [np.flatnonzero(row) for row in sieved(objectives, count, config.best)]
    width = max(map(len, entries))
    table = np.stack([np.resize(own, width) for own in entries])
    values = np.take_along_axis(objectives, table[..., None], axis=1)
    number = np.array([len(own) for own in entries])
    least = values.min(axis=1)
    scale = np.array([*(least[:, :2] * times[:, None]).sum(axis=0), least[:, 2].max()])
    scale = np.where(scale > 0, scale, 1)  # a template may cost no area or energy
    chosen = _search(
        key,
        jnp.asarray(values / scale, jnp.float32),
        jnp.asarray(number, jnp.int32),
        jnp.asarray(times, jnp.float32),
        jnp.asarray(config.weights(), jnp.float32),
        proposals=config.proposals,
    )
    picks = np.unique(np.asarray(chosen), axis=0)
    rows = np.take_along_axis(values[None], picks[..., None, None], axis=2)[:, :, 0]  # [N, U, 3]
    total = np.stack([*((rows[..., k] * times).sum(axis=1) for k in range(2)), rows[..., 2].max(axis=1)], axis=-1)
    front = emo.distinct_front(total)
    front = front[np.lexsort(total[front].T[::-1])]
    return np.take_along_axis(table[None], picks[front][..., None], axis=2)[..., 0], total[front]


@functools.partial(jax.jit, static_argnames=("proposals",))
def _search(
    key: jax.Array, values: jax.Array, number: jax.Array, times: jax.Array, weights: jax.Array, *, proposals: int
) -> jax.Array:
    """The best set found for each weight, `[W, U]` int32."""
    layers = values.shape[0]

    def score(choice: jax.Array, weight: jax.Array) -> jax.Array:
        rows = values[jnp.arange(layers), choice]
        terms = jnp.stack([jnp.sum(rows[:, 0] * times), jnp.sum(rows[:, 1] * times), jnp.max(rows[:, 2])])
        return jnp.sum(terms * weight)

    def draw(key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (layers,), 0, number)

    def one(key: jax.Array, weight: jax.Array) -> jax.Array:
        def propose(i: jax.Array, best: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            draw_key, share_key, hit_key, one_key = jax.random.split(jax.random.fold_in(key, i), 4)
            # Redraw a share of 1 / U to 1 of the layers, uniform in the logarithm.
            share = jnp.exp(-jnp.log(float(layers)) * jax.random.uniform(share_key))
            hit = jax.random.bernoulli(hit_key, share, (layers,))
            hit |= jnp.arange(layers) == jax.random.randint(one_key, (), 0, layers)
            new = jnp.where(hit, draw(draw_key), best[0])
            value = score(new, weight)
            better = value < best[1]
            return jnp.where(better, new, best[0]), jnp.where(better, value, best[1])

        first = draw(jax.random.fold_in(key, proposals))
        return jax.lax.fori_loop(0, proposals, propose, (first, score(first, weight)))[0]

    return jax.vmap(one)(jax.random.split(key, weights.shape[0]), weights)


def sieved_choices(
    key: jax.Array, setup: Setup, tables: MappingTables, config: SieveConfig | None = None
) -> dict[tuple[str, str], list[NetworkChoice]]:
    """Choices for every network on every template that runs all its layers, as MEDEA makes them.

    Args:
        key: typed key, consumed.
        setup: the networks, and the hardware.
        tables: Pareto tables `[U, T, M, ...]` of the networks' unique layers.
        config: sizes of the search.

    Returns:
        Choices by rising latency, by (network, template). The area is the largest of the layers'; the sizes are those
        of the chiplet that would hold all of them, which may be larger than any layer's own.
    """
    config = config or SieveConfig()
    out = {}
    for own in networks_on_templates(setup, tables):
        rows, times = own.sets.tables, own.sets.times
        objectives, count = np.asarray(rows.objectives, float), np.asarray(rows.count)
        chosen, total = choose_sieved(own.key(key), objectives, count, times, config)
        each = np.arange(len(times))
        capacity, fanout = (np.asarray(column)[each, chosen].max(axis=1) for column in (rows.capacity, rows.fanout))
        out[own.names] = own.choices(chosen, total, (capacity, np.maximum(fanout, 1)))
    return out
