"""Several frames in flight: a design whose networks run periodically, each at its own rate.

Frame k of a network is released k periods after the start; a network without a rate runs once. A chiplet runs its
layers by release, those of one release in the order of the design: as in a single frame, it waits for the next one in
this order. Everything else is the fluid model. It includes a clock: an accelerator of its own, without traffic, whose
jobs last from one release to the next and precede the first layers of the frames that they release.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from mohamjax.errors import InputError
from mohamjax.hardware import PackageParameters
from mohamjax.schedule.design import CYCLE_S, Design, DesignReport
from mohamjax.schedule.explain import shared_resources
from mohamjax.schedule.fluid import REASONS, Timeline, padded_jobs, predecessor_bits, simulate, split_resources
from mohamjax.schedule.in_flight import FrameJobs
from mohamjax.schedule.segments import flow
from mohamjax.workload import ApplicationModel

_LONGEST_S = 1e9

_MOST_JOBS = 4096  # `flow` takes memory by the square of the number of jobs

_MOST_FLYING = 8192  # layers of frames in flight


@dataclasses.dataclass(frozen=True, eq=False)
class Frames:
    """F frames of networks, sorted by release, then by network.

    Attributes:
        network: `[F]` int, network of each frame.
        number: `[F]` int, number of the frame among those of its network, from 0.
        release: `[F]` float64, time of release [s].
    """

    network: np.ndarray
    number: np.ndarray
    release: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class PeriodicSchedule:
    """A design over several periods.

    Attributes:
        frames: the frames that were released.
        layer: `[J]` int, layer of every job; jobs are layers of frames.
        frame: `[J]` int, frame of every job.
        start: `[J]` float64, s.
        end: `[J]` float64, s.
        latency: `[F]` float64, s from the release of every frame until its last layer has ended.
        throughput: per network, frames per second that end in the steady state (the second half of its frames); nan
            for networks with fewer than three frames.
        worst_lateness: s, the largest latency minus deadline; -inf where no network has a deadline.
        missed: number of frames that end after their deadline, by more than rounding.
        busy: `[S]` float64, share of the steady state (the second half of the periods, rounded up to whole ones) in
            which each tile's chiplet runs a layer.
        used: by name, the share of each shared resource's bandwidth that is used in the steady state, without unlimited
            resources and those that no chiplet uses.
    """

    frames: Frames
    layer: np.ndarray
    frame: np.ndarray
    start: np.ndarray
    end: np.ndarray
    latency: np.ndarray
    throughput: tuple[float, ...]
    worst_lateness: float
    missed: int
    busy: np.ndarray
    used: dict[str, float]


def frames_of(application: ApplicationModel, periods: int) -> Frames:
    """The frames that are released during a number of periods of the slowest network.

    Args:
        application: networks.
        periods: at least 1.

    Raises:
        InputError: no network has a frame rate, or `periods` is below 1.
    """
    rates = [network.frames_per_second for network in application.networks]
    if not any(rates):
        raise InputError(
            "no network has a frame rate", item="networks", remedy="give `frames_per_second` in the scenario"
        )
    return _frames(rates, periods)


def _frames(rates: list[float], periods: int, most: int = _MOST_JOBS) -> Frames:
    """Frames of networks with these rates, at least one of them above zero; `most` of them at most."""
    if periods < 1:
        raise InputError(f"is {periods}", item="periods", remedy="take at least 1")
    if periods > most:
        raise _too_many(f"over 1e{len(str(periods)) - 1} frames", most)
    slowest = min(rate for rate in rates if rate)
    # A release at the very end, up to rounding, belongs to the next period.
    wanted = [periods * (rate / slowest) * (1 - 1e-12) if rate else 1.0 for rate in rates]
    if sum(wanted) > most:
        raise _too_many(f"{sum(wanted):.3g} frames", most)
    counts = [math.ceil(count) for count in wanted]
    network = np.repeat(np.arange(len(rates)), counts)
    number = np.concatenate([np.arange(count) for count in counts])
    release = np.asarray([k / rates[n] if k else 0.0 for n, k in zip(network, number, strict=True)])
    if release.max() > _LONGEST_S:
        told = f"are {periods} periods of {1 / slowest:.3g} s"
        raise InputError(told, item="periods", remedy="give higher frame rates, or take fewer")
    release = _snapped(release, 1e-9 / max(rates))
    order = np.lexsort((network, release))
    return Frames(network=network[order], number=number[order], release=release[order])


def _snapped(release: np.ndarray, tolerance: float) -> np.ndarray:
    """Times, of which those that differ by rounding alone are the same: the earliest of them."""
    order = np.argsort(release, kind="stable")
    first = np.diff(release[order], prepend=-np.inf) > tolerance
    snapped = np.empty_like(release)
    snapped[order] = release[order][first][np.cumsum(first) - 1]
    return snapped


def rates_of(application: ApplicationModel) -> list[float]:
    """Frames per second of the networks; 1 for each if no network has a rate."""
    rates = [network.frames_per_second for network in application.networks]
    return rates if any(rates) else [1.0] * len(rates)


def frame_jobs(application: ApplicationModel, periods: int) -> FrameJobs:
    """The layers of all frames for measuring a number of periods of the slowest network, NumPy leaves.

    If no network has a rate, each has one frame per period; otherwise a network without a rate has one frame in all.

    Args:
        application: networks.
        periods: K, at least 2: most periods in flight.

    Raises:
        InputError: there are too many jobs, or `periods` is below 2.
    """
    if periods < 2:
        raise InputError(f"is {periods}", item="periods", remedy="a steady state takes 2 at least")
    rates = np.asarray(rates_of(application))
    frames = _frames(rates.tolist(), 2 * periods, _MOST_FLYING)
    layer, frame = _layers_of(frames, application)
    if len(layer) > _MOST_FLYING:
        raise _too_many(f"{len(layer):,} layers of frames in twice as many periods", _MOST_FLYING)
    # A release on the border, up to rounding, begins a period.
    period = np.minimum(frames.release * rates[rates > 0].min() + 1e-9, 2 * periods - 1).astype(np.int32)
    period = np.asarray(np.where(rates[frames.network] > 0, period, -1))[frame]
    before = _predecessors(layer, frame, application)
    followed = {p for needs in before for p in needs}
    last = [[int(j) for j in np.flatnonzero(period == k) if j not in followed] for k in range(periods)]
    for needs, k in zip(before, period.tolist(), strict=True):
        if not needs and k >= periods:
            needs += last[k - periods]
    weight = rates / rates[rates > 0].min() / np.bincount(frames.network, minlength=len(rates))
    _, turn = np.unique(frames.release, return_inverse=True)
    padded = padded_jobs(len(layer))
    room = 0, padded - len(layer)
    columns: dict[str, Any] = {
        "layer": np.pad(layer.astype(np.int32), room),
        "turn": np.pad(turn[frame].astype(np.int32), room, constant_values=turn.max() + 1),
        "period": np.pad(period.astype(np.int32), room, constant_values=-1),
        "weight": np.pad(weight[frames.network[frame]], room),
        "mask": np.arange(padded) < len(layer),
        "predecessor_bits": predecessor_bits(before, padded),
        "periods": np.arange(periods, dtype=np.int32),
    }
    return FrameJobs(**columns)


def _layers_of(frames: Frames, application: ApplicationModel) -> tuple[np.ndarray, np.ndarray]:
    """Layer and frame of each job, `[J]` each: all layers of a frame, frame by frame."""
    owner = np.asarray(application.network_of_layer)
    members = [np.flatnonzero(owner == n) for n in range(len(application.networks))]
    layer = np.concatenate([members[n] for n in frames.network])
    frame = np.repeat(np.arange(len(frames.network)), [len(members[n]) for n in frames.network])
    return layer, frame


def _predecessors(layer: np.ndarray, frame: np.ndarray, application: ApplicationModel) -> list[list[int]]:
    """Jobs of the same frame that each job waits for."""
    pairs = list(zip(frame.tolist(), layer.tolist(), strict=True))
    job = {pair: k for k, pair in enumerate(pairs)}
    return [[job[f, p] for p in application.layers[i].predecessors] for f, i in pairs]


def _too_many(told: str, most: int = _MOST_JOBS) -> InputError:
    return InputError(told, item="periods", remedy=f"take fewer: at most {most:,} together")


@functools.cache
def _simulated() -> Callable[..., Timeline]:
    return jax.jit(simulate)


def run_periods(
    design: Design, report: DesignReport, application: ApplicationModel, package: PackageParameters, periods: int
) -> PeriodicSchedule:
    """Runs one design for several periods, in double precision; on the host, one compiled call.

    Args:
        design: the chromosome, NumPy leaves without a leading axis.
        report: its report (durations, traffic, chiplets), NumPy leaves without a leading axis.
        application: networks, at least one of them with a frame rate.
        package: package parameters.
        periods: number of periods of the slowest network, at least 1; a steady state takes several.

    Returns:
        The schedule of all frames; `PeriodicSchedule` lists its fields.

    Raises:
        InputError: no network has a frame rate, there are too many frames, or the schedule cannot end.
    """
    frames = frames_of(application, periods)
    layer, frame = _layers_of(frames, application)
    ticks = np.unique(frames.release[frames.release > 0]) / CYCLE_S
    clock, total = len(design.template), len(layer) + len(ticks)
    if total > _MOST_JOBS:
        raise _too_many(f"{len(layer):,} layers of frames and {len(ticks):,} releases")
    before = _predecessors(layer, frame, application)
    for needs, release in zip(before, frames.release[frame], strict=True):
        if not needs and release > 0:
            needs.append(len(layer) + int(np.searchsorted(ticks, release / CYCLE_S)))
    place = np.argsort(np.asarray(design.order))
    order = np.lexsort((place[layer], frames.release[frame]))
    names, uses, bandwidth = shared_resources(package, report.chiplets)

    padded = padded_jobs(total)
    room = padded - total

    def column(of_layer: npt.ArrayLike, of_tick: npt.ArrayLike, dtype: npt.DTypeLike, rest: float = 0) -> np.ndarray:
        values = np.concatenate([np.asarray(of_layer)[layer], np.broadcast_to(of_tick, len(ticks))])
        return np.pad(values.astype(dtype), (0, room), constant_values=rest)

    shared = split_resources([*uses, []], bandwidth)
    duration = column(report.duration, np.diff(ticks, prepend=0.0), np.float64)
    ticking = np.arange(len(layer), total)
    with jax.enable_x64(True):
        found = jax.device_get(
            _simulated()(
                duration,
                column(report.offchip_bytes, 0.0, np.float64),
                predecessor_bits([*before, *[[] for _ in ticks]], padded),
                column(design.assignment, clock, np.int32, -1),
                np.concatenate([ticking, order, np.arange(total, padded)]).astype(np.int32),
                *shared,
                np.arange(padded) < total,
            )
        )
    if not found.ok:
        raise InputError(REASONS[int(found.reason)], item="design")
    start, end = found.start[: len(layer)] * CYCLE_S, found.end[: len(layer)] * CYCLE_S

    last = np.zeros(len(frames.network))
    np.maximum.at(last, frame, end)
    latency = last - frames.release
    late = latency - np.asarray([network.deadline_s for network in application.networks])[frames.network]
    late = np.where(np.abs(late) > 1e-9 * last, late, np.minimum(late, 0.0))  # releases are sums of the clock's jobs
    tile = np.asarray(design.assignment)[layer]
    period = 1 / min(rate for rate in rates_of(application) if rate)
    window = periods // 2 * period, periods * period
    overlap = np.maximum(np.minimum(end, window[1]) - np.maximum(start, window[0]), 0.0)
    seen = flow(
        found.start[: len(layer)], found.end[: len(layer)], duration[: len(layer)],
        np.asarray(report.offchip_bytes)[layer], tile, uses, bandwidth,
    )  # fmt: skip
    inside = np.maximum(np.diff(np.clip(seen.time * CYCLE_S, *window)), 0.0)
    through = inside @ seen.through / (window[1] - window[0])
    passed = {r for t in np.flatnonzero(report.chiplets.occupied) for r in uses[t]}
    return PeriodicSchedule(
        frames=frames,
        layer=layer,
        frame=frame,
        start=start,
        end=end,
        latency=latency,
        throughput=tuple(_throughput(last[frames.network == n]) for n in range(len(application.networks))),
        worst_lateness=float(late.max()),
        missed=int((late > 0).sum()),
        busy=np.bincount(tile, overlap, minlength=clock) / (window[1] - window[0]),
        used={
            f"link of tile {r - names.index('link')}" if names[r] == "link" else names[r]: float(share)
            for r, share in enumerate(through / bandwidth)
            if r in passed and np.isfinite(bandwidth[r])
        },
    )


def _throughput(ends: np.ndarray) -> float:
    """Frames per second of the second half of a network's frames."""
    ends = np.sort(ends)
    half = len(ends) // 2
    if len(ends) < 3:
        return math.nan
    span = ends[-1] - ends[half - 1]
    return float((len(ends) - half) / span) if span > 0 else math.inf
