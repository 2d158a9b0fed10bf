"""The fluid model: start and end of every job of one schedule under shared bandwidth.

Accelerators run their jobs one at a time in priority order, each as soon as the accelerator is free and all
predecessors of the job have ended. A running job asks every resource of its accelerator for `bytes / duration`.
If the running jobs together ask a resource for more than its bandwidth, it grants each the same fraction of what it
asks for; a job's rate is the smallest of its grants (at most 1), and rates change only when a job starts or ends.
The grant also limits jobs that ask for little: a job without traffic is slowed by a resource that others fill, as in
the reference cases. This is MOHaM's temporal dilation, computed exactly; with one resource it is the bandwidth
allocator of G# (Algorithm 1). Jobs may also ask resources for amounts of their own (`Asks`), in place of those of their
accelerator.

Exactly one job ends per step, so the evaluation is a loop of J steps, J static. Its state is one waiting or running
job (the head) per accelerator. Jobs that end together take several steps, all but the first of length zero. Times are
continuous in the durations and the bandwidths, so that rounding never flips a decision.

Axes: J jobs (padded), W = ceil(J / 32) words of 32 bits, A accelerators (padded), R shared resources (padded).
Durations and bandwidths (bytes per time unit) may be in any time unit, the same for both.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import custom_batching, lax
from numpy.typing import ArrayLike

from mohamjax.runtime.blocks import in_blocks, varying
from mohamjax.runtime.checks import check_arrays
from mohamjax.runtime.platforms import by_platform
from mohamjax.runtime.struct import record
from mohamjax.schedule.timeline import SMOOTH, Fixed, Steps, reduced, scan, set_bits, with_asks

DONE, UNPLACED, DEADLOCK, ENDLESS = range(4)

REASONS = (
    "every job ended",
    "a job has no accelerator, or the order leaves a job out",
    "the order makes accelerators wait for each other",
    "a job never ends: its bandwidth is zero or its duration not finite",
)
"""What the reason codes DONE, UNPLACED, DEADLOCK and ENDLESS mean, by code."""


class Jobs(NamedTuple):
    """The jobs of one schedule, where they run and in which order; in this module, with a leading axis of schedules.

    Attributes:
        duration: `[J]` float >= 0, time of each job when nothing slows it; sets the dtype of the result.
        bytes: `[J]` float >= 0, off-chip traffic of each job, spread evenly over its duration (a job without
            duration has none).
        predecessor_bits: `[J, W]` uint32, see `predecessor_bits`. Predecessors are real jobs.
        accelerator: `[J]` int32, where each job runs.
        order: `[J]` int32, all jobs by priority, padded ones anywhere: a permutation of 0..J-1.
        job_mask: `[J]` bool, false for padded jobs, which run nowhere and take no time.
    """

    duration: jax.Array
    bytes: jax.Array
    predecessor_bits: jax.Array
    accelerator: jax.Array
    order: jax.Array
    job_mask: jax.Array


class Resources(NamedTuple):
    """What the accelerators of one schedule share; in this module, with a leading axis of schedules.

    Attributes:
        shared_uses: `[A, R]` bool or 0/1 float, which accelerator uses which shared resource.
        shared_bandwidth: `[R]` float, +inf for a resource that never limits (or is padding), 0 for one that
            lets nothing pass.
        private_bandwidth: `[A]` float, the least bandwidth among the resources that the accelerator has to
            itself; +inf where there is none (or the accelerator is padding).
    """

    shared_uses: jax.Array
    shared_bandwidth: jax.Array
    private_bandwidth: jax.Array


@record
class Timeline:
    """When each job of a schedule starts and ends.

    Attributes:
        start: `[J]` float, when each job first runs [time units]: exactly the latest end among its predecessors
            and the job before it on its accelerator; 0 for a padded job, +inf for a job that never starts.
        end: `[J]` float, end of each job [time units]; 0 for a padded job, +inf for a job that never ends.
        stall: `[J]` float, time lost to shared bandwidth, end - start - duration [time units]; 0 where that is no more
            than rounding, which grows with the jobs that end meanwhile (see `simulate`).
        makespan: `[]` float, the latest end; +inf unless every job ended.
        reason: `[]` int32, 0 (`DONE`) or why not every job ended, see `REASONS`.
    """

    start: jax.Array
    end: jax.Array
    stall: jax.Array
    makespan: jax.Array
    reason: jax.Array

    @property
    def ok(self) -> jax.Array:
        """`[]` bool, whether every job ended."""
        return self.reason == DONE


def padded_jobs(jobs: int) -> int:
    """Jobs padded to whole words of predecessor bits, at least one word: nearby numbers of jobs share a program."""
    return 32 * max(1, -(-jobs // 32))


def predecessor_bits(predecessors: Sequence[Sequence[int]], padded_jobs: int | None = None) -> np.ndarray:
    """Packs predecessor lists into bit masks.

    Args:
        predecessors: per job the indices of the jobs that must have ended before it starts.
        padded_jobs: J, at least the number of jobs (the default).

    Returns:
        `[J, ceil(J / 32)]` uint32; bit p % 32 of word p // 32 in row j says that p is a predecessor of j.

    Raises:
        ValueError: a predecessor is not one of the jobs, or `padded_jobs` is too small.
    """
    jobs = len(predecessors)
    padded = jobs if padded_jobs is None else padded_jobs
    if padded < jobs:
        raise ValueError(f"padded_jobs is {padded}, but there are {jobs} jobs")
    bits = np.zeros((padded, max(1, -(-padded // 32))), np.uint32)
    for job, before in enumerate(predecessors):
        for p in before:
            if not 0 <= p < jobs:
                raise ValueError(f"predecessor {p} of job {job} is not one of the {jobs} jobs")
            bits[job, p // 32] |= np.uint32(1 << (p % 32))
    return bits


def split_resources(
    resources_of_accelerator: Sequence[Sequence[int]],
    resource_bandwidth: ArrayLike,
    accelerators: int | None = None,
    resources: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Separates the resources that accelerators share from those that belong to one accelerator alone.

    Args:
        resources_of_accelerator: per accelerator the indices of its resources.
        resource_bandwidth: bandwidth of each resource [bytes per time unit].
        accelerators: A, at least the number of accelerators (the default) and 1.
        resources: R, at least the number of shared resources (the default) and 1.

    Returns:
        `shared_uses` `[A, R]` bool, `shared_bandwidth` `[R]` and `private_bandwidth` `[A]` float64, for `simulate`.

    Raises:
        ValueError: A or R is too small.
    """
    bandwidth = np.asarray(resource_bandwidth, float)
    users = np.zeros(len(bandwidth), int)
    for mine in resources_of_accelerator:
        users[list(set(mine))] += 1
    shared = np.flatnonzero(users > 1)
    rows = max(1, len(resources_of_accelerator)) if accelerators is None else accelerators
    columns = max(1, len(shared)) if resources is None else resources
    if rows < len(resources_of_accelerator) or columns < len(shared):
        raise ValueError(
            f"{len(resources_of_accelerator)} accelerators with {len(shared)} shared resources "
            f"do not fit {rows} by {columns}"
        )
    uses = np.zeros((rows, columns), bool)
    private = np.full(rows, np.inf)
    for a, mine in enumerate(resources_of_accelerator):
        uses[a, : len(shared)] = np.isin(shared, list(mine))
        private[a] = min((bandwidth[r] for r in mine if users[r] == 1), default=np.inf)
    padded = np.full(columns, np.inf)
    padded[: len(shared)] = bandwidth[shared]
    return uses, padded, private


_RUN = 32  # places that `link_at_once` compares with each other
_UNROLL = 8  # steps per iteration of the loop, except on CPUs


class _Outcome(NamedTuple):
    start: jax.Array  # [B, J]
    end: jax.Array  # [B, J]
    makespan: jax.Array  # [B]
    reason: jax.Array  # [B] i32


def link_by_walk(accelerator_at: jax.Array, accelerators: int) -> tuple[jax.Array, jax.Array]:
    """First place of every accelerator, and the next place of the same accelerator after each, by one walk backward.

    Args:
        accelerator_at: `[J, B]` i32, accelerator of the job at each place of the order, -1 for none.
        accelerators: A.

    Returns:
        `[A, B]` and `[J, B]` i32, J where there is none.
    """
    places, lanes = accelerator_at.shape
    ids = jnp.arange(accelerators, dtype=jnp.int32)[:, None]

    def step(first, at):
        place, accelerator = at
        mine = ids == accelerator[None, :]
        seen = jnp.where(mine, first, places)
        (following,) = reduced(lambda a, b: (jnp.minimum(a[0], b[0]),), (places,), (seen,))
        return jnp.where(mine, place, first), following

    first = varying(jnp.full((accelerators, lanes), places, jnp.int32), accelerator_at)
    return lax.scan(step, first, (jnp.arange(places, dtype=jnp.int32), accelerator_at), reverse=True)


def link_at_once(accelerator_at: jax.Array, accelerators: int) -> tuple[jax.Array, jax.Array]:
    """As `link_by_walk`, in a few wide steps: compares places within runs, and runs by their first places."""
    places, lanes = accelerator_at.shape
    at = jnp.pad(accelerator_at, ((0, -places % _RUN), (0, 0)), constant_values=-1).reshape(-1, _RUN, lanes)
    runs = at.shape[0]
    number = jnp.arange(runs * _RUN, dtype=jnp.int32).reshape(runs, _RUN, 1)
    ids = jnp.arange(accelerators, dtype=jnp.int32)[None, None, :, None]
    mine = at[:, :, None, :] == ids  # [runs, RUN, A, B]
    first = jnp.min(jnp.where(mine, number[:, :, None], places), axis=1)  # [runs, A, B]
    later = jnp.triu(jnp.ones((runs, runs), bool), 1)[:, :, None, None]
    after = jnp.min(jnp.where(later, first[None], places), axis=1)
    later = jnp.triu(jnp.ones((_RUN, _RUN), bool), 1)[None, :, :, None]
    within = jnp.where(later & (at[:, :, None] == at[:, None]), number[:, None], places)
    beyond = jnp.min(jnp.where(mine, after[:, None], places), axis=2)
    following = jnp.minimum(jnp.min(within, axis=2), beyond)
    # A place without an accelerator has no next place.
    following = jnp.where((at >= 0) & (at < accelerators), following, places)
    return jnp.min(first, axis=0), following.reshape(-1, lanes)[:places]


def _schedules(jobs: Jobs, resources: Resources) -> int:
    """B: arrays have a leading axis of B schedules, or of 1 where all schedules share the array."""
    return max(x.shape[0] for x in (*jobs, *resources))


def simulate_block(
    jobs: Jobs,
    resources: Resources,
    link: Callable[[jax.Array, int], tuple[jax.Array, jax.Array]] = link_by_walk,
    steps: Callable[[jax.Array, Fixed], Steps] = scan,
    compact: bool = False,
) -> _Outcome:
    """Simulates B schedules side by side; every array has a leading axis of B or 1.

    If `compact`, `shared_uses` stays bool, a byte each; otherwise it becomes float, by which a CPU multiplies faster.
    """
    duration, traffic, bits, accelerator, order, mask = jobs
    uses, shared, private = resources
    dtype = duration.dtype
    uses = uses.astype(bool)
    lanes = _schedules(jobs, resources)
    words = bits.shape[2]
    accelerators, places = uses.shape[1], order.shape[1]
    names_a_job = (order >= 0) & (order < places)  # no job runs at a place that names none
    order = jnp.where(names_a_job, order, 0)

    def whole(x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(x, (lanes, *x.shape[1:]))

    def ordered(x: jax.Array) -> jax.Array:
        return jnp.take_along_axis(whole(x), whole(order), axis=1, mode="promise_in_bounds")

    accelerator_at = jnp.where(whole(names_a_job), ordered(jnp.where(mask, accelerator, -1)), -1)
    first, following = link(accelerator_at.T, accelerators)
    at_full = jnp.where(duration > 0, traffic.astype(dtype) / jnp.where(duration > 0, duration, 1.0), 0.0)
    records = jnp.stack(
        [following.T.astype(dtype), whole(order).astype(dtype), ordered(duration), ordered(at_full)], axis=-1
    )
    lane = jnp.arange(lanes, dtype=jnp.int32)
    has_all = (private > 0) & jnp.all(~uses | (shared > 0)[:, None, :], axis=2)
    fixed = Fixed(
        records=records.reshape(-1),
        base=lane * places,
        bits=bits.reshape(-1),
        bits_base=lane * (places * words) if bits.shape[0] > 1 else jnp.zeros_like(lane),
        uses=jnp.moveaxis(whole(uses if compact else uses.astype(dtype)), 0, -1),
        shared=whole(jnp.where(shared > 0, shared, jnp.inf)).T.astype(dtype),
        inverse_private=whole(jnp.where(has_all, 1.0 / private, jnp.inf)).T.astype(dtype),
        jobs=places,
        words=words,
    )
    state, ended, starts, ends = steps(first, fixed)

    never = whole(jnp.where(mask, jnp.inf, 0.0).astype(dtype))
    end = never.at[lane[None, :], ended].set(ends, mode="drop")
    running = state.pending == 0
    start = never.at[lane[None, :], jnp.where(running, state.job, places)].set(state.started, mode="drop")
    start = start.at[lane[None, :], ended].set(starts, mode="drop")
    all_ended = set_bits(state.done) == jnp.sum(mask, axis=1, dtype=jnp.int32)
    placed = jnp.all(~mask | ((accelerator >= 0) & (accelerator < accelerators)), axis=1)
    waiting = jnp.any(state.pending <= places, axis=0)
    stuck = jnp.where(jnp.any(running, axis=0), ENDLESS, jnp.where(placed & waiting, DEADLOCK, UNPLACED))
    return _Outcome(
        start=start,
        end=end,
        makespan=jnp.where(all_ended, state.time, jnp.inf),
        reason=jnp.where(all_ended, DONE, stuck).astype(jnp.int32),
    )


def _blocks(jobs: Jobs, resources: Resources) -> _Outcome:
    """Simulates B schedules in blocks whose state stays in the CPU's cache."""
    lanes = _schedules(jobs, resources)
    # Arrays of 8 KiB: larger ones do not fit the first cache, and XLA splits the work on them among threads, which
    # costs more than it saves (measured by experiments/bench_fluid.py).
    most = max(32, 8192 // (jobs.duration.dtype.itemsize * resources.shared_uses.shape[1]))
    if lanes <= most:
        return simulate_block(jobs, resources)
    leaves, structure = jax.tree.flatten((jobs, resources))

    def one(varying: list[jax.Array]) -> _Outcome:
        rest = iter(varying)
        return simulate_block(*structure.unflatten(next(rest) if x.shape[0] > 1 else x for x in leaves))

    return in_blocks(one, [x for x in leaves if x.shape[0] > 1], most)


@custom_batching.custom_vmap
def _population(jobs: Jobs, resources: Resources) -> _Outcome:
    """Simulates B schedules; vmapping it makes B larger instead of adding an axis.

    One schedule is a population of one. So a caller's `jax.vmap(simulate)` runs code whose trailing axis is the
    population, which on a CPU compiles to loops several times as fast as XLA's own batching gives.
    """
    at_once = functools.partial(simulate_block, link=link_at_once, compact=True)
    wide = functools.partial(at_once, steps=functools.partial(scan, unroll=_UNROLL))
    kernel = functools.partial(at_once, steps=_in_registers) if jobs.duration.dtype == jnp.float32 else None
    return by_platform(jobs, resources, cpu=_blocks, wide=wide, kernel=kernel, both=True)


def _in_registers(first: jax.Array, fixed: Fixed) -> Steps:
    from mohamjax.schedule.timeline_kernel import run  # Pallas takes time to import

    return run(first, fixed)


@_population.def_vmap
def _(
    axis_size: int, in_batched: tuple[Jobs, Resources], jobs: Jobs, resources: Resources
) -> tuple[_Outcome, _Outcome]:
    axes = jax.tree.map(lambda x, batched: x.shape[1 if batched else 0], (jobs, resources), tuple(in_batched))
    lanes = max(jax.tree.leaves(axes))
    if not axis_size:  # no schedule, which `flat` could not tell from one that all share
        time = jnp.zeros((0, lanes, jobs.order.shape[-1]), jobs.duration.dtype)
        none = _Outcome(start=time, end=time, makespan=time[..., 0], reason=jnp.zeros((0, lanes), jnp.int32))
        return none, jax.tree.map(lambda _: True, none)

    def flat(x: jax.Array, batched: bool) -> jax.Array:
        if not batched and x.shape[0] == 1:
            return x  # shared by all
        x = x if batched else x[None]
        return jnp.broadcast_to(x, (axis_size, lanes, *x.shape[2:])).reshape(axis_size * lanes, *x.shape[2:])

    outcome = _population(*jax.tree.map(flat, (jobs, resources), tuple(in_batched)))
    unflat = jax.tree.map(lambda x: x.reshape(axis_size, lanes, *x.shape[1:]), outcome)
    return unflat, jax.tree.map(lambda _: True, outcome)


@jax.custom_jvp
def _differentiable(jobs: Jobs, resources: Resources) -> _Outcome:
    """`_population` with derivatives, which neither custom batching rules nor kernels have in both modes.

    They are the derivatives of the same steps as plain array operations, which run once more for them.
    """
    return _population(jobs, resources)


@_differentiable.defjvp
def _(primals: tuple[Jobs, Resources], tangents: tuple[Jobs, Resources]) -> tuple[_Outcome, _Outcome]:
    smooth = functools.partial(simulate_block, steps=functools.partial(scan, means=SMOOTH))
    return _differentiable(*primals), jax.jvp(smooth, primals, tangents)[1]


def _amounts(values: ArrayLike, dtype: np.dtype) -> jax.Array:
    """Amounts as floats: integers of the host may be beyond those of JAX, which would wrap around."""
    whole = not jnp.issubdtype(jnp.result_type(values), jnp.floating)
    return jnp.asarray(values, dtype) if whole else jnp.asarray(values)


def _indices(values: ArrayLike) -> jax.Array:
    """Indices as int32. Larger ones become the largest, which names nothing either, instead of wrapping around."""
    if isinstance(values, np.ndarray):
        values = np.clip(values.astype(np.int64), -1, 2**31 - 1)
    values = jnp.asarray(values)
    if values.dtype.itemsize >= 4 and values.dtype != jnp.int32:
        values = jnp.clip(values, -1 if jnp.issubdtype(values.dtype, jnp.signedinteger) else 0, 2**31 - 1)
    return values.astype(jnp.int32)


def _run(jobs: Jobs, resources: Resources) -> _Outcome:
    dtype = jnp.asarray(jobs.duration).dtype
    if dtype not in (jnp.float32, jnp.float64):  # records hold indices as floats, and times need the digits
        raise ValueError(f"duration is {dtype}, expected float32 or float64")
    jobs = jobs._replace(
        bytes=_amounts(jobs.bytes, dtype), accelerator=_indices(jobs.accelerator), order=_indices(jobs.order)
    )
    resources = resources._replace(
        shared_bandwidth=_amounts(resources.shared_bandwidth, dtype),
        private_bandwidth=_amounts(resources.private_bandwidth, dtype),
    )
    outcome = _differentiable(*jax.tree.map(lambda x: jnp.asarray(x)[None], (jobs, resources)))
    return jax.tree.map(lambda x: x[0], outcome)


def _check(jobs: Jobs, resources: Resources) -> None:
    """Raises ValueError where arguments of `simulate` do not fit each other."""
    shape = np.shape(jobs.duration)
    if len(shape) != 1:
        remedy = "; this takes one schedule: jax.vmap(simulate) takes many" if len(shape) > 1 else ""
        raise ValueError(f"duration: expected shape [J], got {shape}{remedy}")
    if not shape[0]:
        raise ValueError("duration: expected at least one job, padded ones included, got shape (0,)")
    accelerators, shared = np.shape(resources.private_bandwidth), np.shape(resources.shared_bandwidth)
    if accelerators == (0,):
        raise ValueError("private_bandwidth: expected at least one accelerator, got shape (0,)")
    expected = {
        "bytes": shape,
        "predecessor_bits": (*shape, max(1, -(-shape[0] // 32))),
        "accelerator": shape,
        "order": shape,
        "shared_uses": (*accelerators[:1], *shared[:1]),
        "shared_bandwidth": shared[:1],
        "private_bandwidth": accelerators[:1],
        "job_mask": shape,
    }
    kinds = {"duration": float, "predecessor_bits": np.uint32, "accelerator": int, "order": int, "job_mask": bool}
    check_arrays("", jobs._asdict() | resources._asdict(), expected, kinds)


def simulate(
    duration: jax.Array,
    bytes: jax.Array,
    predecessor_bits: jax.Array,
    accelerator: jax.Array,
    order: jax.Array,
    shared_uses: jax.Array,
    shared_bandwidth: jax.Array,
    private_bandwidth: jax.Array,
    job_mask: jax.Array,
) -> Timeline:
    """Start and end of every job of one schedule.

    Pure and traceable; the caller vmaps and jits. Recompiles only for new padded sizes J, A, R or a new dtype.

    Times are off by rounding: every job that ends while another runs may move the end of that one by half a unit in
    the last place. Beside n such jobs, a long one may be off by n * eps / 2 of its end: 0.02 % for 4,000 in single
    precision. A stall is told where it is more than that, and more than 16 * eps of the end; smaller ones need double
    precision.

    Args:
        duration: `[J]` float >= 0, time of each job when nothing slows it; sets the dtype of the result.
        bytes: `[J]` float >= 0, off-chip traffic of each job, spread evenly over its duration (a job without
            duration has none).
        predecessor_bits: `[J, W]` uint32, see `predecessor_bits`. Predecessors are real jobs.
        accelerator: `[J]` int32, where each job runs.
        order: `[J]` int32, all jobs by priority, padded ones anywhere: a permutation of 0..J-1.
        shared_uses: `[A, R]` bool or 0/1 float, which accelerator uses which shared resource.
        shared_bandwidth: `[R]` float, +inf for a resource that never limits (or is padding), 0 for one that
            lets nothing pass.
        private_bandwidth: `[A]` float, the least bandwidth among the resources that the accelerator has to
            itself; +inf where there is none (or the accelerator is padding).
        job_mask: `[J]` bool, false for padded jobs, which run nowhere and take no time.

    Returns:
        The timeline. A schedule that cannot end has an infinite makespan, and `reason` says why. If the order is
        topological and every job is on an accelerator with bandwidth, every job ends.

    Raises:
        ValueError: a shape does not fit the others, a dtype is wrong, or there is no job or no accelerator, at trace
            time.

    Examples:
        Two jobs of 4 time units on two accelerators; each asks for 2 bytes per time unit of a memory that has 3.

        >>> timeline = jax.jit(simulate)(
        ...     duration=jnp.array([4.0, 4.0]),
        ...     bytes=jnp.array([8.0, 8.0]),
        ...     predecessor_bits=jnp.zeros((2, 1), jnp.uint32),
        ...     accelerator=jnp.array([0, 1]),
        ...     order=jnp.array([0, 1]),
        ...     shared_uses=jnp.ones((2, 1)),
        ...     shared_bandwidth=jnp.array([3.0]),
        ...     private_bandwidth=jnp.array([jnp.inf, jnp.inf]),
        ...     job_mask=jnp.array([True, True]),
        ... )
        >>> print(f"{timeline.makespan:.3f}")
        5.333
    """
    jobs = Jobs(duration, bytes, predecessor_bits, accelerator, order, job_mask)
    return timeline_of(jobs, Resources(shared_uses, shared_bandwidth, private_bandwidth))


_ROUNDING = 16  # error of the difference of an end and a start, in units of the last place of the end, of a short run


def _rounding(start: jax.Array, end: jax.Array) -> jax.Array:
    """`[J]`, most of the difference of an end and a start that is rounding.

    Each job that ends during a run rounds the clock and the remaining time of the run, by half a unit together.
    """
    start, end = lax.stop_gradient((start, end))
    ends = jnp.sort(end)
    beside = jnp.searchsorted(ends, end, side="right") - jnp.searchsorted(ends, start, side="right")
    return jnp.maximum(_ROUNDING, beside.astype(end.dtype) / 2) * jnp.finfo(end.dtype).eps * end


def timeline_of(jobs: Jobs, resources: Resources) -> Timeline:
    """Start and end of every job of one schedule: `simulate` with its arguments in two records."""
    _check(jobs, resources)
    return _timeline(jobs, _run(jobs, resources))


class Asks(NamedTuple):
    """What the jobs of one schedule ask of resources, where that differs from job to job on one accelerator.

    Attributes:
        amount: `[J, R]` float >= 0, bytes that each job moves through each resource, spread evenly over its duration.
        binds: `[J, R]` bool, whether the resource slows the job, also one that asks it for nothing.
        bandwidth: `[R]` float > 0, +inf for a resource that never limits [bytes per time unit].
    """

    amount: jax.Array
    binds: jax.Array
    bandwidth: jax.Array


def timeline_of_asks(jobs: Jobs, asks: Asks, accelerators: int) -> Timeline:
    """Start and end of every job of one schedule whose jobs ask resources for amounts of their own.

    The same loop as that of `simulate`, as array operations. Pure and traceable; the caller vmaps and jits.

    Args:
        jobs: the jobs; their `bytes` count for nothing.
        asks: what they ask for.
        accelerators: A, static.
    """
    duration = jobs.duration[:, None]
    rate = jnp.where(duration > 0, asks.amount / jnp.where(duration > 0, duration, 1.0), 0.0)
    alone = jnp.full(accelerators, jnp.inf, duration.dtype)
    none = Resources(jnp.zeros((accelerators, 1), bool), alone[:1], alone)
    steps = functools.partial(scan, means=with_asks(rate, asks.binds, asks.bandwidth))
    own = jobs._replace(bytes=jnp.zeros_like(jobs.duration))
    outcome = simulate_block(*jax.tree.map(lambda x: jnp.asarray(x)[None], (own, none)), steps=steps)
    return _timeline(jobs, jax.tree.map(lambda x: x[0], outcome))


def _timeline(jobs: Jobs, outcome: _Outcome) -> Timeline:
    start, end, makespan, reason = outcome
    lost = end - start - jnp.where(jobs.job_mask, jobs.duration, 0.0)
    lost = jnp.where(lost > _rounding(start, end), lost, 0.0)
    return Timeline(start=start, end=end, stall=jnp.where(end < jnp.inf, lost, end), makespan=makespan, reason=reason)
