"""Frames in flight as a search measures them: they follow one another without a pause, as fast as the package can.

All frames of several periods are available from the start. A chiplet runs them turn by turn, in the order in which
their rates would release them, and those of one turn in the order of the design, so that frames overlap. The time from
the end of one period to the end of the next is measured: the shortest period that the package can sustain. Everything
else is the fluid model; `schedule.periods` runs designs at the rates that users ask for.

Axes: J jobs (padded), layers of frames; W words of 32 bits; K periods; S tiles.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mohamjax.runtime.struct import record


@record
class FrameJobs:
    """The layers of all frames of K periods.

    Attributes:
        layer: `[J]` int32, layer of each job; 0 where padded.
        turn: `[J]` int32, jobs of an earlier turn run first; padded jobs have the latest turn.
        period: `[J]` int32, period that the job belongs to; -1 for padded jobs and for networks that run once.
        mask: `[J]` bool, the job exists.
        predecessor_bits: `[J, W]` uint32, bit set of each job's predecessors.
        periods: `[K]` int32, 0 to K - 1; K is 2 or more.
    """

    layer: jax.Array
    turn: jax.Array
    period: jax.Array
    mask: jax.Array
    predecessor_bits: jax.Array
    periods: jax.Array


@record
class SteadyState:
    """Steady state of a package whose frames follow one another without a pause; infinite where they cannot run.

    Attributes:
        period: `[]` float, s from the end of one period to that of the next, mean over the second half of the periods.
        idle: `[]` float, share of that time in which a chiplet runs no layer, mean over the chiplets.
    """

    period: jax.Array
    idle: jax.Array


def job_order(order: jax.Array, jobs: FrameJobs) -> jax.Array:
    """Order of the jobs by turn, then by the design's order `[L]`: `[J]` int32."""
    layers = order.shape[0]
    place = jnp.zeros(layers, jnp.int32).at[order].set(jnp.arange(layers, dtype=jnp.int32))
    return jnp.argsort(jobs.turn * layers + place[jobs.layer]).astype(jnp.int32)


def steady_state(
    start: jax.Array, end: jax.Array, jobs: FrameJobs, chiplets: jax.Array, runs: jax.Array
) -> SteadyState:
    """The steady state of a timeline of frames.

    A period has ended when all its frames and all earlier ones have. The work of a period counts whenever it is done,
    since at both ends of a finite timeline some chiplets run ahead of others or wait for them.

    Args:
        start: `[J]` float, start of each job [s].
        end: `[J]` float, end of each job [s].
        jobs: the jobs of the timeline.
        chiplets: `[]` number of chiplets.
        runs: `[]` bool, whether the timeline ends.
    """
    count = jobs.periods.shape[0]
    half = (count - 1) // 2
    at = jnp.where(jobs.period >= 0, jobs.period, count)
    ends = jax.lax.cummax(jnp.zeros(count, end.dtype).at[at].max(end, mode="drop"))
    span = ends[-1] - ends[half]
    busy = jnp.sum(jnp.where(jobs.period > half, end - start, 0.0))
    inf = jnp.asarray(jnp.inf, end.dtype)
    return SteadyState(
        period=jnp.where(runs, span / (count - 1 - half), inf),
        idle=jnp.where(runs, jnp.maximum(1 - busy / (span * chiplets), 0.0), inf),
    )
