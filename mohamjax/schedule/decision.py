"""Which design of a front to build: the designs that meet a target, and what one step further would cost.

A target says what a system must do, such as `latency<=33ms,area<=20mm2` or `fps:yolov3_416>=30`. Of the designs that
meet it, the smallest, the most frugal and the fastest are named. The smallest is recommended, with one step from it
towards less latency and one towards less energy. A target is checked against rows of `front.csv`, of a front in memory
or of a results folder, which takes no time.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mohamjax.errors import InputError
from mohamjax.reader import suggestion
from mohamjax.schedule.front_bounds import Certificate
from mohamjax.schedule.measures import MEASURES, of_frames

Row = abc.Mapping[str, Any]

_UNITS = {
    "latency": {"s": 1.0, "ms": 1e-3, "us": 1e-6},
    "energy": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6},
    "area": {"mm2": 1.0, "mm^2": 1.0, "cm2": 100.0},
    "power": {"W": 1.0, "mW": 1e-3},
    "fps": {"": 1.0},
    "period": {"s": 1.0, "ms": 1e-3, "us": 1e-6},
}
"""Names that a target may use, their units, and the factors of these to s, J, mm^2, W and frames per second."""

_CLAUSE = re.compile(
    r"(?P<name>[A-Za-z][\w-]*)(?::(?P<network>.+?))?\s*(?P<sign><=|>=)\s*(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[A-Za-z].*)?"
)
_PERIOD = "period_s"
_EXAMPLE = "write for example latency<=33ms,area<=20mm2 or fps:NETWORK>=30"
_ARGUMENT = "target"

STEP = 0.9
"""A step leads to a design with at most this share of the latency or energy of the recommended one."""

_LEAST_OF = {"smallest": "area_mm2", "most frugal": "energy_J", "fastest": "latency_s"}
"""The designs that a decision names among those that meet the target, and the column that each has least of."""


def power(row: Row, rate: float | None) -> float:
    """Average power of a design [W] at `rate` frames per second, or (None) with one frame right after the other."""
    return row["energy_J"] / row["latency_s"] if rate is None else row["energy_J"] * rate


@dataclasses.dataclass(frozen=True)
class Clause:
    """One demand of a target.

    Attributes:
        text: the demand as written.
        name: `latency`, `energy`, `area`, `power` or `fps`; if searched for, `period` or a user-defined objective.
        network: the network whose latency is meant, or one over it as frames per second; None for all of them
            together.
        bound: the bound in s, J, mm^2, W or frames per second.
        unit: the unit as written.
        rate: for `power`, the frames per second that the target also demands; None where it demands none.
        column: column in `front.csv` of a user-defined objective, in whose unit `bound` is; None for all others.
    """

    text: str
    name: str
    network: str | None
    bound: float
    unit: str
    rate: float | None = None
    column: str | None = None

    def reached(self, rows: Sequence[Row]) -> np.ndarray:
        """`[N]` float, what designs reach, in the unit of the bound."""
        if self.name == "power":
            return np.asarray([power(row, self.rate) for row in rows], float)
        known = {"energy": "energy_J", "area": "area_mm2", "period": _PERIOD}
        column = self.column or known.get(self.name, "latency_s")
        if self.network is not None:
            column = f"latency_s_{self.network}"
        for row in rows:
            if isinstance(row[column], str):  # as a reader of `front.csv` leaves what is no number
                told = f"{column} of design {row['design_id']} is {row[column]!r}, not a number"
                raise InputError(told, item="front.csv", remedy=f"mend it, or leave out the demand {self.text}")
        values = np.asarray([row[column] for row in rows], float)
        return 1.0 / values if self.name == "fps" else values

    def excess(self, rows: Sequence[Row]) -> np.ndarray:
        """`[N]` float >= 0, logarithm of the factor by which designs miss the bound; 0 where they meet it."""
        reached = self.reached(rows)
        if self.column is not None:  # may be zero or less, and then meets every bound
            reached = np.maximum(reached, np.finfo(float).tiny)
        missed = np.log(reached / self.bound)
        return np.maximum(-missed if self.name == "fps" else missed, 0.0)

    def told(self, value: float) -> str:
        """A reached value as text, in the unit of the target."""
        factor = 1.0 if self.column else _UNITS[self.name][self.unit]
        # Enough digits to tell the value from the bound.
        digits = next((n for n in (4, 7, 12) if f"{value / factor:.{n}g}" != f"{self.bound / factor:.{n}g}"), 17)
        return f"{value / factor:.{digits}g} {self.unit}".strip()

    def kept(self, rows: Sequence[Row]) -> np.ndarray:
        """`[N]` bool, whether designs meet the bound."""
        reached = self.reached(rows)
        return reached >= self.bound if self.name == "fps" else reached <= self.bound


@dataclasses.dataclass(frozen=True)
class Step:
    """What one step beyond the recommended design would bring and cost.

    Attributes:
        of: what it reduces, `latency` or `energy`.
        row: row of the design that it leads to.
        design_id: identifier of that design.
        gain: share of the latency or energy that it saves.
        area_mm2: area that it adds [mm^2].
    """

    of: str
    row: int
    design_id: int | str
    gain: float
    area_mm2: float

    def __str__(self) -> str:
        """The step as text."""
        return f"design {self.design_id} has {self.gain:.0%} less {self.of} for {self.area_mm2:.4g} mm^2 more"


@dataclasses.dataclass(frozen=True)
class Decision:
    """The result of checking the designs of a front against a target.

    Attributes:
        rows: rows of the front, as in `front.csv`.
        clauses: the demands of the target.
        kept: rows of the designs that meet it.
        named: row of the `smallest`, the `most frugal` and the `fastest`; empty where no design meets the target.
        steps: steps from the smallest design, where the front has them.
        nearest: row of the design that misses the target least; that of the smallest where some meet it.
        hopeless: why no design can meet the target, where bounds prove that; else None.
    """

    rows: Sequence[Row] = dataclasses.field(repr=False)
    clauses: tuple[Clause, ...]
    kept: tuple[int, ...]
    named: dict[str, int]
    steps: tuple[Step, ...]
    nearest: int
    hopeless: str | None = None

    def __str__(self) -> str:
        """As text: the named designs, one per line, and the steps; or what the nearest design misses."""
        wanted = ", ".join(clause.text for clause in self.clauses)
        if not self.kept:
            nearest = self.rows[self.nearest]["design_id"]
            return f"no design meets {wanted}; design {nearest} comes nearest and misses {self.missed}"
        lines = [f"{len(self.kept)} of {len(self.rows)} designs meet {wanted}"]
        for role, i in self.named.items():
            row = self.rows[i]
            sizes = f"{row['latency_s']:.4g} s, {row['energy_J']:.4g} J, {row['area_mm2']:.4g} mm^2"
            lines.append(f"{role}: design {row['design_id']}, {sizes}")
        return "\n".join([*lines, *(f"one step further: {step}" for step in self.steps)])

    @property
    def recommended(self) -> Row | None:
        """The smallest design that meets the target; None where none does."""
        return self.rows[self.named["smallest"]] if self.kept else None

    @property
    def rate(self) -> float | None:
        """Frames per second that the target demands of all networks; None where it demands none."""
        return _rate(self.clauses)

    @property
    def missed(self) -> str:
        """The demands that the nearest design misses, and what it reaches instead, as text."""
        nearest = [self.rows[self.nearest]]
        return ", ".join(
            f"{clause.text} (it reaches {clause.told(clause.reached(nearest)[0])})"
            for clause in self.clauses
            if not clause.kept(nearest)[0]
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the target, how many designs meet it, and the named rows."""
        rows, best = self.rows, self.recommended
        return {
            "target": [clause.text for clause in self.clauses],
            "kept": len(self.kept),
            "recommended": None if best is None else best["design_id"],
            "designs": {role: dict(rows[row]) for role, row in self.named.items()},
            "steps": [
                {"less": step.of, "share": step.gain, "area_mm2": step.area_mm2, "design": dict(rows[step.row])}
                for step in self.steps
            ],
            "nearest": dict(rows[self.nearest]),
            "hopeless": self.hopeless,
        }


def read_target(
    text: str, networks: Sequence[str], objectives: Sequence[str] = (), own: Sequence[str] = ()
) -> tuple[Clause, ...]:
    """The demands of a target.

    Args:
        text: demands separated by commas: `latency`, `energy`, `area`, `power` or `fps`, for latency and fps optionally
            `:NETWORK`, then `<=` (`>=` for fps) and a number with its unit. Frames per second are one over the latency,
            of all networks or of one; the package takes its next frame only when all networks have ended, so that it
            need not keep up that of one. `period` may be used if it is an objective. Power is that of running one
            frame right after the other, or, with a demand on `fps` of all networks, at that many frames per second.
        networks: names of the networks.
        objectives: objectives of the search.
        own: columns of user-defined objectives, which a target may name: with `<=`, and with their own unit or none.

    Raises:
        InputError: a demand cannot be read, or names something unknown.
    """
    # Names of networks may contain commas: a comma ends a demand only after the demand's sign.
    parts = re.findall(r"[^<>]+[<>]=[^,<>]*(?:,|$)", text)
    if not parts or "".join(parts) != text:
        raise InputError(f"cannot be read: {text!r}", argument=_ARGUMENT, remedy=_meant(text))
    clauses = tuple(_clause(part.removesuffix(",").strip(), networks, own) for part in parts)
    if "period" not in objectives and (asked := [clause.text for clause in clauses if clause.name == "period"]):
        raise InputError(
            f"{asked[0]!r} names no objective of the search",
            argument=_ARGUMENT,
            remedy="search with period in the argument `objectives`, or demand fps, which is one over the latency",
        )
    rate = _rate(clauses)
    powers = [clause.text for clause in clauses if clause.name == "power"]
    if powers and rate is None and of_frames(objectives):
        raise InputError(
            f"{powers[0]!r} means energy over latency, which is not the power of frames that overlap",
            argument=_ARGUMENT,
            remedy="leave it out, or demand fps beside it, whose power is known",
        )
    return tuple(dataclasses.replace(clause, rate=rate) if clause.name == "power" else clause for clause in clauses)


def _meant(text: str) -> str:
    """A remedy for a target that cannot be read."""
    if re.search(r"[<>](?!=)|(?<![<>])=|[≤≥]", text):
        return f"demand with <= or >=, no other sign: {_EXAMPLE}"
    return f"write a comma between demands: {_EXAMPLE}" if re.search(r"[;&]|\band\b", text) else _EXAMPLE


def _rate(clauses: Sequence[Clause]) -> float | None:
    return max((clause.bound for clause in clauses if clause.name == "fps" and clause.network is None), default=None)


def _clause(text: str, networks: Sequence[str], own: Sequence[str]) -> Clause:
    def refused(why: str, remedy: str) -> InputError:
        return InputError(f"{text!r} {why}", argument=_ARGUMENT, remedy=remedy)

    match = _CLAUSE.fullmatch(text)
    if match is None:
        raise refused("cannot be read", _EXAMPLE)
    name, network, sign, unit = match["name"], match["network"], match["sign"], match["unit"] or ""
    columns = [] if name in _UNITS else [c for c in own if c == name] or [c for c in own if _named(c) == name]
    if name not in _UNITS and len(columns) != 1:
        if columns:
            raise refused("may mean several objectives", f"write {' or '.join(columns)} for {name}")
        known = [*_UNITS, *map(_named, own), *own]
        same = next((word for word in known if word.lower() == name.lower()), None)
        raise refused(
            "names nothing that a design has", suggestion(name, known) if same is None else f"did you mean {same!r}?"
        )
    wanted = ">=" if name == "fps" else "<="
    if sign != wanted:
        raise refused(f"demands the wrong side of {name}", f"write {name}{wanted}")
    if columns:
        written = columns[0].removeprefix(name).removeprefix("_")
        if unit and re.sub(r"\W", "", unit) not in (written, columns[0].rpartition("_")[2]):
            raise refused(f"has the unit {unit!r}", f"leave it out: {columns[0]} has a unit of its own")
        if network is not None:
            raise refused("is of one network", f"leave {network!r} out: only latency and fps are known by network")
        bound = float(match["number"])
        if not (bound > 0 and math.isfinite(bound)):
            raise refused(f"demands {bound:g}", "give a number above 0")
        return Clause(text, name, None, bound, unit, column=columns[0])
    if unit not in _UNITS[name]:
        known = ", ".join(u for u in _UNITS[name] if u) or "none"
        raise refused(f"has the unit {unit!r}" if unit else "has no unit", f"units of {name}: {known}")
    if network is not None and name not in ("latency", "fps"):
        raise refused("is of one network", f"leave {network!r} out: only latency and fps are known network by network")
    if network is not None and network not in networks:
        raise refused(f"names the network {network!r}", suggestion(network, list(networks)))
    bound = float(match["number"]) * _UNITS[name][unit]
    if not (bound > 0 and math.isfinite(bound)):
        raise refused(f"demands {bound:g}", "give a number above 0")
    return Clause(text, name, network, bound, unit)


def _most(clauses: Sequence[Clause]) -> tuple[float, float, float]:
    """Upper limits of latency [s], energy [J] and area [mm^2] that a target sets; inf where it sets none.

    Demands on one network set no limit here, as the package may end later than that network.
    """
    limits: dict[str, float] = dict.fromkeys(("latency", "energy", "area"), math.inf)
    for clause in clauses:
        of_bounds = clause.network is None and clause.column is None
        if of_bounds and clause.name != "period" and not (clause.name == "power" and clause.rate is None):
            name, bound = clause.name, clause.bound
            if name == "fps":
                name, bound = "latency", 1 / bound
            elif clause.rate is not None:
                name, bound = "energy", bound / clause.rate
            limits[name] = min(limits[name], bound)
    return limits["latency"], limits["energy"], limits["area"]


def networks_of(rows: Sequence[Row]) -> list[str]:
    """Names of the networks whose latencies are in rows of `front.csv`."""
    prefix = "latency_s_"
    return [column.removeprefix(prefix) for column in rows[0] if column.startswith(prefix)]


def _named(column: str) -> str:
    """The name of a user-defined objective: its column without the last part, which may be a unit."""
    return column.rpartition("_")[0] or column


def own_columns(rows: Sequence[Row]) -> list[str]:
    """Columns of rows of `front.csv` that are user-defined objectives."""
    known = {"design_id", *(measure.column for measure in MEASURES.values())}
    others = (column for column in rows[0] if column not in known)
    return [column for column in others if not column.startswith(("n_", "latency_s_"))]


def _identifier(stated: object) -> int | str:
    """A `design_id` as the number that searches write, or as text if it is another name."""
    text = str(int(stated) if isinstance(stated, float) and stated.is_integer() else stated)
    return int(text) if text.isdecimal() and len(text) < 19 else text


def decide(
    rows: Sequence[Row],
    target: str,
    certificate: Certificate | Callable[[], Certificate | None] | None = None,
) -> Decision:
    """The designs of a front that meet a target, those of them to look at, and what one step further would cost.

    Args:
        rows: rows of `front.csv`, from `io.front_rows` or `io.read_results`.
        target: see `read_target`.
        certificate: bounds of the search, which may prove that no design can meet the target; or a function that gives
            them, called only where no design of the front does.

    Raises:
        InputError: the target cannot be read, or there is no design.
    """
    if not rows:
        raise InputError("there are no designs to choose from", item="front", remedy="give a front that holds some")
    rows = [{**row, "design_id": _identifier(row["design_id"])} for row in rows]
    searched = tuple(name for name, measure in MEASURES.items() if measure.frames and measure.column in rows[0])
    clauses = read_target(target, networks_of(rows), searched, own_columns(rows))
    kept = np.flatnonzero(np.all([clause.kept(rows) for clause in clauses], axis=0))
    if not kept.size:
        excess = np.sum([clause.excess(rows) for clause in clauses], axis=0)
        bounds = certificate() if callable(certificate) else certificate
        hopeless = None if bounds is None else bounds.out_of_reach(_most(clauses))
        return Decision(rows, clauses, (), {}, (), int(np.argmin(excess)), hopeless)
    columns = {name: np.asarray([row[name] for row in rows], float) for name in _LEAST_OF.values()}
    # Ties go to the smaller design, then to the more frugal one: the target already says what is fast enough.
    named = {}
    for role, column in _LEAST_OF.items():
        others = [columns[name][kept] for name in reversed(columns) if name != column]
        named[role] = int(kept[np.lexsort([*others, columns[column][kept]])[0]])
    smallest = named["smallest"]
    area, steps = columns["area_mm2"], []
    for of, column in (("latency", "latency_s"), ("energy", "energy_J")):
        values = columns[column]
        further = kept[values[kept] <= STEP * values[smallest]]
        if further.size:
            row = int(further[np.argmin(area[further])])
            gain, more = 1 - values[row] / values[smallest], area[row] - area[smallest]
            steps.append(Step(of, row, rows[row]["design_id"], round(float(gain), 12), round(float(more), 12)))
    return Decision(rows, clauses, tuple(kept.tolist()), named, tuple(steps), smallest)
