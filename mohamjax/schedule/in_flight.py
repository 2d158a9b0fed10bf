"""Frames in flight as a search measures them: they follow one another without a pause, as fast as the package can.

A chiplet runs frames turn by turn, in the order in which their rates would release them, and those of one turn in the
order of the design, so that frames overlap. At most K periods are in flight: a period begins when the one K periods
before it has ended. Without that, chiplets with little work would run ahead, and their traffic would be missing in the
periods that are measured. The time from the end of one period to the end of the next is measured while later periods
keep all chiplets busy; a period is at least as long as its work occupies any chiplet, interface or link. Everything
else is the fluid model; `schedule.periods` runs designs at the rates that users ask for.

Axes: J jobs (padded), layers of frames; W words of 32 bits; K periods; S tiles; R shared resources.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mohamjax.runtime.struct import record
from mohamjax.schedule.fluid import Jobs, Resources, Timeline


@record
class FrameJobs:
    """The layers of all frames of 2 K periods, of which the second half of the first K is measured.

    Attributes:
        layer: `[J]` int32, layer of each job; 0 where padded.
        turn: `[J]` int32, jobs of an earlier turn run first; padded jobs have the latest turn.
        period: `[J]` int32, period that the job belongs to; -1 for padded jobs and for networks that run once.
        weight: `[J]` float, the job's part in the work of a mean period: frames of its network per period over all its
            frames; 0 for padded jobs and for networks that run once.
        mask: `[J]` bool, the job exists.
        predecessor_bits: `[J, W]` uint32, bit set of each job's predecessors.
        periods: `[K]` int32, 0 to K - 1; K is 2 or more.
    """

    layer: jax.Array
    turn: jax.Array
    period: jax.Array
    weight: jax.Array
    mask: jax.Array
    predecessor_bits: jax.Array
    periods: jax.Array


@record
class SteadyState:
    """Steady state of a package whose frames follow one another without a pause; infinite where they cannot run.

    Attributes:
        period: `[]` float, s from the end of one period to that of the next, mean over the measured ones, or the time
            for which the work of a mean period occupies a chiplet or a shared resource, if that is longer.
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
    timeline: Timeline, scheduled: Jobs, resources: Resources, frames: FrameJobs, chiplets: jax.Array
) -> SteadyState:
    """The steady state of a timeline of frames.

    A period has ended when all its frames and all earlier ones have. The work of a period counts whenever it is done.
    Where the measured periods have more or fewer frames than mean ones (their rates are no whole multiples), they count
    by their work.

    Args:
        timeline: start and end of each job [time units].
        scheduled: the jobs of the timeline.
        resources: what the chiplets share.
        frames: the frames that the jobs belong to.
        chiplets: `[]` number of chiplets.

    Returns:
        The steady state, its period in the unit of the timeline.
    """
    count = frames.periods.shape[0]
    half = (count - 1) // 2
    at = jnp.where(frames.period >= 0, frames.period, count)
    ends = jax.lax.cummax(jnp.zeros(count, timeline.end.dtype).at[at].max(timeline.end, mode="drop"))

    own = resources.private_bandwidth[scheduled.accelerator]
    alone = jnp.where(scheduled.job_mask, jnp.maximum(scheduled.duration, scheduled.bytes / own), 0.0)
    weight = frames.weight.astype(alone.dtype)
    inside = (frames.period > half) & (frames.period < count)
    seen = jnp.sum(jnp.where(inside, alone, 0.0))
    mean = jnp.where(seen > 0, jnp.sum(weight * alone) / jnp.where(seen > 0, seen, 1.0), 0.0)

    def by_chiplet(values: jax.Array) -> jax.Array:
        return jnp.zeros_like(resources.private_bandwidth, alone.dtype).at[scheduled.accelerator].add(weight * values)

    through = jnp.sum(by_chiplet(scheduled.bytes)[:, None] * resources.shared_uses, axis=0)
    shared = jnp.where(through > 0, through / jnp.where(through > 0, resources.shared_bandwidth, 1), 0.0)
    period = (ends[-1] - ends[half]) * mean
    period = jnp.maximum(period, jnp.maximum(jnp.max(by_chiplet(alone)), jnp.max(shared)))
    busy = jnp.sum(jnp.where(inside, timeline.end - timeline.start, 0.0)) * mean
    inf = jnp.asarray(jnp.inf, period.dtype)
    return SteadyState(
        period=jnp.where(timeline.ok, period, inf),
        idle=jnp.where(timeline.ok, jnp.maximum(1 - busy / (period * chiplets), 0.0), inf),
    )
