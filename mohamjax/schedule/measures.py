"""What designs may be searched for: latency, energy, area, and what the users of the networks get.

Every measure is minimised. Crowding and hypervolume need a logarithm, so a measure that may be zero or less has an
offset there: the longest deadline for the worst lateness, 1 for counts and shares. It moves no design past another. Of
networks with one common deadline, lateness plus the longest deadline is their latency.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Sequence
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mohamjax import emo
from mohamjax.errors import InputError
from mohamjax.reader import choice
from mohamjax.schedule.design import CYCLE_S, DesignReport
from mohamjax.schedule.in_flight import SteadyState
from mohamjax.schedule.own_measures import OWN, Objective, parts_of, value_of
from mohamjax.schedule.periods import rates_of
from mohamjax.schedule.tenants import TenantReport
from mohamjax.workload import ApplicationModel

Array = jax.Array | np.ndarray


@dataclasses.dataclass(frozen=True)
class Extremes:
    """What all layers of each network take at best and at worst: the box of a hypervolume follows from it.

    Axes: n networks.

    Attributes:
        least: `[n]` float, s of all its layers on their fastest mappings, spread over all chiplets.
        most: `[n]` float, s of all its layers on their slowest mappings, one after the other.
        longest: s of all layers of all networks, one after the other.
        energy: J at best and at worst.
        area: mm^2 at best and at worst.
        deadline: `[n]` float, s; inf where there is none.
        weight: `[n]` float.
        frames: `[n]` float, frames in a period of the slowest network; 0 for those that run once.
        all_frames: `[n]` float, frames in all periods that are scheduled.
        measured: periods that are measured.
    """

    least: np.ndarray
    most: np.ndarray
    longest: float
    energy: tuple[float, float]
    area: tuple[float, float]
    deadline: np.ndarray
    weight: np.ndarray
    frames: np.ndarray
    all_frames: np.ndarray
    measured: int


@dataclasses.dataclass(frozen=True)
class Measure:
    """A number that is minimised: all that a search, its files and its figures know of it.

    Attributes:
        name: as users write it.
        column: in `front.csv`, with its unit.
        label: in figures.
        unit: empty for counts and shares.
        role: what the design of a front is called that has the least of it.
        value: `[...]` of a report with leading axes `[...]`, pure and traceable: called with the report, the network of
            the measure, the network of each layer `[L]`, and `jax.numpy` or `numpy`.
        extent: the least that any design can have, and the most that is worth looking at: called with `Extremes` and
            the network of the measure.
        offset: what is added before a logarithm is taken, of an application; 0 where the measure is above zero.
        asks: what the networks lack for it, None where nothing: a complaint and its remedy.
        log: above zero, so that it has a logarithm without an offset.
        frames: it is of several frames in flight.
    """

    name: str
    column: str
    label: str
    unit: str
    role: str
    value: Callable[[DesignReport, Array, Array, ModuleType], jax.Array]
    extent: Callable[[Extremes, int], tuple[float, float]]
    offset: Callable[[ApplicationModel], float] = lambda _: 0.0
    asks: Callable[[ApplicationModel], tuple[str, str] | None] = lambda _: None
    log: bool = True
    frames: bool = False

    @property
    def key(self) -> str:
        """For names of files."""
        return re.sub(r"\W+", "_", {"most frugal": "frugal"}.get(self.role, self.role))


def _latest_deadline(application: ApplicationModel) -> float:
    """s; 0 where no network has a deadline."""
    return max((n.deadline_s for n in application.networks if math.isfinite(n.deadline_s)), default=0.0)


def _asks_deadlines(name: str) -> Callable[[ApplicationModel], tuple[str, str] | None]:
    def asks(application: ApplicationModel) -> tuple[str, str] | None:
        if any(math.isfinite(n.deadline_s) for n in application.networks):
            return None
        remedy = f"give `deadline_s` or `frames_per_second` in the scenario, or leave {name} out"
        return f"names {name}, and no network has a deadline", remedy

    return asks


def _asks_weights(application: ApplicationModel) -> tuple[str, str] | None:
    if any(n.asked for n in application.networks):
        return None
    remedy = "give `weight` in the scenario, or name latency"
    return "names weighted-latency, and no network has a weight", remedy


def _of_network(report: DesignReport, network: Array, owner: Array, xp: ModuleType) -> jax.Array:
    """Latency of one network, s."""
    own = xp.where(owner == network, report.timeline.end, 0.0)
    return xp.max(own, axis=-1) * CYCLE_S


def _tenants(report: DesignReport) -> TenantReport:
    assert report.tenants is not None, "the evaluation has no tenants"
    return report.tenants


def _in_flight(report: DesignReport) -> SteadyState:
    assert report.in_flight is not None, "the evaluation has no frames in flight"
    return report.in_flight


_OF_A_NETWORK = "latency:"

MEASURES = {
    measure.name: measure
    for measure in (
        Measure(
            "latency", "latency_s", "latency", "s", "fastest",
            value=lambda report, *_: report.objectives[..., 0],
            extent=lambda extremes, _: (float(extremes.least.sum()), extremes.longest),
        ),
        Measure(
            "energy", "energy_J", "energy", "J", "most frugal",
            value=lambda report, *_: report.objectives[..., 1],
            extent=lambda extremes, _: extremes.energy,
        ),
        Measure(
            "area", "area_mm2", "area", "mm²", "smallest",
            value=lambda report, *_: report.objectives[..., 2],
            extent=lambda extremes, _: extremes.area,
        ),
        Measure(
            "lateness", "worst_lateness_s", "worst lateness", "s", "most punctual",
            value=lambda report, *_: _tenants(report).worst_lateness,
            extent=lambda extremes, _: (
                float(np.max((extremes.least - extremes.deadline)[np.isfinite(extremes.deadline)])),
                float(extremes.longest - extremes.deadline.min()),
            ),
            offset=_latest_deadline,
            asks=_asks_deadlines("lateness"),
            log=False,
        ),
        Measure(
            "missed", "missed_deadlines", "missed deadlines", "", "fewest missed",
            value=lambda report, *_: _tenants(report).missed,
            extent=lambda extremes, _: (0.0, 1.0 + np.count_nonzero(np.isfinite(extremes.deadline))),
            offset=lambda _: 1.0,
            asks=_asks_deadlines("missed"),
            log=False,
        ),
        Measure(
            "weighted-latency", "weighted_latency_s", "weighted latency", "s", "soonest by weight",
            value=lambda report, *_: _tenants(report).weighted_latency,
            extent=lambda extremes, _: (
                float(extremes.least @ extremes.weight / extremes.weight.sum()),
                extremes.longest,
            ),
            asks=_asks_weights,
        ),
        Measure(
            "period", "period_s", "period", "s", "highest throughput",
            value=lambda report, *_: _in_flight(report).period,
            # A period measured over some of the periods is at worst all work, shared among these.
            extent=lambda extremes, _: (
                float(extremes.frames @ extremes.least), float(extremes.all_frames @ extremes.most / extremes.measured)
            ),
            frames=True,
        ),
        Measure(
            "idle", "idle_share", "idle share", "", "best used",
            value=lambda report, *_: _in_flight(report).idle,
            extent=lambda _extremes, _: (0.0, 1.0),
            offset=lambda _: 1.0,
            log=False,
            frames=True,
        ),
    )
}  # fmt: skip
"""By name; beside them `latency:NETWORK` is the latency of one network. A measure of your own is one entry more."""

DEFAULT = ("latency", "energy", "area")
"""What a search minimises unless it is told otherwise; the objectives of every report, in this order."""


def measure_named(name: str) -> Measure:
    """The measure of a name; the network of `latency:NETWORK` may be any, and so may the name of `own:NAME[UNIT]`.

    Raises:
        InputError: there is none.
    """
    if name.startswith(OWN) and (parts := parts_of(name)):
        return _own(name, *parts)
    network = name.removeprefix(_OF_A_NETWORK)
    if network != name and network:
        return Measure(
            name, f"latency_s_{network}", f"latency of {network}", "s", f"fastest for {network}",
            value=_of_network,
            extent=lambda extremes, network: (float(extremes.least[network]), extremes.longest),
        )  # fmt: skip
    return MEASURES[choice(name, (*MEASURES, f"{_OF_A_NETWORK}NETWORK"), what="objective", argument=_ARGUMENT)]


def _own(full: str, name: str, unit: str) -> Measure:
    """The measure of an objective of a user's own; without its function where there is only its text."""
    known = full if isinstance(full, Objective) else None

    def asked() -> Objective:
        if known is None:
            remedy = "give the Objective itself to mj.search; files and other processes hold no functions"
            raise InputError(f"{full}: what computes it is not known here", argument=_ARGUMENT, remedy=remedy)
        return known

    return Measure(
        full, "_".join([name, *filter(None, [re.sub(r"\W", "", unit)])]), name, unit, f"least {name}",
        value=lambda report, _network, _owner, xp: value_of(asked(), report, xp),
        extent=lambda *_: asked().extent,
        offset=lambda _: 0.0 if known is None else known.offset,
        log=known is None or known.offset == 0,
    )  # fmt: skip


_ARGUMENT = "objectives"


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
            argument=_ARGUMENT,
            remedy="name two or three; what is left may be limited",
        )
    if len({measure.column for measure in found}) < len(names):
        raise InputError("names one twice", argument=_ARGUMENT, remedy="name each once")
    networks = application.networks
    for name in names:
        network = name.removeprefix(_OF_A_NETWORK)
        if network != name:
            choice(network, [n.name for n in networks], what="network", argument=_ARGUMENT)
    taken = {"design_id", "n_chiplets", *(measure.column for measure in MEASURES.values())}
    for measure in found:
        of_others = measure.column in taken or measure.column.startswith(("n_", "latency_s_"))  # of front.csv
        if measure.name.startswith(OWN) and (of_others or measure.label in MEASURES):
            raise InputError(f"{measure.name}: the name is taken", argument=_ARGUMENT, remedy="give it another name")
        if complaint := measure.asks(application):
            raise InputError(complaint[0], argument=_ARGUMENT, remedy=complaint[1])
    return found


Kind = str | Objective
"""A name without that of a network; or an objective of a user's own, which is told apart by its function."""


def kinds_of(names: Sequence[str]) -> tuple[Kind, ...]:
    """Names without those of networks: what a program depends on."""
    return tuple(_OF_A_NETWORK if name.startswith(_OF_A_NETWORK) else name for name in names)


def owners(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` int32, network of each measure of one network, -1 of the others."""
    known = [network.name for network in application.networks]
    inner = [name.removeprefix(_OF_A_NETWORK) if name.startswith(_OF_A_NETWORK) else "" for name in names]
    return np.asarray([known.index(n) if n else -1 for n in inner], np.int32)


def of_frames(names: Sequence[str]) -> bool:
    """Whether some measure is of several frames in flight."""
    return any(measure_named(name).frames for name in names)


def offsets(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` float64, what is added to each measure before its logarithm is taken; 0 for those above zero."""
    return np.asarray([measure_named(name).offset(application) for name in names])


def measured(
    report: DesignReport,
    kinds: Sequence[Kind],
    network: Array,
    owner: Array,
    xp: ModuleType = jnp,
) -> jax.Array:
    """The measures of a report, or of many; pure and traceable.

    Args:
        report: leading axes `[...]`; with `tenants` and `in_flight` where they are measured.
        kinds: of `kinds_of`.
        network: `[M]` int, network of each measure, of `owners`.
        owner: `[L]` int, network of each layer, -1 where padded.
        xp: `jax.numpy`, or `numpy` for reports on the host.

    Returns:
        `[..., M]` float, an array of `xp`; all but latency, energy and area infinite where the schedule cannot run.
    """
    objectives = report.objectives
    if tuple(kinds) == DEFAULT:
        return objectives
    runs = xp.isfinite(objectives[..., 0])
    columns = []
    for m, kind in enumerate(kinds):
        value = (_of_network if kind == _OF_A_NETWORK else measure_named(kind).value)(report, network[m], owner, xp)
        if kind not in DEFAULT:
            value = xp.where(runs, value, xp.inf).astype(objectives.dtype)
        columns.append(value)
    return xp.stack(columns, axis=-1)


def box_share(values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Share of a box that a front dominates, on log axes, in double precision on the host.

    Args:
        values: `[N, M]` float above zero: measures with their offsets.
        ideal: `[M]` float above zero, lower corner of the box.
        reference: `[M]` float above zero, its upper corner.
    """
    scaled = _in_box(values, ideal, reference)
    return float(emo.hypervolume(emo.with_spare_rows(scaled), np.ones(scaled.shape[1])))


def box_subset(
    values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike, most: int, keep: Collection[int]
) -> np.ndarray:
    """Rows of a front, at most so many and some in any case, that hold nearly all of its `box_share`; rising.

    See `emo.volume_subset`.
    """
    scaled = _in_box(values, ideal, reference)
    return emo.volume_subset(scaled, np.ones(scaled.shape[1]), most, keep)


def _in_box(values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike) -> np.ndarray:
    """Values on log axes on which the ideal point is 0 and the reference point 1; nothing is below 0."""
    low, high = np.log(np.asarray(ideal, float)), np.log(np.asarray(reference, float))
    return np.maximum((np.log(values) - low) / (high - low), 0.0)


def frames_per_period(application: ApplicationModel) -> np.ndarray:
    """`[networks]` float, frames of each network in a period of the slowest one; 0 for those that run once."""
    rates = np.asarray(rates_of(application))
    return rates / rates[rates > 0].min()
