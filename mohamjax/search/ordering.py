"""The last step of a search: the layers of each design are put in another order, so that networks are ready earlier.

A search minimises the end of the last network. When the others end is no objective, so that a network which could be
ready early may wait behind a large one although nothing is gained by it. Here chiplets, places and mappings stay, and
orders are tried in which one network goes first; one is taken if no network ends later, no objective is worse, and the
networks' ends add up to less. What is tried, for every network in turn:

- *by slack*: every layer has a latest start, from which its network still ends when it does now if nothing delays it,
  and layers go by that (earliest due date first). The network in question must end after a share of its present time.
- *earlier*: all layers of the network go before what starts up to so long after they do now, and the rest stays.

Each round takes the best order of each design; a design for which no order is better is done. All is computed in the
precision in which fronts are written, so that what is promised holds for what is written.

Axes: B designs of a block, C orders that are tried, L layers (padded), N networks, M objectives.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.runtime.platforms import accelerated
from mohamjax.runtime.programs import jit_o1_plain_loops
from mohamjax.runtime.struct import record, take
from mohamjax.schedule.batch import run_blocks
from mohamjax.schedule.design import Design, DesignReport, EvaluationArrays, chiplets, report_on
from mohamjax.schedule.evaluated import Evaluated, evaluation_again, network_latencies, with_orders
from mohamjax.schedule.measures import kinds_of, measured, owners
from mohamjax.text import plural

SHARES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of its present time after which a network must end, by slack."""

SHIFTS = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125)
"""Shares of the latency by which a network goes earlier."""

GAIN = 1e-4
"""Share of the sum of all ends that an order must save: less is not worth another round."""

_SCHEDULES = 2048
"""Schedules of a block on a processor."""


@dataclasses.dataclass(frozen=True)
class Ordering:
    """How far it has come.

    Attributes:
        order: `[B, L]` int32, layers of every design by priority.
        rounds: rounds done.
        evaluations: schedules simulated.
        changed: designs with another order than at first.
        seconds: since it began.
    """

    order: np.ndarray = dataclasses.field(repr=False)
    rounds: int = 0
    evaluations: int = 0
    changed: int = 0
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """The numbers but the seconds, by name: the same whenever the search is."""
        return {"rounds": self.rounds, "evaluations": self.evaluations, "changed": self.changed}

    def __str__(self) -> str:
        """For a line of progress."""
        tried = plural(self.evaluations, "schedule")
        return (
            f"round {self.rounds}: networks are ready earlier in {self.changed:,} of "
            f"{plural(len(self.order), 'design')}, later in none ({tried} tried, {self.seconds:.1f} s)"
        )


def orderings(evaluated: Evaluated, rounds: int, periods: int = 4) -> Iterator[Ordering]:
    """Orders in which networks are ready earlier, round by round; `reordered` gives the designs that have them.

    Args:
        evaluated: designs in double precision, B >= 1, layers padded.
        rounds: at most.
        periods: of the slowest network, whose frames are in flight where that is measured.

    Yields:
        What has been found after each round. It ends when a round betters no design. Where there is one network, there
        is nothing to find.
    """
    began, order = time.perf_counter(), np.array(evaluated.designs.order)
    done, networks = Ordering(order), len(evaluated.application.networks)
    if networks < 2:
        return
    tried = networks * (len(SHARES) + len(SHIFTS))
    width = max(1, (16 if accelerated() else 1) * _SCHEDULES // tried)
    kinds = kinds_of(evaluated.measures)
    designs, first = evaluated.designs, order.copy()
    with jax.enable_x64(True):
        evaluation = evaluation_again(evaluated, periods)
        about = _About(
            networks=np.arange(networks, dtype=np.int32), owner=owners(evaluated.measures, evaluated.application)
        )
        program = functools.partial(_bettered, about=about, kinds=kinds)
        left = np.arange(len(order))
        while left.size and done.rounds < rounds:
            some = dataclasses.replace(take(designs, left), order=order[left])
            found, better = run_blocks(program, some, evaluation, width)
            order[left] = found
            done = Ordering(
                order=order.copy(),
                rounds=done.rounds + 1,
                evaluations=done.evaluations + len(left) * (1 + tried),
                changed=int((order != first).any(axis=1).sum()),
                seconds=time.perf_counter() - began,
            )
            left = left[better]
            yield done


def reordered(evaluated: Evaluated, ordering: Ordering, number: int | None = None, periods: int = 4) -> Evaluated:
    """Designs with other orders of their layers, evaluated again as they were before.

    What `orderings` promises is checked once more on what is given back: a design of which it is not true keeps its
    order. (Programs may differ in the last digit.)

    Args:
        evaluated: the designs, `[B]`.
        ordering: of `orderings`.
        number: of how many designs these are some, see `with_orders`.
        periods: as in `orderings`.
    """
    order = np.asarray(evaluated.designs.order)
    changed = np.flatnonzero((ordering.order != order).any(axis=1))
    if not changed.size:
        return evaluated
    before = evaluated.take(changed)
    after = with_orders(before, ordering.order[changed], len(evaluated) if number is None else number, periods)
    good = np.flatnonzero(delays_nobody(before, after))
    return replaced(evaluated, changed[good], after.take(good))


def replaced(evaluated: Evaluated, rows: np.ndarray, others: Evaluated) -> Evaluated:
    """The designs with others in the place of those at `rows` `[n]`."""

    def put(old: jax.Array, new: jax.Array) -> np.ndarray:
        out = np.array(old)
        out[rows] = new
        return out

    both = (evaluated.designs, evaluated.reports), (others.designs, others.reports)
    designs, reports = jax.tree.map(put, *both)
    return dataclasses.replace(evaluated, designs=designs, reports=reports)


def delays_nobody(before: Evaluated, after: Evaluated) -> np.ndarray:
    """`[B]` bool: no network of the design ends later than before, no objective is worse, and some network is earlier.

    Latency, energy and area count as well where they are no objectives.
    """
    pairs = [
        (network_latencies(before), network_latencies(after)),
        (np.asarray(before.reports.objectives), np.asarray(after.reports.objectives)),
        (before.objectives, after.objectives),
    ]
    good = np.all([(new <= old).all(axis=1) for old, new in pairs], axis=0)
    old, new = pairs[0]
    return np.logical_and(good, (new < old).any(axis=1))


@record
class _About:
    """What an order is judged by.

    Attributes:
        networks: `[N]` int32, their numbers: the shape says how many there are.
        owner: `[M]` int32, network of each objective, -1 where it is of all.
    """

    networks: jax.Array | np.ndarray
    owner: jax.Array | np.ndarray


@functools.partial(jit_o1_plain_loops, static_argnames="kinds")
def _bettered(
    designs: Design, evaluation: EvaluationArrays, about: _About, kinds: Sequence[str]
) -> tuple[jax.Array, jax.Array]:
    """The best order `[B, L]` of each design that delays nobody, and whether it is another than its own, `[B]` bool."""
    return jax.vmap(lambda design: _best_order(design, evaluation, about, kinds))(designs)


def _best_order(
    design: Design, evaluation: EvaluationArrays, about: _About, kinds: Sequence[str]
) -> tuple[jax.Array, jax.Array]:
    """The same of one design, `[L]` and `[]`."""
    chips = chiplets(design, evaluation)

    def judged(order: jax.Array) -> tuple[DesignReport, jax.Array, jax.Array]:
        found = report_on(chips, dataclasses.replace(design, order=order), evaluation)
        values = measured(found, kinds, about.owner, evaluation.network)
        return found, jnp.concatenate([found.objectives, values]), ends_of(found.timeline.end, evaluation, about)

    now, values, ends = judged(design.order)
    orders = tried_orders(design.order, now, ends, evaluation)
    _, reached, ready = jax.vmap(judged)(orders)
    good = jnp.all(ready <= ends, axis=1) & jnp.all(reached <= values, axis=1)
    total = jnp.where(good, jnp.sum(ready, axis=1), jnp.inf)
    best = jnp.argmin(total)
    better = total[best] < jnp.sum(ends) * (1 - GAIN)
    return jnp.where(better, orders[best], design.order), better


def ends_of(end: jax.Array, evaluation: EvaluationArrays, about: _About) -> jax.Array:
    """`[N]` float, when each network has ended [cycles], from the ends of the layers `[L]`."""
    own = evaluation.network == about.networks[:, None]
    return jnp.max(jnp.where(own, end, 0.0), axis=1)


def tried_orders(order: jax.Array, now: DesignReport, ends: jax.Array, evaluation: EvaluationArrays) -> jax.Array:
    """The orders that are tried in the place of one; all are topological if it is.

    Args:
        order: `[L]` int32.
        now: the design with it.
        ends: `[N]` float, when networks end [cycles].
        evaluation: what it is evaluated by.

    Returns:
        `[C, L]` int32, for every network by slack (`SHARES`), then earlier (`SHIFTS`).
    """
    network, start = evaluation.network, now.timeline.start
    numbers = jnp.arange(ends.shape[0], dtype=network.dtype)
    rest = remaining(now.duration, evaluation.predecessor_bits)

    # Keys rise along every dependency, and a stable sort keeps the order of equal ones.
    def by_slack(chosen: jax.Array, share: jax.Array) -> jax.Array:
        due = jnp.where(numbers == chosen, ends * share, ends)
        return due[jnp.maximum(network, 0)] - rest

    def earlier(chosen: jax.Array, share: jax.Array) -> jax.Array:
        return jnp.where(network == chosen, start - share * jnp.max(ends), start)

    def keys(way, shares: tuple[float, ...]) -> jax.Array:
        each = jax.vmap(jax.vmap(way, (None, 0)), (0, None))(numbers, jnp.asarray(shares, start.dtype))
        return each.reshape(-1, start.shape[0])

    both = jnp.concatenate([keys(by_slack, SHARES), keys(earlier, SHIFTS)])
    both = jnp.where(network >= 0, both, jnp.inf)[:, order]
    return order[jnp.argsort(both, axis=1, stable=True)]


def remaining(duration: jax.Array, predecessor_bits: jax.Array) -> jax.Array:
    """`[L]` float, the longest path from the beginning of each layer to an end of its network, without waiting.

    The upward ranks of `search.plans` and of `problem.list_scheduling` are the same path, of mean durations.

    Args:
        duration: `[L]` float, of layers that are numbered in a topological order.
        predecessor_bits: `[L, W]` uint32, of `fluid.predecessor_bits`.
    """
    layers = jnp.arange(duration.shape[0], dtype=jnp.int32)
    word, bit = layers // 32, (layers % 32).astype(jnp.uint32)

    def back(rest: jax.Array, layer: jax.Array) -> tuple[jax.Array, None]:
        needs = (predecessor_bits[layer, word] >> bit) & 1
        return jnp.where(needs > 0, jnp.maximum(rest, duration + rest[layer]), rest), None

    rest, _ = jax.lax.scan(back, duration, layers, reverse=True)
    return rest
