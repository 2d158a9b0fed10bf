"""What a user demands of every design: limits, numbers of chiplets, a fixed or partly fixed package, pinned layers.

Format `requirements/1` (YAML; every key may be left out):

```yaml
format: requirements/1
limits:
  latency_s: 0.1
  energy_J: 0.5
  area_mm2: 60
  power_W: 10                # energy over latency
  worst_lateness_s: 0        # of networks with deadlines; 0: all are kept
  missed_deadlines: 1
  weighted_latency_s: 0.05   # mean of the networks' latencies by weight
chiplets:
  least: 2
  most: 8
  templates: {shidiannao: {most: 2}}
homogeneous: false           # true: all chiplets of one design have the same template
package:                     # chiplets that are there in any case, tile by tile
  open: true                 # may the search add chiplets on other tiles?
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

Tiles give the order in which chiplets stand on the mesh: empty ones are squeezed out, as in every design.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections import abc
from collections.abc import Sequence
from typing import Any

from mohamjax.errors import InputError
from mohamjax.reader import Fields, number, read_yaml

__all__ = [
    "LIMITS",
    "TENANT_LIMITS",
    "FixedChiplet",
    "Pin",
    "Requirements",
    "load_requirements",
    "requirements_from_dict",
]


LIMITS = ("latency_s", "energy_J", "area_mm2", "power_W")
"""What may be limited: the objectives in their order, and energy over latency."""

TENANT_LIMITS = ("worst_lateness_s", "missed_deadlines", "weighted_latency_s")
"""What may be limited of what the users of the networks get (`schedule.tenants`)."""


@dataclasses.dataclass(frozen=True)
class FixedChiplet:
    """A chiplet that every design has.

    Attributes:
        template: name of its template.
        tile: where it stands.
        levels: per level name, `capacity_words` and `fanout` that are given; None where its sizes are searched.
    """

    template: str
    tile: int
    levels: abc.Mapping[str, abc.Mapping[str, Any]] | None = None


@dataclasses.dataclass(frozen=True)
class Pin:
    """Layers that must run in certain places.

    Attributes:
        layers: pattern over `network/layer` names, as of a shell.
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
        tenant_limits: upper bounds in the order of `TENANT_LIMITS`.
        least: fewest chiplets.
        most: most chiplets, or None.
        template_least: fewest chiplets of a template, by name.
        template_most: most chiplets of a template, by name.
        homogeneous: all chiplets of a design have one template.
        chiplets: those that are fixed.
        open: the search may add others.
        pins: layers that must run in certain places.
        file: where it was read, for complaints.
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

    def complaint(self, reason: str, item: str, remedy: str) -> InputError:
        """An error about these requirements."""
        return InputError(reason, file=self.file or None, item=item, remedy=remedy)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that `requirements_from_dict` reads."""
        out: dict[str, Any] = {"format": "requirements/1"}
        stated = zip((*LIMITS, *TENANT_LIMITS), (*self.limits, *self.tenant_limits), strict=True)
        limits = {k: v for k, v in stated if math.isfinite(v)}
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


def load_requirements(path: str | pathlib.Path) -> Requirements:
    """Requirements from a YAML file as the module documents it.

    Raises:
        InputError: the file cannot be read, or something in it is wrong.
    """
    return requirements_from_dict(read_yaml(path), file=str(path))


def requirements_from_dict(data: abc.Mapping[str, Any], *, file: str = "") -> Requirements:
    """Requirements from what a YAML file holds.

    Args:
        data: the mapping.
        file: where it comes from, for complaints.

    Raises:
        InputError: an unknown key, a wrong type or a value out of range.
    """
    top = Fields(data, ("format", "limits", "chiplets", "homogeneous", "package", "pin"), file=file or None)
    top.choice("format", ("requirements/1",), "format", "requirements/1")
    limits = Fields(top.data.get("limits") or {}, (*LIMITS, *TENANT_LIMITS), file=top.file, where="limits")
    bounds = [limits.number(key, math.inf, exclusive=True) for key in LIMITS]
    late, missed = (limits.number(key, math.inf, integer=key == "missed_deadlines") for key in TENANT_LIMITS[:2])
    weighted = limits.number(TENANT_LIMITS[2], math.inf, exclusive=True)
    counts = Fields(top.data.get("chiplets") or {}, ("least", "most", "templates"), file=top.file, where="chiplets")
    where = counts.path("templates")
    of_template: dict[str, dict[str, int]] = {"least": {}, "most": {}}
    kinds = counts.data.get("templates") or {}
    for name in Fields(kinds, tuple(kinds) if isinstance(kinds, abc.Mapping) else (), file=top.file, where=where).data:
        entry = Fields(kinds[name], ("least", "most"), file=top.file, where=f"{where}.{name}")
        for key, bound in of_template.items():
            if entry.has(key):
                bound[name] = entry.integer(key, minimum=0)
    package = Fields(top.data.get("package") or {}, ("open", "chiplets"), file=top.file, where="package")
    rows = package.sequence("chiplets", ())
    if top.has("package") and not rows:
        raise InputError("is empty", file=file or None, item="package.chiplets", remedy="list the chiplets")
    return Requirements(
        limits=(bounds[0], bounds[1], bounds[2], bounds[3]),
        least=counts.integer("least", 1),
        most=counts.integer("most") if counts.has("most") else None,
        template_least=of_template["least"],
        template_most=of_template["most"],
        homogeneous=top.flag("homogeneous", False),
        chiplets=_read_chiplets(package, rows),
        open=package.flag("open", False) if rows else True,
        pins=_read_pins(top),
        file=file,
        tenant_limits=(late, missed, weighted),
    )


def _read_chiplets(package: Fields, rows: Sequence[Any]) -> tuple[FixedChiplet, ...]:
    keys = ("template", "tile", "sizes", "levels")
    out: list[FixedChiplet] = []
    taken = {row["tile"] for row in rows if isinstance(row, abc.Mapping) and isinstance(row.get("tile"), int)}
    for i, row in enumerate(rows):
        fields = Fields(row, keys, file=package.file, where=package.path(f"chiplets[{i}]"))
        sizes = fields.choice("sizes", ("free", "largest"), "kind of sizes", "free")
        levels: dict[str, dict[str, Any]] | None = {} if sizes == "largest" else None
        if fields.has("levels"):
            given = fields.data["levels"]
            known = tuple(given) if isinstance(given, abc.Mapping) else ()
            by_name = Fields(given, known, file=package.file, where=fields.path("levels"))
            levels = {name: _read_sizes(by_name, name) for name in by_name.data}
        vacant = next(t for t in itertools.count() if t not in taken)
        tile = fields.integer("tile", vacant, minimum=0)
        taken.add(tile)
        out.append(FixedChiplet(fields.text("template"), tile, levels))
    return tuple(out)


def _read_sizes(by_name: Fields, name: str) -> dict[str, Any]:
    fields = Fields(by_name.data[name], ("capacity_words", "fanout"), file=by_name.file, where=by_name.path(name))
    out: dict[str, Any] = {}
    if fields.has("capacity_words"):
        out["capacity_words"] = fields.integer("capacity_words")
    if fields.has("fanout"):
        values = fields.sequence("fanout")
        if len(values) != 2:
            raise InputError(
                f"{len(values)} numbers", file=fields.file, item=fields.path("fanout"), remedy="write [X, Y]"
            )
        item = fields.path("fanout")
        out["fanout"] = [int(number(v, file=fields.file, item=item, minimum=1, integer=True)) for v in values]
    return out


def _read_pins(top: Fields) -> tuple[Pin, ...]:
    out = []
    for i, row in enumerate(top.sequence("pin", ())):
        fields = Fields(row, ("layers", "chiplet", "templates"), file=top.file, where=f"pin[{i}]")
        if not fields.has("chiplet") and not fields.has("templates"):
            raise InputError(
                "says not where to", file=top.file, item=f"pin[{i}]", remedy="add `chiplet` or `templates`"
            )
        out.append(
            Pin(
                layers=fields.text("layers"),
                chiplet=fields.integer("chiplet", minimum=0) if fields.has("chiplet") else None,
                templates=tuple(str(t) for t in fields.sequence("templates")) if fields.has("templates") else None,
            )
        )
    return tuple(out)
