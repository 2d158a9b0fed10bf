"""Requirements applied to networks and templates: checks before a search, and the arrays that it reads."""

from __future__ import annotations

import dataclasses
import decimal
import fnmatch
import itertools
import math
from collections import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mohamjax.errors import InputError
from mohamjax.hardware import Template, template_from_dict, template_to_dict
from mohamjax.problem.requirements import LIMITS, TENANT_LIMITS, FixedChiplet, Requirements
from mohamjax.reader import choice
from mohamjax.runtime.struct import shown_briefly
from mohamjax.schedule import Chiplets, TenantReport
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES, extremes
from mohamjax.text import plural
from mohamjax.workload import ApplicationModel

FREE, CLOSED = -2, -1
"""Mark a tile on which the search may place any chiplet, and one that stays empty."""


LIMIT_TOLERANCE = 1e-5
"""Relative excess over a limit that counts as none in single precision; the final front is filtered in double."""


@shown_briefly
@dataclasses.dataclass(frozen=True)
class ResolvedRequirements:
    """Requirements applied to networks and templates.

    Attributes:
        templates: templates that the search uses: those given (in a closed package, only those of its chiplets), and
            one of fixed sizes for every chiplet whose sizes are given.
        tiles: `[S]` int32, template of the fixed chiplet on the tile, or `FREE`, or `CLOSED`.
        allowed: `[layers, T]` bool, templates that a layer's pins allow.
        pin: `[layers]` int32, tile that the layer must run on, or -1.
        least: `[T + 1]` int32, fewest chiplets of each template, then of all.
        most: `[T + 1]` int32, most chiplets of each template, then of all.
        limits: upper bounds in the order of `LIMITS`.
        homogeneous: all chiplets of a design have one template.
        file: where the requirements were read, for error messages.
        tenant_limits: upper bounds in the order of `TENANT_LIMITS`.
        chiplet_limits: upper bounds on every chiplet, in the order of `CHIPLET_MEASURES`, and lower ones; empty where
            there are none.
    """

    templates: tuple[Template, ...]
    tiles: np.ndarray
    allowed: np.ndarray
    pin: np.ndarray
    least: np.ndarray
    most: np.ndarray
    limits: tuple[float, float, float, float]
    homogeneous: bool
    file: str
    tenant_limits: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    chiplet_limits: tuple[tuple[float, ...], ...] = ()

    @property
    def projects(self) -> bool:
        """Whether variation may break the demands (homogeneous packages, pinned tiles), so designs are projected."""
        return self.homogeneous or bool((self.pin >= 0).any())

    @property
    def free(self) -> np.ndarray:
        """Numbers of the free tiles, rising."""
        return np.flatnonzero(self.tiles == FREE)

    @property
    def fixed(self) -> np.ndarray:
        """Numbers of the tiles that hold a fixed chiplet, rising."""
        return np.flatnonzero(self.tiles >= 0)


def resolve(
    requirements: Requirements,
    application: ApplicationModel,
    templates: Sequence[Template],
    tiles: int,
    max_chiplets: int,
) -> ResolvedRequirements:
    """Checks requirements against networks and templates, and turns them into arrays.

    Args:
        requirements: the demands.
        application: the networks.
        templates: templates to choose from.
        tiles: S.
        max_chiplets: most chiplets of a design; `requirements.most` may lower it.

    Raises:
        InputError: an unknown template, level or layer, sizes beyond the template's, too many chiplets, or demands
            that contradict each other.
    """
    r = requirements
    by_name = {t.name: t for t in templates}
    used: dict[str, Template] = dict(by_name) if r.open or not r.chiplets else {}
    ground = np.full(tiles, FREE if r.open or not r.chiplets else CLOSED, np.int32)
    names: list[str] = []
    for i, chiplet in enumerate(r.chiplets):
        item = f"package.chiplets[{i}]"
        _known(r, chiplet.template, by_name, f"{item}.template")
        template = by_name[chiplet.template]
        if chiplet.levels is not None:
            template = _sized(r, template, chiplet.levels, f"{item}.levels", {**by_name, **used})
        used.setdefault(template.name, template)
        names.append(template.name)
        if chiplet.tile >= tiles:
            raise r.complaint(
                f"there is no tile {chiplet.tile}", f"{item}.tile", f"the package has tiles 0 to {tiles - 1}"
            )
    if r.homogeneous and names:
        used = {name: t for name, t in used.items() if name in names}
    chosen = tuple(used.values())
    numbers = {t.name: i for i, t in enumerate(chosen)}
    for chiplet, name in zip(r.chiplets, names, strict=True):
        if ground[chiplet.tile] >= 0:
            raise r.complaint(
                f"two chiplets stand on tile {chiplet.tile}", "package.chiplets", "give each its own tile"
            )
        ground[chiplet.tile] = numbers[name]
    if r.homogeneous and len(set(names)) > 1:
        raise r.complaint(
            "the fixed chiplets have several templates", "homogeneous", "leave it out, or fix chiplets of one template"
        )
    kind = {t.name: _owner(t, r.chiplets, names) for t in chosen}
    least, most = _counts(r, by_name, kind, ground, min(max_chiplets, tiles))
    allowed, pin = _pins(r, application, kind, by_name, ground)
    allowed &= most[:-1] > 0
    return ResolvedRequirements(
        templates=chosen,
        tiles=ground,
        allowed=allowed,
        pin=pin,
        least=least,
        most=most,
        limits=r.limits,
        homogeneous=r.homogeneous,
        file=r.file,
        tenant_limits=_tenant_limits(r, application),
        chiplet_limits=_chiplet_limits(r),
    )


def _chiplet_limits(r: Requirements) -> tuple[tuple[float, ...], ...]:
    """Upper and lower limits on every chiplet by measure, checked; empty where there are none."""
    if not r.chiplet_limits and not r.chiplet_floors:
        return ()
    for key in CHIPLET_MEASURES:
        if r.chiplet_floors.get(key, 0.0) > r.chiplet_limits.get(key, math.inf):
            raise r.complaint(
                f"is above limits.chiplet.{key}", f"limits.least_chiplet.{key}", "lower it, or raise the other"
            )
    return (
        tuple(r.chiplet_limits.get(key, math.inf) for key in CHIPLET_MEASURES),
        tuple(r.chiplet_floors.get(key, 0.0) for key in CHIPLET_MEASURES),
    )


def _tenant_limits(r: Requirements, application: ApplicationModel) -> tuple[float, float, float]:
    """Limits on what users of the networks get; checks that some network has a deadline or a weight to limit."""
    for name, limit in zip(TENANT_LIMITS[:2], r.tenant_limits, strict=False):
        if math.isfinite(limit) and all(math.isinf(network.deadline_s) for network in application.networks):
            raise r.complaint(
                "no network has a deadline", f"limits.{name}", "give `deadline_s` in the scenario, or leave it out"
            )
    if math.isfinite(r.tenant_limits[2]) and not any(network.asked for network in application.networks):
        raise r.complaint(
            "no network has a weight", f"limits.{TENANT_LIMITS[2]}", "give `weight` in the scenario, or limit latency_s"
        )
    return r.tenant_limits


def _owner(template: Template, chiplets: Sequence[FixedChiplet], names: Sequence[str]) -> str:
    """Name of the user's template from which a resolved template is made."""
    for chiplet, name in zip(chiplets, names, strict=True):
        if name == template.name:
            return chiplet.template
    return template.name


def _known(r: Requirements, name: str, known: abc.Mapping[str, Any], item: str) -> None:
    choice(name, tuple(known), what="template", file=r.file or None, item=item)


def _sized(
    r: Requirements,
    template: Template,
    sizes: abc.Mapping[str, abc.Mapping[str, Any]],
    item: str,
    known: abc.Mapping[str, Template],
) -> Template:
    """A template of fixed sizes; that in `known` where one with the same sizes exists."""
    unknown = [name for name in sizes if name not in template.level_names]
    if unknown:
        choice(unknown[0], template.level_names, what="level", file=r.file or None, item=item)
    levels = []
    for level in template.levels:
        given = sizes.get(level.name, {})
        words, fanout = given.get("capacity_words"), given.get("fanout")
        if words is not None:
            if level.capacity_words is None or words > level.capacity_words:
                most = (
                    "has no capacity"
                    if level.capacity_words is None
                    else f"has at most {plural(level.capacity_words, 'word')}"
                )
                raise r.complaint(f"level {level.name} of {template.name} {most}", f"{item}.{level.name}", "change it")
            level = dataclasses.replace(level, capacity_words=words)
        if fanout is not None:
            if any(f > most for f, most in zip(fanout, level.fanout, strict=True)):
                raise r.complaint(
                    f"level {level.name} of {template.name} has a fanout of at most {list(level.fanout)}",
                    f"{item}.{level.name}",
                    "change it",
                )
            level = dataclasses.replace(level, fanout=(fanout[0], fanout[1]))
        levels.append(level)
    made = dataclasses.replace(template, levels=tuple(levels), sizes="fixed")
    for one in known.values():
        if dataclasses.replace(one, name=made.name) == made:
            return one
    names = (f"{template.name}-fixed{number}" for number in itertools.count(1))
    made = dataclasses.replace(made, name=next(name for name in names if name not in known))
    try:
        return template_from_dict(template_to_dict(made))
    except InputError as error:
        raise r.complaint(f"these sizes make no {template.name}: {error.message}", item, "change them") from None


def _counts(
    r: Requirements, by_name: abc.Mapping[str, Any], kind: abc.Mapping[str, str], ground: np.ndarray, room: int
) -> tuple[np.ndarray, np.ndarray]:
    """Fewest and most chiplets, `[T + 1]` int32 each (`ResolvedRequirements.least`); checks that they are possible."""
    for name in [*r.template_least, *r.template_most]:
        item = f"chiplets.templates.{name}"
        _known(r, name, by_name, item)
        if sum(owner == name for owner in kind.values()) > 1:
            raise r.complaint(
                f"{name} also has chiplets of fixed sizes", item, "do not count a template of which sizes are fixed"
            )
    if r.most is not None and r.most > room:
        raise r.complaint(
            f"{plural(r.most, 'chiplet')}, where the package and the argument `max_chiplets` leave room for {room}",
            "chiplets.most",
            "lower it, or make room",
        )
    owners = list(kind.values())
    fixed = np.bincount(ground[ground >= 0], minlength=len(owners))
    fixed = np.append(fixed, fixed.sum())
    most = min(room if r.most is None else r.most, int(fixed[-1] + np.count_nonzero(ground == FREE)))
    least = np.asarray([*(r.template_least.get(owner, 0) for owner in owners), r.least], np.int32)
    upper = np.asarray([*(r.template_most.get(owner, room) for owner in owners), most], np.int32)
    absent = [name for name, bound in r.template_least.items() if bound and name not in owners]
    several = r.homogeneous and np.count_nonzero(least[:-1]) > 1
    total = max(int(least[-1]), int(np.maximum(least, fixed)[:-1].sum()))
    if (fixed > upper).any() or (least > upper).any() or total > most or absent or several:
        raise r.complaint(
            "the numbers of chiplets contradict each other or the package",
            "chiplets",
            f"between {fixed[-1]} and {most} chiplets are possible: raise `most` or lower `least`",
        )
    return least, upper


def _pins(
    r: Requirements,
    application: ApplicationModel,
    kind: abc.Mapping[str, str],
    by_name: abc.Mapping[str, Any],
    ground: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Templates that the pins allow every layer `[layers, T]`, and the tile that it must run on `[layers]`, or -1."""
    names = application.full_names
    allowed = np.ones((len(names), len(kind)), bool)
    tile = np.full(len(names), -1, np.int32)
    for i, pin in enumerate(r.pins):
        item = f"pin[{i}]"
        hit = np.asarray([fnmatch.fnmatchcase(name, pin.layers) for name in names])
        if not hit.any():
            raise r.complaint(
                f"no layer is called {pin.layers!r}", f"{item}.layers", f"layers are called as in {names[0]!r}"
            )
        if pin.templates is not None:
            for name in pin.templates:
                _known(r, name, by_name, f"{item}.templates")
            allowed[hit] &= np.asarray([owner in pin.templates for owner in kind.values()])
        if pin.chiplet is not None:
            if pin.chiplet >= len(r.chiplets):
                raise r.complaint(
                    f"the package fixes no chiplet {pin.chiplet}", f"{item}.chiplet", "list it under `package`"
                )
            place = r.chiplets[pin.chiplet].tile
            if ((tile[hit] >= 0) & (tile[hit] != place)).any():
                raise r.complaint("a layer is pinned to two chiplets", item, "pin every layer once")
            tile[hit] = place
            allowed[hit] &= np.arange(len(kind)) == ground[place]
    return allowed, tile


# ---------------------------------------------------------------- what designs reach


def _apart(value: float, bound: float, rounding: str) -> tuple[str, str]:
    """A value and a bound as texts, with enough digits to differ; `rounding` is a mode of `decimal` for the value."""
    texts = "", ""
    for digits in (4, 7, 12):
        rounded = decimal.Context(prec=digits, rounding=rounding).create_decimal_from_float(float(value))
        texts = f"{float(rounded):.{digits}g}", f"{bound:.{digits}g}"
        if texts[0] != texts[1] or value == bound:
            break
    return texts


@dataclasses.dataclass(frozen=True)
class Demand:
    """One demand, and the values that designs reach.

    Attributes:
        key: its key in the requirements.
        reached: `[N]`, value of each design, in the key's unit.
        bound: the demanded bound.
        upper: the bound is an upper one, else a lower one.
    """

    key: str
    reached: np.ndarray
    bound: float
    upper: bool

    @property
    def excess(self) -> np.ndarray:
        """`[N]`, by how much each design breaks the demand; 0 where it keeps it, infinite without a result.

        Limits on deadlines and weights of networks are exceeded by differences, other limits by logarithms of factors.
        """
        if self.key in _TENANT_KEYS:
            with np.errstate(invalid="ignore"):
                over = self.reached - self.bound - _ROUNDING * np.abs(self.reached)
        elif self.key.startswith("limits"):
            # Values of 0 or less keep every upper limit; NaN stays NaN.
            ratio = np.log(np.maximum(self.reached, np.finfo(float).tiny) / self.bound)
            over = (ratio if self.upper else -ratio) - _ROUNDING
        else:
            return np.maximum(self.reached - self.bound if self.upper else self.bound - self.reached, 0)
        return np.where(np.isnan(over), np.inf, np.maximum(over, 0.0))  # NaN: a design without a result

    def told(self, value: float) -> str:
        """A text that states the value beside the bound, with enough digits to tell the two apart."""
        text, bound = _apart(value, self.bound, decimal.ROUND_HALF_EVEN)
        return f"{self.key} {text} (at {'most' if self.upper else 'least'} {bound})"


_OWN_LIMIT = "limits.own."
"""Prefix of the names of limits that users define themselves."""

_TENANT_KEYS = tuple(f"limits.{name}" for name in TENANT_LIMITS)
"""Limits on values that may be 0 or less, which have no logarithm."""

_ROUNDING = 1e-9  # relative excess over a limit that counts as none in double precision


class Reached(NamedTuple):
    """The values of N designs that requirements may limit.

    Attributes:
        objectives: `[N, 3]` float, latency [s], energy [J], area [mm^2]; inf where a design has no result.
        template: `[N, S]` int, template on each tile, -1 where empty.
        users: what the users of the networks get, leading axis `[N]`; needed where that is limited.
        chiplets: of the designs, leading axis `[N]`; needed where they are limited.
        own: name, `[N]` values and bound of each limit that the user defined.
    """

    objectives: np.ndarray
    template: np.ndarray
    users: TenantReport | None = None
    chiplets: Chiplets | None = None
    own: tuple[tuple[str, np.ndarray, float], ...] = ()


def demands(resolved: ResolvedRequirements, reached: Reached) -> list[Demand]:
    """The values that designs reach, for every limit and every bound on numbers of chiplets."""
    objectives, template, users, chiplets, own = reached
    with np.errstate(invalid="ignore"):
        power = objectives[:, 1] / objectives[:, 0]
    found = [
        Demand(f"limits.{name}", values, limit, True)
        for name, values, limit in zip(LIMITS, [*objectives.T, power], resolved.limits, strict=True)
        if math.isfinite(limit)
    ]
    if users is not None:
        got = (users.worst_lateness, users.missed, users.weighted_latency)
        found += [
            Demand(key, np.asarray(values, np.float64), limit, True)
            for key, values, limit in zip(_TENANT_KEYS, got, resolved.tenant_limits, strict=True)
            if math.isfinite(limit)
        ]
    if resolved.chiplet_limits and chiplets is not None:
        most, least = (np.asarray(values, np.float64) for values in extremes(chiplets))
        for k, (key, upper, lower) in enumerate(zip(CHIPLET_MEASURES, *resolved.chiplet_limits, strict=True)):
            if math.isfinite(upper):
                found.append(Demand(f"limits.chiplet.{key}", most[:, k], upper, True))
            if lower > 0:
                found.append(Demand(f"limits.least_chiplet.{key}", least[:, k], lower, False))
    found += [Demand(f"{_OWN_LIMIT}{name}", values, most, True) for name, values, most in own]
    kinds = [(template == t).sum(axis=1) for t in range(len(resolved.templates))]
    keys = [*(f"chiplets.templates.{t.name}" for t in resolved.templates), "chiplets"]
    for key, count, least, most in zip(
        keys, [*kinds, np.sum(kinds, axis=0)], resolved.least, resolved.most, strict=True
    ):
        found += [Demand(f"{key}.least", count, int(least), False), Demand(f"{key}.most", count, int(most), True)]
    return found


def keeps(resolved: ResolvedRequirements, reached: Reached) -> np.ndarray:
    """`[N]` bool, designs that have a result and keep every limit and every bound on numbers of chiplets."""
    kept = [demand.excess == 0 for demand in demands(resolved, reached)]
    return np.all([np.isfinite(reached.objectives).all(axis=1), *kept], axis=0)


def out_of_reach(resolved: ResolvedRequirements, floor: np.ndarray, tolerance: float) -> InputError | None:
    """The error for limits that no design can reach, or None.

    Args:
        resolved: the requirements.
        floor: `[3]` float, latency [s], energy [J] and area [mm^2] that no design goes below.
        tolerance: relative excess over a limit that counts as none.
    """
    over = [
        (f"limits.{name}", value, limit)
        for name, value, limit in zip(LIMITS, floor, resolved.limits, strict=False)
        if value > limit * (1 + tolerance)
    ]
    if not over:
        return None
    parts = []
    for key, value, limit in over:
        # Rounded up, so that a limit copied from the message is accepted.
        least, stated = _apart(value, limit, decimal.ROUND_CEILING)
        parts.append(f"{key} is {stated}, no design goes below {least}")
    return InputError(
        f"out of reach over the mappings found: {'; '.join(parts)}",
        file=resolved.file or None,
        item=", ".join(key for key, _, _ in over),
        remedy="loosen what is out of reach, or let the mapper search longer",
    )


def unmet(resolved: ResolvedRequirements, reached: Reached, *, kept: bool = False, window: bool = False) -> InputError:
    """The error that no design meets the requirements: which demands fail, and the values that were reached.

    Args:
        resolved: the requirements.
        reached: values of the designs that come nearest.
        kept: there is a checkpoint to go on from.
        window: the limit on latency may come from `Settings.within`.
    """
    every = demands(resolved, reached)
    for demand in every:
        if demand.key.startswith(_OWN_LIMIT) and np.isnan(demand.reached).all():
            return InputError(
                f"its function gave NaN for all of the {len(reached.objectives)} designs that come nearest",
                item=demand.key,
                remedy="return a number for every design that runs, and expect infinite times of those that do not",
            )
    found = [d for d in every if d.key.startswith("limits") or d.excess.any()]
    never = [demand for demand in found if demand.excess.all()]
    parts = [demand.told((np.nanmin if demand.upper else np.nanmax)(demand.reached)) for demand in never]
    told = f"at best {'; '.join(parts)}" if parts else "each is met by some of them, but none meets them all"
    if len(found) > 1:
        nearest = np.argmin(np.sum([demand.excess for demand in found], axis=0))
        told += f"; the nearest has {', '.join(demand.told(demand.reached[nearest]) for demand in found)}"
    return InputError(
        f"no design meets the requirements; of the {len(reached.objectives)} that come nearest: {told}",
        file=resolved.file or None,
        item=", ".join(demand.key for demand in never or found),
        remedy=(
            "loosen them, raise the argument `within`, or search longer" if window else "loosen them or search longer"
        )
        + ("; the argument `resume` goes on from the checkpoint" if kept else ""),
    )
