"""Measures that a search may minimise: latency, energy, area, and the service that users of the networks get.

Every measure is minimised. Crowding distance and hypervolume are taken on log axes, so a measure that may be zero or
less gets an offset there: the longest deadline for the worst lateness, 1 for counts and shares. It does not change the
order of designs. If all networks have the same deadline, lateness plus that deadline is the latency.
"""

from __future__ import annotations

import dataclasses
import itertools
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
    """Best and worst cases of the networks, from which the box of a hypervolume follows.

    Axes: n networks.

    Attributes:
        least: `[n]` float, s that all its layers take on their fastest mappings, spread over all chiplets.
        most: `[n]` float, s that all its layers take on their slowest mappings, one after the other.
        longest: s that all layers of all networks take at worst, one after the other.
        energy: J at best and at worst.
        area: mm^2 at best and at worst.
        deadline: `[n]` float, s; inf where there is none.
        weight: `[n]` float.
        frames: `[n]` float, frames in a period of the slowest network; 0 for those that run once.
        all_frames: `[n]` float, frames in all periods that are scheduled, also those that are not measured.
        measured: number of periods that are measured.
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
    """A number that a search minimises, with all that the search, its files and its figures need to know of it.

    Attributes:
        name: name that users write.
        column: name of its column in `front.csv`, with its unit.
        label: label in figures.
        unit: empty for counts and shares.
        role: what the design with the least value on a front is called.
        value: function that gives `[...]` for a report with leading axes `[...]`, pure and traceable: called with the
            report, the network of the measure, the network of each layer `[L]`, and `jax.numpy` or `numpy`.
        extent: function that gives the least value that any design can have, and the largest worth looking at: called
            with `Extremes` and the network of the measure.
        offset: function of an application that gives what is added before a logarithm is taken; 0 for measures above 0.
        raised: function like `value` that gives the sum of value and offset, where adding them would lose digits; None:
            they are added.
        asks: function of an application that gives an error and its remedy where the networks lack what the measure
            needs, else None.
        log: whether it is above zero, so that it has a logarithm without an offset.
        frames: whether it is measured with several frames in flight.
    """

    name: str
    column: str
    label: str
    unit: str
    role: str
    value: Callable[[DesignReport, Array, Array, ModuleType], jax.Array]
    extent: Callable[[Extremes, int], tuple[float, float]]
    offset: Callable[[ApplicationModel], float] = lambda _: 0.0
    raised: Callable[[DesignReport, Array, Array, ModuleType], jax.Array] | None = None
    asks: Callable[[ApplicationModel], tuple[str, str] | None] = lambda _: None
    log: bool = True
    frames: bool = False

    @property
    def key(self) -> str:
        """The role in a form for file names."""
        return re.sub(r"\W+", "_", {"most frugal": "frugal"}.get(self.role, self.role))


def _latest_deadline(application: ApplicationModel) -> float:
    """The longest deadline [s]; 0 where no network has one."""
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
            raised=lambda report, *_: _tenants(report).raised_lateness,
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
            # At worst, all the work is done one layer after the other within the measured periods. Twice as many are
            # scheduled, which leaves room for rates that are no whole multiples.
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
"""All by name, except `latency:NETWORK`, the latency of one network. To add a measure, add an entry."""

DEFAULT = ("latency", "energy", "area")
"""What a search minimises by default: the objectives of every report, in this order."""


def measure_named(name: str) -> Measure:
    """The measure with this name; NETWORK in `latency:NETWORK` and NAME in `own:NAME[UNIT]` may be anything.

    Raises:
        InputError: there is no such measure.
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
    """The measure of a user-defined objective; its function is unknown where `full` is a plain string."""
    known = full if isinstance(full, Objective) else None

    def asked() -> Objective:
        if known is None:
            remedy = "give the Objective itself to mj.search; files and other processes hold no functions"
            raise InputError(f"{full}: the function behind it is not known here", argument=_ARGUMENT, remedy=remedy)
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
    """The measures that a search is to minimise, checked against the application.

    Args:
        names: names in `MEASURES`, `latency:NETWORK`, or user-defined objectives.
        application: the networks.

    Raises:
        InputError: a name is unknown, taken or given twice (be it with another unit), there are not two or three of
            them, or the networks lack what a measure needs.
    """
    found = tuple(measure_named(name) for name in names)
    if not 2 <= len(found) <= 3:
        raise InputError(
            f"names {len(found)}, and a hypervolume takes two or three",
            argument=_ARGUMENT,
            remedy="name two or three; what is left may be limited",
        )
    for one, other in itertools.combinations(found, 2):
        if str(one.name) == str(other.name):  # objectives of your own also differ by their functions
            raise InputError("names one twice", argument=_ARGUMENT, remedy="name each once")
        # Designs and figures are named by roles, and front.csv has a column for each measure.
        if one.role == other.role or one.column == other.column:
            told = f"{one.name} and {other.name} have the same name in files or figures"
            raise InputError(told, argument=_ARGUMENT, remedy="give each of your own objectives a name of its own")
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
"""A name without its network, or a user-defined objective, which also differs from others by its function."""


def kinds_of(names: Sequence[str]) -> tuple[Kind, ...]:
    """The names without their networks: the part that a compiled program depends on."""
    return tuple(_OF_A_NETWORK if name.startswith(_OF_A_NETWORK) else name for name in names)


def owners(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` int32, index of the network that each measure is of; -1 for measures of all networks."""
    known = [network.name for network in application.networks]
    inner = [name.removeprefix(_OF_A_NETWORK) if name.startswith(_OF_A_NETWORK) else "" for name in names]
    return np.asarray([known.index(n) if n else -1 for n in inner], np.int32)


def of_frames(names: Sequence[str]) -> bool:
    """Whether any of the measures needs several frames in flight."""
    return any(measure_named(name).frames for name in names)


def offsets(names: Sequence[str], application: ApplicationModel) -> np.ndarray:
    """`[M]` float64, what is added to each measure before its logarithm is taken; 0 for measures above zero."""
    return np.asarray([measure_named(name).offset(application) for name in names])


def measured(
    report: DesignReport,
    kinds: Sequence[Kind],
    network: Array,
    owner: Array,
    xp: ModuleType = jnp,
    *,
    offset: Array | None = None,
) -> jax.Array:
    """The measures of a report, or of many; pure and traceable.

    Args:
        report: leading axes `[...]`; with `tenants` and `in_flight` where the measures need them.
        kinds: from `kinds_of`.
        network: `[M]` int, network of each measure, from `owners`.
        owner: `[L]` int, network of each layer, -1 where padded.
        xp: `jax.numpy`, or `numpy` for reports on the host.
        offset: `[M]` float, from `offsets`, added to the measures; None for none.

    Returns:
        `[..., M]` float, an array of `xp`; all but latency, energy and area are infinite where the schedule cannot run.
    """
    objectives = report.objectives
    if tuple(kinds) == DEFAULT:
        return objectives
    runs = xp.isfinite(objectives[..., 0])
    columns = []
    for m, kind in enumerate(kinds):
        known = None if kind == _OF_A_NETWORK else measure_named(kind)
        raised = None if known is None or offset is None else known.raised
        value = (raised or (_of_network if known is None else known.value))(report, network[m], owner, xp)
        if offset is not None and raised is None:
            value = value + offset[m]
        if kind not in DEFAULT:
            value = xp.where(runs, value, xp.inf).astype(objectives.dtype)
        columns.append(value)
    return xp.stack(columns, axis=-1)


def box_share(values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike) -> float:
    """Share of a box that a front dominates, on log axes, in double precision on the host.

    Args:
        values: `[N, M]` float above zero: measures with their offsets added.
        ideal: `[M]` float above zero, lower corner of the box.
        reference: `[M]` float above zero, its upper corner.
    """
    scaled = _in_box(values, ideal, reference)
    return float(emo.hypervolume(emo.with_spare_rows(scaled), np.ones(scaled.shape[1])))


def box_subset(
    values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike, most: int, keep: Collection[int]
) -> np.ndarray:
    """Rows of a front that hold nearly all of its `box_share`, rising: at most `most`, all of `keep` among them.

    See `emo.volume_subset`.
    """
    scaled = _in_box(values, ideal, reference)
    return emo.volume_subset(scaled, np.ones(scaled.shape[1]), most, keep)


def _in_box(values: np.ndarray, ideal: npt.ArrayLike, reference: npt.ArrayLike) -> np.ndarray:
    """Values on log axes, scaled so that the ideal point is 0 and the reference point 1, and not below 0."""
    low, high = np.log(np.asarray(ideal, float)), np.log(np.asarray(reference, float))
    return np.maximum((np.log(values) - low) / (high - low), 0.0)


def frames_per_period(application: ApplicationModel) -> np.ndarray:
    """`[networks]` float, frames of each network in a period of the slowest one; 0 for those that run once."""
    rates = np.asarray(rates_of(application))
    return rates / rates[rates > 0].min()
