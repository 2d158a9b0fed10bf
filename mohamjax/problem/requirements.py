"""What a user demands of every design: limits, numbers of chiplets, a fixed or partly fixed package, pinned layers.

Format `requirements/1` (YAML; every key may be left out):

```yaml
format: requirements/1
limits:
  latency_s: 0.1
  energy_J: 0.5
  area_mm2: 60
  power_W: 10                # energy over latency
  # of networks with deadlines, and with weights:
  # worst_lateness_s: 0        # all are kept
  # missed_deadlines: 1
  # weighted_latency_s: 0.05   # mean of the networks' latencies by weight
  chiplet: {area_mm2: 20}          # no chiplet is larger
  least_chiplet: {area_mm2: 0.2}   # none is smaller
chiplets:
  least: 2
  most: 8
  templates: {shidiannao: {most: 2}}
homogeneous: false           # true: all chiplets of one design have the same template
package:                     # chiplets that are there in any case, tile by tile
  open: true                 # may the search add chiplets on other tiles? (default true)
  chiplets:
    - {template: simba}                                # its sizes are searched
    - {template: eyeriss, sizes: largest}              # the template's largest sizes
    - template: simba                                  # sizes given; a level that is not named has its largest
      tile: 5
      levels: {GlobalBuffer: {capacity_words: 32768, fanout: [8, 8]}}
pin:                         # layers by name or pattern, to a chiplet of the package (by its number) or to templates
  - {layers: "resnet50/*", chiplet: 0}
  - {layers: "*", templates: [simba, eyeriss]}
```

Tile numbers only give the order of the chiplets on the mesh: as in every design, empty tiles are skipped.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mohamjax.errors import InputError
from mohamjax.forms import Amount, Form, Index, Positive, Text, Whole, read_form
from mohamjax.reader import choice, read_yaml
from mohamjax.runtime.struct import plain
from mohamjax.schedule.chiplet_measures import CHIPLET_MEASURES

LIMITS = ("latency_s", "energy_J", "area_mm2", "power_W")
"""Values that may be limited: the objectives in their order, and energy over latency."""

TENANT_LIMITS = ("worst_lateness_s", "missed_deadlines", "weighted_latency_s")
"""Values for the users of the networks that may be limited (`schedule.tenants`)."""


@dataclasses.dataclass(frozen=True)
class FixedChiplet:
    """A chiplet that every design has.

    Attributes:
        template: name of its template.
        tile: where it stands.
        levels: by level name, the given `capacity_words` and `fanout`; None where its sizes are searched.
    """

    template: str
    tile: int
    levels: abc.Mapping[str, abc.Mapping[str, Any]] | None = None


@dataclasses.dataclass(frozen=True)
class Pin:
    """Layers that must run in certain places.

    Attributes:
        layers: shell-style pattern over `network/layer` names.
        chiplet: number of a fixed chiplet, or None.
        templates: names of templates, or None for any.
    """

    layers: str
    chiplet: int | None = None
    templates: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Requirements:
    """Demands on every design; the default demands nothing.

    Attributes:
        limits: upper bounds in the order of `LIMITS`.
        least: fewest chiplets.
        most: most chiplets, or None.
        template_least: fewest chiplets of a template, by name.
        template_most: most chiplets of a template, by name.
        homogeneous: all chiplets of a design have one template.
        chiplets: the fixed chiplets.
        open: the search may add others; False needs fixed chiplets.
        pins: layers that must run in certain places.
        file: where the requirements were read, for error messages.
        tenant_limits: upper bounds in the order of `TENANT_LIMITS`.
        chiplet_limits: upper bounds on every chiplet, by keys of `schedule.chiplet_measures.CHIPLET_MEASURES`.
        chiplet_floors: lower bounds on every chiplet, by the same keys.

    Raises:
        InputError: a demand is one that a `requirements/1` file could not state, such as a limit below 0.
    """

    limits: tuple[float, float, float, float] = (math.inf, math.inf, math.inf, math.inf)
    least: int = 1
    most: int | None = None
    template_least: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    template_most: abc.Mapping[str, int] = dataclasses.field(default_factory=dict)
    homogeneous: bool = False
    chiplets: tuple[FixedChiplet, ...] = ()
    open: bool = True
    pins: tuple[Pin, ...] = ()
    file: str = ""
    tenant_limits: tuple[float, float, float] = (math.inf, math.inf, math.inf)
    chiplet_limits: abc.Mapping[str, float] = dataclasses.field(default_factory=dict)
    chiplet_floors: abc.Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks everything as in a file with the same content."""
        for name, kind in (("homogeneous", bool), ("open", bool), ("chiplets", FixedChiplet), ("pins", Pin)):
            values = getattr(self, name)
            rows = values if isinstance(values, tuple | list) else [values]
            if isinstance(values, tuple | list) == (kind is bool) or not all(isinstance(row, kind) for row in rows):
                of = "true or false" if kind is bool else f"a tuple of {kind.__name__}"
                raise self.complaint(f"is {values!r:.80}", name, f"give {of}")
        for name, known in (("limits", LIMITS), ("tenant_limits", TENANT_LIMITS)):
            if not isinstance(getattr(self, name), tuple | list):
                raise self.complaint(f"is {getattr(self, name)!r:.80}", name, f"give {len(known)} numbers")
            if len(getattr(self, name)) != len(known):
                raise self.complaint(
                    f"has {len(getattr(self, name))} entries", name, f"give one for each of {', '.join(known)}"
                )
        if not self.open and not self.chiplets:
            raise self.complaint("is False, and no chiplet is fixed", "open", "fix chiplets, or leave it out")
        form = read_form(plain(self.to_dict()), RequirementsForm, file=self.file or None)
        for i, pin in enumerate(form.pin or ()):
            if pin.chiplet is None and pin.templates is None:
                raise self.complaint("says not where to", f"pin[{i}]", "add `chiplet` or `templates`")

    def complaint(self, reason: str, item: str, remedy: str) -> InputError:
        """An error about these requirements."""
        return InputError(reason, file=self.file or None, item=item, remedy=remedy)

    def to_dict(self) -> dict[str, Any]:
        """The requirements as plain data, which `requirements_from_dict` reads."""
        out: dict[str, Any] = {"format": "requirements/1"}
        stated = zip((*LIMITS, *TENANT_LIMITS), (*self.limits, *self.tenant_limits), strict=True)
        limits: dict[str, Any] = {k: v for k, v in stated if v != math.inf}
        if self.chiplet_limits:
            limits["chiplet"] = dict(self.chiplet_limits)
        if self.chiplet_floors:
            limits["least_chiplet"] = dict(self.chiplet_floors)
        if limits:
            out["limits"] = limits
        counts: dict[str, Any] = {} if self.least == 1 else {"least": self.least}
        if self.most is not None:
            counts["most"] = self.most
        names = [*dict.fromkeys([*self.template_least, *self.template_most])]
        bounds = {"least": self.template_least, "most": self.template_most}
        if names:
            counts["templates"] = {n: {k: v[n] for k, v in bounds.items() if n in v} for n in names}
        if counts:
            out["chiplets"] = counts
        if self.homogeneous:
            out["homogeneous"] = True
        if self.chiplets:
            rows = [
                {"template": c.template, "tile": c.tile}
                | ({} if c.levels is None else {"levels": dict(c.levels)} if c.levels else {"sizes": "largest"})
                for c in self.chiplets
            ]
            out["package"] = {"open": self.open, "chiplets": rows}
        if self.pins:
            out["pin"] = [
                {"layers": p.layers}
                | ({} if p.chiplet is None else {"chiplet": p.chiplet})
                | ({} if p.templates is None else {"templates": list(p.templates)})
                for p in self.pins
            ]
        return out


class LimitsForm(Form):
    """Upper bounds on what a design reaches, in the order of `LIMITS`, then of `TENANT_LIMITS`; bounds on chiplets."""

    latency_s: Positive | None = None
    energy_J: Positive | None = None
    area_mm2: Positive | None = None
    power_W: Positive | None = None
    worst_lateness_s: Amount | None = None
    missed_deadlines: Index | None = None
    weighted_latency_s: Positive | None = None
    chiplet: dict[str, Positive] | None = None
    least_chiplet: dict[str, Positive] | None = None


class TemplateCountsForm(Form):
    """How many chiplets of a template there may be."""

    least: Index | None = None
    most: Index | None = None


class CountsForm(Form):
    """How many chiplets there may be."""

    least: Whole | None = None
    most: Whole | None = None
    templates: dict[str, TemplateCountsForm | None] | None = None


class SizesForm(Form):
    """Sizes of a level that are fixed."""

    capacity_words: Whole | None = None
    fanout: Annotated[tuple[Whole, Whole], Meta(description="[X, Y]")] | None = None

    def given(self) -> dict[str, Any]:
        """The sizes that are given, by name."""
        out: dict[str, Any] = {} if self.capacity_words is None else {"capacity_words": self.capacity_words}
        return out if self.fanout is None else {**out, "fanout": list(self.fanout)}


class FixedChipletForm(Form):
    """A chiplet that is there in any case; its sizes are searched unless something here fixes them."""

    template: Text
    tile: Index | None = None
    sizes: Literal["free", "largest"] | None = None
    levels: dict[str, SizesForm | None] | None = None


class FixedPackageForm(Form):
    """Chiplets that are there in any case, and whether there may be others."""

    chiplets: Annotated[list[FixedChipletForm], Meta(min_length=1, description="one chiplet or more")]
    open: bool | None = None


class PinForm(Form):
    """Layers that must run on a chiplet of the package, by its number, or on certain templates."""

    layers: Text
    chiplet: Index | None = None
    templates: Annotated[list[Text], Meta(description="a list of templates")] | None = None


class RequirementsForm(Form):
    """A `requirements/1` file."""

    format: Literal["requirements/1"] | None = None
    limits: LimitsForm | None = None
    chiplets: CountsForm | None = None
    homogeneous: bool | None = None
    package: FixedPackageForm | None = None
    pin: list[PinForm] | None = None


def load_requirements(path: str | pathlib.Path) -> Requirements:
    """Requirements from a YAML file of the format that this module documents.

    Raises:
        InputError: the file cannot be read, or something in it is wrong.
    """
    return requirements_from_dict(read_yaml(path), file=str(path))


def requirements_from_dict(data: abc.Mapping[str, Any], *, file: str = "") -> Requirements:
    """Requirements from the content of a YAML file.

    Args:
        data: the mapping.
        file: where it comes from, for error messages.

    Raises:
        InputError: an unknown key, a wrong type or a value out of range.
    """
    form = read_form(data, RequirementsForm, file=file or None)
    limits, counts, package = form.limits or LimitsForm(), form.chiplets or CountsForm(), form.package
    *plain_limits, _, _ = msgspec.structs.astuple(limits)
    bounds = [math.inf if bound is None else bound for bound in plain_limits]
    for name in ("chiplet", "least_chiplet"):
        for key in getattr(limits, name) or {}:
            choice(key, list(CHIPLET_MEASURES), what="measure of a chiplet", file=file or None, item=f"limits.{name}")
    rows = package.chiplets if package else []
    for i, row in enumerate(rows):
        if row.sizes == "free" and row.levels is not None:
            raise InputError(
                "are given, and `sizes: free` has them searched",
                file=file or None,
                item=f"package.chiplets[{i}].levels",
                remedy="leave one of the two out",
            )
    of_template = {name: entry or TemplateCountsForm() for name, entry in (counts.templates or {}).items()}
    return Requirements(
        limits=(bounds[0], bounds[1], bounds[2], bounds[3]),
        least=1 if counts.least is None else counts.least,
        most=counts.most,
        template_least={name: entry.least for name, entry in of_template.items() if entry.least is not None},
        template_most={name: entry.most for name, entry in of_template.items() if entry.most is not None},
        homogeneous=bool(form.homogeneous),
        chiplets=_chiplets(rows),
        open=package is None or package.open is not False,
        pins=tuple(
            Pin(pin.layers, pin.chiplet, None if pin.templates is None else tuple(pin.templates))
            for pin in form.pin or ()
        ),
        file=file,
        tenant_limits=(bounds[4], bounds[5], bounds[6]),
        chiplet_limits=limits.chiplet or {},
        chiplet_floors=limits.least_chiplet or {},
    )


def _chiplets(rows: Sequence[FixedChipletForm]) -> tuple[FixedChiplet, ...]:
    """Fixed chiplets; those without a tile take the first tiles that no other row names."""
    taken = {row.tile for row in rows}
    out: list[FixedChiplet] = []
    for row in rows:
        levels: dict[str, dict[str, Any]] | None = {} if row.sizes == "largest" else None
        if row.levels is not None:
            levels = {name: sizes.given() if sizes else {} for name, sizes in row.levels.items()}
        tile = next(t for t in itertools.count() if t not in taken) if row.tile is None else row.tile
        taken.add(tile)
        out.append(FixedChiplet(row.template, tile, levels))
    return tuple(out)
