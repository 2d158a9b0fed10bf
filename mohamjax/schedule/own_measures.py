"""User-defined objectives and limits: functions of a design's report, to be minimised or kept below a bound.

Both are strings that carry a function, so that they can be used wherever the name of a measure can: in settings, in a
front, in files. A file or another process has the string alone, which gives name and unit: reports, figures and tables
of results need no more. If the function is needed there, an error says that it is not known.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Hashable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from mohamjax.errors import InputError

if TYPE_CHECKING:
    from mohamjax.schedule.design import DesignReport

OWN = "own:"
"""Prefix of the names of such objectives."""

ReportFunction = Callable[["DesignReport"], jax.Array]
"""Returns a number for one design: a float of shape `()`; traceable by JAX."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_FULL = re.compile(rf"{OWN}({_NAME.pattern})(?:\[(.+)\])?")


class _Told(str):
    """A string that carries a function; equal to another if both parts are, and to a plain string of the same text."""

    function: ReportFunction
    unit: str

    def __eq__(self, other: object) -> bool:
        same = str.__eq__(self, other) if isinstance(other, str) else False
        return same and (not isinstance(other, _Told) or self._content() == other._content())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def _content(self) -> tuple[Any, ...]:
        return tuple(sorted(vars(self).items()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A user's functions can seldom be pickled, so another process gets the string alone."""
        return str, (str(self),)


def _checked(name: object, function: object, unit: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InputError(
            f"is {name!r:.80}", argument="name", remedy="begin with a letter, then letters, digits, _ and -, 40 at most"
        )
    if not callable(function) or not isinstance(function, Hashable):
        raise InputError(
            f"is {function!r:.80}, no function with a hash", argument="value", remedy="give a function of a report"
        )
    if not isinstance(unit, str) or len(unit) > 20 or any(sign in unit for sign in "[]\n"):
        raise InputError(f"is {unit!r:.80}", argument="unit", remedy="give a short text without brackets")


def _amount(value: object, argument: str, *, zero: bool) -> float:
    number = value if isinstance(value, int | float | np.integer | np.floating) else math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        kind = "0 or more" if zero else "above 0"
        raise InputError(f"is {value!r:.80}", argument=argument, remedy=f"give a finite number {kind}")
    return float(number)


class Objective(_Told):
    """An objective of your own for `mj.search(problem, objectives=(...))`: minimised like latency, energy and area.

    Args:
        name: for files and figures: a letter, then letters, digits, `_` and `-`.
        value: a function of one design's `DesignReport` that gives a float of shape `()`; JAX traces it.
        extent: the least that any design can have and the most that is worth looking at, in the objective's unit, both
            above 0 with `offset` added. They span the box in which the hypervolume is measured; designs beyond the most
            count nothing. They need not be exact, but with ends that are orders of magnitude from all designs, all
            hypervolumes look alike (docs/extending.md says how to choose them).
        unit: for files and figures, such as `J s`; empty for counts and shares.
        offset: what is added before a logarithm is taken; needed where a value may be zero or less.

    Raises:
        InputError: names the argument that is wrong.

    Examples:
        >>> def energy_delay(report):
        ...     return report.objectives[0] * report.objectives[1]
        >>> mj.Objective("edp", energy_delay, (1e-9, 1.0), unit="J s")
        Objective('own:edp[J s]')
    """

    extent: tuple[float, float]
    offset: float

    def __new__(
        cls,
        name: str,
        value: ReportFunction,
        extent: tuple[float, float],
        *,
        unit: str = "",
        offset: float = 0.0,
    ) -> Self:
        """Checks everything; see the class."""
        _checked(name, value, unit)
        added = _amount(offset, "offset", zero=True)
        if not isinstance(extent, tuple | list) or len(extent) != 2:
            raise InputError(f"is {extent!r:.80}", argument="extent", remedy="give the least and the most")
        least, most = (_amount(end + added if added else end, "extent", zero=False) - added for end in extent)
        if least >= most:
            raise InputError(f"is {extent!r:.80}", argument="extent", remedy="give the least, then a larger most")
        made = super().__new__(cls, f"{OWN}{name}[{unit}]" if unit else f"{OWN}{name}")
        vars(made).update(function=value, unit=unit, extent=(least, most), offset=added)
        return made

    def __repr__(self) -> str:
        return f"Objective({str(self)!r})"


class Limit(_Told):
    """A limit of your own for `mj.search(problem, limits=(...))`: kept like the limits of the requirements.

    Args:
        name: for error messages and `config.yaml`: a letter, then letters, digits, `_` and `-`.
        value: a function of one design's `DesignReport` that gives a float of shape `()`; JAX traces it.
        most: the value that no design may exceed, above 0.
        unit: for `config.yaml`.

    Raises:
        InputError: names the argument that is wrong.

    Examples:
        >>> mj.Limit("largest", lambda report: report.chiplets.area.max() * 1e-6, 20, unit="mm²")
        Limit('largest<=20 mm²')
    """

    name: str
    most: float

    def __new__(cls, name: str, value: ReportFunction, most: float, *, unit: str = "") -> Self:
        """Checks everything; see the class."""
        _checked(name, value, unit)
        bound = _amount(most, "most", zero=False)
        made = super().__new__(cls, f"{name}<={bound:g} {unit}".strip())
        vars(made).update(function=value, unit=unit, name=name, most=bound)
        return made

    def __repr__(self) -> str:
        return f"Limit({str(self)!r})"


def parts_of(full: str) -> tuple[str, str] | None:
    """Name and unit of a user-defined objective; None for other names."""
    found = _FULL.fullmatch(full)
    return None if found is None else (found[1], found[2] or "")


@functools.lru_cache(64)
def _on_host(function: ReportFunction, axes: int) -> Callable[[DesignReport], jax.Array]:
    for _ in range(axes):
        function = jax.vmap(function)
    return jax.jit(function)


def value_of(own: _Told, report: DesignReport, xp: ModuleType = jnp) -> jax.Array:
    """Value of an objective or limit, `[...]` float, for a report with leading axes `[...]`.

    If `xp` is NumPy, it is computed in double precision and returned as a NumPy array.
    """
    axes = np.ndim(report.objectives) - 1
    if xp is np:
        with jax.enable_x64(True):
            return np.asarray(_on_host(own.function, axes)(report), np.float64)  # pyright: ignore[reportReturnType]
    function = own.function
    for _ in range(axes):
        function = jax.vmap(function)
    return function(report)


def excess_over(limits: tuple[Limit, ...], report: DesignReport, tolerance: float) -> jax.Array:
    """`[]` float, by how much one design exceeds limits: sum of the logarithms of the factors, inf if one is NaN."""
    total = jnp.zeros((), report.objectives.dtype)
    for limit in limits:
        value = value_of(limit, report).astype(total.dtype)
        least = jnp.finfo(total.dtype).tiny
        over = jnp.maximum(jnp.log(jnp.maximum(value, least) / limit.most) - tolerance, 0.0)
        total += jnp.where(jnp.isnan(value), jnp.inf, over)
    return total


def check_functions(told: tuple[_Told, ...], report: DesignReport, argument: str) -> None:
    """Checks that functions return one float for one design.

    Args:
        told: objectives or limits.
        report: shapes and dtypes of one design's report (`jax.eval_shape`).
        argument: the argument that they were given as, for the error message.

    Raises:
        InputError: names the objective or limit, and what its function does.
    """
    for own in told:
        remedy = "return one float of shape () of one design's report, made of jax.numpy operations"
        try:
            found = jax.eval_shape(own.function, report)
        except Exception as error:
            first = str(error).strip().splitlines() or [""]
            reason = f"{own}: its function cannot be traced by JAX ({type(error).__name__}: {first[0]:.200})"
            raise InputError(reason, argument=argument, remedy=remedy) from error
        shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
        if shape != () or dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            what = f"{dtype}{list(shape)}" if shape is not None else type(found).__name__
            raise InputError(f"{own}: its function returns {what}", argument=argument, remedy=remedy)
