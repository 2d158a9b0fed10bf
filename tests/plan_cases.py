"""Small problems for plans, with made-up Pareto sets: nothing is evaluated, so no mapper or technology is needed.

The values in the sets are drawn to reach the special cases of plans: tied scores, more values than thresholds in one
component, components that never differ, and garbage in unused entries.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from test_operators import FREE, L, S, T, U, genetics, kinds, problems

from mohamjax.mapping import MappingTables
from mohamjax.problem.plan_tables import WEIGHTS, plan_tables
from mohamjax.problem.resolved import CLOSED
from mohamjax.search.plan_operators import completed, drawn_plan
from mohamjax.search.plans import Plan, decode, sized

ENTRIES = 40  # two words, the second one not full
LEVELS = 3
BATCH = 16  # plans at once in all tests, so that programs are compiled once


def sets(seed: int, count: np.ndarray, entries: int = ENTRIES) -> tuple[MappingTables, np.ndarray]:
    """Made-up tables `[U, T, entries]` with `count` mappings, and the duration of each mapping.

    The second capacity differs between all mappings; the first takes few values, like the fanouts of the second level.
    Unused entries hold garbage.
    """
    rng = np.random.default_rng(seed)
    shape = (*count.shape, entries)
    capacity, fanout = np.zeros((*shape, LEVELS)), np.ones((*shape, LEVELS, 2))
    capacity[..., 0] = 8 * rng.integers(1, 12, shape)
    capacity[..., 1] = rng.permutation(16 * np.arange(1, capacity[..., 1].size + 1)).reshape(shape)
    fanout[..., 1, :] = rng.integers(1, 9, (*shape, 2))
    # Powers of two with many repetitions, so that scores tie.
    duration = 2.0 ** rng.integers(6, 14, shape)
    objectives = np.stack([duration, 2.0 ** rng.integers(20, 28, shape), rng.integers(1, 30, shape)], axis=-1)
    exists = np.arange(entries) < count[..., None]
    for values in (capacity, fanout, duration, objectives):
        values[~exists] = rng.choice([np.nan, 0.0, 1e9, np.inf], values[~exists].shape)
    nothing = np.zeros(shape)
    tables = MappingTables(
        mapping=None, count=count, objectives=objectives, cycles=nothing, offchip_bytes=nothing, offchip_words=nothing,
        block_reads=nothing, block_writes=nothing, delivered=nothing, macs=nothing, capacity=capacity, fanout=fanout,
    )  # fmt: skip
    return tables, duration


@dataclasses.dataclass
class Case:
    """A problem: the inputs of the operators, the tables, and plain NumPy copies of what was drawn."""

    genetics: object
    plans: object
    tables: MappingTables
    duration: np.ndarray

    def values(self, t: int) -> np.ndarray:
        """`[U, M, columns]`, every capacity and fanout of the mappings of template `t`."""
        shape = self.tables.capacity.shape[:3]
        both = np.concatenate([self.tables.capacity, self.tables.fanout.reshape(*shape, -1)], axis=-1)
        return both[:, t]

    def score(self, u: int, t: int, w: int) -> np.ndarray:
        """`[M]`, the score of each mapping under weight `w`; inf in unused entries."""
        n = self.tables.count[u, t]
        with np.errstate(divide="ignore"):
            time, energy = np.log(self.duration[u, t, :n]), np.log(self.tables.objectives[u, t, :n, 1])
        score = np.full(self.duration.shape[2], np.inf)
        score[:n] = WEIGHTS[w] * time + (1 - WEIGHTS[w]) * energy
        return score


@functools.lru_cache(maxsize=64)
def case(seed: int, layers: int = 13, chips: int = S, blocked: bool = True, demands: str = "") -> Case:
    """A random problem of a fixed padded shape, in which template 1 runs everything.

    Args:
        seed: seed of all draws.
        layers: number of layers that exist, of L.
        chips: maximum number of chiplets.
        blocked: whether each other template cannot run one unique layer.
        demands: letters for the requirements: f a fixed chiplet of template 1, c a closed tile, p layers pinned to
            the fixed chiplet, h homogeneous packages.
    """
    g = genetics(seed, layers, blocked=blocked, max_chiplets=chips)
    rng = np.random.default_rng(seed)
    count = np.where(np.asarray(g.count) > 0, rng.integers(1, ENTRIES + 1, (U, T)), 0).astype(np.int32)
    tables, duration = sets(seed, count)
    on_tile, pin = np.full(S, FREE, np.int32), np.full(L, -1, np.int32)
    tile = rng.permutation(S)
    if "f" in demands:
        on_tile[tile[0]] = 1
    if "c" in demands:
        on_tile[tile[1]] = CLOSED
    if "p" in demands:
        pin[:layers] = np.where(rng.random(layers) < 0.3, tile[0], -1)
    cover = np.where(on_tile == 1, 1, -1).astype(np.int32)
    if "f" not in demands:
        cover[np.flatnonzero(on_tile == FREE)[0]] = 1
    g = dataclasses.replace(
        g, count=jnp.asarray(count), on_tile=jnp.asarray(on_tile), pin=jnp.asarray(pin), cover=jnp.asarray(cover),
        homogeneous=jnp.int32(1 if "h" in demands else -1), kinds=kinds(layers, g.unique, g.able, pin),
    )  # fmt: skip
    return Case(g, plan_tables(tables, duration), tables, duration)


def sample_plan(key, g, tables) -> Plan:
    """A random plan as in the search: drawn, completed, and every chiplet with a size."""
    return sized(completed(drawn_plan(key, g, tables), g), tables)


@jax.jit
def _random_plans(key, g, tables):
    tiles, room = g.on_tile.shape[0], tables.library.shape[2]

    def wild(key):
        keys = jax.random.split(key, 4)
        plan = Plan(
            template=jax.random.randint(keys[0], (tiles,), -1, tables.library.shape[0]),
            size=jax.random.randint(keys[1], (tiles, room), 0, tables.fits.shape[3]),
            weight=jax.random.randint(keys[2], (tiles,), 0, len(WEIGHTS)),
            thrift=jax.random.randint(keys[3], (), 0, tables.thrift.shape[0]),
        )
        return completed(plan, g)

    keys = jax.random.split(key, BATCH)
    drawn = jax.vmap(sample_plan, in_axes=(0, None, None))(keys[::2], g, tables)
    return jax.tree.map(lambda *x: jnp.concatenate(x), drawn, jax.vmap(wild)(keys[1::2]))


def random_plans(seed: int, c: Case) -> Plan:
    """Completed plans `[BATCH, ...]`: half sampled as in the search, half with arbitrary genes."""
    return _random_plans(jax.random.key(seed), c.genetics, c.plans)


completed_all = jax.jit(jax.vmap(completed, in_axes=(0, None)))
decode_all = jax.jit(decode)


def each(tree):
    """The individuals of a batch, with NumPy leaves."""
    host = jax.device_get(tree)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], host) for i in range(len(jax.tree.leaves(host)[0]))]


def broken(design, g) -> list[str]:
    """Every invariant of DESIGN section 7 and every requirement that a design breaks, in plain Python."""
    on_tile, pin, template = (np.asarray(x) for x in (g.on_tile, g.pin, design.template))
    idle = {f"chiplet {s} stands empty" for s in np.flatnonzero(on_tile >= 0)}
    found = [p for p in problems(design, g) if p not in idle]
    found += [f"pinned layer {i} has moved" for i in np.flatnonzero((pin >= 0) & (design.assignment != pin))]
    return found + _of_package(template, g)


def unfit(plan: Plan, c: Case) -> list[str]:
    """What is wrong with a completed plan."""
    g, template = c.genetics, np.asarray(plan.template)
    found = _of_package(template, g)
    if (template >= 0).sum() > int(g.max_chiplets):
        found.append("too many chiplets")
    standing = template[template >= 0]
    lonely = ~np.asarray(g.able)[: int(g.layers), standing].any(axis=1)
    found += [f"layer {i} has no chiplet" for i in np.flatnonzero(lonely)]
    if not ((plan.size >= 0) & (plan.size < c.plans.fits.shape[3])).all():
        found.append("a size is no threshold")
    if not ((plan.weight >= 0) & (plan.weight < len(WEIGHTS))).all():
        found.append("a weight does not exist")
    if not 0 <= plan.thrift < len(c.plans.thrift):
        found.append("the thrift does not exist")
    return found


def _of_package(template: np.ndarray, g) -> list[str]:
    on_tile = np.asarray(g.on_tile)
    found = [f"the fixed chiplet {s} has gone" for s in np.flatnonzero((on_tile >= 0) & (template != on_tile))]
    found += [f"a chiplet stands on the closed tile {s}" for s in np.flatnonzero((on_tile == CLOSED) & (template >= 0))]
    if int(g.homogeneous) >= 0 and len(set(template[template >= 0])) > 1:
        found.append("the package is of several templates")
    if not ((template >= -1) & (template < T)).all():
        found.append("a template does not exist")
    return found
