"""What designs may be searched for: latency, energy, area, and what the users of the networks get.

Every measure is minimised. Crowding and hypervolume need a logarithm, so a measure that may be zero or less has an
offset there: the longest deadline for the worst lateness, 1 for counts and shares. It moves no design past another. Of
networks with one common deadline, lateness plus the longest deadline is their latency.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.reader import choice
from mohamjax.schedule.design import CYCLE_S, DesignReport
from mohamjax.schedule.periods import rates_of
from mohamjax.workload import ApplicationModel


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that is minimised.

    Attributes:
        name: as users write it.
        column: in `front.csv`, with its unit.
        label: in figures.
        unit: empty for counts and shares.
        role: what the design of a front is called that has the least of it.
        log: above zero, so that it has a logarithm without an offset.
    """

    name: str
    column: str
    label: str
    unit: str
    role: str
    log: bool = True

    @property
    def key(self) -> str:
        """For names of files."""
        return re.sub(r"\W+", "_", {"most frugal": "frugal"}.get(self.role, self.role))


_OF_A_NETWORK = "latency:"

MEASURES = {
    measure.name: measure
    for measure in (
        Measure("latency", "latency_s", "latency", "s", "fastest"),
        Measure("energy", "energy_J", "energy", "J", "most frugal"),
        Measure("area", "area_mm2", "area", "mm²", "smallest"),
        Measure("lateness", "worst_lateness_s", "worst lateness", "s", "most punctual", False),
        Measure("missed", "missed_deadlines", "missed deadlines", "", "fewest missed", False),
        Measure("weighted-latency", "weighted_latency_s", "weighted latency", "s", "soonest by weight"),
        Measure("period", "period_s", "period", "s", "highest throughput"),
        Measure("idle", "idle_share", "idle share", "", "best used", False),
    )
}
"""By name; beside them `latency:NETWORK` is the latency of one network."""

DEFAULT = ("latency", "energy", "area")
"""What a search minimises unless it is told otherwise; the objectives of every report, in this order."""


def measure_named(name: str) -> Measure:
    """The measure of a name; the network of `latency:NETWORK` may be any.

    Raises:
        InputError: there is none.
    """
    network = name.removeprefix(_OF_A_NETWORK)
    if network != name and network:
        return Measure(name, f"latency_s_{network}", f"latency of {network}", "s", f"fastest for {network}")
    return MEASURES[choice(name, (*MEASURES, f"{_OF_A_NETWORK}NETWORK"), what="objective", file=None, item=_ITEM)]


_ITEM = "argument `objectives`"


def check_measures(names: Sequence[str], application: ApplicationModel) -> tuple[Measure, ...]:
    """The measures of an application that a search shall minimise.

    Args:
        names: of `MEASURES`, or `latency:NETWORK`.
        application: the networks.

    Raises:
        InputError: a name is not known or comes twice, there are not two or three, or the networks do not ask for what
            is measured.
    """
    found = tuple(measure_named(name) for name in names)
    if not 2 <= len(found) <= 3:
        raise InputError(
            f"names {len(found)}, and a hypervolume takes two or three",
            item=_ITEM,
            remedy="name two or three; what is left may be limited",
        )
    if len(set(names)) < len(names):
        raise InputError("names one twice", item=_ITEM, remedy="name each once")
    networks = application.networks
    for name in names:
        network = name.removeprefix(_OF_A_NETWORK)
        if network != name:
            choice(network, [n.name for n in networks], what="network", file=None, item=_ITEM)
        if name in ("lateness", "missed") and all(math.isinf(n.deadline_s) for n in networks):
            remedy = f"give `deadline_s` or `frames_per_second` in the scenario, or leave {name} out"
            raise InputError(f"names {name}, and no network has a deadline", item=_ITEM, remedy=remedy)
        if name == "weighted-latency" and not any(n.asked for n in networks):
            remedy = "give `weight` in the scenario, or name latency"
            raise InputError(f"names {name}, and no network has a weight", item=_ITEM, remedy=remedy)
    return found


def kinds_of(names: Sequence[str]) -> tuple[str, ...]:
    """Names without those of networks: what a program depends on."""
    return tuple(_OF_A_NETWORK if name.startswith(_OF_A_NETWORK) else name for name in names)


def owners(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` int32, network of each measure of one network, -1 of the others."""
    known = [network.name for network in application.networks]
    inner = [name.removeprefix(_OF_A_NETWORK) if name.startswith(_OF_A_NETWORK) else "" for name in names]
    return np.asarray([known.index(n) if n else -1 for n in inner], np.int32)


def of_frames(names: Sequence[str]) -> bool:
    """Whether some measure is of several frames in flight."""
    return not {"period", "idle"}.isdisjoint(names)


def offsets(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` float64, what is added to each measure before its logarithm is taken; 0 for those above zero."""
    deadlines = [n.deadline_s for n in application.networks if math.isfinite(n.deadline_s)]
    longest = {"lateness": max(deadlines, default=0.0), "missed": 1.0, "idle": 1.0}
    return np.asarray([longest.get(name, 0.0) for name in names])


def measured(report: DesignReport, kinds: Sequence[str], network: Any, owner: Any, xp: Any = jnp) -> Any:
    """The measures of a report, or of many; pure and traceable.

    Args:
        report: leading axes `[...]`; with `tenants` and `in_flight` where they are measured.
        kinds: of `kinds_of`.
        network: `[M]` int, network of each measure, of `owners`.
        owner: `[L]` int, network of each layer, -1 where padded.
        xp: `jax.numpy`, or `numpy` for reports on the host.

    Returns:
        `[..., M]` float; all but latency, energy and area infinite where the schedule cannot run.
    """
    objectives = report.objectives
    if tuple(kinds) == DEFAULT:
        return objectives
    runs = xp.isfinite(objectives[..., 0])
    columns = []
    for m, kind in enumerate(kinds):
        if kind in DEFAULT:
            columns.append(objectives[..., DEFAULT.index(kind)])
            continue
        if kind == _OF_A_NETWORK:
            own = xp.where(owner == network[m], report.timeline.end, 0.0)
            value = xp.max(own, axis=-1) * CYCLE_S
        else:
            of_tenants = {"lateness": "worst_lateness", "missed": "missed", "weighted-latency": "weighted_latency"}
            holder = report.tenants if kind in of_tenants else report.in_flight
            value = getattr(holder, of_tenants.get(kind, kind))
        columns.append(xp.where(runs, value, xp.inf).astype(objectives.dtype))
    return xp.stack(columns, axis=-1)


def box_share(values: np.ndarray, ideal: Any, reference: Any) -> float:
    """Share of a box that a front dominates, on log axes, in double precision on the host.

    Args:
        values: `[N, M]` float above zero: measures with their offsets.
        ideal: `[M]` float, likewise.
        reference: `[M]` float, likewise.
    """
    scaled = _in_box(values, ideal, reference)
    return float(emo.hypervolume(emo.with_spare_rows(scaled), np.ones(scaled.shape[1])))


def box_subset(values: np.ndarray, ideal: Any, reference: Any, most: int, keep: Collection[int]) -> np.ndarray:
    """Rows of a front, at most so many and some in any case, that hold nearly all of its `box_share`; rising.

    See `emo.volume_subset`.
    """
    scaled = _in_box(values, ideal, reference)
    return emo.volume_subset(scaled, np.ones(scaled.shape[1]), most, keep)


def _in_box(values: np.ndarray, ideal: Any, reference: Any) -> np.ndarray:
    """Values on log axes on which the ideal point is 0 and the reference point 1; nothing is below 0."""
    low, high = np.log(np.asarray(ideal, float)), np.log(np.asarray(reference, float))
    return np.maximum((np.log(values) - low) / (high - low), 0.0)


def frames_per_period(application: ApplicationModel) -> np.ndarray:
    """`[networks]` float, frames of each network in a period of the slowest one; 0 for those that run once."""
    rates = np.asarray(rates_of(application))
    return rates / rates[rates > 0].min()
