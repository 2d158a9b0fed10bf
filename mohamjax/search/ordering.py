"""The last step of a search: reorders the layers of each design so that networks are ready earlier.

A search minimises the end of the last network. The ends of the others are no objective, so a network that could be
ready early may wait behind a large one without any gain. Here chiplets, places and mappings stay, and orders are tried
in which one network goes first; an order is taken if no network ends later, no objective is worse, and the networks'
ends have a smaller sum. Two kinds of orders are tried for every network:

- *by slack*: layers are ordered by their latest start (earliest due date first), from which their network still ends
  when it does now if nothing delays it. The network in question is due after a share of its present time.
- *earlier*: the layers of the network move ahead in the order by a share of the latency, and the rest stays.

Each round takes the best order of each design; a design for which no order is better is done. All is computed in the
precision in which fronts are written, so the conditions hold for the written values.

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
"""By slack: shares of its present time after which a network is due."""

SHIFTS = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125)
"""Earlier: shares of the latency by which a network moves ahead."""

GAIN = 1e-4
"""Share of the sum of all ends that an order must save to be taken: less is not worth another round."""

_SCHEDULES = 2048
"""Schedules per block on a CPU."""


@dataclasses.dataclass(frozen=True)
class Ordering:
    """Progress of the reordering.

    Attributes:
        order: `[B, L]` int32, layers of every design by priority.
        rounds: rounds done.
        evaluations: schedules simulated.
        changed: designs whose order differs from the first one.
        seconds: since the reordering began.
    """

    order: np.ndarray = dataclasses.field(repr=False)
    rounds: int = 0
    evaluations: int = 0
    changed: int = 0
    seconds: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """All numbers but the seconds, by name: equal searches give equal ones."""
        return {"rounds": self.rounds, "evaluations": self.evaluations, "changed": self.changed}

    def __str__(self) -> str:
        """A line of progress."""
        tried = plural(self.evaluations, "schedule")
        return (
            f"round {self.rounds}: networks are ready earlier in {self.changed:,} of "
            f"{plural(len(self.order), 'design')}, later in none ({tried} tried, {self.seconds:.1f} s)"
        )


def orderings(evaluated: Evaluated, rounds: int, periods: int = 4) -> Iterator[Ordering]:
    """Orders in which networks are ready earlier, round by round; `reordered` gives the designs that have them.

    Args:
        evaluated: designs in double precision, B >= 1, layers padded.
        rounds: most rounds.
        periods: periods of the slowest network that are scheduled for measures of frames in flight.

    Yields:
        The progress after each round; ends after a round that improves no design. Nothing for a single network.
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

    As programs may differ in the last digit, the conditions of `orderings` are checked again on the result: a design
    that does not meet them keeps its order.

    Args:
        evaluated: the designs, `[B]`.
        ordering: from `orderings`.
        number: number of designs that were evaluated together with these, see `with_orders`; default B.
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
    """The designs, of which those at `rows` `[n]` are replaced by `others`."""

    def put(old: jax.Array, new: jax.Array) -> np.ndarray:
        out = np.array(old)
        out[rows] = new
        return out

    both = (evaluated.designs, evaluated.reports), (others.designs, others.reports)
    designs, reports = jax.tree.map(put, *both)
    return dataclasses.replace(evaluated, designs=designs, reports=reports)


def delays_nobody(before: Evaluated, after: Evaluated) -> np.ndarray:
    """`[B]` bool: no network of the design ends later than before, no objective is worse, some network ends earlier.

    Latency, energy and area must not be worse either where they are not objectives.
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
    """The networks by which an order is judged.

    Attributes:
        networks: `[N]` int32, numbers of the networks: the shape tells how many there are.
        owner: `[M]` int32, network of each objective, -1 where it measures all.
    """

    networks: jax.Array | np.ndarray
    owner: jax.Array | np.ndarray


@functools.partial(jit_o1_plain_loops, static_argnames="kinds")
def _bettered(
    designs: Design, evaluation: EvaluationArrays, about: _About, kinds: Sequence[str]
) -> tuple[jax.Array, jax.Array]:
    """The best order `[B, L]` of each design that delays no network, and whether it is a new one, `[B]` bool."""
    return jax.vmap(lambda design: _best_order(design, evaluation, about, kinds))(designs)


def _best_order(
    design: Design, evaluation: EvaluationArrays, about: _About, kinds: Sequence[str]
) -> tuple[jax.Array, jax.Array]:
    """The results of `_bettered` for one design, `[L]` and `[]`."""
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
    """`[N]` float, end of each network [cycles], from the ends of the layers `[L]`."""
    own = evaluation.network == about.networks[:, None]
    return jnp.max(jnp.where(own, end, 0.0), axis=1)


def tried_orders(order: jax.Array, now: DesignReport, ends: jax.Array, evaluation: EvaluationArrays) -> jax.Array:
    """The orders that are tried instead of one; all are topological if it is.

    Args:
        order: `[L]` int32, the present order.
        now: report of the design with it.
        ends: `[N]` float, end of each network [cycles].
        evaluation: the arrays that the evaluation reads.

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
    """`[L]` float, longest path from the start of each layer to an end of its network, without waiting.

    The upward ranks of `search.plans` and `problem.list_scheduling` are the same path over mean durations.

    Args:
        duration: `[L]` float, of each layer; layers are numbered in a topological order.
        predecessor_bits: `[L, W]` uint32, from `fluid.predecessor_bits`.
    """
    layers = jnp.arange(duration.shape[0], dtype=jnp.int32)
    word, bit = layers // 32, (layers % 32).astype(jnp.uint32)

    def back(rest: jax.Array, layer: jax.Array) -> tuple[jax.Array, None]:
        needs = (predecessor_bits[layer, word] >> bit) & 1
        return jnp.where(needs > 0, jnp.maximum(rest, duration + rest[layer]), rest), None

    rest, _ = jax.lax.scan(back, duration, layers, reverse=True)
    return rest
