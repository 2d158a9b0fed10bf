"""Modified successive halving: which hardware points keep their mapping search, and what a bracket of rounds costs.

A bracket starts with `lanes` hardware points. Every round runs all that are alive up to a cumulative budget of
generations, which doubles from round to round; half of them survive. Most survivors are those of least terminal value;
a few (`area_percent` of those alive) are those of the largest area under the curve of the search, so that a search that
still falls steeply has a second chance. Without the latter it is plain successive halving.
Source: UNICO, Section 3.1, Eq. 1 (k = floor(0.5 n) survivors, p = floor(0.15 n) of them by area); successive halving:
Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", 2016. Our choices: n
counts those alive in the round; survivors by terminal value are chosen first; the area is that of the logarithm.

Axes: H lanes (hardware points of a round, padded to a power of two), T generations.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from mohamjax.runtime.blocks import power_of_two

MOST_PERCENT = 50
"""Largest share of those alive that the area can choose [%]: half of them go on."""


def seats(alive: int, area_percent: int = 15) -> tuple[int, int]:
    """Number k of survivors of a round, and the number p of them that are chosen by area.

    Args:
        alive: hardware points alive in the round, at least 2.
        area_percent: share of them that the area chooses [%], 0 to 50; 0 is plain successive halving.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> seats(32)
        (16, 4)
    """
    if alive < 2:
        raise ValueError(f"alive: a round of {alive} hardware points has none to give up")
    if not 0 <= area_percent <= MOST_PERCENT:
        raise ValueError(f"area_percent: expected 0 to {MOST_PERCENT}, half of those alive go on, got {area_percent}")
    return alive // 2, area_percent * alive // 100


@dataclasses.dataclass(frozen=True)
class Round:
    """One round of a bracket.

    Attributes:
        alive: hardware points that run in the round.
        lanes: `alive`, rounded up to a power of two.
        budget: generations of each point since the beginning of the bracket, at the end of the round.
        generations: generations of this round alone.
        survivors: number of points that go on; the last round does not choose and keeps all.
        by_area: number of survivors chosen by area.
    """

    alive: int
    lanes: int
    budget: int
    generations: int
    survivors: int
    by_area: int


@dataclasses.dataclass(frozen=True)
class Bracket:
    """Plan of a bracket of successive halving; costs are counted in hardware points x generations.

    Attributes:
        lanes: hardware points at the beginning.
        first: generations of the first round; the cumulative budget doubles from round to round.
        rounds: number of rounds; the last one chooses no survivors.
        area_percent: share of those alive that the area chooses [%], see `seats`.

    Raises:
        ValueError: If a number is out of range, or there are more rounds than the points can be halved for.

    Examples:
        >>> Bracket(lanes=32, first=4, rounds=5).cost, Bracket(lanes=32, first=4, rounds=5).full_cost
        (384, 2048)
    """

    lanes: int = 32
    first: int = 4
    rounds: int = 5
    area_percent: int = 15

    def __post_init__(self) -> None:
        if min(self.lanes, self.first, self.rounds) < 1:
            raise ValueError(f"lanes, first, rounds: expected 1 or more of each, got {self}")
        most = self.lanes.bit_length()
        if self.rounds > most:
            raise ValueError(f"rounds: {self.lanes} hardware points can be halved for {most} rounds, got {self.rounds}")
        seats(2, self.area_percent)

    @property
    def plan(self) -> tuple[Round, ...]:
        """The rounds in order."""
        plan, alive, before = [], self.lanes, 0
        for j in range(self.rounds):
            budget = self.first << j
            survivors, by_area = seats(alive, self.area_percent) if j < self.rounds - 1 else (alive, 0)
            width = power_of_two(alive)
            plan.append(Round(alive, width, budget, budget - before, survivors, by_area))
            alive, before = survivors, budget
        return tuple(plan)

    @property
    def full_budget(self) -> int:
        """Generations of a hardware point that survives all rounds."""
        return self.first << (self.rounds - 1)

    @property
    def cost(self) -> int:
        """Hardware points x generations of the bracket."""
        return sum(step.alive * step.generations for step in self.plan)

    @property
    def full_cost(self) -> int:
        """Hardware points x generations if every point had the full budget."""
        return self.lanes * self.full_budget

    def time(self, workers: int) -> int:
        """Modelled time of the bracket [sequential generations]; each round waits for the one before.

        Args:
            workers: searches that run at a time, at least 1.
        """
        return sum(-(-step.alive // workers) * step.generations for step in self.plan)


def _log_curves(curves: jax.Array, count: jax.Array, alive: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logarithms `[H, T]`, the mask `[H, T]` of entries that count, and the terminal logarithms `[H, 1]`."""
    used = alive[:, None] & (jnp.arange(curves.shape[1]) < count)
    # Generations without a valid mapping count as the worst of the batch, scores of 0 (the ideal) as the least above 0.
    finite = used & jnp.isfinite(curves)
    worst = jnp.max(jnp.where(finite, curves, 0), initial=0)
    least = jnp.min(jnp.where(finite & (curves > 0), curves, jnp.inf), initial=jnp.inf)
    least = jnp.where(jnp.isfinite(least), least, 1)
    z = jnp.log(jnp.maximum(jnp.where(finite, curves, worst), least))
    return z, used, jnp.take(z, jnp.maximum(count - 1, 0), axis=1)[:, None]


@jax.jit
def area_above_terminal(curves: jax.Array, count: jax.Array, alive: jax.Array) -> jax.Array:
    """Mean height of the logarithm of a curve over its terminal value: mean over t of z_t - z_end, z = log(score).

    A curve that fell late has a large area. The area does not depend on the unit of the score.

    Args:
        curves: `[H, T]` float, best score after each generation, non-increasing, at least 0; inf or NaN where no valid
            mapping was found yet, which count as the largest finite score among the lanes alive.
        count: `[]` integer, generations done, at most T; later entries are not read.
        alive: `[H]` bool; other lanes are not read and get 0.

    Returns:
        `[H]`, dtype of the curves.
    """
    z, used, end = _log_curves(curves, count, alive)
    return jnp.sum(jnp.where(used, z - end, 0), axis=1) / jnp.maximum(count, 1)


@jax.jit
def area_of_improvement(curves: jax.Array, count: jax.Array, alive: jax.Array) -> jax.Array:
    """Mean depth of the logarithm of a curve below its first value: mean over t of z_1 - z_t, z = log(score).

    A curve that fell early has a large area. Arguments and result are those of `area_above_terminal`.
    """
    z, used, _ = _log_curves(curves, count, alive)
    return jnp.sum(jnp.where(used, z[:, :1] - z, 0), axis=1) / jnp.maximum(count, 1)


AREAS = {"above_terminal": area_above_terminal, "improvement": area_of_improvement}


@functools.partial(jax.jit, static_argnames=("survivors", "by_area"))
def keep(terminal: jax.Array, area: jax.Array, alive: jax.Array, *, survivors: int, by_area: int) -> jax.Array:
    """Lanes that go on: the least terminal values first, then the largest areas among the rest.

    Ties go to the lowest lane. In both orders lanes without a valid mapping (terminal value inf or NaN) come after all
    others, and dead lanes come last, by lane number; both are taken only if there are not enough others.

    Args:
        terminal: `[H]` float, score at the end of the round, minimised.
        area: `[H]` float, see `AREAS`, maximised.
        alive: `[H]` bool, false for lanes stopped before and for padding.
        survivors: Static, k of `seats`.
        by_area: Static, p of `seats`, at most k.

    Returns:
        `[survivors]` int32, distinct lanes: first those by terminal value, best first, then those by area.

    Raises:
        ValueError: Not 0 <= `by_area` <= `survivors` <= H.
    """
    lanes = terminal.shape[0]
    if not 0 <= by_area <= survivors <= lanes:
        raise ValueError(f"expected 0 <= by_area <= survivors <= {lanes} lanes, got {by_area}, {survivors}")
    lane = jnp.arange(lanes, dtype=jnp.int32)
    valid = jnp.isfinite(terminal)
    grade = jnp.where(alive, jnp.where(valid, 0, 1), 2)
    by_terminal = lax.sort((grade, jnp.where(grade == 0, terminal, 0), lane), num_keys=3)[-1][: survivors - by_area]
    left = jnp.ones(lanes, bool).at[by_terminal].set(False)
    steepness = jnp.where(grade == 0, jnp.where(jnp.isnan(area), -jnp.inf, area), 0)
    others = lax.sort((jnp.where(left, grade, 3), -steepness, lane), num_keys=3)[-1][:by_area]
    return jnp.concatenate([by_terminal, others])
