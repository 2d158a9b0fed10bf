"""The fluid model in its most readable form: a plain event simulation, exact with fractions, slow on purpose.

It shares nothing with `mohamjax.schedule.fluid` but the rule: it keeps all jobs in one list, looks at everything
after every event, and ends all jobs that end together at once.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple


class PlainSchedule(NamedTuple):
    start: list  # per job, None where it never starts
    end: list  # per job, None where it never ends
    makespan: Any  # None unless every job ended
    pieces: list  # per job, [(from, to, rate)] with constant rate between two events
    use: list  # per event interval, (from, to, [bytes per time unit through each resource])


def simulate(
    duration: Sequence,
    bytes_: Sequence,
    predecessors: Sequence[Sequence[int]],
    accelerator: Sequence[int],
    order: Sequence[int],
    resources_of_accelerator: Sequence[Sequence[int]],
    bandwidth: Sequence,
    number=Fraction,
    release: Sequence | None = None,
) -> PlainSchedule:
    """Simulates one schedule; `number` is Fraction for exact results or float for speed.

    No job starts before its release (default: 0 for all).
    """
    used = [resources_of_accelerator[a] if 0 <= a < len(resources_of_accelerator) else [] for a in accelerator]
    asks = [[b if r in own else 0 for r in range(len(bandwidth))] for b, own in zip(bytes_, used, strict=True)]
    count = len(resources_of_accelerator)
    return simulate_asks(
        duration, asks, predecessors, accelerator, order, used, bandwidth, count, number=number, release=release
    )


def simulate_asks(
    duration: Sequence,
    asks: Sequence[Sequence],
    predecessors: Sequence[Sequence[int]],
    accelerator: Sequence[int],
    order: Sequence[int],
    resources_of_job: Sequence[Sequence[int]],
    bandwidth: Sequence,
    accelerators: int,
    number=Fraction,
    release: Sequence | None = None,
) -> PlainSchedule:
    """As `simulate`, where every job asks each resource for bytes of its own and is slowed by resources of its own."""
    jobs = range(len(duration))
    free = [number(0) for _ in jobs] if release is None else [number(t) for t in release]
    remaining = [number(d) for d in duration]
    demand = [[number(b) / number(d) if d else number(0) for b in own] for own, d in zip(asks, duration, strict=True)]
    bandwidth = [b if b == float("inf") else number(b) for b in bandwidth]
    queues = [[j for j in order if accelerator[j] == a] for a in range(accelerators)]
    start: list = [None] * len(duration)
    end: list = [None] * len(duration)
    pieces: list = [[] for _ in jobs]
    use = []
    now = number(0)
    while True:
        ready = [q[0] for q in queues if q and all(end[p] is not None for p in predecessors[q[0]])]
        running = [j for j in ready if free[j] <= now]
        waiting = [free[j] - now for j in ready if free[j] > now]
        for j in running:
            if start[j] is None:
                start[j] = now
        grant = []
        for r, most in enumerate(bandwidth):
            asked = sum((demand[j][r] for j in running), number(0))
            grant.append(number(1) if asked <= most else most / asked)
        rate = {j: min([number(1), *(grant[r] for r in resources_of_job[j])]) for j in running}
        moving = [j for j in running if rate[j] > 0 or remaining[j] == 0]
        if not moving and not waiting:
            break
        step = min([*waiting, *(remaining[j] / rate[j] if remaining[j] else number(0) for j in moving)])
        if step:
            through = [sum((demand[j][r] * rate[j] for j in moving), number(0)) for r in range(len(bandwidth))]
            use.append((now, now + step, through))
        # Decide which jobs end before anything moves, so that this works with floats too.
        over = [j for j in moving if remaining[j] == 0 or remaining[j] / rate[j] == step]
        for j in moving:
            if step:
                pieces[j].append((now, now + step, rate[j]))
            remaining[j] = max(remaining[j] - step * rate[j], number(0))
        now += step
        for j in over:
            end[j] = now
            queues[accelerator[j]].pop(0)
    makespan = None if any(e is None for e in end) else max(end, default=number(0))
    return PlainSchedule(start, end, makespan, pieces, use)
